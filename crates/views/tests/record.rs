//! Tests of records: what is kept, and what is not.

use kbc_compiler::report::Report;
use kbc_compiler::{Failure, Options, Outcome, Source, Workspace, compile};
use kbc_time::{TimeOptions, Timing};
use kbc_views::record::{InMemory, Wanted, time};

/// A program with one collective.
const PROGRAM: &str = "
topology sys = ring(4) { link: 50 GB/s, 500 ns }
mesh m = sys[tp]
program total(x: f32[1000] partial(sum@tp)) -> f32[1000] { x }
";

/// Times the program with records of both kinds.
fn timed(wanted: &Wanted, sinks: &InMemory) -> Outcome<(Report, Timing)> {
    let mut workspace = Workspace::default();
    workspace.give("sum.kb", PROGRAM);
    let built = compile(&mut workspace, &Source::of("sum.kb"), &Options::default())?;
    let (subject, mut report) = (built.subject(built.schedule()?), Report::default());
    let options = TimeOptions::default();
    let timing = time(&workspace, &mut report, subject, &built.topology, wanted, sinks, &options)?;
    Ok((report, timing))
}

fn both() -> Vec<(String, String)> {
    [("trace", "t"), ("log", "l")].map(|(kind, path)| (kind.to_owned(), path.to_owned())).into()
}

#[test]
fn records_are_kept_and_change_no_time() {
    let (with, without) = (InMemory::default(), InMemory::default());
    let recorded = timed(&Wanted::new(both(), None).expect("both"), &with).expect("it runs");
    let alone = timed(&Wanted::default(), &without).expect("it runs");
    assert_eq!(recorded.1.ns, alone.1.ns);
    assert_eq!(recorded.0.time_ns, Some(alone.1.ns));
    let kept = with.take();
    assert_eq!(kept.keys().map(String::as_str).collect::<Vec<_>>(), ["l", "t"]);
    assert!(kept.values().all(|bytes| !bytes.is_empty()));
    assert!(without.take().is_empty() && with.take().is_empty());
}

#[test]
fn a_record_that_is_too_large_is_not_kept() {
    for (events, lines) in [(10, 1 << 20), (1 << 20, 10)] {
        let sinks = InMemory::default();
        // One record at a time: the other would be whole.
        let list = both().into_iter().filter(|(kind, _)| (kind == "trace") == (events == 10)).collect();
        let wanted = Wanted { list, events, lines, ranks: None };
        let Err(Failure::Program(d)) = timed(&wanted, &sinks) else { panic!("it is written") };
        assert_eq!(d.list[0].code, "E431");
        assert!(sinks.take().is_empty());
    }
}
