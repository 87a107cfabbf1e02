//! Tables of pages.

use kbc_diag::FileId;
use kbc_evaluation::repro::tables::remade;
use kbc_evaluation::sweep::table::SweepLine;
use std::collections::BTreeMap;

fn rows() -> BTreeMap<String, Vec<SweepLine>> {
    let line = |m: &str, n: u64, t: f64| {
        let columns = vec![("m".into(), m.into()), ("n".into(), n.into()), ("time_ns".into(), t.into())];
        SweepLine { columns, failure: None }
    };
    BTreeMap::from([(
        "s".to_owned(),
        vec![line("ring", 1, 10.0), line("ring", 2, 2000.0), line("full", 1, 5.0), line("full", 2, 7.5)],
    )])
}

fn page(marker: &str) -> Result<String, String> {
    let text = format!("before\n<!-- rows: {marker} -->\nold\n<!-- end -->\nafter\n");
    remade(&text, FileId::default(), &rows()).map_err(|d| d.title)
}

#[test]
fn tables_are_lists_or_go_across() {
    assert_eq!(
        page("s m=ring: n, time_ns as time").expect("a page"),
        "before\n<!-- rows: s m=ring: n, time_ns as time -->\n\n| n | time |\n|---|---|\n| 1 | 10.0 ns |\n| 2 | 2.000 us |\n\n<!-- end -->\nafter\n"
    );
    assert!(
        page("s across m: n, time_ns")
            .expect("a page")
            .contains("| n | ring | full |\n|---|---|---|\n| 1 | 10.0 ns | 5.0 ns |\n")
    );
    // Regenerating a page changes nothing.
    let once = page("s across m: n, time_ns").expect("a page");
    assert_eq!(remade(&once, FileId::default(), &rows()).expect("a page"), once);
}

#[test]
fn what_is_not_there_is_said() {
    assert_eq!(page("t: n").expect_err("no sweep"), "no sweep `t` in the list");
    assert_eq!(page("s: k").expect_err("no column"), "the rows of `s` have no column `k`");
    assert_eq!(page("s m=torus: n").expect_err("no row"), "the selection leaves no row of `s`");
    assert_eq!(
        page("s across m: time_ns").expect_err("two sizes"),
        "there are several rows of `s` for one cell"
    );
    assert!(remade("<!-- rows: s: n -->\n", FileId::default(), &rows()).is_err());
}
