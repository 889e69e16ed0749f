"""fleet_world.py -- a fleet under test: an engine, a wire to it that can be cut, nodes, and an origin with versions.

    /v/NAME    its current version, in the body
"""
import collections
import concurrent.futures
import os
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import http.server

sys.dont_write_bytecode = True
from tarnd import Tarnd, free_port, wait_until

POLICY = """vcl 4.1;
import std;
import tarn;
backend default {{ .host = "127.0.0.1"; .port = "{port}"; }}
sub vcl_recv {{
    if (req.http.wait) {{ tarn.purge_wait(std.duration(req.http.wait, 0s)); }}
    if (req.method == "PURGE") {{ return(purge); }}
    if (req.method == "BAN") {{ ban("req.url == " + req.url); return(synth(200, "banned")); }}
    if (req.method == "TAG") {{ tarn.purge_tag(req.http.tag); return(synth(200, "purged")); }}
}}
sub vcl_backend_response {{ tarn.tag("all"); tarn.tag(bereq.url); set beresp.ttl = 600s; set beresp.grace = {grace}; set beresp.keep = 60s; }}
"""


def policy_text(port, grace="0s"):
    return POLICY.format(port=port, grace=grace)


class Server:
    """What speaks RESP2 at `port`."""

    def answers(self):
        try:
            return self.ask("PING") == b"PONG"
        except (OSError, RuntimeError):  # it loads its file
            return False

    def ask(self, *words):
        """One command; its reply, as Python has it."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=10) as s:
            parts = [w if isinstance(w, bytes) else str(w).encode() for w in words]
            s.sendall(b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(p), p) for p in parts))
            return self.reply(s.makefile("rb"))

    def reply(self, f):
        line = f.readline()
        if not line:
            raise OSError("closed")
        kind, rest = line[:1], line[1:-2]
        if kind == b"*":
            return [self.reply(f) for _ in range(int(rest))]
        if kind == b"$":
            return None if rest == b"-1" else f.read(int(rest) + 2)[:-2]
        if kind == b"-":
            raise RuntimeError(rest.decode())
        return int(rest) if kind == b":" else rest


class Engine(Server):
    """redis-server on a port of its own."""

    def __init__(self, *options, port=None):
        self.port = port or free_port()
        self.dir = tempfile.mkdtemp(prefix="tarn-engine.")
        self.options = options
        self.process = None
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--dir", self.dir, "--save", "",
             "--repl-diskless-sync-delay", "0", *self.options], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_until(self.answers, "redis-server answers")

    def kill(self):
        self.process.kill()
        self.process.wait()

    def close(self):
        self.kill()
        shutil.rmtree(self.dir, ignore_errors=True)


class Sentinel(Server):
    """redis-sentinel alone: its word is enough."""

    def __init__(self, master_port, name="mymaster", down_ms=500):
        self.port = free_port()
        self.dir = tempfile.mkdtemp(prefix="tarn-sentinel.")
        config = os.path.join(self.dir, "sentinel.conf")
        with open(config, "w", encoding="ascii") as f:
            f.write(f"port {self.port}\nbind 127.0.0.1\ndir {self.dir}\n"
                    f"sentinel monitor {name} 127.0.0.1 {master_port} 1\n"
                    f"sentinel down-after-milliseconds {name} {down_ms}\nsentinel failover-timeout {name} 3000\n")
        self.process = subprocess.Popen(["redis-server", config, "--sentinel"], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_until(self.answers, "redis-sentinel answers")

    def close(self):
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.dir, ignore_errors=True)


class Wire:
    """A TCP proxy to an engine that can be cut (connections end), silent (bytes stay), mute (commands stay) or deaf
    (replies do).  `delay`: seconds that each piece waits."""

    def __init__(self, port):
        self.target = port
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.mode = "open"
        self.delay = 0
        self.pairs = {}
        self.clients = set()
        self.heard = None
        self.lock = threading.Lock()
        self.stop = False
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while not self.stop:
            with selectors.DefaultSelector() as sel:
                try:
                    self.turn(sel)
                except (OSError, ValueError):
                    pass  # a connection was cut meanwhile

    def turn(self, sel):
        with self.lock:
            socks = [s for s in self.pairs if self.passes(s)]
        for s in (self.listener, *socks):
            sel.register(s, selectors.EVENT_READ)
        for key, _ in sel.select(0.02):
            if key.fileobj is self.listener:
                self.accept()
            else:
                self.pass_on(key.fileobj)

    def passes(self, s):
        return self.mode == "open" or self.mode == ("deaf" if s in self.clients else "mute")

    def accept(self):
        try:
            client, _ = self.listener.accept()
            if self.mode == "cut":
                client.close()
                return
            server = socket.create_connection(("127.0.0.1", self.target), timeout=5)
        except OSError:
            return
        with self.lock:
            self.pairs[client] = server
            self.pairs[server] = client
            self.clients.add(client)

    def listen(self):
        """What clients send from now on."""
        self.heard = bytearray()
        return self.heard

    def pass_on(self, s):
        other = self.pairs.get(s)
        if other is None:
            return
        try:
            data = s.recv(65536)
            if data:
                if self.heard is not None and s in self.clients:
                    self.heard += data
                time.sleep(self.delay)
                other.sendall(data)
                return
        except OSError:
            pass
        self.drop(s)

    def drop(self, s):
        with self.lock:
            other = self.pairs.pop(s, None)
            self.pairs.pop(other, None)
            self.clients -= {s, other}
        for one in (s, other):
            if one is not None:
                one.close()

    def cut(self):
        self.mode = "cut"
        for s in list(self.pairs):
            self.drop(s)

    def silence(self):
        self.mode = "silent"

    def mend(self):
        self.mode = "open"
        self.delay = 0

    def close(self):
        self.stop = True
        self.listener.close()
        for s in list(self.pairs):
            self.drop(s)


class Forger:
    """A proxy to an engine: `forge` makes the bytes of a reply, of a command's words and the bytes that came."""

    def __init__(self, port):
        self.target = port
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.mend()
        threading.Thread(target=self.run, daemon=True).start()

    def mend(self):
        self.forge = lambda words, reply: reply

    def run(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        with client, socket.create_connection(("127.0.0.1", self.target)) as engine:
            commands, replies = client.makefile("rb"), engine.makefile("rb")
            try:
                while True:
                    n = int(commands.readline()[1:])
                    parts = [self.piece(commands) for _ in range(n)]
                    engine.sendall(b"*%d\r\n" % n + b"".join(parts))
                    words = [part.partition(b"\r\n")[2][:-2] for part in parts]
                    client.sendall(self.forge(words, self.piece(replies)))
            except (OSError, ValueError):  # one of them has gone
                pass

    def piece(self, f):
        line = f.readline()
        n = int(line[1:]) if line[:1] in (b"*", b"$") else -1
        if line[:1] == b"*":
            return line + b"".join(self.piece(f) for _ in range(n))
        return line + (f.read(n + 2) if n >= 0 else b"")

    def close(self):
        self.listener.close()


class Versions(http.server.ThreadingHTTPServer):
    """Each answer tells its name's version.  change() makes the next one."""
    daemon_threads = True
    request_queue_size = 512

    def __init__(self):
        world = self
        self.version = collections.Counter()
        self.asked = collections.Counter()
        self.pause = lambda name: 0  # seconds between the look at the version and the answer
        self.lock = threading.Lock()
        self.least = 0  # bytes of an answer
        self.held = {}  # an event for a name: its answers, with the version of when they were asked for, wait for it

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = 65536

            def do_GET(self):
                name = self.path
                with world.lock:
                    world.asked[name] += 1
                    version = world.version[name]
                    held = world.held.get(name)
                if held:
                    held.wait(60)
                time.sleep(world.pause(name))
                tag = f'"{version}"'
                if self.headers.get("If-None-Match") == tag:
                    self.send_response(304)
                    self.send_header("ETag", tag)
                    self.send_header("Cache-Control", "max-age=600")
                    self.end_headers()
                    return
                body = (b"%d" % version).ljust(world.least)
                self.send_response(200)
                self.send_header("ETag", tag)
                self.send_header("Cache-Control", "max-age=600")
                self.send_header("Name", name)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_POST(self):
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                version = world.change(self.path)
                self.send_response(204)
                self.send_header("Version", str(version))
                self.end_headers()

            def log_message(self, *args):
                pass

        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def handle_error(self, request, client_address):
        pass  # a node was killed

    def change(self, name):
        with self.lock:
            self.version[name] += 1
            return self.version[name]

    def close(self):
        self.shutdown()
        self.server_close()


class Node(Tarnd):
    def __init__(self, program, name, engine_port, origin, policy=False, max_blind="2s", more="", fleet="",
                 engine=None, stderr=None, peers=False, peer_port=None, listener="", fleet_name="shop", environment=None,
                 size="64MiB", grace="0s"):
        self.name = name
        self.peer_port = peer_port or (free_port() if peers else None)
        listener += f"  - {{ address: '127.0.0.1:{self.peer_port}', peers: on }}\n" if peers else ""
        fleet += f", peers: {'engine' if peers is True else peers}" if peers else ""
        port = origin.server_address[1]
        config = ""
        self.policy = None
        if policy:
            f, self.policy = tempfile.mkstemp(suffix=".vcl")
            os.write(f, policy_text(port, grace).encode())
            os.close(f)
            config += f"vcl: {self.policy}\n"
        elif policy is not None:  # else it is in `more`
            config += f"backends: {{ default: {{ address: '127.0.0.1:{port}' }} }}\n"
        config += (f"fleet: {{ name: {fleet_name}, node: {name}, engine: {engine or f'redis://127.0.0.1:{engine_port}'!r}, "
                   f"max_blind: {max_blind}{fleet} }}\n"
                   "admin: { address: 'unix:{dir}/admin.sock' }\n"
                   f"storage: {{ main: {{ engine: malloc, size: {size} }} }}\nworkers: 1\n" + more)
        super().__init__(program, listener + config, environment=environment, stderr=stderr)

    def tidy(self):
        super().tidy()
        if self.policy:
            os.unlink(self.policy)
            self.policy = None

    def get(self, name, *lines):
        a = self.ask(name, *lines)
        if a.status != 200:
            raise AssertionError(f"node {self.name}: {name} was answered {a.status}")
        a.version = int(a.body)
        return a

    def fleet(self):
        return self.admin("/v1/fleet")

    def is_in_step(self):
        return self.fleet()["state"] == "in step"

    def purge(self, wait="all", timeout_ms=20000, **body):
        return self.admin("/v1/purge", "POST", {"wait": wait, "timeout_ms": timeout_ms, **body})

    def pause(self):
        self.process.send_signal(signal.SIGSTOP)

    def resume(self):
        self.process.send_signal(signal.SIGCONT)


def wait_for_proofs(nodes, seconds=30):
    """Until all are in step, and the engine is there and old enough for proofs."""
    def may_prove(n):
        f = n.fleet()
        return f["state"] == "in step" and f["proofs_in_ms"] == 0 and not f["why"]

    for n in nodes:
        wait_until(lambda n=n: may_prove(n), f"node {n.name} is in step and may prove", seconds)


class FleetTest(unittest.TestCase):
    """An engine and an origin for each test; nodes go with it."""
    programs = ()  # tarnd, and what else main() was given

    def setUp(self):
        self.engine = Engine()
        self.addCleanup(self.engine.close)
        self.origin = Versions()
        self.addCleanup(self.origin.close)

    def node(self, name, port=None, **how):
        n = Node(self.programs[0], name, port or self.engine.port, self.origin, **how)
        self.addCleanup(n.tidy)
        return n

    def nodes(self, names="abc", **how):
        all_ = [self.node(name, **how) for name in names]
        wait_for_proofs(all_)
        return all_

    def store(self, nodes, name="/v/x"):
        for n in nodes:  # a machine with too much to do lets a lease run out
            wait_until(lambda n=n: "hit" in n.get(name).fields["cache-status"], f"it is stored at node {n.name}", 30)


AT_ONCE = 4  # of the tests, which mostly wait


def run_all(script, case):
    """Each test in a process of its own; 0, or 1 and which failed."""
    def run_one(name):
        done = subprocess.run([sys.executable, script, *case.programs, f"{case.__name__}.{name}"],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        print(done.stdout.decode(errors="replace"), flush=True)
        return name, done.returncode

    names = unittest.TestLoader().getTestCaseNames(case)
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        failed = [name for name, status in pool.map(run_one, names) if status != 0]
    print(f"{len(names)} tests, failed: {' '.join(failed) or 'none'}")
    return 1 if failed or not names else 0


def main(script, case, *programs):
    """SCRIPT PROGRAM... [CASE.TEST...]: these tests, or all."""
    if len(sys.argv) < 1 + len(programs):
        sys.exit(f"usage: {os.path.basename(script)} {' '.join(programs)} [{case.__name__}.TEST...]")
    if shutil.which("redis-server") is None:
        print("redis-server is missing (scripts/install-deps --test)")
        sys.exit(77)
    case.programs = [os.path.abspath(sys.argv.pop(1)) for _ in programs]
    if len(sys.argv) == 1:
        sys.exit(run_all(script, case))
    unittest.main(verbosity=2)
