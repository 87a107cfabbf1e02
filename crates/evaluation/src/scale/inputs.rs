//! Inputs of a case at a size: the words of its command and its files.
//!
//! They depend on the case and the size alone.

use super::cases::ScaleCase;
use std::fmt::Write;

/// A command with its files.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScaleInputs {
    /// The words after `kbc`.
    pub words: Vec<String>,
    /// The files by name, to be written to the folder in which the command runs.
    pub files: Vec<(String, String)>,
}

/// Returns the command and the files of a case at a size. A case without sizes has size None.
pub fn inputs(case: &ScaleCase, size: Option<u64>) -> ScaleInputs {
    let filled = |text: &String| size.map_or_else(|| text.clone(), |n| filled(text, n));
    ScaleInputs {
        words: case.run.iter().map(filled).collect(),
        files: case.files.iter().map(|(name, text)| (name.clone(), filled(text))).collect(),
    }
}

/// A place in a text, and the value that it has at a size.
type Value = (&'static str, fn(u64) -> String);

/// All places of texts.
const VALUES: [Value; 4] = [
    ("{N}", |n| n.to_string()),
    ("{ring links}", ring_links),
    ("{mesh links}", mesh_links),
    ("{orders}", orders),
];

/// Replaces the places of a text.
fn filled(text: &str, n: u64) -> String {
    let mut out = text.to_owned();
    for (place, value) in VALUES {
        if out.contains(place) {
            out = out.replace(place, &value(n));
        }
    }
    out
}

/// What follows the two ends of a link in a machine file.
const LINK: &str = "50 GB/s, 500 ns";

/// Returns the links of a ring of `n` devices, one line each, in both directions.
pub fn ring_links(n: u64) -> String {
    let mut out = String::new();
    // The first and the last of two devices are neighbours already.
    for i in 0..n.saturating_sub(u64::from(n < 3)) {
        let _ = writeln!(out, "  ({i})<->({}): {LINK}", (i + 1) % n);
    }
    out
}

/// Returns the links of a mesh of `n` devices, one line each, in both directions. The mesh is a
/// square; devices are numbered row by row.
pub fn mesh_links(n: u64) -> String {
    let side = n.isqrt();
    let mut out = String::new();
    for i in 0..side * side {
        if i % side + 1 < side {
            let _ = writeln!(out, "  ({i})<->({}): {LINK}", i + 1);
        }
        if i / side + 1 < side {
            let _ = writeln!(out, "  ({i})<->({}): {LINK}", i + side);
        }
    }
    out
}

/// Returns a table in CSV: row r has all numbers below `n` except r, in an order of its own.
pub fn orders(n: u64) -> String {
    // A linear congruential generator with a fixed seed: the same size gives the same table.
    let mut state = 1u64;
    let mut below = |k: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % k
    };
    let mut out = String::new();
    for r in 0..n {
        let mut row: Vec<u64> = (0..n).filter(|other| *other != r).collect();
        for last in (1..row.len()).rev() {
            row.swap(last, below(last as u64 + 1) as usize);
        }
        for (k, other) in row.iter().enumerate() {
            let _ = write!(out, "{}{other}", if k == 0 { "" } else { "," });
        }
        out.push('\n');
    }
    out
}
