"""torture_operator.py -- what operators do to tarnd while torture.py's clients are at it.

Each is a thread of one process: purges, bans, versions that just change, parameters, policies, and
tables that are rewritten, now and then by a writer that is killed.
"""
import collections
import http.client
import json
import os
import random
import socket
import subprocess
import threading
import time

from torture_clients import PREFIXES, TABLE_KEYS
from torture_world import GROUPS, GUNZIP_GROUPS, GZIP_GROUPS, HOST, PLAIN_GROUPS, SCHEMES, canary

POLICY = """vcl 4.1;
import std;
import tarn;

sub vcl_recv {
    if (req.method == "PURGE") {
        return (purge);
    }
}

sub vcl_backend_response {
    if (beresp.http.X-Grace) {
        set beresp.grace = std.duration(beresp.http.X-Grace, 0s);
        set beresp.keep = std.duration(beresp.http.X-Keep, 0s);
    }
FORMS}

sub mark {
    set resp.http.X-Policy = "NUMBER";
    set resp.http.X-Canary = tarn.table_lookup("canary", req.http.X-Key, "none");
    set resp.http.X-Canary-0 = tarn.table_lookup("canary", "k0", "none");
    set resp.http.X-Longest = tarn.table_lookup("longest", req.url, "none");
    set resp.http.X-Members = "";
    if (tarn.table_contains("members", "always")) {
        set resp.http.X-Members = "always";
    }
    if (tarn.table_contains("members", "even")) {
        set resp.http.X-Members = resp.http.X-Members + " even";
    }
    if (tarn.table_contains("members", "odd")) {
        set resp.http.X-Members = resp.http.X-Members + " odd";
    }
}

sub vcl_deliver {
    call mark;
}

sub vcl_synth {
    call mark;
}
"""

FORM = """    if (beresp.http.X-Group ~ "^(%s)$") {
        set beresp.%s;
    }
"""
PACK, UNPACK, LEAVE = (FORM % ("|".join(map(str, groups)), action) for groups, action in (
    (GZIP_GROUPS, "do_gzip = true"), (GUNZIP_GROUPS, "do_gunzip = true"), (PLAIN_GROUPS, "do_gzip = false")))
FORMS = ("", PACK, UNPACK, PACK + UNPACK + LEAVE)  # of one policy after the other

# Of each, values that a site might have.
PARAMETERS = {
    "transit_buffer": ("64KiB", "256KiB", "1MiB"),
    "stream_window": ("1MiB", "2MiB", "4MiB"),
    "max_object_size": ("5MiB", "7MiB", "9MiB"),
    "ban_lurker_age": ("0s", "100ms", "2s"),
    "ban_lurker_sleep": ("1ms", "10ms", "0s"),
    "ban_lurker_batch": (1, 100, 10000),
    "ban_cutoff": (0, 5, 1000),
    "ban_dups": ("on", "off"),
    "uncacheable_ttl": ("100ms", "2s", "2m"),
    "timeout_idle": ("500ms", "5s"),
    "http_cache_status": ("on", "on", "off"),
    "req_body_buffer": ("16KiB", "64KiB"),
    "max_retries": (0, 4),
    "log_rate": (1, 100),
    "default_grace": ("0s", "10s"),
    "idle_send_timeout": ("50s", "1m"),
}


PROMISE = 1.1  # of the storage's size: as much may be charged, or be resident without the base


def policy(number):
    return POLICY.replace("NUMBER", str(number)).replace("FORMS", FORMS[number % len(FORMS)])


class Told(Exception):
    """tarnd said something else than what was expected."""


class Admin:
    """A connection to the admin listener, opened again when it was closed."""

    def __init__(self, path, patience):
        self.path, self.patience, self.connection = path, patience, None

    def connect(self):
        c = http.client.HTTPConnection("tarn")
        c.sock = socket.socket(socket.AF_UNIX)
        c.sock.settimeout(self.patience)
        c.sock.connect(self.path)
        return c

    def ask(self, method, target, body=None, want=200):
        """`want` may be several statuses."""
        text = body if body is None or isinstance(body, str) else json.dumps(body)
        for last in (False, True):
            if self.connection is None:
                self.connection = self.connect()
            try:
                self.connection.request(method, target, text)
                response = self.connection.getresponse()
                told = response.read()
                break
            except (http.client.BadStatusLine, ConnectionError):
                self.connection = None  # it was idle for too long
                if last:
                    raise
        if response.will_close:
            self.connection = None
        if response.status not in (want if isinstance(want, tuple) else (want,)):
            raise Told(f"{method} {target} {text!r:.200}: {response.status} {told[:500]!r}")
        if response.headers["Content-Type"] == "application/json":
            return json.loads(told)
        return told


class Hand(threading.Thread):
    """One thing that is done again and again."""

    def __init__(self, world, lab):
        super().__init__(daemon=True)
        self.world, self.lab, self.name_ = world, lab, type(self).__name__.lower()
        self.admin = Admin(lab.socket, lab.patience)
        self.rng = random.Random(f"{world.seed} {self.name_}")
        self.count, self.wrong = collections.Counter(), []
        self.turns = 0

    def some_resource(self):
        near = self.rng.random() < 0.6
        return self.rng.choice(self.world.focus() if near else self.world.resources)

    def run(self):
        while not self.world.stopped():
            try:
                self.turn()
            except Exception as e:  # also our own mistakes: no thread ends unheard
                self.wrong.append(f"{self.name_}: {type(e).__name__} {e}")
                self.world.set("stop", 1)
            self.turns += 1
            self.world.pause(self.rng.expovariate(1 / self.every_s))


class Purger(Hand):
    every_s = 0.03

    def turn(self):
        r = self.some_resource()
        if self.rng.random() < 0.2:
            r = self.rng.choice(self.world.by_kind[self.rng.choice(("hot", "wide", "absent"))])
        soft = self.rng.random() < 0.1
        version = self.world.change(r)
        for scheme in SCHEMES:
            url = f"{scheme}://{HOST}{r.target}"
            told = self.admin.ask("POST", "/v1/purge", {"url": url, "soft": soft})
            if not soft:
                self.world.forbid_older(r, version, scheme)
            self.count["soft purges" if soft else "purges"] += 1
            self.count["purged responses"] += told["purged"]


class Banner(Hand):
    every_s = 0.15

    def turn(self):
        r = self.some_resource()
        many = self.rng.random() < 0.05
        concerned = [o for o in self.world.resources if o.group == r.group] if many else [r]
        expression = f"obj.http.x-group == {r.group}" if many else self.rng.choice((
            f"obj.http.x-id == {r.number}", f"req.url == {r.target}",
            f"req.url ~ ^{r.target}$ && obj.status == 200", f"obj.http.x-id ~ ^{r.number}$"))
        if "status" in expression and r.kind_name == "absent":
            expression = f"req.url == {r.target}"
        versions = [self.world.change(o) for o in concerned]
        told = self.admin.ask("POST", "/v1/bans", {"expression": expression}, want=(201, 503))
        if "error" in told:  # those on req.* complete no sooner than all that is older has left
            if "too many bans" not in told["error"]:
                raise AssertionError(told)
            self.count["bans refused"] += 1
            return
        for o, version in zip(concerned, versions):
            self.world.forbid_older(o, version)
        self.count["bans"] += 1
        if self.rng.random() < 0.05:
            self.admin.ask("POST", "/v1/bans", {"expression": "obj.http.x-id ~ ("}, want=400)


class Changer(Hand):
    """Nobody is told: what is cached stays good."""

    every_s = 0.02

    def turn(self):
        self.world.change(self.some_resource())


class Parameters(Hand):
    every_s = 0.1

    def turn(self):
        name = self.rng.choice(tuple(PARAMETERS))
        told = self.admin.ask("PUT", "/v1/parameters/" + name,
                              {"value": self.rng.choice(PARAMETERS[name])})
        if told["name"] != name:
            raise Told(f"{name}: {told}")
        self.count["parameters"] += 1
        if self.rng.random() < 0.05:
            self.admin.ask("PUT", "/v1/parameters/" + name, {"value": "-3 parsecs"}, want=400)


class Policies(Hand):
    """The next one is loaded, used, perhaps by a label, and the one before is forgotten."""

    every_s = 0.5

    def turn(self):
        number = self.turns + 1
        name, before = f"p{number}", f"p{number - 1}"
        self.admin.ask("PUT", f"/v1/policies/{name}", policy(number), want=201)
        used = name
        if self.rng.random() < 0.2:
            used = f"l{number % 2}"
            self.admin.ask("PUT", f"/v1/labels/{used}", {"name": name})
        self.admin.ask("PUT", "/v1/policies/active", {"name": used})
        self.world.set("policy", number)
        self.count["policies"] += 1
        for label in ("l0", "l1"):
            if label != used:
                self.admin.ask("DELETE", f"/v1/labels/{label}", want=(200, 404))
        if number > 1:
            self.admin.ask("DELETE", f"/v1/policies/{before}")
        if self.rng.random() < 0.1:
            self.admin.ask("PUT", "/v1/policies/wrong", policy(number) + "sub vcl_recv {", want=422)


class Table(Hand):
    """Versions of one table, one after the other; sizes differ."""

    every_s = 0.02
    kind = None

    def __init__(self, world, lab):
        super().__init__(world, lab)
        self.version = 0

    def entries(self, version):
        raise NotImplementedError

    def start_writer(self, version):
        """The grace period is long: a reader is late because the machine is, and alive."""
        text = "".join(line + "\n" for line in self.entries(version)).encode()
        path = os.path.join(self.lab.dir, f"{self.name_}.txt")
        with open(path, "wb") as f:
            f.write(text)
        return subprocess.Popen(
            [self.lab.writer, "--dir", self.lab.tables, "--grace", "600000", "--kind", self.kind,
             "load", self.name_, path], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def turn(self):
        self.version += 1
        writer = self.start_writer(self.version)
        if self.turns > 5 and self.rng.random() < 0.05:
            time.sleep(self.rng.uniform(0, 0.03))
            writer.kill()
            self.count["table writers killed"] += 1
        try:
            _, said = writer.communicate(timeout=self.lab.patience)
        finally:
            writer.kill()
        if writer.returncode == 0:
            self.written(self.version)
            self.count["table versions"] += 1
        elif writer.returncode != -9:
            raise Told(f"tarn-table: {writer.returncode} {said.decode()!r}")

    def written(self, version):
        pass


class Canary(Table):
    kind = "map"

    def entries(self, version):
        for i in range(TABLE_KEYS):
            yield f"k{i} {canary('canary', f'k{i}', version)}"
        for i in range(self.rng.choice((0, 10, 3000))):
            yield f"other{i} {version}"

    def written(self, version):
        """A turn that had begun when this one came may see the one before, and none older."""
        self.world.set("canary", self.before)
        self.before = version

    before = 0


class Longest(Table):
    kind = "prefix"

    def entries(self, version):
        return (f"{p} {canary('longest', p, version)}" for p in PREFIXES)


class Members(Table):
    kind = "set"

    def entries(self, version):
        yield "always"
        yield "odd" if version % 2 else "even"
        for i in range(self.rng.choice((0, 1, 500))):
            yield f"n{i}"


class Watcher(Hand):
    """Looks at everything an operator can look at, and whether it adds up."""

    every_s = 0.5

    def turn(self):
        tree = self.admin.ask("GET", "/v1/memory")
        total = sum(branch["bytes"] for branch in tree["total"]["parts"].values())
        if total != tree["total"]["bytes"]:
            raise Told(f"branches make {total} of {tree['total']['bytes']}")
        self.peak("resident", tree["resident"])
        counters = self.admin.ask("GET", "/v1/counters")
        if counters["storage.used"] > self.count["charged"]:  # the tree's leaves are of many moments
            self.count["charged"] = counters["storage.used"]
            self.count.update({name: leaf - self.count[name] for name, leaf in leaves(tree)})
        if counters["storage.used"] > PROMISE * counters["storage.size"]:
            raise Told(f"{counters['storage.used']} bytes are charged: {tree}")
        for name in ("storage.used", "memory.passing", "memory.traffic", "negative.entries",
                     "bans.now", "index.entries", "cache.small_bytes", "cache.main_bytes"):
            if not 0 <= counters[name] < 1 << 40:
                raise Told(f"{name} is {counters[name]}")
        self.peak("bans at a time", counters["bans.now"])
        for target in ("/v1/status", "/v1/tables", "/v1/bans", "/v1/policies", "/v1/index",
                       "/v1/backends", "/v1/parameters", "/metrics", "/v1/latency", "/v1/errors",
                       "/v1/top?of=url&by=bytes"):
            self.admin.ask("GET", target)
        after = "0"
        while after is not None and not self.world.stopped():
            page = self.admin.ask("GET", f"/v1/index/dump?limit=200&after={after}")
            after = page["next"]
        self.count["looks"] += 1

    def peak(self, name, value):
        self.count[name] = max(self.count[name], value)


def leaves(tree):
    for branch in tree["total"]["parts"].values():
        for name, size in branch["parts"].items():
            yield f"peak {name}", size


Lab = collections.namedtuple("Lab", "socket dir tables writer patience")
TABLES = (Canary, Longest, Members)
HANDS = (Purger, Banner, Changer, Parameters, Policies, *TABLES, Watcher)


def first_tables(world, lab):
    """Before tarnd starts: it looks for one that is not there from time to time only."""
    for table in TABLES:
        one = table(world, lab)
        one.version = -1
        one.turn()


def first_policy(admin):
    admin.ask("PUT", "/v1/policies/p0", policy(0), want=201)
    admin.ask("PUT", "/v1/policies/active", {"name": "p0"})


def operate(world, lab, results):
    """A process."""
    hands = [hand(world, lab) for hand in HANDS]
    for hand in hands:
        hand.start()
    for hand in hands:
        hand.join()
    count = collections.Counter()
    for hand in hands:
        count.update(hand.count)
    results.put(("operator", count, [w for hand in hands for w in hand.wrong]))
