//! Synchronous operations on one rank as reads, a computation and one write.
//!
//! The module owns the meaning of `copy`, `combine` and local operations down to element ranges.
//! The interpreter and the adversarial executor therefore differ only in when they read memory and
//! what it then contains.

use kbc_diag::{Diagnostic, Span};
use kbc_ir::schedule::{BufferId, LocalOp, Schedule, WindowId};
use kbc_ir::types::{DType, ReduceOp};
use kbc_ir::walk::{Access, Act, Mem, Program};
use kbc_numerics::local::{self, Footprint};
use kbc_numerics::numbers::{self, Refusal};
use kbc_numerics::tensor::{Data, Tensor};

/// A run of elements of one memory of a rank.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// The memory.
    pub mem: Mem,
    /// Its first element.
    pub start: u64,
    /// Number of elements.
    pub len: u64,
}

impl Run {
    /// Returns the elements of an access.
    pub fn of(a: &Access) -> Run {
        Run { mem: a.mem, start: a.start, len: a.len }
    }

    /// Whether two runs have an element in common.
    pub fn overlaps(&self, other: &Run) -> bool {
        self.mem == other.mem && self.start < other.start + other.len && other.start < self.start + self.len
    }
}

/// Returns the name of a memory for messages.
pub fn mem_name(s: &Schedule, mem: Mem) -> String {
    match mem {
        Mem::Buffer(b) => format!("%{}", s.buffer(BufferId(b)).name),
        Mem::Slot(w, slot) => format!("@{}[{slot}]", s.window(WindowId(w)).name),
    }
}

/// Returns the element type of a memory.
pub fn mem_dtype(s: &Schedule, mem: Mem) -> DType {
    match mem {
        Mem::Buffer(b) => s.buffer(BufferId(b)).dtype,
        Mem::Slot(w, _) => s.window(WindowId(w)).dtype,
    }
}

#[derive(Clone, Debug)]
enum Compute<'p> {
    Copy,
    Reduce(ReduceOp),
    Local { op: &'p LocalOp, dst: Vec<u64>, dtype: DType, shapes: Vec<Vec<u64>>, part: Option<i64> },
}

/// The effect of an operation: what it reads, in order, and what it writes.
#[derive(Clone, Debug)]
pub struct Effect<'p> {
    /// The reads, in the order of the operands.
    pub reads: Vec<Run>,
    /// The write.
    pub write: Run,
    compute: Compute<'p>,
    /// The source position.
    pub span: Span,
}

impl<'p> Effect<'p> {
    /// Returns the effect of a synchronous operation on a rank, or None for any other operation.
    /// Fails with E302 (an expression without a value), E363 (a local operation that does not fit
    /// its operands) or E364 (two types in one transfer).
    pub fn of(
        program: &Program<'p>,
        rank: u64,
        act: &Act<'p>,
        span: Span,
    ) -> Result<Option<Effect<'p>>, Diagnostic> {
        let (reads, write, compute) = match act {
            Act::Copy { dst, src } => (vec![Run::of(src)], Run::of(dst), Compute::Copy),
            Act::Reduce { op, dst, src } => {
                (vec![Run::of(dst), Run::of(src)], Run::of(dst), Compute::Reduce(*op))
            }
            Act::Local(op) => return local_effect(program, rank, op, span).map(Some),
            Act::Put { .. }
            | Act::Get { .. }
            | Act::GetCombine { .. }
            | Act::Send { .. }
            | Act::Recv { .. }
            | Act::Room { .. }
            | Act::Notify { .. }
            | Act::Wait { .. }
            | Act::FenceRelease
            | Act::FenceAcquire
            | Act::FenceComplete
            | Act::Record(_)
            | Act::Await(_)
            | Act::Mark(_)
            | Act::HostRead(_)
            | Act::Host(_) => return Ok(None),
        };
        for r in &reads {
            same_type(program.schedule, r.mem, write.mem, span)?;
        }
        Ok(Some(Effect { reads, write, compute, span }))
    }

    /// Returns the number of bytes that it writes.
    pub fn bytes(&self, s: &Schedule) -> u64 {
        self.write.len.saturating_mul(mem_dtype(s, self.write.mem).bytes())
    }

    /// Computes the elements to write from the elements read, in the order of `reads`. Fails with
    /// E363.
    pub fn compute(&self, mut data: Vec<Data>) -> Result<Data, Diagnostic> {
        crate::data_path::entered();
        let refuse = |r: Refusal| refused(r, self.span);
        match &self.compute {
            Compute::Copy => {
                data.pop().ok_or_else(|| refuse(Refusal::new("this copy has no source", "give a source")))
            }
            Compute::Reduce(op) => {
                let (src, dst) = (data.pop(), data.pop());
                match (dst, src) {
                    (Some(mut d), Some(s)) => numbers::combine(*op, &mut d, &s).map(|()| d).map_err(refuse),
                    _ => Err(refuse(Refusal::new("this reduction has no source", "give a source"))),
                }
            }
            Compute::Local { op, dst, dtype, shapes, part } => {
                let tensors: Vec<Tensor> = data
                    .into_iter()
                    .zip(shapes)
                    .map(|(d, shape)| match Tensor::new(shape.clone(), d.clone()) {
                        Some(t) => t,
                        // Only a block of the source is read.
                        None => Tensor::line(d),
                    })
                    .collect();
                let srcs: Vec<&Tensor> = tensors.iter().collect();
                local::apply(op, (dst, *dtype), &srcs, *part).map_err(refuse)
            }
        }
    }
}

fn refused(r: Refusal, span: Span) -> Diagnostic {
    Diagnostic::error("E363", r.text).primary(span, "in this operation").help(r.help)
}

/// Rejects a transfer between memories of different types with E364.
pub fn same_type(s: &Schedule, a: Mem, b: Mem, span: Span) -> Result<(), Diagnostic> {
    let (x, y) = (mem_dtype(s, a), mem_dtype(s, b));
    if x == y {
        return Ok(());
    }
    Err(Diagnostic::error(
        "E364",
        format!("the element types differ: {} is {x} and {} is {y}", mem_name(s, a), mem_name(s, b)),
    )
    .primary(span, "a transfer does not convert")
    .help("add a `cast` before it"))
}

fn local_effect<'p>(
    program: &Program<'p>,
    rank: u64,
    op: &'p LocalOp,
    span: Span,
) -> Result<Effect<'p>, Diagnostic> {
    let show = |r| program.schedule.mesh.show(r);
    let dims = |b: BufferId| program.dims(b, rank).map_err(|f| f.diagnostic(show));
    let dst = dims(op.dst())?;
    let srcs = op.srcs();
    let shapes = srcs.iter().map(|b| dims(*b)).collect::<Result<Vec<_>, _>>()?;
    let value = |e| {
        program.local_value(e, rank).map_err(|err| {
            Diagnostic::error("E302", err.to_string()).primary(span, format!("on rank {}", show(rank)))
        })
    };
    let part = op.part().map(value).transpose()?;
    let views: Vec<&[u64]> = shapes.iter().map(|s| &s[..]).collect();
    let Footprint { reads, write } =
        local::footprint(op, &dst, &views, part).map_err(|r| refused(r, span))?;
    let run = |b: BufferId, (start, len)| Run { mem: Mem::Buffer(b.0), start, len };
    Ok(Effect {
        reads: srcs.iter().zip(reads).map(|(b, r)| run(*b, r)).collect(),
        write: run(op.dst(), write),
        compute: Compute::Local { op, dtype: program.schedule.buffer(op.dst()).dtype, dst, shapes, part },
        span,
    })
}
