//! Lanes: the streams of a region as one text in terms of `core`.
//!
//! If the streams of a region are lanes that differ in numbers alone, they become one text: the
//! windows of the lanes become one window with the slots of all, and their counters become one
//! array. If lanes differ in more, each core has its own branch.

use super::address::{add, mul};
use super::errors::refuse;
use crate::tile::visit::{each_in, leaves, with_forms};
use crate::tile::{Area, Signals, Stmt};
use kbc_diag::{Diagnostic, Span};
use kbc_ir::expr::Expr;
use kbc_ir::name::Name;
use kbc_ir::schedule::{
    Counter, RankSet, Ref, Region, Role, SOp, SStmt, Schedule, SignalId, WindowId, each_op_mut,
};
use std::cell::RefCell;

/// Name of this core's number while names of the schedule are still in use. No name of a schedule
/// is written so.
pub(super) const THIS: &str = "#core";
/// Name of the number of meetings per call, until this number is known.
pub(super) const CORE_BARRIERS: &str = "#meetings";
/// How work has been divided among the cores since they last met.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum WorkDivision {
    /// There has been no work.
    Nothing,
    /// Element i of every memory belongs to the core whose part of `total` elements contains i.
    /// Parts are cut at multiples of `unit`.
    Parts {
        /// Number of all elements.
        total: Expr,
        /// Number of elements of a line.
        unit: u64,
    },
    /// Divided in any other way.
    Other,
}

/// The streams of a region as one text.
pub(super) struct Merged {
    /// Statements of core `#core`.
    pub(super) body: Vec<SStmt>,
    /// Number of cores that have work.
    pub(super) cores: u32,
    /// Windows that became one; the first of a list stands for all of it.
    pub(super) windows: Vec<Vec<WindowId>>,
    /// Counters that became one array.
    pub(super) signals: Vec<Vec<SignalId>>,
}

/// Returns the number of cores that a schedule asks for: the largest number of streams of a region.
pub(super) fn requested_cores(schedule: &Schedule) -> u32 {
    let roles = schedule.regions.iter().flat_map(|r| &r.roles);
    roles.map(|r| r.streams.len() as u32).max().unwrap_or(1).max(1)
}

/// Returns the streams of a region as one text, if it has several.
///
/// # Errors
/// Returns E470 if the streams are not lanes, or if only some ranks have them.
pub(super) fn merged(schedule: &Schedule, region: &Region) -> Result<Option<Merged>, Diagnostic> {
    let [role] = region.roles.as_slice() else {
        return match region.roles.iter().find(|r| r.streams.len() > 1) {
            None => Ok(None),
            Some(r) => Err(no_lanes(region, r)),
        };
    };
    if role.streams.len() < 2 {
        return Ok(None);
    }
    let lanes = lanes(role).ok_or_else(|| no_lanes(region, role))?;
    if let Some(m) = unified(schedule, &lanes) {
        return Ok(Some(m));
    }
    let body = lanes.iter().enumerate().rev().fold(vec![], |other, (j, lane)| {
        let cond = Expr::var(THIS).equals(Expr::Int(j as i64));
        vec![SStmt::If { cond, then: lane.to_vec(), other }]
    });
    Ok(Some(Merged { body, cores: lanes.len() as u32, windows: vec![], signals: vec![] }))
}

fn no_lanes(region: &Region, role: &Role) -> Diagnostic {
    refuse(
        region.span,
        format!("region @{} with {} streams in role {}", region.name, role.streams.len(), role.name),
        "streams that begin and end together can run on separate cores: write `cores: k`",
    )
}

/// Checks whether ranks only work on their own tensors, one operation after another. Some
/// operations may be for some ranks alone.
pub(super) fn local(region: &Region) -> bool {
    fn own(list: &[SStmt]) -> bool {
        list.iter().all(|s| match s {
            SStmt::For { body, .. } => own(body),
            SStmt::If { then, other, .. } => own(then) && own(other),
            SStmt::Op(op, _) => matches!(op, SOp::Local(_)),
        })
    }
    match region.roles.as_slice() {
        [Role { ranks: RankSet::All, streams, .. }] => streams.iter().all(|s| own(&s.body)),
        _ => false,
    }
}

/// Returns the bodies of streams that begin together (an event of the first stream) and end
/// together (an event of each other stream).
fn lanes(role: &Role) -> Option<Vec<&[SStmt]>> {
    let (first, others) = role.streams.split_first()?;
    let (SStmt::Op(SOp::Record(go), _), rest) = first.body.split_first()? else { return None };
    let (own, ends) = rest.split_at(rest.len().checked_sub(others.len())?);
    let mut out = vec![own];
    for (stream, end) in others.iter().zip(ends) {
        let (SStmt::Op(SOp::Await(begin), _), rest) = stream.body.split_first()? else { return None };
        let (SStmt::Op(SOp::Record(done), _), body) = rest.split_last()? else { return None };
        let SStmt::Op(SOp::Await(end), _) = end else { return None };
        if begin != go || done != end {
            return None;
        }
        out.push(body);
    }
    out.iter().all(|l| !events(l)).then_some(out)
}

fn events(list: &[SStmt]) -> bool {
    list.iter().any(|s| match s {
        SStmt::For { body, .. } => events(body),
        SStmt::If { then, other, .. } => events(then) || events(other),
        SStmt::Op(op, _) => matches!(op, SOp::Record(_) | SOp::Await(_)),
    })
}

/// What may differ between lanes: numbers, windows and counters, each in text order. The remaining
/// text of a lane is compared.
#[derive(Default)]
struct Shape {
    numbers: RefCell<Vec<i64>>,
    windows: RefCell<Vec<WindowId>>,
    signals: RefCell<Vec<SignalId>>,
}

/// Returns the index of an item in a list, and appends the item if it is new.
fn place<T: PartialEq + Copy>(list: &RefCell<Vec<T>>, item: T) -> u32 {
    let mut list = list.borrow_mut();
    let at = list.iter().position(|i| *i == item).unwrap_or_else(|| {
        list.push(item);
        list.len() - 1
    });
    at as u32
}

impl Shape {
    fn body(&self, list: &[SStmt], names: &mut Vec<(Name, Name)>) -> Vec<SStmt> {
        let expr = |e: &Expr, names: &[(Name, Name)]| {
            let e = e.subst(&|n| {
                names.iter().rev().find(|(old, _)| old == n).map(|(_, new)| Expr::Var(new.clone()))
            });
            leaves(&e, &mut self.numbers.borrow_mut());
            with_forms(&e, &mut std::iter::repeat(Expr::Int(0)))
        };
        let mut out = vec![];
        for s in list {
            out.push(match s {
                SStmt::For { var, lo, hi, body } => {
                    let (lo, hi) = (expr(lo, names), expr(hi, names));
                    let new: Name = format!("#{}", names.len()).into();
                    names.push((var.clone(), new.clone()));
                    let body = self.body(body, names);
                    names.pop();
                    SStmt::For { var: new, lo, hi, body }
                }
                SStmt::If { cond, then, other } => {
                    let cond = expr(cond, names);
                    SStmt::If { cond, then: self.body(then, names), other: self.body(other, names) }
                }
                SStmt::Op(op, _) => {
                    let mut op = op.map_exprs(&|e| expr(e, names));
                    op = op.map_windows(&|w| WindowId(place(&self.windows, w)));
                    if let SOp::Notify { counter: Counter { signal, .. }, .. }
                    | SOp::Wait { counter: Counter { signal, .. }, .. } = &mut op
                    {
                        *signal = SignalId(place(&self.signals, *signal));
                    }
                    SStmt::Op(op, Span::NONE)
                }
            });
        }
        out
    }
}

/// Returns the lanes as one text, if they differ only in numbers that are linear in the number of
/// the lane, and in windows and counters of the same form.
fn unified(schedule: &Schedule, lanes: &[&[SStmt]]) -> Option<Merged> {
    let shapes: Vec<Shape> = lanes.iter().map(|_| Shape::default()).collect();
    let texts: Vec<Vec<SStmt>> =
        shapes.iter().zip(lanes).map(|(shape, lane)| shape.body(lane, &mut vec![])).collect();
    if texts.iter().any(|t| *t != texts[0]) {
        return None;
    }
    let column = |list: &dyn Fn(&Shape) -> Vec<u32>| -> Option<Vec<Vec<u32>>> {
        let all: Vec<Vec<u32>> = shapes.iter().map(list).collect();
        let mut every: Vec<u32> = all.concat();
        every.sort_unstable();
        let count = every.len();
        every.dedup();
        // Every lane must have windows and counters of its own.
        (every.len() == count)
            .then(|| (0..all[0].len()).map(|i| all.iter().map(|l| l[i]).collect()).collect())
    };
    let windows = column(&|s| s.windows.borrow().iter().map(|w| w.0).collect())?;
    let signals = column(&|s| s.signals.borrow().iter().map(|s| s.0).collect())?;
    let window = |i: u32| &schedule.windows[i as usize];
    let signal = |i: u32| &schedule.signals[i as usize];
    let same = |list: &[u32], f: &dyn Fn(u32, u32) -> bool| list.iter().all(|i| f(*i, list[0]));
    let alike = windows
        .iter()
        .all(|l| same(l, &|a, b| window(a).slots == window(b).slots && window(a).dtype == window(b).dtype))
        && signals
            .iter()
            .all(|l| same(l, &|a, b| signal(a).count == signal(b).count && signal(a).form == signal(b).form));
    if !alike {
        return None;
    }
    let numbers: Vec<Vec<i64>> = shapes.iter().map(|s| s.numbers.borrow().clone()).collect();
    let forms: Option<Vec<Expr>> = (0..numbers[0].len())
        .map(|at| {
            let (first, step) = (numbers[0][at], numbers[1][at].checked_sub(numbers[0][at])?);
            let linear = |j: usize| step.checked_mul(j as i64)?.checked_add(first);
            let all = (0..numbers.len()).all(|j| linear(j) == Some(numbers[j][at]));
            all.then(|| add(&mul(&Expr::var(THIS), &Expr::Int(step)), &Expr::Int(first)))
        })
        .collect();
    let forms = RefCell::new(forms?.into_iter());
    let replaced = |e: &Expr| with_forms(e, &mut *forms.borrow_mut()).simplify();
    // This traversal visits expressions in the same order as that of the shapes.
    let mut body = rewritten(lanes[0], &replaced);
    let lane = |count: u64| mul(&Expr::var(THIS), &Expr::Int(count as i64));
    each_op_mut(&mut body, &mut |op, _| match op {
        SOp::Notify { counter: Counter { signal: s, index }, .. }
        | SOp::Wait { counter: Counter { signal: s, index }, .. } => {
            *index = add(&lane(signal(s.0).count), index);
        }
        SOp::Copy { dst, src }
        | SOp::Reduce { dst, src, .. }
        | SOp::Put { dst, src, .. }
        | SOp::Get { dst, src, .. } => {
            for r in [dst, src] {
                if let Ref::Slot { window: w, slot } = r {
                    *slot = add(&lane(window(w.0).slots), slot);
                }
            }
        }
        _ => {}
    });
    let ids = |all: Vec<Vec<u32>>| all.into_iter().map(|l| l.into_iter().map(WindowId).collect()).collect();
    let signals = signals.into_iter().map(|l| l.into_iter().map(SignalId).collect()).collect();
    Some(Merged { body, cores: lanes.len() as u32, windows: ids(windows), signals })
}

fn rewritten(list: &[SStmt], f: &impl Fn(&Expr) -> Expr) -> Vec<SStmt> {
    let mut out = vec![];
    for s in list {
        out.push(match s {
            SStmt::For { var, lo, hi, body } => {
                let (lo, hi) = (f(lo), f(hi));
                SStmt::For { var: var.clone(), lo, hi, body: rewritten(body, f) }
            }
            SStmt::If { cond, then, other } => {
                let cond = f(cond);
                SStmt::If { cond, then: rewritten(then, f), other: rewritten(other, f) }
            }
            SStmt::Op(op, span) => SStmt::Op(op.map_exprs(f), *span),
        });
    }
    out
}

impl Merged {
    /// Gives windows and counters that stand for several the room of all of them. They share memory
    /// with no other area.
    pub(super) fn grow(&self, areas: &mut [Area], signals: &mut [Signals]) {
        for list in &self.windows {
            let most = list.iter().filter_map(|w| areas[w.0 as usize].capacity.as_int()).max().unwrap_or(0);
            let arena = areas.iter().map(|a| a.arena + 1).max().unwrap_or(0);
            let a = &mut areas[list[0].0 as usize];
            a.slots = mul(&a.slots, &Expr::Int(list.len() as i64));
            (a.capacity, a.arena) = (Expr::Int(most), arena);
        }
        for list in &self.signals {
            let most = list.iter().filter_map(|s| signals[s.0 as usize].per_call.as_int()).max().unwrap_or(0);
            let s = &mut signals[list[0].0 as usize];
            s.count = mul(&s.count, &Expr::Int(list.len() as i64));
            s.per_call = Expr::Int(most);
        }
    }
}

/// Returns the counters by which cores meet: one per core for which the first core waits, and one
/// of the first core for which the others wait.
pub(super) fn core_barrier_counters(cores: u32, taken: &[Signals]) -> [Signals; 2] {
    let name = |hint: &str| -> Name {
        let free = |n: &String| taken.iter().all(|s| s.name != **n);
        let mut names = std::iter::once(hint.to_owned()).chain((2..).map(|i| format!("{hint}_{i}")));
        names.find(free).unwrap_or_else(|| hint.to_owned()).into()
    };
    let array = |hint, count: u32| Signals {
        name: name(hint),
        count: Expr::Int(count.into()),
        per_call: Expr::var(CORE_BARRIERS),
        at: None,
    };
    [array("core_here", cores), array("cores_on", 1)]
}

/// Inserts the number of meetings per call.
pub(super) fn count_core_barriers(core_barriers: i64, signals: &mut [Signals], body: &mut [Stmt]) {
    let known = |e: &mut Expr| {
        *e = e.subst(&|n| (n == CORE_BARRIERS).then_some(Expr::Int(core_barriers))).simplify();
    };
    signals.iter_mut().for_each(|s| known(&mut s.per_call));
    each_in(body, &mut |e| known(e));
}
