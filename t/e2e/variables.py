#!/usr/bin/env python3
"""variables.py TARND [--seconds N] | --varnishd VARNISHD -- every variable in every sub that it is allowed in.

The rows are those of the compiler's table (policy_world.variables).  Each readable variable is read in each of
its subs and must be what its type says; each settable one is set, and must be read back as it was set or be
warned of at the load; each is unset.  Then all are read in all subs while requests of every kind come at once.
After each policy tarnd must still run.  --varnishd shows what Varnish makes of the same (by hand).
"""
import concurrent.futures
import glob
import os
import re
import sys
import time

sys.dont_write_bytecode = True
import policy_world
from policy_world import BACKEND, BY_BEREQ_URL, BY_URL, CLIENT, LoadError

VALUES = {  # by type: how a value looks as text
    "STRING": r".*", "HEADER": r".*", "INT": r"-?\d+", "BOOL": r"true|false", "REAL": r"-?\d+\.\d{3}",
    "DURATION": r"-?\d+\.\d{3}", "TIME": r"\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT", "BYTES": r"\d+(\.\d+)?",
    "IP": r"\d+\.\d+\.\d+\.\d+|[0-9a-f:]+", "BACKEND": r"default|dead|", "STEVEDORE": r"main|Transient|s0|",
}
# By name: what else is known of it.
KNOWN = {
    "client.ip": r"0\.0\.0\.0", "local.endpoint": r"unix:.*|/.*", "req.esi_level": "0", "req.method": "GET|POST|HEAD|PURGE",
    "req.proto": r"HTTP/1\.1", "req.restarts": r"0", "req.transport": "HTTP/1|http/1", "req.url": r"/.*",
    "bereq.url": r"/.*", "bereq.proto": r"HTTP/1\.1", "bereq.method": "GET|POST|HEAD|PURGE", "bereq.retries": "0",
    "beresp.status": "200|304|503", "resp.status": "200|206|304|404|503|701", "obj.status": "200", "obj.hits": r"\d+",
    "obj.can_esi": "false", "beresp.proto": r"HTTP/1\.[01]", "resp.proto": r"HTTP/1\.1", "obj.proto": r"HTTP/1\.1",
    "obj.reason": "OK", "storage.main.happy": "true",
    "req.time": r"\w{3}, \d\d \w{3} 20.*", "now": r"\w{3}, \d\d \w{3} 20.*", "beresp.time": r"\w{3}, \d\d \w{3} 20.*",
    "bereq.time": r"\w{3}, \d\d \w{3} 20.*", "obj.time": r"\w{3}, \d\d \w{3} 20.*", "resp.time": r"\w{3}, \d\d \w{3} 20.*",
    "param.default_ttl": r"120\.000", "sess.timeout_idle": r"[1-9]\d*\.000",
}
# What is set: two values of the type, so that one differs from what there is.
SAMPLES = {
    "STRING": ('"/said"', '"HEAD"'), "HEADER": ('"said"', '""'), "INT": ("404", "503"), "BOOL": ("true", "false"),
    "DURATION": ("7s", "0.5s"), "BYTES": ("3KB", "0B"), "BACKEND": ("dead", "default"), "STEVEDORE": ("storage.main",),
    "BODY": ('"said"',),
}
BY_NAME = {"beresp.filters": ('""', '"gzip"', '"gunzip"'), "resp.filters": ('""', '"esi gunzip range"')}
TEXT = {"7s": "7.000", "0.5s": "0.500", "3KB": "3072", "0B": "0", "storage.main": "main"}
# Set, it cannot be read back as it was: why.
OTHERWISE = {("beresp.uncacheable", "false"): "once true it stays so",
             **{(name, value): "it tells what will be done" for name, values in BY_NAME.items() for value in values}}
ENTRY = {  # a header of the message that a sub can write, to carry what it read
    **{s: "req.http" for s in CLIENT}, "pipe": "bereq.http", "deliver": "resp.http", "synth": "resp.http",
    "backend_fetch": "bereq.http", **{s: "beresp.http" for s in BACKEND if s != "backend_fetch"},
}
BASE = {
    "recv": BY_URL + """
    if (req.url ~ "^/restart" && req.restarts == 0) { return (restart); }
    if (req.method == "POST") { return (pass); }
    return (hash);""",
    "backend_fetch": "",
    "backend_response": BY_BEREQ_URL + """
    set beresp.http.read = bereq.http.read + beresp.http.read;
    if (bereq.url ~ "^/stale") { set beresp.ttl = 0.001s; set beresp.grace = 60s; }
    if (bereq.url ~ "^/hitmiss") { set beresp.uncacheable = true; }
    if (bereq.url ~ "^/hitpass") { return (pass(60s)); }
    set beresp.keep = 60s;
    return (deliver);""",
    "backend_error": "return (deliver);",
    "purge": 'return (synth(200, "Purged"));',
    "synth": """
    set resp.http.read = req.http.read + resp.http.read;
    set resp.body = resp.reason;
    return (deliver);""",
    "deliver": """
    set resp.http.read = req.http.read + resp.http.read;
    return (deliver);""",
}
KINDS = [  # target, lines, method, body
    ("/plain", (), "GET", b""), ("/plain", (), "GET", b""), ("/plain", ("Range: bytes=0-0",), "GET", b""),
    ("/plain", (), "HEAD", b""), ("/plain", ('If-None-Match: "a"',), "GET", b""), ("/pass", (), "GET", b""),
    ("/post", ("Content-Length: 3",), "POST", b"abc"), ("/pipe", (), "GET", b""),
    ("/pipe", ("Connection: upgrade", "Upgrade: x"), "GET", b""), ("/synth", (), "GET", b""),
    ("/dead", (), "GET", b""), ("/refresh", (), "GET", b""), ("/refresh", (), "GET", b""), ("/stale", (), "GET", b""),
    ("/stale", (), "GET", b""), ("/hitmiss", (), "GET", b""), ("/hitmiss", (), "GET", b""), ("/hitpass", (), "GET", b""),
    ("/hitpass", (), "GET", b""), ("/restart", (), "GET", b""), ("/purge", (), "GET", b""),
]
SETTLE = {"/refresh", "/stale"}


def written(name):
    """The variable as a policy of the world writes it."""
    return name.replace("http.NAME", "http.x-one").replace("storage.NAME", "storage.main")


def policy(world, version, subs):
    """subs: name -> what it does first."""
    text = f"vcl {version};\nimport std;\n" + world.backends()
    for name in policy_world.SUBS:
        if name == "backend_refresh" and world.name == "varnishd":
            continue
        body = subs.get(name, "") + BASE.get(name, "")
        if body:
            text += f"sub vcl_{name} {{ {body} }}\n"
    return text


def reads(variables, name, version):
    return [v for v in variables if name in v.read and v.kind != "HTTP" and not v.fits_not(version)]


def read_all(variables, name):
    """Code that puts what it reads into the header that is carried on."""
    carrier = ENTRY.get(name)
    parts = [f'"{written(v.name)}=" + {written(v.name)} + ";"' for v in variables]
    if carrier is None:  # vcl_init, vcl_fini
        return "".join(f"std.log({p}); " for p in parts)
    return f"set {carrier}.read = " + " + ".join(parts) + ";\n"


class Failed(Exception):
    """The daemon has ended."""


class Sweep:
    def __init__(self, world):
        self.world, self.wrong, self.policies, self.warned = world, [], 0, set()
        self.variables = policy_world.variables()

    def complain(self, text):
        if text not in self.wrong:
            self.wrong.append(text)
            print(text, flush=True)

    def use(self, text, what):
        self.policies += 1
        try:
            return self.world.use(text)
        except LoadError as e:
            self.complain(f"{what}: {e}")
            return None

    def play(self, tag=""):
        """Every kind of request; what each answer carried."""
        for target, lines, method, body in KINDS:
            answer = self.world.ask(target + tag, *lines, method=method, body=body)
            yield target, answer
            if target in SETTLE:
                time.sleep(0.003)
        if not self.world.alive():
            raise Failed("tarnd has ended")

    def check_status(self, name, target, answer):
        want = {"/synth": (701,), "/dead": (503,)}.get(target, (200, 206, 304))
        if answer.status not in want:
            self.complain(f"vcl_{name} of {target}: {answer.status}")

    def read(self, name, version):
        rows = reads(self.variables, name, version)
        if self.use(policy(self.world, version, {name: read_all(rows, name)}), f"read in {name}") is None:
            return
        kinds = {written(v.name): v for v in rows}
        came = 0
        for target, answer in self.play(f"/{name}{version}"):
            self.check_status(name, target, answer)
            said = answer.fields.get("read", "")
            if not said:
                continue
            came += 1
            for pair in said.strip(";").split(";"):
                which, _, value = pair.partition("=")
                if which not in kinds:
                    continue
                pattern = KNOWN.get(which) if target != "/restart" else None
                for p in (VALUES[kinds[which].kind], pattern):
                    if p is not None and not re.fullmatch(p, value):
                        self.complain(f"{which} in vcl_{name} of {target} is {value!r}")
        if came == 0 and name not in ("init", "fini", "pipe"):
            self.complain(f"vcl_{name} has run for none of the requests")

    def set_one(self, v, name, version, sample):
        """Set and read back; unless it is warned of, it is what was set."""
        w, carrier = written(v.name), ENTRY[name]
        body = f"set {w} = {sample}; "
        back = name in v.read
        if back:
            body += f'set {carrier}.read = "back=" + {w} + ";"; '
        told = self.use(policy(self.world, version, {name: body}), f"set {v.name} in {name}")
        if told is None:
            return
        warned = f"'{written(v.name)}'" in told
        if warned:
            self.warned.add(v.name)
        want = TEXT.get(sample, sample.strip('"'))
        for target, answer in self.play(f"/{self.policies}"):
            got = re.match(r"back=(.*?);", answer.fields.get("read", ""))
            if got and not warned and (v.name, sample) not in OTHERWISE and got[1] != want:
                self.complain(f"{v.name} in vcl_{name} of {target}: set {sample}, and it is {got[1]!r}")
                return

    def unset_one(self, v, name, version):
        if self.use(policy(self.world, version, {name: f"unset {written(v.name)}; "}), f"unset {v.name}") is not None:
            list(self.play(f"/{self.policies}"))

    def sweep(self):
        for version in ("4.1", "4.0"):
            for name in policy_world.SUBS:
                if name == "backend_refresh" and self.world.name == "varnishd":
                    continue
                self.read(name, version)
        for v in self.variables:
            version = "4.0" if v.only_40 or v.set_only_40 else "4.1"
            for name in v.written:
                for sample in BY_NAME.get(v.name, SAMPLES[v.kind]):
                    self.set_one(v, name, version, sample)
            for name in v.unset:
                self.unset_one(v, name, version)

    def find_tests(self):
        """What is set without a warning does something: a test elsewhere sets it.  There is one storage."""
        texts = "".join(open(path, encoding="utf-8").read() for kind in ("policy", "e2e", "regress", "examples", "cache", "esi")
                        for path in glob.glob(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", kind, "*.*"))
                        if not path.endswith("variables.py"))
        for v in self.variables:
            name = re.escape(v.name).replace("NAME", r"[\w-]+")
            if v.written and v.kind != "STEVEDORE" and v.name not in self.warned and not re.search(rf"set {name}\b", texts):
                self.complain(f"{v.name} is set without a warning, and no test sets it")

    def storm(self, seconds):
        """All of them in all subs, under every kind of request at once."""
        logs = {name: "".join(f'std.log("" + {written(v.name)}); ' for v in reads(self.variables, name, "4.1"))
                for name in policy_world.SUBS if name in ENTRY}
        if self.use(policy(self.world, "4.1", logs), "all") is None:
            return 0
        end, asked = time.monotonic() + seconds, 0

        def one(n):
            count = 0
            while time.monotonic() < end:
                for target, lines, method, body in KINDS:
                    self.world.ask(f"{target}/{n % 2}", *lines, method=method, body=body)
                    count += 1
            return count

        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            asked = sum(pool.map(one, range(6)))
        if not self.world.alive():
            raise Failed("tarnd has ended under load")
        return asked


def main():
    if sys.argv[1] == "--varnishd":
        world = policy_world.VarnishWorld(sys.argv[2])
    else:
        world = policy_world.TarnWorld(sys.argv[1], more="parameters: {http_max_hdr: 250, log_rate: 1}\n",
                                       stderr=open("/dev/null", "wb"))
    seconds = float(sys.argv[3]) if sys.argv[2:3] == ["--seconds"] else 3
    sweep = Sweep(world)
    try:
        sweep.sweep()
        sweep.find_tests()
        asked = sweep.storm(seconds)
    except (Failed, ConnectionError) as e:
        sweep.complain(f"after policy {sweep.policies}: {e!r}")
        asked = 0
    try:
        world.close()
    except AssertionError as e:
        sweep.complain(str(e))
    print(f"{sweep.policies} policies, {asked} requests under load, {len(sweep.wrong)} wrong")
    return len(sweep.wrong) != 0


if __name__ == "__main__":
    sys.exit(main())
