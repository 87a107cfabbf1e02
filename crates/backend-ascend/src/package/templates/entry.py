"""@KERNEL@ for an orchestration of your own: compile, allocate a domain, keep inputs on the devices, launch.

    chip = entry.compile_kernel("a2a3", "@RUNTIME@", folder)
    worker = Worker(level=3, platform="a2a3", runtime="@RUNTIME@", device_ids=devices, num_sub_workers=0)
    handle = worker.register(chip)
    worker.init()
    sources = [entry.staged(worker, weights[rank]) for rank in ranks]       # what no launch changes

    def orchestration(orch, args, config):
        kept = [entry.hold(orch, rank, "f32", sources[rank]) for rank in ranks]
        with entry.domain(orch, ranks, count) as domain:
            for call in range(launches):
                tensors = [{"w": entry.held("f32", kept[rank]), "x": .., "out": .., "status": ..} for rank in ranks]
                entry.launch(orch, handle, config, domain, ranks, tensors, call, count, root)

    worker.run(orchestration, args=None, config=CallConfig())

Tensors are those of layout.TENSORS by name, as each rank has them; layout.elements says how long they are. What is host
memory is named by `given`. harness.py uses these functions and nothing else of the runtime to launch. Written by kbc.
"""

import itertools
import os
import pathlib
import platform as host
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import torch
from simpler.task_interface import (
    ArgDirection,
    ChipCallable,
    CommBufferSpec,
    CoreCallable,
    DataType,
    TaskArgs,
    TensorArgType,
)
from simpler_setup import scene_test_cache
from simpler_setup.elf_parser import extract_text_section
from simpler_setup.kernel_compiler import KernelCompiler
from simpler_setup.pto_isa import ensure_pto_isa_root

import layout

HERE = os.path.dirname(os.path.abspath(__file__))
DEVICE = {
@DEVICE@}
# What a launch writes whole need not be copied to the device; here it is, so that the poison is there and not on the host.
DIRECTION = {"IN": ArgDirection.IN, "OUT": ArgDirection.INOUT, "INOUT": ArgDirection.INOUT}
ROLE = {"IN": TensorArgType.INPUT, "OUT": TensorArgType.INOUT, "INOUT": TensorArgType.INOUT}
STATUS_WORDS = 16  # one line of 64 bytes a block of a kernel
# Each task with its blocks, in the order of the lines of the status.
BLOCKS = [(task, block) for task in layout.TASKS for block in range(layout.KERNELS[task.kernel].blocks)]


# The root of the launches of each domain, which is told by the memory of its chips.
ROOTS = {}
# Numbers in the names of domains: a run may have several domains of this kernel.
DOMAINS = itertools.count()


class Unable(Exception):
    """The kernel cannot run here, or a run would prove nothing."""


def compile_kernel(platform, runtime, folder, cache=None):
    """The kernels and their orchestration as one callable; temporary files go into `folder`.

    What was compiled before is taken from the runtime's cache of kernels, which tells them apart by the text of the source
    and of all that it includes, the compiler and its flags. `cache` is a folder for it in place of the runtime's own."""
    if cache is not None:
        scene_test_cache.KERNEL_CACHE_DIR = pathlib.Path(cache).resolve()
    compiler = KernelCompiler(platform=platform)
    if platform.endswith("sim") and any(t.dtype == "bf16" for t in layout.TENSORS):
        name = compiler.gxx15.cxx_path
        version = subprocess.run([name, "-dumpversion"], capture_output=True, text=True, check=True).stdout
        if int(version.split(".")[0]) < 14:
            raise Unable(f"{name} is version {version.strip()}: below 14 it takes bfloat16_t for _Float16, and a result proves nothing")
    shim = os.path.join(HERE, "kernels", "orchestration", f"{layout.KERNEL}_orch.cpp")
    include = [*compiler.get_orchestration_include_dirs(runtime), str(compiler.project_root / "src" / "common")]
    root = ensure_pto_isa_root()
    where = {"platform": platform, "host_platform": sys.platform, "host_machine": host.machine()}
    isa = os.path.join(root, "include")
    headers = [isa, os.path.join(isa, "pto"), *compiler.get_incore_include_dirs(), *include]
    sources = [os.path.join(HERE, "kernels", kernel.core, f"{kernel.name}.cpp") for kernel in layout.KERNELS]
    keys = [
        scene_test_cache.compile_incore_artifact_key(
            where | {"compiler": compiler.incore_compile_cache_token(kernel.core)}, source, headers
        )
        for kernel, source in zip(layout.KERNELS, sources)
    ]

    def compiled(kernel, source, key):
        def now():
            binary = compiler.compile_incore(
                source_path=source, core_type=kernel.core, pto_isa_root=root, extra_include_dirs=include, build_dir=folder,
            )
            return binary if platform.endswith("sim") else extract_text_section(binary)

        return scene_test_cache.get_or_compile_incore(key, now)

    names = {"func_name": f"{layout.KERNEL}_orchestration", "config_name": f"{layout.KERNEL}_config"}

    def whole():
        # A compilation is a process of its own, so threads run as many as there are processors.
        with ThreadPoolExecutor(max_workers=min(len(layout.KERNELS), os.cpu_count() or 1)) as pool:
            binaries = list(pool.map(compiled, layout.KERNELS, sources, keys))
        children = [
            (number, CoreCallable.build(signature=[DIRECTION[d] for d in kernel.directions], binary=binary))
            for number, (kernel, binary) in enumerate(zip(layout.KERNELS, binaries))
        ]
        orchestration = compiler.compile_orchestration(runtime_name=runtime, source_path=shim, build_dir=folder)
        signature = [DIRECTION[t.direction] for t in layout.TENSORS]
        return ChipCallable.build(signature=signature, binary=orchestration, children=children, **names)

    folders, more = compiler.get_orchestration_cache_inputs(runtime)
    key = scene_test_cache.compile_artifact_key(
        where | names | {
            "runtime": runtime,
            "compiler": compiler.compile_cache_token(runtime, [kernel.core for kernel in layout.KERNELS]),
            "signature": [t.direction for t in layout.TENSORS],
            "kernels": [[key, *kernel.directions] for kernel, key in zip(layout.KERNELS, keys)],
        },
        [(source, folders) for source in [shim, *more]],
    )
    return scene_test_cache.get_or_compile(key, whole)


def given(worker, dtype, tensor):
    """What the runtime takes for host memory: a tensor of one dimension that was shared before `worker.init`."""
    return worker.make_tensor_arg(tensor, shapes=(tensor.numel(),), dtype=DEVICE[dtype])


def staged(worker, tensor):
    """Elements of a host tensor where a chip can copy them from. After `worker.init`, and outside of `worker.run`."""
    elements = max(1, tensor.numel())
    source = worker.create_buffer(elements * tensor.element_size())
    if tensor.numel() > 0:
        # A view that is left would keep the memory from being closed.
        torch.frombuffer(source.shm.buf, dtype=tensor.dtype, count=elements).copy_(tensor.flatten())
    return elements, source


def hold(orch, chip, dtype, source):
    """Copies what is `staged` to the memory of a chip. It stays there for all launches, until `worker.free` or the end."""
    elements, host = source
    kept = orch.alloc_child_tensor(chip, (elements,), DEVICE[dtype])
    orch.copy_to(kept, host)
    return elements, kept


def memory(orch, chip, nranks, count=0):
    """Memory of a chip for the intermediate values of launches, if the kernel has any: the tensor `memory`, of u8."""
    elements = max(64, layout.memory_bytes(nranks, count))
    return elements, orch.alloc_child_tensor(chip, (elements,), DEVICE["u8"])


def held(dtype, kept):
    """What the runtime takes for memory that a chip holds."""
    elements, buffer = kept
    return buffer.tensor(shapes=(elements,), dtype=DEVICE[dtype])


def window_size(nranks, count=0):
    """Bytes of the window that is allocated: at least a line."""
    return max(64, layout.window_bytes(nranks, count))


def domain(orch, workers, count=0):
    """A domain for these workers, one a rank, in the order of ranks. Its window is cleared here and never again, so that
    its launches are numbered from 0; layout.launches says how many it serves. The runtime allocates no domain after the
    first launch of a run, so allocate all that an orchestration needs before it."""
    size = window_size(len(workers), count)
    window = CommBufferSpec(name="window", dtype="uint8", count=size, nbytes=size)
    return orch.allocate_domain(name=f"{layout.KERNEL}-{next(DOMAINS)}", workers=list(workers), window_size=size, buffers=[window])


def launch(orch, handle, config, domain, workers, tensors, call, count=0, root=None):
    """Submits launch number `call` of a domain on its workers, with this root or else layout.ROOT; all
    launches of a domain have the same one, because its counters continue from launch to launch. `tensors` has a dictionary for each rank: what the runtime
    takes for each tensor of layout.TENSORS but the window, by name. A tensor with another size than layout.elements says,
    or a number of a launch that was used before, is wrong and not noticed."""
    workers = list(workers)
    nranks = len(workers)
    if nranks not in layout.RANKS:
        raise ValueError(f"{layout.KERNEL} is checked for {', '.join(map(str, layout.RANKS))} ranks, not for {nranks}")
    if len(tensors) != nranks:
        raise ValueError(f"there are tensors for {len(tensors)} of {nranks} ranks")
    if layout.COUNT is not None and not 0 <= count <= layout.LARGEST_COUNT:
        raise ValueError(f"{layout.COUNT} = {count}: {layout.KERNEL} is checked for 0 to {layout.LARGEST_COUNT}")
    served = layout.launches(nranks, count)
    if not 0 <= call < served:
        raise ValueError(f"launch {call}: a domain serves {served} launches, numbered from 0")
    if root is None:
        root = layout.ROOT
    elif layout.ROOT is None:
        raise ValueError(f"a launch of {layout.KERNEL} takes no root")
    elif not 0 <= root < nranks:
        raise ValueError(f"root {root}: there are {nranks} ranks, numbered from 0")
    chips = tuple(domain[worker].device_ctx for worker in workers)
    if call == 0:
        ROOTS[chips] = root
    elif ROOTS.setdefault(chips, root) != root:
        raise ValueError(f"root {root}: the launches of this domain have root {ROOTS[chips]}; another root takes another domain")
    size = window_size(nranks, count)
    members = []
    for rank, worker in enumerate(workers):
        at = domain[worker]
        args = TaskArgs()
        for t in layout.TENSORS:
            if t.role == "window":
                args.add_tensor(at.buffers["window"].tensor((size,), DataType.UINT8), ROLE[t.direction])
            elif t.name in tensors[rank]:
                args.add_tensor(tensors[rank][t.name], ROLE[t.direction])
            else:
                raise ValueError(f"rank {rank}: tensor {t.name} is missing")
        values = {"nranks": nranks, "count": count, "call": call, "root": root, "ctx": at.device_ctx}
        for name in layout.SCALARS:
            args.add_scalar(values[name])
        members.append(args)
    orch.submit_next_level_group(handle, members, config, workers=workers)
