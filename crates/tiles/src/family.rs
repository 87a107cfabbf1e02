//! Kernel families: kernels lowered at several rank counts and element counts are compared and
//! generalised to one kernel for all these sizes.
//!
//! The module owns the comparison, and the forms that a number may have in `nranks` and `count`.
//! That the generalised kernel is correct at a size does not rest on the fit: [`same_trace`]
//! compares the concrete instructions of every rank with those of the kernel lowered from the
//! proven schedule of that size.

use crate::lower::settle;
use crate::tile::trace::{Launch, Loops, TraceEvent, TraceProgram};
use crate::tile::verify;
use crate::tile::visit::{each_in, leaves, with_forms};
use crate::tile::{CALL, COUNT, Kernel, NRANKS, Op, RANK, Stmt, Table};
use kbc_ir::expr::{BinOp, Expr, UnOp};
use kbc_ir::name::Name;
use std::collections::{BTreeMap, BTreeSet};

/// Number of calls whose traces are compared: slots and counters alternate from call to call.
const CALLS: i64 = 3;

/// Maximum number of events of a trace that is compared.
const EVENTS: usize = 1_000_000;

/// Number of events that are compared before all others.
const BEGINNING: usize = 4096;

/// A kernel lowered from the schedule of one size.
#[derive(Clone, Debug)]
pub struct Instance {
    /// Number of ranks.
    pub ranks: u64,
    /// Number of elements of the variable size; 0 if the program has none.
    pub count: u64,
    /// The kernel, with constants for both.
    pub kernel: Kernel,
}

/// Returns the kernel of which all the instances are special cases, if they differ in numbers alone
/// and every number has one of the known forms. The instances of a rank count at which some number
/// has no common form with the others are left out. `sizes` are the sizes of the program's
/// dimensions: numbers may be parts of them. `counted`: the kernel has the scalar `count`.
pub fn generalise(instances: &[Instance], sizes: &[u64], counted: bool) -> Option<Kernel> {
    let first = instances.first()?;
    let skeleton = skeleton(&first.kernel);
    if instances.iter().any(|i| self::skeleton(&i.kernel) != skeleton) {
        return None;
    }
    let numbers: Vec<Vec<i64>> = instances.iter().map(|i| numbers(&i.kernel)).collect();
    let basis = Basis::new(instances, sizes);
    // Instances that are still considered. If a number has no common form at all of them, a rank
    // count without which it has one is left out.
    let mut left = vec![true; instances.len()];
    let ranks: BTreeSet<u64> = instances.iter().map(|i| i.ranks).collect();
    let positions: Vec<Vec<i64>> = (0..numbers.first()?.len())
        .map(|at| numbers.iter().map(|n| n.get(at).copied().unwrap_or(0)).collect())
        .collect();
    for values in &positions {
        if basis.form(values, &left).is_none() {
            let without = |r: u64| -> Vec<bool> {
                instances.iter().zip(&left).map(|(i, l)| *l && i.ranks != r).collect()
            };
            left = ranks.iter().map(|r| without(*r)).find(|l| basis.form(values, l).is_some())?;
        }
    }
    let forms: Vec<Expr> = positions.iter().map(|values| basis.form(values, &left)).collect::<Option<_>>()?;
    let mut kernel = first.kernel.clone();
    let mut next = forms.into_iter();
    each_expr(&mut kernel, &mut |e| *e = with_forms(e, &mut next).simplify());
    for (i, table) in kernel.tables.iter_mut().enumerate() {
        for other in instances {
            table.values.extend(other.kernel.tables[i].values.clone());
        }
    }
    kernel.scalars = scalars(counted);
    settle(&mut kernel);
    Some(kernel)
}

/// Adds entries to the tables of a kernel for rank counts at which they have none: zeros, as many
/// for each rank as at the other rank counts, or no entries if that number differs. A schedule in
/// which all ranks would have the same entry has a number in the place of the table, and one whose
/// loop over the entries has no iteration reads none. Whether the kernel agrees with that of the
/// schedule is for [`same_trace`] to say.
pub fn add_constant_tables(kernel: &mut Kernel, ranks: &BTreeSet<u64>) {
    for table in &mut kernel.tables {
        let mut each = table.values.iter().map(|(r, list)| (list.len() as u64 / r, list.len() as u64 % r));
        let Some(first) = each.next() else { continue };
        let of_rank = if first.1 == 0 && each.all(|e| e == first) { first.0 } else { 0 };
        for r in ranks {
            table.values.entry(*r).or_insert_with(|| vec![0; (of_rank * r) as usize]);
        }
    }
}

/// Returns the kernel for one size alone. `nranks` is an argument all the same, for the checks of
/// host and kernel.
pub fn single(instance: &Instance) -> Kernel {
    let mut kernel = Kernel { scalars: scalars(false), ..instance.kernel.clone() };
    settle(&mut kernel);
    kernel
}

fn scalars(counted: bool) -> Vec<Name> {
    let count = counted.then_some(COUNT);
    [Some(NRANKS), count, Some(CALL)].into_iter().flatten().map(Name::from).collect()
}

/// Checks whether two kernels differ in numbers and tables alone.
pub fn alike(a: &Kernel, b: &Kernel) -> bool {
    skeleton(a) == skeleton(b)
}

/// Checks whether a kernel does at an instance's size what the instance's kernel does: the same
/// memory, and the same operations with the same numbers on every rank, in several calls.
///
/// # Errors
/// Returns the errors of tracing the instance's kernel, which are bugs of the lowering.
pub fn same_trace(kernel: &Kernel, instance: &Instance) -> Result<bool, kbc_diag::Diagnostics> {
    same_calls(kernel, instance, CALLS)
}

/// Like [`same_trace`], but compares the first call alone. This is a third of the work, for sizes
/// that are compared in full afterwards.
///
/// # Errors
/// Same as [`same_trace`].
pub fn same_first_call(kernel: &Kernel, instance: &Instance) -> Result<bool, kbc_diag::Diagnostics> {
    same_calls(kernel, instance, 1)
}

fn same_calls(kernel: &Kernel, instance: &Instance, calls: i64) -> Result<bool, kbc_diag::Diagnostics> {
    let same_memory = kernel.cores == instance.kernel.cores
        && kernel.most_cores() == instance.kernel.most_cores()
        && kernel.areas.len() == instance.kernel.areas.len()
        && kernel.signals.len() == instance.kernel.signals.len()
        && memory(kernel, instance) == memory(&instance.kernel, instance);
    if !same_memory {
        return Ok(false);
    }
    let theirs = TraceProgram::new(&instance.kernel)?;
    let Ok(ours) = TraceProgram::new(kernel) else { return Ok(false) };
    let (nranks, count) = (instance.ranks as i64, instance.count as i64);
    let cores = i64::from(instance.kernel.most_cores());
    let mut events = vec![];
    for call in 0..calls {
        for agent in 0..nranks * cores {
            let scalars = BTreeMap::from([(COUNT.into(), count)]);
            let launch = Launch { nranks, rank: agent / cores, core: agent % cores, call, scalars };
            // A loop that is affine with numbers may not be affine with expressions; then every
            // tile is compared.
            if !same_launch(&theirs, &ours, &launch, Loops::Ends, &mut events)?
                && !same_launch(&theirs, &ours, &launch, Loops::Unrolled, &mut events).unwrap_or(false)
            {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// Checks whether two kernels have the same trace in a launch. Kernels that differ often do so
/// early, so beginnings are compared first. `events` is working space.
///
/// # Errors
/// Returns the errors of tracing `theirs`, for what lies before the first difference.
fn same_launch<'k>(
    theirs: &TraceProgram<'k>,
    ours: &TraceProgram,
    launch: &Launch,
    loops: Loops,
    events: &mut Vec<TraceEvent<'k>>,
) -> Result<bool, kbc_diag::Diagnostics> {
    for most in [BEGINNING, EVENTS + 1] {
        let all = theirs.beginning(launch, loops, EVENTS, most, events)?;
        if !ours.begins_with(launch, loops, EVENTS, events, all).unwrap_or(false) {
            return Ok(false);
        }
        if all {
            break;
        }
    }
    Ok(true)
}

/// Checks whether every operation of a kernel stays within its memory, on every rank, and whether
/// every element of a divided matmul has one writer, at counts at which cuts have empty and uneven
/// parts. At counts with distinct chunk boundaries, the traces of proven schedules have shown that
/// operations stay within their memory.
pub fn in_range(kernel: &Kernel, ranks: u64) -> bool {
    let Ok(program) = TraceProgram::new(kernel) else { return false };
    let counts = [0, 1, ranks - 1, 7 * ranks + 3];
    counts.iter().all(|count| {
        let cores = i64::from(kernel.most_cores());
        let traced = |agent: i64| {
            let scalars = BTreeMap::from([(COUNT.into(), *count as i64)]);
            let (rank, core) = (agent / cores, agent % cores);
            let launch = Launch { nranks: ranks as i64, rank, core, call: 1, scalars };
            program.check(&launch, Loops::Ends, EVENTS).is_ok()
        };
        verify::one_writer(kernel, ranks, *count).is_ok() && (0..ranks as i64 * cores).all(traced)
    })
}

/// Returns slots, capacities and arenas of areas, counters of signals, and for every rank the
/// lengths of tensors; `None` if an expression has no value.
fn memory(kernel: &Kernel, instance: &Instance) -> Option<Vec<i64>> {
    let value = |e: &Expr, rank: u64| {
        e.eval(&|n: &Name| match n.as_str() {
            NRANKS => Some(instance.ranks as i64),
            COUNT => Some(instance.count as i64),
            RANK => Some(rank as i64),
            _ => None,
        })
        .ok()
    };
    let mut out = vec![];
    for a in &kernel.areas {
        out.extend([value(&a.slots, 0)?, value(&a.capacity, 0)?, i64::from(a.arena)]);
    }
    for s in &kernel.signals {
        out.extend([value(&s.count, 0)?, value(&s.per_call, 0)?]);
    }
    for rank in 0..instance.ranks {
        for t in &kernel.tensors {
            out.push(value(&t.len, rank)?);
        }
    }
    Some(out)
}

/// Checks whether the element count decides nothing but sizes and places of data: no loop over
/// steps, condition, peer, slot or signal mentions it. Then what was proven for a count with
/// distinct chunk boundaries holds for every count (ADR 12).
pub fn count_is_data(kernel: &Kernel) -> bool {
    // A name that is computed from the count counts as the count itself.
    let mut tainted: Vec<Name> = vec![COUNT.into()];
    data_only(&kernel.body, &mut tainted)
}

fn data_only(body: &[Stmt], tainted: &mut Vec<Name>) -> bool {
    let depth = tainted.len();
    let mut ok = true;
    for stmt in body {
        let clean = |e: &Expr| {
            let mut clean = true;
            e.vars(&mut |v| clean &= !tainted.contains(v));
            clean
        };
        ok &= match stmt {
            Stmt::Let { name, value } => {
                if !clean(value) {
                    tainted.push(name.clone());
                }
                true
            }
            // A loop without signals, for instance over the rows of a tensor, only moves data.
            Stmt::For { body, .. } if !signals(body) => true,
            Stmt::For { lo, hi, body, .. } => clean(lo) && clean(hi) && data_only(body, tainted),
            // What is loaded again and what is still there changes no result.
            Stmt::If { then, other, .. } if loads_blocks(then) && loads_blocks(other) => true,
            Stmt::If { cond, then, other } => {
                clean(cond) && data_only(then, tainted) && data_only(other, tainted)
            }
            Stmt::Op(Op::Notify { peer, index, .. }) => clean(peer) && clean(index),
            Stmt::Op(Op::Wait { index, value, .. } | Op::Defer { index, value, .. }) => {
                clean(index) && clean(value)
            }
            Stmt::Op(Op::Load { from: gm, .. } | Op::Store { to: gm, .. }) => {
                clean(&gm.slot) && gm.peer.as_ref().is_none_or(clean)
            }
            Stmt::Op(
                Op::LoadRow { from: gm, .. }
                | Op::LoadRows { from: gm, .. }
                | Op::StoreRows { to: gm, .. }
                | Op::LoadBlock { from: gm, .. }
                | Op::StoreBlock { to: gm, .. },
            ) => clean(&gm.slot) && gm.peer.as_ref().is_none_or(clean),
            Stmt::Tiles { body, .. } | Stmt::Turn { body, .. } | Stmt::Task { body, .. } => {
                data_only(body, tainted)
            }
            Stmt::Op(_) | Stmt::Note { .. } => true,
        };
    }
    tainted.truncate(depth);
    ok
}

/// Checks whether statements only load blocks of matrices into the core, from this rank's memory.
fn loads_blocks(body: &[Stmt]) -> bool {
    body.iter().all(|s| matches!(s, Stmt::Op(Op::LoadBlock { from, .. }) if from.peer.is_none()))
}

fn signals(body: &[Stmt]) -> bool {
    body.iter().any(|s| {
        let own = matches!(s, Stmt::Op(Op::Notify { .. } | Op::Wait { .. } | Op::Defer { .. }));
        own || s.blocks().any(|block| signals(block))
    })
}

/// Returns the kernel with every number replaced by 0.
fn skeleton(kernel: &Kernel) -> Kernel {
    let mut out = kernel.clone();
    out.scalars.clear();
    out.tables = out.tables.into_iter().map(|t| Table { values: Default::default(), ..t }).collect();
    let mut zero = std::iter::repeat(Expr::Int(0));
    each_expr(&mut out, &mut |e| *e = with_forms(e, &mut zero));
    out
}

/// Returns all numbers of a kernel, in a fixed order.
fn numbers(kernel: &Kernel) -> Vec<i64> {
    let mut out = vec![];
    each_expr(&mut kernel.clone(), &mut |e| leaves(e, &mut out));
    out
}

/// Calls `f` with every expression of a kernel, in a fixed order.
fn each_expr(kernel: &mut Kernel, f: &mut impl FnMut(&mut Expr)) {
    for t in &mut kernel.tensors {
        f(&mut t.len);
    }
    for s in &mut kernel.signals {
        f(&mut s.count);
        f(&mut s.per_call);
        s.at.iter_mut().for_each(&mut *f);
    }
    for a in &mut kernel.areas {
        f(&mut a.slots);
        f(&mut a.capacity);
        a.at.iter_mut().for_each(&mut *f);
    }
    each_in(&mut kernel.body, f);
}

/// The quantities from which the form of a number is composed, with their values at every instance.
struct Basis {
    quantities: Vec<(Expr, Vec<i64>)>,
}

impl Basis {
    fn new(instances: &[Instance], sizes: &[u64]) -> Basis {
        let (p, n) = (Expr::var(NRANKS), Expr::var(COUNT));
        let part = |of: &Expr, by: Expr| crate::lower::address::div_up(of, &by);
        let times = |k: i64, e: &Expr| crate::lower::address::mul(&Expr::Int(k), e);
        let log = Expr::un(UnOp::Log2, p.clone());
        let power = Expr::bin(BinOp::Shl, Expr::Int(1), log.clone());
        let mut list = vec![
            p.clone(),
            n.clone(),
            power.clone(),
            log,
            Expr::un(UnOp::CeilLog2, p.clone()),
            part(&n, p.clone()),
            part(&n, Expr::Int(2)),
            part(&n, times(2, &p)),
            part(&n, power.clone()),
            part(&n, times(2, &power)),
            part(&n, Expr::Int(4)),
            part(&n, Expr::Int(3)),
            Expr::bin(BinOp::Mul, p.clone(), p.clone()),
        ];
        let cores = instances.first().map_or(1, |i| i64::from(i.kernel.cores));
        if cores > 1 {
            let k = Expr::Int(cores);
            let lanes = [p.clone(), power.clone(), times(2, &p), times(2, &power)];
            list.extend(lanes.iter().map(|e| part(&n, times(cores, e))));
            list.push(part(&n, k));
        }
        // Parts of the program's own sizes come first: they are more likely than forms that only
        // agree with them at a few rank counts.
        let parts = sizes.iter().map(|s| part(&Expr::Int(*s as i64), p.clone()));
        list.splice(2..2, parts);
        list.push(Expr::bin(BinOp::Div, p.clone(), Expr::Int(2)));
        // The remainder above a power of two.
        list.push(Expr::bin(BinOp::Sub, p.clone(), power.clone()));
        let at = |e: &Expr, i: &Instance| {
            e.eval(&|v: &Name| match v.as_str() {
                NRANKS => Some(i.ranks as i64),
                COUNT => Some(i.count as i64),
                _ => None,
            })
            .unwrap_or(0)
        };
        let quantities = list.into_iter().map(|e| {
            let values = instances.iter().map(|i| at(&e, i)).collect();
            (e, values)
        });
        Basis { quantities: quantities.collect() }
    }

    /// Returns the form of a number at the instances that are left: a constant, a multiple of a
    /// quantity plus a constant, or this times another quantity.
    fn form(&self, values: &[i64], left: &[bool]) -> Option<Expr> {
        let some = |list: &[i64]| -> Vec<i64> {
            list.iter().zip(left).filter(|(_, l)| **l).map(|(v, _)| *v).collect()
        };
        let quantities = self.quantities.iter().map(|(e, at)| (e.clone(), some(at))).collect();
        Basis { quantities }.fit(&some(values))
    }

    fn fit(&self, values: &[i64]) -> Option<Expr> {
        if let Some(e) = self.linear(values) {
            return Some(e);
        }
        for (quantity, at) in &self.quantities {
            let whole = at.iter().zip(values).all(|(q, v)| *q != 0 && v % q == 0);
            if !whole {
                continue;
            }
            let rest: Vec<i64> = at.iter().zip(values).map(|(q, v)| v / q).collect();
            if let Some(factor) = self.linear(&rest) {
                return Some(Expr::bin(BinOp::Mul, factor, quantity.clone()));
            }
        }
        None
    }

    fn linear(&self, values: &[i64]) -> Option<Expr> {
        let v0 = *values.first()?;
        if values.iter().all(|v| *v == v0) {
            return Some(Expr::Int(v0));
        }
        self.quantities.iter().find_map(|(quantity, at)| {
            let other = at.iter().position(|q| *q != at[0])?;
            let (dv, dq) = (values[other] - v0, at[other] - at[0]);
            let a = (dv % dq == 0).then_some(dv / dq)?;
            let b = v0 - a.checked_mul(at[0])?;
            let fits = at
                .iter()
                .zip(values)
                .all(|(q, v)| a.checked_mul(*q).and_then(|x| x.checked_add(b)) == Some(*v));
            let scaled = Expr::bin(BinOp::Mul, Expr::Int(a), quantity.clone());
            fits.then(|| Expr::bin(BinOp::Add, scaled, Expr::Int(b)))
        })
    }
}
