//! Frame: one use of an algorithm on one group during the expansion, with its ranks,
//! buffers and names.
//!
//! This module determines the value of a name on a rank and the member that a rank
//! expression denotes.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use kbc_diag::{Diagnostic, Span};
use rustc_hash::FxBuildHasher;

use crate::ast::AlgorithmDecl;
use crate::interp::NamedBuffer;
use crate::region::Region;
use crate::rounds::{coordinates, rank_text};
use crate::scope::{Fault, Scope, Value};

/// The ranks that execute a statement, and the round in which it begins.
#[derive(Clone)]
pub(crate) struct ActiveRanks {
    /// Members of the frame, in order.
    pub active: Rc<[usize]>,
    pub round: u32,
}

impl ActiveRanks {
    /// Returns all members of a group.
    pub fn whole(members: &[u32], round: u32) -> ActiveRanks {
        ActiveRanks { active: (0..members.len()).collect(), round }
    }
}

/// The ranks of a use.
pub(crate) struct Members {
    /// Sizes of the algorithm's axes.
    pub shape: Vec<i64>,
    /// Their numbers in the call, in the group's linear order.
    pub ranks: Arc<[u32]>,
    /// The use that applies this one.
    pub parent: Option<u32>,
}

/// One use of an algorithm on one group during the expansion.
pub(crate) struct Frame<'a> {
    pub decl: &'a AlgorithmDecl,
    pub site: u32,
    pub shape: Vec<i64>,
    pub members: Arc<[u32]>,
    /// The collective's buffers first, then the scratch in scope.
    pub buffers: Vec<NamedBuffer<'a, Region, i64>>,
    /// Number of buffers that belong to the collective.
    pub given: usize,
    /// Names with the same value on every rank: parameters, sizes, root.
    pub uniform: Vec<(&'a str, Value)>,
    /// Names with a value per rank: coordinates, lets, loop variables; innermost last.
    pub names: Names<'a>,
    pub values: Vec<Vec<Value>>,
}

/// Names in order of declaration, with an index by text. The last declaration of a name counts.
#[derive(Clone, Default)]
pub(crate) struct Names<'a> {
    list: Vec<&'a str>,
    /// Positions of each name, in order. They are looked up for every rank and statement.
    places: HashMap<&'a str, Vec<usize>, FxBuildHasher>,
}

impl<'a> Names<'a> {
    pub fn len(&self) -> usize {
        self.list.len()
    }

    pub fn push(&mut self, name: &'a str) {
        self.places.entry(name).or_default().push(self.list.len());
        self.list.push(name);
    }

    fn truncate(&mut self, len: usize) {
        for name in self.list.drain(len.min(self.list.len())..) {
            if let Some(places) = self.places.get_mut(name) {
                places.pop();
            }
        }
    }

    /// Returns the last position of a name.
    fn find(&self, name: &str) -> Option<usize> {
        self.places.get(name)?.last().copied()
    }
}

impl<'a> Extend<&'a str> for Names<'a> {
    fn extend<I: IntoIterator<Item = &'a str>>(&mut self, names: I) {
        names.into_iter().for_each(|n| self.push(n));
    }
}

impl<'a> FromIterator<&'a str> for Names<'a> {
    fn from_iter<I: IntoIterator<Item = &'a str>>(names: I) -> Self {
        let mut out = Names::default();
        out.extend(names);
        out
    }
}

/// The scope of one rank of a frame.
pub(crate) struct MemberScope<'f, 'a> {
    frame: &'f Frame<'a>,
    member: usize,
}

impl Scope for MemberScope<'_, '_> {
    fn lookup(&self, name: &str) -> Option<Value> {
        let own = &self.frame.values[self.member];
        if let Some(i) = self.frame.names.find(name) {
            return own.get(i).cloned();
        }
        self.frame.uniform.iter().rev().find(|(n, _)| *n == name).map(|(_, v)| v.clone())
    }
    fn names(&self) -> Vec<String> {
        let uniform = self.frame.uniform.iter().map(|(n, _)| (*n).to_owned());
        uniform.chain(self.frame.names.list.iter().map(|n| (*n).to_owned())).collect()
    }
}

impl<'a> Frame<'a> {
    pub fn here(&self, member: usize) -> MemberScope<'_, 'a> {
        MemberScope { frame: self, member }
    }

    /// Returns the name of a member by its coordinates in this use: `rank r=3`.
    pub fn name_of(&self, member: usize) -> String {
        format!("rank {}", self.coordinates_of(member))
    }

    /// Returns the coordinates of a member: `r=3`.
    pub fn coordinates_of(&self, member: usize) -> String {
        let names: Vec<&str> = self.decl.axes.iter().map(|a| a.coord.node.as_str()).collect();
        rank_text(&names, &coordinates(&self.shape, member as i64))
    }

    /// Leaves a scope: drops the names declared since `mark`, and their values on these members.
    pub fn pop(&mut self, mark: usize, active: &[usize]) {
        self.names.truncate(mark);
        for &m in active {
            self.values[m].truncate(mark);
        }
    }
}

/// Returns the member of a frame that a value denotes as a rank. If `from` is given, also returns
/// the sign of the step from there.
pub(crate) fn resolve(
    f: &Frame<'_>,
    v: &Value,
    span: Span,
    from: Option<usize>,
) -> Result<(usize, i8), Fault> {
    let one;
    let given: &[i64] = match v {
        Value::Int(i) => {
            one = [*i];
            &one
        }
        Value::Rank(c) => c,
        other => {
            return Err(Box::new(
                Diagnostic::error("E020", "expected a rank").primary(span, format!("this is {other}")),
            ));
        }
    };
    let axes = &f.decl.axes;
    if given.len() != axes.len() {
        let names: Vec<&str> = axes.iter().map(|a| a.coord.node.as_str()).collect();
        let form = if names.len() == 1 { names.concat() } else { format!("({})", names.join(", ")) };
        return Err(Box::new(
            Diagnostic::error(
                "E020",
                format!("a rank has {} coordinates here, not {}", axes.len(), given.len()),
            )
            .primary(span, format!("{v}"))
            .help(format!("write it as `{form}`")),
        ));
    }
    let own = from.map(|m| coordinates(&f.shape, m as i64));
    let (mut at, mut direction) = (0, 0i8);
    for (i, (&c, axis)) in given.iter().zip(axes).enumerate() {
        let size = f.shape[i];
        if let Some(own) = &own
            && direction == 0
        {
            direction = c.saturating_sub(own[i]).signum() as i8;
        }
        let c = if axis.wraps { c.rem_euclid(size) } else { c };
        if c < 0 || c >= size {
            let (x, w) = (&axis.coord.node, &axis.size.node);
            let guard =
                if c < 0 { format!("`if {x} > 0 {{ .. }}`") } else { format!("`if {x} < {w} - 1 {{ .. }}`") };
            return Err(Box::new(
                Diagnostic::error("E021", format!("{x} = {c} is outside the axis `{x} of {w}` (0..{size})"))
                    .primary(span, format!("this is {v}"))
                    .secondary(axis.coord.span, "an axis with `of` does not wrap around")
                    .help(format!(
                        "guard the statement ({guard}), or declare `{x} mod {w}` if the axis should wrap around"
                    )),
            ));
        }
        at = at * size + c;
    }
    Ok((at as usize, direction))
}
