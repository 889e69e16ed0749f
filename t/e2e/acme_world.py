"""acme_world.py -- what tests of tarn-acme share: certificates by openssl, servers of challenges, a run of the
program, ports.
"""
import http.server
import json
import os
import re
import shutil
import socket
import ssl
import subprocess
import tempfile
import threading
import time
import unittest

PATIENCE_S = 60
WELL_KNOWN = "/.well-known/acme-challenge/"


def openssl(*args, **more):
    done = subprocess.run(["openssl", *args], capture_output=True, **more)
    if done.returncode != 0:
        raise AssertionError(f"openssl {' '.join(args)}: {done.stderr.decode()}")
    return done.stdout.decode(errors="replace")


class Authority:
    """A CA of the test's own, in a folder: ca.pem, ca.key."""

    def __init__(self, folder, name="Test CA"):
        self.folder = folder
        self.pem, self.key = os.path.join(folder, "ca.pem"), os.path.join(folder, "ca.key")
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "3650",
                "-subj", f"/CN={name}", "-keyout", self.key, "-out", self.pem)
        for file in ("index.txt", "index.txt.attr"):
            open(os.path.join(folder, file), "w", encoding="utf-8").close()

    def server(self, name="localhost"):
        """A certificate for 127.0.0.1 and its key, two files."""
        pem, key = os.path.join(self.folder, "server.pem"), os.path.join(self.folder, "server.key")
        csr = openssl("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj",
                      f"/CN={name}", "-addext", f"subjectAltName=DNS:{name},IP:127.0.0.1", "-keyout", key)
        with open(pem, "w", encoding="utf-8") as f:
            f.write(self.sign(csr, -86400, 3650 * 86400))
        return pem, key

    def sign(self, csr_pem, from_s, to_s):
        """The certificate for a CSR in PEM, good from and to so many seconds from now."""
        config = os.path.join(self.folder, "sign.cnf")
        with open(config, "w", encoding="utf-8") as f:
            f.write(f"""[ca]
default_ca = it
[it]
database = {self.folder}/index.txt
new_certs_dir = {self.folder}
rand_serial = yes
default_md = sha256
unique_subject = no
policy = any
copy_extensions = copy
x509_extensions = leaf
[any]
commonName = optional
[leaf]
authorityKeyIdentifier = keyid
""")
        stamp = lambda s: time.strftime("%Y%m%d%H%M%SZ", time.gmtime(time.time() + s))
        path = os.path.join(self.folder, f"csr.{threading.get_ident()}")
        with open(path, "w", encoding="utf-8") as f:
            f.write(csr_pem)
        return openssl("ca", "-batch", "-notext", "-config", config, "-cert", self.pem, "-keyfile", self.key, "-in",
                       path, "-startdate", stamp(from_s), "-enddate", stamp(to_s))


class HttpChallenges:
    """Answers http-01 from a state directory, as tarnd does."""

    def __init__(self):
        challenges = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                text = challenges.find(self.path)
                self.send_response(200 if text else 404)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *args):
                pass

        self.state = None
        self.seen = []
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def find(self, path):
        if not path.startswith(WELL_KNOWN) or self.state is None:
            return b""
        token = path[len(WELL_KNOWN):]
        assert re.fullmatch(r"[\w-]+", token), token
        file = os.path.join(self.state, "challenges/http-01", token)
        self.seen.append(token)
        if not os.path.exists(file):
            return b""
        assert os.stat(file).st_mode & 0o777 == 0o600, "a challenge that other users can read"
        with open(file, "rb") as f:
            return f.read()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


class AlpnChallenges:
    """Answers tls-alpn-01 from a state directory: the certificate by SNI, for ALPN acme-tls/1 only."""

    def __init__(self, folder):
        self.state = None
        self.seen = []
        pem, key = Authority(folder, "alpn").server()
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(pem, key)
        self.context.set_alpn_protocols(["acme-tls/1"])
        self.context.sni_callback = self.on_sni
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def on_sni(self, connection, name, _):
        file = os.path.join(self.state, "challenges/tls-alpn-01", f"{name}.pem")
        self.seen.append(name)
        if os.path.exists(file):
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(file)
            context.set_alpn_protocols(["acme-tls/1"])
            connection.context = context

    def serve(self):
        while True:
            try:
                connection = self.socket.accept()[0]
            except OSError:
                return
            try:
                connection.settimeout(10)
                with self.context.wrap_socket(connection, server_side=True) as tls:
                    tls.recv(1)
            except OSError:
                connection.close()

    def close(self):
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()


class Said:
    def __init__(self, done):
        self.status, self.out, self.err = done.returncode, done.stdout, done.stderr

    def __str__(self):
        return f"status {self.status}\n{self.out}{self.err}"


class World(unittest.TestCase):
    """A folder with a state directory `self.state`, and runs of the program `self.program`."""

    program = None
    directory = ca = None  # the CA's
    hurry = 10  # waiting takes a tenth of its time

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="tarn-acme.")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.state = os.path.join(self.folder, "state")

    def command(self, *args):
        return [self.program, "--state", self.state, "--directory", self.directory, "--ca", self.ca, "--agree-tos",
                "--once", *args]

    def run_(self, *args, status=0, offset_s=0, **more):
        done = subprocess.run(self.command(*args), capture_output=True, text=True, timeout=PATIENCE_S,
                              env={**os.environ, "ACME_OFFSET_S": str(offset_s), "ACME_HURRY": str(self.hurry)}, **more)
        said = Said(done)
        self.assertEqual(said.status, status, str(said))
        self.assertNotIn("PRIVATE KEY", said.out + said.err)
        self.assertNotIn("PRIVATE KEY", str(self.files("account.json", "state.json")))
        self.assert_nothing_left()
        return said

    def files(self, *names):
        texts = {}
        for name in names:
            path = os.path.join(self.state, name)
            if os.path.exists(path):
                with open(path, encoding="utf-8") as f:
                    texts[name] = f.read()
        return texts

    def assert_nothing_left(self):
        """No challenge, no file that is half written, and no wide permissions."""
        for top, _, files in os.walk(self.state):
            self.assertEqual(os.stat(top).st_mode & 0o777, 0o700, top)
            self.assertEqual([f for f in files if f.startswith(".")], [], top)
            if "challenges" in top:
                self.assertEqual(files, [], top)

    def record(self, name):
        return json.loads(self.files("state.json")["state.json"])["certificates"][name]

    def certificate(self, name):
        """certs/NAME.pem, after a look at its parts: mode, chain, then one key that belongs to the leaf."""
        path = os.path.join(self.state, "certs", f"{name}.pem")
        self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)
        with open(path, encoding="utf-8") as f:
            text = f.read()
        self.assertRegex(text, r"\A(-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----\s+)+"
                               r"-----BEGIN PRIVATE KEY-----[^-]+-----END PRIVATE KEY-----\s+\Z")
        self.assertEqual(openssl("x509", "-noout", "-pubkey", "-in", path), openssl("pkey", "-pubout", "-in", path))
        return text

    def names(self, name):
        path = os.path.join(self.state, "certs", f"{name}.pem")
        return sorted(re.findall(r"DNS:([^,\s]+)", openssl("x509", "-noout", "-ext", "subjectAltName", "-in", path)))
