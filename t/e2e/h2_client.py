"""h2_client.py -- an HTTP/2 client for tests: every frame can be the test's own, and what comes back is read strictly.

    with Client(socket) as c:                     a socket, or one that TLS has wrapped
        it = c.request("/x", [("accept", "*/*")])
        it.status, it.field("age"), it.body
        many = [c.begin(f"/{i}") for i in range(100)]
        c.finish(*many)
        c.send(frame(PING, b"12345678") * 1000)   anything, valid or not
        c.until(lambda: c.goaway is not None)

RFC 9113 and RFC 7541.  Answers that a server must not give (a frame without its stream, DATA beyond the window,
fields that HTTP/2 does not have, a body of another length than it says) raise Broken.  Needs no library.
"""
import functools
import select
import socket
import ssl
import struct
import time

PATIENCE_S = 60
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
PRIORITY_UPDATE = 16  # RFC 9218 7.1
FRAMES = ("DATA", "HEADERS", "PRIORITY", "RST_STREAM", "SETTINGS", "PUSH_PROMISE", "PING", "GOAWAY", "WINDOW_UPDATE",
          "CONTINUATION")
ACK = END_STREAM = 1
END_HEADERS, PADDED, WITH_PRIORITY = 4, 8, 32
(NO_ERROR, PROTOCOL_ERROR, INTERNAL_ERROR, FLOW_CONTROL_ERROR, SETTINGS_TIMEOUT, STREAM_CLOSED, FRAME_SIZE_ERROR,
 REFUSED_STREAM, CANCEL, COMPRESSION_ERROR, CONNECT_ERROR, ENHANCE_YOUR_CALM, INADEQUATE_SECURITY,
 HTTP_1_1_REQUIRED) = range(14)
ERRORS = ("NO_ERROR", "PROTOCOL_ERROR", "INTERNAL_ERROR", "FLOW_CONTROL_ERROR", "SETTINGS_TIMEOUT", "STREAM_CLOSED",
          "FRAME_SIZE_ERROR", "REFUSED_STREAM", "CANCEL", "COMPRESSION_ERROR", "CONNECT_ERROR", "ENHANCE_YOUR_CALM",
          "INADEQUATE_SECURITY", "HTTP_1_1_REQUIRED")
(HEADER_TABLE_SIZE, ENABLE_PUSH, MAX_CONCURRENT_STREAMS, INITIAL_WINDOW_SIZE, MAX_FRAME_SIZE,
 MAX_HEADER_LIST_SIZE) = range(1, 7)
ENABLE_CONNECT_PROTOCOL, NO_RFC7540_PRIORITIES = 8, 9
WINDOW = 65535  # until SETTINGS and WINDOW_UPDATE say otherwise
FRAME_MAX = 16384
WINDOW_MOST = (1 << 31) - 1
CONNECTION_SPECIFIC = ("connection", "proxy-connection", "keep-alive", "transfer-encoding", "upgrade")


class Broken(AssertionError):
    """The server has said what it must not say."""


def error_name(code):
    return ERRORS[code] if code is not None and code < len(ERRORS) else str(code)


# ---- frames

def frame(kind, payload=b"", flags=0, stream=0, length=None):
    """`length`: what the frame says of its payload, where that is a lie."""
    size = len(payload) if length is None else length
    return struct.pack("!BHBBI", size >> 16, size & 0xffff, kind, flags, stream) + payload


def settings(pairs=(), ack=False):
    return frame(SETTINGS, b"".join(struct.pack("!HI", k, v) for k, v in dict(pairs).items()), ACK if ack else 0)


def reset(stream, code=CANCEL):
    return frame(RST_STREAM, struct.pack("!I", code), 0, stream)


def window(stream, more):
    return frame(WINDOW_UPDATE, struct.pack("!I", more), 0, stream)


def priority(stream, depends_on=0, weight=15, exclusive=False):
    return frame(PRIORITY, struct.pack("!IB", depends_on | exclusive << 31, weight), 0, stream)


def goaway(last=0, code=NO_ERROR, text=b""):
    return frame(GOAWAY, struct.pack("!II", last, code) + text)


def headers(stream, block, end_stream=True, end_headers=True, pad=None, flags=0):
    flags |= (END_STREAM if end_stream else 0) | (END_HEADERS if end_headers else 0)
    return frame(HEADERS, *padded(block, pad, flags), stream)


def data(stream, payload=b"", end_stream=False, pad=None):
    return frame(DATA, *padded(payload, pad, END_STREAM if end_stream else 0), stream)


def padded(payload, pad, flags):
    if pad is None:
        return payload, flags
    return bytes([pad]) + payload + b"\0" * pad, flags | PADDED


def split_block(stream, block, sizes, end_stream=True):
    """HEADERS and CONTINUATIONs: pieces of `sizes`, the last takes the rest."""
    pieces, at = [], 0
    for size in sizes:
        pieces.append(block[at:at + size])
        at += size
    pieces.append(block[at:])
    out = headers(stream, pieces[0], end_stream, len(pieces) == 1)
    for i, piece in enumerate(pieces[1:], 2):
        out += frame(CONTINUATION, piece, END_HEADERS if i == len(pieces) else 0, stream)
    return out


# ---- HPACK (RFC 7541)

STATIC = [tuple(row.partition("=")[::2]) for row in """:authority
:method=GET :method=POST :path=/ :path=/index.html :scheme=http :scheme=https :status=200 :status=204 :status=206
:status=304 :status=400 :status=404 :status=500 accept-charset accept-encoding=gzip,_deflate accept-language
accept-ranges accept access-control-allow-origin age allow authorization cache-control content-disposition
content-encoding content-language content-length content-location content-range content-type cookie date etag expect
expires from host if-match if-modified-since if-none-match if-range if-unmodified-since last-modified link location
max-forwards proxy-authenticate proxy-authorization range referer refresh retry-after server set-cookie
strict-transport-security transfer-encoding user-agent vary via www-authenticate""".replace("_", "\0").split()]
STATIC = [(name, value.replace("\0", " ")) for name, value in STATIC]  # appendix A: 1 to 61

# Appendix B: how many bits each byte's code has.  Codes of the same length follow each other.
LENGTHS = bytes(int(n) for n in """
13 23 28 28 28 28 28 28 28 24 30 28 28 30 28 28 28 28 28 28 28 28 30 28 28 28 28 28 28 28 28 28
6 10 10 12 13 6 8 11 10 10 8 11 8 6 6 6 5 5 5 6 6 6 6 6 6 6 7 8 15 6 12 10
13 6 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 8 7 8 13 19 13 14 6
15 5 6 5 6 5 6 6 6 5 7 7 6 6 6 5 6 7 6 5 5 6 7 7 7 7 7 15 11 14 13 28
20 22 20 20 22 22 22 23 22 23 23 23 23 23 24 23 24 24 22 23 24 23 23 23 23 21 22 23 22 23 23 24
22 21 20 22 22 23 23 21 23 22 22 24 21 22 23 23 21 21 22 21 23 22 23 23 20 22 22 22 23 22 22 23
26 26 20 19 22 23 22 25 26 26 26 27 27 26 24 25 19 21 26 27 27 26 27 24 21 21 26 26 28 27 27 27
20 24 20 21 22 21 21 23 22 22 25 25 24 24 26 23 26 27 26 26 27 27 27 27 27 28 27 27 27 27 27 26 30""".split())


@functools.lru_cache(maxsize=1)
def huffman():
    """(code of each symbol, symbol of each (length, code)); 256 is the end of a string."""
    codes, symbols, code, last = {}, {}, 0, 0
    for length, symbol in sorted((n, s) for s, n in enumerate(LENGTHS)):
        code <<= length - last
        codes[symbol], symbols[length, code] = (code, length), symbol
        code, last = code + 1, length
    return codes, symbols


def huffman_encode(text):
    codes, bits, size = huffman()[0], 0, 0
    for byte in text:
        code, length = codes[byte]
        bits, size = bits << length | code, size + length
    pad = -size % 8
    return (bits << pad | (1 << pad) - 1).to_bytes((size + pad) // 8, "big")


def huffman_decode(coded):
    symbols, out, code, length = huffman()[1], bytearray(), 0, 0
    for byte in coded:
        for bit in range(7, -1, -1):
            code, length = code << 1 | byte >> bit & 1, length + 1
            symbol = symbols.get((length, code))
            if symbol is not None:
                if symbol == 256:
                    raise Broken("a Huffman code holds EOS")
                out.append(symbol)
                code = length = 0
    if length > 7 or code != (1 << length) - 1:
        raise Broken("a Huffman code ends in padding that is none")
    return bytes(out)


def integer(value, prefix, first=0, zeros=0):
    """Section 5.1; `zeros` makes it longer than it must be."""
    most = (1 << prefix) - 1
    if value < most:
        return bytes([first | value])
    out, value = bytearray([first | most]), value - most
    while value >= 128 or zeros:
        if value < 128:
            zeros -= 1
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def string(text, coded=False):
    text = text.encode("latin-1") if isinstance(text, str) else text
    if coded:
        text = huffman_encode(text)
    return integer(len(text), 7, 128 if coded else 0) + text


def indexed(index):
    return integer(index, 7, 128)


PLAIN, INSERT, NEVER = (4, 0), (6, 64), (4, 16)  # bits of the index, and what stands before it


def literal(name, value, how=PLAIN, coded=False):
    """`name` is a text, or an index of the tables."""
    prefix, first = how
    if isinstance(name, int):
        return integer(name, prefix, first) + string(value, coded)
    return bytes([first]) + string(name, coded) + string(value, coded)


def table_size(size):
    return integer(size, 5, 32)


def encode(fields, coded=False):
    """A block that leaves the tables as they are: static entries and literals."""
    out = b""
    for name, value in fields:
        if (name, value) in STATIC:
            out += indexed(STATIC.index((name, value)) + 1)
        else:
            out += literal(name, value, coded=coded)
    return out


class Encoder:
    """One with a table: what comes again is a byte or two, as from a browser."""

    def __init__(self, coded=True, size=4096):
        self.coded, self.most, self.entries = coded, size, []

    def block(self, fields):
        out = b""
        for name, value in fields:
            known = STATIC + self.entries
            if (name, value) in known:
                out += indexed(known.index((name, value)) + 1)
                continue
            names = [n for n, _ in known]
            out += literal(names.index(name) + 1 if name in names else name, value, INSERT, self.coded)
            self.entries.insert(0, (name, value))
            while sum(len(n) + len(v) + 32 for n, v in self.entries) > self.most:
                self.entries.pop()
        return out


class Decoder:
    def __init__(self, size=4096):
        self.limit = self.most = size
        self.entries = []

    def integer(self, block, at, prefix):
        value = block[at] & (1 << prefix) - 1
        at += 1
        if value == (1 << prefix) - 1:
            shift = 0
            while True:
                byte = block[at]
                at += 1
                value += (byte & 127) << shift
                shift += 7
                if byte < 128:
                    break
                if shift > 28:
                    raise Broken("an integer without end")
        return value, at

    def string(self, block, at):
        coded = block[at] & 128
        size, at = self.integer(block, at, 7)
        if at + size > len(block):
            raise Broken("a string is longer than its block")
        text = block[at:at + size]
        return (huffman_decode(text) if coded else bytes(text)).decode("latin-1"), at + size

    def entry(self, index):
        if index < 1 or index > len(STATIC) + len(self.entries):
            raise Broken(f"no entry {index} in the tables")
        return STATIC[index - 1] if index <= len(STATIC) else self.entries[index - len(STATIC) - 1]

    def cut(self):
        while sum(len(n) + len(v) + 32 for n, v in self.entries) > self.most:
            self.entries.pop()

    def decode(self, block):
        try:
            return self.fields(block)
        except IndexError:
            raise Broken("a header block ends within a field") from None

    def fields(self, block):
        at, out = 0, []
        while at < len(block):
            first = block[at]
            if first & 128:
                index, at = self.integer(block, at, 7)
                out.append(self.entry(index))
                continue
            if first & 0xe0 == 0x20:
                if out:
                    raise Broken("a table's size changes behind a field")
                self.most, at = self.integer(block, at, 5)
                if self.most > self.limit:
                    raise Broken(f"a table of {self.most}, {self.limit} are allowed")
                self.cut()
                continue
            index, at = self.integer(block, at, 6 if first & 64 else 4)
            if index:
                name = self.entry(index)[0]
            else:
                name, at = self.string(block, at)
            value, at = self.string(block, at)
            out.append((name, value))
            if first & 64:
                self.entries.insert(0, (name, value))
                self.cut()
        return out


# ---- the client

class Stream:
    """A request and what came of it: status, fields, body, trailers; interim: (status, fields) of each 1xx."""

    def __init__(self, ident, send_window, credit, method="GET"):
        self.id, self.method = ident, method
        self.send_window, self.credit = send_window, credit
        self.to_send, self.last, self.said_all = b"", None, False
        self.status, self.fields, self.body, self.trailers, self.interim = None, [], bytearray(), None, []
        self.ended = False  # by the server: END_STREAM
        self.reset = None   # the code of its RST_STREAM
        self.lazy = False   # gets no further window
        self.began, self.first, self.done = time.monotonic(), None, None

    def field(self, name):
        """The values of it, joined; None if there is none."""
        values = [v for n, v in self.fields if n == name]
        return ", ".join(values) if values else None

    @property
    def over(self):
        return self.ended or self.reset is not None

    def __repr__(self):
        return (f"<stream {self.id}: {self.status} {len(self.body)} B{' ended' if self.ended else ''}"
                f"{' reset ' + error_name(self.reset) if self.reset is not None else ''}>")


class Client:
    """One connection.  `ours`: settings to send.  `greet` false: not even the preface is sent."""

    def __init__(self, sock, ours=None, authority="a.test", greet=True, lenient=False):
        self.sock, self.authority, self.lenient = sock, authority, lenient
        self.scheme = "https" if isinstance(sock, ssl.SSLSocket) else "http"
        sock.setblocking(False)
        if sock.family != socket.AF_UNIX:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.out, self.into = bytearray(), bytearray()
        self.sent = self.got = 0          # bytes
        self.ended = self.deaf = False    # the peer sends no more; takes no more
        self.streams, self.next_id = {}, 1
        self.ours = {ENABLE_PUSH: 0, **(ours or {})}
        self.theirs, self.acked = None, 0
        self.send_window, self.credit = WINDOW, WINDOW
        self.decoder = Decoder(self.ours.get(HEADER_TABLE_SIZE, 4096))
        self.block = None                 # (stream, flags, bytes) of a header block that is not whole
        self.goaway, self.goaways, self.pongs = None, [], []
        self.counts = {}                  # frames that came, by kind
        self.frames = None                # a list: keep them all
        self.answers = True               # acknowledges SETTINGS and PING, and gives windows
        if greet:
            self.send(PREFACE + settings(self.ours))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.sock.close()

    # -- bytes

    def send(self, octets):
        """Queues; turn() sends."""
        self.out += octets

    def push(self, octets=b"", seconds=PATIENCE_S, hear=True):
        """Sends until all is out, or the peer takes no more; hears meanwhile if it shall."""
        self.out += octets
        deadline = time.monotonic() + seconds
        while self.out and not self.deaf and not (self.ended and hear):
            if time.monotonic() > deadline:
                return False
            self.turn(0.2, hear)
        return not self.out

    def pieces(self, octets, size, pause=0):
        """Each piece a system call of its own."""
        self.push()
        for at in range(0, len(octets), size):
            self.push(octets[at:at + size])
            if pause:
                time.sleep(pause)

    def turn(self, seconds=0.0, hear=True):
        """Sends and hears what is possible, waiting at most so long."""
        if isinstance(self.sock, ssl.SSLSocket) and self.sock.pending():
            seconds = 0
        readers = [self.sock] if hear and not self.ended else []
        writers = [self.sock] if self.out and not self.deaf else []
        if not readers and not writers:
            return False
        can_read, can_write, _ = select.select(readers, writers, [], seconds)
        if can_write:
            self.write()
        heard = False
        if readers:
            heard = self.read()
        return heard or bool(can_read or can_write)

    def write(self):
        try:
            while self.out:
                n = self.sock.send(memoryview(self.out)[:65536].tobytes())
                del self.out[:n]
                self.sent += n
                if n < 65536:
                    break
        except (BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
            pass
        except (OSError, ssl.SSLError):
            self.deaf = True
            self.out.clear()

    def read(self):
        heard = False
        try:
            while True:
                piece = self.sock.recv(262144)
                if not piece:
                    self.ended = True
                    break
                heard = True
                self.got += len(piece)
                self.into += piece
                if len(piece) < 16384 and not isinstance(self.sock, ssl.SSLSocket):
                    break
                if len(self.into) > 4 << 20:
                    break
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            pass
        except (ConnectionError, ssl.SSLError):
            self.ended = True
        if heard:
            self.take_all()
        return heard

    # -- frames

    def take_all(self):
        at = 0
        while len(self.into) - at >= 9:
            high, low, kind, flags, ident = struct.unpack_from("!BHBBI", self.into, at)
            size = high << 16 | low
            if size > self.ours.get(MAX_FRAME_SIZE, FRAME_MAX):
                self.wrong(f"a frame of {size}")
            if len(self.into) - at - 9 < size:
                break
            payload = bytes(self.into[at + 9:at + 9 + size])
            at += 9 + size
            self.take(kind, flags, ident & WINDOW_MOST, payload)
        del self.into[:at]

    def wrong(self, why):
        if not self.lenient:
            raise Broken(why)

    def take(self, kind, flags, ident, payload):
        if self.frames is not None:
            self.frames.append((kind, flags, ident, payload))
        if not self.counts and kind != SETTINGS:
            self.wrong(f"its first frame is of kind {kind}")
        self.counts[kind] = self.counts.get(kind, 0) + 1
        if self.block is not None and (kind != CONTINUATION or ident != self.block[0]):
            self.wrong("a header block is interrupted")
        if kind < len(TAKERS) and TAKERS[kind]:
            TAKERS[kind](self, flags, ident, payload)
        elif kind == PUSH_PROMISE:
            self.wrong("a push")

    def stream_of(self, ident, what):
        it = self.streams.get(ident)
        if it is None:
            self.wrong(f"{what} on stream {ident}, which was never opened")
        return it

    def unpad(self, flags, payload):
        if not flags & PADDED:
            return payload
        if len(payload) <= payload[0]:
            self.wrong("more padding than payload")
        return payload[1:len(payload) - payload[0]]

    def take_data(self, flags, ident, payload):
        it = self.stream_of(ident, "DATA")
        self.credit -= len(payload)
        if self.credit < 0:
            self.wrong("DATA beyond the connection's window")
        if it is None:
            return
        if it.status is None or it.ended:
            self.wrong(f"DATA out of place: {it}")
        it.credit -= len(payload)
        if it.credit < 0:
            self.wrong(f"DATA beyond the window of stream {ident}")
        it.body += self.unpad(flags, payload)
        if flags & END_STREAM:
            self.end(it)
        if payload and self.answers:
            if not it.lazy:
                self.send(window(0, len(payload)))
                self.credit += len(payload)
                if not it.over:
                    self.send(window(ident, len(payload)))
                    it.credit += len(payload)

    def take_headers(self, flags, ident, payload):
        self.stream_of(ident, "HEADERS")
        payload = self.unpad(flags, payload)
        if flags & WITH_PRIORITY:
            payload = payload[5:]
        self.block = (ident, flags, payload)
        if flags & END_HEADERS:
            self.take_block()

    def take_continuation(self, flags, ident, payload):
        if self.block is None:
            self.wrong("CONTINUATION of nothing")
        else:
            self.block = (ident, self.block[1], self.block[2] + payload)
            if flags & END_HEADERS:
                self.take_block()

    def take_block(self):
        ident, flags, block = self.block
        self.block = None
        fields = self.decoder.decode(block)
        it = self.streams.get(ident)
        if it is None:
            return
        if it.ended:
            self.wrong(f"HEADERS behind the end: {it}")
        pseudo = [n for n, _ in fields if n.startswith(":")]
        rest = fields[len(pseudo):]
        for name, value in rest:
            if name != name.lower() or name in CONNECTION_SPECIFIC or name.startswith(":") or name == "":
                self.wrong(f"a field that HTTP/2 does not have: {name}")
            if value != value.strip(" \t") or set(value) & set("\r\n\0"):
                self.wrong(f"a value that no field has: {name}: {value!r}")
        if it.status is None or it.status < 200:
            if pseudo != [":status"] or fields[0][0] != ":status" or len(fields[0][1]) != 3:
                self.wrong(f"a response without a status of its own: {fields}")
            status = int(fields[0][1])
            if status < 200:
                if flags & END_STREAM:
                    self.wrong("an interim response ends the stream")
                it.interim.append((status, rest))
                return
            it.status, it.fields, it.first = status, rest, time.monotonic()
        else:
            if pseudo or not flags & END_STREAM:
                self.wrong(f"trailers that are none: {fields}")
            it.trailers = rest
        if flags & END_STREAM:
            self.end(it)

    def end(self, it):
        it.ended, it.done = True, time.monotonic()
        length = it.field("content-length")
        if length is not None and it.method != "HEAD" and it.status != 304 and int(length) != len(it.body):
            self.wrong(f"content-length {length}, and {len(it.body)} bytes: {it}")
        if it.body and (it.method == "HEAD" or it.status in (204, 304)):
            self.wrong(f"a body that must not be: {it}")

    def take_reset(self, _flags, ident, payload):
        it = self.stream_of(ident, "RST_STREAM")
        if len(payload) != 4:
            self.wrong("RST_STREAM of another size")
        if it is not None:
            if it.reset is None:
                it.reset = struct.unpack("!I", payload)[0]
            it.done = time.monotonic()

    def take_settings(self, flags, ident, payload):
        if ident or len(payload) % 6 or (flags & ACK and payload):
            self.wrong("SETTINGS that are none")
        if flags & ACK:
            self.acked += 1
            return
        new = {k: v for k, v in struct.iter_unpack("!HI", payload)}
        if new.get(ENABLE_PUSH, 0) != 0:
            self.wrong("a server that says it takes pushes")
        if not FRAME_MAX <= new.get(MAX_FRAME_SIZE, FRAME_MAX) < 1 << 24 or new.get(INITIAL_WINDOW_SIZE, 0) > WINDOW_MOST:
            self.wrong(f"settings out of bounds: {new}")
        more = new.get(INITIAL_WINDOW_SIZE, self.initial_window) - self.initial_window
        for it in self.streams.values():
            it.send_window += more
        self.theirs = {**(self.theirs or {}), **new}
        if self.answers:
            self.send(settings(ack=True))
        self.say_more()

    def take_ping(self, flags, ident, payload):
        if ident or len(payload) != 8:
            self.wrong("a PING that is none")
        if flags & ACK:
            self.pongs.append(payload)
        elif self.answers:
            self.send(frame(PING, payload, ACK))

    def take_goaway(self, _flags, ident, payload):
        last, code = struct.unpack_from("!II", payload)
        if ident or (self.goaways and last > self.goaways[-1][0]):
            self.wrong(f"GOAWAY {last} behind {self.goaways}")
        self.goaways.append((last, code, payload[8:]))
        self.goaway = code

    def take_window(self, _flags, ident, payload):
        more = struct.unpack("!I", payload)[0]
        if more == 0:
            self.wrong("WINDOW_UPDATE of nothing")
        if ident == 0:
            self.send_window += more
            if self.send_window > WINDOW_MOST:
                self.wrong("a window that is too large")
        else:
            it = self.stream_of(ident, "WINDOW_UPDATE")
            if it is not None:
                it.send_window += more
        self.say_more()

    # -- requests

    @property
    def initial_window(self):
        return (self.theirs or {}).get(INITIAL_WINDOW_SIZE, WINDOW)

    def open(self, method="GET"):
        """A stream of which nothing has been said yet."""
        it = Stream(self.next_id, self.initial_window, self.ours.get(INITIAL_WINDOW_SIZE, WINDOW), method)
        self.streams[it.id] = it
        self.next_id += 2
        return it

    def head(self, path, fields=(), method="GET"):
        return [(":method", method), (":scheme", self.scheme), (":authority", self.authority), (":path", path), *fields]

    def begin(self, path, fields=(), body=None, method=None, trailers=None, encode_with=encode, more=False):
        """A request; its body goes as windows allow.  `more`: the stream stays open, say() has the rest."""
        it = self.open(method or ("GET" if body is None else "POST"))
        whole = body is None and trailers is None and not more
        self.send(headers(it.id, encode_with(self.head(path, fields, it.method)), whole))
        it.said_all = whole
        if not whole:
            self.say(it, body or b"", not more, trailers)
        return it

    def say(self, it, octets, end=True, trailers=None):
        it.to_send += octets
        if end:
            it.last = trailers if trailers is not None else ()
        self.say_more(it)

    def say_more(self, *only):
        for it in only or [s for s in self.streams.values() if not s.said_all and s.reset is None and
                           (not s.ended or s.method == "CONNECT")]:  # a tunnel's directions end one by one
            most = (self.theirs or {}).get(MAX_FRAME_SIZE, FRAME_MAX)
            while it.to_send and it.reset is None:
                n = min(len(it.to_send), it.send_window, self.send_window, most)
                if n <= 0:
                    break
                piece, it.to_send = it.to_send[:n], it.to_send[n:]
                it.send_window -= n
                self.send_window -= n
                it.said_all = not it.to_send and it.last == ()
                self.send(data(it.id, piece, it.said_all))
            if not it.to_send and it.last is not None and not it.said_all:
                it.said_all = True
                self.send(headers(it.id, encode(it.last)) if it.last else data(it.id, b"", True))

    def reset(self, it, code=CANCEL):
        it.said_all, it.to_send = True, b""
        self.send(reset(it.id, code))

    def allow(self, it, more):
        """A lazy stream gets so much more, and the connection with it."""
        self.send(window(0, more) + window(it.id, more))
        self.credit += more
        it.credit += more

    def until(self, holds, seconds=PATIENCE_S):
        """Turns until it holds, the connection has ended, or time is up; answers whether it holds."""
        deadline = time.monotonic() + seconds
        while not holds():
            left = deadline - time.monotonic()
            if left <= 0 or (self.ended and not self.turn()):
                return bool(holds())
            self.turn(min(left, 0.5))
        return True

    def finish(self, *streams, seconds=PATIENCE_S):
        """Until each of them is over."""
        if not self.until(lambda: all(s.over for s in streams), seconds):
            open_ones = [s for s in streams if not s.over]
            raise AssertionError(f"{len(open_ones)} of {len(streams)} streams have no end, {open_ones[:3]}; "
                                 f"GOAWAY {self.goaways}, connection {'ended' if self.ended else 'lives'}")
        return streams[0] if len(streams) == 1 else streams

    def request(self, path, fields=(), body=None, method=None, seconds=PATIENCE_S, **more):
        return self.finish(self.begin(path, fields, body, method, **more), seconds=seconds)

    def ping(self, payload=b"tarntest", seconds=PATIENCE_S):
        """Whether it comes back: what was sent before has been read."""
        self.send(frame(PING, payload))
        return self.until(lambda: payload in self.pongs, seconds)


TAKERS = (Client.take_data, Client.take_headers, None, Client.take_reset, Client.take_settings, None,
          Client.take_ping, Client.take_goaway, Client.take_window, Client.take_continuation)


def prior_knowledge(port, host="127.0.0.1", receive_buffer=None, **more):
    s = socket.socket()
    if receive_buffer is not None:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    s.settimeout(PATIENCE_S)
    s.connect((host, port))
    return Client(s, **more)


def by_tls(port, context, name="a.test", host="127.0.0.1", **more):
    """`context` offers h2; a server that does not choose it raises Broken."""
    s = socket.create_connection((host, port), timeout=PATIENCE_S)
    try:
        s = context.wrap_socket(s, server_hostname=name, suppress_ragged_eofs=True)
        if s.selected_alpn_protocol() != "h2":
            raise Broken(f"ALPN chose {s.selected_alpn_protocol()}")
    except BaseException:
        s.close()
        raise
    return Client(s, authority=name, **more)
