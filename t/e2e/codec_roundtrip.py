#!/usr/bin/env python3
"""codec_roundtrip.py CODEC_TOOL [--bodies N] [--seed N] [--large N] -- gzip of daemon/filter against Python's zlib.

Bodies of all kinds and sizes, at random sizes of pieces: what we pack zlib unpacks, what zlib packs we unpack, and
what zlib refuses we refuse.
"""
import argparse
import gzip
import os
import random
import struct
import subprocess
import sys
import zlib

GZIP, GUNZIP = 0, 1
ENDED = 2
PIECES = (1, 2, 3, 7, 8, 9, 15, 63, 100, 328, 1000, 1460, 4096, 16384, 65536, 0)

SKEWED = bytes(i if i < 16 else 8 - i.bit_length() for i in range(256))  # half of them 0, a quarter 1 ...


class Tool:
    """The program, which stays for all bodies, as a worker does: pools give the same memory again and again."""

    def __init__(self, path):
        self.process = subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def run(self, kind, body, in_piece=0, out_piece=0, flush_every=0):
        self.process.stdin.write(struct.pack("<5I", kind, in_piece, out_piece, flush_every, len(body)))
        self.process.stdin.write(body)
        self.process.stdin.flush()
        said, length = struct.unpack("<iI", self.process.stdout.read(8))
        return said, self.process.stdout.read(length)

    def close(self):
        self.process.stdin.close()
        return self.process.wait()


class Bodies:
    def __init__(self, dice):
        self.dice = dice
        self.text = b""
        folder = os.path.dirname(os.__file__)
        for name in sorted(os.listdir(folder)):
            if name.endswith(".py") and len(self.text) < 4 << 20:
                with open(os.path.join(folder, name), "rb") as f:
                    self.text += f.read()

    def piece(self, size):
        kind = self.dice.randrange(6)
        if kind == 0:
            return self.dice.randbytes(size)
        if kind == 1:
            return bytes([self.dice.randrange(256)]) * size
        if kind == 2:
            period = self.dice.randbytes(self.dice.randint(1, 40000))
            return (period * (size // len(period) + 1))[:size]
        if kind == 3:  # few letters: long codes, and short ones
            return self.dice.randbytes(size).translate(SKEWED)
        at = self.dice.randrange(len(self.text))
        return (self.text[at:] + self.text * (size // len(self.text) + 1))[:size]

    def next(self, largest):
        size = int(largest ** self.dice.random()) - 1 if self.dice.randrange(20) else 0
        parts, left = [], size
        while left > 0:
            n = left if self.dice.randrange(2) else self.dice.randint(1, left)
            parts.append(self.piece(n))
            left -= n
        return b"".join(parts)


def pack(dice, body):
    """As zlib does it, with all that RFC 1952 allows, in one member or in several."""
    at = dice.randrange(len(body) + 1)
    parts = [body] if dice.randrange(4) else [body[:at], body[at:]]
    out = b""
    for part in parts:
        c = zlib.compressobj(dice.choice((0, 1, 1, 6, 6, 9)), zlib.DEFLATED, -dice.randint(9, 15), dice.randint(1, 9),
                             dice.choice((zlib.Z_DEFAULT_STRATEGY, zlib.Z_FILTERED, zlib.Z_HUFFMAN_ONLY, zlib.Z_RLE,
                                          zlib.Z_FIXED)))
        flags = dice.randrange(32) if dice.randrange(3) == 0 else 0
        head = struct.pack("<4BIBB", 0x1f, 0x8b, 8, flags, dice.randrange(1 << 32), dice.choice((0, 2, 4)), 3)
        if flags & 4:
            extra = dice.randbytes(dice.choice((0, 1, 5, 300)))
            head += struct.pack("<H", len(extra)) + extra
        for flag in (8, 16):
            if flags & flag:
                head += bytes(dice.randrange(1, 256) for _ in range(dice.choice((0, 1, 20)))) + b"\0"
        if flags & 2:
            head += struct.pack("<H", zlib.crc32(head) & 0xffff)
        out += head
        at = dice.randrange(len(part) + 1)
        out += c.compress(part[:at])
        if dice.randrange(4) == 0:
            out += c.flush(dice.choice((zlib.Z_SYNC_FLUSH, zlib.Z_FULL_FLUSH)))
        out += c.compress(part[at:]) + c.flush() + struct.pack("<II", zlib.crc32(part), len(part) & 0xffffffff)
    return out


def unpack_strictly(packed):
    """What zlib makes of it, member by member; None: it is none, or there is something behind it."""
    out = b""
    while True:
        d = zlib.decompressobj(31)
        try:
            out += d.decompress(packed)
        except zlib.error:
            return None
        if not d.eof:
            return None
        packed = d.unused_data
        if not packed:
            return out


def pieces(dice, size):
    """Sizes of pieces, not so small that a large body takes long."""
    least = size // 20000
    return [dice.choice([p for p in PIECES if p == 0 or p >= least]) for _ in range(2)]


class Run:
    def __init__(self, tool, seed):
        self.tool = tool
        self.dice = random.Random(seed)
        self.bodies = Bodies(self.dice)
        self.failed = 0

    def check(self, good, what):
        if not good:
            self.failed += 1
            print(f"FAIL: {what}", file=sys.stderr)

    def body(self, largest):
        body = self.bodies.next(largest)
        ours, theirs = pieces(self.dice, len(body)), pieces(self.dice, len(body))
        every = self.dice.choice((0, 0, 1, 2, 5)) if len(body) < 10000 or ours[0] == 0 or ours[0] > 1000 else 0
        said, packed = self.tool.run(GZIP, body, *ours, every)
        self.check(said == ENDED and unpack_strictly(packed) == body,
                   f"packing {len(body)} bytes, pieces {ours}, flush every {every}")
        if self.dice.randrange(10) == 0:
            again = self.tool.run(GZIP, body, *ours, every)
            self.check(again == (said, packed), f"packing {len(body)} bytes once more, pieces {ours}")
            self.check(self.tool.run(GUNZIP, packed, *theirs) == (ENDED, body), f"unpacking ours, pieces {theirs}")
        packed = pack(self.dice, body)
        said, got = self.tool.run(GUNZIP, packed, *theirs)
        self.check(said == ENDED and got == body, f"unpacking {len(packed)} bytes, pieces {theirs}: said {said}")
        if len(body) < 3000:
            self.broken(packed, theirs)

    def broken(self, packed, sizes):
        bad = bytearray(packed)
        way = self.dice.randrange(4)
        if way == 0:
            del bad[self.dice.randrange(len(bad)):]
        elif way == 1:
            bad += self.dice.randbytes(self.dice.randint(1, 30))
        else:
            for _ in range(way):
                bad[self.dice.randrange(len(bad))] ^= 1 << self.dice.randrange(8)
        want = unpack_strictly(bytes(bad))
        said, got = self.tool.run(GUNZIP, bytes(bad), *sizes)
        if want is None:
            self.check(said < 0, f"{bytes(bad).hex()} is broken, and was unpacked, pieces {sizes}")
        else:
            self.check(said == ENDED and got == want, f"{bytes(bad).hex()}: said {said}, pieces {sizes}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tool")
    parser.add_argument("--bodies", type=int, default=1500)
    parser.add_argument("--large", type=int, default=1, help="of 64 MiB")
    parser.add_argument("--seed", type=int, default=20261128)
    args = parser.parse_args()
    tool = Tool(args.tool)
    run = Run(tool, args.seed)
    for _ in range(args.bodies):
        run.body(400000)
    for _ in range(args.large):
        body = b"".join(run.bodies.piece(4 << 20) for _ in range(16))
        said, packed = tool.run(GZIP, body, 65536, 16384)
        run.check(said == ENDED and gzip.decompress(packed) == body, "packing 64 MiB")
        run.check(tool.run(GUNZIP, gzip.compress(body, 1), 16384, 65536) == (ENDED, body), "unpacking 64 MiB")
    if tool.close() != 0:
        run.check(False, "the program's end")
    print(f"{args.bodies} bodies, {args.large} of 64 MiB, seed {args.seed}: {run.failed} failed")
    sys.exit(1 if run.failed else 0)


if __name__ == "__main__":
    main()
