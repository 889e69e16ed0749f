#!/usr/bin/env python3
"""packaging.py TARND BUILD [TEST...] -- what is installed, and what Prometheus and systemd are told.

Installs into folders of its own, from the build folder BUILD, and makes a Debian package there.
"""
import gzip
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest
import urllib.request

sys.dont_write_bytecode = True
try:
    import yaml
except ImportError as e:
    sys.exit(f"packaging.py: {e.name} is missing (scripts/install-deps --test)")
import prometheus
import tarnd

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
HERE = os.path.join(ROOT, "packaging")
TOKEN = "correct/horse+battery"
EXPOSURE_MAX = 20  # tenths
UNREACHABLE = 3  # tarnctl: nobody answers
program = build = None


def run(*args, **more):
    done = subprocess.run(args, capture_output=True, text=True, **more)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(args)}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def read(*path):
    with open(os.path.join(*path), encoding="utf-8") as f:
        return f.read()


def files_below(folder):
    return {os.path.relpath(os.path.join(top, name), folder)
            for top, _, names in os.walk(folder) for name in names}


def words_of_tarnctl():
    """The first words of its commands."""
    rows = run(os.path.join(build, "bin/tarnctl"), "--help").split("\n\n")[2]
    words = set(re.findall(r"(?m)^    ([a-z-]+) ", rows))
    assert len(words) > 15, words
    return words


def sections(page):
    """Of a manual page as it is shown, its sections; man finds no mistake in it."""
    done = subprocess.run(["man", "--warnings", "-l", page], capture_output=True, text=True,
                          env={**os.environ, "LC_ALL": "C.UTF-8", "MANWIDTH": "200", "MANOPT": "--no-justification --no-hyphenation"})
    assert (done.returncode, done.stderr) == (0, ""), (page, done.stderr)
    return dict(re.findall(r"(?ms)^([A-Z][A-Z ]+)\n(.*?)(?=^\S|\Z)", done.stdout))


class Folder(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="tarn-e2e.")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def install(self, prefix):
        run("cmake", "--install", build, "--prefix", prefix, env={**os.environ, "DESTDIR": self.folder})
        return files_below(self.folder)


class Metrics(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        config = (f'admin: {{ address: "127.0.0.1:0", token: "{TOKEN}" }}\n'
                  'backends: { default: { address: "127.0.0.1:9" } }\n')
        t = tarnd.Tarnd(program, config, stderr=subprocess.PIPE)
        try:
            line = next(line.decode() for line in iter(t.process.stderr.readline, b"")
                        if b"admin: listening on" in line)
            ask = urllib.request.Request(f"http://{line.split()[-1]}/metrics",
                                         headers={"Authorization": f"Bearer {TOKEN}"})
            with urllib.request.urlopen(ask, timeout=tarnd.PATIENCE_S) as answer:
                text = answer.read().decode()
        finally:
            t.process.stderr.close()
            t.close()
        # Also those without a value: this tarnd has no TLS listener.
        cls.names = set(re.findall(r"(?m)^(?:# TYPE )?(tarn_\w+)", text))
        cls.counters = set(re.findall(r"(?m)^# TYPE (tarn_\w+) (?:counter|histogram)$", text))

    def check(self, expressions):
        """Their metrics exist, and rates are asked of what only grows."""
        self.assertGreater(len(expressions), 10)
        for expression in expressions:
            names = re.findall(r"\btarn_\w+", expression)
            for name in names:
                self.assertIn(name, self.names, expression)
            for name in re.findall(r"(?:rate|resets)\((tarn_\w+)", expression):
                self.assertIn(re.sub("_(bucket|sum|count)$", "", name), self.counters, expression)
            for left, right in ("()", "{}", "[]"):
                self.assertEqual(expression.count(left), expression.count(right), expression)

    def test_rules_ask_for_metrics_that_exist(self):
        path = os.path.join(HERE, "tarn.alerts.yaml")
        rules = [rule for group in yaml.safe_load(read(path))["groups"] for rule in group["rules"]]
        self.assertEqual(len({rule["alert"] for rule in rules}), len(rules))
        for rule in rules:
            self.assertIn(rule["labels"]["severity"], ("critical", "warning", "info"))
            self.assertEqual(set(rule["annotations"]), {"summary", "description"})
        self.check([rule["expr"] for rule in rules])
        if prometheus.find_promtool():  # alerts.py has the rules' tests
            run(prometheus.find_promtool(), "check", "rules", path)

    def test_the_dashboard_asks_for_metrics_that_exist(self):
        panels = json.loads(read(HERE, "tarn.grafana.json"))["panels"]
        self.assertEqual(len({panel["id"] for panel in panels}), len(panels))
        self.check([target["expr"] for panel in panels for target in panel["targets"]])
        for panel in panels:  # a row has 24 columns
            self.assertLessEqual(panel["gridPos"]["x"] + panel["gridPos"]["w"], 24, panel["title"])


class Installed(Folder):
    def test_everything_lies_below_the_prefix(self):
        files = self.install("/opt/tarn")
        self.assertEqual([f for f in files if not f.startswith("opt/tarn/")], [])
        for name in ("sbin/tarnd", "sbin/tarn-acme", "bin/tarnctl", "bin/tarn-table", "etc/tarn/tarn.yaml",
                     "etc/logrotate.d/tarn", "lib/systemd/system/tarn.service",
                     "lib/systemd/system/tarn-acme.service", "lib/systemd/system/tarn-acme.timer",
                     "lib/sysusers.d/tarn.conf", "lib/tmpfiles.d/tarn.conf",
                     "share/tarn/tarn.schema.json", "share/doc/tarn/copyright",
                     "share/bash-completion/completions/tarnctl"):
            self.assertIn(f"opt/tarn/{name}", files)
        unit = read(self.folder, "opt/tarn/lib/systemd/system/tarn.service")
        self.assertIn("ExecStart=/opt/tarn/sbin/tarnd -c /opt/tarn/etc/tarn/tarn.yaml\n", unit)
        self.assertNotIn("@", unit.replace("@system-service", "").replace("@privileged", "")
                         .replace("@resources", "").replace("@chown", ""))
        # What comes last holds: chown(2) is among the @privileged, and `group` of a socket needs it.
        self.assertGreater(unit.index("SystemCallFilter=@chown"), unit.index("~@privileged"))

    def test_a_configuration_that_is_there_stays(self):
        self.install("/usr")
        path = os.path.join(self.folder, "etc/tarn/tarn.yaml")
        with open(path, "w", encoding="utf-8") as f:
            f.write("mine\n")
        self.install("/usr")
        self.assertEqual(read(path), "mine\n")

    def test_what_is_installed_runs(self):
        self.install("/usr")
        at = f"{self.folder}/usr"
        self.assertIn("ok", run(f"{at}/sbin/tarnd", "-t", "-c", f"{self.folder}/etc/tarn/tarn.yaml"))
        self.assertIn("tarnctl", run(f"{at}/bin/tarnctl", "--version"))
        self.assertIn("llhttp", read(at, "share/doc/tarn/copyright"))

    def test_what_is_installed_names_no_file_that_is_not(self):
        """A link, or a README.md by name, leads to what the package has."""
        self.install("/usr")
        installed = files_below(self.folder)
        names = {os.path.basename(f) for f in installed}
        texts = [f for f in installed if "/share/" in f or f.startswith("etc/")]
        self.assertGreater(len(texts), 20)
        for path in texts:
            opened = gzip.open if path.endswith(".gz") else open
            with opened(os.path.join(self.folder, path), "rt", encoding="utf-8") as f:
                text = f.read()
            for name in re.findall(r"[\w./-]+\.md\b", text) + re.findall(r"\]\(([\w./-]+)\)", text):
                self.assertTrue("/" not in name and name in names, f"{path} names {name}")

    def test_a_rotated_log_is_reopened_without_systemd(self):
        """The script of postrotate, where there is no systemd: it signals every tarnd."""
        rules = read(os.path.dirname(os.path.abspath(__file__)), "../../packaging/tarn.logrotate")
        script = rules[rules.index("postrotate") + len("postrotate"):rules.index("endscript")]
        self.assertIn("kill -USR1", script)
        child = subprocess.Popen(["/bin/sh", "-c", "printf tarnd >/proc/self/comm; trap 'exit 7' USR1; "
                                  "echo ready; while :; do sleep 0.1; done"],
                                 stdout=subprocess.PIPE, text=True)
        try:
            self.assertEqual(child.stdout.readline(), "ready\n")
            with open(f"/proc/{child.pid}/comm", encoding="utf-8") as f:
                if f.read() != "tarnd\n":
                    self.skipTest("a shell cannot be given another name here")
            # Of all processes it may look at this one only: others' tarnds are not ours.
            script = script.replace("/proc/[0-9]*", f"/proc/{child.pid}")
            script = script.replace("/run/systemd/system", "/nonexistent")
            subprocess.run(["/bin/sh", "-ec", script], check=True)
            self.assertEqual(child.wait(timeout=60), 7)
        finally:
            child.kill()
            child.stdout.close()

    def test_a_reload_of_the_unit_checks_the_file_first(self):
        self.install("/usr")
        unit = read(self.folder, "usr/lib/systemd/system/tarn.service")
        self.assertEqual(re.findall(r"(?m)^ExecReload=(.*)$", unit),
                         ["/usr/sbin/tarnd -t -c /etc/tarn/tarn.yaml", "/bin/kill -HUP $MAINPID"])

    def test_manual_pages_are_well_formed(self):
        self.install("/usr")
        pages = [f for f in files_below(self.folder) if "/man/man" in f]
        self.assertEqual({os.path.basename(f) for f in pages},
                         {"tarn-acme.8.gz", "tarn-table.1.gz", "tarn.yaml.5.gz", "tarn-vcl.7.gz", "tarnctl.1.gz", "tarnd.8.gz",
                          *(f"tarnctl-{word}.1.gz" for word in words_of_tarnctl())})
        for page in pages:
            self.assertEqual(list(sections(os.path.join(self.folder, page)))[::-1][0], "SEE ALSO", page)
        for name in os.listdir(os.path.join(build, "packaging/man")):
            fonts = re.findall(r"\\f([BIR])", read(build, "packaging/man", name))
            self.assertEqual(fonts[1::2], ["R"] * (len(fonts) // 2), name)  # what begins ends
            self.assertNotIn("R", fonts[::2], name)
        for page, names in (("7/tarn-vcl.7", ("vcl_recv", "beresp.ttl", "std.querysort", "hash_data")),
                            ("5/tarn.yaml.5", ("default_ttl", "connect_timeout", "negative_cache", "*+-.^_`|~"))):
            text = str(sections(os.path.join(self.folder, f"usr/share/man/man{page}.gz")))
            for name in names:
                self.assertIn(name, text)

    def test_each_command_has_a_manual_page_with_all_it_takes(self):
        words = words_of_tarnctl()
        main = sections(os.path.join(build, "packaging/man/tarnctl.1"))
        self.assertRegex(main["COMMANDS"], r"(?m)^ *vcl load \[--use\] NAME FILE$")
        for word in words:
            page = sections(os.path.join(build, f"packaging/man/tarnctl-{word}.1"))
            self.assertEqual(list(page), ["NAME", "SYNOPSIS", "DESCRIPTION", "ARGUMENTS AND OPTIONS",
                                          "EXIT STATUS", "EXAMPLES", "SEE ALSO"])
            self.assertRegex(page["NAME"], f"^ *tarnctl-{word} - .")
            taken = set(re.findall(r"--[a-z]+(?: [a-z]+\|[a-z]+)?|\b[a-z]+(?:\|[a-z]+)+|\b[A-Z]{2,}\b", page["SYNOPSIS"]))
            for each in taken - {"OPTION"}:
                self.assertRegex(page["ARGUMENTS AND OPTIONS"],
                                 rf"(?m)^ {{7}}{re.escape(each)}( .+|( .+)?\n {{14}}.+)$", word)
            for other in re.findall(r"tarnctl-([a-z-]+)\(", page["SEE ALSO"]):
                self.assertIn(other, words)
            self.assertIn(f"tarnctl-{word}(1)", main["SEE ALSO"])

    def test_the_examples_of_manual_pages_are_right(self):
        for word in words_of_tarnctl():
            page = sections(os.path.join(build, f"packaging/man/tarnctl-{word}.1"))
            lines = re.findall(r"(?m)^ {7}(tarnctl .*)$", page["EXAMPLES"])
            self.assertGreater(len(lines), 0, word)
            for line in lines:
                args = [arg.replace("/etc/tarn", self.folder) for arg in shlex.split(line)[1:]]
                for arg in args:
                    if arg.startswith(self.folder):
                        with open(arg, "w", encoding="utf-8") as f:
                            f.write("a b\n")
                done = subprocess.run([os.path.join(build, "bin/tarnctl"), "-a", "unix:/nowhere/admin.sock", *args],
                                      capture_output=True, text=True)
                wanted = 0 if word in ("completion", "help") else UNREACHABLE
                self.assertEqual(done.returncode, wanted, line + "\n" + done.stderr)

    def test_a_page_that_lacks_something_of_its_program_is_not_built(self):
        """man.py refuses it, so the build fails."""
        shutil.copytree(HERE, os.path.join(self.folder, "packaging"))
        out = os.path.join(self.folder, "man")

        def made(old, new, page):
            source = os.path.join(HERE, "man", page)
            text = read(source)
            self.assertIn(old, text)
            with open(os.path.join(self.folder, "packaging/man", page), "w", encoding="utf-8") as f:
                f.write(text.replace(old, new))
            return subprocess.run([sys.executable, os.path.join(self.folder, "packaging/man.py"), out, "1",
                                   os.path.join(build, "bin")], capture_output=True, text=True)

        done = made("", "", "tarnd.8.md")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(sorted(os.listdir(out)), sorted(os.listdir(os.path.join(build, "packaging/man"))))
        for old, new, page, why in (
                ("--supervise", "", "tarnd.8.md", "--supervise of tarnd --help is not there"),
                ("SIGUSR2", "", "tarnd.8.md", "SIGUSR2 of tarnd --help is not there"),
                ("--grace", "", "tarn-table.1.md", "--grace of tarn-table --help is not there"),
                ("tarn_conf_gen table", "tarn_conf_gen nothing", "tarn.yaml.5.md", "CalledProcessError")):
            done = made(old, new, page)
            self.assertNotEqual(done.returncode, 0, why)
            self.assertIn(why, done.stderr)
            made("", "", page)

    def test_a_row_of_tarnctl_without_its_text_is_not_built(self):
        programs = os.path.join(self.folder, "bin")
        os.mkdir(programs)
        for name in os.listdir(os.path.join(build, "bin")):
            os.symlink(os.path.join(build, "bin", name), os.path.join(programs, name))
        rows = run(os.path.join(programs, "tarn_ctl_gen")).split("\x1e")
        os.remove(os.path.join(programs, "tarn_ctl_gen"))
        for begin, why in (("word\x1fstat\x1fPATTERN", "page stat: nothing is said of {'PATTERN'}"),
                           ("example\x1fstop", "page stop: there is no example"),
                           ("page\x1fdrain", "CTL_PAGE_TABLE has not a row for each command's first word"),
                           ("command\x1fwarm", "CTL_PAGE_TABLE has not a row for each command's first word")):
            left = [row for row in rows if not row.startswith(begin)]
            self.assertEqual(len(left), len(rows) - 1, begin)
            with open(os.path.join(self.folder, "rows"), "w", encoding="utf-8") as f:
                f.write("\x1e".join(left))
            with open(os.path.join(programs, "tarn_ctl_gen"), "w", encoding="utf-8") as f:
                f.write(f"#!/bin/sh\ncat {self.folder}/rows\n")
            os.chmod(os.path.join(programs, "tarn_ctl_gen"), 0o755)
            done = subprocess.run([sys.executable, os.path.join(HERE, "man.py"), os.path.join(self.folder, "man"), "1",
                                   programs], capture_output=True, text=True)
            self.assertEqual(done.returncode, 1, begin)
            self.assertIn(why, done.stderr)

    def test_the_unit_is_confined(self):
        self.install("/usr")
        self.assertIsNotNone(shutil.which("systemd-analyze"),
                             "systemd-analyze is missing (scripts/install-deps --test)")
        for unit in ("tarn", "tarn-acme"):
            run("systemd-analyze", "security", "--offline=yes", f"--threshold={EXPOSURE_MAX}",
                "--no-pager", os.path.join(self.folder, f"usr/lib/systemd/system/{unit}.service"))

    def test_the_manual_page_has_every_option_and_signal(self):
        page = str(sections(os.path.join(build, "packaging/man/tarnd.8")))
        for word in re.findall(r"--[a-z]+|SIG[A-Z0-9]+", run(program, "--help")):
            self.assertIn(word, page)

    def test_scripts_are_shell(self):
        for name in ("postinst", "prerm", "postrm"):
            run("sh", "-n", os.path.join(HERE, "debian", name))


def depends(packages):
    """They, and all that they need, of what is installed here."""
    found, todo = set(), set(packages)
    while todo:
        found |= todo
        fields = subprocess.run(["dpkg-query", "-W", "-f", "${Depends}, ${Pre-Depends}, ", *todo],
                                capture_output=True, text=True).stdout
        todo = set(re.findall(r"(?:^|[,|] *)([a-z0-9][a-z0-9.+-]+)", fields)) - found
    return found


class FromZero(Folder):
    """The README's ten lines; `scripts/install-deps` brings less than a developer's machine has."""

    def setUp(self):
        super().setUp()
        self.lines = re.search(r"(?s)\n## From zero to production\n.*?\n```sh\n(.*?)```\n",
                               read(ROOT, "README.md"))[1].splitlines()

    def test_there_are_ten_lines_of_shell(self):
        self.assertEqual(len(self.lines), 10)
        run("bash", "-n", "-c", "\n".join(self.lines))

    def test_they_name_what_is_there(self):
        text = "\n".join(self.lines)
        installed = {f"/{f}" for f in self.install("/usr")}
        self.assertLessEqual(set(re.findall(r"/(?:etc|usr)/\S+", text)), installed)
        self.assertLessEqual({f"tarn{end}" for end in re.findall(r"(?m)^tarn(\w+) ", text)},
                             {os.path.basename(f) for f in installed if re.search("/s?bin/", f)})
        for script in re.findall(r"scripts/\S+", text):
            self.assertTrue(os.access(os.path.join(ROOT, script), os.X_OK), script)
        socket = re.search(r":(/run/\S+)", text)[1]
        self.assertIn(f"unix:{socket}\n", read(HERE, "tarn.yaml"))

    def test_each_edit_changes_one_line_and_what_comes_is_valid(self):
        path = os.path.join(self.folder, "tarn.yaml")
        shutil.copy(os.path.join(HERE, "tarn.yaml"), path)
        edits = [line for line in self.lines if line.startswith("sed ")]
        self.assertGreater(len(edits), 0)
        for edit in edits:
            before = read(path).splitlines()
            run("sh", "-c", edit.replace("/etc/tarn/tarn.yaml", path))
            after = read(path).splitlines()
            self.assertEqual(sum(a != b for a, b in zip(before, after, strict=True)), 1, edit)
        run(program, "-t", "-c", path)

    def test_install_deps_brings_what_makes_a_package(self):
        brought = depends(run(os.path.join(ROOT, "scripts/install-deps"), "--list", "debian").split())
        for tool in ("dpkg-shlibdeps", "file", "readelf", "strip"):
            owner = run("dpkg-query", "-S", os.path.join("/usr/bin", tool)).split(":")[0]
            self.assertTrue(owner in brought, f"{tool}: scripts/install-deps does not bring {owner}")

    def test_started_by_root_it_does_not_stay_root(self):
        parameters = yaml.safe_load(read(HERE, "tarn.yaml"))["parameters"]
        self.assertIn(f"\nu {parameters['user']} ", read(HERE, "tarn.sysusers"))


class Package(Folder):
    def test_the_package_has_what_it_needs(self):
        run("cpack", "-G", "DEB", "-B", self.folder, "--config",
            os.path.join(build, "CPackConfig.cmake"), cwd=self.folder)
        package, = [f for f in os.listdir(self.folder) if f.endswith(".deb")]
        path = os.path.join(self.folder, package)
        fields = dict(re.findall(r"(?m)^ (\S+): (.*)$", run("dpkg-deb", "--info", path)))
        self.assertEqual(fields["Package"], "tarn")
        # Debian 13 calls libraries with 64-bit times libcurl4t64, and c-ares libcares2; the image is Debian 12.
        needs = {re.sub("t64$", "", name).replace("libcares2", "libc-ares2")
                 for name in re.findall(r"(?:^|, )([^\s,]+)", fields["Depends"])}
        self.assertLessEqual({"libuv1", "libc-ares2", "libjemalloc2", "libyaml-0-2", "libcurl4", "libssl3",
                              "adduser"}, needs)
        image = read(ROOT, "Dockerfile").split("\nFROM ")[-1]
        self.assertLessEqual(needs - {"adduser", "libc6"}, set(re.findall(r"\blib[\w.-]+", image)))
        scripts = os.path.join(self.folder, "control")
        run("dpkg-deb", "--control", path, scripts)
        self.assertLessEqual({"conffiles", "postinst", "prerm", "postrm", "md5sums"},
                             set(os.listdir(scripts)))
        for conffile in read(scripts, "conffiles").split():
            self.assertRegex(run("dpkg-deb", "--contents", path), rf"(?m) \.{re.escape(conffile)}$")
        modes = dict(re.findall(r"(?m)^(\S+) root/root .* (\./\S+)$", run("dpkg-deb", "--contents", path)))
        self.assertNotEqual(modes, {})
        for of in ("", "-purge-tag", "-vcl"):
            self.assertIn(f" ./usr/share/man/man1/tarnctl{of}.1.gz\n",
                          run("dpkg-deb", "--contents", path))
        self.assertEqual({m for m in modes if "w" in m[5:]}, set())  # by nobody but root


def main():
    global program, build
    if len(sys.argv) < 3:
        sys.exit("usage: packaging.py TARND BUILD [TEST...]")
    program, build = (os.path.abspath(sys.argv.pop(1)) for _ in range(2))
    unittest.main(verbosity=2)


if __name__ == "__main__":
    main()
