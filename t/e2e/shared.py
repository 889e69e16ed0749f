#!/usr/bin/env python3
"""shared.py TARND LOG_TAIL LIBRARY TABLE [TEST...] -- who may read and write what tarnd has in shared memory.

The log holds URLs, and with them what clients have put there.  Another user of the machine reads nothing, the
group reads, and a table of another user is refused.  It takes root to be several users.
"""
import os
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
import tarnd
from origin import Origin

STRANGER, GROUP = 65533, 4712
CONFIG = """
workers: 1
admin: {{ address: "unix:{{dir}}/admin.sock" }}
backends: {{ default: {{ address: "{origin}" }} }}
tables: {{ words: {{ path: "{home}/tables/words" }} }}
parameters: {{ {more} }}
"""
program = log_tail = library = table = origin = None


def mode(path):
    return stat.S_IMODE(os.stat(path).st_mode)


@unittest.skipUnless(os.geteuid() == 0, "only root is several users")
class Shared(unittest.TestCase):
    def setUp(self):
        self.home = tempfile.mkdtemp(prefix="tarn-e2e.")
        os.chmod(self.home, 0o755)
        self.addCleanup(shutil.rmtree, self.home, ignore_errors=True)
        for path in (log_tail, library, table):  # where others may run them
            shutil.copy(path, self.home)
        self.umask = os.umask(0o022)
        self.addCleanup(os.umask, self.umask)

    def start(self, more="", config=CONFIG):
        self.log = open(f"{self.home}/said", "w+", encoding="utf-8")
        self.addCleanup(self.log.close)
        t = tarnd.Tarnd(program, config.format(home=self.home, origin=origin.address, more=more),
                        stderr=self.log)
        self.addCleanup(t.tidy)
        return t

    def said(self):
        with open(f"{self.home}/said", encoding="utf-8") as f:
            return f.read()

    def run_as(self, uid, gid, *args, groups=(), **kw):
        """A program in our home, as another user."""
        return subprocess.run([f"{self.home}/{os.path.basename(args[0])}", *args[1:]],
                              capture_output=True, text=True, check=False, timeout=tarnd.PATIENCE_S,
                              env={**os.environ, "LD_LIBRARY_PATH": self.home},
                              user=uid, group=gid, extra_groups=list(groups), **kw)

    def put(self, name, uid=0, gid=0, text="a 1\n"):
        done = self.run_as(uid, gid, table, "-d", f"{self.home}/tables", "load", name, "-", input=text)
        self.assertEqual(done.returncode, 0, done.stderr)

    def tables(self, t):
        """What is told of them."""
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(tarnd.PATIENCE_S)
            s.connect(f"{t.dir}/admin.sock")
            s.sendall(tarnd.request("/v1/tables", "Connection: close", host="tarn"))
            return tarnd.Answer(tarnd.read_to_end(s)).body.decode()

    def test_other_users_read_nothing_of_log_and_counters(self):
        t = self.start()
        self.assertEqual(t.ask("/body?n=1&framing=length&token=secret").status, 200)
        shm = f"/dev/shm/tarn.{t.process.pid}"
        self.assertEqual(mode(shm), 0o750)
        for name in os.listdir(shm):
            self.assertIn(mode(f"{shm}/{name}"), (0o640, 0o600), name)
        done = self.run_as(STRANGER, STRANGER, log_tail, shm, "1", "0")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("no permission: only its owner, root or a member of its group", done.stderr)
        for uid, gid in ((0, 0), (STRANGER, 0)):  # root, and tarnd's group
            done = self.run_as(uid, gid, log_tail, shm, "1", "0")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("token=secret", done.stdout)
        # A lock is taken by who can open the file.
        self.assertEqual(mode(f"{shm}/lock"), 0o600)
        self.assertEqual(t.close(), 0)

    def test_the_group_of_log_and_counters_is_a_parameter(self):
        t = self.start(f"shm_group: {GROUP}, shm_dir: '{self.home}/shm'")
        self.assertEqual(t.ask("/body?n=1&framing=length").status, 200)
        shm = f"{self.home}/shm"
        self.assertEqual((mode(shm), os.stat(shm).st_gid), (0o750, GROUP))
        for name in ("log.0", "counters", "latency", "backends"):
            self.assertEqual((mode(f"{shm}/{name}"), os.stat(f"{shm}/{name}").st_gid), (0o640, GROUP))
        done = self.run_as(STRANGER, STRANGER, log_tail, shm, "1", "0", groups=[GROUP])
        self.assertEqual(done.returncode, 0, done.stderr)
        done = self.run_as(STRANGER, STRANGER, log_tail, shm, "1", "0")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertEqual(t.close(), 0)

    def test_a_mode_lets_everybody_read(self):
        t = self.start("shm_mode: 0644")
        shm = f"/dev/shm/tarn.{t.process.pid}"
        self.assertEqual((mode(shm), mode(f"{shm}/log.0")), (0o755, 0o644))
        self.assertEqual(self.run_as(STRANGER, STRANGER, log_tail, shm, "0", "0").returncode, 0)
        self.assertEqual(t.close(), 0)

    def test_what_cannot_be_is_told_at_the_check(self):
        for more, says in (("shm_group: no-such-group", "there is no group 'no-such-group'"),
                           ("table_owners: [root, no-such-user]", "there is no user 'no-such-user'"),
                           ("table_owners: ['a b']", "is not one word"),
                           ("shm_mode: 0440", "the least is 0600"),
                           ("shm_mode: 0652", "has to be 06.."), ("shm_mode: 0604 ", None),
                           ("shm_mode: 0755", "the most is 0664")):
            done = subprocess.run([program, "-t", "-c", "/dev/stdin"], capture_output=True, text=True,
                                  check=False, timeout=tarnd.PATIENCE_S, input=CONFIG.format(
                                      home=self.home, origin=origin.address, more=more).replace("{dir}", self.home))
            self.assertEqual(done.returncode, 0 if says is None else 2, more + done.stderr)
            if says is not None:
                self.assertIn(says, done.stderr)

    def test_a_group_that_tarnd_is_no_member_of_is_told_by_name_of_the_parameter(self):
        os.chown(self.home, 65534, 65534)
        with self.assertRaises(RuntimeError):
            self.start(f"user: nobody, shm_group: {GROUP}")
        self.assertIn("change the parameter shm_group", self.said())

    def test_a_table_is_for_its_group_whatever_the_umask(self):
        os.mkdir(f"{self.home}/tables")
        os.chown(f"{self.home}/tables", 0, GROUP)
        os.chmod(f"{self.home}/tables", 0o2750)
        for umask in (0o022, 0o077, 0):
            os.umask(umask)
            self.put(f"t{umask}")
            path = f"{self.home}/tables/t{umask}"
            copy = next(c for c in (path + '.0', path + '.1') if os.path.exists(c))
            self.assertEqual((mode(f"{path}.state"), os.stat(f"{path}.state").st_gid), (0o660, GROUP))
            self.assertEqual((mode(copy), os.stat(copy).st_gid), (0o640, GROUP))
            got = self.run_as(STRANGER, STRANGER, table, "-d", f"{self.home}/tables", "get", f"t{umask}", "a",
                              groups=[GROUP])
            self.assertEqual((got.returncode, got.stdout), (0, "1\n"), got.stderr)
            got = self.run_as(STRANGER, STRANGER, table, "-d", f"{self.home}/tables", "get", f"t{umask}", "a")
            self.assertEqual(got.returncode, 1)
            self.assertIn("Permission denied", got.stderr)
        done = self.run_as(0, 0, table, "-d", f"{self.home}/made", "--group", str(GROUP), "load", "x", "-",
                           input="a 1\n")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual((mode(f"{self.home}/made"), os.stat(f"{self.home}/made").st_gid), (0o750, GROUP))
        self.assertEqual(os.stat(f"{self.home}/made/x.state").st_gid, GROUP)

    def test_a_table_of_another_user_is_refused(self):
        os.mkdir(f"{self.home}/tables")
        os.chmod(f"{self.home}/tables", 0o777)
        self.put("words", STRANGER, 0)
        t = self.start()
        told = self.tables(t)
        self.assertIn('"refused"', told)
        self.assertIn("its owner is not root, tarnd's user or one of table_owners", told)
        tarnd.wait_until(lambda: "table words: " in self.said(), "the error log has it")
        self.assertIn("table_owners", self.said())
        # One of the two files alone is as bad.
        for name in os.listdir(f"{self.home}/tables"):
            os.unlink(f"{self.home}/tables/{name}")
        self.put("words", 0, 0)
        tarnd.wait_until(lambda: '"ok"' in self.tables(t), "root's is taken")
        for copy in ("0", "1"):
            if os.path.exists(f"{self.home}/tables/words.{copy}"):
                os.chown(f"{self.home}/tables/words.{copy}", STRANGER, 0)
        self.assertEqual(t.close(), 0)
        t = self.start()
        self.assertIn('"refused"', self.tables(t))
        self.assertEqual(t.close(), 0)
        t = self.start(f"table_owners: [{STRANGER}]")
        self.assertIn('"ok"', self.tables(t))
        self.assertEqual(t.close(), 0)


def main():
    global program, log_tail, library, table, origin
    if len(sys.argv) < 5:
        sys.exit("usage: shared.py TARND LOG_TAIL LIBRARY TABLE [TEST...]")
    program, log_tail, library, table = (os.path.abspath(sys.argv.pop(1)) for _ in range(4))
    origin = Origin()
    unittest.main(verbosity=2)


if __name__ == "__main__":
    main()
