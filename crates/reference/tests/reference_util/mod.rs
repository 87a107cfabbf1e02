//! Graph construction in one line per operation, for the tests of the reference evaluator.
#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use kbc_diag::{Diagnostic, Span};
use kbc_ir::graph::{Graph, GraphOp, Input, OpId, OpKind};
use kbc_ir::scalar::{Compare, CompareOp, Scalar, ScalarBin, ScalarFn, ScalarUn};
use kbc_ir::types::{DType, ReduceOp, TensorType};
use kbc_numerics::tensor::{Data, Tensor};
use kbc_reference::{EvalOptions, RefTensor, evaluate};

/// A graph under construction.
#[derive(Default)]
pub struct Builder {
    pub graph: Graph,
}

impl Builder {
    pub fn op(&mut self, kind: OpKind, ty: TensorType, operands: &[OpId]) -> OpId {
        let name = format!("v{}", self.graph.order().len());
        let op = GraphOp { kind, name: name.as_str().into(), ty: Some(ty), want: None, span: Span::NONE };
        self.graph.push(op, operands)
    }

    pub fn input(&mut self, name: &str, ty: TensorType) -> OpId {
        let at = self.graph.inputs.len();
        self.graph.inputs.push(Input { name: name.into(), ty: ty.clone(), data: None, span: Span::NONE });
        self.op(OpKind::Input(at), ty, &[])
    }

    pub fn output(&mut self, x: OpId) {
        let at = self.graph.results.len();
        let ty = self.ty(x);
        self.graph.results.push(ty.clone());
        self.op(OpKind::Output(at), ty, &[x]);
    }

    pub fn ty(&self, x: OpId) -> TensorType {
        self.graph.op(x).ty.clone().unwrap()
    }

    /// Adds an elementwise function whose result has the type of its first operand.
    pub fn map(&mut self, body: Scalar, operands: &[OpId]) -> OpId {
        let ty = self.ty(operands[0]);
        self.map_to(body, ty, operands)
    }

    pub fn map_to(&mut self, body: Scalar, ty: TensorType, operands: &[OpId]) -> OpId {
        let params = (0..operands.len()).map(|i| format!("x{i}").into()).collect();
        self.op(OpKind::Map(ScalarFn { name: "f".into(), params, body }), ty, operands)
    }

    pub fn matmul(&mut self, a: OpId, b: OpId) -> OpId {
        let (x, y) = (self.ty(a), self.ty(b));
        let mut sizes = x.sizes();
        let last = sizes.len() - 1;
        sizes[last] = *y.sizes().last().unwrap();
        self.op(OpKind::Matmul { accumulate_f32: false }, ty(x.dtype, &sizes), &[a, b])
    }

    pub fn reduce(&mut self, op: ReduceOp, mean: bool, dim: usize, x: OpId) -> OpId {
        let of = self.ty(x);
        let mut sizes = of.sizes();
        sizes.remove(dim);
        self.op(OpKind::ReduceDim { op, mean, dim, keep: false }, ty(of.dtype, &sizes), &[x])
    }

    pub fn cast(&mut self, to: DType, x: OpId) -> OpId {
        let sizes = self.ty(x).sizes();
        self.op(OpKind::Cast(to), ty(to, &sizes), &[x])
    }

    pub fn run(&self, inputs: &[Tensor]) -> Result<Vec<RefTensor>, Diagnostic> {
        self.run_shared(inputs, 1)
    }

    pub fn run_shared(&self, inputs: &[Tensor], max_parts: u64) -> Result<Vec<RefTensor>, Diagnostic> {
        evaluate(&self.graph, inputs, &EvalOptions { max_parts, ..EvalOptions::default() })
    }
}

pub fn ty(dtype: DType, sizes: &[u64]) -> TensorType {
    TensorType::replicated(dtype, sizes)
}

/// Returns a type that is partial over `tp`.
pub fn partial(op: ReduceOp, dtype: DType, sizes: &[u64]) -> TensorType {
    TensorType { partial: Some((op, vec!["tp".into()])), ..ty(dtype, sizes) }
}

pub fn f32s(shape: &[u64], values: &[f32]) -> Tensor {
    Tensor::new(shape, Data::F32(values.to_vec())).unwrap()
}

pub fn i32s(shape: &[u64], values: &[i32]) -> Tensor {
    Tensor::new(shape, Data::I32(values.to_vec())).unwrap()
}

pub fn arg(i: usize) -> Scalar {
    Scalar::Arg(i)
}

pub fn num(v: f64) -> Scalar {
    Scalar::Num(v)
}

pub fn bin(op: ScalarBin, a: Scalar, b: Scalar) -> Scalar {
    Scalar::bin(op, a, b)
}

pub fn un(op: ScalarUn, a: Scalar) -> Scalar {
    Scalar::Un(op, Box::new(a))
}

pub fn branch(op: CompareOp, (a, b): (Scalar, Scalar), yes: Scalar, no: Scalar) -> Scalar {
    Scalar::If(Box::new(Compare { op, a, b }), Box::new(yes), Box::new(no))
}

/// Returns value and bound of one elementwise function of f32 vectors.
pub fn map_f32(body: Scalar, args: &[&[f32]]) -> RefTensor {
    let n = args[0].len() as u64;
    let mut b = Builder::default();
    let inputs: Vec<OpId> =
        (0..args.len()).map(|i| b.input(&format!("x{i}"), ty(DType::F32, &[n]))).collect();
    let y = b.map(body, &inputs);
    b.output(y);
    let tensors: Vec<Tensor> = args.iter().map(|a| f32s(&[n], a)).collect();
    b.run(&tensors).unwrap().remove(0)
}

/// A seeded sequence for tests that try many values.
pub struct Seq(pub u64);

impl Seq {
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.bits() % n as u64) as usize
    }

    /// Returns a roughly normal number; some are much larger and some much smaller.
    pub fn number(&mut self) -> f32 {
        let sum: f64 = (0..4).map(|_| (self.bits() >> 11) as f64 / (1u64 << 53) as f64 - 0.5).sum();
        let scale = [1.0, 1.0, 1.0, 1e-3, 30.0][self.below(5)];
        (sum * scale) as f32
    }
}
