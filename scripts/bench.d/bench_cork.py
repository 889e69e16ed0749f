"""Corking: MORE on and off, on TCP and Unix sockets, plain and with TLS, with packets, records and
writes per response.

nbdkit's table has requests per second before and after; here the three ways run in turns, each in a
tarnd of its own, so that what else the machine does meets all of them.  The switch is preloaded
(cork_preload.c): tarnd has none.
"""

import mmap
import os
import statistics
import struct
import subprocess
from dataclasses import dataclass

import bench_tls
from bench_load import number, print_table
from bench_proc import BenchError, progress

MODES = ("apart", "more", "asis")  # as cork_preload.c calls them
TITLES = {"apart": "off", "more": "MSG_MORE", "asis": "on"}


@dataclass(frozen=True)
class Row:
    title: str
    path: str
    conns: int
    depth: int = 1


ROWS = (
    Row("1 KiB hit, 1 conn", "/hit/1024", 1),
    Row("1 KiB hit, 64 conns", "/hit/1024", 64),
    Row("1 KiB hit, 16 x 16 pipelined", "/hit/1024", 16, 16),
    Row("16 KiB hit, 16 conns", "/hit/16384", 16),
    Row("1 MiB hit, 4 conns", "/hit/1048576", 4),
    Row("4 KiB pass, 16 conns", "/pass/4096", 16),
    Row("4 KiB pass, head apart, 16 conns", "/apart/4096", 16),
)
TRANSPORTS = ("tcp", "unix", "tcp tls", "unix tls")


class Counted:
    """A tarnd of one mode, and how often it called sendmsg."""

    def __init__(self, lab, mode, origin, certs):
        tls_port, tls_socket = lab.port(), lab.path(f"{mode}-tls.sock")
        port, local = lab.port(), lab.path(f"{mode}.sock")
        self.addresses = {"tcp": port, "unix": local, "tcp tls": f"tls:{tls_port}", "unix tls": f"tls:{tls_socket}"}
        path = lab.path(f"cork-{mode}")
        with open(path, "wb") as f:
            f.write(bytes(8))
        with open(path, "r+b") as f:
            self.map = mmap.mmap(f.fileno(), 8)
        conf = lab.template("tarn_cork.yaml.in", f"cork-{mode}.yaml", PORT=port, SOCKET=local,
                            SECUREPORT=tls_port, SECURESOCKET=tls_socket, CERTS=certs, ORIGIN=origin,
                            SHM=lab.path(f"shm-{mode}"))
        preload = os.path.join(lab.build, "bin", "bench-cork-preload.so")
        self.proc = lab.start(f"tarnd-{mode}", [
            "env", f"LD_PRELOAD={preload}", f"CORK_MODE={mode}", f"CORK_COUNT={path}",
            lab.program("tarnd"), "-c", conf], lab.server_cpu, ready="tarnd: ready")

    def sends(self):
        return struct.unpack("q", self.map[:8])[0]


def sample(lab, server, row, transport, seconds):
    """Requests a second, and per response segments, records, sendmsg and CPU time.  Calls toward
    the origin are counted too."""
    address = str(server.addresses[transport])
    sends, cpu = server.sends(), server.proc.cpu()[0]
    out = subprocess.run(
        [lab.program("bench-cork-load"), "get", address, row.path, str(row.conns), str(row.depth),
         str(seconds)], capture_output=True, text=True, check=False, timeout=seconds + 60,
        preexec_fn=lambda: os.sched_setaffinity(0, lab.client_cpu))
    if out.returncode != 0:
        raise BenchError(f"cork: {row.title}: {out.stderr.strip()}\n{server.proc.tail()}")
    requests, ns, segs, _, records = map(int, out.stdout.split())
    every = requests + row.conns * row.depth
    return {"requests_per_s": requests * 1e9 / ns,
            "segments": segs / requests if transport.startswith("tcp") else None,
            "records": records / requests if transport.endswith("tls") else None,
            "sendmsgs": (server.sends() - sends) / every,
            "cpu_us": (server.proc.cpu()[0] - cpu) / 1000 / every}


def median(samples, key):
    values = [s[key] for s in samples]
    return None if None in values else statistics.median(values)


def measure(lab, servers, row, transport, args):
    samples = {mode: [] for mode in MODES}
    for i in range(args.samples):
        for mode in MODES[i % 3:] + MODES[:i % 3]:
            progress(f"cork {transport} {row.title} {TITLES[mode]} {i + 1}")
            samples[mode].append(sample(lab, servers[mode], row, transport, args.seconds))
    return {TITLES[m]: {key: median(samples[m], key) for key in samples[m][0]} for m in MODES}


def line(row, transport, result):
    """The texts of one row of the table."""
    off, flag, on = (result[TITLES[m]] for m in MODES)
    return [row.title, transport,
            number(off["requests_per_s"]), number(flag["requests_per_s"]),
            number(on["requests_per_s"]), f"{on['requests_per_s'] / off['requests_per_s']:.2f}",
            *(number(r["cpu_us"], 1) for r in (off, flag, on)),
            *(number(r["segments"], 2) for r in (off, flag, on)),
            *(number(r["records"], 2) for r in (off, on)),
            *(number(r["sendmsgs"], 2) for r in (off, flag, on))]


def run(lab, args):
    missing = [p for p in ("tarnd", "bench-cork-load", "bench-cork-preload.so")
               if not os.path.exists(os.path.join(lab.build, "bin", p))]
    if missing:
        raise BenchError(f"not built: {' '.join(missing)} in {lab.build}/bin "
                         "(cmake -B build -DTARN_BENCH=ON && cmake --build build)")
    origin = lab.port()
    lab.start("cork-origin", [lab.program("bench-cork-load"), "origin", str(origin)],
              ready="cork_load: ready")
    certs = os.path.dirname(bench_tls.make_certificate(lab))
    servers = {mode: Counted(lab, mode, origin, certs) for mode in MODES}
    table, rows = [], []
    for transport in TRANSPORTS:
        for row in ROWS:
            result = measure(lab, servers, row, transport, args)
            table.append(line(row, transport, result))
            rows.append({"load": row.title, "transport": transport, **result})
    progress()
    head = ["load", "socket", "req/s off", "MSG_MORE", "on", "on/off", "CPU us off", "MSG_MORE",
            "on", "segments off", "MSG_MORE", "on", "records off", "on", "sendmsg off", "MSG_MORE", "on"]
    print_table(head, table, left=2)
    print("\noff: head and body are writes of their own, and over TLS records of their own.  MSG_MORE: those, corked by the kernel.\n"
          "on: as tarnd is.  Per response; sendmsg counts those to the origin, too.")
    return {"mode": "cork", "rows": rows}
