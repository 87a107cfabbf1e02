//! Pass `buffers`: addresses of tiles, assigned one after another in each memory of a core.

use crate::profile::Profile;
use kbc_diag::{Diagnostic, Diagnostics};
use kbc_tiles::tile::{Kernel, Space};

/// Assigns every tile an address.
///
/// # Errors
/// Returns E450 with the number of bytes needed if the tiles of a memory do not fit.
pub fn run(kernel: &mut Kernel, profile: &Profile) -> Result<(), Diagnostics> {
    let step = u64::from(profile.ub_step);
    for space in Space::ALL {
        let mut at = 0u64;
        for tile in kernel.tiles.iter_mut().filter(|t| t.space == space) {
            // If the address does not fit in 32 bits, the check below fails.
            tile.at = u32::try_from(at).ok();
            at = (at + tile.all_bytes()).div_ceil(step) * step;
        }
        let most = profile.bytes(space);
        if at > u64::from(most) {
            let name = kernel.dialect.space_title(space);
            let title = format!("the tiles of {} need {at} bytes of {name}", kernel.name);
            return Err(Diagnostic::error("E450", title)
                .note(format!("{} gives a kernel {most} bytes", profile.name))
                .help("make the tiles smaller, or use fewer of them at the same time")
                .into());
        }
    }
    Ok(())
}
