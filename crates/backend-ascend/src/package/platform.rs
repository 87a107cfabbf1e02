//! Which platforms and runtimes a package is for, and why not for others.
//!
//! One list for `kbc` (`--target`) and for the harness, which refuses in the same words.

use kbc_diag::Diagnostic;
use kbc_diag::nearest::nearest;

/// A platform or a runtime.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Support {
    /// Name, as the runtime has it.
    pub name: &'static str,
    /// Why it is refused; none: it is not.
    pub refused: Option<&'static str>,
}

/// The runtime that kernels are launched by.
pub const RUNTIME: &str = "tensormap_and_ringbuffer";

/// Platforms, in order.
pub const PLATFORMS: [Support; 4] = [
    Support { name: "a2a3", refused: None },
    Support { name: "a2a3sim", refused: None },
    Support { name: "a5sim", refused: None },
    Support {
        name: "a5",
        refused: Some("its instructions and its memory rules are not described in the target profile"),
    },
];

/// Runtimes, in order.
pub const RUNTIMES: [Support; 2] = [
    Support { name: RUNTIME, refused: None },
    Support {
        name: "host_build_graph",
        refused: Some(
            "launches of a whole domain that wait for each other have not been shown to work on it",
        ),
    },
];

/// Whether a package runs on this platform with this runtime.
///
/// # Errors
/// E458: an unknown or unsupported one, with the reason.
pub fn support(platform: &str, runtime: &str) -> Result<(), Diagnostic> {
    let find = |word: &str, name: &str, all: &'static [Support]| {
        let valid = || all.iter().filter(|s| s.refused.is_none()).map(|s| s.name);
        let d = match all.iter().find(|s| s.name == name) {
            Some(Support { refused: None, .. }) => return Ok(()),
            Some(Support { refused: Some(why), .. }) => {
                Diagnostic::error("E458", format!("{word} {name} is not supported: {why}"))
            }
            None => Diagnostic::error("E458", format!("there is no {word} `{name}`")),
        };
        let d = d.note(format!("supported: {}", valid().collect::<Vec<_>>().join(", ")));
        Err(match nearest(name, valid()) {
            Some(near) => d.help(format!("did you mean `{near}`?")),
            None => d,
        })
    };
    find("platform", platform, &PLATFORMS)?;
    find("runtime", runtime, &RUNTIMES)
}
