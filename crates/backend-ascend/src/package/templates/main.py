#!/usr/bin/env python3
"""Runs @KERNEL@ on the runtime and compares every element on every rank with its golden value.

    python main.py -p a2a3sim -d 0-3                    default sizes, three launches in one domain
    python main.py -p a2a3sim -d 0-1 --count 10000 --iterations 5 --data exact
    python main.py -p a2a3sim -d @DEVICES@ --sizes @EXAMPLE@      several sizes, compiled once
    python main.py -p a2a3 -d @DEVICES@ --perf                   what a launch takes: median, spread, bandwidths

Exit code: 0 every launch is right, 1 something is wrong, 2 it cannot be run here. Written by kbc; see README.md.
"""

import argparse
import os
import sys

import layout


class Refused(Exception):
    """What is asked for cannot be done; the message says why."""


def device_list(text):
    """`0-3`, `0,2,5` or a mixture, as a list of device ids."""
    devices = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        if not first.isdigit() or (dash and not last.isdigit()):
            raise Refused(f"`{text}` is no list of devices: write 0-3 or 0,2,5")
        devices += range(int(first), int(last if dash else first) + 1)
    if len(set(devices)) != len(devices):
        raise Refused(f"`{text}` names a device twice")
    return devices


def work(devices, count, sizes):
    """What to run, in order: rank counts, each with the counts that one worker serves."""
    if sizes is None:
        return [(len(devices), [checked(count)])]
    if count is not None:
        raise Refused("--sizes says the counts: --count goes with one size alone")
    out = []
    for text in sizes:
        ranks, times, number = text.partition("x")
        if not ranks.isdigit() or (times and not number.isdigit()):
            raise Refused(f"`{text}` is no size: write 4x1000 for 4 ranks and a count of 1000, or 4")
        if int(ranks) > len(devices):
            raise Refused(f"`{text}` takes {ranks} devices; -d names {len(devices)}")
        if not out or out[-1][0] != int(ranks):
            out.append((int(ranks), []))
        out[-1][1].append(checked(int(number) if times else None))
    return out


def checked(count):
    """The count to run with: as asked for, or the default."""
    if layout.COUNT is None:
        if count is not None:
            raise Refused("all sizes of this kernel are fixed: a count means nothing")
        return 0
    if count is None:
        return layout.DEFAULT_COUNT
    if not 0 <= count <= layout.LARGEST_COUNT:
        raise Refused(f"{layout.COUNT} = {count}: this kernel is checked for 0 to {layout.LARGEST_COUNT}")
    return count


def check_target(platform, runtime):
    """Refuses what the kernel was not made for, before anything is compiled."""
    for given, table, word in ((platform, layout.PLATFORMS, "platform"), (runtime, layout.RUNTIMES, "runtime")):
        if given not in table:
            raise Refused(f"there is no {word} `{given}`; there are: {', '.join(table)}")
        if table[given] is not None:
            raise Refused(f"{word} {given}: {table[given]}")
    # Cube cores do not wait for each other: where there are fewer, blocks follow one another.
    cores = max((kernel.blocks for kernel in layout.KERNELS if kernel.core == "aiv"), default=1)
    if cores > layout.CORES[platform]:
        raise Refused(f"the kernel is for {cores} cores; platform {platform} has {layout.CORES[platform]} a rank")


def check(platform, ranks, count, iterations):
    """The same for a size."""
    if ranks not in layout.RANKS:
        claimed = ", ".join(map(str, layout.RANKS))
        raise Refused(f"{ranks} devices: this kernel is checked for {claimed} ranks")
    if iterations < 1:
        raise Refused(f"--iterations {iterations}: at least one launch")
    served = layout.launches(ranks, count)
    if iterations > served:
        raise Refused(f"{iterations} launches: a domain serves {served} launches, then it is allocated again")
    needed = layout.window_bytes(ranks, count)
    if platform.endswith("sim"):
        free = os.statvfs("/dev/shm")
        total = needed * ranks + 4096
        if total > free.f_bavail * free.f_frsize:
            raise Refused(f"the windows of all ranks take {total} bytes, and /dev/shm has {free.f_bavail * free.f_frsize} left")


def run(platform="a2a3sim", device="@DEVICES@", runtime="@RUNTIME@", count=None, sizes=None, iterations=None, seed=0, data="forms",
        perf=False, warmup=None, repeat=None, root=None, cache=None):
    """As the command line; returns the exit code."""
    try:
        devices = device_list(device)
        check_target(platform, runtime)
        wanted = work(devices, count, sizes)
        if data == "own" and layout.OWN is None:
            raise Refused("--data own: the program has no data of its own; write forms or exact")
        if root is not None and layout.ROOT is None:
            raise Refused("--root: a launch of this kernel takes no root")
        for name, number in (("--iterations", iterations if perf else None), ("--warmup", None if perf else warmup),
                             ("--repeat", None if perf else repeat)):
            if number is not None:
                raise Refused(f"{name} does not go with --perf" if perf else f"{name} goes with --perf alone")
        warmup, repeat = 5 if warmup is None else warmup, 20 if repeat is None else repeat
        if warmup < 0 or repeat < 1:
            raise Refused(f"--warmup {warmup} --repeat {repeat}: at least one launch is measured")
        iterations = 3 if iterations is None else iterations
        calls = warmup + repeat if perf else iterations
        for ranks, counts in wanted:
            if root is not None and not 0 <= root < ranks:
                raise Refused(f"--root {root}: there are {ranks} ranks, numbered from 0")
            for n in counts:
                if data == "own" and n != (layout.DEFAULT_COUNT or 0):
                    raise Refused(f"--data own: the program's own data is for {layout.COUNT} = {layout.DEFAULT_COUNT}")
                check(platform, ranks, n, calls)
        # A wait that is never satisfied must end the run. The simulator's wait gives up by itself, which the kernel
        # reports in its status line, and the scheduler's limit comes before that. Both are read when the runtime starts.
        # Every rank of the simulator has dozens of threads, so that more ranks need more time.
        seconds = 20 + 5 * max((ranks for ranks, _ in wanted), default=0)
        os.environ.setdefault("SIMPLER_SCHEDULER_TIMEOUT_MS", str(1000 * seconds))
        os.environ.setdefault("PTO_CPU_SIM_TWAIT_MAX_SPINS", str(20000 * seconds))
        try:
            here = os.path.dirname(os.path.abspath(__file__))
            if not os.path.exists(os.path.join(here, "harness.py")):
                sys.path.append(os.path.dirname(here))  # packages that were written together share one
            import harness
            measured = (warmup, repeat) if perf else None
            return harness.run(platform, runtime, devices, wanted, iterations, seed, data, measured, root, cache)
        except ModuleNotFoundError as e:
            raise Refused(missing(e)) from e
        except ImportError as e:
            raise Refused(f"the runtime is not complete: {e}") from e
    except Refused as e:
        print(f"error: {e}", file=sys.stderr)
        return 2


def missing(error):
    """What to install for a module that Python does not find."""
    name = (error.name or str(error)).partition(".")[0]
    if name in ("simpler", "simpler_setup"):
        return f"the runtime is not installed: Python has no module {name}; README.md says which revision"
    return f"Python has no module {name}, which the runtime or this package needs: pip install {name}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-p", "--platform", default="a2a3sim", help="one of: " + ", ".join(layout.PLATFORMS))
    parser.add_argument("-d", "--device", default="@DEVICES@", help="devices, one a rank: 0-3 or 0,2,5")
    parser.add_argument("--runtime", default="@RUNTIME@", help="one of: " + ", ".join(layout.RUNTIMES))
    parser.add_argument("--count", type=int, help=@COUNT_HELP@)
    parser.add_argument("--sizes", nargs="+", metavar="RANKSxCOUNT", help="several sizes, on the first devices of -d")
    parser.add_argument("--iterations", type=int, help="launches in one domain, each with data of its own: 3 unless given")
    parser.add_argument("--seed", type=int, default=0, help="varies exact data")
    parser.add_argument("--data", choices=("own", "forms", "exact"), default="own" if layout.OWN else "forms",
                        help="the program's own data, closed forms where golden.py has one, or exact integers without a period")
    parser.add_argument("--root", type=int, help=@ROOT_HELP@)
    parser.add_argument("--cache", metavar="FOLDER", help="where compiled kernels are kept; the runtime's own folder unless given")
    parser.add_argument("--perf", action="store_true", help="measures launches on the devices, on the data of one launch")
    parser.add_argument("--warmup", type=int, help="with --perf: launches before those that are measured, 5 unless given")
    parser.add_argument("--repeat", type=int, help="with --perf: launches that are measured, 20 unless given")
    return run(**vars(parser.parse_args()))


if __name__ == "__main__":
    sys.exit(main())
