#!/usr/bin/env python3
"""tls_days.py TARND PRELOAD [TEST...] -- the file of session_secret, from day to day: sessions go on over restarts,
upgrades and nodes, and what lies in the file opens none of a day before.

PRELOAD is the library of fault_preload.c: the wall clock is the test's.
"""
import contextlib
import hashlib
import hmac
import mmap
import os
import re
import shutil
import signal
import stat
import struct
import subprocess
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True
import tarnd
from origin import Origin
from supervised import Supervised
from tls_world import DAY, TLS12, TLS13, Tarnd, World, client_context, pki, read_whole

HIT = "/body?n=1000&framing=length"
HOUR = 3600
NOBODY = 65534
FIRST = 20454  # the day that seeds are of
MIDNIGHT = (int(time.time()) // DAY + 2) * DAY  # no test comes before today: the certificates are new
NOON = MIDNIGHT + 12 * HOUR
origin = preload = None


class SupervisedTls(Supervised, Tarnd):
    def __init__(self, program, config):
        super().__init__(program, config)
        self.log_name = self.log.name


def after(secret, day):
    return hmac.new(secret, b"day" + struct.pack(">Q", day + 1) + b"\1", hashlib.sha256).digest()


def text_of(seed, day):
    """What stands in the file on that day; made here, and not by tarnd."""
    secret = hashlib.sha256(seed).digest()
    for d in range(FIRST, day):
        secret = after(secret, d)
    return f"tarn-session-secret 1\nday {time.strftime('%Y-%m-%d', time.gmtime(day * DAY))}\nsecret {secret.hex()}\n"


class Days(World):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="tarn-days.")
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)
        self.seed = os.urandom(48)
        self.file = self.write("secret", self.seed)
        with open(f"{self.dir}/clock", "w+b") as f:
            f.write(bytes(64))
            f.flush()
            self.clock = mmap.mmap(f.fileno(), 64)
        self.addCleanup(self.clock.close)

    def write(self, name, data, mode=0o600):
        path = f"{self.dir}/{name}"
        with open(path, "wb") as f:
            f.write(data if isinstance(data, bytes) else data.encode("ascii"))
        os.chmod(path, mode)
        return path

    def text(self, path=None):
        with open(path or self.file, "rb") as f:
            return f.read().decode("latin-1")

    def at(self, wanted_s):
        """It is then, for every tarnd."""
        struct.pack_into("q", self.clock, 4 * 8, int((wanted_s - time.time()) * 1000))

    def environment(self):
        it = {"LD_PRELOAD": preload, "TARN_FAULTS": f"{self.dir}/clock"}
        if "ASAN_OPTIONS" in os.environ:
            it["ASAN_OPTIONS"] = os.environ["ASAN_OPTIONS"] + ":verify_asan_link_order=0"
        return it

    def config(self, path=None):
        return (f"    tls: {{ certificates: {pki().certs}, session_secret: {path or self.file} }}\n",
                f"backends: {{ default: {{ address: '{origin.address}' }} }}\n")

    def node(self, path=None):
        listener, rest = self.config(path)
        return self.start(rest, listener, environment=self.environment())

    def wait_for_day(self, day, path=None):
        words = f"day {time.strftime('%Y-%m-%d', time.gmtime(day * DAY))}\n"
        tarnd.wait_until(lambda: words in self.text(path), f"the file has {words!r}")

    def ask(self, it, context, session=None):
        """(session, was it resumed)"""
        with it.secure(context, session=session) as s:
            s.sendall(tarnd.request(HIT, "Connection: close", host="a.test"))
            self.assertEqual(tarnd.Answer(read_whole(s)).status, 200)
            return s.session, s.session_reused

    def sessions(self, it):
        contexts = [client_context(least=version, most=version) for version in (TLS12, TLS13)]
        return [(c, self.ask(it, c)[0]) for c in contexts]

    def resumed(self, it, sessions):
        """All are, or none is."""
        found = {self.ask(it, context, session)[1] for context, session in sessions}
        self.assertEqual(len(found), 1)
        return found.pop()


class File(Days):
    def test_each_day_has_what_follows_from_the_day_before(self):
        self.at(NOON)
        it = self.node()
        for day in (NOON // DAY, NOON // DAY + 1, NOON // DAY + 2, NOON // DAY + 33):
            self.at(day * DAY + 5 * HOUR)
            self.wait_for_day(day)
            self.assertEqual(self.text(), text_of(self.seed, day))
            self.assertEqual(stat.S_IMODE(os.stat(self.file).st_mode), 0o600)
            self.assertEqual(sorted(os.listdir(self.dir)), ["clock", "secret"])
            self.assertTrue(self.resumed(it, self.sessions(it)))

    def test_nothing_is_written_before_four_or_by_a_check(self):
        self.at(NOON)
        it = self.node()
        self.wait_for_day(NOON // DAY)
        self.at(MIDNIGHT + DAY + 4 * HOUR - 60)
        time.sleep(1)
        self.assertEqual(self.text(), text_of(self.seed, NOON // DAY))
        self.at(MIDNIGHT + DAY + 4 * HOUR)
        self.wait_for_day(NOON // DAY + 1)
        seed = self.write("seed", os.urandom(32))
        config = self.write("tarn.yaml", self.text(it.config).replace(self.file, seed))
        was = self.text(seed)
        done = subprocess.run([self.program, "-t", "-c", config], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(self.text(seed), was)

    def test_files_of_other_days(self):
        for days in (-30, -1, 0):
            with self.subTest(days):
                self.at(NOON)
                self.write("secret", text_of(self.seed, NOON // DAY + days))
                it = self.node()
                self.wait_for_day(NOON // DAY)
                self.assertEqual(self.text(), text_of(self.seed, NOON // DAY))
                self.assertTrue(self.resumed(it, self.sessions(it)))
                self.assertNotIn("warning", self.said(it))

    def test_a_file_of_tomorrow(self):
        self.at(NOON)
        self.write("secret", text_of(self.seed, NOON // DAY + 1))
        it = self.node()
        self.assertIn("session_secret: it is of ", self.said(it))
        sessions = self.sessions(it)
        self.assertTrue(self.resumed(it, sessions))
        time.sleep(0.6)
        self.assertEqual(self.text(), text_of(self.seed, NOON // DAY + 1))
        self.at(NOON + DAY)
        self.assertTrue(self.resumed(it, self.sessions(it)))

    def test_files_that_are_none(self):
        whole = text_of(self.seed, NOON // DAY)
        for text, words in ((whole[:-2], "not whole"), (whole + "\n", "not whole"), (whole[:60], "not whole"),
                            (whole[:19], "19 bytes"), (whole[:20], "not whole"), (whole.replace("secret 1", "secret 2"), "newer version")):
            path = self.write("bad", text)
            listener, rest = self.config(path)
            said = self.refused(rest, listener)
            self.assertIn(f"{path}: session_secret: ", said)
            self.assertIn(words, said)
            self.assertEqual(self.text(path), text)
        path = self.write("open", self.seed, 0o644)
        listener, rest = self.config(path)
        self.assertIn(f"{path}: session_secret: every user may read or write it: chmod 0600", self.refused(rest, listener))

    @unittest.skipIf(os.geteuid() != 0, "a file of another user takes root")
    def test_a_file_of_another_is_used_and_left(self):
        for path in (self.dir, pki().dir):
            os.chmod(path, 0o755)
        certs = f"{self.dir}/certs"
        shutil.copytree(pki().certs, certs)
        for name in ("", *os.listdir(certs)):
            os.chown(f"{certs}/{name}", NOBODY, NOBODY)
        os.chown(self.dir, NOBODY, NOBODY)
        os.chown(self.file, 0, NOBODY)
        os.chmod(self.file, 0o640)
        self.at(NOON)
        it = self.node_of_nobody(certs)
        said = self.wait_for_words(it, "session_secret: it is not replaced by today's: Permission denied")
        self.assertIn("Who gets it can read sessions of earlier days", said)
        self.assertEqual(self.text(), self.seed.decode("latin-1"))
        other = self.node(self.write("copy", self.seed))
        self.assertTrue(self.resumed(other, self.sessions(it)))
        time.sleep(1)
        self.assertEqual(len(re.findall("is not replaced", self.said(it))), 1)
        os.chown(self.file, NOBODY, -1)
        self.at(NOON + 120)
        self.wait_for_day(NOON // DAY)
        self.assertEqual(os.stat(self.file).st_uid, NOBODY)

    def node_of_nobody(self, certs):
        """Started by root, and without its rights."""
        said = tempfile.NamedTemporaryFile(prefix="tarn-tls.", mode="w+", encoding="utf-8")
        self.addCleanup(said.close)
        it = Tarnd(self.program, f"    tls: {{ certificates: {certs}, session_secret: {self.file} }}\n"
                   f"workers: 1\nparameters: {{ user: nobody }}\nbackends: {{ default: {{ address: '{origin.address}' }} }}\n",
                   self.environment(), stderr=said)
        it.log = said.name
        self.addCleanup(self.end, it)
        return it


class Sessions(Days):
    def test_go_on_over_every_border(self):
        """From each period into the next, in a process that stays and in one that starts then."""
        self.at(NOON)
        stays = self.node()
        self.wait_for_day(NOON // DAY)
        for hours in range(12, 12 + 32, 4):
            border = MIDNIGHT + hours * HOUR
            self.at(border - 60)
            sessions = self.sessions(stays)
            self.at(border + 60)
            time.sleep(0.6)
            self.assertTrue(self.resumed(stays, sessions), hours)
            starts = self.node()
            self.assertTrue(self.resumed(starts, sessions), hours)
            self.assertTrue(self.resumed(stays, self.sessions(starts)), hours)
            self.end(starts)

    def test_go_on_over_restarts_reloads_and_upgrades(self):
        listener, rest = self.config()
        self.at(MIDNIGHT + 4 * HOUR - 60)
        with contextlib.ExitStack() as stack:
            for name, value in self.environment().items():
                old = os.environ.get(name)
                stack.callback(os.environ.pop if old is None else os.environ.__setitem__, name,
                               None if old is None else old)
                os.environ[name] = value
            it = SupervisedTls(self.program, listener + "admin: { address: \"unix:{dir}/admin.sock\" }\n" + rest)
            self.addCleanup(it.tidy)
        sessions = self.sessions(it)
        self.wait_for_day(MIDNIGHT // DAY - 1)
        it.upgrade()
        self.assertTrue(self.resumed(it, sessions))
        self.at(MIDNIGHT + 4 * HOUR + 60)
        self.wait_for_day(MIDNIGHT // DAY)
        it.upgrade()
        self.assertTrue(self.resumed(it, sessions))
        it.process.send_signal(signal.SIGHUP)
        tarnd.wait_until(lambda: "reload" in it.said(), "a reload is logged")
        self.assertTrue(self.resumed(it, sessions))
        self.assertEqual(self.text(), text_of(self.seed, MIDNIGHT // DAY))
        self.assertEqual(it.close(), 0)

    def test_nodes_agree_whoever_starts_when(self):
        """One file for two of them, and a copy for a third that comes late."""
        self.at(NOON)
        a, b = self.node(), self.node()
        copy = self.write("copy", self.seed)
        self.wait_for_day(NOON // DAY)
        self.at(NOON + 3 * DAY)
        self.wait_for_day(NOON // DAY + 3)
        c, d = self.node(copy), self.node(self.write("new copy", self.text()))
        self.wait_for_day(NOON // DAY + 3, copy)
        self.assertEqual(self.text(), self.text(copy))
        for x in (a, b, c, d):
            sessions = self.sessions(x)
            for y in (a, b, c, d):
                self.assertTrue(self.resumed(y, sessions))

    def test_another_file_counts_after_a_reload(self):
        self.at(NOON)
        it = self.node()
        self.wait_for_day(NOON // DAY)
        sessions = self.sessions(it)
        other = os.urandom(32)
        os.replace(self.write("next", other), self.file)
        self.at(NOON + DAY)  # what is in the file is what is renewed, and not what the process has
        self.wait_for_day(NOON // DAY + 1)
        self.assertEqual(self.text(), text_of(other, NOON // DAY + 1))
        self.at(NOON)
        it.process.send_signal(signal.SIGHUP)
        self.wait_for_words(it, "reload")
        time.sleep(0.3)
        self.assertFalse(self.resumed(it, sessions))


if __name__ == "__main__":
    World.program, preload = (os.path.abspath(sys.argv.pop(1)) for _ in range(2))
    origin = Origin()
    unittest.main()
