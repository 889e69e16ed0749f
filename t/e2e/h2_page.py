#!/usr/bin/env python3
"""h2_page.py TARND [TEST...] -- a page of 200 small images in a real browser: HTTP/1.1 against HTTP/2, over a link of 50 ms.

Prints the times.  What is asserted does not depend on the machine: which protocol, how many connections, that all
images are there, that HTTP/2 needs less time than HTTP/1.1 over a link where round trips decide, and that a stylesheet
that is asked for behind large images arrives in front of most of them.  The link is slow_link.py: few kernels of CI
machines have netem.  Skipped with a word where there is no browser.
"""
import json
import os
import statistics
import struct
import sys
import zlib

sys.dont_write_bytecode = True
import browser
import h2_world
import slow_link
import tarnd
from tls_world import pki

SKIPPED = 77
IMAGES, LARGE = 200, 60
LARGE_BYTES = 20000
WAY_S = 0.025  # there, and as much back
RATE = 400000  # bytes a second, where priorities are to be seen
RUNS = 3
RESOURCES = """JSON.stringify(performance.getEntriesByType('resource').map(
    e => [e.name.split('/').pop(), e.nextHopProtocol, e.startTime, e.responseEnd]))"""
TIMES = """(() => { const n = performance.getEntriesByType('navigation')[0],
    p = performance.getEntriesByName('first-contentful-paint')[0];
    return JSON.stringify([n.loadEventEnd, p ? p.startTime : null, n.nextHopProtocol]); })()"""


def png(side, seed):
    """A picture of one colour."""
    def chunk(kind, data):
        return struct.pack("!I", len(data)) + kind + data + struct.pack("!I", zlib.crc32(kind + data))
    colour = bytes((seed * 37 % 256, seed * 59 % 256, seed * 83 % 256))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack("!IIBBBBB", side, side, 8, 2, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress((b"\0" + colour * side) * side)) + chunk(b"IEND", b""))


def padded(picture, size):
    """The same picture with text in it, in front of its end: as large as a photograph."""
    text = b"Comment\0" + os.urandom((size - len(picture)) // 2).hex().encode()
    chunk = struct.pack("!I", len(text)) + b"tEXt" + text + struct.pack("!I", zlib.crc32(b"tEXt" + text))
    return picture[:-12] + chunk + picture[-12:]


def page(name, n, more=""):
    images = "".join(f'<img width=8 height=8 src="/site/{name}-{i}.png">' for i in range(n))
    return f"<!doctype html><title>{name}</title><body><p>{name}</p>{images}{more}</body>".encode()


LATE = """<script>
setTimeout(() => { const l = document.createElement('link'); l.rel = 'stylesheet'; l.href = '/site/late.css';
                   document.head.append(l); }, 300);
</script>"""


class Handler(h2_world.Handler):
    """/site/NAME: pages, pictures, a stylesheet; for tarnd's cache, never for the browser's."""

    def do_GET(self):
        if not self.path.startswith("/site/"):
            super().do_GET()
            return
        name = self.path.rpartition("/")[2]
        if name == "small":
            kind, it = "text/html", page("small", IMAGES)
        elif name == "large":
            kind, it = "text/html", page("large", LARGE, LATE)
        elif name == "late.css":
            kind, it = "text/css", b"p { color: green }\n" * 100
        elif name.startswith("small-"):
            kind, it = "image/png", png(8, int(name[6:-4]))
        elif name.startswith("large-"):
            kind, it = "image/png", padded(png(8, int(name[6:-4])), LARGE_BYTES)
        else:
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Cache-Control", "s-maxage=600, max-age=0")
        self.send_header("Content-Length", str(len(it)))
        self.end_headers()
        self.wfile.write(it)


class Page(h2_world.World):
    def setUp(self):
        super().setUp()
        self.h1_port = tarnd.free_port()
        self.it = self.h2(secure=f"  - address: 127.0.0.1:{self.h1_port}\n"
                                 f"    tls: {{ certificates: {pki().certs} }}\n    http2: off\n")

    def load(self, name, port, rate=0):
        """In a browser that has seen nothing yet: (times, resources, connections)."""
        link = slow_link.SlowLink(port, WAY_S, rate)
        try:
            with browser.Browser("--ignore-certificate-errors", "--host-resolver-rules=MAP a.test 127.0.0.1") as b:
                tab = b.open(f"https://a.test:{link.port}/site/{name}")
                tab.wait("performance.getEntriesByType('navigation')[0].loadEventEnd > 0")
                if name == "large":
                    tab.wait("performance.getEntriesByType('resource').filter(e => e.name.endsWith('late.css')).length == 1")
                broken = tab.run("[...document.images].filter(i => !(i.complete && i.naturalWidth == 8)).length")
                self.assertEqual(broken, 0, "images are not there")
                return browser_json(tab, TIMES), browser_json(tab, RESOURCES), link.connections
        finally:
            link.close()

    def test_200_images(self):
        took, paint, connections = {}, {}, {}
        for port, protocol in ((self.it.secure_port, "h2"), (self.h1_port, "http/1.1")):
            self.load("small", port)  # into the cache
            runs = [self.load("small", port) for _ in range(RUNS)]
            for times, resources, _ in runs:
                images = [r for r in resources if r[0].endswith(".png")]
                self.assertEqual(len(images), IMAGES)
                self.assertEqual({r[1] for r in images} | {times[2]}, {protocol})
            took[protocol] = statistics.median(r[0][0] for r in runs)
            paint[protocol] = statistics.median(r[0][1] or 0 for r in runs)
            connections[protocol] = max(r[2] for r in runs)
        print(f"200 images, 50 ms: load {took['http/1.1']:.0f} ms by HTTP/1.1, {took['h2']:.0f} ms by HTTP/2; first paint "
              f"{paint['http/1.1']:.0f}, {paint['h2']:.0f} ms; connections {connections['http/1.1']}, {connections['h2']}",
              flush=True)
        self.assertLess(took["h2"], took["http/1.1"])
        self.assertLessEqual(connections["h2"], 2)  # a browser may open one ahead
        self.assertGreaterEqual(connections["http/1.1"], 6)

    def test_a_stylesheet_goes_before_images(self):
        ahead = {}
        for port, protocol in ((self.it.secure_port, "h2"), (self.h1_port, "http/1.1")):
            self.load("large", port)
            times, resources, _ = self.load("large", port, RATE)
            css = next(r for r in resources if r[0] == "late.css")
            before = [r for r in resources if r[0].endswith(".png") and r[2] < css[2] and r[3] > css[2]]
            ahead[protocol] = sum(r[3] > css[3] for r in before), len(before)
            print(f"{protocol}: a stylesheet asked for at {css[2]:.0f} ms is there at {css[3]:.0f} ms, before {ahead[protocol][0]} of the "
                  f"{ahead[protocol][1]} images that were under way; all at {times[0]:.0f} ms", flush=True)
        behind, of = ahead["h2"]
        self.assertGreater(of, LARGE // 2, "images are under way when the stylesheet is asked for")
        self.assertGreater(behind, of // 2)


def browser_json(tab, script):
    return json.loads(tab.run(script))


if __name__ == "__main__":
    if browser.find() is None:
        print("skipped: no browser (scripts/install-deps --test)")
        sys.exit(SKIPPED)
    h2_world.main(None, __doc__, Handler)
