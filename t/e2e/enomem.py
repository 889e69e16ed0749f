#!/usr/bin/env python3
"""enomem.py TARND [TEST...] -- a tarnd that gets no more memory (ENOMEM) goes on.

prlimit sets RLIMIT_AS to what the process has, and a little more in steps up to 64 MiB, while
clients ask for what is not cached and names are resolved.  Requests may fail; no process ends, and when
the limit goes, requests are answered again.  Not for sanitizer builds: they reserve terabytes, and do
not use jemalloc.
"""
import http.client
import os
import resource
import subprocess
import sys
import threading
import time
import unittest

sys.dont_write_bytecode = True
import tarnd
from origin import Origin

SECONDS = 1.3  # of load under each limit: longer than dns_ttl
STEPS_KIB = (0, 128, 256, 512, 768, 1024, 1280, 1536, 1792, 2048, 3072, 4096, 8192, 16384, 32768, 65536)
CONFIG = """workers: 2
storage: {{ main: {{ size: 64MiB }} }}
backends: {{ o: {{ address: 'localhost:{port}' }} }}
parameters: {{ access_log: "{{dir}}/access.log", dns_ttl: 1s }}
"""
program = None


def address_space(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("VmSize")) << 10


class NoMemory(unittest.TestCase):
    def load(self, t, number, until, statuses):
        """Misses on a kept connection; a new one where the last was closed."""
        connection, n = None, 0
        while time.monotonic() < until:
            n += 1
            try:
                if connection is None:
                    connection = http.client.HTTPConnection("127.0.0.1", t.port, timeout=5)
                connection.request("GET", f"/body?n=50000&framing=length&cc=max-age=9&x={number}.{n}")
                response = connection.getresponse()
                response.read()
                statuses.append(response.status)
            except (http.client.HTTPException, OSError):
                statuses.append(0)
                connection.close()
                connection = None
        if connection is not None:
            connection.close()

    def answered(self, t):
        try:
            return t.ask("/body?n=10&framing=length&cc=no-store").status == 200
        except (OSError, ValueError, IndexError):
            return False

    def test_no_limit_of_the_address_space_ends_the_process(self):
        origin = Origin()
        starved = 0
        for extra in STEPS_KIB:
            t = tarnd.Tarnd(program, CONFIG.format(port=origin.address.rpartition(":")[2]),
                            stderr=subprocess.DEVNULL)
            try:
                pid = t.process.pid
                limit = address_space(pid) + (extra << 10)
                _, hard = resource.prlimit(pid, resource.RLIMIT_AS)
                resource.prlimit(pid, resource.RLIMIT_AS, (limit, hard))
                statuses, until = [], time.monotonic() + SECONDS
                clients = [threading.Thread(target=self.load, args=(t, i, until, statuses))
                           for i in range(4)]
                for c in clients:
                    c.start()
                for c in clients:
                    c.join()
                self.assertIsNone(t.process.poll(), f"it ended, with {extra} KiB more than it had")
                starved += any(s != 200 for s in statuses)
                resource.prlimit(pid, resource.RLIMIT_AS, (hard, hard))
                tarnd.wait_until(lambda: self.answered(t), "it does not answer when memory is back")
                self.assertEqual(t.close(), 0, f"with {extra} KiB more than it had")
            finally:
                t.tidy()
        self.assertGreater(starved, 2, "no limit was felt: the test tests nothing")


if __name__ == "__main__":
    program = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=1)
