//! Messages for errors inside a round: E101 to E104. `meaning` finds these errors.
//!
//! This module owns the list of such errors, of which only those of the first round with any are
//! reported, because later ones may follow from them. It also determines why a place is empty: it
//! is written later, in the same round or never, or an `apply` does not cover it.

use kbc_diag::{Diagnostic, Diagnostics};

use crate::cells::LastWrite;
use crate::chain::PlaceOfRank;
use crate::library::Library;
use crate::rounds::{Rounds, Transfer};

/// Greatest number of different messages that are printed.
const MAX_MESSAGES: usize = 3;

/// Errors of the first round that has any, once per statement.
#[derive(Default)]
pub(crate) struct Reports {
    round: u32,
    found: Vec<(Diagnostic, usize)>,
    later: usize,
}

impl Reports {
    /// Adds an error of a round (from 0); rounds come in order.
    pub fn push(&mut self, round: u32, d: Diagnostic) {
        if self.found.is_empty() {
            self.round = round;
        }
        if self.round != round {
            self.later += 1;
            return;
        }
        let full = self.found.len() >= MAX_MESSAGES;
        let known = self.found.iter().any(|(e, _)| e.span() == d.span());
        match self.found.iter_mut().find(|(e, _)| e.code == d.code && e.span() == d.span()) {
            Some(same) => same.1 += 1,
            // A transfer that both reads and adds to empty places is one error.
            None if known => {}
            None if full => self.later += 1,
            None => self.found.push((d, 0)),
        }
    }

    /// Returns the messages, if there are any.
    pub fn finish(self) -> Result<(), Diagnostics> {
        if self.found.is_empty() {
            return Ok(());
        }
        let mut out = Diagnostics::new();
        let last = self.found.len() - 1;
        for (i, (mut d, same)) in self.found.into_iter().enumerate() {
            if same > 0 {
                d = d.note(format!(
                    "{same} more errors of this kind in the same round, at other ranks or places"
                ));
            }
            if i == last && self.later > 0 {
                d = d.note(format!("{} more errors in later rounds, which this one may cause", self.later));
            }
            out.push(d);
        }
        Err(out)
    }
}

/// Returns the first transfer in a round or after it that writes a place.
fn next_write(rounds: &Rounds, from: u32, at: PlaceOfRank) -> Option<(u32, &Transfer)> {
    rounds.transfers().find(|(t, x)| {
        *t >= from && x.dst == at.rank && x.to.buffer == at.buffer && x.to.places().any(|p| p == at.place)
    })
}

/// Adds the reason why a place is empty that transfer `x` of round `t` (from 0) reads or adds to.
pub(crate) fn why_empty(
    lib: &Library,
    rounds: &Rounds,
    d: Diagnostic,
    by: LastWrite,
    at: PlaceOfRank,
    t: u32,
    adds: bool,
) -> Diagnostic {
    if let LastWrite::End(site) = by
        && let Some(u) = rounds.uses.get(site as usize)
    {
        let coll = &lib.collective(u.coll).name.node;
        return d.secondary(
            u.span,
            format!("this {coll} leaves the place undefined: its contract does not cover it"),
        );
    }
    let place = rounds.place_name(at.buffer, at.place, 1);
    let who = rounds.rank_name(at.rank);
    // A write that adds cannot be the one that fills an empty place.
    let write = next_write(rounds, t, at).filter(|(_, x)| !x.reduce && !adds);
    match write {
        Some((later, x)) if later == t && x.src == at.rank => {
            d.note(format!("the statement reads the place that it writes: {place} of {who}"))
        }
        Some((later, x)) if later == t => d.note(format!(
            "{} writes {place} of {who} in this same round: a transfer reads what the place held before the round",
            rounds.rank_name(x.src)
        )),
        Some((later, x)) => {
            let text = format!("{} writes {place} of {who} in round {}", rounds.rank_name(x.src), later + 1);
            if d.labels.iter().any(|l| l.span == x.span) {
                d.note(format!("only later, {text}, by the same statement"))
            } else {
                d.secondary(x.span, format!("too late: {text}"))
            }
        }
        None if adds => d.note(format!("no earlier transfer writes to {place} of {who}")),
        None => d.note(format!("no transfer ever writes to {place} of {who}")),
    }
}
