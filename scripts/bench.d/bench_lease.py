"""Reading small extents by leases, beside the call that hands a whole body out.

After Varnish's VAI: streaming with small extents, with and without a CRC of every extent, must lose
nothing against the synchronous iterator.  Samples alternate in one process (lease_bench).
"""

import os
import statistics
import subprocess

from bench_flat import totals
from bench_load import number, print_table
from bench_proc import BenchError, progress
from bench_servers import which

EXTENT_BYTES, EXTENTS, ROUNDS = 1024, 1024, 50
COUNTED_ROUNDS = 10
SAMPLES = 9
SECONDS = 300
NOISE = 1.05  # no loss: not more than this times the other
KINDS = ("settled_plain", "settled_crc", "busy_plain", "busy_crc")


def lease_bench(lab, rounds, mode, before=()):
    """Name -> nanoseconds of an extent, one for each sample."""
    program = lab.program("lease_bench")
    if program is None:
        raise BenchError(f"no bin/lease_bench in {lab.build}: -DTARN_BENCH=ON")
    argv = [*before, program, str(EXTENT_BYTES), str(EXTENTS), str(rounds), str(mode)]
    out = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=SECONDS,
                         cwd=lab.dir,
                         preexec_fn=lambda: os.sched_setaffinity(0, lab.server_cpu))
    if out.returncode != 0:
        raise BenchError(f"lease_bench: {out.stderr[-500:]}")
    found = {}
    for line in out.stdout.splitlines():
        name, value = line.split()
        found.setdefault(name, []).append(float(value))
    return found


def instructions(lab):
    """Name -> user instructions of an extent; {} without valgrind."""
    if not which("valgrind"):
        return {}
    progress("counting")
    out = lab.path("lease")
    names = lease_bench(lab, COUNTED_ROUNDS, "count",
                        ("valgrind", "--tool=callgrind", "--instr-atstart=no",
                         f"--callgrind-out-file={out}"))
    extents = COUNTED_ROUNDS * EXTENTS
    return {name: totals(f"{out}.{i}")["Ir"] / extents for i, name in enumerate(names, 1)}


def run(lab, args):
    samples = max(args.samples, SAMPLES)
    progress("leases and lease_each")
    timed, counted = lease_bench(lab, ROUNDS, samples), instructions(lab)
    progress()
    table, rows = [], []
    for kind in KINDS:
        each, lease = (statistics.median(timed[f"{kind}_{way}"]) for way in ("each", "lease"))
        ratio = statistics.median(b / a for a, b in zip(timed[f"{kind}_each"],
                                                        timed[f"{kind}_lease"]))
        instr = [counted.get(f"{kind}_{way}") for way in ("each", "lease")]
        table.append([kind.replace("_", ", "), number(each, 1), number(lease, 1),
                      number(ratio, 3), *(number(i, 1) for i in instr)])
        rows.append({"kind": kind, "each_ns": each, "lease_ns": lease, "ratio": ratio,
                     "each_instr": instr[0], "lease_instr": instr[1]})
    print_table(["body", "each, ns", "lease, ns", f"ratio (<= {NOISE})", "each, instr",
                 "lease, instr"], table)
    print(f"\nof an extent of {EXTENT_BYTES:,} bytes; medians of {samples} alternating samples of "
          f"{ROUNDS * EXTENTS:,} (8 times\nthat without a CRC); CPU time.  busy: with publishing it; "
          "the settled one is a list of references,\nso its extents are as small")
    return {"mode": "lease", "extent_bytes": EXTENT_BYTES, "samples": timed, "rows": rows,
            "asked_ratio": NOISE}
