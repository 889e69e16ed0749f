"""tls_ops_world.py -- what tests of TLS for operators share: a CA, certificates of its own by openssl, a tarnd with a plain and
a TLS listener, and a client.
"""
import json
import os
import shutil
import socket
import ssl
import subprocess
import tempfile
import time
import unittest

import tarnd
from acme_world import openssl

DAY_S = 86400
EC = ("ec", "-pkeyopt", "ec_paramgen_curve:P-256")
SIGN = """[ca]
default_ca = it
[it]
database = {folder}/index.txt
new_certs_dir = {folder}
rand_serial = yes
default_md = sha256
unique_subject = no
policy = any
copy_extensions = copy
x509_extensions = leaf
[any]
organizationName = optional
commonName = optional
[leaf]
authorityKeyIdentifier = keyid
"""


class Authority:
    """A CA in a folder of its own: ca.pem; pair() makes certificates."""

    def __init__(self, folder, name="Test CA"):
        os.makedirs(folder)
        self.folder, self.pem, self.key = folder, f"{folder}/ca.pem", f"{folder}/ca.key"
        openssl("req", "-x509", "-newkey", *EC, "-nodes", "-days", "3650", "-subj", f"/CN={name}", "-keyout", self.key,
                "-out", self.pem)
        for file, text in ("index.txt", ""), ("index.txt.attr", ""), ("sign.cnf", SIGN.format(folder=folder)):
            with open(f"{folder}/{file}", "w", encoding="utf-8") as f:
                f.write(text)

    def pair(self, path, *names, subject=None, days=90, since_days=-1):
        """A certificate with its key in one file, good for so many days from now."""
        key, csr = f"{self.folder}/leaf.key", f"{self.folder}/leaf.csr"
        alt = ("-addext", "subjectAltName=" + ",".join(f"DNS:{n}" for n in names)) if names else ()
        openssl("req", "-new", "-newkey", *EC, "-nodes", "-subj", subject or f"/CN={names[0]}", *alt, "-keyout", key,
                "-out", csr)
        stamp = lambda d: time.strftime("%Y%m%d%H%M%SZ", time.gmtime(time.time() + d * DAY_S))
        pem = openssl("ca", "-batch", "-notext", "-config", f"{self.folder}/sign.cnf", "-cert", self.pem, "-keyfile",
                      self.key, "-in", csr, "-startdate", stamp(since_days), "-enddate", stamp(days))
        with open(key, encoding="utf-8") as f:
            text = pem + f.read()
        with open(path + ".new", "w", encoding="utf-8", opener=lambda p, flags: os.open(p, flags, 0o600)) as f:
            f.write(text)
        os.rename(path + ".new", path)
        return path


class Case(unittest.TestCase):
    """self.home with a CA and certs/a.test.pem; start() has a plain listener, and one with TLS at self.tls_port."""
    program = ctl = None

    def setUp(self):
        self.home = tempfile.mkdtemp(prefix="tarn-tls.")
        self.addCleanup(shutil.rmtree, self.home, ignore_errors=True)
        self.ca = Authority(f"{self.home}/ca")
        os.mkdir(f"{self.home}/certs")
        self.ca.pair(f"{self.home}/certs/a.test.pem", "a.test")
        self.tls_port = tarnd.free_port()

    def start(self, more, tls="", before="", admin=None):
        """`tls` goes into the listener's `tls`, `before` is other listeners, `more` the other sections."""
        admin = admin or f"'unix:{self.home}/admin.sock'"
        config = (before + f"  - {{address: '127.0.0.1:{self.tls_port}', "
                  f"tls: {{certificates: {self.home}/certs{tls}}}}}\n"
                  f"workers: 1\nadmin: {{ address: {admin} }}\n" + more)
        self.errors = open(f"{self.home}/errors", "w+", encoding="utf-8")
        self.addCleanup(self.errors.close)
        try:
            self.tarnd = tarnd.Tarnd(self.program, config, stderr=self.errors)
        except RuntimeError as e:
            raise AssertionError(f"{e}: {self.said()}") from e
        self.addCleanup(self.tarnd.tidy)
        return self.tarnd

    def said(self):
        """The error log so far."""
        with open(f"{self.home}/errors", encoding="utf-8") as f:
            return f.read()

    def context(self, certificate=None):
        context = ssl.create_default_context(cafile=self.ca.pem)
        if certificate is not None:
            context.load_cert_chain(certificate)
        return context

    def connect(self, context=None, name="a.test", session=None, port=None):
        s = socket.create_connection(("127.0.0.1", port or self.tls_port), timeout=tarnd.PATIENCE_S)
        s = (context or self.context()).wrap_socket(s, server_hostname=name, session=session)
        self.addCleanup(s.close)
        return s

    def ask(self, s, target, *lines, **more):
        """On an open connection, which is read to its end."""
        s.sendall(tarnd.request(target, *lines, "Connection: close", **more))
        return tarnd.Answer(tarnd.read_to_end(s))

    def tarnctl(self, *args, status=0):
        done = subprocess.run([self.ctl, "--admin", f"unix:{self.home}/admin.sock", *args], capture_output=True,
                              text=True, timeout=tarnd.PATIENCE_S)
        self.assertEqual(done.returncode, status, f"{args}: {done.stdout} {done.stderr}")
        return done.stdout + done.stderr

    def records(self):
        return [json.loads(line) for line in self.tarnctl("log", "--all", "--json").splitlines()]
