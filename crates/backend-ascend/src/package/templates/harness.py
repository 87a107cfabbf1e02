"""The runtime's side of @KERNEL@: compiles, allocates one domain, launches, compares, cleans up.

What the kernel takes is layout.py's business, what is right is golden.py's. Every launch has buffers and data of its
own; all launches run in one domain, whose window and counters are never cleared in between.
"""

import glob
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

# Two copies of an OpenMP library in one process are no reason to stop.
os.environ.setdefault("KMP_DUPLICATE_LIB_OK", "TRUE")
logging.getLogger("simpler").setLevel("WARN")

import torch
from simpler.task_interface import (
    ArgDirection,
    CallConfig,
    ChipCallable,
    CommBufferSpec,
    CoreCallable,
    DataType,
    TaskArgs,
    TensorArgType,
)
from simpler.worker import Worker
from simpler_setup.elf_parser import extract_text_section
from simpler_setup.kernel_compiler import KernelCompiler
from simpler_setup.pto_isa import ensure_pto_isa_root

import golden
import layout

HERE = os.path.dirname(os.path.abspath(__file__))
TORCH = {
@TORCH@}
DEVICE = {
@DEVICE@}
# What a launch writes whole need not be copied to the device; here it is, so that the poison is there and not on the host.
DIRECTION = {"IN": ArgDirection.IN, "OUT": ArgDirection.INOUT, "INOUT": ArgDirection.INOUT}
ROLE = {"IN": TensorArgType.INPUT, "OUT": TensorArgType.INOUT, "INOUT": TensorArgType.INOUT}
STATUS_WORDS = 16  # one line of 64 bytes a block of a kernel
BLOCKS = [(task, block) for task in layout.TASKS for block in range(layout.KERNELS[task.kernel].blocks)]
GUARD = 16  # elements behind a result that nobody may write
# Where the runtime leaves files if it is killed, whatever TMPDIR says, and what it calls them.
TEMPORARY = (os.path.join(os.sep, "tmp"), "/dev/shm")
NAMES = re.compile(r"(aicpu_sim_|aicore_sim_|orch_so_)\w{6}|simpler_[0-9a-f]{8}_[0-9a-f]{8}|sp-[0-9a-f]{8}-[a-z]+-\d+|smp_[0-9a-f]{24}")


class Wrong(Exception):
    """The kernel did something else than its definition."""


class Unable(Exception):
    """The kernel cannot run here, or a run would prove nothing."""


def compile_kernel(platform, runtime, folder):
    """The kernels and their orchestration as one callable; temporary files go into `folder`."""
    compiler = KernelCompiler(platform=platform)
    if platform.endswith("sim") and any(t.dtype == "bf16" for t in layout.TENSORS):
        name = compiler.gxx15.cxx_path
        version = subprocess.run([name, "-dumpversion"], capture_output=True, text=True, check=True).stdout
        if int(version.split(".")[0]) < 14:
            raise Unable(f"{name} is version {version.strip()}: below 14 it takes bfloat16_t for _Float16, and a result proves nothing")
    shim = os.path.join(HERE, "kernels", "orchestration", f"{layout.KERNEL}_orch.cpp")
    include = [*compiler.get_orchestration_include_dirs(runtime), str(compiler.project_root / "src" / "common")]
    root = ensure_pto_isa_root()

    def compiled(kernel):
        binary = compiler.compile_incore(
            source_path=os.path.join(HERE, "kernels", kernel.core, f"{kernel.name}.cpp"), core_type=kernel.core,
            pto_isa_root=root, extra_include_dirs=include, build_dir=folder,
        )
        return binary if platform.endswith("sim") else extract_text_section(binary)

    # A compilation is a process of its own, so threads run as many as there are processors.
    with ThreadPoolExecutor(max_workers=min(len(layout.KERNELS), os.cpu_count() or 1)) as pool:
        binaries = list(pool.map(compiled, layout.KERNELS))
    children = [
        (number, CoreCallable.build(signature=[DIRECTION[d] for d in kernel.directions], binary=binary))
        for number, (kernel, binary) in enumerate(zip(layout.KERNELS, binaries))
    ]
    orchestration = compiler.compile_orchestration(runtime_name=runtime, source_path=shim, build_dir=folder)
    signature = [DIRECTION[t.direction] for t in layout.TENSORS]
    return ChipCallable.build(
        signature=signature,
        func_name=f"{layout.KERNEL}_orchestration",
        config_name=f"{layout.KERNEL}_config",
        binary=orchestration,
        children=children,
    )


def shared(dtype, elements):
    """A tensor that the runtime's processes see; the runtime wants at least one element."""
    return torch.empty(max(1, elements), dtype=TORCH[dtype]).share_memory_()


def window_size(nranks, count):
    """Bytes of the window that is allocated: at least a line."""
    return max(64, layout.window_bytes(nranks, count))


class Launch:
    """Data and buffers of one launch on all ranks."""

    def __init__(self, number, nranks, count, seed, data):
        self.number = number
        feeds, self.results, self.bounds, self.origin = golden.launch(nranks, count, number, seed, data, layout.OWN)
        tables = layout.TABLES.get(nranks, ())
        self.buffers = []  # of each rank: one of TENSORS -> host memory
        for rank in range(nranks):
            sizes = dict(zip(layout.TENSORS, layout.elements(nranks, count, rank)))
            held = {}
            for t in layout.TENSORS:
                if t.role == "input":
                    part = golden.part(golden.INPUTS[t.index], feeds[t.index], nranks, rank).flatten()
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
                    held[t] = shared(t.dtype, STATUS_WORDS * len(BLOCKS)).zero_()
            self.buffers.append(held)

    def arguments(self, worker, domain, rank, nranks, count):
        """What the kernel takes on a rank: tensors, then scalars, in the order of layout.py."""
        args = TaskArgs()
        for t in layout.TENSORS:
            if t.role == "window":
                size = window_size(nranks, count)
                args.add_tensor(domain.buffers["window"].tensor((size,), DataType.UINT8), ROLE[t.direction])
            else:
                held = self.buffers[rank][t]
                shape = (held.numel(),)
                args.add_tensor(worker.make_tensor_arg(held, shapes=shape, dtype=DEVICE[t.dtype]), ROLE[t.direction])
        values = {"nranks": domain.domain_size, "count": count, "call": self.number, "ctx": domain.device_ctx}
        for name in layout.SCALARS:
            args.add_scalar(values[name])
        return args

    def check(self, nranks):
        """Every rank's status, and every element of every result; `origin` then says how near they are, where that is a question."""
        worst, free = 0.0, 0
        for rank, held in enumerate(self.buffers):
            status = next(held[t] for t in layout.TENSORS if t.role == "status")
            for line, (task, block) in zip(status.view(-1, STATUS_WORDS), BLOCKS):
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
                expected = golden.part(ty, self.results[t.index], nranks, rank).flatten()
                bound = golden.part(ty, self.bounds[t.index], nranks, rank).flatten()
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


def run(platform, runtime, devices, work, iterations, seed, data):
    """Compiles once, then launches and compares at every size; returns the exit code."""
    guard = Guard()
    try:
        began = time.monotonic()
        chip = compile_kernel(platform, runtime, guard.folder)
        print(f"{layout.KERNEL} for {platform}: compiled in {time.monotonic() - began:.2f} s", flush=True)
        on = (chip, platform, runtime)
        right = [serve(on, devices[:nranks], counts, iterations, seed, data) for nranks, counts in work]
        return 0 if all(right) else 1
    except ModuleNotFoundError:
        raise  # main.py says what to install
    except Unable as e:
        print(f"error: {e}", file=sys.stderr)
        return 2
    except Exception as e:  # the compiler's errors are of many classes
        print(f"error: {layout.KERNEL} on {platform}: {words(e)}", file=sys.stderr)
        return 1
    finally:
        guard.close()


def serve(on, devices, counts, iterations, seed, data):
    """One worker, and a domain for every count; whether all is right."""
    chip, platform, runtime = on
    nranks = len(devices)
    worker = None
    right = True
    left = list(counts)
    try:
        # Before the worker starts: its processes inherit these tensors.
        jobs = [[Launch(k, nranks, count, seed, data) for k in range(iterations)] for count in counts]
        worker = Worker(level=3, platform=platform, runtime=runtime, device_ids=devices, num_sub_workers=0)
        handle = worker.register(chip)
        worker.init()
        for count, launches in zip(counts, jobs):
            began = time.monotonic()
            worker.run(lambda orch, _args, config: submit(worker, handle, orch, config, nranks, count, launches),
                       args=None, config=CallConfig())
            seconds = time.monotonic() - began
            left.pop(0)
            what = size(nranks, count)
            try:
                for launch in launches:
                    launch.check(nranks)
                    print(f"launch {launch.number}: {what}, {launch.origin}: ok")
            except Wrong as e:
                print(f"error: {layout.KERNEL} on {platform}, {what}: {e}", file=sys.stderr)
                right = False
                continue
            print(f"{layout.KERNEL} on {platform}: {what}, {iterations} launches in one domain, {seconds:.2f} s: "
                  "every element on every rank is right", flush=True)
        return right
    except Exception as e:  # the runtime's errors are of many classes
        what = size(nranks, left[0]) if left else f"{nranks} ranks"
        print(f"error: {layout.KERNEL} on {platform}, {what}: {words(e)}", file=sys.stderr)
        if "-100" in str(e):
            print("note: the scheduler saw no progress: a wait that nothing satisfies, or a machine that is too busy "
                  "(SIMPLER_SCHEDULER_TIMEOUT_MS)", file=sys.stderr)
        for count in left[1:]:
            print(f"note: {size(nranks, count)}: not run after that error", file=sys.stderr)
        return False
    finally:
        try:
            if worker is not None:
                worker.close()
        except Exception as e:
            print(f"note: the runtime did not close cleanly: {e}", file=sys.stderr)


def submit(worker, handle, orch, config, nranks, count, launches):
    """All launches, one after another in one domain."""
    nbytes = window_size(nranks, count)
    members = list(range(nranks))
    window = CommBufferSpec(name="window", dtype="uint8", count=nbytes, nbytes=nbytes)
    with orch.allocate_domain(name=layout.KERNEL, workers=members, window_size=nbytes, buffers=[window]) as domain:
        for launch in launches:
            args = [launch.arguments(worker, domain[r], r, nranks, count) for r in members]
            orch.submit_next_level_group(handle, args, config, workers=members)


def size(nranks, count):
    """A size in words."""
    return f"{nranks} ranks" + (f", {layout.COUNT} = {count}" if layout.COUNT else "")


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
