//! Description of an emitted kernel's window: its memory map at the program's sizes, and how many
//! launches it serves.

use super::for_profile;
use crate::analyse;
use crate::build::Built;
use crate::failure::Outcome;
use crate::report::human::count;
use crate::watch::Unwatched;
use crate::workspace::Workspace;
use kbc_ir::schedule::Schedule;
use kbc_tiles::backend::Target;
use kbc_tiles::package::window_text;

/// Returns the memory map of a rank's window on a target.
///
/// # Errors
/// Returns the errors of proving the schedule and of making the kernel.
pub fn text(
    workspace: &mut Workspace,
    built: &Built,
    schedule: &Schedule,
    profile: &'static dyn Target,
) -> Outcome<String> {
    let verified = analyse::verify(workspace, schedule)?;
    let emitted = for_profile(workspace, built, schedule, profile, &mut Unwatched)?;
    let elements = emitted.family.count.as_ref().and_then(|name| built.number(name));
    let ranks = schedule.mesh.ranks();
    let sizes = match (&emitted.family.count, elements) {
        (Some(name), Some(n)) => format!("{}, {name} = {n}", count(ranks, "rank")),
        _ => count(ranks, "rank"),
    };
    let mut out = format!("{} for {}, {sizes}\n", emitted.kernel.name, profile.name());
    out += &window_text(&emitted.kernel, ranks, elements.unwrap_or(0))?;
    let walked = count(verified.calls_walked, "call");
    let calls = if verified.calls == "any" { "any number of calls" } else { "the first call" };
    out += &format!("proven for the schedule at these sizes: safe for {calls} ({walked} checked)");
    if let Some(range) = verified.counter_range {
        out += &format!("; no 32-bit counter overflows in {range} calls");
    }
    Ok(out + "\n")
}
