#!/usr/bin/env python3
"""roundtrip_browser.py TARND [--bodies N] [--seed N] -- every form of random bodies in Chromium is the same bytes.

The bodies of roundtrip.py.  When tarnd has made a form of one for clients that accept what Chromium does, a page fetches it
and says SHA-256 of what it got.  A version is fetched after the earlier one that its route offers as a dictionary: Chromium
keeps that, names it in the next request, and gets dcz, which another client with that dictionary has had made.
Skipped where there is no browser.
"""
import argparse
import base64
import collections
import hashlib
import json
import sys
import time

sys.dont_write_bytecode = True
import browser
import tarnd
from roundtrip import BROWSERS, CONFIG, DCZ, Client
from roundtrip_origin import KI, LARGE, MI, Body, Origin

SKIPPED = 77
BATCH = 25
STORE_MIB = 128
# What a fetch got: path, status, coding, SHA-256.
FETCH = """
async function got(path) {
    const answer = await fetch(path), body = await answer.arrayBuffer();
    const hash = new Uint8Array(await crypto.subtle.digest('SHA-256', body));
    const hex = Array.from(hash, b => b.toString(16).padStart(2, "0")).join("");
    return [path, answer.status, answer.headers.get("content-encoding"), hex];
}
async function all(paths) { return JSON.stringify(await Promise.all(paths.map(got))); }
"""


class Pages:
    def __init__(self, it, tab, seed):
        self.client, self.tab, self.seed, self.n = Client(it.port, f"127.0.0.1:{it.port}"), tab, seed, collections.Counter()

    def check(self, got, want):
        path, status, coding, sha = got
        if status != 200 or sha != hashlib.sha256(want).hexdigest():
            raise AssertionError(f"{path}: {status}, {coding}, {sha}, {len(want)} bytes wanted")
        self.n[f"as {coding or 'identity'}"] += 1

    def made(self, b):
        """Its shorter form, if there will be one soon."""
        until = time.monotonic() + 0.3
        self.client.ask(b.path, BROWSERS)
        while (self.client.hits(b.path, BROWSERS) not in ("br", "zstd") and time.monotonic() < until and
               b.kind != "random" and KI < b.size < MI // 4):
            time.sleep(0.002)

    def fetch(self, paths):
        return json.loads(self.tab.run(f"all({json.dumps(paths)})"))

    def batch(self, bodies):
        for b in bodies:
            self.made(b)
        for got, b in zip(self.fetch([b.path for b in bodies]), bodies):
            self.check(got, b.plain())

    def version(self, b):
        """Of one that Chromium has an earlier version of: does it come by that?"""
        old, sha = f"/d/{b.number}.0.0", hashlib.sha256(b.plain(old=True)).digest()
        self.check(self.fetch([old])[0], b.plain(old=True))
        said = {"Available_Dictionary": ":" + base64.b64encode(sha).decode() + ":"}
        until = time.monotonic() + 1
        while self.client.ask(b.path, DCZ, **said).coding != "dcz" and time.monotonic() < until:
            time.sleep(0.005)
        got = self.fetch([b.path])[0]
        self.check(got, b.plain())
        return got[2] == "dcz"


def run(it, seed, count):
    with browser.Browser() as b:
        version = b.call("Browser.getVersion")["product"]
        tab = b.open(f"http://127.0.0.1:{it.port}/page")
        tab.wait("document.readyState == 'complete'")
        tab.run(FETCH)
        pages = Pages(it, tab, seed)
        bodies = [body for body in (Body(seed, number) for number in range(count))
                  if body.size < LARGE and body.coding != "members"]  # it reads the first member alone
        others = [body for body in bodies if not body.is_version]
        for at in range(0, len(others), BATCH):
            pages.batch(others[at:at + BATCH])
        versions = [body for body in bodies if body.is_version and body.is_packed(body.plain()) and
                    body.kind in ("text", "json", "html") and 2000 < body.size < MI // 4]
        by_dcz = sum(pages.version(body) for body in versions)
        print(f"{version}: {by_dcz} of {len(versions)} versions by the dictionary that it kept", flush=True)
        if versions and by_dcz == 0:
            raise AssertionError("none came by a dictionary")
        return pages.n


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("tarnd")
    parser.add_argument("--bodies", type=int, default=150)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if browser.find() is None:
        print("skipped: no browser (scripts/install-deps --test)")
        sys.exit(SKIPPED)
    began = time.monotonic()
    origin = Origin(options.seed)
    it = tarnd.Tarnd(options.tarnd, CONFIG.format(port=origin.port, store=STORE_MIB))
    try:
        n = run(it, options.seed, options.bodies)
    finally:
        status = it.close()
        origin.close()
    print(f"roundtrip_browser: seed {options.seed}: " + ", ".join(f"{count} {name}" for name, count in sorted(n.items())) +
          f", {time.monotonic() - began:.0f} s")
    sys.exit(status != 0)


if __name__ == "__main__":
    main()
