#!/usr/bin/env python3
"""tls_certs.py TARND [TEST...] -- what operators do to HTTPS: certificates that change under load, sessions that go
on, http that leads to https, challenges of ACME.
"""
import http.client
import os
import shutil
import signal
import socket
import ssl
import sys
import tempfile
import threading
import time
import unittest

sys.dont_write_bytecode = True
import tarnd
from origin import Origin, body
from supervised import Supervised
from tls_origin import TlsOrigin
from tls_world import DAY, TLS12, TLS13, Tarnd, World, client_context, pki, read_whole

HIT = "/body?n=1000&framing=length"
origin = None


class SupervisedTls(Supervised, Tarnd):
    def __init__(self, program, config, stderr):
        super().__init__(program, config)
        self.log_name = self.log.name


class Certs(World):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="tarn-certs.")
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)

    def backends(self, more=""):
        return f"backends: {{ default: {{ address: '{origin.address}' }} }}\nparameters: {{ timeout_idle: 60s }}\n{more}"

    def tls(self, tls, listener=""):
        return self.start(self.backends(), f"    tls: {tls}\n{listener}")

    def serial(self, it, name="a.test", context=None):
        context = context or client_context()
        with it.secure(context, name) as s:
            return s.getpeercert()["serialNumber"]

    def reload(self, it):
        """By SIGHUP; answers with what the log says of it."""
        at = len(self.said(it))
        it.process.send_signal(signal.SIGHUP)
        tarnd.wait_until(lambda: "reload" in self.said(it)[at:] or "read again" in self.said(it)[at:], "a reload is logged", 20)
        time.sleep(0.1)
        return self.said(it)[at:]


class Reload(Certs):
    def test_swapped_under_load(self):
        """20,000 requests, a new certificate each half second: none fails, and the last one is served."""
        self.workers = 2
        pair = pki().leaf("swap", ["DNS:a.test"], to=self.dir)
        it = self.tls(self.dir)
        self.workers = 1
        it.ask_tls(HIT)
        context, failures, done, ending = client_context(), [], [0], threading.Event()

        def load():
            while not ending.is_set():
                try:
                    c = http.client.HTTPSConnection("127.0.0.1", it.port, context=context, timeout=tarnd.PATIENCE_S)
                    c.sock = it.secure(context)
                    for _ in range(150):
                        c.request("GET", HIT, headers={"Host": "a.test"})
                        answer = c.getresponse()
                        if answer.status != 200 or len(answer.read()) != 1000:
                            raise AssertionError(answer.status)
                        done[0] += 1
                    c.close()
                except (OSError, http.client.HTTPException, AssertionError) as e:
                    failures.append(repr(e))

        threads = [threading.Thread(target=load) for _ in range(6)]
        for t in threads:
            t.start()
        began, serials = time.monotonic(), []
        while done[0] < 20000 and time.monotonic() - began < 60:
            pki().leaf("swap-next", ["DNS:a.test"], to=pki().dir)
            for end in ("key", "crt"):
                shutil.copy(pki().path(f"swap-next.{end}"), f"{self.dir}/next.{end}")
                os.chmod(f"{self.dir}/next.{end}", 0o600)
            # in two steps, as operators copy: a reload between them must not break anything
            os.rename(f"{self.dir}/next.key", pair[1])
            it.process.send_signal(signal.SIGHUP)
            time.sleep(0.05)
            os.rename(f"{self.dir}/next.crt", pair[0])
            it.process.send_signal(signal.SIGHUP)
            time.sleep(0.4)
            serials.append(self.serial(it))
        ending.set()
        for t in threads:
            t.join()
        self.assertEqual(failures[:5], [])
        self.assertGreaterEqual(done[0], 20000 if time.monotonic() - began < 60 else 1000)
        self.assertEqual(len(set(serials)), len(serials), "each new one is served")

    def bad(self, how):
        """Files in self.dir that no listener can use; the name that must be said."""
        crt, key = f"{self.dir}/a.crt", f"{self.dir}/a.key"
        if how == "key of another":
            shutil.copy(pki().me[1], key)
            return key
        if how == "readable by all":
            os.chmod(key, 0o644)
            return key
        if how == "truncated":
            with open(crt, "r+b") as f:
                f.truncate(os.path.getsize(crt) // 2)
            return crt
        if how == "empty file":
            open(crt, "wb").close()
            return crt
        if how == "no key":
            os.unlink(key)
            return crt
        if how == "nonsense":
            with open(crt, "w", encoding="ascii") as f:
                f.write("hello\n")
            return crt
        if how == "truncated key":
            with open(key, "r+b") as f:
                f.truncate(os.path.getsize(key) // 2)
            return key
        for name in os.listdir(self.dir):
            os.unlink(f"{self.dir}/{name}")
        return self.dir

    KINDS = ("key of another", "readable by all", "truncated", "empty file", "no key", "nonsense", "truncated key", "nothing")

    LATE = ("key of another", "truncated key")  # known when the key is parsed: at the first handshake

    def test_bad_files_refuse_a_start(self):
        for how in self.KINDS:
            pki().leaf("a", ["DNS:a.test"], to=self.dir)
            named = self.bad(how)
            if how not in self.LATE:
                self.assertIn(named, self.refused(self.backends(), f"    tls: {self.dir}\n"), how)
                continue
            it = self.tls(self.dir)
            with self.assertRaises((ssl.SSLError, ConnectionError)):
                it.secure()
            self.wait_for_words(it, named)
            self.end(it)

    def test_bad_files_keep_the_old_ones(self):
        for how in self.KINDS:
            shutil.rmtree(self.dir)
            os.mkdir(self.dir)
            pki().leaf("a", ["DNS:a.test"], to=self.dir)
            it = self.tls(self.dir)
            serial = self.serial(it)
            named = self.bad(how)
            said = self.reload(it)
            self.assertEqual(self.serial(it), serial, how)
            if how in self.LATE:
                self.wait_for_words(it, named)
            else:
                self.assertIn(named, said, how)
            pki().leaf("a", ["DNS:a.test"], to=self.dir)
            self.reload(it)
            self.assertNotEqual(self.serial(it), serial, how)
            self.end(it)

    def test_an_expired_one_is_served_and_said(self):
        crt, _ = pki().leaf("old", ["DNS:a.test"], from_s=-20 * DAY, to_s=-DAY, to=self.dir)
        it = self.tls(self.dir)
        self.assertIn(crt, self.said(it))
        with self.assertRaisesRegex(ssl.SSLCertVerificationError, "expired"):
            it.secure()
        pki().leaf("new", ["DNS:a.test"], to=self.dir)
        self.reload(it)
        self.serial(it)  # the one that is good for longer

    def test_one_bad_among_good_ones(self):
        pki().leaf("a", ["DNS:a.test"], to=self.dir)
        pki().leaf("b", ["DNS:b.test"], to=self.dir)
        it = self.tls(self.dir)
        serials = self.serial(it), self.serial(it, "b.test")
        self.bad("key of another")
        self.reload(it)
        self.assertEqual((self.serial(it), self.serial(it, "b.test")), serials)

    def test_the_client_ca_is_read_again(self):
        """An authority that is taken out of the file may not be believed for longer than until the reload."""
        ca = f"{self.dir}/clients.pem"
        shutil.copy(pki().ca.pem, ca)
        it = self.tls(f"{{ certificates: {pki().certs}, client_auth: required, client_ca: {ca} }}")
        me, stranger = (client_context(most=TLS12, certificate=c) for c in (pki().me, pki().stranger))
        self.assertEqual(it.ask_tls(HIT, context=me).status, 200)
        with self.assertRaises(ssl.SSLError):
            it.ask_tls(HIT, context=stranger)
        shutil.copy(pki().other.pem, ca)
        self.reload(it)
        self.assertEqual(it.ask_tls(HIT, context=stranger).status, 200)
        with self.assertRaises(ssl.SSLError):
            it.ask_tls(HIT, context=me)
        for version in (TLS12, TLS13):  # nor may a session of his go on
            shutil.copy(pki().ca.pem, ca)
            self.reload(it)
            c = client_context(least=version, most=version, certificate=pki().me)
            with it.secure(c) as s:
                s.sendall(tarnd.request(HIT, "Connection: close", host="a.test"))
                read_whole(s)
                session = s.session
            shutil.copy(pki().other.pem, ca)
            self.reload(it)
            with self.assertRaises(ssl.SSLError):
                with it.secure(c, session=session) as s:
                    s.sendall(tarnd.request(HIT, "Connection: close", host="a.test"))
                    read_whole(s)
        with open(ca, "w", encoding="ascii") as f:
            f.write("nonsense\n")
        self.assertIn(ca, self.reload(it))
        self.assertEqual(it.ask_tls(HIT, context=stranger).status, 200)

    def test_the_cas_of_backends_are_read_again(self):
        o = TlsOrigin(pki().leaf("o", ["DNS:localhost"]))
        self.addCleanup(o.close)
        ca = f"{self.dir}/ca.pem"
        shutil.copy(pki().other.pem, ca)
        it = self.start(f"backends: {{ default: {{ address: 'https://localhost:{o.port}', tls: {{ ca: {ca} }} }} }}\n")
        self.assertEqual(it.ask(HIT).status, 502)
        shutil.copy(pki().ca.pem, ca)
        self.reload(it)
        self.assertEqual(it.ask(HIT).status, 200)


class Sessions(Certs):
    def resume(self, first, second, context=None, port=None, name="a.test"):
        """Is a session that `first` gave good at `second`?  By version."""
        found = {}
        for version in (TLS12, TLS13):
            c = context(version) if context else client_context(least=version, most=version)
            with first.secure(c, name) as s:
                s.sendall(tarnd.request(HIT, "Connection: close", host=name))
                read_whole(s)  # TLS 1.3: the ticket comes behind the handshake
                session = s.session
            with second.secure(c, name, session=session, port=port) as s:
                s.sendall(tarnd.request(HIT, "Connection: close", host=name))
                self.assertEqual(tarnd.Answer(read_whole(s)).status, 200)
                found[version] = s.session_reused
        return set(found.values())

    def secret(self, name):
        path = f"{self.dir}/{name}"
        with open(path, "wb") as f:
            f.write(os.urandom(48))
        os.chmod(path, 0o600)
        return f"{{ certificates: {pki().certs}, session_secret: {path} }}"

    def test_of_all_workers(self):
        self.workers = 2
        it = self.tls(pki().certs)
        self.workers = 1
        for _ in range(10):  # whichever worker each connection comes to
            self.assertEqual(self.resume(it, it), {True})
        self.assertEqual(self.counters(it)["sess.tls_resumed"], 20)

    def test_of_nodes_with_one_secret(self):
        one = self.secret("one")
        a, b, c, d = self.tls(one), self.tls(one), self.tls(self.secret("two")), self.tls(pki().certs)
        self.assertEqual(self.resume(a, b), {True})
        self.assertEqual(self.resume(b, a), {True})
        for x, y in ((a, c), (c, a), (a, d), (d, a)):
            self.assertEqual(self.resume(x, y), {False})

    def test_not_between_listeners_with_other_client_auth(self):
        port = {how: tarnd.free_port() for how in ("optional", "required", "other")}
        one = self.secret("one")[:-1]
        it = self.tls(self.secret("one"), "".join(
            f"  - address: 127.0.0.1:{port[how]}\n    tls: {one}, client_auth: {auth}, client_ca: {ca} }}\n"
            for how, auth, ca in (("optional", "optional", pki().ca.pem), ("required", "required", pki().ca.pem),
                                  ("other", "required", pki().other.pem))))
        self.assertEqual(self.resume(it, it, port=port["optional"]), {False})
        with_me = lambda version: client_context(least=version, most=version, certificate=pki().me)
        self.assertEqual(self.resume(it, it, with_me, port["required"]), {False})
        for version in (TLS12, TLS13):  # a session is no way around a certificate
            c = client_context(least=version, most=version)
            with it.secure(c, port=port["optional"]) as s:
                s.sendall(tarnd.request(HIT, "Connection: close", host="a.test"))
                read_whole(s)
                session = s.session
            for to in ("required", "other"):
                with self.assertRaises(ssl.SSLError):
                    with it.secure(c, session=session, port=port[to]) as s:
                        s.sendall(tarnd.request(HIT, "Connection: close", host="a.test"))
                        read_whole(s)

    def test_who_the_client_is_is_known_of_a_resumed_one(self):
        it = self.tls(f"{{ certificates: {pki().certs}, client_auth: required, client_ca: {pki().ca.pem} }}")
        with_me = lambda version: client_context(least=version, most=version, certificate=pki().me)
        self.assertEqual(self.resume(it, it, with_me), {True})

    def test_secrets_that_are_none(self):
        short = f"{self.dir}/short"
        with open(short, "wb") as f:
            f.write(b"x" * 31)
        os.chmod(short, 0o600)
        for path, words in ((short, "31 bytes"), (f"{self.dir}/none", "No such file"), (self.dir, self.dir)):
            said = self.refused(self.backends(),
                                f"    tls: {{ certificates: {pki().certs}, session_secret: {path} }}\n")
            self.assertIn(path, said)
            self.assertIn(words, said)


class Upgrade(Certs):
    def test_a_new_binary_under_load(self):
        """No request fails, and sessions of before go on."""
        secret = f"{self.dir}/secret"
        with open(secret, "wb") as f:
            f.write(os.urandom(32))
        os.chmod(secret, 0o600)
        self.workers = 2
        config = (f"    tls: {{ certificates: {pki().certs}, session_secret: {secret} }}\nworkers: 2\n"
                  'admin: { address: "unix:{dir}/admin.sock" }\n' + self.backends())
        it = SupervisedTls(self.program, config, None)
        self.workers = 1
        self.addCleanup(it.tidy)
        context, failures, done, ending = client_context(), [], [0], threading.Event()

        def load(which):
            session = None
            while not ending.is_set():
                try:
                    with it.secure(context, session=session) as s:
                        for i in range(1 + which * 5):
                            last = i == which * 5
                            s.sendall(tarnd.request(HIT, *(["Connection: close"] if last else []), host="a.test"))
                            data = bytearray()
                            while len(bytes(data).partition(b"\r\n\r\n")[2]) < 1000:
                                piece = s.recv(65536)
                                if not piece:
                                    raise AssertionError(f"ended after {len(data)} bytes, request {i}")
                                data += piece
                            done[0] += 1
                            if b"\r\nConnection: close\r\n" in data:
                                break
                        session = s.session
                except (OSError, AssertionError) as e:
                    failures.append(repr(e))

        threads = [threading.Thread(target=load, args=(i,)) for i in range(5)]
        for t in threads:
            t.start()
        time.sleep(0.5)
        for _ in range(3):
            it.upgrade()
            time.sleep(0.5)
        ending.set()
        for t in threads:
            t.join()
        self.assertEqual(failures, [])
        self.assertGreater(done[0], 300)
        self.assertEqual(it.close(), 0)


class Redirect(Certs):
    def front(self, more="", tls="", policy=""):
        """A plain listener that leads to https, and one with TLS; `more`: of the first."""
        self.port = tarnd.free_port()
        listener = (f"    redirect: https\n{more}  - address: 127.0.0.1:{self.port}\n"
                    f"    tls: {tls or pki().certs}\n")
        return self.start(self.backends(policy), listener)

    def say(self, it, text):
        with it.connect() as s:
            s.sendall(text)
            s.shutdown(socket.SHUT_WR)
            return tarnd.Answer(tarnd.read_to_end(s))

    def test_where_it_leads(self):
        it = self.front()
        asked = sum(origin.requests.values())
        for host, target, to in (("a.test", "/x?y=1", "https://a.test/x?y=1"), ("a.test:8080", "/", "https://a.test/"),
                                 ("A.Test", "/%41/../b", None), ("[::1]:80", "/", "https://[::1]/"),
                                 ("a.test", "//evil.test/", "https://a.test//evil.test/")):
            answer = it.ask(target, method="GET") if host is None else self.say(
                it, f"GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
            self.assertEqual(answer.status, 301, answer.data)
            if to is not None:
                self.assertEqual(answer.fields["location"], to)
            self.assertTrue(answer.fields["location"].lower().startswith("https://" + host.lower().rpartition(":")[0]
                                                                         if host.endswith(("80", "8080")) else "https://"))
        post = self.say(it, b"POST /form HTTP/1.1\r\nHost: a.test\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello")
        self.assertIn(post.status, (301, 308))
        self.assertEqual(post.fields["location"], "https://a.test/form")
        absolute = self.say(it, b"GET http://b.test:81/z HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n")
        self.assertEqual(absolute.fields["location"], "https://b.test/z")
        nobody = self.say(it, b"GET /x HTTP/1.0\r\n\r\n")  # no Host: there is nowhere to send it
        self.assertEqual(nobody.status, 400)
        self.assertNotIn("location", nobody.fields)
        self.assertEqual(sum(origin.requests.values()), asked)
        self.assertEqual(it.ask_tls(HIT, port=self.port).status, 200)

    def test_fields_of_clients_are_not_believed(self):
        it = self.front()
        answer = self.say(it, b"GET / HTTP/1.1\r\nHost: a.test\r\nX-Forwarded-Proto: https\r\nForwarded: proto=https\r\n"
                              b"Connection: close\r\n\r\n")
        self.assertEqual(answer.status, 301)

    def acme(self, policy=""):
        state = f"{self.dir}/state"
        os.makedirs(f"{state}/challenges/http-01", exist_ok=True)
        os.makedirs(f"{state}/challenges/tls-alpn-01", exist_ok=True)
        self.tokens = f"{state}/challenges/http-01"
        with open(f"{self.tokens}/Token_-1", "w", encoding="ascii") as f:
            f.write("Token_-1.thumbprint")
        with open(f"{state}/challenges/secret", "w", encoding="ascii") as f:
            f.write("secret")
        it = self.front(tls=f"{{ certificates: {pki().certs}, acme: {{ names: [a.test], state: {state} }} }}", policy=policy)
        return it

    def test_challenges(self):
        policies = ["", f"vcl: {self.dir}/it.vcl\n"]
        with open(f"{self.dir}/it.vcl", "w", encoding="ascii") as f:
            f.write("vcl 4.1;\nsub vcl_recv { return (pass); }\n")
        for policy in policies:
            it = self.acme(policy)
            where = "/.well-known/acme-challenge/"
            for _ in range(2):
                answer = it.ask(where + "Token_-1")
                self.assertEqual((answer.status, answer.body), (200, b"Token_-1.thumbprint"))
                self.assertNotIn("hit", answer.fields.get("cache-status", ""))
            tls = it.ask_tls(where + "Token_-1", port=self.port)
            self.assertEqual(tls.body, b"Token_-1.thumbprint")
            self.assertEqual(self.say(it, f"HEAD {where}Token_-1 HTTP/1.0\r\nHost: a.test\r\n\r\n".encode()).status, 200)
            for target in (where + "../secret", where + "..%2fsecret", where + "%2e%2e/secret", where + "Token_-1/..",
                           where + "Token_-1%00", where + ".", where + "..", where, where[:-1], where + "x" * 129,
                           where + "/Token_-1", where + "unknown", "/x/.." + where + "../secret"):
                answer = it.ask(target)
                self.assertNotIn(b"secret", answer.body)
                self.assertEqual(answer.status, 301, target)  # as any other
            os.symlink("../secret", f"{self.tokens}/link")
            os.mkfifo(f"{self.tokens}/fifo")
            os.mkdir(f"{self.tokens}/folder")
            open(f"{self.tokens}/empty", "wb").close()
            for target in ("link", "fifo", "folder", "empty"):
                answer = it.ask(where + target)
                self.assertEqual(answer.status, 301, target)
            shutil.rmtree(self.tokens)
            self.end(it)

    def test_an_unknown_token_goes_on_to_the_origin(self):
        state = f"{self.dir}/state"
        os.makedirs(f"{state}/challenges/http-01")
        port = tarnd.free_port()
        it = self.start(self.backends(), f"  - address: 127.0.0.1:{port}\n    tls: {{ certificates: {pki().certs}, "
                                         f"acme: {{ names: [a.test], state: {state} }} }}\n")
        origin.scripts["/.well-known/acme-challenge/theirs"] = lambda h: (h.start("length", 6), h.piece(b"theirs"))
        self.assertEqual(it.ask("/.well-known/acme-challenge/theirs").body, b"theirs")


if __name__ == "__main__":
    World.program = os.path.abspath(sys.argv.pop(1))
    origin = Origin()
    unittest.main()
