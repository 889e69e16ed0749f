#!/usr/bin/env python3
"""h2_clients.py TARND [TEST...] -- clients of HTTP/2 that are not ours: curl, nghttp, h2load, Node, Go.

By prior knowledge and by TLS; each where it is installed.
"""
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
import h2_world
import tarnd
from h2_world import HIT, HIT_BODY
from origin import body
from tls_world import pki

MIB = 1 << 20

GO = """package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
)

func main() {
	pem, _ := os.ReadFile(os.Args[2])
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	client := &http.Client{Transport: &http.Transport{ForceAttemptHTTP2: true,
		TLSClientConfig: &tls.Config{RootCAs: pool, ServerName: "a.test"}}}
	var group sync.WaitGroup
	for i := 0; i < 64; i++ {
		group.Add(1)
		go func(i int) {
			defer group.Done()
			response, err := client.Get(fmt.Sprintf("%s/body?n=%d&framing=chunked", os.Args[1], i*1000))
			if err != nil {
				fmt.Println(err)
				os.Exit(1)
			}
			body, err := io.ReadAll(response.Body)
			if err != nil || len(body) != i*1000 || response.Proto != "HTTP/2.0" {
				fmt.Println(i, err, len(body), response.Proto)
				os.Exit(1)
			}
		}(i)
	}
	group.Wait()
	response, err := client.Post(os.Args[1]+"/sum", "text/plain", &io.LimitedReader{R: zero{}, N: 300000})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	body, _ := io.ReadAll(response.Body)
	fmt.Printf("%s\\n", body)
}

type zero struct{}

func (zero) Read(p []byte) (int, error) { return len(p), nil }
"""

NODE = """
const http2 = require('http2'), fs = require('fs');
const [url, ca] = process.argv.slice(1);
const session = http2.connect(url, ca ? { ca: fs.readFileSync(ca), servername: 'a.test' } : {});
session.on('error', e => { console.log('session', e); process.exit(1); });
let left = 65;
const done = () => { if (--left == 0) session.close(); };
for (let i = 0; i < 64; i++) {
  const r = session.request({ ':path': `/body?n=${i * 1000}&framing=length`, ':authority': 'a.test' });
  let n = 0, status = 0;
  r.on('response', h => { status = h[':status']; });
  r.on('data', d => { n += d.length; });
  r.on('error', e => { console.log(i, e); process.exit(1); });
  r.on('end', () => { if (n != i * 1000 || status != 200) { console.log(i, n, status); process.exit(1); } done(); });
  r.end();
}
const post = session.request({ ':path': '/sum', ':method': 'POST', ':authority': 'a.test' });
post.setEncoding('utf8');
post.on('data', d => console.log(d));
post.on('end', done);
for (let i = 0; i < 30; i++) post.write(Buffer.alloc(10000));
post.end();
"""
ZEROS = b"300000 " + hashlib.sha256(b"\0" * 300000).hexdigest().encode()


def program(name, *others):
    for place in (name, *others):
        if found := shutil.which(place):
            return found
    raise unittest.SkipTest(f"{name} is not installed")


class Clients(h2_world.World):
    def run_it(self, *command, ok=0, **more):
        it = subprocess.run(command, capture_output=True, timeout=tarnd.PATIENCE_S * 2, check=False, **more)
        self.assertEqual(it.returncode, ok, (it.stdout[-2000:] + it.stderr[-2000:]).decode(errors="replace"))
        return it.stdout

    def test_curl(self):
        curl = program("curl")
        if b"HTTP2" not in self.run_it(curl, "--version"):
            self.skipTest("this curl does not speak HTTP/2")
        it = self.h2()
        plain = ["--http2-prior-knowledge", f"http://127.0.0.1:{it.port}"]
        secure = ["--http2", "--cacert", pki().ca.pem, "--resolve", f"a.test:{it.secure_port}:127.0.0.1",
                  f"https://a.test:{it.secure_port}"]
        for *flags, base in (plain, secure):
            run = lambda target, *more: self.run_it(curl, "-sS", "-w", "|%{http_code} %{http_version}", *flags, *more,
                                                    base + target)
            for _ in range(2):
                self.assertEqual(run(HIT), HIT_BODY + b"|200 2")
            self.assertTrue(run(f"/body?n={5 * MIB}&framing=chunked") == body(5 * MIB) + b"|200 2")
            self.assertTrue(run("/echo", "--data-binary", "@-", "-H", "Content-Type: x/y") == b"|200 2")
            with tempfile.NamedTemporaryFile() as f:
                f.write(body(MIB))
                f.flush()
                self.assertTrue(run("/echo", "-T", f.name) == body(MIB) + b"|200 2")
                self.assertTrue(run("/echo", "--data-binary", "@" + f.name, "-H", "Expect: 100-continue") ==
                                body(MIB) + b"|200 2")
            self.assertEqual(run(HIT, "-r", "10-19"), HIT_BODY[10:20] + b"|206 2")
            self.assertEqual(run(HIT, "-I")[-6:], b"|200 2")
            if flags[0] == "--http2":  # curl 7.88 cannot use a connection of prior knowledge twice, with any server
                many = self.run_it(curl, "-sS", "-Z", *flags, "-o", "/dev/null", "-w", "%{http_code} %{size_download}\n",
                                   f"{base}/body?n=[1000-1060]&framing=length")
                self.assertEqual(sorted(many.split()[1::2]), sorted(b"%d" % n for n in range(1000, 1061)))

    def test_nghttp(self):
        nghttp = program("nghttp")
        it = self.h2()
        for base in (f"http://127.0.0.1:{it.port}", f"https://127.0.0.1:{it.secure_port}"):
            out = self.run_it(nghttp, "-nv", "-m10", "-y" if base.startswith("https") else "-n", base + HIT).decode()
            self.assertEqual(out.count(":status: 200"), 10)
            self.assertNotIn("[INVALID", out)

    def test_h2load(self):
        h2load = program("h2load")
        it = self.h2()
        for base in (f"http://127.0.0.1:{it.port}", f"https://127.0.0.1:{it.secure_port}"):
            for streams in (1, 16, 100):
                out = self.run_it(h2load, "-n3000", "-c5", f"-m{streams}", base + HIT).decode()
                self.assertIn("3000 succeeded, 0 failed, 0 errored, 0 timeout", out)
                self.assertIn("status codes: 3000 2xx", out)

    def test_node(self):
        node = program("node", "nodejs")
        it = self.h2()
        self.assertEqual(self.run_it(node, "-e", NODE, "--", f"http://127.0.0.1:{it.port}").split(), ZEROS.split())
        self.assertEqual(self.run_it(node, "-e", NODE, "--", f"https://127.0.0.1:{it.secure_port}", pki().ca.pem).split(),
                         ZEROS.split())

    def test_go(self):
        go = program("go", "/usr/local/go/bin/go")
        it = self.h2()
        folder = tempfile.mkdtemp(prefix="tarn-h2.")
        self.addCleanup(shutil.rmtree, folder)
        with open(os.path.join(folder, "main.go"), "w", encoding="ascii") as f:
            f.write(GO)
        out = self.run_it(go, "run", "main.go", f"https://127.0.0.1:{it.secure_port}", pki().ca.pem, cwd=folder,
                          env={**os.environ, "GOTOOLCHAIN": "local", "GO111MODULE": "off", "GOFLAGS": "", "CGO_ENABLED": "0"})
        self.assertEqual(out.strip(), ZEROS)


if __name__ == "__main__":
    h2_world.main(None, __doc__, verbosity=2)
