"""What tarnd must reach in the sections that do not say so themselves: result -> bounds."""

from bench_results import bound

CORK_MOST = 1.03  # CPU time, on to off: no row is to be worse, but for noise


def index(result):
    out = []
    for r in result["rows"]:
        slots = f"index, {r['slots']} slots a bucket"
        for kind in ("hit", "miss"):
            out.append(bound(f"{slots}: {kind} among {result['keys']:,}", r[f"faster_{kind}"],
                             least=result["asked_faster"], unit="x as fast as chained"))
        out.append(bound(f"{slots}: load before growth", r["victim_load"],
                         least=result["asked_load"], digits=3))
    return out


def lease(result):
    return [bound(f"lease, {r['kind'].replace('_', ', ')}: an extent", r["ratio"],
                  result["asked_ratio"], unit="x lease_each", digits=3) for r in result["rows"]]


def flat(result):
    return [bound("user instructions of a hit, all rows: farthest from the first",
                  result["worst_percent"], result["allowed_percent"], unit="%", digits=1)]


def tables(result):
    out = [bound(f"tables, {r['what']}", r["ns"], r["bound_ns"], unit="ns", digits=1)
           for r in result["rows"] if r["bound_ns"] is not None]
    writer = result["beside_a_writer"]
    return out + [bound(f"tables, readers beside {writer['versions_per_s']:,} versions a second",
                        writer["ratio"], writer["bound"], unit="x the CPU", digits=3)]


def churn(result):
    out = []
    for r in result["churn"]:
        what = f"churn, {r['size'] >> 20} MiB, {r['connections']} connections"
        out.append(bound(f"{what}: resident at most", r["peak"] / r["size"], result["promise"],
                         unit="x the size", digits=3))
        out.append(bound(f"{what}: errors", len(r["errors"]), 0))
    return out


def memory(result):
    out = []
    for r in result["memory"]:
        if r["server"] != "tarnd":
            continue
        what = "memory " + r["row"].replace("_", " ")
        out.append(bound(what, r["bytes"], r["most"], unit="bytes"))
        if r["stored"]:
            out.append(bound(f"{what}, above key, head and body", r["bytes"] - r["stored"], 180,
                             unit="bytes"))
    return out


def cork(result):
    return [bound(f"MORE on, {r['load']}, {r['transport']}: CPU time",
                  r["on"]["cpu_us"] / r["off"]["cpu_us"], CORK_MOST, unit="x off", digits=2)
            for r in result["rows"]]


OF = {f.__name__: f for f in (index, lease, flat, tables, churn, memory, cork)}
