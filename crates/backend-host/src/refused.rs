//! What the target does not emit: operations of kernels that have no form in C. Lowering makes none
//! of them for this target; a `.tile` text may have them.

use crate::orders::Orders;
use kbc_diag::Diagnostic;
use kbc_tiles::tile::{Kernel, Op, Rounding, Stmt};

/// Checks a lowered kernel.
///
/// # Errors
/// Returns E470 for the first operation that has no form in C, and for a notify or wait whose fence
/// is not beside it.
pub fn check(kernel: &Kernel) -> Result<(), Diagnostic> {
    let mut from = String::new();
    statements(&kernel.body, &mut from)?;
    ordered(kernel, &Orders::of(kernel))
}

/// Checks that every notify and wait of a kernel with fences has an order.
///
/// # Errors
/// Returns E470.
pub fn ordered(kernel: &Kernel, orders: &Orders) -> Result<(), Diagnostic> {
    match orders.complete(kernel) {
        true => Ok(()),
        false => Err(refuse("a notify or wait that other accesses part from its fence", "")),
    }
}

fn statements(list: &[Stmt], from: &mut String) -> Result<(), Diagnostic> {
    for stmt in list {
        match stmt {
            Stmt::For { body, .. } | Stmt::Tiles { body, .. } | Stmt::Task { body, .. } => {
                statements(body, from)?;
            }
            Stmt::If { then, other, .. } => {
                statements(then, from)?;
                statements(other, from)?;
            }
            Stmt::Turn { .. } => return Err(refuse("tiles that take turns", from)),
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
        | Op::Defer { .. }
        | Op::Release
        | Op::Acquire
        | Op::Complete => None,
        Op::Vector { .. }
        | Op::Select { .. }
        | Op::Reduce { .. }
        | Op::Expand { .. }
        | Op::Index { .. }
        | Op::Spread { .. }
        | Op::LoadRows { .. }
        | Op::StoreRows { .. }
        | Op::Choose { .. }
        | Op::LoadRow { .. }
        | Op::LoadBlock { .. }
        | Op::Move { .. }
        | Op::Matmul { .. }
        | Op::StoreBlock { .. } => None,
        Op::Convert { rounding: Rounding::Zero, .. } => Some("a conversion toward zero"),
        Op::Barrier(_) | Op::MemoryBarrier | Op::SetFlag { .. } | Op::WaitFlag { .. } => {
            Some("a barrier or flag of pipes")
        }
    }
}

/// Returns E451 for an operation that has no form in C.
pub fn no_form(op: &Op) -> Diagnostic {
    let what = word(op).unwrap_or("an operation");
    Diagnostic::error("E451", format!("{what} has no form in the C of target host"))
}
