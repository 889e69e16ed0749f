"""Bytes per stored object and per connection, of tarnd and of its peers, each started afresh.

What is measured is the growth of the resident set, all processes of a server together, divided by
how many came.  Memory of the kernel's (socket buffers, and nginx's files) is not in it.
"""

import resource
import socket
import time

import bench_servers
from bench_load import print_table
from bench_proc import BenchError

OBJECTS, BODY = 200_000, 1024
OBJECT_MAX, ABOVE_MAX = 1450, 180
IDLE, IDLE_MAX = 2000, 506
SLOWLORIS, SLOWLORIS_MAX = 2000, 5000
READERS, READERS_MAX = 100, 5000
BIG = 8 << 20
WARM_UP = 64          # of the same kind, before anything is counted
LOGGED = 4096         # requests that fill the log ring, some 26 bytes each
LOADERS, DEPTH = 16, 16
SETTLE_S = 1.5
PER_HIT = (b"age:", b"via:", b"cache-status:", b"connection:", b"keep-alive:", b"x-varnish:")
NAMES = ("tarnd", "nginx", "haproxy", "varnish")


class Tarn(bench_servers.Tarn):
    """With a small log ring, which is full before anything is counted: its pages are no object's and
    no connection's."""

    def argv(self, port, template="tarn_memory.yaml.in"):
        return super().argv(port, template)


class Sizes:
    """The origin, in the place of bench_servers.Origin."""

    def __init__(self, lab):
        program = lab.program("bench-sizes")
        if program is None:
            raise BenchError(f"no bin/bench-sizes in {lab.build}: build with -DTARN_BENCH=ON")
        self.port = lab.port()
        self.proc = lab.start("sizes", [program, str(self.port)], ready="sizes: ready")


def connect(port, receive_buffer=None):
    s = socket.socket()
    if receive_buffer:  # before the handshake: it decides the window
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    s.settimeout(60)
    s.connect(("127.0.0.1", port))
    return s


def request(path):
    return f"GET {path} HTTP/1.1\r\nHost: tarn.test\r\n\r\n".encode()


def read_answers(s, count, size):
    """`count` answers with bodies of `size` bytes; the last one's head."""
    data = b""
    for _ in range(count):
        while (end := data.find(b"\r\n\r\n")) < 0 or len(data) < end + 4 + size:
            piece = s.recv(262144)
            if not piece:
                raise BenchError("the server closed a connection")
            data += piece
        head, data = data[:end + 4], data[end + 4 + size:]
        if not head.startswith(b"HTTP/1.1 200"):
            raise BenchError(f"instead of 200: {head[:80]!r}")
    return head


def fill(port, first, count):
    """Asks for `count` objects that nobody has asked for yet."""
    sockets = [connect(port) for _ in range(LOADERS)]
    for at in range(first, first + count, LOADERS * DEPTH):
        for i, s in enumerate(sockets):
            s.sendall(b"".join(request(f"/o/{BODY}:{at + i * DEPTH + n}") for n in range(DEPTH)))
        for s in sockets:
            read_answers(s, DEPTH, BODY)
    for s in sockets:
        s.close()


def stored_bytes(port):
    """Key, head and body of one of them, as they were stored."""
    path = f"/o/{BODY}:1"
    with connect(port) as s:
        s.sendall(request(path))
        lines = read_answers(s, 1, BODY).split(b"\r\n")[:-2]
    kept = [line for line in lines if not line.lower().startswith(PER_HIT)]
    return len("tarn.test") + len(path) + sum(len(line) + 2 for line in kept) + 2 + BODY


def settled(proc):
    time.sleep(SETTLE_S)
    return proc.rss_kib() * 1024


def per_object(server, proc, port):
    fill(port, 0, 4096)
    before = settled(proc)
    fill(port, 4096, OBJECTS)
    # The last batch is whole, so there may be a few more.
    count = -(-OBJECTS // (LOADERS * DEPTH)) * LOADERS * DEPTH
    return (settled(proc) - before) / count


def per_connection(proc, count, open_one):
    held = [open_one() for _ in range(WARM_UP)]
    before = settled(proc)
    held += [open_one() for _ in range(count)]
    each = (settled(proc) - before) / count
    for s in held:
        s.close()
    return each


def fill_log(port):
    with connect(port) as s:
        for _ in range(LOGGED // DEPTH):
            s.sendall(request("/i/1:1") * DEPTH)
            read_answers(s, DEPTH, 1)


def per_idle(server, proc, port):
    fill_log(port)

    def open_one():
        s = connect(port)
        s.sendall(request("/i/1:1"))
        read_answers(s, 1, 1)
        return s

    return per_connection(proc, IDLE, open_one)


def per_slowloris(server, proc, port):
    def open_one():
        s = connect(port)
        s.sendall(b"GET / HTTP/1.1\r\nHost: tarn.test\r\nX-Slow: ")
        return s

    return per_connection(proc, SLOWLORIS, open_one)


def per_slow_reader(server, proc, port):
    path = f"/b/{BIG}:1"
    with connect(port) as s:
        s.sendall(request(path))
        read_answers(s, 1, BIG)

    def open_one():
        one = connect(port, 4096)
        one.sendall(request(path))
        one.recv(100)
        return one

    return per_connection(proc, READERS, open_one)


ROWS = (
    (f"per object of 1 KiB ({OBJECTS:,})", per_object, OBJECT_MAX),
    (f"per idle connection ({IDLE:,})", per_idle, IDLE_MAX),
    (f"per slowloris connection ({SLOWLORIS:,})", per_slowloris, SLOWLORIS_MAX),
    (f"per slow reader of 8 MiB ({READERS})", per_slow_reader, READERS_MAX),
)


def measure(lab, origin, cls, row):
    """(bytes each, what is stored of an object or None)."""
    server = (Tarn if cls is bench_servers.Tarn else cls)(lab, origin)
    port = lab.port()
    proc = server.launch(port, "/")
    try:
        each = row(server, proc, port)
        return each, stored_bytes(port) if row is per_object else None
    finally:
        lab.stop(proc)


def raise_file_limit(wanted):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(wanted, hard), hard))


def run(lab, args):
    raise_file_limit(20000)
    origin = Sizes(lab)
    servers = bench_servers.choose(lab, origin, args.servers or NAMES)
    table, results = [], []
    for title, row, most in ROWS:
        line = [title]
        for server in servers:
            each, stored = measure(lab, origin, type(server), row)
            results.append({"row": row.__name__, "server": server.name, "bytes": each,
                            "stored": stored, "most": most})
            line.append(f"{each:,.0f}")
            if stored and server.name == "tarnd":
                print(f"tarnd: of an object's {each:,.0f} bytes {stored:,} are key, head and body; "
                      f"{each - stored:,.0f} above them, at most {ABOVE_MAX}", flush=True)
        table.append(line + [f"{most:,}"])
    print_table(["bytes resident"] + [s.name for s in servers] + ["tarnd at most"], table)
    return {"mode": "memory", "memory": results}
