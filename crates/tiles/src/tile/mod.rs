//! Tile level: a kernel for one core, or a program of tasks for several cores, as structured text.
//!
//! The module owns the parts of a kernel: run-time scalars, tensors, areas of the window, signals,
//! tiles in the memories of a core, and statements over them. A kernel is lowered from a schedule,
//! completed by the passes of this level (layout, double, buffers, fences, flags), verified, and
//! printed by a backend's printer that decides nothing. A program with matmuls for the matrix unit
//! is cut into tasks ([`tasks`]), each of which is a kernel of its own. All numbers are expressions
//! in the run-time scalars, `rank`, `call`, `core` and the variables in scope, so one kernel serves
//! many sizes.

mod apart;
pub mod core_work;
pub mod counts;
mod dialect;
pub mod hazard;
mod ids;
mod kernel;
pub(crate) mod lifetimes;
mod op;
pub mod order;
pub mod parse;
pub mod path;
mod roles;
mod shared;
pub mod sync;
pub mod tasks;
pub mod text;
pub mod trace;
pub mod verify;
pub mod visit;

pub use dialect::Dialect;
pub use ids::{AreaId, CALL, CORE, COUNT, LINE, NRANKS, PIECE, RANK, ROOT, SignalsId, TensorId, TileId};
pub use kernel::{Area, Kernel, Reach, Signals, Stmt, TURN, Table, Tensor, TensorUse, Tile, TileRows};
pub use op::{Gm, Object, Op, Rounding, VArg, VecOp};
pub use roles::{Barrier, Core, Pipe, Space};
pub use shared::Shared;
