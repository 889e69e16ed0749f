#!/usr/bin/env python3
"""h2_oracle.py TARND [TEST...] -- the safety oracle's invalid requests (t/oracle/payloads.py), as HTTP/2 says them.

Each is translated as a front end would that looks at nothing: the request line becomes pseudo-fields, each line a field
with its name in lower case and the blanks around its value gone, and all behind the head DATA.  Host becomes :authority,
and once more stays Host.  What is malformed then, by the rules below, is refused and nothing of it reaches the origin; what
HTTP/2 makes well-formed (bytes between chunks are only bytes) comes out exactly as it was said, and nothing else does.
"""
import re
import sys

sys.dont_write_bytecode = True
import h2_smuggle
import payloads
from h2_client import FRAME_MAX
from h2_smuggle import TOKEN, WAYS, Case, Strict

HOP = {"connection", "proxy-connection", "keep-alive", "transfer-encoding", "upgrade"}
UNDERSCORED = {"transfer_encoding", "content_length"}  # what CGI makes of both is the same
METHODS = {p.wants[0].method.decode() for p in payloads.everything() if p.klass == "methods"} | {"GET", "HEAD"}
HOST = re.compile(r"(\[[0-9a-fA-F:.]+\]|(?!\d+:\d+$)([A-Za-z0-9._~!$&'()*+,;=-]|%[0-9a-fA-F]{2})+)(:(\d*))?")
DECODES_TO_DELIMITER = re.compile(r"%(00|2f|3a|40|25)", re.I)


class Form:
    """A payload as HTTP/2 says it."""

    def __init__(self, payload, host_stays):
        data = payload.data.replace(payloads.TAG, b"{tag}").decode("latin-1")
        trap = payloads.TRAP.replace(payloads.TAG, b"{tag}").decode("latin-1")
        data = data[:-len(trap)] if data.endswith(trap) else data
        top, _, body = data.partition("\r\n\r\n")
        start, *lines = top.lstrip("\r\n").split("\r\n")
        self.name = f"{payload.klass}: {payload.name}{', Host' if host_stays else ''}"
        self.method, _, rest = start.partition(" ")
        self.path = rest.rpartition(" ")[0] if " " in rest else rest
        self.fields, self.authority = [], None
        for line in lines:
            name, _, value = line.partition(":")
            name, value = "".join(c.lower() if c.isascii() else c for c in name), value.strip(" \t")
            if name == "host" and self.authority is None and not host_stays:
                self.authority = value
            elif name or value or _:
                self.fields.append((name, value))
        self.body = body

    def block(self):
        pseudo = [(":method", self.method), (":scheme", "http"), (":path", self.path)]
        return pseudo + [(":authority", self.authority)] * (self.authority is not None) + self.fields

    def data(self):
        """None: the stream ends with its head."""
        return [self.body[i:i + FRAME_MAX].encode("latin-1") for i in range(0, len(self.body), FRAME_MAX)] or None

    def size(self):
        """As RFC 9113 6.5.2 counts."""
        return sum(len(n) + len(v) + 32 for n, v in self.block())

    def values(self, name):
        return [v for n, v in self.fields if n == name]


def bad_host(host):
    m = HOST.fullmatch(host)
    return m is None or bool(DECODES_TO_DELIMITER.search(host)) or (m[4] or "") != "" and int(m[4]) > 65535


def malformed(form):
    """Why, by RFC 9113 8.2 and 8.3; None: it is not.  Written from the texts, and of nothing in daemon/."""
    if form.method == "" or set(form.method.lower()) - TOKEN:
        return "method"
    if form.path == "*" and form.method == "OPTIONS":
        pass
    elif not form.path.startswith("/") or re.search(r"[^!-~]|[#\\]", form.path):
        return "path"
    for name, value in form.fields:
        if name == "" or set(name) - TOKEN:
            return "name"
        if name in HOP or name in UNDERSCORED or name == "te" and value.lower() != "trailers":
            return "connection-specific"
        if any(c < " " and c != "\t" or c == "\x7f" for c in value):
            return "value"
    hosts = form.values("host")
    if len(hosts) > 1 or form.authority is None and not hosts:
        return "hosts"
    for host in hosts + ([form.authority] if form.authority is not None else []):
        if bad_host(host):
            return "host"
    if hosts and form.authority is not None and hosts[0].lower() != form.authority.lower():
        return "authority"
    lengths = form.values("content-length")
    if len(lengths) > 1 or lengths and (not re.fullmatch(r"[0-9]{1,18}", lengths[0]) or int(lengths[0]) != len(form.body)):
        return "length"
    return None


def declined(form):
    """Well-formed, and refused for what it wants: the statuses; None: it is served."""
    if len(form.path) > 8192 and form.size() <= 32768:
        return (414,)
    if form.size() > 32768 or len(form.fields) > 99 or any(len(n) + len(v) > 8192 for n, v in form.fields):
        return (431,)
    if form.method not in METHODS:
        return (405, 501)
    if form.values("expect") and [v.lower() for v in form.values("expect")] != ["100-continue"]:
        return (417,)
    return None


def forms():
    for payload in payloads.everything():
        if payload.expect == "refused":
            yield Form(payload, False)
            other = Form(payload, True)
            if other.values("host"):
                yield other


class Oracle(Strict):
    @staticmethod
    def case(form, statuses):
        """What does not fit a table comes in two ways, and a block above 64 KiB may end all."""
        size = form.size()
        return Case(form.name, form.block(), form.data(), also=statuses, ways=WAYS[:2] if size > 2000 else WAYS,
                    calm=size > 65536)

    def test_what_is_malformed_is_refused(self):
        cases = [self.case(f, declined(f) or ()) for f in forms() if malformed(f) is not None]
        self.assertGreater(len(cases), 1690)
        self.refuse(cases)

    def test_what_is_not_done_is_declined(self):
        cases = [self.case(f, declined(f)) for f in forms() if malformed(f) is None and declined(f) is not None]
        self.assertGreater(len(cases), 100)
        self.refuse(cases)

    def test_what_is_well_formed_comes_out_exactly(self):
        count = 0
        for form in forms():
            if malformed(form) is not None or declined(form) is not None:
                continue
            host = (form.authority if form.authority is not None else form.values("host")[0]).lower()
            for way in ("plain", "huffman"):
                try:
                    self.serve(form.name, form.block(), form.data(), None,
                               (form.method, form.path, host, {}, form.body.encode("latin-1")), way)
                except AssertionError as e:
                    self.wrong.append(f"{form.name}: {e}")
            count += 1
        self.assertGreater(count, 100)
        self.assertEqual(self.wrong, [], f"{len(self.wrong)}:\n" + "\n".join(self.wrong[:60]))


if __name__ == "__main__":
    h2_smuggle.main(__doc__)
