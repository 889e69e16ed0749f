#!/usr/bin/env python3
"""fleet_shared.py TARND TARNCTL [TEST...] -- what all nodes have alike: policies, parameters, tables, answers to CAs.

redis-server is the engine.
"""
import http.client
import json
import os
import re
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time

sys.dont_write_bytecode = True
import tls_world
from fleet_world import FleetTest, Wire, main, policy_text, wait_for_proofs
from tarnd import free_port, wait_until


class Shared(FleetTest):
    def policy(self, word):
        return policy_text(self.origin.server_address[1]) + \
            'sub vcl_deliver { set resp.http.word = "%s"; }\n' % word

    def put(self, node, path, body, method="PUT"):
        """(status, answer)"""
        c = http.client.HTTPConnection("tarn")
        c.sock = socket.socket(socket.AF_UNIX)
        c.sock.settimeout(60)
        c.sock.connect(os.path.join(node.dir, "admin.sock"))
        c.request(method, path, body=body)
        r = c.getresponse()
        answer = json.load(r)
        c.close()
        return r.status, answer

    def words(self, nodes, path="/x"):
        return [n.ask(path).fields.get("word") for n in nodes]

    def use(self, node, name, word, **query):
        q = "&".join(f"{k}={v}" for k, v in query.items())
        return self.put(node, f"/v1/fleet/policies/{name}" + (f"?{q}" if q else ""), self.policy(word))

    def ctl(self, node, *args, stdin=None):
        p = subprocess.run([self.programs[1], "-a", f"unix:{node.dir}/admin.sock", *args], input=stdin, capture_output=True, text=True, timeout=60)
        return p.returncode, p.stdout, p.stderr

    # ---- policies ----

    def test_a_policy_is_used_by_all_and_by_those_that_join(self):
        nodes = self.nodes(policy=True)
        status, said = self.use(nodes[1], "v1", "one")
        self.assertEqual((status, said["all"]), (200, True), said)
        self.assertEqual({n["state"] for n in said["nodes"]}, {"taken"})
        self.assertEqual(self.words(nodes), ["one"] * 3)
        nodes.append(self.node("d", policy=True))
        wait_until(lambda: self.words(nodes[3:]) == ["one"], "the one that joins has it", 20)
        self.assertEqual(self.use(nodes[3], "v2", "two")[0], 200)
        self.assertEqual(self.words(nodes), ["two"] * 4)

    def test_a_policy_that_one_node_cannot_compile_is_used_by_none(self):
        nodes = self.nodes(policy=True)
        self.assertEqual(self.use(nodes[0], "v1", "one")[0], 200)
        status, said = self.put(nodes[1], "/v1/fleet/policies/v2", self.policy("two").replace("req.method", "req.methodd"))
        self.assertEqual(status, 422, said)
        self.assertIn("no node uses it", said["error"])
        self.assertIn("v2:", said["errors"][0]["message"])
        # A name that one node has for another text.
        status, _ = self.put(nodes[2], "/v1/policies/v3", self.policy("mine"))
        self.assertEqual(status, 201)
        status, said = self.use(nodes[0], "v3", "three")
        self.assertEqual(status, 422, said)
        self.assertEqual([e["message"].partition(":")[0] for e in said["errors"]], ["node c"])
        self.assertEqual(self.words(nodes), ["one"] * 3)
        self.assertEqual([t["name"] for t in nodes[0].admin("/v1/fleet/shared")["shared"]], ["policy"])

    def test_a_node_that_says_nothing_keeps_all_from_using_it(self):
        nodes = self.nodes(policy=True, max_blind="10s")
        self.assertEqual(self.use(nodes[0], "v1", "one")[0], 200)
        nodes[2].pause()
        try:
            status, said = self.use(nodes[0], "v2", "two", timeout_ms=700)
        finally:
            nodes[2].resume()
        self.assertEqual(status, 503, said)
        self.assertEqual([e["message"] for e in said["errors"]], ["node c: it has said nothing yet"])
        self.assertEqual(self.words(nodes), ["one"] * 3)

    def test_the_way_back(self):
        nodes = self.nodes(policy=True)
        status, said = self.put(nodes[0], "/v1/fleet/rollback", b"", "POST")
        self.assertEqual(status, 409, said)
        for name, word in (("v1", "one"), ("v2", "two")):
            self.assertEqual(self.use(nodes[0], name, word)[0], 200)
        self.assertEqual(self.put(nodes[2], "/v1/fleet/rollback", b"", "POST")[0], 200)
        self.assertEqual(self.words(nodes), ["one"] * 3)

    def test_the_same_policy_once_more_keeps_the_way_back(self):
        nodes = self.nodes("ab", policy=True)
        for node, name, word in ((0, "v1", "one"), (0, "v2", "two"), (1, "v2", "two"), (0, "v2", "two")):
            self.assertEqual(self.use(nodes[node], name, word)[0], 200)
        self.assertEqual(self.put(nodes[1], "/v1/fleet/rollback", b"", "POST")[0], 200)
        self.assertEqual(self.words(nodes), ["one"] * 2)

    def refused(self, node):
        return [t["name"] for t in node.admin("/v1/fleet/shared")["shared"] for n in t["nodes"]
                if (n["node"], n["state"]) == (node.name, "refused")]

    def test_what_was_refused_is_tried_again_at_a_reload(self):
        part = os.path.join(self.enterContext(tempfile.TemporaryDirectory()), "part.vcl")
        with open(part, "w", encoding="utf-8") as f:
            f.write('sub vcl_deliver { set resp.http.word = "part"; }\n')
        nodes = self.nodes("a", policy=True)
        text = policy_text(self.origin.server_address[1]) + f'include "{part}";\n'
        self.assertEqual(self.put(nodes[0], "/v1/fleet/policies/v1", text)[0], 200)
        os.rename(part, part + ".away")
        with tempfile.TemporaryFile() as log:
            nodes.append(self.node("b", policy=True, stderr=log))
            wait_until(lambda: self.refused(nodes[1]) == ["policy"], "it is refused", 20)
            log.seek(0)
            self.assertRegex(log.read().decode(), "shared policy, .*: refused: .*`tarnctl reload` at this node tries again")
        os.rename(part + ".away", part)
        self.assertEqual(self.words(nodes), ["part", None])
        self.assertEqual(self.put(nodes[1], "/v1/reload", b"", "POST")[0], 200)
        wait_until(lambda: self.words(nodes) == ["part"] * 2, "it has it now", 10)
        wait_until(lambda: nodes[1].admin("/v1/counters")["fleet.shared_refused"] == 0, "nothing is refused any more", 10)

    def tries(self):
        return [n for n in self.engine.ask("HKEYS", "tarn:{shop}:shared") if n.startswith(b"policy/try/")]

    def test_a_try_goes_with_the_node_that_tries(self):
        nodes = self.nodes(policy=True)
        self.put(nodes[2], "/v1/policies/v1", self.policy("hand"))  # so c refuses it
        nodes[2].pause()
        thread = threading.Thread(target=lambda: self.assertRaises((OSError, http.client.HTTPException), self.use, nodes[1], "v1", "one"))
        thread.start()
        wait_until(lambda: self.tries() == [b"policy/try/b"], "it is tried", 10)
        nodes[1].process.kill()
        thread.join()
        nodes[2].resume()
        wait_until(lambda: not self.tries(), "it is removed", 20)
        wait_until(lambda: nodes[2].admin("/v1/counters")["fleet.shared_refused"] == 0, "c refuses nothing", 10)
        self.assertEqual(self.words([nodes[0], nodes[2]]), [None] * 2)

    def test_a_try_that_was_left_behind_is_judged_by_none(self):
        nodes = self.nodes("bc", policy=True)
        self.assertEqual(self.use(nodes[0], "v1", "one")[0], 200)
        key, ask = "tarn:{shop}:shared", self.engine.ask
        version, text = ask("HGET", key, "policy"), ask("HGET", key + ":texts", "policy")
        for left in ("policy/try/a", "policy/try/c"):  # a node that was, and the process before of one that is
            ask("HSET", key + ":texts", left, text)
            ask("HSET", key, left, version)
        wait_until(lambda: not self.tries(), "they are removed", 10)
        self.assertEqual(self.use(nodes[1], "v2", "two")[0], 200)
        self.assertEqual(self.words(nodes), ["two"] * 2)

    def a_node_that_refuses_to_use(self):
        """Compiles every policy, and uses none."""
        key, ask = "tarn:{shop}:", self.engine.ask
        incarnation = ask("GET", key + "node:a").split(b" ")[1]
        ask("ZADD", key + "nodes", 1, "z")
        ask("SET", key + "node:z", b"%s %s 1-1 1 9000" % (b"f" * 16, incarnation), "PX", 60000)
        over = threading.Event()

        def says():
            while not over.wait(0.05):
                said = ask("HGETALL", key + "shared")
                lines = [b"%s %s %s\n" % (n, v, b"-no" if n == b"policy" else b"+") for n, v in zip(said[::2], said[1::2])]
                ask("HSET", key + "shared:reports", "z", b"f" * 16 + b"\n" + b"".join(lines))

        thread = threading.Thread(target=says)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(over.set)

    def test_a_policy_that_is_compiled_and_not_used_keeps_the_way_back(self):
        nodes = self.nodes("ab", policy=True)
        for name, word in (("v1", "one"), ("v2", "two")):
            self.assertEqual(self.use(nodes[0], name, word)[0], 200)
        before = self.engine.ask("HGET", "tarn:{shop}:shared:texts", "policy/before")
        self.a_node_that_refuses_to_use()
        status, said = self.use(nodes[0], "v3", "three")
        self.assertEqual((status, said["error"]), (422, "a node refuses it: what was there before counts again"))
        wait_until(lambda: self.words(nodes) == ["two"] * 2, "the one before counts again", 10)
        self.assertIn(b"one", before)
        self.assertEqual(self.engine.ask("HGET", "tarn:{shop}:shared:texts", "policy/before"), before)

    def test_the_fleets_counts_above_that_of_a_file_that_changed(self):
        nodes = self.nodes("ab", policy=True)
        self.assertEqual(self.use(nodes[0], "v1", "one")[0], 200)
        with open(nodes[0].policy, "w", encoding="utf-8") as f:
            f.write(self.policy("file"))
        self.assertEqual(self.put(nodes[0], "/v1/reload", b"", "POST")[0], 200)
        self.assertEqual(self.words(nodes), ["one"] * 2)
        self.assertEqual(self.put(nodes[1], "/v1/fleet/rollback", b"", "POST")[0], 200)
        self.assertEqual(self.words(nodes), ["file", None])

    def test_before_the_first_one_each_has_its_own(self):
        nodes = self.nodes(policy=True)
        self.assertEqual(self.use(nodes[0], "v1", "one")[0], 200)
        status, said = self.put(nodes[1], "/v1/fleet/rollback", b"", "POST")
        self.assertEqual(status, 200, said)
        self.assertEqual(self.words(nodes), [None] * 3)

    def test_what_is_refused_takes_the_place_of_nothing_in_use(self):
        nodes = self.nodes(policy=True)
        for name, word in (("v1", "one"), ("v2", "two")):
            self.assertEqual(self.use(nodes[0], name, word)[0], 200)
        for i in range(20):
            self.put(nodes[2], f"/v1/policies/t{i}", self.policy("mine"))
            self.assertEqual(self.use(nodes[i % 2], f"t{i}", "theirs")[0], 422)
        for word in ("one", "two", "one"):
            status, said = self.put(nodes[0], "/v1/fleet/rollback", b"", "POST")
            self.assertEqual(status, 200, said)
            self.assertEqual(self.words(nodes), [word] * 3)

    def test_a_policy_by_hand_is_not_taken_for_the_fleets(self):
        nodes = self.nodes(policy=True)
        for name, word in (("v1", "one"), ("v2", "two")):
            self.assertEqual(self.use(nodes[0], name, word)[0], 200)
        self.put(nodes[1], "/v1/policies/v1", b"", "DELETE")
        self.put(nodes[1], "/v1/policies/v1", self.policy("hand"))
        status, said = self.use(nodes[0], "v1", "one")
        self.assertEqual(status, 422, said)
        self.assertEqual(self.words(nodes), ["two"] * 3)
        self.put(nodes[1], "/v1/policies/v1", b"", "DELETE")
        self.put(nodes[1], "/v1/policies/v1", self.policy("one"))  # the same: that will do
        self.assertEqual(self.use(nodes[0], "v1", "one")[0], 200)
        self.assertEqual(self.words(nodes), ["one"] * 3)

    def test_an_engine_that_was_emptied_hides_no_node(self):
        nodes = self.nodes("abc", policy=True, max_blind="6s")
        self.put(nodes[1], "/v1/policies/v1", self.policy("hand"))
        nodes[1].pause()
        self.engine.ask("FLUSHALL")
        time.sleep(1.5)
        try:
            status, said = self.use(nodes[0], "v1", "one", timeout_ms=1000)
        finally:
            nodes[1].resume()
        self.assertEqual(status, 503, said)
        self.assertIn("the engine is new", said["error"])
        self.assertEqual(self.words(nodes), [None] * 3)

    def test_a_text_with_a_nul_is_refused(self):
        nodes = self.nodes("a", policy=True)
        for path in ("policies/v1", "challenges/tok"):
            status, said = self.put(nodes[0], "/v1/fleet/" + path, self.policy("one")[:400] + "\0" * 50)
            self.assertEqual((status, said["error"]), (400, "it has a NUL in it"))

    # ---- parameters ----

    def test_a_parameter_is_that_of_all_and_stays_behind_a_reload(self):
        nodes = self.nodes(more="parameters: { default_ttl: 7s }\n")
        value = lambda n: next(p["value"] for p in n.admin("/v1/parameters")["parameters"] if p["name"] == "default_ttl")
        self.assertEqual(self.put(nodes[0], "/v1/fleet/parameters/default_ttl", b'{"value": "33s"}')[0], 200)
        self.assertEqual([value(n) for n in nodes], ["33s"] * 3)
        status, said = self.put(nodes[1], "/v1/reload", b"", "POST")
        self.assertEqual((status, said["changed"]), (200, []))
        self.assertEqual(value(nodes[1]), "33s")
        self.assertEqual(self.put(nodes[1], "/v1/parameters/default_ttl", b'{"value": "5s"}')[0], 200)  # by hand
        changed = self.put(nodes[1], "/v1/reload", b"", "POST")[1]["changed"]
        self.assertEqual([(c["what"], c["from"], c["to"]) for c in changed], [("parameters.default_ttl", "5s", "33s")])
        nodes.append(self.node("d", more="parameters: { default_ttl: 9s }\n"))
        wait_until(lambda: value(nodes[3]) == "33s", "the one that joins has it", 20)
        self.assertEqual(self.put(nodes[0], "/v1/fleet/parameters/default_ttl", b"", "DELETE")[0], 200)
        wait_until(lambda: [value(n) for n in nodes] == ["7s"] * 3 + ["9s"], "each has its file's again", 10)
        for path, body, status in (("default_tt", b'{"value": "1s"}', 404), ("default_ttl", b'{"value": "many"}', 400),
                                   ("workers", b'{"value": 2}', 404), ("default_ttl", b"{}", 400)):
            self.assertEqual(self.put(nodes[0], "/v1/fleet/parameters/" + path, body)[0], status, path)

    def ttl(self, node):
        return next(p["value"] for p in node.admin("/v1/parameters")["parameters"] if p["name"] == "default_ttl")

    def test_a_parameter_that_is_unset_is_so_at_every_node(self):
        path = "/v1/fleet/parameters/default_ttl"
        nodes = self.nodes(max_blind="10s", more="parameters: { default_ttl: 7s }\n")
        self.assertEqual(self.put(nodes[0], path, b'{"value": "33s"}')[0], 200)
        status, said = self.put(nodes[1], path, b"", "DELETE")
        self.assertEqual((status, said["removed"], said["all"]), (200, "parameter/default_ttl", True))
        self.assertEqual([self.ttl(n) for n in nodes], ["7s"] * 3)
        self.assertNotIn("default_ttl", self.ctl(nodes[1], "fleet", "shared")[1])
        self.assertEqual(self.put(nodes[0], path, b'{"value": "33s"}')[0], 200)
        nodes[2].pause()
        try:
            rc, out, err = self.ctl(nodes[0], "fleet", "param", "unset", "--timeout", "700ms", "default_ttl")
            shown = self.ctl(nodes[0], "fleet", "shared")[1]
        finally:
            nodes[2].resume()
        self.assertEqual((rc, out), (4, "parameter/default_ttl: 2 nodes have their file's value again\n"))
        self.assertIn("node c: silent", err)
        self.assertRegex(shown, "default_ttl +taken back +c silent")
        wait_until(lambda: self.ttl(nodes[2]) == "7s", "it takes it when it is there", 10)

    def test_a_parameter_that_is_unset_leaves_the_policys_default(self):
        nodes = self.nodes("ab", policy=True)
        force = lambda n: next(p["in_force"] for p in n.admin("/v1/parameters")["parameters"] if p["name"] == "default_ttl")
        self.assertEqual([force(n) for n in nodes], ["2m"] * 2)
        self.assertEqual(self.put(nodes[0], "/v1/fleet/parameters/default_ttl", b'{"value": "33s"}')[0], 200)
        self.assertEqual([force(n) for n in nodes], ["33s"] * 2)
        self.assertEqual(self.put(nodes[0], "/v1/fleet/parameters/default_ttl", b"", "DELETE")[0], 200)
        nodes.append(self.node("c", policy=True))
        wait_for_proofs(nodes[2:])
        wait_until(lambda: b"c" in self.engine.ask("HKEYS", "tarn:{shop}:shared:reports"), "it has taken what there is", 10)
        self.assertEqual([force(n) for n in nodes], ["2m"] * 3)

    def test_an_engine_that_does_not_take_it_back_is_named(self):
        path = "/v1/fleet/parameters/default_ttl"
        wire = Wire(self.engine.port)
        self.addCleanup(wire.close)
        a, b = self.node("a", port=wire.port, max_blind="20s"), self.node("b", max_blind="20s")
        wait_for_proofs([a, b])
        self.assertEqual(self.put(a, path, b'{"value": "33s"}')[0], 200)
        self.engine.ask("CONFIG", "SET", "min-replicas-to-write", "1")
        for n, target in ((a, path), (b, "/v1/fleet/challenges/tok")):
            status, said = self.put(n, target, b"", "DELETE")
            self.assertEqual(status, 503, said)
            self.assertIn("has not confirmed it: NOREPLICAS", said["error"])
        self.engine.ask("CONFIG", "SET", "min-replicas-to-write", "0")
        wait_until(lambda: a.admin("/v1/fleet/shared")["why"] == "", "it is asked again", 30)
        self.assertEqual([self.ttl(n) for n in (a, b)], ["33s"] * 2)
        wire.silence()
        status, said = self.put(a, path + "?timeout_ms=500", b"", "DELETE")
        self.assertEqual(status, 503, said)
        self.assertIn("did not answer in time", said["error"])
        for target in (path, "/v1/fleet/challenges/tok"):
            ask = lambda t=target: self.put(a, t + "?timeout_ms=100", b"", "DELETE")[1]["error"]
            wait_until(lambda: re.search("or refuses: no reply in [34] s; nothing was done", ask()), "it is known", 15)

    # ---- tables ----

    def test_a_table_is_that_of_all(self):
        tables = [self.enterContext(tempfile.TemporaryDirectory()) for _ in "abc"]
        nodes = [self.node(name, more=f"tables: {{ moved: {{ path: '{t}/moved', kind: map }} }}\n")
                 for name, t in zip("abc", tables)]
        wait_for_proofs(nodes)
        rows = lambda n: {e["key"]: e["value"] for e in n.admin("/v1/tables/moved")["list"]}
        status, said = self.put(nodes[1], "/v1/fleet/tables/moved", b"/old /new\n/a /b\n")
        self.assertEqual(status, 200, said)
        self.assertEqual([rows(n) for n in nodes], [{"/old": "/new", "/a": "/b"}] * 3)
        self.assertEqual(self.put(nodes[0], "/v1/fleet/tables/moved", b"/old /new\n/old /b\n")[0], 422)
        self.assertEqual(self.put(nodes[0], "/v1/fleet/tables/movedd", b"a b\n")[0], 404)
        nodes.append(self.node("d"))  # it has no such table
        wait_for_proofs(nodes[3:])
        status, said = self.put(nodes[1], "/v1/fleet/tables/moved", b"/x /y\n")
        self.assertEqual(status, 422, said)
        self.assertEqual([e["message"] for e in said["errors"]], ["node d: this node's configuration has no such table"])
        wait_until(lambda: [rows(n) for n in nodes[:3]] == [{"/x": "/y"}] * 3, "the others have it", 10)
        self.assertEqual([n.admin("/v1/counters")["fleet.shared_refused"] for n in nodes], [0, 0, 0, 1])
        rc, out, err = self.ctl(nodes[1], "fleet", "shared")
        self.assertEqual((rc, err), (1, "tarnctl: node d refuses table/moved: this node's configuration has no such table\n"))
        self.assertRegex(out, r"(?m)^table/moved +\S+ +d refused$")

    def test_what_the_process_before_has_said_counts_no_more(self):
        nodes = self.nodes()
        self.assertEqual(self.put(nodes[0], "/v1/fleet/parameters/default_ttl", b'{"value": "77s"}')[0], 200)
        key, ask = "tarn:{shop}:", self.engine.ask
        epoch, incarnation = ask("GET", key + "node:a").split(b" ")[:2]
        version = ask("HGET", key + "shared", "parameter/default_ttl")
        ask("ZADD", key + "nodes", 1, "z")
        ask("SET", key + "node:z", b"%s %s 1-1 1 9000" % (b"f" * 16, incarnation), "PX", 60000)

        def says(epoch):
            ask("HSET", key + "shared:reports", "z", b"%s\nparameter/default_ttl %s +\n" % (epoch, version))
            time.sleep(2)  # two looks
            things = nodes[1].admin("/v1/fleet/shared")["shared"]
            return [n["state"] for t in things for n in t["nodes"] if n["node"] == "z"]

        self.assertEqual(says(b"f" * 16), ["taken"])
        self.assertEqual(says(b"e" * 16), ["silent"])
        self.assertEqual(says(b""), ["silent"])

    # ---- answers to CAs ----

    def test_each_node_answers_a_ca(self):
        nodes = []
        for name in "abc":
            state = self.enterContext(tempfile.TemporaryDirectory())
            nodes.append(self.node(name, listener=f"  - {{ address: '127.0.0.1:{free_port()}', tls: {{ acme: {{ names: [a.test], "
                                   f"email: a@a.test, agree_tos: on, state: '{state}' }} }} }}\n"))
        wait_for_proofs(nodes)
        path = "/.well-known/acme-challenge/tok-en_1"
        self.assertEqual(self.put(nodes[0], "/v1/fleet/challenges/tok-en_1", b"tok-en_1.thumb")[0], 200)
        self.assertEqual([n.ask(path).body for n in nodes], [b"tok-en_1.thumb"] * 3)
        for bad in ("challenges/tok%20en", "challenges/a.test", "alpn_challenges/A.test", "alpn_challenges/..%2fa",
                     "alpn_challenges/" + "a" * 254):
            self.assertEqual(self.put(nodes[0], "/v1/fleet/" + bad, b"x")[0], 400, bad)
        self.assertEqual(self.put(nodes[0], "/v1/fleet/challenges/" + "t" * 128, b"x")[0], 200)
        self.assertEqual(self.put(nodes[1], "/v1/fleet/challenges/" + "t" * 128, b"", "DELETE")[0], 200)
        long = "/v1/fleet/alpn_challenges/" + "a" * 253
        self.assertEqual(self.put(nodes[0], long, b"x" * 4096)[0], 200)
        self.assertEqual(self.put(nodes[1], long, b"x" * 4097)[0], 400)
        self.assertEqual(self.put(nodes[1], long, b"", "DELETE")[0], 200)
        self.assertEqual(self.put(nodes[2], "/v1/fleet/challenges/tok-en_1", b"", "DELETE")[0], 200)
        wait_until(lambda: b"thumb" not in b"".join(n.ask(path).body for n in nodes), "it is answered no more", 10)

    # ---- sessions of TLS ----

    def test_a_session_goes_on_at_another_node(self):
        pki = tls_world.Pki()
        self.addCleanup(pki.close)
        context = ssl.create_default_context(cafile=pki.ca.pem)
        context.maximum_version = ssl.TLSVersion.TLSv1_2  # of 1.3 the ticket comes behind the handshake

        def session(port, before=None):
            with socket.create_connection(("127.0.0.1", port)) as s:
                with context.wrap_socket(s, server_hostname="a.test", session=before) as t:
                    return t.session, t.session_reused

        for how, reused in ((", session_secret: on", True), ("", False)):
            ports = [free_port() for _ in range(3)]
            listeners = [f"  - {{ address: '127.0.0.1:{p}', tls: {{ certificates: '{pki.certs}' }} }}\n" for p in ports]
            nodes = [self.node(name, listener=l, fleet=how) for name, l in zip("abd", listeners)]
            wait_for_proofs(nodes)
            if reused:
                wait_until(lambda: all("taken" == x["state"] for x in nodes[0].admin("/v1/fleet/shared")["shared"][0]["nodes"]), "all have it")
            first = session(ports[0])[0]
            self.assertEqual([session(p, first)[1] for p in ports], [True, reused, reused])
            if reused:  # the engine loses it: sessions go on
                self.engine.ask("FLUSHALL")
                wait_until(lambda: [t["name"] for t in nodes[0].admin("/v1/fleet/shared")["shared"]] == ["session_secret"], "it is there again", 30)
                self.assertEqual([session(p, first)[1] for p in ports], [True] * 3)
            for n in nodes:
                n.close()

    # ---- the engine ----

    def test_what_the_engine_refuses_to_write_is_said_at_once(self):
        nodes = self.nodes("ab", policy=True)
        self.assertEqual(self.use(nodes[0], "v1", "one")[0], 200)
        self.engine.ask("ACL", "SETUSER", "default", "-hset")
        status, said = self.use(nodes[0], "v2", "two")
        self.assertEqual(status, 503, said)
        self.assertIn("has not confirmed it", said["error"])
        self.assertIn("NOPERM", nodes[0].admin("/v1/fleet/shared")["why"])
        self.assertEqual(self.words(nodes), ["one"] * 2)
        self.assertEqual(nodes[0].purge(url="http://tarn.test/x")["proof"], "all")

    def test_without_its_rights_invalidations_go_on(self):
        password = os.path.join(self.enterContext(tempfile.TemporaryDirectory()), "password")
        with open(password, "w", encoding="ascii", opener=lambda p, flags: os.open(p, flags, 0o600)) as f:
            f.write("secret")
        self.engine.ask("ACL", "SETUSER", "tarn", "on", ">secret", "resetkeys", "~tarn:{shop}:*", "resetchannels", "-@all",
                        *"+select +client|setname +info +time +set +get +del +mget +zadd +zrem +zrange +zscore "
                         "+zremrangebyscore +xadd +xread +xrange +xrevrange +xtrim +multi +exec +watch +unwatch".split())
        nodes = self.nodes(policy=True, engine=f"redis://tarn@127.0.0.1:{self.engine.port}",
                           fleet=f", password_file: '{password}'")
        self.assertEqual(nodes[0].purge(url="http://tarn.test/x")["proof"], "all")
        status, said = self.use(nodes[0], "v1", "one")
        self.assertEqual(status, 503, said)
        self.assertIn("NOPERM", said["error"])
        self.assertIn("NOPERM", nodes[0].admin("/v1/fleet/shared")["why"])
        self.assertEqual(nodes[0].purge(url="http://tarn.test/x")["proof"], "all")

    def test_without_the_engine_nothing_is_done(self):
        nodes = self.nodes(policy=True, max_blind="10s")
        self.assertEqual(self.use(nodes[0], "v1", "one")[0], 200)
        self.engine.kill()
        wait_until(lambda: self.use(nodes[0], "v2", "two")[0] == 503, "it is said", 10)
        self.assertEqual(self.words(nodes), ["one"] * 3)
        self.engine.start()  # empty: what it has lost counts as taken back
        wait_for_proofs(nodes, 60)
        wait_until(lambda: self.words(nodes) == [None] * 3, "each has its own again", 20)
        self.assertEqual(self.use(nodes[0], "v2", "two")[0], 200)

    def test_garbage_in_the_engine_harms_no_node(self):
        nodes = self.nodes(policy=True)
        for words in (("HSET", "tarn:{shop}:shared", "policy", "1-0", "unheard", "2-0", "parameter/default_ttl", "x" * 100,
                       "a b", "3-4", "n" * 400, "5-6"),
                      ("HSET", "tarn:{shop}:shared:texts", "policy", "no name", "unheard", "\0\xff", "parameter/default_ttl", "1s"),
                      ("HSET", "tarn:{shop}:shared:reports", "a", "\0", "b" * 300, "x"),
                      ("XADD", "tarn:{shop}:log", "*", "v", "1", "kind", "hello", "node", "x", "shared", "1")):
            self.engine.ask(*words)
        time.sleep(1.5)
        self.assertEqual(self.use(nodes[0], "v1", "one")[0], 200)
        self.assertEqual(self.words(nodes), ["one"] * 3)
        self.engine.ask("DEL", "tarn:{shop}:shared")
        self.engine.ask("SET", "tarn:{shop}:shared", "a string")
        time.sleep(1.5)
        self.assertEqual(nodes[0].purge(url="http://tarn.test/x")["proof"], "all")

    # ---- tarnctl ----

    def test_what_is_changed_at_one_node_alone_says_that_the_fleet_shares_it(self):
        a = self.node("a", policy=True, more="tables: { moved: { path: '{dir}/moved', kind: map } }\n")
        wait_for_proofs([a])
        self.put(a, "/v1/policies/mine", self.policy("mine"))
        alone = ((("param", "set", "default_ttl", "7s"), None), (("table", "load", "moved", "-"), "a b\n"), (("vcl", "use", "mine"), None))
        for words, text in alone:
            self.assertEqual(self.ctl(a, *words, stdin=text)[::2], (0, ""), words)
        for path, body in (("parameters/default_ttl", b'{"value": "33s"}'), ("tables/moved", b"a c\n"), ("policies/v1", self.policy("one"))):
            self.assertEqual(self.put(a, "/v1/fleet/" + path, body)[0], 200)
        for (words, text), has in zip(alone, ("33s", "one of its own", "v1")):
            self.assertEqual(self.ctl(a, *words, stdin=text)[::2], (0, f"note: this node alone: the fleet has {has}, and "
                                                                    f"`tarnctl fleet {' '.join(words[:2])}` changes it everywhere\n"))
        self.assertEqual(self.ctl(a, "vcl", "use", "v1")[::2], (0, ""))
        self.assertEqual(self.ctl(a, "fleet", "param", "unset", "default_ttl")[0], 0)
        self.assertEqual(self.ctl(a, *alone[0][0])[::2], (0, ""))

    def test_tarnctl(self):
        nodes = self.nodes(policy=True)
        rc, out, err = self.ctl(nodes[0], "fleet", "vcl", "use", "v1", "-", stdin=self.policy("one"))
        self.assertEqual((rc, err), (0, ""), out)
        self.assertIn("3 nodes have it", out)
        rc, out, err = self.ctl(nodes[0], "fleet", "param", "set", "default_ttl", "44s")
        self.assertEqual((rc, err), (0, ""), out)
        rc, out, err = self.ctl(nodes[1], "fleet", "shared")
        self.assertEqual((rc, err), (0, ""))
        self.assertIn("parameter/default_ttl", out)
        rc, out, err = self.ctl(nodes[1], "fleet", "vcl", "use", "v2", "-", stdin="vcl 4.1; sub x { set y = 1; }")
        self.assertEqual(rc, 1)
        self.assertRegex(err, "node [abc]: v2:")
        rc, out, err = self.ctl(nodes[1], "fleet", "vcl", "rollback")
        self.assertEqual((rc, err), (0, ""), out)
        rc, out, err = self.ctl(nodes[1], "fleet", "param", "unset", "default_ttl")
        self.assertEqual((rc, err), (0, ""), out)
        rc, out, err = self.ctl(nodes[1], "fleet", "what")
        self.assertEqual(rc, 2)


if __name__ == "__main__":
    main(__file__, Shared, "TARND", "TARNCTL")
