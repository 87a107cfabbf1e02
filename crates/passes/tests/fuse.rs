//! Tests of `fuse`: which collectives become one, that the result has the values of each, and that
//! it is proven.
#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use crate::common;

use kbc_checker::{CheckOptions, check};
use kbc_ir::Module;
use kbc_ir::graph::OpKind;
use std::fmt::Write;

const GRAPH: &str = "infer,place,fuse{bytes=$}";
const PASSES: &str = "infer,place,fuse{bytes=$},select,overlap,expand,allocate,synchronize";

fn run(kir: &str, passes: &str, bytes: u64) -> Module {
    let passes = passes.replace('$', &bytes.to_string());
    common::run(kir, &passes).unwrap_or_else(|d| panic!("{}\n{kir}", common::words(&d, kir))).0
}

/// Returns a program in which each operand goes through its collective. `$` in a collective stands
/// for the operand.
fn program(mesh: &str, machine: &str, list: &[(&str, &str, &str)]) -> String {
    let mut kir = format!("kir 1\nmodule @t\nmachine {machine}\nmesh {mesh}\n\ngraph @t\n");
    list.iter().enumerate().for_each(|(i, (from, ..))| writeln!(kir, "input @x{i} : {from}").unwrap());
    list.iter().for_each(|(_, to, _)| writeln!(kir, "result : {to}").unwrap());
    kir.push('\n');
    for (i, (_, _, collective)) in list.iter().enumerate() {
        writeln!(kir, "%x{i} = input @x{i}\n%y{i} = {}", collective.replace('$', &format!("%x{i}"))).unwrap();
    }
    (0..list.len()).for_each(|i| writeln!(kir, "%out{i} = output {i} %y{i}").unwrap());
    kir
}

fn line(list: &[(&str, &str, &str)]) -> String {
    program("tp 4", "ring(4)", list)
}

/// Returns the number of collectives after `fuse`.
fn collectives(kir: &str, bytes: u64) -> usize {
    let m = run(kir, GRAPH, bytes);
    let graph = m.graph().unwrap();
    assert!(graph.order_is_topological());
    graph.order().iter().filter(|id| matches!(graph.op(**id).kind, OpKind::Collective(_))).count()
}

const SUM: (&str, &str, &str) =
    ("f32[6, 4] partial(sum@tp)", "f32[6, 4]", "all_reduce sum $ over tp using ring");
const BIAS: (&str, &str, &str) = ("f32[4] partial(sum@tp)", "f32[4]", "all_reduce sum $ over tp using ring");
const SCALAR: (&str, &str, &str) = ("f32 partial(sum@tp)", "f32", "all_reduce sum $ over tp using ring");

#[test]
fn the_sum_of_bytes_is_limited() {
    let kir = line(&[SUM, BIAS, BIAS, SUM]);
    // 96, 16, 16 and 96 bytes.
    let counts: Vec<usize> = [0, 1, 95, 111, 112, 128, 223, 224].map(|bytes| collectives(&kir, bytes)).into();
    assert_eq!(counts, [4, 4, 3, 3, 2, 2, 2, 1]);
    // A use has the last word.
    let stated =
        |k: u64| line(&[SUM, BIAS, BIAS, SUM]).replace("using ring", &format!("using ring with (fuse: {k})"));
    assert_eq!([collectives(&stated(1), 1 << 20), collectives(&stated(224), 0)], [4, 1]);
    // The largest number of operands of a concatenation.
    let many = line(&[BIAS; 300]);
    assert_eq!(collectives(&many, 1 << 20), 2);
}

#[test]
fn only_what_does_the_same_becomes_one() {
    let differ = [
        BIAS,
        ("f32[4] partial(max@tp)", "f32[4]", "all_reduce max $ over tp using ring"),
        ("f16[4] partial(sum@tp)", "f16[4]", "all_reduce sum $ over tp using ring"),
        ("f32[4] partial(sum@tp)", "f32[4]", "all_reduce sum $ over tp using one_phase"),
        ("f32[4] partial(sum@tp)", "f32[4]", "all_reduce sum $ over tp using ring with (pipeline: 2)"),
        ("f32[4] partial(sum@tp)", "f32[4]", "all_reduce sum $ over tp order fixed using ring"),
        ("f32[4] partial(sum@tp)", "f32[4] only(1@tp)", "reduce sum $ over tp root 1 using binomial"),
        ("f32[4] partial(sum@tp)", "f32[4] only(2@tp)", "reduce sum $ over tp root 2 using binomial"),
        ("f32[8@tp]", "f32[8]", "all_gather $ over tp dim 0 using ring"),
        // Rows that are not the parts of ranks.
        ("f32[9@tp]", "f32[9]", "all_gather $ over tp dim 0 using ring"),
        ("f32[2, 8@tp]", "f32[2, 8]", "all_gather $ over tp dim 1 using ring"),
    ];
    assert_eq!(collectives(&line(&differ), 1 << 20), differ.len());
    // Collectives of one kind twice each: half of those that can be joined remain.
    let twice: Vec<_> = differ.iter().flat_map(|one| [*one, *one]).collect();
    assert_eq!(collectives(&line(&twice), 1 << 20), differ.len() + 2);
}

/// A collective that needs the value of another one is not joined with it, and what it needs comes
/// before it.
#[test]
fn dependences_stay() {
    let kir = "kir 1\nmodule @t\nmachine ring(4)\nmesh tp 4\n\ngraph @t\ninput @x : f32[8, 8] partial(sum@tp)\n\
         input @z : f32[8, 8] partial(sum@tp)\ninput @w : f32[8, 8@tp]\ninput @v : f32[8@tp, 8]\n\
         result : f32[8, 8]\nresult : f32[8, 8]\n\n%x = input @x\n%w = input @w\n%v = input @v\n\
         %a = all_reduce sum %x over tp using ring\n%m = matmul %a, %w\n%z = input @z\nJOINED\n\
         %n = matmul %m, %v\n%b = all_reduce sum %n over tp using ring\n%p = output 0 %b\n%q = output 1 %c\n";
    let sum = "%c = all_reduce sum %z over tp using ring";
    let early = kir.replace("JOINED", sum);
    assert_eq!(collectives(&early, 1 << 20), 2);
    sound(&run(&early, PASSES, 1 << 20), &early);
    // The first one is followed by one that depends on it: its group ends there.
    let late = kir.replace("JOINED\n", "").replace("%p =", &format!("{sum}\n%p ="));
    assert_eq!(collectives(&late, 1 << 20), 2);
    sound(&run(&late, PASSES, 1 << 20), &late);
}

fn sound(m: &Module, what: &str) {
    let report = check(m.schedule().unwrap(), &CheckOptions::default());
    assert!(report.ok(), "{what}: {:?}", report.errors);
}

/// Every form that is joined is proven, and takes one region.
#[test]
fn every_form_is_proven() {
    let forms: [&[(&str, &str, &str)]; 6] = [
        &[SUM, BIAS, SCALAR],
        &[
            (
                "f32[6, 4] partial(sum@tp)",
                "f32[6, 4] only(1@tp)",
                "reduce sum $ over tp root 1 using binomial",
            ),
            ("f32[5] partial(sum@tp)", "f32[5] only(1@tp)", "reduce sum $ over tp root 1 using binomial"),
        ],
        &[
            ("f32[6, 4] only(1@tp)", "f32[6, 4]", "broadcast $ over tp root 1 using binomial"),
            ("f32[5] only(1@tp)", "f32[5]", "broadcast $ over tp root 1 using binomial"),
        ],
        &[
            ("f32[8@tp, 3]", "f32[8, 3]", "all_gather $ over tp dim 0 using ring"),
            ("f32[4@tp]", "f32[4]", "all_gather $ over tp dim 0 using ring"),
        ],
        &[
            ("f32[8, 3] partial(sum@tp)", "f32[8@tp, 3]", "reduce_scatter sum $ over tp dim 0 using ring"),
            ("f32[4] partial(sum@tp)", "f32[4@tp]", "reduce_scatter sum $ over tp dim 0 using ring"),
        ],
        &[SUM, ("f32[7] partial(sum@tp)", "f32[7]", "all_reduce sum $ over tp using ring")],
    ];
    for list in forms {
        let kir = line(list);
        let m = run(&kir, PASSES, 1 << 20);
        let regions = m.schedule().unwrap().regions.iter().filter(|r| !r.over.is_empty()).count();
        assert_eq!(regions, 1, "{kir}");
        sound(&m, &kir);
    }
    // The operands are split over another axis.
    let grid = program(
        "dp 2, tp 2",
        "torus(2, 2)",
        &[
            ("f32[6@dp, 4] partial(sum@tp)", "f32[6@dp, 4]", "all_reduce sum $ over tp using ring"),
            ("f32[4@dp] partial(sum@tp)", "f32[4@dp]", "all_reduce sum $ over tp using ring"),
            ("f32[4] partial(sum@tp)", "f32[4]", "all_reduce sum $ over tp using ring"),
            ("f32[3@dp] partial(sum@tp)", "f32[3@dp]", "all_reduce sum $ over tp using ring"),
        ],
    );
    let m = run(&grid, PASSES, 1 << 20);
    assert_eq!(m.schedule().unwrap().regions.iter().filter(|r| !r.over.is_empty()).count(), 3, "{grid}");
    sound(&m, &grid);
}
