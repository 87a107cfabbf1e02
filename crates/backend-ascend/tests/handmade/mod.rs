//! A hand-made package: an all-reduce of f32 over any of three rank counts, with any element count,
//! into slots of the receiver.

use kbc_backend_ascend::profile::DIALECT;
use kbc_diag::Span;
use kbc_ir::expr::Expr;
use kbc_ir::graph::{Graph, GraphOp, Input, OpKind};
use kbc_ir::name::Name;
use kbc_ir::types::{DType, ReduceOp, TensorType};
use kbc_tiles::package::Source;
use kbc_tiles::package::{
    Claim, CountClaim, Evidence, Executed, Global, Package, PackagedProgram, SizeReasons,
};
use kbc_tiles::tile::{Area, Core, Kernel, Reach, Signals, Space, Tensor, TensorUse, Tile};

pub fn ranks() -> Expr {
    Expr::var("nranks")
}

pub fn count() -> Expr {
    Expr::var("count")
}

/// Returns the kernel without its body: a package needs only arguments and layout.
pub fn kernel() -> Kernel {
    let others = || ranks() - Expr::Int(1);
    let tensor = |name: &str, access| Tensor {
        name: name.into(),
        dtype: DType::F32,
        len: count(),
        access,
        index: 0,
        reach: Reach::Own,
    };
    let tile = |name: &str, at| Tile {
        name: name.into(),
        dtype: DType::F32,
        space: Space::Vector,
        rows: 1,
        elements: 4096,
        copies: 1,
        at: Some(at),
    };
    Kernel {
        dialect: &DIALECT,
        name: "sum_of_all".into(),
        core: Core::Vector,
        cores: 1,
        scalars: ["nranks", "count", "call"].map(Name::from).to_vec(),
        root: None,
        tensors: vec![tensor("x", TensorUse::In), tensor("out", TensorUse::Out)].into(),
        tables: vec![],
        signals: vec![Signals {
            name: "w0_arrived".into(),
            count: others(),
            per_call: Expr::Int(1),
            at: Some(Expr::Int(0)),
        }]
        .into(),
        areas: vec![Area {
            name: "w0".into(),
            dtype: DType::F32,
            slots: Expr::Int(2) * others(),
            capacity: count(),
            reach: Reach::Peers,
            arena: 0,
            at: Some(others() * Expr::Int(64)),
        }]
        .into(),
        tiles: vec![tile("a", 0), tile("b", 0x4000)],
        body: vec![],
    }
}

fn partial(n: u64) -> TensorType {
    TensorType {
        partial: Some((ReduceOp::Sum, vec!["tp".into()])),
        ..TensorType::replicated(DType::F32, &[n])
    }
}

/// `program sum_of_all(x: f32[n] partial(sum@tp)) -> f32[n] { x }`
pub fn graph(n: u64) -> Graph {
    let mut g = Graph::default();
    g.name = Some("sum_of_all".into());
    g.inputs.push(Input { name: "x".into(), ty: partial(n), data: None, span: Span::NONE });
    g.results.push(TensorType::replicated(DType::F32, &[n]));
    let op = |kind, ty| GraphOp { kind, name: "x".into(), ty: Some(ty), want: None, span: Span::NONE };
    let x = g.push(op(OpKind::Input(0), partial(n)), &[]);
    g.push(op(OpKind::Output(0), TensorType::replicated(DType::F32, &[n])), &[x]);
    g
}

pub fn package<'a>(kernel: &'a Kernel, text: &str) -> Package<'a> {
    // A test makes only one, so the memory may leak.
    let sources = vec![Source {
        tasks: vec![0],
        scalars: vec![],
        name: kernel.name.to_string(),
        core: Core::Vector,
        text: text.into(),
    }]
    .leak();
    let global = |name: &str, ty| Global { name: name.into(), ty, sizes: vec![count()] };
    Package {
        kernel,
        sources,
        own: None,
        stored: vec![],
        program: PackagedProgram {
            name: "sum_of_all".into(),
            file: "all_reduce.kb".into(),
            graph: graph(1000),
            axes: vec![("tp".into(), ranks())],
            inputs: vec![global("x", partial(1000))],
            results: vec![global("result", TensorType::replicated(DType::F32, &[1000]))],
            moved: Default::default(),
        },
        claim: Claim {
            ranks: vec![2, 3, 4],
            count: Some(CountClaim { parameter: "n".into(), largest: 1 << 24, default: 1000 }),
            reasons: SizeReasons::default(),
        },
        // (m - 1) * p is at most 2^24.
        moduli: [2, 3, 4].map(|p| (p, Some(vec![(1 << 24) / p as u32 + 1]))).into(),
        exact_to: [2, 3, 4].map(|p| (p, 1 << 24)).into(),
        growth: 0,
        // Some tests change the kernel so that it cannot run.
        executed: Executed::of(kernel, 4, 1000).unwrap_or_default(),
        evidence: vec![Evidence { step: "written by hand".into(), words: "for tests of packages".into() }],
    }
}
