//! Tests of the verifier of the tile level: completed kernels pass, every mutation of their
//! synchronisation is found, and files of `tile/unsound` yield the codes of their first line.

use crate::kernels;

use crate::kernels::parse;
use kbc_backend_ascend::passes::complete;
use kbc_backend_ascend::profile::{Profile, find};
use kbc_diag::FileId;
use kbc_tiles::tile::text::{print, print_op};
use kbc_tiles::tile::verify::{fit, in_text, problems, verify};
use kbc_tiles::tile::{Kernel, Op, Stmt, path};
use std::collections::BTreeSet;

fn profile() -> &'static Profile {
    find("a2a3sim").expect("a profile")
}

/// Returns the kernels of the Rust fixtures and of the good texts, completed.
fn completed() -> Vec<(String, Kernel)> {
    let mut list: Vec<(String, Kernel)> =
        kernels::all().into_iter().map(|(n, k)| (n.to_owned(), k)).collect();
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tile/good");
    let mut files: Vec<_> =
        std::fs::read_dir(dir).expect("good texts").map(|e| e.expect("an entry").path()).collect();
    // `forms.tile` contains every form of the text but is not a meaningful kernel.
    files.retain(|f| !f.ends_with("forms.tile"));
    files.sort();
    for f in files {
        let text = std::fs::read_to_string(&f).expect("a text");
        let kernel = parse(&text, FileId(0)).unwrap_or_else(|d| panic!("{f:?}: {:#?}", d.list));
        list.push((f.file_name().expect("a name").to_string_lossy().into_owned(), kernel));
    }
    for (name, k) in &mut list {
        complete(k, profile()).unwrap_or_else(|d| panic!("{name}: {:#?}", d.list));
    }
    list
}

fn codes(k: &Kernel) -> BTreeSet<&'static str> {
    problems(k, profile()).into_iter().map(|p| p.diagnostic.code).collect()
}

#[test]
fn completed_kernels_are_sound() {
    for (name, k) in completed() {
        if let Err(d) = verify(&k, profile()) {
            panic!("{name}: {:#?}\n{}", d.list, print(&k));
        }
    }
}

/// Every line of synchronisation is needed: without it, the verifier reports the missing order.
#[test]
fn every_line_of_synchronisation_is_missed() {
    let (mut lines, mut pairs) = (0, 0);
    for (name, whole) in completed() {
        let sites: Vec<(path::Path, Op)> =
            path::ops(&whole).into_iter().map(|(p, op)| (p, op.clone())).collect();
        for (i, (at, op)) in sites.iter().enumerate().filter(|(_, (_, op))| op.orders()) {
            let mut k = whole.clone();
            path::remove(&mut k, at);
            let found = codes(&k);
            let text = print_op(&whole, op);
            let expected: &[&str] = match op {
                Op::SetFlag { .. } | Op::WaitFlag { .. } => &["E453"],
                Op::MemoryBarrier => &["E454"],
                _ => &["E452", "E454", "E455"],
            };
            assert!(
                expected.iter().any(|c| found.contains(c)),
                "{name} without line {i} `{text}`: {found:?}"
            );
            lines += 1;
            // Removes both sides of a pair: no flag is unmatched, so the missing order itself must
            // be found.
            if let Op::SetFlag { .. } = op {
                path::remove(&mut k, at);
                let found = codes(&k);
                let missed = found.contains("E452") || found.contains("E453");
                assert!(missed, "{name} without the pair {i} `{text}`: {found:?}");
                pairs += 1;
            }
        }
    }
    assert!(lines > 80 && pairs > 30, "{lines} lines, {pairs} pairs");
}

/// A barrier of one pipe, or a flag between other pipes, does not replace a flag.
#[test]
fn a_flag_of_other_pipes_does_not_do() {
    for (name, whole) in completed() {
        for (at, op) in path::ops(&whole) {
            let Op::SetFlag { from, to, event } = *op else { continue };
            let mut k = whole.clone();
            let mut next = at.clone();
            *next.last_mut().expect("a place") += 1;
            // The reverse direction.
            path::replace(&mut k, &at, Stmt::Op(Op::SetFlag { from: to, to: from, event }));
            path::replace(&mut k, &next, Stmt::Op(Op::WaitFlag { from: to, to: from, event }));
            let found = codes(&k);
            assert!(found.contains("E452") || found.contains("E453"), "{name} {}", print_op(&whole, op));
        }
    }
}

/// Files yield the codes of their first line, such as `; E452 E453`.
#[test]
fn unsound_files_yield_their_codes() {
    let mut seen = BTreeSet::new();
    insta::glob!("tile/unsound/*.tile", |file| {
        let name = file.display().to_string();
        let text = std::fs::read_to_string(file).expect("a text");
        let kernel = parse(&text, FileId(0)).unwrap_or_else(|d| panic!("{name}: {:#?}", d.list));
        let found = in_text(&kernel, problems(&kernel, profile()), &text, FileId(0));
        let list: Vec<String> = found
            .list
            .iter()
            .map(|d| {
                let span = d.span();
                let at = if span.is_none() { "-" } else { &text[span.start as usize..span.end as usize] };
                let help = d.help.as_ref().map(|h| format!("\n    help: {h}")).unwrap_or_default();
                format!("{} `{at}`: {}{help}", d.code, d.title)
            })
            .collect();
        assert!(!list.is_empty(), "{name} is sound");
        let first = text.lines().next().unwrap_or_default();
        let codes: BTreeSet<&str> = found.list.iter().map(|d| d.code).collect();
        let want: BTreeSet<&str> = first
            .split_whitespace()
            .map(|w| w.trim_end_matches(':'))
            .filter(|w| w.starts_with("E4"))
            .collect();
        assert_eq!(codes, want, "{name}: {list:#?}");
        seen.extend(found.list.iter().map(|d| d.code));
        insta::assert_snapshot!(list.join("\n"));
    });
    let all = ["E431", "E449", "E450", "E451", "E452", "E453", "E454", "E455", "E456", "E459"];
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), all);
}

/// A number that depends on the launch fits on some numbers of ranks and not on others.
#[test]
fn a_number_that_depends_on_the_launch_fits_some_sizes() {
    let text = "tile 1\nkernel @k aic\nscalar nranks\nscalar count\nscalar call\n\
                tensor %x : f16[count * 128] in 0\ntensor %y : f32[4096] out 0\n\
                table @gaps nranks 2 = [65535, 65536]\ntable @gaps nranks 3 = [7, 65535, 9]\n\
                tile $a : f16[64 x 64] l1 at 0\ntile $e : f32[64 x 64] l0c at 0\n\nbody\n  \
                let gap = count / nranks\n  load.block $a[16, 64] = %x[0] pitch gap\n  barrier all\n  \
                load.block $a[16, 64] = %x[0] pitch @gaps[rank]\n  \
                store.block %y[0] pitch 64 = $e[64, 64]\n";
    let kernel = parse(text, FileId(0)).expect("a kernel");
    let found = problems(&kernel, profile());
    assert!(found.iter().all(|p| p.diagnostic.code != "E450"), "{found:#?}");
    let why = |ranks, count| fit(&kernel, profile(), ranks, count).err().map(|d| d.title);
    assert_eq!(why(3, 3 * 65_535), None);
    let beyond = why(3, 3 * 65_536).expect("it does not fit");
    assert!(beyond.contains("is 65536, and its field holds up to 65535"), "{beyond}");
    let table = why(2, 8).expect("an entry of the table does not fit");
    assert!(table.starts_with("on rank 1 of 2 ") && table.contains("is 65536"), "{table}");
    // There is no table for four ranks.
    assert!(why(4, 8).is_some());
}
