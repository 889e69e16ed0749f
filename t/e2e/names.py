#!/usr/bin/env python3
"""names.py TARND [TEST...] -- backends given by name, with a name server of the test's own.

The server answers for *.test on a UDP port of 127.0.0.1 that the parameter `resolver` names.
"""
import http.server
import os
import socket
import socketserver
import struct
import sys
import tempfile
import threading
import time
import unittest

sys.dont_write_bytecode = True
import tarnd

TYPE_A, TYPE_AAAA, NXDOMAIN = 1, 28, 3
CONFIG = """
workers: 2
backends:
%s
routes: [ { backend: b0 } ]
parameters: { resolver: [%s], dns_ttl: %s, log_ring: 64KiB, default_ttl: 0s }
"""
program = None


class NameServer(socketserver.UDPServer):
    """`records`: name -> (ttl, [IPv4 address...]); None: it is silent.  `asked`: (time, name) of each question
    for IPv4 addresses."""

    def __init__(self, port=0):
        super().__init__(("127.0.0.1", port), None)
        self.records, self.asked, self.hold = {}, [], False
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def port(self):
        return self.server_address[1]

    def finish_request(self, request, client_address):
        data, sock = request
        at, labels = 12, []
        while data[at]:
            labels.append(data[at + 1:at + 1 + data[at]].decode())
            at += 1 + data[at]
        kind = struct.unpack("!H", data[at + 1:at + 3])[0]
        name = ".".join(labels)
        if kind == TYPE_A:
            self.asked.append((time.monotonic(), name))
        if self.hold:
            return
        ttl, addresses = self.records.get(name, (0, None))
        answers = [socket.inet_aton(a) for a in addresses or []] if kind == TYPE_A else []
        flags = 0x8180 | (NXDOMAIN if addresses is None else 0)
        reply = data[:2] + struct.pack("!HHHHH", flags, 1, len(answers), 0, 0) + data[12:at + 5]
        for a in answers:
            reply += struct.pack("!HHHIH", 0xC00C, TYPE_A, 1, ttl, 4) + a
        sock.sendto(reply, client_address)

    def times(self, name):
        return [at for at, asked in list(self.asked) if asked == name]

    def close(self):
        self.shutdown()
        self.server_close()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.0"

    def do_GET(self):
        body = self.server.server_address[0].encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def eventually(what, patience_s=tarnd.PATIENCE_S):
    until = time.monotonic() + patience_s
    while not what():
        if time.monotonic() > until:
            raise AssertionError("it did not happen")
        time.sleep(0.05)


class Names(unittest.TestCase):
    def setUp(self):
        self.dns = NameServer()
        self.addCleanup(lambda: self.dns.close())  # perhaps another one by then
        self.origins = [http.server.ThreadingHTTPServer(("127.0.0.2", 0), Handler)]
        self.port = self.origins[0].server_address[1]
        self.origins.append(http.server.ThreadingHTTPServer(("127.0.0.3", self.port), Handler))
        for origin in self.origins:
            origin.daemon_threads = True
            threading.Thread(target=origin.serve_forever, daemon=True).start()
            self.addCleanup(origin.server_close)
            self.addCleanup(origin.shutdown)
        self.log = tempfile.TemporaryFile("w+")
        self.addCleanup(self.log.close)

    def start(self, names, dns_ttl="30s"):
        rows = "\n".join(f'  b{i}: {{ address: "{name}:{self.port}" }}' for i, name in enumerate(names))
        self.tarnd = tarnd.Tarnd(
            program, CONFIG % (rows, f'"127.0.0.1:{self.dns.port()}"', dns_ttl), stderr=self.log)
        self.addCleanup(self.tarnd.tidy)
        return self.tarnd

    def place(self):
        answer = self.tarnd.ask("/")
        return answer.body.decode() if answer.status == 200 else answer.status

    def said(self):
        self.log.seek(0)
        return self.log.read()

    def test_the_ttl_of_a_record_is_honoured(self):
        self.dns.records["o.test"] = (3, ["127.0.0.2"])
        t = self.start(["o.test"])
        eventually(lambda: self.place() == "127.0.0.2")
        self.dns.records["o.test"] = (3600, ["127.0.0.3"])
        eventually(lambda: self.place() == "127.0.0.3", 10)
        times = self.dns.times("o.test")
        self.assertEqual(len(times), 2)  # none while the first answer was good
        self.assertGreaterEqual(times[1] - times[0], 2.9)
        self.assertLess(times[1] - times[0], 6)
        self.assertEqual(t.close(), 0)

    def test_dns_ttl_is_the_longest_time(self):
        self.dns.records["o.test"] = (3600, ["127.0.0.2"])
        t = self.start(["o.test"], dns_ttl="2s")
        eventually(lambda: self.place() == "127.0.0.2")
        self.dns.records["o.test"] = (3600, ["127.0.0.3"])
        eventually(lambda: self.place() == "127.0.0.3", 10)
        self.assertEqual(t.close(), 0)

    def test_the_last_addresses_stay_when_the_name_or_its_server_is_gone(self):
        self.dns.records["o.test"] = (1, ["127.0.0.2"])
        t = self.start(["o.test"], dns_ttl="1s")
        eventually(lambda: self.place() == "127.0.0.2")
        del self.dns.records["o.test"]
        asked = len(self.dns.times("o.test"))
        eventually(lambda: len(self.dns.times("o.test")) > asked + 2)
        self.assertEqual(self.place(), "127.0.0.2")
        self.assertIn("'o.test' cannot be resolved: Domain name not found; it stays where it was", self.said())
        self.dns.hold = True  # every question is lost: 6 s until a lookup fails
        asked = len(self.dns.times("o.test"))
        eventually(lambda: len(self.dns.times("o.test")) > asked + 2)
        self.assertEqual(self.place(), "127.0.0.2")
        port = self.dns.port()
        self.dns.close()  # ICMP says that the port is closed
        time.sleep(3)
        self.assertEqual(self.place(), "127.0.0.2")
        self.dns = NameServer(port)
        self.dns.records["o.test"] = (1, ["127.0.0.3"])
        eventually(lambda: self.place() == "127.0.0.3")
        self.assertIn("'o.test' is resolved again", self.said())
        self.assertEqual(t.close(), 0)

    def test_many_lookups_start_no_thread(self):
        names = [f"n{i}.test" for i in range(40)]
        for name in names:
            self.dns.records[name] = (1, ["127.0.0.2"])
        t = self.start(names, dns_ttl="1s")
        tasks = f"/proc/{t.process.pid}/task"
        eventually(lambda: self.place() == "127.0.0.2")
        threads, descriptors = len(os.listdir(tasks)), t.descriptors()
        asked, until, most = len(self.dns.asked), time.monotonic() + 4, 0
        while time.monotonic() < until:
            most = max(most, len(os.listdir(tasks)))
            time.sleep(0.002)
        self.assertGreater(len(self.dns.asked), asked + 40)
        self.assertEqual(most, threads)
        self.assertLessEqual(t.descriptors(), descriptors + 2)
        self.assertEqual(t.close(), 0)

    def test_it_ends_while_a_lookup_is_under_way(self):
        self.dns.hold = True
        t = self.start([f"n{i}.test" for i in range(10)])
        eventually(lambda: len(self.dns.asked) >= 10)
        self.assertEqual(self.tarnd.ask("/").status, 503)
        self.assertEqual(t.close(), 0)

    def test_a_reload_asks_other_servers(self):
        self.dns.hold = True  # what is under way is asked of the new one
        other = NameServer()
        self.addCleanup(other.close)
        other.records["o.test"] = (60, ["127.0.0.3"])
        t = self.start(["o.test"])
        eventually(lambda: self.dns.asked)
        with open(t.config, encoding="utf-8") as f:
            text = f.read()
        with open(t.config, "w", encoding="utf-8") as f:
            f.write(text.replace(f":{self.dns.port()}", f":{other.port()}"))
        t.process.send_signal(1)
        eventually(lambda: self.place() == "127.0.0.3")
        self.assertIn("reload: parameters.resolver was", self.said())
        self.assertEqual(t.close(), 0)

    def test_the_hosts_file_and_localhost_need_no_server(self):
        t = self.start(["localhost", socket.gethostname()], dns_ttl="1s")
        self.dns.hold = True
        time.sleep(3)
        self.assertEqual(self.dns.times("localhost"), [])
        self.assertNotIn("'localhost'", self.said())
        self.assertEqual(t.close(), 0)


if __name__ == "__main__":
    program = sys.argv.pop(1)
    unittest.main(verbosity=2)
