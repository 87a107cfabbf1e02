//! What to write instead: one small change to a wrong algorithm that makes it right, tried out before it is told.
//!
//! Owns the search. A change is one of `edit`'s (an index one further, another sign, a `reduce` more or less, another
//! name, another order of statements, ..); it is told only if the algorithm then keeps its promise on every small shape,
//! so the help of a message is never a guess. Where no change does, the shapes on which the text is right as it stands
//! may show what it needs.

use kbc_diag::{Diagnostics, Span};

use crate::edit::{Edit, RIDDLE, edit, within};
use crate::library::{AlgId, Library};
use crate::rounds::{Call, Limits, coordinates};
use crate::verify::Verifier;

/// How many changes are tried.
const MOST_EDITS: usize = 1500;

/// Bytes of text that all changes together read.
const MOST_READ: usize = 3_000_000;

/// How many that make it right are told.
const MOST_TOLD: usize = 2;

/// Ranks a change is tried on, with one axis; with more, sides of at most 3 or 2.
const MOST_RANKS: i64 = 8;

/// Small on purpose: every change is expanded on every shape until it fails on one.
const LIMITS: Limits = Limits { transfers: 20_000, atoms: 1 << 14, steps: 100_000, depth: 16 };

/// Adds to the first message about `call` how to repair the algorithm, if that is found.
pub fn advise(lib: &Library, call: &Call, found: &mut Diagnostics) {
    let Some(first) = found.list.iter().position(|d| d.code != "E024" && d.code != "E040") else { return };
    let shapes = shapes(lib, call);
    let d = &mut found.list[first];
    // A composition that cannot be expanded may be wrong in an algorithm it uses.
    let at = d.span();
    let target = lib.algorithms().find(|a| within(lib.algorithm(*a).span, at)).unwrap_or(call.alg);
    if !is_users(lib, target) {
        return;
    }
    let blamed: Vec<Span> = d.labels.iter().map(|l| l.span).collect();
    let told = search(lib, target, call, &shapes, &blamed);
    if let Some((best, _)) = told.split_first() {
        let ways: Vec<&str> = told.iter().map(|e| e.text.as_str()).collect();
        d.help = Some(format!("{} (tried: right on {})", ways.join(", or "), range(&shapes)));
        if d.labels.iter().all(|l| l.span != best.span) {
            *d = d.clone().secondary(best.span, "to repair: see help");
        }
        return;
    }
    if let Some(text) = only_on(lib, call) {
        d.help = Some(text);
    }
}

/// Changes that make it right on all shapes, those at the places of the message first.
fn search(lib: &Library, target: AlgId, call: &Call, shapes: &[Call], blamed: &[Span]) -> Vec<Edit> {
    let mut changed = lib.clone();
    let mut right: Vec<Edit> = vec![];
    // Each change reads the whole text: of long ones fewer are tried.
    let length = lib.algorithm(target).span;
    let length = length.end.saturating_sub(length.start).max(1) as usize;
    for number in 0..MOST_EDITS.min(MOST_READ / length) {
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
    // The smallest place that is blamed or lies in one that is; then the order of the text.
    let inside = |e: &Edit| blamed.iter().any(|b| within(*b, e.span));
    right.sort_by_key(|e| (e.rank, !inside(e)));
    let best = right.first().map(|e| e.rank);
    right.retain(|e| Some(e.rank) == best);
    right.truncate(MOST_TOLD);
    right
}

/// Right there, or not meant for that shape.
fn is_right(lib: &Library, call: &Call) -> bool {
    match Verifier::new(lib, LIMITS).verify(call) {
        Ok(_) => true,
        Err(d) => d.list.iter().all(|d| d.code == "E024"),
    }
}

/// Calls on small shapes, smallest first, roots included.
fn shapes(lib: &Library, call: &Call) -> Vec<Call> {
    let axes = call.sizes.len();
    let most = match axes {
        1 => MOST_RANKS,
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

/// `1..8 ranks`, `1 x 1 .. 3 x 3 ranks`
fn range(shapes: &[Call]) -> String {
    let text = |c: &Call| c.sizes.iter().map(i64::to_string).collect::<Vec<_>>().join(" x ");
    let roots = if shapes.iter().any(|c| c.root.is_some()) { ", every root" } else { "" };
    match (shapes.first(), shapes.last()) {
        (Some(a), Some(b)) if a.sizes.len() == 1 => format!("{}..{} ranks{roots}", text(a), text(b)),
        (Some(a), Some(b)) => format!("{} to {} ranks{roots}", text(a), text(b)),
        _ => String::new(),
    }
}

/// On which numbers of ranks the text is right as it is, where that says something.
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
            "it is right on 1, 2, 4, 8 and 16 ranks: say `where is_pow2(p)`, or add the ranks beyond the power of two to \
             others first and serve them at the end (`recursive_doubling` of the library does)"
                .to_owned(),
        );
    }
    (good.len() > 1 && good.iter().all(|p| *p == 1 || p % 2 == 0) && good.len() >= 8)
        .then(|| "it is right on even numbers of ranks only".to_owned())
}

/// Whether a call is of an algorithm that a user wrote, whose text can be changed.
pub fn is_users(lib: &Library, alg: AlgId) -> bool {
    !lib.is_builtin(lib.algorithm(alg).span.file)
}
