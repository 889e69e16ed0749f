"""A purge by tag of 10,000 objects among 1,000,000: how long, and what others notice of it.

Objects have four tags.  One client asks for what is stored, another the management loop, each
every millisecond, over connections to all loops; their slowest answers while a purge is under
way stand beside the slowest of as long a time without one.
"""

import gc
import http.client
import json
import multiprocessing
import os
import signal
import socket
import statistics
import time

import bench_memory
from bench_load import number, print_table
from bench_proc import HERE, BenchError, progress
from bench_results import bound

OBJECTS, GROUPS, BODY = 1_000_000, 100, 100
LOADERS, DEPTH = 16, 32
CONNECTIONS = 8          # of the client, so that both workers have some
EVERY_S = 0.001
PURGE_MS_MAX, BLIP_MS_MAX = 100, 5
AROUND_S = 0.2           # before and behind a purge


class Admin(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("tarn", timeout=60)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(60)
        self.sock.connect(self.path)

    def ask(self, method, path, body=None):
        self.request(method, path, body=None if body is None else json.dumps(body))
        answer = self.getresponse()
        text = answer.read()
        if answer.status != 200:
            raise BenchError(f"{method} {path}: {answer.status} {text[:200]!r}")
        return json.loads(text)


def launch(lab):
    origin = lab.port()
    lab.start("origin", [lab.program("bench-responder"), str(origin), str(BODY),
                         "Cache-Control: max-age=315360000"], ready="responder: ready")
    port, admin = lab.port(), lab.path("admin.sock")
    conf = lab.template("tarn_tags.yaml.in", "tarn-tags.yaml", PORT=port, ORIGIN=origin,
                        ADMIN=admin, SHM=lab.path("shm-tags"),
                        VCL=os.path.join(HERE, "tarn_tags.vcl"))
    lab.start("tarnd", [lab.program("tarnd"), "-c", conf], ready="tarnd: ready")
    return port, admin


def fill(port):
    """Each object once: number n is in group n % GROUPS."""
    sockets = [bench_memory.connect(port) for _ in range(LOADERS)]
    step = LOADERS * DEPTH
    for at in range(0, OBJECTS, step):
        if at % (step * 100) == 0:
            progress(f"storing: {at:,} of {OBJECTS:,}")
        asked = []
        for i, s in enumerate(sockets):
            first = at + i * DEPTH
            many = range(first, min(first + DEPTH, OBJECTS))
            s.sendall(b"".join(bench_memory.request(f"/t/{n % GROUPS}/{n}") for n in many))
            asked.append((s, len(many)))
        for s, n in asked:
            if n > 0:
                bench_memory.read_answers(s, n, BODY)
    for s in sockets:
        s.close()
    progress()


def watch(pipe, sockets, request):
    """Asks every millisecond until it is told to end; [(when, seconds)]."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    gc.disable()
    took, n, due = [], 0, time.perf_counter()
    while not pipe.poll():
        s = sockets[n % len(sockets)]
        began = time.perf_counter()
        s.sendall(request)
        if not s.recv(65536).startswith(b"HTTP/1.1 200"):
            break
        took.append((began, time.perf_counter() - began))
        n += 1
        due = max(due + EVERY_S, took[-1][0])
        time.sleep(max(0, due - time.perf_counter()))
    pipe.send(took)


class Watcher:
    def __init__(self, connect, count, request):
        context = multiprocessing.get_context("fork")
        self.pipe, theirs = context.Pipe()
        self.sockets = [connect() for _ in range(count)]
        self.process = context.Process(target=watch, args=(theirs, self.sockets, request),
                                       daemon=True)
        self.process.start()

    def end(self):
        self.pipe.send(None)
        took = self.pipe.recv()
        self.process.join()
        for s in self.sockets:
            s.close()
        if not took:
            raise BenchError("a client that asks every millisecond got no answer")
        return took


def unix(path):
    s = socket.socket(socket.AF_UNIX)
    s.connect(path)
    return s


def slowest_ms(took, first, last):
    return max((s for at, s in took if at + s >= first and at <= last), default=0) * 1000


def measure(port, admin, hot, group, soft):
    """One purge, and as long a time without one before it."""
    watchers = (Watcher(lambda: bench_memory.connect(port), CONNECTIONS,
                        bench_memory.request(hot)),
                Watcher(lambda: unix(admin), 1, b"GET /healthz HTTP/1.1\r\nHost: tarn\r\n\r\n"))
    operator = Admin(admin)
    operator.ask("GET", "/v1/status")
    time.sleep(AROUND_S * 3)
    began = time.perf_counter()
    got = operator.ask("POST", "/v1/purge", {"tag": f"group-{group}", "soft": soft})
    ended = time.perf_counter()
    time.sleep(AROUND_S)
    operator.close()
    clients, managed = (w.end() for w in watchers)
    quiet = (began - AROUND_S * 2, began - AROUND_S)
    busy = (began, ended + AROUND_S)
    return {"soft": soft, "purged": got["purged"], "ms": (ended - began) * 1000,
            "client_ms": slowest_ms(clients, *busy), "client_quiet_ms": slowest_ms(clients, *quiet),
            "manage_ms": slowest_ms(managed, *busy), "manage_quiet_ms": slowest_ms(managed, *quiet),
            "asked": len(clients)}


def run(lab, args):
    port, admin = launch(lab)
    fill(port)
    memory = Admin(admin).ask("GET", "/v1/memory")
    hot = f"/t/{GROUPS - 1}/{GROUPS - 1}"
    rows = [measure(port, admin, hot, n, False) for n in range(max(args.samples, 2))]
    rows += [measure(port, admin, hot, GROUPS // 2 + n, True) for n in range(2)]
    print_table([f"purge of 1 tag among {OBJECTS:,} objects", "objects", "ms", "slowest hit ms",
                 "without", "slowest answer of the management loop ms", "without"],
                [["soft" if r["soft"] else "hard", number(r["purged"]), number(r["ms"], 1),
                  number(r["client_ms"], 2), number(r["client_quiet_ms"], 2),
                  number(r["manage_ms"], 2), number(r["manage_quiet_ms"], 2)] for r in rows])
    for r in rows:
        if r["purged"] != OBJECTS // GROUPS:
            print(f"{OBJECTS // GROUPS - r['purged']} objects were not found: evicted, or moved "
                  "in the index just then")
    ms = statistics.median(r["ms"] for r in rows)
    return {"rows": rows, "memory": memory, "bounds": [
        bound(f"purge of {OBJECTS // GROUPS:,} objects of a tag among {OBJECTS:,}", ms,
              PURGE_MS_MAX, unit="ms", digits=1),
        bound("the slowest hit meanwhile", max(r["client_ms"] for r in rows), BLIP_MS_MAX,
              unit="ms", digits=2),
        bound("the slowest answer of the management loop meanwhile",
              statistics.median(r["manage_ms"] for r in rows), BLIP_MS_MAX, unit="ms",
              digits=2)]}
