"""Churn: 20 times a cache's size in bodies of all sizes through it, and what memory does meanwhile.

An origin gives each URL a size of its own, from 1 byte to 8 MiB (sizes.c); wrk asks for more URLs
than fit, from 64 and from 1,000 connections, until tarnd has fetched 20 times its configured size.
The resident set is sampled all along, by the kernel's count (smaps_rollup; VmHWM is the peak).
"""

import http.client
import json
import os
import re
import socket
import threading
import time

import bench_load
from bench_load import Load, print_table
from bench_proc import BenchError

MIB = 1 << 20
MEAN_BODY = 24 << 10  # of sizes.c
PROMISE = 1.1
SIZES = ("256MiB", "1GiB")
CONNS = (64, 1000)
TURNS = 20            # times the size that is fetched
SLICE_S = 5           # seconds of wrk at a time; between them the counters are read
SET = 8               # times the size that all URLs together have
EXPONENT = 0.6        # of zipf: some hits, and no object that stays for ever
TIMEOUT_S = 10        # of a request: 8 MiB to one of a thousand take their time
SETTLE_S = 3          # after the load: the time that unused pages may need to go back
UNITS = {"KiB": 1 << 10, "MiB": MIB, "GiB": 1 << 30}


def bytes_of(text):
    m = re.fullmatch(r"(\d+)(KiB|MiB|GiB)", text)
    if m is None:
        raise BenchError(f"{text} is no size; like 256MiB")
    return int(m.group(1)) * UNITS[m.group(2)]


def resident(pid):
    """(Rss, Pss) in bytes, all of the process."""
    found = {}
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as f:
        for line in f:
            name, _, rest = line.partition(":")
            if name in ("Rss", "Pss"):
                found[name] = int(rest.split()[0]) * 1024
    return found["Rss"], found["Pss"]


def admin_get(path, target):
    """What the admin socket answers, as an object."""
    conn = http.client.HTTPConnection("tarn")
    conn.sock = socket.socket(socket.AF_UNIX)
    conn.sock.settimeout(20)
    try:
        conn.sock.connect(path)
        conn.request("GET", target)
        return json.load(conn.getresponse())
    finally:
        conn.close()


class Follow:
    """The resident set, ten times a second."""

    def __init__(self, pid):
        self.pid, self.rss, self.over = pid, [], threading.Event()
        self.thread = threading.Thread(target=self.follow, daemon=True)
        self.thread.start()

    def follow(self):
        while not self.over.wait(0.1):
            try:
                self.rss.append(resident(self.pid)[0])
            except OSError:
                return

    def stop(self):
        self.over.set()
        self.thread.join()


class Tarn:
    """One tarnd between wrk and the origin of all sizes."""

    def __init__(self, lab, size, workers=2):
        program, origin = lab.program("tarnd"), lab.program("bench-sizes")
        if program is None or origin is None:
            raise BenchError(f"no bin/tarnd or bin/bench-sizes in {lab.build}: build with "
                             "-DTARN_BENCH=ON")
        self.lab, self.size, self.port = lab, bytes_of(size), lab.port()
        self.admin = lab.path(f"admin-{self.port}.sock")
        origin_port = lab.port()
        self.origin = lab.start(f"sizes-{origin_port}", [origin, str(origin_port)],
                                ready="sizes: ready")
        shm = lab.path(f"shm-{self.port}")
        os.mkdir(shm)
        conf = lab.template("tarn_churn.yaml.in", f"tarn-{self.port}.yaml", PORT=self.port,
                            ADMIN=self.admin, WORKERS=workers, SIZE=size, ORIGIN=origin_port,
                            SHM=shm)
        self.proc = lab.start(f"tarnd-{self.port}", [program, "-c", conf], ready="tarnd: ready")
        self.pid = self.proc.popen.pid
        self.base = resident(self.pid)[0]

    def counters(self):
        return admin_get(self.admin, "/v1/counters")

    def stop(self):
        self.lab.stop(self.proc)
        self.lab.stop(self.origin)


def churn(lab, size, conns, turns):
    tarn = Tarn(lab, size)
    nurls = SET * tarn.size // MEAN_BODY
    follow, errors, seed = Follow(tarn.pid), [], 0
    began, before = time.monotonic(), tarn.counters()
    fetched = requests = 0
    while fetched < turns * tarn.size:
        seed += 1
        load = Load("churn", "churn", "/", conns, "zipf.lua",
                    (str(nurls), str(EXPONENT), "/s/", str(seed)))
        w = bench_load.wrk_run(lab, bench_load.wrk_argv(tarn.port, load, SLICE_S, threads=1,
                                                           timeout=TIMEOUT_S),
                               SLICE_S, cpus=lab.all_cpus)
        if not tarn.proc.alive():
            raise BenchError(f"tarnd ended:\n{tarn.proc.tail()}")
        errors += w.errors
        requests += w.requests
        now = tarn.counters()
        if now["fetch.bytes"] - before["fetch.bytes"] <= fetched:
            raise BenchError("nothing is fetched any more")
        fetched = now["fetch.bytes"] - before["fetch.bytes"]
    under_load = follow.rss[-1]
    time.sleep(SETTLE_S)
    follow.stop()
    rss, pss = resident(tarn.pid)
    after = tarn.counters()
    tarn.stop()
    return {"size": tarn.size, "connections": conns, "seconds": time.monotonic() - began,
            "fetched": fetched, "requests": requests, "base": tarn.base,
            "peak": max(follow.rss), "median": sorted(follow.rss)[len(follow.rss) // 2],
            "last": under_load, "rss": rss, "pss": pss, "errors": errors, "counters": after,
            "rss_samples": follow.rss[::10]}


def leaves(counters):
    return {name[len("memory."):]: value for name, value in counters.items()
            if name.startswith("memory.")}


def report(result):
    size = result["size"]
    counters = result["counters"]

    def ratio(n):
        return f"{n / MIB:.1f}", f"{n / size:.3f}"

    print(f"\n{size // MIB} MiB, {result['connections']} connections: "
          f"{result['fetched'] / size:.1f} times the size fetched in {result['seconds']:.0f} s, "
          f"{result['requests']:,} requests, {counters['cache.evicted']:,} evicted, "
          f"{len(result['errors'])} errors")
    rows = [["at its start", *ratio(result["base"])],
            ["charged, at the end", *ratio(counters["storage.used"])],
            ["resident, median", *ratio(result["median"])],
            ["resident, peak", *ratio(result["peak"])],
            ["resident, end of load", *ratio(result["last"])],
            [f"resident, {SETTLE_S} s later", *ratio(result["rss"])],
            ["of it its own share (Pss)", *ratio(result["pss"])]]
    print_table(["", "MiB", "of the size"], rows)
    print("  " + ", ".join(f"{name} {value / MIB:.2f}"
                           for name, value in leaves(counters).items() if value))
    kept = result["peak"] <= PROMISE * size
    print(f"  peak at most {PROMISE} times the size: {'yes' if kept else 'NO'}")
    return kept


def run(lab, args):
    results = []
    for size in (args.storage,) if args.storage else SIZES:
        for conns in CONNS:
            results.append(churn(lab, size, conns, TURNS))
            results[-1]["kept"] = report(results[-1])
    return {"mode": "churn", "promise": PROMISE, "churn": results}
