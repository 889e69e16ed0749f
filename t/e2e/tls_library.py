#!/usr/bin/env python3
"""tls_library.py LIBRARY TARND TARNCTL TARN_ACME [TEST...] -- each process has one libcrypto, and the right one.

LIBRARY is TARN_TLS of the build, openssl or aws-lc.  AWS-LC has OpenSSL's names: were a call resolved in the other's
library, it would find the other's structures.  So the dynamic linker is asked what it has bound, with the system's
OpenSSL loaded as well: a module of the name service may bring it.
"""
import os
import re
import ssl
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True
import tarnd
from origin import Origin, body
from tls_world import World, client_context, pki

library, tarnctl, acme, origin = None, None, None, None
TLS_FILE = re.compile(r"lib(ssl|crypto)\.so")
BINDING = re.compile(r"binding file (\S+) \[\d+\] to (\S+) \[\d+\]: normal symbol `([^']+)'")
# Data of libc that a program has a copy of: whoever names it means libc's.
LIBC = {"stdin", "stdout", "stderr", "environ", "__environ", "optarg", "optind"}
HIT = "/body?n=1000&framing=length"


def bindings(program, *preload):
    """(from, to, symbol) of all that is bound when the program starts, by the last part of each file's name."""
    env = {**os.environ, "LD_DEBUG": "bindings", "LD_BIND_NOW": "1", "LD_PRELOAD": " ".join(preload)}
    done = subprocess.run([program, "-V"], env=env, capture_output=True, text=True, timeout=tarnd.PATIENCE_S,
                          check=True)
    found = {(os.path.basename(a), os.path.basename(b), symbol) for a, b, symbol in BINDING.findall(done.stderr)}
    return done.stdout, found


def systems():
    """Files of the system's libssl and libcrypto: those of the program with libcurl."""
    said = subprocess.run(["ldd", acme], capture_output=True, text=True, timeout=tarnd.PATIENCE_S, check=True).stdout
    return re.findall(r"=> (\S*/lib(?:ssl|crypto)\.so\S*)", said)


class Library(World):
    def test_it_is_the_one_that_was_asked_for(self):
        said, found = bindings(self.program)
        self.assertRegex(said, "AWS-LC [5-9]" if library == "aws-lc" else "OpenSSL 3")
        loaded = {b for _, b, _ in found if TLS_FILE.match(b)}
        self.assertEqual(bool(loaded), library == "openssl", loaded)

    def test_programs_with_libcurl_have_the_systems(self):
        for program in (acme, tarnctl):
            found = bindings(program)[1]
            self.assertGreater(len({s for a, b, s in found if a.startswith("libcurl") and TLS_FILE.match(b)}), 20)
            with open(program, "rb") as f:
                self.assertNotIn(b"AWS-LC", f.read(), program)

    def test_no_symbol_is_resolved_across(self):
        files = systems()
        self.assertEqual(len(files), 2, files)
        found = bindings(self.program, *files)[1]
        self.assertGreater(len([1 for a, b, _ in found if a.startswith("libssl") and b.startswith("libcrypto")]), 100)
        ours = os.path.basename(self.program)
        out = {s for a, b, s in found if a == ours and TLS_FILE.match(b)}
        into = {s for a, b, s in found if TLS_FILE.match(a) and b == ours} - LIBC
        self.assertEqual(into, set())
        if library == "aws-lc":
            self.assertEqual(out, set())
        else:
            self.assertGreater(len(out), 50)  # what this test would find

    def test_it_serves_beside_the_systems(self):
        it = self.start(f"backends: {{ default: {{ address: '{origin.address}' }} }}\n",
                        f"    tls: {{ certificates: {pki().certs} }}\n",
                        environment={"LD_PRELOAD": " ".join(systems())})
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            for _ in range(2):
                answer = it.ask_tls(HIT, context=client_context(least=version, most=version))
                self.assertEqual(answer.body, body(1000))


if __name__ == "__main__":
    library, World.program, tarnctl, acme = sys.argv[1], *map(os.path.abspath, sys.argv[2:5])
    origin = Origin()
    try:
        unittest.main(argv=[sys.argv[0], *sys.argv[5:]])
    finally:
        origin.close()
