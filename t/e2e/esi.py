#!/usr/bin/env python3
"""esi.py TARND [TEST...] -- pages that are put together: in time, in order, and never half.

An origin makes pages and fragments from their paths.  Clients ask by HTTP/1.1, 1.0 and, with curl, by TLS and HTTP/2;
fast and slowly; some go away in the middle.  What each gets is compared with what the page says.  ESI_PAGES says how many
pages of random shape (60).
"""
import concurrent.futures
import http.server
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import zlib

sys.dont_write_bytecode = True
import tarnd

PAGES = int(os.environ.get("ESI_PAGES", "60"))
CONFIG = """
workers: 2
storage:
  main: {{ engine: malloc, size: 64MiB }}
backends:
  default: {{ address: "127.0.0.1:{port}", first_byte_timeout: 5s }}
routes:
  - {{ path: /page, backend: default, esi: on, compress: all }}
  - {{ path: /, backend: default }}
esi: {{ includes: 1000, timeout: 2s }}
admin: {{ address: "unix:{{dir}}/admin.sock" }}
parameters: {{ max_object_size: 4MiB }}
"""


def text(seed, n):
    return random.Random(f"text {seed}").randbytes(n // 2 + 1).hex()[:n].encode()


class Page:
    """Of a random shape: (what the origin sends, what a client is to get)."""

    def __init__(self, seed, level=0):
        r = random.Random(f"page {seed} {level}")
        sent, shown = [b"<html>"], [b"<html>"]
        for i in range(r.choice((0, 1, 3, 12))):
            part = text(f"{seed} {i}", r.choice((0, 1, 100, 5000, 70000)))
            sent.append(part)
            shown.append(part)
            kind = r.random()
            if kind < 0.5:
                name, n = f"{seed}-{i}", r.choice((0, 1, 300, 20000, 300000))
                how = r.choice(("kept", "kept", "passed", "slow", "chunked"))
                sent.append(b'<esi:include src="/part/%s/%d/%s"/>' % (name.encode(), n, how.encode()))
                shown.append(text(name, n))
            elif kind < 0.6 and level < 3:
                inner = Page(f"{seed}{i}", level + 1)
                sent.append(b'<esi:include src="/page/%d/%s%d"/>' % (level + 1, str(seed).encode(), i))
                shown.append(inner.shown)
            elif kind < 0.7:
                sent.append(b'<esi:include src="/fail/500" alt="/part/a/10/kept"/>')
                shown.append(text("a", 10))
            elif kind < 0.8:
                sent.append(b'<esi:include src="/fail/404" onerror="continue"/>')
            elif kind < 0.9:
                sent.append(b"<esi:remove>" + text("r", 500) + b'<esi:include src="/fail/599"/></esi:remove>')
            else:
                sent.append(b'<!--esi <p class="x">--><esi:comment text="c"/>')
                shown.append(b' <p class="x">')
        sent.append(b"</html>")
        shown.append(b"</html>")
        self.sent, self.shown = b"".join(sent), b"".join(shown)


class Answer(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    asked, lock, at_once, most = {}, threading.Lock(), 0, 0
    delay = 0.3

    def log_message(self, *_):
        pass

    def put(self, data, status=200, chunked=False, **fields):
        self.send_response(status)
        self.send_header("Content-Type", "text/html")
        for name, value in fields.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header(*(("Transfer-Encoding", "chunked") if chunked else ("Content-Length", str(len(data)))))
        self.end_headers()
        if not chunked:
            self.wfile.write(data)
            return
        for at in range(0, len(data), 7001):
            piece = data[at:at + 7001]
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
        self.wfile.write(b"0\r\n\r\n")

    def do_GET(self):
        cls = type(self)
        with self.lock:
            cls.asked[self.path] = cls.asked.get(self.path, 0) + 1
            cls.at_once += 1
            cls.most = max(cls.most, cls.at_once)
        try:
            self.answer(self.path.split("/"))
        finally:
            with self.lock:
                cls.at_once -= 1

    def answer(self, path):
        if path[1] == "page" and path[2] == "twelve":
            page = b"".join(b'%d<esi:include src="/wait/%s/%d"/>' % (i, path[3].encode(), i) for i in range(12))
            self.put(b"<html>" + page + b"</html>", Cache_Control="max-age=600")
        elif path[1] == "page" and path[2] == "large":
            self.put(b'<p><esi:include src="/part/l/10/kept"/>' + text("large", 9000000)
                     + b'<esi:include src="/part/l/10/kept"/></p>', chunked=path[3] == "chunked",
                     Cache_Control="max-age=600")
        elif path[1] == "page" and path[2] == "one":
            self.put(b'<html>a<esi:include src="/%s"/>b</html>' % "/".join(path[3:]).encode(),
                     Cache_Control="max-age=600")
        elif path[1] == "page":
            level = int(path[2])
            self.put(Page(path[3], level).sent, chunked=len(path[3]) % 2 == 0,
                     Cache_Control="max-age=600" if len(path[3]) % 3 else "private")
        elif path[1] == "wait":
            time.sleep(self.delay)
            self.put(b"[%s]" % path[2].encode(), Cache_Control="max-age=600")
        elif path[1] == "part":
            if path[4] == "slow":
                time.sleep(0.05)
            self.put(text(path[2], int(path[3])), chunked=path[4] == "chunked",
                     Cache_Control="private" if path[4] == "passed" else "max-age=600")
        elif path[1] == "cut":
            self.send_response(200)
            self.send_header("Content-Length", "100000")
            self.end_headers()
            self.wfile.write(b"x" * int(path[2]))
            self.close_connection = True
        elif path[1] == "hang":
            time.sleep(3)
            self.put(b"late")
        else:
            self.put(b"error", int(path[2]) if len(path) > 2 and path[2].isdigit() else 404)


class Origin(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def handle_error(self, *_):
        pass  # tarnd has given up a fetch


def unpack(fields, body):
    if fields.get("content-encoding") is None:
        return body
    member = zlib.decompressobj(31)
    out = member.decompress(body)
    if not member.eof or member.unused_data:
        raise AssertionError("what is said to be gzip is not one whole member")
    return out


def ask(port, path, version="1.1", slow=0, stop=None, method="GET", **fields):
    """(fields, body); one that is cut raises.  slow: seconds between reads; stop: go away after so many bytes."""
    with socket.socket() as s:
        if slow:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        s.settimeout(tarnd.PATIENCE_S)
        s.connect(("127.0.0.1", port))
        lines = [f"{method} {path} HTTP/{version}", "Host: x", "Connection: close"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in fields.items()]
        s.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
        data = b""
        while piece := s.recv(4096 if slow else 1 << 20):
            data += piece
            if stop is not None and len(data) >= stop:
                return None
            if slow:
                time.sleep(slow)
    head, _, body = data.partition(b"\r\n\r\n")
    got = {"status": int(head.split()[1])}
    for line in head.decode().split("\r\n")[1:]:
        name, _, value = line.partition(":")
        got[name.lower()] = value.strip()
    if got.get("transfer-encoding") != "chunked":
        return got, unpack(got, body)
    out, at = [], 0
    while True:
        end = body.index(b"\r\n", at)  # ValueError: it was cut
        n = int(body[at:end], 16)
        if n == 0:
            return got, unpack(got, b"".join(out))
        out.append(body[end + 2:end + 2 + n])
        at = end + 4 + n


class Case(unittest.TestCase):
    config = CONFIG

    @classmethod
    def setUpClass(cls):
        cls.answers = type("Answers", (Answer,), {"asked": {}, "lock": threading.Lock()})
        cls.origin = Origin(("127.0.0.1", 0), cls.answers)
        threading.Thread(target=cls.origin.serve_forever, daemon=True).start()
        cls.errors = tempfile.TemporaryFile()
        cls.tarnd = tarnd.Tarnd(TARND, cls.config.format(port=cls.origin.server_port), stderr=cls.errors)
        cls.port = cls.tarnd.port

    @classmethod
    def tearDownClass(cls):
        status = cls.tarnd.close()
        cls.origin.shutdown()
        cls.errors.seek(0)
        errors = cls.errors.read()
        assert status == 0, (status, errors[-3000:])
        assert b"runtime error" not in errors and b"ERROR: " not in errors, errors[-3000:]

    def idle(self):
        """No request is under way any more."""
        tarnd.wait_until(lambda: self.answers.at_once == 0, "the origin is idle")


class Pages(Case):
    def test_twelve_includes_take_as_long_as_one(self):
        began = time.monotonic()
        _, body = ask(self.port, "/page/twelve/a")
        took = time.monotonic() - began
        self.assertEqual(b"<html>" + b"".join(b"%d[a]" % i for i in range(12)) + b"</html>", body)
        self.assertLess(took, 1 * SLOWER)  # one behind the other they take 3.6 s; alone on a machine 0.31 s
        began = time.monotonic()
        _, again = ask(self.port, "/page/twelve/a")
        self.assertEqual(body, again)
        self.assertLess(time.monotonic() - began, 0.2 * SLOWER)

    def test_what_stands_before_an_include_is_sent_before_it(self):
        with self.tarnd.connect() as s:
            s.sendall(tarnd.request("/page/one/wait/first/0"))
            began, data = time.monotonic(), b""
            while b"<html>a" not in data:
                data += s.recv(4096)
            self.assertLess(time.monotonic() - began, 0.25 * SLOWER)
            self.assertNotIn(b"[first]", data)
            while b"</html>" not in data:
                data += s.recv(4096)
            self.assertIn(b"[first]", data)

    def compare(self, name, **how):
        want = Page(name).shown
        fields, body = ask(self.port, f"/page/0/{name}", **how)
        self.assertEqual(200, fields["status"])
        self.assertEqual((len(want), want), (len(body), body), (name, how))

    def test_pages_of_every_shape_for_fast_and_slow_clients_at_once(self):
        r = random.Random(20261128)
        asks = []
        for n in range(PAGES):
            hows = [{}, {"Accept_Encoding": "gzip"}, {"slow": 0.0003}, {"version": "1.0"},
                    {"Accept_Encoding": "gzip", "slow": 0.0003}, {"Accept_Encoding": "gzip", "version": "1.0"}]
            asks += [(str(n), how) for how in r.sample(hows, r.randrange(1, 7)) * 2]
        r.shuffle(asks)
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            for done in [pool.submit(self.compare, name, **how) for name, how in asks]:
                done.result()

    def test_a_page_that_is_too_large_to_keep_is_the_same_for_all(self):
        want = b"<p>" + text("l", 10) + text("large", 9000000) + text("l", 10) + b"</p>"
        for kind in ("chunked", "length"):
            with concurrent.futures.ThreadPoolExecutor(5) as pool:
                jobs = [pool.submit(ask, self.port, f"/page/large/{kind}", slow=0.00001 * (n == 4),
                                    Accept_Encoding=("identity", "gzip")[n % 2]) for n in range(5)]
                for job in jobs:
                    self.assertEqual(want, job.result()[1])

    def test_clients_that_go_away_leave_nothing_behind(self):
        r = random.Random(5)
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            jobs = [pool.submit(ask, self.port, f"/page/0/gone{n}", stop=r.choice((1, 300, 3000, 100000)),
                                Accept_Encoding=("identity", "gzip")[n % 2]) for n in range(PAGES)]
            jobs += [pool.submit(ask, self.port, f"/page/twelve/gone{n}", stop=1) for n in range(10)]
            for job in jobs:
                job.result()
        self.idle()
        self.compare("afterwards")

    def test_a_page_is_packed_for_those_who_take_it_and_as_many_as_there_are_codecs(self):
        held = []
        for _ in range(40):  # clients that read nothing hold a codec each, up to half of `states` of a worker
            s = self.tarnd.connect(receive_buffer=4096)
            s.sendall(tarnd.request("/page/large/held", "Accept-Encoding: gzip"))
            held.append(s)
        time.sleep(1)
        fields, body = ask(self.port, "/page/large/held", Accept_Encoding="gzip")
        self.assertIn(fields.get("content-encoding"), (None, "gzip"))
        self.assertEqual(b"<p>" + text("l", 10) + text("large", 9000000) + text("l", 10) + b"</p>", body)
        for s in held:
            s.close()
        self.idle()
        fields, _ = ask(self.port, "/page/0/packed", Accept_Encoding="gzip")
        self.assertEqual("gzip", fields.get("content-encoding"))

    def test_a_fragment_that_is_cut_cuts_the_page(self):
        for n in (1, 50000):
            for coding in ("identity", "gzip"):
                with self.assertRaises(ValueError):
                    ask(self.port, f"/page/one/cut/{n}", Accept_Encoding=coding)
        self.errors.seek(0)
        self.assertIn(b"an include broke off", self.errors.read())

    def test_a_fragment_that_does_not_come_is_left_out_in_time(self):
        began = time.monotonic()
        _, body = ask(self.port, "/page/one/hang")
        self.assertEqual(b"<html>ab</html>", body)
        self.assertLess(time.monotonic() - began, 4 * SLOWER)  # timeout is 2 s; the origin would be waited for for 5
        self.idle()

    def test_a_client_that_reads_nothing_holds_a_bounded_memory(self):
        before = self.tarnd.memory()
        held = []
        for n in range(20):
            s = self.tarnd.connect(receive_buffer=4096)
            s.sendall(tarnd.request("/page/one/part/large/4000000/passed"))
            held.append(s)
        time.sleep(1)
        grew = self.tarnd.memory() - before
        for s in held:
            s.close()
        self.assertLess(grew, (20 * 1400 * 1024 + (16 << 20)) * (4 if SLOWER > 1 else 1))

    def test_the_log_has_the_tree(self):
        url = "/page/one/page/one/part/tree/10/kept"
        ask(self.port, url)
        ask(self.port, url)
        said = self.tarnd.admin(f"/v1/why?url=http%3A%2F%2Fx{url.replace('/', '%2F')}")
        self.assertEqual("hit", said["now"])
        inner = said["includes"][0]
        self.assertEqual(("hit", "http://x/page/one/part/tree/10/kept"), (inner["now"], inner["url"]))
        self.assertEqual("hit", inner["includes"][0]["now"])
        self.assertTrue(any("page with ESI" in line for line in said["text"]), said["text"])


class Reload(Case):
    def test_a_reload_in_the_middle_leaves_pages_whole(self):
        with open(self.tarnd.config, encoding="utf-8") as f:
            text_on = f.read()
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            jobs = [pool.submit(ask, self.port, f"/page/twelve/{n}") for n in range(16)]
            for n in range(6):
                time.sleep(0.1)
                with open(self.tarnd.config, "w", encoding="utf-8") as f:
                    f.write(text_on.replace("includes: 1000", f"includes: {1000 - n}"))
                self.tarnd.process.send_signal(signal.SIGHUP)
            for n, job in enumerate(jobs):
                self.assertEqual(b"<html>" + b"".join(b"%d[%d]" % (i, n) for i in range(12)) + b"</html>", job.result()[1])

    def test_an_origin_that_is_dead_gives_error_pages_and_no_hang(self):
        ask(self.port, "/page/one/wait/dead/1")
        _, body = ask(self.port, "/page/one/part/x/10/kept")
        self.origin.shutdown()
        self.origin.server_close()
        _, body = ask(self.port, "/page/one/wait/dead/1")
        self.assertEqual(b"<html>a[dead]b</html>", body)
        type(self).origin = Origin(("127.0.0.1", 0), self.answers)
        threading.Thread(target=self.origin.serve_forever, daemon=True).start()


class Secure(Case):
    """By TLS and HTTP/2: the page is one stream of many."""

    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.mkdtemp(prefix="tarn-esi.")
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                        "-keyout", f"{cls.dir}/x.key", "-out", f"{cls.dir}/x.pem", "-days", "2", "-subj", "/CN=x",
                        "-addext", "subjectAltName=DNS:x"], check=True, capture_output=True)
        cls.tls_port = tarnd.free_port()
        cls.config = (f"  - {{{{ address: 127.0.0.1:{cls.tls_port}, tls: {{{{ certificates: {cls.dir} }}}} }}}}\n"
                      + CONFIG)
        super().setUpClass()

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        shutil.rmtree(cls.dir)

    def curl(self, *paths, version="--http2"):
        urls = [f"https://x:{self.tls_port}{path}" for path in paths]
        return subprocess.run(["curl", "-sS", "--fail", "--cacert", f"{self.dir}/x.pem", version, "--resolve",
                               f"x:{self.tls_port}:127.0.0.1", *urls], check=True, capture_output=True).stdout

    def test_twelve_includes_take_as_long_as_one(self):
        for version in ("--http2", "--http1.1"):
            began = time.monotonic()
            body = self.curl(f"/page/twelve/{version[2:5]}{version[-1]}", version=version)
            self.assertEqual(12, body.count(b"["))
            self.assertLess(time.monotonic() - began, 1.2 * SLOWER)

    def test_pages_are_what_they_say(self):
        for n in range(PAGES // 3):
            self.assertEqual(Page(f"s{n}").shown, self.curl(f"/page/0/s{n}"))


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    TARND = sys.argv.pop(1)
    SLOWER = float(os.environ.get("ESI_SLOWER", "5" if "asan" in TARND or "tsan" in TARND else "1"))
    unittest.main(verbosity=2)
