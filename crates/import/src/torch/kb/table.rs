//! Meanings of PyTorch operations in kbc, by the rule of their row in the table of operations.
//!
//! An operation without a meaning here, or not with the given arguments, cannot be expressed
//! (E550). Whole formulas are in [`super::formulas`], operations that move elements in
//! [`super::moved`].

use super::consts::Const;
use super::graph::{Graph, NodeId, NodeOp, Operand};
use super::more::power_of;
use super::step::{StepResult, Translation};
use super::values::{Compared, Val, stored_dtype};
use crate::torch::dtype::DType;
use crate::torch::rule::Rule;
use kbc_ir::scalar::ScalarUn;
use kbc_numerics::functions::function;

use Operand::{Node, Num};

/// An elementwise function: PyTorch's name, kbc's name, its value, and whether half-precision types
/// are computed in f32.
type Unary = (&'static str, &'static str, fn(f64) -> f64, bool);

/// The functions that kbc's scalar functions do not have, or that have another name there.
const UNARY: [Unary; 6] = [
    ("relu", "relu", |x| x.max(0.0), false),
    ("neg", "-", |x| -x, false),
    ("sigmoid", "sigmoid", |x| 1.0 / (1.0 + (-x).exp()), true),
    ("silu", "silu", |x| x / (1.0 + (-x).exp()), true),
    ("gelu", "gelu", |x| 0.5 * x * (1.0 + libm::erf(x * std::f64::consts::FRAC_1_SQRT_2)), true),
    ("reciprocal", "1/", |x| 1.0 / x, false),
];

/// Returns the row of a function of PyTorch. kbc's scalar functions have the names of PyTorch's.
fn unary_of(name: &str) -> Option<Unary> {
    let own = || ScalarUn::parse(name).map(|f| (f.name(), f.name(), function(f).f64, false));
    UNARY.into_iter().find(|u| u.0 == name).or_else(own)
}

/// A comparison: PyTorch's name, kbc's operator, its value.
type Comparison = (&'static str, &'static str, fn(f64, f64) -> bool);

const COMPARE: [Comparison; 6] = [
    ("eq", "==", |a, b| a == b),
    ("ne", "!=", |a, b| a != b),
    ("lt", "<", |a, b| a < b),
    ("le", "<=", |a, b| a <= b),
    ("gt", ">", |a, b| a > b),
    ("ge", ">=", |a, b| a >= b),
];

/// Returns the short name of an operation, such as `gelu` for `aten.gelu.default`.
pub(super) fn short(name: &str) -> &str {
    name.split('.').nth(1).unwrap_or(name)
}

impl Translation<'_> {
    /// Translates the operation into its results.
    ///
    /// # Errors
    /// Returns the reason why it has no meaning in kbc.
    pub fn results(
        &mut self,
        over: Option<&std::ops::Range<usize>>,
        counts: &[Vec<i64>],
    ) -> StepResult<Vec<Val>> {
        let rule = self.node.op.rule;
        let name = self.node.op.name;
        match rule {
            Rule::Nothing | Rule::Number | Rule::SymSize => Ok(vec![]),
            Rule::Wait => self.waited(),
            r if r.is_collective() => self.collective(rule, over, counts),
            Rule::Mm
            | Rule::Bmm
            | Rule::Addmm
            | Rule::Baddbmm
            | Rule::Matmul
            | Rule::Linear
            | Rule::Einsum => self.product(rule).map(|v| vec![v]),
            Rule::Same | Rule::Float => match short(name) {
                "clone" | "alias" | "detach" | "contiguous" | "lift_fresh_copy" => {
                    Ok(vec![self.val("self")?])
                }
                "redistribute" => {
                    let x = self.tensor("self", false)?;
                    let (dtype, sizes) = (self.g.nodes[x].dtype, self.g.nodes[x].sizes.clone());
                    Ok(vec![Val::Node(self.g.push(NodeOp::Placed, vec![Node(x)], dtype, sizes))])
                }
                "tril" => self.triangle(false),
                "triu" => self.triangle(true),
                "bitwise_not" => self.not().map(|v| vec![v]),
                other => match self.composed(other) {
                    Some(v) => v.map(|v| vec![v]),
                    None => self.unary().map(|v| vec![v]),
                },
            },
            Rule::Clamp => self.clamp().map(|v| vec![v]),
            Rule::Masked | Rule::Where => self.choice(rule).map(|v| vec![v]),
            Rule::Copy => {
                let (dtype, sizes) = self.first()?;
                let x = self.val("src")?;
                self.turned(&x, dtype, &sizes).map(|v| vec![v])
            }
            Rule::Cast if short(name) == "empty_like" => Ok(vec![]),
            Rule::Cast => {
                let (dtype, sizes) = self.first()?;
                if let Some(x) = self.filling() {
                    return Ok(vec![Val::Const(Const::one(dtype, &sizes, x?)?)]);
                }
                let x = self.val("self")?;
                self.turned(&x, dtype, &sizes).map(|v| vec![v])
            }
            Rule::Full => {
                let (dtype, sizes) = self.first()?;
                // The elements of `empty` have no value. Only its sizes and its type may be used.
                let Some(x) = self.filling() else { return Ok(vec![]) };
                let x = x?;
                Ok(vec![Val::Const(Const::one(dtype, &sizes, x)?)])
            }
            Rule::Arange => {
                let (dtype, sizes) = self.first()?;
                let or = |name: &str, x| if self.has(name) { self.number(name) } else { Ok(x) };
                let (start, step) = (or("start", 0.0)?, or("step", 1.0)?);
                let list = (0..sizes[0]).map(|i| start + i as f64 * step).collect();
                Ok(vec![Val::Const(Const::each(dtype, &sizes, list)?)])
            }
            Rule::Repeat => {
                self.composed("repeat").ok_or("kbc does not support this operation")?.map(|v| vec![v])
            }
            Rule::Gather => self.gathered().map(|v| vec![v]),
            Rule::Scatter => self.put().map(|v| vec![v]),
            Rule::OutputBackward => self.by_output().map(|v| vec![v]),
            Rule::Logical => match short(name) {
                "logical_not" => self.not().map(|v| vec![v]),
                "isnan" => self.compare().map(|v| vec![v]),
                other => self.logic(other == "logical_and").map(|v| vec![v]),
            },
            Rule::Binary | Rule::Divide => self.binary().map(|v| vec![v]),
            Rule::Compare => self.compare().map(|v| vec![v]),
            Rule::Sum | Rule::Mean | Rule::Extreme | Rule::Any | Rule::MaxDim => self.reduction(rule),
            Rule::Dropout => {
                if self.flag("train") && self.number("p")? != 0.0 {
                    return Err("its mask is random".into());
                }
                let x = self.val("input")?;
                let (dtype, sizes) = self.meta(1)?;
                Ok(vec![x, Val::Const(Const::one(dtype, &sizes, 1.0)?)])
            }
            Rule::SliceScatter => self.scattered(),
            Rule::OneHot => self.one_hot(),
            Rule::Cumsum => self.cumsum().map(|v| vec![v]),
            Rule::Embedding => {
                let (w, ids) = (self.tensor("weight", false)?, self.tensor("indices", false)?);
                let (dtype, sizes) = (self.g.nodes[w].dtype, self.first()?.1);
                Ok(vec![Val::Node(self.g.push(
                    NodeOp::Call("embedding"),
                    vec![Node(w), Node(ids)],
                    dtype,
                    sizes,
                ))])
            }
            Rule::Index => self.indexed().map(|v| vec![v]),
            Rule::ArgMax => self.largest().map(|v| vec![v]),
            Rule::Softmax
            | Rule::SoftmaxTo
            | Rule::SoftmaxBackward
            | Rule::LayerNorm
            | Rule::LayerNormBackward
            | Rule::Loss
            | Rule::LossBackward
            | Rule::Backward
            | Rule::Attention => self.formula(rule),
            _ => self.moved(rule),
        }
    }

    /// Returns the value of the elements of a created tensor.
    fn filling(&self) -> Option<StepResult<f64>> {
        match short(self.node.op.name) {
            "full" | "full_like" => Some(self.number("fill_value")),
            "ones" | "ones_like" => Some(Ok(1.0)),
            "zeros" | "zeros_like" => Some(Ok(0.0)),
            "scalar_tensor" => Some(self.number("s")),
            _ => None,
        }
    }

    /// Converts a value to another element type and broadcasts it to larger sizes.
    fn turned(&mut self, x: &Val, dtype: DType, sizes: &[i64]) -> StepResult<Val> {
        match x {
            Val::Const(c) => Ok(Val::Const(c.cast(dtype)?.broadcast(sizes)?)),
            // A number is true if it is not 0.
            _ if dtype == DType::Bool => {
                let c = self.g.compared(x)?;
                Ok(Val::Compared(Compared { sizes: sizes.to_vec(), ..c }))
            }
            _ => {
                let o = self.g.operand(x, stored_dtype(dtype)?)?;
                self.g.of(o, dtype, sizes)
            }
        }
    }

    /// Returns an operand of a matmul. A matrix that is repeated for a batch is used once, because
    /// batches broadcast.
    fn factor(&mut self, name: &str, up: bool) -> StepResult<NodeId> {
        if let Val::Wide(n, wide) = self.val(name)?
            && let (own, [.., r, c]) = (&self.g.nodes[n].sizes, &wide[..])
            && own.len() >= 2
            && own[own.len() - 2..] == [*r, *c]
        {
            let keep = stored_dtype(self.dtype_of(name).unwrap_or(DType::F32))?;
            let work = if up && keep != DType::I32 { DType::F32 } else { keep };
            return Ok(self.g.cast(n, work));
        }
        self.tensor(name, up)
    }

    fn product(&mut self, rule: Rule) -> StepResult<Val> {
        let (dtype, sizes) = self.first()?;
        let keep = stored_dtype(dtype)?;
        if rule == Rule::Einsum {
            return Err("export after run_decompositions(), which turns it into a matmul".into());
        }
        let (a, b, added) = match rule {
            Rule::Addmm => ("mat1", "mat2", Some("self")),
            Rule::Baddbmm => ("batch1", "batch2", Some("self")),
            Rule::Linear => ("input", "weight", Some("bias")),
            Rule::Matmul => ("self", "other", None),
            _ => ("self", "mat2", None),
        };
        let scaled = matches!(rule, Rule::Addmm | Rule::Baddbmm);
        let half = keep == DType::F16 || keep == DType::Bf16;
        // For half-precision types, the sum is rounded only once.
        let up = added.is_some_and(|n| self.has(n)) && half;
        let (mut x, mut y) = (self.factor(a, up)?, self.factor(b, up)?);
        if rule == Rule::Linear {
            y = self.g.transpose(y, &[1, 0]);
        }
        if self.g.nodes[x].sizes.len() == 1 {
            let n = self.g.nodes[x].sizes[0];
            x = self.g.reshape(x, &[1, n]);
        }
        if self.g.nodes[y].sizes.len() == 1 {
            let n = self.g.nodes[y].sizes[0];
            y = self.g.reshape(y, &[n, 1]);
        }
        let product = self.g.matmul(x, y);
        let mut out = Node(self.g.reshape(product, &sizes));
        if scaled {
            out = self.g.infix('*', out, Num(self.number("alpha")?));
        }
        if let Some(name) = added.filter(|n| self.has(n)) {
            let v = self.val(name)?;
            let work = if up { DType::F32 } else { keep };
            let beta = if scaled { self.number("beta")? } else { 1.0 };
            if beta != 0.0 {
                let bias = self.g.operand(&v, work)?;
                let bias = self.g.infix('*', bias, Num(beta));
                out = self.g.infix('+', out, bias);
            }
        }
        match out {
            Node(n) => self.give(n, 0),
            num => self.g.of(num, dtype, &sizes),
        }
    }

    fn unary(&mut self) -> StepResult<Val> {
        let name = short(self.node.op.name);
        let (_, kb, fold, up) = unary_of(name).ok_or("kbc does not support this function")?;
        let x = self.val("self")?;
        let kb = if name == "gelu" && self.word("approximate") == "tanh" { "gelu_tanh" } else { kb };
        if kb == "gelu_tanh" && matches!(x, Val::Const(_)) {
            return Err("its operand is a constant".into());
        }
        self.apply(
            &[x],
            up,
            |v| fold(v[0]),
            |g, o| match kb {
                "-" => g.call("-", o),
                "1/" => g.infix('/', Num(1.0), o[0]),
                f => g.call(f, o),
            },
        )
    }

    fn clamp(&mut self) -> StepResult<Val> {
        let mut all = vec![self.val("self")?];
        let mut hows = vec![];
        for (name, how) in [("min", "max"), ("min_val", "max"), ("max", "min"), ("max_val", "min")] {
            if self.has(name) {
                all.push(self.val(name)?);
                hows.push(how);
            }
        }
        let hows = &hows;
        let fold = |v: &[f64]| {
            hows.iter()
                .zip(&v[1..])
                .fold(v[0], |x, (how, y)| if *how == "max" { x.max(*y) } else { x.min(*y) })
        };
        self.apply(&all, false, fold, |g, o| {
            hows.iter().zip(&o[1..]).fold(o[0], |x, (how, y)| g.call(how, &[x, *y]))
        })
    }

    /// Translates `where` and `masked_fill`.
    fn choice(&mut self, rule: Rule) -> StepResult<Val> {
        let (dtype, sizes) = self.first()?;
        let (c, x, y) = match rule {
            Rule::Where => (self.val("condition")?, self.val("self")?, self.val("other")?),
            _ => (self.val("mask")?, self.val("value")?, self.val("self")?),
        };
        if let (Val::Const(a), Val::Const(b), Val::Const(d)) = (&c, &x, &y) {
            let all = Const::map(dtype, &sizes, &[a, b, d], |v| if v[0] != 0.0 { v[1] } else { v[2] })?;
            return Ok(Val::Const(all));
        }
        let out = self.g.select(&c, &x, &y, stored_dtype(dtype)?)?;
        self.g.of(out, dtype, &sizes)
    }

    /// Translates the negation of a truth value, or of the bits of an integer.
    fn not(&mut self) -> StepResult<Val> {
        let (dtype, sizes) = self.first()?;
        let x = self.val("self")?;
        let bits = dtype != DType::Bool;
        match &x {
            Val::Const(c) if bits => Const::map(dtype, &sizes, &[c], |v| -v[0] - 1.0).map(Val::Const),
            Val::Const(c) => {
                Const::map(dtype, &sizes, &[c], |v| f64::from(u8::from(v[0] == 0.0))).map(Val::Const)
            }
            _ if bits => self.apply(&[x], false, |_| 0.0, |g, o| g.infix('-', Num(-1.0), o[0])),
            _ => {
                let c = self.g.compared(&x)?;
                Ok(Val::Compared(Compared { not: !c.not, ..c }))
            }
        }
    }

    /// Translates `and` and `or` on truth values 0 and 1, as minimum and maximum.
    fn logic(&mut self, and: bool) -> StepResult<Val> {
        let (dtype, sizes) = self.first()?;
        let list = [self.val("self")?, self.val("other")?];
        if dtype != DType::Bool {
            return Err("kbc has no bitwise operations".into());
        }
        // A constant side decides the result, or has no effect.
        for (i, v) in list.iter().enumerate() {
            if let Val::Const(c) = v
                && let Some(x) = c.uniform()
                && !self.g.plain
            {
                return match (x != 0.0) == and {
                    true => self.turned(&list[1 - i].clone(), DType::Bool, &sizes),
                    false => Ok(Val::Const(Const::one(DType::Bool, &sizes, x)?)),
                };
            }
        }
        let fold = |v: &[f64]| {
            let (a, b) = (v[0] != 0.0, v[1] != 0.0);
            f64::from(u8::from(if and { a && b } else { a || b }))
        };
        self.apply(&list, false, fold, |g, o| g.call(if and { "min" } else { "max" }, o))
    }

    fn compare(&mut self) -> StepResult<Val> {
        let (dtype, sizes) = self.first()?;
        let name = short(self.node.op.name);
        // Only NaN differs from itself.
        let (name, second) = if name == "isnan" { ("ne", "self") } else { (name, "other") };
        let (_, how, fold) =
            COMPARE.iter().find(|c| c.0 == name).ok_or("kbc does not support this comparison")?;
        let (a, b) = (self.val("self")?, self.val(second)?);
        if let (Val::Const(x), Val::Const(y)) = (&a, &b) {
            let all = Const::map(dtype, &sizes, &[x, y], |v| f64::from(u8::from(fold(v[0], v[1]))))?;
            return Ok(Val::Const(all));
        }
        // Both sides are compared in their promoted type.
        let types = ["self", second].map(|n| self.dtype_of(n));
        let work = match types {
            [Some(x), Some(y)] => stored_dtype(x.with(y).ok_or("the element types cannot be combined")?)?,
            [Some(x), None] | [None, Some(x)] => stored_dtype(x)?,
            [None, None] => DType::F32,
        };
        let sides = [self.g.operand(&a, work)?, self.g.operand(&b, work)?];
        Ok(Val::Compared(Compared { how, sides, not: false, sizes }))
    }

    fn binary(&mut self) -> StepResult<Val> {
        let name = short(self.node.op.name);
        let second = if self.has("exponent") { "exponent" } else { "other" };
        let (a, b) = (self.val("self")?, self.val(second)?);
        let alpha = if self.has("alpha") { self.number("alpha")? } else { 1.0 };
        let scaled = move |g: &mut Graph, o: Operand| g.infix('*', o, Num(alpha));
        let list = [a, b];
        match name {
            "add" => self.apply(
                &list,
                alpha != 1.0,
                |v| v[0] + alpha * v[1],
                |g, o| {
                    let y = scaled(g, o[1]);
                    g.infix('+', o[0], y)
                },
            ),
            "sub" => self.apply(
                &list,
                alpha != 1.0,
                |v| v[0] - alpha * v[1],
                |g, o| {
                    let y = scaled(g, o[1]);
                    g.infix('-', o[0], y)
                },
            ),
            "rsub" => self.apply(
                &list,
                alpha != 1.0,
                |v| v[1] - alpha * v[0],
                |g, o| {
                    let x = scaled(g, o[0]);
                    g.infix('-', o[1], x)
                },
            ),
            "mul" => self.apply(&list, false, |v| v[0] * v[1], |g, o| g.infix('*', o[0], o[1])),
            "div" if !self.word("rounding_mode").is_empty() => self.quotient(name, &list),
            "div" => self.apply(&list, false, |v| v[0] / v[1], |g, o| g.infix('/', o[0], o[1])),
            "maximum" => self.apply(&list, false, |v| v[0].max(v[1]), |g, o| g.call("max", o)),
            "minimum" => self.apply(&list, false, |v| v[0].min(v[1]), |g, o| g.call("min", o)),
            "bitwise_and" => self.logic(true),
            "bitwise_or" => self.logic(false),
            "pow" => self.power(&list),
            "bitwise_xor" if self.first()?.0 == DType::Bool => {
                let fold = |v: &[f64]| f64::from(u8::from((v[0] != 0.0) != (v[1] != 0.0)));
                self.apply(&list, false, fold, |g, o| {
                    g.elementwise(NodeOp::Select("!="), &[o[0], o[1], Num(1.0), Num(0.0)])
                })
            }
            "floor_divide" | "remainder" => self.quotient(name, &list),
            _ => Err("kbc does not support this operation".into()),
        }
    }

    /// Translates powers with a literal exponent.
    fn power(&mut self, list: &[Val]) -> StepResult<Val> {
        let Val::Const(e) = &list[1] else {
            return match &list[0] {
                Val::Const(c) if c.uniform().is_some_and(|b| b > 0.0) => {
                    let base = c.uniform().unwrap_or(1.0);
                    let fold = |v: &[f64]| base.powf(v[0]);
                    self.apply(&list[1..], true, fold, |g, o| power_of(g, base, o[0]))
                }
                _ => Err("the exponent depends on data".into()),
            };
        };
        let e = e.uniform().ok_or("the exponents differ")?;
        let base = [list[0].clone()];
        let fold = |v: &[f64]| v[0].powf(e);
        match e {
            0.5 => self.apply(&base, false, fold, |g, o| g.call("sqrt", o)),
            -0.5 => self.apply(&base, false, fold, |g, o| g.call("rsqrt", o)),
            -1.0 => self.apply(&base, false, fold, |g, o| g.infix('/', Num(1.0), o[0])),
            2.0 => self.apply(&base, false, fold, |g, o| g.infix('*', o[0], o[0])),
            n if n.fract() == 0.0 && (0.0..=64.0).contains(&n) => {
                self.apply(&base, true, fold, |g, o| g.call("pow_int", &[o[0], Num(n)]))
            }
            n if n.fract() == 0.0 && (-64.0..0.0).contains(&n) => self.apply(&base, true, fold, |g, o| {
                let p = g.call("pow_int", &[o[0], Num(-n)]);
                g.infix('/', Num(1.0), p)
            }),
            // For a base that is not negative, as in PyTorch.
            n => self.apply(&base, true, fold, |g, o| {
                let l = g.call("log", o);
                let l = g.infix('*', l, Num(n));
                g.call("exp", &[l])
            }),
        }
    }

    fn reduction(&mut self, rule: Rule) -> StepResult<Vec<Val>> {
        let (dtype, sizes) = self.first()?;
        let x = self.val("self")?;
        let own = self.g.sizes(&x).to_vec();
        let mut dims = self.dims(own.len())?;
        dims.sort_unstable();
        let keep = self.flag("keepdim");
        let name = short(self.node.op.name);
        if matches!(name, "var" | "var_mean") {
            return self.variance(&dims, keep);
        }
        let how = match (rule, name) {
            (Rule::Sum, "prod") => "prod",
            (Rule::Sum, _) => "sum",
            (Rule::Mean, _) => "mean",
            (_, "amin" | "min") => "min",
            _ => "max",
        };
        if let Val::Const(c) = &x {
            let c = if rule == Rule::Any { c.cast(DType::Bool)? } else { c.clone() };
            let f = |a: f64, b: f64| match how {
                "max" => a.max(b),
                "min" => a.min(b),
                "prod" => a * b,
                _ => a + b,
            };
            let all = c.reduced(DType::F64, &dims, f)?;
            let n: i64 = dims.iter().map(|d| own[*d]).product();
            let by = if how == "mean" { n as f64 } else { 1.0 };
            let out = Const::map(dtype, &all.sizes.clone(), &[&all], |v| v[0] / by)?;
            // The index of a maximum has no value here, and using it is an error.
            return Ok(vec![Val::Const(out.viewed(&sizes))]);
        }
        let to = stored_dtype(dtype)?;
        let half = matches!(to, DType::F16 | DType::Bf16);
        let work = if half && dims.len() > 1 { DType::F32 } else { to };
        let mut n = self.g.whole(&x, work)?;
        if own.is_empty() {
            return Ok(vec![Val::Node(n)]);
        }
        n = match dims.len() == own.len() && !keep {
            true => self.total(n, how),
            false => self.g.reduce_all(how, n, &dims, keep),
        };
        let mut out = vec![self.give(n, 0)?];
        if rule == Rule::MaxDim {
            out.push(self.largest()?);
        }
        Ok(out)
    }

    fn variance(&mut self, dims: &[usize], keep: bool) -> StepResult<Vec<Val>> {
        let x = self.tensor("self", true)?;
        let n: i64 = dims.iter().map(|d| self.g.nodes[x].sizes[*d]).product();
        let correction = if self.has("correction") { self.number("correction")? } else { 1.0 };
        let mean = self.g.reduce_all("mean", x, dims, true);
        let d = self.g.infix('-', Node(x), Node(mean));
        let Node(dd) = self.g.infix('*', d, d) else { return Err("its operands are numbers".into()) };
        let sum = self.g.reduce_all("sum", dd, dims, true);
        let Node(variance) = self.g.infix('/', Node(sum), Num((n as f64 - correction).max(0.0))) else {
            return Err("its operands are numbers".into());
        };
        let mut out = vec![];
        for (i, v) in [variance, mean].into_iter().enumerate().take(self.node.outputs.len()) {
            let sizes = self.meta(i)?.1;
            let v = if keep { v } else { self.g.reshape(v, &sizes) };
            out.push(self.give(v, i)?);
        }
        Ok(out)
    }
}
