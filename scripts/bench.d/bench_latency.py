"""Latency at a fixed, moderate load: the distribution that a client sees, of hits and of misses.

64 connections pause between their requests, so that every server gets about as many a second.
All samples of a server make one distribution; wrk counts to the microsecond.
"""

import collections
import re
import statistics

import bench_load
import bench_miss
import bench_servers
from bench_load import Load, number, print_table
from bench_proc import BenchError, progress

CONNS = 64
HIT_PAUSE_MS = 11   # some 10,000 requests a second
MISS_PAUSE_MS = 41  # some 3,000
LONGER = 2          # samples, than others: one request of 10,000 is looked for
PERCENTS = (50, 75, 90, 95, 99, 99.5, 99.9, 99.95, 99.99)
SHOWN = (50, 90, 99, 99.9, 99.99)
HIT = Load("hit", "hits of 1 KiB", "/1k", CONNS, "paced.lua", (str(HIT_PAUSE_MS),))
MISS = Load("miss", "misses of 1 KiB", "/u/", CONNS, "paced.lua", (str(MISS_PAUSE_MS), "miss"))
HIT_CLASSES = (bench_servers.Responder, bench_servers.Tarn, bench_servers.Nginx,
               bench_servers.Haproxy, bench_servers.Varnish)
MISS_CLASSES = (bench_servers.Tarn, bench_servers.Nginx, bench_servers.Haproxy,
                bench_servers.Varnish)


def percentiles(histogram):
    """Percent -> microseconds within which so many were answered."""
    total, seen, out = sum(histogram.values()), 0, {}
    left = list(PERCENTS)
    for us in sorted(histogram):
        seen += histogram[us]
        while left and seen >= total * left[0] / 100:
            out[str(left.pop(0))] = us
    return out


def ready(server, load):
    if load is HIT:
        server.verify(load.path)
    else:
        server.size = bench_miss.SIZES.get(server.name)
        bench_miss.verify(server)


def measure(lab, args, load, servers):
    """server -> [(histogram, wrk)], samples alternating; who fails is left out from then on."""
    got = {}
    for server in list(servers):
        try:
            ready(server, load)
        except (BenchError, OSError) as e:
            print(f"{server.name}: {e}", flush=True)
            servers.remove(server)
    for turn in range(args.samples):
        for server in servers:
            progress(f"{turn + 1}/{args.samples} {load.title} {server.name}")
            seconds = args.seconds * LONGER
            argv = bench_load.wrk_argv(server.at("/1k")[1], load, seconds)
            w = bench_load.wrk_run(lab, argv, seconds)
            pairs = re.findall(r"^latency (\d+) (\d+)$", w.text, re.M)
            got.setdefault(server.name, []).append(
                (collections.Counter({int(us): int(n) for us, n in pairs}), w))
    progress()
    return got


def rows_of(load, got):
    rows = []
    for name, samples in got.items():
        together = sum((h for h, _ in samples), collections.Counter())
        rows.append({
            "load": load.name, "server": name,
            "requests": sum(w.requests for _, w in samples),
            "requests_per_s": statistics.median(w.rate for _, w in samples),
            "us": percentiles(together), "us_each": [percentiles(h) for h, _ in samples],
            "errors": sorted({e for _, w in samples for e in w.errors})})
    return rows


def run(lab, args):
    rows = []
    for load, origin, classes in (
            (HIT, bench_servers.Origin(lab), HIT_CLASSES),
            (MISS, bench_servers.FastOrigin(lab), MISS_CLASSES)):
        servers = bench_servers.choose(lab, origin, args.servers, classes)
        rows += rows_of(load, measure(lab, args, load, servers))
        for server in servers:  # those of hits are not to disturb misses
            for proc, _ in server.running.values():
                lab.stop(proc)
    table = [[r["load"], r["server"], number(r["requests_per_s"])]
             + [number(r["us"].get(str(p))) for p in SHOWN]
             + ["; ".join(r["errors"]) or "-"] for r in rows]
    print_table(["of", "server", "requests/s", *(f"p{p} us" for p in SHOWN), "errors"], table,
                left=2)
    print(f"\n{CONNS} connections, each pausing 1 to {HIT_PAUSE_MS} ms (misses: {MISS_PAUSE_MS}) "
          "before it asks again; misses are stored; all samples together")
    return {"rows": rows}
