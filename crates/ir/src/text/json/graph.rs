//! Graphs and local programs as JSON.

use super::Names;
use super::types::word;
use super::value::{Definitions, Json, Wire, choice, object, object_schema, one_of, typed, words};
use crate::contract::Contract;
use crate::fill::{Fill, FillContent};
use crate::graph::{
    CollKind, Collective, ContractCollective, DataSource, Expect, Graph, GraphOp, HostOp, Input, OpKind,
    Using, UsingArg,
};
use crate::grouped::Runs;
use crate::local::{Local, LocalPart};
use crate::name::Name;
use crate::parts::Parts;
use crate::scalar::ScalarFn;
use crate::shape::ShapeOp;
use crate::text::names::labels;
use crate::tiles::TileKernel;
use crate::types::{DType, ReduceOp, TensorType};
use std::sync::Arc;

word!(CollKind, "collective", CollKind::ALL.into_iter().chain([CollKind::ByContract]), CollKind::name);

/// A line of a graph with its label and the labels of its operands.
struct Line<'a> {
    label: &'a str,
    operands: Vec<String>,
    op: &'a GraphOp,
}

/// An input with its label.
struct LabelledInput<'a>(&'a str, &'a Input);

impl Wire for &str {
    fn json(&self, _: &Names) -> Json {
        Json::text(*self)
    }
    fn schema(_: &mut Definitions) -> Json {
        typed("string")
    }
}

object!(LabelledInput<'_>, "input", n, LabelledInput(label, Input { name: _, ty, data, span: _ }) => {
    "name": &str = label, "type": TensorType = ty, "data": Option<DataSource> = data,
});
object!(Line<'_>, "value", n, Line { label, operands, op: GraphOp { kind, name: _, ty, want, span: _ } } => {
    "name": &str = label, "operands": Vec<String> = operands, "operation": OpKind = kind,
    "type": Option<TensorType> = ty, "want": Option<TensorType> = want,
});
object!(Expect, "expect", n, Expect { data } => { "data": Vec<DataSource> = data });
choice!(DataSource, "data", n, "is" {
    "file" => DataSource::File { path, key, span: _ } => { "path": String = path, "key": Option<String> = key },
    "generator" => DataSource::Generator { name, args, span: _ } => { "name": Name = name, "args": Vec<f64> = args },
});

impl Wire for Graph {
    fn json(&self, n: &Names) -> Json {
        let (name, inputs, results, expect) = self.declarations();
        let input_labels = labels(inputs.iter().map(|i| &i.name));
        let values = labels(self.order().iter().map(|id| &self.op(*id).name));
        let n = &Names { inputs: input_labels.clone().into(), ..n.clone() };
        let line = |(id, label): (&crate::graph::OpId, _)| {
            let operands = self.operands(*id);
            let operands =
                operands.into_iter().filter_map(|o| values.get(self.position(o)).cloned()).collect();
            Line { label, operands, op: self.op(*id) }.json(n)
        };
        let inputs = input_labels.iter().zip(inputs).map(|(label, i)| LabelledInput(label, i).json(n));
        Json::Object(vec![
            ("name", name.json(n)),
            ("inputs", Json::List(inputs.collect())),
            ("results", results.json(n)),
            ("expect", expect.json(n)),
            (
                "values",
                Json::List(self.order().iter().zip(values.iter().map(String::as_str)).map(line).collect()),
            ),
        ])
    }
    fn schema(d: &mut Definitions) -> Json {
        d.define("graph", |d| {
            let fields = vec![
                ("name", <Option<Name>>::schema(d)),
                ("inputs", <Vec<LabelledInput<'_>>>::schema(d)),
                ("results", <Vec<TensorType>>::schema(d)),
                ("expect", <Option<Expect>>::schema(d)),
                ("values", <Vec<Line<'_>>>::schema(d)),
            ];
            object_schema(None, fields)
        })
    }
}

object!(Local, "local", n, Local { name, parts } => { "name": Option<Name> = name, "parts": Vec<LocalPart> = parts });
object!(LocalPart, "part", n, LocalPart { ranks, graph, span: _ } => {
    "ranks": Vec<u64> = ranks, "graph": Graph = graph,
});

/// Number of an input, which is written as its label.
struct InputNumber(usize);

impl Wire for InputNumber {
    fn json(&self, n: &Names) -> Json {
        n.inputs.get(self.0).map_or_else(|| Json::text(format!("?{}", self.0)), Json::text)
    }
    fn schema(_: &mut Definitions) -> Json {
        typed("string")
    }
}

choice!(OpKind, "graph_operation", n, "op" {
    "input" => OpKind::Input(number) => { "input": InputNumber = &InputNumber(*number) },
    "matmul" => OpKind::Matmul { accumulate_f32 } => { "accumulate_f32": bool = accumulate_f32 },
    "map" => OpKind::Map(function) => { "function": ScalarFn = function },
    "reduce_dim" => OpKind::ReduceDim { op, mean, dim, keep } => {
        "combiner": ReduceOp = op, "mean": bool = mean, "dim": usize = dim, "keep": bool = keep,
    },
    "cast" => OpKind::Cast(dtype) => { "dtype": DType = dtype },
    "embedding" => OpKind::Embedding => {},
    "grouped" => OpKind::Grouped(runs) => { "runs": Runs = runs },
    "tiles" => OpKind::Tiles(kernel) => { "kernel": Arc<TileKernel> = kernel },
    "fill" => OpKind::Fill(Fill { dtype, sizes, with }) => {
        "dtype": DType = dtype, "sizes": Vec<u64> = sizes, "with": FillContent = with,
    },
    "transpose" => OpKind::Shape(ShapeOp::Transpose(perm)) => { "perm": Vec<usize> = perm },
    "reshape" => OpKind::Shape(ShapeOp::Reshape(sizes)) => { "sizes": Vec<u64> = sizes },
    "slice" => OpKind::Shape(ShapeOp::Slice { dim, from, to }) => {
        "dim": usize = dim, "from": u64 = from, "to": u64 = to,
    },
    "entry" => OpKind::Shape(ShapeOp::Entry(index)) => { "index": u64 = index },
    "pad" => OpKind::Shape(ShapeOp::Pad { dim, before, after, value }) => {
        "dim": usize = dim, "before": u64 = before, "after": u64 = after, "number": f64 = value,
    },
    "concat" => OpKind::Shape(ShapeOp::Concat { dim }) => { "dim": usize = dim },
    "collective" => OpKind::Collective(Collective {
        kind, own, red, axis, joined, dim, from_dim, root, counts, using, stream, explicit, fixed_order,
    }) => {
        "kind": CollKind = kind, "own": Option<Box<ContractCollective>> = own, "combiner": Option<ReduceOp> = red,
        "axis": Name = axis, "joined": Vec<Name> = joined, "dim": Option<usize> = dim,
        "from": Option<usize> = from_dim, "root": Option<u64> = root, "counts": Option<Parts> = counts,
        "using": Option<Using> = using, "stream": Option<Name> = stream, "inserted": bool = &!*explicit,
        "fixed_order": bool = fixed_order,
    },
    "demand" => OpKind::Demand => {},
    "ask" => OpKind::PartialDemand(open) => { "open": Vec<usize> = open },
    "wait.result" => OpKind::Wait => {},
    "host.read" => OpKind::Host(HostOp::Read) => {},
    "host.write" => OpKind::Host(HostOp::Write) => {},
    "host.wait" => OpKind::Host(HostOp::Wait) => {},
    "host.drain" => OpKind::Host(HostOp::Drain) => {},
    "output" => OpKind::Output(number) => { "number": usize = number },
});
choice!(FillContent, "fill_content", n, "is" {
    "number" => FillContent::Number(value) => { "value": f64 = value },
    "index" => FillContent::Place(dim) => { "dim": usize = dim },
});
object!(ContractCollective, "own", n, ContractCollective { name, ranks, contract, part_of } => {
    "name": Name = name, "ranks": u64 = ranks, "contract": Option<Contract> = contract, "part_of": Vec<u64> = part_of,
});
object!(Using, "using", n, Using { alg, args, options, span } => {
    "algorithm": Name = alg, "arguments": Vec<(Name, UsingArg)> = args,
    "options": Vec<(Name, UsingArg)> = options, "selected": bool = &span.is_none(),
});
object!((Name, UsingArg), "argument", n, (name, value) => { "name": Name = name, "value": UsingArg = value });

impl Wire for UsingArg {
    fn json(&self, n: &Names) -> Json {
        match self {
            UsingArg::Int(v) => v.json(n),
            UsingArg::Name(name) => name.json(n),
        }
    }
    fn schema(_: &mut Definitions) -> Json {
        Json::Object(vec![("type", Json::List(vec![Json::text("integer"), Json::text("string")]))])
    }
}
