//! `kbc explain`: error codes, choices of the compiler, and the parts of the time of a call.

use super::output::finish;
use super::traffic;
use crate::cli::{Explain, Source};
use crate::session::{Failure, Outcome, Session};
use kbc_compiler::emit;
use kbc_compiler::explain::{self, TimePart, bound, memory, order, overlap, select};
use kbc_compiler::load::refuse;
use kbc_compiler::report;
use kbc_diag::nearest::nearest;
use kbc_diag::{Diagnostic, Diagnostics, codes};
use serde_json::{Value, json};

const TOPICS: [&str; 10] =
    ["select", "placement", "overlap", "memory", "window", "traffic", "bound", "path", "links", "order"];

/// Prints a page or a table.
///
/// # Errors
/// Returns E416 for an unknown code or topic, and the errors of compiling the file.
pub fn run(session: &mut Session, args: &Explain) -> Outcome {
    if TOPICS.contains(&args.topic.as_str()) {
        let Some(file) = &args.file else {
            return usage(
                Diagnostic::error("E416", format!("explain {} needs a program", args.topic))
                    .help(format!("write kbc explain {} FILE", args.topic)),
            );
        };
        let timed = matches!(args.topic.as_str(), "path" | "links");
        let traffic = args.topic == "traffic";
        let source = Source { file: file.clone(), of: args.of.clone(), post: None };
        let target = match (&args.target, args.topic.as_str()) {
            (Some(name), "window" | "traffic") => emit::target(name)?,
            (Some(_), _) => {
                return usage(
                    Diagnostic::error("E416", format!("--target does not apply to explain {}", args.topic))
                        .help("only explain window and explain traffic have a target"),
                );
            }
            (None, _) => None,
        };
        if args.topic == "order" {
            return explain_order(session, args, &source);
        }
        refuse(&only_order(args), &format!("explain {}", args.topic))?;
        if traffic {
            return traffic::run(session, &source, args.target.as_deref());
        }
        if timed {
            return explain_timed(session, args, &source);
        }
        let built = explain::built(session, &source.plain(), args.topic == "select")?;
        let (text, found) = match args.topic.as_str() {
            "select" => {
                let found = select::candidates(&built)?;
                (found.text(), found.json())
            }
            "placement" => {
                let mut json = explain::placement_json(&built);
                let inside = memory::inside(&built)?;
                json["inside"] = inside.json();
                (explain::placement(&built) + &inside.text(), json)
            }
            "overlap" => (overlap::text(&built), overlap::json(&built)),
            "memory" => (memory::text(&built)?, memory::json(&built)?),
            "bound" => (bound::of(&built)?, bound::json(&built)?),
            _ => match (built.module.schedule(), target) {
                (Some(schedule), Some(profile)) => {
                    let window = emit::window::window(session, &built, schedule, profile)?;
                    (window.text(), window.json())
                }
                (Some(schedule), None) => (explain::window(schedule), explain::window_json(schedule)),
                (None, _) => (String::new(), json!({})),
            },
        };
        return Ok(session.answer(&text, &about(&args.topic, Some(file), found))?);
    }
    if codes::find(&args.topic).is_some() {
        refuse(&args.of.plain().given(), &format!("the page of {}", args.topic))?;
        refuse(&[("--target", args.target.is_some())], &format!("the page of {}", args.topic))?;
        refuse(&only_order(args), &format!("the page of {}", args.topic))?;
    }
    if args.file.is_some() && codes::find(&args.topic).is_some() {
        return usage(Diagnostic::error("E416", format!("explain {} takes no file", args.topic)));
    }
    match codes::find(&args.topic.to_uppercase()) {
        Some(code) => {
            let kind = code.kind.name();
            let found = json!({ "code": code.code, "title": code.title, "kind": kind, "page": code.page });
            Ok(session.answer(code.page, &about(code.code, None, found))?)
        }
        None => usage(unknown(&args.topic)),
    }
}

/// Flags of `explain order` alone, and whether they were given.
fn only_order(args: &Explain) -> [(&'static str, bool); 2] {
    [("--also", !args.also.is_empty()), ("--fixed", args.fixed)]
}

/// Prints the orders of additions. With `--fixed` it is an error if an element has several.
fn explain_order(session: &mut Session, args: &Explain, source: &Source) -> Outcome {
    let found = order::orders(session, &source.plain(), &args.also)?;
    if args.fixed {
        found.require_fixed()?;
    }
    Ok(session.answer(&found.text(), &about(&args.topic, args.file.as_ref(), found.json()))?)
}

/// Prints the parts of the time of a call: its critical path, or its links.
fn explain_timed(session: &mut Session, args: &Explain, source: &Source) -> Outcome {
    let part = if args.topic == "path" { TimePart::Path } else { TimePart::Links };
    let report = explain::time(session, &source.plain(), part)?;
    if session.is_json() {
        return finish(session, &report, true);
    }
    session.result(&match part {
        TimePart::Path => report::path::full(&report),
        TimePart::Links => report::path::table(&report),
    });
    Ok(())
}

/// Returns the JSON of a topic: what it is about, and what was found.
fn about(topic: &str, file: Option<&String>, found: Value) -> Value {
    let mut out = json!({ "schema": 1, "command": "explain", "topic": topic, "ok": true });
    if let (Some(out), Value::Object(found)) = (out.as_object_mut(), found) {
        out.extend(file.map(|f| ("file".to_owned(), Value::from(f.as_str()))));
        out.extend(found);
    }
    out
}

fn usage(d: Diagnostic) -> Outcome {
    Err(Failure::Usage(Diagnostics::from(d)))
}

fn unknown(topic: &str) -> Diagnostic {
    let all: Vec<&str> = codes::CODES.iter().map(|c| c.code).chain(TOPICS).collect();
    let mut d = Diagnostic::error("E416", format!("there is no explanation of `{topic}`"))
        .note(format!("explanations: {}, and the codes of messages", TOPICS.join(", ")));
    if let Some(near) = nearest(&topic.to_uppercase(), all.iter().copied()).or_else(|| nearest(topic, TOPICS))
    {
        d = d.help(format!("did you mean `{near}`?"));
    }
    d
}
