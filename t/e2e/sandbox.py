#!/usr/bin/env python3
"""sandbox.py TARND [TEST...] -- a tarnd that serves has given up what it does not need.

Every thread is looked at, as the kernel sees it.  What root gives up is tried when we are root.
"""
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
import tarnd
from origin import Origin

NOBODY = 65534
CONFIG = """
workers: 2
admin: {{ address: "unix:{folder}/admin.sock" }}
backends:
  default: {{ address: "{origin}" }}
parameters: {{ access_log: "{folder}/access.log"{more} }}
"""
program = origin = None


def can_mount():
    return subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode == 0


class Sandbox(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="tarn-e2e.")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def start(self, more=""):
        config = CONFIG.format(folder=self.folder, origin=origin.address, more=more)
        t = tarnd.Tarnd(program, config, stderr=subprocess.DEVNULL)
        self.assertEqual(t.ask("/body?n=1&framing=length").status, 200)
        self.assertEqual(t.ask("/body?n=1&framing=length").status, 200)
        return t

    def threads(self, t):
        """What the kernel says of each: a map by the keys of /proc/PID/status."""
        tasks = f"/proc/{t.process.pid}/task"
        for tid in os.listdir(tasks):
            with open(f"{tasks}/{tid}/status", encoding="ascii") as f:
                yield dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)

    def write(self, name, text):
        path = f"{self.folder}/{name}"
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        os.chmod(path, 0o755)
        return path

    def rotate(self, t):
        """The log is renamed, and goes on under its name."""
        log = f"{self.folder}/access.log"
        tarnd.wait_until(lambda: os.path.getsize(log) > 0, "a line in the log")
        os.rename(log, log + ".1")
        t.process.send_signal(signal.SIGUSR1)
        tarnd.wait_until(lambda: os.path.exists(log), "a new log")
        return os.stat(log)

    def test_every_thread_is_filtered_and_gains_nothing(self):
        t = self.start()
        threads = list(self.threads(t))
        self.assertGreater(len(threads), 3)
        for thread in threads:
            self.assertEqual(thread["NoNewPrivs"], "1", thread["Name"])
            self.assertEqual(thread["Seccomp"], "2", thread["Name"])
        self.rotate(t)
        self.assertEqual(t.close(), 0)
        self.assertFalse(os.path.exists(f"{self.folder}/admin.sock"))
        self.assertFalse(os.path.exists(f"/dev/shm/tarn.{t.process.pid}"))

    def test_it_is_switched_off_by_a_parameter(self):
        t = self.start(", sandbox: off")
        for thread in self.threads(t):
            self.assertEqual((thread["NoNewPrivs"], thread["Seccomp"]), ("0", "0"), thread["Name"])
        self.assertEqual(t.close(), 0)

    @unittest.skipUnless(os.geteuid() == 0, "only root has something to give up")
    def test_root_becomes_a_user_who_owns_what_is_made(self):
        os.chown(self.folder, NOBODY, NOBODY)
        t = self.start(", user: nobody")
        for thread in self.threads(t):
            self.assertEqual(set(thread["Uid"].split()), {str(NOBODY)}, thread["Name"])
            self.assertEqual(set(thread["Gid"].split()), {str(NOBODY)}, thread["Name"])
            self.assertLessEqual(set(thread["Groups"].split()), {str(NOBODY)}, thread["Name"])
            self.assertEqual(int(thread["CapPrm"], 16) & ~0x400, 0, thread["Name"])
        self.assertEqual(os.stat(f"{self.folder}/admin.sock").st_uid, NOBODY)
        self.assertEqual(self.rotate(t).st_uid, NOBODY)
        self.assertEqual(t.close(), 0)
        self.assertFalse(os.path.exists(f"{self.folder}/admin.sock"))
        self.assertFalse(os.path.exists(f"/dev/shm/tarn.{t.process.pid}"))

    @unittest.skipUnless(os.geteuid() == 0 and can_mount(), "the list of groups must be ours")
    def test_a_socket_may_be_a_group_of_the_users(self):
        os.chown(self.folder, NOBODY, NOBODY)
        self.write("group", "root:x:0:\nnogroup:x:65534:\nweb:x:4711:nobody\nother:x:4712:\n")
        wrapper = self.write("run", f"#!/bin/sh\nexec unshare -m sh -c 'mount --bind {self.folder}/group "
                             f"/etc/group && exec \"$0\" \"$@\"' {program} \"$@\"\n")
        config = CONFIG.replace('sock"', 'sock", mode: 0660, group: {group}')
        for group, status in (("web", 0), ("other", 2)):
            text = config.format(folder=self.folder, origin=origin.address, more=", user: nobody",
                                 group=group)
            said = self.write("said", "")
            with open(said, "w", encoding="utf-8") as f:
                try:
                    t = tarnd.Tarnd(wrapper, text, stderr=f)
                except RuntimeError:
                    self.assertNotEqual(status, 0)
                    with open(said, encoding="utf-8") as told:
                        self.assertIn("a group that it is a member of", told.read())
                    continue
            self.assertEqual(os.stat(f"{self.folder}/admin.sock").st_gid, 4711)
            self.assertEqual(t.close(), status)

    def test_a_user_that_does_not_exist_is_a_mistake_of_the_configuration(self):
        config = CONFIG.format(folder=self.folder, origin=origin.address, more=", user: no-such-user")
        path = f"{self.folder}/tarn.yaml"
        with open(path, "w", encoding="utf-8") as f:
            f.write("listen:\n  - address: 127.0.0.1:0\n" + config)
        said = subprocess.run([program, "-c", path], capture_output=True, text=True,
                              timeout=tarnd.PATIENCE_S)
        self.assertEqual(said.returncode, 2)
        self.assertTrue(re.search("there is no user 'no-such-user'", said.stderr), said.stderr)


def main():
    global program, origin
    if len(sys.argv) < 2:
        sys.exit("usage: sandbox.py TARND [TEST...]")
    program = os.path.abspath(sys.argv.pop(1))
    origin = Origin()
    unittest.main(verbosity=2)


if __name__ == "__main__":
    main()
