"""TLS: what a handshake and a hit cost in user instructions, beside OpenSSL alone and the peers.

The same certificate (ECDSA P-256), TLS 1.3, X25519 and cipher for all.  Counted as bench_callgrind
counts: two runs, and the difference.  The floor is OpenSSL on a socket of its own (tls_floor.c): what a
hit costs above a plain hit and the floor's records is what tarnd's transport costs.  Programs with AWS-LC
come from the folder of that preset, beside the build folder.  An idle connection is what the resident set
grows by for each, four seconds after one request: tarnd with AWS-LC suspends it after one to two.
"""

import os
import re
import ssl
import subprocess
import time
import socket

import bench_callgrind
import bench_servers
from bench_load import number, print_table
from bench_proc import BenchError, progress

CONNS = 16
HIT_ROWS = (("1 KiB", "/1k", 1, 1600), ("1 KiB by 16", "/1k", 16, 6400),
            ("16 KiB", "/16k", 1, 800), ("1 MiB", "/1m", 1, 64))
HANDSHAKES = 200
IDLE_CONNS = (100, 600)
IDLE_SECONDS = 4


def make_certificate(lab):
    """A file with a self-signed certificate and its key, in a folder of its own."""
    folder = lab.path("tls-certs")
    os.mkdir(folder)
    pem, key = os.path.join(folder, "default.pem"), lab.path("tls.key")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                    "ec_paramgen_curve:P-256", "-nodes", "-keyout", key, "-out", pem, "-days", "30",
                    "-subj", "/CN=localhost"], check=True, capture_output=True)
    with open(pem, "a", encoding="ascii") as f, open(key, encoding="ascii") as k:
        f.write(k.read())
    os.chmod(pem, 0o600)
    return pem


class TarnTls(bench_servers.Tarn):
    name, template = "tarnd", "tarn_tls.yaml.in"

    def argv(self, port, template=None):
        self.shm = self.lab.path(f"shm-{port}")
        conf = self.lab.template(self.template, f"tarn-tls-{port}.yaml", PORT=port,
                                 PLAIN=self.lab.port(), ORIGIN=self.origin.port, SHM=self.shm,
                                 CERTS=os.path.dirname(self.pem))
        return [self.lab.program("tarnd"), "-c", conf]


class AwsLc:
    """The same program from the preset's folder: `TARN_TLS=aws-lc`."""

    def program_path(self):
        path = os.path.join(os.path.dirname(os.path.abspath(self.lab.build)), "build-aws-lc", "bin", self.program)
        return path if os.access(path, os.X_OK) else None

    def available(self):
        return self.program_path() is not None

    why_missing = "not built (scripts/fetch-aws-lc && cmake --preset aws-lc -DTARN_BENCH=ON && " \
                  "cmake --build build-aws-lc)"

    def argv(self, port, path=None):
        return [self.program_path(), *super().argv(port, path)[1:]]

    def counted_argv(self, port, path):
        return self.argv(port, path)


class TarnAwsLc(AwsLc, TarnTls):
    name = "tarnd-aws-lc"


class NginxTls(bench_servers.Nginx):
    tls = "ssl"

    @property
    def certs(self):
        return (f"ssl_certificate {self.pem}; ssl_certificate_key {self.pem}; "
                "ssl_protocols TLSv1.2 TLSv1.3; ssl_ecdh_curve X25519; ssl_buffer_size 16k;")


class HaproxyTls(bench_servers.Haproxy):
    @property
    def tls(self):
        return f"ssl crt {self.pem} curves X25519"


class FloorTls(bench_servers.Floor):
    name, program, word = "floor", "bench-tls-floor", "tls_floor: ready"

    def argv(self, port, path):
        return [self.lab.program(self.program), str(port), self.pem,
                str(bench_servers.size_of(path))]

    counted_argv = argv


class FloorAwsLc(AwsLc, FloorTls):
    name = "floor-aws-lc"


def context():
    ctx = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    ctx.check_hostname = False
    ctx.verify_mode = ssl.CERT_NONE
    ctx.minimum_version = ssl.TLSVersion.TLSv1_3
    return ctx


def connect(ctx, port, session=None):
    raw = socket.create_connection(("127.0.0.1", port), bench_callgrind.STALL_SECONDS)
    raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return ctx.wrap_socket(raw, server_hostname="localhost", session=session)


def ask(s, port, path, depth=1):
    s.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode() * depth)


LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.I)


def some(s, most):
    got = s.recv(most)
    if not got:
        raise BenchError("the server has ended a connection in the middle of an answer")
    return got


def hear(s, depth=1):
    """Reads so many answers; nothing comes behind them."""
    held = b""
    for _ in range(depth):
        while b"\r\n\r\n" not in held:
            held += some(s, 1 << 18)
        head, held = held.split(b"\r\n\r\n", 1)
        if not head.startswith(b"HTTP/1.1 200"):
            raise BenchError(f"an answer that is not 200: {head[:60]!r}")
        left = int(LENGTH.search(head).group(1)) - len(held)
        held = held[left + len(held):] if left < 0 else b""
        while left > 0:
            left -= len(some(s, min(left, 1 << 18)))


def drive_hits(port, path, depth, total):
    ctx = context()
    conns = [connect(ctx, port) for _ in range(CONNS)]
    for _ in range(total // (CONNS * depth)):
        for s in conns:
            ask(s, port, path, depth)
        for s in conns:
            hear(s, depth)
    for s in conns:
        s.close()


def drive_handshakes(port, path, resumed, total):
    ctx = context()
    first = connect(ctx, port)
    ask(first, port, path)
    hear(first)
    session = first.session if resumed else None
    for _ in range(total):
        s = connect(ctx, port, session)
        if s.session_reused != resumed:
            raise BenchError("a handshake was resumed, or was not")
        s.close()
    first.close()


def one_run(lab, server, path, tag, drive):
    port = lab.port()
    out = lab.path(f"callgrind.tls.{server.name}.{tag}")
    proc = lab.start(f"callgrind-tls-{server.name}-{tag}",
                     ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}",
                      *server.counted_argv(port, path)],
                     lab.server_cpu, ready=getattr(server, "word", None), port=port,
                     seconds=bench_callgrind.READY_SECONDS)
    try:
        ctx = context()
        s = connect(ctx, port)
        ask(s, port, path)
        hear(s)  # the miss, and the key that is read for it
        s.close()
        drive(port)
        time.sleep(0.3)
    except (OSError, BenchError) as e:
        raise BenchError(f"{server.name} under valgrind: {e}\n{proc.tail()}") from e
    finally:
        proc.popen.terminate()
        try:
            proc.popen.wait(bench_callgrind.READY_SECONDS)
        except subprocess.TimeoutExpired:
            pass
        lab.stop(proc)
    total = bench_callgrind.total_of(out)
    os.remove(out)
    return total


def count(lab, server, path, drive, step, slope):
    """User instructions of one."""
    few = one_run(lab, server, path, "n1", lambda port: drive(port, step))
    many = one_run(lab, server, path, "n2", lambda port: drive(port, step + slope))
    return (many - few) / slope


def rows_of(part):
    rows = []
    if part in ("all", "handshakes"):
        for resumed in (False, True):
            rows.append(("handshake, resumed" if resumed else "handshake, full", "/1k",
                         lambda port, n, resumed=resumed: drive_handshakes(port, "/1k", resumed, n),
                         20, HANDSHAKES))
    for title, path, depth, n in HIT_ROWS if part in ("all", "hits") else ():
        step = CONNS * depth
        rows.append((title + " hit", path,
                     lambda port, n, path=path, depth=depth: drive_hits(port, path, depth, n),
                     step, n // step * step))
    return rows


def idle(server, path):
    """Bytes that a connection adds which has had an answer; the first are there to have all else ready."""
    proc, port = server.at(path)
    ctx, conns, sizes = context(), [], []
    try:
        for step in IDLE_CONNS:
            while len(conns) < step:
                conns.append(connect(ctx, port))
                ask(conns[-1], port, path)
                hear(conns[-1])
            time.sleep(IDLE_SECONDS)  # whatever a server trims when it has time
            sizes.append(proc.rss_kib())
    finally:
        for s in conns:
            s.close()
    return (sizes[1] - sizes[0]) * 1024 / (IDLE_CONNS[1] - IDLE_CONNS[0])


def idle_row(servers, rows):
    line = ["idle connection, bytes"]
    for server in servers:
        got = None
        if not server.fixed:  # the floor has one thread a connection
            progress(f"tls idle {server.name}")
            try:
                got = idle(server, "/1k")
            except (BenchError, OSError) as e:
                print(f"{server.name}: {e}", flush=True)
        line.append(number(got))
        rows.append({"load": "idle connection", "server": server.name, "bytes": got})
    return line


def run(lab, args):
    if not bench_servers.which("valgrind"):
        raise BenchError("valgrind is missing: scripts/bench --install")
    pem = make_certificate(lab)
    origin = bench_servers.Origin(lab)
    servers = bench_servers.choose(lab, origin, args.servers,
                                   (FloorTls, FloorAwsLc, TarnTls, TarnAwsLc, NginxTls, HaproxyTls))
    for server in servers:
        server.pem = pem
    table, rows = [], []
    for title, path, drive, step, slope in rows_of("all"):
        line, floor = [title], None
        for server in servers:
            progress(f"tls {title} {server.name}")
            try:
                got = count(lab, server, path, drive, step, slope)
            except (BenchError, OSError) as e:
                print(f"{server.name}: {e}", flush=True)
                got = None
            floor = got if server.name == "floor" else floor
            line.append(number(got))
            rows.append({"load": title, "server": server.name, "user_instructions": got})
        table.append(line)
    table.append(idle_row(servers, rows))
    progress()
    print_table(["user instructions", *(s.name for s in servers)], table, left=1)
    return {"mode": "tls", "rows": rows}
