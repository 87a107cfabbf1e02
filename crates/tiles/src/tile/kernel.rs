//! Types of the tile level: a kernel with its tensors, tables, signals, areas, tiles and
//! statements.

use super::dialect::Dialect;
use super::ids::{AreaId, LINE, SignalsId, TensorId, TileId};
use super::op::{Object, Op};
use super::roles::{Core, Space};
use super::shared::Shared;
use kbc_ir::expr::{BinOp, Expr};
use kbc_ir::name::Name;
use kbc_ir::types::DType;
use std::collections::BTreeMap;

/// A kernel. The kernels of its tasks share its declarations.
#[derive(Clone, PartialEq, Debug)]
pub struct Kernel {
    /// Name of the kernel.
    pub name: Name,
    /// How the target for which it was made names the parts of a core.
    pub dialect: &'static Dialect,
    /// The kind of core that it runs on.
    pub core: Core,
    /// Number of cores per rank that run it together, at least 1. In a program of tasks, it is the
    /// number of vector cores; a task for matrix cores has a number of its own.
    pub cores: u32,
    /// Run-time scalars, in the order of arguments. `call` is always one of them and `rank` never
    /// is, because the domain provides it.
    pub scalars: Vec<Name>,
    /// The program's root, if a launch may take another one (scalar [`ROOT`]). The kernel is then
    /// written in *places*: `rank` is the place of this rank, which is its number plus this root
    /// minus that of the launch, modulo `nranks`, and numbers of peers are places too. So the
    /// launch's root has the place of the program's root. Counters belong to places, so all
    /// launches of a domain have the same root.
    ///
    /// [`ROOT`]: super::ROOT
    pub root: Option<u64>,
    /// Tensors, in the order of arguments.
    pub tensors: Shared<Tensor>,
    /// Tables. As arguments, all of them together are one `int32` tensor after the other tensors,
    /// one table after another.
    pub tables: Vec<Table>,
    /// Arrays of counters in the window.
    pub signals: Shared<Signals>,
    /// Areas of the window.
    pub areas: Shared<Area>,
    /// Tiles in the memories of the core.
    pub tiles: Vec<Tile>,
    /// Statements of the kernel.
    pub body: Vec<Stmt>,
}

/// How the kernel uses a tensor.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum TensorUse {
    /// The kernel only reads it.
    In,
    /// The kernel writes every element before it reads it.
    Out,
}

/// A tensor argument in device memory.
#[derive(Clone, PartialEq, Debug)]
pub struct Tensor {
    /// Name.
    pub name: Name,
    /// Element type.
    pub dtype: DType,
    /// Number of elements per rank: an expression in scalars and `rank`.
    pub len: Expr,
    /// How it is used.
    pub access: TensorUse,
    /// Number of the program's input or result that this tensor is.
    pub index: u32,
    /// Which ranks access the tensor. Peers read inputs only, and only on targets whose launch puts
    /// them where peers reach them ([`shares_inputs`](crate::device::Device::shares_inputs)).
    pub reach: Reach,
}

/// A constant table. Its entries may depend on the number of ranks.
#[derive(Clone, PartialEq, Debug)]
pub struct Table {
    /// Name.
    pub name: Name,
    /// Entries by number of ranks. A kernel for a single number of ranks has entries for that
    /// number only.
    pub values: BTreeMap<u64, Vec<i64>>,
}

/// An array of 32-bit counters that are only added to. Each counter has a line of 64 bytes and is
/// zero when the domain is allocated.
#[derive(Clone, PartialEq, Debug)]
pub struct Signals {
    /// Name.
    pub name: Name,
    /// Number of counters.
    pub count: Expr,
    /// Most that one call adds to one of the counters.
    pub per_call: Expr,
    /// Byte offset in the window; `None` before pass `layout`.
    pub at: Option<Expr>,
}

/// Which ranks access an area or a tensor.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Reach {
    /// Peers and this rank.
    Peers,
    /// This rank alone: an area is temporary memory.
    Own,
}

/// An area: a part of every rank's window with `slots` slots of `capacity` elements. Every slot
/// starts on a line of 64 bytes.
#[derive(Clone, PartialEq, Debug)]
pub struct Area {
    /// Name.
    pub name: Name,
    /// Element type.
    pub dtype: DType,
    /// Number of slots.
    pub slots: Expr,
    /// Elements per slot.
    pub capacity: Expr,
    /// Which ranks access the area.
    pub reach: Reach,
    /// Number of its arena. Areas of one arena share memory: the schedule, or the order of the
    /// tasks, ensures that they are never in use at the same time.
    pub arena: u32,
    /// Byte offset in the window; `None` before pass `layout`.
    pub at: Option<Expr>,
}

/// Offset that is added to the number of an event in every other iteration of a loop whose tiles
/// take turns.
pub const TURN: u8 = 4;

/// A tile: one row in the memory of a vector core, or a block of rows and columns in a memory of a
/// matrix core.
#[derive(Clone, PartialEq, Debug)]
pub struct Tile {
    /// Name.
    pub name: Name,
    /// Element type.
    pub dtype: DType,
    /// The memory that it is in.
    pub space: Space,
    /// Number of rows; 1 on a vector core.
    pub rows: u32,
    /// Elements per row.
    pub elements: u32,
    /// Number of copies: 2 if loops over tiles take turns between two copies, which are adjacent in
    /// memory; otherwise 1.
    pub copies: u32,
    /// Byte address in its memory; `None` before pass `buffers`.
    pub at: Option<u32>,
}

/// Rows of a matrix in the tiles of a loop. Every tile of the loop has a whole number of them, and
/// an operation whose length is that of the tile acts on the elements of these rows: transfers move
/// them from and to one run of memory, a reduction gives one element for each row, and an expansion
/// fills each row with one element. In the core a row begins [`TileRows::pitch`] elements after the
/// one before it. The elements between rows have no defined value. An operation with another length
/// acts on one run of elements, as it does elsewhere.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct TileRows {
    /// Name of the number of the first row in the tile.
    pub first: Name,
    /// Name of the number of rows in the tile.
    pub count: Name,
    /// Elements of a row.
    pub elements: u32,
}

impl TileRows {
    /// Elements of which a row in a core has a multiple, so that every row is aligned.
    const ALIGN: u32 = 16;

    /// Returns the distance between two rows in a core, in elements.
    pub fn pitch(&self) -> u32 {
        self.elements.div_ceil(Self::ALIGN).saturating_mul(Self::ALIGN)
    }

    /// Returns the number of rows that a tile of so many elements holds.
    pub fn of(&self, elements: u32) -> u32 {
        elements / self.pitch().max(1)
    }
}

/// A statement.
#[derive(Clone, PartialEq, Debug)]
pub enum Stmt {
    /// `let name = value`: names an integer for the rest of this block.
    Let {
        /// Name.
        name: Name,
        /// Value.
        value: Expr,
    },
    /// `for var in lo..hi`.
    For {
        /// The loop variable.
        var: Name,
        /// First value.
        lo: Expr,
        /// One past the last value.
        hi: Expr,
        /// Statements of an iteration.
        body: Vec<Stmt>,
    },
    /// `if cond`, with or without `else`.
    If {
        /// The condition; it holds if it is not 0.
        cond: Expr,
        /// Statements for the case that it holds.
        then: Vec<Stmt>,
        /// Statements for the case that it does not hold.
        other: Vec<Stmt>,
    },
    /// `tiles pos, len in total by step [rows first, count of elements] [twice]`: a loop over tiles
    /// with pos = 0, step, 2 step .. below total and len = min(step, total - pos).
    Tiles {
        /// Name of the position of the tile's first element.
        pos: Name,
        /// Name of the number of elements of the tile.
        len: Name,
        /// Number of all elements; if it is 0, the loop runs no iteration.
        total: Expr,
        /// Elements of a full tile.
        step: u32,
        /// Whether tiles take turns between their two copies. Every other iteration then uses the
        /// second copy of each tile, and adds [`TURN`] to the numbers of the events in its flags.
        twice: bool,
        /// If tiles hold whole rows of a matrix: which.
        rows: Option<TileRows>,
        /// Statements for one tile.
        body: Vec<Stmt>,
    },
    /// `turn tiles by value`: in this block, every one of these tiles is its copy number `value`
    /// modulo 2, and a flag that stands in no inner block of this kind belongs to that copy: for
    /// the second one, [`TURN`] is added to the number of its event.
    Turn {
        /// Tiles with two copies each.
        tiles: Vec<TileId>,
        /// The number from which the copy follows, at least 0.
        by: Expr,
        /// Statements of the block.
        body: Vec<Stmt>,
    },
    /// `task name core`: a kernel of its own. Names from outside are not visible in it.
    Task {
        /// Name, different from the names of all other tasks.
        name: Name,
        /// The kind of core that it runs on: a vector core or a matrix core.
        core: Core,
        /// Number of matrix cores per rank that run it, at least 1. It is 1 for a task for vector
        /// cores, which runs on all vector cores of the program.
        cores: u32,
        /// Statements of the task.
        body: Vec<Stmt>,
    },
    /// Origin of the statements that follow: a line of the program or algorithm, and the operation
    /// of the schedule.
    Note {
        /// `file:line`; empty if there is no such line.
        place: String,
        /// The operation, written as in `.kir`.
        text: String,
    },
    /// An operation.
    Op(Op),
}

impl Stmt {
    /// Returns the blocks that a statement contains: both of an `if`, one of a loop, a turn or a
    /// task, and none of the others.
    pub fn blocks(&self) -> impl Iterator<Item = &Vec<Stmt>> {
        let (one, two) = match self {
            Stmt::For { body, .. }
            | Stmt::Tiles { body, .. }
            | Stmt::Turn { body, .. }
            | Stmt::Task { body, .. } => (Some(body), None),
            Stmt::If { then, other, .. } => (Some(then), Some(other)),
            Stmt::Let { .. } | Stmt::Note { .. } | Stmt::Op(_) => (None, None),
        };
        one.into_iter().chain(two)
    }

    /// Returns [`Stmt::blocks`] to change them.
    pub fn blocks_mut(&mut self) -> impl Iterator<Item = &mut Vec<Stmt>> {
        let (one, two) = match self {
            Stmt::For { body, .. }
            | Stmt::Tiles { body, .. }
            | Stmt::Turn { body, .. }
            | Stmt::Task { body, .. } => (Some(body), None),
            Stmt::If { then, other, .. } => (Some(then), Some(other)),
            Stmt::Let { .. } | Stmt::Note { .. } | Stmt::Op(_) => (None, None),
        };
        one.into_iter().chain(two)
    }
}

impl Kernel {
    /// Returns the kernel with all of its declarations and no statement.
    #[must_use]
    pub fn declarations(&self) -> Kernel {
        Kernel {
            name: self.name.clone(),
            dialect: self.dialect,
            core: self.core,
            cores: self.cores,
            scalars: self.scalars.clone(),
            root: self.root,
            tensors: self.tensors.clone(),
            tables: self.tables.clone(),
            signals: self.signals.clone(),
            areas: self.areas.clone(),
            tiles: self.tiles.clone(),
            body: vec![],
        }
    }

    /// Returns the number of cores of a rank that run the kernel or most tasks of it, which is the
    /// largest number of blocks of a launch.
    pub fn most_cores(&self) -> u32 {
        let of = |s: &Stmt| if let Stmt::Task { cores, .. } = s { *cores } else { 1 };
        self.body.iter().map(of).fold(self.cores, u32::max)
    }

    /// Returns a tensor.
    pub fn tensor(&self, id: TensorId) -> &Tensor {
        &self.tensors[id.0 as usize]
    }

    /// Returns an area of the window.
    pub fn area(&self, id: AreaId) -> &Area {
        &self.areas[id.0 as usize]
    }

    /// Returns an array of signals.
    pub fn signals(&self, id: SignalsId) -> &Signals {
        &self.signals[id.0 as usize]
    }

    /// Returns a tile.
    pub fn tile(&self, id: TileId) -> &Tile {
        &self.tiles[id.0 as usize]
    }

    /// Returns the element type of a tensor or an area.
    pub fn dtype(&self, object: Object) -> DType {
        match object {
            Object::Tensor(t) => self.tensor(t).dtype,
            Object::Area(a) => self.area(a).dtype,
        }
    }
}

impl Area {
    /// Returns the number of elements from the start of a slot to the start of the next one: the
    /// capacity, rounded up to whole lines of 64 bytes.
    pub fn stride(&self) -> Expr {
        let line = (LINE / self.dtype.bytes()) as i64;
        let up = Expr::bin(BinOp::Add, self.capacity.clone(), Expr::Int(line - 1));
        let lines = Expr::bin(BinOp::Div, up, Expr::Int(line));
        Expr::bin(BinOp::Mul, lines, Expr::Int(line)).simplify()
    }
}

impl Tile {
    /// Returns the size of one copy in bytes.
    pub fn bytes(&self) -> u64 {
        u64::from(self.rows) * u64::from(self.elements) * self.dtype.bytes()
    }

    /// Returns the size of all copies in bytes.
    pub fn all_bytes(&self) -> u64 {
        self.bytes().saturating_mul(self.copies.into())
    }
}
