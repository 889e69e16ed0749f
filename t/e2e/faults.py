#!/usr/bin/env python3
"""faults.py TARND PRELOAD [TEST...] -- what is promised when something outside Tarn fails.

PRELOAD is the library of fault_preload.c: it makes allocations and accepts fail, and the wall
clock jump, when a test says so and not before.
"""
import concurrent.futures
import errno
import http.client
import itertools
import mmap
import os
import socket
import struct
import sys
import tempfile
import threading
import time
import unittest

sys.dont_write_bytecode = True
import origin
from origin import body
from tarnd import Answer, Tarnd, raise_file_limit, read_to_end, request, reset, wait_until

KI, MI = 1024, 1024 * 1024
HOUR_S = 3600
CROWD = 100  # connections at once
TABLES = 4  # times that something has to grow for them, at most
ALLOC_S = 10  # for all the runs of one test in which allocations fail

CONFIG = """
workers: 1
storage:
  main: {{ engine: malloc, size: 8MiB }}
backends:
  default: {{ address: "{origin}", first_byte_timeout: 3s, between_bytes_timeout: 3s }}
  dead: {{ address: "unix:{{dir}}/nobody.sock" }}
routes:
  - {{ path: /dead/, backend: dead }}
parameters: {{ max_object_size: 4MiB, uncacheable_ttl: 0s, log_level: error, core_dumps: on{parameters} }}
"""


class Handler(origin.Handler):
    """Besides what the tests register: /checked?n=SIZE is stored and asked about each time."""

    def do_GET(self):
        if not self.path.startswith("/checked"):
            super().do_GET()
            return
        with self.server.lock:
            self.server.requests[self.path] += 1
        same = self.headers.get("If-None-Match") == '"1"'
        self.send_response(304 if same else 200)
        self.send_header("ETag", '"1"')
        self.send_header("Cache-Control", "no-cache")
        if not same:
            self.send_header("Content-Length", "5")
        self.end_headers()
        if not same and self.command != "HEAD":
            self.wfile.write(b"hello")

    do_HEAD = do_GET

    def do_POST(self):
        data = self.rfile.read(int(self.headers["Content-Length"]))
        with self.server.lock:
            self.server.requests[self.path] += 1
        self.start("length", len(data), "no-store")
        self.piece(data)
        self.end()


class Faults:
    """The file that tarnd's preloaded library maps too."""

    WORDS = ("alloc_in", "alloc_row", "alloc_seen", "alloc_failed", "wall_ms", "accept_fails",
             "accept_errno", "realloc_in", "tls_in", "tls_row", "tls_failed", "tls_live")

    def __init__(self, path):
        with open(path, "w+b") as f:
            f.write(bytes(8 * len(self.WORDS)))
            f.flush()
            self.map = mmap.mmap(f.fileno(), 8 * len(self.WORDS))
        self.path = path

    def environment(self, library):
        """That of a tarnd with these faults."""
        it = {"LD_PRELOAD": library, "TARN_FAULTS": self.path}
        if "ASAN_OPTIONS" in os.environ:  # ours comes before the sanitizer's library, knowingly
            it["ASAN_OPTIONS"] = os.environ["ASAN_OPTIONS"] + ":verify_asan_link_order=0"
        return it

    def set(self, **words):
        for name, value in words.items():
            struct.pack_into("q", self.map, 8 * self.WORDS.index(name), value)

    def get(self, name):
        return struct.unpack_from("q", self.map, 8 * self.WORDS.index(name))[0]


class FaultyTarnd(Tarnd):
    def __init__(self, parameters=""):
        self.path = os.path.join(folder, f"faults.{next(numbers)}")
        self.faults = Faults(self.path)
        self.log = open(self.path + ".log", "w+", encoding="utf-8", errors="replace")
        super().__init__(program, CONFIG.format(
            origin=world.address, parameters=parameters), self.faults.environment(preload), stderr=self.log)

    def tidy(self):
        super().tidy()
        if self.log.closed:
            return
        self.log.seek(0)
        for line in self.log:  # its own lines are of the faults; what a sanitizer says is not
            if "tarnd[" not in line:
                sys.stderr.write(line)
        self.log.close()


class Got:
    """What came of a request: status and body; status 0 when the connection ended instead, and
    whole False when the body did not come to its end."""

    def __init__(self, response=None, data=b"", whole=False):
        self.status = response.status if response is not None else 0
        self.field = response.getheader if response is not None else None
        self.body, self.whole = data, whole


def fetch(port, method, target, fields=(), data=None, seconds=10):
    """One request on a connection of its own.  Only silence is an error."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=seconds)
    response = None
    try:
        connection.putrequest(method, target, skip_host=True, skip_accept_encoding=True)
        for name, value in (("Host", "tarn.test"), *fields):
            connection.putheader(name, value)
        if data is not None:
            connection.putheader("Content-Length", str(len(data)))
        connection.endheaders(data)
        response = connection.getresponse()
        return Got(response, response.read(), True)
    except http.client.IncompleteRead as e:
        return Got(response, e.partial)
    except (http.client.BadStatusLine, ConnectionError):
        return Got()
    finally:
        connection.close()


class Step:
    """A request of the script, and the right answer; `whole` is right too, when memory is out:
    a range is a wish (RFC 9110 14.2), and what is not stored is compared with nothing."""

    def __init__(self, what, method, target, status, want, fields=(), data=None, whole=None):
        self.what, self.method, self.target, self.status = what, method, target, status
        self.want, self.fields, self.data, self.whole = want, fields, data, whole

    def ask(self, port):
        return fetch(port, self.method, self.target, self.fields, self.data)


STORED = "/body?n=100000&framing=length"
SCRIPT = (
    Step("miss", "GET", STORED, 200, body(100000)),
    Step("hit", "GET", STORED, 200, body(100000)),
    Step("pass", "GET", "/body?n=50000&framing=chunked&cc=no-store", 200, body(50000)),
    Step("upload", "POST", "/upload", 200, body(70000), data=body(70000)),
    Step("range", "GET", STORED, 206, body(100000)[10:100], [("Range", "bytes=10-99")],
         whole=body(100000)),
    Step("condition", "GET", STORED, 304, b"", [("If-None-Match", "*")],
         whole=body(100000)),
    Step("stored, to be checked", "GET", "/checked?1", 200, b"hello"),
    Step("validated", "GET", "/checked?1", 200, b"hello"),
    Step("malformed", "GET", "/", 400, None, [("Host", "another.test")]),
    Step("no origin", "GET", "/dead/", 502, None),
    Step("head", "HEAD", STORED, 200, b""),
    Step("range of a miss", "GET", "/body?n=300000&framing=length", 206, body(300000)[-1000:],
         [("Range", "bytes=-1000")], whole=body(300000)),
)


class AllocationFailure(unittest.TestCase):
    """The Nth allocation after readiness fails, or a row of them.  That request is lost, with an
    error or a cut connection, and nothing else is."""

    def crowd(self, tarnd):
        """Many at once: tables that grow with the number of connections grow."""
        held = []
        for _ in range(CROWD):
            s = tarnd.connect()
            self.addCleanup(s.close)
            held.append(s)
        for s in held:
            s.sendall(request("/dead/"))
        for s in held:
            try:
                s.recv(1)
            except ConnectionError:
                pass
            s.close()

    def run_script(self, tarnd):
        for step in SCRIPT:
            got = step.ask(tarnd.port)
            self.assertEqual((got.status, got.whole), (step.status, True), step.what)
            if step.want is not None:
                self.assertEqual(got.body, step.want, step.what)

    def run_damaged(self, tarnd):
        for step in SCRIPT:
            got, want = step.ask(tarnd.port), step.want
            if got.status == 0 or got.status >= 500:
                continue
            if got.status == 200 and step.whole is not None:
                want = step.whole
            else:
                self.assertEqual(got.status, step.status, step.what)
            if want is not None:  # to where it was cut, but then it must show
                self.assertEqual(got.body, want if got.whole else want[:len(got.body)], step.what)

    def allocations(self):
        """How many the script makes when none fails."""
        tarnd = FaultyTarnd()
        try:
            before = tarnd.faults.get("alloc_seen")
            self.run_script(tarnd)
            seen = tarnd.faults.get("alloc_seen") - before
            self.assertEqual(tarnd.close(), 0)
        finally:
            tarnd.tidy()
        return seen

    def one_run(self, which, nth, row, before=lambda tarnd: None):
        tarnd = FaultyTarnd()
        try:
            tarnd.faults.set(alloc_row=row, **{which: nth})
            before(tarnd)
            self.run_damaged(tarnd)
            tarnd.faults.set(**{which: 0})
            self.assertIsNone(tarnd.process.poll(), "tarnd died")
            self.run_script(tarnd)
            self.assertEqual(tarnd.close(), 0)
            return tarnd.faults.get("alloc_failed")
        finally:
            tarnd.tidy()

    def every(self, row):
        """For as many N as there is time for, spread over all; returns how many were tried."""
        last = self.allocations()
        began, nth, tried, failed = time.monotonic(), 1, 0, 0
        while nth <= last:
            with self.subTest(nth=nth, row=row):
                failed += self.one_run("alloc_in", nth, row)
            tried += 1
            each = (time.monotonic() - began) / tried
            left = ALLOC_S - (time.monotonic() - began)
            nth += max(1, round((last - nth) * each / left)) if left > each else last
        print(f"{last} allocations, {tried} runs, {failed} made to fail", flush=True)
        self.assertGreater(failed, 0)

    def test_a_table_that_cannot_grow_costs_one_connection(self):
        for nth in range(1, TABLES + 1):
            with self.subTest(nth=nth):
                self.one_run("realloc_in", nth, 1, self.crowd)

    def test_one_allocation_that_fails_costs_one_request(self):
        self.every(1)

    def test_a_row_of_allocations_that_fail_is_survived(self):
        self.every(20)


class WithTarnd(unittest.TestCase):
    def start(self, parameters=""):
        tarnd = FaultyTarnd(parameters)
        self.addCleanup(tarnd.tidy)
        return tarnd

    def connect(self, tarnd, **options):
        s = tarnd.connect(**options)
        self.addCleanup(s.close)
        return s


class TimeJump(WithTarnd):
    """The wall clock is for Date and Age; nothing waits by it."""

    def age(self, tarnd, target):
        got = fetch(tarnd.port, "GET", target)
        self.assertEqual((got.status, got.body), (200, body(100)))
        return int(got.field("Age", "0"))

    def jump(self, seconds):
        tarnd = self.start(", timeout_idle: 1s, timeout_req: 1s")
        lasting = "/body?n=100&framing=length&cc=max-age%3D86400"
        self.age(tarnd, lasting)
        idle, slow = self.connect(tarnd), self.connect(tarnd)
        slow.sendall(b"GET / HTTP/1.1\r\n")
        began = time.monotonic()
        tarnd.faults.set(wall_ms=seconds * 1000)
        age = self.age(tarnd, lasting)
        self.assertGreaterEqual(age, 0)
        self.assertLessEqual(age, max(seconds, 0) + 10)
        self.assertEqual(world.requests[lasting], 1 if seconds < 0 else 2)
        # Deadlines neither come at once nor never.
        self.assertEqual(read_to_end(idle), b"")
        self.assertTrue(read_to_end(slow).startswith(b"HTTP/1.1 408 "))
        self.assertGreater(time.monotonic() - began, 0.8)
        self.assertLess(time.monotonic() - began, 5)

        def play(handler):  # without Date: the origin's clock is not ours
            handler.send_response_only(200)
            handler.send_header("Cache-Control", "max-age=1")
            handler.send_header("Content-Length", "100")
            handler.end_headers()
            handler.piece(body(100))

        short = world.script(f"jump{seconds}", play)
        for tries in (1, 2):  # what comes after the jump is stored and ends as ever
            self.age(tarnd, short)
            self.assertLessEqual(self.age(tarnd, short), 1)
            self.assertEqual(world.requests[short], tries)
            time.sleep(1.1)
        return tarnd

    def test_an_hour_forward_is_survived(self):
        self.assertEqual(self.jump(HOUR_S).close(), 0)

    def test_an_hour_back_is_survived(self):
        self.assertEqual(self.jump(-HOUR_S).close(), 0)

    def test_a_jump_there_and_back_hangs_no_fetch(self):
        tarnd = self.start()
        asked, go = threading.Event(), threading.Event()

        def play(handler):
            asked.set()
            go.wait(10)
            handler.start("length", 5)
            handler.piece(b"hello")
            handler.end()

        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            coming = pool.submit(fetch, tarnd.port, "GET", world.script("jump", play))
            self.assertTrue(asked.wait(10))
            for ms in (HOUR_S * 1000, -HOUR_S * 1000, 0):
                tarnd.faults.set(wall_ms=ms)
                time.sleep(0.05)
            go.set()
            self.assertEqual(coming.result().body, b"hello")
        tarnd.faults.set(wall_ms=-HOUR_S * 1000)
        began = time.monotonic()
        self.assertEqual(tarnd.close(), 0)
        self.assertLess(time.monotonic() - began, 5)


class Accept(WithTarnd):
    def test_connections_that_are_aborted_in_the_queue_cost_nobody_else(self):
        tarnd = self.start()
        for error in (errno.ECONNABORTED, errno.EPROTO, errno.EINTR):
            with self.subTest(error=errno.errorcode[error]):
                tarnd.faults.set(accept_errno=error, accept_fails=50)
                self.assertEqual(fetch(tarnd.port, "GET", STORED).body, body(100000))
                wait_until(lambda: tarnd.faults.get("accept_fails") == 0, "accept is called")
                self.assertEqual(fetch(tarnd.port, "GET", STORED).body, body(100000))
        self.assertEqual(tarnd.close(), 0)

    def test_without_memory_for_a_socket_it_rests_and_does_not_spin(self):
        tarnd = self.start()
        self.assertEqual(fetch(tarnd.port, "GET", STORED).body, body(100000))
        for error in (errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
            with self.subTest(error=errno.errorcode[error]):
                tarnd.faults.set(accept_errno=error, accept_fails=1 << 40)
                s = self.connect(tarnd)
                s.sendall(request(STORED, "Connection: close"))
                before = tarnd.cpu_s()
                time.sleep(1)
                self.assertLess(tarnd.cpu_s() - before, 0.2)
                tarnd.faults.set(accept_fails=0)
                began = time.monotonic()
                self.assertEqual(Answer(read_to_end(s)).body, body(100000))
                self.assertLess(time.monotonic() - began, 1)
        self.assertEqual(tarnd.close(), 0)


class Drain(WithTarnd):
    SLOW = 50

    def test_fifty_responses_in_flight_are_finished(self):
        tarnd = self.start()
        all_here, go = threading.Semaphore(0), threading.Event()

        def play(handler):
            handler.start("length", 200000, "no-store")
            handler.piece(body(200000)[:100000])
            all_here.release()
            go.wait(30)
            handler.piece(body(200000)[100000:])
            handler.end()

        held = [self.connect(tarnd) for _ in range(self.SLOW)]
        for i, s in enumerate(held):
            s.sendall(request(world.script(f"drain{i}", play)))
        for _ in held:
            self.assertTrue(all_here.acquire(timeout=30))
        tarnd.terminate()
        wait_until(lambda: self.refused(tarnd), "new connections are refused")
        go.set()
        for s in held:
            answer = Answer(read_to_end(s))
            self.assertEqual((answer.status, answer.body), (200, body(200000)))
        self.assertEqual(tarnd.process.wait(10), 0)

    def refused(self, tarnd):
        with socket.socket() as s:
            return s.connect_ex(("127.0.0.1", tarnd.port)) == errno.ECONNREFUSED


class Storage(WithTarnd):
    CHURN = 50  # objects, each a quarter of the storage

    def test_what_slow_readers_hold_survives_a_hundred_megabytes(self):
        tarnd = self.start(", transit_buffer: 64KiB")
        size = 2 * MI - 64 * KI
        held = []
        for i in range(4):
            s = self.connect(tarnd, receive_buffer=4096)
            s.sendall(request(f"/body?n={size}&framing=length&slow={i}", "Connection: close"))
            held.append((s, s.recv(1000)))
        for i in range(self.CHURN):
            got = fetch(tarnd.port, "GET", f"/body?n={size}&framing=length&churn={i}")
            self.assertEqual(got.status, 200)  # kept or not, it is an answer
            self.assertTrue(got.body == body(size))
        for s, first in held:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, MI)  # slow no more
            answer = Answer(first + read_to_end(s))
            self.assertTrue(answer.body == body(size))
        for _ in range(2):  # and when they are gone there is room again
            got = fetch(tarnd.port, "GET", f"/body?n={size}&framing=length&after")
        self.assertIn("; hit", got.field("Cache-Status"))
        self.assertEqual(tarnd.close(), 0)


class Leavers(WithTarnd):
    def test_when_all_who_waited_leave_nothing_is_left_behind(self):
        tarnd = self.start()
        fetch(tarnd.port, "GET", STORED)  # what is opened once is open
        for cc in ("max-age=60", "no-store"):
            with self.subTest(cc=cc):
                self.leave(tarnd, cc)
        self.assertEqual(tarnd.close(), 0)  # at once: no request and no fetch is left

    def leave(self, tarnd, cc):
        fds = tarnd.descriptors()
        asked, go = threading.Event(), threading.Event()

        def play(handler):
            handler.start("chunked", 0, cc)
            handler.piece(body(1000))
            asked.set()
            go.wait(10)
            for _ in range(20):
                handler.piece(body(100000))
            handler.end()

        target = world.script("leave-" + cc, play)
        held = [tarnd.connect() for _ in range(20)]
        for s in held:
            s.sendall(request(target))
        self.assertTrue(asked.wait(10))
        for i, s in enumerate(held):
            reset(s) if i % 2 else s.close()
        go.set()
        # One idle connection to the origin may stay, for each request that reached it.
        wait_until(lambda: tarnd.descriptors() <= fds + world.requests[target], "all is closed")

    def test_twenty_who_wait_for_a_body_that_stalls_are_all_cut(self):
        tarnd = self.start()
        stop = threading.Event()

        def play(handler):
            if world.requests[target] > 1:
                handler.start("length", 2000)
                handler.piece(body(2000))
                handler.end()
                return
            handler.start("length", 2000)
            handler.piece(body(1000))
            stop.wait(20)
            handler.close_connection = True

        target = world.script("stall", play)
        with concurrent.futures.ThreadPoolExecutor(20) as pool:
            waiting = [pool.submit(fetch, tarnd.port, "GET", target) for _ in range(20)]
            for coming in waiting:
                got = coming.result()
                self.assertEqual((got.status, got.whole, got.body), (200, False, body(1000)))
        stop.set()
        self.assertEqual(world.requests[target], 1)
        self.assertEqual(fetch(tarnd.port, "GET", target).body, body(2000))
        self.assertEqual(tarnd.close(), 0)


program = preload = folder = world = None
numbers = itertools.count()


def main():
    global program, preload, folder, world
    if len(sys.argv) < 3:
        sys.exit("usage: faults.py TARND PRELOAD [TEST...]")
    program, preload = (os.path.abspath(sys.argv.pop(1)) for _ in range(2))
    raise_file_limit(1024)
    with tempfile.TemporaryDirectory(prefix="tarn-faults.") as folder:
        world = origin.Origin(Handler)
        unittest.main(verbosity=2)


if __name__ == "__main__":
    main()
