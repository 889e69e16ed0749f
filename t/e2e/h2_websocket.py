#!/usr/bin/env python3
"""h2_websocket.py TARND [TEST...] -- WebSocket over HTTP/2 (RFC 8441): what becomes of it on its way, with our client and
with others' (Python's h2 and wsproto, Node), where they are installed.
"""
import asyncio
import base64
import hashlib
import os
import shutil
import socket
import struct
import sys
import tempfile
import threading
import time
import unittest

sys.dont_write_bytecode = True
import h2_client
import h2_clients
import h2_world
import tarnd
from h2_client import CANCEL, ENABLE_CONNECT_PROTOCOL, NO_ERROR, PROTOCOL_ERROR, STREAM_CLOSED, data, encode, headers
from h2_world import HIT, HIT_BODY
from origin import body
from tls_world import pki

MIB = 1 << 20
GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


def accept_of(key):
    return base64.b64encode(hashlib.sha1(key.encode() + GUID).digest()).decode()


def grants(h, *lines, accept=None):
    """The origin's 101; `accept`: another than the right one, or "" for none."""
    accept = accept_of(h.headers["Sec-WebSocket-Key"]) if accept is None else accept
    said = ["HTTP/1.1 101 Switching Protocols", "Upgrade: websocket", "Connection: Upgrade", *lines]
    if accept:
        said.append(f"Sec-WebSocket-Accept: {accept}")
    h.close_connection = True
    h.wfile.write("\r\n".join(said + ["", ""]).encode())
    h.wfile.flush()


def echoes(h):
    """What comes goes back, until it ends."""
    while came := h.rfile.read1(65536):
        h.wfile.write(came)
        h.wfile.flush()


class World(h2_world.World):
    def script(self, name, play):
        return self.origin.script(f"ws-{self.id().rpartition('.')[2]}-{name}", play)

    def h2(self, more="", config="", **others):
        return super().h2(more, "routes:\n  - { path: /script/, pipe: on }\n" + config, **others)

    @staticmethod
    def head(c, path, fields=(), protocol="websocket", **without):
        pseudo = {":method": "CONNECT", ":protocol": protocol, ":scheme": c.scheme, ":path": path, ":authority": c.authority,
                  **without}
        return [(n, v) for n, v in pseudo.items() if v is not None] + [("sec-websocket-version", "13"), *fields]

    def begin(self, c, path, fields=(), **pseudo):
        """A CONNECT; say() has its bytes."""
        c.until(lambda: c.theirs is not None)
        it = c.open("CONNECT")
        c.send(headers(it.id, encode(self.head(c, path, fields, **pseudo)), False))
        return it

    def granted(self, c, path, fields=()):
        it = self.begin(c, path, fields)
        self.assertTrue(c.until(lambda: it.status is not None or it.over), str(it))
        self.assertEqual((it.status, it.reset), (200, None), str(it))
        return it


class Tunnels(World):
    def test_the_handshake(self):
        came = []

        def play(h):
            came.append((h.requestline, dict(h.headers.items())))
            grants(h, "Sec-WebSocket-Protocol: chat", "X-Ours: a")
            h.wfile.write(b"first")
        target = self.script("hand", play)
        it = self.h2()
        for _, connect in self.both(it):
            with connect(it) as c:
                got = self.granted(c, target, [("sec-websocket-protocol", "chat, talk"), ("origin", "https://a.test"),
                                               ("sec-websocket-key", "mine"), ("cookie", "a=1"), ("cookie", "b=2")])
                self.assertEqual(c.theirs[ENABLE_CONNECT_PROTOCOL], 1)
                self.assertTrue(c.until(lambda: got.ended))
                self.assertEqual(bytes(got.body), b"first")
                self.assertEqual((got.field("sec-websocket-protocol"), got.field("x-ours")), ("chat", "a"))
                for name in ("sec-websocket-accept", "upgrade", "connection", "content-length"):
                    self.assertIsNone(got.field(name), name)
        keys = set()
        for line, fields in came:
            self.assertEqual(line, f"GET {target} HTTP/1.1")
            self.assertEqual((fields["Upgrade"], fields["Connection"].lower()), ("websocket", "upgrade"))
            low = {k.lower(): v for k, v in fields.items()}
            self.assertEqual((low["host"], low["sec-websocket-version"], low["sec-websocket-protocol"], low["origin"],
                              low["cookie"]), ("a.test", "13", "chat, talk", "https://a.test", "a=1; b=2"))
            self.assertNotIn("Content-Length", fields)
            self.assertNotIn("Transfer-Encoding", fields)
            self.assertEqual(len(base64.b64decode(low["sec-websocket-key"], validate=True)), 16)
            keys.add(low["sec-websocket-key"])
        self.assertEqual(len(keys), 2)

    def test_bytes_go_both_ways(self):
        def play(h):
            grants(h)
            echoes(h)
        target = self.script("echo", play)
        it = self.h2()
        for way, connect in self.both(it):
            with connect(it) as c:
                many = [self.granted(c, target) for _ in range(3)]
                for size in (1, 5, 16384, 16385, 70000, 3 * MIB):
                    for got in many:
                        got.body.clear()
                        c.say(got, body(size), end=False)
                    self.assertEqual(bytes(c.request(HIT).body), HIT_BODY)  # beside them
                    for got in many:
                        self.assertTrue(c.until(lambda: len(got.body) >= size), f"{way} {size} {got}")
                        self.assertTrue(bytes(got.body) == body(size), f"{way} {size}")
                for got in many:
                    c.say(got, b"", end=True)
                c.finish(*many)
                self.assertEqual([(s.ended, s.reset) for s in many], [(True, None)] * 3)
        self.no_connection_is_left(it)

    def test_many_small_messages(self):
        """Each opens two windows by a little: no trouble where each brought a message."""
        def play(h):
            grants(h)
            echoes(h)
        it = self.h2()
        with self.plain(it) as c:
            got = self.granted(c, self.script("chat", play))
            for n in range(1, 1500):
                c.say(got, b"x", end=False)
                self.assertTrue(c.until(lambda n=n: len(got.body) == n), f"{n} {c.goaways}")

    def test_each_direction_ends_by_itself(self):
        heard, go = [], threading.Event()

        def first(h):  # the origin ends, and hears on
            grants(h)
            h.wfile.write(b"bye")
            h.wfile.flush()
            h.connection.shutdown(socket.SHUT_WR)
            heard.append(h.rfile.read())

        def last(h):  # the client ends, and hears on
            grants(h)
            heard.append(h.rfile.read())
            go.wait(30)
            h.wfile.write(body(200000))
        targets = self.script("first", first), self.script("last", last)
        it = self.h2()
        for _, connect in self.both(it):
            heard.clear()
            go.clear()
            with connect(it) as c:
                got = self.granted(c, targets[0])
                self.assertTrue(c.until(lambda: got.ended))
                self.assertEqual((bytes(got.body), got.reset), (b"bye", None))
                c.say(got, body(300000))
                c.until(lambda: heard)
                self.assertTrue(heard.pop() == body(300000))
                got = self.granted(c, targets[1])
                c.say(got, body(100000))
                c.until(lambda: heard)
                self.assertTrue(heard.pop() == body(100000))
                go.set()
                self.assertTrue(c.until(lambda: got.ended))
                self.assertTrue(bytes(got.body) == body(200000) and got.reset is None)
                self.assertTrue(c.ping())
        self.no_connection_is_left(it)

    def test_windows_bound_what_waits(self):
        """A client that opens no window, and an origin that reads nothing: each is felt at the other end."""
        read, go = [0], threading.Event()

        def play(h):
            grants(h)
            go.wait(30)
            while came := h.rfile.read1(65536):
                read[0] += len(came)

        def floods(h):
            grants(h)
            try:
                for _ in range(64):
                    h.wfile.write(body(MIB))
            except OSError:
                pass
        it = self.h2()
        with self.plain(it) as c:
            got = self.granted(c, self.script("slow", play))
            c.say(got, body(32 * MIB))
            c.until(lambda: False, 1)
            self.assertGreater(len(got.to_send), 8 * MIB)  # the kernel's buffers are far less
            self.assertEqual(bytes(c.request(HIT).body), HIT_BODY)
            go.set()
            self.assertTrue(c.until(lambda: read[0] == 32 * MIB), "all of it comes")
            flood = self.begin(c, self.script("flood", floods))
            flood.lazy = True
            c.until(lambda: False, 1)
            self.assertEqual(len(flood.body), h2_client.WINDOW)
            c.reset(flood)
            c.send(h2_client.window(0, h2_client.WINDOW))
            c.credit += h2_client.WINDOW
            self.assertEqual(bytes(c.request(HIT).body), HIT_BODY)
        self.no_connection_is_left(it)


class Refusals(World):
    def test_what_an_origin_refuses(self):
        def answer(status, said, *lines):
            def play(h):
                h.send_response(status)
                for line in lines:
                    h.send_header(*line.split(": "))
                h.send_header("Content-Length", str(len(said)))
                h.end_headers()
                h.wfile.write(said)
            return play
        it = self.h2()
        with self.plain(it) as c:
            for status in (302, 400, 403, 426, 503):
                got = self.begin(c, self.script(f"s{status}", answer(status, b"no", "X-Why: because")))
                c.finish(got)
                self.assertEqual((got.status, got.field("x-why"), bytes(got.body)), (status, "because", b"no"))
                self.assertIn(got.reset, (None, NO_ERROR))
            got = self.begin(c, self.script("s200", answer(200, b"<html>")))
            c.finish(got)
            self.assertEqual(got.status, 502)  # a 200 would be the tunnel
            for name, more in (("wrong", {"accept": accept_of("other")}), ("none", {"accept": ""})):
                got = self.begin(c, self.script(name, lambda h, more=more: grants(h, **more)))
                c.finish(got)
                self.assertEqual(got.status, 502, name)
            twice = self.script("twice", lambda h: grants(h, "Sec-WebSocket-Accept: " + accept_of(h.headers["Sec-WebSocket-Key"])))
            got = self.begin(c, twice)
            c.finish(got)
            self.assertEqual(got.status, 502)
            self.assertEqual(bytes(c.request(HIT).body), HIT_BODY)

    def test_what_is_refused_here(self):
        it = self.h2()
        with self.plain(it) as c:
            for path, protocol in ((HIT, "websocket"), ("/script/x", "connect-udp"), ("/script/x", "webtransport")):
                got = self.begin(c, path, protocol=protocol)
                c.finish(got)
                self.assertEqual(got.status, 501, (path, protocol))
            self.assertEqual(self.asked("/script/x"), 0)
            for more in ({":method": "GET"}, {":scheme": None}, {":path": None}, {":authority": None}, {":path": "*"}):
                got = self.begin(c, "/script/x", **more)
                c.finish(got)
                self.assertTrue(got.reset == PROTOCOL_ERROR or got.status == 400, (more, got))
            got = self.begin(c, "/script/x", [("content-length", "5")])
            c.finish(got)
            self.assertEqual(got.reset, PROTOCOL_ERROR)
            self.assertEqual(self.asked("/script/x"), 0)
            self.assertEqual(bytes(c.request(HIT).body), HIT_BODY)

    def test_frames_that_no_tunnel_has(self):
        def play(h):
            grants(h)
            echoes(h)
        target = self.script("echo", play)
        it = self.h2()
        with self.plain(it) as c:
            got = self.granted(c, target)
            c.send(headers(got.id, encode([("x-trailer", "1")])))  # RFC 9113 8.5
            c.finish(got)
            self.assertEqual(got.reset, PROTOCOL_ERROR)
            got = self.granted(c, target)
            c.say(got, b"x", end=True)
            c.send(data(got.id, b"behind the end"))
            c.finish(got)
            self.assertEqual(got.reset, STREAM_CLOSED)
            self.assertEqual(bytes(c.request(HIT).body), HIT_BODY)
        self.no_connection_is_left(it)


class Ends(World):
    def test_a_client_that_resets(self):
        left = threading.Semaphore(0)

        def play(h):
            grants(h)
            try:
                while h.rfile.read1(65536):
                    pass
            except OSError:
                pass
            left.release()
        target = self.script("left", play)
        it = self.h2()
        for _, connect in self.both(it):
            with connect(it) as c:
                got, other = self.granted(c, target), self.granted(c, target)
                c.reset(got)
                self.assertTrue(c.ping())
                self.assertTrue(left.acquire(timeout=20))
                self.assertFalse(left.acquire(timeout=0.2))
                self.assertFalse(other.over)
            self.assertTrue(left.acquire(timeout=20))  # with its connection
        self.no_connection_is_left(it)

    def test_an_origin_that_resets(self):
        def play(h):
            grants(h)
            h.rfile.read1(10)
            h.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            h.connection.close()
        target = self.script("reset", play)
        it = self.h2()
        for _, connect in self.both(it):
            with connect(it) as c:
                got = self.granted(c, target)
                c.say(got, b"go", end=False)
                c.finish(got)
                self.assertEqual(got.reset, CANCEL)
                self.assertEqual(bytes(c.request(HIT).body), HIT_BODY)

    def test_a_silent_tunnel_ends_and_one_that_moves_does_not(self):
        def play(h):
            grants(h)
            echoes(h)
        target = self.script("echo", play)
        it = self.h2(", pipe_timeout: 700ms, idle_send_timeout: 300ms")
        with self.plain(it) as c:
            silent, moves = self.granted(c, target), self.granted(c, target)
            began = time.monotonic()
            while not silent.over:
                c.say(moves, b"x", end=False)
                c.turn(0.1)
                self.assertIsNone(c.goaway)
                self.assertLess(time.monotonic() - began, 20)
            self.assertEqual(silent.reset, CANCEL)
            self.assertGreaterEqual(time.monotonic() - began, 0.6)
            self.assertFalse(moves.over)
            self.assertEqual(self.counters(it)["sess.timeout"], 1)

    def test_a_drain_waits_for_it(self):
        def play(h):
            grants(h)
            echoes(h)
        it = self.h2()
        with self.plain(it) as c:
            got = self.granted(c, self.script("echo", play))
            it.terminate()
            self.assertTrue(c.until(lambda: c.goaway is not None))
            time.sleep(1.5)  # both GOAWAY
            c.say(got, body(MIB), end=True)
            self.assertTrue(c.until(lambda: got.ended and c.ended, 20), str(got))
            self.assertTrue(bytes(got.body) == body(MIB) and c.goaway == NO_ERROR)
        self.assertEqual(it.process.wait(20), 0)

    def test_a_log_line_and_counters(self):
        folder = tempfile.mkdtemp(prefix="tarn-h2.")
        self.addCleanup(shutil.rmtree, folder)
        log = os.path.join(folder, "access.log")

        def play(h):
            grants(h)
            echoes(h)
        target = self.script("echo", play)
        it = self.h2(f", access_log: '{log}', access_log_format: '$request|$status|$body_bytes_sent|$cache|$request_completion'")
        with it.connect() as s:  # the same by HTTP/1
            s.sendall(tarnd.request(target, "Upgrade: websocket", "Connection: upgrade", "Sec-WebSocket-Key: x"))
            s.recv(1000)
        tarnd.wait_until(lambda: os.path.exists(log) and os.path.getsize(log) > 0, "a line")
        with self.plain(it) as c:
            got = self.granted(c, target)
            before = self.counters(it)
            self.assertEqual((before["req.http2"], before["req.total"]), (1, 2))
            c.say(got, body(50000), end=True)
            c.finish(got)

        def lines():
            with open(log, encoding="utf-8") as f:
                return f.read().splitlines()
        tarnd.wait_until(lambda: len(lines()) == 2, "two lines")
        self.assertEqual(lines(), [f"GET {target} HTTP/{v}|101|0|pipe|OK" for v in ("1.1", "2.0")])

    def test_a_policy_decides(self):
        folder = tempfile.mkdtemp(prefix="tarn-h2.")
        self.addCleanup(shutil.rmtree, folder)
        site = os.path.join(folder, "site.vcl")
        with open(site, "w", encoding="ascii") as f:
            f.write("""vcl 4.1;
sub vcl_recv {
    if (req.url ~ "synth200") { return (synth(200)); }
    if (req.url ~ "synth403") { return (synth(403)); }
    if (req.url ~ "no-pipe") { return (pass); }
    if (req.method == "GET" && req.http.upgrade ~ "(?i)websocket") { return (pipe); }
}
sub vcl_pipe {
    set bereq.http.upgrade = req.http.upgrade;
    set bereq.http.connection = req.http.connection;
}
""")

        def play(h):
            grants(h)
            echoes(h)
        target = self.script("echo", play)
        it = h2_world.World.h2(self, config=f"vcl: {site}\n")
        with self.plain(it) as c:
            got = self.granted(c, target)
            c.say(got, body(1000))
            c.finish(got)
            self.assertEqual(bytes(got.body), body(1000))
            for path, status in (("/synth403", 403), ("/no-pipe", 501)):
                got = self.begin(c, path)
                c.finish(got)
                self.assertEqual(got.status, status)
            got = self.begin(c, "/synth200")
            c.finish(got)
            self.assertEqual((got.status, got.reset), (None, CANCEL))
            self.assertEqual(bytes(c.request(HIT).body), HIT_BODY)


NODE = """
const http2 = require('http2'), fs = require('fs'), crypto = require('crypto');
const [url, path, ca] = process.argv.slice(1);
const session = http2.connect(url, ca ? { ca: fs.readFileSync(ca), servername: 'a.test' } : {});
session.on('error', e => { console.log('session', e); process.exit(1); });
session.on('remoteSettings', settings => {
  if (!settings.enableConnectProtocol) { console.log('not offered'); process.exit(1); }
  const r = session.request({ ':method': 'CONNECT', ':protocol': 'websocket', ':path': path, ':authority': 'a.test',
                              'sec-websocket-version': '13' });
  const sent = crypto.randomBytes(1 << 20), came = [];
  r.on('response', h => { if (h[':status'] != 200) { console.log(h); process.exit(1); } r.end(sent); });
  r.on('data', d => came.push(d));
  r.on('error', e => { console.log(e); process.exit(1); });
  r.on('end', () => { console.log(Buffer.concat(came).equals(sent) ? 'same' : 'other'); session.close(); });
});
"""


class Echo:
    """An origin by `websockets`: what comes goes back, message by message."""

    def __init__(self, websockets):
        self.websockets, self.port, self.up = websockets, None, threading.Event()
        threading.Thread(target=lambda: asyncio.run(self.serve()), daemon=True).start()
        self.up.wait(20)

    @staticmethod
    async def echo(ws, _path=None):
        async for message in ws:
            await ws.send(message)

    async def serve(self):
        async with self.websockets.serve(self.echo, "127.0.0.1", 0, max_size=None, subprotocols=["chat"]) as server:
            self.port = list(server.sockets)[0].getsockname()[1]
            self.up.set()
            await asyncio.Future()


class H2Client:
    """h2 frames, wsproto speaks, and neither is ours."""

    def __init__(self, sock, h2, wsproto, path):
        self.sock, self.h2 = sock, h2
        self.conn = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True, header_encoding="utf-8"))
        self.conn.initiate_connection()
        self.status, self.fields, self.offered, self.ended, self.messages, self.part = None, {}, False, False, [], []
        self.ws, self.wsproto, self.closed = None, wsproto, None
        self.flush()
        self.until(lambda: self.offered)
        self.stream = self.conn.get_next_available_stream_id()
        self.conn.send_headers(self.stream, [
            (":method", "CONNECT"), (":protocol", "websocket"), (":scheme", "https"), (":path", path), (":authority", "a.test"),
            ("sec-websocket-version", "13"), ("sec-websocket-protocol", "chat")])
        self.flush()
        self.until(lambda: self.status is not None)
        self.ws = wsproto.connection.Connection(wsproto.ConnectionType.CLIENT)

    def flush(self):
        self.sock.sendall(self.conn.data_to_send())

    def until(self, holds):
        while not holds():
            came = self.sock.recv(65536)
            if not came:
                raise AssertionError("the connection has ended")
            for e in self.conn.receive_data(came):
                self.on(e)
            self.flush()

    def on(self, e):
        events, ws = self.h2.events, self.wsproto.events
        if isinstance(e, events.RemoteSettingsChanged):
            self.offered = self.conn.remote_settings.enable_connect_protocol == 1
        elif isinstance(e, events.ResponseReceived):
            self.fields = dict(e.headers)
            self.status = self.fields[":status"]
        elif isinstance(e, events.DataReceived):
            self.conn.acknowledge_received_data(e.flow_controlled_length, e.stream_id)
            if e.data:  # END_STREAM may stand on an empty frame
                self.ws.receive_data(e.data)
            for said in self.ws.events():
                if isinstance(said, ws.BytesMessage):
                    self.part.append(bytes(said.data))
                    if said.message_finished:
                        self.messages.append(b"".join(self.part))
                        self.part.clear()
                elif isinstance(said, ws.CloseConnection):
                    self.closed = said.code
        elif isinstance(e, events.StreamEnded):
            self.ended = True
        elif isinstance(e, events.StreamReset):
            raise AssertionError(f"a reset: {e}")

    def send(self, event):
        octets = self.ws.send(event)
        while octets:
            room = min(self.conn.local_flow_control_window(self.stream), self.conn.max_outbound_frame_size, len(octets))
            if room == 0:
                self.until(lambda: self.conn.local_flow_control_window(self.stream) > 0)
                continue
            self.conn.send_data(self.stream, octets[:room])
            octets = octets[room:]
            self.flush()


class Others(World):
    run_it = h2_clients.Clients.run_it

    def test_node(self):
        def play(h):
            grants(h)
            echoes(h)
        target = self.script("node", play)
        node = h2_clients.program("node", "nodejs")
        it = self.h2()
        for base, *more in ((f"http://127.0.0.1:{it.port}",), (f"https://127.0.0.1:{it.secure_port}", pki().ca.pem)):
            self.assertEqual(self.run_it(node, "-e", NODE, "--", base, target, *more).strip(), b"same")

    def test_wsproto_by_h2_to_websockets(self):
        here = os.path.dirname(os.path.abspath(__file__))  # our tests have an h2.py
        path, sys.path = sys.path, [p for p in sys.path if os.path.abspath(p) != here]
        self.addCleanup(setattr, sys, "path", path)
        try:
            import h2.config
            import h2.connection
            import h2.events
            import websockets
            import wsproto
            import wsproto.connection
        except ImportError as e:
            self.skipTest(str(e))
        echo = Echo(websockets)
        it = self.start(f"""backends:
  default: {{ address: '{self.origin.address}' }}
  ws: {{ address: 127.0.0.1:{echo.port} }}
routes:
  - {{ path: /ws, pipe: on, backend: ws }}
  - {{ path: /, backend: default }}
""", "    h2c: on\n")
        with it.connect() as s:
            c = H2Client(s, h2, wsproto, "/ws")
            self.assertEqual((c.status, c.fields["sec-websocket-protocol"]), ("200", "chat"))
            for size in (0, 1, 125, 126, 65536, MIB):
                c.send(wsproto.events.BytesMessage(body(size)))
                c.until(lambda: c.messages)
                self.assertTrue(c.messages.pop() == body(size), size)
            c.send(wsproto.events.Ping(b"hello"))
            c.send(wsproto.events.CloseConnection(1000))
            c.until(lambda: c.ended)
            self.assertEqual(c.closed, 1000)


if __name__ == "__main__":
    h2_world.main(None, __doc__, verbosity=2)
