//! Tests of packages as their user meets them: what a package says that was not executed, and how
//! its command line ends where it cannot run.

use crate::common::{Scratch, kbc};
use crate::needs::{Need, found};
use std::process::Command;

/// Without an execution, the package says so, and it is otherwise the same.
#[test]
fn a_package_without_an_execution_says_so() {
    let dir = Scratch::new();
    let spec = concat!(env!("CARGO_MANIFEST_DIR"), "/specs/all_reduce.kb");
    let compile = |more: &[&str]| {
        let ran = kbc(dir.path(), &[&["compile", spec, "--target", "a2a3"], more].concat(), "");
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{}", ran.stdout);
        ran.stdout
    };
    let said = compile(&["--no-data", "-o", "quick"]);
    assert!(
        said.contains("emitted sum_of_all for a2a3") && !said.contains("elements on all ranks"),
        "{said}"
    );
    compile(&["-o", "whole"]);
    let text = |file: &str| std::fs::read_to_string(dir.path().join(file)).expect("a file of the package");
    let kernel = "kernels/aiv/sum_of_all.cpp";
    let (quick, whole) = (text(&format!("quick/{kernel}")), text(&format!("whole/{kernel}")));
    assert!(quick.contains("not simulated: no results were compared"), "{quick}");
    assert!(whole.contains("simulated: 4 ranks, ") && !whole.contains("not simulated"), "{whole}");
    let code = |t: &str| {
        t.lines().filter(|l| !l.contains("simulated")).map(|l| format!("{l}\n")).collect::<String>()
    };
    assert_eq!(code(&quick), code(&whole));
}

/// `main.py` ends with 2 where it cannot run, and names what is missing.
#[test]
fn a_package_names_what_is_missing() {
    let Some(python3) = found(Need::Python) else { return };
    let dir = Scratch::new();
    let spec = concat!(env!("CARGO_MANIFEST_DIR"), "/specs/all_reduce.kb");
    let ran = kbc(dir.path(), &["compile", spec, "--target", "a2a3", "--no-data", "-o", "out"], "");
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{}", ran.stdout);
    // A file beside the script is found before any installed module.
    let missing = |module: &str| {
        let text = format!("raise ModuleNotFoundError(\"No module named '{module}'\", name='{module}')\n");
        dir.write(&format!("out/{module}.py"), text.as_bytes());
    };
    let run = |flags: &[&str]| {
        let done =
            Command::new(&python3).arg("main.py").args(flags).current_dir(dir.path().join("out")).output();
        let done = done.expect("Python starts");
        (done.status.code(), String::from_utf8_lossy(&done.stderr).into_owned())
    };
    missing("torch");
    let (code, said) = run(&[]);
    assert_eq!(code, Some(2), "{said}");
    assert!(
        said.contains("error: Python has no module torch") && said.contains("pip install torch"),
        "{said}"
    );
    dir.write("out/torch.py", b"");
    missing("simpler");
    let (code, said) = run(&[]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("error: the runtime is not installed: Python has no module simpler"), "{said}");
    let (code, said) = run(&["--iterations", "0"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("at least one launch"), "{said}");
}

/// Counterparts of the runtime's modules: what is compiled is the text of the kernel, and every
/// compilation waits until two have begun, so that one after another would fail.
const COMPILES: &str = r#"
import os, sys, threading
from unittest.mock import MagicMock

for name in ("torch", "simpler", "simpler.task_interface", "simpler.worker", "simpler_setup",
             "simpler_setup.scene_test_cache", "simpler_setup.elf_parser", "simpler_setup.kernel_compiler", "simpler_setup.pto_isa"):
    sys.modules[name] = MagicMock()
os.cpu_count = lambda: 2
sys.path.insert(0, ".")
import entry, layout

begun = threading.Barrier(2)

def compile_incore(source_path, **rest):
    begun.wait(timeout=60)
    return open(source_path).read()

compiler = sys.modules["simpler_setup.kernel_compiler"].KernelCompiler.return_value
compiler.compile_incore.side_effect = compile_incore
task_interface = sys.modules["simpler.task_interface"]
task_interface.CoreCallable.build.side_effect = lambda signature, binary: (len(signature), binary)

class Cache:
    """The runtime's cache: keys are what they are made from, the texts of sources among it."""
    KERNEL_CACHE_DIR = None
    def __init__(self):
        self.kept = {}
    def compile_incore_artifact_key(self, metadata, source, folders):
        return repr((metadata, open(source).read(), folders))
    def compile_artifact_key(self, metadata, units):
        return repr((metadata, [(open(source).read(), folders) for source, folders in units]))
    def get_or_compile(self, key, make):
        if key not in self.kept:
            self.kept[key] = make()
        return self.kept[key]
    get_or_compile_incore = get_or_compile

entry.scene_test_cache = cache = Cache()
compiler.get_orchestration_include_dirs.side_effect = lambda runtime: [f"include/{runtime}"]
compiler.get_incore_include_dirs.return_value = ["platform"]
compiler.get_orchestration_cache_inputs.side_effect = lambda runtime: ([runtime], [])
compiler.incore_compile_cache_token.side_effect = lambda core: f"flags of {core}"
compiler.compile_cache_token.side_effect = lambda runtime, cores: [runtime, cores]
entry.ensure_pto_isa_root = lambda: "isa"

first = entry.compile_kernel("a2a3sim", "tensormap_and_ringbuffer", ".")
children = task_interface.ChipCallable.build.call_args.kwargs["children"]
assert compiler.compile_incore.call_count == len(layout.KERNELS)
for number, (kernel, child) in enumerate(zip(layout.KERNELS, children, strict=True)):
    text = open(os.path.join("kernels", kernel.core, f"{kernel.name}.cpp")).read()
    assert child == (number, (len(kernel.directions), text)), kernel
assert {task.kernel for task in layout.TASKS} == set(range(len(layout.KERNELS)))

# What was compiled is not compiled again, and a change compiles what it changed.
def again(platform="a2a3sim", runtime="tensormap_and_ringbuffer"):
    counts = [compiler.compile_incore.call_count, compiler.compile_orchestration.call_count]
    begun.reset()
    entry.compile_kernel(platform, runtime, ".")
    return compiler.compile_incore.call_count - counts[0], compiler.compile_orchestration.call_count - counts[1]

assert entry.compile_kernel("a2a3sim", "tensormap_and_ringbuffer", ".") is first and again() == (0, 0)
begun = MagicMock()
path = os.path.join("kernels", layout.KERNELS[0].core, f"{layout.KERNELS[0].name}.cpp")
text = open(path).read()
open(path, "w").write(text + "// another\n")
assert again() == (1, 1)
open(path, "w").write(text)
assert again() == (0, 0)
# Headers of another runtime, and another platform, are other kernels.
assert again(runtime="host_build_graph") == again("a2a3") == (len(layout.KERNELS), 1)
path = os.path.join("kernels", "orchestration", f"{layout.KERNEL}_orch.cpp")
open(path, "a").write("// another\n")
assert again() == (0, 1)
assert cache.KERNEL_CACHE_DIR is None
entry.compile_kernel("a2a3sim", "tensormap_and_ringbuffer", ".", "kept")
assert str(cache.KERNEL_CACHE_DIR) == os.path.realpath("kept")
print(len(layout.KERNELS), len(layout.TASKS))
"#;

/// The harness compiles each kernel once, several at a time, and numbers them as the orchestration
/// does.
#[test]
fn a_harness_compiles_every_kernel_once() {
    let Some(python3) = found(Need::Python) else { return };
    let dir = Scratch::new();
    let spec = concat!(env!("CARGO_MANIFEST_DIR"), "/specs/ffn_tp.kb");
    let ran = kbc(dir.path(), &["compile", spec, "--target", "a2a3", "--no-data", "-o", "out"], "");
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{}", ran.stdout);
    let done = Command::new(&python3).args(["-c", COMPILES]).current_dir(dir.path().join("out")).output();
    let done = done.expect("Python starts");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    assert_eq!(String::from_utf8_lossy(&done.stdout), "4 4\n");
}

/// Counterparts of the runtime's modules that note what is launched. Three launches have data of
/// their own in `x` and the same data in all other inputs.
const LAUNCHES: &str = r#"
import contextlib, logging, os, sys
from types import SimpleNamespace as NS
from unittest.mock import MagicMock

for name in ("torch", "simpler", "simpler.task_interface", "simpler.worker", "simpler_setup",
             "simpler_setup.scene_test_cache", "simpler_setup.elf_parser", "simpler_setup.kernel_compiler", "simpler_setup.pto_isa"):
    sys.modules[name] = MagicMock()
logging.addLevelName(25, "TIMING")
sys.path.insert(0, ".")
import entry, harness, layout

class Host:
    """Host memory: its words."""
    dtype = "words"
    def __init__(self, *words):
        self.words = words
    def numel(self):
        return len(self.words)
    def element_size(self):
        return 4
    def flatten(self):
        return self
    def view(self, _):
        return self
    def __eq__(self, other):
        return NS(all=lambda: self.words == other.words)
    __hash__ = object.__hash__

class Args:
    def __init__(self):
        self.tensors, self.scalars = [], []
    def add_tensor(self, tensor, role):
        assert not self.scalars
        self.tensors.append((tensor, role))
    def add_scalar(self, value):
        self.scalars.append(value)

class Chip:
    """Memory of a chip."""
    def __init__(self, chip):
        self.chip, self.host = chip, None
    def tensor(self, shapes, dtype):
        return self

entry.TaskArgs = Args
submitted, copied, freed, inside = [], [], [], []

def allocate_domain(name, workers, window_size, buffers):
    @contextlib.contextmanager
    def domain():
        inside.append(True)
        yield {w: NS(buffers={"window": NS(tensor=lambda shape, dtype, w=w: ("window", w))}, device_ctx=1000 + w)
               for w in workers}
        inside.pop()
    return domain()

def copy_to(chip, host):
    chip.host = host
    copied.append((chip, host))

def submit(handle, members, config, workers):
    assert inside and workers == list(range(len(members)))
    submitted.append(members)

orch = NS(allocate_domain=allocate_domain, copy_to=copy_to, submit_next_level_group=submit,
          alloc_child_tensor=lambda chip, shapes, dtype: Chip(chip))
worker = NS(make_tensor_arg=lambda tensor, shapes, dtype: ("host", tensor), free=freed.append,
            create_buffer=lambda size: NS(shm=NS(buf=None), size=size),
            run=lambda function, args, config: function(orch, args, config))

nranks, count = 4, layout.DEFAULT_COUNT or 0
def buffers(number):
    def words(t, rank):
        return (t.name, rank, number) if t.role != "input" or t.name == "x" else (t.name, rank)
    host = [t for t in layout.TENSORS if t.role not in ("memory", "window")]
    return [{t: Host(*words(t, rank)) for t in host} for rank in range(nranks)]

launches = []
for number in range(3):
    launch = object.__new__(harness.Launch)
    launch.number, launch.buffers, launch.root = number, buffers(number), None
    launches.append(launch)
harness.launched(worker, "handle", nranks, count, list(enumerate(launches)))

stay = [t.name for t in layout.TENSORS if t.role == "input" and t.name != "x"]
memory = ["memory"] * any(t.role == "memory" for t in layout.TENSORS)
assert len(submitted) == 3 and len(copied) == nranks * len(stay), (len(submitted), len(copied))
assert len(freed) == nranks * len(stay + memory), len(freed)
for number, members in enumerate(submitted):
    for rank, args in enumerate(members):
        for t, (got, role) in zip(layout.TENSORS, args.tensors, strict=True):
            assert role is entry.ROLE[t.direction]
            if t.role == "window":
                assert got == ("window", rank)
            elif t.name in stay + memory:
                # What no launch changes is there before it is used; intermediate values are not.
                assert isinstance(got, Chip) and got.chip == rank and (got.host is None) == (t.name in memory), t
            else:
                assert got == ("host", launches[number].buffers[rank][t]), t
        want = {"nranks": nranks, "count": count, "call": number, "root": layout.ROOT, "ctx": 1000 + rank}
        assert args.scalars == [want[name] for name in layout.SCALARS]

# One launch keeps nothing. What a launch cannot be is refused.
copied.clear()
harness.launched(worker, "handle", nranks, count, [(0, launches[0])])
assert not copied and len(submitted) == 4
whole = [launches[0].tensors(worker, rank, {}) | {name: None for name in memory} for rank in range(nranks)]
def refused(*, workers=range(nranks), tensors=whole, call=0):
    with entry.domain(orch, workers, count) as domain:
        try:
            entry.launch(orch, "handle", None, domain, workers, tensors, call, count)
        except ValueError as e:
            return str(e)
        raise AssertionError("it was launched")
assert "launch -1" in refused(call=-1)
assert "a domain serves" in refused(call=layout.launches(nranks, count))
assert "is checked for" in refused(workers=range(63), tensors=whole * 16)
assert f"tensors for {nranks - 1} of {nranks} ranks" in refused(tensors=whole[1:])
assert "rank 1: tensor status is missing" in refused(tensors=[whole[0], {n: None for n in whole[1] if n != "status"}, *whole[2:]])
assert len(submitted) == 4

# Times of the slowest rank, from lines that share the standard error.
def line(pid, number, took, name="chip.run.runner_run.device_wall"):
    return f"[mono_ns=1][T0x1f][TIMING] f: [STRACE] v=1 pid={pid} tid=9 inv={number} hid=ab depth=2 name={name} ts=0 dur={took} clk=dev"
def log():
    for rank in range(nranks):
        for call, took in enumerate([90000, 80000, 1000, 3000, 2000]):
            yield line(100 + rank, 7 + call, took + (500 if rank == 1 else 0))
            yield line(100 + rank, 7 + call, 5, "chip.run.runner_run.device_wall.orch")
text = "\n".join(log())
assert harness.device_times(text, nranks, 5) == [90500, 80500, 1500, 3500, 2500]
try:
    harness.device_times(text, nranks, 6)
    raise AssertionError("a launch is missing")
except entry.Unable as e:
    assert "5, 5" in str(e) and "SIMPLER_HOST_STRACE" in str(e)

def serve(on, devices, counts, what, calls):
    assert (devices, counts, what, list(calls)) == (list(range(nranks)), [count], (1, 0, "exact", None), [0, 1, 2, 3, 4])
    os.write(2, text.encode() if right else b"error: it is wrong\n")
    return right
harness.serve = serve
for right in (True, False):
    done = harness.measure((None, "a2a3", "r"), list(range(nranks)), [count], (0, "exact", None), (2, 3), ".")
    assert done is right
print(layout.moved(nranks, count))
"#;

/// Inputs that no launch changes are copied to the devices once, launches take the arguments of the
/// kernel in order, and what is measured is the median of the slowest rank.
#[test]
fn a_package_launches_and_measures() {
    let Some(python3) = found(Need::Python) else { return };
    let specs = concat!(env!("CARGO_MANIFEST_DIR"), "/specs");
    let bandwidths = ", algbw 1.600 GB/s, busbw 2.400 GB/s";
    for (file, name, size, moved, rates) in [
        ("ffn_tp.kb", "ffn", "4 ranks", "None", ""),
        ("all_reduce.kb", "sum_of_all", "4 ranks, n = 1000", "(4000, 1.5)", bandwidths),
    ] {
        let dir = Scratch::new();
        let spec = format!("{specs}/{file}");
        let ran = kbc(dir.path(), &["compile", &spec, "--target", "a2a3", "--no-data", "-o", "out"], "");
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{}", ran.stdout);
        let done = Command::new(&python3).args(["-c", LAUNCHES]).current_dir(dir.path().join("out")).output();
        let done = done.expect("Python starts");
        let (said, errors) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
        assert!(done.status.success(), "{errors}");
        let time = "time 2.500 us (median of 3 launches after 2 to warm up; 1.500 to 3.500)";
        let first = said.lines().next().unwrap_or_default();
        assert!(
            first.starts_with(name) && first.ends_with(&format!(" on a2a3: {size}: {time}{rates}")),
            "{said}"
        );
        assert_eq!(said.lines().last(), Some(moved), "{said}");
        assert_eq!(errors, "error: it is wrong\n");
        let refused = |flags: &[&str]| {
            let done = Command::new(&python3)
                .arg("main.py")
                .args(flags)
                .current_dir(dir.path().join("out"))
                .output();
            let done = done.expect("Python starts");
            assert_eq!(done.status.code(), Some(2));
            String::from_utf8_lossy(&done.stderr).into_owned()
        };
        assert!(refused(&["--perf", "--iterations", "3"]).contains("--iterations does not go with --perf"));
        assert!(refused(&["--warmup", "3"]).contains("--warmup goes with --perf alone"));
        assert!(refused(&["--perf", "--repeat", "0"]).contains("at least one launch is measured"));
    }
}

/// A launch of a kernel with a root: the root is a scalar of all ranks, and data belongs to places.
const ROOTS: &str = r#"
import contextlib, sys
from types import SimpleNamespace as NS
from unittest.mock import MagicMock

for name in ("torch", "simpler", "simpler.task_interface", "simpler.worker", "simpler_setup",
             "simpler_setup.scene_test_cache", "simpler_setup.elf_parser", "simpler_setup.kernel_compiler", "simpler_setup.pto_isa"):
    sys.modules[name] = MagicMock()
sys.path.insert(0, ".")
import entry, layout

class Args:
    def __init__(self):
        self.scalars = []
    def add_tensor(self, tensor, role):
        pass
    def add_scalar(self, value):
        self.scalars.append(value)

entry.TaskArgs = Args
submitted = []
orch = NS(submit_next_level_group=lambda handle, members, config, workers: submitted.append(members))
domain = {w: NS(buffers={"window": MagicMock()}, device_ctx=7) for w in (5, 1, 3)}
tensors = [{t.name: None for t in layout.TENSORS} for _ in range(3)]
def launch(root, call=0):
    try:
        entry.launch(orch, None, None, domain, (5, 1, 3), tensors, call, 1000, root)
    except ValueError as e:
        return str(e)
    at = layout.SCALARS.index("root")
    return {args.scalars[at] for args in submitted[-1]}

assert launch(None) == {layout.ROOT} and launch(2) == {2}, launch(2)
assert launch(3) == "root 3: there are 3 ranks, numbered from 0" and launch(-1).startswith("root -1")
# Counters continue, so a domain has one root.
assert launch(2, 1) == {2} and launch(0, 2) == "root 0: the launches of this domain have root 2; another root takes another domain"
assert launch(0) == {0} and launch(0, 1) == {0}
for nranks in (2, 3, 8):
    for root in range(nranks):
        has = [layout.elements(nranks, 1000, layout.place(rank, nranks, root))[0] for rank in range(nranks)]
        assert has == [1000 * (rank == root) for rank in range(nranks)], (nranks, root, has)
    assert [layout.place(rank, nranks) for rank in range(nranks)] == list(range(nranks))
"#;

const ROOTED: &str = "param tp = 4
param n = 1000
topology sys = full(tp) { link: 50 GB/s, 500 ns }
mesh m = sys[tp]
program sent(x: f32[n] only(1@tp)) -> f32[n] { broadcast(x, over: tp, using: binomial) }
program added(x: f32[n] partial(sum@tp)) -> f32[n] { all_reduce(x, sum, over: tp, using: ring) }
";

#[test]
fn a_launch_takes_a_root() {
    let Some(python3) = found(Need::Python) else { return };
    let dir = Scratch::new();
    dir.write("rooted.kb", ROOTED.as_bytes());
    let compile = ["compile", "rooted.kb", "--target", "a2a3", "--no-data", "--program", "sent", "-o", "out"];
    let ran = kbc(dir.path(), &compile, "");
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{}", ran.stdout);
    let python = |line: &[&str], folder: &str| {
        let done = Command::new(&python3).args(line).current_dir(dir.path().join(folder)).output();
        let done = done.expect("Python starts");
        (done.status.code(), String::from_utf8_lossy(&done.stderr).into_owned())
    };
    assert_eq!(python(&["-c", ROOTS], "out"), (Some(0), String::new()));
    let (code, said) = python(&["main.py", "-d", "0-3", "--root", "4"], "out");
    assert_eq!((code, said.as_str()), (Some(2), "error: --root 4: there are 4 ranks, numbered from 0\n"));
    let (code, said) = python(&["main.py", "-d", "0-3", "--runtime", "aicpu_build_graph"], "out");
    assert!(code == Some(2) && said.contains("simpler removed it in acf3900"), "{said}");
}

/// Several programs of a file become packages in one folder, with one harness beside them.
#[test]
fn packages_share_a_harness() {
    let Some(python3) = found(Need::Python) else { return };
    let dir = Scratch::new();
    dir.write("rooted.kb", ROOTED.as_bytes());
    let compile = |programs: &str, more: &[&str]| {
        let line = ["compile", "rooted.kb", "--no-data", "--program", programs];
        kbc(dir.path(), &[&line[..], more].concat(), "")
    };
    let ran = compile("sent, added", &["--target", "a2a3", "-o", "all"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{}", ran.stdout);
    assert!(ran.stdout.contains("emitted sent for a2a3: all/sent\n"), "{}", ran.stdout);
    let one = compile("sent", &["--target", "a2a3", "-o", "one"]);
    assert_eq!(one.code, 0, "{}", one.stderr);
    let read = |path: &str| std::fs::read(dir.path().join(path)).ok();
    assert!(read("one/harness.py").is_some() && read("one/harness.py") == read("all/harness.py"));
    for name in ["sent", "added"] {
        assert!(read(&format!("all/{name}/harness.py")).is_none());
        assert_eq!(read(&format!("all/{name}/conftest.py")), read("one/conftest.py"));
        // The harness is found: it is what asks for torch.
        dir.write(&format!("all/{name}/torch.py"), b"raise ModuleNotFoundError(\"no\", name='torch')\n");
        let done = Command::new(&python3)
            .args(["-B", "main.py"])
            .current_dir(dir.path().join("all").join(name))
            .output();
        let said = String::from_utf8_lossy(&done.expect("Python starts").stderr).into_owned();
        assert!(said.contains("error: Python has no module torch"), "{said}");
        std::fs::remove_file(dir.path().join(format!("all/{name}/torch.py"))).expect("it was written");
    }
    assert_eq!(read("all/sent/kernels/aiv/sent.cpp"), read("one/kernels/aiv/sent.cpp"));
    // What Python leaves where a package ran does not count.
    std::fs::create_dir_all(dir.path().join("all/sent/__pycache__")).expect("a folder");
    dir.write("all/sent/__pycache__/layout.cpython-313.pyc", b"made by Python");
    let again = compile("sent,added", &["--target", "a2a3", "-o", "all"]);
    assert_eq!(again.code, 0, "{}", again.stderr);
    // Files of others are not replaced.
    dir.write("all/notes", b"mine");
    let again = compile("sent,added", &["--target", "a2a3", "-o", "all"]);
    assert!(again.code != 0 && again.stderr.contains("E411"), "{}", again.stderr);
    for (programs, more, why) in [
        ("sent,added", &["-o", "x"][..], "target sim takes one"),
        ("sent,sent", &["--target", "a2a3"], "names `sent` twice"),
        ("sent,", &["--target", "a2a3"], "has an empty name"),
        ("sent,added", &["--target", "a2a3", "--emit", "tile=t"], "are those of one program"),
    ] {
        let ran = compile(programs, more);
        assert!(ran.code == 2 && ran.stderr.contains(why), "{programs} {more:?}: {}", ran.stderr);
    }
    // One JSON object has the reports of all.
    let ran = compile("sent,added", &["--target", "a2a3", "-o", "json", "--format", "json"]);
    let found: serde_json::Value = serde_json::from_str(&ran.stdout).expect("JSON");
    let outs: Vec<&str> = found["programs"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|p| p["emitted"]["out"].as_str())
        .collect();
    assert_eq!(outs, ["json/sent", "json/added"]);
    let ran = compile("sent,missing", &["--target", "a2a3", "-o", "none"]);
    assert!(ran.code != 0 && ran.stderr.contains("unknown program `missing`"), "{}", ran.stderr);
    assert!(!dir.path().join("none").exists());
}

/// The simulator of the runtime takes tiles of equally many rows for a sum of rows, and the column
/// of sums has a multiple of 16.
#[test]
fn sums_of_rows_have_types_of_the_simulator() {
    let dir = Scratch::new();
    for (shape, helped) in [("5, 1000", true), ("16, 64", false)] {
        let rows = shape.split(',').next().expect("rows");
        let text = format!(
            "topology sys = full(2)\nmesh m = sys[tp]\n\
             program sums(x: f32[{shape}]) -> f32[{rows}] {{ sum(x, dim: 1) }}\n"
        );
        dir.write("sums.kb", text.as_bytes());
        let out = format!("out{rows}");
        let ran = kbc(dir.path(), &["compile", "sums.kb", "--target", "a2a3", "-o", &out, "-q"], "");
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        let kernel = dir.path().join(out).join("kernels/aiv/sums.cpp");
        let kernel = std::fs::read_to_string(kernel).expect("a kernel");
        assert!(kernel.contains("TROWSUM("), "{kernel}");
        assert_eq!(kernel.contains(" RowSum(b_column"), helped, "{shape}: {kernel}");
    }
}

/// Prints the moduli of exact inputs at some counts, and how a run ends where there are none.
const MODULI: &str = r#"
import sys
from unittest.mock import MagicMock
for name in ("torch", "simpler", "simpler.task_interface", "simpler.worker", "simpler_setup",
             "simpler_setup.scene_test_cache", "simpler_setup.elf_parser", "simpler_setup.kernel_compiler", "simpler_setup.pto_isa"):
    sys.modules[name] = MagicMock()
sys.path.insert(0, ".")
import entry, golden, harness
for count in map(int, sys.argv[2:]):
    try:
        print(*golden.moduli_at(2, count))
    except golden.Inexact as e:
        print(e)
entry.compile_kernel = lambda *_: None
harness.Launch = lambda number, nranks, count, *_: golden.moduli_at(nranks, count)
print(harness.run("a2a3sim", "r", [0, 1], [(2, [int(sys.argv[-1])])], 1, 0, "exact"))
"#;

/// A sum over a dimension whose length is the count takes smaller integers at larger counts, so
/// that it stays exact. Where none are left, the run says so and ends with 2.
#[test]
fn integers_of_packages_stay_exact_at_larger_counts() {
    let Some(python3) = found(Need::Python) else { return };
    let dir = Scratch::new();
    let text = "param n = 40\nparam tp = 2\ntopology sys = full(tp)\nmesh m = sys[tp]\n\
                program f(x: f32[4@tp, n]) -> f32[4] { sum(x, dim: 1) }\n";
    dir.write("f.kb", text.as_bytes());
    let ran = kbc(dir.path(), &["compile", "f.kb", "--target", "a2a3", "--no-data", "-o", "out"], "");
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{}", ran.stdout);
    let counts = ["7", "1009", "100000", "16000000", "100000000"];
    let done = Command::new(&python3)
        .args(["-c", MODULI, "-"])
        .args(counts)
        .current_dir(dir.path().join("out"))
        .output()
        .expect("Python starts");
    let (said, errors) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), counts.len() + 2, "{said}{errors}");
    let moduli: Vec<f64> = lines[..3].iter().map(|l| l.parse().expect("a number")).collect();
    assert!(moduli[0] > 2.0 && moduli[0] >= moduli[1] && moduli[1] > moduli[2], "{said}");
    // The largest sums stay below 2^24, and are not far from it.
    for (modulus, count) in moduli.iter().zip([7.0, 1009.0, 100_000.0]) {
        assert!((modulus - 1.0) * count < 16_777_216.0, "{said}");
        assert!(count < 1000.0 || modulus * count > 16_000_000.0, "{said}");
    }
    let none =
        "no integers stay exact at a count of 100000000, so nothing can be compared: take a smaller count";
    assert_eq!(lines[4], none, "{said}");
    assert_eq!((lines[6], errors.as_ref()), ("2", format!("error: {none}\n").as_str()), "{said}");
}
