#!/usr/bin/env python3
"""tls_attack.py TARND [TEST...] -- what hostile, broken and slow clients do to a TLS listener.

Nobody else may notice it, and nothing may be left of it: memory comes back, and every handshake that failed is
counted.
"""
import asyncio
import ctypes
import os
import socket
import ssl
import struct
import sys
import threading
import time
import unittest

sys.dont_write_bytecode = True
import tarnd
import tls_libssl
from origin import Origin, body
from tls_world import TLS12, TLS13, World, client_context, pki, read_answer, read_whole

CONFIG = """backends: {{ default: {{ address: '{origin}' }} }}
parameters: {{ timeout_idle: 60s {more} }}
"""
HIT = "/body?n=1000&framing=length"
ALERT, HANDSHAKE, DATA = 21, 22, 23
origin = None


def record(kind, payload, version=0x0303, length=None):
    return struct.pack("!BHH", kind, version, len(payload) if length is None else length) + payload


def records(data):
    """(type, payload) of each whole one."""
    found, at = [], 0
    while at + 5 <= len(data):
        kind, _, size = struct.unpack("!BHH", data[at:at + 5])
        found.append((kind, data[at + 5:at + 5 + size]))
        at += 5 + size
    return found


def hello(context=None):
    """A ClientHello, as a client sends it: one record."""
    into, out = ssl.MemoryBIO(), ssl.MemoryBIO()
    s = (context or client_context()).wrap_bio(into, out, server_hostname="a.test")
    try:
        s.do_handshake()
    except ssl.SSLWantReadError:
        pass
    return out.read()


class Attack(World):
    def tls(self, more="", listener=""):
        it = self.start(CONFIG.format(origin=origin.address, more=more),
                        f"    tls: {{ certificates: {pki().certs} }}\n{listener}")
        it.ask_tls(HIT)
        return it

    def serves(self, it):
        self.assertEqual(it.ask_tls(HIT).body, body(1000))

    def say(self, it, data):
        """Bytes on a connection of their own; answers with all that comes back."""
        with it.connect() as s:
            try:
                s.sendall(data)
                s.shutdown(socket.SHUT_WR)
            except OSError:
                pass  # it has heard enough
            return tarnd.read_to_end(s)

    def traffic(self, it):
        parts = it.admin("/v1/memory")["total"]["parts"]["traffic"]["parts"]
        return {k: parts[k] for k in ("connections", "incoming", "tls", "requests")}

    def comes_back(self, it, base):
        def there():
            now = self.traffic(it)
            return (now["incoming"] == 0 and now["requests"] <= base["requests"] and
                    now["tls"] <= base["tls"] + 65536 and now["connections"] <= base["connections"] + 65536)
        try:
            tarnd.wait_until(there, "memory comes back", 15)
        except AssertionError:
            self.fail(f"before {base}, now {self.traffic(it)}")

    def settled(self, it):
        """Memory when there is nobody, after a first round has warmed what is kept."""
        time.sleep(1.2)
        return self.traffic(it)


class Garbage(Attack):
    def test_plain_http_and_garbage(self):
        it = self.tls()
        base = self.settled(it)
        lines = [b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n", b"\0" * 1000, b"\xff" * 20000, b"SSH-2.0-x\r\n",
                 b"PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\n" + hello(), b"\x80\x2e\x01\x03\x01" + b"\0" * 41,
                 record(DATA, b"GET / HTTP/1.1\r\n\r\n"), record(ALERT, b"\2\0"), record(ALERT, b"\1\0"),
                 record(HANDSHAKE, b"\x01\xff\xff\xff" + b"\0" * 1000), record(HANDSHAKE, b""),
                 record(HANDSHAKE, b"\x02\0\0\0"), record(HANDSHAKE, b"\x10\0\0\0"), record(20, b"\1") * 100,
                 record(HANDSHAKE, b"", length=0xffff) + b"\0" * 70000, hello() + b"GET / HTTP/1.1\r\n\r\n",
                 hello() + hello(), hello() + record(DATA, b"\0" * 30)]
        for data in lines:
            answer = self.say(it, data)
            self.assertNotIn(b"HTTP/1.1 200", answer, data[:40])
            self.assertNotIn(DATA, [kind for kind, _ in records(answer)][:1], data[:40])
        tarnd.wait_until(lambda: self.counters(it)["sess.tls_failed"] == len(lines), "each is counted")
        self.serves(it)
        self.comes_back(it, base)

    def test_plain_http_is_told_so(self):
        it = self.tls()
        text = b"The plain HTTP request was sent to an HTTPS port: write https:// in front of its URL\n"
        asks = [method + b" / HTTP/1.1\r\nHost: a.test\r\n\r\n" for method in
                (b"GET", b"HEAD", b"PUT", b"DELETE", b"OPTIONS", b"PATCH", b"TRACE", b"CONNECT")]
        asks += [b"POST /x HTTP/1.1\r\nHost: a.test\r\nContent-Length: 3000\r\n\r\n" + b"x" * 3000,
                 b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"]
        for ask in asks:
            head, _, told = self.say(it, ask).partition(b"\r\n\r\n")
            self.assertTrue(head.startswith(b"HTTP/1.1 400 Bad Request\r\n"), ask[:20])
            self.assertIn(b"Connection: close", head)
            self.assertIn(b"Content-Length: %d" % len(told), head)
            self.assertEqual(told, text)
        with it.connect() as s:  # byte by byte
            for at in range(0, 20):
                try:
                    s.sendall(asks[0][at:at + 1])
                except OSError:
                    break
                time.sleep(0.01)
            self.assertTrue(tarnd.read_to_end(s).endswith(text))
        for other in (b"GETX / HTTP/1.1\r\n\r\n", b"SSH-2.0-x\r\n", b"get / HTTP/1.1\r\n\r\n", b"\xff" * 100):
            self.assertNotIn(b"HTTP", self.say(it, other))
        tarnd.wait_until(lambda: self.counters(it)["sess.tls_failed"] == len(asks) + 5, "each is counted")
        self.wait_for_words(it, "TLS handshake failed: http request")
        self.serves(it)

    def test_every_byte_of_a_hello_changed(self):
        it = self.tls()
        base = self.settled(it)
        good = hello()
        for at in range(len(good)):
            changed = bytearray(good)
            changed[at] ^= 0x80 if at % 2 else 0xff
            self.say(it, bytes(changed))
        self.serves(it)
        self.comes_back(it, base)

    def test_alerts_of_the_client(self):
        it = self.tls()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(pki().other.pem)
        for version in (TLS12, TLS13):
            context.minimum_version = context.maximum_version = version
            with self.assertRaises(ssl.SSLCertVerificationError):
                it.secure(context)
        self.wait_for_words(it, "TLS handshake failed: .*unknown ca")
        self.serves(it)
        with it.secure() as s:  # a fatal one in the middle of a connection
            raw = socket.socket(fileno=os.dup(s.fileno()))
            s.sendall(tarnd.request(HIT, host="a.test"))
            read_answer(s.recv)
            raw.sendall(record(ALERT, b"\2\x28"))  # in the clear
            with self.assertRaises((ssl.SSLError, ConnectionError)):
                s.recv(10)
            raw.close()

    def test_a_changed_record_ends_it(self):
        """What came before is answered; what is in it, and behind it, never happened."""
        it = self.tls()
        for version in (TLS12, TLS13):
            for at in (5, 20, -1):
                with it.wire(client_context(least=version, most=version)).handshake() as w:
                    asked = origin.requests[f"/body?n=7&framing=length&{at}&{version}"]
                    w.send(tarnd.request(HIT, host="a.test"))
                    w.ssl.write(tarnd.request(f"/body?n=7&framing=length&{at}&{version}", host="a.test"))
                    bad = bytearray(w.out.read())
                    bad[at] ^= 1
                    w.sock.sendall(bad)
                    with self.assertRaisesRegex(ssl.SSLError, "(?i)bad.record.mac|decryption.failed|decrypt.error"):
                        while w.call(w.ssl.read, 65536):
                            pass
                    self.assertEqual(origin.requests[f"/body?n=7&framing=length&{at}&{version}"], asked)
        self.serves(it)

    def test_records_that_come_in_part_are_charged(self):
        """A library that waits for the rest of 16 KiB holds them, and the storage knows of it."""
        it = self.tls()
        wires = [it.wire(client_context()).handshake() for _ in range(40)]
        base = self.settled(it)
        for w in wires:
            w.sock.sendall(record(DATA, b"\0" * 4000, length=16384))
        tarnd.wait_until(lambda: self.traffic(it)["tls"] >= base["tls"] + 40 * 16384 - 65536, "they are charged")
        for w in wires:
            w.close()
        self.serves(it)
        self.comes_back(it, base)

    def test_records_too_long(self):
        it = self.tls()
        for version in (TLS12, TLS13):
            with it.wire(client_context(least=version, most=version)).handshake() as w:
                w.sock.sendall(record(DATA, b"\0" * 16640 + b"\0" * 1000))
                with self.assertRaises((ssl.SSLError, ConnectionError)):
                    while w.call(w.ssl.read, 65536):
                        pass
        self.serves(it)

    def test_empty_records_without_end(self):
        it = self.tls()
        with it.wire(client_context(most=TLS12)).handshake() as w:
            try:
                for _ in range(200):
                    w.sock.sendall(record(20, b"\1") + record(23, b""))
                w.read_to_end()
                self.fail("it goes on")
            except (ssl.SSLError, ConnectionError):
                pass
        self.serves(it)


class Pieces(Attack):
    def test_one_byte_at_a_time(self):
        it = self.tls()
        for version in (TLS12, TLS13):
            with it.wire(client_context(least=version, most=version)) as w:
                w.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                w.handshake(size=1)
                w.send(tarnd.request(HIT, "Connection: close", host="a.test"), size=1)
                self.assertEqual(tarnd.Answer(w.read_to_end()).body, body(1000))

    def test_a_hello_in_many_records(self):
        """RFC 8446 5.1: handshake messages may be fragmented over records."""
        it = self.tls()
        for size in (1, 2, 5, 100):
            with it.wire() as w:
                try:
                    w.ssl.do_handshake()
                except ssl.SSLWantReadError:
                    pass
                (_, message), = records(w.out.read())
                whole = b"".join(record(HANDSHAKE, message[at:at + size], 0x0301) for at in range(0, len(message), size))
                w.sock.sendall(whole)
                w.handshake()
                w.send(tarnd.request(HIT, "Connection: close", host="a.test"))
                self.assertEqual(tarnd.Answer(w.read_to_end()).body, body(1000), size)

    def test_records_of_one_byte(self):
        it = self.tls()
        for version in (TLS12, TLS13):
            with it.wire(client_context(least=version, most=version)).handshake() as w:
                for one in tarnd.request(HIT, "Connection: close", host="a.test"):
                    w.ssl.write(bytes([one]))
                w.flush()
                self.assertEqual(tarnd.Answer(w.read_to_end()).body, body(1000))
            with it.wire(client_context(least=version, most=version)).handshake() as w:
                for one in tarnd.request("/up", "Content-Length: 3000", "Connection: close", method="POST", host="a.test"):
                    w.ssl.write(bytes([one]))
                for one in body(3000):
                    w.ssl.write(bytes([one]))
                w.flush(size=4099)
                self.assertEqual(tarnd.Answer(w.read_to_end()).status, 501)  # of the origin

    def test_the_request_comes_with_the_last_flight(self):
        """One packet: Finished, the request, close_notify, FIN."""
        it = self.tls()
        for version in (TLS12, TLS13):
            with it.wire(client_context(least=version, most=version)) as w:
                for _ in range(3):
                    try:
                        w.ssl.do_handshake()
                        break
                    except ssl.SSLWantReadError:
                        w.flush()
                        w.hear()
                w.ssl.write(tarnd.request(HIT, "Connection: close", host="a.test"))
                w.flush()
                w.sock.shutdown(socket.SHUT_WR)
                self.assertEqual(tarnd.Answer(w.read_to_end()).body, body(1000))

    def flights(self, version):
        """Bytes of the client's, in the order in which it sends them, by a whole handshake."""
        it = self.it
        sent = []
        with it.wire(client_context(least=version, most=version)) as w:
            while True:
                try:
                    w.ssl.do_handshake()
                    data = w.out.read()
                    w.sock.sendall(data)
                    sent.append(len(data))
                    return sent
                except ssl.SSLWantReadError:
                    data = w.out.read()
                    if data:
                        sent.append(len(data))
                    w.sock.sendall(data)
                    w.hear()

    def cut(self, version, at, how):
        """A handshake whose client sends `at` bytes in all and then ends."""
        with self.it.wire(client_context(least=version, most=version)) as w:
            left = at
            while True:
                try:
                    w.ssl.do_handshake()
                    done = True
                except ssl.SSLWantReadError:
                    done = False
                data = w.out.read()[:left]
                w.sock.sendall(data)
                left -= len(data)
                if left == 0 or done:
                    break
                w.hear()
            if how == "reset":
                tarnd.reset(w.sock)
                return
            w.sock.shutdown(socket.SHUT_WR)
            tarnd.read_to_end(w.sock)

    def test_a_handshake_cut_at_every_byte(self):
        self.it = self.tls()
        base = self.settled(self.it)
        before = self.counters(self.it)["sess.tls_failed"]
        expected = 0
        for version in (TLS12, TLS13):
            total = sum(self.flights(version))
            for at in range(1, total):
                how = "reset" if at % 7 == 0 else "end"
                self.cut(version, at, how)
                expected += 1
        self.serves(self.it)
        failed = lambda: self.counters(self.it)["sess.tls_failed"] - before
        tarnd.wait_until(lambda: failed() == expected, f"each has failed: {failed()} of {expected}", 10)
        self.comes_back(self.it, base)


class Limits(Attack):
    @unittest.skipUnless(tls_libssl.lib, "no libssl")
    def test_new_keys(self):
        """Each is answered where the client asks for it; a flood of them ends the connection."""
        it = self.tls()
        for ask in (False, True):
            with tls_libssl.Client(it.connect()).handshake() as c:
                for _ in range(100):  # one for much data
                    c.key_update(ask)
                    c.write(tarnd.request("/body?n=40000&framing=length", host="a.test"))
                    c.flush()
                    answer = b""
                    while len(answer.partition(b"\r\n\r\n")[2]) < 40000:
                        answer += c.read()
            for data in (0, 1000, 30):  # a byte of it behind each so many; 0: at the end
                for together in (True, False):
                    with tls_libssl.Client(it.connect()).handshake() as c:
                        asked = tarnd.request(HIT, "X: " + "x" * 70, host="a.test")
                        with self.assertRaises((tls_libssl.Failed, ConnectionError)):
                            for i in range(2000):
                                c.key_update(ask)
                                if data and i % data == data - 1:
                                    c.write(asked[:1])
                                    asked = asked[1:]
                                if not together:
                                    c.flush()
                            c.write(asked)
                            c.flush()
                            c.read()
                            self.fail(f"2000 new keys: {ask} {data} {together}")
        self.serves(it)

    @unittest.skipUnless(tls_libssl.lib, "no libssl")
    def test_renegotiation_is_refused(self):
        it = self.tls()
        for _ in range(3):
            with tls_libssl.Client(it.connect(), tls_libssl.TLS1_2).handshake() as c:
                self.assertEqual(tls_libssl.lib.SSL_renegotiate(c.ssl), 1)
                failed = self.counters(it)["sess.tls_failed"]
                with self.assertRaises((tls_libssl.Failed, ConnectionError)):
                    c.handshake()
                    c.write(tarnd.request(HIT, host="a.test"))
                    c.flush()
                    c.read()
                self.assertEqual(self.counters(it)["sess.tls_failed"], failed)
        self.serves(it)

    @unittest.skipUnless(tls_libssl.lib, "no libssl")
    def test_early_data_is_refused(self):
        """And the request is not executed twice: what came early never happened (RFC 8446 8)."""
        it = self.tls()
        with tls_libssl.Client(it.connect()).handshake() as c:
            c.write(tarnd.request(HIT, host="a.test"))
            c.flush()
            c.read()
            kept = tls_libssl.lib.SSL_SESSION_dup(c.session())
        for size in (10, 10000):
            session = tls_libssl.lib.SSL_SESSION_dup(kept)  # OpenSSL forgets what was refused
            self.assertEqual(tls_libssl.lib.SSL_SESSION_set_max_early_data(session, 100000), 1)
            target = f"/script/early-{size}"
            origin.script(f"early-{size}", lambda h: (h.start("length", 2), h.piece(b"ok")))
            with tls_libssl.Client(it.connect(), session=session) as c:
                n = ctypes.c_size_t()
                early = tarnd.request(target, "X: " + "x" * size, host="a.test")
                self.assertEqual(tls_libssl.lib.SSL_write_early_data(c.ssl, early, len(early), ctypes.byref(n)), 1)
                c.flush()
                c.handshake()
                self.assertEqual(tls_libssl.lib.SSL_get_early_data_status(c.ssl), 1)  # rejected
                time.sleep(0.1)
                with origin.lock:
                    self.assertEqual(origin.requests[target], 0)
                c.write(tarnd.request(HIT, host="a.test"))
                c.flush()
                self.assertTrue(c.read().startswith(b"HTTP/1.1 200"))
        self.serves(it)

    def test_a_slow_handshake_ends_in_time(self):
        it = self.tls(more=", timeout_req: 1s")
        data = hello()
        began = time.monotonic()
        silent = it.connect()
        with it.connect() as s:
            with self.assertRaises(ConnectionError):
                for one in data:
                    s.sendall(bytes([one]))
                    time.sleep(0.05)
                s.sendall(b"x")
                if not s.recv(1000):
                    raise ConnectionError
            self.assertLess(time.monotonic() - began, 5)
        self.assertEqual(tarnd.read_to_end(silent), b"")
        silent.close()
        half = it.wire()  # the client's second flight never comes
        try:
            half.ssl.do_handshake()
        except ssl.SSLWantReadError:
            half.flush()
        began = time.monotonic()
        tarnd.read_to_end(half.sock)
        self.assertLess(time.monotonic() - began, 5)
        half.close()
        tarnd.wait_until(lambda: self.counters(it)["sess.timeout"] == 3, "three took too long")
        self.serves(it)

    def test_five_hundred_at_once_beside_hits(self):
        self.workers = 2
        it = self.tls()
        self.workers = 1
        context = client_context()
        hits, ending, lost = [0], threading.Event(), []

        def hit():
            with it.secure(context) as s:
                while not ending.is_set():
                    s.sendall(tarnd.request(HIT, host="a.test"))
                    if read_answer(s.recv).body != body(1000):
                        lost.append("hit")
                    hits[0] += 1

        async def one():
            r, w = await asyncio.open_connection("127.0.0.1", it.port, ssl=context, server_hostname="a.test",
                                                 ssl_handshake_timeout=40)
            w.write(tarnd.request(HIT, "Connection: close", host="a.test"))
            data = await r.read()
            w.close()
            if tarnd.Answer(data).body != body(1000):
                raise AssertionError(data[:100])

        async def all_of_them():
            return await asyncio.gather(*(one() for _ in range(500)), return_exceptions=True)

        beside = threading.Thread(target=hit)
        beside.start()
        lost += [e for e in asyncio.run(all_of_them()) if e is not None]
        ending.set()
        beside.join()
        self.assertEqual(lost, [])
        self.assertGreater(hits[0], 100)

    def test_max_connections(self):
        it = self.tls(more=", max_connections: 20")
        base = self.settled(it)
        idle = [it.connect() for _ in range(60)]  # say nothing: those that come make them way
        time.sleep(0.3)
        self.assertLessEqual(self.counters(it)["sess.accepted"] - self.counters(it)["sess.closed"], 21)
        deadline = time.monotonic() + 30
        while True:
            try:
                self.serves(it)
                break
            except (OSError, ssl.SSLError):
                self.assertLess(time.monotonic(), deadline, "silent clients keep out all others")
                time.sleep(0.5)
        for s in idle:
            s.close()
        self.comes_back(it, base)

    def test_clients_that_leave(self):
        it = self.tls()
        base = self.settled(it)
        for i in range(60):
            w = it.wire(client_context(most=TLS12 if i % 2 else TLS13)).handshake()
            w.send(tarnd.request(f"/body?n=5000000&framing=length&leave={i % 4}", host="a.test"))
            if i % 3:
                w.call(w.ssl.read, 1000)
            if i % 5 == 0:
                tarnd.reset(w.sock)
            else:
                w.close()
        self.serves(it)
        self.comes_back(it, base)


class Proxied(Attack):
    V1 = b"PROXY TCP4 192.0.2.7 192.0.2.8 1234 443\r\n"
    V2 = (b"\r\n\r\n\0\r\nQUIT\n\x21\x11" + struct.pack("!H", 12) + socket.inet_aton("192.0.2.7") +
          socket.inet_aton("192.0.2.8") + struct.pack("!HH", 1234, 443))

    def test_a_proxy_header_in_front(self):
        origin.script("whose", lambda h: (h.start("length", len(h.headers["X-Forwarded-For"]), "no-store"),
                                          h.piece(h.headers["X-Forwarded-For"].encode())))
        port = tarnd.free_port()
        it = self.tls(listener=f"  - address: 127.0.0.1:{port}\n    proxy_protocol: required\n"
                               f"    tls: {{ certificates: {pki().certs} }}\n")
        base = self.settled(it)
        for header in (self.V1, self.V2):
            for version in (TLS12, TLS13):
                for size in (None, 1, 3):
                    with it.wire(client_context(least=version, most=version), port=port) as w:
                        w.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                        if size is None:  # with the hello in one packet
                            try:
                                w.ssl.do_handshake()
                            except ssl.SSLWantReadError:
                                w.sock.sendall(header + w.out.read())
                        for at in range(0, len(header) if size else 0, size or 1):
                            w.sock.sendall(header[at:at + size])
                        w.handshake(size)
                        w.send(tarnd.request("/script/whose", "Connection: close", host="a.test"), size)
                        self.assertEqual(tarnd.Answer(w.read_to_end()).body, b"192.0.2.7")
        with self.assertRaises((ssl.SSLError, ConnectionError)):
            it.wire(port=port).handshake()  # no header
        with it.wire(port=port) as w:  # cut behind the header
            w.sock.sendall(self.V2)
        with it.secure() as s:  # inside TLS, where none is expected
            s.sendall(self.V1 + tarnd.request(HIT, host="a.test"))
            self.assertEqual(tarnd.Answer(read_whole(s)).status, 400)
        self.assertEqual(self.counters(it)["sess.proxied_bad"], 1)
        self.comes_back(it, base)


if __name__ == "__main__":
    World.program = os.path.abspath(sys.argv.pop(1))
    origin = Origin()
    unittest.main()
