//! Time of local work inside a device whose PEs share it: fetches over the device's own links, then
//! the work of each PE (docs/explanation/time.md, "Local work inside a device").
//!
//! This module owns the time of such work. [`kbc_machine::share`] decides which PE computes and
//! sends what. The links are those of the package between the PEs of one device
//! ([`kbc_machine::placement::Interior::network`]). An operation finds them idle, because
//! operations of one device that move data use them one after another.

use super::clock::Time;
use super::links::Links;
use super::work::{Amounts, OpPhases, Rates, Unit, depth, of_elements};
use kbc_diag::Diagnostics;
use kbc_ir::schedule::{BufferId, LocalOp};
use kbc_ir::types::MemKind;
use kbc_ir::walk::{Fault, Program};
use kbc_machine::placement::Interior;
use kbc_machine::share::{PePart, PeTransfer, Share, of_rank, volume, volumes};
use kbc_machine::topology::{DeviceId, Route, Topology};
use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::rc::Rc;

/// The interior of the devices, with the operations profiled so far.
pub(super) struct Inside {
    machine: Topology,
    /// The PEs of a device as a machine of their own.
    network: Topology,
    /// Profiles by operation and rank.
    known: RefCell<BTreeMap<(u32, u64), Rc<Profile>>>,
    /// Profiles by operation and division of its work, which several ranks may have in common.
    alike: RefCell<Vec<(u32, Share, Rc<Profile>)>>,
}

/// The timing of an operation that the PEs of a device share.
#[derive(Debug)]
pub(super) struct Profile {
    /// Distinct amounts of work of a PE, each with the time at which the last PE that has this
    /// amount has received its operands.
    work: Vec<(Amounts, Time)>,
    /// Time of sending the result to other PEs.
    sent: Time,
    /// Whether one PE does all of the work.
    alone: bool,
}

impl Inside {
    /// Returns the interior of a machine's devices. None if PEs share no work.
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

    /// Returns the profile of an operation of a rank; `number` is the operation's number in the
    /// schedule.
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
        let depth = depth(program, op, rank)?;
        let size = |b: BufferId| program.schedule.buffer(b).dtype.bytes();
        let fetched = self.carry(program, &share.fetches);
        let mut work: BTreeMap<Amounts, Time> = BTreeMap::new();
        for PePart { pe, result, reads } in &share.parts {
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

    /// Returns the time at which each PE has received everything that is sent to it, if all PEs
    /// begin to send at time 0. The data from one PE to another is one message per kind of memory.
    fn carry(&self, program: &Program<'_>, moves: &[PeTransfer]) -> BTreeMap<u32, Time> {
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
    /// Returns the course of the operation on a rank, and replaces `times` by the time for which
    /// each unit is held. If one PE does all of the work, `own` is its course there.
    pub(super) fn course(
        &self,
        rates: &mut Rates,
        rank: u64,
        times: &mut [Time; 3],
        own: OpPhases,
    ) -> OpPhases {
        if self.alone {
            let fetched = self.work.iter().map(|w| w.1).max().unwrap_or_default();
            let longest = times.iter().copied().max().unwrap_or_default();
            for t in times.iter_mut().filter(|t| **t > Time::ZERO) {
                *t = *t + fetched;
            }
            let rest = longest.since(own.preloaded).max(own.least);
            return OpPhases { fetched, least: rest, sent: self.sent, shared: true, ..own };
        }
        let (mut held, mut out) = ([Time::ZERO; 3], OpPhases { shared: true, ..OpPhases::NONE });
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
                out = OpPhases { fetched: *fetched, least: longest.0, unit: longest.1, ..out };
            }
        }
        *times = held;
        OpPhases { sent: self.sent, ..out }
    }
}
