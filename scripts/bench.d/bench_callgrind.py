"""User instructions of a request, counted by valgrind, and which functions they go to.

A program is run twice, for N1 and for N2 requests on the same connections.  The difference
divided by N2 - N1 is the cost of a request: start, connections, misses and exit cancel out.
"""

import itertools
import os
import re
import selectors
import socket
import subprocess
import sys
import time

import bench_load
import bench_servers
from bench_load import number, print_table
from bench_proc import BenchError, fetch, progress

FIRST = 0.1          # N1 as a part of N2 - N1
READY_SECONDS = 120  # valgrind starts slowly
STALL_SECONDS = 120
PEER_PART = 0.2      # of the requests: peers cost several times as much, and differ by more
# Varnish takes too long to start there.
COUNTED = (bench_servers.Built, bench_servers.Nginx, bench_servers.Haproxy)


def browser_fields():
    """The fields of browser.lua, so that both count the same request."""
    with open(f"{bench_load.WRK_DIR}/browser.lua", encoding="utf-8") as f:
        text = f.read()
    table = re.search(r"local fields = \{(.*?)\n\}", text, re.S).group(1)
    fields = []
    for name, value in re.findall(r'\["([^"]+)"\] = (.*?),\n(?=    \[|$)', table + "\n", re.S):
        parts = re.findall(r"""'([^']*)'|"([^"]*)\"""", value)
        fields.append((name, "".join(a or b for a, b in parts)))
    return fields


def request_maker(load, port):
    """Gives the bytes of the next write on a connection."""
    fields = (*(browser_fields() if load.script == "browser.lua" else ()), *load.fields)
    rest = "".join(f"\r\n{name}: {value}" for name, value in fields) + "\r\n\r\n"
    head = f" HTTP/1.1\r\nHost: 127.0.0.1:{port}{rest}"
    serial = itertools.count(1)
    if load.script == "traced.lua":
        traced = f"GET {load.path}{head[:-2]}traceparent: 00-%032x-%016x-01\r\n\r\n"
        return lambda: (traced % ((next(serial),) * 2)).encode()
    if load.script != "unique.lua":
        same = f"GET {load.path}{head}".encode() * load.depth
        return lambda: same
    return lambda: f"GET {load.path}count-{next(serial)}{head}".encode()


class Answers:
    """Counts the answers that arrive on one connection."""

    LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.I)

    def __init__(self, port):
        self.sock = socket.create_connection(("127.0.0.1", port), 30)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.held, self.skip, self.awaited = b"", 0, 0

    def feed(self, data):
        """Takes bytes; how many answers ended in them."""
        done = 0
        data = self.held + data
        self.held = b""
        while data or self.skip == 0:
            if self.skip > 0:
                n = min(self.skip, len(data))
                data, self.skip = data[n:], self.skip - n
                done += self.skip == 0
                if self.skip > 0:
                    break
                continue
            end = data.find(b"\r\n\r\n")
            if end < 0:
                self.held = data
                break
            head = data[:end]
            if not head.startswith(b"HTTP/1.1 200 "):
                raise BenchError(f"an answer that is not 200: {head[:60]!r}")
            self.skip = int(self.LENGTH.search(head).group(1))
            data = data[end + 4:]
        self.awaited -= done
        return done


def drive(port, load, total):
    """Sends `total` requests in rounds, one write on each connection and then all answers."""
    conns = [Answers(port) for _ in range(load.conns)]
    next_request = request_maker(load, port)
    left = total
    with selectors.DefaultSelector() as sel:
        for c in conns:
            sel.register(c.sock, selectors.EVENT_READ, c)
        while left > 0:
            waiting = 0
            for c in conns:
                if left <= 0:
                    break
                c.sock.sendall(next_request())
                c.awaited += load.depth
                waiting += load.depth
                left -= load.depth
            while waiting > 0:
                events = sel.select(STALL_SECONDS)
                if not events:
                    raise BenchError(f"{waiting} answers did not come")
                for key, _ in events:
                    data = key.fileobj.recv(1 << 20)
                    if not data:
                        raise BenchError("a connection was closed before its answer")
                    waiting -= key.data.feed(data)
    for c in conns:
        c.sock.close()


def one_run(lab, server, load, total, tag):
    """Path of callgrind's file after `total` requests."""
    port = lab.port()
    out = lab.path(f"callgrind.{server.name}.{load.name}.{tag}")
    proc = lab.start(f"callgrind-{server.name}-{tag}",
                     ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}",
                      *server.counted_argv(port, load.path)],
                     lab.server_cpu, ready=getattr(server, "word", None), port=port,
                     seconds=READY_SECONDS)
    try:
        fetch(port, load.path, seconds=STALL_SECONDS)  # the miss
        drive(port, load, total)
        time.sleep(0.2)
    except (OSError, BenchError) as e:
        raise BenchError(f"{server.name} under valgrind: {e}\n{proc.tail()}") from e
    finally:
        proc.popen.terminate()
        try:
            proc.popen.wait(READY_SECONDS)
        except subprocess.TimeoutExpired:
            pass
        lab.stop(proc)
    return out


def total_of(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as f:
            m = re.search(r"^(?:totals|summary): (\d+)", f.read(), re.M)
    except OSError:
        m = None
    if not m:
        raise BenchError(f"valgrind left no count in {path}")
    return int(m.group(1))


def two_runs(lab, server, load):
    """(file for N1, file for N2, N2 - N1); both are whole rounds."""
    step = load.conns * load.depth
    wanted = load.counted * (1 if isinstance(server, bench_servers.Built) else PEER_PART)
    slope = max(1, int(wanted) // step) * step
    first = max(1, int(slope * FIRST) // step) * step
    return (one_run(lab, server, load, first, "n1"),
            one_run(lab, server, load, first + slope, "n2"), slope)


def count(lab, server, load):
    """User instructions of one request."""
    n1, n2, slope = two_runs(lab, server, load)
    cost = (total_of(n2) - total_of(n1)) / slope
    for path in (n1, n2):
        os.remove(path)
    return cost


def count_all(lab, servers, loads):
    """(load, server) -> user instructions of one request, of what valgrind can run."""
    counted = {}
    for load in loads:
        for server in servers:
            if not isinstance(server, COUNTED):
                continue
            progress(f"callgrind {load.name} {server.name}")
            try:
                counted[load.name, server.name] = count(lab, server, load)
            except (BenchError, OSError) as e:
                print(f"{server.name}: {e}", file=sys.stderr)
    progress()
    return counted


def run(lab, args):
    if not bench_servers.which("valgrind"):
        raise BenchError("valgrind is missing: scripts/bench --install")
    loads = bench_load.choose(args.loads)
    origin = bench_servers.Origin(lab)
    servers = bench_servers.choose(lab, origin, args.servers or ["floor", "responder", "tarnd"])
    counted = count_all(lab, servers, loads)
    table, rows = [], []
    for load in loads:
        base = counted.get((load.name, "responder"))
        for server in servers:
            got = counted.get((load.name, server.name))
            over = got - base if None not in (got, base) and server.name == "tarnd" else None
            table.append([f"{load.title}, {load.conns} conns", server.name, number(got),
                          "" if over is None else number(over),
                          "" if over is None else number(load.over_responder)])
            rows.append({"load": load.name, "server": server.name, "user_instructions": got,
                         "over_responder": over})
    print_table(["load", "server", "user instr", "over responder", "allowed"], table, left=2)
    print("\nper request, by callgrind, all threads; kernel instructions: n/a (valgrind does not "
          "see them)")
    return {"mode": "callgrind", "rows": rows}


def functions_of(path, inclusive):
    """function -> instructions, of a whole callgrind file."""
    out = subprocess.run(
        ["callgrind_annotate", "--threshold=100", "--auto=no", "--show-percs=no",
         f"--inclusive={'yes' if inclusive else 'no'}", path],
        capture_output=True, text=True, check=False, timeout=120)
    found = {}
    for count, name in re.findall(r"^ *([\d,]+) +(\S.*)$", out.stdout, re.M):
        # FILE:FUNCTION [OBJECT]; folders tell nothing here, and ??? less than the object
        m = re.match(r"(?:(.*?):)?(\S.*?)(?: \[(.*)\])?$", name)
        place, function, binary = (part or "" for part in m.groups())
        place = os.path.basename(binary if place == "???" else place)
        key, count = f"{function} ({place})", int(count.replace(",", ""))
        # A function's lines may be listed under several files, and its callees with each.
        found[key] = max(found.get(key, 0), count) if inclusive else found.get(key, 0) + count
    found.pop("PROGRAM TOTALS ()", None)
    return found


def profile(lab, args):
    """The functions of one hit of tarnd, by their own instructions."""
    if not bench_servers.which("callgrind_annotate"):
        raise BenchError("valgrind is missing: scripts/bench --install")
    load = bench_load.choose(args.loads or ["hit-1k"])[0]
    if args.servers == ["tarnd-synth"]:
        load = bench_load.Load("synth", "synthetic 42", "/2", 64)
    origin = bench_servers.Origin(lab)
    names = [n for n in args.servers or ["tarnd"]
             if n in ("floor", "responder") or n.startswith("tarnd")]
    server = bench_servers.choose(lab, origin, names[:1] or ["none"])[0]
    n1, n2, slope = two_runs(lab, server, load)
    total = (total_of(n2) - total_of(n1)) / slope
    cost = []
    own1, own2 = functions_of(n1, False), functions_of(n2, False)
    all1, all2 = functions_of(n1, True), functions_of(n2, True)
    for name, count in own2.items():
        own = (count - own1.get(name, 0)) / slope
        cost.append((own, (all2.get(name, 0) - all1.get(name, 0)) / slope, name))
    cost.sort(reverse=True)
    table, shown = [], 0
    for own, inclusive, name in cost[:args.top]:
        if own < 0.5:
            break
        shown += own
        table.append([name, number(own, 1), number(100 * own / total, 1), number(inclusive, 1)])
    print(f"{server.name}, {load.title}, {load.conns} conns: {total:,.0f} user instructions a "
          f"request")
    print_table(["function", "own", "%", "with callees"], table)
    print(f"\nthe functions shown make up {shown:,.0f} of {total:,.0f}")
    return {"mode": "profile", "server": server.name, "load": load.name, "total": total,
            "rows": [{"function": n, "own": o, "inclusive": i} for o, i, n in cost if o >= 0.5]}
