//! Packages: the description from which a backend makes the files of an emitted program.
//!
//! The module owns the description ([`Package`]), the sizes of the program's tensors (`sizes`),
//! the table of the window ([`window`]) and the golden values ([`golden`]). A backend adds the
//! texts of the kernel and what its runtime needs. Golden values are computed from the *definition*
//! of the program, which is its graph on one device, and never from schedule or layout. Where
//! integers stay exact, results are compared bit for bit; elsewhere they are compared within bounds
//! that the golden values come with.

mod bus;
mod description;
pub mod golden;
pub mod python;
mod sizes;
pub mod window;

pub use bus::{Bus, bus, only_moves};
pub use description::{
    Claim, CountClaim, Evidence, Executed, Global, KernelText, MovedBlock, MovedBlocks, OWN, Package,
    PackagedProgram, SizeReasons, Source, TaskScalar, problems, refused,
};
pub use sizes::{Sizes, fit_sizes};
pub use window::{Layout, RowKind, SizedWindow, WindowRow};
