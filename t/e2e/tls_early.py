#!/usr/bin/env python3
"""tls_early.py TARND [TEST...] -- early data (0-RTT): what is answered from the cache, that nothing else is done, and
what replays come to.

The client's last flight is held back where a test says so: the handshake is not complete until it is let go.
"""
import ctypes
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
import tls_libssl
from origin import Origin, body
from tls_libssl import lib
from tls_world import World, client_context, pki

HIT = "/body?n=1000&framing=length"
REJECTED, ACCEPTED = 1, 2
origin = None


class Client(tls_libssl.Client):
    """Says `early` with its first flight; keeps its last one until let_go()."""

    def __init__(self, sock, session, early=b"", pieces=None):
        super().__init__(sock, session=session)
        self.held = False
        for piece in pieces or ([early] if early else []):
            n = ctypes.c_size_t()
            if lib.SSL_write_early_data(self.ssl, piece, len(piece), ctypes.byref(n)) != 1:
                raise tls_libssl.Failed("early data")
        self.flight = self.taken()
        self.sock.sendall(self.flight)
        self.held, self.rest = True, b""

    def flush(self):
        if self.held:
            self.rest += self.taken()
        else:
            super().flush()

    def let_go(self):
        self.handshake()
        self.held = False
        self.sock.sendall(self.rest)
        self.flush()

    def status(self):
        return lib.SSL_get_early_data_status(self.ssl)

    def answers(self, n=1):
        """So many responses, all with a length."""
        data, found = b"", []
        while len(found) < n:
            head, end, rest = data.partition(b"\r\n\r\n")
            size = int((re.search(rb"(?i)\r\nContent-Length: (\d+)", head) or [0, 0])[1])
            if self.bodyless:
                size = 0
            if not end or len(rest) < size:
                data += self.read()
                continue
            found.append(tarnd.Answer(head + end + rest[:size]))
            data = rest[size:]
        return found

    bodyless = False


def request(target, *lines, method="GET", body=b""):
    more = [f"Content-Length: {len(body)}"] if body else []
    return tarnd.request(target, *lines, *more, method=method, host="a.test") + body


class Early(World):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="tarn-early.")
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)
        self.sessions = []
        self.addCleanup(lambda: [lib.SSL_SESSION_free(s) for s in self.sessions])

    def tls(self, more="", routes="", listener="", key=", early_data: on", prime=True):
        config = (f"backends: {{ default: {{ address: '{origin.address}' }} }}\n{routes}"
                  f"parameters: {{ timeout_idle: 60s, access_log: {self.dir}/access.log, access_log_format: '$status "
                  f"$request_method $request_uri early=$ssl_early_data'{more} }}\n")
        it = self.start(config, f"    tls: {{ certificates: {pki().certs}{key} }}\n{listener}")
        if prime:
            self.assertEqual(it.ask_tls(HIT).status, 200)
        return it

    def session(self, it, most=None):
        """Of a connection before, as a client keeps it."""
        with tls_libssl.Client(it.connect()).handshake() as c:
            c.write(request(HIT))
            c.flush()
            c.read()
            session = lib.SSL_SESSION_dup(c.session())
        if most is not None:
            self.assertEqual(lib.SSL_SESSION_set_max_early_data(session, most), 1)
        self.sessions.append(session)
        return session

    def early(self, it, data=b"", session=None, **more):
        c = Client(it.connect(), session or self.session(it), data, **more)
        self.addCleanup(c.close)
        return c

    def asked(self, target):
        with origin.lock:
            return origin.requests[target]

    def target(self, cache="max-age=100"):
        """A page of its own, which has not been asked for."""
        self.count = getattr(self, "count", 0) + 1
        name = f"early-{self.id().rpartition('.')[2]}-{self.count}"
        origin.script(name, lambda h: (h.start("length", 2, cache), h.piece(b"ok")))
        return f"/script/{name}"

    def figures(self, it):
        c = self.counters(it)
        return c["sess.tls_early"], c["req.early"], c["req.too_early"]

    def refused(self, c, it, target, asks=0):
        """425 while the handshake is not complete, and no request for the origin; then it is served."""
        answer = c.answers()[0]
        self.assertEqual(answer.status, 425, answer.data)
        self.assertEqual(self.asked(target), asks)
        c.let_go()
        c.write(request(target))
        c.flush()
        self.assertEqual(c.answers()[0].status, 200)

    def line(self, words):
        path = f"{self.dir}/access.log"

        def there():
            with open(path, encoding="ascii") as f:
                return words in f.read()

        tarnd.wait_until(there, f"the log has {words!r}")


class Answers(Early):
    def test_a_hit_is_answered_before_the_handshake_is_complete(self):
        it = self.tls()
        asked = self.asked(HIT)
        c = self.early(it, request(HIT))
        answer = c.answers()[0]
        self.assertEqual((answer.status, answer.body), (200, body(1000)))
        self.assertEqual(c.status(), ACCEPTED)
        self.assertEqual(self.figures(it), (1, 1, 0))
        c.let_go()
        c.write(request(HIT))
        c.flush()
        self.assertEqual(c.answers()[0].body, body(1000))
        self.assertEqual(self.figures(it), (1, 1, 0))
        self.assertEqual(self.asked(HIT), asked)
        self.line(f"200 GET {HIT} early=1\n")
        self.line(f"200 GET {HIT} early=-\n")

    def test_a_large_hit_and_head(self):
        it = self.tls()
        large = "/body?n=3000000&framing=length"
        it.ask_tls(large)
        self.assertEqual(self.early(it, request(large)).answers()[0].body, body(3000000))
        c = self.early(it, request(HIT, method="HEAD"))
        c.bodyless = True
        self.assertEqual(c.answers()[0].status, 200)

    def test_what_is_not_stored(self):
        it = self.tls()
        target = self.target()
        self.refused(self.early(it, request(target)), it, target)
        self.assertEqual(self.figures(it), (1, 1, 1))
        self.assertEqual(self.asked(target), 1)
        self.line(f"425 GET {target} early=1\n")
        # a hit from now on
        self.assertEqual(self.early(it, request(target)).answers()[0].body, b"ok")

    def test_methods_bodies_and_upgrades(self):
        it = self.tls()
        for data in (request(HIT, method="POST", body=b"hello"), request(HIT, method="PURGE"),
                     request(HIT, method="OPTIONS"), request(HIT, method="DELETE"), request(HIT, body=b"x"),
                     request(HIT, "Connection: upgrade", "Upgrade: websocket"),
                     request(HIT, "Transfer-Encoding: chunked", method="POST") + b"1\r\nx\r\n0\r\n\r\n"):
            with origin.lock:
                asked = sum(origin.requests.values())
            c = self.early(it, data)
            self.assertEqual(c.answers()[0].status, 425, data)
            c.let_go()
            c.write(request(HIT))
            c.flush()
            self.assertEqual(c.answers()[0].body, body(1000))  # the body was no request
            with origin.lock:
                self.assertEqual(sum(origin.requests.values()), asked)

    def test_requests_that_need_more_than_what_is_stored(self):
        it = self.tls()
        asked = self.asked(HIT)
        for more, status in ((["Cache-Control: no-cache"], 425), (["Cache-Control: no-store"], 425),
                             (["Pragma: no-cache"], 425), (["If-Match: x"], 425), (["Range: bytes=0-9"], 206),
                             (["Cache-Control: only-if-cached"], 200)):
            c = self.early(it, request(HIT, *more))
            self.assertEqual(c.answers()[0].status, status, more)
        target = self.target()
        self.assertEqual(self.early(it, request(target, "Cache-Control: only-if-cached")).answers()[0].status, 504)
        self.assertEqual(self.early(it, request(target, "Range: bytes=0-0")).answers()[0].status, 425)
        self.assertEqual((self.asked(HIT), self.asked(target)), (asked, 0))

    def test_a_stale_one_is_not_refreshed(self):
        it = self.tls()
        target = self.target("max-age=1, stale-while-revalidate=100")
        it.ask_tls(target)
        session = self.session(it)
        time.sleep(2.2)
        self.refused(self.early(it, request(target), session), it, target, asks=1)
        tarnd.wait_until(lambda: self.asked(target) == 2, "it is refreshed for the one that came behind the handshake")

    def test_pipelined(self):
        it = self.tls()
        target = self.target()
        c = self.early(it, request(HIT) + request(target) + request(HIT) + request(HIT, method="POST", body=b"abc")
                       + request(HIT))
        self.assertEqual([a.status for a in c.answers(5)], [200, 425, 200, 425, 200])
        self.assertEqual(self.asked(target), 0)
        self.assertEqual(self.figures(it), (1, 5, 2))
        c.let_go()
        c.write(request(target) + request(HIT))
        c.flush()
        self.assertEqual([a.status for a in c.answers(2)], [200, 200])

    def test_half_a_request(self):
        """Its end comes behind the handshake: the client is there, and it is served."""
        it = self.tls()
        target = self.target()
        data = request(target)
        c = self.early(it, data[:20])
        c.handshake()
        time.sleep(0.1)
        self.assertEqual(self.asked(target), 0)
        c.let_go()
        c.write(data[20:])
        c.flush()
        self.assertEqual(c.answers()[0].status, 200)
        self.assertEqual(self.asked(target), 1)
        self.assertEqual(self.figures(it), (1, 0, 0))

    def test_all_at_once(self):
        """The client's last flight comes with the first: by then the handshake is complete, or the answer is 425."""
        it = self.tls()
        for _ in range(10):
            target = self.target()
            c = self.early(it, request(target))
            c.let_go()
            status = c.answers()[0].status
            self.assertIn(status, (200, 425))
            self.assertEqual(self.asked(target), status == 200)

    def test_records_of_one_byte_and_packets_of_one(self):
        it = self.tls()
        data = request(HIT)
        c = self.early(it, pieces=[data[i:i + 1] for i in range(len(data))])
        self.assertEqual(c.answers()[0].body, body(1000))
        c.let_go()
        session = self.session(it)
        s = it.connect()
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        class Slow:
            def __getattr__(self, name):
                return getattr(s, name)
            def sendall(self, data):
                for i in range(len(data)):
                    s.sendall(data[i:i + 1])
        c = Client(Slow(), session, request(HIT) + request(HIT))
        self.addCleanup(c.close)
        self.assertEqual([a.body for a in c.answers(2)], [body(1000)] * 2)
        c.let_go()

    def test_the_end_of_a_connection_is_orderly(self):
        it = self.tls()
        c = self.early(it, request(HIT, "Connection: close"))
        self.assertEqual(c.answers()[0].body, body(1000))
        c.sock.settimeout(0.5)
        with self.assertRaises(TimeoutError):
            c.read()  # there is no orderly end yet
        c.sock.settimeout(tarnd.PATIENCE_S)
        c.let_go()
        with self.assertRaises(tls_libssl.Failed) as failed:
            c.read()
        self.assertEqual(failed.exception.args[0], 6)  # SSL_ERROR_ZERO_RETURN: close_notify

    def test_a_client_that_stays_away(self):
        it = self.tls()
        sessions = [self.session(it) for _ in range(3)]
        for session, data in zip(sessions, (request(HIT), request(HIT, "Connection: close"), b"GET")):
            c = self.early(it, data, session)
            c.sock.close()
        tarnd.wait_until(lambda: self.counters(it)["sess.closed"] == self.counters(it)["sess.accepted"], "all have ended")
        self.assertEqual(it.ask_tls(HIT).status, 200)


class Replays(Early):
    def replay(self, it, flight, n=3):
        """What an attacker has recorded, from other connections."""
        conns = [it.connect() for _ in range(n)]
        for s in conns:
            s.sendall(flight)
        got = [s.recv(65536) for s in conns]
        return conns, got

    def test_of_a_hit_and_of_a_miss(self):
        it = self.tls()
        target = self.target()
        c = self.early(it, request(HIT) + request(target) + request(target, method="POST", body=b"pay"))
        self.assertEqual([a.status for a in c.answers(3)], [200, 425, 425])
        conns, got = self.replay(it, c.flight)
        tarnd.wait_until(lambda: self.figures(it) == (4, 12, 8), "each is looked at")
        self.assertTrue(all(got))
        self.assertEqual(self.asked(target), 0)
        # nobody can go on with it
        for s in conns:
            s.sendall(b"\x17\x03\x03\x00\x20" + b"x" * 32)
            while s.recv(65536):
                pass
            s.close()
        self.assertEqual(self.asked(target), 0)
        self.assertEqual(it.ask_tls(HIT).status, 200)

    def test_an_old_ticket_is_not_early_any_more(self):
        """Ten seconds beside the age that the client says: the handshake is a usual one then."""
        it = self.tls()
        c = self.early(it, request(HIT))
        c.answers()
        time.sleep(11)
        asked = self.figures(it)
        conns = self.replay(it, c.flight)[0]
        time.sleep(0.3)
        for s in conns:
            s.close()
        self.assertEqual(self.figures(it), asked)

    def test_more_than_is_allowed(self):
        it = self.tls()
        session = self.session(it, most=100000)
        c = self.early(it, request(HIT, "X: " + "x" * 40000), session)
        with self.assertRaises((tls_libssl.Failed, OSError)):
            c.answers()
        big = request(HIT) * 150
        c = self.early(it, big[:16000], self.session(it))
        whole = big[:16000].count(b"\r\n\r\n")
        self.assertEqual({a.status for a in c.answers(whole)}, {200})
        self.assertEqual(it.ask_tls(HIT).status, 200)

    def test_memory_comes_back(self):
        it = self.tls()
        before = None
        for _ in range(3):
            for data in (request(HIT), request(self.target()), request(HIT, method="POST", body=b"x"), b"GE"):
                self.early(it, data).sock.shutdown(socket.SHUT_RDWR)
            tarnd.wait_until(lambda: self.counters(it)["sess.closed"] == self.counters(it)["sess.accepted"], "all ended")
            time.sleep(1.2)
            parts = it.admin("/v1/memory")["total"]["parts"]["traffic"]["parts"]
            now = {k: parts[k] for k in ("incoming", "requests")}
            self.assertEqual(before or now, now)
            before = now


class Off(Early):
    def test_it_is_off_by_default(self):
        it = self.tls(key="")
        with tls_libssl.Client(it.connect()).handshake() as c:
            c.write(request(HIT))
            c.flush()
            c.read()
            done = lib.SSL_SESSION_dup(c.session())
        self.sessions.append(done)
        self.assertEqual(lib.SSL_SESSION_get_max_early_data(done), 0)
        lib.SSL_SESSION_set_max_early_data(done, 16384)
        target = self.target()
        c = self.early(it, request(target), done)
        c.let_go()
        self.assertEqual(c.status(), REJECTED)
        self.assertEqual(self.asked(target), 0)
        c.write(request(target))
        c.flush()
        self.assertEqual(c.answers()[0].status, 200)
        self.assertEqual(self.figures(it), (0, 0, 0))

    def test_switched_off_by_a_reload(self):
        it = self.tls()
        session, again = self.session(it), self.session(it)
        target = self.target()
        open_one = self.early(it, request(HIT), session)
        self.assertEqual(open_one.answers()[0].status, 200)
        with open(it.config, "r+", encoding="ascii") as f:
            text = f.read().replace(", early_data: on", "")
            f.seek(0)
            f.truncate()
            f.write(text)
        it.process.send_signal(signal.SIGHUP)
        self.wait_for_words(it, "reload")
        time.sleep(0.5)
        c = self.early(it, request(target), again)
        c.let_go()
        self.assertEqual(c.status(), REJECTED)
        self.assertEqual(self.asked(target), 0)
        open_one.let_go()
        open_one.write(request(target))
        open_one.flush()
        self.assertEqual(open_one.answers()[0].status, 200)


class Others(Early):
    def policy(self, text):
        path = f"{self.dir}/policy.vcl"
        with open(path, "w", encoding="ascii") as f:
            f.write('vcl 4.1;\nimport std;\nimport tarn;\nimport purge;\n' + text)
        return f"vcl: {path}\n"

    def test_a_policy(self):
        it = self.tls(routes=self.policy("""
            sub vcl_recv {
                if (req.url ~ "^/pass") { return (pass); }
                if (req.url ~ "^/pipe") { return (pipe); }
                if (req.url ~ "^/synth") { return (synth(200, "made")); }
                if (req.url ~ "^/fail") { return (fail); }
                if (req.url ~ "^/purge") { return (purge); }
                if (req.url ~ "^/ban") { std.ban("req.url ~ ."); return (hash); }
                if (req.http.X-Tag) { tarn.purge_tag("everything"); }
                if (req.url ~ "^/restart" && req.restarts == 0) { return (restart); }
                return (hash);
            }
            sub vcl_hit { if (req.http.X-Purge) { purge.hard(); } if (req.http.X-Pass) { return (pass); } }
            sub vcl_deliver {
                if (req.http.X-Synth) { return (synth(200)); }
                if (req.http.X-Ban) { std.ban("req.url ~ ."); }
                set resp.http.X-Early = client.tls.early_data;
            }
            sub vcl_synth { set resp.status = 299; }
            """))
        for c in (self.early(it, request(HIT)),):
            answer = c.answers()[0]
            self.assertEqual((answer.status, answer.fields["x-early"]), (200, "true"))
            c.let_go()
            c.write(request(HIT))
            c.flush()
            self.assertEqual(c.answers()[0].fields["x-early"], "false")
        session = self.session(it)
        with origin.lock:
            asked = sum(origin.requests.values())
        bans = self.counters(it)["bans.added"]
        for data in (*(request(f"/{word}") for word in ("pass", "pipe", "synth", "fail", "purge", "ban", "restart")),
                     *(request(HIT, f"{name}: 1") for name in ("X-Tag", "X-Purge", "X-Pass", "X-Synth", "X-Ban"))):
            c = self.early(it, data, lib.SSL_SESSION_dup(session))
            self.assertEqual(c.answers()[0].status, 425, data)
        with origin.lock:
            self.assertEqual(sum(origin.requests.values()), asked)
        counters = self.counters(it)
        self.assertEqual((counters["bans.added"], counters["cache.purged"], counters["cache.tag_purges"],
                          counters["policy.failed"]), (bans, 0, 0, 0))
        self.assertEqual(self.early(it, request(HIT)).answers()[0].status, 200)  # it is still there
        origin.scripts["/ban"] = lambda h: (h.start("length", 2), h.piece(b"ok"))
        # and behind the handshake all of it happens
        c = self.early(it, request("/ban"))
        self.assertEqual(c.answers()[0].status, 425)
        c.let_go()
        c.write(request("/synth") + request("/ban"))
        c.flush()
        self.assertEqual(c.answers()[0].status, 299)
        tarnd.wait_until(lambda: self.counters(it)["bans.added"] == bans + 1, "a ban")
        c.answers()

    def test_a_stale_one_with_a_policy(self):
        it = self.tls(routes=self.policy("sub vcl_hit { return (deliver); }"))
        target = self.target("max-age=1, stale-while-revalidate=100")
        it.ask_tls(target)
        session = self.session(it)
        time.sleep(2.2)
        self.refused(self.early(it, request(target), session), it, target, asks=1)

    def test_routes(self):
        users = f"{self.dir}/users"
        with open(users, "w", encoding="ascii") as f:
            f.write("joe:" + subprocess.run(["openssl", "passwd", "-6", "secret"], capture_output=True, text=True,
                                            check=True).stdout)
        os.chmod(users, 0o600)
        it = self.tls(routes=f"""routes:
  - {{ path: /private, backend: default, basic_auth: {users} }}
  - {{ path: /old, redirect: {{ to: "https://a.test/new" }} }}
  - {{ backend: default }}
limits:
  - {{ rate: 1000 }}
""")
        asked = self.counters(it)["auth.computed"]
        self.assertEqual(self.early(it, request("/private/x", "Authorization: Basic am9lOnNlY3JldA==")).answers()[0].status, 425)
        self.assertEqual(self.counters(it)["auth.computed"], asked)
        self.assertEqual(self.early(it, request("/old")).answers()[0].status, 301)
        self.assertEqual(self.early(it, request(HIT)).answers()[0].status, 200)
        target = self.target()
        self.refused(self.early(it, request(target)), it, target)

    def test_the_hop_before_says_it(self):
        """Early-Data: 1 of a request (RFC 8470 5.1): a hit, or for the origin to judge, and for nobody else."""
        it = self.tls()
        seen = []
        origin.script("marked", lambda h: (seen.append(h.headers.get("Early-Data")), h.start("length", 2, "max-age=100"),
                                           h.piece(b"ok")))
        self.assertEqual(it.ask_tls(HIT, "Early-Data: 1").body, body(1000))
        for _ in range(2):  # not stored
            self.assertEqual(it.ask_tls("/script/marked", "Early-Data: 1").body, b"ok")
        self.assertEqual(seen, ["1", "1"])
        it.ask_tls("/script/marked")
        self.assertEqual(seen, ["1", "1", None])
        it.ask_tls("/script/marked", "Early-Data: 1")  # stored now
        self.assertEqual(len(seen), 3)

    def test_behind_proxies(self):
        """What a trusted one says of the scheme does not make an early request a late one."""
        it = self.tls(routes="trusted_proxies: [127.0.0.1]\nlimits: [ { rate: 1000 } ]\n")
        target = self.target()
        c = self.early(it, request(target, "X-Forwarded-For: 192.0.2.1", "X-Forwarded-Proto: http"))
        self.assertEqual(c.answers()[0].status, 425)
        self.assertEqual(self.asked(target), 0)

    def test_s_client(self):
        it = self.tls()
        kept, target = f"{self.dir}/session", self.target()

        def say(data, *more, early=None):
            if early is not None:
                with open(f"{self.dir}/early", "wb") as f:
                    f.write(early)
                more = (*more, "-early_data", f"{self.dir}/early")
            done = subprocess.run(["openssl", "s_client", "-connect", f"127.0.0.1:{it.port}", "-servername", "a.test", "-tls1_3",
                                   "-ign_eof", *more], input=data, capture_output=True, timeout=tarnd.PATIENCE_S, check=False)
            return done.stdout.decode("latin-1")

        last = request(HIT, "Connection: close")
        say(last, "-sess_out", kept)
        self.assertIn("Max Early Data: 16384", subprocess.run(
            ["openssl", "sess_id", "-in", kept, "-text", "-noout"], capture_output=True, text=True, check=True).stdout)
        said = say(last, "-sess_in", kept, early=request(HIT))
        self.assertIn("Early data was accepted", said)
        self.assertEqual(said.count("HTTP/1.1 200 OK"), 2)
        said = say(last, "-sess_in", kept, early=request(target, method="POST"))
        self.assertIn("HTTP/1.1 425 Too Early", said)
        self.assertEqual(self.asked(target), 0)


if __name__ == "__main__":
    World.program = os.path.abspath(sys.argv.pop(1))
    if lib is None or b"AWS-LC" in subprocess.run([World.program, "-V"], capture_output=True, check=True).stdout:
        sys.exit(77)
    lib.SSL_SESSION_get_max_early_data.restype = ctypes.c_uint32
    lib.SSL_SESSION_get_max_early_data.argtypes = [ctypes.c_void_p]
    origin = Origin()
    client_context()
    unittest.main()
