//! Types, meshes, expressions, kernels and contracts as JSON.

use super::Names;
use super::value::{Definitions, Json, Wire, choice, object, object_schema, one_of, typed, words};
use crate::attributes::{Attribute, AttributeValue, Item, OperationKey};
use crate::contract::{Cell, Clause, Contract, ContractBuffer, SumOver};
use crate::expr::{BinOp, Expr, UnOp};
use crate::grouped::Runs;
use crate::module::Props;
use crate::name::Name;
use crate::parts::Parts;
use crate::scalar::{Compare, CompareOp, Scalar, ScalarBin, ScalarFn, ScalarUn};
use crate::tiles::{Index, KernelTensor, Stmt, Tile, TileKernel, Var};
use crate::types::{Axis, Cut, CutRule, DType, Dim, MemKind, Mesh, ReduceOp, TensorType};
use std::sync::Arc;

/// Writes an enum of words.
macro_rules! word {
    ($ty:ty, $title:literal, $all:expr, $name:expr) => {
        impl Wire for $ty {
            fn json(&self, _: &Names) -> Json {
                let name: fn($ty) -> &'static str = $name;
                Json::text(name(*self))
            }
            fn schema(d: &mut Definitions) -> Json {
                d.define($title, |_| words($all.into_iter().map($name)))
            }
        }
    };
}
pub(super) use word;

word!(DType, "dtype", DType::ALL, DType::name);
word!(ReduceOp, "combiner", ReduceOp::ALL, ReduceOp::name);
word!(MemKind, "memory", MemKind::ALL, MemKind::name);

impl Wire for Props {
    fn json(&self, _: &Names) -> Json {
        Json::List(self.names().into_iter().map(Json::text).collect())
    }
    fn schema(_: &mut Definitions) -> Json {
        let names = words(Props::NAMES.map(|(n, _)| n));
        Json::Object(vec![("type", Json::text("array")), ("items", names)])
    }
}

object!(Mesh, "mesh", n, Mesh { axes } => { "axes": Vec<Axis> = axes });
object!(Axis, "axis", n, Axis { name, size, parts } => {
    "name": Name = name, "size": u64 = size, "machine_axes": Vec<(Name, u64)> = parts,
});
object!((Name, u64), "sized", n, (name, size) => { "name": Name = name, "size": u64 = size });
object!(TensorType, "type", n, TensorType { dtype, dims, partial, only } => {
    "dtype": DType = dtype, "dims": Vec<Dim> = dims, "partial": Option<(ReduceOp, Vec<Name>)> = partial,
    "only": Option<(u64, Name)> = only,
});
object!((ReduceOp, Vec<Name>), "partial", n, (combiner, axes) => {
    "combiner": ReduceOp = combiner, "axes": Vec<Name> = axes,
});
object!((u64, Name), "only", n, (coordinate, axis) => { "coordinate": u64 = coordinate, "axis": Name = axis });
object!(Dim, "dim", n, Dim { size, cut } => { "size": u64 = size, "cut": Option<Cut> = cut });
object!(Cut, "cut", n, Cut { axes, rule } => { "axes": Vec<Name> = axes, "rule": CutRule = rule });
choice!(CutRule, "rule", n, "rule" {
    "even" => CutRule::Even => {},
    "ceil" => CutRule::Ceil => {},
    "lengths" => CutRule::Lengths(parts) => { "rows": Parts = parts },
    "lines" => CutRule::Lines(unit) => { "unit": u64 = unit },
});

impl Wire for Parts {
    fn json(&self, n: &Names) -> Json {
        (0..self.rows()).map(|row| self.lengths(row)).collect::<Vec<_>>().json(n)
    }
    fn schema(d: &mut Definitions) -> Json {
        <Vec<Vec<u64>>>::schema(d)
    }
}

impl Wire for Runs {
    fn json(&self, n: &Names) -> Json {
        self.list().to_vec().json(n)
    }
    fn schema(d: &mut Definitions) -> Json {
        <Vec<(u64, u64)>>::schema(d)
    }
}

word!(
    UnOp,
    "prefix",
    [UnOp::Neg, UnOp::Not, UnOp::Log2, UnOp::CeilLog2, UnOp::Popcount, UnOp::Abs, UnOp::Sign],
    UnOp::symbol
);
word!(BinOp, "infix", BinOp::ALL, BinOp::symbol);
word!(CompareOp, "comparison", COMPARISONS, CompareOp::symbol);
const COMPARISONS: [CompareOp; 6] =
    [CompareOp::Eq, CompareOp::Ne, CompareOp::Lt, CompareOp::Le, CompareOp::Gt, CompareOp::Ge];

choice!(Expr, "expression", n, "is" {
    "number" => Expr::Int(value) => { "value": i64 = value },
    "variable" => Expr::Var(name) => { "name": Name = name },
    "prefix" => Expr::Un(op, a) => { "op": UnOp = op, "a": Arc<Expr> = a },
    "infix" => Expr::Bin(op, a, b) => { "op": BinOp = op, "a": Arc<Expr> = a, "b": Arc<Expr> = b },
    "if" => Expr::Select(cond, then, other) => {
        "cond": Arc<Expr> = cond, "then": Arc<Expr> = then, "else": Arc<Expr> = other,
    },
    "table" => Expr::Table(name, index) => { "name": Name = name, "index": Arc<Expr> = index },
});

/// A function as a reference to it.
impl Wire for ScalarFn {
    fn json(&self, n: &Names) -> Json {
        Json::text(n.kernels.label(self))
    }
    fn schema(_: &mut Definitions) -> Json {
        typed("string")
    }
}

/// A kernel over tiles as a reference to it.
impl Wire for TileKernel {
    fn json(&self, n: &Names) -> Json {
        Json::text(n.kernels.tiles_label(self))
    }
    fn schema(_: &mut Definitions) -> Json {
        typed("string")
    }
}

/// A function of a module with its label.
pub(super) struct Function<'a>(pub(super) String, pub(super) &'a ScalarFn);

object!(Function<'_>, "function", n, Function(label, ScalarFn { name: _, params, body }) => {
    "name": String = label, "parameters": Vec<Name> = params, "body": Scalar = body,
});
word!(ScalarUn, "scalar_function", ScalarUn::ALL.iter().copied(), ScalarUn::name);
word!(ScalarBin, "scalar_operation", ScalarBin::ALL.iter().copied(), ScalarBin::name);
choice!(Scalar, "scalar", n, "is" {
    "number" => Scalar::Num(value) => { "value": f64 = value },
    "parameter" => Scalar::Arg(index) => { "index": usize = index },
    "function" => Scalar::Un(op, a) => { "op": ScalarUn = op, "a": Box<Scalar> = a },
    "operation" => Scalar::Bin(op, a, b) => { "op": ScalarBin = op, "a": Box<Scalar> = a, "b": Box<Scalar> = b },
    "power" => Scalar::Pow(a, exponent) => { "a": Box<Scalar> = a, "exponent": i64 = &i64::from(*exponent) },
    "if" => Scalar::If(cond, then, other) => {
        "cond": Box<Compare> = cond, "then": Box<Scalar> = then, "else": Box<Scalar> = other,
    },
});
object!(Compare, "compare", n, Compare { op, a, b } => { "op": CompareOp = op, "a": Scalar = a, "b": Scalar = b });

/// A kernel over tiles of a module with its label.
pub(super) struct Nest<'a>(pub(super) String, pub(super) &'a TileKernel);

/// Number of an operand, variable or value in a kernel over tiles. The numbers index the lists of
/// the kernel.
type Number = u32;

object!(Nest<'_>, "tile_kernel", n, Nest(label, TileKernel { name: _, params, result, vars, values, body }) => {
    "name": String = label, "operands": Vec<KernelTensor> = params, "result": KernelTensor = result,
    "variables": Vec<Var> = vars, "values": Vec<Name> = values, "body": Vec<Stmt> = body,
});
object!(KernelTensor, "kernel_tensor", n, KernelTensor { name, dtype, dims } => {
    "name": Name = name, "dtype": DType = dtype, "dims": usize = dims,
});
object!(Var, "kernel_variable", n, Var { name, tile } => { "name": Name = name, "tile": u64 = tile });
choice!(Stmt, "kernel_statement", n, "op" {
    "preload" => Stmt::Preload { params } => { "operands": Vec<Number> = params },
    "for" => Stmt::For { vars, body } => { "variables": Vec<Number> = vars, "body": Vec<Stmt> = body },
    "zeros" => Stmt::Zeros { value, dtype, index } => {
        "value": Number = value, "dtype": DType = dtype, "index": Vec<Index> = index,
    },
    "let" => Stmt::Let { value, is } => { "value": Number = value, "is": Tile = is },
    "add" => Stmt::Add { value, is } => { "value": Number = value, "is": Tile = is },
    "store" => Stmt::Store { index, is } => { "index": Vec<Index> = index, "is": Tile = is },
});
choice!(Index, "kernel_index", n, "is" {
    "variable" => Index::Var(number) => { "variable": Number = number },
    "element" => Index::At(at) => { "at": u64 = at },
});
choice!(Tile, "tile", n, "is" {
    "load" => Tile::Load { param, index } => { "operand": Number = param, "index": Vec<Index> = index },
    "dot" => Tile::Dot(a, b) => { "a": Box<Tile> = a, "b": Box<Tile> = b },
    "value" => Tile::Value(number) => { "value": Number = number },
    "map" => Tile::Map(function, args) => { "function": ScalarFn = function, "args": Vec<Tile> = args },
    "cast" => Tile::Cast(dtype, a) => { "dtype": DType = dtype, "a": Box<Tile> = a },
});

object!(Contract, "contract", n, Contract { collective, red, root, rank, size, buffers, clauses } => {
    "collective": Name = collective, "combiner": Option<ReduceOp> = red, "root": Option<u64> = root,
    "rank": Name = rank, "size": Name = size, "buffers": Vec<ContractBuffer> = buffers,
    "clauses": Vec<Clause> = clauses,
});
object!(ContractBuffer, "contract_buffer", n, ContractBuffer { name, blocks } => {
    "name": Name = name, "blocks": bool = blocks,
});
choice!(Clause, "clause", n, "clause" {
    "start" => Clause::Start { cell, cond } => { "place": Cell = cell, "cond": Option<Expr> = cond },
    "end" => Clause::End { cell, cond, from, at, sum } => {
        "place": Cell = cell, "cond": Option<Expr> = cond, "from": Cell = from, "at": Expr = at,
        "sum": Option<SumOver> = sum,
    },
});
object!(Cell, "cell", n, Cell { buffer, index } => { "buffer": Name = buffer, "index": Vec<Expr> = index });
object!(SumOver, "sum", n, SumOver { var, lo, hi, cond } => {
    "variable": Name = var, "from": Expr = lo, "end": Expr = hi, "cond": Option<Expr> = cond,
});

/// Attributes of an item.
pub(super) struct Annotated(pub(super) Item, pub(super) Vec<Attribute>);

object!(Annotated, "attributes", n, Annotated(item, list) => {
    "item": Item = item, "list": Vec<Attribute> = list,
});
choice!(Item, "item", n, "item" {
    "module" => Item::Module => {},
    "input" => Item::Input(part, name) => { "part": usize = part, "name": String = name },
    "value" => Item::Value(part, name) => { "part": usize = part, "name": String = name },
    "buffer" => Item::Buffer(name) => { "name": String = name },
    "window" => Item::Window(name) => { "name": String = name },
    "signal" => Item::Signal(name) => { "name": String = name },
    "queue" => Item::Queue(name) => { "name": String = name },
    "region" => Item::Region(name) => { "name": String = name },
    "operation" => Item::Operation(OperationKey { region, role, stream, text, nth }) => {
        "region": Option<String> = region, "role": usize = role, "stream": usize = stream,
        "text": String = text, "nth": usize = nth,
    },
});
object!(Attribute, "attribute", n, Attribute { name, value } => {
    "name": String = name, "value": AttributeValue = value,
});

impl Wire for AttributeValue {
    fn json(&self, n: &Names) -> Json {
        match self {
            AttributeValue::Int(v) => v.json(n),
            AttributeValue::Float(v) => v.json(n),
            AttributeValue::Text(s) => s.json(n),
        }
    }
    fn schema(_: &mut Definitions) -> Json {
        Json::Object(vec![("type", Json::List(vec![Json::text("number"), Json::text("string")]))])
    }
}
