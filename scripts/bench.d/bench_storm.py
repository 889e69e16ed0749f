"""A storm of handshakes: what clients that are being served notice of 500 new ones a second.

Each handshake is a full one (ECDSA P-256, X25519, no ticket), at one worker, which serves hits of 1 KiB at a fixed
rate at the same time, plain and over TLS.  Latency counts from when a request was due (tls_load.c).  Measured in turns
without and with the storm, in one process of each server; a handshake takes the worker half a millisecond, so what a
server does between two handshakes is what is seen here.
"""

import os
import statistics
import subprocess

import bench_servers
from bench_load import number, print_table
from bench_proc import BenchError, progress
from bench_results import bound, print_bounds
from bench_tls import HaproxyTls, NginxTls, TarnTls, make_certificate

RATE = 500  # handshakes a second
HITS, CONNS = 1000, 16  # hits a second, of each kind, and connections for them
PERCENTILES = ("p50", "p90", "p99", "p99.9", "max")
P99_MAX_MS = 2  # by so much the storm may move it


class StormTarn(TarnTls):
    def argv(self, port, template=None):
        shm = self.lab.path(f"shm-{port}")
        conf = self.lab.template(self.template, f"tarn-storm-{port}.yaml", PORT=port, PLAIN=self.plain_port,
                                 ORIGIN=self.origin.port, SHM=shm, CERTS=os.path.dirname(self.pem))
        return [self.lab.program("tarnd"), "-c", conf]


class StormNginx(NginxTls):
    @property
    def plain(self):
        return f"listen 127.0.0.1:{self.plain_port};"


class StormHaproxy(HaproxyTls):
    @property
    def plain(self):
        return f"bind 127.0.0.1:{self.plain_port}"


def start(lab, *words):
    return subprocess.Popen([lab.program("bench-tls-load"), *map(str, words)], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True,
                            preexec_fn=lambda: os.sched_setaffinity(0, lab.client_cpu))


def finish(process, seconds):
    out, err = process.communicate(timeout=seconds + 90)
    if process.returncode != 0:
        raise BenchError(f"tls_load: {err.strip()}")
    return [float(word) for word in out.split()]


def sample(lab, server, port, seconds, storm):
    """Microseconds of each percentile of plain and of TLS, and handshakes a second."""
    pace = {kind: start(lab, "pace", p, kind, "/1k", CONNS, HITS, seconds)
            for kind, p in (("plain", server.plain_port), ("tls", port))}
    storm = start(lab, "storm", port, RATE, seconds) if storm else None
    try:
        got = {kind: dict(zip(PERCENTILES, finish(p, seconds)[1:])) for kind, p in pace.items()}
        done, failed = finish(storm, seconds) if storm else (0, 0)
    finally:
        for p in (*pace.values(), storm):
            if p is not None and p.poll() is None:
                p.kill()
                p.wait()
    if failed > 0:
        raise BenchError(f"{server.name}: {failed:.0f} of {done + failed:.0f} handshakes failed")
    got["handshakes_per_s"] = done / seconds
    return got


def measure(lab, server, args):
    server.plain_port = lab.port()
    port = server.at("/1k")[1]
    samples = {False: [], True: []}
    for i in range(args.samples):
        for storm in (False, True):
            progress(f"storm {server.name} {'with' if storm else 'without'} {i + 1}")
            samples[storm].append(sample(lab, server, port, args.seconds, storm))
    return {storm: {kind: {p: statistics.median(s[kind][p] for s in some) for p in PERCENTILES}
                    for kind in ("plain", "tls")} for storm, some in samples.items()}


def run(lab, args):
    pem = make_certificate(lab)
    origin = bench_servers.Origin(lab)
    servers = bench_servers.choose(lab, origin, args.servers, (StormTarn, StormNginx, StormHaproxy))
    table, rows, bounds = [], [], []
    for server in servers:
        server.pem = pem
        try:
            got = measure(lab, server, args)
        except (BenchError, OSError) as e:
            print(f"{server.name}: {e}", flush=True)
            continue
        for kind in ("plain", "tls"):
            moved = (got[True][kind]["p99"] - got[False][kind]["p99"]) / 1000
            for storm in (False, True):
                table.append([f"{server.name}, {kind}", f"{RATE}/s" if storm else "none",
                              *(number(got[storm][kind][p], 0) for p in PERCENTILES),
                              f"{moved:+.2f} ms" if storm else ""])
            rows.append({"server": server.name, "hits": kind, "without_us": got[False][kind],
                         "with_us": got[True][kind], "p99_moved_ms": moved})
            if server.name == "tarnd":
                bounds.append(bound(f"p99 of {kind} hits beside {RATE} handshakes/s moves by", moved,
                                    most=P99_MAX_MS, unit="ms", digits=2))
    progress()
    print_table(["hits of 1 KiB, us", "storm", *PERCENTILES, "p99 moved"], table, left=2)
    print_bounds(bounds)
    return {"mode": "tls-storm", "rows": rows, "bounds": bounds}
