//! `kbc report`: an HTML page about a program or a schedule.

use super::output::finish;
use crate::cli::{Data, MakePage, Source};
use crate::outdir;
use crate::session::{Outcome, Session};
use kbc_compiler::report::amounts;
pub use kbc_views::page::make::no_page;
use kbc_views::page::make::{Subject, make};
use std::path::Path;

/// Why files of other kinds have no page.
pub const NEITHER: &str = "it is neither a program nor a .kir schedule";

/// Proves, executes, compares and times, and writes the results as a page.
///
/// # Errors
/// Returns the error of any step, E594 for an input without a page, and E593 for a page that would
/// be too large. Wrong results are an error, too, but the page is written to show them.
pub fn run(session: &mut Session, args: &MakePage) -> Outcome {
    let source = Source { file: args.file.clone(), of: args.of.clone(), post: None };
    if source.file.ends_with(".tile") {
        return Err(no_page(&source.file, NEITHER).into());
    }
    let data = Data { input: args.input.clone(), engine: args.engine, output: vec![] };
    let subject = Subject {
        source: source.plain(),
        data: (!args.no_data).then(|| data.plain()),
        ranks: args.trace_ranks.clone(),
        command: command(args),
    };
    let (html, report) = make(session, &subject)?;
    if args.output == "-" {
        session.print_artefact(&html);
    } else {
        outdir::write_file(Path::new(&args.output), html.as_bytes())?;
        let took = report.time_ns.map_or_else(String::new, |ns| format!(", {}", amounts::time(ns)));
        let bound = report
            .percent
            .map_or_else(String::new, |p| format!(", {} of the bound", amounts::percent(Some(p))));
        session.tell(&format!("{}: page of {}{took}{bound}", args.output, report.file));
    }
    finish(session, &report, args.output != "-" && session.is_json())
}

/// Returns the command line that generates the page again, for a shell.
pub fn command(args: &MakePage) -> String {
    // The page is the same wherever it is written.
    let MakePage { file, of, output: _, no_data, trace_ranks, input, engine } = args;
    let mut words = vec!["kbc".to_owned(), "report".to_owned(), file.clone()];
    let mut pair = |flag: &str, value: &String| words.extend([flag.to_owned(), value.clone()]);
    for (flag, values) in of.plain().flags() {
        values.iter().for_each(|v| pair(flag, v));
    }
    input.iter().for_each(|i| pair("--input", i));
    engine.iter().for_each(|e| pair("--engine", &e.plain().name().to_owned()));
    trace_ranks.iter().for_each(|r| pair("--trace-ranks", r));
    pair("-o", &"report.html".to_owned());
    if *no_data {
        words.push("--no-data".to_owned());
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@%+".contains(c);
    let quoted = |w: &String| match w.chars().all(plain) && !w.is_empty() {
        true => w.clone(),
        false => format!("'{}'", w.replace('\'', "'\\''")),
    };
    words.iter().map(quoted).collect::<Vec<_>>().join(" ")
}
