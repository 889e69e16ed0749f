#!/usr/bin/env python3
"""reload.py TARND TARNCTL [TEST...] -- a configuration that is read anew while clients are served.

What changes, what stays, what is refused; by `tarnctl reload` and by SIGHUP; and that nobody is
failed by it.
"""
import http.client
import json
import os
import signal
import subprocess
import sys
import threading
import time
import unittest

sys.dont_write_bytecode = True
import tarnd
from origin import Handler, Origin

DONE, REFUSED = 0, 1
program = ctl = None


class Named(Handler):
    """Says whose it is, and for how long that counts."""

    def do_GET(self):
        with self.server.lock:
            self.server.requests[self.path] += 1
        body = self.server.name.encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "max-age=60" if "keep" in self.path else "no-store")
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.do_GET()


def named(name):
    origin = Origin(Named)
    origin.name = name
    return origin


class Reload(unittest.TestCase):
    def start(self, config):
        self.said = os.path.join("/tmp", f"tarn-reload.{os.getpid()}.{id(self)}")
        self.log = open(self.said, "w+", encoding="utf-8")
        self.addCleanup(os.unlink, self.said)
        self.addCleanup(self.log.close)
        self.tarnd = tarnd.Tarnd(program, self.whole(config), stderr=self.log)
        self.policy("bad.vcl", "vcl 4.1;\nsub vcl_recv { nonsense }\n")  # refused as late as can be
        self.addCleanup(lambda: self.assertEqual(self.tarnd.close(), 0))

    @staticmethod
    def whole(config, allow=""):
        return f'workers: 2\nadmin: {{ address: "unix:{{dir}}/admin.sock"{allow} }}\n' + config

    def write(self, config, listen="listen:\n  - address: 127.0.0.1:0\n", allow=""):
        text = listen + self.whole(config, allow).replace("{dir}", self.tarnd.dir)
        with open(self.tarnd.config, "w", encoding="utf-8") as f:
            f.write(text)

    def policy(self, name, text):
        with open(os.path.join(self.tarnd.dir, name), "w", encoding="utf-8") as f:
            f.write(text)

    def ctl(self, *args, status=DONE):
        done = subprocess.run([ctl, "--admin", f"unix:{self.tarnd.dir}/admin.sock", *args],
                              capture_output=True, text=True, timeout=tarnd.PATIENCE_S)
        self.assertEqual(done.returncode, status, f"{args}: {done.stdout} {done.stderr}")
        return done.stdout if status == DONE else done.stderr

    def reload(self, config, status=DONE, **more):
        self.write(config, **more)
        return self.ctl("reload", status=status)

    def body(self, target):
        answer = self.tarnd.ask(target)
        self.assertEqual(answer.status, 200, answer.data[:300])
        return answer.body.decode()

    def wait_for(self, what, seen):
        deadline = time.monotonic() + tarnd.PATIENCE_S
        while not seen():
            self.assertLess(time.monotonic(), deadline, what)
            time.sleep(0.02)

    def logged(self):
        with open(self.said, encoding="utf-8") as f:
            return f.read()

    def test_another_backend_serves_what_is_not_stored(self):
        a, b = named("a"), named("b")
        self.start(f"backends: {{ o: {{ address: '{a.address}' }} }}\n")
        self.assertEqual(self.body("/keep"), "a")
        self.assertEqual(self.body("/x"), "a")
        said = self.reload(f"backends: {{ o: {{ address: '{b.address}' }} }}\n")
        self.assertIn(f"backends.o.address: {a.address} -> {b.address}", said)
        self.assertEqual(self.body("/x"), "b")
        self.assertEqual(self.body("/keep"), "a")  # the cache stays
        said = self.reload(f"backends: {{ o: {{ address: '{b.address}' }}, "
                           f"p: {{ address: '{a.address}' }} }}\n"
                           "routes: [ { path: /p/, backend: p }, { backend: o } ]\n")
        self.assertIn("backends.p: - -> new", said)
        self.assertEqual(self.body("/p/x"), "a")
        self.assertEqual(self.body("/x"), "b")
        names = [b["name"] for b in json.loads(self.ctl("--json", "backend", "list"))["backends"]]
        self.assertEqual(sorted(names), ["o", "p"])  # nothing is left of those before

    def test_a_backend_that_is_described_as_before_stays(self):
        a = named("a")
        config = f"backends: {{ o: {{ address: '{a.address}' }} }}\n"
        self.start(config)
        self.ctl("backend", "set-health", "o", "sick")
        self.reload(config + "parameters: { default_ttl: 3s }\n")
        self.assertIn("sick", self.ctl("backend", "list"))
        self.assertEqual(self.tarnd.ask("/x").status, 503)

    def test_actions_of_routes_come_go_and_change(self):
        a = named("a")
        config = f"backends: {{ o: {{ address: '{a.address}' }} }}\n"
        self.start(config)
        users = os.path.join(self.tarnd.dir, "users")
        sha = ("$6$saltsalt$TVLlQcbpFVof5W3Yz4DTP6gRstiNuHwwTt6GLc1E5n0U0aDehy0S5knV8wiOQSpT0Y77vwPZN."
               "Pq.H91p5hVO1")  # of "secret"
        bob = "Authorization: Basic Ym9iOnNlY3JldA=="
        self.assertEqual(self.tarnd.ask("/old").status, 200)
        said = self.reload(config + "routes: [ { path: /old, redirect: { to: /new } } ]\n")
        self.assertIn("routes: changed", said)
        self.assertEqual(self.tarnd.ask("/old").status, 301)
        with open(users, "w", encoding="utf-8") as f:
            f.write(f"eve:{sha}\n")
        guarded = config + "routes: [ { path: /old, basic_auth: users } ]\n"
        self.reload(guarded)
        self.assertEqual(self.tarnd.ask("/old", bob).status, 401)
        with open(users, "a", encoding="utf-8") as f:
            f.write(f"bob:{sha}\n")
        self.assertEqual(self.tarnd.ask("/old", bob).status, 401)  # until it is read anew
        self.assertIn("routes: changed", self.reload(guarded))
        self.assertEqual(self.tarnd.ask("/old", bob).status, 200)
        with open(users, "w", encoding="utf-8") as f:
            f.write("bob:plain\n")
        self.assertIn("neither bcrypt nor SHA-512", self.reload(guarded, REFUSED))
        self.assertEqual(self.tarnd.ask("/old", bob).status, 200)  # all is as it was
        self.reload(config)
        self.assertEqual(self.tarnd.ask("/old").status, 200)

    def test_a_director_takes_other_members(self):
        a, b = named("a"), named("b")
        two = (f"backends: {{ one: {{ address: '{a.address}' }}, "
               f"two: {{ address: '{b.address}', probe: {{ url: /keep, interval: 50ms }} }} }}\n")
        self.start(two + "directors: { pool: { backends: [one] } }\n")
        self.assertEqual({self.body("/x") for _ in range(6)}, {"a"})
        said = self.reload(two + "directors: { pool: { backends: [one, {name: two, weight: 2}] } }\n")
        self.assertIn("directors.pool.backends: one (1) -> one (1), two (2)", said)
        self.assertRegex(self.ctl("backend", "list"), r"pool +round_robin +yes +one, two \(2\)")
        self.wait_for("two is well", lambda: self.body("/x") == "b")
        self.assertEqual(sorted(self.body("/x") for _ in range(6)), list("aabbbb"))
        said = self.reload(two + "directors: { pool: { type: hash, backends: [none] } }\n", REFUSED)
        self.assertIn("backends: 'none' is not among the backends; did you mean 'one'?", said)
        self.reload(two + "directors: { other: { type: fallback, backends: [two, one] } }\n")
        self.assertEqual({self.body("/x") for _ in range(6)}, {"b"})
        listed = json.loads(self.ctl("--json", "backend", "list"))
        self.assertEqual([d["name"] for d in listed["directors"]], ["other"])
        self.assertEqual(len(listed["backends"]), 2)

    def test_a_mistake_leaves_all_as_it_was(self):
        a = named("a")
        config = f"backends: {{ o: {{ address: '{a.address}' }} }}\n"
        self.start(config)
        said = self.reload(config + "parameters: { default_tll: 5s, max_restarts: x }\n", REFUSED)
        self.assertIn("did you mean 'default_ttl'?", said)
        self.assertIn("max_restarts", said)  # each mistake
        self.assertIn("tarn.yaml:", said)
        said = self.reload(config + "vcl: no-such.vcl\n", REFUSED)
        self.assertRegex(said, r"tarn.yaml:\d+:6: vcl: the policy's file .*/no-such.vcl cannot be read")
        self.assertEqual(self.body("/x"), "a")
        os.unlink(self.tarnd.config)
        self.assertIn("cannot open the file", self.ctl("reload", status=REFUSED))
        self.assertEqual(self.body("/x"), "a")
        self.assertIn("nothing has changed", self.logged())

    def test_what_needs_a_restart_is_named_and_nothing_changes(self):
        a = named("a")
        config = f"backends: {{ o: {{ address: '{a.address}' }} }}\n"
        self.start(config)
        said = self.reload(config + "parameters: { default_ttl: 9s, listen_depth: 77 }\n"
                           "storage: { main: { eviction: lru } }\n", REFUSED)
        self.assertIn("parameters.listen_depth needs a restart of tarnd", said)
        self.assertIn("storage.main.eviction needs a restart of tarnd", said)
        self.assertIn("2 changes need a restart", said)
        self.assertIn(" 0s", self.ctl("param", "list", "default_ttl"))

    def test_parameters_are_as_the_file_says(self):
        a = named("a")
        config = f"backends: {{ o: {{ address: '{a.address}' }} }}\n"
        self.start(config)
        self.ctl("param", "set", "default_grace", "99s")
        said = self.reload(config + "parameters: { max_req_body: 5B }\n")
        self.assertIn("parameters.default_grace: 99s -> 10s", said)
        self.wait_for("a body is refused", lambda: self.tarnd.ask(
            "/x", "Content-Length: 6", method="POST", body=b"123456").status == 413)

    def test_the_access_log_goes_elsewhere(self):
        a = named("a")
        config = f"backends: {{ o: {{ address: '{a.address}' }} }}\n"
        self.start(config)
        one, two, three = (os.path.join(self.tarnd.dir, n) for n in ("one.log", "two.log", "three.log"))

        def lines(path):
            with open(path, encoding="utf-8") as f:
                return f.read().splitlines()

        def to(path, more=""):
            return config + f"parameters: {{ access_log: '{path}'{more} }}\n"

        self.body("/not-logged")
        self.assertIn(f"parameters.access_log: none -> {one}", self.reload(to(one)))
        self.body("/one")
        self.wait_for("a line", lambda: len(lines(one)) == 1)
        said = self.reload(to(two, ", access_log_format: json"))
        self.assertIn(f"parameters.access_log: {one} -> {two}", said)
        self.assertIn("parameters.access_log_format: combined -> json", said)
        self.body("/two")
        self.wait_for("a line of json", lambda: len(lines(two)) == 1)
        self.assertEqual(json.loads(lines(two)[0])["url"], "/two")
        said = self.reload(to("/nowhere/log") + "vcl: bad.vcl\n", REFUSED)
        self.assertIn("parameters.access_log: /nowhere/log: ", said)
        self.assertIn("nothing has changed", said)
        self.reload(to(two, ", access_log_format: json") + "vcl: bad.vcl\n", REFUSED)
        self.body("/two")
        self.wait_for("another line", lambda: len(lines(two)) == 2)
        own = ", access_log_format: '$status $request_uri $cache $$ \"$http_user_agent\" $host'"
        said = self.reload(to(three, own))
        self.assertIn("parameters.access_log_format: json -> $status $request_uri", said)

        def three_says(target, *fields):
            """The line of its first request that is in this log: one right behind a reload may still be in the old one."""
            def found():
                self.tarnd.ask(target, *fields)
                return any(target in line for line in lines(three))
            self.wait_for(f"a line of {target}", found)
            return next(line for line in lines(three) if target in line)

        self.assertRegex(three_says("/three", 'User-Agent: a "b" c'),
                         r'^200 /three [a-z-]+ \$ "a \\x22b\\x22 c" tarn\.test$')
        said = self.reload(to(three, ", access_log_format: '$nothing'"), REFUSED)
        self.assertIn("names $nothing, which is no field: there are $remote_addr", said)
        self.assertRegex(three_says("/again"), r'^200 /again [a-z-]+ \$ "-" tarn\.test$')
        self.policy("pass.vcl", "vcl 4.1;\nsub vcl_recv { return (pass); }\n")
        self.reload(to(three, own) + "vcl: pass.vcl\n")
        self.assertRegex(three_says("/policy"), r'^200 /policy pass \$ "-" tarn\.test$')
        self.reload(config)
        self.body("/not-logged")
        self.reload(to(one))
        self.body("/one")
        self.wait_for("the file is taken up again", lambda: len(lines(one)) == 2)
        self.assertTrue(all("/one" in line for line in lines(one)))
        # The log's thread turns a moment later than the reload is answered: the first request behind it
        # may still be in the old log, and nothing twice.
        asked = [json.loads(line)["url"] for line in lines(two)]
        self.assertEqual([url for url in asked if url != "/three"], ["/two"] * 2)
        self.assertIn("needs a reload", self.ctl("param", "set", "access_log", two, status=REFUSED))

    def test_listeners_come_and_go(self):
        a = named("a")
        config = f"backends: {{ o: {{ address: '{a.address}' }} }}\n"
        self.start(config)
        path = os.path.join(self.tarnd.dir, "in.sock")
        both = f"listen:\n  - address: 127.0.0.1:0\n  - address: unix:{path}\n"
        said = self.reload(config, listen=both)
        self.assertIn(f"listen: - -> unix:{path}", said)

        def over_unix():
            try:
                with tarnd.socket.socket(tarnd.socket.AF_UNIX) as s:
                    s.settimeout(tarnd.PATIENCE_S)
                    s.connect(path)
                    s.sendall(tarnd.request("/x", "Connection: close"))
                    return tarnd.Answer(tarnd.read_to_end(s)).status
            except OSError:
                return 0

        self.wait_for("the new listener answers", lambda: over_unix() == 200)
        self.assertEqual(self.body("/x"), "a")  # the old one is the same: its port stayed
        listen = json.loads(self.ctl("--json", "status"))["listen"]
        self.assertEqual([each["address"] for each in listen],
                         [f"127.0.0.1:{self.tarnd.port}", f"unix:{path}"])
        self.reload(config)
        self.wait_for("the listener has gone", lambda: not os.path.exists(path))
        self.assertEqual(over_unix(), 0)
        self.reload(config, listen=both)  # and comes again
        self.wait_for("the listener is back", lambda: over_unix() == 200)

    # A descriptor that libuv closes by a bare system call, and whose number F_DUPFD gives a listener, is a
    # race to TSan, which sees neither.
    @unittest.skipIf("TSAN_OPTIONS" in os.environ, "TSan does not see all that closes descriptors")
    def test_who_ends_has_just_been_told_of_listeners(self):
        a = named("a")
        config = f"backends: {{ o: {{ address: '{a.address}' }} }}\n"
        self.start(config)
        both = "".join(f"  - address: unix:{self.tarnd.dir}/{n}.sock\n" for n in range(20))
        self.write(config, listen=f"listen:\n  - address: 127.0.0.1:0\n{both}")
        for signal in (tarnd.signal.SIGHUP, tarnd.signal.SIGTERM):
            os.kill(self.tarnd.process.pid, signal)
        self.assertEqual(self.tarnd.process.wait(tarnd.PATIENCE_S), 0)
        self.assertIn("/19.sock", self.logged())
        self.assertEqual([n for n in os.listdir(self.tarnd.dir) if n.endswith(".sock")], [])

    def connect(self):
        """One connection that stays."""
        c = http.client.HTTPConnection("127.0.0.1", self.tarnd.port, timeout=tarnd.PATIENCE_S)
        self.addCleanup(c.close)
        return c

    @staticmethod
    def post(connection, body=b"123456"):
        connection.request("POST", "/x", body)
        answer = connection.getresponse()
        answer.read()
        return answer.status

    def test_a_listener_takes_other_terms_for_those_to_come(self):
        a = named("a")
        config = f"backends: {{ o: {{ address: '{a.address}' }} }}\n"

        def listen(more):
            return f"listen:\n  - {{ address: '127.0.0.1:0', {more} }}\n"

        def status(first=b""):
            with self.tarnd.connect() as s:
                s.sendall(first + tarnd.request("/x", "Connection: close"))
                data = tarnd.read_to_end(s)
                return tarnd.Answer(data).status if data else 0

        self.start(config)
        before, header = self.connect(), b"PROXY TCP4 192.0.2.9 192.0.2.1 5 80\r\n"
        self.assertEqual(self.post(before), 200)
        said = self.reload(config, listen=listen("max_req_body: 5B"))
        self.assertIn("listen.127.0.0.1:0.max_req_body: changed", said)
        self.assertEqual(self.post(self.connect()), 413)
        self.assertEqual(self.post(before), 200)  # what it came in on
        self.reload(config, listen=listen("proxy_protocol: required"))
        self.assertEqual((status(), status(header)), (0, 200))
        self.reload(config, listen=listen("proxy_protocol: required, trusted: 192.0.2.0/24"))
        self.assertEqual((status(), status(header)), (0, 0))
        self.reload(config + "vcl: bad.vcl\n", REFUSED)
        self.assertEqual((status(), status(header)), (0, 0))  # refused: as it was
        self.reload(config, listen=listen("name: front"))
        self.assertEqual(status(), 200)
        self.assertEqual(self.post(before), 200)
        listen = json.loads(self.ctl("--json", "status"))["listen"]
        self.assertEqual([each["name"] for each in listen], ["front"])

    def test_a_unix_socket_gets_another_mode_in_place(self):
        a = named("a")
        config = f"backends: {{ o: {{ address: '{a.address}' }} }}\n"
        self.start(config)
        path = os.path.join(self.tarnd.dir, "in.sock")

        def listen(more):
            return ("listen:\n  - { address: '127.0.0.1:0' }\n"
                    f"  - {{ address: 'unix:{path}', {more} }}\n")

        def file():
            at = os.stat(path)
            return f"{at.st_mode & 0o7777:o}", at.st_uid, at.st_gid, at.st_ino

        self.reload(config, listen=listen("mode: 0600"))
        mine = file()[1:]
        self.assertEqual(file(), ("600", *mine))
        self.assertIn(f"listen.unix:{path}.mode: changed",
                      self.reload(config, listen=listen("mode: 0660")))
        self.assertEqual(file(), ("660", *mine))  # the same file
        said = self.reload(config, REFUSED, listen=listen("mode: 0644, user: no-such-user"))
        self.assertIn("there is no user 'no-such-user'", said)
        self.assertEqual(file(), ("660", *mine))
        self.reload(config + "vcl: bad.vcl\n", REFUSED, listen=listen("mode: 0644"))
        self.assertEqual(file(), ("660", *mine))  # refused for something else
        self.reload(config, listen=listen(f"mode: 0640, user: {os.getuid()}, group: {os.getgid()}"))
        self.assertEqual(file(), ("640", *mine))
        os.chmod(path, 0o604)
        self.reload(config + "parameters: { default_ttl: 3s }\n",
                    listen=listen(f"mode: 0640, user: {os.getuid()}, group: {os.getgid()}"))
        self.assertEqual(file(), ("604", *mine))  # nothing new was said of it
        self.reload(config, listen=listen("mode: 0666"))
        self.assertEqual(file(), ("666", *mine))

    def test_whom_the_admin_listener_lets_in(self):
        a, me = named("a"), os.getuid()
        config = f"backends: {{ o: {{ address: '{a.address}' }} }}\n"
        self.start(config)

        def allow(who, status=DONE):
            self.write(config, allow=f", allow: {who}")
            return self.ctl("reload", status=status)

        said = allow(f"{{ read: ['user:{me + 1}'], write: ['user:{me}'] }}")
        self.assertIn("admin.allow: changed", said)
        self.ctl("status")
        allow("{ read: ['user:nobody-has-this-name'] }", REFUSED)
        self.ctl("status")
        allow(f"{{ read: ['user:{me}'], write: ['user:{me + 1}'] }}")
        self.ctl("status")
        self.assertIn(f"allow.write does not have uid {me}", self.ctl("reload", status=REFUSED))
        self.write(config)
        self.tarnd.process.send_signal(signal.SIGHUP)  # who writes the file can still tell it
        self.wait_for("it is read", lambda: self.logged().count("reload: admin.allow") == 3)
        self.ctl("reload")

    def test_an_address_that_is_taken_is_told_and_nothing_changes(self):
        a, taken = named("a"), named("taken")
        config = f"backends: {{ o: {{ address: '{a.address}' }} }}\n"
        self.start(config)
        said = self.reload(config + "parameters: { default_ttl: 9s }\n", REFUSED,
                           listen=f"listen:\n  - address: 127.0.0.1:0\n  - address: {taken.address}\n")
        self.assertIn(f"cannot listen on {taken.address}", said)
        self.assertIn(" 0s", self.ctl("param", "list", "default_ttl"))
        self.assertEqual(self.body("/x"), "a")

    def test_a_backend_that_becomes_our_listener_is_refused_and_nothing_changes(self):
        a = named("a")
        config = f"backends: {{ o: {{ address: '{a.address}' }} }}\n"
        self.start(config)
        said = self.reload(config, REFUSED,
                           listen=f"listen:\n  - address: 127.0.0.1:0\n  - address: \"*:{a.address.split(':')[1]}\"\n")
        self.assertIn(f"address: '{a.address}' is the listener 'listen1'", said)
        self.assertEqual(self.body("/x"), "a")

    def test_limits_and_trusted_proxies_come_and_go(self):
        origin = named("a")
        config = f"backends: {{ o: {{ address: '{origin.address}' }} }}\n"
        limits = "limits: [{path: /few, rate: 1, per: 1h}]\n"

        def status(*lines):
            return self.tarnd.ask("/few", *lines).status

        self.start(config)
        self.assertEqual([status() for _ in range(3)], [200] * 3)
        self.assertIn("limits: changed\n", self.reload(config + limits))
        tarnd.wait_until(lambda: status() == 429, "nobody is limited")
        self.assertEqual(self.body("/many"), "a")
        self.reload(config + limits + "trusted_proxies: 127.0.0.1\n")
        tarnd.wait_until(lambda: status("X-Forwarded-For: 192.0.2.1") == 200, "nobody is trusted")
        tarnd.wait_until(lambda: status("X-Forwarded-For: 192.0.2.1") == 429, "still not limited")
        self.reload(config)
        tarnd.wait_until(lambda: status() == 200, "still limited")

    def test_included_files_are_read_anew(self):
        a, b = named("a"), named("b")
        self.start(f"backends: {{ o: {{ address: '{a.address}' }} }}\n")
        folder = os.path.join(self.tarnd.dir, "conf.d")
        config = (f"backends: {{ o: {{ address: '{a.address}' }} }}\ninclude: conf.d/*.yaml\n"
                  "routes: [ { path: /a, backend: o } ]\n")
        self.assertIn("0 changes", self.reload(config.replace(
            "routes: [ { path: /a, backend: o } ]\n", "")))  # no folder: nothing matches
        os.mkdir(folder)

        def put(name, text):
            with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
                f.write(text)

        put("one.yaml", f"backends: {{ p: {{ address: '{b.address}' }} }}\n"
                        "routes: [ { path: /b, backend: p } ]\n")
        said = self.reload(config)
        self.assertIn("routes: changed", said)
        self.assertIn("backends.p", said)
        self.assertEqual((self.body("/a"), self.body("/b")), ("a", "b"))
        self.assertIn("0 changes", self.ctl("reload"))
        put("one.yaml", f"backends: {{ p: {{ address: '{b.address}' }} }}\n"
                        "routes: [ { path: /b, backend: p, ttl: 5q } ]\n")
        said = self.ctl("reload", status=REFUSED)
        self.assertRegex(said, r"conf\.d/one\.yaml:2:40: ttl: '5q' has an unknown unit")
        self.assertEqual(self.body("/b"), "b")
        put("one.yaml", f"backends: {{ o: {{ address: '{b.address}' }} }}\n")
        said = self.ctl("reload", status=REFUSED)
        self.assertRegex(said, r"conf\.d/one\.yaml:1:13: duplicate key 'o', first in .*tarn\.yaml:\d+:13: remove one")
        # A policy of an included file begins at that file, and counts as any.
        put("one.yaml", "vcl: p.vcl\n")
        put("p.vcl", 'vcl 4.1;\nsub vcl_deliver { set resp.http.X-P = "1"; }\n')
        self.ctl("reload")
        self.assertEqual(self.tarnd.ask("/a").fields.get("x-p"), "1")
        put("p.vcl", 'vcl 4.1;\nsub vcl_deliver { set resp.http.X-P = "2"; }\n')
        self.ctl("reload")
        self.assertEqual(self.tarnd.ask("/a").fields.get("x-p"), "2")
        put("page.html", "sorry")
        put("one.yaml", "backends: { dead: { address: '127.0.0.1:1' } }\n"
                        "routes: [ { path: /gone, backend: dead, error_page: page.html } ]\n")
        self.ctl("reload")
        self.assertEqual(self.tarnd.ask("/gone").body, b"sorry")
        os.unlink(os.path.join(folder, "one.yaml"))
        self.ctl("reload")
        self.assertIsNone(self.tarnd.ask("/a").fields.get("x-p"))

    def test_the_policy_is_read_anew(self):
        a, b = named("a"), named("b")
        config = f"backends: {{ o: {{ address: '{a.address}' }} }}\nvcl: p.vcl\n"
        text = 'vcl 4.1;\nsub vcl_deliver {{ set resp.http.X-P = "{}"; }}\n'
        self.start(f"backends: {{ o: {{ address: '{a.address}' }} }}\n")
        self.policy("p.vcl", text.format(1))
        self.reload(config)
        self.assertEqual(self.tarnd.ask("/x").fields.get("x-p"), "1")
        self.policy("p.vcl", text.format(2))
        self.reload(config)
        self.assertEqual(self.tarnd.ask("/x").fields.get("x-p"), "2")
        self.policy("p.vcl", "vcl 4.1;\nsub vcl_deliver { sett resp.http.X-P = 3; }\n")
        said = self.reload(config, REFUSED)
        self.assertIn("p.vcl:2:", said)
        self.assertEqual(self.tarnd.ask("/x").fields.get("x-p"), "2")
        # The policy's backends are those of the file it was read with.
        self.policy("p.vcl", text.format(4))
        self.reload(f"backends: {{ o: {{ address: '{b.address}' }} }}\nvcl: p.vcl\n")
        self.assertEqual(self.body("/x"), "b")
        self.wait_for("policies of before have gone", lambda: len(json.loads(
            self.ctl("--json", "vcl", "list"))["policies"]) == 1)
        self.reload(f"backends: {{ o: {{ address: '{b.address}' }} }}\n")  # and none again
        self.assertIsNone(self.tarnd.ask("/x").fields.get("x-p"))

    def became(self):
        return json.loads(self.ctl("--json", "reload"))

    def test_a_reload_keeps_the_policy_loaded_by_hand_until_the_files_text_changes(self):
        a, b = named("a"), named("b")
        config = "backends: {{ o: {{ address: '{}' }} }}\nvcl: p.vcl\n"
        text = 'vcl 4.1;\ninclude "i.vcl";\nsub vcl_deliver {{ set resp.http.X-P = "{}"; }}\n'
        used = lambda: self.tarnd.ask("/x").fields.get("x-p")
        self.start(f"backends: {{ o: {{ address: '{a.address}' }} }}\n")
        self.policy("p.vcl", text.format(1))
        self.policy("i.vcl", "# one\n")
        self.assertIn("policy: boot.1 from p.vcl, text changed\n",
                      self.reload(config.format(a.address)))
        self.policy("hand.vcl", text.format("hand").replace('include "i.vcl";\n', ""))
        self.ctl("vcl", "load", "fix", os.path.join(self.tarnd.dir, "hand.vcl"))
        said = self.ctl("reload")  # loaded by hand, not in use
        self.assertIn(": 0 changes\npolicy: kept boot.1, p.vcl has not changed\n", said)
        self.ctl("vcl", "use", "fix")
        said = self.ctl("reload")
        self.assertIn(": 0 changes\npolicy: kept fix, loaded by hand\n", said)
        self.assertEqual(used(), "hand")
        self.assertIn("0 changes; policy: kept fix, loaded by hand", self.logged())
        became = self.became()
        self.assertEqual((became["changed"], became["policy"]["name"], became["policy"]["by_hand"],
                          became["policy"]["text_changed"]), ([], "fix", True, False))
        # It runs with the current backends, and a text that names one that is gone is refused.
        said = self.reload(config.format(b.address))
        self.assertIn(": 1 change\npolicy: kept fix, loaded by hand; loaded again for the current "
                      "backends\n", said)
        self.assertEqual((self.body("/y"), used()), ("b", "hand"))
        # What an include says is the policy's text, too.
        self.policy("i.vcl", "# two\n")
        said = self.ctl("reload")
        self.assertIn("vcl: fix -> boot.2, text changed\n", said)
        self.assertIn(": 1 change\npolicy: boot.2 from p.vcl, text changed\n", said)
        self.assertEqual(used(), "1")
        self.policy("p.vcl", text.format(2))
        became = self.became()
        self.assertEqual([c["what"] for c in became["changed"]], ["vcl"])
        self.assertEqual((became["policy"]["name"], became["policy"]["by_hand"]), ("boot.3", False))
        self.assertEqual(used(), "2")
        # A file that names no policy any more is a change; one that never did is none.
        none = f"backends: {{ o: {{ address: '{b.address}' }} }}\n"
        self.assertIn("policy: none: the file names none\n", self.reload(none))
        self.ctl("vcl", "use", "fix")
        self.assertIn(": 0 changes\npolicy: kept fix, loaded by hand\n", self.reload(none))
        self.assertEqual(used(), "hand")

    def test_a_reload_compiles_labelled_policies_for_the_backends_of_now(self):
        a, b = named("a"), named("b")
        config = "backends: {{ {}: {{ address: '{}' }} }}\nvcl: p.vcl\n"
        self.start(f"backends: {{ o: {{ address: '{a.address}' }} }}\n")
        self.policy("inner.vcl", "vcl 4.1;\nsub vcl_recv { set req.backend_hint = o; return (pass); }\n")
        self.ctl("vcl", "load", "inner", os.path.join(self.tarnd.dir, "inner.vcl"))
        self.ctl("vcl", "label", "l", "inner")
        self.policy("p.vcl", "vcl 4.1;\nsub vcl_recv { return (vcl(l)); }\n")
        self.reload(config.format("o", a.address))
        self.assertEqual(self.body("/x"), "a")
        self.reload(config.format("o", b.address))
        self.assertEqual(self.body("/x"), "b")
        said = self.reload(config.format("other", b.address), REFUSED)
        self.assertIn("inner: 1 error", said)
        self.assertIn("inner:2:", said)
        self.assertEqual(self.body("/x"), "b")
        listed = json.loads(self.ctl("--json", "vcl", "list"))["policies"]
        self.assertEqual(sorted((p["name"], p["state"]) for p in listed if p["state"] != "discarded"),
                         [("boot.1", "active"), ("inner", "warm"), ("l", "label")])

    def test_the_storage_grows_and_shrinks(self):
        a = named("a")
        config = f"backends: {{ o: {{ address: '{a.address}' }} }}\nstorage: {{ main: {{ size: %s }} }}\n"
        self.start(config % "64MiB")

        def size():
            return json.loads(self.ctl("--json", "storage", "stats"))["size"]

        self.assertEqual(size(), 64 << 20)
        self.assertEqual(self.body("/keep"), "a")
        self.assertIn("storage.main.size: 64MiB -> 256MiB", self.reload(config % "256MiB"))
        self.wait_for("it has grown", lambda: size() == 256 << 20)
        self.reload(config % "96MiB")
        self.wait_for("it has shrunk", lambda: size() == 96 << 20)
        with a.lock:
            a.requests.clear()
        self.assertEqual(self.body("/keep"), "a")
        self.assertEqual(a.requests["/keep"], 0)  # what fits has stayed
        self.assertIn("its tables take", self.reload(config % "64KiB", REFUSED))

    def test_a_reload_takes_the_file_that_runs_whatever_its_tables_take(self):
        """Negative cache and limits in a small store: more than half of it, and start took that."""
        a = named("a")
        config = (f"backends: {{ o: {{ address: '{a.address}' }} }}\nnegative_cache: {{}}\n"
                  "limits: [{path: /few, rate: 100}]\n%s")
        store = "storage: { main: { size: %s } }\n"
        self.start(config % (store % "8MiB"))
        self.assertEqual(self.body("/few"), "a")  # the first that is counted makes the table
        self.assertIn(": 0 changes\n", self.reload(config % (store % "8MiB")))
        self.reload(config % (store % "9MiB"))
        said = self.reload(config % (store % "7MiB"))
        self.assertIn("storage.main.size: 9MiB -> 7MiB", said)
        more = config % (store % "7MiB") + "parameters: { limit_keys: 1000000 }\n"
        said = self.reload(more, REFUSED)
        self.assertIn("limits: 1000000 limit_keys take 8192 KiB, the other tables 3125 KiB, and "
                      "storage 'main' has 7168 KiB; three quarters is the most", said)
        checked = subprocess.run([program, "-t", "-c", self.tarnd.config], capture_output=True,
                                 text=True, timeout=tarnd.PATIENCE_S, check=False)
        self.assertIn("three quarters is the most", checked.stderr)  # as a start does

    def test_sighup_does_the_same(self):
        a, b = named("a"), named("b")
        self.start(f"backends: {{ o: {{ address: '{a.address}' }} }}\n")
        self.write(f"backends: {{ o: {{ address: '{b.address}' }} }}\n")
        self.tarnd.process.send_signal(signal.SIGHUP)
        self.wait_for("b is asked", lambda: self.body("/x") == "b")
        self.write("backends: {}\n")
        self.tarnd.process.send_signal(signal.SIGHUP)
        self.wait_for("the mistake is told", lambda: "section 'backends' is empty" in self.logged())
        self.assertEqual(self.body("/x"), "b")

    def test_nobody_is_failed_by_many_of_them(self):
        a, b = named("a"), named("b")
        config = ("backends: {{ o: {{ address: '{}' }} }}\nvcl: p.vcl\n"
                  "parameters: {{ default_ttl: {}s }}\n")
        self.start(f"backends: {{ o: {{ address: '{a.address}' }} }}\n")
        self.policy("p.vcl", "vcl 4.1;\nsub vcl_deliver { set resp.http.X-P = req.url; }\n")
        over, failed, asked = threading.Event(), [], [0] * 4

        def ask(n):
            while not over.is_set():
                answer = self.tarnd.ask(f"/{'keep' if n % 2 else 'x'}/{asked[n] % 50}")
                asked[n] += 1
                if answer.status != 200 or answer.body not in (b"a", b"b"):
                    failed.append(answer.data[:200])

        threads = [threading.Thread(target=ask, args=(n,)) for n in range(len(asked))]
        for t in threads:
            t.start()
        for i in range(40):
            self.reload(config.format((a if i % 2 else b).address, i + 1))
        over.set()
        for t in threads:
            t.join()
        self.assertEqual(failed, [])
        self.assertGreater(min(asked), 0)


if __name__ == "__main__":
    program, ctl = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=1)
