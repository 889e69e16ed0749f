#!/usr/bin/env python3
"""ctl_nomem.py TARND TARNCTL PRELOAD [TEST...] -- tarnctl, when each one of its allocations fails.

It may say that there is no memory, or do without; it neither crashes nor hangs.  Allocations that every
command makes before it begins, of the libraries that it starts, are left out.
"""
import os
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
import tarnd
from faults import Faults

PATIENCE_S = 10
CONFIG = """
workers: 1
admin: {{ address: "unix:{{dir}}/admin.sock" }}
backends:
  default: {{ address: "127.0.0.1:{port}" }}
"""
program = ctl = preload = None


class WithoutMemory(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.tarnd = tarnd.Tarnd(program, CONFIG.format(port=9), stderr=subprocess.DEVNULL)
        cls.dir = tempfile.TemporaryDirectory()
        cls.faults = Faults(f"{cls.dir.name}/faults")
        cls.idle = cls.allocations("nonsense")

    @classmethod
    def tearDownClass(cls):
        cls.dir.cleanup()
        assert cls.tarnd.close() == 0

    @classmethod
    def run_(cls, *args):
        env = {**os.environ, "LD_PRELOAD": preload, "TARN_FAULTS": f"{cls.dir.name}/faults",
               "TARN_ADMIN": f"unix:{cls.tarnd.dir}/admin.sock"}
        return subprocess.run([ctl, *args], env=env, capture_output=True, timeout=PATIENCE_S, check=False)

    @classmethod
    def allocations(cls, *args):
        cls.faults.set(alloc_in=0, alloc_seen=0)
        cls.run_(*args)
        return cls.faults.get("alloc_seen")

    def each(self, *args):
        last = self.allocations(*args)
        self.assertGreater(last, self.idle)
        for n in range(self.idle, last + 1):
            self.faults.set(alloc_in=n, alloc_row=1)
            with self.subTest(command=args, allocation=n):
                self.assertGreaterEqual(self.run_(*args).returncode, 0)
        self.faults.set(alloc_in=0)

    def test_a_table_is_printed(self):
        self.each("backend", "list")

    def test_a_parameter_is_set(self):
        self.each("param", "set", "default_ttl", "5s")

    def test_urls_are_requested(self):
        path = f"{self.dir.name}/urls"
        with open(path, "w", encoding="ascii") as f:
            f.write("http://localhost/1\nhttps://localhost/2\n")
        self.each("warm", "--to", f"127.0.0.1:{self.tarnd.port}", "--rate", "1000", "--concurrency", "2", path)


def main():
    global program, ctl, preload
    if len(sys.argv) < 4:
        sys.exit("usage: ctl_nomem.py TARND TARNCTL PRELOAD [TEST...]")
    program, ctl, preload = (os.path.abspath(sys.argv.pop(1)) for _ in range(3))
    unittest.main(verbosity=2)


if __name__ == "__main__":
    main()
