#!/usr/bin/env python3
"""demo.py TARND CONFIG -- tarnd in front of an origin that lives in this process, by http and https.

The certificate for https, and the CA that it is from, are made for this run by the program openssl; without
that there is no https.

Prints the page to open once it can be opened, then passes on what tarnd prints.  SIGINT and
SIGTERM go to tarnd, which drains; when it ends, so does this, with its status, and nothing is
left behind.  Should this be killed, the kernel ends tarnd.
"""
import ctypes
import html
import http.server
import itertools
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

LISTEN = "127.0.0.1:8080"  # as they stand in CONFIG
SECURE = "127.0.0.1:8443"  # beside them
ORIGIN = "127.0.0.1:9000"
ADMIN = "127.0.0.1:6082"
LIBC = ctypes.CDLL(None)  # loaded before any fork

PAGE = """<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<title>Tarn</title>
<style>body {{ font: 16px/1.5 sans-serif; max-width: 42em; margin: 3em auto; padding: 0 1em }}</style>
<h1>Tarn is running</h1>
<p>The origin made this page at <b>{clock}</b>, as its answer number {count}. It may be kept for a
minute: load it again, and the time stays, for the origin is not asked. The response then carries
<code>Age</code>, and <code>Cache-Status</code> says <code>hit</code>.</p>
<ul>
<li><a href="/slow">/slow</a> takes the origin ten seconds, a line a second. Open it in several tabs:
each gets it from the start and as it comes, and the origin is asked once.</li>
<li><a href="/clock">/clock</a> must not be stored: every request reaches the origin.</li>
{https}</ul>
<p>Or look at it from outside: <code>curl -i {url}</code>, twice.</p>
</html>
"""


BY_HTTPS = """<li><a href="https://{secure}/">https://{secure}/</a> is this page by HTTPS. The browser warns, until it
trusts <a href="/ca.crt">the CA of this demo</a>, which lives as long as the demo.</li>
"""


class Origin(http.server.BaseHTTPRequestHandler):
    """Three URLs: one to cache, one that comes slowly, one that must not be cached; and the CA's certificate."""

    protocol_version = "HTTP/1.1"
    server_version = "demo"
    sys_version = ""
    count = itertools.count(1)
    secure = None  # the address for https
    ca = ca_file = None  # the certificate of its CA: the text, and where it lies

    def do_GET(self):
        path = self.path.split("?", 1)[0]
        if path == "/":
            page = PAGE.format(clock=time.strftime("%H:%M:%S"), count=next(self.count),
                               url=html.escape(self.url()),
                               https=BY_HTTPS.format(secure=self.secure) if self.secure else "")
            self.answer(200, "text/html; charset=utf-8", "max-age=60", page)
        elif path == "/clock":
            text = f"{time.strftime('%H:%M:%S')}, answer number {next(self.count)}\n"
            self.answer(200, "text/plain; charset=utf-8", "no-store", text)
        elif path == "/ca.crt" and self.ca:
            self.answer(200, "application/x-x509-ca-cert", "no-store", self.ca)
        elif path == "/slow":
            self.drip()
        else:
            self.answer(404, "text/plain; charset=utf-8", "no-store", "There is no such page here.\n")

    do_HEAD = do_GET

    def url(self):
        """Of the page, as the client has it, and what curl needs besides."""
        by_https = self.headers.get("X-Forwarded-Proto") == "https"
        return (f"--cacert {self.ca_file} https" if by_https else "http") + f"://{self.headers.get('Host', LISTEN)}/"

    def head(self, status, content_type, cache_control, field, value):
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Cache-Control", cache_control)
        self.send_header(field, value)
        self.end_headers()

    def answer(self, status, content_type, cache_control, text):
        body = text.encode()
        self.head(status, content_type, cache_control, "Content-Length", str(len(body)))
        if self.command != "HEAD":
            self.wfile.write(body)

    def drip(self):
        count = next(self.count)
        self.head(200, "text/plain; charset=utf-8", "max-age=30", "Transfer-Encoding", "chunked")
        if self.command == "HEAD":
            return
        for line in range(1, 11):
            text = f"answer number {count}, line {line} of 10, {time.strftime('%H:%M:%S')}\n"
            # Browsers show nothing of a text before they have seen a little of it.
            self.chunk(text.encode() + (b" " * 1024 + b"\n" if line == 1 else b""))
            if line < 10:
                time.sleep(1)
        self.chunk(b"")

    def chunk(self, data):
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def log_message(self, *args):
        """The access log of tarnd is the one to see."""

    def handle(self):
        try:
            super().handle()
        except ConnectionError:
            pass  # tarnd left; it may


def free_or_zero(address):
    """`address` if it can be bound now, else the same host with port 0, a free one."""
    host, port = address.rsplit(":", 1)
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, int(port)))
            return address
        except OSError:
            return f"{host}:0"


def write_config(template, path, listen, origin):
    with open(template, encoding="utf-8") as f:
        text = f.read()
    for stands, wanted in ((LISTEN, listen), (ORIGIN, origin)):
        if text.count(stands) != 1:
            sys.exit(f"demo: {template} must have {stands} once")
        text = text.replace(stands, wanted)
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


def free_or_other(address):
    """`address` if it can be bound now, else the same host with a port that is free."""
    address = free_or_zero(address)
    if address.endswith(":0"):  # what is printed has to name it
        with socket.socket() as probe:
            probe.bind((address.rsplit(":", 1)[0], 0))
            address = "%s:%d" % probe.getsockname()
    return address


def make_certificates(folder):
    """A CA, FOLDER/ca.crt, and a certificate for this machine in FOLDER/tls; None, or why there is none."""
    new = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "7"]
    ca, key = os.path.join(folder, "ca.crt"), os.path.join(folder, "ca.key")
    os.mkdir(os.path.join(folder, "tls"), 0o700)
    steps = ([*new, "-subj", "/CN=Tarn demo", "-keyout", key, "-out", ca],
             [*new, "-CA", ca, "-CAkey", key, "-subj", "/", "-addext", "basicConstraints=CA:FALSE",
              "-addext", "extendedKeyUsage=serverAuth", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
              "-keyout", os.path.join(folder, "tls", "demo.key"), "-out", os.path.join(folder, "tls", "demo.crt")])
    for step in steps:
        try:
            done = subprocess.run(step, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        except OSError as e:
            return f"the program openssl cannot be run: {e.strerror}"
        if done.returncode != 0:
            return "openssl: " + (done.stderr.strip().splitlines() or ["it failed"])[-1]
    with open(ca, encoding="ascii") as f:
        Origin.ca, Origin.ca_file = f.read(), ca
    os.unlink(key)  # nothing else is to be issued by it
    with open(os.path.join(folder, "tls", "demo.crt"), "a", encoding="ascii") as f:
        f.write(Origin.ca)
    return None


def add_https(path, folder):
    """A second listener, if there is a certificate for it; answers with what to print of it."""
    why = make_certificates(folder)
    if why is not None:
        return f"There is no https this time: {why}.\n"
    Origin.secure = free_or_other(SECURE)
    with open(path, encoding="utf-8") as f:
        text = f.read()
    at = text.index("\n\n", text.index("listen:"))
    with open(path, "w", encoding="utf-8") as f:
        f.write(f'{text[:at]}\n  - {{ address: "{Origin.secure}", tls: "{folder}/tls" }}{text[at:]}')
    return (f"By https, with a certificate that this demo's own CA has issued ({folder}/ca.crt):\n\n"
            f"    https://{Origin.secure}/\n")


def add_admin(path):
    """The page for operators; answers with its address and token."""
    address, token = free_or_other(ADMIN), secrets.token_hex(16)
    with open(path, "a", encoding="utf-8") as f:
        f.write(f'\nadmin: {{ address: "{address}", token: "{token}" }}\n')
    return address, token


def die_with_parent():
    """Runs in the child: PR_SET_PDEATHSIG is 1."""
    LIBC.prctl(1, signal.SIGTERM, 0, 0, 0)


def run(tarnd, config, https, admin, token):
    """Runs tarnd to its end, and answers with its status."""
    # A session of its own: Ctrl-C reaches tarnd through us, once, and not twice.
    child = subprocess.Popen([tarnd, "-c", config], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL,
                             start_new_session=True, preexec_fn=die_with_parent)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda got, _: child.send_signal(
            signal.SIGTERM if got == signal.SIGHUP else got))
    for line in child.stdout:
        text = line.decode(errors="replace")
        if text.startswith("tarnd: ready "):
            address = text.split()[2]
            print(f"Open this page, then load it again (Ctrl-C ends the demo):\n\n"
                  f"    http://{address}/\n\n"
                  f"{https}\n"
                  f"What tarnd does meanwhile is shown, with figures that move, by\n\n"
                  f"    http://{admin}/     (the token it asks for: {token})\n", flush=True)
        print(text, end="", flush=True)
    status = child.wait()
    return status if status >= 0 else 128 - status


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: demo.py TARND CONFIG")
    tarnd, template = sys.argv[1:]
    stop = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
    for number in stop:  # until there is a tarnd to pass them to
        signal.signal(number, lambda got, _: sys.exit(128 + got))
    origin = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Origin)
    origin.daemon_threads = True
    threading.Thread(target=origin.serve_forever, daemon=True).start()
    folder = tempfile.mkdtemp(prefix="tarn-demo.")
    try:
        config = os.path.join(folder, "tarn.yaml")
        write_config(template, config, free_or_zero(LISTEN),
                     "127.0.0.1:%d" % origin.server_address[1])
        return run(tarnd, config, add_https(config, folder), *add_admin(config))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
