"""supervised.py -- one tarnd --supervise under test: a parent, the child that serves, what they log."""
import json
import os
import re
import resource
import shutil
import signal
import socket
import tempfile

import tarnd


def no_cores():
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


class Supervised(tarnd.Tarnd):
    """A supervisor; its binary is a symbolic link that a test may replace."""

    def __init__(self, program, config, arguments=("--supervise",)):
        self.home = tempfile.mkdtemp(prefix="tarn-bin.")
        self.binary = os.path.join(self.home, "tarnd")
        self.log = open(os.path.join(self.home, "log"), "w+b")
        os.symlink(program, self.binary)
        super().__init__(self.binary, config, before=no_cores, stderr=self.log, arguments=arguments)
        self.admin = os.path.join(self.dir, "admin.sock")

    def tidy(self):
        super().tidy()
        self.log.close()
        shutil.rmtree(self.home, ignore_errors=True)

    def said(self):
        with open(self.log.name, "rb") as f:
            return f.read().decode("ascii")

    def wait_for_words(self, pattern, times=1):
        """Until the log has it so often; answers with what was found."""
        found = []

        def there():
            found[:] = re.findall(pattern, self.said())
            return len(found) >= times

        try:
            tarnd.wait_until(there, f"the log has {pattern!r}")
        except AssertionError as e:
            raise AssertionError(f"{e}; it says\n{self.said()}") from None
        return found

    def ask_admin(self, target, method="GET"):
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(tarnd.PATIENCE_S)
            s.connect(self.admin)
            s.sendall(tarnd.request(target, "Connection: close", method=method, host="tarn"))
            return json.loads(tarnd.Answer(tarnd.read_to_end(s)).body)

    def child(self):
        """The process that serves."""
        return self.ask_admin("/v1/status")["pid"]

    def upgrade(self):
        """Returns when the old process does not serve any more; answers with the new one."""
        old = self.child()
        ready = len(re.findall("the supervisor is tarnd", self.said()))
        self.process.send_signal(signal.SIGUSR2)
        self.wait_for_words("the supervisor is tarnd", ready + 1)
        self.wait_for_words(rf"tarnd\[{old}\] info: another tarnd serves")
        return self.child()

    def write_binary(self, text):
        """What lies where the next binary is looked for."""
        os.unlink(self.binary)
        with open(self.binary, "w", encoding="ascii") as f:
            f.write(text)
        os.chmod(self.binary, 0o755)

    def edit(self, change):
        with open(self.config, "r+", encoding="utf-8") as f:
            text = change(f.read())
            f.seek(0)
            f.truncate()
            f.write(text)
