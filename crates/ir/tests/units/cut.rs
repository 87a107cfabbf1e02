//! The rules of cuts against counting and brute force.

use kbc_ir::Name;
use kbc_ir::algebra::{ExprAlgebra, IntegerAlgebra};
use kbc_ir::cut::*;
use kbc_ir::expr::Expr;
use kbc_ir::parts::Parts;
use kbc_ir::types::{Cut, CutRule, Dim, Mesh, part};

fn rules(n: u64, k: u64) -> Vec<CutRule> {
    // Lengths 0, 1, 2, ... and the rest.
    let mut left = n;
    let row: Vec<u64> = (0..k)
        .map(|i| {
            let take = if i + 1 == k { left } else { i.min(left) };
            left -= take;
            take
        })
        .collect();
    let mut out = vec![CutRule::Even, CutRule::Ceil];
    out.extend([1, 2, 3, 8, u64::MAX].map(CutRule::Lines));
    out.extend(Parts::row(&row).map(CutRule::Lengths));
    out
}

/// The rules of cuts in other words: by counting elements.
fn counted(rule: &CutRule, n: u64, i: u64, k: u64) -> u64 {
    let even = |n: u64| (0..n).filter(|e| e * k < n * i).count() as u64;
    match rule {
        // Element e is before boundary i if e/n < i/k.
        CutRule::Even => even(n),
        // All parts have as many elements as the largest of even ones.
        CutRule::Ceil => {
            let each = (0..=n).find(|each| each * k >= n).unwrap_or(0);
            n.min(each * i)
        }
        // A line of memory belongs to the part in which it begins.
        CutRule::Lines(unit) => {
            let unit = (*unit).max(1);
            (0..n).filter(|e| (e - e % unit) * k < n * i).count() as u64
        }
        CutRule::Lengths(parts) => (0..i).map(|j| parts.lengths(0)[j as usize]).sum(),
    }
}

fn listed(parts: &Parts, _: &Expr, n: &Expr, i: &Expr) -> Expr {
    (1..=parts.of()).fold(Expr::Int(0), |at, j| {
        let below = Expr::bin(kbc_ir::expr::BinOp::Lt, i.clone(), Expr::Int(j as i64));
        let end = if j < parts.of() { Expr::Int(parts.boundary(0, j) as i64) } else { n.clone() };
        Expr::select(below, at, end)
    })
}

#[test]
fn boundaries_are_those_of_counting_and_tile_the_whole() {
    for (n, k) in (0..20).flat_map(|n| (1..7).map(move |k| (n, k))) {
        for rule in rules(n, k) {
            let bounds: Vec<u64> = (0..=k).map(|i| rule.boundary(n, i, k)).collect();
            assert_eq!((bounds[0], bounds[k as usize]), (0, n), "{rule:?} {n} {k}");
            assert!(bounds.is_sorted(), "{rule:?} {n} {k}: {bounds:?}");
            for i in 0..=k {
                assert_eq!(bounds[i as usize], counted(&rule, n, i, k), "{rule:?} {n} {i} {k}");
            }
            let lengths: Vec<u64> = bounds.windows(2).map(|w| w[1] - w[0]).collect();
            for i in 0..k {
                let part = rule.part(n, i, k);
                assert_eq!((part.start, part.end - part.start), (bounds[i as usize], lengths[i as usize]));
                assert_eq!(rule.block(3 * n, 3, i, k), 3 * part.start..3 * part.end);
                assert_eq!(rule.block(0, 0, i, k), 0..0);
            }
            if rule.equal_parts(n, k) {
                assert!(lengths.iter().all(|l| *l == n / k), "{rule:?} {n} {k}");
            }
            let mut alg = IntegerAlgebra::default();
            for (i, want) in (0..).zip(&lengths) {
                let found = rule.length(&mut alg, &0, &n.into(), &i, k);
                assert_eq!(alg.result(found), Some(*want));
            }
        }
    }
}

#[test]
fn expressions_have_the_values_of_integers() {
    let value = |e: &Expr, i: u64, n: u64| {
        let at = |name: &Name| Some(if name == "i" { i } else { n } as i64);
        e.eval(&at).ok().and_then(|v| u64::try_from(v).ok())
    };
    for (n, k) in (0..20).flat_map(|n| (1..7).map(move |k| (n, k))) {
        for rule in rules(n, k).into_iter().filter(|r| *r != CutRule::Lines(u64::MAX)) {
            for mut alg in [
                ExprAlgebra::simplified(listed),
                ExprAlgebra::folded(listed, |p, _, _, i| {
                    (0..p.of()).fold(Expr::Int(0), |e, j| {
                        let here = i.clone().equals(Expr::Int(j as i64));
                        Expr::select(here, Expr::Int(p.lengths(0)[j as usize] as i64), e)
                    })
                }),
            ] {
                // The length of the whole is a constant or a name.
                for size in [Expr::Int(n as i64), Expr::var("n")] {
                    let (row, of) = (Expr::Int(0), Expr::Int(k as i64));
                    let at = rule.bound(&mut alg, &row, &size, &Expr::var("i"), &of);
                    let long = rule.length(&mut alg, &row, &size, &Expr::var("i"), k);
                    for i in 0..k {
                        let (lo, hi) = (rule.boundary(n, i, k), rule.boundary(n, i + 1, k));
                        assert_eq!(value(&at, i, n), Some(lo), "{rule:?} {n} {i} {k}: {at}");
                        assert_eq!(value(&long, i, n), Some(hi - lo), "{rule:?} {n} {i} {k}: {long}");
                    }
                }
            }
        }
    }
}

#[test]
fn chunks_of_a_line_tile_it_and_nest() {
    for (n, parts) in (0..14).flat_map(|n| (1..5).map(move |k| (n, k))) {
        for rule in rules(n, parts) {
            for (unit, den) in [(1, 1), (3, 2), (1, 4), (2, 6), (1, 7)] {
                let line = Sized { parts, rule: &rule, extent: n, unit, row: 0 };
                let at: Vec<u64> = (0..=den).filter_map(|i| line.start(i, den)).collect();
                assert_eq!((at[0], at[den as usize], at.len() as u64), (0, unit * n, den + 1));
                assert!(at.is_sorted(), "{line:?} {den}: {at:?}");
                // A finer cut has all boundaries of the coarser one.
                for (i, at) in (0..).zip(&at) {
                    assert_eq!(line.start(3 * i, 3 * den), Some(*at), "{line:?} {i} {den}");
                }
                // The blocks are chunks.
                for i in 0..=parts {
                    assert_eq!(line.start(i, parts), Some(unit * rule.boundary(n, i, parts)));
                }
                let mut alg = ExprAlgebra::simplified(listed);
                let int = |v: u64| Expr::Int(v as i64);
                let line = Sized { parts, rule: &rule, extent: int(n), unit: int(unit), row: int(0) };
                if rule != CutRule::Lines(u64::MAX) {
                    let e = line.address(&mut alg, &Expr::var("i"), &int(den));
                    for (i, at) in (0..).zip(&at) {
                        assert_eq!(e.eval(&|_: &Name| Some(i)), Ok(*at as i64), "{line:?} {i} {den}: {e}");
                    }
                }
            }
        }
    }
}

#[test]
fn large_numbers_do_not_wrap() {
    let n = u64::MAX - 3;
    for rule in rules(n, 5) {
        let bounds: Vec<u64> = (0..=5).map(|i| rule.boundary(n, i, 5)).collect();
        assert!(bounds.is_sorted() && bounds[5] == n, "{rule:?} {bounds:?}");
        let line = Sized { parts: 5, rule: &rule, extent: n, unit: 1, row: 0 };
        assert_eq!(line.start(15, 15), Some(n));
        assert!(line.start(7, 15) <= line.start(8, 15));
        assert_eq!(Sized { unit: 2, ..line }.start(15, 15), None);
    }
    assert_eq!(CutRule::Even.boundary(1 << 62, 3, 4), 3 << 60);
}

#[test]
fn the_parts_of_all_ranks_tile_a_dimension() {
    use kbc_ir::types::Axis;
    let axis = |name: &str, size| Axis { name: name.into(), size, parts: vec![] };
    let mesh = Mesh { axes: vec![axis("a", 3), axis("b", 2)] };
    for n in [0, 1, 7, 12, 25] {
        for rule in rules(n, 6) {
            let cut = Cut { axes: vec!["a".into(), "b".into()], rule: rule.clone() };
            let dim = Dim { size: n, cut: Some(cut) };
            let mut end = 0;
            for rank in 0..mesh.ranks() {
                let at = mesh.coords(rank);
                let mut alg = IntegerAlgebra::default();
                let coord = |_: &mut IntegerAlgebra, name: &Name| at[usize::from(name == "b")] as u128;
                let (start, length) = part(&mut alg, &dim, &mesh, &coord);
                assert_eq!(alg.result(start), Some(end), "{rule:?} {n} {rank}");
                end += alg.result(length).unwrap_or(0);
            }
            assert_eq!(end, n);
        }
    }
}

#[test]
fn no_run_of_chunks_is_longer_than_the_longest() {
    for (n, parts) in (0..14).flat_map(|n| (1..5).map(move |k| (n, k))) {
        for rule in rules(n, parts).into_iter().filter(|r| *r != CutRule::Lines(u64::MAX)) {
            for (unit, den) in [(1, 1), (3, 2), (1, 4), (2, 6), (1, 7), (1, 12)] {
                let line = Sized { parts, rule: &rule, extent: n, unit, row: 0 };
                let at: Vec<u64> = (0..=den).filter_map(|i| line.start(i, den)).collect();
                for cnt in 0..=den {
                    let runs = (0..=den - cnt).map(|i| at[(i + cnt) as usize] - at[i as usize]);
                    let (found, longest) = (line.longest(cnt, den), runs.max().unwrap_or(0));
                    assert!(found >= longest, "{line:?} {cnt} of {den}: {longest}, not {found}");
                    // A line of one block is cut evenly, and so are blocks of the same length.
                    let even = parts == 1 || rule.equal_parts(n, parts) && (cnt * parts).is_multiple_of(den);
                    if even && !matches!(rule, CutRule::Lines(_)) {
                        assert_eq!(found, longest, "{line:?} {cnt} of {den}");
                    }
                }
            }
        }
    }
    let line = Sized { parts: 1, rule: &CutRule::Even, extent: u64::MAX, unit: u64::MAX, row: 0 };
    assert_eq!(line.longest(u64::MAX, 1), u64::MAX);
}

#[test]
fn chunks_of_chunks_are_those_of_counting() {
    let parts = |of: i64| (0..of).flat_map(move |i| (0..=of - i).map(move |len| [i, len, of]));
    for (a, b) in (1..5).flat_map(parts).flat_map(|a| (1..5).flat_map(parts).map(move |b| (a, b))) {
        let both = Chunks::WHOLE.cut(a).and_then(|c| c.cut(b)).unwrap();
        // The chunks in units of which both cuts are made.
        let fine: Vec<i64> = (0..a[2] * b[2]).collect();
        let first: Vec<i64> = fine.iter().copied().filter(|f| f / b[2] == a[0]).collect();
        let want = &first[b[0] as usize..(b[0] + b[1]) as usize];
        let found: Vec<i64> = (both.num..both.num + both.cnt).map(|i| i as i64).collect();
        assert_eq!((found.as_slice(), both.den), (want, fine.len() as u64), "{a:?} {b:?}");
        let mut alg = ExprAlgebra::simplified(listed);
        let int = |v: i64| Expr::Int(v);
        let mut at = Chunks::whole(&mut alg);
        for [index, len, of] in [a, b] {
            at = at.part(&mut alg, (&int(index), &int(len), &int(of)));
        }
        let want = [both.num, both.cnt, both.den, both.num + both.cnt].map(|v| int(v as i64));
        assert_eq!([at.num.clone(), at.cnt.clone(), at.den.clone(), at.end(&mut alg)], want);
    }
    for (den, of) in (1..9).flat_map(|den| (1..25).map(move |of| (den, of))) {
        for (num, cnt) in (0..=den).flat_map(|num| (0..=den - num).map(move |cnt| (num, cnt))) {
            let inside = |i: u64| num * of <= i * den && (i + 1) * den <= (num + cnt) * of;
            let made: Vec<u64> = (0..of).filter(|i| inside(*i)).collect();
            let whole = (num * of).is_multiple_of(den) && (cnt * of).is_multiple_of(den);
            let found = Chunks { num, cnt, den }.among(of);
            let range = found.map(|c| (c.num..c.num + c.cnt).collect());
            assert_eq!(range, whole.then_some(made), "{num} {cnt} {den} {of}");
        }
    }
    for wrong in [[0, 1, 0], [-1, 1, 2], [0, -1, 2], [1, 2, 2], [i64::MAX, 1, i64::MAX]] {
        assert_eq!(Chunks::WHOLE.cut(wrong), Err(NoChunks::Outside));
    }
    let many = Chunks::WHOLE.cut([0, 1, i64::MAX]).unwrap();
    assert_eq!(many.cut([0, 1, 2]), Err(NoChunks::TooMany));
}
