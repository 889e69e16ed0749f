"""Windowed sharing: one response, far larger than what is stored, to many readers at once.

5 GB (1 GB with --quick) for 100 readers who ask together.  The origin shall be asked once, and
memory stay within the window, whatever the length; beside it one reader alone, and Varnish in its
place would fetch it 100 times or wait for all of it.
"""

import json
import os
import subprocess

from bench_churn import Follow, admin_get, resident
from bench_load import print_table
from bench_proc import BenchError
from bench_results import bound

GB, MIB = 10 ** 9, 1 << 20
CASES = (("64MiB", "16MiB", 1), ("256MiB", "64MiB", 1), ("64MiB", "16MiB", 100),
         ("256MiB", "64MiB", 100))


def one(lab, size, window, readers, total):
    programs = [lab.program(p) for p in ("tarnd", "bench-sizes", "bench-readers")]
    if None in programs:
        raise BenchError(f"not all of tarnd, bench-sizes and bench-readers are in {lab.build}/bin")
    tarnd, sizes, client = programs
    port, origin_port = lab.port(), lab.port()
    admin, shm = lab.path(f"window-{port}.sock"), lab.path(f"window-{port}.shm")
    os.mkdir(shm)
    origin = lab.start(f"sizes-{origin_port}", [sizes, str(origin_port)], ready="sizes: ready")
    conf = lab.template("tarn_window.yaml.in", f"window-{port}.yaml", PORT=port, ADMIN=admin,
                        SIZE=size, WINDOW=window, ORIGIN=origin_port, SHM=shm)
    proc = lab.start(f"tarnd-{port}", [tarnd, "-c", conf], ready="tarnd: ready")
    pid = proc.popen.pid
    base, cpu = resident(pid)[0], cpu_seconds(pid)
    follow = Follow(pid)
    try:
        ran = subprocess.run([client, str(port), f"/{total}:1", str(readers), str(total)],
                             check=True, capture_output=True, timeout=1800)
        said = json.loads(ran.stdout)
        counters = admin_get(admin, "/v1/counters")
        cpu = cpu_seconds(pid) - cpu
    finally:
        follow.stop()
        lab.stop(proc)
        lab.stop(origin)
    return {"storage": size, "window": window, **said, "bytes": total,
            "fetches": counters["fetch.total"], "behind": counters["resp.behind"],
            "rest": counters["fetch.rest"], "base": base, "peak": max(follow.rss),
            "cpu_s": cpu, "cpu_ms_per_gb": 1000 * cpu / (total * readers / GB)}


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as f:
        fields = f.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def run(lab, args):
    total = GB // 4 if args.quick else 5 * GB
    rows = [one(lab, *case, total) for case in CASES]
    print_table(
        ["storage", "window", "readers", "whole", "fetches", "fell behind", "seconds", "peak MiB",
         "above base MiB", "CPU ms a GB"],
        [(r["storage"], r["window"], str(r["clients"]), str(r["whole"]), str(r["fetches"]),
          str(r["behind"]), f"{r['last_s']:.1f}", f"{r['peak'] / MIB:.1f}",
          f"{(r['peak'] - r['base']) / MIB:.1f}", f"{r['cpu_ms_per_gb']:.0f}") for r in rows])
    print(f"\n{total / GB:g} GB to each reader; resident memory of the whole process\n")
    bounds = []
    for r in rows:
        what = f"{total / GB:g} GB, window {r['window']}, {r['clients']} readers"
        bounds.append(bound(f"{what}: fetches", r["fetches"], 1))
        bounds.append(bound(f"{what}: responses that are not whole", r["clients"] - r["whole"], 0))
    return {"cases": rows, "bounds": bounds}
