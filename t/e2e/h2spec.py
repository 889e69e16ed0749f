#!/usr/bin/env python3
"""h2spec.py TARND [TEST...] -- h2spec's 146 tests, all of them strict, by prior knowledge and by TLS.

The program is scripts/fetch-h2spec's; without Go the test is skipped (exit status 77).
"""
import os
import re
import subprocess
import sys

sys.dont_write_bytecode = True
import h2_world
from h2_world import HIT

TESTS = 146
SKIPPED = 77
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SECONDS = 300
program = None


class H2spec(h2_world.World):
    def judge(self, port, *more, path=HIT):
        """What it says of a tarnd that has nothing else to do."""
        it = subprocess.run([program, "--strict", "--host", "127.0.0.1", "--port", str(port), "--path", path,
                             "--timeout", "5", *more], capture_output=True, text=True, timeout=SECONDS, check=False)
        said = it.stdout + it.stderr
        got = re.search(r"(\d+) tests, (\d+) passed, (\d+) skipped, (\d+) failed", said)
        self.assertIsNotNone(got, said[-2000:])
        failures = said[said.find("Failures:"):] if "Failures:" in said else ""
        self.assertEqual(tuple(map(int, got.groups())), (TESTS, TESTS, 0, 0), failures)
        self.assertEqual(it.returncode, 0)

    def test_prior_knowledge(self):
        """A listener that speaks HTTP/1 too answers what is no preface (3.5) by 400, so it is one that does not."""
        it = self.h2(h2c="only")
        self.hit(it)
        self.judge(it.port)
        self.hit(it)

    def test_tls(self):
        it = self.h2()
        self.hit(it)
        self.judge(it.secure_port, "--tls", "--insecure")
        self.hit(it)

    def test_prior_knowledge_and_nothing_is_kept(self):
        """Each request goes to the origin, or is refused before."""
        it = self.h2(h2c="only")
        self.judge(it.port, path="/body?n=1000&framing=chunked&cc=no-store")
        self.hit(it)


def main():
    global program
    got = subprocess.run([os.path.join(ROOT, "scripts", "fetch-h2spec")], stdout=subprocess.PIPE, text=True, check=False)
    if got.returncode == SKIPPED:
        print("skipped: h2spec is built by Go, which is not here")
        sys.exit(SKIPPED)
    if got.returncode != 0:
        sys.exit("scripts/fetch-h2spec failed")
    program = got.stdout.strip()
    h2_world.main(None, __doc__)


if __name__ == "__main__":
    main()
