"""The loads, one sample of one of them, and the table."""

import os
import re
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass, field

from bench_proc import HERE, BenchError, progress
from bench_servers import which

WRK_DIR = os.path.join(os.path.dirname(HERE), "wrk")


@dataclass(frozen=True)
class Load:
    """What is asked for, and what tarnd must reach: of a request, unless it says otherwise."""

    name: str
    title: str
    path: str
    conns: int
    script: str = "hit.lua"
    args: tuple = ()
    depth: int = 1         # requests per write
    counted: int = 20000   # requests counted under valgrind
    threads: int = 1       # of wrk
    fields: tuple = ()     # (name, value) of the request, beside the script's
    over_responder: int = 1700  # user instructions above the bare responder
    user_most: int = None       # user instructions
    cpu_us_most: float = None   # CPU microseconds
    floors_most: float = None   # CPU time, as so many times the floor's


LOADS = (
    Load("hit-1k", "1 KiB", "/1k", 64, user_most=3000, floors_most=1.2),
    Load("pipe-1k", "1 KiB by 16", "/1k", 64, "pipeline.lua", ("16",), depth=16, counted=65536,
         user_most=2500, cpu_us_most=3.0),
    Load("browser-1k", "1 KiB browser", "/1k", 64, "browser.lua", over_responder=2500),
    Load("traced-1k", "1 KiB traced", "/1k", 64, "traced.lua", over_responder=None),
    Load("hit-16k", "16 KiB", "/16k", 64, user_most=3000, floors_most=1.2),
    Load("hit-1m", "1 MiB", "/1m", 16, counted=640, over_responder=None, user_most=6000,
         floors_most=1.05),
    Load("hit-1k-c1000", "1 KiB", "/1k", 1000, user_most=3200),
)


def choose(names):
    known = {load.name: load for load in LOADS}
    for name in names or ():
        if name not in known:
            raise BenchError(f"no load {name}; there are: {' '.join(known)}")
    return [load for load in LOADS if not names or load.name in names]


def perf_works():
    """Hardware counters are often not there in a virtual machine."""
    if not which("perf"):
        return False
    out = subprocess.run(["perf", "stat", "-x,", "-e", "instructions:u,instructions:k", "true"],
                         capture_output=True, text=True, check=False)
    counts = re.findall(r"^(\d+),,instructions", out.stderr, re.M)
    return out.returncode == 0 and len(counts) == 2


@dataclass
class Wrk:
    requests: int = 0
    seconds: float = 0.0
    rate: float = 0.0
    p50: str = ""
    p99: str = ""
    errors: list = field(default_factory=list)
    text: str = ""  # all that wrk printed


def wrk_parse(text):
    w = Wrk()
    if m := re.search(r"(\d+) requests in ([\d.]+)(ms|s|m)", text):
        w.requests = int(m.group(1))
        w.seconds = float(m.group(2)) * {"ms": 1e-3, "s": 1, "m": 60}[m.group(3)]
    if m := re.search(r"Requests/sec:\s+([\d.]+)", text):
        w.rate = float(m.group(1))
    for key, percent in (("p50", "50"), ("p99", "99")):
        if m := re.search(rf"^\s+{percent}%\s+(\S+)", text, re.M):
            setattr(w, key, m.group(1))
    w.errors = [line.strip() for line in re.findall(r"(?m)^.*(?:Socket errors|Non-2xx).*$", text)]
    return w


def wrk_argv(port, load, seconds, script=None, args=None, threads=None, headers=(), timeout=2):
    argv = [which("wrk"), f"-t{threads or load.threads}", f"-c{load.conns}", f"-d{seconds}s",
            "--latency", "--timeout", f"{timeout}s",
            "-s", os.path.join(WRK_DIR, script or load.script)]
    for header in (*(f"{name}: {value}" for name, value in load.fields), *headers):
        argv += ["-H", header]
    return argv + [f"http://127.0.0.1:{port}{load.path}", "--", *(args or load.args)]


def wrk_run(lab, argv, seconds, cpus=None, before=()):
    """Runs wrk to its end, which is not far off; what it prints, parsed."""
    if not which("wrk"):
        raise BenchError("wrk is missing: scripts/bench --install")

    def child():
        os.sched_setaffinity(0, cpus or lab.client_cpu)

    began = time.monotonic()
    try:
        out = subprocess.run([*before, *argv], capture_output=True, text=True, check=False,
                             timeout=seconds + 60, preexec_fn=child)
    except subprocess.TimeoutExpired:
        return Wrk(errors=["wrk did not end"])
    w = wrk_parse(out.stdout)
    w.text, took = out.stdout, time.monotonic() - began
    if w.seconds and took > 1.1 * w.seconds:  # of many threads, some work before wrk's clock runs
        w.rate = w.requests / took
    if w.requests == 0:
        last = (out.stdout + out.stderr).strip().splitlines()[-1:]
        w.errors.append("no request completed: " + " ".join(last))
    return w


@dataclass
class Sample:
    wrk: Wrk
    cpu_us: float = 0.0
    user_us: float = 0.0
    kernel_us: float = 0.0
    user_instr: float = None
    kernel_instr: float = None
    origin_requests: int = 0


def perf_read(path):
    with open(path, encoding="ascii", errors="replace") as f:
        text = f.read()
    counts = [int(n) for n in re.findall(r"^(\d+),,instructions:[uk]", text, re.M)]
    return counts if len(counts) == 2 else None


def sample(lab, server, load, seconds, with_perf):
    """One run of one load on one server."""
    proc, port = server.at(load.path)
    before, counts = (), lab.path("perf.out")
    if with_perf:
        before = ("perf", "stat", "-x,", "-o", counts, "-e", "instructions:u,instructions:k",
                  "-p", ",".join(map(str, proc.pids())), "--")
    asked = server.origin.requests()
    t0 = proc.cpu()
    w = wrk_run(lab, wrk_argv(port, load, seconds), seconds, before=before)
    t1 = proc.cpu()
    s = Sample(w, origin_requests=server.origin.requests() - asked)
    if not proc.alive():
        w.errors.append(f"{server.name} ended: {proc.tail()[-300:]}")
    if w.requests == 0:
        return s
    s.cpu_us = (t1[0] - t0[0]) / 1000 / w.requests
    # The sum is exact; how it divides is known only to the clock tick.
    user, kernel = t1[1] - t0[1], t1[2] - t0[2]
    share = user / (user + kernel) if user + kernel > 0 else 0
    s.user_us, s.kernel_us = s.cpu_us * share, s.cpu_us * (1 - share)
    if with_perf and (both := perf_read(counts)):
        s.user_instr, s.kernel_instr = both[0] / w.requests, both[1] / w.requests
    return s


def merge(server, load, samples):
    """The row of a server and a load: medians, and every error."""
    good = [s for s in samples if s.wrk.requests > 0]

    def median(get):
        values = [get(s) for s in good]
        return statistics.median(values) if values and None not in values else None

    return {
        "load": load.name, "title": load.title, "connections": load.conns, "server": server.name,
        "requests_per_s": median(lambda s: s.wrk.rate),
        "cpu_us": median(lambda s: s.cpu_us),
        "cpu_us_each": [round(s.cpu_us, 3) for s in good],
        "user_us": median(lambda s: s.user_us),
        "kernel_us": median(lambda s: s.kernel_us),
        "user_instructions": median(lambda s: s.user_instr),
        "kernel_instructions": median(lambda s: s.kernel_instr),
        "p50": good[-1].wrk.p50 if good else "", "p99": good[-1].wrk.p99 if good else "",
        "origin_requests": sum(s.origin_requests for s in samples),
        "errors": sorted({e for s in samples for e in s.wrk.errors}),
        "samples": [{"requests": s.wrk.requests, "seconds": s.wrk.seconds, "cpu_us": s.cpu_us,
                     "user_us": s.user_us, "kernel_us": s.kernel_us, "p50": s.wrk.p50,
                     "p99": s.wrk.p99, "errors": s.wrk.errors} for s in samples],
    }


def paired(rows, load, one, other, key="cpu_us"):
    """The median of `one`'s figure as a multiple of `other`'s, sample by sample: both of a pair
    were taken within the same minute.  None: one of them was not measured."""
    samples = {r["server"]: r["samples"] for r in rows if r["load"] == load}
    ratios = [a[key] / b[key] for a, b in zip(samples.get(one, ()), samples.get(other, ()))
              if a["requests"] and b["requests"] and b[key]]
    return statistics.median(ratios) if ratios else None


def measure(lab, args, servers, loads, with_perf=False, verify=True):
    """Rows of every load on every server.  Samples alternate between the servers, so that a slow
    minute slows them all; one that fails costs nobody else's figures."""
    failed, samples = {}, {}

    def attempt(server, run):
        if server.name in failed:
            return Sample(Wrk(errors=[failed[server.name]]))
        try:
            return run()
        except (BenchError, OSError) as e:
            failed[server.name] = str(e)
            print(f"{server.name}: {e}", file=sys.stderr)
            return Sample(Wrk(errors=[str(e)]))

    if verify:
        for load in loads:
            for server in servers:
                attempt(server, lambda s=server, p=load.path: s.verify(p))
    for turn in range(args.samples):
        for load in loads:
            for server in servers[turn % len(servers):] + servers[:turn % len(servers)]:
                progress(f"{turn + 1}/{args.samples} {load.name} {server.name}")
                got = attempt(server, lambda s=server, one=load: sample(lab, s, one, args.seconds,
                                                                        with_perf))
                samples.setdefault((load.name, server.name), []).append(got)
    progress()
    return [merge(server, load, samples[load.name, server.name])
            for load in loads for server in servers]


def number(value, digits=0):
    return "n/a" if value is None else f"{value:,.{digits}f}"


def print_table(head, rows, left=1):
    """Columns as wide as they must be; the first `left` of them to the left."""
    text = [head] + rows
    widths = [max(len(row[i]) for row in text) for i in range(len(head))]
    for n, row in enumerate(text):
        cells = [c.ljust(w) if i < left or head[i] == "errors" else c.rjust(w)
                 for i, (c, w) in enumerate(zip(row, widths))]
        print("  ".join(cells).rstrip())
        if n == 0:
            print("  ".join("-" * w for w in widths))
