"""tarnd.py -- one tarnd under test: started with a configuration, asked, measured, stopped.

What a test needs of the process and no library gives: raw requests whose bytes are the test's,
counters as tarnd shares them, memory as the kernel sees it.
"""
import http.client
import json
import os
import queue
import random
import resource
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time

PATIENCE_S = 60  # a thing that has not happened by then does not happen


def raise_file_limit(wanted):
    """As far as is allowed; returns what there is."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return soft


PORTS = random.SystemRandom()  # a test that repeats itself by a seed does not repeat these


def free_port(given=set()):
    """One that no connection of another test is given meanwhile, below those that connect() takes; each once."""
    with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as f:
        least = int(f.read().split()[0])
    while True:
        port = PORTS.randrange(1024, least)
        with socket.socket() as s:
            try:
                s.bind(("127.0.0.1", port))
            except OSError:
                continue
        if port not in given:
            given.add(port)
            return port


class Tarnd:
    """tarnd on a free TCP port.  `config` is YAML without `listen:`; {dir} in it is a folder of
    the test's own.  `environment` is added to ours, `before` runs in the child, `arguments` come
    before the configuration."""

    def __init__(self, program, config, environment=None, before=None, stderr=None, arguments=()):
        self.dir = tempfile.mkdtemp(prefix="tarn-e2e.")
        self.config = os.path.join(self.dir, "tarn.yaml")
        with open(self.config, "w", encoding="utf-8") as f:
            f.write("listen:\n  - address: 127.0.0.1:0\n" + config.replace("{dir}", self.dir))
        self.process = subprocess.Popen(
            [program, *arguments, "-c", self.config], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=stderr, env={**os.environ, **(environment or {})}, preexec_fn=before)
        self.port = self.wait_for_port()

    def wait_for_port(self):
        lines = queue.Queue()

        def read():
            for line in self.process.stdout:
                lines.put(line.decode())
            lines.put("")

        threading.Thread(target=read, daemon=True).start()
        line = lines.get(timeout=PATIENCE_S)
        if not line.startswith("tarnd: ready "):
            self.tidy()
            raise RuntimeError(f"instead of its ready line tarnd said {line!r}")
        return int(line.split()[2].rpartition(":")[2])

    def terminate(self):
        self.process.send_signal(signal.SIGTERM)

    def close(self):
        """Drains; answers with the exit status."""
        self.terminate()
        try:
            return self.process.wait(timeout=PATIENCE_S)
        finally:
            self.tidy()

    def tidy(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        shutil.rmtree(self.dir, ignore_errors=True)

    def connect(self, receive_buffer=None, timeout=PATIENCE_S):
        s = socket.socket()
        if receive_buffer is not None:  # before the handshake: it decides the window
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        s.settimeout(timeout)
        s.connect(("127.0.0.1", self.port))
        return s

    def ask(self, target, *lines, method="GET", body=b""):
        """One request on a connection of its own, read to the connection's end."""
        with self.connect() as s:
            s.sendall(request(target, *lines, "Connection: close", method=method) + body)
            return Answer(read_to_end(s))

    def admin(self, target, method="GET", body=None):
        """What the admin listener at {dir}/admin.sock answers."""
        conn = http.client.HTTPConnection("tarn")
        conn.sock = socket.socket(socket.AF_UNIX)
        conn.sock.connect(os.path.join(self.dir, "admin.sock"))
        conn.request(method, target, None if body is None else json.dumps(body))
        answer = json.load(conn.getresponse())
        conn.close()
        return answer

    def memory(self):
        """Bytes of this process that are resident now."""
        with open(f"/proc/{self.process.pid}/smaps_rollup", encoding="ascii") as f:
            for line in f:
                if line.startswith("Rss:"):
                    return int(line.split()[1]) * 1024
        raise RuntimeError("no Rss in smaps_rollup")

    def cpu_s(self):
        """Processor time so far, user and system."""
        with open(f"/proc/{self.process.pid}/stat", encoding="ascii") as f:
            fields = f.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))


def request(target, *lines, method="GET", host="tarn.test"):
    head = [f"{method} {target} HTTP/1.1", f"Host: {host}", *lines, "", ""]
    return "\r\n".join(head).encode()


def read_to_end(s):
    """Until the peer closes; what a reset leaves unread is lost, as for any client."""
    data = bytearray()
    try:
        while piece := s.recv(65536):
            data += piece
    except ConnectionResetError:
        pass
    return bytes(data)


def reset(s):
    """Ends a connection so that the peer gets an error and not an end."""
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    s.close()


class Answer:
    """A response as bytes, taken apart."""

    def __init__(self, data):
        self.data = data
        head, _, self.body = data.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        self.status = int(first.split()[1]) if first else 0
        self.fields = {}
        for line in lines:
            name, _, value = line.partition(":")
            self.fields[name.lower()] = value.strip()


def wait_until(holds, what, seconds=PATIENCE_S):
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            raise AssertionError("in vain: " + what)
        time.sleep(0.02)
