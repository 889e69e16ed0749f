"""Two workers against one: a request must not cost more CPU time because there are two.

Both run on all processors, beside a wrk of as many threads: what is compared is the server's own
CPU time for each request, not how many there are in a second.  Counted by callgrind besides, which
runs the two in turn and so sees everything but what they do to each other's caches.
"""

import bench_callgrind
import bench_load
import bench_servers
from bench_load import Load, number, paired, print_table
from bench_results import bound, print_bounds

SAME = Load("same", "the same object", "/1k", 64, threads=2)
OTHER = Load("different", "10,000 objects", "/u/", 64, "zipf.lua", ("10000", "0", "/u/"),
             threads=2)
FEWER = 0.9  # requests a CPU second with two workers, as so many times those with one


class One(bench_servers.Tarn):
    name = "tarnd-1"

    def __init__(self, lab, origin):
        super().__init__(lab, origin)
        self.cpus = lab.all_cpus


class Two(One):
    name, workers = "tarnd-2", 2


def warm(lab, server):
    """Every object once or more; what is asked for in a second of any later run is there."""
    w = bench_load.wrk_run(lab, bench_load.wrk_argv(server.at("/1k")[1], OTHER, 3), 3,
                           cpus=lab.all_cpus)
    if w.errors:
        print(f"{server.name}, warming: {'; '.join(w.errors)}")


def instructions(lab, servers, args):
    """(load, server) -> user instructions; different objects would all be misses there."""
    if args.quick or not bench_servers.which("valgrind"):
        return {}
    return bench_callgrind.count_all(lab, servers, [SAME])


def run(lab, args):
    origin = bench_servers.Origin(lab)
    servers = bench_servers.choose(lab, origin, None, (One, Two))
    for server in servers:
        server.verify("/1k")
        warm(lab, server)
    lab.client_cpu = lab.all_cpus
    rows = bench_load.measure(lab, args, servers, [SAME, OTHER], verify=False)
    counted = instructions(lab, servers, args)
    table = [[r["title"], r["server"], number(r["requests_per_s"]), number(r["cpu_us"], 2),
              number(1e6 / r["cpu_us"] if r["cpu_us"] else None),
              number(counted.get((r["load"], r["server"]))), number(r["origin_requests"]),
              "; ".join(r["errors"]) or "-"] for r in rows]
    print_table(["load", "server", "requests/s", "CPU us", "requests/CPU s", "user instr",
                 "misses", "errors"], table, left=2)
    print("\nall processors, shared with wrk -t2; medians")
    bounds = []
    for load in (SAME, OTHER):
        ratio = paired(rows, load.name, "tarnd-1", "tarnd-2")
        bounds.append(bound(f"two workers, {load.title}: requests a CPU second", ratio,
                            least=FEWER, unit="x one worker's", digits=2))
    one, two = counted.get(("same", "tarnd-1")), counted.get(("same", "tarnd-2"))
    bounds.append(bound("two workers, the same object: user instructions",
                        two / one if one and two else None, 1 / FEWER, unit="x one worker's",
                        digits=2))
    print_bounds(bounds)
    return {"rows": rows, "user_instructions": {k[1]: v for k, v in counted.items()},
            "bounds": bounds}
