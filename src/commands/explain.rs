//! `kbc explain`: error codes, choices of the compiler, and the parts of the time of a call.

use super::output::finish;
use super::traffic;
use crate::cli::{Explain, ReportFormat, Source};
use crate::session::{Failure, Outcome, Session};
use kbc_compiler::emit;
use kbc_compiler::explain::{self, TimePart, bound, memory, overlap, select};
use kbc_compiler::load::refuse;
use kbc_compiler::report;
use kbc_diag::nearest::nearest;
use kbc_diag::{Diagnostic, Diagnostics, codes};

const TOPICS: [&str; 9] =
    ["select", "placement", "overlap", "memory", "window", "traffic", "bound", "path", "links"];

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
        if args.report == ReportFormat::Json && !timed && !traffic {
            return usage(
                Diagnostic::error("E416", format!("explain {} has no JSON output", args.topic))
                    .help("explain traffic, explain path and explain links have one"),
            );
        }
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
        if traffic {
            return traffic::run(session, &source, args.target.as_deref(), args.report);
        }
        if timed {
            return explain_timed(session, args, &source);
        }
        let built = explain::built(session, &source.plain(), args.topic == "select")?;
        let text = match args.topic.as_str() {
            "select" => select::text(&built)?,
            "placement" => explain::placement(&built) + &memory::shards(&built)?,
            "overlap" => overlap::text(&built),
            "memory" => memory::text(&built)?,
            "bound" => bound::of(&built)?,
            _ => match (built.module.schedule(), target) {
                (Some(schedule), Some(profile)) => emit::window::text(session, &built, schedule, profile)?,
                (schedule, _) => schedule.map_or_else(String::new, explain::window),
            },
        };
        session.result(&text);
        return Ok(());
    }
    if args.report == ReportFormat::Json {
        return usage(Diagnostic::error(
            "E416",
            "--report json applies only to explain traffic, explain path and explain links",
        ));
    }
    if codes::find(&args.topic).is_some() {
        refuse(&args.of.plain().given(), &format!("the page of {}", args.topic))?;
        refuse(&[("--target", args.target.is_some())], &format!("the page of {}", args.topic))?;
    }
    if args.file.is_some() && codes::find(&args.topic).is_some() {
        return usage(Diagnostic::error("E416", format!("explain {} takes no file", args.topic)));
    }
    match codes::find(&args.topic.to_uppercase()) {
        Some(code) => {
            session.result(code.page);
            Ok(())
        }
        None => usage(unknown(&args.topic)),
    }
}

/// Prints the parts of the time of a call: its critical path, or its links.
fn explain_timed(session: &mut Session, args: &Explain, source: &Source) -> Outcome {
    let part = if args.topic == "path" { TimePart::Path } else { TimePart::Links };
    let report = explain::time(session, &source.plain(), part)?;
    match (args.report, part) {
        (ReportFormat::Json, _) => finish(session, &report, args.report, true),
        (ReportFormat::Human, TimePart::Path) => {
            session.result(&report::path::full(&report));
            Ok(())
        }
        (ReportFormat::Human, TimePart::Links) => {
            session.result(&report::path::table(&report));
            Ok(())
        }
    }
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
