"""A site and a day of its visitors, of a seed: what it consists of, and which client asks for what when.

Times are parts of the day, 0 to 1, and each content follows from its path and its version.  So origin and clients,
which are processes of their own, know the same bytes without telling each other.
"""

import ast
import bisect
import functools
import itertools
import math
import random

import bench_corpus

SEED = 9842
PAGES, LISTS, IMAGES, SCRIPTS, STYLES = 800, 40, 2000, 48, 6  # LISTS: of the pages, the most popular
ZIPF = 0.9
BUNDLES = {"app": 300_000, "vendor": 220_000, "shop": 150_000, "chat": 90_000}  # bytes
VERSIONS = {"app": (0.30, 0.65), "shop": (0.45,), "chat": (0.55, 0.8)}  # when another one is there
OFFERED = "app", "chat"  # dictionaries by the origin's word; the others' by the route
TEXTS = (*bench_corpus.SCRIPTS, "difflib", "ast", "enum", "decimal", "optparse", "mailbox", "pdb", "zipfile",
         "imaplib")
NOISE = 4 << 20
# What a client says that it accepts; its part of all; whether it asks for what a page consists of; dictionaries.
KINDS = {"chrome": ("gzip, deflate, br, zstd", 0.60, True, True),
         "firefox": ("gzip, deflate, br, zstd", 0.10, True, False),
         "safari": ("gzip, deflate, br", 0.18, True, False),
         "gzip": ("gzip", 0.09, False, False),
         "none": (None, 0.03, False, False)}


def lognormal(rng, median, sigma, least, most):
    return int(min(most, max(least, rng.lognormvariate(math.log(median), sigma))))


@functools.cache
def functions():
    """Program text by functions and classes."""
    out = []
    for module in TEXTS:
        text = bench_corpus.source(module)
        lines = text.splitlines(keepends=True)
        out += ["".join(lines[n.lineno - 1:n.end_lineno]) + "\n" for n in ast.parse(text).body
                if isinstance(n, (ast.FunctionDef, ast.ClassDef))]
    return out


@functools.cache
def sections():
    """The same as documentation shows it."""
    out = []
    for module in (*bench_corpus.PAGES, *TEXTS):
        text = bench_corpus.source(module)
        out += [bench_corpus.section(module, text.splitlines(), node) for node in ast.walk(ast.parse(text))
                if isinstance(node, (ast.FunctionDef, ast.ClassDef))]
    return out


@functools.cache
def noise():
    return random.Random(SEED).randbytes(NOISE)


def filled(rng, pieces, size, version):
    """Pieces at random to that size; each version has other ones in a few places."""
    out, n = [], 0
    while n < size:
        out.append(rng.choice(pieces))
        n += len(out[-1])
    for v in range(version):
        other = random.Random(f"{rng.random()} {v}")
        for _ in range(max(1, len(out) // 25)):
            out[other.randrange(len(out))] = other.choice(pieces)
    return "".join(out)[:size]


def style(rng, size):
    out, n = [], 0
    words = ("nav", "item", "card", "list", "title", "grid", "menu", "price", "form", "button", "icon", "text", "wide")
    rules = ("margin: {}px", "padding: {}px 0", "color: #{:03x}", "width: {}%", "font-size: {}px", "top: {}em")
    while n < size:
        name = "-".join(rng.sample(words, 2))
        body = ";\n  ".join(rule.format(rng.randrange(1, 100)) for rule in rng.sample(rules, 4))
        out.append(f".{name}:hover .{rng.choice(words)} {{\n  {body};\n}}\n")
        n += len(out[-1])
    return "".join(out)[:size]


def page(number, version):
    rng = random.Random(f"{SEED} page {number}")
    links = "".join(f'<li class="nav-item"><a href="/p/{n}" data-id="{n * 7919 % 99991}">Page {n}</a></li>\n'
                    for n in rng.sample(range(PAGES), 40))
    images = "".join(f'<img src="{path}" alt="" width="320" height="200" loading="lazy">\n'
                     for path in images_of(number))
    text = filled(rng, sections(), lognormal(rng, 32_000, 0.5, 15_000, 92_000), version)
    return (f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>Page {number}</title>\n'
            f'<link rel="stylesheet" href="/css/0.css"></head><body><nav><ul>\n{links}</ul></nav>\n'
            f'<main id="{number}-{version}">\n{images}{text}</main></body></html>\n').encode()


def parts(path):
    """(kind, name or number, version of a bundle) of a path."""
    kind, name = path.strip("/").split("/")
    if kind == "static":
        name, version, _ = name.split(".")
        return kind, name, int(version)
    return kind, int(name.split(".")[0]), 0


def content(path, version=0):
    """The bytes of a path; its version counts for pages alone, for a bundle's is in the path."""
    kind, name, of_bundle = parts(path)
    rng = random.Random(f"{SEED} {kind} {name}")
    if kind == "p":
        return page(name, version)
    if kind == "static":
        return filled(rng, functions(), BUNDLES[name], of_bundle).encode()
    if kind == "js":
        return filled(rng, functions(), lognormal(rng, 25_000, 0.8, 4_000, 120_000), 0).encode()
    if kind == "css":
        return style(rng, lognormal(rng, 30_000, 0.6, 5_000, 120_000)).encode()
    size = lognormal(rng, 15_000, 0.9, 800, 200_000)
    at = rng.randrange(NOISE - size)
    return noise()[at:at + size]


def period(number):
    """How long a page stays as it is, a part of the day."""
    if number < LISTS:
        return 1 / 6
    return random.Random(f"{SEED} period {number}").choice((1 / 3, 1 / 2, 2, 2, 2))


def version_of(number, when):
    """A page's at a time: the first change is at a time of its own."""
    every = period(number)
    return int((when + number * 0.618 % 1 * every) / every)


def current(name, when):
    """The path of a bundle at a time."""
    return f"/static/{name}.{bisect.bisect(VERSIONS.get(name, ()), when)}.js"


@functools.cache
def images_of(number):
    rng = random.Random(f"{SEED} images {number}")
    return tuple(f"/i/{int(IMAGES * rng.random() ** 3)}.jpg" for _ in range(rng.randint(2, 7)))


def assets(number, when):
    """What a page consists of, beside itself."""
    out = ["/css/0.css", "/css/1.css", f"/css/{2 + number % (STYLES - 2)}.css"]
    out += [current("app", when), current("vendor", when)]
    out += [current("shop", when)] * (number % 3 == 0) + [current("chat", when)] * (number % 5 == 0)
    return out + [f"/js/{number % SCRIPTS}.js", f"/js/{number // 2 % SCRIPTS}.js", *images_of(number)]


def arrival(rng):
    """A time of the day: at night half as many visitors as on the average, in the evening half more."""
    while True:
        when = rng.random()
        if rng.random() * 1.5 < 1 - 0.5 * math.cos(2 * math.pi * when):
            return when


def trace(requests, seed=SEED):
    """[(when, client, its kind, path)] of a day, in order; about so many."""
    rng = random.Random(f"{seed} trace")
    weights = list(itertools.accumulate((n + 1) ** -ZIPF for n in range(PAGES)))
    kinds, parts_of = list(KINDS), [k[1] for k in KINDS.values()]
    clients, has, out = [], {}, []
    while len(out) < requests:
        if rng.random() < 0.5 or not clients:  # else it was here before
            clients.append(rng.choices(kinds, parts_of)[0])
            client = len(clients) - 1
        else:
            client = rng.randrange(len(clients))
        when = arrival(rng)
        while when < 1:
            number = bisect.bisect(weights, rng.random() * weights[-1])
            out.append((when, client, clients[client], f"/p/{number}"))
            if KINDS[clients[client]][2]:
                seen = has.setdefault(client, set())
                for n, path in enumerate(assets(number, when)):
                    if path not in seen:  # the browser's own cache
                        seen.add(path)
                        out.append((when + n * 1e-5, client, clients[client], path))
            if rng.random() < 0.12:
                break
            when += rng.expovariate(300)
    out.sort()
    return out
