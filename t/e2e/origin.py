"""origin.py -- an origin whose every step a test can hold back and count.

    /body?n=BYTES&framing=length|chunked&cc=CACHE-CONTROL
    /script/NAME              whatever a test registered under NAME with Origin.script()

A body is bytes without a pattern that a shifted, dropped or doubled buffer could reproduce; see
body().  Requests are counted by target.
"""
import collections
import functools
import http.server
import random
import threading
import urllib.parse

BLOCK = random.Random(9111).randbytes(65521)  # a prime: repeats fall on no buffer's border


@functools.lru_cache(maxsize=4)
def body(size):
    return (BLOCK * (size // len(BLOCK) + 1))[:size]


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 60

    def do_GET(self):
        with self.server.lock:
            self.server.requests[self.path] += 1
        url = urllib.parse.urlsplit(self.path)
        if url.path == "/body":
            asked = dict(urllib.parse.parse_qsl(url.query))
            data = memoryview(body(int(asked["n"])))
            self.start(asked["framing"], len(data), asked.get("cc", "max-age=600"))
            for at in range(0, len(data), 100000):
                self.piece(data[at:at + 100000])
            self.end()
        else:
            self.server.scripts[url.path](self)

    do_HEAD = do_GET

    def start(self, framing, size, cache_control="max-age=600", status=200):
        """Sends the head; `framing` is length or chunked."""
        self.chunked = framing == "chunked"
        self.send_response(status)
        self.send_header("Content-Type", "application/octet-stream")
        self.send_header("Cache-Control", cache_control)
        if self.chunked:
            self.send_header("Transfer-Encoding", "chunked")
        else:
            self.send_header("Content-Length", str(size))
        self.end_headers()

    def piece(self, data):
        if len(data) == 0 or self.command == "HEAD":
            return
        if self.chunked:
            self.wfile.write(b"%x\r\n" % len(data))
        self.wfile.write(data)
        if self.chunked:
            self.wfile.write(b"\r\n")
        self.wfile.flush()

    def end(self):
        if self.chunked and self.command != "HEAD":
            self.wfile.write(b"0\r\n\r\n")
            self.wfile.flush()

    def handle(self):
        try:
            super().handle()
        except ConnectionError:
            pass  # the proxy left, as some tests want it to

    def log_message(self, *args):
        pass


class Small(Handler):
    """Two bytes for each GET, in one write."""
    wbufsize = 65536
    cache_control = "no-store"

    def do_GET(self):
        self.start("length", 2, self.cache_control)
        self.piece(b"ok")


class Origin(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def __init__(self, handler=Handler, port=0):
        super().__init__(("127.0.0.1", port), handler)
        self.lock = threading.Lock()
        self.requests = collections.Counter()
        self.scripts = {}
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    @property
    def address(self):
        return "127.0.0.1:%d" % self.server_address[1]

    def script(self, name, play):
        """Registers play(handler) as the answer to the target that is returned."""
        target = "/script/" + name
        self.scripts[target] = play
        return target

    def close(self):
        self.shutdown()
        self.server_close()
