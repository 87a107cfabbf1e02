//! The reference evaluator: what a program means on one device, and how far an execution may be from it.
//!
//! Runs a typed graph in f64 (integers exactly, wrapping like the program's), and carries with every element a bound on
//! the rounding error that an execution in the program's types may have, in whatever order it adds and however its
//! contractions are shared among ranks: a running error analysis (Higham, Accuracy and Stability of Numerical
//! Algorithms, 2nd ed., 3.3) with one rule per operation. Changes of placement are the identity; a collective
//! that is known by its promise is what the promise says of the parts of the split dimension. Nothing is shared with
//! the interpreter but the scalar functions ([`kbc_numerics::scalar_eval`]); how operations round is [`kbc_numerics::numbers`].
//!
//! `x` is the exact value, `e_x` its bound, `u` and `eta` the unit roundoff and the smallest subnormal of the type that
//! the operation is rounded to (elementwise and accumulation: f32), `gamma_n = n u / (1 - n u)`, and `round(y)` stands
//! for `max(u y, eta / 2)`, what one rounding of a number of at most y can change (Higham 2.1, Theorem 2.2; below the
//! normal range: Hauser, Handling floating-point exceptions in numeric programs, 1996). Products of errors are kept, so
//! the propagated part is a bound and not only its first term.
//!
//! | operation | bound |
//! |---|---|
//! | input | 0 |
//! | number in an expression | 0; its value is the number rounded to the type |
//! | `a + b`, `a - b` | `e_a + e_b + round(abs(result) + e_a + e_b)` |
//! | `a * b` | `abs(a) e_b + e_a abs(b) + e_a e_b`, + round (Higham 3.3) |
//! | `a / b` | `(e_a + abs(a / b) e_b) / (abs(b) - e_b)`, + round; none if `e_b >= abs(b)` or b is 0 (the sign of a zero may depend on an order), but 0 / 0 is NaN |
//! | `neg`, `abs` | `e_a` |
//! | `min`, `max` | of the taken side; where `abs(a - b) <= e_a + e_b`, the interval of both |
//! | `if` | of the taken side; where `abs(a - b) <= e_a + e_b`, also the distance to the other side plus its bound |
//! | `exp` | `exp(a) (exp(e_a) - 1)`, + 1 ulp |
//! | `log` | `-log(1 - e_a / a)`, + 1 ulp; none if `e_a >= a` |
//! | `sqrt`, `rsqrt` | `e_a / (sqrt(a) + sqrt(a - e_a))`, + round; `rsqrt` is `1 / sqrt(a)`, two roundings |
//! | `tanh` | `e_a` times the slope at the end of the interval nearest to 0, + 2.5 ulp |
//! | `erf` | the same, + 1 ulp |
//! | `sin`, `cos` | `e_a min(1, abs(slope) + e_a)`, at most 2, + 1 ulp |
//! | `pow_int` | as the products; above 64 of them `n e_a (abs(a) + e_a)^(n-1)` + `gamma_(n-1) (abs(a) + e_a)^n` |
//! | expression stored as f16, bf16 | one more round to that type |
//! | `matmul` | `sum(abs(a) e_b + e_a abs(b) + e_a e_b) + gamma_K sum(abs(a) + e_a)(abs(b) + e_b) + K eta / 2` (Higham 3.5, for any order of the additions and any split of K: every product passes K roundings at most, with zeros added by empty parts exact), then stored |
//! | tile kernel | those of its products, functions and casts, its sums over tiles as partial over so many ranks; several terms of one sum: and `gamma_n sum(abs)`, n all additions |
//! | sum of a dimension of n | `sum e + gamma_(n-1) sum(abs(x) + e)` (Higham 4.2: any order), then stored; `mean`: divided by n with two roundings before |
//! | stored, computed whole | f32: nothing more; f16, bf16: one round to the type |
//! | stored, shared by P ranks | f32: nothing more (the additions are among those counted); f16, bf16: `gamma_P sum(abs)` + `P eta / 2`: each part is rounded once, and P - 1 additions in the type |
//! | product of a dimension of n | products' rule in sequence, `gamma_(n-1)`; f16, bf16 shared by P ranks: and `gamma_(2P-1) abs(x)`; none if a partial product in some order may leave the range |
//! | `min`, `max` of a dimension | the interval of all elements |
//! | collective known by its promise | copies: `e`; a sum of k parts in the type: `sum e + gamma_(k-1) sum(abs(x) + e)`; prod, min, max as of a dimension |
//! | partial(sum) input of p ranks | `gamma_(p-1) sum(abs(x_r))`; partial(prod) `gamma_(p-1) abs(x)`; min, max 0 |
//! | operation on a value that is still partial | as above with the sum of the ranks' absolute values for abs, and at the end `gamma_(P-1)` of it for adding the ranks' results |
//! | transpose, reshape, slice, pad, concat | those of the elements that are moved; 0 of a number that is put in |
//! | `iota`, `full` | 0; a number is rounded to the type |
//! | cast | `e_a` + round to the new type; to an integer type: the distance to the images of `a - e_a` and `a + e_a` |
//! | i32 arithmetic | 0; of operands with a bound (casts of floats): interval arithmetic |
//!
//! The ulps are those of the `libm` crate's f32 functions, measured over every 13th f32: exp 0.89, log 0.82, erf 0.93,
//! sin and cos 0.51, tanh 2.18.
//!
//! **Exact results.** A bound is exactly 0 where no rounding can happen in any order: an elementwise result with exact
//! operands that the type holds; a sum or contraction of numbers that are multiples of one power of two q (integers:
//! q = 1) whose absolute values add up to at most `2^mantissa q`.
//!
//! **Deep programs.** Behind several contractions these bounds are larger than the results. Where that is so, they are
//! replaced by what disturbed evaluations show: [`probe`].
//!
//! **Absolute terms.** Beside its bound a result may have the sum of the absolute terms of its elements: [`terms`].
//!
//! **Local programs** ([`evaluate_local`]) are evaluated on all ranks in step: between collectives by the same rules, a
//! collective by what it makes of the values of a group's ranks.
//!
//! **No bound.** Where no order-independent statement holds (an intermediate result may overflow, the argument of a
//! logarithm may be negative) the bound is infinite; [`RefTensor::unbounded`] counts such elements. A result that
//! overflows for certain is infinite with bound 0.

mod cast;
mod counts;
mod int;
mod local;
mod matmul;
mod modulus;
mod own;
mod precision;
mod probe;
mod reduce;
mod scalar;
mod shape;
mod terms;
mod tiles;

pub use local::evaluate_local;
pub use modulus::{exact_modulus, exact_modulus_local};
pub use own::combined;
pub use precision::Precision;
pub use reduce::Item;
pub use terms::OUTER;

use kbc_diag::Diagnostic;
use kbc_ir::graph::{CollKind, Collective, Graph, Op, OpId, OpKind};
use kbc_ir::types::{DType, ReduceOp};
use kbc_numerics::compare::{Exact, Expected};
use kbc_numerics::tensor::Tensor;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Whose elementwise functions compute the execution that is bounded.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Accuracy {
    /// kbc's own: `docs/numbers.md` has their errors.
    #[default]
    Own,
    /// Those of another program, whose result is stored: vectorised ones, that are further off.
    Others,
}

/// What the evaluator has to know of the execution.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EvalOptions {
    /// The most ranks that share a contraction whose result is partial (the ranks of the mesh). Only f16 and bf16
    /// results depend on it: they are rounded once a rank and once an addition.
    pub max_parts: u64,
    /// How far functions may be off.
    pub accuracy: Accuracy,
    /// Whether results get the sums of their absolute terms.
    pub terms: bool,
}

impl Default for EvalOptions {
    fn default() -> Self {
        EvalOptions { max_parts: 1, accuracy: Accuracy::Own, terms: false }
    }
}

/// A reference result: values and bounds, row-major.
#[derive(Clone, PartialEq, Debug)]
pub struct RefTensor {
    /// Element type of the program's value.
    pub dtype: DType,
    /// Sizes, first slowest.
    pub shape: Vec<u64>,
    /// The values; for integer types `exact` as f64 (rounded beyond 2^53).
    pub value: Vec<f64>,
    /// Largest `|got - value|` of a right execution; 0: bit for bit (but for the sign of zero). Never NaN.
    pub bound: Vec<f64>,
    /// The values of an integer type.
    pub exact: Option<Vec<i64>>,
    /// The sums of the absolute terms, where they were asked for and there are some: a result of another program is at most
    /// [`OUTER`] times that away.
    pub terms: Option<Vec<f64>>,
}

impl RefTensor {
    /// Elements about whose execution nothing can be said: any result would pass.
    pub fn unbounded(&self) -> usize {
        self.bound.iter().filter(|b| b.is_infinite()).count()
    }

    /// Number of elements.
    pub fn elements(&self) -> usize {
        self.value.len()
    }

    fn real(dtype: DType, shape: Vec<u64>, value: Vec<f64>, bound: Vec<f64>) -> RefTensor {
        RefTensor { dtype, shape, value, bound, exact: None, terms: None }
    }

    fn integers(dtype: DType, shape: Vec<u64>, exact: Vec<i64>, bound: Vec<f64>) -> RefTensor {
        let value = exact.iter().map(|i| *i as f64).collect();
        RefTensor { dtype, shape, value, bound, exact: Some(exact), terms: None }
    }
}

impl From<RefTensor> for Expected {
    /// What results are compared with.
    fn from(t: RefTensor) -> Expected {
        let values = t.exact.map_or(Exact::Float(t.value), Exact::Int);
        Expected { shape: t.shape, values, bound: t.bound }
    }
}

/// Ranks hold parts of a value whose combination is still to come.
#[derive(Clone, Debug)]
struct Pending {
    /// Sum or Prod; parts of a minimum or maximum need no record, since nothing is rounded.
    op: ReduceOp,
    /// How many ranks.
    parts: f64,
    /// Sum: the sum of the absolute values of the parts. Prod: how far partial products may be from 1, as a factor.
    size: Vec<f64>,
    /// Sum: all parts are multiples of it, where the bound is 0. Prod: 1 if all are integers, else 0.
    grain: f64,
}

/// A value of the graph.
#[derive(Clone, Debug)]
struct Value {
    t: Arc<RefTensor>,
    pending: Option<Arc<Pending>>,
    /// All bounds are known to be 0, without looking at them.
    exact: bool,
}

impl Value {
    fn whole(t: RefTensor) -> Value {
        Value { t: Arc::new(t), pending: None, exact: false }
    }

    /// The pending sum or product, if the result of the operation at hand is partial in the same way: otherwise the
    /// ranks have combined their parts before.
    fn pending_for(&self, result: Option<ReduceOp>) -> Option<&Pending> {
        self.pending.as_deref().filter(|p| Some(p.op) == result)
    }
}

/// Runs the graph on these inputs, one a declared input and in their order, and gives its results in theirs. An input
/// that is partial over ranks has a leading dimension, one entry a rank.
///
/// E405: number, shape or element type of the inputs; E407: an i32 division by zero; E408: a result that does not fit
/// in memory; E901 and E905: the graph is not what `infer` leaves.
pub fn evaluate(
    graph: &Graph,
    inputs: &[Tensor],
    options: &EvalOptions,
) -> Result<Vec<RefTensor>, Diagnostic> {
    if inputs.len() != graph.inputs.len() {
        return Err(Diagnostic::error(
            "E405",
            format!("the program has {} inputs, and data for {} is given", graph.inputs.len(), inputs.len()),
        ));
    }
    let parts = options.max_parts.max(1) as f64;
    let how = How { parts, accuracy: options.accuracy, coins: None };
    let fed = fed(graph, inputs)?;
    let tail = if options.terms { terms::tail(graph) } else { BTreeSet::new() };
    let mut results = run_all(graph, &fed, how, &tail)?;
    let none = BTreeSet::new();
    probe::tighten(&mut results, |coins| run_all(graph, &fed, How { coins: Some(coins), ..how }, &none))?;
    Ok(results)
}

/// How operations are evaluated.
#[derive(Clone, Copy)]
struct How {
    /// Ranks that share a contraction whose result is partial.
    parts: f64,
    accuracy: Accuracy,
    /// With coins, elements are moved by the errors of their operations instead of bounded.
    coins: Option<probe::Coins>,
}

/// What the inputs of a graph are; all evaluations start from it.
fn fed(graph: &Graph, inputs: &[Tensor]) -> Result<Vec<Value>, Diagnostic> {
    graph.inputs.iter().zip(inputs).map(|(declared, tensor)| reduce::input(declared, tensor)).collect()
}

/// Of each operation, the operands that no operation behind it has.
fn done_with(graph: &Graph) -> BTreeMap<OpId, Vec<OpId>> {
    let mut last: BTreeMap<OpId, OpId> = BTreeMap::new();
    for &id in graph.order() {
        last.extend(graph.operands(id).into_iter().map(|o| (o, id)));
    }
    let mut out: BTreeMap<OpId, Vec<OpId>> = BTreeMap::new();
    last.into_iter().for_each(|(operand, user)| out.entry(user).or_default().push(operand));
    out
}

/// Evaluates all operations; those of `tail` with the sums of their terms.
fn run_all(
    graph: &Graph,
    fed: &[Value],
    how: How,
    tail: &BTreeSet<OpId>,
) -> Result<Vec<RefTensor>, Diagnostic> {
    let done = done_with(graph);
    let mut values: BTreeMap<OpId, Value> = BTreeMap::new();
    let mut results: BTreeMap<usize, Arc<RefTensor>> = BTreeMap::new();
    for &id in graph.order() {
        let value = computed(graph, id, &values, fed, (how, tail))?;
        if let OpKind::Output(at) = graph.op(id).kind {
            results.insert(at, value.t.clone());
        }
        values.insert(id, value);
        done.get(&id).into_iter().flatten().for_each(|o| drop(values.remove(o)));
    }
    drop(values);
    Ok(results.into_values().map(|t| widened(Arc::unwrap_or_clone(t))).collect())
}

/// The value of an operation whose operands have theirs.
fn computed(
    graph: &Graph,
    id: OpId,
    values: &BTreeMap<OpId, Value>,
    fed: &[Value],
    (how, tail): (How, &BTreeSet<OpId>),
) -> Result<Value, Diagnostic> {
    let op = graph.op(id);
    let operands: Vec<Value> = graph
        .operands(id)
        .iter()
        .map(|o| values.get(o).cloned().ok_or_else(|| broken(op, "it is used before it is computed")))
        .collect::<Result<_, _>>()?;
    let probe = how.coins.is_some();
    let step = Step { op, operands: &operands, parts: how.parts, accuracy: how.accuracy, probe, terms: None };
    let mut value = step.run(fed)?;
    step.agrees(&value)?;
    if tail.contains(&id) {
        terms::add(&step, fed, &mut value)?;
    }
    disturb(id, &mut value, how.coins);
    Ok(value)
}

/// Moves a value by what its operation may be off, where that is how the program is evaluated.
fn disturb(id: OpId, value: &mut Value, coins: Option<probe::Coins>) {
    // Integers have no roundings.
    if let Some(coins) = coins.filter(|_| !value.exact && value.t.exact.is_none()) {
        if value.t.bound.iter().any(|e| *e != 0.0) {
            coins.disturb(id.0, Arc::make_mut(&mut value.t));
        }
        value.exact = true;
    }
}

/// The evaluation in f64 is off by at most 2^-29 of what one in f32 may be off by, and so are the sums of the bounds
/// themselves: those of floats grow by 2^-20.
fn widened(mut t: RefTensor) -> RefTensor {
    let factor = if t.exact.is_some() { 1.0 } else { 1.0 + precision::pow2(-20) };
    t.bound.iter_mut().for_each(|b| *b = if b.is_nan() { f64::INFINITY } else { *b * factor });
    t
}

/// E905: what `infer` would not have left.
fn broken(op: &Op, what: &str) -> Diagnostic {
    Diagnostic::error("E905", format!("the reference evaluator cannot run %{}: {what}", op.name))
        .primary(op.span, "this operation")
        .note("this is an error of kbc, or of a .kir file that no pass has typed")
}

/// An operation and what it works on.
#[derive(Clone, Copy)]
struct Step<'a> {
    op: &'a Op,
    operands: &'a [Value],
    /// Ranks that share a contraction whose result is partial.
    parts: f64,
    accuracy: Accuracy,
    /// It is one of the evaluations of [`probe`].
    probe: bool,
    /// Bounds are those that [`terms`] wants; these are the operands with their own.
    terms: Option<&'a [Value]>,
}

impl Step<'_> {
    fn run(&self, fed: &[Value]) -> Result<Value, Diagnostic> {
        match &self.op.kind {
            OpKind::Input(at) => {
                fed.get(*at).cloned().ok_or_else(|| self.broken("the program has no such input"))
            }
            OpKind::Matmul { accumulate_f32 } => {
                let [a, b] = self.two()?;
                matmul::run(self, a, b, *accumulate_f32)
            }
            OpKind::Grouped(runs) => {
                let [x, w] = self.two()?;
                matmul::grouped(self, x, w, runs)
            }
            OpKind::Tiles(kernel) => tiles::run(self, kernel),
            OpKind::Map(f) => scalar::run(self, f),
            OpKind::ReduceDim { op, mean, dim, keep } => {
                reduce::run(self, self.one()?, *op, *mean, *dim, *keep)
            }
            OpKind::Embedding => shape::embedding(self),
            OpKind::Fill(f) => shape::fill(self, f),
            OpKind::Shape(s) => shape::run(self, s),
            OpKind::Cast(to) => Ok(Value::whole(cast::run(&self.one()?.t, *to))),
            OpKind::Collective(c) if c.kind == CollKind::Own => own::run(self, self.one()?, c),
            OpKind::Collective(Collective { counts: Some(counts), .. }) => {
                counts::run(self, self.one()?, counts)
            }
            OpKind::Host(op) => match self.operands.get(op.value()) {
                Some(x) => Ok(self.same(x)),
                None => Err(self.broken("it needs another operand")),
            },
            OpKind::Collective(_) | OpKind::Demand | OpKind::Ask(_) | OpKind::Wait | OpKind::Output(_) => {
                Ok(self.same(self.one()?))
            }
        }
    }

    /// The value of an operand, placed as the result is.
    fn same(&self, x: &Value) -> Value {
        let pending = x.pending.clone().filter(|p| Some(p.op) == self.partial());
        Value { t: x.t.clone(), pending, exact: x.exact }
    }

    /// How the result is partial.
    fn partial(&self) -> Option<ReduceOp> {
        self.op.ty.as_ref().and_then(|t| t.partial.as_ref()).map(|p| p.0)
    }

    fn one(&self) -> Result<&Value, Diagnostic> {
        match self.operands {
            [x] => Ok(x),
            _ => Err(self.broken("it needs one operand")),
        }
    }

    fn two(&self) -> Result<[&Value; 2], Diagnostic> {
        match self.operands {
            [a, b] => Ok([a, b]),
            _ => Err(self.broken("it needs two operands")),
        }
    }

    fn broken(&self, what: &str) -> Diagnostic {
        broken(self.op, what)
    }

    /// Elements of a result, if memory can hold it.
    fn room(&self, shape: &[u64]) -> Result<usize, Diagnostic> {
        kbc_numerics::tensor::count(shape).filter(|n| *n < 1 << 40).map(|n| n as usize).ok_or_else(|| {
            Diagnostic::error("E408", format!("%{} has more elements than memory can hold", self.op.name))
                .primary(self.op.span, format!("its shape is {shape:?}"))
                .help("check the sizes, or use `--no-data` for the time alone")
        })
    }

    /// Whether the value is of the type that `infer` found.
    fn agrees(&self, value: &Value) -> Result<(), Diagnostic> {
        let Some(ty) = &self.op.ty else {
            return Err(Diagnostic::error("E901", format!("%{} has no type", self.op.name))
                .primary(self.op.span, "this operation")
                .note("the reference evaluator runs after `infer`"));
        };
        if ty.dtype == value.t.dtype && ty.sizes() == value.t.shape {
            return Ok(());
        }
        Err(self.broken(&format!("its type is {ty}, and its value {}{:?}", value.t.dtype, value.t.shape)))
    }
}
