#!/usr/bin/env python3
"""acme_pebble.py TARN_ACME ACME_AT [TEST...] -- tarn-acme against Pebble, Let's Encrypt's CA for tests.

scripts/fetch-pebble builds it; skipped (77) where there is no Go.  Pebble's resolver is pebble-challtestsrv, which
leads every name to 127.0.0.1; it refuses good nonces now and then, as it does by default and more often.  What tarnd
does with the state directory is done by servers of this test's own (acme_world.py).
"""
import json
import os
import ssl
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

sys.dont_write_bytecode = True
import acme_world
from acme_world import openssl
from tarnd import free_port

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SKIPPED = 77
NONCE_REJECT_PERCENT = "25"
DAY = 86400
EAB_KID, EAB_KEY = "kid-1", "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W"
tarn_acme = acme_at = None


class Pebble:
    def __init__(self, programs, external_account=False, ports=None, nonce_reject=NONCE_REJECT_PERCENT):
        """`ports`: where it asks for http-01 and tls-alpn-01; None: at servers of its own."""
        self.folder = tempfile.mkdtemp(prefix="tarn-pebble.")
        authority = acme_world.Authority(self.folder)
        pem, key = authority.server()
        self.ca = authority.pem
        self.http, self.alpn = acme_world.HttpChallenges(), acme_world.AlpnChallenges(tempfile.mkdtemp(dir=self.folder))
        self.port, self.management = free_port(), free_port()
        http_port, alpn_port = ports or (self.http.port, self.alpn.port)
        dns, dns_management = free_port(), free_port()
        config = {"listenAddress": f"127.0.0.1:{self.port}", "managementListenAddress": f"127.0.0.1:{self.management}",
                  "certificate": pem, "privateKey": key, "httpPort": http_port, "tlsPort": alpn_port,
                  "ocspResponderURL": "", "externalAccountBindingRequired": external_account,
                  "externalAccountMACKeys": {EAB_KID: EAB_KEY} if external_account else {},
                  "retryAfter": {"authz": 1, "order": 1}, "keyAlgorithm": "ecdsa",
                  "domainBlocklist": ["blocked.test"],
                  "profiles": {"default": {"description": "90 days", "validityPeriod": 90 * DAY}}}
        path = os.path.join(self.folder, "pebble.json")
        with open(path, "w", encoding="utf-8") as f:
            json.dump({"pebble": config}, f)
        self.log = open(os.path.join(self.folder, "log"), "w+", encoding="utf-8")
        self.processes = [
            subprocess.Popen([os.path.join(programs, "pebble-challtestsrv"), "-dnsserver", f"127.0.0.1:{dns}",
                              "-management", f"127.0.0.1:{dns_management}", "-http01", "", "-https01", "", "-tlsalpn01",
                              "", "-doh", "", "-defaultIPv6", ""], stdout=self.log, stderr=self.log),
            subprocess.Popen([os.path.join(programs, "pebble"), "-config", path, "-strict", "-dnsserver",
                              f"127.0.0.1:{dns}"], stdout=self.log, stderr=self.log,
                             env={**os.environ, "PEBBLE_VA_NOSLEEP": "1", "PEBBLE_AUTHZREUSE": "0",
                                  "PEBBLE_WFE_NONCEREJECT": nonce_reject, "PEBBLE_CHAIN_LENGTH": "2"})]
        self.directory = f"https://127.0.0.1:{self.port}/dir"
        self.context = ssl.create_default_context(cafile=self.ca)
        deadline = time.monotonic() + acme_world.PATIENCE_S
        while True:
            try:
                self.urls = json.loads(self.ask(self.directory))
                break
            except OSError:
                assert time.monotonic() < deadline, "Pebble does not answer"
                assert self.processes[1].poll() is None, open(self.log.name, encoding="utf-8").read()
                time.sleep(0.05)

    def ask(self, url, data=None):
        with urllib.request.urlopen(urllib.request.Request(url, data=data), timeout=10, context=self.context) as answer:
            return answer.read()

    def suggest(self, certificate, answer):
        """Its renewal information of a certificate from now on, as the text of the answer."""
        body = json.dumps({"Certificate": certificate, "ARIResponse": answer}).encode()
        self.ask(f"https://127.0.0.1:{self.management}/set-renewal-info/", body)

    def says(self):
        self.log.flush()
        with open(self.log.name, encoding="utf-8") as f:
            return f.read()

    def close(self):
        for process in self.processes:
            process.terminate()
            process.wait(timeout=acme_world.PATIENCE_S)
        self.log.close()
        self.http.close()
        self.alpn.close()


def window(start_s, end_s):
    stamp = lambda s: time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + s))
    return json.dumps({"suggestedWindow": {"start": stamp(start_s), "end": stamp(end_s)}})


class WithPebble(acme_world.World):
    programs = pebble = None
    external_account = False

    @classmethod
    def setUpClass(cls):
        cls.pebble = Pebble(cls.programs, cls.external_account)
        cls.directory, cls.ca = cls.pebble.directory, cls.pebble.ca
        cls.program = acme_at

    @classmethod
    def tearDownClass(cls):
        cls.pebble.close()

    def setUp(self):
        super().setUp()
        self.pebble.http.state = self.pebble.alpn.state = self.state


class Certificates(WithPebble):
    def test_one_is_had_by_http_01_and_is_then_fresh(self):
        said = self.run_("--email", "admin@example.com", "a.test")
        self.assertIn("a.test: a new certificate, good until", said.out)
        self.assertEqual(self.names("a.test"), ["a.test"])
        self.assertEqual(self.certificate("a.test").count("BEGIN CERTIFICATE"), 3)  # two intermediates
        self.assertEqual(sorted(os.listdir(self.state)),
                         ["account.json", "account.key", "certs", "challenges", "lock", "state.json"])
        for file in ("account.json", "account.key", "lock", "state.json"):
            self.assertEqual(os.stat(os.path.join(self.state, file)).st_mode & 0o777, 0o600, file)
        before = self.certificate("a.test")
        said = self.run_("--email", "admin@example.com", "a.test")
        self.assertRegex(said.out, r"\Aa\.test: fresh until \S+; renewal at \S+\n\Z")
        self.assertEqual(self.certificate("a.test"), before)

    def test_the_program_itself_does_the_same_without_a_clock_of_the_test(self):
        self.program = tarn_acme
        self.run_("itself.test")
        self.assertEqual(self.names("itself.test"), ["itself.test"])

    def test_one_is_had_by_tls_alpn_01(self):
        self.run_("--challenge", "tls-alpn-01", "b.test,www.b.test")
        self.assertEqual(self.names("b.test"), ["b.test", "www.b.test"])
        self.assertIn("www.b.test", self.pebble.alpn.seen)
        self.certificate("b.test")

    def test_rsa_keys_and_several_names(self):
        names = [f"n{i}.c.test" for i in range(5)]
        self.run_("--key", "rsa", ",".join(names))
        self.assertEqual(self.names("n0.c.test"), names)
        self.assertIn("Public-Key: (2048 bit)", openssl("x509", "-noout", "-text", "-in",
                                                       os.path.join(self.state, "certs/n0.c.test.pem")))
        self.assertIn("its key is not of the kind", self.run_(",".join(names)).out)  # ecdsa again

    def test_names_that_change_make_another_certificate(self):
        self.run_("d.test")
        said = self.run_("d.test,www.d.test")
        self.assertIn("its names have changed: it lacks the name www.d.test", said.out)
        self.assertEqual(self.names("d.test"), ["d.test", "www.d.test"])
        self.assertIn("it has the name www.d.test", self.run_("d.test").out)

    def test_the_account_is_made_once_and_its_contact_follows(self):
        self.run_("--email", "one@example.com", "e.test")
        account, key = self.files("account.json"), self.files("account.key")
        self.run_("--email", "two@example.com", "e2.test")
        url = json.loads(account["account.json"])[self.directory]["url"]
        now = json.loads(self.files("account.json")["account.json"])[self.directory]
        self.assertEqual((now["url"], now["email"]), (url, "two@example.com"))
        self.assertEqual(self.files("account.key"), key)

    def test_an_account_that_the_ca_does_not_know_is_made_anew(self):
        self.run_("f.test")
        path = os.path.join(self.state, "account.json")
        account = json.loads(self.files("account.json")["account.json"])
        account[self.directory]["url"] += "0000"
        with open(path, "w", encoding="utf-8") as f:
            json.dump(account, f)
        self.run_("f2.test")
        self.assertEqual(self.names("f2.test"), ["f2.test"])

    def test_one_that_fails_does_not_stop_the_others_and_waits_then(self):
        said = self.run_("blocked.test", "g.test", status=1)
        self.assertRegex(said.err, r"tarn-acme: blocked\.test: order: the CA answers HTTP 40\d, rejectedIdentifier: .+; "
                                   r"the CA gives no certificate for this name; leave it out")
        self.assertIn("g.test: a new certificate", said.out)
        record = self.record("blocked.test")
        self.assertEqual(record["failures"], 1)
        self.assertIn("rejectedIdentifier", record["last_error"])
        self.assertTrue(400 < record["next_attempt_s"] - record["last_attempt_s"] < 800, record)
        said = self.run_("blocked.test", "g.test", status=1)
        self.assertIn("blocked.test: waits until", said.err)
        self.assertEqual(self.record("blocked.test")["failures"], 1)
        self.run_("--retry", "blocked.test", status=1)
        self.assertEqual(self.record("blocked.test")["failures"], 2)

    def test_a_proof_that_is_not_served_is_refused_with_its_name_and_step(self):
        self.pebble.http.state = None
        said = self.run_("h.test,i.test", status=1)
        self.assertRegex(said.err, r"h\.test: http-01 for [hi]\.test: the CA answers unauthorized: .+; the CA got another "
                                   r"answer than ours")
        self.assertFalse(os.path.exists(os.path.join(self.state, "certs/h.test.pem")))

    def test_the_hook_runs_after_changes_and_again_after_it_failed(self):
        seen = os.path.join(self.folder, "seen")
        hook = f'echo "$TARN_ACME_CERTIFICATES in $TARN_ACME_STATE" >>{seen}; test -e {seen}.ok'
        said = self.run_("--hook", hook, "j.test", "k.test", status=1)
        self.assertIn("hook: exit status 1", said.err)
        open(seen + ".ok", "w", encoding="utf-8").close()
        self.run_("--hook", hook, "j.test", "k.test")
        self.run_("--hook", hook, "j.test", "k.test")  # nothing changed
        with open(seen, encoding="utf-8") as f:
            self.assertEqual(f.read(), f"j.test k.test in {self.state}\n" * 2)

    def test_a_dry_run_writes_nothing_and_says_what_it_would_do(self):
        said = self.run_("--dry-run", "l.test")
        self.assertIn("l.test: would be ordered: there is none yet", said.out)
        self.assertIn("answers; its terms: ", said.out)
        self.assertFalse(os.path.exists(self.state))
        self.run_("l.test")
        before = self.files("state.json", "certs/l.test.pem", "account.json")
        self.assertIn("l.test: would be ordered: it expired", self.run_("-n", "l.test", offset_s=100 * DAY).out)
        self.assertEqual(self.files("state.json", "certs/l.test.pem", "account.json"), before)


class Renewal(WithPebble):
    def leaf(self, name):
        text = self.certificate(name)
        end = "-----END CERTIFICATE-----\n"
        return text[:text.index(end) + len(end)]

    def test_the_cas_window_decides(self):
        self.run_("m.test")
        self.pebble.suggest(self.leaf("m.test"), window(-7200, -3600))
        said = self.run_("m.test", offset_s=60)
        self.assertRegex(said.out, r"m\.test: ordering: its renewal was due at \S+, as the CA suggests")
        self.assertIn("a new certificate", said.out)
        self.assertIn("fresh until", self.run_("m.test", offset_s=120).out)

    def test_a_window_ahead_is_kept_with_the_moment_chosen(self):
        self.run_("n.test")
        self.pebble.suggest(self.leaf("n.test"), window(10 * DAY, 12 * DAY))
        self.run_("n.test", offset_s=60)
        first = self.record("n.test")
        self.assertTrue(first["ari_start_s"] <= first["ari_chosen_s"] <= first["ari_end_s"])
        self.assertEqual(first["next_attempt_s"], first["ari_chosen_s"])
        self.run_("n.test", offset_s=7 * 3600)  # it asks again after six hours, as Pebble wants it
        again = self.record("n.test")
        self.assertEqual(again["ari_chosen_s"], first["ari_chosen_s"])
        self.assertGreater(again["ari_next_s"], first["ari_next_s"])
        self.assertIn("a new certificate", self.run_("n.test", offset_s=first["ari_chosen_s"] - int(time.time()) + 60).out)

    def test_renewal_information_that_is_malformed_leaves_it_to_the_life(self):
        self.run_("o.test")
        self.offset_s = 0
        end = self.record("o.test")["not_after_s"]
        for answer in ("{", "[]", '{"suggestedWindow": {"start": "soon", "end": "2030-01-01T00:00:00Z"}}',
                       window(200, 100)):
            self.pebble.suggest(self.leaf("o.test"), answer)
            self.offset_s += 7 * 3600
            said = self.run_("o.test", offset_s=self.offset_s)
            self.assertRegex(said.err, r"\Atarn-acme: o\.test: renewal information: the CA's .+; its life decides\n\Z")
            self.assertEqual(self.record("o.test")["ari_chosen_s"], 0)
        self.assertAlmostEqual(self.record("o.test")["next_attempt_s"], end - 30 * DAY, delta=60)

    def test_an_expired_one_is_renewed_at_once_and_it_says_so(self):
        self.run_("p.test")
        # What comes is good by the CA's clock and over by ours: it is not used.
        said = self.run_("p.test", offset_s=95 * DAY, status=1)
        self.assertRegex(said.out, r"p\.test: ordering: it expired 5d \d+h ago, at \S+, and is renewed at once")
        self.assertRegex(said.err, r"p\.test: certificate: the certificate is good from \S+ to \S+, and here it is \S+; "
                                   r"it is not used: is this machine's clock right\?")

    def test_days_of_the_operator(self):
        self.run_("--renew-before", "45", "q.test")
        self.assertAlmostEqual(self.record("q.test")["next_attempt_s"], time.time() + 45 * DAY, delta=120)
        said = self.run_("--renew-before", "45", "q.test", offset_s=46 * DAY)
        self.assertIn("a new certificate", said.out)


class ExternalAccount(WithPebble):
    external_account = True

    def test_an_account_is_bound_to_the_cas_customer(self):
        said = self.run_("r.test", status=1)
        self.assertIn("give --eab-kid and --eab-key-file", said.err)
        key = os.path.join(self.folder, "eab")
        with open(key, "w", encoding="utf-8") as f:
            f.write(EAB_KEY + "\n")
        os.chmod(key, 0o644)
        said = self.run_("--eab-kid", EAB_KID, "--eab-key-file", key, "r.test", status=2)
        self.assertIn("mode 0644, so other users can read the key; 0600 would be right", said.err)
        os.chmod(key, 0o600)
        said = self.run_("--retry", "--eab-kid", EAB_KID, "--eab-key-file", key, "r.test")
        self.assertNotIn(EAB_KEY, said.out + said.err)
        self.assertEqual(self.names("r.test"), ["r.test"])


def programs():
    """The folder of Pebble's; without Go the process ends, as skipped."""
    done = subprocess.run([os.path.join(ROOT, "scripts/fetch-pebble")], stdout=subprocess.PIPE, text=True)
    if done.returncode == SKIPPED:
        print("skipped: no Go here that builds Pebble")
        sys.exit(SKIPPED)
    assert done.returncode == 0
    return done.stdout.strip()


def main():
    global tarn_acme, acme_at
    tarn_acme, acme_at, *tests = sys.argv[1:]
    WithPebble.programs = programs()
    unittest.main(argv=[sys.argv[0], *tests], verbosity=2)


if __name__ == "__main__":
    main()
