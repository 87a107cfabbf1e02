//! Translation state of one PyTorch operation: its arguments as values, its results as recorded.

use super::consts::{Const, rounded};
use super::graph::{Graph, NodeId, Operand};
use super::values::{Val, stored_dtype};
use crate::torch::arg::{Arg, Int};
use crate::torch::dtype::DType;
use crate::torch::model::{Node, Program, ValueId};
use crate::torch::rules::shapes;

/// A result, or the reason why there is none.
pub type StepResult<T> = Result<T, String>;

/// The state of a translation.
pub struct Translation<'a> {
    /// The graph so far.
    pub g: &'a mut Graph,
    /// The program.
    pub p: &'a Program,
    /// The operation being translated.
    pub node: &'a Node,
    /// Values by index; none for a value that is not a tensor.
    pub env: &'a [Option<Val>],
    /// For each value, whether an operation or a result uses it.
    pub used: &'a [bool],
}

impl Translation<'_> {
    /// Returns the translation of a value of the program.
    pub fn known(&self, v: ValueId) -> StepResult<Val> {
        let name = &self.p.values[v].name;
        self.env[v].clone().ok_or_else(|| format!("`{name}` has no value: no operation computes it"))
    }

    /// Returns an argument as a value; a number becomes a constant without dimensions. Returns
    /// none for `None`.
    pub fn maybe(&self, name: &str) -> StepResult<Option<Val>> {
        let number = |dtype, x| Ok(Some(Val::Const(Const::one(dtype, &[], x)?)));
        match self.node.arg(name) {
            Arg::Tensor(v) => self.known(*v).map(Some),
            Arg::None => Ok(None),
            Arg::Bool(b) => number(DType::Bool, f64::from(u8::from(*b))),
            Arg::Int(_) => number(DType::F64, self.number(name)?),
            Arg::Float(x) => number(DType::F64, *x),
            _ => Err(format!("`{name}` is neither a tensor nor a number")),
        }
    }

    /// Returns an argument as a value.
    pub fn val(&self, name: &str) -> StepResult<Val> {
        self.maybe(name)?.ok_or_else(|| format!("`{name}` is missing"))
    }

    /// Returns an argument that is a list of tensors or a single tensor.
    pub fn list(&self, name: &str) -> StepResult<Vec<Val>> {
        match self.node.arg(name) {
            Arg::Tensors(l) => l.iter().map(|v| self.known(*v)).collect(),
            Arg::Tensor(v) => Ok(vec![self.known(*v)?]),
            _ => Err(format!("`{name}` is not a list of tensors")),
        }
    }

    /// Returns an argument that is a number.
    pub fn number(&self, name: &str) -> StepResult<f64> {
        match self.node.arg(name) {
            Arg::Float(x) => Ok(*x),
            Arg::Bool(b) => Ok(f64::from(u8::from(*b))),
            Arg::Int(i) => self.p.int(i).map(|n| n as f64).ok_or_else(|| format!("`{name}` is not known")),
            _ => Err(format!("`{name}` is not a number")),
        }
    }

    /// Returns an argument that is an integer.
    pub fn int(&self, name: &str) -> StepResult<i64> {
        match self.node.arg(name) {
            Arg::Int(i) => self.p.int(i).ok_or_else(|| format!("`{name}` is not known")),
            _ => Err(format!("`{name}` is not an integer")),
        }
    }

    /// Returns an argument that is a list of integers; an empty list for `None`.
    pub fn ints(&self, name: &str) -> StepResult<Vec<i64>> {
        let known = |i: &Int<ValueId>| self.p.int(i).ok_or_else(|| format!("`{name}` is not known"));
        match self.node.arg(name) {
            Arg::Ints(l) => l.iter().map(known).collect(),
            Arg::Int(i) => Ok(vec![known(i)?]),
            _ => Ok(vec![]),
        }
    }

    /// Checks whether there is a parameter with that name whose argument is not empty.
    pub fn has(&self, name: &str) -> bool {
        !matches!(self.node.arg(name), Arg::None)
    }

    /// Returns an argument that is a literal truth value.
    pub fn flag(&self, name: &str) -> bool {
        matches!(self.node.arg(name), Arg::Bool(true))
    }

    /// Returns an argument that is a string.
    pub fn word(&self, name: &str) -> &str {
        match self.node.arg(name) {
            Arg::Text(t) => t,
            _ => "",
        }
    }

    /// Returns a dimension of a tensor with `rank` dimensions.
    pub fn dim(&self, d: i64, rank: usize) -> StepResult<usize> {
        let n = rank.max(1) as i64;
        usize::try_from(if d < 0 { d + n } else { d })
            .ok()
            .filter(|d| *d < n as usize)
            .ok_or("the dimension does not exist".into())
    }

    /// Returns the dimensions of a reduction; all of them if the argument states none.
    pub fn dims(&self, rank: usize) -> StepResult<Vec<usize>> {
        let said =
            if self.node.op.params.iter().any(|p| p.name == "dim") { self.ints("dim")? } else { vec![] };
        if said.is_empty() {
            return Ok((0..rank).collect());
        }
        said.into_iter().map(|d| self.dim(d, rank)).collect()
    }

    /// Returns element type and sizes of a result: as recorded, and otherwise by the rule of
    /// the operation.
    pub fn meta(&self, i: usize) -> StepResult<(DType, Vec<i64>)> {
        let v = self.node.outputs.get(i).ok_or("a result is missing")?;
        if let Some(m) = self.p.meta(*v) {
            return Ok((m.dtype, m.shape()));
        }
        let shape = shapes(self.p, self.node)?.into_iter().nth(i);
        shape
            .and_then(|s| Some((*s.dtypes.first()?, s.sizes)))
            .ok_or_else(|| "a result has no recorded type".into())
    }

    /// Returns element type and sizes of the first result.
    pub fn first(&self) -> StepResult<(DType, Vec<i64>)> {
        self.meta(0)
    }

    /// Returns the element type of a tensor argument in PyTorch.
    pub fn dtype_of(&self, name: &str) -> Option<DType> {
        match self.node.arg(name) {
            Arg::Tensor(v) => self.p.meta(*v).map(|m| m.dtype),
            _ => None,
        }
    }

    /// Applies an elementwise operation. It is evaluated if all operands are constants, and
    /// appended to the graph otherwise. If `up` is set, half-precision types are computed in f32,
    /// as PyTorch does for formulas that round several times or contain numbers of their own.
    pub fn apply(
        &mut self,
        of: &[Val],
        up: bool,
        fold: impl Fn(&[f64]) -> f64,
        build: impl FnOnce(&mut Graph, &[Operand]) -> Operand,
    ) -> StepResult<Val> {
        let (dtype, sizes) = self.first()?;
        let known: Vec<&Const> =
            of.iter().filter_map(|v| if let Val::Const(c) = v { Some(c) } else { None }).collect();
        if known.len() == of.len() {
            return Const::map(dtype, &sizes, &known, fold).map(Val::Const);
        }
        let keep = stored_dtype(dtype)?;
        if keep.ours().is_some_and(|d| !d.reduces()) {
            return Err(format!("kbc can move and convert {}, but not compute with it", keep.name()));
        }
        let half = matches!(keep, DType::F16 | DType::Bf16);
        let inexact =
            known.iter().any(|c| c.uniform().is_some_and(|x| x.is_finite() && rounded(keep, x) != Some(x)));
        let work = if half && (up || inexact) { DType::F32 } else { keep };
        if keep == DType::I32 && inexact {
            return Err("a floating-point number is combined with integers".into());
        }
        let operands = of.iter().map(|v| self.g.operand(v, work)).collect::<StepResult<Vec<_>>>()?;
        let out = match build(self.g, &operands) {
            Operand::Node(n) => Operand::Node(self.g.cast(n, keep)),
            num => num,
        };
        self.g.of(out, dtype, &sizes)
    }

    /// Returns a tensor argument as a node with all its elements, in kbc's type; in f32 if it is
    /// half precision and `up` is set.
    pub fn tensor(&mut self, name: &str, up: bool) -> StepResult<NodeId> {
        let v = self.val(name)?;
        let dtype = self.dtype_of(name).ok_or_else(|| format!("`{name}` is not a tensor"))?;
        let keep = stored_dtype(dtype)?;
        let work = if up && keep != DType::I32 { DType::F32 } else { keep };
        self.g.whole(&v, work)
    }

    /// Turns a node into a result of the recorded type.
    pub fn give(&mut self, n: NodeId, i: usize) -> StepResult<Val> {
        let (dtype, sizes) = self.meta(i)?;
        let n = self.g.cast(n, stored_dtype(dtype)?);
        self.g.of(Operand::Node(n), dtype, &sizes)
    }
}
