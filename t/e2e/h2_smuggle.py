#!/usr/bin/env python3
"""h2_smuggle.py TARND [TEST...] -- requests that HTTP/2 calls malformed (RFC 9113 8.1 to 8.5), and what of them comes out.

Each is refused: RST_STREAM with PROTOCOL_ERROR, or a 400 where its row allows another status, too.  The origin, which
reads strictly (t/oracle/recorder.py), sees nothing of it; its connection lives, and the next request on it gets its
own answer.  Each comes in plain literals, by Huffman's code, and as entries of the table that another request put there.
Those of `GOOD` are valid and come out exactly.
"""
import itertools
import os
import string
import sys
import time
import unittest

sys.dont_write_bytecode = True
sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../oracle"))
import h2_client
import h2_world
from h2_client import (ENHANCE_YOUR_CALM, FRAME_MAX, INSERT, PROTOCOL_ERROR, Broken, data, encode, headers, indexed, literal,
                       split_block)
from recorder import Origin, read_account

AUTHORITY = "a.test"
TOKEN = set(string.digits + string.ascii_lowercase + "!#$%&'*+-.^_`|~")
origin = None
serial = itertools.count(1)


def fresh():
    """A tag for one try: its answer is not stored."""
    return "p%07d" % next(serial)


class Case:
    """`fields`, and DATA pieces behind them; {tag} in a value is the try's.  `trailers`: fields behind the DATA, and
    whether they end the stream.  `also`: other statuses that are right; `ways`: of WAYS.
    `calm`: or the connection ends with ENHANCE_YOUR_CALM."""

    def __init__(self, name, fields, body=None, trailers=None, also=(), ends=True, ways=None, calm=False):
        self.name, self.fields, self.body, self.trailers, self.also, self.ends = name, fields, body, trailers, also, ends
        self.ways, self.calm = ways or WAYS, calm


def head(path="/{tag}", method="GET", more=(), authority=AUTHORITY, scheme="http"):
    return [(":method", method), (":scheme", scheme), (":authority", authority), (":path", path), *more]


def without(name, fields=None):
    return [f for f in fields or head() if f[0] != name]


def bad():
    """All that is malformed."""
    yield from bad_names()
    yield from bad_values()
    yield from bad_pseudo()
    yield from bad_paths()
    yield from bad_authorities()
    yield from bad_connection()
    yield from bad_lengths()
    yield from bad_trailers()
    yield from bad_connect()


def bad_names():
    """8.2.1, and 9110 5.1: no token."""
    for byte in range(256):
        if chr(byte) in TOKEN or byte == 0x3a:
            continue
        for form in ("%s", "x%s", "%sx", "x%sx"):
            yield Case(f"name {form} with {byte:#04x}", head(more=[(form % chr(byte), "{tag}")]))
    yield Case("empty name", head(more=[("", "{tag}")]))
    for name in ("x:", "x:y", "host:", "transfer-encoding: chunked\r\nx", "x\r\nhost", "content-length:", "::", ":"):
        yield Case(f"name {name!r}", head(more=[(name, "{tag}")]))
    for name in ("Host", "HOST", "Content-Length", "Cookie", "Te", "X-Tag", ":Path", ":PATH", "Transfer-Encoding"):
        yield Case(f"uppercase {name}", head(more=[(name, "1")]))


def bad_values():
    """8.2.1: NUL, CR, LF anywhere; blanks at the ends.  9110 5.5: no other control bytes."""
    for name in ("x", "cookie", "user-agent", "accept", "referer", "if-none-match", "range"):
        for byte in (0, 10, 13):
            for form in ("%s", "{tag}%s", "%s{tag}", "{tag}%sx"):
                yield Case(f"{name} {form} with {byte:#04x}", head(more=[(name, form % chr(byte))]))
        for form in (" {tag}", "{tag} ", "\t{tag}", "{tag}\t", " ", "\t", " {tag} "):
            yield Case(f"{name} {form!r}", head(more=[(name, form)]))
    for byte in [*range(1, 9), 11, 12, *range(14, 32), 127]:
        for form in ("%s", "{tag}%s", "%s{tag}", "{tag}%sx"):
            yield Case(f"value {form} with {byte:#04x}", head(more=[("x", form % chr(byte))]))
    for value in ("x\r\nHost: evil.test", "x\nHost: evil.test", "x\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: a.test\r\n\r\n",
                  "x\r\nTransfer-Encoding: chunked", "x\r\n folded"):
        yield Case(f"value {value!r}", head(more=[("x", value), ("y", "{tag}")]))


def bad_pseudo():
    """8.3, 8.3.1"""
    for name in (":method", ":scheme", ":path"):
        yield Case(f"no {name}", without(name, head(more=[("x", "{tag}")])))
    for name, value in head():
        yield Case(f"{name} twice", [(name, value), *head()])
        yield Case(f"{name} twice, apart", [*head(), (name, value)])
        yield Case(f"{name} behind a field", [*without(name), ("x", "{tag}"), (name, value)])
    for name in (":status", ":x", ":protocol", ":version", ":host", ":authority ", ":paths", ":"):
        yield Case(f"unknown {name}", [*head(), (name, "200")])
        yield Case(f"unknown {name} in front", [(name, "200"), *head()])
    yield Case(":status of a response", [(":status", "200"), ("x", "{tag}")])
    for value in ("", " ", "GET ", " GET", "G ET", "GET\t", "GET\r\n", "G\0T", "GET /{tag} HTTP/1.1\r\nX: ", "GET,", "G(T",
                  "G\x80T", "GET\x7f", "G:T", "G/T"):
        yield Case(f"method {value!r}", head(method=value))
    for value in ("", " ", "ht tp", "http\r\nX: y", "http:", "http://", "1http", "ht\0tp", "http ", " http", "h\x80"):
        yield Case(f"scheme {value!r}", head(scheme=value))


def bad_paths():
    """8.3.1: not empty, and it begins with a slash; 9112 3.2 knows what else is a target."""
    for value in ("", "{tag}", "*", "http://a.test/{tag}", "a.test/{tag}", "?{tag}", "#{tag}", "/{tag}#x", "a.test:80",
                  "/{tag} ", " /{tag}", "/{tag} HTTP/1.1", "/{tag} HTTP/1.1\r\nHost: evil.test\r\n\r\nGET /smuggled",
                  "/{tag}\r\nX: y", "/{tag}\n", "/{tag}\r", "/{tag}\0", "/{tag}\t", "/a b/{tag}", "/{tag}\x7f", "/{tag}\x01",
                  "*{tag}", "* /{tag}"):
        yield Case(f"path {value!r}", head(path=value))
    yield Case("path * with POST", head(path="*", method="POST", more=[("x", "{tag}")]), [b""])
    yield Case("OPTIONS without path", head(path="", method="OPTIONS", more=[("x", "{tag}")]))


def bad_authorities():
    """8.3.1: Host says the same or is not there; no user; 9110 7.2."""
    for value in ("", " ", "a.test ", " a.test", "a.test\r\nX: y", "a.test\0", "a.test\n", "a test", "a.test/", "a.test/x",
                  "user@a.test", "user:pw@a.test", "a.test:80:80", "a.test:x", "a.test:-1", "a.test:99999", "[::1", "::1]",
                  "a.test?x", "a.test#x", "http://a.test", "a.test\t", "a\\test", "[::1]x"):
        yield Case(f"authority {value!r}", head(authority=value))
        yield Case(f"host {value!r}", without(":authority", head(more=[("host", value)])))
    yield Case("neither authority nor host", without(":authority"))
    for value in ("b.test", "a.test:81", "a.testx", "", "a.test,", "a.test, b.test", "xa.test"):
        yield Case(f"host {value!r} against authority", head(more=[("host", value)]))
    yield Case("two hosts", without(":authority", head(more=[("host", AUTHORITY), ("host", AUTHORITY)])))
    yield Case("two hosts that differ", without(":authority", head(more=[("host", AUTHORITY), ("host", "b.test")])))
    yield Case("authority and two hosts", head(more=[("host", AUTHORITY), ("host", "b.test")]))


def bad_connection():
    """8.2.2"""
    for name, values in (("connection", ("close", "keep-alive", "x", "", "te")), ("proxy-connection", ("close", "keep-alive")),
                         ("keep-alive", ("timeout=5", "")), ("transfer-encoding", ("chunked", "identity", "", "gzip, chunked")),
                         ("upgrade", ("h2c", "websocket", "")),
                         ("te", ("gzip", "trailers, gzip", "chunked", "gzip, trailers", "trailers;q=1", "deflate;q=0.5"))):
        for value in values:
            yield Case(f"{name}: {value}", head(more=[(name, value)]))
            yield Case(f"POST with {name}: {value}", head(method="POST", more=[(name, value)]), [b"0\r\n\r\n"])
    yield Case("smuggling by chunks", head(method="POST", more=[("transfer-encoding", "chunked")]),
               [b"0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: a.test\r\n\r\n"])
    yield Case("te twice", head(more=[("te", "trailers"), ("te", "gzip")]))


def bad_lengths():
    """8.1.1, and 9110 8.6"""
    def post(*values):
        return head(method="POST", more=[("content-length", v) for v in values])
    yield Case("length 5 and END_STREAM", post("5"))
    yield Case("GET with length 5 and END_STREAM", head(more=[("content-length", "5")]))
    yield Case("length 5, 4 come", post("5"), [b"1234"])
    yield Case("length 5, 4 come in pieces", post("5"), [b"12", b"", b"34"])
    yield Case("length 5, 6 come", post("5"), [b"123456"])
    yield Case("length 5, 6 come in pieces", post("5"), [b"12345", b"6"])
    yield Case("length 5, nothing comes", post("5"), [b""])
    yield Case("length 0, 1 comes", post("0"), [b"1"])
    yield Case("length 5, then trailers", post("5"), [b"1234"], ([("x", "y")], True))
    yield Case("length 5, a request behind", post("5"), [b"12345GET /smuggled HTTP/1.1\r\nHost: a.test\r\n\r\n"])
    yield Case("length 50000, 49999 come", post("50000"), [b"x" * 10000] * 4 + [b"x" * 9999])
    yield Case("two lengths", post("4", "5"), [b"1234"])
    yield Case("two lengths, swapped", post("5", "4"), [b"1234"])
    for value in ("+4", "-4", "4 ", " 4", "0x4", "4a", "", "4.0", "4,", ",4", "4, 5", "99999999999999999999", "\xb2", "4;",
                  "18446744073709551620", "4\0", "4\r\n", "four"):
        yield Case(f"length {value!r}", post(value), [b"1234"], also=(413,))


def bad_trailers():
    """8.1: no pseudo-fields, END_STREAM; 8.2 holds for them, too."""
    post = head(method="POST")
    for name, value in ((":path", "/x"), (":status", "200"), (":x", ""), ("Upper", "x"), ("x y", "z"), ("x", "a\r\nb"),
                        ("x", "a\0"), ("x", " a"), ("connection", "close"), ("transfer-encoding", "chunked"), ("", "x"),
                        ("upgrade", "h2c"), ("te", "gzip")):
        yield Case(f"trailer {name!r}: {value!r}", post, [b"1234"], ([(name, value)], True))
    yield Case("trailers that do not end it", post, [b"1234"], ([("x", "y")], False), ends=False)


def bad_connect():
    """8.5: Tarn is no forward proxy; RFC 8441: where no route has `pipe`."""
    refused = (405, 501, 403, 404)
    connect = [(":method", "CONNECT"), (":authority", "a.test:443"), ("x", "{tag}")]
    yield Case("CONNECT", connect, also=refused)
    yield Case("CONNECT, open", connect, [b"", b"GET /smuggled HTTP/1.1\r\nHost: a.test\r\n\r\n"], also=refused, ends=False)
    yield Case("CONNECT with scheme and path", head(method="CONNECT"), also=refused)
    yield Case("CONNECT with path", [*connect[:2], (":path", "/{tag}")], also=refused)
    yield Case("CONNECT with scheme", [*connect[:2], (":scheme", "http"), connect[2]], also=refused)
    yield Case("CONNECT without authority", [connect[0], connect[2]], also=refused)
    extended = [*head(method="CONNECT")[:1], (":protocol", "websocket"), *head()[1:]]
    yield Case("CONNECT with protocol", extended, also=refused)
    yield Case("CONNECT with protocol, open", extended, [b"", b"GET /smuggled HTTP/1.1\r\nHost: a.test\r\n\r\n"],
               also=refused, ends=False)
    for more in (("upgrade", "websocket"), ("connection", "upgrade"), ("transfer-encoding", "chunked"), ("content-length", "5")):
        yield Case(f"CONNECT with protocol and {more[0]}", [*extended, more])
    yield Case("GET with protocol", [head()[0], (":protocol", "websocket"), *head()[1:]])


def good():
    """(name, fields, body pieces, trailers, what must be at the origin: method, target, host, {field: values}, body)"""
    yield "plain", head(), None, None, ("GET", "/{tag}", AUTHORITY, {}, b"")
    yield "host in place of authority", without(":authority", head(more=[("host", AUTHORITY)])), None, None, \
        ("GET", "/{tag}", AUTHORITY, {}, b"")
    yield "host beside authority", head(more=[("host", AUTHORITY)]), None, None, ("GET", "/{tag}", AUTHORITY, {}, b"")
    yield "cookie crumbs", head(more=[("cookie", "a=1"), ("x", "y"), ("cookie", "b=2"), ("cookie", "c=3")]), None, None, \
        ("GET", "/{tag}", AUTHORITY, {"cookie": ["a=1; b=2; c=3"]}, b"")
    yield "te: trailers", head(more=[("te", "trailers")]), None, None, ("GET", "/{tag}", AUTHORITY, {}, b"")
    yield "empty value", head(more=[("x", "")]), None, None, ("GET", "/{tag}", AUTHORITY, {"x": [""]}, b"")
    yield "blanks within", head(more=[("x", "a \t b")]), None, None, ("GET", "/{tag}", AUTHORITY, {"x": ["a \t b"]}, b"")
    yield "obs-text", head(more=[("x", "".join(map(chr, range(128, 256))))]), None, None, \
        ("GET", "/{tag}", AUTHORITY, {"x": ["".join(map(chr, range(128, 256)))]}, b"")
    for name in sorted(TOKEN):
        yield f"name {name}", head(more=[(f"x{name}", "1")]), None, None, ("GET", "/{tag}", AUTHORITY, {f"x{name}": ["1"]}, b"")
    yield "order of pseudo-fields", [*reversed(head())], None, None, ("GET", "/{tag}", AUTHORITY, {}, b"")
    yield "a method of its own", head(method="PROPFIND"), None, None, ("PROPFIND", "/{tag}", AUTHORITY, {}, b"")
    yield "length", head(method="POST", more=[("content-length", "5")]), [b"12", b"", b"345"], None, \
        ("POST", "/{tag}", AUTHORITY, {}, b"12345")
    yield "length 0", head(method="POST", more=[("content-length", "0")]), None, None, \
        ("POST", "/{tag}", AUTHORITY, {}, b"")
    yield "length 0 and an empty DATA", head(method="POST", more=[("content-length", "0")]), [b""], None, \
        ("POST", "/{tag}", AUTHORITY, {}, b"")
    yield "no length", head(method="POST"), [b"12345", b""], None, ("POST", "/{tag}", AUTHORITY, {}, b"12345")
    yield "no length, a request in the body", head(method="POST"), [b"0\r\n\r\nGET /s HTTP/1.1\r\nHost: a.test\r\n\r\n"], None, \
        ("POST", "/{tag}", AUTHORITY, {}, b"0\r\n\r\nGET /s HTTP/1.1\r\nHost: a.test\r\n\r\n")
    yield "length and trailers", head(method="POST", more=[("content-length", "4")]), [b"1234"], ([("x-t", "y")], True), \
        ("POST", "/{tag}", AUTHORITY, {}, b"1234")
    yield "trailers", head(method="POST"), [b"1234"], ([("x-t", "y")], True), ("POST", "/{tag}", AUTHORITY, {}, b"1234")
    yield "query", head(path="/{tag}?a=b&c=/d?e"), None, None, ("GET", "/{tag}?a=b&c=/d?e", AUTHORITY, {}, b"")
    yield "OPTIONS *", head(path="*", method="OPTIONS", more=[("x", "{tag}")]), None, None, ("OPTIONS", "*", AUTHORITY, {}, b"")


def fill(fields, tag):
    return [(n.replace("{tag}", tag), v.replace("{tag}", tag)) for n, v in fields]


WAYS = ("plain", "huffman", "table")


class Strict(h2_world.World):
    """One request at a time, between a strict client and a strict origin."""

    def setUp(self):
        listener = (f"backends: {{ default: {{ address: '127.0.0.1:{origin.port}' }} }}\n"
                    "parameters: { timeout_idle: 60s, log_level: error }\n")
        self.it = self.start(listener, "    h2c: on\n")
        self.wrong = []

    def block(self, fields, way):
        if way == "plain":
            return encode(fields)
        if way == "huffman":
            return encode(fields, True)
        # What a request before has put into the table, the last one first.
        return b"".join(indexed(62 + len(fields) - 1 - i) for i in range(len(fields)))

    def say(self, c, fields, body, trailers, way):
        """One request; its stream."""
        block = self.block(fields, way)
        it = c.open(dict(fields).get(":method", "GET"))
        whole = body is None and trailers is None
        c.send(split_block(it.id, block, [FRAME_MAX] * (len(block) // FRAME_MAX), whole))
        for n, piece in enumerate(body or ()):
            c.send(data(it.id, piece, trailers is None and n == len(body) - 1 and self.ends))
            c.send_window -= len(piece)
        if trailers is not None:
            c.send(headers(it.id, encode(trailers[0]), trailers[1]))
        return it

    def try_one(self, case, way):
        tag = fresh()
        fields = fill(case.fields, tag)
        self.ends = case.ends
        with self.plain(self.it, authority=AUTHORITY) as c:
            c.until(lambda: c.theirs is not None)
            if way == "table":  # the same fields, put into the table; what becomes of that request is the same
                first = c.open()
                c.send(headers(first.id, b"".join(literal(n, v, INSERT) for n, v in fields),
                               case.body is None and case.trailers is None))
                if case.body is not None or case.trailers is not None:
                    c.ping()
                elif not c.until(lambda: first.over or c.ended, 10):
                    self.wrong.append(f"{case.name} ({way}): silence")
                    return
                if not first.over:
                    c.reset(first)
            it = self.say(c, fields, case.body, case.trailers, way)
            try:
                c.until(lambda: it.over or c.ended, 10)
            except Broken as e:
                self.wrong.append(f"{case.name} ({way}): {e}")
                return
            statuses = (400, *case.also)
            if case.calm and c.goaway == ENHANCE_YOUR_CALM:
                self.tags.append((case, way, tag))
                return
            if not (it.reset == PROTOCOL_ERROR or (it.status in statuses and it.over)):
                self.wrong.append(f"{case.name} ({way}): {it}, GOAWAY {c.goaways}")
            if not it.over and not c.ended:
                c.reset(it)
            own = fresh()
            try:
                next_one = c.request(f"/{own}", seconds=10)
                account = read_account(bytes(next_one.body)) if next_one.status == 200 else None
                if account is None or account[b"target"] != f"/{own}".encode():
                    self.wrong.append(f"{case.name} ({way}): the next one got {next_one} {bytes(next_one.body)[:100]}")
            except AssertionError as e:
                self.wrong.append(f"{case.name} ({way}): the connection does not go on: {e}")
        origin.take(own)
        self.nothing_came(case, way, tag)
        self.tags.append((case, way, tag))

    def nothing_came(self, case, way, tag):
        seen = origin.take(tag)
        if seen.requests or seen.invalid or seen.cut:
            self.wrong.append(f"{case.name} ({way}): the origin saw {[(m.method, m.target) for m in seen.requests]} "
                              f"{seen.invalid} {seen.cut}")

    def refuse(self, cases):
        self.tags, count = [], 0
        for case in cases:
            for way in case.ways:
                self.try_one(case, way)
                count += 1
        time.sleep(0.3)  # what is late
        for case, way, tag in self.tags:
            self.nothing_came(case, way, tag)
        stray = origin.take(None)
        if stray.requests or stray.invalid:
            self.wrong.append(f"without a tag came {[(m.method, m.target) for m in stray.requests]} {stray.invalid}")
        self.assertEqual(self.wrong, [], f"{len(self.wrong)} of {count} tries:\n" + "\n".join(self.wrong[:60]))
        self.assertGreater(count, 3)

    def serve(self, name, fields, body, trailers, wanted, way):
        """A valid one comes out exactly."""
        self.ends = True
        tag = fresh()
        with self.plain(self.it, authority=AUTHORITY) as c:
            fields = fill(fields, tag)
            if way == "table":
                first = c.open()
                c.send(headers(first.id, b"".join(literal(n, v, INSERT) for n, v in fields), False))
                c.send(h2_client.reset(first.id))
                c.ping()
                time.sleep(0.005)
                origin.take(tag)
            it = self.say(c, fields, body, trailers, way)
            c.finish(it, seconds=10)
            self.assertEqual(it.status, 200, f"{name} ({way}): {it}")
        seen = origin.take(tag)
        self.assertEqual((seen.invalid, len(seen.requests)), ([], 1), f"{name} ({way})")
        self.compare(name, seen.requests[0], wanted, tag)

    def compare(self, name, message, wanted, tag):
        method, target, host, fields, body = wanted
        self.assertEqual((message.method, message.target, message.one(b"Host"), bytes(message.body)),
                         (method.encode(), target.replace("{tag}", tag).encode(), host.encode(), body), name)
        came = {}
        for n, v in message.fields:
            came.setdefault(n.lower().decode("latin-1"), []).append(v.decode("latin-1"))
        for n, values in fields.items():
            self.assertEqual(came.get(n), values, name)
        for n in came:
            self.assertFalse(n.startswith(":"), name)
        self.assertNotIn("te", came, name)


class Smuggle(Strict):
    def test_names(self):
        self.refuse(bad_names())

    def test_values(self):
        self.refuse(bad_values())

    def test_pseudo_fields(self):
        self.refuse(bad_pseudo())

    def test_paths(self):
        self.refuse(bad_paths())

    def test_authorities(self):
        self.refuse(bad_authorities())

    def test_connection_specific_fields(self):
        self.refuse(bad_connection())

    def test_lengths(self):
        self.refuse(bad_lengths())

    def test_trailers(self):
        self.refuse(bad_trailers())

    def test_connect(self):
        self.refuse(bad_connect())

    def test_valid_ones_come_out_exactly(self):
        for one, way in itertools.product(good(), WAYS):
            self.serve(*one, way)


def main(doc):
    global origin
    if len(sys.argv) < 2:
        sys.exit(doc)
    h2_world.World.program = os.path.abspath(sys.argv.pop(1))
    origin = Origin()
    origin.start()
    unittest.main(warnings="ignore")


if __name__ == "__main__":
    main(__doc__)
