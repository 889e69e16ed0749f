"""64 MiB in pass mode through the server itself: what streaming costs, and how much it holds.

Two hops: the client asks the server for hop1.test; its backend for that is itself, as
hop2.test, whose backend is the origin.  The response is no-store.
"""

import socket
import statistics
import threading
import time

import bench_load
import bench_servers
from bench_load import Load, number, print_table
from bench_proc import BenchError, fetch, progress
from bench_results import bound, print_bounds

BODY = 64 << 20
HOP1 = "hop1.test"
PASS = Load("pass", "64 MiB pass, two hops", "/pass/64m", 1)
HIT = Load("hit-64m", "64 MiB hit", "/64m", 1)
SLOW_BYTES_A_SECOND = 4 << 20
SAMPLE_SECONDS = 0.02


class Watch:
    """The peak of a server's resident memory above what it was."""

    def __init__(self, proc):
        self.proc = proc
        self.start = proc.rss_kib()
        self.peak = self.start
        self.over = threading.Event()
        proc.peak_reset()
        self.thread = threading.Thread(target=self.follow, daemon=True)
        self.thread.start()

    def follow(self):
        while not self.over.wait(SAMPLE_SECONDS):
            self.peak = max(self.peak, self.proc.rss_kib())

    def growth_mib(self):
        """Sampled, or the kernel's own mark for a lone process, whichever is higher."""
        self.over.set()
        self.thread.join()
        peak = self.peak
        if len(self.proc.pids()) == 1:
            peak = max(peak, self.proc.peak_kib())
        return (peak - self.start) / 1024


def slow_reader(port, seconds, problems):
    """Takes a little at a time, so that whatever the server buffers is full."""
    try:
        with socket.create_connection(("127.0.0.1", port), 20) as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
            s.sendall(f"GET {PASS.path} HTTP/1.1\r\nHost: {HOP1}\r\n\r\n".encode())
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                data = s.recv(SLOW_BYTES_A_SECOND // 20)
                if not data:
                    problems.append("closed early")
                    return
                time.sleep(0.05)
    except OSError as e:
        problems.append(str(e))


def slow_growth(proc, port, streams, seconds):
    watch = Watch(proc)
    problems = []
    readers = [threading.Thread(target=slow_reader, args=(port, seconds, problems))
               for _ in range(streams)]
    for r in readers:
        r.start()
    for r in readers:
        r.join()
    return watch.growth_mib(), problems


def start(lab, server):
    if server.name != "tarnd":
        return server.at(PASS.path)
    port = lab.port()
    proc = lab.start("tarnd", server.argv(port, "tarn_pass.yaml.in"), lab.server_cpu,
                     ready=server.word)
    return proc, port


def cpu_ms(lab, proc, port, load, seconds, headers=()):
    """(CPU ms per response, responses, errors) of one wrk run."""
    t0 = proc.cpu()[0]
    w = bench_load.wrk_run(lab, bench_load.wrk_argv(port, load, seconds, headers=headers), seconds)
    t1 = proc.cpu()[0]
    # wrk leaves one response unfinished, of which half is counted on average.
    return ((t1 - t0) / 1e6 / (w.requests + 0.5) if w.requests else None), w.requests, w.errors


def check(server, port):
    status, size = fetch(port, PASS.path, {"Host": HOP1}, seconds=60)
    if status != 200 or size != BODY:
        raise BenchError(f"{server.name}: two hops gave status {status} and {size} bytes, not "
                         f"200 and {BODY}")


class Stream:
    """One server, and what was measured of it."""

    def __init__(self, lab, server):
        self.lab, self.server = lab, server
        self.each, self.hits, self.errors, self.done = [], [], [], 0
        self.first = self.slow = None

    def open(self):
        """The first response of all: is it right, and what does it hold on to?"""
        self.proc, self.port = start(self.lab, self.server)
        fetch(self.port, "/1k", {"Host": HOP1})
        fetch(self.port, HIT.path)
        self.base = self.proc.rss_kib()
        watch = Watch(self.proc)
        check(self.server, self.port)
        self.first = watch.growth_mib()

    def sample(self, seconds):
        ms, requests, wrong = cpu_ms(self.lab, self.proc, self.port, PASS, seconds,
                                     (f"Host: {HOP1}",))
        self.each.append(ms)
        self.done += requests
        hit, _, wrong_too = cpu_ms(self.lab, self.proc, self.port, HIT, seconds)
        self.hits.append(hit)
        self.errors += wrong + wrong_too

    def readers(self, streams, seconds):
        self.slow, problems = slow_growth(self.proc, self.port, streams, seconds)
        self.errors += problems

    def row(self, streams):
        return {"server": self.server.name, "pass_cpu_ms": median(self.each),
                "pass_cpu_ms_each": self.each, "responses": self.done,
                "hit_cpu_ms": median(self.hits), "hit_cpu_ms_each": self.hits,
                "rss_before_mib": self.base / 1024, "growth_first_mib": self.first,
                "growth_slow_mib": self.slow, "slow_streams": streams,
                "errors": sorted(set(self.errors))}


def median(values):
    good = [v for v in values if v is not None]
    return statistics.median(good) if good else None


def measure(lab, args, servers):
    """A row of each server that got through; samples alternate between them."""
    streams = [Stream(lab, server) for server in servers]

    def each(run):
        for stream in list(streams):
            progress(stream.server.name)
            try:
                run(stream)
            except (BenchError, OSError) as e:
                print(f"{stream.server.name}: {e}", flush=True)
                streams.remove(stream)

    each(lambda s: s.open())
    for _ in range(args.samples):
        each(lambda s: s.sample(args.seconds))
    each(lambda s: s.readers(args.streams, min(args.seconds, 5) + 1))
    progress()
    return [s.row(args.streams) for s in streams]


def bounds_of(rows, streams):
    by = {r["server"]: r for r in rows}
    if "tarnd" not in by:
        return []
    tarnd, varnish = by["tarnd"], by.get("varnish", {"pass_cpu_ms_each": ()})
    ratio = median([a / b for a, b in zip(tarnd["pass_cpu_ms_each"], varnish["pass_cpu_ms_each"])
                    if a and b])
    transit = int(bench_servers.Tarn.transit.removesuffix("MiB"))
    return [bound("64 MiB pass, two hops: CPU time", ratio, 0.9, unit="x varnish", digits=2),
            bound("64 MiB pass, two hops: memory, one stream", tarnd["growth_first_mib"],
                  2 * transit, unit="MiB", digits=2),
            bound(f"64 MiB pass, two hops: memory, {streams} slow streams",
                  tarnd["growth_slow_mib"], 2 * transit * streams, unit="MiB", digits=2)]


def run(lab, args):
    origin = bench_servers.Origin(lab)
    servers = bench_servers.choose(lab, origin, args.servers,
                                   (bench_servers.Tarn, bench_servers.Varnish))
    rows = measure(lab, args, servers)
    table = [[r["server"], number(r["pass_cpu_ms"], 1), number(r["hit_cpu_ms"], 1),
              number(r["responses"]), number(r["rss_before_mib"], 1),
              number(r["growth_first_mib"], 2), number(r["growth_slow_mib"], 2),
              "; ".join(r["errors"]) or "-"] for r in rows]
    print_table(["64 MiB", "pass CPU ms", "hit CPU ms", "responses", "RSS MiB", "+ one stream",
                 f"+ {args.streams} slow", "errors"], table)
    print(f"\nCPU per response, pass in two hops through the same process; RSS growth in MiB "
          f"above RSS before;\n{args.streams} slow readers take "
          f"{SLOW_BYTES_A_SECOND >> 20} MiB/s each; a stream has two hops, so two transit "
          f"buffers ({bench_servers.Tarn.transit} each in tarnd)")
    bounds = bounds_of(rows, args.streams)
    print_bounds(bounds)
    return {"rows": rows, "bounds": bounds}
