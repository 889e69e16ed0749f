"""The servers that are compared: how each is started, and what is missing."""

import os
import re
import shutil
import subprocess

from bench_proc import HERE, BenchError, fetch

SIZES = {"0": 0, "1": 1, "2": 2, "1k": 1 << 10, "16k": 16 << 10, "64k": 64 << 10, "1m": 1 << 20,
         "4m": 4 << 20, "64m": 64 << 20}
PACKAGES = {"nginx": "nginx-light", "haproxy": "haproxy", "varnishd": "varnish", "wrk": "wrk",
            "valgrind": "valgrind", "perf": "linux-perf"}


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

    def launch(self, port, path):
        return self.lab.start(f"{self.name}-{size_of(path)}", self.argv(port, path),
                              self.lab.server_cpu, ready=self.word)


class Responder(Floor):
    name, program, word = "responder", "bench-responder", "responder: ready"


class Tarn(Built):
    name, program = "tarnd", "tarnd"
    workers, size, word, cpus = 1, "1GiB", "tarnd: ready", None
    transit = "1MiB"

    def argv(self, port, template="tarn_hit.yaml.in"):
        self.shm = self.lab.path(f"shm-{port}")
        conf = self.lab.template(template, f"tarn-{port}.yaml", PORT=port, PORT2=self.lab.port(),
                                 ORIGIN=self.origin.port, WORKERS=self.workers, SIZE=self.size,
                                 SHM=self.shm, TRANSIT=self.transit)
        return [self.lab.program("tarnd"), "-c", conf]

    def launch(self, port, path):
        return self.lab.start("tarnd", self.argv(port), self.cpus or self.lab.server_cpu,
                              ready=self.word)


class TarnPolicy(Tarn):
    """tarnd with a policy of this folder."""

    name, policy = "tarnd-builtin", "tarn_builtin.vcl"

    def argv(self, port, template="tarn_policy.yaml.in"):
        self.shm = self.lab.path(f"shm-{port}")
        conf = self.lab.template(template, f"tarn-{port}.yaml", PORT=port, ORIGIN=self.origin.port,
                                 WORKERS=self.workers, SIZE=self.size, SHM=self.shm,
                                 VCL=os.path.join(HERE, self.policy))
        return [self.lab.program("tarnd"), "-c", conf]


class TarnRecv(TarnPolicy):
    name, policy = "tarnd-recv40", "tarn_recv40.vcl"


class TarnSynth(TarnPolicy):
    name, policy = "tarnd-synth", "tarn_synth.vcl"


class Nginx(Server):
    name, program = "nginx", "nginx"

    def launch(self, port, path):
        conf = self.lab.template("nginx_cache.conf.in", "nginx-cache.conf", DIR=self.lab.dir,
                                 PORT=port, ORIGIN=self.origin.port, USER=user_line())
        return self.lab.start("nginx", [which("nginx"), "-e", "stderr", "-c", conf],
                              self.lab.server_cpu, port=port)


class Haproxy(Server):
    name, program = "haproxy", "haproxy"

    def launch(self, port, path):
        conf = self.lab.template("haproxy.cfg.in", "haproxy.cfg", PORT=port,
                                 ORIGIN=self.origin.port)
        return self.lab.start("haproxy", [which("haproxy"), "-db", "-f", conf],
                              self.lab.server_cpu, port=port)


class Varnish(Server):
    name, program = "varnish", "varnishd"

    def launch(self, port, path):
        vcl = self.lab.template("varnish.vcl.in", "varnish.vcl", PORT=port,
                                ORIGIN=self.origin.port)
        argv = [which("varnishd"), "-F", "-j", "none", "-a", f"127.0.0.1:{port}", "-f", vcl,
                "-s", "malloc,1g", "-n", self.lab.path("varnish"), "-p", "listen_depth=4096",
                "-p", "timeout_idle=600"]
        return self.lab.start("varnish", argv, self.lab.server_cpu, port=port, seconds=60)


class VarnishSynth(Server):
    name, program = "varnish-synth", "varnishd"

    def launch(self, port, path):
        argv = [which("varnishd"), "-F", "-j", "none", "-a", f"127.0.0.1:{port}", "-f",
                os.path.join(HERE, "varnish_synth.vcl"), "-s", "malloc,64m", "-n",
                self.lab.path("varnish-synth"), "-p", "listen_depth=4096"]
        return self.lab.start("varnish-synth", argv, self.lab.server_cpu, port=port, seconds=60)


# What --policy measures, beside SERVERS.
POLICY_SERVERS = (TarnPolicy, TarnRecv, TarnSynth, VarnishSynth)
SERVERS = (Floor, Responder, Tarn, Nginx, Haproxy, Varnish)


def install():
    """Debian packages of everything that is missing; their services are not started."""
    wanted = [pkg for prog, pkg in PACKAGES.items() if not which(prog)]
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


def choose(lab, origin, names):
    """The servers asked for that can be had; says of the others why not."""
    chosen = []
    for cls in SERVERS + POLICY_SERVERS:
        if cls.name not in (names or [s.name for s in SERVERS]):
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
