"""The comparison: every load on every server, alternating, and one table of the medians."""

import bench_callgrind
import bench_load
import bench_servers
from bench_load import number, print_table
from bench_proc import progress


def measure(lab, args, servers, loads, with_perf):
    """Samples alternate between the servers, so that a slow minute slows them all."""
    samples = {}
    for load in loads:
        for server in servers:
            server.verify(load.path)
    for turn in range(args.samples):
        for load in loads:
            for server in servers[turn % len(servers):] + servers[:turn % len(servers)]:
                progress(f"{turn + 1}/{args.samples} {load.name} {server.name}")
                got = bench_load.sample(lab, server, load, args.seconds, with_perf)
                samples.setdefault((load.name, server.name), []).append(got)
    progress()
    return [bench_load.merge(server, load, samples[load.name, server.name])
            for load in loads for server in servers]


def fill_instructions(rows, counted):
    """Where perf could not count, callgrind's user instructions of the same requests."""
    for row in rows:
        got = counted.get((row["load"], row["server"]))
        if got is not None and row["user_instructions"] is None:
            row["user_instructions"], row["user_instructions_by"] = got, "callgrind"


def notes(row):
    said = list(row["errors"])
    if row["origin_requests"] > 0:
        said.append(f"{row['origin_requests']} requests reached the origin")
    return "; ".join(said) or "-"


def show(rows):
    floors = {r["load"]: r["cpu_us"] for r in rows if r["server"] == "floor"}
    table, last = [], None
    for r in rows:
        floor = floors.get(r["load"])
        ratio = r["cpu_us"] / floor if r["cpu_us"] and floor else None
        load = f"{r['title']}, {r['connections']} conns"
        table.append([load if load != last else "", r["server"], number(r["requests_per_s"]),
                      number(r["cpu_us"], 2), number(r["user_us"], 2), number(r["kernel_us"], 2),
                      number(ratio, 2), number(r["user_instructions"]),
                      number(r["kernel_instructions"]), notes(r)])
        last = load
    print_table(["load", "server", "requests/s", "CPU us", "user us", "kernel us", "x floor",
                 "user instr", "kernel instr", "errors"], table, left=2)


def explain(with_perf, counted):
    print("\nper request, medians; one worker pinned, wrk -t1 on another processor; "
          "the origin is idle")
    if with_perf:
        print("instructions: counted by perf on the server's processes")
        return
    print("kernel instructions: n/a on this machine (perf has no hardware counters here); "
          "compare kernel us")
    print("user instructions: " + ("by callgrind, at the same number of connections, of our own "
          "programs only" if counted else "n/a (see --callgrind)"))


def run(lab, args):
    with_perf = bench_load.perf_works()
    loads = bench_load.choose(args.loads)
    origin = bench_servers.Origin(lab)
    servers = bench_servers.choose(lab, origin, args.servers)
    if not lab.pinned_apart:
        print("warning: one processor only; wrk and the servers share it")
    rows = measure(lab, args, servers, loads, with_perf)
    counted = {}
    if not with_perf and not args.quick and bench_servers.which("valgrind"):
        counted = bench_callgrind.count_all(lab, servers, loads)
        fill_instructions(rows, counted)
    show(rows)
    explain(with_perf, counted)
    return {"mode": "compare", "perf": with_perf, "rows": rows}
