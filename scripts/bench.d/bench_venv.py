"""Python packages that the plots and the reference simulator need: in the build folder, pinned."""

import os
import subprocess
import sys

from bench_proc import BenchError, progress

PACKAGES = ("matplotlib==3.11.2", "libcachesim==0.3.5")
PIP_SECONDS = 900


def quietly(argv, what):
    try:
        out = subprocess.run(argv, capture_output=True, text=True, check=False,
                             timeout=PIP_SECONDS)
    except subprocess.TimeoutExpired as e:
        raise BenchError(f"{what} did not end within {PIP_SECONDS} s") from e
    if out.returncode != 0:
        last = "\n".join((out.stdout + out.stderr).strip().splitlines()[-5:])
        raise BenchError(f"{what} failed:\n{last}")


def python(build):
    """The path of a Python that has PACKAGES; made when it is asked for first."""
    folder = os.path.join(build, "bench-venv")
    program, mark = os.path.join(folder, "bin", "python"), os.path.join(folder, "packages")
    wanted = "\n".join(PACKAGES)
    try:
        with open(mark, encoding="ascii") as f:
            if f.read() == wanted:
                return program
    except OSError:
        pass
    progress("a virtual environment for " + ", ".join(PACKAGES))
    quietly([sys.executable, "-m", "venv", folder],
            "python3 -m venv (Debian: apt-get install python3-venv)")
    quietly([program, "-m", "pip", "install", "-q", "--disable-pip-version-check", *PACKAGES],
            f"pip install {' '.join(PACKAGES)}")
    with open(mark, "w", encoding="ascii") as f:
        f.write(wanted)
    progress()
    return program
