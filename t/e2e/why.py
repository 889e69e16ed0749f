#!/usr/bin/env python3
"""why.py TARND TARNCTL [TEST...] -- `tarnctl why`: is what it says what then happens?

Each case puts a URL into a state, asks why, and, where it can be seen, sends the request to see
that the answer was right.
"""
import http.client
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.parse

sys.dont_write_bytecode = True
import tarnd
from origin import Handler, Origin

DONE, REFUSED = 0, 1
HOST = "tarn.test"
CONFIG = """
workers: 1
admin: {{ address: "unix:{{dir}}/admin.sock" }}
storage: {{ main: {{ size: 32MiB }} }}
negative_cache: {{ entries: 1000, ttl: 30s }}
backends: {{ o: {{ address: "{origin}" }} }}
"""
DIRECTORS = """
directors:
  hash: { type: hash, backends: [o, p] }
  turn: { backends: [o, {name: p, weight: 2}] }
  stay: { type: fallback, sticky: on, backends: [o, p] }
routes:
  - { path: /hash, backend: hash }
  - { path: /stay, backend: stay }
  - { path: /socket, backend: turn, pipe: on }
  - { backend: turn }
limits:
  - { path: /elsewhere, rate: 1, per: 1s }
  - { path: /limited, rate: 3, per: 2h, burst: 5 }
"""
POLICY = """vcl 4.1;
import tarn;
sub vcl_recv {
    if (req.http.X-Lang ~ "^de") {
        set req.http.X-Tongue = "de";
    }
    if (req.url ~ "^/again" && req.restarts == 0) {
        set req.http.X-Tongue = "second";
        return (restart);
    }
    if (req.url ~ "^/passed") {
        return (pass);
    }
    if (req.url == "/refused") {
        return (synth(403, "Not here"));
    }
    if (req.url == "/purged-by-it") {
        return (purge);
    }
    if (req.url == "/banning") {
        ban("obj.status == 200");
        set req.http.X-Purged = tarn.purge_tag("kept");
    }
    if (req.http.Cookie) {
        return (pass);
    }
    if (req.url == "/labelled") {
        return (vcl(tea));
    }
}
sub vcl_hash {
    hash_data(regsub(req.url, "[?].*", ""));
    if (req.http.X-Tongue) {
        hash_data(req.http.X-Tongue);
    }
    return (lookup);
}
sub vcl_hit {
    if (req.url == "/hit-refused") {
        return (synth(404));
    }
}
sub vcl_backend_response {
    if (bereq.url == "/short") {
        set beresp.ttl = 7s;
    }
    if (bereq.url == "/uncacheable") {
        set beresp.uncacheable = true;
        set beresp.ttl = 50s;
    }
    if (bereq.url == "/hit-for-pass") {
        return (pass(40s));
    }
}
"""
program = ctl = origin = None


class Says(Handler):
    """/NAME?FIELD=VALUE&...: those fields; status=N, size=N, cut=1, slow=1 are for the test."""

    def do_GET(self):
        with self.server.lock:
            self.server.requests[self.path] += 1
        asked = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(self.path).query))
        size = int(asked.pop("size", 10))
        status = int(asked.pop("status", 200))
        cut, slow = asked.pop("cut", None), asked.pop("slow", None)
        if slow:
            self.server.gate.wait(tarnd.PATIENCE_S)
        self.send_response(status)
        self.send_header("Content-Length", str(size))
        for name, value in asked.items():
            self.send_header(name, value)
        self.end_headers()
        body = b"x" * size
        self.wfile.write(body[:size // 2] if cut else body)
        self.close_connection = bool(cut)

    def do_POST(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()


def target(name, **fields):
    query = urllib.parse.urlencode({k.replace("_", "-"): v for k, v in fields.items()})
    return f"/{name}?{query}" if query else f"/{name}"


class Why(unittest.TestCase):
    def setUp(self):
        origin.gate.clear()
        self.addCleanup(origin.gate.set)
        config = CONFIG.format(origin=origin.address)
        self.tarnd = tarnd.Tarnd(program, config, stderr=subprocess.DEVNULL)
        self.addCleanup(lambda: self.assertEqual(self.tarnd.close(), 0))

    def api(self, method, path, body=None):
        conn = http.client.HTTPConnection("tarn")
        conn.sock = socket.socket(socket.AF_UNIX)
        conn.sock.settimeout(tarnd.PATIENCE_S)
        conn.sock.connect(f"{self.tarnd.dir}/admin.sock")
        conn.request(method, path, body)
        answer = conn.getresponse()
        text = answer.read()
        conn.close()
        return answer.status, json.loads(text)

    def ctl(self, *args, status=DONE):
        done = subprocess.run([ctl, "--admin", f"unix:{self.tarnd.dir}/admin.sock", *args],
                              capture_output=True, text=True, timeout=tarnd.PATIENCE_S)
        self.assertEqual(done.returncode, status, f"{args}: {done.stdout} {done.stderr}")
        return done.stdout if status == DONE else done.stderr

    def why(self, path, *fields):
        said = json.loads(self.ctl("--json", "why", f"http://{HOST}{path}", *fields))
        said["words"] = " ".join(said["text"])
        return said

    def fetch(self, path, *lines, status=200, **more):
        answer = self.tarnd.ask(path, *lines, **more)
        self.assertEqual(answer.status, status, answer.data[:200])
        return answer

    def asked(self, path):
        with origin.lock:
            return origin.requests[path]


class WithoutPolicy(Why):
    def test_what_is_fresh_is_a_hit_and_says_by_which_rule(self):
        for rule, words, fields in (
                ("max-age of Cache-Control", "s", {"Cache_Control": "max-age=600"}),
                ("s-maxage of Cache-Control", "s", {"Cache_Control": "s-maxage=600, max-age=1"}),
                ("max-age or s-maxage of CDN-Cache-Control", "s",
                 {"CDN_Cache_Control": "max-age=600", "Cache_Control": "no-store"}),
                ("heuristic_fraction of the time since Last-Modified", "s",
                 {"Last_Modified": "Thu, 01 Jan 2015 00:00:00 GMT"})):
            path = target("fresh", **fields)
            self.fetch(path)
            said = self.why(path)
            self.assertEqual(said["now"], "hit", said)
            self.assertEqual(said["stored"][0]["ttl_from"], rule)
            self.assertIn(f"by {rule}", said["words"])
            self.assertTrue(said["stored"][0]["for_this_request"])
            self.assertEqual(said["key"], f"http://{HOST}{path}")
            self.assertEqual(self.asked(path), 1)

    def test_a_response_with_set_cookie_is_not_stored_and_says_which_parameter(self):
        path = target("cookie", Cache_Control="public, max-age=600", Set_Cookie="a=b")
        self.fetch(path)
        said = self.why(path)
        self.assertEqual(said["now"], "hit-for-miss")
        self.assertIn("it has Set-Cookie (store_set_cookie", said["words"])
        self.assertIn("it has Set-Cookie", said["stored"][0]["because"])
        self.assertEqual(self.api("PUT", "/v1/parameters/store_set_cookie",
                                  '{"value": "always"}')[0], 200)
        self.fetch(path)
        self.assertEqual(self.why(path)["now"], "hit")

    def test_what_nobody_asked_for_is_a_miss(self):
        said = self.why("/never")
        self.assertEqual(said["now"], "miss")
        self.assertEqual(said["stored"], [])
        self.assertNotIn("last", said)
        self.assertIn("nothing is stored under its key", said["words"])
        self.assertIn(f"Its backend is o, at {origin.address}", said["words"])

    def test_what_was_purged_says_so(self):
        path = target("purged", Cache_Control="max-age=600")
        self.fetch(path)
        self.ctl("purge", f"http://{HOST}{path}")
        said = self.why(path)
        self.assertEqual((said["now"], said["last"]["what"]), ("miss", "purged"))
        self.assertIn("it was purged", said["words"])

    def test_what_was_purged_by_its_tag_says_so(self):
        path = target("tagged", Cache_Control="max-age=600", Surrogate_Key="shoes hats")
        self.fetch(path)
        self.ctl("purge-tag", "hats")
        said = self.why(path)
        self.assertEqual((said["now"], said["last"]["what"]), ("miss", "purged-by-tag"))
        self.assertIn("by one of its tags", said["words"])

    def test_what_was_purged_softly_is_stale(self):
        path = target("softly", Cache_Control="max-age=600, stale-while-revalidate=600")
        self.fetch(path)
        self.ctl("purge", "--soft", f"http://{HOST}{path}")
        said = self.why(path)
        self.assertEqual(said["now"], "stale")
        self.assertEqual(said["stored"][0]["ttl_from"], "a soft purge")
        self.assertIn("answered with a stale response (grace)", said["words"])

    def test_what_a_ban_matched_says_so(self):
        path = target("banned", Cache_Control="max-age=600")
        self.fetch(path)
        self.ctl("ban", "obj.status == 200")
        said = self.why(path)
        self.assertEqual((said["now"], said["last"]["what"]), ("miss", "banned"))

    def test_what_a_post_changed_says_so(self):
        path = target("changed", Cache_Control="max-age=600")
        self.fetch(path)
        self.fetch(path, "Content-Length: 0", method="POST")
        said = self.why(path)
        self.assertEqual((said["now"], said["last"]["what"]), ("miss", "invalidated"))

    def test_what_was_evicted_says_so(self):
        first = target("old", Cache_Control="max-age=600")
        self.fetch(first)
        evicted = []
        for i in range(60):  # of 1 MiB each, through a store of 32
            self.fetch(target(f"big{i}", size=1 << 20, Cache_Control="max-age=600"))
        for i in range(60):
            said = self.why(target(f"big{i}", size=1 << 20, Cache_Control="max-age=600"))
            if said["now"] == "miss":
                evicted.append(said.get("last", {}).get("what"))
        self.assertIn("evicted", evicted)
        self.assertLessEqual(set(evicted), {"evicted", None})

    def test_what_is_stale_and_may_be_used_is_refreshed_behind_it(self):
        path = target("grace", Cache_Control="max-age=1, stale-while-revalidate=600")
        self.fetch(path)
        time.sleep(1.2)
        said = self.why(path)
        self.assertEqual(said["now"], "stale")
        self.assertIn("a background fetch starts", said["words"])
        self.assertEqual(self.asked(path), 1)  # and that did not happen

    def test_what_is_stale_and_can_be_validated_is_asked_about(self):
        path = target("etag", ETag='"a"', Cache_Control="max-age=1")
        self.fetch(path)
        time.sleep(1.2)
        said = self.why(path)
        self.assertEqual(said["now"], "miss")
        self.assertIn("the stored response is stale", said["words"])
        self.assertIn("The fetch is conditional (ETag or Last-Modified)", said["words"])
        self.assertFalse(said["stored"][0]["fresh"])

    def test_what_has_no_freshness_is_asked_about_each_time(self):
        path = target("no-cache", ETag='"a"', Cache_Control="no-cache")
        self.fetch(path)
        said = self.why(path)
        self.assertEqual(said["now"], "miss")
        self.assertIn("each use is validated", said["words"])

    def test_what_must_not_be_stored_names_the_directive(self):
        for directive in ("no-store", "private"):
            path = target(directive, Cache_Control=directive)
            self.fetch(path)
            said = self.why(path)
            self.assertEqual(said["now"], "hit-for-miss", said)
            self.assertIn(f"Cache-Control says {directive}", said["words"])
            self.assertEqual(said["last"]["what"], directive)
            self.fetch(path)
            self.assertEqual(self.asked(path), 2)

    def test_what_says_nothing_of_freshness_is_told(self):
        path = target("nothing-said")
        self.fetch(path)
        self.assertIn("it has no freshness information", self.why(path)["words"])

    def test_what_is_too_large_is_told(self):
        path = target("large", size=8 << 20, Cache_Control="max-age=600")
        self.fetch(path)
        said = self.why(path)
        self.assertEqual((said["now"], said["last"]["what"]), ("miss", "too-large"))

    def test_what_was_cut_short_is_told(self):
        path = target("cut", size=200000, cut=1, Cache_Control="max-age=600")
        self.tarnd.ask(path)
        said = self.why(path)
        self.assertEqual((said["now"], said["last"]["what"]), ("miss", "cut"))

    def test_another_variant_is_told_from_this_ones(self):
        path = target("varies", Vary="X-Kind", Cache_Control="max-age=600")
        self.fetch(path, "X-Kind: a")
        said = self.why(path)
        self.assertEqual(said["now"], "miss")
        self.assertIn("other request fields (Vary)", said["words"])
        self.assertEqual(said["stored"][0]["vary"], "X-Kind")
        self.assertFalse(said["stored"][0]["for_this_request"])
        self.assertEqual((None, False), (said["stored"][0]["coding"], said["stored"][0]["any_coding"]))
        self.assertEqual(self.why(path, "X-Kind: a")["now"], "hit")

    def test_what_the_request_asks_for_counts(self):
        path = target("asked", Cache_Control="max-age=600")
        self.fetch(path)
        said = self.why(path, "Cache-Control: no-cache")
        self.assertEqual(said["now"], "miss")
        self.assertIn("because the request demands it", said["words"])
        said = self.why(path, 'If-Match: "a"')
        self.assertEqual(said["now"], "pass")
        self.assertIn("the origin must evaluate its conditions", said["words"])
        self.assertEqual(self.why(path, "Cache-Control: no-store")["now"], "pass")

    def test_what_is_known_not_to_be_there_is_told(self):
        path = target("absent", status=404)
        self.fetch(path, status=404)
        said = self.why(path)
        self.assertEqual((said["now"], said["last"]["what"]), ("absent", "absent"))
        self.assertIn("answered with 404 from the negative cache", said["words"])
        self.fetch(path, status=404)
        self.assertEqual(self.asked(path), 1)

    def test_a_fetch_under_way_is_waited_for(self):
        path = target("slow", slow=1, Cache_Control="max-age=600")
        t = threading.Thread(target=self.fetch, args=(path,))
        t.start()
        deadline = time.monotonic() + tarnd.PATIENCE_S
        while self.asked(path) == 0:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)
        said = self.why(path)
        origin.gate.set()
        t.join()
        self.assertEqual(said["now"], "wait")
        self.assertEqual(said["stored"][0]["state"], "being fetched")
        self.assertEqual(self.why(path)["now"], "hit")

    def test_a_sick_backend_is_told(self):
        self.ctl("backend", "set-health", "o", "sick")
        self.assertIn("is sick", self.why("/x")["words"])

    def test_asking_why_counts_nothing(self):
        path = target("counted", Cache_Control="max-age=600")
        self.fetch(path)
        before = self.api("GET", "/v1/counters")[1]
        for _ in range(5):
            self.assertEqual(self.why(path)["now"], "hit")
        after = self.api("GET", "/v1/counters")[1]
        for name in ("req.total", "req.hit", "cache.inserts", "fetch.total"):
            self.assertEqual(before.get(name), after.get(name), name)

    def test_it_is_read_by_people_too(self):
        path = target("words", Cache_Control="max-age=600")
        self.fetch(path)
        text = self.ctl("why", f"http://{HOST}{path}")
        self.assertIn("A request for it now is a hit", text)
        self.assertIn("max-age of Cache-Control", text)
        self.assertIn(f"key: http://{HOST}{path}", text)
        # A path alone is on the address that clients know.
        said = json.loads(self.ctl("--json", "why", "/x"))
        self.assertEqual(said["key"], f"http://127.0.0.1:{self.tarnd.port}/x")

    def test_mistakes_are_told(self):
        self.assertIn("must be absolute", self.ctl("why", "ftp://x/", status=REFUSED))
        self.assertIn("is no field", self.ctl("why", "/x", "Nonsense", status=REFUSED))
        self.assertIn("not valid", self.ctl("why", "/x", "Bad Name: x", status=REFUSED))
        for query in ("", "?url=", "?url=%zz", "?what=x", "?url=http://a/&header="):
            status, said = self.api("GET", "/v1/why" + query)
            self.assertEqual(status, 400, query)
            self.assertIn("error", said)


class WithPolicy(Why):
    def setUp(self):
        super().setUp()
        status, said = self.api("PUT", "/v1/policies/other",
                                'vcl 4.1; sub vcl_recv { return (synth(418, "Teapot")); }')
        self.assertEqual(status, 201, said)
        self.assertEqual(self.api("PUT", "/v1/labels/tea", '{"name": "other"}')[0], 200)
        status, said = self.api("PUT", "/v1/policies/site", POLICY)
        self.assertEqual(status, 201, said)
        self.assertEqual(self.api("PUT", "/v1/policies/active", '{"name": "site"}')[0], 200)

    def line(self, text):
        return str(1 + POLICY.split("\n").index(text))

    def decided(self, said, sub):
        return [(step["return"], step["file"], step["line"]) for step in said["asked"]
                if step["sub"] == sub]

    def test_a_pass_names_its_line(self):
        said = self.why("/passed/x")
        self.assertEqual(said["now"], "pass")
        [(act, file, line)] = self.decided(said, "vcl_recv")
        self.assertEqual((act, file), ("pass", "site"))
        self.assertIn(line.split("-")[-1], (self.line("        return (pass);"),))
        self.assertIn("vcl_recv answers return(pass), in site, line", said["words"])
        self.assertEqual(self.why("/x", "Cookie: a=b")["now"], "pass")
        self.assertEqual(self.why("/x")["now"], "miss")

    def test_an_answer_of_its_own_is_told(self):
        said = self.why("/refused")
        self.assertEqual(said["now"], "synth")
        self.assertIn("403 Not here", said["words"])
        self.fetch("/refused", status=403)

    def test_a_key_of_its_own_is_used(self):
        self.fetch(target("one", Cache_Control="max-age=600"))
        said = self.why("/one?other=query")
        self.assertEqual(said["now"], "hit")
        self.assertIn("/one", said["key"])
        self.assertNotIn("query", said["key"])
        self.assertEqual(self.decided(said, "vcl_hash")[0][0], "lookup")

    def test_a_purge_by_url_is_for_the_key_of_such_a_request(self):
        path, asked = target("tongues", Cache_Control="max-age=600"), "X-Tongue: de"
        self.fetch(path)
        self.fetch(path, asked)
        self.assertIn("1 response was removed", self.ctl("purge", f"http://{HOST}{path}"))
        self.assertEqual((self.why(path)["now"], self.why(path, asked)["now"]), ("miss", "hit"))
        self.assertIn("1 response was removed", self.ctl("purge", f"http://{HOST}{path}", asked))
        self.assertEqual(self.why(path, asked)["now"], "miss")
        self.assertIn("is no field", self.ctl("purge", f"http://{HOST}{path}", "Nonsense", status=REFUSED))
        for body in ('{"url": "/x", "headers": "X: y"}', '{"tag": "x", "headers": ["X: y"]}',
                     '{"url": "/x", "headers": [1]}', '{"url": "/x", "headers": ["Bad Name: y"]}'):
            self.assertEqual(self.api("POST", "/v1/purge", body)[0], 400, body)

    def test_a_purge_by_url_goes_through_vcl_recv_as_why_does(self):
        path = target("normalised", Cache_Control="max-age=600")
        self.fetch(path, "X-Lang: de-AT")
        self.assertEqual(self.why(path, "X-Lang: de-CH")["now"], "hit")
        self.assertEqual(self.why(path)["now"], "miss")
        gone = self.ctl("purge", f"http://{HOST}{path}")
        self.assertIn("0 responses were removed", gone)
        self.assertIn("tarnctl why", gone)
        self.assertIn("1 response was removed", self.ctl("purge", f"http://{HOST}{path}", "X-Lang: de-CH"))
        self.assertEqual(self.why(path, "X-Lang: de-AT")["now"], "miss")
        again = target("again", Cache_Control="max-age=600")  # behind a restart
        self.fetch(again)
        self.assertEqual(self.why(again)["now"], "hit")
        self.assertIn("1 response was removed", self.ctl("purge", f"http://{HOST}{again}"))
        # what vcl_recv answers to such a request does not matter to what is stored under its key
        self.fetch("/hit-for-pass-2?Cache-Control=max-age%3D600")
        self.assertEqual(self.why("/hit-for-pass-2", "Cookie: a=b")["now"], "pass")
        self.assertIn("1 response was removed",
                      self.ctl("purge", f"http://{HOST}/hit-for-pass-2", "Cookie: a=b"))

    def test_a_key_is_printed_whole(self):
        path = "/" + "k" * 5000
        self.assertIn(path, self.why(path)["key"])
        self.assertIn(path, self.ctl("why", f"http://{HOST}{path}"))

    def test_a_ttl_of_its_own_is_told(self):
        self.fetch("/short")
        said = self.why("/short")
        self.assertEqual(said["stored"][0]["ttl_from"], "the policy: it set beresp.ttl")
        self.assertEqual(said["stored"][0]["ttl_s"], 7)

    def test_what_it_keeps_out_is_told(self):
        self.fetch("/uncacheable")
        said = self.why("/uncacheable")
        self.assertEqual(said["now"], "hit-for-miss")
        self.assertIn("the policy decided so", said["words"])
        self.fetch("/hit-for-pass")
        said = self.why("/hit-for-pass")
        self.assertEqual(said["now"], "hit-for-pass")
        self.assertEqual(said["stored"][0]["state"], "hit-for-pass")

    def test_what_the_builtin_policy_keeps_out_is_not_the_policys_word(self):
        for n, (fields, words) in enumerate((
                ({"Set_Cookie": "a=b", "Cache_Control": "max-age=600"}, "it has Set-Cookie"),
                ({"Cache_Control": "no-store"}, "Cache-Control says no-store"),
                ({"Cache_Control": "private"}, "Cache-Control says private"),
                ({"Cache_Control": "max-age=600", "Vary": "*"}, "Vary: * matches no other request"),
                ({"Cache_Control": "max-age=0"}, "it was stale when it arrived"))):
            path = target(f"kept-out-{n}", **fields)
            self.fetch(path)
            said = self.why(path)
            self.assertEqual(said["now"], "hit-for-miss", fields)
            self.assertIn(words, said["words"])

    def test_what_it_says_of_a_hit_is_told(self):
        self.fetch("/hit-refused?Cache-Control=max-age%3D600")
        self.fetch("/hit-refused", status=404)
        said = self.why("/hit-refused")
        self.assertEqual(said["now"], "synth")
        self.assertEqual(self.decided(said, "vcl_hit")[0][0], "synth")

    def test_what_it_would_change_is_not_changed(self):
        self.fetch(target("kept", Cache_Control="max-age=600", Surrogate_Key="kept"))
        self.why("/banning")
        self.assertEqual(self.why("/kept")["now"], "hit")
        bans = self.api("GET", "/v1/bans")[1]["bans"]
        self.assertEqual([b for b in bans if "obj.status" in json.dumps(b)], [])
        said = self.why("/purged-by-it")
        self.assertEqual(said["now"], "purge")

    def test_another_policys_label_is_followed(self):
        said = self.why("/labelled")
        self.assertEqual(said["now"], "synth")
        self.assertIn("the label tea", said["words"])
        self.assertIn("418 Teapot", said["words"])


class WithDirectors(Why):
    """Two origins, of which each counts its requests."""

    def setUp(self):
        origin.gate.clear()
        self.addCleanup(origin.gate.set)
        self.origins = {"o": origin, "p": Origin(Says)}
        config = CONFIG.format(origin=origin.address).rstrip().removesuffix("}")
        config += f", p: {{ address: '{self.origins['p'].address}' }} }}\n" + DIRECTORS
        self.tarnd = tarnd.Tarnd(program, config, stderr=subprocess.DEVNULL)
        self.addCleanup(lambda: self.assertEqual(self.tarnd.close(), 0))

    def named(self, path):
        [name] = [n for n in self.origins
                  if f"backend is {n}, by the director" in self.why(path)["words"]]
        return name

    def test_an_upgrade_on_a_route_with_pipe_is_a_tunnel(self):
        upgrade = ("Connection: keep-alive, Upgrade", "Upgrade: websocket")
        said = self.why("/socket/chat", *upgrade)
        self.assertEqual(said["now"], "pipe")
        self.assertIn("pipe: on", said["words"])
        self.assertEqual(self.why("/socket/chat")["now"], "miss")
        self.assertNotEqual(self.why("/stay", *upgrade)["now"], "pipe")

    def test_it_names_whom_a_director_will_choose(self):
        for kind in ("hash", "turn", "stay"):
            for i in range(8):
                path = f"/{kind}/{self.id()}/{i}"
                name = self.named(path)
                self.assertEqual(self.named(path), name, "asking takes nobody's turn")
                self.fetch(path)
                self.assertEqual(self.origins[name].requests[path], 1, path)

    def test_it_names_the_route_that_decides(self):
        self.assertIn("Number 1 of routes chooses its backend, path /hash.",
                      self.why("/hash/1")["words"])
        self.assertIn("Number 4 of routes chooses its backend.", self.why("/x")["words"])

    def test_a_limit_is_told(self):
        said = self.why("/limited/x")["words"]
        self.assertIn("A client may send 3 requests in 2 h, 5 at once (number 2 of limits)", said)
        self.assertNotRegex(self.why("/x")["words"], r"\b429\b")  # a port may have the digits


class WithActionsOfRoutes(Why):
    """Routes that change what a request is, and what becomes of its response."""

    def setUp(self):
        super().setUp()
        self.tarnd.close()
        config = CONFIG.format(origin=origin.address) + """
routes:
  - { path: /admin, pass: on }
  - { path: /old, redirect: { to: /new } }
  - { path: /page, ttl: 5m, strip_query: [utm_*], strip_cookies: true,
      response_headers: { set: { X-A: b } } }
"""
        self.tarnd = tarnd.Tarnd(program, config, stderr=subprocess.DEVNULL)

    def test_the_actions_of_a_route_are_told(self):
        said = self.why("/page?utm_x=1")
        for words in ("Number 3 of routes has actions for it, path /page.",
                      "It removes query parameters: utm_*.",
                      "It removes cookies from requests and responses: all.",
                      "It removes 0, sets 1 and adds 0 fields of the response.",
                      "Its ttl replaces the freshness of responses: 5 min."):
            self.assertIn(words, said["words"])
        self.assertEqual(said["key"], f"http://{HOST}/page")

    def test_pass_and_redirect_of_a_route_are_told(self):
        said = self.why("/admin")
        self.assertEqual(said["now"], "pass")
        self.assertIn("its route has `pass: on`", said["words"])
        said = self.why("/old/1")
        self.assertEqual(said["now"], "redirect")
        self.assertIn("answered with a redirect: 301 to /new.", said["words"])
        self.assertNotIn("key:", self.ctl("why", f"http://{HOST}/old/1"))

    def test_a_path_that_leads_to_another_route_is_told_as_refused(self):
        said = self.why("/x/..%2fadmin")
        self.assertEqual(said["now"], "refused")
        self.assertIn("answered 400", said["words"])

    def test_what_a_route_takes_out_of_a_query_is_purged_with_it(self):
        path = target("page", Cache_Control="max-age=600")
        self.fetch(path + "&utm_y=2")
        self.assertEqual(self.why(path)["now"], "hit")
        self.ctl("purge", f"http://{HOST}{path}&utm_z=3")
        self.assertEqual(self.why(path)["now"], "miss")


class BehindTls(Why):
    """The scheme that a trusted proxy sends is part of the key."""

    def setUp(self):
        super().setUp()
        self.tarnd.close()
        config = "trusted_proxies: [127.0.0.0/8]\n" + CONFIG.format(origin=origin.address)
        self.tarnd = tarnd.Tarnd(program, config, stderr=subprocess.DEVNULL)

    def test_a_url_is_told_and_purged_by_its_scheme(self):
        path = target("tls", Cache_Control="max-age=600")
        url = f"https://{HOST}{path}"
        self.fetch(path, "X-Forwarded-Proto: https")
        said = json.loads(self.ctl("--json", "why", url))
        self.assertEqual((said["now"], said["key"]), ("hit", url))
        self.assertEqual(self.why(path)["now"], "miss")
        self.ctl("purge", f"http://{HOST}{path}")
        self.assertEqual(json.loads(self.ctl("--json", "why", url))["now"], "hit")
        self.ctl("purge", url)
        self.assertEqual(json.loads(self.ctl("--json", "why", url))["now"], "miss")


class OfAListener(Why):
    """What a listener answers before any route and any policy."""
    policy = False

    def setUp(self):
        super().setUp()
        self.tarnd.close()
        self.state = tempfile.mkdtemp(prefix="tarn-why.")
        self.addCleanup(shutil.rmtree, self.state)
        self.begin("")

    def begin(self, more):
        """The listener redirects; another has TLS and no certificate yet."""
        listen = ("    redirect: https\n"
                  f"  - {{ address: 'unix:{{dir}}/tls.sock', tls: {{ acme: {{ names: [{HOST}], state: {self.state} }} }} }}\n")
        config = listen + more + CONFIG.format(origin=origin.address)
        if self.policy:
            with open(f"{self.state}/p.vcl", "w", encoding="ascii") as f:
                f.write("vcl 4.1; sub vcl_recv { return (synth(403)); }")
            config += f"vcl: {self.state}/p.vcl\n"
        self.tarnd = tarnd.Tarnd(program, config, stderr=subprocess.DEVNULL)

    def test_a_redirect_to_https_is_told(self):
        said = self.why("/a")
        self.assertEqual(said["now"], "redirect")
        self.assertIn("Its listener answers it: by a redirect to https.", said["words"])
        answer = self.fetch("/a", status=301)
        self.assertIn(f"\r\nLocation: https://{HOST}/a\r\n".encode(), answer.data)
        said = json.loads(self.ctl("--json", "why", f"https://{HOST}/a"))
        self.assertNotEqual(said["now"], "redirect")

    def test_no_redirect_is_told_where_another_listener_has_none(self):
        self.tarnd.close()
        self.begin("  - { address: 'unix:{dir}/plain.sock' }\n")
        self.assertNotEqual(self.why("/a")["now"], "redirect")

    def test_a_challenge_of_acme_is_told(self):
        os.makedirs(f"{self.state}/challenges/http-01")
        with open(f"{self.state}/challenges/http-01/token", "w", encoding="ascii") as f:
            f.write("token.thumbprint")
        said = self.why("/.well-known/acme-challenge/token")
        self.assertIn("Its listener answers it: with a challenge of ACME.", said["words"])
        answer = self.fetch("/.well-known/acme-challenge/token")
        self.assertTrue(answer.data.endswith(b"\r\n\r\ntoken.thumbprint"), answer.data)
        self.assertEqual(self.why("/.well-known/acme-challenge/other")["now"], "redirect")


class OfAListenerWithAPolicy(OfAListener):
    policy = True


class ThatCameBack(Why):
    """With its own name in CDN-Loop, or in Via too often."""

    def setUp(self):
        super().setUp()
        self.tarnd.close()
        config = CONFIG.format(origin=origin.address) + "parameters: { loop_token: here }\n"
        self.tarnd = tarnd.Tarnd(program, config, stderr=subprocess.DEVNULL)

    def loops(self, path, *fields):
        said = self.why(path, *fields)
        self.assertEqual(said["now"], "loop", said["words"])
        self.assertIn("answered 508", said["words"])
        self.fetch(path, *fields, status=508)

    def test_a_loop_is_told_as_508(self):
        path = target("loop", Cache_Control="max-age=600")
        self.loops(path, "CDN-Loop: other, here")
        self.loops(path, "Cache-Control: no-store", "CDN-Loop: here")
        self.loops(path, "Via: " + ", ".join(["1.1 tarn"] * 9))
        self.assertEqual(self.why(path, "CDN-Loop: other")["now"], "miss")
        self.assertEqual(self.why(path, "Via: 1.1 tarn")["now"], "miss")
        self.fetch(path)
        self.assertEqual(self.why(path, "CDN-Loop: here")["now"], "hit")
        self.fetch(path, "CDN-Loop: here")

    def test_no_policy_hides_a_loop(self):
        text = "vcl 4.1; sub vcl_recv { unset req.http.CDN-Loop; if (req.url ~ \"passed$\") { return (pass); } }"
        self.assertEqual(self.api("PUT", "/v1/policies/hides", text)[0], 201)
        self.assertEqual(self.api("PUT", "/v1/policies/active", '{"name": "hides"}')[0], 200)
        for path in ("/looked-up", "/passed"):
            self.loops(path, "CDN-Loop: here")


class WithRoutesBesideAPolicy(Why):
    """The policy names a backend for some."""

    def setUp(self):
        origin.gate.clear()
        self.addCleanup(origin.gate.set)
        other = Origin(Says)
        config = CONFIG.format(origin=origin.address).rstrip().removesuffix("}")
        config += f", p: {{ address: '{other.address}' }} }}\n"
        config += "routes: [{ path: /p, backend: p }, { backend: o }]\n"
        text = ("vcl 4.1; sub vcl_recv { if (req.url ~ \"hinted$\") { set req.backend_hint = o; }"
                " if (req.url == \"/moved\") { set req.url = \"/p/moved\"; } }")
        self.tarnd = tarnd.Tarnd(program, config, stderr=subprocess.DEVNULL)
        self.addCleanup(lambda: self.assertEqual(self.tarnd.close(), 0))
        self.assertEqual(self.api("PUT", "/v1/policies/routed", text)[0], 201)
        self.assertEqual(self.api("PUT", "/v1/policies/active", '{"name": "routed"}')[0], 200)

    def test_it_names_the_route_that_decides(self):
        for path in ("/p/1", "/moved"):
            words = self.why(path)["words"]
            self.assertIn("Number 1 of routes chooses its backend, path /p.", words)
            self.assertIn("Its backend is p,", words)
        words = self.why("/p/hinted")["words"]
        self.assertNotIn("of routes", words)
        self.assertIn("Its backend is o,", words)


if __name__ == "__main__":
    program, ctl = sys.argv[1:3]
    origin = Origin(Says)
    origin.gate = threading.Event()
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=1)
