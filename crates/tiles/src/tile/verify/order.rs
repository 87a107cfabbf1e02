//! Rules T3 to T6, and the part of T9 that no fence is left: reports the findings of the order
//! analysis.

use super::sink::Sink;
use crate::tile::Dialect;
use crate::tile::hazard::{HazardProgram, PipeEvent, Touched};
use crate::tile::order::{Fault, Finding, analyse};
use crate::tile::path::{self, Path};
use crate::tile::tasks::{self, Task};
use crate::tile::text::print_op;
use crate::tile::{Kernel, Object, Op, Pipe, Stmt};
use kbc_diag::Diagnostic;

/// Checks T3 to T6.
pub(super) fn check(sink: &mut Sink<'_>) {
    for task in tasks::split(sink.kernel) {
        one(sink, &task);
    }
}

fn one(sink: &mut Sink<'_>, task: &Task) {
    let kernel = &task.kernel;
    // Converts a path in the task's own kernel to one in the whole kernel.
    let whole =
        |at: &[u32]| -> Path { task.at.iter().map(|i| *i as u32).chain(at.iter().copied()).collect() };
    for (at, op) in path::ops(kernel) {
        let at = whole(&at);
        if let Op::SetFlag { from, to, event } | Op::WaitFlag { from, to, event } = op {
            if *event >= sink.device.limits().events {
                let text = format!("event {event}: a pair of pipes has {}", sink.device.limits().events);
                sink.op(&at, op, Diagnostic::error("E453", text));
            }
            if from == to {
                let text = format!("a flag from {} to itself", kernel.dialect.pipe(*from));
                sink.op(&at, op, Diagnostic::error("E453", text).help("use a barrier of that pipe"));
            }
        }
    }
    for f in analyse(kernel) {
        let d = diagnostic(kernel, &f);
        match path::stmt(kernel, &f.at) {
            Some(Stmt::Op(op)) => sink.op(&whole(&f.at), op, d),
            _ => sink.at(&whole(&f.at), d),
        }
    }
}

fn named(dialect: &Dialect, e: &PipeEvent) -> String {
    format!("{} to {}, event {}", dialect.pipe(e.from), dialect.pipe(e.to), e.number)
}

fn list(dialect: &Dialect, events: &[PipeEvent]) -> String {
    events.iter().map(|e| named(dialect, e)).collect::<Vec<_>>().join("; ")
}

/// Quotes the operations at these paths.
fn quote(kernel: &Kernel, paths: &[Path]) -> String {
    let text = |p: &Path| match path::stmt(kernel, p) {
        Some(Stmt::Op(op)) => format!("`{}`", print_op(kernel, op)),
        _ => "the end".into(),
    };
    paths.iter().map(text).collect::<Vec<_>>().join("; ")
}

fn diagnostic(kernel: &Kernel, f: &Finding) -> Diagnostic {
    let dialect = kernel.dialect;
    let pipe = |p: &Pipe| dialect.pipe(*p);
    match &f.fault {
        Fault::Unordered { earlier, from, to, wrote, writes, access } => {
            let program = HazardProgram::new(kernel);
            let touched = program
                .sites
                .iter()
                .find(|s| s.path == f.at)
                .and_then(|s| s.accesses.get(*access))
                .map_or("memory".to_owned(), |a| what(kernel, &a.touched));
            let verb = |w: bool| if w { "writes" } else { "reads" };
            let title = format!(
                "{} {} {touched}, which {} {} earlier, and the two accesses are not ordered",
                pipe(to),
                verb(*writes),
                pipe(from),
                verb(*wrote)
            );
            let help = if from == to {
                format!("put a barrier of {} between them", pipe(to))
            } else {
                format!("put a flag from {} to {} between them", pipe(from), pipe(to))
            };
            let quoted = quote(kernel, std::slice::from_ref(earlier));
            Diagnostic::error("E452", title).note(format!("the earlier access: {quoted}")).help(help)
        }
        Fault::Unpublished { drained } => {
            let title = if *drained {
                "a notify without a `dsb` after the barrier that completes the accesses it publishes"
            } else {
                "a notify without a barrier of all pipes and a `dsb` after the accesses it publishes"
            };
            Diagnostic::error("E454", title)
                .note("a notify can overtake transfers, and completed transfers may not be visible to peers yet")
                .help("put a barrier of all pipes and then `dsb` before the notify")
        }
        Fault::Unacquired { waits } => {
            Diagnostic::error("E455", "an access may start before an earlier wait has ended")
                .note(format!("the wait: {}", quote(kernel, waits)))
                .note("a wait polls on the scalar pipe, and other pipes continue")
                .help("put a barrier of all pipes between them")
        }
        Fault::SetTwice(e) => {
            Diagnostic::error("E453", format!("a flag is set twice without a wait ({})", named(dialect, e)))
        }
        Fault::NotSet(e) => {
            Diagnostic::error("E453", format!("a wait for a flag that is not set ({})", named(dialect, e)))
        }
        Fault::SetEarly(e) => {
            let title = format!(
                "a flag is set again before its last wait is known to have ended ({})",
                named(dialect, e)
            );
            Diagnostic::error("E453", title).help(format!(
                "use another event, or order {} after {} first",
                pipe(&e.from),
                pipe(&e.to)
            ))
        }
        Fault::Differ(events) => {
            let title = format!(
                "a flag is set on one path to this place and not on another ({})",
                list(dialect, events)
            );
            Diagnostic::error("E453", title).note(
                "the paths are the two branches of an `if`, or the first and a later iteration of a loop",
            )
        }
        Fault::Left(events) => {
            Diagnostic::error("E453", format!("a flag is still set at the end ({})", list(dialect, events)))
        }
        Fault::Fence => Diagnostic::error("E449", "a completed kernel contains a fence of the schedule")
            .help("run pass `fences`, which replaces it"),
    }
}

fn what(kernel: &Kernel, touched: &Touched) -> String {
    match touched {
        Touched::Tile(t, _) => format!("tile {}", kernel.tile(*t).name),
        Touched::Run { object: Object::Tensor(t), .. } | Touched::Block { object: Object::Tensor(t), .. } => {
            kernel.tensor(*t).name.to_string()
        }
        Touched::Run { object: Object::Area(a), .. } | Touched::Block { object: Object::Area(a), .. } => {
            kernel.area(*a).name.to_string()
        }
        Touched::Event(e) => named(kernel.dialect, e),
    }
}
