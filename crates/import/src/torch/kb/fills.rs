//! Recognition of regular constants: replaces data by `full`, `iota` and comparisons
//! of two of these.
//!
//! This module decides which constants have a formula. A formula must give the same bits; any other
//! constant stays data.

use super::consts::{Const, ConstData, rounded, strides};
use super::graph::{Graph, NodeId, NodeOp, Operand};
use super::values::Compared;
use crate::torch::dtype::DType;

use Operand::{Node, Num};

/// A formula for elements by their indices.
#[derive(Clone, PartialEq, Debug)]
enum Formula {
    /// `start + step * i` along a dimension, the only one with several elements.
    Line { dim: usize, start: f64, step: f64 },
    /// The value `yes` where the condition holds, `no` elsewhere.
    Choice { holds: IndexCondition, yes: f64, no: f64 },
}

/// A condition on the indices of an element.
#[derive(Clone, PartialEq, Debug)]
enum IndexCondition {
    /// The index along a dimension is at most this number.
    First(usize, i64),
    /// The index along the first dimension is at most the index along the second plus this number.
    UpTo(usize, usize, i64),
    /// The indices along both dimensions are equal.
    Diagonal(usize, usize),
}

/// A constant with fewer elements counts as a list of numbers, not as a formula.
const FEW: usize = 3;

impl Const {
    /// Checks whether the elements follow from their indices: one repeated value, a line, or two
    /// values selected by a comparison of indices.
    pub(super) fn regular(&self) -> bool {
        self.uniform().is_some() || self.formula().is_some()
    }

    /// Returns the formula of the constant, if it has one.
    fn formula(&self) -> Option<Formula> {
        let ConstData::Each(list) = &self.held else { return None };
        let wide: Vec<usize> = (0..self.sizes.len()).filter(|d| self.sizes[*d] > 1).collect();
        let exact = |x: f64| rounded(self.dtype, x).is_some_and(|y| y.to_bits() == x.to_bits());
        // The indices must be exact in the element type too.
        if list.len() < FEW || wide.iter().any(|d| !exact((self.sizes[*d] - 1) as f64)) {
            return None;
        }
        if let [dim] = wide[..] {
            let (start, step) = (list[0], list[1] - list[0]);
            let whole = |x: f64| x.fract() == 0.0 && exact(x);
            let on = |(i, x): (usize, &f64)| {
                let up = i as f64 * step;
                whole(up) && (start + up).to_bits() == x.to_bits()
            };
            if whole(start) && list.iter().enumerate().all(on) {
                return Some(Formula::Line { dim, start, step });
            }
        }
        let yes = list[0];
        // Compared bit for bit, because zeros have a sign.
        let same = |x: f64, y: f64| x.to_bits() == y.to_bits();
        let no = *list.iter().find(|x| !same(**x, yes))?;
        if yes.is_nan() || no.is_nan() || list.iter().any(|x| !same(*x, yes) && !same(*x, no)) {
            return None;
        }
        let own = strides(&self.sizes);
        let index = |i: usize, d: usize| i as i64 / own[d] % self.sizes[d];
        // Number of leading elements along a dimension that are equal to `yes`.
        let run = |d: usize| {
            (0..self.sizes[d]).take_while(|k| same(list[(k * own[d]) as usize], yes)).count() as i64
        };
        let may = match wide[..] {
            [d] => vec![IndexCondition::First(d, run(d) - 1)],
            [r, c] => {
                vec![
                    IndexCondition::UpTo(c, r, run(c) - 1),
                    IndexCondition::UpTo(r, c, run(r) - 1),
                    IndexCondition::Diagonal(c, r),
                ]
            }
            _ => vec![],
        };
        let right = |h: &IndexCondition| {
            list.iter().enumerate().all(|(i, x)| {
                same(*x, yes)
                    == match h {
                        IndexCondition::First(d, n) => index(i, *d) <= *n,
                        IndexCondition::UpTo(a, b, n) => index(i, *a) <= index(i, *b) + n,
                        IndexCondition::Diagonal(a, b) => index(i, *a) == index(i, *b),
                    }
            })
        };
        may.into_iter().find(right).map(|holds| Formula::Choice { holds, yes, no })
    }
}

impl Graph {
    /// Builds the operations that compute a constant, if it has a formula. The result has the shape
    /// of the constant.
    pub(super) fn formed(&mut self, c: &Const) -> Option<NodeId> {
        if self.plain || c.sizes.is_empty() || c.sizes.contains(&0) {
            return None;
        }
        if let Some(x) = c.uniform() {
            return x.is_finite().then(|| self.fill(NodeOp::Full(x), c.dtype, c.sizes.clone()));
        }
        let out = match c.formula()? {
            Formula::Line { dim, start, step } => {
                let i = Node(self.fill(NodeOp::Iota(dim), c.dtype, c.sizes.clone()));
                let up = self.infix('*', i, Num(step));
                if start == 0.0 { up } else { self.infix('+', up, Num(start)) }
            }
            Formula::Choice { holds, yes, no } => {
                let [yes, no] = [yes, no].map(|x| match x.is_finite() {
                    true => Num(x),
                    // The language has no literal for infinity.
                    false => Node(self.infinite(c.dtype, x)),
                });
                let Compared { how, sides: [a, b], .. } = self.held(c, &holds);
                self.elementwise(NodeOp::Select(how), &[a, b, yes, no])
            }
        };
        match out {
            Node(n) if self.nodes[n].sizes == c.sizes => Some(n),
            _ => None,
        }
    }

    /// Turns a constant truth value with a formula into a comparison in the given element type.
    pub(super) fn formed_mask(&mut self, c: &Const, dtype: DType) -> Option<Compared> {
        let c = Const { dtype, ..c.clone() };
        if self.plain {
            return None;
        }
        match c.formula()? {
            Formula::Choice { holds, yes, no } if yes == 0.0 || no == 0.0 => {
                Some(Compared { not: yes == 0.0, ..self.held(&c, &holds) })
            }
            _ => None,
        }
    }

    fn held(&mut self, c: &Const, holds: &IndexCondition) -> Compared {
        let mut along = |d: usize| {
            let sizes = (0..c.sizes.len()).map(|k| if k == d { c.sizes[d] } else { 1 }).collect();
            Node(self.fill(NodeOp::Iota(d), c.dtype, sizes))
        };
        let (how, sides) = match holds {
            IndexCondition::First(d, n) => ("<=", [along(*d), Num(*n as f64)]),
            IndexCondition::Diagonal(a, b) => ("==", [along(*a), along(*b)]),
            IndexCondition::UpTo(a, b, 0) => ("<=", [along(*a), along(*b)]),
            // An index may be as large as the type allows, so the addend goes to the side that
            // stays smaller.
            IndexCondition::UpTo(a, b, n) if *n > 0 => {
                let (a, b) = (along(*a), along(*b));
                ("<=", [self.infix('-', a, Num(*n as f64)), b])
            }
            IndexCondition::UpTo(a, b, n) => {
                let (a, b) = (along(*a), along(*b));
                ("<=", [a, self.infix('-', b, Num(-*n as f64))])
            }
        };
        Compared { how, sides, not: false, sizes: c.sizes.clone() }
    }

    /// Returns a fill; an existing equal one is reused.
    fn fill(&mut self, op: NodeOp, dtype: DType, sizes: Vec<i64>) -> NodeId {
        let key = match op {
            NodeOp::Full(x) => (None, x.to_bits(), dtype, sizes),
            NodeOp::Iota(d) => (Some(d), 0, dtype, sizes),
            _ => return self.push(op, vec![], dtype, sizes),
        };
        if let Some(n) = self.fills.get(&key) {
            return *n;
        }
        let n = self.push(op, vec![], dtype, key.3.clone());
        self.fills.insert(key, n);
        n
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn each(dtype: DType, sizes: &[i64], f: impl Fn(&[i64]) -> f64) -> Const {
        let steps = strides(sizes);
        let n: i64 = sizes.iter().product();
        let at = |i: i64| -> Vec<i64> { (0..sizes.len()).map(|d| i / steps[d] % sizes[d]).collect() };
        Const::each(dtype, sizes, (0..n).map(|i| f(&at(i))).collect()).expect("a constant")
    }

    #[test]
    fn formulas_are_found_where_they_are_exact() {
        let line = |start: f64, step: f64| move |at: &[i64]| start + step * at[0] as f64;
        let found = each(DType::F32, &[5], line(2.0, -3.0)).formula();
        assert_eq!(found, Some(Formula::Line { dim: 0, start: 2.0, step: -3.0 }));
        assert_eq!(each(DType::F32, &[5], line(0.5, 1.0)).formula(), None);
        // 257 is not representable in bf16, so this stays data.
        assert_eq!(each(DType::Bf16, &[300], line(0.0, 1.0)).formula(), None);
        assert_eq!(each(DType::F32, &[2], line(4.0, 5.0)).formula(), None);
        for (dtype, k) in [(DType::F32, 0), (DType::I32, 2), (DType::F32, -1), (DType::F16, -3)] {
            for (rows, cols) in [(4, 4), (3, 6), (6, 3)] {
                let below = each(dtype, &[1, rows, cols], |at| f64::from(u8::from(at[2] <= at[1] + k)));
                let above = each(dtype, &[rows, 1, cols], |at| if at[2] > at[0] + k { -1e4 } else { 0.0 });
                for c in [below, above] {
                    if c.uniform().is_some() {
                        continue;
                    }
                    assert!(matches!(c.formula(), Some(Formula::Choice { .. })), "{c:?}");
                    let mut g = Graph::default();
                    let n = g.formed(&c).expect("it has one");
                    assert_eq!((&g.nodes[n].sizes, g.nodes[n].dtype), (&c.sizes, dtype));
                    assert!(g.constants.is_empty());
                }
            }
        }
        let eye = each(DType::F32, &[3, 4], |at| f64::from(u8::from(at[0] == at[1])));
        let diagonal = Formula::Choice { holds: IndexCondition::Diagonal(1, 0), yes: 1.0, no: 0.0 };
        assert_eq!(eye.formula(), Some(diagonal));
        let odd = each(DType::F32, &[3, 4], |at| f64::from(u8::from((at[0] + at[1]) % 2 == 0)));
        assert_eq!(odd.formula(), None);
        let three = each(DType::F32, &[3, 3], |at| if at[1] <= at[0] { at[0] as f64 } else { -1.0 });
        assert_eq!(three.formula(), None);
        let some = each(DType::I32, &[1, 6], |at| f64::from(u8::from(at[1] < 4)));
        let first = Formula::Choice { holds: IndexCondition::First(1, 3), yes: 1.0, no: 0.0 };
        assert_eq!(some.formula(), Some(first));
    }

    #[test]
    fn infinite_sides_stay_data_of_one_element() {
        let causal = each(DType::F32, &[4, 4], |at| if at[1] <= at[0] { 0.0 } else { f64::NEG_INFINITY });
        let mut g = Graph::default();
        let n = g.formed(&causal).expect("it has a formula");
        assert_eq!(g.nodes[n].op, NodeOp::Select("<="));
        assert_eq!(g.constants.iter().map(|c| c.1.sizes.len()).collect::<Vec<_>>(), [0]);
    }
}
