#!/usr/bin/env python3
"""roundtrip.py TARND [--bodies N] [--seed N] [--clients N] [--only N] -- every form of random bodies is the same bytes.

Bodies of 0 bytes to 64 MiB (roundtrip_origin.py): text, JSON, HTML, noise, runs, versions of one another; packed by
their origin or not, with every kind of validator.  Each is requested as it is, in gzip, br, zstd and, where it is a
version of another one, by that one as dictionary (dcz), first and again, until tarnd has made the forms in the
background.  What comes is decoded by zlib, by Python's brotli and zstandard, some of it by `curl --compressed`, and
compared with what the origin has.  Of each form that was seen: HEAD, conditions with its own and with others'
validators, and ranges, compared with the bytes of that very form.  The store is smaller than all bodies, so some leave.

    t/e2e/roundtrip.py build/bin/tarnd --bodies 10000 --seed 7

The bodies and what is asked of them follow from the seed; `--only N` does body N alone.
"""
import argparse
import base64
import collections
import hashlib
import multiprocessing
import os
import random
import re
import shutil
import socket
import subprocess
import sys
import time
import traceback
import zlib

SYSTEM_PYTHON = "/usr/bin/python3"
try:
    import brotli
    import zstandard
except ImportError:
    if os.path.exists(SYSTEM_PYTHON) and not os.path.samefile(sys.executable, SYSTEM_PYTHON):
        os.execv(SYSTEM_PYTHON, [SYSTEM_PYTHON, *sys.argv])  # the distribution's packages are its own Python's
    sys.exit("roundtrip: python3-brotli and python3-zstandard are missing (scripts/install-deps --test)")

sys.dont_write_bytecode = True
import tarnd
from roundtrip_origin import KI, LARGE, MI, Body, Origin

PATIENCE_S = 3 * tarnd.PATIENCE_S  # for a form: it is made at the least priority
BURST = 16  # requests that are hits: one of eight is looked at
BROWSERS = "gzip, deflate, br, zstd"
DCZ = BROWSERS + ", dcb, dcz"
DCZ_HEAD = bytes.fromhex("5e2a4d1820000000")
# A form is expected if Python's packer saves so much: tarnd keeps what saves a 32nd.
SAVED = 0.9
FORM_MIN = 256
FORM_STORE = 512  # of the store: beyond that making it would take too much of its memory

CONFIG = """\
    h2c: on
workers: 2
storage:
  main: {{ engine: malloc, size: {store}MiB }}
backends:
  default: {{ address: "127.0.0.1:{port}" }}
compress: {{ formats: [gzip, br, zstd], background_cpu: 100%, states: 64 }}
routes:
  - {{ path: /d/, dictionary: "/d/*" }}
parameters: {{ max_object_size: 20MiB, timeout_idle: 300s }}
admin: {{ address: "unix:{{dir}}/admin.sock" }}
"""


class Wrong(AssertionError):
    pass


class Answer:
    def __init__(self, status, fields, body):
        self.status, self.fields, self.body = status, fields, body

    @property
    def coding(self):
        return self.fields.get("content-encoding")

    @property
    def is_hit(self):
        return "tarn; hit" in self.fields.get("cache-status", "")

    @property
    def tag(self):
        return self.fields.get("etag")


class Client:
    """One connection, anew where the last one was closed."""

    def __init__(self, port, host="x"):
        self.port, self.host, self.f, self.sock = port, host, None, None

    def close(self):
        if self.sock is not None:
            self.f.close()
            self.sock.close()
        self.f = self.sock = None

    def send(self, data):
        if self.sock is None:
            self.sock = socket.create_connection(("127.0.0.1", self.port), tarnd.PATIENCE_S)
            self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.f = self.sock.makefile("rb", 65536)
        self.sock.sendall(data)

    def request(self, path, coding, method="GET", **fields):
        lines = [f"{method} {path} HTTP/1.1", f"Host: {self.host}"] + ([f"Accept-Encoding: {coding}"] if coding else [])
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in fields.items() if value is not None]
        return ("\r\n".join(lines) + "\r\n\r\n").encode()

    def head(self):
        line = self.f.readline()
        if not line:
            raise EOFError("closed")
        fields = {}
        while (text := self.f.readline()) not in (b"\r\n", b""):
            name, _, value = text.decode("latin-1").partition(":")
            name, value = name.lower(), value.strip()
            fields[name] = f"{fields[name]}, {value}" if name in fields else value
        return int(line.split()[1]), fields

    def ask(self, path, coding=None, method="GET", **fields):
        self.send(self.request(path, coding, method, **fields))
        status, got = self.head()
        body = b"" if method == "HEAD" or status in (204, 304) else self.body(got)
        if got.get("connection", "").lower() == "close":
            self.close()
        return Answer(status, got, body)

    def body(self, fields):
        if fields.get("transfer-encoding") == "chunked":
            out = bytearray()
            while n := int(self.f.readline(), 16):
                out += self.exactly(n)
                self.exactly(2)
            self.exactly(2)
            return bytes(out)
        return self.exactly(int(fields["content-length"]))

    def exactly(self, n):
        data = self.f.read(n)
        if len(data) != n:
            raise EOFError(f"cut: {len(data)} of {n}")
        return data

    def hits(self, path, coding, n=BURST, **fields):
        """That many heads at once; the last one's coding."""
        self.send(self.request(path, coding, "HEAD", **fields) * n)
        for _ in range(n):
            last = self.head()[1]
        return last.get("content-encoding")


def pieces(data, dice):
    """Each piece, and whether it is the last: a decoder must not end before it."""
    at = 0
    while at < len(data):
        n = min(len(data) - at, dice.choice((1, 100, 4096, 65536, 1 + len(data) // 4)) if at + MI < len(data) or len(data) < 65536
                else 1 + len(data) // 3)
        at += n
        yield data[at - n:at], at == len(data)


def ungzip(data, dice):
    out, z = [], zlib.decompressobj(31)
    for piece, _ in pieces(data, dice):
        while piece:
            if z.eof:  # one more member
                z = zlib.decompressobj(31)
            out.append(z.decompress(piece))
            piece = z.unused_data
    if not z.eof:
        raise Wrong("gzip has no end")
    return b"".join(out)


def unbrotli(data, dice):
    out, d = [], brotli.Decompressor()
    for piece, is_last in pieces(data, dice):
        out.append(d.process(piece))  # raises if something is behind its end
        if d.is_finished() != is_last:
            raise Wrong(f"br ends {'late' if is_last else 'early'}")
    return b"".join(out)


def unzstd(data, dice, dictionary=None):
    by = dictionary and zstandard.ZstdCompressionDict(dictionary, dict_type=zstandard.DICT_TYPE_RAWCONTENT)
    out, d = [], zstandard.ZstdDecompressor(dict_data=by, max_window_size=1 << 27).decompressobj()
    for piece, is_last in pieces(data, dice):
        out.append(d.decompress(piece))
        if d.eof != is_last or d.unused_data:
            raise Wrong(f"zstd ends {'late' if is_last else 'early'}")
    return b"".join(out)


def undcz(data, dice, dictionary):
    if data[:40] != DCZ_HEAD + hashlib.sha256(dictionary).digest():
        raise Wrong("dcz names another dictionary")
    return unzstd(data[40:], dice, dictionary)


def decode(answer, dice, dictionary=None):
    coding = answer.coding
    if coding is None:
        return answer.body
    if coding == "dcz":
        return undcz(answer.body, dice, dictionary)
    return {"gzip": ungzip, "br": unbrotli, "zstd": unzstd}[coding](answer.body, dice)


def accepts(coding):
    """As we say it: without weights."""
    return set((coding or "").split(", "))


def content_range(text):
    """(first, last, of how many: None if that is not known yet)"""
    first, last, complete = re.fullmatch(r"bytes (\d+)-(\d+)/(\d+|\*)", text).groups()
    return int(first), int(last), None if complete == "*" else int(complete)


def opaque(tag):
    return tag and tag.removeprefix("W/")


class Checks:
    """One client process: one body after the other."""

    def __init__(self, port, options):
        self.client, self.port, self.seed = Client(port), port, options.seed
        self.form_max = options.store * MI // FORM_STORE
        self.n = collections.Counter()
        self.b = self.want = self.packs = self.dice = self.old = self.said = None

    def run(self, number):
        self.b = b = Body(self.seed, number)
        self.want, self.dice = b.plain(), random.Random(f"{self.seed} {number} asks")
        self.packs = b.is_packed(self.want)
        self.old, self.said = None, {}
        try:
            self.one()
        except Exception:  # whatever it is, the body and its seed are to be known
            self.client.close()
            return f"{b}:\n{traceback.format_exc()}"
        self.n["bodies"] += 1
        return None

    def holds(self, it, *what):
        if not it:
            raise Wrong(*what)

    def same(self, answer, want=None):
        want = self.want if want is None else want
        got = decode(answer, self.dice, self.old)
        self.holds(hashlib.sha256(got).digest() == hashlib.sha256(want).digest(),
                   "other bytes", len(got), len(want), answer.fields)

    # ---- answers ----

    def get(self, coding, **fields):
        """All of it, compared; its fields fit its body."""
        b = self.b
        answer = self.client.ask(b.path, coding, **self.said, **fields)
        self.holds(answer.status == 200, answer.status, coding, fields)
        self.same(answer)
        self.n[f"as {answer.coding or 'identity'}"] += 1
        # What there was no room for is passed, and comes as the origin has it (docs/compression.md).
        passed = not answer.is_hit and "; stored" not in answer.fields["cache-status"]
        if answer.coding is not None and b.coding not in ("br", "zstd") and b.stored and not passed:
            self.holds(answer.coding in accepts(coding), "not accepted", coding, answer.fields)
        # Of the origin's parts a whole may have come, which is then stored as it is.
        packs = self.packs and b.stored and not passed and not (b.ranges and answer.coding is None)
        if packs and "gzip" in accepts(coding):
            self.holds(answer.coding is not None, "not packed", coding, answer.fields)
        if packs or answer.coding and b.coding not in ("br", "zstd") and b.stored and not passed:
            self.holds("Accept-Encoding" in answer.fields.get("vary", ""), "Vary", answer.fields)
        if packs and b.tag:
            self.holds(answer.tag == f'W/"{b.name()}"', "a strong ETag for several forms", answer.fields)
        elif b.coding != "negotiated":
            self.holds(opaque(answer.tag) == (f'"{b.name()}"' if b.tag else None), "ETag", answer.fields)
        return answer

    def expected(self, coding, gzipped):
        """Must tarnd make it?  What is packed well already it need not."""
        b = self.b
        if (not b.stored or "no-transform" in b.control or not FORM_MIN <= gzipped or not FORM_MIN < b.size <= self.form_max):
            return False
        mine = (brotli.compress(self.want, quality=5) if coding == "br" else
                zstandard.ZstdCompressor(level=9).compress(self.want))
        return len(mine) < SAVED * gzipped

    def hit_until(self, coding, want, is_expected):
        """Until it comes so; in vain if that need not be."""
        until = time.monotonic() + PATIENCE_S
        for turn in range(10 ** 6):
            answer = self.get(coding)
            if answer.coding == want:
                return answer
            if not is_expected and turn == 2:
                return None
            self.holds(time.monotonic() < until, f"no {want} for {coding}", answer.fields)
            if self.client.hits(self.b.path, coding) != want:
                time.sleep(0.002)

    def one(self):
        b, dice = self.b, self.dice
        if dice.random() < 0.15:
            self.part(dice.choice((None, "gzip", BROWSERS)), self.some_range(len(self.want)), {})  # on a miss
        asks = [None, "gzip", "br", "zstd", BROWSERS]
        dice.shuffle(asks)
        if b.size >= LARGE:  # one of them costs as much as a thousand others
            self.large(asks[:2])
            return
        for coding in asks:
            self.get(coding)
        gzipped = self.get("gzip")
        if gzipped.coding == "gzip":
            for coding in ("br", "zstd"):
                is_expected = self.expected(coding, len(gzipped.body))
                if self.hit_until(coding, coding, is_expected) is not None:
                    self.n[f"made {coding}"] += 1
        wholes = [(coding, self.get(coding)) for coding in (None, "gzip", "br", "zstd", BROWSERS)]
        for coding, whole in wholes:
            self.form(coding, whole, wholes)
        if b.is_version and "gzip" in {whole.coding for _, whole in wholes}:
            self.dictionary(wholes)
        if b.number % 20 == 3 and b.coding not in ("br", "zstd", "members"):  # curl reads the first member alone
            self.curl()

    def large(self, asks):
        for coding in asks:
            whole = self.get(coding)
            self.condition(coding, whole.tag is not None, If_None_Match=whole.tag or '"no"')
            self.part(coding, self.some_range(len(whole.body)), {whole.coding: whole})
            if whole.tag:
                self.part(coding, self.some_range(len(whole.body)), {whole.coding: whole}, If_Range=whole.tag)

    # ---- one form ----

    def form(self, coding, whole, wholes):
        self.heads(coding)
        self.conditions(coding, whole, wholes)
        length = len(whole.body)
        for _ in range(2):
            self.part(coding, self.some_range(length), {whole.coding: whole})
        if self.dice.random() < 0.3:
            self.several(coding, length)
        if self.dice.random() < 0.3:
            self.beyond(coding)
        self.if_range(coding, whole, wholes)

    def heads(self, coding):
        """HEAD says what GET says: compared with one before and one after it, for another may take its place between."""
        before = self.get(coding)
        head = self.client.ask(self.b.path, coding, "HEAD", **self.said)
        after = self.get(coding)
        if not (before.is_hit and head.is_hit and after.is_hit):
            return
        self.n["heads"] += 1
        names = ("content-encoding", "content-length", "etag", "vary", "content-type", "last-modified")
        fields = [[a.fields.get(name) for name in names] for a in (before, head, after)]
        self.holds(fields[1] in (fields[0], fields[2]) or fields[0] != fields[2], "HEAD", fields)

    def condition(self, coding, is_met, **fields):
        answer = self.client.ask(self.b.path, coding, **self.said, **fields)
        self.n["conditions"] += 1
        if answer.status == 200:
            self.same(answer)
            self.holds(not is_met or not answer.is_hit, "200", fields, answer.fields)
        else:
            self.holds(answer.status == 304 and is_met, answer.status, fields, answer.fields)
        return answer

    def conditions(self, coding, whole, wholes):
        """A condition is about all forms: RFC 9110 13.1.2 compares weakly."""
        tag = opaque(whole.tag)
        for other in {w.tag for _, w in wholes if w.tag}:
            answer = self.condition(coding, opaque(other) == tag, If_None_Match=other)
            if answer.status == 304 and self.b.stored:
                self.holds(opaque(answer.tag) == tag, "the ETag of a 304", answer.fields)
        self.condition(coding, False, If_None_Match='"no"')
        if whole.fields.get("last-modified"):
            self.condition(coding, True, If_Modified_Since=whole.fields["last-modified"])
            self.condition(coding, False, If_None_Match='"no"', If_Modified_Since=whole.fields["last-modified"])

    # ---- ranges ----

    def some_range(self, length):
        dice = self.dice
        a = dice.randrange(length + 1) if dice.random() < 0.7 else dice.choice((0, 1, length // 2, max(0, length - 1)))
        b = min(max(length, 1) - 1, a + int((length + 1) ** dice.random()))
        a, b = min(a, b), b
        return dice.choice((f"{a}-{b}", f"{a}-{b}", f"{a}-", f"-{max(1, length - a)}", f"{a}-{a}", f"0-{length + 5}"))

    def of(self, coding, answer, wholes):
        """The bytes of that form, as they may be: what was seen, and what is there now."""
        if answer.coding is None:
            yield self.want
        if answer.coding in wholes:
            yield wholes[answer.coding].body
        for _ in range(3):
            again = self.get(answer.coding if answer.coding else "identity")
            if again.coding == answer.coding:
                yield again.body

    def is_part(self, coding, answer, wholes, first, last, complete, data):
        for body in self.of(coding, answer, wholes):
            if complete in (None, len(body)) and body[first:last + 1] == data:
                return
            if answer.tag and not answer.tag.startswith("W/"):
                break
            self.n["packed anew"] += 1  # after it was evicted: another packing has other bytes
        raise Wrong("a part of other bytes", coding, first, last, complete, answer.fields)

    def part(self, coding, text, wholes, **fields):
        """One range; 206 must be the bytes of what it says it is a part of."""
        answer = self.client.ask(self.b.path, coding, Range=f"bytes={text}", **self.said, **fields)
        self.n["ranges"] += 1
        if answer.status == 416:
            complete, first = int(answer.fields["content-range"].removeprefix("bytes */")), text.partition("-")[0]
            self.holds(complete == 0 or first != "" and int(first) >= complete, "416", text, answer.fields)
            return answer
        if answer.status == 200:
            self.same(answer)
            return answer
        self.holds(answer.status == 206, answer.status)
        if self.b.coding not in ("br", "zstd"):
            self.holds(answer.coding in (None, "gzip"), "a part of a form", answer.fields)
        first, last, complete = content_range(answer.fields["content-range"])
        self.holds(len(answer.body) == last + 1 - first, "length", answer.fields)
        a, _, z = text.partition("-")
        if complete is None:  # while it arrives
            want = int(a), int(z)
        else:
            want = complete - min(int(z), complete) if a == "" else int(a), complete - 1
            want = want[0], want[1] if a == "" or z == "" else min(int(z), want[1])
        self.holds((first, last) == want, "another part", text, answer.fields)
        self.is_part(coding, answer, wholes, first, last, complete, answer.body)
        self.n["parts"] += 1
        return answer

    def several(self, coding, length):
        ranges = [self.some_range(length) for _ in range(self.dice.randrange(2, 5))]
        answer = self.client.ask(self.b.path, coding, Range="bytes=" + ",".join(ranges), **self.said)
        self.n["several ranges"] += 1
        if answer.status == 200:
            self.same(answer)
        if answer.status != 206 or not answer.fields["content-type"].startswith("multipart/byteranges"):
            self.holds(answer.status in (200, 206, 416), answer.status)
            return
        boundary = answer.fields["content-type"].partition("boundary=")[2].strip('"').encode()
        left, n = answer.body, 0
        while left.lstrip(b"\r\n").startswith(b"--" + boundary + b"\r\n"):
            head, _, left = left.partition(b"\r\n\r\n")
            first, last, complete = content_range(re.search(rb"(?i)content-range: (.*)", head)[1].decode().strip())
            self.is_part(coding, answer, {}, first, last, complete, left[:last + 1 - first])
            left, n = left[last + 1 - first:], n + 1
        self.holds(left.strip(b"\r\n") == b"--" + boundary + b"--" and n > 0, "the end of several parts", left[:100])
        self.n["parts"] += n

    def beyond(self, coding):
        answer = self.client.ask(self.b.path, coding, Range="bytes=999999999-", **self.said)
        self.n["beyond"] += 1
        if answer.status == 200:
            self.same(answer)
        else:
            self.holds(answer.status == 416 and answer.fields["content-range"].startswith("bytes */"),
                       answer.status, answer.fields)

    def if_range(self, coding, whole, wholes):
        """A part only by a strong validator, and then of the very bytes that the client has."""
        b, length = self.b, len(whole.body)
        for validator in {w.tag for _, w in wholes if w.tag} | {whole.fields.get("last-modified")} - {None}:
            answer = self.part(coding, self.some_range(length), {whole.coding: whole}, If_Range=validator)
            if answer.status != 206:
                continue
            self.n["parts by If-Range"] += 1
            self.holds(not validator.startswith("W/"), "a part by a weak validator", answer.fields)
            self.holds(not self.packs or b.ranges and answer.coding is None,
                       "a part of what was packed here, which has no strong validator", validator, answer.fields)
            if validator.startswith('"'):
                self.holds(answer.tag == validator, "a part by another's validator", validator, answer.fields)
            elif b.stored:  # else it is the origin's answer
                self.holds(whole.coding == answer.coding, "a part of another form, by a date", whole.coding, answer.fields)

    # ---- dictionaries ----

    def dictionary(self, wholes):
        """RFC 9842: an earlier version is what the client has."""
        b, old = self.b, self.b.plain(old=True)
        gzipped = min(len(w.body) for _, w in wholes if w.coding == "gzip")
        is_expected = self.packs and b.kind in ("text", "json", "html") and 4 * KI < b.size < self.form_max // 2
        self.said = {"Available_Dictionary": ":" + base64.b64encode(hashlib.sha256(old).digest()).decode() + ":"}
        self.old = old
        for again in range(8):
            first = self.client.ask(f"/d/{b.number}.0.{again}", BROWSERS)  # another try: it may have left
            self.same(first, old)
            self.holds(first.fields["use-as-dictionary"] == 'match="/d/*"', first.fields)
            until = time.monotonic() + (PATIENCE_S / 8 if is_expected else 0.1)
            while time.monotonic() < until:
                whole = self.get(DCZ)
                if whole.coding == "dcz":
                    self.by_dictionary(whole, wholes, gzipped)
                    return
                time.sleep(0.005)
            if not is_expected:
                return
        raise Wrong("no dcz", whole.fields)

    def by_dictionary(self, whole, wholes, gzipped):
        self.n["made dcz"] += 1
        self.holds(len(whole.body) < gzipped, "dcz is longer")
        self.holds(whole.fields["vary"] == "Accept-Encoding, Available-Dictionary", "Vary", whole.fields)
        self.form(DCZ, whole, [*wholes, (DCZ, whole)])
        for coding, said in ((BROWSERS, self.said), (DCZ, {}),
                             (DCZ, {"Available_Dictionary": ":" + base64.b64encode(bytes(32)).decode() + ":"})):
            answer = self.client.ask(self.b.path, coding, **said)
            self.holds(answer.coding != "dcz", "dcz without that dictionary", answer.fields)
            self.same(answer)

    # ---- curl ----

    def curl(self):
        """curl's own decoders, by HTTP/1.1 and HTTP/2."""
        if shutil.which("curl") is None:
            return
        for version in ("--http1.1", "--http2-prior-knowledge"):
            for coding in (None, "gzip", "br", "zstd"):
                said = ["-H", "Host: x"] + (["-H", f"Accept-Encoding: {coding}"] if coding else [])
                done = subprocess.run(["curl", "-sS", "--compressed", version, *said, "-w", "%{stderr}%header{content-encoding}",
                                       f"http://127.0.0.1:{self.port}{self.b.path}"], capture_output=True, check=True)
                self.holds(done.stdout == self.want, "curl", version, coding, len(done.stdout), done.stderr)
                self.n[f"curl {done.stderr.decode() or 'identity'}"] += 1


def work(port, options, numbers, done):
    checks = Checks(port, options)
    while (number := numbers.get()) is not None:
        done.put((number, checks.run(number)))
    done.put((None, checks.n))


def sees_a_flipped_bit(port, options):
    """In each form, or all of this is worth nothing."""
    checks, codings = Checks(port, options), set()
    for number in range(10 ** 6):
        checks.b = Body(options.seed, number)
        if codings >= {None, "gzip", "br", "zstd"}:
            return
        if checks.b.is_text and 4 * KI < checks.b.size < 64 * KI and checks.b.stored and checks.b.kind in ("text", "html"):
            checks.want, checks.dice = checks.b.plain(), random.Random(number)
            checks.b.path = f"/flip/{number}"
            until = time.monotonic() + PATIENCE_S
            for coding in (None, "gzip", "br", "zstd"):
                while True:
                    answer = checks.client.ask(checks.b.path, coding)
                    try:
                        checks.same(answer)
                    except Wrong:
                        codings.add(answer.coding)
                    else:
                        raise Wrong("a bit was flipped, and nothing is wrong", answer.fields)
                    if answer.coding == coding or time.monotonic() > until:
                        break
                    checks.client.hits(checks.b.path, coding)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("tarnd")
    parser.add_argument("--bodies", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--clients", type=int, default=6)
    parser.add_argument("--only", type=int)
    options = parser.parse_args()
    options.store = 48 if options.bodies < 1000 else 128
    began = time.monotonic()
    origin = Origin(options.seed)
    it = tarnd.Tarnd(options.tarnd, CONFIG.format(port=origin.port, store=options.store))
    try:
        sees_a_flipped_bit(it.port, options)
        wrong, n = all_bodies(it, options)
        counters = it.admin("/v1/counters")
    finally:
        status = it.close()
        origin.close()
    counters = counters.get("counters", counters)
    for text in wrong[:20]:
        print(text)
    print(f"roundtrip: seed {options.seed}: " + ", ".join(f"{count} {name}" for name, count in sorted(n.items())))
    print("roundtrip: tarnd: " + ", ".join(
        f"{name} {count}" for name, count in counters.items() if re.search(r"^compress|evict", name)))
    print(f"roundtrip: {len(wrong)} wrong, {time.monotonic() - began:.0f} s, tarnd ended with {status}")
    if options.only is None and counters["cache.evicted"] == 0:
        sys.exit("roundtrip: nothing was evicted: the store is too large for a test")
    sys.exit(bool(wrong) or status != 0)


def all_bodies(it, options):
    numbers, done = multiprocessing.Queue(), multiprocessing.Queue()
    which = range(options.bodies) if options.only is None else [options.only]
    for number in [*which, *[None] * options.clients]:
        numbers.put(number)
    clients = [multiprocessing.Process(target=work, args=(it.port, options, numbers, done)) for _ in range(options.clients)]
    for client in clients:
        client.start()
    wrong, n, left, count = [], collections.Counter(), options.clients, 0
    while left > 0:
        number, said = done.get()
        if number is None:
            n.update(said)
            left -= 1
            continue
        count += 1
        if said is not None:
            wrong.append(said)
            print(f"roundtrip: {said}", file=sys.stderr, flush=True)
        if count % 500 == 0:
            print(f"roundtrip: {count} bodies", flush=True)
    for client in clients:
        client.join()
    return wrong, n


if __name__ == "__main__":
    main()
