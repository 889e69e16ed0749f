"""Processes that are pinned, ready when they say so, measured, and gone at the end."""

import ctypes
import http.client
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
PR_SET_PDEATHSIG = 1
libc = ctypes.CDLL(None, use_errno=True)


class BenchError(Exception):
    """Something the operator must put right; its text is all that is printed."""


def children(pid):
    """All descendants of pid, nearest first."""
    found = []
    try:
        for tid in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{tid}/children", encoding="ascii") as f:
                for child in map(int, f.read().split()):
                    found += [child] + children(child)
    except OSError:
        pass
    return found


def cpu_ns(pid):
    """CPU time of a whole process, threads that ended included, to the nanosecond."""
    try:
        # The clock id of another process's CPUCLOCK_SCHED, as clock_getcpuclockid(3) makes it.
        return int(time.clock_gettime((~pid << 3) | 2) * 1e9)
    except OSError:
        return 0


def user_share(pid):
    """Ticks in user mode and in the kernel."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as f:
            fields = f.read().rpartition(")")[2].split()
        return int(fields[11]), int(fields[12])
    except OSError:
        return 0, 0


def memory_kib(pid, key):
    """VmRSS or VmHWM of a process."""
    try:
        with open(f"/proc/{pid}/status", encoding="ascii") as f:
            m = re.search(rf"^{key}:\s+(\d+) kB", f.read(), re.M)
        return int(m.group(1)) if m else 0
    except OSError:
        return 0


def progress(text=""):
    """What is under way, to a terminal only; without text: wipes it."""
    if sys.stderr.isatty():
        print(f"\r{text:<60}" + ("" if text else "\r"), end="", file=sys.stderr, flush=True)


class Proc:
    """One program that was started, with the processes it started itself."""

    def __init__(self, popen, name, log):
        self.popen, self.name, self.log = popen, name, log

    def pids(self):
        return [self.popen.pid] + children(self.popen.pid)

    def cpu(self):
        """(ns, user ticks, kernel ticks), all processes together."""
        pids = self.pids()
        shares = [user_share(p) for p in pids]
        return (sum(map(cpu_ns, pids)), sum(s[0] for s in shares), sum(s[1] for s in shares))

    def rss_kib(self):
        return sum(memory_kib(p, "VmRSS") for p in self.pids())

    def peak_kib(self):
        return sum(memory_kib(p, "VmHWM") for p in self.pids())

    def peak_reset(self):
        for p in self.pids():
            try:
                with open(f"/proc/{p}/clear_refs", "w", encoding="ascii") as f:
                    f.write("5")
            except OSError:
                pass  # then the peak is one since the start, which is larger, never smaller

    def alive(self):
        return self.popen.poll() is None

    def tail(self):
        try:
            with open(self.log, encoding="utf-8", errors="replace") as f:
                return "".join(f.readlines()[-15:])
        except OSError:
            return ""

    def stop(self, seconds=10):
        """Ends what we started, and nothing else: by pid, politely first."""
        pids = self.pids()
        if self.alive():
            self.popen.terminate()
            try:
                self.popen.wait(seconds)
            except subprocess.TimeoutExpired:
                self.popen.kill()
                self.popen.wait()
                for pid in pids[1:]:
                    try:
                        os.kill(pid, signal.SIGKILL)
                    except ProcessLookupError:
                        pass
        return self.popen.returncode


class Lab:
    """The folder, the processors, the ports and the processes of one run."""

    def __init__(self, build):
        self.build = build
        base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        self.dir = tempfile.mkdtemp(prefix="tarn-bench.", dir=base)
        self.procs = []
        self.ports = set()
        cpus = sorted(os.sched_getaffinity(0))
        self.server_cpu, self.client_cpu = {cpus[0]}, {cpus[-1]}
        self.all_cpus = set(cpus)
        self.pinned_apart = len(cpus) > 1

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        before = {sig: signal.signal(sig, signal.SIG_IGN)
                  for sig in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)}
        for proc in reversed(self.procs):
            proc.stop()
        shutil.rmtree(self.dir, ignore_errors=True)
        for sig, handler in before.items():
            signal.signal(sig, handler)

    def path(self, name):
        return os.path.join(self.dir, name)

    def program(self, name):
        """A program of the build, or None."""
        path = os.path.join(self.build, "bin", name)
        return path if os.access(path, os.X_OK) else None

    def port(self):
        while True:
            with socket.socket() as s:
                s.bind(("127.0.0.1", 0))
                port = s.getsockname()[1]
            if port not in self.ports:
                self.ports.add(port)
                return port

    def template(self, name, out, **values):
        """Fills in @NAME@ and writes the result into the folder."""
        with open(os.path.join(HERE, name), encoding="utf-8") as f:
            text = f.read()
        text = re.sub(r"@([A-Z0-9]+)@", lambda m: str(values[m.group(1)]), text)
        with open(self.path(out), "w", encoding="utf-8") as f:
            f.write(text)
        return self.path(out)

    def start(self, name, argv, cpus=None, ready=None, port=None, seconds=20):
        """Starts argv; waits until its output matches `ready`, or until `port` accepts."""
        log = self.path(f"{name}.out")

        def child():
            # Should this script be killed outright, what it started is told to end.
            libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
            os.sched_setaffinity(0, cpus or self.all_cpus)

        with open(log, "wb") as out:
            popen = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out,
                                     stderr=subprocess.STDOUT, cwd=self.dir, preexec_fn=child)
        proc = Proc(popen, name, log)
        self.procs.append(proc)
        deadline = time.monotonic() + seconds
        while not self.is_ready(proc, ready, port):
            if not proc.alive():
                raise BenchError(f"{name} ended at once:\n{proc.tail()}")
            if time.monotonic() > deadline:
                proc.stop()
                raise BenchError(f"{name} was not ready within {seconds} s:\n{proc.tail()}")
            time.sleep(0.02)
        return proc

    @staticmethod
    def is_ready(proc, ready, port):
        if ready is not None:
            with open(proc.log, encoding="utf-8", errors="replace") as f:
                return ready in f.read()
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return True
        except OSError:
            return False

    def stop(self, proc):
        if proc in self.procs:
            self.procs.remove(proc)
        return proc.stop()


def fetch(port, path, headers=None, seconds=20):
    """(status, number of body bytes) of one request on a connection of its own."""
    conn = http.client.HTTPConnection("127.0.0.1", port, timeout=seconds)
    try:
        conn.request("GET", path, headers=headers or {})
        response = conn.getresponse()
        size = 0
        while chunk := response.read(1 << 20):
            size += len(chunk)
        return response.status, size
    finally:
        conn.close()
