"""torture_h2.py -- the clients of torture.py that speak HTTP/2: many streams of a connection, by TLS and without.

What an answer may be is torture_clients.Reading's matter; here are the streams that it reads from.  The client below
them (h2_client.py) reads strictly: frames, windows, field blocks.
"""
import socket
import ssl
import time

import h2_client
from h2_client import CANCEL, INITIAL_WINDOW_SIZE, MAX_CONCURRENT_STREAMS, NO_ERROR, REFUSED_STREAM, WINDOW
from torture_clients import LARGE, TAG, Ask, Cut, Gone, Part, Reading, Wrong
from torture_world import HOST, body_of

STREAMS = 100  # that a connection may have
SEND_TIMEOUT_S = 55  # nearly idle_send_timeout
UPLOADS = ("posted", "posted", "plain", "vary", "chunks", "absent")


class Body:
    """What has come of a body, and has not been looked at; its length is of all that came."""

    def __init__(self):
        self.total, self.kept = 0, bytearray()

    def __iadd__(self, octets):
        self.total += len(octets)
        self.kept += octets
        return self

    def __len__(self):
        return self.total

    def take(self):
        kept, self.kept = self.kept, bytearray()
        return kept


class Client(h2_client.Client):
    lazy = False

    def open(self, method="GET"):
        it = super().open(method)
        it.body, it.lazy = Body(), self.lazy
        it.opened = time.monotonic()  # its window, the last time
        return it

    def over(self, it):
        """No more of it comes."""
        return it.over or self.ended or (self.goaways and it.id > self.goaways[-1][0])


class StreamWire:
    """What Reading reads from: one stream, while the others go on."""

    def __init__(self, client, it, patience, pause=None, grant=None):
        self.client, self.it, self.patience, self.pause, self.grant = client, it, patience, pause, grant

    def wait(self, holds):
        if not self.client.until(lambda: holds() or self.client.over(self.it), self.patience):
            raise TimeoutError

    def why(self):
        c, it = self.client, self.it
        if it.reset is not None:
            return f"reset {h2_client.error_name(it.reset)}"
        return f"the connection has ended, GOAWAY {c.goaways}"

    def head(self):
        c, it = self.client, self.it
        self.wait(lambda: it.status is not None)
        if it.status is None:
            goaway = c.goaways[-1] if c.goaways else None
            if it.reset == REFUSED_STREAM or goaway is not None and goaway[1] == NO_ERROR and it.id > goaway[0]:
                raise Gone
            raise Wrong(f"no head: {self.why()}")
        return it.status, dict(it.fields)

    def pieces(self, method, status, _fields):
        it = self.it
        while True:
            if self.pause is not None:
                self.pause()
            piece = it.body.take()
            if piece:
                yield piece
                if self.grant is not None:
                    self.grant(it)
            elif it.ended:
                break
            elif it.reset == CANCEL and time.monotonic() - it.opened > SEND_TIMEOUT_S:
                raise Gone  # our window stood at 0 as long as tarnd waits for a client
            elif self.client.over(it):
                raise Cut(f"behind {len(it.body)} bytes: {self.why()}")
            else:
                self.wait(lambda: it.body.kept or it.ended)
        if (method == "HEAD" or status in (204, 304)) and len(it.body):
            raise Wrong("a body that must not be")


class Part2(Part):
    """One connection, and its streams."""

    context = None
    lazy = False
    settings = {}

    def connect(self):
        c = self.wire
        if c is not None and not c.ended and not c.deaf and not c.goaways:
            return
        if c is not None:
            self.count["h2 goaway"] += bool(c.goaways)
            self.leave()
        secure = self.rng.random() < 0.5
        s = socket.create_connection(("127.0.0.1", self.world.get("secure" if secure else "port")), self.patience)
        if secure:
            s = self.context.wrap_socket(s, server_hostname=HOST, suppress_ragged_eofs=True)
            if s.selected_alpn_protocol() != "h2":
                raise Wrong(f"ALPN chose {s.selected_alpn_protocol()}")
        self.wire = Client(s, ours=self.settings, authority=HOST)
        self.wire.lazy = self.lazy
        if not self.wire.until(lambda: self.wire.theirs is not None or self.wire.ended, self.patience):
            raise TimeoutError
        if self.wire.theirs is not None and self.wire.theirs.get(MAX_CONCURRENT_STREAMS) != STREAMS:
            raise Wrong(f"SETTINGS {self.wire.theirs}")
        self.count["h2 connections by TLS" if secure else "h2 connections"] += 1

    def leave(self, reset=False):
        c, self.wire = self.wire, None
        if c is None:
            return
        if not reset and self.rng.random() < 0.3:
            c.send(h2_client.goaway())
            c.turn()
        c.sock.close()

    def begin(self, ask, body=None):
        """Its stream, or None: the connection takes none any more."""
        c = self.wire
        if c.ended or c.goaways:
            return None
        ask.scheme = c.scheme
        ask.text()
        fields = [(n.lower(), v) for n, v in (line.split(": ", 1) for line in ask.lines[1:])]
        self.count["streams"] += 1
        return c.begin(ask.r.target, fields, body, ask.method)

    def finish(self, ask, it):
        self.reading = Reading(ask, self.count)
        try:
            self.reading.read(StreamWire(self.wire, it, self.patience, self.rest if self.lazy else None,
                                         self.grant if self.lazy else None))
        except Cut as e:
            self.note_cut(e)
            return
        self.count["requests"] += 1
        self.count["h2 requests"] += 1
        tag = self.reading.fields.get("etag", "")
        if TAG.fullmatch(tag):
            self.seen[ask.r.number, ask.variant] = tag

    def cancel(self, it):
        """At some time of its life."""
        for _ in range(self.rng.choice((0, 0, 1, 3))):
            self.wire.turn(0.01)
        if not it.over:
            self.wire.reset(it)
            self.count["h2 cancelled"] += 1

    def rest(self):
        pass

    def grant(self, it):
        pass


class Streams(Part2):
    """Up to 60 at a time, read in any order; some are cancelled, some upload."""

    def some_ask(self):
        what = self.rng.random()
        if what < 0.05:
            return self.upload()
        if what < 0.08:
            ask = Ask(self.world, self.some_resource(), self.rng, "PURGE")
            ask.purges = self.world.change(ask.r)
            return ask, None
        kinds = LARGE if what < 0.085 else [k for k in self.world.by_kind if k not in LARGE]
        return self.make(self.some_resource(kinds)), None

    def upload(self):
        r, rng = self.some_resource(UPLOADS), self.rng
        size, nonce = int(rng.choice((0, 10, 2000, 200000)) * rng.random()), str(rng.getrandbits(40))
        lines = [f"Content-Length: {size}"] if rng.random() < 0.7 else []
        ask = Ask(self.world, r, rng, "POST", [*lines, f"X-Nonce: {nonce}", f"X-Size: {size}"])
        return ask, bytes(body_of(r.target, "upload", nonce).piece(0, size))

    def turn(self):
        self.connect()
        self.asks = []
        for _ in range(self.rng.choice((1, 2, 4, 8, 20, 60))):
            ask, body = self.some_ask()
            it = self.begin(ask, body)
            if it is None:
                break
            self.asks.append(ask)
            ask.stream, ask.lost = it, self.rng.random() < 0.08 and ask.method not in ("POST", "PURGE")
        order = list(self.asks)
        self.rng.shuffle(order)
        for ask in order:
            if ask.lost:
                self.cancel(ask.stream)
            else:
                self.finish(ask, ask.stream)
        self.wire.streams = {i: s for i, s in self.wire.streams.items() if not s.ended}
        if self.rng.random() < 0.1:
            self.world.pause(self.rng.choice((0.01, 1)))
            self.wire.turn()
        if self.rng.random() < 0.05:
            self.leave()


class Sippers(Part2):
    """Small windows that open late, over several streams, also of what has left the cache meanwhile."""

    lazy = True
    settings = {INITIAL_WINDOW_SIZE: 5000}

    def rest(self):
        if self.world.stopped():
            raise Gone
        time.sleep(self.rng.choice((0, 0, 0, 0.01, 0.05, self.rng.uniform(0, 1))))

    def grant(self, it):
        if not it.over:
            self.wire.allow(it, self.rng.choice((1100, 5000, 60000)))
            it.opened = time.monotonic()

    def turn(self):
        self.connect()
        few = ("plain", "chunks", "vary", "mine", "slow", "breaks")
        self.asks = [self.make(self.some_resource(LARGE if self.rng.random() < 0.2 else few))
                     for _ in range(self.rng.choice((1, 2, WINDOW // 5000 // 2)))]
        streams = [self.begin(ask) for ask in self.asks]
        for ask, it in zip(self.asks, streams):
            if it is None:
                raise Gone
            if self.rng.random() < 0.1:
                self.cancel(it)
            else:
                self.finish(ask, it)
        self.leave(reset=self.rng.random() < 0.2)


class Quitters(Part2):
    """Leave while streams are under way."""

    def turn(self):
        self.connect()
        self.asks = [self.make(self.some_resource()) for _ in range(self.rng.choice((1, 5, 30)))]
        for ask in self.asks:
            self.begin(ask)
        until = time.monotonic() + self.rng.choice((0, 0.01, 0.1, 0.5))
        while time.monotonic() < until:
            self.wire.turn(0.02)
        self.count["left"] += 1
        self.leave(reset=self.rng.random() < 0.5)


def secure_clients(ca):
    """By a certificate for HOST that `ca` has signed."""
    Part2.context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    Part2.context.load_verify_locations(ca)
    Part2.context.set_alpn_protocols(["h2", "http/1.1"])


GROUPS = (("h2-streams", Streams, 5), ("h2-sippers", Sippers, 8), ("h2-quitters", Quitters, 2))
