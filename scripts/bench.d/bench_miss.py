"""What a miss costs: no URL twice, so that every request is fetched, and stored or passed on.

The origin is the bare responder, on the client's processor: only the proxy's CPU time counts.
Every storage holds 256 MiB, so that it fills up and has to make room.
"""

import bench_callgrind
import bench_load
import bench_servers
from bench_compare import explain, fill_instructions, show
from bench_load import Load, paired
from bench_proc import BenchError, fetch

MISS = Load("miss", "1 KiB miss", "/u/", 64, "unique.lua", counted=10000)
CLASSES = (bench_servers.Tarn, bench_servers.TarnPass, bench_servers.Nginx,
           bench_servers.NginxPass, bench_servers.Haproxy, bench_servers.HaproxyPass,
           bench_servers.Varnish, bench_servers.VarnishPass)
SIZES = {"tarnd": "256MiB", "tarnd-pass": "256MiB", "nginx": "256m", "haproxy": 256,
         "varnish": "256m"}


def verify(server):
    """A whole answer; none that was asked for before can be had in the measurement."""
    status, size = fetch(server.at("/1k")[1], "/u/verify")
    if (status, size) != (200, 1024):
        raise BenchError(f"{server.name}: status {status}, {size} bytes, not 200 and 1024")


def start(lab, args, origin):
    servers = bench_servers.choose(lab, origin, args.servers, CLASSES)
    good = []
    for server in servers:
        server.size = SIZES.get(server.name, getattr(server, "size", None))
        try:
            verify(server)
            good.append(server)
        except (BenchError, OSError) as e:
            print(f"{server.name}: {e}", flush=True)
    if not good:
        raise BenchError("no server to measure")
    return good


def compare(rows):
    """Nothing is promised of a miss: so many times what the peers need for the same."""
    out = {}
    for ours, peers in (("tarnd", ("nginx", "haproxy", "nginx-pass", "haproxy-pass")),
                        ("tarnd-pass", ("nginx-pass", "haproxy-pass"))):
        for peer in peers:
            if (ratio := paired(rows, MISS.name, ours, peer)) is not None:
                out[f"{ours} / {peer}"] = ratio
    print("CPU time: " + ", ".join(f"{what} {ratio:.2f}" for what, ratio in out.items()))
    return out


def run(lab, args):
    origin = bench_servers.FastOrigin(lab)
    servers = start(lab, args, origin)
    rows = bench_load.measure(lab, args, servers, [MISS], verify=False)
    counted = {}
    if not args.quick and bench_servers.which("valgrind"):
        counted = bench_callgrind.count_all(lab, servers, [MISS])
        fill_instructions(rows, counted)
    show(rows)
    explain(False, counted, "the origin and wrk share another processor")
    print("tarnd, nginx, haproxy and varnish store what they fetch; -pass: they neither look for "
          "it nor keep it")
    return {"rows": rows, "cpu_ratios": compare(rows)}
