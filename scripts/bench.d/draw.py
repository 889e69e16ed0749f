"""draw.py RESULTS_JSON FOLDER [svg|png] -- the plots of scripts/bench, of what is in its results.

Needs matplotlib; scripts/bench plots makes a virtual environment that has it, and runs this.
Colours are those of Okabe and Ito, which colour-blind people can tell apart, and every line has
a mark and a dash of its own besides.
"""

import json
import os
import re
import statistics
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402
from matplotlib.ticker import (FixedFormatter, FixedLocator, FuncFormatter,  # noqa: E402
                               LogLocator, NullLocator)

STYLES = {  # colour, mark, dash
    "tarnd": ("#D55E00", "o", "-"), "responder": ("#000000", "x", ":"),
    "floor": ("#777777", "+", ":"), "nginx": ("#009E73", "s", "--"),
    "haproxy": ("#0072B2", "^", "-."), "varnish": ("#CC79A7", "D", "--"),
    "s3-fifo": ("#D55E00", "o", "-"), "sieve": ("#009E73", "s", "--"),
    "lru": ("#0072B2", "^", "-."), "belady": ("#000000", "x", ":"),
}
TITLES = {"tarnd": "Tarn", "nginx": "nginx", "haproxy": "HAProxy", "varnish": "Varnish",
          "floor": "floor (bare epoll)", "responder": "bare libuv + llhttp", "s3-fifo": "S3-FIFO",
          "sieve": "SIEVE", "lru": "LRU", "belady": "Belady (knows the future)"}
TEXT = "#222222"


def style():
    plt.rcParams.update({
        "svg.fonttype": "none", "svg.hashsalt": "tarn", "font.family": "DejaVu Sans",
        "font.size": 10, "text.color": TEXT, "axes.labelcolor": TEXT, "axes.edgecolor": "#666666",
        "xtick.color": TEXT, "ytick.color": TEXT, "axes.grid": True, "grid.color": "#DDDDDD",
        "grid.linewidth": 0.6, "xtick.bottom": False, "ytick.left": False,
        "axes.spines.top": False, "axes.spines.right": False,
        "axes.titlesize": 10.5, "axes.titlelocation": "left", "figure.facecolor": "white",
        "legend.frameon": False, "lines.linewidth": 1.7, "lines.markersize": 4.5})


def line(ax, name, xs, ys):
    colour, mark, dash = STYLES[name]
    points = [(x, y) for x, y in zip(xs, ys) if y is not None]
    if points:
        ax.plot(*zip(*points), color=colour, marker=mark, linestyle=dash, label=TITLES[name],
                zorder=3 if name in ("tarnd", "s3-fifo") else 2)


def plain(value, _position=None):
    """12, 1.5, 10,000: not 10^4."""
    return f"{value:,.0f}" if value >= 10 else f"{value:g}"


def log_y(ax):
    """Few labels over many powers of ten, more over few."""
    ax.set_yscale("log")
    low, high = ax.get_ylim()
    ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 300 * low else (1,)))
    ax.yaxis.set_major_formatter(FuncFormatter(plain))
    ax.yaxis.set_minor_locator(NullLocator())


def ticks(axis, places, texts):
    axis.set_major_locator(FixedLocator(places))
    axis.set_major_formatter(FixedFormatter(texts))
    axis.set_minor_locator(NullLocator())


def legend(fig, axes):
    """One for all, below."""
    known = {}
    for ax in axes:
        for handle, label in zip(*ax.get_legend_handles_labels()):
            known.setdefault(label, handle)
    fig.legend(known.values(), known.keys(), loc="outside lower center", ncols=min(6, len(known)))


def figure(title, rows, columns, width, height, sharey=False):
    fig, axes = plt.subplots(rows, columns, figsize=(width, height), layout="constrained",
                             squeeze=False, sharey=sharey)
    fig.suptitle(title, fontsize=11.5, x=0.01, ha="left")
    return fig, list(axes.flat)


def latency(result):
    """x: how many of the requests, to a scale on which each nine has the same width."""
    rows = result["rows"]
    fig, axes = figure("Latency at a fixed load: within which time how many are answered",
                       1, 2, 9.5, 4.2)
    percents = sorted({float(p) for r in rows for p in r["us"]})
    for ax, load, title in zip(axes, ("hit", "miss"), ("hits of 1 KiB", "misses of 1 KiB, stored")):
        rates = []
        for r in (r for r in rows if r["load"] == load and r["server"] in STYLES):
            us = {float(p): v for p, v in r["us"].items()}
            line(ax, r["server"], [100 / (100 - p) for p in percents],
                 [us.get(p) for p in percents])
            rates.append(r["requests_per_s"])
        about = f", some {round(statistics.median(rates), -2):,.0f} a second" if rates else ""
        ax.set_title(title + about)
        ax.set_xscale("log")
        ticks(ax.xaxis, [2, 10, 100, 1000, 10000], ["50", "90", "99", "99.9", "99.99"])
        log_y(ax)
        ax.set_xlabel("percentile of requests")
        ax.set_ylabel("latency, microseconds")
    legend(fig, axes)
    return fig


def ratio(result):
    """A panel for each trace."""
    traces = list(dict.fromkeys(r["trace"] for r in result["rows"]))
    columns = 3
    lines = -(-len(traces) // columns)
    fig, axes = figure("Hit ratio by cache size: S3-FIFO, as Tarn has it, between LRU and the "
                       "optimum", lines, columns, 9.5, 0.9 + 2.5 * lines, sharey=True)
    for ax, trace in zip(axes, traces):
        rows = [r for r in result["rows"] if r["trace"] == trace]
        sizes = [float(r["size"].rstrip("%")) for r in rows]
        for name in ("belady", "s3-fifo", "sieve", "lru"):
            line(ax, name, sizes, [r["hits"][name][0] for r in rows])
        ax.set_title(trace)
        ax.set_xscale("log")
        ticks(ax.xaxis, sizes, [f"{s:g}" for s in sizes])
        ax.set_ylim(0)
    for n, ax in enumerate(axes):
        ax.set_visible(n < len(traces))
        if n + columns >= len(traces):
            ax.set_xlabel("cache, % of all objects' bytes")
        if n % columns == 0:
            ax.set_ylabel("requests that hit, %")
    legend(fig, axes)
    return fig


def size_text(size):
    for unit, text in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return f"{size // unit} {text}"
    return f"{size} B"


def cost(result, places, title, xlabel, texts):
    by = {(r["load"], r["server"]): r for r in result["rows"]}
    servers = list(dict.fromkeys(r["server"] for r in result["rows"]))
    panels = [(key, ylabel, what) for key, ylabel, what in
              (("user_instructions", "user instructions a request",
                "instructions, without the kernel's"),
               ("cpu_us", "CPU microseconds a request", "CPU time, with the kernel's"))
              if any(r[key] is not None for r in result["rows"])]
    fig, axes = figure(title, 1, len(panels), 9.5, 4.2)
    for ax, (key, ylabel, what) in zip(axes, panels):
        for name in (s for s in servers if s in STYLES):
            line(ax, name, list(places.values()),
                 [by[load, name][key] if (load, name) in by else None for load in places])
        ax.set_title(what)
        ax.set_xscale("log")
        ticks(ax.xaxis, list(places.values()), texts)
        ax.tick_params(axis="x", labelrotation=45 if len(texts) > 7 else 0)
        log_y(ax)
        ax.set_xlabel(xlabel)
        ax.set_ylabel(ylabel)
    legend(fig, axes)
    return fig


def cost_size(result):
    places = result["sizes"]
    return cost(result, places, "What a hit costs by the size of its object, 64 connections",
                "object size", [size_text(s) for s in places.values()])


def cost_conns(result):
    places = result["conns"]
    return cost(result, places, "What a hit of 1 KiB costs by the number of connections",
                "connections", [f"{n:,}" for n in places.values()])


def slim(path):
    """Half the bytes for the same picture: hundredths of a point are enough."""
    with open(path, encoding="utf-8") as f:
        text = f.read()
    text = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->|<!DOCTYPE.*?>", "", text, flags=re.S)
    text = re.sub(r"(\.\d\d)\d+", r"\1", text)
    with open(path, "w", encoding="utf-8") as f:
        f.write(re.sub(r"\s*\n\s*", " ", text).replace(" <g id", "\n<g id").strip() + "\n")


PLOTS = (("latency", "latency", latency), ("hit-ratio", "ratio", ratio),
         ("cost-size", "cost", cost_size), ("cost-connections", "cost", cost_conns))


def main():
    path, folder, form = sys.argv[1], sys.argv[2], (sys.argv[3:] or ["svg"])[0]
    with open(path, encoding="utf-8") as f:
        sections = json.load(f)["sections"]
    style()
    for name, section, draw in PLOTS:
        result = sections.get(section, {}).get("result")
        if result is None:
            continue
        fig = draw(result)
        out = os.path.join(folder, f"{name}.{form}")
        fig.savefig(out, dpi=110, metadata={"Date": None} if form == "svg" else None)
        plt.close(fig)
        if form == "svg":
            slim(out)
        print(f"{out} {os.path.getsize(out):,} bytes")


if __name__ == "__main__":
    main()
