//! Cost of rounds, independent of a machine.
//!
//! This module counts rounds, messages and bytes, in units of the whole vector. A message is
//! everything that one rank sends to another in one round. A place that goes to several places of
//! one peer in one round is sent once.

use std::collections::BTreeMap;

use crate::ratio::Ratio;
use crate::rounds::{Rounds, Transfer};

/// The figures of a call. Sizes are in units of the collective's (first) buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cost {
    /// Number of rounds with at least one message.
    pub rounds: u32,
    /// Number of messages in all rounds.
    pub messages: u64,
    /// Most bytes sent by one rank, over all rounds.
    pub sent: Ratio,
    /// Largest message of each round, summed over the rounds: the time if every pair of ranks
    /// has its own link.
    pub pair: Ratio,
}

/// A run of places: buffer, start, length.
type Places = (u32, u32, u32);

/// Returns the messages of a round: source, destination, number of atoms.
pub fn messages(round: &[Transfer]) -> Vec<(u32, u32, u64)> {
    // Maps (source, destination) to the runs of places at the source.
    let mut links: BTreeMap<(u32, u32), Vec<Places>> = BTreeMap::new();
    for x in round.iter().filter(|x| x.is_remote()) {
        let runs = links.entry((x.src, x.dst)).or_default();
        runs.extend(x.from.runs().iter().map(|r| (x.from.buffer, r.start, r.len)));
    }
    links.into_iter().map(|((src, dst), mut runs)| (src, dst, union(&mut runs))).collect()
}

/// Counts rounds, messages and bytes.
pub fn cost(rounds: &Rounds) -> Cost {
    let mut sent = vec![0u64; rounds.ranks() as usize];
    let (mut count, mut total, mut pair) = (0, 0, 0);
    for round in &rounds.rounds {
        let messages = messages(round);
        count += u32::from(!messages.is_empty());
        total += messages.len() as u64;
        pair += messages.iter().map(|m| m.2).max().unwrap_or(0);
        messages.iter().for_each(|(src, _, atoms)| sent[*src as usize] += atoms);
    }
    let of = |atoms: u64| Ratio::new(atoms, u64::from(rounds.atoms));
    let sent = of(sent.iter().copied().max().unwrap_or_default());
    Cost { rounds: count, messages: total, sent, pair: of(pair) }
}

/// Counts the distinct places in runs.
fn union(runs: &mut [Places]) -> u64 {
    runs.sort_unstable();
    let (mut total, mut buffer, mut end) = (0, u32::MAX, 0);
    for &(b, start, len) in runs.iter() {
        if b != buffer {
            (buffer, end) = (b, 0);
        }
        let from = start.max(end);
        total += u64::from((start + len).saturating_sub(from));
        end = end.max(start + len);
    }
    total
}
