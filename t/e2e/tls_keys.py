#!/usr/bin/env python3
"""tls_keys.py TARND [TEST...] -- private keys and ticket secrets are in tarnd's own memory, and nowhere else.

What is looked for: the private numbers of an ECDSA and of an RSA key as bytes in both orders, the lines of their
PEM, the secret of tickets.  Where: everything that tarnd shares, logs, answers or leaves behind.  That its memory
has them is looked at, too: else the search would prove nothing.
"""
import base64
import glob
import os
import re
import resource
import shutil
import signal
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
import tarnd
from acme_world import openssl
from origin import Origin, body
from tls_origin import TlsOrigin
from tls_world import RSA, TLS12, TLS13, Tarnd, World, client_context, pki, read_answer

NOBODY = 65534
HIT = "/body?n=1000&framing=length"
FORMAT = " ".join("$" + n for n in (
    "remote_addr", "request", "status", "ssl_protocol", "ssl_cipher", "ssl_session_reused", "ssl_server_name",
    "ssl_client_s_dn", "ssl_client_serial", "ssl_client_fingerprint", "http_user_agent"))
CONFIG = """    tls: {{ certificates: {certs}, session_secret: {secret} }}
workers: 2
storage: {{ main: {{ size: 32MiB }} }}
admin: {{ address: "unix:{folder}/admin.sock" }}
backends:
  default: {{ address: "{origin}" }}
  secure: {{ address: "https://localhost:{port}", tls: {{ ca: {ca}, certificate: {mine[0]}, key: {mine[1]} }} }}
routes:
  - {{ path: /script/, backend: secure, pass: on }}
parameters: {{ log_level: debug, access_log: "{folder}/access.log", access_log_format: '{format}'{more} }}
"""
origin = None


def numbers(key):
    """The private ones, as `openssl pkey -text` prints them."""
    text = openssl("pkey", "-in", key, "-noout", "-text")
    for name in ("priv", "privateExponent", "prime1", "prime2", "exponent1", "exponent2", "coefficient"):
        found = re.search(rf"^{name}:\n((?: +[0-9a-f:]+\n)+)", text, re.M)
        if found:
            yield name, bytes.fromhex(re.sub(r"[^0-9a-f]", "", found[1])).lstrip(b"\0")


def needles(keys, secret):
    """{what: bytes}.  Pieces of 16 bytes: whoever has so many of a number has what is not random."""
    found = {"secret": secret[:16], "secret's end": secret[-16:], "secret in hex": secret.hex()[:32].encode(),
             "secret in base64": base64.b64encode(secret)[:24]}
    for key in keys:
        name = os.path.basename(key)
        for part, number in numbers(key):
            for at in (0, len(number) // 2 - 8, len(number) - 16):
                piece = number[at:at + 16]
                found[f"{name} {part} {at}"] = piece
                found[f"{name} {part} {at} reversed"] = piece[::-1]
            found[f"{name} {part} in hex"] = number.hex()[:32].encode()
        with open(key, encoding="ascii") as f:
            lines = f.read().split("\n")[1:-2]
        for i, line in enumerate(lines[1:], 1):  # the first one says what it is, and no more
            found[f"{name} line {i}"] = line[:40].encode()
    return found


class Keys(World):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="tarn-keys.")
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)
        certs = os.path.join(self.dir, "certs")
        os.mkdir(certs)
        pki().leaf("default", ["DNS:a.test"], to=certs)
        pki().leaf("a-rsa", ["DNS:a.test"], key=RSA, to=certs)
        mine = pki().leaf("mine", [], to=self.dir)
        self.secret = os.path.join(self.dir, "secret")
        with open(self.secret, "wb") as f:
            f.write(os.urandom(64))
        with open(self.secret, "rb") as f:
            self.needles = needles((f"{certs}/default.key", f"{certs}/a-rsa.key", mine[1]), f.read())
        self.backend = TlsOrigin(pki().leaf("origin", ["DNS:localhost"]), client_ca=pki().ca.pem)
        self.addCleanup(self.backend.close)

        def play(handler):
            handler.start("length", 5, "no-store")
            handler.piece(b"hello")

        self.target = self.backend.script("key", play)
        for path in glob.glob(f"{self.dir}/**", recursive=True):
            os.chown(path, NOBODY if os.geteuid() == 0 else -1, -1)
            os.chmod(path, 0o700 if os.path.isdir(path) else 0o600)
        self.config = CONFIG.format(
            certs=certs, secret=self.secret, origin=origin.address, port=self.backend.port, ca=f"{self.dir}/ca.pem",
            mine=mine, format=FORMAT, folder=self.dir, more="{more}")
        shutil.copy(pki().ca.pem, f"{self.dir}/ca.pem")
        os.chmod(f"{self.dir}/ca.pem", 0o644)

    def begin(self, more="", before=None):
        """A tarnd that has used each key."""
        with open(os.path.join(self.dir, "error.log"), "w", encoding="utf-8") as said:
            it = Tarnd(self.program, self.config.replace("{more}", more), stderr=said, before=before)
        it.log = said.name
        os.symlink(f"{self.dir}/admin.sock", f"{it.dir}/admin.sock")
        self.addCleanup(it.tidy)
        sessions = []
        for most, ciphers in ((TLS12, "ECDHE-ECDSA-AES128-GCM-SHA256"), (TLS12, "ECDHE-RSA-AES256-GCM-SHA384"), (TLS13, None)):
            for session in (None, 1):
                context = sessions[-1][0] if session else client_context(most=most)
                if ciphers:
                    context.set_ciphers(ciphers)
                with it.secure(context, session=sessions[-1][1] if session else None) as s:
                    s.sendall(tarnd.request(HIT, "User-Agent: " + "x" * 4000, host="a.test"))
                    self.assertEqual(read_answer(s.recv).body, body(1000))
                    self.assertEqual(s.session_reused, session is not None)
                    sessions.append((context, s.session))
        self.assertEqual(it.ask_tls(self.target).body, b"hello")
        with it.connect() as s:  # a handshake that fails
            s.sendall(b"GET / HTTP/1.1\r\n\r\n")
            tarnd.read_to_end(s)
        return it

    def found(self, data):
        return sorted(what for what, piece in self.needles.items() if piece in data)

    def memory(self, it):
        """(line of /proc/PID/maps, bytes) of each mapping that can be read."""
        with open(f"/proc/{it.process.pid}/maps", encoding="utf-8") as maps, \
                open(f"/proc/{it.process.pid}/mem", "rb", buffering=0) as mem:
            for line in maps:
                low, high = (int(x, 16) for x in line.split()[0].split("-"))
                if "r" not in line.split()[1]:
                    continue
                try:
                    mem.seek(low)
                    yield line, mem.read(high - low)
                except (OSError, OverflowError):
                    pass  # [vvar] and the like

    def is_dumpable(self, it):
        """The kernel gives the files of a process that leaves no dump to root."""
        return os.stat(f"/proc/{it.process.pid}/mem").st_uid == NOBODY


class Where(Keys):
    def test_in_nothing_that_is_shared_logged_or_answered(self):
        it = self.begin()
        log = f"{self.dir}/access.log"
        tarnd.wait_until(lambda: os.path.getsize(log) > 7 * 100, "the access log has all")
        tarnd.wait_until(lambda: "TLS handshake failed" in self.said(it), "the error log has it")
        shared = [f for f in glob.glob(f"/dev/shm/tarn.{it.process.pid}/**", recursive=True) if os.path.isfile(f)]
        self.assertGreaterEqual(len(shared), 2)
        sizes = 0
        for path in (*shared, log, it.log):
            with open(path, "rb") as f:
                data = f.read()
            self.assertEqual(self.found(data), [], path)
            sizes += len(data)
        self.assertGreater(sizes, 4 << 20)  # log rings, as they are
        for target in ("/v1/counters", "/v1/memory", "/v1/backends", "/v1/tls", "/v1/parameters", "/v1/config"):
            try:
                answer = it.admin(target)
            except ValueError:
                continue  # not JSON: there is no such thing
            self.assertEqual(self.found(repr(answer).encode()), [], target)
        self.assertEqual(it.close(), 0)

    def test_in_private_memory_and_no_other(self):
        """Of the PEM's text nothing is left (daemon/tls/README.md, 17)."""
        it = self.begin()
        there = set()
        for mapping, data in self.memory(it):
            got = self.found(data)
            there.update(got)
            if got:
                self.assertEqual(mapping.split()[1][3], "p", f"{got} in {mapping}")
        self.assertGreater(len(there), 4, "it looks in vain")
        self.assertEqual([w for w in there if " line " in w or " hex" in w or "base64" in w], [])
        self.assertEqual([w for w in there if w.startswith("secret")], [])
        self.assertEqual(it.close(), 0)


class CoreDumps(Keys):
    """Where core_pattern is a file's name, a crash is made, too."""

    @staticmethod
    def here(folder):
        def before():
            resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            os.chdir(folder)
        return before

    def crash(self, more):
        """What there is in its folder then, and what the kernel said of it before."""
        folder = tempfile.mkdtemp(dir=self.dir)
        os.chmod(folder, 0o777)
        it = self.begin(more, self.here(folder))
        with open(f"/proc/{it.process.pid}/limits", encoding="ascii") as f:
            limit = next(line.split()[4] for line in f if line.startswith("Max core file size"))
        dumpable = self.is_dumpable(it)
        it.process.send_signal(signal.SIGSEGV)
        self.assertEqual(it.process.wait(tarnd.PATIENCE_S), -signal.SIGSEGV)
        return os.listdir(folder), folder, limit, dumpable

    @unittest.skipUnless(os.geteuid() == 0, "only root can start it as another user, and see who owns its files")
    def test_a_crash_leaves_none(self):
        for more in (", user: nobody", ", user: nobody, sandbox: off"):
            left, _, limit, dumpable = self.crash(more)
            self.assertEqual((left, limit, dumpable), ([], "0", False), more)

    @unittest.skipUnless(os.geteuid() == 0, "only root can start it as another user, and see who owns its files")
    def test_with_core_dumps_a_crash_leaves_one_with_the_keys(self):
        left, folder, limit, dumpable = self.crash(", user: nobody, sandbox: off, core_dumps: on")
        self.assertEqual((limit, dumpable), ("unlimited", True))
        with open("/proc/sys/kernel/core_pattern", encoding="ascii") as f:
            if "/" in f.read():  # to a program, or elsewhere
                return
        self.assertEqual(len(left), 1, left)
        with open(os.path.join(folder, left[0]), "rb") as f:
            self.assertNotEqual(self.found(f.read()), [], "the search finds no key where one must be")


if __name__ == "__main__":
    World.program = os.path.abspath(sys.argv.pop(1))
    origin = Origin()
    unittest.main(verbosity=2, warnings="ignore")
