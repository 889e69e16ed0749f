"""torture_world.py -- what there is to ask for, what each byte of it is, and what all know of it.

A resource has versions; of which version a byte is, and at which place of it, follows from its
value.  So who gets bytes can say whether they are right without asking anybody.  What the processes
share are numbers in shared memory: the version that each resource has now, the oldest one that may
still be served to who begins to ask now, and the same of the tables and of the policy.
"""
import collections
import functools
import hashlib
import mmap
import multiprocessing
import os
import random
import time
import zlib

KI, MI = 1024, 1024 * 1024
BLOCK = 4096
HARD_BLOCK = 65536  # gzip looks back 32 KiB: such a body does not shrink
GROUPS = 16  # a ban of a group is one of many resources
FOCUS, FOCUS_S = 12, 3  # as many are what everybody looks at, for so long
LANGUAGES = ("a", "b", "c")
HOST = "tarn.test"
LARGE = ("wide", "weak")
WORDS = [hashlib.sha256(b"%d" % i).hexdigest()[:4 + i % 9].encode() for i in range(60)]
LINES = [b" ".join(WORDS[c % 60] for c in hashlib.sha256(b"line %d" % i).digest()[:3 + i % 9]) + b"\n" for i in range(256)]
UNPACKED_ROUTE = "/chunks/5"  # `compress: off` there
# Groups of resources: for these some policies set do_gzip, do_gunzip, and do_gzip to false.
GZIP_GROUPS, GUNZIP_GROUPS, PLAIN_GROUPS = (4, 13), (2, 11), (8,)
SCHEMES = ("http", "https")  # each has what it has cached

Kind = collections.namedtuple("Kind", "share low high control ttl grace keep chunked etag")
# Shares are of a thousand resources; sizes are log-uniform from `low` to `high`; times in seconds.
KINDS = {
    "hot": Kind(16, 100, 20 * KI, "max-age=600", 600, 0, 0, False, "strong"),
    "forms": Kind(6, 2 * KI, 100 * KI, "max-age=600", 600, 0, 0, False, "strong"),
    "plain": Kind(374, 0, 8 * MI, "max-age=600", 600, 0, 0, False, "strong"),
    "chunks": Kind(150, 0, 8 * MI, "max-age=600", 600, 0, 0, True, "strong"),
    "vary": Kind(100, 0, 256 * KI, "max-age=600", 600, 0, 0, False, "strong"),
    "mine": Kind(70, 0, 4 * MI, "private", -1, 0, 0, False, "strong"),
    "absent": Kind(110, 0, 2000, "max-age=600", 600, 0, 0, False, "strong"),
    "breaks": Kind(50, 1000, 4 * MI, "max-age=600", 600, 0, 0, False, "strong"),
    "slow": Kind(24, 100, 64 * KI, "max-age=600", 600, 0, 0, True, "strong"),
    "checked": Kind(50, 0, 256 * KI, "max-age=1", 1, 2, 60, False, "strong"),
    "posted": Kind(40, 0, 64 * KI, "max-age=600", 600, 0, 0, False, "strong"),
    "wide": Kind(7, 20 * MI, 40 * MI, "max-age=600", 600, 0, 0, False, "strong"),
    "weak": Kind(3, 20 * MI, 40 * MI, "max-age=600", 600, 0, 0, True, "weak"),
}


class Body:
    """The bytes of one version of one variant.  Blocks that differ in their last 32 bytes only,
    which say where they stand; the others are not periodic, and no other version has them."""

    def __init__(self, name, block):
        self.block = block
        self.pattern = hashlib.shake_128(name.encode()).digest(block - 32)
        if name.startswith("/forms/"):  # text, of which br and zstd make less than gzip
            self.pattern = b"".join(LINES[c] for c in self.pattern)[:block - 32]

    def piece(self, at, size):
        if size <= 0:
            return b""
        first, last = at // self.block, (at + size - 1) // self.block
        parts = []
        for i in range(first, last + 1):
            parts += (self.pattern, b"%032d" % i)
        start = at - first * self.block
        return memoryview(b"".join(parts))[start:start + size]


@functools.lru_cache(maxsize=256)
def body_of(target, variant, version):
    hard = int(target.rpartition("/")[2]) % 3 == 0 or target.startswith("/forms/")
    return Body(f"{target} {variant} {version}", HARD_BLOCK if hard else BLOCK)


class Packed:
    """The same, as the origin packs it: a third of the resources without getting smaller."""

    def __init__(self, target, variant, version, size):
        level = (0, 1, 6)[int(target.rpartition("/")[2]) % 3]
        pack = zlib.compressobj(level, zlib.DEFLATED, 31)
        self.data = pack.compress(body_of(target, variant, version).piece(0, size)) + pack.flush()

    def piece(self, at, size):
        return self.data[at:at + size]


@functools.lru_cache(maxsize=16)
def packed_of(target, variant, version, size):
    return Packed(target, variant, version, size)


class Resource:
    def __init__(self, number, name, rng):
        self.number, self.kind_name, self.kind = number, name, KINDS[name]
        self.target = f"/{name}/{number}"
        low, high = max(self.kind.low, 1), self.kind.high
        self.base = int(low * (high / low) ** rng.random())
        if self.kind.low == 0 and rng.random() < 0.03:
            self.base = 0
        self.group = number % GROUPS
        self.form = self.some_form()

    def some_form(self):
        """`text`: of a type that tarnd packs; `packed`: packed by the origin for a request that
        accepts gzip; `bare`: the same without Vary; `binary`: neither packs it."""
        form = ("text", "text", "packed", "bare", "binary", "binary", "binary", "binary")[self.number % 8]
        if self.kind_name == "forms":
            return "text"
        if self.kind_name in LARGE and form in ("packed", "bare"):
            return "text"
        return "packed" if form == "bare" and self.target.startswith(UNPACKED_ROUTE) else form

    @property
    def tarn_packs(self):
        """Under the configuration, or under some of the policies."""
        texts = self.form == "text" and self.kind.control != "private" and \
            not self.target.startswith(UNPACKED_ROUTE)
        return texts or self.group in GZIP_GROUPS

    @property
    def origin_packs(self):
        return self.form in ("packed", "bare")

    def size(self, version):
        """Versions differ in their sizes, but for those of nothing."""
        return self.base + version % 7 * 13 if self.base > 0 else 0

    def exists(self, version):
        return self.kind_name != "absent" or version % 2 == 0

    def etag(self, variant, version, packed=False):
        """The origin's own packing has another one."""
        weak, end = "W/" if self.kind.etag == "weak" else "", ".gz" if packed else ""
        return f'{weak}"{self.number}.{variant}.{version}{end}"'

    @property
    def variants(self):
        return LANGUAGES if self.kind_name == "vary" else ("-",)


class World:
    """Made before the processes are; what is in `shared` all of them see."""

    NUMBERS = ("port", "secure", "policy", "canary", "stop")

    def __init__(self, seed):
        self.seed = seed
        rng = random.Random(seed)
        names = [name for name, kind in KINDS.items() for _ in range(kind.share)]
        self.resources = [Resource(i, name, rng) for i, name in enumerate(names)]
        self.by_target = {r.target: r for r in self.resources}
        self.by_kind = collections.defaultdict(list)
        for r in self.resources:
            self.by_kind[r.kind_name].append(r)
        n = len(self.resources)
        self.memory = mmap.mmap(-1, 8 * (3 * n + len(self.NUMBERS)))
        shared = memoryview(self.memory).cast("Q")
        self.versions, self.numbers = shared[:n], shared[3 * n:]
        self.floors = {"http": shared[n:2 * n], "https": shared[2 * n:3 * n]}
        self.small = [r for r in self.resources if r.base < 256 * KI]
        self.lock = multiprocessing.get_context("fork").Lock()
        self.parent = os.getpid()

    def get(self, name):
        return self.numbers[self.NUMBERS.index(name)]

    def set(self, name, value):
        self.numbers[self.NUMBERS.index(name)] = value

    def stopped(self):
        """Also when the process that began all this has gone."""
        return self.get("stop") != 0 or os.getpid() != self.parent and os.getppid() != self.parent

    def pause(self, seconds):
        until = time.monotonic() + seconds
        while not self.stopped() and (left := until - time.monotonic()) > 0:
            time.sleep(min(left, 0.2))

    def focus(self):
        """The same few for all processes, and others soon: what is changed is asked for, too."""
        slot = int(time.monotonic() / FOCUS_S)
        if slot != self.focus_slot:
            self.focus_now = random.Random(f"{self.seed} {slot}").sample(self.small, FOCUS)
            self.focus_slot = slot
        return self.focus_now

    focus_slot, focus_now = None, []

    def change(self, r):
        """Another version from now on; which one."""
        with self.lock:
            self.versions[r.number] += 1
            return self.versions[r.number]

    def forbid_older(self, r, version, *schemes):
        """Whoever begins to ask from now on must not get what is older; by these, or any."""
        with self.lock:
            for scheme in schemes or SCHEMES:
                floors = self.floors[scheme]
                floors[r.number] = max(floors[r.number], version)


def canary(table, key, version):
    """What a table says of a key in one of its versions; lengths differ."""
    text = hashlib.sha256(f"{table} {key} {version}".encode()).hexdigest()
    return f"{version}.{text * (1 + version % 5)}"
