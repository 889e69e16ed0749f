#!/usr/bin/env python3
"""fleet_tier.py TARND -- would small hot objects be better had from the engine than from the node that owns their key?

Measured on this machine, for bodies of 1 and 16 KiB: CPU time of the owner and of the asking node for an object that the owner
has, and how long a client waits for it; CPU time of the engine for the same bytes (GET, and SET with an expiry), and how
long it takes there.  What the engine does it does on one core for all nodes; what owners do grows with them.
"""
import http.server
import os
import socket
import statistics
import sys
import time

sys.dont_write_bytecode = True
from fleet_scale import Pipe, cost_us, cpu_s
from fleet_world import Engine, Node, Versions, wait_for_proofs
from tarnd import wait_until

COUNT, AT_ONCE = 6000, 32


def answers(origin, size):
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = 65536

        def do_GET(self):
            self.send_response(200)
            self.send_header("Cache-Control", "max-age=600")
            self.send_header("Content-Length", str(size))
            self.end_headers()
            self.wfile.write(b"x" * size)

        def log_message(self, *args):
            pass

    origin.RequestHandlerClass = Handler


class Client:
    def __init__(self, node):
        self.s = socket.create_connection(("127.0.0.1", node.port))
        self.f = self.s.makefile("rb")

    def get(self, name):
        """Microseconds."""
        began = time.perf_counter()
        self.ask(name)
        self.take()
        return (time.perf_counter() - began) * 1e6

    def ask(self, name):
        self.s.sendall(f"GET {name} HTTP/1.1\r\nHost: tarn.test\r\n\r\n".encode())

    def take(self):
        length = 0
        while (line := self.f.readline()) not in (b"\r\n", b""):
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        self.f.read(length)


def all_of(node, names, count=AT_ONCE):
    """All of them, `count` at a time."""
    clients = [Client(node) for _ in range(count)]
    for i in range(0, len(names), count):
        now = list(zip(clients, names[i:i + count]))
        for c, name in now:
            c.ask(name)
        for c, _ in now:
            c.take()


def measure_owners(program, size):
    """Of two nodes, all objects at one of them: us of both for each that the other one takes from there, and how long a client
    waits for one, alone."""
    e, o = Engine(), Versions()
    answers(o, size)
    nodes = [Node(program, n, e.port, o, max_blind="20s", peers=True, more="") for n in "ab"]
    wait_for_proofs(nodes)
    for n in nodes:
        wait_until(lambda n=n: n.admin("/v1/counters")["fleet.peers"] == 1, "it knows the other")
    hops = lambda: nodes[0].admin("/v1/counters")["fleet.peer_hops"]
    pids = [n.process.pid for n in nodes]
    names = [f"/{size}/{i}" for i in range(COUNT)]
    all_of(nodes[1], names)
    before, cpu = hops(), [cpu_s(p) for p in pids]
    all_of(nodes[0], names)
    asked = hops() - before
    cpu = [(cpu_s(p) - c) * 1e6 for p, c in zip(pids, cpu)]
    hit = cpu_s(pids[0])
    all_of(nodes[0], names)
    hit = (cpu_s(pids[0]) - hit) * 1e6 / COUNT
    alone = [f"/{size}/alone/{i}" for i in range(1000)]
    all_of(nodes[1], alone)
    client, waits = Client(nodes[0]), []
    for name in alone:
        was = hops()
        us = client.get(name)
        if hops() > was:
            waits.append(us)
    hits = [client.get(name) for name in alone]
    for n in nodes:
        n.tidy()
    e.close()
    o.close()
    return {"hops": asked, "owner": cpu[1] / asked, "asker": (cpu[0] - (COUNT - asked) * hit) / asked, "hit": hit,
            "wait": statistics.median(waits), "hit_wait": statistics.median(hits)}


def measure_engine(size):
    e = Engine()
    pipe, pid = Pipe(e.port), e.process.pid
    body = "x" * size
    keys = [f"tarn:{{shop}}:object:{i}" for i in range(1000)]
    out = {"set": cost_us(pid, 20000, lambda: [pipe.send([("SET", k, body, "PX", 600000) for k in keys[:200]]) for _ in range(100)])}
    pipe.send([("SET", k, body) for k in keys])
    pipes = [Pipe(e.port) for _ in range(AT_ONCE)]

    def get():
        for i in range(20000 // AT_ONCE):
            for p in pipes:
                p.s.sendall(b"*2\r\n$3\r\nGET\r\n$%d\r\n%s\r\n" % (len(keys[i % 1000]), keys[i % 1000].encode()))
            for p in pipes:
                p.reply()
    out["get"] = cost_us(pid, 20000 // AT_ONCE * AT_ONCE, get)
    times = []
    for k in keys * 3:
        began = time.perf_counter()
        pipe.send([("GET", k)])
        times.append((time.perf_counter() - began) * 1e6)
    out["wait"] = statistics.median(times)
    out["bytes"] = int(e.ask("MEMORY", "USAGE", keys[0]))
    e.close()
    return out


def main():
    for size in (1024, 16384):
        o, e = measure_owners(os.path.abspath(sys.argv[1]), size), measure_engine(size)
        print(f"{size} bytes, {o['hops']} objects from the owner, us of CPU time: owner {o['owner']:.0f}, asking node {o['asker']:.0f} (a hit {o['hit']:.0f}); "
              f"engine GET {e['get']:.1f}, SET {e['set']:.1f}, {e['bytes']} bytes each\n"
              f"    a client waits {o['wait']:.0f} us for one from the owner, {o['hit_wait']:.0f} for a hit; the engine answers after {e['wait']:.0f}\n"
              f"    one engine's core: {1e6 / e['get']:,.0f} GET a second for all nodes; owners: {1e6 / o['owner']:,.0f} for each core of each node")


if __name__ == "__main__":
    main()
