//! Tests of migration: each `migrate/*.kb` has old forms. Its golden file has the messages and the
//! rewritten text, which has no old form and no error.

use crate::common::Disk;
use kbc_diag::{FileId, render};
use kbc_frontend::load::load;
use kbc_frontend::migrate::migrate;

#[test]
fn every_old_form_is_rewritten() {
    insta::glob!("migrate/*.kb", |path| {
        let mut disk = Disk::default();
        let (file, text) = disk.read(path).expect("found by a glob");
        let (_, found) = load(Some((file, text.clone())), &mut disk);
        let mut shown = String::new();
        for d in &found.list {
            assert!(!d.edits.is_empty(), "{}", render::human(d, &disk.map, false));
            shown += &render::short(d, &disk.map);
            shown += "\n";
            shown += &d.help.iter().map(|h| format!("    help: {h}\n")).collect::<String>();
        }
        let new = migrate(file, &text, &mut disk).expect("old forms");
        let (_, left) = load(Some((file, new.clone())), &mut disk);
        let left: Vec<String> = left.list.iter().map(|d| render::short(d, &disk.map)).collect();
        assert!(left.is_empty(), "{left:#?}\n{new}");
        assert_eq!(migrate(file, &new, &mut disk), None, "once is enough");
        insta::with_settings!({ omit_expression => true, prepend_module_to_snapshot => false }, {
            insta::assert_snapshot!(format!("--- messages\n{shown}--- rewritten\n{new}"));
        });
    });
}

#[test]
fn a_text_without_old_forms_stays() {
    let mut disk = Disk::default();
    let text = "param n = 4\nprogram p(x: f32[n]) -> f32[n] { unknown(x) }\n";
    assert_eq!(migrate(FileId(0), text, &mut disk), None);
}
