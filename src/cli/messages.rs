//! Messages about the command line itself, before there is a session that knows the form of
//! messages and results: the words of the command line say it.

use kbc_compiler::failure::Failure;
use kbc_diag::{Diagnostic, SourceMap, render};

/// Returns the last value of a flag among the words of a command line, which may be invalid
/// otherwise.
fn last_value<'a>(words: &'a [String], flag: &str) -> Option<&'a str> {
    let mut at = words.iter().take_while(|w| *w != "--");
    let mut out = None;
    while let Some(word) = at.next() {
        if let Some(rest) = word.strip_prefix(flag) {
            match rest.strip_prefix('=') {
                Some(value) => out = Some(value),
                None if rest.is_empty() => out = at.next().map(String::as_str),
                None => {}
            }
        }
    }
    out
}

/// Returns the colours that `--color` requests for messages about the command line itself.
pub fn color_of(words: &[String]) -> clap::ColorChoice {
    match last_value(words, "--color") {
        Some("always") => clap::ColorChoice::Always,
        Some("never") => clap::ColorChoice::Never,
        _ => clap::ColorChoice::Auto,
    }
}

/// Returns a message about the command line (E416), or None if it is no error (`--help`,
/// `--version`).
pub fn usage(e: &clap::Error) -> Option<Diagnostic> {
    if !e.use_stderr() {
        return None;
    }
    let text = e.to_string();
    let mut lines = text.lines().map(str::trim).filter(|l| !l.is_empty());
    let mut d = Diagnostic::error("E416", lines.next().unwrap_or("").trim_start_matches("error: "));
    for line in lines.filter(|l| !l.starts_with("For more information")) {
        d = match (line.strip_prefix("tip: "), line.starts_with("Usage: ")) {
            (Some(tip), _) => d.help(tip),
            (None, true) => d.note(line),
            // Returns what is missing, and the possible values.
            (None, false) => Diagnostic { title: format!("{} {line}", d.title), ..d },
        };
    }
    Some(d)
}

/// Checks whether the words request messages in a form for programs.
pub fn for_programs(words: &[String]) -> bool {
    matches!(last_value(words, "--diagnostics"), Some("short" | "json"))
}

/// Prints a message about the command line, in the form that its words request.
pub fn before(d: &Diagnostic, words: &[String]) -> String {
    let map = SourceMap::default();
    match last_value(words, "--diagnostics") {
        Some("short") => render::short(d, &map) + "\n",
        Some("json") => render::json(d, &map) + "\n",
        _ => render::human(d, &map, false),
    }
}

/// Returns the failure as the JSON on standard output, if the words request results as JSON.
pub fn failure(d: &Diagnostic, words: &[String]) -> Option<String> {
    let format = last_value(words, "--format").or_else(|| last_value(words, "--report"));
    let failure = Failure::Usage(d.clone().into());
    (format == Some("json")).then(|| failed(&failure, &SourceMap::default()) + "\n")
}

/// Returns the JSON of a command that failed and has no other result.
pub fn failed(failure: &Failure, map: &SourceMap) -> String {
    format!("{{\"schema\":1,\"ok\":false,\"failure\":{}}}", failure.json(map))
}
