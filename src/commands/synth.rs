//! `kbc synth`: writes an algorithm for one machine, made from trees that are packed into its links
//! or matched with them.

use super::output;
use crate::cli::{Selection, Synth};
use crate::session::{Failure, Outcome, Session};
use kbc_compiler::artefacts;
use kbc_compiler::load::refuse;
use kbc_compiler::machine::machine;
use kbc_compiler::synthesis::{
    AlgorithmFile, MessageLimit, PackedCollective, PackedRequest, TreeMethod, synthesize,
};
use kbc_compiler::{Options, Source, compile};
use kbc_diag::Diagnostic;
use kbc_machine::topology::Topology;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Writes the algorithm to the file, and prints what it is. A machine that is given as the text of
/// a machine file is written beside it.
///
/// # Errors
/// Those of reading the machine; E595 and E413 of synthesis; E416 for a machine that the file could
/// not name; E410.
pub fn run(session: &mut Session, args: &Synth) -> Outcome {
    let of =
        Selection { topology: Some(args.machine.clone()), set: args.set.clone(), ..Selection::default() };
    let Some((topology, _)) = machine(session, &of.plain(), None, None)? else { return Ok(()) };
    let collective = args.collective;
    let without = format!("`{}`, which has no root", collective.name());
    refuse(&[("--root", args.root.is_some() && !collective.has_root())], &without)?;
    let Synth { root, method, trees, pieces, bytes, .. } = *args;
    let ladder = args.sizes;
    refuse(
        &[("--output", args.output.is_some()), ("--trees", trees.is_some()), ("--pieces", pieces.is_some())]
            .map(|(name, given)| (name, ladder && given)),
        "`--sizes`, which compares them",
    )?;
    let no_file = args.instances > 1 && args.output.is_none();
    refuse(&[("--instances", no_file)], "a summary: the option stands in the program that -o writes")?;
    let paths = collective == PackedCollective::AllToAll;
    refuse(
        &[("--method", method.is_some()), ("--trees", trees.is_some())]
            .map(|(name, given)| (name, paths && given)),
        "an all-to-all, which has paths in place of trees",
    )?;
    let root = root.unwrap_or(0);
    let (elements, messages) = (0, MessageLimit::of_effort(1));
    // Pieces are those of trees of one kind, and packed trees are what `--trees` has always meant.
    let method = match method {
        Some(method) => method,
        None if trees.is_some() || pieces.is_some() => TreeMethod::Trees,
        None => TreeMethod::Fastest,
    };
    let gather = None;
    let request =
        PackedRequest { collective, root, method, trees, gather, pieces, bytes, elements, messages };
    let named = args.output.as_ref().map(|path| named(args, &topology, path)).transpose()?;
    let file = |n: &NamedMachine| AlgorithmFile { machine: n.source.clone(), instances: args.instances };
    let mut made = synthesize(&topology, named.as_ref().map(file).as_ref(), &request, ladder)?;
    let (Some(path), Some(named), Some(text)) = (&args.output, named, &made.text) else {
        return Ok(session.answer(&made.summary, &made.json)?);
    };
    let schedule = path.ends_with(".kir");
    if schedule {
        output::write_text(session, path, &lowered(session, path, text, named.file.as_ref())?)?;
    } else {
        if let Some((file, text)) = &named.file {
            output::write_text(session, file, text)?;
        }
        output::write_text(session, path, text)?;
    }
    if path == "-" {
        return Ok(());
    }
    if let Value::Object(json) = &mut made.json {
        json.insert("output".to_owned(), path.as_str().into());
    }
    let what =
        if schedule { "the schedule" } else { "the algorithm `synthesised` and a program that uses it" };
    let next = format!("{path}: {what}\nnext: kbc run {path}\n");
    Ok(session.answer(&(made.summary + &next), &made.json)?)
}

/// Returns the schedule of the synthesised program as `.kir`. `machine` is a machine file that the
/// program names and that does not exist.
fn lowered(session: &Session, path: &str, text: &str, machine: Option<&(String, String)>) -> Outcome<String> {
    let name = Path::new(path).with_extension("kb").display().to_string();
    let texts = machine.cloned().into_iter().chain([(name.clone(), text.to_owned())]).collect();
    let mut apart = session.fresh(texts);
    let built = compile(&mut apart, &Source::of(name), &Options::default())?;
    Ok(artefacts::text(&built, "kir"))
}

/// A machine as the written file names it.
struct NamedMachine {
    /// After `topology sys =`.
    source: String,
    /// A machine file that has to be written, and its text.
    file: Option<(String, String)>,
}

/// Returns how the file at `path` names the machine.
fn named(args: &Synth, topology: &Topology, path: &str) -> Outcome<NamedMachine> {
    let given = args.machine.as_str();
    let is_file = [".yaml", ".yml"].iter().any(|end| given.ends_with(end));
    let is_text = given.trim_start().starts_with('{');
    let refused = |title: &str, help: &str| {
        Err(Failure::Usage(Diagnostic::error("E416", title.to_owned()).help(help.to_owned()).into()))
    };
    if (is_file || is_text) && !args.set.is_empty() {
        return refused(
            "--set does not apply to a machine file whose name is written",
            "write the settings into the machine file",
        );
    }
    if is_file {
        return Ok(NamedMachine { source: quoted(&relative(given, path)), file: None });
    }
    if is_text {
        let beside = Path::new(path).with_extension("yaml");
        let Some(name) = beside.file_name().filter(|_| path != "-") else {
            return refused(
                "a machine in braces is written beside the output, and standard output has no folder",
                "name a file: -o packed.kb",
            );
        };
        let source = quoted(&name.to_string_lossy());
        return Ok(NamedMachine { source, file: Some((beside.display().to_string(), given.to_owned())) });
    }
    if topology.own_rates().next().is_some() {
        return refused(
            "a `.kb` file cannot state the rate of a single link, and not what has failed",
            "write the machine as a file: kbc synth machine.yaml ..",
        );
    }
    if topology.has_stated_routes() {
        return refused(
            "a `.kb` file cannot state the route of a pair",
            "write the machine as a file: kbc synth machine.yaml ..",
        );
    }
    Ok(NamedMachine { source: topology.to_string(), file: None })
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('\\', "/"))
}

/// Returns the name of a file as a file at `from` reads it: relative to its folder.
fn relative(file: &str, from: &str) -> String {
    let folder = match Path::new(from).parent() {
        Some(folder) if from != "-" => folder,
        _ => return file.to_owned(),
    };
    let (Ok(file_at), Ok(folder_at)) = (std::path::absolute(file), std::path::absolute(folder)) else {
        return file.to_owned();
    };
    if Path::new(file).is_absolute() || folder.as_os_str().is_empty() {
        return file.to_owned();
    }
    let common = file_at.components().zip(folder_at.components()).take_while(|(a, b)| a == b).count();
    let mut out = PathBuf::new();
    folder_at.components().skip(common).for_each(|_| out.push(".."));
    file_at.components().skip(common).for_each(|c| out.push(c));
    out.display().to_string()
}
