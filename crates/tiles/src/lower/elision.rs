//! A schedule from which copies are removed one by one, with the statements that touch each buffer.
//!
//! A copy is looked at with the statements that touch its two buffers alone, so the time for many
//! copies is about linear. Removed statements keep their places until the end.

use super::accesses::touched;
use kbc_ir::expr::Env;
use kbc_ir::name::Name;
use kbc_ir::schedule::{BufferId, Region, SStmt, Schedule, each_op};
use kbc_ir::walk::Program;
use std::cell::OnceCell;
use std::collections::BTreeSet;

/// A schedule from which copies are removed one by one.
pub(super) struct Elision<'s> {
    /// The schedule as it is now, with the removed statements still in their places.
    pub(super) now: Schedule,
    /// What touches the buffers, without the removed statements.
    uses: Uses,
    removed: BTreeSet<StatementAt>,
    original: &'s Schedule,
    program: OnceCell<Option<Program<'s>>>,
}

impl<'s> Elision<'s> {
    pub(super) fn new(original: &'s Schedule) -> Elision<'s> {
        let (now, uses) = (original.clone(), Uses::of(original));
        Elision { now, uses, removed: BTreeSet::new(), original, program: OnceCell::new() }
    }

    /// Returns the program of the original schedule, whose sizes, groups and first operands are
    /// those of the schedule as it is now. `None` if it cannot be compiled.
    pub(super) fn program(&self) -> Option<&Program<'s>> {
        self.program.get_or_init(|| Program::compile(self.original).ok()).as_ref()
    }

    /// Returns the number of operands that a region had in the original schedule.
    pub(super) fn operands(&self, region: usize) -> usize {
        self.original.regions[region].operands.len()
    }

    /// Returns the statements that touch one of two buffers, in order.
    pub(super) fn of_either(&self, a: BufferId, b: BufferId) -> impl Iterator<Item = StatementAt> {
        self.uses.of_either(a, b)
    }

    /// Changes a region.
    pub(super) fn change_region(&mut self, number: usize, change: impl FnOnce(&mut Region)) {
        self.uses.remove_region(&self.now, number);
        change(&mut self.now.regions[number]);
        self.uses.add_region(&self.now, number);
    }

    /// Removes a statement.
    pub(super) fn remove(&mut self, at: StatementAt) {
        self.uses.remove(&self.now, at);
        self.removed.insert(at);
    }

    /// Returns the schedule without the removed statements, which are all in first streams.
    pub(super) fn finish(mut self) -> Schedule {
        for (region, _, place) in self.removed.into_iter().rev() {
            self.now.regions[region].roles[0].streams[0].body.remove(place);
        }
        self.now
    }
}

/// Position of a statement of a schedule: region, stream among those of all its roles, and place in
/// the body.
pub(super) type StatementAt = (usize, usize, usize);

/// The statements that touch each buffer, at this rank or at a peer, in the order of the schedule.
struct Uses(Vec<BTreeSet<StatementAt>>);

impl Uses {
    /// Returns the statements of a schedule.
    fn of(s: &Schedule) -> Uses {
        let mut out = Uses(vec![BTreeSet::new(); s.buffers.len()]);
        for number in 0..s.regions.len() {
            out.add_region(s, number);
        }
        out
    }

    /// Adds the statements of a region.
    fn add_region(&mut self, s: &Schedule, number: usize) {
        in_region(s, number, &mut |b, at| {
            self.0[b.0 as usize].insert(at);
        });
    }

    /// Removes the statements of a region, which must be as it was when they were added.
    fn remove_region(&mut self, s: &Schedule, number: usize) {
        in_region(s, number, &mut |b, at| {
            self.0[b.0 as usize].remove(&at);
        });
    }

    /// Removes a statement.
    fn remove(&mut self, s: &Schedule, at: StatementAt) {
        for b in statement(s, at).map_or(vec![], |stmt| buffers(&s.regions[at.0], stmt)) {
            self.0[b.0 as usize].remove(&at);
        }
    }

    /// Returns the statements that touch one of two buffers, in order.
    fn of_either(&self, a: BufferId, b: BufferId) -> impl Iterator<Item = StatementAt> {
        self.0[a.0 as usize].union(&self.0[b.0 as usize]).copied()
    }
}

/// Calls `found` for each buffer that a statement of a region touches.
fn in_region(s: &Schedule, number: usize, found: &mut dyn FnMut(BufferId, StatementAt)) {
    let region = &s.regions[number];
    for (stream, body) in region.roles.iter().flat_map(|r| &r.streams).enumerate() {
        for (place, stmt) in body.body.iter().enumerate() {
            for b in buffers(region, stmt) {
                found(b, (number, stream, place));
            }
        }
    }
}

/// Returns the buffers that a statement touches.
fn buffers(region: &Region, stmt: &SStmt) -> Vec<BufferId> {
    let mut out = vec![];
    each_op(std::slice::from_ref(stmt), &mut |op, _| {
        let t = touched(region, op);
        out.extend([t.reads, t.writes, t.remote].concat());
    });
    out.sort_unstable();
    out.dedup();
    out
}

/// Returns the statement at a position.
pub(super) fn statement(s: &Schedule, (region, stream, place): StatementAt) -> Option<&SStmt> {
    s.regions[region].roles.iter().flat_map(|r| &r.streams).nth(stream)?.body.get(place)
}

/// Values of coordinates alone: an expression that depends on a step has no value.
pub(super) struct Coordinates<'n>(pub(super) &'n [(Name, i64)]);

impl Env for Coordinates<'_> {
    fn var(&self, name: &Name) -> Option<i64> {
        self.0.iter().rev().find(|(n, _)| n == name).map(|(_, v)| *v)
    }

    fn table(&self, _: &Name, _: i64) -> Option<i64> {
        None
    }
}
