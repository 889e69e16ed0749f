#!/usr/bin/env python3
"""alerts.py TARND [TEST...] -- do the alerts of packaging/ tell of an outage, and of nothing else?

promtool tests the rules with series that are written down, and with those that a tarnd tells which is
loaded, reloaded, upgraded, and loses all of its backends.

ALERTS_SCRAPE_S: seconds between two scrapes, which are 15 s to the rules; default 0.5.  15 is real time, ten
minutes of it.  ALERTS_RELOADS: how many reloads; default 40.
"""
import collections
import itertools
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
import origin
import prometheus
import supervised
import tarnd

SKIPPED = 77
HERE = os.path.dirname(os.path.abspath(__file__))
RULES = os.path.join(HERE, "..", "..", "packaging", "tarn.alerts.yaml")
RULE_TESTS = os.path.join(HERE, "alerts.rules.yaml")
INTERVAL_S = 15  # of scrapes, to the rules
SCRAPE_S = float(os.environ.get("ALERTS_SCRAPE_S", "0.5"))
RELOADS = int(os.environ.get("ALERTS_RELOADS", "40"))
RATE, CLIENTS = 500, 8  # requests a second, of all clients
CALM, OUTAGE, AFTER = 20, 8, 14  # scrapes
UPGRADES = (5, 10, 15)
OF_AN_OUTAGE = ("TarnErrors", "TarnFetchesFail", "TarnBackendDown")
CONFIG = """
workers: 2
storage: {{ main: {{ engine: malloc, size: 64MiB }} }}
admin: {{ address: "unix:{{dir}}/admin.sock" }}
backends:
  one: {{ address: "127.0.0.1:{0}", first_byte_timeout: 10s }}
  two: {{ address: "127.0.0.1:{1}", first_byte_timeout: 10s }}
directors:
  both: {{ type: round_robin, backends: [one, two] }}
parameters: {{ log_ring: 256KiB }}
"""
program = None


class Handler(origin.Small):
    timeout = 600

    def do_GET(self):
        self.cache_control = "no-store" if "once" in self.path else "max-age=600"
        super().do_GET()


class Server(origin.Origin):
    """An origin that can be lost: nothing listens, and its connections end."""

    def __init__(self, port=0):
        self.open = set()
        super().__init__(Handler, port)

    def process_request(self, request, client_address):
        self.open.add(request)
        super().process_request(request, client_address)

    def lose(self):
        self.close()
        for s in list(self.open):
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


class Client(threading.Thread):
    """Its share of RATE: one request in five is a pass or a miss, the others are hits."""

    def __init__(self, port, number, stop):
        super().__init__(daemon=True)
        self.port, self.number, self.stop, self.answers = port, number, stop, collections.Counter()

    def run(self):
        s, due = None, time.monotonic()
        for n in itertools.count():
            due += CLIENTS / RATE
            if self.stop.wait(max(0, due - time.monotonic())):
                break
            target = f"/once/{self.number}/{n}" if n % 5 == 0 else f"/page/{n % 50}"
            try:
                if s is None:
                    s = socket.create_connection(("127.0.0.1", self.port), timeout=30)
                s.sendall(tarnd.request(target))
                status, closes = self.read(s)
                self.answers[status] += 1
            except OSError:
                self.answers["broken"] += 1
                closes = True
            if closes:
                s = s and s.close()
        s and s.close()

    def read(self, s):
        data = b""
        while b"\r\n\r\n" not in data:
            piece = s.recv(65536)
            if not piece:
                raise ConnectionError
            data += piece
        head, _, body = data.partition(b"\r\n\r\n")
        left = int(re.search(rb"(?i)content-length: (\d+)", head)[1]) - len(body)
        while left > 0:
            left -= len(s.recv(65536))
        return int(head.split()[1]), re.search(rb"(?i)connection: close", head) is not None


class Series:
    """What a Prometheus would have scraped, of the metrics that rules ask for."""

    def __init__(self):
        with open(RULES, encoding="utf-8") as f:
            self.wanted = set(re.findall(r"tarn_\w+", f.read()))
        self.values, self.scrapes = {}, 0

    def add(self, text):
        seen = {"up{instance=\"a\",job=\"tarn\"}": "1" if text else "0"}
        for name, labels, value in re.findall(r"(?m)^(tarn_\w+)(?:\{(.*)\})? (\S+)$", text):
            if name in self.wanted:
                more = "," + labels if labels else ""
                seen[f'{name}{{instance="a",job="tarn"{more}}}'] = value
        for key, value in seen.items():
            self.values.setdefault(key, ["_"] * self.scrapes).append(value)
        self.scrapes += 1
        for values in self.values.values():
            values += ["_"] * (self.scrapes - len(values))

    def test(self, questions):
        """Questions are (expression, scrape, names of alerts)."""
        test = {"rule_files": [os.path.abspath(RULES)], "evaluation_interval": f"{INTERVAL_S}s", "tests": [{
            "interval": f"{INTERVAL_S}s",
            "input_series": [{"series": k, "values": " ".join(v)} for k, v in self.values.items()],
            "promql_expr_test": [{
                "expr": expression, "eval_time": f"{scrape * INTERVAL_S}s",
                "exp_samples": [{"labels": f'{{alertname="{name}"}}', "value": 1} for name in names],
            } for expression, scrape, names in questions]}]}
        with tempfile.NamedTemporaryFile("w", suffix=".json", encoding="utf-8") as f:
            json.dump(test, f)
            f.flush()
            return promtool("test", "rules", f.name)


def promtool(*args):
    done = subprocess.run([prometheus.find_promtool(), *args], capture_output=True, text=True, timeout=300)
    return "" if done.returncode == 0 else done.stdout + done.stderr


class Rules(unittest.TestCase):
    def test_rules_are_valid(self):
        self.assertEqual(promtool("check", "rules", RULES), "")

    def test_rules_fire_within_a_minute_and_clear_again(self):
        self.assertEqual(promtool("test", "rules", RULE_TESTS), "")


class Live(unittest.TestCase):
    def setUp(self):
        self.origins = [Server(), Server()]
        self.addCleanup(lambda: [o.lose() for o in self.origins])
        self.tarnd = supervised.Supervised(
            program, CONFIG.format(*(o.server_address[1] for o in self.origins)))
        self.addCleanup(self.tarnd.close)
        self.series, self.reloads = Series(), 0
        stop = threading.Event()
        self.clients = [Client(self.tarnd.port, i, stop) for i in range(CLIENTS)]
        for client in self.clients:
            client.start()

        def end():
            stop.set()
            for client in self.clients:
                client.join()
        self.addCleanup(end)

    def metrics(self):
        try:
            with socket.socket(socket.AF_UNIX) as s:
                s.settimeout(tarnd.PATIENCE_S)
                s.connect(self.tarnd.admin)
                s.sendall(tarnd.request("/metrics", "Connection: close", host="tarn"))
                return tarnd.Answer(tarnd.read_to_end(s)).body.decode()
        except (OSError, IndexError):
            return ""

    def reload(self):
        """Both backends are others afterwards, of the same names."""
        times = itertools.cycle(("10s", "11s"))
        while next(times) != ("10s", "11s")[self.reloads % 2]:
            pass
        self.tarnd.edit(lambda text: re.sub(r"first_byte_timeout: \w+", f"first_byte_timeout: {next(times)}", text))
        self.assertNotIn("error", self.tarnd.ask_admin("/v1/reload", method="POST"))
        self.reloads += 1

    def scrape(self, times, between=lambda i: None):
        for i in range(times):
            self.due = max(self.due, time.monotonic()) + SCRAPE_S  # what came late is not made up for
            between(i)
            time.sleep(max(0, self.due - time.monotonic()))
            self.series.add(self.metrics())

    def operate(self, i):
        for _ in range(RELOADS // CALM):
            self.reload()
        if i in UPGRADES:
            self.tarnd.upgrade()

    def answers(self):
        return sum((c.answers for c in self.clients), collections.Counter())

    def test_the_loss_of_all_backends_is_told_within_a_minute_and_nothing_else_is(self):
        self.due = time.monotonic()
        self.scrape(CALM, self.operate)
        calm = self.answers()
        for o in self.origins:
            o.lose()
        self.scrape(OUTAGE)
        self.origins = [Server(o.server_address[1]) for o in self.origins]
        self.scrape(AFTER)
        after = self.answers() - calm
        print(f"{self.reloads} reloads, {len(UPGRADES)} upgrades; calm: {dict(calm)}, then {dict(after)}", flush=True)
        self.assertEqual(set(calm), {200})
        self.assertGreater(after[502] + after[503], 0)
        firing = 'group by (alertname) (ALERTS{alertstate="firing"})'
        ours = f'group by (alertname) (ALERTS{{alertstate="firing",alertname=~"{"|".join(OF_AN_OUTAGE)}"}})'
        lost = CALM - 1  # the last scrape of before: they are lost right behind it
        within = lost + 60 // INTERVAL_S
        self.assertEqual(self.series.test(
            [(firing, i, ()) for i in range(CALM)]
            + [(ours, i, OF_AN_OUTAGE) for i in range(within, CALM + OUTAGE)]
            + [(firing, self.series.scrapes - 1, ())]), "")
        self.assertNotEqual(self.series.test([(firing, within, ())]), "", "it could not fail")


def main():
    global program
    if len(sys.argv) < 2:
        sys.exit("usage: alerts.py TARND [TEST...]")
    program = os.path.abspath(sys.argv.pop(1))
    if prometheus.find_promtool() is None:
        print("alerts.py: skipped: no promtool here (TARN_PROMTOOL names one)")
        sys.exit(SKIPPED)
    unittest.main(verbosity=2)


if __name__ == "__main__":
    main()
