#!/usr/bin/env python3
"""ctl.py TARND TARNCTL TARN_TABLE TABLE_PUT LIBRARY [TEST...] -- what an operator does with tarnctl, and what it says.

Each command against a running tarnd, over a Unix socket and over TCP with a token; its mistakes; and
what it makes for others: JSON, the manual page, the shells' completion.
"""
import errno
import http.server
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.dont_write_bytecode = True
import tarnd
from origin import Origin

DONE, REFUSED, USAGE, UNREACHABLE = range(4)
TOKEN = "correct/horse+battery="
CONFIG = """
workers: 1
admin: {{ address: "{admin}"{token} }}
backends:
  default: {{ address: "{origin}" }}
"""
POLICY = 'vcl 4.1;\nsub vcl_deliver { set resp.http.X-Policy = "%s"; }\n'
program = ctl = tarn_table = table_put = library = origin = None


class Said:
    def __init__(self, done):
        self.status, self.out, self.err = done.returncode, done.stdout, done.stderr


def run(*args, admin=None, stdin="", environment=None):
    env = {k: v for k, v in os.environ.items() if not k.startswith("TARN_")}
    if admin is not None:
        env["TARN_ADMIN"] = admin
    return Said(subprocess.run([ctl, *args], input=stdin, text=True, capture_output=True,
                               env={**env, **(environment or {})}, timeout=tarnd.PATIENCE_S))


class Ctl(unittest.TestCase):
    def setUp(self):
        config = CONFIG.format(admin="unix:{dir}/admin.sock", token="", origin=origin.address)
        self.tarnd = tarnd.Tarnd(program, config, stderr=subprocess.DEVNULL)
        self.addCleanup(self.stop)
        self.admin = f"unix:{self.tarnd.dir}/admin.sock"

    def stop(self):
        if self.tarnd is not None:
            self.assertEqual(self.tarnd.close(), 0)

    def run_(self, *args, status=DONE, **more):
        said = run(*args, admin=self.admin, **more)
        self.assertEqual(said.status, status, f"{args}: {said.out} {said.err}")
        self.assertEqual(said.err == "", status == DONE, said.err)
        return said.out if status == DONE else said.err

    def json_of(self, *args):
        return json.loads(self.run_("--json", *args))

    def fill(self, n=3):
        for i in range(n):
            answer = self.tarnd.ask(f"/body?n={i + 1}&framing=length")
            self.assertEqual(answer.status, 200)

    def test_status_shows_where_it_listens_and_since_when(self):
        out = self.run_("status")
        self.assertRegex(out, r"(?m)^state +running$")
        self.assertRegex(out, rf"(?m)^listen +127\.0\.0\.1:{self.tarnd.port} \(listen0\)$")
        self.assertRegex(out, rf"(?m)^process +{self.tarnd.process.pid}, for [0-9.]+s, since 20")
        self.assertEqual(self.json_of("status")["pid"], self.tarnd.process.pid)

    def test_counters_are_found_by_a_part_of_their_names(self):
        self.fill(2)
        tarnd.wait_until(lambda: self.json_of("stat")["req.miss"] == 2, "both are counted: they are when they end")
        out = self.run_("stat", "req.m")
        self.assertRegex(out, r"(?m)^req\.miss +2$")
        self.assertNotIn("storage", out)
        self.assertIn("no counter", self.run_("stat", "nonsense"))
        self.assertNotRegex(self.run_("stat"), r"(?m) 0$")

    def test_counters_are_watched(self):
        self.fill(1)
        for _ in range(3):
            self.fill(1)
        out = self.run_("stat", "--every", "0.1", "--count", "3", "req.")
        frames = out.split("watched for")[1:]
        self.assertEqual(len(frames), 3)
        self.assertRegex(frames[2], r"(?m)^requests 0/s, hits - now, - since then; ")
        self.assertRegex(frames[2], r"(?m)^req\.hit +3 +0\.0 +0\.0$")
        self.assertIn("--every", self.run_("stat", "--every", "soon", status=USAGE))
        self.assertIn("--count", self.run_("stat", "--count", "0", status=USAGE))

    def test_memory_is_a_tree(self):
        self.fill()
        out = self.run_("storage", "stats")
        self.assertRegex(out, r"(?m)^size +256\.0 MiB +100\.0 %$")
        self.assertRegex(out, r"(?m)^    bodies +\d+ B ")

    def test_a_status_that_there_cannot_be_is_refused(self):
        for status in ("9xx", "600", "200,0xx", "500-999"):
            said = self.run_("log", "--all", "--status", status, status=USAGE)
            self.assertIn("from 100 to 599", said)
            self.assertIn(status.split(",")[-1], said)
        self.run_("log", "--all", "--status", "1xx,200-299,599")

    def test_a_purge_says_how_many_left(self):
        self.fill(1)
        url = "http://tarn.test/body?n=1&framing=length"
        self.assertEqual(self.run_("purge", "--soft", url), "1 response is stale now\n")
        self.assertEqual(self.run_("purge", url), "1 response was removed\n")
        said = self.run_("purge", url)
        self.assertTrue(said.startswith("0 responses were removed\n"), said)
        self.assertIn(f"tarnctl why '{url}'", said)
        self.assertIn("absolute", self.run_("purge", "body", status=REFUSED))

    def test_what_is_not_utf8_is_refused_and_not_left_out(self):
        for args in (("purge", "/a", b"X-Name: caf\xe9"), ("purge", b"/caf\xe9"), ("purge-tag", "all", b"caf\xe9"),
                     ("ban", b"obj.http.x ~ caf\xe9"), ("param", "set", "default_ttl", b"\xe9")):
            done = subprocess.run([ctl, "--admin", self.admin, *args], capture_output=True,
                                  timeout=tarnd.PATIENCE_S, check=False)
            self.assertEqual((done.returncode, done.stdout), (USAGE, b""), args)
            self.assertIn(b"is not UTF-8", done.stderr)

    def test_a_fraction_of_a_frame_is_one(self):
        for command in ("hist", "stat"):
            self.assertIn(", ", self.run_(command, "--count", "0.5").splitlines()[0])

    def test_a_path_is_purged_on_the_first_listeners_address(self):
        path = "/body?n=1&framing=length"
        url = f"http://127.0.0.1:{self.tarnd.port}{path}"
        self.assertEqual(self.tarnd.ask(url).status, 200)
        self.assertEqual(self.run_("purge", path), f"{url}: 1 response was removed\n")

    def fill_tagged(self, i):
        def play(handler):
            handler.send_response(200)
            handler.send_header("Cache-Control", "max-age=600")
            handler.send_header("Surrogate-Key", f"all page-{i}")
            handler.send_header("Content-Length", "0")
            handler.end_headers()

        answer = self.tarnd.ask(origin.script(f"tagged-{i}", play))
        self.assertEqual(answer.status, 200)
        self.assertNotIn("surrogate-key", answer.fields)

    def test_a_purge_by_tag_says_how_many_left(self):
        for i in range(3):
            self.fill_tagged(i)
        self.assertEqual(self.run_("purge-tag", "--soft", "page-1"), "1 response is stale now\n")
        self.assertEqual(self.run_("purge-tag", "none"), "0 responses were removed\n")
        self.assertEqual(self.run_("purge-tag", "page-1", "page-2"), "2 responses were removed\n")
        self.assertEqual(self.json_of("purge-tag", "all"), {"purged": 1})
        self.assertIn("1 to 256 tags", self.run_("purge-tag", "", status=REFUSED))
        self.assertRegex(self.run_("ban", "list"), r"purge-tag all\n")

    def test_everything_is_purged(self):
        self.run_("purge", "--all")
        self.fill(2)
        self.assertEqual(self.run_("purge", "--all", "--soft"), "2 responses are stale now\n")
        self.assertEqual(self.run_("purge", "--all"), "2 responses were removed\n")
        self.assertEqual(self.json_of("purge", "--all"), {"purged": 0})
        self.assertRegex(self.run_("ban", "list"), r"purge --all\n")
        self.assertIn("a URL or --all, not both", self.run_("purge", "--all", "/a", status=USAGE))

    def test_bans_are_added_and_listed(self):
        self.assertEqual(self.run_("ban", "list"), "there are no bans\n")
        self.run_("ban", "req.url ~ ^/x && obj.age > 5m")
        self.assertRegex(self.run_("ban", "list"), r"ago +0  at requests +req\.url ~ \^/x && ")
        self.run_("ban", "req.url", "~", "^/words", "&&", "obj.status", "==", "200")
        self.assertRegex(self.run_("ban", "list"), r"req\.url ~ \^/words && obj\.status == 200")
        err = self.run_("ban", "req.url~x", status=REFUSED)
        self.assertIn("hint: as in obj.http.x-tag", err)

    def policy(self, name):
        path = os.path.join(self.tarnd.dir, f"{name}.vcl")
        with open(path, "w", encoding="utf-8") as f:
            f.write(POLICY % name)
        return path

    def header(self):
        return self.tarnd.ask("/body?n=1&framing=length").fields.get("x-policy")

    def test_policies_are_loaded_used_labelled_and_forgotten(self):
        self.assertEqual(self.run_("vcl", "list"), "no policy is loaded\n")
        self.run_("vcl", "load", "one", self.policy("one"))
        self.assertIsNone(self.header())
        self.run_("vcl", "use", "one")
        self.assertEqual(self.header(), "one")
        self.run_("vcl", "load", "--use", "two", "-", stdin=POLICY % "two")
        self.assertEqual(self.header(), "two")
        self.run_("vcl", "label", "live", "one")
        self.run_("vcl", "use", "live")
        self.assertEqual(self.header(), "one")
        self.assertRegex(self.run_("vcl", "list"), r"(?m)^one +active .*\n(.*\n)?live +label +one ")
        self.assertIn("in use", self.run_("vcl", "discard", "one", status=REFUSED))
        self.run_("vcl", "use", "two")
        self.assertIn("labelled", self.run_("vcl", "discard", "one", status=REFUSED))
        self.run_("vcl", "unlabel", "live")
        self.run_("vcl", "discard", "one")
        tarnd.wait_until(lambda: "one" not in self.run_("vcl", "list"), "nobody uses it any more")

    def test_every_mistake_of_a_policy_is_shown_where_it_is(self):
        text = 'vcl 4.1;\nsub vcl_recv { set req.htp.x = 1; }\nsub vcl_hit { return (nowhere); }\n'
        err = self.run_("vcl", "load", "bad", "-", status=REFUSED, stdin=text)
        self.assertRegex(err, r"(?m)^bad:2:20: there is no variable 'req\.htp\.x'\n"
                              r"    sub vcl_recv \{ set req\.htp\.x = 1; \}\n {23}\^$")
        self.assertRegex(err, r"(?m)^bad:3:\d+: ")
        self.assertIn("tarnctl: the policy has 2 errors", err)
        self.assertIn("/nowhere", self.run_("vcl", "load", "bad", "/nowhere", status=USAGE))
        self.assertIn("/: Is a directory\n", self.run_("vcl", "load", "bad", "/", status=USAGE))

    def test_a_backend_is_told_to_be_sick(self):
        self.assertRegex(self.run_("backend", "list"), r"(?m)^default +\S+ +yes +auto ")
        self.run_("backend", "set-health", "default", "sick")
        self.assertRegex(self.run_("backend", "list"), r"(?m)^default +\S+ +no +sick ")
        self.run_("backend", "set-health", "nobody", "sick", status=REFUSED)
        self.run_("backend", "set-health", "default", "ill", status=REFUSED)

    def test_the_index_is_described_and_dumped(self):
        self.fill(3)
        self.assertRegex(self.run_("index", "stats"), r"(?m)^entries +3 of \d+, load 0\.00")
        out = self.run_("index", "dump")
        self.assertEqual(len(re.findall(r"(?m)^[AB]\d+/\d+ [0-9a-f]{32}$", out)), 3)
        self.assertEqual(len(re.findall(r"(?m)^    ready +200 .*tarn\.test", out)), 3)
        self.assertEqual(len(re.findall(r"(?m)^[AB]\d+/", self.run_("index", "dump", "--limit", "2"))), 2)
        for wrong in ("0", "-1", "x", ""):
            self.assertIn("--limit", self.run_("index", "dump", "--limit", wrong, status=USAGE))

    def test_parameters_are_explained_and_set(self):
        self.assertRegex(self.run_("param", "list"), r"(?m)^default_ttl +0s +0s +yes$")
        self.assertIn("while tarnd runs", self.run_("param", "list", "default_ttl"))
        self.run_("param", "set", "default_ttl", "5s")
        self.assertRegex(self.run_("param", "list", "ttl"), r"(?m)^default_ttl +5s +0s +yes$")
        self.run_("param", "set", "default_ttl", "soon", status=REFUSED)
        self.run_("param", "set", "nonsense", "1", status=REFUSED)

    def test_parameters_show_what_is_in_force_under_a_policy(self):
        self.run_("vcl", "load", "--use", "p", "-", stdin=POLICY % "1")
        self.assertRegex(self.run_("param", "list"), r"(?m)^default_ttl +2m +0s +yes$")
        self.assertRegex(self.run_("param", "list", "heuristic_max"), r"(?m)^heuristic_max = 0s$")
        said = self.run_("param", "list", "default_ttl")
        self.assertIn("default_ttl = 2m\n", said)
        self.assertIn("by       the policy that is in use: without one it is 0s\n", said)
        [one] = [p for p in self.json_of("param", "list")["parameters"] if p["name"] == "default_ttl"]
        self.assertEqual((one["value"], one["in_force"]), ("0s", "2m"))
        self.run_("param", "set", "default_ttl", "0s")
        self.assertRegex(self.run_("param", "list"), r"(?m)^default_ttl +0s +0s +yes$")

    def test_tables_are_listed(self):
        self.assertEqual(self.run_("table", "list"), "the configuration names none\n")

    def test_it_is_stopped(self):
        self.run_("stop")
        self.assertEqual(self.tarnd.process.wait(timeout=tarnd.PATIENCE_S), 0)
        self.tarnd.tidy()
        self.tarnd = None
        self.assertIn("hint: is tarnd running", self.run_("status", status=UNREACHABLE))

    def test_it_is_drained_without_cutting_anybody_off(self):
        self.run_("param", "set", "timeout_idle", "1m")
        self.run_("param", "set", "drain_timeout", "0s")
        self.fill(1)
        target = "/body?n=1&framing=length"
        with self.tarnd.connect() as kept, self.tarnd.connect() as fresh:
            kept.sendall(tarnd.request(target))
            first = kept.recv(65536)
            self.assertIn(b"200 OK", first)
            self.assertNotIn(b"Connection: close", first)
            self.wait_for_clients(2)
            self.assertIn("accepts no more connections", self.run_("drain"))
            self.assertRegex(self.run_("status"), r"(?m)^state +draining$")
            tarnd.wait_until(self.refuses, "its listeners are closed")
            for s in (kept, fresh):
                s.sendall(tarnd.request(target))
                answer = tarnd.Answer(tarnd.read_to_end(s))
                self.assertEqual(answer.status, 200)
                self.assertEqual(answer.fields["connection"], "close")
        self.assertEqual(self.tarnd.process.wait(timeout=tarnd.PATIENCE_S), 0)
        self.tarnd.tidy()
        self.tarnd = None

    def wait_for_clients(self, n):
        tarnd.wait_until(lambda: self.json_of("status")["connections"] == n, "they are accepted")

    def refuses(self):
        with socket.socket() as s:
            return s.connect_ex(("127.0.0.1", self.tarnd.port)) == errno.ECONNREFUSED

    def test_a_stop_gives_a_drain_its_deadline(self):
        self.run_("param", "set", "timeout_idle", "1m")
        self.run_("param", "set", "drain_timeout", "0s")
        with self.tarnd.connect():
            self.wait_for_clients(1)
            self.run_("drain")
            self.assertRegex(self.run_("status"), r"(?m)^state +draining$")
            self.run_("stop")
            self.assertEqual(self.tarnd.process.wait(timeout=tarnd.PATIENCE_S), 0)
        self.tarnd.tidy()
        self.tarnd = None


class Warm(unittest.TestCase):
    """URLs of a list or a sitemap are asked for, and counted by what came."""

    MAPS = {
        "/sitemap.xml": "<?xml version='1.0'?><urlset><url><loc>\n http://site.test/a?x=1&amp;y=2 </loc>"
                        "</url><url><loc>https://site.test/b</loc></url></urlset>",
        "/index.xml": "<sitemapindex><sitemap><loc>http://site.test/sitemap.xml</loc></sitemap>"
                      "<sitemap><loc>http://site.test/second.xml</loc></sitemap></sitemapindex>",
        "/second.xml": "<urlset><url><loc>http://site.test/c</loc></url></urlset>",
        "/loop.xml": "<sitemapindex><sitemap><loc>http://site.test/index.xml</loc></sitemap></sitemapindex>",
        "/cut.xml": "<urlset><url><loc>http://site.test/c",
    }

    def setUp(self):
        maps, self.seen = self.MAPS, []
        seen = self.seen

        class Site(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                seen.append((self.headers["Host"], self.path, self.headers["X-Forwarded-Proto"]))
                body = maps.get(self.path, self.path).encode()
                self.send_response(404 if self.path == "/missing" else 200)
                self.send_header("Content-Length", str(len(body)))
                self.send_header("Cache-Control", "no-store" if self.path in maps or self.path == "/never"
                                 else "max-age=600")
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args):
                pass

        self.site = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Site)
        threading.Thread(target=self.site.serve_forever, daemon=True).start()
        self.addCleanup(self.site.server_close)
        self.addCleanup(self.site.shutdown)
        config = CONFIG.format(admin="unix:{dir}/admin.sock", token="",
                               origin="127.0.0.1:%d" % self.site.server_address[1])
        config += "trusted_proxies: [127.0.0.0/8]\n"
        self.tarnd = tarnd.Tarnd(program, config, stderr=subprocess.DEVNULL)
        self.addCleanup(lambda: self.assertEqual(self.tarnd.close(), 0))
        self.to = f"127.0.0.1:{self.tarnd.port}"

    def warm(self, *args, status=DONE, stdin=""):
        said = run("--json", "warm", "--to", self.to, "--rate", "1000", *args, stdin=stdin)
        self.assertEqual(said.status, status, said.err)
        return (json.loads(said.out) if said.out else None), said.err

    def test_a_list_is_stored_and_then_hit(self):
        urls = "# ours\n\nhttp://site.test/1\nhttp://other.test/2\r\nhttp://site.test/never\n"
        said, _ = self.warm("-", stdin=urls)
        self.assertEqual((said["urls"], said["hits"], said["stored"], said["not_stored"]), (3, 0, 2, 1))
        self.assertIn(("other.test", "/2", "http"), self.seen)
        said, _ = self.warm("-", stdin=urls)
        self.assertEqual((said["hits"], said["stored"], said["not_stored"]), (2, 0, 1))
        out = run("warm", "--to", self.to, "-", stdin="http://site.test/1\n")
        self.assertRegex(out.out, r"^1 URLs in [\d.]+ s: 1 hits, 0 stored now, 0 not stored, 0 errors, "
                                  r"0 without an answer\n$")

    def test_a_sitemap_and_an_index_of_sitemaps_are_read(self):
        said, _ = self.warm("http://site.test/index.xml")
        self.assertEqual((said["urls"], said["stored"]), (3, 3))
        self.assertIn(("site.test", "/a?x=1&y=2", "http"), self.seen)
        self.assertIn(("site.test", "/b", "https"), self.seen)
        with tempfile.NamedTemporaryFile("w", suffix=".xml") as f:
            f.write(self.MAPS["/sitemap.xml"])
            f.flush()
            self.assertEqual(self.warm(f.name)[0]["hits"], 2)

    def test_errors_are_told_with_their_url_and_status(self):
        said, err = self.warm("-", status=REFUSED, stdin="http://site.test/1\nhttp://site.test/missing\n")
        self.assertEqual((said["errors"], said["failed"], said["stored"]), (1, 0, 1))
        self.assertEqual(err, "http://site.test/missing: status 404\n")
        said = run("--json", "warm", "--to", "127.0.0.1:1", "-", stdin="http://site.test/1\n")
        self.assertEqual((said.status, json.loads(said.out)["failed"]), (UNREACHABLE, 1))

    def test_what_is_no_list_is_refused_before_anything_is_asked(self):
        for args, stdin, words in ((("-",), "http://a.test/\n/b\n", "-:2: '/b' is not an absolute URL"),
                                   (("/nowhere",), "", "/nowhere: No such file"),
                                   (("--rate", "0", "-"), "", "--rate"),
                                   (("http://site.test/cut.xml",), "", "a <loc> has no </loc>"),
                                   (("http://site.test/loop.xml",), "", "an index that an index names")):
            _, err = self.warm(*args, status=USAGE, stdin=stdin)
            self.assertIn(words, err)
        self.assertEqual([s for s in self.seen if not s[1].endswith(".xml")], [])
        _, err = self.warm("http://site.test/missing", status=REFUSED)
        self.assertIn("has status 404, and a sitemap needs 200", err)

    def test_the_rate_is_bounded(self):
        began = time.monotonic()
        run("warm", "--to", self.to, "--rate", "20", "-",
            stdin="".join(f"http://site.test/r{i}\n" for i in range(11)))
        self.assertGreaterEqual(time.monotonic() - began, 0.5)


class Alone(unittest.TestCase):
    """Without a tarnd."""

    def test_mistakes_on_the_command_line_say_what_is_right(self):
        for args, says in (((), "tarnctl [OPTIONS] COMMAND"), (("nope",), "no command nope"),
                           (("vcl",), "tarnctl vcl load [--use] NAME FILE"),
                           (("vcl", "lod"), "tarnctl vcl load [--use] NAME FILE"),
                           (("purge",), "tarnctl purge [--soft] URL"),
                           (("purge",), "tarnctl purge [--soft] URL [FIELD...] | --all [--soft]"),
                           (("purge", "--limit", "3", "x"), "tarnctl purge has no --limit: tarnctl purge [--soft] URL"),
                           (("--nope",), "--nope"), (("completion", "csh"), "bash, zsh or fish"),
                           (("--token-file", "/nowhere", "status"), "/nowhere")):
            said = run(*args)
            self.assertEqual(said.status, USAGE, args)
            self.assertIn(says, said.out + said.err)

    def test_nobody_there_is_another_exit_status(self):
        for admin in ("unix:/nowhere/admin.sock", "127.0.0.1:1"):
            said = run("status", admin=admin)
            self.assertEqual(said.status, UNREACHABLE)
            self.assertIn(f"tarnctl: {admin}: ", said.err)

    def test_who_is_not_a_tarnd_is_noticed(self):
        with http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler) as other:
            threading.Thread(target=other.handle_request, daemon=True).start()
            said = run("--admin", "127.0.0.1:%d" % other.server_port, "status")
        self.assertEqual(said.status, UNREACHABLE)
        self.assertIn("status 501, and what came is not JSON", said.err)
        self.assertIn("is that a tarnd?", said.err)

    def test_bars_of_a_tarnd_that_was_restarted_begin_anew(self):
        answers = [{"sum_us": 3000, "buckets": [[256, 319, 10]]}, {"sum_us": 25000, "buckets": [[1024, 1279, 20]]}]

        class Latency(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                body = json.dumps({"requests": {"hit": answers.pop(0)}}).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        with http.server.HTTPServer(("127.0.0.1", 0), Latency) as other:
            threading.Thread(target=other.serve_forever, daemon=True).start()
            said = run("--admin", "127.0.0.1:%d" % other.server_port, "hist", "--every", "0.1", "--count", "2")
            other.shutdown()
        second = said.out.split("in the last", 1)[1]
        self.assertRegex(second, r"(?m)^hit +20 ")
        self.assertRegex(second, r"(?m)^ +1\.0 ms .* 100\.0 %$")
        self.assertNotIn("256 us", second)

    def test_help_names_every_command_and_each_has_its_own(self):
        said = run("--help")
        commands = re.findall(r"(?m)^    ([a-z][a-z-]*(?: [a-z][a-z-]+){0,2})(?: .*)?  ", said.out)
        self.assertEqual(said.status, DONE)
        self.assertGreater(len(commands), 15)
        for words in commands:
            own = run(*words.split(), "--help")
            self.assertEqual(own.status, DONE, words)
            self.assertTrue(own.out.startswith(f"tarnctl {words} -- "), own.out)

    def test_help_is_a_command_too(self):
        self.assertEqual(run("help").out, run("--help").out)
        self.assertEqual(run("help", "vcl", "load").out, run("vcl", "load", "--help").out)
        self.assertEqual(run("help", "vcl").out, run("vcl", "--help").out)
        self.assertIn("    tarnctl vcl load [--use] NAME FILE\n", run("help", "vcl").out)
        self.assertNotIn("tarnctl ban", run("help", "vcl").out)
        for args in (("help", "nope"), ("nope", "--help")):
            said = run(*args)
            self.assertEqual((said.status, said.out), (USAGE, ""))
            self.assertIn("there is no command nope", said.err)

    def test_completion_is_well_formed(self):
        script = run("completion", "bash").out
        asked = script + '\nCOMP_WORDS=(tarnctl --json vcl l) COMP_CWORD=3\n_tarnctl\n' \
            'echo "${COMPREPLY[@]}"\n'
        told = subprocess.run(["bash", "-c", asked], capture_output=True, text=True, check=True)
        self.assertEqual(told.stdout.split(), ["list", "load", "label"])
        for option in ("--to", "--rate", "--concurrency", "--format"):
            words = script + f'\nCOMP_WORDS=(tarnctl {option} 1 vcl l) COMP_CWORD=4\n_tarnctl\necho "${{COMPREPLY[@]}}"\n'
            told = subprocess.run(["bash", "-c", words], capture_output=True, text=True, check=True)
            self.assertEqual(told.stdout.split(), ["list", "load", "label"], option)
        self.assertIn("bashcompinit", run("completion", "zsh").out)
        self.assertIn("-a ' list load use", run("completion", "fish").out)

    def test_over_tcp_a_token_is_needed(self):
        config = CONFIG.format(admin="127.0.0.1:0", token=f', token: "{TOKEN}"',
                               origin=origin.address)
        t = tarnd.Tarnd(program, config, stderr=subprocess.PIPE)
        try:
            line = next(line for line in iter(t.process.stderr.readline, b"")
                        if b"admin: listening on" in line)
            admin = line.decode().split()[-1]
            said = run("status", admin=admin)
            self.assertEqual(said.status, REFUSED)
            self.assertIn("TARN_TOKEN", said.err)
            self.assertEqual(run("status", admin=admin, environment={"TARN_TOKEN": TOKEN}).status, 0)
            path = os.path.join(t.dir, "token")
            with open(path, "w", encoding="utf-8") as f:
                f.write(TOKEN + "\n")
            self.assertEqual(run("status", "--token-file", path, admin=admin).status, 0)
        finally:
            t.process.stderr.close()
            t.close()


class Tables(unittest.TestCase):
    def setUp(self):
        config = (CONFIG.format(admin="unix:{dir}/admin.sock", token="", origin=origin.address)
                  + 'tables: { lists: { path: "{dir}/lists", kind: map } }\n')
        self.tarnd = tarnd.Tarnd(program, config, stderr=subprocess.DEVNULL)
        self.addCleanup(lambda: self.assertEqual(self.tarnd.close(), 0))
        self.admin = f"unix:{self.tarnd.dir}/admin.sock"

    def test_a_table_is_loaded_and_shown_whole(self):
        entries = [f"key{i:05d} value {i}" for i in range(2500)]  # more than a page
        said = run("table", "load", "lists", "-", admin=self.admin,
                   stdin="# a comment\n" + "\n".join(entries) + "\n")
        self.assertEqual((said.status, said.err), (DONE, ""))
        self.assertIn("2500 entries", said.out)
        said = run("table", "show", "lists", admin=self.admin)
        self.assertEqual(sorted(said.out.splitlines()), entries)
        self.assertIn("2500", run("table", "list", admin=self.admin).out)
        said = run("table", "load", "lists", "-", admin=self.admin, stdin="one 1\n")
        self.assertEqual(said.status, DONE)
        self.assertEqual(run("table", "show", "lists", admin=self.admin).out, "one 1\n")

    def test_a_mistake_names_the_line_and_leaves_what_was_there(self):
        run("table", "load", "lists", "-", admin=self.admin, stdin="one 1\n")
        said = run("table", "load", "lists", "-", admin=self.admin, stdin="two 2\ntwo 3\n")
        self.assertEqual(said.status, REFUSED)
        self.assertIn("its key was there before", said.err)
        self.assertEqual(run("table", "show", "lists", admin=self.admin).out, "one 1\n")
        self.assertIn("no table is named 'x'", run("table", "show", "x", admin=self.admin).err)

    def outside(self, *args):
        """A program beside tarnd."""
        done = Said(subprocess.run(args, capture_output=True, text=True, timeout=tarnd.PATIENCE_S))
        self.assertEqual((done.status, done.err), (DONE, ""))
        return done.out

    def test_a_writer_of_ones_own_writes_them(self):
        path = f"{self.tarnd.dir}/lists"
        self.outside(table_put, path, "one", "1 and more", "two", "2")
        said = run("table", "show", "lists", admin=self.admin)
        self.assertEqual(sorted(said.out.splitlines()), ["one 1 and more", "two 2"])
        self.assertEqual(self.outside(tarn_table, "--dir", self.tarnd.dir, "get", "lists", "one"),
                         "1 and more\n")
        twice = subprocess.run([table_put, path, "a", "1", "a", "2"], capture_output=True, text=True,
                               check=False)
        self.assertEqual((twice.returncode, twice.stderr), (1, "table_put: a key is there twice\n"))

    def test_its_library_needs_libc_alone(self):
        told = self.outside("readelf", "-d", library)
        needed = set(re.findall(r"\(NEEDED\).*\[(.+?)\]", told))
        if not {n for n in needed if re.match(r"lib[atu]b?san", n)}:  # those bring libraries along
            self.assertLessEqual({n for n in needed if not n.startswith("ld-")}, {"libc.so.6"})
        self.assertIn("[libtarntable.so.1]", told)


def main():
    global program, ctl, tarn_table, table_put, library, origin
    if len(sys.argv) < 6:
        sys.exit("usage: ctl.py TARND TARNCTL TARN_TABLE TABLE_PUT LIBRARY [TEST...]")
    program, ctl, tarn_table, table_put, library = (os.path.abspath(sys.argv.pop(1)) for _ in range(5))
    origin = Origin()
    unittest.main(verbosity=2)


if __name__ == "__main__":
    main()
