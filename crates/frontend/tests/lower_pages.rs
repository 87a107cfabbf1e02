//! The two files of every page about programs: loaded and lowered, one yields exactly its code, the other nothing.

mod common;

use common::{Disk, options};
use kbc_diag::codes::{CODES, Example};
use kbc_diag::{Diagnostics, render};
use kbc_frontend::load::load;
use kbc_frontend::lower::lower;

/// Codes that loading and lowering raise; pages of the other codes are run by those who raise them.
const OWN: [&str; 13] =
    ["E221", "E222", "E223", "E224", "E225", "E226", "E227", "E228", "E229", "E290", "E420", "E421", "E422"];

fn messages(e: &Example, disk: &mut Disk) -> Diagnostics {
    let id = disk.map.add("page.kb", e.text);
    let (loaded, found) = load(Some((id, e.text.to_owned())), disk);
    if found.has_errors() {
        return found;
    }
    let options = options(e.args, disk);
    lower(&loaded, &options).map_or_else(|found| found, |lowered| lowered.warnings)
}

#[test]
fn every_page_is_right() {
    let mut wrong = vec![];
    let pages: Vec<_> = CODES.iter().filter(|c| OWN.contains(&c.code)).collect();
    assert_eq!(pages.len(), OWN.len());
    for c in pages {
        let examples = c.examples();
        assert_eq!(examples.iter().map(|e| e.fails).collect::<Vec<_>>(), [true, false], "{}", c.code);
        for e in &examples {
            let mut disk = Disk::default();
            let found = messages(e, &mut disk);
            let shown: Vec<String> = found.list.iter().map(|d| render::short(d, &disk.map)).collect();
            if found.list.is_empty() == e.fails || found.list.iter().any(|d| d.code != c.code) {
                wrong.push(format!("{} {}: {shown:#?}", c.code, if e.fails { "fails" } else { "fixed" }));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
