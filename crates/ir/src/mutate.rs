//! Mutations of a schedule: one small wrong change each, to measure whoever claims to find mistakes.
//!
//! Owns the enumeration (deterministic: in the order of the text, then of [`Kind`]) and the change itself. Whether a
//! mutant behaves differently is for its readers to find out; some do not (a second fence, a wait that another implies).

use crate::expr::{BinOp, Expr, UnOp};
use crate::schedule::*;
use kbc_diag::Span;

/// Which side of a transfer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Side {
    /// What is read.
    Source,
    /// What is written.
    Destination,
}

/// What is changed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Kind {
    /// The operation is left out.
    Drop,
    /// The operation is done twice.
    Duplicate,
    /// The operation changes places with the next statement.
    Swap,
    /// A coordinate of the peer is one more.
    Peer(u32),
    /// The slot is the next one.
    Slot(Side),
    /// A digit of a chunk is one more.
    Chunk(Side, u32),
    /// The counter is the next one.
    Counter,
    /// The value of a wait is one less.
    WaitLess,
    /// The value of a wait is one more.
    WaitMore,
    /// The value of a wait is that of the call before.
    Epoch,
    /// A reduction replaces instead.
    NoReduce,
    /// A copy reduces instead.
    Reduce,
    /// A guard is turned round.
    Guard,
    /// A loop ends one turn earlier.
    EndEarly,
    /// A loop begins one turn later.
    BeginLate,
    /// The predicate of a role is turned round.
    Role,
}

/// Where in the text: region, role, stream, and the way down its statements (number, and 1 for an `else`).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Site {
    /// Number of the region.
    pub region: usize,
    /// Number of the role.
    pub role: usize,
    /// Number of the stream.
    pub stream: usize,
    /// The way down; empty for the role itself.
    pub path: Vec<(usize, u8)>,
}

/// One change.
#[derive(Clone, PartialEq, Debug)]
pub struct Mutation {
    /// What.
    pub kind: Kind,
    /// Where.
    pub site: Site,
    /// The operation, by its first word (`put`, `for`, `role`).
    pub word: &'static str,
    /// The place in the source, where the statement has one.
    pub span: Span,
    /// In words.
    pub text: String,
}

/// First word of an operation.
pub fn word(op: &SOp) -> &'static str {
    match op {
        SOp::Copy { .. } => "copy",
        SOp::Reduce { .. } => "reduce",
        SOp::Put { .. } => "put",
        SOp::Get { .. } => "get",
        SOp::Send { .. } => "send",
        SOp::Recv { .. } => "recv",
        SOp::Room { .. } => "room",
        SOp::Notify { .. } => "notify",
        SOp::Wait { .. } => "wait",
        SOp::FenceRelease => "fence.release",
        SOp::FenceAcquire => "fence.acquire",
        SOp::FenceComplete => "fence.complete",
        SOp::Record(_) => "record",
        SOp::Await(_) => "await",
        SOp::Local(_) => "local",
        SOp::Mark { .. } => "mark",
        SOp::Launch(_) => "launch",
        SOp::HostWait(_) => "host.wait",
        SOp::HostRead(_) => "host.read",
        SOp::Drain => "drain",
    }
}

/// All mutations of a schedule.
pub fn mutations(s: &Schedule) -> Vec<Mutation> {
    let mut out = vec![];
    for (region, r) in s.regions.iter().enumerate() {
        for (role, l) in r.roles.iter().enumerate() {
            if matches!(l.ranks, RankSet::Where(_)) {
                let site = Site { region, role, stream: 0, path: vec![] };
                let text = format!("role {} of region {}: predicate turned round", l.name, r.name);
                out.push(Mutation { kind: Kind::Role, site, word: "role", span: r.span, text });
            }
            for (stream, st) in l.streams.iter().enumerate() {
                let mut site = Site { region, role, stream, path: vec![] };
                list(s, r, &st.body, &mut site, &mut out);
            }
        }
    }
    out
}

fn list(s: &Schedule, r: &Region, body: &[SStmt], site: &mut Site, out: &mut Vec<Mutation>) {
    for (i, st) in body.iter().enumerate() {
        let (word, span) = match st {
            SStmt::For { .. } => ("for", Span::NONE),
            SStmt::If { .. } => ("if", Span::NONE),
            SStmt::Op(op, span) => (word(op), *span),
        };
        site.path.push((i, 0));
        for kind in kinds(s, r, st, i + 1 < body.len()) {
            let text = format!("{word} in region {}: {}", r.name, describe(kind));
            out.push(Mutation { kind, site: site.clone(), word, span, text });
        }
        match st {
            SStmt::For { body, .. } => list(s, r, body, site, out),
            SStmt::If { then, other, .. } => {
                list(s, r, then, site, out);
                if let Some(last) = site.path.last_mut() {
                    last.1 = 1;
                }
                list(s, r, other, site, out);
            }
            SStmt::Op(..) => {}
        }
        site.path.pop();
    }
}

fn describe(kind: Kind) -> String {
    match kind {
        Kind::Drop => "left out".into(),
        Kind::Duplicate => "done twice".into(),
        Kind::Swap => "after the next statement".into(),
        Kind::Peer(i) => format!("coordinate {i} of the peer one more"),
        Kind::Slot(Side::Source) => "read from the next slot".into(),
        Kind::Slot(Side::Destination) => "written to the next slot".into(),
        Kind::Chunk(Side::Source, d) => format!("digit {d} of the chunk read one more"),
        Kind::Chunk(Side::Destination, d) => format!("digit {d} of the chunk written one more"),
        Kind::Counter => "the next counter".into(),
        Kind::WaitLess => "for one less".into(),
        Kind::WaitMore => "for one more".into(),
        Kind::Epoch => "for what the call before waited for".into(),
        Kind::NoReduce => "replaces instead".into(),
        Kind::Reduce => "reduces instead".into(),
        Kind::Guard => "guard turned round".into(),
        Kind::EndEarly => "ends one turn earlier".into(),
        Kind::BeginLate => "begins one turn later".into(),
        Kind::Role => "predicate turned round".into(),
    }
}

/// Kinds that change a statement.
fn kinds(s: &Schedule, r: &Region, st: &SStmt, more: bool) -> Vec<Kind> {
    let all = [Kind::Drop, Kind::Duplicate]
        .into_iter()
        .chain(more.then_some(Kind::Swap))
        .chain((0..r.coords.len() as u32).map(Kind::Peer))
        .chain([Side::Source, Side::Destination].into_iter().flat_map(|side| {
            std::iter::once(Kind::Slot(side)).chain((0..4).map(move |d| Kind::Chunk(side, d)))
        }))
        .chain([
            Kind::Counter,
            Kind::WaitLess,
            Kind::WaitMore,
            Kind::Epoch,
            Kind::NoReduce,
            Kind::Reduce,
            Kind::Guard,
            Kind::EndEarly,
            Kind::BeginLate,
        ]);
    all.filter(|k| *k == Kind::Swap || changed(s, r, st, *k).is_some()).collect()
}

/// The next of `count` things.
fn next(e: &Expr, count: impl Into<Expr>) -> Expr {
    (e.clone() + Expr::Int(1)).modulo(count)
}

fn turned(e: &Expr) -> Expr {
    Expr::un(UnOp::Not, e.clone())
}

/// What a statement becomes; none if the kind does not apply.
fn changed(s: &Schedule, r: &Region, st: &SStmt, kind: Kind) -> Option<Vec<SStmt>> {
    let mut new = st.clone();
    match (&mut new, kind) {
        (SStmt::If { cond, .. }, Kind::Guard) => *cond = turned(cond),
        (SStmt::For { hi, .. }, Kind::EndEarly) => *hi = hi.clone() - Expr::Int(1),
        (SStmt::For { lo, .. }, Kind::BeginLate) => *lo = lo.clone() + Expr::Int(1),
        (SStmt::Op(SOp::Mark { .. }, _), _) => return None,
        (SStmt::Op(..), Kind::Drop) => return Some(vec![]),
        (SStmt::Op(..), Kind::Duplicate) => return Some(vec![new.clone(), new]),
        (SStmt::Op(op, _), _) => operation(s, r, op, kind)?,
        _ => return None,
    }
    Some(vec![new])
}

fn operation(s: &Schedule, r: &Region, op: &mut SOp, kind: Kind) -> Option<()> {
    match (op, kind) {
        (SOp::Put { peer, .. } | SOp::Get { peer, .. } | SOp::Notify { peer, .. }, Kind::Peer(i)) => {
            let size = r.coords.get(i as usize)?.1;
            if size < 2 {
                return None;
            }
            let e = peer.get_mut(i as usize)?;
            *e = next(e, size as i64);
        }
        (
            SOp::Copy { dst, src }
            | SOp::Reduce { dst, src, .. }
            | SOp::Put { src, dst, .. }
            | SOp::Get { dst, src, .. },
            Kind::Slot(side) | Kind::Chunk(side, _),
        ) => {
            let x = if side == Side::Source { src } else { dst };
            match (x, kind) {
                (Ref::Slot { window, slot }, Kind::Slot(_)) => {
                    let slots = s.window(*window).slots;
                    if slots < 2 {
                        return None;
                    }
                    *slot = next(slot, slots as i64);
                }
                (Ref::Chunk { path, .. }, Kind::Chunk(_, d)) => {
                    let p = path.get_mut(d as usize)?;
                    if p.len != Expr::Int(1) || p.of == Expr::Int(1) {
                        return None;
                    }
                    p.index = next(&p.index, p.of.clone());
                }
                _ => return None,
            }
        }
        (SOp::Notify { signal, index, .. } | SOp::Wait { signal, index, .. }, Kind::Counter) => {
            let count = s.signal(*signal).count;
            if count < 2 {
                return None;
            }
            *index = next(index, count as i64);
        }
        (SOp::Wait { value, .. }, Kind::WaitLess) => *value = value.clone() - Expr::Int(1),
        (SOp::Wait { value, .. }, Kind::WaitMore) => *value = value.clone() + Expr::Int(1),
        (SOp::Wait { value, .. }, Kind::Epoch) => {
            if !value.mentions(CALL) {
                return None;
            }
            *value = value.subst(&|n| (n == CALL).then(|| Expr::var(CALL) - Expr::Int(1)));
        }
        (op @ SOp::Reduce { .. }, Kind::NoReduce) => {
            let SOp::Reduce { dst, src, .. } = op.clone() else { return None };
            *op = SOp::Copy { dst, src };
        }
        (op @ SOp::Copy { .. }, Kind::Reduce) => {
            let SOp::Copy { dst, src } = op.clone() else { return None };
            *op = SOp::Reduce { op: crate::types::ReduceOp::Sum, dst, src };
        }
        _ => return None,
    }
    Some(())
}

/// The schedule with a mutation; unchanged if the site is not one of its own.
pub fn apply(s: &Schedule, m: &Mutation) -> Schedule {
    change(s, m, None)
}

/// The schedule with a mutation on one rank of each group only, by index in the group: a guard around the statement.
pub fn apply_on(s: &Schedule, m: &Mutation, index: u64) -> Schedule {
    change(s, m, Some(index))
}

fn change(s: &Schedule, m: &Mutation, only: Option<u64>) -> Schedule {
    let mut out = s.clone();
    let Some(region) = s.regions.get(m.site.region) else { return out };
    // The coordinates of the one rank.
    let guard = only.map(|index| {
        let mut rest = index;
        let mut cond: Option<Expr> = None;
        for (name, size) in region.coords.iter().rev() {
            let here = Expr::bin(BinOp::Eq, Expr::var(name.as_str()), Expr::Int((rest % size) as i64));
            rest /= size;
            cond = Some(match cond {
                Some(c) => here.and(c),
                None => here,
            });
        }
        cond.unwrap_or(Expr::Int(1))
    });
    let Some(role) = out.regions[m.site.region].roles.get_mut(m.site.role) else { return out };
    let Some((last, above)) = m.site.path.split_last() else {
        if let (RankSet::Where(e), Kind::Role) = (&mut role.ranks, m.kind) {
            let flipped = turned(e);
            *e = match guard {
                Some(g) => Expr::select(g, flipped, e.clone()),
                None => flipped,
            };
        }
        return out;
    };
    let Some(stream) = role.streams.get_mut(m.site.stream) else { return out };
    let mut body = &mut stream.body;
    for (i, branch) in above {
        body = match body.get_mut(*i) {
            Some(SStmt::For { body, .. }) => body,
            Some(SStmt::If { then, other, .. }) => {
                if *branch == 1 {
                    other
                } else {
                    then
                }
            }
            _ => return s.clone(),
        };
    }
    let (i, n) = (last.0, if m.kind == Kind::Swap { 2 } else { 1 });
    if i + n > body.len() {
        return s.clone();
    }
    let old: Vec<SStmt> = body[i..i + n].to_vec();
    let new = if m.kind == Kind::Swap {
        old.iter().rev().cloned().collect()
    } else {
        match changed(s, region, &old[0], m.kind) {
            Some(list) => list,
            None => return s.clone(),
        }
    };
    let put = match guard {
        Some(cond) => vec![SStmt::If { cond, then: new, other: old }],
        None => new,
    };
    body.splice(i..i + n, put);
    out
}
