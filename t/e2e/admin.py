#!/usr/bin/env python3
"""admin.py TARND [TEST...] -- what an operator asks of a running tarnd, over its admin listener.

Over a Unix socket and over TCP with a token: every verb, what is malformed, too large or slow, many
at once, and the way down.
"""
import concurrent.futures
import http.client
import http.server
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import tarnd

TOKEN = "correct/horse+battery="
BODY_MAX = 4 * 1024 * 1024
program = None


def described(told, method, path):
    """The schema of what a route answers when it is done."""
    operation = told["paths"][path][method.lower()]
    return operation["responses"]["2XX"]["content"]["application/json"]["schema"]


class Origin(http.server.BaseHTTPRequestHandler):
    """Says nothing of freshness but under /kept; /slow takes a second."""
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    asked = 0

    def do_GET(self):
        Origin.asked += 1
        if self.path.startswith("/slow"):
            time.sleep(1)
        body = f"answer {Origin.asked} to {self.path}".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        if self.path.startswith("/kept"):
            self.send_header("Cache-Control", "max-age=1000")
            self.send_header("X-Tag", self.path.rpartition("/")[2])
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path, timeout=tarnd.PATIENCE_S):
        super().__init__("tarn", timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Told:
    """An answer: status, fields, and JSON, which every one is but for /metrics."""

    def __init__(self, response):
        self.status = response.status
        self.fields = response.headers
        self.text = response.read().decode()
        if self.fields["Content-Type"] == "application/json":
            self.json = json.loads(self.text)
            assert self.fields["Cache-Control"] == "no-store", self.fields
        else:
            self.json = None

    def __repr__(self):
        return f"{self.status} {self.text[:500]}"


def ask(connection, method, path, body=None, headers=None):
    if isinstance(body, (dict, list)):
        body = json.dumps(body)
    connection.request(method, path, body, headers or {})
    return Told(connection.getresponse())


class Admin(unittest.TestCase):
    """One tarnd, asked by all of them."""

    @classmethod
    def setUpClass(cls):
        cls.origin = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Origin)
        threading.Thread(target=cls.origin.serve_forever, daemon=True).start()
        cls.backend = "127.0.0.1:%d" % cls.origin.server_address[1]
        cls.tarnd = cls.start(cls)
        cls.socket = os.path.join(cls.tarnd.dir, "admin.sock")

    def start(self, admin="unix:{dir}/admin.sock", more="", **kw):
        return tarnd.Tarnd(program, f"""
workers: 2
backends: {{origin: {{address: "{self.backend}"}}}}
storage: {{main: {{engine: malloc, size: 16MiB}}}}
admin: {{address: "{admin}"{more}}}
""", **kw)

    @classmethod
    def tearDownClass(cls):
        path = cls.socket
        status = cls.tarnd.close()
        cls.origin.shutdown()
        cls.origin.server_close()
        assert status == 0, f"tarnd ended with status {status}"
        assert not os.path.exists(path), "the socket is still there"

    def connect(self, **kw):
        c = UnixConnection(self.socket, **kw)
        self.addCleanup(c.close)
        return c

    def ask(self, method, path, body=None, headers=None, want=200):
        told = ask(self.connect(), method, path, body, headers)
        self.assertEqual(told.status, want, told)
        return told

    def raw(self, data, unix=None):
        """What comes back for these bytes, to the connection's end."""
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(tarnd.PATIENCE_S)
            s.connect(unix or self.socket)
            try:
                s.sendall(data)
            except (BrokenPipeError, ConnectionResetError):
                pass
            return tarnd.Answer(tarnd.read_to_end(s))

    def test_the_socket_is_for_its_owner_alone(self):
        mode = os.stat(self.socket).st_mode
        self.assertTrue(stat.S_ISSOCK(mode))
        self.assertEqual(stat.S_IMODE(mode), 0o600)

    def test_status_names_the_port_really_bound(self):
        told = self.ask("GET", "/v1/status").json
        self.assertEqual(told["state"], "running")
        self.assertEqual(told["pid"], self.tarnd.process.pid)
        self.assertEqual(told["workers"], 2)
        self.assertEqual(told["listen"],
                         [{"name": "listen0", "address": f"127.0.0.1:{self.tarnd.port}"}])
        self.assertEqual(self.ask("GET", "/healthz").json, {"state": "running"})

    def test_what_is_not_there_is_answered_with_what_is(self):
        told = self.ask("GET", "/v2/status", want=404).json
        self.assertIn("GET /v1/status", told["routes"])
        told = self.ask("DELETE", "/v1/status", want=405)
        self.assertEqual(told.fields["Allow"], "GET, HEAD")
        for route in self.ask("GET", "/v1").json["routes"]:
            self.assertTrue(route["answer"])

    def test_the_routes_are_described_for_generators_of_clients(self):
        told = self.ask("GET", "/v1/openapi.json").json
        self.assertEqual(told["openapi"], "3.1.0")
        described = {(method.upper(), path) for path, methods in told["paths"].items()
                     for method in methods}
        routes = {(r["method"], r["path"].replace("*", "{name}"))
                  for r in self.ask("GET", "/v1").json["routes"]}
        self.assertEqual(described, routes)
        purge = told["paths"]["/v1/purge"]["post"]["requestBody"]
        schema = purge["content"]["application/json"]["schema"]
        texts = {"type": "array", "items": {"type": "string"}}
        self.assertEqual(schema["properties"], {"url": {"type": "string"}, "headers": texts,
                                                "tag": {"type": "string"}, "tags": texts,
                                                "all": {"type": "boolean"}, "soft": {"type": "boolean"},
                                                "wait": {"type": "string"}, "timeout_ms": {"type": "integer"},
                                                "local": {"type": "boolean"}})
        self.assertEqual(schema["required"], [])
        load = told["paths"]["/v1/policies/{name}"]["put"]
        self.assertEqual([p["name"] for p in load["parameters"]], ["name"])
        self.assertIn("text/plain", load["requestBody"]["content"])
        dump = told["paths"]["/v1/index/dump"]["get"]
        self.assertNotIn("requestBody", dump)
        self.assertEqual([(p["in"], p["name"]) for p in dump["parameters"]],
                         [("query", "limit"), ("query", "after")])
        for methods in told["paths"].values():
            for operation in methods.values():
                self.assertEqual(set(operation["responses"]), {"2XX", "default"})

    def test_answers_have_the_members_that_are_described(self):
        """Those, no others, of these types: with backends that have probes and directors."""
        it = tarnd.Tarnd(program, f"""
backends:
  one: {{address: "{self.backend}", probe: {{url: /, interval: 50ms}}}}
  two: {{address: "{self.backend}"}}
directors: {{both: {{backends: [one, two]}}}}
admin: {{address: "unix:{{dir}}/admin.sock"}}
""")
        self.addCleanup(it.tidy)
        c = UnixConnection(os.path.join(it.dir, "admin.sock"))
        self.addCleanup(c.close)
        told = ask(c, "GET", "/v1/openapi.json").json
        answer = described(told, "GET", "/v1/top")
        self.check(told, answer, ask(c, "GET", "/v1/top").json, "/v1/top")

        def rows():
            it.ask("/")
            return ask(c, "GET", "/v1/top").json["top"]

        tarnd.wait_until(rows, "a row of what is asked for")
        used = set()
        for path in ("/v1/status", "/v1/latency", "/v1/top", "/v1/top?of=backend", "/v1/backends"):
            schema = described(told, "GET", path.split("?")[0])
            used |= self.check(told, schema, ask(c, "GET", path).json, path)
        answer = ask(c, "PUT", "/v1/backends/one/health", {"health": "auto"})
        self.check(told, described(told, "PUT", "/v1/backends/{name}/health"), answer.json, "one")
        error = told["components"]["schemas"]["Error"]["properties"]
        self.assertEqual(set(error), {"error", "hint"})
        self.assertEqual(used, set(told["components"]["schemas"]) - {"Error"})
        self.assertEqual(it.close(), 0)

    def check(self, told, schema, value, where):
        """Whether a value is as its schema says; the names of the schemas that it has used."""
        if "anyOf" in schema:
            if value is None:
                self.assertIn({"type": "null"}, schema["anyOf"], where)
                return set()
            schema = schema["anyOf"][0]
        if "$ref" in schema:
            name = schema["$ref"].rpartition("/")[2]
            return {name} | self.check(told, told["components"]["schemas"][name], value, where)
        is_a = {"string": str, "integer": int, "number": (int, float), "boolean": bool, "array": list,
                "object": dict, "null": type(None)}
        types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        self.assertTrue(any(isinstance(value, is_a[t]) and (t == "boolean" or value is not True)
                            for t in types), f"{where}: {value} is not {types}")
        used, inner = set(), []
        if "properties" in schema:
            self.assertEqual(set(value), set(schema["properties"]), where)
            self.assertEqual(set(value), set(schema["required"]), where)
            self.assertFalse(schema["additionalProperties"])
            for name, member in schema["properties"].items():
                self.assertGreater(len(member["description"]), 3)
                inner.append((member, value[name], f"{where}: {name}"))
        elif "additionalProperties" in schema:
            inner = [(schema["additionalProperties"], v, f"{where}: {k}") for k, v in value.items()]
        elif "items" in schema:
            inner = [(schema["items"], v, f"{where}[{i}]") for i, v in enumerate(value)]
        for each in inner:
            used |= self.check(told, *each)
        return used

    def test_what_is_described_is_what_is_taken(self):
        """A member that is described is known, and without those that must be there it is refused."""
        told = self.ask("GET", "/v1/openapi.json").json["paths"]
        for path, methods in told.items():
            for method, operation in methods.items():
                content = operation.get("requestBody", {}).get("content", {})
                if "application/json" not in content:
                    continue
                schema = content["application/json"]["schema"]
                name = {"/v1/parameters/{name}": "default_ttl",
                        "/v1/backends/{name}/health": self.ask(
                            "GET", "/v1/backends").json["backends"][0]["name"]}.get(path, "any")
                target = path.replace("{name}", name)
                answer = self.ask(method.upper(), target, {}, want=400)
                self.assertIn((schema["required"] or list(schema["properties"]))[0],
                              answer.json["error"])
                wrong = {name: [] for name in schema["properties"]}
                error = self.ask(method.upper(), target, wrong, want=400).json["error"]
                self.assertNotIn("unknown", error)

    def test_head_is_get_without_its_body(self):
        c = self.connect()
        told = ask(c, "GET", "/healthz")
        c.request("HEAD", "/healthz")
        answer = c.getresponse()
        self.assertEqual((answer.status, answer.read()), (200, b""))
        self.assertEqual(answer.headers["Content-Length"], str(len(told.text)))
        self.assertEqual(ask(c, "GET", "/healthz").status, 200)

    def test_counters_count_in_both_forms(self):
        before = self.ask("GET", "/v1/counters").json["req.total"]
        for i in range(5):
            self.assertEqual(self.tarnd.ask(f"/counted-{i}").status, 200)
        self.assertEqual(self.ask("GET", "/v1/counters").json["req.total"], before + 5)
        self.assertGreater(self.ask("GET", "/v1/counters").json["storage.used"], 0)
        told = self.ask("GET", "/metrics")
        self.assertTrue(told.fields["Content-Type"].startswith("text/plain; version=0.0.4"))
        self.assertIn(f"tarn_req_total {before + 5}\n", told.text)

    def pages(self, limit):
        """Every key of the index, and how many pages that took."""
        keys, after, n, c = [], "0", 0, self.connect()
        while after is not None:
            page = ask(c, "GET", f"/v1/index/dump?limit={limit}&after={after}").json
            self.assertLess(len(page["keys"]), limit + 8)
            keys += page["keys"]
            after = page["next"]
            n += 1
            self.assertLess(n, 10000)
        return keys, n

    def test_the_index_grows_and_shows_what_is_in_it(self):
        urls = {f"/kept/{i}" for i in range(1500)}
        own = self.start()
        self.addCleanup(own.close)
        self.socket, shared = os.path.join(own.dir, "admin.sock"), self.socket
        self.addCleanup(setattr, self, "socket", shared)
        before = self.ask("GET", "/v1/index").json
        self.assertEqual((before["entries"], before["bits"]), (0, 10))
        self.assertEqual(before["growth"]["fixed"], False)
        c = http.client.HTTPConnection("127.0.0.1", own.port, timeout=tarnd.PATIENCE_S)
        for url in sorted(urls):
            c.request("GET", url, headers={"Host": "tarn"})
            self.assertEqual(c.getresponse().read()[-len(url):].decode(), url)
        c.close()
        index = self.ask("GET", "/v1/index").json
        self.assertEqual((index["entries"], index["victims"]), (1500, 0))
        self.assertEqual(index["growth"]["refused"], 0)
        self.assertGreaterEqual(index["growth"]["doubled"], 1)
        self.assertEqual(sum(index["occupancy"]["buckets"]), index["occupancy"]["seen"])
        self.assertEqual(sum(n * b for n, b in enumerate(index["occupancy"]["buckets"])), 1500)
        for limit in (1, 97, 1000):
            keys, n = self.pages(limit)
            self.assertGreaterEqual(n, 2)
            self.assertEqual(len({k["key"] for k in keys}), len(keys))
            self.assertEqual({e["url"][-len("/kept/") - 4:].partition("/kept/")[2]
                              for k in keys for e in k["entries"]},
                             {u.partition("/kept/")[2] for u in urls})
        for key in keys:
            self.assertEqual(int(key["tag"], 16), int(key["key"][:3], 16) or 1)  # none is 0
            self.assertIn(key["side"], "AB")
            entry = key["entries"][0]
            self.assertEqual((entry["state"], entry["status"]), ("ready", 200))
            self.assertGreater(entry["bytes"], 20)
            self.assertGreater(entry["ttl"], 900)
            self.assertLess(entry["age"], 100)
        own_counters = self.ask("GET", "/v1/counters").json
        self.assertGreaterEqual(own_counters["index.doubled"], 1)

    def test_a_parameter_changes_for_every_worker(self):
        def reused(path):
            first = self.tarnd.ask(path).body
            return [self.tarnd.ask(path).body == first for _ in range(20)]

        self.assertFalse(any(reused("/ttl-before")))
        try:
            told = self.ask("PUT", "/v1/parameters/default_ttl", {"value": "1h"}).json
            self.assertEqual(told["value"], "1h")
            tarnd.wait_until(lambda: all(reused(f"/ttl-{time.monotonic()}")),
                             "every worker goes by the new default_ttl", 10)
            listed = {p["name"]: p for p in self.ask("GET", "/v1/parameters").json["parameters"]}
            self.assertEqual(listed["default_ttl"]["value"], "1h")
            self.assertEqual(listed["default_ttl"]["default"], "0s")
        finally:
            self.ask("PUT", "/v1/parameters/default_ttl", {"value": "0s"})
        tarnd.wait_until(lambda: not any(reused(f"/ttl-{time.monotonic()}")),
                         "and by the old one", 10)

    def test_parameters_change_while_requests_come(self):
        stop = threading.Event()
        wrong = []

        def client():
            while not stop.is_set():
                if self.tarnd.ask("/while").status != 200:
                    wrong.append("a request failed")

        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            for _ in range(4):
                pool.submit(client)
            c = self.connect()
            for i in range(300):
                told = ask(c, "PUT", "/v1/parameters/timeout_idle", {"value": f"{i + 1000}ms"})
                self.assertEqual(told.status, 200, told)
            ask(c, "PUT", "/v1/parameters/timeout_idle", {"value": "5s"})
            stop.set()
        self.assertEqual(wrong, [])

    def test_a_parameter_that_cannot_change_says_so(self):
        self.assertIn("restart", self.ask("PUT", "/v1/parameters/listen_depth", {"value": 1},
                                          want=409).json["error"])
        self.ask("PUT", "/v1/parameters/nothing", {"value": 1}, want=404)
        told = self.ask("PUT", "/v1/parameters/max_restarts", {"value": -1}, want=400).json
        self.assertIn("negative", told["error"])

    def test_a_backend_that_is_said_to_be_sick_is_not_asked(self):
        listed = self.ask("GET", "/v1/backends").json["backends"]
        self.assertEqual([b["name"] for b in listed], ["origin"])
        self.assertTrue(listed[0]["healthy"])
        try:
            told = self.ask("PUT", "/v1/backends/origin/health", {"health": "sick"}).json
            self.assertFalse(told["healthy"])
            self.assertEqual(self.tarnd.ask("/sick").status, 503)
        finally:
            self.ask("PUT", "/v1/backends/origin/health", {"health": "auto"})
        self.assertEqual(self.tarnd.ask("/well").status, 200)
        self.ask("PUT", "/v1/backends/other/health", {"health": "sick"}, want=404)
        self.ask("PUT", "/v1/backends/origin/health", {"health": "ill"}, want=400)

    def test_a_ban_ends_what_it_matches_and_nothing_else(self):
        def body(path):
            return self.tarnd.ask(path).body

        red, blue = body("/kept/red"), body("/kept/blue")
        self.assertEqual((body("/kept/red"), body("/kept/blue")), (red, blue))
        expression = "obj.http.x-tag == red"
        told = self.ask("POST", "/v1/bans", {"expression": expression}, want=201).json
        self.assertEqual(told["expression"], expression)
        self.assertEqual(self.ask("GET", "/v1/bans").json["bans"][0]["expression"], expression)
        self.assertNotEqual(body("/kept/red"), red)
        self.assertEqual(body("/kept/blue"), blue)
        told = self.ask("POST", "/v1/bans", {"expression": "obj.http.x-tag = red"}, want=400).json
        self.assertTrue(told["error"])
        self.ask("POST", "/v1/bans", {"expression": ""}, want=400)

    def test_old_bans_are_completed_in_the_background(self):
        self.tarnd.ask("/kept/lurk")
        for name, value in (("ban_lurker_age", "0s"), ("ban_lurker_sleep", "5ms")):
            self.ask("PUT", "/v1/parameters/" + name, {"value": value})
        try:
            self.ask("POST", "/v1/bans", {"expression": "obj.http.x-tag == lurk"}, want=201)
            tarnd.wait_until(lambda: all(b["completed"] for b in self.ask("GET", "/v1/bans").json["bans"]),
                             "the lurker completes every ban", 15)
        finally:
            self.ask("PUT", "/v1/parameters/ban_lurker_age", {"value": "60s"})
            self.ask("PUT", "/v1/parameters/ban_lurker_sleep", {"value": "10ms"})

    def test_policies_are_loaded_used_and_forgotten(self):
        def text(body):
            return ('vcl 4.1; sub vcl_recv { if (req.url ~ "^/policy") { return (synth(200, "%s")); } }\n'
                    'sub vcl_synth { set resp.body = resp.reason; return (deliver); }' % body)

        def serves(body):
            return self.tarnd.ask("/policy").body == body

        self.assertIsNone(self.ask("GET", "/v1/status").json["policy"])
        self.ask("PUT", "/v1/policies/one", text("one"), want=201)
        self.ask("PUT", "/v1/policies/two", text("two"), want=201)
        self.ask("PUT", "/v1/policies/two", text("two"), want=409)
        self.assertFalse(serves(b"one"))  # loaded is not used
        self.ask("PUT", "/v1/policies/active", {"name": "one"})
        self.assertTrue(serves(b"one"))
        self.assertEqual(self.ask("GET", "/v1/status").json["policy"], "one")

        told = self.ask("PUT", "/v1/policies/bad", text("bad") + "\nsub vcl_recv { set nothing = 1; }",
                        want=422).json
        self.assertEqual([e["line"] for e in told["errors"]], [3])
        for key in ("file", "column", "message", "hint", "source"):
            self.assertIn(key, told["errors"][0])
        self.ask("PUT", "/v1/policies/active", {"name": "bad"}, want=404)
        self.ask("PUT", "/v1/policies/1", text("x"), want=400)
        self.assertTrue(serves(b"one"))

        self.ask("PUT", "/v1/labels/live", {"name": "two"})
        self.ask("DELETE", "/v1/policies/two", want=409)
        self.ask("DELETE", "/v1/policies/one", want=409)
        self.ask("PUT", "/v1/policies/active", {"name": "live"})
        self.assertTrue(serves(b"two"))
        self.ask("DELETE", "/v1/policies/one")
        self.ask("PUT", "/v1/policies/active", {"name": "one"}, want=404)
        names = [p["name"] for p in self.ask("GET", "/v1/policies").json["policies"]
                 if p["state"] != "discarded"]
        self.assertEqual(sorted(names), ["live", "two"])

    def test_garbage_is_answered_once_and_ends_the_connection(self):
        for data in (b"\x16\x03\x01\x02\x00\x01\r\n\r\n", b"GET /\r\n\r\n",
                     b"GET /v1/status HTTP/1.1\r\n\r\n",
                     b"GET /v1/status HTTP/1.1\r\nHost: tarn\r\nHost: b\r\n\r\n",
                     b"POST /v1/stop HTTP/1.1\r\nHost: tarn\r\nContent-Length: 1\r\n"
                     b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
                     b"GET " + b"/" * 9000 + b" HTTP/1.1\r\nHost: tarn\r\n\r\n"):
            answer = self.raw(data)
            self.assertIn(answer.status, (400, 414, 505), answer.data[:200])
            self.assertEqual(answer.fields["content-type"], "application/json")
            self.assertEqual(answer.fields["connection"], "close")
            self.assertIn("error", json.loads(answer.body))
        self.assertEqual(self.ask("GET", "/v1/status").json["state"], "running")

    def test_bodies_that_are_not_json_are_told_where(self):
        for body, error in (("{", "line 1"), ("[]", "not a JSON object"), ("", "not JSON"),
                            ('{"value": 1, "value": 2}', "duplicate"), ("\xff\xfe", "not JSON"),
                            ("[" * 100000, "not JSON"), ('{"wert": 1}', "unknown member")):
            told = self.ask("PUT", "/v1/parameters/max_restarts", body.encode("latin-1"), want=400)
            self.assertIn(error, told.json["error"])

    def test_a_body_that_is_too_large_is_not_read(self):
        head = b"PUT /v1/parameters/max_restarts HTTP/1.1\r\nHost: tarn\r\n"
        answer = self.raw(head + b"Content-Length: %d\r\n\r\n" % (BODY_MAX + 1))
        self.assertEqual(answer.status, 413)
        self.assertIn("error", json.loads(answer.body))
        chunk = b"10000\r\n" + b" " * 65536 + b"\r\n"
        answer = self.raw(head + b"Transfer-Encoding: chunked\r\n\r\n" + chunk * 80)
        self.assertIn(answer.status, (413, 0))  # 0: a reset may overtake the answer
        told = self.ask("PUT", "/v1/parameters/max_restarts", b" " * BODY_MAX, want=400)
        self.assertIn("not JSON", told.json["error"])

    def test_slow_and_silent_clients_hold_up_nobody(self):
        silent = []
        for data in (b"", b"GET /v1/st", b"PUT /v1/policies/x HTTP/1.1\r\nHost: tarn\r\n"
                     b"Content-Length: 100\r\n\r\nhalf"):
            s = socket.socket(socket.AF_UNIX)
            s.connect(self.socket)
            s.sendall(data)
            silent.append(s)
        slow = socket.socket(socket.AF_UNIX)
        slow.settimeout(tarnd.PATIENCE_S)
        slow.connect(self.socket)
        for byte in b"GET /healthz HTTP/1.1\r\nHost: tarn\r\nConnection: close\r\n\r\n":
            slow.sendall(bytes([byte]))
            self.assertEqual(self.ask("GET", "/healthz").json["state"], "running")
        self.assertEqual(tarnd.Answer(tarnd.read_to_end(slow)).status, 200)
        for s in silent + [slow]:
            s.close()

    def test_a_client_that_does_not_read_holds_up_nobody(self):
        s = socket.socket(socket.AF_UNIX)
        s.connect(self.socket)
        s.setblocking(False)
        try:
            for _ in range(2000):
                s.send(b"GET /v1/parameters HTTP/1.1\r\nHost: tarn\r\n\r\n")
        except BlockingIOError:
            pass
        self.assertEqual(self.ask("GET", "/v1/status").json["state"], "running")
        s.close()

    def test_fifty_at_once_are_all_answered(self):
        def client(number):
            c = UnixConnection(self.socket)
            for i in range(20):
                path = ("/v1/status", "/v1/counters", "/v1/parameters", "/metrics", "/v1/backends")
                told = ask(c, "GET", path[(number + i) % len(path)])
                if told.status != 200:
                    return repr(told)
                told = ask(c, "PUT", "/v1/parameters/max_retries", {"value": number % 5})
                if told.status != 200 or told.json["value"] != str(number % 5):
                    return repr(told)
            c.close()
            return None

        with concurrent.futures.ThreadPoolExecutor(50) as pool:
            self.assertEqual([w for w in pool.map(client, range(50)) if w is not None], [])

    def test_a_second_one_on_the_same_socket_is_refused(self):
        with open(os.path.join(self.tarnd.dir, "second.yaml"), "w", encoding="utf-8") as f:
            f.write(f"listen: [{{address: '127.0.0.1:0'}}]\n"
                    f"backends: {{o: {{address: '{self.backend}'}}}}\n"
                    f"admin: {{address: 'unix:{self.socket}'}}\n")
        done = subprocess.run([program, "-c", f.name], capture_output=True, text=True, check=False,
                              timeout=tarnd.PATIENCE_S)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("cannot listen on unix:", done.stderr)
        self.assertEqual(self.ask("GET", "/healthz").json["state"], "running")


class Ways(unittest.TestCase):
    """A tarnd for each."""

    start = Admin.start

    def setUp(self):
        self.origin = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Origin)
        threading.Thread(target=self.origin.serve_forever, daemon=True).start()
        self.backend = "127.0.0.1:%d" % self.origin.server_address[1]
        self.addCleanup(self.origin.server_close)
        self.addCleanup(self.origin.shutdown)

    def ends(self, it):
        self.assertEqual(it.process.wait(timeout=tarnd.PATIENCE_S), 0)

    def test_over_tcp_the_token_is_asked_for(self):
        port = tarnd.free_port()
        it = self.start(admin=f"127.0.0.1:{port}", more=f", token: '{TOKEN}'")
        self.addCleanup(it.tidy)

        def told(method, path, token=None, body=None):
            c = http.client.HTTPConnection("127.0.0.1", port, timeout=tarnd.PATIENCE_S)
            try:
                return ask(c, method, path, body,
                           {} if token is None else {"Authorization": token})
            finally:
                c.close()

        for token in (None, "", "Bearer", "Bearer ", "Bearer " + TOKEN[:-1], "Bearer " + TOKEN + "x",
                      "Basic " + TOKEN, TOKEN, "Bearer " + TOKEN.upper()):
            for method, path in (("GET", "/v1/status"), ("POST", "/v1/stop"), ("GET", "/nothing"),
                                 ("GET", "/metrics"), ("PUT", "/v1/policies/active")):
                no = told(method, path, token)
                self.assertEqual(no.status, 401, no)
                self.assertTrue(no.fields["WWW-Authenticate"].startswith("Bearer"))
                self.assertNotIn(TOKEN, no.text)
        self.assertEqual(told("GET", "/healthz").status, 200)
        self.assertEqual(told("GET", "/v1/status", "Bearer " + TOKEN).json["admin"],
                         f"127.0.0.1:{port}")
        self.assertEqual(told("POST", "/v1/stop", "Bearer " + TOKEN).status, 200)
        self.ends(it)

    def test_dns_rebinding_is_refused_over_both_kinds_of_socket(self):
        it = self.start(more=", names: [ops.example.com]")
        self.addCleanup(it.tidy)
        path = os.path.join(it.dir, "admin.sock")
        for host, want in (("tarn", 200), ("localhost:6082", 200), ("127.0.0.1:6082", 200),
                           ("ops.example.com", 200), ("evil.test", 403), ("evil.test:6082", 403)):
            c = UnixConnection(path)
            told = ask(c, "PUT", "/v1/parameters/max_restarts", {"value": "3"}, {"Host": host})
            self.assertEqual(told.status, want, told)
            self.assertEqual(ask(c, "GET", "/healthz", None, {"Host": host}).status, 200)
            if want == 403:
                self.assertIn("admin.names", told.json["error"])
            else:
                told = ask(c, "POST", "/v1/stop", None, {"Host": host, "Origin": "http://evil.test"})
                self.assertEqual(told.status, 403, told)
            c.close()
        self.assertEqual(it.close(), 0)

    def silent(self, connect, how_many):
        """So many connections that say nothing; closed with the test."""
        them = []
        for _ in range(how_many):
            s = connect()
            self.addCleanup(s.close)
            them.append(s)
        return them

    def test_silent_connections_do_not_lock_the_operator_out(self):
        """More of them than the listener has room for, over TCP and over a Unix socket."""
        port = tarnd.free_port()

        def tcp():
            return socket.create_connection(("127.0.0.1", port), timeout=tarnd.PATIENCE_S)

        def ask_tcp(path, token=True):
            c = http.client.HTTPConnection("127.0.0.1", port, timeout=tarnd.PATIENCE_S)
            try:
                return ask(c, "GET", path, None, {"Authorization": "Bearer " + TOKEN} if token else {})
            finally:
                c.close()

        it = self.start(admin=f"127.0.0.1:{port}", more=f", token: '{TOKEN}'")
        self.addCleanup(it.tidy)
        mine = http.client.HTTPConnection("127.0.0.1", port, timeout=tarnd.PATIENCE_S)
        self.addCleanup(mine.close)
        bearer = {"Authorization": "Bearer " + TOKEN}
        self.assertEqual(ask(mine, "GET", "/v1/status", None, bearer).status, 200)
        for _ in range(3):
            self.silent(tcp, 100)
            self.assertEqual(ask_tcp("/v1/status").status, 200)
            self.assertEqual(ask_tcp("/healthz", token=False).status, 200)
            self.assertEqual(ask(mine, "GET", "/v1/status", None, bearer).status, 200)
        time.sleep(0.3)  # the silent ones have had their chance: a few stay
        self.silent(tcp, 40)
        tarnd.wait_until(lambda: it.descriptors() < 100, "the silent connections end")
        self.assertEqual(it.close(), 0)

        it = self.start()
        self.addCleanup(it.tidy)
        path = os.path.join(it.dir, "admin.sock")

        def unix():
            s = socket.socket(socket.AF_UNIX)
            s.settimeout(tarnd.PATIENCE_S)
            s.connect(path)
            return s

        for _ in range(3):
            self.silent(unix, 100)
            c = UnixConnection(path)
            self.assertEqual(ask(c, "GET", "/v1/status").status, 200)
            c.close()
        self.assertEqual(it.close(), 0)

    def test_a_connection_has_five_seconds_to_authenticate(self):
        port = tarnd.free_port()
        it = self.start(admin=f"127.0.0.1:{port}", more=f", token: '{TOKEN}'")
        self.addCleanup(it.tidy)
        begun = time.monotonic()
        slow = socket.create_connection(("127.0.0.1", port), timeout=tarnd.PATIENCE_S)
        self.addCleanup(slow.close)
        slow.sendall(b"GET /v1/status HTTP/1.1\r\n")
        mine = http.client.HTTPConnection("127.0.0.1", port, timeout=tarnd.PATIENCE_S)
        self.addCleanup(mine.close)
        bearer = {"Authorization": "Bearer " + TOKEN}
        self.assertEqual(ask(mine, "GET", "/v1/status", None, bearer).status, 200)
        address = mine.sock.getsockname()
        self.assertEqual(slow.recv(1000), b"")
        self.assertTrue(4.5 < time.monotonic() - begun < 8, time.monotonic() - begun)
        self.assertEqual(ask(mine, "GET", "/v1/status", None, bearer).status, 200)
        self.assertEqual(mine.sock.getsockname(), address)  # the same connection
        self.assertEqual(it.close(), 0)

    def test_who_may_look_and_who_may_change(self):
        me, mine = os.getuid(), os.getgid()
        value = {"value": "3"}
        for allow, looks, changes in (
                (f"{{read: ['user:{me}']}}", 200, 403), (f"{{write: ['user:{me}']}}", 200, 200),
                (f"{{read: ['user:{me + 1}'], write: ['group:{mine}']}}", 200, 200),
                ("{}", 403, 403), (f"{{read: ['group:{mine + 1}', 10.0.0.0/8]}}", 403, 403),
                ("{read: [unix], write: []}", 200, 403)):
            it = self.start(more=", allow: " + allow)
            self.addCleanup(it.tidy)
            path = os.path.join(it.dir, "admin.sock")

            def told(method, target, body=None, path=path):
                c = UnixConnection(path)
                try:
                    return ask(c, method, target, body)
                finally:
                    c.close()

            self.assertEqual(told("GET", "/healthz").status, 200)
            answer = told("GET", "/v1/status")
            self.assertEqual(answer.status, looks, allow)
            if looks == 403:
                self.assertEqual(answer.json["error"],
                                 f"allow.read does not have uid {me}, gid {mine}")
            answer = told("PUT", "/v1/parameters/max_restarts", value)
            self.assertEqual(answer.status, changes, allow)
            if changes == 403:
                self.assertIn("allow.write", answer.json["error"])
            self.assertEqual(it.close(), 0)

    def test_the_log_says_who_changed_something(self):
        with tempfile.TemporaryFile() as log:
            it = self.start(stderr=log)
            self.addCleanup(it.tidy)
            c = UnixConnection(os.path.join(it.dir, "admin.sock"))
            self.addCleanup(c.close)
            self.assertEqual(ask(c, "PUT", "/v1/parameters/max_restarts", {"value": "3"}).status, 200)
            self.assertEqual(it.close(), 0)
            log.seek(0)
            self.assertIn(f"admin: uid {os.getuid()}: PUT /v1/parameters/max_restarts "
                          '{"value": "3"}: 200\n', log.read().decode())

    def test_who_is_allowed_has_to_be_somebody(self):
        it = subprocess.run([program, "-t", "-c", "/dev/stdin"], capture_output=True, text=True,
                            check=False, timeout=tarnd.PATIENCE_S,
                            input="backends: {o: {address: '127.0.0.1:9'}}\n"
                                  "admin: {allow: {read: ['user:nobody-has-this-name']}}\n")
        self.assertEqual(it.returncode, 2)
        self.assertIn("names no user that there is", it.stderr)

    def test_tcp_without_a_token_is_not_configured(self):
        it = subprocess.run([program, "-t", "-c", "/dev/stdin"], capture_output=True, text=True,
                            check=False, timeout=tarnd.PATIENCE_S,
                            input="backends: {o: {address: '127.0.0.1:9'}}\n"
                                  "admin: {address: '127.0.0.1:0'}\n")
        self.assertEqual(it.returncode, 2)
        self.assertIn("add a 'token'", it.stderr)

    def test_stop_lets_what_is_in_flight_finish(self):
        it = self.start()
        self.addCleanup(it.tidy)
        path = os.path.join(it.dir, "admin.sock")
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            slow = pool.submit(it.ask, "/slow")
            time.sleep(0.3)
            idle = UnixConnection(path)
            self.assertEqual(ask(idle, "POST", "/v1/stop").json, {"state": "draining"})
            time.sleep(0.1)
            self.assertEqual(ask(idle, "GET", "/v1/status").json["state"], "draining")
            self.assertEqual(ask(idle, "GET", "/healthz").status, 200)
            self.assertEqual(ask(idle, "GET", "/readyz").status, 503)
            self.assertEqual(ask(idle, "POST", "/v1/stop").status, 200)  # again changes nothing
            self.assertEqual(slow.result().status, 200)
        self.ends(it)  # though `idle` is still open
        idle.close()

    def test_sigterm_ends_with_operators_connected(self):
        it = self.start()
        self.addCleanup(it.tidy)
        path = os.path.join(it.dir, "admin.sock")
        idle = [UnixConnection(path) for _ in range(10)]
        for c in idle[:5]:
            self.assertEqual(ask(c, "GET", "/healthz").status, 200)
        for c in idle[5:]:
            c.connect()
            c.sock.sendall(b"POST /v1/pu")  # a request that never comes whole
        began = time.monotonic()
        it.process.send_signal(signal.SIGTERM)
        self.ends(it)
        self.assertLess(time.monotonic() - began, 10)
        for c in idle:
            c.close()

    def test_without_the_section_there_is_no_listener(self):
        it = tarnd.Tarnd(program, f"backends: {{o: {{address: '{self.backend}'}}}}\n")
        self.addCleanup(it.tidy)
        self.assertEqual(it.ask("/").status, 200)
        self.assertEqual(it.close(), 0)


def main():
    global program
    if len(sys.argv) < 2:
        sys.exit("usage: admin.py TARND [TEST...]")
    program = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)


if __name__ == "__main__":
    main()
