"""What the shared-memory log tells of a policy: which subroutines and lines ran, and what they said.

    policy_log.py TARND

A reader attaches to the worker's ring as its format says (daemon/shm/log_format.h), requests are
made, and the records of their transactions are looked at.
"""

import mmap
import os
import re
import socket
import struct
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TABLE = os.path.join(HERE, "..", "..", "daemon", "shm", "log_table.h")
ATTACHED, READERS, HEAD = 128, 192, 64  # of the file's first page

POLICY = """vcl 4.1;
import std;
backend nobody none;
sub mine {
    if (req.url == "/log") {
        std.log("said so");
    }
}
sub vcl_recv {
    call mine;
    if (req.url == "/fail") {
        set req.http.x = regsub("a", "a", req.http.none) + std.integer("x", 1) / req.restarts;
    }
    return (synth(200));
}
sub vcl_synth {
    std.timestamp("made");
    return (deliver);
}
"""


def tags():
    """Numbers of tags, by their order in the table."""
    with open(TABLE, encoding="utf-8") as f:
        names = re.findall(r"^    X\((\w+), (?:REQ|TEXT|NUM|EVENT|FIELD), ", f.read(), re.M)
    return {n + 1: name for n, name in enumerate(names)}


class Log:
    """A reader of one worker's ring."""

    def __init__(self, path):
        with open(path, "r+b") as f:
            self.map = mmap.mmap(f.fileno(), 0)
        magic, _, self.page, self.ring = struct.unpack_from("<QIIQ", self.map, 0)
        assert magic == 0x31474F4C4E524154, "this is no log"
        struct.pack_into("<QQ", self.map, READERS, 1, 1)
        self.map[ATTACHED] |= 1
        self.at, self.names = self.head(), tags()

    def head(self):
        return struct.unpack_from("<Q", self.map, HEAD)[0]

    def records(self):
        """(xid, tag, text) of every record since the last call."""
        found = []
        while self.at < self.head():
            pos = self.page + self.at % self.ring
            size, _, xid = struct.unpack_from("<IIQ", self.map, pos)
            kind, size = size >> 24, size & 0xFFFFFF
            rec = pos + 32
            while kind != 0 and rec < pos + size:
                tag, _, length = struct.unpack_from("<HHI", self.map, rec)
                payload = self.map[rec + 8:rec + 8 + length]
                if self.names[tag] == "Timestamp":  # microseconds, then the label
                    payload = payload[8:] + b" %d" % struct.unpack_from("<Q", payload)
                found.append((xid, self.names[tag], payload.decode("utf-8", "replace")))
                rec += 8 + (length + 7) // 8 * 8
            self.at += size
        return found


def get(path, target):
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(10)
        s.connect(path)
        s.sendall(f"GET {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode())
        data = b""
        while more := s.recv(65536):
            data += more
        return data.split(b"\r\n", 1)[0].decode()


def expect(what, want, got):
    if want not in got:
        raise SystemExit(f"{what}: want {want!r} among\n  " + "\n  ".join(map(repr, got)))


def check(log, sock):
    status = get(sock, "/log")
    assert " 200 " in status, status
    time.sleep(0.2)  # its end is told after its answer
    got = [(tag, text) for _, tag, text in log.records()]
    expect("/log", ("Policy", "vcl_recv synth"), got)
    expect("/log", ("PolicyLines", "p.vcl vcl_recv 10-14"), [
        (t, re.sub(r"^\S*/", "", x)) for t, x in got if x.endswith("vcl_recv 10-14")] or got)
    expect("/log", ("VCL_Log", "said so"), got)
    expect("/log", ("Policy", "vcl_synth deliver"), got)
    took = [int(x.split()[1]) for t, x in got if t == "Timestamp" and x.startswith("made ")]
    assert len(took) == 1 and took[0] < 60_000_000, got  # since the request began
    lines = " | ".join(x for t, x in got if t == "PolicyLines")
    assert "mine 5-7" in lines or "mine 5" in lines, lines
    assert re.search(r"mine[ \d-]* 6\b", lines), lines  # the branch that was taken

    status = get(sock, "/other")
    lines = " | ".join(x for _, t, x in log.records() if t == "PolicyLines")
    assert not re.search(r"mine[ \d-]* 6\b", lines), lines  # and this time was not

    status = get(sock, "/fail")
    assert " 503 " in status, status
    got = [(tag, text) for _, tag, text in log.records()]
    expect("/fail", ("Policy", "vcl_recv fail"), got)
    assert any(t == "Error" and "division by zero" in x for t, x in got), got


def main():
    with tempfile.TemporaryDirectory() as d:
        sock = os.path.join(d, "tarn.sock")
        with open(os.path.join(d, "p.vcl"), "w", encoding="utf-8") as f:
            f.write(POLICY)
        with open(os.path.join(d, "tarn.yaml"), "w", encoding="utf-8") as f:
            f.write(f"listen: [{{address: 'unix:{sock}'}}]\nworkers: 1\nvcl: p.vcl\n"
                    f"parameters: {{shm_dir: '{d}/shm'}}\n")
        with subprocess.Popen([sys.argv[1], "-c", os.path.join(d, "tarn.yaml")],
                              stdout=subprocess.PIPE, text=True) as tarnd:
            try:
                line = tarnd.stdout.readline()
                assert line.startswith("tarnd: ready"), line
                ring = [os.path.join(p, n) for p, _, names in os.walk(os.path.join(d, "shm"))
                        for n in names if n == "log.0"]
                check(Log(ring[0]), sock)
            finally:
                tarnd.terminate()
                status = tarnd.wait(30)
        assert status == 0, status
    print("policy_log: ok")


main()
