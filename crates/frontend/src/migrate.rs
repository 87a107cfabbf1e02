//! Migration: rewrites the old forms of a text with the edits of their messages.

use crate::load::{Sources, load};
use crate::loaded::Loaded;
use crate::lower;
use crate::parse;
use kbc_diag::{Diagnostics, Edit, FileId};
use kbc_rounds::claim::variants;
use kbc_rounds::{Call, Limits, expand};
use std::collections::BTreeSet;

/// The largest number of steps. Each step rewrites all old forms that it finds; an old form inside
/// another one is found in the next step.
const STEPS: usize = 100;

/// Returns the text with every old form rewritten, or None if it has none. Other errors of the text
/// stay as they are. `sources` provides the files that it uses; those are not rewritten.
pub fn migrate(file: FileId, text: &str, sources: &mut dyn Sources) -> Option<String> {
    let mut out: Option<String> = None;
    for _ in 0..STEPS {
        let now = out.as_deref().unwrap_or(text);
        let mut edits = edits(file, &parse(file, now).1);
        if edits.is_empty() {
            let (loaded, found) = load(Some((file, now.to_owned())), sources);
            edits = self::edits(file, &found);
            if edits.is_empty() && !found.has_errors() {
                edits = self::edits(file, &rounds(&loaded, file));
            }
        }
        if edits.is_empty() {
            break;
        }
        let (mut next, mut at) = (String::with_capacity(now.len()), 0);
        for e in &edits {
            next += &now[at..e.span.start as usize];
            next += &e.text;
            at = e.span.end as usize;
        }
        next += &now[at..];
        out = Some(next);
    }
    out
}

/// Returns the errors of the file's algorithms on small shapes with their defaults and with the
/// arguments that they list. Selectors that used to wrap around are found there.
fn rounds(loaded: &Loaded, file: FileId) -> Diagnostics {
    // Without values of the parameters, algorithms that use them cannot be executed.
    let Ok(library) = lower::library(loaded, &[]) else { return Diagnostics::new() };
    let (library, limits) = (&library, Limits::default());
    let mut found = Diagnostics::new();
    for alg in library.algorithms_in(file) {
        let decl = library.algorithm(alg);
        let mut settings = variants(decl).unwrap_or_default();
        settings.insert(0, vec![]);
        let side: i64 = [9, 4, 3][decl.axes.len().clamp(1, 3) - 1];
        let mut shapes: Vec<Vec<i64>> = vec![vec![]];
        for _ in &decl.axes {
            let more = |s: Vec<i64>| (1..=side).map(move |n| [s.clone(), vec![n]].concat());
            shapes = shapes.into_iter().flat_map(more).collect();
        }
        for sizes in shapes {
            let root = decl.root.as_ref().map(|_| vec![0; sizes.len()]);
            for args in &settings {
                let call = Call { alg, sizes: sizes.clone(), root: root.clone(), args: args.clone() };
                if let Err(d) = expand(library, &call, &limits) {
                    found.extend(d);
                }
            }
        }
    }
    found.finish()
}

/// Returns the edits of messages in ascending order. A message whose edits touch those of an
/// earlier one waits for the next step.
pub(crate) fn edits(file: FileId, found: &Diagnostics) -> Vec<Edit> {
    let mut out: Vec<Edit> = vec![];
    // The edits in `out` do not overlap, so of those that begin before the end of another edit the
    // last one ends last. It is the only one that has to be compared.
    let mut taken: BTreeSet<(u32, u32)> = BTreeSet::new();
    for d in &found.list {
        let free = |e: &Edit| {
            let before = taken.range(..=(e.span.end, u32::MAX)).next_back();
            e.span.file == file && before.is_none_or(|o| o.1 < e.span.start)
        };
        if d.edits.iter().all(free) {
            taken.extend(d.edits.iter().map(|e| (e.span.start, e.span.end)));
            out.extend(d.edits.iter().cloned());
        }
    }
    out.sort_by_key(|e| (e.span.start, e.span.end));
    out
}
