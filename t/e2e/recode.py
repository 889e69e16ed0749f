#!/usr/bin/env python3
"""recode.py TARND [TEST...] -- what is hit often gets shorter forms, and every client the same bytes.

Clients that take gzip, br, zstd, all of them or none ask for the same pages again and again, until tarnd has made the
forms; Python's brotli and zstandard (Debian's python3-brotli and python3-zstandard) unpack what comes.
"""
import base64
import gzip
import hashlib
import os
import sys
import tempfile
import threading
import time
import unittest
import urllib.parse

SYSTEM_PYTHON = "/usr/bin/python3"
try:
    import brotli
    import zstandard
except ImportError:
    if os.path.exists(SYSTEM_PYTHON) and not os.path.samefile(sys.executable, SYSTEM_PYTHON):
        os.execv(SYSTEM_PYTHON, [SYSTEM_PYTHON, *sys.argv])  # the distribution's packages are its own Python's
    sys.exit("recode: python3-brotli and python3-zstandard are missing (scripts/install-deps --test)")

sys.dont_write_bytecode = True
import compress
import tarnd
from compress import Answer, Origin, ask, plain

CONFIG = """
workers: 2
storage:
  main: {{ engine: malloc, size: {size} }}
backends:
  default: {{ address: "127.0.0.1:{port}" }}
compress: {{ min_size: 0, types: [text/*], formats: [{formats}], background_cpu: {cpu}% }}
routes:
  - {{ path: /off/, compress: off }}
  - {{ path: /js/, dictionary: "/js/app.*" }}
admin: {{ address: "unix:{{dir}}/admin.sock" }}
{policy}"""
POLICY = """vcl 4.1;
sub vcl_deliver { set resp.http.X-Hits = obj.hits; set resp.http.X-Coding = resp.http.Content-Encoding; }
"""
UNPACK = {"gzip": gzip.decompress, "br": brotli.decompress,
          "zstd": lambda data: zstandard.ZstdDecompressor().decompress(data), None: bytes}


class Versions(Answer):
    """Tagged, and of the version that `number` says: /SEED/SIZE/KIND/HOW."""
    number = {}

    def do_GET(self):
        if self.path.startswith("/js/"):
            self.path = self.path.removeprefix("/js")
        _, seed, size, kind, how = self.path.split("/")
        with self.lock:
            self.asked[self.path] = self.asked.get(self.path, 0) + 1
            number = self.number.setdefault(self.path, 0)
        data = plain(f"{seed}{number}", int(size), kind)
        self.send_response(200)
        if how == "offered":
            self.send_header("Use-As-Dictionary", 'match="/d*"')
        for name, value in (("Content-Type", "text/html"), ("ETag", f'"{seed}{number}"'), ("Surrogate-Key", f"t{seed}"),
                            ("Cache-Control", "max-age=5" if how == "short" else "max-age=600, no-transform"
                             if how == "untouched" else "max-age=600")):
            self.send_header(name, value)
        if how in ("packed", "untouched"):
            self.send_header("Content-Encoding", "gzip")
            data = gzip.compress(data, 1 if how == "packed" else 9, mtime=0)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


class Forms(unittest.TestCase):
    formats, cpu, policy, size = "gzip, br, zstd", 100, "", "1GiB"

    @classmethod
    def setUpClass(cls):
        Answer.asked.clear()
        Versions.number.clear()
        cls.origin = Origin(("127.0.0.1", 0), Versions)
        threading.Thread(target=cls.origin.serve_forever, daemon=True).start()
        cls.errors = tempfile.TemporaryFile()
        cls.tarnd = tarnd.Tarnd(TARND, CONFIG.format(port=cls.origin.server_address[1], formats=cls.formats,
                                                     cpu=cls.cpu, policy=cls.policy, size=cls.size), stderr=cls.errors)

    @classmethod
    def tearDownClass(cls):
        cls.origin.shutdown()
        status = cls.tarnd.close()
        if status != 0:
            raise AssertionError(f"tarnd ended with {status}")

    def count(self, name):
        counters = self.tarnd.admin("/v1/counters")
        return counters.get("counters", counters)[f"compress.{name}"]

    def get(self, path, coding=None, number=0, **how):
        """The coding that came, and its fields and bytes, compared."""
        fields, body = ask(self.tarnd.port, path, coding, **how)
        self.assertEqual(200, fields["status"])
        came = fields.get("content-encoding")
        _, seed, size, kind, _ = path.split("/")
        self.assertEqual(plain(f"{seed}{number}", int(size), kind), UNPACK[came](body), (path, coding, came))
        self.assertEqual("Accept-Encoding", fields.get("vary"))
        return came, fields, body

    def hit_until(self, path, coding, want, number=0, shorter_than=None):
        """Asks until it comes in that coding; how often."""
        until = time.monotonic() + tarnd.PATIENCE_S
        n = 0
        while time.monotonic() < until:
            came, _, body = self.get(path, coding, number)
            n += 1
            if came == want and (shorter_than is None or len(body) < shorter_than):
                return n
            time.sleep(0.002)
        self.fail(f"{path}: no {want} for {coding} after {n} requests")

    def test_what_is_hit_often_becomes_br_and_then_better_br(self):
        path = "/hot/30000/text/length"
        self.assertEqual("gzip", self.get(path, "gzip, deflate, br, zstd")[0])
        self.assertGreater(self.hit_until(path, "gzip, deflate, br, zstd", "br"), 1)  # seen twice
        came, fields, body = self.get(path, "br")
        self.assertEqual(("br", str(len(body)), 'W/"hot0"'), (came, fields["content-length"], fields["etag"]))
        self.hit_until(path, "br", "br", shorter_than=len(body))
        self.assertEqual("gzip", self.get(path, "gzip")[0])
        self.assertEqual("gzip", self.get(path, "gzip, br;q=0.2")[0])
        self.assertIsNone(self.get(path)[0])
        self.assertEqual(1, Answer.asked[path])
        self.assertGreaterEqual(self.count("recoded"), 2)
        self.assertGreater(self.count("recode_cpu"), 0)
        self.assertGreater(self.count("saved_bytes"), 0)
        url = urllib.parse.quote(f"http://x{path}", safe="")
        stored = self.tarnd.admin(f"/v1/why?url={url}")["stored"]
        self.assertEqual([("br", False), ("gzip", True)], [(s["coding"], s["any_coding"]) for s in stored])

    def test_zstd_is_for_those_without_br(self):
        path = "/z/30000/text/length"
        self.hit_until(path, "zstd", "zstd")
        self.hit_until(path, "gzip, zstd", "zstd")
        self.assertEqual("gzip", self.get(path, "gzip")[0])
        head, _ = ask(self.tarnd.port, path, "zstd", method="HEAD")
        whole = self.get(path, "zstd")[1]
        for name in ("content-encoding", "content-length", "etag", "vary"):
            self.assertEqual(whole[name], head[name], name)

    def test_what_the_origin_packed_gets_forms_unless_it_forbids_it(self):
        self.hit_until("/o/30000/text/packed", "gzip, br", "br")
        barred = "/n/30000/text/untouched"
        for _ in range(100):
            self.assertEqual("gzip", self.get(barred, "gzip, br")[0])

    def test_what_does_not_become_shorter_is_tried_once(self):
        path = "/r/20000/random/length"
        before = self.count("barren")
        until = time.monotonic() + tarnd.PATIENCE_S
        while self.count("barren") < before + 2 and time.monotonic() < until:
            self.assertEqual("gzip", self.get(path, "gzip, br")[0])
        for _ in range(100):
            self.assertEqual("gzip", self.get(path, "gzip, br")[0])
        self.assertEqual(before + 2, self.count("barren"))  # at its best, too

    def test_another_version_purges_and_conditions(self):
        path = "/v/30000/text/length"
        self.hit_until(path, "gzip, br", "br")
        etag = self.get(path, "br")[1]["etag"]
        for coding in ("br", "gzip", None):
            fields, _ = ask(self.tarnd.port, path, coding, **{"If-None-Match": etag})
            self.assertEqual(304, fields["status"])
        # A part of one form and a part of another make no body: parts are of the one that all clients share.
        fields, part = ask(self.tarnd.port, path, "gzip, br", **{"Range": "bytes=0-9"})
        self.assertEqual((206, "gzip"), (fields["status"], fields["content-encoding"]))
        self.assertEqual(b"\x1f\x8b", part[:2])
        Versions.number[path] = 1
        if self.policy:  # as Varnish it does not heed what the client says
            self.tarnd.admin("/v1/purge", method="POST", body={"url": f"http://x{path}"})
        ask(self.tarnd.port, path, "gzip", **{"Cache-Control": "no-cache"})
        self.assertEqual("gzip", self.get(path, "gzip, br", 1)[0])
        self.hit_until(path, "gzip, br", "br", 1)
        Versions.number[path] = 2
        self.tarnd.admin("/v1/purge", method="POST", body={"tags": ["tv"]})
        self.assertEqual("gzip", self.get(path, "gzip, br", 2)[0])
        self.hit_until(path, "gzip, br", "br", 2)

    def until_dcz(self, path, have):
        """Another version of what was requested once, requested with the first as dictionary until it comes by it."""
        said = {"Available-Dictionary": ":" + base64.b64encode(hashlib.sha256(have).digest()).decode() + ":"}
        kept = self.count("dictionaries")
        fields, _ = ask(self.tarnd.port, path, "gzip, br, zstd")
        self.assertEqual('match="/d*"', fields["use-as-dictionary"])
        tarnd.wait_until(lambda: self.count("dictionaries") > kept, "the dictionary is kept")
        Versions.number[path] = 1
        self.tarnd.admin("/v1/purge", method="POST", body={"url": f"http://x{path}"})
        until = time.monotonic() + tarnd.PATIENCE_S
        while time.monotonic() < until:
            fields, body = ask(self.tarnd.port, path, "gzip, deflate, br, zstd, dcb, dcz", **said)
            if fields["content-encoding"] == "dcz":
                return said, fields, body
            time.sleep(0.002)
        self.fail(f"{path}: {fields['content-encoding']}, no dcz")

    def test_a_large_one_by_a_dictionary_is_hit_often(self):
        """It is not packed by the best level, and stays as it is."""
        path = f"/dl{bool(self.policy):d}/1300000/text/offered"
        have = plain(path.split("/")[1] + "0", 1300000, "text")
        said, _, _ = self.until_dcz(path, have)
        for _ in range(400):
            fields, _ = ask(self.tarnd.port, path, "gzip, br, dcz", **said)
            self.assertEqual("dcz", fields["content-encoding"])

    def test_a_later_version_is_packed_by_what_the_client_has(self):
        """RFC 9842: as a client would, from the first response with Use-As-Dictionary to one in dcz."""
        old = "/dp/30000/text/offered" if self.policy else "/d/30000/text/offered"
        have = plain(old.split("/")[1] + "0", 30000, "text")
        said, fields, body = self.until_dcz(old, have)
        self.assertEqual('match="/d*"', fields["use-as-dictionary"])
        self.assertEqual("Accept-Encoding, Available-Dictionary", fields["vary"])
        self.assertEqual(str(len(body)), fields["content-length"])
        self.assertEqual(bytes.fromhex("5e2a4d1820000000") + hashlib.sha256(have).digest(), body[:40])
        by = zstandard.ZstdCompressionDict(have, dict_type=zstandard.DICT_TYPE_RAWCONTENT)
        got = zstandard.ZstdDecompressor(dict_data=by).decompressobj().decompress(body[40:])
        self.assertEqual(plain(old.split("/")[1] + "1", 30000, "text"), got)
        # A client with another dictionary, or another site, or without dcz, gets none of it.
        other = {"Available-Dictionary": ":" + base64.b64encode(bytes(32)).decode() + ":"}
        self.assertNotEqual("dcz", ask(self.tarnd.port, old, "gzip, br, dcz", **other)[0]["content-encoding"])
        self.assertNotEqual("dcz", self.get(old, "gzip, br", 1)[0])
        self.assertNotEqual("dcz", ask(self.tarnd.port, old, "gzip, br", **said)[0]["content-encoding"])
        # What a route offers has the field, if the origin does not send it.
        self.assertEqual('match="/js/app.*"', ask(self.tarnd.port, "/js/1/1000/text/length")[0]["use-as-dictionary"])

    def test_what_a_dictionary_does_not_make_shorter_is_tried_once(self):
        path = f"/dr{bool(self.policy):d}/20000/random/offered"
        have = plain(path.split("/")[1] + "0", 20000, "random")
        said = {"Available-Dictionary": ":" + base64.b64encode(hashlib.sha256(have).digest()).decode() + ":"}
        kept, before = self.count("dictionaries"), self.count("barren")
        ask(self.tarnd.port, path, "gzip")
        tarnd.wait_until(lambda: self.count("dictionaries") > kept, "the dictionary is kept")
        Versions.number[path] = 1
        self.tarnd.admin("/v1/purge", method="POST", body={"url": f"http://x{path}"})
        until = time.monotonic() + tarnd.PATIENCE_S
        while self.count("barren") == before and time.monotonic() < until:
            ask(self.tarnd.port, path, "gzip, dcz", **said)
        for _ in range(100):
            self.assertEqual("gzip", ask(self.tarnd.port, path, "gzip, dcz", **said)[0]["content-encoding"])
        self.assertEqual(before + 1, self.count("barren"))

    def test_off_is_off(self):
        kept = -1
        while kept != self.count("dictionaries"):  # what other tests offered is there
            kept = self.count("dictionaries")
            time.sleep(0.3)
        for _ in range(60):
            fields, _ = ask(self.tarnd.port, "/off/30000/text/offered", "gzip, br")
            self.assertNotIn("content-encoding", fields)
        self.assertEqual(kept, self.count("dictionaries"))


class WithPolicy(Forms):
    """Each answer is the policy's: its head is written anew."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        path = os.path.join(cls.folder.name, "p.vcl")
        with open(path, "w", encoding="ascii") as f:
            f.write(POLICY)
        cls.policy = f"vcl: {path}\n"
        super().setUpClass()

    def get(self, path, coding=None, number=0, **how):
        came, fields, body = super().get(path, coding, number, **how)
        self.assertIn("x-hits", fields)
        return came, fields, body


class SmallStore(unittest.TestCase):
    """The best level would take too much of it for what a dictionary makes: it is made at another one."""
    formats, cpu, policy, size = "gzip, br, zstd", 100, "", "256MiB"
    setUpClass, tearDownClass = classmethod(Forms.setUpClass.__func__), classmethod(Forms.tearDownClass.__func__)
    count, until_dcz = Forms.count, Forms.until_dcz

    def test_a_script_by_a_dictionary(self):
        self.until_dcz("/ds/300000/text/offered", plain("ds0", 300000, "text"))


class GzipAlone(Forms):
    """Without the formats, and below without a processor for them, nothing of it happens."""
    formats = "gzip"

    def test_there_is_gzip_alone(self):
        for _ in range(100):
            self.assertEqual("gzip", self.get("/hot/30000/text/length", "gzip, br, zstd")[0])
        self.assertIsNone(self.get("/hot/30000/text/length", "br")[0])
        self.assertEqual(0, self.count("recode_cpu"))

    test_what_is_hit_often_becomes_br_and_then_better_br = None
    test_zstd_is_for_those_without_br = None
    test_what_the_origin_packed_gets_forms_unless_it_forbids_it = None
    test_what_does_not_become_shorter_is_tried_once = None
    test_another_version_purges_and_conditions = None
    test_a_later_version_is_packed_by_what_the_client_has = None
    test_a_large_one_by_a_dictionary_is_hit_often = None
    test_what_a_dictionary_does_not_make_shorter_is_tried_once = None
    test_off_is_off = None


class NoProcessor(GzipAlone):
    formats, cpu = "gzip, br", 0


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    TARND = compress.TARND = sys.argv.pop(1)
    unittest.main(verbosity=2)
