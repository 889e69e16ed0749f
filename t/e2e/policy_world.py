"""policy_world.py -- a proxy that policies are tried in: tarnd, or varnishd for comparison.

    world = TarnWorld(PROGRAM) or VarnishWorld(PROGRAM)
    world.use(TEXT)      the policy is loaded and active; LoadError: it was refused
    world.ask(...)       one request on a connection of its own

Subs, actions and variables come from the reference in vcl-lite/README.md, which the compiler's own tables
print: what is added there is tried without a change here.
"""
import http.server
import json
import os
import re
import socket
import subprocess
import tempfile
import threading
import time

import tarnd
from admin import UnixConnection, ask

README = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../vcl-lite/README.md")
CLIENT = ("recv", "hash", "hit", "miss", "pass", "pipe", "purge", "deliver", "synth")
BACKEND = ("backend_fetch", "backend_response", "backend_refresh", "backend_error")
SUBS = CLIENT + BACKEND + ("init", "fini")
# A policy in which a request's URL says what becomes of it: the beginning of vcl_recv, and of
# vcl_backend_response.
BY_URL = """
    if (req.url ~ "^/pass") { return (pass); }
    if (req.url ~ "^/pipe") { return (pipe); }
    if (req.url ~ "^/purge") { return (purge); }
    if (req.url ~ "^/synth") { return (synth(701, "Asked")); }
    if (req.url ~ "^/(dead|backend_error)") { set req.backend_hint = dead; }"""
BY_BEREQ_URL = """
    if (bereq.url ~ "^/(backend_)?refresh") { set beresp.ttl = 0.001s; set beresp.grace = 0s; }"""


class LoadError(Exception):
    pass


class Variable:
    """A row of the reference: where it may be read, set and unset, as names of subs."""

    def __init__(self, name, kind, read, written, unset, what):
        self.name, self.kind, self.what = name, kind, what
        self.read, self.written, self.unset = subs_of(read), subs_of(written), subs_of(unset)
        self.only_41 = "(4.1 only" in what
        self.only_40 = "(4.0 only" in what
        self.set_only_40 = "(set in 4.0 only" in what

    def fits_not(self, version):
        return self.only_41 and version == "4.0" or self.only_40 and version == "4.1"


def subs_of(where):
    """`client, deliver`: names of subs."""
    subs = []
    for word in filter(None, (w.strip() for w in where.split(","))):
        subs += {"all": SUBS, "client": CLIENT, "backend": BACKEND}.get(word, (word,))
    return subs


def rows(head):
    """Cells of the table of the reference that begins with this line."""
    with open(README, encoding="utf-8") as f:
        lines = f.read().split("\n")
    for line in lines[lines.index(head) + 2:]:
        if not line.startswith("|"):
            return
        yield [cell.strip().strip("`") for cell in line.strip("|").split(" | ")]


def actions():
    """[(sub, action)] of all subs, without `vcl_`."""
    return [(sub.removeprefix("vcl_"), action)
            for sub, words, _ in rows("| sub | return(...) | when it runs |")
            for action in words.split()]


def variables():
    return [Variable(*row) for row in rows("| variable | type | read in | set in | unset in | what it is |")]


class Origin(http.server.BaseHTTPRequestHandler):
    """The n-th request for a URL is answered with #n.  A condition is answered with 304.  World.plan may say
    otherwise: by URL, a list of (status, fields) for the first requests; the last one is for all that follow."""
    protocol_version = "HTTP/1.1"

    def body(self):
        if "chunked" not in self.headers.get("Transfer-Encoding", ""):
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        data = b""
        while size := int(self.rfile.readline(), 16):
            data += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return data

    def answer(self):
        world = self.server.world
        body = self.body()
        with world.lock:
            world.asked.append((self.command, self.path, dict(self.headers), body))
            n = world.counts[self.path] = world.counts.get(self.path, 0) + 1
        plan = world.plan.get(self.path)
        condition = plan is None and self.headers.get("If-None-Match") is not None
        text = f"#{n}".encode()
        status, fields = plan[min(n, len(plan)) - 1] if plan else (
            304 if condition else 200, {"ETag": '"a"', "Cache-Control": "max-age=600"})
        self.send_response(status)
        for name, value in fields.items():
            self.send_header(name, value)
        if status != 304:
            self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        if status != 304 and self.command != "HEAD":
            self.wfile.write(text)

    do_GET = do_HEAD = do_POST = do_PURGE = do_PUT = answer

    def address_string(self):
        return "unix"

    def log_message(self, *_):
        pass


class UnixServer(http.server.ThreadingHTTPServer):
    address_family = socket.AF_UNIX
    daemon_threads = True
    request_queue_size = 128

    def server_bind(self):
        self.socket.bind(self.server_address)
        self.server_name, self.server_port = "origin", 0

    def handle_error(self, request, client_address):
        pass  # the proxy left


class World:
    """Each has `self.listen`, the path of its Unix socket."""

    def __init__(self):
        self.dir = tempfile.mkdtemp(prefix="tarn-pol.")
        self.origin_path = os.path.join(self.dir, "origin.sock")
        self.listen = os.path.join(self.dir, "listen.sock")
        self.lock = threading.Lock()
        self.asked, self.counts, self.plan = [], {}, {}
        self.origin = UnixServer(self.origin_path, Origin)
        self.origin.world = self
        threading.Thread(target=self.origin.serve_forever, daemon=True).start()
        self.loaded = 0

    def backends(self, dead=True, more=""):
        """`dead` is one that nothing listens for."""
        path = os.path.join(self.dir, "dead.sock")
        if dead and not os.path.exists(path):
            with socket.socket(socket.AF_UNIX) as s:
                s.bind(path)
            os.chmod(path, 0o666)
        return (f'backend default {{ .path = "{self.origin_path}"; {more} }}\n' +
                (f'backend dead {{ .path = "{path}"; }}\n' if dead else ""))

    def ask(self, target, *lines, method="GET", body=b""):
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(tarnd.PATIENCE_S)
            s.connect(self.listen)
            s.sendall(tarnd.request(target, *lines, "Connection: close", method=method) + body)
            return tarnd.Answer(tarnd.read_to_end(s))

    def tidy(self):
        self.origin.shutdown()
        self.origin.server_close()
        subprocess.run(["rm", "-rf", self.dir], check=False)


class TarnWorld(World):
    name = "tarnd"

    def __init__(self, program, workers=1, more="", stderr=subprocess.DEVNULL):
        super().__init__()
        self.tarnd = tarnd.Tarnd(program, f"""
  - address: "unix:{self.listen}"
workers: {workers}
storage: {{main: {{size: 32MiB}}}}
admin: {{address: "unix:{self.dir}/admin.sock"}}
backends: {{unused: {{address: "unix:{self.dir}/nothing.sock"}}}}
{more}""", stderr=stderr)

    def admin(self, method, path, body=None):
        c = UnixConnection(os.path.join(self.dir, "admin.sock"))
        try:
            return ask(c, method, path, body)
        finally:
            c.close()

    def use(self, text):
        """Answers with the warnings of the load."""
        self.loaded += 1
        name = f"p{self.loaded}"
        told = self.admin("PUT", "/v1/policies/" + name, text)
        if told.status not in (200, 201):
            raise LoadError(told.text)
        use = self.admin("PUT", "/v1/policies/active", json.dumps({"name": name}))
        assert use.status == 200, use
        if self.loaded > 1:
            self.admin("DELETE", f"/v1/policies/p{self.loaded - 1}")
        return told.text

    def label(self, label, text):
        assert self.admin("PUT", "/v1/policies/of-" + label, text).status == 201
        assert self.admin("PUT", "/v1/labels/" + label, json.dumps({"name": "of-" + label})).status in (200, 201)

    def alive(self):
        return self.tarnd.process.poll() is None

    def close(self):
        status = self.tarnd.close()
        self.tidy()
        assert status == 0, f"tarnd ended with status {status}"


class VarnishWorld(World):
    name = "varnishd"

    def __init__(self, program, workers=1, more="", stderr=None):
        super().__init__()
        os.chmod(self.dir, 0o755)
        self.work = os.path.join(self.dir, "v")
        self.process = subprocess.Popen(
            [program, "-F", "-n", self.work, "-a", self.listen + ",mode=666", "-f", "",
             "-p", "vcc_allow_inline_c=off", "-p", "timeout_idle=5"],
            stdout=subprocess.DEVNULL, stderr=stderr or subprocess.DEVNULL)
        os.chmod(self.origin_path, 0o666)
        tarnd.wait_until(lambda: self.cli("ping") is not None, "varnishd answers")
        self.started = False

    def cli(self, *words):
        p = subprocess.run(["varnishadm", "-n", self.work, "--", *words], capture_output=True, text=True)
        return p.stdout + p.stderr if p.returncode == 0 else None

    def use(self, text):
        self.loaded += 1
        name = f"p{self.loaded}"
        said = self.load(name, text)
        self.cli("vcl.use", name)
        if not self.started:
            self.cli("start")
            self.started = True
            tarnd.wait_until(lambda: os.path.exists(self.listen), "varnishd listens")
            time.sleep(0.3)
        return said

    def load(self, name, text):
        path = os.path.join(self.dir, name + ".vcl")
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        p = subprocess.run(["varnishadm", "-n", self.work, "--", "vcl.load", name, path],
                           capture_output=True, text=True)
        if p.returncode != 0:
            raise LoadError(p.stdout + p.stderr)
        return p.stdout

    def label(self, label, text):
        self.load("of-" + label, text)
        self.cli("vcl.label", label, "of-" + label)

    def alive(self):
        return "running" in (self.cli("status") or "")

    def close(self):
        self.process.terminate()
        self.process.wait(timeout=tarnd.PATIENCE_S)
        self.tidy()
