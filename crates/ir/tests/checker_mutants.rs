//! Mutants of the good schedules.
use kbc_diag::FileId;
use kbc_ir::checker::{CheckOptions, check};
use kbc_ir::mutate::{apply, mutations};
use kbc_ir::schedule::Schedule;
use kbc_ir::text::parse;

fn schedule(name: &str, text: &str) -> Schedule {
    let m = parse(FileId(0), text).unwrap_or_else(|d| panic!("{name}: {:#?}", d.list));
    m.schedule().unwrap_or_else(|| panic!("{name} is no schedule")).clone()
}

#[test]
fn list() {
    let dir = format!("{}/tests/kir/good", env!("CARGO_MANIFEST_DIR"));
    let mut paths: Vec<_> = std::fs::read_dir(dir).unwrap().map(|f| f.unwrap().path()).collect();
    paths.sort();
    for p in paths {
        let text = std::fs::read_to_string(&p).unwrap();
        let s = schedule("", &text);
        for m in mutations(&s) {
            let v = check(&apply(&s, &m), &CheckOptions::default());
            let mut codes: Vec<_> = v.errors.list.iter().map(|d| d.code).collect();
            codes.dedup();
            let line = text[..(m.span.start as usize).min(text.len())].matches('\n').count() + 1;
            println!("{:22} {:4} {:16} {:?}  {:?}", p.file_name().unwrap().to_str().unwrap(), line, m.word, m.kind, codes);
        }
    }
}
