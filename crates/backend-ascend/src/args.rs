//! The arguments of a kernel: the one description that kernel, orchestration, harness, test and manifest are made from.
//!
//! Tensors come first and scalars after them, in one order everywhere (the runtime sorts them so in any case).

use crate::tile::{Access, CALL, Kernel, Tensor};
use kbc_ir::name::Name;
use kbc_ir::types::DType;

/// A tensor argument.
#[derive(Clone, PartialEq, Debug)]
pub enum TensorArg<'k> {
    /// A part of a program's input or result.
    Data(&'k Tensor),
    /// All tables one after another, `int32`.
    Tables,
    /// The rank's window, bytes.
    Window,
    /// One line of 64 bytes, `int32`: element 0 is `call + 1` after a good launch, negative after a bad one
    /// ([`Status`]).
    Status,
}

/// A scalar argument, 64 bits.
#[derive(Clone, PartialEq, Debug)]
pub enum ScalarArg {
    /// A run-time scalar of the kernel (`nranks`, `count`, `call`).
    Value(Name),
    /// Device address of the domain's `CommContext`.
    Context,
}

/// What the kernel leaves in element 0 of the status line, if not `call + 1`. Element 1 then has the detail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    /// The domain has another number of ranks than `nranks`; detail: that number.
    Ranks,
    /// A wait was given up on; detail: the counter's byte offset in the window.
    Wait,
    /// The window is smaller than the kernel needs; detail: bytes needed.
    Window,
}

impl Status {
    /// All of them.
    pub const ALL: [Status; 3] = [Status::Ranks, Status::Wait, Status::Window];

    /// The value of element 0.
    pub fn code(self) -> i32 {
        match self {
            Status::Ranks => -1,
            Status::Wait => -2,
            Status::Window => -3,
        }
    }

    /// What the host says, followed by the detail.
    pub fn words(self) -> &'static str {
        match self {
            Status::Ranks => "the domain has another number of ranks than the launch says",
            Status::Wait => "a wait was given up on; byte offset of its counter in the window",
            Status::Window => "the window is too small; bytes needed",
        }
    }
}

impl TensorArg<'_> {
    /// Name in emitted text.
    pub fn name(&self) -> &str {
        match self {
            TensorArg::Data(t) => t.name.as_str(),
            TensorArg::Tables => "tables",
            TensorArg::Window => "window",
            TensorArg::Status => "status",
        }
    }

    /// Element type.
    pub fn dtype(&self) -> DType {
        match self {
            TensorArg::Data(t) => t.dtype,
            TensorArg::Tables | TensorArg::Status => DType::I32,
            TensorArg::Window => DType::U8,
        }
    }

    /// Direction in signatures: an output that a launch writes whole is not copied in; window and status are both
    /// read and written.
    pub fn direction(&self) -> &'static str {
        match self {
            TensorArg::Data(t) if t.access == Access::Out => "OUT",
            TensorArg::Data(_) | TensorArg::Tables => "IN",
            TensorArg::Window | TensorArg::Status => "INOUT",
        }
    }
}

impl ScalarArg {
    /// Name in emitted text.
    pub fn name(&self) -> &str {
        match self {
            ScalarArg::Value(n) => n.as_str(),
            ScalarArg::Context => "ctx",
        }
    }

    /// Whether it is the number of the launch.
    pub fn is_call(&self) -> bool {
        matches!(self, ScalarArg::Value(n) if n.as_str() == CALL)
    }
}

/// Tensor arguments in order.
pub fn tensors(kernel: &Kernel) -> Vec<TensorArg<'_>> {
    let mut out: Vec<TensorArg<'_>> = kernel.tensors.iter().map(TensorArg::Data).collect();
    if !kernel.tables.is_empty() {
        out.push(TensorArg::Tables);
    }
    out.extend([TensorArg::Window, TensorArg::Status]);
    out
}

/// Scalar arguments in order; argument `tensors(kernel).len() + i` is the i-th.
pub fn scalars(kernel: &Kernel) -> Vec<ScalarArg> {
    kernel.scalars.iter().cloned().map(ScalarArg::Value).chain([ScalarArg::Context]).collect()
}
