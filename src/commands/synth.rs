//! `kbc synth`: writes an algorithm for one machine, made from trees that are packed into its
//! links.

use super::output;
use crate::cli::{Selection, Synth};
use crate::session::{Outcome, Session};
use kbc_compiler::machine::machine;
use kbc_compiler::synthesis::{SynthesisRequest, synthesize};
use serde_json::Value;

/// Writes the algorithm to the file, and prints what it is.
///
/// # Errors
/// Those of reading the machine; E595 and E413 of synthesis; E410.
pub fn run(session: &mut Session, args: &Synth) -> Outcome {
    let of =
        Selection { topology: Some(args.machine.clone()), set: args.set.clone(), ..Selection::default() };
    let Some((topology, _)) = machine(session, &of.plain(), None, None)? else { return Ok(()) };
    let collective = args.collective.packed();
    let request = SynthesisRequest {
        collective,
        root: args.root,
        trees: args.trees,
        pieces: args.pieces,
        bytes: args.bytes,
    };
    let mut made = synthesize(&topology, &request)?;
    let Some(path) = &args.output else {
        return Ok(session.answer(&made.summary, &made.json)?);
    };
    output::write_text(session, path, &made.text)?;
    if path == "-" {
        return Ok(());
    }
    if let Value::Object(json) = &mut made.json {
        json.insert("output".to_owned(), path.as_str().into());
    }
    let next = format!("{path}: the algorithm `packed` and a program that uses it\nnext: kbc run {path}\n");
    Ok(session.answer(&(made.summary + &next), &made.json)?)
}
