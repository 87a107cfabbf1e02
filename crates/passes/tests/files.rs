//! Tests of files: every `data/PASS/*.kir` is run as its first line states (`;! run =
//! "infer,place"`) and compared with its snapshot. The snapshot holds the text after the passes,
//! the table of `select` if it ran, or the messages. To add a case, add a file.

use crate::common;

use kbc_ir::text::{self, PrintOptions};

#[test]
fn snapshots() {
    insta::glob!("data/*/*.kir", |path| {
        let kir = std::fs::read_to_string(path).expect("a test file");
        let first = kir.lines().next().unwrap_or_default();
        let passes = first.strip_prefix(";! run = \"").and_then(|r| r.strip_suffix('"'));
        let passes =
            passes.unwrap_or_else(|| panic!("{}: the first line must say `;! run = \"..\"`", path.display()));
        let out = match common::run(&kir, passes) {
            Ok((module, findings)) => {
                let table = findings.select.to_string();
                let table = if table.is_empty() { table } else { format!("--- select\n{table}") };
                format!("{}{table}", text::print(&module, &PrintOptions::default()))
            }
            Err(found) => common::words(&found, &kir),
        };
        let mut settings = insta::Settings::clone_current();
        settings.set_snapshot_path(path.parent().expect("a file is in a folder"));
        settings.set_prepend_module_to_snapshot(false);
        settings.remove_snapshot_suffix();
        settings.set_omit_expression(true);
        settings.remove_input_file();
        let name = path.file_name().expect("a file has a name").to_string_lossy().into_owned();
        settings.bind(|| insta::assert_snapshot!(name, out));
    });
}
