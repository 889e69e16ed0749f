#!/usr/bin/env python3
"""configure.py BUILD [TEST...] -- TARN_LLHTTP_DIR: cmake configures with sources that are there already.

They are those of the build folder BUILD.  Nothing is compiled.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CONFIGURE_S = 120
build = None


def sources():
    """The llhttp directory that BUILD was configured with."""
    with open(os.path.join(build, "CMakeCache.txt"), encoding="utf-8") as f:
        given = re.search(r"(?m)^TARN_LLHTTP_DIR:PATH=(.+)$", f.read())
    return given[1] if given else os.path.join(build, "third_party/llhttp")


class Llhttp(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="tarn-e2e.")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.llhttp = os.path.join(self.folder, "llhttp")
        shutil.copytree(sources(), self.llhttp)

    def configure(self, *options):
        """Without a network: by a namespace where one may be had, and by what pip and its cache see."""
        alone = ["unshare", "--map-root-user", "--net"]
        if subprocess.run([*alone, "true"], capture_output=True).returncode != 0:
            alone = []
        env = {k: v for k, v in os.environ.items() if not k.startswith("PIP_")}
        env.update(HOME=self.folder, XDG_CACHE_HOME=self.folder, PIP_NO_INDEX="1")
        return subprocess.run(
            [*alone, "cmake", "-S", ROOT, "-B", os.path.join(self.folder, "build"),
             "-DCMAKE_BUILD_TYPE=Debug", "-DTARN_TESTS=OFF", *options],
            env=env, capture_output=True, text=True, timeout=CONFIGURE_S)

    def refused(self, *words):
        done = self.configure(f"-DTARN_LLHTTP_DIR={self.llhttp}")
        self.assertNotEqual(done.returncode, 0)
        said = " ".join(done.stderr.split())  # cmake breaks lines
        for word in words:
            self.assertIn(word, said)

    def test_a_directory_of_sources_needs_no_network(self):
        done = self.configure(f"-DTARN_LLHTTP_DIR={self.llhttp}")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertFalse(os.path.exists(os.path.join(self.folder, "build/third_party")))
        with open(os.path.join(self.folder, "build/compile_commands.json"), encoding="utf-8") as f:
            self.assertIn(f"{self.llhttp}/src/llhttp.c", f.read())

    def test_without_it_and_without_a_network_the_error_says_what_to_do(self):
        done = self.configure()
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("TARN_LLHTTP_DIR", done.stderr)

    def test_missing_files_are_named(self):
        os.unlink(os.path.join(self.llhttp, "src/http.c"))
        shutil.rmtree(os.path.join(self.llhttp, "include"))
        self.refused(f"no llhttp in {self.llhttp}: missing include/llhttp.h src/http.c", "TARN_LLHTTP_DIR")

    def test_an_older_version_is_refused(self):
        path = os.path.join(self.llhttp, "include/llhttp.h")
        with open(path, encoding="utf-8") as f:
            text = f.read()
        with open(path, "w", encoding="utf-8") as f:
            f.write(re.sub(r"(?m)^(#define LLHTTP_VERSION_MAJOR) \d+$", r"\1 6", text))
        self.refused(f"llhttp in {self.llhttp} is version 6.", "or later is needed")


def main():
    global build
    if len(sys.argv) < 2:
        sys.exit("usage: configure.py BUILD [TEST...]")
    build = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)


if __name__ == "__main__":
    main()
