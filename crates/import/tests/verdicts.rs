//! Tests that every schedule of `tests/msccl` has the verdict beside it (row IO-1).
//!
//! `NAME.verdict` contains `accepted`, or `rejected: KIND, ..` with all kinds that occur: `hang at
//! this depth`, `hang at any depth`, `postcondition`, `uninitialised`, `race`. It may contain
//! `safe: any size`, `safe: up to N B` or `safe: no size`. To add a case, copy two files.

use crate::cases::all_cases;
use kbc_diag::{Diagnostics, FileId};
use kbc_import::msccl::fifo::SafeSizes;
use kbc_import::msccl::judge::{Finding, Hang, judge};
use kbc_import::msccl::{Options, build, read};
use std::path::{Path, PathBuf};

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/msccl").join(name)
}

fn schedules(name: &str) -> Vec<PathBuf> {
    let mut out: Vec<PathBuf> = std::fs::read_dir(folder(name))
        .expect("a folder of schedules")
        .map(|e| e.expect("an entry").path())
        .filter(|p| p.extension().is_some_and(|e| e == "xml"))
        .collect();
    out.sort();
    out
}

fn found(text: &str) -> Result<Finding, Diagnostics> {
    let algo = read(FileId(0), text, &mut Diagnostics::new())?;
    let options = Options::default();
    Ok(judge(&algo, &build(&algo, &options), &options, false, &|_| None))
}

/// Returns a finding in the words of a `.verdict` file. Kinds that these do not distinguish are
/// left out.
fn words(f: &Finding) -> [String; 2] {
    let kinds: Vec<String> = f
        .kinds
        .iter()
        .filter_map(|k| match (*k, f.hang) {
            ("hang", Hang::AtDepth) => Some("hang at this depth".into()),
            ("hang", _) => Some("hang at any depth".into()),
            ("leftover" | "connection" | "sizes", _) => None,
            (k, _) => Some(k.to_owned()),
        })
        .collect();
    let first = match f.accepted() {
        true => "accepted".into(),
        false => format!("rejected: {}", kinds.join(", ")),
    };
    let safe = match f.safe {
        SafeSizes::Any => "safe: any size".into(),
        SafeSizes::UpTo(n) => format!("safe: up to {n} B"),
        SafeSizes::Never => "safe: no size".into(),
    };
    [first, safe]
}

fn all_agree(name: &str) -> usize {
    let mut wrong = vec![];
    let files = schedules(name);
    for path in &files {
        let text = std::fs::read_to_string(path).expect("a schedule");
        let wanted = std::fs::read_to_string(path.with_extension("verdict")).expect("its verdict");
        let got = match found(&text) {
            Ok(f) => words(&f),
            Err(d) => [d.list[0].title.clone(), String::new()],
        };
        wrong.extend(
            wanted
                .lines()
                .filter(|l| !got.iter().any(|g| g == l))
                .map(|l| format!("{}: {l} is wanted, found {got:?}", path.display())),
        );
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    files.len()
}

#[test]
fn right_schedules_are_accepted() {
    assert!(all_agree("right") >= 13);
}

#[test]
fn wrong_schedules_are_rejected_for_what_is_wrong() {
    assert!(all_agree("wrong") >= 50);
}

/// No bytes cause a panic; a reader of text gets text.
#[test]
fn truncated_and_flipped_texts_are_refused_or_read() {
    let path = folder("right").join("simple_custom_collective_3.xml");
    let other = folder("right").join("allgather_recursive_doubling_4_1.xml");
    let (all, mut tried) = (all_cases(), 0);
    for path in [path, other] {
        let bytes = std::fs::read(&path).expect("a schedule");
        let mut attempt = |bytes: &[u8]| {
            let text = String::from_utf8_lossy(bytes);
            if let Ok(f) = found(&text) {
                assert!(f.kinds.len() < 9);
            }
            tried += 1;
        };
        for n in 0..bytes.len() {
            attempt(&bytes[..n]);
        }
        for at in 0..bytes.len() {
            for (i, new) in [bytes[at] ^ 1, bytes[at] ^ 4, b'9', b'-', b'"', 0xff].into_iter().enumerate() {
                if !all && (at + i) % 3 > 0 {
                    continue;
                }
                let mut changed = bytes.clone();
                changed[at] = new;
                attempt(&changed);
            }
        }
    }
    assert!(tried > if all { 20_000 } else { 9_000 }, "{tried}");
}

/// The number of operations in flight, and of chunks that one operation moves, follow from protocol
/// and count.
#[test]
fn sizes_follow_from_protocol_and_count() {
    use kbc_import::msccl::Proto;
    assert_eq!((Proto::Simple.depth(), Proto::Ll.depth(), Proto::Ll128.depth()), (2, 8, 8));
    assert_eq!((Proto::Simple.chunk_bytes(), Proto::Ll.chunk_bytes()), (2 << 20, 32 << 10));
    assert_eq!(Proto::Simple.at_once(8 << 20, 8), 2);
    assert_eq!(Proto::Simple.at_once((8 << 20) + 8, 8), 1);
    assert_eq!(Proto::Ll.at_once(1, 1), 71);
}
