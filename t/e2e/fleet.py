#!/usr/bin/env python3
"""fleet.py TARND [TEST...] -- nodes that share invalidations by an engine: each proof holds, whatever happens to nodes,
engine and the wire between.

redis-server is the engine.  What a proof means is checked by content: the origin has another version before the purge,
and behind the proof no node shows the one before.
"""
import http.client
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time

sys.dont_write_bytecode = True
import tls_world
from fleet_world import Engine, FleetTest, Forger, Sentinel, Wire, main, wait_for_proofs
from tarnd import free_port, wait_until

# What a node needs of an engine, as docs/fleet.md has it.
RIGHTS = ("resetchannels", "-@all", "+client|setname", "+info", "+select", "+time", "+set", "+get", "+del", "+mget",
          "+zadd", "+zrem", "+zrange", "+zscore", "+zremrangebyscore", "+xadd", "+xread",
          "+xrange", "+xrevrange", "+xtrim", "+multi", "+exec", "+watch", "+unwatch")


class Fleet(FleetTest):
    def names(self):
        return self.engine.ask("ZRANGEBYSCORE", "tarn:{shop}:nodes", 0, "+inf")

    def assert_new(self, nodes, version, name="/v/x"):
        for n in nodes:
            self.assertEqual(n.get(name).version, version, f"node {n.name}")

    def assert_proven(self, answer, names):
        self.assertEqual(answer["proof"], "all", answer)
        seen = {n["node"]: n for n in answer["nodes"]}
        for name in names:
            self.assertTrue(seen[name]["applied"], answer)
            self.assertGreaterEqual(seen[name]["ms"], 0)

    # ---- each kind of invalidation ----

    def test_each_way_to_purge_is_proven_by_all(self):
        for policy in (False, True):
            with self.subTest(policy=policy):
                nodes = self.nodes("abc" if policy else "def", policy=policy)
                a = nodes[0]
                url = "http://tarn.test/v/x"
                ways = [{"url": url}, {"url": url, "soft": True}, {"all": True}]
                if policy:
                    ways += [{"tag": "all"}, {"tags": ["all"], "soft": True}]
                for way in ways:
                    self.store(nodes)
                    version = self.origin.change("/v/x")
                    self.assert_proven(a.purge(**way), [n.name for n in nodes])
                    self.assert_new(nodes, version)
                self.store(nodes)
                version = self.origin.change("/v/x")
                self.assert_proven(a.admin("/v1/bans", "POST", {"expression": "obj.status == 200", "wait": "all"}),
                                   [n.name for n in nodes])
                self.assert_new(nodes, version)
                for n in nodes:
                    n.close()

    def test_what_policies_and_unsafe_requests_invalidate_reaches_all(self):
        nodes = self.nodes(policy=True)
        for method, lines in (("PURGE", ()), ("BAN", ()), ("TAG", ("tag: all",)), ("POST", ("Content-Length: 0",))):
            self.store(nodes)
            version = self.origin.change("/v/x")
            if method == "POST":
                version += 1  # the request itself changes it
            self.assertLess(nodes[1].ask("/v/x", *lines, method=method).status, 300)
            for n in nodes:
                wait_until(lambda n=n: n.get("/v/x").version == version, f"{method} reaches node {n.name}", 10)

    # ---- what goes wrong ----

    def test_a_node_that_sleeps_is_named_and_then_trusts_nothing(self):
        a, b, c = self.nodes()
        self.store((a, b, c))
        c.pause()
        version = self.origin.change("/v/x")
        answer = a.purge(url="http://tarn.test/v/x", timeout_ms=300)
        self.assertEqual(answer["proof"], "none")
        self.assertEqual([n["node"] for n in answer["nodes"] if not n["applied"] and n["lives"]], ["c"])
        self.assert_new((a, b), version)
        wait_until(lambda: a.purge(url="http://tarn.test/v/x", timeout_ms=300).get("proof") == "all",
                   "a proof without the node that sleeps", 10)
        c.resume()
        self.assertEqual(c.get("/v/x").version, version)

    def test_a_node_that_was_away_has_nothing_that_was_purged_meanwhile(self):
        """Not even in grace: it reads what it missed, from where it was, before it is in step again."""
        a, b, c = nodes = self.nodes(policy=True, grace="1h")
        for name in ("/v/x", "/v/y", "/v/z"):
            self.store(nodes, name)
        c.pause()
        names = ("/v/x", "/v/y") + tuple(f"/v/{i}" for i in range(1100))  # of more than two readings
        version = self.origin.change("/v/x")
        self.origin.change("/v/y")
        self.origin.change("/v/z")
        for name in names[1:]:
            a.purge(wait="log", url="http://tarn.test" + name)
        self.assertEqual(b.ask("/v/x", "wait: 20s", method="PURGE").fields["purge-proof"], "all")  # c does not live any more
        c.resume()
        wait_until(c.is_in_step, "c is in step again", 20)
        for name in ("/v/x", "/v/y"):
            got = c.get(name)
            self.assertEqual(got.version, version)
            self.assertIn("fwd=uri-miss", got.fields["cache-status"])
        got = c.get("/v/z")  # it was purged by none: stale, in its grace
        self.assertEqual(got.version, version - 1)
        self.assertIn("hit", got.fields["cache-status"])

    def test_a_node_that_ended_reads_on_from_its_place(self):
        with tempfile.TemporaryDirectory() as d:
            state = f", state: {d}/state"
            a, b = self.node("a"), self.node("b", fleet=state)
            wait_for_proofs([a, b])
            b.process.kill()
            b.process.wait()
            for i in range(7):
                a.purge(wait="log", url=f"http://tarn.test/v/{i}")
            b = self.node("b", fleet=state)
            wait_for_proofs([a, b])
            self.assertEqual(b.admin("/v1/counters")["fleet.applied"], 7)

    def test_a_node_that_is_cut_off_trusts_nothing_after_max_blind(self):
        for how in ("cut", "silence"):
            with self.subTest(how=how):
                wire = Wire(self.engine.port)
                self.addCleanup(wire.close)
                a, b = self.node("a" + how), self.node("b" + how, port=wire.port)
                wait_for_proofs((a, b))
                self.store((a, b))
                getattr(wire, how)()
                version = self.origin.change("/v/x")
                wait_until(lambda: a.purge(url="http://tarn.test/v/x", timeout_ms=300).get("proof") == "all",
                           "a proof without the node that is cut off", 10)
                self.assertEqual(b.get("/v/x").version, version)
                asked = self.origin.asked["/v/x"]
                self.assertEqual(b.get("/v/x").version, version)  # by validation
                self.assertEqual(self.origin.asked["/v/x"], asked + 1)
                self.assertNotEqual(b.fleet()["state"], "in step")
                wire.mend()
                wait_until(b.is_in_step, "it is in step again", 20)
                self.store((b,))
                self.assert_proven(a.purge(url="http://tarn.test/v/x"), ["a" + how, "b" + how])

    def test_a_fetch_from_before_is_not_joined_while_nothing_is_trusted(self):
        wire = Wire(self.engine.port)
        self.addCleanup(wire.close)
        a, b = self.node("a"), self.node("b", port=wire.port)
        wait_for_proofs((a, b))
        held = self.origin.held["/v/x"] = threading.Event()
        first = threading.Thread(target=b.get, args=("/v/x",))
        first.start()
        wait_until(lambda: self.origin.asked["/v/x"] == 1, "the origin is asked", 10)
        self.origin.held.clear()
        wire.cut()
        version = self.origin.change("/v/x")
        wait_until(lambda: a.purge(url="http://tarn.test/v/x", timeout_ms=300).get("proof") == "all", "a proof without b", 10)
        self.assertEqual(b.get("/v/x").version, version)
        held.set()
        first.join()

    def test_without_the_engine_nodes_serve_and_purges_are_refused(self):
        a, b = self.nodes("ab", max_blind="3s")
        self.store((a, b))
        self.engine.kill()
        wait_until(lambda: a.fleet()["state"] != "in step" or a.fleet()["why"], "it is known", 10)
        self.assertIn("hit", a.get("/v/x").fields["cache-status"])
        answer = a.purge(url="http://tarn.test/v/x")
        self.assertIn("engine", answer["error"])
        self.assertIn("hit", a.get("/v/x").fields["cache-status"])
        version = self.origin.change("/v/x")
        self.assertEqual(a.admin("/v1/purge", "POST", {"url": "http://tarn.test/v/x", "local": True})["purged"], 1)
        self.assertEqual(a.get("/v/x").version, version)
        wait_until(lambda: b.get("/v/x").version == version, "after max_blind nothing is trusted", 10)
        self.engine.start()
        wait_for_proofs((a, b))
        self.assert_proven(a.purge(url="http://tarn.test/v/x"), "ab")

    @staticmethod
    def ttl(answer):
        return int(answer.fields["cache-status"].partition("ttl=")[2].partition(";")[0])

    def test_what_is_served_in_grace_while_nothing_is_trusted_is_said_to_be_stale(self):
        a = self.nodes("a", max_blind="1s", more="parameters: { default_grace: 10m }\n")[0]
        self.store((a,))
        self.assertGreater(self.ttl(a.get("/v/x")), 500)
        self.engine.kill()
        wait_until(lambda: a.fleet()["trusts_ms"] == 0, "nothing is trusted", 10)
        self.origin.close()  # so that it stays as it is
        status = a.get("/v/x").fields["cache-status"]
        self.assertIn("hit", status)
        self.assertLess(self.ttl(a.get("/v/x")), 0, status)
        said = " ".join(a.admin("/v1/why?url=http://tarn.test/v/x")["text"])
        self.assertIn("counts as stale: this node has heard nothing from the fleet's engine", said)
        self.assertNotIn("It is fresh", said)

    def test_an_engine_that_lost_everything_proves_nothing_for_a_while(self):
        a, b = self.nodes("ab")
        self.store((a, b))
        b.pause()
        self.engine.kill()
        self.engine.start()  # without its data: it does not know b
        wait_until(lambda: "proof" in a.purge(url="http://tarn.test/v/y", timeout_ms=50), "a speaks to the engine", 10)
        version = self.origin.change("/v/x")
        answer = a.purge(url="http://tarn.test/v/x", timeout_ms=100)
        self.assertEqual((answer["proof"], answer["why"][:17]), ("none", "the engine is new"))
        wait_until(lambda: a.purge(url="http://tarn.test/v/x", timeout_ms=100).get("proof") == "all", "a proof", 10)
        b.resume()
        self.assertEqual(b.get("/v/x").version, version)

    def test_an_engine_with_its_file_goes_on(self):
        engine = Engine("--appendonly", "yes", "--appendfsync", "always")
        self.addCleanup(engine.close)
        a, b = self.node("a", port=engine.port, max_blind="5s"), self.node("b", port=engine.port, max_blind="5s")
        wait_for_proofs((a, b))
        self.store((a, b))
        engine.kill()
        engine.start()
        for n in (a, b):
            wait_until(lambda n=n: n.is_in_step() and not n.fleet()["why"], "in step", 10)
            self.assertIn("hit", n.get("/v/x").fields["cache-status"])  # nothing was lost, so nothing is stale
        version = self.origin.change("/v/x")
        a.purge(url="http://tarn.test/v/x", timeout_ms=100)
        wait_until(lambda: b.get("/v/x").version == version, "the purge arrives", 5)

    def test_a_log_that_was_trimmed_makes_everything_stale(self):
        wire = Wire(self.engine.port)
        self.addCleanup(wire.close)
        a, b = self.node("a", max_blind="10s"), self.node("b", port=wire.port, max_blind="10s")
        for n in (a, b):
            wait_until(n.is_in_step, "in step", 20)
        self.store((a, b))
        wire.cut()
        version = self.origin.change("/v/x")
        a.purge(wait="log", url="http://tarn.test/v/x")
        self.engine.ask("XTRIM", "tarn:{shop}:log", "MAXLEN", 0)
        wire.mend()
        wait_until(lambda: b.get("/v/x").version == version, "b trusts nothing that it had", 10)

    def test_a_log_of_long_urls_has_a_bound_of_bytes(self):
        """What clients send unsafely has URLs as long as they like."""
        long = "http_req_line_len: 60KiB, http_req_size: 60KiB"
        nodes = self.nodes("ab", fleet=", log_bytes: 1MiB", more=f"parameters: {{ {long} }}\n")
        distrusts = [n.admin("/v1/counters")["fleet.distrusts"] for n in nodes]
        conn = http.client.HTTPConnection("127.0.0.1", nodes[0].port, timeout=10)
        self.addCleanup(conn.close)
        for size, count in ((7000, 400), (50000, 60), (0, 0)):
            for i in range(count):
                conn.request("POST", f"/v/{i}?" + "x" * size, b"", {"Host": "tarn.test"})
                answer = conn.getresponse()
                answer.read()
                self.assertLess(answer.status, 300)
            for i in range(0 if size else 800):  # and of many short texts
                nodes[0].purge(wait="log", tags=[f"{(i * 250 + k) % 9000}" for k in range(250)])
            self.assertEqual(nodes[1].purge(url="http://tarn.test/v/x")["proof"], "all")
            used = self.engine.ask("MEMORY", "USAGE", "tarn:{shop}:log", "SAMPLES", 0)
            self.assertLess(used, 3 << 19, size)
            self.assertGreater(used, 1 << 19, size)  # and it is kept as far
        self.assertEqual([n.admin("/v1/counters")["fleet.distrusts"] for n in nodes], distrusts)

    # ---- other ways to the engine ----

    def password(self, text="the password of the engine"):
        fd, path = tempfile.mkstemp()
        self.addCleanup(os.unlink, path)
        os.write(fd, text.encode() + b"\n")
        os.close(fd)
        return path

    def test_a_user_with_a_password_and_no_more_rights_than_it_needs(self):
        self.engine.ask("ACL", "SETUSER", "tarn", "on", ">the password of the engine", "~tarn:{shop}:*", *RIGHTS)
        self.engine.ask("ACL", "SETUSER", "default", "off")
        a, b = (self.node(n, engine=f"redis://tarn@127.0.0.1:{self.engine.port}",
                          fleet=f", password_file: {self.password()}") for n in "ab")
        wait_for_proofs((a, b))
        self.store((a, b))
        version = self.origin.change("/v/x")
        self.assert_proven(a.purge(url="http://tarn.test/v/x"), "ab")
        self.assert_new((a, b), version)
        wrong = self.node("c", engine=f"redis://tarn@127.0.0.1:{self.engine.port}",
                          fleet=f", password_file: {self.password('wrong')}")
        wait_until(lambda: "WRONGPASS" in wrong.fleet()["why"], "it says so", 10)

    def test_an_engine_by_tls_and_by_name(self):
        p = tls_world.pki()
        crt, key = (os.path.join(p.certs, "default." + end) for end in ("crt", "key"))
        port = free_port()
        engine = Engine("--tls-port", str(port), "--tls-cert-file", crt, "--tls-key-file", key, "--tls-ca-cert-file",
                        p.ca.pem, "--tls-auth-clients", "no")
        self.addCleanup(engine.close)
        a, b = (self.node(n, engine=f"rediss://localhost:{port}", fleet=f", tls: {{ ca: {p.ca.pem} }}") for n in "ab")
        wait_for_proofs((a, b))
        self.assert_proven(a.purge(url="http://tarn.test/v/x"), "ab")
        wrong = self.node("c", engine=f"rediss://127.0.0.1:{port}", fleet=f", tls: {{ ca: {p.ca.pem}, name: b.test }}")
        wait_until(lambda: "name" in wrong.fleet()["why"], "it says which check failed", 10)

    def test_a_replica_that_is_promoted_is_followed(self):
        replica = Engine("--replicaof", "127.0.0.1", str(self.engine.port))
        self.addCleanup(replica.close)
        wait_until(lambda: b"master_link_status:up" in replica.ask("INFO", "replication"), "the replica is there", 20)
        sentinel = Sentinel(self.engine.port)
        self.addCleanup(sentinel.close)
        a, b = (self.node(n, engine=f"redis://127.0.0.1:{sentinel.port}", fleet=", sentinel: mymaster", max_blind="5s")
                for n in "ab")
        wait_for_proofs((a, b))
        self.store((a, b))
        self.engine.kill()
        wait_until(lambda: str(replica.port) in a.fleet()["engine"] and a.is_in_step() and b.is_in_step() and
                   not a.fleet()["why"], "the new master is followed", 30)
        version = self.origin.change("/v/x")
        answer = a.purge(url="http://tarn.test/v/x", timeout_ms=500)
        self.assertIn("token", answer)
        wait_until(lambda: b.get("/v/x").version == version, "the purge arrives", 5)

    def test_a_sentinel_that_answers_with_a_name_is_understood(self):
        sentinel = Sentinel(self.engine.port)
        self.addCleanup(sentinel.close)
        for words in (("CONFIG", "SET", "resolve-hostnames", "yes"), ("CONFIG", "SET", "announce-hostnames", "yes"),
                      ("REMOVE", "mymaster"), ("MONITOR", "mymaster", "localhost", self.engine.port, 1)):
            sentinel.ask("SENTINEL", *words)
        self.assertEqual(sentinel.ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "mymaster")[0], b"localhost")
        a = self.node("a", engine=f"redis://localhost:{sentinel.port}", fleet=", sentinel: mymaster")
        wait_for_proofs([a])
        self.assertEqual(a.fleet()["engine"], f"localhost:{self.engine.port}")
        self.assert_proven(a.purge(url="http://tarn.test/v/x"), "a")
        b = self.node("b", engine=f"redis://localhost:{sentinel.port}", fleet=", sentinel: other")
        wait_until(lambda: "Sentinel knows no master" in b.fleet()["why"], "it says why", 10)

    # ---- coming and going ----

    def test_a_node_that_goes_leaves_its_name(self):
        a, b = self.node("a", max_blind="60s"), self.node("b", max_blind="60s")
        for n in (a, b):
            wait_until(n.is_in_step, "in step", 10)
        self.assertEqual(a.close(), 0)
        self.assertEqual(self.engine.ask("EXISTS", "tarn:{shop}:node:a"), 0)
        self.assertEqual(self.names(), [b"b"])
        again = self.node("a", max_blind="60s")
        wait_until(again.is_in_step, "the name is free at once", 5)

    def test_one_that_drains_gives_its_name_to_its_follower(self):
        a = self.node("a", max_blind="60s")
        wait_until(a.is_in_step, "in step", 10)
        held = self.origin.held["/v/x"] = threading.Event()
        first = threading.Thread(target=a.get, args=("/v/x",))
        first.start()
        wait_until(lambda: self.origin.asked["/v/x"] == 1, "the origin is asked", 10)
        a.admin("/v1/drain", "POST")
        self.assertEqual(a.fleet()["state"], "apart")  # it trusts nothing any more
        self.assertIn("leaving", a.purge(url="http://tarn.test/v/x")["error"])
        follower = self.node("a", max_blind="60s")
        wait_until(follower.is_in_step, "the follower has the name", 10)
        self.assertIsNone(a.process.poll())  # it still serves its last client
        held.set()
        first.join()

    def test_a_node_that_crashed_knows_its_name_by_its_state(self):
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        state = os.path.join(folder, "fleet")
        a = self.node("a", max_blind="60s", fleet=f", state: {state}")
        b = self.node("b", max_blind="60s")
        for n in (a, b):
            wait_until(n.is_in_step, "in step", 10)
        wait_until(lambda: os.path.getsize(state) > 0, "it is written", 5)
        with open(state, encoding="ascii") as f:
            self.assertRegex(f.read(), r"^tarn-fleet 1 shop a [0-9a-f]{16} \d+-\d+ *\n$")
        self.assertEqual(os.stat(state).st_mode & 0o777, 0o600)
        second = subprocess.run([self.programs[0], "-c", a.config], capture_output=True, timeout=30, check=False)
        self.assertIn(b"another tarnd has it open", second.stderr)
        self.assertNotEqual(second.returncode, 0)
        a.process.kill()
        a.process.wait()
        again = self.node("a", max_blind="60s", fleet=f", state: {state}")
        wait_until(again.is_in_step, "its name is its own", 5)
        without = self.node("b", max_blind="60s")
        wait_until(lambda: "name" in without.fleet()["why"], "without a state it is not", 5)

    def test_a_name_without_a_node_is_forgotten(self):
        a, b = self.node("a"), self.node("b")
        for n in (a, b):
            wait_until(n.is_in_step, "in step", 10)
        b.process.kill()
        wait_until(lambda: self.names() == [b"a"], "its name goes", 60)
        again = self.node("b")
        wait_for_proofs((a, again))
        self.assert_proven(a.purge(url="http://tarn.test/v/x"), "ab")
    # ---- an engine that loses what it had, by itself or by other programs ----

    def nodes_of_which_one_sleeps(self, lose, names="abc"):
        """All have it stored; c stops, and `lose` is done.  Which nodes go on?"""
        nodes = self.nodes(names, max_blind="3s")
        self.store(nodes)
        nodes[-1].pause()
        lose()
        return nodes

    def assert_holds(self, prover, sleeper):
        """A proof is given without the one that sleeps only when that one will trust nothing."""
        version = self.origin.change("/v/x")
        for _ in range(3):
            if prover.purge(url="http://tarn.test/v/x", timeout_ms=200).get("proof") == "all":
                break
        else:
            sleeper.resume()
            return
        sleeper.resume()
        self.assertEqual(sleeper.get("/v/x").version, version)

    def assert_proves_again(self, nodes):
        wait_until(lambda: nodes[0].purge(url="http://tarn.test/v/x", timeout_ms=100).get("proof") == "all",
                   "proofs are given again", 20)
        self.assert_new(nodes, self.origin.version["/v/x"])

    def test_an_engine_that_was_emptied_proves_nothing_for_a_while_at_any_node(self):
        a, b, c = self.nodes_of_which_one_sleeps(lambda: self.engine.ask("FLUSHALL"))
        wait_until(lambda: self.engine.ask("EXISTS", "tarn:{shop}:nodes"), "a node has seen it", 5)
        time.sleep(1.2)
        for n in (a, b):
            self.assert_holds(n, c)
            c.pause()
        c.resume()
        self.assert_proves_again((a, b, c))

    def test_without_the_names_no_proof_is_given_for_a_while(self):
        a, b, c = self.nodes_of_which_one_sleeps(lambda: self.engine.ask("DEL", "tarn:{shop}:nodes"))
        d = self.node("d", max_blind="3s")
        wait_until(lambda: d.fleet()["state"] == "in step", "d is in step", 5)
        self.assert_holds(d, c)
        self.assert_proves_again((a, b, c, d))

    def test_a_key_that_was_lost_is_as_good_as_there(self):
        a, b, c = self.nodes_of_which_one_sleeps(lambda: self.engine.ask("DEL", "tarn:{shop}:node:c"))
        d = self.node("d", max_blind="3s")
        wait_until(lambda: d.fleet()["state"] == "in step", "d is in step", 5)
        self.assert_holds(a, c)
        c.pause()
        self.assert_holds(d, c)
        self.assert_proves_again((a, b, c, d))

    def test_a_node_with_a_longer_max_blind_is_waited_for_as_long(self):
        wire = Wire(self.engine.port)
        self.addCleanup(wire.close)
        a, b = self.node("a", max_blind="1s"), self.node("b", max_blind="12s", port=wire.port)
        wait_for_proofs([a, b])
        self.store([a, b])
        wire.silence()
        time.sleep(0.3)  # what was on its way has come
        self.engine.ask("DEL", "tarn:{shop}:node:b")
        version = self.origin.change("/v/x")
        answer = a.purge(url="http://tarn.test/v/x", timeout_ms=4000)
        self.assertEqual(b.get("/v/x").version, version - 1)  # it trusts what it has
        self.assertEqual(answer["proof"], "none", answer)
        wire.mend()
        wait_for_proofs([a, b])
        self.assert_proven(a.purge(url="http://tarn.test/v/x"), "ab")
        self.assert_new([a, b], version)

    def test_a_log_that_begins_anew_with_lower_ids_proves_nothing_for_a_while(self):
        a, b, c = self.nodes("abc", max_blind="3s")
        self.store((a, b, c))
        for proof in range(2):
            last = int(self.engine.ask("XREVRANGE", "tarn:{shop}:log", "+", "-", "COUNT", 1)[0][0].split(b"-")[0])
            ahead = f"{last + 100000}-0"
            self.engine.ask("XADD", "tarn:{shop}:log", ahead, "v", 1, "kind", "hello")
            for n in (a, b, c):
                wait_until(lambda n=n: n.fleet()["position"] == ahead, "it is read", 5)
            self.store((a, b, c))
            self.engine.ask("DEL", "tarn:{shop}:log")
            version = self.origin.change("/v/x")
            if a.purge(url="http://tarn.test/v/x", timeout_ms=200 + proof)["proof"] == "all":
                self.assert_new((a, b, c), version)
            self.assert_proves_again((a, b, c))

    def test_an_engine_that_says_nothing_any_more_is_left(self):
        wire = Wire(self.engine.port)
        self.addCleanup(wire.close)
        a = self.node("a", port=wire.port)
        wait_until(a.is_in_step, "in step", 10)
        before = set(wire.pairs)
        wire.silence()
        wait_until(lambda: "no reply" in a.fleet()["why"], "the connection is given up", 10)
        wire.mend()
        wait_until(a.is_in_step, "in step", 10)
        self.assertFalse(before & wire.clients & set(wire.pairs))

    def test_what_waits_for_an_engine_that_has_lost_the_log_is_written_with_what_it_lost(self):
        wire = Wire(self.engine.port)
        self.addCleanup(wire.close)
        a, b = self.node("a", port=wire.port, policy=True, max_blind="10s"), self.node("b", max_blind="10s")
        for n in (a, b):
            wait_until(n.is_in_step, "in step", 20)
        a.purge(url="http://tarn.test/v/x", wait="log")
        wire.cut()
        self.store((b,))
        version = self.origin.change("/v/x")
        self.assertEqual(a.ask("/v/x", method="PURGE").status, 200)
        self.engine.ask("DEL", "tarn:{shop}:log")
        wire.mend()
        wait_until(a.is_in_step, "in step", 10)
        wait_until(lambda: a.fleet()["queued"] == 0, "all is written", 10)
        self.assert_new((a, b), version)

    # ---- bad input ----

    def test_two_nodes_with_one_name(self):
        a = self.node("a")
        wait_until(a.is_in_step, "in step", 10)
        other = self.node("a")
        wait_until(lambda: "name" in other.fleet()["why"], "the second one says so", 10)
        self.assertEqual(other.fleet()["state"], "apart")
        self.assertIn("name", other.purge(url="http://tarn.test/v/x")["error"])
        self.assertTrue(a.is_in_step())
        other.get("/v/x")
        other.get("/v/x")
        self.assertEqual(self.origin.asked["/v/x"], 2)  # it serves, and trusts nothing
        a.close()
        wait_until(other.is_in_step, "the name is free", 10)

    def test_what_cannot_be_read_makes_everything_stale(self):
        a = self.node("a", max_blind="60s")
        wait_until(a.is_in_step, "in step", 10)
        for entry in (("v", 9, "kind", "url", "text", "http://tarn.test/"), ("rubbish", b"\0\xff"),
                      ("v", 1, "kind", "ban", "text", "obj.status ==="), ("v", 1, "kind", "unheard-of"),
                      ("v", 1, "kind", "tags"), ("v", 1, "kind", "key")):
            with self.subTest(entry=entry):
                self.store((a,))
                version = self.origin.change("/v/x")
                self.engine.ask("XADD", "tarn:{shop}:log", "*", *entry)
                wait_until(lambda v=version: a.get("/v/x").version == v, "it is stale", 10)
        self.assertTrue(a.is_in_step())

    def log(self):
        f = tempfile.TemporaryFile()
        self.addCleanup(f.close)
        return f

    @staticmethod
    def lines(log, text):
        text_of_all = os.pread(log.fileno(), 1 << 24, 0)  # the process writes at the same offset
        return [line for line in text_of_all.decode(errors="replace").split("\n") if text in line]

    def test_names_and_addresses_that_no_node_can_have_are_ignored(self):
        log = self.log()
        a = self.node("a", peers=True, max_blind="1s", stderr=log)
        wait_for_proofs([a])
        report = self.engine.ask("GET", "tarn:{shop}:node:a").split(b" ")
        for name, address in ((b"x\r\ny", b"127.0.0.1:1"), (b"\xff", b"127.0.0.1:1"), (b"n" * 65, b"127.0.0.1:1"),
                              (b"b", b"b\r\nx:1"), (b"c", b"\xff:1"), (b"d", b"*:1")):
            self.engine.ask("SET", b"tarn:{shop}:node:" + name, b" ".join(report[:5] + [address] + report[6:]))
            self.engine.ask("ZADD", "tarn:{shop}:nodes", 1, name)
        wait_until(lambda: len(a.fleet()["nodes"]) == 4, "the others are seen", 10)
        time.sleep(2.5)  # some more looks
        self.assertEqual([(n["node"], n.get("can_be_asked", False)) for n in a.fleet()["nodes"] if n["node"] != "a"],
                         [("b", False), ("c", False), ("d", False)])
        for i in range(12):
            a.get(f"/v/{i}")
        self.assertEqual(len(self.lines(log, "no node can have")), 1)

    def forger(self):
        f = Forger(self.engine.port)
        self.addCleanup(f.close)
        return f

    def assert_survives(self, node, forger, command, reply, why):
        """Replies to `command` are `reply` for a while; the node says `why`, and is in step when they are right again."""
        forger.forge = lambda words, right: reply if words[0] == command else right
        wait_until(lambda: node.purge(url="http://tarn.test/v/x", wait="log", timeout_ms=100) and
                   why in node.fleet()["why"], f"it says: {why}", 60)  # under ThreadSanitizer 64 MiB take long
        forger.mend()
        wait_for_proofs([node])
        self.assert_proven(node.purge(url="http://tarn.test/v/x"), [node.name])

    def test_a_reply_that_makes_no_sense_ends_the_connection(self):
        forger = self.forger()
        forger.forge = lambda words, right: b"$3\r\n0-0\r\n" if words[0] == b"XADD" else right
        a = self.node("a", port=forger.port, max_blind="1s")
        wait_until(lambda: "XADD: the reply" in a.fleet()["why"], "the reply to its first entry is refused", 10)
        forger.mend()
        wait_for_proofs([a])
        for reply in (b"$3\r\n0-0\r\n", b"$3\r\nfoo\r\n", b"$-1\r\n", b":7\r\n"):
            with self.subTest(reply=reply):
                self.assert_survives(a, forger, b"XADD", reply, "XADD: the reply")
        for entry in (b"*2\r\n$3\r\n0-0\r\n*2\r\n$1\r\nv\r\n$1\r\n1\r\n", b"*2\r\n$3\r\n5-5\r\n*0\r\n", b"*-1\r\n", b":1\r\n"):
            with self.subTest(entry=entry):
                self.assert_survives(a, forger, b"XREAD", b"*1\r\n*2\r\n$3\r\nlog\r\n*1\r\n" + entry, "the log: an entry")

    def test_numbers_that_make_no_sense_are_bounded(self):
        """An overflow, which ends a build with UndefinedBehaviorSanitizer."""
        forger = self.forger()
        for command, reply in ((b"ZSCORE", b"$20\r\n-9223372036854775808\r\n"), (b"ZSCORE", b"$19\r\n9223372036854775807\r\n"),
                               (b"TIME", b"*2\r\n$16\r\n9223372036854776\r\n$1\r\n0\r\n")):
            forger.forge = lambda words, right, command=command, reply=reply: reply if words[0] == command else right
            a = self.node("a", port=forger.port, max_blind="1s")
            wait_until(a.is_in_step, "in step", 10)
            time.sleep(1)
            self.assertEqual(a.close(), 0)

    def test_a_reply_that_is_too_long_ends_the_connection(self):
        forger = self.forger()
        a = self.node("a", port=forger.port, max_blind="3s")
        wait_for_proofs([a])
        for reply, why in ((b"*2000000000\r\n" + b":1\r\n" * 1000, "elements"), (b"*500000\r\n" * 7 + b":1\r\n", "elements"),
                           (b"+" + b"x" * 200000, "a line of more than"), (b"*9\r\n" + b"$" + b"0" * 200000, "a line of more than"),
                           (b"*100000\r\n" + (b"$1000\r\n" + b"x" * 1000 + b"\r\n") * 70000, "64 MiB"),
                           (b"$70000000\r\n" + b"x" * 70000000, "64 MiB")):
            with self.subTest(reply=reply[:20], why=why):
                self.assert_survives(a, forger, b"ZRANGE", reply, why)

    def test_an_entry_that_is_too_large_to_be_read_is_passed(self):
        forger, log, folder = self.forger(), self.log(), tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        state = f", state: {folder}/b"
        a = self.node("a", port=forger.port, max_blind="60s", stderr=log)
        b = self.node("b", max_blind="60s", fleet=state)
        for n in (a, b):
            wait_until(n.is_in_step, "in step", 10)
        self.store([a])
        wait_until(lambda: os.path.getsize(folder + "/b") > 0, "its place is written", 5)
        b.process.kill()
        b.process.wait()
        forger.forge = lambda words, right: time.sleep(2 * (words[0] == b"XADD")) or right
        version = self.origin.change("/v/x")
        large = self.engine.ask("XADD", "tarn:{shop}:log", "*", "rubbish", b"x" * (70 << 20)).decode()
        said = "too large to be read: everything stored before now is stale"
        # Its `why` is there until the engine has its entry: on a machine with much to do it may be over when it is looked at.
        wait_until(lambda: "too large to be read" in a.fleet()["why"] or self.lines(log, said), "it says why it is not in step", 60)
        self.assertEqual(a.get("/v/x").version, version)
        forger.mend()
        b = self.node("b", max_blind="60s", fleet=state)
        for n in (a, b):
            wait_until(lambda n=n: n.is_in_step() and not n.fleet()["why"], f"{n.name} is in step again", 60)
            self.assertGreater(n.fleet()["position"], large)
        self.store([a])
        version = self.origin.change("/v/x")
        a.purge(url="http://tarn.test/v/x", wait="log")
        wait_until(lambda: b.admin("/v1/counters")["fleet.applied"] > 0, "b reads on", 10)
        self.assert_new([a, b], version)
        self.assertEqual(len(self.lines(log, said)), 1)

    def test_an_engine_that_refuses_is_named(self):
        self.engine.ask("CONFIG", "SET", "requirepass", "secret-of-the-engine")
        a = self.node("a")
        wait_until(lambda: "NOAUTH" in a.fleet()["why"], "it says why", 10)
        self.assertNotIn("secret", str(a.fleet()))


if __name__ == "__main__":
    main(__file__, Fleet, "TARND")
