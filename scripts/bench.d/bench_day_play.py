"""bench_day_play.py origin PORT BEGIN SECONDS | clients PORT BEGIN SECONDS REQUESTS PART PARTS -- of scripts/bench day.

The day begins when the file BEGIN is there, at the time of the monotonic clock that it says; the origin's pages
change from then on.  Each process of clients plays its part of the trace, one request at a time, and prints what
came of it as JSON.  All run under one Python, since the text is its library's.
"""

import base64
import collections
import functools
import gzip
import hashlib
import http.client
import http.server
import json
import os
import sys
import time

SYSTEM_PYTHON = "/usr/bin/python3"
try:
    import brotli
    import zstandard
except ImportError:
    if os.path.exists(SYSTEM_PYTHON) and not os.path.samefile(sys.executable, SYSTEM_PYTHON):
        os.execv(SYSTEM_PYTHON, [SYSTEM_PYTHON, *sys.argv])  # the distribution's packages are its own Python's
    sys.exit("python3-brotli and python3-zstandard are missing (scripts/install-deps --test)")

sys.dont_write_bytecode = True
import bench_day_site as site

DAY_S = 86400
CHECKED = 20  # each so many is unpacked and compared, and all that came by a dictionary
DCZ_HEAD = bytes.fromhex("5e2a4d1820000000")
TYPES = {"p": "text/html; charset=utf-8", "css": "text/css", "js": "text/javascript", "static": "text/javascript",
         "i": "image/jpeg"}


def begin(path, wait=False):
    """When the day begins, or began; None: that is not decided yet."""
    while True:
        try:
            with open(path, encoding="ascii") as f:
                return float(f.read())
        except FileNotFoundError:
            if not wait:
                return None
            time.sleep(0.05)


class Origin(http.server.BaseHTTPRequestHandler):
    protocol_version, wbufsize, disable_nagle_algorithm = "HTTP/1.1", -1, True
    file, begins, seconds = "", None, 0

    def log_message(self, *_):
        pass

    def do_GET(self):
        kind, number, _ = site.parts(self.path)
        if self.begins is None:
            Origin.begins = begin(self.file, wait=True)
        when = (time.monotonic() - self.begins) / self.seconds
        version = site.version_of(number, max(when, 0)) if kind == "p" else 0
        etag = f'"{version}"'
        old = self.headers.get("If-None-Match", "")
        data = b"" if etag in old else site.content(self.path, version)
        self.send_response(200 if data else 304)
        self.send_header("ETag", etag)
        ttl = self.seconds / (6 if number < site.LISTS else 3) if kind == "p" else DAY_S
        self.send_header("Cache-Control", f"max-age={ttl:.0f}")
        self.send_header("Content-Type", TYPES[kind])
        self.send_header("Surrogate-Key", "day")
        if number in site.OFFERED:
            self.send_header("Use-As-Dictionary", f'match="/static/{number}.*"')
        if data:
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def origin(port, file, seconds):
    Origin.file, Origin.seconds = file, seconds
    site.functions(), site.sections(), site.noise()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Origin)
    server.daemon_threads = True
    print("origin: ready", flush=True)
    server.serve_forever()


@functools.lru_cache(64)
def dictionary(path):
    """(content, hash) of a bundle."""
    data = site.content(path)
    return data, hashlib.sha256(data).digest()


class Clients:
    def __init__(self, port):
        self.port, self.conn = port, None
        self.has = collections.defaultdict(dict)  # client -> what a pattern offers -> path
        self.codings = collections.defaultdict(lambda: [0, 0])
        self.took, self.late, self.checked, self.bad, self.with_dictionary = [], 0.0, 0, [], 0

    def ask(self, path, fields):
        for again in (True, False):
            try:
                if self.conn is None:
                    self.conn = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
                self.conn.putrequest("GET", path, skip_accept_encoding=True)
                for name, value in fields:
                    self.conn.putheader(name, value)
                self.conn.endheaders()
                answer = self.conn.getresponse()
                return answer, answer.read()
            except (OSError, http.client.HTTPException):
                self.conn.close()
                self.conn = None
                if not again:
                    raise

    def fields(self, client, kind, path):
        """What a browser sends; and its dictionary for the path, if it has one."""
        codings, _, _, dictionaries = site.KINDS[kind]
        if dictionaries:
            for pattern, old in self.has[client].items():
                if path.startswith(pattern):
                    word = base64.b64encode(dictionary(old)[1]).decode()
                    return [("Accept-Encoding", codings + ", dcb, dcz"), ("Available-Dictionary", f":{word}:")], old
        return [("Accept-Encoding", codings)] if codings else [], None

    def unpacked(self, coding, body, old):
        if coding == "br":
            return brotli.decompress(body)
        if coding == "zstd":
            return zstandard.ZstdDecompressor().decompressobj().decompress(body)
        if coding == "dcz":
            data, digest = dictionary(old)
            if body[:40] != DCZ_HEAD + digest:
                raise ValueError("another dictionary")
            by = zstandard.ZstdCompressionDict(data, dict_type=zstandard.DICT_TYPE_RAWCONTENT)
            return zstandard.ZstdDecompressor(dict_data=by).decompressobj().decompress(body[40:])
        return gzip.decompress(body) if coding == "gzip" else body

    def check(self, path, old, answer, body):
        coding, etag = answer.getheader("Content-Encoding"), answer.getheader("ETag", "")
        try:
            if answer.status != 200 or self.unpacked(coding, body, old) != site.content(path, int(etag.strip('W/"'))):
                self.bad.append(f"{path} {answer.status} {coding} {etag}: not the origin's bytes")
        except (ValueError, EOFError, OSError, brotli.error, zstandard.ZstdError) as e:
            self.bad.append(f"{path} {coding} {etag}: {e}")
        self.checked += 1

    def one(self, number, client, kind, path):
        fields, old = self.fields(client, kind, path)
        self.with_dictionary += old is not None
        began = time.monotonic()
        answer, body = self.ask(path, fields)
        self.took.append(time.monotonic() - began)
        coding = answer.getheader("Content-Encoding")
        if coding and coding not in dict(fields).get("Accept-Encoding", "").split(", "):
            self.bad.append(f"{path}: {coding} was not asked for")
        counted = self.codings[coding or "none"]
        counted[0] += 1
        counted[1] += len(body)
        if number % CHECKED == 0 or coding == "dcz" or answer.status != 200:
            self.check(path, old, answer, body)
        offered = answer.getheader("Use-As-Dictionary")
        if offered:
            self.has[client][offered.split('"')[1].rstrip("*")] = path


def clients(port, file, seconds, requests, part, of):
    mine = [r for r in site.trace(requests) if r[1] % of == part]
    site.functions(), site.sections(), site.noise()
    world = Clients(port)
    print("clients: ready", flush=True)
    begins = begin(file, wait=True)
    for number, (when, client, kind, path) in enumerate(mine):
        wait = begins + when * seconds - time.monotonic()
        if wait > 0:
            time.sleep(wait)
        world.late = max(world.late, -wait)
        world.one(number, client, kind, path)
    print(json.dumps({"codings": world.codings, "took": sorted(world.took)[::50], "late": world.late,
                      "with_dictionary": world.with_dictionary,
                      "checked": world.checked, "bad": world.bad[:10], "nbad": len(world.bad)}))


if __name__ == "__main__":
    args = sys.argv[2:]
    if sys.argv[1] == "origin":
        origin(int(args[0]), args[1], float(args[2]))
    else:
        clients(int(args[0]), args[1], float(args[2]), *map(int, args[3:6]))
