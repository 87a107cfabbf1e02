//! Roles: the kinds of cores, their memories, and the pipes that execute operations, as every
//! target has them under names of its own.

/// The kind of core that a kernel or a task runs on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Core {
    /// One vector core.
    Vector,
    /// One matrix core.
    Matrix,
    /// A program of tasks, each for one kind of core; the body consists of `Stmt::Task`s.
    Tasks,
}

/// A memory inside a core.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Space {
    /// The memory of a vector core.
    Vector,
    /// The memory into which a matrix core loads from global memory.
    Stage,
    /// Memory of the left operands of the matrix unit.
    Left,
    /// Memory of the right operands of the matrix unit.
    Right,
    /// Memory of the sums of the matrix unit.
    Sums,
}

/// The pipes that kernels use.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Pipe {
    /// Scalar pipe.
    Scalar,
    /// Vector pipe.
    Vector,
    /// Transfers from global memory into the core.
    Load,
    /// Transfers from a vector core to global memory.
    Store,
    /// Transfers inside a matrix core, from its stage to its operands.
    Move,
    /// The matrix unit.
    Matmul,
    /// Transfers of sums of a matrix core to global memory.
    StoreSums,
}

/// The pipes that a barrier waits for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Barrier {
    /// One pipe: what is issued to it later starts after what was issued to it before has
    /// completed.
    Pipe(Pipe),
    /// All pipes.
    All,
}

impl Core {
    /// All kinds of cores.
    pub const ALL: [Core; 3] = [Core::Vector, Core::Matrix, Core::Tasks];

    /// Returns the pipes of the core; empty for a program of tasks.
    pub fn pipes(self) -> &'static [Pipe] {
        match self {
            Core::Vector => &[Pipe::Scalar, Pipe::Vector, Pipe::Load, Pipe::Store],
            Core::Matrix => &[Pipe::Scalar, Pipe::Load, Pipe::Move, Pipe::Matmul, Pipe::StoreSums],
            Core::Tasks => &[],
        }
    }
}

impl Space {
    /// All memories.
    pub const ALL: [Space; 5] = [Space::Vector, Space::Stage, Space::Left, Space::Right, Space::Sums];

    /// Returns the kind of core that has this memory.
    pub fn core(self) -> Core {
        if self == Space::Vector { Core::Vector } else { Core::Matrix }
    }
}

impl Pipe {
    /// All pipes.
    pub const ALL: [Pipe; 7] =
        [Pipe::Scalar, Pipe::Vector, Pipe::Load, Pipe::Store, Pipe::Move, Pipe::Matmul, Pipe::StoreSums];
}
