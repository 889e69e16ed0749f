#!/usr/bin/env python3
"""ports.py TARND [TEST...] -- `tarnd -t` tries the addresses of its listeners.

A port that another program has is a mistake, with the program's name; one that a tarnd has is not, as a
reload or an upgrade runs -t beside it.
"""
import os
import socket
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True
import tarnd

program = None


class Ports(unittest.TestCase):
    def check(self, t, listen):
        path = os.path.join(t.dir, "checked.yaml")
        with open(path, "w", encoding="utf-8") as f:
            f.write(f"listen: [ {{ address: \"{listen}\" }} ]\n"
                    "backends: { o: { address: \"127.0.0.1:9\" } }\n")
        done = subprocess.run([program, "-t", "-c", path], capture_output=True, text=True,
                              timeout=tarnd.PATIENCE_S, check=False)
        return done.returncode, done.stdout, done.stderr.replace(path, "FILE")

    def test_a_port_in_use_is_told_with_its_process(self):
        t = tarnd.Tarnd(program, "backends: { o: { address: \"127.0.0.1:9\" } }\n",
                        stderr=subprocess.DEVNULL)
        self.addCleanup(t.close)
        with socket.socket() as other:
            other.bind(("127.0.0.1", 0))
            other.listen()
            port = other.getsockname()[1]
            with open(f"/proc/{os.getpid()}/comm", encoding="utf-8") as f:
                name = f.read().strip()
            status, _, said = self.check(t, f"127.0.0.1:{port}")
            self.assertEqual(status, 2, said)
            self.assertIn(f"FILE:1:22: listen: 127.0.0.1:{port} is in use by {name}, pid {os.getpid()}: "
                          "end that, or take another port\n", said)
            self.assertIn("FILE: 1 address in use", said)
            status, _, said = self.check(t, f"*:{port}")  # all addresses, one of which is taken
            self.assertEqual(status, 2, said)
        status, out, said = self.check(t, f"127.0.0.1:{port}")
        self.assertEqual((status, said), (0, ""))
        status, out, said = self.check(t, f"127.0.0.1:{t.port}")
        self.assertEqual(status, 0, said)
        self.assertIn("note: listen: ", said)
        if os.geteuid() == 0 or "cannot see" not in said:
            self.assertIn(f"is in use by tarnd, pid {t.process.pid}, which runs {t.config}\n", said)
        self.assertEqual(t.ask("/x").status, 502)  # it has not been disturbed
        done = subprocess.run([program, "-t", "-c", t.config], capture_output=True, text=True,
                              timeout=tarnd.PATIENCE_S, check=False)
        self.assertEqual(done.returncode, 0)


if __name__ == "__main__":
    program = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=1)
