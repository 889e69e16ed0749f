"""What a policy costs: user instructions a hit, and of an answer of our own."""

import bench_callgrind
import bench_servers
from bench_load import Load, number, print_table
from bench_proc import BenchError, progress
from bench_results import bound, print_bounds

HIT = Load("hit-1k", "1 KiB hit", "/1k", 64)
SYNTH = Load("synth", "synthetic 42", "/2", 64)

# server, load, what it may cost, above what
ROWS = (
    (bench_servers.Responder, HIT, None, None),
    (bench_servers.Tarn, HIT, None, None),
    (bench_servers.TarnPolicy, HIT, 370, "tarnd"),
    (bench_servers.TarnRecv, HIT, 2500, "tarnd"),
    (bench_servers.TarnSynth, SYNTH, 3000, None),
)


def run(lab, args):
    if not bench_servers.which("valgrind"):
        raise BenchError("valgrind is missing: scripts/bench --install")
    origin = bench_servers.Origin(lab)
    table, rows, bounds, base = [], [], [], None
    for cls, load, allowed, above in ROWS:
        server = cls(lab, origin)
        progress(f"callgrind {load.name} {server.name}")
        got = bench_callgrind.count(lab, server, load)
        if cls is bench_servers.Tarn:
            base = got
        over = got - base if above else None
        table.append([load.title, server.name, number(got), "" if over is None else number(over)])
        rows.append({"load": load.name, "server": server.name, "user_instructions": got,
                     "over_no_policy": over, "allowed": allowed})
        if allowed is not None:
            what = f"{load.title}, {server.name}: user instructions"
            bounds.append(bound(what + (" above a hit without" if above else ""),
                                got if over is None else over, allowed))
    progress()
    print_table(["load", "server", "user instr", "over no policy"], table, left=2)
    print_bounds(bounds)
    return {"rows": rows, "bounds": bounds}
