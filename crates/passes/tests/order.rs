//! Tests of the order graph of an algorithm: which credits are needed (SYNC-1, SYNC-3), against
//! independently measured numbers.
#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use crate::stack;

use kbc_passes::expand::Arg;
use kbc_passes::order::{NoSyncCounts, Policy, Within, choose, count};
use kbc_rounds::{Limits, Rounds};
use stack::{Case, World};

fn rounds(world: &World, case: &Case) -> Rounds {
    kbc_rounds::expand(&world.lib, &world.call(case), &kbc_rounds::Limits::default()).unwrap()
}

/// Evaluates a formula of the table: sums and products of numbers, `p`, `f` (floor log2 p), `m`
/// (2^f).
fn formula(text: &str, p: u64) -> u64 {
    let f = u64::from(p.ilog2());
    let term = |t: &str| -> u64 {
        let (mut product, mut rest) = (1, t.to_owned());
        rest = rest.replace("(p-1)", &(p - 1).to_string()).replace("(p-m)", &(p - (1 << f)).to_string());
        for factor in rest.split('*') {
            product *= match factor.trim() {
                "p" => p,
                "f" => f,
                "m" => 1 << f,
                n => n.parse().unwrap_or_else(|_| panic!("{n} in {text}")),
            };
        }
        product
    };
    // The sum of at most two terms, or p minus a number.
    match text {
        "p-1" => p - 1,
        "2*p-1" => 2 * p - 1,
        _ => {
            let mut depth = 0;
            let at = text.char_indices().find(|(_, c)| {
                depth += match c {
                    '(' => 1,
                    ')' => -1,
                    _ => 0,
                };
                *c == '+' && depth == 0
            });
            match at {
                Some((i, _)) => term(&text[..i]) + term(&text[i + 1..]),
                None => term(text),
            }
        }
    }
}

/// Checks every row of the table, at every number of ranks that it covers.
#[test]
fn credits_are_those_of_the_table() {
    let world = World::shipped();
    let (mut wrong, mut seen) = (vec![], 0);
    for line in include_str!("data/credits.txt").lines().filter(|l| !l.starts_with('#')) {
        let columns: Vec<&str> = line.split('|').map(str::trim).collect();
        let [name, sizes, slots, messages, needed] = columns[..] else { panic!("{line}") };
        let sizes: Vec<Vec<u64>> = match sizes {
            "p" => (2..=8).map(|p| vec![p]).collect(),
            "p>2" => (3..=8).map(|p| vec![p]).collect(),
            s => vec![s.split('x').map(|n| n.parse().unwrap()).collect()],
        };
        for sizes in sizes {
            let p: u64 = sizes.iter().product();
            let policy = match slots {
                "message" => Policy::PerMessage,
                "alternate" => Policy::Alternate,
                "direct" => Policy::Direct,
                "pull" => Policy::Pull,
                k => Policy::Slots(formula(k, p) as u32),
            };
            let case = world.case(name, &sizes, None);
            let roots = if world.rooted(case.alg) { vec![Some(0), Some(p - 1)] } else { vec![None] };
            for root in roots {
                let case = Case { root, ..case.clone() };
                let c = count(&rounds(world, &case), policy, Within::Program).unwrap();
                let want = match needed {
                    "all" => c.messages,
                    n => formula(n, p),
                };
                if messages != "-" && c.messages != formula(messages, p)
                    || c.wanted != c.messages
                    || c.needed != want
                {
                    wrong.push(format!("{}, {}: {c:?}, not {want}", world.show(&case), policy.name()));
                }
                seen += 1;
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(seen > 250, "{seen}");
}

/// Checks whether every rank's result depends on every rank's input.
fn total(world: &World, case: &Case) -> bool {
    let coll = world.lib.collective_of(case.alg).unwrap();
    kbc_passes::expand::is_total(&world.lib, coll, case.root)
}

fn shapes(axes: usize) -> Vec<Vec<u64>> {
    match axes {
        1 => vec![vec![4], vec![5], vec![8]],
        2 => vec![vec![2, 2], vec![2, 3], vec![3, 3], vec![2, 4], vec![4, 2]],
        _ => vec![vec![2, 2, 2], vec![2, 2, 3]],
    }
}

/// Over the library: with two slots per message, a total collective needs no credit, whatever the
/// order inside a rank; a rooted one needs a credit for every reuse, whatever the number of slots.
#[test]
fn total_collectives_need_no_credits_and_rooted_ones_need_all() {
    let world = World::shipped();
    let (mut wrong, mut seen) = (vec![], [0, 0]);
    for case in world.cases(&shapes, &|p| vec![0, p - 1]) {
        let r = rounds(world, &case);
        let total = total(world, &case);
        // A broadcast or a reduce that contains a total half is total.
        let half = world.name(case.alg).contains("scatter_gather");
        let rooted = case.root.is_some() && !half;
        let needed = |policy, within| {
            let c = count(&r, policy, within).unwrap();
            (c.needed, c.wanted)
        };
        let two = needed(Policy::Alternate, Within::Program);
        let free = needed(Policy::Alternate, Within::Data);
        // Three slots are too few if a rank sends more messages to one peer before it receives.
        let three = rooted.then(|| needed(Policy::Slots(3), Within::Program));
        let right = match () {
            () if total => two.0 == 0 && free.0 == 0,
            () if half => two.0 == 0,
            () if rooted => two.0 == two.1 && three.is_some_and(|t| t.0 == t.1) && free.0 == free.1,
            () => continue,
        };
        if !right {
            wrong.push(format!("{}: {two:?}, {free:?}, {three:?}", world.show(&case)));
        }
        seen[usize::from(total)] += 1;
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(seen[0] >= 20 && seen[1] >= 100, "{seen:?}");
}

/// Rotating a vector in place with direct placement would close a cycle, so such messages keep a
/// slot (rule 5). A graph that is too large is rejected.
#[test]
fn what_reads_in_the_round_it_is_written_keeps_its_slot() {
    let text = "collective rotate over (r of p) on v[n] { start v[i]  end v[i] = v[i] at (r + p - 1) % p }
        algorithm once: rotate over (r mod p) { put [..] -> r + 1 }";
    let world = World::with("rotate.kb", text);
    let case = world.case("rotate once", &[4], None);
    let c = count(&rounds(&world, &case), Policy::Direct, Within::Program).unwrap();
    assert_eq!((c.messages, c.slots, c.needed), (4, 1, 4));
    let world = World::shipped();
    let case = world.case("all_to_all direct", &[240], None);
    assert!(matches!(
        count(&rounds(world, &case), Policy::PerMessage, Within::Program),
        Err(NoSyncCounts::TooLarge(_))
    ));
}

/// The choice made at small shapes is right at every shape: with one slot per message and no
/// credit, nothing else is needed.
#[test]
fn one_slot_is_chosen_where_it_is_enough() {
    let world = World::shipped();
    let (mut wrong, mut chosen) = (vec![], std::collections::BTreeSet::new());

    let shapes = |axes| match axes {
        1 => (2..=17).map(|p| vec![p]).collect(),
        _ => shapes(axes),
    };
    for case in world.cases(&shapes, &|_| vec![0]) {
        let sizes: Vec<i64> = case.sizes.iter().map(|s| *s as i64).collect();

        let one = choose::one_slot(&world.lib, case.alg, &sizes, &[], None);

        if one {
            chosen.insert(world.name(case.alg));
            let c = count(&rounds(world, &case), Policy::PerMessage, Within::Program).unwrap();
            if c.needed > 0 {
                wrong.push(format!("{}: {c:?}", world.show(&case)));
            }
        }
    }
    assert!(chosen.len() >= 20, "{chosen:?}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Sizes of groups that are tried as arguments. Some leave few legal shapes that are small.
const GROUPS: [i64; 3] = [3, 9, 16];

/// The choice is also right for other arguments than the defaults, where `select` composes
/// algorithms: with every algorithm in place of one parameter, and with groups that leave few
/// small shapes.
#[test]
fn one_slot_is_chosen_where_it_is_enough_with_arguments() {
    let world = World::shipped();
    let names: std::collections::BTreeSet<String> =
        world.lib.algorithms().map(|a| world.lib.algorithm(a).name.node.clone()).collect();
    let (mut wrong, mut checked) = (vec![], 0);
    for alg in world.lib.algorithms() {
        let decl = world.lib.algorithm(alg);
        if decl.axes.len() != 1 || decl.root.is_some() {
            continue;
        }
        let (parts, counts): (Vec<_>, Vec<_>) = decl
            .params
            .iter()
            .map(|p| p.0.node.clone())
            .zip(kbc_rounds::head::algorithm_valued(decl, &world.lib))
            .partition(|p| p.1);
        let groups = if counts.len() == 1 { GROUPS.to_vec() } else { vec![] };
        for (g, (part, _)) in groups.iter().flat_map(|g| parts.iter().map(move |p| (*g, p))) {
            for name in &names {
                let args = vec![(counts[0].0.clone(), Arg::Int(g)), (part.clone(), Arg::Word(name.clone()))];
                for p in [2 * g, 3 * g].into_iter().filter(|p| *p <= 36) {
                    let case =
                        Case { alg, args: args.clone(), options: vec![], sizes: vec![p as u64], root: None };
                    let call = world.call(&case);
                    let Ok(rounds) = kbc_rounds::expand(&world.lib, &call, &Limits::default()) else {
                        continue;
                    };
                    checked += 1;
                    let one = choose::one_slot(&world.lib, alg, &call.sizes, &call.args, None);
                    // Whoever has the rounds already need not expand them again.
                    assert_eq!(
                        choose::one_slot(&world.lib, alg, &call.sizes, &call.args, Some(&rounds)),
                        one,
                        "{}",
                        world.show(&case)
                    );
                    if one
                        && let Ok(c) = count(&rounds, Policy::PerMessage, Within::Program)
                        && c.needed > 0
                    {
                        wrong.push(format!("{}: {c:?}", world.show(&case)));
                    }
                }
            }
        }
    }
    assert!(checked >= 200, "{checked}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
