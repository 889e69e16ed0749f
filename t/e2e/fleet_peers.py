#!/usr/bin/env python3
"""fleet_peers.py TARND [TEST...] -- one fetch for the fleet: a node that lacks an object asks the one that owns its key.

The origin counts what it is asked.  redis-server is the engine.
"""
import concurrent.futures
import http.client
import http.server
import os
import random
import signal
import socket
import sys
import tempfile
import threading
import time
import types

sys.dont_write_bytecode = True
from fleet_world import FleetTest, Node, Versions, Wire, main, wait_for_proofs
from tarnd import free_port, wait_until

COUNT = 60


class Peers(FleetTest):
    def peers(self, names="abc", policy=False, **how):
        """Nodes that know each other."""
        nodes = [self.node(name, peers=True, policy=policy, **how) for name in names]
        wait_for_proofs(nodes)
        for n in nodes:
            wait_until(lambda n=n: self.knows(n, len(nodes) - 1), f"node {n.name} knows the others", 30)
        return nodes

    @staticmethod
    def knows(node, count):
        return node.admin("/v1/counters")["fleet.peers"] == count

    @staticmethod
    def count(node, name):
        return node.admin("/v1/counters")["fleet.peer_" + name]

    def owner_and_other(self, nodes):
        """A name, the node that owns it, and one that does not; the name is stored nowhere then."""
        for i in range(200):
            name = f"/owner/{i}"
            before = [self.count(n, "hops") for n in nodes]
            nodes[0].get(name)
            if self.count(nodes[0], "hops") == before[0]:
                nodes[0].purge(url="http://tarn.test" + name)
                return name, nodes[0], nodes[1]
        raise AssertionError("no name is the first node's")

    # ---- one fetch ----

    def test_each_object_is_fetched_once_with_and_without_a_policy(self):
        for policy in (False, True):
            with self.subTest(policy=policy):
                nodes = self.peers("abcde" if policy else "fghij", policy=policy)
                for i in range(COUNT):
                    for n in nodes:
                        self.assertEqual(n.get(f"/{policy}/{i}").version, 0)
                self.assertEqual(sum(v for k, v in self.origin.asked.items() if k.startswith(f"/{policy}/")), COUNT)
                self.assertGreater(min(self.count(n, "served") for n in nodes), 0)
                self.assertEqual(sum(self.count(n, "left") for n in nodes), 0)

    def test_requests_at_the_same_time_at_all_nodes_are_one_fetch(self):
        nodes = self.peers("abcde")
        self.origin.pause = lambda name: 1.5  # longer than peer_timeout: the owner says that it waits
        with concurrent.futures.ThreadPoolExecutor(40) as pool:
            versions = list(pool.map(lambda i: nodes[i % 5].get("/slow").version, range(40)))
        self.assertEqual((set(versions), self.origin.asked["/slow"]), ({0}, 1))

    def test_many_at_once_are_fetched_once_each(self):
        nodes = self.peers()
        self.origin.pause = lambda name: 0.3
        with concurrent.futures.ThreadPoolExecutor(150) as pool:
            list(pool.map(lambda i: nodes[i % 3].get(f"/burst/{i // 2}"), range(300)))
        self.assertEqual(sum(v for k, v in self.origin.asked.items() if k.startswith("/burst/")), 150)

    def test_what_is_stored_goes_on_aging_and_shows_both_hops(self):
        nodes = self.peers()
        name, owner, other = self.owner_and_other(nodes)
        owner.get(name)
        time.sleep(2.1)
        with other.connect() as s:
            s.sendall(f"GET {name} HTTP/1.1\r\nHost: tarn.test\r\nConnection: close\r\n\r\n".encode())
            text = b"".join(iter(lambda: s.recv(65536), b"")).decode()
        status = [l for l in text.split("\r\n") if l.lower().startswith("cache-status:")]
        self.assertEqual(len(status), 2, text)
        self.assertIn("tarn; hit; ttl=59", status[0])  # the owner's, of 600
        self.assertIn("fwd=uri-miss", status[1])
        self.assertNotIn("tarn-peer", text.lower())
        a = other.get(name)
        self.assertIn("hit", a.fields["cache-status"])
        self.assertGreaterEqual(int(a.fields["age"]), 2)

    def test_no_node_is_asked_elsewhere_than_a_list_says(self):
        ports = [free_port() for _ in "abc"]
        both = "['127.0.0.1:%d', '127.0.0.1:%d']" % (ports[0], ports[1])
        nodes = [self.node(name, peers=both, peer_port=port, policy=False) for name, port in zip("abc", ports)]
        wait_for_proofs(nodes)
        for n, others in zip(nodes, (1, 1, 2)):  # c is in no list
            wait_until(lambda n=n, o=others: self.knows(n, o), f"node {n.name} knows {others}", 30)
        time.sleep(1.5)
        self.assertEqual([self.knows(n, o) for n, o in zip(nodes, (1, 1, 2))], [True] * 3)
        asked = {x["node"]: x.get("can_be_asked") for x in nodes[0].fleet()["nodes"]}
        self.assertEqual((asked["b"], asked["c"]), (True, False))

    def test_no_node_is_asked_elsewhere_than_a_name_leads(self):
        for name, others in (("dns:localhost", 2), ("dns:nowhere.invalid", 0)):
            nodes = [self.node(n, peers=name, policy=False) for n in ("abc" if others else "def")]
            wait_for_proofs(nodes)
            for n in nodes:
                wait_until(lambda n=n: self.knows(n, others), f"node {n.name} knows {others}", 30)
            if not others:
                time.sleep(1.5)
                self.assertTrue(self.knows(nodes[0], 0))
            for n in nodes:
                n.close()

    def test_why_names_the_owner(self):
        nodes = self.peers()
        name, owner, other = self.owner_and_other(nodes)
        said = [" ".join(n.admin("/v1/why?url=http://tarn.test" + name)["text"]) for n in nodes]
        self.assertIn("This node owns its key in the fleet", said[0])
        for text in said[1:]:
            self.assertIn(f"Node {owner.name} of the fleet, at 127.0.0.1:{owner.peer_port}, owns its key", text)
        owner.get(name)
        other.get(name)
        said = [" ".join(n.admin("/v1/why?url=http://tarn.test" + name)["text"]) for n in (owner, other)]
        self.assertNotIn("another cache", said[0])
        self.assertIn("It came by way of another cache, which said of it then: tarn; hit; ttl=", said[1])

    def test_a_stale_one_is_validated_at_the_owner(self):
        nodes = self.peers()
        name, owner, other = self.owner_and_other(nodes)
        for n in (owner, other):
            n.get(name)
        asked = self.origin.asked[name]
        self.assertEqual(nodes[2].purge(url="http://tarn.test" + name, soft=True)["proof"], "all")
        for n in nodes:
            wait_until(lambda n=n: "hit" in n.get(name).fields["cache-status"], "it is fresh again", 20)
        self.assertLessEqual(self.origin.asked[name], asked + 1)

    def test_uncacheable_ones_are_not_kept_at_the_owner(self):
        nodes = self.peers(more="", policy=False)
        secrets = []

        class Private(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                secrets.append(self.headers.get("Cookie"))
                body = str(self.headers.get("Cookie")).encode()
                self.send_response(200)
                self.send_header("Cache-Control", "private")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args):
                pass

        self.origin.RequestHandlerClass = Private
        for i in range(12):
            for n in nodes:
                a = n.ask(f"/private/{i}", f"Cookie: of={i}{n.name}")
                self.assertEqual((a.status, a.body.decode()), (200, f"of={i}{n.name}"))

    # ---- what a copy must not be ----

    def answers(self, handle):
        """The origin answers with handle(request handler): (status, fields, body)."""
        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                status, fields, body = handle(self)
                self.send_response(status)
                for name, value in fields:
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args):
                pass

        self.origin.RequestHandlerClass = Handler

    def test_a_date_that_did_not_change_makes_nothing_fresh_that_was_purged(self):
        nodes = self.peers()
        version = [0]
        self.answers(lambda h: (200, [("Cache-Control", "max-age=600"),
                                      ("Last-Modified", "Sat, 01 Nov 2025 00:00:00 GMT")], b"%d" % version[0]))
        for i in range(8):
            for n in nodes:
                n.get(f"/date/{i}")
        version[0] = 1
        self.assertEqual(nodes[0].purge(all=True, soft=True)["proof"], "all")
        for i in range(8):
            for n in nodes:
                n.get(f"/date/{i}")
        time.sleep(0.3)
        for i in range(8):
            self.assertEqual([n.get(f"/date/{i}").version for n in nodes], [1] * 3, i)

    def test_what_each_use_validates_is_each_clients_own(self):
        nodes = self.peers()
        self.answers(lambda h: (200, [("Cache-Control", "no-cache"), ("Last-Modified", "Sat, 01 Nov 2025 00:00:00 GMT")],
                                str(h.headers["Cookie"]).encode()))
        for i in range(8):
            for user in range(6):
                self.assertEqual(nodes[user % 3].ask(f"/own/{i}", f"Cookie: {user}").body.decode(), str(user))

    def test_an_invalidation_holds_at_once_where_it_is_made(self):
        nodes = self.peers(policy=True, max_blind="6s")
        for engine in (True, False):
            for i in range(20):
                name, node = f"/here/{engine}/{i}", nodes[i % 3]
                for n in nodes:
                    n.get(name)
                if not engine and i == 0:
                    self.engine.kill()
                version = self.origin.change(name) if i % 2 else int(node.ask(name, "Content-Length: 0", method="POST").fields["version"])
                if i % 2:
                    self.assertEqual(node.ask(name, method="PURGE").status, 200)
                self.assertEqual(node.get(name).version, version, name)
        self.engine.start()

    def test_the_owners_policy_sees_the_client(self):
        f = os.path.join(self.enterContext(tempfile.TemporaryDirectory()), "p.vcl")
        with open(f, "w", encoding="utf-8") as out:
            out.write(f"""vcl 4.1; backend default {{ .host = "127.0.0.1"; .port = "{self.origin.server_address[1]}"; }}
                sub vcl_recv {{ set client.identity = "joe"; }}
                sub vcl_backend_fetch {{ set bereq.http.X-Client = client.ip + " " + client.identity; }}""")
        seen = []
        nodes = self.peers(more=f"vcl: {f}\n", policy=None)
        self.answers(lambda h: (seen.append(h.headers["X-Client"]), (200, [("Cache-Control", "max-age=60")], b"0"))[1])
        for i in range(12):
            with socket.create_connection(("127.0.0.1", nodes[0].port), 10, ("127.0.0.7", 0)) as s:
                s.sendall(f"GET /c/{i} HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n".encode())
                self.assertIn(b" 200 ", b"".join(iter(lambda: s.recv(65536), b"")))
        self.assertEqual(set(seen), {"127.0.0.7 joe"})
        self.assertGreater(self.count(nodes[0], "hops"), 0)

    def test_an_origin_cannot_say_what_nodes_say(self):
        nodes = self.peers()
        self.answers(lambda h: (200, [("Cache-Control", "max-age=60"), ("Tarn-Tags", "theirs"), ("Tarn-Peer", "1 x")], b"0"))
        for n in nodes:
            a = n.ask("/says")
            self.assertNotIn("tarn-peer", a.fields)
            self.assertNotIn("tarn-tags", a.fields)

    # ---- purges ----

    def test_each_kind_of_purge_is_proven_whoever_has_it_from_whom(self):
        nodes = self.peers("abcd", policy=True)
        ways = [{"url": "http://tarn.test/v/x"}, {"tag": "/v/x"}, {"tags": ["all"]}, {"all": True}]
        for way in ways:
            self.store(nodes)
            version = self.origin.change("/v/x")
            self.assertEqual(nodes[1].purge(**way)["proof"], "all")
            self.assertEqual([n.get("/v/x").version for n in nodes], [version] * 4, way)

    def test_a_node_that_is_behind_is_not_believed(self):
        nodes = self.peers(max_blind="6s")
        name, owner, other = self.owner_and_other(nodes)
        owner.get(name)
        version = self.origin.change(name)
        owner.pause()
        self.assertEqual(other.purge(timeout_ms=100, url="http://tarn.test" + name)["proof"], "none")
        found = []
        t = threading.Thread(target=lambda: found.append(other.get(name).version))
        t.start()
        time.sleep(0.1)
        owner.resume()
        t.join(30)
        self.assertEqual(found, [version])

    def test_places_of_a_log_that_was_lost_are_not_believed(self):
        """Its last ids were ahead of those of the log behind it: by them a node that has not noticed has read all."""
        wire = Wire(self.engine.port)
        self.addCleanup(wire.close)
        a = self.node("a", peers=True, policy=True, max_blind="6s")
        b = self.node("b", peers=True, policy=True, max_blind="6s", port=wire.port)
        wait_for_proofs([a, b])
        for n in (a, b):
            wait_until(lambda n=n: self.knows(n, 1), f"node {n.name} knows the other", 30)
        name = self.owner_and_other([b, a])[0]
        ahead = f"{int(time.time() * 1000) + 3600000}-0"
        self.engine.ask("XADD", "tarn:{shop}:log", ahead, "v", "1", "kind", "hello")
        for n in (a, b):
            wait_until(lambda n=n: n.fleet()["position"] == ahead, f"node {n.name} has read it", 10)
        b.get(name)
        wire.silence()
        self.engine.ask("DEL", "tarn:{shop}:log")
        wait_until(lambda: a.is_in_step() and a.fleet()["position"] != ahead, "a has joined anew", 10)
        version = self.origin.change(name)
        a.purge(wait="log", tag=name)
        self.assertEqual(a.get(name).version, version)
        wire.mend()
        names = (f"/again/{i}" for i in range(10**6))

        def asks():
            before = self.count(a, "hops")
            for _ in range(8):
                a.get(next(names))
            return self.count(a, "hops") > before
        wait_until(asks, "a asks b again", 30)

    def test_what_is_cold_is_kept_by_its_owner_alone_and_fetched_once(self):
        self.origin.least = 20000
        rnd = random.Random(1)
        nodes = self.peers(size="8MiB", max_blind="10s")
        names = [f"/cold/{i}" for i in range(600)]  # half of what the stores have room for
        fetched = []
        for _ in range(5):
            before = sum(self.origin.asked.values())
            for name in rnd.sample(names, len(names)):
                rnd.choice(nodes).get(name)
                rnd.choice(nodes).get(f"/hot/{rnd.randrange(5)}")
            fetched.append(sum(self.origin.asked.values()) - before)
        print("fetched in each pass:", fetched)
        self.assertLessEqual(fetched[-1], 6)
        for n in nodes:
            for i in range(5):
                self.assertIn("hit", n.get(f"/hot/{i}").fields["cache-status"].split(",")[-1], "what is hot is at each node")

    def test_a_part_that_is_not_there_is_kept_for_none(self):
        for policy in (False, True):
            nodes = self.peers("ab" if policy else "cd", policy=policy)
            for stored in (True, False):
                name, owner, other = self.owner_and_other(nodes)
                name = f"{name}/{policy}/{stored}"
                for i in range(20):  # of either owner
                    for wanted in ("bytes=99999-", "bytes=-0", "bytes=5-1"):
                        at = f"{name}/{i}/{wanted}"
                        if stored:
                            owner.get(at)
                        other.ask(at, "Range: " + wanted)
                        self.assertEqual([other.ask(at).status, owner.ask(at).status], [200, 200], (at, policy, stored))

    # ---- nodes that fail ----

    @staticmethod
    def owned(node, names):
        """How many keys are a node's, that has none of them stored."""
        return sum("This node owns its key" in " ".join(node.admin("/v1/why?url=http://tarn.test" + name)["text"]) for name in names)

    def test_a_node_lost_or_added_costs_the_share_that_moves(self):
        nodes = self.peers("abcde")
        names = [f"/share/{i}" for i in range(200)]
        asked = lambda: sum(self.origin.asked[n] for n in names)
        shares = [self.owned(n, names) for n in nodes]
        self.assertEqual(sum(shares), len(names))
        for i, name in enumerate(names):
            nodes[i % 5].get(name)
        self.assertEqual(asked(), len(names))
        nodes[4].tidy()
        for name in names:
            for n in nodes[:4]:
                n.get(name)
        lost = asked() - len(names)
        nodes[4] = self.node("f", peers=True)
        wait_for_proofs(nodes[4:])
        for n in nodes:
            wait_until(lambda n=n: self.knows(n, 4), "it knows the others", 60)
        before, gained = asked(), self.owned(nodes[4], names)
        for name in names:
            for n in reversed(nodes):
                n.get(name)
        added = asked() - before
        print(f"of {len(names)} objects the nodes owned {shares}: {lost} fetched again without the last; {gained} are the new one's: {added} fetched again")
        self.assertGreater(shares[4], 10)
        self.assertLessEqual(lost, 1.2 * shares[4])
        self.assertGreater(gained, 10)
        self.assertLessEqual(added, 1.2 * gained)

    def test_a_node_that_is_killed_costs_its_keys_one_fetch_more(self):
        nodes = self.peers("abcde")
        for i in range(COUNT):
            nodes[i % 5].get(f"/k/{i}")
        nodes[4].tidy()
        live = nodes[:4]
        for i in range(COUNT):
            for n in live:
                n.get(f"/k/{i}")
        asked = sum(v for k, v in self.origin.asked.items() if k.startswith("/k/"))
        self.assertLessEqual(asked, COUNT + 0.35 * COUNT, "a fifth of the keys moved")

    def test_an_owner_that_sleeps_while_it_fetches_is_left(self):
        nodes = self.peers(max_blind="6s", fleet=", peer_timeout: 100ms")
        name, owner, other = self.owner_and_other(nodes)
        self.origin.pause = lambda name: 0.8
        began, found = time.monotonic(), []
        t = threading.Thread(target=lambda: found.append(other.get(name).version))
        t.start()
        time.sleep(0.4)
        owner.pause()
        t.join(30)
        owner.resume()
        self.assertEqual(found, [0])
        self.assertLess(time.monotonic() - began, 8)

    def test_an_origin_that_does_not_answer_is_asked_once(self):
        nodes = self.peers(more="parameters: { first_byte_timeout: 1s }\n")
        self.origin.pause = lambda name: 3
        for i in range(6):
            began = time.monotonic()
            self.assertEqual(nodes[i % 3].ask(f"/dead/{i}").status, 504)
            self.assertLess(time.monotonic() - began, 1.9)
        self.assertEqual(sum(v for k, v in self.origin.asked.items() if k.startswith("/dead/")), 6)

    def test_a_policy_makes_its_error_of_a_dead_origin_at_any_node(self):
        f = os.path.join(self.enterContext(tempfile.TemporaryDirectory()), "p.vcl")
        dead = free_port()
        for more in ("return(deliver);", "return(abandon);", "return(retry);"):
            with open(f, "w", encoding="utf-8") as out:
                out.write(f"""vcl 4.1; backend default {{ .host = "127.0.0.1"; .port = "{dead}"; }}
                    sub vcl_backend_error {{ set beresp.http.X-Url = bereq.url + bereq.http.Host; {more} }}""")
            nodes = self.peers("abc", more=f"vcl: {f}\n", policy=None)
            for i in range(6):
                a = nodes[i % 3].ask(f"/e/{i}")
                self.assertEqual(a.status, 503)
                if "deliver" in more:
                    self.assertEqual(a.fields["x-url"], f"/e/{i}tarn.test")
            for n in nodes:
                n.close()

    def test_a_policys_grace_holds_while_the_origin_fails(self):
        """At the owner, at who asks it, and at one that has nothing: as at one node alone."""
        origin = Wire(self.origin.server_address[1])
        self.addCleanup(origin.close)
        f = os.path.join(self.enterContext(tempfile.TemporaryDirectory()), "p.vcl")
        abandons = "if (beresp.status >= 500 && bereq.is_bgfetch) { return (abandon); }"
        for more, cut in (("", True), (abandons, True), (abandons, False)):
            with self.subTest(more=more, cut=cut), open(f, "w", encoding="utf-8") as out:
                out.write(f"""vcl 4.1; backend default {{ .host = "127.0.0.1"; .port = "{origin.port}"; }}
                    sub vcl_backend_response {{ {more} set beresp.grace = 10m; }}""")
                out.close()
                fails = []
                self.answers(lambda h: (503, [], b"no") if fails else (200, [("Cache-Control", "max-age=1")], b"yes"))
                nodes = self.peers("abc", more=f"vcl: {f}\n", policy=None)
                paths = [f"/grace/{i}" for i in range(8)]
                for n in nodes[:2]:
                    for p in paths:
                        self.assertEqual(n.ask(p).status, 200)
                time.sleep(1.5)
                fails.append(1)
                if cut:
                    origin.cut()
                answers = []
                for _ in range(4):
                    answers += [(n.ask(p).status, n.ask(p).body) for n in nodes[:2] for p in paths]
                    time.sleep(0.1)  # for what is fetched in the background
                self.assertEqual(set(answers), {(200, b"yes")})
                if cut:  # a client waits for that fetch, so its policy does not abandon what it gets of the origin
                    self.assertEqual({nodes[2].ask(p).status for p in paths if self.owns(nodes[2], p) is False}, {200})
                origin.mend()
                fails.clear()
                for n in nodes[:2]:
                    for p in paths:
                        wait_until(lambda n=n, p=p: "ttl=-" not in n.ask(p).fields["cache-status"], "it is fresh again", 10)
                for n in nodes:
                    n.close()

    def test_a_client_of_the_owner_is_answered_though_no_client_of_the_other_waits(self):
        """The owner has nothing, and its client joins the fetch of a node that has it in grace."""
        f = os.path.join(self.enterContext(tempfile.TemporaryDirectory()), "p.vcl")
        with open(f, "w", encoding="utf-8") as out:
            out.write(f"""vcl 4.1; backend default {{ .host = "127.0.0.1"; .port = "{self.origin.server_address[1]}"; }}
                sub vcl_backend_response {{
                    set beresp.grace = 10m;
                    if (beresp.status >= 500) {{
                        if (bereq.is_bgfetch) {{ return (abandon); }}
                        set beresp.status = 404; set beresp.grace = 0s; set beresp.uncacheable = true;
                    }} }}""")
        fails = []

        def handle(_):
            if fails:
                time.sleep(1)
            return (503, [], b"sorry") if fails else (200, [("Cache-Control", "max-age=1")], b"yes")

        self.answers(handle)
        a, b = self.peers("ab", more=f"vcl: {f}\n", policy=None, max_blind="20s")
        path = next(p for p in (f"/g/{i}" for i in range(99)) if self.owns(b, p))
        self.assertEqual(a.ask(path).status, 200)
        b.admin("/v1/purge", "POST", {"url": "http://tarn.test" + path, "local": True})
        time.sleep(1.3)
        fails.append(1)
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            first = pool.submit(lambda: a.ask(path))
            time.sleep(0.4)
            joined = pool.submit(lambda: b.ask(path)).result()
        self.assertEqual((first.result().status, first.result().body), (200, b"yes"))
        self.assertEqual((joined.status, joined.body), (404, b"sorry"))
        time.sleep(1.5)  # the other has asked the origin itself by then
        self.assertEqual((a.ask(path).status, a.ask(path).body), (200, b"yes"))

    @staticmethod
    def owns(node, path):
        return "This node owns" in " ".join(node.admin(f"/v1/why?url=http://tarn.test{path}")["text"])

    def test_a_node_that_sleeps_costs_a_timeout_and_no_error(self):
        nodes = self.peers(max_blind="6s", fleet=", peer_timeout: 200ms")
        nodes[2].pause()
        began = time.monotonic()
        for i in range(COUNT):
            nodes[i % 2].get(f"/s/{i}")
        self.assertLess(time.monotonic() - began, 15)
        nodes[2].resume()

    def test_without_the_engine_and_behind_max_blind_the_origin_is_asked(self):
        nodes = self.peers(max_blind="1s")
        self.engine.kill()
        wait_until(lambda: all(not n.is_in_step() for n in nodes), "they are blind", 20)
        for n in nodes:
            self.assertEqual(n.get("/v/blind").version, 0)
        self.engine.start()

    # ---- who may ask ----

    def peer_answers(self, node, *lines, path="/v/x"):
        with socket.create_connection(("127.0.0.1", node.peer_port), timeout=10) as s:
            s.sendall("\r\n".join([f"GET {path} HTTP/1.1", "Host: tarn.test", "Connection: close", *lines, "", ""]).encode())
            return b"".join(iter(lambda: s.recv(65536), b"")).decode()

    def test_nobody_else_is_answered_at_the_listener_for_peers(self):
        a = self.peers()[0]
        good = "1 shop b a 0123456789abcdef 1 0 0000000000000000 http - - - - " + "0" * 64
        for line in ("", "Tarn-Peer: ", "Tarn-Peer: 1", f"Tarn-Peer: {good}", f"Tarn-Peer: {good}\r\nTarn-Peer: {good}",
                     "Tarn-Peer: 2 shop", "Tarn-Peer: " + "x " * 500, f"Tarn-Peer: {good[:-64]}{'g' * 64}"):
            answer = self.peer_answers(a, *([line] if line else []))
            self.assertIn("HTTP/1.1 403", answer, line)
        self.assertEqual(self.origin.asked["/v/x"], 0)
        self.assertEqual(self.count(a, "denied"), 8)

    def test_what_was_asked_can_be_asked_again_and_nothing_else(self):
        port = free_port()
        wire = Wire(port)
        self.addCleanup(wire.close)
        seen = wire.listen()
        a = self.node("a", peers=True)
        b = self.node("b", peers=True, peer_port=port, fleet=f", address: '127.0.0.1:{wire.port}'")
        wait_for_proofs([a, b])
        wait_until(lambda: self.knows(a, 1), "a knows b", 30)
        for i in range(200):
            a.get(f"/v/{i}", "Cookie: a=1", "X-Any:  thing ")
            if seen:
                break
        question = bytes(seen).split(b"\r\n\r\n")[0] + b"\r\n\r\n"
        self.assertIn(b"X-Any: ", question)

        def ask(text):
            with socket.create_connection(("127.0.0.1", port), timeout=10) as s:
                s.sendall(text)
                return s.recv(65536)[:12]

        self.assertEqual(ask(question), b"HTTP/1.1 200")
        self.assertEqual(ask(question.replace(b"X-Any", b"x-any")), b"HTTP/1.1 200")
        # What a proxy on the way puts behind it is dropped (hop_test).
        self.assertEqual(ask(question.replace(b"\r\n\r\n", b"\r\nX-Request-Id: 7\r\nCookie: evil=1\r\n\r\n")), b"HTTP/1.1 200")
        for old, new in ((b"Cookie: a=1", b"Cookie: a=2"), (b"Cookie: a=1\r\n", b""), (b"X-Any: ", b"X-Host: evil\r\nX-Any: "),
                         (b"X-Any", b"X-Ana"), (b"GET /v", b"GET /w"), (b"GET", b"HEAD"), (b"tarn.test", b"evil.test")):
            self.assertIn(old, question)
            self.assertEqual(ask(question.replace(old, new, 1)), b"HTTP/1.1 403", (old, new))

    def test_one_at_a_nodes_address_without_the_secret_is_no_node(self):
        """A node dies, and another process has its port while the others still ask there."""
        nodes = self.peers("ab", max_blind="20s")
        nodes[1].process.kill()
        nodes[1].process.wait()
        heard, status = [], [200]

        class Impostor(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                heard.append(self.headers["Tarn-Peer"])
                code = heard[-1].split(" ")[-1]
                self.send_response(status[0])
                self.send_header("Tarn-Peer", f"1 b 86400000 0 0 0 0 0 s stored max-age {code}" if status[0] == 200 else f"1 b failed {code}")
                self.send_header("Content-Length", "8")
                self.end_headers()
                self.wfile.write(b"POISONED")

            def log_message(self, *args):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", nodes[1].peer_port), Impostor)
        self.addCleanup(server.server_close)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.shutdown)
        for i in range(20):
            self.assertEqual(nodes[0].get(f"/v/{i}").version, 0)
        self.assertGreater(len(heard), 0)
        heard.clear()
        status[0] = 502  # nor can it say that the origin has failed
        for i in range(20):
            self.assertEqual(nodes[0].get(f"/w/{i}").version, 0)
        self.assertGreater(len(heard), 0)

    def test_a_client_cannot_say_that_it_is_a_node(self):
        a = self.peers()[0]
        self.assertEqual(a.ask("/v/x", "Tarn-Peer: 1 shop b a 0 0 0 0 http - - 0").status, 200)

    # ---- a fleet within a fleet ----

    def behind(self, port, name, **how):
        """A node that has another one for its origin."""
        n = Node(self.programs[0], name, self.engine.port, types.SimpleNamespace(server_address=("127.0.0.1", port)),
                 peers=True, **how)
        self.addCleanup(n.tidy)
        return n

    def test_a_fleet_within_a_fleet_is_another_fleet(self):
        inner = self.peers("ab")
        # The same names, and the same engine.
        outer = [self.behind(inner[0].port, n.name, fleet_name="edge") for n in inner]
        wait_for_proofs(outer)
        for n in outer:
            wait_until(lambda n=n: self.knows(n, 1), "it knows the other", 30)
        for i in range(COUNT):
            for n in outer + inner:
                self.assertEqual(n.get(f"/w/{i}").version, 0)
        self.assertEqual(sum(self.origin.asked.values()), COUNT)
        self.assertEqual([self.count(n, "denied") for n in inner + outer], [0] * 4)
        entries = self.engine.ask("XLEN", "tarn:{shop}:log")
        version = self.origin.change("/w/1")
        for fleet, seen in ((outer, 0), (inner, version), (outer, version)):  # from the origin to the clients
            self.assertEqual(fleet[0].purge(url="http://tarn.test/w/1")["proof"], "all")
            self.assertEqual([n.get("/w/1").version for n in fleet], [seen] * 2)
            if fleet is outer:
                self.assertEqual(self.engine.ask("XLEN", "tarn:{shop}:log"), entries)
            else:
                entries += 1

    def test_a_node_of_another_fleet_is_refused(self):
        inner = self.peers("ab")
        other = self.behind(inner[0].peer_port, "c", fleet_name="edge")
        wait_for_proofs([other])
        self.assertEqual(other.ask("/v/x").status, 403)
        self.assertEqual(self.origin.asked["/v/x"], 0)

    def test_a_fleet_that_is_its_own_origin_ends_in_an_error(self):
        for names, more in (("ab", ""), ("cd", "parameters: { loop_token: all }\n")):
            port = free_port()  # of the first; what is between has one address for both, as a balancer has
            wire = Wire(port)
            self.addCleanup(wire.close)
            nodes = [self.behind(wire.port, name, listener=f"  - address: '127.0.0.1:{port}'\n" if name == names[0] else "", more=more)
                     for name in names]
            wait_for_proofs(nodes)
            for n in nodes:
                wait_until(lambda n=n: self.knows(n, 1), "it knows the other", 30)
            for i in range(8):  # of either owner
                for n in nodes:
                    began = time.monotonic()
                    self.assertEqual(n.ask(f"/loop/{i}").status, 508, (more, i))
                    self.assertLess(time.monotonic() - began, 3)
            for n in nodes:
                n.close()

    def test_nodes_with_one_loop_token_are_no_loop(self):
        nodes = self.peers(more="parameters: { loop_token: all }\n")
        for i in range(COUNT):
            for n in nodes:
                self.assertEqual(n.get(f"/t/{i}").version, 0)
            self.assertEqual(self.origin.asked[f"/t/{i}"], 1)

    def test_two_nodes_with_one_loop_token_count_once(self):
        inner = self.peers("abc", more="parameters: { loop_token: all, loop_limit: 1 }\n")
        outer = [self.behind(inner[0].port, n.name, fleet_name="edge", more="parameters: { loop_token: all, loop_limit: 1 }\n") for n in inner]
        wait_for_proofs(outer)
        for n in outer:
            wait_until(lambda n=n: self.knows(n, 2), "it knows the others", 30)
        for i in range(COUNT):  # by an owner that is not the node that was asked, in both fleets
            self.assertEqual(outer[i % 3].ask(f"/once/{i}").status, 200, i)

    def test_another_policy_is_not_asked(self):
        nodes = self.peers("ab", policy=True)
        with open(nodes[1].policy, "a", encoding="utf-8") as f:
            f.write("# another text\n")
        nodes[1].process.send_signal(signal.SIGHUP)
        wait_until(lambda: self.knows(nodes[0], 0) and self.knows(nodes[1], 0), "they are apart", 20)
        for i in range(20):
            for n in nodes:
                n.get(f"/p/{i}")
        self.assertEqual(sum(v for k, v in self.origin.asked.items() if k.startswith("/p/")), 40)

    def test_another_origin_or_route_in_the_file_is_not_asked(self):
        other = Versions()
        self.addCleanup(other.close)
        policy = os.path.join(self.enterContext(tempfile.TemporaryDirectory()), "p.vcl")
        with open(policy, "w", encoding="utf-8") as f:
            f.write("vcl 4.1; sub vcl_deliver { set resp.http.X-Policy = 1; }")
        addresses = [f"127.0.0.1:{o.server_address[1]}" for o in (self.origin, other)]
        for names, more in (("ab", ""), ("cd", f"vcl: {policy}\n")):
            a, b = [self.node(name, peers=True, more=more + f"routes: [ {{ path: /r/, ttl: {ttl} }} ]\n")
                    for name, ttl in zip(names, ("60s", "1m"))]
            wait_for_proofs([a, b])
            with open(b.config, encoding="utf-8") as f:
                begun = f.read()
            same = begun.replace("ttl: 1m", "ttl:   60s # as the other\n").replace("[ {", "[\n  {").replace("\n }", "\n  }")
            for i, (text, asked) in enumerate(((begun, 2), (same.replace(*addresses), 1), (same.replace("60s", "61s"), 2))):
                self.reload(b, text)
                wait_until(lambda: self.knows(a, 0) and self.knows(b, 0), "they are apart", 20)
                hops = [self.count(n, "hops") for n in (a, b)]
                urls = [f"/r/{names}/{i}/{k}" for k in range(20)]
                for url in urls:
                    for n in (a, b):
                        n.get(url)
                self.assertEqual([self.count(n, "hops") for n in (a, b)], hops)
                self.assertEqual([sum(o.asked[url] for url in urls) for o in (self.origin, other)],
                                 [20 * asked, 20 * (2 - asked)], text)
                self.reload(b, same)
                wait_until(lambda: self.knows(a, 1) and self.knows(b, 1), "they know each other again", 20)
                for n in (a, b, a):
                    n.get(f"/r/{names}/{i}/same")
                self.assertEqual(self.origin.asked[f"/r/{names}/{i}/same"], 1)

    @staticmethod
    def reload(node, text):
        with open(node.config, "w", encoding="utf-8") as f:
            f.write(text)
        status = node.admin("/v1/reload", "POST")
        if "error" in status:
            raise AssertionError(f"node {node.name}: {status}")

    def test_an_engine_that_lost_the_secret_gets_it_again(self):
        log = tempfile.TemporaryFile()
        self.addCleanup(log.close)
        nodes = self.peers(stderr=log)
        self.engine.ask("DEL", "tarn:{shop}:secret")
        wait_until(lambda: self.engine.ask("EXISTS", "tarn:{shop}:secret") == 1, "there is one again", 20)
        for i in range(20):
            for n in nodes:
                n.get(f"/l/{i}")
        self.assertEqual(sum(v for k, v in self.origin.asked.items() if k.startswith("/l/")), 20)
        log.seek(0)
        self.assertNotIn(b"is no secret", log.read())

    def test_a_secret_that_is_none_is_named_and_mended(self):
        for names, words in (("ab", ("SET", "tarn:{shop}:secret", "a secret of an operator")), ("cd", ("LPUSH", "tarn:{shop}:secret", "x"))):
            with self.subTest(words=words), tempfile.TemporaryFile() as log:
                self.engine.ask("DEL", "tarn:{shop}:secret")
                self.engine.ask(*words)
                nodes = [self.node(name, peers=True, policy=False, max_blind="1s", stderr=log) for name in names]
                for n in nodes:
                    wait_until(lambda n=n: "'tarn:{shop}:secret'" in n.fleet()["why"] and "DEL" in n.fleet()["why"], "it says what is wrong", 10)
                wait_until(lambda: nodes[0].fleet()["proofs_in_ms"] == 0, "proofs are given", 10)
                self.assertEqual(nodes[0].purge(url="http://tarn.test/v/x")["proof"], "all")
                time.sleep(2.5)  # more looks
                self.engine.ask("DEL", "tarn:{shop}:secret")
                wait_for_proofs(nodes)
                self.assertEqual(os.pread(log.fileno(), 1 << 24, 0).count(b"is no secret"), 2)  # each node, once
                for n in nodes:
                    wait_until(lambda n=n: self.asks_another(n), f"node {n.name} asks the other", 30)
                for n in nodes:
                    n.close()

    def asks_another(self, node):
        before = self.count(node, "hops")
        for _ in range(8):
            node.get(f"/new/{random.random()}")
        return self.count(node, "hops") > before


if __name__ == "__main__":
    main(__file__, Peers, "TARND")
