#!/usr/bin/env python3
"""quick_tests.py [--check] BUILD -- choose the tests of what changed, for `scripts/test --quick`.

With --check: whether t/quick.map has every directory of sources, and names tests that exist.  Else it prints a file for ctest -I.  What was chosen, and why, goes to stderr.  What changed: files of commits
since the branch left main, and files not committed yet.  t/quick.map says which tests belong to a place.
"""
import json
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MAP = os.path.join(ROOT, "t", "quick.map")
WIRE_MAX = 120  # 0.4 s each, four at a time: a quarter of a minute
# Words of file names that say nothing about a test's subject.
COMMON = {"a", "an", "and", "by", "conf", "fetch", "for", "h1", "http", "is", "of", "priv", "req", "table", "test",
          "that", "the", "to", "vcl"}


def git(*args):
    done = subprocess.run(["git", "-C", ROOT, *args], capture_output=True, text=True)
    return done.stdout.split("\0") if done.returncode == 0 else None


def changed():
    """Names of changed files, from the root of the repository; None where there is no git."""
    base = None
    for ref in ("origin/main", "main"):
        found = subprocess.run(["git", "-C", ROOT, "merge-base", "HEAD", ref], capture_output=True, text=True)
        if found.returncode == 0:
            base = found.stdout.strip()
            break
    diff = git("diff", "--name-only", "-z", base or "HEAD")
    new = git("ls-files", "-z", "--others", "--exclude-standard")
    if diff is None or new is None:
        return None
    return sorted({name for name in diff + new if name})


def mapping():
    """Rows of t/quick.map: (place, unit tests' expression, wire tests' folders)."""
    rows = []
    with open(MAP, encoding="utf-8") as f:
        for line in f:
            words = line.split("#")[0].split()
            if words:
                place, unit, *folders = words
                rows.append((place, unit, folders))
    return rows


def words_of(path):
    stem = os.path.splitext(os.path.basename(path))[0]
    return {w for w in re.split(r"[^a-z0-9]+", stem.lower()) if len(w) > 2} - COMMON


def choose(files, tests, rows):
    """The chosen of `tests`: unit tests, then wire tests."""
    unit, folders, words, own = [], set(), set(), set()
    for path in files or ["core"]:
        row = next((r for r in rows if path == r[0] or path.startswith(r[0] + "/")), None)
        name = os.path.splitext(os.path.basename(path))[0]
        if path.startswith("t/") and path.endswith(".vtc"):
            own.add(f"vtc.{path.split('/')[1]}.{name}")
        elif path.startswith("t/unit/"):
            unit.append(re.escape(name) + "$")
        elif row:
            if row[1] != "-":
                unit.append(row[1])
            folders.update(row[2])
            words |= words_of(path)
    chosen = [t for t in tests if not t.startswith("vtc.") and any(re.match(u, t) for u in unit)]
    wire = [t for t in tests if t.startswith("vtc.") and t.split(".")[1] in folders]
    first = [t for t in tests if t in own]
    near = [t for t in wire if t not in own and words & set(t.split(".")[2].split("-"))]
    others = [t for t in wire if t not in own and t not in near]
    for more in (near, others):
        room = max(WIRE_MAX - len(first), 0)
        step = max(1.0, len(more) / room) if room else len(more) + 1.0
        first += [more[int(i * step)] for i in range(int(len(more) / step))]
    return chosen + first


def check(tests, rows):
    """What is wrong with t/quick.map."""
    folders = {t.split(".")[1] for t in tests if t.startswith("vtc.")}
    places = {place for place, _, _ in rows}
    for top in ("conf", "daemon", "storage", "vcl-lite"):
        for place, _, names in os.walk(os.path.join(ROOT, top)):
            place = os.path.relpath(place, ROOT)
            if "CMakeLists.txt" in names and place not in places:
                yield f"t/quick.map has no line for {place}"
    for place, unit, wires in rows:
        if place != "core" and not os.path.exists(os.path.join(ROOT, place)):
            yield f"t/quick.map: there is no {place}"
        for part in [] if unit == "-" else unit.strip("()").split("|"):
            if "(" not in unit[1:] and not any(re.match(part, t) for t in tests):
                yield f"t/quick.map: {place}: no test begins with {part}"
        for folder in set(wires) - folders - {"-"}:
            yield f"t/quick.map: {place}: there are no wire tests in t/{folder}"


def main():
    build = sys.argv[-1]
    shown = subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1"], check=True,
                           capture_output=True, text=True).stdout
    tests = [t["name"] for t in json.loads(shown)["tests"]]
    if sys.argv[1] == "--check":
        sys.exit("\n".join(check(tests, mapping())) or 0)
    files = changed()
    chosen = set(choose(files, tests, mapping()))
    if files is None:
        print("quick: no git here: the core set", file=sys.stderr)
    elif not files:
        print("quick: nothing changed: the core set", file=sys.stderr)
    else:
        print(f"quick: {len(files)} files changed", file=sys.stderr)
    if not chosen:
        print("quick: no test belongs to what changed: the core set", file=sys.stderr)
        chosen = set(choose([], tests, mapping()))
    print(f"quick: {len(chosen)} of {len(tests)} tests", file=sys.stderr)
    print("0,0,0," + ",".join(str(i + 1) for i, name in enumerate(tests) if name in chosen))


if __name__ == "__main__":
    main()
