#!/usr/bin/env python3
"""listen.py TARND [TEST...] -- who may have a port: one tarnd of a user, whatever other users hold.

The lock between two tarnds is an abstract Unix socket, whose name any user may take first.
"""
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
import tarnd

STRANGER = 65533
program = None


def hold(how, *names):
    """A process of another user that has taken these names; its id."""
    told, tell = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.setgroups([])
        os.setgid(STRANGER)
        os.setuid(STRANGER)
        held = [socket.socket(socket.AF_UNIX) for _ in names]
        for s, name in zip(held, names):
            s.bind("\0" + name)
            if how == "listen":
                s.listen(1)
        os.write(tell, b"held")
        signal.pause()
    os.close(tell)
    assert os.read(told, 4) == b"held"
    os.close(told)
    return pid


class Listen(unittest.TestCase):
    def setUp(self):
        self.home = tempfile.mkdtemp(prefix="tarn-e2e.")
        os.chmod(self.home, 0o755)
        self.addCleanup(shutil.rmtree, self.home, ignore_errors=True)
        self.port = tarnd.free_port()
        self.config = f"{self.home}/tarn.yaml"
        with open(self.config, "w", encoding="utf-8") as f:
            f.write(f"listen: [{{address: '127.0.0.1:{self.port}'}}]\nworkers: 2\n"
                    "backends: {o: {address: '127.0.0.1:9'}}\n")
        os.chmod(self.config, 0o644)

    def start(self, **kw):
        it = subprocess.Popen([program, "-c", self.config], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **kw)
        self.addCleanup(it.stdout.close)
        self.addCleanup(it.wait)
        self.addCleanup(it.kill)
        return it

    def said(self, it):
        """All until it is ready or has ended; whether it is ready."""
        lines = []
        for line in it.stdout:
            lines.append(line)
            if line.startswith("tarnd: ready"):
                return True, "".join(lines)
        return False, "".join(lines)

    def end(self, it):
        it.send_signal(signal.SIGTERM)
        self.assertEqual(it.wait(timeout=tarnd.PATIENCE_S), 0)

    @unittest.skipUnless(os.geteuid() == 0, "only root is several users")
    def test_a_lock_that_another_user_holds_refuses_nothing(self):
        address = f"127.0.0.1:{self.port}"
        for how in ("bind", "listen"):
            other = hold(how, f"tarn-listen-{address}", f"tarn-listen-{os.geteuid()}-{address}")
            try:
                it = self.start()
                ready, text = self.said(it)
                self.assertTrue(ready, text)
                self.assertIn("held by another user", text)
                second = self.start()
                ready, text = self.said(second)
                self.assertFalse(ready, text)  # the port itself says so
                self.assertIn("cannot listen on", text)
                self.end(it)
            finally:
                os.kill(other, signal.SIGKILL)
                os.waitpid(other, 0)

    def test_of_two_that_start_together_one_serves(self):
        for _ in range(8):
            both = [self.start(), self.start()]
            told = [self.said(it) for it in both]
            self.assertEqual(sorted(ready for ready, _ in told), [False, True], told)
            for it, (ready, text) in zip(both, told):
                if ready:
                    self.end(it)
                else:
                    self.assertIn("cannot listen on", text)

    def test_nothing_is_left_over_after_a_kill(self):
        for _ in range(3):
            it = self.start()
            ready, text = self.said(it)
            self.assertTrue(ready, text)
            with socket.create_connection(("127.0.0.1", self.port), timeout=tarnd.PATIENCE_S):
                it.kill()
                it.wait()

    @unittest.skipUnless(os.geteuid() == 0, "only root is several users")
    def test_a_port_belongs_to_one_user(self):
        it = self.start()
        ready, text = self.said(it)
        self.assertTrue(ready, text)
        shutil.copy(program, f"{self.home}/tarnd")
        other = subprocess.run([f"{self.home}/tarnd", "-c", self.config], capture_output=True, text=True,
                               check=False, timeout=tarnd.PATIENCE_S, user=STRANGER, group=STRANGER,
                               extra_groups=[])
        self.assertEqual(other.returncode, 1, other.stderr)
        self.assertIn("cannot listen on", other.stderr)
        self.end(it)


def main():
    global program
    if len(sys.argv) < 2:
        sys.exit("usage: listen.py TARND [TEST...]")
    program = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)


if __name__ == "__main__":
    main()
