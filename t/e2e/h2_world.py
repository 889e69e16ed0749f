"""h2_world.py -- what tests of HTTP/2 share: an origin that takes bodies, a tarnd with listeners for it, clients.

Listeners: `plain` and `secure` speak HTTP/2 (prior knowledge; ALPN) beside HTTP/1, `old` HTTP/1 only.
"""
import hashlib
import os
import sys
import urllib.parse

import h2_client
import origin
import tarnd
import tls_world
from tls_world import client_context, pki

CONFIG = """backends: {{ default: {{ address: '{origin}' }} }}
parameters: {{ timeout_idle: 60s {more} }}
"""
KEPT = 512 * 1024  # what a worker keeps ready: its scratch, and the field blocks that it remembers
HIT = "/body?n=1000&framing=length"
HIT_BODY = origin.body(1000)


class Handler(origin.Handler):
    """/echo?framing=length|chunked answers with the body that came; /sum with its length and SHA-256."""
    wbufsize = 65536
    disable_nagle_algorithm = True

    def do_POST(self):
        with self.server.lock:
            self.server.requests[self.path] += 1
        url = urllib.parse.urlsplit(self.path)
        if url.path in self.server.scripts:
            self.server.scripts[url.path](self)
            return
        came = self.whole_body()
        if url.path == "/sum":
            came = b"%d %s" % (len(came), hashlib.sha256(came).hexdigest().encode())
        self.start(dict(urllib.parse.parse_qsl(url.query)).get("framing", "length"), len(came), "no-store")
        self.piece(came)
        self.end()

    do_PUT = do_POST

    def handle_expect_100(self):
        super().handle_expect_100()
        self.wfile.flush()
        return True

    def line(self):
        it = self.rfile.readline()
        if not it:
            raise ConnectionResetError("the proxy has left")
        return it

    def whole_body(self):
        if "chunked" not in self.headers.get("Transfer-Encoding", ""):
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        came = b""
        while size := int(self.line().split(b";")[0], 16):
            came += self.rfile.read(size)
            self.line()
        self.trailers = []
        while line := self.line().rstrip(b"\r\n"):
            self.trailers.append(line)
        return came


def sanitized(program):
    with open(program, "rb") as f:
        text = f.read()
    return b"__asan_init" in text or b"__tsan_init" in text


class World(tls_world.World):
    origin = None

    def h2(self, more="", config="", listener="", secure="", h2c="on", **others):
        """`more`: parameters; `listener`, `secure`: lines of the first and of the TLS listener."""
        ports = tarnd.free_port(), tarnd.free_port()
        it = self.start(
            CONFIG.format(origin=self.origin.address, more=more) + config,
            f"    h2c: {h2c}\n{listener}"
            f"  - address: 127.0.0.1:{ports[0]}\n    tls: {{ certificates: {pki().certs} }}\n    http2: on\n{secure}"
            f"  - address: 127.0.0.1:{ports[1]}\n", **others)
        it.secure_port, it.old_port = ports
        return it

    @staticmethod
    def plain(it, **more):
        return h2_client.prior_knowledge(it.port, **more)

    @staticmethod
    def secure(it, **more):
        return h2_client.by_tls(it.secure_port, client_context(alpn=["h2", "http/1.1"]), **more)

    def both(self, it):
        """(name, connect) of each way."""
        return (("plain", self.plain), ("TLS", self.secure))

    def asked(self, target):
        with self.origin.lock:
            return self.origin.requests[target]

    def hit(self, it):
        """One, which is in the cache from here on."""
        with self.plain(it) as c:
            c.request(HIT)
            self.assertEqual(bytes(c.request(HIT).body), HIT_BODY)

    @staticmethod
    def traffic(it):
        parts = it.admin("/v1/memory")["total"]["parts"]["traffic"]["parts"]
        return {k: parts[k] for k in ("connections", "incoming", "tls", "requests")}

    def comes_back(self, it, base):
        """Memory of connections and requests is what it was, but for what is kept ready."""
        def there():
            now = self.traffic(it)
            return all(now[k] <= base[k] + KEPT for k in now)
        try:
            tarnd.wait_until(there, "memory comes back", 20)
        except AssertionError:
            self.fail(f"before {base}, now {self.traffic(it)}")

    def no_connection_is_left(self, it):
        def none():
            now = self.counters(it)
            return now["sess.accepted"] == now["sess.closed"]
        tarnd.wait_until(none, "each connection ends", 20)


def main(usage, doc, kind=Handler, verbosity=1):
    """Common to the tests: the first argument is tarnd."""
    import unittest
    if len(sys.argv) < 2:
        sys.exit(usage or doc)
    World.program = os.path.abspath(sys.argv.pop(1))
    World.origin = origin.Origin(kind)
    unittest.main(verbosity=verbosity, warnings="ignore")
