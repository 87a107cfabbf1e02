//! Tests of errors in files: each `errors/*.kb` has a golden file with its source and every
//! message.

use kbc_diag::{SourceMap, render};
use kbc_frontend::parse;

fn messages(name: &str, text: &str) -> String {
    let mut map = SourceMap::default();
    let id = map.add(name, text);
    let (_, diagnostics) = parse(id, text);
    let mut out = String::new();
    for d in &diagnostics.list {
        out.push_str(&render::short(d, &map));
        out.push('\n');
        for l in &d.labels[1..] {
            let (line, col) = map.line_col(l.span).expect("labels are in the file");
            out.push_str(&format!("    {line}:{col}: {}\n", l.text));
        }
        if let Some(h) = &d.help {
            out.push_str(&format!("    help: {h}\n"));
        }
    }
    out
}

#[test]
fn every_fault_has_its_messages() {
    insta::glob!("errors/*.kb", |path| {
        let text = std::fs::read_to_string(path).expect("the file was found by a glob");
        let name = path.file_name().expect("a file").to_string_lossy();
        let shown = messages(&name, &text);
        assert!(!shown.is_empty(), "{name} has no fault");
        insta::with_settings!({ omit_expression => true, prepend_module_to_snapshot => false }, {
            insta::assert_snapshot!(format!("--- source\n{text}--- messages\n{shown}"));
        });
    });
}
