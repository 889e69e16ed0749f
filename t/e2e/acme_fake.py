"""acme_fake.py -- a CA for tests of refusals: it does what ACME wants, except where a test says otherwise.

It believes every signature and every proof (Pebble does not: acme_pebble.py).  What a test wants otherwise is a
function in `rules`, by the resource's name: it gets the Exchange, and answers it, or returns True to have the usual
answer.  `asked` counts the requests for each resource, `payloads` has what they said.
"""
import base64
import collections
import http.server
import json
import ssl
import threading

PROBLEM = "urn:ietf:params:acme:error:"


def plain(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


class Exchange(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 30
    disable_nagle_algorithm = True
    wbufsize = 1 << 16

    def handle_one(self):
        ca = self.server.ca
        name, _, self.rest = self.path.strip("/").partition("/")
        self.payload = self.header = None
        self.body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.command == "POST":
            jws = json.loads(self.body)
            self.header = json.loads(plain(jws["protected"]))
            self.payload = json.loads(plain(jws["payload"])) if jws["payload"] else None
        with ca.lock:
            ca.asked[name] += 1
            ca.payloads[name].append(self.payload)
            rule = ca.rules.get(name)
        if rule is None or rule(self):
            getattr(ca, "do_" + name)(self)

    do_GET = do_HEAD = do_POST = handle_one

    def answer(self, status, body=b"", kind="application/json", nonce=True, **fields):
        if not isinstance(body, (bytes, str)):
            body = json.dumps(body)
        body = body.encode() if isinstance(body, str) else body
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        if nonce:
            self.send_header("Replay-Nonce", self.server.ca.nonce())
        for name, value in fields.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def problem(self, status, kind, detail="as the test wants it", **fields):
        self.answer(status, {"type": PROBLEM + kind, "detail": detail}, "application/problem+json", **fields)

    def cut(self, text=b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{"):
        self.wfile.write(text)
        self.wfile.flush()
        self.close_connection = True

    def log_message(self, *args):
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        """Connections that the client or a test breaks off."""


class FakeCA:
    def __init__(self, authority):
        self.authority = authority
        self.lock = threading.Lock()
        self.server = Server(("127.0.0.1", 0), Exchange)
        self.server.ca = self
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*authority.server())
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True, do_handshake_on_connect=False)
        self.url = f"https://127.0.0.1:{self.server.server_address[1]}"
        self.directory = self.url + "/dir"
        self.fresh()
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def fresh(self):
        """As at first: for the next test."""
        self.rules, self.orders, self.nonces = {}, {}, 0
        self.asked, self.payloads = collections.Counter(), collections.defaultdict(list)
        self.life_s = 90 * 86400
        self.on_proof = lambda: None  # called when the client says that a proof is there

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def nonce(self):
        with self.lock:
            self.nonces += 1
            return f"nonce-{self.nonces}"

    # ---- the resources ----

    def do_dir(self, x):
        x.answer(200, {"newNonce": self.url + "/nonce", "newAccount": self.url + "/account",
                       "newOrder": self.url + "/order", "renewalInfo": self.url + "/ari"}, nonce=False)

    def do_nonce(self, x):
        x.answer(200)

    def do_account(self, x):
        x.answer(201, {"status": "valid"}, Location=self.url + "/acct/1")

    def do_acct(self, x):
        x.answer(200, {"status": "valid"})

    def order_json(self, n):
        order = self.orders[n]
        body = {"status": order["status"], "identifiers": order["identifiers"], "finalize": f"{self.url}/finalize/{n}",
                "authorizations": [f"{self.url}/authz/{n}-{i}" for i in range(len(order["identifiers"]))]}
        if "certificate" in order:
            body["certificate"] = f"{self.url}/cert/{n}"
        return body

    def do_order(self, x):
        if x.rest == "":
            n = str(len(self.orders))
            self.orders[n] = {"status": "pending", "identifiers": x.payload["identifiers"], "valid": set()}
            x.answer(201, self.order_json(n), Location=f"{self.url}/order/{n}")
        else:
            x.answer(200, self.order_json(x.rest))

    def authz_json(self, name):
        n, i = name.split("-")
        order = self.orders[n]
        status = "valid" if i in order["valid"] else "pending"
        return {"status": status, "identifier": order["identifiers"][int(i)],
                "challenges": [{"type": kind, "url": f"{self.url}/challenge/{name}", "status": status,
                                "token": f"token-{name}-of-at-least-128-bits"} for kind in ("http-01", "tls-alpn-01")]}

    def do_authz(self, x):
        x.answer(200, self.authz_json(x.rest))

    def do_challenge(self, x):
        n, i = x.rest.split("-")
        self.on_proof()
        order = self.orders[n]
        order["valid"].add(i)
        if len(order["valid"]) == len(order["identifiers"]):
            order["status"] = "ready"
        x.answer(200, self.authz_json(x.rest)["challenges"][0])

    def pem_of(self, csr):
        lines = base64.encodebytes(plain(csr)).decode()
        return f"-----BEGIN CERTIFICATE REQUEST-----\n{lines}-----END CERTIFICATE REQUEST-----\n"

    def do_finalize(self, x):
        order = self.orders[x.rest]
        leaf = self.authority.sign(self.pem_of(x.payload["csr"]), -3600, self.life_s)
        with open(self.authority.pem, encoding="utf-8") as f:
            order["certificate"] = leaf + f.read()
        order["status"] = "valid"
        x.answer(200, self.order_json(x.rest))

    def do_cert(self, x):
        x.answer(200, self.orders[x.rest]["certificate"], "application/pem-certificate-chain")

    def do_ari(self, x):
        x.problem(404, "malformed", "nothing is suggested")
