#!/usr/bin/env python3
"""metrics.py TARND TARNCTL [TEST...] -- what tarnd tells of itself in numbers, and who asks it.

Histograms of durations, Prometheus' format, what is asked for most, the last errors: each against
requests whose number and fate the test knows.
"""
import http.client
import json
import os
import re
import socket
import subprocess
import sys
import time
import unittest

sys.dont_write_bytecode = True
import prometheus
import tarnd
from origin import Origin

CONFIG = """
workers: 2
storage: {{ main: {{ engine: malloc, size: 64MiB }} }}
admin: {{ address: "unix:{{dir}}/admin.sock" }}
backends:
  default: {{ address: "{origin}" }}
  dead: {{ address: "127.0.0.1:1", max_connections: 7 }}
routes:
  - {{ path: /dead, backend: dead }}
  - {{ backend: default }}
"""
KINDS = ("hit", "stale", "miss", "coalesced", "hit-for-miss", "pass", "pipe", "absent", "synth", "error",
         "none")
program = ctl = origin = None


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("tarn", timeout=tarnd.PATIENCE_S)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


def url(i):
    return f"/body?n={i + 1}&framing=length"


class Metrics(unittest.TestCase):
    def setUp(self):
        self.tarnd = tarnd.Tarnd(program, CONFIG.format(origin=origin.address),
                                 stderr=subprocess.DEVNULL)
        self.addCleanup(lambda: self.assertEqual(self.tarnd.close(), 0))
        self.socket = os.path.join(self.tarnd.dir, "admin.sock")

    def get(self, target, want=200):
        c = UnixConnection(self.socket)
        try:
            c.request("GET", target)
            answer = c.getresponse()
            text = answer.read().decode()
        finally:
            c.close()
        self.assertEqual(answer.status, want, text)
        return text

    def told(self, target, want=200):
        return json.loads(self.get(target, want))

    def ctl(self, *args):
        done = subprocess.run([ctl, "--admin", "unix:" + self.socket, *args], text=True,
                              capture_output=True, timeout=tarnd.PATIENCE_S,
                              env={**os.environ, "LC_ALL": "C"})
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        return done.stdout

    def each_kind(self):
        """Three hits, two misses, a pass, two answers of Tarn's own, one that is malformed."""
        for i in (0, 1, 0, 0, 1):
            self.assertEqual(self.tarnd.ask(url(i)).status, 200)
        self.tarnd.ask("/body", method="POST")
        for _ in range(2):
            self.assertEqual(self.tarnd.ask("/x", "Cache-Control: only-if-cached").status, 504)
        self.assertEqual(self.tarnd.ask("/x", "Host: another").status, 400)

    def counts(self):
        return {kind: seen["count"] for kind, seen in self.told("/v1/latency")["requests"].items()}

    def test_every_request_is_in_one_histogram(self):
        want = dict.fromkeys(KINDS, 0) | {"hit": 3, "miss": 2, "pass": 1, "synth": 2, "error": 1}
        self.each_kind()
        # The record is written when the request's memory is given back, soon after its last byte left.
        tarnd.wait_until(lambda: sum(self.counts().values()) == 9, "nine are counted")
        self.assertEqual(self.counts(), want)
        self.assertEqual(self.told("/v1/counters")["req.total"], 9)
        for kind, seen in self.told("/v1/latency")["requests"].items():
            self.assertEqual(sum(n for _, _, n in seen["buckets"]), want[kind])
            if want[kind] == 0:
                continue
            self.assertLessEqual(seen["buckets"][0][0], seen["p50_us"])
            self.assertLessEqual(seen["p50_us"], seen["p999_us"])
            self.assertLessEqual(seen["p999_us"], seen["buckets"][-1][1])
            self.assertTrue(all(a < b for a, b, _ in seen["buckets"]))

    def test_responses_are_counted_by_result_and_class_of_status(self):
        self.each_kind()
        self.tarnd.ask(url(0), "If-None-Match: *")
        self.tarnd.ask("/dead/1")
        self.tarnd.ask("/body?n=1&framing=length&cc=no-store")
        self.tarnd.ask("/body?n=1&framing=length&cc=no-store")  # hit-for-miss: no miss, no pass
        tarnd.wait_until(lambda: sum(self.counts().values()) == 13, "thirteen are counted")
        families = prometheus.parse(self.get("/metrics"))
        got = {(labels["result"], labels["status_class"]): value
               for _, labels, value in families["tarn_responses_total"].samples if value}
        self.assertEqual(got, {("hit", "2xx"): 3, ("hit", "3xx"): 1, ("miss", "2xx"): 3, ("pass", "5xx"): 1,
                               ("hit-for-miss", "2xx"): 1, ("synth", "5xx"): 2, ("error", "4xx"): 1,
                               ("error", "5xx"): 1})
        for name, want in (("hit", 4), ("miss", 3), ("hitmiss", 1), ("pass", 1), ("synth", 4), ("stale", 0)):
            self.assertEqual(families[f"tarn_req_{name}_total"].value(), want, name)
        self.assertEqual({r: n for r, n in self.counts().items() if n},
                         {r: sum(n for (of, _), n in got.items() if of == r) for r, _ in got})

    def test_a_slow_origin_shows_in_the_misses_alone(self):
        def slow(handler):
            time.sleep(0.25)
            handler.start("length", 2)
            handler.piece(b"ok")

        target = origin.script("slow", slow)
        for _ in range(2):
            self.assertEqual(self.tarnd.ask(target).body, b"ok")
        tarnd.wait_until(lambda: self.counts()["hit"] == 1, "both are counted")
        miss = self.told("/v1/latency")["requests"]["miss"]
        self.assertEqual(miss["count"], 1)
        self.assertGreaterEqual(miss["sum_us"], 250000)
        self.assertLessEqual(miss["buckets"][0][0], miss["sum_us"])
        self.assertLess(miss["sum_us"], miss["buckets"][0][1])

    def test_prometheus_reads_it(self):
        self.each_kind()
        tarnd.wait_until(lambda: sum(self.counts().values()) == 9, "nine are counted")
        self.assertEqual(self.tarnd.ask("/dead/1").status // 100, 5)
        tarnd.wait_until(lambda: self.lag_counts() == [True, True], "each worker has had a tick")
        text = self.get("/metrics")
        families = prometheus.parse(text)
        self.assertEqual(prometheus.promtool(text), "")
        durations = families["tarn_request_duration_seconds"]
        self.assertEqual({s[1]["result"] for s in durations.samples}, set(KINDS))
        for name, want in (("tarn_req_hit_total", 3), ("tarn_req_pass_total", 1),
                           ("tarn_req_stale_total", 0), ("tarn_req_hitmiss_total", 0),
                           ("tarn_req_total", 10), ("tarn_workers", 2), ("tarn_cache_evicted_total", 0)):
            self.assertEqual(families[name].value(), want, name)
        for name in ("tarn_fetch_bytes_total", "tarn_resp_body_bytes_total", "tarn_uptime_seconds",
                     "tarn_fetch_failed_total", "tarn_storage_objects", "tarn_storage_used_bytes",
                     "tarn_memory_resident_bytes"):
            self.assertGreater(families[name].value(), 0, name)
        self.assertGreaterEqual(families["tarn_memory_sockets_bytes"].value(), 0)
        self.assertEqual(families["tarn_build_info"].value(), 1)
        self.assertEqual(families["tarn_backend_up"].value(backend="default"), 1)
        self.assertEqual(families["tarn_backend_ejected"].value(backend="default"), 0)
        self.assertEqual(families["tarn_backend_queue"].value(backend="dead"), 0)
        self.assertEqual(families["tarn_backend_connections_limit"].value(backend="dead"), 7)
        self.assertEqual(len(families["tarn_backend_connections_limit"].samples), 1)
        self.assertGreaterEqual(families["tarn_backend_connections"].value(backend="default"), 0)
        self.assertGreater(families["tarn_worker_loop_lag_max_seconds"].value(worker="1"), 0)
        self.assertGreater(families["tarn_memory_bytes"].value(part="program"), 0)

    def test_bars_show_hits_and_misses_side_by_side(self):
        self.each_kind()
        tarnd.wait_until(lambda: sum(self.counts().values()) == 9, "nine are counted")
        out = self.ctl("hist")
        self.assertRegex(out, r"(?m)^REQUESTS +COUNT +MEAN +P50 +P90 +P99 +P99\.9$")
        for kind, n in (("hit", 3), ("miss", 2), ("pass", 1), ("synth", 2), ("error", 1)):
            self.assertRegex(out, rf"(?m)^{kind} +{n}  +\d")
        bars = re.findall(r"(?m)^ *([0-9.]+ (?:us|ms|s))  (#*) +([0-9.]+ %)?(?: +(#+) +([0-9.]+ %))?$", out)
        shares = [float(s[:-2]) for bar in bars for s in (bar[2], bar[4]) if s]
        self.assertAlmostEqual(sum(shares), 200, delta=1)
        self.assertNotRegex(out, r"(?m) $")
        self.assertEqual(json.loads(self.ctl("hist", "--json"))["requests"]["hit"]["count"], 3)

    def test_bars_are_watched(self):
        self.each_kind()
        tarnd.wait_until(lambda: sum(self.counts().values()) == 9, "nine are counted")
        frames = self.ctl("hist", "--live", "--every", "0.05", "--count", "2").split("unix:")[1:]
        self.assertEqual(len(frames), 2)
        self.assertIn("since it started", frames[0])
        self.assertIn("in the last", frames[1])
        self.assertIn("no request has ended", frames[1])

    def top(self, of="url", by="requests"):
        return self.told(f"/v1/top?of={of}&by={by}")

    def test_what_is_asked_for_most_comes_first(self):
        self.assertEqual(self.top()["top"], [])  # from now on it is watched
        for i in [1] * 6 + [5000] * 2 + [20] * 4:
            self.assertEqual(self.tarnd.ask(url(i)).status, 200)
        self.tarnd.ask("/dead/1")
        tarnd.wait_until(lambda: len(self.top()["top"]) == 4, "four URLs are known")
        tarnd.wait_until(lambda: sum(self.counts().values()) == 13, "all have come")
        told = self.top()
        names = [row["name"] for row in told["top"]]
        self.assertEqual(names[:2], ["tarn.test" + url(1), "tarn.test" + url(20)])
        self.assertEqual((told["seen"], told["of"], told["by"]), (1, "url", "requests"))
        self.assertGreater(told["window_s"], 0)
        self.assertEqual(self.top(by="bytes")["top"][0]["name"], "tarn.test" + url(5000))
        self.assertEqual(self.top(by="bytes")["top"][0]["unsure"], 0)
        misses = self.top(by="misses")["top"]
        self.assertEqual(len(misses), 4)
        for row in misses:
            self.assertAlmostEqual(row["share"], 1 / 4, delta=0.1)  # the older count less
        client, = self.top("client")["top"]
        self.assertEqual((client["name"], round(client["share"], 6)), ("127.0.0.1", 1))
        backends = {row["name"]: row for row in self.top("backend")["top"]}
        self.assertEqual(set(backends) - {"dead"}, {"default"})
        self.assertIn("of must be one of: url, client, backend", self.get("/v1/top?of=x", 400))
        self.assertIn("limit must be", self.get("/v1/top?limit=0", 400))

    def test_top_prints_a_table(self):
        self.top()
        for i in (1, 1, 2):
            self.tarnd.ask(url(i))
        out = self.ctl("top", "--count", "1", "--every", "0.3")
        self.assertRegex(out, r"^urls by requests, watched for [0-9.]+s; in all [0-9.]+ requests/s, ")
        self.assertRegex(out, r"(?m)^PER SECOND +BYTES/S +MISSES/S +MEAN MS +SHARE +URL$")
        self.assertRegex(out, r"(?m)^ +[0-9.]+ +[0-9.]+ \w+ +[0-9.]+ +[0-9.]+ +[56]\d\.\d % +tarn\.test/body\?n=2&")
        out = self.ctl("top", "client", "bytes", "--count", "1", "--every", "0.1", "--limit", "1")
        self.assertRegex(out, r"(?m) 100\.0 % +127\.0\.0\.1$")
        told = json.loads(self.ctl("--json", "top", "--count", "1", "--every", "0.1", "misses"))
        self.assertEqual((told["by"], len(told["top"])), ("misses", 2))
        for wrong in (("top", "urls"), ("top", "--limit", "0"), ("top", "--every", "0")):
            done = subprocess.run([ctl, *wrong], capture_output=True, timeout=tarnd.PATIENCE_S)
            self.assertEqual(done.returncode, 2)

    def test_the_last_errors_are_told(self):
        self.assertEqual(self.told("/v1/errors")["errors"], [])
        self.tarnd.ask("/dead/1")
        time.sleep(0.01)  # which came first is known to a millisecond
        self.tarnd.ask("/x", "Host: another")
        self.tarnd.ask(url(1))
        tarnd.wait_until(lambda: len(self.told("/v1/errors")["errors"]) == 2, "both are there")
        bad, dead = self.told("/v1/errors")["errors"]
        self.assertEqual((bad["status"], bad["why"]), (400, ["made by tarnd", "malformed"]))
        self.assertEqual((dead["request"], dead["host"]), ("GET /dead/1", "tarn.test"))
        self.assertEqual((dead["client"], dead["why"]), ("127.0.0.1", ["made by tarnd"]))
        self.assertGreaterEqual(dead["status"], 500)
        self.assertAlmostEqual(dead["at"], time.time(), delta=tarnd.PATIENCE_S)
        for i in range(59):
            self.tarnd.ask(f"/dead/{i}")
        time.sleep(0.01)
        self.tarnd.ask("/dead/59")
        newest = "GET /dead/59"
        tarnd.wait_until(lambda: self.told("/v1/errors")["errors"][0]["request"] == newest, newest)
        self.assertEqual(len(self.told("/v1/errors")["errors"]), 50)

    def test_errors_of_before_the_watch_began_are_found(self):
        self.tarnd.ask("/dead/before")
        tarnd.wait_until(lambda: sum(self.counts().values()) == 1, "it is written")
        time.sleep(0.01)  # the watch begins in a later millisecond
        error, = self.told("/v1/errors")["errors"]
        self.assertEqual(error["request"], "GET /dead/before")
        self.assertEqual(self.top()["top"], [])

    def sum_of(self, families, name, **labels):
        return sum(v for _, has, v in families[name].samples if labels.items() <= has.items())

    def test_an_outage_is_counted_at_the_fetch_with_and_without_a_policy(self):
        """vcl_backend_error makes a response of every failure: to the client's side nothing is missing."""
        def broken(handler):
            handler.start("length", 2, cache_control="no-store", status=500)
            handler.piece(b"no")

        broken = origin.script("broken", broken)
        for policy in (False, True):
            with self.subTest(policy=policy):
                if policy:
                    with open(os.path.join(self.tarnd.dir, "p.vcl"), "w", encoding="ascii") as f:
                        f.write("vcl 4.1;\nsub vcl_backend_error { set beresp.status = 200; return (deliver); }\n")
                    self.ctl("vcl", "load", "--use", "p", os.path.join(self.tarnd.dir, "p.vcl"))
                before = prometheus.parse(self.get("/metrics"))
                for i in range(4):
                    self.assertEqual(self.tarnd.ask(f"/dead/{i}").status, 200 if policy else 502)
                    self.assertEqual(self.tarnd.ask(broken).status, 500)
                now = prometheus.parse(self.get("/metrics"))

                def more(name, **labels):
                    return self.sum_of(now, name, **labels) - self.sum_of(before, name, **labels)
                self.assertEqual(more("tarn_fetch_failed_total"), 4)
                self.assertEqual(more("tarn_backend_failures_total", backend="dead"), 4)
                self.assertEqual(more("tarn_backend_responses_total", backend="dead"), 0)
                self.assertEqual(more("tarn_backend_responses_total", backend="default", status_class="5xx"), 4)
                self.assertEqual(more("tarn_backend_responses_total"), 4)
                answered = now["tarn_backend_response_duration_seconds"].samples
                self.assertEqual([v for name, has, v in answered if name.endswith("_count")
                                  and has["backend"] == "dead"], [0])
                self.assertEqual(now["tarn_backend_up"].value(backend="dead"), 0)
                self.assertEqual(now["tarn_backend_up"].value(backend="default"), 1)
                self.assertIn("failing", self.ctl("backend", "list"))
                self.ctl("backend", "set-health", "dead", "auto")  # forgiven

    def lag_counts(self):
        return [seen["count"] > 0 for seen in self.told("/v1/latency")["lag"]]


def main():
    global program, ctl, origin
    if len(sys.argv) < 3:
        sys.exit("usage: metrics.py TARND TARNCTL [TEST...]")
    program, ctl = (os.path.abspath(sys.argv.pop(1)) for _ in range(2))
    origin = Origin()
    unittest.main(verbosity=2)


if __name__ == "__main__":
    main()
