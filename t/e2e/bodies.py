#!/usr/bin/env python3
"""bodies.py TARND [TEST...] -- what clients get through tarnd, end to end.

tarnd with two workers stands in front of nginx (on a Unix socket) and of an origin of our own
(on TCP), and listens on both.  Where a test is about order, one side waits for the other to have
seen something: nothing here depends on how fast the machine is.
"""
import concurrent.futures
import hashlib
import http.client
import os
import queue
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.dont_write_bytecode = True
import tarnd
from origin import Origin, body

KI, MI = 1024, 1024 * 1024
SIZES = (0, 1, 100, KI, 16 * KI, 64 * KI, 64 * KI + 1, MI, 64 * MI)
FRAMINGS = ("length", "chunked")
PATIENCE_S = 60  # a thing that has not happened by then does not happen

NGINX = """
daemon off;
master_process off;
{user}
pid {dir}/nginx.pid;
error_log stderr warn;
events {{ worker_connections 256; }}
http {{
    access_log off;
    client_body_temp_path {dir}/temp;
    proxy_temp_path {dir}/temp;
    fastcgi_temp_path {dir}/temp;
    uwsgi_temp_path {dir}/temp;
    scgi_temp_path {dir}/temp;
    default_type application/octet-stream;
    add_header Cache-Control max-age=600;
    server {{
        listen unix:{dir}/nginx.sock;
        location /nginx/length/ {{ alias {dir}/files/; }}
        # A page that may have includes has no known length, so it is sent chunked.
        location /nginx/chunked/ {{ alias {dir}/files/; ssi on; ssi_types *; }}
    }}
}}
"""

TARN = """
listen:
  - address: unix:{dir}/tarn.sock
  - address: 127.0.0.1:0
workers: 2
storage:
  main: {{ engine: malloc, size: 512MiB }}
backends:
  default: {{ address: "{origin}" }}
  nginx: {{ address: "unix:{dir}/nginx.sock" }}
routes:
  - {{ path: /nginx/, backend: nginx }}
parameters: {{ max_object_size: 100MiB }}
"""


class World:
    """The three servers and their folder."""

    def __init__(self, tarnd):
        self.dir = tempfile.mkdtemp(prefix="tarn-e2e.")
        self.processes = []
        os.mkdir(self.dir + "/files")
        for size in SIZES:
            self.write(f"files/{size}", body(size))
        user = "user root;" if os.geteuid() == 0 else ""
        self.write("nginx.conf", NGINX.format(dir=self.dir, user=user).encode())
        self.nginx = self.spawn("nginx", "-p", self.dir, "-e", "stderr", "-c", self.dir + "/nginx.conf")
        self.wait_for_socket(self.dir + "/nginx.sock")
        self.origin = Origin()
        self.write("tarn.yaml", TARN.format(dir=self.dir, origin=self.origin.address).encode())
        self.tarnd = self.spawn(tarnd, "-c", self.dir + "/tarn.yaml", stdout=subprocess.PIPE)
        self.addresses = self.wait_for_ready()

    def write(self, name, data):
        with open(os.path.join(self.dir, name), "wb") as f:
            f.write(data)

    def spawn(self, *command, **options):
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, **options)
        self.processes.append(process)
        return process

    def wait_for_socket(self, path):
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline and self.nginx.poll() is None:
            with socket.socket(socket.AF_UNIX) as s:
                if s.connect_ex(path) == 0:
                    return
            time.sleep(0.02)
        raise RuntimeError("nginx does not listen")

    def wait_for_ready(self):
        lines = queue.Queue()

        def read():
            for line in self.tarnd.stdout:
                lines.put(line.decode())
            lines.put("")

        threading.Thread(target=read, daemon=True).start()
        line = lines.get(timeout=PATIENCE_S)
        if not line.startswith("tarnd: ready "):
            raise RuntimeError(f"instead of its ready line tarnd said {line!r}")
        return line.split()[2:]

    def close(self):
        """Answers with tarnd's exit status after a drain."""
        self.tarnd.send_signal(signal.SIGTERM)
        try:
            return self.tarnd.wait(timeout=PATIENCE_S)
        finally:
            self.tidy()

    def tidy(self):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()
        shutil.rmtree(self.dir, ignore_errors=True)


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("tarn.test", timeout=PATIENCE_S)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


def connect(kind="tcp"):
    for address in world.addresses:
        if address.startswith("unix:") and kind == "unix":
            return UnixConnection(address[len("unix:"):])
        if not address.startswith("unix:") and kind == "tcp":
            host, port = address.rsplit(":", 1)
            return http.client.HTTPConnection(host, int(port), timeout=PATIENCE_S)
    raise RuntimeError(f"no {kind} listener in {world.addresses}")


class Got:
    """A response, read to its end."""

    def __init__(self, response, got=b""):
        digest, size = hashlib.sha256(got), len(got)
        while True:
            data = response.read(MI)
            if not data:
                break
            digest.update(data)
            size += len(data)
        self.status, self.field = response.status, response.getheader
        self.size, self.sha256 = size, digest.hexdigest()


def begin(target, kind="tcp", method="GET"):
    """Sends a request under the one host name, and returns connection and response."""
    connection = connect(kind)
    connection.request(method, target, headers={"Host": "tarn.test"})
    return connection, connection.getresponse()


def fetch(target, kind="tcp", method="GET"):
    connection, response = begin(target, kind, method)
    try:
        return Got(response)
    finally:
        connection.close()


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def wait(event):
    if not event.wait(PATIENCE_S):
        raise AssertionError("one side waited for the other in vain")


class Bodies(unittest.TestCase):
    def check_whole(self, got, want):
        self.assertEqual(got.status, 200)
        self.assertEqual(got.size, len(want))
        self.assertEqual(got.sha256, sha256(want))

    def check_miss_then_hit(self, target, size):
        miss = fetch(target, "tcp")
        self.check_whole(miss, body(size))
        self.assertIn("; fwd=", miss.field("Cache-Status"))  # a Date of the second before is an Age of 1
        for kind in ("unix", "tcp"):
            hit = fetch(target, kind)
            self.check_whole(hit, body(size))
            self.assertIsNotNone(hit.field("Age"))
            self.assertIn("hit", hit.field("Cache-Status", ""))
        head = fetch(target, "unix", "HEAD")
        self.assertEqual((head.status, head.size), (200, 0))

    def test_bodies_of_nginx_arrive_bit_for_bit_on_miss_and_hit(self):
        for framing in FRAMINGS:
            for size in SIZES:
                with self.subTest(framing=framing, size=size):
                    self.check_miss_then_hit(f"/nginx/{framing}/{size}", size)

    def test_bodies_of_our_origin_arrive_bit_for_bit_on_miss_and_hit(self):
        for framing in FRAMINGS:
            for size in SIZES:
                target = f"/body?n={size}&framing={framing}"
                with self.subTest(framing=framing, size=size):
                    self.check_miss_then_hit(target, size)
                    self.assertEqual(world.origin.requests[target], 1)

    def test_bodies_that_are_not_stored_arrive_bit_for_bit_each_time(self):
        for framing in FRAMINGS:
            for size in SIZES:
                target = f"/body?n={size}&framing={framing}&cc=no-store"
                with self.subTest(framing=framing, size=size):
                    for times in (1, 2):
                        got = fetch(target)
                        self.check_whole(got, body(size))
                        self.assertIsNone(got.field("Age"))
                        self.assertEqual(world.origin.requests[target], times)


class Coalescing(unittest.TestCase):
    def test_sixty_requests_for_a_slow_object_make_one_origin_request(self):
        for framing in FRAMINGS:
            with self.subTest(framing=framing):
                self.sixty(framing)

    def sixty(self, framing):
        asked = threading.Event()
        want = body(300 * KI)

        def play(handler):
            wait(asked)  # all sixty requests are on their way
            time.sleep(0.5)  # and most have been read: what comes later is a hit, and right too
            handler.start(framing, len(want))
            handler.piece(want)
            handler.end()

        target = world.origin.script(f"sixty-{framing}", play)
        connections = [connect("unix" if i % 3 == 0 else "tcp") for i in range(60)]
        for connection in connections:
            connection.request("GET", target, headers={"Host": "tarn.test"})
        asked.set()
        for connection in connections:
            got = Got(connection.getresponse())
            connection.close()
            self.assertEqual((got.status, got.sha256), (200, sha256(want)))
        self.assertEqual(world.origin.requests[target], 1)

    def test_waiters_for_what_proves_uncacheable_do_not_queue_behind_each_other(self):
        everybody = threading.Barrier(8)

        def play(handler):
            if world.origin.requests[target] > 1:
                everybody.wait(PATIENCE_S)  # passed only if eight are here at once
            else:
                wait(asked)
                time.sleep(0.3)
            handler.start("length", 4, "no-store")
            handler.piece(b"mine")
            handler.end()

        asked = threading.Event()
        target = world.origin.script("uncacheable", play)
        connections = [connect() for _ in range(9)]
        for connection in connections:
            connection.request("GET", target, headers={"Host": "tarn.test"})
        asked.set()
        with concurrent.futures.ThreadPoolExecutor(9) as pool:
            for got in pool.map(lambda c: Got(c.getresponse()), connections):
                self.assertEqual((got.status, got.sha256), (200, sha256(b"mine")))
        self.assertEqual(world.origin.requests[target], 9)
        for connection in connections:
            connection.close()


class Streaming(unittest.TestCase):
    PIECE = 10000

    def drip(self, name, framing, pieces, cache_control="max-age=600"):
        """A target whose piece i+1 is sent only after seen[i] is set."""
        seen = [threading.Event() for _ in range(pieces - 1)]
        want = body(pieces * self.PIECE)

        def play(handler):
            handler.start(framing, len(want), cache_control)
            for i in range(pieces):
                handler.piece(want[i * self.PIECE:(i + 1) * self.PIECE])
                if i < len(seen):
                    wait(seen[i])
            handler.end()

        return world.origin.script(f"{name}-{framing}", play), seen, want

    def test_first_byte_arrives_while_the_origin_still_sends(self):
        for cache_control in ("max-age=600", "no-store"):
            for framing in FRAMINGS:
                with self.subTest(framing=framing, cache_control=cache_control):
                    target, seen, want = self.drip("first-" + cache_control, framing, 2, cache_control)
                    connection, response = begin(target)
                    first = response.read(1)  # the origin sends no more before it is here
                    self.assertFalse(seen[0].is_set())
                    seen[0].set()
                    got = Got(response, first)
                    connection.close()
                    self.assertEqual(got.sha256, sha256(want))

    def test_five_clients_that_join_along_the_way_all_get_the_whole(self):
        for framing in FRAMINGS:
            with self.subTest(framing=framing):
                target, seen, want = self.drip("join", framing, 6)
                joined = []
                for i in range(5):
                    connection, response = begin(target, "unix" if i % 2 else "tcp")
                    # All that the origin has sent: also the latecomers get it from the start.
                    joined.append((connection, response, response.read((i + 1) * self.PIECE)))
                    seen[i].set()
                for connection, response, first in joined:
                    got = Got(response, first)
                    connection.close()
                    self.assertEqual((got.status, got.sha256), (200, sha256(want)))
                self.assertEqual(world.origin.requests[target], 1)

    def test_others_get_everything_when_the_first_client_leaves(self):
        target, seen, want = self.drip("leave", "length", 3)
        first, response = begin(target)
        response.read(self.PIECE)
        other, response = begin(target, "unix")
        start = response.read(self.PIECE)
        first.close()
        seen[0].set()
        seen[1].set()
        got = Got(response, start)
        other.close()
        self.assertEqual(got.sha256, sha256(want))
        self.check_hit(target, want)
        self.assertEqual(world.origin.requests[target], 1)

    def check_hit(self, target, want):
        got = fetch(target)
        self.assertEqual(got.sha256, sha256(want))
        self.assertIsNotNone(got.field("Age"))

    def test_a_truncated_response_ends_as_such_and_is_not_stored(self):
        for framing in FRAMINGS:
            with self.subTest(framing=framing):
                self.truncated(framing)

    def truncated(self, framing):
        want = body(2 * self.PIECE)

        def play(handler):
            whole = world.origin.requests[target] > 1
            handler.start(framing, len(want))
            handler.piece(want[:self.PIECE])
            if whole:
                handler.piece(want[self.PIECE:])
                handler.end()
            handler.close_connection = True

        target = world.origin.script("truncated-" + framing, play)
        connection, response = begin(target)
        if response.status != 502:  # right, too, if nothing had been sent before it was known
            with self.assertRaises((http.client.IncompleteRead, ConnectionError)):
                response.read()
        connection.close()
        self.assertEqual(fetch(target).sha256, sha256(want))
        self.assertEqual(world.origin.requests[target], 2)


class LastBatch(unittest.TestCase):
    """A response is given to the connection in batches, eight in a turn; the eighth may be its last.

    Of these ranges the first fills the socket.  What follows are eight batches: two ranges with a line in front of
    each, one that lies in two stored parts, and the end.
    """
    MI = 1 << 20
    TRIES = 60  # of which some leave a full socket in front of just these eight

    def play(self, handler):
        first, last = map(int, re.fullmatch(r"bytes=(\d+)-(\d+)", handler.headers["Range"]).groups())
        handler.send_response(206)
        handler.send_header("ETag", '"1"')
        handler.send_header("Cache-Control", "max-age=600")
        handler.send_header("Content-Range", f"bytes {first}-{last}/{8 * self.MI}")
        handler.send_header("Content-Length", str(last - first + 1))
        handler.end_headers()
        handler.chunked = False
        handler.piece(body(8 * self.MI)[first:last + 1])

    def test_a_response_ends_with_its_last_batch(self):
        o = Origin()
        self.addCleanup(o.close)
        it = tarnd.Tarnd(program, "workers: 1\nstorage: { main: { size: 256MiB } }\n"
                         f"backends: {{ default: {{ address: '{o.address}' }} }}\n")
        self.addCleanup(it.tidy)
        target = o.script("parts", self.play)
        half = 5 * self.MI
        for first, last in ((0, half - 1), (half, half + self.MI)):
            self.assertEqual(it.ask(target, f"Range: bytes={first}-{last}").status, 206)
        choose = random.Random(1)
        for _ in range(self.TRIES):
            with it.connect(receive_buffer=4096, timeout=10) as s:
                s.sendall(tarnd.request(
                    target, f"Range: bytes=0-{choose.randrange(2 * self.MI, 4 * self.MI)},4300000-4300099,"
                    f"4400000-4400099,{half - 50}-{half + 49}", "Connection: close"))
                time.sleep(0.05)
                data = tarnd.read_to_end(s)  # TimeoutError: it did not end
            self.assertTrue(data.startswith(b"HTTP/1.1 206 ") and data.endswith(b"--\r\n"))
        self.assertEqual(o.requests[target], 2)
        self.assertEqual(it.close(), 0)


world = program = None


def main():
    global world, program
    if len(sys.argv) < 2:
        sys.exit("usage: bodies.py TARND [TEST...]")
    program = os.path.abspath(sys.argv.pop(1))
    world = World(program)
    try:
        done = unittest.main(exit=False, verbosity=2)
        status = world.close()
    finally:
        world.tidy()
    if status != 0:
        print(f"tarnd ended with status {status} instead of 0", file=sys.stderr)
    sys.exit(0 if done.result.wasSuccessful() and status == 0 else 1)


if __name__ == "__main__":
    main()
