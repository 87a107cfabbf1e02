//! Verifier: decides whether a module is well-formed.
//!
//! It runs between passes, which may rely on what it accepts. It examines form and never behaviour:
//! the checker proves the absence of races and deadlocks, and the contracts. All violations are
//! collected. The rules, with their error codes:
//!
//! * V1 (E320): names are unique where the text distinguishes things by name alone: axes, tables,
//!   coordinates, operands, roles of a region, streams of a role.
//! * V2 (E321): everything that is named exists: buffers, windows, signals, queues, regions,
//!   operands, tables, variables, axes, inputs.
//! * V3 (E322): the issue order of a graph is a topological order, and each operation has its
//!   number of operands.
//! * V4 (E322): outputs are numbered 0, 1, .., each once, one for each declared result and for each
//!   expected one.
//! * V5 (E323): a placement names axes of the mesh, each at most once, and coordinates that exist.
//! * V6 (E323): shapes and element types of an operation agree with those of its operands.
//! * V7 (E323): a collective has the combiner, the dimensions and the root of its kind, and changes
//!   the placement accordingly.
//! * V8 (E324): the properties that the module claims are true: typed, placed, selected, expanded,
//!   allocated, synchronized.
//! * V9 (E325): windows are aligned and disjoint, counters have 64 bytes each, queues have slots,
//!   and the numbers stay in range.
//! * V10 (E326): a region's coordinates cover its group, and its `after` names earlier regions.
//! * V11 (E326): roles of a region name ranks that exist, and no rank twice.
//! * V12 (E327): loop bounds depend on constants and outer steps, sizes on mesh coordinates, roles
//!   on coordinates.
//! * V13 (E328): chunks, slots, counters and queues that are written as constants exist. The other
//!   side of a slot is a chunk, which fits into the slot.
//! * V14 (E328): a peer has one coordinate for each coordinate of the region, and local regions do
//!   not communicate.
//! * V15 (E323): both sides of an operation have the same element type, and reductions are over
//!   types that can be reduced.
//! * V16 (E323): local operations fit their buffers.
//! * V17 (E323): buffers of inputs and outputs have the sizes of the rank's part, and lines fit
//!   their buffers.
//! * V18 (E329): an awaited event is recorded by another stream, and an event is recorded once.
//! * V19 (E329): a signal that is waited for is notified, and one that is notified is waited for.
//!   The same holds for sends and receives of queues.
//! * V20 (E328): a contract covers operands of its region, with the number of indices that they
//!   have, and names a root in the group.
//! * V21 (E330): the host launches every region once and waits for it, waits only for what it
//!   launched, reads only what was written, and reads every result.
//! * V22 (E540 to E549), for local programs: every rank of the mesh is in one part, types have no
//!   placement, the results of collectives can be expressed as types of one rank, only `wait` uses
//!   these results, and, where types are known, the collectives of all parts match.
//!
//! V11 and V17 need the values of expressions on ranks. These are evaluated on all ranks, up to
//! [`EVALUATED_RANKS`]. On larger meshes, V11 examines ranks that represent all others and rejects
//! roles that would need too many of them; V17 examines the first [`EVALUATED_RANKS`] ranks.

#![deny(clippy::wildcard_enum_match_arm, clippy::match_wildcard_for_single_variants)]

mod body;
pub(crate) mod classes;
mod graph;
mod host;
mod layout;
mod local;
mod names;
mod part_collective;
mod placement;
mod point;
mod program;
mod ranks;
mod schedule;

pub use local::legal_on;

use crate::module::{Body, Module, Props};
use crate::name::Name;
use crate::types::Mesh;
use kbc_diag::{Diagnostic, Diagnostics, Span};
use std::collections::BTreeSet;

/// Most ranks for which expressions are evaluated on every rank.
pub const EVALUATED_RANKS: u64 = 4096;

/// Returns all violations of the rules V1 to V22, sorted by location.
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

/// Checks V8 at graph level: a property that only schedules can have is not claimed.
fn early(m: &Module, level: &str, out: &mut Report) {
    let later = Props::EXPANDED.with(Props::ALLOCATED).with(Props::SYNCHRONIZED);
    for (name, p) in Props::NAMES {
        if later.contains(p) && m.props.contains(p) {
            out.fail(V8, format!("a {level} cannot be {name}"), Span::NONE, "claimed by `props`");
        }
    }
}

/// A rule: its name and its error code.
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

/// Violations found so far.
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

/// Returns the first name that occurs twice.
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
        out.fail(V9, "a mesh must have at least one rank and fewer than 2^32", Span::NONE, "");
    }
    for a in m.axes.iter().filter(|a| !a.parts.is_empty()) {
        if product(a.parts.iter().map(|p| p.1)) != Some(a.size) {
            let text = format!(
                "axis {} has {} coordinates, and the machine axes that it joins have another number",
                a.name, a.size
            );
            out.fail(V9, text, Span::NONE, "");
        }
    }
}

/// Returns the product, or `None` if it exceeds 64 bits.
fn product(list: impl IntoIterator<Item = u64>) -> Option<u64> {
    list.into_iter().try_fold(1u64, u64::checked_mul)
}
