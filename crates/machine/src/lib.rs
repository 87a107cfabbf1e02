//! The machine model: topology, routes, memories, placement inside devices, and lower bounds of
//! time.
//!
//! * [`topology`]: ranks, links, routes and the settings of a machine.
//! * [`memory`]: where the tensors of a schedule lie, and whether all of them fit.
//! * [`policy`]: the rules by which the cubes and PEs of a device divide tensors.
//! * [`placement`]: which part of a tensor each PE of a device holds.
//! * [`share`]: which part of local work each PE of a device performs.
//! * [`bounds`]: times that no schedule of a collective can beat on a machine.
//!
//! It reads schedules through `kbc_ir::walk` and knows nothing of files, passes or backends.

pub mod bounds;
pub mod memory;
pub mod placement;
pub mod policy;
pub mod share;
#[doc(hidden)]
pub mod testing;
pub mod topology;
