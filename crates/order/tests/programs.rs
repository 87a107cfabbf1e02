//! Whole programs: values between collectives, groups of ranks, pieces, hosts; and hand-written
//! schedules under other interleavings.

use crate::common;
use kbc_diag::FileId;
use kbc_ir::text;
use kbc_order::{
    AdditionOrders, LocatedNode, OrderAcrossSizes, OrderOptions, OrderReport, ValueUse, across_sizes,
    is_fixed,
};

/// Returns the hand-written schedules that are right, with their names.
pub fn hand_written() -> Vec<(String, String)> {
    let mut out = vec![];
    for folder in ["good", "queues", "forms"] {
        let path = common::workspace("crates/ir/tests/kir").join(folder);
        for entry in std::fs::read_dir(path).unwrap() {
            let path = entry.unwrap().path();
            let text = std::fs::read_to_string(&path).unwrap();
            let runs = text::parse(FileId(0), &text).is_ok_and(|m| {
                m.schedule().is_some_and(|s| AdditionOrders::of(s, &OrderOptions::default()).is_ok())
            });
            if runs {
                out.push((path.display().to_string(), text));
            }
        }
    }
    out.sort();
    assert!(out.len() > 15, "{}", out.len());
    out
}

/// Returns the report of a schedule in text.
#[track_caller]
pub fn report_of(kir: &str) -> OrderReport {
    let m = common::parse(kir);
    let orders = AdditionOrders::of(m.schedule().unwrap(), &OrderOptions::default());
    orders.unwrap_or_else(|d| panic!("{}", common::words(&d, kir))).report().unwrap()
}

/// Returns the report of a program in text.
#[track_caller]
fn compiled(kir: &str) -> OrderReport {
    let passes = "infer,place,select,overlap,expand,allocate,synchronize";
    let (m, _) = common::run(kir, passes).unwrap_or_else(|d| panic!("{}\n{kir}", common::words(&d, kir)));
    let orders = AdditionOrders::of(m.schedule().unwrap(), &OrderOptions::default());
    orders.unwrap_or_else(|d| panic!("{:?}", d.list)).report().unwrap()
}

/// Returns the trees of a value that are additions.
fn trees(r: &OrderReport, value: usize) -> Vec<String> {
    r.values[value].added(r).into_iter().map(|t| r.trees[t].to_string()).collect()
}

#[test]
fn no_interleaving_changes_a_report() {
    for (name, text) in hand_written() {
        let m = common::parse(&text);
        let of = |seed| AdditionOrders::of(m.schedule().unwrap(), &OrderOptions { seed }).unwrap().report();
        let first = of(None).unwrap();
        for seed in 0..5 {
            assert_eq!(of(Some(seed)).unwrap(), first, "{name} with seed {seed}");
        }
    }
}

/// Two streams that add into one buffer without any order: the checker rejects it, and the report
/// is that of one interleaving.
#[test]
fn a_race_has_no_order() {
    let racy = "kir 1
module @racy
mesh tp 1

schedule calls first
buffer %a : f32[4] hbm input 0 : f32[4]
buffer %b : f32[4] hbm input 1 : f32[4]
buffer %c : f32[4] hbm input 2 : f32[4]
buffer %y : f32[4] hbm output 0 : f32[4]

region @c local
  on a = %a line 4
  on b = %b line 4
  on c = %c line 4
  on y = %y line 4
  role all
    stream main
      copy y = a
      combine sum y, b
      await e
    stream other
      combine sum y, c
      record e
";
    let m = common::parse(racy);
    let s = m.schedule().unwrap();
    assert!(!kbc_checker::check(s, &kbc_checker::CheckOptions::default()).ok());
    let of = |seed| AdditionOrders::of(s, &OrderOptions { seed }).map(|o| o.report().unwrap());
    let all: Vec<_> = (0..20).map(|seed| of(Some(seed)).map_err(|d| d.list[0].code)).collect();
    assert!(all.iter().any(|r| *r != all[0]));
}

const FFN: &str = include_str!("../../ir/tests/kir/graph/ffn_selected.kir");

fn ffn(algorithm: &str, rows: u64) -> OrderReport {
    let kir = FFN.replace("ring(d: -1, a: pairwise)", algorithm).replace("25", &rows.to_string());
    compiled(&kir)
}

#[test]
fn a_feed_forward_layer() {
    let r = ffn("ring", 24);
    // The sum is read by the addition of the bias, whose elements are the result.
    let [sum, y] = &r.values[..] else { panic!("{:?}", r.values) };
    assert!(matches!(&sum.read_by, ValueUse::Operand { .. }) && sum.name == "sum_v", "{sum:?}");
    assert_eq!(y.read_by, ValueUse::Result(0));
    assert_eq!(trees(&r, 0)[0], "r1 + r2 + r3 + r0");
    assert_eq!((trees(&r, 0).len(), trees(&r, 1).len()), (4, 0));
    assert!(r.is_equal_on_ranks() && !is_fixed(&[&r]));
    // Ranks that add in different orders differ from there on.
    let r = ffn("one_phase", 24);
    assert_eq!(r.values[0].unequal.as_ref().unwrap().elements, 24 * 384);
    assert!(!r.is_equal_on_ranks());
}

#[test]
fn a_layer_whose_batch_does_not_matter() {
    let all: Vec<OrderReport> = [1, 2, 24, 25, 96].map(|n| ffn("recursive_doubling", n)).into();
    let all: Vec<&OrderReport> = all.iter().collect();
    assert_eq!(across_sizes(&all), OrderAcrossSizes::Fixed);
    let ring: Vec<OrderReport> = [24, 25].map(|n| ffn("ring", n)).into();
    assert!(matches!(across_sizes(&[&ring[0], &ring[1]]), OrderAcrossSizes::SameSequence(_)));
}

#[test]
fn pieces_of_a_matmul_have_the_order_of_the_whole() {
    let made = |rows: u64, using: &str| {
        compiled(&format!(
            "kir 1\nmodule @t\nmachine \"ring(4) {{ link: 50 GB/s, 500 ns; device: 1 TFLOP/s, 1 TB/s }}\"\n\
             mesh tp 4\n\ngraph @t\ninput @x : f32[{rows}, 8@tp]\ninput @w : f32[8@tp, 6]\n\
             result : f32[{rows}, 6]\n\n%x = input @x\n%w = input @w\n%m = matmul %x, %w\n\
             %y = all_reduce sum %m over tp using {using}\n%d = demand %y want f32[{rows}, 6]\n\
             %out = output 0 %d\n"
        ))
    };
    let doubling = "recursive_doubling";
    let (whole, cut) = (made(16, doubling), made(16, &format!("{doubling} with (overlap: 4)")));
    assert_eq!(whole.trees.last().unwrap().to_string(), "(r0 + r1) + (r2 + r3)");
    assert!(is_fixed(&[&whole, &cut, &made(9, &format!("{doubling} with (overlap: 3)"))]));
    assert!(!is_fixed(&[&whole, &made(16, "ring with (overlap: 4)")]));
    // Rings over the whole and over pieces have the same orders, but not along the same values.
    let rings = [made(16, "ring"), made(16, "ring with (overlap: 4)")];
    assert!(matches!(across_sizes(&[&rings[0], &rings[1]]), OrderAcrossSizes::Varies(_)));
    // Another tree in the pieces, whose values have other names.
    let chain = made(16, "up_down(tree: chain) with (overlap: 4)");
    assert!(is_fixed(&[&chain]) && !is_fixed(&[&whole, &chain]));
}

/// A reduce-scatter, a step on the own rows, and an all-gather.
#[test]
fn rows_on_their_own_ranks() {
    let text = include_str!("../../ir/tests/kir/good/shared_window.kir");
    let r = report_of(text);
    let [part, y] = &r.values[..] else { panic!("{:?}", r.values) };
    assert_eq!(part.name, "part");
    // Block b, on rank b, is a chain from rank b + 1 on.
    assert_eq!(
        trees(&r, 0),
        ["r1 + r2 + r3 + r0", "r2 + r3 + r0 + r1", "r3 + r0 + r1 + r2", "r0 + r1 + r2 + r3"]
    );
    assert_eq!((y.name.as_str(), trees(&r, 1).len()), ("y", 0));
    assert!(r.is_equal_on_ranks());
    // Row 4 of the result is row 1 of the part that rank 1 computed.
    let m = common::parse(text);
    let orders = AdditionOrders::of(m.schedule().unwrap(), &OrderOptions::default()).unwrap();
    for rank in 0..4 {
        let runs = orders.located(1, rank);
        let run = runs.iter().find(|run| (run.start..run.start + run.len).contains(&28)).unwrap();
        let [LocatedNode::Computed { name, rank: 1, element }] = &run.nodes[..] else { panic!("{run:?}") };
        assert_eq!((name.as_str(), element + 28 - run.start as i64), ("map %act", 7));
    }
}

/// Two groups of three ranks each add in the same way, so their trees are one.
#[test]
fn groups_of_ranks_are_alike() {
    let r = compiled(
        "kir 1\nmodule @t\nmachine \"torus(2, 3) { link: 50 GB/s, 500 ns }\"\nmesh dp 2, tp 3\n\ngraph @t\n\
         input @x : f32[8@dp, 5] partial(sum@tp)\nresult : f32[8@dp, 5]\n\n%x = input @x\n\
         %y = all_reduce sum %x over tp using up_down\n%d = demand %y want f32[8@dp, 5]\n%out = output 0 %d\n",
    );
    assert_eq!(r.distinct_trees(), 1);
    let tree = r.trees.iter().find(|t| !t.is_plain()).unwrap();
    assert_eq!(
        (tree.to_string().as_str(), &tree.axes[..], tree.ranks),
        ("r0 + r1 + r2", &["tp".to_owned()][..], 3)
    );
    assert!(r.is_equal_on_ranks() && is_fixed(&[&r]));
}

#[test]
fn what_a_host_reads_is_a_value() {
    let r = report_of(include_str!("../../ir/tests/kir/good/host_program.kir"));
    let read: Vec<(&str, &ValueUse)> = r.values.iter().map(|v| (v.name.as_str(), &v.read_by)).collect();
    assert_eq!(
        read,
        [
            ("y", &ValueUse::HostRead),
            ("sum", &ValueUse::HostRead),
            ("twice", &ValueUse::HostRead),
            ("y", &ValueUse::Result(0)),
            ("sum", &ValueUse::Result(1)),
        ]
    );
    // `twice` is x + x, and `sum` begins with a zero.
    let text = |i: usize| r.trees[r.values[i].classes[0].tree].to_string();
    assert_eq!([text(0), text(1), text(2)], ["r0 + r1", "r0 + r1 + 0", "r0 + r0"]);
}

#[test]
fn schedules_that_do_not_run_are_errors() {
    let text = include_str!("../../ir/tests/kir/good/ring_all_reduce.kir");
    for (from, to, code) in [
        ("notify ((r + 1) % 4) : @arrived[0]", "fence.release", "E361"),
        (
            "combine sum v[(r - s - 1) % 4 of 4], @w[s - 1]",
            "combine sum v[(r - s - 1) % 4 of 4], @w[6 - s]",
            "E362",
        ),
        ("copy %y = %x", "fence.acquire", "E362"),
    ] {
        assert!(text.contains(from));
        let m = common::parse(&text.replace(from, to));
        let found = AdditionOrders::of(m.schedule().unwrap(), &OrderOptions::default()).err().unwrap();
        assert!(found.list.iter().all(|d| d.code == code), "{:?}", found.list);
    }
}
