//! Messages of a run: one for each pair of source positions and code, however often it occurs.
//!
//! The module owns the words of order and meaning errors. [`super::deadlock`] describes deadlocks.

use super::Setup;
use super::meaning::{Broken, NoMeaning};
use super::order::{AccessRecord, Completion, Conflict};
use kbc_diag::{Diagnostic, Diagnostics, Span};
use std::collections::BTreeMap;

/// Number of the operation that fills buffer 0 before a call. That of buffer b is smaller by 2 b.
pub(super) const FILL: u32 = u32::MAX - 1;
/// Number of the operation that reads buffer 0 after a call. That of buffer b is smaller by 2 b.
pub(super) const TAKE: u32 = u32::MAX - 2;

/// Messages, each kept once with its number of occurrences.
pub(super) struct Report<'p> {
    setup: &'p Setup<'p>,
    seen: BTreeMap<(&'static str, Span, Span), (Diagnostic, u64)>,
    most: usize,
    all_kinds: bool,
}

/// An access as messages name it.
pub(super) struct NamedAccess {
    pub rank: u64,
    pub span: Span,
    pub place: usize,
    /// The rank to which the memory belongs.
    pub on: u64,
    pub writes: bool,
}

impl<'p> Report<'p> {
    pub(super) fn new(setup: &'p Setup<'p>, most: usize, all_kinds: bool) -> Self {
        Report { setup, seen: BTreeMap::new(), most, all_kinds }
    }

    /// Whether the maximum number of messages has been reached.
    pub(super) fn full(&self) -> bool {
        self.seen.len() >= self.most
    }

    pub(super) fn is_empty(&self) -> bool {
        self.seen.is_empty()
    }

    /// Adds a message unless an equal one exists.
    pub(super) fn push(&mut self, code: &'static str, a: Span, b: Span, make: impl FnOnce() -> Diagnostic) {
        let full = self.full();
        if let Some((_, n)) = self.seen.get_mut(&(code, a, b)) {
            *n += 1;
        } else if !full {
            self.seen.insert((code, a, b), (make(), 1));
        }
    }

    /// Returns the messages. If accesses are not ordered, contents are those of one order out of
    /// many, so messages about contents are left out.
    pub(super) fn finish(self) -> Diagnostics {
        let mut out = Diagnostics::new();
        let race = !self.all_kinds && self.seen.keys().any(|k| ("E345"..="E350").contains(&k.0));
        for (d, n) in self.seen.into_values() {
            if race && (("E341"..="E344").contains(&d.code) || d.code == "E336") {
                continue;
            }
            out.push(if n > 1 { d.note(format!("{} more errors of this kind", n - 1)) } else { d });
        }
        out.finish()
    }

    fn rank(&self, r: u64) -> String {
        self.setup.rank(r)
    }

    fn span(&self, acc: &AccessRecord) -> Span {
        self.setup.span(acc.op)
    }

    /// Reports two accesses that are not ordered, or not sufficiently.
    pub(super) fn conflict(&mut self, c: Conflict, now: NamedAccess, calls: (usize, usize)) {
        let other = self.span(&c.with);
        let setup = self.setup;
        let place = setup.grids.show(setup.schedule, now.place);
        let who = self.rank(c.with.stream as u64 / setup.width as u64);
        let (me, on) = (self.rank(now.rank), self.rank(now.on));
        let extra = match setup.host(c.with.op) {
            Some((_, true)) => " (the host writes it before each call)",
            Some((_, false)) => " (the host reads the result)",
            None => "",
        };
        self.push(c.code, now.span, other, || {
            let did = if c.wrote { "written" } else { "read" };
            let does = if now.writes { "written" } else { "read" };
            let (title, help) = match c.code {
                "E345" => (
                    format!("{place} of rank {on} is {does} after a notify that was sent before the earlier access was complete"),
                    match c.with.kind() {
                        Completion::Get => "put `fence.complete` and `fence.release` between the get and the notify",
                        Completion::Local | Completion::Put => "put `fence.release` between that access and the notify",
                    },
                ),
                "E346" => (
                    format!("{place} is read on rank {on} before the data that arrived is visible"),
                    "put `fence.acquire` between the wait and this read",
                ),
                "E347" if c.indirect => (
                    format!("{place} is read on rank {on}, which has not waited for the writer itself"),
                    "wait for a notify of the writer: a notify of a third rank orders the write but does not make it visible",
                ),
                "E347" => (
                    format!("{place} is read on rank {on} without waiting for its writer"),
                    "notify after the write and its fence, and wait for that notify before this read (on one rank: `record` and `await`)",
                ),
                "E348" => (
                    format!("{place} of rank {on} is rewritten while it may still be {did}"),
                    "wait for a credit (a notify that the slot is free), or use another slot",
                ),
                "E349" => (
                    format!("call {} rewrites {place} of rank {on} while call {} may still use it", calls.1, calls.0),
                    "wait for a credit (a notify that the slot is free), or alternate between slots with `call % k`",
                ),
                _ => match c.with.kind() {
                    Completion::Get => (
                        format!("{place} of rank {on} is {does} before the get is complete"),
                        "put `fence.complete` between the get and this access",
                    ),
                    Completion::Local | Completion::Put => (
                        format!("{place} of rank {on} is {does} while a put may still use it"),
                        "put `fence.release` between the put and this access",
                    ),
                },
            };
            let mut d = Diagnostic::error(c.code, title)
                .primary(now.span, format!("{does} here by rank {me}, in call {}", calls.1))
                .secondary(other, format!("{did} here by rank {who}, in call {}{extra}", calls.0))
                .help(help);
            if c.indirect {
                d = d.note("the two accesses are ordered through other ranks; this is enough to overwrite the data but not to read it");
            }
            d
        });
    }

    /// Reports data without a meaning.
    pub(super) fn trouble(&mut self, t: NoMeaning, rank: u64, call: u64, span: Span) {
        let me = self.rank(rank);
        self.push(t.code, span, Span::NONE, || {
            Diagnostic::error(t.code, t.text)
                .primary(span, format!("on rank {me}, in call {call}"))
                .help(t.help)
        });
    }

    /// Reports a place that differs from the contract.
    pub(super) fn broken(&mut self, b: &Broken, region: u32, call: u64, last: Option<AccessRecord>) {
        let setup = self.setup;
        let r = &setup.schedule.regions[region as usize];
        let rank = self.rank(setup.group.reps[b.rep]);
        let name = |o: u32| r.operands[o as usize].name.clone();
        let of = |o: u32, atom: u64| {
            let atoms = setup.operand(region, o).1;
            if atoms == 1 { name(o).to_string() } else { format!("{}[{atom} of {atoms}]", name(o)) }
        };
        let place = if b.atoms == 1 { name(b.operand).to_string() } else { of(b.operand, b.atom) };
        let source = of(b.from.0, b.from.1);
        let (writer, by) = match &last {
            Some(a) => (self.span(a), self.rank(a.stream as u64 / setup.width as u64)),
            None => (Span::NONE, String::new()),
        };
        let member = |i: u32| {
            let q = setup.program.group_rank(
                kbc_ir::schedule::RegionId(region),
                setup.group.reps[b.rep],
                i as u64,
            );
            setup.rank(q)
        };
        let d = &b.difference;
        let mut add = |code: &'static str, title: String, second: Span, text: String, help: &str| {
            self.push(code, r.span, second, || {
                let d = Diagnostic::error(code, title)
                    .primary(r.span, format!("required by the contract of this region, in call {call}"))
                    .secondary(second, text)
                    .help(help);
                if last.is_none() {
                    d.note(format!("no operation of this schedule writes to {place}"))
                } else {
                    d
                }
            });
        };
        let wrote = format!("{place} was last written here by rank {by}");
        if let Some((first, n)) = d.lost {
            let what = if d.empty { "is empty" } else { "lacks a contribution" };
            let others = if n > 1 { format!(" and {} more of {}", n - 1, b.ranks) } else { String::new() };
            add(
                "E341",
                format!(
                    "at the end {place} of rank {rank} {what}: {source} of rank {}{others} is lost",
                    member(first)
                ),
                writer,
                wrote.clone(),
                "every contribution must reach every place that the contract names",
            );
        }
        if let Some((first, n, op)) = d.twice {
            let title = if first == u32::MAX {
                format!("at the end {place} of rank {rank} holds {n} contributions too many")
            } else {
                format!(
                    "at the end {place} of rank {rank} holds {source} of rank {} {n} times",
                    member(first)
                )
            };
            let (second, text) = if op == u32::MAX {
                (writer, wrote.clone())
            } else {
                (setup.span(op), "this operation adds it again".into())
            };
            add("E342", title, second, text, "each contribution may be combined only once on its path");
        }
        if let Some((first, n)) = d.foreign {
            let title = match first {
                Some((q, l)) => {
                    let (o, atom) = super::contents::unlabel(l);
                    let others = if n > 1 { format!(" and {} more", n - 1) } else { String::new() };
                    format!(
                        "at the end {place} of rank {rank} holds {} of rank {}{others}, which the contract does not allow there",
                        of(o, atom),
                        member(q)
                    )
                }
                None => format!(
                    "at the end {place} of rank {rank} holds other contributions than the contract requires"
                ),
            };
            add("E343", title, writer, wrote, "compare the chunks on both sides of the transfers");
        }
    }
}
