#!/usr/bin/env python3
"""negative.py TARND [TEST...] -- a flood of names that do not exist, and what it may not do.

NEGATIVE_FLOOD in the environment: how many names; default 1,000.
"""
import collections
import concurrent.futures
import http.client
import http.server
import json
import os
import socket
import sys
import threading
import time
import unittest

sys.dont_write_bytecode = True
import tarnd
from origin import Origin

FLOOD = int(os.environ.get("NEGATIVE_FLOOD", "1000"))
CLIENTS = 4
KEPT_BYTES = 250000
PAGE = b"<h1>The origin's own page, of which nothing is kept</h1>" * 40
CONFIG = """
workers: 2
admin: {{ address: "unix:{{dir}}/admin.sock" }}
storage:
  main: {{ size: 64MiB }}
backends:
  default: {{ address: "{origin}" }}
negative_cache: {{ entries: {entries}, ttl: 1h }}
parameters: {{ log_ring: 64KiB }}
"""
program = None


class Handler(http.server.BaseHTTPRequestHandler):
    """/kept/N is there; /slow/N is not, and takes its time; nor is anything else."""
    protocol_version = "HTTP/1.1"
    timeout = 60
    wbufsize = 65536  # head and body at once: a delayed acknowledgement between them takes 40 ms

    def do_GET(self):
        kept = self.path.startswith("/kept/")
        with self.server.lock:
            self.server.requests[self.path] += 1
        if self.path.startswith("/slow/"):
            time.sleep(0.3)
        body = b"x" * KEPT_BYTES if kept else PAGE
        self.send_response(200 if kept else 404)
        self.send_header("Content-Length", str(len(body)))
        if kept:
            self.send_header("Cache-Control", "max-age=3600")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class AdminConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("tarn", timeout=tarnd.PATIENCE_S)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self.path)


class Negative(unittest.TestCase):
    def setUp(self):
        self.origin = Origin(Handler)
        self.addCleanup(self.origin.server_close)
        self.addCleanup(self.origin.shutdown)
        self.tarnd = tarnd.Tarnd(
            program, CONFIG.format(origin=self.origin.address, entries=max(FLOOD, 2000) * 4 // 3))
        self.addCleanup(lambda: self.assertEqual(self.tarnd.close(), 0))

    def admin(self, target):
        c = AdminConnection(os.path.join(self.tarnd.dir, "admin.sock"))
        c.request("GET", target)
        answer = json.load(c.getresponse())
        c.close()
        return answer

    def counter(self, name):
        counters = self.admin("/v1/counters")
        return counters.get("counters", counters)[name]

    def asked(self, prefix):
        with self.origin.lock:
            return collections.Counter(
                {path: n for path, n in self.origin.requests.items() if path.startswith(prefix)})

    def ask_all(self, targets):
        """Statuses and Cache-Status of all, in order, by a few clients at once."""
        def ask(some):
            c = http.client.HTTPConnection("127.0.0.1", self.tarnd.port,
                                           timeout=tarnd.PATIENCE_S)
            answers = []
            for target in some:
                c.request("GET", target)
                r = c.getresponse()
                r.read()
                answers.append((r.status, r.headers.get("Cache-Status", "")))
            c.close()
            return answers

        with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
            parts = pool.map(ask, [targets[i::CLIENTS] for i in range(CLIENTS)])
            return [answer for part in parts for answer in part]

    def test_a_flood_of_names_asks_the_origin_once_for_each(self):
        names = [f"/missing/{i}" for i in range(FLOOD)]
        self.ask_all(names)
        answers = self.ask_all(names)
        self.assertEqual({status for status, _ in answers}, {404})
        told = sum("; detail=negative" in status for _, status in answers)
        evicted = self.counter("negative.evicted")
        print(f"{FLOOD} names: {told} known the second time, {evicted} evicted", flush=True)
        # Another may have taken a name's place, also the second time.
        self.assertGreaterEqual(told, FLOOD - evicted)
        self.assertLessEqual(evicted, FLOOD // 50)
        self.assertEqual(sum(self.asked("/missing/").values()), 2 * FLOOD - told)
        self.assertEqual(self.counter("negative.hits"), told)
        shown = self.admin("/v1/index")["negative"]
        self.assertLessEqual(shown["entries"], FLOOD)
        self.assertGreaterEqual(shown["entries"], FLOOD - evicted)
        self.assertEqual(shown["evicted"], evicted)

    def test_a_flood_of_names_leaves_what_is_stored(self):
        kept = 0
        while self.counter("cache.evicted") == 0:  # until the storage is full
            self.ask_all([f"/kept/{i}" for i in range(kept, kept + 20)])
            kept += 20
        before = self.counter("cache.evicted")
        self.ask_all([f"/missing/{i}" for i in range(FLOOD)])
        self.ask_all([f"/missing/{i}" for i in range(FLOOD)])
        left = self.counter("cache.evicted") - before
        print(f"{kept} stored, {FLOOD} names: {left} left", flush=True)
        # What is under way needs room until RCU has let go of it; what has been asked for needs none.
        self.assertLessEqual(left * KEPT_BYTES, (64 << 20) // 50)
        self.assertGreater(self.counter("negative.hits"), FLOOD * 9 // 10)

    def test_many_who_ask_at_once_ask_the_origin_once(self):
        for name in ("/slow/1", "/slow/2"):
            together = threading.Barrier(24)

            def ask():
                together.wait()
                return self.tarnd.ask(name).status

            with concurrent.futures.ThreadPoolExecutor(24) as pool:
                asked = [pool.submit(ask) for _ in range(24)]
                self.assertEqual({a.result() for a in asked}, {404})
            self.assertEqual(self.asked(name)[name], 1)


if __name__ == "__main__":
    program = sys.argv.pop(1)
    unittest.main(verbosity=2)
