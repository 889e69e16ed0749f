#!/usr/bin/env python3
"""lookups.py TARND | --varnishd VARNISHD [TEST...] -- what a policy's lookups ask the origin for, and keep.

The same tests hold for Varnish 7.1 (by hand), but where one says `if self.tarn`.
"""
import concurrent.futures
import os
import socket
import sys
import threading
import time
import unittest

sys.dont_write_bytecode = True
import policy_world
import tarnd

POST = 'sub vcl_backend_fetch { set bereq.method = "POST"; }\n'
GRACE = "sub vcl_backend_response { set beresp.ttl = 0.05s; set beresp.grace = 60s; return (deliver); }\n"
KEEP = "std.cache_req_body(100KB); "
world = None


class Lookups(unittest.TestCase):
    count = 0

    def setUp(self):
        Lookups.count += 1
        self.url = f"/{self.id().rpartition('.')[2]}/{Lookups.count}"
        self.tarn = world.name == "tarnd"

    def use(self, recv="", more=""):
        world.use(f"vcl 4.1;\nimport std;\n{world.backends(dead=False)}"
                  f"sub vcl_recv {{ {recv} return (hash); }}\n{more}")

    def post(self, body=b"hello", chunked=False, method="POST", url=None):
        if chunked:
            field = "Transfer-Encoding: chunked"
            data = b"".join(b"%x\r\n%s\r\n" % (len(body[i:i + 10000]), body[i:i + 10000])
                            for i in range(0, len(body), 10000)) + b"0\r\n\r\n"
        else:
            field, data = f"Content-Length: {len(body)}", body
        answer = world.ask(url or self.url, field, method=method, body=data)
        return answer.status, answer.body.decode("latin-1")

    def get(self, *lines):
        answer = world.ask(self.url, *lines)
        return answer.status, answer.body.decode("latin-1")

    def came(self):
        """What the origin was asked: method and body."""
        with world.lock:
            return [(method, body) for method, url, _, body in world.asked if url == self.url]


class Bodies(Lookups):
    """A POST that is looked up."""

    def test_a_lookup_asks_by_get_without_a_body(self):
        self.use()
        self.assertEqual([self.post(), self.post()], [(200, "#1"), (200, "#1")])
        self.assertEqual(self.came(), [("GET", b"")])

    def test_a_method_of_vcl_backend_fetch_takes_the_body_along(self):
        self.use(more=POST)
        self.assertEqual([self.post(), self.post(b"other")], [(200, "#1"), (200, "#1")])
        self.assertEqual(self.came(), [("POST", b"hello")])

    def test_what_cache_req_body_kept_is_sent_with_its_length(self):
        self.use(KEEP, POST)
        self.assertEqual([self.post(chunked=True), self.post()], [(200, "#1"), (200, "#1")])
        self.assertEqual(self.came(), [("POST", b"hello")])
        with world.lock:
            fields = next(f for _, url, f, _ in world.asked if url == self.url)
        self.assertEqual(fields.get("Content-Length"), "5")

    def test_the_recipe_for_caching_posts_by_a_field(self):
        self.use(KEEP + "set req.http.X-Method = req.method; ",
                 "sub vcl_hash { hash_data(req.http.X-Body); }\n"
                 "sub vcl_backend_fetch { if (bereq.http.X-Method == \"POST\") { set bereq.method = \"POST\"; } }\n")
        for body, want in ((b"a", "#1"), (b"b", "#2"), (b"a", "#1"), (b"b", "#2")):
            answer = world.ask(self.url, f"Content-Length: {len(body)}", f"X-Body: {body.decode()}",
                               method="POST", body=body)
            self.assertEqual(answer.body.decode(), want)
        self.assertEqual(self.came(), [("POST", b"a"), ("POST", b"b")])

    def test_a_large_body_streams_whole(self):
        self.use(more=POST)
        body = bytes(range(256)) * 12000
        self.assertEqual(self.post(body, chunked=True), (200, "#1"))
        self.assertEqual(self.came(), [("POST", body)])

    def test_a_put_goes_too(self):
        for keep in ("", KEEP):
            self.url += "x"
            self.use(keep, 'sub vcl_backend_fetch { set bereq.method = "PUT"; }\n')
            self.assertEqual(self.post(method="PUT"), (200, "#1"))
            self.assertEqual(self.came(), [("PUT", b"hello")])

    def test_hit_for_miss_sends_each_body(self):
        for keep in ("", KEEP):
            self.url += "x"
            self.use(keep, POST + "sub vcl_backend_response { set beresp.uncacheable = true; set beresp.ttl = 60s; "
                                  "return (deliver); }\n")
            for body in (b"a", b"bb", b"ccc"):
                self.post(body)
            self.assertEqual(self.came(), [("POST", b"a"), ("POST", b"bb"), ("POST", b"ccc")])

    def test_a_retry_sends_it_again_if_it_was_kept(self):
        again = POST + "sub vcl_backend_response { if (bereq.retries == 0) { return (retry); } }\n"
        self.use(KEEP, again)
        self.assertEqual(self.post(), (200, "#2"))
        self.assertEqual(self.came(), [("POST", b"hello")] * 2)
        self.url += "x"
        self.use("", again)
        self.assertEqual(self.post()[0], 503)
        self.assertEqual(self.came(), [("POST", b"hello")])

    def test_unset_bereq_body_leaves_it_out(self):
        if not self.tarn:
            self.skipTest("Varnish 7.1 sends it for all that")
        for keep in ("", KEEP):
            self.url += "x"
            self.use(keep, 'sub vcl_backend_fetch { set bereq.method = "POST"; unset bereq.body; }\n')
            self.assertEqual(self.post(), (200, "#1"))
            self.assertEqual(self.came(), [("POST", b"")])

    def test_a_body_above_the_bound_of_cache_req_body_is_not_lost(self):
        if not self.tarn:
            self.skipTest("Varnish 7.1 closes the connection")
        self.use("std.cache_req_body(3B); ", POST)
        self.assertEqual(self.post(), (200, "#1"))
        self.assertEqual(self.came(), [("POST", b"hello")])

    def test_who_waits_for_the_same_key_gets_the_same_answer(self):
        self.use(KEEP, POST + "sub vcl_backend_response { set beresp.do_stream = false; }\n")
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda n: self.post(b"%d" % n), range(8)))
        self.assertEqual(set(answers), {(200, "#1")})
        self.assertEqual(len(self.came()), 1)

    def test_a_refresh_in_the_background_has_the_body(self):
        for keep in ("", KEEP):
            self.url += "x"
            self.use(keep, POST + GRACE)
            self.assertEqual(self.post(), (200, "#1"))
            time.sleep(0.1)
            self.assertEqual(self.post(b"later"), (200, "#1"))
            time.sleep(0.2)
            self.assertEqual(self.came(), [("POST", b"hello"), ("POST", b"later")])

    def test_a_refresh_in_the_background_sends_no_post_without_its_body(self):
        if not self.tarn:
            self.skipTest("Varnish 7.1 waits for the client")
        self.use("", POST + GRACE)
        self.assertEqual(self.post(), (200, "#1"))
        time.sleep(0.1)
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(10)
            s.connect(world.listen)
            s.sendall(tarnd.request(self.url, "Content-Length: 5", method="POST"))  # and no body
            self.assertIn(b"200", s.recv(65536))
        time.sleep(0.2)
        self.assertEqual(self.came(), [("POST", b"hello")])


class Keeping(Lookups):
    """What is kept, and what is left of what was stored before."""
    ANEW = "if (req.http.X-Anew) { set req.hash_always_miss = true; } "
    DELIVER = "sub vcl_backend_response { return (deliver); }\n"

    def walk(self, plan, steps, recv="", more=""):
        """Answers to G, or to A with hash_always_miss; a number is a pause."""
        self.url += "x"
        world.plan[self.url] = plan
        self.use(recv + self.ANEW, more)
        got = []
        for step in steps:
            if isinstance(step, float):
                time.sleep(step)
                continue
            status, body = self.get(*(["X-Anew: 1"] if step == "A" else []))
            got.append(body if status == 200 else status)
        return got

    def test_hash_always_miss_that_brings_ttl_0_leaves_the_good_object(self):
        good = (200, {"Cache-Control": "max-age=60"})
        for worse in ((200, {"Cache-Control": "max-age=0"}), (500, {})):
            got = self.walk([good, worse], "GAGG", more=self.DELIVER)
            self.assertEqual(got, ["#1", "#2" if worse[0] == 200 else 500, "#1", "#1"])
        got = self.walk([good], "GAGG", more="sub vcl_backend_response { if (bereq.http.X-Anew) { set beresp.ttl = 0s; "
                                             "return (deliver); } }\n")
        self.assertEqual(got, ["#1", "#2", "#1", "#1"])

    def test_hash_always_miss_that_brings_a_marker_or_a_good_one_replaces(self):
        self.assertEqual(self.walk([(200, {"Cache-Control": "max-age=60"})], "GAGG"), ["#1", "#2", "#2", "#2"])
        got = self.walk([(200, {"Cache-Control": "max-age=60"}), (200, {"Cache-Control": "max-age=0"})], "GAGG")
        self.assertEqual(got, ["#1", "#2", "#3", "#4"])  # builtin.vcl: hit-for-miss

    def test_what_is_stale_on_arrival_is_kept_for_its_grace(self):
        for age, grace in ((62, 10), (90, 60)):
            got = self.walk([(200, {"Cache-Control": "max-age=60", "Age": str(age)})], ["G", "G", 0.3, "G"],
                            more=f"sub vcl_backend_response {{ set beresp.grace = {grace}s; return (deliver); }}\n")
            self.assertEqual(got, ["#1", "#1", "#2"])
        got = self.walk([(200, {"Cache-Control": "max-age=60", "Age": "90"})], "GGG", more=self.DELIVER)
        self.assertEqual(got, ["#1", "#2", "#3"])  # behind its grace
        got = self.walk([(200, {"Cache-Control": "max-age=0"})], "GGG", more=self.DELIVER)
        self.assertEqual(got, ["#1", "#2", "#3"])  # it never had a time

    def test_stale_while_revalidate_beside_s_maxage_is_grace(self):
        got = self.walk([(200, {"Cache-Control": "s-maxage=1, stale-while-revalidate=30"})], ["G", 1.2, "G", 0.3, "G"])
        self.assertEqual(got, ["#1", "#1", "#2"])

    def test_s_maxage_alone_and_must_revalidate_give_no_grace(self):
        if not self.tarn:
            self.skipTest("Varnish gives both")
        for said in ("s-maxage=1", "s-maxage=1, must-revalidate, stale-while-revalidate=30"):
            self.assertEqual(self.walk([(200, {"Cache-Control": said})], ["G", 1.2, "G"]), ["#1", "#2"])

    def test_errors_live_only_by_the_policy_but_those_that_are_good_answers(self):
        good = {"Cache-Control": "max-age=60"}
        for status in (400, 401, 403, 405, 418, 451, 500, 501, 502, 503, 504):
            self.walk([(status, good)], "GG")
            self.assertEqual(len(self.came()), 2, status)
            self.walk([(status, good)], "GG", more="sub vcl_backend_response { set beresp.ttl = 60s; return (deliver); }\n")
            self.assertEqual(len(self.came()), 1, status)
        for status in (404, 410, 414):
            self.walk([(status, good)], "GG")
            self.assertEqual(len(self.came()), 1, status)


class RawOrigin:
    """Each connection is `play`ed by a thread of its own; the backend of the policy is `raw`."""

    def __init__(self, name, play):
        self.path = f"{world.dir}/{name}.sock"
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen(16)
        os.chmod(self.path, 0o666)
        self.play = play
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            s, _ = self.listener.accept()
            threading.Thread(target=self.run, args=(s,), daemon=True).start()

    def run(self, s):
        with s:
            try:
                self.play(s)
            except OSError:
                pass

    def use(self, attributes, subs):
        world.use(f'vcl 4.1;\nbackend raw {{ .path = "{self.path}"; {attributes} }}\n{subs}')


def read_head(s):
    data = b""
    while b"\r\n\r\n" not in data:
        if not (piece := s.recv(65536)):
            raise ConnectionError
        data += piece
    return data


def short(body=b"ok"):
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)


class Settings(Lookups):
    """Variables and attributes that are set and must do something (variables.py asks for that)."""

    def test_hash_ignore_vary_takes_any_variant(self):
        world.plan[self.url] = [(200, {"Cache-Control": "max-age=60", "Vary": "X-Kind"})]
        self.use("if (req.http.X-Any) { set req.hash_ignore_vary = true; }")
        self.assertEqual(self.get("X-Kind: a"), (200, "#1"))
        self.assertEqual(self.get("X-Kind: b", "X-Any: yes"), (200, "#1"))
        self.assertEqual(self.get("X-Kind: b"), (200, "#2"))

    def test_retry_connect_says_whether_a_dead_connection_is_replaced(self):
        if not self.tarn:
            self.skipTest("of Varnish 7.3")

        def once(s):  # a connection that is kept and then dies when it is used
            read_head(s)
            s.sendall(short())
            read_head(s)

        for may, want in (("true", 200), ("false", 503)):
            origin = RawOrigin("once-" + may, once)  # idle connections outlive a policy
            origin.use("", "sub vcl_recv { return (pass); }\n"
                           f"sub vcl_backend_fetch {{ set bereq.retry_connect = {may}; }}\n")
            self.assertEqual(self.get()[0], 200)
            self.assertEqual(self.get()[0], want)

    def test_transit_buffer_is_how_far_the_origin_may_be_ahead(self):
        if not self.tarn:
            self.skipTest("of Varnish 7.2")
        sent = []

        def large(s):
            read_head(s)
            s.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (24 << 20))
            s.settimeout(1)
            total = 0
            try:
                while total < 24 << 20:
                    total += s.send(b"x" * 65536)
            except OSError:
                pass
            sent.append(total)

        origin = RawOrigin("large", large)
        for size in ("64KB", "8MB"):
            origin.use("", "sub vcl_recv { return (pass); }\n"
                           f"sub vcl_backend_response {{ set beresp.transit_buffer = {size}; }}\n")
            with socket.socket(socket.AF_UNIX) as s:
                s.connect(world.listen)
                s.sendall(tarnd.request(self.url))  # and nothing is read
                tarnd.wait_until(lambda n=len(sent): len(sent) > n, "the origin gives up")
        self.assertLess(sent[0], 3 << 20)
        self.assertGreater(sent[1], 7 << 20)
        self.assertLess(sent[1], 12 << 20)

    def test_wait_limit_lets_fetches_wait_for_a_connection(self):
        if not self.tarn:
            self.skipTest("of Varnish 7.6")

        def slow(s):
            while True:
                read_head(s)
                time.sleep(0.3)
                s.sendall(short())

        origin = RawOrigin("slow", slow)
        for more, want in (("", [200, 503, 503]), (".wait_limit = 2;", [200, 200, 200]),
                           (".wait_limit = 1;", [200, 200, 503]),
                           (".wait_limit = 2; .wait_timeout = 0.05s;", [200, 503, 503])):
            origin.use(".max_connections = 1; " + more, "sub vcl_recv { return (pass); }\n")
            with concurrent.futures.ThreadPoolExecutor(3) as pool:
                got = sorted(status for status, _ in pool.map(lambda _: self.get(), range(3)))
            self.assertEqual(got, want, more)

    def test_connect_timeout_of_a_pipe(self):
        if not self.tarn:
            self.skipTest("how a listener that is full answers differs by namespace")
        full = socket.socket()
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        others = []
        for _ in range(3):  # its queue is full: who connects now waits
            s = socket.socket()
            s.setblocking(False)
            s.connect_ex(full.getsockname())
            others.append(s)
        world.use(f'vcl 4.1;\nbackend full {{ .host = "127.0.0.1"; .port = "{full.getsockname()[1]}"; }}\n'
                  "sub vcl_recv { return (pipe); }\nsub vcl_pipe { set bereq.connect_timeout = 0.3s; }\n")
        begun = time.monotonic()
        self.assertEqual(self.get()[0], 503)
        self.assertLess(time.monotonic() - begun, 2)
        for s in (full, *others):
            s.close()


if __name__ == "__main__":
    if sys.argv[1] == "--varnishd":
        world = policy_world.VarnishWorld(sys.argv[2])
        rest = sys.argv[3:]
    else:
        world = policy_world.TarnWorld(sys.argv[1])
        rest = sys.argv[2:]
    try:
        done = unittest.main(argv=sys.argv[:1] + rest, exit=False)
    finally:
        world.close()
    sys.exit(not done.result.wasSuccessful())
