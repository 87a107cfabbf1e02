//! Elementwise functions that kbc composes from several operations, integer quotients, and lookups
//! of one element per row.
//!
//! The formulas are those of `torch/_decomp/decompositions.py` and `torch/_refs` (PyTorch 2.10),
//! computed in f32 for half-precision types.

use super::consts::Const;
use super::graph::{Graph, NodeId, NodeOp, Operand};
use super::step::{StepResult, Translation};
use super::values::{Compared, Val, stored_dtype};
use crate::torch::dtype::DType;

use Operand::{Node, Num};

/// Greatest number of slices that build a reversed dimension.
const REVERSED: i64 = 64;

/// Chooses one of two operands by a comparison such as `a < b`.
fn choose(g: &mut Graph, how: &'static str, sides: [Operand; 2], yes: Operand, no: Operand) -> Operand {
    g.elementwise(NodeOp::Select(how), &[sides[0], sides[1], yes, no])
}

impl Translation<'_> {
    /// Translates elementwise functions that need several operations; none for another name.
    pub fn composed(&mut self, name: &str) -> Option<StepResult<Val>> {
        let numbers = |s: &Self, names: [&str; 3]| names.map(|n| s.number(n).unwrap_or(1.0));
        let x = match self.val("self") {
            Ok(x) => [x],
            Err(why) => return Some(Err(why)),
        };
        Some(match name {
            "sign" => self.apply(
                &x,
                false,
                |v| if v[0] == 0.0 || v[0].is_nan() { v[0] } else { v[0].signum() },
                |g, o| {
                    let below = choose(g, "<", [o[0], Num(0.0)], Num(-1.0), o[0]);
                    choose(g, ">", [o[0], Num(0.0)], Num(1.0), below)
                },
            ),
            "expm1" => self.apply(&x, true, |v| v[0].exp_m1(), |g, o| less_one(g, o[0])),
            "erfc" => self.apply(
                &x,
                true,
                |v| libm::erfc(v[0]),
                |g, o| {
                    let e = g.call("erf", o);
                    g.infix('-', Num(1.0), e)
                },
            ),
            "exp2" => self.apply(&x, true, |v| v[0].exp2(), |g, o| power_of(g, 2.0, o[0])),
            "log2" => self.apply(
                &x,
                true,
                |v| v[0].log2(),
                |g, o| {
                    let l = g.call("log", o);
                    g.infix('*', l, Num(std::f64::consts::LOG2_E))
                },
            ),
            "tan" => self.apply(
                &x,
                true,
                |v| v[0].tan(),
                |g, o| {
                    let (s, c) = (g.call("sin", o), g.call("cos", o));
                    g.infix('/', s, c)
                },
            ),
            "sinh" => self.apply(&x, true, |v| v[0].sinh(), |g, o| hyperbolic(g, '-', o[0])),
            "cosh" => self.apply(&x, true, |v| v[0].cosh(), |g, o| hyperbolic(g, '+', o[0])),
            "elu" => {
                let [alpha, scale, inner] = numbers(self, ["alpha", "scale", "input_scale"]);
                self.apply(
                    &x,
                    true,
                    |v| scale * if v[0] > 0.0 { v[0] } else { alpha * (inner * v[0]).exp_m1() },
                    |g, o| {
                        let y = g.infix('*', o[0], Num(inner));
                        let e = less_one(g, y);
                        let (no, yes) = (g.infix('*', e, Num(alpha * scale)), g.infix('*', o[0], Num(scale)));
                        choose(g, ">", [o[0], Num(0.0)], yes, no)
                    },
                )
            }
            "leaky_relu" => {
                let [slope, ..] = numbers(self, ["negative_slope"; 3]);
                self.apply(
                    &x,
                    true,
                    |v| if v[0] > 0.0 { v[0] } else { slope * v[0] },
                    |g, o| {
                        let no = g.infix('*', o[0], Num(slope));
                        choose(g, ">", [o[0], Num(0.0)], o[0], no)
                    },
                )
            }
            "flip" => self.flipped(&x[0]),
            "repeat" => self.repeated(&x[0]),
            _ => return None,
        })
    }

    /// Reverses dimensions.
    fn flipped(&mut self, x: &Val) -> StepResult<Val> {
        let (dtype, sizes) = self.first()?;
        let mut n = self.g.whole(x, stored_dtype(dtype)?)?;
        for d in self.ints("dims")? {
            let dim = self.dim(d, sizes.len())?;
            if sizes[dim] > REVERSED {
                return Err(format!(
                    "reversing a dimension of size {} would need too many slices",
                    sizes[dim]
                ));
            }
            let list: Vec<NodeId> = (0..sizes[dim]).rev().map(|i| self.g.slice(n, dim, i, i + 1)).collect();
            if !list.is_empty() {
                n = self.g.concat(&list, dim);
            }
        }
        Ok(Val::Node(n))
    }

    /// Repeats each dimension, by copies along a dimension of their own.
    fn repeated(&mut self, x: &Val) -> StepResult<Val> {
        let (dtype, sizes) = self.first()?;
        let times = self.ints("repeats")?;
        let own = self.g.sizes(x).to_vec();
        let lead = times.len() - own.len();
        let (mut one, mut wide) = (vec![], vec![]);
        for (d, t) in times.iter().enumerate() {
            let n = if d < lead { 1 } else { own[d - lead] };
            one.extend([1, n]);
            wide.extend([*t, n]);
        }
        let keep = stored_dtype(dtype)?;
        let n = self.g.whole(x, keep)?;
        let n = self.g.reshape(n, &one);
        let n = self.g.whole(&Val::Wide(n, wide), keep)?;
        Ok(Val::Node(self.g.reshape(n, &sizes)))
    }

    /// Takes elements `from`, `from + step`, .. of a dimension: the first of every `step` elements.
    /// A last element with fewer than `step - 1` elements after it is taken separately.
    pub fn stepped(&mut self, n: NodeId, dim: usize, from: i64, count: i64, step: i64) -> StepResult<NodeId> {
        let sizes = self.g.nodes[n].sizes.clone();
        let full = if from + count * step <= sizes[dim] { count } else { count - 1 };
        let mut parts = vec![];
        if full > 0 {
            let x = self.g.slice(n, dim, from, from + full * step);
            let mut cut = sizes.clone();
            cut.splice(dim..=dim, [full, step]);
            let x = self.g.reshape(x, &cut);
            let x = self.g.slice(x, dim + 1, 0, 1);
            cut.remove(dim + 1);
            parts.push(self.g.reshape(x, &cut));
        }
        if full < count {
            let at = from + full * step;
            parts.push(self.g.slice(n, dim, at, at + 1));
        }
        if parts.is_empty() {
            Err("an empty slice is not supported".into())
        } else {
            Ok(self.g.concat(&parts, dim))
        }
    }

    /// Returns where an index equals the position of an element along a dimension, the operand cut
    /// to the sizes of the index, and the dimension.
    fn marked(&mut self) -> StepResult<(Val, Val, usize)> {
        let x = self.val("self")?;
        let index = self.val("index")?;
        let (own, at) = (self.g.sizes(&x).to_vec(), self.g.sizes(&index).to_vec());
        let dim = self.dim(self.int("dim")?, own.len())?;
        if at.get(dim) != Some(&1) || own.is_empty() {
            return Err("several indices along the dimension are not supported".into());
        }
        if (0..own.len()).any(|d| d != dim && at[d] != own[d]) {
            return Err("fewer indices than rows are not supported".into());
        }
        let mut line = vec![1; own.len()];
        line[dim] = own[dim];
        let numbers = Const::each(DType::I64, &line, (0..own[dim]).map(|i| i as f64).collect())?;
        let numbers = self.g.operand(&Val::Const(numbers), DType::I32)?;
        let index = Node(self.g.whole(&index, DType::I32)?);
        let hit = Compared { how: "==", sides: [index, numbers], not: false, sizes: own };
        Ok((Val::Compared(hit), x, dim))
    }

    /// Translates a `gather` of one element per row: the sum over the row of the marked elements.
    pub fn gathered(&mut self) -> StepResult<Val> {
        let dtype = self.first()?.0;
        let keep = stored_dtype(dtype)?;
        let (hit, x, dim) = self.marked()?;
        let zero = Val::Const(Const::one(dtype, &[], 0.0)?);
        let Node(n) = self.g.select(&hit, &x, &zero, keep)? else {
            return Err("all operands are numbers".into());
        };
        let n = self.g.reduce("sum", n, dim, true);
        self.give(n, 0)
    }

    /// Translates a `scatter` of one number to one position per row.
    pub fn put(&mut self) -> StepResult<Val> {
        let (dtype, sizes) = self.first()?;
        let (hit, x, _) = self.marked()?;
        let value = Val::Const(Const::one(dtype, &[], self.number("value")?)?);
        let out = self.g.select(&hit, &value, &x, stored_dtype(dtype)?)?;
        self.g.of(out, dtype, &sizes)
    }

    /// Translates integer quotients, rounded down or toward zero, and remainders.
    pub fn quotient(&mut self, name: &str, list: &[Val; 2]) -> StepResult<Val> {
        let down = name != "div" || self.word("rounding_mode") == "floor";
        let rest = name == "remainder";
        let known = matches!(list, [Val::Const(_), Val::Const(_)]);
        if !known && self.first()?.0.class() == 2 {
            return Err("kbc does not round quotients".into());
        }
        let fold = |v: &[f64]| {
            let q = v[0] / v[1];
            let q = if down { q.floor() } else { q.trunc() };
            if rest { v[0] - q * v[1] } else { q }
        };
        self.apply(list, false, fold, |g, o| {
            // kbc's quotient is rounded toward zero.
            let q = g.infix('/', o[0], o[1]);
            if !down {
                return q;
            }
            let back = g.infix('*', q, o[1]);
            let left = g.infix('-', o[0], back);
            let sign = match o[1] {
                Num(x) => Num(x.signum()),
                Node(_) => {
                    let below = choose(g, "<", [o[1], Num(0.0)], Num(-1.0), Num(1.0));
                    if matches!(below, Num(_)) { Num(1.0) } else { below }
                }
            };
            // The remainder must be 0 or have the sign of the divisor.
            let wrong = g.infix('*', left, sign);
            let (yes, no) = match rest {
                true => (g.infix('+', left, o[1]), left),
                false => (g.infix('-', q, Num(1.0)), q),
            };
            choose(g, "<", [wrong, Num(0.0)], yes, no)
        })
    }

    /// Translates gradients that are computed from the result of the operation.
    pub fn by_output(&mut self) -> StepResult<Val> {
        let (grad, out) = (self.tensor("grad_output", true)?, self.tensor("output", true)?);
        let n = match self.node.op.name {
            "aten.tanh_backward.default" => {
                let square = self.g.infix('*', Node(out), Node(out));
                let slope = self.g.infix('-', Num(1.0), square);
                self.g.infix('*', Node(grad), slope)
            }
            "aten.sigmoid_backward.default" => {
                let rest = self.g.infix('-', Num(1.0), Node(out));
                let slope = self.g.infix('*', rest, Node(out));
                self.g.infix('*', Node(grad), slope)
            }
            // Backward operation of log_softmax.
            _ => {
                let dim = self.dim(self.int("dim")?, self.g.nodes[out].sizes.len())?;
                let sum = self.g.reduce("sum", grad, dim, true);
                let e = self.g.call("exp", &[Node(out)]);
                let part = self.g.infix('*', e, Node(sum));
                self.g.infix('-', Node(grad), part)
            }
        };
        match n {
            Node(n) => self.give(n, 0),
            Num(_) => Err("all operands are numbers".into()),
        }
    }
}

/// Builds `exp(x) - 1`.
fn less_one(g: &mut Graph, x: Operand) -> Operand {
    let e = g.call("exp", &[x]);
    g.infix('-', e, Num(1.0))
}

/// Builds a positive number to the power of x.
pub fn power_of(g: &mut Graph, base: f64, x: Operand) -> Operand {
    let y = g.infix('*', x, Num(base.ln()));
    g.call("exp", &[y])
}

/// Builds `(exp(x) + exp(-x)) / 2`, or the difference instead of the sum.
fn hyperbolic(g: &mut Graph, op: char, x: Operand) -> Operand {
    let minus = g.call("-", &[x]);
    let (a, b) = (g.call("exp", &[x]), g.call("exp", &[minus]));
    let sum = g.infix(op, a, b);
    g.infix('*', sum, Num(0.5))
}
