//! Passes of the backend: `in-place` removes areas that repeat a tensor, `fetch-in-place` those
//! that repeat what peers fetch, `layout` places counters and areas in the window, `buffers` places
//! tiles in the rank's own memory. Fences stay: [`crate::orders`] reads them.

use crate::device::Processor;
use kbc_diag::{Diagnostic, Diagnostics};
use kbc_tiles::device::Device;
use kbc_tiles::tile::{Kernel, Space};

/// A pass of the tile level.
pub struct HostPass {
    /// Name on the command line.
    pub name: &'static str,
    /// Description of the pass, in one line.
    pub doc: &'static str,
    /// The function that runs the pass.
    pub run: fn(&mut Kernel) -> Result<(), Diagnostics>,
}

/// All passes, in the order in which they run.
pub const PASSES: &[HostPass] = &[
    HostPass {
        name: "in-place",
        doc: "areas that repeat an input or a result are that tensor",
        run: in_place,
    },
    HostPass {
        name: "fetch-in-place",
        doc: "peers fetch from where data lies, and not from a copy",
        run: fetch_in_place,
    },
    HostPass { name: "layout", doc: "offsets of signals and areas in the window", run: layout },
    HostPass { name: "buffers", doc: "addresses of tiles in the memories of a core", run: buffers },
];

fn in_place(kernel: &mut Kernel) -> Result<(), Diagnostics> {
    crate::in_place::run(kernel);
    Ok(())
}

fn fetch_in_place(kernel: &mut Kernel) -> Result<(), Diagnostics> {
    crate::fetch_in_place::run(kernel);
    Ok(())
}

fn layout(kernel: &mut Kernel) -> Result<(), Diagnostics> {
    kbc_tiles::layout::run(kernel);
    Ok(())
}

/// Assigns every tile an address in its memory, one after another.
fn buffers(kernel: &mut Kernel) -> Result<(), Diagnostics> {
    let step = u64::from(Processor.limits().align);
    for space in Space::ALL {
        let (mut at, most) = (0u64, u64::from(Processor.bytes(space)));
        for tile in kernel.tiles.iter_mut().filter(|t| t.space == space) {
            tile.at = u32::try_from(at).ok();
            at = (at + tile.all_bytes()).div_ceil(step) * step;
        }
        if at > most {
            let title = format!("the tiles of {} need {at} bytes", kernel.name);
            let own = kernel.dialect.space(space);
            return Err(Diagnostic::error("E450", title)
                .note(format!("host gives a kernel {most} bytes of the memory `{own}`"))
                .help("make the tiles smaller, or use fewer of them at the same time")
                .into());
        }
    }
    Ok(())
}

/// Runs all passes.
///
/// # Errors
/// Returns the errors of the first pass that fails.
pub fn complete(kernel: &mut Kernel) -> Result<(), Diagnostics> {
    PASSES.iter().try_for_each(|p| (p.run)(kernel))
}
