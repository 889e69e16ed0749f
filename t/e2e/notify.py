#!/usr/bin/env python3
"""notify.py TARND [TEST...] -- what tarnd tells the service manager that started it.

The manager is a datagram socket of the test's.  A worker whose loop is stuck is a thread that this
process has stopped by ptrace.
"""
import ctypes
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.dont_write_bytecode = True
import tarnd

CONFIG = """
workers: 2
backends:
  default: { address: "127.0.0.1:9" }
"""
PTRACE_ATTACH, PTRACE_DETACH = 16, 17
program = None


class Manager:
    """What systemd is to a service: a socket that is written to."""

    def __init__(self, abstract=False):
        self.folder = tempfile.TemporaryDirectory(prefix="tarn-e2e.")
        self.name = f"{self.folder.name}/notify"
        address = f"\0tarn-test-{os.getpid()}" if abstract else self.name
        if abstract:
            self.name = "@" + address[1:]
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(address)

    def close(self):
        self.socket.close()
        self.folder.cleanup()

    def next(self, seconds=tarnd.PATIENCE_S):
        """One message as a map; None: there is none in time."""
        if not select.select([self.socket], [], [], seconds)[0]:
            return None
        lines = self.socket.recv(4096).decode().split("\n")
        return dict(line.split("=", 1) for line in lines)

    def until(self, key):
        """The next one with that key; what comes before it is dropped."""
        while (message := self.next()) is not None:
            if key in message:
                return message
        raise AssertionError(f"in vain: {key}")

    def waiting(self):
        """All that has come."""
        all_ = []
        while (message := self.next(0)) is not None:
            all_.append(message)
        return all_


class Lines(threading.Thread):
    """The error log of a tarnd as it comes."""

    def __init__(self, stream):
        super().__init__(daemon=True)
        self.stream, self.lines = stream, []
        self.start()

    def run(self):
        for line in self.stream:
            self.lines.append(line.decode())

    def has(self, text):
        return any(text in line for line in list(self.lines))


class Notify(unittest.TestCase):
    def start(self, abstract=False, **environment):
        self.manager = Manager(abstract)
        self.addCleanup(self.manager.close)
        t = tarnd.Tarnd(program, CONFIG, {"NOTIFY_SOCKET": self.manager.name, **environment},
                        stderr=subprocess.PIPE)
        self.log = Lines(t.process.stderr)
        self.addCleanup(t.process.stderr.close)
        return t

    def test_ready_comes_once_and_stopping_at_the_end(self):
        t = self.start()
        ready = self.manager.until("READY")
        self.assertEqual(ready["READY"], "1")
        self.assertIn("serving", ready["STATUS"])
        self.assertNotIn("MAINPID", ready)  # whoever supervises knows it better
        self.assertEqual(self.manager.waiting(), [])
        t.process.send_signal(signal.SIGTERM)
        self.assertEqual(self.manager.until("STOPPING")["STOPPING"], "1")
        self.assertEqual(t.process.wait(tarnd.PATIENCE_S), 0)
        t.tidy()

    def test_an_abstract_socket_is_found_too(self):
        t = self.start(abstract=True)
        self.manager.until("READY")
        self.assertEqual(t.close(), 0)

    def test_a_reload_begins_with_a_time_and_ends(self):
        t = self.start()
        self.manager.until("READY")
        before = time.clock_gettime(time.CLOCK_MONOTONIC)
        t.process.send_signal(signal.SIGHUP)
        at = int(self.manager.until("RELOADING")["MONOTONIC_USEC"]) / 1e6
        self.assertLessEqual(before, at + 1e-5)
        self.assertLessEqual(at, time.clock_gettime(time.CLOCK_MONOTONIC))
        self.manager.until("READY")
        self.assertEqual(t.close(), 0)

    def test_without_a_watchdog_nobody_is_told_of_life(self):
        for environment in ({}, {"WATCHDOG_USEC": "0"}, {"WATCHDOG_USEC": "9000000", "WATCHDOG_PID": "999999999"}):
            t = self.start(**environment)
            self.manager.until("READY")
            self.assertEqual(t.close(), 0)
            self.assertFalse([m for m in self.manager.waiting() if "WATCHDOG" in m])

    def test_a_watchdog_is_told_while_every_loop_turns(self):
        t = self.start(WATCHDOG_USEC="3000000", WATCHDOG_PID=str(os.getpid()))  # we are the parent
        self.manager.until("READY")
        for _ in range(2):
            self.manager.until("WATCHDOG")
        tid = self.worker(t)
        libc = ctypes.CDLL(None, use_errno=True)
        libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
        self.assertEqual(libc.ptrace(PTRACE_ATTACH, tid, None, None), 0, ctypes.get_errno())
        os.waitpid(tid, 0x40000000)  # __WALL
        self.manager.waiting()
        tarnd.wait_until(lambda: self.log.has("its loop does not turn"), "a stuck worker is named")
        self.assertTrue(self.log.has(f"worker {self.number}: its loop"))
        # At most the one that was due when it was stopped.
        self.assertLessEqual(len([m for m in self.manager.waiting() if "WATCHDOG" in m]), 1)
        self.assertEqual(libc.ptrace(PTRACE_DETACH, tid, None, None), 0, ctypes.get_errno())
        self.manager.until("WATCHDOG")
        self.assertEqual(t.close(), 0)

    def worker(self, t):
        """The thread of the second worker."""
        self.number = 1
        tasks = f"/proc/{t.process.pid}/task"
        for tid in os.listdir(tasks):
            with open(f"{tasks}/{tid}/comm", encoding="ascii") as f:
                if f.read().strip() == "tarn-worker-1":
                    return int(tid)
        raise AssertionError("no thread is called tarn-worker-1")

    def test_a_watchdog_that_is_too_short_is_said_so(self):
        t = self.start(WATCHDOG_USEC="1000000")
        self.manager.until("READY")
        tarnd.wait_until(lambda: self.log.has("give it WatchdogSec=3"), "a warning")
        self.assertEqual(t.close(), 0)

    def test_a_manager_that_is_not_there_harms_nobody(self):
        for name in ("/nowhere/notify", "nonsense", "", "/" + "x" * 200):
            t = tarnd.Tarnd(program, CONFIG, {"NOTIFY_SOCKET": name, "WATCHDOG_USEC": "3000000"},
                            stderr=subprocess.DEVNULL)
            self.assertEqual(t.close(), 0)


def main():
    global program
    if len(sys.argv) < 2:
        sys.exit("usage: notify.py TARND [TEST...]")
    program = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)


if __name__ == "__main__":
    main()
