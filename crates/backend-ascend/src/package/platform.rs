//! Which platforms and runtimes a package is for, and why not for others.
//!
//! The targets and their runtimes are those of the profiles; this module adds the platforms that have none. `kbc`
//! (`--target`) and the harness of a package refuse in the same words.

use crate::profile::{PROFILES, find};
use kbc_diag::Diagnostic;
use kbc_diag::nearest::nearest;

/// Platforms of the runtime that have no profile, and why.
pub const UNDESCRIBED: [(&str, &str); 1] =
    [("a5", "its instructions and its memory rules are not described in a target profile")];

/// A platform or a runtime.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Support {
    /// Name, as the runtime has it.
    pub name: &'static str,
    /// Why it is refused; none: it is not.
    pub refused: Option<&'static str>,
}

/// All platforms of the runtime.
pub fn platforms() -> Vec<Support> {
    let served = PROFILES.iter().map(|p| Support { name: p.name, refused: None });
    let others = UNDESCRIBED.iter().map(|(name, why)| Support { name, refused: Some(why) });
    served.chain(others).collect()
}

/// The runtimes of a platform; none for one without a profile.
pub fn runtimes(platform: &str) -> Vec<Support> {
    let all = find(platform).map_or(&[][..], |p| p.runtimes);
    all.iter().map(|r| Support { name: r.name, refused: Some(r.refused).filter(|r| !r.is_empty()) }).collect()
}

/// Whether a package runs on this platform with this runtime.
///
/// # Errors
/// E458: an unknown or unsupported one, with the reason.
pub fn support(platform: &str, runtime: &str) -> Result<(), Diagnostic> {
    one("platform", platform, &platforms())?;
    one("runtime", runtime, &runtimes(platform))
}

fn one(word: &str, name: &str, all: &[Support]) -> Result<(), Diagnostic> {
    let served: Vec<&str> = all.iter().filter(|s| s.refused.is_none()).map(|s| s.name).collect();
    let d = match all.iter().find(|s| s.name == name) {
        Some(Support { refused: None, .. }) => return Ok(()),
        Some(Support { refused: Some(why), .. }) => {
            Diagnostic::error("E458", format!("{word} {name} is not supported: {why}"))
        }
        None => Diagnostic::error("E458", format!("there is no {word} `{name}`")),
    };
    let d = d.note(format!("supported: {}", served.join(", ")));
    Err(match nearest(name, served) {
        Some(near) => d.help(format!("did you mean `{near}`?")),
        None => d,
    })
}
