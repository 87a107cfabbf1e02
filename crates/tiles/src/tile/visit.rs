//! Visitors of a kernel: every operation and every expression of statements, and the numbers in an
//! expression.

use super::kernel::Stmt;
use super::op::Op;
use kbc_ir::expr::Expr;
use std::sync::Arc;

/// Appends the numbers of an expression, in the order of [`with_forms`].
pub fn leaves(e: &Expr, out: &mut Vec<i64>) {
    match e {
        Expr::Int(v) => out.push(*v),
        Expr::Var(_) => {}
        Expr::Un(_, a) | Expr::Table(_, a) => leaves(a, out),
        Expr::Bin(_, a, b) => {
            leaves(a, out);
            leaves(b, out);
        }
        Expr::Select(c, a, b) => {
            leaves(c, out);
            leaves(a, out);
            leaves(b, out);
        }
    }
}

/// Returns the expression with its numbers replaced, in the order of [`leaves`]; not simplified.
pub fn with_forms(e: &Expr, next: &mut impl Iterator<Item = Expr>) -> Expr {
    match e {
        Expr::Int(v) => next.next().unwrap_or(Expr::Int(*v)),
        Expr::Var(_) => e.clone(),
        Expr::Un(op, a) => Expr::Un(*op, Arc::new(with_forms(a, next))),
        Expr::Table(n, a) => Expr::Table(n.clone(), Arc::new(with_forms(a, next))),
        Expr::Bin(op, a, b) => {
            let a = with_forms(a, next);
            Expr::Bin(*op, Arc::new(a), Arc::new(with_forms(b, next)))
        }
        Expr::Select(c, a, b) => {
            let c = with_forms(c, next);
            let a = with_forms(a, next);
            Expr::Select(Arc::new(c), Arc::new(a), Arc::new(with_forms(b, next)))
        }
    }
}

/// Calls `f` with every operation of statements, in text order.
pub fn each_op<'k>(body: &'k [Stmt], f: &mut impl FnMut(&'k Op)) {
    for stmt in body {
        if let Stmt::Op(op) = stmt {
            f(op);
        }
        stmt.blocks().for_each(|block| each_op(block, f));
    }
}

/// Calls `f` with every operation of statements, in text order, to change it.
pub fn each_op_mut(body: &mut [Stmt], f: &mut impl FnMut(&mut Op)) {
    for stmt in body {
        if let Stmt::Op(op) = stmt {
            f(op);
        }
        stmt.blocks_mut().for_each(|block| each_op_mut(block, f));
    }
}

/// Calls `f` with every expression of statements, in a fixed order.
pub fn each_in(body: &mut [Stmt], f: &mut impl FnMut(&mut Expr)) {
    for stmt in body {
        match stmt {
            Stmt::Let { value, .. } => f(value),
            Stmt::For { lo, hi, body, .. } => {
                f(lo);
                f(hi);
                each_in(body, f);
            }
            Stmt::If { cond, then, other } => {
                f(cond);
                each_in(then, f);
                each_in(other, f);
            }
            Stmt::Tiles { total, body, .. } => {
                f(total);
                each_in(body, f);
            }
            Stmt::Turn { by, body, .. } => {
                f(by);
                each_in(body, f);
            }
            Stmt::Task { body, .. } => each_in(body, f),
            Stmt::Note { .. } => {}
            Stmt::Op(op) => each_of(op, f),
        }
    }
}

/// Calls `f` with every expression of an operation, in a fixed order.
pub fn each_of(op: &mut Op, f: &mut impl FnMut(&mut Expr)) {
    match op {
        Op::Load { len, from: gm, .. } | Op::Store { to: gm, len, .. } => {
            f(len);
            f(&mut gm.slot);
            f(&mut gm.offset);
            gm.peer.iter_mut().for_each(f);
        }
        Op::Vector { len, .. }
        | Op::Select { len, .. }
        | Op::Reduce { len, .. }
        | Op::Expand { len, .. }
        | Op::Spread { len, .. } => f(len),
        Op::LoadBlock { rows, cols, from: gm, pitch, .. }
        | Op::StoreBlock { rows, cols, to: gm, pitch, .. } => {
            [rows, cols, pitch, &mut gm.slot, &mut gm.offset].into_iter().for_each(&mut *f);
            gm.peer.iter_mut().for_each(f);
        }
        Op::LoadRows { len, from: gm, pitch, .. } | Op::StoreRows { to: gm, pitch, len, .. } => {
            [len, pitch, &mut gm.slot, &mut gm.offset].into_iter().for_each(&mut *f);
            gm.peer.iter_mut().for_each(f);
        }
        Op::Choose { index, first, .. } => {
            f(index);
            f(first);
        }
        Op::LoadRow { len, from: gm, pitch, rows, .. } => {
            [len, pitch, rows, &mut gm.slot, &mut gm.offset].into_iter().for_each(&mut *f);
            gm.peer.iter_mut().for_each(f);
        }
        Op::Index { value, len, .. } => {
            f(value);
            f(len);
        }
        Op::Move { from: [row, col], rows, cols, .. } => [row, col, rows, cols].into_iter().for_each(f),
        Op::Matmul { m, n, k, .. } => [m, n, k].into_iter().for_each(f),
        Op::Notify { peer, index, .. } => {
            f(peer);
            f(index);
        }
        Op::Wait { index, value, .. } | Op::Defer { index, value, .. } => {
            f(index);
            f(value);
        }
        Op::Convert { .. }
        | Op::Release
        | Op::Acquire
        | Op::Complete
        | Op::Barrier(_)
        | Op::MemoryBarrier
        | Op::SetFlag { .. }
        | Op::WaitFlag { .. } => {}
    }
}
