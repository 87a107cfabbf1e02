//! Arguments: options that are texts or name files, read to what they mean.

use crate::algorithm_request;
use crate::failure::{Failure, Outcome};
use crate::options::Selection;
use crate::workspace::Workspace;
use kbc_diag::{Diagnostic, Diagnostics, FileId};
use kbc_frontend::ast::TopologySource;
use kbc_frontend::loaded::Loaded;
use kbc_frontend::lower::{LowerOptions, compiles_algorithm, machine_choice};
use kbc_frontend::machine::{self, MachineFile};
use kbc_ir::graph::Using;
use kbc_ir::text;
use kbc_machine::topology::perturb::Perturb;
use kbc_machine::topology::{Described, Shape, Topology};
use kbc_passes::select::MOST_EFFORT;

/// `NAME=VALUE`
///
/// # Errors
/// Returns E413 for another form.
pub fn defines(list: &[String]) -> Result<Vec<(String, String)>, Diagnostics> {
    let mut out = vec![];
    let mut found = Diagnostics::new();
    for d in list {
        match d.split_once('=') {
            Some((name, value)) if !name.trim().is_empty() && !value.trim().is_empty() => {
                out.push((name.trim().to_owned(), value.trim().to_owned()));
            }
            _ => found
                .push(Diagnostic::error("E413", format!("-D {d} is not NAME=VALUE")).help("write -D tp=8")),
        }
    }
    if found.has_errors() { Err(found) } else { Ok(out) }
}

/// A value of the command line that is a text or names a file.
pub enum Argument {
    /// As it stands.
    Text(String, FileId),
    /// The contents of a `.yaml` file, or such contents in one line, `{shape: ring(4)}`.
    File(String, FileId),
}

/// Reads the file of an argument that ends like one.
///
/// # Errors
/// Returns E412 if it cannot be read.
pub fn argument(workspace: &mut Workspace, name: &str, text: &str) -> Outcome<Argument> {
    if [".yaml", ".yml"].iter().any(|end| text.ends_with(end)) {
        let (file, text) = workspace.read(text)?;
        return Ok(Argument::File(text.to_string(), file));
    }
    if text.trim_start().starts_with('{') {
        return Ok(Argument::File(text.to_owned(), workspace.add_text(name, text)));
    }
    Ok(Argument::Text(text.to_owned(), workspace.add_text(name, text)))
}

/// Parses `--set`.
///
/// # Errors
/// Returns E444 to E446.
pub fn settings(workspace: &mut Workspace, texts: &[String]) -> Outcome<Described> {
    let mut out = Described::default();
    for text in texts {
        let file = workspace.add_text("<--set>", text);
        let Described { shape: _, settings, links, routes } = Topology::parse_settings(text, file)?;
        out.settings = settings.over(&out.settings);
        out.links.extend(links);
        out.routes.extend(routes);
    }
    Ok(out)
}

/// Reads `--perturb`: a file, or the content of the section in one line.
///
/// # Errors
/// Returns the errors of [`machine::read_perturb`].
pub fn perturb(workspace: &mut Workspace, text: Option<&String>) -> Outcome<Option<Perturb>> {
    let Some(text) = text else { return Ok(None) };
    let (Argument::Text(text, file) | Argument::File(text, file)) = argument(workspace, "<--perturb>", text)?;
    Ok(Some(machine::read_perturb(&text, file)?))
}

/// Parses `--using`.
///
/// # Errors
/// Returns the errors of the form of an algorithm with its arguments.
pub(crate) fn using(workspace: &mut Workspace, texts: &[String]) -> Outcome<Vec<Using>> {
    let one = |text: &String| {
        let file = workspace.add_text("<--using>", text);
        Ok(text::parse_using(file, text)?)
    };
    texts.iter().map(one).collect()
}

/// What `--topology` says: a shape (its text, and the file that stands for it in messages), or a
/// machine file.
pub type TopologyOption = (Option<(String, FileId)>, Option<MachineFile>);

/// What `--topology` says: a shape, or a machine file.
///
/// # Errors
/// Of reading the file.
pub fn topology(workspace: &mut Workspace, of: &Selection) -> Outcome<TopologyOption> {
    let Some(t) = &of.topology else { return Ok((None, None)) };
    Ok(match argument(workspace, "<--topology>", t)? {
        Argument::Text(text, file) => (Some((text, file)), None),
        Argument::File(text, file) => {
            let machine = machine::read(&text, file)?;
            workspace.report(&machine.warnings);
            (None, Some(machine))
        }
    })
}

/// Returns the options of the front end that every program of a file has in common: parameters,
/// mesh and machine.
///
/// # Errors
/// Of an option with another form, and of reading the file of a machine.
pub(crate) fn lower_options(workspace: &mut Workspace, of: &Selection) -> Outcome<LowerOptions> {
    // Which program or algorithm is meant, on how many ranks and with which algorithms for its
    // collectives, depends on what the file has; the caller adds it.
    let Selection {
        define,
        topology: _,
        mesh,
        set,
        program: _,
        algorithm: _,
        ranks: _,
        using: _,
        order: _,
        effort: _,
        fuse: _,
    } = of;
    let (topology, machine) = topology(workspace, of)?;
    Ok(LowerOptions {
        set: settings(workspace, set)?,
        defines: defines(define)?,
        program: None,
        mesh: mesh.clone(),
        algorithm: None,
        topology,
        machine,
        shapes: vec![],
    })
}

/// `--order`: whether every element must be added in one order.
///
/// # Errors
/// E420 for another word.
pub(crate) fn fixed_order(of: &Selection) -> Outcome<bool> {
    match of.order.as_deref() {
        None | Some("any") => Ok(false),
        Some("fixed") => Ok(true),
        Some(other) => Err(Diagnostic::error("E420", format!("--order {other}: not an order of additions"))
            .help("`fixed` or `any`")
            .into()),
    }
}

/// `--effort`: how long packed trees are searched.
///
/// # Errors
/// E420 for anything but an integer up to [`MOST_EFFORT`].
pub(crate) fn effort(of: &Selection) -> Outcome<Option<u64>> {
    let Some(text) = &of.effort else { return Ok(None) };
    match text.parse() {
        Ok(effort) if effort <= MOST_EFFORT => Ok(Some(effort)),
        _ => Err(Diagnostic::error("E420", format!("--effort {text}: not an effort"))
            .help(format!("an integer from 0 to {MOST_EFFORT}"))
            .into()),
    }
}

/// `--fuse`: the largest sum of bytes per rank up to which collectives become one.
///
/// # Errors
/// E420 for anything but an integer.
pub(crate) fn fuse(of: &Selection) -> Outcome<Option<u64>> {
    let Some(text) = &of.fuse else { return Ok(None) };
    let bytes = text.parse().map(Some);
    Ok(bytes.map_err(|_| {
        Diagnostic::error("E420", format!("--fuse {text}: not a number of bytes"))
            .help("an integer; 0 and 1 join nothing")
    })?)
}

/// `--ranks`: how many ranks the machine of an algorithm has, of the kind that its file names.
pub(crate) fn on_ranks(
    workspace: &mut Workspace,
    of: &Selection,
    loaded: &Loaded,
    options: &mut LowerOptions,
) -> Outcome {
    let Some(n) = algorithm_request::rank_count(of)? else { return Ok(()) };
    let usage = |d: Diagnostic| Err(Failure::Usage(d.into()));
    if !compiles_algorithm(loaded, options) {
        let title =
            format!("--ranks {n} does not apply to a program: its machine defines the number of ranks");
        let help = format!(
            "give a shape, --topology 'ring({n})', or set the parameter that defines the size, -D tp={n}"
        );
        return usage(Diagnostic::error("E416", title).help(help));
    }
    if of.topology.is_some() {
        let d = Diagnostic::error("E416", "--ranks and --topology both define the number of ranks");
        return usage(d.help("remove one of them"));
    }
    let choice = machine_choice(loaded, loaded.root.unwrap_or_default(), options)?;
    let text = match choice.topology.map(|t| &t.source) {
        None => Shape::Ring(u32::try_from(n).unwrap_or(u32::MAX)).to_string(),
        Some(TopologySource::Shape(shape, _)) if shape.parts.len() == 1 && shape.name.node != "hypercube" => {
            format!("{}({n})", shape.name.node)
        }
        Some(TopologySource::Shape(..) | TopologySource::File(..)) => {
            let title = format!("--ranks {n} does not define the shape of the machine in the file");
            return usage(Diagnostic::error("E416", title).help("give the shape, --topology 'torus(2, 4)'"));
        }
    };
    let file = workspace.add_text("<--ranks>", &text);
    options.topology = Some((text, file));
    Ok(())
}
