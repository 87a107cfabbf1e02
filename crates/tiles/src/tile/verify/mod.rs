//! Verifier of the tile level: checks whether a completed kernel is sound on a target, whichever
//! passes made it.
//!
//! The module owns the rules and their messages. It reads a kernel and a device and relies on no
//! pass.
//!
//! * T1 (E450): every tile has an address that is a multiple of the alignment, lies within the
//!   part of its memory that the device grants, has an aligned length, and shares no byte with
//!   another tile of that memory.
//! * T2 (E451): the core has every instruction, pipe and memory that is used, for the element
//!   types in use: vector operations, comparisons, conversions with their rounding, matmuls and
//!   barriers. Tiles of a matrix core are whole boxes (E459). A number is the last operand, and a
//!   value of the type.
//! * T3 (E452): on every path, an access that conflicts with an earlier one, one of the two being
//!   a write, starts after it: flags or barriers order them. A loop may run no iteration.
//! * T4 (E453): an event is set, then waited for, and set again only once that wait has completed.
//!   It has the same state on all paths to a place, and no event is left set. Its number is below
//!   the device's limit, and its two pipes differ.
//! * T5 (E454): on every path, a barrier of all pipes and then a `dsb` stand between the last load
//!   or store and a notify, and between a wait and a notify to another core of this rank.
//! * T6 (E455): on every path, a barrier of all pipes stands between a wait and the next operation
//!   of another pipe.
//! * T7 (E456): every name and id is declared exactly once, and expressions read only what is in
//!   scope. The expressions of the window's layout have the same values on all ranks and in all
//!   calls.
//! * T8 (E459): a length is that of a loop over tiles around it, its number of rows or a constant,
//!   and no larger than the tile. Tiles that hold rows hold whole rows. The tiles of an operation
//!   have one type and one length. A transfer has the element type of its memory. Peers reach only
//!   areas and tensors for peers. An input is not written, and an output is.
//! * T9 (E449): no fence is left, and signals and areas have their offsets. At these offsets
//!   (E459), they are lines of 64 bytes that overlap only within an arena.
//! * T10 (E450): tensors, scalars, cores and ranks are within the device's limits. Peers read
//!   inputs only, and only on devices whose launch puts these in the window.
//! * T11 (E450): numbers of an operation fit into the fields that its instructions have for them
//!   ([`Device::narrow_fields`]), in every launch or, where they depend on the arguments of a
//!   launch, in some. A package claims only sizes at which they fit ([`fit`]).
//! * T12 (E452): a task that several matrix cores run reads nothing that it writes, and writes
//!   every element once, so that no core waits for another. The former follows from the text. The
//!   latter is computed for launches with few ranks and elements, and for the sizes that a package
//!   claims ([`one_writer`]).
//!
//! Rules T3 to T6, and that no fence is left, hold for devices whose pipes run on their own.
//!
//! The verifier cannot see whether an offset is inside its memory, nor accesses of other ranks.
//! For the former, the trace of a kernel at every size that it claims is compared with that of the
//! proven schedule. The latter are proven by the checker of schedules.

mod fields;
mod names;
mod order;
mod shape;
mod sink;
mod window;
mod writers;

use super::path;
use super::{Core, Kernel, Reach, TensorUse, tasks};
use crate::args;
use crate::device::Device;
pub use fields::fit;
use kbc_diag::{Diagnostic, Diagnostics, FileId, Span};
pub use sink::Problem;
use sink::Sink;
pub use writers::one_writer;

/// Returns all problems of a kernel: declarations first, then by place. If names or ids are wrong,
/// the other rules are not checked.
pub fn problems(kernel: &Kernel, device: &dyn Device) -> Vec<Problem> {
    let mut sink = Sink { kernel, device, found: vec![] };
    names::check(&mut sink);
    if sink.found.is_empty() {
        limits(&mut sink);
        window::check(&mut sink);
        shape::check(&mut sink);
        fields::check(&mut sink);
        writers::check(&mut sink);
        if !device.in_order() {
            order::check(&mut sink);
        }
    }
    sink.found.sort_by(|a, b| (&a.at, a.diagnostic.code).cmp(&(&b.at, b.diagnostic.code)));
    sink.found
}

/// Verifies a kernel.
///
/// # Errors
/// Returns all problems of the kernel.
pub fn verify(kernel: &Kernel, device: &dyn Device) -> Result<(), Diagnostics> {
    let list: Vec<Diagnostic> = problems(kernel, device).into_iter().map(|p| p.diagnostic).collect();
    if list.is_empty() { Ok(()) } else { Err(Diagnostics { list }) }
}

/// Returns the problems of a kernel that was parsed from `text`, with the lines at which they are.
pub fn in_text(kernel: &Kernel, problems: Vec<Problem>, text: &str, file: FileId) -> Diagnostics {
    // A statement is one line of the body; comments and empty lines do not count.
    let mut lines = vec![];
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let code = line.trim();
        if !code.is_empty() && !code.starts_with(';') {
            let from = start + (line.len() - line.trim_start().len());
            lines.push((code, Span::new(file, from, from + code.len())));
        }
        start += line.len();
    }
    let body = lines.iter().position(|(code, _)| *code == "body").map_or(lines.len(), |i| i + 1);
    let mut out = Diagnostics::new();
    for p in problems {
        let line = path::line(kernel, &p.at).and_then(|n| lines.get(body + n));
        out.push(match line {
            Some((_, span)) => p.diagnostic.primary(*span, "here"),
            None => p.diagnostic,
        });
    }
    out.finish()
}

/// Checks T10.
fn limits(sink: &mut Sink<'_>) {
    let (kernel, limits) = (sink.kernel, sink.device.limits());
    let counts = [
        (
            args::tensors(kernel).len(),
            limits.tensors,
            "tensors",
            "inputs, outputs, tables, window and status",
        ),
        (args::scalars(kernel).len(), limits.scalars, "scalars", "run-time scalars and the context"),
    ];
    for (n, most, what, which) in counts {
        if n > most {
            let title = format!("the kernel has {n} {what} (limit of a task: {most})");
            sink.at(&[], Diagnostic::error("E450", title).note(format!("this counts {which}")));
        }
    }
    let all = tasks::split(kernel);
    let most = |core: Core| if core == Core::Matrix { limits.matrix_cores } else { limits.cores };
    if kernel.cores == 0 || kernel.cores > most(kernel.core) {
        let title = format!("the kernel uses {} cores, and a die has {}", kernel.cores, most(kernel.core));
        sink.at(&[], Diagnostic::error("E450", title));
    }
    for task in all.iter().filter(|t| t.kernel.core == Core::Matrix) {
        let (Some(at), cores) = (task.at, task.kernel.cores) else { continue };
        if cores == 0 || cores > limits.matrix_cores {
            let title =
                format!("task {} uses {cores} cores, and a die has {}", task.name, limits.matrix_cores);
            sink.at(&[at as u32], Diagnostic::error("E450", title));
        }
    }
    for (i, task) in all.iter().enumerate().filter(|(_, t)| t.at.is_some()) {
        let n = args::task_tensors(kernel, &all, i).len();
        if n > limits.tensors {
            let title = format!("task {} has {n} tensors (limit: {})", task.name, limits.tensors);
            let which = "this counts the inputs, outputs, tables and intermediate values that it uses, the window and the status";
            sink.at(&[], Diagnostic::error("E450", title).note(which));
        }
    }
    for tensor in kernel.tensors.iter().filter(|t| t.reach == Reach::Peers) {
        let name = &tensor.name;
        if tensor.access == TensorUse::Out {
            let title = format!("peers read {name}, which is a result");
            sink.at(&[], Diagnostic::error("E450", title).help("peers read inputs and areas of the window"));
        } else if !sink.device.shares_inputs() {
            let title = format!("peers read {name}, which is not in a window on this target");
            sink.at(&[], Diagnostic::error("E450", title).help("copy it to an area of the window"));
        }
    }
    for table in &kernel.tables {
        if let Some(p) = table.values.keys().next_back().filter(|p| **p > u64::from(limits.ranks)) {
            let title = format!(
                "table @{} has entries for {p} ranks, and a domain has at most {}",
                table.name, limits.ranks
            );
            sink.at(&[], Diagnostic::error("E450", title));
        }
    }
}
