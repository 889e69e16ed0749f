"""prometheus.py -- Prometheus' text format (version 0.0.4), read strictly.

    families = prometheus.parse(text)      {"tarn_req_hit_total": Family}
    family.type, family.help, family.samples   [(name, {label: value}, float)]

What promtool would only warn about is a mistake here, too: a counter without _total, a sample without
HELP and TYPE, a histogram whose buckets shrink.  `promtool check metrics` is asked besides, where it is.
"""
import os
import re
import shutil
import subprocess

NAME = r"[a-z][a-z0-9_]*"
SAMPLE = re.compile(rf"({NAME})(?:\{{(.*)\}})? (\S+)")
LABEL = re.compile(rf'({NAME})="((?:[^"\\\n]|\\["\\n])*)"(?:,|$)')
NO_UNITS = {"ms", "us", "milliseconds", "microseconds", "minutes", "kb", "mb", "kib", "mib", "percent"}


class Wrong(AssertionError):
    pass


def want(holds, what):
    if not holds:
        raise Wrong(what)


class Family:
    def __init__(self, name, text):
        self.name, self.help, self.type, self.samples = name, text, None, []

    def value(self, **labels):
        """The one sample with these labels, and perhaps others."""
        found = [v for _, has, v in self.samples if labels.items() <= has.items()]
        want(len(found) == 1, f"{self.name} {labels}: {len(found)} samples")
        return found[0]


def parse_labels(text, line):
    labels, at = {}, 0
    while text is not None and at < len(text):
        m = LABEL.match(text, at)
        want(m, f"labels of {line!r}")
        want(m[1] not in labels, f"label {m[1]} twice: {line!r}")
        labels[m[1]] = re.sub(r"\\(.)", lambda e: "\n" if e[1] == "n" else e[1], m[2])
        at = m.end()
    return labels


def check_histogram(family):
    """Cumulative, with +Inf, _sum and _count, for each set of labels."""
    series = {}
    for name, labels, value in family.samples:
        key = tuple(sorted((k, v) for k, v in labels.items() if k != "le"))
        one = series.setdefault(key, {"le": [], "sum": None, "count": None})
        end = name[len(family.name) + 1:]
        want(end in ("bucket", "sum", "count"), f"{name} of a histogram")
        if end == "bucket":
            one["le"].append((float(labels["le"]), value))
        else:
            want(one[end] is None and "le" not in labels, f"{name} {key}")
            one[end] = value
    for key, one in series.items():
        bounds, counts = zip(*one["le"])
        want(list(bounds) == sorted(set(bounds)), f"{family.name} {key}: bounds {bounds}")
        want(bounds[-1] == float("inf"), f"{family.name} {key} has no +Inf")
        want(list(counts) == sorted(counts), f"{family.name} {key}: buckets shrink: {counts}")
        want(counts[-1] == one["count"], f"{family.name} {key}: +Inf is not _count")
        want(one["sum"] is not None and one["sum"] >= 0, f"{family.name} {key}: no _sum")


def check_family(family):
    name, parts = family.name, set(family.name.split("_"))
    want(family.type in ("counter", "gauge", "histogram"), f"{name} has the type {family.type}")
    want(family.help, f"{name} has no HELP")
    want((family.type == "counter") == name.endswith("_total"), f"{name} is a {family.type}")
    want(not parts & NO_UNITS, f"{name}: base units")
    want(not parts & {"gauge", "counter", "histogram"}, f"{name} names its type")
    seen = set()
    for sample, labels, value in family.samples:
        key = (sample, tuple(sorted(labels.items())))
        want(key not in seen, f"{key} twice")
        seen.add(key)
        want(family.type == "gauge" or value >= 0, f"{key} is {value}")
        if family.type != "histogram":
            want(sample == name and "le" not in labels, f"{sample} within {name}")
    if family.type == "histogram":
        check_histogram(family)


def parse(text):
    families, family = {}, None
    want(text.endswith("\n"), "the last line has no end")
    for line in text.splitlines():
        if line.startswith("# HELP "):
            name, _, words = line[7:].partition(" ")
            want(name not in families, f"{name} comes twice")
            family = families[name] = Family(name, words)
        elif line.startswith("# TYPE "):
            name, _, kind = line[7:].partition(" ")
            want(family is not None and family.name == name and family.type is None, line)
            family.type = kind
        else:
            m = SAMPLE.fullmatch(line)
            want(m and family is not None and family.type is not None, f"what is {line!r}?")
            want(m[1].startswith(family.name), f"{m[1]} within {family.name}")
            family.samples.append((m[1], parse_labels(m[2], line), float(m[3])))
    for family in families.values():
        check_family(family)
    return families


def find_promtool():
    """The program, or None: TARN_PROMTOOL, or what PATH has."""
    return shutil.which(os.environ.get("TARN_PROMTOOL", "promtool"))


def promtool(text):
    """What promtool says against it; "" when it says nothing, or is not here."""
    if find_promtool() is None:
        return ""
    done = subprocess.run([find_promtool(), "check", "metrics"], input=text, text=True,
                          capture_output=True, timeout=60)
    return done.stdout + done.stderr
