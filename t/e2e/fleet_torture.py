#!/usr/bin/env python3
"""fleet_torture.py TARND [--seconds N] [--seed N] [--nodes N] [--world WORLD] [--evil NAME,...] -- a purge's proof holds,
whatever happens.

Purgers change a version at the origin, purge what shows it, by every way and at any node, and note when the proof came.
Readers ask every node all the time: an answer to a request that was sent behind the proof must not show an older version.
Meanwhile nodes are killed and stopped, wires are cut, slow or silent, and the engine loses what it had.  Between the
rounds all is well again, and every node must be in step within 10 s.  Policies, parameters and tables of the fleet change
all the time, too, and then all nodes must have them alike.

    --world    plain: without a file; always, everysec: with one, as appendfsync says; sentinel: a master, a replica
               and a Sentinel
    --evil     these alone (names of the functions evil_NAME); none: figures without any

What happens follows from the seed; when does not.
"""
import argparse
import collections
import http.client
import json
import os
import random
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time

sys.dont_write_bytecode = True
from fleet_sharer import TABLE, Sharer
from fleet_world import Engine, Node, Sentinel, Versions, Wire

KEY = "tarn:{shop}:"
NAMES = [f"/v/{i}" for i in range(24)]
ROUND_S = 8
IN_STEP_S = 10


class Slot:
    """The place of one node: processes come and go, its name and its wire stay."""

    def __init__(self, world, n):
        self.world = world
        self.name = f"n{n}"
        self.max_blind = "1s" if n % 2 else "2s"
        self.wire = None if world.sentinel else Wire(world.engine.port)
        self.log = open(os.path.join(world.dir, self.name + ".log"), "wb")
        self.node = None
        self.starts = 0
        self.busy = threading.Lock()  # whoever stops, kills or starts it
        self.start()

    def start(self):
        port, fleet = (self.world.sentinel_port, ", sentinel: shop") if self.world.sentinel else (self.wire.port, "")
        fleet += ", log_bytes: 1MiB"  # a minute of it or so
        self.node = Node(self.world.program, self.name, port, self.world.origin, policy=True, max_blind=self.max_blind,
                         stderr=self.log, fleet=fleet, peers=self.world.args.peers, more=TABLE)
        self.starts += 1

    def close(self):
        self.node.tidy()
        if self.wire:
            self.wire.close()
        self.log.close()


class Reader(threading.Thread):
    """Asks one node for one name after the other, on one connection as long as that lasts."""

    def __init__(self, world, slot, seed):
        super().__init__(daemon=True)
        self.world, self.slot = world, slot
        self.random = random.Random(seed)
        self.conn = None

    def run(self):
        while not self.world.over:
            try:
                self.ask(self.random.choice(NAMES))
            except (OSError, http.client.HTTPException, ValueError):
                if self.conn is not None:
                    self.conn.close()
                self.conn = None
                time.sleep(0.05)
            if self.world.reader_pause:
                time.sleep(self.world.reader_pause)

    def ask(self, name):
        node = self.slot.node
        if self.conn is None or self.conn.port != node.port:
            self.conn = http.client.HTTPConnection("127.0.0.1", node.port, timeout=8)
        need, sent = self.world.floor[name], time.monotonic()
        self.conn.request("GET", name, headers={"Host": "tarn.test"})
        r = self.conn.getresponse()
        body = r.read()
        if r.status != 200:
            return
        status = r.headers.get("cache-status", "")
        self.world.answers["hit" if "hit" in status else "miss"] += 1
        if int(body) < need[0]:
            self.world.breach(node=self.slot.name, name=name, shows=int(body), purged_before=need[0], way=need[2],
                              proof_to_sent_ms=round((sent - need[1]) * 1000, 2),
                              took_ms=round((time.monotonic() - sent) * 1000, 2), age=r.headers.get("age"), status=status)


class Purger(threading.Thread):
    def __init__(self, world, seed):
        super().__init__(daemon=True)
        self.world = world
        self.random = random.Random(seed)
        ways = [m for m in dir(self) if m.startswith("way_")]
        # Those of everything leave little to be shown, and so little to be wrong.
        self.ways = [getattr(self, m) for m in ways for _ in range(1 if "all" in m else 6)]

    def run(self):
        while not self.world.over:
            slot, way, name = self.random.choice(self.world.slots), self.random.choice(self.ways), \
                self.random.choice(NAMES)
            try:
                self.purge(slot.node, way, name)
            except (OSError, http.client.HTTPException, ValueError, KeyError):
                self.world.refused += 1
                time.sleep(0.02)

    def purge(self, node, way, name):
        world, others = self.world, [name]
        well = world.well
        if "all" in way.__name__:
            others = self.random.sample(NAMES, 6)
        changed = {n: world.origin.change(n) for n in others}
        began = time.monotonic()
        answer = way(node, name, changed)
        done = time.monotonic()
        world.purges += 1
        if answer.get("proof") == "all":
            world.proven(changed, done, way.__name__[4:])
            if well and world.well:
                world.times.append(done - began)
        elif "proof" in answer:
            world.unproven += 1
            if well and world.well:
                world.unproven_calm.append(answer)
        else:
            world.refused += 1
            time.sleep(0.02)

    @staticmethod
    def admin(node, target, method="POST", **body):
        conn = http.client.HTTPConnection("tarn")
        conn.sock = socket.socket(socket.AF_UNIX)
        try:
            conn.sock.settimeout(12)
            conn.sock.connect(os.path.join(node.dir, "admin.sock"))
            conn.request(method, target, json.dumps({"wait": "all", "timeout_ms": 2000, **body}) if method == "POST" else None)
            return json.load(conn.getresponse())
        finally:
            conn.close()

    @staticmethod
    def client(node, name, method, *lines):
        """What a client sends to the node; the fields of its answer."""
        with socket.create_connection(("127.0.0.1", node.port), timeout=8) as s:
            conn = http.client.HTTPConnection("127.0.0.1", node.port)
            conn.sock = s
            conn.request(method, name, headers={"Host": "tarn.test", "Content-Length": "0", **dict(lines)})
            r = conn.getresponse()
            r.read()
        if r.status >= 300:
            raise OSError(f"{method} was answered {r.status}")
        return r.headers

    def way_url(self, node, name, changed):
        return self.admin(node, "/v1/purge", url="http://tarn.test" + name)

    def way_url_soft(self, node, name, changed):
        return self.admin(node, "/v1/purge", url="http://tarn.test" + name, soft=True)

    def way_tag(self, node, name, changed):
        return self.admin(node, "/v1/purge", tag=name)

    def way_tag_soft(self, node, name, changed):
        return self.admin(node, "/v1/purge", tags=["unheard-of", name], soft=True)

    def way_ban(self, node, name, changed):
        return self.admin(node, "/v1/bans", expression=f"req.url == {name}")

    def way_ban_of_object(self, node, name, changed):
        return self.admin(node, "/v1/bans", expression=f"obj.http.name == {name}")

    def way_all(self, node, name, changed):
        return self.admin(node, "/v1/purge", all=True)

    def way_all_soft(self, node, name, changed):
        return self.admin(node, "/v1/purge", all=True, soft=True)

    def by_policy(self, node, name, method, *lines):
        """Its answer waits for the proof; or any node gives that for its token."""
        waits = self.random.random() < 0.5
        fields = self.client(node, name, method, *lines, *((("Wait", "2s"),) if waits else ()))
        if waits or "Purge-Token" not in fields:
            return {"proof": fields["Purge-Proof"], "by": method}
        return self.admin(self.random.choice(self.world.slots).node, f"/v1/fleet/proofs/{fields['Purge-Token']}?timeout_ms=2000", "GET")

    def way_policy_purge(self, node, name, changed):
        return self.by_policy(node, name, "PURGE")

    def way_policy_ban(self, node, name, changed):
        return self.by_policy(node, name, "BAN")

    def way_policy_tag(self, node, name, changed):
        return self.by_policy(node, name, "TAG", ("Tag", name))

    def way_post(self, node, name, changed):
        """An invalidation by RFC 9111 4.4 has no proof: that of a later purge proves it."""
        fields = self.client(node, name, "POST")
        changed[name] = int(fields["Version"])
        return self.admin(node, "/v1/purge", url="http://tarn.test/none")


class Evil(threading.Thread):
    """One deed after the other, as long as the round lasts.  Each puts right what it did before it ends, or heal() does."""

    def __init__(self, world, seed, names):
        super().__init__(daemon=True)
        self.world = world
        self.random = random.Random(seed)
        every = [m[5:] for m in dir(self) if m.startswith("evil_")]
        if world.sentinel:
            every = [m for m in every if not m.startswith(("wire", "engine_restarts"))]
        else:
            every.remove("failover")
        self.names = [n for n in every if not names or n in names]
        self.deed = threading.Lock()  # held for as long as one takes

    def run(self):
        while not self.world.over:
            if self.world.calm or not self.names:
                time.sleep(0.05)
                continue
            with self.deed:
                if self.world.calm:
                    continue
                name = self.random.choice(self.names)
                self.world.deeds[name] += 1
                self.world.note(name)
                try:
                    getattr(self, "evil_" + name)()
                except (OSError, RuntimeError) as e:
                    self.world.note(f"{name}: {e}")
            time.sleep(self.random.random() * 0.4)

    def slot(self):
        return self.random.choice(self.world.slots)

    def a_while(self, longest=2.5):
        time.sleep(self.random.choice((0.05, 0.3, 1, longest)) * (0.5 + self.random.random() / 2))

    # ---- nodes ----

    def evil_node_is_killed(self):
        s = self.slot()
        with s.busy:
            s.node.tidy()
            time.sleep(self.random.choice((0, 0, 0.5, 3)))
            s.start()

    def evil_node_ends(self):
        s = self.slot()
        with s.busy:
            s.node.close()
            s.start()

    def stop_node(self, s, seconds, *command):
        with s.busy:
            s.node.pause()
            try:
                if command:
                    self.ask(*command)
                time.sleep(seconds)
            finally:
                s.node.resume()

    def evil_node_is_stopped(self):
        self.stop_node(self.slot(), self.random.choice((0.1, 0.3, 0.9, 1.1, 2.2, 3, 5)))

    def evil_nodes_are_stopped_by_turns(self):
        for _ in range(6):
            self.stop_node(self.slot(), self.random.random() * 0.5)

    def evil_name_is_taken_twice(self):
        s = self.slot()
        port = self.world.sentinel_port if self.world.sentinel else self.world.engine.port
        other = Node(self.world.program, s.name, port, self.world.origin, policy=True,
                     stderr=s.log, more=TABLE, fleet=", sentinel: shop" if self.world.sentinel else "")
        self.a_while()
        other.tidy()

    # ---- wires ----

    def evil_wire_is_cut(self):
        w = self.slot().wire
        w.cut()
        self.a_while()
        w.mend()

    def evil_wire_is_cut_for_a_moment(self):
        w = self.slot().wire
        w.cut()
        w.mend()

    def evil_wire_is_silent(self):
        w = self.slot().wire
        w.mode = self.random.choice(("silent", "mute", "deaf"))
        self.a_while(4)
        w.mend()

    def evil_wire_is_slow(self):
        w = self.slot().wire
        w.delay = self.random.choice((0.005, 0.05, 0.3))
        self.a_while()
        w.mend()

    def evil_wire_is_silent_while_its_node_is_stopped(self):
        s = self.slot()
        s.wire.mode = self.random.choice(("silent", "mute", "deaf"))
        self.stop_node(s, self.random.random() * 2.5)
        s.wire.mend()

    # ---- the engine ----

    def ask(self, *words):
        return self.world.engine.ask(*words)

    def evil_engine_restarts(self):
        with self.world.restarting:  # two that start it lose one of the processes
            e = self.world.engine
            e.kill()
            self.a_while()
            e.start()

    def evil_engine_is_emptied(self):
        self.ask("FLUSHALL")

    def evil_engine_is_emptied_while_a_node_is_stopped(self):
        s = self.slot()
        self.stop_node(s, self.random.random() * 2.5, "FLUSHALL")

    def evil_engine_is_full(self):
        self.ask("CONFIG", "SET", "maxmemory", "1")
        self.a_while()
        self.ask("CONFIG", "SET", "maxmemory", "0")

    def evil_engine_sleeps(self):
        self.ask("DEBUG", "SLEEP", self.random.choice(("0.05", "0.5", "1.5", "3")))

    def evil_engine_is_stopped(self):
        e = self.world.engine
        e.process.send_signal(signal.SIGSTOP)
        self.a_while(4)
        e.process.send_signal(signal.SIGCONT)

    def evil_clients_are_killed(self):
        self.ask("CLIENT", "KILL", "TYPE", "normal")

    def evil_clients_wait(self):
        self.ask("CLIENT", "PAUSE", self.random.choice((50, 700, 2500)), self.random.choice(("WRITE", "ALL")))

    def evil_log_is_trimmed(self):
        self.ask("XTRIM", KEY + "log", "MAXLEN", self.random.choice((0, 1, 3)))

    def evil_log_is_trimmed_behind_a_wire(self):
        w = self.slot().wire or self.world.engine
        if isinstance(w, Wire):
            w.mode = "silent"
        time.sleep(0.5)
        self.ask("XTRIM", KEY + "log", "MAXLEN", 0)
        if isinstance(w, Wire):
            w.mend()

    def evil_key_is_lost(self):
        self.ask("DEL", KEY + self.random.choice(("log", "nodes", "nodes")))

    def evil_key_of_a_node_is_lost(self):
        self.ask("DEL", KEY + "node:" + self.slot().name)

    def evil_keys_are_lost_while_a_node_is_stopped(self):
        s = self.slot()
        keys = self.random.choice((("nodes",), ("node:" + s.name,), ("log",), ("nodes", "node:" + s.name)))
        self.stop_node(s, self.random.random() * 1.5, "DEL", *(KEY + k for k in keys))

    def evil_mark_of_the_engine_is_lost(self):
        self.ask("ZREMRANGEBYSCORE", KEY + "nodes", "-inf", "-1")

    def evil_log_goes_back(self):
        """As a clock that was ahead leaves it: the next entries have lower ids than what was read."""
        last = self.ask("XREVRANGE", KEY + "log", "+", "-", "COUNT", 1)
        if last:
            ms = int(last[0][0].split(b"-")[0])
            self.ask("XADD", KEY + "log", f"{ms + 3000}-0", "v", "1", "kind", "hello")
            time.sleep(0.2)
            self.ask("DEL", KEY + "log")

    def evil_rubbish_is_in_the_log(self):
        self.ask("XADD", KEY + "log", "*", *self.random.choice((("v", 9, "kind", "url"), ("a", b"\0\xff\r\n"),
                                                                ("v", 1, "kind", "ban", "text", "obj.status ==="))))

    def evil_failover(self):
        self.world.fail_over(self.random)


class World:
    def __init__(self, program, args):
        self.program, self.args = program, args
        self.sentinel = args.world == "sentinel"
        self.dir = tempfile.mkdtemp(prefix="tarn-torture.")
        self.over, self.calm, self.well = False, True, False
        self.restarting = threading.Lock()
        self.floor = {n: (0, 0.0, "") for n in NAMES}
        self.lock = threading.Lock()
        self.answers, self.deeds, self.shared = collections.Counter(), collections.Counter(), collections.Counter()
        self.breaches, self.unlike, self.hangs, self.times, self.unproven_calm = [], [], [], [], []
        self.purges = self.proofs = self.unproven = self.refused = 0
        self.reader_pause = args.reader_pause
        self.began = time.monotonic()
        self.origin = Versions()
        pauses = random.Random(args.seed)
        self.origin.pause = lambda name: pauses.choice((0, 0, 0, 0, 0.002, 0.02, 0.3)) if args.slow_origin else 0
        self.engines, self.evils = [], []
        self.start_engines()
        self.slots = [Slot(self, n + 1) for n in range(args.nodes)]
        self.sharer = Sharer(self, random.Random(args.seed * 1000 + 300)) if args.shared else None

    # ---- engines ----

    def start_engines(self):
        file = {"always": ("--appendonly", "yes", "--appendfsync", "always"),
                "everysec": ("--appendonly", "yes", "--appendfsync", "everysec")}.get(self.args.world, ())
        more = ("--enable-debug-command", "yes", *file)
        if not self.sentinel:
            self.engine = Engine(*more)
            self.engines = [self.engine]
            return
        # Without a replica that hears it a master of before takes no writes: else it could still prove.
        more += ("--min-replicas-to-write", "1", "--min-replicas-max-lag", "2", "--repl-ping-replica-period", "1",
                 "--repl-diskless-sync-delay", "0")
        self.engine = Engine(*more)
        self.engines = [self.engine, Engine(*more, "--replicaof", f"127.0.0.1 {self.engine.port}")]
        self.watch = Sentinel(self.engine.port, "shop", 800)
        self.sentinel_port = self.watch.port
        deadline = time.monotonic() + 30
        while not self.has_replica():
            if time.monotonic() > deadline:
                raise AssertionError("in vain: Sentinel knows the replica")
            time.sleep(0.2)

    def has_replica(self):
        try:
            info = self.ask_sentinel("INFO", "sentinel").decode()
            return "status=ok" in info and "slaves=1" in info and b"slave0" in self.engine.ask("INFO", "replication")
        except (OSError, RuntimeError):
            return False

    def ask_sentinel(self, *words):
        e = Engine.__new__(Engine)
        e.port = self.sentinel_port
        return e.ask(*words)

    def fail_over(self, rnd):
        """The master is stopped or killed, or Sentinel is asked; afterwards the engine of before is a replica."""
        old = self.engine
        how = rnd.choice(("stop", "kill", "ask"))
        self.note("failover: " + how)
        if how == "stop":
            old.process.send_signal(signal.SIGSTOP)
        elif how == "kill":
            old.kill()
        else:
            self.ask_sentinel("SENTINEL", "FAILOVER", "shop")
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            if int(self.ask_sentinel("SENTINEL", "get-master-addr-by-name", "shop")[1]) != old.port:
                break
            time.sleep(0.05)
        time.sleep(rnd.random())
        if how == "stop":
            old.process.send_signal(signal.SIGCONT)
        elif how == "kill":
            old.start()
        self.find_master()

    def find_master(self):
        port = int(self.ask_sentinel("SENTINEL", "get-master-addr-by-name", "shop")[1])
        self.engine = next(e for e in self.engines if e.port == port)
        deadline = time.monotonic() + 40
        while not self.has_replica() and time.monotonic() < deadline:
            time.sleep(0.2)

    # ---- what is seen ----

    def note(self, text):
        if self.args.verbose:
            print(f"{time.monotonic() - self.began:8.2f} {text}", flush=True)

    def proven(self, changed, when, way):
        with self.lock:
            self.proofs += 1
            for name, version in changed.items():
                if version > self.floor[name][0]:
                    self.floor[name] = (version, when, way)

    def breach(self, **what):
        with self.lock:
            self.breaches.append(what)
        if len(self.breaches) <= 20:
            print(f"{time.monotonic() - self.began:8.2f} BREACH {what}", flush=True)

    # ---- its course ----

    def is_in_step(self, slot):
        try:
            f = slot.node.fleet()
            return f["state"] == "in step" and f["proofs_in_ms"] == 0 and not f["why"]
        except (OSError, http.client.HTTPException, ValueError):
            return False

    def heal(self):
        """Every deed has ended; every node is in step soon.  A deed that another one made fail has put nothing right."""
        self.calm = True
        for e in self.evils:
            with e.deed:
                pass
        for e in self.engines:
            e.process.send_signal(signal.SIGCONT)
            e.ask("CONFIG", "SET", "maxmemory", "0")
        for s in self.slots:
            if s.wire:
                s.wire.mend()
        if self.sentinel:
            self.find_master()
        deadline = time.monotonic() + IN_STEP_S
        for s in self.slots:
            while not self.is_in_step(s):
                if time.monotonic() > deadline:
                    self.hangs.append((s.name, s.node.process.poll(), self.fleet_of(s)))
                    print(f"{time.monotonic() - self.began:8.2f} NOT IN STEP {self.hangs[-1]}", flush=True)
                    break
                time.sleep(0.05)
        if self.sharer and not self.hangs:
            self.unlike += self.sharer.converge(IN_STEP_S)
        self.well = True

    @staticmethod
    def fleet_of(slot):
        try:
            f = slot.node.fleet()
            return {k: f[k] for k in ("state", "why", "trusts_ms", "proofs_in_ms", "queued", "engine", "position")}
        except (OSError, http.client.HTTPException, ValueError) as e:
            return repr(e)

    def run(self):
        args = self.args
        threads = [Reader(self, s, args.seed * 1000 + i) for s in self.slots for i in range(args.readers)]
        threads += [Purger(self, args.seed * 1000 + 100 + i) for i in range(args.purgers)]
        self.evils = [Evil(self, args.seed * 1000 + 200 + i, args.evil) for i in range(1 if self.sentinel else args.evils)]
        self.heal()
        for t in threads + self.evils + ([self.sharer] if self.sharer else []):
            t.start()
        end = time.monotonic() + args.seconds
        while True:
            time.sleep(min(3, args.seconds / 6))
            memory = [s.node.memory() >> 20 for s in self.slots if s.node.process.poll() is None]
            self.note(f"calm: {self.purges} purges, {self.proofs} proofs, MiB {memory}")
            if time.monotonic() > end:
                break
            self.well = self.calm = args.evil == ["none"]
            time.sleep(min(ROUND_S, max(1, end - time.monotonic())))
            self.heal()
        self.over = True
        for t in threads + self.evils:
            t.join(20)

    def close(self):
        for s in self.slots:
            s.close()
        if self.sentinel:
            self.watch.close()
        for e in self.engines:
            e.process.send_signal(signal.SIGCONT)
            e.close()
        self.origin.close()

    def report(self):
        text = "".join(open(s.log.name, errors="replace").read() for s in self.slots)
        bad = [line for line in text.splitlines()
               if any(w in line for w in ("Sanitizer", "runtime error", "assert", "panic"))]
        times = sorted(self.times)
        at = lambda q: f"{times[min(len(times) - 1, int(len(times) * q))] * 1000:.2f}" if times else "-"
        print(f"seed {self.args.seed}, world {self.args.world}: {self.purges} purges, {self.proofs} proofs, "
              f"{self.unproven} unproven ({len(self.unproven_calm)} while all was well), {self.refused} refused; "
              f"answers {dict(self.answers)}")
        print(f"while all was well: {len(times)} proofs, ms p50 {at(.5)} p90 {at(.9)} p99 {at(.99)} most {at(1)}")
        print(f"starts {sum(s.starts for s in self.slots)}, distrusts {text.count('before now is stale')}, "
              f"deeds {dict(sorted(self.deeds.items()))}")
        if self.sharer:
            print(f"shared: {self.sharer.n} sets, answers {dict(sorted(self.shared.items()))}")
        print(f"{len(self.breaches)} breaches, {len(self.hangs)} nodes not in step, {len(self.unlike)} not alike, {len(bad)} reports",
              *bad[:10], *self.unlike[:10], sep="\n")
        if self.unproven_calm:
            print("unproven:", self.unproven_calm[0])
        ok = not self.breaches and not self.hangs and not bad and not self.unlike
        if ok and not self.args.keep:
            shutil.rmtree(self.dir)
        else:
            print("logs:", self.dir)
        return 0 if ok else 1


def main():
    p = argparse.ArgumentParser(usage=__doc__)
    p.add_argument("tarnd")
    p.add_argument("--seconds", type=float, default=20)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--nodes", type=int, default=5)
    p.add_argument("--readers", type=int, default=2)
    p.add_argument("--purgers", type=int, default=4)
    p.add_argument("--reader-pause", type=float, default=0.001)
    p.add_argument("--world", choices=("plain", "always", "everysec", "sentinel"), default="plain")
    p.add_argument("--evils", type=int, default=2, help="deeds at a time; with Sentinel one, as each may end a failover")
    p.add_argument("--evil", type=lambda s: s.split(","), default=[])
    p.add_argument("--alone", dest="peers", action="store_false", help="nodes do not ask each other")
    p.add_argument("--not-shared", dest="shared", action="store_false", help="no policy, parameter or table changes")
    p.add_argument("--quick-origin", dest="slow_origin", action="store_false")
    p.add_argument("--verbose", action="store_true")
    p.add_argument("--keep", action="store_true")
    args = p.parse_args()
    if shutil.which("redis-server") is None:
        print("redis-server is missing (scripts/install-deps --test)")
        sys.exit(77)
    world = World(os.path.abspath(args.tarnd), args)
    try:
        world.run()
    finally:
        world.close()
    sys.exit(world.report())


if __name__ == "__main__":
    main()
