//! What rounds cost, without a machine (LANGUAGE 2.8, 5).
//!
//! Owns the count of rounds, messages and bytes in units of the whole vector. A message is everything one rank
//! sends another in one round; a place that goes to several places of one peer in one round travels once.

use std::collections::BTreeMap;

use crate::ratio::Ratio;
use crate::rounds::{Rounds, Transfer};

/// Figures of a call. Sizes are in units of the collective's (first) buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cost {
    /// Rounds with at least one message.
    pub rounds: u32,
    /// Messages in all rounds.
    pub messages: u64,
    /// Most bytes sent by one rank, over all rounds.
    pub sent: Ratio,
    /// The largest message of each round, summed: the time where every pair has its own link.
    pub pair: Ratio,
}

/// A run of places: buffer, start, length.
type Places = (u32, u32, u32);

/// The messages of a round: source, destination, atoms carried.
pub fn messages(round: &[Transfer]) -> Vec<(u32, u32, u64)> {
    // (source, destination) -> runs of places at the source.
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

/// Number of different places.
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
