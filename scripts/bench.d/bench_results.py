"""What was measured, kept: bounds and whether they are met, the file for programs, the table.

results.json holds one entry for each section, each as it was measured last:
    {"sections": {NAME: {"when", "took_s", "options", "machine", "text", "result" or "error"}}}
A section's result is a dictionary of its own; under "bounds" in it stand rows as bound() makes
them, which come first in table.md.
"""

import datetime
import io
import json
import os
import sys

VERDICTS = {True: "met", False: "MISSED", None: "not measured"}


def bound(what, got, most=None, least=None, unit="", digits=0):
    """A row: what tarnd must reach, and what it did.  One of `most` and `least` is given."""
    limit = most if least is None else least
    met = None if got is None else got <= most if least is None else got >= least
    return {"what": what, "got": got, "must": "at most" if least is None else "at least",
            "limit": limit, "unit": unit, "digits": digits, "met": met}


def row_text(row):
    """(what, got, must, verdict), to be printed."""
    digits, unit = row.get("digits", 0), f" {row['unit']}".rstrip()
    got = "n/a" if row["got"] is None else f"{row['got']:,.{digits}f}{unit}"
    return (row["what"], got, f"{row['must']} {row['limit']:,.{digits}f}{unit}",
            VERDICTS[row["met"]])


def print_bounds(rows):
    if not rows:
        return
    import bench_load
    print()
    bench_load.print_table(["tarnd", "measured", "must be", "verdict"],
                           [list(row_text(row)) for row in rows])


class Tee(io.TextIOBase):
    """Writes to a stream, and keeps what was written."""

    def __init__(self, stream):
        self.stream, self.kept = stream, []

    def write(self, text):
        self.kept.append(text)
        return self.stream.write(text)

    def flush(self):
        self.stream.flush()

    def text(self):
        return "".join(self.kept)


class Results:
    """results.json and table.md of an output folder; written anew after every section."""

    def __init__(self, folder):
        self.folder = folder
        self.path = os.path.join(folder, "results.json")
        self.data = {"sections": {}}
        try:
            with open(self.path, encoding="utf-8") as f:
                self.data = json.load(f)
        except FileNotFoundError:
            pass
        except (OSError, ValueError) as e:
            raise SystemExit(f"bench: {self.path}: {e}; move it away, or give another --out") from e

    def get(self, name):
        """The result of a section that was measured without an error, or None."""
        return self.data["sections"].get(name, {}).get("result")

    def has(self, name, quick):
        """Is it measured already, and as carefully as is asked for now?"""
        entry = self.data["sections"].get(name, {})
        return "result" in entry and (quick or not entry["options"]["quick"])

    def put(self, name, entry):
        entry["when"] = datetime.datetime.now().astimezone().isoformat(timespec="seconds")
        self.data["sections"][name] = entry
        os.makedirs(self.folder, exist_ok=True)
        self.write("results.json", json.dumps(self.data, indent=1, default=str) + "\n")

    def write(self, name, text):
        """All of it or what was there before."""
        path = os.path.join(self.folder, name)
        with open(path + ".new", "w", encoding="utf-8") as f:
            f.write(text)
        os.replace(path + ".new", path)

    def bounds(self, order):
        """(section, row) of everything that must be reached, sections in the order given."""
        sections = self.data["sections"]
        for name in [n for n in order if n in sections] + sorted(set(sections) - set(order)):
            for row in (sections[name].get("result") or {}).get("bounds", ()):
                yield name, row

    def write_table(self, order):
        """table.md: the bounds, then what each section printed."""
        out = ["# Figures of scripts/bench", ""]
        rows = list(self.bounds(order))
        if rows:
            out += ["| section | what | measured | must be | verdict |", "|---|---|---|---|---|"]
            out += [f"| {name} | " + " | ".join(row_text(row)) + " |" for name, row in rows]
            out.append("")
        sections = self.data["sections"]
        for name in [n for n in order if n in sections] + sorted(set(sections) - set(order)):
            entry = sections[name]
            m = entry.get("machine", {})
            out += [f"## {name}", "",
                    f"{entry['when']}, {entry['took_s']:.0f} s; {m.get('processor', '')}, "
                    f"{m.get('processors', '?')} processors, Linux {m.get('kernel', '?')}, load "
                    f"average {m.get('load_average', 0):.2f}"
                    + (", quick" if entry["options"].get("quick") else ""), "",
                    "```text", entry.get("text", "").rstrip()]
            if "error" in entry:
                out.append(f"failed: {entry['error']}")
            out += ["```", ""]
        self.write("table.md", "\n".join(out))


def keep_printed(run):
    """(what run() returned, what it printed); what it printed is on the terminal too."""
    tee = Tee(sys.stdout)
    sys.stdout = tee
    try:
        return run(), tee
    except BaseException as e:
        e.printed = tee.text()  # a section that failed half-way has said something
        raise
    finally:
        sys.stdout = tee.stream
