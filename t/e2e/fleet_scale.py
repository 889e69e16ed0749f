#!/usr/bin/env python3
"""fleet_scale.py TARND -- how far one engine goes: what each message costs it and a node, measured, and a model of fleets by that.

Measured with redis-server and one tarnd of this machine: CPU time of the engine for an entry that is added, for one that
is delivered to one node, for a report and for a look; memory of an entry; how fast a node applies what it has missed.
The model then runs fleets second by second: the engine serves as much as one core can, the rest waits, and a node that was
away for a minute catches up from the same core.
"""
import os
import socket
import sys
import time

sys.dont_write_bytecode = True
from fleet_world import Engine, Node, Versions, wait_for_proofs
from tarnd import wait_until

LOG, BATCH, SHARE = "tarn:{shop}:log", 512, 0.7  # of a core that an engine should be busy, at most
FIELDS = ("v", "1", "kind", "url", "node", "a", "epoch", "0123456789abcdef", "text")


class Pipe:
    def __init__(self, port):
        self.s = socket.create_connection(("127.0.0.1", port))
        self.f = self.s.makefile("rb")

    def send(self, commands):
        out = []
        for words in commands:
            parts = [str(w).encode() for w in words]
            out.append(b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(p), p) for p in parts))
        self.s.sendall(b"".join(out))
        return [self.reply() for _ in out]

    def reply(self):
        line = self.f.readline()
        kind, rest = line[:1], line[1:-2]
        if kind == b"*":
            return [self.reply() for _ in range(int(rest))]
        if kind == b"$":
            return None if rest == b"-1" else self.f.read(int(rest) + 2)[:-2]
        assert kind != b"-", rest
        return rest


def cpu_s(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as f:
        fields = f.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def cost_us(pid, count, work):
    before = cpu_s(pid)
    work()
    return (cpu_s(pid) - before) / count * 1e6


def add(pipe, n):
    for i in range(0, n, 500):
        pipe.send([("XADD", LOG, "MAXLEN", "~", 1000000, "*", *FIELDS, f"http://shop.example/article/{i + j:08}") for j in range(500)])


def measure_engine():
    e = Engine()
    pipe, pid, n = Pipe(e.port), e.process.pid, 200000
    memory = lambda: int(e.ask("INFO", "memory").decode().split("used_memory:")[1].split()[0])
    before = memory()
    c = {"add": cost_us(pid, n, lambda: add(pipe, n))}
    c["bytes"] = (memory() - before) / n

    def read():
        at = "0-0"
        while True:
            got = pipe.send([("XREAD", "COUNT", BATCH, "STREAMS", LOG, at), ("XRANGE", LOG, at, at)])[0]
            if not got:
                break
            at = got[0][1][-1][0].decode()
    c["deliver"] = cost_us(pid, n, read)
    value = "0123456789abcdef " + "f" * 81 + " 1795878041345-0 12345"
    report = [("GET", "tarn:{shop}:node:a"), ("ZADD", "tarn:{shop}:nodes", 1, "a"), ("SET", "tarn:{shop}:node:a", value, "PX", 34000)]
    c["report"] = cost_us(pid, 30000, lambda: [pipe.send(report * 100) for _ in range(300)])
    # One that delivers a single entry costs a command, not a 512th of one.
    at = pipe.send([("XREVRANGE", LOG, "+", "-", "COUNT", 2)])[0][-1][0].decode()
    one = [("XREAD", "COUNT", BATCH, "STREAMS", LOG, at), ("XRANGE", LOG, at, at)]
    c["reading"] = cost_us(pid, 30000, lambda: [pipe.send(one * 100) for _ in range(300)])
    names = [f"cache-{i}" for i in range(1000)]
    pipe.send([("ZADD", "tarn:{shop}:nodes", 1, n) for n in names] + [("SET", "tarn:{shop}:node:" + n, value) for n in names])
    look = [("ZRANGE", "tarn:{shop}:nodes", 0, -1, "WITHSCORES"), ("MGET", *("tarn:{shop}:node:" + n for n in names))]
    c["look"] = cost_us(pid, 200 * 1000, lambda: [pipe.send(look) for _ in range(200)])  # for each node in it
    e.close()
    return c


def measure_node(program):
    """Entries a second that a node applies which has missed them."""
    e, o = Engine(), Versions()
    node = Node(program, "a", e.port, o, max_blind="20s")
    wait_until(lambda: node.is_in_step(), "it is in step")
    pipe, n = Pipe(e.port), 100000
    node.pause()
    add(pipe, n)
    last = pipe.send([("XREVRANGE", LOG, "+", "-", "COUNT", 1)])[0][0][0].decode()
    node.resume()
    began = time.monotonic()
    wait_until(lambda: node.fleet()["position"] == last, "it has caught up", 120)
    rate = n / (time.monotonic() - began)
    node.tidy()
    e.close()
    o.close()
    return rate


def looks(nodes):
    """Looks of each node at all, a second (FLEET_POLL_MS, FLEET_POLL_NODE_MS)."""
    return 1 / (1 + 0.008 * nodes)


def busy(c, nodes, purges):
    """Seconds of the engine's core a second, if it can do it all."""
    readings = min(purges, 1000)  # a node has one reading under way, and one report; at a millisecond each
    return (purges * c["add"] + nodes * (readings * c["reading"] + max(0, purges - readings) * c["deliver"]) +
            nodes * min(max(purges, 1), 1000) * c["report"] + nodes * nodes * looks(nodes) * c["look"]) / 1e6


def most(c, nodes):
    low, high = 0.0, 1e7
    for _ in range(60):
        mid = (low + high) / 2
        low, high = (mid, high) if busy(c, nodes, mid) < SHARE else (low, mid)
    return low


def run(c, rate, nodes, purges, away_s=60, seconds=600):
    """Second by second: the log grows, nodes read what the engine's core gives them; one was away.  How long it takes to be
    in step, and how far all are behind in the end."""
    lag, absent, caught = 0.0, away_s * purges, None
    for now in range(seconds):
        core = 1e6 - purges * c["add"] - nodes * (min(1000, purges) * c["report"] + nodes * looks(nodes) * c["look"])
        give = max(0.0, core) / c["deliver"]  # entries to all
        want = nodes * purges + nodes * lag
        got = min(give, want)
        lag = max(0.0, (want - got) / nodes)
        spare = min(rate, max(0.0, give - got))
        absent = max(0.0, absent + purges - spare - (purges if lag == 0 else 0))
        if absent <= purges and caught is None and lag == 0:
            caught = now + 1
    return caught, lag / max(purges, 1)


def main():
    c, rate = measure_engine(), measure_node(os.path.abspath(sys.argv[1]))
    print("engine, us of a core: " + ", ".join(f"{k} {v:.2f}" for k, v in c.items() if k != "bytes") + f"; {c['bytes']:.0f} bytes an entry")
    print(f"a node applies {rate:,.0f} entries a second that it has missed\n")
    print(f"{'nodes':>6} {'purges/s':>9} {'messages/s':>11} {'cores':>8} {'engines':>8} {'log, 1 h':>9} {'1 min away: in step after':>26}")
    for nodes in (5, 50, 1000):
        for purges in (10, 1000, 10000, 100000):
            load, (caught, behind) = busy(c, nodes, purges), run(c, rate, nodes, purges)
            messages = purges + nodes * min(purges, 1000) * 3 + nodes * purges
            after = f"{caught} s" if caught else f"never: {behind:.0f} s behind" if behind >= 1 else "never"
            print(f"{nodes:>6} {purges:>9,} {messages:>11,} {load:>8.2f} {max(1, -(-load // SHARE)):>8.0f} "
                  f"{min(1e6, purges * 3600) * c['bytes'] / 2**20:>6.0f} MiB {after:>26}")
        print(f"{nodes:>6} {most(c, nodes):>9,.0f} purges a second are {SHARE:.0%} of one engine's core")


if __name__ == "__main__":
    main()
