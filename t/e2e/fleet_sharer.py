"""fleet_sharer.py -- for fleet_torture.py: what all nodes are to have alike changes all the time, and is alike once all is well.

A policy, a parameter and a table are set, refused, taken back and rolled back, by any node, while nodes and engine are
treated badly.  Where nothing is wrong any more a set that was answered with 200 is what every node has, at once.
"""
import http.client
import json
import os
import socket
import threading
import time

from fleet_world import policy_text

TABLE = "tables: { moved: { path: '{dir}/moved', kind: map } }\n"


def ask(node, method, target, body=b"", timeout_s=15):
    """(status, answer)"""
    conn = http.client.HTTPConnection("tarn")
    conn.sock = socket.socket(socket.AF_UNIX)
    try:
        conn.sock.settimeout(timeout_s)
        conn.sock.connect(os.path.join(node.dir, "admin.sock"))
        conn.request(method, target, body)
        r = conn.getresponse()
        return r.status, json.load(r)
    finally:
        conn.close()


def ttl_of(n):
    return 60 * n + 1  # as it is written is how it is shown: no whole minutes


class Sharer(threading.Thread):
    def __init__(self, world, rnd):
        super().__init__(daemon=True)
        self.world, self.random = world, rnd
        self.n = 0
        self.busy = threading.Lock()  # a change is under way
        self.ways = [getattr(self, m) for m in dir(self) if m.startswith("way_")]

    def run(self):
        while not self.world.over:
            with self.busy:
                way, slot = self.random.choice(self.ways), self.random.choice(self.world.slots)
                try:
                    status, said = way(slot.node)
                    self.world.shared[f"{way.__name__[4:]} {status}"] += 1
                    if way == self.way_policy_that_nobody_compiles and status == 200:
                        self.world.breach(shared=said)
                except (OSError, http.client.HTTPException, ValueError):
                    self.world.shared["no answer"] += 1
            time.sleep(self.random.random() * 0.5)

    def policy(self, word):
        return (policy_text(self.world.origin.server_address[1]) +
                'sub vcl_deliver { set resp.http.word = "%s"; }\n' % word).encode()

    def next(self):
        self.n += 1
        return self.n

    def way_policy(self, node):
        n = self.next()
        return ask(node, "PUT", f"/v1/fleet/policies/p{n}?timeout_ms=3000", self.policy(n))

    def way_policy_that_nobody_compiles(self, node):
        n = self.next()
        return ask(node, "PUT", f"/v1/fleet/policies/p{n}?timeout_ms=3000", self.policy(n) + b"sub vcl_recv { set nothing; }")

    def way_rollback(self, node):
        return ask(node, "POST", "/v1/fleet/rollback?timeout_ms=3000")

    def way_parameter(self, node):
        return ask(node, "PUT", "/v1/fleet/parameters/default_ttl?timeout_ms=3000", b'{"value": "%ds"}' % ttl_of(self.next()))

    def way_parameter_unset(self, node):
        return ask(node, "DELETE", "/v1/fleet/parameters/default_ttl?timeout_ms=3000")

    def way_table(self, node):
        return ask(node, "PUT", "/v1/fleet/tables/moved?timeout_ms=3000", b"a %d\n" % self.next())

    # ---- when all is well ----

    def set(self, way, deadline):
        """Until it is answered with 200; the number that it was set to."""
        while True:
            try:
                status, said = way(self.random.choice(self.world.slots).node)
            except (OSError, http.client.HTTPException, ValueError) as e:
                status, said = 0, repr(e)
            if status == 200:
                return self.n
            if time.monotonic() > deadline:
                raise TimeoutError(f"{way.__name__}: {status} {said}")
            time.sleep(0.1)

    def seen(self, node):
        """(policy's, parameter's, table's)"""
        word = node.ask("/shared").fields.get("word")
        ttl = next(p["value"] for p in ask(node, "GET", "/v1/parameters")[1]["parameters"] if p["name"] == "default_ttl")
        rows = {e["key"]: e["value"] for e in ask(node, "GET", "/v1/tables/moved")[1]["list"]}
        return [word, ttl, rows.get("a")]

    def converge(self, seconds):
        """What is not alike: texts."""
        with self.busy:
            try:
                deadline = time.monotonic() + seconds
                policy, ttl, table = (self.set(w, deadline) for w in (self.way_policy, self.way_parameter, self.way_table))
            except TimeoutError as e:
                return [str(e)]
            want = [str(policy), f"{ttl_of(ttl)}s", str(table)]
            found = [(s.name, self.seen(s.node)) for s in self.world.slots]
        return [f"{name} has {got}, and {want} was set" for name, got in found if got != want]
