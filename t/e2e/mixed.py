#!/usr/bin/env python3
"""mixed.py TARND [--seconds N] [--store MIB,...] [--seed N] [--clients N] -- fast, throttled and
leaving clients on the same bodies of unknown length.

Bodies are chunked and have no validator, so a client that is cut cannot go on.  They are smaller
and larger than max_object_size, and the stores are 8, 64 and 256 MiB, so what is kept, what outgrows
that, and what finds no room for lack of it, all happen.  A client that keeps reading gets every byte,
however slow it is beside the others; one that is cut fails the test.  The figures are printed.
"""
import argparse
import asyncio
import collections
import json
import os
import random
import socket
import struct
import sys
import time

sys.dont_write_bytecode = True
from origin import BLOCK
from tarnd import Answer, Tarnd, read_to_end

KI, MI = 1024, 1024 * 1024
PATIENCE_S = 120  # without a byte: longer than tarnd lets one client hold up another
PIECE = 64 * KI
BATCH = 8  # targets that are asked for at a time
CONFIG = """
workers: 2
storage:
  main: {{ engine: malloc, size: {store}MiB }}
backends:
  origin: {{ address: "127.0.0.1:{port}", between_bytes_timeout: 300s }}
parameters: {{ log_level: error }}
admin: {{ address: "unix:{{dir}}/admin.sock" }}
"""


class Body:
    """The bytes of one target, which no other target has at the same place."""

    def __init__(self, number, size):
        self.number, self.size = number, size
        self.target = f"/{number}/{size}"
        self.data = memoryview(BLOCK + BLOCK[:PIECE])

    def piece(self, at, most=PIECE):
        start = (at + self.number * 7919) % len(BLOCK)
        return self.data[start:start + min(most, self.size - at, PIECE)]

    def is_at(self, at, data):
        while data:
            piece = self.piece(at, len(data))
            if not piece or data[:len(piece)] != piece:
                return False
            at += len(piece)
            data = data[len(piece):]
        return True


class Origin:
    def __init__(self):
        self.requests = 0

    async def start(self):
        server = await asyncio.start_server(self.serve, "127.0.0.1", 0, backlog=1024)
        self.port = server.sockets[0].getsockname()[1]

    async def serve(self, reader, writer):
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                number, size = map(int, head.split(b" ")[1].decode().split("/")[1:])
                self.requests += 1
                await self.answer(Body(number, size), writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # tarnd left, which it may
        finally:
            writer.close()

    async def answer(self, body, writer):
        writer.write(b"HTTP/1.1 200 OK\r\nCache-Control: max-age=1\r\n"
                     b"Transfer-Encoding: chunked\r\n\r\n")
        at = 0
        while at < body.size:
            piece = body.piece(at)
            writer.write(b"%x\r\n%b\r\n" % (len(piece), bytes(piece)))
            await writer.drain()
            at += len(piece)
        writer.write(b"0\r\n\r\n")
        await writer.drain()


class Cut(Exception):
    pass


class Client:
    """Asks for one of the targets of the moment, again and again."""

    def __init__(self, world, number):
        self.world, self.rng = world, random.Random(f"{world.seed} {number}")
        self.kind = ("fast", "throttled", "throttled", "leaves")[number % 4]

    async def run(self, until):
        while time.monotonic() < until:
            body = self.rng.choice(self.world.bodies())
            try:
                await self.ask(body)
                self.world.seen[self.kind] += 1
            except (Cut, ConnectionError, asyncio.IncompleteReadError, asyncio.TimeoutError) as e:
                self.world.cuts.append(
                    f"{self.kind} {body.target}: {type(e).__name__} {e} at {self.at} of {body.size}")
            finally:
                self.writer.transport.abort()

    async def ask(self, body):
        self.at, self.body = 0, body
        s = socket.socket()
        if self.kind == "throttled":
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 32 * KI)
        s.setblocking(False)
        await asyncio.get_running_loop().sock_connect(s, ("127.0.0.1", self.world.port))
        reader, self.writer = await asyncio.open_connection(sock=s, limit=32 * KI)
        self.begun = time.monotonic()
        # A download of 1 to 12 seconds; a small body comes in less, and the rest is in the sockets.
        self.rate = body.size / self.rng.uniform(1, 12)
        self.leaves_at = self.rng.randrange(body.size) if self.kind == "leaves" else None
        self.writer.write(f"GET {body.target} HTTP/1.1\r\nHost: tarn.test\r\n"
                          "Connection: close\r\n\r\n".encode())
        head = await self.soon(reader.readuntil(b"\r\n\r\n"))
        status = int(head.split(b" ")[1])
        if status != 200:
            raise Cut(f"status {status}")
        chunked = b"chunked" in head.lower()
        while not (self.leaves_at is not None and self.at >= self.leaves_at):
            if chunked:
                size = int(await self.soon(reader.readuntil(b"\r\n")), 16)
                await self.take(reader, size)
                await self.soon(reader.readexactly(2))
                if size == 0:
                    break
            else:
                await self.take(reader, body.size)
                break
        if self.leaves_at is None and self.at != body.size:
            raise Cut("it is shorter")

    async def take(self, reader, size):
        while size > 0:
            data = await self.soon(reader.read(min(size, 16 * KI)))
            if not data:
                raise Cut("the end")
            if not self.body.is_at(self.at, data):
                self.world.wrong.append(f"{self.body.target}: other bytes at {self.at}")
                raise Cut("wrong")
            self.at += len(data)
            size -= len(data)
            if self.leaves_at is not None and self.at >= self.leaves_at:
                return
            if self.kind == "throttled":
                ahead = self.begun + self.at / self.rate - time.monotonic()
                if ahead > 0:
                    await asyncio.sleep(min(ahead, 0.5))

    @staticmethod
    def soon(what):
        return asyncio.wait_for(what, PATIENCE_S)


class World:
    def __init__(self, store, seed):
        self.store, self.seed = store, seed
        self.seen, self.cuts, self.wrong = collections.Counter(), [], []
        self.rng, self.batch, self.batch_at = random.Random(seed), [], 0
        self.numbers = 0
        most = store * MI // 10  # max_object_size
        self.sizes = ((10 * KI, 70 * KI), (70 * KI, 700 * KI), (70 * KI, 700 * KI),
                      (most // 2, most), (most, most + 200 * KI), (most * 3 // 2, most * 3))

    def bodies(self):
        """Others every second, so that clients ask for the same at the same time."""
        if time.monotonic() >= self.batch_at:
            self.batch_at = time.monotonic() + 1
            self.batch = []
            for _ in range(BATCH):
                self.numbers += 1
                self.batch.append(Body(self.numbers, self.rng.randrange(*self.rng.choice(self.sizes))))
        return self.batch

    async def play(self, program, seconds, clients):
        origin = Origin()
        await origin.start()
        tarnd = await asyncio.to_thread(
            Tarnd, program, CONFIG.format(store=self.store, port=origin.port))
        self.port = tarnd.port
        try:
            until = time.monotonic() + seconds
            await asyncio.gather(*(Client(self, i).run(until) for i in range(clients)))
            counters = await asyncio.to_thread(self.counters, tarnd)
        finally:
            status = await asyncio.to_thread(tarnd.close)
        print(f"store {self.store} MiB, seed {self.seed}: {dict(self.seen)}, {len(self.cuts)} cut; "
              f"origin asked {origin.requests} times; "
              + ", ".join(f"{n} {counters[n]}" for n in (
                  "fetch.windows", "fetch.uncacheable", "resp.behind", "resp.truncated",
                  "cache.evicted")), flush=True)
        for line in (self.wrong + self.cuts)[:10]:
            print("  " + line)
        return not self.wrong and not self.cuts and status == 0 and min(self.seen.values()) > 0

    @staticmethod
    def counters(tarnd):
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(tarnd.dir + "/admin.sock")
            s.sendall(b"GET /v1/counters HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            counters = json.loads(Answer(read_to_end(s)).body)
        return counters.get("counters", counters)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("tarnd")
    p.add_argument("--seconds", type=float, default=15, help="of all stores together")
    p.add_argument("--store", default="8,64,256")
    p.add_argument("--clients", type=int, default=48)
    p.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 30))
    a = p.parse_args()
    stores = [int(s) for s in a.store.split(",")]
    good = [asyncio.run(World(s, a.seed).play(os.path.abspath(a.tarnd), a.seconds / len(stores),
                                              a.clients)) for s in stores]
    sys.exit(0 if all(good) else 1)


if __name__ == "__main__":
    main()
