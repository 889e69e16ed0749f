"""roundtrip_origin.py -- what roundtrip.py compares: random bodies, each made from a seed and a number, and their origin.

The origin and its clients make the same body from the same two, so nothing is shared between them.  The origin is a
process of its own.  Its paths:

    /r/NUMBER             the body
    /d/NUMBER.0.TRY       an earlier version of it; the route offers it as a dictionary (TRY makes it another URL)
    /d/NUMBER.1           the body
    /flip/NUMBER          the body with one bit changed: a test that does not see that sees nothing
    /page                 an empty page for a browser
"""
import functools
import gzip
import http.server
import multiprocessing
import random

import brotli
import zstandard

KI, MI = 1024, 1024 * 1024
LARGE = 4 * MI
MIN_SIZE = 1024  # `compress`: min_size has its default
EDGES = (0, 1, 2, 255, 256, 257, MIN_SIZE - 1, MIN_SIZE, MIN_SIZE + 1, 15999, 16000, 16001, 16 * KI - 1, 16 * KI, 16 * KI + 1,
         32 * KI - 1, 32 * KI, 32 * KI + 1, 64 * KI - 1, 64 * KI, 64 * KI + 1)
EDGES_LARGE = (128 * KI - 1, 128 * KI, 128 * KI + 1, MI - 1, MI, MI + 1, 2 * MI)
HUGE = {7: (64 * MI, "text"), 31: (16 * MI, "random"), 83: (33 * MI + 1, "html")}  # these numbers, in every run
KINDS = ("text", "json", "html", "random", "runs", "mixed")
PACKED_TYPES = ("text/html; charset=utf-8", "application/json", "text/css", "application/javascript")
OTHER_TYPES = ("application/octet-stream", "image/png")
MODIFIED = "Thu, 01 Jan 2026 00:00:00 GMT"
WORDS = ("function", "return", "className", "content", "margin", "true", "null", "user", "price", "Größe", "value", "the", "of")


@functools.lru_cache(maxsize=None)
def corpus(kind):
    """4 MiB: a body is a piece of it with changes of its own."""
    r = random.Random(f"corpus {kind}")
    out, size = [], 0
    while size < 4 * MI:
        w = r.choices(WORDS, k=6)
        if kind == "json":
            piece = f'{{"id":{r.randrange(10**6)},"{w[0]}":"{w[1]} {w[2]}","{w[3]}":{r.random():.6f},"l":[{r.randrange(99)}]}},\n'
        elif kind == "html":
            piece = f'<div class="{w[0]}-{r.randrange(40)}"><a href="/{w[1]}/{r.randrange(10**5)}">{w[2]}</a>{w[3]}</div>\n'
        else:
            piece = " ".join(w) + r.choice((". ", ", ", "\n", f" {r.randrange(10**4)} "))
        out.append(piece.encode())
        size += len(out[-1])
    return b"".join(out)


def make(r, kind, size):
    if kind == "random":
        return r.randbytes(size)
    if kind == "runs":
        out = bytearray()
        while len(out) < size:
            out += r.randbytes(r.randrange(1, 9)) * r.choice((1, 3, 300, 5000, 70000, size // 3 + 1))
        return bytes(out[:size])
    if kind == "mixed":
        out = bytearray()
        while len(out) < size:
            out += make(r, r.choice(KINDS[:5]), min(size - len(out), r.randrange(1, size // 2 + 2)))
        return bytes(out)
    source = corpus(kind)
    at = r.randrange(len(source))
    out = bytearray((source[at:] + source * (size // len(source) + 1))[:size])
    for _ in range(min(64, size // 50)):
        place = r.randrange(size)
        out[place:place + 8] = r.randbytes(8)
    return bytes(out[:size])


def edited(r, data):
    """A later version: some lines less, some more."""
    out = bytearray(data)
    for _ in range(r.randrange(1, 8)):
        at = r.randrange(len(out) + 1)
        out[at:at + r.randrange(200)] = b" ".join(w.encode() for w in r.choices(WORDS, k=r.randrange(30)))
    return bytes(out)


def some_size(r):
    dice = r.random()
    if dice < 0.55:
        return int(32 * KI ** r.random()) if r.random() < 0.5 else r.randrange(32 * KI)
    if dice < 0.82:
        return r.choice(EDGES)
    if dice < 0.96:
        return int(32 * KI * 16 ** r.random())
    if dice < 0.98:
        return r.choice(EDGES_LARGE)
    if dice < 0.997:
        return r.randrange(512 * KI, LARGE)
    return r.randrange(16 * MI, 64 * MI)


def pack(coding, data):
    fast = len(data) > 256 * KI
    if coding == "gzip":
        return gzip.compress(data, 1 if fast else 6, mtime=0)
    if coding == "members":  # several are one body (RFC 1952 2.2)
        cut = len(data) // 3
        return gzip.compress(data[:cut], 1, mtime=0) + gzip.compress(data[cut:], 1, mtime=0)
    if coding == "br":
        return brotli.compress(data, quality=1 if fast else 5)
    return zstandard.ZstdCompressor(level=1 if fast else 5).compress(data)


class Body:
    """`coding`: the origin sends it in that one, or (negotiated) in gzip to those that accept it."""

    def __init__(self, seed, number):
        r = random.Random(f"{seed} {number}")
        self.seed, self.number = seed, number
        self.size, self.kind = HUGE.get(number) or (some_size(r), r.choice(KINDS))
        self.is_version = self.size < LARGE and r.random() < 0.2
        codings = ("gzip", "gzip", "members", "negotiated", "negotiated", "br", "zstd") if self.size < LARGE else ("gzip",)
        self.coding = r.choice(codings) if r.random() < 0.3 else None
        self.framing = r.choices(("length", "chunked", "close"), (60, 35, 5))[0]
        self.tag = r.choice(("strong", "strong", "weak", None))
        self.modified = MODIFIED if r.random() < 0.5 else None
        self.control = r.choices(("max-age=600", "no-store", "max-age=600, no-transform"), (90, 5, 5))[0]
        self.type = r.choice(PACKED_TYPES) if r.random() < 0.85 else r.choice(OTHER_TYPES)
        self.ranges = self.framing == "length" and r.random() < 0.5
        if self.is_version:
            self.control, self.type = "max-age=600", r.choice(PACKED_TYPES)
        self.path = f"/d/{number}.1" if self.is_version else f"/r/{number}"
        self.stored = self.control != "no-store"
        self.is_text = self.coding is None and self.type in PACKED_TYPES and "no-transform" not in self.control

    def __str__(self):
        return (f"body {self.number} ({self.size} bytes, {self.kind}, {self.coding}, {self.framing}, ETag {self.tag}, "
                f"{self.modified}, {self.control}, {self.type})")

    def plain(self, old=False):
        r = random.Random(f"{self.seed} {self.number} content")
        data = make(r, self.kind, self.size)
        return edited(r, data) if self.is_version and not old else data

    def is_packed(self, plain):
        """By tarnd."""
        return self.is_text and (self.framing != "length" or len(plain) >= MIN_SIZE)

    def name(self, old=False):
        return f"{self.seed}.{self.number}{'.old' if old else ''}"


class Answer(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = 65536
    disable_nagle_algorithm = True
    seed = None

    def log_message(self, *_):
        pass

    @staticmethod
    @functools.lru_cache(maxsize=32)
    def bytes_of(seed, number, old, coding):
        data = Body(seed, number).plain(old)
        return pack(coding, data) if coding else data

    def find(self):
        """(body, its bytes, coding, entity tag)"""
        _, kind, name = self.path.split("/")
        number, _, version = name.partition(".")
        body, old = Body(self.seed, int(number)), version.startswith("0")
        coding, tag = body.coding, body.name(old)
        if coding == "negotiated":
            coding = "gzip" if "gzip" in self.headers.get("Accept-Encoding", "") else None
            tag += ".gz" if coding else ""
        data = self.bytes_of(self.seed, body.number, old, coding)
        if kind == "flip":
            at = len(data) // 2
            data = data[:at] + bytes((data[at] ^ 4,)) + data[at + 1:]
        return body, data, coding, f'W/"{tag}"' if body.tag == "weak" else f'"{tag}"' if body.tag else None

    def part(self, body, data, tag):
        """The range that is asked for and may be sent, or None."""
        asked, condition = self.headers.get("Range", ""), self.headers.get("If-Range")
        if not body.ranges or not asked.startswith("bytes=") or "," in asked:
            return None
        if condition is not None and (condition != tag or tag.startswith("W/")) and condition != body.modified:
            return None
        first, _, last = asked[6:].partition("-")
        if first == "":
            return max(0, len(data) - int(last)), len(data) - 1
        return int(first), min(len(data) - 1, int(last or len(data)))

    def do_GET(self):
        if self.path == "/page":
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Cache-Control", "no-store")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        body, data, coding, tag = self.find()
        part = self.part(body, data, tag)
        if tag and self.headers.get("If-None-Match") == tag:
            self.send_response(304)
            self.send_header("ETag", tag)
            self.end_headers()
            return
        if part is not None and part[0] > part[1]:
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{len(data)}")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.send_response(206 if part else 200)
        if part is not None:
            self.send_header("Content-Range", f"bytes {part[0]}-{part[1]}/{len(data)}")
            data = data[part[0]:part[1] + 1]
        fields = [("Content-Type", body.type), ("Cache-Control", body.control), ("ETag", tag),
                  ("Last-Modified", body.modified), ("Content-Encoding", "gzip" if coding == "members" else coding),
                  ("Vary", "Accept-Encoding" if body.coding == "negotiated" else None)]
        for name, value in fields:
            if value:
                self.send_header(name, value)
        self.put(body, data, part)

    do_HEAD = do_GET

    def put(self, body, data, part):
        framing = "length" if part else body.framing
        if framing == "length":
            self.send_header("Content-Length", str(len(data)))
        elif framing == "chunked":
            self.send_header("Transfer-Encoding", "chunked")
        else:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command == "HEAD":
            return
        if framing != "chunked":
            self.wfile.write(data)
            return
        at, r = 0, random.Random(f"{body.number} pieces")
        while at < len(data):
            n = min(r.choice((1, 100, 5000, 70000, 70000 + len(data) // 20)), len(data) - at)
            self.wfile.write(b"%x\r\n%s\r\n" % (n, data[at:at + n]))
            at += n
            if r.random() < 0.1:
                self.wfile.flush()
        self.wfile.write(b"0\r\n\r\n")


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def handle_error(self, *_):
        pass  # tarnd may leave in the middle: a client has gone, or nothing more is stored of it


class Origin:
    """In a process of its own; `port`."""

    def __init__(self, seed):
        Answer.seed = seed
        server = Server(("127.0.0.1", 0), Answer)
        self.port = server.server_address[1]
        self.process = multiprocessing.Process(target=self.serve, args=(server,), daemon=True)
        self.process.start()
        server.socket.close()

    @staticmethod
    def serve(server):
        for kind in KINDS[:3]:
            corpus(kind)
        server.serve_forever()

    def close(self):
        self.process.terminate()
        self.process.join()
