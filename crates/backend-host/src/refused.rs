//! What the target does not emit: operations of lowered kernels that have no form in C, in the
//! words of programs.

use crate::orders::Orders;
use kbc_diag::Diagnostic;
use kbc_tiles::tile::{Kernel, Op, Rounding, Stmt, VArg, VecOp};

/// Checks a lowered kernel.
///
/// # Errors
/// Returns E470 for the first operation that has no form in C, and for a notify or wait whose fence
/// is not beside it.
pub fn check(kernel: &Kernel) -> Result<(), Diagnostic> {
    let mut from = String::new();
    statements(&kernel.body, &mut from)?;
    if Orders::of(kernel).complete(kernel) {
        return Ok(());
    }
    Err(refuse("a notify or wait that other accesses part from its fence", ""))
}

fn statements(list: &[Stmt], from: &mut String) -> Result<(), Diagnostic> {
    for stmt in list {
        match stmt {
            Stmt::For { body, .. } | Stmt::Tiles { body, .. } => statements(body, from)?,
            Stmt::If { then, other, .. } => {
                statements(then, from)?;
                statements(other, from)?;
            }
            // Matrix products are tasks of their own.
            Stmt::Task { .. } | Stmt::Turn { .. } => return Err(refuse("a program with a matmul", from)),
            Stmt::Note { place, text } => *from = format!("{place} {text}").trim().to_owned(),
            Stmt::Let { .. } => {}
            Stmt::Op(op) => {
                if let Some(what) = word(op) {
                    return Err(refuse(what, from));
                }
            }
        }
    }
    Ok(())
}

fn refuse(what: &str, from: &str) -> Diagnostic {
    let d = Diagnostic::error("E470", format!("{what} cannot be emitted for target host"))
        .help("use --target sim; docs/reference/host.md lists what is emitted");
    if from.is_empty() { d } else { d.note(format!("it comes from {from}")) }
}

/// Returns what an operation is in a program, if it has no form in C.
pub fn word(op: &Op) -> Option<&'static str> {
    match op {
        Op::Load { .. }
        | Op::Store { .. }
        | Op::Convert { rounding: Rounding::Exact | Rounding::Nearest, .. }
        | Op::Notify { .. }
        | Op::Wait { .. }
        | Op::Release
        | Op::Acquire
        | Op::Complete => None,
        Op::Vector { op, args, .. } => match (op, &args[..]) {
            (VecOp::Fill, [VArg::Num(_)]) => None,
            (VecOp::Add | VecOp::Mul | VecOp::Max | VecOp::Min, [VArg::Tile(_), VArg::Tile(_)]) => None,
            _ => Some("an elementwise function"),
        },
        Op::Select { .. } => Some("a comparison"),
        Op::Convert { rounding: Rounding::Zero, .. } => Some("a cast"),
        Op::Reduce { .. } | Op::Expand { .. } | Op::Spread { .. } => Some("a reduction along a dimension"),
        Op::Index { .. } => Some("a number of an element"),
        Op::LoadRows { .. } | Op::StoreRows { .. } => Some("rows that are apart in memory"),
        Op::Choose { .. } | Op::LoadRow { .. } => Some("a selection of rows by number"),
        Op::LoadBlock { .. } | Op::Move { .. } | Op::Matmul { .. } | Op::StoreBlock { .. } => {
            Some("a matmul")
        }
        Op::Barrier(_) | Op::MemoryBarrier | Op::SetFlag { .. } | Op::WaitFlag { .. } => {
            Some("a barrier or flag of pipes")
        }
    }
}
