"""Clients of the section h2: h2load, and one of our own for what h2load cannot send.

h2load's encoder is nghttp2's: what came before is an index of a byte or two, a path is a literal.  The client here sends
the same, but of each request one value is new, so that no server has seen its field block before.
"""

import os
import re
import socket
import subprocess
import sys
import time

import bench_callgrind
import bench_tls
from bench_proc import HERE, BenchError
from bench_servers import which

sys.path.append(os.path.join(os.path.dirname(os.path.dirname(HERE)), "t", "e2e"))
import h2_client as h2  # noqa: E402

CIPHER = "TLS_AES_256_GCM_SHA384"  # what bench_tls's client gets
PATHS = 512                        # URLs that are asked for in turn where each request has another
STALL_SECONDS = 120
AGENT = ("user-agent", "h2load nghttp2/1.52.0")


def few_fields():
    """h2load's own, beside the four that each request has."""
    return [AGENT]


def browser_fields():
    """13 as a browser sends them: those of the section hit, and priority in the place of Connection."""
    return [(name.lower(), value) for name, value in bench_callgrind.browser_fields()
            if name != "Connection"] + [("priority", "u=0, i")]


def other_path(n):
    """The origin has 1 KiB for any of them."""
    return f"/u/{n % PATHS}"


# ---- h2load

def h2load_argv(end, fields, conns, streams, *more, path="/1k"):
    program = which("h2load")
    if program is None:
        raise BenchError("h2load is missing: scripts/bench --install (Debian: nghttp2-client)")
    argv = [program, "-t1", f"-c{conns}", f"-m{streams}", f"--tls13-ciphers={CIPHER}", *more]
    for name, value in fields:
        argv += ["-H", f"{name}: {value}"]
    return argv + [end.url(path)]


def h2load_run(lab, argv, seconds=STALL_SECONDS):
    """Runs it to its end: how many requests were answered.  Each must be, with 200."""
    out = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=seconds,
                         preexec_fn=lambda: os.sched_setaffinity(0, lab.client_cpu))
    done = re.search(r"requests: (\d+) total.* (\d+) succeeded, (\d+) failed, (\d+) errored", out.stdout)
    others = re.search(r"status codes: \d+ 2xx, (\d+) 3xx, (\d+) 4xx, (\d+) 5xx", out.stdout)
    if not done or {*done.groups()[2:], *others.groups()} != {"0"}:
        last = (out.stdout + out.stderr).strip().splitlines()[-12:]
        raise BenchError("h2load: not every request was answered:\n" + "\n".join(last))
    cipher = re.search(r"^Cipher: (\S+)", out.stdout, re.M)
    if cipher and cipher.group(1) != CIPHER:
        raise BenchError(f"h2load: the server has chosen {cipher.group(1)}, not {CIPHER}")
    return int(done.group(2))


# ---- our own

class Talk:
    """What one client says: numbers of streams rise, fields that came before are indices."""

    def __init__(self, end, fields):
        self.start = [(":method", "GET"), (":scheme", end.scheme), (":authority", f"127.0.0.1:{end.port}")]
        self.fields, self.encoder, self.next_id = fields, h2.Encoder(), 1

    def request(self, path, new=None):
        """`new`: (name, value) in the place of the field of that name.  It goes to the table, as browsers do it, and the
        path does not."""
        fields = [new if new and name == new[0] else (name, value) for name, value in self.fields]
        block = (self.encoder.block(self.start) + h2.literal(4, path, h2.PLAIN, True)
                 + self.encoder.block(fields))
        self.next_id += 2
        return h2.headers(self.next_id - 2, block)


class Connection:
    """One, whose windows never close; what comes back is only counted."""

    def __init__(self, end):
        raw = socket.create_connection(("127.0.0.1", end.port), STALL_SECONDS)
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock = end.context.wrap_socket(raw, server_hostname="localhost") if end.context else raw
        if end.context and self.sock.selected_alpn_protocol() != "h2":
            raise BenchError(f"ALPN chose {self.sock.selected_alpn_protocol()}, not h2")
        self.held, self.awaited, self.settled = b"", 0, False
        self.sock.sendall(h2.PREFACE + h2.settings({h2.ENABLE_PUSH: 0, h2.INITIAL_WINDOW_SIZE: h2.WINDOW_MOST})
                          + h2.window(0, h2.WINDOW_MOST - h2.WINDOW))

    def send(self, octets, requests):
        self.awaited += requests
        self.sock.sendall(octets)

    def hear(self, settings=False):
        """Until all are answered; `settings`: until the server's were taken and ours acknowledged."""
        while self.awaited > 0 or (settings and not self.settled):
            got = self.sock.recv(1 << 18)
            if not got:
                raise BenchError("the server has ended a connection")
            self.held += got
            at = 0
            while len(self.held) >= at + 9:
                size = int.from_bytes(self.held[at:at + 3], "big")
                if len(self.held) < at + 9 + size:
                    break
                self.take(self.held[at + 3], self.held[at + 4], self.held[at + 9:at + 9 + size])
                at += 9 + size
            self.held = self.held[at:]

    def take(self, kind, flags, payload):
        if kind in (h2.RST_STREAM, h2.GOAWAY):
            raise BenchError(f"the server says {h2.FRAMES[kind]}: {payload!r}")
        if kind == h2.HEADERS and b"\x88" not in payload[:4]:  # :status 200, behind a size of the table
            raise BenchError(f"an answer that is not 200: {payload[:60]!r}")
        if kind == h2.SETTINGS and flags & h2.ACK:
            self.settled = True
        elif kind == h2.SETTINGS:
            self.sock.sendall(h2.settings(ack=True))
        elif kind == h2.PING and not flags & h2.ACK:
            self.sock.sendall(h2.frame(h2.PING, payload, h2.ACK))
        if kind in (h2.HEADERS, h2.DATA) and flags & h2.END_STREAM:
            self.awaited -= 1

    def close(self):
        self.sock.close()


class NewValues:
    """Requests of which each has another path and another value; none comes twice while it lives."""

    def __init__(self, fields):
        self.serial, self.names = 0, {name for name, _ in fields}

    def next(self):
        self.serial += 1
        path = other_path(self.serial)
        if "referer" in self.names:
            return path, ("referer", f"https://www.example.com/news/2026/11/a-page-with-a-name-{self.serial}.html")
        return path, (AGENT[0], f"{AGENT[1]} ({self.serial})")


def drive(end, fields, conns, streams, total, values):
    """Sends `total` requests in rounds, one write on each connection and then all answers."""
    held = [(Connection(end), Talk(end, fields)) for _ in range(conns)]
    for _ in range(total // (conns * streams)):
        for c, talk in held:
            c.send(b"".join(talk.request(*values.next()) for _ in range(streams)), streams)
        for c, _ in held:
            c.hear()
    for c, _ in held:
        c.close()


def fetch_all(end, paths):
    """The misses: each is stored afterwards."""
    c, talk = Connection(end), Talk(end, few_fields())
    for path in paths:
        c.send(talk.request(path), 1)
        c.hear()
    c.close()
    time.sleep(0.3)


class End:
    """Where one listener of a server is, and how it is spoken to."""

    def __init__(self, port, tls):
        self.port, self.tls, self.scheme = port, tls, "https" if tls else "http"
        self.context = bench_tls.context() if tls else None
        if tls:
            self.context.set_alpn_protocols(["h2"])

    def url(self, path):
        return f"{self.scheme}://127.0.0.1:{self.port}{path}"
