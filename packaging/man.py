#!/usr/bin/env python3
"""man.py OUT VERSION BIN [EMULATOR...] -- writes every manual page into the folder OUT, which is emptied first.

A page is Markdown: man/NAME.SECTION.md, or, of tarnctl, made of the rows that BIN/tarn_ctl_gen prints.
A line `<!-- PROGRAM ARGUMENT... -->` stands for what that program of BIN prints from its tables.  A row
that lacks its text, and an option that lacks its place in a page, are errors.
"""
import os
import re
import shutil
import subprocess
import sys

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "man")
OUT, VERSION, BIN, *EMULATOR = sys.argv[1:]
ESCAPES = {"-": r"\-", "\\": r"\e", "^": r"\(ha", "`": r"\(ga", "~": r"\(ti", "'": r"\(aq"}


def printed(program, *args):
    return subprocess.run([*EMULATOR, os.path.join(BIN, program), *args], check=True, capture_output=True,
                          text=True).stdout


def must(holds, text):
    if not holds:
        sys.exit(f"man.py: {text}")


# ---- Markdown to man(7) ----

def escaped(text):
    return re.sub(r"[-\\^`~']", lambda m: ESCAPES[m[0]], text)


def inline(text):
    """`this`, **this** and page(1) are bold, *THIS* is italic; \\| is a bar in a cell."""
    out = ""
    for part in re.split(r"(`[^`]+`|\*\*.+?\*\*|(?<![\w*-])\*[A-Z/][\w./]*\*|\b[a-z][\w.-]*\(\d\))",
                         text.replace(r"\|", "|")):
        if m := re.fullmatch(r"`(.+)`|\*\*(.+)\*\*", part):
            out += rf"\fB{escaped(m[1] or m[2])}\fR"
        elif m := re.fullmatch(r"\*(.+)\*", part):
            out += rf"\fI{escaped(m[1])}\fR"
        elif m := re.fullmatch(r"(.+)(\(\d\))", part):
            out += rf"\fB{escaped(m[1])}\fR{m[2]}"
        else:
            out += escaped(part)
    return r"\&" + out if out[:1] == "." else out


def text(lines, indent):
    """Lines of a paragraph; indented ones are shown as they are, a backslash at the end breaks."""
    out, example = [], False
    for line in [*lines, ""]:
        if example != line.startswith("    "):
            out += [".fi", ".RE"] if example else [f".RS {indent}", ".nf"]
            example = not example
        if line:
            out += [inline(line[4:] if example else line.removesuffix("\\"))]
            out += [".br"] if line.endswith("\\") and not example else []
    return out


def table(lines):
    """The first cell is the term, the last one says what it is; those between are named by the head."""
    head, _, *rows = ([cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines)
    for term, *between, what in rows:
        said = ", ".join(f"{name} {cell}" for name, cell in zip(head[1:], between) if cell)
        yield from (".TP", inline(term if "`" in term else f"**{term}**"))
        yield from (inline(said), ".br") if said else ()
        yield inline(what)


def block(lines):
    """The roff of lines without an empty one."""
    if m := re.fullmatch("(##+) (.+)", lines[0]):
        yield (".SH " if m[1] == "##" else ".SS ") + escaped(m[2].replace("`", ""))
        yield from text(lines[1:], 4)
    elif lines[0].startswith("|"):
        yield from table(lines)
    elif lines[0].startswith("- "):
        for line in lines:
            yield from (".TP", *map(inline, line[2:].split(": ", 1)))
    elif lines[1:] and lines[1].startswith(": "):
        yield from (".TP", inline(lines[0]), *text([lines[1][2:], *lines[2:]], 11))
    else:
        yield from (".PP", *text(lines, 4))


def write(markdown):
    """Writes the page whose first line is `# NAME(SECTION) -- WHAT`."""
    title, rest = markdown.split("\n", 1)
    name, section, what = re.fullmatch(r"# (\S+)\((\d)\) -- (.+)", title).groups()
    rest = re.sub(r"<!-- (.+) -->\n", lambda m: printed(*m[1].split()), rest)
    with open(os.path.join(OUT, f"{name}.{section}"), "w", encoding="utf-8") as f:
        print(f'.TH {escaped(name.upper())} {section} "" "Tarn {VERSION}" "Tarn"\n.SH NAME\n'
              rf"{escaped(name)} \- {inline(what)}", file=f)
        for lines in re.split(r"\n\n+", rest.strip("\n")):
            print(*block(lines.split("\n")), sep="\n", file=f)


# ---- The pages of tarnctl ----

def rows():
    """Of each table its rows, which are lists of texts."""
    tables = {}
    for line in printed("tarn_ctl_gen").split("\x1e")[:-1]:
        kind, *fields = line.split("\x1f")
        tables.setdefault(kind, []).append(fields)
    return tables


def taken(args):
    """What a synopsis has that needs a word of explanation."""
    return set(re.findall(r"--[a-z-]+|[a-z]+(?:\|[a-z]+)+|\b[A-Z]{2,}\b", args)) - {"OPTION"}


def definitions(pairs):
    return "".join(f"**{term}**\n: {what}\n\n" for term, what in pairs)


def help_of(more):
    """The lines of a command's help, and the options that stand among them."""
    options = [[m[1], re.sub(r"\n +", " ", m[2])]
               for m in re.finditer(r"(?m)^ {4}(-.+?) {2,}(.+(?:\n {21}.+)*)", more)]
    lines = re.sub(r"(?m)^ {4}-.+\n(?: {21}.+\n)*", "", more)
    return lines.strip("\n"), options


def of_word(tables, word, what, see):
    """The page of a command's first word."""
    forms = [row for row in tables["command"] if row[0].split()[0] == word]
    must(forms, f"page {word}: there is no such command")
    args = " ".join(row[1] for row in forms)
    words = [row[1:] for row in tables["word"]
             if row[0] in ("", word) and re.search(rf"(?<![\w-]){re.escape(row[1])}(?![\w|])", args)]
    examples = [row[1:] for row in tables["example"] if row[0] == word]
    options = [option for row in forms for option in help_of(row[3])[1]]
    said = " ".join(term for term, _ in words + options)
    must(taken(args) <= taken(said), f"page {word}: nothing is said of {taken(args) - taken(said)}")
    must(examples, f"page {word}: there is no example")
    page = f"# tarnctl-{word}(1) -- {what or forms[0][2]}\n\n## SYNOPSIS\n"
    page += "\\\n".join(f"**tarnctl {row[0]}** {row[1]}" for row in forms) + "\n\n## DESCRIPTION\n"
    for name, synopsis, does, more in forms:
        does = f"{does[0].upper()}{does[1:]}.\n{help_of(more)[0]}".strip()
        page += f"\n**tarnctl {name}** {synopsis}\n: {does}\n" if len(forms) > 1 else f"{does}\n"
    page += "\n## ARGUMENTS AND OPTIONS\n\n" + definitions(words + options + tables["option"])
    page += "## EXIT STATUS\n\n" + definitions(tables["exit"])
    page += "## EXAMPLES\n\n" + definitions(examples)
    return page + "## SEE ALSO\ntarnctl(1), " + "".join(f"tarnctl-{w}(1), " for w in see.split()) + "tarnd(8)\n"


def tarnctl(tables):
    """The page of all commands."""
    names = [page[0] for page in tables["page"]]
    return ("# tarnctl(1) -- see, change and explain a running tarnd\n\n"
            "## SYNOPSIS\n**tarnctl** [*OPTIONS*] *COMMAND*\n\n"
            "## DESCRIPTION\nEach command asks tarnd's admin listener, and prints its answer.\n"
            "A command's own page has all of its options, and examples: `man tarnctl-purge`.\n\n"
            "## COMMANDS\n\n" + "".join(f"**{name}** {args}\n: {what}\n\n"
                                        for name, args, what, _ in tables["command"])
            + "## OPTIONS\n\n" + definitions(tables["option"])
            + "## EXIT STATUS\n\n" + definitions(tables["exit"])
            + "## SEE ALSO\n" + "".join(f"tarnctl-{name}(1), " for name in names)
            + "tarnd(8), tarn.yaml(5), tarn-table(1)\n")


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    os.makedirs(OUT)
    for name in sorted(os.listdir(HERE)):
        with open(os.path.join(HERE, name), encoding="utf-8") as f:
            markdown = f.read()
        program = markdown[2:markdown.index("(")]
        if os.path.exists(os.path.join(BIN, program)):
            for word in re.findall(r"--[a-z]+|\bSIG[A-Z0-9]+", printed(program, "--help")):
                must(word in markdown, f"{name}: {word} of {program} --help is not there")
        write(markdown)
    tables = rows()
    pages = [row[0] for row in tables["page"]]
    must(pages == list(dict.fromkeys(row[0].split()[0] for row in tables["command"])),
         "CTL_PAGE_TABLE has not a row for each command's first word, in their order")
    for kind in ("word", "example"):
        for word, *_ in tables[kind]:
            must(word in ("", *pages), f"a row of the {kind}s is of {word}, which is no command")
    for row in tables["page"]:
        for see in row[2].split():
            must(see in pages, f"page {row[0]}: there is no page {see} to see")
        write(of_word(tables, *row))
    write(tarnctl(tables))


main()
