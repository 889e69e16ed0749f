#!/usr/bin/env python3
"""backends.py TARND [TEST...] -- limits and choices that hold for all workers together.

BACKENDS_REQUESTS in the environment: of each client; default 6.
"""
import concurrent.futures
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True
import origin
import tarnd

CLIENTS = 24
REQUESTS = int(os.environ.get("BACKENDS_REQUESTS", "6"))
CONNECTIONS = 3
CONFIG = """
workers: 2
backends:
  origin:
    address: "127.0.0.1:{port}"
    max_connections: {connections}
    queue_timeout: 50s
parameters: {{ log_ring: 64KiB }}
"""
DIRECTED = """
workers: 2
backends:
  gone: {{ address: "127.0.0.1:{gone}", eject_after: 2, eject_for: 1h }}
  here: {{ address: "127.0.0.1:{here}" }}
directors:
  turns: {{ backends: [gone, here] }}
parameters: {{ log_ring: 64KiB }}
"""
program = None


class Handler(origin.Small):
    def do_GET(self):
        server = self.server
        with server.lock:
            server.now += 1
            server.most = max(server.most, server.now)
        time.sleep(0.005)
        with server.lock:
            server.now -= 1
            server.served += 1
        super().do_GET()


class Server(origin.Origin):
    def __init__(self):
        self.now = self.most = self.served = 0
        super().__init__(Handler)


class Names(unittest.TestCase):
    def test_a_backend_whose_name_does_not_resolve_does_not_prevent_the_start(self):
        here = Server()
        self.addCleanup(here.close)
        config = ('backends:\n  gone: { address: "nowhere.invalid:81" }\n'
                  f'  here: {{ address: "127.0.0.1:{here.server_address[1]}" }}\n'
                  "routes: [ { path: /gone, backend: gone }, { backend: here } ]\n")
        policy = ('vcl 4.1; backend q { .host = "nowhere.invalid"; .port = "http"; }\n'
                  'sub vcl_recv { if (req.url == "/q") { set req.backend_hint = q; } '
                  "else { set req.backend_hint = %s; } }\n")
        with open(os.path.join("/tmp", f"tarn-names.{os.getpid()}.log"), "w+", encoding="utf-8") as log:
            os.unlink(log.name)
            t = tarnd.Tarnd(program, config, stderr=log)
            self.assertEqual([t.ask(path).status for path in ("/gone", "/x")], [503, 200])
            checked = subprocess.run([program, "-t", "-c", t.config], capture_output=True, text=True,
                                     timeout=tarnd.PATIENCE_S, check=False)
            self.assertEqual((checked.returncode, checked.stdout), (0, f"tarnd: {t.config}: ok\n"))
            self.assertIn("warning: backend 'gone': 'nowhere.invalid' cannot be resolved now: ",
                          checked.stderr)
            with open(t.config, "a", encoding="utf-8") as f:
                f.write("parameters: { dns_required: on }\n")
            checked = subprocess.run([program, "-t", "-c", t.config], capture_output=True, text=True,
                                     timeout=tarnd.PATIENCE_S, check=False)
            self.assertEqual(checked.returncode, 2)
            self.assertIn("tarn.yaml:4:20: address: 'nowhere.invalid:81' cannot be resolved", checked.stderr)
            self.assertEqual(t.close(), 0)
            log.seek(0)
            self.assertIn("backend gone: 'nowhere.invalid' cannot be resolved: ", log.read())
        # A policy's backends, too.
        folder = tempfile.mkdtemp(prefix="tarn-names.")
        self.addCleanup(shutil.rmtree, folder)
        with open(os.path.join(folder, "p.vcl"), "w", encoding="utf-8") as f:
            f.write(policy % "here")
        with_policy = config + f"vcl: {folder}/p.vcl\n"
        t = tarnd.Tarnd(program, with_policy, stderr=subprocess.DEVNULL)
        self.assertEqual([t.ask(path).status for path in ("/q", "/x")], [503, 200])
        self.assertEqual(t.close(), 0)


class Backends(unittest.TestCase):
    def test_a_limited_origin_serves_everybody_in_turn(self):
        backend = Server()
        daemon = tarnd.Tarnd(program, CONFIG.format(
            port=backend.server_address[1], connections=CONNECTIONS))

        def client(n):
            return [daemon.ask(f"/{n}/{i}").status for i in range(REQUESTS)]

        try:
            with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
                statuses = sum(pool.map(client, range(CLIENTS)), [])
        finally:
            self.assertEqual(daemon.close(), 0)
            backend.close()
        self.assertEqual(set(statuses), {200})
        self.assertEqual(backend.served, CLIENTS * REQUESTS)
        self.assertLessEqual(backend.most, CONNECTIONS)

    def test_a_director_stops_asking_who_is_gone(self):
        backend = Server()
        with socket.create_server(("127.0.0.1", 0)) as s:
            gone = s.getsockname()[1]
        daemon = tarnd.Tarnd(program, DIRECTED.format(gone=gone, here=backend.server_address[1]))
        try:
            statuses = [daemon.ask(f"/{n}").status for n in range(20)]
        finally:
            self.assertEqual(daemon.close(), 0)
            backend.close()
        self.assertEqual(set(statuses), {200})
        self.assertEqual(backend.served, 20)


if __name__ == "__main__":
    program = sys.argv.pop(1)
    unittest.main(verbosity=2)
