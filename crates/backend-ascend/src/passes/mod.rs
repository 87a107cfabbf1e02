//! Passes of the tile level, which complete a lowered kernel.
//!
//! The module owns the list of the passes and their order. Every pass
//! takes a kernel and a profile, and leaves a kernel that can be printed; after the last one,
//! [`kbc_tiles::tile::verify`] accepts the kernel.

pub mod buffers;
pub mod double;
pub mod fences;
pub mod flags;

use crate::profile::Profile;
use kbc_diag::Diagnostics;
use kbc_tiles::tile::Kernel;

/// A pass of the tile level.
pub struct TilePass {
    /// Name on the command line.
    pub name: &'static str,
    /// Description of the pass, in one line.
    pub doc: &'static str,
    /// The function that runs the pass.
    pub run: fn(&mut Kernel, &Profile) -> Result<(), Diagnostics>,
}

/// All passes, in the order in which they run.
pub const PASSES: &[TilePass] = &[
    TilePass { name: "layout", doc: "offsets of signals and areas in the window", run: place },
    TilePass { name: "double", doc: "two copies of tiles in loops that load and store", run: double::run },
    TilePass { name: "buffers", doc: "addresses of tiles in the memories of a core", run: buffers::run },
    TilePass { name: "fences", doc: "release, acquire and complete as barriers and dsb", run: fences::run },
    TilePass {
        name: "flags",
        doc: "flags and barriers between pipes, as few as are needed",
        run: flags::run,
    },
];

fn place(kernel: &mut Kernel, _: &Profile) -> Result<(), Diagnostics> {
    kbc_tiles::layout::run(kernel);
    Ok(())
}

/// Runs all passes.
///
/// # Errors
/// Returns the errors of the first pass that fails.
pub fn complete(kernel: &mut Kernel, profile: &Profile) -> Result<(), Diagnostics> {
    PASSES.iter().try_for_each(|p| (p.run)(kernel, profile))
}
