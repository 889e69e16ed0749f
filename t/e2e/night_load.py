"""night_load.py -- wrk with night.lua: who asked so far, and who was answered."""
import os
import re
import signal
import subprocess

import tarnd

CONNECTIONS = 8
SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "night.lua")


class Request:
    """`status` is None while there is no answer, and 0 if it was not what was asked for; `again` is
    the request that repeats one which got none."""

    def __init__(self, target, sent):
        self.target, self.sent, self.ended, self.status = target, sent, None, None
        self.again = None

    def failed(self):
        return self.status != 200

    def __repr__(self):
        return f"{self.target} sent at {self.sent:.3f}, ended at {self.ended}: {self.status}"


class Thread:
    """What one of wrk's threads writes."""

    def __init__(self, path):
        self.file, self.rest, self.over = open(path, encoding="ascii"), "", False

    def lines(self):
        """Those that are whole and have come since."""
        *lines, self.rest = (self.rest + self.file.read()).split("\n")
        return lines


class Load:
    """`folder` is for its files, and `seconds` the longest that it may take.  Times are those of
    time.monotonic()."""

    def __init__(self, port, folder, seconds):
        self.folder, self.requests, self.strays, self.threads = folder, {}, [], []
        self.process = subprocess.Popen(
            ["wrk", f"-t{CONNECTIONS}", f"-c{CONNECTIONS}", f"-d{seconds}", "--timeout", "30",
             "-s", SCRIPT, f"http://127.0.0.1:{port}", "--", folder],
            stdout=subprocess.PIPE, text=True)
        paths = [self.path(f"load.{n + 1}") for n in range(CONNECTIONS)]
        try:
            tarnd.wait_until(lambda: all(map(os.path.exists, paths)), "wrk runs")
            self.threads += map(Thread, paths)
        except BaseException:
            self.tidy()
            raise

    def path(self, name):
        return os.path.join(self.folder, name)

    def read(self):
        """What has become known since; all requests."""
        for thread in self.threads:
            for line in thread.lines():
                self.take(thread, *line.split())
        return self.requests.values()

    def take(self, thread, kind, which="", at="", what="", lost=""):
        if kind == ".":
            thread.over = True
        elif kind == ">":
            self.requests[which] = Request(what, float(at))
            if lost:
                self.requests[lost].again = self.requests[which]
        elif which in self.requests:
            self.requests[which].ended, self.requests[which].status = float(at), int(what)
        else:
            self.strays.append((at, what))

    def wait_for(self, holds, what):
        """Until holds(each request) for one of them."""
        def there():
            if self.process.poll() is not None:
                raise AssertionError("wrk has ended")
            return any(map(holds, self.read()))

        tarnd.wait_until(there, what)

    def stop(self):
        """Lets everybody wait for their answers; then (errors by kind) as wrk counts them."""
        open(self.path("over"), "w", encoding="ascii").close()

        def there():
            self.read()
            return all(t.over for t in self.threads)

        tarnd.wait_until(there, "every connection has its last answer")
        self.process.send_signal(signal.SIGINT)
        out, _ = self.process.communicate(timeout=tarnd.PATIENCE_S)
        return {k: int(n) for k, n in re.findall(r"(connect|read|write|timeout)=(\d+)", out)}

    def tidy(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()
        for thread in self.threads:
            thread.file.close()
