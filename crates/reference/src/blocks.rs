//! Programs whose results depend, element by element, on the same elements of their inputs: they
//! are evaluated a block of elements at a time, so that nothing as large as a result is held.
//!
//! The module decides which programs these are. Programs of collectives are: in the evaluation a
//! change of placement is the identity, and an input that is partial is combined element by
//! element. A block is the same program with smaller types.

use super::{Accuracy, EvalMode, EvalOptions, RefTensor, fed, probe, room, run_all};
use kbc_diag::Diagnostic;
use kbc_ir::graph::{CollKind, Collective, Graph, OpKind};
use kbc_ir::types::{DType, TensorType};
use kbc_numerics::tensor::Tensor;
use std::collections::BTreeSet;
use std::ops::Range;

/// A program that is evaluated in blocks: rows of the first dimension that has more than one.
pub struct Blocks<'a> {
    graph: &'a Graph,
    inputs: &'a [Tensor],
    parts: f64,
    dim: usize,
    sizes: Vec<u64>,
}

/// Number of elements of a block, at least: the values of all operations on it fit in a cache.
const BLOCK: u64 = 1 << 15;

/// The largest numbers of a result, which decide whether its bounds are useful.
#[derive(Clone, Copy, Debug, Default)]
pub struct LargestNumbers {
    value: f64,
    bound: f64,
}

impl LargestNumbers {
    /// Returns those of all elements that are in either of two sets.
    #[must_use]
    pub fn merged(self, other: LargestNumbers) -> LargestNumbers {
        LargestNumbers { value: self.value.max(other.value), bound: self.bound.max(other.bound) }
    }

    /// Returns those of a block of a result.
    pub fn of(t: &RefTensor) -> LargestNumbers {
        let (value, bound) = probe::largest(t);
        LargestNumbers { value, bound }
    }

    /// Whether the bounds of a result are useful: [`super::evaluate`] gives the same ones.
    pub fn bounds_are_tight(self, dtype: DType) -> bool {
        !probe::too_large(dtype, self.value, self.bound)
    }
}

impl<'a> Blocks<'a> {
    /// Returns the sizes of all values of a program that can be evaluated in blocks.
    pub fn possible(graph: &Graph, options: &EvalOptions) -> Option<Vec<u64>> {
        if options.terms || options.accuracy != Accuracy::Own {
            return None;
        }
        let sizes = graph.op(*graph.order().first()?).ty.as_ref()?.sizes();
        for id in graph.order() {
            let op = graph.op(*id);
            let ty = op.ty.as_ref()?;
            let by_element = match &op.kind {
                OpKind::Input(_) | OpKind::Demand | OpKind::PartialDemand(_) | OpKind::Wait => true,
                OpKind::Collective(Collective { kind, counts, .. }) => {
                    *kind != CollKind::ByContract && counts.is_none()
                }
                // What is still partial has properties of all elements together.
                OpKind::Output(_) | OpKind::Map(_) | OpKind::Cast(_) => ty.partial.is_none(),
                OpKind::Matmul { .. }
                | OpKind::Grouped(_)
                | OpKind::Tiles(_)
                | OpKind::ReduceDim { .. }
                | OpKind::Embedding
                | OpKind::Fill(_)
                | OpKind::Shape(_)
                | OpKind::Host(_) => false,
            };
            if !by_element || ty.sizes() != sizes {
                return None;
            }
        }
        sizes.iter().any(|n| *n > 1).then_some(sizes)
    }

    /// Returns the blocks of a program, or None if it can only be evaluated as a whole. Its results
    /// are those of [`super::evaluate`] if [`LargestNumbers::bounds_are_tight`] for each of them.
    pub fn of(graph: &'a Graph, inputs: &'a [Tensor], options: &EvalOptions) -> Option<Blocks<'a>> {
        let sizes = Blocks::possible(graph, options).filter(|_| inputs.len() == graph.inputs.len())?;
        let dim = sizes.iter().position(|n| *n > 1)?;
        let parts = options.max_parts.max(1) as f64;
        let fits = |(declared, given): (&kbc_ir::graph::Input, &Tensor)| {
            let lead = usize::from(declared.ty.partial.is_some());
            given.dtype() == declared.ty.dtype && given.shape().get(lead..) == Some(&sizes[..])
        };
        let fit = graph.inputs.iter().zip(inputs).all(fits);
        fit.then_some(Blocks { graph, inputs, parts, dim, sizes })
    }

    /// Returns the dimension that is divided. Those before it have size 1.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// Returns the rows of each block.
    pub fn ranges(&self) -> impl Iterator<Item = Range<u64>> + Send + use<> {
        let rows = self.sizes[self.dim];
        let inner: u64 = self.sizes[self.dim + 1..].iter().product();
        let step = BLOCK.div_ceil(inner.max(1));
        (0..rows.div_ceil(step)).map(move |i| i * step..rows.min((i + 1) * step))
    }

    /// Returns the results' elements in some rows.
    ///
    /// # Errors
    /// Returns the errors of [`super::evaluate`].
    pub fn evaluate(&self, rows: Range<u64>) -> Result<Vec<RefTensor>, Diagnostic> {
        let mut graph = self.graph.clone();
        let cut = |ty: &mut TensorType| {
            if let Some(dim) = ty.dims.get_mut(self.dim) {
                dim.size = rows.end - rows.start;
            }
        };
        for id in self.graph.order() {
            graph.op_mut(*id).ty.iter_mut().for_each(cut);
        }
        graph.inputs.iter_mut().for_each(|input| cut(&mut input.ty));
        let block = |t: &Tensor| {
            let mut bounds: Vec<(u64, u64)> = t.shape().iter().map(|n| (0, *n)).collect();
            let lead = t.shape().len() - self.sizes.len();
            bounds[lead + self.dim] = (rows.start, rows.end);
            t.extract(&bounds).expect("rows of an input lie inside it")
        };
        let inputs: Vec<Tensor> = self.inputs.iter().map(block).collect();
        let how = EvalMode { parts: self.parts, accuracy: Accuracy::Own, coins: None, limits: None };
        let results = run_all(&graph, &fed(&graph, &inputs)?, how, &BTreeSet::new());
        room::clear();
        results
    }
}
