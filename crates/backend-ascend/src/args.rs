//! The arguments of a kernel: the one description that kernel, orchestration, harness, test and manifest are made from.
//!
//! Tensors come first and scalars after them, in one order everywhere (the runtime sorts them so in any case).

use crate::tile::tasks::Task;
use crate::tile::{Access, Area, AreaId, CALL, Kernel, Object, Tensor, TensorId};
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
    /// One line of 64 bytes a core of a task, `int32`: element 0 is `call + 1` after a good launch, negative after a bad one
    /// ([`Status`]).
    Status,
    /// Of a task: an intermediate value, as a part of the window that the runtime orders tasks by.
    Area(&'k Area),
}

/// A tensor that a task takes.
#[derive(Clone, PartialEq, Debug)]
pub struct TaskArg<'k> {
    /// Which.
    pub arg: TensorArg<'k>,
    /// How it is used: `IN`, `OUT` (written whole by this task alone) or `INOUT`.
    pub direction: &'static str,
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
    /// The launch has another number of blocks than the kernel has cores; detail: that number.
    Cores,
}

impl Status {
    /// All of them.
    pub const ALL: [Status; 4] = [Status::Ranks, Status::Wait, Status::Window, Status::Cores];

    /// The value of element 0.
    pub fn code(self) -> i32 {
        match self {
            Status::Ranks => -1,
            Status::Wait => -2,
            Status::Window => -3,
            Status::Cores => -4,
        }
    }

    /// What the host says, followed by the detail.
    pub fn words(self) -> &'static str {
        match self {
            Status::Ranks => "the domain has another number of ranks than the launch says",
            Status::Wait => "a wait was given up on; byte offset of its counter in the window",
            Status::Window => "the window is too small; bytes needed",
            Status::Cores => "the launch has another number of blocks than the kernel has cores",
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
            TensorArg::Area(a) => a.name.as_str(),
        }
    }

    /// Element type.
    pub fn dtype(&self) -> DType {
        match self {
            TensorArg::Data(t) => t.dtype,
            TensorArg::Tables | TensorArg::Status => DType::I32,
            TensorArg::Window => DType::U8,
            TensorArg::Area(a) => a.dtype,
        }
    }

    /// Direction in signatures: an output that a launch writes whole is not copied in; window and status are both
    /// read and written.
    pub fn direction(&self) -> &'static str {
        match self {
            TensorArg::Data(t) if t.access == Access::Out => "OUT",
            TensorArg::Data(_) | TensorArg::Tables => "IN",
            TensorArg::Window | TensorArg::Status | TensorArg::Area(_) => "INOUT",
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

/// Tensors of a task in order: those that it touches of the launch's, what peers reach, intermediate values, its own line of
/// the status. A kernel that is no program of tasks takes those of the launch.
pub fn task_tensors<'k>(kernel: &'k Kernel, tasks: &[Task], at: usize) -> Vec<TaskArg<'k>> {
    let task = &tasks[at];
    if task.at.is_none() {
        return tensors(kernel).into_iter().map(|arg| TaskArg { direction: arg.direction(), arg }).collect();
    }
    let uses = &task.uses;
    let touches = |t: &Task, o: &Object| t.uses.reads.contains(o) || t.uses.writes.contains(o);
    let mut out = vec![];
    for (i, t) in kernel.tensors.iter().enumerate() {
        let object = Object::Tensor(TensorId(i as u32));
        if touches(task, &object) {
            let alone = tasks.iter().filter(|t| touches(t, &object)).count() == 1;
            let direction = match (uses.writes.contains(&object), alone && !uses.reads.contains(&object)) {
                (false, _) => "IN",
                (true, true) => "OUT",
                (true, false) => "INOUT",
            };
            out.push(TaskArg { arg: TensorArg::Data(t), direction });
        }
    }
    if uses.tables {
        out.push(TaskArg { arg: TensorArg::Tables, direction: "IN" });
    }
    if uses.shared {
        out.push(TaskArg { arg: TensorArg::Window, direction: "INOUT" });
    }
    for (i, a) in kernel.areas.iter().enumerate() {
        let object = Object::Area(AreaId(i as u32));
        if touches(task, &object) {
            let direction = if uses.writes.contains(&object) { "INOUT" } else { "IN" };
            out.push(TaskArg { arg: TensorArg::Area(a), direction });
        }
    }
    out.push(TaskArg { arg: TensorArg::Status, direction: "INOUT" });
    out
}

/// Scalar arguments in order; argument `tensors(kernel).len() + i` is the i-th.
pub fn scalars(kernel: &Kernel) -> Vec<ScalarArg> {
    kernel.scalars.iter().cloned().map(ScalarArg::Value).chain([ScalarArg::Context]).collect()
}
