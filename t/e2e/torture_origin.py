"""torture_origin.py -- the origin of torture.py: right, but where its resources are there to fail.

Several processes accept from one listener.  `breaks` ends in the middle, `slow` trickles, `absent`
is 404 in every other version and says nothing of freshness then; single ranges and conditions are
answered, and what is uploaded is checked.  What it packs itself is the same bytes each time, so that
parts of it fit together; a third of that is packed without getting smaller.
"""
import asyncio
import email.utils
import random
import re
import socket
import struct
import time

import torture_esi
from torture_world import HOST, KI, LANGUAGES, body_of, packed_of

PIECE = 256 * KI


async def read_head(reader):
    text = await reader.readuntil(b"\r\n\r\n")
    lines = text[:-4].decode("latin-1").split("\r\n")
    fields = {}
    for line in lines[1:]:
        name, value = line.split(":", 1)
        fields[name.lower()] = value.strip()
    return lines[0].split(" "), fields


class Form:
    """What one request is answered with: a body, its size, and what its fields are."""

    def __init__(self, r, variant, version, asked):
        self.r, self.variant, self.version = r, variant, version
        accepted = asked.get("accept-encoding", "").replace("gzip;q=0.5", "gzip")
        self.packed = r.origin_packs and "gzip" in accepted and "gzip;q=0" not in accepted
        self.size, self.etag = r.size(version), r.etag(variant, version, self.packed)
        self.body = body_of(r.target, variant, version)
        if self.packed:
            self.body = packed_of(r.target, variant, version, self.size)
            self.size = len(self.body.data)

    def validates(self, field):
        """By the weak comparison of RFC 9110 8.8.3.2."""
        return self.etag.removeprefix("W/") in [t.strip().removeprefix("W/") for t in (field or "").split(",")]


class Origin:
    def __init__(self, world, number):
        self.world, self.rng = world, random.Random(f"{world.seed} origin {number}")

    async def run(self, listener):
        server = await asyncio.start_server(self.serve, sock=listener, backlog=1024)
        async with server:
            while not self.world.stopped() or self.world.get("stop") == 1:
                await asyncio.sleep(0.2)

    async def serve(self, reader, writer):
        try:
            while await self.answer(*await read_head(reader), reader, writer):
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # tarnd left, which it may
        finally:
            writer.close()

    async def answer(self, first, fields, reader, writer):
        """Returns whether the connection goes on."""
        method, target = first[:2]
        if target.startswith(("/esi/", "/frag/")):
            if target.endswith("/slow"):
                await asyncio.sleep(0.05)
            return torture_esi.answer(target, self.rng, writer)
        r = self.world.by_target[target]
        if fields["host"] != HOST:
            writer.write(b"HTTP/1.1 500 Wrong host\r\nContent-Length: 0\r\n\r\n")
            return True
        if method == "POST":
            return await self.change(r, fields, reader, writer)
        return await self.send(r, method, fields, writer)

    async def change(self, r, fields, reader, writer):
        body, at, right = body_of(r.target, "upload", fields["x-nonce"]), 0, True
        async for piece in self.upload(fields, reader):
            right = right and piece == body.piece(at, len(piece))
            at += len(piece)
        right = right and at == int(fields["x-size"])
        version = self.world.change(r)
        status = "204 No Content" if right else "500 Wrong bytes"
        more = "" if right else "Content-Length: 0\r\n"
        writer.write(f"HTTP/1.1 {status}\r\n{more}X-Version: {version}\r\n\r\n".encode())
        return True

    async def upload(self, fields, reader):
        if fields.get("transfer-encoding") == "chunked":
            while size := int(await reader.readuntil(b"\r\n"), 16):
                yield await reader.readexactly(size)
                await reader.readexactly(2)
            await reader.readexactly(2)
            return
        left = int(fields.get("content-length", "0"))
        while left > 0:
            piece = await reader.readexactly(min(left, 65536))
            left -= len(piece)
            yield piece

    def fields(self, r, form):
        kind, version = r.kind, form.version
        lines = [f"ETag: {form.etag}", f"X-Version: {version}",
                 "Content-Type: " + ("text/plain; charset=utf-8" if r.form == "text" else "image/png"),
                 f"X-Made: {time.monotonic():.3f}", f"X-Id: {r.number}", f"X-Group: {r.group}",
                 "Date: " + email.utils.formatdate(usegmt=True)]
        if r.exists(version):
            lines += [f"Cache-Control: {kind.control}", f"X-Grace: {kind.grace}s",
                      f"X-Keep: {kind.keep}s"]
        vary = ["X-Lang"] * (r.kind_name == "vary") + ["Accept-Encoding"] * (r.form == "packed")
        if vary:
            lines.append("Vary: " + ", ".join(vary))
        if form.packed:
            lines.append("Content-Encoding: gzip")
        return lines

    @staticmethod
    def part(r, form, fields):
        """The single range to be answered, None: all; False: there is no such range."""
        m = re.fullmatch(r"bytes=(\d+)-(\d*)", fields.get("range", ""))
        if_range = fields.get("if-range")
        if m is None or r.kind.etag == "weak" or not r.exists(form.version):
            return None
        if if_range is not None and if_range != form.etag:
            return None
        size = form.size
        first, last = int(m[1]), min(int(m[2] or size - 1), size - 1)
        return (first, last + 1) if first <= last else False

    async def send(self, r, method, fields, writer):
        version = self.world.versions[r.number]
        variant = fields.get("x-lang", LANGUAGES[0]) if r.kind_name == "vary" else "-"
        form = Form(r, variant, version, fields)
        lines = self.fields(r, form)
        if form.validates(fields.get("if-none-match")) and r.exists(version):
            writer.write("\r\n".join(["HTTP/1.1 304 Not Modified", *lines, "", ""]).encode())
            return True
        if r.kind_name == "breaks" and self.rng.random() < 0.05:
            return self.reset(writer)
        size = form.size
        first, end, status = 0, size, "200 OK" if r.exists(version) else "404 Not Found"
        part = self.part(r, form, fields)
        if part is False:
            lines.append(f"Content-Range: bytes */{size}")
            first, end, status = 0, 0, "416 Range Not Satisfiable"
        elif part is not None:
            (first, end), status = part, "206 Partial Content"
            lines.append(f"Content-Range: bytes {first}-{end - 1}/{size}")
        chunked = r.kind.chunked and part is None or r.kind_name == "breaks" and version % 2 == 1
        lines.append("Transfer-Encoding: chunked" if chunked else f"Content-Length: {end - first}")
        writer.write("\r\n".join([f"HTTP/1.1 {status}", *lines, "", ""]).encode())
        if method == "HEAD":
            return True
        breaks = r.kind_name == "breaks" and self.rng.random() < 0.4
        stop = self.rng.randrange(first, end) if breaks and first < end else end
        await self.send_body(r, form.body, (first, stop), chunked, writer)
        if breaks:
            await writer.drain()
            return False if self.rng.random() < 0.5 else self.reset(writer)
        if chunked:
            writer.write(b"0\r\n\r\n")
        return True

    async def send_body(self, r, body, span, chunked, writer):
        at, end = span
        trickles = r.kind_name == "slow"
        step = max(1, (end - at) // 12) if trickles else self.rng.choice((7000, 60000, PIECE))
        while at < end:
            piece = body.piece(at, min(step, end - at))
            if chunked:
                writer.write(b"%x\r\n" % len(piece))
            writer.write(bytes(piece))
            if chunked:
                writer.write(b"\r\n")
            await writer.drain()
            at += len(piece)
            if trickles:
                await asyncio.sleep(self.rng.uniform(0, 0.3))

    @staticmethod
    def reset(writer):
        if not writer.is_closing():
            sock = writer.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()
        return False


def serve(world, listener, number):
    """A process."""
    asyncio.run(Origin(world, number).run(listener))
