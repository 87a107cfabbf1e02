//! Tests of `expand`: text whose size does not depend on the number of ranks, the fallbacks whose
//! text does, their limits, and rejected programs.
#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use crate::stack;

use kbc_backend_sim::interp::{RunOptions, run};
use kbc_checker::{CheckOptions, check};
use kbc_diag::Diagnostics;
use kbc_ir::Module;
use kbc_ir::schedule::{RankSet, Schedule};
use kbc_ir::text::{self, PrintOptions};
use kbc_ir::types::CutRule;
use stack::{Case, Layout, World, argument};

fn print(m: &Module) -> String {
    text::print(m, &PrintOptions::default())
}

/// Returns the text with every number as `#`.
fn shape_of(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        if !c.is_ascii_digit() {
            out.push(c);
        } else if !out.ends_with('#') {
            out.push('#');
        }
    }
    out
}

fn built(world: &World, case: &Case, l: &Layout) -> Module {
    stack::synchronized(world, case, l)
        .unwrap_or_else(|d| panic!("{}: {}", world.show(case), world.words(&d)))
}

/// Except for its numbers, a ring on 16,384 ranks is the text of a ring on 4: as many lines, as
/// many operations, the same expressions. The output of lowering does not depend on the number of
/// ranks or steps.
#[test]
fn a_ring_has_the_same_text_on_any_number_of_ranks() {
    let world = World::shipped();
    for name in ["all_reduce ring", "reduce_scatter ring", "all_gather ring"] {
        let text = |p: u64| print(&built(world, &world.case(name, &[p], None), &Layout::ints(7 * p)));
        let (small, large) = (text(4), text(16_384));
        assert_eq!(small.lines().count(), large.lines().count(), "{name}");
        assert_eq!(shape_of(&small), shape_of(&large), "{name}");
    }
}

/// The other algorithms of the library have as many lines on few ranks as on many. Tables grow, but
/// remain one line each.
#[test]
fn the_number_of_lines_does_not_depend_on_the_ranks() {
    let world = World::shipped();
    for (name, small, large) in [
        ("all_reduce ring", 4, 16_384),
        ("all_reduce bidirectional_ring", 4, 16_384),
        ("all_reduce halving_doubling", 4, 4096),
        ("all_reduce halving_doubling", 5, 4095),
        ("reduce binary_tree", 4, 16_384),
        ("broadcast binary_tree", 4, 16_384),
        ("all_reduce up_down", 4, 4096),
        ("broadcast binomial", 4, 4096),
        ("reduce binomial", 4, 4096),
        ("gather binomial", 8, 4096),
        ("scatter binomial", 8, 4096),
        ("all_reduce two_phase", 4, 4096),
        ("all_to_all pairwise", 4, 1024),
        ("all_reduce line", 4, 256),
    ] {
        let lines = |p: u64| {
            let case = world.case(name, &[p], None);
            let root = world.rooted(case.alg).then_some(p / 3);
            let m = stack::expanded(world, &Case { root, ..case }, &Layout { unit: p, ..Layout::ints(p) });
            print(&m.unwrap_or_else(|d| panic!("{name}: {}", world.words(&d)))).lines().count()
        };
        assert_eq!(lines(small), lines(large), "{name} on {small} and {large}");
    }
    for name in ["all_reduce torus2", "all_reduce mesh2"] {
        let lines = |w, h| {
            print(&built(world, &world.case(name, &[w, h], None), &Layout::ints(w * h))).lines().count()
        };
        assert_eq!(lines(3, 4), lines(20, 30), "{name}");
    }
}

/// Algorithms of the library that need separate code for every rank are listed; all others have one
/// role for all ranks.
#[test]
fn the_library_is_symbolic() {
    let world = World::shipped();
    let shapes = |axes| match axes {
        1 => vec![vec![6], vec![8]],
        2 => vec![vec![2, 4]],
        _ => vec![vec![2, 2, 2]],
    };
    let mut written_out = std::collections::BTreeSet::new();
    for case in world.cases(&shapes, &|_| vec![1]) {
        let p = case.ranks();
        let m = stack::expanded(world, &case, &Layout { unit: p, ..Layout::ints(p) }).unwrap();
        let roles = &stack::region(&m).roles;
        if !matches!(&roles[..], [one] if one.ranks == RankSet::All) {
            written_out.insert(world.show(&case));
        }
    }
    insta::assert_snapshot!(Vec::from_iter(written_out).join("\n"));
}

fn fallback() -> World {
    World::with("fallback.kb", include_str!("data/fallback/algorithms.kb"))
}

fn role_a_rank(m: &Module) -> bool {
    let r = stack::region(m);
    r.roles.len() as u64 == m.mesh.ranks()
        && r.roles.iter().all(|r| matches!(&r.ranks, RankSet::List(l) if l.len() == 1))
}

/// Algorithms without a symbolic form are unrolled, or written out for each rank, and are right.
#[test]
fn fallbacks_are_right() {
    let world = fallback();
    for (name, written_out) in [
        ("all_reduce tripling", false),
        ("reduce_scatter swinging", false),
        ("broadcast deep", true),
        ("reduce deep", true),
        ("all_reduce inbox", true),
        ("all_gather gossip", true),
        ("all_gather carry", true),
        ("all_gather mirrored", true),
        ("all_reduce picked", true),
        ("all_gather fan", false),
        ("all_gather stairs", false),
    ] {
        let mut ran = 0;
        for p in [1, 2, 3, 4, 5, 7, 8, 9] {
            let case = world.case(name, &[p], None);
            let roots = if world.rooted(case.alg) { vec![Some(0), Some(p - 1)] } else { vec![None] };
            let with = |word| Case { options: vec![("transfer".into(), argument(word))], ..case.clone() };
            let cases = [case.clone(), with("pull"), with("rendezvous")];
            let with = |root| cases.iter().map(move |c| Case { root, ..c.clone() });
            for case in roots.into_iter().flat_map(with) {
                if !world.legal(&case) {
                    continue;
                }
                // Blocks that are carried elsewhere must have one length.
                let any = name != "all_gather carry";
                for n in [0, p, 6 * p].into_iter().chain(any.then_some(1)).chain(any.then_some(7 * p + 3)) {
                    let l = Layout::ints(n);
                    let m = built(&world, &case, &l);
                    assert!(p <= 2 || role_a_rank(&m) == written_out, "{}", world.show(&case));
                    let s: &Schedule = m.schedule().unwrap();
                    let feeds: Vec<_> = (0..3).map(|c| stack::feed(&world, &case, &l, c)).collect();
                    let result = run(s, &feeds, &RunOptions { calls: 3, ..RunOptions::default() });
                    let result =
                        result.unwrap_or_else(|d| panic!("{}: {}", world.show(&case), world.words(&d)));
                    assert_eq!(stack::wrong(&world, &case, &l, &feeds, &result, stack::region(&m)), None);
                    let v = check(s, &CheckOptions::default());
                    assert!(v.ok(), "{}: {}", world.show(&case), world.words(&v.errors));
                    ran += 1;
                }
            }
        }
        assert!(ran >= 6, "{name}: {ran}");
    }
}

/// Returns the messages of `expand` about a case.
fn refusal(world: &World, case: &Case, l: &Layout) -> Diagnostics {
    match stack::expanded(world, case, l) {
        Ok(m) => panic!("{} is accepted:\n{}", world.show(case), print(&m)),
        Err(d) => d,
    }
}

/// Above their limits, the fallbacks reject a program and list every reason why they were needed.
#[test]
fn limits_are_told_with_their_reasons() {
    let world = fallback();
    let d = refusal(&world, &world.case("all_reduce inbox", &[1415], None), &Layout::ints(1415));
    insta::assert_snapshot!(world.words(&d));
    let d = refusal(&world, &world.case("all_gather gossip", &[1415], None), &Layout::ints(1415));
    insta::assert_snapshot!(world.words(&d));
}

/// Chunks of unequal length cannot be placed elsewhere.
#[test]
fn unequal_chunks_in_other_places_are_refused() {
    let world = fallback();
    let layout = |n| Layout { unit: 4, ..Layout::ints(n) };
    let d = refusal(&world, &world.case("all_to_all bruck", &[4], None), &layout(7));
    insta::assert_snapshot!(world.words(&d));
    let d = refusal(&world, &world.case("all_gather carry", &[4], None), &Layout::ints(9));
    insta::assert_snapshot!(world.words(&d));
    for (name, p, n) in [("all_to_all bruck", 4, 8), ("all_gather carry", 4, 8)] {
        built(&world, &world.case(name, &[p], None), &layout(n));
    }
    // Any cut rule works if chunks stay in place, including PyTorch's.
    let l = Layout { rule: CutRule::Ceil, ..Layout::ints(7) };
    built(&world, &world.case("all_gather ring", &[4], None), &l);
}

/// Options that are not implemented are rejected and never ignored, in a use and in an `apply`, in
/// every mode.
#[test]
fn options_that_are_not_there_yet() {
    let world = World::shipped();
    let with = |option: &str, value: &str| {
        let case = world.case("all_reduce ring", &[4], None);
        Case { options: vec![(option.to_owned(), argument(value))], ..case }
    };
    for (option, value) in [("overlap", "2"), ("order", "rank"), ("accumulate", "f32"), ("direct", "true")] {
        let d = refusal(world, &with(option, value), &Layout::ints(8));
        assert_eq!(d.list[0].code, "E033", "{option}");
        assert!(d.list[0].title.contains(option));
        let scratch = "scratch t[p] put [..] -> t[0] ";
        // In an `apply`: before the text is known to be symbolic, and if it is not.
        for before in ["", scratch] {
            let text = format!(
                "algorithm mine: all_reduce over (r mod p) {{ {before} apply all_reduce over r using ring with ({option}: {value}) on [..] }}"
            );
            let world = World::with("mine.kb", &text);
            let d = refusal(&world, &world.case("all_reduce mine", &[4], None), &Layout::ints(8));
            assert_eq!(d.list[0].code, "E033", "{option} {before}");
        }
    }
    // Windows belong to the whole collective, and separate roles for every rank cannot follow an
    // option of an `apply`.
    for (option, value, before) in [
        ("slots", "2", ""),
        ("memory", "sram", ""),
        ("cores", "2", ""),
        ("transfer", "pull", ""),
        ("transfer", "pull", "scratch t[p] put [..] -> t[0] "),
        ("pipeline", "2", "scratch t[p] put [..] -> t[0] "),
        ("instances", "2", "scratch t[p] put [..] -> t[0] "),
    ] {
        let text = format!(
            "algorithm mine: all_reduce over (r mod p) {{ {before} apply all_reduce over r using ring with ({option}: {value}) on [..] }}"
        );
        let world = World::with("mine.kb", &text);
        let d = refusal(&world, &world.case("all_reduce mine", &[4], None), &Layout::ints(8));
        assert_eq!(d.list[0].code, "E033", "{option} {before}");
    }
    // A core is a stream, and so is an instance; both have a limit.
    for more in [("instances", "2"), ("cores", "65")] {
        let two = Case {
            options: vec![("cores".to_owned(), argument("2")), (more.0.to_owned(), argument(more.1))],
            ..world.case("all_reduce ring", &[4], None)
        };
        assert_eq!(refusal(world, &two, &Layout::ints(8)).list[0].code, "E033", "{more:?}");
    }
    for (option, value) in
        [("pipeline", "1"), ("instances", "1"), ("cores", "1"), ("transfer", "push"), ("direct", "false")]
    {
        stack::expanded(world, &with(option, value), &Layout::ints(8)).unwrap();
    }
    for kind in ["hbm", "sram", "tcm"] {
        let m = stack::expanded(world, &with("memory", kind), &Layout::ints(8)).unwrap();
        assert!(m.schedule().unwrap().windows.iter().all(|w| w.memory.name() == kind));
    }
    for (option, value) in
        [("pipeline", "0"), ("memory", "ub"), ("transfer", "3"), ("direct", "1"), ("chunks", "2"), ("D", "1")]
    {
        assert_eq!(
            refusal(world, &with(option, value), &Layout::ints(8)).list[0].code,
            "E006",
            "{option}: {value}"
        );
    }
}

/// Wrong texts get the error codes of the language, even if their rounds were not evaluated before.
#[test]
fn wrong_texts_have_the_codes_of_the_language() {
    for (code, p, body) in [
        ("E005", 4, "all_reduce over (r of p) { put [..] -> far(r) reduce }"),
        ("E005", 4, "all_reduce over (r of p) { apply all_reduce over x using ring on [..] }"),
        ("E010", 4, "all_reduce over (r of p) { put [..] -> r / 0 reduce }"),
        ("E020", 4, "all_reduce over (r of p) { put [..] -> (r, 1) reduce }"),
        ("E021", 4, "all_reduce over (r of p) { put [..] -> r + 1 reduce }"),
        (
            "E021",
            4,
            "all_reduce over (r of p) { for k in 0..2 { if r < p - 1 { put [..] -> r + 1 + k reduce } } }",
        ),
        ("E021", 4, "all_reduce over (r of p) { if r > 0 { put [..] -> 2 * r + 1 reduce } }"),
        ("E022", 4, "all_reduce over (r of p) { apply all_reduce over r using torus2 on [..] }"),
        ("E023", 4, "all_reduce over (r of p) { apply all_reduce over r using mine on [..] }"),
        ("E024", 6, "reduce_scatter over (r of p) { apply reduce_scatter over r using halving on [..] }"),
        ("E025", 4, "all_reduce over (r of p) { for k in 0..r { put [..] -> k reduce } }"),
        ("E026", 4, "all_reduce over (r mod p) { put [0 of 2] -> [0 of 3] at r + 1 }"),
        ("E027", 4, "all_to_all over (r mod p) { put [0] -> dst[0] at r + 1 }"),
    ] {
        let text = format!("algorithm mine: {body}");
        let world = World::with("mine.kb", &text);
        let coll = body.split(' ').next().unwrap();
        let d = refusal(&world, &world.case(&format!("{coll} mine"), &[p], None), &Layout::ints(2 * p));
        assert_eq!(d.list[0].code, code, "{body}: {}", world.words(&d));
        assert!(d.list[0].labels.iter().any(|l| !l.span.is_none()), "{body}: no place");
    }
}

/// The text after each pass.
#[test]
fn schedules() {
    let world = World::shipped();
    for (name, sizes) in [
        ("all_reduce ring", vec![4]),
        ("reduce_scatter direct", vec![4]),
        ("all_reduce two_phase(transfer: switch, pipeline: 2)", vec![4]),
        ("all_reduce halving_doubling", vec![5]),
        ("reduce binary_tree", vec![5]),
        ("broadcast binary_tree", vec![5]),
        ("all_reduce torus2", vec![2, 3]),
        ("all_reduce mesh2", vec![2, 3]),
        ("all_reduce bidirectional_ring", vec![4]),
        ("all_to_all pairwise", vec![3]),
    ] {
        let case = world.case(name, &sizes, None);
        let case = Case { root: world.rooted(case.alg).then_some(1), ..case };
        let mut m = stack::expanded(world, &case, &Layout::ints(10)).unwrap();
        let mut settings = insta::Settings::clone_current();
        settings.set_snapshot_path("data/schedules");
        settings.set_prepend_module_to_snapshot(false);
        settings.set_omit_expression(true);
        settings.bind(|| {
            let file = name.replace(|c: char| !(c.is_alphanumeric() || c == '_'), "-");
            insta::assert_snapshot!(format!("{file}.1-expand"), print(&m));
            stack::pass(world, &mut m, &kbc_passes::allocate::Allocate).unwrap();
            insta::assert_snapshot!(format!("{file}.2-allocate"), print(&m));
            stack::pass(world, &mut m, &kbc_passes::synchronize::Synchronize).unwrap();
            insta::assert_snapshot!(format!("{file}.3-synchronize"), print(&m));
        });
    }
}
