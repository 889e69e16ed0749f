"""tls_world.py -- what tests of TLS share: authorities and certificates made by openssl, clients whose bytes are
the test's own, a tarnd with listeners.
"""
import functools
import os
import re
import shutil
import socket
import ssl
import subprocess
import tempfile
import time
import unittest

import tarnd
from acme_world import Authority, openssl

DAY = 86400
CURVE = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256")
RSA = ("-newkey", "rsa:2048")
TLS12, TLS13 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3


class Pki:
    """A folder of CAs and certificates, for as long as the tests run."""

    def __init__(self):
        self.dir = tempfile.mkdtemp(prefix="tarn-pki.")
        self.ca = self.authority("ca", "Tarn Test CA")
        self.other = self.authority("other", "Another CA")
        self.certs = self.path("certs")
        os.mkdir(self.certs)
        self.leaf("default", ["DNS:default.test", "DNS:localhost", "IP:127.0.0.1"], to=self.certs)
        self.leaf("a-ec", ["DNS:a.test"], to=self.certs)
        self.leaf("a-rsa", ["DNS:a.test"], key=RSA, to=self.certs)
        self.leaf("wild", ["DNS:*.wild.test"], to=self.certs)
        self.leaf("exact", ["DNS:exact.wild.test"], to=self.certs)
        self.me = self.leaf("me", [], subject="/CN=me/O=Tarn, Inc")
        self.stranger = self.leaf("stranger", [], ca=self.other)
        self.expired = self.leaf("expired", [], from_s=-20 * DAY, to_s=-10 * DAY)

    def path(self, *parts):
        return os.path.join(self.dir, *parts)

    def authority(self, folder, name):
        os.mkdir(self.path(folder))
        return Authority(self.path(folder), name)

    def leaf(self, name, names, key=CURVE, ca=None, from_s=-DAY, to_s=30 * DAY, to=None, subject=None, more=()):
        """(certificate, key): files NAME.crt and NAME.key."""
        crt, pem = (os.path.join(to or self.dir, f"{name}.{end}") for end in ("crt", "key"))
        if names:
            more = (*more, "-addext", "subjectAltName=" + ",".join(names))
        csr = openssl("req", "-new", *key, "-nodes", "-subj", subject or f"/CN={name}", *more, "-keyout", pem)
        with open(crt, "w", encoding="ascii") as f:
            f.write((ca or self.ca).sign(csr, from_s, to_s))
        os.chmod(pem, 0o600)
        return crt, pem

    def close(self):
        shutil.rmtree(self.dir, ignore_errors=True)


@functools.lru_cache(maxsize=1)
def pki():
    it = Pki()
    unittest.addModuleCleanup(it.close)
    return it


def client_context(least=None, most=None, certificate=None, alpn=None, verify=True):
    c = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    c.load_verify_locations(pki().ca.pem)
    if not verify:
        c.check_hostname, c.verify_mode = False, ssl.CERT_NONE
    if least is not None:
        c.minimum_version = least
    if most is not None:
        c.maximum_version = most
    if certificate is not None:
        c.load_cert_chain(*certificate)
    if alpn is not None:
        c.set_alpn_protocols(alpn)
    return c


class Wire:
    """A TLS client over a socket that sees every byte: what it says lies in `out` until flush()."""

    def __init__(self, sock, context, name="a.test", session=None):
        self.sock, self.into, self.out = sock, ssl.MemoryBIO(), ssl.MemoryBIO()
        self.ssl = context.wrap_bio(self.into, self.out, server_hostname=name, session=session)
        self.ended = False  # the connection, not TLS

    def flush(self, size=None):
        data = self.out.read()
        for at in range(0, len(data), size or len(data) or 1):
            self.sock.sendall(data[at:at + (size or len(data))])

    def hear(self):
        data = self.sock.recv(65536)
        self.ended = data == b""
        if self.ended:
            self.into.write_eof()
        else:
            self.into.write(data)

    def call(self, what, *args, size=None):
        while True:
            try:
                result = what(*args)
            except ssl.SSLWantReadError:
                self.flush(size)
                self.hear()
                continue
            self.flush(size)
            return result

    def handshake(self, size=None):
        self.call(self.ssl.do_handshake, size=size)
        return self

    def send(self, data, size=None):
        """`size`: of the pieces in which the connection carries it."""
        self.ssl.write(data)
        self.flush(size)

    def shut(self):
        """close_notify, ours; the peer's is not waited for."""
        try:
            self.ssl.unwrap()
        except ssl.SSLWantReadError:
            pass
        self.flush()

    def read_to_end(self):
        """To close_notify.  ssl.SSLEOFError: the connection ended without it."""
        data = bytearray()
        while True:
            try:
                piece = self.call(self.ssl.read, 65536)
            except ssl.SSLZeroReturnError:
                return bytes(data)
            if not piece:
                return bytes(data)
            data += piece

    def close(self):
        self.sock.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def read_answer(read):
    """One response with Content-Length, or none at all, from read(n)."""
    data = bytearray()
    while b"\r\n\r\n" not in data:
        piece = read(65536)
        if not piece:
            return tarnd.Answer(bytes(data))
        data += piece
    head, _, body = bytes(data).partition(b"\r\n\r\n")
    fields = tarnd.Answer(head + b"\r\n\r\n").fields
    while len(body) < int(fields.get("content-length", 0)):
        piece = read(1 << 20)
        if not piece:
            break
        body += piece
    return tarnd.Answer(head + b"\r\n\r\n" + body)


class Tarnd(tarnd.Tarnd):
    """A tarnd whose first listener speaks TLS, if the configuration begins with `    tls:`."""

    def secure(self, context=None, name="a.test", timeout=tarnd.PATIENCE_S, session=None, port=None):
        s = socket.create_connection(("127.0.0.1", port or self.port), timeout=timeout)
        try:
            return (context or client_context()).wrap_socket(
                s, server_hostname=name, suppress_ragged_eofs=False, session=session)
        except BaseException:
            s.close()
            raise

    def wire(self, context=None, name="a.test", port=None, **more):
        s = socket.create_connection(("127.0.0.1", port or self.port), timeout=tarnd.PATIENCE_S)
        return Wire(s, context or client_context(), name, **more)

    def ask_tls(self, target, *lines, method="GET", body=b"", context=None, name="a.test", port=None):
        """One request on a connection of its own, which ends by close_notify or this fails."""
        with self.secure(context, name, port=port) as s:
            s.sendall(tarnd.request(target, *lines, "Connection: close", method=method, host=name) + body)
            return tarnd.Answer(read_whole(s))


def read_whole(s):
    """To close_notify; ssl.SSLEOFError: the connection ended without it."""
    data = bytearray()
    while piece := s.recv(65536):
        data += piece
    return bytes(data)


def unchunk(data):
    got, at = bytearray(), 0
    while True:
        end = data.index(b"\r\n", at)
        size = int(data[at:end], 16)
        if size == 0:
            return bytes(got)
        got += data[end + 2:end + 2 + size]
        at = end + 2 + size + 2


class World(unittest.TestCase):
    """Starts tarnds and looks at what they say."""

    program = None
    workers = 1

    def start(self, config, listener="", kind=Tarnd, **more):
        """`listener`: further keys of the first listener and further listeners."""
        said = tempfile.NamedTemporaryFile(prefix="tarn-tls.", mode="w+", encoding="utf-8")
        self.addCleanup(said.close)
        whole = (listener + f'workers: {self.workers}\nadmin: {{ address: "unix:{{dir}}/admin.sock" }}\n' + config)
        try:
            it = kind(self.program, whole, stderr=said, **more)
        except RuntimeError as e:
            said.seek(0)
            raise RuntimeError(f"{e}\n{said.read()[-3000:]}") from None
        it.log = said.name
        self.addCleanup(self.end, it)
        return it

    def end(self, it):
        if it.process.poll() is None and it.process.returncode is None:
            status = it.close()
        else:
            status = it.process.returncode
            it.tidy()
        self.assertEqual(status, 0, self.said(it)[-3000:])

    @staticmethod
    def said(it):
        with open(it.log, encoding="utf-8") as f:
            return f.read()

    def wait_for_words(self, it, pattern, seconds=20):
        """Until the error log has it."""
        deadline = time.monotonic() + seconds
        while True:
            said = self.said(it)
            if re.search(pattern, said):
                return said
            self.assertLess(time.monotonic(), deadline, f"no {pattern!r} in\n{said}")
            time.sleep(0.02)

    @staticmethod
    def counters(it):
        return it.admin("/v1/counters")

    def refused(self, config, listener):
        """What a tarnd says that does not start."""
        folder = tempfile.mkdtemp(prefix="tarn-tls.")
        self.addCleanup(shutil.rmtree, folder)
        path = os.path.join(folder, "tarn.yaml")
        with open(path, "w", encoding="utf-8") as f:
            f.write("listen:\n  - address: 127.0.0.1:0\n" + listener + config)
        done = subprocess.run([self.program, "-c", path], capture_output=True, text=True, timeout=tarnd.PATIENCE_S,
                              check=False)
        self.assertNotEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stderr
