#!/usr/bin/env python3
"""night.py TARND TARNCTL -- a night's story: all that an operator does to a tarnd, under load.

tarnd --supervise has two origins, and wrk asks 200 times a second throughout (night.lua).  Act by
act it is watched; its policy and its configuration change, and are wrong; an origin is killed, then
both, then the process that serves; the binary is replaced, the access log rotated.  Each act waits
for what it brings about and sees it as an operator does.  In the end a table says how many requests
were sent in each, and failed.

A request fails if it gets no answer, another status than 200, or another body.  None may fail, but

- while both origins are down: 502, 503 or 504 for a target of which nothing is stored;
- at the death of the process that serves, what it had accepted and not answered: without any
  answer, one for each connection at most, and sent before the supervisor knew of it.  Asked again
  at once, as clients may and do (RFC 9110 9.2.2), it is answered.  (Of 60 such deaths on a busy
  machine 28 cost none and 29 one; three cost 2, 4 and 8.  What is sent in the milliseconds that the
  kernel needs to take the process apart is among these.)

Idle connections that die with that process are no failed requests.  wrk counts them as read errors,
which tell nothing, therefore; but nobody is ever refused a connection.

TARN_NIGHT_SECONDS is the least that an act lasts (default: 1).  Without wrk it is skipped (77).
"""
import collections
import contextlib
import glob
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True
import tarnd
from night_load import CONNECTIONS, Load
from origin import Handler, Origin
from supervised import Supervised

SECONDS = float(os.environ.get("TARN_NIGHT_SECONDS", "1"))
PAGES = range(10, 50)  # of night.lua
SKIPPED = 77
DONE, REFUSED = 0, 1
# Backends begin healthy, for a tarnd that has just started is asked at once.
CONFIG = """
workers: 2
admin: {{ address: "unix:{{dir}}/admin.sock" }}
storage: {{ main: {{ size: 32MiB }} }}
probes:
  well: {{ url: /probe, interval: 100ms, timeout: 5s, window: 4, threshold: 2 }}
backends:
  first: {{ address: "{first}", probe: well, eject_after: 1, eject_for: 1s }}
  second: {{ address: "{second}", probe: well, eject_after: 1, eject_for: 1s }}
directors:
  both: {{ backends: [first, second] }}
vcl: "{home}/night.vcl"
parameters:
  timeout_idle: 10m
  default_grace: 1h
  access_log: "{home}/access.log"
  access_log_format: json
"""
POLICY = """vcl 4.1;

sub vcl_backend_fetch {{
    unset bereq.http.X-Night;
}}

# The other origin may be well.
sub vcl_backend_error {{
    if (bereq.retries < 2) {{
        return (retry);
    }}
}}

sub vcl_deliver {{
    set resp.http.X-Night = req.http.X-Night;
    set resp.http.X-Policy = "{name}";
}}

sub vcl_synth {{
    set resp.http.X-Night = req.http.X-Night;
}}
"""
program = ctl = None


class Shop(Handler):
    """An origin of night.lua's targets.  An answer is one write: all or nothing."""

    wbufsize = 65536

    def do_GET(self):
        body = (self.path + "\n").ljust(1000, ".").encode()
        kind = self.path.split("/")[1]
        known = kind == "page" and self.headers.get("If-None-Match") == '"1"'
        self.send_response(304 if known else 200)
        kept = {"page": "max-age=1", "new": "max-age=60"}
        self.send_header("Cache-Control", kept.get(kind, "no-store"))
        if kind == "page":
            self.send_header("ETag", '"1"')
        if not known:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if not known:
            self.wfile.write(body)


class Killable:
    """An origin that is a process.  While it is dead its port is bound, but nobody listens."""

    def __init__(self):
        self.reserved = socket.socket()
        self.reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.reserved.bind(("127.0.0.1", 0))
        self.port = self.reserved.getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            [sys.executable, os.path.abspath(__file__), "--origin", str(self.port)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.process.stdout.readline() == b"ready\n"

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()

    def tidy(self):
        self.kill()
        self.reserved.close()


class Act:
    def __init__(self, name):
        self.name, self.began, self.ended, self.note = name, time.monotonic(), float("inf"), ""


class Night(unittest.TestCase):
    def setUp(self):
        self.home = tempfile.mkdtemp(prefix="tarn-night.")
        self.addCleanup(shutil.rmtree, self.home)
        self.origins = {name: Killable() for name in ("first", "second")}
        for each in self.origins.values():
            self.addCleanup(each.tidy)
        self.acts = []
        self.write_policy("evening")
        self.it = Supervised(program, CONFIG.format(
            home=self.home, **{name: o.address for name, o in self.origins.items()}))
        self.addCleanup(self.it.tidy)

    # What an operator has.

    def path(self, name):
        return os.path.join(self.home, name)

    def write_policy(self, name, file="night.vcl"):
        with open(self.path(file), "w", encoding="ascii") as f:
            f.write(POLICY.format(name=name))

    def ctl(self, *args, status=DONE):
        done = subprocess.run([ctl, "--admin", f"unix:{self.it.admin}", *args],
                              capture_output=True, text=True, timeout=tarnd.PATIENCE_S)
        self.assertEqual(done.returncode, status, f"{args}: {done.stdout} {done.stderr}")
        return done.stdout if status == DONE else done.stderr

    def json_of(self, *args):
        return json.loads(self.ctl("--json", *args))

    def wait_for_health(self, **healthy):
        def there():
            listed = self.json_of("backend", "list")["backends"]
            return {b["name"]: b["healthy"] for b in listed} == healthy

        tarnd.wait_until(there, f"backends are {healthy}")

    def why(self, target):
        return self.ctl("why", f"http://127.0.0.1:{self.it.port}{target}")

    def policy(self):
        return self.it.ask("/page/10").fields.get("x-policy")

    # What the load sees.

    def wait_for_answers(self, kind, statuses=(200,), since=None):
        """Until one that is sent from now on has its answer."""
        since = time.monotonic() if since is None else since

        def it(r):
            return r.sent >= since and r.target.startswith(kind) and r.status in statuses

        self.load.wait_for(it, f"{kind}... is answered with one of {statuses}")

    def wait_for_pages(self, since):
        """Until each page was asked for and answered."""
        for n in PAGES:
            self.wait_for_answers(f"/page/{n}", since=since)

    @contextlib.contextmanager
    def act(self, name):
        act = Act(name)
        self.acts.append(act)
        yield
        time.sleep(max(0, act.began + SECONDS - time.monotonic()))
        for kind in ("/page/", "/new/", "/pass/"):
            self.wait_for_answers(kind, (200, 502, 503, 504))
        act.ended = time.monotonic()

    # The acts.

    def start(self):
        self.wait_for_health(first=True, second=True)
        self.load = Load(self.it.port, self.home, int(170 + 30 * SECONDS))
        self.addCleanup(self.load.tidy)
        self.wait_for_pages(0)
        self.assertEqual(self.policy(), "evening")

    def watch(self):
        out = self.ctl("status")
        self.assertRegex(out, r"(?m)^state +running$")
        self.assertRegex(out, rf"(?m)^process +{self.it.child()}, for ")
        self.assertGreater(self.json_of("stat")["req.hit"], 0)
        self.assertRegex(self.ctl("stat", "req."), r"(?m)^req\.miss +\d+$")
        self.assertRegex(self.ctl("log", "--count", "3", "--format", "combined", "--url", "/page/"),
                         r'^(127\.0\.0\.1 .* "GET /page/\d+ HTTP/1\.1" 200 .*\n){3}$')
        self.assertIn("/pass/", self.ctl("log", "--count", "1", "--miss", "--url", "/pass/"))
        self.assertIn("/page/", self.ctl("top", "--every", "0.5", "--count", "2", "--limit", "50"))
        self.assertRegex(self.ctl("hist"), r"(?m)^hit +\d+ ")
        for name in self.origins:
            self.assertIn(name, self.ctl("backend", "list"))

    def change_policy(self):
        self.write_policy("midnight", "midnight.vcl")
        self.ctl("vcl", "load", "midnight", self.path("midnight.vcl"))
        self.assertEqual(self.policy(), "evening")
        self.ctl("vcl", "use", "midnight")
        tarnd.wait_until(lambda: self.policy() == "midnight", "the new policy counts")
        with open(self.path("wrong.vcl"), "w", encoding="ascii") as f:
            f.write("vcl 4.1;\nsub vcl_recv { return (lokup); }\n")
        said = self.ctl("vcl", "load", "wrong", self.path("wrong.vcl"), status=REFUSED)
        self.assertIn("did you mean lookup?", said)
        self.assertEqual(self.policy(), "midnight")

    def reload_with_mistakes(self):
        self.it.edit(lambda text: text.replace("default_grace", "default_grcae"))
        self.assertIn("did you mean 'default_grace'?", self.ctl("reload", status=REFUSED))
        self.it.process.send_signal(signal.SIGHUP)
        self.it.wait_for_words("nothing has changed", 2)
        self.it.edit(lambda text: text.replace("default_grcae", "default_grace"))
        os.rename(self.path("night.vcl"), self.path("kept.vcl"))
        shutil.copy(self.path("wrong.vcl"), self.path("night.vcl"))
        self.assertIn("night.vcl:2:", self.ctl("reload", status=REFUSED))
        self.assertEqual(self.policy(), "midnight")

    def reload(self):
        self.write_policy("morning")
        self.it.edit(lambda text: text.replace("default_grace: 1h", "default_grace: 2h"))
        self.assertIn("parameters.default_grace: 1h -> 2h", self.ctl("reload"))
        tarnd.wait_until(lambda: self.policy() == "morning", "the file's policy counts")
        self.it.process.send_signal(signal.SIGHUP)
        self.it.wait_for_words("reload: .*: 0 changes")

    def kill_one_origin(self):
        self.origins["first"].kill()
        self.wait_for_health(first=False, second=True)
        self.wait_for_answers("/pass/")
        self.wait_for_answers("/new/")

    def bring_it_back(self):
        self.origins["first"].start()
        self.wait_for_health(first=True, second=True)

    def kill_both_origins(self):
        for each in self.origins.values():
            each.kill()
        self.wait_for_health(first=False, second=False)
        self.wait_for_answers("/pass/", (502, 503, 504))
        self.wait_for_answers("/new/", (502, 503, 504))
        time.sleep(max(1, SECONDS))  # pages are fresh for a second
        before = self.json_of("stat")["req.stale"]
        self.wait_for_pages(time.monotonic())
        tarnd.wait_until(lambda: self.json_of("stat")["req.stale"] >= before + len(PAGES), "they are counted")
        self.assertIn("stale", self.why("/page/10"))
        for each in self.origins.values():
            each.start()
        self.wait_for_health(first=True, second=True)
        self.wait_for_answers("/pass/")

    def kill_the_daemon(self):
        self.wait_for_answers("/page/")
        old = self.it.child()
        killed = time.monotonic()
        os.kill(old, signal.SIGKILL)
        self.it.wait_for_words(f"tarnd {old} was killed by signal 9")
        self.death_known = time.monotonic()
        self.wait_for_answers("/page/", since=self.death_known)
        self.acts[-1].note = f"served again after {time.monotonic() - killed:.2f} s"
        self.assertNotEqual(self.it.child(), old)
        self.assertRegex(self.ctl("status"), r"(?m)^state +running$")
        self.wait_for_pages(self.death_known)
        self.assertEqual(self.policy(), "morning")

    def upgrade(self):
        old = self.it.child()
        shutil.copy(program, self.it.binary + ".new")
        os.rename(self.it.binary + ".new", self.it.binary)
        new = self.it.upgrade()
        self.assertNotEqual(new, old)
        self.assertEqual(os.readlink(f"/proc/{new}/exe"), self.it.binary)
        self.assertEqual(os.readlink(f"/proc/{self.it.process.pid}/exe"), self.it.binary)
        self.it.wait_for_words(f"tarnd {old}, which retired, ended with status 0")
        self.assertEqual(self.policy(), "morning")

    def rotate(self):
        os.rename(self.path("access.log"), self.path("access.log.1"))
        self.it.process.send_signal(signal.SIGUSR1)
        tarnd.wait_until(lambda: any(map(os.path.getsize, glob.glob(self.path("access.log")))),
                         "a new access log is written to")

    def end(self):
        self.errors = self.load.stop()
        self.assertEqual(self.json_of("stat")["log.lost_access"], 0)
        self.it.terminate()
        self.assertEqual(self.it.process.wait(timeout=tarnd.PATIENCE_S), 0, self.it.said())

    # What is to be said of it.

    def excuse(self, request):
        """The act in which this request may have failed, or None."""
        down, death = self.by_name["kill both origins"], self.by_name["kill the daemon"]
        ended = request.ended or self.acts[-1].ended
        if request.status in (502, 503, 504) and request.sent <= down.ended and ended >= down.began:
            return down if request.target not in self.stored else None
        # What was sent a second before may have been under way still.
        if request.status is None and death.began - 1 <= request.sent <= self.death_known:
            return death if request.again is not None and request.again.status == 200 else None
        return None

    def judge(self):
        self.by_name = {act.name: act for act in self.acts}
        sent, failed, wrong = collections.Counter(), collections.Counter(), []
        down = self.by_name["kill both origins"]
        requests = list(self.load.read())
        self.stored = {r.target for r in requests if r.status == 200 and r.ended < down.began
                       and not r.target.startswith("/pass/")}
        for r in requests:
            act = next((a for a in self.acts if r.sent < a.ended), self.acts[-1])
            sent[act.name] += 1
            if r.failed():
                excuse = self.excuse(r)
                failed[(excuse or act).name] += 1
                if excuse is None:
                    wrong.append((act.name, r))
        self.show(sent, failed)
        self.assertEqual((wrong, self.load.strays), ([], []))
        self.assertLessEqual(failed["kill the daemon"], CONNECTIONS)
        self.assertGreater(failed["kill both origins"], 0)
        self.assertEqual(self.errors["connect"], 0)

    def show(self, sent, failed):
        print(f"{'':22}{'requests':>9}{'failed':>8}{'seconds':>9}", file=sys.stderr)
        for a in self.acts:
            numbers = f"{sent[a.name]:9}{failed[a.name]:8}{a.ended - a.began:9.1f}"
            print(f"{a.name:22}{numbers}  {a.note}".rstrip(), file=sys.stderr)
        print(f"{'':22}{sum(sent.values()):9}{sum(failed.values()):8}"
              f"{self.acts[-1].ended - self.acts[0].began:9.1f}", file=sys.stderr)

    def judge_access_log(self):
        """Each /new/ that was answered has one line; but the last moments of who was killed."""
        lines = collections.Counter()
        for name in ("access.log.1", "access.log"):
            with open(self.path(name), encoding="utf-8") as f:
                lines.update(o["url"] for o in map(json.loads, f) if o["url"].startswith("/new/"))
        twice = {r.target for r in self.load.read() if r.again is not None}
        self.assertEqual({n for target, n in lines.items() if target not in twice}, {1})
        death = self.by_name["kill the daemon"]
        missing = [r for r in self.load.read()
                   if r.target.startswith("/new/") and r.ended is not None and r.target not in lines
                   and not death.began - 1 <= r.ended <= self.death_known]
        self.assertEqual(missing, [])

    def play(self):
        story = [("start", self.start), ("watch", self.watch),
                 ("change the policy", self.change_policy),
                 ("reload with mistakes", self.reload_with_mistakes), ("reload", self.reload),
                 ("kill an origin", self.kill_one_origin), ("bring it back", self.bring_it_back),
                 ("kill both origins", self.kill_both_origins),
                 ("kill the daemon", self.kill_the_daemon),
                 ("upgrade the binary", self.upgrade), ("rotate the log", self.rotate)]
        for name, what in story:
            with self.act(name):
                what()
        self.end()

    def test_nobody_notices(self):
        try:
            self.play()
            self.judge()
            self.judge_access_log()
        except Exception:
            print(self.it.said(), file=sys.stderr)
            raise


def serve(port):
    """An origin, until whoever started it has gone."""
    Origin(Shop, port)
    print("ready", flush=True)
    sys.stdin.read()


def main():
    global program, ctl
    if sys.argv[1:2] == ["--origin"]:
        return serve(int(sys.argv[2]))
    if len(sys.argv) < 3:
        sys.exit("usage: night.py TARND TARNCTL [TEST...]")
    program, ctl = (os.path.abspath(sys.argv.pop(1)) for _ in range(2))
    if shutil.which("wrk") is None:
        print("wrk is not here", file=sys.stderr)
        sys.exit(SKIPPED)
    unittest.main(verbosity=2)


if __name__ == "__main__":
    main()
