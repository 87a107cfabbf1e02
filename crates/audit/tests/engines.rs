//! A sample of `kbc dev fuzz`: random programs and schedules, the interpreter against machine code;
//! and a test that the generator covers what it should.

use crate::cases::all_cases;
use crate::root;
use kbc_audit::fuzz::catalogue::Catalogue;
use kbc_audit::fuzz::compare::{CompareOptions, compare};
use kbc_audit::fuzz::{self, Summary, Trial, bits, generate};
use kbc_compiler::options::Data;
use kbc_compiler::watch::Unwatched;
use kbc_compiler::{Options, Outcome, Source, Workspace, analyse, check, compile};
use kbc_ir::graph::CollKind;
use kbc_ir::scalar::{CompareOp, ScalarBin, ScalarUn};
use kbc_ir::schedule::{LocalOp, SOp, SStmt, Schedule};
use kbc_ir::types::{DType, ReduceOp};
use std::cell::RefCell;
use std::path::Path;

const COMPUTING: [DType; 4] = [DType::F32, DType::F16, DType::BF16, DType::I32];
const MOVING: [DType; 6] = [DType::I8, DType::U8, DType::I16, DType::I64, DType::F8E4M3FN, DType::F8E5M2];

/// Number of kinds of things that a sample of the programs may lack.
const LACKING: usize = 12;

fn agree(sum: &Summary) {
    let all: Vec<String> =
        sum.differences.iter().map(|d| format!("number {}: {}\n{}", d.number, d.what, d.text)).collect();
    assert!(all.is_empty(), "{}", all.join("\n"));
}

#[test]
fn programs_have_the_same_bits_on_both_engines_and_contain_everything() {
    let all = all_cases();
    let sum = fuzz::programs(20, 0..if all { 600 } else { 150 }, &mut |_| {});
    agree(&sum);
    assert!(sum.accepted * 100 > sum.tried * 95, "{}", sum.text("programs"));
    // Only faults that a program may have at run time: numbers that are not i32, divisions by zero.
    assert!(sum.faults.keys().all(|c| *c == "E363"), "{:?}", sum.faults);
    assert!(sum.runs == 2 * sum.accepted, "{}", sum.text("programs"));
    let c = &sum.coverage;
    let missing = RefCell::new(vec![]);
    let has = |group, name: &str| {
        if c.of(group, name) == 0 {
            missing.borrow_mut().push(format!("{group} {name}"));
        }
    };
    assert!(sum.elements > if all { 1_000_000 } else { 250_000 }, "{}", sum.text("programs"));
    ScalarUn::ALL.iter().for_each(|f| has("function", f.name()));
    ScalarBin::ALL.iter().for_each(|f| has("function", f.name()));
    has("function", "pow_int");
    for op in [CompareOp::Eq, CompareOp::Ne, CompareOp::Lt, CompareOp::Le, CompareOp::Gt, CompareOp::Ge] {
        has("comparison", op.symbol());
    }
    for d in COMPUTING {
        has("matmul", &format!("{d} to {d}"));
        has("matmul", &format!("grouped {d}"));
        has("tiles", d.name());
        has("local", &format!("map {d}"));
        has("local", &format!("reduce_dim {d}"));
        has("type", d.name());
        for op in [ReduceOp::Sum, ReduceOp::Prod, ReduceOp::Min, ReduceOp::Max] {
            has("reduction", &format!("{op} {d}"));
        }
    }
    for d in MOVING {
        has("type", d.name());
        has("local", &format!("cast {d}"));
    }
    for s in ["transpose", "reshape", "slice", "pad", "concat"] {
        COMPUTING.iter().for_each(|d| has("shape", &format!("{s} {d}")));
    }
    MOVING.iter().for_each(|d| has("local", &format!("copy {d}")));
    DType::ALL.iter().for_each(|d| has("fill", d.name()));
    for t in ["ring", "torus", "mesh", "full"] {
        has("topology", t);
    }
    for e in ["none", "one", "to 1024", "more"] {
        has("elements", e);
    }
    for p in ["partial", "only", "split 1", "split 1 (ceil)", "split 1 (lengths)", "split 2"] {
        has("placement", p);
    }
    for m in ["hbm", "sram", "tcm"] {
        has("memory", m);
        COMPUTING.iter().for_each(|d| has("queue", &format!("{m} {d}")));
    }
    for op in ["send", "recv"] {
        has("statement", op);
    }
    (1..=9).for_each(|p| has("ranks", &p.to_string()));
    // A sample may lack what few programs have.
    let missing = missing.into_inner();
    assert!(missing.len() <= if all { 0 } else { LACKING }, "{missing:?}\n{}", c.text());
    let text = c.text();
    let algorithms = text.lines().find(|l| l.starts_with("  algorithm: ")).expect("some");
    for kind in [
        CollKind::AllReduce,
        CollKind::ReduceScatter,
        CollKind::AllGather,
        CollKind::AllToAll,
        CollKind::Broadcast,
        CollKind::Scatter,
        CollKind::Reduce,
        CollKind::Gather,
    ] {
        assert!(algorithms.contains(&format!(" {} ", kind.name())), "no {}: {algorithms}", kind.name());
    }
}

fn good() -> Vec<Schedule> {
    let folder = |name: &str| root().join("crates/ir/tests/kir").join(name);
    let mut paths: Vec<_> = ["good", "queues"]
        .iter()
        .flat_map(|name| std::fs::read_dir(folder(name)).expect("a folder"))
        .map(|e| e.expect("an entry").path())
        .collect();
    paths.sort();
    let read = |p: &Path| {
        let text = std::fs::read_to_string(p).expect("a text");
        let module = kbc_ir::text::parse(kbc_diag::FileId(0), &text).expect("a good schedule");
        module.schedule().expect("a schedule").clone()
    };
    // Those with long vectors are for release builds.
    let short =
        |s: &Schedule| s.buffers.iter().all(|b| b.global.as_ref().is_none_or(|g| g.elements() < 3000));
    let all: Vec<Schedule> = paths.iter().map(|p| read(p)).filter(short).collect();
    assert!(all.len() > 3);
    all
}

#[test]
fn schedules_right_or_wrong_behave_alike_on_both_engines() {
    let sum = fuzz::schedules::schedules(&good(), 20, 0..60, &mut |_| {});
    agree(&sum);
    let faults: u64 = sum.faults.values().map(|f| f.0).sum();
    assert!(faults * 10 > sum.accepted && faults * 2 < sum.accepted, "{}", sum.text("schedules"));
    assert!(sum.faults.len() >= 3, "{:?}", sum.faults);
    assert!(sum.elements > 100_000, "{}", sum.text("schedules"));
}

#[test]
fn the_same_numbers_give_the_same_programs_and_inputs() {
    let (a, b) = (fuzz::library(), fuzz::library());
    let (a, b) = (Catalogue::new(&a), Catalogue::new(&b));
    let mut texts = std::collections::BTreeSet::new();
    for k in 0..200 {
        let text = generate::generate(&a, 3, k).text();
        assert_eq!(text, generate::generate(&b, 3, k).text());
        texts.insert(text);
    }
    assert!(texts.len() > 195, "{}", texts.len());
    assert_ne!(generate::generate(&a, 3, 0).text(), generate::generate(&a, 4, 0).text());
    let made = fuzz::make("program s(x: f16[40@tp], y: f16[40]) -> f16[40] { x + y }").expect("a program");
    let one = bits::inputs(&made.schedule, &[1, 2], 2);
    assert_eq!(one, bits::inputs(&made.schedule, &[1, 2], 2));
    assert_ne!(one[0], one[1]);
    assert_ne!(one, bits::inputs(&made.schedule, &[1, 3], 2));
}

fn first_local(list: &mut [SStmt], f: &mut dyn FnMut(&mut LocalOp) -> bool) -> bool {
    list.iter_mut().any(|s| match s {
        SStmt::For { body, .. } => first_local(body, f),
        SStmt::If { then, other, .. } => first_local(then, f) || first_local(other, f),
        SStmt::Op(SOp::Local(l), _) => f(l),
        SStmt::Op(..) => false,
    })
}

/// The comparison is not of a computation with itself: another function gives another result.
#[test]
fn a_comparison_can_fail() {
    use kbc_backend_sim::interp::{RunOptions, run};
    let made = fuzz::make("program s(x: f32[40@tp]) -> f32[40@tp] { exp(x) }").expect("a program");
    let mut other = made.schedule.clone();
    let mut change = |l: &mut LocalOp| match l {
        LocalOp::Compute { func, .. } => {
            func.body = kbc_ir::scalar::Scalar::Un(ScalarUn::Tanh, Box::new(kbc_ir::scalar::Scalar::Arg(0)));
            true
        }
        _ => false,
    };
    let streams = other.regions.iter_mut().flat_map(|r| &mut r.roles).flat_map(|r| &mut r.streams);
    assert!(streams.into_iter().any(|s| first_local(&mut s.body, &mut change)));
    let inputs = bits::inputs(&made.schedule, &[9], 1);
    let want = run(&made.schedule, &inputs, &RunOptions::default()).expect("it runs");
    let got = run(&other, &inputs, &RunOptions::default()).expect("it runs");
    assert!(fuzz::compare::same(&made.schedule, &want, &got).is_err());
    assert_eq!(fuzz::compare::same(&made.schedule, &want, &want), Ok(40));
}

#[test]
fn an_error_of_a_run_is_the_same_on_both_engines() {
    let made =
        fuzz::make("program s(x: i32[40], y: i32[40@tp]) -> i32[40@tp] { x / (y - y) }").expect("a program");
    let inputs = bits::inputs(&made.schedule, &[9], 1);
    let how = CompareOptions { calls: 1, seed: Some(3), max_bytes: 1 << 20 };
    let agreed = compare(&made.schedule, &inputs, how).expect("they agree");
    assert_eq!((agreed.fault, agreed.elements), (Some("E363"), 0));
    // Too little memory is a fault, too.
    let agreed =
        compare(&made.schedule, &inputs, CompareOptions { max_bytes: 16, ..how }).expect("they agree");
    assert_eq!(agreed.fault, Some("E368"));
}

#[test]
fn what_is_raised_to_the_power_of_zero_may_divide_by_zero() {
    let text = "program s(x: i32[40]) -> i32[40] { pow_int(x / (x - x), 0) }";
    let made = fuzz::make(text).expect("a program");
    let inputs = bits::inputs(&made.schedule, &[9], 1);
    let agreed =
        compare(&made.schedule, &inputs, CompareOptions { calls: 1, seed: None, max_bytes: 1 << 20 });
    assert_eq!(agreed.expect("they agree").fault, Some("E363"));
}

/// Regressions found by `kbc dev fuzz`: each file is a program that failed once.
#[test]
fn what_was_found_stays_right() {
    let mut paths: Vec<_> = std::fs::read_dir(root().join("crates/audit/tests/fuzz"))
        .expect("a folder")
        .map(|e| e.expect("an entry").path())
        .collect();
    paths.sort();
    assert!(!paths.is_empty());
    for path in paths {
        let text = std::fs::read_to_string(&path).expect("a text");
        for number in 0..5 {
            match fuzz::engines(&text, 1, number) {
                Trial::Agreed(_, a) => assert_eq!(a.fault, None, "{}", path.display()),
                Trial::Refused(d) => panic!("{}: {d:#?}", path.display()),
                Trial::Differs(what) => panic!("{}: {what}", path.display()),
            }
        }
        let mut workspace = Workspace::default();
        workspace.give("found.kb", &text);
        let right = |found: Outcome<bool>| match found {
            Ok(true) => {}
            Ok(false) => panic!("{}: it computes something else", path.display()),
            Err(failure) => panic!("{}: {:#?}", path.display(), failure.into_parts()),
        };
        let source = Source::of("found.kb");
        right(check::file(&mut workspace, &source).map(|report| report.ok));
        right(executed(&mut workspace, &source));
    }
}

/// Executes a program and compares, then in 20 random orders of four calls.
fn executed(workspace: &mut Workspace, source: &Source) -> Outcome<bool> {
    let built = compile(workspace, source, &Options::default())?;
    let schedule = built.schedule()?;
    let run =
        |calls| analyse::execute(workspace, &built, schedule, &Data::default(), calls, None, &mut Unwatched);
    let (once, done) = (run(1)?, run(4)?);
    let (_, failure) = analyse::adversary(workspace, schedule, &done.inputs, 0, 20, 4)?;
    Ok(analyse::passes(&once.compare) && analyse::passes(&done.compare) && failure.is_none())
}
