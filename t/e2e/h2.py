#!/usr/bin/env python3
"""h2.py TARND [TEST...] -- what clients of HTTP/2 get, by prior knowledge and by TLS, with our client and with others'.

Our client reads strictly (h2_client.py): each test here fails on an answer that HTTP/2 does not allow, whatever it is
about.  h2_clients.py has clients of third parties.
"""
import hashlib
import os
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
import unittest

sys.dont_write_bytecode = True
import h2_client
import h2_world
import tarnd
from h2_client import (HEADER_TABLE_SIZE, INITIAL_WINDOW_SIZE, INSERT,
                       MAX_CONCURRENT_STREAMS, MAX_FRAME_SIZE, MAX_HEADER_LIST_SIZE, NO_ERROR, REFUSED_STREAM, WINDOW,
                       Encoder, data, encode, headers, literal, settings, split_block)
from h2_world import HIT, HIT_BODY
from origin import body
from tls_world import client_context, pki

MIB = 1 << 20
SIZES = (0, 1, 100, 16383, 16384, 16385, 65535, 65536, 300000, MIB)


class World(h2_world.World):
    def script(self, name, play):
        return self.origin.script(f"{self.id().rpartition('.')[2]}-{name}", play)


class Itself(unittest.TestCase):
    """The client, by the examples of RFC 7541 C.4 and C.6."""

    def test_its_codes(self):
        self.assertEqual(h2_client.huffman_encode(b"www.example.com").hex(), "f1e3c2e5f23a6ba0ab90f4ff")
        self.assertEqual(h2_client.integer(1337, 5), bytes([31, 154, 10]))
        every = bytes(range(256))
        self.assertEqual(h2_client.huffman_decode(h2_client.huffman_encode(every)), every)
        asked = [(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "www.example.com")]
        encoder, decoder = Encoder(), h2_client.Decoder()
        for block, more in (("828684418cf1e3c2e5f23a6ba0ab90f4ff", []), ("828684be5886a8eb10649cbf", [("cache-control", "no-cache")])):
            self.assertEqual(encoder.block(asked + more).hex(), block)
            self.assertEqual(decoder.decode(bytes.fromhex(block)), asked + more)
        decoder = h2_client.Decoder(256)  # entries leave the table
        decoder.decode(bytes.fromhex("488264025885aec3771a4b6196d07abe941054d444a8200595040b8166e082a62d1bff6e919d29ad1718"
                                     "63c78f0b97c8e9ae82ae43d3"))
        self.assertEqual(decoder.decode(bytes.fromhex("4883640effc1c0bf")), [
            (":status", "307"), ("cache-control", "private"), ("date", "Mon, 21 Oct 2013 20:13:21 GMT"),
            ("location", "https://www.example.com")])
        self.assertEqual(len(decoder.entries), 4)


class Basics(World):
    def test_a_miss_and_then_hits(self):
        it = self.h2()
        for way, connect in self.both(it):
            target = f"{HIT}&way={way}"
            with connect(it) as c:
                for n in range(3):
                    got = c.request(target)
                    self.assertEqual((got.status, bytes(got.body)), (200, HIT_BODY))
                    self.assertIn("; hit" if n else "fwd=uri-miss", got.field("cache-status"))
                    self.assertEqual(got.field("content-length"), "1000")
                    self.assertEqual(got.field("content-type"), "application/octet-stream")
                    self.assertRegex(got.field("date"), r"^\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT$")
                    self.assertEqual(got.field("age") is not None, n > 0)
                    self.assertEqual([n for n, _ in got.fields], [n.lower() for n, _ in got.fields])
            self.assertEqual(self.asked(target), 1)

    def test_both_versions_share_the_cache(self):
        it = self.h2()
        it.ask(HIT)
        with self.plain(it, authority="tarn.test") as c:
            self.assertIn("; hit", c.request(HIT).field("cache-status"))

    def test_its_settings(self):
        it = self.h2()
        for _, connect in self.both(it):
            with connect(it) as c:
                self.assertTrue(c.until(lambda: c.theirs is not None and c.acked))
                self.assertLessEqual(c.theirs[MAX_CONCURRENT_STREAMS], 100)
                self.assertGreaterEqual(c.theirs.get(MAX_HEADER_LIST_SIZE, 32768), 16384)
                self.assertTrue(c.ping())

    def test_a_listener_speaks_both(self):
        it = self.h2()
        self.assertEqual(it.ask(HIT).body, HIT_BODY)
        for offered, chosen in ((["h2", "http/1.1"], "h2"), (["http/1.1", "h2"], "h2"), (["http/1.1"], "http/1.1"),
                                (["h2"], "h2"), (None, None)):
            with it.secure(client_context(alpn=offered), port=it.secure_port) as s:
                self.assertEqual(s.selected_alpn_protocol(), chosen, offered)
        self.assertEqual(it.ask_tls(HIT, port=it.secure_port).body, HIT_BODY)
        with it.connect() as s:  # the preface a byte at a time
            s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for one in h2_client.PREFACE:
                s.sendall(bytes([one]))
            c = h2_client.Client(s, greet=False)
            c.send(settings())
            self.assertEqual(c.request(HIT).status, 200)

    def test_without_its_keys_it_is_not_spoken(self):
        port = tarnd.free_port()
        it = self.start(h2_world.CONFIG.format(origin=self.origin.address, more=""),
                        f"  - address: 127.0.0.1:{port}\n    http2: off\n    tls: {{ certificates: {pki().certs} }}\n")
        with it.secure(client_context(alpn=["h2", "http/1.1"]), port=port) as s:
            self.assertEqual(s.selected_alpn_protocol(), "http/1.1")
        with it.connect() as s:
            s.sendall(h2_client.PREFACE)
            self.assertIn(tarnd.Answer(tarnd.read_to_end(s)).status, (400, 505))

    def test_a_listener_of_http2_alone(self):
        """h2c: only.  What is no preface gets GOAWAY (RFC 9113 3.4), whoever is quick or slow to say it."""
        it = self.h2(h2c="only")
        with self.plain(it) as c:
            self.assertEqual(bytes(c.request(HIT).body), HIT_BODY)
        for said in (b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n", h2_client.PREFACE[:-1] + b"x", b"\0"):
            for pause in (0, 0.02):
                with it.connect() as s:
                    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    c = h2_client.Client(s, greet=False)
                    for one in (said,) if not pause else (said[:1], said[1:]):
                        c.send(one)
                        time.sleep(pause)
                    self.assertTrue(c.until(lambda: c.ended, 10), said)
                    self.assertEqual(c.goaway, h2_client.PROTOCOL_ERROR, said)
        with it.connect() as s:  # the server need not wait for the client
            c = h2_client.Client(s, greet=False)
            self.assertTrue(c.until(lambda: c.theirs is not None, 10))
        before = self.counters(it)["sess.http2"]
        with self.plain(it) as c:
            c.request(HIT)
        self.assertEqual(self.counters(it)["sess.http2"], before + 1)

    def test_no_upgrade(self):
        """RFC 9113 3.1: h2c by Upgrade is no more; the request is one of HTTP/1.1."""
        it = self.h2()
        got = it.ask(HIT, "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAAP__")
        self.assertEqual((got.status, got.body), (200, HIT_BODY))

    def test_head(self):
        it = self.h2()
        for way, connect in self.both(it):
            with connect(it) as c:
                for n in range(2):
                    got = c.request(f"/body?n=70000&framing=length&head={way}", method="HEAD")
                    self.assertEqual((got.status, got.field("content-length"), bytes(got.body)), (200, "70000", b""))
                got = c.request(f"/body?n=70000&framing=length&head={way}")
                self.assertEqual(bytes(got.body), body(70000))
                self.assertEqual(c.request(f"/body?n=70000&framing=length&head={way}", method="HEAD").field("content-length"),
                                 "70000")

    def test_bodies_of_every_size_and_framing(self):
        it = self.h2()
        for way, connect in self.both(it):
            for framing in ("length", "chunked"):
                with connect(it) as c:
                    for size in (*SIZES, 5 * MIB):
                        target = f"/body?n={size}&framing={framing}&way={way}"
                        for _ in range(2):
                            got = c.request(target)
                            self.assertEqual(got.status, 200)
                            self.assertTrue(bytes(got.body) == body(size), f"{way} {framing} {size}")
                        self.assertEqual(self.asked(target), 1)

    def test_uploads_of_every_size_and_framing(self):
        it = self.h2()
        for way, connect in self.both(it):
            with connect(it) as c:
                for size in SIZES:
                    for framing in ("length", "chunked"):
                        for stated in (True, False):
                            fields = [("content-length", str(size))] if stated else []
                            got = c.request(f"/echo?framing={framing}", fields, body(size))
                            self.assertEqual(got.status, 200)
                            self.assertTrue(bytes(got.body) == body(size), f"{way} {framing} {size} {stated}")

    def test_uploads_at_once(self):
        it = self.h2()
        for _, connect in self.both(it):
            with connect(it) as c:
                c.until(lambda: c.theirs is not None)
                many = [c.begin("/sum", body=body(40000 + 1000 * i)) for i in range(30)]
                c.finish(*many)
                for i, got in enumerate(many):
                    size = 40000 + 1000 * i
                    self.assertEqual(bytes(got.body), b"%d %s" % (size, hashlib.sha256(body(size)).hexdigest().encode()))

    def test_conditions_and_ranges(self):
        def play(h):
            h.send_response(200)
            for n, v in (("ETag", '"v1"'), ("Cache-Control", "max-age=600"), ("Content-Length", "100000"),
                         ("Last-Modified", "Mon, 02 Nov 2026 10:00:00 GMT")):
                h.send_header(n, v)
            h.end_headers()
            h.chunked = False
            h.piece(body(100000))
        target = self.script("etag", play)
        it = self.h2()
        for _, connect in self.both(it):
            with connect(it) as c:
                self.assertEqual(c.request(target).field("etag"), '"v1"')
                for condition in (("if-none-match", '"v1"'), ("if-modified-since", "Mon, 02 Nov 2026 10:00:00 GMT")):
                    got = c.request(target, [condition])
                    self.assertEqual((got.status, bytes(got.body), got.field("etag")), (304, b"", '"v1"'))
                got = c.request(target, [("if-none-match", '"v2"')])
                self.assertEqual((got.status, bytes(got.body)), (200, body(100000)))
                for asked, first, last in (("0-9", 0, 9), ("50000-", 50000, 99999), ("-1", 99999, 99999),
                                           ("16383-32768", 16383, 32768)):
                    got = c.request(target, [("range", f"bytes={asked}")])
                    self.assertEqual((got.status, got.field("content-range")), (206, f"bytes {first}-{last}/100000"))
                    self.assertEqual(bytes(got.body), body(100000)[first:last + 1])
                self.assertEqual(c.request(target, [("range", "bytes=100000-")]).status, 416)
        self.assertEqual(self.asked(target), 2)  # of http and of https

    def test_what_stays_here(self):
        """RFC 9113 8.2.2: an origin's fields of its connection are not sent on."""
        def play(h):
            h.send_response(200)
            for n, v in (("Connection", "X-Hop, keep-alive"), ("X-Hop", "1"), ("Keep-Alive", "timeout=5"), ("X-Ours", "a"),
                         ("Transfer-Encoding", "chunked"), ("Set-Cookie", "a=1"), ("Set-Cookie", "b=2"),
                         ("Cache-Control", "no-store"), ("X-Empty", ""), ("UPPER", "Case")):
                h.send_header(n, v)
            h.end_headers()
            h.chunked = True
            h.piece(b"x")
            h.end()
        target = self.script("hop", play)
        it = self.h2()
        with self.plain(it) as c:
            got = c.request(target)
            self.assertEqual((got.field("x-hop"), got.field("x-ours"), got.field("x-empty"), got.field("upper")),
                             (None, "a", "", "Case"))
            self.assertEqual([v for n, v in got.fields if n == "set-cookie"], ["a=1", "b=2"])

    def test_large_heads_both_ways(self):
        def play(h):
            h.send_response(200)
            for i in range(60):
                h.send_header(f"X-{i}", h.headers.get("X-Say", ""))
            h.send_header("Cache-Control", "max-age=60")
            h.send_header("Content-Length", str(len(h.headers.get("X-Up", ""))))
            h.end_headers()
            h.chunked = False
            h.piece(h.headers.get("X-Up", "").encode())
        target = self.script("large", play)
        it = self.h2()
        for _, connect in self.both(it):
            with connect(it) as c:
                for n in range(2):  # 24 KB: HEADERS and CONTINUATION
                    got = c.request(target, [("x-say", "s" * 400), ("x-up", "u" * 7000)])
                    self.assertEqual((got.status, bytes(got.body)), (200, b"u" * 7000))
                    self.assertEqual([v for m, v in got.fields if m.startswith("x-") and m[2:].isdigit()], ["s" * 400] * 60)

    def test_heads_beyond_the_limits(self):
        it = self.h2()
        with self.plain(it) as c:
            for fields in ([(f"x{i}", "y") for i in range(300)], [("x", "y" * 60000)],
                           [(f"x{i}", "y" * 5000) for i in range(12)], [("cookie", f"a{i}=1") for i in range(400)]):
                one = c.open()
                block = encode(c.head(HIT, fields))
                c.send(split_block(one.id, block, [16384] * (len(block) // 16384)))
                c.finish(one)
                self.assertEqual(one.status, 431)
                self.assertEqual(bytes(c.request(HIT).body), HIT_BODY)

    def test_every_byte_in_a_frame_and_a_packet_of_its_own(self):
        it = self.h2()
        for way, connect in self.both(it):
            with connect(it) as c:
                c.until(lambda: c.theirs is not None and c.acked)
                c.answers = False
                one = c.open("POST")
                block = encode(c.head("/echo?framing=length", [("content-length", "50")], "POST"))
                octets = split_block(one.id, block, [1, 0, 5, 40, 1], False)
                for i in range(50):
                    piece = data(one.id, body(50)[i:i + 1], i == 49, pad=i % 4 or None)
                    c.send_window -= len(piece) - 9
                    octets += piece
                c.pieces(octets, 1)
                c.finish(one)
                self.assertEqual(bytes(one.body), body(50), way)

    def test_what_table_and_huffman_say(self):
        """A browser's fields, again and again: each form of RFC 7541 6, tables that change and shrink."""
        def play(h):
            said = h.headers.get("X-Say", "")
            h.start("length", len(said), "no-store")
            h.piece(said.encode("latin-1"))
        target = self.script("say", play)
        it = self.h2()
        for coded in (False, True):
            with self.plain(it) as c:
                e = Encoder(coded)
                for i in range(150):
                    say = f"{i % 7}" * (1 + 37 * (i % 23)) if i % 3 else "same"
                    if i % 50 == 49:
                        e.most = (4096, 100, 0, 4096)[i // 50]
                        while sum(len(n) + len(v) + 32 for n, v in e.entries) > e.most:
                            e.entries.pop()
                        prefix = h2_client.table_size(0) + h2_client.table_size(e.most)
                        if e.most == 0:
                            prefix = h2_client.table_size(0)
                        else:
                            e.entries.clear()
                    else:
                        prefix = b""
                    got = c.request(target, [("user-agent", "Mozilla/5.0 (X11; Linux x86_64)"), ("x-say", say),
                                             ("accept-encoding", "gzip, deflate")],
                                    encode_with=lambda f: prefix + e.block(f))
                    self.assertEqual(bytes(got.body).decode(), say, (coded, i))
            with self.plain(it) as c:
                every = "".join(map(chr, [*range(33, 127), *range(128, 256)]))
                got = c.request(target, [("x-say", every)], encode_with=lambda f: encode(f, coded))
                self.assertEqual(bytes(got.body).decode("latin-1"), every)
                for how in (h2_client.PLAIN, h2_client.NEVER, INSERT):
                    got = c.request(target, encode_with=lambda f: encode(f) + literal("x-say", "it", how, coded))
                    self.assertEqual(bytes(got.body), b"it")

    def test_trailers_go_no_further(self):
        """As with HTTP/1.1: read and discarded, both ways."""
        came = []

        def play(h):
            came.append((h.whole_body(), h.trailers))
            h.start("chunked", 0, "no-store")
            h.piece(b"answer")
            h.wfile.write(b"0\r\nX-Trailer: 1\r\n\r\n")
        target = self.script("trailers", play)
        it = self.h2()
        for _, connect in self.both(it):
            with connect(it) as c:
                got = c.request(target, body=b"12345", trailers=[("x-t", "1")])
                self.assertEqual((got.status, bytes(got.body), got.trailers), (200, b"answer", None))
        self.assertEqual(came, [(b"12345", [])] * 2)

    def test_interim_responses(self):
        def play(h):
            h.send_response_only(103)
            h.send_header("Link", "</style.css>; rel=preload")
            h.send_header("Connection", "X-Hop")
            h.send_header("X-Hop", "1")
            h.end_headers()
            h.start("length", 5, "no-store")
            h.piece(b"final")
        target = self.script("hints", play)
        it = self.h2()
        for _, connect in self.both(it):
            with connect(it) as c:
                got = c.request(target)
                self.assertEqual((got.status, bytes(got.body)), (200, b"final"))
                self.assertEqual(got.interim, [(103, [("link", "</style.css>; rel=preload")])])

    def test_expect_continue(self):
        it = self.h2()
        for _, connect in self.both(it):
            with connect(it) as c:
                one = c.begin("/echo", [("expect", "100-continue"), ("content-length", "5")], more=True, method="POST")
                self.assertTrue(c.until(lambda: one.interim, 10))
                self.assertEqual(one.interim[0][0], 100)
                c.say(one, b"12345")
                c.finish(one)
                self.assertEqual((one.status, bytes(one.body)), (200, b"12345"))
                self.assertEqual(c.request("/echo", [("expect", "200-ok")], b"x").status, 417)
                self.assertEqual(c.request("/echo", body=b"12345").interim, [])

    def test_a_plain_connect_is_refused(self):
        it = self.h2()
        with self.plain(it) as c:
            one = c.open("CONNECT")
            c.send(headers(one.id, encode([(":method", "CONNECT"), (":authority", "a.test:443")])))
            c.finish(one)
            self.assertTrue(one.reset is not None or one.status // 100 in (4, 5), one)
            c.until(lambda: c.theirs is not None)
            self.assertEqual(c.request(HIT).status, 200)

    def test_an_origin_that_fails(self):
        """A body that is cut short is an error of its stream, not an end."""
        def cut(h):
            h.start("length", 100000, "no-store")
            h.piece(body(100000)[:50000])
            h.wfile.flush()
            h.connection.shutdown(socket.SHUT_RDWR)
            h.close_connection = True

        def cut_chunked(h):
            h.start("chunked", 0, "no-store")
            h.piece(body(50000))
            h.wfile.flush()
            h.connection.shutdown(socket.SHUT_RDWR)
            h.close_connection = True
        it = self.h2()
        for play in (cut, cut_chunked):
            target = self.script(play.__name__, play)
            for _, connect in self.both(it):
                with connect(it) as c:
                    one = c.begin(target)
                    c.finish(one)
                    self.assertEqual((one.status, one.ended), (200, False))
                    self.assertIsNotNone(one.reset)
                    self.assertEqual(c.request(HIT).status, 200)
        down = self.start(h2_world.CONFIG.format(origin=f"127.0.0.1:{tarnd.free_port()}", more=""), "    h2c: on\n")
        with self.plain(down) as c:
            self.assertEqual(c.request("/").status, down.ask("/").status)

    def test_idle_connections_end_with_goaway(self):
        it = self.start(h2_world.CONFIG.format(origin=self.origin.address, more="").replace("60s", "500ms"), "    h2c: on\n")
        for asks in (0, 1):
            with self.plain(it) as c:
                if asks:
                    c.request(HIT)
                self.assertTrue(c.until(lambda: c.ended, 20))
                self.assertEqual(c.goaway, NO_ERROR)


class Many(World):
    def test_streams_at_once(self):
        it = self.h2()
        for way, connect in self.both(it):
            for count in (16, 100):
                with connect(it) as c:
                    c.until(lambda: c.theirs is not None)
                    for n in range(3):
                        many = [c.begin(f"/body?n={i * 997}&framing={'length' if i % 2 else 'chunked'}&{way}")
                                for i in range(count)]
                        c.finish(*many)
                        for i, got in enumerate(many):
                            self.assertEqual(got.status, 200)
                            self.assertTrue(bytes(got.body) == body(i * 997), f"{way} {count} {i}")

    def test_beyond_the_limit_is_refused(self):
        hold = threading.Event()
        self.addCleanup(hold.set)

        def play(h):
            hold.wait(30)
            h.start("length", 2, "no-store")
            h.piece(b"ok")
        target = self.script("hold", play)
        it = self.h2()
        with self.plain(it) as c:
            c.until(lambda: c.theirs is not None)
            most = c.theirs[MAX_CONCURRENT_STREAMS]
            many = [c.begin(f"{target}") for i in range(most + 5)]
            self.assertTrue(c.until(lambda: all(s.over for s in many[most:])))
            self.assertEqual([s.reset for s in many[most:]], [REFUSED_STREAM] * 5)
            self.assertFalse(any(s.over for s in many[:most]))
            hold.set()
            c.finish(*many)
            self.assertEqual({s.status for s in many[:most]}, {200})
            self.assertEqual(c.request(HIT).status, 200)

    def test_fifty_that_miss_are_one_request(self):
        here, go = threading.Event(), threading.Event()
        self.addCleanup(go.set)

        def play(h):
            here.set()
            go.wait(30)
            h.start("length", 200000)
            h.piece(body(200000))
        it = self.h2()
        for way, connect in self.both(it):
            here.clear(), go.clear()
            target = self.script("miss" + way, play)
            with connect(it) as c:
                c.until(lambda: c.theirs is not None)
                many = [c.begin(target) for _ in range(50)]
                c.ping()
                self.assertTrue(here.wait(10))
                go.set()
                c.finish(*many)
                for got in many:
                    self.assertTrue(got.status == 200 and bytes(got.body) == body(200000), f"{way} {got}")
            self.assertEqual(self.asked(target), 1)

    def test_a_reset_is_of_one_stream_only(self):
        """The first one, which the fetch was begun for, and every third."""
        for cacheable in (True, False):
            halfway, go = threading.Event(), threading.Event()
            self.addCleanup(go.set)

            def play(h):
                h.start("length", 400000, "max-age=60" if cacheable else "private, max-age=60")
                h.piece(body(400000)[:200000])
                h.wfile.flush()
                halfway.set()
                go.wait(30)
                h.piece(body(400000)[200000:])
            it = self.h2()
            for way, connect in self.both(it):
                halfway.clear(), go.clear()
                target = self.script(f"reset{cacheable}{way}", play)
                with connect(it) as c:
                    c.until(lambda: c.theirs is not None)
                    many = [c.begin(target) for _ in range(30)]
                    c.push()
                    self.assertTrue(halfway.wait(10))
                    c.until(lambda: many[0].status is not None)
                    left = many[::3]
                    for one in left:
                        c.reset(one)
                    c.ping()
                    go.set()
                    rest = [s for s in many if s not in left]
                    c.finish(*rest)
                    for got in rest:
                        self.assertTrue(got.status == 200 and bytes(got.body) == body(400000), f"{way} {got}")
                if cacheable:
                    self.assertEqual(self.asked(target), 1)

    def test_resets_before_any_answer(self):
        go = threading.Event()
        self.addCleanup(go.set)

        def play(h):
            go.wait(30)
            h.start("length", 1000)
            h.piece(body(1000))
        target = self.script("early", play)
        it = self.h2()
        with self.plain(it) as c, self.plain(it) as other:
            mine = [c.begin(target) for _ in range(10)]
            c.ping()
            theirs = [other.begin(target) for _ in range(10)]
            other.ping()
            for one in mine:
                c.reset(one)
            c.ping()
            go.set()
            other.finish(*theirs)
            self.assertEqual({bytes(s.body) for s in theirs}, {body(1000)})
            self.assertEqual(bytes(c.request(target).body), body(1000))
        self.assertEqual(self.asked(target), 1)

    def test_a_connection_that_ends_ends_its_streams_only(self):
        go = threading.Event()
        self.addCleanup(go.set)

        def play(h):
            go.wait(30)
            h.start("length", 1000)
            h.piece(body(1000))
        target = self.script("ends", play)
        it = self.h2()
        with self.plain(it) as other:
            with self.plain(it) as c:
                for _ in range(10):
                    c.begin(target)
                c.ping()
                theirs = [other.begin(target) for _ in range(10)]
                other.ping()
                tarnd.reset(c.sock)
            go.set()
            other.finish(*theirs)
            self.assertEqual({bytes(s.body) for s in theirs}, {body(1000)})

    def test_slow_and_fast_on_one_connection(self):
        it = self.h2()
        for way, connect in self.both(it):
            for kind in ("framing=length", "framing=chunked", "framing=length&cc=no-store"):
                with connect(it) as c:
                    slow = c.begin(f"/body?n={MIB}&{kind}&{way}")
                    slow.lazy = True
                    c.send(h2_client.window(0, 10 * MIB))
                    c.credit += 10 * MIB
                    self.assertTrue(c.until(lambda: slow.credit == 0))
                    for _ in range(3):
                        fast = c.request(f"/body?n={2 * MIB}&{kind}&{way}")
                        self.assertTrue(bytes(fast.body) == body(2 * MIB))
                    self.assertEqual(len(slow.body), WINDOW)
                    for more in (1, 1000, 100000):
                        before = len(slow.body)
                        c.allow(slow, more)
                        self.assertTrue(c.until(lambda: slow.credit == 0))
                        self.assertEqual(len(slow.body), before + more)
                    slow.lazy = False
                    c.allow(slow, MIB)
                    c.finish(slow)
                    self.assertTrue(bytes(slow.body) == body(MIB), f"{way} {kind}")

    def test_a_socket_that_is_full_while_fetches_go_on(self):
        """Windows are wide, and the client reads seldom: what comes from the origin meets a write that waits."""
        it = self.h2()
        for way, connect in self.both(it):
            for n in range(4):
                with connect(it, ours={INITIAL_WINDOW_SIZE: 16 * MIB}) as c:
                    c.until(lambda: c.theirs is not None)
                    c.send(h2_client.window(0, 64 * MIB))
                    c.credit += 64 * MIB
                    many = [c.begin(f"/body?n={400000 + 1000 * i}&framing=chunked&{way}&{n}") for i in range(64)]
                    c.push(hear=False)
                    for _ in range(20):
                        time.sleep(0.02)
                        c.turn()
                    c.finish(*many)
                    for i, got in enumerate(many):
                        self.assertTrue(got.status == 200 and bytes(got.body) == body(400000 + 1000 * i), f"{way} {got}")

    def test_windows_that_settings_change(self):
        """RFC 9113 6.9.2: those of open streams change, too, below nothing if it must be."""
        it = self.h2()
        with self.plain(it, ours={INITIAL_WINDOW_SIZE: 100}) as c:
            c.send(h2_client.window(0, 10 * MIB))
            c.credit += 10 * MIB
            one = c.begin(f"/body?n={MIB}&framing=length")
            one.lazy = True
            self.assertTrue(c.until(lambda: len(one.body) == 100))
            for size in (10, 60, 100, 150):  # what it may have in all
                c.send(settings({INITIAL_WINDOW_SIZE: size}))
                one.credit += size - c.ours[INITIAL_WINDOW_SIZE]
                c.ours[INITIAL_WINDOW_SIZE] = size
                self.assertTrue(c.ping(b"size%04d" % size))
                self.assertTrue(c.until(lambda: len(one.body) == max(100, size)))
            one.lazy = False
            c.allow(one, 2 * MIB)
            c.finish(one)
            self.assertTrue(bytes(one.body) == body(MIB))

    def test_tiny_windows_and_large_frames(self):
        it = self.h2()
        with self.plain(it, ours={INITIAL_WINDOW_SIZE: 1}) as c:
            self.assertEqual(bytes(c.request("/body?n=60&framing=length").body), body(60))
        with self.plain(it, ours={INITIAL_WINDOW_SIZE: 16 * MIB, MAX_FRAME_SIZE: MIB, HEADER_TABLE_SIZE: 0}) as c:
            c.send(h2_client.window(0, 16 * MIB))
            c.credit += 16 * MIB
            for _ in range(3):
                self.assertTrue(bytes(c.request(f"/body?n={5 * MIB}&framing=length").body) == body(5 * MIB))

    def test_the_window_of_what_is_discarded_comes_back(self):
        """RFC 9113 5.1, 6.9: DATA of a stream that has been refused meanwhile counts, and its room is given again."""
        it = self.h2()
        for way, connect in self.both(it):
            with connect(it) as c:
                c.until(lambda: c.theirs is not None)
                for n in range(12):
                    one = c.open("POST")
                    # Refused by its head, or by the first DATA.
                    fields = [("content-length", "10")] if n % 2 else [("content-length", "50000"), ("Bad", "x")]
                    c.send(headers(one.id, encode(c.head("/echo", fields, "POST")), False))
                    for size in (16384, 16384, 8000):
                        c.until(lambda: c.send_window >= size, 10)
                        self.assertGreaterEqual(c.send_window, size, f"{way}: try {n}: the room of {n} bodies is lost")
                        c.send_window -= size
                        c.send(data(one.id, b"x" * size))
                    c.until(lambda: one.over, 10)
                    self.assertTrue(one.over, f"{way} {n}")
                self.assertEqual(bytes(c.request("/echo", body=body(200000), seconds=20).body), body(200000), way)

    def test_many_connections(self):
        self.workers = 2
        it = self.h2()
        clients = [connect(it) for _ in range(20) for _, connect in self.both(it)]
        asked = [(c, [c.begin(f"/body?n={1000 * i}&framing=chunked") for i in range(10)]) for c in clients]
        for c, many in asked:
            c.finish(*many)
            self.assertTrue(all(bytes(s.body) == body(1000 * i) for i, s in enumerate(many)))
            c.close()
        self.no_connection_is_left(it)


class Ends(World):
    def test_a_drain_ends_what_is_under_way(self):
        for way in ("plain", "secure"):
            here, go = threading.Semaphore(0), threading.Event()
            self.addCleanup(go.set)

            def play(h):
                h.start("length", 200000, "no-store")
                h.piece(body(200000)[:100000])
                h.wfile.flush()
                here.release()
                go.wait(30)
                h.piece(body(200000)[100000:])
            target = self.script("drain" + way, play)
            it = self.h2()
            with getattr(self, way)(it) as c, getattr(self, way)(it) as idle:
                idle.request(HIT)
                c.until(lambda: c.theirs is not None)
                many = [c.begin(f"{target}") for _ in range(20)]
                c.push()
                for _ in many:
                    self.assertTrue(here.acquire(timeout=20))
                it.terminate()
                self.assertTrue(c.until(lambda: c.goaway is not None))
                self.assertTrue(idle.until(lambda: idle.ended, 20))
                self.assertEqual((idle.goaway, c.goaway), (NO_ERROR, NO_ERROR))
                c.ping()
                time.sleep(0.2)
                c.ping(b"again   ")
                late = c.begin(HIT)  # behind GOAWAY: not begun, or refused
                go.set()
                c.finish(*many)
                for got in many:
                    self.assertTrue(got.status == 200 and bytes(got.body) == body(200000), str(got))
                self.assertTrue(c.until(lambda: c.ended, 20))
                self.assertGreaterEqual(c.goaways[-1][0], many[-1].id)
                if late.status is not None:  # it came before the last one
                    self.assertGreaterEqual(c.goaways[-1][0], late.id)
                else:
                    self.assertTrue(late.reset in (None, REFUSED_STREAM))
                    self.assertLess(c.goaways[-1][0], late.id)
            self.assertEqual(it.process.wait(20), 0)

    def test_goaway_of_the_client(self):
        """RFC 9113 6.8: it takes no pushes; its requests are answered."""
        it = self.h2()
        with self.plain(it) as c:
            many = [c.begin(f"/body?n=100000&framing=length&{i}") for i in range(10)]
            c.send(h2_client.goaway())
            c.finish(*many)
            self.assertEqual({bytes(s.body) for s in many}, {body(100000)})

    def test_reload_keeps_connections(self):
        it = self.h2()
        with self.plain(it) as c:
            c.request(HIT)
            it.process.send_signal(signal.SIGHUP)
            time.sleep(0.5)
            self.assertEqual(bytes(c.request(HIT).body), HIT_BODY)


class Seen(World):
    def test_a_policy_sees_it(self):
        folder = tempfile.mkdtemp(prefix="tarn-h2.")
        self.addCleanup(shutil.rmtree, folder)
        site = os.path.join(folder, "site.vcl")
        with open(site, "w", encoding="ascii") as f:
            f.write("""vcl 4.1;
sub vcl_deliver {
    set resp.http.x-proto = req.proto;
    set resp.http.x-host = req.http.host;
    set resp.http.x-cookie = req.http.cookie;
    if (req.proto == "HTTP/2.0") { set resp.http.x-two = "yes"; }
    if (req.url ~ "/synth") { return (synth(418, "Teapot")); }
}
""")
        it = self.h2(config=f"vcl: {site}\n")
        for way, connect in self.both(it):
            with connect(it) as c:
                for _ in range(2):
                    got = c.request(f"{HIT}&policy={way}", [("cookie", "a=1"), ("cookie", "b=2")])
                    self.assertEqual((got.status, got.field("x-proto"), got.field("x-two"), got.field("x-host"),
                                      got.field("x-cookie")), (200, "HTTP/2.0", "yes", "a.test", "a=1; b=2"))
                self.assertEqual(c.request(f"{HIT}&/synth").status, 418)
        self.assertEqual(it.ask(HIT).fields["x-proto"], "HTTP/1.1")

    def test_the_access_log_says_so(self):
        folder = tempfile.mkdtemp(prefix="tarn-h2.")
        self.addCleanup(shutil.rmtree, folder)
        log = os.path.join(folder, "access.log")
        it = self.h2(f", access_log: '{log}', access_log_format: '$server_protocol|$request|$host|$status|$body_bytes_sent"
                     "|$cache|$scheme|$request_completion'")
        for _, connect in self.both(it):
            with connect(it) as c:
                c.request(f"{HIT}&log")
        it.ask(f"{HIT}&log", "X: y")

        def lines():
            if not os.path.exists(log):
                return []
            with open(log, encoding="utf-8") as f:
                return f.read().splitlines()
        tarnd.wait_until(lambda: len(lines()) == 3, "three lines")
        plain, secure, old = sorted(lines(), key=lambda l: ("HTTP/1" in l, "|https|" in l))
        self.assertEqual(plain, f"HTTP/2.0|GET {HIT}&log HTTP/2.0|a.test|200|1000|miss|http|OK")
        self.assertEqual(secure, f"HTTP/2.0|GET {HIT}&log HTTP/2.0|a.test|200|1000|miss|https|OK")
        self.assertTrue(old.startswith(f"HTTP/1.1|GET {HIT}&log HTTP/1.1|tarn.test|200|1000|"), old)

    def test_what_an_origin_gets(self):
        came = []

        def play(h):
            came.append((h.requestline, sorted((k.lower(), v) for k, v in h.headers.items())))
            h.start("length", 2, "no-store")
            h.piece(b"ok")
        target = self.script("gets", play)
        it = self.h2()
        with self.plain(it) as c:
            c.request(target, [("x-a", "1"), ("cookie", "a=1"), ("cookie", "b=2"), ("te", "trailers"), ("user-agent", "me")])
        line, fields = came[0]
        self.assertEqual(line, f"GET {target} HTTP/1.1")
        names = [n for n, _ in fields]
        for pair in (("host", "a.test"), ("x-a", "1"), ("cookie", "a=1; b=2"), ("user-agent", "me")):
            self.assertIn(pair, fields)
        self.assertEqual(names.count("host"), 1)
        self.assertNotIn("te", names)
        self.assertIn("127.0.0.1", dict(fields)["x-forwarded-for"])
        self.assertRegex(dict(fields)["via"], r"^(HTTP/)?2(\.0)? ")  # RFC 9110 7.6.3: what it was received by

    def test_nothing_is_left(self):
        it = self.h2()
        self.hit(it)
        tarnd.wait_until(lambda: self.counters(it)["sess.accepted"] == self.counters(it)["sess.closed"], "it is quiet")
        time.sleep(1.2)
        base = self.traffic(it)
        for _ in range(30):
            for _, connect in self.both(it):
                with connect(it) as c:
                    for one in [c.begin(f"/body?n={MIB}&framing=length") for _ in range(20)]:
                        one.lazy = True
                    c.turn(0.01)
        self.comes_back(it, base)
        self.no_connection_is_left(it)


if __name__ == "__main__":
    h2_world.main(None, __doc__, verbosity=2)
