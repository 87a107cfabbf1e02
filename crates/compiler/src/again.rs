//! Rebuilding: lowers a program that was built once more, at another size or with other choices.

use crate::build::Built;
use crate::keep::GraphRecorder;
use crate::ordered::Ordered;
use crate::simulated::Simulated;
use kbc_diag::{Diagnostic, Diagnostics, FileId, Span};
use kbc_frontend::lower::{LowerOptions, Lowered, lower, ranks};
use kbc_ir::Body;
use kbc_ir::graph::{Graph, OpKind, Using};
use kbc_ir::schedule::Schedule;
use kbc_passes::PassCx;
use kbc_passes::findings::select::SelectTable;
use kbc_passes::pipeline::Pipeline;

/// `overlap` as targets have it.
const TASKS: &str = "overlap{tasks=true},";

/// Returns the passes of a pipeline before the choice of algorithms.
fn before_select(whole: &str) -> &str {
    whole.split_once(",select").map_or("infer,place", |p| p.0)
}

/// A program at another size.
pub struct Resized {
    /// The typed program before placement.
    pub typed: Graph,
    /// The schedule.
    pub schedule: Schedule,
}

/// The same program at another size, with the algorithms already chosen. `line` is a topology of
/// one axis that takes the place of the program's; `defines` come after those of the command line.
///
/// # Errors
/// Of lowering or a pass: the program, or one of its algorithms, does not exist at that size.
pub fn rebuild_at(
    built: &Built,
    line: Option<(String, FileId)>,
    defines: &[(String, String)],
) -> Result<Resized, Diagnostics> {
    let lowered = lower_again(built, line, defines)?;
    let mut module = lowered.module;
    let cx = PassCx::new(&lowered.library, Some(&lowered.topology))
        .with_order(&Ordered, built.origin.fixed_order)
        .with_effort(built.origin.effort)
        .with_fuse(built.origin.fuse);
    let mut keep = GraphRecorder::default();
    // Its own passes, up to the choice of algorithms.
    let whole = Pipeline::parse(&built.origin.passes, Span::NONE.file)?.text();
    let before = before_select(&whole);
    Pipeline::parse(before, Span::NONE.file)?.run(&mut module, &cx, &mut [&mut keep])?;
    if let Body::Graph(graph) = &mut module.body {
        let mut chosen = built.placed.order().iter().filter_map(|id| match &built.placed.op(*id).kind {
            OpKind::Collective(c) => Some((c.name().to_owned(), c.using.clone())),
            _ => None,
        });
        for id in graph.order().to_vec() {
            let OpKind::Collective(c) = &mut graph.op_mut(id).kind else { continue };
            let Some((kind, using)) = chosen.next() else { continue };
            // Arguments that were chosen for an algorithm of the program stay with it.
            let same = |u: &Using| u.args.is_empty() && using.as_ref().is_some_and(|n| n.alg == u.alg);
            if kind == c.name() && c.using.as_ref().is_none_or(same) {
                c.using = using;
            }
        }
    }
    // Its own passes, from the choice of algorithms on.
    let after = whole.find(",expand").map_or("expand,allocate,synchronize", |at| &whole[at + 1..]);
    // Pieces for tasks are requested; streams are chosen for one size.
    let pieces = if whole.contains(TASKS) { TASKS } else { "" };
    let passes = format!("select,{pieces}{after}");
    Pipeline::parse(&passes, Span::NONE.file)?.run(&mut module, &cx, &mut [])?;
    match module.body {
        Body::Schedule(schedule) => Ok(Resized { typed: keep.typed.unwrap_or_default(), schedule }),
        Body::Graph(_) | Body::Local(_) => {
            Err(Diagnostic::error("E991", "the pipeline made no schedule").into())
        }
    }
}

/// What `select` finds with these options for the same program. With `explain=true`, it completes
/// what was found when the program was built.
///
/// # Errors
/// Of lowering or a pass.
pub fn select_again(built: &Built, options: &str) -> Result<SelectTable, Diagnostics> {
    let lowered = lower_again(built, None, &[])?;
    let mut module = lowered.module;
    let time = Simulated { topology: &lowered.topology };
    let cx = PassCx::new(&lowered.library, Some(&lowered.topology))
        .with_time(&time)
        .with_order(&Ordered, built.origin.fixed_order)
        .with_effort(built.origin.effort)
        .with_fuse(built.origin.fuse)
        .with_chosen(&built.select);
    let whole = Pipeline::parse(&built.origin.passes, Span::NONE.file)?.text();
    let passes = format!("{},select{{{options}}}", before_select(&whole));
    Pipeline::parse(&passes, Span::NONE.file)?.run(&mut module, &cx, &mut [])?;
    Ok(cx.findings.into_inner().select)
}

/// The rank count of the same program with other parameters; neither the program is lowered for it,
/// nor are passes run.
///
/// # Errors
/// Of the parameters or the machine.
pub fn ranks_with(built: &Built, defines: &[(String, String)]) -> Result<u64, Diagnostics> {
    ranks(&built.origin.loaded, &options_again(built, None, defines))
}

/// The number of operations of the same program with other parameters, before any pass. `None` if
/// the program does not exist with them.
pub fn operations_with(built: &Built, defines: &[(String, String)]) -> Option<usize> {
    match lower_again(built, None, defines).ok()?.module.body {
        Body::Graph(graph) => Some(graph.order().len()),
        Body::Schedule(_) | Body::Local(_) => None,
    }
}

fn options_again(
    built: &Built,
    line: Option<(String, FileId)>,
    defines: &[(String, String)],
) -> LowerOptions {
    let mut options = built.origin.options.clone();
    options.defines.extend(defines.iter().cloned());
    if line.is_some() {
        options.topology = line;
        options.machine = None;
    }
    options
}

fn lower_again(
    built: &Built,
    line: Option<(String, FileId)>,
    defines: &[(String, String)],
) -> Result<Lowered, Diagnostics> {
    lower(&built.origin.loaded, &options_again(built, line, defines))
}
