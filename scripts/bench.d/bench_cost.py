"""What a hit costs as objects grow, and as connections do: instructions and CPU time."""

import bench_callgrind
import bench_load
import bench_servers
from bench_compare import explain, fill_instructions
from bench_load import Load, number, print_table
from bench_results import bound, print_bounds

SIZES = ("1", "256", "1k", "4k", "16k", "64k", "256k", "1m")
CONNS = (1, 4, 16, 64, 256, 1000)
USUAL = 64          # connections, while sizes vary
COUNTED = 6400      # requests under valgrind, and a tenth as many of large bodies
LARGE = ("256k", "1m")
FLAT = 1.05         # from 64 to 1,000 connections, user instructions


def loads_of():
    by_size = [Load(f"size-{s}", f"body of {s}", f"/{s}", USUAL,
                    counted=COUNTED // (10 if s in LARGE else 1)) for s in SIZES]
    by_conns = [Load(f"conns-{n}", f"{n} connections", "/1k", n, counted=COUNTED)
                for n in CONNS]
    return by_size + by_conns


def show(loads, rows, servers):
    by = {(r["load"], r["server"]): r for r in rows}
    names = [s.name for s in servers]
    for key, title, digits in (("user_instructions", "user instructions a request", 0),
                               ("cpu_us", "CPU us a request", 2)):
        print_table([title, *names],
                    [[load.title] + [number(by[load.name, n][key], digits) for n in names]
                     for load in loads])
        print()


def bounds_of(rows):
    at = {r["load"]: r["user_instructions"] for r in rows if r["server"] == "tarnd"}
    few, many = at.get(f"conns-{USUAL}"), at.get("conns-1000")
    ratio = many / few if few and many else None
    return [bound("user instructions, 1,000 connections", ratio, FLAT,
                  unit=f"x {USUAL} connections", digits=3)]


def run(lab, args):
    origin = bench_servers.Origin(lab)
    servers = bench_servers.choose(lab, origin, args.servers)
    loads = loads_of()
    rows = bench_load.measure(lab, args, servers, loads)
    counted = {}
    if not args.quick and bench_servers.which("valgrind"):
        counted = bench_callgrind.count_all(lab, servers, loads)
        fill_instructions(rows, counted)
    show(loads, rows, servers)
    explain(False, counted)
    for row in rows:
        if row["errors"]:
            print(f"{row['load']}, {row['server']}: {'; '.join(row['errors'])}")
    bounds = bounds_of(rows)
    print_bounds(bounds)
    sizes = {f"size-{s}": bench_servers.SIZES[s] for s in SIZES}
    return {"rows": rows, "sizes": sizes, "conns": {f"conns-{n}": n for n in CONNS},
            "bounds": bounds}
