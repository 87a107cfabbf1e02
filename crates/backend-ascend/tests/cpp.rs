//! Kernels as C++: what complete kernels print as, and what is refused.

use kbc_backend_ascend::cpp::{KernelText, kernel, tables_tensor};
use kbc_backend_ascend::tile::Kernel;
use kbc_backend_ascend::tile::parse::parse;
use kbc_diag::FileId;

fn read(name: &str) -> Kernel {
    let path = format!("{}/tests/tile/good/{name}.tile", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).expect("it can be read");
    parse(&text, FileId(0)).expect("it is a kernel")
}

fn text(source: &str) -> KernelText {
    KernelText { source: source.into(), notes: vec![] }
}

#[test]
fn complete_kernels() {
    for (name, source) in
        [("onephase", "all_reduce.kb"), ("elementwise", "ffn.kb"), ("tables", "broadcast.kb")]
    {
        let printed = kernel(&read(name), &text(source)).expect(name);
        insta::assert_snapshot!(name, printed);
        for (i, line) in printed.lines().enumerate() {
            assert!(line.len() <= 120, "{name}:{}: {line}", i + 1);
            assert_eq!(line.trim_end(), line, "{name}:{}", i + 1);
        }
    }
}
