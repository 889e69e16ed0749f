#!/usr/bin/env python3
"""docs_site.py start|stop PORT [CERTIFICATE KEY [CA]] -- the site of the guide's reader: what it answers is in the path.
With a certificate it speaks TLS; with a CA only to clients with a certificate of it.

  /static/...    a file without Cache-Control, with ETag and Last-Modified
  /assets/...    a style sheet of 8 KiB, Cache-Control: max-age=60, with ETag
  /admin...      a page for one visitor, that says nothing of caching
  /login         Set-Cookie
  /error         500
  /slow          after a second
  /front         a page with ESI: a head line, /news and /basket, and one that fails; max-age=60
  /ws            switches to websocket, and echoes
  others         a page, Cache-Control: max-age=60

Each page says which port answered, and the number of the request; X-Request lists the fields that the site saw: Host, Cookie, X-Forwarded-For, X-Forwarded-Proto.
"""
import http.server
import os
import signal
import socketserver
import ssl
import sys
import time

PLACE = "/run/tarn-world"


class Site(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    asked = 0

    def log_message(self, *_):
        pass

    def do_GET(self):
        Site.asked += 1
        path, headers, status = self.path.partition("?")[0], [], 200
        length = int(self.headers.get("Content-Length") or 0)
        self.rfile.read(length)
        if path == "/ws" and self.headers.get("Upgrade", "").lower() == "websocket":
            self.send_response(101)
            self.send_header("Upgrade", "websocket")
            self.send_header("Connection", "Upgrade")
            self.end_headers()
            self.wfile.write(self.rfile.readline())
            self.close_connection = True
            return
        if path.startswith("/static/"):
            headers = [("ETag", '"v1"'), ("Last-Modified", "Mon, 01 Jun 2026 00:00:00 GMT")]
        elif path.startswith("/assets/"):
            headers = [("Content-Type", "text/css; charset=utf-8"), ("Cache-Control", "max-age=60"), ("ETag", '"v1"')]
        elif path.startswith("/admin"):
            pass
        elif path == "/login":
            headers = [("Set-Cookie", "session=1; Path=/"), ("Cache-Control", "max-age=60")]
        elif path == "/error":
            status = 500
        elif path == "/sitemap.xml":
            headers = [("Content-Type", "application/xml"), ("Cache-Control", "max-age=60")]
        else:
            headers = [("Cache-Control", "max-age=60")]
        if path == "/slow":
            time.sleep(1)
        port = self.server.server_address[1]
        page = f"site {port}, request {Site.asked}: {path}\n"
        if path.startswith("/assets/"):
            page = "body { margin: 0 }\n" + "".join(f".row-{n} {{ padding: {n}px }}\n" for n in range(320))
        if path == "/front":
            page = ('<html>front <esi:include src="/news"/><esi:include src="/error" onerror="continue"/>'
                    '<esi:include src="/admin/basket"/><esi:remove>no ESI</esi:remove></html>\n')
        if path == "/sitemap.xml":
            page = ('<?xml version="1.0"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">'
                    + "".join(f"<url><loc>http://{self.headers['Host']}/page-{n}</loc></url>" for n in range(5))
                    + "</urlset>\n")
        seen = " ".join(f"{name}={self.headers.get(name, '-')}"
                        for name in ("Host", "Cookie", "X-Forwarded-For", "X-Forwarded-Proto"))
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("X-Request", seen)
        self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(page.encode())

    do_HEAD = do_POST = do_PUT = do_DELETE = do_GET


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    request_queue_size = 256


def main():
    word, port = sys.argv[1], int(sys.argv[2])
    pid_file = f"{PLACE}/site.{port}"
    if word == "stop":
        with open(pid_file, encoding="ascii") as f:
            os.kill(int(f.read()), signal.SIGKILL)
        os.unlink(pid_file)
        return
    server = Server(("127.0.0.1", port), Site)
    if len(sys.argv) > 3:
        secure = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        secure.load_cert_chain(sys.argv[3], sys.argv[4])
        if len(sys.argv) > 5:
            secure.verify_mode = ssl.CERT_REQUIRED
            secure.load_verify_locations(sys.argv[5])
        # Each connection's own thread does the handshake: one that fails does not end the server.
        server.socket = secure.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    child = os.fork()
    if child > 0:
        with open(pid_file, "w", encoding="ascii") as f:
            f.write(str(child))
        return
    os.setsid()
    for fd in (0, 1, 2):
        os.dup2(os.open(os.devnull, os.O_RDWR), fd)
    server.serve_forever()


if __name__ == "__main__":
    main()
