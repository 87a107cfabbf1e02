//! Every algorithm of the language reference is right on every small legal shape, and costs what its row says.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

mod common;

use std::collections::BTreeMap;

use common::{World, argument};
use kbc_diag::FileId;
use kbc_frontend::ast::Item;
use kbc_rounds::ast::{BinaryOp, Expr, ExprKind, UnaryOp};
use kbc_rounds::group::is_legal;
use kbc_rounds::ratio::gcd;
use kbc_rounds::rounds::coordinates;
use kbc_rounds::{Call, Limits, Ratio, Verifier, cost};

/// An exact fraction with sign, for the formulas.
#[derive(Clone, Copy, PartialEq, PartialOrd, Debug)]
struct Q(i128, i128);

impl Q {
    fn new(n: i128, d: i128) -> Q {
        assert!(d != 0);
        let g = gcd(n.unsigned_abs() as u64, d.unsigned_abs() as u64).max(1) as i128 * d.signum();
        Q(n / g, d / g)
    }
    fn int(self) -> i128 {
        assert_eq!(self.1, 1, "not an integer");
        self.0
    }
    fn cmp(self, o: Q) -> std::cmp::Ordering {
        (self.0 * o.1).cmp(&(o.0 * self.1))
    }
}

fn formula(text: &str) -> Expr {
    let (file, found) = kbc_frontend::parse(FileId(0), &format!("fn f(x) = {text}"));
    assert!(found.is_empty(), "{text}: {found:?}");
    match file.items.into_iter().next() {
        Some(Item::Function(f)) => f.body,
        other => panic!("{text}: {other:?}"),
    }
}

fn value(e: &Expr, names: &BTreeMap<&str, i64>) -> Q {
    let v = |e: &Expr| value(e, names);
    match &e.kind {
        ExprKind::Int(i) => Q(i128::from(*i), 1),
        ExprKind::Name(n) => Q(i128::from(*names.get(n.as_str()).unwrap_or_else(|| panic!("{n}"))), 1),
        ExprKind::Unary(UnaryOp::Neg, a) => Q(-v(a).0, v(a).1),
        ExprKind::If(c, a, b) => {
            if v(c).0 != 0 {
                v(a)
            } else {
                v(b)
            }
        }
        ExprKind::Binary(op, a, b) => {
            let (a, b) = (v(a), v(b));
            let truth = |t: bool| Q(i128::from(t), 1);
            match op {
                BinaryOp::Add => Q::new(a.0 * b.1 + b.0 * a.1, a.1 * b.1),
                BinaryOp::Sub => Q::new(a.0 * b.1 - b.0 * a.1, a.1 * b.1),
                BinaryOp::Mul => Q::new(a.0 * b.0, a.1 * b.1),
                BinaryOp::Div => Q::new(a.0 * b.1, a.1 * b.0),
                BinaryOp::Gt => truth(a.cmp(b).is_gt()),
                BinaryOp::Ge => truth(a.cmp(b).is_ge()),
                other => panic!("{other:?} in a formula"),
            }
        }
        ExprKind::Call(f, args) => {
            let a: Vec<Q> = args.iter().map(v).collect();
            match f.node.as_str() {
                "A" => Q::new(a[0].0 - a[0].1, a[0].0),
                "min" => {
                    if a[0].cmp(a[1]).is_lt() {
                        a[0]
                    } else {
                        a[1]
                    }
                }
                "max" => {
                    if a[0].cmp(a[1]).is_gt() {
                        a[0]
                    } else {
                        a[1]
                    }
                }
                "pow" => Q(a[0].int().pow(a[1].int() as u32), 1),
                "floor" => Q(a[0].0.div_euclid(a[0].1), 1),
                "ceil_log2" => Q(i128::from((a[0].int() as u64).next_power_of_two().ilog2()), 1),
                "log3" => Q((a[0].int() as f64).log(3.0).round() as i128, 1),
                "bits" => Q((0..a[0].int()).map(|i| i128::from(i.count_ones())).sum(), 1),
                other => panic!("{other} in a formula"),
            }
        }
        other => panic!("{other:?} in a formula"),
    }
}

/// The shapes of the reference: lines up to 17, grids up to 5 x 5 and 20 ranks, boxes up to 4 x 4 x 3 and 36 ranks.
fn shapes(axes: &[&str]) -> Vec<Vec<i64>> {
    let box_of = |w: i64, h: i64, d: i64, most: i64| {
        let all = (1..=w).flat_map(move |x| (1..=h).flat_map(move |y| (1..=d).map(move |z| vec![x, y, z])));
        all.filter(move |s| s.iter().product::<i64>() <= most)
    };
    match axes.len() {
        1 => (1..=17).map(|p| vec![p]).collect(),
        2 => box_of(5, 5, 1, 20).map(|s| s[..2].to_vec()).collect(),
        _ => box_of(4, 4, 3, 36).collect(),
    }
}

fn known(axes: &[&'static str], call: &Call) -> BTreeMap<&'static str, i64> {
    let mut names: BTreeMap<&str, i64> = axes.iter().copied().zip(call.sizes.iter().copied()).collect();
    let p: i64 = call.sizes.iter().product();
    let f = i64::from(p.ilog2());
    names.insert("f", f);
    names.insert("m", 1 << f);
    names.insert("l", f + i64::from(p != 1 << f));
    names.insert("fold", if p == 1 << f { 0 } else { 2 });
    names.insert("some", i64::from(p > 1));
    if let Some(c) = &call.root {
        names.insert("c", kbc_rounds::rounds::linear(&call.sizes, c));
    }
    names
}

fn agrees(got: Ratio, formula_text: &str, names: &BTreeMap<&str, i64>) -> Result<(), String> {
    if formula_text == "-" {
        return Ok(());
    }
    let want = value(&formula(formula_text), names);
    if (want.0, want.1) == (i128::from(got.num()), i128::from(got.den())) {
        Ok(())
    } else {
        Err(format!("{got}, not {}/{} = {formula_text}", want.0, want.1))
    }
}

#[test]
fn every_row_of_the_table() {
    let world = World::with_library();
    let mut verifier = Verifier::new(&world.lib, Limits::default());
    let mut covered = std::collections::BTreeSet::new();
    let mut wrong: Vec<String> = vec![];
    for line in include_str!("data/costs.txt").lines().filter(|l| !l.starts_with('#')) {
        let columns: Vec<&str> = line.split('|').map(str::trim).collect();
        let [head, axes, rounds, sent, pair] = columns[..] else { panic!("{line}") };
        let (coll, rest) = head.split_once(' ').unwrap();
        let (name, args) = rest.split_once('(').unwrap_or((rest, ""));
        let args: Vec<(String, _)> = args
            .trim_end_matches(')')
            .split(',')
            .filter_map(|a| a.split_once(':'))
            .map(|(n, v)| (n.trim().to_owned(), argument(v.trim())))
            .collect();
        let axes: &[&str] = match axes {
            "p" => &["p"],
            "w h" => &["w", "h"],
            _ => &["w", "h", "d"],
        };
        covered.insert(world.alg(coll, name));
        let mut runs = 0;
        for sizes in shapes(axes) {
            let ranks: i64 = sizes.iter().product();
            let mut call = Call { args: args.clone(), ..world.call(coll, name, &sizes, None) };
            let roots = if world.is_rooted(&call) { ranks } else { 1 };
            for root in 0..roots {
                if world.is_rooted(&call) {
                    call.root = Some(coordinates(&sizes, root));
                }
                if !is_legal(&world.lib, &call).unwrap() {
                    continue;
                }
                runs += 1;
                let r = match verifier.verify(&call) {
                    Ok(r) => r,
                    Err(d) => panic!("{head} on {sizes:?}, root {root}:\n{}", world.show(&d)),
                };
                let c = cost(&r);
                let names = known(axes, &call);
                for (what, got, text) in [
                    ("rounds", Ratio::new(u64::from(c.rounds), 1), rounds),
                    ("sent", c.sent, sent),
                    ("pair", c.pair, pair),
                ] {
                    if let Err(e) = agrees(got, text, &names) {
                        wrong.push(format!("{head} on {sizes:?}, root {root}: {what} {e}"));
                    }
                }
            }
        }
        assert!(runs > 0, "{head}: no legal shape");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let all: std::collections::BTreeSet<_> = world.lib.algorithms().collect();
    let missing: Vec<String> = all
        .difference(&covered)
        .map(|&a| format!("{} {}", world.lib.algorithm(a).coll.node, world.lib.algorithm(a).name.node))
        .collect();
    assert!(missing.is_empty(), "no row for {missing:?}");
    assert_eq!(all.len(), 76);
}

/// Figures the reference gives for single shapes.
#[test]
fn single_figures() {
    let world = World::with_library();
    let limits = Limits::default();
    for (p, sent) in [(4, (3, 2)), (8, (5, 2)), (16, (7, 2))] {
        let call = world.call("all_reduce", "multi_root", &[p], None);
        let c = cost(&kbc_rounds::expand(&world.lib, &call, &limits).unwrap());
        assert_eq!(c.sent, Ratio::new(sent.0, sent.1), "multi_root {p}");
    }
    // The fewest atoms, whatever the way to them.
    for (coll, name, sizes, atoms) in [
        ("all_reduce", "ring", vec![6], 6),
        ("all_reduce", "one_phase", vec![6], 1),
        ("all_reduce", "bidirectional_ring", vec![6], 12),
        ("all_reduce", "torus2", vec![2, 3], 6),
        ("all_reduce", "torus2_all_links", vec![2, 3], 24),
        ("all_reduce", "torus3_all_links", vec![2, 2, 3], 72),
        ("all_to_all", "bruck", vec![5], 5),
        ("all_gather", "ring", vec![5], 5),
    ] {
        let r = kbc_rounds::expand(&world.lib, &world.call(coll, name, &sizes, None), &limits).unwrap();
        assert_eq!(r.atoms, atoms, "{coll} {name}");
    }
}

#[test]
fn the_library_has_no_static_fault() {
    let world = World::with_library();
    for (file, _) in world.sources.files() {
        let found = kbc_rounds::checks::check_file(&world.lib, file);
        assert!(found.is_empty(), "{}", world.show(&found));
    }
}
