#!/usr/bin/env python3
"""tls_memory.py TARND TLS_LOAD [TEST...] -- the memory promise with thousands of TLS connections.

Half of the store and more is connections; objects that change all the time have the rest.  What is charged stays below
the size, what is resident below 1.1 of it, with all of them busy, idle and gone.  By hand with 5,000:

    TLS_MEMORY_CONNS=5000 CHURN_SIZE_MIB=256 t/e2e/tls_memory.py build/bin/tarnd build/t/tls_load
"""
import os
import subprocess
import sys
import time
import unittest

sys.dont_write_bytecode = True
import tarnd
from churn import CONFIG, MIB, PROMISE, SIZE, SizesOrigin, Watch
from tls_world import Tarnd, World, pki

CONNS = int(os.environ.get("TLS_MEMORY_CONNS", "1000"))
SECONDS = 6  # of requests
IDLE_MAX = 40_000  # bytes of a connection without traffic
KEPT = 2 * MIB  # what is ready for the next burst
load = None


class Load:
    """tls_load hold: a command, and the two numbers that it answers."""

    def __init__(self, port):
        self.process = subprocess.Popen([load, "hold", str(port)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def do(self, *words):
        print(*words, file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline().split()
        if len(answer) != 2:
            raise AssertionError(f"tls_load {words}: it ended")
        return tuple(map(int, answer))

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()
        return self.process.wait(tarnd.PATIENCE_S)


class Memory(unittest.TestCase):
    def traffic(self):
        return self.tarnd.admin("/v1/memory")["total"]["parts"]["traffic"]["bytes"]

    def look(self, what):
        counters = self.tarnd.admin("/v1/counters")
        resident = self.tarnd.memory()
        print(f"{what}: resident {resident / MIB:.1f} MiB, charged {counters['storage.used'] / MIB:.1f}, of which traffic "
              f"{self.traffic() / MIB:.1f}, evicted {counters['cache.evicted']}", flush=True)
        self.assertLessEqual(counters["storage.used"], SIZE)
        self.assertLessEqual(resident - self.base, PROMISE * SIZE)

    def test_the_promise_holds_with_many_connections(self):
        tarnd.raise_file_limit(CONNS + 1000)
        origin = SizesOrigin()
        self.tarnd = Tarnd(World.program, f"    tls: {{ certificates: {pki().certs} }}\n" +
                           CONFIG.format(size=f"{SIZE}B", origin=origin.address))
        self.addCleanup(self.tarnd.tidy)
        start = self.tarnd.admin("/v1/counters")
        self.base = max(0, self.tarnd.memory() - start["memory.tables"] - start["memory.process"])
        clients = Load(self.tarnd.port)
        self.addCleanup(clients.process.kill)
        clients.do("open", 20)
        clients.do("ask", 0.5, 1000)
        before, watch = self.traffic(), Watch(self.tarnd)
        self.look("20 connections")
        self.assertEqual(clients.do("open", CONNS - 20)[0], CONNS)
        time.sleep(1.5)
        self.look(f"{CONNS} connections, no request yet")
        asked, went = clients.do("ask", SECONDS, 20000)
        self.look(f"{CONNS} connections, behind {asked} requests, {went / MIB:.0f} MiB")
        self.assertGreater(went, SIZE)
        self.assertGreater(asked, CONNS)
        time.sleep(1.5)
        each = (self.traffic() - before) / (CONNS - 20)
        self.look(f"{CONNS} connections, idle, {each:.0f} bytes each")
        self.assertLess(each, IDLE_MAX)
        clients.do("close")
        tarnd.wait_until(lambda: self.traffic() < before + KEPT, "what they took goes back", 20)
        peak = watch.stop()
        self.look("gone")
        print(f"peak {peak / MIB:.1f} MiB, {(peak - self.base) / SIZE:.3f} of the size without the base", flush=True)
        self.assertLessEqual(peak - self.base, PROMISE * SIZE)
        self.assertEqual(clients.close(), 0)
        self.assertEqual(self.tarnd.close(), 0)


def main():
    global load
    if len(sys.argv) < 3:
        sys.exit("usage: tls_memory.py TARND TLS_LOAD [TEST...]")
    World.program, load = (os.path.abspath(sys.argv.pop(1)) for _ in range(2))
    unittest.main(verbosity=2, warnings="ignore")


if __name__ == "__main__":
    main()
