#!/usr/bin/env python3
"""supervise.py TARND [TEST...] -- tarnd --supervise: crashes, hangs, and new binaries, under load.

Clients try nothing twice: who is refused, reset or answered with anything but 200 has failed.  Only a
crash may fail those whose connections had been accepted by the tarnd that died.

With TARN_SUPERVISE_SECONDS the load goes on for as long around each event (default: 1), and with
TARN_SUPERVISE_UPGRADES the binary is replaced as often in a row (default: 3).
"""
import ctypes
import http.client
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.dont_write_bytecode = True
import tarnd
from origin import Origin
from supervised import Supervised

SECONDS = float(os.environ.get("TARN_SUPERVISE_SECONDS", "1"))
UPGRADES = int(os.environ.get("TARN_SUPERVISE_UPGRADES", "3"))
RATE = 200  # requests a second, of all clients together
CLIENTS = 8
CONFIG = """
workers: 2
admin: {{ address: "unix:{{dir}}/admin.sock" }}
backends:
  default: {{ address: "{origin}" }}
parameters: {{ timeout_idle: 60s{more} }}
"""
HIT = "/body?n=1000&framing=length"
PTRACE_SEIZE, PTRACE_INTERRUPT, WALL = 0x4206, 0x4207, 0x40000000
program = origin = None


def supervised(more="", **rest):
    return Supervised(program, CONFIG.format(origin=origin.address, more=more), **rest)


class Load:
    """Clients at a steady rate, until stop().  Half of them keep their connections."""

    def __init__(self, port):
        self.port, self.ending = port, threading.Event()
        self.done, self.failures = [0] * CLIENTS, []
        self.threads = [threading.Thread(target=self.run, args=(i,)) for i in range(CLIENTS)]
        for t in self.threads:
            t.start()

    def run(self, which):
        connection = None
        due = time.monotonic()
        while not self.ending.is_set():
            due += CLIENTS / RATE
            time.sleep(max(0, due - time.monotonic()))
            try:
                if connection is None:
                    connection = http.client.HTTPConnection(
                        "127.0.0.1", self.port, timeout=tarnd.PATIENCE_S)
                connection.request("GET", HIT)
                answer = connection.getresponse()
                if len(answer.read()) != 1000 or answer.status != 200:
                    raise AssertionError(answer.status)
                self.done[which] += 1
                if which % 2 == 0 or answer.will_close:
                    connection.close()
                    connection = None
            except (OSError, http.client.HTTPException, AssertionError) as e:
                self.failures.append(e)
                if connection is not None:
                    connection.close()
                connection = None
        if connection is not None:
            connection.close()

    def stop(self):
        self.ending.set()
        for t in self.threads:
            t.join()

    def __enter__(self):
        time.sleep(SECONDS / 2)
        return self

    def __exit__(self, *_):
        time.sleep(SECONDS / 2)
        self.stop()


class Supervise(unittest.TestCase):
    def start(self, **more):
        it = supervised(**more)
        self.addCleanup(it.tidy)
        return it

    def ask_and_stay(self, s):
        s.sendall(tarnd.request(HIT))
        answer = b""
        while len(answer.partition(b"\r\n\r\n")[2]) < 1000:
            answer += s.recv(65536)
        self.assertTrue(answer.startswith(b"HTTP/1.1 200 "))

    def ends(self, it, status=0):
        self.assertEqual(it.process.wait(timeout=tarnd.PATIENCE_S), status, it.said())

    def check_load(self, load, lost=0):
        """`lost`: how many may have been with a tarnd that died."""
        self.assertGreater(sum(load.done), CLIENTS)
        kinds = [type(e) for e in load.failures]
        self.assertNotIn(ConnectionRefusedError, kinds)
        self.assertLessEqual(len(kinds), lost, load.failures)
        for e in load.failures:
            self.assertIsInstance(e, (ConnectionError, http.client.IncompleteRead))

    def test_a_crash_refuses_nobody(self):
        it = self.start()
        with Load(it.port) as load:
            for crash in range(1, 3):
                old = it.child()
                os.kill(old, signal.SIGKILL)
                it.wait_for_words(f"tarnd {old} was killed by signal 9 .*crash {crash} in a row")
                self.assertNotEqual(it.child(), old)  # the question waits until it is answered
        self.check_load(load, lost=2 * CLIENTS)
        it.wait_for_words(r"tarnd \d+ is ready", 2)
        self.assertEqual(it.close(), 0)

    def heirs(self, pid):
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as f:
            return [int(n) for n in f.read().split()]

    def test_a_dead_process_has_no_memory_to_free(self):
        it = self.start()
        child = it.child()
        if "sanitizer" in subprocess.run([program, "--version"], capture_output=True, text=True,
                                         check=True).stdout:
            self.assertEqual(self.heirs(child), [])
            self.assertEqual(it.close(), 0)
            return
        heir, = self.heirs(child)
        self.assertEqual(self.name_of(heir, heir), "tarnd-reaper")
        self.assertEqual(len(os.listdir(f"/proc/{heir}/fd")), 2)  # to wait, and to have said so
        with open(f"/proc/{heir}/status", encoding="ascii") as f:
            self.assertRegex(f.read(), r"(?m)^Seccomp:\t[12]$")
        for sig in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR2):
            os.kill(heir, sig)
        self.assertEqual(it.ask(HIT).status, 200)
        with it.connect() as s:
            s.sendall(tarnd.request(HIT))
            self.assertTrue(s.recv(65536).startswith(b"HTTP/1.1 200"))
            os.kill(child, signal.SIGKILL)
            tarnd.read_to_end(s)
        next_one = it.child()
        tarnd.wait_until(lambda: not os.path.exists(f"/proc/{heir}"), "the heir has ended, and is buried")
        heir, = self.heirs(next_one)
        it.upgrade()
        tarnd.wait_until(lambda: not os.path.exists(f"/proc/{heir}"), "the heir of who retired")
        heir, = self.heirs(it.child())
        self.assertEqual(it.close(), 0)
        tarnd.wait_until(lambda: not os.path.exists(f"/proc/{heir}") or self.is_dead(heir), "nobody is left")

    def is_dead(self, pid):
        """Whoever should have buried it may not be in a hurry."""
        with open(f"/proc/{pid}/stat", encoding="ascii") as f:
            return f.read().rsplit(")", 1)[1].split()[0] == "Z"

    def test_descriptors_that_were_closed_are_nobodys(self):
        home = tempfile.mkdtemp(prefix="tarn-closed.")
        self.addCleanup(shutil.rmtree, home)
        path = os.path.join(home, "tarn.yaml")
        with open(path, "w", encoding="utf-8") as f:
            f.write(f"listen: [ {{ address: 'unix:{home}/in' }} ]\nworkers: 1\n"
                    f"backends: {{ default: {{ address: '{origin.address}' }} }}\n"
                    f"parameters: {{ shm_dir: '{home}/shm', access_log: '{home}/log' }}\n")
        for more in ([], ["--supervise"]):
            it = subprocess.Popen([program, *more, "-c", path], preexec_fn=lambda: os.closerange(0, 3))
            try:
                def served():
                    try:
                        with socket.socket(socket.AF_UNIX) as s:
                            s.settimeout(tarnd.PATIENCE_S)
                            s.connect(f"{home}/in")
                            s.sendall(tarnd.request(HIT, "Connection: close"))
                            return tarnd.Answer(tarnd.read_to_end(s)).status == 200
                    except OSError:
                        return False

                tarnd.wait_until(served, "it serves")
                for pid in (it.pid, *(c for c in self.heirs(it.pid) if more)):
                    self.assertEqual({os.readlink(f"/proc/{pid}/fd/{n}") for n in range(3)}, {"/dev/null"})
                    if more and pid != it.pid and "sanitizer" not in subprocess.run(
                            [program, "--version"], capture_output=True, text=True, check=True).stdout:
                        self.assertEqual(len(self.heirs(pid)), 1)
            finally:
                it.terminate()
                self.assertEqual(it.wait(timeout=tarnd.PATIENCE_S), 0)
            with open(f"{home}/log", encoding="utf-8") as f:
                self.assertTrue(all(" 200 1000 " in line for line in f))

    def test_a_process_that_hangs_is_replaced(self):
        it = self.start(more=", watchdog: 4s")
        old = it.child()
        os.kill(old, signal.SIGSTOP)
        it.wait_for_words(f"tarnd {old} sent no heartbeat for 4 s, and is killed: its management")
        self.assertNotEqual(it.child(), old)
        self.assertEqual(it.ask(HIT).status, 200)
        self.assertEqual(it.close(), 0)

    def name_of(self, pid, thread):
        with open(f"/proc/{pid}/task/{thread}/comm", encoding="ascii") as f:
            return f.read().strip()

    def test_a_loop_that_hangs_is_named_and_replaced(self):
        it = self.start(more=", watchdog: 4s")
        old = it.child()
        thread = next(t for t in map(int, os.listdir(f"/proc/{old}/task"))
                      if self.name_of(old, t) == "tarn-worker-1")
        libc = ctypes.CDLL(None, use_errno=True)
        libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
        for what in (PTRACE_SEIZE, PTRACE_INTERRUPT):
            self.assertEqual(libc.ptrace(what, thread, None, None), 0, os.strerror(ctypes.get_errno()))
        it.wait_for_words(f"tarnd {old} sent no heartbeat.*: worker 1 has not turned its loop for")

        def reaped():  # a thread that is traced is its tracer's to bury
            try:
                os.waitpid(thread, os.WNOHANG | WALL)
                return False
            except ChildProcessError:
                return True

        tarnd.wait_until(reaped, "the thread has ended")
        it.wait_for_words(f"tarnd {old} was killed by signal")
        self.assertNotEqual(it.child(), old)
        self.assertEqual(it.close(), 0)

    def test_a_new_binary_fails_no_request(self):
        it = self.start(more=", shm_dir: '{dir}/shm'")
        children = [it.child()]
        with Load(it.port) as load:
            for _ in range(UPGRADES):
                children.append(it.upgrade())
                self.assertEqual(self.owner_of_log(it, children[-1]), children[-1])
        self.check_load(load)
        self.assertEqual(len(set(children)), UPGRADES + 1)
        for pid in children[:-1]:
            it.wait_for_words(f"tarnd {pid}, which retired, ended with status 0")
        self.assertFalse(os.path.exists(f"{it.dir}/shm/next"))
        os.kill(children[-1], signal.SIGKILL)  # its successors' sockets are kept as its own were
        self.assertNotEqual(it.child(), children[-1])
        self.assertEqual(it.ask(HIT).status, 200)
        self.assertEqual(it.said().count("supervising tarnd"), 1)  # as often as the ready line
        it.terminate()
        self.ends(it)
        self.assertFalse(os.path.exists(it.admin))

    def owner_of_log(self, it, want):
        """Whose ring is it that shm_dir shows?  (The header's pid: daemon/shm/README.md.)"""
        def owner():
            try:
                with open(f"{it.dir}/shm/log.0", "rb") as f:
                    return struct.unpack_from("<I", f.read(64), 36)[0]
            except FileNotFoundError:  # between the one and the other
                return 0

        tarnd.wait_until(lambda: owner() == want, "the new process has the directory")
        return owner()

    def test_the_old_process_finishes_what_it_has(self):
        it = self.start()
        go_on = threading.Event()

        def play(handler):
            handler.start("length", 20, "no-store")
            handler.piece(b"x" * 10)
            go_on.wait(tarnd.PATIENCE_S)
            handler.piece(b"y" * 10)

        target = origin.script("halves", play)
        with it.connect() as slow, it.connect() as idle:
            self.ask_and_stay(idle)
            slow.sendall(tarnd.request(target))
            seen = b""
            while not seen.endswith(b"x" * 10):
                seen += slow.recv(65536)
            old = it.child()
            self.assertNotEqual(it.upgrade(), old)
            idle.sendall(tarnd.request(HIT))
            answer = tarnd.Answer(tarnd.read_to_end(idle))
            self.assertEqual((answer.status, answer.fields["connection"]), (200, "close"))
            os.kill(old, 0)  # it lives
            go_on.set()
            while not seen.endswith(b"y" * 10):
                seen += slow.recv(65536)
        it.wait_for_words(f"tarnd {old}, which retired, ended with status 0")
        self.assertEqual(it.close(), 0)

    def test_a_binary_that_does_not_run_changes_nothing(self):
        it = self.start()
        old = it.child()
        it.write_binary("#!/bin/sh\necho no such library >&2\nexit 3\n")
        it.process.send_signal(signal.SIGUSR2)
        it.wait_for_words("no such library\n(?:.*\n)*.* -t ended with status 3: nothing has changed")
        it.write_binary("#!/bin/sh\n[ $1 = -t ] && exit 0\nexit 7\n")
        it.process.send_signal(signal.SIGUSR2)
        it.wait_for_words("ended with status 7 before it was ready: the old one goes on")
        self.assertEqual(it.child(), old)
        os.kill(old, signal.SIGKILL)  # what follows is the binary that ran, not what lies there now
        self.assertNotEqual(it.child(), old)
        os.unlink(it.binary)
        os.symlink(program, it.binary)
        it.upgrade()
        self.assertEqual(it.close(), 0)

    def test_a_mistake_in_the_configuration_changes_nothing(self):
        it = self.start()
        old = it.child()
        it.edit(lambda text: text.replace("workers: 2", "wrkers: 2"))
        it.process.send_signal(signal.SIGUSR2)
        it.wait_for_words("wrkers(?:.*\n)*.* -t ended with status 2: nothing has changed")
        self.assertEqual(it.child(), old)
        it.edit(lambda text: text.replace("wrkers: 2", "workers: 1"))
        it.upgrade()
        self.assertEqual(it.ask_admin("/v1/status")["workers"], 1)
        for _ in range(8):  # whichever of the two sockets the kernel takes
            self.assertEqual(it.ask(HIT).status, 200)
        it.edit(lambda text: text.replace("workers: 1", "workers: 3"))
        it.upgrade()
        self.assertEqual(it.ask_admin("/v1/status")["workers"], 3)
        for _ in range(8):
            self.assertEqual(it.ask(HIT).status, 200)
        self.assertEqual(it.close(), 0)

    def test_what_a_reload_binds_outlives_a_crash(self):
        it = self.start()
        old = it.child()
        second = os.path.join(it.dir, "second.sock")
        line = f"  - address: unix:{second}\n"
        it.edit(lambda text: text.replace("listen:\n", "listen:\n" + line))
        it.process.send_signal(signal.SIGHUP)
        it.wait_for_words(r"reload: .*: \d+ changes?")
        self.assertTrue(os.path.exists(second))
        os.kill(old, signal.SIGKILL)
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(tarnd.PATIENCE_S)
            s.connect(second)
            s.sendall(tarnd.request(HIT, "Connection: close"))
            self.assertEqual(tarnd.Answer(tarnd.read_to_end(s)).status, 200)
        it.edit(lambda text: text.replace(line, ""))
        it.process.send_signal(signal.SIGHUP)
        tarnd.wait_until(lambda: not os.path.exists(second), "it has gone")
        self.assertEqual(it.ask(HIT).status, 200)
        self.assertEqual(it.close(), 0)

    def test_a_unix_socket_gets_the_mode_that_the_file_says_now(self):
        s = self.start()

        def mode():
            return os.stat(s.admin).st_mode & 0o777

        self.assertEqual(mode(), 0o600)
        s.edit(lambda text: text.replace('admin.sock"', 'admin.sock", mode: 0640'))
        s.upgrade()
        self.assertEqual(mode(), 0o640)
        s.edit(lambda text: text.replace("0640", "0600"))
        os.kill(s.child(), signal.SIGKILL)  # who follows a crash reads the file, too
        tarnd.wait_until(lambda: mode() == 0o600, "the mode of before")
        self.assertEqual(s.ask(HIT).status, 200)
        self.assertEqual(s.close(), 0)

    def test_starts_that_fail_are_tried_again_with_pauses(self):
        it = self.start()
        old = it.child()
        it.edit(lambda text: text.replace("workers: 2", "wrkers: 2"))
        os.kill(old, signal.SIGKILL)
        it.wait_for_words("crash 4 in a row")
        with it.connect() as waiting:  # in the kernel's queue
            waiting.sendall(tarnd.request(HIT, "Connection: close"))
            it.edit(lambda text: text.replace("wrkers: 2", "workers: 2"))
            self.assertEqual(tarnd.Answer(tarnd.read_to_end(waiting)).status, 200)
        pauses = re.findall(r"in a row: the next starts in (\d+) ms", it.said())
        self.assertEqual(pauses[:4], ["0", "100", "200", "400"])
        self.assertEqual(it.close(), 0)

    def test_who_cannot_start_ends_with_its_status(self):
        with tempfile.TemporaryDirectory() as d:
            path = os.path.join(d, "tarn.yaml")
            for text, status in (("wrkers: 2\n", 2),
                                 ("listen: [{address: 'unix:/nowhere/a'}]\n"
                                  "backends: {o: {address: '127.0.0.1:9'}}\n", 1)):
                with open(path, "w", encoding="utf-8") as f:
                    f.write(text)
                it = subprocess.run([program, "-S", "-c", path], stdin=subprocess.DEVNULL,
                                    capture_output=True, timeout=tarnd.PATIENCE_S, check=False)
                self.assertEqual((it.returncode, it.stdout), (status, b""), it.stderr)

    def test_an_operator_who_stops_it_stops_both(self):
        for verb in ("stop", "drain"):
            it = self.start()
            self.assertEqual(it.ask_admin(f"/v1/{verb}", method="POST"), {"state": "draining"})
            self.ends(it)
            self.assertFalse(os.path.exists(it.admin))

    def test_a_signal_ends_both_while_others_retire(self):
        it = self.start(more=", drain_timeout: 100ms")
        with it.connect() as idle:
            self.ask_and_stay(idle)
            old = it.child()
            self.assertNotEqual(it.upgrade(), old)
            os.kill(old, 0)  # it waits for whoever is idle
            self.assertEqual(it.close(), 0)

    def test_without_its_supervisor_it_drains(self):
        it = self.start()
        child = it.child()
        it.process.kill()

        def gone():
            try:
                with open(f"/proc/{child}/stat", encoding="ascii") as f:
                    return f.read().rpartition(")")[2].split()[0] == "Z"
            except FileNotFoundError:
                return True

        tarnd.wait_until(gone, "it has ended")
        it.wait_for_words("the supervisor has gone")

    def test_sockets_of_the_service_manager_are_taken(self):
        for arguments in ([], ["--supervise"]):
            with tempfile.TemporaryDirectory() as d, socket.socket() as s:
                s.bind(("127.0.0.1", 0))
                s.listen(16)
                s.settimeout(tarnd.PATIENCE_S)
                config = os.path.join(d, "tarn.yaml")
                with open(config, "w", encoding="utf-8") as f:
                    f.write("listen: [{address: '127.0.0.1:%d'}]\nworkers: 2\n" % s.getsockname()[1] +
                            f"backends: {{o: {{address: '{origin.address}'}}}}\n")
                script = f'exec 3<&{s.fileno()}; LISTEN_PID=$$ LISTEN_FDS=1 exec "$@"'
                with subprocess.Popen(["bash", "-c", script, "bash", program, *arguments, "-c", config],
                                      pass_fds=(s.fileno(),), stdout=subprocess.PIPE) as it:
                    try:
                        with socket.create_connection(s.getsockname()) as c:  # it may be starting
                            c.settimeout(tarnd.PATIENCE_S)
                            c.sendall(tarnd.request(HIT, "Connection: close"))
                            self.assertEqual(tarnd.Answer(tarnd.read_to_end(c)).status, 200)
                    finally:
                        it.terminate()
                    self.assertEqual(it.wait(timeout=tarnd.PATIENCE_S), 0)
                socket.create_connection(s.getsockname()).close()  # it stays the manager's


def main():
    global program, origin
    if len(sys.argv) < 2:
        sys.exit("usage: supervise.py TARND [TEST...]")
    program = os.path.abspath(sys.argv.pop(1))
    origin = Origin()
    unittest.main(verbosity=2)


if __name__ == "__main__":
    main()
