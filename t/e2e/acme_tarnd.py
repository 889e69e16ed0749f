#!/usr/bin/env python3
"""acme_tarnd.py TARN_ACME TARND TARNCTL [TEST...] -- the first certificate: tarnd, tarn-acme and a CA (Pebble) together.

tarnd starts with `acme` and no certificate; the CA asks tarnd; the hook's reload reads what has come.  Skipped (77)
where there is no Go.
"""
import http.client
import socket
import ssl
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True
import acme_pebble
import acme_world
import tarnd

NAME = "a.test"
CONFIG = """    redirect: https
  - {{ address: "127.0.0.1:{tls}", tls: {{ acme: {{ names: [{name}], state: {state} }} }} }}
admin: {{ address: "unix:{{dir}}/admin.sock" }}
storage: {{ main: {{ size: 32MiB }} }}
backends: {{ o: {{ address: "127.0.0.1:9" }} }}
"""
tarn_acme = program = ctl = programs = None


class First(acme_world.World):
    def setUp(self):
        super().setUp()
        self.tls = acme_world.free_port()
        self.tarnd = tarnd.Tarnd(program, CONFIG.format(tls=self.tls, state=self.state, name=NAME),
                                 stderr=subprocess.DEVNULL)
        self.addCleanup(lambda: self.assertEqual(self.tarnd.close(), 0))
        pebble = acme_pebble.Pebble(programs, ports=(self.tarnd.port, self.tls))
        self.addCleanup(pebble.close)
        self.program, self.directory, self.ca = tarn_acme, pebble.directory, pebble.ca

    def served(self):
        """The serial number of the certificate."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with socket.create_connection(("127.0.0.1", self.tls), timeout=tarnd.PATIENCE_S) as s:
            with context.wrap_socket(s, server_hostname=NAME) as t:
                pem = ssl.DER_cert_to_PEM_cert(t.getpeercert(binary_form=True))
        return acme_world.openssl("x509", "-noout", "-serial", input=pem.encode())

    def redirects(self):
        conn = http.client.HTTPConnection("127.0.0.1", self.tarnd.port, timeout=tarnd.PATIENCE_S)
        conn.request("GET", "/", headers={"Host": NAME})
        answer = conn.getresponse()
        conn.close()
        return answer.status == 301 and answer.headers["Location"] == f"https://{NAME}/"

    def first(self, challenge):
        self.assertTrue(self.redirects())
        with self.assertRaises(ssl.SSLError):
            self.served()
        self.run_("--challenge", challenge, "--hook", f"{ctl} --admin unix:{self.tarnd.dir}/admin.sock reload", NAME)
        file = f"{self.state}/certs/{NAME}.pem"
        self.assertEqual(self.served(), acme_world.openssl("x509", "-noout", "-serial", "-in", file))
        self.assertTrue(self.redirects())

    def test_by_http_01(self):
        self.first("http-01")

    def test_by_tls_alpn_01(self):
        self.first("tls-alpn-01")


def main():
    global tarn_acme, program, ctl, programs
    tarn_acme, program, ctl, *tests = sys.argv[1:]
    programs = acme_pebble.programs()
    unittest.main(argv=[sys.argv[0], *tests], verbosity=2)


main()
