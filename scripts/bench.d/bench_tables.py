"""Tables in shared memory: reads, writes, a writer beside readers; messages between processes."""

import os
import re
import statistics
import subprocess

import bench_servers
from bench_load import number, print_table
from bench_proc import BenchError, progress

SAMPLES = 5
KEYS = (100, 100_000)
BOUND_READ_NS, BOUND_LOAD = 30, 1.02
RATE = 1000  # versions a second beside readers

# what, argument, keys, N, title, bound
ROWS = [("find", None, keys, 2_000_000, f"a look, {keys:,} keys", BOUND_READ_NS) for keys in KEYS]
ROWS += [("turn", None, keys, 2_000_000, f"a turn of one look, {keys:,} keys", None)
         for keys in KEYS]
ROWS += [("fresh", None, 1, 20_000, "a turn that meets a new version, checked, 1 key", None),
         ("fresh", "unchecked", 1, 20_000, "the same, unchecked", None),
         ("fresh", None, 1000, 2_000, "the same, checked, 1,000 keys", None),
         ("fresh", "unchecked", 1000, 2_000, "the same, unchecked", None),
         ("write", None, 1, 50_000, "a version written, 1 key", None),
         ("write", None, 1000, 2_000, "a version written, 1,000 keys", None)]

# way, round trips
WAYS = (("eventfd", 20_000), ("tcp", 10_000), ("unix", 20_000), ("fifo", 20_000), ("pipe", 20_000),
        ("shm", 100_000), ("table", 20_000))


def call(lab, program, args, cpus, valgrind=False):
    """The number that the program prints; by valgrind: the instructions it took."""
    path = lab.program(program)
    if path is None:
        raise BenchError(f"{program} is not built: cmake -DTARN_BENCH=ON")
    argv = [path, *map(str, args)]
    if valgrind:
        argv = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", *argv]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=300, check=False,
                          preexec_fn=lambda: os.sched_setaffinity(0, cpus))
    if done.returncode != 0:
        raise BenchError(f"{' '.join(argv)}: {done.stderr.strip() or done.returncode}")
    if valgrind:
        return int(re.search(r"Collected\s*:\s*(\d+)", done.stderr).group(1))
    return float(done.stdout)


def bench(lab, what, keys, n, arg=None, cpus=None, valgrind=False):
    args = [what, lab.dir, keys, n] + ([arg] if arg is not None else [])
    return call(lab, "table_bench", args, cpus or lab.server_cpu, valgrind)


def instructions(lab, what, keys, arg):
    """User instructions of one, by two runs that differ in their number."""
    few, many = 1000, 11000
    counts = [bench(lab, what, keys, n, arg, valgrind=True) for n in (few, many)]
    return (counts[1] - counts[0]) / (many - few)


def costs(lab, samples, counted):
    """The loop around a look is taken off; rows alternate, so that all have the same weather."""
    got = {i: [] for i in range(len(ROWS))}
    loop = []
    for n in range(samples):
        loop.append(bench(lab, "none", KEYS[0], ROWS[0][3]))
        for i, (what, arg, keys, count, title, _) in enumerate(ROWS):
            progress(f"tables {n + 1}/{samples}: {title}")
            got[i].append(bench(lab, what, keys, count, arg))
    empty = statistics.median(loop)
    loop_instructions = instructions(lab, "none", KEYS[0], None) if counted else 0
    rows = []
    for i, (what, arg, keys, _, title, bound) in enumerate(ROWS):
        off = empty if what in ("find", "turn") else 0
        row = {"what": title, "ns": statistics.median(got[i]) - off, "ns_least": min(got[i]) - off,
               "bound_ns": bound, "user_instructions": None}
        if counted and keys <= 1000:
            progress(f"callgrind {title}")
            row["user_instructions"] = instructions(lab, what, keys, arg)
            if what in ("find", "turn"):
                row["user_instructions"] -= loop_instructions
            elif what == "fresh":  # each is preceded by a write
                row["user_instructions"] -= instructions(lab, "write", keys, None)
        rows.append(row)
    progress()
    print_table(["tables", "ns", "least", "user instr", "bound"],
                [[r["what"], number(r["ns"], 1), number(r["ns_least"], 1),
                  "" if r["user_instructions"] is None else number(r["user_instructions"]),
                  "" if r["bound_ns"] is None else number(r["bound_ns"])] for r in rows])
    return rows


def beside_a_writer(lab, samples):
    ratios = []
    for n in range(samples):
        progress(f"tables {n + 1}/{samples}: readers beside a writer")
        ratios.append(bench(lab, "load", KEYS[0], 100_000, RATE, cpus=lab.all_cpus))
    progress()
    ratio = statistics.median(ratios)
    print(f"\nCPU time of readers (turns of four looks) beside a writer of {RATE:,} versions a second, "
          f"to that without: {ratio:.4f} (bound {BOUND_LOAD})")
    return {"ratio": ratio, "ratios": ratios, "bound": BOUND_LOAD, "versions_per_s": RATE}


def ways(lab, samples):
    got = {way: [] for way, _ in WAYS}
    for n in range(samples):
        for way, count in WAYS:
            progress(f"messages {n + 1}/{samples}: {way}")
            got[way].append(call(lab, "ipc_bench", [way, lab.dir, count], lab.all_cpus))
    progress()
    rows = [{"way": way, "message_us": statistics.median(v) / 2000, "least_us": min(v) / 2000}
            for way, v in got.items()]
    print()
    print_table(["from process to process", "us a message", "least"],
                [[r["way"], number(r["message_us"], 2), number(r["least_us"], 2)] for r in rows])
    return rows


def run(lab, args):
    """Medians of alternating samples; instructions by callgrind."""
    samples = max(SAMPLES, args.samples)
    counted = not args.quick and bench_servers.which("valgrind") is not None
    return {"mode": "tables", "samples": samples, "rows": costs(lab, samples, counted),
            "beside_a_writer": beside_a_writer(lab, samples), "messages": ways(lab, samples)}
