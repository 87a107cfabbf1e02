//! Paths of one contribution through the rounds, from the rank that had it first to the
//! places that hold it.
//!
//! A run that watches one contribution records every hop and every loss. This module owns that
//! record, computes the paths to a place from it, and prints them. `meaning` decides whether
//! something is wrong; `end_faults` writes the message.

use kbc_diag::{Diagnostic, Span};

use crate::cells::{Contribution, LastWrite, key_bases, transfer_at};
use crate::rounds::Rounds;

/// Greatest number of hops of a path that are printed; of a longer path, only the first
/// and the last few.
const MAX_STEPS: usize = 8;

/// A place of a rank.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PlaceOfRank {
    pub rank: u32,
    pub buffer: u32,
    pub place: u32,
}

/// A transfer that carried the contribution.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Hop {
    /// Number of the transfer, counted over all rounds.
    pub number: u32,
    /// Its round, from 0.
    pub round: u32,
    pub from: PlaceOfRank,
    pub to: PlaceOfRank,
    /// Whether the transfer adds to the previous contents instead of replacing them.
    pub adds: bool,
}

/// The loss of the contribution at a place: overwritten in this round, or discarded before it
/// because a contract does not cover the place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Loss {
    /// The round, from 0.
    pub round: u32,
    pub at: PlaceOfRank,
    pub by: LastWrite,
}

/// The record of one contribution.
#[derive(Clone, Debug, Default)]
pub(crate) struct ContributionTrace {
    pub hops: Vec<Hop>,
    pub losses: Vec<Loss>,
    /// The places that hold it at the end.
    pub holders: Vec<PlaceOfRank>,
}

/// Returns the place of a contribution at the start.
pub(crate) fn origin(rounds: &Rounds, (key, rank): Contribution) -> PlaceOfRank {
    let bases = key_bases(rounds);
    let buffer = bases.iter().rposition(|&b| b <= key).unwrap_or_default();
    let place = key - bases.get(buffer).copied().unwrap_or_default();
    PlaceOfRank { rank, buffer: buffer as u32, place }
}

impl ContributionTrace {
    /// Returns paths by which the contribution came to a place, through transfers up to number
    /// `last`. Returns at most `most` paths, those with the latest last hop first. A path without
    /// hops means that it was there from the start.
    pub fn paths(&self, first: PlaceOfRank, to: PlaceOfRank, last: u32, most: usize) -> Vec<Vec<Hop>> {
        let mut out = vec![];
        self.back(first, to, u32::MAX, last, most, &mut vec![], &mut out);
        out
    }

    #[expect(clippy::too_many_arguments, reason = "a walk back with what it has gathered")]
    fn back(
        &self,
        first: PlaceOfRank,
        at: PlaceOfRank,
        before: u32,
        last: u32,
        most: usize,
        steps: &mut Vec<Hop>,
        out: &mut Vec<Vec<Hop>>,
    ) {
        // The last loss removes what was there before. A contract discards contents before the
        // transfers of its round.
        let lost = self.losses.iter().rev().find(|l| match l.by {
            LastWrite::Transfer(n) => l.at == at && l.round < before && n <= last,
            LastWrite::Start | LastWrite::End(_) => l.at == at && l.round <= before,
        });
        let kept = |h: &&Hop| match lost {
            None => true,
            Some(Loss { by: LastWrite::Transfer(n), .. }) => h.number > *n,
            Some(l) => h.round >= l.round,
        };
        let arrivals = self.hops.iter().rev().filter(|h| h.to == at && h.round < before && h.number <= last);
        for h in arrivals.take_while(kept) {
            if out.len() >= most {
                return;
            }
            steps.push(*h);
            self.back(first, h.from, h.round, u32::MAX, most, steps, out);
            steps.pop();
            if !h.adds {
                return;
            }
        }
        if lost.is_none() && at == first && out.len() < most {
            out.push(steps.iter().rev().copied().collect());
        }
    }

    /// Returns the first hop to a place in a round or after it.
    pub fn arrives(&self, at: PlaceOfRank, from: u32) -> Option<&Hop> {
        self.hops.iter().find(|h| h.to == at && h.round >= from)
    }
}

/// Prints a path: `rank r=3 -> r=0 (round 1) -> r=1 (round 2)`. The place is named
/// where it changes.
pub(crate) fn words(rounds: &Rounds, first: PlaceOfRank, way: &[Hop]) -> String {
    let mut out = rounds.rank_name(first.rank);
    if way.is_empty() {
        return format!("{out} holds it from the start");
    }
    for (i, h) in way.iter().enumerate() {
        if way.len() > MAX_STEPS && i == MAX_STEPS / 2 {
            out += &format!(" -> .. {} more ..", way.len() - MAX_STEPS);
        }
        if way.len() > MAX_STEPS && (MAX_STEPS / 2..way.len() - MAX_STEPS / 2).contains(&i) {
            continue;
        }
        let name = rounds.rank_name(h.to.rank);
        let name = name.strip_prefix("rank ").unwrap_or(&name);
        let moved = (h.from.buffer, h.from.place) != (h.to.buffer, h.to.place);
        let place = if moved {
            format!(" in {}", rounds.place_name(h.to.buffer, h.to.place, 1))
        } else {
            String::new()
        };
        out += &format!(" -> {name}{place} (round {})", h.round + 1);
    }
    out
}

/// Points at the statements of a path, except those at which the message points already.
pub(crate) fn point(rounds: &Rounds, mut d: Diagnostic, way: &[Hop], what: &str) -> Diagnostic {
    let mut spans: Vec<(Span, Vec<u32>)> = vec![];
    for h in way {
        let Some((t, x)) = transfer_at(rounds, h.number) else { continue };
        // For transfers inside an `apply`, point at the `apply`.
        let span = rounds.stack(x.site).last().map_or(x.span, |u| u.span);
        match spans.iter_mut().find(|s| s.0 == span) {
            Some(s) if s.1.contains(&(t + 1)) => {}
            Some(s) => s.1.push(t + 1),
            None => spans.push((span, vec![t + 1])),
        }
    }
    for (span, at) in spans {
        if d.labels.iter().all(|l| l.span != span) {
            d = d.secondary(span, format!("{what}: {}", in_rounds(&at)));
        }
    }
    d
}

/// Prints rounds: `round 1`, `rounds 1, 2 and 4`, `rounds 1, 2, 3, ..`.
pub(crate) fn in_rounds(at: &[u32]) -> String {
    let names: Vec<String> = at.iter().map(u32::to_string).collect();
    match names.as_slice() {
        [one] => format!("round {one}"),
        [all @ .., last] if names.len() <= 4 => format!("rounds {} and {last}", all.join(", ")),
        [first, second, third, ..] => format!("rounds {first}, {second}, {third}, .."),
        _ => String::new(),
    }
}
