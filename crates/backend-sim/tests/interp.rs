//! Tests of the interpreter on the hand-written schedules and on schedules that fail.

use crate::common;

use common::*;
use kbc_backend_sim::interp::{RunOptions, run};
use kbc_diag::Diagnostics;
use kbc_ir::schedule::Schedule;

fn options(calls: u32, seed: Option<u64>) -> RunOptions {
    RunOptions { calls, seed, ..RunOptions::default() }
}

#[test]
fn good_schedules_give_the_right_numbers_in_every_interleaving() {
    for name in &names() {
        let s = load(name);
        let feeds = inputs(&s, 3);
        let base = run(&s, &feeds, &options(4, None)).unwrap_or_else(|d| panic!("{name}: {d:#?}"));
        assert_eq!(base.outputs.len(), 4);
        assert_right(name, &s, &feeds, &base);
        for seed in 0..20 {
            let other =
                run(&s, &feeds, &options(4, Some(seed))).unwrap_or_else(|d| panic!("{name} {seed}: {d:#?}"));
            assert_eq!(base, other, "{name}, seed {seed}");
        }
    }
}

/// Returns the schedule of a source with one line replaced, or removed if the replacement is empty.
fn changed(name: &str, line: &str, by: &str) -> Schedule {
    let text = source(name);
    assert!(text.contains(line), "{line}");
    parse(&text.replacen(line, by, 1))
}

fn fails(s: &Schedule, seed: Option<u64>) -> Diagnostics {
    match run(s, &inputs(s, 2), &options(2, seed)) {
        Ok(_) => panic!("must fail"),
        Err(d) => d,
    }
}

#[test]
fn a_missing_notify_is_a_deadlock_with_its_cause() {
    let s = changed("tree_all_reduce", "      notify ((r - 1) / 2) : @up_arrived[(r - 1) % 2]\n", "");
    for seed in [None, Some(3), Some(4)] {
        let d = fails(&s, seed);
        assert_eq!(d.list.len(), 1, "{d:#?}");
        let d = &d.list[0];
        assert_eq!(d.code, "E361");
        assert!(d.title.contains("7 of 7 ranks wait"), "{}", d.title);
        // Rank 0 waits for its inner children, whose notify is missing: this is the cause. The
        // others wait for its result.
        assert!(
            d.notes[0].contains(
                "dp=0, call 0, region t, stream main: waits for @up_arrived[0] >= 1, and its value is 0"
            ),
            "{d:#?}"
        );
        assert!(d.notes[0].contains("no operation ever sends it"), "{d:#?}");
        assert_eq!(
            d.notes.last().unwrap(),
            "stopped only because of these: dp=1, dp=2, dp=3, dp=4, dp=5, dp=6"
        );
    }
}

#[test]
fn a_circle_of_waits_is_shown_as_such() {
    // Every rank waits before sending.
    let text = source("ring_all_reduce").replacen(
        "        put v[(r - s) % 4 of 4]",
        "        wait @arrived[0] >= call * 6 + s\n        put v[(r - s) % 4 of 4]",
        1,
    );
    let d = fails(&parse(&text), None);
    assert_eq!(d.list.len(), 1);
    assert_eq!(d.list[0].code, "E361");
    assert_eq!(d.list[0].notes.len(), 5, "{d:#?}");
    for (note, r) in d.list[0].notes.iter().zip([0, 3, 2, 1]) {
        assert!(note.starts_with(&format!(
            "tp={r}, call 0, region r1, stream main: waits for @arrived[0] >= 1, and its value is 0"
        )));
        assert!(note.contains(&format!("from tp={}, call 0", (r + 3) % 4)), "{note}");
        assert!(note.ends_with("which is waiting itself"));
    }
    let circle = "cycle of waits: tp=0 -> tp=3 -> tp=2 -> tp=1";
    assert_eq!(d.list[0].notes[4], circle);
}

#[test]
fn reading_nothing_names_place_rank_and_operation() {
    // The leaf never copies its input.
    let s = changed(
        "tree_all_reduce",
        "role all\n    stream main\n      copy %y = %x",
        "role all where dp != 5\n    stream main\n      copy %y = %x",
    );
    let d = fails(&s, None);
    assert_eq!(d.list[0].code, "E362", "{d:#?}");
    assert_eq!(d.list[0].title, "element 0 of %y on dp=5 is empty");
    assert!(d.list[0].labels[0].text.contains("read by dp=5, call 0, region t, stream main"));
    assert!(!d.list[0].span().is_none());
    assert_eq!(
        d.list[0].notes.last().unwrap(),
        "stopped only because of these: dp=0, dp=1, dp=2, dp=3, dp=4, dp=6"
    );
}

#[test]
fn temporaries_and_results_are_forgotten_between_calls() {
    // Only the first call writes the temporary, then the result.
    let text = "kir 1\nmodule @once\nmesh tp 2\nprops expanded allocated synchronized\n\nschedule calls any\n\
        buffer %x : f32[4] hbm input 0 : f32[4]\nbuffer %t : f32[4] hbm temp\nbuffer %y : f32[4] hbm output 0 : f32[4]\n\n\
        region @a local\n  role all\n    stream main\n      if call == 0\n        copy %t = %x\n      copy %y = %t\n";
    let d = fails(&parse(text), None);
    assert_eq!(d.list[0].code, "E362");
    assert_eq!(d.list[0].title, "element 0 of %t on tp=0 is empty");
    assert!(d.list[0].labels[0].text.contains("call 1"));
    assert_eq!((d.list.len(), d.list[0].notes.last().unwrap().as_str()), (1, "the same error on tp=1"));
    let d = fails(&parse(&text.replace("copy %t = %x\n      copy %y = %t", "copy %y = %x")), None);
    assert_eq!(d.list[0].code, "E365", "{d:#?}");
    assert_eq!(d.list[0].title, "y was never written at [0] on tp=0 in call 1");
}

#[test]
fn inputs_that_do_not_fit_are_refused() {
    let s = load("ring_all_reduce");
    let mut feeds = inputs(&s, 1);
    let d = run(&s, &[], &options(1, None)).unwrap_err();
    assert_eq!(d.list[0].code, "E360");
    let wrong = feeds[0][0].clone().reshaped([25, 4, 8]).unwrap();
    feeds[0][0] = wrong;
    let d = run(&s, &feeds, &options(1, None)).unwrap_err();
    assert_eq!(d.list[0].code, "E360");
    assert!(
        d.list[0].title.contains("is f32[25, 4, 8], and the program expects f32[4, 25, 8]"),
        "{}",
        d.list[0].title
    );
    assert!(run(&s, &[vec![]], &options(1, None)).is_err());
}

#[test]
fn a_run_has_a_limit_of_memory() {
    let s = load("ring_all_reduce");
    let small = RunOptions { max_bytes: 1000, ..options(1, None) };
    assert_eq!(run(&s, &inputs(&s, 1), &small).unwrap_err().list[0].code, "E368");
    // The limit also applies if only the result is large, before it is made.
    let text = "kir 1\nmodule @huge\nmesh tp 1\nprops expanded allocated synchronized\nkernel @half(x) = (x * 0.5)\n\n\
        schedule calls any\nbuffer %x : f32[1] hbm input 0 : f32[1]\nbuffer %t : f32[1099511627776] hbm temp\n\
        buffer %y : f32[1] hbm output 0 : f32[1]\n\nregion @a local\n  role all\n    stream main\n      \
        map %t = half(%x)\n      copy %y = %x\n";
    let s = parse(text);
    assert_eq!(fails(&s, None).list[0].code, "E368");
}

/// A buffer counts only until the last region that uses it is over, in every call.
#[test]
fn memory_ends_with_the_last_use() {
    let region = |name: &str, dst: &str, src: &str| {
        format!("\nregion @{name} local\n  role all\n    stream main\n      map %{dst} = half(%{src})\n")
    };
    let text = "kir 1\nmodule @steps\nmesh tp 2\nprops expanded allocated synchronized\nkernel @half(x) = (x * 0.5)\n\n\
        schedule calls any\nbuffer %x : f32[100] hbm input 0 : f32[100]\nbuffer %a : f32[100] hbm temp\n\
        buffer %b : f32[100] hbm temp\nbuffer %c : f32[100] hbm temp\nbuffer %d : f32[100] hbm temp\n\
        buffer %y : f32[100] hbm output 0 : f32[100]\n";
    let steps = [("r1", "a", "x"), ("r2", "b", "a"), ("r3", "c", "b"), ("r4", "d", "c"), ("r5", "y", "d")];
    let s = parse(&steps.iter().fold(text.to_owned(), |all, (n, d, s)| all + &region(n, d, s)));
    let feeds = inputs(&s, 1);
    let whole = run(&s, &feeds, &options(3, None)).unwrap();
    // Input and result of each rank, and two intermediate values of the rank that runs.
    let most = |buffers: u64| RunOptions { max_bytes: buffers * 400, ..options(3, None) };
    assert_eq!(run(&s, &feeds, &most(6)).unwrap(), whole);
    assert_eq!(run(&s, &feeds, &most(4)).unwrap_err().list[0].code, "E368");
}

#[test]
fn no_calls_and_no_regions_are_fine() {
    let s = load("ring_all_reduce");
    assert!(run(&s, &inputs(&s, 1), &options(0, None)).unwrap().outputs.is_empty());
    let mut empty = s.clone();
    empty.regions.clear();
    assert_eq!(run(&empty, &inputs(&s, 1), &options(1, None)).unwrap_err().list[0].code, "E365");
}
