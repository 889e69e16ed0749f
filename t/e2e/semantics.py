#!/usr/bin/env python3
"""semantics.py TARND [TEST...] -- what clients get while everything happens at once.

tarnd with two workers and a store too small for what is asked for stands in front of an origin
whose resources change all the time.  Every byte of a body says which resource, variant and
version it is of, and where it stands, so what is mixed, shifted or somebody else's shows.  Clients
ask for all of it, for ranges, with conditions, pipelined, and leave when they like; the origin
answers 304, 206, errors, slowly, halfway or not at all.

What a client gets whole must be right, whatever happens; how much of it comes, and when, is left
to the machine.  The choices follow from a seed, which is printed: SEMANTICS_SEED=n takes it again,
SEMANTICS_SECONDS=n plays longer.
"""
import asyncio
import collections
import email.utils
import functools
import os
import random
import re
import shutil
import signal
import socket
import struct
import sys
import tempfile
import time
import unittest

SEED = int(os.environ.get("SEMANTICS_SEED") or random.SystemRandom().randrange(1 << 30))
SECONDS = float(os.environ.get("SEMANTICS_SECONDS") or 5)  # of each of the two long tests
PATIENCE_S = 60  # an answer that has not come by then does not come
CLIENTS = 64
SLACK_S = 5  # between the origin's word and its arrival, on a machine that is busy
EPOCH_S = 1577836800  # 2020: versions are dated from here, ten seconds apart

TARN = """
listen:
  - address: 127.0.0.1:0
workers: 2
storage:
  main: {{ engine: malloc, size: 8MiB }}
backends:
  default: {{ address: "127.0.0.1:{port}", first_byte_timeout: 4s, between_bytes_timeout: 20s }}
routes:
  - {{ path: /pipe, backend: default, pipe: on }}
parameters: {{ log_level: error }}
"""

Kind = collections.namedtuple("Kind", "cache_control fresh_s validator ranges sizes")
SMALL, LARGE = (0, 1, 100, 5000, 70000), (100000, 300000, 500000)
# What a response says, how long it may be used after its version has passed (None: as long as
# nobody changes it; -1: never without asking), and how it is named.
KINDS = {
    "fresh": Kind("max-age=1", 1, "strong", True, SMALL + LARGE),
    "while": Kind("max-age=1, stale-while-revalidate=2", 3, "strong", True, SMALL),
    "check": Kind("no-cache", -1, "strong", True, SMALL),
    "zero": Kind("max-age=0, must-revalidate", -1, "date", False, SMALL),
    "weak": Kind("max-age=1", 1, "weak", True, SMALL),
    "date": Kind("max-age=1", 1, "date", True, SMALL + LARGE),
    "plain": Kind("max-age=1", 1, None, True, SMALL + LARGE),
    "star": Kind("max-age=2", 2, "strong", "*", SMALL),
    "vary": Kind("max-age=2", 2, "strong", False, SMALL),
    "mine": Kind(None, -1, None, False, SMALL),
    "auth": Kind("max-age=2", 2, "strong", True, SMALL),
    "shift": Kind("max-age=1", 1, "strong", True, SMALL),
    "post": Kind("max-age=600", None, "strong", True, SMALL),
    "grows": Kind("max-age=1", 1, "strong", False, (1000000, 1500000)),
}
LANGUAGES = ("a", "b", "c")


@functools.lru_cache(maxsize=256)
def body(name, variant, version, size):
    """Lines of 32 bytes; each says all of it."""
    name = f"{name} {variant} {version}".encode()
    return b"".join(b"%-22.22s %08d\n" % (name, at) for at in range(0, size, 32))[:size]


class Resource:
    def __init__(self, kind, number, rng):
        self.kind, self.name = KINDS[kind], f"{kind}{number}"
        self.target = f"/{kind}/{number}"
        self.kind_name = kind
        self.size = rng.choice(self.kind.sizes)
        self.ends = []  # when version i stopped being the one
        self.changes_s = rng.uniform(0.2, 2.5)
        self.next_change = time.monotonic() + self.changes_s

    @property
    def version(self):
        return len(self.ends)

    def change(self):
        self.ends.append(time.monotonic())

    def tick(self):
        if self.kind_name != "post" and time.monotonic() >= self.next_change:
            self.change()
            self.next_change = time.monotonic() + self.changes_s

    def bytes(self, variant, version):
        return body(self.name, variant, version, self.size + version % 7 * 13)

    def shared(self, version):
        """A resource that shifts is for the cache in some of its versions only."""
        return self.kind_name != "shift" or version % 3 != 2

    def etag(self, variant, version):
        weak = "W/" if self.kind.validator == "weak" else ""
        return f'{weak}"{variant}.{version}"'

    def last_modified(self, version):
        return email.utils.formatdate(EPOCH_S + 10 * version, usegmt=True)


class Request:
    def __init__(self, method, target, fields):
        self.method, self.target, self.fields = method, target, fields

    def variant(self):
        if self.target.startswith("/vary/"):
            return self.fields.get("x-lang", "-")
        if self.target.startswith("/mine/"):
            return self.fields.get("cookie", "-")
        if self.target.startswith("/auth/"):
            return self.fields.get("authorization", "-")
        return "-"


async def read_head(reader):
    """First line, and fields in lower case; None at the end."""
    try:
        text = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as e:
        if e.partial:
            raise
        return None
    lines = text[:-4].decode("latin-1").split("\r\n")
    fields = {}
    for line in lines[1:]:
        name, value = line.split(":", 1)
        name = name.lower()
        value = value.strip()
        fields[name] = fields[name] + ", " + value if name in fields else value
    return lines[0], fields


def one_range(text, size):
    """(first, last) of "bytes=a-b" in a body of `size`; None: not satisfiable, or not one."""
    m = re.fullmatch(r"bytes=(\d*)-(\d*)", text or "")
    if not m or size == 0:
        return None
    if not m[1]:
        return (max(0, size - int(m[2])), size - 1) if int(m[2]) > 0 else None
    first, last = int(m[1]), min(int(m[2] or size - 1), size - 1)
    return (first, last) if first <= last else None


class Origin:
    """Answers rightly; with `faults`, not always and not always to the end."""

    def __init__(self, rng, resources):
        self.rng, self.faults = rng, False
        self.resources = {r.target: r for r in resources}
        self.counts = collections.Counter()

    async def start(self):
        self.server = await asyncio.start_server(self.serve, "127.0.0.1", 0, backlog=512)
        self.port = self.server.sockets[0].getsockname()[1]

    async def serve(self, reader, writer):
        try:
            while True:
                head = await read_head(reader)
                if head is None:
                    break
                method, target, _ = head[0].split(" ")
                length = int(head[1].get("content-length", "0"))
                if length:
                    await reader.readexactly(length)
                if not await self.answer(Request(method, target, head[1]), reader, writer):
                    break
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # tarnd left, which it may
        finally:
            writer.close()

    async def answer(self, request, reader, writer):
        """Returns whether the connection goes on."""
        self.counts[request.method] += 1
        if request.target == "/pipe":
            return await self.tunnel(request, reader, writer)
        resource = self.resources[request.target]
        if request.method == "POST":
            resource.change()
            head = f"HTTP/1.1 204 No Content\r\nX-Version: {resource.version}\r\n\r\n"
            writer.write(head.encode())
            await writer.drain()
            return True
        resource.tick()
        fault = self.rng.random() if self.faults else 1
        if fault < 0.03:
            return self.reset(writer)
        if fault < 0.04:
            await asyncio.sleep(5)  # longer than tarnd waits
            return False
        if fault < 0.09:
            text = "%d Out of order" % self.rng.choice((500, 502, 503, 504))
            writer.write(f"HTTP/1.1 {text}\r\nContent-Length: 6\r\n\r\nsorry\n".encode())
            await writer.drain()
            return True
        if self.rng.random() < 0.3:
            await asyncio.sleep(self.rng.uniform(0, 0.15))
        if self.rng.random() < 0.1:
            writer.write(f"HTTP/1.1 103 Early Hints\r\nLink: <{request.target}>\r\n\r\n".encode())
        return await self.send(request, resource, writer, cut=fault < 0.16)

    def reset(self, writer):
        if not writer.is_closing():
            sock = writer.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()
        return False

    async def tunnel(self, request, reader, writer):
        if request.fields.get("upgrade") != "echo" or self.rng.random() < 0.2:
            writer.write(b"HTTP/1.1 403 No\r\nCache-Control: no-store\r\nContent-Length: 0\r\n\r\n")
            return True
        writer.write(b"HTTP/1.1 101 On\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n")
        while True:
            data = await reader.read(65536)
            if self.rng.random() < 0.03:
                return self.reset(writer)
            if not data or self.rng.random() < 0.03:
                return False
            writer.write(data)
            await writer.drain()

    def not_modified(self, request, resource, etag, version):
        if resource.kind.validator in ("strong", "weak") and "if-none-match" in request.fields:
            return etag in request.fields["if-none-match"]
        if resource.kind.validator == "date" and "if-modified-since" in request.fields:
            return request.fields["if-modified-since"] == resource.last_modified(version)
        return False

    def fields(self, request, resource, version):
        kind = resource.kind
        control = kind.cache_control
        if control is None:
            control = self.rng.choice(("private", "no-store", "private, max-age=9"))
        if not resource.shared(version):
            control = "no-store"
        lines = [f"Cache-Control: {control}", f"X-Version: {version}"]
        if kind.validator in ("strong", "weak"):
            lines.append(f"ETag: {resource.etag(request.variant(), version)}")
        if kind.validator == "date":
            lines.append(f"Last-Modified: {resource.last_modified(version)}")
        if resource.kind_name == "vary":
            lines.append("Vary: X-Lang")
        lines.append("Date: " + email.utils.formatdate(usegmt=True))
        return lines

    def select(self, request, resource, version, size):
        """The range to be answered, or None: all of it; False: there is no such range."""
        asked, names = request.fields.get("range"), request.fields.get("if-range")
        if request.method != "GET" or not resource.kind.ranges or asked is None or "," in asked:
            return None
        if names is not None and (names.startswith("W/") or names not in (
                resource.etag(request.variant(), version), resource.last_modified(version))):
            return None
        if resource.kind.ranges == "*" and self.rng.random() < 0.1:
            return None
        return one_range(asked, size) or False

    async def send(self, request, resource, writer, cut):
        version = resource.version
        lines = self.fields(request, resource, version)
        if self.not_modified(request, resource, resource.etag(request.variant(), version), version):
            writer.write("\r\n".join(["HTTP/1.1 304 Not Modified"] + lines + ["", ""]).encode())
            await writer.drain()
            return True
        data = resource.bytes(request.variant(), version)
        status, part = "200 OK", self.select(request, resource, version, len(data))
        if part is False:
            status, whole = "416 Range Not Satisfiable", len(data)
            lines.append(f"Content-Range: bytes */{whole}")
            data = b""
        elif part is not None:
            total = "*" if resource.kind.ranges == "*" else len(data)
            status = "206 Partial Content"
            lines.append(f"Content-Range: bytes {part[0]}-{part[1]}/{total}")
            data = data[part[0]:part[1] + 1]
        chunked = resource.kind_name == "grows" or self.rng.random() < 0.3
        closes = not chunked and self.rng.random() < 0.03 and part is None
        if chunked:
            lines.append("Transfer-Encoding: chunked")
        elif not closes:
            lines.append(f"Content-Length: {len(data)}")
        writer.write("\r\n".join([f"HTTP/1.1 {status}"] + lines + ["", ""]).encode())
        if request.method == "HEAD":
            await writer.drain()
            return not closes
        return await self.send_body(writer, data, chunked, cut) and not closes

    async def send_body(self, writer, data, chunked, cut):
        end = self.rng.randrange(len(data)) if cut and data else len(data)
        step = self.rng.choice((7000, 100000, 1 << 20))
        slow = self.rng.random() < 0.3
        for at in range(0, end, step):
            piece = data[at:min(at + step, end)]
            writer.write(b"%x\r\n%b\r\n" % (len(piece), piece) if chunked else piece)
            await writer.drain()
            if slow:
                await asyncio.sleep(0.005)
        if cut:
            return self.reset(writer)
        if chunked:
            writer.write(b"0\r\n\r\n")
        await writer.drain()
        return True


class Wrong(Exception):
    """What a client may not get."""


class Cut(Exception):
    """What it may, when there are faults: the beginning of an answer."""


class Answer:
    def __init__(self, status, fields):
        self.status, self.fields, self.body = status, fields, b""


async def read_answer(reader, method):
    hints = []
    while True:
        try:
            head = await read_head(reader)
        except (ConnectionError, asyncio.IncompleteReadError):
            raise Cut("in the head") from None
        if head is None:
            raise Cut("no head")
        answer = Answer(int(head[0].split(" ")[1]), head[1])
        if answer.status >= 200 or answer.status == 101:
            break
        hints.append(head[1].get("link"))
    answer.hints = hints
    fields = answer.fields
    if method == "HEAD" or answer.status in (101, 204, 304):
        return answer
    try:
        if fields.get("transfer-encoding") == "chunked":
            if "content-length" in fields:
                raise Wrong("two framings")
            while True:
                size = int((await reader.readuntil(b"\r\n"))[:-2], 16)
                answer.body += await reader.readexactly(size)
                if await reader.readexactly(2) != b"\r\n":
                    raise Wrong("a chunk that does not end")
                if size == 0:
                    return answer
        if "content-length" not in fields:
            raise Wrong("no framing")
        answer.body = await reader.readexactly(int(fields["content-length"]))
    except (ConnectionError, asyncio.IncompleteReadError):
        raise Cut(f"in the body behind {fields}") from None
    return answer


class Checker:
    """Is this answer right for that request, which was sent at `start`?"""

    def __init__(self, resource, request, start, first_version):
        self.resource, self.request, self.start = resource, request, start
        self.first_version = first_version  # what a post made before

    def check(self, answer, faults):
        for hint in answer.hints:
            if hint != f"<{self.resource.target}>":
                raise Wrong(f"somebody else's hint {hint}")
        if answer.status >= 500 and faults:
            return
        if answer.status not in (200, 206, 304, 416):
            raise Wrong(f"status {answer.status}")
        if answer.status == 416:
            if "range" not in self.request.fields:
                raise Wrong("416 without a range")
            return
        version = self.version_of(answer)
        self.check_age(version, faults)
        self.check_who(answer, version)
        if answer.status == 304:
            return self.check_not_modified(answer, version)
        self.check_bytes(answer, version)

    def version_of(self, answer):
        version = answer.fields.get("x-version", "")
        if not version.isdigit() or int(version) > self.resource.version:
            raise Wrong(f"version {version!r}")
        return int(version)

    def check_age(self, version, faults):
        """RFC 9111 4.2: not after its time, but (4.2.4) when the origin fails: default_grace."""
        kind = self.resource.kind
        if version < self.first_version:
            raise Wrong(f"version {version} after a post made {self.first_version}")
        if version == self.resource.version or kind.fresh_s is None:
            return
        late_s = self.start - self.resource.ends[version]
        if late_s > (0 if kind.fresh_s < 0 else kind.fresh_s + SLACK_S + 10 * faults):
            raise Wrong(f"version {version}, {late_s:.2f} s after it passed")

    def check_who(self, answer, version):
        want = self.request.variant()
        etag = answer.fields.get("etag")
        allowed = {want}
        if self.resource.kind_name == "auth":
            allowed.add("-")  # what was stored for everybody is for those who log in, too
        tags = {v: self.resource.etag(v, version) for v in sorted(allowed)}
        self.variants = [v for v, tag in tags.items() if etag in (None, tag)]
        if not self.variants:
            raise Wrong(f"{etag} of version {version} for {want}")

    def check_not_modified(self, answer, version):
        fields = self.request.fields
        if answer.body:
            raise Wrong("304 with a body")
        if "if-none-match" in fields:
            asked, got = fields["if-none-match"], answer.fields.get("etag", "")
            if got.removeprefix("W/") != asked.removeprefix("W/"):
                raise Wrong("304 about another one")
        elif "if-modified-since" not in fields:
            raise Wrong("304 without a condition")

    def wholes(self, version):
        return [self.resource.bytes(v, version) for v in self.variants]

    def check_bytes(self, answer, version):
        wholes = self.wholes(version)
        if self.request.method == "HEAD":
            length = answer.fields.get("content-length")
            if length is not None and int(length) not in {len(w) for w in wholes}:
                raise Wrong(f"Content-Length {length} of {len(wholes[0])}")
            return
        if answer.status == 200:
            if answer.body not in wholes:
                raise Wrong(self.difference(answer.body, wholes[0]))
            return
        if "range" not in self.request.fields:
            raise Wrong("206 without a range")
        kind, _, boundary = answer.fields.get("content-type", "").partition("; boundary=")
        if kind != "multipart/byteranges":
            return self.check_part(answer.fields.get("content-range"), answer.body, wholes)
        for part in answer.body.split(b"--" + boundary.encode())[1:-1]:
            head, _, data = part.partition(b"\r\n\r\n")
            value = re.search(rb"Content-Range: ([^\r]*)", head)
            self.check_part(value and value[1].decode(), data[:-2], wholes)

    def check_part(self, value, data, wholes):
        m = re.fullmatch(r"bytes (\d+)-(\d+)/(\d+|\*)", value or "")
        if not m:
            raise Wrong(f"Content-Range {value}")
        first, last = int(m[1]), int(m[2])
        if m[3] != "*" and int(m[3]) not in {len(w) for w in wholes}:
            raise Wrong(f"{value} of {len(wholes[0])}")
        if not any(w[first:last + 1] == data and last < len(w) for w in wholes):
            raise Wrong(f"{value}: " + self.difference(data, wholes[0][first:last + 1]))

    @staticmethod
    def difference(got, want):
        same = min(len(got), len(want))
        at = next((i for i in range(same) if got[i] != want[i]), same)
        return (f"{len(got)} bytes for {len(want)}, other from {at} on:"
                f" {got[at:at + 40]} for {want[at:at + 40]}")


class Client:
    """Asks until the time is up, on connections that it keeps or leaves."""

    def __init__(self, world, number):
        self.world, self.name = world, f"u{number}"
        self.rng = random.Random(f"{SEED} {number}")
        self.seen = {}  # target -> (etag, last-modified)
        self.posted = {}  # target -> version made
        self.reader = self.writer = None

    async def run(self, until):
        while time.monotonic() < until and not self.world.wrong:
            try:
                await asyncio.wait_for(self.turn(), PATIENCE_S)
            except asyncio.TimeoutError:
                self.world.wrong.append(f"{self.name}: no answer to {self.doing}")
            self.world.turns += 1
        self.leave()

    def leave(self):
        if self.writer is not None:
            if self.rng.random() < 0.3:
                self.writer.transport.abort()
            self.writer.close()
        self.writer = None

    async def connect(self):
        if self.writer is None:
            self.reader, self.writer = await asyncio.open_connection(
                "127.0.0.1", self.world.port, limit=1 << 17)

    async def turn(self):
        what = self.rng.random()
        if what < 0.03:
            return await self.pipe()
        await self.connect()
        count = self.rng.choice((1, 1, 1, 2, 4))
        resources = [self.rng.choice(self.world.resources) for _ in range(count)]
        if what < 0.06:
            return await self.post()
        asked = []
        for resource in resources:
            request = self.make(resource)
            first = self.posted.get(resource.target, 0)
            asked.append(Checker(resource, request, time.monotonic(), first))
        self.doing = [f"{c.request.method} {c.request.target} {c.request.fields}" for c in asked]
        leaves = self.rng.random() < 0.1
        try:
            self.writer.write(b"".join(self.text(c.request) for c in asked))
            if leaves:
                await self.reader.read(self.rng.choice((1, 1000, 50000)))
                return self.leave()
            for checker in asked:
                await self.ask(checker)
        except ConnectionError:
            self.leave()

    async def ask(self, checker):
        try:
            answer = await read_answer(self.reader, checker.request.method)
            checker.check(answer, self.world.origin.faults)
            if "etag" in answer.fields or "last-modified" in answer.fields:
                self.seen[checker.resource.target] = (
                    answer.fields.get("etag"), answer.fields.get("last-modified"))
            self.world.got[answer.status] += 1
            if answer.fields.get("connection") == "close":
                raise ConnectionError
        except Cut as e:
            self.world.got["cut"] += 1
            if not self.world.origin.faults:
                self.world.wrong.append(f"{self.name}: cut {e}: {self.doing}")
            raise ConnectionError from None
        except Wrong as e:
            self.world.wrong.append(
                f"{self.name}: {checker.request.method} {checker.request.target}"
                f" {checker.request.fields}: {e}; got {answer.status} {answer.fields}")
            raise ConnectionError from None

    def make(self, resource):
        fields, rng = {}, self.rng
        etag, modified = self.seen.get(resource.target, (None, None))
        if resource.kind_name == "vary":
            fields["x-lang"] = rng.choice(LANGUAGES)
        if resource.kind_name == "mine":
            fields["cookie"] = self.name
        if resource.kind_name == "auth" and rng.random() < 0.5:
            fields["authorization"] = self.name
        if rng.random() < 0.3:
            fields["range"] = "bytes=" + self.ranges(resource)
            if rng.random() < 0.4 and (etag or modified):
                fields["if-range"] = etag or modified
        if rng.random() < 0.3 and etag:
            fields["if-none-match"] = etag
        elif rng.random() < 0.3 and modified:
            fields["if-modified-since"] = modified
        if rng.random() < 0.05:
            fields["cache-control"] = rng.choice(
                ("no-cache", "max-age=0", "min-fresh=1", "no-store"))
        return Request("HEAD" if rng.random() < 0.08 else "GET", resource.target, fields)

    def ranges(self, resource):
        size = max(resource.size, 2)

        def one():
            first = self.rng.randrange(size)
            return self.rng.choice((
                f"{first}-", f"-{first + 1}", f"{first}-{self.rng.randrange(first, size)}",
                f"0-{first}", f"{first}-{first + self.rng.randrange(100)}"))
        return ", ".join(one() for _ in range(self.rng.choice((1, 1, 1, 1, 2, 3))))

    def text(self, request):
        lines = [f"{request.method} {request.target} HTTP/1.1", "Host: tarn.test"]
        lines += [f"{name}: {value}" for name, value in request.fields.items()]
        return ("\r\n".join(lines) + "\r\n\r\n").encode()

    async def post(self):
        """RFC 9111 4.4: who has changed something sees it."""
        resource = self.rng.choice([r for r in self.world.resources if r.kind_name == "post"])
        self.doing = "POST " + resource.target
        try:
            line = f"POST {resource.target} HTTP/1.1\r\n"
            self.writer.write(line.encode() + b"Host: tarn.test\r\nContent-Length: 1\r\n\r\nx")
            answer = await read_answer(self.reader, "POST")
            if answer.status == 204:
                self.posted[resource.target] = int(answer.fields["x-version"])
        except (Cut, ConnectionError):
            self.leave()

    async def pipe(self):
        """Bytes come back as they went, through whatever end."""
        self.doing = "a tunnel"
        self.leave()
        await self.connect()
        sent = self.rng.randbytes(self.rng.choice((1, 100, 30000, 200000)))
        try:
            self.writer.write(b"GET /pipe HTTP/1.1\r\nHost: tarn.test\r\n"
                              b"Connection: upgrade\r\nUpgrade: echo\r\n\r\n")
            if self.rng.random() < 0.1:
                return
            answer = await read_answer(self.reader, "GET")
            if answer.status != 101:
                return
            self.writer.write(sent)
            if self.rng.random() < 0.5:
                self.writer.write_eof()
            want = self.rng.randrange(len(sent)) + 1
            back = b""
            while len(back) < want:
                data = await self.reader.read(want - len(back))
                if not data:
                    break
                back += data
            if not sent.startswith(back):
                self.world.wrong.append(f"{self.name}: other bytes from a tunnel")
        except (Cut, ConnectionError):
            pass
        finally:
            self.leave()


class World:
    def __init__(self, tarnd):
        rng = random.Random(SEED)
        self.dir = tempfile.mkdtemp(prefix="tarn-e2e.")
        self.tarnd = tarnd
        self.resources = [Resource(kind, i, rng) for kind in KINDS for i in range(6)]
        self.origin = Origin(random.Random(SEED + 1), self.resources)
        self.process = None
        self.begin()

    def begin(self):
        self.wrong, self.got, self.turns = [], collections.Counter(), 0

    async def start(self):
        await self.origin.start()
        config = os.path.join(self.dir, "tarn.yaml")
        with open(config, "w") as f:
            f.write(TARN.format(port=self.origin.port))
        self.process = await asyncio.create_subprocess_exec(
            self.tarnd, "-c", config, stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE)
        line = (await asyncio.wait_for(self.process.stdout.readline(), PATIENCE_S)).decode()
        if not line.startswith("tarnd: ready "):
            raise RuntimeError(f"instead of its ready line tarnd said {line!r}")
        self.port = int(line.rsplit(":", 1)[1])

    async def play(self, seconds, clients):
        """Returns what went wrong."""
        self.begin()
        until = time.monotonic() + seconds
        await asyncio.gather(*(Client(self, i).run(until) for i in range(clients)))
        print(f"\n  {self.turns} turns: {dict(self.got)}; origin {dict(self.origin.counts)}",
              file=sys.stderr)
        return self.wrong

    async def close(self):
        """tarnd's exit status after a drain."""
        if self.process.returncode is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return await asyncio.wait_for(self.process.wait(), PATIENCE_S)
        except asyncio.TimeoutError:
            self.process.kill()
            return "none: it did not end"

    def tidy(self):
        if self.process is not None and self.process.returncode is None:
            self.process.kill()
        shutil.rmtree(self.dir, ignore_errors=True)


class Semantics(unittest.TestCase):
    """In the order of their names: what the first one stored, the others find."""

    def play(self, seconds, clients=CLIENTS):
        wrong = loop.run_until_complete(world.play(seconds, clients))
        if wrong:
            self.fail("\n".join([f"SEMANTICS_SEED={SEED}"] + wrong[:5]))
        self.assertIsNone(world.process.returncode, "tarnd has gone")

    def test_1_every_answer_is_right_while_resources_change(self):
        world.origin.faults = False
        self.play(SECONDS)

    def test_2_what_comes_whole_is_right_while_the_origin_fails(self):
        world.origin.faults = True
        self.play(SECONDS)

    def test_3_nothing_is_left_behind_when_the_origin_is_well_again(self):
        world.origin.faults = False
        time.sleep(2.5)  # markers of errors, and connections that hang, pass
        self.play(1, 16)


loop = world = None


def main():
    global loop, world
    if len(sys.argv) < 2:
        sys.exit("usage: semantics.py TARND [TEST...]")
    print(f"SEMANTICS_SEED={SEED}", file=sys.stderr)
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    world = World(os.path.abspath(sys.argv.pop(1)))
    try:
        loop.run_until_complete(world.start())
        program = unittest.main(exit=False, verbosity=2)
        status = loop.run_until_complete(world.close())
    finally:
        world.tidy()
    if status != 0:
        print(f"tarnd ended with status {status} instead of 0", file=sys.stderr)
    sys.exit(0 if program.result.wasSuccessful() and status == 0 else 1)


if __name__ == "__main__":
    main()
