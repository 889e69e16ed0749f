#!/usr/bin/env python3
"""torture.py TARND TABLE_WRITER [--seconds N] [--seed N] [--size MIB] -- everything at once.

A store that is far too small, two workers, an origin whose resources change all the time, and
clients that are fast, slow, idle, many at a time or leave in the middle; meanwhile operators purge
and ban, change parameters and policies, and tables are rewritten.  Every byte that a client gets is
checked: it must be of that resource, variant and version, of that place, and of one version to the
end of the answer.  What was purged, banned or changed by a POST must not be seen by who asks later;
what breaks off must not look whole; a table's values must be of one version.  Some bodies are packed
by the origin or by tarnd, as its configuration and the policy of the moment say, and come packed or
not, as each client takes them; packed ones are unpacked and checked as they come.  Pages with ESI are put
together of fragments that are kept, private, slow or broken.  In the end all
clients leave, everything is purged, and nothing must be left of it.

    t/e2e/torture.py build/bin/tarnd build/bin/tarn-table --seconds 1800

The choices follow from a seed, which is printed; their order in time is the machine's.  Nothing
here depends on how fast it is.
"""
import argparse
import collections
import multiprocessing
import os
import queue
import shutil
import signal
import socket
import sys
import tempfile
import time

SYSTEM_PYTHON = "/usr/bin/python3"
try:
    import brotli  # noqa: F401
    import zstandard  # noqa: F401
except ImportError:
    if os.path.exists(SYSTEM_PYTHON) and not os.path.samefile(sys.executable, SYSTEM_PYTHON):
        os.execv(SYSTEM_PYTHON, [SYSTEM_PYTHON, *sys.argv])  # the distribution's packages are its own Python's
    sys.exit("torture: python3-brotli and python3-zstandard are missing (scripts/install-deps --test)")

sys.dont_write_bytecode = True
import tls_world
import torture_clients
import torture_esi
import torture_h2
import torture_operator
import torture_origin
from tarnd import Tarnd, free_port, raise_file_limit, wait_until
from torture_operator import PROMISE, Admin, Lab
from torture_world import HOST, KINDS, MI, SCHEMES, UNPACKED_ROUTE, World

ORIGINS = 2
PATIENCE_S = 180  # an answer that has not come by then does not come
LONG_S = 60  # from here on all that is to be tried is tried, on any machine
FLOOR_BYTES = 3 * MI // 2  # of traffic when only the admin is there: slabs and scratch that loops keep, what OpenSSL has once
GONE = ("index.entries", "storage.objects", "cache.small_bytes", "cache.main_bytes")

CONFIG = """\
    h2c: on
  - address: "127.0.0.1:{secure}"
    tls: {{ certificates: "{certs}" }}
    http2: on
workers: 2
storage:
  main: {{ engine: malloc, size: {size}MiB, eviction: s3-fifo }}
index: {{ bits: auto }}
negative_cache: {{ entries: 1000, ttl: 5s }}
compress: {{ formats: [gzip, br, zstd], min_size: 0, types: [text/*], states: 8, background_cpu: 50% }}
routes:
  - {{ path: "{unpacked}", compress: off }}
  - {{ path: /esi/, esi: on, compress: all }}
esi: {{ timeout: 2s }}
backends:
  default: {{ address: "{origin}", connect_timeout: 1m, first_byte_timeout: 5m,
              between_bytes_timeout: 5m }}
tables:
  canary: {{ path: "{tables}/canary", kind: map }}
  longest: {{ path: "{tables}/longest", kind: prefix }}
  members: {{ path: "{tables}/members", kind: set }}
admin: {{ address: "unix:{socket}" }}
parameters: {{ max_object_size: 7MiB, stream_window: 2MiB, transit_buffer: 64KiB, log_level: error,
               log_ring: 64KiB, backend_idle_timeout: 2s }}
"""


class Torture:
    def __init__(self, args):
        self.args, self.world = args, World(args.seed)
        self.context = multiprocessing.get_context("fork")
        self.results = self.context.Queue()
        self.count, self.wrong, self.players = collections.Counter(), [], []
        self.dir = tempfile.mkdtemp(prefix="tarn-torture.")
        self.tables = os.path.join(self.dir, "tables")
        os.mkdir(self.tables)
        self.log = open(os.path.join(self.dir, "stderr"), "w+b")
        self.tarnd, self.origins = None, []

    def start(self):
        listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
        listener.setblocking(False)
        self.origins = [
            self.context.Process(
                target=torture_origin.serve, daemon=True, args=(self.world, listener, i))
            for i in range(ORIGINS)]
        for origin in self.origins:
            origin.start()
        address = "127.0.0.1:%d" % listener.getsockname()[1]
        listener.close()
        self.lab = Lab(os.path.join(self.dir, "admin.sock"), self.dir, self.tables,
                       self.args.writer, PATIENCE_S)
        torture_operator.first_tables(self.world, self.lab)
        self.pki = tls_world.Pki()
        self.pki.leaf("tarn", [f"DNS:{HOST}"], to=self.pki.certs)
        torture_h2.secure_clients(self.pki.ca.pem)
        self.world.set("secure", free_port())
        self.tarnd = Tarnd(self.args.tarnd, CONFIG.format(
            size=self.args.size, origin=address, tables=self.tables, socket=self.lab.socket,
            unpacked=UNPACKED_ROUTE, secure=self.world.get("secure"), certs=self.pki.certs), stderr=self.log)
        self.world.set("port", self.tarnd.port)
        self.admin = Admin(self.lab.socket, PATIENCE_S)
        torture_operator.first_policy(self.admin)
        self.floor = self.counters()
        self.base = self.tarnd.memory() - self.floor["memory.tables"]

    def counters(self):
        return self.admin.ask("GET", "/v1/counters")

    def play(self):
        """All of them, for as long as was asked for or until one finds something wrong."""
        self.players = [self.context.Process(target=torture_operator.operate, daemon=True,
                                             args=(self.world, self.lab, self.results))]
        for group in (*torture_clients.GROUPS, *torture_h2.GROUPS, *torture_esi.GROUPS):
            self.players.append(self.context.Process(
                target=torture_clients.play, daemon=True,
                args=(self.world, group, PATIENCE_S, self.results)))
        for player in self.players:
            player.start()
        until = time.monotonic() + self.args.seconds
        while time.monotonic() < until and not self.world.stopped():
            time.sleep(0.2)
            if self.tarnd.process.poll() is not None:
                self.wrong.append(f"tarnd has gone: {self.tarnd.process.returncode}")
                break
        self.during = self.counters() if self.tarnd.process.poll() is None else {}
        self.world.set("stop", 1)
        self.gather()

    def gather(self):
        for _ in self.players:
            try:
                name, count, wrong = self.results.get(timeout=2 * PATIENCE_S)
            except queue.Empty:
                self.wrong.append("a group of clients does not end")
                return
            self.wrong += wrong
            longest = max(self.count["longest"], count["longest"])
            self.count.update(count)
            self.count["longest"] = longest
        for player in self.players:
            player.join(PATIENCE_S)

    # --- what must be left of it: nothing

    def purge_everything(self):
        for r in self.world.resources:
            for scheme in SCHEMES:
                self.admin.ask("POST", "/v1/purge", {"url": f"{scheme}://{HOST}{r.target}"})
        for target in torture_esi.targets():
            self.admin.ask("POST", "/v1/purge", {"url": f"http://{HOST}{target}"})

    def is_empty(self):
        self.purge_everything()  # again: a fetch may still have been under way
        time.sleep(0.2)
        now = self.counters()
        self.rest = {name: now[name] for name in now
                     if name.startswith(("memory.content", "memory.passing")) or name in GONE}
        self.traffic = {name: now[name] for name in now if name.startswith("memory.traffic.")}
        self.rest["memory.traffic"] = max(0, now["memory.traffic"] - self.floor["memory.traffic"] - FLOOR_BYTES)
        self.rest["sessions"] = now["sess.accepted"] - now["sess.closed"]
        return not any(self.rest.values())

    def check_end(self):
        try:
            wait_until(self.is_empty, "nothing is left", PATIENCE_S)
            wait_until(lambda: not [p for p in self.admin.ask("GET", "/v1/policies")["policies"]
                                    if p["state"] == "discarded"], "policies go", PATIENCE_S)
        except AssertionError as e:
            self.wrong.append(f"{e}: { {k: v for k, v in self.rest.items() if v} } {self.traffic}")
        self.end = self.counters()
        if self.end["storage.used"] > self.end["storage.size"]:
            self.wrong.append("more is charged than there is")
        resident = self.tarnd.memory()
        self.count["resident at the end"] = resident
        if not self.sanitized() and resident - self.base > PROMISE * self.args.size * MI:
            self.wrong.append(f"{resident} bytes are resident, {self.base} without content")
        requests = self.end["req.total"] - self.floor["req.total"]
        if requests < self.count["requests"]:
            self.wrong.append(f"{requests} requests for {self.count['requests']} answers")

    def sanitized(self):
        with open(self.args.tarnd, "rb") as f:
            program = f.read()
        return b"__asan_init" in program or b"__tsan_init" in program

    def check_counts(self):
        """That it was a torture, if there was time for one."""
        for name in ("requests", "bytes", "hits", "purges", "bans", "posts", "policies",
                     "multipart", "table versions", "looks", "left", "h2 requests", "h2 cancelled", "h2 goaway",
                     "h2 connections", "h2 connections by TLS", "packed answers", "unpacked answers", "packed parts",
                     "esi pages", "esi packed", "esi left"):
            if self.count[name] == 0 and self.args.seconds >= LONG_S:
                self.wrong.append(f"no {name}")
        self.wrong += [name for name in self.count if name.startswith("cut that nothing excuses")]
        for kind in set(KINDS) - {"breaks", "checked"}:
            if self.count[f"failed {kind}"]:
                self.wrong.append(f"{self.count[f'failed {kind}']} failed of {kind}")
        self.wrong += [f"failed: {name[8:]}" for name in self.count if name.startswith("unasked ")]

    def close(self):
        if self.tarnd.process.poll() is None:
            status = self.tarnd.close()
            if status != 0:
                self.wrong.append(f"tarnd ended with status {status} instead of 0")
        else:
            self.tarnd.tidy()
        self.world.set("stop", 2)
        for origin in self.origins:
            origin.join(10)
        self.log.seek(0)
        said = self.log.read().decode("utf-8", "replace")
        for sign in ("runtime error:", "Sanitizer", "assertion"):
            if sign in said:
                self.wrong.append(f"tarnd said: {said[max(0, said.index(sign) - 500):][:8000]}")
                break
        else:
            if self.wrong and said:
                self.wrong.append(f"tarnd's last words: {said[-2000:]}")
        self.log.close()

    def tidy(self):
        self.world.set("stop", 2)
        for process in self.players + self.origins:
            if process.is_alive():
                process.kill()
        if self.tarnd is not None:
            self.tarnd.tidy()
            self.pki.close()
        shutil.rmtree(self.dir, ignore_errors=True)

    def report(self):
        c, t = self.count, self.end if hasattr(self, "end") else collections.Counter(self.during)
        cuts = {name: n for name, n in sorted(c.items()) if name.startswith(("cut ", "failed "))}
        print(f"torture: seed {self.args.seed}, {self.args.seconds} s: {c['requests']} requests, "
              f"{c['bytes'] / MI:.0f} MiB verified, {c['table values']} table values; "
              f"{c['hits']} hits, {c['negative']} negative; "
              f"{c['purges']} + {c['purges by policy']} purges, {c['bans']} bans "
              f"({c['bans at a time']} at a time at most, {c['bans refused']} refused), {c['posts']} posts, "
              f"{c['parameters']} parameters, {c['policies']} policies; "
              f"{c['table versions']} table versions, {c['table writers killed']} writers killed; "
              f"{t['cache.evicted']} evictions, {t['fetch.windows']} windows, {t['resp.behind']} "
              f"fell behind, {t['fetch.rest']} rests, {t['resp.truncated']} truncated, "
              f"{t['index.doubled']} doublings; by HTTP/2 {c['h2 requests']} answers of {c['streams']} streams, "
              f"{c['h2 connections']} + {c['h2 connections by TLS']} connections, {c['h2 cancelled']} cancelled, "
              f"{c['h2 goaway']} GOAWAY; {c['packed answers']} answers packed, {c['packed bytes'] / MI:.0f} MiB of "
              f"it, {c['packed parts']} parts, {c['unpacked answers']} unpacked, {t['compress.recoded']} forms made ({t['compress.barren']} in vain), "
              f"{c['br answers']} answers br, {c['zstd answers']} zstd; left {c['left']}, {cuts}, waited for a slow reader "
              f"{c['waited for a slow reader']}; the longest answer took {c['longest']:.1f} s; "
              f"at most {c['resident'] / MI:.0f} MiB resident, {c['charged'] / MI:.1f} charged, in "
              f"the end {c['resident at the end'] / MI:.0f}, base {self.base / MI:.0f}", flush=True)
        print("  charged at the peak, KiB: " + ", ".join(
            f"{name[5:]} {n >> 10}" for name, n in sorted(c.items()) if name.startswith("peak ")))
        print("  answers: " + ", ".join(f"{name} {n}" for name, n in sorted(c.items())
                                        if name.startswith("status")), flush=True)


def parse():
    p = argparse.ArgumentParser(
        usage="torture.py TARND TABLE_WRITER [--seconds N] [--seed N] [--size MIB]")
    p.add_argument("tarnd", type=os.path.abspath)
    p.add_argument("writer", type=os.path.abspath)
    p.add_argument("--seconds", type=float, default=15)
    p.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(3), "big"))
    p.add_argument("--size", type=int, default=64, help="of the store, MiB")
    return p.parse_args()


def main():
    args = parse()
    raise_file_limit(4096)
    print(f"torture: --seed {args.seed}", flush=True)
    torture = Torture(args)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that nothing is left behind
    try:
        torture.start()
        torture.play()
        if torture.tarnd.process.poll() is None:
            torture.check_end()
            torture.check_counts()
        torture.close()
        torture.report()
    finally:
        torture.tidy()
    for text in torture.wrong[:10]:
        print("WRONG " + text, flush=True)
    sys.exit(1 if torture.wrong else 0)


if __name__ == "__main__":
    main()
