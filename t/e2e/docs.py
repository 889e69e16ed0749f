#!/usr/bin/env python3
"""docs.py BIN [PAGE...] -- the user's guide does what it says: every block of docs/*.md is run.

Each page has a world of its own, network and mounts included, in which ports 80 and 3000, /etc/tarn, /run/tarn
and /var/log/tarn are free, and the user tarn is there.  The reader's site answers at 127.0.0.1:3000, and others at 3001 and 3002 (docs_site.py).
Its blocks are taken in their order:

  yaml   a configuration, or a part of one: what it does not say (listen, backends, admin) is added.  `tarnd -t` must
         take it, and a tarnd serves by it from there on.  One that begins with "# FILE" is another file
  vcl    the policy; as for yaml, with `vcl: site.vcl`
  sh     commands, one by one; each must succeed, and print what stands behind `# => ` at the end of its line
  others are text

What the reader does not see: <!-- docs: WORD ... --> in front of a block.

  skip REASON      the block is not run here; the reason is printed
  fails            the configuration is a mistake: `tarnd -t` must refuse it
  is the answer    of a text: each of its lines was said by what has failed
  run COMMAND      a command of the test's, such as `site stop 3000`

Skipped with a word (77) where a process may not have namespaces of its own.
"""
import fcntl
import os
import re
import shlex
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

try:
    import yaml
except ImportError as e:
    sys.exit(f"docs.py: {e.name} is missing (scripts/install-deps --test)")

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
DOCS = os.path.join(ROOT, "docs")
PATIENCE_S = 20
SKIPPED = 77
ETC = "/etc/tarn"

BASE = {
    "listen": [{"address": "*:80"}],
    "storage": {"main": {"engine": "malloc", "size": "64MiB"}},
    "backends": {"site": {"address": "127.0.0.1:3000"}},
    "admin": {"address": "unix:/run/tarn/admin.sock"},
}

# What systemd does with the package's unit, for a world without systemd.
SYSTEMCTL = """#!/bin/sh
pid=/run/tarn-world/tarnd.pid
stop() {
    [ -f $pid ] || return 0
    kill -TERM $(cat $pid) 2>/dev/null
    while grep -q '^State:.[^Z]' /proc/$(cat $pid)/status 2>/dev/null; do sleep .05; done
    rm -f $pid
}
start() {
    tarnd -t -c /etc/tarn/tarn.yaml || exit 1
    rm -f /run/tarn-world/tarnd.out # what the one before said
    tarnd --supervise -c /etc/tarn/tarn.yaml >/run/tarn-world/tarnd.out 2>>/run/tarn-world/tarnd.log </dev/null &
    echo $! >$pid
    for i in $(seq 200); do
        grep -q '^tarnd: ready' /run/tarn-world/tarnd.out && return 0
        sleep .05
    done
    cat /run/tarn-world/tarnd.log >&2
    exit 1
}
case "$1 $2" in
"start tarn") [ -f $pid ] || start ;;
"restart tarn") stop; start ;;
"reload tarn") tarnctl reload ;;
"stop tarn") stop ;;
"status tarn") [ -f $pid ] && kill -0 $(cat $pid) ;;
*) echo "systemctl $*: unknown in this world" >&2; exit 1 ;;
esac
"""


JOURNALCTL = """#!/bin/sh
# journalctl -u tarn -n LINES
exec tail -n "$4" /run/tarn-world/tarnd.log
"""


class Wrong(Exception):
    pass


# ---- The page ----

FENCE = re.compile(r"^( *)```(\w*)[^\n]*\n(.*?)^\1```[ \t]*$|<!-- docs: (.*?) -->", re.M | re.S)


def blocks(text):
    """(line, kind, text, words) of each block, in order."""
    words = []
    for m in FENCE.finditer(text):
        if m.group(4) is not None:
            words.append(m.group(4))
            continue
        indent = m.group(1)
        body = "".join(l[len(indent):] if l.startswith(indent) else l
                       for l in m.group(3).splitlines(keepends=True))
        yield text.count("\n", 0, m.start()) + 1, m.group(2), body, words
        words = []


def commands(text):
    """The commands of a sh block: lines together until the shell takes them as whole."""
    whole = ""
    for line in text.splitlines():
        whole += line + "\n"
        if whole.rstrip("\n").endswith("\\"):
            continue
        judged = subprocess.run(["bash", "-n"], input=whole, text=True, capture_output=True)
        if judged.returncode == 0 and "here-document" not in judged.stderr:  # that is a warning alone
            if whole.strip() and not all(l.strip().startswith("#") or not l.strip()
                                         for l in whole.splitlines()):
                yield whole
            whole = ""
    if whole.strip():
        raise Wrong(f"no whole command: {whole}")


# ---- Its world ----

class World:
    def __init__(self, programs):
        self.folder = tempfile.mkdtemp(prefix="tarn-docs.")
        self.last = ""  # what tarnd -t said last
        for place in (ETC, "/run/tarn", "/var/log/tarn", "/run/tarn-world"):
            os.makedirs(place, exist_ok=True)
        for place in ("/run/tarn", "/var/log/tarn"):
            shutil.chown(place, "tarn")  # as the package has it
        os.makedirs("/run/tarn-world/bin")
        with open("/run/tarn-world/bin/systemctl", "w", encoding="utf-8") as f:
            f.write(SYSTEMCTL)
        with open("/run/tarn-world/bin/site", "w", encoding="utf-8") as f:
            f.write(f'#!/bin/sh\nexec {sys.executable} {os.path.join(HERE, "docs_site.py")} "$@"\n')
        with open("/run/tarn-world/bin/journalctl", "w", encoding="utf-8") as f:
            f.write(JOURNALCTL)
        for name in ("systemctl", "journalctl", "site"):
            os.chmod(f"/run/tarn-world/bin/{name}", 0o755)
        os.environ["PATH"] = f"/run/tarn-world/bin:{programs}:" + os.environ["PATH"]
        os.environ["HOME"] = self.folder
        self.vcl = None
        self.config = None
        for port in (3000, 3001, 3002):
            self.shell(f"site start {port}")

    def close(self):
        self.shell("systemctl stop tarn")
        for port in (3000, 3001, 3002):
            self.shell(f"site stop {port}", check=False)
        shutil.rmtree(self.folder, ignore_errors=True)

    def shell(self, command, check=True):
        done = subprocess.run(["bash", "-o", "pipefail", "-ec", command], cwd=self.folder, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                              timeout=60, errors="replace")
        if check and done.returncode != 0:
            raise Wrong(f"{command.strip()}\n  exit status {done.returncode}: {done.stdout}")
        return done.stdout

    def save(self, name, text):
        path = os.path.join(ETC, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)

    def configure(self, text, fails):
        """As the package's user would: the file, tarnd -t, and a tarnd that goes by it."""
        said = yaml.safe_load(text) or {}
        if not isinstance(said, dict):
            raise Wrong("this is no map of a configuration's sections")
        whole = "listen" in said and "backends" in said
        merged = text if whole else text + yaml.safe_dump(
            {k: v for k, v in BASE.items() if k not in said and not (k == "backends" and "vcl" in said)})
        if whole and "admin" not in said:
            merged += yaml.safe_dump({"admin": BASE["admin"]})
        self.save("tarn.yaml", merged)
        self.check(fails)
        self.config = None if fails else merged

    def check(self, fails):
        done = subprocess.run(["tarnd", "-t", "-c", f"{ETC}/tarn.yaml"], text=True, capture_output=True)
        self.last = done.stdout + done.stderr
        if (done.returncode != 0) != fails:
            raise Wrong("tarnd -t " + ("takes this: " if fails else "refuses this: ") + self.last)
        if not fails:
            self.shell("systemctl restart tarn")

    def policy(self, text, fails):
        self.save("site.vcl", text)
        config = dict(BASE)
        if re.search(r"^\s*backend\s", text, re.M):
            del config["backends"]
        self.save("tarn.yaml", yaml.safe_dump({**config, "vcl": "site.vcl"}))
        self.check(fails)

    def do(self, kind, text, words):
        fails = "fails" in words
        if kind == "yaml":
            named = re.match(r"# (/etc/tarn/)?([\w./-]+\.\w+)\n", text)
            if named and named.group(2) != "tarn.yaml":
                self.save(named.group(2), text)
            else:
                self.configure(text, fails)
        elif kind == "vcl":
            self.policy(text, fails)
        elif kind == "sh":
            for command in commands(text):
                want = re.search(r"# => (.*)$", command.rstrip(), re.M)
                printed = self.shell(command)
                if want and want.group(1).strip() not in printed:
                    raise Wrong(f"{command.strip()}\n  printed {printed!r}")
        elif kind == "text" and self.last and "is the answer" in words:
            for line in text.strip().splitlines():
                if line.strip() not in self.last:
                    raise Wrong(f"tarnd -t does not say {line.strip()!r}: {self.last}")


def run_page(page, programs):
    """Inside the page's world: how many blocks did what."""
    with open(os.path.join(DOCS, page), encoding="utf-8") as f:
        text = f.read()
    world = World(programs)
    wrong = ran = 0
    try:
        for line, kind, body, words in blocks(text):
            if any(w.startswith("skip ") for w in words):
                print(f"docs/{page}:{line}: not run here: " + next(w[5:] for w in words if w.startswith("skip ")))
                continue
            try:
                for w in words:
                    if w.startswith("run "):
                        world.shell(w[4:])
                world.do(kind, body, words)
                ran += kind in ("yaml", "vcl", "sh")
            except (Wrong, subprocess.TimeoutExpired, yaml.YAMLError) as e:
                wrong += 1
                print(f"docs/{page}:{line}: {e}", flush=True)
    finally:
        world.close()
    print(f"docs/{page}: {ran} blocks run, {wrong} wrong", flush=True)
    return wrong


# ---- Into it ----

def loopback_up():
    with socket.socket() as s:
        fcntl.ioctl(s, 0x8914, struct.pack("16sh14x", b"lo", 0x1 | 0x40))  # SIOCSIFFLAGS, IFF_UP | IFF_RUNNING


def add_user():
    """The package's user and its group, in this world alone."""
    for name, line in (("passwd", "tarn:x:64999:64999::/nonexistent:/usr/sbin/nologin\n"),
                       ("group", "tarn:x:64999:\n")):
        with open(f"/etc/{name}", encoding="utf-8") as f:
            lines = [l for l in f if not l.startswith("tarn:")]
        with open(f"/run/{name}", "w", encoding="utf-8") as f:
            f.write("".join([*lines, line]))
        subprocess.run(["mount", "--bind", f"/run/{name}", f"/etc/{name}"], check=True)


def inside(page, programs):
    loopback_up()
    for place in ("/run", "/var/log", "/etc/tarn"):
        if place == "/etc/tarn" and not os.path.isdir(place):
            os.makedirs(place, exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "tarn-docs", place], check=True)
    add_user()
    return run_page(page, programs)


def pages():
    return sorted(n for n in os.listdir(DOCS) if n.endswith(".md"))


def main():
    if len(sys.argv) >= 4 and sys.argv[1] == "--inside":
        sys.exit(1 if inside(sys.argv[3], sys.argv[2]) else 0)
    if len(sys.argv) < 2:
        sys.exit("usage: docs.py BIN [PAGE...]")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    programs = os.path.abspath(sys.argv[1])
    unshare = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    if os.geteuid() != 0 or subprocess.run([*unshare, "true"], capture_output=True).returncode != 0:
        print("docs.py: skipped, a process may not have namespaces of its own here")
        sys.exit(SKIPPED)
    began, wrong = time.monotonic(), 0
    for page in sys.argv[2:] or pages():
        wrong += subprocess.run([*unshare, sys.executable, os.path.abspath(__file__), "--inside", programs,
                                 os.path.basename(page)]).returncode != 0
    print(f"{wrong} pages wrong, {time.monotonic() - began:.0f} s")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
