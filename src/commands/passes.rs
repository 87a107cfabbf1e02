//! `kbc list passes`: the properties that each pass needs, establishes and invalidates, from the
//! registry.

use crate::cli::Passes;
use crate::session::{Failure, Outcome, Session};
use kbc_compiler::backends;
use kbc_diag::nearest::nearest;
use kbc_diag::{Diagnostic, Diagnostics};
use kbc_passes::PassInfo;
use kbc_passes::pipeline::PIPELINES;
use kbc_passes::{ALL, find};
use kbc_tiles::backend::Pass;

/// Prints the table, or the page of one pass.
///
/// # Errors
/// Returns E902 for an unknown pass.
pub fn run(session: &mut Session, args: &Passes) -> Outcome {
    if let Some(name) = &args.name {
        if let Some(pass) = backends::passes().iter().find(|p| p.name == name) {
            let text = format!(
                "# {}\n\nA pass of the tile level, run where a target is emitted and by `kbc opt FILE.tile`: {}.\n",
                pass.name, pass.doc
            );
            return Ok(session.answer(&text, &tile(pass))?);
        }
        let Some(entry) = find(name) else {
            let names: Vec<&str> = ALL
                .iter()
                .map(|e| e.info.name)
                .chain(backends::passes().into_iter().map(|p| p.name))
                .collect();
            let mut d = Diagnostic::error("E902", format!("unknown pass `{name}`"))
                .note(format!("the passes are {}", names.join(", ")));
            if let Some(near) = nearest(name, names) {
                d = d.help(format!("did you mean `{near}`?"));
            }
            return Err(Failure::Usage(Diagnostics::from(d)));
        };
        return Ok(session.answer(&entry.page(), &json(entry.info))?);
    }
    if session.is_json() {
        let passes: Vec<_> = ALL.iter().map(|e| json(e.info)).collect();
        let pipelines: serde_json::Map<_, _> =
            PIPELINES.iter().map(|(n, t)| ((*n).to_owned(), serde_json::Value::from(*t))).collect();
        let level: Vec<_> = backends::passes().iter().map(tile).collect();
        let all = serde_json::json!({ "schema": 1, "passes": passes, "tile": level, "pipelines": pipelines });
        return Ok(session.json(&all)?);
    }
    let mut out = String::new();
    for e in ALL {
        let i = e.info;
        out += &format!("{:<12} {}\n", i.name, i.summary);
        let list =
            |p: kbc_ir::Props| if p.names().is_empty() { "nothing".into() } else { p.names().join(", ") };
        out += &format!(
            "{:<12} needs {}; gives {}; breaks {}\n",
            "",
            list(i.requires),
            list(i.gives),
            list(i.breaks)
        );
    }
    out += "\ntile level, when code for a target is emitted\n";
    for pass in backends::passes() {
        out += &format!("{:<12} {}\n", pass.name, pass.doc);
    }
    out += "\npipelines\n";
    for (name, text) in PIPELINES {
        out += &format!("{name:<12} {text}\n");
    }
    session.result(&out);
    Ok(())
}

fn tile(pass: &Pass) -> serde_json::Value {
    serde_json::json!({ "name": pass.name, "summary": pass.doc })
}

fn json(i: &PassInfo) -> serde_json::Value {
    let options: Vec<_> = i
        .options
        .iter()
        .map(|o| serde_json::json!({ "name": o.name, "summary": o.summary, "default": o.default }))
        .collect();
    serde_json::json!({
        "name": i.name,
        "summary": i.summary,
        "needs": i.requires.names(),
        "gives": i.gives.names(),
        "breaks": i.breaks.names(),
        "options": options,
    })
}
