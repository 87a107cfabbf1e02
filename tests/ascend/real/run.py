#!/usr/bin/env python3
"""Emits the programs of launches.csv, library.csv, layers.csv, cores.csv and pull.csv with kbc, runs them on the simpler runtime, and writes a table of what ran.

    KBC_SIMPLER=path/to/simpler python3 tests/ascend/real/run.py
    KBC_SIMPLER=path/to/simpler python3 tests/ascend/real/run.py --only 'ring' --table real.md

Nothing of the runtime is here: KBC_SIMPLER is a checkout of it, installed for the Python that runs this script (or for
KBC_PYTHON). kbc is KBC, or target/release/kbc, target/debug/kbc, or the one on PATH. A line of launches.csv (a covering
array), library.csv (every other algorithm of the library) layers.csv (programs with matrix products), cores.csv (several cores of a rank) or pull.csv (receivers that fetch) is one package: it is compiled once and runs at its sizes,
RANKSxCOUNT each (RANKS where the count is fixed), with so many launches in one domain.

Exit code: 0 everything that was asked for ran and is right, 1 something is wrong, 2 it cannot run here, with the reason.
"""

import argparse
import csv
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
GOOD = re.compile(r"(\w+) on (\w+): (\d+) ranks(?:, \w+ = (\d+))?, (\d+) launches in one domain, ([\d.]+) s: every element")
COMPILED = re.compile(r"compiled in ([\d.]+) s")
CANNOT_RUN = 2
TABLES = ["launches.csv", "library.csv", "layers.csv", "cores.csv", "pull.csv"]


class Missing(Exception):
    """Something that a run needs is not here; the message is one sentence."""


def size(ranks, count):
    """A size as tables write it."""
    return f"{ranks}" if count is None else f"{ranks}x{count}"


class Row(NamedTuple):
    """A line of a table: a package and the sizes it runs at."""

    file: str
    program: str
    defines: str
    sizes: str
    iterations: str

    def wanted(self):
        """(ranks, count) of every size; the count is None where all sizes of the kernel are fixed."""
        return [(int(ranks), int(count) if x else None) for ranks, x, count in (size.partition("x") for size in self.sizes.split())]

    def name(self):
        return " ".join([self.program, *(f"-D {d}" for d in self.defines.split())])


class Ran(NamedTuple):
    """What came of a line."""

    row: Row
    compiled: float | None  # seconds
    seconds: dict  # (ranks, count) -> seconds of all its launches
    dtypes: tuple
    failure: str  # "" if all is right


def find_kbc():
    """The compiler."""
    given = os.environ.get("KBC")
    suffix = ".exe" if os.name == "nt" else ""
    near = [ROOT / "target" / kind / f"kbc{suffix}" for kind in ("release", "debug")]
    for path in [given] if given else [*near, shutil.which("kbc")]:
        if path and os.access(path, os.X_OK):
            return str(pathlib.Path(path).resolve())
    raise Missing(f"KBC is {given}, which is no program" if given else "kbc is not built: run `cargo build --release` first, or set KBC")


def find_runtime(platform):
    """Environment and Python of the runtime, and its revision."""
    simpler = os.environ.get("KBC_SIMPLER")
    if not simpler:
        raise Missing("KBC_SIMPLER is not set: it names a checkout of the simpler runtime, which is installed for this Python")
    checkout = pathlib.Path(simpler).resolve()
    if not (checkout / "simpler_setup").is_dir():
        raise Missing(f"KBC_SIMPLER is {simpler}, which is no checkout of the simpler runtime: it has no folder simpler_setup")
    python = os.environ.get("KBC_PYTHON", sys.executable)
    if not shutil.which(python):
        raise Missing(f"KBC_PYTHON is {python}, which is no program")
    if platform.endswith("sim") and not shutil.which("g++-15"):
        raise Missing("g++-15 is not on PATH: the runtime compiles kernels for its simulators with it")
    probe = subprocess.run([python, "-c", "import torch, simpler.worker, simpler_setup"], capture_output=True, text=True)
    if probe.returncode != 0:
        why = (probe.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise Missing(f"{python} cannot load the runtime, which `pip install` in the checkout installs: {why}")
    head = subprocess.run(["git", "-C", checkout, "rev-parse", "HEAD"], capture_output=True, text=True)
    return python, head.stdout.strip()[:7] or "of unknown revision"


def rows(only):
    """The lines of the tables whose name or file matches."""
    out = []
    for table in TABLES:
        with open(HERE / table, newline="") as f:
            out += [Row(**line) for line in csv.DictReader(f)]
    return [row for row in out if re.search(only, f"{row.file} {row.name()}")]


def run(row, kbc, python, platform, folder, limit):
    """Emits a package and runs it at its sizes."""
    command = [kbc, "compile", str(HERE / row.file), "--program", row.program, "--target", "a2a3", "-o", str(folder), "--quiet"]
    for define in row.defines.split():
        command += ["-D", define]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        return Ran(row, None, {}, (), f"kbc: {first_error(done.stdout + done.stderr)}")
    tensors = json.loads((folder / "manifest.json").read_text())["tensors"]
    dtypes = tuple(dict.fromkeys(t["dtype"] for t in tensors if t["elements"] is not None))
    devices = max(ranks for ranks, _ in row.wanted())
    command = [python, "main.py", "-p", platform, "-d", ",".join(map(str, range(devices))),
               "--iterations", row.iterations, "--sizes", *row.sizes.split()]
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=limit)
        text, code = done.stdout + done.stderr, done.returncode
    except subprocess.TimeoutExpired as e:
        text, code = (e.stdout or b"").decode(errors="replace") + f"error: not done after {limit} s", 1
    # Beside the package: the next run replaces it, and kbc keeps a folder with files of others.
    folder.with_name(f"{folder.name}.log").write_text(text)
    compiled = COMPILED.search(text)
    seconds = {}
    for line in text.splitlines():
        good = GOOD.match(line)
        if good and good[1] == row.program and good[2] == platform and good[5] == row.iterations:
            seconds[int(good[3]), int(good[4]) if good[4] else None] = float(good[6])
    # The exit code says that all is right; that all of it ran is counted here.
    left = [size(*wanted) for wanted in row.wanted() if wanted not in seconds]
    failure = ""
    if code != 0 or left:
        failure = f"{first_error(text)} (not right: {' '.join(left)})" if left else f"exit code {code}: {first_error(text)}"
    return Ran(row, float(compiled[1]) if compiled else None, seconds, dtypes, failure)


def first_error(text):
    """The line that says what is wrong."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return next((line for line in lines if "error" in line.lower()), lines[-1] if lines else "nothing was printed")


def leftovers():
    """Shared memory that is there now."""
    folder = pathlib.Path("/dev/shm")
    return {p.name for p in folder.iterdir()} if folder.is_dir() else set()


def counted(done, of):
    """How many sizes ran, by what `of` gives for a size of a row: `a: 3, b: 5`."""
    out = {}
    for ran in done:
        for size in ran.seconds:
            for key in of(ran, *size):
                out[key] = out.get(key, 0) + 1
    return ", ".join(f"{k}: {n}" for k, n in sorted(out.items(), key=lambda e: (isinstance(e[0], str), e[0])))


def kind_of_count(ran, ranks, count):
    """The class of a count: an edge of the cuts, or plain."""
    if count is None:
        return ["fixed"]
    if count < 2:
        return [f"count {count}"]
    if count < ranks:
        return ["fewer than ranks"]
    return ["above a tile of 4096" if count > 4096 else "up to a tile"]


def table(done, platform, revision):
    """All of it in Markdown."""
    sizes = sum(len(ran.seconds) for ran in done)
    wanted = sum(len(ran.row.wanted()) for ran in done)
    launches = sum(len(ran.seconds) * int(ran.row.iterations) for ran in done)
    compiled = [ran.compiled for ran in done if ran.compiled is not None]
    out = [
        f"{sizes} of {wanted} sizes of {len(done)} packages are right on {platform} (simpler {revision}): {launches} launches, every element on every rank.",
        "",
        f"* sizes by ranks: {counted(done, lambda ran, p, n: [p])}",
        f"* by element type: {counted(done, lambda ran, p, n: ran.dtypes)}",
        f"* by count: {counted(done, kind_of_count)}",
    ]
    if compiled:
        out.append(f"* compiling kernel and orchestration: {min(compiled):.1f} to {max(compiled):.1f} s a package")
    out += ["", "| program | types | ranks x count: seconds of its launches | launches each | result |", "|---|---|---|---|---|"]
    for ran in done:
        times = ", ".join(f"{size(p, n)}: {s:.2f}" for (p, n), s in ran.seconds.items())
        result = ran.failure.replace("|", "\\|") or "right"
        out.append(f"| {ran.row.name()} | {' '.join(ran.dtypes)} | {times} | {ran.row.iterations} | {result} |")
    return "\n".join(out) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-p", "--platform", default="a2a3sim", help="of the runtime; a2a3sim unless given")
    parser.add_argument("--only", default="", metavar="PATTERN", help="lines whose file or program match this regular expression")
    parser.add_argument("--table", metavar="FILE", help="where the table goes; otherwise it is printed")
    parser.add_argument("--keep", metavar="DIR", help="leave packages and their output there")
    parser.add_argument("--limit", type=int, default=600, metavar="SECONDS", help="for one package; 600 unless given")
    args = parser.parse_args()
    try:
        kbc = find_kbc()
        python, revision = find_runtime(args.platform)
        chosen = rows(args.only)
        if not chosen:
            raise Missing(f"no line of the tables matches `{args.only}`")
    except Missing as e:
        print(f"error: {e}", file=sys.stderr)
        return CANNOT_RUN
    before = leftovers()
    done = []
    with tempfile.TemporaryDirectory(prefix="kbc-real-") as temporary:
        base = pathlib.Path(args.keep or temporary).resolve()
        for number, row in enumerate(chosen, 1):
            began = time.monotonic()
            stem = pathlib.Path(row.file).stem
            folder = base / "-".join([stem, row.program, *row.defines.split()]).replace("=", "")
            ran = run(row, kbc, python, args.platform, folder, args.limit)
            done.append(ran)
            words = ran.failure or f"{len(ran.seconds)} sizes right"
            print(f"{number}/{len(chosen)} {row.name()}: {words}, {time.monotonic() - began:.0f} s", flush=True)
    text = table(done, args.platform, revision)
    if args.table:
        pathlib.Path(args.table).write_text(text)
    else:
        print("\n" + text)
    left = sorted(name for name in leftovers() - before if name.startswith(("simpler_", "sp-")))
    if left:
        print(f"note: shared memory that was not there before: {', '.join(left)}", file=sys.stderr)
    return 1 if any(ran.failure for ran in done) else 0


if __name__ == "__main__":
    sys.exit(main())
