"""Runs of a package: compiles, allocates one domain, launches, compares or measures, cleans up.

What the kernel takes is layout.py's business, how it is launched entry.py's, what is right golden.py's. Every launch has
buffers and data of its own; all launches run in one domain, whose window and counters are never cleared in between. An
input that is the same in all launches is copied to the devices once and stays there. Intermediate values have memory of
the devices for all launches.
"""

import glob
import logging
import os
import re
import shutil
import signal
import statistics
import sys
import tempfile
import time

# Two copies of an OpenMP library in one process are no reason to stop.
os.environ.setdefault("KMP_DUPLICATE_LIB_OK", "TRUE")
logging.getLogger("simpler").setLevel("WARN")

import torch
from simpler.task_interface import CallConfig
from simpler.worker import Worker

import entry
import golden
import layout

# The element types that this torch has.
TORCH = {name: getattr(torch, word) for name, word in {
@TORCH@}.items() if hasattr(torch, word)}
GUARD = 16  # elements behind a result that nobody may write
# Where the runtime leaves files if it is killed, whatever TMPDIR says, and what it calls them.
TEMPORARY = (os.path.join(os.sep, "tmp"), "/dev/shm")
NAMES = re.compile(r"(aicpu_sim_|aicore_sim_|orch_so_)\w{6}|simpler_[0-9a-f]{8}_[0-9a-f]{8}|sp-[0-9a-f]{8}-[a-z]+-\d+|smp_[0-9a-f]{24}")


class Wrong(Exception):
    """The kernel did something else than its definition."""


# The span of a run of a chip in the runtime's log: process, number of the run in it, nanoseconds.
SPAN = re.compile(r"\[STRACE\]\s+v=1\s+pid=(\d+)\s+tid=\d+\s+inv=(\d+)\s[^\[\r\n]*?name=chip\.run\.runner_run\.device_wall\s+ts=\d+\s+dur=(\d+)")


def shared(dtype, elements):
    """A tensor that the runtime's processes see; the runtime wants at least one element."""
    return torch.empty(max(1, elements), dtype=TORCH[dtype]).share_memory_()


class Launch:
    """Data and buffers of one launch on all ranks."""

    def __init__(self, number, nranks, count, seed, data, root=None):
        self.number = number
        self.root = root
        feeds, self.results, self.bounds, self.origin = golden.launch(nranks, count, number, seed, data, layout.OWN)
        tables = layout.TABLES.get(nranks, ())
        self.buffers = []  # of each rank: one of TENSORS -> host memory
        for rank in range(nranks):
            place = layout.place(rank, nranks, root)
            sizes = dict(zip(layout.TENSORS, layout.elements(nranks, count, place)))
            held = {}
            for t in layout.TENSORS:
                if t.role == "input":
                    part = golden.part(golden.INPUTS[t.index], feeds[t.index], nranks, place).flatten()
                    if part.numel() != sizes[t]:
                        raise Wrong(f"{t.name} on rank {rank}: the kernel takes {sizes[t]} elements, the program {part.numel()}")
                    held[t] = shared(t.dtype, part.numel())
                    held[t][: part.numel()] = part.to(TORCH[t.dtype])
                elif t.role == "output":
                    held[t] = poisoned(t.dtype, sizes[t])
                elif t.role == "tables":
                    held[t] = shared(t.dtype, len(tables))
                    held[t][: len(tables)] = torch.tensor(tables, dtype=torch.int32)
                elif t.role == "status":
                    held[t] = shared(t.dtype, entry.STATUS_WORDS * len(entry.BLOCKS)).zero_()
            self.buffers.append(held)

    def tensors(self, worker, rank, kept):
        """What the runtime takes for the tensors of a rank, by name; `kept` is what its chip holds already."""
        given = {t.name: entry.given(worker, t.dtype, held) for t, held in self.buffers[rank].items() if t.name not in kept}
        return given | {t.name: entry.held(t.dtype, kept[t.name]) for t in layout.TENSORS if t.name in kept}

    def check(self, nranks):
        """Every rank's status, and every element of every result; `origin` then says how near they are, where that is a question."""
        worst, free = 0.0, 0
        for rank, held in enumerate(self.buffers):
            place = layout.place(rank, nranks, self.root)
            status = next(held[t] for t in layout.TENSORS if t.role == "status")
            for line, (task, block) in zip(status.view(-1, entry.STATUS_WORDS), entry.BLOCKS):
                done, detail = int(line[0]), int(line[1])
                if done != self.number + 1:
                    words = layout.STATUS.get(done)
                    what = f"{words}: {detail}" if words else f"the status of {task.name} is {done}: it did not finish"
                    where = f", core {block}" if layout.KERNELS[task.kernel].blocks > 1 else ""
                    raise Wrong(f"launch {self.number}, rank {rank}{where}: {what}")
            for t in layout.TENSORS:
                if t.role != "output":
                    continue
                ty = golden.OUTPUTS[t.index]
                expected = golden.part(ty, self.results[t.index], nranks, place).flatten()
                bound = golden.part(ty, self.bounds[t.index], nranks, place).flatten()
                got, behind = held[t][: expected.numel()], held[t][expected.numel() :]
                if not poison(behind).all():
                    raise Wrong(f"launch {self.number}, rank {rank}: the kernel writes behind the end of {t.name}")
                off = golden.off(ty.dtype, got, expected, bound)
                bad = off > 1
                if bad.any():
                    at = int(bad.nonzero()[0])
                    within = f" within {float(bound[at]):.3g}" if bound[at] > 0 else ""
                    raise Wrong(
                        f"launch {self.number}, rank {rank}: {int(bad.sum())} of {bad.numel()} elements of {t.name} are wrong; "
                        f"element {at} is {got[at].item()}, not {expected[at].item()}{within}"
                    )
                if off.numel() > 0:
                    worst = max(worst, float(off.max()))
                    free += int(bound.isinf().sum())
        if any(b.any() for b in self.bounds):
            self.origin += f", errors of at most {worst:.2g} of their bounds"
        if free:
            self.origin += f", {free} elements without a bound"


def poisoned(dtype, elements):
    """A result nobody has written, with a guard behind it: NaN, or the smallest integer."""
    held = shared(dtype, elements + GUARD)
    return held.fill_(float("nan") if held.is_floating_point() else torch.iinfo(held.dtype).min)


def poison(x):
    """Which elements nobody has written."""
    return x.isnan() if x.is_floating_point() else x == torch.iinfo(x.dtype).min


def unchanged(launches):
    """The inputs of a kernel that no launch changes: the same on every rank in all launches, of which there are several."""
    first, rest = launches[0], launches[1:]

    def same(a, b):
        return a is b or a.numel() == b.numel() and bool((a.view(torch.uint8) == b.view(torch.uint8)).all())

    inputs = [t for t in layout.TENSORS if t.role in ("input", "tables")]
    return [t for t in inputs if rest and all(
        same(a[t], b[t]) for other in rest for a, b in zip(first.buffers, other.buffers)
    )]


def run(platform, runtime, devices, work, iterations, seed, data, perf=None, root=None, cache=None):
    """Compiles once, then launches and compares at every size; returns the exit code. `perf`: launches to warm up and
    launches to measure, of the first launch's data. `cache`: the folder of compiled kernels, if not the runtime's own."""
    guard = Guard()
    try:
        began = time.monotonic()
        chip = entry.compile_kernel(platform, runtime, guard.folder, cache)
        print(f"{layout.KERNEL} for {platform}: compiled in {time.monotonic() - began:.2f} s", flush=True)
        on = (chip, platform, runtime)
        if perf is None:
            right = [serve(on, devices[:nranks], counts, (iterations, seed, data, root)) for nranks, counts in work]
        else:
            right = [measure(on, devices[:nranks], counts, (seed, data, root), perf, guard.folder) for nranks, counts in work]
        return 0 if all(right) else 1
    except ModuleNotFoundError:
        raise  # main.py says what to install
    except (entry.Unable, golden.Inexact) as e:
        print(f"error: {e}", file=sys.stderr)
        return 2
    except Exception as e:  # the compiler's errors are of many classes
        print(f"error: {layout.KERNEL} on {platform}: {words(e)}", file=sys.stderr)
        return 1
    finally:
        guard.close()


def serve(on, devices, counts, what, calls=None):
    """One worker, and a domain for every count; whether all is right. Each domain has `iterations` launches; or those
    with the numbers `calls`, all of them of one launch's data and buffers, which are compared after the last one."""
    chip, platform, runtime = on
    iterations, seed, data, root = what
    nranks = len(devices)
    worker = None
    right = True
    left = list(counts)
    try:
        # Before the worker starts: its processes inherit these tensors.
        jobs = [[Launch(k, nranks, count, seed, data, root) for k in range(iterations)] for count in counts]
        worker = Worker(level=3, platform=platform, runtime=runtime, device_ids=devices, num_sub_workers=0)
        handle = worker.register(chip)
        worker.init()
        for count, launches in zip(counts, jobs):
            began = time.monotonic()
            order = list(enumerate(launches)) if calls is None else [(call, launches[0]) for call in calls]
            launched(worker, handle, nranks, count, order)
            seconds = time.monotonic() - began
            left.pop(0)
            named = size(nranks, count, root)
            try:
                for call, launch in order if calls is None else order[-1:]:
                    launch.number = call
                    launch.check(nranks)
                    print(f"launch {launch.number}: {named}, {launch.origin}: ok")
            except Wrong as e:
                print(f"error: {layout.KERNEL} on {platform}, {named}: {e}", file=sys.stderr)
                right = False
                continue
            if calls is None:
                print(f"{layout.KERNEL} on {platform}: {named}, {iterations} launches in one domain, {seconds:.2f} s: "
                      "every element on every rank is right", flush=True)
        return right
    except golden.Inexact:
        raise
    except Exception as e:  # the runtime's errors are of many classes
        named = size(nranks, left[0], root) if left else f"{nranks} ranks"
        print(f"error: {layout.KERNEL} on {platform}, {named}: {words(e)}", file=sys.stderr)
        if "-100" in str(e):
            print("note: the scheduler saw no progress: a wait that nothing satisfies, or a machine that is too busy "
                  "(SIMPLER_SCHEDULER_TIMEOUT_MS)", file=sys.stderr)
        for count in left[1:]:
            print(f"note: {size(nranks, count, root)}: not run after that error", file=sys.stderr)
        return False
    finally:
        try:
            if worker is not None:
                worker.close()
        except Exception as e:
            print(f"note: the runtime did not close cleanly: {e}", file=sys.stderr)


def launched(worker, handle, nranks, count, order):
    """Runs launches, each with its number, one after another in one domain."""
    members = list(range(nranks))
    launches = [launch for _, launch in order]
    stay = unchanged(launches)
    sources = [{t: entry.staged(worker, launches[0].buffers[r][t]) for t in stay} for r in members]
    kept = []

    def orchestration(orch, _args, config):
        for r in members:
            kept.append({t.name: entry.hold(orch, r, t.dtype, source) for t, source in sources[r].items()})
            if any(t.role == "memory" for t in layout.TENSORS):
                kept[r]["memory"] = entry.memory(orch, r, nranks, count)
        with entry.domain(orch, members, count) as domain:
            for call, launch in order:
                tensors = [launch.tensors(worker, r, kept[r]) for r in members]
                entry.launch(orch, handle, config, domain, members, tensors, call, count, launch.root)

    worker.run(orchestration, args=None, config=CallConfig())
    for _, buffer in (held for by_name in kept for held in by_name.values()):
        worker.free(buffer)


def measure(on, devices, counts, what, perf, folder):
    """Launches on the same data, a few to warm up and then those that are measured, and prints what a launch takes."""
    warm, repeat = perf
    nranks = len(devices)
    log = os.path.join(folder, f"log-{nranks}")
    logging.getLogger("simpler").setLevel("TIMING")
    sys.stderr.flush()
    before = os.dup(2)
    to = os.open(log, os.O_CREAT | os.O_TRUNC | os.O_WRONLY | os.O_APPEND, 0o600)
    try:
        # The processes of the runtime write what they measure to the standard error that they inherit.
        os.dup2(to, 2)
        right = serve(on, devices, counts, (1, *what), range(warm + repeat))
    finally:
        sys.stderr.flush()
        os.dup2(before, 2)
        os.close(before)
        os.close(to)
    with open(log, errors="replace") as f:
        text = f.read()
    if not right:
        print("".join(line for line in text.splitlines(True) if "[TIMING]" not in line), file=sys.stderr, end="")
        return False
    times = device_times(text, nranks, len(counts) * (warm + repeat))
    for i, count in enumerate(counts):
        first = i * (warm + repeat) + warm
        named = size(nranks, count, what[2])
        print(f"{layout.KERNEL} on {on[1]}: {named}: {summary(times[first : first + repeat], warm, nranks, count)}", flush=True)
    if on[1].endswith("sim"):
        print("note: these are times of the simulator, which say nothing about a device")
    return True


def device_times(text, nranks, runs):
    """Nanoseconds of each run from the runtime's log: that of the slowest rank."""
    of = {}
    for pid, number, took in SPAN.findall(text):
        of.setdefault(int(pid), []).append((int(number), int(took)))
    if len(of) != nranks or any(len(list_) != runs for list_ in of.values()):
        found = ", ".join(str(len(list_)) for list_ in of.values()) or "none"
        raise entry.Unable(f"the runtime's log has device times of {found} launches, not of {runs} on each of {nranks} ranks: "
                           "its library was built without SIMPLER_HOST_STRACE, or SIMPLER_LOG_LEVEL leaves them out")
    ranks = [[took for _, took in sorted(list_)] for list_ in of.values()]
    return [max(at) for at in zip(*ranks)]


def summary(times, warm, nranks, count):
    """Times in words, and the bandwidths that follow from the median."""
    middle = statistics.median(times)
    out = (f"time {middle / 1e3:.3f} us (median of {len(times)} launches after {warm} to warm up; "
           f"{min(times) / 1e3:.3f} to {max(times) / 1e3:.3f})")
    moved = layout.moved(nranks, count)
    if moved is not None and middle > 0:
        algbw = moved[0] / middle  # bytes a nanosecond are GB/s
        out += f", algbw {algbw:.3f} GB/s, busbw {algbw * moved[1]:.3f} GB/s"
    return out


def size(nranks, count, root=None):
    """A size in words, and the root that the launches were given."""
    counted = f", {layout.COUNT} = {count}" if layout.COUNT else ""
    return f"{nranks} ranks{counted}" + ("" if root is None else f", root {root}")


def words(error):
    """What went wrong; the class where the text alone may say little."""
    return str(error) if isinstance(error, Wrong) else f"{type(error).__name__}: {error}"


class Guard:
    """Leaves nothing behind, however this process ends.

    A process of its own watches this one and notes its children and the temporary files they have mapped. Once this one
    has ended, it ends the children that are left, and removes those files, the shared memory that the runtime names
    after this process, and the folder of the compilation.
    """

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix=f"kbc-{layout.KERNEL}-")
        self.main = os.getpid()
        sys.stdout.flush()
        self.watcher = os.fork()
        if self.watcher == 0:
            try:
                self._watch()
            finally:
                os._exit(0)

    def close(self):
        """Ends the watcher; what it would remove is gone or removed here."""
        os.kill(self.watcher, signal.SIGKILL)
        os.waitpid(self.watcher, 0)
        self._remove(set())

    def _watch(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        quiet = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(quiet, stream)
        children, files = set(), set()
        while os.getppid() == self.main:
            children = self._children()
            files |= {f for child in children for f in mapped(child[0])}
            time.sleep(0.25)
        deadline = time.monotonic() + 5
        while any(started(pid) == at for pid, at in children) and time.monotonic() < deadline:
            time.sleep(0.25)
        for pid, at in children:
            if started(pid) == at:
                os.kill(pid, signal.SIGKILL)
        self._remove(files)

    def _children(self):
        """Process id and start time of the children of the watched process, but for the watcher."""
        found = set()
        for entry in glob.glob(f"/proc/{self.main}/task/*/children"):
            try:
                with open(entry) as f:
                    found |= {int(pid) for pid in f.read().split()}
            except OSError:
                pass  # a thread that has ended
        return {(pid, started(pid)) for pid in found - {os.getpid()}}

    def _remove(self, files):
        for path in files | set(glob.glob(f"/dev/shm/simpler_{self.main:08x}_*")):
            try:
                os.unlink(path)
            except OSError:
                pass  # its owner was faster
        shutil.rmtree(self.folder, ignore_errors=True)


def started(pid):
    """When a process began, in ticks; None if there is no such process or it has ended."""
    try:
        with open(f"/proc/{pid}/stat") as f:
            fields = f.read().rpartition(")")[2].split()
        return None if fields[0] == "Z" else fields[19]
    except OSError:
        return None


def mapped(pid):
    """Temporary files of the runtime that a process has mapped: by their folder and by the names the runtime gives them."""
    try:
        with open(f"/proc/{pid}/maps") as f:
            paths = {line.split(maxsplit=5)[5].rstrip() for line in f if line.count("/")}
    except OSError:
        return set()
    return {p for p in paths if os.path.dirname(p) in TEMPORARY and NAMES.fullmatch(os.path.basename(p))}
