//! Local work inside a device whose PEs share it: fetches over the device's own links, then each PE's work.
//!
//! Owns how long that takes. Who computes and sends what is [`kbc_machine::share`]'s. The links are those of the package between
//! the PEs of one device ([`kbc_machine::placement::Interior::network`]); an operation finds them free, as operations of a device
//! that move something have them one after another.

use super::clock::Time;
use super::links::Links;
use super::work::{Amounts, Course, Rates, Unit, of_elements};
use kbc_diag::Diagnostics;
use kbc_ir::schedule::{BufferId, LocalOp};
use kbc_ir::types::MemKind;
use kbc_ir::walk::{Fault, Program};
use kbc_machine::placement::Interior;
use kbc_machine::share::{Move, Part, Share, of_rank, volume, volumes};
use kbc_machine::topology::{DeviceId, Route, Topology};
use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::rc::Rc;

/// What the PEs of a device share, and what is known of operations.
pub(super) struct Inside {
    machine: Topology,
    /// Its PEs as a machine of their own.
    network: Topology,
    /// By operation and rank.
    known: RefCell<BTreeMap<(u32, u64), Rc<Profile>>>,
    /// Operations that are alike on several ranks, by what they share.
    alike: RefCell<Vec<(u32, Share, Rc<Profile>)>>,
}

/// An operation as the PEs of a device share it.
#[derive(Debug)]
pub(super) struct Profile {
    /// Work of PEs, and when the last of those that have so much has what it needs for that.
    work: Vec<(Amounts, Time)>,
    /// How long the result is on its way to other PEs.
    sent: Time,
    /// One PE does all of it.
    alone: bool,
}

impl Inside {
    /// None where PEs share nothing.
    pub(super) fn new(machine: &Topology) -> Result<Option<Inside>, Diagnostics> {
        if !machine.shares_work() {
            return Ok(None);
        }
        let network = Interior::of(machine).network(machine)?;
        Ok(network.map(|network| Inside {
            machine: machine.clone(),
            network,
            known: RefCell::default(),
            alike: RefCell::default(),
        }))
    }

    /// An operation of a rank, which has this number in the schedule.
    pub(super) fn profile(
        &self,
        program: &Program<'_>,
        op: &LocalOp,
        (number, rank): (u32, u64),
    ) -> Result<Rc<Profile>, Fault> {
        if let Some(known) = self.known.borrow().get(&(number, rank)) {
            return Ok(known.clone());
        }
        let share = of_rank(program, op, rank, &self.machine)?.unwrap_or_default();
        let mut alike = self.alike.borrow_mut();
        let same = alike.iter().find(|a| a.0 == number && a.1 == share).map(|a| a.2.clone());
        let profile = match same {
            Some(profile) => profile,
            None => {
                let profile = Rc::new(self.work(program, op, rank, &share)?);
                alike.push((number, share, profile.clone()));
                profile
            }
        };
        self.known.borrow_mut().insert((number, rank), profile.clone());
        Ok(profile)
    }

    fn work(&self, program: &Program<'_>, op: &LocalOp, rank: u64, share: &Share) -> Result<Profile, Fault> {
        let depth = match op {
            LocalOp::Matmul { a, .. } | LocalOp::Grouped { x: a, .. } => {
                program.dims(*a, rank)?.last().copied().unwrap_or(0)
            }
            _ => 0,
        };
        let size = |b: BufferId| program.schedule.buffer(b).dtype.bytes();
        let fetched = self.carry(program, &share.fetches);
        let mut work: BTreeMap<Amounts, Time> = BTreeMap::new();
        for Part { pe, result, reads } in &share.parts {
            let results = volumes(result);
            let reads = reads.iter().map(|(b, blocks)| (*b, volumes(blocks))).collect();
            let amounts = of_elements(op, &size, (results, results), &reads, depth);
            let last = work.entry(amounts).or_default();
            *last = (*last).max(fetched.get(pe).copied().unwrap_or_default());
        }
        let sent = self.carry(program, &share.sends).into_values().max().unwrap_or_default();
        let alone = matches!(op, LocalOp::Tiles { .. });
        Ok(Profile { work: work.into_iter().collect(), sent, alone })
    }

    /// When each PE has all that is sent to it, where all PEs begin to send at once. What a PE sends to another is one message
    /// for each kind of memory.
    fn carry(&self, program: &Program<'_>, moves: &[Move]) -> BTreeMap<u32, Time> {
        let mut messages: BTreeMap<(u32, u32, MemKind), u64> = BTreeMap::new();
        for m in moves {
            let b = program.schedule.buffer(m.buffer);
            let bytes = messages.entry((m.to, m.from, b.memory)).or_default();
            *bytes = bytes.saturating_add(volume(&m.block).saturating_mul(b.dtype.bytes()));
        }
        let port = |pe: u32, kind| self.network.data_port(DeviceId(pe), kind);
        let mut way: Vec<(Option<Route<'_>>, Time, u64, u32)> = messages
            .into_iter()
            .map(|((to, from, kind), bytes)| {
                let route = self.network.route_between(port(from, kind), port(to, kind));
                (route, Time::ZERO, bytes, to)
            })
            .collect();
        let mut links = Links::new(&self.network);
        let mut agenda: BinaryHeap<Reverse<(Time, usize)>> =
            (0..way.len()).map(|i| Reverse((Time::ZERO, i))).collect();
        let mut out: BTreeMap<u32, Time> = BTreeMap::new();
        while let Some(Reverse((at, i))) = agenda.pop() {
            let (route, lag, bytes, to) = &mut way[i];
            match route.as_mut().and_then(Iterator::next) {
                Some(link) => {
                    let passed = links.pass(&self.network, link, at, *lag, *bytes);
                    *lag = passed.lag;
                    agenda.push(Reverse((passed.head, i)));
                }
                None => {
                    let end = out.entry(*to).or_default();
                    *end = (*end).max(at + *lag);
                }
            }
        }
        out
    }
}

impl Profile {
    /// How the operation goes on on a rank. `times` becomes how long each unit is held; `own` is how long it takes beside what
    /// units do where one PE does all of it.
    pub(super) fn course(&self, rates: &mut Rates, rank: u64, times: &mut [Time; 3], own: Course) -> Course {
        if self.alone {
            let fetched = self.work.iter().map(|w| w.1).max().unwrap_or_default();
            let longest = times.iter().copied().max().unwrap_or_default();
            for t in times.iter_mut().filter(|t| **t > Time::ZERO) {
                *t = *t + fetched;
            }
            let rest = longest.since(own.preloaded).max(own.least);
            return Course { fetched, least: rest, sent: self.sent, shared: true, ..own };
        }
        let (mut held, mut out) = ([Time::ZERO; 3], Course { shared: true, ..Course::NONE });
        for (amounts, fetched) in &self.work {
            let own = rates.times(rank, amounts);
            let mut longest = (Time::ZERO, Unit::Arithmetic);
            for ((held, time), unit) in held.iter_mut().zip(own).zip(Unit::ALL) {
                if time > Time::ZERO {
                    *held = (*held).max(*fetched + time);
                }
                if time > longest.0 {
                    longest = (time, unit);
                }
            }
            if *fetched + longest.0 > out.fetched + out.least {
                out = Course { fetched: *fetched, least: longest.0, unit: longest.1, ..out };
            }
        }
        *times = held;
        Course { sent: self.sent, ..out }
    }
}
