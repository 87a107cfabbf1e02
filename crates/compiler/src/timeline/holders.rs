//! Holders of the links and units that the critical path waits for.
//!
//! The path is known first. The same run is then simulated once more, with an observer that looks
//! only for those waits.

use super::scene::Scene;
use super::waits::{Reason, Waits};
use kbc_diag::Diagnostics;
use kbc_machine::topology::LinkId;
use kbc_time::*;
use std::collections::BTreeMap;

/// A wait of the path: thread, operation, start time as bits, and the link if it waits for a link.
type Key = (u64, u32, u64, Option<LinkId>);

struct Finder {
    streams: u64,
    waits: Waits,
    found: BTreeMap<Key, Option<Reason>>,
}

impl Finder {
    fn put(&mut self, key: Key, reason: Option<Reason>) {
        if let Some(place) = self.found.get_mut(&key) {
            *place = reason;
        }
    }
}

impl Observer for Finder {
    fn detail(&self) -> bool {
        true
    }

    fn passes(&mut self, p: &Pass) {
        let wait = self.waits.passes(p);
        let key = (u64::from(p.id.thread), p.op, p.asked_ns.to_bits(), Some(p.link));
        self.put(key, wait.map(|w| w.reason));
    }

    fn works(&mut self, w: &Work) {
        let wait = self.waits.works(w);
        let key = (w.rank * self.streams + u64::from(w.stream), w.op, w.asked_ns.to_bits(), None);
        self.put(key, wait.map(|w| w.reason));
    }
}

/// Returns, for each step of the path, what held the resource that it waited for, or `None` if the
/// step is not a wait.
///
/// # Errors
/// Returns the errors of the engine.
pub fn find(scene: &Scene<'_>, path: &[Step]) -> Result<Vec<Option<Reason>>, Diagnostics> {
    let streams = scene.streams.len();
    let key = |s: &Step| -> Option<Key> {
        let thread = s.rank * streams as u64 + u64::from(s.stream);
        match s.cause {
            Cause::Queue(link) => Some((thread, s.op, s.start_ns.to_bits(), Some(link))),
            Cause::UnitQueue(_) => Some((thread, s.op, s.start_ns.to_bits(), None)),
            _ => None,
        }
    };
    let found: BTreeMap<Key, Option<Reason>> = path.iter().filter_map(key).map(|k| (k, None)).collect();
    if found.is_empty() {
        return Ok(vec![None; path.len()]);
    }
    let waits = Waits::new(scene.ranks(), streams);
    let mut finder = Finder { streams: streams as u64, waits, found };
    simulate_observed(
        &scene.schedule,
        scene.topology,
        &TimeOptions { path: false, ..TimeOptions::default() },
        &mut finder,
    )?;
    Ok(path.iter().map(|s| key(s).and_then(|k| finder.found.get(&k).copied().flatten())).collect())
}
