"""torture_clients.py -- the clients of torture.py: they ask, and check every byte that comes.

A group is a process with threads; each thread plays one part until the world stops.
"""
import collections
import random
import re
import socket
import struct
import threading
import time
import zlib

import brotli
import zstandard

from torture_world import HOST, KI, LANGUAGES, LARGE, MI, body_of, canary, packed_of

TAG = re.compile(r'(W/)?"(\d+)\.([a-z-]+)\.(\d+)(\.gz)?"')
LARGE_S = 10
UNPACK_STEP = 64 * KI
# What clients say, and what they take by that: those that take gzip, and others.
CODINGS = (("gzip", ("gzip",)), ("gzip", ("gzip",)), ("gzip, deflate, br, zstd", ("gzip", "br", "zstd")),
           ("gzip;q=0.5, *;q=0", ("gzip",)), ("gzip, br;q=0.5, zstd;q=0", ("gzip",)))
OTHER_CODINGS = ((None, ()), (None, ()), ("identity", ()), ("gzip;q=0", ()), ("br", ("br",)), ("zstd", ("zstd",)))
KEPT_LEAST = 5 * MI  # the smallest max_object_size that parameters are set to
STALE_SLACK_S = 60  # from the origin's clock to tarnd's, on a machine that is busy
TABLE_KEYS = 200
PREFIXES = ("/", "/plain/", "/vary/1", "/hot/")


class Wrong(Exception):
    """What no client may get."""


class Cut(Exception):
    """The beginning of an answer."""


class Gone(Exception):
    """A connection that ended between answers, or whose client has had enough."""


class Wire:
    """A connection that reads as much at a time as its owner likes, and then waits as long."""

    def __init__(self, world, patience, sip=0, pause=None):
        self.socket = socket.socket()
        if sip:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.settimeout(patience)
        self.socket.connect(("127.0.0.1", world.get("port")))
        self.step, self.pause = sip or 256 * KI, pause
        self.buffer = bytearray()

    def fill(self):
        if self.pause is not None:
            self.pause()
        try:
            piece = self.socket.recv(self.step)
        except ConnectionError:
            piece = b""
        if not piece:
            raise Cut(f"behind {len(self.buffer)} bytes")
        self.buffer += piece

    def until(self, mark):
        while (at := self.buffer.find(mark)) < 0:
            if len(self.buffer) > 64 * KI:
                raise Wrong(f"no {mark!r} in {bytes(self.buffer[:200])!r}")
            self.fill()
        piece = bytes(self.buffer[:at])
        del self.buffer[:at + len(mark)]
        return piece

    def some(self, most):
        """At least one byte."""
        if not self.buffer:
            self.fill()
        piece = bytes(self.buffer[:most])
        del self.buffer[:most]
        return piece

    def head(self):
        try:
            text = self.until(b"\r\n\r\n").decode("latin-1").split("\r\n")
        except Cut as e:
            if not self.buffer:
                raise Gone from None
            raise Cut(f"in a head, {e}") from None
        fields = {}
        for line in text[1:]:
            name, _, value = line.partition(":")
            fields[name.lower()] = value.strip()
        m = re.fullmatch(r"HTTP/1\.1 (\d{3}) .*", text[0])
        if m is None:
            raise Wrong(f"a first line {text[0][:200]!r}")
        return int(m[1]), fields

    def pieces(self, method, status, fields):
        """The body as it comes."""
        if method == "HEAD" or status in (204, 304):
            return
        if fields.get("transfer-encoding") == "chunked":
            if "content-length" in fields:
                raise Wrong("two framings")
            while size := int(self.until(b"\r\n"), 16):
                while size > 0:
                    piece = self.some(size)
                    size -= len(piece)
                    yield piece
                if self.until(b"\r\n") != b"":
                    raise Wrong("a chunk that does not end")
            if self.until(b"\r\n") != b"":
                raise Wrong("a trailer")
            return
        if "content-length" not in fields:
            raise Wrong("no framing")
        left = int(fields["content-length"])
        while left > 0:
            piece = self.some(left)
            left -= len(piece)
            yield piece

    def close(self, reset=False):
        if reset:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()


class Ask:
    """A request, and what was known when it was sent."""

    scheme = "http"

    def __init__(self, world, r, rng, method="GET", lines=(), variant=None, spans=()):
        """Not all bytes of packed parts can be checked, so few clients that take gzip ask for one."""
        self.world, self.r, self.method, self.spans = world, r, method, spans
        self.variant = variant or rng.choice(r.variants)
        self.key = f"k{rng.randrange(TABLE_KEYS)}"
        self.lines = [f"Host: {HOST}", f"X-Key: {self.key}", *lines]
        if r.kind_name == "vary":
            self.lines.append(f"X-Lang: {self.variant}")
        self.takes_gzip = method in ("GET", "HEAD") and len(spans) < 2 and \
            rng.random() < (0.15 if spans else 0.5)
        coding, self.takes = rng.choice(CODINGS if self.takes_gzip else OTHER_CODINGS)
        if coding is not None:
            self.lines.append(f"Accept-Encoding: {coding}")
        if spans:
            self.lines.append("Range: bytes=" + ", ".join(f"{a}-{b}" for a, b in spans))
        self.conditional = any(line.startswith("If-None-Match") for line in self.lines)

    def __str__(self):
        return f"{self.method} {self.r.target} {self.lines[1:]}"

    def text(self):
        """Also the time from which on it counts."""
        self.floor = self.world.floors[self.scheme][self.r.number]
        self.canary_floor = self.world.get("canary")
        self.policy_floor = self.world.get("policy")
        self.sent = time.monotonic()
        first = f"{self.method} {self.r.target} HTTP/1.1"
        return "\r\n".join([first, *self.lines, "", ""]).encode()


def unpack_brotli(pieces):
    state = brotli.Decompressor()
    for piece in pieces:
        try:
            out = state.process(piece)
        except brotli.error as e:
            raise Wrong(f"what is said to be br is not: {e}") from None
        if out:
            yield out
    if not state.is_finished():
        raise Wrong("br without its end, and it looks whole")


def unpack_zstd(pieces):
    state = zstandard.ZstdDecompressor().decompressobj()
    for piece in pieces:
        try:
            out = state.decompress(piece)
        except zstandard.ZstdError as e:
            raise Wrong(f"what is said to be zstd is not: {e}") from None
        if out:
            yield out
    if not state.eof:
        raise Wrong("zstd without its end, and it looks whole")


def unpack_gzip(pieces):
    """The body, as far as it has come.  gzip may have several members (RFC 1952 2.2)."""
    member = zlib.decompressobj(31)
    for piece in pieces:
        while piece:
            if member.eof:
                member = zlib.decompressobj(31)
            try:
                out = member.decompress(piece, UNPACK_STEP)
            except zlib.error as e:
                raise Wrong(f"what is said to be gzip is not: {e}") from None
            if out:
                yield out
            piece = member.unused_data if member.eof else member.unconsumed_tail
    while not member.eof and (out := member.decompress(b"", UNPACK_STEP)):
        yield out
    if not member.eof:
        raise Wrong("gzip without its end, and it looks whole")


UNPACK = {"gzip": unpack_gzip, "br": unpack_brotli, "zstd": unpack_zstd}


class Reading:
    """Checks one answer while it is read."""

    def __init__(self, ask, count):
        self.ask, self.r, self.count = ask, ask.r, count
        self.status, self.fields = None, {}

    def read(self, wire):
        ask = self.ask
        self.status, self.fields = wire.head()
        while self.status in (100, 103):
            self.status, self.fields = wire.head()
        self.check_policy()
        check = {200: self.whole, 204: self.changed, 206: self.part, 304: self.unchanged,
                 404: self.absent, 416: self.beyond, 502: self.failed,
                 503: self.failed}.get(self.status)
        if check is None:
            raise Wrong(f"status {self.status}")
        if ask.method in ("POST", "PURGE") and self.status not in (204, 200, 502, 503):
            raise Wrong(f"status {self.status}")
        if ask.method == "PURGE" and self.status == 200:
            check = self.drop
        check(wire.pieces(ask.method, self.status, self.fields))
        self.count[f"status {self.status}"] += 1
        cache = self.fields.get("cache-status", "")
        self.count["hits"] += "; hit" in cache
        self.count["negative"] += "detail=negative" in cache
        took = time.monotonic() - ask.sent
        if wire.pause is None and took > self.count["longest"]:
            self.count["longest"] = took

    # --- what every answer has: the policy has been at it

    def check_policy(self):
        f, ask = self.fields, self.ask
        if self.status in (502, 503) and "x-policy" not in f:
            return
        policy = int(f.get("x-policy", "-1"))
        if policy < ask.policy_floor:
            raise Wrong(f"policy {policy} after {ask.policy_floor}")
        versions = {self.table_version("canary", ask.key, f.get("x-canary", "")),
                    self.table_version("canary", "k0", f.get("x-canary-0", ""))}
        if len(versions) != 1 or min(versions) < ask.canary_floor:
            raise Wrong(f"versions {versions} of a table after {ask.canary_floor}")
        if f.get("x-members") not in ("always even", "always odd"):
            raise Wrong(f"a set had {f.get('x-members')!r}")
        longest = max((p for p in PREFIXES if ask.r.target.startswith(p)), key=len)
        self.table_version("longest", longest, f.get("x-longest", ""))
        self.count["table values"] += 4

    @staticmethod
    def table_version(table, key, value):
        version = value.partition(".")[0]
        if not version.isdigit() or value != canary(table, key, int(version)):
            raise Wrong(f"table {table} said of {key}: {value[:200]!r}")
        return int(version)

    # --- which version it is

    def allowed(self):
        return range(self.ask.floor, self.ask.world.versions[self.r.number] + 1)

    def version(self):
        m = TAG.fullmatch(self.fields.get("etag", ""))
        if m is None:
            raise Wrong("no ETag of ours")
        if int(m[2]) != self.r.number or m[3] != self.ask.variant:
            raise Wrong(f"somebody else's: {m[0]}")
        self.check_form(m[1] is not None, m[5] is not None)
        version = int(m[4])
        if version not in self.allowed():
            raise Wrong(f"version {version}: {self.allowed()} are allowed")
        age = self.ask.sent - float(self.fields.get("x-made", self.ask.sent))
        if age > max(self.r.kind.ttl, 0) + self.r.kind.grace + STALE_SLACK_S:
            raise Wrong(f"made {age:.1f} s before it was asked for")
        return version

    def check_form(self, weak, of_packed):
        """The coding is one that was asked for; two forms of a body share no strong ETag."""
        r, coding = self.r, self.fields.get("content-encoding")
        self.packed = coding is not None
        if self.packed and coding not in self.ask.takes:
            raise Wrong(f"nobody asked for {coding}")
        if self.packed and coding != "gzip" and (self.status == 206 or not weak):
            raise Wrong(f"a part of {coding}, or a strong ETag")
        if self.packed and coding != "gzip" and self.status == 200:
            self.count[f"{coding} answers"] += 1
        if self.packed and not (r.tarn_packs or r.origin_packs):
            raise Wrong("packed, and nothing says that it may be")
        if of_packed and not r.origin_packs:
            raise Wrong("an ETag of what the origin has packed, which it does not do")
        if self.status == 304:
            return  # it does not say of which form
        changed = self.packed != of_packed  # from what the origin sent
        if not weak and (r.kind.etag == "weak" or changed):
            raise Wrong("a strong ETag")
        changed = changed or weak and r.kind.etag != "weak"  # packed and unpacked again
        if weak and r.kind.etag != "weak" and not (r.tarn_packs or r.origin_packs):
            raise Wrong("a weak ETag")
        if changed and "accept-encoding" not in self.fields.get("vary", "").lower():
            raise Wrong("two forms, and no Vary")
        if self.status == 200:
            self.count["packed answers"] += self.packed
            self.count["unpacked answers"] += changed and not self.packed

    def counted(self, pieces):
        for piece in pieces:
            self.count["packed bytes"] += len(piece)
            yield piece

    def bytes(self, pieces, body, at, end):
        start = at
        for piece in pieces:
            want = body.piece(at, min(len(piece), end - at))
            if piece != want:
                same = next((i for i, (a, b) in enumerate(zip(piece, want)) if a != b), len(want))
                raise Wrong(f"{at + same} of {start} to {end}: {bytes(piece[same:same + 80])!r}"
                            f" for {bytes(want[same:same + 80])!r}")
            at += len(piece)
            self.count["bytes"] += len(piece)
        if self.ask.method != "HEAD" and at != end:
            raise Wrong(f"{at - start} bytes for {end - start}, and it looks whole")

    def whole(self, pieces):
        if self.ask.method == "POST":
            raise Wrong("200 for a POST")
        version = self.version()
        if not self.r.exists(version):
            raise Wrong("200 for a version in which there is nothing")
        self.all_of(pieces, version)

    def all_of(self, pieces, version):
        size = self.r.size(version)
        if not self.packed and int(self.fields.get("content-length", size)) != size:
            raise Wrong(f"Content-Length {self.fields['content-length']} of {size}")
        if self.packed and self.ask.method != "HEAD":
            pieces = UNPACK[self.fields["content-encoding"]](self.counted(pieces))
        self.bytes(pieces, body_of(self.r.target, self.ask.variant, version), 0, size)

    def packed_part(self, pieces, version):
        """The origin's packing can be compared; of tarnd's only the number of bytes is known."""
        self.count["packed parts"] += 1
        if self.fields["etag"].endswith('.gz"'):
            body = packed_of(self.r.target, self.ask.variant, version, self.r.size(version))
            first, end = self.span(self.fields.get("content-range"), len(body.data))
            self.bytes(pieces, body, first, end)
            return
        m = re.fullmatch(r"bytes (\d+)-(\d+)/(\d+|\*)", self.fields.get("content-range", ""))
        if m is None or int(m[1]) not in (a for a, _ in self.ask.spans):
            raise Wrong(f"nobody asked for {self.fields.get('content-range')!r}")
        came = sum(len(piece) for piece in self.counted(pieces))
        if self.ask.method != "HEAD" and came != int(m[2]) + 1 - int(m[1]):
            raise Wrong(f"{came} bytes of {m[0]}, and it looks whole")

    def span(self, text, size):
        m = re.fullmatch(r"bytes (\d+)-(\d+)/(\d+|\*)", text or "")
        if m is None or int(m[2]) >= size or m[3] not in ("*", str(size)):
            raise Wrong(f"Content-Range {text!r} of {size}")
        first, end = int(m[1]), int(m[2]) + 1
        # Ranges that overlap or are near may come as one (RFC 9110 15.3.7.2).
        if first not in (a for a, _ in self.ask.spans) or \
                end not in (min(b + 1, size) for _, b in self.ask.spans):
            raise Wrong(f"nobody asked for {text!r}")
        return first, end

    def part(self, pieces):
        version = self.version()
        if self.packed:
            return self.packed_part(pieces, version)
        size, body = self.r.size(version), body_of(self.r.target, self.ask.variant, version)
        kind = self.fields.get("content-type", "")
        if not kind.startswith("multipart/byteranges"):
            first, end = self.span(self.fields.get("content-range"), size)
            return self.bytes(pieces, body, first, end)
        mark = b"\r\n--" + kind.partition("boundary=")[2].strip('"').encode()
        parts = (b"\r\n" + b"".join(pieces)).split(mark)
        if self.ask.method == "HEAD":
            return None
        if parts[0] != b"" or not parts[-1].startswith(b"--"):
            raise Wrong("a multipart without its ends")
        for one in parts[1:-1]:
            head, _, data = one.partition(b"\r\n\r\n")
            m = re.search(rb"(?i)content-range: ([^\r]*)", head)
            first, end = self.span(m and m[1].decode(), size)
            self.bytes([data], body, first, end)
        self.count["multipart"] += 1

    def unchanged(self, pieces):
        if not self.ask.conditional:
            raise Wrong("304 that nobody asked for")
        self.version()

    def absent(self, pieces):
        if self.fields.get("etag"):
            version = self.version()
            if self.r.exists(version):
                raise Wrong("404 for a version that exists")
            return self.all_of(pieces, version)
        for _ in pieces:
            pass
        if all(self.r.exists(v) for v in self.allowed()):
            raise Wrong(f"404, and it existed in {self.allowed()}")
        return None

    def beyond(self, pieces):
        for _ in pieces:
            pass
        if self.ask.takes_gzip and self.ask.spans and (self.r.tarn_packs or self.r.origin_packs):
            return  # of the packed bytes
        least = min(self.r.size(v) for v in self.allowed())
        if any(a < least for a, _ in self.ask.spans) or not self.ask.spans:
            raise Wrong(f"416, and there were {least} bytes at least")

    def changed(self, pieces):
        """RFC 9111 4.4: what an unsafe request has changed is not served any more."""
        if self.ask.method != "POST":
            raise Wrong("204 that nobody asked for")
        self.ask.world.forbid_older(self.r, int(self.fields["x-version"]), self.ask.scheme)
        self.count["posts"] += 1

    def drop(self, pieces):
        for _ in pieces:
            pass
        self.ask.world.forbid_older(self.r, self.ask.purges, self.ask.scheme)
        self.count["purges by policy"] += 1

    def failed(self, pieces):
        """An origin that breaks off before its head; a validation that a purge overtakes."""
        said = b"".join(bytes(piece) for piece in pieces)
        self.count[f"failed {self.r.kind_name}"] += 1
        if self.r.kind_name not in ("breaks", "checked") and self.count["told of"] < 5:
            self.count["told of"] += 1
            self.count[f"unasked {self.r.target}: {self.status} {self.fields} {said[:300]}"] += 1


class Part(threading.Thread):
    """What all clients do: ask over a connection that they keep, until they are told to stop."""

    sip = 0

    def __init__(self, world, name, patience):
        super().__init__(daemon=True)
        self.world, self.name_, self.patience = world, name, patience
        self.rng = random.Random(f"{world.seed} {name}")
        self.count, self.wrong = collections.Counter(), []
        self.wire, self.reading, self.seen = None, None, {}

    def run(self):
        while not self.world.stopped():
            self.asks = []
            try:
                self.turn()
                continue
            except Gone:
                self.count["closed"] += 1
            except Cut as e:
                self.note_cut(e)
            except TimeoutError:
                if waits_for_others(self.reading):
                    self.count["waited for a slow reader"] += 1
                else:
                    self.note("no answer")
            except OSError:
                self.count["closed"] += 1
            except Exception as e:  # also our own mistakes: no thread ends unheard
                self.note(f"{type(e).__name__} {e}")
            self.leave()
        self.leave()

    def note(self, text):
        told = [str(a) for a in self.asks]
        if self.reading is not None:
            told = f"{self.reading.ask} -> {self.reading.status} {self.reading.fields}"
        self.wrong.append(f"{self.name_}: {text}: {told}")
        self.world.set("stop", 1)

    def note_cut(self, e):
        r = self.reading.r
        self.count[f"cut {r.kind_name}"] += 1
        if not excused(self.reading):
            text = f"{self.reading.ask} {e}, of {r.base}, now {self.world.versions[r.number]}: "
            self.count["cut that nothing excuses: " + text + str(self.reading.fields)] += 1

    def connect(self):
        if self.wire is None:
            self.wire = Wire(self.world, self.patience, self.sip, self.pause if self.sip else None)

    def pause(self):
        pass

    def leave(self, reset=False):
        if self.wire is not None:
            self.wire.close(reset)
        self.wire = None

    def send(self, *asks):
        self.connect()
        self.asks = asks
        self.wire.socket.sendall(b"".join(ask.text() for ask in asks))

    def read(self, ask):
        self.reading = Reading(ask, self.count)
        self.reading.read(self.wire)
        f = self.reading.fields
        self.count["requests"] += 1
        if TAG.fullmatch(f.get("etag", "")):
            self.seen[ask.r.number, ask.variant] = f["etag"]
        if f.get("connection") == "close":
            self.leave()
            return False
        return True

    def ask(self, *asks):
        self.send(*asks)
        for one in asks:
            if not self.read(one):
                break

    def some_resource(self, kinds=None):
        """What all look at; or few of the others often, and many seldom."""
        if kinds is not None and "forms" in kinds and self.rng.random() < 0.1:  # hot, whatever comes and goes
            return self.rng.choice(self.world.by_kind["forms"])
        near = [r for r in self.world.focus() if kinds is None or r.kind_name in kinds]
        if near and self.rng.random() < 0.5:
            return self.rng.choice(near)
        kind = self.rng.choice(kinds) if kinds else None
        choices = self.world.by_kind[kind] if kind else self.world.resources
        if kind in LARGE:  # the same for all, so that they share a window
            return choices[int(time.monotonic() / LARGE_S) % len(choices)]
        if self.rng.random() < 0.5:
            return choices[int(len(choices) * self.rng.random() ** 4)]
        return self.rng.choice(choices)

    def make(self, r):
        """A GET or HEAD, perhaps for parts, perhaps with a condition."""
        rng, lines, spans = self.rng, [], ()
        variant = rng.choice(r.variants)
        tag = self.seen.get((r.number, variant))
        if rng.random() < 0.25:
            spans = [self.some_span(r) for _ in range(rng.choice((1, 1, 1, 2, 3)))]
            if tag and rng.random() < 0.3:
                lines.append(f"If-Range: {tag}")
        if tag and rng.random() < 0.25:
            lines.append(f"If-None-Match: {tag}")
        method = "HEAD" if rng.random() < 0.06 else "GET"
        return Ask(self.world, r, rng, method, lines, variant, spans)

    def some_span(self, r):
        first = self.rng.randrange(max(r.base, 1))
        return first, first + self.rng.choice((0, 10, 5000, 60000))


def excused(reading):
    """Which answers may be cut: what breaks off; what is too large to keep, or turns out to be when
    its length was not said, or is not known because it is packed or unpacked on its way: too large
    for the room that the store has just then.  While parameters allow little, or leases leave no
    room, others go through a window, too: then the rest of its version can be had as long as there
    is no other."""
    r = reading.r
    if r.kind_name in ("breaks", *LARGE) or r.kind.chunked or r.tarn_packs or r.origin_packs:
        return True
    tag = TAG.fullmatch(reading.fields.get("etag", ""))
    if tag is None or int(tag[4]) == reading.ask.world.versions[r.number]:
        return False
    return r.base > KEPT_LEAST - KI or "stored" not in reading.fields.get("cache-status", "stored")


def waits_for_others(reading):
    """Without a strong validator the fast readers of a window wait for a slow one that keeps reading
    (docs/decisions/0012), also one in front of the window, in what is kept."""
    return reading is not None and reading.fields.get("etag", "").startswith("W/") and \
        reading.r.base > KEPT_LEAST - KI


class Pipeliner(Part):
    """Keeps a processor busy."""

    def turn(self):
        hot = self.world.by_kind["hot"]
        if self.rng.random() < 0.3:  # one text so often that it gets its forms
            forms = self.world.by_kind["forms"]
            hot = [forms[int(time.monotonic() / LARGE_S) % len(forms)]]
        self.ask(*(Ask(self.world, self.rng.choice(hot), self.rng)
                   for _ in range(self.rng.choice((8, 16, 32, 64)))))


class Mixed(Part):
    """All of it, and changes."""

    def turn(self):
        what = self.rng.random()
        if what < 0.03:
            return self.post()
        if what < 0.05:
            return self.purge()
        if what < 0.06:
            return self.ask(self.make(self.some_resource(LARGE)))
        count = self.rng.choice((1, 1, 2, 4))
        kinds = [k for k in self.world.by_kind if k not in LARGE]
        return self.ask(*(self.make(self.some_resource(kinds)) for _ in range(count)))

    def post(self):
        r = self.some_resource(("posted", "posted", "plain", "vary", "chunks", "wide", "absent"))
        size, nonce = int(self.rng.choice((0, 10, 2000, 200000)) * self.rng.random()), \
            str(self.rng.getrandbits(40))
        data = bytes(body_of(r.target, "upload", nonce).piece(0, size))
        chunked = self.rng.random() < 0.3
        ask = Ask(self.world, r, self.rng, "POST", [
            "Transfer-Encoding: chunked" if chunked else f"Content-Length: {size}",
            f"X-Nonce: {nonce}", f"X-Size: {size}"])
        self.send(ask)
        if chunked:
            data = (b"%x\r\n%b\r\n" % (size, data) if size else b"") + b"0\r\n\r\n"
        self.wire.socket.sendall(data)
        if self.read(ask):
            self.ask(Ask(self.world, r, self.rng))

    def purge(self):
        ask = Ask(self.world, self.some_resource(), self.rng, "PURGE")
        ask.purges = self.world.change(ask.r)
        self.ask(ask)
        self.ask(Ask(self.world, ask.r, self.rng))


class Slow(Part):
    """Holds what it reads for seconds, also when that has left the cache."""

    sip = 2048

    def pause(self):
        if self.world.stopped():
            raise Gone
        time.sleep(self.rng.choice((0, 0, 0, 0.01, 0.05, self.rng.uniform(0, 2))))

    def turn(self):
        kinds = LARGE if self.rng.random() < 0.3 else (
            "plain", "chunks", "vary", "mine", "slow", "breaks")
        self.connect()
        self.wire.step = self.rng.choice((512, 4096, 65536))
        self.ask(self.make(self.some_resource(kinds)))
        if self.rng.random() < 0.5:
            self.leave()


class Leaver(Part):
    """Leaves in the middle, in one of the ways there are."""

    def turn(self):
        self.left = self.rng.choice((0, 1, 300, 5000, 100 * KI, 2 * MI))
        self.connect()
        self.wire.step, self.wire.pause = min(max(self.left, 1), 64 * KI), self.enough
        try:
            self.ask(*(self.make(self.some_resource()) for _ in range(self.rng.choice((1, 1, 3)))))
        finally:
            self.count["left"] += 1
            self.leave(reset=self.rng.random() < 0.5)

    def enough(self):
        if self.left <= 0:
            if self.rng.random() < 0.2:
                self.wire.socket.shutdown(socket.SHUT_WR)
            time.sleep(self.rng.choice((0, 0, 0.01, 0.3)))
            raise Gone
        self.left -= self.wire.step


class Idler(Part):
    """Keeps connections that ask for little, or for half a thing."""

    def turn(self):
        held = []
        for _ in range(40):
            self.ask(Ask(self.world, self.rng.choice(self.world.by_kind["hot"]), self.rng))
            if self.rng.random() < 0.3 and self.wire is not None:
                self.wire.socket.sendall(b"GET /hot/0 HTTP/1.1\r\nHos")
            held.append(self.wire)
            self.wire = None
        self.world.pause(self.rng.uniform(0.5, 7))
        for wire in held:
            if wire is not None:
                wire.close(reset=self.rng.random() < 0.2)


class Herd(Part):
    """All of a group ask for the same at once, and it has just been changed."""

    barrier = threading.Barrier(1)
    chosen = [None, 0]

    def turn(self):
        try:
            place = self.barrier.wait(self.patience)
            if place == 0:
                r = self.some_resource(LARGE if self.rng.random() < 0.02 else None)
                purge = Ask(self.world, r, self.rng, "PURGE")
                purge.purges = self.world.change(r)
                self.chosen[0] = r
                try:
                    self.ask(purge)
                finally:
                    self.barrier.wait(self.patience)
            else:
                self.barrier.wait(self.patience)
        except threading.BrokenBarrierError:
            self.world.pause(0.1)
            if self.barrier.broken and not self.world.stopped():
                self.barrier.reset()
            return
        self.ask(Ask(self.world, self.chosen[0], self.rng))


GROUPS = (("pipeliner", Pipeliner, 2), ("mixed-a", Mixed, 8), ("mixed-b", Mixed, 8),
          ("slow", Slow, 24), ("leaver", Leaver, 6), ("idler", Idler, 3), ("herd", Herd, 12))


def play(world, group, patience, results):
    """A process: what its threads have counted, and what was wrong, goes to `results`."""
    name, part, n = group
    if part is Herd:
        Herd.barrier = threading.Barrier(n)
    threads = [part(world, f"{name} {i}", patience) for i in range(n)]
    for t in threads:
        t.start()
    while any(t.is_alive() for t in threads):
        time.sleep(0.1)
        if part is Herd and world.stopped():
            Herd.barrier.abort()
    count = collections.Counter()
    for t in threads:
        count.update(t.count)
    count["longest"] = max(t.count["longest"] for t in threads)
    results.put((name, count, [w for t in threads for w in t.wrong]))
