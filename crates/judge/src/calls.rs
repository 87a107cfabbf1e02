//! Number of calls that reveal a misuse of slots, and the comparison of two schedules operation by
//! operation.

use kbc_ir::expr::{BinOp, Expr, gcd};
use kbc_ir::host::with_host_region;
use kbc_ir::schedule::{CALL, Calls, SStmt, Schedule};
use kbc_ir::walk::{Cursor, Program, Step};
use std::cell::RefCell;

/// Maximum number of calls that are tried.
const MAX_CALLS: i64 = 8;

/// Returns the number of calls to run: that of the deepest ring of slots, plus two. Every slot is
/// then used again, by ranks that are as far apart as the ring allows. The result is 1 for a
/// schedule that claims only its first call.
pub fn calls(s: &Schedule) -> u32 {
    if s.calls == Calls::First {
        return 1;
    }
    let mut deepest = 1;
    let mut look = |e: &Expr| ring(e, &mut deepest);
    for stream in s.regions.iter().flat_map(|r| &r.roles).flat_map(|role| &role.streams) {
        visit(&stream.body, &mut look);
    }
    (deepest.min(MAX_CALLS) + 2) as u32
}

fn visit(list: &[SStmt], look: &mut dyn FnMut(&Expr)) {
    for st in list {
        match st {
            SStmt::For { lo, hi, body, .. } => {
                look(lo);
                look(hi);
                visit(body, look);
            }
            SStmt::If { cond, then, other } => {
                look(cond);
                visit(then, look);
                visit(other, look);
            }
            SStmt::Op(op, _) => {
                // All expressions of the operation are visited; the mapped operation is not needed.
                let seen = RefCell::new(vec![]);
                op.map_exprs(&|e| {
                    seen.borrow_mut().push(e.clone());
                    Expr::Int(0)
                });
                seen.into_inner().iter().for_each(&mut *look);
            }
        }
    }
}

/// Raises `deepest` to the number of calls after which `E mod k` repeats.
fn ring(e: &Expr, deepest: &mut i64) {
    match e {
        Expr::Int(_) | Expr::Var(_) => {}
        Expr::Un(_, a) | Expr::Table(_, a) => ring(a, deepest),
        Expr::Select(a, b, c) => [a, b, c].into_iter().for_each(|x| ring(x, deepest)),
        Expr::Bin(op, a, b) => {
            if let (BinOp::Mod, Some(k)) = (op, b.as_int())
                && k > 1
                && a.mentions(CALL)
            {
                let at =
                    |call: i64| a.eval(&|n: &kbc_ir::Name| Some(if n.as_str() == CALL { call } else { 0 }));
                let period = match (at(0), at(1)) {
                    (Ok(x), Ok(y)) => k / gcd((y - x).unsigned_abs(), k.unsigned_abs()) as i64,
                    _ => k,
                };
                *deepest = period.max(*deepest);
            }
            ring(a, deepest);
            ring(b, deepest);
        }
    }
}

/// Whether every stream of every rank does the same in both schedules, operation by operation, over
/// so many calls. An operation without meaning counts as no operation.
pub fn same(a: &Schedule, b: &Schedule, calls: u32) -> bool {
    let (a, b) = (with_host_region(a), with_host_region(b));
    let (Ok(p), Ok(q)) = (Program::compile(&a), Program::compile(&b)) else { return false };
    if (p.ranks(), &p.streams, p.host) != (q.ranks(), &q.streams, q.host) {
        return false;
    }
    if p.counters() != q.counters() || (0..p.counters()).any(|c| p.form(c) != q.form(c)) {
        return false;
    }
    let streams = p.streams.len() as u32;
    (0..p.ranks()).flat_map(|r| (0..streams).map(move |s| (r, s))).all(|(rank, stream)| {
        (0..i64::from(calls)).all(|call| {
            let mut x = Cursor::new(&p, rank, stream, call);
            let mut y = Cursor::new(&q, rank, stream, call);
            loop {
                match (next(&mut x), next(&mut y)) {
                    (Some(None), Some(None)) => return true,
                    (Some(Some(a)), Some(Some(b))) if a == b => {}
                    _ => return false,
                }
            }
        })
    })
}

/// Returns the next operation: `Some(None)` at the end, `None` for a fault.
fn next<'p>(cursor: &mut Cursor<'p>) -> Option<Option<kbc_ir::walk::Act<'p>>> {
    loop {
        match cursor.next_step() {
            Ok(Some(Step::Act(act, _, _))) => return Some(Some(act)),
            Ok(Some(_)) => {}
            Ok(None) => return Some(None),
            Err(_) => return None,
        }
    }
}
