"""strict.py -- HTTP/1.1 messages, parsed to the letter of RFC 9112 and RFC 9110, no tolerance.

Both ends of the oracle read with it what the proxy sends, so it shares no code with the proxy and
takes no leave that the RFCs give to recipients: a bare LF, white space before a colon, two equal
Content-Lengths, a folded line are Invalid here, for a sender may send none of them.

One thing is let pass that RFC 3986 wants escaped: visible bytes in a request target other than
"#" and "\\".  Browsers and curl send them raw, and nothing frames or routes by them.

A parser is fed bytes as they come and answers with the messages that are complete; whether the
bytes came in one piece cannot change what it answers.
"""
import re

TOKEN = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
TARGET = re.compile(rb"[!-\"$-\[\]-~]+")  # visible, neither "#" nor "\"
VALUE = re.compile(rb"[\t\x20-\x7e\x80-\xff]*")
REQUEST_LINE = re.compile(rb"([^ ]*) ([^ ]*) HTTP/1\.([01])")
STATUS_LINE = re.compile(rb"HTTP/1\.([01]) ([1-5][0-9][0-9]) ([\t\x20-\x7e\x80-\xff]*)")
HOST = re.compile(
    rb"(?:\[[0-9A-Fa-f:.]+\]|(?:[A-Za-z0-9\-._~!$&'()*+,;=]|%[0-9A-Fa-f]{2})+)(?::[0-9]*)?")
DIGITS = re.compile(rb"[0-9]+")
QUOTED = rb'"(?:[\t\x20\x21\x23-\x5b\x5d-\x7e\x80-\xff]|\\[\t\x20-\x7e\x80-\xff])*"'
CHUNK_LINE = re.compile(
    rb"([0-9A-Fa-f]{1,16})((?:;" + TOKEN.pattern +
    rb"(?:=(?:" + TOKEN.pattern + rb"|" + QUOTED + rb"))?)*)")
HEAD_MAX = 1 << 20  # this end has no limits to test, only memory


class Invalid(Exception):
    """The bytes are no HTTP message; why is the text."""


class Message:
    """One request or response.  `fields` are (name, value) in order, without outer white space."""

    def __init__(self):
        self.method = self.target = self.reason = None
        self.status = 0
        self.minor = 1
        self.fields = []
        self.trailers = []
        self.body = b""
        self.framing = "none"  # length, chunked, close
        self.interim = []      # 1xx responses that came before this one

    def all(self, name):
        return [v for n, v in self.fields if n.lower() == name.lower()]

    def one(self, name):
        values = self.all(name)
        return values[0] if len(values) == 1 else None

    def members(self, name):
        """The members of a list of tokens, in lower case."""
        return [m.strip(b" \t").lower() for v in self.all(name) for m in v.split(b",")]

    def persists(self):
        """RFC 9112 9.3: may another message follow on this connection?"""
        options = self.members(b"Connection")
        if b"close" in options or self.framing == "close":
            return False
        return self.minor == 1 or b"keep-alive" in options


def field(line):
    """name ":" OWS value OWS (RFC 9112 5); a folded line has no name, so it is Invalid as well."""
    name, colon, value = line.partition(b":")
    if not colon or not TOKEN.fullmatch(name):
        raise Invalid("field line %r" % line[:60])
    value = value.strip(b" \t")
    if not VALUE.fullmatch(value):
        raise Invalid("field value %r" % value[:60])
    return name, value


def fields(block):
    return [field(line) for line in block.split(b"\r\n")] if block else []


def frame(message, is_request, asked=None):
    """RFC 9112 6.3: how the body ends.  Sets framing and gives the length, or None."""
    codings, lengths = message.all(b"Transfer-Encoding"), message.all(b"Content-Length")
    if codings and lengths:
        raise Invalid("Transfer-Encoding and Content-Length")
    if codings and (len(codings) > 1 or codings[0].lower() != b"chunked" or message.minor == 0):
        raise Invalid("Transfer-Encoding %r" % codings)
    if lengths and (len(lengths) > 1 or not DIGITS.fullmatch(lengths[0]) or len(lengths[0]) > 19):
        raise Invalid("Content-Length %r" % lengths)
    length = int(lengths[0]) if lengths else None
    if not is_request:
        bare = message.status < 200 or message.status == 204
        if bare and (codings or lengths):
            raise Invalid("framing of a body in a %d" % message.status)
        if bare or message.status == 304 or asked == b"HEAD":
            message.framing = "none"
            return 0
    message.framing = ("chunked" if codings else "length" if lengths
                       else "none" if is_request else "close")
    return length


def check_request(message):
    method, target = message.method, message.target
    if not TOKEN.fullmatch(method):
        raise Invalid("method %r" % method[:40])
    if not TARGET.fullmatch(target):
        raise Invalid("target %r" % target[:60])
    if not target.startswith(b"/") and not (target == b"*" and method == b"OPTIONS"):
        raise Invalid("target %r, not in origin form" % target[:60])
    hosts = message.all(b"Host")
    if len(hosts) != (1 if message.minor else len(hosts)) or len(hosts) > 1:
        raise Invalid("%d Host fields" % len(hosts))
    # An empty one says that the target has no authority (RFC 9112 3.2).
    if hosts and hosts[0] and not HOST.fullmatch(hosts[0]):
        raise Invalid("Host %r" % hosts[0])
    for option in message.members(b"Connection"):
        if not TOKEN.fullmatch(option):
            raise Invalid("Connection option %r" % option)


class Parser:
    """Feed it; `messages` are complete, and `partial` tells that one has begun and not ended.

    For responses `asked` is the list of methods of the requests, oldest first.
    """

    def __init__(self, is_request, asked=()):
        self.is_request = is_request
        self.asked = list(asked)
        self.messages = []
        self.data = b""
        self.message = None  # its head is there, its body not all
        self.need = None     # bytes of a body of known length, or of this chunk, still to come
        self.step = self._head
        self.body = bytearray()
        self.interim = []
        self.ended = False   # nothing may follow what ended with the connection

    @property
    def partial(self):
        return bool(self.data) or self.message is not None or bool(self.interim)

    def feed(self, data):
        self.data += data
        while self.step():
            pass

    def eof(self):
        """The other side ended the connection in order."""
        if self.message is not None and self.message.framing == "close":
            self._complete()
            self.ended = True

    def _line_end(self, end):
        """Where `end` is; an LF that does not end a line, or a CR that does not, is Invalid."""
        at = self.data.find(end)
        upto = self.data if at < 0 else self.data[:at + len(end)]
        seen = upto[:-1] if upto.endswith(b"\r") and at < 0 else upto
        if seen.count(b"\n") != seen.count(b"\r\n") or seen.count(b"\r") != seen.count(b"\r\n"):
            raise Invalid("a bare CR or LF in %r" % seen[:80])
        if at < 0 and len(self.data) > HEAD_MAX:
            raise Invalid("a head without end")
        return at

    def _head(self):
        if not self.data:
            return False
        at = self._line_end(b"\r\n\r\n")
        if at < 0:
            return False
        if at == 0 or self.data.startswith(b"\r\n"):
            raise Invalid("an empty line before a message")
        block, self.data = self.data[:at], self.data[at + 4:]
        line, _, rest = block.partition(b"\r\n")
        message = Message()
        pattern = REQUEST_LINE if self.is_request else STATUS_LINE
        match = pattern.fullmatch(line)
        if match is None:
            raise Invalid("start line %r" % line[:80])
        message.fields = fields(rest)
        if self.is_request:
            message.method, message.target = match[1], match[2]
            message.minor = int(match[3])
            check_request(message)
            self.need = frame(message, True)
        else:
            message.minor, message.status, message.reason = int(match[1]), int(match[2]), match[3]
            self._check_asked(message)
            self.need = frame(message, False, self.asked[0])
        self.message = message
        self.body = bytearray()
        self.step = {"none": self._none, "length": self._length, "chunked": self._chunk_line,
                     "close": self._close}[message.framing]
        return True

    def _check_asked(self, message):
        if self.ended or not self.asked:
            raise Invalid("a response that nobody asked for: %d" % message.status)

    def _complete(self):
        message, self.message = self.message, None
        message.body = bytes(self.body)
        self.step = self._head
        if not self.is_request and message.status < 200:
            self.interim.append(message)
            return
        message.interim, self.interim = self.interim, []
        if not self.is_request:
            self.asked.pop(0)
        self.messages.append(message)

    def _none(self):
        self._complete()
        return True

    def _take(self):
        n = min(self.need, len(self.data))
        self.body += self.data[:n]
        self.data = self.data[n:]
        self.need -= n
        return self.need == 0

    def _length(self):
        if not self._take():
            return False
        self._complete()
        return True

    def _close(self):
        self.body += self.data
        self.data = b""
        return False

    def _chunk_line(self):
        at = self._line_end(b"\r\n")
        if at < 0:
            return False
        match = CHUNK_LINE.fullmatch(self.data[:at])
        if match is None:
            raise Invalid("chunk line %r" % self.data[:min(at, 60)])
        self.data = self.data[at + 2:]
        self.need = int(match[1], 16)
        self.step = self._chunk if self.need > 0 else self._trailer
        return True

    def _chunk(self):
        if not self._take() or len(self.data) < 2:
            return False
        if not self.data.startswith(b"\r\n"):
            raise Invalid("no CRLF behind a chunk: %r" % self.data[:20])
        self.data = self.data[2:]
        self.step = self._chunk_line
        return True

    def _trailer(self):
        at = self._line_end(b"\r\n")
        if at < 0:
            return False
        line, self.data = self.data[:at], self.data[at + 2:]
        if line:
            self.message.trailers.append(field(line))
        else:
            self._complete()
        return True
