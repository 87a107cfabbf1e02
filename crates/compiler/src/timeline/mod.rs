//! Timeline of a timed run: names of what happens, waits with their reasons, and the critical path.

pub mod holders;
pub mod path;
pub mod scene;
pub mod waits;

use kbc_time::MessageKind;
use scene::Scene;
use waits::Reason;

/// Describes the reason of a wait.
pub fn words(scene: &Scene<'_>, reason: &Reason) -> String {
    match *reason {
        Reason::Message { kind, op, from } => {
            let what = match kind {
                MessageKind::Put => "put with notify",
                MessageKind::Notify => "notify",
                MessageKind::Request => "get request",
                MessageKind::Reply => "data of the get",
            };
            format!("{what} of {} (op {op})", scene.rank(from))
        }
        Reason::Event { stream, op } => format!("record of stream {} (op {op})", scene.stream(stream)),
        Reason::Unit { unit, holder } => {
            let by = holder.map_or_else(String::new, |(stream, op)| {
                format!(", busy with {} of stream {} (op {op})", scene.op(op), scene.stream(stream))
            });
            format!("{}{by}", unit.name())
        }
        Reason::Link { link, holder } => {
            let by = holder.map_or_else(String::new, |(op, rank)| {
                format!(", busy with {} of {} (op {op})", scene.op(op), scene.rank(rank))
            });
            format!("link {}{by}", scene.link(link))
        }
    }
}
