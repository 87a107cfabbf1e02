//! Tests of the steps of a client: compile, check, execute, time, report and emit.

use crate::{SUM, built, workspace};
use kbc_compiler::engine::Engine;
use kbc_compiler::load::load_kir;
use kbc_compiler::options::{Data, Selection};
use kbc_compiler::report::{Report, human};
use kbc_compiler::run::{self, RunRequest};
use kbc_compiler::watch::Unwatched;
use kbc_compiler::{Options, Source, about, artefacts, compile};
use serde_json::Value;

#[test]
fn each_step_of_a_program_can_be_taken_alone() {
    let mut workspace = workspace(SUM);
    let built = built(&mut workspace, "default");
    assert_eq!(built.schedule().expect("a schedule").mesh.ranks(), 4);

    let proof = built.check(&workspace).expect("it is right");
    assert!(proof.ok);
    assert_eq!((proof.calls.as_ref(), proof.shown.as_ref()), ("any", "race-free, deadlock-free and correct"));

    for engine in [Engine::Jit, Engine::Interp] {
        let data = Data { engine: Some(engine), ..Data::default() };
        let run = built.execute(&workspace, &data).expect("it runs");
        assert_eq!((run.compare.mismatches, run.compare.elements), (0, 4000), "{engine:?}");
    }

    let (timed, timing) = built.time(&workspace).expect("it can be timed");
    assert_eq!(timed.time_ns, Some(timing.ns));
    // Each rank sends 2 * 3/4 of 4000 bytes over its two links of 50 GB/s.
    let bound = timed.bound_ns.expect("a machine of links has a bound");
    assert!(bound > 0.0 && timing.ns >= bound, "{} ns, bound {bound} ns", timing.ns);
}

#[test]
fn a_report_has_the_results_of_all_steps() {
    let mut workspace = workspace(SUM);
    let built = built(&mut workspace, "default");
    let report = built.report(&workspace, &Data::default()).expect("no step fails");
    assert!(report.ok && report.verified.as_ref().is_some_and(|v| v.ok));
    assert_eq!(report.engine, Some("jit"));
    let json: Value = serde_json::to_value(&report).expect("a report is JSON");
    assert_eq!(json["program"], "total");
    assert_eq!(json["mesh"][0]["size"], 4);
    assert_eq!(json["collectives"][0]["operation"], "all_reduce");
    assert_eq!(json["compare"]["mismatches"], 0);
    assert!(json["time_ns"].as_f64() >= json["bound_ns"].as_f64());
    let text = human(&report);
    assert!(text.contains("all_reduce") && text.contains("total"), "{text}");
}

#[test]
fn an_algorithm_on_a_machine_is_a_source_like_a_program() {
    let text = "algorithm mine: all_gather over (r mod p) { for s in 0..p-1 { put [r - s] -> r + 1 } }";
    let mut workspace = workspace(text);
    let of = Selection { topology: Some("ring(5)".into()), ..Selection::default() };
    let source = Source { of, ..Source::of("p.kb") };
    let built = compile(&mut workspace, &source, &Options::default()).expect("it compiles");
    assert_eq!(built.schedule().expect("a schedule").mesh.ranks(), 5);
    assert!(built.report(&workspace, &Data::default()).expect("no step fails").ok);
}

#[test]
fn a_package_for_a_target_is_files_in_memory() {
    let mut workspace = workspace(SUM);
    let built = built(&mut workspace, "windows");
    let report = built.report(&workspace, &Data::default()).expect("no step fails");
    let package = built.emit(&mut workspace, "a2a3", &report).expect("it can be emitted");
    let named = |end: &str| package.files.iter().find(|(name, _)| name.ends_with(end));
    let (_, kernel) = named(".cpp").expect("a kernel");
    let kernel = String::from_utf8_lossy(kernel);
    assert!(
        kernel.contains("emitted by kbc from total") && kernel.contains("4000 elements compared"),
        "{kernel}"
    );
    assert!(named(".md").is_some() && named(".py").is_some());
}

/// The texts of module and graph are read back; the schedule then runs without its program, also
/// under adversaries, and is compared with the contract of its collective.
#[test]
fn a_schedule_as_text_runs_without_its_program() {
    let mut workspace = workspace(SUM);
    let of_program = built(&mut workspace, "default");
    for kind in artefacts::KINDS {
        let text = artefacts::text(&of_program, kind);
        if kind.starts_with("dot") {
            assert!(text.starts_with("digraph"), "{kind}: {text}");
            continue;
        }
        if kind == "json" {
            let module: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
            assert!(module["body"].is_object(), "{text}");
            continue;
        }
        let name = format!("{kind}.kir");
        workspace.give(&name, &text);
        let (_, module) = load_kir(&mut workspace, &name).expect("it is well formed");
        assert_eq!(module.schedule().is_some(), kind == "kir");
    }
    let (_, module) = load_kir(&mut workspace, "kir.kir").expect("it is well formed");
    let schedule = module.schedule().expect("a schedule");
    let mut report: Report = about::about_schedule("run", "kir.kir", &module, schedule);
    report.ok = true;
    let request = RunRequest { seed: 3, adversaries: Some(2), ..RunRequest::default() };
    assert_eq!(request.calls(), 4);
    let (inputs, result) =
        run::schedule(&workspace, &mut report, schedule, &request, &mut Unwatched).expect("it runs");
    assert_eq!((inputs.calls.len(), result.outputs.len()), (4, 4));
    run::adversaries(&workspace, &mut report, schedule, &inputs, &request).expect("they run");
    assert!(report.ok && !run::is_wrong(&report) && report.unchecked.is_empty());
    assert_eq!(report.compare.as_ref().map(|c| c.mismatches), Some(0));
    assert!(report.adversarial.as_ref().is_some_and(|a| a.failure.is_none() && a.runs > 0));
}
