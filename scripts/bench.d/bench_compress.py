"""Bodies that are packed on their way: CPU time a megabyte, what a hit costs then, and memory.

An origin serves text that is not packed.  First no URL comes twice and clients accept gzip, so that
each body is received, packed and sent: with tarnd, nginx (without a cache, and with one) and
Varnish.  Then hits on what is stored packed, for clients that accept gzip and for those that do not,
for which each body is unpacked anew.  Last what is charged of 1,000 objects, and of slow readers.
"""

import copy
import gzip
import http.client
import os
import re
import statistics
import time

import bench_callgrind
import bench_corpus
import bench_load
import bench_servers
from bench_churn import admin_get, resident
from bench_load import Load, number, paired, print_table
from bench_memory import connect, request
from bench_proc import BenchError
from bench_results import bound, print_bounds

GZIP = (("Accept-Encoding", "gzip"),)
JS, PAGE = "app.js", "page.html"
SIZES = {JS: 372_000, PAGE: 76_000, "1k.html": 1024, "16k.html": 16 << 10, "8m.js": 8 << 20}
PACKED = "packed-1k.html"  # as long as it must be to have 1 KiB when it is packed
CONNS = 8           # fewer than the bodies that a worker of tarnd packs at a time
CORE_LEAST = 250    # MB of input a second of CPU time
NGINX_TIMES = 5     # as fast as nginx that packs at its level 1
LARGER_MOST = 1.05  # what is sent, beside nginx at level 1
HIT_MOST = 60       # user instructions that a packed hit takes beyond a plain one
OBJECTS, READERS, WARM_UP = 1000, 100, 8

WAYS = [Load(f"{conns} {name}", f"{name}, {conns} connection{'s' * (conns > 1)}", f"/{name}", conns,
             "unique.lua", (f"/{name}?",), fields=GZIP)
        for conns in (CONNS, 1) for name in (JS, PAGE)]
HITS = [Load(f"{kind} {name}", f"{name}, {kind}", f"/{name}", CONNS, fields=fields)
        for kind, fields in (("gzip", GZIP), ("unpacked", ())) for name in ("1k.html", PAGE, JS)]
# What a hit's user instructions are counted of, by the same request with compress on and off.
COUNTED = ("/1k.html", f"/{PACKED}", "/vary/1k.html")


class Origin(bench_servers.Origin):
    """nginx on files of text, on the client's processor."""

    def __init__(self, lab):
        if not bench_servers.which("nginx"):
            raise BenchError("nginx is missing, and the origin needs it: scripts/bench --install")
        files = lab.path("files")
        os.chmod(lab.dir, 0o755)
        os.makedirs(os.path.join(files, "gz"))
        self.bodies = bodies()
        for name, data in self.bodies.items():
            for path, stored in ((name, data), (f"gz/{name}", gzip.compress(data, 6, mtime=0))):
                with open(os.path.join(files, path), "wb") as f:
                    f.write(stored)
        self.port = lab.port()
        conf = lab.template("compress_origin.conf.in", "origin.conf", DIR=lab.dir, FILES=files,
                            PORT=self.port, USER=bench_servers.user_line())
        self.proc = lab.start("origin", [bench_servers.which("nginx"), "-e", "stderr", "-c", conf],
                              lab.client_cpu, port=self.port)


def bodies():
    """name -> bytes of all files."""
    js = bench_corpus.script(SIZES[JS])
    page = bench_corpus.page(SIZES[PAGE])
    out = {name: (js if name.endswith("js") else page) for name in SIZES}
    out = {name: (data * (SIZES[name] // len(data) + 1))[:SIZES[name]]
           for name, data in out.items()}
    size = next(n for n in range(1024, len(page), 16)
                if len(gzip.compress(page[:n], 1)) >= 1024)
    return {**out, PACKED: page[:size]}


class TarnGzip(bench_servers.Tarn):
    name, compress = "tarnd-gzip", "on"

    def argv(self, port, template="tarn_compress.yaml.in"):
        self.admin, shm = self.lab.path(f"admin-{port}"), self.lab.path(f"shm-{port}")
        conf = self.lab.template(template, f"tarn-{port}.yaml", PORT=port, ADMIN=self.admin,
                                 COMPRESS=self.compress, ORIGIN=self.origin.port, SHM=shm)
        return [self.lab.program("tarnd"), "-c", conf]


class TarnPlain(TarnGzip):
    name, compress = "tarnd-plain", "off"


class NginxGzip(bench_servers.Nginx):
    """Level 1, its default.  Without a cache nothing goes into a temporary file."""

    name, level, size = "nginx-gzip-1", 1, "256m"
    keep = "proxy_buffers 32 16k; proxy_max_temp_file_size 0;"

    @property
    def store(self):
        return (f"gzip on; gzip_comp_level {self.level}; gzip_types application/javascript; "
                f"gzip_http_version 1.1; gzip_proxied any; {self.keep}")


class NginxGzip6(NginxGzip):
    name, level = "nginx-gzip-6", 6


class NginxGzipStore(NginxGzip):
    """It stores what came, and packs it for every client."""

    name, keep = "nginx-gzip-1-store", "proxy_cache c; proxy_cache_lock on;"


class NginxGunzip(bench_servers.Nginx):
    """It stores what the origin packed, and unpacks it where it must."""

    name, size = "nginx-gunzip", "256m"
    store = "proxy_cache c; proxy_cache_lock on; gunzip on; rewrite ^/(.*)$ /gz/$1 break;"


class VarnishGzip(bench_servers.Varnish):
    """At its level 6."""

    name, size, template = "varnish-gzip", "256m", "varnish_compress.vcl.in"


ALL = (TarnGzip, TarnPlain, NginxGzip, NginxGzip6, NginxGzipStore, NginxGunzip, VarnishGzip)
NOT_ON_THE_WAY, NOT_OF_HITS = ("nginx-gunzip",), ("nginx-gzip-1", "nginx-gzip-6")


def get(port, path, fields=()):
    """(what is said to be its coding, body)"""
    conn = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        conn.putrequest("GET", path, skip_accept_encoding=True)
        for name, value in fields:
            conn.putheader(name, value)
        conn.endheaders()
        response = conn.getresponse()
        body = response.read()
        if response.status != 200:
            raise BenchError(f"{path}: status {response.status}")
        return response.getheader("Content-Encoding"), body
    finally:
        conn.close()


def packed_bytes(server, name):
    """How long the body is for a client that accepts gzip; it and the unpacked one are right."""
    plain = server.origin.bodies[name]
    port = server.at("/1k")[1]
    lengths = []
    for n in range(3):
        coding, body = get(port, f"/{name}?check-{n}", GZIP)
        lengths.append(len(body))
        if (gzip.decompress(body) if coding == "gzip" else body) != plain:
            raise BenchError(f"{server.name}: {name}: not the origin's bytes")
        if (coding, get(port, f"/{name}?check-{n}")) != (server.coding, (None, plain)):
            raise BenchError(f"{server.name}: {name}: packed, or not, where it should not be")
    return statistics.mean(lengths)


def checked(lab, args, origin):
    """(servers that answer as they must, (server, name) -> bytes sent)"""
    good, sent = [], {}
    for server in bench_servers.choose(lab, origin, args.servers, ALL):
        server.coding = None if server.name == "tarnd-plain" else "gzip"
        try:
            for name in (JS, PAGE, "1k.html"):
                sent[server.name, name] = packed_bytes(server, name)
            good.append(server)
        except (BenchError, OSError) as e:
            print(f"{server.name}: {e}", flush=True)
    if not good:
        raise BenchError("no server to measure")
    return good, sent


def p50_ms(row):
    """The median of the samples' medians, which wrk prints with a unit."""
    units = {"us": 1e-3, "ms": 1, "s": 1e3}
    values = [float(m.group(1)) * units[m.group(2)] for s in row["samples"]
              if (m := re.fullmatch(r"([\d.]+)(us|ms|s)", s["p50"]))]
    return statistics.median(values) if values else None


def say_errors(rows):
    for r in rows:
        if r["errors"]:
            print(f"{r['load']}, {r['server']}: {'; '.join(r['errors'])}")


def on_the_way(lab, args, servers, sent):
    servers = [s for s in servers if s.name not in NOT_ON_THE_WAY]
    alone = copy.copy(args)
    alone.seconds = max(1, args.seconds // 2)
    rows = bench_load.measure(lab, args, servers, WAYS[:2], verify=False)
    waited = bench_load.measure(lab, alone, servers, WAYS[2:], verify=False)
    table = []
    for row, other in zip(rows, waited):
        name = row["load"].split()[1]
        through = sum(s["requests"] for s in row["samples"])
        if row["origin_requests"] < through:
            row["errors"].append("not every request was fetched")
        row["input_mb"] = through * SIZES[name] / 1e6
        row["ratio"] = SIZES[name] / sent[row["server"], name]
        row["core_mb_s"] = SIZES[name] / row["cpu_us"] if row["cpu_us"] else None
        row["p50_ms"] = p50_ms(other)
        table.append([name, row["server"], number(row["core_mb_s"]), number(row["ratio"], 2),
                      number(row["cpu_us"]), number(row["p50_ms"], 2), number(row["input_mb"])])
    print_table(["no URL twice", "server", "MB/s a core", "ratio", "CPU us", "p50 ms", "MB through"],
                table, left=2)
    print(f"\ninput a second of the server's CPU time, {CONNS} connections; input / output; p50 of "
          "one connection alone;\ntarnd-plain: without packing; -1, -6: the level; -store: with "
          "a cache, as tarnd and Varnish have one\n")
    say_errors(rows + waited)
    busy = sum(admin_get(s.admin, "/v1/counters")["compress.busy"] for s in servers
               if isinstance(s, TarnGzip))
    return rows, waited, busy


def bounds_of_ways(rows, busy):
    by = {(r["load"], r["server"]): r for r in rows}
    out = [bound("bodies that went unpacked as too many were packed", busy, 0)]
    for load in WAYS[:2]:
        name = load.path[1:]
        ours, nginx = by.get((load.name, "tarnd-gzip")), by.get((load.name, "nginx-gzip-1"))
        plain = by.get((load.name, "tarnd-plain"))
        if ours is None:
            continue
        out.append(bound(f"packing {name} on the way", ours["core_mb_s"], least=CORE_LEAST,
                         unit="MB/s of input a core"))
        if nginx:
            out.append(bound(f"packing {name} on the way, beside nginx",
                             paired(rows, load.name, "nginx-gzip-1", "tarnd-gzip"),
                             least=NGINX_TIMES, unit="x nginx-gzip-1", digits=2))
            out.append(bound(f"bytes sent of {name}", nginx["ratio"] / ours["ratio"], LARGER_MOST,
                             unit="x nginx-gzip-1", digits=3))
        if plain and plain["cpu_us"] and ours["cpu_us"]:
            codec = SIZES[name] / (ours["cpu_us"] - plain["cpu_us"])
            print(f"{name}: what packing adds to tarnd-plain's time is {codec:,.0f} MB/s")
    return out


def instructions(lab, origin):
    """(path with - for /, server) -> user instructions of a hit for a client that accepts gzip."""
    loads = [Load(path.replace("/", "-"), path, path, 64, fields=GZIP) for path in COUNTED]
    servers = [TarnPlain(lab, origin), TarnGzip(lab, origin)]
    out = bench_callgrind.count_all(lab, servers, loads)
    print_table(["user instructions of a hit asked for as gzip", *(s.name for s in servers)],
                [[load.path, *(number(out.get((load.name, s.name))) for s in servers)]
                 for load in loads])
    print(f"\n1k.html: 1 KiB before it is packed; {PACKED}: 1 KiB afterwards, of "
          f"{len(origin.bodies[PACKED]):,};\n/vary/: the origin says Vary: Accept-Encoding\n")
    return out


def bounds_of_hits(counted):
    out = []
    for what, path in (("1 KiB before", COUNTED[0]), ("1 KiB packed", COUNTED[1])):
        name = path.replace("/", "-")
        plain, packed = counted.get((name, "tarnd-plain")), counted.get((name, "tarnd-gzip"))
        out.append(bound(f"user instructions that packing adds to a hit, {what}",
                         packed - plain if plain and packed else None, HIT_MOST))
    return out


def hits(lab, args, servers):
    servers = [s for s in servers if s.name not in NOT_OF_HITS]
    short = copy.copy(args)
    short.seconds = max(1, args.seconds // 2)
    for server in servers:
        for load in HITS:
            get(server.at(load.path)[1], load.path)
    rows = bench_load.measure(lab, short, servers, HITS, verify=False)
    for r in rows:
        if r["origin_requests"]:
            r["errors"].append("not every request was a hit")
    names = [s.name for s in servers]
    by = {(r["load"], r["server"]): r["cpu_us"] for r in rows}
    print_table(["CPU us of a hit", *names],
                [[load.title] + [number(by[load.name, n], 1) for n in names] for load in HITS])
    print("\ngzip: the client accepts it (tarnd-plain sends it plain; nginx-gzip-1-store packs for "
          "each client);\nunpacked: it does not (tarnd-plain and nginx-gzip-1-store have it plain)\n")
    say_errors(rows)
    return rows


def charged(server):
    """(bytes of the content that is stored, bytes in all)"""
    total = admin_get(server.admin, "/v1/memory")["total"]
    return total["parts"]["content"]["bytes"], total["bytes"]


def per_object(server, port):
    conn = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    for n in range(WARM_UP + OBJECTS):
        if n == WARM_UP:
            time.sleep(1.5)
            before = charged(server)[0]
        conn.request("GET", f"/o/{n}", headers=dict(GZIP))
        conn.getresponse().read()
    conn.close()
    time.sleep(1.5)
    return (charged(server)[0] - before) / OBJECTS


def per_reader(server, proc, port):
    """(charged, resident) of each client that takes 8 MiB slowly, and not as gzip."""
    get(port, "/8m.js")
    held = []

    def more(count):
        for _ in range(count):
            held.append(connect(port, 4096))
            held[-1].sendall(request("/8m.js"))
            held[-1].recv(100)
        time.sleep(1.5)
        return charged(server)[1], resident(proc.popen.pid)[0]

    before = more(WARM_UP)
    after = more(READERS)
    for s in held:
        s.close()
    return [(b - a) / READERS for a, b in zip(before, after)]


def memory(lab, args, origin):
    out = {}
    for server in bench_servers.choose(lab, origin, args.servers, (TarnPlain, TarnGzip)):
        proc, port = server.at("/1k")
        each, (took, rss) = per_object(server, port), per_reader(server, proc, port)
        out[server.name] = {"object": each, "reader": took, "reader_resident": rss}
    if not out:
        return out
    print_table(["bytes", *out],
                [[title, *(number(r[key]) for r in out.values())] for title, key in (
                    (f"charged of an object of 16 KiB ({OBJECTS:,})", "object"),
                    (f"charged of a slow reader of 8 MiB, unpacked ({READERS})", "reader"),
                    ("resident of the same", "reader_resident"))])
    return out


def run(lab, args):
    origin = Origin(lab)
    servers, sent = checked(lab, args, origin)
    ways, waited, busy = on_the_way(lab, args, servers, sent)
    bounds = bounds_of_ways(ways, busy)
    counted = {}
    ours = lab.program("tarnd") and (not args.servers or "tarnd-gzip" in args.servers)
    if not args.quick and bench_servers.which("valgrind") and ours:
        print()
        counted = instructions(lab, origin)
    bounds += bounds_of_hits(counted)
    print()
    of_hits = hits(lab, args, servers)
    took = memory(lab, args, origin) if ours else {}
    print_bounds(bounds)
    return {"ways": ways, "one_connection": waited, "hits": of_hits, "memory": took,
            "instructions": {f"{server} {path}": n for (path, server), n in counted.items()},
            "bounds": bounds}
