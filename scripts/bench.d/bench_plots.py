"""Draws what was measured before: SVG files in the output folder."""

import os
import subprocess

import bench_venv
from bench_proc import HERE, BenchError


def run(_lab, args):
    program = bench_venv.python(args.build)
    out = subprocess.run([program, "-B", os.path.join(HERE, "draw.py"), args.results.path,
                          args.out], capture_output=True, text=True, check=False, timeout=300)
    if out.returncode != 0:
        raise BenchError(f"draw.py: {out.stderr[-800:]}")
    print(out.stdout.rstrip())
    return {"files": [os.path.basename(line.split()[0]) for line in out.stdout.splitlines()]}
