"""HTTP/2: what a hit costs, beside nginx and HAProxy, plain (prior knowledge) and over TLS, and what a session holds.

Each server listens three times: TLS with ALPN, HTTP/2 without TLS, HTTP/1.1.  Same object, same certificate, same cipher.

Counted by callgrind, which is told to write what it has after each step: each row is asked a short and a long run of
requests on new connections in one process, and the difference divided by the difference of their lengths is the cost of
a request.  What was seen before is asked by h2load, what is new by bench_h2_client.  Each row checks by the origin's
count that its requests were hits.
"""

import functools
import glob
import http.client
import json
import os
import socket
import statistics
import subprocess
import time

import bench_callgrind
import bench_h2_client as client
import bench_load
import bench_memory
import bench_servers
import bench_tls
from bench_load import number, print_table
from bench_proc import BenchError, progress
from bench_results import bound, print_bounds

CONNS = 4
SLOPE = 1600  # requests of the long run beyond those of the short one
STREAMS = (1, 4, 16)
BROWSER_MOST, H1_MOST = 6000, 2800
SESSION_MOST, BUSY_MOST = 1500, 6000
SESSIONS = 2000
VGDB_SECONDS = 60


# ---- servers

class WithH2:
    """Ports: the one that it is launched with has TLS; `h2c` and `h1` beside it."""

    def ports(self):
        if not hasattr(self, "h2c"):
            self.h2c, self.h1 = self.lab.port(), self.lab.port()

    def ends(self, port):
        return {False: client.End(self.h2c, False), True: client.End(port, True)}


class TarnH2(WithH2, bench_tls.TarnTls):
    template, memo = "tarn_h2.yaml.in", "on"

    def argv(self, port, path=None):
        self.ports()
        self.h1 = self.h2c  # it tells them apart by the first bytes
        self.admin = self.lab.path(f"admin-{port}")
        conf = self.lab.template(self.template, f"tarn-h2-{port}.yaml", PORT=port, PLAIN=self.h2c,
                                 ORIGIN=self.origin.port, SHM=self.lab.path(f"shm-{port}"),
                                 CERTS=os.path.dirname(self.pem), ADMIN=self.admin, MEMO=self.memo)
        return [self.lab.program("tarnd"), "-c", conf]

    def charged(self):
        """Bytes of connections and requests, as the store counts them."""
        conn = http.client.HTTPConnection("tarn")
        conn.sock = socket.socket(socket.AF_UNIX)
        conn.sock.connect(self.admin)
        conn.request("GET", "/v1/memory")
        tree = json.load(conn.getresponse())
        conn.close()
        return tree["total"]["parts"]["traffic"]["bytes"]


class TarnH2NoMemo(TarnH2):
    """Each field block goes through the inflater."""

    name, memo = "tarnd-no-memo", "off"


class NginxH2(WithH2, bench_tls.NginxTls):
    tls = "ssl http2"

    @property
    def plain(self):
        self.ports()
        return f"listen 127.0.0.1:{self.h2c} http2 backlog=4096; listen 127.0.0.1:{self.h1} backlog=4096;"


class HaproxyH2(WithH2, bench_tls.HaproxyTls):
    @property
    def tls(self):
        return f"{super().tls} alpn h2,http/1.1"

    @property
    def plain(self):
        self.ports()
        return f"bind 127.0.0.1:{self.h2c} proto h2\n    bind 127.0.0.1:{self.h1}"


# ---- instructions

class Row:
    """`drive(lab, server, ends, n)` asks `n` requests.  `step`: what n must be a multiple of."""

    def __init__(self, title, drive, step, slope=SLOPE):
        self.title, self.drive, self.step = title, drive, step
        self.slope = max(1, slope // step) * step


def by_h2load(tls, fields, streams, path="/1k", conns=CONNS, more=()):
    def drive(lab, server, ends, n):
        client.h2load_run(lab, client.h2load_argv(ends[tls], fields, conns, streams, f"-n{n}", *more, path=path))
    return drive


def by_new_paths(tls, fields, streams):
    """Each request asks for another URL than the one before; the other fields come again."""
    def drive(lab, server, ends, n):
        uris = lab.path("uris")
        with open(uris, "w", encoding="ascii") as f:
            f.writelines(ends[tls].url(client.other_path(i)) + "\n" for i in range(client.PATHS))
        argv = client.h2load_argv(ends[tls], fields, CONNS, streams, f"-n{n}", f"-i{uris}")
        client.h2load_run(lab, argv[:-1])  # without the one URL
    return drive


def by_new_values(tls, fields, streams):
    values = client.NewValues(fields)
    return lambda lab, server, ends, n: client.drive(ends[tls], fields, CONNS, streams, n, values)


def by_h1(tls, script):
    if tls:
        return lambda lab, server, ends, n: bench_tls.drive_hits(ends[True].port, "/1k", 1, n)
    load = bench_load.Load("h1", "", "/1k", 64, script)
    return lambda lab, server, ends, n: bench_callgrind.drive(server.h1, load, n)


def rows_of(tls):
    few, browser = client.few_fields(), client.browser_fields()
    rows = []
    for name, fields in (("few fields", few), ("browser", browser)):
        rows += [Row(f"{name}, seen, by {m}", by_h2load(tls, fields, m), CONNS * m) for m in STREAMS]
        rows.append(Row(f"{name}, new path, by 4", by_new_paths(tls, fields, 4), CONNS * 4))
        rows += [Row(f"{name}, new value and path, by {m}", by_new_values(tls, fields, m), CONNS * m)
                 for m in STREAMS]
    rows += [Row("16 KiB, by 4", by_h2load(tls, few, 4, "/16k"), CONNS * 4, 800),
             Row("1 MiB, by 4", by_h2load(tls, few, 4, "/1m"), CONNS * 4, 64)]
    if not tls:
        rows.append(Row("1,000 connections", by_h2load(tls, few, 1, conns=1000), 1000, 4000))
    rows.append(Row("HTTP/1.1", by_h1(tls, "hit.lua"), bench_tls.CONNS if tls else 64, 3200))
    if not tls:
        rows.append(Row("HTTP/1.1, browser", by_h1(tls, "browser.lua"), 64, 3200))
    return rows


class Counted:
    """A server under callgrind, which is asked for its count again and again."""

    def __init__(self, lab, server, path="/1k"):
        self.lab, self.server, self.dumps = lab, server, 0
        self.out = lab.path(f"callgrind.h2.{server.name}")
        port = lab.port()
        self.proc = lab.start(f"callgrind-h2-{server.name}",
                              ["valgrind", "--tool=callgrind", f"--callgrind-out-file={self.out}",
                               *server.counted_argv(port, path)],
                              lab.server_cpu, ready=getattr(server, "word", None), port=port,
                              seconds=bench_callgrind.READY_SECONDS)
        self.ends = server.ends(port)

    def since(self):
        """Instructions since it was asked last."""
        time.sleep(0.2)
        try:
            subprocess.run(["vgdb", f"--pid={self.proc.popen.pid}", "dump"], check=True, capture_output=True,
                           timeout=VGDB_SECONDS)
        except subprocess.SubprocessError as e:
            raise BenchError(f"valgrind's vgdb: {e}: {(e.stderr or b'').decode()[-200:]}") from e
        self.dumps += 1
        total = 0
        for path in glob.glob(f"{self.out}.{self.dumps}*"):
            total += bench_callgrind.total_of(path)
            os.remove(path)
        return total

    def run(self, row, n):
        row.drive(self.lab, self.server, self.ends, n)

    def cost(self, row):
        """User instructions of one request."""
        self.run(row, row.step)  # the miss, and what is remembered of a second request
        self.run(row, row.step)
        asked = self.server.origin.requests()
        self.since()
        self.run(row, row.step)
        few = self.since()
        self.run(row, row.step + row.slope)
        many = self.since()
        if (missed := self.server.origin.requests() - asked) > 0:
            raise BenchError(f"{missed} requests of {row.title!r} were no hits")
        return (many - few) / row.slope

    def stop(self):
        self.proc.popen.terminate()
        try:
            self.proc.popen.wait(bench_callgrind.READY_SECONDS)
        except subprocess.TimeoutExpired:
            pass
        self.lab.stop(self.proc)


def way(tls):
    return "TLS" if tls else "plain"


def count_server(lab, server, found):
    """Puts (TLS, title) -> instructions into `found`; a row that fails costs its own figure only."""
    counted = Counted(lab, server)
    try:
        for tls in (False, True):
            client.fetch_all(counted.ends[tls], [client.other_path(i) for i in range(client.PATHS)])
            for row in rows_of(tls):
                progress(f"h2 callgrind {server.name} {way(tls)} {row.title}")
                try:
                    found[tls, row.title, server.name] = counted.cost(row)
                except (BenchError, OSError, subprocess.TimeoutExpired) as e:
                    print(f"{server.name}, {way(tls)}, {row.title}: {e}", flush=True)
                    if not counted.proc.alive():
                        return
    finally:
        counted.stop()


def count_all(lab, servers):
    found, table, rows = {}, [], []
    for server in servers:
        try:
            count_server(lab, server, found)
        except (BenchError, OSError) as e:
            print(f"{server.name} under valgrind: {e}", flush=True)
    progress()
    for tls in (False, True):
        for row in rows_of(tls):
            line = [f"{way(tls)}: {row.title}"]
            for server in servers:
                got = found.get((tls, row.title, server.name))
                line.append(number(got))
                rows.append({"tls": tls, "load": row.title, "server": server.name, "user_instructions": got})
            table.append(line)
    print_table(["user instructions", *(s.name for s in servers)], table)
    return rows


# ---- time

# title, TLS, browser, path, connections, streams, HTTP/1.1
TIMED = (
    ("1 KiB, by 1", False, False, "/1k", 64, 1, False),
    ("1 KiB, browser, by 4", False, True, "/1k", 16, 4, False),
    ("1 KiB, browser, by 4", True, True, "/1k", 16, 4, False),
    ("16 KiB, by 4", True, False, "/16k", 16, 4, False),
    ("1 MiB, by 4", False, False, "/1m", 4, 4, False),
    ("1 KiB, 1,000 connections", False, False, "/1k", 1000, 1, False),
    ("HTTP/1.1, 1 KiB", False, False, "/1k", 64, 1, True),
)


def percentile(ordered, part):
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))]


def timed_sample(lab, server, at, seconds):
    """CPU microseconds of a request, requests a second, p50 and p99 in microseconds."""
    _, tls, browser, path, conns, streams, h1 = at
    proc, port = server.at(path)
    end = server.ends(port)[tls]
    if h1:
        end = client.End(server.h1, False)
    log = lab.path("h2load.log")
    fields = client.browser_fields() if browser else client.few_fields()
    more = ["--h1"] if h1 else []
    argv = client.h2load_argv(end, fields, conns, streams, f"-D{seconds}", f"--log-file={log}", *more, path=path)
    client.h2load_run(lab, client.h2load_argv(end, (), 1, 1, "-n8", *more, path=path))  # the miss
    t0 = proc.cpu()[0]
    client.h2load_run(lab, argv, seconds + client.STALL_SECONDS)
    t1 = proc.cpu()[0]
    with open(log, encoding="ascii") as f:
        took = sorted(int(line.split()[2]) for line in f)
    os.remove(log)
    if not took:
        raise BenchError(f"{server.name}: no request completed")
    return {"cpu_us": (t1 - t0) / 1000 / len(took), "per_s": len(took) / seconds,
            "p50_us": percentile(took, 0.5), "p99_us": percentile(took, 0.99)}


def time_all(lab, servers, args):
    load = os.getloadavg()[0]
    table, rows = [], []
    for at in TIMED:
        samples = {}
        for turn in range(args.samples):
            for server in servers[turn % len(servers):] + servers[:turn % len(servers)]:
                progress(f"h2 {turn + 1}/{args.samples} {at[0]} {server.name}")
                try:
                    samples.setdefault(server.name, []).append(timed_sample(lab, server, at, args.seconds))
                except (BenchError, OSError, subprocess.TimeoutExpired) as e:
                    print(f"{server.name}, {way(at[1])}, {at[0]}: {e}", flush=True)
        for server in servers:
            mine = samples.get(server.name)
            row = {key: statistics.median(s[key] for s in mine) if mine else None
                   for key in ("cpu_us", "per_s", "p50_us", "p99_us")}
            rows.append({"load": at[0], "tls": at[1], "server": server.name, "noisy": load > 1,
                         "load_average": load, **row, "samples": mine})
            table.append([f"{way(at[1])}: {at[0]}", server.name, number(row["cpu_us"], 2), number(row["per_s"]),
                          number(row["p50_us"]), number(row["p99_us"])])
    progress()
    print_table(["load", "server", "CPU us", "requests/s", "p50 us", "p99 us"], table, left=2)
    if load > 1:
        print(f"\nNOISY: the load average was {load:.1f} before the first sample: compare within a row at most")
    return rows


# ---- memory

def h1_asked(end):
    s = (bench_tls.connect(bench_tls.context(), end.port) if end.tls
         else socket.create_connection(("127.0.0.1", end.port), 60))
    bench_tls.ask(s, end.port, "/1k")
    bench_tls.hear(s)
    return s


def session(end):
    """It has been greeted, and has asked nothing."""
    c = client.Connection(end)
    c.hear(settings=True)
    return c


KINDS = (("document", "navigate", "text/html,application/xhtml+xml;q=0.9,*/*;q=0.8", "u=0, i"),
         ("style", "no-cors", "text/css,*/*;q=0.1", "u=0"), ("script", "no-cors", "*/*", "u=1"),
         ("image", "no-cors", "image/avif,image/webp,image/apng,image/svg+xml,*/*;q=0.8", "u=5, i"))


@functools.lru_cache
def page(end):
    """Requests for a page and nine things on it, as a browser sends them: fields differ by what is asked for."""
    talk, out = client.Talk(end, client.browser_fields()), []
    for n in range(10):
        dest, mode, accept, priority = KINDS[min(n, 3)]
        own = {"sec-fetch-dest": dest, "sec-fetch-mode": mode, "accept": accept, "priority": priority}
        talk.fields = [(name, own.get(name, value)) for name, value in client.browser_fields()
                       if n == 0 or name not in ("upgrade-insecure-requests", "sec-fetch-user")]
        out.append(talk.request("/1k"))
    return out


def busy(end):
    c = session(end)
    for request in page(end):
        c.send(request, 1)
        c.hear()
    return c


STATES = (("HTTP/1.1, one request", h1_asked), ("HTTP/2, none yet", session),
          ("HTTP/2, 10 browser requests", busy), ("the same, idle for three seconds", busy))
IDLE_STATE, IDLE_S = STATES[3][0], 3  # tarnd packs its table after two


def held_bytes(lab, server, tls, open_one, idle_s):
    """(resident, charged or None) of a connection; the first are there to have all else ready."""
    port = lab.port()
    proc = server.launch(port, "/1k")
    try:
        end = server.ends(port)[tls]
        if open_one is h1_asked and not tls:
            end = client.End(server.h1, False)
        charged = getattr(server, "charged", lambda: None)
        held = [open_one(end) for _ in range(bench_memory.WARM_UP)]
        time.sleep(idle_s)
        before, charged_before = bench_memory.settled(proc), charged()
        held += [open_one(end) for _ in range(SESSIONS)]
        time.sleep(idle_s)
        resident = (bench_memory.settled(proc) - before) / SESSIONS
        each = (charged() - charged_before) / SESSIONS if charged_before is not None else None
        for c in held:
            c.close()
        return resident, each
    finally:
        lab.stop(proc)


def memory_all(lab, servers):
    bench_memory.raise_file_limit(3 * SESSIONS)
    table, rows = [], []
    for tls in (False, True):
        for title, open_one in STATES:
            line = [f"{way(tls)}: {title}"]
            for server in servers:
                progress(f"h2 memory {way(tls)} {title} {server.name}")
                resident = charged = None
                try:
                    fresh = type(server)(lab, server.origin)
                    fresh.pem = server.pem
                    resident, charged = held_bytes(lab, fresh, tls, open_one,
                                                   IDLE_S if title == IDLE_STATE else 0)
                except (BenchError, OSError) as e:
                    print(f"{server.name}, {line[0]}: {e}", flush=True)
                rows.append({"tls": tls, "state": title, "server": server.name, "resident": resident,
                             "charged": charged})
                line.append(number(resident) + (f" ({charged:,.0f})" if charged is not None else ""))
            table.append(line)
    progress()
    print_table([f"bytes of each of {SESSIONS:,} (charged)", *(s.name for s in servers)], table)
    return rows


# ---- the section

def beyond_tls(memory, state, key):
    """What a session holds besides what TLS does: TLS is what it adds to a connection of HTTP/1.1."""
    of = {(r["tls"], r["state"]): r[key] for r in memory if r["server"] == "tarnd"}
    h1 = STATES[0][0]
    parts = of.get((True, state)), of.get((True, h1)), of.get((False, h1))
    return None if None in parts else parts[0] - parts[1] + parts[2]


def bounds_of(counted, memory):
    of = {(r["tls"], r["load"]): r["user_instructions"] for r in counted if r["server"] == "tarnd"}
    out = []
    if counted:
        out += [bound(f"HTTP/2 without TLS, browser, seen, by {m}: user instructions",
                      of.get((False, f"browser, seen, by {m}")), BROWSER_MOST) for m in STREAMS]
        out.append(bound("HTTP/1.1 on a listener with h2c: user instructions", of.get((False, "HTTP/1.1")), H1_MOST))
    if memory:
        for state, most in ((STATES[1][0], SESSION_MOST), (IDLE_STATE, BUSY_MOST)):
            for key in ("charged", "resident"):
                out.append(bound(f"{state}, beyond TLS: {key}", beyond_tls(memory, state, key), most, unit="bytes"))
    return out


def run(lab, args):
    if not bench_servers.which("h2load"):
        raise BenchError("h2load is missing: scripts/bench --install (Debian: nghttp2-client)")
    valgrind = not args.quick and bench_servers.which("valgrind") and bench_servers.which("vgdb")
    pem = bench_tls.make_certificate(lab)
    origin = bench_servers.Origin(lab)
    servers = bench_servers.choose(lab, origin, args.servers, (TarnH2, TarnH2NoMemo, NginxH2, HaproxyH2))
    for server in servers:
        server.pem = pem
    compared = [s for s in servers if not isinstance(s, TarnH2NoMemo)] or servers
    timed = time_all(lab, compared, args)  # first: what comes behind it is load of our own
    for proc in list(lab.procs):
        if proc is not origin.proc:
            lab.stop(proc)
    print()
    memory = memory_all(lab, compared)
    print()
    counted = count_all(lab, servers) if valgrind else []
    if not valgrind:
        print("user instructions: n/a " + ("(valgrind is not run by --quick)" if args.quick else
                                           "(valgrind is missing: scripts/bench --install)"))
    bounds = bounds_of(counted, memory)
    print_bounds(bounds)
    return {"mode": "h2", "rows": counted, "time": timed, "memory": memory, "bounds": bounds}
