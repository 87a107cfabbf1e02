//! Addresses of tiles in the memories of a core: in each one after another, none overlapping.

use crate::profile::Profile;
use crate::tile::{Kernel, Space};
use kbc_diag::{Diagnostic, Diagnostics};

/// Gives every tile its address; an error with the bytes needed where they do not fit.
pub fn run(kernel: &mut Kernel, profile: &Profile) -> Result<(), Diagnostics> {
    let step = u64::from(profile.ub_step);
    for space in Space::ALL {
        let mut at = 0u64;
        for tile in kernel.tiles.iter_mut().filter(|t| t.space == space) {
            // An address that does not fit is refused below.
            tile.at = u32::try_from(at).ok();
            at = (at + tile.all_bytes()).div_ceil(step) * step;
        }
        let most = profile.bytes(space);
        if at > u64::from(most) {
            let name = space.name().to_uppercase();
            let title = format!("the tiles of {} need {at} bytes of {name}", kernel.name);
            return Err(Diagnostic::error("E450", title)
                .note(format!("{} gives a kernel {most} bytes", profile.name))
                .help("make the tiles smaller, or have fewer of them in use together")
                .into());
        }
    }
    Ok(())
}
