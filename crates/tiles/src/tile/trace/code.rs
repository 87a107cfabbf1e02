//! Name resolution for traces: every name of a kernel becomes the number of a slot.
//!
//! The module also decides which loops over tiles are affine in their position and length.

use super::super::*;
use kbc_diag::Diagnostic;
use kbc_ir::expr::{BinOp, EvalError, Expr, UnOp};
use kbc_ir::name::Name;
use kbc_ir::resolved::{Resolved, Scope, Unknown, resolve};

type R<T> = Result<T, Diagnostic>;

/// A statement with resolved names.
pub(super) enum Step<'k> {
    Let(usize, Resolved),
    For {
        var: usize,
        lo: Resolved,
        hi: Resolved,
        body: Vec<Step<'k>>,
    },
    If {
        cond: Resolved,
        then: Vec<Step<'k>>,
        other: Vec<Step<'k>>,
    },
    Tiles {
        pos: usize,
        len: usize,
        total: Resolved,
        step: u32,
        affine: bool,
        /// Whether all tiles but the first and the last one have the same operations with the same
        /// lengths.
        even: bool,
        /// Slots of the number of the first row and of the number of rows, and elements of a row.
        rows: Option<(usize, usize, u32)>,
        body: Vec<Step<'k>>,
    },
    /// A block in which some tiles are the copy that the number says.
    Turn {
        by: Resolved,
        body: Vec<Step<'k>>,
    },
    /// A task, which this many cores run.
    Task(i64, Vec<Step<'k>>),
    Op {
        op: &'k Op,
        codes: Vec<Resolved>,
    },
}

/// Resolves names: assigns a slot to every name.
pub(super) struct Resolver<'k> {
    kernel: &'k Kernel,
    visible: Vec<(Name, usize)>,
    slots: usize,
    /// Slots of positions of loops over tiles, each with the elements of a full tile.
    positions: Vec<(usize, u32)>,
}

impl<'k> Resolver<'k> {
    pub fn new(kernel: &'k Kernel) -> Self {
        Resolver { kernel, visible: vec![], slots: 0, positions: vec![] }
    }

    /// Returns the number of slots assigned so far.
    pub fn slots(&self) -> usize {
        self.slots
    }

    pub fn declare(&mut self, name: &Name) -> usize {
        self.visible.push((name.clone(), self.slots));
        self.slots += 1;
        self.slots - 1
    }

    pub fn code(&self, e: &Expr) -> R<Resolved> {
        resolve(e, self).map_err(|missing| {
            unknown(&match missing {
                Unknown::Var(n) => EvalError::Unbound(n).to_string(),
                Unknown::Table(n) => format!("table @{n} does not exist"),
            })
        })
    }

    pub fn body(&mut self, list: &'k [Stmt]) -> R<Vec<Step<'k>>> {
        let mark = self.visible.len();
        let mut out = vec![];
        for st in list {
            out.push(match st {
                Stmt::Note { .. } => continue,
                // Names of other tasks are not visible, so that none is read by mistake.
                Stmt::Task { core, cores, body, .. } => {
                    let cores = if *core == Core::Matrix { *cores } else { self.kernel.cores };
                    Step::Task(cores.into(), self.body(body)?)
                }
                Stmt::Turn { by, body, .. } => Step::Turn { by: self.code(by)?, body: self.body(body)? },
                Stmt::Let { name, value } => {
                    let code = self.code(value)?;
                    Step::Let(self.declare(name), code)
                }
                Stmt::For { var, lo, hi, body } => {
                    let (lo, hi) = (self.code(lo)?, self.code(hi)?);
                    let inner = self.visible.len();
                    let var = self.declare(var);
                    let body = self.body(body)?;
                    self.visible.truncate(inner);
                    Step::For { var, lo, hi, body }
                }
                Stmt::If { cond, then, other } => {
                    Step::If { cond: self.code(cond)?, then: self.body(then)?, other: self.body(other)? }
                }
                Stmt::Tiles { pos, len, total, step, rows, body, .. } => {
                    if *step == 0 {
                        return Err(Diagnostic::error("E459", "a loop over tiles has step 0"));
                    }
                    let total = self.code(total)?;
                    let inner = self.visible.len();
                    let (pos, len) = (self.declare(pos), self.declare(len));
                    let rows =
                        rows.as_ref().map(|r| (self.declare(&r.first), self.declare(&r.count), r.elements));
                    self.positions.push((pos, *step));
                    let body = self.body(body)?;
                    self.visible.truncate(inner);
                    let (mut moving, mut positions) = (vec![pos, len], vec![pos]);
                    if let Some((first, count, _)) = rows {
                        // With full tiles, the first row is affine in the number of the tile.
                        moving.extend([first, count]);
                        positions.push(first);
                    }
                    let affine = affine_steps(&body, &mut moving, &self.positions);
                    let even = affine && even_steps(&body, &mut positions);
                    Step::Tiles { pos, len, total, step: *step, affine, even, rows, body }
                }
                Stmt::Op(op) => {
                    let codes = numbers(op).into_iter().map(|e| self.code(e));
                    Step::Op { op, codes: codes.collect::<R<_>>()? }
                }
            });
        }
        self.visible.truncate(mark);
        Ok(out)
    }
}

impl Scope for Resolver<'_> {
    fn slot(&self, name: &Name) -> Option<u32> {
        let slot = self.visible.iter().rev().find(|v| v.0 == *name)?.1;
        u32::try_from(slot).ok()
    }

    fn table(&self, name: &Name) -> Option<u32> {
        let table = self.kernel.tables.iter().position(|t| t.name == *name)?;
        u32::try_from(table).ok()
    }
}

fn unknown(why: &str) -> Diagnostic {
    Diagnostic::error("E456", why.to_string())
}

/// Returns the expressions of an operation, in the order in which [`Run::op`](super::Run::op) reads
/// their values.
fn numbers(op: &Op) -> Vec<&Expr> {
    match op {
        Op::Load { len, from: g, .. } | Op::Store { len, to: g, .. } => {
            [Some(len), Some(&g.slot), Some(&g.offset), g.peer.as_ref()].into_iter().flatten().collect()
        }
        Op::Vector { len, .. }
        | Op::Select { len, .. }
        | Op::Reduce { len, .. }
        | Op::Expand { len, .. }
        | Op::Spread { len, .. } => vec![len],
        Op::LoadBlock { rows, cols, from: g, pitch, .. }
        | Op::StoreBlock { rows, cols, to: g, pitch, .. } => {
            [Some(rows), Some(cols), Some(pitch), Some(&g.slot), Some(&g.offset), g.peer.as_ref()]
                .into_iter()
                .flatten()
                .collect()
        }
        Op::LoadRows { len, from: g, pitch, .. } | Op::StoreRows { to: g, pitch, len, .. } => {
            [Some(len), Some(pitch), Some(&g.slot), Some(&g.offset), g.peer.as_ref()]
                .into_iter()
                .flatten()
                .collect()
        }
        Op::Choose { index, first, .. } => vec![index, first],
        Op::LoadRow { len, from: g, pitch, rows, .. } => {
            [Some(len), Some(pitch), Some(rows), Some(&g.slot), Some(&g.offset), g.peer.as_ref()]
                .into_iter()
                .flatten()
                .collect()
        }
        Op::Index { value, len, .. } => vec![value, len],
        Op::Move { from: [row, col], rows, cols, .. } => vec![row, col, rows, cols],
        Op::Matmul { m, n, k, .. } => vec![m, n, k],
        Op::Notify { peer, index, .. } => vec![peer, index],
        Op::Wait { index, value, .. } | Op::Defer { index, value, .. } => vec![index, value],
        _ => vec![],
    }
}

/// Checks whether every number of these steps is affine in the slots `moving`, and control flow
/// depends on them only where it distinguishes the first tiles of loops, whose positions are
/// `positions`, from all others.
fn affine_steps(list: &[Step], moving: &mut Vec<usize>, positions: &[(usize, u32)]) -> bool {
    let mark = moving.len();
    let all = list.iter().all(|s| match s {
        Step::Let(slot, code) => {
            if !fixed(code, moving) {
                moving.push(*slot);
            }
            affine(code, moving)
        }
        Step::For { lo, hi, body, .. } => {
            fixed(lo, moving) && fixed(hi, moving) && affine_steps(body, moving, positions)
        }
        Step::If { cond, then, other } => {
            first_only(cond, moving, positions)
                && affine_steps(then, moving, positions)
                && affine_steps(other, moving, positions)
        }
        Step::Turn { by, body } => {
            affine_turn(by, moving, positions) && affine_steps(body, moving, positions)
        }
        Step::Task(_, body) => affine_steps(body, moving, positions),
        Step::Tiles { total, body, .. } => fixed(total, moving) && affine_steps(body, moving, positions),
        Step::Op { codes, .. } => codes.iter().all(|c| affine(c, moving)),
    });
    moving.truncate(mark);
    all
}

/// Checks whether no length of a transfer depends on the slots `moving`.
fn even_steps(list: &[Step], moving: &mut Vec<usize>) -> bool {
    let mark = moving.len();
    let all = list.iter().all(|s| match s {
        Step::Let(slot, code) => {
            if !fixed(code, moving) {
                moving.push(*slot);
            }
            true
        }
        Step::For { body, .. } | Step::Turn { body, .. } | Step::Task(_, body) => even_steps(body, moving),
        Step::If { then, other, .. } => even_steps(then, moving) && even_steps(other, moving),
        Step::Tiles { total, body, .. } => fixed(total, moving) && even_steps(body, moving),
        Step::Op { op, codes } => {
            let lengths = match op {
                Op::Load { .. } | Op::LoadRow { .. } | Op::LoadRows { .. } => 1,
                Op::Store { .. } | Op::StoreRows { .. } => 1,
                Op::LoadBlock { .. } | Op::StoreBlock { .. } => 2,
                _ => 0,
            };
            codes.iter().take(lengths).all(|c| fixed(c, moving))
        }
    });
    moving.truncate(mark);
    all
}

fn fixed(e: &Resolved, moving: &[usize]) -> bool {
    !e.reads(&|s| moving.contains(&(s as usize)))
}

/// Checks whether a condition has one value at all tiles but the first ones: it consists of fixed
/// conditions and of comparisons of a sum of positions, which are at least 0, with 0.
fn first_only(e: &Resolved, moving: &[usize], positions: &[(usize, u32)]) -> bool {
    fn sum(e: &Resolved, positions: &[(usize, u32)]) -> bool {
        match e {
            Resolved::Var(v) => positions.iter().any(|(p, _)| *p == *v as usize),
            Resolved::Bin(BinOp::Add, a, b) => sum(a, positions) && sum(b, positions),
            _ => false,
        }
    }
    match e {
        Resolved::Bin(BinOp::And | BinOp::Or, a, b) => {
            first_only(a, moving, positions) && first_only(b, moving, positions)
        }
        Resolved::Bin(BinOp::Eq, s, zero) if zero.as_int() == Some(0) && sum(s, positions) => true,
        e => fixed(e, moving),
    }
}

/// Checks whether a number that selects copies is affine in the numbers of tiles: in positions that
/// are divided by the elements of a full tile, and in what [`affine`] accepts. Its remainder modulo
/// 2 at the first two tiles of a loop then decides those at all tiles.
fn affine_turn(e: &Resolved, moving: &[usize], positions: &[(usize, u32)]) -> bool {
    let inner = |e: &Resolved| affine_turn(e, moving, positions);
    match e {
        Resolved::Bin(BinOp::Div, pos, step)
            if matches!(&**pos, Resolved::Var(v) if positions.iter().any(|(p, of)| {
                *p == *v as usize && step.as_int() == Some(i64::from(*of))
            })) =>
        {
            true
        }
        Resolved::Bin(BinOp::Add | BinOp::Sub, a, b) => inner(a) && inner(b),
        Resolved::Bin(BinOp::Mul, a, b) => (fixed(a, moving) && inner(b)) || (inner(a) && fixed(b, moving)),
        e => affine(e, moving),
    }
}

fn affine(e: &Resolved, moving: &[usize]) -> bool {
    match e {
        Resolved::Var(_) => true,
        Resolved::Un(UnOp::Neg, a) => affine(a, moving),
        Resolved::Bin(BinOp::Add | BinOp::Sub, a, b) => affine(a, moving) && affine(b, moving),
        Resolved::Bin(BinOp::Mul, a, b) => {
            (fixed(a, moving) && affine(b, moving)) || (affine(a, moving) && fixed(b, moving))
        }
        Resolved::Select(c, a, b) if fixed(c, moving) => affine(a, moving) && affine(b, moving),
        e => fixed(e, moving),
    }
}
