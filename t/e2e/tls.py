#!/usr/bin/env python3
"""tls.py TARND [TEST...] -- HTTPS of a listener: clients, versions, certificates by name, and every form of message.

`tls_attack.py` has what hostile clients do, `tls_certs.py` what operators do.
"""
import concurrent.futures
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import unittest

sys.dont_write_bytecode = True
import tarnd
from acme_world import openssl
from origin import Handler, Origin, body
from tls_world import CURVE, TLS12, TLS13, Wire, World, client_context, pki, read_answer, read_whole, unchunk

CONFIG = """backends: {{ default: {{ address: '{origin}' }} }}
routes: [ {{ path: /script/pipe, pipe: on }}, {{ backend: default }} ]
parameters: {{ timeout_idle: 60s {more} }}
"""
MIB = 1 << 20
origin = None


class Uploads(Handler):
    def do_POST(self):
        if self.headers.get("Transfer-Encoding") == "chunked":
            got = b""
            while size := int(self.rfile.readline(), 16):
                got += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            got = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", str(len(got)))
        self.end_headers()
        self.wfile.write(got)


def show_head(handler):
    text = "".join(f"{k}: {v}\n" for k, v in handler.headers.items()).encode()
    handler.start("length", len(text), "no-store")
    handler.piece(text)


def echo_pipe(handler):
    """Answers 101 and then says back what it hears, until its end."""
    handler.wfile.write(b"HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n")
    handler.wfile.flush()
    while data := handler.connection.recv(65536):
        handler.connection.sendall(data)
    handler.close_connection = True


def break_off(handler):
    """A body that ends with the connection, and too early: the connection is reset."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + b"x" * 50000)
    handler.wfile.flush()
    tarnd.reset(handler.connection)
    handler.close_connection = True


def to_the_end(handler):
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\nCache-Control: no-store\r\n\r\n" + b"y" * 50000)
    handler.close_connection = True


class Https(World):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        origin.script("head", show_head)
        origin.script("pipe", echo_pipe)
        origin.script("broken", break_off)
        origin.script("to-the-end", to_the_end)

    def tls(self, more="", tls="", listen="", **rest):
        """One listener, with the certificates of all names."""
        listener = f"    tls: {{ certificates: {pki().certs}{tls} }}\n" + (listen and f"    {listen}\n")
        return self.start(CONFIG.format(origin=origin.address, more=more), listener, **rest)


class Clients(Https):
    def run_client(self, *command, **more):
        return subprocess.run(command, capture_output=True, timeout=tarnd.PATIENCE_S, check=False, **more)

    def test_curl(self):
        it = self.tls()
        at = ["curl", "-sS", "--cacert", pki().ca.pem, "--resolve", f"a.test:{it.port}:127.0.0.1",
              f"https://a.test:{it.port}/body?n=100000&framing=chunked"]
        for more in (["--tlsv1.3"], ["--tls-max", "1.2"], ["--http1.1"], ["--no-alpn"], ["--http1.0"]):
            done = self.run_client(*at, *more)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(done.stdout, body(100000), more)
        done = self.run_client(*at, "--tls-max", "1.1", "--tlsv1.0")
        self.assertNotEqual(done.returncode, 0)

    def test_s_client(self):
        it = self.tls()
        for version in ("-tls1_2", "-tls1_3"):
            done = self.run_client(
                "openssl", "s_client", "-connect", f"127.0.0.1:{it.port}", "-servername", "a.test", "-CAfile",
                pki().ca.pem, "-verify_return_error", "-verify_hostname", "a.test", "-quiet", version,
                input=tarnd.request("/body?n=1000&framing=length", "Connection: close", host="a.test"))
            self.assertEqual(tarnd.Answer(done.stdout).body, body(1000), done.stderr)

    @unittest.skipUnless(shutil.which("node"), "no node")
    def test_node(self):
        it = self.tls()
        done = self.run_client("node", "-e", f"""
            const https = require("https"), fs = require("fs");
            const agent = new https.Agent({{keepAlive: true, maxSockets: 1}});
            let left = 3;
            function next() {{
              https.get({{host: "127.0.0.1", port: {it.port}, servername: "a.test", agent, path:
                  "/body?n=300000&framing=length", headers: {{Host: "a.test"}}, ca: fs.readFileSync("{pki().ca.pem}")}}, r => {{
                let n = 0;
                r.on("data", d => n += d.length);
                r.on("end", () => {{ console.log(r.statusCode, n); --left ? next() : agent.destroy(); }});
              }});
            }}
            next();""")
        self.assertEqual(done.stdout.decode().split(), ["200", "300000"] * 3, done.stderr)

    @unittest.skipUnless(shutil.which("go"), "no go")
    def test_go(self):
        it = self.tls()
        folder = tempfile.mkdtemp(prefix="tarn-go.")
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        with open(f"{folder}/main.go", "w", encoding="ascii") as f:
            f.write("""package main
import ("crypto/tls"; "crypto/x509"; "fmt"; "io"; "net/http"; "os")
func main() {
	pem, _ := os.ReadFile(os.Args[1])
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	c := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, ServerName: "a.test",
		ClientSessionCache: tls.NewLRUClientSessionCache(4)}}}
	for i := 0; i < 3; i++ {
		r, err := c.Get(os.Args[2])
		if err != nil { fmt.Println(err); os.Exit(1) }
		b, err := io.ReadAll(r.Body)
		fmt.Println(r.StatusCode, len(b), err, r.TLS.DidResume)
		c.CloseIdleConnections()
	}
}
""")
        env = {**os.environ, "GOFLAGS": "-mod=mod", "GO111MODULE": "off", "GOTOOLCHAIN": "local"}
        done = self.run_client("go", "run", f"{folder}/main.go", pki().ca.pem,
                               f"https://127.0.0.1:{it.port}/body?n=300000&framing=length", env=env)
        self.assertEqual(done.stdout.decode().splitlines(),
                         ["200 300000 <nil> false", "200 300000 <nil> true", "200 300000 <nil> true"], done.stderr)

    @unittest.skipUnless(shutil.which("java") and shutil.which("keytool"), "no java")
    def test_java(self):
        it = self.tls()
        folder = tempfile.mkdtemp(prefix="tarn-java.")
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        done = self.run_client("keytool", "-importcert", "-noprompt", "-alias", "ca", "-file", pki().ca.pem, "-keystore",
                               f"{folder}/trust", "-storepass", "secret")
        self.assertEqual(done.returncode, 0, done.stdout)
        with open(f"{folder}/Ask.java", "w", encoding="ascii") as f:
            f.write("""import java.net.URI; import java.net.http.*;
public class Ask {
  public static void main(String[] args) throws Exception {
    HttpClient c = HttpClient.newHttpClient(); // offers h2 and http/1.1
    for (int i = 0; i < 3; i++) {
      HttpResponse<byte[]> r = c.send(HttpRequest.newBuilder(URI.create(args[0])).build(),
          HttpResponse.BodyHandlers.ofByteArray());
      System.out.println(r.statusCode() + " " + r.body().length + " " + r.version());
    }
  }
}
""")
        done = self.run_client("java", f"-Djavax.net.ssl.trustStore={folder}/trust",
                               "-Djavax.net.ssl.trustStorePassword=secret", f"{folder}/Ask.java",
                               f"https://localhost:{it.port}/body?n=300000&framing=length")
        self.assertEqual(done.stdout.decode().splitlines(), ["200 300000 HTTP_2"] * 3, done.stderr)


class Handshakes(Https):
    def test_a_ticket_comes_with_the_handshake(self):
        """A client that has said nothing yet gets it, and with it the acknowledgement that it may wait for."""
        it = self.tls()
        with it.wire(client_context(least=TLS13)).handshake() as w:
            w.hear()
            with self.assertRaises(ssl.SSLWantReadError):
                w.ssl.read(1)
            self.assertTrue(w.ssl.session.has_ticket)

    def version(self, it, **context):
        with it.secure(client_context(**context)) as s:
            return s.version()

    def test_versions(self):
        it = self.tls()
        self.assertEqual(self.version(it), "TLSv1.3")
        self.assertEqual(self.version(it, most=TLS12), "TLSv1.2")
        for old in (ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1):
            context = client_context(least=old, most=old)
            context.set_ciphers("ALL:@SECLEVEL=0")
            with self.assertRaisesRegex(ssl.SSLError, "(?i)protocol.version"):
                it.secure(context)

    def test_modern_refuses_1_2(self):
        it = self.tls(tls=", profile: modern")
        self.assertEqual(self.version(it), "TLSv1.3")
        with self.assertRaisesRegex(ssl.SSLError, "(?i)protocol.version"):
            self.version(it, most=TLS12)
        tarnd.wait_until(lambda: self.counters(it)["sess.tls_failed"] == 1, "it is counted")  # a moment later, on its loop

    def test_suites_without_forward_secrecy_are_refused(self):
        it = self.tls()
        for suites in ("AES128-GCM-SHA256", "ECDHE-RSA-AES128-SHA:ECDHE-ECDSA-AES256-SHA384", "DHE-RSA-AES128-GCM-SHA256"):
            context = client_context(most=TLS12)
            context.set_ciphers(suites)
            with self.assertRaisesRegex(ssl.SSLError, "(?i)handshake.failure", msg=suites):
                it.secure(context)

    def certificate(self, it, name, ciphers=None, host=True):
        """What it is called that the server shows."""
        context = client_context(most=TLS12 if ciphers else None, verify=host)
        context.check_hostname = False
        if ciphers:
            context.set_ciphers(ciphers)
        with it.secure(context, name) as s:
            return dict(pair[0] for pair in s.getpeercert()["subject"])["commonName"]

    def test_ecdsa_and_rsa_side_by_side(self):
        it = self.tls()
        self.assertEqual(self.certificate(it, "a.test"), "a-ec")
        self.assertEqual(self.certificate(it, "a.test", "ECDHE-RSA-AES128-GCM-SHA256"), "a-rsa")
        self.assertEqual(self.certificate(it, "a.test", "ECDHE-ECDSA-AES128-GCM-SHA256"), "a-ec")

    def test_names(self):
        it = self.tls()
        for name, shown in (("exact.wild.test", "exact"), ("x.wild.test", "wild"), ("X.WILD.Test", "wild"),
                            ("a.b.wild.test", "default"), ("wild.test", "default"), ("unknown.test", "default"),
                            ("a.test", "a-ec"), ("A.TEST", "a-ec"), (None, "default"), ("x" * 63 + ".test", "default")):
            self.assertEqual(self.certificate(it, name), shown, name)

    def test_alpn(self):
        it = self.tls(listen="http2: off")
        for offered, agreed in ((["http/1.1"], "http/1.1"), (["http/1.0"], "http/1.0"), (["h2", "http/1.1"], "http/1.1"),
                                (["http/1.0", "http/1.1"], "http/1.1"), (None, None)):
            with it.secure(client_context(alpn=offered)) as s:
                self.assertEqual(s.selected_alpn_protocol(), agreed, offered)
                s.sendall(tarnd.request("/body?n=10&framing=length", "Connection: close", host="a.test"))
                self.assertEqual(tarnd.Answer(read_whole(s)).body, body(10))
        for version in (TLS12, TLS13):
            for offered in (["h2"], ["acme-tls/1"], ["h2", "http/0.9"]):
                with self.assertRaisesRegex(ssl.SSLError, "(?i)no.application.protocol"):
                    it.secure(client_context(least=version, most=version, alpn=offered))
        self.wait_for_words(it, "127.0.0.1: TLS handshake failed: .*application protocol")

    def http2(self, switch, more=""):
        return self.start(CONFIG.format(origin=origin.address, more=""),
                          f"    tls: {{ certificates: {pki().certs}{more} }}\n    http2: {switch}\n")

    def agreed(self, it, offered, **how):
        with it.secure(client_context(alpn=offered, **how)) as s:
            return s.selected_alpn_protocol()

    def test_alpn_of_http2(self):
        it = self.http2("on")
        for offered, agreed in ((["h2"], "h2"), (["http/1.1", "h2"], "h2"), (["h2", "http/1.1"], "h2"),
                                (["http/1.1"], "http/1.1"), (["h2c", "http/1.0"], "http/1.0"), (None, None)):
            for version in (TLS12, TLS13):
                self.assertEqual(self.agreed(it, offered, least=version, most=version), agreed, (offered, version))
        for offered in (["h2c"], ["h3"], ["acme-tls/1"], ["H2"]):
            with self.assertRaisesRegex(ssl.SSLError, "(?i)no.application.protocol", msg=offered):
                self.agreed(it, offered)
        # A reload changes what new connections agree on.
        self.assertEqual(self.agreed(it, ["h2", "http/1.1"]), "h2")
        with open(it.config, "r+", encoding="utf-8") as f:
            text = f.read().replace("http2: on", "http2: off")
            f.seek(0)
            f.truncate()
            f.write(text)
        it.process.send_signal(signal.SIGHUP)
        self.wait_for_words(it, "reload")
        tarnd.wait_until(lambda: self.agreed(it, ["h2", "http/1.1"]) == "http/1.1", "new connections speak HTTP/1.1")
        with self.assertRaisesRegex(ssl.SSLError, "(?i)no.application.protocol"):
            self.agreed(it, ["h2"])

    def test_no_cipher_is_forbidden_to_http2(self):
        """RFC 9113 9.2.2, appendix A: of TLS 1.2 none without an ephemeral key exchange and AEAD."""
        it = self.http2("on")
        all_of_them = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        all_of_them.set_ciphers("ALL:COMPLEMENTOFALL:@SECLEVEL=0")
        chosen = set()
        for cipher in (c["name"] for c in all_of_them.get_ciphers() if not c["name"].startswith("TLS_")):  # of TLS 1.3
            context = client_context(most=TLS12, alpn=["h2", "http/1.1"])
            context.set_ciphers(cipher + ":@SECLEVEL=0")
            try:
                with it.secure(context, "a.test") as s:
                    self.assertEqual((s.cipher()[0], s.selected_alpn_protocol()), (cipher, "h2"))
                    chosen.add(cipher)
            except ssl.SSLError:
                pass
        self.assertEqual(chosen, {f"ECDHE-{key}-{aead}" for key in ("ECDSA", "RSA")
                                  for aead in ("AES128-GCM-SHA256", "AES256-GCM-SHA384", "CHACHA20-POLY1305")})

    def challenge(self, state, name):
        """RFC 8737 3, as tarn-acme lays it down; what it shows is b"A" for 32 times."""
        folder = os.path.join(state, "challenges/tls-alpn-01")
        os.makedirs(folder, exist_ok=True)
        shown = "1.3.6.1.5.5.7.1.31=critical,DER:0420" + "41" * 32
        openssl("req", "-x509", *CURVE, "-nodes", "-subj", "/", "-addext", f"subjectAltName=DNS:{name}",
                          "-addext", shown, "-keyout", f"{folder}/key", "-out", f"{folder}/crt")
        with open(f"{folder}/{name}.pem", "w", encoding="ascii") as pem:
            for part in ("crt", "key"):
                with open(f"{folder}/{part}", encoding="ascii") as f:
                    pem.write(f.read())
                os.unlink(f"{folder}/{part}")
        os.chmod(f"{folder}/{name}.pem", 0o600)

    def test_challenges_of_acme(self):
        state = tempfile.mkdtemp(prefix="tarn-acme.")
        self.addCleanup(shutil.rmtree, state)
        for tls in ("", f"certificates: {pki().certs}, "):  # before there is a certificate, and beside others
            it = self.start(CONFIG.format(origin=origin.address, more=""),
                            f"    tls: {{ {tls}acme: {{ names: [a.test], state: {state} }} }}\n")
            self.challenge(state, "a.test")
            for version in (TLS12, TLS13):
                asks = client_context(least=version, most=version, alpn=["acme-tls/1"], verify=False)
                with it.secure(asks) as s:
                    self.assertEqual(s.selected_alpn_protocol(), "acme-tls/1")
                    self.assertIn(b"\x04\x20" + b"A" * 32, s.getpeercert(binary_form=True))
                    with self.assertRaises(ssl.SSLEOFError):  # RFC 8737 3: nothing else is done with the connection
                        s.recv(1)
            with self.assertRaises(ssl.SSLError):  # a challenge is for its name alone
                it.secure(asks, name="exact.wild.test")
            if tls:
                for offered in (["acme-tls/1", "http/1.1"], ["http/1.1"]):
                    with it.secure(client_context(alpn=offered)) as s:
                        self.assertEqual(s.selected_alpn_protocol(), "http/1.1")
            os.unlink(os.path.join(state, "challenges/tls-alpn-01/a.test.pem"))

    def answered(self, it, version, certificate):
        """The status; or the alert, which in TLS 1.3 comes behind the client's handshake (RFC 8446 4.4.2.4)."""
        try:
            return it.ask_tls("/body?n=10&framing=length", context=client_context(
                least=version, most=version, certificate=certificate)).status
        except ssl.SSLError as e:
            return str(e).lower().replace("_", " ")

    def test_client_certificates(self):
        ca = f", client_ca: {pki().ca.pem}"
        for version in (TLS12, TLS13):
            off = self.tls()
            for certificate in (None, pki().me, pki().stranger):
                self.assertEqual(self.answered(off, version, certificate), 200)
            optional = self.tls(tls=", client_auth: optional" + ca)
            required = self.tls(tls=", client_auth: required" + ca)
            for it, none in ((optional, 200), (required, "required" if version == TLS13 else "handshake failure")):
                self.assertEqual(self.answered(it, version, pki().me), 200)
                self.assertIn("expired", self.answered(it, version, pki().expired))
                self.assertIn("unknown ca", self.answered(it, version, pki().stranger))
                answer = self.answered(it, version, None)
                if none == 200:
                    self.assertEqual(answer, 200)
                else:
                    self.assertIn(none, answer)
                self.wait_for_words(it, "TLS handshake failed: .*certificate")

    def test_a_servers_certificate_is_no_clients(self):
        """RFC 5280 4.2.1.12."""
        pair = pki().leaf("server-only", [], more=("-addext", "extendedKeyUsage=serverAuth"))
        it = self.tls(tls=f", client_auth: optional, client_ca: {pki().ca.pem}")
        for version in (TLS12, TLS13):
            self.assertIn("unsupported certificate", self.answered(it, version, pair))


class Messages(Https):
    def test_keep_alive_and_a_hit(self):
        it = self.tls()
        with it.secure() as s:
            for i in range(20):
                s.sendall(tarnd.request("/body?n=5000&framing=length&k=1", host="a.test"))
                answer = read_answer(s.recv)
                self.assertEqual(answer.body, body(5000))
                self.assertTrue(answer.fields["cache-status"].startswith("tarn; " + ("hit" if i else "fwd=uri-miss")))
        self.assertEqual(self.counters(it)["sess.tls"], 1)

    def test_pipelining(self):
        it = self.tls()
        sizes = [1, 100, 5000, 70000, 16384, 16383, 16385, 0] * 12
        for version in (TLS12, TLS13):
            with it.secure(client_context(least=version, most=version)) as s:
                asked = b"".join(tarnd.request(f"/body?n={n}&framing=length&{version}", host="a.test") for n in sizes)
                sender = threading.Thread(target=s.sendall, args=(asked,))
                sender.start()
                sender.join()
                left = bytearray()
                for n in sizes:
                    while b"\r\n\r\n" not in left:
                        left += s.recv(65536)
                    head, _, rest = bytes(left).partition(b"\r\n\r\n")
                    self.assertTrue(head.startswith(b"HTTP/1.1 200"), head)
                    left = bytearray(rest)
                    while len(left) < n:
                        left += s.recv(65536)
                    self.assertEqual(bytes(left[:n]), body(n))
                    del left[:n]

    def test_bodies_of_every_size_hit_and_miss(self):
        it = self.tls()
        for n in (MIB, 20 * MIB):
            for framing in ("length", "chunked"):
                for time in range(2):
                    answer = it.ask_tls(f"/body?n={n}&framing={framing}")
                    if framing == "chunked" and "transfer-encoding" in answer.fields:
                        answer.body = unchunk(answer.body)
                    self.assertTrue(answer.body == body(n), f"{n} {framing} {time}: {len(answer.body)} bytes")

    def test_a_slow_reader_gets_every_byte(self):
        it = self.tls()
        with Wire(it.connect(receive_buffer=4096), client_context()).handshake() as w:
            w.send(tarnd.request(f"/body?n={20 * MIB}&framing=length", "Connection: close", host="a.test"))
            self.assertTrue(tarnd.Answer(w.read_to_end()).body == body(20 * MIB))

    def test_head_and_ranges_and_conditions(self):
        it = self.tls()
        target = "/body?n=100000&framing=length&r=1"
        with it.secure() as s:
            s.sendall(tarnd.request(target, host="a.test"))
            self.assertEqual(read_answer(s.recv).body, body(100000))
            s.sendall(tarnd.request(target, method="HEAD", host="a.test"))
            head = s.recv(65536)
            self.assertIn(b"Content-Length: 100000\r\n", head)
            self.assertTrue(head.endswith(b"\r\n\r\n"))
            for first, last in ((0, 0), (99999, 99999), (5, 70000), (16383, 16385)):
                s.sendall(tarnd.request(target, f"Range: bytes={first}-{last}", host="a.test"))
                answer = read_answer(s.recv)
                self.assertEqual((answer.status, answer.body), (206, body(100000)[first:last + 1]))

    def test_uploads(self):
        it = self.tls()
        data = body(5000000)
        for version in (TLS12, TLS13):
            context = client_context(least=version, most=version)
            self.assertTrue(it.ask_tls("/up", f"Content-Length: {len(data)}", method="POST", body=data,
                                       context=context).body == data)
            chunks = b"".join(b"%x\r\n%s\r\n" % (len(data[at:at + 77777]), data[at:at + 77777])
                              for at in range(0, len(data), 77777)) + b"0\r\n\r\n"
            self.assertTrue(it.ask_tls("/up", "Transfer-Encoding: chunked", method="POST", body=chunks,
                                       context=context).body == data)

    def test_expect(self):
        it = self.tls()
        with it.secure() as s:
            s.sendall(tarnd.request("/up", "Content-Length: 5", "Expect: 100-continue", method="POST", host="a.test"))
            self.assertTrue(s.recv(65536).startswith(b"HTTP/1.1 100 "))
            s.sendall(b"hello")
            self.assertEqual(read_answer(s.recv).body, b"hello")

    def test_a_tunnel(self):
        it = self.tls()
        data = body(3 * MIB)
        for end in ("close_notify", "without"):
            with it.wire().handshake() as w:
                w.send(tarnd.request("/script/pipe", "Connection: upgrade", "Upgrade: echo", host="a.test"))
                self.assertTrue(w.call(w.ssl.read, 65536).startswith(b"HTTP/1.1 101 "))
                got = bytearray()
                for at in range(0, len(data), 30000):
                    w.send(data[at:at + 30000])
                    while len(got) < at:
                        got += w.call(w.ssl.read, 65536)
                if end == "close_notify":
                    while w.into.pending:  # unwrap() would take them for a mistake of the server's
                        got += w.call(w.ssl.read, 65536)
                    w.shut()
                while len(got) < len(data):
                    got += w.call(w.ssl.read, 65536)
                if end == "without":
                    w.sock.shutdown(socket.SHUT_WR)
                self.assertEqual(w.read_to_end(), b"")  # by close_notify, as the origin ended in order
                self.assertTrue(bytes(got) == data)

    def test_what_the_client_has_ended_is_answered(self):
        """A hit, asked by a client that has nothing more to say (RFC 8446 6.1)."""
        it = self.tls()
        target = "/body?n=100000&framing=length&half=1"
        it.ask_tls(target)
        for version in (TLS12, TLS13):
            for end in ("close_notify", "FIN", "both"):
                with it.wire(client_context(least=version, most=version)).handshake() as w:
                    w.ssl.write(tarnd.request(target, host="a.test"))
                    if end == "FIN":
                        w.flush()
                    else:
                        w.shut()
                    if end != "close_notify":
                        w.sock.shutdown(socket.SHUT_WR)
                    if version == TLS12 and end != "FIN":
                        try:  # RFC 5246 7.2.1 allows the server to drop what is pending
                            w.read_to_end()
                        except ssl.SSLError:
                            pass
                        continue
                    self.assertEqual(tarnd.Answer(w.read_to_end()).body, body(100000), f"{version} {end}")

    def test_every_orderly_end_says_close_notify(self):
        it = self.tls(more=", timeout_req: 1s")
        for version in (TLS12, TLS13):
            context = client_context(least=version, most=version)
            self.assertEqual(it.ask_tls("/script/to-the-end", context=context).body.count(b"y"), 50000)
            it.ask_tls("/body?n=20&framing=length", "Bad field", context=context)  # 400
            with it.secure(context) as s:  # HTTP/1.0
                s.sendall(b"GET /body?n=20&framing=length HTTP/1.0\r\nHost: a.test\r\n\r\n")
                self.assertEqual(tarnd.Answer(read_whole(s)).body, body(20))
            with it.secure(context) as s:  # the body ends with the connection
                s.sendall(b"GET /script/to-the-end HTTP/1.0\r\nHost: a.test\r\n\r\n")
                self.assertEqual(tarnd.Answer(read_whole(s)).body, b"y" * 50000)
            with it.secure(context) as s:  # 408
                s.sendall(b"GET / HTTP/1.1\r\n")
                self.assertEqual(tarnd.Answer(read_whole(s)).status, 408)

    def test_an_idle_connection_ends_by_close_notify(self):
        it = self.start(CONFIG.format(origin=origin.address, more="").replace("60s", "500ms"),
                        f"    tls: {{ certificates: {pki().certs} }}\n")
        with it.secure() as s:
            s.sendall(tarnd.request("/body?n=20&framing=length", host="a.test"))
            self.assertEqual(read_answer(s.recv).body, body(20))
            self.assertEqual(s.recv(10), b"")  # SSLEOFError without close_notify

    def test_a_drain_ends_by_close_notify(self):
        it = self.tls()
        with it.secure() as s:
            s.sendall(tarnd.request("/body?n=20&framing=length", host="a.test"))
            read_answer(s.recv)
            it.terminate()
            self.assertEqual(s.recv(10), b"")
        it.process.wait(timeout=tarnd.PATIENCE_S)

    def test_a_body_that_was_cut_has_no_close_notify(self):
        it = self.tls()
        for version in (TLS12, TLS13):
            with it.secure(client_context(least=version, most=version)) as s:
                s.sendall(b"GET /script/broken HTTP/1.0\r\nHost: a.test\r\n\r\n")
                with self.assertRaises((ssl.SSLEOFError, ConnectionResetError)):
                    read_whole(s)

    def test_the_scheme(self):
        """The key and the origin know it; with and without a policy, at the first request and the second."""
        plain = tarnd.free_port()
        for policy in ("", "vcl: {dir}/it.vcl\n"):
            folder = tempfile.mkdtemp(prefix="tarn-vcl.")
            self.addCleanup(shutil.rmtree, folder)
            with open(f"{folder}/it.vcl", "w", encoding="ascii") as f:
                f.write("vcl 4.1;\nsub vcl_recv { set req.http.x-seen = req.url; }\n")
            listener = (f"    tls: {{ certificates: {pki().certs} }}\n"
                        f"  - address: 127.0.0.1:{plain}\n")
            it = self.start(CONFIG.format(origin=origin.address, more="") + policy.replace("{dir}", folder), listener)
            target = f"/body?n=10&framing=length&scheme={len(policy)}"
            for time in ("fwd=uri-miss", "hit"):
                with it.secure() as s:
                    s.sendall(tarnd.request(target, "Connection: close", host="x.test"))
                    self.assertIn(time, tarnd.Answer(read_whole(s)).fields["cache-status"])
            with socket.create_connection(("127.0.0.1", plain)) as s:
                s.sendall(tarnd.request(target, "Connection: close", host="x.test"))
                self.assertIn("fwd=uri-miss", tarnd.Answer(tarnd.read_to_end(s)).fields["cache-status"],
                              "what came by https is no answer to http")
            for forged in ((), ("X-Forwarded-Proto: http", "Forwarded: proto=http")):
                head = it.ask_tls("/script/head", *forged).body.decode()
                self.assertEqual(re.findall("(?mi)^x-forwarded-proto: (.*)$", head), ["https"], head)
            with socket.create_connection(("127.0.0.1", plain)) as s:
                s.sendall(tarnd.request("/script/head", "Connection: close", "X-Forwarded-Proto: https", host="x.test"))
                self.assertIn("X-Forwarded-Proto: http\n", tarnd.read_to_end(s).decode())
            self.end(it)

    def test_a_unix_socket(self):
        folder = tempfile.mkdtemp(prefix="tarn-unix.")
        self.addCleanup(shutil.rmtree, folder)
        listener = f"  - address: unix:{folder}/in\n    tls: {{ certificates: {pki().certs} }}\n"
        self.start(CONFIG.format(origin=origin.address, more=""), listener)
        for n in (10, 3 * MIB):
            for _ in range(2):
                with socket.socket(socket.AF_UNIX) as u:
                    u.settimeout(tarnd.PATIENCE_S)
                    u.connect(f"{folder}/in")
                    with client_context().wrap_socket(u, server_hostname="a.test", suppress_ragged_eofs=False) as s:
                        s.sendall(tarnd.request(f"/body?n={n}&framing=length", "Connection: close", host="a.test"))
                        self.assertTrue(tarnd.Answer(read_whole(s)).body == body(n))

    def test_many_connections_of_several_workers(self):
        self.workers = 2
        it = self.tls()
        self.workers = 1

        def client(i):
            with it.secure() as s:
                for k in range(10):
                    n = (i * 7919 + k * 104729) % 200000
                    s.sendall(tarnd.request(f"/body?n={n}&framing=length", host="a.test"))
                    if read_answer(s.recv).body != body(n):
                        return f"{i} {k} {n}"
            return None

        with concurrent.futures.ThreadPoolExecutor(40) as pool:
            self.assertEqual([x for x in pool.map(client, range(80)) if x], [])


if __name__ == "__main__":
    World.program = os.path.abspath(sys.argv.pop(1))
    origin = Origin(Uploads)
    unittest.main()
