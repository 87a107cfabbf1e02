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
