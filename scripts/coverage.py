"""coverage.py ROOT OPTIONS -- for scripts/coverage: sums up what gcov says, a JSON object a line on stdin.

A line of a header counts once, however many files include it, and so does one of a file that is in several
programs.  With 0 OPTIONS the floor counts.
"""

import collections
import json
import os
import sys

root, options = sys.argv[1:]
files = collections.defaultdict(dict)  # name -> line -> whether it ran
for text in sys.stdin:
    for file in json.loads(text)["files"]:
        name = os.path.relpath(os.path.join(root, file["file"]), root)
        if name.startswith(("daemon/", "storage/", "conf/", "vcl-lite/")) and not name.endswith("_gen.c"):
            for line in file["lines"]:
                files[name][line["line_number"]] = files[name].get(line["line_number"]) or line["count"] != 0
rooms = collections.defaultdict(list)
with open("coverage.txt", "w", encoding="utf-8") as f:
    for name, lines in sorted(files.items()):
        rooms[os.path.dirname(name)] += lines.values()
        rooms["all"] += lines.values()
        missed = " ".join(str(line) for line, ran in sorted(lines.items()) if not ran)
        print(f"{100 * sum(lines.values()) / len(lines):6.2f} % of {len(lines):5,} lines  {name}  {missed}", file=f)
for room in sorted(rooms.keys() - {"all"}) + ["all"]:
    print(f"{100 * sum(rooms[room]) / len(rooms[room]):6.2f} % of {len(rooms[room]):6,} lines  {room}")
got = 1000 * sum(rooms["all"]) // len(rooms["all"]) / 10
with open(os.path.join(root, "t/coverage.floor"), encoding="utf-8") as f:
    floor = float(f.read())
if options == "0" and got < floor:
    sys.exit(f"coverage: {got} % is below the floor of t/coverage.floor, {floor} %: a change needs a test; "
             "build-coverage/coverage.txt has the lines that no test runs")
if options == "0" and got >= floor + 0.5:  # timing decides about 0.1 to 0.2 % of the lines
    print(f"coverage: the floor may rise: echo {got - 0.3:.1f} >t/coverage.floor")
