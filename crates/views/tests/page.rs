//! Tests of the page: its limit of events.

use kbc_compiler::report::Report;
use kbc_compiler::timeline::scene::Scene;
use kbc_compiler::{Options, Source, Workspace, compile};
use kbc_diag::SourceMap;
use kbc_time::{TimeOptions, simulate};
use kbc_views::page::{PageInputs, page};
use serde_json::Value;

/// A program with one collective.
const PROGRAM: &str = "
topology sys = ring(4) { link: 50 GB/s, 500 ns }
mesh m = sys[tp]
program total(x: f32[1000] partial(sum@tp)) -> f32[1000] { x }
";

/// Returns the data of a page.
fn data(page: &str) -> Value {
    let (_, rest) = page.split_once("<script id=\"data\" type=\"application/json\">").expect("data");
    serde_json::from_str(rest.split_once("</script>").expect("an end").0).expect("JSON")
}

#[test]
fn too_many_events_are_refused() {
    let mut workspace = Workspace::default();
    workspace.give("sum.kb", PROGRAM);
    let built = compile(&mut workspace, &Source::of("sum.kb"), &Options::default()).expect("a program");
    let (module, topology) = (built.module.clone(), built.topology.clone());
    let schedule = built.schedule().expect("a schedule");
    let map = SourceMap::default();
    let scene = Scene::new(schedule, &topology, &map);
    let timing = simulate(schedule, &topology, &TimeOptions::default()).expect("it runs");
    let report = Report::default();
    let made = |events, ranks| PageInputs {
        report: &report,
        module: &module,
        scene: &scene,
        timing: &timing,
        values: vec![],
        file: "s.kir",
        command: String::new(),
        ranks,
        events,
        trees: vec![],
    };
    let data = data(&page(made(1000, None), &map).expect("it fits"));
    let all: usize =
        [("slices", "op"), ("stays", "region"), ("messages", "op"), ("passes", "link"), ("waits", "why")]
            .iter()
            .map(|(list, field)| data["events"][*list][*field].as_array().expect("a list").len())
            .sum();
    assert!(page(made(all, None), &map).is_ok(), "{all} events fit");
    let refused = page(made(all - 1, None), &map).expect_err("it does not fit");
    assert_eq!(refused.list[0].code, "E593");
    assert!(refused.list[0].help.as_ref().is_some_and(|h| h.contains("--trace-ranks")));
    assert!(page(made(all - 1, Some("0")), &map).is_ok(), "one rank fits");
}
