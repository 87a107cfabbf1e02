//! Tests of failures: places of errors, kinds of failures, and limits of the environment.

use crate::{SUM, built, workspace};
use kbc_compiler::options::{Data, Selection};
use kbc_compiler::workspace::{Environment, Stage};
use kbc_compiler::{Failure, Options, Source, Workspace, compile};
use kbc_diag::{Diagnostic, Severity};
use std::sync::{Arc, Mutex, PoisonError};

/// Returns the first error, and the exit code that belongs to the failure.
fn first(failure: Failure) -> (Diagnostic, u8) {
    let (found, code) = failure.into_parts();
    let error = found.list.into_iter().find(|d| d.severity == Severity::Error);
    (error.expect("a failure has an error"), code)
}

fn refused(workspace: &mut Workspace, source: &Source) -> (Diagnostic, u8) {
    first(compile(workspace, source, &Options::default()).err().expect("it is wrong"))
}

#[test]
fn an_error_has_a_place_in_the_text() {
    let mut workspace = workspace(&SUM.replace("{ x }", "{ y }"));
    let (error, code) = refused(&mut workspace, &Source::of("p.kb"));
    assert_eq!((error.code, code), ("E005", 1), "{error:?}");
    let label = error.labels.first().expect("a place");
    assert_eq!(workspace.quote(label.span), "y");
    let line = kbc_diag::render::short(&error, &workspace.map);
    assert!(line.starts_with("p.kb:4:"), "{line}");
}

#[test]
fn wrong_usage_is_another_kind_of_failure() {
    let mut workspace = workspace(SUM);
    let (missing, code) = refused(&mut workspace, &Source::of("other.kb"));
    assert_eq!((missing.code, code), ("E412", 2));
    let built = built(&mut workspace, "windows");
    let report = built.report(&workspace, &Data::default()).expect("no step fails");
    let (target, code) = first(built.emit(&mut workspace, "a9", &report).err().expect("no such target"));
    assert_eq!((target.code, code), ("E458", 2));
    let (target, _) = first(built.emit(&mut workspace, "sim", &report).err().expect("no code"));
    assert_eq!(target.code, "E416");
}

/// A program on the tensors of ranks has no global sizes, which kernels need.
#[test]
fn a_local_program_is_refused_for_a_target() {
    let mut workspace = workspace(
        "
topology sys = ring(4) { link: 50 GB/s, 500 ns }
mesh m = sys[tp]
local program total over (r of tp) {
    ranks 0..4 (x: f32[1000]) -> f32[1000] {
        let y = all_reduce(x, sum, over: tp)
        wait(y)
    }
}
",
    );
    let built = built(&mut workspace, "windows");
    let report = built.report(&workspace, &Data::default()).expect("no step fails");
    let (error, _) = first(built.emit(&mut workspace, "a2a3", &report).err().expect("no kernel"));
    assert_eq!(error.code, "E548");
}

/// An environment with little memory, which hears of the stages.
struct Small {
    bytes: u64,
    stages: Mutex<Vec<Stage>>,
}

impl Environment for Small {
    fn memory(&self) -> Option<u64> {
        Some(self.bytes)
    }

    fn stage(&self, stage: Stage) {
        self.stages.lock().unwrap_or_else(PoisonError::into_inner).push(stage);
    }
}

#[test]
fn a_run_that_needs_more_memory_than_there_is_is_refused_before_it_begins() {
    let small = Arc::new(Small { bytes: 64 << 20, stages: Mutex::default() });
    let mut workspace = Workspace::new(small.clone());
    workspace.give("p.kb", &SUM.replace("1000", "100000000"));
    let built = built(&mut workspace, "default");
    let (error, _) = first(built.execute(&workspace, &Data::default()).err().expect("too much"));
    assert_eq!(error.code, "E369", "{error:?}");
    let stages = small.stages.lock().unwrap_or_else(PoisonError::into_inner);
    assert!(stages.contains(&Stage::Passes) && !stages.contains(&Stage::Run), "{stages:?}");
}

#[test]
fn a_machine_without_enough_devices_is_refused() {
    let mut workspace = workspace(SUM);
    let of = Selection { topology: Some("switch(0)".into()), ..Selection::default() };
    let (error, _) = refused(&mut workspace, &Source { of, ..Source::of("p.kb") });
    assert_eq!(error.code, "E443", "{error:?}");
}
