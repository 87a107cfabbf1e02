//! Messages for violated contracts: E110 to E113.
//!
//! This module decides which of the four errors applies, what the message names, and which of
//! several faults is reported. It reports the fault that arose first, because the others mostly
//! follow from it. `chain` computes the paths of a contribution.

use std::collections::BTreeMap;

use kbc_diag::{Diagnostic, Diagnostics, Span};

use crate::bag::Bag;
use crate::cells::{Cell, Contribution, Holds, LastWrite, transfer_at};
use crate::chain::{ContributionTrace, Hop, Loss, PlaceOfRank, origin, point, words};
use crate::library::Library;
use crate::rounds::{Rounds, coordinates};

/// Greatest number of holders that a message lists.
const MAX_HOLDERS: usize = 3;

/// Greatest number of different faults that are traced back to find the one that arose first.
const MAX_TRIED: usize = 8;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum EndFaultKind {
    /// E110: the place is empty; this contribution should be there.
    Empty(Contribution),
    /// E111: this contribution is missing.
    Lost(Contribution),
    /// E112: the first contribution does not belong there. The second one, if any, is missing.
    Misplaced(Contribution, Option<Contribution>),
    /// E113: this contribution occurs too often. The numbers are the actual count, the required
    /// count and the transfer that first duplicated it.
    Twice(Contribution, u32, u32, u32),
}

/// Neighbouring places of one rank with wrong contents.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EndFault {
    kind: EndFaultKind,
    by: LastWrite,
    /// Offset of the place in its block. The keys of contributions increase with it.
    shift: u32,
    pub rank: u32,
    pub buffer: u32,
    pub start: u32,
    pub len: u32,
}

impl EndFault {
    /// Compares the contents of a place with the required ones. The caller sets rank and place.
    pub fn find(cell: &Cell, pattern: &Bag, shift: u32) -> Option<EndFault> {
        let kind = match &cell.holds {
            Holds::Anything => return None,
            Holds::Nothing => {
                pattern.contributions().next().map(|(k, r)| EndFaultKind::Empty((k + shift, r)))?
            }
            Holds::Sum(bag) => {
                if bag.is(pattern, shift) {
                    return None;
                }
                let wanted = pattern.shifted(shift);
                let missing = wanted.contributions().find(|&(k, r)| bag.count(k, r) < wanted.count(k, r));
                let foreign = bag.contributions().find(|&(k, r)| wanted.count(k, r) == 0);
                let twice = bag.contributions().find(|&(k, r)| bag.count(k, r) > wanted.count(k, r));
                match (foreign, twice, missing) {
                    (Some(f), _, m) => EndFaultKind::Misplaced(f, m),
                    (None, Some((k, r)), _) => {
                        let first = bag.first(k, r).unwrap_or_default();
                        EndFaultKind::Twice((k, r), bag.count(k, r), wanted.count(k, r), first)
                    }
                    (None, None, Some(m)) => EndFaultKind::Lost(m),
                    (None, None, None) => return None,
                }
            }
        };
        Some(EndFault { kind, by: cell.by, shift, rank: 0, buffer: 0, start: 0, len: 1 })
    }

    /// Sets rank, buffer and places.
    pub fn at(self, rank: u32, buffer: u32, start: u32, len: u32) -> EndFault {
        EndFault { rank, buffer, start, len, ..self }
    }

    /// Checks whether another fault is the same one at a later place.
    pub fn same_kind(&self, other: &EndFault) -> bool {
        let at = |c: Contribution, shift: u32| (c.0.wrapping_sub(shift), c.1);
        let key = |w: &EndFault| match w.kind {
            EndFaultKind::Empty(c) => (0, at(c, w.shift), None, 0),
            EndFaultKind::Lost(c) => (1, at(c, w.shift), None, 0),
            EndFaultKind::Misplaced(c, m) => (2, at(c, w.shift), m.map(|m| at(m, w.shift)), 0),
            EndFaultKind::Twice(c, n, _, e) => (3, at(c, w.shift), Some((n, 0)), e),
        };
        key(self) == key(other) && self.by == other.by
    }

    pub fn code(&self) -> &'static str {
        match self.kind {
            EndFaultKind::Empty(_) => "E110",
            EndFaultKind::Lost(_) => "E111",
            EndFaultKind::Misplaced(..) => "E112",
            EndFaultKind::Twice(..) => "E113",
        }
    }

    /// Returns the location of the statement that last wrote the place, if any.
    pub fn written_at(&self, rounds: &Rounds) -> Span {
        match self.by {
            LastWrite::Transfer(n) => transfer_at(rounds, n).map_or(Span::NONE, |(_, x)| x.span),
            LastWrite::End(site) => rounds.uses.get(site as usize).map_or(Span::NONE, |u| u.span),
            LastWrite::Start => Span::NONE,
        }
    }

    /// Returns the contribution whose path explains the fault.
    pub fn watch(&self) -> Contribution {
        match self.kind {
            EndFaultKind::Empty(c)
            | EndFaultKind::Lost(c)
            | EndFaultKind::Misplaced(c, _)
            | EndFaultKind::Twice(c, ..) => c,
        }
    }

    fn spot(&self) -> PlaceOfRank {
        PlaceOfRank { rank: self.rank, buffer: self.buffer, place: self.start }
    }

    /// Returns when the fault arose: the round, from 0, and the transfer. The earliest fault
    /// explains the others. What never happened comes last.
    pub fn since(&self, rounds: &Rounds, track: &ContributionTrace) -> (u32, u32) {
        const NEVER: (u32, u32) = (u32::MAX, u32::MAX);
        let at = |n: u32| transfer_at(rounds, n).map_or(NEVER, |(t, _)| (t, n));
        match self.kind {
            EndFaultKind::Twice(_, _, _, event) => at(event),
            EndFaultKind::Misplaced(..) => match self.by {
                LastWrite::Transfer(n) => at(n),
                _ => NEVER,
            },
            EndFaultKind::Empty(_) | EndFaultKind::Lost(_) => match self.loss(track) {
                Some(Loss { by: LastWrite::Transfer(n), .. }) => at(*n),
                Some(l) => (l.round, 0),
                None => NEVER,
            },
        }
    }

    /// Returns the loss that removed the missing contribution: from this place, or, if no rank
    /// holds it any more, the last one.
    fn loss<'t>(&self, track: &'t ContributionTrace) -> Option<&'t Loss> {
        let here = self.spot();
        let last = || track.losses.iter().max_by_key(|l| l.round).filter(|_| track.holders.is_empty());
        track.losses.iter().rev().find(|l| l.at == here).or_else(last)
    }

    pub fn message(&self, lib: &Library, rounds: &Rounds, track: &ContributionTrace) -> Diagnostic {
        let who = rounds.rank_name(self.rank);
        let place = rounds.place_name(self.buffer, self.start, self.len);
        let title = match self.kind {
            EndFaultKind::Empty(c) => {
                format!("{place} of {who} is empty at the end: {} is missing", named(rounds, c))
            }
            EndFaultKind::Lost(c) => {
                format!("{place} of {who} lacks {} at the end", named(rounds, c))
            }
            EndFaultKind::Misplaced(c, Some(m)) => {
                format!("{place} of {who} holds {} at the end, not {}", named(rounds, c), named(rounds, m))
            }
            EndFaultKind::Misplaced(c, None) => {
                format!("{place} of {who} holds {} at the end, which does not belong there", named(rounds, c))
            }
            EndFaultKind::Twice(c, n, wanted, _) => {
                let times = if wanted == 1 { "once".to_owned() } else { format!("{wanted} times") };
                format!("{place} of {who} holds {} {n} times at the end, not {times}", named(rounds, c))
            }
        };
        let d = Diagnostic::error(self.code(), title);
        let top = rounds.uses.first();
        let head = top.map_or(Span::NONE, |u| u.span);
        let story = Story { rounds, track, first: origin(rounds, self.watch()), head };
        let (mut d, site) = match self.kind {
            EndFaultKind::Twice(_, _, _, event) => self.doubled(&story, d, event),
            EndFaultKind::Misplaced(..) => self.misplaced(&story, d),
            EndFaultKind::Empty(_) | EndFaultKind::Lost(_) => self.missing(&story, d),
        };
        d = outermost(rounds, d, site);
        if let Some(u) = top {
            d = d.secondary(lib.collective(u.coll).span, "the contract: see `end`");
        }
        d
    }

    /// Describes both paths of a contribution that is counted twice, up to the transfer that
    /// duplicated it.
    fn doubled(&self, story: &Story<'_>, d: Diagnostic, event: u32) -> (Diagnostic, u32) {
        let Some((t, x)) = transfer_at(story.rounds, event) else {
            return (d.primary(story.head, "in this algorithm"), 0);
        };
        let (from, to) = (story.rounds.rank_name(x.src), story.rounds.rank_name(x.dst));
        let text = format!("round {}: {from} adds it to {to}, which already contains it", t + 1);
        let mut d = d.primary(x.span, text);
        if let Some(h) = story.track.hops.iter().find(|h| h.number == event) {
            let paths = story.track.paths(story.first, h.to, event, 2);
            for (path, which) in paths.iter().zip(["first path", "second path"]) {
                d = d.note(format!("{which}: {}", words(story.rounds, story.first, path)));
                d = point(story.rounds, d, path, which);
            }
            if h.to != self.spot()
                && let Some(on) = story.track.paths(story.first, self.spot(), u32::MAX, 1).first()
            {
                let after: Vec<Hop> = on.iter().copied().filter(|o| o.number > event).collect();
                if let Some(first) = after.first().filter(|f| f.from == h.to) {
                    d = d.note(format!("path after that: {}", words(story.rounds, first.from, &after)));
                }
            }
        }
        (d, x.site)
    }

    /// Describes the path of a contribution that does not belong there.
    fn misplaced(&self, story: &Story<'_>, d: Diagnostic) -> (Diagnostic, u32) {
        let (mut d, site) = self.writer(story, d);
        if let Some(path) = story.track.paths(story.first, self.spot(), u32::MAX, 1).first() {
            if path.is_empty() {
                d = d.note("the rank holds this from the start, and no transfer overwrites it");
            } else {
                d = d.note(format!("path of this contribution: {}", words(story.rounds, story.first, path)));
                d = point(story.rounds, d, path, "on this path");
            }
        }
        (d, site)
    }

    /// Points at the last write of the place.
    fn writer(&self, story: &Story<'_>, d: Diagnostic) -> (Diagnostic, u32) {
        let rounds = story.rounds;
        match self.by {
            LastWrite::Transfer(n) => match transfer_at(rounds, n) {
                Some((t, x)) => {
                    let from = rounds.rank_name(x.src);
                    (
                        d.primary(x.span, format!("round {}: this is the last write, from {from}", t + 1)),
                        x.site,
                    )
                }
                None => (d.primary(story.head, "in this algorithm"), 0),
            },
            LastWrite::End(site) => match rounds.uses.get(site as usize) {
                Some(u) => (
                    d.primary(
                        u.span,
                        "this apply leaves the place undefined: its contract does not cover it",
                    ),
                    u.parent,
                ),
                None => (d.primary(story.head, "in this algorithm"), 0),
            },
            LastWrite::Start => (d.primary(story.head, "no transfer ever writes there"), 0),
        }
    }

    /// Describes how far the missing contribution came, who holds it, and what removed it.
    fn missing(&self, story: &Story<'_>, d: Diagnostic) -> (Diagnostic, u32) {
        let rounds = story.rounds;
        let Some(l) = self.loss(story.track) else { return self.never_came(story, d) };
        let (who, place) = (rounds.rank_name(l.at.rank), rounds.place_name(l.at.buffer, l.at.place, 1));
        let (mut d, site, last) = match l.by {
            LastWrite::Transfer(n) => match transfer_at(rounds, n) {
                Some((t, x)) => {
                    let text = format!(
                        "{who} was the last rank to hold it, in {place}; overwritten here in round {} by {}",
                        t + 1,
                        rounds.rank_name(x.src)
                    );
                    (d.primary(x.span, text), x.site, n)
                }
                None => {
                    let (d, site) = self.writer(story, d);
                    (d, site, 0)
                }
            },
            LastWrite::End(site) => match rounds.uses.get(site as usize) {
                Some(u) => {
                    let text = format!(
                        "{who} was the last rank to hold it, in {place}; the contract of this apply does not keep it"
                    );
                    (d.primary(u.span, text), u.parent, u32::MAX)
                }
                None => {
                    let (d, site) = self.writer(story, d);
                    (d, site, 0)
                }
            },
            LastWrite::Start => {
                let (d, site) = self.writer(story, d);
                (d, site, 0)
            }
        };
        // The path ends with the loss, so the search ignores the loss itself.
        let before = ContributionTrace {
            losses: story.track.losses.iter().copied().filter(|o| !same_loss(o, l)).collect(),
            ..story.track.clone()
        };
        if let Some(path) = before.paths(story.first, l.at, last.saturating_sub(1), 1).first() {
            d = d.note(format!("its path until then: {}", words(rounds, story.first, path)));
            d = point(rounds, d, path, "on this path");
        }
        if let LastWrite::Transfer(n) = l.by
            && let Some((_, x)) = transfer_at(rounds, n)
            && !x.reduce
            && d.help.is_none()
        {
            d = d.help(
                "with `reduce` the transfer adds to the destination; without it the transfer overwrites it",
            );
        }
        (d, site)
    }

    /// Describes a contribution that exists but never reached this place.
    fn never_came(&self, story: &Story<'_>, d: Diagnostic) -> (Diagnostic, u32) {
        let rounds = story.rounds;
        let here = rounds.rank_name(self.rank);
        let place = rounds.place_name(self.buffer, self.start, 1);
        let last = story.track.hops.last();
        let (mut d, site) = match (self.by, last.and_then(|h| transfer_at(rounds, h.number))) {
            (LastWrite::Start, Some((t, x))) => {
                let text = format!(
                    "last step of the path: round {}, {} -> {}",
                    t + 1,
                    rounds.rank_name(x.src),
                    rounds.rank_name(x.dst)
                );
                let d = d.primary(x.span, text);
                (d.note(format!("no transfer ever writes to {place} of {here}")), x.site)
            }
            (LastWrite::Start, None) => story.silent(d, &format!("{place} of {here}")),
            _ => self.writer(story, d),
        };
        if let LastWrite::Transfer(n) = self.by
            && let Some((t, x)) = transfer_at(rounds, n)
        {
            // Did the rank that wrote here last have the contribution at that time,
            // later, or never?
            let spot =
                x.to.places()
                    .position(|p| p == self.start)
                    .and_then(|i| x.from.places().nth(i))
                    .map(|place| PlaceOfRank { rank: x.src, buffer: x.from.buffer, place });
            let late = spot.and_then(|s| story.track.arrives(s, t));
            let from = rounds.rank_name(x.src);
            d = match late {
                Some(h) if h.round == t => d.note(format!(
                    "{from} receives it in this same round: a rank sends what it held before the round"
                )),
                Some(h) => d.note(format!("{from} receives it later, in round {}", h.round + 1)),
                None => d,
            };
        }
        match last {
            None => d = d.note(format!("{} never sends it", rounds.rank_name(story.first.rank))),
            Some(h) => {
                if let Some(path) = story.track.paths(story.first, h.to, h.number, 1).first() {
                    let end = if h.round as usize + 1 == rounds.rounds.len() {
                        "; the algorithm has no further round"
                    } else {
                        ""
                    };
                    d = d.note(format!("its path: {}{end}", words(rounds, story.first, path)));
                    d = point(rounds, d, path, "on this path");
                }
                d = story.gap(d, h);
            }
        }
        if let Some(text) = story.never_along(self.rank) {
            d = d.note(text);
        }
        let names: Vec<String> = story
            .track
            .holders
            .iter()
            .take(MAX_HOLDERS)
            .map(|s| format!("{} in {}", rounds.rank_name(s.rank), rounds.place_name(s.buffer, s.place, 1)))
            .collect();
        if !names.is_empty() {
            let holders = story.track.holders.len();
            let more = if holders > MAX_HOLDERS {
                format!(" and {} other places", holders - MAX_HOLDERS)
            } else {
                String::new()
            };
            d = d.note(format!("at the end {}{more} hold it; it never reached this rank", names.join(", ")));
        }
        (d, site)
    }
}

fn same_loss(a: &Loss, b: &Loss) -> bool {
    a.at == b.at && a.round == b.round && a.by == b.by
}

/// The data of a message: the contribution, its origin, and what happened to it.
struct Story<'a> {
    rounds: &'a Rounds,
    track: &'a ContributionTrace,
    first: PlaceOfRank,
    head: Span,
}

impl Story<'_> {
    /// Points at another transfer of a rank that never sends its contribution, or at a rank that
    /// sends while this one never does.
    fn silent(&self, d: Diagnostic, wanted: &str) -> (Diagnostic, u32) {
        let who = self.rounds.rank_name(self.first.rank);
        let own = self.rounds.transfers().find(|(_, x)| x.src == self.first.rank && x.is_remote());
        let any = self.rounds.transfers().find(|(_, x)| x.is_remote());
        match (own, any) {
            (Some((t, x)), _) => {
                let run = x.from.runs().first().copied();
                let sent =
                    run.map_or(String::new(), |r| self.rounds.place_name(x.from.buffer, r.start, r.len));
                let text =
                    format!("{who} sends {sent} here in round {}, but never the missing contribution", t + 1);
                (d.primary(x.span, text), x.site)
            }
            (None, Some((t, x))) => {
                let text = format!(
                    "{} sends here in round {}; {who} sends nothing in any round",
                    self.rounds.rank_name(x.src),
                    t + 1
                );
                (d.primary(x.span, text), x.site)
            }
            (None, None) => (d.primary(self.head, format!("no transfer ever writes to {wanted}")), 0),
        }
    }

    /// Describes an axis along which the contribution should have moved and never did.
    fn never_along(&self, wanted: u32) -> Option<String> {
        let sizes: Vec<i64> = self.rounds.axes.iter().map(|a| a.size).collect();
        if sizes.len() < 2 {
            return None;
        }
        let at = |rank: u32| coordinates(&sizes, i64::from(rank));
        let (own, wanted) = (at(self.first.rank), at(wanted));
        let reached: Vec<Vec<i64>> = self.track.hops.iter().map(|h| at(h.to.rank)).collect();
        let stays = |i: usize| reached.iter().all(|c| c[i] == own[i]);
        let i = (0..sizes.len()).find(|&i| own[i] != wanted[i] && stays(i))?;
        let name = &self.rounds.axes[i].name;
        Some(format!("it never leaves {name} = {}: no transfer sends it along {name}", own[i]))
    }

    /// Notes a later round in which all ranks send except the one that holds the contribution.
    fn gap(&self, d: Diagnostic, last: &Hop) -> Diagnostic {
        let ranks = self.rounds.ranks() as usize;
        for (t, round) in self.rounds.rounds.iter().enumerate().skip(last.round as usize + 1) {
            let mut senders: Vec<u32> = round.iter().filter(|x| x.is_remote()).map(|x| x.src).collect();
            senders.sort_unstable();
            senders.dedup();
            if !senders.contains(&last.to.rank) && senders.len() + 1 == ranks {
                let who = self.rounds.rank_name(last.to.rank);
                return d.note(format!("{who} sends nothing in round {}; all other ranks do", t + 1));
            }
        }
        d
    }
}

/// Changes the message to point at the outermost `apply` first, and then at the statement
/// inside. An `apply` is correct on its own, or its error was reported separately; so the
/// composition is at fault.
fn outermost(rounds: &Rounds, mut d: Diagnostic, site: u32) -> Diagnostic {
    let stack = rounds.stack(site);
    let Some(outer) = stack.last() else { return d };
    if let Some(l) = d.labels.first_mut() {
        let inside = std::mem::replace(&mut l.span, outer.span);
        let mut first = true;
        d.labels.retain(|l| std::mem::take(&mut first) || l.span != outer.span);
        d = d.secondary(inside, "the statement inside");
    }
    for u in stack.iter().rev().skip(1).filter(|u| u.span != outer.span) {
        d = d.secondary(u.span, "in this apply");
    }
    d
}

/// Describes a contribution: its rank and its place of origin.
fn named(rounds: &Rounds, c: Contribution) -> String {
    let at = origin(rounds, c);
    format!("{}'s {}", rounds.rank_name(at.rank), rounds.place_name(at.buffer, at.place, 1))
}

/// Makes one message for all faults at the end: it explains the fault that arose first and
/// counts the others.
pub(crate) fn first_fault(
    lib: &Library,
    rounds: &Rounds,
    wrong: &[EndFault],
    mut watched: impl FnMut(Contribution) -> Result<ContributionTrace, Diagnostics>,
) -> Result<Option<Diagnostic>, Diagnostics> {
    let mut tried: Vec<(&'static str, Span)> = vec![];
    let mut best: Option<((u32, u32), &EndFault, ContributionTrace)> = None;
    for w in wrong {
        let kind = (w.code(), w.written_at(rounds));
        if tried.contains(&kind) || tried.len() >= MAX_TRIED {
            continue;
        }
        tried.push(kind);
        let track = watched(w.watch())?;
        let since = w.since(rounds, &track);
        if best.as_ref().is_none_or(|b| since < b.0) {
            best = Some((since, w, track));
        }
    }
    let Some((_, w, track)) = best else { return Ok(None) };
    let mut d = w.message(lib, rounds, &track);
    let mut rest: BTreeMap<&'static str, usize> = BTreeMap::new();
    for o in wrong.iter().filter(|o| !std::ptr::eq(*o, w)) {
        *rest.entry(o.code()).or_default() += 1;
    }
    if !rest.is_empty() {
        let what = |code: &str| match code {
            "E110" => "empty (E110)",
            "E111" => "incomplete (E111)",
            "E112" => "misplaced (E112)",
            _ => "counted twice (E113)",
        };
        let all: Vec<String> = rest.iter().map(|(code, n)| format!("{n} {}", what(code))).collect();
        d = d.note(format!("also wrong at the end: {}", all.join(", ")));
    }
    Ok(Some(d))
}
