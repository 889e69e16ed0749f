#!/usr/bin/env python3
"""schema.py TARND [TEST...] -- what editors are told of the configuration is what tarnd reads.

The shipped configuration and every example are valid by conf/tarn.schema.json; each mistake of a list
is refused by it and by `tarnd -t`, at the same place.
"""
import glob
import json
import os
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
try:
    import jsonschema
    import yaml
except ImportError as e:
    sys.exit(f"schema.py: {e.name} is missing (scripts/install-deps --test)")

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BACKENDS = 'backends: { a: { address: "127.0.0.1:9000" } }\n'
program = None

# What is wrong, where the schema has to say so, and the file.
MISTAKES = (
    ("no backend", (), "workers: 1\n"),
    ("an unknown section", (), BACKENDS + "storge: {}\n"),
    ("a section that is not built", (), BACKENDS + "tls: {}\n"),
    ("an unknown key", ("storage", "main"), BACKENDS + "storage: { main: { sise: 1GiB } }\n"),
    ("an unknown parameter", ("parameters",), BACKENDS + "parameters: { default_tll: 1s }\n"),
    ("a backend without address", ("backends", "a"), "backends: { a: { max_idle: 3 } }\n"),
    ("an address without port", ("backends", "a", "address"), "backends: { a: { address: localhost } }\n"),
    ("any host as a backend", ("backends", "a", "address"), 'backends: { a: { address: "*:80" } }\n'),
    ("a relative socket", ("backends", "a", "address"), 'backends: { a: { address: "unix:x" } }\n'),
    ("a backend's name", ("backends",), 'backends: { 4a: { address: "127.0.0.1:9000" } }\n'),
    ("a list that is a map", ("listen",), BACKENDS + 'listen: { address: "*:80" }\n'),
    ("a map that is text", ("backends", "a"), "backends: { a: here }\n"),
    ("a time without unit", ("parameters", "default_ttl"), BACKENDS + "parameters: { default_ttl: 10 }\n"),
    ("an unknown unit", ("parameters", "default_ttl"), BACKENDS + "parameters: { default_ttl: 10x }\n"),
    ("an unknown unit of size", ("storage", "main", "size"), BACKENDS + "storage: { main: { size: 1XB } }\n"),
    ("a number above its most", ("parameters", "max_restarts"), BACKENDS + "parameters: { max_restarts: 11 }\n"),
    ("a number below its least", ("workers",), BACKENDS + "workers: -1\n"),
    ("a word that is none", ("parameters", "log_level"), BACKENDS + "parameters: { log_level: loud }\n"),
    ("a format that is none", ("parameters", "access_log_format"), BACKENDS + "parameters: { access_log_format: main }\n"),
    ("an engine that is none", ("storage", "main", "engine"), BACKENDS + "storage: { main: { engine: disk } }\n"),
    ("slots", ("index", "slots"), BACKENDS + "index: { slots: 6 }\n"),
    ("a switch that is none", ("parameters", "http_cache_status"), BACKENDS + "parameters: { http_cache_status: maybe }\n"),
    ("a token with a space", ("parameters", "http_via"), BACKENDS + "parameters: { http_via: a b }\n"),
    ("a path that does not begin with /", ("routes", 0, "path"), BACKENDS + "routes: [ { path: img, backend: a } ]\n"),
    ("a ttl without unit", ("routes", 0, "ttl"), BACKENDS + "routes: [ { ttl: 10 } ]\n"),
    ("a redirect that is a number", ("routes", 0, "redirect"), BACKENDS + "routes: [ { redirect: 301 } ]\n"),
    ("an unknown key of tls", ("listen", 0, "tls"), BACKENDS + 'listen: [ { address: "*:1", tls: { cert: /a } } ]\n'),
    ("a profile that is none", ("listen", 0, "tls", "profile"),
     BACKENDS + 'listen: [ { address: "*:1", tls: { certificates: /a, profile: old } } ]\n'),
    ("certificates as a map", ("listen", 0, "tls", "certificates"),
     BACKENDS + 'listen: [ { address: "*:1", tls: { certificates: { key: /a } } } ]\n'),
    ("a key without its certificate", ("listen", 0, "tls", "certificates", 0),
     BACKENDS + 'listen: [ { address: "*:1", tls: { certificates: [ { key: /a } ] } } ]\n'),
    ("names that are a map", ("listen", 0, "tls", "acme", "names"),
     BACKENDS + 'listen: [ { address: "*:1", tls: { acme: { names: { a.test: 1 } } } } ]\n'),
    ("an unknown key of acme", ("listen", 0, "tls", "acme"),
     BACKENDS + 'listen: [ { address: "*:1", tls: { acme: { names: a.test, mail: a@example.com } } } ]\n'),
    ("a number of days without unit", ("listen", 0, "tls", "acme", "renew_before"),
     BACKENDS + 'listen: [ { address: "*:1", tls: { acme: { names: a.test, renew_before: 30 } } } ]\n'),
    ("acme that is text", ("listen", 0, "tls", "acme"), BACKENDS + 'listen: [ { address: "*:1", tls: { acme: on } } ]\n'),
    ("a challenge that is none", ("listen", 0, "tls", "acme", "challenge"),
     BACKENDS + 'listen: [ { address: "*:1", tls: { acme: { names: [a.test], challenge: dns-01 } } } ]\n'),
    ("a backend's tls that is a word", ("backends", "a", "tls"), 'backends: { a: { address: "127.0.0.1:1", tls: maybe } }\n'),
    ("a backend's verify", ("backends", "a", "tls", "verify"),
     'backends: { a: { address: "127.0.0.1:1", tls: { verify: 2 } } }\n'),
    ("an unknown key of a backend's tls", ("backends", "a", "tls"),
     'backends: { a: { address: "127.0.0.1:1", tls: { cafile: /a } } }\n'),
    ("compression that is a word", ("compress",), BACKENDS + "compress: gzip\n"),
    ("compression that is a list", ("compress",), BACKENDS + "compress: [gzip]\n"),
    ("an unknown key of compress", ("compress",), BACKENDS + "compress: { level: 6 }\n"),
    ("a format that there is not", ("compress", "formats", 1), BACKENDS + "compress: { formats: [gzip, lzma] }\n"),
    ("no format", ("compress", "formats"), BACKENDS + "compress: { formats: [] }\n"),
    ("a media type without slash", ("compress", "types", 0), BACKENDS + "compress: { types: [html] }\n"),
    ("a media type with parameters", ("compress", "types", 0),
     BACKENDS + "compress: { types: ['text/html; charset=utf-8'] }\n"),
    ("a pattern of media types", ("compress", "types", 0), BACKENDS + "compress: { types: ['*/*'] }\n"),
    ("no state", ("compress", "states"), BACKENDS + "compress: { states: 0 }\n"),
    ("a route's compression that is a map", ("routes", 0, "compress"),
     BACKENDS + "routes: [ { path: /a, compress: { min_size: 1KiB } } ]\n"),
    ("a fleet without engine", ("fleet",), BACKENDS + "fleet: { name: shop }\n"),
    ("a fleet's name", ("fleet", "name"), BACKENDS + 'fleet: { name: "a b", engine: "redis://h" }\n'),
    ("an engine that is none", ("fleet", "engine"), BACKENDS + 'fleet: { name: shop, engine: "http://h" }\n'),
    ("one engine too many", ("fleet", "engine"),
     BACKENDS + "fleet: { name: shop, engine: [" + ", ".join(f"'redis://h{i}'" for i in range(9)) + "] }\n"),
    ("an engine of a list that is none", ("fleet", "engine", 1),
     BACKENDS + "fleet: { name: shop, engine: ['redis://h', h2] }\n"),
    ("an unknown key of a fleet", ("fleet",), BACKENDS + "fleet: { name: shop, engine: 'redis://h', pears: [b] }\n"),
    ("too few entries of the stream", ("fleet", "log_entries"),
     BACKENDS + "fleet: { name: shop, engine: 'redis://h', log_entries: 9 }\n"),
    ("a route with a port", ("routes", 0, "host"), BACKENDS + 'routes: [ { host: "a.example:80", backend: a } ]\n'),
)
FINE = (
    BACKENDS,
    BACKENDS + "workers: auto\nstorage: { main: { size: 67108864 } }\n",
    BACKENDS + "parameters: { http_cache_status: off, default_ttl: 1.5h, max_object_size: 10MB }\n",
    BACKENDS + 'listen: [ { address: "*:0" }, { address: "[::1]:0", name: v6 } ]\n',
    BACKENDS + "parameters: { access_log_format: '$remote_addr \"$request\" $status $cache' }\n",
    BACKENDS + "compress: on\nroutes: [ { path: /a, compress: off }, { path: /b, compress: \"\" } ]\n",
    BACKENDS + "compress: { formats: [br, gzip], types: [text/*, application/vnd.api+json], min_size: 0, states: 4 }\n",
    BACKENDS + "include: conf.d/*.yaml\n",
    "include: [conf.d/*.yaml, '*.yml']\n" + BACKENDS,
    BACKENDS + "negative_cache: {}\nindex: { bits: auto, slots: 4 }\nvcl: \"\"\n",
    BACKENDS + 'routes: [ { path: /img, host: "*.example.com", ttl: 1d, strip_cookies: true, methods: [GET] },\n'
               ' { path: /x, redirect: { to: /y } }, { redirect: https } ]\n',
    'backends: { a: { address: "unix:/run/a.sock", connect_timeout: 200ms, host_header: "a.example:8080" } }\n',
    BACKENDS + 'listen: [ { address: "*:0", tls: { profile: modern, acme: { names: [a.test, b.test], challenge: tls-alpn-01,\n'
               ' state: /nonexistent/acme } } } ]\n',
    BACKENDS + "fleet: { name: shop, node: a.1, engine: unix:/run/valkey.sock }\n",
    BACKENDS + "fleet: { name: shop, node: a, engine: ['rediss://tarn@127.0.0.1/1', 'rediss://tarn@[::1]:7/1'], sentinel: m,\n"
               " tls: { verify: off }, max_blind: 10s, wait: 500ms, log_entries: 1000, log_bytes: 1MiB, log_age: 1m }\n",
    'backends: { default: { address: "127.0.0.1:1", tls: on }, b: { address: "127.0.0.1:2", tls: { sni: b.test, verify: off } } }\n',
)


class Schema(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with open(os.path.join(ROOT, "conf", "tarn.schema.json"), encoding="utf-8") as f:
            cls.schema = json.load(f)
        cls.validator = jsonschema.Draft202012Validator(cls.schema)

    def errors(self, text):
        return list(self.validator.iter_errors(yaml.safe_load(text)))

    def tarnd_says(self, text):
        with tempfile.TemporaryDirectory(prefix="tarn-e2e.") as folder:
            path = os.path.join(folder, "tarn.yaml")
            with open(path, "w", encoding="utf-8") as f:
                f.write(text)
            return subprocess.run([program, "-t", "-c", path], capture_output=True, text=True)

    def test_it_is_a_schema(self):
        jsonschema.Draft202012Validator.check_schema(self.schema)

    def test_what_is_shipped_is_valid(self):
        files = [os.path.join(ROOT, "conf", "tarn.yaml"),
                 *glob.glob(os.path.join(ROOT, "conf", "examples", "*.yaml")),
                 *glob.glob(os.path.join(ROOT, "packaging", "*.yaml"))]
        self.assertGreater(len(files), 10)
        for path in files:
            if path.endswith(".alerts.yaml"):
                continue
            with open(path, encoding="utf-8") as f:
                self.assertEqual([e.message for e in self.errors(f.read())], [], path)

    def test_every_default_is_valid(self):
        """Each with the rest of its own schema."""
        seen = 0
        todo = [self.schema]
        while todo:
            node = todo.pop()
            if isinstance(node, dict):
                if "default" in node and "description" in node:
                    jsonschema.Draft202012Validator(node).validate(node["default"])
                    seen += 1
                todo += node.values()
            elif isinstance(node, list):
                todo += node
        self.assertGreater(seen, 60)

    def test_every_key_says_what_it_means(self):
        for name, section in self.schema["properties"].items():
            self.assertTrue(section["description"], name)

    def test_fine_files_are_fine_for_both(self):
        for text in FINE:
            self.assertEqual([e.message for e in self.errors(text)], [], text)
            said = self.tarnd_says(text)
            self.assertEqual(said.returncode, 0, text + said.stderr)

    def test_mistakes_are_refused_by_both(self):
        for what, place, text in MISTAKES:
            with self.subTest(what):
                places = [tuple(e.absolute_path) for e in self.errors(text)]
                self.assertIn(place, places, text)
                said = self.tarnd_says(text)
                self.assertEqual(said.returncode, 2, text + said.stdout)


def main():
    global program
    if len(sys.argv) < 2:
        sys.exit("usage: schema.py TARND [TEST...]")
    program = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)


if __name__ == "__main__":
    main()
