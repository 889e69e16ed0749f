#!/usr/bin/env python3
"""fleet_ctl.py TARND TARNCTL [TEST...] -- what an operator of a fleet does with tarnctl, and what it says.

redis-server is the engine.
"""
import concurrent.futures
import json
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
import tarnd
from fleet_world import FleetTest, Wire, main, wait_for_proofs

DONE, REFUSED, USAGE, UNREACHABLE, UNPROVEN = range(5)
URL = "http://tarn.test/v/x"


class FleetCtl(FleetTest):
    def ctl(self, node, *args, status=DONE):
        """What it prints, and what it says is wrong."""
        done = subprocess.run([self.programs[1], "--admin", f"unix:{node.dir}/admin.sock", *args], capture_output=True, text=True,
                              timeout=tarnd.PATIENCE_S, check=False)
        self.assertEqual(done.returncode, status, f"{args}: {done.stdout} {done.stderr}")
        self.assertEqual(done.stderr == "", status == DONE, done.stderr)
        return done.stdout, done.stderr

    # ---- the fleet ----

    def test_nodes_in_step_are_shown_with_engine_and_trust(self):
        a, b = self.nodes("ab", max_blind="5s")
        for words in (("fleet",), ("fleet", "status")):
            out = self.ctl(a, *words)[0]
            self.assertRegex(out, r"(?m)^fleet +shop, this node is a$")
            self.assertRegex(out, rf"(?m)^engine +127\.0\.0\.1:{self.engine.port}$")
            self.assertRegex(out, r"(?m)^state +in step, trusts what it has stored for [1-5]\.\ds$")
            self.assertRegex(out, r"(?m)^NODE +STATE +POSITION +LAG +MOVED +PEER$")
            self.assertRegex(out, r"(?m)^a \(this\) +in step +\d+-\d+ +0\.0s +\d+\.\ds ago +off$")
            self.assertRegex(out, r"(?m)^b +in step +\d+-\d+ +\d+\.\ds ")
        self.assertEqual(json.loads(self.ctl(a, "--json", "fleet")[0])["nodes"][1]["node"], "b")
        self.assertIn("tarnctl fleet status", self.ctl(a, "fleet", "stats", status=USAGE)[1])

    def test_a_node_that_lags_or_is_gone_is_an_exit_status(self):
        a, b = self.nodes("ab", max_blind="5s")
        b.pause()
        a.purge(wait="log", url=URL)
        tarnd.wait_until(lambda: a.fleet()["nodes"][1]["state"] == "lags", "it is seen that b stays behind", 5)
        out, err = self.ctl(a, "fleet", status=REFUSED)
        self.assertRegex(out, r"(?m)^b +lags +\d+-\d+ +\d+\.\ds ")
        self.assertEqual(err, "tarnctl: node b: lags\n")
        out, err = self.ctl(a, "--json", "fleet", status=REFUSED)
        self.assertEqual(json.loads(out)["node"], "a")  # one answer, whole
        b.process.kill()
        tarnd.wait_until(lambda: not a.fleet()["nodes"][1]["lives"], "the engine has forgotten b", 15)
        out, err = self.ctl(a, "fleet", status=REFUSED)
        self.assertRegex(out, r"(?m)^b +unknown ")
        self.assertEqual(err, "tarnctl: node b: unknown\n")
        self.engine.ask("ZREM", "tarn:{shop}:nodes", "b")  # as docs/fleet.md has it
        tarnd.wait_until(lambda: len(a.fleet()["nodes"]) == 1, "it is seen", 5)
        self.ctl(a, "fleet")

    def test_a_node_that_is_blind_is_an_exit_status(self):
        wire = Wire(self.engine.port)
        self.addCleanup(wire.close)
        b = self.node("b", port=wire.port)
        wait_for_proofs([b])
        wire.cut()
        tarnd.wait_until(lambda: not b.is_in_step(), "it is blind", 10)
        out, err = self.ctl(b, "fleet", status=REFUSED)
        self.assertRegex(out, r"(?m)^state +apart, trusts nothing that it has stored$")
        self.assertRegex(out, r"(?m)^why +\S")
        self.assertRegex(out, r"(?m)^proofs +none while that is so$")
        self.assertRegex(out, r"(?m)^b \(this\) +not seen ")
        self.assertRegex(err, r"^tarnctl: this node trusts nothing that it has stored: \S")

    def test_what_the_engine_has_is_nothing_that_a_terminal_obeys(self):
        a = self.node("a", max_blind="2s")
        wait_for_proofs([a])
        key, ask = b"tarn:{shop}:", self.engine.ask
        epoch = ask("GET", key + b"node:a").split(b" ")[0]
        ask("HSET", key + b"shared", b"thing/\xc2\x9b31m", b"1-\x1b[31m")
        ask("HSET", key + b"shared:texts", b"thing/\xc2\x9b31m", b"")
        ask("HSET", key + b"shared:reports", "a", epoch + b"\nthing/\xc2\x9b31m 1-\x1b[31m -why\x1b[2J\x07\n")
        tarnd.wait_until(lambda: "refused" in json.dumps(a.admin("/v1/fleet/shared")["shared"]), "it is seen", 10)
        out, err = self.ctl(a, "fleet", "shared", status=REFUSED)
        self.assertIn("node a refuses thing/\\x9b31m: why\\x1b[2J\\x07\n", out + err)
        self.assertIn("1-\\x1b[31m", out)
        self.assertEqual([c for c in out + err if c != "\n" and (c < " " or "\x7f" <= c < "\xa0")], [])

    def test_without_a_fleet_it_is_refused_with_what_is_right(self):
        t = tarnd.Tarnd(self.programs[0], "admin: { address: 'unix:{dir}/admin.sock' }\n"
                        f"backends: {{ default: {{ address: '127.0.0.1:{self.origin.server_address[1]}' }} }}\n")
        self.addCleanup(t.tidy)
        self.assertIn("a section 'fleet'", self.ctl(t, "fleet", status=REFUSED)[1])
        self.assertIn("in no fleet", self.ctl(t, "purge", URL, "--wait", "all", status=REFUSED)[1])
        self.assertIn("in no fleet", self.ctl(t, "fleet", "proof", "1-1.01234567", status=REFUSED)[1])
        self.assertEqual(self.ctl(t, "purge", URL, "--local")[0][:1], "0")

    def metrics(self, node):
        return subprocess.run(["curl", "-s", "--unix-socket", f"{node.dir}/admin.sock", "http://tarn/metrics"],
                              capture_output=True, text=True, check=True).stdout

    def test_prometheus_has_the_fleets_figures(self):
        a, b = self.nodes("ab")
        a.purge(url=URL)
        text = self.metrics(a)
        self.assertRegex(text, r"(?m)^tarn_fleet_member 1$")
        self.assertRegex(text, r"(?m)^tarn_fleet_trusts 1$")
        for name in ("sent", "applied", "proven"):
            self.assertRegex(text, rf"(?m)^tarn_fleet_{name}_total [1-9]")
        for name in ("lost", "unknown", "gaps", "blind", "unproven"):
            self.assertRegex(text, rf"(?m)^tarn_fleet_{name}_total \d+$")
        self.engine.kill()
        tarnd.wait_until(lambda: "tarn_fleet_trusts 0\n" in self.metrics(b), "it is blind", 10)
        self.assertIn("tarn_fleet_member 1\n", self.metrics(b))

    def nodes_counted(self, node):
        """How many live, and how many of them are behind."""
        has = node.admin("/v1/counters")
        return has["fleet.nodes"], has["fleet.nodes_behind"]

    def wait_for_count(self, node, nodes, behind, seconds=15):
        tarnd.wait_until(lambda: self.nodes_counted(node) == (nodes, behind), f"{nodes} nodes, {behind} of them behind", seconds)

    def test_nodes_that_lag_are_a_gauge(self):
        wire = Wire(self.engine.port)
        self.addCleanup(wire.close)
        a, b = self.node("a", max_blind="10s"), self.node("b", max_blind="10s")
        c = self.node("c", max_blind="10s", port=wire.port)
        wait_for_proofs([a, b, c])
        for n in (a, b, c):
            self.wait_for_count(n, 3, 0)
        self.assertRegex(self.metrics(a), r"(?m)^tarn_fleet_nodes 3$")
        self.assertRegex(self.metrics(a), r"(?m)^tarn_fleet_nodes_behind 0$")
        wire.silence()
        a.purge(wait="log", url=URL)
        for n in (a, b):
            self.wait_for_count(n, 3, 1)
        self.assertIn("tarn_fleet_nodes_behind 1\n", self.metrics(b))
        self.assertIn("c: lags", self.ctl(b, "fleet", status=REFUSED)[1])
        wire.mend()
        for n in (a, b, c):
            self.wait_for_count(n, 3, 0)

    def test_a_node_that_does_not_know_counts_no_nodes(self):
        wire = Wire(self.engine.port)
        self.addCleanup(wire.close)
        a = self.node("a", max_blind="5s")
        b = self.node("b", max_blind="5s", port=wire.port)
        wait_for_proofs([a, b])
        b.pause()
        a.purge(wait="log", url=URL)
        self.wait_for_count(a, 2, 1)
        self.wait_for_count(a, 1, 0)  # its lease has run out
        b.resume()
        for n in (a, b):
            self.wait_for_count(n, 2, 0)
        wire.cut()
        self.wait_for_count(b, 0, 0)
        wire.mend()
        self.wait_for_count(b, 2, 0)
        self.engine.kill()
        for n in (a, b):
            self.wait_for_count(n, 0, 0)

    # ---- purges and bans ----

    def test_each_way_to_purge_waits_for_all(self):
        nodes = self.nodes("ab", policy=True)
        proof = r"(?m)^every node has applied it: 2 of them, the last after \d+\.\d ms$"
        for words in (("purge", URL, "--wait", "all"), ("purge", "--wait=all", "--soft", URL),
                      ("purge", "--all", "--wait", "all"), ("purge-tag", "--wait", "all", "--timeout", "5s", "all"),
                      ("ban", "--wait", "all", "obj.status == 200"), ("ban", "obj.status", "==", "200", "--wait=all")):
            with self.subTest(words=words):
                self.store(nodes)
                version = self.origin.change("/v/x")
                self.assertRegex(self.ctl(nodes[0], *words)[0], proof)
                for n in nodes:
                    self.assertEqual(n.get("/v/x").version, version)
        self.assertRegex(self.ctl(nodes[0], "purge", "--wait", "log", URL)[0], r"(?m)^it is in the fleet's log: \d+-\d+\.[0-9a-f]{8}$")
        self.assertEqual(json.loads(self.ctl(nodes[0], "--json", "purge", URL, "--wait", "all")[0])["proof"], "all")

    def test_what_is_unproven_names_the_node_and_has_a_status_of_its_own(self):
        a, b = self.nodes("ab", max_blind="10s", fleet=", wait: 200ms")
        b.pause()
        for words in (("purge", URL, "--wait", "all", "--timeout", "200ms"), ("purge", URL, "--wait", "all"),
                      ("purge-tag", "x", "--wait", "all", "--timeout", "0.2s"),
                      ("ban", "obj.status == 404", "--wait", "all", "--timeout", "200ms")):
            with self.subTest(words=words):
                out, err = self.ctl(a, *words, status=UNPROVEN)
                self.assertTrue(out)
                self.assertRegex(err, r"^tarnctl: unproven: not every node has applied it in that time\n    node b has not\n"
                                      r"    later: tarnctl fleet proof \d+-\d+\.[0-9a-f]{8}\n$")
        out, err = self.ctl(a, "--json", "purge", URL, "--wait", "all", status=UNPROVEN)
        self.assertEqual(json.loads(out)["proof"], "none")
        self.assertIn("node b has not", err)
        self.ctl(a, "purge", URL, "--wait", "log")
        self.ctl(a, "purge", URL)

    def token(self, node, *words):
        return json.loads(self.ctl(node, "--json", *words)[0])["token"]

    def test_any_node_proves_a_token_later(self):
        a, b, c = self.nodes("abc", max_blind="10s", policy=True)
        for words in (("purge", URL), ("purge-tag", "all"), ("ban", "obj.status == 200")):
            token = self.token(a, *words)
            self.assertRegex(token, r"^\d+-\d+\.[0-9a-f]{8}$")
            for n in (a, b, c):
                self.assertRegex(self.ctl(n, "fleet", "proof", token)[0], r"^every node has applied it: 3 of them, the last after \d+\.\d ms\n$")
        answer = b.admin(f"/v1/fleet/proofs/{token}")
        self.assertEqual((answer["proof"], answer["token"]), ("all", token))
        c.pause()
        token = self.token(a, "purge", URL)
        out, err = self.ctl(b, "fleet", "proof", token, "--timeout", "300ms", status=UNPROVEN)
        self.assertEqual((out, err), ("", "tarnctl: unproven: not every node has applied it in that time\n    node c has not\n"
                                          f"    later: tarnctl fleet proof {token}\n"))
        before = a.admin("/v1/counters")["fleet.unproven"]
        self.ctl(a, "fleet", "proof", token, "--timeout", "100ms", status=UNPROVEN)
        self.assertEqual(a.admin("/v1/counters")["fleet.unproven"], before)  # only purges count
        c.resume()
        self.ctl(b, "fleet", "proof", token)
        ahead = f"9{token}"
        self.assertIn("the log has nothing there", self.ctl(b, "fleet", "proof", ahead, "--timeout", "100ms", status=UNPROVEN)[1])
        self.assertRegex(self.ctl(a, "purge", URL)[0], r"(?m)^it is in the fleet's log: \d+-\d+\.[0-9a-f]{8}$")

    def test_a_token_of_another_engine_is_no_proof(self):
        engine = self.engine
        a, b = self.nodes("ab", max_blind="2s")
        token = self.token(a, "purge", URL)
        self.ctl(b, "fleet", "proof", token)
        number, of = token.split(".")
        other = f"{number}.{int(of, 16) ^ 1:08x}"
        self.assertIn("of another engine", self.ctl(b, "fleet", "proof", other, status=REFUSED)[1])
        blog = self.node("x", fleet_name="blog")  # in the same engine
        tarnd.wait_until(blog.is_in_step, "it is in step", 10)
        self.assertIn("of another fleet", self.ctl(blog, "fleet", "proof", token, status=REFUSED)[1])
        engine.kill()
        tarnd.wait_until(lambda: b.fleet()["why"], "it is known", 10)
        self.assertIn("cannot be reached", self.ctl(b, "fleet", "proof", token, status=REFUSED)[1])
        engine.start()
        wait_for_proofs([a, b])
        self.assertRegex(self.ctl(b, "fleet", "proof", token, status=REFUSED)[1], "of another engine.*\n    hint: purge again")

    # ---- purges and bans by a policy ----

    def by_policy(self, node, method, *lines, status=200):
        a = node.ask("/v/x", *lines, method=method)
        self.assertEqual(a.status, status, a)
        return a.fields

    def test_what_a_policy_purges_has_a_token_that_any_node_proves(self):
        a, b, c = self.nodes("abc", policy=True, max_blind="10s")
        for method, lines in (("PURGE", ()), ("BAN", ()), ("TAG", ("tag: all",))):
            with self.subTest(method=method):
                self.store((a, b, c))
                version = self.origin.change("/v/x")
                fields = self.by_policy(b, method, *lines)
                self.assertRegex(fields["purge-token"], r"^\d+-\d+\.[0-9a-f]{8}$")
                self.assertEqual(fields["purge-proof"], "none")
                self.ctl(c, "fleet", "proof", fields["purge-token"])
                for n in (a, b, c):
                    self.assertEqual(n.get("/v/x").version, version)
        self.assertNotIn("purge-token", a.get("/v/x").fields)

    def test_what_a_policy_purges_can_wait_for_all(self):
        a, b, c = self.nodes("abc", policy=True, max_blind="10s")
        for method, lines in (("PURGE", ()), ("BAN", ()), ("TAG", ("tag: all",))):
            with self.subTest(method=method):
                self.store((a, b, c))
                version = self.origin.change("/v/x")
                fields = self.by_policy(b, method, "wait: 9s", *lines)
                self.assertEqual(fields["purge-proof"], "all")
                for n in (a, b, c):
                    self.assertEqual(n.get("/v/x").version, version)
        a.pause()
        c.pause()
        for method, lines in (("PURGE", ()), ("BAN", ()), ("TAG", ("tag: all",))):
            fields = self.by_policy(b, method, "wait: 300ms", *lines, status=202)
            self.assertEqual(fields["purge-proof"], 'none; missing="a, c"; why="not every node has applied it in that time"')
            self.assertIn("purge-token", fields)
        self.assertEqual(self.by_policy(b, "PURGE")["purge-proof"], "none")  # it does not wait for them
        self.by_policy(b, "NOTHING", "wait: 1s", status=501)

    def test_what_a_policy_purges_without_the_engine_counts_here_and_says_so(self):
        a = self.node("a", policy=True, max_blind="10s")
        wait_for_proofs([a])
        self.store((a,))
        self.engine.kill()
        tarnd.wait_until(lambda: a.fleet()["why"], "it is known", 10)
        version = self.origin.change("/v/x")
        fields = self.by_policy(a, "PURGE")
        self.assertNotIn("purge-token", fields)
        self.assertRegex(fields["purge-proof"], r'^none; why="[^"]+"$')
        self.assertEqual(a.get("/v/x").version, version)
        self.assertRegex(self.by_policy(a, "PURGE", "wait: 5s", status=503)["purge-proof"], r'^none; why="[^"]+"$')
        self.engine.start()
        wait_for_proofs([a])
        self.assertEqual(self.by_policy(a, "PURGE", "wait: 9s")["purge-proof"], "all")

    def test_an_engine_that_is_silent_delays_a_purge_for_no_longer_than_wait(self):
        wire = Wire(self.engine.port)
        self.addCleanup(wire.close)
        a = self.node("a", policy=True, max_blind="10s", port=wire.port, fleet=", wait: 300ms")
        wait_for_proofs([a])
        wire.silence()
        began = time.monotonic()
        fields = self.by_policy(a, "PURGE")
        self.assertLess(time.monotonic() - began, 3)
        self.assertEqual(fields["purge-proof"], 'none; why="the engine has not confirmed it"')

    def test_clients_that_leave_and_a_node_that_ends_do_not_wait(self):
        a, b = self.nodes("ab", policy=True, max_blind="10s")
        b.pause()
        socks = []
        for _ in range(20):
            s = socket.create_connection(("127.0.0.1", a.port))
            s.sendall(b"PURGE /v/x HTTP/1.1\r\nHost: tarn.test\r\nWait: 500s\r\n\r\n")
            socks.append(s)
        tarnd.wait_until(lambda: a.admin("/v1/counters")["fleet.sent"] >= 20, "they are in the log", 10)
        for s in socks[:10]:
            s.close()
        tarnd.wait_until(lambda: a.admin("/v1/counters")["fleet.unproven"] >= 10, "those that left wait no more", 10)
        self.assertEqual(a.admin("/v1/counters")["fleet.unproven"], 10)
        began = time.monotonic()
        a.process.send_signal(signal.SIGTERM)
        time.sleep(0.2)
        a.process.send_signal(signal.SIGTERM)  # at once
        self.assertEqual(a.process.wait(20), 0)
        self.assertLess(time.monotonic() - began, 15)
        for s in socks[10:]:
            s.close()

    def test_a_node_that_leaves_says_so_to_those_that_wait(self):
        a, b = self.nodes("ab", policy=True, max_blind="10s")
        b.pause()
        with concurrent.futures.ThreadPoolExecutor() as pool:
            policy = pool.submit(a.ask, "/v/x", "wait: 60s", method="PURGE")
            ctl = pool.submit(subprocess.run, [self.programs[1], "--admin", f"unix:{a.dir}/admin.sock", "purge", URL, "--wait", "all",
                                               "--timeout", "60s"], capture_output=True, text=True, check=False)
            # A PURGE is two, as a page has two schemes.
            tarnd.wait_until(lambda: a.admin("/v1/counters")["fleet.sent"] >= 3, "they are in the log", 10)
            began = time.monotonic()
            a.process.send_signal(signal.SIGTERM)
            answer = policy.result(20)
            self.assertEqual((answer.status, answer.fields["purge-proof"]), (202, 'none; missing="b"; why="this node is leaving its fleet"'))
            self.assertIn("this node is leaving its fleet", ctl.result(20).stderr)
            self.assertEqual(ctl.result().returncode, UNPROVEN)
        self.assertEqual(a.process.wait(20), 0)
        self.assertLess(time.monotonic() - began, 15)

    def test_what_the_engine_has_not_got_when_a_node_ends_is_said_to_be_lost(self):
        wire = Wire(self.engine.port)
        self.addCleanup(wire.close)
        with tempfile.TemporaryFile() as log:
            a = self.node("a", policy=True, max_blind="2s", port=wire.port, stderr=log)
            tarnd.wait_until(a.is_in_step, "it is in step", 10)
            wire.cut()
            tarnd.wait_until(lambda: a.fleet()["why"], "it is known", 10)
            for _ in range(3):
                self.by_policy(a, "BAN")
            a.process.send_signal(signal.SIGTERM)
            self.assertEqual(a.process.wait(40), 0)
            log.seek(0)
            self.assertIn("3 invalidations of this node are lost to the others", log.read().decode())

    def test_what_is_no_token_is_refused(self):
        a = self.node("a")
        for token in ("x", "1-1", "1-1.", "1-1.0123456", "1-1.012345678", "1-1.0123456g", "0-0.01234567", ".01234567"):
            self.assertIn("is not a token", self.ctl(a, "fleet", "proof", token, status=REFUSED)[1], token)

    def test_local_is_this_node_alone_and_works_without_the_engine(self):
        a, b = self.nodes("ab", max_blind="10s")
        self.store((a, b))
        self.assertEqual(self.ctl(a, "purge", URL, "--local")[0], "1 response was removed\n")
        self.assertIn("hit", b.get("/v/x").fields["cache-status"])
        self.engine.kill()
        tarnd.wait_until(lambda: a.fleet()["why"], "it is known", 10)
        err = self.ctl(a, "purge", URL, status=REFUSED)[1]
        self.assertRegex(err, r"^tarnctl: the fleet's engine cannot be reached: .*; nothing was done\n    hint: .*local")
        self.assertEqual(self.ctl(a, "ban", "--local", "obj.status == 200")[0],
                         "older objects that match are not used any more\n")
        self.assertIn("local", self.ctl(a, "purge", URL, "--local", "--wait", "all", status=REFUSED)[1])

    def test_mistakes_say_what_is_right(self):
        a = self.node("a")
        for words, said in ((("purge", URL, "--wait"), "all, for every node"),
                            (("purge", URL, "--wait", "both"), "all, for every node"),
                            (("purge", "--wait", URL), "tarnctl purge [--soft] URL"),
                            (("purge", "--wait", URL, URL), "all, for every node"),
                            (("ban", "--wait=some", "obj.status == 1"), "all, for every node"),
                            (("purge", URL, "--wait", "all", "--timeout", "5"), "a time with its unit"),
                            (("purge", URL, "--wait", "all", "--timeout", "11m"), "from 1ms to 10m"),
                            (("purge", URL, "--timeout", "-1s"), "a time with its unit"),
                            (("stat", "--local"), "tarnctl stat has no --local"),
                            (("log", "--wait=all"), "tarnctl log has no --wait all|log"),
                            (("ban", "list", "--wait", "all"), "tarnctl ban list has no --wait"),
                            (("purge", URL, "--wait", "all", "--timeout", "0s"), "from 1ms to 10m"),
                            (("fleet", "proof", ""), "token is empty"),
                            (("fleet", "proof"), "fleet proof [--timeout T] TOKEN"),
                            (("fleet", "proof", "1-1.01234567", "--timeout", "5"), "a time with its unit"),
                            (("status", "--timeout", "1s"), "tarnctl status has no --timeout")):
            with self.subTest(words=words):
                self.assertIn(said, self.ctl(a, *words, status=USAGE)[1])


if __name__ == "__main__":
    main(__file__, FleetCtl, "TARND", "TARNCTL")
