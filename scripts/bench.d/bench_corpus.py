"""Text to pack, of what Python ships: the same for the same version, and nothing of it is kept.

Random words pack otherwise than what people write, so these are sources of the standard library: as
they are, about as dense as JavaScript (3.3 to 1 by gzip -1), and as a page of documentation (3.6 to 1).
"""

import ast
import html
import os
import sysconfig

from bench_proc import BenchError

SCRIPTS = ("argparse", "inspect", "typing", "doctest", "tarfile", "pickletools", "turtle")
PAGES = ("zipfile", "statistics", "shutil", "difflib")
LINES_SHOWN = 40  # of a function, on the page


def source(name):
    path = os.path.join(sysconfig.get_path("stdlib"), f"{name}.py")
    try:
        with open(path, encoding="utf-8") as f:
            return f.read()
    except OSError as e:
        raise BenchError(f"no text to pack: {e}") from e


def cut(data, size):
    """The first `size` bytes of it."""
    if len(data) < size:
        raise BenchError(f"{len(data)} bytes of text are less than {size}")
    return data[:size]


def script(size):
    """Program text, to be sent as JavaScript."""
    return cut("".join(map(source, SCRIPTS)).encode(), size)


def section(module, lines, node):
    """A function, or a class, as documentation shows it."""
    name = html.escape(f"{module}.{node.name}")
    said = "".join(f"<p>{html.escape(part)}</p>\n"
                   for part in (ast.get_docstring(node) or "").split("\n\n") if part)
    shown = html.escape("\n".join(lines[node.lineno - 1:node.end_lineno][:LINES_SHOWN]))
    return (f'<section id="{name}">\n<h3>{name}</h3>\n{said}<pre><code>{shown}</code></pre>\n'
            '</section>\n')


def page(size):
    """A page of HTML."""
    out = ['<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>Library</title>'
           '<link rel="stylesheet" href="/style.css"></head>\n<body><main>\n']
    for module in PAGES:
        text = source(module)
        out += [section(module, text.splitlines(), node) for node in ast.walk(ast.parse(text))
                if isinstance(node, (ast.FunctionDef, ast.ClassDef))]
    return cut("".join(out).encode(), size)
