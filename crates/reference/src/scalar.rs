//! Elementwise functions: value and bound of each operation of the expression.

use super::lanes::{BLOCK, Gather, Lanes};
use super::precision::{F32, Precision, grain, times, too_long};
use super::{Accuracy, Pending, RefTensor, Step, Value, int, room};
use kbc_diag::Diagnostic;
use kbc_ir::scalar::{Compare, Scalar, ScalarBin, ScalarFn, ScalarUn};
use kbc_ir::types::ReduceOp;
use kbc_numerics::functions::{self, Errors, function};
use kbc_numerics::scalar_eval::{bin_f64, holds};
use std::borrow::Cow;
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Maximum number of products of `pow_int` that are evaluated one by one.
const PRODUCTS: u32 = 64;

/// Applies the function.
pub(super) fn run(step: &Step<'_>, f: &ScalarFn) -> Result<Value, Diagnostic> {
    let Some(first) = step.operands.first() else {
        return Err(step.broken("an elementwise function needs an operand"));
    };
    let dtype = first.t.dtype;
    if step.operands.len() < f.params.len() || step.operands.iter().any(|o| o.t.dtype != dtype) {
        return Err(step.broken("its operands do not match its function"));
    }
    let shapes: Vec<&[u64]> = step.operands.iter().map(|o| &o.t.shape[..]).collect();
    let shape = broadcast_shape(&shapes).ok_or_else(|| step.broken("its operands do not broadcast"))?;
    let n = step.room(&shape)?;
    let precision = Precision::of(dtype);
    let plain = step.terms.is_none() && step.operands.iter().all(|o| o.pending_for(step.partial()).is_none());
    if let Some(precision) = precision.filter(|_| plain) {
        return Ok(whole(step, f, precision, shape));
    }
    let orders: Vec<Option<Vec<usize>>> = shapes.iter().map(|s| broadcast_order(s, &shape, n)).collect();
    let at = |k: usize, i: usize| orders[k].as_ref().map_or(i, |o| o[i]);
    let Some(precision) = precision else {
        return int::map(step, f, shape, n, at);
    };
    let pending: Vec<Option<&Pending>> =
        step.operands.iter().map(|o| o.pending_for(step.partial())).collect();
    let mode = match pending.iter().flatten().next() {
        None => Mode::Whole,
        Some(p) => {
            let parts = pending.iter().flatten().map(|p| p.parts).fold(step.parts, f64::max);
            if p.op == ReduceOp::Prod { Mode::Prod(parts) } else { Mode::Sum(parts) }
        }
    };
    let (accuracy, terms) = (step.accuracy, step.terms.is_some());
    let eval = Eval { stored: precision, mode, accuracy, terms, infinite: Cell::new(false) };
    // Infinities between the operations of an expression are not looked for here.
    step.limits.into_iter().for_each(|lost| lost.store(true, Relaxed));
    let (mut value, mut bound) = (room::for_numbers(n), room::for_numbers(n));
    let (mut size, mut least) = (vec![], f64::INFINITY);
    let mut args: Vec<Vec<Node>> = vec![Vec::with_capacity(BLOCK.min(n)); step.operands.len()];
    for first in (0..n).step_by(BLOCK) {
        let block = first..n.min(first + BLOCK);
        for (k, (x, o)) in args.iter_mut().zip(step.operands).enumerate() {
            x.clear();
            x.extend(block.clone().map(|i| {
                let j = at(k, i);
                let x = Node::new(o.t.value[j], o.bound(j));
                pending[k].map_or(x, |p| Node { part: true, size: p.size[j], grain: p.grain, ..x })
            }));
        }
        if let Some(own) = step.terms {
            // Comparisons use the operands' own bounds, so that exact operands count as exact.
            args.truncate(own.len());
            for (k, o) in own.iter().enumerate() {
                let exact = |(i, x): (usize, &Node)| {
                    if o.bound(at(k, i)) == 0.0 { Node { e: 0.0, ..*x } } else { *x }
                };
                let seen = block.clone().zip(&args[k]).map(exact).collect();
                args.push(seen);
            }
        }
        for node in eval.nodes(&f.body, &args, block.len()) {
            let node = eval.stored(node);
            value.push(node.v);
            bound.push(node.e);
            if mode != Mode::Whole {
                size.push(node.size());
                if node.e == 0.0 {
                    least = least.min(node.grain());
                }
            }
        }
    }
    let t = Arc::new(RefTensor::real(dtype, shape, value, bound));
    let pending = match mode {
        Mode::Whole => None,
        Mode::Sum(parts) => Some(Pending { op: ReduceOp::Sum, parts, size, grain: least }),
        Mode::Prod(parts) => Some(Pending { op: ReduceOp::Prod, parts, size, grain: least }),
    };
    Ok(Value { t, pending: pending.map(Arc::new), exact: false })
}

/// Applies the function to operands of which no rank holds a part, block by block.
fn whole(step: &Step<'_>, f: &ScalarFn, stored: Precision, shape: Vec<u64>) -> Value {
    let (mode, accuracy) = (Mode::Whole, step.accuracy);
    let eval = Eval { stored, mode, accuracy, terms: false, infinite: Cell::new(false) };
    let n = shape.iter().product::<u64>() as usize;
    let orders: Vec<Gather> = step
        .operands
        .iter()
        .map(|o| Gather::new(&shape, &broadcast_strides(&o.t.shape, &shape), 0))
        .collect();
    let mut value = room::for_numbers(n);
    let mut bound = if step.coins.is_some() { vec![] } else { room::for_numbers(n) };
    let mut args: Vec<Lanes> = step.operands.iter().map(|_| Lanes::all(0.0, 0.0)).collect();
    for first in (0..n).step_by(BLOCK) {
        let len = BLOCK.min(n - first);
        for ((x, o), order) in args.iter_mut().zip(step.operands).zip(&orders) {
            order.read(&o.t.value, first, &mut x.v[..len]);
            if let Some(bounds) = o.bounds() {
                order.read(bounds, first, &mut x.e[..len]);
            }
        }
        let mut out = eval.lanes(&f.body, &args, len);
        if stored != F32 {
            eval.replace(&mut out, len, |x| eval.stored(x));
        }
        match step.coins {
            Some((coins, op)) => coins.disturb(op, first, &mut out.v[..len], &out.e[..len]),
            None => bound.extend_from_slice(&out.e[..len]),
        }
        value.extend_from_slice(&out.v[..len]);
    }
    if let Some(lost) = step.limits.filter(|_| eval.infinite.get()) {
        lost.store(true, Relaxed);
    }
    let dtype = step.operands[0].t.dtype;
    let t = Arc::new(RefTensor::real(dtype, shape, value, bound));
    Value { t, pending: None, exact: step.coins.is_some() }
}

/// Returns the shape of operands aligned from the right, each size equal or 1, or None if they do
/// not fit.
pub(super) fn broadcast_shape(shapes: &[&[u64]]) -> Option<Vec<u64>> {
    let rank = shapes.iter().map(|s| s.len()).max()?;
    let mut out = vec![1; rank];
    for s in shapes {
        for (o, d) in out[rank - s.len()..].iter_mut().zip(*s) {
            match (*o, *d) {
                (a, b) if a == b || b == 1 => {}
                (1, b) => *o = b,
                _ => return None,
            }
        }
    }
    Some(out)
}

/// Returns for each element of the result the element of an operand, or None if they are the same.
pub(super) fn broadcast_order(from: &[u64], to: &[u64], n: usize) -> Option<Vec<usize>> {
    let lead = to.len() - from.len();
    if *from == to[lead..] && to[..lead].iter().all(|d| *d == 1) {
        return None;
    }
    Some(strided(to, &broadcast_strides(from, to), n))
}

/// Returns how far the elements of an operand are apart along each dimension of the result.
fn broadcast_strides(from: &[u64], to: &[u64]) -> Vec<usize> {
    let lead = to.len() - from.len();
    let mut strides = vec![0usize; to.len()];
    let mut stride = 1usize;
    for (d, size) in from.iter().enumerate().rev() {
        strides[lead + d] = if *size == 1 { 0 } else { stride };
        stride = stride.saturating_mul(*size as usize);
    }
    strides
}

/// Returns for each of `n` elements of a shape the element to which strides, one per dimension,
/// lead.
pub(super) fn strided(shape: &[u64], strides: &[usize], n: usize) -> Vec<usize> {
    let mut out = vec![0; n];
    if n == 0 {
        return out;
    }
    let mut run = 1;
    // From the last dimension on: the order so far, repeated for each step of the next dimension.
    for (size, stride) in shape.iter().zip(strides).rev() {
        for k in 1..*size as usize {
            for i in 0..run {
                out[k * run + i] = out[i] + k * stride;
            }
        }
        run *= *size as usize;
    }
    out
}

/// How the parts of a partial value are treated.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Mode {
    /// There are no parts.
    Whole,
    /// Parts of a sum over this many ranks.
    Sum(f64),
    /// Parts of a product over this many ranks.
    Prod(f64),
}

/// A value within an expression.
#[derive(Clone, Copy, Debug)]
struct Node {
    v: f64,
    e: f64,
    /// Whether it represents the parts of all ranks; `size` and `grain` are then those of
    /// [`Pending`].
    part: bool,
    size: f64,
    grain: f64,
}

impl Node {
    fn new(v: f64, e: f64) -> Node {
        Node { v, e, part: false, size: 0.0, grain: 0.0 }
    }

    fn size(&self) -> f64 {
        if self.part { self.size } else { self.v.abs() }
    }

    fn grain(&self) -> f64 {
        if self.part { self.grain } else { grain(self.v) }
    }

    fn certainly_nan(&self) -> bool {
        self.v.is_nan() && self.e == 0.0
    }
}

/// Rounds `v`. `propagated` is the propagated error; `exact` states that the operation itself is
/// exact in f64 on exact operands.
pub(super) fn rounded(p: &Precision, v: f64, propagated: f64, exact: bool) -> (f64, f64) {
    let size = v.abs() + propagated;
    if !p.infinite && (size.is_nan() || size + p.rounding(size) >= p.overflow()) {
        return saturated(p, v, propagated, exact);
    }
    let (w, e) = within(p, v, propagated, exact, |size| p.rounding(size));
    if e.is_infinite() && v.is_finite() && propagated.is_finite() {
        // Near the largest number, where masks are, all possible values often round to one number.
        let reach = propagated + v.abs() * super::precision::pow2(-52);
        let (low, high) = (p.round(v - reach), p.round(v + reach));
        if low == high && low.is_finite() {
            return (v, (low - v).abs());
        }
    }
    (w, e)
}

/// Returns a number in a type that rounds too large numbers to its largest, and the distance to the
/// images of the ends of the interval: rounding is monotonic.
fn saturated(p: &Precision, v: f64, propagated: f64, exact: bool) -> (f64, f64) {
    if v.is_nan() || !propagated.is_finite() {
        return (v, if propagated == 0.0 { 0.0 } else { f64::INFINITY });
    }
    if v.is_infinite() {
        return (p.round(v), 0.0);
    }
    let reach = propagated + if exact { 0.0 } else { v.abs() * super::precision::pow2(-50) };
    let (at, low, high) = (p.round(v), p.round(v - reach), p.round(v + reach));
    (at, (high - at).max(at - low))
}

fn within(p: &Precision, v: f64, propagated: f64, exact: bool, own: impl Fn(f64) -> f64) -> (f64, f64) {
    if !v.is_finite() {
        let sure = if v.is_nan() { propagated == 0.0 } else { propagated.is_finite() };
        return (v, if sure { 0.0 } else { f64::INFINITY });
    }
    if propagated == 0.0 && exact && p.holds(v) {
        return (v, 0.0);
    }
    if !propagated.is_finite() {
        return (v, f64::INFINITY);
    }
    let e = propagated + own(v.abs() + propagated);
    if v.abs() + e < p.overflow() {
        (v, e)
    } else if v.abs() - e >= p.overflow() {
        (f64::INFINITY.copysign(v), 0.0)
    } else {
        (v, f64::INFINITY)
    }
}

/// Evaluation of an expression on one element.
struct Eval {
    stored: Precision,
    mode: Mode,
    accuracy: Accuracy,
    /// Whether bounds are computed for [`super::terms`]: numbers and results of functions are then
    /// terms, and comparisons have operands of their own, after the others.
    terms: bool,
    /// Whether an operation on whole values had an infinite result.
    infinite: Cell<bool>,
}

impl Eval {
    /// Evaluates an expression on `n` elements; each operand provides its values.
    fn nodes(&self, e: &Scalar, args: &[Vec<Node>], n: usize) -> Vec<Node> {
        let mut x = match e {
            Scalar::Num(v) => {
                let v = self.stored.round(*v);
                return vec![Node::new(v, if self.terms { super::OUTER * v.abs() } else { 0.0 }); n];
            }
            Scalar::Arg(i) => {
                return args.get(*i).cloned().unwrap_or_else(|| vec![Node::new(f64::NAN, f64::INFINITY); n]);
            }
            Scalar::If(c, a, b) => return self.chosen(c, [a, b].map(|x| self.nodes(x, args, n)), args, n),
            Scalar::Un(_, a) | Scalar::Bin(_, a, _) | Scalar::Pow(a, _) => self.nodes(a, args, n),
        };
        match e {
            Scalar::Un(op, _) => x.iter_mut().for_each(|x| *x = self.un(*op, *x)),
            Scalar::Pow(_, k) => x.iter_mut().for_each(|x| *x = self.pow(*x, *k)),
            Scalar::Bin(op, _, b) => {
                let y = self.nodes(b, args, n);
                // The frequent operations have loops of their own.
                match op {
                    ScalarBin::Add => self.pairs(ScalarBin::Add, &mut x, &y),
                    ScalarBin::Sub => self.pairs(ScalarBin::Sub, &mut x, &y),
                    ScalarBin::Mul => self.pairs(ScalarBin::Mul, &mut x, &y),
                    other => self.pairs(*other, &mut x, &y),
                }
            }
            Scalar::Num(_) | Scalar::Arg(_) | Scalar::If(..) => {}
        }
        x
    }

    /// Evaluates an expression on the first `n` elements of a block, of which no rank holds a part;
    /// each operand provides its values.
    fn lanes(&self, e: &Scalar, args: &[Lanes], n: usize) -> Lanes {
        match e {
            Scalar::Num(v) => Lanes::all(self.stored.round(*v), 0.0),
            Scalar::Arg(i) => args.get(*i).cloned().unwrap_or_else(|| Lanes::all(f64::NAN, f64::INFINITY)),
            Scalar::Un(op, a) => {
                let mut x = self.lanes(a, args, n);
                match (op, function(*op).errors) {
                    (ScalarUn::Neg, _) => x.negate(),
                    (ScalarUn::Exp, Errors::Library(l)) if self.accuracy == Accuracy::Own => {
                        x.exponential(l.ulps, n, |x, e, v| {
                            let out = self.un_of(*op, v, Node::new(x, e));
                            self.note(out.v);
                            (out.v, out.e)
                        });
                    }
                    _ => self.replace(&mut x, n, |x| self.un(*op, x)),
                }
                x
            }
            Scalar::Pow(a, k) => {
                let mut x = self.lanes(a, args, n);
                self.replace(&mut x, n, |x| self.pow(x, *k));
                x
            }
            Scalar::Bin(op, a, b) => {
                let (x, y) = (self.side(a, args, n), self.side(b, args, n));
                x.pair(*op, &y, n, |x, y| {
                    let out = self.bin(*op, Node::new(x.0, x.1), Node::new(y.0, y.1));
                    self.note(out.v);
                    (out.v, out.e)
                })
            }
            Scalar::If(c, a, b) => {
                let [x, y, yes, no] = [&c.a, &c.b, &**a, &**b].map(|side| self.lanes(side, args, n));
                let mut out = yes.clone();
                for i in 0..n {
                    let [x, y, yes, no] = [&x, &y, &yes, &no].map(|side| Node::new(side.v[i], side.e[i]));
                    let taken = self.choose(c, x, y, yes, no);
                    out.put(i, (taken.v, taken.e));
                }
                out
            }
        }
    }

    /// Evaluates an operand of an operation. Those of the expression are not copied.
    fn side<'a>(&self, e: &Scalar, args: &'a [Lanes], n: usize) -> Cow<'a, Lanes> {
        match e {
            Scalar::Arg(i) if *i < args.len() => Cow::Borrowed(&args[*i]),
            _ => Cow::Owned(self.lanes(e, args, n)),
        }
    }

    /// Replaces the first `n` elements of a block one by one.
    #[inline(always)]
    fn replace(&self, x: &mut Lanes, n: usize, f: impl Fn(Node) -> Node) {
        for i in 0..n {
            let out = f(Node::new(x.v[i], x.e[i]));
            self.note(out.v);
            x.put(i, (out.v, out.e));
        }
    }

    /// Remembers an infinite result.
    #[inline(always)]
    fn note(&self, v: f64) {
        if v.is_infinite() {
            self.infinite.set(true);
        }
    }

    #[inline(always)]
    fn pairs(&self, op: ScalarBin, x: &mut [Node], y: &[Node]) {
        x.iter_mut().zip(y).for_each(|(x, y)| *x = self.bin(op, *x, *y));
    }

    /// Returns the value as the operation stores it: f16 and bf16 are rounded once more; parts of a
    /// sum or product are then combined, with one rounding per combination.
    fn stored(&self, x: Node) -> Node {
        let narrow = self.stored != F32;
        match self.mode {
            Mode::Sum(parts) if x.part => {
                let x = if narrow { self.part(&self.stored, x, x.e) } else { x };
                let e =
                    if x.e == 0.0 { 0.0 } else { x.e + times(self.stored.gamma(parts - 1.0), x.size + x.e) };
                Node { e, ..x }
            }
            Mode::Prod(parts) if x.part => {
                let x = if narrow { self.part(&self.stored, x, x.e) } else { x };
                let e = if x.e == 0.0 {
                    0.0
                } else {
                    x.e + times(self.stored.gamma(parts - 1.0), x.v.abs() + x.e)
                };
                Node { e, ..x }
            }
            _ if narrow => {
                let (v, e) = rounded(&self.stored, x.v, x.e, true);
                Node { v, e, ..x }
            }
            _ => x,
        }
    }

    /// Returns a result on all ranks, rounded once on each; `x.size` and `x.grain` are already
    /// those of the result.
    fn part(&self, p: &Precision, x: Node, propagated: f64) -> Node {
        let Node { v, size, grain, .. } = x;
        let e = match self.mode {
            _ if !v.is_finite() || !propagated.is_finite() => f64::INFINITY,
            Mode::Sum(_) if propagated == 0.0 && p.exact(size, grain) => 0.0,
            Mode::Prod(_) if propagated == 0.0 && grain == 1.0 && p.exact(size, 1.0) => 0.0,
            Mode::Sum(parts) => propagated + p.u * (size + propagated) + 0.5 * parts * p.eta,
            Mode::Prod(parts) => propagated + p.gamma(parts) * (v.abs() + propagated),
            Mode::Whole => propagated + p.rounding(v.abs() + propagated),
        };
        let fits = match self.mode {
            Mode::Prod(_) => size * (1.0 + 1e-6) < p.max.min(1.0 / p.tiny),
            _ => size + e < p.max,
        };
        Node { v, e: if fits { e } else { f64::INFINITY }, part: true, size, grain }
    }

    fn whole(&self, v: f64, propagated: f64, exact: bool) -> Node {
        let (v, e) = rounded(&F32, v, propagated, exact);
        Node::new(v, e)
    }

    /// Returns the result of an operation that does not commute with combining parts; `infer` keeps
    /// no value partial through it.
    fn lost(&self, v: f64) -> Node {
        Node { part: true, size: f64::INFINITY, ..Node::new(v, f64::INFINITY) }
    }

    #[inline(always)]
    fn bin(&self, op: ScalarBin, a: Node, b: Node) -> Node {
        let v = bin_f64(op, a.v, b.v);
        if a.part || b.part {
            return self.bin_parts(op, a, b, v);
        }
        // The case of almost all elements: rounded, and far from overflow. NaN fails the
        // comparison.
        let propagated = match op {
            ScalarBin::Add | ScalarBin::Sub => a.e + b.e,
            ScalarBin::Mul => a.v.abs() * b.e + a.e * b.v.abs() + a.e * b.e,
            _ => f64::INFINITY,
        };
        let e = propagated + F32.rounding(v.abs() + propagated);
        if v.abs() + e < F32.overflow() && (propagated > 0.0 || too_long(v)) {
            return Node::new(v, e);
        }
        if a.certainly_nan() || b.certainly_nan() {
            return Node::new(f64::NAN, 0.0);
        }
        // Without a bound an execution may even have NaN here.
        if a.e.is_infinite() || b.e.is_infinite() {
            return Node::new(v, f64::INFINITY);
        }
        match op {
            ScalarBin::Add => self.whole(v, a.e + b.e, sum_is_exact(a.v, b.v, v)),
            ScalarBin::Sub => self.whole(v, a.e + b.e, sum_is_exact(a.v, -b.v, v)),
            ScalarBin::Mul => {
                let sure = |x: &Node, y: &Node| x.v.is_infinite() && x.e == 0.0 && y.v.abs() > y.e;
                let propagated = if sure(&a, &b) || sure(&b, &a) {
                    0.0
                } else {
                    times(a.v.abs(), b.e) + times(a.e, b.v.abs()) + times(a.e, b.e)
                };
                self.whole(v, propagated, true)
            }
            ScalarBin::Div => {
                let propagated = if (b.e > 0.0 && b.v.abs() <= b.e) || (b.v == 0.0 && a.v != 0.0) {
                    // The sign of the divisor is unknown; that of a zero depends on the sum that
                    // produced it.
                    f64::INFINITY
                } else if a.e == 0.0 && (b.e == 0.0 || a.v.is_infinite()) {
                    0.0
                } else {
                    (a.e + times(v.abs(), b.e)) / (b.v.abs() - b.e)
                };
                if propagated.is_infinite() {
                    return Node::new(v, propagated);
                }
                self.whole(v, propagated, v * b.v == a.v)
            }
            ScalarBin::Min | ScalarBin::Max => {
                if (a.v - b.v).abs() > a.e + b.e {
                    return if v == a.v { a } else { b };
                }
                let (lo, hi) = (bin_f64(op, a.v - a.e, b.v - b.e), bin_f64(op, a.v + a.e, b.v + b.e));
                let e = if a.e == 0.0 && b.e == 0.0 { 0.0 } else { (hi - v).max(v - lo) };
                Node::new(v, if e.is_nan() { f64::INFINITY } else { e })
            }
        }
    }

    /// Evaluates an operation with the parts of a sum or product on one side, or on both.
    fn bin_parts(&self, op: ScalarBin, a: Node, b: Node, v: f64) -> Node {
        let (sa, sb) = (a.size(), b.size());
        let whole_number = |x: &Node| if x.part { x.grain } else { f64::from(x.v.fract() == 0.0) };
        let (size, grain, propagated) = match (self.mode, op) {
            (Mode::Sum(_), ScalarBin::Add | ScalarBin::Sub) => (sa + sb, a.grain().min(b.grain()), a.e + b.e),
            (Mode::Sum(_), ScalarBin::Mul) if !(a.part && b.part) => (
                sa * sb,
                grain_product(a.grain(), b.grain()),
                times(sa, b.e) + times(a.e, sb) + times(a.e, b.e),
            ),
            (Mode::Sum(_), ScalarBin::Div) if !b.part => {
                let shift = if b.v.abs() == super::precision::grain(b.v) { a.grain / b.v.abs() } else { 0.0 };
                let propagated = if b.e == 0.0 && b.v != 0.0 {
                    a.e / sb
                } else if sb > b.e {
                    (a.e + times(sa / sb, b.e)) / (sb - b.e)
                } else {
                    f64::INFINITY
                };
                (sa / sb, shift, propagated)
            }
            (Mode::Prod(_), ScalarBin::Mul) if a.part && b.part => (
                sa * sb,
                whole_number(&a).min(whole_number(&b)),
                times(a.v.abs(), b.e) + times(a.e, b.v.abs()) + times(a.e, b.e),
            ),
            _ => return self.lost(v),
        };
        self.part(&F32, Node { v, e: 0.0, part: true, size, grain }, propagated)
    }

    fn un(&self, op: ScalarUn, a: Node) -> Node {
        self.un_of(op, (function(op).f64)(a.v), a)
    }

    /// Returns the result of a function whose value is known.
    fn un_of(&self, op: ScalarUn, v: f64, a: Node) -> Node {
        let row = function(op);
        let (x, e) = (a.v, a.e);
        if a.part && op != ScalarUn::Neg {
            return self.lost(v);
        }
        let library = match row.errors {
            Errors::Sign => return Node { v, ..a },
            _ if a.certainly_nan() => return Node::new(f64::NAN, 0.0),
            _ if e.is_infinite() => return Node::new(v, e),
            Errors::InverseRoot => {
                let root = self.un(ScalarUn::Sqrt, a);
                return self.bin(ScalarBin::Div, Node::new(1.0, 0.0), root);
            }
            Errors::Root => {
                let propagated = match () {
                    () if e == 0.0 || x + e < 0.0 => 0.0,
                    () if x - e < 0.0 => f64::INFINITY,
                    () => e / (x.sqrt() + (x - e).sqrt()),
                };
                return self.whole(v, propagated, v * v == x);
            }
            Errors::Library(l) => l,
        };
        let others = self.accuracy == Accuracy::Others;
        let propagated = if e == 0.0 { 0.0 } else { (library.passed)(x, v, e) };
        let exact = e == 0.0 && library.exact_at == Some(x) && !others;
        let own = if others { library.others } else { functions::Accuracy::Ulps(library.ulps) };
        let ulp = |size: f64| match own {
            functions::Accuracy::Absolute(error) => error,
            functions::Accuracy::Ulps(n) => n * (2.0 * F32.u * size).max(F32.eta),
        };
        let (v, e) = within(&F32, v, propagated, exact && !self.terms, ulp);
        Node::new(v, if self.terms { e + super::OUTER * v.abs() } else { e })
    }

    fn pow(&self, a: Node, n: u32) -> Node {
        match n {
            0 => Node::new(1.0, 0.0),
            1 => a,
            _ if a.part => self.lost(f64::NAN),
            2..=PRODUCTS => (1..n).fold(a, |acc, _| self.bin(ScalarBin::Mul, acc, a)),
            _ => {
                let (v, k) = (libm::pow(a.v, f64::from(n)), f64::from(n));
                let top = a.v.abs() + a.e;
                let propagated = times(a.e, k * libm::pow(top, k - 1.0));
                let exact = a.v.abs() == 1.0 || a.v == 0.0;
                let own = |size: f64| F32.gamma(k - 1.0) * size + 0.5 * k * F32.eta;
                let (v, e) = within(&F32, v, propagated, exact, own);
                Node::new(v, e)
            }
        }
    }

    fn chosen(&self, c: &Compare, [yes, no]: [Vec<Node>; 2], args: &[Vec<Node>], n: usize) -> Vec<Node> {
        let (own, args) = match self.terms {
            true => (&Eval { terms: false, infinite: Cell::new(false), ..*self }, &args[args.len() / 2..]),
            false => (self, args),
        };
        let sides = own.nodes(&c.a, args, n).into_iter().zip(own.nodes(&c.b, args, n));
        sides.zip(yes.into_iter().zip(no)).map(|((x, y), (yes, no))| self.choose(c, x, y, yes, no)).collect()
    }

    fn choose(&self, c: &Compare, x: Node, y: Node, yes: Node, no: Node) -> Node {
        let first = holds(c.op, x.v, y.v);
        let sure = (x.e == 0.0 && y.e == 0.0)
            || (x.v - y.v).abs() > x.e + y.e
            || x.certainly_nan()
            || y.certainly_nan();
        if x.part || y.part {
            return self.lost(f64::NAN);
        }
        let (taken, other) = if first { (yes, no) } else { (no, yes) };
        if sure {
            return taken;
        }
        if taken.part || other.part {
            let size = taken.size() + other.size();
            let e = 2.0 * size + taken.e + other.e;
            return Node { v: taken.v, e, part: true, size, grain: 0.0 };
        }
        if taken.v == other.v {
            return Node { e: taken.e.max(other.e), ..taken };
        }
        let reach = (other.v - taken.v).abs() + other.e;
        Node { e: if reach.is_nan() { f64::INFINITY } else { taken.e.max(reach) }, ..taken }
    }
}

/// Returns the product of two grains. A zero among the factors makes the product zero, which is a
/// multiple of anything.
fn grain_product(a: f64, b: f64) -> f64 {
    if a.is_infinite() || b.is_infinite() { f64::INFINITY } else { a * b }
}

/// Whether `s`, the rounded sum of two numbers, is their sum (Knuth's two-sum).
fn sum_is_exact(a: f64, b: f64, s: f64) -> bool {
    let t = s - a;
    (a - (s - t)) + (b - t) == 0.0
}
