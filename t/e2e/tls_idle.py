#!/usr/bin/env python3
"""tls_idle.py TARND [TEST...] -- connections over TLS without traffic: they go on after any silence, and with AWS-LC they
are suspended meanwhile and cost little.

All of them are opened first, and the test waits once.
"""
import os
import subprocess
import sys
import time
import unittest

sys.dont_write_bytecode = True
import h2_client
import tarnd
import tls_libssl
from origin import Origin
from tls_world import TLS12, TLS13, World, client_context, pki, read_answer, read_whole

CONFIG = """backends: {{ default: {{ address: '{origin}' }} }}
storage: {{ main: {{ engine: malloc, size: 256MiB }} }}
parameters: {{ timeout_idle: {idle} }}
"""
HIT = "/body?n=1000&framing=length"
LARGE = "/body?n=300000&framing=length"
SILENCE_S = 4  # a connection is suspended after 1 to 2 s; the default of timeout_idle is 5 s
CONNS = 300
COST_MAX = 2500  # bytes of a suspended one, all of the process's
origin = None


def request(target, *lines):
    return tarnd.request(target, *lines, host="a.test")


class Idle(World):
    def start_one(self, idle="60s", tls="", more=""):
        return self.start(CONFIG.format(origin=origin.address, idle=idle) + more,
                          f"    tls: {{ certificates: {pki().certs}{tls} }}\n")

    def suspends(self):
        said = subprocess.run([self.program, "-V"], capture_output=True, check=True).stdout
        return b"AWS-LC" in said

    def ask(self, s, target=HIT):
        s.sendall(request(target))
        answer = read_answer(s.recv)
        self.assertEqual((answer.status, len(answer.body)), (200, int(answer.fields["content-length"])))
        return answer

    def test_they_go_on_with_each_version_and_cipher(self):
        it = self.start_one(tls=f", client_auth: optional, client_ca: {pki().ca.pem}")
        contexts = [client_context(least=TLS13), client_context(least=TLS13, certificate=pki().me)]
        for aead in ("AES128-GCM-SHA256", "AES256-GCM-SHA384", "CHACHA20-POLY1305"):
            for certificate in (None, pki().me):
                contexts.append(client_context(most=TLS12, certificate=certificate))
                contexts[-1].set_ciphers("ECDHE-ECDSA-" + aead)
        conns = [it.secure(context) for context in contexts]
        h2 = [h2_client.Client(it.secure(client_context(least=v, most=v, alpn=["h2"]))) for v in (TLS12, TLS13)]
        keys = tls_libssl.Client(it.connect()).handshake() if tls_libssl.lib else None
        for s in conns:
            self.ask(s)
        for c in h2:
            self.assertEqual(c.request(HIT).status, 200)
        for silence in (SILENCE_S, SILENCE_S + 5):  # longer each time
            time.sleep(silence)
            for s in conns:
                self.ask(s)
                self.ask(s, LARGE)
            for c in h2:
                self.assertEqual((c.request(HIT).status, len(c.request(LARGE).body)), (200, 300000))
            if keys:  # RFC 8446 4.6.3: both sides' keys are new behind it
                keys.key_update(ask=True)
                keys.write(request(HIT))
                keys.flush()
                self.assertIn(b" 200 ", keys.read()[:20])
        for s in conns:
            s.close()

    def test_the_end_of_a_suspended_one_is_orderly(self):
        it = self.start_one(idle=f"{SILENCE_S}s")
        s = it.secure(client_context())
        self.ask(s)
        self.assertEqual(read_whole(s), b"")  # ssl.SSLEOFError: without close_notify
        s.close()

    def test_they_cost_little(self):
        it = self.start_one()
        tarnd.raise_file_limit(CONNS * 3)
        held, sizes = [], []
        for _ in range(2):
            for _ in range(CONNS):
                held.append(it.secure(client_context()))
                self.ask(held[-1])
            time.sleep(SILENCE_S)
            sizes.append(it.memory())
        each = (sizes[1] - sizes[0]) / CONNS
        print(f"{each:.0f} bytes each, of {CONNS}", flush=True)
        if self.suspends():
            self.assertLess(each, COST_MAX)
        for s in held:
            self.ask(s)
            s.close()


def main():
    global origin
    if len(sys.argv) < 2:
        sys.exit("usage: tls_idle.py TARND [TEST...]")
    World.program = os.path.abspath(sys.argv.pop(1))
    origin = Origin()
    unittest.main(verbosity=2, warnings="ignore")


if __name__ == "__main__":
    main()
