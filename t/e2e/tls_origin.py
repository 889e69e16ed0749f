#!/usr/bin/env python3
"""tls_origin.py TARND [TEST...] -- TLS to backends: which origins are believed, what they see of us, how it fails.

Whoever may not be believed gets no request, and the error log names the check that failed.
"""
import os
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.dont_write_bytecode = True
import tarnd
from origin import Handler, Origin, body
from tls_world import RSA, TLS12, TLS13, World, pki, unchunk

MIB = 1 << 20
PASS = "/body?n=1000&framing=length&cc=no-store"


class Secure(Handler):
    def setup(self):
        super().setup()
        try:
            self.server.secure(self)
        except (OSError, ssl.SSLError) as e:
            self.server.failures.append(e)
            self.rfile.close()
            self.rfile = open(os.devnull, "rb")

    def do_POST(self):
        got = self.rfile.read(int(self.headers["Content-Length"]))
        self.start("length", len(got), "no-store")
        self.piece(got)


class TlsOrigin(Origin):
    """Notes of each connection what the client said: `seen`."""

    def __init__(self, pair, version=None, client_ca=None, preface=0, handler=Secure):
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(*pair)
        self.context.set_alpn_protocols(["http/1.1"])
        if version is not None:
            self.context.maximum_version = version
        if client_ca is not None:
            self.context.verify_mode = ssl.CERT_REQUIRED
            self.context.load_verify_locations(client_ca)
        self.context.sni_callback = self.on_name
        self.names, self.seen, self.failures, self.preface = {}, [], [], preface
        super().__init__(handler)

    def handle_error(self, request, client_address):
        pass  # tests look at what tarnd makes of it

    def on_name(self, s, name, _):
        self.names[s] = name

    def secure(self, handler):
        before = handler.connection.recv(self.preface, socket.MSG_WAITALL) if self.preface else b""
        s = self.context.wrap_socket(handler.connection, server_side=True, suppress_ragged_eofs=False)
        with self.lock:
            self.seen.append({"name": self.names.pop(s, None), "reused": s.session_reused, "version": s.version(),
                              "certificate": s.getpeercert(), "alpn": s.selected_alpn_protocol(), "preface": before})
        handler.request = handler.connection = s
        handler.rfile, handler.wfile = s.makefile("rb"), s.makefile("wb", buffering=0)

    @property
    def port(self):
        return self.server_address[1]


def orderly(handler):
    """Ends by close_notify."""
    handler.close_connection = True
    try:
        handler.connection.unwrap()
    except (OSError, ssl.SSLError):
        pass


def head(handler, more=b""):
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\n" + more + b"\r\n")


class Backends(World):
    @classmethod
    def setUpClass(cls):
        cls.good = pki().leaf("origin", ["DNS:localhost", "DNS:origin.test", "IP:127.0.0.1"])

    def origin(self, *args, **more):
        o = TlsOrigin(*(args or (self.good,)), **more)
        self.addCleanup(o.close)
        return o

    def front(self, address, tls=None, more="", parameters=""):
        """A tarnd in front of one backend; `tls`: its keys."""
        tls = f"ca: {pki().ca.pem}" if tls is None else tls
        keys = f", tls: {{ {tls} }}" if tls else ""
        return self.start(f"backends: {{ default: {{ address: '{address}'{keys}{more} }} }}\n"
                          f"parameters: {{ timeout_idle: 60s{parameters} }}\n")

    def fails(self, it, words, status=502):
        answer = it.ask(PASS)
        self.assertEqual(answer.status, status, answer.data[:300])
        self.wait_for_words(it, words)


class Belief(Backends):
    def test_a_good_one(self):
        for version in (TLS12, TLS13):
            o = self.origin(self.good, version=version)
            for host, name in (("localhost", "localhost"), ("127.0.0.1", None)):
                it = self.front(f"https://{host}:{o.port}")
                self.assertEqual(it.ask(PASS).body, body(1000), self.said(it))
                self.assertEqual(o.seen[-1]["name"], name)  # RFC 6066 3: an address is none
                self.assertEqual(o.seen[-1]["alpn"], "http/1.1")

    def test_who_is_not_believed(self):
        self_signed = pki().path("self.crt"), pki().path("self.key")
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "9", "-subj", "/CN=localhost",
                        "-addext", "subjectAltName=DNS:localhost", "-out", self_signed[0], "-keyout", self_signed[1]],
                       check=True, capture_output=True)
        leaf = pki().leaf
        local = ["DNS:localhost"]
        early, late = leaf("early", local, from_s=86400, to_s=9 * 86400), leaf("late", local, from_s=-9e5, to_s=-86400)
        ca = f"ca: {pki().ca.pem}"
        cases = (
            (leaf("elsewhere", ["DNS:elsewhere.test"]), ca, r"not for 'localhost' \(tls\.name\)"),
            (self.good, ca + ", name: other.test", r"not for 'other\.test' \(tls\.name\)"),
            (self.good, ca + ", sni: other.test", r"not for 'other\.test' \(tls\.name\)"),
            (leaf("wide", ["DNS:*host"]), ca, r"not for 'localhost'"),
            (leaf("common", [], subject="/CN=localhost"), ca, r"not for 'localhost'"),  # RFC 9525 6.1
            (late, ca, r"dates: certificate has expired"),
            (early, ca, r"dates: certificate is not yet valid"),
            (leaf("foreign", local, ca=pki().other), ca, r"chain: .*\(tls\.ca\)"),
            (self_signed, ca, r"chain: self.signed certificate \(tls\.ca\)"),
            (self.good, "verify: on", r"chain: .*\(tls\.ca\)"),  # the system knows our CA as little
            (leaf("client-only", local, more=("-addext", "extendedKeyUsage=clientAuth")), ca,
             r"chain: uns(uitable|upported) certificate purpose"))
        for pair, tls, words in cases:
            for version in (TLS12, TLS13):
                o = self.origin(pair, version=version)
                it = self.front(f"https://localhost:{o.port}", tls)
                self.fails(it, words)
                self.assertEqual(sum(o.requests.values()), 0, words)
                off = self.front(f"https://localhost:{o.port}", "verify: off")
                self.assertEqual(off.ask(PASS).body, body(1000), words)
                self.end(it)
                self.end(off)

    def test_an_address_that_the_certificate_does_not_have(self):
        o = self.origin(pki().leaf("names-only", ["DNS:localhost"]))
        self.fails(self.front(f"https://127.0.0.1:{o.port}"), r"not for '127\.0\.0\.1' \(tls\.name\)")
        it = self.front(f"https://127.0.0.1:{o.port}", f"ca: {pki().ca.pem}, sni: localhost")
        self.assertEqual(it.ask(PASS).status, 200)
        self.assertEqual(o.seen[-1]["name"], "localhost")

    def test_the_name_that_is_sent(self):
        o = self.origin()
        it = self.front(f"https://localhost:{o.port}", f"ca: {pki().ca.pem}, sni: origin.test")
        self.assertEqual(it.ask(PASS).status, 200)
        self.assertEqual(o.seen[-1]["name"], "origin.test")
        it = self.front(f"localhost:{o.port}", f"ca: {pki().ca.pem}, name: origin.test")  # tls without https://
        self.assertEqual(it.ask(PASS).status, 200)
        self.assertEqual(o.seen[-1]["name"], "localhost")

    def test_our_certificate(self):
        pair = pki().leaf("tarn", [], key=RSA)
        for version in (TLS12, TLS13):
            o = self.origin(self.good, version=version, client_ca=pki().ca.pem)
            ours = f"ca: {pki().ca.pem}, certificate: {pair[0]}, key: {pair[1]}"
            it = self.front(f"https://localhost:{o.port}", ours)
            self.assertEqual(it.ask(PASS).status, 200, self.said(it))
            self.assertIn((("commonName", "tarn"),), o.seen[-1]["certificate"]["subject"])
            it = self.front(f"https://localhost:{o.port}")
            self.assertEqual(it.ask(PASS).status, 502)
            self.wait_for_words(it, "(?i)handshake failure|certificate.required")

    def test_files_that_are_not_good(self):
        bad = pki().path("bad.pem")
        with open(bad, "w", encoding="ascii") as f:
            f.write("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
        other = pki().leaf("other-key", [])
        for tls, words in ((f"ca: {bad}", bad), ("ca: /nowhere.pem", "/nowhere.pem: No such file or directory"),
                           ("certificate: /nowhere.pem", "/nowhere.pem: No such file or directory"),
                           ("ca: /tmp", "/tmp: Is a directory"), (f"certificate: {bad}", bad),
                           (f"certificate: {self.good[0]}, key: {other[1]}", other[1]),
                           (f"certificate: {self.good[0]}", self.good[0])):
            said = self.refused(f"backends: {{ o: {{ address: 'https://localhost:1', tls: {{ {tls} }} }} }}\n", "")
            self.assertIn(words, said)

    def test_old_versions_are_refused(self):
        o = self.origin()
        o.context.set_ciphers("ALL:@SECLEVEL=0")
        o.context.minimum_version = ssl.TLSVersion.TLSv1
        o.context.maximum_version = ssl.TLSVersion.TLSv1_1
        self.fails(self.front(f"https://localhost:{o.port}"), "(?i)protocol|version")


class Connections(Backends):
    def test_connections_are_used_again(self):
        for version in (TLS12, TLS13):
            o = self.origin(self.good, version=version)
            it = self.front(f"https://localhost:{o.port}")
            for _ in range(10):
                self.assertEqual(it.ask(PASS).status, 200)
            self.assertEqual(len(o.seen), 1)

    def test_sessions_are_used_again(self):
        for version in (TLS12, TLS13):
            o = self.origin(self.good, version=version)
            it = self.front(f"https://localhost:{o.port}", more=", max_idle: 0")
            for _ in range(5):
                self.assertEqual(it.ask(PASS).status, 200)
            self.assertEqual([seen["reused"] for seen in o.seen], [False] + [True] * 4, version)

    def test_a_session_is_no_trust_of_another_name(self):
        """The certificate changes to one that is not good: a resumed connection may go on, a new one not."""
        o = self.origin()
        it = self.front(f"https://localhost:{o.port}", more=", max_idle: 0")
        self.assertEqual(it.ask(PASS).status, 200)
        bad = self.origin(pki().leaf("not-it", ["DNS:not-it.test"]))
        o.context = bad.context  # which cannot read the tickets of before
        self.fails(it, r"not for 'localhost'")

    def test_nginx(self):
        if shutil.which("nginx") is None:
            self.skipTest("no nginx")
        folder = tempfile.mkdtemp(prefix="tarn-nginx.")
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        os.chmod(folder, 0o755)
        port = tarnd.free_port()
        with open(f"{folder}/big", "wb") as f:
            f.write(body(20 * MIB))
        for version in ("TLSv1.2", "TLSv1.3"):
            with open(f"{folder}/nginx.conf", "w", encoding="ascii") as f:
                f.write(f"""daemon off; pid {folder}/pid; error_log stderr; worker_processes 1;
{"user root;" if os.geteuid() == 0 else ""}
events {{ }}
http {{
    access_log off; client_body_temp_path {folder}/b; proxy_temp_path {folder}/p; fastcgi_temp_path {folder}/f;
    uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s; client_max_body_size 30m;
    server {{
        listen 127.0.0.1:{port} ssl; server_name localhost; ssl_protocols {version};
        ssl_certificate {self.good[0]}; ssl_certificate_key {self.good[1]}; ssl_session_cache shared:a:1m;
        add_header X-Reused $ssl_session_reused; add_header X-Number $connection_requests; root {folder};
        add_header X-Name $ssl_server_name;
        location /up {{ return 200 "ok"; }}
    }}
}}
""")
            nginx = subprocess.Popen(["nginx", "-p", folder, "-e", "stderr", "-c", f"{folder}/nginx.conf"],
                                     stderr=subprocess.DEVNULL)
            try:
                self.nginx_serves(port)
            finally:
                nginx.terminate()
                nginx.wait()

    def nginx_serves(self, port):
        def there():
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                return True
            except OSError:
                return False

        tarnd.wait_until(there, "nginx is there")
        it = self.front(f"https://localhost:{port}")
        self.assertTrue(it.ask("/big").body == body(20 * MIB))  # miss, and hit
        self.assertTrue(it.ask("/big").body == body(20 * MIB))
        self.assertTrue(it.ask("/big", "Cache-Control: no-cache", "Range: bytes=5-100000").body == body(100001)[5:])
        first = it.ask("/up?1")
        self.assertEqual((first.fields["x-reused"], first.fields["x-name"]), (".", "localhost"))
        self.assertGreater(int(first.fields["x-number"]), 1)
        self.end(it)
        it = self.front(f"https://localhost:{port}", more=", max_idle: 0")
        self.assertEqual([it.ask(f"/up?{i}").fields["x-reused"] for i in range(4)], [".", "r", "r", "r"])

    def test_bodies(self):
        o = self.origin()
        it = self.front(f"https://localhost:{o.port}")
        for framing in ("length", "chunked"):
            for n in (0, 1, 16384, 16385, MIB, 20 * MIB):
                for cc in ("no-store", "max-age=600"):
                    answer = it.ask(f"/body?n={n}&framing={framing}&cc={cc}", "Accept-Encoding: identity")
                    got = unchunk(answer.body) if "transfer-encoding" in answer.fields else answer.body
                    self.assertTrue(got == body(n), f"{n} {framing} {cc}")
        data = body(5000000)
        answer = it.ask("/up", f"Content-Length: {len(data)}", method="POST", body=data)
        self.assertTrue(answer.body == data)

    def test_a_proxy_header_in_front(self):
        o = self.origin(self.good, preface=28)
        it = self.front(f"https://localhost:{o.port}", more=", proxy_header: 2")
        for _ in range(2):
            self.assertEqual(it.ask(PASS).status, 200, self.said(it))
        self.assertEqual(len(o.seen), 2)  # each fetch has its own
        for seen in o.seen:
            self.assertTrue(seen["preface"].startswith(b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c" + bytes([127, 0, 0, 1])))

    def test_probes(self):
        for end in (orderly, lambda h: None):  # with close_notify, as nginx, and without
            o = self.origin()
            o.script("well", lambda h: (h.start("length", 2), h.piece(b"ok"), end(h)))
            self.probe(o)

    def probe(self, o):
        probe = ", probe: { url: /script/well, interval: 100ms, window: 2, threshold: 2, initial: 0 }"
        good = self.front(f"https://localhost:{o.port}", more=probe)

        def health(it):
            return it.admin("/v1/backends")["backends"][0]

        tarnd.wait_until(lambda: health(good)["healthy"], "it is well", 10)
        self.assertEqual(good.ask(PASS).status, 200)
        bad = self.front(f"https://localhost:{o.port}", f"ca: {pki().other.pem}", more=probe)
        tarnd.wait_until(lambda: "tls.ca" in str(health(bad)), "it says which check failed", 10)
        self.assertFalse(health(bad)["healthy"])


class Failures(Backends):
    def test_a_body_that_ends_with_the_connection(self):
        """Without close_notify anybody on the way may have cut it (RFC 8446 6.1): nobody may keep it."""
        for version in (TLS12, TLS13):
            o = self.origin(self.good, version=version)
            ends = {"orderly": orderly, "fin": lambda h: h.connection.shutdown(socket.SHUT_RDWR),
                    "reset": lambda h: tarnd.reset(socket.socket(fileno=h.connection.detach()))}

            def play(h):
                head(h, b"Connection: close\r\n")
                h.wfile.write(b"z" * 50000)
                h.close_connection = True
                time.sleep(0.1)
                ends[h.path.rpartition("-")[2]](h)

            for name in ends:
                o.script(f"cut-{name}", play)
            it = self.front(f"https://localhost:{o.port}")
            for name in ends:
                for again in range(2):
                    with it.connect() as s:
                        s.sendall(tarnd.request(f"/script/cut-{name}"))
                        s.settimeout(10)
                        data = bytearray()
                        try:
                            while not data.endswith(b"\r\n0\r\n\r\n"):
                                piece = s.recv(65536)
                                if not piece:
                                    break
                                data += piece
                                if name == "orderly" and b"Content-Length: 50000" in data and data.count(b"z") == 50000:
                                    break
                        except (TimeoutError, ConnectionError):
                            pass
                    whole = data.endswith(b"\r\n0\r\n\r\n") or b"Content-Length: 50000" in data
                    self.assertEqual(whole, name == "orderly", f"{name} {again} {version} {data[:300]}")
                self.assertEqual(o.requests[f"/script/cut-{name}"], 1 if name == "orderly" else 2, "kept?")
            self.wait_for_words(it, "cut short after 50000 bytes: .*without close_notify")

    def test_a_framed_body_needs_no_close_notify(self):
        o = self.origin()

        def play(h):
            head(h, b"Content-Length: 50000\r\nConnection: close\r\n")
            h.wfile.write(b"z" * 50000)
            h.close_connection = True
            h.connection.shutdown(socket.SHUT_RDWR)

        o.script("whole", play)
        it = self.front(f"https://localhost:{o.port}")
        for _ in range(2):
            self.assertEqual(it.ask("/script/whole").body, b"z" * 50000)
        self.assertEqual(o.requests["/script/whole"], 1)

    def silent(self, play):
        """A server of bytes: play(socket) for each connection."""
        s = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(s.close)

        def serve():
            while True:
                try:
                    c = s.accept()[0]
                except OSError:
                    return
                threading.Thread(target=play, args=(c,), daemon=True).start()

        threading.Thread(target=serve, daemon=True).start()
        return s.getsockname()[1]

    def test_a_handshake_that_stalls(self):
        port = self.silent(lambda c: (time.sleep(30), c.close()))
        it = self.front(f"https://localhost:{port}", more=", connect_timeout: 500ms")
        began = time.monotonic()
        self.fails(it, "connect timeout", status=504)
        self.assertLess(time.monotonic() - began, 5)

    def test_origins_that_speak_no_tls(self):
        def plain(c):
            c.recv(1000)
            c.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
            c.close()

        for play, words in ((plain, "wrong version number"), (lambda c: c.close(), "default"),
                            (lambda c: (c.recv(1000), c.sendall(b"\x15\x03\x03\0\2\2\x28"), c.close()), "handshake failure"),
                            (lambda c: (c.recv(1000), c.sendall(b"\x16\x03\x03\xff\xff" + b"x" * 70000), c.close()), "default"),
                            (lambda c: tarnd.reset(c), "default")):
            it = self.front(f"https://localhost:{self.silent(play)}")
            answer = it.ask(PASS)
            self.assertIn(answer.status, (502, 503))
            self.wait_for_words(it, words)

    def test_tls_to_who_expects_none(self):
        plain = Origin()
        self.addCleanup(plain.close)
        it = self.front(f"https://{plain.address}")
        self.assertEqual(it.ask(PASS).status, 502)
        self.assertEqual(sum(plain.requests.values()), 0)

    def test_idle_connections_that_die(self):
        """One is asked that its origin has just left: another is asked, and the client sees nothing."""
        for version in (TLS12, TLS13):
            for how in ("orderly", "fin", "reset", "unasked"):
                o = self.origin(self.good, version=version)
                left = []

                def play(h):
                    if left:
                        h.start("length", 2, "no-store")
                        h.piece(b"ok")
                        return
                    left.append(h)
                    h.start("length", 2, "no-store")
                    h.piece(b"ok")
                    h.rfile.read(1)  # the next request comes, and is not answered
                    h.close_connection = True
                    if how == "orderly":
                        orderly(h)
                    elif how == "reset":
                        tarnd.reset(socket.socket(fileno=h.connection.detach()))
                    elif how == "fin":
                        h.connection.shutdown(socket.SHUT_RDWR)

                o.script("idle", play)
                o.script("two", lambda h: (h.start("length", 2, "no-store"), h.piece(b"ok"),
                                           setattr(h, "close_connection", True)))
                it = self.front(f"https://localhost:{o.port}")
                for i in range(3):
                    answer = it.ask("/script/two" if how == "unasked" else "/script/idle")
                    self.assertEqual((answer.status, answer.body), (200, b"ok"), f"{version} {how} {i} {self.said(it)}")
                self.end(it)

    def test_a_changed_record(self):
        """In the middle of a body: the client can tell, and nothing is kept."""
        o = self.origin()

        def play(h):
            head(h, b"Content-Length: 50000\r\n")
            h.wfile.write(b"z" * 20000)
            raw = socket.socket(fileno=os.dup(h.connection.fileno()))
            raw.sendall(b"\x17\x03\x03\x00\x40" + b"q" * 64)
            raw.close()
            time.sleep(0.2)
            h.close_connection = True

        o.script("bad", play)
        it = self.front(f"https://localhost:{o.port}")
        for _ in range(2):
            self.assertLess(len(it.ask("/script/bad").body), 50000)
        self.assertEqual(o.requests["/script/bad"], 2)
        self.wait_for_words(it, r"response cut short after 20000 bytes: .*: (?i:.*mac|decryption failed|bad decrypt)")

    def test_clients_that_leave(self):
        o = self.origin()
        it = self.front(f"https://localhost:{o.port}")
        for i in range(30):
            with it.connect() as s:
                s.sendall(tarnd.request(f"/body?n=3000000&framing=length&cc=no-store&x={i}"))
                s.recv(100)
        self.assertEqual(it.ask(PASS).status, 200)
        parts = lambda: it.admin("/v1/memory")["total"]["parts"]["traffic"]["parts"]
        tarnd.wait_until(lambda: parts()["requests"] == 0, "no request is left", 15)


if __name__ == "__main__":
    World.program = os.path.abspath(sys.argv.pop(1))
    unittest.main()
