#!/usr/bin/env python3
"""fleet_proofs.py TARND [--nodes N] [--purges N] [--at-once N] -- how long it takes until all nodes of a fleet have proven a purge.

Nodes at 127.0.0.1, .2, .3 and so on, and redis-server.  Each purge is sent to the next node, with wait=all, and timed from
its first byte to its answer's last; before it the object is stored at each node, behind it none has it: the purge is seen.
"""
import argparse
import concurrent.futures
import http.client
import json
import os
import shutil
import socket
import subprocess
import sys
import time

sys.dont_write_bytecode = True
from fleet_world import Engine, Node, Versions, wait_for_proofs


class Admin:
    """One connection to a node's admin listener."""

    def __init__(self, node):
        self.conn = http.client.HTTPConnection("tarn")
        self.conn.sock = socket.socket(socket.AF_UNIX)
        self.conn.sock.connect(os.path.join(node.dir, "admin.sock"))

    def purge(self, name):
        """Milliseconds until the proof."""
        began = time.perf_counter()
        self.conn.request("POST", "/v1/purge", json.dumps({"url": "http://tarn.test" + name, "wait": "all", "timeout_ms": 20000}))
        said = json.load(self.conn.getresponse())
        took = (time.perf_counter() - began) * 1000
        if said.get("proof") != "all":
            raise AssertionError(said)
        return took


def one_by_one(nodes, names):
    admins = [Admin(n) for n in nodes]
    return [admins[i % len(nodes)].purge(name) for i, name in enumerate(names)]


def seen(nodes, origin):
    """Some purges are looked at: no node shows what was purged."""
    for i in range(50):
        name = f"/seen/{i}"
        for n in nodes:
            n.get(name)
        version = origin.change(name)
        Admin(nodes[i % len(nodes)]).purge(name)
        assert [n.get(name).version for n in nodes] == [version] * len(nodes), name


def main():
    p = argparse.ArgumentParser(usage=__doc__)
    p.add_argument("tarnd")
    p.add_argument("--nodes", type=int, default=5)
    p.add_argument("--purges", type=int, default=5000)
    p.add_argument("--at-once", type=int, default=1)
    args = p.parse_args()
    if shutil.which("redis-server") is None:
        sys.exit("redis-server is missing (scripts/install-deps --test)")
    engine, origin, nodes = Engine(), Versions(), []
    try:
        for i in range(args.nodes):
            nodes.append(Node(os.path.abspath(args.tarnd), f"n{i}", engine.port, origin, max_blind="1s", peers=True,
                              stderr=subprocess.DEVNULL, listener=f"  - address: '127.0.0.{i + 1}:0'\n"))
        wait_for_proofs(nodes)
        seen(nodes, origin)
        names = [f"/proof/{i}" for i in range(args.purges)]
        began = time.perf_counter()
        with concurrent.futures.ThreadPoolExecutor(args.at_once) as pool:
            parts = pool.map(lambda at: one_by_one(nodes[at % args.nodes:] + nodes[:at % args.nodes], names[at::args.at_once]),
                             range(args.at_once))
            times = sorted(t for part in parts for t in part)
        rate = args.purges / (time.perf_counter() - began)
        at = lambda q: f"{times[min(len(times) - 1, int(len(times) * q))]:.2f}"
        print(f"{args.nodes} nodes, {args.purges} purges, {args.at_once} at a time, {rate:.0f} a second: "
              f"ms p50 {at(.5)} p90 {at(.9)} p99 {at(.99)} most {at(1)}")
    finally:
        for n in nodes:
            n.tidy()
        engine.close()
        origin.close()


if __name__ == "__main__":
    main()
