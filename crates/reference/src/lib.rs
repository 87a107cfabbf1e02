//! Reference evaluator: computes what a program means on one device, and how far an execution may
//! be from it.
//!
//! It runs a typed graph in f64 (integers exactly, wrapping like the program's). With every element
//! it carries a bound on the rounding error of an execution in the program's types, in whatever
//! order the execution adds and however its contractions are shared among ranks. This is a running
//! error analysis (Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., 3.3) with one
//! rule per operation. Changes of placement are the identity. A user-defined collective is
//! evaluated from its contract, applied to the parts of the split dimension. Only the scalar
//! functions are shared with the interpreter ([`kbc_numerics::scalar_eval`]);
//! [`kbc_numerics::numbers`] states how operations round.
//!
//! In the table, `x` is the exact value, `e_x` its bound, `u` and `eta` the unit roundoff and the
//! smallest subnormal of the type to which the operation is rounded (elementwise and accumulation:
//! f32), and `gamma_n = n u / (1 - n u)`. `round(y)` stands for `max(u y, eta / 2)`, the largest
//! change that one rounding of a number of at most y can make (Higham 2.1, Theorem 2.2; below the
//! normal range: Hauser, Handling floating-point exceptions in numeric programs, 1996). Products of
//! errors are kept, so the propagated part is a bound and not only its first term.
//!
//! | operation | bound |
//! |---|---|
//! | input | 0 |
//! | number in an expression | 0; its value is the number rounded to the type |
//! | `a + b`, `a - b` | `e_a + e_b + round(abs(result) + e_a + e_b)` |
//! | `a * b` | `abs(a) e_b + e_a abs(b) + e_a e_b`, + round (Higham 3.3) |
//! | `a / b` | `(e_a + abs(a / b) e_b) / (abs(b) - e_b)`, + round; none if `e_b >= abs(b)` or b is 0 (the sign of a zero may depend on an order), but 0 / 0 is NaN |
//! | `neg`, `abs` | `e_a` |
//! | `min`, `max` | of the chosen side; where `abs(a - b) <= e_a + e_b`, the interval of both |
//! | `if` | of the chosen side; where `abs(a - b) <= e_a + e_b`, also the distance to the other side plus its bound |
//! | `exp` | `exp(a) (exp(e_a) - 1)`, + 1 ulp |
//! | `log`, `log1p` | `-log(1 - e_a / a)`, + 1 ulp; none if `e_a >= a`; for `log1p`, a is `1 + a` |
//! | `sqrt`, `rsqrt` | `e_a / (sqrt(a) + sqrt(a - e_a))`, + round; `rsqrt` is `1 / sqrt(a)`, two roundings |
//! | `tanh` | `e_a` times the slope at the end of the interval nearest to 0, + 2.5 ulp |
//! | `erf` | the same, + 1 ulp |
//! | `sin`, `cos` | `e_a min(1, abs(slope) + e_a)`, at most 2, + 1 ulp |
//! | `pow_int` | as the products; above 64 of them `n e_a (abs(a) + e_a)^(n-1)` + `gamma_(n-1) (abs(a) + e_a)^n` |
//! | expression stored as f16, bf16 | one more round to that type |
//! | `matmul` | `sum(abs(a) e_b + e_a abs(b) + e_a e_b) + gamma_K sum(abs(a) + e_a)(abs(b) + e_b) + K eta / 2` (Higham 3.5, for any order of the additions and any split of K: every product passes K roundings at most, with zeros added by empty parts exact), then stored |
//! | tile kernel | those of its matmuls, functions and casts; its sums over tiles are treated as partial over that many ranks; for several terms of one sum, in addition `gamma_n sum(abs)`, where n counts all additions |
//! | sum of a dimension of n | `sum e + gamma_(n-1) sum(abs(x) + e)` (Higham 4.2: any order), then stored; `mean`: divided by n with two roundings before |
//! | stored, computed whole | f32: nothing more; f16, bf16: one round to the type |
//! | stored, shared by P ranks | f32: nothing more (the additions are among those counted); f16, bf16: `gamma_P sum(abs)` + `P eta / 2`: each part is rounded once, and P - 1 additions in the type |
//! | product of a dimension of n | the rule of `a * b` in sequence, `gamma_(n-1)`; f16, bf16 shared by P ranks: in addition `gamma_(2P-1) abs(x)`; none if a partial product in some order may leave the range |
//! | `min`, `max` of a dimension | the interval of all elements |
//! | user-defined collective | copies: `e`; a sum of k parts in the type: `sum e + gamma_(k-1) sum(abs(x) + e)`; prod, min, max as of a dimension |
//! | partial(sum) input of p ranks | `gamma_(p-1) sum(abs(x_r))`; partial(prod) `gamma_(p-1) abs(x)`; min, max 0 |
//! | operation on a value that is still partial | as above with the sum of the ranks' absolute values for abs, and at the end `gamma_(P-1)` of it for adding the ranks' results |
//! | transpose, reshape, slice, pad, concat | those of the elements that are moved; 0 for a number that is inserted |
//! | `iota`, `full` | 0; a number is rounded to the type |
//! | cast | `e_a` + round to the new type (f8e4m3fn, which saturates: the distance to the images of `a - e_a` and `a + e_a`); to an integer type: the distance to the images of `a - e_a` and `a + e_a` |
//! | i32 arithmetic | 0; for operands with a bound (casts of floats), interval arithmetic |
//!
//! The ulps are those of the `libm` crate's f32 functions, measured over every 13th f32: exp 0.89,
//! log 0.82, erf 0.93, sin and cos 0.51, tanh 2.18.
//!
//! **Exact results.** A bound is exactly 0 where no rounding can happen in any order. This holds
//! for an elementwise result with exact operands that the type can represent, and for a sum or
//! contraction of numbers that are multiples of one power of two q (integers: q = 1) and whose
//! absolute values add up to at most `2^mantissa q`.
//!
//! **Deep programs.** After several contractions these bounds are larger than the results. They are
//! then replaced by bounds from disturbed evaluations (`probe`). Where that is certain beforehand,
//! bounds are not computed, but lower limits of them (`deep`).
//!
//! **Absolute terms.** Beside its bound a result may have the sum of the absolute terms of its
//! elements (`terms`).
//!
//! **Local programs** ([`evaluate_local`]) are evaluated on all ranks in step: between collectives
//! by the same rules, and a collective by its effect on the values of a group's ranks.
//!
//! **No bound.** Where no order-independent statement holds (an intermediate result may overflow,
//! the argument of a logarithm may be negative), the bound is infinite; [`RefTensor::unbounded`]
//! counts such elements. A result that certainly overflows is infinite with bound 0.

mod blocks;
mod cast;
mod contract_collectives;
mod counts;
mod deep;
mod int;
mod lanes;
mod local;
mod matmul;
mod modulus;
mod precision;
mod probe;
mod reduce;
mod room;
mod scalar;
mod shape;
mod terms;
#[doc(hidden)]
pub mod testing;
mod tiles;

pub use blocks::{Blocks, LargestNumbers};
pub use contract_collectives::combined;
pub use local::evaluate_local;
pub use modulus::{exact_modulus, exact_modulus_local};
pub use precision::Precision;
pub use reduce::Item;
pub use terms::OUTER;

use kbc_diag::Diagnostic;
use kbc_ir::graph::{CollKind, Collective, Graph, GraphOp, Input, OpId, OpKind};
use kbc_ir::types::{DType, ReduceOp};
use kbc_numerics::compare::{Expected, ReferenceValues};
use kbc_numerics::tensor::Tensor;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

/// The elementwise functions of the execution whose error is bounded.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Accuracy {
    /// kbc's own functions, whose errors are in `docs/reference/numbers.md`.
    #[default]
    Own,
    /// The functions of another program whose result is stored. They are vectorised and less
    /// accurate.
    Others,
}

/// What the evaluator must know of the execution.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EvalOptions {
    /// Maximum number of ranks that share a contraction whose result is partial (the ranks of the
    /// mesh). Only f16 and bf16 results depend on it: they are rounded once per rank and once per
    /// addition.
    pub max_parts: u64,
    /// The accuracy of functions.
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
    /// Sizes, slowest dimension first.
    pub shape: Vec<u64>,
    /// The values; for integer types `exact` as f64 (rounded beyond 2^53).
    pub value: Vec<f64>,
    /// Maximum of `|got - value|` in a correct execution; 0 means bit for bit (except for the sign
    /// of zero). Never NaN.
    pub bound: Vec<f64>,
    /// The values of an integer type.
    pub exact: Option<Vec<i64>>,
    /// The sums of the absolute terms, if they were requested and exist. A result of another
    /// program differs by at most [`OUTER`] times that sum.
    pub terms: Option<Vec<f64>>,
}

impl RefTensor {
    /// Returns the number of elements without a finite bound: any result would pass.
    pub fn unbounded(&self) -> usize {
        self.bound.iter().filter(|b| b.is_infinite()).count()
    }

    /// Returns the number of elements.
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

impl<'a> From<&'a RefTensor> for Expected<'a> {
    /// Converts to the form with which results are compared.
    fn from(t: &'a RefTensor) -> Expected<'a> {
        let floats = ReferenceValues::Float(&t.value);
        let values = t.exact.as_deref().map_or(floats, ReferenceValues::Int);
        Expected { shape: &t.shape, values, bound: &t.bound }
    }
}

/// The state of a value of which ranks hold parts that are still to be combined.
#[derive(Clone, Debug)]
struct Pending {
    /// Sum or Prod. Parts of a minimum or maximum need no record, because nothing is rounded.
    op: ReduceOp,
    /// Number of ranks.
    parts: f64,
    /// Sum: the sum of the absolute values of the parts. Prod: the factor by which partial products
    /// may differ from 1.
    size: Vec<f64>,
    /// Sum: a number of which all parts are multiples, where the bound is 0. Prod: 1 if all are
    /// integers, otherwise 0.
    grain: f64,
}

/// A value of the graph.
#[derive(Clone, Debug)]
struct Value {
    t: Arc<RefTensor>,
    pending: Option<Arc<Pending>>,
    /// Whether all bounds are known to be 0 without looking at them. Those of floats need not be
    /// stored then.
    exact: bool,
}

impl Value {
    fn whole(t: RefTensor) -> Value {
        Value { t: Arc::new(t), pending: None, exact: false }
    }

    /// Returns floating-point values whose bounds are 0, without storing these.
    fn exact(dtype: DType, shape: Vec<u64>, value: Vec<f64>) -> Value {
        let t = RefTensor::real(dtype, shape, value, vec![]);
        Value { t: Arc::new(t), pending: None, exact: true }
    }

    /// Returns the bounds, or None if all are 0.
    fn bounds(&self) -> Option<&[f64]> {
        (!self.exact).then_some(&self.t.bound[..])
    }

    /// Returns the bound of an element.
    fn bound(&self, i: usize) -> f64 {
        self.bounds().map_or(0.0, |e| e[i])
    }

    /// Returns the same with stored bounds.
    fn complete(mut self) -> Value {
        if self.t.bound.len() < self.t.value.len() {
            let t = Arc::make_mut(&mut self.t);
            t.bound = vec![0.0; t.value.len()];
        }
        self
    }

    /// Returns the pending sum or product if the result of the current operation is partial in the
    /// same way. Otherwise the ranks have combined their parts before.
    fn pending_for(&self, result: Option<ReduceOp>) -> Option<&Pending> {
        self.pending.as_deref().filter(|p| Some(p.op) == result)
    }
}

/// Runs the graph on these inputs, one per declared input in order of declaration, and returns its
/// results in their order. An input that is partial over ranks has a leading dimension with one
/// entry per rank.
///
/// E405: number, shape or element type of the inputs; E407: an i32 division by zero; E408: a result
/// that does not fit in memory; E901 and E905: the graph is not in the form that `infer` leaves.
pub fn evaluate(
    graph: &Graph,
    inputs: &[Tensor],
    options: &EvalOptions,
) -> Result<Vec<RefTensor>, Diagnostic> {
    if inputs.len() != graph.inputs.len() {
        return Err(Diagnostic::error(
            "E405",
            format!("the program has {} inputs, and data is given for {}", graph.inputs.len(), inputs.len()),
        ));
    }
    let parts = options.max_parts.max(1) as f64;
    let how = EvalMode { parts, accuracy: options.accuracy, coins: None, limits: None };
    let fed = fed(graph, inputs)?;
    let tail = if options.terms { terms::tail(graph) } else { BTreeSet::new() };
    let results = deep::evaluate(graph, &fed, how, &tail);
    room::clear();
    results
}

/// The mode of an evaluation.
#[derive(Clone, Copy)]
struct EvalMode<'a> {
    /// Number of ranks that share a contraction whose result is partial.
    parts: f64,
    accuracy: Accuracy,
    /// If present, elements are moved by the errors of their operations instead of being bounded.
    coins: Option<probe::RandomBits>,
    /// If present, bounds are lower limits of those that they stand for ([`deep`]). It becomes true
    /// where a value might be another one with larger bounds.
    limits: Option<&'a AtomicBool>,
}

/// Smallest number of elements of an input that is converted where it is used, so that it is held
/// in f64 for a shorter time.
const CONVERTED_LATE: usize = 1 << 18;

/// An input of a graph.
enum Fed<'a> {
    Value(Value),
    /// A large input of floats, which is converted where an operation uses it.
    Large(&'a Tensor),
}

impl Fed<'_> {
    /// Returns the value.
    fn value(&self) -> Value {
        match self {
            Fed::Value(value) => value.clone(),
            Fed::Large(tensor) => {
                let mut value = room::filled(tensor.data().len());
                tensor.data().read_f64(0, &mut value);
                Value::exact(tensor.dtype(), tensor.shape().to_vec(), value)
            }
        }
    }
}

/// Returns a graph's inputs, from which every evaluation starts.
fn fed<'a>(graph: &Graph, inputs: &'a [Tensor]) -> Result<Vec<Fed<'a>>, Diagnostic> {
    let one = |(declared, tensor): (&Input, &'a Tensor)| {
        let ty = &declared.ty;
        let declared_so = ty.dtype == tensor.dtype() && ty.sizes() == tensor.shape();
        let whole = ty.dtype.is_float() && ty.partial.is_none() && declared_so;
        if whole && tensor.data().len() >= CONVERTED_LATE {
            return Ok(Fed::Large(tensor));
        }
        Ok(Fed::Value(reduce::input(declared, tensor)?))
    };
    graph.inputs.iter().zip(inputs).map(one).collect()
}

/// Returns, for each operation, the operands that no later operation uses.
fn done_with(graph: &Graph) -> BTreeMap<OpId, Vec<OpId>> {
    let mut last: BTreeMap<OpId, OpId> = BTreeMap::new();
    for &id in graph.order() {
        last.extend(graph.operands(id).into_iter().map(|o| (o, id)));
    }
    let mut out: BTreeMap<OpId, Vec<OpId>> = BTreeMap::new();
    last.into_iter().for_each(|(operand, user)| out.entry(user).or_default().push(operand));
    out
}

/// Evaluates all operations, and for those of `tail` the sums of their terms. Returns nothing if
/// bounds are lower limits, and a value may depend on them.
fn run_all(
    graph: &Graph,
    fed: &[Fed<'_>],
    how: EvalMode<'_>,
    tail: &BTreeSet<OpId>,
) -> Result<Vec<RefTensor>, Diagnostic> {
    let done = done_with(graph);
    let mut values: BTreeMap<OpId, Value> = BTreeMap::new();
    let mut results: BTreeMap<usize, Arc<RefTensor>> = BTreeMap::new();
    for &id in graph.order() {
        if let OpKind::Input(at) = graph.op(id).kind
            && matches!(fed.get(at), Some(Fed::Large(_)))
            && !tail.contains(&id)
        {
            continue;
        }
        let value = computed(graph, id, &values, fed, (how, tail))?;
        if how.limits.is_some_and(|lost| lost.load(Relaxed) || !deep::finite(&value.t.value)) {
            return Ok(vec![]);
        }
        if let OpKind::Output(at) = graph.op(id).kind {
            results.insert(at, value.t.clone());
        }
        values.insert(id, value);
        done.get(&id).into_iter().flatten().filter_map(|o| values.remove(o)).for_each(room::give_back_value);
    }
    drop(values);
    Ok(results.into_values().map(|t| widened(Arc::unwrap_or_clone(t))).collect())
}

/// Returns the value of an operation whose operands have been evaluated.
fn computed(
    graph: &Graph,
    id: OpId,
    values: &BTreeMap<OpId, Value>,
    fed: &[Fed<'_>],
    (how, tail): (EvalMode<'_>, &BTreeSet<OpId>),
) -> Result<Value, Diagnostic> {
    let op = graph.op(id);
    // These read bounds of 0, too.
    let complete = match &op.kind {
        OpKind::Cast(_) | OpKind::Embedding | OpKind::Tiles(_) => true,
        OpKind::Collective(c) => c.kind == CollKind::ByContract || c.counts.is_some(),
        _ => false,
    };
    let operand = |o: &OpId| {
        let found = match (values.get(o), &graph.op(*o).kind) {
            (None, OpKind::Input(at)) => fed.get(*at).map(Fed::value),
            (found, _) => found.cloned(),
        };
        let found = found.map(|x| if complete { x.complete() } else { x });
        found.ok_or_else(|| broken(op, "it is used before it is computed"))
    };
    let operands: Vec<Value> = graph.operands(id).iter().map(operand).collect::<Result<_, _>>()?;
    let probe = how.coins.is_some();
    let coins = how.coins.map(|coins| (coins, id.0));
    let EvalMode { parts, accuracy, limits, .. } = how;
    let step = Step { op, operands: &operands, parts, accuracy, probe, coins, limits, terms: None };
    let mut value = step.run(fed)?;
    step.agrees(&value)?;
    if tail.contains(&id) {
        terms::add(&step, fed, &mut value)?;
    }
    disturb(id, &mut value, how.coins);
    operands.into_iter().for_each(room::give_back_value);
    Ok(value)
}

/// Moves a value by the error of its operation, if the evaluation is a disturbed one and the
/// operation has not done so itself ([`Step::coins`]).
fn disturb(id: OpId, value: &mut Value, coins: Option<probe::RandomBits>) {
    // Integers are never rounded.
    if let Some(coins) = coins.filter(|_| !value.exact && value.t.exact.is_none()) {
        if value.t.bound.iter().any(|e| *e != 0.0) {
            let t = Arc::make_mut(&mut value.t);
            coins.disturb(id.0, 0, &mut t.value, &t.bound);
            t.bound.fill(0.0);
        }
        value.exact = true;
    }
}

/// Widens the bounds. The evaluation in f64 is off by at most 2^-29 of the error of one in f32, and
/// so are the sums of the bounds themselves; the bounds of floats grow by 2^-20 to cover this.
fn widened(mut t: RefTensor) -> RefTensor {
    let factor = if t.exact.is_some() { 1.0 } else { 1.0 + precision::pow2(-20) };
    t.bound.resize(t.value.len(), 0.0);
    t.bound.iter_mut().for_each(|b| *b = if b.is_nan() { f64::INFINITY } else { *b * factor });
    t
}

/// Returns the error E905 for a graph that `infer` would not have left.
fn broken(op: &GraphOp, what: &str) -> Diagnostic {
    Diagnostic::error("E905", format!("the reference evaluator cannot run %{}: {what}", op.name))
        .primary(op.span, "this operation")
        .note("this is an error of kbc, or of a .kir file that no pass has typed")
}

/// An operation with its operands and the mode of evaluation.
#[derive(Clone, Copy)]
struct Step<'a> {
    op: &'a GraphOp,
    operands: &'a [Value],
    /// Number of ranks that share a contraction whose result is partial.
    parts: f64,
    accuracy: Accuracy,
    /// Whether it belongs to one of the evaluations of [`probe`].
    probe: bool,
    /// If present, elementwise functions and matmuls move their elements themselves, so that the
    /// bounds of a large result are never stored: the random bits, and the number of the operation.
    /// The result is then exact.
    coins: Option<(probe::RandomBits, u32)>,
    /// As in [`EvalMode::limits`].
    limits: Option<&'a AtomicBool>,
    /// If present, bounds are computed for [`terms`], and these are the operands with their own
    /// bounds.
    terms: Option<&'a [Value]>,
}

impl Step<'_> {
    fn run(&self, fed: &[Fed<'_>]) -> Result<Value, Diagnostic> {
        match &self.op.kind {
            OpKind::Input(at) => {
                fed.get(*at).map(Fed::value).ok_or_else(|| self.broken("the program has no such input"))
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
            OpKind::Collective(c) if c.kind == CollKind::ByContract => {
                contract_collectives::run(self, self.one()?, c)
            }
            OpKind::Collective(Collective { counts: Some(counts), .. }) => {
                counts::run(self, self.one()?, counts)
            }
            OpKind::Host(op) => match self.operands.get(op.value()) {
                Some(x) => Ok(self.same(x)),
                None => Err(self.broken("it needs another operand")),
            },
            OpKind::Collective(_)
            | OpKind::Demand
            | OpKind::PartialDemand(_)
            | OpKind::Wait
            | OpKind::Output(_) => Ok(self.same(self.one()?)),
        }
    }

    /// Returns the value of an operand, placed as the result is.
    fn same(&self, x: &Value) -> Value {
        let pending = x.pending.clone().filter(|p| Some(p.op) == self.partial());
        Value { t: x.t.clone(), pending, exact: x.exact }
    }

    /// Returns the operator over which the result is partial, if it is.
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

    /// Returns the number of elements of a result, if memory can hold it.
    fn room(&self, shape: &[u64]) -> Result<usize, Diagnostic> {
        kbc_numerics::tensor::count(shape).filter(|n| *n < 1 << 40).map(|n| n as usize).ok_or_else(|| {
            Diagnostic::error("E408", format!("the number of elements of %{} exceeds 64 bits", self.op.name))
                .primary(self.op.span, format!("its shape is {shape:?}"))
                .help("check the sizes, or use `--no-data` to simulate only the time")
        })
    }

    /// Checks that the value has the type that `infer` found.
    fn agrees(&self, value: &Value) -> Result<(), Diagnostic> {
        let Some(ty) = &self.op.ty else {
            return Err(Diagnostic::error("E901", format!("%{} has no type", self.op.name))
                .primary(self.op.span, "this operation")
                .note("the reference evaluator runs after `infer`"));
        };
        if ty.dtype == value.t.dtype && ty.sizes() == value.t.shape {
            return Ok(());
        }
        Err(self.broken(&format!("its type is {ty}, and its value is {}{:?}", value.t.dtype, value.t.shape)))
    }
}
