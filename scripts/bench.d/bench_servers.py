"""The servers that are compared: how each is started, and what is missing."""

import importlib.util
import os
import re
import shutil
import subprocess

from bench_proc import HERE, BenchError, fetch

SIZES = {"0": 0, "1": 1, "2": 2, "256": 256, "1k": 1 << 10, "4k": 4 << 10,
         "16k": 16 << 10, "64k": 64 << 10, "256k": 256 << 10, "1m": 1 << 20, "4m": 4 << 20,
         "64m": 64 << 20}
FOREVER = "Cache-Control: max-age=315360000"  # the responder's Date is a fixed one
PACKAGES = {"nginx": "nginx-light", "haproxy": "haproxy", "varnishd": "varnish", "wrk": "wrk",
            "valgrind": "valgrind", "h2load": "nghttp2-client", "perf": "linux-perf"}


def which(program):
    return shutil.which(program) or shutil.which(program, path="/usr/sbin:/usr/local/sbin")


def size_of(path):
    """Body bytes of a path at the origin."""
    return SIZES[path.rsplit("/", 1)[1]]


def version(argv):
    try:
        out = subprocess.run(argv, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    m = re.search(r"\d+\.\d+(\.\d+)*", out.stdout + out.stderr)
    return m.group(0) if m else ""


class Origin:
    """nginx on a tmpfs; it belongs to no processor, and is idle once the caches are warm."""

    def __init__(self, lab):
        if not which("nginx"):
            raise BenchError("nginx is missing, and the origin needs it: scripts/bench --install")
        files = lab.path("files")
        os.chmod(lab.dir, 0o755)
        os.mkdir(files)
        for name, size in SIZES.items():
            with open(os.path.join(files, name), "wb") as f:
                for done in range(0, size, 1 << 20):
                    f.write(b"0123456789abcdef" [:min(size - done, 16)]
                            * max(1, min(size - done, 1 << 20) // 16))
        self.port = lab.port()
        conf = lab.template("origin.conf.in", "origin.conf", DIR=lab.dir, FILES=files,
                            PORT=self.port, USER=user_line())
        self.proc = lab.start("origin", [which("nginx"), "-e", "stderr", "-c", conf],
                              port=self.port)

    def requests(self):
        """How many requests it has had, this question not counted."""
        import http.client
        conn = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        conn.request("GET", "/status")
        text = conn.getresponse().read().decode()
        conn.close()
        self.asked = getattr(self, "asked", 0) + 1
        return int(re.search(r"requests\n\s*\d+ \d+ (\d+)", text).group(1)) - self.asked


class FastOrigin:
    """The responder as an origin: one answer of 1 KiB to everything, on the client's processor."""

    def __init__(self, lab, field=FOREVER):
        program = lab.program("bench-responder")
        if program is None:
            raise BenchError(f"no bin/bench-responder in {lab.build}, and the origin is one "
                             "(cmake -B build -DTARN_BENCH=ON && cmake --build build)")
        self.port = lab.port()
        self.proc = lab.start(f"origin-{self.port}", [program, str(self.port), "1024", field],
                              lab.client_cpu, ready="responder: ready")

    def requests(self):
        """It does not count them."""
        return 0


def user_line():
    return "user root;" if os.geteuid() == 0 else ""


class Server:
    """One server under test.  `fixed`: its answer is fixed, so each size is its own process."""

    name = ""
    program = ""
    fixed = False
    why_missing = ""

    def __init__(self, lab, origin):
        self.lab, self.origin = lab, origin
        self.running = {}

    def available(self):
        return which(self.program) is not None

    def launch(self, port, path):
        raise NotImplementedError

    def at(self, path):
        """(process, port) that answers `path`; starts it when it is asked first."""
        key = size_of(path) if self.fixed else None
        if key not in self.running:
            port = self.lab.port()
            self.running[key] = (self.launch(port, path), port)
        return self.running[key]

    def counted_argv(self, port, path):
        """What valgrind is to run."""
        raise BenchError(f"{self.name} is not run under valgrind")

    def verify(self, path):
        """The right answer, and from the cache the second time."""
        port = self.at(path)[1]
        fetch(port, path)
        before = self.origin.requests()
        status, size = fetch(port, path)
        if status != 200 or size != size_of(path):
            raise BenchError(f"{self.name}: {path}: status {status}, {size} bytes, "
                             f"not 200 and {size_of(path)}")
        if self.origin.requests() != before:
            raise BenchError(f"{self.name}: {path} is not served from its cache")


class Built(Server):
    """What our own build makes."""

    def available(self):
        return self.lab.program(self.program) is not None

    @property
    def why_missing(self):
        return (f"not built: no bin/{self.program} in {self.lab.build} "
                "(cmake -B build -DTARN_BENCH=ON && cmake --build build)")


class Floor(Built):
    name, program, fixed, word = "floor", "bench-floor", True, "floor: ready"

    def argv(self, port, path):
        return [self.lab.program(self.program), str(port), str(size_of(path))]

    counted_argv = argv

    def launch(self, port, path):
        return self.lab.start(f"{self.name}-{size_of(path)}", self.argv(port, path),
                              self.lab.server_cpu, ready=self.word)


class Responder(Floor):
    name, program, word = "responder", "bench-responder", "responder: ready"


class Tarn(Built):
    name, program = "tarnd", "tarnd"
    workers, size, word, cpus = 1, "1GiB", "tarnd: ready", None
    transit, policy, template, memo = "1MiB", "", "tarn_hit.yaml.in", "on"

    def argv(self, port, template=None):
        self.shm = self.lab.path(f"shm-{port}")
        conf = self.lab.template(template or self.template, f"tarn-{port}.yaml", PORT=port,
                                 PORT2=self.lab.port(), ORIGIN=self.origin.port,
                                 WORKERS=self.workers, SIZE=self.size, SHM=self.shm,
                                 TRANSIT=self.transit, MEMO=self.memo,
                                 VCL=os.path.join(HERE, self.policy))
        return [self.lab.program("tarnd"), "-c", conf]

    def counted_argv(self, port, path):
        return self.argv(port)

    def launch(self, port, path):
        return self.lab.start(self.name, self.argv(port), self.cpus or self.lab.server_cpu,
                              ready=self.word)


class TarnNoMemo(Tarn):
    """tarnd that parses every head: what a head costs that no worker has seen before."""

    name, memo = "tarnd-no-memo", "off"


class TarnPolicy(Tarn):
    """tarnd with a policy of this folder."""

    name, policy, template = "tarnd-builtin", "tarn_builtin.vcl", "tarn_policy.yaml.in"


class TarnRecv(TarnPolicy):
    name, policy = "tarnd-recv40", "tarn_recv40.vcl"


class TarnSynth(TarnPolicy):
    name, policy = "tarnd-synth", "tarn_synth.vcl"


class TarnPass(TarnPolicy):
    name, policy = "tarnd-pass", "tarn_pass.vcl"


class Nginx(Server):
    """`store`: what its location says of caching."""

    name, program, size = "nginx", "nginx", "1g"
    store = "proxy_cache c; proxy_cache_lock on;"
    tls, certs, plain = "", "", ""

    def argv(self, port, processes=True):
        conf = self.lab.template("nginx_cache.conf.in", f"nginx-{port}.conf", PORT=port,
                                 DIR=self.lab.path(f"nginx-{port}"), ORIGIN=self.origin.port,
                                 USER=user_line(), STORE=self.store, SIZE=self.size,
                                 TLS=self.tls, CERTS=self.certs, PLAIN=self.plain,
                                 MASTER="on" if processes else "off")
        return [which("nginx"), "-e", "stderr", "-c", conf]

    def counted_argv(self, port, path):
        return self.argv(port, processes=False)

    def launch(self, port, path):
        return self.lab.start(self.name, self.argv(port), self.lab.server_cpu, port=port)


class NginxPass(Nginx):
    name, store = "nginx-pass", ""


class Haproxy(Server):
    """`use`, `store`: its backend's lines on caching."""

    name, program, size = "haproxy", "haproxy", 512
    use, store = "http-request cache-use c", "http-response cache-store c"
    tls, plain = "", ""

    def argv(self, port):
        conf = self.lab.template("haproxy.cfg.in", f"haproxy-{port}.cfg", PORT=port,
                                 ORIGIN=self.origin.port, USE=self.use, STORE=self.store,
                                 SIZE=self.size, TLS=self.tls, PLAIN=self.plain)
        return [which("haproxy"), "-db", "-f", conf]

    def counted_argv(self, port, path):
        return self.argv(port)

    def launch(self, port, path):
        return self.lab.start(self.name, self.argv(port), self.lab.server_cpu, port=port)


class HaproxyPass(Haproxy):
    name, use, store = "haproxy-pass", "", ""


class Varnish(Server):
    name, program, size, template = "varnish", "varnishd", "1g", "varnish.vcl.in"

    def launch(self, port, path):
        vcl = self.lab.template(self.template, f"{self.name}.vcl", PORT=port,
                                ORIGIN=self.origin.port)
        argv = [which("varnishd"), "-F", "-j", "none", "-a", f"127.0.0.1:{port}", "-f", vcl,
                "-s", f"malloc,{self.size}", "-n", self.lab.path(self.name), "-p",
                "listen_depth=4096", "-p", "timeout_idle=600"]
        return self.lab.start(self.name, argv, self.lab.server_cpu, port=port, seconds=60)


class VarnishPass(Varnish):
    name, template = "varnish-pass", "varnish_pass.vcl.in"


class VarnishSynth(Varnish):
    name, size, template = "varnish-synth", "64m", "varnish_synth.vcl"


SERVERS = (Floor, Responder, Tarn, Nginx, Haproxy, Varnish)
# What single sections measure beside them.
ALL_SERVERS = SERVERS + (TarnNoMemo, TarnPolicy, TarnRecv, TarnSynth, TarnPass, NginxPass,
                         HaproxyPass, VarnishPass, VarnishSynth)

# Those that a section has of its own (bench_tls.py, bench_compress.py).
OF_SECTIONS = ("floor-aws-lc", "tarnd-aws-lc", "tarnd-gzip", "tarnd-plain", "nginx-gzip-1",
               "nginx-gzip-6", "nginx-gzip-1-store", "nginx-gunzip", "varnish-gzip", "tarnd-esi", "varnish-esi")


def install():
    """Debian packages of everything that is missing; their services are not started."""
    wanted = [pkg for prog, pkg in PACKAGES.items() if not which(prog)]
    if importlib.util.find_spec("ensurepip") is None:
        wanted.append("python3-venv")
    if not wanted:
        print("nothing is missing")
        return
    policy = "/usr/sbin/policy-rc.d"  # invoke-rc.d asks it; 101: do not start
    ours = not os.path.exists(policy)
    try:
        if ours:
            with open(policy, "w", encoding="ascii") as f:
                f.write("#!/bin/sh\nexit 101\n")
            os.chmod(policy, 0o755)
        subprocess.run(["apt-get", "update", "-q"], check=True)
        subprocess.run(["apt-get", "install", "-yq", "--no-install-recommends", *wanted],
                       check=True, env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"})
    except (OSError, subprocess.CalledProcessError) as e:
        raise BenchError(f"could not install {' '.join(wanted)}: {e}") from e
    finally:
        if ours and os.path.exists(policy):
            os.remove(policy)


def choose(lab, origin, names, classes=None):
    """The servers asked for that can be had; says of the others why not.

    `classes`: what a section compares; then `names` may only leave some of them out.
    """
    chosen = []
    for cls in classes or ALL_SERVERS:
        if cls.name not in (names or [s.name for s in classes or SERVERS]):
            continue
        server = cls(lab, origin)
        if server.available():
            chosen.append(server)
        else:
            why = server.why_missing or "not installed (scripts/bench --install)"
            print(f"missing: {server.name}: {why}", flush=True)
    if not chosen:
        raise BenchError("no server to measure")
    return chosen
