"""The index alone: lookups among 2 million keys beside a chained table, and how full it gets.

After OpenAFS's vlserver, whose 8,191 chains its cuckoo cache replaced.  Both tables are in one
process (cuckoo_bench) and hold the same keys; samples alternate.
"""

import os
import statistics
import subprocess

from bench_flat import totals
from bench_load import number, print_table
from bench_proc import BenchError, progress
from bench_servers import which

KEYS, LOOKUPS = 2000000, 2000000
COUNTED = 50000
SAMPLES = 5
SECONDS = 600
FASTER, LOAD = 40, 0.90  # what is asked for
PHASES = ("keys", "cuckoo_hit", "cuckoo_miss", "chained_hit", "chained_miss")


def cuckoo_bench(lab, arguments, before=()):
    """Name -> the values printed under it."""
    program = lab.program("cuckoo_bench")
    if program is None:
        raise BenchError(f"no bin/cuckoo_bench in {lab.build}: -DTARN_BENCH=ON")
    out = subprocess.run([*before, program, *map(str, arguments)], capture_output=True, text=True,
                         check=False, timeout=SECONDS, cwd=lab.dir,
                         preexec_fn=lambda: os.sched_setaffinity(0, lab.server_cpu))
    if out.returncode != 0:
        raise BenchError(f"cuckoo_bench: {out.stderr[-500:]}")
    found = {}
    for line in out.stdout.splitlines():
        name, _, value = line.partition(" ")
        found.setdefault(name, []).append(float(value))
    return found


def instructions(lab, slots):
    """Phase -> event -> per lookup, the making of keys taken off; {} without valgrind."""
    if not which("valgrind"):
        return {}
    progress(f"counting, {slots} slots")
    out = lab.path(f"index-{slots}")
    before = ("valgrind", "--tool=callgrind", "--instr-atstart=no", "--cache-sim=yes",
              f"--callgrind-out-file={out}")
    few = cuckoo_bench(lab, (KEYS, COUNTED, slots, "count"), before)["chained_lookups"][0]
    counted = {}
    for i, phase in enumerate(PHASES, 1):
        per = few if phase.startswith("chained") else COUNTED
        counted[phase] = {k: v / per for k, v in totals(f"{out}.{i}").items()}
    keys = counted.pop("keys")
    return {p: {k: v - keys.get(k, 0) for k, v in c.items()} for p, c in counted.items()}


def measure(lab, slots, samples):
    progress(f"{KEYS:,} keys, {slots} slots")
    got = cuckoo_bench(lab, (KEYS, LOOKUPS, slots, samples))
    row = {name: statistics.median(values) for name, values in got.items()}
    row.update(slots=slots, samples={p: got[p] for p in PHASES[1:]},
               counted=instructions(lab, slots))
    for kind in ("hit", "miss"):
        row[f"faster_{kind}"] = row[f"chained_{kind}"] / row[f"cuckoo_{kind}"]
    progress()
    return row


def lookup_rows(row):
    for kind in ("hit", "miss"):
        for table in ("cuckoo", "chained"):
            name = f"{table}_{kind}"
            count = row["counted"].get(name, {})
            misses = [count.get(e) for e in ("D1mr", "DLmr")]
            yield [str(row["slots"]) if table == "cuckoo" else "", f"{table} {kind}",
                   number(row[name], 1), number(count.get("Ir")),
                   *(number(m, 1) for m in misses),
                   number(row[f"faster_{kind}"], 0) + " x" if table == "cuckoo" else ""]


def run(lab, args):
    rows = [measure(lab, slots, max(args.samples, SAMPLES)) for slots in (8, 4)]
    print_table(["slots", f"lookup among {KEYS:,}", "ns", "user instr", "D1 misses", "LL misses",
                 f"faster (>= {FASTER})"], [line for r in rows for line in lookup_rows(r)], left=2)
    print()
    print_table(["slots", "load, bits", "insert ns", "grown: ns", "doubles at", "victims",
                 f"first victim at (>= {LOAD})", "moves a key", "longest path"],
                [[str(r["slots"]), f"{r['load']:.2f}, {r['bits']:.0f}", number(r["insert_ns"]),
                  number(r["grow_insert_ns"]), number(r["grow_load"], 3),
                  number(r["grow_victims"]), number(r["victim_load"], 3),
                  number(r["moves_per_key"], 2), number(r["longest_path"])] for r in rows], left=2)
    print(f"\nmedians of {max(args.samples, SAMPLES)} alternating samples of CPU time in one "
          "process; instructions by\ncallgrind; misses are SIMULATED by it: data reads, no "
          "prefetching")
    return {"mode": "index", "keys": KEYS, "rows": rows, "asked_faster": FASTER,
            "asked_load": LOAD}
