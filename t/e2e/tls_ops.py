#!/usr/bin/env python3
"""tls_ops.py TARND TARNCTL [TEST...] -- TLS for operators: what logs, policies, metrics and tarnctl say of it."""
import http.client
import json
import os
import re
import shutil
import socket
import ssl
import subprocess
import sys
import time
import unittest

sys.dont_write_bytecode = True
import tarnd
import tls_ops_world
from origin import Origin
from tls_ops_world import openssl

origin = None
BODY = "/body?n=10&framing=length"
FIELDS = ("$scheme $https $ssl_protocol $ssl_cipher $ssl_session_reused $ssl_server_name \"$ssl_client_s_dn\" "
          "\"$ssl_client_i_dn\" $ssl_client_serial $ssl_client_fingerprint $cache $request_uri")


def facts(path):
    """(serial, fingerprint) of a certificate, in lower case."""
    text = openssl("x509", "-in", path, "-noout", "-serial", "-fingerprint", "-sha256").lower().split()
    serial, fingerprint = (next(w for w in text if key in w).partition("=")[2] for key in ("serial", "fingerprint="))
    return serial, fingerprint.replace(":", "")


class Case(tls_ops_world.Case):
    def backends(self, more=""):
        return f"backends:\n  default: {{ address: '{origin.address}' }}\nparameters: {{ {more} }}\n"


class Log(Case):
    def test_each_request_has_what_the_handshake_said(self):
        log = f"{self.home}/access.log"
        self.start(self.backends(f"access_log: '{log}', access_log_format: '{FIELDS}'"),
                   tls=f", client_auth: optional, client_ca: {self.ca.pem}")
        joe = self.ca.pair(f"{self.home}/joe.pem", subject="/O=Work/CN=joe")
        context = self.context(joe)
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        s = self.connect(context)
        self.assertEqual(self.ask(s, BODY).status, 200)
        self.assertEqual(self.ask(self.connect(context, session=s.session), BODY).status, 200)
        self.assertEqual(self.ask(self.connect(name="a.test"), BODY).status, 200)
        with self.connect() as s:
            s.sendall(b"NONSENSE\r\n\r\n")
            self.assertIn(b" 400 ", tarnd.read_to_end(s))
        self.assertEqual(self.tarnd.ask(BODY).status, 200)
        tarnd.wait_until(lambda: len(self.records()) == 5, "five records")
        records = self.records()
        self.assertEqual([r["scheme"] for r in records], ["https"] * 4 + ["http"])
        # The scheme is in the key: each has its own miss.
        self.assertEqual([r["cache"] for r in records], ["miss", "hit", "hit", "error", "miss"])
        self.assertIsNone(records[4]["tls"])
        first, resumed, plain, bad = (r["tls"] for r in records[:4])
        serial, fingerprint = facts(joe)
        self.assertEqual(first, {
            "resumed": False, "early_data": False, "version": "TLSv1.2",
            "cipher": "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "server_name": "a.test", "client_serial": serial, "client_fingerprint": fingerprint,
            "client_subject": "CN=joe,O=Work", "client_issuer": "CN=Test CA"}, first)
        self.assertEqual(resumed, {**first, "resumed": True})
        self.assertEqual((plain["version"], plain["client_subject"], plain["client_serial"]), ("TLSv1.3", None, None))
        self.assertEqual(bad, plain)
        grouped = self.tarnctl("log", "--all")
        self.assertIn("ReqTLS         version=TLSv1.2 cipher=TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256 reused=r "
                      f"server_name=a.test client_serial={serial} client_fingerprint={fingerprint} "
                      "client_subject=CN=joe,O=Work client_issuer=CN=Test CA\n", grouped)
        self.assertEqual(grouped.count("ReqTLS"), 4)
        self.assertEqual(self.tarnd.close(), 0)
        with open(log, encoding="utf-8") as f:
            lines = f.read().splitlines()
        suite = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"
        self.assertEqual(lines[0], f'https on TLSv1.2 {suite} . a.test "CN=joe,O=Work" "CN=Test CA" {serial} '
                                   f'{fingerprint} miss {BODY}')
        self.assertEqual(lines[1], lines[0].replace(" . ", " r ").replace(" miss ", " hit "))
        self.assertRegex(lines[2], r'^https on TLSv1\.3 TLS_\w+ \. a\.test "-" "-" - - hit ')
        self.assertRegex(lines[3], r'^https on TLSv1\.3 TLS_\w+ \. a\.test "-" "-" - - error ')
        self.assertEqual(lines[4], f'http - - - - - "-" "-" - - miss {BODY}')

    def test_a_trusted_proxy_says_https_and_nothing_of_tls(self):
        self.start(self.backends() + "trusted_proxies: ['127.0.0.1']\n")
        self.assertEqual(self.tarnd.ask(BODY, "X-Forwarded-For: 192.0.2.7", "X-Forwarded-Proto: https").status, 200)
        tarnd.wait_until(lambda: len(self.records()) == 1, "a record")
        record, = self.records()
        self.assertEqual((record["scheme"], record["tls"], record["client"]), ("https", None, "192.0.2.7"))


class Staples(Case):
    """OCSP at the wire, by openssl on the other side."""

    def staple(self, status="V", ca=None, of="a.test"):
        """An OCSP response beside a.test.pem, about the certificate `of`, signed by `ca`."""
        ca, pem = ca or self.ca, f"{self.home}/certs/{of}.pem"
        serial = facts(pem)[0].upper()
        when = "" if status == "V" else "260101000000Z"
        with open(f"{self.home}/index.txt", "w", encoding="ascii") as f:
            f.write(f"{status}\t301231235959Z\t{when}\t{serial}\tunknown\t/\n")
        openssl("ocsp", "-index", f"{self.home}/index.txt", "-CA", self.ca.pem, "-rsigner", ca.pem, "-rkey", ca.key,
                "-issuer", self.ca.pem, "-cert", pem, "-ndays", "2", "-respout", f"{self.home}/certs/a.test.ocsp")

    def handshake(self, version):
        return openssl("s_client", "-connect", f"127.0.0.1:{self.tls_port}", "-servername", "a.test", "-status", version,
                       "-CAfile", self.ca.pem, input=b"")

    def test_what_is_good_is_sent_and_nothing_else(self):
        for name in ("a.test", "b.test"):
            path = self.ca.pair(f"{self.home}/certs/{name}.pem", name)
            with open(path, "a", encoding="ascii") as f, open(self.ca.pem, encoding="ascii") as issuer:
                f.write(issuer.read())
        self.staple()
        self.start(self.backends())
        versions = ("-tls1_2", "-tls1_3")
        for version in versions:
            said = self.handshake(version)
            self.assertIn("OCSP Response Status: successful", said)
            self.assertIn("Cert Status: good", said)
        row = next(r for listener in json.loads(self.tarnctl("tls", "list", "--json"))["listeners"]
                   for r in listener["certificates"] if r["names"] == ["a.test"])
        self.assertAlmostEqual(row["staple_until"], time.time() + 2 * tls_ops_world.DAY_S, delta=600)

        def expired():
            self.staple()
            path = f"{self.home}/certs/a.test.ocsp"
            with open(path, "rb") as f:
                der = f.read()
            with open(path, "wb") as f:
                f.write(re.sub(rb"20\d\d(\d{10}Z)", rb"2020\1", der))

        twin = tls_ops_world.Authority(f"{self.home}/twin")  # of the same name, with another key
        for make, why in ((expired, "is not good now"), (lambda: self.staple("R"), "does not say `good`"),
                          (lambda: self.staple(of="b.test"), "is about another certificate"),
                          (lambda: self.staple(ca=twin), "is not signed by the certificate's issuer")):
            make()
            self.tarnctl("tls", "reload")
            for version in versions:
                self.assertIn("OCSP response: no response sent", self.handshake(version), why)
            self.assertRegex(self.said(), rf"a\.test\.ocsp: {why}.*; it is not sent")
            row = next(r for listener in json.loads(self.tarnctl("tls", "list", "--json"))["listeners"]
                       for r in listener["certificates"] if r["names"] == ["a.test"])
            self.assertIsNone(row["staple_until"])
        self.staple()
        self.tarnctl("tls", "reload")
        self.assertIn("Cert Status: good", self.handshake("-tls1_3"))


VARIABLES = ("client.tls.version", "client.tls.cipher", "client.tls.server_name", "client.cert.subject",
             "client.cert.issuer", "client.cert.serial", "client.cert.fingerprint")
POLICY = """vcl 4.1;
import std;
sub vcl_recv {{
    if (req.url ~ "staff" && client.cert.subject !~ "(^|,)O=Work(,|$)") {{ return (synth(403)); }}
}}
sub vcl_backend_response {{ set beresp.http.backend = {read}; }}
sub vcl_deliver {{ set resp.http.client = {read}; }}
"""


class Policy(Case):
    def start_policy(self):
        read = ' + "|" + '.join(VARIABLES + ("client.tls.resumed",))
        unset = "".join(f'\n    if (!{v}) {{ set resp.http.unset = resp.http.unset + " {v}"; }}' for v in VARIABLES)
        text = POLICY.format(read=read)
        with open(f"{self.home}/p.vcl", "w", encoding="utf-8") as f:
            f.write(text.replace("set resp.http.client", unset + "\n    set resp.http.client"))
        self.start(f"backends:\n  default: {{ address: '{origin.address}' }}\nvcl: {self.home}/p.vcl\n",
                   tls=f", client_auth: optional, client_ca: {self.ca.pem}")

    def test_a_policy_reads_what_the_handshake_said_on_both_sides(self):
        self.start_policy()
        joe = self.ca.pair(f"{self.home}/joe.pem", subject="/O=Work/CN=joe")
        serial, fingerprint = facts(joe)
        context = self.context(joe)
        s = self.connect(context)
        said = f"{s.version()}|{s.cipher()[0]}|a.test|CN=joe,O=Work|CN=Test CA|{serial}|{fingerprint}|false"
        answer = self.ask(s, BODY)
        self.assertEqual(answer.fields["client"], said)
        # The client that the fetch was for, and that may have left.
        self.assertEqual(answer.fields["backend"], said)
        self.assertNotIn("unset", answer.fields)
        answer = self.ask(self.connect(context, session=s.session), BODY)
        self.assertEqual(answer.fields["client"], said.replace("false", "true"))
        self.assertEqual(answer.fields["backend"], said)
        answer = self.ask(self.connect(), BODY)
        self.assertEqual(answer.fields["client"], f"{s.version()}|{s.cipher()[0]}|a.test|||||false")
        self.assertEqual(answer.fields["unset"].split(), list(VARIABLES[3:]))

    def test_on_a_plain_connection_they_are_unset(self):
        self.start_policy()
        answer = self.tarnd.ask(BODY)
        self.assertEqual((answer.fields["client"], answer.fields["backend"]), ("|||||||false", "|||||||false"))
        self.assertEqual(answer.fields["unset"].split(), list(VARIABLES))

    def test_a_certificate_decides(self):
        self.start_policy()
        staff = self.context(self.ca.pair(f"{self.home}/joe.pem", subject="/O=Work/CN=joe"))
        guest = self.context(self.ca.pair(f"{self.home}/guest.pem", subject="/O=Workers/CN=guest"))
        self.assertEqual(self.ask(self.connect(staff), BODY + "&staff").status, 200)
        self.assertEqual(self.ask(self.connect(guest), BODY + "&staff").status, 403)
        self.assertEqual(self.ask(self.connect(), BODY + "&staff").status, 403)
        self.assertEqual(self.tarnd.ask(BODY + "&staff").status, 403)

    def test_why_says_what_the_policy_sees_of_tls(self):
        self.start_policy()
        text = self.tarnctl("why", "https://A.test:8443/staff")
        self.assertIn("here TLSv1.3 with TLS_AES_128_GCM_SHA256, server name a.test, no certificate.", text)
        self.assertIn("403", text)
        self.assertIn("here nothing, for the URL is http.", self.tarnctl("why", "http://a.test/x"))


class Check(Case):
    """tarnd -t."""

    def check(self, listen, more="", status=0):
        config = f"{self.home}/t.yaml"
        with open(config, "w", encoding="utf-8") as f:
            f.write(f"listen: [{listen}]\n" + (more or "backends: {o: {address: '127.0.0.1:9'}}\n"))
        done = subprocess.run([self.program, "-t", "-c", config], capture_output=True, text=True,
                              timeout=tarnd.PATIENCE_S)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stderr

    def listener(self, tls):
        return f"{{address: '127.0.0.1:{self.tls_port}', tls: {{{tls}}}}}"

    def test_good_certificates_are_fine(self):
        self.assertEqual(self.check(self.listener(
            f"certificates: {self.home}/certs, client_auth: required, client_ca: {self.ca.pem}")), "")

    def test_each_bad_file_is_named_with_its_line(self):
        certs = f"{self.home}/certs"
        with open(f"{certs}/a.test.pem", encoding="utf-8") as f:
            good = f.read()
        self.ca.pair(f"{certs}/b.test.pem", "b.test")
        with open(f"{certs}/b.test.pem", encoding="utf-8") as f:
            other = f.read()
        key = good.index("-----BEGIN PRIVATE KEY")
        # Names can be read, the key is another's: found only by parsing.
        self.write(f"{certs}/mixed.pem", good[:key] + other[other.index("-----BEGIN PRIVATE KEY"):])
        self.write(f"{certs}/short.pem", good[:key] + "-----BEGIN PRIVATE KEY-----\nMIGH\n")
        said = self.check(self.listener(f"certificates: {certs}"), status=2)
        line = 1 + good[:key].count("\n")
        self.assertIn(f"{certs}/mixed.pem:{line}: is the key of another certificate", said)
        self.assertIn(f"{certs}/short.pem:{line}: the block has no END line", said)
        self.assertNotRegex(said, "(?m)^[^ ]*/[ab].test.pem")
        self.assertIn("2 errors in what its TLS needs", said)

    def write(self, path, text):
        with open(path, "w", encoding="utf-8", opener=lambda p, flags: os.open(p, flags, 0o600)) as f:
            f.write(text)

    def test_what_stands_beside_the_certificates_is_looked_at(self):
        certs = f"certificates: {self.home}/certs"
        self.write(f"{self.home}/empty", "")
        said = self.check(self.listener(certs + f", session_secret: {self.home}/empty"), status=2)
        self.assertIn(f"{self.home}/empty: session_secret: it has 0 bytes: 32 to 4096 random ones are needed", said)
        said = self.check(self.listener(certs + f", session_secret: {self.home}/none"), status=2)
        self.assertIn(f"{self.home}/none: session_secret: No such file or directory\n", said)
        said = self.check(self.listener(
            certs + f", client_auth: required, client_ca: {self.home}/empty"), status=2)
        self.assertRegex(said, rf"{self.home}/empty: client_ca: .*it has to hold certificates in PEM\n")

    def test_files_of_backends_are_looked_at(self):
        listener = self.listener(f"certificates: {self.home}/certs")
        backend = "backends: {{o: {{address: 'https://127.0.0.1:9', tls: {{{}}}}}}}\n"
        self.assertEqual(self.check(listener, backend.format(f"ca: {self.ca.pem}")), "")
        self.write(f"{self.home}/empty", "")
        for key in "ca", "certificate":
            said = self.check(listener, backend.format(f"{key}: {self.home}/empty"), status=2)
            self.assertRegex(said, rf"(?m)^tarnd: backend 'o': {self.home}/empty: ")

    def test_a_challenge_that_no_listener_answers_is_warned_of(self):
        acme = f"acme: {{names: [a.test], state: {self.home}/acme}}, certificates: {self.home}/certs"
        said = self.check(self.listener(acme))
        self.assertIn("warning: listener '127.0.0.1:", said)
        self.assertIn("say `challenge: tls-alpn-01`", said)
        plain = f"{{address: '127.0.0.1:{tarnd.free_port()}'}}"
        # What remains are ports of the test's own, and its `certificates` beside acme's.
        self.assertNotIn("say `challenge:", self.check(self.listener(acme) + ", " + plain))
        said = self.check(self.listener(acme.replace("state", "challenge: tls-alpn-01, state")))
        self.assertIn("the CA asks on port 443", said)
        self.assertNotIn("say `challenge:", said)


class Certificates(Case):
    """What there is, and reading it anew: API, tarnctl, metrics."""

    def metric(self, name):
        conn = socket.socket(socket.AF_UNIX)
        conn.connect(f"{self.home}/admin.sock")
        with conn:
            conn.sendall(tarnd.request("/metrics", "Connection: close", host="tarn"))
            text = tarnd.read_to_end(conn).decode()
        found = re.findall(rf'(?m)^tarn_{name}{{listener="([^"]*)",address="127.0.0.1:{self.tls_port}"}} (-?\d+)$', text)
        self.assertEqual(len(found), 1, f"{name}: {text[-3000:]}")
        return int(found[0][1])

    def rows(self):
        answer = json.loads(self.tarnctl("tls", "list", "--json"))
        self.assertEqual([x["address"] for x in answer["listeners"]], [f"127.0.0.1:{self.tls_port}"])
        return {os.path.basename(x["file"]): x for x in answer["listeners"][0]["certificates"]}

    def write(self, path, text):
        with open(path, "w", encoding="utf-8", opener=lambda p, flags: os.open(p, flags, 0o600)) as f:
            f.write(text)

    def test_what_there_is_is_listed(self):
        self.ca.pair(f"{self.home}/certs/b.test.pem", "b.test", "www.b.test", "*.b.test", days=3)
        self.start(self.backends())
        rows = self.rows()
        self.assertEqual(sorted(rows), ["a.test.pem", "b.test.pem"])
        b = rows["b.test.pem"]
        self.assertEqual(sorted(b["names"]), ["*.b.test", "b.test", "www.b.test"])
        self.assertAlmostEqual(b["not_after"], time.time() + 3 * 86400, delta=600)
        self.assertAlmostEqual(b["not_before"], time.time() - 86400, delta=600)
        self.assertEqual((b["kind"], b["bits"], b["issuer"], b["key_file"]), ("ecdsa", 256, "Test CA", None))
        self.assertEqual((b["default"], b["parsed"], b["kept"], b["error"]), (False, False, False, None))
        self.assertTrue(rows["a.test.pem"]["default"])
        self.connect(name="b.test")
        self.assertEqual({f: r["parsed"] for f, r in self.rows().items()}, {"a.test.pem": False, "b.test.pem": True})
        self.assertRegex(self.tarnctl("tls", "list"), r"b\.test, .*, and 1 more +20\d\d-\d\d-\d\d +[23] +ecdsa 256 +in use")
        self.assertIn("1 more of listener", self.tarnctl("tls", "list", "--limit", "1"))
        self.assertEqual([self.metric(n) for n in ("tls_certificates", "tls_certificates_parsed",
                                                   "tls_certificate_parse_failures_total")], [2, 1, 0])
        self.assertAlmostEqual(self.metric("tls_certificate_expiry_seconds"), 3 * 86400, delta=600)
        summary = self.tarnd_admin("/v1/tls/summary")["listeners"][0]
        self.assertEqual((summary["certificates"], summary["names"]), (2, 4))
        self.assertTrue(summary["soonest_file"].endswith("/b.test.pem"))

    def tarnd_admin(self, target):
        conn = http.client.HTTPConnection("tarn")
        conn.sock = socket.socket(socket.AF_UNIX)
        conn.sock.connect(f"{self.home}/admin.sock")
        conn.request("GET", target)
        answer = json.load(conn.getresponse())
        conn.close()
        return answer

    def test_a_reload_says_what_changed(self):
        self.ca.pair(f"{self.home}/certs/b.test.pem", "b.test")
        self.start(self.backends())
        before = self.connect().getpeercert(True)
        self.assertIn("2 files with certificates, 0 changes", self.tarnctl("tls", "reload"))
        self.ca.pair(f"{self.home}/certs/a.test.pem", "a.test", days=200)
        os.remove(f"{self.home}/certs/b.test.pem")
        self.ca.pair(f"{self.home}/certs/c.test.pem", "c.test")
        self.assertEqual(self.connect().getpeercert(True), before)
        said = self.tarnctl("tls", "reload")
        self.assertEqual(said.splitlines()[:3], [f"added {self.home}/certs/c.test.pem",
                                                 f"changed {self.home}/certs/a.test.pem",
                                                 f"removed {self.home}/certs/b.test.pem"])
        self.assertIn("2 files with certificates, 3 changes", said)
        self.assertNotEqual(self.connect().getpeercert(True), before)
        self.connect(name="c.test")
        self.assertEqual(self.metric("tls_reload_failures_total"), 0)
        self.assertIn("POST /v1/tls/reload", self.said())

    def test_a_bad_file_is_told_and_the_one_before_is_kept(self):
        self.ca.pair(f"{self.home}/certs/b.test.pem", "b.test")
        self.start(self.backends())
        before = self.connect().getpeercert(True)
        self.write(f"{self.home}/certs/a.test.pem", "-----BEGIN CERTIFICATE-----\nMII\n")
        self.ca.pair(f"{self.home}/certs/c.test.pem", "c.test")
        said = self.tarnctl("tls", "reload", status=1)
        self.assertRegex(said, rf"{self.home}/certs/a\.test\.pem:1: .*no END line")
        self.assertIn(f"added {self.home}/certs/c.test.pem\n", said)
        self.assertEqual(self.connect().getpeercert(True), before)
        self.assertTrue(self.rows()["a.test.pem"]["kept"])
        self.assertIn(" kept ", self.tarnctl("tls", "list"))
        self.assertEqual(self.metric("tls_reload_failures_total"), 1)

    def test_where_nothing_would_be_left_nothing_changes(self):
        self.start(self.backends())
        before = self.rows()
        os.rename(f"{self.home}/certs", f"{self.home}/gone")
        said = self.tarnctl("tls", "reload", status=1)
        self.assertIn(f"{self.home}/certs: ", said)
        self.assertIn("its certificates cannot be used", said)
        self.assertIn("nothing has changed", said)
        self.assertEqual(self.rows(), before)
        self.assertEqual(self.metric("tls_reload_failures_total"), 1)
        os.rename(f"{self.home}/gone", f"{self.home}/certs")
        self.assertIn("0 changes", self.tarnctl("tls", "reload"))


HAPROXY = """
global
    log stderr format raw local0
defaults
    mode {mode}
    timeout connect 10s
    timeout client 10s
    timeout server 10s
{rest}
"""


@unittest.skipUnless(shutil.which("haproxy"), "haproxy is not installed")
class Haproxy(Case):
    """PROXY v2 with what TLS said, from HAProxy and to it."""

    def haproxy(self, mode, rest, port):
        with open(f"{self.home}/haproxy.cfg", "w", encoding="utf-8") as f:
            f.write(HAPROXY.format(mode=mode, rest=rest))
        log = open(f"{self.home}/haproxy.log", "wb")
        self.addCleanup(log.close)
        process = subprocess.Popen([shutil.which("haproxy"), "-db", "-f", f"{self.home}/haproxy.cfg"],
                                   stdout=log, stderr=log)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)

        def listens():
            self.assertIsNone(process.poll(), f"haproxy has ended: {self.home}/haproxy.log")
            with socket.socket() as s:
                return s.connect_ex(("127.0.0.1", port)) == 0
        tarnd.wait_until(listens, "haproxy")

    def test_what_haproxy_says_of_tls_is_believed(self):
        proxied, front = tarnd.free_port(), tarnd.free_port()
        self.write_policy()
        self.start(f"backends:\n  default: {{ address: '{origin.address}' }}\nvcl: {self.home}/p.vcl\n",
                   before=f"  - {{address: '127.0.0.1:{proxied}', proxy_protocol: required, trusted: ['127.0.0.1']}}\n")
        self.haproxy("tcp", f"""
frontend f
    bind 127.0.0.1:{front} ssl crt {self.home}/certs/a.test.pem verify optional ca-file {self.ca.pem}
    default_backend b
backend b
    server s 127.0.0.1:{proxied} send-proxy-v2-ssl-cn proxy-v2-options authority,ssl-cipher
""", front)
        context = self.context(self.ca.pair(f"{self.home}/joe.pem", subject="/O=Work/CN=joe, the first"))
        s = self.connect(context, port=front)
        answer = self.ask(s, BODY)
        self.assertEqual(answer.status, 200)
        version, cipher, name, subject, *rest = answer.fields["client"].split("|")
        self.assertEqual((version, name, subject), (s.version(), "a.test", "CN=joe\\, the first"))
        self.assertTrue(cipher)
        self.assertEqual(rest, ["", "", "", "false"])
        self.assertEqual(self.ask(self.connect(port=front), BODY).fields["client"].split("|")[3], "")
        tarnd.wait_until(lambda: len(self.records()) == 2, "two records")
        record = self.records()[0]
        self.assertEqual((record["scheme"], record["client"]), ("https", "127.0.0.1"))
        self.assertEqual(record["tls"]["client_subject"], "CN=joe\\, the first")

    def write_policy(self):
        read = ' + "|" + '.join(VARIABLES + ("client.tls.resumed",))
        with open(f"{self.home}/p.vcl", "w", encoding="utf-8") as f:
            f.write(POLICY.format(read=read))

    def test_haproxy_takes_what_we_say(self):
        port = tarnd.free_port()
        self.haproxy("http", f"""
frontend f
    bind 127.0.0.1:{port} accept-proxy
    http-request return status 200 content-type text/plain hdr authority %[fc_pp_authority] hdr src %[src]
""", port)
        self.start(f"backends:\n  default: {{ address: '127.0.0.1:{port}', proxy_header: 2 }}\n"
                   "directors: {d: {type: round_robin, backends: [default]}}\n",
                   tls=f", client_auth: optional, client_ca: {self.ca.pem}")
        context = self.context(self.ca.pair(f"{self.home}/joe.pem", subject="/O=Work/CN=joe"))
        answer = self.ask(self.connect(context), "/one")
        self.assertEqual((answer.status, answer.fields["authority"], answer.fields["src"]), (200, "a.test", "127.0.0.1"))
        answer = self.tarnd.ask("/two")
        self.assertEqual((answer.status, answer.fields.get("authority", "")), (200, ""))


def main():
    global origin
    Case.program, Case.ctl = sys.argv[1:3]
    with Origin() as origin:
        unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2)


main()
