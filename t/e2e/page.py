#!/usr/bin/env python3
"""page.py TARND [--shots FOLDER] [TEST...] -- the page, in a real Chromium, while requests come.

Its figures move, nothing stands in the console, it asks nobody but tarnd, and it fits a phone.  With
--shots its pictures are kept: phone and desktop, light and dark.  Exits with 77, which ctest takes for
skipped, where no Chromium is.
"""
import base64
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.dont_write_bytecode = True
import browser
import fleet_world
import tarnd
import tls_ops_world
from acme_world import openssl
from origin import Origin

SKIPPED = 77
TOKEN = "correct/horse+battery="
CONFIG = """
workers: 2
storage: {{ main: {{ engine: malloc, size: 64MiB }} }}
admin: {{ address: "127.0.0.1:0", token: "{token}" }}
backends:
  pages: {{ address: "{origin}" }}
  images: {{ address: "{origin}" }}
  mail: {{ address: "127.0.0.1:1" }}
directors:
  post: {{ backends: [mail] }}
routes:
  - {{ path: /mail, backend: post }}
  - {{ path: /script/image, backend: images }}
  - {{ backend: pages }}
"""
REMEMBER = f"sessionStorage.setItem('tarn.token', '{TOKEN}')"
LOOKS = {"desktop-light": (1280, 900, 1, False), "desktop-dark": (1280, 900, 1, True),
         "phone-light": (390, 844, 2, False), "phone-dark": (390, 844, 2, True)}
program = shots = origin = None


class Load(threading.Thread):
    """Some hundred requests a second, of a shape that repeats: hits, misses, passes, errors."""

    def __init__(self, t):
        super().__init__(daemon=True)
        self.tarnd, self.stop, self.sent = t, threading.Event(), 0

    def targets(self):
        i = 0
        names = ["index", "about", "news", "prices", "contact", "search", "archive"]
        while True:
            i += 1
            name = names[min(i * i % 13 % 9, 6)]
            yield f"/script/page/{name}" if i % 3 else f"/script/image/{i * 7 % 40}"
            if i % 29 == 0:
                yield f"/script/page/article-{i}"
            if i % 150 == 0:
                yield "/mail/inbox"

    def run(self):
        targets = self.targets()
        while not self.stop.is_set():
            with self.tarnd.connect() as s:
                try:
                    for _ in range(200):
                        s.sendall(tarnd.request(next(targets)))
                        self.read(s)
                        self.sent += 1
                        if self.stop.wait(0.02 if self.sent % 8 == 0 else 0):
                            return
                except ConnectionError:
                    pass

    def receive(self, s):
        piece = s.recv(65536)
        if not piece:
            raise ConnectionError
        return piece

    def read(self, s):
        head = b""
        while b"\r\n\r\n" not in head:
            head += self.receive(s)
        fields, _, body = head.partition(b"\r\n\r\n")
        left = int(re.search(rb"(?i)content-length: (\d+)", fields)[1]) - len(body)
        while left > 0:
            left -= len(self.receive(s))


class Scripts(dict):
    """Every path is a page of some size; what is no plain page takes a while."""

    def __missing__(self, path):
        def play(handler):
            time.sleep(0.004 + hash(path) % 17 / 1000)
            data = b"x" * (300 + hash(path) % 40 * 400)
            handler.start("length", len(data))
            handler.piece(data)
        return play


class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.browser = browser.Browser()

    @classmethod
    def tearDownClass(cls):
        cls.browser.__exit__()

    def setUp(self):
        self.tarnd = None
        self.start()

    def start(self, more=""):
        self.stop_tarnd()
        config = CONFIG.format(origin=origin.address, token=TOKEN) + more
        said = tempfile.TemporaryFile()
        self.addCleanup(said.close)
        self.tarnd = tarnd.Tarnd(program, config, stderr=said)
        self.addCleanup(self.stop_tarnd)
        said.seek(0)
        self.url = f"http://{re.search(rb'admin: listening on ([0-9.:]+)', said.read())[1].decode()}/"

    def stop_tarnd(self):
        if self.tarnd is not None:
            self.assertEqual(self.tarnd.close(), 0)
            self.tarnd = None

    def open(self, before=REMEMBER, **look):
        tab = self.browser.open(self.url, before=before, **look)
        self.addCleanup(tab.close)
        tab.wait("document.readyState == 'complete'")
        return tab

    def under_load(self):
        load = Load(self.tarnd)
        load.start()

        def stop():
            load.stop.set()
            load.join()
        self.addCleanup(stop)
        return load

    def test_it_asks_for_the_token_and_keeps_it_for_the_tab(self):
        tab = self.open(before="")
        tab.wait("!document.querySelector('#ask').hidden")
        self.assertEqual(tab.text("#state"), "locked")
        tab.type_into("#token", "not this one")
        tab.wait("!document.querySelector('#wrong').hidden && !document.querySelector('#ask').hidden")
        tab.type_into("#token", TOKEN)
        tab.wait("!document.querySelector('#main').hidden")
        self.assertEqual(tab.run("sessionStorage.getItem('tarn.token')"), TOKEN)
        tab.call("Page.reload")
        tab.wait("document.querySelector('#state').innerText == 'running'")

    def test_figures_move_and_nothing_complains(self):
        load = self.under_load()
        tab = self.open()
        tab.wait("/^[0-9.,]+\\/s$/.test(document.querySelector('#rate').innerText.replace(/\\s/g, ''))"
                 " && !/^0\\//.test(document.querySelector('#rate').innerText)")
        first = tab.text("#rate")
        tab.wait(f"document.querySelector('#rate').innerText != {first!r}")
        tab.wait("/^[0-9.]+%$/.test(document.querySelector('#ratio').innerText.replace(/\\s/g, ''))")
        for name in ("hit50", "hit99", "miss50", "miss99"):
            tab.wait(f"/\\d/.test(document.querySelector('#{name}').innerText)")
        tab.wait("document.querySelectorAll('#dist rect').length > 2")
        tab.wait("document.querySelector('#hit-chart path').getAttribute('d').includes('L')")
        tab.wait("/tarn.test\\/script\\/page/.test(document.querySelector('#top').innerText)")
        self.assertRegex(tab.text("#memory-sub"), r"of 64\.0\sMiB allowed")
        self.assertEqual(tab.run("document.querySelectorAll('#backends tbody tr').length"), 3)
        self.assertRegex(tab.text("#directors"), r"post\s+round robin\s+(healthy|all fail)\s+mail")
        tab.wait("document.querySelector('#state').innerText == '1 of 3 backends fail'")
        for name, count in (("mix-hit", "[1-9]"), ("mix-miss", "\\d"), ("mix-pass", "\\d")):
            tab.wait(f"/^{count}/.test(document.querySelector('#{name}').innerText)")
        tab.wait("document.querySelectorAll('#mix-chart path.line').length == 5")
        tab.wait("/GET \\/mail\\/inbox/.test(document.querySelector('#errors').innerText)")
        tab.wait("/healthy[^]*healthy[^]*does not answer/.test(document.querySelector('#backends').innerText)")
        tab.run("document.querySelector('[data-of=client]').click()")
        tab.wait("/127\\.0\\.0\\.1/.test(document.querySelector('#top').innerText)")
        tab.run("document.querySelector('[data-of=backend]').click()")
        tab.run("document.querySelector('[data-by=misses]').click()")
        tab.wait("/pages/.test(document.querySelector('#top').innerText)")
        self.assertGreater(load.sent, 10)
        self.assertEqual(tab.complaints(), [])
        asked = [u for u in tab.asked() if not u.startswith("data:")]
        self.assertEqual([u for u in asked if not u.startswith(self.url)], [])
        self.assertEqual(asked.count(self.url), 1)

    def visible(self, tab):
        return tab.run("[...document.querySelectorAll('main > section')].filter((e) => !e.hidden)"
                       ".map((e) => e.querySelector('h2').innerText)")

    def test_a_card_with_nothing_to_show_is_not_there(self):
        tab = self.open()
        tab.wait("document.querySelector('#state').innerText == 'running'")
        tab.wait("document.querySelectorAll('#backends tbody tr').length == 3")
        self.assertEqual(self.visible(tab), ["Hit ratio", "Requests", "To clients", "Connections", "Memory",
                                             "Backends", "Why?", "Purge"])
        self.assertEqual(tab.run("document.querySelectorAll('.alone').length"), 0)
        self.tarnd.ask("/mail/inbox")
        tab.wait("!document.querySelector('#card-errors').hidden")
        self.assertEqual(tab.complaints(), [])

    @unittest.skipIf(shutil.which("redis-server") is None, "redis-server is missing")
    def test_a_fleet_has_a_card_with_its_nodes(self):
        engine = fleet_world.Engine()
        self.addCleanup(engine.close)
        self.start(f"fleet: {{ name: shop, node: a, engine: 'redis://127.0.0.1:{engine.port}', max_blind: 3s }}\n")
        engine.ask("ZADD", "tarn:{shop}:nodes", 1, "gone")
        tab = self.open()
        tab.wait("/a \\(this\\)\\s+in step\\s+\\d+\\sm?s/.test(document.querySelector('#fleet').innerText)")
        tab.wait("/gone\\s+unknown\\s+–/.test(document.querySelector('#fleet').innerText)")
        self.assertRegex(tab.text("#fleet-sub"),
                         rf"^shop, by 127\.0\.0\.1:{engine.port}: in step, trusts what it has stored for \d\ss$")
        engine.kill()
        tab.wait("/trusts nothing that it has stored/.test(document.querySelector('#fleet-sub').innerText)")
        tab.wait("document.querySelector('#fleet-why').innerText != ''")
        self.assertEqual(tab.complaints(), [])

    def test_errors_come_first_on_a_phone(self):
        tab = self.open(width=390, height=844)
        tab.wait("document.querySelector('#state').innerText == 'running'")
        self.tarnd.ask("/mail/inbox")
        tab.wait("!document.querySelector('#card-errors').hidden")
        places = "[...document.querySelectorAll('main > section')].filter((e) => !e.hidden)" \
                 ".sort((a, b) => a.getBoundingClientRect().top - b.getBoundingClientRect().top)[0].id"
        self.assertEqual(tab.run(places), "card-errors")
        tab.look(1280, 900)
        self.assertNotEqual(tab.run(places), "card-errors")

    def test_the_state_knows_backends_and_5xx(self):
        def broken(handler):
            handler.start("length", 2, cache_control="no-store", status=500)
            handler.piece(b"no")

        origin.scripts["/script/broken"] = origin.scripts["broken"] = broken
        self.addCleanup(origin.scripts.clear)
        tab = self.open()
        tab.wait("document.querySelector('#state').innerText == 'running'")
        stop = threading.Event()

        def ask():
            while not stop.wait(0.05):
                self.tarnd.ask("/script/broken")
        thread = threading.Thread(target=ask)
        thread.start()
        try:
            tab.wait("/% of responses are 5xx/.test(document.querySelector('#state').innerText)")
            tab.wait("/answers 5xx/.test(document.querySelector('#backends').innerText)")
            self.assertIn("away", tab.run("document.querySelector('#state').className"))
        finally:
            stop.set()
            thread.join()

    def test_a_url_is_explained_and_purged(self):
        tab = self.open()
        tab.wait("document.querySelector('#state').innerText == 'running'")
        self.assertEqual(self.tarnd.ask("/script/page/index").status, 200)
        tab.type_into("#why-url", "http://tarn.test/script/page/index")
        tab.wait("/: hit/.test(document.querySelector('#why-said').innerText)")
        self.assertIn("Stored: 1 response.", tab.text("#why-said"))
        tab.type_into("#purge-what", "http://tarn.test/script/page/index")
        tab.wait("/1 response is purged/.test(document.querySelector('#purge-said').innerText)")
        tab.run("document.querySelector('#why button').click()")
        tab.wait("/Nothing is stored for it/.test(document.querySelector('#why-said').innerText)")
        tab.run("document.querySelector('#why-url').value = ''")
        tab.type_into("#why-url", "not a <b>URL</b>")
        tab.wait("document.querySelector('#why-said .c-bad') !== null")
        self.assertEqual(tab.run("document.querySelectorAll('#why-said b').length"), 0)
        wrong = [c for c in tab.complaints() if "status of 400" not in c]
        self.assertEqual(wrong, [])

    def test_it_fits_a_phone_and_a_desk_in_light_and_in_dark(self):
        self.under_load()
        tab = self.open()
        tab.wait("document.querySelectorAll('#top tbody tr').length > 3")
        if shots:
            time.sleep(75)  # so that there is something to see
        for name, (width, height, scale, dark) in LOOKS.items():
            tab.look(width, height, scale, dark)
            tab.run("new Promise((done) => setTimeout(done, 1300))")
            self.assertEqual(tab.run("innerWidth"), width, name)
            self.assertLessEqual(tab.run("document.documentElement.scrollWidth"), width, name)
            ground = tab.run("getComputedStyle(document.body).backgroundColor")
            light = sum(int(n) for n in re.findall(r"\d+", ground)[:3]) > 3 * 128
            self.assertEqual(light, not dark, ground)
            png = tab.screenshot()
            self.assertEqual(png[:4], b"\x89PNG")
            if shots:
                with open(os.path.join(shots, f"page-{name}.png"), "wb") as f:
                    f.write(png)
        tab.look(320, 600)
        self.assertLessEqual(tab.run("document.documentElement.scrollWidth"), 320)

    def test_it_says_when_tarnd_is_away_and_when_it_is_back(self):
        tab = self.open()
        tab.wait("document.querySelector('#state').innerText == 'running'")
        self.tarnd.process.send_signal(19)  # SIGSTOP: connections are taken, and nobody answers
        tab.wait("document.querySelector('#state').innerText == 'away'")
        self.assertIn("tarnd does not answer", tab.text("#away"))
        self.tarnd.process.send_signal(18)
        tab.wait("document.querySelector('#state').innerText == 'running'")
        self.assertTrue(tab.run("document.querySelector('#away').hidden"))
        self.stop_tarnd()
        tab.wait("document.title == 'Tarn: no answer'")


class Https(tls_ops_world.Case):
    """The page by HTTPS, through a listener with TLS, with a CA of the test's own."""

    def setUp(self):
        super().setUp()
        path = self.ca.pair(f"{self.home}/certs/a.test.pem", "localhost")
        with open(path, "a", encoding="ascii") as f, open(self.ca.pem, encoding="ascii") as ca:
            f.write(ca.read())  # Chromium looks for our CA's key among those that it is shown
        admin = tarnd.free_port()
        config = (f"backends: {{ page: {{ address: '127.0.0.1:{admin}' }} }}\nroutes: [ {{ backend: page, pass: on }} ]\n"
                  f"storage: {{ main: {{ size: 32MiB }} }}\n")
        self.program = program
        self.start(config, admin=f"'127.0.0.1:{admin}', token: '{TOKEN}'")

    def key_hash(self):
        """Of our CA's key, as Chromium's option wants it."""
        key = openssl("x509", "-in", self.ca.pem, "-noout", "-pubkey").encode()
        der = subprocess.run(["openssl", "pkey", "-pubin", "-outform", "DER"], input=key, capture_output=True, check=True)
        return base64.b64encode(hashlib.sha256(der.stdout).digest()).decode()

    def test_chromium_loads_it_when_it_trusts_our_ca(self):
        with browser.Browser(f"--ignore-certificate-errors-spki-list={self.key_hash()}") as b:
            tab = b.open(f"https://localhost:{self.tls_port}/", before=REMEMBER)
            tab.wait("document.querySelector('#state') && document.querySelector('#state').innerText == 'running'")
            self.assertTrue(tab.run("isSecureContext"))
            first = tab.of("Network.responseReceived")[0]["response"]
            self.assertEqual(first["status"], 200)
            self.assertEqual(first["securityDetails"]["protocol"], "TLS 1.3")
            self.assertEqual(first["securityDetails"]["sanList"], ["localhost"])
            self.assertEqual(tab.complaints(), [])
            self.assertTrue(all(url.startswith(f"https://localhost:{self.tls_port}/") for url in tab.asked()), tab.asked())
            if shots is not None:
                with open(os.path.join(shots, "https.png"), "wb") as f:
                    f.write(tab.screenshot())

    def test_chromium_does_not_when_it_does_not(self):
        with browser.Browser() as b:
            tab = b.open(f"https://localhost:{self.tls_port}/")
            tarnd.wait_until(lambda: tab.of("Network.loadingFailed"), "it is refused")
            self.assertEqual(tab.of("Network.loadingFailed")[0]["errorText"], "net::ERR_CERT_AUTHORITY_INVALID")


def main():
    global program, shots, origin
    if len(sys.argv) < 2:
        sys.exit("usage: page.py TARND [--shots FOLDER] [TEST...]")
    program = os.path.abspath(sys.argv.pop(1))
    if len(sys.argv) > 2 and sys.argv[1] == "--shots":
        shots = sys.argv[2]
        os.makedirs(shots, exist_ok=True)
        del sys.argv[1:3]
    if browser.find() is None:
        print("page.py: skipped: no Chromium here (TARN_BROWSER names one)")
        sys.exit(SKIPPED)
    origin = Origin()
    origin.scripts = Scripts()
    unittest.main(verbosity=2)


if __name__ == "__main__":
    main()
