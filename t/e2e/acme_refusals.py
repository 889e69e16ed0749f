#!/usr/bin/env python3
"""acme_refusals.py TARN_ACME ACME_AT [TEST...] -- tarn-acme and a CA that refuses, lies, stalls and breaks off.

After each run nothing is half written, no challenge is left, and what was served before is still there.
"""
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.dont_write_bytecode = True
import acme_fake
import acme_world
from acme_world import openssl
from tarnd import free_port

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DAY = 86400
OTHER_USER = 65534
tarn_acme = acme_at = None


class Proxy:
    """Answers CONNECT with `answer`, and passes on what follows."""

    def __init__(self, answer):
        self.answer, self.connections = answer, 0
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]

    def __enter__(self):
        threading.Thread(target=self.serve, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()

    def serve(self):
        while True:
            try:
                client = self.socket.accept()[0]
            except OSError:
                return
            self.connections += 1
            asked = b""
            while not asked.endswith(b"\r\n\r\n"):
                asked += client.recv(4096)
            host, port = asked.split(b" ")[1].rsplit(b":", 1)
            server = socket.create_connection((host.decode(), int(port)))
            client.sendall(self.answer)
            for a, b in ((client, server), (server, client)):
                threading.Thread(target=self.pass_on, args=(a, b), daemon=True).start()

    @staticmethod
    def pass_on(source, to):
        try:
            while data := source.recv(65536):
                to.sendall(data)
            to.shutdown(socket.SHUT_WR)
        except OSError:
            pass


class WithFake(acme_world.World):
    hurry = 500

    @classmethod
    def setUpClass(cls):
        cls.top = tempfile.mkdtemp(prefix="tarn-fake-ca.")
        cls.ca_server = acme_fake.FakeCA(acme_world.Authority(cls.top))
        cls.directory, cls.ca = cls.ca_server.directory, cls.ca_server.authority.pem
        cls.program = acme_at

    @classmethod
    def tearDownClass(cls):
        cls.ca_server.close()
        shutil.rmtree(cls.top)

    def setUp(self):
        super().setUp()
        self.ca_server.fresh()
        self.asked, self.rules = self.ca_server.asked, self.ca_server.rules

    def refused(self, pattern, *args, **more):
        """A run for a.test that fails, and says this of it."""
        said = self.run_(*(args or ("a.test",)), status=1, **more)
        self.assertRegex(said.err, "tarn-acme: a\\.test: " + pattern)
        return said

    def waits(self, name="a.test"):
        record = self.record(name)
        return record["next_attempt_s"] - record["last_attempt_s"]


class Answers(WithFake):
    def test_without_refusals_it_works(self):
        said = self.run_("a.test,www.a.test")
        self.assertIn("a.test: a new certificate", said.out)
        self.certificate("a.test")
        self.assertEqual(self.asked["finalize"], 1)

    def test_a_rate_limit_is_kept_to_the_second_the_ca_names(self):
        for retry_after in ("7200", time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(time.time() + 7200))):
            self.rules["order"] = lambda x: x.problem(429, "rateLimited", "too many", Retry_After=retry_after)
            self.refused(r"order: the CA answers HTTP 429, rateLimited: too many; wait;", "--retry", "a.test")
            self.assertTrue(7195 <= self.waits() <= 7265, self.waits())
        asked = self.asked["order"]
        said = self.run_("a.test", status=1, offset_s=7000)
        self.assertIn("a.test: waits until", said.err)
        self.assertEqual(self.asked["order"], asked)
        del self.rules["order"]
        self.run_("a.test", offset_s=7300)
        self.assertEqual(self.record("a.test")["failures"], 0)
        self.assertEqual(self.record("a.test")["last_error"], "")

    def test_a_limit_of_new_accounts_is_reported_for_each_name(self):
        self.rules["account"] = lambda x: x.problem(429, "rateLimited", "too many accounts", Retry_After=600)
        said = self.run_("a.test", "b.test", status=1)
        self.assertRegex(said.err, r"a\.test: account: .+rateLimited")
        self.assertRegex(said.err, r"b\.test: account: .+rateLimited")

    def test_back_off_doubles(self):
        self.rules["order"] = lambda x: x.problem(403, "caa")
        waits = []
        for _ in range(3):
            self.refused(r"order: .+caa: as the test wants it; a CAA record in DNS forbids this CA", "--retry", "a.test")
            waits.append(self.waits())
        for wait, middle in zip(waits, (600, 1200, 2400)):
            self.assertTrue(middle * 3 / 4 <= wait <= middle * 5 / 4, waits)

    def test_a_wait_of_a_clock_that_was_ahead_is_not_kept(self):
        """A machine that started with another year, and was put right: the certificate would expire meanwhile."""
        self.rules["order"] = lambda x: x.problem(403, "caa")
        self.refused("order: .+caa", offset_s=5 * 365 * DAY)
        del self.rules["order"]
        self.run_("a.test")
        self.assertEqual(self.record("a.test")["failures"], 0)

    def test_renewal_information_is_asked_for_after_a_clock_that_was_ahead(self):
        self.ca_server.life_s = 400 * DAY
        self.run_("a.test")
        self.run_("a.test", offset_s=60 * DAY)
        self.assertEqual(self.asked["ari"], 1)
        self.run_("a.test", offset_s=60)
        self.assertEqual(self.asked["ari"], 2)

    def test_bad_nonces_are_answered_with_the_new_one_and_bounded(self):
        refusals = 5
        def some(x):
            nonlocal refusals
            refusals -= 1
            if refusals < 0:
                return True
            x.problem(400, "badNonce")
        self.rules["order"] = some
        self.run_("a.test")
        self.assertEqual(self.ca_server.asked["nonce"], 1)  # each refusal brings the next one
        self.rules["order"] = lambda x: x.problem(400, "badNonce")
        self.asked.clear()
        self.run_("b.test", status=1)
        self.assertIn("badNonce", self.record("b.test")["last_error"])
        self.assertEqual(self.asked["order"], 12)

    def test_what_is_no_json_is_refused_with_its_place(self):
        for name, step, good in (("dir", "the CA's directory", False), ("order", "order", True), ("authz", "http-01 for ", True),
                                 ("finalize", "finalize", True)):
            for body, why in (("{", "line 1, column 1"), ("[]", "no object"), ("", "no object"), ("\xff", "line 1"),
                              ('{"a":1,"a":2}', "duplicate"), ("[" * 100000, "maximum parsing depth")):
                self.rules.clear()
                self.rules[name] = lambda x: x.answer(200, body.encode("latin-1"), Location=self.ca_server.url + "/order/0")
                self.refused(rf"{step}.*the CA's answer \(HTTP 200\) is no JSON object: .*{why}", "--retry", "a.test")

    def test_what_an_answer_lacks_is_named(self):
        url = self.ca_server.url
        for name, body, why in (
                ("dir", {"newNonce": url}, 'no text "newAccount"'),
                ("dir", {"newNonce": "http://127.0.0.1/"}, '"newNonce" that is no https:// URL'),
                ("order", {"status": "pending", "authorizations": []}, '0 "authorizations"'),
                ("order", {"status": "pending", "authorizations": ["ftp://x"]}, "authorization that is no https"),
                ("order", {"status": 7}, 'no "status"'),
                ("authz", {"status": "pending"}, "for no DNS name"),
                ("finalize", {"status": "valid", "authorizations": [url], "finalize": url}, 'no "certificate"')):
            self.rules.clear()
            self.rules[name] = lambda x: x.answer(200, body, Location=url + "/order/0")
            self.refused(rf".*{why}", "--retry", "a.test")
        self.rules.clear()
        self.rules["account"] = lambda x: x.answer(201, {})
        os.remove(os.path.join(self.state, "account.json"))
        self.refused("account: the CA answers newAccount without a Location", "--retry", "a.test")
        self.rules.clear()
        self.rules["nonce"] = lambda x: x.answer(200, nonce=False)
        self.refused("account: the CA's newNonce answers without a Replay-Nonce", "--retry", "a.test")
        self.rules["nonce"] = lambda x: x.answer(200, nonce=False, Replay_Nonce="no base64url!")
        self.refused("account: the CA's newNonce answers without a Replay-Nonce", "--retry", "a.test")

    def test_an_answer_that_is_too_long_is_not_read(self):
        self.rules["order"] = lambda x: x.answer(200, b" " * (2 << 20))
        self.refused("order: .+/order: the answer is longer than 1048576 bytes")
        def fields(x):
            x.send_response(200)
            for i in range(2000):
                x.send_header(f"X-{i}", "y" * 100)
            x.end_headers()
            x.close_connection = True
        self.rules["order"] = fields
        self.refused("order: .+(the answer is longer|no answer)", "--retry", "a.test")

    def test_a_redirect_is_not_followed(self):
        self.rules["dir"] = lambda x: x.answer(302, Location=self.ca_server.url + "/other")
        self.refused("the CA's directory: the CA answers HTTP 302, a redirect, which is not followed")
        self.assertEqual(self.asked["other"], 0)

    def test_a_fault_of_the_ca_is_tried_again_and_then_reported(self):
        for name in ("dir", "nonce", "account", "order", "authz", "finalize", "cert"):
            faults = 1
            def once(x):
                nonlocal faults
                faults -= 1
                if faults < 0:
                    return True
                x.problem(500, "serverInternal")
            shutil.rmtree(self.state, ignore_errors=True)
            self.ca_server.fresh()
            self.asked, self.rules = self.ca_server.asked, self.ca_server.rules
            self.rules[name] = once
            self.run_("a.test")
            self.assertGreaterEqual(self.asked[name], 2, name)
        self.rules["order"] = lambda x: x.answer(502, b"<html>", "text/html")
        self.asked.clear()
        self.run_("b.test", status=1)
        self.assertEqual(self.asked["order"], 3)
        self.assertIn("the CA answers HTTP 502, no problem type: no detail", self.record("b.test")["last_error"])

    def test_a_503_with_retry_after_is_not_asked_again_before(self):
        self.rules["order"] = lambda x: x.problem(503, "serverInternal", Retry_After=3600)
        self.refused("order: .+HTTP 503, serverInternal")
        self.assertEqual(self.asked["order"], 1)
        self.assertGreaterEqual(self.waits(), 3600)

    def test_connections_that_are_cut(self):
        for text in (b"", b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{", b"HTTP/1."):
            cuts = 1
            def once(x):
                nonlocal cuts
                cuts -= 1
                if cuts < 0:
                    return True
                x.cut(text)
            self.rules["order"] = once
            shutil.rmtree(self.state, ignore_errors=True)
            self.run_("a.test")
            self.rules["order"] = lambda x: x.cut(text)
            self.run_("b.test", status=1)
            self.assertRegex(self.record("b.test")["last_error"], "order: .+/order: no answer: ")

    def test_a_ca_that_cannot_be_trusted_or_reached(self):
        other = acme_world.Authority(tempfile.mkdtemp(dir=self.folder))
        ours, type(self).ca = self.ca, other.pem
        try:
            self.refused("the CA's directory: .+no answer: .+is --ca the file of the CAs of that server")
        finally:
            type(self).ca = ours
        there, type(self).directory = self.directory, f"https://127.0.0.1:{free_port()}/dir"
        try:
            self.refused("the CA's directory: .+no answer: .+this machine must reach the CA", "--retry", "a.test", "b.test")
        finally:
            type(self).directory = there

    def test_with_ca_the_systems_cas_are_not_trusted(self):
        """libcurl of Debian looks into /etc/ssl/certs, too, whatever its file of CAs is."""
        alone = ["unshare", "--map-root-user", "--mount"]
        if subprocess.run([*alone, "true"], capture_output=True).returncode != 0:
            self.skipTest("a process may not have namespaces of its own here")
        other, system = (tempfile.mkdtemp(dir=self.folder) for _ in range(2))
        name = openssl("x509", "-noout", "-subject_hash", "-in", self.ca).strip()
        shutil.copy(self.ca, os.path.join(system, f"{name}.0"))
        shutil.copy(acme_world.Authority(other, "Other CA").pem, os.path.join(system, "ca-certificates.crt"))
        as_system = [*alone, "sh", "-euc", 'mount --bind "$0" /etc/ssl/certs; exec "$@"', system]
        done = subprocess.run([*as_system, *self.command("a.test"), "--ca", os.path.join(other, "ca.pem"), "--dry-run"],
                              capture_output=True, text=True, timeout=60)
        self.assertIn("is --ca the file of the CAs of that server", done.stderr, done.stdout)
        # So it is: without --ca they are trusted.
        command = self.command("a.test", "--dry-run")
        at = command.index("--ca")
        del command[at:at + 2]
        done = subprocess.run([*as_system, *command], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_what_a_proxy_says_is_not_what_the_ca_says(self):
        with Proxy(b"HTTP/1.1 200 OK\r\nRetry-After: 7200\r\nReplay-Nonce: of-the-proxy\r\n\r\n") as proxy:
            os.environ["https_proxy"] = f"http://127.0.0.1:{proxy.port}"
            try:
                faults = [503]
                self.rules["dir"] = lambda x: x.answer(faults.pop()) if faults else True
                self.run_("a.test")
            finally:
                del os.environ["https_proxy"]
        self.assertEqual(self.asked["dir"], 2)  # a fault without a Retry-After is asked again at once
        self.assertEqual(self.asked["nonce"], 1)
        self.assertGreater(proxy.connections, 0)


class Verdicts(WithFake):
    def test_an_authorization_that_stays_pending_ends(self):
        self.rules["challenge"] = lambda x: x.answer(200, {})
        self.refused(r"http-01 for a\.test: the CA has not decided after \d+ questions in \d+ s")
        self.assertTrue(50 <= self.asked["authz"] <= 62, self.asked)

    def test_a_wait_that_is_long_is_left_to_the_next_attempt(self):
        self.rules["challenge"] = lambda x: x.answer(200, {})
        self.rules["authz"] = lambda x: x.answer(200, self.ca_server.authz_json(x.rest), Retry_After=3000)
        self.refused(r"http-01 for a\.test: the CA has not decided")
        self.assertLessEqual(self.asked["authz"], 2)
        self.assertGreaterEqual(self.waits(), 3000)

    def test_an_authorization_that_is_invalid_says_why(self):
        def invalid(x):
            body = self.ca_server.authz_json(x.rest)
            body["status"] = body["challenges"][0]["status"] = "invalid"
            body["challenges"][0]["error"] = {"type": acme_fake.PROBLEM + "connection", "detail": "127.0.0.1: refused"}
            x.answer(200, body)
        self.rules["authz"] = invalid
        self.refused(r"http-01 for a\.test: the CA answers connection: 127\.0\.0\.1: refused; the CA's servers must reach")

    def test_a_name_that_was_not_ordered_gets_no_proof(self):
        def other(x):
            body = self.ca_server.authz_json(x.rest)
            body["identifier"]["value"] = "../../evil.test"
            x.answer(200, body)
        self.rules["authz"] = other
        for challenge in ("http-01", "tls-alpn-01"):
            self.refused(challenge + r' for a name: the CA wants a proof for "../../evil\.test", which was not ordered',
                         "--retry", "--challenge", challenge, "a.test")
        self.assertEqual(self.asked["challenge"], 0)

    def test_a_token_that_is_a_path_is_refused(self):
        def path(x):
            body = self.ca_server.authz_json(x.rest)
            for challenge in body["challenges"]:
                challenge["token"] = "../../account.key"
            x.answer(200, body)
        self.run_("b.test")
        key = self.files("account.key")
        self.rules["authz"] = path
        self.refused(r'http-01 for a\.test: the CA\'s challenge has no "token"|http-01 for a name: .+no "token"')
        self.assertEqual(self.files("account.key"), key)

    def test_a_challenge_that_is_not_offered(self):
        def dns(x):
            body = self.ca_server.authz_json(x.rest)
            body["challenges"] = [{"type": "dns-01", "url": self.ca_server.url, "token": "t", "status": "pending"}]
            x.answer(200, body)
        self.rules["authz"] = dns
        self.refused(r"http-01 for a\.test: the CA offers no http-01 for it; try --challenge tls-alpn-01")

    def test_the_proof_is_there_when_the_ca_is_told(self):
        found = []
        def look():
            for kind in ("http-01", "tls-alpn-01"):
                top = os.path.join(self.state, "challenges", kind)
                for file in os.listdir(top):
                    with open(os.path.join(top, file), encoding="utf-8") as f:
                        found.append((kind, file, f.read()))
        self.ca_server.on_proof = look
        self.run_("a.test")
        self.run_("--challenge", "tls-alpn-01", "b.test")
        (kind, token, text), (alpn, file, pem) = found
        self.assertEqual((kind, alpn, file), ("http-01", "tls-alpn-01", "b.test.pem"))
        self.assertRegex(text, rf"\A{re.escape(token)}\.[\w-]{{43}}\Z")
        shown = openssl("x509", "-noout", "-text", input=pem.encode())
        self.assertRegex(shown, r"(?s)(1\.3\.6\.1\.5\.5\.7\.1\.31|ACME Identifier): critical")


class Certificates(WithFake):
    def setUp(self):
        super().setUp()
        self.run_("a.test")
        self.before = self.certificate("a.test")
        self.later = 70 * DAY  # it is due then

    def tearDown(self):
        """What was served is served still."""
        self.assertEqual(self.certificate("a.test"), self.before)
        super().tearDown()

    def comes(self, text, pattern):
        self.rules["cert"] = lambda x: x.answer(200, text, "application/pem-certificate-chain")
        self.refused(pattern, "--retry", "a.test", offset_s=self.later)

    def test_one_for_another_key(self):
        self.comes(self.before[:self.before.index("-----BEGIN PRIVATE")], "certificate: the certificate is for another key")

    def signed(self, *names):
        """The rule for finalize by which the certificate has these names."""
        def finalize(x):
            n, ca = x.rest, self.ca_server
            csr = os.path.join(self.folder, "csr.pem")
            with open(csr, "w", encoding="utf-8") as f:
                f.write(ca.pem_of(x.payload["csr"]))
            public = os.path.join(self.folder, "public.pem")
            with open(public, "w", encoding="utf-8") as f:
                f.write(openssl("req", "-in", csr, "-noout", "-pubkey"))
            extension = os.path.join(self.folder, "ext")
            with open(extension, "w", encoding="utf-8") as f:
                f.write("subjectAltName=" + ",".join(f"DNS:{name}" for name in names) + "\n")
            ca.orders[n]["certificate"] = openssl(
                "x509", "-req", "-in", csr, "-force_pubkey", public, "-CA", ca.authority.pem, "-CAkey", ca.authority.key,
                "-extfile", extension, "-days", "200", "-copy_extensions", "none")
            ca.orders[n]["status"] = "valid"
            x.answer(200, ca.order_json(n))
        return finalize

    def test_one_for_other_names(self):
        for names, why in ((("b.test",), "it lacks the name a.test"), (("a.test", "b.test"), "it has the name b.test"),
                           (("*.test",), "it lacks the name a.test")):
            self.rules["finalize"] = self.signed(*names)
            self.refused(f"certificate: the certificate has not the names of the order: {re.escape(why)}; it is not used",
                         "--retry", "a.test", offset_s=self.later)

    def test_one_that_is_over(self):
        self.ca_server.life_s = 3600
        self.refused("certificate: the certificate is good from .+is this machine's clock right", offset_s=self.later)

    def test_what_is_no_chain(self):
        leaf = self.before[:self.before.index("-----END CERTIFICATE-----\n") + len("-----END CERTIFICATE-----\n")]
        self.comes("", "download: no certificate in it")
        self.comes("hello", "download: no certificate in it")
        self.comes(leaf[:300], "download: malformed PEM")
        self.comes(leaf.replace("MI", "AA", 1), "download: certificate 1 of the chain is malformed")
        self.comes(leaf * 11, "download: more than 10 certificates")
        self.comes(leaf + "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
                   "download: a block that is no certificate")

    def test_a_chain_whose_issuer_is_another(self):
        other = acme_world.Authority(tempfile.mkdtemp(dir=self.folder))
        def finalize(x):
            order = self.ca_server.orders[x.rest]
            with open(other.pem, encoding="utf-8") as f:
                order["certificate"] = self.ca_server.authority.sign(self.ca_server.pem_of(x.payload["csr"]), -3600, 200 * DAY) + f.read()
            order["status"] = "valid"
            x.answer(200, self.ca_server.order_json(x.rest))
        self.rules["finalize"] = finalize
        self.refused("certificate: certificate 1 of the chain is not issued by the next one", offset_s=self.later)

    def test_a_file_that_others_can_read_is_left_and_not_renewed(self):
        path = os.path.join(self.state, "certs/a.test.pem")
        os.chmod(path, 0o644)
        said = self.run_("a.test", "b.test", status=1, offset_s=self.later - 20 * DAY)
        self.assertIn("certs/a.test.pem has mode 0644, so other users may have read private keys; 0600 would be right",
                      said.err)
        self.assertIn("b.test: a new certificate", said.out)
        os.chmod(path, 0o600)


class Renewal(WithFake):
    def certid(self):
        """By openssl: authority key identifier and serial number (RFC 9773 4.1)."""
        path = os.path.join(self.state, "certs/a.test.pem")
        aki = re.search(r"(?:[0-9A-F]{2}:){19}[0-9A-F]{2}", openssl("x509", "-in", path, "-noout", "-ext",
                                                                   "authorityKeyIdentifier"))[0]
        serial = openssl("x509", "-in", path, "-noout", "-serial").strip().split("=")[1]
        number = bytes.fromhex(serial)
        text = lambda b: acme_fake.base64.urlsafe_b64encode(b).decode().rstrip("=")
        return text(bytes.fromhex(aki.replace(":", ""))) + "." + text((b"\0" if number[0] & 0x80 else b"") + number)

    def test_an_order_names_what_it_replaces(self):
        self.ca_server.life_s = 200 * DAY
        self.run_("a.test")
        self.assertNotIn("replaces", self.ca_server.payloads["order"][0])
        certid = self.certid()
        self.run_("a.test", offset_s=140 * DAY)
        self.assertEqual([p["replaces"] for p in self.ca_server.payloads["order"] if p and "replaces" in p], [certid])
        self.assertEqual(self.asked["ari"], 1)

    def test_a_hint_that_the_ca_refuses_is_left_out(self):
        self.ca_server.life_s = 200 * DAY
        self.run_("a.test")
        for status, kind in ((409, "alreadyReplaced"), (409, "conflict"), (404, "malformed"), (403, "unauthorized"),
                             (500, "serverInternal")):
            self.rules["order"] = lambda x: x.problem(status, kind) if x.payload and "replaces" in x.payload else True
            path = os.path.join(self.state, "certs/a.test.pem")
            stamp = os.stat(path).st_mtime_ns
            self.run_("--renew-before", "190", "a.test", offset_s=12 * DAY)
            self.assertNotEqual(os.stat(path).st_mtime_ns, stamp, kind)
        # Another reason is a reason: the order is not asked twice.
        self.rules["order"] = lambda x: x.problem(403, "caa")
        self.asked.clear()
        self.run_("--renew-before", "190", "a.test", offset_s=12 * DAY, status=1)
        self.assertEqual(self.asked["order"], 1)

    def test_renewal_information_that_does_not_come_is_no_failure(self):
        self.run_("a.test")
        self.rules["ari"] = lambda x: x.cut(b"")
        said = self.run_("a.test", offset_s=60)
        self.assertRegex(said.err, r"a\.test: renewal information: .+its life decides")
        asked = self.asked["ari"]
        self.assertTrue(3 <= asked <= 6, asked)  # libcurl asks again, too, where a connection was used before
        self.assertIn("a.test: fresh until", said.out)
        self.run_("a.test", offset_s=120)
        self.assertEqual(self.asked["ari"], asked)  # not at each pass

    def test_an_expired_one_is_renewed_at_once(self):
        self.run_("a.test")
        self.ca_server.life_s = 200 * DAY
        said = self.run_("a.test", offset_s=91 * DAY)
        self.assertRegex(said.out, r"a\.test: ordering: it expired \S+ \S+ ago, at \S+, and is renewed at once")
        self.assertIn("a.test: a new certificate", said.out)

    def test_another_ca_gets_an_order_at_once(self):
        self.run_("a.test")
        self.assertNotIn("staging", self.directory)
        path = os.path.join(self.state, "state.json")
        state = json.loads(self.files("state.json")["state.json"])
        state["certificates"]["a.test"]["directory"] = "https://acme-staging.test/directory"
        with open(path, "w", encoding="utf-8") as f:
            json.dump(state, f)
        said = self.run_("a.test")
        self.assertIn("a.test: ordering: it is from another CA (https://acme-staging.test/directory)", said.out)
        self.assertNotIn("replaces", self.ca_server.payloads["order"][-1] or {})


class Process(WithFake):
    def start(self, *args, program=None, **more):
        """A run that waits for the CA's verdict; it is returned when its proof is there."""
        self.rules["challenge"] = lambda x: x.answer(200, {})
        command = self.command(*args)
        command[0] = program or command[0]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.kill)
        top, deadline = os.path.join(self.state, "challenges/http-01"), time.monotonic() + acme_world.PATIENCE_S
        while not os.path.isdir(top) or not os.listdir(top):
            self.assertIsNone(process.poll())
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.02)
        return process

    def test_a_second_one_does_not_run(self):
        first = self.start("a.test")
        done = subprocess.run(self.command("b.test"), capture_output=True, text=True, timeout=acme_world.PATIENCE_S)
        self.assertEqual(done.returncode, 3)
        self.assertIn("lock: another tarn-acme has it; wait until that one is done", done.stderr)
        first.terminate()
        first.wait(timeout=acme_world.PATIENCE_S)

    def test_a_signal_ends_it_soon_and_nothing_is_left(self):
        for program in (tarn_acme, acme_at):
            process = self.start("a.test", program=program)
            began = time.monotonic()
            process.send_signal(signal.SIGTERM)
            self.assertEqual(process.wait(timeout=acme_world.PATIENCE_S), 1)
            self.assertLess(time.monotonic() - began, 5)
            self.assertIn("stopped by a signal", process.stderr.read())
            self.assert_nothing_left()
        self.assertFalse(os.path.exists(os.path.join(self.state, "state.json")))  # no failure of the name

    def test_what_a_killed_one_left_is_removed_by_the_next(self):
        process = self.start("a.test")
        process.kill()
        process.wait()
        self.assertNotEqual(os.listdir(os.path.join(self.state, "challenges/http-01")), [])
        self.rules.clear()
        self.run_("b.test")  # asserts that none is left

    def stay(self, *args):
        """A run without --once, whose hours take a second."""
        process = subprocess.Popen([arg for arg in self.command(*args) if arg != "--once"], stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True, env={**os.environ, "ACME_HURRY": "100000"})
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.kill)
        return process

    def until(self, process, pattern):
        for line in process.stdout:
            if re.match(pattern, line):
                return
        self.fail(f"it ends before it says {pattern}")

    def test_without_once_it_stays_and_renews(self):
        self.ca_server.life_s = 6 * 3600
        process = self.stay("a.test")
        self.until(process, "a.test: ordering: there is none yet")
        self.until(process, "a.test: a new certificate")
        self.until(process, "a.test: fresh until")
        self.until(process, "a.test: ordering: its renewal was due at .+, by its life")
        self.until(process, "a.test: a new certificate")
        process.terminate()
        self.assertEqual(process.wait(timeout=acme_world.PATIENCE_S), 0)
        self.assert_nothing_left()

    def test_without_once_earlier_failures_are_waited_for_after_the_first_look(self):
        def order(x):
            if x.rest or x.payload["identifiers"][0]["value"] != "b.test":
                return True
            return x.problem(403, "caa")
        self.rules["order"] = order
        self.run_("b.test", status=1)
        process = self.stay("--retry", "a.test", "b.test")
        self.until(process, "b.test: ordering")
        self.until(process, "tarn-acme: b.test: waits until .+ after failure 2: ")
        process.terminate()
        self.assertEqual(process.wait(timeout=acme_world.PATIENCE_S), 0)

    @unittest.skipIf(os.geteuid() != 0, "needs root")
    def test_root_becomes_the_owner_of_the_state_directory(self):
        os.chmod(self.folder, 0o711)
        os.chmod(self.top, 0o711)
        os.chmod(self.ca, 0o644)
        os.mkdir(self.state, 0o700)
        os.chown(self.state, OTHER_USER, OTHER_USER)
        process = self.start("a.test", program=tarn_acme)
        with open(f"/proc/{process.pid}/status", encoding="utf-8") as f:
            status = f.read()
        self.assertRegex(status, rf"(?m)^Uid:(\s+{OTHER_USER}){{4}}$")
        self.assertRegex(status, rf"(?m)^Gid:(\s+{OTHER_USER}){{4}}$")
        self.assertRegex(status, r"(?m)^Groups:\s*$")
        # Of a process that is not dumpable the files in /proc are root's (proc(5)).
        self.assertEqual(os.stat(f"/proc/{process.pid}/mem").st_uid, 0)
        with open(f"/proc/{process.pid}/limits", encoding="utf-8") as f:
            self.assertRegex(f.read(), r"Max core file size +0 +0 ")
        process.terminate()
        process.wait(timeout=acme_world.PATIENCE_S)
        for top, _, files in os.walk(self.state):
            for path in (top, *(os.path.join(top, file) for file in files)):
                self.assertEqual(os.stat(path).st_uid, OTHER_USER, path)

    def test_a_state_directory_that_others_can_read_is_refused(self):
        os.mkdir(self.state, 0o755)
        done = subprocess.run(self.command("a.test"), capture_output=True, text=True, timeout=acme_world.PATIENCE_S)
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertIn("has mode 0755, so other users may have read private keys; 0700 would be right", done.stderr)
        self.assertEqual(self.asked["dir"], 0)

    def test_an_account_key_that_others_can_read_is_refused(self):
        self.run_("a.test")
        os.chmod(os.path.join(self.state, "account.key"), 0o604)
        said = self.run_("b.test", status=1)
        self.assertIn("b.test: account: ", said.err)
        self.assertIn("account.key has mode 0604", said.err)

    def test_the_command_line(self):
        for args, why in (([], "no NAME"), (["a_b"], 'the name "a_b" has a letter that no host'),
                          (["--challenge", "dns-01", "a.test"], "http-01 or tls-alpn-01 would be right"),
                          (["--key", "dsa", "a.test"], "ecdsa or rsa would be right"),
                          (["--email", "me", "a.test"], "one address would be right"),
                          (["--renew-before", "0", "a.test"], "days, 1 to 365"),
                          (["--directory", "http://ca.test", "a.test"], "an https:// URL would be right"),
                          (["--eab-kid", "x", "a.test"], "belong together"),
                          (["--staging", "a.test"], "--staging is Let's Encrypt's"),
                          (["--frob"], "no option"), (["a.test", "a.test,b.test"], "would be one file")):
            done = subprocess.run([tarn_acme, *self.command()[1:], *args], capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stdout), (2, ""), args)
            self.assertIn(why, done.stderr)
        self.assertEqual(self.asked["dir"], 0)


class Documents(unittest.TestCase):
    def test_the_examples_of_help_manual_and_guide_are_valid(self):
        """Their options, that is: --help behind them is looked at when all are read."""
        texts = [subprocess.run([tarn_acme, "--help"], capture_output=True, text=True, check=True).stdout]
        for path in ("packaging/man/tarn-acme.8.md", "docs/certificates.md"):
            with open(os.path.join(ROOT, path), encoding="utf-8") as f:
                texts.append(f.read())
        for text in texts:
            lines = re.findall(r"(?m)^ *(tarn-acme --state [^&\n\\]+(?:\\\n[^&\n\\]+)*)", text)
            self.assertGreater(len(lines), 0, text)
            for line in lines:
                done = subprocess.run([tarn_acme, *shlex.split(line)[1:], "--help"], capture_output=True, text=True)
                self.assertEqual((done.returncode, done.stderr), (0, ""), line)


def main():
    global tarn_acme, acme_at
    tarn_acme, acme_at, *tests = sys.argv[1:]
    unittest.main(argv=[sys.argv[0], *tests], verbosity=2)


main()
