//! Deferred waits: a task of vector cores ends where it would wait for peers. The runtime completes
//! it once the counters have their values, and begins the rest, which is another task. So no core
//! is held while nothing can be done.
//!
//! A wait between the statements of a task is deferred, and so is a loop that does nothing but
//! wait. Waits inside of other loops stay: their iterations are the rounds of an algorithm. So do
//! the waits of the cores of a rank for each other, and those that would be more conditions than
//! the runtime takes for a task. What a task has named before is named again in the next one.

use crate::tile::{Core, Kernel, Op, Stmt};

/// Splits the tasks of vector cores at their waits, if there are any that can be deferred. `most`:
/// the conditions of a task on all its cores together. `meetings`: the counters by which the cores
/// of a rank meet.
pub(super) fn defer_waits(kernel: &mut Kernel, most: u64, meetings: [u32; 2]) {
    let cores = u64::from(kernel.cores);
    let body = std::mem::take(&mut kernel.body);
    if kernel.core == Core::Vector {
        let parts = split(&body, cores, most, meetings);
        if parts.len() < 2 {
            kernel.body = body;
            return;
        }
        kernel.core = Core::Tasks;
        kernel.body = parts.into_iter().map(task).collect();
        return;
    }
    for stmt in body {
        match stmt {
            Stmt::Task { core: Core::Vector, body, .. } => {
                kernel.body.extend(split(&body, cores, most, meetings).into_iter().map(task));
            }
            other => kernel.body.push(other),
        }
    }
}

fn task(body: Vec<Stmt>) -> Stmt {
    Stmt::Task { name: "".into(), core: Core::Vector, cores: 1, body }
}

/// Returns the parts of a task, each of which but the last ends with deferred waits.
fn split(body: &[Stmt], cores: u64, most: u64, meetings: [u32; 2]) -> Vec<Vec<Stmt>> {
    let mut out = vec![];
    let (mut part, mut names): (Vec<Stmt>, Vec<Stmt>) = (vec![], vec![]);
    // The conditions with which the part ends so far.
    let mut conditions = 0;
    for stmt in body {
        let waits = waits(stmt, meetings).map(|n| n * cores).filter(|n| *n <= most);
        if conditions > 0 && waits.is_none_or(|n| conditions + n > most) && !is_note(stmt) {
            out.push(std::mem::replace(&mut part, names.clone()));
            conditions = 0;
        }
        let mut stmt = stmt.clone();
        if let Some(n) = waits {
            conditions += n;
            defer(std::slice::from_mut(&mut stmt));
        }
        if let Stmt::Let { .. } = stmt {
            names.push(stmt.clone());
        }
        part.push(stmt);
    }
    out.push(part);
    out
}

fn is_note(stmt: &Stmt) -> bool {
    matches!(stmt, Stmt::Note { .. })
}

/// Returns how often a statement waits on a core, if it does nothing else and that number is known.
/// A loop without iterations counts as one, so that kernels for other numbers of ranks end their
/// tasks there, too.
fn waits(stmt: &Stmt, meetings: [u32; 2]) -> Option<u64> {
    match stmt {
        Stmt::Op(Op::Wait { signals, .. }) if !meetings.contains(&signals.0) => Some(1),
        Stmt::For { lo, hi, body, .. } => {
            let times = u64::try_from(hi.as_int()? - lo.as_int()?).ok()?;
            let mut each = 0;
            for stmt in body {
                match stmt {
                    Stmt::Let { .. } | Stmt::Note { .. } => {}
                    other => each += waits(other, meetings)?,
                }
            }
            (each > 0).then_some((times * each).max(1))
        }
        _ => None,
    }
}

/// Makes waits deferred ones.
fn defer(list: &mut [Stmt]) {
    for stmt in list {
        if let Stmt::Op(Op::Wait { signals, index, value }) = stmt {
            *stmt = Stmt::Op(Op::Defer { signals: *signals, index: index.clone(), value: value.clone() });
        } else {
            stmt.blocks_mut().for_each(|block| defer(block));
        }
    }
}
