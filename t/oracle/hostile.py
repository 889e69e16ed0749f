"""hostile.py -- an origin that does wrong in every way there is, and the client behind the proxy.

Each case is played whole, one byte at a time, and for a client of HTTP/1.0, until the client has
its answer; from then on the same URL answers well.  The client must get a 502 or 504, or half an
answer that cannot be taken for a whole one; the second request must be asked of the origin anew;
and whoever comes next must get their own answer.  Answers that are merely unusual must be served.

Every hostile answer says that it may be stored for ten minutes, and what nobody may ever get says
POISON.
"""
import concurrent.futures
import itertools
import re
import socket
import struct
import threading
import time

from recorder import Origin, account, read_account
from payloads import HOST, LENGTHS, chunk_faults, text
from requests import Client, pieces
from strict import Invalid, Parser

CACHE = b"Cache-Control: max-age=600\r\n"
POISON = b"HTTP/1.1 200 OK\r\n" + CACHE + b"Content-Length: 6\r\n\r\nPOISON"
CLOSE, RESET = "close", "reset"
STALL = "stall"   # longer than any deadline of the proxy's
FAR = 4           # seconds that a stall lasts at most
CASE = re.compile(rb"/h/([0-9]+)/")
UNTIL_END = object()  # an answer that ends with the connection
THREADS = 12


class Case:
    """`plays`: each a list of bytes, pauses in seconds, CLOSE, RESET, STALL.

    Expectations:  failed  an error, or half an answer
                   error   an error, for there is no head that could be passed on
                   served  `status` and `body`
                   either  failed or served; or what was asked for, cut out of it
    """

    def __init__(self, klass, name, expect, plays, **more):
        self.klass, self.name, self.expect, self.plays = klass, name, expect, plays
        self.method = more.pop("method", b"GET")
        self.fields = more.pop("fields", b"")
        self.status = more.pop("status", 200)
        self.body = more.pop("body", b"hello")
        self.early = more.pop("early", False)  # answered before the request's body is there
        # What comes late on a connection can only be told from the answer to the next request
        # while there is no next request, so such a case is played alone and the client waits.
        self.alone = more.pop("alone", False)
        self.kept = more.pop("kept", expect in ("served", "either"))  # may it be served again?
        # As what.  Parts may become a whole only when they say that they are the whole.
        self.kept_status = 200 if self.status == 206 else self.status
        assert not more, more


def answer(*lines, status=b"HTTP/1.1 200 OK", body=b"hello"):
    return status + b"\r\n" + CACHE + b"".join(n + b"\r\n" for n in lines) + b"\r\n" + body


SIZED = answer(b"Content-Length: 5")
CHUNKED = answer(b"Transfer-Encoding: chunked", body=b"5\r\nhello\r\n0\r\n\r\n")
OPEN = answer(b"Connection: close")


class List:
    def __init__(self):
        self.cases, self.klass = [], None

    def add(self, expect, name, *play, **more):
        more.setdefault("alone", self.klass == "bytes behind a response")
        self.cases.append(Case(self.klass, name, expect, more.pop("plays", [play]), **more))

    def error(self, name, *play, **more):
        self.add("error", name, *play, **more)

    def failed(self, name, *play, **more):
        self.add("failed", name, *play, **more)

    def served(self, name, *play, **more):
        self.add("served", name, *play, **more)

    def either(self, name, *play, **more):
        self.add("either", name, *play, **more)


def status_lines(l):
    l.klass = "status lines"
    for line in (b"HTTP/1.1 099 X", b"HTTP/1.1 600 X", b"HTTP/1.1 999 X", b"HTTP/1.1 20 X",
                 b"HTTP/1.1 2000 X", b"HTTP/1.1 -200 X", b"HTTP/1.1 0200 X", b"HTTP/1.1 20x X",
                 b"HTTP/1.1 200X", b"HTTP/1.1  200 X", b"HTTP/1.1\t200 X", b"HTTP/1.1 200\tX",
                 b"http/1.1 200 X", b"HTTP/1.2 200 X", b"HTTP/2 200 X", b"HTTP/2.0 200 X",
                 b"HTTP/0.9 200 X", b"HTTP/11 200 X", b"HTTP/01.1 200 X", b"ICY 200 OK",
                 b"HTTP/1.1200 X", b"HTTP/1.1", b"HTTP/1.1 ", b"200 OK", b"RTSP/1.0 200 OK",
                 b" HTTP/1.1 200 X", b"HTTP/1.1 200 a\x00b", b"HTTP/1.1 200 a\rb",
                 b"HTTP/1.1 200 \x7f",
                 b"GET / HTTP/1.1", b"HTTP/1.1 000 X", b"HTTP/1.1 +20 X", b"\x00HTTP/1.1 200 X"):
        l.error("the status line %s" % text(line), answer(b"Content-Length: 5", status=line), CLOSE)
    l.error("an empty line in front", b"\r\n" + SIZED)
    l.error("a body without a head", b"<html>hello</html>\r\n\r\n", CLOSE)
    l.error("a TLS alert", b"\x15\x03\x01\x00\x02\x02\x28", CLOSE)
    l.error("a status line without end", b"HTTP/1.1 200 " + b"a" * 70000, CLOSE)


def heads(l):
    l.klass = "heads"
    for line in (b"X\x00: 1", b"X: a\x00b", b"X: \x00", b"X: a\rb", b"X: a\r", b"X : 1", b"X\t: 1",
                 b" X: 1",
                 b"X", b": 1", b":", b"X Y: 1", b"(X): 1", b"X: \x01", b"X: \x0b", b"X: \x7f",
                 b"X: a\r\n b",
                 b"X: a\r\n\tb", b"X: a\nY: b", b"\xe9: 1", b"X\x7f: 1", b"X[]: 1", b"\x0bX: 1",
                 b"Content-Length: 5\nX: 1", b"Content-Length : 5", b" Content-Length: 5",
                 b"Content-Length:\r\n 5", b"Transfer-Encoding : chunked",
                 b"Transfer-Encoding\x00: chunked"):
        l.error("the field line %s" % text(line), answer(line, b"Content-Length: 5"), CLOSE)
        l.error("the field line %s in front" % text(line),
                b"HTTP/1.1 200 OK\r\n" + line + b"\r\n" + CACHE + b"Content-Length: 5\r\n\r\nhello",
                CLOSE)
    l.error("LF everywhere", SIZED.replace(b"\r\n", b"\n"), CLOSE)
    l.error("CR everywhere", SIZED.replace(b"\r\n", b"\r"), CLOSE)
    l.error("a blank line that ends with LF", SIZED.replace(b"\r\n\r\n", b"\r\n\n"), CLOSE)
    l.error("a status line that ends with LF", SIZED.replace(b"OK\r\n", b"OK\n"), CLOSE)
    for n in (9000, 40000, 300000):
        l.error("a field of %d bytes" % n, answer(b"X: " + b"v" * n, b"Content-Length: 5"), CLOSE)
    for n in (101, 2000):
        l.error("%d fields" % n, answer(*[b"X-%d: 1" % i for i in range(n)]), CLOSE)
    l.error("60 KiB of fields", answer(*[b"X-%d: %s" % (i, b"v" * 1000) for i in range(60)]), CLOSE)
    l.error("a head without end", b"HTTP/1.1 200 OK\r\n" + b"X: yyyyyyyyyyyyyyyyyyyyy\r\n" * 5000,
            CLOSE)


def framing(l):
    l.klass = "framing"
    for order in (0, 1):
        lines = [b"Content-Length: 5", b"Transfer-Encoding: chunked"]
        l.error("both framings, %s first" % ("coding" if order else "length"),
                answer(*(lines[::-1] if order else lines),
                       body=b"5\r\nhello\r\n0\r\n\r\n" + POISON))
    for value in LENGTHS:
        l.error("the length %s" % text(value), answer(b"Content-Length: " + value), CLOSE)
    for pair in ((b"5", b"5"), (b"5", b"6"), (b"5", b"0"), (b"0", b"5"), (b"", b"5")):
        l.error("two lengths, %s and %s" % (text(pair[0]), text(pair[1])),
                answer(*[b"Content-Length: " + v for v in pair]), CLOSE)
    for value in (b"xchunked", b'"chunked"', b"chunked;x", b",chunked", b"chunked,", b"\x0bchunked",
                  b"chunked\xa0", b"", b"identity", b"gzip, chunked", b"chunked, chunked",
                  b"chunked, gzip", b"gzip", b"chunked, identity", b"cow"):
        l.error("the coding %s" % text(value),
                answer(b"Transfer-Encoding: " + value, body=b"5\r\nhello\r\n0\r\n\r\n"), CLOSE)
    l.error("two codings", answer(b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked",
                                  body=b"5\r\nhello\r\n0\r\n\r\n"), CLOSE)
    l.error("a coding in HTTP/1.0", answer(b"Transfer-Encoding: chunked", status=b"HTTP/1.0 200 OK",
                                           body=b"5\r\nhello\r\n0\r\n\r\n"), CLOSE)
    l.error("both framings in HTTP/1.0", answer(
        b"Transfer-Encoding: chunked", b"Content-Length: 5", status=b"HTTP/1.0 200 OK"), CLOSE)
    for status in (b"199 X", b"103 Early Hints", b"102 Processing"):
        for line, body in ((b"Content-Length: 5", b"hello"),
                           (b"Transfer-Encoding: chunked", b"5\r\nhello\r\n0\r\n\r\n")):
            l.error("a %s with %s" % (status.decode(), line.decode()),
                    answer(line, status=b"HTTP/1.1 " + status, body=body), CLOSE)


def chunks(l):
    l.klass = "chunks"
    begin = answer(b"Transfer-Encoding: chunked", body=b"")
    for what, chunk in chunk_faults():
        l.failed(what, begin + chunk + b"0\r\n\r\n", CLOSE)
        l.failed(what + ", behind a good chunk", begin + b"3\r\nabc\r\n" + chunk + b"0\r\n\r\n",
                 CLOSE)
    for last in (b"0\n\n", b"0\r\n\n", b"0\r\r\n", b"0\r\nX\r\n\r\n", b"0 \r\n\r\n",
                 b"0\r\nX : a\r\n\r\n",
                 b"0\r\nX: a\r\n b\r\n\r\n", b"0\r\nX: \x00\r\n\r\n", b"0\r\n: a\r\n\r\n",
                 b"0\r\nX: a\n\r\n", b"0" * 17 + b"\r\n\r\n"):
        l.failed("the last chunk %s" % text(last), begin + b"5\r\nhello\r\n" + last, CLOSE)
    l.failed("trailers of 60 KiB", begin + b"5\r\nhello\r\n0\r\n" + b"".join(
        b"X-%d: %s\r\n" % (i, b"v" * 1000) for i in range(60)) + b"\r\n", CLOSE)
    l.failed("chunk extensions of 25 KiB", begin + (b"1;" + b"e" * 500 + b"\r\nx\r\n") * 50 +
             b"0\r\n\r\n", CLOSE)


def truncated(l):
    l.klass = "ends too early"
    head = SIZED.index(b"\r\n\r\n") + 4
    l.error("closes without a byte", CLOSE)
    l.error("resets without a byte", RESET)
    l.error("closes after any byte of the head", plays=[(SIZED[:n], CLOSE) for n in range(1, head)])
    l.error("resets after any tenth byte of the head",
            plays=[(SIZED[:n], RESET) for n in range(1, head, 10)])
    l.failed("closes after any byte of a sized body",
             plays=[(SIZED[:n], CLOSE) for n in range(head, len(SIZED))])
    l.failed("resets after any byte of a sized body",
             plays=[(SIZED[:n], 0.02, RESET) for n in range(head, len(SIZED))])
    head = CHUNKED.index(b"\r\n\r\n") + 4
    l.failed("closes after any byte of a chunked body",
             plays=[(CHUNKED[:n], CLOSE) for n in range(head, len(CHUNKED))])
    l.failed("resets after any byte of a chunked body",
             plays=[(CHUNKED[:n], 0.02, RESET) for n in range(head, len(CHUNKED))])
    l.failed("resets in a body that ends with the connection", OPEN, 0.02, RESET)
    l.failed("resets before a body that ends with the connection", OPEN[:-5], 0.02, RESET)
    l.failed("closes in a sized body of HTTP/1.0",
             answer(b"Content-Length: 50", status=b"HTTP/1.0 200 OK"), CLOSE)
    l.failed("closes after the head of a sized body, much later", SIZED[:-5], 0.3, CLOSE)
    l.failed("closes in a trailer", CHUNKED[:-2] + b"X: a", CLOSE)
    l.failed("closes behind a trailer", CHUNKED[:-2] + b"X: a\r\n", CLOSE)


def stalls(l):
    l.klass = "stalls"
    l.error("says nothing", STALL)
    l.error("stalls in its status line", b"HTTP/1.", STALL)
    l.error("stalls in a field", SIZED[:30], STALL)
    l.error("stalls before the blank line", SIZED[:-7], STALL)
    l.error("stalls behind an interim response", b"HTTP/1.1 100 Continue\r\n\r\n", STALL)
    l.error("says a byte of its head every 300 ms", *itertools.chain.from_iterable(
        (SIZED[n:n + 1], 0.3) for n in range(14)), STALL)
    l.failed("stalls before a sized body", SIZED[:-5], STALL)
    l.failed("stalls in a sized body", SIZED[:-2], STALL)
    l.failed("stalls before the first chunk", CHUNKED[:-15], STALL)
    l.failed("stalls in a chunk size", CHUNKED[:-14], STALL)
    l.failed("stalls in a chunk", CHUNKED[:-9], STALL)
    l.failed("stalls before the last chunk", CHUNKED[:-5], STALL)
    l.failed("stalls behind the last chunk", CHUNKED[:-2], STALL)
    l.failed("stalls in a body that ends with the connection", OPEN, STALL)


def interim(l):
    l.klass = "interim responses"
    one = b"HTTP/1.1 100 Continue\r\n\r\n"
    l.error("17 interim responses", one * 17 + SIZED)
    l.error("500 early hints", b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" * 500 + SIZED,
            CLOSE)
    l.error("interim responses without end", one * 20000, CLOSE)
    switch = b"HTTP/1.1 101 Switching Protocols\r\n"
    websocket = b"Upgrade: websocket\r\nConnection: upgrade\r\n"
    l.error("101 that nobody asked for", switch + websocket + b"\r\n" + POISON)
    l.error("101 without a protocol", switch + b"\r\n" + POISON)
    l.error("101 for a client that asked where nobody may", switch + websocket + b"\r\n" + POISON,
            fields=websocket)
    l.error("304 that nobody asked for",
            b"HTTP/1.1 304 Not Modified\r\n" + CACHE + b"ETag: \"x\"\r\n\r\n")
    l.error("304 that nobody asked for, with a body", answer(
        b"Content-Length: 6", status=b"HTTP/1.1 304 Not Modified", body=b"POISON"))
    l.error("an interim response with a malformed field",
            b"HTTP/1.1 103 Early Hints\r\nX : y\r\n\r\n" + SIZED, CLOSE)
    l.error("an interim response and nothing else", one, CLOSE)
    l.error("an interim response with a body",
            b"HTTP/1.1 100 Continue\r\nX: y\r\n\r\nPOISON\r\n\r\n" + SIZED, CLOSE)


def overrun(l):
    l.klass = "bytes behind a response"
    for name, good, more in (
            ("a sized response", SIZED, {}), ("a chunked response", CHUNKED, {}),
            ("a sized body of no bytes", answer(b"Content-Length: 0", body=b""), {"body": b""}),
            ("204", answer(status=b"HTTP/1.1 204 No Content", body=b""), {"status": 204,
                                                                          "body": b""}),
            ("the answer to HEAD", answer(b"Content-Length: 5", body=b""), {
                "method": b"HEAD", "fields": b"Cache-Control: no-store\r\n", "body": b""})):
        for what, extra in (("a response", POISON), ("a byte", b"P"), ("an empty line", b"\r\n"),
                            ("a body", b"POISON"), ("a refusal of the next request",
                             b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n")):
            l.served("%s behind %s" % (what, name), good + extra, **more)
            l.served("%s behind %s, a little later" % (what, name), good, 0.03, extra, **more)
            if what == "a response":
                l.served("%s behind %s, then the end" % (what, name), good, 0.01, extra, CLOSE,
                         **more)
                l.served("five of them behind %s" % name, good + extra * 5, **more)


def ranges(l):
    l.klass = "partial responses"
    part = b"HTTP/1.1 206 Partial Content"
    for name, lines in (("without Content-Range", ()), ("of the whole",
                                                        (b"Content-Range: bytes 0-4/5",)),
                        ("of a part", (b"Content-Range: bytes 0-4/10",)),
                        ("of another length", (b"Content-Range: bytes 0-9/10",)),
                        ("that ends before it begins", (b"Content-Range: bytes 9-4/10",)),
                        ("of what is not there", (b"Content-Range: bytes 7-11/10",)),
                        ("with a Content-Range that is none", (b"Content-Range: cows 1-2/*",)),
                        ("in several parts", (b"Content-Type: multipart/byteranges; boundary=x",))):
        play = answer(b"Content-Length: 5", *lines, status=part)
        how = {"status": 206, "kept": b"0-4/5" in b"".join(lines)}
        l.either("206 %s that nobody asked for" % name, play, **how)
        l.either("206 %s for another range" % name, play, fields=b"Range: bytes=2-3\r\n", **how)
    l.either("416 that nobody asked for", answer(b"Content-Length: 5", status=b"HTTP/1.1 416 No"),
             status=416)


def unkept(l):
    l.klass = "answers that are for one client only"

    def add(name, play, **more):
        l.served(name, play.replace(CACHE, more.pop("cache", b"")), kept=False, **more)

    for status in (400, 401, 403, 413, 414, 429, 431, 500, 501, 502, 503, 504):
        add("the status %d without freshness" % status, answer(
            b"Content-Length: 5", status=b"HTTP/1.1 %d Whatever" % status), status=status)
        add("the status %d, last modified long ago" % status, answer(
            b"Content-Length: 5", b"Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT",
            status=b"HTTP/1.1 %d Whatever" % status), status=status)
    for cache in (b"private", b"no-store", b"no-cache", b"PRIVATE, max-age=600",
                  b"max-age=600,no-store",
                  b'private="Set-Cookie", max-age=600', b"max-age=0", b"s-maxage=0, max-age=600"):
        add("Cache-Control: %s" % cache.decode(), SIZED, cache=b"Cache-Control: %s\r\n" % cache)
    for lines in (b"Vary: *", b"Vary: Accept, *", b"Vary: X-Forwarded-For",
                  b"CDN-Cache-Control: no-store",
                  b"Cache-Control: no-store", b"Cache-Control: private"):
        add("an answer for ten minutes with %s" % lines.decode(), answer(lines,
                                                                         b"Content-Length: 5"),
            cache=CACHE)


def early(l):
    l.klass = "answers before the request's end"
    post = {"method": b"POST", "early": True}
    l.served("an answer before the body, and the connection goes on", SIZED, **post)
    l.served("an answer before the body, then the end", SIZED, 0.05, CLOSE, **post)
    l.served("a refusal before the body", answer(b"Content-Length: 5", b"Connection: close",
             status=b"HTTP/1.1 413 Too Large"), 0.05, CLOSE, status=413, **post)
    l.served("100 that nobody asked for, then an answer before the body",
             b"HTTP/1.1 100 Continue\r\n\r\n" + SIZED, **post)
    l.served("an answer before the body, and another behind it", SIZED + POISON, **post)
    l.error("the end before the body", CLOSE, **post)
    l.error("a reset before the body", RESET, **post)
    l.error("an answer before the body that is none", b"HTTP/9.9 200 X\r\n\r\n", CLOSE, **post)
    l.failed("half an answer before the body, then the end", SIZED[:-2], CLOSE, **post)


def unusual(l):
    l.klass = "unusual"
    one = b"HTTP/1.1 100 Continue\r\n\r\n"
    hint = b"HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\n\r\n"
    l.served("a sized response", SIZED)
    l.served("a chunked response", CHUNKED)
    l.served("a body that ends with the connection", OPEN, CLOSE)
    l.served("HTTP/1.0, a body that ends with the connection", OPEN.replace(b"1.1", b"1.0"), CLOSE)
    l.served("HTTP/1.0 that is kept alive", answer(b"Content-Length: 5", b"Connection: keep-alive",
                                                   status=b"HTTP/1.0 200 OK"))
    l.served("HTTP/1.0 with a length", answer(b"Content-Length: 5", status=b"HTTP/1.0 200 OK"),
             CLOSE)
    l.served("a sized response, then a reset", SIZED, 0.05, RESET)
    l.served("100 in front", one + SIZED)
    l.served("16 interim responses in front", one * 16 + SIZED)
    l.served("hints in front", hint * 3 + SIZED)
    l.served("102 in front", b"HTTP/1.1 102 Processing\r\n\r\n" + CHUNKED)
    l.served("199 in front", b"HTTP/1.1 199 Whatever\r\nX: y\r\n\r\n" + SIZED)
    for reason in (b"", b" ", b"Not really OK", b"\xc3\xa9t\xc3\xa9", b"a\tb", b"200 200",
                   b"!\"#$%", b"r" * 500):
        l.served("the reason %s" % text(reason),
                 answer(b"Content-Length: 5", status=b"HTTP/1.1 200 " + reason))
    l.either("no space behind the status", answer(b"Content-Length: 5", status=b"HTTP/1.1 200"))
    for status in (201, 203, 226, 299, 300, 399, 404, 410, 418, 451, 499, 500, 501, 503, 511, 599):
        l.served("the status %d" % status, answer(
            b"Content-Length: 5", status=b"HTTP/1.1 %d Whatever" % status), status=status)
    l.served("a body of no bytes", answer(b"Content-Length: 0", body=b""), body=b"")
    l.served("a chunked body of no bytes",
             answer(b"Transfer-Encoding: chunked", body=b"0\r\n\r\n"), body=b"")
    l.served("a body of no bytes that ends with the connection", answer(body=b""), CLOSE, body=b"")
    l.served("204", answer(status=b"HTTP/1.1 204 No Content", body=b""), status=204, body=b"")
    # RFC 9112 6.3, 1: it ends at its head, and nothing is read behind that.
    for line, body in ((b"Content-Length: 5", b"hello"), (b"Content-Length: 5", b""),
                       (b"Transfer-Encoding: chunked", b"5\r\nhello\r\n0\r\n\r\n")):
        l.served("204 with %s and %d bytes" % (line.decode(), len(body)),
                 answer(line, status=b"HTTP/1.1 204 No Content", body=body), status=204, body=b"")
    l.served("204 with the length 0", answer(b"Content-Length: 0",
                                             status=b"HTTP/1.1 204 No Content",
                                             body=b""), status=204, body=b"")
    l.served("names in lower case", SIZED.lower().replace(b"http/1.1 200 ok", b"HTTP/1.1 200 OK"))
    l.served("names in upper case", SIZED.upper().replace(b"HELLO", b"hello"))
    for line in (b"X:", b"X:\t \t", b"X:y", b"X: \t y \t ", b"X: \xe9\x80", b"1: 2",
                 b"!#$%&'*+-.^_`|~: x",
                 b"Set-Cookie: a=b; c\r\nSet-Cookie: d", b"X: a,,b", b"Content_Length: 99",
                 b"Transfer_Encoding: chunked", b"Connection: x, keep-alive\r\nX: y",
                 b"Keep-Alive: timeout=5",
                 b"Connection: content-length", b"Connection: cache-control", b"Connection: ,,",
                 b"Trailer: X", b"Date: yesterday", b"Age: -1", b"Vary:", b"Upgrade: h2c",
                 b"Proxy-Authenticate: Basic", b"X: " + b"v" * 8000, b"Expires: 0", b"ETag: x"):
        l.served("the field line %s" % text(line), answer(line, b"Content-Length: 5"))
    for coding in (b"Transfer-Encoding:chunked", b"transfer-encoding: \tCHUNKED\t "):
        l.served("the coding line %s" % text(coding), answer(coding,
                                                             body=b"5\r\nhello\r\n0\r\n\r\n"))
    for body in (b"00005\r\nhello\r\n0\r\n\r\n", b"5;a=b\r\nhello\r\n0\r\n\r\n",
                 b'5;a="b;\\"c"\r\nhello\r\n0\r\n\r\n',
                 b"5 ; a = b\r\nhello\r\n0\t;\tc\r\n\r\n",  # BWS: RFC 9112 7.1.1
                 b"1\r\nh\r\n4\r\nello\r\n000\r\n\r\n", b"5\r\nhello\r\n0;x\r\n\r\n",
                 b"5\r\nhello\r\n0\r\nX: y\r\n\r\n",
                 b"5\r\nhello\r\n0\r\nSet-Cookie: a=b\r\nX: y\r\n\r\n"):
        l.served("the chunks %s" % text(body), answer(b"Transfer-Encoding: chunked", body=body))
    l.served("99 fields", answer(*[b"X-%d: 1" % i for i in range(97)], b"Content-Length: 5"))
    l.served("30 KiB of fields", answer(*[b"X-%d: %s" % (i, b"v" * 400) for i in range(70)],
                                        b"Content-Length: 5"))
    big = bytes(range(256)) * 400
    l.served("100 KiB with every byte", answer(b"Content-Length: %d" % len(big), body=big),
             body=big)
    l.served("a chunk of 100 KiB", answer(b"Transfer-Encoding: chunked",
                                          body=b"%X\r\n%s\r\n0\r\n\r\n" % (
        len(big), big)), body=big)
    l.served("a pause in a body", SIZED[:-3], 0.2, SIZED[-3:])
    l.served("a pause in a head", SIZED[:30], 0.2, SIZED[30:])
    l.served("the answer to HEAD with a length", answer(b"Content-Length: 999", body=b""),
             method=b"HEAD", fields=b"Cache-Control: no-store\r\n", body=b"")
    l.served("the answer to HEAD with a coding", answer(b"Transfer-Encoding: chunked", body=b""),
             method=b"HEAD", fields=b"Cache-Control: no-store\r\n", body=b"")


def everything():
    made = List()
    for generate in (status_lines, heads, framing, chunks, truncated, stalls, interim, overrun,
                     ranges,
                     unkept, early, unusual):
        generate(made)
    names = [(c.klass, c.name) for c in made.cases]
    assert len(names) == len(set(names)), [n for n in names if names.count(n) > 1]
    return made.cases


# ---- The origin

class HostileOrigin:
    """Plays what is set for a number; answers everything else, and every number that is not set
    any more, with an account."""

    def __init__(self, port=0):
        self.listener = socket.create_server(("127.0.0.1", port), backlog=256)
        self.port = self.listener.getsockname()[1]
        self.plays = {}    # number: (play, byte by byte, before the request's body)
        self.played = {}   # number: set when the last byte of a play was sent
        self.asked = {}    # number: how often it was asked for
        self.invalid = []  # what the proxy sent that is no HTTP
        self.serial = itertools.count(1)
        self.lock = threading.Lock()
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            sock, _ = self.listener.accept()
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self.serve, args=(sock,), daemon=True).start()

    def serve(self, sock):
        parser = Parser(True)
        try:
            with sock:
                while self.step(sock, parser):
                    pass
        except Invalid as why:
            with self.lock:
                self.invalid.append(str(why))
        except OSError:
            pass  # the proxy left, as it may

    def step(self, sock, parser):
        data = sock.recv(65536)
        if not data:
            return False
        parser.feed(data)
        begun = parser.message
        if begun is not None and self.play_of(begun) is not None and self.play_of(begun)[2]:
            if not self.play(sock, begun):
                return False
            self.wait(sock)  # the rest of the body belongs to nobody
            return False
        while parser.messages:
            message = parser.messages.pop(0)
            if not self.answer(sock, message):
                return False
        return True

    def number_of(self, message):
        match = CASE.match(message.target)
        return int(match[1]) if match else None

    def play_of(self, message):
        with self.lock:
            return self.plays.get(self.number_of(message))

    def answer(self, sock, message):
        if self.play_of(message) is not None:
            return self.play(sock, message)
        self.count(message)
        body = account(message, next(self.serial))
        head = b"HTTP/1.1 200 OK\r\n" + CACHE + b"Content-Length: %d\r\n\r\n" % len(body)
        sock.sendall(head if message.method == b"HEAD" else head + body)
        return message.persists()

    def count(self, message):
        number = self.number_of(message)
        with self.lock:
            self.asked[number] = self.asked.get(number, 0) + 1

    def play(self, sock, message):
        play, dripped, _ = self.play_of(message)
        self.count(message)
        try:
            return self.play_steps(sock, play, dripped)
        finally:
            with self.lock:
                self.played[self.number_of(message)] = True

    def play_steps(self, sock, play, dripped):
        for step in play:
            if isinstance(step, bytes):
                for piece in pieces(step) if dripped else [step]:
                    sock.sendall(piece)
                    if dripped:
                        time.sleep(0.0002)  # long enough for a read of its own
            elif step == CLOSE:
                sock.shutdown(socket.SHUT_WR)
                return False
            elif step == RESET:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                return False
            elif step == STALL:
                self.wait(sock)
                return False
            else:
                time.sleep(step)
        return True

    def wait(self, sock):
        """Until the other side ends it, or long enough."""
        sock.settimeout(FAR)
        try:
            while sock.recv(65536):
                pass
        except OSError:
            pass


# ---- The client

class Play:
    """One play of a case, in one way: whole, dripped, or to a client of HTTP/1.0."""

    WAYS = ("whole", "byte by byte", "to HTTP/1.0")

    def __init__(self, number, case, play, way):
        self.number, self.case, self.play, self.way = number, case, play, way
        self.url = b"/h/%d/" % number
        self.wrong = []
        self.outcome = None  # failed, served, other

    def check(self, good, what):
        if not good:
            self.wrong.append(what)

    def run(self, address, origin, patience_s):
        case = self.case
        with origin.lock:
            origin.plays[self.number] = (self.play, self.way == "byte by byte", case.early)
        client = Client(address, [case.method])
        version = b"1.0" if self.way == "to HTTP/1.0" else b"1.1"
        body = b"Content-Length: 300000\r\n" if case.early else b""
        client.send(b"%s %s HTTP/%s\r\nHost: %s\r\n%s%s\r\n" % (
            case.method, self.url, version, HOST, body, case.fields))
        if case.early:
            client.send(b"x" * 1000)
        client.read(1, time.monotonic() + patience_s)
        with origin.lock:
            asked = origin.asked.get(self.number, 0)
            del origin.plays[self.number]
        self.judge(client, asked)
        client.close()
        if case.alone:
            self.wait(origin)
        self.again(address, origin, patience_s)

    def wait(self, origin):
        """Until all that the origin had to say has had time to arrive."""
        deadline = time.monotonic() + 5
        while time.monotonic() < deadline and self.number not in origin.played:
            time.sleep(0.002)
        time.sleep(0.01)

    def judge(self, client, asked):
        case, messages = self.case, client.parser.messages
        self.check(asked >= 1, "the origin was not asked")
        self.check(b"POISON" not in client.bytes, "POISON reached the client")
        self.check(client.ended in (None, "eof", "reset", "silence"),
                   "the client got: %s" % client.ended)
        whole = messages[0] if messages else None
        if whole is None and client.ended in ("eof", "reset"):
            # Without a head that was good there is nothing to have half of.
            self.outcome = "failed" if case.expect != "error" else "other"
        elif whole is not None and whole.status in (502, 504) and whole.status != case.status:
            self.outcome = "failed"
        elif whole is not None and (whole.status, whole.body) == (case.status, case.body):
            self.outcome = "served"
        else:
            self.outcome = "other"
        # Of what came, what was asked for: bytes 2 and 3 of a part that holds them.
        cut_out = whole is not None and (whole.status, whole.body) == (206, case.body[2:4])
        either = self.outcome != "other" or cut_out or whole is not None and whole.status == 416
        good = either if case.expect == "either" else self.outcome == (
            "served" if case.expect == "served" else "failed")
        self.check(good, "the client got %s, ended by %s: %r" % (
            whole.status if whole else "half an answer", client.ended, client.bytes[-200:]))

    def again(self, address, origin, patience_s):
        """The same URL, good now, and others: everybody gets their own."""
        client = Client(address, [])
        for target in (self.url, b"/good/%d/a" % self.number, b"/good/%d/b" % self.number):
            response = client.ask(b"GET", target, patience_s)
            if response is None:
                self.check(False, "%r got no answer: %s" % (target, client.ended))
                break
            self.check(b"POISON" not in response.body, "POISON reached %r" % target)
            # What was served may be served again, but a part is not the whole.
            kept = target == self.url and self.case.kept and self.outcome != "failed" and \
                (response.status, response.body) == (self.case.kept_status, self.case.body)
            told = read_account(response.body) or {}
            self.check(kept or response.status == 200 and told.get(b"target") == target and
                       told.get(b"method") == b"GET", "%r got %d: %r" % (
                           target, response.status, response.body[:200]))
        client.close()


class Results:
    def __init__(self, cases):
        self.cases = cases
        self.wrong = {}

    def passed(self, expectations):
        return sum(1 for c in self.cases if c.expect in expectations and c not in self.wrong)

    def count(self, expectations):
        return sum(1 for c in self.cases if c.expect in expectations)


def run(cases, address, origin, patience_s):
    numbers = itertools.count(1)
    plays = []
    for case in cases:
        for play in case.plays:
            for way in Play.WAYS:
                if way == "whole" or len(case.plays) == 1 or play is case.plays[-1]:
                    plays.append(Play(next(numbers), case, play, way))
    results = Results(cases)
    # Those that stall first: the others are played meanwhile.
    together = sorted((p for p in plays if not p.case.alone), key=lambda p: STALL not in p.play)
    with concurrent.futures.ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(lambda p: p.run(address, origin, patience_s), together))
    for p in plays:
        if p.case.alone:
            p.run(address, origin, patience_s)
    for p in plays:
        for what in p.wrong:
            results.wrong.setdefault(p.case, []).append((p.way, p.play, what))
    return results, ["the proxy sent what is no HTTP: %s" % why for why in origin.invalid]


if __name__ == "__main__":
    made = everything()
    for c in made:
        print("%-7s %s: %s" % (c.expect, c.klass, c.name))
    print({e: sum(c.expect == e for c in made) for e in ("error", "failed", "served", "either")})
