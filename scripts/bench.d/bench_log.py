"""What the shared-memory log costs a hit, and whether who reads it gets all of it.

By callgrind: a hit while nobody reads, while somebody reads what is always written, and while a reader
is attached, for whom the details are written.  Then `tarnctl log`, attached, beside hits at about
20,000/s on one worker: what it showed, and what it lost.
"""

import glob
import mmap
import os
import re
import signal
import struct
import subprocess
import threading

import bench_callgrind
import bench_servers
from bench_load import Load, number, print_table, which, wrk_argv, wrk_run
from bench_proc import BenchError, fetch, progress
from bench_results import bound

HEAD, ATTACHED, SLOT = 64, 128, 192  # of a ring's first page
LOAD = Load("log", "1 KiB", "/1k", 64)
PACED = Load("log-paced", "1 KiB, paced", "/1k", 60, "paced.lua", ("3",))
RATE = 20000
READERS = ("nobody reads", "one reads", "one is attached")


class Readers(threading.Thread):
    """Follows every ring that appears under the lab's folder; attached, it takes the first slot."""

    def __init__(self, lab, attached):
        super().__init__(daemon=True)
        self.pattern, self.attached = os.path.join(lab.dir, "shm-*", "log.0"), attached
        self.ended, self.maps = threading.Event(), {}

    def take(self, path):
        with open(path, "r+b") as f:
            ring = mmap.mmap(f.fileno(), 0)
        if self.attached:
            struct.pack_into("<QQ", ring, SLOT, 1, 1)
            ring[ATTACHED] |= 1
        self.maps[path] = ring

    def run(self):
        while not self.ended.wait(0.05):
            for path in glob.glob(self.pattern):
                if path not in self.maps:
                    self.take(path)
            for ring in self.maps.values():
                struct.unpack_from("<Q", ring, HEAD)
                if self.attached:  # a sign of life
                    beat = struct.unpack_from("<Q", ring, SLOT + 8)[0]
                    struct.pack_into("<Q", ring, SLOT + 8, beat + 1)
                    ring[ATTACHED] |= 1

    def stop(self):
        self.ended.set()
        self.join()


def cost(lab, origin, reader):
    """User instructions of a hit beside a reader of that kind; None: no valgrind."""
    progress(f"callgrind, {reader}")
    readers = None if reader == READERS[0] else Readers(lab, reader == READERS[2])
    if readers is not None:
        readers.start()
    try:
        return bench_callgrind.count(lab, bench_servers.Tarn(lab, origin), LOAD)
    finally:
        if readers is not None:
            readers.stop()
        progress()


def follow(lab, admin):
    """tarnctl, attached, and the count of the requests that it shows."""
    log = subprocess.Popen([lab.program("tarnctl"), "--admin", f"unix:{admin}", "log"],
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    grep = subprocess.Popen(["grep", "-c", " GET 127.0.0.1:"], stdin=log.stdout,
                            stdout=subprocess.PIPE, text=True)
    log.stdout.close()
    return log, grep


def loss(lab, origin, seconds):
    port, admin, shm = lab.port(), lab.path("log.sock"), lab.path("log.shm")
    os.mkdir(shm)
    conf = lab.template("tarn_log.yaml.in", "log.yaml", PORT=port, ADMIN=admin, SHM=shm,
                        ORIGIN=origin.port)
    tarnd = lab.start("tarnd-log", [lab.program("tarnd"), "-c", conf], lab.server_cpu,
                      ready="tarnd: ready")
    fetch(port, LOAD.path)
    log, grep = follow(lab, admin)
    with open(os.path.join(shm, "log.0"), "rb") as f:
        while not any(os.pread(f.fileno(), 8, ATTACHED)):
            if log.poll() is not None:
                raise BenchError(f"tarnctl log: {log.stderr.read()}")
    try:
        w = wrk_run(lab, wrk_argv(port, PACED, seconds), seconds)
        fetch(port, LOAD.path)
        log.send_signal(signal.SIGINT)
        said = log.stderr.read()
        shown = int(grep.communicate(timeout=60)[0])
        log.wait(60)
    finally:
        for p in (log, grep):
            if p.poll() is None:
                p.kill()
        lab.stop(tarnd)
    lost = re.findall(r"lost so far, with (\d+) whole requests", said)
    return {"rate": w.rate, "requests": w.requests, "shown": shown,
            "lost": int(lost[-1]) if lost else 0, "errors": w.errors}


def run(lab, args):
    if lab.program("tarnd") is None or lab.program("tarnctl") is None:
        raise BenchError(f"no bin/tarnd and bin/tarnctl in {lab.build}")
    origin = bench_servers.Origin(lab)
    counted = {}
    if not args.quick and which("valgrind"):
        counted = {reader: cost(lab, origin, reader) for reader in READERS}
        base = counted[READERS[0]]
        print_table(["1 KiB, 64 conns", "user instr", "more"],
                    [[r, number(n), number(n - base)] for r, n in counted.items()])
        print()
    got = loss(lab, origin, args.seconds)
    print_table(["tarnctl log, attached", ""],
                [["requests/s", number(got["rate"])], ["requests", number(got["requests"])],
                 ["shown", number(got["shown"])], ["lost", number(got["lost"])]])
    for error in got["errors"]:
        print(error)
    bounds = [bound("requests that an attached reader lost", got["lost"], 0),
              bound("requests/s beside it", got["rate"], least=RATE)]
    if counted:
        bounds.append(bound("user instructions that an unattached reader adds to a hit",
                            counted[READERS[1]] - counted[READERS[0]], 10))
    return {"instructions": counted, **got, "bounds": bounds}
