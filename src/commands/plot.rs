//! `kbc plot`: a picture of a machine, alone, with the use of its links by a program, or with a
//! packed tree.

use crate::cli::{Plot, PlotLinks, PlotTopology, PlotTree, PlotWhat, Selection};
use crate::picture;
use crate::session::{Outcome, Session};
use kbc_compiler::machine::machine;
use kbc_views::machines;

/// Draws a picture into a file.
///
/// # Errors
/// E590 to E591, those of the machine, of compiling and of timing; E410.
pub fn run(session: &mut Session, args: &Plot) -> Outcome {
    match &args.what {
        PlotWhat::Topology(args) => plot_topology(session, args),
        PlotWhat::Links(args) => links(session, args),
        PlotWhat::Tree(args) => tree(session, args),
    }
}

fn plot_topology(session: &mut Session, args: &PlotTopology) -> Outcome {
    picture::check(&args.picture)?;
    let of =
        Selection { topology: Some(args.machine.clone()), set: args.set.clone(), ..Selection::default() };
    let Some((topology, _)) = machine(session, &of.plain(), None, None)? else { return Ok(()) };
    picture::write(session, &args.picture, machines::machine(&topology, args.picture.theme.into()))
}

fn links(session: &mut Session, args: &PlotLinks) -> Outcome {
    picture::check(&args.picture)?;
    let source = args.source().plain();
    let drawn = machines::links(session, &source, &args.picture.output, args.picture.theme.into())?;
    picture::write(session, &args.picture, Ok(drawn))
}

fn tree(session: &mut Session, args: &PlotTree) -> Outcome {
    picture::check(&args.picture)?;
    let source = args.source().plain();
    let which = (args.tree as usize, args.picture.output.as_str());
    let drawn = machines::tree(session, &source, which, args.picture.theme.into())?;
    picture::write(session, &args.picture, Ok(drawn))
}
