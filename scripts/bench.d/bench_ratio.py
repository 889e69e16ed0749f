"""Hit ratio against cache size: the very eviction code over generated traces, and recorded ones.

bin/tarn_evict_sim plays Tarn's policies and Belady's; libcachesim is the reference.
"""

import json
import lzma
import os
import subprocess
import sys

import bench_venv
from bench_load import print_table
from bench_proc import HERE, BenchError, progress
from bench_results import bound, print_bounds

SCRIPTS = os.path.dirname(HERE)
KINDS = ("zipf", "scan", "onehit", "drift", "mixed", "cdnmix")
SIZES = ("0.1%", "0.3%", "1%", "3%", "10%", "30%")
SMALL, LARGE = "1%", "10%"  # where the bounds hold
NEAR = 1.0                  # points from libcachesim's S3-FIFO
OVER_LRU = 5.0              # points, on cdnmix with the small cache
POLICIES = ("lru", "sieve", "s3-fifo", "libcachesim", "belady")
SIM_SECONDS = 900


def output(argv, **more):
    out = subprocess.run(argv, capture_output=True, check=False, timeout=SIM_SECONDS, **more)
    if out.returncode != 0:
        raise BenchError(f"{os.path.basename(argv[0])}: {out.stderr.decode()[-500:]}")
    return out.stdout


def write(path, data):
    with open(path, "wb") as f:
        f.write(data)
    return path


def generated(lab, kind, requests):
    argv = [sys.executable, os.path.join(SCRIPTS, "evict-trace"), kind, "--requests", str(requests)]
    return write(lab.path(f"{kind}.trace"), output(argv))


def recorded(lab, simulator, folder):
    """Traces of a folder as text: NAME.trace or NAME.trace.xz, of lines or of binary ids."""
    found = []
    for name in sorted(os.listdir(folder)):
        stem, path = name.split(".")[0], os.path.join(folder, name)
        if ".trace" not in name:
            continue
        opener = lzma.open if name.endswith(".xz") else open
        with opener(path, "rb") as f:
            data = f.read()
        raw = write(lab.path(f"{stem}.raw"), data)
        if data[:4096].isascii() and b"\n" in data[:4096]:
            data = output([simulator, "--print", raw])
        else:
            data = output([simulator, "--ids", "--print", raw])
        found.append(write(lab.path(f"{stem}.trace"), data))
    return found


def compare(lab, program, simulator, trace):
    """A row of each size; program: a Python that has libcachesim."""
    script = os.path.join(SCRIPTS, "evict-compare")
    text = output([program, script, "--json", simulator, trace, *SIZES], cwd=lab.dir)
    return [json.loads(line) for line in text.decode().splitlines()]


def gap(hits):
    """Which part of the way from LRU to Belady S3-FIFO goes, of objects."""
    lru, belady = hits["lru"][0], hits["belady"][0]
    return 100 * (hits["s3-fifo"][0] - lru) / (belady - lru) if belady > lru else 0


def bounds_of(rows):
    promised = [r for r in rows if r["size"] in (SMALL, LARGE)]
    far = max((abs(r["hits"]["s3-fifo"][i] - r["hits"]["libcachesim"][i])
               for r in promised for i in (0, 1)), default=None)
    out = [bound(f"hit ratio, S3-FIFO from libcachesim's, {len(promised)} rows: furthest", far,
                 NEAR, unit="points", digits=2)]
    for r in rows:
        if (r["trace"], r["size"]) == ("cdnmix", SMALL):
            over = r["hits"]["s3-fifo"][0] - r["hits"]["lru"][0]
            out.append(bound("hit ratio, cdnmix 1 %: S3-FIFO above LRU", over, least=OVER_LRU,
                             unit="points", digits=1))
    return out


def run(lab, args):
    simulator = lab.program("tarn_evict_sim")
    if simulator is None:
        raise BenchError(f"no bin/tarn_evict_sim in {lab.build}: build the target of that name")
    program = bench_venv.python(args.build)
    rows = []
    traces = [generated(lab, kind, 30000 if args.quick else 300000) for kind in KINDS]
    if args.traces:
        traces += recorded(lab, simulator, args.traces)
    for trace in traces:
        progress(f"hit ratio {os.path.basename(trace)}")
        rows += compare(lab, program, simulator, trace)
    progress()
    print_table(["trace", "cache", *POLICIES, "gap closed %"],
                [[r["trace"], r["size"]] + ["%.1f / %.1f" % tuple(r["hits"][p]) for p in POLICIES]
                 + [f"{gap(r['hits']):.0f}"] for r in rows], left=2)
    print("\nobjects % / bytes % that hit; the cache as a part of all objects' bytes; nothing is "
          "kept that is larger than a tenth of it")
    bounds = bounds_of(rows)
    print_bounds(bounds)
    return {"rows": rows, "bounds": bounds}
