//! Platforms and runtimes that packages support, and reasons why others are not supported.
//!
//! Targets and their runtimes are those of the profiles; this module adds the platforms without a
//! profile. `kbc` (`--target`) and the harness of a package reject the others with the same
//! messages.

use crate::profile::{PROFILES, Profile, find};
use kbc_diag::Diagnostic;
use kbc_tiles::backend::{Support, supported};

/// Platforms of the runtime that have no profile, each with the reason.
pub const UNDESCRIBED: [(&str, &str); 1] =
    [("a5", "there is no target profile for its instructions and memory rules")];

/// Returns all platforms of the runtime.
pub fn platforms() -> Vec<Support> {
    let served = PROFILES.iter().map(|p| Support { name: p.name, unsupported_because: None });
    let others = UNDESCRIBED.iter().map(|(name, why)| Support { name, unsupported_because: Some(why) });
    served.chain(others).collect()
}

/// Returns the runtimes of a platform; none if the platform has no profile.
pub fn runtimes(platform: &str) -> Vec<Support> {
    find(platform).map_or(vec![], runtimes_of)
}

/// Returns the runtimes of a profile.
pub fn runtimes_of(profile: &Profile) -> Vec<Support> {
    let all = profile.runtimes;
    all.iter()
        .map(|r| Support {
            name: r.name,
            unsupported_because: Some(r.unsupported_because).filter(|r| !r.is_empty()),
        })
        .collect()
}

/// Checks whether packages run on this platform with this runtime.
///
/// # Errors
/// Returns E458 with the reason if one of the two is unknown or not supported.
pub fn support(platform: &str, runtime: &str) -> Result<(), Diagnostic> {
    supported("platform", platform, &platforms())?;
    supported("runtime", runtime, &runtimes(platform))
}
