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
             "simpler_setup.elf_parser", "simpler_setup.kernel_compiler", "simpler_setup.pto_isa"):
    sys.modules[name] = MagicMock()
os.cpu_count = lambda: 2
sys.path.insert(0, ".")
import harness, layout

begun = threading.Barrier(2)

def compile_incore(source_path, **rest):
    begun.wait(timeout=60)
    return open(source_path).read()

compiler = sys.modules["simpler_setup.kernel_compiler"].KernelCompiler.return_value
compiler.compile_incore.side_effect = compile_incore
task_interface = sys.modules["simpler.task_interface"]
task_interface.CoreCallable.build.side_effect = lambda signature, binary: (len(signature), binary)
harness.compile_kernel("a2a3sim", "tensormap_and_ringbuffer", ".")
children = task_interface.ChipCallable.build.call_args.kwargs["children"]
assert compiler.compile_incore.call_count == len(layout.KERNELS)
for number, (kernel, child) in enumerate(zip(layout.KERNELS, children, strict=True)):
    text = open(os.path.join("kernels", kernel.core, f"{kernel.name}.cpp")).read()
    assert child == (number, (len(kernel.directions), text)), kernel
assert {task.kernel for task in layout.TASKS} == set(range(len(layout.KERNELS)))
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
