//! Ids of the parts of a kernel, and the names that every kernel has.

/// Bytes of a line of the window: a counter has a line of its own, and every slot of an area starts
/// on a line.
pub const LINE: u64 = 64;

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

/// Name of this rank's number in the domain; every kernel has it.
pub const RANK: &str = "rank";
/// Name of the number of the launch on this domain, counted from 0; every kernel has it.
pub const CALL: &str = "call";
/// Name of this core's number among the cores of the kernel, counted from 0; every kernel has it.
pub const CORE: &str = "core";
/// Beginning of the names of numbers that state where a part of a tensor or an area begins.
pub const PIECE: &str = "piece";
/// Name of a run-time scalar: the number of ranks of the domain.
pub const NRANKS: &str = "nranks";
/// Name of a run-time scalar: the rank that has the role of the program's root ([`Kernel::root`]).
///
/// [`Kernel::root`]: super::Kernel::root
pub const ROOT: &str = "root";
/// Name of a run-time scalar: the number of elements of the program's variable size.
pub const COUNT: &str = "count";
