//! Table of PyTorch operations: for each, its schema as PyTorch writes it, and the rule
//! for its results.
//!
//! This module owns the set of known operations, their parameters with defaults, and the form of
//! their results. The rules themselves are in `rules`. An operation that is not in the table is
//! rejected (E522).

use super::arg::{Arg, Int};
use super::rule::Rule::{self, *};
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// A parameter.
#[derive(Clone, PartialEq, Debug)]
pub struct Param {
    /// Its name in the schema.
    pub name: &'static str,
    /// Its type, without the default.
    pub ty: Ty,
    /// The default value; none for a required parameter.
    pub default: Option<Arg<usize>>,
}

/// The type of a parameter, which determines the arguments that it accepts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "the names are those of the schema")]
pub enum Ty {
    Tensor,
    OptTensor,
    Tensors,
    OptTensors,
    Int,
    OptInt,
    Ints,
    OptInts,
    Float,
    OptFloat,
    Bool,
    OptBool,
    Scalar,
    OptScalar,
    Str,
    OptDType,
    Place,
}

/// The form of an operation's results.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Returns {
    /// This many separate results.
    Each(usize),
    /// One list of tensors.
    List,
}

/// An operation.
#[derive(Clone, Debug)]
pub struct OpSignature {
    /// The name, such as `aten.mm.default`.
    pub name: &'static str,
    /// Parameters, in order.
    pub params: Vec<Param>,
    /// The form of the results.
    pub returns: Returns,
    /// The rule that gives the results from the arguments.
    pub rule: Rule,
}

/// Returns the operation with that name, without `torch.ops.`.
pub fn find(name: &str) -> Option<&'static OpSignature> {
    OPS.get(name)
}

/// Returns all names in alphabetical order.
pub fn names() -> impl Iterator<Item = &'static str> {
    OPS.keys().copied()
}

static OPS: LazyLock<BTreeMap<&'static str, OpSignature>> =
    LazyLock::new(|| TABLE.iter().map(|(line, rule)| row(line, *rule)).collect());

fn row(line: &'static str, rule: Rule) -> (&'static str, OpSignature) {
    let (name, rest) = line.split_once('(').expect("a schema has parameters");
    let (params, returns) = rest.split_once(") -> ").expect("a schema has results");
    // The default of a list of numbers contains commas; it is written without spaces to survive
    // this split: `int[2] dilation=[1, 1]`.
    let params = params.split(", ").filter(|p| !p.is_empty() && *p != "*").map(param).collect();
    let returns = match returns {
        "Tensor[]" => Returns::List,
        "()" => Returns::Each(0),
        r if r.starts_with('(') => Returns::Each(r.split(',').count()),
        _ => Returns::Each(1),
    };
    (name, OpSignature { name, params, returns, rule })
}

fn param(text: &'static str) -> Param {
    let (ty, rest) = text.split_once(' ').expect("a parameter has a type and a name");
    let (name, default) = match rest.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (rest, None),
    };
    let ty = match ty {
        "Tensor" => Ty::Tensor,
        "Tensor?" => Ty::OptTensor,
        "Tensor[]" => Ty::Tensors,
        "Tensor?[]" => Ty::OptTensors,
        "int" => Ty::Int,
        "int?" => Ty::OptInt,
        "int[]" => Ty::Ints,
        "int[]?" => Ty::OptInts,
        "float" => Ty::Float,
        "float?" => Ty::OptFloat,
        "bool" => Ty::Bool,
        "bool?" => Ty::OptBool,
        "Scalar" => Ty::Scalar,
        "Scalar?" => Ty::OptScalar,
        "str" => Ty::Str,
        "ScalarType?" => Ty::OptDType,
        _ => Ty::Place,
    };
    Param { name, ty, default: default.map(value) }
}

fn value(text: &str) -> Arg<usize> {
    match text {
        "None" => Arg::None,
        "True" => Arg::Bool(true),
        "False" => Arg::Bool(false),
        "[]" => Arg::Ints(vec![]),
        _ => match (text.parse(), text.parse()) {
            (Ok(n), _) => Arg::Int(Int::Is(n)),
            (_, Ok(x)) => Arg::Float(x),
            _ => Arg::Text(text.to_owned()),
        },
    }
}

/// Schemas with their rules, by kind. `SymInt` is written as `int`; devices, layouts and memory
/// formats keep their names.
#[rustfmt::skip]
const TABLE: &[(&str, Rule)] = &[
    // collectives: along dimension 0; the result is valid after a wait
    ("_c10d_functional.all_reduce.default(Tensor input, str reduce_op, str group_name) -> Tensor", AllReduce),
    ("_c10d_functional.all_reduce_coalesced.default(Tensor[] inputs, str reduce_op, str group_name) -> Tensor[]", AllReduce),
    ("_c10d_functional.all_gather_into_tensor.default(Tensor input, int group_size, str group_name) -> Tensor", AllGather),
    ("_c10d_functional.all_gather_into_tensor_coalesced.default(Tensor[] inputs, int group_size, str group_name) -> Tensor[]", AllGather),
    ("_c10d_functional.reduce_scatter_tensor.default(Tensor input, str reduce_op, int group_size, str group_name) -> Tensor", ReduceScatter),
    ("_c10d_functional.reduce_scatter_tensor_coalesced.default(Tensor[] inputs, str reduce_op, int group_size, str group_name) -> Tensor[]", ReduceScatter),
    ("_c10d_functional.all_to_all_single.default(Tensor input, int[] output_split_sizes, int[] input_split_sizes, str group_name) -> Tensor", AllToAll),
    ("_c10d_functional.broadcast.default(Tensor input, int src, str group_name) -> Tensor", Broadcast),
    ("_c10d_functional.wait_tensor.default(Tensor tensor) -> Tensor", Wait),
    ("_c10d_functional.wait_tensors.default(Tensor[] tensors) -> Tensor[]", Wait),
    // waits by itself
    ("_dtensor.shard_dim_alltoall.default(Tensor input, int gather_dim, int shard_dim, str group_name) -> Tensor", ShardDim),
    // from graphs of DTensors: another placement of the same value
    ("_dtensor.redistribute.default(Tensor self) -> Tensor", Same),
    // matmuls
    ("aten.mm.default(Tensor self, Tensor mat2) -> Tensor", Mm),
    ("aten.bmm.default(Tensor self, Tensor mat2) -> Tensor", Bmm),
    ("aten.addmm.default(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor", Addmm),
    ("aten.baddbmm.default(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor", Baddbmm),
    ("aten.matmul.default(Tensor self, Tensor other) -> Tensor", Matmul),
    ("aten.linear.default(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor", Linear),
    ("aten.einsum.default(str equation, Tensor[] tensors, *, int[]? path=None) -> Tensor", Einsum),
    ("aten.scaled_dot_product_attention.default(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, float dropout_p=0.0, bool is_causal=False, *, float? scale=None, bool enable_gqa=False) -> Tensor", Attention),
    // elementwise, one operand, same type
    ("aten.clone.default(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor", Same),
    ("aten.alias.default(Tensor self) -> Tensor", Same),
    ("aten.detach.default(Tensor self) -> Tensor", Same),
    ("aten.contiguous.default(Tensor self, *, MemoryFormat memory_format=None) -> Tensor", Same),
    ("aten.lift_fresh_copy.default(Tensor self) -> Tensor", Same),
    ("aten.relu.default(Tensor self) -> Tensor", Same),
    ("aten.gelu.default(Tensor self, *, str approximate=none) -> Tensor", Same),
    ("aten.silu.default(Tensor self) -> Tensor", Same),
    ("aten.neg.default(Tensor self) -> Tensor", Same),
    ("aten.abs.default(Tensor self) -> Tensor", Same),
    ("aten.sign.default(Tensor self) -> Tensor", Same),
    ("aten.elu.default(Tensor self, Scalar alpha=1, Scalar scale=1, Scalar input_scale=1) -> Tensor", Same),
    ("aten.leaky_relu.default(Tensor self, Scalar negative_slope=0.01) -> Tensor", Same),
    ("aten.flip.default(Tensor self, int[] dims) -> Tensor", Same),
    ("aten.bitwise_not.default(Tensor self) -> Tensor", Same),
    ("aten.tril.default(Tensor self, int diagonal=0) -> Tensor", Same),
    ("aten.triu.default(Tensor self, int diagonal=0) -> Tensor", Same),
    ("aten.clamp.default(Tensor self, Scalar? min=None, Scalar? max=None) -> Tensor", Clamp),
    ("aten.clamp.Tensor(Tensor self, Tensor? min=None, Tensor? max=None) -> Tensor", Clamp),
    ("aten.hardtanh.default(Tensor self, Scalar min_val=-1, Scalar max_val=1) -> Tensor", Clamp),
    ("aten.clamp_min.default(Tensor self, Scalar min) -> Tensor", Clamp),
    ("aten.clamp_max.default(Tensor self, Scalar max) -> Tensor", Clamp),
    ("aten.masked_fill.Scalar(Tensor self, Tensor mask, Scalar value) -> Tensor", Masked),
    ("aten.masked_fill.Tensor(Tensor self, Tensor mask, Tensor value) -> Tensor", Masked),
    ("aten.gelu_backward.default(Tensor grad_output, Tensor self, *, str approximate=none) -> Tensor", Backward),
    ("aten.threshold_backward.default(Tensor grad_output, Tensor self, Scalar threshold) -> Tensor", Backward),
    ("aten.silu_backward.default(Tensor grad_output, Tensor self) -> Tensor", Backward),
    ("aten._softmax_backward_data.default(Tensor grad_output, Tensor output, int dim, ScalarType? input_dtype) -> Tensor", SoftmaxBackward),
    ("aten._log_softmax_backward_data.default(Tensor grad_output, Tensor output, int dim, ScalarType? input_dtype) -> Tensor", OutputBackward),
    ("aten.tanh_backward.default(Tensor grad_output, Tensor output) -> Tensor", OutputBackward),
    ("aten.sigmoid_backward.default(Tensor grad_output, Tensor output) -> Tensor", OutputBackward),
    ("aten.copy.default(Tensor self, Tensor src, bool non_blocking=False) -> Tensor", Copy),
    ("aten.copy_.default(Tensor self, Tensor src, bool non_blocking=False) -> Tensor", Copy),
    ("aten.slice_scatter.default(Tensor self, Tensor src, int dim=0, int? start=None, int? end=None, int step=1) -> Tensor", SliceScatter),
    // elementwise; integers become f32
    ("aten.exp.default(Tensor self) -> Tensor", Float),
    ("aten.log.default(Tensor self) -> Tensor", Float),
    ("aten.erf.default(Tensor self) -> Tensor", Float),
    ("aten.tanh.default(Tensor self) -> Tensor", Float),
    ("aten.sigmoid.default(Tensor self) -> Tensor", Float),
    ("aten.sqrt.default(Tensor self) -> Tensor", Float),
    ("aten.rsqrt.default(Tensor self) -> Tensor", Float),
    ("aten.sin.default(Tensor self) -> Tensor", Float),
    ("aten.cos.default(Tensor self) -> Tensor", Float),
    ("aten.reciprocal.default(Tensor self) -> Tensor", Float),
    ("aten.log1p.default(Tensor self) -> Tensor", Float),
    ("aten.log2.default(Tensor self) -> Tensor", Float),
    ("aten.exp2.default(Tensor self) -> Tensor", Float),
    ("aten.expm1.default(Tensor self) -> Tensor", Float),
    ("aten.erfc.default(Tensor self) -> Tensor", Float),
    ("aten.tan.default(Tensor self) -> Tensor", Float),
    ("aten.sinh.default(Tensor self) -> Tensor", Float),
    ("aten.cosh.default(Tensor self) -> Tensor", Float),
    // other result types
    ("aten._to_copy.default(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, bool non_blocking=False, MemoryFormat? memory_format=None) -> Tensor", Cast),
    ("aten.to.dtype(Tensor self, ScalarType? dtype, bool non_blocking=False, bool copy=False, MemoryFormat? memory_format=None) -> Tensor", Cast),
    ("aten.to.dtype_layout(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, bool non_blocking=False, bool copy=False, MemoryFormat? memory_format=None) -> Tensor", Cast),
    ("aten.logical_not.default(Tensor self) -> Tensor", Logical),
    ("aten.logical_and.default(Tensor self, Tensor other) -> Tensor", Logical),
    ("aten.logical_or.default(Tensor self, Tensor other) -> Tensor", Logical),
    ("aten.isnan.default(Tensor self) -> Tensor", Logical),
    // two operands with broadcasting; a number may stand for a tensor
    ("aten.add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor", Binary),
    ("aten.add.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor", Binary),
    ("aten.sub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor", Binary),
    ("aten.sub.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor", Binary),
    ("aten.rsub.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor", Binary),
    ("aten.mul.Tensor(Tensor self, Tensor other) -> Tensor", Binary),
    ("aten.mul.Scalar(Tensor self, Scalar other) -> Tensor", Binary),
    ("aten.maximum.default(Tensor self, Tensor other) -> Tensor", Binary),
    ("aten.minimum.default(Tensor self, Tensor other) -> Tensor", Binary),
    ("aten.bitwise_and.Tensor(Tensor self, Tensor other) -> Tensor", Binary),
    ("aten.bitwise_or.Tensor(Tensor self, Tensor other) -> Tensor", Binary),
    ("aten.bitwise_xor.Tensor(Tensor self, Tensor other) -> Tensor", Binary),
    ("aten.floor_divide.default(Tensor self, Tensor other) -> Tensor", Binary),
    ("aten.div.Tensor_mode(Tensor self, Tensor other, *, str rounding_mode) -> Tensor", Binary),
    ("aten.div.Scalar_mode(Tensor self, Scalar other, *, str rounding_mode) -> Tensor", Binary),
    ("aten.remainder.Scalar(Tensor self, Scalar other) -> Tensor", Binary),
    ("aten.remainder.Tensor(Tensor self, Tensor other) -> Tensor", Binary),
    ("aten.pow.Tensor_Scalar(Tensor self, Scalar exponent) -> Tensor", Binary),
    ("aten.pow.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor", Binary),
    ("aten.pow.Scalar(Scalar self, Tensor exponent) -> Tensor", Binary),
    ("aten.div.Tensor(Tensor self, Tensor other) -> Tensor", Divide),
    ("aten.div.Scalar(Tensor self, Scalar other) -> Tensor", Divide),
    ("aten.eq.Tensor(Tensor self, Tensor other) -> Tensor", Compare),
    ("aten.eq.Scalar(Tensor self, Scalar other) -> Tensor", Compare),
    ("aten.ne.Tensor(Tensor self, Tensor other) -> Tensor", Compare),
    ("aten.ne.Scalar(Tensor self, Scalar other) -> Tensor", Compare),
    ("aten.lt.Tensor(Tensor self, Tensor other) -> Tensor", Compare),
    ("aten.lt.Scalar(Tensor self, Scalar other) -> Tensor", Compare),
    ("aten.le.Tensor(Tensor self, Tensor other) -> Tensor", Compare),
    ("aten.le.Scalar(Tensor self, Scalar other) -> Tensor", Compare),
    ("aten.gt.Tensor(Tensor self, Tensor other) -> Tensor", Compare),
    ("aten.gt.Scalar(Tensor self, Scalar other) -> Tensor", Compare),
    ("aten.ge.Tensor(Tensor self, Tensor other) -> Tensor", Compare),
    ("aten.ge.Scalar(Tensor self, Scalar other) -> Tensor", Compare),
    ("aten.where.self(Tensor condition, Tensor self, Tensor other) -> Tensor", Where),
    ("aten.mse_loss.default(Tensor self, Tensor target, int reduction=1) -> Tensor", Loss),
    ("aten.mse_loss_backward.default(Tensor grad_output, Tensor self, Tensor target, int reduction) -> Tensor", LossBackward),
    // shapes
    ("aten.view.default(Tensor self, int[] size) -> Tensor", View),
    ("aten._unsafe_view.default(Tensor self, int[] size) -> Tensor", View),
    ("aten.reshape.default(Tensor self, int[] shape) -> Tensor", View),
    ("aten.permute.default(Tensor self, int[] dims) -> Tensor", Permute),
    ("aten.t.default(Tensor self) -> Tensor", Transpose),
    ("aten.transpose.int(Tensor self, int dim0, int dim1) -> Tensor", Transpose),
    ("aten.unsqueeze.default(Tensor self, int dim) -> Tensor", Unsqueeze),
    ("aten.squeeze.dim(Tensor self, int dim) -> Tensor", Squeeze),
    ("aten.squeeze.dims(Tensor self, int[] dim) -> Tensor", Squeeze),
    ("aten.expand.default(Tensor self, int[] size, *, bool implicit=False) -> Tensor", Expand),
    ("aten.repeat.default(Tensor self, int[] repeats) -> Tensor", Repeat),
    ("aten.slice.Tensor(Tensor self, int dim=0, int? start=None, int? end=None, int step=1) -> Tensor", Slice),
    ("aten.select.int(Tensor self, int dim, int index) -> Tensor", Select),
    ("aten.split.Tensor(Tensor self, int split_size, int dim=0) -> Tensor[]", Split),
    ("aten.split_with_sizes.default(Tensor self, int[] split_sizes, int dim=0) -> Tensor[]", Split),
    ("aten.chunk.default(Tensor self, int chunks, int dim=0) -> Tensor[]", Split),
    ("aten.cat.default(Tensor[] tensors, int dim=0) -> Tensor", Cat),
    ("aten.stack.default(Tensor[] tensors, int dim=0) -> Tensor", Stack),
    ("aten.constant_pad_nd.default(Tensor self, int[] pad, Scalar value=0) -> Tensor", Pad),
    // reductions
    ("aten.sum.default(Tensor self, *, ScalarType? dtype=None) -> Tensor", Sum),
    ("aten.sum.dim_IntList(Tensor self, int[]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor", Sum),
    ("aten.mean.default(Tensor self, *, ScalarType? dtype=None) -> Tensor", Mean),
    ("aten.mean.dim(Tensor self, int[]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor", Mean),
    ("aten.amax.default(Tensor self, int[] dim=[], bool keepdim=False) -> Tensor", Extreme),
    ("aten.amin.default(Tensor self, int[] dim=[], bool keepdim=False) -> Tensor", Extreme),
    ("aten.max.default(Tensor self) -> Tensor", Extreme),
    ("aten.min.default(Tensor self) -> Tensor", Extreme),
    ("aten.prod.default(Tensor self, *, ScalarType? dtype=None) -> Tensor", Sum),
    ("aten.prod.dim_int(Tensor self, int dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor", Sum),
    ("aten.var.correction(Tensor self, int[]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor", Extreme),
    ("aten.any.default(Tensor self) -> Tensor", Any),
    ("aten.any.dim(Tensor self, int dim, bool keepdim=False) -> Tensor", Any),
    ("aten.any.dims(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor", Any),
    ("aten.max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor, Tensor)", MaxDim),
    ("aten.min.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor, Tensor)", MaxDim),
    ("aten.argmax.default(Tensor self, int? dim=None, bool keepdim=False) -> Tensor", ArgMax),
    ("aten.cumsum.default(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor", Cumsum),
    ("aten.var_mean.correction(Tensor self, int[]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> (Tensor, Tensor)", Extreme),
    // norms and softmax
    ("aten._softmax.default(Tensor self, int dim, bool half_to_float) -> Tensor", Softmax),
    ("aten._log_softmax.default(Tensor self, int dim, bool half_to_float) -> Tensor", Softmax),
    ("aten.softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor", SoftmaxTo),
    ("aten.native_layer_norm.default(Tensor input, int[] normalized_shape, Tensor? weight, Tensor? bias, float eps) -> (Tensor, Tensor, Tensor)", LayerNorm),
    ("aten.layer_norm.default(Tensor input, int[] normalized_shape, Tensor? weight=None, Tensor? bias=None, float eps=1e-05, bool cudnn_enable=True) -> Tensor", LayerNorm),
    ("aten.native_layer_norm_backward.default(Tensor grad_out, Tensor input, int[] normalized_shape, Tensor mean, Tensor rstd, Tensor? weight, Tensor? bias, bool[] output_mask) -> (Tensor, Tensor, Tensor)", LayerNormBackward),
    ("aten.native_dropout.default(Tensor input, float p, bool? train) -> (Tensor, Tensor)", Dropout),
    // lookups
    ("aten.embedding.default(Tensor weight, Tensor indices, int padding_idx=-1, bool scale_grad_by_freq=False, bool sparse=False) -> Tensor", Embedding),
    ("aten.one_hot.default(Tensor self, int num_classes=-1) -> Tensor", OneHot),
    ("aten.gather.default(Tensor self, int dim, Tensor index, *, bool sparse_grad=False) -> Tensor", Gather),
    ("aten.scatter.value(Tensor self, int dim, Tensor index, Scalar value) -> Tensor", Scatter),
    ("aten.index.Tensor(Tensor self, Tensor?[] indices) -> Tensor", Index),
    ("aten.index_put.default(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor", Same),
    // creation of tensors
    ("aten.full.default(int[] size, Scalar fill_value, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor", Full),
    ("aten.ones.default(int[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor", Full),
    ("aten.zeros.default(int[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor", Full),
    ("aten.empty.memory_format(int[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor", Full),
    ("aten.empty_permuted.default(int[] size, int[] physical_layout, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor", Full),
    ("aten.full_like.default(Tensor self, Scalar fill_value, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor", Cast),
    ("aten.ones_like.default(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor", Cast),
    ("aten.zeros_like.default(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor", Cast),
    ("aten.empty_like.default(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor", Cast),
    ("aten.scalar_tensor.default(Scalar s, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor", Full),
    ("aten.arange.default(Scalar end, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor", Arange),
    ("aten.arange.start(Scalar start, Scalar end, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor", Arange),
    ("aten.arange.start_step(Scalar start, Scalar end, Scalar step=1, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor", Arange),
    // integers computed from sizes
    ("aten.sym_size.int(Tensor self, int dim) -> SymInt", SymSize),
    ("aten.sym_numel.default(Tensor self) -> SymInt", Number),
    ("_operator.add(int a, int b) -> SymInt", Number),
    ("_operator.sub(int a, int b) -> SymInt", Number),
    ("_operator.mul(int a, int b) -> SymInt", Number),
    ("_operator.floordiv(int a, int b) -> SymInt", Number),
    ("_operator.mod(int a, int b) -> SymInt", Number),
    ("_operator.eq(int a, int b) -> SymBool", Number),
    ("_operator.ne(int a, int b) -> SymBool", Number),
    ("_operator.lt(int a, int b) -> SymBool", Number),
    ("_operator.le(int a, int b) -> SymBool", Number),
    ("_operator.gt(int a, int b) -> SymBool", Number),
    ("_operator.ge(int a, int b) -> SymBool", Number),
    // assertions
    ("aten._assert_async.msg(Tensor self, str assert_msg) -> ()", Nothing),
    ("aten._assert_scalar.default(Scalar self, str assert_msg) -> ()", Nothing),
    ("aten._assert_tensor_metadata.default(Tensor a, int[]? size=None, int[]? stride=None, ScalarType? dtype=None, *, Device? device=None, Layout? layout=None) -> ()", Nothing),
    ("aten.sym_constrain_range_for_size.default(Scalar size, *, int? min=None, int? max=None) -> ()", Nothing),
    ("aten.sym_constrain_range.default(Scalar size, *, int? min=None, int? max=None) -> ()", Nothing),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_different_and_read() {
        assert_eq!(OPS.len(), TABLE.len());
        let cat = find("aten.cat.default").expect("a row");
        assert_eq!((cat.params[0].ty, cat.params[1].name), (Ty::Tensors, "dim"));
        assert_eq!(cat.params[1].default, Some(Arg::Int(Int::Is(0))));
        let norm = find("aten.native_layer_norm.default").expect("a row");
        assert_eq!((norm.params.len(), norm.returns), (5, Returns::Each(3)));
        let gelu = find("aten.gelu.default").expect("a row");
        assert_eq!(gelu.params[1].default, Some(Arg::Text("none".into())));
        assert_eq!(find("aten._assert_async.msg").expect("a row").returns, Returns::Each(0));
        assert!(find("aten.mm").is_none() && names().count() > 140);
    }

    #[test]
    fn parameters_have_types() {
        for op in OPS.values() {
            for p in &op.params {
                let place = ["memory_format", "layout", "device"].contains(&p.name);
                let mask = p.name == "output_mask";
                assert_eq!(p.ty == Ty::Place, place || mask, "{}: {}", op.name, p.name);
            }
        }
    }
}
