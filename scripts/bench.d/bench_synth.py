"""The load of the source's synthetic storage engine: 42 as an answer of our own, 1,000
connections, logging on; beside the floor, which answers 42 to everything, and Varnish."""

import bench_callgrind
import bench_load
import bench_servers
from bench_compare import explain, fill_instructions, show
from bench_load import Load
from bench_results import bound, print_bounds

SYNTH = Load("synth", "synthetic 42", "/2", 64)
LOADS = (
    SYNTH,
    Load("synth-c1000", "synthetic 42", "/2", 1000),
    Load("synth-c1000-t100", "the same, wrk -t100", "/2", 1000, threads=100),
)
CLASSES = (bench_servers.Floor, bench_servers.TarnSynth, bench_servers.VarnishSynth)
USER_MOST = 3000


def run(lab, args):
    origin = bench_servers.Origin(lab)
    servers = bench_servers.choose(lab, origin, args.servers, CLASSES)
    rows = bench_load.measure(lab, args, servers, LOADS)
    counted = {}
    if not args.quick and bench_servers.which("valgrind"):
        counted = bench_callgrind.count_all(lab, servers, LOADS[:2])
        fill_instructions(rows, counted)
    show(rows)
    explain(False, counted)
    bounds = []
    for load in LOADS[:2]:
        got = counted.get((load.name, "tarnd-synth"))
        bounds.append(bound(f"{load.title}, {load.conns} connections: user instructions", got,
                            USER_MOST))
    tarnd = [r for r in rows if r["server"] == "tarnd-synth"]
    bounds.append(bound("synthetic 42, all loads: errors", sum(len(r["errors"]) for r in tarnd), 0))
    print_bounds(bounds)
    return {"rows": rows, "bounds": bounds}
