"""A day of a site's traffic: bytes sent, CPU time and memory, with compression off, by gzip, and with shorter forms.

800 pages of HTML by Zipf's law, their scripts, styles and images, from browsers that keep what they have, some with
dictionaries (RFC 9842), and from clients that accept gzip or nothing.  bench_day_site.py makes it of a seed,
bench_day_play.py plays it.  The day takes 90 s.  A page is fresh for 15 or 30 s of these, which are 4 or 8 hours of the
day (forms need 10 s, however long a day is); all else for the day.  The recoder's budget shrinks with the day: 5 % are
4.5 s here, and 72 minutes of a real one.  So 100 % is nearest to what 5 % of a day make of so little traffic.
"""

import http.client
import json
import os
import socket
import statistics
import subprocess
import sys
import time

import bench_day_site
from bench_churn import MIB, Follow, admin_get, resident
from bench_load import number, print_table
from bench_proc import HERE, BenchError, progress
from bench_results import bound, print_bounds

PLAY = os.path.join(HERE, "bench_day_play.py")
FORMS = "{{ formats: [gzip, br, zstd], background_cpu: {}% }}"
VARIANTS = {"off": "off", "gzip": "{ formats: [gzip] }", "forms 5%": FORMS.format(5), "forms 20%": FORMS.format(20),
            "forms 100%": FORMS.format(100)}
TICKS = os.sysconf("SC_CLK_TCK")
PER_SECOND = 600    # requests
CLIENTS = 4         # processes
# What they may be charged, with what an allocation takes beside its bytes.
DICTIONARIES = 1.1 * sum(size * (1 + len(bench_day_site.VERSIONS.get(name, ())))
                         for name, size in bench_day_site.BUNDLES.items())
READY_S = 120       # until a process has made the site's texts and the trace, at most
SETTLE_S = 8        # after everything is purged
LEFT_MOST = 0.01    # of what was charged for objects, when all are purged
SAVED_LEAST = 0.02  # of what gzip sends, by forms at 20 %


def admin_post(path, target, body):
    conn = http.client.HTTPConnection("tarn")
    conn.sock = socket.socket(socket.AF_UNIX)
    conn.sock.settimeout(20)
    try:
        conn.sock.connect(path)
        conn.request("POST", target, json.dumps(body), {"Content-Type": "application/json"})
        answer = conn.getresponse()
        if answer.status >= 300:
            raise BenchError(f"{target}: {answer.status} {answer.read().decode(errors='replace')}")
    finally:
        conn.close()


def content(admin):
    """Bytes charged for objects: bodies, heads and all."""
    return admin_get(admin, "/v1/memory")["total"]["parts"]["content"]["bytes"]


class Day:
    """One tarnd and the origin, for one variant."""

    def __init__(self, lab, name, seconds):
        self.lab, self.name, self.seconds = lab, name, seconds
        self.port, origin_port = lab.port(), lab.port()
        self.admin, shm = lab.path(f"admin-{self.port}"), lab.path(f"shm-{self.port}")
        self.begin = lab.path(f"begin-{self.port}")
        self.origin = lab.start(
            f"origin-{origin_port}", [sys.executable, PLAY, "origin", str(origin_port), self.begin, str(seconds)],
            ready="origin: ready", seconds=READY_S)
        os.mkdir(shm)
        conf = lab.template("tarn_day.yaml.in", f"tarn-{self.port}.yaml", PORT=self.port, ADMIN=self.admin,
                            COMPRESS=VARIANTS[name], ORIGIN=origin_port, SHM=shm)
        self.proc = lab.start(f"tarnd-{self.port}", [lab.program("tarnd"), "-c", conf], ready="tarnd: ready")
        self.pid = self.proc.popen.pid

    def play(self):
        """What the clients say, added up."""
        requests = PER_SECOND * self.seconds
        procs = [self.lab.start(f"clients-{self.port}-{n}", [
            sys.executable, PLAY, "clients", str(self.port), self.begin, str(self.seconds), str(requests), str(n),
            str(CLIENTS)], ready="clients: ready", seconds=READY_S) for n in range(CLIENTS)]
        with open(self.begin + ".new", "w", encoding="ascii") as f:
            f.write(str(time.monotonic()))
        os.replace(self.begin + ".new", self.begin)
        said, until = [], time.monotonic() + 3 * self.seconds + READY_S
        for proc in procs:
            try:
                proc.popen.wait(max(1, until - time.monotonic()))
            except subprocess.TimeoutExpired as e:
                raise BenchError(f"{self.name}: the clients did not come to an end") from e
            if proc.popen.returncode != 0:
                raise BenchError(f"{self.name}: clients failed:\n{proc.tail()}")
            with open(proc.log, encoding="utf-8") as f:
                said.append(json.loads(f.readlines()[-1]))
            self.lab.stop(proc)
        codings = {}
        for one in said:
            for coding, (count, size) in one["codings"].items():
                old = codings.get(coding, (0, 0))
                codings[coding] = (old[0] + count, old[1] + size)
        took = sorted(t for one in said for t in one["took"])
        return {"codings": codings, "p50_ms": statistics.median(took) * 1e3,
                "p99_ms": took[len(took) * 99 // 100] * 1e3,
                "with_dictionary": sum(one["with_dictionary"] for one in said),
                "late_s": max(one["late"] for one in said), "checked": sum(one["checked"] for one in said),
                "nbad": sum(one["nbad"] for one in said), "bad": [b for one in said for b in one["bad"]]}

    def run(self):
        follow, charged, before = Follow(self.pid), content(self.admin), self.proc.cpu()
        counters = admin_get(self.admin, "/v1/counters")
        out = {"variant": self.name, **self.play()}
        after, now = self.proc.cpu(), admin_get(self.admin, "/v1/counters")
        out.update(cpu_s=(after[0] - before[0]) / 1e9, user_s=(after[1] - before[1]) / TICKS,
                   kernel_s=(after[2] - before[2]) / TICKS,
                   counters={k: v - counters.get(k, 0) for k, v in now.items()},
                   charged=content(self.admin) - charged, resident=resident(self.pid)[0])
        if not self.proc.alive():
            raise BenchError(f"tarnd ended:\n{self.proc.tail()}")
        admin_post(self.admin, "/v1/purge", {"tags": ["day"]})
        time.sleep(SETTLE_S)
        follow.stop()
        out.update(left=content(self.admin) - charged, left_resident=resident(self.pid)[0], peak=max(follow.rss),
                   dictionaries=DICTIONARIES if out["counters"]["compress.dictionaries"] else 0)
        self.lab.stop(self.proc)
        self.lab.stop(self.origin)
        return out


def figures(row):
    """What the table shows, by names."""
    c = row["counters"]
    recode_s = c["compress.recode_cpu"] / 1e6
    return {"requests": c["req.total"], "hits": 100 * c["req.hit"] / c["req.total"],
            "sent_mb": c["resp.body_bytes"] / 1e6,
            "saved_mb": c["compress.saved_bytes"] / 1e6, "recode_s": recode_s,
            "saved_per_s": c["compress.saved_bytes"] / 1e6 / recode_s if recode_s else None}


def report(rows):
    shown = {r["variant"]: figures(r) for r in rows}
    plain = shown.get("off", {}).get("sent_mb")

    def line(title, value, digits=0):
        return [title, *(number(value(r, shown[r["variant"]]), digits) for r in rows)]

    def count(name):
        return lambda r, f: r["counters"][f"compress.{name}"]

    def coding(name):
        return lambda r, f: r["codings"].get(name, (0, 0))[0]

    table = [line("requests", lambda r, f: f["requests"]), line("hit ratio, %", lambda r, f: f["hits"], 1),
             line("bodies sent, MB", lambda r, f: f["sent_mb"], 1),
             line("of those without compression, %", lambda r, f: 100 * f["sent_mb"] / plain if plain else None, 1),
             line("saved by shorter forms, MB", lambda r, f: f["saved_mb"], 1),
             line("CPU time of tarnd, s", lambda r, f: r["cpu_s"], 1),
             line("  of it user", lambda r, f: r["user_s"], 1), line("  of it kernel", lambda r, f: r["kernel_s"], 1),
             line("  of it the recoder's", lambda r, f: f["recode_s"], 2),
             line("  all else, us a request", lambda r, f: (r["cpu_s"] - f["recode_s"]) * 1e6 / f["requests"]),
             line("saved a CPU second of the recoder, MB", lambda r, f: f["saved_per_s"], 1),
             *(line(f"compress.{name}", count(name)) for name in ("recoded", "barren", "dictionaries", "unpacked")),
             *(line(f"responses in {name}", coding(name)) for name in ("none", "gzip", "br", "zstd", "dcz")),
             line("  of requests with a dictionary", lambda r, f: r["with_dictionary"]),
             line("charged for objects, MiB", lambda r, f: r["charged"] / MIB, 1),
             line("resident at the end, MiB", lambda r, f: r["resident"] / MIB, 1),
             line("  at most", lambda r, f: r["peak"] / MIB, 1),
             line("charged when all is purged, MiB", lambda r, f: r["left"] / MIB, 2),
             line("resident then, MiB", lambda r, f: r["left_resident"] / MIB, 1),
             line("p50, ms", lambda r, f: r["p50_ms"], 2), line("p99, ms", lambda r, f: r["p99_ms"], 2)]
    print_table(["", *shown], table)
    print("\nin none: also images; all else: with misses, packing and unpacking; at most 4 requests at a time;\n"
          "what is charged when all is purged: dictionaries, which are for the next version\n")
    for r in rows:
        print(f"{r['variant']}: {r['checked']:,} bodies compared, {r['nbad']} wrong; {r['late_s']:.1f} s late")
    for r in rows:
        for text in r["bad"]:
            print(f"{r['variant']}: {text}")


def bounds_of(rows):
    by = {r["variant"]: r for r in rows}
    out = [bound("bodies of the day that were wrong", sum(r["nbad"] for r in rows), 0),
           bound("charged when all is purged, without dictionaries, of what was",
                 max((r["left"] - r["dictionaries"]) / r["charged"] for r in rows), LEFT_MOST, digits=3)]
    if "gzip" in by and "forms 20%" in by:
        sent, gzip = figures(by["forms 20%"])["sent_mb"], figures(by["gzip"])["sent_mb"]
        out.append(bound("bytes that forms save of gzip's, at 20 %", 1 - sent / gzip, least=SAVED_LEAST, digits=3))
    return out


def run(lab, args):
    if lab.program("tarnd") is None:
        raise BenchError(f"no bin/tarnd in {lab.build}")
    rows = []
    for name in VARIANTS:
        progress(f"a day, {name}")
        rows.append(Day(lab, name, args.seconds).run())
    progress()
    report(rows)
    bounds = bounds_of(rows)
    print_bounds(bounds)
    return {"rows": rows, "bounds": bounds}
