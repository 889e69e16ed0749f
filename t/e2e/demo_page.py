#!/usr/bin/env python3
"""demo_page.py TARND SOURCE -- what `scripts/run` shows: the demo's page by http and https, and tarnd's own, with its token.

A headless Chromium opens the page by https too, where one is installed.
"""
import base64
import hashlib
import os
import re
import shutil
import signal
import ssl
import subprocess
import sys
import threading
import unittest
import urllib.error
import urllib.request

import browser

PATIENCE_S = 60
program = source = None


class Running:
    """The demo, until `end`; `said` is what it printed before tarnd was ready."""

    def __init__(self, **env):
        self.demo = subprocess.Popen([sys.executable, f"{source}/scripts/demo.py", program,
                                      f"{source}/conf/examples/demo.yaml"], stdout=subprocess.PIPE,
                                     stderr=subprocess.DEVNULL, text=True, env={**os.environ, **env})
        self.timer = threading.Timer(PATIENCE_S, self.demo.kill)
        self.timer.start()
        self.said = ""

    def __enter__(self):
        while "tarnd: ready" not in self.said:
            line = self.demo.stdout.readline()
            if not line:
                self.__exit__()
                raise AssertionError(f"it ended: {self.said}")
            self.said += line
        return self

    def __exit__(self, *_):
        self.demo.send_signal(signal.SIGTERM)
        self.demo.stdout.read()
        self.demo.wait()
        self.timer.cancel()
        self.demo.stdout.close()

    def https(self):
        """The URL, and the CA's file."""
        return (re.search(r"https://127\.0\.0\.1:\d+/", self.said).group(),
                re.search(r"issued \((/.+/ca\.crt)\)", self.said).group(1))


class Demo(unittest.TestCase):
    def test_the_demo_prints_the_admin_page_and_its_token(self):
        with Running() as r:
            page, admin = re.findall(r"http://127\.0\.0\.1:\d+/", r.said)
            token = re.search(r"the token it asks for: ([0-9a-f]{32})\)", r.said).group(1)
            self.assertIn(b"Tarn is running", urllib.request.urlopen(page).read())
            self.assertIn(b"token", urllib.request.urlopen(admin).read())
            with self.assertRaises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(admin + "v1/status")
            self.assertEqual(refused.exception.code, 401)
            refused.exception.close()
            asked = urllib.request.Request(admin + "v1/status",
                                           headers={"Authorization": "Bearer " + token})
            self.assertEqual(urllib.request.urlopen(asked).status, 200)

    @unittest.skipUnless(shutil.which("openssl"), "there is no openssl here")
    def test_the_demos_page_is_there_by_https_with_its_own_ca_and_leaves_nothing(self):
        with Running() as r:
            url, ca = r.https()
            page = re.search(r"http://127\.0\.0\.1:\d+/", r.said).group()
            shown = urllib.request.urlopen(page).read().decode()
            self.assertIn(f'<a href="{url}">', shown)
            trust = ssl.create_default_context(cafile=ca)
            with urllib.request.urlopen(url, context=trust) as answer:
                self.assertEqual(answer.headers["Cache-Status"].partition(";")[0], "tarn")
                shown = answer.read().decode()
            command = re.search(r"<code>curl (-i .+?)</code>", shown).group(1)
            got = subprocess.run(["curl", "-s", *command.split()], capture_output=True, text=True)
            self.assertEqual(got.returncode, 0, got.stderr)
            self.assertIn("tarn; hit", got.stdout)
            with self.assertRaises(urllib.error.URLError):  # nothing else trusts that CA
                urllib.request.urlopen(url)
            with open(ca, encoding="ascii") as f, urllib.request.urlopen(page + "ca.crt") as given:
                self.assertEqual(given.read().decode(), f.read())
            if browser.find() is not None:
                self.look(url, ca)
        self.assertFalse(os.path.exists(os.path.dirname(ca)))

    def look(self, url, ca):
        """Chromium takes that CA, by the hash of its key, and no other."""
        key = subprocess.run(f"openssl x509 -in {ca} -noout -pubkey | openssl pkey -pubin -outform der",
                             shell=True, capture_output=True, check=True).stdout
        pin = base64.b64encode(hashlib.sha256(key).digest()).decode()
        with browser.Browser(f"--ignore-certificate-errors-spki-list={pin}") as b:
            tab = b.open(url)
            tab.wait("document.querySelector('h1') && document.querySelector('h1').textContent == 'Tarn is running'")

    def test_without_openssl_the_demo_says_so_and_goes_on(self):
        with Running(PATH="/nonexistent") as r:
            self.assertIn("There is no https this time: the program openssl cannot be run", r.said)
            page = re.search(r"http://127\.0\.0\.1:\d+/", r.said).group()
            self.assertNotIn(b"https://", urllib.request.urlopen(page).read())


if __name__ == "__main__":
    program, source = (os.path.abspath(sys.argv.pop(1)) for _ in range(2))
    unittest.main(verbosity=1)
