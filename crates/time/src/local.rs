//! Local operations: the units that they request, and how the units of a rank perform them.
//!
//! [`super::work`] computes how long the parts of an operation take. The engines decide when an
//! operation makes its request.

use super::clock::Time;
use super::log::{FETCH, PRELOAD, WORK};
use super::setup::Setup;
use super::state::State;
use super::work::{Job, OpPhases, Unit};
use kbc_ir::walk::{Fault, TimedOp};

/// What a local operation needs on a rank.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Demand {
    /// No time on any rank, and the report has what it says of the operation.
    Never,
    /// No time.
    Nothing,
    /// The time of each unit, and its phases.
    Units([Time; 3], OpPhases),
}

/// An operation that has its units.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Performance {
    pub(super) start: Time,
    /// Time at which the operands that other PEs of the device have are there.
    fetched: Time,
    preloaded: Time,
    /// Time at which the units are done.
    done: Time,
    /// Time at which it ends.
    pub(super) end: Time,
    pub(super) unit: Unit,
}

impl Performance {
    /// Returns the steps of the operation that take time: what they are, start, and end.
    pub(super) fn steps(&self) -> impl Iterator<Item = (u32, Time, Time)> {
        let what = WORK - Unit::ALL.iter().position(|u| *u == self.unit).unwrap_or(0) as u32;
        let all = [
            (FETCH, self.start, self.fetched),
            (PRELOAD, self.fetched, self.preloaded),
            (what, self.preloaded, self.done),
            (FETCH, self.done, self.end),
        ];
        all.into_iter().filter(move |(kind, start, end)| *kind == what || end > start)
    }
}

impl State<'_> {
    /// Returns what a local operation needs on a rank.
    pub(super) fn demand(
        &mut self,
        setup: &Setup<'_>,
        rank: u64,
        act: &TimedOp<'_>,
        op: u32,
    ) -> Result<Demand, Fault> {
        let free = self.units.is_empty();
        if free && self.seen[op as usize] {
            return Ok(Demand::Never);
        }
        let job = Job::of(setup.program, act, rank)?;
        for (needed, amount) in self.needed.iter_mut().zip(job.all) {
            *needed |= amount > 0;
        }
        self.seen[op as usize] |= job.all != [0; 3];
        let mut times = self.rates.times(rank, &job.all);
        let shared = match (act, &setup.inside) {
            (TimedOp::Local(local), Some(inside)) => {
                Some(inside.profile(setup.program, local, (op, rank))?)
            }
            _ => None,
        };
        let course = match (act, &job.tiles) {
            (TimedOp::Copy { .. } | TimedOp::Reduce { .. }, _) if !free => {
                OpPhases { least: self.rates.of_core(rank, job.all[1]), ..OpPhases::NONE }
            }
            (_, Some(work)) if !free => self.rates.of_tiles(rank, work),
            _ => OpPhases::NONE,
        };
        let course = match &shared {
            Some(profile) => profile.course(&mut self.rates, rank, &mut times, course),
            None => course,
        };
        if free || times == [Time::ZERO; 3] && course.is_none() {
            return Ok(Demand::Nothing);
        }
        Ok(Demand::Units(times, course))
    }

    /// Lets the units of a place perform an operation that requests them at `at`.
    pub(super) fn perform(
        &mut self,
        place: usize,
        at: Time,
        times: &[Time; 3],
        course: &OpPhases,
    ) -> Performance {
        let units = &mut self.units[place];
        let moves = course.fetched > Time::ZERO || course.sent > Time::ZERO;
        let (start, mut done, mut unit) = units.work(units.network(at, moves), times);
        self.worked[place] = self.worked[place] + done.since(start);
        // The units may be free for others before the operation ends.
        let fetched = start + course.fetched;
        let preloaded = fetched + course.preloaded;
        if course.shared || preloaded + course.least > done {
            (done, unit) = (preloaded + course.least, course.unit);
        }
        let end = done + course.sent;
        if moves {
            units.moves_until(end);
        }
        Performance { start, fetched, preloaded, done, end, unit }
    }
}
