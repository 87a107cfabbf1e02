//! The verifier: whether a module is well-formed.
//!
//! Passes may rely on what it accepts, and it runs between them. It looks at every line once and never at behaviour:
//! races, deadlocks and meaning are the checker's. All violations are collected.
//!
//! | rule | what must hold | code |
//! |---|---|---|
//! | V1 | names are unique where text tells things apart by name: axes, tables, coordinates, operands, roles of a region, streams of a role | E320 |
//! | V2 | what is named exists: buffers, windows, signals, queues, regions, operands, tables, variables, axes, inputs | E321 |
//! | V3 | the issue order of a graph is a topological order, and each operation has its number of operands | E322 |
//! | V4 | outputs are numbered 0, 1, .. once each, one for each declared result and for each expected one | E322 |
//! | V5 | a placement names axes of the mesh, each at most once, and coordinates that exist | E323 |
//! | V6 | shapes and element types of an operation agree with those of its operands | E323 |
//! | V7 | a collective has the combiner, the dimensions and the root of its kind, and changes the placement as it says | E323 |
//! | V8 | properties claimed of the module are true: typed, placed, selected, expanded, allocated, synchronized | E324 |
//! | V9 | windows are aligned and disjoint, counters have 64 bytes each, queues have slots, and the numbers stay in range | E325 |
//! | V10 | a region's coordinates are its group, its `after` goes to earlier regions | E326 |
//! | V11 | roles of a region name ranks that exist, and no rank twice | E326 |
//! | V12 | loop bounds depend on constants and outer steps, sizes on mesh coordinates, roles on coordinates | E327 |
//! | V13 | chunks, slots, counters and queues written as constants exist; a slot is opposite a chunk and holds it | E328 |
//! | V14 | a peer has one coordinate for each of the region's; local regions do not communicate | E328 |
//! | V15 | the two sides of an operation have one element type, and what is reduced can be | E323 |
//! | V16 | local operations fit their buffers | E323 |
//! | V17 | buffers of inputs and outputs have the sizes of the rank's part; lines fit their buffers | E323 |
//! | V18 | what is awaited is recorded by another stream, and an event is recorded once | E329 |
//! | V19 | a signal that is waited for is notified, and one that is notified is waited for; so with queues | E329 |
//! | V20 | a promise speaks of operands of its region, with the indices they have, and of a root in the group | E328 |
//! | V21 | the host launches every region once and waits for it, waits for what it launched, reads what was written, and reads every result | E330 |
//! | V22 | of a local program: every rank of the mesh is in one part, types have no placement, a collective is one that a rank's type can say, only `wait` uses its result, and where types are known the collectives of all parts meet | E540 to E549 |
//!
//! Rules that need the value of an expression on ranks (V11, V17) are evaluated on all of them up to
//! [`EVALUATED_RANKS`]. Above, V11 looks at ranks that stand for all others, and refuses roles where there would be too
//! many of these; V17 looks at that many ranks.

#![deny(clippy::wildcard_enum_match_arm, clippy::match_wildcard_for_single_variants)]

mod body;
mod classes;
mod graph;
mod host;
mod layout;
mod local;
mod placement;
mod program;
mod ranks;
mod schedule;

pub use local::legal_on;

use crate::module::{Body, Module, Props};
use crate::name::Name;
use crate::types::Mesh;
use kbc_diag::{Diagnostic, Diagnostics, Span};
use std::collections::BTreeSet;

/// Up to this many ranks, expressions are evaluated on each of them.
pub const EVALUATED_RANKS: u64 = 4096;

/// All violations of the rules V1..V22, sorted by place.
pub fn verify(m: &Module) -> Diagnostics {
    let mut out = Report::default();
    mesh(&m.mesh, &mut out);
    match &m.body {
        Body::Graph(g) => {
            graph::graph(g, m, None, &mut out);
            early(m, "graph", &mut out);
        }
        Body::Local(l) => {
            program::local(l, m, &mut out);
            early(m, "local program", &mut out);
        }
        Body::Schedule(s) => {
            if s.mesh != m.mesh {
                out.fail(V2, "the schedule is on another mesh than its module", Span::NONE, "");
            } else if out.diagnostics.is_empty() {
                schedule::schedule(s, m.props, &mut out);
            }
        }
    }
    out.diagnostics.finish()
}

/// V8: what is true of schedules alone.
fn early(m: &Module, level: &str, out: &mut Report) {
    let later = Props::EXPANDED.with(Props::ALLOCATED).with(Props::SYNCHRONIZED);
    for (name, p) in Props::NAMES {
        if later.contains(p) && m.props.contains(p) {
            out.fail(V8, format!("a {level} cannot be {name}"), Span::NONE, "claimed by `props`");
        }
    }
}

/// A rule: its name and its code.
type Rule = (&'static str, &'static str);

const V1: Rule = ("V1", "E320");
const V2: Rule = ("V2", "E321");
const V3: Rule = ("V3", "E322");
const V4: Rule = ("V4", "E322");
const V5: Rule = ("V5", "E323");
const V6: Rule = ("V6", "E323");
const V7: Rule = ("V7", "E323");
const V8: Rule = ("V8", "E324");
const V9: Rule = ("V9", "E325");
const V10: Rule = ("V10", "E326");
const V11: Rule = ("V11", "E326");
const V12: Rule = ("V12", "E327");
const V13: Rule = ("V13", "E328");
const V14: Rule = ("V14", "E328");
const V15: Rule = ("V15", "E323");
const V16: Rule = ("V16", "E323");
const V17: Rule = ("V17", "E323");
const V18: Rule = ("V18", "E329");
const V19: Rule = ("V19", "E329");
const V20: Rule = ("V20", "E328");
const V21: Rule = ("V21", "E330");
const V22: Rule = ("V22", "E540");

/// The violations so far.
#[derive(Default)]
struct Report {
    diagnostics: Diagnostics,
}

impl Report {
    fn fail(&mut self, rule: Rule, title: impl Into<String>, span: Span, label: &str) {
        self.push(rule, Diagnostic::error(rule.1, title).primary(span, label));
    }

    fn push(&mut self, rule: Rule, d: Diagnostic) {
        self.diagnostics.push(d.note(format!("rule {} of the verifier", rule.0)));
    }
}

/// The first name that occurs twice.
fn twice<'a>(names: impl IntoIterator<Item = &'a Name>) -> Option<&'a Name> {
    let mut seen = BTreeSet::new();
    names.into_iter().find(|n| !seen.insert(n.as_str()))
}

fn mesh(m: &Mesh, out: &mut Report) {
    if let Some(n) = twice(m.axes.iter().map(|a| &a.name)) {
        out.fail(V1, format!("the mesh has two axes {n}"), Span::NONE, "");
    }
    let sizes = m.axes.iter().map(|a| a.size);
    if sizes.clone().any(|n| n == 0) || product(sizes).is_none_or(|n| n > u64::from(u32::MAX)) {
        out.fail(V9, "a mesh has at least one rank and fewer than 2^32", Span::NONE, "");
    }
    for a in m.axes.iter().filter(|a| !a.parts.is_empty()) {
        if product(a.parts.iter().map(|p| p.1)) != Some(a.size) {
            let text =
                format!("axis {} has {} coordinates, the machine axes it joins have not", a.name, a.size);
            out.fail(V9, text, Span::NONE, "");
        }
    }
}

/// The product, unless it leaves 64 bits.
fn product(list: impl IntoIterator<Item = u64>) -> Option<u64> {
    list.into_iter().try_fold(1u64, u64::checked_mul)
}
