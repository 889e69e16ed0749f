#!/usr/bin/env python3
"""compress.py TARND [TEST...] -- bodies packed and unpacked on their way are the same bytes.

An origin answers /SEED/SIZE/KIND/HOW with a body made from the seed: of text, of random bytes, of one byte; with a
length, chunked in pieces, packed by the origin in one member or several.  Clients ask for all of them together, as
gzip and as they are, by HTTP/1.1 and 1.0, fast and slowly, first and second, and compare every byte with what zlib
makes of it.  COMPRESS_BODIES says how many bodies (100).
"""
import concurrent.futures
import gzip
import hashlib
import http.server
import os
import random
import socket
import sys
import tempfile
import threading
import time
import unittest
import urllib.parse
import zlib

sys.dont_write_bytecode = True
import tarnd

BODIES = int(os.environ.get("COMPRESS_BODIES", "100"))
CONFIG = """
workers: 2
storage:
  main: {{ engine: malloc, size: 64MiB }}
backends:
  default: {{ address: "127.0.0.1:{port}" }}
compress: {{ min_size: 0, types: [text/*], states: {states} }}
admin: {{ address: "unix:{{dir}}/admin.sock" }}
parameters: {{ max_object_size: 4MiB }}
"""
WORDS = [w.encode() for w in ("function", "return", "<div class='a'>", "{", "}", "\n", " ", "let", "of", "é", "0.5")]


def plain(seed, size, kind):
    r = random.Random(f"{seed} {size} {kind}")
    if kind == "random":
        return r.randbytes(size)
    if kind == "same":
        return b"x" * size
    out = bytearray()
    while len(out) < size:
        out += b" ".join(r.choices(WORDS, k=min(4096, size // 4 + 1)))
    return bytes(out[:size])


def members(data):
    """Several members are one body (RFC 1952 2.2)."""
    cut = len(data) // 3
    return gzip.compress(data[:cut], mtime=0) + gzip.compress(data[cut:], mtime=0)


class Answer(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    asked, lock = {}, threading.Lock()

    def log_message(self, *_):
        pass

    def do_GET(self):
        with self.lock:
            self.asked[self.path] = self.asked.get(self.path, 0) + 1
        _, seed, size, kind, how = self.path.split("/")
        data = plain(seed, int(size), kind)
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Cache-Control", "no-store" if how == "unstored" else "max-age=600")
        self.send_header("ETag", f'"{seed}"')
        if how in ("packed", "xpacked", "members", "cut", "unstored", "nothing"):
            self.send_header("Content-Encoding", "x-gzip" if how == "xpacked" else "gzip")
            data = members(data) if how == "members" else gzip.compress(data, mtime=0)
            if how == "nothing":  # blocks without a byte in them, which take time alone
                data = data[:10] + b"\0\0\0\xff\xff" * 200000 + data[10:]
            if how == "cut":
                data = data[:-5]
        if how == "pieces":
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            at, r = 0, random.Random(seed)
            while at < len(data):
                n = min(r.choice((1, 100, 5000, 70000)), len(data) - at)
                self.wfile.write(b"%x\r\n%s\r\n" % (n, data[at:at + n]))
                at += n
                if r.random() < 0.05:
                    time.sleep(0.001)
            self.wfile.write(b"0\r\n\r\n")
            return
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


class Origin(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256


def ask(port, path, coding=None, version="1.1", slow=False, method="GET", **fields):
    """(fields, body as it came); a body that is cut raises."""
    with socket.create_connection(("127.0.0.1", port), tarnd.PATIENCE_S) as s:
        lines = [f"{method} {path} HTTP/{version}", "Host: x", "Connection: close"]
        lines += [f"Accept-Encoding: {coding}"] if coding else []
        lines += [f"{name}: {value}" for name, value in fields.items()]
        s.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
        if slow:
            time.sleep(0.05)
        f = s.makefile("rb", 4096 if slow else 65536)
        status = int(f.readline().split()[1])
        got = {}
        while (line := f.readline()) not in (b"\r\n", b""):
            name, _, value = line.decode().partition(":")
            name, value = name.lower(), value.strip()
            got[name] = f"{got[name]}, {value}" if name in got else value
        got["status"] = status
        if method == "HEAD" or status in (304, 204):
            return got, b""
        if got.get("transfer-encoding") == "chunked":
            out = bytearray()
            while True:
                head = f.readline()
                if not head:
                    raise EOFError("cut")
                n = int(head, 16)
                piece = f.read(n + 2)
                if len(piece) != n + 2:
                    raise EOFError("cut")
                if n == 0:
                    return got, bytes(out)
                out += piece[:-2]
        body = f.read()
        if "content-length" in got and len(body) != int(got["content-length"]):
            raise EOFError("cut")
        return got, body


class Bodies(unittest.TestCase):
    states = 16

    @classmethod
    def setUpClass(cls):
        cls.origin = Origin(("127.0.0.1", 0), Answer)
        threading.Thread(target=cls.origin.serve_forever, daemon=True).start()
        Answer.asked.clear()
        cls.errors = tempfile.TemporaryFile()
        cls.tarnd = tarnd.Tarnd(TARND, CONFIG.format(port=cls.origin.server_address[1], states=cls.states),
                                stderr=cls.errors)

    @classmethod
    def tearDownClass(cls):
        cls.origin.shutdown()
        status = cls.tarnd.close()
        if status != 0:
            raise AssertionError(f"tarnd ended with {status}")

    def compare(self, path, coding, **how):
        _, seed, size, kind, _ = path.split("/")
        want = plain(seed, int(size), kind)
        fields, body = ask(self.tarnd.port, path, coding, **how)
        self.assertEqual(200, fields["status"], (path, coding))
        if self.states > 1:  # else it may be stored as it came
            self.assertEqual("Accept-Encoding", fields.get("vary"), path)
        if "content-encoding" in fields:
            name = "x-gzip" if path.endswith("xpacked") else "gzip"  # RFC 9110 8.4.1.3
            self.assertEqual((name, "gzip"), (fields["content-encoding"], coding), path)
            body = gzip.decompress(body)
        self.assertEqual(hashlib.sha256(want).digest(), hashlib.sha256(body).digest(), (path, coding, len(body)))

    def test_every_client_gets_the_bytes_that_the_origin_has(self):
        r = random.Random(20261128)
        sizes = lambda: int(r.choice((0, 1, 10, 1000, 16384, 65536, r.randrange(200000), r.randrange(1 << 20))))
        paths = [f"/{n}/{sizes()}/{r.choice(('text', 'random', 'same'))}/"
                 f"{r.choice(('length', 'pieces', 'packed', 'xpacked', 'members'))}" for n in range(BODIES if self.states > 1 else BODIES // 4)]
        asks = []
        for path in paths:
            hows = [{"coding": "gzip"}, {"coding": None}, {"coding": "gzip", "slow": True},
                    {"coding": None, "slow": True}, {"coding": None, "version": "1.0"},
                    {"coding": "gzip", "version": "1.0"}]
            r.shuffle(hows)
            asks += [(path, how) for how in hows[:r.randrange(2, 7)] * 2]
        empty = {p for p in paths if p.split("/")[2] == "0" and not p.endswith(("packed", "xpacked", "members"))}
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            for done in [pool.submit(self.compare, path, **how) for path, how in asks if path not in empty]:
                done.result()
        more = {p: n for p, n in Answer.asked.items() if n > 1 and p in paths}
        self.assertLess(len(more), len(paths) // 10, "one object serves every Accept-Encoding")

    def test_a_body_that_outgrows_what_is_kept_is_the_same_for_all(self):
        path = "/big/20000000/text/pieces"
        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            jobs = [pool.submit(self.compare, path, "gzip" if n % 2 else None) for n in range(6)]
            for job in jobs:
                job.result()
        self.compare("/random/9000000/random/length", None)
        self.compare("/random/9000000/random/length", "gzip")

    def test_64_mib_is_streamed(self):
        self.compare("/large/67108864/text/length", "gzip")
        self.compare("/large/67108864/text/pieces", None)

    def test_a_body_that_is_cut_by_its_origin_is_never_whole(self):
        path = "/cut/300000/text/cut"
        fields, body = ask(self.tarnd.port, path, "gzip")
        self.assertEqual(200, fields["status"])
        with self.assertRaises(EOFError):
            gzip.decompress(body)
        with self.assertRaises(EOFError):
            ask(self.tarnd.port, path)
        self.errors.seek(0)
        self.assertIn(b"Content-Encoding is gzip, and the body is not", self.errors.read())

    def test_a_body_that_unpacks_to_nothing_for_long_is_cut(self):
        path = "/nothing/1000/text/nothing"
        fields, body = ask(self.tarnd.port, path, "gzip")
        self.assertEqual(plain("nothing", 1000, "text"), gzip.decompress(body))
        fields, _ = ask(self.tarnd.port, path)
        self.assertEqual(502, fields["status"])

    def test_heads_agree_with_bodies(self):
        path = "/head/5000/text/length"
        for coding in ("gzip", None, "gzip"):
            whole, _ = ask(self.tarnd.port, path, coding)
            head, _ = ask(self.tarnd.port, path, coding, method="HEAD")
            for name in ("content-encoding", "etag", "vary", "content-type"):
                self.assertEqual(whole.get(name), head.get(name), name)
            again, _ = ask(self.tarnd.port, path, coding, **{"If-None-Match": whole["etag"]})
            self.assertEqual(304, again["status"])

    def test_why_says_how_it_is_stored(self):
        path = "/why/5000/text/length"
        ask(self.tarnd.port, path)
        url = urllib.parse.quote(f"http://x{path}", safe="")
        said = self.tarnd.admin(f"/v1/why?url={url}")
        if self.states > 1:
            self.assertEqual(("gzip", True), (said["stored"][0]["coding"], said["stored"][0]["any_coding"]))
            self.assertTrue(said["stored"][0]["for_this_request"])

    def test_what_is_not_stored_is_unpacked_too(self):
        _, body = ask(self.tarnd.port, "/one/100000/text/unstored")
        self.assertEqual(plain("one", 100000, "text"), body)
        fields, body = ask(self.tarnd.port, "/one/100000/text/unstored", "gzip")
        self.assertEqual("gzip", fields["content-encoding"])
        self.assertEqual(plain("one", 100000, "text"), zlib.decompress(body, 31))


class FewStates(Bodies):
    """One body at a time is packed: the others are stored as they come."""
    states = 1
    test_64_mib_is_streamed = None


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    TARND = sys.argv.pop(1)
    unittest.main(verbosity=2)
