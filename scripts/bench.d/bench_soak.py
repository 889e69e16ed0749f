"""A soak: a zipf load on a set larger than the cache, and what memory and hits do meanwhile."""

import os
import subprocess
import threading
import time

import bench_load
import bench_servers
from bench_load import Load, number, print_table
from bench_proc import BenchError

STORAGE = "64MiB"
POINTS = 12        # lines of the table over time
WARM_PART = 0.4    # of the time: until then memory may grow
MEAN_OBJECT = (6 * (1 << 10) + 3 * (16 << 10) + (64 << 10)) / 10  # of the origin's /z/


class Follow:
    """RSS, and the origin's requests, once a second while wrk runs."""

    def __init__(self, proc, origin):
        self.proc, self.origin = proc, origin
        self.began = time.monotonic()
        self.points = []
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.follow, daemon=True)
        self.thread.start()

    def follow(self):
        while True:
            self.points.append((time.monotonic() - self.began, self.proc.rss_kib() / 1024))
            if self.over.wait(1.0):
                return

    def stop(self):
        self.over.set()
        self.thread.join()


def counters(lab, shm):
    """name -> value of tarnd's shared counters; empty when they cannot be read."""
    program = lab.program("bench-counters")
    if program is None:
        return {}
    out = subprocess.run([program, os.path.join(shm, "counters")], capture_output=True,
                         text=True, check=False, timeout=10)
    return {name: int(value) for name, value in
            (line.split() for line in out.stdout.splitlines())}


def descriptors(proc):
    try:
        return len(os.listdir(f"/proc/{proc.popen.pid}/fd"))
    except OSError:
        return 0


def tarn_hits(before, after):
    """(hits, all that asked the cache) by tarnd's own counters, or None."""
    delta = {name: after[name] - before.get(name, 0) for name in after}
    if "req.hit" not in delta:
        return None
    asked = sum(delta.get(f"req.{kind}", 0) for kind in ("hit", "miss", "coalesced", "hitmiss"))
    return delta["req.hit"], asked


def start(lab, args, origin):
    names = [n for n in args.servers or ("tarnd",) if n in ("tarnd", "varnish", "nginx",
                                                            "haproxy")]
    server = bench_servers.choose(lab, origin, names[:1] or ["none"])[0]
    if server.name != "tarnd":
        return (server, *server.at("/1k"))
    server.workers, server.size, server.cpus = 2, args.storage, lab.all_cpus
    return (server, *server.at("/1k"))


def run(lab, args):
    args.storage = args.storage or STORAGE
    origin = bench_servers.Origin(lab)
    server, proc, port = start(lab, args, origin)
    load = Load("soak", "soak", "/", args.conns, "zipf.lua",
                (str(args.urls), str(args.exponent)))
    print(f"{server.name}: {args.conns} connections, {args.seconds} s, zipf {args.exponent} over "
          f"{args.urls:,} URLs, {args.urls * MEAN_OBJECT / (1 << 20):,.0f} MiB; storage "
          f"{args.storage if server.name == 'tarnd' else 'as in its template'}", flush=True)
    before = counters(lab, server.shm) if server.name == "tarnd" else {}
    asked, fds = origin.requests(), descriptors(proc)
    follow = Follow(proc, origin)
    w = bench_load.wrk_run(lab, bench_load.wrk_argv(port, load, args.seconds, threads=2),
                           args.seconds, cpus=lab.all_cpus)
    follow.stop()
    if not proc.alive():
        raise BenchError(f"{server.name} ended:\n{proc.tail()}")
    misses = origin.requests() - asked
    after = counters(lab, server.shm) if server.name == "tarnd" else {}
    time.sleep(0.5)  # for the connections that wrk left to be closed
    return report(server, args, w, follow.points, misses,
                  {"hits": tarn_hits(before, after), "fds": (fds, descriptors(proc)),
                   "counters": after})


def report(server, args, w, points, misses, more):
    every = max(1, len(points) // POINTS)
    print_table(["second", "RSS MiB"],
                [[f"{t:.0f}", number(rss, 1)] for t, rss in points[::every]], left=0)
    warm = [rss for t, rss in points if t >= args.seconds * WARM_PART]
    peak = max(rss for _, rss in points)
    growth = warm[-1] - warm[0] if warm else 0.0
    print(f"\nrequests {w.requests:,} ({w.rate:,.0f}/s, median {w.p50}, 99 % {w.p99})")
    print(f"errors: {'; '.join(w.errors) or 'none'}")
    print(f"RSS: peak {peak:.1f} MiB; {growth:+.1f} MiB after the first "
          f"{WARM_PART:.0%} of the time")
    by_origin = 1 - misses / w.requests if w.requests else None
    if by_origin is not None:
        print(f"hit ratio by the origin's count: {100 * by_origin:.1f} % "
              f"({misses:,} requests reached it)")
    if more["hits"] and more["hits"][1]:
        hits, asked = more["hits"]
        print(f"hit ratio by tarnd's counters: {100 * hits / asked:.1f} % ({hits:,} of {asked:,})")
    else:
        print("hit ratio by tarnd's counters: n/a")
    print(f"descriptors: {more['fds'][0]} before, {more['fds'][1]} after")
    return {"mode": "soak", "server": server.name, "requests": w.requests, "rate": w.rate,
            "p50": w.p50, "p99": w.p99, "errors": w.errors, "rss_mib": points,
            "rss_peak_mib": peak, "rss_growth_mib": growth, "origin_requests": misses,
            "hit_ratio": by_origin, **more}
