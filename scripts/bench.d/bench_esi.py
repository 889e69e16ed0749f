"""A page with twelve includes: how long it takes from an origin that takes 0.3 s for each, and what it costs cached.

The time is measured beside Varnish.  The cost is counted by valgrind, as that of a hit is: the page against thirteen hits,
itself unprocessed and its fragments, on one connection.
"""

import http.server
import socket
import statistics
import threading
import time

import bench_callgrind
import bench_servers
from bench_load import number, print_table
from bench_proc import BenchError, progress
from bench_results import bound, print_bounds

INCLUDES, DELAY = 12, 0.3
FRAGMENT, ROUNDS = 1024, 400
TIME_MOST = 0.4      # seconds; Varnish 7.1 takes 3.6
COST_MOST = 20       # percent beyond thirteen hits


class Answer(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        kind = self.path.split("/")[1]
        if kind in ("page", "raw"):
            where = self.path.removeprefix(f"/{kind}")
            parts = [b'<p>%d</p><esi:include src="/part%s/%d"/>' % (i, where.encode(), i) for i in range(INCLUDES)]
            body = b"<html>" + b"".join(parts) + b"</html>"
        else:
            if "slow" in self.path:
                time.sleep(DELAY)
            body = b"x" * FRAGMENT
        self.send_response(200)
        self.send_header("Cache-Control", "max-age=3600")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 128


class Origin:
    """In this process: it sleeps, and does nothing else."""

    def __init__(self):
        self.server = Server(("127.0.0.1", 0), Answer)
        self.server.daemon_threads = True
        self.port = self.server.server_port
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


class TarnEsi(bench_servers.Tarn):
    name = "tarnd-esi"

    def argv(self, port):
        conf = self.lab.template("tarn_esi.yaml.in", f"tarn-{port}.yaml", PORT=port, ORIGIN=self.origin.port,
                                 SHM=self.lab.path(f"shm-{port}"))
        return [self.lab.program("tarnd"), "-c", conf]

    def launch(self, port, path=None):
        return self.lab.start(self.name, self.argv(port), self.lab.server_cpu, ready=self.word)


class VarnishEsi(bench_servers.Varnish):
    name, size, template = "varnish-esi", "256m", "varnish_esi.vcl.in"


class Conn:
    """One connection, with chunked responses and those with a length."""

    def __init__(self, port):
        self.sock = socket.create_connection(("127.0.0.1", port), 120)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def get(self, path):
        self.sock.sendall(b"GET %s HTTP/1.1\r\nHost: x\r\n\r\n" % path.encode())
        data = b""
        while b"\r\n\r\n" not in data:
            data += self.sock.recv(1 << 16)
        head, _, body = data.partition(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200 "):
            raise BenchError(f"an answer that is not 200: {head[:60]!r}")
        lower = head.lower()
        if b"content-length:" in lower:
            want = int(lower.split(b"content-length:")[1].split(b"\r\n")[0])
            while len(body) < want:
                body += self.sock.recv(1 << 16)
            return body
        while not body.endswith(b"0\r\n\r\n"):
            body += self.sock.recv(1 << 16)
        return body


def times(lab, servers, samples):
    """name -> seconds of a page, nothing of it cached."""
    got = {}
    for server in servers:
        progress(f"esi {server.name}")
        port = lab.port()
        proc = server.launch(port, "/raw/warm")
        got[server.name] = []
        for n in range(samples):
            conn, began = Conn(port), time.monotonic()
            body = conn.get(f"/page/slow{server.name}{n}")
            got[server.name].append(time.monotonic() - began)
            if body.count(b"x" * FRAGMENT) != INCLUDES:
                raise BenchError(f"{server.name}: a page without all of its parts")
        lab.stop(proc)
    return got


def one_count(lab, server, paths, rounds, tag):
    port = lab.port()
    out = lab.path(f"callgrind.esi.{tag}.{rounds}")
    proc = lab.start(f"callgrind-esi-{tag}",
                     ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", *server.argv(port)],
                     lab.server_cpu, ready=server.word, port=port, seconds=bench_callgrind.READY_SECONDS)
    conn = Conn(port)
    for _ in range(rounds + 1):
        for path in paths:
            conn.get(path)
    time.sleep(0.2)
    proc.popen.terminate()
    proc.popen.wait(bench_callgrind.READY_SECONDS)
    lab.stop(proc)
    return bench_callgrind.total_of(out)


def counts(lab, server):
    """User instructions of (a page, thirteen hits)."""
    ways = {"page": ["/page/a"],
            "hits": ["/raw/a"] + [f"/part/a/{i}" for i in range(INCLUDES)]}
    got = []
    for tag, paths in ways.items():
        progress(f"callgrind esi {tag}")
        few, many = (one_count(lab, server, paths, n, tag) for n in (ROUNDS // 10, ROUNDS))
        got.append((many - few) / (ROUNDS - ROUNDS // 10))
    return got


def run(lab, args):
    origin = Origin()
    servers = [s for s in (TarnEsi(lab, origin), VarnishEsi(lab, origin)) if s.available()]
    took = times(lab, servers, max(1, args.samples or 3))
    rows = [[name, f"{statistics.median(t):.2f} s", f"{max(t):.2f} s"] for name, t in took.items()]
    print_table(["12 includes of 0.3 s", "median", "longest"], rows)
    page = hits = None
    if bench_servers.which("valgrind") and not args.quick:
        page, hits = counts(lab, servers[0])
        print()
        print_table(["cached, user instructions", ""],
                    [["the page", number(page)], ["thirteen hits of the same", number(hits)]])
    progress()
    bounds = [bound("a page with 12 includes of 0.3 s", max(took["tarnd-esi"]), most=TIME_MOST, unit="s", digits=2),
              bound("a cached page beyond 13 hits", None if page is None else (page / hits - 1) * 100,
                    most=COST_MOST, unit="%")]
    print_bounds(bounds)
    return {"mode": "esi", "times": took, "page": page, "hits": hits, "bounds": bounds}
