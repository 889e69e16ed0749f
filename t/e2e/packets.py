"""packets.py -- how many packets a message leaves in, counted by the kernel of who receives it.

A response that is ready whole is one packet, and so are a head and those bytes of its body that are
at hand with it.  But nothing waits for a packet to fill: the origin of the late bodies here sends
them only when the client has said that it has the head.

TCP_INFO counts the segments with data that a socket received (tcpi_data_segs_in).  On the loopback
a segment has up to 64 KiB, so every write of less is one of its own unless the kernel joined it to
the one before.  Usage: packets.py TARND
"""
import os
import socket
import struct
import sys
import threading

from tarnd import PATIENCE_S, Tarnd

TCP_INFO = 11
DATA_SEGS_IN = 152  # offset in struct tcp_info; Linux 4.6

CONFIG = """\
  - {{ name: local, address: "unix:{{dir}}/tarn.sock" }}
workers: 1
storage:
  main: {{ engine: malloc, size: 64MiB }}
backends:
  origin: {{ address: "{origin}" }}
parameters: {{ req_buffering: off }}
"""


def segments(s):
    return struct.unpack_from("I", s.getsockopt(socket.IPPROTO_TCP, TCP_INFO, 192), DATA_SEGS_IN)[0]


def head(*lines, status="200 OK"):
    return "\r\n".join(["HTTP/1.1 " + status, *lines, "", ""]).encode()


def chunk(data):
    return b"%x\r\n%s\r\n" % (len(data), data)


LAST = b"0\r\n\r\n"
STORED, PASSED = "Cache-Control: max-age=600", "Cache-Control: no-store"
LATE = b"late"


class Reader:
    """Messages from a socket, and how many segments each came in."""

    def __init__(self, sock):
        self.sock, self.held, self.at = sock, b"", 0
        self.counts = sock.family == socket.AF_INET

    def more(self):
        data = self.sock.recv(1 << 20)
        if not data:
            raise EOFError("the connection ended")
        self.held += data

    def until(self, text):
        while text not in self.held:
            self.more()
        end = self.held.index(text) + len(text)
        data, self.held = self.held[:end], self.held[end:]
        return data

    def exactly(self, n):
        while len(self.held) < n:
            self.more()
        data, self.held = self.held[:n], self.held[n:]
        return data

    def head(self):
        return self.until(b"\r\n\r\n").decode("latin-1")

    def body(self, text, bodyless=False):
        fields = dict(line.lower().split(": ", 1) for line in text.split("\r\n")[1:] if line)
        if bodyless:
            return b""
        if "transfer-encoding" not in fields:
            return self.exactly(int(fields.get("content-length", 0)))
        body = b""
        while size := int(self.until(b"\r\n"), 16):
            body += self.exactly(size)
            self.until(b"\r\n")
        self.until(b"\r\n")
        return body

    def segments(self):
        """Since the last time it was asked."""
        now = segments(self.sock)
        was, self.at = self.at, now
        return now - was


class Origin:
    """Answers a target as a test registered it: play(reader, request head)."""

    def __init__(self):
        self.listener = socket.socket()
        self.listener.bind(("127.0.0.1", 0))
        self.listener.listen(16)
        self.plays, self.requests = {}, {}
        threading.Thread(target=self.accept, daemon=True).start()

    @property
    def address(self):
        return "127.0.0.1:%d" % self.listener.getsockname()[1]

    def accept(self):
        while True:
            sock, _ = self.listener.accept()
            sock.settimeout(PATIENCE_S)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self.serve, args=(sock,), daemon=True).start()

    def serve(self, sock):
        reader = Reader(sock)
        try:
            while True:
                text = reader.head()
                target = text.split()[1]
                play = self.plays[target]
                if callable(play):
                    reader.segments()  # none comes before the answer
                    play(reader, text)
                else:
                    body = reader.body(text)
                    self.requests[target] = (body, reader.segments())
                    sock.sendall(play)
        except (EOFError, OSError):
            sock.close()


class Client(Reader):
    def ask(self, target, *lines, method="GET", body=b""):
        text = "\r\n".join([f"{method} {target} HTTP/1.1", "Host: tarn.test", *lines, "", ""])
        self.sock.sendall(text.encode() + body)

    def answer(self, method="GET"):
        """(status, body, segments) of the next response."""
        text = self.head()
        status = int(text.split()[1])
        body = self.body(text, bodyless=method == "HEAD" or status == 304)
        return status, body, self.segments()


class Packets:
    def __init__(self, program):
        self.origin = Origin()
        self.tarnd = Tarnd(program, CONFIG.format(origin=self.origin.address))
        self.client = Client(self.tarnd.connect())
        self.failures = 0

    def expect(self, what, want, got):
        good = want == got
        self.failures += not good
        print(f"{'ok    ' if good else 'FAILED'} {what}: {got!r}"
              + ("" if good else f", not {want!r}"))

    def exchange(self, target, *lines, method="GET", body=b""):
        self.client.ask(target, *lines, method=method, body=body)
        return self.client.answer(method)

    def count(self, what, target, play, want, *lines, method="GET", segs=1):
        """One exchange: its (status, size of the body), and in how many segments it came."""
        if play is not None:
            self.origin.plays[target] = play
        status, body, got = self.exchange(target, *lines, method=method)
        self.expect(f"{what}: status and size", want, (status, len(body)))
        self.expect(f"{what}: segments", segs, got)

    def responses(self):
        for n in (0, 1, 1024, 4000, 4096, 16384):  # a head is read with 4 KiB of what follows
            body = os.urandom(n)
            length = f"Content-Length: {n}"
            self.count(f"pass of {n}", f"/p/{n}", head(PASSED, length) + body, (200, n))
            self.count(f"miss of {n}", f"/m/{n}", head(STORED, length) + body, (200, n))
            self.count(f"hit of {n}", f"/m/{n}", None, (200, n))
            if n > 1:
                chunks = chunk(body[:n // 2]) + chunk(body[n // 2:]) + LAST
                for name, line in (("pass", PASSED), ("miss", STORED)):
                    self.count(f"{name} of {n} in chunks", f"/{name}c/{n}",
                               head(line, "Transfer-Encoding: chunked") + chunks, (200, n))
        tagged = head(STORED, "Content-Length: 1000", 'ETag: "a"') + bytes(1000)
        self.count("HEAD", "/tag", tagged, (200, 0), method="HEAD")
        self.count("HEAD of a hit", "/m/1024", None, (200, 0), method="HEAD")
        self.count("miss with an ETag", "/tag", tagged, (200, 1000))
        self.count("304", "/tag", None, (304, 0), 'If-None-Match: "a"')
        self.count("206", "/tag", None, (206, 10), "Range: bytes=5-14")
        self.client.ask("/tag", "Range: bytes=0-9,500-509")
        status, body, segs = self.client.answer()
        self.expect("206 of two parts", (206, True, 1), (status, body.count(b"--") >= 3, segs))

    def errors(self):
        self.count("an error of the origin", "/404",
                   head("Content-Length: 4", status="404 No") + b"none", (404, 4))
        self.origin.plays["/hang-up"] = lambda reader, text: reader.sock.close()
        self.client.ask("/hang-up")
        status, _, segs = self.client.answer()
        self.expect("502", (502, 1), (status, segs))
        self.client.ask("/", method="TRACE")
        status, _, segs = self.client.answer()
        self.expect("405", (405, 1), (status, segs))

    def pipelined(self):
        one = b"GET /m/1024 HTTP/1.1\r\nHost: tarn.test\r\n\r\n"
        self.client.sock.sendall(one * 8)
        for _ in range(8):
            text = self.client.head()
            self.client.body(text)
        self.expect("eight pipelined hits: segments", 1, self.client.segments())

    def late(self, framing, first, rest, client, where):
        """The origin goes on only when the client has told that it has what came so far."""
        told = threading.Event()

        def play(reader, text):
            reader.sock.sendall(head(PASSED, framing) + first)
            told.wait(PATIENCE_S)
            reader.sock.sendall(rest)

        target = "/late/" + where
        self.origin.plays[target] = play
        client.ask(target)
        text = client.head()
        if first:
            client.exactly(len(first))
        told.set()
        tail = client.exactly(len(rest))
        self.expect(f"what came late, {where}: the rest", rest, tail)
        return client.segments() if client.counts else None

    def late_bodies(self):
        local = socket.socket(socket.AF_UNIX)
        local.settimeout(PATIENCE_S)
        local.connect(os.path.join(self.tarnd.dir, "tarn.sock"))
        for client, kind in ((self.client, "tcp"), (Client(local), "unix")):
            segs = [
                self.late("Content-Length: 100", b"", bytes(100), client, kind + "-length"),
                self.late("Transfer-Encoding: chunked", b"", chunk(LATE) + LAST, client,
                          kind + "-chunked"),
                self.late("Transfer-Encoding: chunked", chunk(LATE), chunk(LATE) + LAST, client,
                          kind + "-last-chunk"),
                self.late("Content-Length: 1000", bytes(500), bytes(500), client, kind + "-half")]
            if client.counts:
                self.expect("late bodies: segments", [2, 2, 2, 2], segs)

    def many_pieces(self):
        """As many extents of storage as are offered at once, or more, and then the origin waits:
        what said that more follows must leave all the same."""
        for n in (7 << 16, 1 << 20, 3 << 20):
            told, part = threading.Event(), os.urandom(n)

            def play(reader, text, told=told, part=part):
                reader.sock.sendall(head(STORED, f"Content-Length: {len(part) + 4}") + part)
                told.wait(PATIENCE_S)
                reader.sock.sendall(LATE)

            self.origin.plays[f"/many/{n}"] = play
            self.client.ask(f"/many/{n}")
            self.client.head()
            same = self.client.exactly(n) == part
            told.set()
            self.expect(f"{n} bytes before the origin goes on", (True, LATE),
                        (same, self.client.exactly(4)))
        self.client.segments()

    def breaks_off(self):
        """What there was of it has left before the connection ends."""
        client = Client(self.tarnd.connect())
        gone = threading.Event()

        def play(reader, text):
            reader.sock.sendall(head(PASSED, "Content-Length: 1000") + bytes(500))
            gone.wait(PATIENCE_S)
            reader.sock.close()

        self.origin.plays["/cut"] = play
        client.ask("/cut")
        client.head()
        self.expect("before the body breaks off", bytes(500), client.exactly(500))
        gone.set()
        try:
            ended = client.sock.recv(1) == b""
        except ConnectionResetError:
            ended = True
        self.expect("after it", True, ended)

    def uploads(self):
        for n in (1, 1000, 16000):
            body = os.urandom(n)
            for name, lines, sent in (("length", f"Content-Length: {n}", body),
                                      ("chunks", "Transfer-Encoding: chunked", chunk(body) + LAST)):
                target = f"/up/{name}/{n}"
                self.origin.plays[target] = head(PASSED, "Content-Length: 0")
                self.exchange(target, lines, method="POST", body=sent)
                came, segs = self.origin.requests[target]
                self.expect(f"upload of {n}, {name}", (True, 1), (came == body, segs))

    def late_upload(self):
        """The origin's answer to the head lets the client send its body."""
        body, seen = os.urandom(500), threading.Event()

        def play(reader, text):
            seen.set()
            said = str(reader.body(text) == body).encode()
            reader.sock.sendall(head(PASSED, f"Content-Length: {len(said)}") + said)

        self.origin.plays["/late-upload"] = play
        self.client.ask("/late-upload", f"Content-Length: {len(body)}", method="POST")
        self.expect("the head of an upload does not wait", True, seen.wait(PATIENCE_S))
        self.client.sock.sendall(body)
        self.expect("its body", b"True", self.client.answer()[1])

    def run(self):
        try:
            self.responses()
            self.errors()
            self.pipelined()
            self.late_bodies()
            self.many_pieces()
            self.breaks_off()
            self.uploads()
            self.late_upload()
        except (EOFError, OSError) as e:
            self.failures += 1
            print(f"FAILED: {type(e).__name__}: {e}")
            raise
        finally:
            status = self.tarnd.close()
            self.expect("exit status", 0, status)
        return 1 if self.failures else 0


if __name__ == "__main__":
    sys.exit(Packets(sys.argv[1]).run())
