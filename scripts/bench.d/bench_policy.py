"""What a policy costs: user instructions a hit, and of an answer of our own."""

import bench_callgrind
import bench_load
import bench_servers
from bench_load import Load, number, print_table
from bench_proc import BenchError, progress

HIT = Load("hit-1k", "1 KiB hit", "/1k", 64)
SYNTH = Load("synth", "synthetic 42", "/2", 64)
SYNTH_1000 = Load("synth-c1000", "synthetic 42", "/2", 1000)

# server, load, what it may cost, above what
ROWS = (
    (bench_servers.Responder, HIT, None, None),
    (bench_servers.Tarn, HIT, None, None),
    (bench_servers.TarnPolicy, HIT, 400, "tarnd"),
    (bench_servers.TarnRecv, HIT, 2500, "tarnd"),
    (bench_servers.TarnSynth, SYNTH, 3000, None),
)


def count(lab, origin):
    table, rows, base = [], [], None
    for cls, load, allowed, above in ROWS:
        server = cls(lab, origin)
        progress(f"callgrind {load.name} {server.name}")
        n1, n2, slope = bench_callgrind.two_runs(lab, server, load)
        got = (bench_callgrind.total_of(n2) - bench_callgrind.total_of(n1)) / slope
        if cls is bench_servers.Tarn:
            base = got
        over = got - base if above else None
        table.append([load.title, server.name, number(got), "" if over is None else number(over),
                      "" if allowed is None else number(allowed)])
        rows.append({"load": load.name, "server": server.name, "user_instructions": got,
                     "over_no_policy": over, "allowed": allowed})
    progress()
    print_table(["load", "server", "user instr", "over no policy", "allowed"], table, left=2)
    return rows


def run(lab, args):
    """Counted by callgrind, then the source's own load: many connections, for time."""
    if not bench_servers.which("valgrind"):
        raise BenchError("valgrind is missing: scripts/bench --install")
    origin = bench_servers.Origin(lab)
    rows = count(lab, origin)
    perf = bench_load.perf_works()
    table = []
    for cls in (bench_servers.Floor, bench_servers.TarnSynth, bench_servers.VarnishSynth):
        server = cls(lab, origin)
        if not server.available():
            print(f"missing: {server.name}")
            continue
        for load in (SYNTH, SYNTH_1000):
            progress(f"{load.name} {server.name}")
            server.verify(load.path)
            samples = [bench_load.sample(lab, server, load, args.seconds, perf)
                       for _ in range(args.samples)]
            row = bench_load.merge(server, load, samples)
            rows.append(row)
            table.append([f"{load.title}, {load.conns} conns", server.name,
                          number(row["requests_per_s"]), number(row["cpu_us"], 1),
                          number(row["user_instructions"]), row["p50"], row["p99"],
                          "; ".join(row["errors"])])
    progress()
    print()
    print_table(["load", "server", "req/s", "CPU us", "user instr", "p50", "p99", "errors"], table,
                left=2)
    return {"mode": "policy", "rows": rows}
