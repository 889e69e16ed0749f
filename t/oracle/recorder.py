"""recorder.py -- an origin that reads strictly and records what came.

Every byte of every connection goes through strict.py.  What is complete is recorded and answered
with an account of itself, so that a client can tell whose answer it got; what is no HTTP is
recorded as Invalid, and its connection closed.

A tag is a letter and seven digits somewhere in a request (its target, a field, its body); it says
which try a request belongs to.  Its letter says whether the answer may be stored: c for cacheable,
p for passed.
"""
import collections
import hashlib
import re
import selectors
import socket
import threading

from strict import Invalid, Parser

TAG = re.compile(rb"[cp][0-9]{7}")


class Seen:
    """What came under one tag."""

    def __init__(self):
        self.requests = []  # strict.Message, whole, in order of arrival
        self.invalid = []   # why, and the bytes
        self.cut = []       # bytes of messages that had begun when their connection ended


def account_of(body):
    return b"%d:%s" % (len(body), hashlib.sha1(body).hexdigest().encode())


def account(message, serial):
    """The answer's body.  A client that reads it knows which request it answers."""
    return b"serial=%d\nmethod=%s\ntarget=%s\nhost=%s\nbody=%s\n" % (
        serial, message.method, message.target, message.one(b"Host") or b"",
        account_of(message.body))


def read_account(body):
    """The account as a dict, or None if this is no account."""
    try:
        return dict(line.split(b"=", 1) for line in body.splitlines())
    except ValueError:
        return None


class Connection:
    def __init__(self, sock):
        self.sock = sock
        self.parser = Parser(True)
        self.bytes = b""  # since the last complete request
        self.tag = None


class Origin(threading.Thread):
    """Listens on 127.0.0.1, or where it is told to, until the program ends."""

    def __init__(self, port=0):
        super().__init__(daemon=True)
        self.listener = socket.create_server(("127.0.0.1", port), backlog=512)
        self.listener.setblocking(False)
        self.port = self.listener.getsockname()[1]
        self.seen = collections.defaultdict(Seen)  # by tag; None for what has none
        self.lock = threading.Lock()
        self.serial = 0
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.listener, selectors.EVENT_READ)

    def run(self):
        while True:
            for key, _ in self.selector.select():
                if key.data is None:
                    self.accept()
                else:
                    self.read(key.data)

    def take(self, tag):
        """What came under the tag; it is forgotten here."""
        with self.lock:
            return self.seen.pop(tag, None) or Seen()

    def accept(self):
        try:
            sock, _ = self.listener.accept()
        except OSError:
            return
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.selector.register(sock, selectors.EVENT_READ, Connection(sock))

    def read(self, c):
        try:
            data = c.sock.recv(262144)
        except OSError:
            data = b""
        if not data:
            if c.parser.partial:
                with self.lock:
                    self.seen[self.tag_of(c)].cut.append(c.bytes)
            self.close(c)
            return
        c.bytes += data
        try:
            c.parser.feed(data)
        except Invalid as why:
            self.answer(c)
            with self.lock:
                self.seen[self.tag_of(c)].invalid.append((str(why), c.bytes))
            self.close(c)
            return
        self.answer(c)

    def tag_of(self, c):
        match = TAG.search(c.bytes)
        return (match[0] if match else c.tag or b"").decode() or None

    def answer(self, c):
        persists = True
        for message in c.parser.messages:
            persists = persists and message.persists()
            self.answer_one(c, message)
        if c.parser.messages:
            c.bytes = c.parser.data
        c.parser.messages.clear()
        if not persists:
            self.close(c)

    def answer_one(self, c, message):
        where = b" ".join([message.target] + [v for _, v in message.fields] + [message.body])
        match = TAG.search(where)
        c.tag = match[0] if match else None
        with self.lock:
            self.serial += 1
            body = account(message, self.serial)
            self.seen[c.tag.decode() if c.tag else None].requests.append(message)
        stored = b"max-age=600" if c.tag and c.tag.startswith(b"c") else b"no-store"
        head = (b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nCache-Control: %s\r\n"
                b"Content-Length: %d\r\n\r\n" % (stored, len(body)))
        try:
            c.sock.sendall(head if message.method == b"HEAD" else head + body)
        except OSError:
            pass  # the proxy left; what it asked is recorded

    def close(self, c):
        if c.sock.fileno() >= 0:
            self.selector.unregister(c.sock)
            c.sock.close()
