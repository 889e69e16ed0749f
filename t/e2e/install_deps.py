#!/usr/bin/env python3
"""install_deps.py [TEST...] -- what scripts/install-deps prints for each system.  Nothing is installed."""
import os
import re
import shutil
import subprocess
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SCRIPT = os.path.join(ROOT, "scripts/install-deps")
SYSTEMS = ("debian", "ubuntu", "fedora", "alpine")
# What the script calls, but for package managers.
TOOLS = ("awk", "cat", "dirname", "mount", "sed", "sh", "tr")


def install_deps(*args):
    return subprocess.run([SCRIPT, *args], capture_output=True, text=True, timeout=30)


class List(unittest.TestCase):
    def test_each_system_has_names_of_its_own(self):
        ours = {"debian": "libuv1-dev", "ubuntu": "libuv1-dev", "fedora": "libuv-devel", "alpine": "libuv-dev"}
        for system in SYSTEMS:
            done = install_deps("--list", system)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            names = done.stdout.split("\n")[:-1]
            self.assertIn(ours[system], names)
            self.assertGreater(len(names), 15)
            self.assertEqual(len(names), len(set(names)))
            for name in names:
                self.assertRegex(name, r"^[a-z0-9][a-z0-9.+-]+$")
            more = install_deps("--test", "--list", system).stdout.split("\n")[:-1]
            self.assertEqual(more[:len(names)], names)
            self.assertIn("varnish", more)

    def test_each_row_has_every_column(self):
        with open(SCRIPT, encoding="utf-8") as f:
            rows = re.search(r"(?s)\npackages='\n(.*?)'", f.read())[1].splitlines()
        for row in rows:
            self.assertEqual(len(row.split()), 2 + len(SYSTEMS), row)
            self.assertIn(row.split()[0], ("build", "test"))

    def test_an_unknown_system_or_option_is_refused(self):
        for args in (("--list", "plan9"), ("--list",), ("--frob",)):
            done = install_deps(*args)
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertIn("--list debian|ubuntu|fedora|alpine", done.stderr)

    def test_help_names_the_options(self):
        done = install_deps("--help")
        self.assertEqual(done.returncode, 0)
        for option in ("--test", "--list SYSTEM"):
            self.assertIn(option, done.stdout)


class Elsewhere(unittest.TestCase):
    """Other systems: an os-release of their own, and their package manager by a script."""

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="tarn-e2e.")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        for tool in TOOLS:
            os.symlink(shutil.which(tool), os.path.join(self.folder, tool))
        alone = ["unshare", "--map-root-user", "--mount"]
        if subprocess.run([*alone, "true"], capture_output=True).returncode != 0:
            self.skipTest("a process may not have namespaces of its own here")

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        os.chmod(path, 0o755)
        return path

    def run_on(self, os_release, *args):
        release = self.write("os-release", os_release)
        # lib.sh appends /usr/sbin and /sbin, where no apt-get is.
        return subprocess.run(
            ["unshare", "--map-root-user", "--mount", "env", f"PATH={self.folder}", "sh", "-euc",
             'mount --bind "$0" /etc/os-release; exec sh "$@"', release, SCRIPT, *args],
            capture_output=True, text=True, timeout=30)

    def test_fedora_gets_a_command_of_what_is_missing(self):
        self.write("rpm", '#!/bin/sh\nfor p in "$@"; do case $p in gcc|cmake) echo "$p";; esac; done\n'
                          'echo "package libuv-devel is not installed"\nexit 1\n')
        done = self.run_on("ID=fedora\nVERSION_ID=42\n")
        self.assertEqual(done.returncode, 1)
        command = re.search(r"(?m)^    dnf install (.*)$", done.stderr)[1].split()
        self.assertIn("libuv-devel", command)
        self.assertNotIn("gcc", command)
        self.assertNotIn("varnish", command)
        self.assertIn("varnish", self.run_on("ID=fedora\n", "--test").stderr)

    def test_a_relative_of_fedora_is_taken_for_it(self):
        self.write("rpm", "#!/bin/sh\nexit 1\n")
        self.assertIn("dnf install", self.run_on('ID="rocky"\nID_LIKE="rhel centos fedora"\n').stderr)

    def test_alpine_needs_nothing_when_all_is_there(self):
        self.write("apk", '#!/bin/sh\nshift 2\nfor p in "$@"; do echo "$p"; done\n')
        done = self.run_on("ID=alpine\n", "--test")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.write("apk", "#!/bin/sh\nexit 1\n")
        self.assertIn("    apk add ca-certificates gcc musl-dev ", self.run_on("ID=alpine\n").stderr)

    def test_an_unknown_system_gets_the_names_of_debian(self):
        done = self.run_on("ID=plan9\n")
        self.assertEqual(done.returncode, 1)
        self.assertIn(" libuv1-dev ", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
