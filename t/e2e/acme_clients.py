#!/usr/bin/env python3
"""acme_clients.py TARND TARNCTL [TEST...] -- other ACME clients beside tarnd: certbot and lego, against Pebble.

Each leaves its proofs in the webroot of the configuration, from where tarnd answers the CA, keeps its certificates as it
always does, and has tarnd read them by its hook.  Skipped (77) where there is no Go, or neither client.
"""
import json
import os
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
import acme_pebble
import acme_world
import tarnd

CONFIG = """    redirect: https
  - {{ address: "127.0.0.1:{http}" }}
  - address: "127.0.0.1:{tls}"
    tls: {{ certificates: {certificates}, acme: {{ webroot: {webroot} }} }}
admin: {{ address: "unix:{{dir}}/admin.sock" }}
storage: {{ main: {{ size: 32MiB }} }}
backends: {{ o: {{ address: "127.0.0.1:9" }} }}
"""
OTHER_GROUP = os.getgroups()[-1] if os.geteuid() != 0 else 1
program = ctl = programs = None


class Client(unittest.TestCase):
    client = None

    def setUp(self):
        if shutil.which(self.client) is None:
            self.skipTest(f"{self.client} is not installed (scripts/install-deps --test)")
        self.folder = tempfile.mkdtemp(prefix="tarn-acme.")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.webroot, self.path = os.path.join(self.folder, "webroot"), os.path.join(self.folder, "client")
        for folder in (self.webroot, self.path):
            os.mkdir(folder)
        http, self.tls = tarnd.free_port(), tarnd.free_port()
        self.ca = acme_pebble.Pebble(programs, ports=(http, self.tls), nonce_reject="0")  # certbot tries but twice
        self.addCleanup(self.ca.close)
        self.tarnd = tarnd.Tarnd(program, CONFIG.format(http=http, tls=self.tls, webroot=self.webroot,
                                                        certificates=self.certificates()), stderr=subprocess.DEVNULL)
        self.addCleanup(lambda: self.assertEqual(self.tarnd.close(), 0))
        self.hook = f"{ctl} --admin unix:{self.tarnd.dir}/admin.sock tls reload"

    def run_(self, *args):
        done = subprocess.run([self.client, *args], capture_output=True, text=True, timeout=acme_world.PATIENCE_S, env={
            **os.environ, "REQUESTS_CA_BUNDLE": self.ca.ca, "LEGO_CA_CERTIFICATES": self.ca.ca})
        self.assertEqual(done.returncode, 0, f"{args}\n{done.stdout}{done.stderr}\n{self.ca.says()[-3000:]}")

    def served(self, name):
        """The serial number of the certificate for this name, which must be in it."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with socket.create_connection(("127.0.0.1", self.tls), timeout=tarnd.PATIENCE_S) as s:
            with context.wrap_socket(s, server_hostname=name) as t:
                pem = ssl.DER_cert_to_PEM_cert(t.getpeercert(binary_form=True)).encode()
        self.assertIn(f"DNS:{name}", acme_world.openssl("x509", "-noout", "-ext", "subjectAltName", input=pem))
        return acme_world.openssl("x509", "-noout", "-serial", input=pem)

    def of_file(self, path):
        return acme_world.openssl("x509", "-noout", "-serial", "-in", path)

    def listed(self):
        """(certificate, key), as tarnctl names them."""
        done = subprocess.run([ctl, "--admin", f"unix:{self.tarnd.dir}/admin.sock", "--json", "tls", "list"],
                              capture_output=True, text=True, check=True)
        rows = [row for listener in json.loads(done.stdout)["listeners"] for row in listener["certificates"]]
        self.assertEqual([row["error"] for row in rows], [None] * len(rows))
        return sorted((row["file"], row["key_file"]) for row in rows)

    def nothing_left(self):
        for _, _, files in os.walk(self.webroot):
            self.assertEqual(files, [])


class Certbot(Client):
    client = "certbot"

    def certificates(self):
        return os.path.join(self.path, "live")

    def certbot(self, *args):
        self.run_(*args, "--non-interactive", "--config-dir", self.path, "--work-dir", f"{self.folder}/work", "--logs-dir",
                  f"{self.folder}/log", "--server", self.ca.directory)

    def test_the_first_certificate_and_its_renewal(self):
        with self.assertRaises(ssl.SSLError):
            self.served("a.test")
        self.certbot("certonly", "--webroot", "--webroot-path", self.webroot, "-d", "a.test", "-d", "www.a.test",
                     "--deploy-hook", self.hook, "--agree-tos", "--register-unsafely-without-email")
        live = f"{self.path}/live/a.test"
        self.assertEqual(os.readlink(f"{live}/privkey.pem"), "../../archive/a.test/privkey1.pem")
        first = self.of_file(f"{live}/fullchain.pem")
        self.assertEqual((self.served("a.test"), self.served("www.a.test")), (first, first))
        self.assertEqual(self.listed(), [(f"{live}/fullchain.pem", f"{live}/privkey.pem")])
        self.nothing_left()
        os.chown(f"{live}/privkey.pem", -1, OTHER_GROUP)  # as docs/https.md has it: certbot keeps it so
        os.chmod(f"{live}/privkey.pem", 0o640)
        self.certbot("renew", "--force-renewal", "--no-random-sleep-on-renew")
        self.assertEqual(os.readlink(f"{live}/privkey.pem"), "../../archive/a.test/privkey2.pem")
        key = os.stat(f"{live}/privkey.pem")
        self.assertEqual((key.st_mode & 0o777, key.st_gid), (0o640, OTHER_GROUP))
        second = self.of_file(f"{live}/fullchain.pem")
        self.assertNotEqual(second, first)
        self.assertEqual(self.served("a.test"), second)


class Lego(Client):
    client = "lego"

    def certificates(self):
        return os.path.join(self.path, "certificates")

    def lego(self, *args):
        self.run_("--path", self.path, "--server", self.ca.directory, "--accept-tos", "--email", "admin@example.com",
                  "--domains", "a.test", "--domains", "www.a.test", "--http", "--http.webroot", self.webroot, *args)

    def test_the_first_certificate_and_its_renewal(self):
        with self.assertRaises(ssl.SSLError):
            self.served("a.test")
        self.lego("run", "--run-hook", self.hook)
        certificates = f"{self.path}/certificates"
        self.assertEqual(sorted(os.listdir(certificates)), ["a.test.crt", "a.test.issuer.crt", "a.test.json", "a.test.key"])
        first = self.of_file(f"{certificates}/a.test.crt")
        self.assertEqual((self.served("a.test"), self.served("www.a.test")), (first, first))
        self.assertEqual(self.listed(), [(f"{certificates}/a.test.crt", f"{certificates}/a.test.key")])
        self.nothing_left()
        self.lego("renew", "--days", "1000", "--no-random-sleep", "--renew-hook", self.hook)
        second = self.of_file(f"{certificates}/a.test.crt")
        self.assertNotEqual(second, first)
        self.assertEqual(self.served("a.test"), second)


def main():
    global program, ctl, programs
    program, ctl, *tests = sys.argv[1:]
    if shutil.which("certbot") is None and shutil.which("lego") is None:
        print("skipped: neither certbot nor lego here (scripts/install-deps --test)")
        sys.exit(acme_pebble.SKIPPED)
    programs = acme_pebble.programs()
    unittest.main(argv=[sys.argv[0], *tests], verbosity=2)


main()
