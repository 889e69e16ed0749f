#!/usr/bin/env python3
"""acme_tarnd.py TARN_ACME ACME_AT TARND TARNCTL [TEST...] -- the first certificate: tarnd, tarn-acme and a CA (Pebble)
together.

tarnd starts with `acme` and no certificate; the CA asks tarnd; the hook's reload reads what has come.  Once by the
command line of tarn-acme, once by the one configuration of both.  Skipped (77) where there is no Go.
"""
import http.client
import json
import os
import shutil
import socket
import ssl
import subprocess
import sys
import unittest
import unittest.mock

sys.dont_write_bytecode = True
import acme_pebble
import acme_world
import fleet_world
import tarnd

NAME = "a.test"
CONFIG = """    redirect: https
  - {{ address: "127.0.0.1:{http}", redirect: https }}
  - {{ address: "127.0.0.1:{tls}", tls: {{ acme: {{ {acme} }} }} }}
admin: {{ address: "unix:{{dir}}/admin.sock" }}
storage: {{ main: {{ size: 32MiB }} }}
backends: {{ o: {{ address: "127.0.0.1:9" }} }}
"""
tarn_acme = acme_at = program = ctl = programs = None


class Together(acme_world.World):
    def start(self, acme, more="", **pebble):
        """tarnd with this `acme`; PEBBLE and CA in it are the CA's."""
        self.tls = tarnd.free_port()
        http_port = tarnd.free_port()
        ca = acme_pebble.Pebble(programs, ports=(http_port, self.tls), **pebble)
        self.addCleanup(ca.close)
        self.program, self.directory, self.ca = tarn_acme, ca.directory, ca.ca
        self.config = CONFIG.format(http=http_port, tls=self.tls, acme=acme.replace("PEBBLE", self.directory).replace("CA_FILE", self.ca)
                                    .replace("STATE", self.state)) + more
        self.tarnd = tarnd.Tarnd(program, self.config, stderr=subprocess.DEVNULL)
        self.addCleanup(lambda: self.assertEqual(self.tarnd.close(), 0))

    def served(self, name=NAME):
        """The serial number of the certificate."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with socket.create_connection(("127.0.0.1", self.tls), timeout=tarnd.PATIENCE_S) as s:
            with context.wrap_socket(s, server_hostname=name) as t:
                pem = ssl.DER_cert_to_PEM_cert(t.getpeercert(binary_form=True))
        return acme_world.openssl("x509", "-noout", "-serial", input=pem.encode())

    def redirects(self):
        conn = http.client.HTTPConnection("127.0.0.1", self.tarnd.port, timeout=tarnd.PATIENCE_S)
        conn.request("GET", "/", headers={"Host": NAME})
        answer = conn.getresponse()
        conn.close()
        return answer.status == 301 and answer.headers["Location"] == f"https://{NAME}/"


class First(Together):
    def first(self, challenge):
        self.start(f"names: [{NAME}], state: STATE")
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


class OneFile(Together):
    """Nothing but the configuration says what tarn-acme does."""

    ACME = ("names: [a.test, \"b.test,www.b.test\"], email: me@example.com, agree_tos: on, directory: 'PEBBLE', "
            "ca: CA_FILE, state: STATE")

    def setUp(self):
        super().setUp()
        self.path = os.path.join(self.folder, "bin")
        os.mkdir(self.path)
        os.symlink(ctl, os.path.join(self.path, "tarnctl"))

    def command(self, *args):
        return [acme_at, "--config", os.path.join(self.tarnd.dir, "tarn.yaml"), "--once", *args]

    def run_(self, *args, **more):
        with unittest.mock.patch.dict(os.environ, {"PATH": f"{self.path}:{os.environ['PATH']}"}):
            return super().run_(*args, **more)

    def of_file(self, name=NAME):
        return acme_world.openssl("x509", "-noout", "-serial", "-in", f"{self.state}/certs/{name}.pem")

    def test_an_empty_start_then_https_then_a_renewal(self):
        self.start(self.ACME)
        self.assertTrue(self.redirects())
        said = self.run_()
        self.assertIn("a.test: a new certificate", said.out)
        self.assertEqual(said.err, "")
        self.assertEqual(self.names("b.test"), ["b.test", "www.b.test"])
        first = self.of_file()
        self.assertEqual(self.served(), first)
        self.assertEqual(self.served("www.b.test"), self.of_file("b.test"))
        account = json.loads(self.files("account.json")["account.json"])
        self.assertEqual(account[self.directory]["email"], "me@example.com")
        self.assertIn("a.test: fresh until", self.run_().out)
        said = self.run_(offset_s=61 * 86400)
        self.assertIn("a.test: ordering: its renewal was due", said.out)
        self.assertNotEqual(self.of_file(), first)
        self.assertEqual(self.served(), self.of_file())

    @unittest.skipUnless(shutil.which("redis-server"), "redis-server is missing")
    def test_the_ca_is_answered_by_another_node_of_the_fleet(self):
        self.by_another_node("http-01")

    @unittest.skipUnless(shutil.which("redis-server"), "redis-server is missing")
    def test_the_ca_is_shown_a_certificate_by_another_node_of_the_fleet(self):
        self.by_another_node("tls-alpn-01")

    def by_another_node(self, challenge):
        engine = fleet_world.Engine()
        self.addCleanup(engine.close)
        fleet = f"fleet: {{ name: shop, node: NODE, engine: 'redis://127.0.0.1:{engine.port}', max_blind: 2s }}\n"
        other = os.path.join(self.folder, "other")
        os.mkdir(other)
        acme = self.ACME + ", challenge: " + challenge
        self.start(acme.replace("STATE", other), fleet.replace("NODE", "b"))
        asked = self.tarnd
        self.tarnd = tarnd.Tarnd(program, CONFIG.format(
            http=tarnd.free_port(), tls=tarnd.free_port(),
            acme=acme.replace("PEBBLE", self.directory).replace("CA_FILE", self.ca).replace("STATE", self.state)) + fleet.replace("NODE", "a"),
            stderr=subprocess.DEVNULL)
        self.addCleanup(asked.tidy)
        for node in (asked, self.tarnd):
            tarnd.wait_until(lambda node=node: node.admin("/v1/fleet")["state"] == "in step", "it is in step", 20)
        said = self.run_()
        self.assertEqual(said.err, "")
        self.assertIn("a.test: a new certificate", said.out)
        self.assertEqual(os.listdir(other), [])
        tarnd.wait_until(lambda: asked.admin("/v1/fleet/shared")["shared"] == [], "nothing is answered any more", 10)

    def test_by_tls_alpn_01_with_keys_of_rsa(self):
        self.start(self.ACME + ", challenge: tls-alpn-01, key_type: rsa")
        self.run_()
        self.assertIn("2048 bit", acme_world.openssl("x509", "-noout", "-text", "-in", f"{self.state}/certs/a.test.pem"))
        self.assertEqual(self.served(), self.of_file())

    def test_the_command_line_goes_before_the_file(self):
        self.start(self.ACME)
        seen = os.path.join(self.folder, "seen")
        self.run_("--hook", f'echo "$TARN_ACME_CERTIFICATES $TARN_ADMIN" >{seen}', "--key", "rsa", "c.test")
        self.assertEqual(os.listdir(os.path.join(self.state, "certs")), ["c.test.pem"])
        self.assertIn("2048 bit", acme_world.openssl("x509", "-noout", "-text", "-in", f"{self.state}/certs/c.test.pem"))
        with open(seen, encoding="utf-8") as f:
            self.assertEqual(f.read(), f"c.test unix:{self.tarnd.dir}/admin.sock\n")
        other = os.path.join(self.folder, "other")
        said = self.run_("--state", other, "--dry-run", "--directory", self.directory.replace("dir", "nowhere"), status=1)
        self.assertIn("the CA answers HTTP 404", said.err)
        self.assertFalse(os.path.exists(other))

    def test_terms_that_are_not_agreed_to_are_shown(self):
        self.start(self.ACME.replace("agree_tos: on, ", ""))
        said = self.run_(status=1)
        self.assertIn("`agree_tos: on` in the configuration", said.err)

    def test_an_external_account_by_the_file(self):
        key = os.path.join(self.folder, "eab")
        with open(key, "w", encoding="utf-8") as f:
            f.write(acme_pebble.EAB_KEY)
        os.chmod(key, 0o600)
        self.start(self.ACME + f", eab_kid: {acme_pebble.EAB_KID}, eab_key_file: {key}", external_account=True)
        self.run_()
        self.assertEqual(self.served(), self.of_file())


class Files(acme_world.World):
    """What a file can have wrong: the words and carets of tarnd."""

    START = 'backends: { o: { address: "127.0.0.1:9" } }\nadmin: { address: "unix:/nonexistent/admin.sock" }\nlisten:\n'
    PLAIN = '- { address: "127.0.0.1:80", redirect: https }\n'

    def file(self, *acme, start=START + PLAIN, port=443):
        path = os.path.join(self.folder, "tarn.yaml")
        with open(path, "w", encoding="utf-8") as f:
            f.write(start + "".join(f'- {{ address: "127.0.0.1:{port + i}", tls: {{ acme: {{ {a} }} }} }}\n'
                                    for i, a in enumerate(acme)))
        return path

    def ask(self, path, *args):
        return subprocess.run([tarn_acme, "--config", path, "--once", *args], capture_output=True, text=True,
                              timeout=acme_world.PATIENCE_S)

    def test_what_is_wrong_is_said_as_tarnd_says_it(self):
        for acme in ("names: ['*.a.test']", "names: [a.test], challenge: dns-01", "names: [a.test], emial: a@b",
                     "names: [a.test], email: a", "names: [a.test], directory: 'http://a/'", "email: a@b", "names: ["):
            path = self.file(acme)
            ours, tarnds = self.ask(path), subprocess.run([program, "-t", "-c", path], capture_output=True, text=True)
            self.assertEqual((ours.returncode, tarnds.returncode), (2, 2), acme)
            self.assertIn("^", ours.stderr)
            self.assertEqual(ours.stderr.replace("tarn-acme: ", "tarnd: "), tarnds.stderr)

    def test_a_file_that_is_not_there(self):
        done = self.ask("/nonexistent/tarn.yaml")
        self.assertEqual(done.returncode, 2)
        self.assertIn("/nonexistent/tarn.yaml: cannot open the file: No such file or directory", done.stderr)

    def test_without_acme_there_is_nothing_to_do(self):
        done = self.ask(self.file())
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("no listener has `acme`, so there is nothing to do", done.stdout)

    def test_with_a_webroot_another_client_does_it(self):
        path = self.file()
        with open(path, "a", encoding="utf-8") as f:
            f.write(f"- {{ address: '127.0.0.1:443', tls: {{ certificates: /a, acme: {{ webroot: {self.folder} }} }} }}\n")
        done = self.ask(path)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("there is nothing to do", done.stdout)

    def test_two_listeners_are_one_list_and_two_states_are_two(self):
        path = self.file(f"names: [a.test, b.test], state: {self.state}", f"names: [b.test, c.test], state: {self.state}")
        done = self.ask(path, "--dry-run", "--directory", "https://127.0.0.1:9/dir")
        self.assertEqual([line.split(":")[0] for line in done.stdout.splitlines()], ["a.test", "b.test", "c.test"])
        path = self.file(f"names: a.test, state: {self.state}", "names: b.test, state: /nonexistent/b")
        done = self.ask(path, "--dry-run")
        self.assertEqual(done.returncode, 2)
        self.assertIn(f"has the state directories {self.state} and /nonexistent/b: --state DIR would say which", done.stderr)
        done = self.ask(path, "--dry-run", "--directory", "https://127.0.0.1:9/dir", "--state", "/nonexistent/b")
        self.assertIn("b.test: would be ordered", done.stdout)
        self.assertNotIn("a.test", done.stdout)

    def test_tarnd_warns_of_what_the_ca_will_not_find(self):
        none = self.START.replace("listen:", "")
        for start, port, acme, words in (
                (none + "listen:\n", 443, "names: a.test", "challenge http-01 is answered on a plain listener, and there is none"),
                (self.START + self.PLAIN.replace("80", "8080"), 443, "names: a.test",
                 "for acme's challenge http-01 the CA asks on port 80, and no plain listener has it"),
                (self.START + self.PLAIN, 8443, "names: a.test, challenge: tls-alpn-01",
                 "for acme's challenge tls-alpn-01 the CA asks on port 443, and no listener with TLS has it"),
                (self.START.replace("admin:", "#") + self.PLAIN, 443, "names: a.test",
                 "tarn-acme cannot have new certificates served: add `admin: {}`, or a `hook`"),
                (self.START + self.PLAIN, 443, "names: a.test", None)):
            path = self.file(f"{acme}, state: {self.state}", start=start, port=port)
            done = subprocess.run([program, "-t", "-c", path], capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            said = [line for line in done.stderr.splitlines() if "warning: listener" in line]
            self.assertEqual(len(said), 1 if words else 0, done.stderr)
            self.assertIn(words or "", "".join(said))


def main():
    global tarn_acme, acme_at, program, ctl, programs
    tarn_acme, acme_at, program, ctl, *tests = (os.path.abspath(a) if os.path.exists(a) else a for a in sys.argv[1:])
    programs = acme_pebble.programs()
    unittest.main(argv=[sys.argv[0], *tests], verbosity=2)


main()
