//! The definition of a program that computes, as C that evaluates it on whole tensors with bounds
//! on the errors of the kernel (`templates/kbc_define.h`).
//!
//! The module owns the translation of a typed graph without its placements. Rules, bounds and what
//! is refused are those of the golden values of other targets ([`kbc_tiles::package::golden`]): a
//! collective is the identity, except one that moves blocks, and where integers do not stay exact,
//! the slices of a partial value are tracked one by one up to where the ranks combine them.

mod functions;
mod tiles;

use crate::expected::{Moves, combiner};
use functions::Functions;
pub use functions::word;
use kbc_diag::Diagnostic;
use kbc_ir::collective::CollKind;
use kbc_ir::fill::FillContent;
use kbc_ir::graph::{DataSource, GraphOp, OpId, OpKind};
use kbc_ir::scalar::{Scalar, ScalarBin, ScalarUn};
use kbc_ir::shape::ShapeOp;
use kbc_ir::types::{DType, ReduceOp};
use kbc_tiles::lower::chain::Bound;
use kbc_tiles::package::{Package, PackagedProgram, refused};
use std::collections::BTreeMap;
use std::fmt::Write;

/// The definition of a program in C.
pub struct Definition {
    /// Functions of elements.
    pub functions: String,
    /// The body of the function that evaluates the program.
    pub body: String,
    /// The collectives that move blocks, in the order in which the body counts them.
    pub moves: Vec<Moves>,
}

/// A value and its name in C.
#[derive(Clone)]
struct CValue {
    name: String,
    /// If the value has the ranks' slices along its leading dimension: the reduction that combines
    /// them, and the element type.
    slices: Option<(ReduceOp, DType)>,
    /// Number of dimensions, without that one.
    dims: usize,
}

/// Checks whether integers stay exact on all numbers of ranks of a package, with inputs by rule.
pub fn exact(package: &Package<'_>) -> bool {
    let normal = |i: &kbc_ir::graph::Input| matches!(&i.data, Some(DataSource::Generator { name, .. }) if name.as_str() == "normal");
    package.moduli.values().all(Option::is_some)
        && !package.program.graph.inputs.iter().any(normal)
        && package.stored.iter().all(Option::is_none)
}

/// Returns the definition of a program. `name` is that of its kernel in C, `exact` whether integers
/// stay exact, and `bound` the errors of the functions of the target.
///
/// # Errors
/// Returns E457 for an operation without a type, and for one that has no error bound.
pub fn definition(
    program: &PackagedProgram,
    name: &str,
    exact: bool,
    bound: &dyn Fn(ScalarUn) -> Option<Bound>,
) -> Result<Definition, Diagnostic> {
    let functions = Functions::new(name, bound);
    let mut d = Definer { program, exact, functions, body: String::new(), moves: vec![], next: 0 };
    d.all()?;
    let mut named: BTreeMap<&str, usize> = BTreeMap::new();
    for word in d.body.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')) {
        *named.entry(word).or_default() += 1;
    }
    let names = (0..d.next).map(|i| format!("v{i}"));
    let unused = names.filter(|n| named.get(n.as_str()) == Some(&1));
    d.body += &unused.map(|n| format!("    (void){n};\n")).collect::<String>();
    Ok(Definition { functions: d.functions.text, body: d.body, moves: d.moves })
}

struct Definer<'p, 'f> {
    program: &'p PackagedProgram,
    exact: bool,
    functions: Functions<'f>,
    body: String,
    moves: Vec<Moves>,
    next: usize,
}

fn broken(op: &GraphOp, why: &str) -> Diagnostic {
    refused(format!("`{}` has no expected value: {why}", op.name))
        .primary(op.span, "this operation")
        .help("use --target sim")
}

/// Prints integers as a list for C, which has none without elements.
fn list(all: impl IntoIterator<Item = i64>) -> String {
    let all: Vec<String> = all.into_iter().map(|n| n.to_string()).collect();
    format!("KBC_LIST({})", if all.is_empty() { "0".to_owned() } else { all.join(", ") })
}

fn int(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

impl Definer<'_, '_> {
    /// Adds a statement that defines a value; returns its name.
    fn named(&mut self, value: &str) -> String {
        let name = format!("v{}", self.next);
        self.next += 1;
        // Writing to a string cannot fail.
        let _ = writeln!(self.body, "    const struct kbc_tensor {name} = {value};");
        name
    }

    /// Adds a function of elements of values, broadcast from the right.
    fn mapped(&mut self, body: &Scalar, dtype: DType, rounded: bool, args: &[String]) -> String {
        let function = self.functions.of(body, dtype, rounded);
        self.named(&format!("KBC_MAPPED(d, {function}, {})", args.join(", ")))
    }

    fn all(&mut self) -> Result<(), Diagnostic> {
        let graph = &self.program.graph;
        let mut values: BTreeMap<OpId, CValue> = BTreeMap::new();
        for &id in graph.order() {
            let op = graph.op(id);
            let ty = op.ty.as_ref();
            let (partial, dims) = (ty.is_some_and(|t| t.partial.is_some()), ty.map_or(0, |t| t.dims.len()));
            if ty.is_some_and(|t| t.dtype.scaled().is_some()) {
                return Err(broken(op, "8-bit floats can only be moved"));
            }
            // The result of this operation is not partial, so the slices of its operands are
            // combined first.
            for o in graph.operands(id).iter().filter(|_| !partial) {
                if let Some(CValue { name, slices: Some((how, dtype)), dims }) = values.get(o).cloned() {
                    let how = combiner(Some(how));
                    let name = self.named(&format!("kbc_combined(d, {name}, {how}, KBC_{dtype})"));
                    values.insert(*o, CValue { name, slices: None, dims });
                }
            }
            let held: Vec<CValue> =
                graph.operands(id).iter().filter_map(|o| values.get(o)).cloned().collect();
            let slices = held.iter().find_map(|h| h.slices);
            let args: Vec<String> = held
                .iter()
                .map(|h| match h.slices {
                    Some(_) if h.dims < dims && !matches!(op.kind, OpKind::Shape(_)) => {
                        format!("kbc_raised({}, {dims})", h.name)
                    }
                    _ => h.name.clone(),
                })
                .collect();
            let same = || held.first().cloned().ok_or_else(|| broken(op, "it has no operand"));
            let value = match &op.kind {
                OpKind::Input(at) => self.input(*at, dims),
                OpKind::Collective(c) if c.counts.is_some() && slices.is_none() => {
                    let rows = kbc_tiles::package::golden::exchanged(c.counts.as_ref());
                    let (n, rows) = (rows.len(), list(rows.into_iter().map(int)));
                    let name = self.named(&format!("kbc_rows(d, {}, 0, {n}, {rows})", same()?.name));
                    CValue { name, slices, dims }
                }
                OpKind::Collective(c) if c.kind == CollKind::ByContract => {
                    let dim = c.dim.ok_or_else(|| broken(op, "its dimension is not known"))?;
                    let at = self.moves.len();
                    self.moves.push(Moves::of_contract(dim, at));
                    let combines = self.program.moved.values().filter_map(|all| all.get(at));
                    if slices.is_some() {
                        return Err(broken(op, "its operand is partial"));
                    }
                    if !self.exact && combines.flat_map(|m| &m.named).any(|b| b.combiner.is_some()) {
                        return Err(broken(op, "there is no error bound for what its contract combines"));
                    }
                    let real = u8::from(ty.is_some_and(|t| t.dtype.is_float()));
                    let name = self.named(&format!("kbc_rearranged(d, {}, {at}, {real})", same()?.name));
                    CValue { name, slices, dims }
                }
                OpKind::Collective(_) | OpKind::Demand | OpKind::PartialDemand(_) | OpKind::Wait => same()?,
                OpKind::Host(at) => {
                    held.get(at.value()).cloned().ok_or_else(|| broken(op, "it needs another operand"))?
                }
                OpKind::Output(at) => {
                    let _ = writeln!(self.body, "    kbc_result(d, {at}, {});", same()?.name);
                    continue;
                }
                OpKind::Tiles(kernel) if slices.is_none() => {
                    CValue { name: self.tiles(op, kernel, &args)?, slices, dims }
                }
                _ => {
                    let name = self.operation(id, &args, slices.is_some())?;
                    let slices = slices.map(|(how, of)| (how, ty.map_or(of, |t| t.dtype)));
                    CValue { name, slices, dims }
                }
            };
            values.insert(id, value);
        }
        Ok(())
    }

    fn input(&mut self, at: usize, dims: usize) -> CValue {
        let ty = self.program.graph.inputs.get(at).map(|i| &i.ty).filter(|_| !self.exact);
        let slices = ty.and_then(|t| t.partial.as_ref().map(|(how, _)| (*how, t.dtype)));
        let name = self.named(&format!("kbc_input_of(d, {at}, {})", u8::from(self.exact)));
        CValue { name, slices, dims }
    }

    /// Adds an operation that computes or moves. If `sliced` is set, its operands have the ranks'
    /// slices along a leading dimension.
    fn operation(&mut self, id: OpId, args: &[String], sliced: bool) -> Result<String, Diagnostic> {
        let graph = &self.program.graph;
        let op = graph.op(id);
        let ty = op.ty.as_ref().ok_or_else(|| broken(op, "it has no type"))?;
        let (dtype, lead) = (ty.dtype, usize::from(sliced));
        let from = graph.operands(id).first().and_then(|o| graph.op(*o).ty.as_ref()).map(|t| t.dtype);
        let arg = |i: usize| args.get(i).map(String::as_str).ok_or_else(|| broken(op, "it lacks an operand"));
        let text = match &op.kind {
            OpKind::Matmul { .. } if !dtype.is_float() => {
                format!("kbc_matmul_of_integers(d, {}, {}, KBC_{dtype})", arg(0)?, arg(1)?)
            }
            OpKind::Matmul { .. } => {
                let shared = u8::from(ty.partial.is_some());
                format!("kbc_matmul(d, {}, {}, KBC_{dtype}, {shared})", arg(0)?, arg(1)?)
            }
            OpKind::Map(f) => {
                if args.len() < f.params.len() {
                    return Err(broken(op, "its operands do not match its function"));
                }
                // The kernel rounds a value of a narrow type where it stores it, and not in the
                // steps before.
                return Ok(self.mapped(&f.body, dtype, narrow(dtype), args));
            }
            OpKind::ReduceDim { op: how, mean, dim, keep } => {
                if *how == ReduceOp::Prod && !self.exact {
                    return Err(broken(op, "there is no error bound for a product along a dimension"));
                }
                let how = match how {
                    ReduceOp::Sum if *mean => "MEAN",
                    ReduceOp::Sum => "SUM",
                    ReduceOp::Prod => "PROD",
                    ReduceOp::Min => "MIN",
                    ReduceOp::Max => "MAX",
                };
                let (dim, keep) = (dim + lead, u8::from(*keep));
                format!("kbc_along(d, {}, KBC_ALONG_{how}, {dim}, KBC_{dtype}, {keep})", arg(0)?)
            }
            OpKind::Cast(to) => {
                let real = u8::from(from.ok_or_else(|| broken(op, "its operand has no type"))?.is_float());
                format!("kbc_cast(d, {}, {real}, KBC_{to})", arg(0)?)
            }
            OpKind::Embedding => format!("kbc_embedded(d, {}, {}, {lead})", arg(0)?, arg(1)?),
            OpKind::Shape(s) => return self.shape(op, s, args, (dtype, lead)),
            OpKind::Grouped(runs) => {
                if ty.partial.is_some() && narrow(dtype) && !self.exact {
                    let why = "there is no error bound for parts of a narrow type that ranks add";
                    return Err(broken(op, why));
                }
                let matrices = runs.matrices(0, runs.rows());
                let (n, matrices) = (matrices.len(), list(matrices.into_iter().map(int)));
                format!("kbc_grouped(d, {}, {}, {n}, {matrices}, KBC_{dtype})", arg(0)?, arg(1)?)
            }
            OpKind::Tiles(_) => {
                return Err(broken(op, "a tile kernel on parts that ranks add is not supported"));
            }
            OpKind::Fill(f) => {
                let (dims, sizes) = (f.sizes.len(), list(f.sizes.iter().copied().map(int)));
                match f.with {
                    FillContent::Number(v) => {
                        format!(
                            "kbc_filled(d, {dims}, {sizes}, kbc_constant({}, KBC_{dtype}))",
                            functions::number(v)
                        )
                    }
                    FillContent::Place(dim) => {
                        format!("kbc_counted(d, {dims}, {sizes}, {dim}, {})", u8::from(dtype.is_float()))
                    }
                }
            }
            OpKind::Input(_)
            | OpKind::Collective(_)
            | OpKind::Demand
            | OpKind::PartialDemand(_)
            | OpKind::Wait
            | OpKind::Host(_)
            | OpKind::Output(_) => arg(0)?.to_owned(),
        };
        Ok(self.named(&text))
    }

    fn shape(
        &mut self,
        op: &GraphOp,
        shape: &ShapeOp,
        args: &[String],
        (dtype, lead): (DType, usize),
    ) -> Result<String, Diagnostic> {
        let x = args.first().ok_or_else(|| broken(op, "it has no operand"))?;
        let text = match shape {
            ShapeOp::Transpose(perm) => {
                let dims = (0..lead).chain(perm.iter().map(|d| d + lead));
                format!("kbc_permuted(d, {x}, {})", list(dims.map(|d| d as i64)))
            }
            ShapeOp::Reshape(sizes) => {
                let all = (0..lead).map(|_| -1).chain(sizes.iter().copied().map(int));
                format!("kbc_shaped({x}, {}, {})", sizes.len() + lead, list(all))
            }
            ShapeOp::Slice { dim, from, to } => {
                format!("kbc_narrowed(d, {x}, {}, {from}, {})", dim + lead, to - from)
            }
            ShapeOp::Entry(index) => format!("kbc_entry(d, {x}, {lead}, {index})"),
            ShapeOp::Pad { dim, before, after, value } => {
                let value = format!("kbc_constant({}, KBC_{dtype})", functions::number(*value));
                format!("kbc_padded(d, {x}, {}, {before}, {after}, {value})", dim + lead)
            }
            ShapeOp::Concat { dim } => {
                let (n, all) = (args.len(), args.join(", "));
                format!("kbc_joined(d, {}, {n}, (const struct kbc_tensor[]){{{all}}})", dim + lead)
            }
        };
        Ok(self.named(&text))
    }

    /// Adds a sum of two values.
    fn sum(&mut self, a: &str, b: &str, dtype: DType) -> String {
        let plus = Scalar::bin(ScalarBin::Add, Scalar::Arg(0), Scalar::Arg(1));
        self.mapped(&plus, dtype, false, &[a.to_owned(), b.to_owned()])
    }
}

/// Checks whether a type is computed in f32 and rounded where it is stored.
fn narrow(dtype: DType) -> bool {
    dtype.computes_in_f32() && dtype != DType::F32
}
