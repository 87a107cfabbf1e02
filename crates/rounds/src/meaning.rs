//! Meaning of rounds: executes them on exact multisets of contributions and checks the result
//! against the contract of the collective.
//!
//! The state maps (rank, buffer, atom) to a multiset of contributions. This module owns the state,
//! the rules of a round (E101, E103, E104), the contracts of `apply` (E102; places that a contract
//! does not cover are empty afterwards) and the comparison with the contract at the end.
//! `end_faults` writes the messages for errors at the end.
//!
//! After an error the contents of a place are *anything*, and no error that follows from
//! them is reported.

use std::collections::BTreeMap;
use std::rc::Rc;

use kbc_diag::{Diagnostic, Diagnostics, Span};

use crate::bag::{Bag, words_for};
use crate::cells::{Cell, Contribution, EMPTY, Holds, LastWrite, key_bases, transfer_at};
use crate::chain::{ContributionTrace, Hop, Loss, PlaceOfRank};
use crate::contract::{ContractValue, contract_value};
use crate::end_faults::{EndFault, first_fault};
use crate::eval::{ConcreteEvaluator, Fault};
use crate::library::{CollId, Library};
use crate::region::Region;
use crate::round_faults::{Reports, why_empty};
use crate::rounds::{Rounds, Transfer, Use};

/// Greatest number of places that a check may hold.
pub const MAX_CELLS: u64 = 1 << 24;

/// Checks rounds against the contract of their collective, and every use inside against
/// its own contract.
///
/// # Errors
/// Returns E101 to E104 for the errors of the first round that has any, once per statement. Returns
/// E110 to E113 for the fault at the end that arose first. Returns E040 above [`MAX_CELLS`].
pub fn check(lib: &Library, rounds: &Rounds) -> Result<(), Diagnostics> {
    let evaluator = ConcreteEvaluator::new(lib);
    let mut run = Run::new(lib, rounds, &evaluator, None)?;
    run.all()?;
    let wrong = std::mem::take(&mut run.wrong);
    std::mem::take(&mut run.reports).finish()?;
    drop(run);
    // A second run that watches a contribution records its path.
    let watched = |c: Contribution| {
        let mut again = Run::new(lib, rounds, &evaluator, Some(c))?;
        again.all()?;
        let holders = again.holders(c);
        Ok(ContributionTrace { holders, ..again.track })
    };
    match first_fault(lib, rounds, &wrong, watched)? {
        Some(d) => Err(d.into()),
        None => Ok(()),
    }
}

struct Run<'a> {
    lib: &'a Library,
    rounds: &'a Rounds,
    evaluator: &'a ConcreteEvaluator<'a>,
    width: usize,
    /// First key of each of the collective's buffers.
    bases: Vec<u32>,
    /// For each rank, the buffers that it has touched.
    state: Vec<BTreeMap<u32, Vec<Cell>>>,
    contracts: BTreeMap<(CollId, u32, Option<u32>), Rc<ContractValue>>,
    cells: u64,
    reports: Reports,
    wrong: Vec<EndFault>,
    watch: Option<Contribution>,
    track: ContributionTrace,
}

impl<'a> Run<'a> {
    fn new(
        lib: &'a Library,
        rounds: &'a Rounds,
        evaluator: &'a ConcreteEvaluator<'a>,
        watch: Option<Contribution>,
    ) -> Result<Self, Diagnostics> {
        let ranks = rounds.ranks();
        Ok(Run {
            lib,
            rounds,
            evaluator,
            width: words_for(ranks),
            bases: key_bases(rounds),
            state: vec![BTreeMap::new(); ranks as usize],
            contracts: BTreeMap::new(),
            cells: 0,
            reports: Reports::default(),
            wrong: vec![],
            watch,
            track: ContributionTrace::default(),
        })
    }

    fn all(&mut self) -> Result<(), Diagnostics> {
        let rounds = self.rounds;
        let mut marks = rounds.marks.iter().peekable();
        let mut number = 0;
        for t in 0..=rounds.rounds.len() {
            while let Some(m) = marks.next_if(|m| m.round as usize <= t) {
                let Some(u) = rounds.uses.get(m.site as usize) else { continue };
                let c = self.contract(u).map_err(|d| Diagnostics::from(*d))?;
                match (m.site, m.ends) {
                    (0, false) => self.start(u, &c)?,
                    (0, true) => self.end(u, &c),
                    (site, false) => self.enter(site, u, &c)?,
                    (site, true) => self.leave(site, u, &c)?,
                }
            }
            if let Some(round) = rounds.rounds.get(t) {
                self.round(t as u32, number, round)?;
                number += round.len() as u32;
            }
        }
        Ok(())
    }

    fn contract(&mut self, u: &Use) -> Result<Rc<ContractValue>, Fault> {
        let p = u.members.len() as u32;
        let key = (u.coll, p, u.root);
        if let Some(c) = self.contracts.get(&key) {
            return Ok(c.clone());
        }
        let c = Rc::new(contract_value(self.lib.collective(u.coll), p, u.root, self.evaluator)?);
        self.contracts.insert(key, c.clone());
        Ok(c)
    }

    fn cells(&mut self, rank: u32, buffer: u32) -> Result<&mut Vec<Cell>, Diagnostics> {
        let atoms = self.rounds.buffers.get(buffer as usize).map_or(0, |b| b.atoms);
        let of_rank = &mut self.state[rank as usize];
        if !of_rank.contains_key(&buffer) {
            self.cells += u64::from(atoms);
            if self.cells > MAX_CELLS {
                let span = self.rounds.uses.first().map_or(Span::NONE, |u| u.span);
                let d = Diagnostic::error(
                    "E040",
                    format!("the algorithm is too large to check: more than {MAX_CELLS} places"),
                )
                .primary(span, format!("{} ranks with {} atoms each", self.rounds.ranks(), self.rounds.atoms))
                .help("check it on fewer ranks");
                return Err(d.into());
            }
        }
        Ok(of_rank.entry(buffer).or_insert_with(|| vec![EMPTY; atoms as usize]))
    }

    fn start(&mut self, u: &Use, c: &ContractValue) -> Result<(), Diagnostics> {
        let width = self.width;
        for (i, blocks) in c.start.iter().enumerate() {
            let rank = u.members[i];
            for b in blocks {
                let base = self.bases[b.buffer as usize];
                let (first, unit) = block_of(u, c, b.buffer, b.block);
                let cells = self.cells(rank, b.buffer)?;
                for place in u.regions[b.buffer as usize].part(first, unit).places() {
                    let bag = Bag::single(base + place, rank, width);
                    cells[place as usize].holds = Holds::Sum(Rc::new(bag));
                }
            }
        }
        Ok(())
    }

    /// Begins an `apply`: the contents that its contract starts from must be there.
    fn enter(&mut self, site: u32, u: &Use, c: &ContractValue) -> Result<(), Diagnostics> {
        let rounds = self.rounds;
        for (i, blocks) in c.start.iter().enumerate() {
            let rank = u.members[i];
            for b in blocks {
                let (first, unit) = block_of(u, c, b.buffer, b.block);
                let part = u.regions[b.buffer as usize].part(first, unit);
                let cells = self.cells(rank, part.buffer)?;
                let Some((start, len, by)) = take_missing(&part, cells) else { continue };
                let coll = &self.lib.collective(u.coll).name.node;
                let (who, place) = (rounds.rank_name(rank), rounds.place_name(part.buffer, start, len));
                let d = Diagnostic::error(
                    "E102",
                    format!("this {coll} reads {place} on {who} as its input, and that place is empty"),
                )
                .primary(u.span, format!("before round {}", u.first + 1))
                .secondary(self.lib.collective(u.coll).span, "the contract: see `start`");
                let at = PlaceOfRank { rank, buffer: part.buffer, place: start };
                let d = why_empty(self.lib, rounds, d, by, at, u.first, false);
                let d = rounds.with_stack(d, rounds.uses[site as usize].parent);
                self.reports.push(
                    u.first,
                    d.help(
                        "an `apply` keeps only what its contract states: select a part that the contract of the earlier apply covers",
                    ),
                );
            }
        }
        Ok(())
    }

    /// Ends an `apply`: places that its contract does not cover become empty.
    fn leave(&mut self, site: u32, u: &Use, c: &ContractValue) -> Result<(), Diagnostics> {
        for (i, terms) in c.end.iter().enumerate() {
            let rank = u.members[i];
            for (b, region) in u.regions.iter().enumerate() {
                let count = if c.blocks[b] { u.members.len() } else { 1 };
                let mut named = vec![false; count];
                for t in terms.iter().filter(|t| t.place.buffer == b as u32) {
                    named[t.place.block as usize] = true;
                }
                for (block, _) in named.iter().enumerate().filter(|n| !n.1) {
                    let (first, unit) = block_of(u, c, b as u32, block as u32);
                    let part = region.part(first, unit);
                    for place in part.places() {
                        let watch = self.watch;
                        let cell = &mut self.cells(rank, part.buffer)?[place as usize];
                        let lost = matches!((&cell.holds, watch), (Holds::Sum(b), Some((k, r))) if b.count(k, r) > 0);
                        if !matches!(cell.holds, Holds::Nothing) {
                            *cell = Cell { holds: Holds::Nothing, by: LastWrite::End(site), ..EMPTY };
                        }
                        if lost {
                            let at = PlaceOfRank { rank, buffer: part.buffer, place };
                            self.track.losses.push(Loss { round: u.end, at, by: LastWrite::End(site) });
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Executes a round: all transfers read the state before the round, and then write.
    fn round(&mut self, t: u32, first: u32, transfers: &[Transfer]) -> Result<(), Diagnostics> {
        let mut values: Vec<Vec<Holds>> = Vec::with_capacity(transfers.len());
        for x in transfers {
            let cells = self.cells(x.src, x.from.buffer)?;
            let missing = first_missing(&x.from, cells);
            values.push(
                x.from
                    .places()
                    .map(|p| match &cells[p as usize].holds {
                        Holds::Nothing => Holds::Anything,
                        other => other.clone(),
                    })
                    .collect(),
            );
            if let Some((start, len, by)) = missing {
                let who = self.rounds.rank_name(x.src);
                let place = self.rounds.place_name(x.from.buffer, start, len);
                let d = Diagnostic::error("E101", format!("{who} reads {place}, which is empty")).primary(
                    x.span,
                    format!("in round {}, on the way to {}", t + 1, self.rounds.rank_name(x.dst)),
                );
                let at = PlaceOfRank { rank: x.src, buffer: x.from.buffer, place: start };
                let d = why_empty(self.lib, self.rounds, d, by, at, t, false);
                let d = match self.held(x.src, x.from.buffer) {
                    Some(held) => d.note(format!("{who} holds {held} at that time")),
                    None => d.note(format!("the whole buffer of {who} is empty at that time")),
                };
                let d = self.rounds.with_stack(d, x.site);
                self.reports.push(
                    t,
                    d.help("a rank can send its own contribution, or data that arrived in an earlier round"),
                );
            }
        }
        for (i, (x, values)) in transfers.iter().zip(values).enumerate() {
            self.write(t, first + i as u32, x, values)?;
        }
        Ok(())
    }

    fn write(&mut self, t: u32, number: u32, x: &Transfer, values: Vec<Holds>) -> Result<(), Diagnostics> {
        let watch = self.watch;
        let holds_watched =
            |h: &Holds| matches!((h, watch), (Holds::Sum(b), Some((k, r))) if b.count(k, r) > 0);
        let (mut conflict, mut empty) = (None, None);
        let (mut lost, mut hops) = (vec![], vec![]);
        let cells = self.cells(x.dst, x.to.buffer)?;
        for ((from, place), value) in x.from.places().zip(x.to.places()).zip(values) {
            if holds_watched(&value) && (x.src, &x.from.buffer, from) != (x.dst, &x.to.buffer, place) {
                hops.push((from, place));
            }
            let cell = &mut cells[place as usize];
            if cell.stamp == t + 1 && !(cell.reduced && x.reduce) {
                if let LastWrite::Transfer(other) = cell.by {
                    conflict.get_or_insert((place, other));
                }
                cell.holds = Holds::Anything;
                continue;
            }
            let had = holds_watched(&cell.holds);
            let next = match (x.reduce, &cell.holds, value) {
                (false, _, v) => v,
                (true, Holds::Sum(a), Holds::Sum(b)) => Holds::Sum(Rc::new(a.plus(&b, number))),
                (true, Holds::Nothing, _) => {
                    empty.get_or_insert((place, cell.by));
                    Holds::Anything
                }
                (true, ..) => Holds::Anything,
            };
            if had && !holds_watched(&next) {
                lost.push(place);
            }
            *cell = Cell { holds: next, by: LastWrite::Transfer(number), stamp: t + 1, reduced: x.reduce };
        }
        let (rounds, buffer) = (self.rounds, x.to.buffer);
        self.track.losses.extend(lost.into_iter().map(|place| Loss {
            round: t,
            at: PlaceOfRank { rank: x.dst, buffer, place },
            by: LastWrite::Transfer(number),
        }));
        self.track.hops.extend(hops.into_iter().map(|(from, place)| Hop {
            number,
            round: t,
            from: PlaceOfRank { rank: x.src, buffer: x.from.buffer, place: from },
            to: PlaceOfRank { rank: x.dst, buffer, place },
            adds: x.reduce,
        }));
        if conflict.is_none() && empty.is_none() {
            return Ok(());
        }
        let (who, from) = (rounds.rank_name(x.dst), rounds.rank_name(x.src));
        if let Some((place, other)) = conflict
            && let Some((_, y)) = transfer_at(rounds, other)
        {
            let place = rounds.place_name(buffer, place, 1);
            let verb = |x: &Transfer| if x.reduce { "added" } else { "written" };
            let mut d =
                Diagnostic::error("E103", format!("two writes to {place} of {who} in round {}", t + 1))
                    .primary(x.span, format!("{} from {from}", verb(x)));
            d = if y.span == x.span {
                d.note(format!("the other write is by the same statement, from {}", rounds.rank_name(y.src)))
            } else {
                d.secondary(y.span, format!("{} from {}", verb(y), rounds.rank_name(y.src)))
            };
            let help = match (x.reduce, y.reduce) {
                (false, false) => {
                    "move one of them to another round or another place, or write `reduce` in both"
                }
                _ => "write `reduce` in both to add both, or move one of them to another round",
            };
            self.reports.push(t, rounds.with_stack(d, x.site).help(help));
        }
        if let Some((place, by)) = empty {
            let at = PlaceOfRank { rank: x.dst, buffer, place };
            let place = rounds.place_name(buffer, place, 1);
            let d = Diagnostic::error("E104", format!("{from} adds into {place} of {who}, which is empty"))
                .primary(x.span, format!("in round {}", t + 1));
            let d = why_empty(self.lib, rounds, d, by, at, t, true);
            let d = rounds.with_stack(d, x.site);
            self.reports.push(t, d.help("the first write to a place must not have `reduce`"));
        }
        Ok(())
    }

    /// Returns some places of a buffer in which a rank holds something.
    fn held(&self, rank: u32, buffer: u32) -> Option<String> {
        let cells = self.state.get(rank as usize)?.get(&buffer)?;
        let mut runs: Vec<(u32, u32)> = vec![];
        for (i, _) in cells.iter().enumerate().filter(|(_, c)| !matches!(c.holds, Holds::Nothing)) {
            match runs.last_mut() {
                Some(r) if r.0 + r.1 == i as u32 => r.1 += 1,
                _ => runs.push((i as u32, 1)),
            }
        }
        let names: Vec<String> =
            runs.iter().take(4).map(|r| self.rounds.place_name(buffer, r.0, r.1)).collect();
        let more = if runs.len() > 4 { ", .." } else { "" };
        (!names.is_empty()).then(|| format!("{}{more}", names.join(", ")))
    }

    /// Compares the state with the contract of the call.
    fn end(&mut self, u: &Use, c: &ContractValue) {
        for (i, terms) in c.end.iter().enumerate() {
            let rank = u.members[i];
            for term in terms {
                let mut pattern: Option<Bag> = None;
                let (first, unit) = block_of(u, c, term.place.buffer, term.place.block);
                for s in &term.sources {
                    let (from, _) = block_of(u, c, s.block.buffer, s.block.block);
                    let key = self.bases[s.block.buffer as usize] + from;
                    let one = Bag::single(key, u.members[s.member as usize], self.width);
                    pattern = Some(pattern.map_or(one.clone(), |p| p.plus(&one, 0)));
                }
                // A sum over no ranks requires nothing.
                let Some(pattern) = pattern else { continue };
                let cells = self.state[rank as usize].get(&term.place.buffer);
                let mut k = 0;
                while k < unit {
                    let cell = cells.map_or(&EMPTY, |c| &c[(first + k) as usize]);
                    if let Some(w) = EndFault::find(cell, &pattern, k) {
                        let mut len = 1;
                        while k + len < unit {
                            let next = cells.map_or(&EMPTY, |c| &c[(first + k + len) as usize]);
                            match EndFault::find(next, &pattern, k + len) {
                                Some(n) if n.same_kind(&w) => len += 1,
                                _ => break,
                            }
                        }
                        self.wrong.push(w.at(rank, term.place.buffer, first + k, len));
                        k += len;
                    } else {
                        k += 1;
                    }
                }
            }
        }
    }

    /// Returns the places that hold a contribution now.
    fn holders(&self, (key, of): Contribution) -> Vec<PlaceOfRank> {
        let mut out = vec![];
        for (rank, buffers) in self.state.iter().enumerate() {
            for (&buffer, cells) in buffers {
                for (place, cell) in cells.iter().enumerate() {
                    if matches!(&cell.holds, Holds::Sum(b) if b.count(key, of) > 0) {
                        out.push(PlaceOfRank { rank: rank as u32, buffer, place: place as u32 });
                    }
                }
            }
        }
        out
    }
}

/// Returns the first atom on the line, and the length, of a block of a use's region.
fn block_of(u: &Use, c: &ContractValue, buffer: u32, block: u32) -> (u32, u32) {
    let len = u.regions.get(buffer as usize).map_or(0, |r| r.len);
    let count = if c.blocks[buffer as usize] { u.members.len() as u32 } else { 1 };
    let unit = len / count.max(1);
    (block * unit, unit)
}

/// Returns the first run of empty places.
fn first_missing(region: &Region, cells: &[Cell]) -> Option<(u32, u32, LastWrite)> {
    let empty = |p: &u32| matches!(cells[*p as usize].holds, Holds::Nothing);
    let mut places = region.places().skip_while(|p| !empty(p));
    let start = places.next()?;
    let mut len = 1;
    for p in places {
        if p != start + len || !empty(&p) {
            break;
        }
        len += 1;
    }
    Some((start, len, cells[start as usize].by))
}

/// Returns the first run of empty places, and sets all empty places to [`Holds::Anything`].
fn take_missing(region: &Region, cells: &mut [Cell]) -> Option<(u32, u32, LastWrite)> {
    let found = first_missing(region, cells)?;
    for p in region.places() {
        if matches!(cells[p as usize].holds, Holds::Nothing) {
            cells[p as usize].holds = Holds::Anything;
        }
    }
    Some(found)
}
