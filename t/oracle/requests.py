"""requests.py -- every payload against a running proxy, in every way, and the verdict.

Ways: through a URL whose answer may be stored, or not; whole, or one byte at a time; as the first
request of a connection, or as the second.  The verdict must be the same in all of them.

Behind each try a canary and a plain request for the payload's own URL must get their own answers
on a new connection, and a canary on the same one if that goes on.
"""
import collections
import itertools
import socket
import time

from recorder import account_of, read_account
from payloads import HOST, TAG, Want
from strict import Invalid, Parser

BATCH = 96        # connections at a time
ALL_BYTES = 1500  # longer payloads come byte by byte at both ends, and in small pieces between
WAYS = tuple(itertools.product("pc", (False, True), (False, True)))
PAUSE_S = 0.0004  # after a byte to each: for the proxy to read it before the next
# From best to worst.  A payload counts as the worst that became of it.
REFUSED, SERVED, CLEANED, LET_THROUGH, POISONED, SMUGGLED = range(6)
OUTCOMES = ("refused", "served", "cleaned up", "let through", "poisoned the cache", "smuggled")


class Client:
    """A strict client: it reads what it may expect, and notes how the connection ended."""

    def __init__(self, address, asked):
        self.parser = Parser(False, asked)
        self.ended = None  # eof, reset, silence, no connection, or why it is Invalid
        self.bytes = b""
        try:
            self.sock = socket.create_connection(address, timeout=10)
            self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError:
            self.sock = socket.socket()
            self.ended = "no connection"
            time.sleep(0.1)  # some proxies crash, and come back

    def send(self, data):
        try:
            self.sock.sendall(data)
        except OSError:
            pass  # what it said before it closed is still to be read

    def take(self, wait_s):
        """One read.  Did anything come?"""
        try:
            self.sock.settimeout(max(wait_s, 0))
            data = self.sock.recv(262144)
        except (BlockingIOError, socket.timeout):
            return False
        except OSError:
            self.ended = "reset"
            return False
        finally:
            self.sock.settimeout(10)
        self.bytes += data
        try:
            if not data:
                self.parser.eof()
                self.ended = "eof"
            else:
                self.parser.feed(data)
        except Invalid as why:
            self.ended = str(why)
        return True

    def read(self, count, until):
        """Until there are `count` responses (None: until the end), or it is that late."""
        while self.ended is None and (count is None or len(self.parser.messages) < count):
            # Also when it is too late already: what is there is read.
            if not self.take(max(until - time.monotonic(), 0.002)) and self.ended is None:
                self.ended = "silence"

    def ask(self, method, target, patience_s):
        """One request; its answer, or None."""
        self.parser.asked = [method]
        self.send(b"%s %s HTTP/1.1\r\nHost: %s\r\n\r\n" % (method, target, HOST))
        self.read(len(self.parser.messages) + 1, time.monotonic() + patience_s)
        return self.parser.messages[-1] if self.ended is None else None

    def close(self):
        self.sock.close()


def pieces(data):
    if len(data) <= ALL_BYTES:
        return [data[i:i + 1] for i in range(len(data))]
    third = ALL_BYTES // 3
    middle = data[third:-third]
    step = -(-len(middle) // third)
    return (pieces(data[:third]) + [middle[i:i + step] for i in range(0, len(middle), step)] +
            pieces(data[-third:]))


class Try:
    """One payload in one way."""

    def __init__(self, payload, way, number):
        self.payload = payload
        self.stored, self.dripped, self.second = way
        self.tag = "%s%07d" % (self.stored, number)
        self.data = payload.data.replace(TAG, self.tag.encode())
        self.first = b"GET /%s/0 HTTP/1.1\r\nHost: %s\r\n\r\n" % (self.tag.encode(), HOST)
        self.wrong = []
        self.outcome = None
        self.before = self.behind = None  # recorder.Seen, in respect of the canaries
        self.same_canary = False          # was one answered on the same connection?
        self.poisoned = False             # did the plain request get another's answer?
        self.swapped = False              # did any other?

    def way(self):
        return "%s, %s, %s" % (
            "cacheable" if self.stored == "c" else "passed",
            "byte by byte" if self.dripped else "whole", "second" if self.second else "first")

    def open(self, address):
        asked = [b"GET"] * self.second + self.payload.asked
        # What should not be answered may be, by some proxies: as the trap, a GET.
        self.client = Client(address, asked + [b"GET"] * 3)

    def check(self, good, what):
        if not good:
            self.wrong.append(what)


def send_batch(tries, patience_s):
    # Who ends its side before its answer is ready counts as gone, so it waits for the first.
    for t in tries:
        if t.second and (t.dripped or t.payload.eof):
            t.client.send(t.first)
        elif not t.dripped:
            t.client.send(t.first * t.second + t.data)
    for t in tries:
        if t.second and (t.dripped or t.payload.eof):
            t.client.read(1, time.monotonic() + patience_s)
        if t.second and t.payload.eof and not t.dripped:
            t.client.send(t.data)
    drip([t for t in tries if t.dripped])
    for t in tries:
        if t.payload.eof and t.client.ended is None:
            try:
                t.client.sock.shutdown(socket.SHUT_WR)
            except OSError:
                pass  # it closed first


def drip(tries):
    """A byte to each in turn: between two of one connection the proxy has had time to read."""
    todo = [(t, iter(pieces(t.data))) for t in tries]
    turn = 0
    while todo:
        turn += 1
        left = []
        for t, rest in todo:
            piece = next(rest, None)
            if piece is None or t.client.ended is not None:
                continue
            try:
                t.client.sock.send(piece)
            except OSError:
                continue
            if turn % 16 == 0:
                t.client.take(0)
            left.append((t, rest))
        todo = left
        time.sleep(PAUSE_S)


def read_batch(tries, patience_s):
    until = time.monotonic() + patience_s  # for all: everything was sent
    for t in tries:
        p = t.payload
        if p.expect == "refused" or p.closes:
            t.client.read(None, until)
        else:
            t.client.read(len(p.asked) + t.second, until)
        if t.client.parser.messages and not t.client.parser.messages[-1].persists():
            t.client.read(None, until)


def tagged(t, data):
    return None if data is None else data.replace(TAG, t.tag.encode())


def check_account(t, response, want, what):
    """Is this another's answer?  Only an answer of the origin's own can tell."""
    if response.status != 200 or response.framing == "none":
        return False
    told = read_account(response.body)
    good = (told is not None and told.get(b"target") == tagged(t, want.path) and
            (want.host is None or told.get(b"host") == tagged(t, want.host)) and
            told.get(b"method") in (want.method, b"GET") and
            told.get(b"body") == account_of(tagged(t, want.body)))
    t.check(good, "%s got the answer %r" % (what, response.body[:200]))
    return not good


def canaries(t, address, patience_s):
    """Whoever comes next must get their own answer, on this connection and on a new one."""
    def ask(client, target, what):
        response = client.ask(b"GET", target, patience_s)
        if response is None or response.status != 200:
            t.wrong.append("%s got %s" % (what, client.ended if response is None
                                          else response.status))
            return False
        return check_account(t, response, Want(path=target), what)

    tag = t.tag.encode()
    client = t.client
    last = client.parser.messages[-1] if client.parser.messages else None
    if client.ended is None and last is not None and last.persists() and not client.parser.partial:
        t.swapped |= ask(client, b"/canary/%s/same" % tag, "a canary on the same connection")
    client.close()
    client = Client(address, [])
    t.swapped |= ask(client, b"/canary/%s/new" % tag, "a canary on a new connection")
    t.poisoned |= ask(client, b"/%s/1" % tag, "a plain request for the same URL")
    client.close()


def came_out(t, before, behind):
    """The requests that the payload itself led to: those seen before the canaries were sent, and
    any other than theirs that came late."""
    tag = t.tag.encode()
    mine = [r for r in before.requests if r.target != b"/%s/0" % tag]
    plain = [r for r in behind.requests if r.target == b"/%s/1" % tag]
    others = [r for r in behind.requests
              if r.target != b"/%s/1" % tag and not r.target.startswith(b"/canary/" + tag)]
    return mine + plain[1:] + others


def check_request(t, got, want, method):
    path, host, body = tagged(t, want.path), tagged(t, want.host), tagged(t, want.body)
    t.check(got.target == path, "the target %r came out as %r" % (path, got.target))
    t.check(got.method in (want.method, method), "%r came out as %r" % (method, got.method))
    t.check(host is None or got.one(b"Host") == host,
            "the Host came out as %r instead of %r" % (got.one(b"Host"), host))
    t.check(got.body == body, "another body came out: %r, of %d bytes" % (
        got.body[:80], len(got.body)))
    t.check(not got.trailers, "trailers came out")
    for name in want.absent:
        t.check(not got.all(name), "%s came out" % name.decode())
    for name, value in want.fields:
        t.check(value in got.all(name), "%s: %r came out as %r" % (
            name.decode(), value, got.all(name)))


def judge(t):
    """Sets outcome, and says in `wrong` what is not as it must be."""
    p, client = t.payload, t.client
    invalid = t.before.invalid + t.behind.invalid
    answers = client.parser.messages[:]
    if t.same_canary:
        answers.pop()
    mine = came_out(t, t.before, t.behind)
    given = answers[1 if t.second else 0:]
    if t.second:
        t.check(len(answers) > 0 and answers[0].status == 200, "the request before got no answer")
        if answers:
            t.swapped |= check_account(t, answers[0], Want(path=b"/TAGTAGTA/0"), "the one before")
    for _, data in invalid:
        t.wrong.append("the origin got what is no HTTP: %r" % data[:300])
    t.check(client.ended in (None, "eof", "reset", "silence"), "the client got: %s" % client.ended)

    served = [r for r in given if r.status < 400]
    if len(mine) > len(given) or t.swapped:
        t.outcome = SMUGGLED  # the two sides count differently
    elif t.poisoned:
        t.outcome = POISONED
    elif invalid:
        t.outcome = LET_THROUGH
    elif not mine and not served:
        t.outcome = REFUSED
    else:
        t.outcome = SERVED if p.expect in ("served", "either") else CLEANED
    if p.expect == "refused" or (p.expect == "either" and t.outcome == REFUSED):
        judge_refused(t, mine, given)
    elif p.expect == "declined":
        t.check(not mine, "%d requests came out" % len(mine))
        t.check([r.status for r in given] and given[0].status in p.statuses,
                "the answers %s" % [r.status for r in given])
    else:
        judge_served(t, mine, given)


def judge_refused(t, mine, given):
    p, client = t.payload, t.client
    t.check(not mine, "came out: %s" % [(r.method, r.target) for r in mine])
    statuses = [r.status for r in given]
    silent = p.silent and not statuses
    t.check(silent or (len(statuses) == 1 and statuses[0] in p.statuses),
            "the answers %s instead of one of %s" % (statuses, p.statuses))
    t.check(client.ended == "eof", "the connection ended by %s" % client.ended)
    t.check(silent or (given and not given[-1].persists()), "the refusal promises to go on")
    t.check(not client.parser.partial, "half an answer")


def judge_served(t, mine, given):
    p = t.payload
    statuses = (200,) if p.expect == "either" else p.statuses
    t.check([r.status for r in given if r.status not in statuses] == [] and
            len(given) == len(p.asked), "the answers %s" % [r.status for r in given])
    t.check(len(mine) == len(p.wants), "%d requests came out instead of %d: %s" % (
        len(mine), len(p.wants), [(r.method, r.target) for r in mine]))
    if len(mine) == len(p.wants):
        for got, want, method in zip(mine, p.wants, p.asked):
            check_request(t, got, want, method)
    for response, want in zip(given, p.wants):
        check_account(t, response, want, "the client")
    if p.closes:
        t.check(t.client.ended == "eof", "the connection goes on")
        t.check(given and not given[-1].persists(), "the last answer promises to go on")
    else:
        t.check(t.same_canary, "the connection does not go on: %s" % t.client.ended)


def run_batch(tries, address, origin, patience_s):
    for t in tries:
        t.open(address)
    send_batch(tries, patience_s)
    read_batch(tries, patience_s)
    for t in tries:
        t.before = origin.take(t.tag)
    for t in tries:
        answers = len(t.client.parser.messages)
        canaries(t, address, patience_s)
        t.same_canary = len(t.client.parser.messages) > answers
    for t in tries:
        t.behind = origin.take(t.tag)
        judge(t)


class Results:
    def __init__(self):
        self.outcomes = {}                              # of each payload, the worst
        self.wrong = collections.defaultdict(list)      # of each payload: (way, data, what)
        self.by_payload = collections.defaultdict(set)  # all outcomes

    def add(self, t):
        p = t.payload
        self.by_payload[p].add(t.outcome)
        self.outcomes[p] = max(self.outcomes.get(p, 0), t.outcome)
        for what in t.wrong:
            self.wrong[p].append((t.way(), t.data, what))

    def finish(self, origin):
        for p, outcomes in self.by_payload.items():
            if len(outcomes) > 1:
                self.wrong[p].append(("all ways", p.data, "the verdict depends on the way: %s" % (
                    [OUTCOMES[o] for o in sorted(outcomes)])))
        late = []
        time.sleep(0.2)
        for tag in list(origin.seen):
            seen = origin.take(tag)
            if seen.requests or seen.invalid:
                late.append("under the tag %s came, late or from nowhere: %s" % (tag, [
                    (r.method, r.target) for r in seen.requests] + seen.invalid))
        return late

    def count(self, expect, outcome):
        return sum(1 for p, o in self.outcomes.items() if p.expect in expect and o == outcome)


def run(payloads, address, origin, patience_s, ways=WAYS):
    results = Results()
    numbers = itertools.count(1)
    # Of like length, so that those that come byte by byte end together.
    for way in ways:
        tries = [Try(p, way, next(numbers)) for p in sorted(payloads, key=lambda p: len(p.data))]
        for i in range(0, len(tries), BATCH):
            run_batch(tries[i:i + BATCH], address, origin, patience_s)
            for t in tries[i:i + BATCH]:
                results.add(t)
    return results, results.finish(origin)
