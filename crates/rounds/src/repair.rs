//! Repair suggestions: finds one small edit that makes a wrong algorithm correct, and tests it
//! before it is suggested.
//!
//! This module owns the search. The edits are those of `edit`: an index off by one, another sign,
//! an added or removed `reduce`, another name, another order of statements and so on. An edit is
//! suggested only if the algorithm then satisfies its contract on every small shape, so the help of
//! a message is never a guess. If no edit succeeds, the shapes on which the unchanged text is
//! correct may show what it needs.

use kbc_diag::{Diagnostics, Span};

use crate::edit::{Edit, RIDDLE, edit, within};
use crate::library::{AlgId, Library};
use crate::rounds::{Call, Limits, coordinates};
use crate::verify::Verifier;

/// Greatest number of edits that are tried.
const MAX_EDITS: usize = 1500;

/// Greatest number of bytes of text that all edits together read.
const MAX_READ: usize = 3_000_000;

/// Greatest number of successful edits that are suggested.
const MAX_REPORTED: usize = 2;

/// Greatest number of ranks on which an edit is tested, for one axis. With two axes, sides have at
/// most 3 ranks, with more axes 2.
const MAX_RANKS: i64 = 8;

/// Small on purpose: every edit is expanded on every shape until it fails on one.
const LIMITS: Limits = Limits { transfers: 20_000, atoms: 1 << 14, steps: 100_000, depth: 16 };

impl Verifier<'_> {
    /// Adds a repair suggestion to the errors of [`Verifier::verify`], if one is found. The edit is
    /// searched for in the innermost text that is wrong, and tested on small shapes.
    pub fn advised(&self, mut found: Diagnostics) -> Diagnostics {
        if let Some(call) = self.wrong().filter(|c| is_users(self.library(), c.alg)) {
            advise(self.library(), call, &mut found);
        }
        found
    }
}

/// Adds a suggestion to the first message about `call`, if a repair is found.
pub fn advise(lib: &Library, call: &Call, found: &mut Diagnostics) {
    let Some(first) = found.list.iter().position(|d| d.code != "E024" && d.code != "E040") else { return };
    let shapes = shapes(lib, call);
    let d = &mut found.list[first];
    // The cause may be in an algorithm that the composition uses. The location of the message
    // shows which one.
    let at = d.span();
    let target = lib.algorithms().find(|a| within(lib.algorithm(*a).span, at)).unwrap_or(call.alg);
    if !is_users(lib, target) {
        return;
    }
    let blamed: Vec<Span> = d.labels.iter().map(|l| l.span).collect();
    let told = search(lib, target, call, &shapes, &blamed);
    if let Some((best, _)) = told.split_first() {
        let ways: Vec<&str> = told.iter().map(|e| e.text.as_str()).collect();
        d.help = Some(format!("{} (tried: correct on {})", ways.join(", or "), range(&shapes)));
        if d.labels.iter().all(|l| l.span != best.span) {
            *d = d.clone().secondary(best.span, "the help changes this");
        }
        return;
    }
    if let Some(text) = only_on(lib, call) {
        d.help = Some(text);
    }
}

/// Returns edits that make the algorithm correct on all shapes, those at the locations of the
/// message first.
fn search(lib: &Library, target: AlgId, call: &Call, shapes: &[Call], blamed: &[Span]) -> Vec<Edit> {
    let mut changed = lib.clone();
    let mut right: Vec<Edit> = vec![];
    // Each edit reads the whole text, so fewer edits are tried on a long text.
    let length = lib.algorithm(target).span;
    let length = length.end.saturating_sub(length.start).max(1) as usize;
    for number in 0..MAX_EDITS.min(MAX_READ / length) {
        let mut decl = lib.algorithm(target).clone();
        let Some(done) = edit(&mut decl, number) else { break };
        if done.rank >= RIDDLE {
            continue;
        }
        changed.replace_algorithm(target, decl);
        if is_right(&changed, call) && shapes.iter().all(|s| is_right(&changed, s)) {
            right.push(done);
        }
    }
    // Edits with the smallest distance come first; of these, edits inside a location of the
    // message; then the order of the text.
    let inside = |e: &Edit| blamed.iter().any(|b| within(*b, e.span));
    right.sort_by_key(|e| (e.rank, !inside(e)));
    let best = right.first().map(|e| e.rank);
    right.retain(|e| Some(e.rank) == best);
    right.truncate(MAX_REPORTED);
    right
}

/// Checks whether an algorithm is correct on a shape or not made for it.
fn is_right(lib: &Library, call: &Call) -> bool {
    match Verifier::new(lib, LIMITS).verify(call) {
        Ok(_) => true,
        Err(d) => d.list.iter().all(|d| d.code == "E024"),
    }
}

/// Returns calls on small shapes, smallest first, with every root.
fn shapes(lib: &Library, call: &Call) -> Vec<Call> {
    let axes = call.sizes.len();
    let most = match axes {
        1 => MAX_RANKS,
        2 => 3,
        _ => 2,
    };
    let mut sizes: Vec<Vec<i64>> = vec![vec![]];
    for _ in 0..axes {
        sizes = sizes.iter().flat_map(|s| (1..=most).map(move |n| [s.clone(), vec![n]].concat())).collect();
    }
    sizes.sort_by_key(|s| s.iter().product::<i64>());
    let rooted = lib.algorithm(call.alg).root.is_some();
    let one = |sizes: &[i64], root: Option<i64>| Call {
        alg: call.alg,
        sizes: sizes.to_vec(),
        root: root.map(|c| coordinates(sizes, c)),
        args: call.args.clone(),
    };
    let mut out = vec![];
    for s in &sizes {
        let p: i64 = s.iter().product();
        if rooted {
            out.extend((0..p).map(|c| one(s, Some(c))));
        } else {
            out.push(one(s, None));
        }
    }
    out
}

/// Describes shapes: `1..8 ranks`, `1 x 1 to 3 x 3 ranks`.
fn range(shapes: &[Call]) -> String {
    let text = |c: &Call| c.sizes.iter().map(i64::to_string).collect::<Vec<_>>().join(" x ");
    let roots = if shapes.iter().any(|c| c.root.is_some()) { ", every root" } else { "" };
    match (shapes.first(), shapes.last()) {
        (Some(a), Some(b)) if a.sizes.len() == 1 => format!("{}..{} ranks{roots}", text(a), text(b)),
        (Some(a), Some(b)) => format!("{} to {} ranks{roots}", text(a), text(b)),
        _ => String::new(),
    }
}

/// Describes the numbers of ranks on which the unchanged text is correct, if they show a pattern.
fn only_on(lib: &Library, call: &Call) -> Option<String> {
    let [_] = call.sizes.as_slice() else { return None };
    let mut good = vec![];
    for p in 1..=16 {
        let root = call.root.as_ref().map(|_| vec![0]);
        let one = Call { alg: call.alg, sizes: vec![p], root, args: call.args.clone() };
        if Verifier::new(lib, LIMITS).verify(&one).is_ok() {
            good.push(p);
        }
    }
    if good == [1, 2, 4, 8, 16] {
        return Some(
            "the algorithm is correct on 1, 2, 4, 8 and 16 ranks: write `where is_pow2(p)`, or fold the ranks beyond the power of two into others first and send them the result at the end, as `recursive_doubling` of the library does"
                .to_owned(),
        );
    }
    (good.len() > 1 && good.iter().all(|p| *p == 1 || p % 2 == 0) && good.len() >= 8)
        .then(|| "the algorithm is correct on even numbers of ranks only".to_owned())
}

/// Checks whether a user wrote the algorithm, so that its text can be changed.
pub fn is_users(lib: &Library, alg: AlgId) -> bool {
    !lib.is_builtin(lib.algorithm(alg).span.file)
}
