//! Tests that the checker accepts correct schedules in every mode that applies, and reports how it
//! proved them.

use crate::common;

use common::{codes, files, schedule};
use kbc_checker::{CheckOptions, Method, Strategy, check};
use kbc_ir::schedule::Calls;

#[test]
fn good_schedules_are_accepted() {
    for (name, text) in files("good") {
        let s = schedule(&name, &text);
        for calls in [Calls::First, Calls::Any] {
            for strategy in [Strategy::Auto, Strategy::Fingerprints] {
                let v = check(&s, &CheckOptions { calls: Some(calls), strategy, ..Default::default() });
                assert!(v.ok(), "{name}, {calls:?}, {strategy:?}: {:#?}\n{}", v.errors.list, v.text);
                let method = if strategy == Strategy::Auto { Method::Exact } else { Method::Fingerprints };
                assert_eq!(v.meaning, method, "{name}");
                assert_eq!(codes(&v), [""; 0]);
            }
        }
    }
}

#[test]
fn every_way_accepts_what_is_right() {
    let list = [
        ("ring 5", common::ring(5), true),
        ("ring 8", common::ring(8), true),
        ("doubling 8", common::doubling(3), true),
        ("halving 8", common::halving(3), true),
        ("torus 2x3", common::torus(2, 3), true),
        ("torus 4x4", common::torus(4, 4), true),
        ("all_to_all 6", common::all_to_all(6), true),
        ("pull 5", common::pull(5), true),
    ];
    for (name, text, symmetric) in list {
        let s = schedule(name, &text);
        for calls in [Calls::First, Calls::Any] {
            for strategy in [Strategy::Expanded, Strategy::Fingerprints, Strategy::Symmetric] {
                if strategy == Strategy::Symmetric && !symmetric {
                    continue;
                }
                let v = check(&s, &CheckOptions { calls: Some(calls), strategy, ..Default::default() });
                assert!(v.ok(), "{name}, {calls:?}, {strategy:?}: {:#?}\n{}", v.errors.list, v.text);
            }
        }
    }
}

fn good(name: &str) -> String {
    files("good").into_iter().find(|f| f.0 == name).expect("one of the good files").1
}

/// Returns a tree of any size. It has three roles by predicates, so every rank must be walked.
fn tree(p: u64) -> String {
    let good = good("tree_all_reduce.kir");
    good.replace("dp 7", &format!("dp {p}"))
        .replace("of 7)", &format!("of {p})"))
        .replace("+ 1 < 7", &format!("+ 1 < {p}"))
        .replace("+ 1 >= 7", &format!("+ 1 >= {p}"))
}

#[test]
fn large_schedules_are_symmetric_summed_or_refused() {
    let v = check(&schedule("ring", &common::ring(200)), &CheckOptions::default());
    assert!(v.ok(), "{:#?}", v.errors.list);
    assert_eq!((v.meaning.clone(), v.ranks_walked), (Method::Symmetric { orbits: 1 }, 1));

    let s = schedule("tree", &tree(127));
    let v = check(&s, &CheckOptions::default());
    assert!(v.ok(), "{:#?}", v.errors.list);
    assert_eq!((v.meaning.clone(), v.ranks_walked), (Method::Fingerprints, 127));
    assert!(v.asymmetric.as_ref().is_some_and(|a| a.contains("r == 0")), "{:?}", v.asymmetric);

    let v = check(&s, &CheckOptions { most_acts: 1000, ..Default::default() });
    assert_eq!(codes(&v), ["E354"]);
    assert!(v.errors.list[0].notes.iter().any(|n| n.contains("r == 0")), "{:?}", v.errors.list);
}

#[test]
fn chunks_of_different_lengths_must_fit_on_every_rank() {
    let (p, right) = (5, common::ring(5).replace("f32[40]", "f32[41]").replace("line 40", "line 41"));
    // Chunk 0 has 9 elements. Rank 0 never sends it at `s` 4, but another rank does.
    let wide = right.replace("x 8] hbm", "x 9] hbm");
    for strategy in [Strategy::Expanded, Strategy::Symmetric] {
        let v = check(&schedule("wide", &wide), &CheckOptions { strategy, ..Default::default() });
        assert!(v.ok(), "{p}: {:#?}", v.errors.list);
    }
    let v = check(
        &schedule("narrow", &right),
        &CheckOptions { strategy: Strategy::Expanded, ..Default::default() },
    );
    assert_eq!(codes(&v), ["E304"]);
    let v = check(
        &schedule("narrow", &right),
        &CheckOptions { strategy: Strategy::Symmetric, ..Default::default() },
    );
    assert!(!v.ok() && v.asymmetric.is_some_and(|a| a.contains("differ in length")));
}

/// Returns an exchange between two ranks, twice, on two windows at these byte offsets.
fn two_windows(a: u64, b: u64) -> String {
    format!(
        "kir 1\nmodule @m\nmesh tp 2\n\nschedule calls first\n\
         buffer %x : f32[4] hbm input 0 : f32[4] partial(sum@tp)\n\
         buffer %y : f32[4] hbm output 0 : f32[4]\n\
         window @a : f32[1 x 4] hbm at {a}\nwindow @b : f32[1 x 4] hbm at {b}\nsignal @in[2] arrival\n\n\
         region @c0 local\n  role all\n    stream main\n      copy %y = %x\n\n\
         region @r over tp as (r of 2)\n  on v = %y line 4\n  promise all_reduce sum\n  role all
    stream main
      put v[0 of 2] -> (1 - r) : @a[0]
      put v[1 of 2] -> (1 - r) : @b[0]
      fence.release
      notify (1 - r) : @in[0]
      wait @in[0] >= call + 1
      fence.acquire
      combine sum v[0 of 2], @a[0]
      combine sum v[1 of 2], @b[0]
"
    )
}

#[test]
fn windows_that_overlap_are_the_same_memory() {
    let codes_at = |a, b| codes(&check(&schedule("two", &two_windows(a, b)), &CheckOptions::default()));
    assert_eq!(codes_at(0, 16), [""; 0]);
    assert_eq!(codes_at(16, 0), [""; 0]);
    assert_eq!(codes_at(0, 8), ["E348"]);
    assert_eq!(codes_at(0, 0), ["E348"]);
}

#[test]
fn third_parties_order_rewrites_but_not_reads() {
    // Rank 0 writes to rank 2 and notifies rank 1, which notifies rank 2.
    let text = |read: &str| {
        format!(
            "kir 1\nmodule @m\nmesh tp 3\n\nschedule calls first\n\
             buffer %x : f32[4] hbm input 0 : f32[4]\nbuffer %y : f32[4] hbm temp\n\
             window @w : f32[1 x 4] hbm\nsignal @in[1] arrival\n\n\
             region @r over tp as (r of 3)\n  on v = %x line 4\n  on u = %y line 4\n
  role zero where r == 0
    stream main
      put v -> (2) : @w[0]
      fence.release
      notify (1) : @in[0]
  role one where r == 1
    stream main
      wait @in[0] >= 1
      notify (2) : @in[0]
  role two where r == 2
    stream main
      wait @in[0] >= 1
      fence.acquire
      {read}
"
        )
    };
    let verdict = |read| check(&schedule("three", &text(read)), &CheckOptions::default());
    assert!(verdict("copy @w[0] = v").ok());
    let v = verdict("copy u = @w[0]");
    assert_eq!(codes(&v), ["E347"]);
    assert!(
        v.errors.list[0].title.contains("which has not waited for the writer itself"),
        "{:?}",
        v.errors.list
    );
}

#[test]
fn verdicts_say_what_was_shown() {
    let text = good("shared_window.kir");
    let v = check(&schedule("shared", &text), &CheckOptions::default());
    let lines: Vec<&str> = v.text.lines().collect();
    assert_eq!(
        lines,
        [
            "no errors",
            "meaning: exact multisets on all 4 ranks",
            "order and progress: 4 calls at any skew, which stand for all calls (the schedule repeats after 2)",
            "counters: in signed 32 bits for 357913941 calls",
            "checked: 656 operations",
        ]
    );
    let without: String = text.lines().filter(|l| !l.contains("promise")).map(|l| format!("{l}\n")).collect();
    let v = check(&schedule("shared", &without), &CheckOptions::default());
    assert!(
        v.ok() && v.text.contains("meaning not checked, because there is no contract: rs, ag"),
        "{}",
        v.text
    );
    let v =
        check(&schedule("shared", &text), &CheckOptions { calls: Some(Calls::None), ..Default::default() });
    assert_eq!((v.ok(), v.meaning), (true, Method::NotChecked));
}

/// Returns a dissemination barrier of p ranks, three times per call, with these counters and waits
/// in place of `AT` and `WAIT`.
fn dissemination(p: u64, signal: &str, at: &str, wait: &str) -> String {
    let rounds = p.ilog2();
    format!(
        "kir 1\nmodule @m\nmesh tp {p}\n\nschedule calls any\nbuffer %x : f32[4] hbm input 0 : f32[4]\n\
         signal @d[{}] barrier {signal}\n\nregion @r over tp as (r of {p})\n  role all\n    stream main\n      \
         for b in 0..3\n        for j in 0..{rounds}\n          \
         notify ((r + (1 << j)) % {p}) : @d[{at}]\n          wait @d[{at}] {wait}\n",
        2 * rounds
    )
}

/// The rule for counters other than epochs is the same if one rank stands for all (SYNC-2).
#[test]
fn forms_are_decided_in_every_way() {
    // Two alternating sets of counters, each of which changes its sense every other time, are
    // correct; one set is one too few.
    let turn = "(call * 3 + b) % 2 * 6 + j";
    let sense = "& 1 == 1 - (call * 3 + b) % 4 / 2";
    let right = |p: u64, form: &str| match form {
        "epoch" => dissemination(p, "", "j", ">= call * 3 + b + 1"),
        "sense" => dissemination(p, "sense fresh", &turn.replace('6', &p.ilog2().to_string()), sense),
        _ => dissemination(p, "clearing fresh", "j", "-= 1"),
    };
    let wrong = |p: u64| dissemination(p, "sense fresh", "j", "& 1 == (call * 3 + b + 1) % 2");
    for (form, p) in ["epoch", "sense", "clearing"].into_iter().flat_map(|f| [(f, 4), (f, 8), (f, 16)]) {
        for strategy in [Strategy::Expanded, Strategy::Symmetric, Strategy::Fingerprints] {
            let options = CheckOptions { strategy, ..Default::default() };
            let v = check(&schedule(form, &right(p, form)), &options);
            assert!(v.ok(), "{form} {p} {strategy:?}: {:#?}", v.errors.list);
            assert_eq!(codes(&check(&schedule(form, &wrong(p)), &options)), ["E358"], "{p} {strategy:?}");
        }
    }
    // Thousands of ranks, of which one is walked.
    for form in ["epoch", "sense", "clearing"] {
        let v = check(&schedule(form, &right(4096, form)), &CheckOptions::default());
        assert!(v.ok() && v.ranks_walked == 1, "{form}: {:#?}\n{}", v.errors.list, v.text);
    }
    let v = check(&schedule("wrong", &wrong(4096)), &CheckOptions::default());
    assert_eq!((codes(&v), v.ranks_walked), (vec!["E358"], 1));
}

/// Every rank counts on every other rank's single counter. A rank that has heard from all may
/// notify again while another still waits, and its second notify may be mistaken for the first of a
/// third rank. With an answer in between, this cannot happen.
#[test]
fn several_writers_must_know_that_they_are_heard() {
    let text = |answer: bool| {
        let more = if answer {
            "      for s in 1..5\n        notify ((r + s) % 5) : @b[0]\n      wait @b[0] -= 4\n"
        } else {
            ""
        };
        let second = if answer { "signal @b[1] barrier clearing fresh\n" } else { "" };
        format!(
            "kir 1\nmodule @m\nmesh tp 5\n\nschedule calls any\nbuffer %x : f32[4] hbm input 0 : f32[4]\n\
             signal @a[1] barrier clearing fresh\n{second}\nregion @r over tp as (r of 5)\n  role all\n    stream main\n      \
             for s in 1..5\n        notify ((r + s) % 5) : @a[0]\n      wait @a[0] -= 4\n{more}"
        )
    };
    for strategy in [Strategy::Expanded, Strategy::Symmetric] {
        let options = CheckOptions { strategy, ..Default::default() };
        assert_eq!(codes(&check(&schedule("all", &text(false)), &options)), ["E358"], "{strategy:?}");
        let v = check(&schedule("all", &text(true)), &options);
        assert!(v.ok(), "{strategy:?}: {:#?}", v.errors.list);
    }
}
