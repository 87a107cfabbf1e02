//! Addresses of tiles in the unified buffer: one after another, none overlapping.

use crate::profile::Profile;
use crate::tile::Kernel;
use kbc_diag::{Diagnostic, Diagnostics};

/// Gives every tile its address; an error with the bytes needed where they do not fit.
pub fn run(kernel: &mut Kernel, profile: &Profile) -> Result<(), Diagnostics> {
    let step = u64::from(profile.ub_step);
    let mut at = 0u64;
    for tile in &mut kernel.tiles {
        // An address that does not fit is refused below.
        tile.at = u32::try_from(at).ok();
        let end = at + u64::from(tile.elements) * tile.dtype.bytes();
        at = end.div_ceil(step) * step;
    }
    if at <= u64::from(profile.ub) {
        return Ok(());
    }
    Err(Diagnostic::error("E450", format!("the tiles of {} need {at} bytes of UB", kernel.name))
        .note(format!("{} gives a kernel {} bytes", profile.name, profile.ub))
        .help("make the tiles smaller, or have fewer of them in use together")
        .into())
}
