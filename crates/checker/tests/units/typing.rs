//! Types of values under moves of a digit.

use kbc_checker::testing::{Env, Ty, Val};
use kbc_ir::congruence::Congruence;
use kbc_ir::expr::{BinOp, Expr, UnOp};
use kbc_ir::interval::Interval;
use kbc_ir::name::Name;
use std::sync::Arc;

/// A generator of small numbers, with the same sequence every time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % n
    }

    fn expr(&mut self, depth: u32) -> Expr {
        if depth == 0 || self.roll(6) == 0 {
            return match self.roll(5) {
                0 | 1 => Expr::var("x"),
                2 => Expr::var("y"),
                _ => Expr::Int(self.roll(9) as i64),
            };
        }
        match self.roll(8) {
            0 => Expr::Select(
                Arc::new(self.expr(depth - 1)),
                Arc::new(self.expr(depth - 1)),
                Arc::new(self.expr(depth - 1)),
            ),
            1 => {
                let op = UnOp::ALL[self.roll(UnOp::ALL.len() as u64) as usize];
                Expr::Un(op, Arc::new(self.expr(depth - 1)))
            }
            n => {
                let op = BinOp::ALL[self.roll(BinOp::ALL.len() as u64) as usize];
                // The rules apply to constants on the right; large ones overflow on some ranks.
                let right = match n {
                    2 if self.roll(4) == 0 => Expr::Int(i64::MAX - self.roll(9) as i64),
                    2..6 => Expr::Int(self.roll(9) as i64),
                    _ => self.expr(depth - 1),
                };
                Expr::Bin(op, Arc::new(self.expr(depth - 1)), Arc::new(right))
            }
        }
    }
}

/// The position of a digit in the coordinate `x`, which has `top` times as many values as the
/// digit reaches.
#[derive(Clone, Copy)]
struct Layout {
    stride: i64,
    size: i64,
    top: i64,
    xors: bool,
}

impl Layout {
    fn ranks(self) -> i64 {
        self.stride * self.size * self.top
    }

    fn ty(self) -> Ty {
        let Layout { stride, size, xors, .. } = self;
        match xors {
            true => Ty::Xor { sh: -(stride.trailing_zeros() as i32), mask: (size - 1) * stride },
            false => Ty::Shift { c: stride, m: stride * size, whole: true },
        }
    }

    fn moved(self, x: i64, t: i64) -> i64 {
        let digit = x / self.stride % self.size;
        let to = if self.xors { digit ^ t } else { (digit + t) % self.size };
        x + (to - digit) * self.stride
    }
}

/// Checks the types of `e` against all values, for a coordinate `x` with a digit that moves,
/// beside another coordinate `y` of size 3 with a digit of its own.
fn holds(e: &Expr, layout: Layout) -> bool {
    let other = Ty::Shift { c: 1, m: 3, whole: true };
    let all = [Interval::of(0, layout.ranks() - 1), Interval::of(0, 2)];
    let tys = |k: usize, ty| std::array::from_fn(|i| if i == k { ty } else { Ty::Same });
    let x = ("x".into(), Val::new(0, tys(0, layout.ty()), all[0], Congruence::ANY));
    let y = ("y".into(), Val::new(0, tys(1, other), all[1], Congruence::ANY));
    let env = Env { vars: vec![x, y], tables: &[] };
    let Some(found) = env.eval(e) else { return false };
    let value = |x: i64, y: i64| {
        let get = |n: &Name| Some(if *n == "x" { x } else { y });
        e.eval(&get).ok()
    };
    // Ranks of one orbit: those with the quotient and the remainder of the walked rank, which
    // is 0.
    let orbit = (0..layout.size).map(|d| d * layout.stride);
    for a in orbit {
        for y in 0..3 {
            let Some(u) = value(a, y) else { continue };
            let what = || format!("`{e}` is {found:?}, but {u} at x = {a}, y = {y}");
            assert!(found.range.contains(u) && found.class.contains(u), "{}", what());
            assert!(!found.is_fixed() || u == found.v, "{}", what());
            for t in 0..layout.size {
                let v = value(layout.moved(a, t), y);
                assert!(fits(found.tys[0], u, v, t), "{}; {v:?} after {t}", what());
            }
            for t in 0..3 {
                let v = value(a, (y + t) % 3);
                assert!(fits(found.tys[1], u, v, t), "{}; {v:?} after {t} of y", what());
            }
        }
    }
    found.tys[0] != Ty::Any
}

/// Whether `u` becomes `v`, if there is such a value, when the digit moves by `t`.
fn fits(ty: Ty, u: i64, v: Option<i64>, t: i64) -> bool {
    let Some(v) = v else { return ty == Ty::Any };
    match ty {
        Ty::Any => true,
        Ty::Same => u == v,
        Ty::Shift { c, m, whole } => {
            (v - u - c * t).rem_euclid(m) == 0 && (!whole || u.div_euclid(m) == v.div_euclid(m))
        }
        Ty::Xor { sh, mask } => v == u ^ (if sh >= 0 { t >> sh } else { t << -sh }) & mask,
    }
}

#[test]
fn types_are_true_of_all_values() {
    let mut dice = Dice(7);
    let mut known = [0; 4];
    for _ in 0..20_000 {
        let e = dice.expr(4);
        let size = [2, 4, 6, 8][dice.roll(4) as usize];
        let (stride, top) = ([1, 2, 4, 3][dice.roll(4) as usize], 1 + dice.roll(3) as i64);
        let plain = Layout { stride: 1, size, top: 1, xors: false };
        known[0] += holds(&e, plain) as usize;
        known[1] += holds(&e, Layout { stride, top, ..plain }) as usize;
        if size != 6 {
            known[2] += holds(&e, Layout { xors: true, ..plain }) as usize;
            if stride != 3 {
                known[3] += holds(&e, Layout { stride, top, xors: true, ..plain }) as usize;
            }
        }
    }
    assert!(known.iter().all(|k| *k > 2000), "{known:?} expressions have a type");
}

/// The types of recombined digits, which peers and chunks in the algorithms with nodes,
/// recursion and swing need.
#[test]
fn digits_are_put_together_again() {
    let typed = |text: Expr, layout: Layout| {
        let range = Interval::of(0, layout.ranks() - 1);
        let x = Val::new(0, [layout.ty(), Ty::Same, Ty::Same], range, Congruence::ANY);
        Env { vars: vec![("x".into(), x)], tables: &[] }.eval(&text).expect("it has a value").tys[0]
    };
    let (x, i) = (|| Expr::var("x"), Expr::Int);
    // The next rank in its node of 4, and the same rank of the next of 8 nodes.
    let inner = x() / i(4) * i(4) + (x() + i(1)).modulo(4);
    let outer = (x() / i(4) + i(1)).modulo(8) * i(4) + x().modulo(4);
    let node = Layout { stride: 1, size: 4, top: 8, xors: false };
    let nodes = Layout { stride: 4, size: 8, top: 1, xors: false };
    assert_eq!((typed(inner.clone(), node), typed(outer.clone(), nodes)), (node.ty(), nodes.ty()));
    assert_eq!((typed(inner, nodes), typed(outer, node)), (nodes.ty(), node.ty()));
    // Halves of halves.
    let bits = Layout { stride: 1, size: 16, top: 1, xors: true };
    let half = x() / i(8) * i(8) + Expr::bin(BinOp::Xor, x().modulo(8), i(4));
    assert_eq!(typed(half, bits), bits.ty());
    // Even ranks move one way, odd ranks the other.
    let twos = Layout { stride: 2, size: 8, top: 1, xors: false };
    let even = Expr::bin(BinOp::Eq, x().modulo(2), i(0));
    let partner = Expr::select(even, x() + i(3), x() - i(3)).modulo(16);
    assert_eq!(typed(partner, twos), twos.ty());
}
