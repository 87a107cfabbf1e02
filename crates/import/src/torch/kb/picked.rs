//! Operations with element numbers: `index`, the positions of largest elements, and running sums.

use super::consts::Const;
use super::graph::{NodeOp, Operand};
use super::step::{StepResult, Translation};
use super::table::short;
use super::values::{Val, stored_dtype};
use crate::torch::arg::Arg;
use crate::torch::dtype::DType;

use Operand::{Node, Num};

/// Returns the order of dimensions that exchanges dimension `d` and the last one. Applying it twice
/// restores the order.
fn swapped(rank: usize, d: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..rank).collect();
    if rank > 0 {
        order.swap(d, rank - 1);
    }
    order
}

impl Translation<'_> {
    /// Translates `index`. The indexed dimensions are moved to the front and merged, so that one
    /// number selects each row.
    pub(super) fn indexed(&mut self) -> StepResult<Val> {
        let lists = match self.node.arg("indices") {
            Arg::Tensors(l) => l.iter().copied().map(Some).collect(),
            Arg::Optionals(l) => l.clone(),
            _ => return Err("the indices are not lists".into()),
        };
        let x = self.tensor("self", false)?;
        let own = self.g.nodes[x].sizes.clone();
        let at: Vec<usize> = (0..lists.len()).filter(|d| lists[*d].is_some()).collect();
        let rest: Vec<usize> = (0..own.len()).filter(|d| !at.contains(d)).collect();
        let count = |dims: &[usize]| dims.iter().map(|d| own[*d]).product::<i64>();
        if at.is_empty() || count(&at) > i64::from(i32::MAX) {
            return Err("the number of rows is 0 or exceeds i32".into());
        }
        let mut number = Num(0.0);
        for d in &at {
            let v = self.known(lists[*d].unwrap_or_default())?;
            let v = match &v {
                // Negative numbers count from the end.
                Val::Const(c) => {
                    let size = own[*d] as f64;
                    Val::Const(Const::map(c.dtype, &c.sizes, &[c], |x| {
                        if x[0] < 0.0 { x[0] + size } else { x[0] }
                    })?)
                }
                _ => v,
            };
            let next = self.g.operand(&v, DType::I32)?;
            let before = self.g.infix('*', number, Num(own[*d] as f64));
            number = match before {
                Num(0.0) => next,
                _ => self.g.infix('+', before, next),
            };
        }
        let result = self.first()?.1;
        let place = if at.windows(2).all(|w| w[0] + 1 == w[1]) { at[0] } else { 0 };
        let many = result.len().checked_sub(rest.len()).ok_or("a result with fewer dimensions")?;
        let by = &result[place..place + many];
        let ids = self.g.of(number, DType::I64, by)?;
        let ids = self.g.whole(&ids, DType::I32)?;
        let order: Vec<usize> = at.iter().chain(&rest).copied().collect();
        let table = self.g.transpose(x, &order);
        let width = count(&rest);
        let table = self.g.reshape(table, &[count(&at), width]);
        let dtype = self.g.nodes[x].dtype;
        let rows = self.g.push(
            NodeOp::Call("embedding"),
            vec![Node(table), Node(ids)],
            dtype,
            [by, &[width]].concat(),
        );
        let rest: Vec<i64> = rest.iter().map(|d| own[*d]).collect();
        let rows = self.g.reshape(rows, &[by, &rest[..]].concat());
        // The dimensions of the numbers go to the place of the first dimension that they index.
        let back: Vec<usize> =
            (many..many + place).chain(0..many).chain(many + place..result.len()).collect();
        let rows = self.g.transpose(rows, &back);
        self.give(rows, 0)
    }

    /// Translates running sums. Those of constants are folded; others call the library program.
    pub(super) fn cumsum(&mut self) -> StepResult<Val> {
        let (dtype, sizes) = self.first()?;
        let dim = self.dim(self.int("dim")?, sizes.len())?;
        let Val::Const(c) = self.val("self")? else {
            let x = self.tensor("self", false)?;
            let (work, last) = (stored_dtype(dtype)?, sizes.len().saturating_sub(1));
            let order = swapped(sizes.len(), dim);
            let x = self.g.cast(x, work);
            let x = self.g.transpose(x, &order);
            let turned = self.g.nodes[x].sizes.clone();
            // The rows of a matrix; a value with only one dimension is one row.
            let n = turned.get(last).copied().unwrap_or(1);
            let x = self.g.reshape(x, &[turned.iter().product::<i64>() / n.max(1), n]);
            let matrix = self.g.nodes[x].sizes.clone();
            let sums = self.g.push(NodeOp::Call("cumsum"), vec![Node(x)], work, matrix);
            let sums = self.g.reshape(sums, &turned);
            let sums = self.g.transpose(sums, &order);
            return self.give(sums, 0);
        };
        let step: usize = sizes[dim + 1..].iter().product::<i64>() as usize;
        let mut list = c.elements()?;
        for i in 0..list.len() {
            if (i / step) as i64 % sizes[dim] > 0 {
                list[i] += list[i - step];
            }
        }
        Const::each(dtype, &sizes, list).map(Val::Const)
    }

    /// Translates the index of the largest element, of a dimension or of the whole tensor.
    /// `min.dim` is that of the negated elements.
    pub(super) fn largest(&mut self) -> StepResult<Val> {
        let mut x = self.tensor("self", false)?;
        let own = self.g.nodes[x].sizes.clone();
        let dim = if self.has("dim") { Some(self.dim(self.int("dim")?, own.len())?) } else { None };
        if short(self.node.op.name) == "min" {
            let Node(minus) = self.g.call("-", &[Node(x)]) else {
                return Err("its operand is a number".into());
            };
            x = minus;
        }
        let x = match dim {
            Some(d) => self.g.transpose(x, &swapped(own.len(), d)),
            None => self.g.reshape(x, &[own.iter().product()]),
        };
        let mut rest = self.g.nodes[x].sizes.clone();
        rest.pop();
        let mut at = self.g.push(NodeOp::Call("argmax"), vec![Node(x)], DType::I32, rest.clone());
        // The last dimension took the place of the removed one.
        if let Some(d) = dim.filter(|d| d + 1 < own.len()) {
            let mut order: Vec<usize> = (0..rest.len()).filter(|i| *i != d).collect();
            order.push(d);
            at = self.g.transpose(at, &order);
        }
        let result = self.node.outputs.len() - 1;
        let sizes = self.meta(result)?.1;
        let at = self.g.reshape(at, &sizes);
        self.give(at, result)
    }
}
