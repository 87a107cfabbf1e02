//! Programs of a file that are not compiled: those whose arguments only a call defines, and those
//! beside the compiled one.
//!
//! Each is called with small sizes, and the schedule of that call is proven. The front end chooses
//! the calls.

use crate::arguments;
use crate::build::Origin;
use crate::failure::Outcome;
use crate::options::Source;
use crate::ordered::Ordered;
use crate::report::ProgramReport;
use crate::simulated::Simulated;
use crate::workspace::Workspace;
use kbc_checker::{CheckOptions, check as prove};
use kbc_diag::{Diagnostics, FileId, Span};
use kbc_frontend::loaded::Loaded;
use kbc_frontend::lower::{CallTrial, Lowered, instances, programs, variables};
use kbc_passes::PassCx;
use kbc_passes::pipeline::Pipeline;
use kbc_rounds::eval::unknown;

/// Checks the programs of a file, except those in `done`.
///
/// # Errors
/// Returns what is wrong with a program for every call, or for all calls that were tried.
pub fn check(
    workspace: &mut Workspace,
    loaded: &Loaded,
    source: &Source,
    done: &[String],
) -> Outcome<Vec<ProgramReport>> {
    let root = loaded.root.unwrap_or_default();
    let options = arguments::lower_options(workspace, &source.of)?;
    let only = source.of.program.as_ref();
    let names: Vec<String> = programs(loaded, root)
        .into_iter()
        .filter(|n| !done.contains(n) && only.is_none_or(|o| o == n))
        .collect();
    let mut out = vec![];
    let mut found = Diagnostics::new();
    for name in names {
        workspace.progress(&format!("checking program {name}"));
        let mut judge = |lowered: Lowered| judge(lowered);
        match instances(loaded, &options, &name, &mut judge) {
            Ok(CallTrial::Called(with)) => out.push(ProgramReport { program: name, with, not_checked: None }),
            Ok(CallTrial::Not(why)) => {
                out.push(ProgramReport { program: name, with: vec![], not_checked: Some(why) });
            }
            Err(d) => found.extend(d),
        }
    }
    if found.has_errors() { Err(found.finish().into()) } else { Ok(out) }
}

/// Checks that every name given with `-D` is a parameter or a size of a program.
///
/// # Errors
/// Returns E420 otherwise.
pub fn known(loaded: &Loaded, source: &Source) -> Outcome {
    let root = loaded.root.unwrap_or_default();
    let mut valid: Vec<String> = loaded.params(root).map(|p| p.name.node.clone()).collect();
    valid.extend(programs(loaded, root).iter().flat_map(|p| variables(loaded, p)));
    for (name, value) in arguments::defines(&source.of.define)? {
        if !valid.contains(&name) {
            let mut d = *unknown("E420", "parameter", &name, Span::NONE, &valid);
            d.labels.clear();
            d.title = format!("-D {name}={value}: no program has a parameter or a size `{name}`");
            return Err(d.into());
        }
    }
    Ok(())
}

/// Returns the errors of one call.
fn judge(lowered: Lowered) -> Result<(), Diagnostics> {
    let Lowered { mut module, library, topology, .. } = lowered;
    let time = Simulated { topology: &topology };
    let cx = PassCx::new(&library, Some(&topology)).with_time(&time).with_order(&Ordered, false);
    let passes = if topology.settings().queues().is_some() { "queues" } else { "default" };
    Pipeline::parse(passes, FileId::default())?.run(&mut module, &cx, &mut [])?;
    let Some(schedule) = module.schedule() else { return Ok(()) };
    let verdict = prove(schedule, &CheckOptions::default());
    if verdict.ok() { Ok(()) } else { Err(verdict.errors) }
}

/// Returns the programs that take part in a built one: itself, and those that it calls.
pub fn participating(name: &str, origin: &Origin, called: impl Iterator<Item = String>) -> Vec<String> {
    let root = origin.loaded.root.unwrap_or_default();
    let all = programs(&origin.loaded, root);
    let mut out = vec![name.to_owned()];
    out.extend(called.filter(|c| all.contains(c)));
    out
}
