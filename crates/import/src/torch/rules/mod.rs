//! Shape and type rules: element type and sizes of an operation's results, from its arguments.
//!
//! This module owns the rules that the table [`super::ops`] names. Sizes are numbers here; a
//! symbolic size has the value that the example inputs gave it. An error is a sentence about
//! operands that do not fit.

mod dims;
mod moved;

use super::arg::{Arg, Int};
use super::dtype::DType;
use super::model::{Meta, Node, Program};
use super::rule::Rule;
use dims::{broadcast, dim, drop, einsum, matmul, total};
use moved::{moved, sliced};

/// A result: its sizes and the element types that it may have. An empty list of types
/// allows any type.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shape {
    /// Allowed element types; the first is the usual one.
    pub dtypes: Vec<DType>,
    /// One size per dimension.
    pub sizes: Vec<i64>,
}

fn one(dtype: DType, sizes: Vec<i64>) -> Vec<Shape> {
    vec![Shape { dtypes: vec![dtype], sizes }]
}

/// A tensor argument.
struct T {
    dtype: DType,
    sizes: Vec<i64>,
}

struct Args<'a> {
    program: &'a Program,
    node: &'a Node,
}

type RuleResult<T> = Result<T, String>;

impl Args<'_> {
    fn of(m: &Meta) -> T {
        T { dtype: m.dtype, sizes: m.shape() }
    }

    fn maybe(&self, name: &str) -> Option<T> {
        match self.node.arg(name) {
            Arg::Tensor(v) => self.program.meta(*v).map(Self::of),
            _ => None,
        }
    }

    fn tensor(&self, name: &str) -> RuleResult<T> {
        self.maybe(name).ok_or_else(|| format!("`{name}` is not a tensor"))
    }

    /// Returns the tensors of a parameter that is a tensor or a list of tensors.
    fn list(&self, name: &str) -> RuleResult<Vec<T>> {
        let ids: Vec<_> = match self.node.arg(name) {
            Arg::Tensor(v) => vec![*v],
            Arg::Tensors(l) => l.clone(),
            _ => vec![],
        };
        ids.iter()
            .map(|v| {
                self.program
                    .meta(*v)
                    .map(Self::of)
                    .ok_or_else(|| format!("`{name}` contains a value that is not a tensor"))
            })
            .collect()
    }

    fn int(&self, name: &str) -> RuleResult<i64> {
        match self.node.arg(name) {
            Arg::Int(i) => self.program.int(i),
            Arg::Bool(b) => Some(i64::from(*b)),
            _ => None,
        }
        .ok_or_else(|| format!("`{name}` is not an integer"))
    }

    fn ints(&self, name: &str) -> RuleResult<Vec<i64>> {
        let each = |l: &[Int<usize>]| l.iter().map(|i| self.program.int(i)).collect::<Option<Vec<_>>>();
        match self.node.arg(name) {
            Arg::Ints(l) => each(l),
            Arg::Int(i) => self.program.int(i).map(|n| vec![n]),
            Arg::None => Some(vec![]),
            _ => None,
        }
        .ok_or_else(|| format!("`{name}` is not a list of integers"))
    }

    fn has(&self, name: &str) -> bool {
        !matches!(self.node.arg(name), Arg::None)
    }

    fn flag(&self, name: &str) -> bool {
        matches!(self.node.arg(name), Arg::Bool(true))
    }

    fn dtype(&self) -> Option<DType> {
        match self.node.arg("dtype") {
            Arg::DType(d) => Some(*d),
            _ => None,
        }
    }

    /// Returns the promoted type of operands. Tensors with dimensions take precedence over those
    /// without, and these over numbers.
    fn together(&self, names: &[&str]) -> RuleResult<DType> {
        // Indexed by precedence: tensors with dimensions, tensors without, literals.
        let mut best: [Option<DType>; 3] = [None; 3];
        for name in names {
            let (at, d) = match self.node.arg(name) {
                Arg::Tensor(_) => {
                    let t = self.tensor(name)?;
                    (usize::from(t.sizes.is_empty()), t.dtype)
                }
                Arg::Int(_) => (2, DType::I64),
                Arg::Float(_) => (2, DType::F32),
                Arg::Bool(_) => (2, DType::Bool),
                _ => continue,
            };
            best[at] = match best[at] {
                None => Some(d),
                Some(o) => Some(
                    o.with(d).ok_or_else(|| format!("{} and {} have no common type", o.name(), d.name()))?,
                ),
            };
        }
        let mut out: Option<DType> = None;
        for d in best.into_iter().flatten() {
            out = match out {
                // An operand of lower precedence counts only if its type is of a higher class.
                Some(o) if d.class() <= o.class() => Some(o),
                Some(o) => Some(o.with(d).unwrap_or(d)),
                None => Some(d),
            };
        }
        out.ok_or_else(|| "no operand has a type".into())
    }

    fn broadcast(&self, names: &[&str]) -> RuleResult<Vec<i64>> {
        let mut sizes = vec![];
        for name in names {
            if let Some(t) = self.maybe(name) {
                sizes = broadcast(&sizes, &t.sizes)?;
            }
        }
        Ok(sizes)
    }
}

fn float(d: DType) -> DType {
    if d.class() == 2 { d } else { DType::F32 }
}

/// Returns the results of a node by its rule; empty for an operation that returns no tensors.
///
/// # Errors
/// Returns the reason why the operands do not fit.
pub fn shapes(program: &Program, node: &Node) -> RuleResult<Vec<Shape>> {
    let a = Args { program, node };
    let rule = node.op.rule;
    let same = |t: T| one(t.dtype, t.sizes);
    // The reduced dimensions of a reduction; all of them if the list is empty.
    let dims = |t: &T| -> RuleResult<Vec<i64>> {
        let list = a.ints("dim")?;
        if list.is_empty() { Ok((0..t.sizes.len() as i64).collect()) } else { Ok(list) }
    };
    match rule {
        Rule::Nothing | Rule::SymSize | Rule::Number => Ok(vec![]),
        r if r.is_collective() || r == Rule::Wait => collective(&a, rule),
        Rule::Mm | Rule::Bmm | Rule::Addmm | Rule::Baddbmm | Rule::Matmul | Rule::Linear | Rule::Einsum => {
            product(&a, rule)
        }
        Rule::Attention => {
            let (q, k, v) = (a.tensor("query")?, a.tensor("key")?, a.tensor("value")?);
            let (Some(l), Some(e)) = (q.sizes.len().checked_sub(1), v.sizes.last()) else {
                return Err("query, key and value need dimensions".into());
            };
            if q.sizes.last() != k.sizes.last() || k.sizes.iter().rev().nth(1) != v.sizes.iter().rev().nth(1)
            {
                return Err(format!(
                    "query {:?}, key {:?} and value {:?} do not match",
                    q.sizes, k.sizes, v.sizes
                ));
            }
            Ok(one(q.dtype, [&q.sizes[..l], &[*e]].concat()))
        }
        Rule::Same => same_as_first(&a),
        Rule::Clamp => {
            let t = a.tensor("self")?;
            Ok(one(a.together(&["self", "min", "max", "min_val", "max_val"])?, t.sizes))
        }
        Rule::Masked => {
            let t = a.tensor("self")?;
            Ok(one(t.dtype, broadcast(&t.sizes, &a.tensor("mask")?.sizes)?))
        }
        Rule::Backward => {
            let (g, t) = (a.tensor("grad_output")?, a.tensor("self")?);
            Ok(one(a.together(&["grad_output", "self"])?, broadcast(&g.sizes, &t.sizes)?))
        }
        Rule::SoftmaxBackward | Rule::OutputBackward => {
            let g = a.tensor("grad_output")?;
            let to = match a.node.arg("input_dtype") {
                Arg::DType(d) => *d,
                _ => g.dtype,
            };
            Ok(one(to, g.sizes))
        }
        Rule::Copy => {
            let (t, s) = (a.tensor("self")?, a.tensor("src")?);
            match broadcast(&t.sizes, &s.sizes)? == t.sizes {
                true => Ok(same(t)),
                false => Err(format!("{:?} cannot be copied to {:?}", s.sizes, t.sizes)),
            }
        }
        Rule::SliceScatter => {
            let t = a.tensor("self")?;
            let part = sliced(&a, &t)?;
            match part == a.tensor("src")?.sizes {
                true => Ok(same(t)),
                false => Err(format!("the slice has the shape {part:?}, and `src` has another one")),
            }
        }
        Rule::Float => a.tensor("self").map(|t| one(float(t.dtype), t.sizes)),
        Rule::Cast => a.tensor("self").map(|t| one(a.dtype().unwrap_or(t.dtype), t.sizes)),
        Rule::Logical | Rule::Compare => Ok(one(DType::Bool, a.broadcast(&["self", "other"])?)),
        Rule::Binary => {
            let names = ["self", "other", "exponent"];
            Ok(one(a.together(&names)?, a.broadcast(&names)?))
        }
        Rule::Divide => Ok(one(float(a.together(&["self", "other"])?), a.broadcast(&["self", "other"])?)),
        Rule::Where => {
            let sizes = a.broadcast(&["condition", "self", "other"])?;
            Ok(one(a.together(&["self", "other"])?, sizes))
        }
        Rule::Loss => {
            let sizes = a.broadcast(&["self", "target"])?;
            let sizes = if a.int("reduction")? == 0 { sizes } else { vec![] };
            Ok(one(a.together(&["self", "target"])?, sizes))
        }
        Rule::LossBackward => {
            let sizes = a.broadcast(&["self", "target"])?;
            Ok(one(a.together(&["self", "target"])?, sizes))
        }
        Rule::Full => {
            let sizes = a.ints("size").unwrap_or_default();
            match a.dtype() {
                Some(d) => Ok(one(d, sizes)),
                // The type is that of the number, or the default type of the process that
                // wrote the program.
                None => Ok(vec![Shape { dtypes: vec![], sizes }]),
            }
        }
        Rule::Arange => arange(&a),
        Rule::Sum => {
            let t = a.tensor("self")?;
            let d = a.dtype().unwrap_or(if t.dtype.class() == 2 { t.dtype } else { DType::I64 });
            Ok(one(d, drop(&t.sizes, &dims(&t)?, a.flag("keepdim"))?))
        }
        Rule::Mean => {
            let t = a.tensor("self")?;
            Ok(one(a.dtype().unwrap_or(t.dtype), drop(&t.sizes, &dims(&t)?, a.flag("keepdim"))?))
        }
        Rule::Extreme => {
            let t = a.tensor("self")?;
            let s = Shape { dtypes: vec![t.dtype], sizes: drop(&t.sizes, &dims(&t)?, a.flag("keepdim"))? };
            Ok(vec![s; node.outputs.len()])
        }
        Rule::Any => {
            let t = a.tensor("self")?;
            let d = if t.dtype == DType::U8 { DType::U8 } else { DType::Bool };
            Ok(one(d, drop(&t.sizes, &dims(&t)?, a.flag("keepdim"))?))
        }
        Rule::MaxDim => {
            let t = a.tensor("self")?;
            let sizes = drop(&t.sizes, &[a.int("dim")?], a.flag("keepdim"))?;
            Ok([one(t.dtype, sizes.clone()), one(DType::I64, sizes)].concat())
        }
        Rule::ArgMax => {
            let t = a.tensor("self")?;
            Ok(one(DType::I64, drop(&t.sizes, &dims(&t)?, a.flag("keepdim"))?))
        }
        Rule::Cumsum => {
            let t = a.tensor("self")?;
            dim(a.int("dim")?, t.sizes.len())?;
            let d = a.dtype().unwrap_or(if t.dtype.class() == 2 { t.dtype } else { DType::I64 });
            Ok(one(d, t.sizes))
        }
        Rule::Softmax => {
            let t = a.tensor("self")?;
            dim(a.int("dim")?, t.sizes.len())?;
            Ok(one(if a.flag("half_to_float") { DType::F32 } else { t.dtype }, t.sizes))
        }
        Rule::SoftmaxTo => {
            let t = a.tensor("self")?;
            dim(a.int("dim")?, t.sizes.len())?;
            Ok(one(a.dtype().unwrap_or(float(t.dtype)), t.sizes))
        }
        Rule::LayerNorm | Rule::LayerNormBackward => norm(&a, rule),
        Rule::Dropout => {
            let t = a.tensor("input")?;
            Ok([one(t.dtype, t.sizes.clone()), one(DType::Bool, t.sizes)].concat())
        }
        Rule::Embedding => {
            let (w, i) = (a.tensor("weight")?, a.tensor("indices")?);
            match (w.sizes.get(1), i.dtype.class()) {
                (Some(n), 1) => Ok(one(w.dtype, [&i.sizes[..], &[*n]].concat())),
                _ => Err(format!(
                    "expected a table of two dimensions and integer row numbers, found {:?}",
                    w.sizes
                )),
            }
        }
        Rule::OneHot => {
            let t = a.tensor("self")?;
            match a.int("num_classes")? {
                n if n > 0 => Ok(one(DType::I64, [&t.sizes[..], &[n]].concat())),
                _ => Err("without `num_classes` the size of the result depends on data".into()),
            }
        }
        Rule::Gather => {
            let (t, i) = (a.tensor("self")?, a.tensor("index")?);
            Ok(one(t.dtype, i.sizes))
        }
        Rule::Scatter => a.tensor("self").map(same),
        Rule::Index => index(&a),
        _ => moved(&a, rule),
    }
}

fn same_as_first(a: &Args) -> RuleResult<Vec<Shape>> {
    let name = a.node.op.params[0].name;
    a.tensor(name).map(|t| one(t.dtype, t.sizes))
}

fn product(a: &Args, rule: Rule) -> RuleResult<Vec<Shape>> {
    let names: [&str; 2] = match rule {
        Rule::Addmm => ["mat1", "mat2"],
        Rule::Baddbmm => ["batch1", "batch2"],
        Rule::Matmul => ["self", "other"],
        Rule::Linear => ["input", "weight"],
        _ => ["self", "mat2"],
    };
    if rule == Rule::Einsum {
        let list = a.list("tensors")?;
        let Arg::Text(equation) = a.node.arg("equation") else { return Err("it has no equation".into()) };
        let shapes: Vec<&[i64]> = list.iter().map(|t| &t.sizes[..]).collect();
        let d = list.first().ok_or("it has no operands")?.dtype;
        return Ok(one(d, einsum(equation, &shapes)?));
    }
    let (x, mut y) = (a.tensor(names[0])?, a.tensor(names[1])?);
    let rank = match rule {
        Rule::Mm | Rule::Addmm => Some(2),
        Rule::Bmm | Rule::Baddbmm => Some(3),
        _ => None,
    };
    if let Some(r) = rank.filter(|r| [&x, &y].iter().any(|t| t.sizes.len() != *r)) {
        return Err(format!("{:?} and {:?}: expected {r} dimensions", x.sizes, y.sizes));
    }
    if x.dtype != y.dtype {
        return Err(format!("{} times {}", x.dtype.name(), y.dtype.name()));
    }
    if rule == Rule::Linear {
        y.sizes.reverse();
    }
    if matches!(rule, Rule::Bmm | Rule::Baddbmm) && x.sizes[0] != y.sizes[0] {
        return Err(format!("{:?} and {:?} have different batches", x.sizes, y.sizes));
    }
    let sizes = matmul(&x.sizes, &y.sizes)?;
    let added = match rule {
        Rule::Addmm | Rule::Baddbmm => a.maybe("self"),
        Rule::Linear => a.maybe("bias"),
        _ => None,
    };
    match added {
        Some(t) if broadcast(&sizes, &t.sizes).as_ref() != Ok(&sizes) => {
            Err(format!("{:?} cannot be added to {sizes:?}", t.sizes))
        }
        _ => Ok(one(x.dtype, sizes)),
    }
}

fn norm(a: &Args, rule: Rule) -> RuleResult<Vec<Shape>> {
    let t = a.tensor("input")?;
    let over = a.ints("normalized_shape")?;
    let Some(outer) = t.sizes.len().checked_sub(over.len()).filter(|o| t.sizes[*o..] == over[..]) else {
        return Err(format!("{over:?} are not the last dimensions of {:?}", t.sizes));
    };
    for name in ["weight", "bias"] {
        if a.maybe(name).is_some_and(|w| w.sizes != over) {
            return Err(format!("`{name}` does not have the shape {over:?}"));
        }
    }
    let whole = one(t.dtype, t.sizes.clone());
    if a.node.op.returns == super::ops::Returns::Each(1) {
        return Ok(whole);
    }
    if rule == Rule::LayerNormBackward {
        return Ok([whole, one(t.dtype, over.clone()), one(t.dtype, over)].concat());
    }
    let rest = t.sizes.iter().enumerate().map(|(d, n)| if d < outer { *n } else { 1 }).collect();
    // On some devices the statistics of half-precision floats are f32.
    let each = Shape { dtypes: vec![t.dtype, DType::F32], sizes: rest };
    Ok([whole, vec![each.clone(), each]].concat())
}

fn arange(a: &Args) -> RuleResult<Vec<Shape>> {
    let number = |name: &str, or: f64| match a.node.arg(name) {
        Arg::Float(x) => Ok(*x),
        Arg::Int(i) => a.program.int(i).map(|n| n as f64).ok_or_else(|| format!("`{name}` is not a number")),
        _ => Ok(or),
    };
    let (start, end, step) = (number("start", 0.0)?, number("end", 0.0)?, number("step", 1.0)?);
    let n = ((end - start) / step).ceil();
    if !n.is_finite() || n < 0.0 {
        return Err(format!("there are no numbers from {start} to {end} in steps of {step}"));
    }
    let floats = ["start", "end", "step"].iter().any(|n| matches!(a.node.arg(n), Arg::Float(_)));
    let dtypes = match (a.dtype(), floats) {
        (Some(d), _) => vec![d],
        (None, false) => vec![DType::I64],
        (None, true) => vec![],
    };
    Ok(vec![Shape { dtypes, sizes: vec![n as i64] }])
}

/// Returns the shape of an index operation, with one index tensor per dimension. If the indexed
/// dimensions are adjacent, the dimensions of the index replace them; otherwise they come first.
fn index(a: &Args) -> RuleResult<Vec<Shape>> {
    let t = a.tensor("self")?;
    let list: Vec<Option<T>> = match a.node.arg("indices") {
        Arg::Optionals(l) => l.iter().map(|v| v.and_then(|v| a.program.meta(v)).map(Args::of)).collect(),
        Arg::Tensors(l) => l.iter().map(|v| a.program.meta(*v).map(Args::of)).collect(),
        _ => vec![],
    };
    if list.iter().flatten().any(|i| i.dtype.class() != 1) {
        return Err("with an index of truth values the sizes depend on data".into());
    }
    if list.len() > t.sizes.len() {
        return Err(format!("{} indices are given for {} dimensions", list.len(), t.sizes.len()));
    }
    let at: Vec<usize> = (0..list.len()).filter(|d| list[*d].is_some()).collect();
    let mut by = vec![];
    for i in list.iter().flatten() {
        by = broadcast(&by, &i.sizes)?;
    }
    let mut sizes: Vec<i64> = (0..t.sizes.len()).filter(|d| !at.contains(d)).map(|d| t.sizes[d]).collect();
    let together = at.windows(2).all(|w| w[0] + 1 == w[1]);
    let place = if together { at.first().copied().unwrap_or(0) } else { 0 };
    sizes.splice(place..place, by);
    Ok(one(t.dtype, sizes))
}

fn collective(a: &Args, rule: Rule) -> RuleResult<Vec<Shape>> {
    let first = a.node.op.params[0].name;
    let mut out = vec![];
    for mut t in a.list(first)? {
        match rule {
            Rule::AllGather | Rule::ReduceScatter => {
                let n = a.int("group_size")?;
                // A tensor without dimensions is gathered as one of one element.
                if t.sizes.is_empty() {
                    t.sizes.push(1);
                }
                let rows = t.sizes[0];
                t.sizes[0] = match rule {
                    Rule::AllGather => rows.checked_mul(n).ok_or("a size exceeds 64 bits")?,
                    _ if n < 1 || rows % n != 0 => {
                        return Err(format!("{rows} rows cannot be scattered over {n} ranks"));
                    }
                    _ => rows / n,
                };
            }
            Rule::AllToAll => {
                let (give, take) = (a.ints("input_split_sizes")?, a.ints("output_split_sizes")?);
                let rows = *t.sizes.first().ok_or("a tensor without dimensions has no rows")?;
                if total(&give)? != rows {
                    return Err(format!("`input_split_sizes` {give:?} are not the {rows} rows of the input"));
                }
                t.sizes[0] = total(&take)?;
            }
            Rule::ShardDim => {
                let (g, s) = (a.int("gather_dim")?, a.int("shard_dim")?);
                dim(g, t.sizes.len())?;
                dim(s, t.sizes.len())?;
                // The result depends on the size of the group; `local` checks it, because it
                // knows the group.
                return Ok(vec![]);
            }
            _ => {}
        }
        out.push(Shape { dtypes: vec![t.dtype], sizes: t.sizes });
    }
    Ok(out)
}
