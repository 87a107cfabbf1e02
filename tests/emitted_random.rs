//! Random programs, emitted: the interpreter, machine code and the emitted C++ agree.

use crate::cases::all_cases;
use crate::common::root;
use crate::emitting::Case;
use crate::standin::{self, Run};
use clap::Parser;
use kbc::cli::Cli;
use kbc::session::Session;
use kbc_audit::fuzz::Difference;
use kbc_audit::fuzz::emitted::{EmittedRunner, is_undescribed};

fn emitted(text: &str) -> Case {
    Case::new(text, &[]).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

/// A sample of `kbc dev fuzz emitted`: interpreter, machine code and emitted C++ agree on random
/// programs, most of which are emitted.
#[test]
fn random_programs() {
    let session = Session::new(&Cli::parse_from(["kbc", "fuzz", "emitted"]));
    let Some(standin) = standin::standin() else { return };
    let bench = EmittedRunner { workspace: &session, standin, batch: 10, keep: true };
    let (programs, least) = if all_cases() { (0..20, 14) } else { (0..10, 6) };
    let sum = bench.programs(5, programs, &mut |_| {});
    let said = |d: &Difference| format!("number {}: {}\n{}", d.number, d.what, d.text);
    let all: Vec<String> = sum.engines.differences.iter().map(said).collect();
    assert!(all.is_empty(), "{}", all.join("\n"));
    let text = sum.text();
    assert!(sum.programs >= least && sum.units == sum.programs.div_ceil(10), "{text}");
    assert!(sum.sizes > sum.programs && sum.compared.exact > 1000 && sum.compared.near > 1000, "{text}");
    let refused: u64 = sum.refused.values().map(|r| r.0).sum();
    let engines = &sum.engines;
    let faults: u64 = engines.faults.values().map(|f| f.0).sum();
    assert_eq!(engines.accepted, sum.programs + refused + faults, "{text}");
}

/// A kernel that differs is found: each of a batch of two computes what the other should.
#[test]
fn random_programs_would_differ() {
    let text = |op: &str| {
        format!(
            "topology sys = ring(2)\nmesh m = sys[tp]\nprogram case(x: f32[8@tp]) -> f32[8] {{ x {op} 1.0 }}\n"
        )
    };
    let (mut plus, minus) = (emitted(&text("+")), emitted(&text("-")));
    let (ranks, count) = plus.own();
    let sized = plus.at(ranks, count, 2);
    let Some(standin) = standin::standin() else { return };
    let program = standin.compile(&[minus.source(), plus.source()]).unwrap_or_else(|e| panic!("{e}"));
    let run = |n: usize| program.run_one(&standin::Job { program: n, ..sized.job.clone() });
    let wrong = plus.same(&sized, &run(0).unwrap_or_else(|e| panic!("{e}")));
    assert!(wrong.is_err_and(|e| e.contains("call 0, rank 0, result 0: element 0 is")));
    plus.same(&sized, &run(1).unwrap_or_else(|e| panic!("{e}"))).unwrap_or_else(|e| panic!("{e}"));
}

/// Programs that differed once, each in a file of its own.
#[test]
fn found_before() {
    let session = Session::new(&Cli::parse_from(["kbc", "fuzz", "emitted"]));
    let Some(standin) = standin::standin() else { return };
    let bench = EmittedRunner { workspace: &session, standin, batch: 1, keep: true };
    let folder = root().join("tests/ascend/random");
    let mut files: Vec<_> =
        std::fs::read_dir(folder).expect("a folder").map(|f| f.expect("a file").path()).collect();
    files.sort();
    assert!(!files.is_empty());
    for file in files {
        let text = std::fs::read_to_string(&file).expect("a program");
        let compared = bench.one(&text, 1, 0).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        assert!(compared.exact + compared.near > 0, "{}", file.display());
    }
}

/// A number that does not fit the integer type is no difference: what the core then does is not
/// described.
#[test]
fn what_is_not_described() {
    let session = Session::new(&Cli::parse_from(["kbc", "fuzz", "emitted"]));
    let Some(standin) = standin::standin() else { return };
    let bench = EmittedRunner { workspace: &session, standin, batch: 1, keep: true };
    let text = |number: &str| {
        format!(
            "topology sys = ring(2)\nmesh m = sys[tp]\nprogram case(x: f32[8@tp]) -> i16[8@tp] {{ i16(x * 0.0 + {number}) }}\n"
        )
    };
    let large = bench.one(&text("40000.0"), 1, 0).expect_err("40000 is no i16");
    assert!(is_undescribed(&large), "{large}");
    bench.one(&text("30000.0"), 1, 0).unwrap_or_else(|e| panic!("{e}"));
}
