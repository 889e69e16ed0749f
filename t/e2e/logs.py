#!/usr/bin/env python3
"""logs.py TARND TARNCTL LOG_TAIL LIBRARY [--requests N] [--rate R] [TEST...] -- who reads what tarnd logs.

The access log as JSON and to syslog; `tarnctl log`: its formats, filters and ends, what it says when
it was too slow; and the example of a reader (t/examples/log_tail.c).  N: of the tests under load; R: how
many a second, where nobody stands still (by hand: Loss at 20000 loses none on a machine that is quiet).
"""
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
import h2_client
import h2_client
import tarnd
from origin import Origin

DONE, REFUSED, USAGE, UNREACHABLE = range(4)
ATTACHED = 128  # of a ring's first page: a bit for each reader that wants the details
CONFIG = """
workers: 1
admin: {{ address: "unix:{home}/admin.sock" }}
backends:
  default: {{ address: "{origin}" }}
parameters: {{ shm_dir: "{home}/shm", {more} }}
"""
SHOWN = re.compile(r"(?m)^\d\d:\d\d:\d\d\.\d{3} (\d+) (\S+) (\S+) (\S+), ")
BATCH = 100
program = ctl = log_tail = library = origin = None
requests, rate = 3000, 0


class Follower:
    """A tarnctl log that runs; its output goes to a file, so that it never waits for us."""

    def __init__(self, home, *args, stdout=None):
        self.path = os.path.join(home, f"follower.{time.monotonic_ns()}")
        with open(self.path, "wb") as f:
            self.process = subprocess.Popen(
                [ctl, "--admin", f"unix:{home}/admin.sock", "log", *args],
                stdout=f if stdout is None else stdout, stderr=subprocess.PIPE, text=True)

    def out(self):
        with open(self.path, encoding="utf-8") as f:
            return f.read()

    def end(self, sig=None):
        """(exit status, standard output, standard error)"""
        if sig is not None:
            self.process.send_signal(sig)
        _, err = self.process.communicate(timeout=tarnd.PATIENCE_S)
        return self.process.returncode, self.out(), err

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()


class Case(unittest.TestCase):
    def setUp(self):
        self.home = tempfile.mkdtemp(prefix="tarn-logs.")
        self.addCleanup(shutil.rmtree, self.home, ignore_errors=True)
        self.tarnd = None

    def start(self, more="", listener=""):
        config = listener + CONFIG.format(home=self.home, origin=origin.address, more=more)
        self.tarnd = tarnd.Tarnd(program, config, stderr=subprocess.DEVNULL)
        self.addCleanup(self.tarnd.tidy)

    def stop(self):
        self.assertEqual(self.tarnd.close(), 0)

    def ask(self, target="/body?n=10&framing=length", *lines, **more):
        answer = self.tarnd.ask(target, *lines, **more)
        self.assertGreaterEqual(answer.status, 200)
        return answer

    def log(self, *args, status=DONE):
        done = subprocess.run([ctl, "--admin", f"unix:{self.home}/admin.sock", "log", *args],
                              capture_output=True, text=True, timeout=tarnd.PATIENCE_S)
        self.assertEqual(done.returncode, status, f"{args}: {done.stdout} {done.stderr}")
        self.assertEqual(done.stderr == "", status == DONE, done.stderr)
        return done.stdout if status == DONE else done.stderr

    def held(self, *args):
        """What the rings hold, as the access log has it."""
        return [json.loads(line) for line in self.log("--all", "--json", *args).splitlines()]

    def wait_held(self, n):
        """A request is logged when it is over: a moment after its answer."""
        tarnd.wait_until(lambda: len(self.held()) >= n, f"{n} requests in the log")

    def follow(self, *args, **more):
        f = Follower(self.home, *args, **more)
        self.addCleanup(f.kill)
        return f

    def attached(self):
        with open(f"{self.home}/shm/log.0", "rb") as f:
            f.seek(ATTACHED)
            return f.read(8) != bytes(8)

    def follow_details(self, *args):
        f = self.follow(*args)
        tarnd.wait_until(self.attached, "a reader that wants the details")
        return f

    def load(self, n, per_second=0):
        """n hits, as fast as one connection gets them, or so many a second."""
        self.ask()
        began = time.monotonic()
        text = tarnd.request("/body?n=10&framing=length")
        with self.tarnd.connect() as s:
            for at in range(0, n, BATCH):
                if per_second > 0:
                    time.sleep(max(0, began + at / per_second - time.monotonic()))
                s.sendall(text * min(BATCH, n - at))
                left, tail = min(BATCH, n - at), b""
                while left > 0:
                    more = s.recv(1 << 20)
                    self.assertTrue(more, "the connection was closed")
                    data = tail + more
                    left -= data.count(b"HTTP/1.1 200 ")
                    tail = data[-12:]  # one byte short of what is counted
        return n + 1


class AccessLog(Case):
    def test_a_line_of_json_for_each_request(self):
        path = os.path.join(self.home, "access.log")
        self.start(f'access_log: "{path}", access_log_format: json')
        self.ask("/body?n=10&framing=length", "User-Agent: one")
        self.ask("/body?n=10&framing=length", "User-Agent: two", "Referer: http://a/\"b\"")
        with self.tarnd.connect() as s:
            s.sendall(b"GET /body?n=11&framing=length HTTP/1.1\r\nHost: a\r\nReferer: \xc3\xa9\r\n"
                      b"User-Agent: \xff\xfe\r\nConnection: close\r\n\r\n")
            tarnd.read_to_end(s)
        self.stop()
        with open(path, encoding="utf-8") as f:
            lines = [json.loads(line) for line in f]
        self.assertEqual([o["cache"] for o in lines], ["miss", "hit", "miss"])
        miss, hit, odd = lines
        self.assertRegex(miss["time"], r"^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
        self.assertEqual((miss["method"], miss["url"], miss["host"], miss["protocol"]),
                         ("GET", "/body?n=10&framing=length", "tarn.test", "HTTP/1.1"))
        self.assertEqual((miss["status"], miss["body_bytes"], miss["client"]), (200, 10, "127.0.0.1"))
        self.assertEqual((miss["backend"], miss["user_agent"], miss["referer"]),
                         ("default", "one", None))
        self.assertGreater(miss["bytes"], 100)
        self.assertGreater(miss["ttfb_us"], 0)
        self.assertLessEqual(miss["ttfb_us"], miss["duration_us"])
        self.assertEqual((hit["backend"], hit["referer"]), (None, 'http://a/"b"'))
        self.assertEqual((odd["user_agent"], odd["referer"]), ("\xff\xfe", "\xe9"))
        self.assertEqual(len({o["xid"] for o in lines}), 3)

    def test_a_syslog_daemon_gets_the_lines(self):
        path = os.path.join(self.home, "syslog.sock")
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as daemon:
            daemon.bind(path)
            daemon.settimeout(tarnd.PATIENCE_S)
            self.start(f'access_log: "syslog:local6@{path}"')
            self.ask()
            line = daemon.recv(65536).decode()
            self.assertRegex(line, r"^<182>[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d tarnd\[\d+\]: 127\.0\.0\.1 "
                                   r'- - \[.*\] "GET /body.* 200 10 "-" "-"$')
            self.stop()

    def test_a_format_of_its_own(self):
        path = os.path.join(self.home, "own.sock")
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as daemon:
            daemon.bind(path)
            daemon.settimeout(tarnd.PATIENCE_S)
            self.start(f'access_log: "syslog:local6@{path}", access_log_format: '
                       "'$remote_addr \"$request\" $status $cache $backend $time $request_time'")
            for cache, backend in (("miss", "default"), ("hit", "-")):
                self.ask()
                self.assertRegex(daemon.recv(65536).decode(),
                                 r'tarnd\[\d+\]: 127\.0\.0\.1 "GET /body[^ ]* HTTP/1\.1" 200 '
                                 + cache + " " + backend + r" \d+ \d+\.\d{3}$")
            self.stop()


class Held(Case):
    """What the rings hold: no reader was there when it happened."""

    def test_requests_are_chosen(self):
        self.start()
        self.ask("/body?n=10&framing=length")
        self.ask("/body?n=10&framing=length")
        self.ask("/body?n=11&framing=length")
        with self.tarnd.connect() as s:
            s.sendall(b"GARBAGE\r\n\r\n")
            tarnd.read_to_end(s)
        self.wait_held(4)
        self.assertEqual(len(self.held()), 4)
        for args, n in ((("--url", "n=10"), 2), (("--url", "tarn.test/body?n=11"), 1),
                        (("--url", "/n=1[01]&/"), 3), (("--url", "/^/body/"), 3), (("--url", "nowhere"), 0),
                        (("--status", "200"), 3), (("--status", "4xx"), 1), (("--status", "100-399"), 3),
                        (("--status", "200,400"), 4), (("--status", "404"), 0),
                        (("--client", "127.0.0.1"), 4), (("--client", "127.0.0.0/8"), 4),
                        (("--client", "10.0.0.0/8"), 0), (("--client", "::/0"), 4), (("--client", "unix"), 0),
                        (("--hit",), 1), (("--miss",), 2), (("--hit", "--miss"), 3),
                        (("--hit", "--url", "n=11"), 0), (("--count", "2"), 2)):
            self.assertEqual(len(self.held(*args)), n, args)
        self.stop()

    def test_formats(self):
        self.start()
        self.ask()
        self.wait_held(1)
        self.assertRegex(self.log("--all", "--format", "combined"),
                         r'^127\.0\.0\.1 - - \[.*\] "GET /body\?n=10&framing=length HTTP/1\.1" 200 10 "-" "-"\n$')
        self.assertRegex(self.log("--all"), r"^\d\d:\d\d:\d\d\.\d{3} 200 miss GET tarn\.test/body\?n=10&framing=length, "
                                            r"\d+ B in [\d.]+ [mu]?s to 127\.0\.0\.1:\d+ \([0-9a-f]{16}\)\n$")
        self.assertRegex(self.log("--all", "--format", "raw"),
                         r'^0 [0-9a-f]{16} REQ Req \{"time":.*"backend":"default".*\}\n$')
        self.stop()

    def test_a_request_of_before_is_told_no_others_name(self):
        """Numbers are used again when a backend has gone."""
        self.start()
        names = ["default", "one", "two", "three"]
        for i, name in enumerate(names):
            text = CONFIG.format(home=self.home, origin=origin.address, more="")
            with open(self.tarnd.config, "w", encoding="utf-8") as f:
                f.write("listen:\n  - address: 127.0.0.1:0\n" + text.replace("default:", name + ":"))
            subprocess.run([ctl, "--admin", f"unix:{self.home}/admin.sock", "reload"], check=True,
                           stdout=subprocess.DEVNULL, timeout=tarnd.PATIENCE_S)
            asked = 0

            def is_told():
                nonlocal asked
                asked += 1
                self.ask(f"/body?n={i + 1}&framing=length&asked={asked}")
                return name in {o["backend"] for o in self.held("--url", f"n={i + 1}&")}

            tarnd.wait_until(is_told, f"the name {name}")
            for before in range(i):
                told = {o["backend"] for o in self.held("--url", f"n={before + 1}&")}
                self.assertLessEqual({t for t in told if isinstance(t, str)}, {names[before]})
        self.stop()

    def test_log_counters_and_histograms_call_a_request_the_same(self):
        """A miss stays one when its response turns out not to be for the cache; hit-for-miss is none."""
        self.start()
        for n, *lines in (("10&cc=no-store",), ("10&cc=no-store",), ("11",), ("11",), ("12", "Authorization: a")):
            self.ask(f"/body?framing=length&n={n}", *lines)
        self.ask("/body?framing=length&n=13", method="POST")
        self.wait_held(6)
        words = [o["cache"] for o in self.held()]
        self.assertEqual(words, ["miss", "hit-for-miss", "miss", "hit", "miss", "pass"])
        counted = json.loads(subprocess.run(
            [ctl, "--admin", f"unix:{self.home}/admin.sock", "--json", "stat"],
            capture_output=True, check=True, timeout=tarnd.PATIENCE_S).stdout)
        self.assertEqual([counted["req." + name] for name in ("hit", "miss", "hitmiss", "pass")], [1, 3, 1, 1])
        timed = json.loads(subprocess.run(
            [ctl, "--admin", f"unix:{self.home}/admin.sock", "--json", "hist"],
            capture_output=True, check=True, timeout=tarnd.PATIENCE_S).stdout)["requests"]
        self.assertEqual({word: row["count"] for word, row in timed.items() if row["count"]},
                         {word: words.count(word) for word in words})
        self.stop()

    def test_mistakes_say_what_would_be_right(self):
        self.start()
        for args, says in ((("--status", "9xxx"), "as in 404, 5xx or 500-599"),
                           (("--status", "500-400"), "500-599"), (("--client", "10.0.0.0/33"), "192.0.2.0/24"),
                           (("--client", "nobody"), "192.0.2.7"), (("--url", "/(/"), "at character"),
                           (("--tag", "ReqHedder"), "ReqHeader"), (("--format", "xml"), "combined, json or raw"),
                           (("--count", "0"), "from 1"), (("--format", "raw", "--hit"), "only --tag"),
                           (("--format", "json", "--tag", "Hit"), "--format groups or raw")):
            self.assertIn(says, self.log("--all", *args, status=USAGE), args)
        self.stop()

    def test_a_reader_of_ones_own_reads_them(self):
        self.start()
        for n in range(3):
            self.ask(f"/body?n={n + 1}&framing=length")
        self.wait_held(3)
        out = subprocess.run([log_tail, f"{self.home}/shm", "3", "0"], capture_output=True, text=True,
                             check=True, timeout=tarnd.PATIENCE_S).stdout.splitlines()
        self.assertEqual([json.loads(line)["body_bytes"] for line in out[:3]], [1, 2, 3])
        self.assertEqual({json.loads(line)["backend"] for line in out[:3]}, {"default"})
        self.assertIn("req.miss 3", out)
        bad = subprocess.run([log_tail, "/nowhere", "1", "0"], capture_output=True, text=True, check=False)
        self.assertEqual((bad.returncode, bad.stderr), (1, "log_tail: /nowhere/log.0: not there\n"))
        self.stop()

    def test_the_library_needs_libc_alone(self):
        told = subprocess.run(["readelf", "-d", library], capture_output=True, text=True, check=True).stdout
        needed = set(re.findall(r"\(NEEDED\).*\[(.+?)\]", told))
        sanitizers = {n for n in needed if re.match(r"lib[atu]b?san", n)}
        if not sanitizers:  # the loader is libc's, and asked for variables of threads
            self.assertLessEqual({n for n in needed if not n.startswith("ld-")}, {"libc.so.6"})
        self.assertIn("[libtarnlog.so.1]", told)


class Followed(Case):
    def test_a_request_shows_with_its_fetch(self):
        self.start()
        f = self.follow_details("--count", "2")
        self.ask("/body?n=10&framing=length", "X-Asked: yes")
        self.ask()
        status, out, err = f.end()
        self.assertEqual((status, err), (DONE, ""))
        miss, hit = out.strip().split("\n\n")
        request, fetch = miss.split("\n  fetch\n")
        self.assertRegex(request, SHOWN)
        for line in ("ReqHeader      X-Asked: yes", "RespStatus     200", "RespReason     OK",
                     "RespHeader     Cache-Control: max-age=600"):
            self.assertIn("\n    " + line + "\n", request + "\n")
        for line in (r"Begin          fetch", r"Backend        default", r"BackendOpen    default \S+ new",
                     r"BereqMethod    GET", r"BereqURL       /body\?n=10&framing=length",
                     r"BereqHeader    X-Asked: yes", r"BerespStatus   200", r"BerespHeader   Content-Length: 10",
                     r"TTL            (?:600000|599\d{3}) .*", r"Length         10", r"End            \d+"):
            self.assertRegex(fetch, r"(?m)^    " + line + "$")
        self.assertIn(" 200 hit GET tarn.test/body", hit)
        self.assertNotIn("\n  fetch\n", hit)
        self.assertIn("RespHeader     Age: ", hit)
        tarnd.wait_until(lambda: not self.attached(), "who ends detaches")
        self.stop()

    def test_tags_are_chosen(self):
        self.start()
        f = self.follow_details("--count", "1", "--tag", "bereqURL,ReqHeader", "--url", "n=10")
        self.ask("/body?n=11&framing=length")
        self.ask()
        status, out, _ = f.end()
        self.assertEqual(status, DONE)
        self.assertEqual({line.split()[0] for line in out.splitlines() if line.startswith("    ")},
                         {"BereqURL", "ReqHeader"})
        self.assertEqual(len(SHOWN.findall(out)), 1)
        raw = self.follow_details("--format", "raw", "--tag", "BerespStatus", "--count", "1")
        self.ask("/body?n=12&framing=length")
        self.assertRegex(raw.end()[1], r"^0 [0-9a-f]{16} FETCH BerespStatus 200\n$")
        self.stop()

    def test_what_clients_send_does_nothing_to_a_terminal(self):
        self.start()
        f = self.follow_details("--count", "1")
        with self.tarnd.connect() as s:
            s.sendall(b"GET /body?n=10&framing=length HTTP/1.1\r\nHost: a\r\nX-Odd: a\x9bb\xc2\x9bc\t\xff\r\n"
                      b"Connection: close\r\n\r\n")
            tarnd.read_to_end(s)
        out = f.end()[1]
        self.assertIn(r"X-Odd: a\x9bb\xc2\x9bc\x09\xff", out)
        self.assertRegex(out, r"^[\n -~]*$")
        self.stop()

    def test_a_signal_ends_it_and_so_does_who_reads_no_more(self):
        self.start()
        self.ask()
        self.wait_held(1)
        f = self.follow("--all", "--follow", "--json")
        tarnd.wait_until(lambda: "\n" in f.out(), "a line")
        self.assertEqual(f.end(signal.SIGINT)[::2], (DONE, ""))
        f = self.follow("--all", "--follow", "--json", stdout=subprocess.PIPE)
        self.assertIn('"cache":"miss"', f.process.stdout.readline())
        f.process.stdout.close()
        f.process.stdout = None
        deadline = time.monotonic() + tarnd.PATIENCE_S
        while f.process.poll() is None and time.monotonic() < deadline:
            self.ask()
            time.sleep(0.02)
        self.assertEqual(f.end()[::2], (DONE, ""))
        self.stop()

    def test_the_end_of_tarnd_is_told(self):
        self.start()
        f = self.follow_details()
        self.ask()
        self.stop()
        status, out, err = f.end()
        self.assertEqual((status, err), (UNREACHABLE, "tarnctl: tarnd has ended\n"))
        self.assertEqual(len(SHOWN.findall(out)), 1)
        self.assertIn("is tarnd running", self.log(status=UNREACHABLE))

    def test_the_next_tarnd_is_waited_for(self):
        self.start()
        f = self.follow_details("--wait", "--count", "2", "--url", "framing")
        self.ask()
        tarnd.wait_until(lambda: SHOWN.search(f.out()), "the first request")
        self.tarnd.process.kill()
        self.tarnd.process.wait()
        self.start()
        tarnd.wait_until(self.attached, "that the reader found the next one")
        self.ask("/body?n=12&framing=length")
        status, out, err = f.end()
        self.assertEqual((status, len(SHOWN.findall(out))), (DONE, 2), err)
        self.assertRegex(err, "^tarnctl: tarnd (has ended|was restarted)\n$")
        self.stop()


class Connections(Case):
    """Why a connection of HTTP/2 ended."""

    def ended(self, *frames):
        """What the log says of a connection that sends these."""
        follower = self.follow_details("--format", "raw")
        c = h2_client.prior_knowledge(self.tarnd.port, lenient=True)
        c.request("/body?n=10&framing=length")
        c.push(b"".join(frames))
        c.until(lambda: c.ended or (not frames), 5)
        c.close()
        tarnd.wait_until(lambda: "SessClose" in follower.out(), "its end is logged")
        follower.end(signal.SIGINT)
        return follower.out()

    def test_the_log_says_why_one_ended(self):
        self.start(listener="    h2c: on\n")
        self.assertIn("HTTP/2 closed, 1 requests", self.ended())
        self.assertIn("HTTP/2 ENHANCE_YOUR_CALM at PING", self.ended(h2_client.frame(h2_client.PING, b"12345678") * 500))
        self.assertIn("HTTP/2 PROTOCOL_ERROR at WINDOW_UPDATE", self.ended(h2_client.window(0, 0)))


class Admin(Case):
    """GET /v1/log."""

    def get(self, query=""):
        """(status, a file of the lines, the socket)"""
        s = socket.socket(socket.AF_UNIX)
        s.settimeout(tarnd.PATIENCE_S)
        s.connect(f"{self.home}/admin.sock")
        s.sendall(f"GET /v1/log{query} HTTP/1.0\r\n\r\n".encode())
        f = s.makefile("rb")
        status = int(f.readline().split()[1])
        while f.readline() not in (b"\r\n", b""):
            pass
        self.addCleanup(s.close)
        self.addCleanup(f.close)
        return status, f, s

    def lines(self, query):
        status, f, _ = self.get(query)
        self.assertEqual(status, 200)
        return [json.loads(line) for line in f.read().splitlines()]

    def test_what_is_held_and_what_comes(self):
        self.start()
        for n in range(3):
            self.ask(f"/body?n={n + 1}&framing=length")
        self.wait_held(3)
        self.assertEqual([o["body_bytes"] for o in self.lines("")], [1, 2, 3])
        self.assertEqual({o["backend"] for o in self.lines("")}, {"default"})
        self.assertEqual([o["body_bytes"] for o in self.lines("?filter=url:n%3D2%26&filter=status:2xx")], [2])
        self.assertEqual(self.lines("?filter=cache:hit"), [])
        status, f, _ = self.get("?follow=1&count=2&filter=client:127.0.0.1")
        self.assertEqual(status, 200)
        self.ask()
        self.ask()
        self.assertEqual([json.loads(line)["cache"] for line in f.read().splitlines()], ["miss", "hit"])
        self.stop()

    def test_questions_that_are_wrong(self):
        self.start()
        for query in ("?filter=status:9xxx", "?filter=size:3", "?filter=x", "?follow=yes", "?count=0", "?tail=1",
                      "?filter=tag:Hit", "?filter=url:%0", "?filter=url:" + "x" * 3000):
            status, f, _ = self.get(query)
            self.assertEqual(status, 400, query)
            self.assertIn("error", json.loads(f.read()))
        self.stop()

    def test_many_read_and_leave_and_a_drain_ends_the_rest(self):
        self.start()
        streams = [self.get("?follow=1") for _ in range(8)]
        self.assertEqual(self.get("?follow=1")[0], 503)
        for _, f, s in streams[:7]:
            f.close()
            s.close()

        def room():
            self.ask()  # who has left is noticed when there is something to tell him
            return self.get("?follow=1&count=1")[0] == 200

        tarnd.wait_until(room, "room for another")
        self.assertIn(b'"cache":"miss"', streams[7][1].readline())
        self.stop()
        self.assertNotIn(b'"cache":"miss"', streams[7][1].read())


class Loss(Case):
    LOST = re.compile(r"tarnctl: (\d+) pieces of the log were lost so far, with (\d+) whole requests among")

    def lost(self, err):
        told = self.LOST.findall(err)
        return int(told[-1][1]) if told else 0

    def test_who_stands_still_loses_and_knows_how_much(self):
        self.start("log_ring: 64KiB")
        f = self.follow("--all", "--follow", "--json")
        self.ask("/body?n=1&framing=length")
        tarnd.wait_until(lambda: "\n" in f.out(), "the first request")
        f.process.send_signal(signal.SIGSTOP)
        sent = 2 + self.load(requests)
        f.process.send_signal(signal.SIGCONT)
        self.ask("/body?n=2&framing=length")
        tarnd.wait_until(lambda: "/body?n=2&" in f.out(), "the last request")
        status, out, err = f.end(signal.SIGINT)
        self.assertEqual(status, DONE)
        self.assertGreater(self.lost(err), 0)
        self.assertEqual(out.count("\n") + self.lost(err), sent)
        self.assertEqual(self.ask().status, 200)
        self.stop()

    def test_under_load_all_is_read_or_counted(self):
        self.start()
        f = self.follow_details("--all", "--follow")
        began = time.monotonic()
        sent = self.load(requests, rate) + 1
        took = time.monotonic() - began
        self.ask("/body?n=2&framing=length")
        tarnd.wait_until(lambda: "/body?n=2&" in f.out(), "the last request")
        status, out, err = f.end(signal.SIGINT)
        shown = len(SHOWN.findall(out))
        self.assertEqual(status, DONE)
        self.assertEqual(shown + self.lost(err), sent)
        print(f"{sent} requests at {sent / took:.0f}/s: {shown} shown, {self.lost(err)} lost",
              file=sys.stderr)
        self.stop()


def main():
    global program, ctl, log_tail, library, origin, requests, rate
    if len(sys.argv) < 5:
        sys.exit("usage: logs.py TARND TARNCTL LOG_TAIL LIBRARY [--requests N] [--rate R] [TEST...]")
    program, ctl, log_tail, library = (os.path.abspath(sys.argv.pop(1)) for _ in range(4))
    if sys.argv[1:2] == ["--requests"]:
        requests = int(sys.argv[2])
        del sys.argv[1:3]
    if sys.argv[1:2] == ["--rate"]:
        rate = int(sys.argv[2])
        del sys.argv[1:3]
    origin = Origin()
    unittest.main(verbosity=2)


if __name__ == "__main__":
    main()
