//! Description of an emitted kernel's window: its memory map at the program's sizes, and how many
//! launches it serves.

use super::for_profile;
use crate::analyse;
use crate::build::Built;
use crate::failure::Outcome;
use crate::report::VerifiedReport;
use crate::report::amounts::count;
use crate::watch::Unwatched;
use crate::workspace::Workspace;
use kbc_ir::schedule::Schedule;
use kbc_tiles::backend::Target;
use kbc_tiles::package::window::{SizedKind, SizedRow, SizedWindow};
use kbc_tiles::tile::Reach;
use serde_json::{Value, json};

/// The window of an emitted kernel, and what is proven about it.
pub struct EmittedWindow {
    target: &'static str,
    ranks: u64,
    /// The parameter that sets the number of elements, and its value.
    elements: Option<(String, u64)>,
    window: SizedWindow,
    verified: VerifiedReport,
}

/// Makes the kernel of a program and reads its window.
///
/// # Errors
/// Returns the errors of proving the schedule and of making the kernel.
pub fn window(
    workspace: &mut Workspace,
    built: &Built,
    schedule: &Schedule,
    profile: &'static dyn Target,
) -> Outcome<EmittedWindow> {
    let verified = analyse::verify(workspace, schedule)?;
    let emitted = for_profile(workspace, built, schedule, profile, &mut Unwatched)?;
    let name = emitted.family.count.as_ref();
    let elements = name.and_then(|name| Some((name.to_string(), built.number(name)?)));
    let ranks = schedule.mesh.ranks();
    let window = SizedWindow::of(&emitted.kernel, ranks, elements.as_ref().map_or(0, |e| e.1))?;
    Ok(EmittedWindow { target: profile.name(), ranks, elements, window, verified })
}

impl EmittedWindow {
    /// Returns the memory map of a rank's window as text.
    pub fn text(&self) -> String {
        let sizes = match &self.elements {
            Some((name, n)) => format!("{}, {name} = {n}", count(self.ranks, "rank")),
            None => count(self.ranks, "rank"),
        };
        let mut out = format!("{} for {}, {sizes}\n", self.window.kernel, self.target);
        out += &self.window.text();
        let walked = count(self.verified.calls_walked, "call");
        let calls = if self.verified.calls == "any" { "any number of calls" } else { "the first call" };
        out += &format!("proven for the schedule at these sizes: safe for {calls} ({walked} checked)");
        if let Some(range) = self.verified.counter_range {
            out += &format!("; no 32-bit counter overflows in {range} calls");
        }
        out + "\n"
    }

    /// Returns the same as JSON.
    pub fn json(&self) -> Value {
        let row = |r: &SizedRow| {
            let mut out = json!({ "name": r.name.as_str(), "offset": r.at, "bytes": r.bytes });
            let more = match r.kind {
                SizedKind::Signals { count, per_call } => {
                    json!({ "kind": "signals", "counters": count, "added_per_launch": per_call })
                }
                SizedKind::Slots { slots, capacity, dtype, reach } => json!({
                    "kind": "slots",
                    "slots": slots,
                    "capacity": capacity,
                    "dtype": dtype.to_string(),
                    "peers": reach == Reach::Peers,
                }),
            };
            if let (Some(out), Value::Object(more)) = (out.as_object_mut(), more) {
                out.extend(more);
            }
            out
        };
        let (w, v) = (&self.window, &self.verified);
        json!({
            "target": self.target,
            "kernel": w.kernel.as_str(),
            "ranks": self.ranks,
            "count": self.elements.as_ref().map(|(name, n)| json!({ "name": name, "value": n })),
            "bytes": w.bytes,
            "memory": w.memory,
            "rows": w.rows.iter().map(row).collect::<Vec<_>>(),
            "launches": w.launches,
            "added_per_launch": w.most_added,
            "verified": { "calls": v.calls, "calls_walked": v.calls_walked, "counter_range": v.counter_range },
        })
    }
}
