"""torture_esi.py -- pages with ESI for torture.py: what its origin sends, and clients that take them apart.

A page's path says its includes; a fragment is the text that its path makes.  Each include may be missing (onerror),
for its fetch may fail; but what is there must be right, in order, and a page that was cut must not look whole.
"""
import re
import socket
import time
import zlib

from torture_clients import Part, Wrong
from torture_world import HOST

PAGES = 24
HOWS = ("kept", "short", "private", "slow", "breaks")
SIZES = (0, 10, 3000, 70000, 400000)


def targets():
    """Of all pages and fragments, for the purge in the end."""
    for n in range(PAGES):
        yield f"/esi/{n}"
        for i in range(parts_of(n)):
            yield fragment(n, i)


def parts_of(n):
    return (1, 3, 12, 20)[n % 4]


def fragment(n, i):
    return f"/frag/{n % 5}/{i}/{SIZES[(n + i) % 5]}/{HOWS[(n * 7 + i) % 5]}"


def text_of(target):
    size = int(target.split("/")[4])
    return (target.encode() * (size // len(target) + 1))[:size]


def page_of(n):
    inner = b'<esi:include src="/esi/%d" onerror="continue"/>' % (n - 1) if n % 6 == 5 else b""
    return b"<html>" + b"".join(b'[%d:<esi:include src="%s" onerror="continue"/>]<esi:remove>no</esi:remove>'
                                % (i, fragment(n, i).encode()) for i in range(parts_of(n))) + b"{" + inner + b"}</html>"


def answer(target, rng, writer):
    """Of the origin.  Returns whether the connection goes on."""
    page = target.startswith("/esi/")
    how = "kept" if page else target.split("/")[5]
    body = page_of(int(target.split("/")[2])) if page else text_of(target)
    control = {"kept": "max-age=2", "short": "max-age=0", "private": "private"}.get(how, "max-age=1")
    head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\nCache-Control: {control}\r\n" \
           f"Content-Type: text/html\r\nETag: \"e{how}\"\r\n\r\n"
    if how == "breaks" and body and rng.random() < 0.3:
        writer.write(head.encode() + body[:rng.randrange(len(body))])
        return False
    writer.write(head.encode() + body)
    return True


def whole(n, body):
    """Is this page n, with or without some of its includes?"""
    at = re.match(rb"<html>", body)
    end = at.end() if at else None
    for i in range(parts_of(n)):
        if end is None:
            return None
        lead = b"[%d:" % i
        if not body.startswith(lead, end):
            return None
        end += len(lead)
        text = text_of(fragment(n, i))
        if body.startswith(text + b"]", end):
            end += len(text)
        if not body.startswith(b"]", end):
            return None
        end += 1
    if end is None or not body.startswith(b"{", end):
        return None
    end += 1
    if n % 6 == 5:
        inner = whole(n - 1, body[end:])
        end += inner or 0
    return end + 8 if body.startswith(b"}</html>", end) else None


class Assembler(Part):
    """Pages: fast, sipped, or left in the middle."""

    def turn(self):
        n, way = self.rng.randrange(PAGES), self.rng.choice(("fast", "fast", "sip", "leave"))
        with socket.socket() as s:
            if way == "sip":
                s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
            s.settimeout(self.patience)
            s.connect(("127.0.0.1", self.world.get("port")))
            coding = self.rng.choice(("identity", "gzip"))
            s.sendall(f"GET /esi/{n} HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n"
                      f"Accept-Encoding: {coding}\r\n\r\n".encode())
            data, stop = b"", self.rng.randrange(1, 200000) if way == "leave" else None
            while piece := s.recv(16384 if way == "sip" else 1 << 18):
                data += piece
                if stop is not None and len(data) > stop:
                    self.count["esi left"] += 1
                    return
                if way == "sip":
                    time.sleep(0.002)
        self.count["requests"] += 1
        head, _, body = data.partition(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200"):
            self.count["esi failed"] += 1
            return
        self.judge(n, head, body)

    def judge(self, n, head, body):
        text = body
        if b"transfer-encoding: chunked" in head.lower():
            text, at = b"", 0
            while True:
                end = body.find(b"\r\n", at)
                size = int(body[at:end], 16) if end > 0 else -1
                if size <= 0:
                    break
                text += body[end + 2:end + 2 + size]
                at = end + 4 + size
            if size < 0:
                self.count["esi cut"] += 1
                return
        if b"content-encoding: gzip" in head.lower():
            member = zlib.decompressobj(31)
            text = member.decompress(text)
            if not member.eof or member.unused_data:
                raise Wrong(f"page {n} is packed, and not whole")
            self.count["esi packed"] += 1
        if whole(n, text) != len(text):
            raise Wrong(f"page {n} is not what it says: {text[:2000]!r} ... {text[-200:]!r}, of {len(text)}")
        self.count["esi pages"] += 1


GROUPS = (("assembler", Assembler, 10),)
