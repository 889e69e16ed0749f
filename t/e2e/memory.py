#!/usr/bin/env python3
"""memory.py TARND [TEST...] -- what a connection costs tarnd in memory of its own.

Connections are opened by the hundred and held in one state; the growth of the resident set,
divided by their number, is what each costs.  What the kernel holds for them is told by the admin
listener, and has tests of its own.
A few connections of the same kind come first and stay, so that what is paid once is not counted,
and each test has a tarnd of its own, so that none is given memory that others have left behind.
"""
import os
import select
import sys
import threading
import time
import unittest

sys.dont_write_bytecode = True
import tls_world
from origin import Origin
from tarnd import Tarnd, raise_file_limit, read_to_end, request

KB = 1000
SLOWLORIS, SLOWLORIS_MAX = 1000, 5 * KB
READERS, READERS_MAX = 60, 5 * KB
SOCKET_MAX = 256 * KB  # TCP_NOTSENT_LOWAT, what is not acknowledged, and the kernel's overhead
IDLE, IDLE_MAX = 2000, 600  # of which tables that grow in steps are some
LONG_HEADS, LONG_HEADS_MAX = 100, 66 * KB  # twice http_req_size: memory grows in steps
TLS_READERS, TLS_READERS_MAX = 60, 25 * KB
TLS_IDLE, TLS_IDLE_MAX = 400, 15.6 * KB  # 13.4 of them OpenSSL 3.0's own
WARM_UP = 10
HEAD_DEADLINE_S = 2
BIG = 8 * 1024 * 1024

# One worker: with two, the kernel deals the connections out, and each has free lists of its own.
# The ring of the log is small, so that all its pages are there before anything is measured.
CONFIG = """
workers: 1
backends:
  default: {{ address: "{origin}" }}
admin: {{ address: "unix:{dir}/admin.sock" }}
parameters:
  timeout_req: {head}s
  timeout_idle: 60s
  idle_send_timeout: 60s
  log_ring: 64KiB
  core_dumps: on  # else only root may look into /proc
"""


class Probe(threading.Thread):
    """Asks for a hit on one connection again and again, and remembers how long each took."""

    def __init__(self, tarnd):
        super().__init__(daemon=True)
        self.socket = tarnd.connect()
        self.over = threading.Event()
        self.took = []
        self.error = None
        self.start()

    def run(self):
        try:
            while not self.over.is_set():
                began = time.monotonic()
                self.socket.sendall(request("/body?n=1&framing=length"))
                answer = self.socket.recv(4096)
                if not answer.startswith(b"HTTP/1.1 200 "):
                    raise ConnectionError(f"instead of a hit: {answer!r}")
                self.took.append(time.monotonic() - began)
                time.sleep(0.005)
        except OSError as e:
            self.error = e

    def stop(self):
        self.over.set()
        self.join()
        self.socket.close()

    def worst_of_hundred(self):
        return sorted(self.took)[int(len(self.took) * 0.99)]


class Connections(unittest.TestCase):
    def setUp(self):
        self.held = []
        self.start()
        self.addCleanup(self.stop)

    def start(self, parameter=""):
        config = CONFIG.format(origin=origin.address, head=HEAD_DEADLINE_S, dir="{dir}")
        self.tarnd = Tarnd(program, config + f"  {parameter}\n")
        self.tarnd.ask("/body?n=1&framing=length")

    def stop(self):
        for s in self.held:
            s.close()
        self.assertEqual(self.tarnd.close(), 0, "exit status of tarnd")

    def hold(self, s):
        self.held.append(s)

    def measure(self, what, count, most, open_one):
        """Holds `count` connections as open_one() leaves them.  What the process takes once, beside them, is not
        what each costs: that comes again with the next as many."""
        for _ in range(WARM_UP):
            self.hold(open_one())
        for left in (2, 1, 0):
            each = self.measure_once(what, count, open_one)
            if each <= most or left == 0:
                break
        self.assertLessEqual(each, most, what)

    def measure_once(self, what, count, open_one):
        time.sleep(0.3)
        before = self.tarnd.memory()
        for _ in range(count):
            self.hold(open_one())
        time.sleep(0.5)  # for tarnd to have seen them all
        each = (self.tarnd.memory() - before) / count
        print(f"{what}: {each:.0f} bytes each, of {count}", flush=True)
        return each


class Memory(Connections):
    def check_probe(self, probe):
        probe.stop()
        self.assertIsNone(probe.error)
        self.assertGreater(len(probe.took), 50)
        worst = probe.worst_of_hundred()
        print(f"meanwhile: {len(probe.took)} hits, 99 % within {worst * 1000:.1f} ms", flush=True)
        self.assertLess(worst, 0.25)  # a loop that spins or waits takes seconds

    def test_a_slowloris_costs_little_and_is_closed_in_time(self):
        born = {}

        def open_one():
            s = self.tarnd.connect()
            s.sendall(b"GET / HTTP/1.1\r\nHost: tarn.test\r\nX-Slow: ")
            born[s] = time.monotonic()
            return s

        probe = Probe(self.tarnd)
        self.measure("slowloris", SLOWLORIS, SLOWLORIS_MAX, open_one)
        for s, (answer, ended) in self.trickle().items():
            self.assertTrue(answer.startswith(b"HTTP/1.1 408 "), answer)
            self.assertGreater(ended - born[s], HEAD_DEADLINE_S * 0.9)
            self.assertLess(ended - born[s], HEAD_DEADLINE_S + 1)
        self.check_probe(probe)

    def trickle(self):
        """A byte a second to each, until all were answered and closed: socket -> (answer, when)."""
        answers = {}
        waiting = {s.fileno(): s for s in self.held}
        poll = select.poll()
        for fd in waiting:
            poll.register(fd, select.POLLIN)
        next_byte = time.monotonic()
        deadline = next_byte + 10 * HEAD_DEADLINE_S
        while waiting and time.monotonic() < deadline:
            if time.monotonic() >= next_byte:
                next_byte += 1
                for s in waiting.values():
                    try:
                        s.send(b"a")
                    except OSError:
                        pass  # closed meanwhile: its answer is there to be read
            for fd, _ in poll.poll(20):
                poll.unregister(fd)
                s = waiting.pop(fd)
                answers[s] = (read_to_end(s), time.monotonic())
                s.close()
        self.assertEqual(len(waiting), 0, "connections that were not closed")
        return answers

    def test_a_head_without_end_costs_no_more_than_its_limit(self):
        line = b"X-Long: " + b"a" * 7000 + b"\r\n"

        def open_one():
            s = self.tarnd.connect()
            s.sendall(b"GET / HTTP/1.1\r\nHost: tarn.test\r\n" + 4 * line + line[:2000])
            return s

        self.measure("head of 30 kB, unfinished", LONG_HEADS, LONG_HEADS_MAX, open_one)
        refused = 0
        for s in self.held:
            try:
                s.sendall(40 * line)
            except ConnectionError:
                pass  # refused already
            refused += read_to_end(s).startswith(b"HTTP/1.1 431 ")
        self.assertGreater(refused, LONG_HEADS / 2)  # some lose the answer to their own sending

    def test_a_slow_reader_of_a_large_hit_costs_little(self):
        target = f"/body?n={BIG}&framing=length"
        self.assertEqual(len(self.tarnd.ask(target).body), BIG)

        def open_one():
            s = self.tarnd.connect(receive_buffer=4096)
            s.sendall(request(target))
            s.recv(100)
            return s

        probe = Probe(self.tarnd)
        self.measure("slow reader of a hit of 8 MiB", READERS, READERS_MAX, open_one)
        self.check_probe(probe)

    def sockets_of_slow_readers(self):
        """What the kernel holds for each of READERS readers of an object of 8 MiB that read 100 bytes."""
        target = f"/body?n={BIG}&framing=length"
        self.assertEqual(len(self.tarnd.ask(target).body), BIG)
        for _ in range(READERS):
            s = self.tarnd.connect(receive_buffer=4096)
            s.sendall(request(target))
            s.recv(100)
            self.hold(s)
        time.sleep(0.5)
        each = self.tarnd.admin("/v1/memory")["sockets"] / READERS
        print(f"slow reader: {each:.0f} bytes in the kernel", flush=True)
        return each

    def test_the_kernel_queues_little_of_a_response_that_a_slow_reader_does_not_read(self):
        each = self.sockets_of_slow_readers()
        self.assertGreater(each, 1000)  # else they are not counted
        self.assertLess(each, SOCKET_MAX)

    def test_without_tcp_notsent_lowat_the_kernel_queues_as_much_as_its_buffer_holds(self):
        self.stop()
        self.held = []
        self.start("tcp_notsent_lowat: 0")
        self.assertGreater(self.sockets_of_slow_readers(), SOCKET_MAX)

    def test_an_idle_connection_costs_little(self):
        def open_one():
            s = self.tarnd.connect()
            s.sendall(request("/body?n=1&framing=length"))
            self.assertTrue(s.recv(4096).startswith(b"HTTP/1.1 200 "))
            return s

        self.measure("idle connection", IDLE, IDLE_MAX, open_one)


class OverTls(Connections):
    def start(self, parameter=""):
        config = CONFIG.format(origin=origin.address, head=HEAD_DEADLINE_S, dir="{dir}")
        self.tarnd = tls_world.Tarnd(program, f"    tls: {{ certificates: {tls_world.pki().certs} }}\n{config}")

    def open(self, target, **options):
        s = tls_world.client_context().wrap_socket(self.tarnd.connect(**options), server_hostname="localhost")
        s.sendall(request(target, host="localhost"))
        s.recv(100)
        return s

    def test_an_idle_connection_costs_what_its_keys_do(self):
        self.tarnd.ask_tls("/body?n=1&framing=length")
        self.measure("idle connection over TLS", TLS_IDLE, TLS_IDLE_MAX,
                     lambda: self.open("/body?n=1&framing=length"))

    def test_a_slow_reader_of_a_large_hit_holds_no_whole_record(self):
        target = f"/body?n={BIG}&framing=length"
        self.assertEqual(len(self.tarnd.ask_tls(target).body), BIG)
        self.measure("slow reader of a hit of 8 MiB over TLS", TLS_READERS, TLS_READERS_MAX,
                     lambda: self.open(target, receive_buffer=4096))


program = None
origin = None


def main():
    global program, origin
    if len(sys.argv) < 2:
        sys.exit("usage: memory.py TARND [TEST...]")
    program = os.path.abspath(sys.argv.pop(1))
    raise_file_limit(4096)
    origin = Origin()
    unittest.main(verbosity=2)


if __name__ == "__main__":
    main()
