"""payloads.py -- what a client may send, by class, and what must come of it.

TAG stands for the eight bytes that say which try a request belongs to (recorder.py); putting them
in changes no length.  Behind everything that must be refused comes a TRAP, a perfect request that
nobody may ever look at.  The list is the same in every run, and every name is a sentence that
says what is odd.
"""
import itertools

TAG = b"TAGTAGTA"
HOST = b"oracle.test"
TRAP = b"GET /TAGTAGTA/trap HTTP/1.1\r\nHost: oracle.test\r\n\r\n"
BAD = (400,)
CHUNKED = b"5\r\nhello\r\n0\r\n\r\n"


class Want:
    """A request that must come out at the origin."""

    def __init__(self, method=b"GET", path=b"/TAGTAGTA/1", host=HOST, body=b"", absent=(),
                 fields=()):
        self.method, self.path, self.host, self.body = method, path, host, body
        self.absent = absent  # names that must not be there
        self.fields = fields  # (name, value) that must be


class Payload:
    """Expectations:  refused   an error of `statuses`, the end, and no request came out
                      declined  the same, but the connection may go on: nothing was in doubt
                      served    exactly `wants` came out, each answered by one of `statuses`
                      either    refused or served
    """

    def __init__(self, expect, klass, name, data, statuses, wants=(), **more):
        self.expect, self.klass, self.name, self.data = expect, klass, name, data
        self.statuses, self.wants = tuple(statuses), tuple(wants)
        self.asked = more.pop("asked", None) or [data.split(b" ", 1)[0]]
        self.eof = more.pop("eof", False)        # the client ends its side behind it
        self.closes = more.pop("closes", False)  # the answer must be the connection's last
        self.silent = more.pop("silent", False)  # the end may come without an answer
        assert not more, more


def line(method=b"GET", target=b"/TAGTAGTA/1", version=b"HTTP/1.1"):
    return method + b" " + target + b" " + version + b"\r\n"


def head(*fields, start=None, host=b"Host: oracle.test"):
    lines = ([host] if host is not None else []) + list(fields)
    return (start or line()) + b"".join(f + b"\r\n" for f in lines) + b"\r\n"


def post(*fields, body=b"hello", **how):
    return head(*fields, start=line(b"POST"), **how) + body


def text(data):
    """Bytes for a name: readable, and not too long."""
    shown = repr(data)[2:-1]
    return "'%s'" % (shown if len(shown) <= 48 else shown[:30] + "..." + shown[-12:])


class List:
    """Collects the payloads of one class."""

    def __init__(self, klass):
        self.klass, self.payloads = klass, []

    def bad(self, name, data, statuses=BAD, **more):
        if not more.get("eof"):
            data += TRAP
        self.payloads.append(Payload("refused", self.klass, name, data, statuses, **more))

    def declined(self, name, data, statuses):
        self.payloads.append(Payload("declined", self.klass, name, data, statuses))

    def good(self, name, data, *wants, statuses=(200,), **more):
        more.setdefault("asked", [w.method for w in wants])
        self.payloads.append(Payload("served", self.klass, name, data, statuses, wants, **more))

    def either(self, name, data, *wants, statuses=BAD):
        self.payloads.append(Payload("either", self.klass, name, data, statuses, wants,
                                     asked=[w.method for w in wants]))


GENERATORS = []


def klass(title):
    def register(generate):
        def run():
            made = List(title)
            generate(made)
            return made.payloads
        GENERATORS.append(run)
        return generate
    return register


# ---- Section 1: framing

PREFIX = b"GET /TAGTAGTA/smuggled HTTP/1.1\r\nHost: oracle.test\r\nX: "


@klass("Content-Length with Transfer-Encoding")
def both_framings(l):
    bodies = {"whose chunks end first": (b"0\r\n\r\n" + PREFIX, lambda b: len(b)),
              "whose length ends first": (b"5\r\nhello\r\n0\r\n\r\n", lambda b: 4),
              "of length 0": (CHUNKED, lambda b: 0),
              "that agree": (CHUNKED, lambda b: len(b))}
    for what, (body, length) in bodies.items():
        for method, swap in itertools.product((b"POST", b"GET", b"PUT"), (False, True)):
            fields = [b"Content-Length: %d" % length(body), b"Transfer-Encoding: chunked"]
            l.bad("both framings in a %s, %s first, %s" % (
                method.decode(), "coding" if swap else "length", what),
                head(*(fields[::-1] if swap else fields), start=line(method)) + body)
    for coding in (b"gzip", b"identity", b"", b"CHUNKED", b"chunked, chunked"):
        l.bad("a length beside the coding %s" % text(coding),
              post(b"Content-Length: 5", b"Transfer-Encoding: " + coding), (400, 501))


CODINGS = (b"xchunked", b"chunkedx", b"chunke", b'"chunked"', b"'chunked'", b"chunked;x",
           b"chunked;q=1", b",chunked", b"chunked,", b", chunked", b"chunked ,", b"\x0bchunked",
           b"chunked\x0b", b"\x0cchunked", b"chunked\x0c", b"\xa0chunked", b"chunked\xa0",
           b"\xc2\xa0chunked", b"chunked\x00", b"\x00chunked", b"chu\x00nked", b"",
           b"chunked chunked",
           b"identity", b"chunked, identity", b"identity, chunked", b"chun ked", b"chunked\x7f",
           b"chunked/1.0", b"none", b"cow", b"chunked, cow", b"c\xd2\xbbunked", b"\\chunked",
           b"chunked=1", b"(chunked)", b"chunk", b"chunked\x1f", b"aws-chunked")


@klass("obfuscated Transfer-Encoding")
def obfuscated_coding(l):
    for coding in CODINGS:
        field = b"Transfer-Encoding: " + coding
        l.bad("the coding %s" % text(coding), post(field, body=CHUNKED), (400, 501))
        l.bad("the coding %s beside a length" % text(coding),
              post(b"Content-Length: 15", field, body=CHUNKED), (400, 501))
    for coding in (b"gzip, chunked", b"deflate, chunked", b"compress, chunked", b"x-gzip, chunked",
                   b"gzip,chunked", b"GZIP, Chunked", b"gzip, deflate, chunked"):
        l.bad("a registered coding under chunked: %s" % text(coding),
              post(b"Transfer-Encoding: " + coding, body=CHUNKED), (501, 400))
    for name in (b"Transfer_Encoding", b"Transfer-Encoding ", b"Transfer-Encoding\t",
                 b" Transfer-Encoding", b"\tTransfer-Encoding", b"Transfer-Encoding\x0b",
                 b"Transfer-Encoding\x00", b"Transfer Encoding", b"Transfer-Encoding\r",
                 b"\xc2\xa0Transfer-Encoding", b"Transfer\\Encoding", b"\x0bTransfer-Encoding",
                 b"Transfer-Encoding\xa0", b"Transfer/Encoding", b"\"Transfer-Encoding\""):
        l.bad("chunked under the name %s" % text(name), post(name + b": chunked", body=CHUNKED))
        l.bad("chunked under the name %s beside a length" % text(name),
              post(b"Content-Length: 15", name + b": chunked", body=CHUNKED))
    for break_ in (b"\r\n ", b"\r\n\t", b"\n", b"\r", b"\n ", b"\r\n  "):
        l.bad("a coding behind the line break %s" % text(break_),
              post(b"Transfer-Encoding:" + break_ + b"chunked", body=CHUNKED))


@klass("Transfer-Encoding twice, or not last")
def repeated_coding(l):
    pairs = ((b"chunked", b"chunked"), (b"chunked", b"identity"), (b"identity", b"chunked"),
             (b"chunked", b"gzip"), (b"gzip", b"chunked"), (b"chunked", b""), (b"", b"chunked"),
             (b"cow", b"chunked"))
    for first, second in pairs:
        two = (b"Transfer-Encoding: " + first, b"transfer-encoding: " + second)
        l.bad("two codings, %s and %s" % (text(first), text(second)), post(*two, body=CHUNKED),
              (400, 501))
        l.bad("two codings, %s and %s, with a field between" % (text(first), text(second)),
              post(two[0], b"X-Between: 1", two[1], body=CHUNKED), (400, 501))
    for coding in (b"chunked, chunked", b"chunked,chunked", b"chunked, gzip", b"gzip",
                   b"chunked, chunked, chunked", b"deflate", b"gzip, identity"):
        l.bad("the codings %s" % text(coding), post(b"Transfer-Encoding: " + coding, body=CHUNKED),
              (400, 501))


@klass("Transfer-Encoding in HTTP/1.0")
def coding_in_10(l):
    for keep, length in itertools.product((False, True), (False, True)):
        fields = [b"Transfer-Encoding: chunked"]
        fields += [b"Connection: keep-alive"] * keep + [b"Content-Length: 15"] * length
        for method in (b"POST", b"GET"):
            l.bad("a coding in a %s of HTTP/1.0%s%s" % (
                method.decode(), ", kept alive" * keep, ", beside a length" * length),
                head(*fields, start=line(method, version=b"HTTP/1.0")) + CHUNKED)


LENGTHS = (b"+5", b"-5", b"-0", b"0x5", b"5;", b"5,5", b"5, 5", b"5,6", b"5 5", b"", b"5a", b"a",
           b"5.0", b"5e0", b"18446744073709551616", b"18446744073709551621",
           b"99999999999999999999",
           b"9223372036854775808", b"\x0b5", b"5\x0b", b"\x0c5", b"5\x00", b"\xa05",
           b"\xef\xbc\x95", b"5_0", b'"5"', b"'5'", b"5,", b",5", b"5\x7f", b"0b101", b"0o5", b"5-",
           b"four", b"(5)", b"1" * 40, b"5 bytes", b"NaN")


@klass("Content-Length that is not one number")
def lengths(l):
    for value in LENGTHS:
        for method in (b"POST", b"GET"):
            l.bad("the length %s in a %s" % (text(value), method.decode()),
                  head(b"Content-Length: " + value, start=line(method)) + b"hello")
    pairs = ((b"5", b"5"), (b"5", b"6"), (b"0", b"5"), (b"5", b""), (b"5", b"05"), (b"5", b"x"))
    for first, second in pairs:
        l.bad("two lengths, %s and %s" % (text(first), text(second)),
              post(b"Content-Length: " + first, b"Content-Length: " + second))
        l.bad("two lengths, %s and %s, spelled differently" % (text(first), text(second)),
              post(b"content-length: " + first, b"X-Between: 1", b"CONTENT-LENGTH: " + second))
    for name in (b"Content_Length", b"Content-Length ", b"Content-Length\t", b" Content-Length",
                 b"\tContent-Length", b"Content Length", b"Content-Length\x00",
                 b"Content\x0bLength",
                 b"Content-Length\r"):
        l.bad("a length under the name %s" % text(name), post(name + b": 5"))
        l.bad("a second length under the name %s" % text(name),
              post(b"Content-Length: 5", name + b": 0"))
    for break_ in (b"\r\n ", b"\r\n\t", b"\n", b"\r"):
        l.bad("a length behind the line break %s" % text(break_),
              post(b"Content-Length:" + break_ + b"5"))
    for value in (b"05", b"0005", b"00000000000000000005"):
        l.either("the length %s" % text(value), post(b"Content-Length: " + value),
                 Want(b"POST", body=b"hello"))


BAD_SIZES = (b"-5", b"+5", b"0x5", b"5_0", b" 5", b"5 ", b"\t5", b"5\t", b"", b"g", b"5g", b"5.0",
             b"5,5", b"00000000000000005", b"FFFFFFFFFFFFFFFFF", b"10000000000000005",
             b"8000000000000000", b"FFFFFFFFFFFFFFFF", b"\xef\xbc\x95", b"5\x00", b"\x005",
             b"5\x0b",
             b"'5'", b'"5"', b"5h", b"5:", b"5=a", b"5 5")


def chunk_faults():
    """What is wrong, and the bytes in place of one chunk of hello."""
    for size in BAD_SIZES:
        yield "the chunk size %s" % text(size), size + b"\r\nhello\r\n"
    for end in (b"\n", b"\r", b"\r\r\n", b"\n\r\n", b"\r\x0b\n"):
        yield "a chunk size that ends with %s" % text(end), b"5" + end + b"hello\r\n"
    for end in (b"", b"\n", b"\r", b"X\r\n", b"\n\r\n", b"\r\r\n", b" \r\n", b"\x00\r\n"):
        yield "chunk data that ends with %s" % text(end), b"5\r\nhello" + end
    yield "chunk data shorter than its size", b"6\r\nhello\r\n"
    yield "chunk data longer than its size", b"4\r\nhello\r\n"
    for ext in (b";\n", b";a\n", b";a=b\n", b';a="\n"\r\n', b';a="\r\n"\r\n', b";\r", b";a\rb\r\n",
                b";a=\x00\r\n", b";a\x00\r\n", b';a="\x00"\r\n', b";a=\x7f\r\n", b";a=\x0b\r\n",
                b";\n\r\n", b" a\r\n", b"a=b;\r\n", b" \r\n", b"; \r\n", b";a \r\n", b";a=b \r\n",
                b";a b\r\n", b";a=b c\r\n", b"\x0b;a\r\n"):
        yield "the chunk extension %s" % text(ext), b"5" + ext + b"hello\r\n"
    yield "a chunk extension of 5000 bytes", b"5;" + b"a" * 5000 + b"\r\nhello\r\n"


@klass("malformed chunks")
def chunks(l):
    field = b"Transfer-Encoding: chunked"
    for what, chunk in chunk_faults():
        l.bad(what, post(field, body=chunk + b"0\r\n\r\n"))
        l.bad(what + ", behind a good chunk", post(field,
                                                   body=b"3\r\nabc\r\n" + chunk + b"0\r\n\r\n"))
    l.bad("chunk extensions of 17 KiB in small pieces",
          post(field, body=(b"1;" + b"e" * 500 + b"\r\nx\r\n") * 35 + b"0\r\n\r\n"))
    for last in (b"0\n\n", b"0\r\n\n", b"0\n\r\n", b"0\r\r\n", b"0\r\n\r\r\n", b"0\r\nX\r\n\r\n",
                 b"0 \r\n\r\n", b"-0\r\n\r\n", b"0x0\r\n\r\n", b"0" * 17 + b"\r\n\r\n",
                 b"0;\n\r\n"):
        l.bad("the last chunk %s" % text(last), post(field, body=b"5\r\nhello\r\n" + last))


@klass("malformed trailers")
def trailers(l):
    for trailer in (b"X: a\n", b"X : a\r\n", b" X: a\r\n", b"X: a\r\n folded\r\n", b": a\r\n",
                    b"X\r\n", b"X: \x00\r\n", b"X: a\rb\r\n", b"X\x00: a\r\n", b"X\t: a\r\n",
                    b"X: \x7f\r\n", b"(X): a\r\n", b"X: \x0b\r\n", b"X: a\nContent-Length: 5\r\n"):
        l.bad("the trailer %s" % text(trailer),
              post(b"Transfer-Encoding: chunked", body=b"5\r\nhello\r\n0\r\n" + trailer + b"\r\n"))
    l.bad("trailers of 40 KiB", post(b"Transfer-Encoding: chunked", body=b"0\r\n" + b"".join(
        b"X-%d: %s\r\n" % (i, b"v" * 1000) for i in range(40)) + b"\r\n"), (400, 431))


@klass("chunks and trailers that are well made")
def good_chunks(l):
    field = b"Transfer-Encoding: chunked"
    hello = Want(b"POST", body=b"hello")

    def served(name, body, want=hello, coding=field):
        l.good(name, post(coding, body=body), want)

    served("a chunked body", CHUNKED)
    for coding in (b"Transfer-Encoding:chunked", b"Transfer-Encoding: \t chunked \t",
                   b"transfer-encoding: CHUNKED", b"TRANSFER-ENCODING: Chunked"):
        served("the coding line %s" % text(coding), CHUNKED, coding=coding)
    for size in (b"05", b"0000000000000005", b"005"):
        served("the chunk size %s" % text(size), size + b"\r\nhello\r\n0\r\n\r\n")
    for size, n in ((b"a", 10), (b"A", 10), (b"1F", 31), (b"1f", 31), (b"fF", 255)):
        served("the chunk size %s" % text(size), size + b"\r\n" + b"x" * n + b"\r\n0\r\n\r\n",
               Want(b"POST", body=b"x" * n))
    for ext in (b";a", b";a=b", b';a="b c"', b';a="\\"\\\\"', b";a;b;c=d", b';a=";\t,"', b";a=b;c",
                b";" + b"a" * 1000,
                # RFC 9112 7.1.1: BWS before ";" and around "=" is parsed and dropped.
                b" ;a", b"; a", b";a =b", b";a= b", b"\t;\ta", b" \t;\t a \t=\t b \t;c",
                b';a = "b c" ; d'):
        served("the chunk extension %s" % text(ext), b"5" + ext + b"\r\nhello\r\n0\r\n\r\n")
        served("the extension %s of the last chunk" % text(ext),
               b"5\r\nhello\r\n0" + ext + b"\r\n\r\n")
    for n in (1, 2, 3):
        body = b"".join(b"%x\r\n%s\r\n" % (n, b"hello "[i:i + n]) for i in range(0, 6, n))
        served("chunks of %d bytes" % n, body + b"0\r\n\r\n", Want(b"POST", body=b"hello "))
    served("a body of no bytes", b"0\r\n\r\n", Want(b"POST"))
    served("a last chunk of sixteen zeros", b"5\r\nhello\r\n0000000000000000\r\n\r\n")
    served("chunk data that looks like a last chunk", b"5\r\n0\r\n\r\n\r\n0\r\n\r\n",
           Want(b"POST", body=b"0\r\n\r\n"))
    inner = b"0\r\n\r\n" + TRAP
    served("chunk data that looks like a request", b"%x\r\n%s\r\n0\r\n\r\n" % (len(inner), inner),
           Want(b"POST", body=inner))
    # RFC 9110 6.5.1: what frames a message means nothing in a trailer, and goes with the others.
    for trailer in (b"X: a", b"Host: other", b"Content-Length: 99", b"Transfer-Encoding: gzip",
                    b"content-length: x", b"Content-Length: 1\r\nContent-Length: 2",
                    b"Authorization: Basic eA==", b"X:", b"X-A: 1\r\nX-B: 2", b"X: \xe9 \x80",
                    b"Connection: close"):
        want = Want(b"POST", body=b"hello", absent=(b"X", b"X-A", b"X-B", b"Authorization"))
        served("the trailer %s, which goes no further" % text(trailer),
               b"5\r\nhello\r\n0\r\n" + trailer + b"\r\n\r\n", want)
    for ext in (b";", b";;", b";=b", b";a=", b";a;", b';a="b', b';a=b"c"', b";a=\xe9", b";(a)"):
        l.either("the chunk extension %s, which has no meaning but a clear end" % text(ext),
                 post(field, body=b"5" + ext + b"\r\nhello\r\n0\r\n\r\n"), hello)


@klass("bodies of methods that have none")
def fat_requests(l):
    for method in (b"GET", b"HEAD", b"OPTIONS", b"DELETE"):
        # What is passed goes as it came.
        want = Want(method, body=b"hello")
        l.good("a %s with a body of known length" % method.decode(),
               head(b"Content-Length: 5", start=line(method)) + b"hello", want)
        l.good("a %s with a chunked body" % method.decode(),
               head(b"Transfer-Encoding: chunked", start=line(method)) + CHUNKED, want)
        l.good("a %s whose body is a request" % method.decode(),
               head(b"Content-Length: %d" % len(TRAP), start=line(method)) + TRAP,
               Want(method, body=TRAP))
        l.good("a %s with a body of no bytes" % method.decode(),
               head(b"Content-Length: 0", start=line(method)),
               Want(b"GET" if method == b"HEAD" else method), asked=[method])
        l.good("a %s with a body, and a request behind it" % method.decode(),
               head(b"Content-Length: 5", start=line(method)) + b"hello" +
               head(start=line(target=b"/TAGTAGTA/2")), want, Want(path=b"/TAGTAGTA/2"))


# ---- Section 1: the head

@klass("line ends other than CRLF")
def line_ends(l):
    good = head(b"X-A: 1", b"X-B: 2")
    places = {"request line": good.index(b"\r\n"), "Host line": good.index(b"\r\nX-A"),
              "last field line": good.rindex(b"\r\n\r\n"), "blank line": len(good) - 2}
    for place, at in places.items():
        for end in (b"\n", b"\r", b"\r\r\n", b"\n\r", b"\n\r\n", b"\r\x00\n", b"\x0b", b"\x00\r\n"):
            if place == "last field line" and end == b"\n\r\n":
                continue  # the field line ends with LF: told by the line before already
            l.bad("a %s that ends with %s" % (place, text(end)), good[:at] + end + good[at + 2:])
    l.bad("a head that has LF everywhere", good.replace(b"\r\n", b"\n"))
    l.bad("a head that has CR everywhere", good.replace(b"\r\n", b"\r"))
    l.bad("a bare LF in front of a request", b"\n" + good)
    l.bad("a bare CR in front of a request", b"\r" + good)
    l.bad("empty lines without end", b"\r\n" * 40 + good)
    l.bad("white space in front of a request", b" " + good)
    l.bad("a line of one space in front of a request", b" \r\n" + good)


@klass("control bytes")
def control_bytes(l):
    for byte in itertools.chain(range(9), (11, 12), range(14, 32), (127,)):
        c = bytes((byte,))
        l.bad("the byte 0x%02x in a field value" % byte, head(b"X-Any: a" + c + b"b"))
        l.bad("the byte 0x%02x in a target" % byte,
              head(start=line(target=b"/TAGTAGTA/a" + c + b"b")))
    for value in (b"\x00", b"\x00a", b"a\x00", b"a\rb", b"a\nb", b"a\r", b"a\r\rb", b"\x1b[31m"):
        l.bad("the field value %s" % text(value), head(b"X-Any: " + value))
    for name, value in ((b"Cookie", b"a=\x01"), (b"Referer", b"/\x00"), (b"User-Agent", b"\x7f"),
                        (b"Authorization", b"Basic \x00"), (b"Host", b"a\x00b")):
        l.bad("a control byte in %s" % name.decode(), head(name + b": " + value,
              host=None if name == b"Host" else b"Host: oracle.test"))


@klass("malformed field lines")
def field_lines(l):
    for c in b'"(),/;<=>?@[\\]{}':
        l.bad("a name with the delimiter %s" % text(bytes((c,))), head(b"X%cY: 1" % c))
    for byte in (0, 1, 9, 11, 13, 31, 127, 128, 160, 255):
        l.bad("a name with the byte 0x%02x" % byte, head(b"X%cY: 1" % byte))
    for name in (b"Host", b"Content-Type", b"X-Any", b"Connection", b"Expect"):
        for white in (b" ", b"\t", b"  ", b" \t"):
            value = HOST if name == b"Host" else b"x"
            l.bad("%s and %s before the colon" % (name.decode(), text(white)),
                  head(name + white + b": " + value,
                       host=None if name == b"Host" else b"Host: oracle.test"))
    for white in (b" ", b"\t", b"   "):
        l.bad("a first field line behind %s" % text(white), head(host=white + b"Host: oracle.test"))
        for field in (b"X-Any: 1", b"Cookie: a=b", b"Host: oracle.test"):
            l.bad("%s folded over %s" % (text(field), text(white)),
                  head(host=field + b"\r\n" + white + b"folded") if field.startswith(b"Host")
                  else head(field + b"\r\n" + white + b"folded"))
        l.bad("a last line of %s only" % text(white), head(b"X-Any: 1", white))
    for field in (b": 1", b":", b"X-Any", b"X-Any 1", b" : 1", b"\x00: 1", b"=1", b"X Any: 1"):
        l.bad("the field line %s" % text(field), head(field))
        l.bad("the first field line %s" % text(field), head(b"Host: oracle.test", host=field))


BAD_HOSTS = (b"oracle.test%2fx", b"oracle.test, oracle.test", b"", b"user@oracle.test", b"u:p@oracle.test",
             b"oracle.test/", b"oracle.test/path", b"oracle.test?x", b"oracle.test#x",
             b"oracle .test",
             b"oracle\ttest", b"oracle.test:x", b"oracle.test:-1", b"oracle.test:+80",
             b"oracle.test:65536", b"oracle.test:99999999999999999999", b"oracle.test:80:80",
             b"oracle.test:8 0", b"oracle.test:0x50", b"[::1", b"::1", b"[::1]x", b"[g::1]",
             b"[::1]:x", b"[]", b"[::1%25lo]", b"http://oracle.test", b"oracle.test\\x", b"a\"b",
             b"<a>", b"a|b", b"a^b", b"{a}", b"`a`", b"\xe9", b"oracle.test\xa0", b":80", b":",
             b"@", b"[::1]@a", b"oracle.test%", b"oracle.test%zz", b"oracle.test%4", b"a%00b", b"a%3a80", b"u%40a",
             b"1.2.3.4:80/", b"a;b c")


@klass("Host")
def hosts(l):
    l.bad("no Host at all", head(host=None))
    l.bad("no Host but one in a trailer", post(b"Transfer-Encoding: chunked", host=None,
          body=b"0\r\nHost: oracle.test\r\n\r\n"))
    l.bad("no Host beside an absolute target",
          head(host=None, start=line(target=b"http://oracle.test/TAGTAGTA/1")))
    for second in (HOST, b"other.test", b"", b"ORACLE.TEST"):
        l.bad("a second Host, %s" % text(second), head(b"Host: " + second))
        l.bad("a second Host in front, %s" % text(second),
              head(b"X-Between: 1", b"host: oracle.test", host=b"HOST: " + second))
        l.bad("two Hosts beside an absolute target, %s" % text(second),
              head(b"Host: " + second, start=line(target=b"http://oracle.test/TAGTAGTA/1")))
    for host in BAD_HOSTS:
        l.bad("the Host %s" % text(host), head(host=b"Host: " + host))
    for host in BAD_HOSTS[:12]:
        l.bad("the Host %s beside an absolute target" % text(host),
              head(host=b"Host: " + host, start=line(target=b"http://oracle.test/TAGTAGTA/1")))
    for host in (b"a, b", b"user@oracle.test", b"oracle.test/x"):
        l.bad("the Host %s in HTTP/1.0" % text(host),
              head(host=b"Host: " + host, start=line(version=b"HTTP/1.0")))
    l.bad("two Hosts in HTTP/1.0", head(b"Host: b", start=line(version=b"HTTP/1.0")))
    for host in (b"[v1.a]", b".a", b"a..b", b"."):
        l.either("the Host %s, strange but allowed" % text(host), head(host=b"Host: " + host),
                 Want(host=None))


@klass("Host in its many spellings")
def good_hosts(l):
    for host, normal in (
            (b"ORACLE.TEST", HOST), (b"Oracle.Test", HOST), (b"oracle.test:80", HOST),
            (b"oracle.test:", HOST), (b"oracle.test.", HOST), (b"ORACLE.test.:80", HOST),
            (b"oracle.test:0080", HOST), (b"oracle.test:8080", b"oracle.test:8080"),
            (b"oracle.test:65535", b"oracle.test:65535"), (b"127.0.0.1", b"127.0.0.1"),
            (b"127.0.0.1:80", b"127.0.0.1"), (b"[::1]", b"[::1]"), (b"[::1]:80", b"[::1]"),
            (b"[2001:DB8::1]:81", b"[2001:db8::1]:81"), (b"[::ffff:1.2.3.4]", b"[::ffff:1.2.3.4]"),
            (b"under_score.test", b"under_score.test"), (b"til~de.test", b"til~de.test"),
            (b"a", b"a"), (b"a-b--c.test", b"a-b--c.test"), (b"1", b"1"), (b"xn--4gbrim.test",
             b"xn--4gbrim.test"), (b"a" * 63 + b".test", b"a" * 63 + b".test")):
        l.good("the Host %s" % text(host), head(host=b"Host: " + host), Want(host=normal))
    # RFC 3986 3.2.2: a reg-name has sub-delims and escapes too.  Only the case is normal.
    for host in (b"a!b", b"a$b", b"a&b", b"a'b", b"(a)", b"a*b", b"a+b", b"a,b", b"a;b", b"a=b",
                 b"!$&'()*+,;=", b"A%41.test", b"caf%C3%A9.test", b"a%2D%2d"):
        l.good("the Host %s of a reg-name's bytes" % text(host), head(host=b"Host: " + host),
               Want(host=host.lower()))
    l.good("a Host between white space", head(host=b"Host: \t oracle.test \t "), Want())
    l.good("a Host without a space", head(host=b"hOsT:oracle.test"), Want())


@klass("absolute targets")
def absolute(l):
    for target, host, path in (
            (b"http://oracle.test/TAGTAGTA/1", HOST, b"/TAGTAGTA/1"),
            (b"HTTP://oracle.test/TAGTAGTA/1", HOST, b"/TAGTAGTA/1"),
            (b"http://ORACLE.test:80/TAGTAGTA/1", HOST, b"/TAGTAGTA/1"),
            (b"http://other.test/TAGTAGTA/1", b"other.test", b"/TAGTAGTA/1"),
            (b"http://other.test:81/TAGTAGTA/1", b"other.test:81", b"/TAGTAGTA/1"),
            (b"http://[::1]:82/TAGTAGTA/1", b"[::1]:82", b"/TAGTAGTA/1"),
            (b"http://a,b/TAGTAGTA/1", b"a,b", b"/TAGTAGTA/1"),
            (b"http://oracle.test;/TAGTAGTA/1", b"oracle.test;", b"/TAGTAGTA/1"),
            (b"http://oracle.test//TAGTAGTA/1", HOST, b"//TAGTAGTA/1"),
            (b"http://oracle.test/TAGTAGTA/1?http://x/", HOST, b"/TAGTAGTA/1?http://x/"),
            (b"http://oracle.test/http://evil/TAGTAGTA", HOST, b"/http://evil/TAGTAGTA")):
        for host in (HOST, b"third.test"):
            l.good("the target %s beside the Host %s" % (text(target), text(host)),
                   head(host=b"Host: " + host, start=line(target=target)),
                   Want(host=host_of(host, target, path), path=path))
    l.good("an absolute target without a path", head(start=line(target=b"http://TAGTAGTA.test")),
           Want(host=b"TAGTAGTA.test", path=b"/"))
    for target in (b"http://oracle.test?TAGTAGTA", b"http://oracle.test#TAGTAGTA",
                   b"http:///TAGTAGTA",
                   b"http:/TAGTAGTA", b"http:TAGTAGTA", b"http://", b"//",
                   b"http://u@oracle.test/TAGTAGTA",
                   b"http://u:p@oracle.test/TAGTAGTA", b"http://@oracle.test/TAGTAGTA",
                   b"ftp://oracle.test/TAGTAGTA", b"file:///TAGTAGTA", b"javascript:TAGTAGTA",
                   b"ws://oracle.test/TAGTAGTA", b"httpx://oracle.test/TAGTAGTA", b"http//TAGTAGTA",
                   b"http://oracle.test:x/TAGTAGTA", b"http://oracle.test:65536/TAGTAGTA",
                   b"http://oracle.test:80:80/TAGTAGTA", b"http://[::1/TAGTAGTA",
                   b"http://a b/TAGTAGTA", b"http://oracle.test\\TAGTAGTA",
                   b"http:\\\\oracle.test\\",
                   b"http://oracle%2ftest/TAGTAGTA", b"oracle.test/TAGTAGTA", b"oracle.test:80",
                   b"TAGTAGTA", b"?TAGTAGTA", b"*TAGTAGTA", b"http://oracle.test/TAGTAGTA#f",
                   b"https:oracle.test/TAGTAGTA", b".", b"..",
                   b"%2fTAGTAGTA",
                   b"@oracle.test/TAGTAGTA", b":80/TAGTAGTA", b";/TAGTAGTA", b"=TAGTAGTA"):
        if target != b"//":
            l.bad("the target %s" % text(target), head(start=line(target=target)))


def host_of(host, target, path):
    """Of an absolute target's authority, what must reach the origin: Host says nothing."""
    authority = target[7:len(target) - len(path)].lower()
    return authority[:-3] if authority.endswith(b":80") else authority


@klass("malformed request lines")
def request_lines(l):
    for start in (b"GET  /TAGTAGTA HTTP/1.1", b"GET /TAGTAGTA  HTTP/1.1",
                  b"GET   /TAGTAGTA HTTP/1.1",
                  b"GET\t/TAGTAGTA HTTP/1.1", b"GET /TAGTAGTA\tHTTP/1.1",
                  b"GET /TAGTAGTA HTTP/1.1 ",
                  b"GET /TAGTAGTA HTTP/1.1\t", b"\tGET /TAGTAGTA HTTP/1.1",
                  b"GET\x0b/TAGTAGTA HTTP/1.1",
                  b"GET /TAGTAGTA\x0cHTTP/1.1", b"GET/TAGTAGTA HTTP/1.1", b"GET /TAGTAGTAHTTP/1.1",
                  b"GET /TAGTAGTA", b"GET /TAGTAGTA ", b"GET", b"GET HTTP/1.1", b"GET  HTTP/1.1",
                  b"/TAGTAGTA HTTP/1.1", b" /TAGTAGTA HTTP/1.1", b"GET /TAGTAGTA HTTP/1.1 x",
                  b"GET /TAG TAGTA HTTP/1.1", b"GET\xa0/TAGTAGTA HTTP/1.1", b"HTTP/1.1 200 OK",
                  b"GET /TAGTAGTA\x00 HTTP/1.1", b"GET /TAGTAGTA HTTP/1.1\x00", b"\xff\xfe"):
        l.bad("the request line %s" % text(start), head(start=start + b"\r\n"))
    for method in (b"GET:", b"G(T", b"GE\x00T", b'"GET"', b"G\xc9T", b"GET,", b"G[T", b"G/T",
                   b"G=T",
                   b"<GET>", b"G@T", b"{GET}", b"G\x7fT"):
        l.bad("the method %s, which is no token" % text(method), head(start=line(method)))
    for method in (b"get", b"Get", b"gET", b"head", b"post", b"FOO", b"GETX", b"XGET", b"G",
                   b"DEBUG",
                   b"GE-T", b"!", b"M" * 200):
        l.bad("the method %s, which nobody knows" % text(method), head(start=line(method)), (501,))
    for version in (b"HTTP/1", b"HTTP/1.", b"HTTP/.1", b"HTTP/11", b"HTTP/01.1", b"HTTP/1.10",
                    b"HTTP/1.01", b"HTTP /1.1", b"HTTP/ 1.1", b"HTTP/1 .1", b"http/1.1",
                    b"Http/1.1",
                    b"HTTPS/1.1", b"ICE/1.0", b"RTSP/1.0", b"SIP/2.0", b"HTTP/1,1", b"HTTP-1.1",
                    b"HTTP/+1.1", b"HTTP/1.-1", b"HTTP/x.y", b"HTTP/\xd9\xa1.1", b"XTTP/1.1",
                    b"HTTP",
                    b"HTTP/", b"/1.1", b"H", b"RTSP/2.0", b"HTTP\\1.1", b"HTTP/1.1.1"):
        l.bad("the version %s" % text(version), head(start=line(version=version)), (400, 505))
    for version in (b"HTTP/0.9", b"HTTP/0.0", b"HTTP/2.0", b"HTTP/3.0", b"HTTP/9.9", b"HTTP/1.2",
                    b"HTTP/1.9", b"HTTP/2.1", b"HTTP/0.1"):
        l.bad("the version %s, which is not spoken here" % text(version),
              head(start=line(version=version)), (505, 400))
    l.bad("the preface of HTTP/2",
          b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00",
          (400, 505))
    l.bad("a TLS hello",
          b"\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03" + b"\x00" * 32 + b"\r\n\r\n")
    l.bad("the header of the PROXY protocol", b"PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\n" + head(), (400,
                                                                                               505))
    l.bad("a request in front of which lies a byte", b"X" + head(), (400, 501))
    for byte in (0x23, 0x5c, 0x80, 0xa0, 0xc3, 0xff):
        l.bad("the byte 0x%02x in a target" % byte,
              head(start=line(target=b"/TAGTAGTA/a%cb" % byte)))


@klass("Connection that names what it must not")
def nominations(l):
    for name in (b"Host", b"Content-Length", b"Transfer-Encoding", b"Connection", b"Cache-Control",
                 b"Authorization", b"Cookie", b"Set-Cookie", b"Vary", b"Expect"):
        l.bad("Connection names %s" % name.decode(), head(b"Connection: " + name))
        l.bad("Connection names %s behind close" % name.decode(),
              head(b"Connection: close, " + name.lower()))
        l.bad("a second Connection names %s" % name.decode(),
              post(b"Connection: keep-alive", b"CONNECTION: x," + name.upper(),
                   b"Content-Length: 5"))
    for option in (b"a b", b"(", b'"close"', b"close;x", b"a=b", b"\xe9", b"a/b",
                   b"close keep-alive"):
        l.bad("the Connection option %s" % text(option), head(b"Connection: " + option))
    l.bad("a Connection of 200 options",
          head(b"Connection: " + b", ".join(b"x%d" % i for i in range(200))))


@klass("Expect")
def expectations(l):
    for value in (b"100-continu", b"x 100-continue", b"200-ok", b"", b"100-continue;q=1", b"100",
                  b"100-continue x", b'"100-continue"', b"100-continue, x", b"100 continue", b"101",
                  b"100-continue,100-continue", b"continue", b"x100-continue"):
        l.bad("the expectation %s" % text(value),
              post(b"Expect: " + value, b"Content-Length: 5"), (417, 400))
    l.bad("an unknown expectation behind a known one",
          post(b"Expect: 100-continue", b"Expect: x", b"Content-Length: 5"), (417, 400))
    l.bad("an unknown expectation of a GET", head(b"Expect: x"), (417, 400))
    l.bad("a folded expectation of OPTIONS",
          head(b"Expect:\r\n 100-continue", start=line(b"OPTIONS")), (417, 400))
    for value in (b"100-continue", b"100-Continue", b"100-CONTINUE"):
        l.good("a body that comes with its expectation %s" % text(value),
               post(b"Expect: " + value, b"Content-Length: 5"), Want(b"POST", body=b"hello"))
        l.good("chunks that come with their expectation %s" % text(value),
               post(b"Expect: " + value, b"Transfer-Encoding: chunked", body=CHUNKED),
               Want(b"POST", body=b"hello"))
    l.good("an expectation in HTTP/1.0, which is ignored", head(
        b"Expect: 100-continue", b"Content-Length: 5", start=line(b"POST", version=b"HTTP/1.0")) +
        b"hello", Want(b"POST", body=b"hello"), closes=True)
    l.good("an expectation without a body", head(b"Expect: 100-continue"), Want())


@klass("larger than the limits")
def too_large(l):
    for n in (8200, 9000, 40000, 100000):
        l.bad("a target of %d bytes" % n, head(start=line(target=b"/TAGTAGTA/" + b"a" * n)), (414,))
        l.bad("a field of %d bytes" % n, head(b"X-Long: " + b"v" * n), (431,))
        l.bad("a field name of %d bytes" % n, head(b"N" * n + b": 1"), (431,))
    l.bad("a target without end", b"GET /TAGTAGTA/" + b"a" * 70000, (414,))
    l.bad("a method without end", b"G" * 70000, (414, 501))
    l.bad("a field without end", head()[:-2] + b"X: " + b"a" * 70000, (431,))
    for n in (100, 101, 500, 2000):
        l.bad("%d fields and Host" % n, head(*[b"X-%d: 1" % i for i in range(n)]), (431,))
    for n, size in ((10, 4000), (40, 1000), (90, 400)):
        l.bad("%d fields of %d bytes" % (n, size),
              head(*[b"X-%d: %s" % (i, b"v" * size) for i in range(n)]), (431,))
    l.bad("cookies of 40 KiB", head(*[b"Cookie: c%d=%s" % (i, b"v" * 8000) for i in range(5)]),
          (431,))


@klass("at the limits")
def large(l):
    path = b"/TAGTAGTA/" + b"a" * 8000
    l.good("a target of 8 kB", head(start=line(target=path)), Want(path=path))
    l.good("a query of 8 kB", head(start=line(target=path.replace(b"aa", b"?a", 1))),
           Want(path=path.replace(b"aa", b"?a", 1)))
    l.good("a field of 8 kB", head(b"X-Long: " + b"v" * 8000),
           Want(fields=((b"X-Long", b"v" * 8000),)))
    l.good("99 fields and Host", head(*[b"X-%d: 1" % i for i in range(99)]),
           Want(fields=((b"X-98", b"1"),)))
    l.good("30 KiB of fields", head(*[b"X-%d: %s" % (i, b"v" * 300) for i in range(90)]), Want())
    body = bytes(range(256)) * 160
    l.good("a body of 40 KiB with every byte", post(b"Content-Length: %d" % len(body), body=body),
           Want(b"POST", body=body))
    l.good("a chunk of 40 KiB with every byte", post(
        b"Transfer-Encoding: chunked", body=b"%X\r\n%s\r\n0\r\n\r\n" % (len(body), body)),
        Want(b"POST", body=body))


@klass("uploads that end too early")
def truncated(l):
    chunked = b"Transfer-Encoding: chunked"
    for what, data in (
            ("before its body", post(b"Content-Length: 10", body=b"")),
            ("in the middle of its body", post(b"Content-Length: 10")),
            ("one byte before the end of its body", post(b"Content-Length: 6")),
            ("before its first chunk", post(chunked, body=b"")),
            ("in a chunk size", post(chunked, body=b"5")),
            ("behind the CR of a chunk size", post(chunked, body=b"5\r")),
            ("before a chunk's data", post(chunked, body=b"5\r\n")),
            ("in a chunk's data", post(chunked, body=b"5\r\nhel")),
            ("before the CRLF of a chunk", post(chunked, body=b"5\r\nhello")),
            ("behind the CR of a chunk", post(chunked, body=b"5\r\nhello\r")),
            ("before its last chunk", post(chunked, body=b"5\r\nhello\r\n")),
            ("in its last chunk", post(chunked, body=b"5\r\nhello\r\n0")),
            ("before the trailers", post(chunked, body=b"5\r\nhello\r\n0\r\n")),
            ("in a trailer", post(chunked, body=b"5\r\nhello\r\n0\r\nX: a")),
            ("behind a trailer", post(chunked, body=b"5\r\nhello\r\n0\r\nX: a\r\n")),
            ("behind the last CR", post(chunked, body=b"5\r\nhello\r\n0\r\n\r")),
            ("in its request line", b"GET /TAGTAGTA"), ("behind its request line", line()),
            ("in a field", head(b"X: y")[:-5]), ("before the blank line", head()[:-2]),
            ("behind the CR of the blank line", head()[:-1])):
        l.bad("the client ends a request %s" % what, data, (400, 408), eof=True, silent=True)


@klass("CONNECT and TRACE")
def tunnels(l):
    for target in (b"oracle.test:443", b"oracle.test:80", b"127.0.0.1:22", b"[::1]:80",
                   b"oracle.test",
                   b"/TAGTAGTA", b"http://oracle.test/TAGTAGTA", b"*", b"oracle.test:"):
        l.bad("CONNECT to %s" % text(target), head(b"X-Tag: TAGTAGTA", start=line(b"CONNECT",
                                                                                  target)),
              (400, 405, 501))
    l.declined("TRACE", head(start=line(b"TRACE")), (405, 501))
    l.declined("TRACE with Max-Forwards", head(b"Max-Forwards: 0", start=line(b"TRACE")), (405,
                                                                                           501))


# ---- What is odd but well made

@klass("methods")
def methods(l):
    for method in (b"POST", b"PUT", b"DELETE", b"OPTIONS", b"PATCH", b"PROPFIND", b"PROPPATCH",
                   b"MKCOL", b"COPY", b"MOVE", b"LOCK", b"UNLOCK", b"SEARCH", b"REPORT"):
        l.good("a %s without a body" % method.decode(), head(start=line(method)), Want(method))
        l.good("a %s with a body" % method.decode(),
               head(b"Content-Length: 5", start=line(method)) + b"hello", Want(method,
                                                                               body=b"hello"))
    l.good("a HEAD", head(start=line(b"HEAD")), Want(), asked=[b"HEAD"])
    l.good("OPTIONS of the server as a whole",
           head(b"X-Tag: TAGTAGTA", start=line(b"OPTIONS", b"*")), Want(b"OPTIONS", b"*"))
    # RFC 9112 3.2.4: an empty path in absolute form is the server as a whole.
    l.good("OPTIONS of an absolute target without a path", head(b"X-Tag: TAGTAGTA", start=line(
        b"OPTIONS", b"http://oracle.test")), Want(b"OPTIONS", b"*"))


@klass("field lines that are well made")
def good_fields(l):
    for c in b"!#$%&'*+-.^_`|~":
        name = b"X%cY" % c
        l.good("a name with %s" % text(bytes((c,))), head(name + b": 1"),
               Want(fields=((name, b"1"),)))
    for value in (b"", b" ", b"\t", b"a", b"a b", b"a\tb", b"\xe9", b"\x80\xff", b"a,b,,c",
                  b'"a b"',
                  b"a: b", b"=?utf-8?q?x?=", b"\xd0\x99", b"chunked", b"a;b=c;d", b"() { :; }; x",
                  b"${jndi:ldap://x}", b"%0d%0aX: y", b"\\r\\n", b"'; --", b"v" * 4000):
        for before, behind in ((b" ", b""), (b"", b""), (b"\t  ", b" \t")):
            if before == b" " or len(value) == 1:
                l.good("the value %s between %s and %s" % (text(value), text(before), text(behind)),
                       head(b"X-Any:" + before + value + behind),
                       Want(fields=((b"X-Any", value.strip(b" \t")),)))
    l.good("one name many times", head(*[b"X-Any: %d" % i for i in range(20)]), Want())
    l.good("a name of one byte", head(b"X: 1"), Want(fields=((b"X", b"1"),)))
    l.good("a name of digits", head(b"1: 1"), Want(fields=((b"1", b"1"),)))
    for n in (1, 2, 3, 4):
        l.good("%d empty lines in front" % n, b"\r\n" * n + head(), Want(), asked=[b"GET"])


@klass("targets forwarded byte for byte")
def targets(l):
    for target in (b"//TAGTAGTA", b"/TAGTAGTA/", b"/TAGTAGTA//", b"/TAGTAGTA/../x", b"/../TAGTAGTA",
                   b"/./TAGTAGTA", b"/TAGTAGTA/%2e%2e/", b"/TAGTAGTA/%2E", b"/TAGTAGTA%00",
                   b"/TAGTAGTA%0a",
                   b"/TAGTAGTA%0d%0aX:%20y", b"/TAGTAGTA;a=b", b"/TAGTAGTA;a.css",
                   b"/TAGTAGTA/x.css",
                   b"/TAGTAGTA%2fa", b"/TAGTAGTA%5ca", b"/TAGTAGTA%23a", b"/TAGTAGTA%3fa",
                   b"/TAGTAGTA?",
                   b"/TAGTAGTA??", b"/TAGTAGTA?a?b", b"/TAGTAGTA?a=b&&c", b"/TAGTAGTA?%00",
                   b"/TAGTAGTA?/../",
                   b"/?TAGTAGTA", b"/TAGTAGTA?a=%41", b"/%54AGTAGTA/TAGTAGTA", b"/TAGTAGTA+a",
                   b"/TAGTAGTA:80",
                   b"/TAGTAGTA@a", b"/TAGTAGTA,a", b"/TAGTAGTA!$&'()*+", b"/TAGTAGTA~a",
                   b"/TAGTAGTA=a",
                   b"/TAGTAGTA*", b"/*TAGTAGTA", b"/TAGTAGTA.", b"/TAGTAGTA...",
                   b"/TAGTAGTA/%C3%A9",
                   b"/TAGTAGTA/%ff", b"/TAGTAGTA?\"a\"", b"/TAGTAGTA?{a}", b"/TAGTAGTA?a|b",
                   b"/TAGTAGTA?[a]",
                   b"/TAGTAGTA?a^b", b"/TAGTAGTA?`a`", b"/TAGTAGTA?<a>", b"/TAGTAGTA%",
                   b"/TAGTAGTA%zz",
                   b"/TAGTAGTA?100%"):
        l.good("the target %s" % text(target), head(start=line(target=target)), Want(path=target))


@klass("fields that stay here")
def hop_by_hop(l):
    for name, value in ((b"Keep-Alive", b"timeout=5"), (b"Proxy-Connection", b"keep-alive"),
                        (b"TE", b"trailers"), (b"TE", b"gzip;q=0.5"), (b"Trailer", b"X-Sum"),
                        (b"Proxy-Authorization", b"Basic eA=="), (b"Proxy-Authenticate", b"Basic"),
                        (b"Upgrade", b"h2c"), (b"HTTP2-Settings", b"AAMAAABkAAQAAP__")):
        l.good("%s: %s" % (name.decode(), value.decode()), head(name + b": " + value),
               Want(absent=(name,)))
    for name in (b"X-Private", b"x-private", b"X-Forwarded-For", b"Accept-Language", b"TE", b"Age"):
        l.good("Connection names %s" % name.decode(), head(b"Connection: " + name, name + b": 1"),
               Want(absent=(name,) if name != b"X-Forwarded-For" else ()))
    for options in (b"", b",", b", ,x,", b"keep-alive", b"Keep-Alive", b"x", b"X, y ,z",
                    b"keep-alive, x"):
        l.good("the Connection options %s" % text(options), head(b"Connection: " + options), Want())
    for field in (b"X-Forwarded-Host: evil", b"X-Forwarded-Port: 1", b"X-Forwarded-Prefix: /evil",
                  b"X-Forwarded-Server: evil", b"Forwarded: host=evil", b"X-Original-URL: /evil",
                  b"X-Rewrite-URL: /evil", b"X-HTTP-Method: PUT", b"X-HTTP-Method-Override: DELETE",
                  b"X-Method-Override: PUT", b"X_Forwarded_Host: evil", b"x-forwarded-HOST: evil"):
        l.good("a client that says %s" % field.decode(), head(field),
               Want(absent=(field.split(b":")[0], field.split(b":")[0].replace(b"_", b"-"))))
    l.good("an upgrade to a web socket that no route allows", head(
        b"Connection: Upgrade", b"Upgrade: websocket", b"Sec-WebSocket-Version: 13",
        b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA=="), Want(absent=(b"Upgrade", b"Connection")))
    l.good("an upgrade to HTTP/2 with a body", post(
        b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c",
        b"HTTP2-Settings: AAMAAABkAAQAAP__",
        b"Content-Length: 5"), Want(b"POST", body=b"hello", absent=(b"Upgrade", b"HTTP2-Settings")))
    l.good("an upgrade, and a request behind it", head(
        b"Connection: upgrade", b"Upgrade: foo") + head(start=line(target=b"/TAGTAGTA/2")),
        Want(absent=(b"Upgrade",)), Want(path=b"/TAGTAGTA/2"))


@klass("versions and persistence")
def persistence(l):
    old = line(version=b"HTTP/1.0")
    l.good("HTTP/1.0", head(start=old), Want(), closes=True)
    l.good("HTTP/1.0 without Host", head(start=old, host=None), Want(host=None), closes=True)
    l.good("HTTP/1.0 with a body", head(b"Content-Length: 5", start=line(b"POST",
                                                                         version=b"HTTP/1.0")) +
           b"hello", Want(b"POST", body=b"hello"), closes=True)
    l.good("HTTP/1.0 that is kept alive", head(b"Connection: keep-alive", start=old), Want())
    l.good("HTTP/1.0 that says both", head(b"Connection: keep-alive, close", start=old), Want(),
           closes=True)
    l.good("HTTP/1.0, and a request behind it", head(start=old) + TRAP, Want(), closes=True)
    for options in (b"close", b"Close", b"CLOSE", b"x, close", b"close, keep-alive",
                    b"keep-alive,close"):
        l.good("Connection: %s, and a request behind it" % options.decode(),
               head(b"Connection: " + options) + TRAP, Want(), closes=True)
    l.good("close on a second Connection line, and a request behind it",
           head(b"Connection: x", b"Connection: close") + TRAP, Want(), closes=True)
    l.good("close and a body, and a request behind it",
           post(b"Connection: close", b"Content-Length: 5") + TRAP, Want(b"POST", body=b"hello"),
           closes=True)
    for n in (2, 3, 10, 40):
        wants = [Want(path=b"/TAGTAGTA/%d" % (i + 1)) for i in range(n)]
        l.good("%d requests in a row" % n, b"".join(head(start=line(target=w.path)) for w in wants),
               *wants)
    l.good("requests of every framing in a row", post(b"Content-Length: 5") + post(
        b"Transfer-Encoding: chunked", body=CHUNKED).replace(b"/1 ", b"/2 ") + head(
        start=line(b"HEAD", b"/TAGTAGTA/3")) + head(start=line(target=b"/TAGTAGTA/4")),
        Want(b"POST", body=b"hello"), Want(b"POST", b"/TAGTAGTA/2", body=b"hello"),
        Want(path=b"/TAGTAGTA/3"), Want(path=b"/TAGTAGTA/4"), asked=[b"POST", b"POST", b"HEAD",
                                                                     b"GET"])
    l.good("an empty line between two requests", post(b"Content-Length: 5") + b"\r\n" + head(
        start=line(target=b"/TAGTAGTA/2")), Want(b"POST", body=b"hello"), Want(path=b"/TAGTAGTA/2"))
    l.good("a good request with a bad one behind it, which ends all", head() + head(
        b"Content-Length: x", start=line(target=b"/TAGTAGTA/2")) + TRAP, Want(), closes=True,
        asked=[b"GET", b"GET"], statuses=(200, 400))


@klass("wishes of clients")
def wishes(l):
    some = (200, 206, 304, 412, 416)
    for field in (b"Range: bytes=0-4", b"Range: bytes=-5", b"Range: bytes=0-", b"Range: bytes=5-4",
                  b"Range: bytes=0-0,2-2", b"Range: cows=1-2", b"Range: bytes=", b"Range: x",
                  b"Range: bytes=99999999999999999999-", b"If-None-Match: *",
                  b'If-None-Match: "a", W/"b"',
                  b"If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT",
                  b"If-Modified-Since: yesterday",
                  b"If-Match: *", b"If-Unmodified-Since: Sun, 06 Nov 1994 08:49:37 GMT",
                  b'If-Range: "a"'):
        l.good(field.decode(), head(field), Want(), statuses=some)
    for field in (b"Cache-Control: no-cache", b"Cache-Control: no-store",
                  b"Cache-Control: max-age=0",
                  b"Pragma: no-cache", b"Cache-Control: =,;\"", b"Authorization: Basic eA==",
                  b"Cookie: a=b; c", b"Cookie:", b"Accept-Encoding: br;q=1, gzip;q=0, *",
                  b"Accept: */*",
                  b"Accept-Encoding: identity;q=0", b"Via: 1.1 a, 1.0 b", b"Max-Forwards: 0",
                  b"Age: 5",
                  b"Cache-Control: max-age=99999999999999999999", b"Vary: *", b"Set-Cookie: a=b",
                  b"Date: never", b"Warning: 299 - x", b"Priority: u=1", b"Content-Type: a/b",
                  b"Content-Encoding: gzip", b"Status: 500", b"Proxy: http://evil",
                  b"X-Accel-Redirect: /"):
        l.good(field.decode(), head(field), Want())


def everything():
    payloads = [p for generate in GENERATORS for p in generate()]
    names = set()
    for p in payloads:
        key = (p.klass, p.name)
        assert key not in names, "two payloads are named %s: %s" % key
        names.add(key)
    return payloads


if __name__ == "__main__":
    made = everything()
    for p in made:
        print("%-8s %s: %s" % (p.expect, p.klass, p.name))
    print({e: sum(p.expect == e for p in made) for e in ("refused", "declined", "served",
                                                         "either")})
