//! Tile level: a kernel for one core, or a program of tasks for several, as structured text.
//!
//! Owns what a kernel is: run-time scalars, tensors, areas of the window, signals, tiles in the unified buffer (UB), and
//! statements over them. A kernel is lowered from a schedule, completed by the passes of this level (layout, buffers,
//! flags, fences), verified, and printed as C++ by a printer that decides nothing. A program with products for the cube unit is cut
//! into tasks ([`tasks`]), each of which is a kernel of its own. All numbers
//! are expressions in the run-time scalars, `rank`, `call` and the variables in scope, so one kernel serves many sizes.

pub mod hazard;
mod op;
pub mod order;
pub mod parse;
pub mod path;
pub mod tasks;
pub mod text;
pub mod trace;
pub mod verify;

pub use op::{Barrier, Gm, Object, Op, Pipe, Rounding, VArg, VecOp};

use kbc_ir::expr::Expr;
use kbc_ir::name::Name;
use kbc_ir::types::DType;
use std::collections::BTreeMap;

/// Index of a tensor of the kernel.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TensorId(pub u32);
/// Index of an area of the window.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct AreaId(pub u32);
/// Index of an array of signals.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SignalsId(pub u32);
/// Index of a tile.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TileId(pub u32);

/// This rank's number in the domain, known to every kernel.
pub const RANK: &str = "rank";
/// The number of the launch on this domain, from 0, known to every kernel.
pub const CALL: &str = "call";
/// The number of this core among those of the kernel, from 0, known to every kernel.
pub const CORE: &str = "core";
/// Run-time scalar: ranks of the domain.
pub const NRANKS: &str = "nranks";
/// Run-time scalar: elements of the program's variable size.
pub const COUNT: &str = "count";

/// A kernel.
#[derive(Clone, PartialEq, Debug)]
pub struct Kernel {
    /// Name.
    pub name: Name,
    /// What it runs on.
    pub core: Core,
    /// Vector cores of a rank that run it together, at least 1. Tasks for cube cores run on one each.
    pub cores: u32,
    /// Run-time scalars, in the order of arguments; `call` is always one of them, `rank` never (it is the domain's).
    pub scalars: Vec<Name>,
    /// Tensors, in the order of arguments.
    pub tensors: Vec<Tensor>,
    /// Tables; all of them are one `int32` tensor behind the others, one table after another.
    pub tables: Vec<Table>,
    /// Arrays of counters in the window.
    pub signals: Vec<Signals>,
    /// Areas of the window.
    pub areas: Vec<Area>,
    /// Tiles in UB.
    pub tiles: Vec<Tile>,
    /// What it does.
    pub body: Vec<Stmt>,
}

/// What a kernel or a task runs on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Core {
    /// A vector core.
    Aiv,
    /// A cube core.
    Aic,
    /// Tasks, each for one core: the body is [`Stmt::Task`]s.
    Tasks,
}

/// How the kernel uses a tensor.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Access {
    /// Only read.
    In,
    /// Every element is written before it is read.
    Out,
}

/// An argument in device memory that peers cannot reach.
#[derive(Clone, PartialEq, Debug)]
pub struct Tensor {
    /// Name.
    pub name: Name,
    /// Element type.
    pub dtype: DType,
    /// Elements on a rank: an expression in scalars and `rank`.
    pub len: Expr,
    /// How it is used.
    pub access: Access,
    /// Number of the program's input or result that it is.
    pub index: u32,
}

/// A constant table; its entries may depend on the rank count.
#[derive(Clone, PartialEq, Debug)]
pub struct Table {
    /// Name.
    pub name: Name,
    /// Entries for a rank count; a kernel that is for one rank count alone has that one.
    pub values: BTreeMap<u64, Vec<i64>>,
}

/// An array of 32-bit add-only counters, a 64-byte line each, zero when the domain is allocated.
#[derive(Clone, PartialEq, Debug)]
pub struct Signals {
    /// Name.
    pub name: Name,
    /// Counters.
    pub count: Expr,
    /// Most that one call adds to one of them.
    pub per_call: Expr,
    /// Byte offset in the window, once laid out.
    pub at: Option<Expr>,
}

/// Who reaches an area.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Reach {
    /// Peers and this rank.
    Peers,
    /// This rank alone: temporary memory.
    Own,
}

/// A part of every rank's window: `slots` slots of `capacity` elements, each slot starting on a line of 64 bytes.
#[derive(Clone, PartialEq, Debug)]
pub struct Area {
    /// Name.
    pub name: Name,
    /// Element type.
    pub dtype: DType,
    /// Slots.
    pub slots: Expr,
    /// Elements a slot holds.
    pub capacity: Expr,
    /// Who reaches it.
    pub reach: Reach,
    /// Areas of one arena share their memory: the schedule has shown that they are never in use together.
    pub arena: u32,
    /// Byte offset in the window, once laid out.
    pub at: Option<Expr>,
}

/// A memory inside a core.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Space {
    /// The unified buffer of a vector core.
    Ub,
    /// What a cube core loads from global memory.
    L1,
    /// Left operands of the cube unit.
    L0a,
    /// Right operands of the cube unit.
    L0b,
    /// Sums of the cube unit.
    L0c,
}

/// What is added to an event's number in every other iteration of a loop whose tiles take turns.
pub const TURN: u8 = 4;

/// A tile: one row in UB, rows by columns in the memories of a cube core.
#[derive(Clone, PartialEq, Debug)]
pub struct Tile {
    /// Name.
    pub name: Name,
    /// Element type.
    pub dtype: DType,
    /// Where it is.
    pub space: Space,
    /// Rows; 1 in UB.
    pub rows: u32,
    /// Elements of a row.
    pub elements: u32,
    /// 2 if loops over tiles take turns between two copies, the second behind the first; else 1.
    pub copies: u32,
    /// Byte address in its memory, once assigned.
    pub at: Option<u32>,
}

/// A statement.
#[derive(Clone, PartialEq, Debug)]
pub enum Stmt {
    /// `let name = value`: an integer for the rest of this block.
    Let {
        /// Name.
        name: Name,
        /// Value.
        value: Expr,
    },
    /// `for var in lo..hi`
    For {
        /// The step.
        var: Name,
        /// First value.
        lo: Expr,
        /// One past the last.
        hi: Expr,
        /// What is repeated.
        body: Vec<Stmt>,
    },
    /// `if cond`, with `else`.
    If {
        /// The predicate; truth is not 0.
        cond: Expr,
        /// Where it holds.
        then: Vec<Stmt>,
        /// Where not.
        other: Vec<Stmt>,
    },
    /// `tiles pos, len in total by step [twice]`: pos = 0, step, 2 step .. below total, len = min(step, total - pos).
    Tiles {
        /// First element of the tile.
        pos: Name,
        /// Elements of the tile.
        len: Name,
        /// All elements; nothing happens for 0.
        total: Expr,
        /// Elements of a full tile.
        step: u32,
        /// Tiles take turns between their two copies: every other iteration has the second one of each, and its flags have the events
        /// behind those that are written ([`TURN`]).
        twice: bool,
        /// What is done with a tile.
        body: Vec<Stmt>,
    },
    /// `task name core`: a kernel of its own. Names from outside are not visible in it.
    Task {
        /// Name, different from those of other tasks.
        name: Name,
        /// The core it is for: a vector core or a cube core.
        core: Core,
        /// What it does.
        body: Vec<Stmt>,
    },
    /// Where what follows comes from: a line of the program or algorithm, and the schedule's operation.
    Note {
        /// `file:line`, empty where there is none.
        place: String,
        /// The operation, as in `.kir`.
        text: String,
    },
    /// An operation.
    Op(Op),
}

impl Kernel {
    /// Cores of a rank that run it together: blocks of one launch.
    pub fn blocks(&self) -> u32 {
        if self.core == Core::Aic { 1 } else { self.cores }
    }

    /// A tensor.
    pub fn tensor(&self, id: TensorId) -> &Tensor {
        &self.tensors[id.0 as usize]
    }

    /// An area of the window.
    pub fn area(&self, id: AreaId) -> &Area {
        &self.areas[id.0 as usize]
    }

    /// An array of signals.
    pub fn signals(&self, id: SignalsId) -> &Signals {
        &self.signals[id.0 as usize]
    }

    /// A tile.
    pub fn tile(&self, id: TileId) -> &Tile {
        &self.tiles[id.0 as usize]
    }

    /// Element type of a memory.
    pub fn dtype(&self, object: Object) -> DType {
        match object {
            Object::Tensor(t) => self.tensor(t).dtype,
            Object::Area(a) => self.area(a).dtype,
        }
    }
}

impl Area {
    /// Elements from the start of a slot to the start of the next: the capacity up to the next line of 64 bytes.
    pub fn stride(&self) -> Expr {
        let line = (64 / self.dtype.bytes()) as i64;
        let up = Expr::bin(kbc_ir::expr::BinOp::Add, self.capacity.clone(), Expr::Int(line - 1));
        let lines = Expr::bin(kbc_ir::expr::BinOp::Div, up, Expr::Int(line));
        Expr::bin(kbc_ir::expr::BinOp::Mul, lines, Expr::Int(line)).simplify()
    }
}

impl Core {
    /// All of them.
    pub const ALL: [Core; 3] = [Core::Aiv, Core::Aic, Core::Tasks];

    /// How it is written.
    pub fn name(self) -> &'static str {
        match self {
            Core::Aiv => "aiv",
            Core::Aic => "aic",
            Core::Tasks => "tasks",
        }
    }

    /// Its pipes; none of several tasks together.
    pub fn pipes(self) -> &'static [Pipe] {
        match self {
            Core::Aiv => &[Pipe::S, Pipe::V, Pipe::Mte2, Pipe::Mte3],
            Core::Aic => &[Pipe::S, Pipe::Mte2, Pipe::Mte1, Pipe::M, Pipe::Fix],
            Core::Tasks => &[],
        }
    }
}

impl Space {
    /// All of them.
    pub const ALL: [Space; 5] = [Space::Ub, Space::L1, Space::L0a, Space::L0b, Space::L0c];

    /// How it is written.
    pub fn name(self) -> &'static str {
        match self {
            Space::Ub => "ub",
            Space::L1 => "l1",
            Space::L0a => "l0a",
            Space::L0b => "l0b",
            Space::L0c => "l0c",
        }
    }

    /// The core that has it.
    pub fn core(self) -> Core {
        if self == Space::Ub { Core::Aiv } else { Core::Aic }
    }
}

impl Tile {
    /// Bytes of a copy.
    pub fn bytes(&self) -> u64 {
        u64::from(self.rows) * u64::from(self.elements) * self.dtype.bytes()
    }

    /// Bytes of all copies.
    pub fn all_bytes(&self) -> u64 {
        self.bytes().saturating_mul(self.copies.into())
    }
}
