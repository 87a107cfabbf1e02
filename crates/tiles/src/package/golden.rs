//! Golden values: the program's definition as a function over whole tensors, in Python
//! (`golden.py`).
//!
//! The module owns the translation of a typed graph without its placements. Collectives and demands
//! are the identity, except those that a contract defines (`contracts`), and a partial input is
//! combined along its leading axis. The module also owns the closed forms of inputs for a program
//! that is a single collective.
//!
//! Where integers stay exact, values are plain tensors and bits are compared. Elsewhere
//! ([`Numbers::Bounded`]), every value carries a bound on the rounding error of the kernel
//! (`templates/bounds.py`), and the slices of a partial value are tracked one by one up to where
//! the ranks combine them.

mod contracts;
mod elementwise;
mod errors;
mod functions;
mod needed;
mod rows;
mod tiles;

use super::description::{Global, MovedBlocks, Package, refused};
use super::python::{self, float, quoted, tuple};
use crate::lower::chain::Bound;
pub(super) use contracts::moved_blocks;
pub use elementwise::Numbers;
use elementwise::{Elementwise, Names, arguments, broken, stored};
use kbc_diag::Diagnostic;
use kbc_ir::dtype::FloatFormat;
use kbc_ir::fill::FillContent;
use kbc_ir::graph::{CollKind, Graph, GraphOp, OpId, OpKind};
use kbc_ir::name::Name;
use kbc_ir::parts::Parts;
use kbc_ir::scalar::ScalarUn;
use kbc_ir::shape::ShapeOp;
use kbc_ir::types::{CutRule, DType, ReduceOp};
pub use rows::numbered_rows;
use std::collections::BTreeMap;
use std::fmt::Write;

const TEMPLATE: &str = include_str!("templates/golden.py");
const EXACT: &str = include_str!("templates/exact.py");
const BOUNDS: &str = include_str!("templates/bounds.py");
const MOVED: &str = include_str!("templates/moved.py");

/// Prints `golden.py`.
///
/// # Errors
/// Returns E457 for an operation without a type or without a golden value, and for a partial
/// result.
pub fn print(package: &Package<'_>, bound: &dyn Fn(ScalarUn) -> Option<Bound>) -> Result<String, Diagnostic> {
    let program = &package.program;
    let (inputs, results) = (&program.inputs, &program.results);
    if inputs.len() != program.graph.inputs.len() || results.len() != program.graph.results.len() {
        return Err(refused("the inputs or results of the description differ from those of the program"));
    }
    if let Some(r) = results.iter().find(|r| r.ty.partial.is_some()) {
        return Err(refused(format!(
            "result {} is partial, and golden values exist only for complete results",
            r.name
        )));
    }
    if let Some(g) = inputs.iter().chain(results).find(|g| g.sizes.len() != g.ty.dims.len()) {
        return Err(refused(format!(
            "{} has {} dimensions and {} sizes",
            g.name,
            g.ty.dims.len(),
            g.sizes.len()
        )));
    }
    let globals = |all: &[Global]| all.iter().map(|g| format!("    {},\n", global(g))).collect::<String>();
    let shapes = |all: &[Global]| tuple(all.iter().map(|g| tuple(g.sizes.iter().map(python::expr))));
    let axes: Vec<String> =
        program.axes.iter().map(|(n, size)| format!("{}: {}", quoted(n), python::expr(size))).collect();
    let moduli: Vec<String> = package
        .moduli
        .iter()
        .map(|(p, m)| format!("{p}: {}", m.as_ref().map_or_else(|| "None".into(), tuple)))
        .collect();
    let growth = growth(package);
    let kind = Numbers::of(package);
    let (params, body) = body(&program.graph, kind)?;
    let moves_by_contract = program.moved.values().any(|all| !all.is_empty());
    let mut numbers = match kind {
        // The number of ranks, by which the table of a contract is chosen.
        Numbers::Plain => {
            let parts = if moves_by_contract { "    global PARTS\n    PARTS = nranks\n" } else { "" };
            python::fill(EXACT, &[("RANKS", parts)])
        }
        Numbers::Bounded => {
            let errors = errors::errors(&program.graph, bound);
            let table = super::python::fill(&library(), &[("ERRORS", &errors)]);
            needed::needed(&table, &format!("evaluated(feeds)\n{body}"))
        }
    };
    if moves_by_contract {
        let tables = |all: &[MovedBlocks]| tuple(all.iter().map(contracts::table));
        let all: Vec<String> = program.moved.iter().map(|(r, all)| format!("{r}: {}", tables(all))).collect();
        numbers += &python::fill(MOVED, &[("TABLES", &all.join(", "))]);
    }
    let moves = |op: &GraphOp| {
        use OpKind::{Collective, Demand, Input, Output};
        contracts::by_contract(op).is_none()
            && matches!(op.kind, Input(_) | Collective(_) | Demand | Output(_))
    };
    let alone = program.graph.order().iter().all(|id| moves(program.graph.op(*id)));
    let rows = rows::rows(program);
    let form = if alone { form(inputs, results) } else { NO_FORM };
    Ok(super::python::fill(
        TEMPLATE,
        &[
            ("PROGRAM", &program.name),
            ("INPUTS", &globals(inputs)),
            ("OUTPUTS", &globals(results)),
            ("MODULI", &format!("{{{}}}", moduli.join(", "))),
            ("GROWTH", &growth),
            ("SMALLER", if growth.is_empty() { SAME } else { SMALLER }),
            ("AXES", &format!("{{{}}}", axes.join(", "))),
            ("INPUT_SHAPES", &shapes(inputs)),
            ("OUTPUT_SHAPES", &shapes(results)),
            ("PARAMS", &params.join(", ")),
            ("BODY", &body),
            ("FORM", form),
            ("ROWS", &rows),
            ("BELOW", if rows.is_empty() { "" } else { rows::BELOW }),
            (
                "LEAST",
                if rows.is_empty() { "max(2, moduli[k] if moduli is not None else 2)" } else { "below" },
            ),
            ("NUMBERS", &numbers),
            ("STORED", &python::dictionary(stored_types(&program.graph), python::torch)),
        ],
    ))
}

/// Body of `moduli_at` for a program whose numbers do not grow with the count.
const SAME: &str = "    return MODULI[nranks]\n";

/// Body of `moduli_at` for a program whose numbers grow with the count.
const SMALLER: &str = r#"    moduli = MODULI[nranks]
    if moduli is None or count <= EXACT_TO[nranks]:
        return moduli
    share = (max(EXACT_TO[nranks], 1) / count) ** GROWTH
    smaller = tuple(1 + int((m - 1) * share) if m > 1 else m for m in moduli)
    if any(s < 2 for m, s in zip(moduli, smaller) if m > 1):
        raise Inexact(f"no integers stay exact at a count of {count}, so nothing can be compared: take a smaller count")
    return smaller
"#;

/// Returns the constants by which exact integers become smaller at larger counts; nothing if they
/// need not.
fn growth(package: &Package<'_>) -> String {
    let exact = package.moduli.values().any(Option::is_some);
    if !exact || package.growth == 0 || package.claim.count.is_none() {
        return String::new();
    }
    let counts: Vec<String> = package.exact_to.iter().map(|(r, count)| format!("{r}: {count}")).collect();
    format!(
        "# MODULI hold up to these counts, by rank count. Above, sums may grow with this power of the count.\n\
         EXACT_TO, GROWTH = {{{}}}, {}\n",
        counts.join(", "),
        package.growth
    )
}

/// Returns the functions of values with bounds.
fn library() -> String {
    super::python::fill(BOUNDS, &[("FUNCTIONS", &functions::all()), ("FLOATS", &floats())])
}

/// Returns the floating-point types with arithmetic, and the others that a program has.
fn stored_types(graph: &Graph) -> impl Iterator<Item = DType> {
    let has = |d: DType| graph.order().iter().any(|o| graph.op(*o).ty.as_ref().is_some_and(|t| t.dtype == d));
    DType::ALL.into_iter().filter(move |d| d.is_float() && (d.reduces() || has(*d)))
}

/// Prints the types with arithmetic in f32: unit roundoff, smallest positive number, and the least
/// number that is rounded to infinity.
fn floats() -> String {
    let computed = DType::ALL.into_iter().filter(|d| d.computes_in_f32());
    let line = |(d, f): (DType, FloatFormat)| {
        let (digits, top) = (f.digits as i32, f.max.log2().floor() as i32 + 1);
        let least = f.least - digits + 1;
        format!("    \"{d}\": (2.0**-{digits}, 2.0**{least}, 2.0**{top} - 2.0**{}),\n", top - 1 - digits)
    };
    computed.filter_map(|d| Some((d, d.float()?))).map(line).collect()
}

/// Prints a global tensor, such as `Type("x", "f32", (None,), ("sum", ("tp",)), None)`.
fn global(g: &Global) -> String {
    let names = |axes: &[Name]| tuple(axes.iter().map(|a| quoted(a)));
    let cuts = g.ty.dims.iter().map(|d| match &d.cut {
        None => "None".to_owned(),
        Some(c) => {
            let rule = match &c.rule {
                CutRule::Even => "\"even\"".to_owned(),
                CutRule::Lengths(l) => tuple(l.lengths(0).iter().map(u64::to_string)),
                _ => "\"ceil\"".to_owned(),
            };
            format!("({rule}, {})", names(&c.axes))
        }
    });
    let mut out = format!("Type({}, \"{}\", {}", quoted(&g.name), g.ty.dtype, tuple(cuts));
    // Writing to a string cannot fail.
    if let Some((op, axes)) = &g.ty.partial {
        let _ = write!(out, ", partial=(\"{op}\", {})", names(axes));
    }
    if let Some((c, axis)) = &g.ty.only {
        let _ = write!(out, ", only=({c}, {})", quoted(axis));
    }
    out + ")"
}

/// A value and its name in Python.
#[derive(Clone)]
struct PythonValue {
    name: String,
    /// If the value has the ranks' slices along its leading axis: the reduction that combines them,
    /// and the element type.
    slices: Option<(ReduceOp, DType)>,
    /// Number of dimensions, without that axis.
    dims: usize,
}

/// Returns the parameters and the statements of the function, neither of which depends on sizes.
///
/// # Errors
/// Returns E457 for an operation without a type or without its operands; with bounds also for an
/// operation that no kernel has.
pub(super) fn body(graph: &Graph, numbers: Numbers) -> Result<(Vec<String>, String), Diagnostic> {
    let bounded = numbers == Numbers::Bounded;
    let mut names = Names::default();
    let library = if bounded { library() } else { EXACT.to_owned() };
    names.0.extend(library.split("\n\n\n").flat_map(needed::defined).map(str::to_owned));
    names.0.extend(["rearranged", "MOVED", "PARTS"].map(str::to_owned));
    let params: Vec<String> = graph.inputs.iter().map(|i| names.fresh(&i.name)).collect();
    let mut values: BTreeMap<OpId, PythonValue> = BTreeMap::new();
    let mut outputs: BTreeMap<usize, String> = BTreeMap::new();
    let mut out = String::new();
    // Number of collectives by contract so far.
    let mut contracts = 0;
    for (name, input) in params.iter().zip(&graph.inputs).filter(|_| !bounded) {
        if let Some((op, _)) = &input.ty.partial {
            let value = stored(&format!("combined({name}, \"{op}\")"), input.ty.dtype);
            let _ = writeln!(out, "    {name} = {value}");
        }
    }
    for &id in graph.order() {
        let op = graph.op(id);
        let partial = op.ty.as_ref().is_some_and(|t| t.partial.is_some());
        let dims = op.ty.as_ref().map_or(0, |t| t.dims.len());
        let operands = graph.operands(id);
        // The result of this operation is not partial, so the slices of its operands are combined
        // first.
        for o in operands.iter().filter(|_| !partial) {
            if let Some(PythonValue { name, slices: Some((combiner, dtype)), dims }) = values.get(o).cloned()
            {
                let whole = names.fresh(&name.as_str().into());
                let _ = writeln!(out, "    {whole} = combined({name}, \"{combiner}\", \"{dtype}\")");
                values.insert(*o, PythonValue { name: whole, slices: None, dims });
            }
        }
        let held: Vec<&PythonValue> = operands.iter().filter_map(|o| values.get(o)).collect();
        let slices = held.iter().find_map(|h| h.slices);
        let args: Vec<String> = held
            .iter()
            .map(|h| match h.slices {
                Some(_) if h.dims < dims && !matches!(op.kind, OpKind::Shape(_)) => {
                    format!("raised({}, {dims})", h.name)
                }
                _ => h.name.clone(),
            })
            .collect();
        let same = || held.first().map(|h| (*h).clone()).ok_or_else(|| broken(op, "it has no operand"));
        let value = match &op.kind {
            OpKind::Input(at) => {
                let name = params.get(*at).cloned().ok_or_else(|| broken(op, "there is no such input"))?;
                let ty = graph.inputs.get(*at).map(|i| &i.ty).filter(|_| bounded);
                let slices = ty.and_then(|t| t.partial.as_ref().map(|(combiner, _)| (*combiner, t.dtype)));
                PythonValue { name, slices, dims }
            }
            OpKind::Collective(c) if c.counts.is_some() && slices.is_none() => {
                let order = tuple(exchanged(c.counts.as_ref()).iter().map(u64::to_string));
                let (name, from) = (names.fresh(&op.name), same()?.name);
                let _ = match bounded {
                    true => writeln!(out, "    {name} = moved(lambda t: t[0][list({order})], {from})"),
                    false => writeln!(out, "    {name} = {from}[list({order})]"),
                };
                PythonValue { name, slices, dims }
            }
            OpKind::Collective(c) if c.kind == CollKind::ByContract => {
                let dim = c.dim.ok_or_else(|| broken(op, "its dimension is not known"))?;
                let (name, from) = (names.fresh(&op.name), same()?.name);
                let table = format!("MOVED[PARTS][{contracts}]");
                let dtype = op.ty.as_ref().map_or(DType::F32, |t| t.dtype);
                contracts += 1;
                let value = match (bounded, slices.is_some(), contracts::combines(c)) {
                    (_, true, _) => return Err(broken(op, "its operand is partial")),
                    (true, _, true) => {
                        return Err(broken(op, "there is no error bound for what its contract combines"));
                    }
                    (true, _, false) => format!("moved(lambda t: rearranged(t[0], {dim}, {table}), {from})"),
                    (false, ..) => stored(&format!("rearranged({from}, {dim}, {table})"), dtype),
                };
                let _ = writeln!(out, "    {name} = {value}");
                PythonValue { name, slices, dims }
            }
            OpKind::Collective(_) | OpKind::Demand | OpKind::PartialDemand(_) | OpKind::Wait => same()?,
            OpKind::Host(at) => {
                let value = held.get(at.value()).map(|h| (*h).clone());
                value.ok_or_else(|| broken(op, "it needs another operand"))?
            }
            OpKind::Output(at) => {
                outputs.insert(*at, same()?.name);
                continue;
            }
            OpKind::Tiles(kernel) if slices.is_none() => {
                let (lines, name) = tiles::tiles(op, kernel, &args, numbers, &mut names)?;
                out += &lines;
                PythonValue { name, slices, dims }
            }
            _ => {
                let name = names.fresh(&op.name);
                let _ =
                    writeln!(out, "    {name} = {}", operation(graph, id, &args, slices.is_some(), numbers)?);
                let dtype = op.ty.as_ref().map(|t| t.dtype);
                let slices = slices.map(|(combiner, of)| (combiner, dtype.unwrap_or(of)));
                PythonValue { name, slices, dims }
            }
        };
        values.insert(id, value);
    }
    let _ = write!(out, "    return {}", tuple(outputs.into_values()));
    Ok((params, out))
}

/// Returns the source row of each row of an exchange by a matrix of counts: first the rows that
/// rank 0 receives from all ranks, then those of rank 1, and so on.
pub fn exchanged(counts: Option<&Parts>) -> Vec<u64> {
    let Some(c) = counts else { return vec![] };
    let totals = c.totals();
    let mut out = vec![];
    for d in 0..c.of() {
        let mut first = 0;
        for (s, total) in (0..).zip(&totals) {
            out.extend(first + c.boundary(s, d)..first + c.boundary(s, d + 1));
            first += total;
        }
    }
    out
}

/// Prints an operation that computes. If `sliced` is set, its operands have the ranks' slices along
/// a leading axis.
fn operation(
    graph: &Graph,
    id: OpId,
    args: &[String],
    sliced: bool,
    numbers: Numbers,
) -> Result<String, Diagnostic> {
    let op = graph.op(id);
    let bounded = numbers == Numbers::Bounded;
    let dtype = op.ty.as_ref().map(|t| t.dtype).ok_or_else(|| broken(op, "it has no type"))?;
    let from = graph.operands(id).first().and_then(|o| graph.op(*o).ty.as_ref()).map(|t| t.dtype);
    let arg = |i: usize| args.get(i).map(String::as_str).ok_or_else(|| broken(op, "it lacks an operand"));
    Ok(match &op.kind {
        OpKind::Matmul { .. } if bounded => {
            let shared = op.ty.as_ref().is_some_and(|t| t.partial.is_some());
            let shared = if shared { ", shared=True" } else { "" };
            format!("matmul({}, {}, \"{dtype}\"{shared})", arg(0)?, arg(1)?)
        }
        OpKind::ReduceDim { op: combiner, mean, dim, keep } if bounded => {
            if *combiner == ReduceOp::Prod {
                return Err(broken(op, "there is no error bound for a product along a dimension"));
            }
            let name = if *mean { "mean".to_owned() } else { combiner.to_string() };
            let keep = if *keep { ", keep=True" } else { "" };
            let dim = dim + usize::from(sliced);
            format!("along({}, \"{name}\", {dim}, \"{dtype}\"{keep})", arg(0)?)
        }
        OpKind::Matmul { .. } => stored(&format!("torch.matmul({}, {})", arg(0)?, arg(1)?), dtype),
        OpKind::Map(f) => {
            if args.len() < f.params.len() {
                return Err(broken(op, "its operands do not match its function"));
            }
            let value = Elementwise { args, dtype, numbers }.scalar(&f.body);
            // The result has the common shape of all operands, including those that the expression
            // does not read.
            let read = arguments(&f.body);
            let value = match (0..args.len()).all(|i| read.contains(&i)) {
                true => value,
                false if bounded => format!("spread({value}, {})", args.join(", ")),
                false => format!("torch.broadcast_tensors({value}, {})[0]", args.join(", ")),
            };
            // The kernel rounds a value of a narrow type where it stores it, and not in the steps
            // before.
            if bounded && dtype.computes_in_f32() && dtype != DType::F32 {
                format!("stored({value}, \"{dtype}\")")
            } else {
                value
            }
        }
        OpKind::ReduceDim { op: combiner, mean, dim, keep } => {
            let keep = if *keep { ", keepdim=True" } else { "" };
            let name = match combiner {
                ReduceOp::Sum if *mean => "mean",
                ReduceOp::Sum => "sum",
                ReduceOp::Prod => "prod",
                ReduceOp::Min => "amin",
                ReduceOp::Max => "amax",
            };
            stored(&format!("torch.{name}({}, dim={dim}{keep})", arg(0)?), dtype)
        }
        OpKind::Cast(to) if to.is_float() && bounded => format!("stored({}, \"{to}\")", arg(0)?),
        OpKind::Cast(to) if to.is_float() => format!("stored({}.to(torch.float64), \"{to}\")", arg(0)?),
        OpKind::Cast(to) => match from {
            Some(_) => format!("integer({}, \"{to}\")", arg(0)?),
            None => return Err(broken(op, "its operand has no type")),
        },
        OpKind::Embedding => {
            let lead = if sliced { ":, " } else { "" };
            match bounded {
                true => format!("moved(lambda t: t[0][{lead}{}.value.long()], {})", arg(1)?, arg(0)?),
                false => format!("{}[{}.long()]", arg(0)?, arg(1)?),
            }
        }
        OpKind::Shape(s) => {
            let lead = usize::from(sliced);
            if let ShapeOp::Pad { dim, before, after, value } = s {
                let number = format!("number({}, \"{dtype}\")", float(*value));
                return Ok(format!("padded({}, {}, {before}, {after}, {number})", arg(0)?, dim + lead));
            }
            let x = if bounded { "t[0]" } else { arg(0)? };
            let moved = match s {
                ShapeOp::Transpose(perm) => {
                    let dims = (0..lead).chain(perm.iter().map(|d| d + lead));
                    format!("{x}.permute({})", tuple(dims.map(|d| d.to_string())))
                }
                ShapeOp::Reshape(sizes) => {
                    let first = sliced.then(|| format!("{x}.shape[0]"));
                    format!(
                        "{x}.reshape({})",
                        tuple(first.into_iter().chain(sizes.iter().map(u64::to_string)))
                    )
                }
                ShapeOp::Slice { dim, from, to } => {
                    format!("{x}.narrow({}, {from}, {})", dim + lead, to - from)
                }
                ShapeOp::Entry(index) => format!("{x}.select({lead}, {index})"),
                // Handled above.
                ShapeOp::Pad { .. } => return Err(broken(op, "it does not move data")),
                ShapeOp::Concat { dim } if bounded => format!("torch.cat(t, dim={})", dim + lead),
                ShapeOp::Concat { dim } => format!("torch.cat({}, dim={dim})", tuple(args.iter().cloned())),
            };
            if bounded { format!("moved(lambda t: {moved}, {})", args.join(", ")) } else { moved }
        }
        OpKind::Grouped(runs) => {
            let matrices = tuple(runs.matrices(0, runs.rows()).iter().map(u64::to_string));
            if bounded && op.ty.as_ref().is_some_and(|t| t.partial.is_some() && dtype != DType::F32) {
                return Err(broken(op, "there is no error bound for parts of a narrow type that ranks add"));
            }
            match bounded {
                true => format!("grouped({}, {}, {matrices}, \"{dtype}\")", arg(0)?, arg(1)?),
                false => {
                    let each =
                        format!("torch.matmul({}.unsqueeze(1), {}[list({matrices})])", arg(0)?, arg(1)?);
                    stored(&format!("{each}.squeeze(1)"), dtype)
                }
            }
        }
        OpKind::Tiles(_) => {
            return Err(broken(op, "a tile kernel on parts that ranks add is not supported"));
        }
        OpKind::Fill(f) => {
            let sizes = tuple(f.sizes.iter().map(u64::to_string));
            let made = match f.with {
                FillContent::Number(v) => {
                    let value = if bounded { ".value" } else { "" };
                    format!("number({}, \"{dtype}\"){value}.expand({sizes})", float(v))
                }
                FillContent::Place(dim) => {
                    let along = f.sizes.iter().enumerate().map(|(i, n)| if i == dim { *n } else { 1 });
                    let wide = if dtype.is_float() { ", dtype=torch.float64" } else { "" };
                    let along = tuple(along.map(|n| n.to_string()));
                    format!("torch.arange({}{wide}).reshape({along}).expand({sizes})", f.sizes[dim])
                }
            };
            if bounded { format!("Near({made})") } else { made }
        }
        OpKind::Host(op) => arg(op.value())?.to_owned(),
        OpKind::Input(_)
        | OpKind::Collective(_)
        | OpKind::Demand
        | OpKind::PartialDemand(_)
        | OpKind::Wait
        | OpKind::Output(_) => arg(0)?.to_owned(),
    })
}

/// Returns the closed form of the inputs, if the program is a single collective of f32 or i32 over
/// one axis.
fn form(inputs: &[Global], results: &[Global]) -> &'static str {
    let ([x], [y]) = (inputs, results) else { return NO_FORM };
    let plain =
        matches!(x.ty.dtype, DType::F32 | DType::I32) && x.ty.dtype == y.ty.dtype && x.sizes == y.sizes;
    let cut = |g: &Global| -> Vec<usize> {
        let single = |d: &kbc_ir::types::Dim| d.cut.as_ref().is_none_or(|c| c.axes.len() == 1);
        if !g.ty.dims.iter().all(single) {
            return vec![usize::MAX; 2];
        }
        g.ty.dims.iter().enumerate().filter(|(_, d)| d.cut.is_some()).map(|(i, _)| i).collect()
    };
    let (from, to) = (cut(x), cut(y));
    if !plain || y.ty.only.is_some() {
        return NO_FORM;
    }
    match (&x.ty.partial, &x.ty.only, &from[..], &to[..]) {
        (Some((ReduceOp::Sum, axes)), None, [], [] | [_]) if axes.len() == 1 => SUM_FORM,
        (None, Some(_), [], []) => BROADCAST_FORM,
        (None, None, [_], []) => GATHER_FORM,
        (None, None, [a], [b]) if a != b => EXCHANGE_FORM,
        _ => NO_FORM,
    }
}

const NO_FORM: &str = "# Inputs are exact integers; there is no closed form.
FORM = None


def form(nranks, count, launch):
    raise NotImplementedError
";

const SUM_FORM: &str = "FORM = \"inputs i + 100 * rank + launch\"


def form(nranks, count, launch):
    \"\"\"Rank r gives i + 100 * r + launch for element i, so the sum over p ranks is p * i + 100 * p * (p - 1) / 2 + p * launch.\"\"\"
    shape = shapes(nranks, count)[1][0]
    i = torch.arange(elements(shape)).reshape(shape)
    given = torch.stack([i + 100 * r + launch for r in range(nranks)])
    return given, nranks * i + 100 * (nranks * (nranks - 1) // 2) + nranks * launch
";

const GATHER_FORM: &str = "FORM = \"inputs 100 * rank + i + launch\"


def form(nranks, count, launch):
    \"\"\"Rank r gives 100 * r + i + launch for element i of its part; the result is the parts one after another.\"\"\"
    whole = torch.empty(shapes(nranks, count)[0][0], dtype=torch.int64)
    for r in range(nranks):
        held = whole[box(INPUTS[0], whole.shape, nranks, r)]
        held.copy_(100 * r + torch.arange(held.numel()).reshape(held.shape) + launch)
    return whole, whole
";

const EXCHANGE_FORM: &str = "FORM = \"inputs 1000 * source + 100 * rank + j + launch\"


def form(nranks, count, launch):
    \"\"\"Element j of what rank s sends to rank r is 1000 * s + 100 * r + j + launch.\"\"\"
    whole = torch.empty(shapes(nranks, count)[0][0], dtype=torch.int64)
    for s in range(nranks):
        for r in range(nranks):
            pair = zip(box(INPUTS[0], whole.shape, nranks, s), box(OUTPUTS[0], whole.shape, nranks, r))
            held = whole[tuple(slice(max(a.start, b.start), min(a.stop, b.stop)) for a, b in pair)]
            held.copy_(1000 * s + 100 * r + torch.arange(held.numel()).reshape(held.shape) + launch)
    return whole, whole
";

const BROADCAST_FORM: &str = "FORM = \"inputs 100 * root + i + launch\"


def form(nranks, count, launch):
    \"\"\"The root gives 100 * root + i + launch, and every rank receives it.\"\"\"
    shape = shapes(nranks, count)[0][0]
    whole = 100 * INPUTS[0].only[0] + torch.arange(elements(shape)).reshape(shape) + launch
    return whole, whole
";
