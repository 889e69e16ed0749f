"""Does a hit cost the same whatever is stored and however many are connected?

tarnd runs under callgrind with its counting off while it is filled with N small objects from
bench-responder, which is most of the time this takes; then requests for keys drawn from all of them
are counted.  Cache misses are those of valgrind's simulated caches (a first level and a
last level of this processor's sizes, no prefetching), not the processor's own.
"""

import http.client
import json
import random
import re
import selectors
import socket
import subprocess
import time

from bench_load import number, print_table
from bench_proc import BenchError, progress
from bench_servers import which

# objects, connections; the first is what the others are compared with
ROWS = ((1000, 64), (1000, 1000), (100000, 64), (2000000, 64))
QUICK = ((1000, 64), (1000, 1000), (100000, 64))
BODY = 100           # bytes
FILL_CONNS, FILL_DEPTH = 32, 256
WARM, COUNTED = 4000, 20000
READY_SECONDS = 120
STALL_SECONDS = 120
ALLOWED = 5.0        # per cent
EVENTS = ("Ir", "D1mr", "D1mw", "DLmr", "DLmw")


class Conn:
    """Counts answers by their first line, which no body contains."""

    MARK = b"HTTP/1.1 200 "

    def __init__(self, port):
        self.sock = socket.create_connection(("127.0.0.1", port), 60)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.held, self.waiting, self.left = b"", 0, 0

    def send(self, names, port):
        self.sock.sendall(b"".join(b"GET /o/%d HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n" % (n, port)
                                   for n in names))
        self.waiting += len(names)

    def receive(self):
        data = self.sock.recv(1 << 18)
        if not data:
            raise BenchError("tarnd closed a connection")
        data = self.held + data
        self.waiting -= data.count(self.MARK)
        self.held = data[-len(self.MARK) + 1:]
        if self.waiting == 0:
            self.held = b""


def drive(conns, port, names, depth):
    """Asks for all of `names`, `depth` at a time on each connection, in rounds."""
    names = iter(names)
    with selectors.DefaultSelector() as sel:
        for c in conns:
            sel.register(c.sock, selectors.EVENT_READ, c)
        busy = True
        while busy:
            busy = False
            for c in conns:
                batch = [n for _, n in zip(range(depth), names)]
                if batch:
                    c.send(batch, port)
                    busy = True
            left = sum(c.waiting > 0 for c in conns)
            while left > 0:
                events = sel.select(STALL_SECONDS)
                if not events:
                    raise BenchError("answers did not come")
                for key, _ in events:
                    key.data.receive()
                    left -= key.data.waiting == 0
    time.sleep(0.1)  # what follows the last answer: a log line, a counter


def connect(port, n):
    return [Conn(port) for _ in range(n)]


def disconnect(conns):
    for c in conns:
        c.sock.close()


class Admin(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("tarnd", timeout=STALL_SECONDS)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)

    def index(self):
        self.request("GET", "/v1/index")
        return json.loads(self.getresponse().read())


def control(proc, *flags):
    out = subprocess.run([which("callgrind_control"), *flags, str(proc.popen.pid)],
                         capture_output=True, text=True, timeout=STALL_SECONDS, check=False)
    if out.returncode != 0 or "Error" in out.stdout + out.stderr:
        raise BenchError(f"callgrind_control {' '.join(flags)}: {out.stdout}{out.stderr}")


def totals(path):
    """Event -> count, of one dump."""
    with open(path, encoding="utf-8", errors="replace") as f:
        text = f.read()
    names = re.search(r"^events: (.*)$", text, re.M).group(1).split()
    counts = re.search(r"^(?:totals|summary): (.*)$", text, re.M).group(1).split()
    return dict(zip(names, map(int, counts)))


class World:
    """One tarnd under callgrind and its origin."""

    def __init__(self, lab, size):
        self.lab = lab
        origin, self.port = lab.port(), lab.port()
        tag = str(self.port)
        self.out = lab.path(f"flat-{tag}")
        lab.start(f"flat-origin-{tag}", [lab.program("bench-responder"), str(origin), str(BODY)],
                  lab.client_cpu, ready="responder: ready")
        self.admin = lab.path(f"flat-{tag}.sock")
        conf = lab.template("tarn_flat.yaml.in", f"flat-{tag}.yaml", PORT=self.port, SIZE=size,
                            ORIGIN=origin, ADMIN=self.admin, SHM=lab.path(f"shm-{tag}"))
        self.proc = lab.start(
            f"flat-{tag}",
            ["valgrind", "--tool=callgrind", "--instr-atstart=no", "--cache-sim=yes",
             f"--callgrind-out-file={self.out}", lab.program("tarnd"), "-c", conf],
            lab.server_cpu, ready="tarnd: ready", seconds=READY_SECONDS)
        self.dumps = 0

    def fill(self, first, end):
        conns = connect(self.port, FILL_CONNS)
        for at in range(first, end, 65536):
            progress(f"filling: {at:,} of {end:,}")
            drive(conns, self.port, range(at, min(at + 65536, end)), FILL_DEPTH)
        disconnect(conns)
        progress()

    def count(self, objects, conns):
        """Event -> per request."""
        progress(f"counting: {objects:,} objects, {conns:,} connections")
        chance = random.Random(objects)
        pool = connect(self.port, conns)
        rounds = max(WARM // conns, 2) * conns
        drive(pool, self.port, (chance.randrange(objects) for _ in range(rounds)), 1)
        control(self.proc, "--instr=on")
        drive(pool, self.port, (chance.randrange(objects) for _ in range(rounds)), 1)
        control(self.proc, "-z")
        rounds = max(COUNTED // conns, 2) * conns
        drive(pool, self.port, (chance.randrange(objects) for _ in range(rounds)), 1)
        control(self.proc, "-d")
        control(self.proc, "--instr=off")
        disconnect(pool)
        progress()
        self.dumps += 1
        return {k: v / rounds for k, v in totals(f"{self.out}.{self.dumps}").items()}


def measure(lab, rows):
    world = World(lab, "6GiB")
    try:
        return measure_rows(world, rows)
    except (OSError, BenchError) as e:
        raise BenchError(f"tarnd under callgrind: {e}\n{world.proc.tail()}") from e


def measure_rows(world, rows):
    """The same tarnd for every row: it is filled further from one to the next."""
    found, filled = [], 0
    for objects, conns in rows:
        start = time.monotonic()
        world.fill(filled, objects)
        filled = max(filled, objects)
        seconds = time.monotonic() - start
        admin = Admin(world.admin)
        index = admin.index()
        admin.close()
        if index["entries"] != objects:
            raise BenchError(f"{index['entries']} keys are stored, not {objects}")
        got = world.count(objects, conns)
        found.append({"objects": objects, "connections": conns, "fill_seconds": seconds,
                      "rss_kib": world.proc.rss_kib(), "index_bits": index["bits"],
                      "index_load": index["load"], "victims": index["victims"], **got})
    return found


def run(lab, args):
    for program in ("valgrind", "callgrind_control"):
        if not which(program):
            raise BenchError(f"{program} is missing: scripts/bench --install")
    if not lab.program("bench-responder"):
        raise BenchError(f"no bin/bench-responder in {lab.build}: -DTARN_BENCH=ON")
    rows = measure(lab, QUICK if args.quick else ROWS)
    base, table = rows[0]["Ir"], []
    for r in rows:
        r["change_percent"] = 100 * (r["Ir"] / base - 1)
        r["d1_misses"] = r["D1mr"] + r["D1mw"]
        r["ll_misses"] = r["DLmr"] + r["DLmw"]
        table.append([f"{r['objects']:,}", f"{r['connections']:,}", number(r["Ir"]),
                      f"{r['change_percent']:+.1f} %", number(r["d1_misses"], 1),
                      number(r["ll_misses"], 1), number(r["index_load"], 2),
                      number(r["rss_kib"] / 1024), number(r["fill_seconds"])])
    print_table(["objects", "conns", "user instr", "change", "D1 misses", "LL misses", "index load",
                 "RSS MiB", "fill s"], table, left=0)
    worst = max(abs(r["change_percent"]) for r in rows)
    print(f"\nper hit, keys drawn from all objects; the farthest is {worst:.1f} % from the first "
          f"row, {ALLOWED:.0f} % are allowed.\nMisses are SIMULATED by valgrind: data, no "
          "prefetching, not the processor's own; RSS is valgrind's.")
    return {"mode": "flat", "rows": rows, "worst_percent": worst, "allowed_percent": ALLOWED}
