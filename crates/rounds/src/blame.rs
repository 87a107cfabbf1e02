//! Words for a promise that was not kept: E110..E113.
//!
//! Owns which of the four it is, what the message names (LANGUAGE 3), and how many messages there are.

use std::collections::BTreeMap;

use kbc_diag::{Diagnostic, Diagnostics, Span};

use crate::bag::Bag;
use crate::library::Library;
use crate::meaning::{By, Cell, Contribution, Holds, key_bases, transfer_at};
use crate::rounds::Rounds;

/// How many different messages of one code are printed.
const MOST: usize = 3;

/// Messages found, the same statement's only once.
#[derive(Default)]
pub(crate) struct Reports {
    found: Vec<(Diagnostic, usize)>,
    more: BTreeMap<&'static str, usize>,
}

impl Reports {
    pub fn push(&mut self, d: Diagnostic) {
        if let Some(same) = self.found.iter_mut().find(|(e, _)| e.code == d.code && e.span() == d.span()) {
            same.1 += 1;
        } else if self.wants(d.code) {
            self.found.push((d, 0));
        } else {
            *self.more.entry(d.code).or_default() += 1;
        }
    }

    /// Counts another fault like the one of this code and place.
    pub fn again(&mut self, code: &'static str, span: Span) {
        match self.found.iter_mut().find(|(e, _)| e.code == code && e.span() == span) {
            Some(same) => same.1 += 1,
            None => *self.more.entry(code).or_default() += 1,
        }
    }

    /// Whether another message of this code could be printed.
    pub fn wants(&self, code: &str) -> bool {
        self.found.iter().filter(|f| f.0.code == code).count() < MOST
    }

    pub fn finish(self) -> Result<(), Diagnostics> {
        if self.found.is_empty() {
            return Ok(());
        }
        let mut out = Diagnostics::new();
        let mut last: BTreeMap<&'static str, usize> = BTreeMap::new();
        for (mut d, same) in self.found {
            if same > 0 {
                d = d.note(format!("and {same} more like this, at other ranks, places or rounds"));
            }
            last.insert(d.code, out.list.len());
            out.push(d);
        }
        for (code, n) in self.more {
            if let Some(d) = last.get(code).and_then(|&i| out.list.get_mut(i)) {
                d.notes.push(format!("and {n} more {code} at other statements"));
            }
        }
        Err(out)
    }
}

/// A place lost the watched contribution.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Loss {
    /// In or after this round, from 1.
    pub round: u32,
    pub rank: u32,
    pub buffer: u32,
    pub place: u32,
    pub by: By,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// E110: holds nothing; this contribution should be there.
    Empty(Contribution),
    /// E111: this one is missing.
    Lost(Contribution),
    /// E112: this one should not be there; the other one should, if any is missing.
    Misplaced(Contribution, Option<Contribution>),
    /// E113: this one is there so many times, wanted so many, first doubled by this transfer.
    Twice(Contribution, u32, u32, u32),
}

/// Neighbouring places of one rank that do not hold what they should.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wrong {
    kind: Kind,
    by: By,
    /// How far the place is into its block: keys move with it.
    shift: u32,
    pub rank: u32,
    pub buffer: u32,
    pub start: u32,
    pub len: u32,
}

type Seen = (Vec<Loss>, Vec<(u32, u32, u32)>);

impl Wrong {
    /// Compares a place with what it should hold; rank and place are the caller's to fill in.
    pub fn find(cell: &Cell, pattern: &Bag, shift: u32) -> Option<Wrong> {
        let kind = match &cell.holds {
            Holds::Anything => return None,
            Holds::Nothing => pattern.contributions().next().map(|(k, r)| Kind::Empty((k + shift, r)))?,
            Holds::Sum(bag) => {
                if bag.is(pattern, shift) {
                    return None;
                }
                let wanted = pattern.shifted(shift);
                let missing = wanted.contributions().find(|&(k, r)| bag.count(k, r) < wanted.count(k, r));
                let foreign = bag.contributions().find(|&(k, r)| wanted.count(k, r) == 0);
                let twice = bag.contributions().find(|&(k, r)| bag.count(k, r) > wanted.count(k, r));
                match (foreign, twice, missing) {
                    (Some(f), _, m) => Kind::Misplaced(f, m),
                    (None, Some((k, r)), _) => {
                        let first = bag.first(k, r).unwrap_or_default();
                        Kind::Twice((k, r), bag.count(k, r), wanted.count(k, r), first)
                    }
                    (None, None, Some(m)) => Kind::Lost(m),
                    (None, None, None) => return None,
                }
            }
        };
        Some(Wrong { kind, by: cell.by, shift, rank: 0, buffer: 0, start: 0, len: 1 })
    }

    /// The same, at these places.
    pub fn at(self, rank: u32, buffer: u32, start: u32, len: u32) -> Wrong {
        Wrong { rank, buffer, start, len, ..self }
    }

    /// Whether it is the same fault one or more places further on.
    pub fn same_kind(&self, other: &Wrong) -> bool {
        let at = |c: Contribution, shift: u32| (c.0.wrapping_sub(shift), c.1);
        let key = |w: &Wrong| match w.kind {
            Kind::Empty(c) => (0, at(c, w.shift), None, 0),
            Kind::Lost(c) => (1, at(c, w.shift), None, 0),
            Kind::Misplaced(c, m) => (2, at(c, w.shift), m.map(|m| at(m, w.shift)), 0),
            Kind::Twice(c, n, _, e) => (3, at(c, w.shift), Some((n, 0)), e),
        };
        key(self) == key(other) && self.by == other.by
    }

    pub fn code(&self) -> &'static str {
        match self.kind {
            Kind::Empty(_) => "E110",
            Kind::Lost(_) => "E111",
            Kind::Misplaced(..) => "E112",
            Kind::Twice(..) => "E113",
        }
    }

    /// The statement that wrote the place last, if any.
    pub fn written_at(&self, rounds: &Rounds) -> Span {
        match self.by {
            By::Transfer(n) => transfer_at(rounds, n).map_or(Span::NONE, |(_, x)| x.span),
            By::End(site) => rounds.uses.get(site as usize).map_or(Span::NONE, |u| u.span),
            By::Start => Span::NONE,
        }
    }

    /// The contribution whose way explains the fault.
    pub fn watch(&self) -> Option<Contribution> {
        match self.kind {
            Kind::Empty(c) | Kind::Lost(c) => Some(c),
            Kind::Misplaced(..) | Kind::Twice(..) => None,
        }
    }

    pub fn message(&self, lib: &Library, rounds: &Rounds, seen: Option<Seen>) -> Diagnostic {
        let who = rounds.rank_name(self.rank);
        let place = rounds.place_name(self.buffer, self.start, self.len);
        let title = match self.kind {
            Kind::Empty(c) => {
                format!("{place} of {who} is empty at the end: {} is missing", origin(rounds, c))
            }
            Kind::Lost(c) => format!("{place} of {who} lacks {} at the end", origin(rounds, c)),
            Kind::Misplaced(c, Some(m)) => {
                format!("{place} of {who} holds {} at the end, not {}", origin(rounds, c), origin(rounds, m))
            }
            Kind::Misplaced(c, None) => {
                format!(
                    "{place} of {who} holds {} at the end, which does not belong there",
                    origin(rounds, c)
                )
            }
            Kind::Twice(c, n, wanted, _) => {
                let times = if wanted == 1 { "once".to_owned() } else { format!("{wanted} times") };
                format!("{place} of {who} holds {} {n} times at the end, not {times}", origin(rounds, c))
            }
        };
        let mut d = Diagnostic::error(self.code(), title);
        let top = rounds.uses.first();
        let head = top.map_or(Span::NONE, |u| u.span);
        let mut site = 0;
        match self.kind {
            Kind::Twice(_, _, _, event) => match transfer_at(rounds, event) {
                Some((t, x)) => {
                    let (from, to) = (rounds.rank_name(x.src), rounds.rank_name(x.dst));
                    d = d.primary(
                        x.span,
                        format!("counted twice first here: round {}, {from} -> {to}", t + 1),
                    );
                    site = x.site;
                }
                None => d = d.primary(head, "in this algorithm"),
            },
            Kind::Misplaced(..) => (d, site) = self.writer(rounds, d, head),
            Kind::Empty(_) | Kind::Lost(_) => {
                let (losses, holders) = seen.unwrap_or_default();
                (d, site) = self.last_holder(rounds, d, head, &losses, &holders);
            }
        }
        d = rounds.with_stack(d, site);
        if let Some(u) = top {
            d = d.secondary(lib.collective(u.coll).span, "the promise: see `end`");
        }
        d
    }

    /// Points at the last write of the place.
    fn writer(&self, rounds: &Rounds, d: Diagnostic, head: Span) -> (Diagnostic, u32) {
        match self.by {
            By::Transfer(n) => match transfer_at(rounds, n) {
                Some((t, x)) => {
                    let from = rounds.rank_name(x.src);
                    (d.primary(x.span, format!("written last here: round {}, from {from}", t + 1)), x.site)
                }
                None => (d.primary(head, "in this algorithm"), 0),
            },
            By::End(site) => match rounds.uses.get(site as usize) {
                Some(u) => (
                    d.primary(u.span, "it held something until this apply, which does not promise it"),
                    u.parent,
                ),
                None => (d.primary(head, "in this algorithm"), 0),
            },
            By::Start => (d.primary(head, "nothing is ever written there"), 0),
        }
    }

    /// Points at what overwrote the missing contribution, or says who still has it.
    fn last_holder(
        &self,
        rounds: &Rounds,
        d: Diagnostic,
        head: Span,
        losses: &[Loss],
        holders: &[(u32, u32, u32)],
    ) -> (Diagnostic, u32) {
        let here = (self.rank, self.buffer, self.start);
        let lost_here = losses.iter().rev().find(|l| (l.rank, l.buffer, l.place) == here);
        let last = losses.iter().max_by_key(|l| l.round).filter(|_| holders.is_empty());
        if let Some(l) = lost_here.or(last) {
            let (who, place) = (rounds.rank_name(l.rank), rounds.place_name(l.buffer, l.place, 1));
            return match l.by {
                By::Transfer(n) => match transfer_at(rounds, n) {
                    Some((t, x)) => {
                        let text =
                            format!("{who} held it last, in {place}: overwritten here in round {}", t + 1);
                        (d.primary(x.span, text), x.site)
                    }
                    None => self.writer(rounds, d, head),
                },
                By::End(site) => match rounds.uses.get(site as usize) {
                    Some(u) => {
                        let text = format!("{who} held it last, in {place}; this apply does not promise it");
                        (d.primary(u.span, text), u.parent)
                    }
                    None => self.writer(rounds, d, head),
                },
                By::Start => self.writer(rounds, d, head),
            };
        }
        let (mut d, site) = self.writer(rounds, d, head);
        let names: Vec<String> = holders
            .iter()
            .take(MOST)
            .map(|&(r, b, p)| format!("{} in {}", rounds.rank_name(r), rounds.place_name(b, p, 1)))
            .collect();
        if !names.is_empty() {
            let more = if holders.len() > MOST {
                format!(" and {} other places", holders.len() - MOST)
            } else {
                String::new()
            };
            d = d.note(format!("held at the end by {}{more}: it never came here", names.join(", ")));
        }
        (d, site)
    }
}

/// What a contribution is, in words.
fn origin(rounds: &Rounds, (key, rank): Contribution) -> String {
    let bases = key_bases(rounds);
    let buffer = bases.iter().rposition(|&b| b <= key).unwrap_or_default();
    let place = key - bases.get(buffer).copied().unwrap_or_default();
    format!("{}'s {}", rounds.rank_name(rank), rounds.place_name(buffer as u32, place, 1))
}
