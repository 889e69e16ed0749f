#!/usr/bin/env python3
"""codec_forms.py CODEC_TOOL [--bodies N] [--seed N] -- zstd, br and repack.h against Python's zstandard and brotli.

Bodies of all kinds and sizes, at random sizes of pieces: what we pack they unpack, what they pack we unpack, and what
they refuse we refuse.  Python's packages are Debian's python3-zstandard and python3-brotli.
"""
import argparse
import os
import random
import sys
import zlib

SYSTEM_PYTHON = "/usr/bin/python3"
try:
    import brotli
    import zstandard
except ImportError:
    if os.path.exists(SYSTEM_PYTHON) and not os.path.samefile(sys.executable, SYSTEM_PYTHON):
        os.execv(SYSTEM_PYTHON, [SYSTEM_PYTHON, *sys.argv])  # the distribution's packages are its own Python's
    sys.exit("codec_forms: python3-brotli and python3-zstandard are missing (scripts/install-deps --test)")

from codec_roundtrip import Bodies, ENDED, Tool, pieces, unpack_strictly

ZSTD, UNZSTD, UNBROTLI = 2, 3, 4
REPACK = 256
GZIP_FORM, BROTLI_FORM, ZSTD_FORM, DCZ_FORM = range(4)
DONE, TOO_LARGE = 0, 1
DCZ_HEAD = bytes.fromhex("5e2a4d1820000000") + bytes(32)
LARGEST = 300_000


def unzstd_strictly(packed):
    """All frames of it; None: something is wrong with it."""
    out, any_frame = b"", False
    while packed:
        if len(packed) >= 8 and packed[1:4] == b"\x2a\x4d\x18" and packed[0] >> 4 == 5:
            end = 8 + int.from_bytes(packed[4:8], "little")
            if end > len(packed):
                return None
            packed, any_frame = packed[end:], True
            continue
        d = zstandard.ZstdDecompressor(max_window_size=8 << 20).decompressobj()
        try:
            if zstandard.get_frame_parameters(packed).dict_id != 0:
                return None
            out += d.decompress(packed)
        except zstandard.ZstdError:
            return None
        if not d.eof:
            return None
        packed, any_frame = d.unused_data, True
    return out if any_frame else None


def unbrotli_strictly(packed):
    d = brotli.Decompressor()
    try:
        out = d.process(packed)
    except brotli.error:
        return None
    if not d.is_finished():
        return None
    try:  # bytes behind the end: the one-shot call knows of them
        return brotli.decompress(packed) if out is not None else None
    except brotli.error:
        return None


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

    # ---- what others pack ----

    def frame(self, part):
        dice = self.dice
        level = dice.choice((-5, 1, 3, 3, 9, 19) if len(part) < 50_000 else (-5, 1, 3, 3))
        parameters = zstandard.ZstdCompressionParameters.from_level(
            level, window_log=dice.randint(10, 23), write_checksum=dice.randrange(2),
            write_content_size=dice.randrange(2))
        c = zstandard.ZstdCompressor(compression_params=parameters)
        if dice.randrange(2):
            return c.compress(part)
        o = c.compressobj()
        at = dice.randrange(len(part) + 1)
        out = o.compress(part[:at])
        if dice.randrange(2):
            out += o.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
        return out + o.compress(part[at:]) + o.flush()

    def zstd(self, body):
        """As libzstd does it, in one frame or in several, with skippable ones among them."""
        dice = self.dice
        at = dice.randrange(len(body) + 1)
        out = b""
        for part in [body] if dice.randrange(4) else [body[:at], body[at:]]:
            if dice.randrange(5) == 0:
                n = dice.choice((0, 1, 300))
                out += bytes([0x50 + dice.randrange(16)]) + b"\x2a\x4d\x18" + n.to_bytes(4, "little") + dice.randbytes(n)
            out += self.frame(part)
        return out

    def brotli(self, body):
        dice = self.dice
        quality = dice.choice((0, 1, 2, 4, 5, 9, 11) if len(body) < 20_000 else (0, 1, 2, 4, 5))
        c = brotli.Compressor(mode=dice.randrange(3), quality=quality, lgwin=dice.randint(10, 24),
                              lgblock=dice.choice((0, 16, 24)))
        at = dice.randrange(len(body) + 1)
        out = c.process(body[:at])
        if dice.randrange(2):
            out += c.flush()
        return out + c.process(body[at:]) + c.finish()

    # ---- one body ----

    def packing(self, body):
        ours, theirs = pieces(self.dice, len(body)), pieces(self.dice, len(body))
        every = self.dice.choice((0, 0, 1, 2, 5)) if len(body) < 10000 or ours[0] == 0 or ours[0] > 1000 else 0
        said, packed = self.tool.run(ZSTD, body, *ours, every)
        self.check(said == ENDED and unzstd_strictly(packed) == body,
                   f"packing {len(body)} bytes, pieces {ours}, flush every {every}")
        self.check(self.tool.run(UNZSTD, packed, *theirs) == (ENDED, body), f"unpacking ours, pieces {theirs}")

    def unpacking(self, body):
        for kind, packed, strictly in ((UNZSTD, self.zstd(body), unzstd_strictly),
                                       (UNBROTLI, self.brotli(body), unbrotli_strictly)):
            sizes = pieces(self.dice, len(body))
            said, got = self.tool.run(kind, packed, *sizes)
            self.check(said == ENDED and got == body, f"{kind}: {len(packed)} bytes, pieces {sizes}: said {said}")
            if len(body) < 3000:
                self.broken(kind, packed, strictly)

    def broken(self, kind, packed, strictly):
        bad = bytearray(packed)
        way = self.dice.randrange(4)
        if way == 0:
            del bad[self.dice.randrange(len(bad)):]
        elif way == 1:
            bad += self.dice.randbytes(self.dice.randint(1, 30))
        else:
            for _ in range(way):
                bad[self.dice.randrange(len(bad))] ^= 1 << self.dice.randrange(8)
        want = strictly(bytes(bad))
        sizes = pieces(self.dice, len(packed))
        said, got = self.tool.run(kind, bytes(bad), *sizes)
        if want is None:
            self.check(said < 0, f"{kind}: {bytes(bad).hex()} is broken, and was unpacked, pieces {sizes}")
        else:
            self.check(said == ENDED and got == want, f"{kind}: {bytes(bad).hex()}: said {said}, pieces {sizes}")

    def repack(self, form, level, body, dictionary=b"", room=None):
        room = 2 * len(body) + 1000 if room is None else room
        return self.tool.run(REPACK + form, dictionary + body, level, len(dictionary), room)

    def again(self, body):
        dice = self.dice
        small = len(body) < 30_000
        forms = ((GZIP_FORM, dice.randint(1, 3), unpack_strictly),
                 (BROTLI_FORM, dice.choice((0, 1, 4, 5, 9, 10, 11) if small else (0, 1, 4, 5)), unbrotli_strictly),
                 (ZSTD_FORM, dice.randint(1, 19 if small else 9), unzstd_strictly))
        for form, level, strictly in forms:
            said, packed = self.repack(form, level, body)
            self.check(said == DONE and strictly(packed) == body, f"form {form}, level {level}, {len(body)} bytes")
            said, _ = self.repack(form, level, body, room=len(packed) - 1)
            self.check(said == TOO_LARGE, f"form {form}, level {level}: {len(packed)} bytes in one less: said {said}")
        older = bytearray(body)
        for _ in range(3):
            at = dice.randrange(len(older) + 1)
            older[at:at + dice.randrange(100)] = dice.randbytes(dice.randrange(100))
        level = dice.randint(1, 19 if small else 9)
        said, packed = self.repack(DCZ_FORM, level, body, bytes(older))
        known = zstandard.ZstdCompressionDict(bytes(older), dict_type=zstandard.DICT_TYPE_RAWCONTENT)
        good = said == DONE and packed.startswith(DCZ_HEAD) and zstandard.ZstdDecompressor(
            dict_data=known, max_window_size=8 << 20).decompress(packed[len(DCZ_HEAD):]) == body
        self.check(good, f"dcz, level {level}: {len(body)} bytes, {len(older)} of dictionary")
        self.check(len(packed) < max(1000, len(zlib.compress(body))), f"dcz of {len(body)} bytes: {len(packed)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tool")
    parser.add_argument("--bodies", type=int, default=400)
    parser.add_argument("--seed", type=int, default=20261128)
    args = parser.parse_args()
    tool = Tool(args.tool)
    run = Run(tool, args.seed)
    for _ in range(args.bodies):
        body = run.bodies.next(LARGEST)
        run.packing(body)
        run.unpacking(body)
        run.again(body)
    if tool.close() != 0:
        run.check(False, "the program's end")
    print(f"{args.bodies} bodies, seed {args.seed}: {run.failed} failed")
    sys.exit(1 if run.failed else 0)


if __name__ == "__main__":
    main()
