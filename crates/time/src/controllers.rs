//! Memory controllers: the channels in front of a slice of HBM (docs/explanation/time.md,
//! "Memories").
//!
//! This module owns the time at which a message has passed a controller. Every channel is a FIFO
//! and serves its bursts of a message one after another. A message requests all its bursts at once,
//! so each channel has a closed form. The engine decides when a message makes its request, and
//! [`Controller::bursts`] counts the bursts of a channel.

use super::clock::Time;
use super::links::Passage;
use kbc_ir::types::MemKind;
use kbc_machine::topology::{Controller, DeviceId, Forward, Topology};
use std::collections::BTreeMap;

/// The access of a message to a memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Access {
    /// Its bytes are read from the memory.
    Read,
    /// Its bytes are written to the memory.
    Write,
}

/// A channel.
#[derive(Clone, Copy, Debug)]
struct Channel {
    /// Time from which it can serve the next burst.
    free: Time,
    /// Its last access.
    last: Option<Access>,
    /// Total time of bursts and of changes between reading and writing.
    busy: Time,
}

/// The channels of one memory, and its traffic.
#[derive(Clone, Debug)]
struct Memory {
    channels: Vec<Channel>,
    load: MemoryLoad,
}

/// The traffic of a controller.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub(super) struct MemoryLoad {
    pub(super) reads: u64,
    pub(super) writes: u64,
    pub(super) bytes: u64,
    /// Time for which its busiest channel was busy.
    pub(super) busy: Time,
    /// Sum of the delays of messages, compared with an idle controller.
    pub(super) waited: Time,
}

/// All controllers of a machine by node, created on first use.
#[derive(Clone, Debug)]
pub(super) struct Controllers {
    kind: Controller,
    /// Time of a burst on a channel, also for a partial burst.
    burst: Time,
    switch: Time,
    forward: Forward,
    memories: BTreeMap<u32, Memory>,
}

impl Controllers {
    /// Returns the controllers of a machine. None if it has no channels that messages wait for.
    pub(super) fn new(topo: &Topology) -> Option<Controllers> {
        let kind = topo.controller(MemKind::Hbm)?;
        let settings = topo.settings();
        Some(Controllers {
            kind,
            burst: Controllers::burst(&kind),
            switch: Time::from_ns(settings.package.get("hbm_switch")),
            forward: settings.forward(),
            memories: BTreeMap::new(),
        })
    }

    /// Returns the time of a burst on a channel.
    pub(super) fn burst(kind: &Controller) -> Time {
        Time::of(kind.burst, kind.bandwidth)
    }

    /// Passes a message through a controller. Its head arrives at `at` with its tail `lag` behind,
    /// and its bytes are at `address`. Returns its passage, and the time of its bursts on an idle
    /// controller. Calls must come in the order of `at`.
    ///
    /// The message waits for as long as its bursts take longer than on an idle controller. A
    /// message that is read continues when its first burst is done. A message that is written is
    /// complete one burst after its tail, unless the channels are slower.
    pub(super) fn pass(
        &mut self,
        node: DeviceId,
        access: Access,
        (at, lag): (Time, Time),
        (address, bytes): (u64, u64),
    ) -> (Passage, Time) {
        let idle = Channel { free: Time::ZERO, last: None, busy: Time::ZERO };
        let memory = self.memories.entry(node.0).or_insert_with(|| Memory {
            channels: vec![idle; self.kind.channels as usize],
            load: MemoryLoad::default(),
        });
        let (mut end, mut alone, mut sum) = (at, Time::ZERO, 0u64);
        for (number, channel) in memory.channels.iter_mut().enumerate() {
            let bursts = self.kind.bursts(number as u32, address, bytes);
            if bursts == 0 {
                continue;
            }
            sum += bursts;
            let service = self.burst.times(bursts);
            let turns = channel.last.is_some_and(|last| last != access);
            let switch = if turns { self.switch } else { Time::ZERO };
            channel.free = at.max(channel.free) + switch + service;
            channel.last = Some(access);
            channel.busy = channel.busy + switch + service;
            end = end.max(channel.free);
            alone = alone.max(service);
            memory.load.busy = memory.load.busy.max(channel.busy);
            debug_assert!(channel.busy <= channel.free, "a channel serves one burst at a time");
        }
        debug_assert!(
            u128::from(sum) * u128::from(self.kind.burst) >= bytes.into(),
            "every byte has a burst"
        );
        debug_assert!(end >= at + alone, "no channel is faster than it is");
        let waited = end.since(at + alone);
        let load = &mut memory.load;
        load.reads += u64::from(access == Access::Read);
        load.writes += u64::from(access == Access::Write);
        load.bytes = load.bytes.saturating_add(bytes);
        load.waited = load.waited + waited;
        let start = at + waited;
        let one = self.burst.min(alone);
        let (head, lag) = match (self.forward, access) {
            (Forward::StoreAndForward, _) => (start + alone, Time::ZERO),
            (_, Access::Read) => (start + one, alone.since(one)),
            (Forward::CutThrough, Access::Write) => (start, alone.max(lag.since(waited) + one)),
            (Forward::Drain, Access::Write) => (start, alone.max(lag + one)),
        };
        (Passage { start, head, lag, free: end }, alone)
    }

    /// Iterates over the traffic of each controller, by node.
    pub(super) fn loads(&self) -> impl Iterator<Item = (DeviceId, MemoryLoad)> + '_ {
        self.memories.iter().map(|(node, m)| (DeviceId(*node), m.load))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kbc_diag::FileId;

    fn controllers(more: &str) -> Controllers {
        let text = format!(
            "package(ring(1), mesh(1, 1), 2) {{ data: named; hbm_channels: 8, 32 GB/s, 256 B; hbm_switch: 3 ns{more} }}"
        );
        let topo = Topology::parse(&text, FileId(0)).unwrap_or_else(|d| panic!("{d:?}"));
        Controllers::new(&topo).expect("channels")
    }

    /// A reference with one event per burst: all bursts of a message are requested when its head
    /// arrives, in the order of their addresses, and each channel serves its bursts in turn.
    struct Bursts {
        channels: Vec<(f64, Option<Access>)>,
    }

    impl Bursts {
        fn pass(&mut self, access: Access, at: f64, address: u64, bytes: u64) -> f64 {
            let mut end = at;
            let bursts = if bytes == 0 { 0..0 } else { address / 256..(address + bytes).div_ceil(256) };
            for burst in bursts {
                let channel = &mut self.channels[(burst % 8) as usize];
                let switch = if channel.1.is_some_and(|l| l != access) { 3.0 } else { 0.0 };
                *channel = (channel.0.max(at) + switch + 8.0, Some(access));
                end = end.max(channel.0);
            }
            end
        }
    }

    #[test]
    fn closed_forms_are_those_of_bursts() {
        let mut c = controllers("");
        let mut bursts = Bursts { channels: vec![(0.0, None); 8] };
        let (mut x, mut at) = (7u64, 0u64);
        let mut draw = |n: u64| {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (x >> 33) % n
        };
        for _ in 0..5000 {
            at += draw(200);
            let (address, bytes) = (draw(1 << 20), draw(10_000));
            let access = if draw(3) == 0 { Access::Write } else { Access::Read };
            let head = (Time::from_ns(at as f64), Time::ZERO);
            let (passage, alone) = c.pass(DeviceId(3), access, head, (address, bytes));
            let want = bursts.pass(access, at as f64, address, bytes);
            assert_eq!(passage.free.ns(), want);
            assert_eq!((passage.start + alone).ns(), want);
            assert!(passage.start.ns() >= at as f64 && (passage.head + passage.lag).ns() == want);
        }
    }

    #[test]
    fn a_burst_is_read_and_written_whole() {
        let mut c = controllers("");
        let t = Time::from_ns;
        // 2048 bytes over 8 channels take 8 ns, and arrive within 16.
        let (p, alone) = c.pass(DeviceId(0), Access::Write, (t(5.0), t(16.0)), (0, 2048));
        assert_eq!((p.start, p.head, p.lag, alone), (t(5.0), t(5.0), t(24.0), t(8.0)));
        // The next message waits for them and for the change to reading. A partial burst takes as
        // long as a full one.
        let (p, _) = c.pass(DeviceId(0), Access::Read, (t(6.0), Time::ZERO), (512, 100));
        assert_eq!((p.start, p.head, p.lag), (t(16.0), t(24.0), t(0.0)));
        // Another memory is idle. Two bursts of one channel are read one after another.
        let (p, alone) = c.pass(DeviceId(1), Access::Read, (t(6.0), Time::ZERO), (512, 2049));
        assert_eq!((p.start, p.head, p.lag, alone), (t(6.0), t(14.0), t(8.0), t(16.0)));
        // No bytes need no time.
        let (p, alone) = c.pass(DeviceId(1), Access::Write, (t(7.0), Time::ZERO), (512, 0));
        assert_eq!((p.start, p.head, p.lag, alone), (t(7.0), t(7.0), t(0.0), t(0.0)));
    }

    #[test]
    fn waiting_lets_a_tail_catch_up_unless_it_drains() {
        let t = Time::from_ns;
        for (rule, tail) in
            [("", 8.0 + 24.0), ("; forward: drain", 8.0 + 32.0), ("; forward: store_and_forward", 16.0)]
        {
            let mut c = controllers(rule);
            c.pass(DeviceId(0), Access::Write, (t(0.0), Time::ZERO), (0, 256));
            let lag = if rule.contains("store") { 0.0 } else { 24.0 };
            let (p, _) = c.pass(DeviceId(0), Access::Write, (t(0.0), t(lag)), (0, 256));
            assert_eq!((p.start, p.head + p.lag), (t(8.0), t(tail)), "{rule}");
        }
    }
}
