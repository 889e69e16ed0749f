#!/usr/bin/env python3
"""churn.py TARND [TEST...] -- the memory promise: what churn, bursts and huge bodies leave resident.

A store of SIZE is put through TURNS times its size in bodies of all sizes, and the resident set is
looked at all along.  Bytes on the command line of tests are small; by hand make it longer:

    CHURN_SIZE_MIB=256 CHURN_TURNS=20 t/e2e/churn.py build/bin/tarnd
"""
import os
import random
import socket
import sys
import threading
import unittest

sys.dont_write_bytecode = True
from tarnd import Tarnd, raise_file_limit, request, wait_until

MIB = 1 << 20
SIZE = int(os.environ.get("CHURN_SIZE_MIB", "64")) * MIB
TURNS = float(os.environ.get("CHURN_TURNS", "20"))
PROMISE = 1.1
LOADERS = 8
BURST = 400
LARGE_PART = 0.05  # of the requests: 64 KiB to 8 MiB; the others 1 B to 64 KiB
HUGE = 100 * MIB
PATTERN = random.Random(7).randbytes(MIB)

CONFIG = """
workers: 2
admin: {{ address: "unix:{{dir}}/admin.sock" }}
storage:
  main: {{ engine: malloc, size: {size} }}
backends:
  default: {{ address: "{origin}" }}
parameters:
  log_ring: 64KiB
  core_dumps: on  # else only root may look into /proc
  timeout_idle: 600s  # a client waits for others here; closed for it, it would hide what keeps them waiting
"""


class SizesOrigin:
    """/BYTES/ID has BYTES; /chunked/BYTES/ID has them without saying so."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            s, _ = self.listener.accept()
            threading.Thread(target=self.serve, args=(s,), daemon=True).start()

    def serve(self, s):
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            while data := s.recv(65536):
                while not data.endswith(b"\r\n\r\n"):
                    data += s.recv(65536)
                self.answer(s, data.split(b" ", 2)[1].decode().split("/"))
        except OSError:
            pass  # the proxy left
        s.close()

    def answer(self, s, path):
        size, chunked = int(path[-2]), path[1] == "chunked"
        framing = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {size}"
        s.sendall(f"HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\n{framing}\r\n\r\n".encode())
        for at in range(0, size, MIB):
            piece = memoryview(PATTERN)[:min(MIB, size - at)]
            if chunked:
                s.sendall(b"%x\r\n" % len(piece))
            s.sendall(piece)
            if chunked:
                s.sendall(b"\r\n")
        if chunked:
            s.sendall(b"0\r\n\r\n")


class Client:
    """One connection, kept, that reads answers and keeps nothing of them."""

    def __init__(self, tarnd):
        self.socket = tarnd.connect()
        self.room = bytearray(256 * 1024)

    def ask(self, path, size):
        self.socket.sendall(request(path))
        head = b""
        while (end := head.find(b"\r\n\r\n")) < 0:
            head += self.more(self.socket.recv(4096))
        if not head.startswith(b"HTTP/1.1 200 "):
            raise AssertionError(f"instead of 200: {head[:100]!r}")
        body = head[end + 4:]
        got, last = len(body), body[-1:]
        while got < size:
            n = self.more(self.socket.recv_into(self.room, min(len(self.room), size - got)))
            got, last = got + n, self.room[n - 1:n]
        if got != size or last != PATTERN[(size - 1) % MIB:][:1]:
            raise AssertionError(f"{path}: {got} bytes, the last one {last!r}")

    @staticmethod
    def more(got):
        if not got:
            raise AssertionError("tarnd closed a connection")
        return got

    def close(self):
        self.socket.close()


class Loader(threading.Thread):
    def __init__(self, tarnd, seed, total):
        super().__init__(daemon=True)
        self.client, self.random, self.total = Client(tarnd), random.Random(seed), total
        self.error = None
        self.start()

    def run(self):
        try:
            while self.total > 0:
                large = self.random.random() < LARGE_PART
                power = self.random.uniform(16, 23) if large else self.random.uniform(0, 16)
                size = int(2 ** power)
                self.client.ask(f"/{size}/{self.random.randrange(1 << 40)}", size)
                self.total -= size
        except (OSError, AssertionError) as e:
            self.error = e
        self.client.close()


class Watch(threading.Thread):
    """The largest resident set there was."""

    def __init__(self, tarnd):
        super().__init__(daemon=True)
        self.tarnd, self.peak, self.over = tarnd, 0, threading.Event()
        self.start()

    def run(self):
        while not self.over.wait(0.05):
            self.peak = max(self.peak, self.tarnd.memory())

    def stop(self):
        self.over.set()
        self.join()
        return self.peak


class Churn(unittest.TestCase):
    def setUp(self):
        self.tarnd = Tarnd(program, CONFIG.format(size=f"{SIZE}B", origin=origin.address))
        self.addCleanup(self.stop)
        # What is there from the start is within the size, but for what a sanitizer adds.
        start = self.admin("/v1/counters")
        self.assertGreaterEqual(start["memory.process"], min(SIZE // 4, 4 * MIB))
        self.base = max(0, self.tarnd.memory() - start["memory.tables"] - start["memory.process"])

    def stop(self):
        self.assertEqual(self.tarnd.close(), 0, "exit status of tarnd")

    def admin(self, target):
        return self.tarnd.admin(target)

    def churn(self, total):
        loaders = [Loader(self.tarnd, seed, total / LOADERS) for seed in range(LOADERS)]
        for one in loaders:
            one.join()
            self.assertIsNone(one.error)

    def check_tree(self):
        tree = self.admin("/v1/memory")
        total = 0
        for name, branch in tree["total"]["parts"].items():
            self.assertEqual(branch["bytes"], sum(branch["parts"].values()), name)
            total += branch["bytes"]
        self.assertEqual(tree["total"]["bytes"], total)
        self.assertEqual(tree["size"], SIZE)
        return tree

    def test_resident_memory_stays_within_the_promise(self):
        watch = Watch(self.tarnd)
        self.churn(TURNS * SIZE)
        counters = self.admin("/v1/counters")
        peak = watch.stop()
        print(f"{SIZE >> 20} MiB, {TURNS:.0f} times: base {self.base / MIB:.1f} MiB, peak "
              f"{peak / MIB:.1f} MiB, {peak / SIZE:.3f} of the size, {(peak - self.base) / SIZE:.3f} "
              f"without the base; charged {counters['storage.used'] / SIZE:.3f}", flush=True)
        self.assertLessEqual(peak - self.base, PROMISE * SIZE)
        self.assertLessEqual(counters["storage.used"], SIZE)
        self.assertGreater(counters["storage.used"], 0.7 * SIZE, "room that nobody uses")
        self.assertGreater(counters["memory.content.bodies"], 0)
        self.check_tree()

    def test_what_a_burst_of_connections_leaves_goes_back(self):
        before = self.check_tree()["total"]["parts"]["traffic"]["bytes"]
        clients = [Client(self.tarnd) for _ in range(BURST)]
        for i, one in enumerate(clients):
            one.ask(f"/1000/{i % 50}", 1000)
        wait_until(lambda: self.check_tree()["total"]["parts"]["traffic"]["bytes"] >
                   before + BURST * 400, "the tree shows connections")
        for one in clients:
            one.close()
        wait_until(lambda: self.check_tree()["total"]["parts"]["traffic"]["bytes"] <
                   before + 256 * 1024, "what they took goes back")

    def test_what_is_too_large_to_store_passes_and_evicts_nothing(self):
        client = Client(self.tarnd)
        for i in range(SIZE // 2 // 100_000):
            client.ask(f"/99000/{i}", 99000)
        before = self.admin("/v1/counters")
        watch = Watch(self.tarnd)
        client.ask(f"/{HUGE}/1", HUGE)
        counters = self.admin("/v1/counters")
        self.assertEqual(counters["cache.evicted"], before["cache.evicted"])
        self.assertEqual(counters["fetch.uncacheable"], before["fetch.uncacheable"] + 1)
        with self.tarnd.connect() as s:  # until it has outgrown the bound, it may be stored
            s.sendall(request(f"/chunked/{HUGE}/2", "Connection: close"))
            got = 0
            while piece := s.recv(1 << 18):
                got += len(piece)
        self.assertGreater(got, HUGE)
        counters = self.admin("/v1/counters")
        peak = watch.stop()
        self.assertEqual(counters["cache.evicted"], before["cache.evicted"])
        wait_until(lambda: self.admin("/v1/counters")["memory.passing"] == 0, "transit is empty")
        self.assertLessEqual(peak - self.base, PROMISE * SIZE)
        for i in (0, 100, 200):
            client.ask(f"/99000/{i}", 99000)
        wait_until(lambda: self.admin("/v1/counters")["req.hit"] == before["req.hit"] + 3, "three more hits")
        client.close()


program = None
origin = None


def main():
    global program, origin
    if len(sys.argv) < 2:
        sys.exit("usage: churn.py TARND [TEST...]")
    program = os.path.abspath(sys.argv.pop(1))
    raise_file_limit(4096)
    origin = SizesOrigin()
    unittest.main(verbosity=2)


if __name__ == "__main__":
    main()
