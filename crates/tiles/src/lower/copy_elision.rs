//! Copy elision: removes staging copies that a kernel does not need.
//!
//! If a buffer begins as a copy of another one and a collective works on it, then what the
//! collective reads before it has written it can be read from the other buffer. The module decides
//! at which places of a schedule's text this holds, by walking every rank at the schedule's sizes.
//! The result is again a schedule: the copy is gone, transfers read the other buffer, and a
//! reduction into an element that is still the other buffer's becomes `copy v[c] = x[c]` and
//! `reduce v[c], w`. Lowering makes one loop of the two, with two loads and one store. If a place
//! reads the other buffer only in the first step of its loop, that step is moved in front of the
//! loop. In all other cases the copy stays.

use super::accesses::{names, touched};
use super::elision::{Elision, statement};
use super::own_block::own_block;
use super::write_in_place::write_in_place;
use kbc_ir::cut::Chunks;
use kbc_ir::expr::Expr;
use kbc_ir::name::Name;
use kbc_ir::rewrite::map_exprs;
use kbc_ir::schedule::{
    Buffer, BufferId, BufferRole, LocalOp, Operand, OperandId, Part, RankSet, Ref, RegionId, SOp, SStmt,
    Schedule, each_op,
};
use kbc_ir::walk::Program;
use std::collections::BTreeMap;

/// Maximum number of ranks that are walked: as many as a domain has.
const RANKS: u64 = 64;
/// Maximum number of steps of a walk; with more steps the copy stays.
const STEPS: u32 = 2_000_000;

/// Which copies of a schedule a kernel has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Staging {
    /// Like [`Staging::Fused`]; in addition, local operations that follow each other are computed
    /// in one loop, over tiles of whole rows where rows are reduced or share an element. The text
    /// of the kernel then depends on the length of a row.
    Rows,
    /// Like [`Staging::Needed`]; in addition, elementwise functions of the results of collectives
    /// are computed while these results are in the core.
    Fused,
    /// Only copies that something reads and could not read elsewhere. Which places change may
    /// differ between rank counts.
    Needed,
    /// All copies of the schedule.
    Whole,
}

/// Returns the schedule without the copies that it does not need; `None` if it needs all of them.
pub(super) fn without_staging(schedule: &Schedule) -> Option<Schedule> {
    let mut work = Elision::new(schedule);
    let mut any = false;
    for at in copies(schedule) {
        if let Some(forward) = forwarded(&work, &at) {
            work.change_region(forward.region, |r| {
                for (stream, body) in r.roles[0].streams.iter_mut().zip(forward.bodies) {
                    stream.body = body;
                }
                r.operands.push(forward.other);
            });
            work.remove((at.region, 0, at.statement));
            any = true;
        }
    }
    any |= write_in_place(&mut work);
    any |= own_block(&mut work);
    any.then(|| work.finish())
}

/// A copy of a whole buffer to one on which a collective works.
struct Staged {
    region: usize,
    statement: usize,
    to: BufferId,
    from: BufferId,
}

fn copies(s: &Schedule) -> Vec<Staged> {
    let mut out = vec![];
    for (region, r) in s.regions.iter().enumerate().filter(|(_, r)| super::lanes::local(r)) {
        for (statement, stmt) in r.roles[0].streams[0].body.iter().enumerate() {
            let (to, from) = match stmt {
                SStmt::Op(SOp::Local(LocalOp::Copy { dst, src }), _) => (*dst, *src),
                // Parts of the first dimension are already one after another.
                SStmt::Op(SOp::Local(LocalOp::Pack { dst, src, dim: 0, at: None, .. }), _) => (*dst, *src),
                _ => continue,
            };
            let like = |b: BufferId| -> &Buffer { s.buffer(b) };
            if like(to).role == BufferRole::Temp && !like(to).zero && like(to).dtype == like(from).dtype {
                out.push(Staged { region, statement, to, from });
            }
        }
    }
    out
}

/// Returns the operations after a copy whose statements touch one of its two buffers: (region,
/// operation).
fn after<'w>(work: &'w Elision<'_>, at: &Staged) -> Vec<(usize, &'w SOp)> {
    let mut out = vec![];
    for use_at in work.of_either(at.to, at.from) {
        let (region, _, place) = use_at;
        if region > at.region || region == at.region && place > at.statement {
            let stmt = statement(&work.now, use_at).map_or(&[][..], std::slice::from_ref);
            each_op(stmt, &mut |op, _| out.push((region, op)));
        }
    }
    out
}

/// When a place reads elements that are still the copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum When {
    Always,
    Never,
    /// Only in the first step of the loop around it.
    First,
}

/// The operand of an operation that a place reads.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum ReadOperand {
    /// The operand that is copied or put.
    Moved,
    /// The operand that is added to.
    Sum,
    /// The operand that is added.
    Added,
}

/// A place that reads: stream, path of the statement, and operand of the operation.
type ReadSite = (usize, Vec<u32>, ReadOperand);

/// Ranges of elements, ordered and disjoint.
#[derive(Default)]
struct Ranges(Vec<(u64, u64)>);

impl Ranges {
    fn add(&mut self, lo: u64, hi: u64) {
        if lo >= hi {
            return;
        }
        let (mut lo, mut hi) = (lo, hi);
        self.0.retain(|(a, b)| {
            let apart = *b < lo || hi < *a;
            if !apart {
                (lo, hi) = (lo.min(*a), hi.max(*b));
            }
            apart
        });
        let at = self.0.partition_point(|r| r.0 < lo);
        self.0.insert(at, (lo, hi));
    }

    fn holds(&self, lo: u64, hi: u64) -> bool {
        lo >= hi || self.0.iter().any(|(a, b)| *a <= lo && hi <= *b)
    }

    fn overlaps(&self, lo: u64, hi: u64) -> bool {
        self.0.iter().any(|(a, b)| *a < hi && lo < *b)
    }
}

/// The collective that works without a copy.
struct Forward {
    region: usize,
    /// The bodies of its streams, which read the other buffer.
    bodies: Vec<Vec<SStmt>>,
    /// The operand that is the other buffer.
    other: Operand,
}

/// Returns the change that makes this copy superfluous, if everything that reads the buffer can do
/// without it.
fn forwarded(work: &Elision<'_>, at: &Staged) -> Option<Forward> {
    let s = &work.now;
    let ops = after(work, at);
    let region = ops.iter().find(|(i, op)| {
        let t = touched(&s.regions[*i], op);
        [t.reads, t.writes, t.remote].concat().contains(&at.to)
    });
    let number = region?.0;
    let region = &s.regions[number];
    let over = |i: usize, op: &SOp| {
        let t = touched(&s.regions[i], op);
        let local = i == number && matches!(op, SOp::Local(_)) && t.reads.contains(&at.to);
        t.remote.contains(&at.to) || t.writes.contains(&at.from) || t.remote.contains(&at.from) || local
    };
    let one = matches!(region.roles.as_slice(), [r] if matches!(r.ranks, RankSet::All));
    let mut operands = (0..).zip(&region.operands).filter(|(_, o)| o.buffer == at.to);
    let (Some((operand, v)), None) = (operands.next(), operands.next()) else { return None };
    if !one || super::lanes::local(region) || ops.iter().any(|(i, op)| over(*i, op)) || s.mesh.ranks() > RANKS
    {
        return None;
    }
    // The program knows the operands that the region had at first.
    ((operand as usize) < work.operands(number)).then_some(())?;
    let program = work.program()?;
    let id = RegionId(number as u32);
    let mut sites: BTreeMap<ReadSite, Vec<(bool, bool)>> = BTreeMap::new();
    let mut steps = STEPS;
    for rank in 0..s.mesh.ranks() {
        let mut walk = Walk {
            s,
            program,
            id,
            operand: OperandId(operand),
            rank,
            names: names(s, program, id, rank),
            written: Ranges::default(),
            sites: &mut sites,
            steps: &mut steps,
        };
        for (i, stream) in region.roles[0].streams.iter().enumerate() {
            walk.body(&stream.body, &mut (i, vec![]), true)?;
        }
        let written = walk.written;
        let whole = program.elements(at.to, rank).ok()?;
        for (i, op) in ops.iter().filter(|(i, _)| *i > number) {
            if touched(&s.regions[*i], op).reads.contains(&at.to) {
                let (lo, hi) = read_later(program, op, rank, whole)?;
                written.holds(lo, hi).then_some(())?;
            }
        }
    }
    let mut when: BTreeMap<ReadSite, When> = BTreeMap::new();
    for (site, seen) in sites {
        let begins = seen.iter().all(|(fresh, first)| fresh == first);
        let w = match () {
            // A loop of one step is treated like one with more steps: its first addition is
            // separate.
            () if site.2 == ReadOperand::Sum && begins => When::First,
            () if seen.iter().all(|(fresh, _)| *fresh) => When::Always,
            () if seen.iter().all(|(fresh, _)| !fresh) => When::Never,
            () if begins => When::First,
            () => return None,
        };
        when.insert(site, w);
    }
    let taken =
        |n: &str| region.operands.iter().any(|o| o.name == *n) || region.coords.iter().any(|c| c.0 == *n);
    let mut name = format!("{}_in", v.name);
    while taken(&name) {
        name.push('_');
    }
    let other = Operand { name: name.into(), buffer: at.from, line: v.line.clone(), scratch: true };
    let edit = Edit { v: OperandId(operand), x: OperandId(region.operands.len() as u32), when: &when };
    let streams = region.roles[0].streams.iter().enumerate();
    let bodies = streams.map(|(i, stream)| edit.body(&stream.body, &mut (i, vec![]), true)).collect();
    Some(Forward { region: number, bodies, other })
}

/// Returns the elements of the buffer that an operation after the collective reads; `None` for an
/// operation that is not local.
fn read_later(program: &Program<'_>, op: &SOp, rank: u64, whole: u64) -> Option<(u64, u64)> {
    match op {
        SOp::Local(LocalOp::Unpack { dst, dim, parts, rule, at: Some(at), .. }) => {
            let dims = program.dims(*dst, rank).ok()?;
            let around = dims.iter().enumerate().filter(|(d, _)| *d != *dim as usize);
            let unit: u64 = around.map(|(_, n)| n).product();
            let at = u64::try_from(program.local_value(at, rank).ok()?).ok()?;
            let extent = whole.checked_div(unit).unwrap_or(0);
            let edge = |i| rule.boundary(extent, i, *parts) * unit;
            (at < *parts).then(|| (edge(at), edge(at + 1)))
        }
        SOp::Local(_) => Some((0, whole)),
        _ => None,
    }
}

struct Walk<'w, 's> {
    s: &'s Schedule,
    program: &'w Program<'s>,
    id: RegionId,
    operand: OperandId,
    rank: u64,
    names: Vec<(Name, i64)>,
    written: Ranges,
    sites: &'w mut BTreeMap<ReadSite, Vec<(bool, bool)>>,
    steps: &'w mut u32,
}

impl Walk<'_, '_> {
    fn value(&self, e: &Expr) -> Option<i64> {
        struct WalkEnv<'h>(&'h [(Name, i64)], &'h Schedule);
        impl kbc_ir::expr::Env for WalkEnv<'_> {
            fn var(&self, name: &Name) -> Option<i64> {
                self.0.iter().rev().find(|(n, _)| n == name).map(|(_, v)| *v)
            }
            fn table(&self, name: &Name, index: i64) -> Option<i64> {
                let t = self.1.tables.iter().find(|t| t.name == *name)?;
                t.values.get(usize::try_from(index).ok()?).copied()
            }
        }
        e.eval(&WalkEnv(&self.names, self.s)).ok()
    }

    /// Walks a list. `first`: whether this is the first step of the loop around it.
    fn body(&mut self, list: &[SStmt], at: &mut (usize, Vec<u32>), first: bool) -> Option<()> {
        for (i, s) in (0..).zip(list) {
            *self.steps = self.steps.checked_sub(1)?;
            at.1.push(i);
            match s {
                SStmt::For { var, lo, hi, body } => {
                    let (lo, hi) = (self.value(lo)?, self.value(hi)?);
                    for k in lo..hi {
                        self.names.push((var.clone(), k));
                        self.body(body, at, k == lo)?;
                        self.names.pop();
                    }
                }
                SStmt::If { cond, then, other } => {
                    let (branch, list) = if self.value(cond)? != 0 { (0, then) } else { (1, other) };
                    at.1.push(branch);
                    self.body(list, at, first)?;
                    at.1.pop();
                }
                SStmt::Op(op, _) => self.op(op, at, first)?,
            }
            at.1.pop();
        }
        Some(())
    }

    fn op(&mut self, op: &SOp, at: &(usize, Vec<u32>), first: bool) -> Option<()> {
        let (reads, write): (Vec<(ReadOperand, &Ref)>, Option<&Ref>) = match op {
            SOp::Copy { dst, src } => (vec![(ReadOperand::Moved, src)], Some(dst)),
            SOp::Reduce { dst, src, .. } => {
                (vec![(ReadOperand::Sum, dst), (ReadOperand::Added, src)], Some(dst))
            }
            SOp::Put { src, .. } => (vec![(ReadOperand::Moved, src)], None),
            SOp::Get { dst, .. } => (vec![], Some(dst)),
            SOp::GetCombine { dst, .. } => (vec![(ReadOperand::Sum, dst)], Some(dst)),
            SOp::Send { .. }
            | SOp::Recv { .. }
            | SOp::Room { .. }
            | SOp::Notify { .. }
            | SOp::Wait { .. }
            | SOp::FenceRelease
            | SOp::FenceAcquire
            | SOp::FenceComplete
            | SOp::Record(_)
            | SOp::Await(_)
            | SOp::Local(_)
            | SOp::Mark(_)
            | SOp::HostRead(_)
            | SOp::Host(_) => (vec![], None),
        };
        for (n, r) in reads {
            let Some((lo, hi)) = self.range(r)? else { continue };
            if lo < hi {
                let fresh = !self.written.overlaps(lo, hi);
                (fresh || self.written.holds(lo, hi)).then_some(())?;
                let seen = self.sites.entry((at.0, at.1.clone(), n)).or_default();
                if !seen.contains(&(fresh, first)) {
                    seen.push((fresh, first));
                }
            }
        }
        if let Some((lo, hi)) = write.map_or(Some(None), |w| self.range(w))? {
            self.written.add(lo, hi);
        }
        Some(())
    }

    /// Returns the elements of the buffer that a reference names; `Some(None)` if it names another
    /// buffer.
    fn range(&self, r: &Ref) -> Option<Option<(u64, u64)>> {
        let Ref::Chunk { operand, path } = r else { return Some(None) };
        if *operand != self.operand {
            return Some(None);
        }
        let Chunks { num, cnt, den } =
            path.iter().try_fold(Chunks::WHOLE, |at, Part { index, len, of }| {
                at.cut([self.value(index)?, self.value(len)?, self.value(of)?]).ok()
            })?;
        let edge =
            |n: u64| self.program.chunk_start(self.id, self.operand, self.rank, n as i64, den as i64).ok();
        Some(Some((edge(num)?, edge(num + cnt)?)))
    }
}

/// Rewriter of the text with the new reads.
struct Edit<'e> {
    v: OperandId,
    x: OperandId,
    when: &'e BTreeMap<ReadSite, When>,
}

impl Edit<'_> {
    /// Rewrites a list. `first`: whether the loop around it is at its first step, or there is none.
    fn body(&self, list: &[SStmt], at: &mut (usize, Vec<u32>), first: bool) -> Vec<SStmt> {
        let mut out = vec![];
        for (i, s) in (0..).zip(list) {
            at.1.push(i);
            match s {
                SStmt::For { var, lo, hi, body } => {
                    let rest = self.body(body, at, false);
                    let begin = self.body(body, at, true);
                    if begin == rest {
                        out.push(SStmt::For { var: var.clone(), lo: lo.clone(), hi: hi.clone(), body: rest });
                    } else {
                        let step = |e: &Expr| e.subst(&|n| (n == var).then(|| lo.clone())).simplify();
                        let then = map_exprs(&begin, &step);
                        let cond = Expr::bin(kbc_ir::expr::BinOp::Lt, lo.clone(), hi.clone()).simplify();
                        out.push(SStmt::If { cond, then, other: vec![] });
                        let lo = (lo.clone() + Expr::Int(1)).simplify();
                        out.push(SStmt::For { var: var.clone(), lo, hi: hi.clone(), body: rest });
                    }
                }
                SStmt::If { cond, then, other } => {
                    let mut branch = |n: u32, list: &[SStmt]| {
                        at.1.push(n);
                        let out = self.body(list, at, first);
                        at.1.pop();
                        out
                    };
                    let (then, other) = (branch(0, then), branch(1, other));
                    out.push(SStmt::If { cond: cond.clone(), then, other });
                }
                SStmt::Op(op, span) => {
                    out.extend(self.op(op, at, first).into_iter().map(|op| SStmt::Op(op, *span)))
                }
            }
            at.1.pop();
        }
        out
    }

    fn op(&self, op: &SOp, at: &(usize, Vec<u32>), first: bool) -> Vec<SOp> {
        let fresh = |n: ReadOperand| match self.when.get(&(at.0, at.1.clone(), n)) {
            Some(When::Always) => true,
            Some(When::First) => first,
            Some(When::Never) | None => false,
        };
        let other = |r: &Ref, n: ReadOperand| match r {
            Ref::Chunk { operand, path } if *operand == self.v && fresh(n) => {
                Ref::Chunk { operand: self.x, path: path.clone() }
            }
            r => r.clone(),
        };
        match op {
            SOp::Copy { dst, src } => {
                vec![SOp::Copy { dst: dst.clone(), src: other(src, ReadOperand::Moved) }]
            }
            SOp::Put { src, peer, dst } => {
                vec![SOp::Put { src: other(src, ReadOperand::Moved), peer: peer.clone(), dst: dst.clone() }]
            }
            SOp::Reduce { op, dst, src } => {
                let own = other(dst, ReadOperand::Sum);
                let reduce = SOp::Reduce { op: *op, dst: dst.clone(), src: other(src, ReadOperand::Added) };
                match own == *dst {
                    true => vec![reduce],
                    false => vec![SOp::Copy { dst: dst.clone(), src: own }, reduce],
                }
            }
            op => vec![op.clone()],
        }
    }
}
