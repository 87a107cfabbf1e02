//! Tests of rounds, bytes, signals and fences of every algorithm, counted on its schedule.
#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use crate::stack;

use kbc_diag::FileId;
use kbc_frontend::ast::Item;
use kbc_rounds::ast::{BinaryOp, Expr, ExprKind, FnBody, FnDecl, UnaryOp};
use kbc_rounds::claim::{Figure, compare};
use kbc_rounds::{Cost, Ratio};
use stack::count::count;
use stack::{Case, Layout, World};
use std::collections::{BTreeMap, BTreeSet};

/// Evaluates a formula of the table below. Its fractions are exact in f64 except for the last bits.
fn value(e: &Expr, names: &BTreeMap<&str, f64>) -> f64 {
    let v = |e: &Expr| value(e, names);
    match &e.kind {
        ExprKind::Int(i) => *i as f64,
        ExprKind::Name(n) => names[n.as_str()],
        ExprKind::Unary(UnaryOp::Neg, a) => -v(a),
        ExprKind::If(c, a, b) => v(if v(c) != 0.0 { a } else { b }),
        ExprKind::Binary(op, a, b) => match op {
            BinaryOp::Add => v(a) + v(b),
            BinaryOp::Sub => v(a) - v(b),
            BinaryOp::Mul => v(a) * v(b),
            BinaryOp::Div => v(a) / v(b),
            BinaryOp::Gt => f64::from(v(a) > v(b)),
            other => panic!("{other:?} in a formula"),
        },
        ExprKind::Call(f, args) => {
            let a: Vec<f64> = args.iter().map(v).collect();
            match f.node.as_str() {
                "A" => (a[0] - 1.0) / a[0],
                "min" => a[0].min(a[1]),
                "max" => a[0].max(a[1]),
                "pow" => a[0].powf(a[1]),
                "floor" => a[0].floor(),
                "ceil_log2" => a[0].log2().ceil(),
                "log3" => a[0].log(3.0).round(),
                "bits" => (0..a[0] as u64).map(|i| f64::from(i.count_ones())).sum(),
                other => panic!("{other} in a formula"),
            }
        }
        other => panic!("{other:?} in a formula"),
    }
}

fn formula(text: &str, names: &BTreeMap<&str, f64>) -> f64 {
    let (file, found) = kbc_frontend::parse(FileId(0), &format!("fn f(x) = {text}"));
    assert!(found.is_empty(), "{text}: {found:?}");
    match file.items.into_iter().next() {
        Some(Item::Function(FnDecl { body: FnBody::Expr(e), .. })) => value(&e, names),
        other => panic!("{text}: {other:?}"),
    }
}

/// Returns the names that formulas may use.
fn names(axes: &str, case: &Case) -> BTreeMap<&'static str, f64> {
    let axes: &[&str] = if axes == "p" { &["p"] } else { &["w", "h", "d"] };
    let mut names: BTreeMap<&str, f64> =
        axes.iter().copied().zip(case.sizes.iter().map(|s| *s as f64)).collect();
    let p = case.ranks();
    let f = p.ilog2();
    let exact = p == 1 << f;
    names.insert("p", p as f64);
    names.insert("f", f64::from(f));
    names.insert("m", f64::from(1u32 << f));
    names.insert("l", f64::from(f + u32::from(!exact)));
    names.insert("fold", if exact { 0.0 } else { 2.0 });
    names.insert("some", f64::from(u8::from(p > 1)));
    names.insert("c", case.root.unwrap_or(0) as f64);
    names
}

fn shapes(axes: usize) -> Vec<Vec<u64>> {
    match axes {
        1 => [1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16].map(|p| vec![p]).to_vec(),
        2 => vec![
            vec![1, 1],
            vec![1, 4],
            vec![3, 1],
            vec![2, 2],
            vec![2, 3],
            vec![3, 3],
            vec![4, 2],
            vec![4, 4],
        ],
        _ => vec![vec![2, 2, 2], vec![2, 3, 2], vec![3, 3, 3]],
    }
}

/// Returns a layout whose elements every cut of a case divides, and their number. If two operands
/// are cut in both directions, both of their sizes are divisible.
fn divisible(world: &World, case: &Case) -> (Layout, u64) {
    let r = kbc_rounds::expand(&world.lib, &world.call(case), &kbc_rounds::Limits::default()).unwrap();
    let coll = world.lib.collective(world.lib.collective_of(case.alg).unwrap());
    let n = u64::from(r.atoms) * case.ranks();
    if coll.buffers.len() == 2 && coll.buffers[0].sizes.len() == 2 {
        // n rows over p ranks, 2n columns in blocks.
        return (Layout { unit: n, ..Layout::ints(n) }, n / case.ranks() * 2 * n);
    }
    (Layout::ints(n), n)
}

/// Rounds and bytes counted by walking the schedule agree with the rounds and with the
/// documentation, for every algorithm, every shape below, and other values of the parameters.
#[test]
fn rounds_and_bytes_are_those_of_the_documentation() {
    let world = World::shipped();
    let others = [
        "reduce_scatter ring(d: -1)",
        "all_gather pat(a: 1)",
        "reduce_scatter pat(a: 4)",
        "all_gather pat(a: 8)",
        "all_reduce up_down(tree: inorder)",
        "broadcast pipelined_chain(m: 3)",
        "all_reduce hierarchical_flat(g: 2)",
        "all_reduce blueconnect(g1: 1, g2: 3)",
        "all_to_next spread(g: 3)",
    ];
    let cases = world.lib.algorithms().map(|alg| Case {
        alg,
        args: vec![],
        options: vec![],
        sizes: vec![],
        root: None,
    });
    let (mut wrong, mut compared) = (vec![], [0; 3]);
    let (mut earlier, mut fewer) = (BTreeSet::new(), BTreeSet::new());
    for case in cases.chain(others.iter().map(|o| world.case(o, &[], None))) {
        let decl = world.lib.algorithm(case.alg);
        let claims = kbc_rounds::claim::claims(decl).unwrap();
        for sizes in shapes(decl.axes.len()) {
            let ranks: u64 = sizes.iter().product();
            let rooted = [Some(0), Some(ranks / 2), Some(ranks - 1)];
            for root in if world.rooted(case.alg) { &rooted[..] } else { &[None] } {
                let case = Case { root: *root, sizes: sizes.clone(), ..case.clone() };
                if !world.legal(&case) {
                    continue;
                }
                let (layout, total) = divisible(world, &case);
                let m = match stack::synchronized(world, &case, &layout) {
                    Ok(m) => m,
                    Err(d) => panic!("{}: {}", world.show(&case), world.words(&d)),
                };
                let c = count(&m);
                let call = world.call(&case);
                let rounds = kbc_rounds::expand(&world.lib, &call, &kbc_rounds::Limits::default()).unwrap();
                let of_rounds = kbc_rounds::cost(&rounds);
                let walked = Cost {
                    rounds: c.rounds as u32,
                    sent: Ratio::new(c.most_sent, total),
                    pair: Ratio::new(c.pair, total),
                    ..of_rounds
                };
                let mut between = BTreeMap::new();
                for (src, dst, atoms) in rounds.rounds.iter().flat_map(|r| kbc_rounds::cost::messages(r)) {
                    *between.entry((src.into(), dst.into())).or_default() +=
                        atoms * total / u64::from(rounds.atoms);
                }
                between.retain(|_, n| *n > 0);
                if c.between != between {
                    wrong.push(format!(
                        "{}: {:?} between ranks, not {between:?}",
                        world.show(&case),
                        c.between
                    ));
                }
                for (i, figure) in Figure::ALL.into_iter().enumerate() {
                    let (got, want) = (figure.of(&walked), figure.of(&of_rounds));
                    compared[i] += usize::from(claims.iter().any(|c| c.figure == figure));
                    if figure == Figure::Pair && got != want {
                        // The round of a message in a schedule is the first in which it can be
                        // sent.
                        earlier.insert(world.name(case.alg));
                    } else if figure == Figure::Rounds && got < want {
                        fewer.insert(world.name(case.alg));
                    } else if got != want {
                        wrong.push(format!(
                            "{}: {} {got}, rounds say {want}",
                            world.show(&case),
                            figure.word()
                        ));
                    }
                }
                if let Err(d) = compare(&world.lib, &call, &claims, &of_rounds) {
                    wrong.push(format!("{}: {}", world.show(&case), d.title));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong\n{}", wrong.len(), wrong.join("\n"));
    // In these, a rank with nothing to wait for sends before its round in the text, so other
    // messages coincide.
    let asynchronous = [
        "all_gather rails",
        "all_gather rails_flat",
        "all_gather recursive_doubling",
        "all_reduce multi_root",
        "all_reduce rails",
        "all_reduce rails_flat",
        "all_reduce three_level",
        "all_to_next spread",
        "gather binomial",
        "reduce binomial",
        "reduce scatter_gather",
        "reduce_scatter rails",
        "reduce_scatter rails_flat",
    ];
    assert_eq!(Vec::from_iter(earlier), asynchronous);
    // Rounds of these put the messages of a link in order, and most messages wait for none.
    let ordering = [
        "all_gather rails",
        "all_gather rails_flat",
        "all_reduce rails",
        "all_reduce rails_flat",
        "reduce_scatter rails",
        "reduce_scatter rails_flat",
    ];
    assert_eq!(Vec::from_iter(fewer), ordering);
    assert!(compared.iter().all(|n| *n > 600), "{compared:?}");
}

/// Returns the number of messages by the rounds: what one rank sends another in one round from one
/// selection of chunks. (The same chunks to several places travel once; halves that go both ways
/// round a ring of two are two messages, one per link.)
fn messages(world: &World, case: &Case) -> u64 {
    let r = kbc_rounds::expand(&world.lib, &world.call(case), &kbc_rounds::Limits::default()).unwrap();
    let mut seen = std::collections::BTreeSet::new();
    for (t, x) in r.transfers().filter(|(_, x)| x.is_remote()) {
        let runs: Vec<(u32, u32)> = x.from.runs().iter().map(|r| (r.start, r.len)).collect();
        seen.insert((t, x.src, x.dst, x.from.buffer, runs));
    }
    seen.len() as u64
}

/// Checks whether every rank's result depends on every rank's input.
fn total(world: &World, case: &Case) -> bool {
    let coll = world.lib.collective_of(case.alg).unwrap();
    kbc_passes::expand::is_total(&world.lib, coll, case.root)
}

/// Each message has one arrival, which is waited for once, with one release and one acquire.
/// Credits exist for all messages or for none. There are none, and two slots per message, if every
/// rank's result depends on every rank's input; otherwise there is one credit per message, and one
/// slot.
#[test]
fn signals_and_fences_are_as_few_as_the_facts_allow() {
    let world = World::shipped();
    let mut wrong = vec![];
    for case in world.cases(&shapes, &|p| vec![0, p - 1]) {
        let (layout, _) = divisible(world, &case);
        let m = stack::synchronized(world, &case, &layout).unwrap();
        let c = count(&m);
        let n = messages(world, &case);
        let credits = if total(world, &case) { 0 } else { n };
        let right = c.messages == n
            && c.arrival_waits == n
            && c.credits == credits
            && c.credit_waits == credits
            && c.releases == n + credits
            && c.acquires == n;
        if !right {
            wrong.push(format!("{}: {n} messages, {credits} credits, not {c:?}", world.show(&case)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Messages and credits of a call, by the number of ranks, are those of the table.
#[test]
fn signals_are_those_of_the_table() {
    let world = World::shipped();
    for (name, p, messages, credits) in [
        ("all_reduce ring", 2..=8, "2*p*(p-1)", "0"),
        ("all_gather ring", 2..=8, "p*(p-1)", "0"),
        ("reduce_scatter ring", 2..=8, "p*(p-1)", "0"),
        ("all_reduce bidirectional_ring", 2..=8, "4*p*(p-1)", "0"),
        ("all_gather bidirectional_ring", 2..=8, "2*p*(p-1)", "0"),
        ("reduce_scatter bidirectional_ring", 2..=8, "2*p*(p-1)", "0"),
        ("all_reduce two_phase", 2..=8, "2*p*(p-1)", "0"),
        ("all_reduce one_phase", 2..=8, "p*(p-1)", "0"),
        ("all_reduce halving_doubling", 2..=2, "2*p*f", "0"),
        ("all_reduce halving_doubling", 4..=4, "2*p*f", "0"),
        ("all_reduce halving_doubling", 8..=8, "2*p*f", "0"),
        ("all_reduce halving_doubling", 3..=3, "2*m*f + 2*(p-m)", "0"),
        ("all_reduce halving_doubling", 5..=7, "2*m*f + 2*(p-m)", "0"),
        ("all_reduce up_down", 2..=8, "2*(p-1)", "0"),
        ("all_reduce double_tree", 2..=8, "4*(p-1)", "0"),
        ("all_gather direct", 2..=8, "p*(p-1)", "0"),
        ("reduce_scatter direct", 2..=8, "p*(p-1)", "0"),
        ("all_to_all direct", 2..=8, "p*(p-1)", "0"),
        ("all_to_all pairwise", 2..=8, "p*(p-1)", "0"),
        ("broadcast direct", 2..=8, "p-1", "p-1"),
        ("broadcast binomial", 2..=8, "p-1", "p-1"),
        ("broadcast binary_tree", 2..=8, "p-1", "p-1"),
        ("broadcast chain", 2..=8, "p-1", "p-1"),
        ("reduce direct", 2..=8, "p-1", "p-1"),
        ("reduce binomial", 2..=8, "p-1", "p-1"),
        ("reduce binary_tree", 2..=8, "p-1", "p-1"),
        ("gather binomial", 2..=8, "p-1", "p-1"),
        ("scatter binomial", 2..=8, "p-1", "p-1"),
    ] {
        for p in p {
            let case = world.case(name, &[p], None);
            let case = Case { root: world.rooted(case.alg).then_some(p / 2), ..case };
            let (layout, _) = divisible(world, &case);
            let c = count(&stack::synchronized(world, &case, &layout).unwrap());
            let names = names("p", &case);
            let want = (formula(messages, &names) as u64, formula(credits, &names) as u64);
            assert_eq!((c.messages, c.credits), want, "{}", world.show(&case));
        }
    }
    // A barrier per round would cost 784 notifies here.
    let case = world.case("all_reduce ring", &[8], None);
    let c = count(&stack::synchronized(world, &case, &Layout::ints(80)).unwrap());
    assert_eq!((c.messages, c.credits), (112, 0));
    let case = world.case("all_reduce torus2_all_links", &[3, 3], None);
    let (layout, _) = divisible(world, &case);
    assert_eq!(count(&stack::synchronized(world, &case, &layout).unwrap()).messages, 288);
}
