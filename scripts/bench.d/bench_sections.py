"""The sections of scripts/bench: one row each.

To add one: a module bench_NAME.py with `run(lab, args) -> dict`, which prints its table and
returns what results.json is to hold (bounds under "bounds", see bench_results.py, or made of it in
bench_bounds.py), and a row.
"""

import importlib
from dataclasses import dataclass, field

import bench_bounds
from bench_results import print_bounds


@dataclass(frozen=True)
class Section:
    name: str
    module: str
    help: str
    function: str = "run"
    options: dict = field(default_factory=dict)  # of the command line, as this section has them
    in_all: bool = True
    needs: tuple = ()  # sections that must be in the results before
    usual: tuple = (5, 5)  # seconds and samples, unless the command line says

    def run(self, lab, args):
        result = getattr(importlib.import_module(self.module), self.function)(lab, args)
        if "bounds" not in result and self.name in bench_bounds.OF:
            result["bounds"] = bench_bounds.OF[self.name](result)
            print_bounds(result["bounds"])
        return result


def hit(name, text):
    return Section(name, "bench_compare", text, options={"loads": [name]})


SECTIONS = (
    # The cost of a hit, and of what else is asked for all the time, beside the peers.
    hit("hit-1k", "a hit of 1 KiB, 64 connections, every server"),
    hit("pipe-1k", "the same, 16 requests in one write"),
    hit("browser-1k", "the same, asked for as a browser asks"),
    hit("traced-1k", "the same, each request with a trace id of its own"),
    hit("hit-16k", "a hit of 16 KiB, 64 connections"),
    hit("hit-1m", "a hit of 1 MiB, 16 connections"),
    hit("hit-1k-c1000", "a hit of 1 KiB, 1,000 connections"),
    Section("synth", "bench_synth", "the source's load for answers of our own: 42, logged"),
    Section("policy", "bench_policy", "user instructions that policies add to a hit"),
    Section("miss", "bench_miss", "no URL twice: storing and passing, beside the peers"),
    Section("pass", "bench_pass", "64 MiB through the server itself in pass mode: CPU, memory"),
    Section("compress", "bench_compress", "gzip on the way, hits on it, and memory, beside the peers",
            usual=(3, 5)),
    Section("esi", "bench_esi", "a page with 12 includes: its time beside Varnish, its cost beside hits",
            usual=(1, 3)),
    Section("day", "bench_day", "a day's traffic: bytes, CPU and memory without compression, by gzip, by forms",
            usual=(90, 1)),
    Section("window", "bench_window", "5 GB to 100 readers through one window: fetches, memory"),
    Section("workers", "bench_workers", "two workers against one: requests per CPU second"),
    Section("log", "bench_log", "a hit beside readers of the log; what a reader at 20,000/s loses"),
    Section("flat", "bench_flat", "a hit's instructions among 1,000 to 2,000,000 objects"),
    Section("tags", "bench_tags", "a purge by tag: 10,000 objects among 1,000,000",
            usual=(1, 5)),
    # Memory.
    Section("memory", "bench_memory", "bytes of an object and of a connection, beside the peers"),
    Section("churn", "bench_churn", "20 times the cache's size through it: resident memory"),
    # What the systems show of themselves from which the parts are taken.
    Section("index", "bench_index", "2 million keys beside a chained table (vlserver)"),
    Section("lease", "bench_lease", "small extents by leases and by lease_each (VAI)"),
    Section("tables", "bench_tables", "left-right tables: reads, writes, messages (mmap-sync)"),
    Section("cork", "bench_cork", "MORE on and off, TCP and Unix sockets (nbdkit)",
            usual=(1, 5)),
    # What is drawn.
    Section("tls-storm", "bench_storm",
            "latency of hits, plain and TLS, beside 500 new handshakes a second", usual=(10, 3)),
    Section("tls", "bench_tls", "TLS: handshakes and hits beside OpenSSL alone, nginx, HAProxy"),
    Section("h2", "bench_h2", "HTTP/2: hits, time and sessions, plain and TLS, beside nginx, HAProxy", usual=(5, 3)),
    Section("ratio", "bench_ratio", "hit ratio against cache size, beside libcachesim's"),
    Section("latency", "bench_latency", "p50 to p99.99 of hits and misses at a fixed load"),
    Section("cost", "bench_cost", "a hit's cost against object size and connection count",
            usual=(1, 5)),
    Section("plots", "bench_plots", "SVG of the last three; measures those that are missing",
            needs=("latency", "ratio", "cost")),
    # By hand.
    Section("callgrind", "bench_callgrind", "user instructions of every load, and nothing else",
            in_all=False),
    Section("profile", "bench_callgrind", "the functions that a hit of tarnd spends them in",
            function="profile", in_all=False),
    Section("soak", "bench_soak", "two workers, 1,000 connections, a set larger than the cache",
            in_all=False, usual=(60, 1)),
)

GROUPS = {
    "hits": (tuple(s.name for s in SECTIONS if s.module == "bench_compare"),
             "the rows of hits; what is run when nothing is said"),
    "sources": (("lease", "synth", "index", "tables", "cork"),
                "the five systems that parts are taken from, by their own tables"),
    "all": (tuple(s.name for s in SECTIONS if s.in_all),
            "all but callgrind, profile and soak"),
}
BY_NAME = {s.name: s for s in SECTIONS}
ORDER = tuple(BY_NAME)


def expand(names):
    """Sections of names of sections and groups, each once, as asked; None: a name is unknown."""
    found = []
    for name in names or ("hits",):
        for one in GROUPS[name][0] if name in GROUPS else (name,):
            if one not in BY_NAME:
                return None
            if one not in found:
                found.append(one)
    return found


def listing():
    lines = [f"  {s.name:<13} {s.help}" for s in SECTIONS]
    lines += [f"  {name:<13} {text}" for name, (_, text) in GROUPS.items()]
    return "\n".join(lines)
