#!/usr/bin/env python3
"""tls_nomem.py TARND PRELOAD [TEST...] -- each allocation of OpenSSL's fails once, in one tarnd.

PRELOAD (fault_preload.c) stands in front of the functions that daemon/tls/tls_memory.c gives OpenSSL: the first
allocation of a handshake fails, then the second of another one, and so on until one passes whole.  Whoever is met
loses that connection and no more: it ends, or the answer is right; the next one is served; of OpenSSL's blocks none is
left.  Debug builds assert that no error is left in the thread's queue (tls_begin), a sanitizer watches the rest.
"""
import os
import random
import socket
import ssl
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True
import tarnd
from faults import Faults
from origin import Origin, body
from tls_origin import Secure, TlsOrigin
from tls_world import TLS12, TLS13, World, client_context, pki, read_answer

HIT = "/body?n=20000&framing=length"
PASS = "/body?n=20000&framing=length&cc=no-store"
SECONDS = 5  # in which a connection ends or is answered
# What verifies a certificate tries thousands that it can do without: of those behind ALL only each STRIDE-th, from
# another one each time.  TLS_NOMEM_STRIDE=1 takes all, in three minutes; without a sanitizer that watches few will do.
STRIDE = int(os.environ.get("TLS_NOMEM_STRIDE", "5"))
ALL = 4000 // STRIDE
WHOLE = 8  # of so many handshakes one is left alone, to be served; the next N is a proof, too
# OpenSSL keeps the texts of the last errors of each thread (ERR_NUM_ERRORS, 16), and each loop has one.
KEPT_BLOCKS = 100
CONFIG = """backends: {{ default: {{ address: '{origin}'{keys} }} }}
parameters: {{ timeout_idle: 60s, log_rate: 100000 }}
"""
preload = None


class NoMemory(World):
    def begin(self, config, listener=""):
        """A tarnd with faults, that has been asked for nothing yet."""
        f = tempfile.NamedTemporaryFile(prefix="tarn-faults.")
        self.addCleanup(f.close)
        self.faults = Faults(f.name)
        return self.start(config, listener, environment=self.faults.environment(preload))

    def live(self):
        return self.faults.get("tls_live")

    def settles(self, most, seconds=0.1):
        """Blocks of OpenSSL's, when those of connections that have ended are back; they are at most `most`."""
        until = time.monotonic() + seconds
        while self.live() > most and time.monotonic() < until:
            time.sleep(0.001)
        return self.live()

    def every(self, it, damaged, whole, row=1):
        """damaged() with each allocation failing once, and whole() in between; damaged() says whether it passed."""
        for _ in range(3):
            whole()
        time.sleep(0.1)
        first = least = self.live()
        leaks, lost, tried, n, last = [], 0, 0, 0, False
        began = time.monotonic()
        while not last:
            n += 1 if n < ALL else random.randrange(1, STRIDE + 1) if n == ALL else STRIDE
            tried += 1
            failed = self.faults.get("tls_failed")
            self.faults.set(tls_row=row, tls_in=n)
            with self.subTest(n=n):
                passed = damaged()
                last = self.faults.get("tls_failed") == failed
                self.faults.set(tls_in=0)
                self.assertIsNone(it.process.poll(), "tarnd died")
                self.assertTrue(passed or not last, "it fails when no allocation does")
                lost += not passed
                if tried % WHOLE == 0 or last:
                    whole()
            now = self.settles(least)
            if now > least:
                leaks.append((n, now - least))
                least = now
            self.assertLess(n, 20000)
        self.settles(first, 1)
        print(f"{self.id().rpartition('.')[2]}: {n - 1} allocations, {tried} tried, {lost} lost, blocks {first}, then {self.live()}: "
              f"{leaks}; {time.monotonic() - began:.1f} s", flush=True)
        self.assertGreater(lost, tried / 10)
        self.assertLess(self.live() - first, KEPT_BLOCKS, leaks)


class Listener(NoMemory):
    """Handshakes of clients."""

    def tls(self, more=""):
        return self.begin(CONFIG.format(origin=origin.address, keys=""),
                          f"    tls: {{ certificates: {pki().certs}{more} }}\n")

    def connect(self, it, context, session=None):
        """An answer over a connection of its own, and the session."""
        raw = it.connect(timeout=SECONDS)
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with context.wrap_socket(raw, server_hostname="a.test", session=session, suppress_ragged_eofs=False) as s:
            s.sendall(tarnd.request(HIT, "Connection: close", host="a.test"))
            return read_answer(s.recv), s.session, s.session_reused

    def damaged(self, it, context, session=None):
        try:
            answer, _, _ = self.connect(it, context, session)
        except socket.timeout:
            raise  # stuck
        except (ConnectionError, ssl.SSLError):
            return False
        if answer.data == b"":
            return False
        self.right(answer)
        return answer.status == 200 and len(answer.body) == 20000

    def right(self, answer):
        """Or an error of tarnd's own, or cut."""
        self.assertIn(answer.status, (200, 500, 502, 503), answer.data[:200])
        if answer.status == 200:
            self.assertEqual(answer.body, body(20000)[:len(answer.body)])

    def run_each(self, context, resumed=False, more="", row=1):
        it = self.tls(more)
        _, session, _ = self.connect(it, context)
        session = session if resumed else None

        def whole():
            answer, _, reused = self.connect(it, context, session)
            self.assertEqual(answer.body, body(20000))
            self.assertEqual(reused, resumed)

        self.every(it, lambda: self.damaged(it, context, session), whole, row)
        return it

    def test_full_tls13(self):
        self.run_each(client_context(least=TLS13))

    def test_full_tls12(self):
        self.run_each(client_context(most=TLS12))

    def test_resumed_tls13(self):
        self.run_each(client_context(least=TLS13), resumed=True)

    def test_resumed_tls12(self):
        self.run_each(client_context(most=TLS12), resumed=True)

    def test_client_certificate_tls13(self):
        auth = f", client_auth: required, client_ca: {pki().ca.pem}"
        self.run_each(client_context(least=TLS13, certificate=pki().me), more=auth)

    def test_client_certificate_tls12(self):
        auth = f", client_auth: required, client_ca: {pki().ca.pem}"
        self.run_each(client_context(most=TLS12, certificate=pki().me), more=auth)

    def test_client_certificate_resumed(self):
        auth = f", client_auth: required, client_ca: {pki().ca.pem}"
        self.run_each(client_context(least=TLS13, certificate=pki().me), more=auth, resumed=True)

    def test_a_row_of_them(self):
        self.run_each(client_context(least=TLS13), row=20)


class Quick(Secure):
    disable_nagle_algorithm = True


class Forgetful(TlsOrigin):
    """Resumes no session."""

    def secure(self, handler):
        c = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        c.load_cert_chain(*self.pair)
        c.maximum_version = self.context.maximum_version
        self.context = c  # whoever takes it is its first, or nearly
        super().secure(handler)


class Backend(NoMemory):
    """Handshakes with an origin: a request gets its 502 or 503."""

    def run_each(self, version, resumed):
        pair = pki().leaf(f"origin-{version}-{resumed}", ["DNS:localhost"])
        o = (TlsOrigin if resumed else Forgetful)(pair, version=version, handler=Quick)
        o.pair = pair
        self.addCleanup(o.close)
        it = self.begin(CONFIG.format(origin=f"https://localhost:{o.port}",
                                      keys=f", tls: {{ ca: {pki().ca.pem} }}, max_idle: 0"))

        def damaged():
            answer = it.ask(PASS)
            self.assertIn(answer.status, (200, 502, 503), answer.data[:200])
            if answer.status == 200:
                self.assertEqual(answer.body, body(20000)[:len(answer.body)])
            return answer.status == 200 and len(answer.body) == 20000

        def whole():
            answer = it.ask(PASS)
            self.assertEqual(answer.status, 200, self.said(it)[-500:])
            self.assertEqual(answer.body, body(20000))

        self.every(it, damaged, whole)
        self.assertEqual(any(s["reused"] for s in o.seen), resumed)

    def test_full_tls13(self):
        self.run_each(TLS13, False)

    def test_full_tls12(self):
        self.run_each(TLS12, False)

    def test_resumed_tls13(self):
        self.run_each(TLS13, True)

    def test_resumed_tls12(self):
        self.run_each(TLS12, True)


origin = None


def main():
    global preload, origin
    if len(sys.argv) < 3:
        sys.exit("usage: tls_nomem.py TARND PRELOAD [TEST...]")
    NoMemory.program, preload = (os.path.abspath(sys.argv.pop(1)) for _ in range(2))
    origin = Origin()
    unittest.main(verbosity=2, warnings="ignore")


if __name__ == "__main__":
    main()
