//! Kernel arguments: the one description from which kernel, orchestration, harness, test and
//! manifest are generated.
//!
//! Tensors come first and scalars after them, in the same order everywhere. The runtime sorts
//! arguments in this way too.

use crate::tile::tasks::Task;
use crate::tile::{Area, AreaId, CALL, Kernel, Object, Reach, Tensor, TensorId, TensorUse};
use kbc_diag::Diagnostic;
use kbc_ir::name::Name;
use kbc_ir::types::DType;

/// A tensor argument.
#[derive(Clone, PartialEq, Debug)]
pub enum TensorArg<'k> {
    /// An input or result of the program, as this rank has it.
    Data(&'k Tensor),
    /// All tables, one after another, as `int32`.
    Tables,
    /// The rank's own memory for intermediate values, as bytes.
    Memory,
    /// The rank's window, as bytes.
    Window,
    /// The status: one line of 64 bytes per core of a task, as `int32`. Element 0 of a line is
    /// `call + 1` after a successful launch and negative after a failed one ([`Status`]).
    Status,
    /// An intermediate value of a program of tasks: a part of the memory, from which the runtime
    /// derives the order of the tasks.
    Area(&'k Area),
}

/// A tensor argument of a task.
#[derive(Clone, PartialEq, Debug)]
pub struct TaskArg<'k> {
    /// The tensor.
    pub arg: TensorArg<'k>,
    /// Direction: `IN`, `OUT` (written completely, and by this task alone) or `INOUT`.
    pub direction: &'static str,
}

/// A scalar argument of 64 bits.
#[derive(Clone, PartialEq, Debug)]
pub enum ScalarArg {
    /// A run-time scalar of the kernel (`nranks`, `count`, `call`).
    Value(Name),
    /// Device address of the runtime's description of the domain.
    Context,
}

/// Reason of a failed launch, which the kernel leaves in element 0 of a status line in place of
/// `call + 1`. Element 1 then holds the detail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    /// The domain has a different number of ranks than `nranks`; detail: that number.
    Ranks,
    /// The kernel gave up on a wait; detail: byte offset of the counter in the window.
    Wait,
    /// The window is smaller than the kernel needs; detail: the number of bytes needed.
    Window,
    /// The launch has a different number of blocks than the kernel has cores; detail: that number.
    Cores,
}

impl Status {
    /// All reasons.
    pub const ALL: [Status; 4] = [Status::Ranks, Status::Wait, Status::Window, Status::Cores];

    /// Returns the value of element 0 of the status line.
    pub fn code(self) -> i32 {
        match self {
            Status::Ranks => -1,
            Status::Wait => -2,
            Status::Window => -3,
            Status::Cores => -4,
        }
    }

    /// Returns the message that the host prints in front of the detail.
    pub fn words(self) -> &'static str {
        match self {
            Status::Ranks => "the number of ranks of the domain differs from that of the launch",
            Status::Wait => "a wait timed out; byte offset of its counter in the window",
            Status::Window => "the window is too small; bytes needed",
            Status::Cores => {
                "the number of blocks of the launch differs from the number of cores of the kernel"
            }
        }
    }
}

impl TensorArg<'_> {
    /// Returns the name of the argument in emitted text.
    pub fn name(&self) -> &str {
        match self {
            TensorArg::Data(t) => t.name.as_str(),
            TensorArg::Tables => "tables",
            TensorArg::Memory => "memory",
            TensorArg::Window => "window",
            TensorArg::Status => "status",
            TensorArg::Area(a) => a.name.as_str(),
        }
    }

    /// Returns the element type.
    pub fn dtype(&self) -> DType {
        match self {
            TensorArg::Data(t) => t.dtype,
            TensorArg::Tables | TensorArg::Status => DType::I32,
            TensorArg::Memory | TensorArg::Window => DType::U8,
            TensorArg::Area(a) => a.dtype,
        }
    }

    /// Returns the direction of the argument in signatures. An output that a launch writes
    /// completely is not copied in; window and status are both read and written.
    pub fn direction(&self) -> &'static str {
        match self {
            TensorArg::Data(t) if t.access == TensorUse::Out => "OUT",
            TensorArg::Data(_) | TensorArg::Tables => "IN",
            TensorArg::Memory | TensorArg::Window | TensorArg::Status | TensorArg::Area(_) => "INOUT",
        }
    }
}

impl ScalarArg {
    /// Returns the name of the argument in emitted text.
    pub fn name(&self) -> &str {
        match self {
            ScalarArg::Value(n) => n.as_str(),
            ScalarArg::Context => "ctx",
        }
    }

    /// Checks whether this argument is the number of the launch.
    pub fn is_call(&self) -> bool {
        matches!(self, ScalarArg::Value(n) if n.as_str() == CALL)
    }
}

/// Returns the tensor arguments of a kernel in order.
pub fn tensors(kernel: &Kernel) -> Vec<TensorArg<'_>> {
    let mut out: Vec<TensorArg<'_>> = kernel.tensors.iter().map(TensorArg::Data).collect();
    if !kernel.tables.is_empty() {
        out.push(TensorArg::Tables);
    }
    if kernel.areas.iter().any(|a| a.reach == Reach::Own) {
        out.push(TensorArg::Memory);
    }
    out.extend([TensorArg::Window, TensorArg::Status]);
    out
}

/// Returns the tensor arguments of a task in order: the tensors that it touches, the tables, the
/// window if the task touches what peers reach, the intermediate values that it touches, and its
/// own status line. A kernel that is not a program of tasks takes the arguments of the launch
/// ([`tensors`]).
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

/// Returns the scalar arguments of a kernel in order. Scalar i is argument number
/// `tensors(kernel).len() + i`.
pub fn scalars(kernel: &Kernel) -> Vec<ScalarArg> {
    kernel.scalars.iter().cloned().map(ScalarArg::Value).chain([ScalarArg::Context]).collect()
}

/// Returns E449: the kernel is not complete.
pub fn incomplete(title: String) -> Diagnostic {
    Diagnostic::error("E449", title).note(
        "a kernel is printed only after the passes layout, buffers, flags and fences, and after the verifier",
    )
}

/// Returns the content of the argument `tables` for a number of ranks: first the start index of
/// each table, then the tables one after another. It is empty if the kernel has no tables.
///
/// # Errors
/// Returns E449 if a table has no entries for that number of ranks, or if a start index or an entry
/// does not fit in 32 bits.
pub fn tables_tensor(k: &Kernel, nranks: u64) -> Result<Vec<i32>, Diagnostic> {
    let mut starts = vec![];
    let mut entries: Vec<i32> = vec![];
    for t in &k.tables {
        let at = k.tables.len() + entries.len();
        starts.push(
            i32::try_from(at).map_err(|_| incomplete(format!("table @{} begins beyond 32 bits", t.name)))?,
        );
        let values = t.values.get(&nranks).ok_or_else(|| {
            let known: Vec<String> = t.values.keys().map(u64::to_string).collect();
            incomplete(format!(
                "table @{} has no entries for {nranks} ranks, only for {}",
                t.name,
                known.join(", ")
            ))
        })?;
        for v in values {
            let entry = i32::try_from(*v);
            entries.push(entry.map_err(|_| {
                incomplete(format!("table @{} has {v}, which does not fit in 32 bits", t.name))
            })?);
        }
    }
    starts.extend(entries);
    Ok(starts)
}
