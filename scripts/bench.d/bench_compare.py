"""The comparison: a load on every server, alternating, and one table of the medians."""

import bench_callgrind
import bench_load
import bench_servers
from bench_load import number, paired, print_table
from bench_results import bound, print_bounds

KERNEL_MOST = 1.03  # kernel time, as so many times the responder's


def fill_instructions(rows, counted):
    """Where perf could not count, callgrind's user instructions of the same requests."""
    for row in rows:
        got = counted.get((row["load"], row["server"]))
        if got is not None and row["user_instructions"] is None:
            row["user_instructions"], row["user_instructions_by"] = got, "callgrind"


def notes(row):
    said = [text.splitlines()[0] for text in row["errors"]]
    if row["origin_requests"] > 0:
        said.append(f"{row['origin_requests']} requests reached the origin")
    return "; ".join(said) or "-"


def show(rows):
    table, last = [], None
    for r in rows:
        load = f"{r['title']}, {r['connections']} conns"
        table.append([load if load != last else "", r["server"], number(r["requests_per_s"]),
                      number(r["cpu_us"], 2), number(r["user_us"], 2), number(r["kernel_us"], 2),
                      number(paired(rows, r["load"], r["server"], "floor"), 2),
                      number(r["user_instructions"]), number(r["kernel_instructions"]),
                      r["p99"], notes(r)])
        last = load
    print_table(["load", "server", "requests/s", "CPU us", "user us", "kernel us", "x floor",
                 "user instr", "kernel instr", "p99", "errors"], table, left=2)


def explain(with_perf, counted, setting="wrk on another processor; the origin is idle"):
    print(f"\nper request, medians; one worker pinned, {setting};\nx floor: median of the pairs of "
          "samples that were taken together")
    if with_perf:
        print("instructions: counted by perf on the server's processes")
        return
    print("kernel instructions: n/a on this machine (perf has no hardware counters here); "
          "kernel us stands for them, beside the responder's")
    print("user instructions: " + ("by callgrind, at the same number of connections" if counted
          else "n/a (valgrind is not run by --quick)"))


def bounds_of(load, rows):
    """What tarnd must reach under this load, and whether it does."""
    by = {r["server"]: r for r in rows if r["load"] == load.name}
    tarnd, responder = by.get("tarnd"), by.get("responder")
    if tarnd is None:
        return []
    got, base = tarnd["user_instructions"], (responder or {}).get("user_instructions")
    title = f"{load.title}, {load.conns} connections"
    out = []
    if load.user_most:
        out.append(bound(f"{title}: user instructions", got, load.user_most))
    if load.over_responder:
        over = None if None in (got, base) else got - base
        out.append(bound(f"{title}: user instructions above the responder", over,
                         load.over_responder))
    if load.floors_most:
        out.append(bound(f"{title}: CPU time", paired(rows, load.name, "tarnd", "floor"),
                         load.floors_most, unit="x floor", digits=2))
    if load.cpu_us_most:
        out.append(bound(f"{title}: CPU time", tarnd["cpu_us"], load.cpu_us_most, unit="us",
                         digits=2))
    if load.over_responder:
        ratio = paired(rows, load.name, "tarnd", "responder", "kernel_us")
        out.append(bound(f"{title}: kernel time", ratio, KERNEL_MOST, unit="x responder",
                         digits=2))
    out.append(bound(f"{title}: errors", len(tarnd["errors"]), 0))
    return out


def run(lab, args):
    with_perf = bench_load.perf_works()
    loads = bench_load.choose(args.loads)
    origin = bench_servers.Origin(lab)
    servers = bench_servers.choose(lab, origin, args.servers)
    rows = bench_load.measure(lab, args, servers, loads, with_perf)
    counted = {}
    if not with_perf and not args.quick and bench_servers.which("valgrind"):
        counted = bench_callgrind.count_all(lab, servers, loads)
        fill_instructions(rows, counted)
    show(rows)
    explain(with_perf, counted)
    bounds = [b for load in loads for b in bounds_of(load, rows)]
    print_bounds(bounds)
    return {"perf": with_perf, "rows": rows, "bounds": bounds}
