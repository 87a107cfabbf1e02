//! Reader of `models/model.json` of an exported program, schema 8.
//!
//! This module owns the format. It ignores fields that it does not know. A missing field that it
//! needs is an error with its byte position. Stack traces lose their local paths.

use super::arg::{Arg, Int};
use super::dtype::DType;
use super::json::{self, Json, JsonFault, JsonKind};
use super::model::{Meta, Role, Written, WrittenNode};
use super::symbols::{Expr, LARGEST, Size};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// The major version of the schema that kbc reads; minor versions only add fields.
pub const SCHEMA: i64 = 8;

/// The reason why a text cannot be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Unread {
    /// The text is not an exported program.
    Fault(JsonFault),
    /// The schema has another major version.
    Schema(i64),
}

impl From<JsonFault> for Unread {
    fn from(f: JsonFault) -> Self {
        Unread::Fault(f)
    }
}

/// Reads an exported program.
///
/// # Errors
/// Returns [`Unread`] if the text is not an exported program or has another schema.
pub fn read(text: &str) -> Result<Written, Unread> {
    let parsed = json::parse(text)?;
    let root = parsed.root();
    let version = root.get("schema_version").ok_or_else(|| {
        JsonFault::new(root.at, "this is not an exported program: `schema_version` is missing")
    })?;
    let major = version.want("major")?.int()?;
    if major != SCHEMA {
        return Err(Unread::Schema(major));
    }
    let module = root.want("graph_module")?;
    let graph = module.want("graph")?;
    let mut out = Written::default();
    if let Some(v) = root.get("torch_version") {
        out.torch = v.text()?.split('+').next().unwrap_or("").to_owned();
    }
    if let Some(ranges) = root.get("range_constraints") {
        for (name, range) in ranges.map()? {
            let bound = |key: &str| {
                let number = range.get(key).filter(|v| v.kind() == JsonKind::Number);
                number.map(|v| v.int()).transpose()
            };
            out.ranges.insert(name.into_owned(), (bound("min_val")?, bound("max_val")?));
        }
    }
    for (name, record) in graph.want("tensor_values")?.map()? {
        let meta = meta(record)?;
        match out.tensors.entry(name.into_owned()) {
            Entry::Vacant(e) => e.insert(meta),
            Entry::Occupied(e) => {
                return Err(JsonFault::new(record.at, format!("a second record of `{}`", e.key())).into());
            }
        };
    }
    if let Some(ints) = graph.get("sym_int_values") {
        for (name, record) in ints.map()? {
            out.ints.insert(name.into_owned(), size(record)?);
        }
    }
    let roles = roles(module)?;
    for input in graph.want("inputs")?.list()? {
        let arg = argument(input)?;
        let role = match &arg {
            Arg::Tensor(name) => roles.get(name).cloned().unwrap_or(Role::User),
            _ => Role::User,
        };
        out.inputs.push((arg, role));
    }
    out.nodes = graph.want("nodes")?.list()?.map(node).collect::<Result<_, _>>()?;
    out.outputs = graph.want("outputs")?.list()?.map(argument).collect::<Result<_, _>>()?;
    Ok(out)
}

/// Returns element type and sizes of a tensor record.
///
/// # Errors
/// Returns a fault if the value is not a tensor record.
pub fn meta(record: Json<'_>) -> Result<Meta, JsonFault> {
    let code = record.want("dtype")?;
    let dtype = DType::of_code(code.int()?)
        .ok_or_else(|| JsonFault::new(code.at, "unknown number of an element type"))?;
    let sizes = record.want("sizes")?.list()?.map(size).collect::<Result<Vec<_>, _>>()?;
    if let Some(s) = sizes.iter().find(|s| !(0..=LARGEST).contains(&s.value)) {
        return Err(JsonFault::new(record.at, format!("a dimension of size {}", s.value)));
    }
    Ok(Meta { dtype, sizes })
}

/// Reads a size: `{as_int: 8}`, or `{as_expr: {expr_str: .., hint: {as_int: 8}}}`.
fn size(j: Json<'_>) -> Result<Size, JsonFault> {
    if let Some(n) = j.get("as_int") {
        return Ok(Size::of(n.int()?));
    }
    let e = j.want("as_expr")?;
    let text = e.want("expr_str")?;
    let hint = match e.get("hint") {
        Some(h) if h.kind() != JsonKind::Null => h,
        _ => return Err(JsonFault::new(e.at, "a size that depends on data, without a `hint`")),
    };
    let value = hint.get("as_int").unwrap_or(hint).int()?;
    let expr = Expr::parse(&text.text()?).map_err(|why| JsonFault::new(text.at, why))?;
    Ok(match expr {
        Expr::Number(n) => Size::of(n),
        e => Size { value, expr: Some(e) },
    })
}

/// Returns the role of each input, by its name.
fn roles(module: Json<'_>) -> Result<BTreeMap<String, Role>, JsonFault> {
    let mut out = BTreeMap::new();
    let Some(signature) = module.get("signature") else { return Ok(out) };
    for spec in signature.want("input_specs")?.list()? {
        for (kind, target) in [
            ("parameter", "parameter_name"),
            ("buffer", "buffer_name"),
            ("tensor_constant", "tensor_constant_name"),
        ] {
            if let Some(s) = spec.get(kind) {
                let name = s.want("arg")?.want("name")?.text()?;
                out.insert(name.into_owned(), Role::Weight(s.want(target)?.text()?.into_owned()));
            }
        }
    }
    Ok(out)
}

fn node(j: Json<'_>) -> Result<WrittenNode, JsonFault> {
    let target = j.want("target")?.text()?;
    let mut args = vec![];
    for input in j.want("inputs")?.list()? {
        args.push((input.want("name")?.text()?.into_owned(), argument(input.want("arg")?)?));
    }
    let trace = j.get("metadata").and_then(|m| m.get("stack_trace"));
    Ok(WrittenNode {
        target: target.strip_prefix("torch.ops.").unwrap_or(&target).to_owned(),
        args,
        outputs: j.want("outputs")?.list()?.map(argument).collect::<Result<_, _>>()?,
        source: trace.and_then(|t| t.text().ok()).and_then(|t| source(&t)),
        at: j.at,
    })
}

/// Returns the innermost location of a stack trace: the file name without folders, the line
/// and the function.
fn source(trace: &str) -> Option<String> {
    let line = trace.lines().rev().find(|l| l.trim_start().starts_with("File \""))?;
    let (path, rest) = line.trim_start().strip_prefix("File \"")?.split_once('"')?;
    let name = path.rsplit(['/', '\\']).next().unwrap_or(path);
    let mut words = rest.trim_start_matches(", line ").splitn(2, ", in ");
    let (number, function) = (words.next()?, words.next().unwrap_or(""));
    Some(format!(
        "{name}:{}{}",
        number.trim(),
        if function.is_empty() { String::new() } else { format!(" in {function}") }
    ))
}

fn name(j: Json<'_>) -> Result<String, JsonFault> {
    Ok(j.want("name")?.text()?.into_owned())
}

fn each<T>(j: Json<'_>, f: impl Fn(Json<'_>) -> Result<T, JsonFault>) -> Result<Vec<T>, JsonFault> {
    j.list()?.map(f).collect()
}

fn integer(j: Json<'_>) -> Result<Int<String>, JsonFault> {
    match (j.get("as_name"), j.get("as_int")) {
        (Some(n), _) => Ok(Int::Of(n.text()?.into_owned())),
        (_, Some(n)) => n.int().map(Int::Is),
        _ => j.int().map(Int::Is),
    }
}

/// Reads an argument, which is a union: an object with exactly one key.
fn argument(j: Json<'_>) -> Result<Arg<String>, JsonFault> {
    let mut entries = j.map()?;
    let (Some((key, v)), None) = (entries.next(), entries.next()) else {
        return Err(JsonFault::new(j.at, "expected an argument with one key"));
    };
    Ok(match &*key {
        "as_none" => Arg::None,
        "as_tensor" => Arg::Tensor(name(v)?),
        "as_tensors" => Arg::Tensors(each(v, name)?),
        "as_optional_tensors" => Arg::Optionals(each(v, |o| o.get("as_tensor").map(name).transpose())?),
        "as_optional_tensor" => match v.get("as_tensor") {
            Some(t) => Arg::Tensor(name(t)?),
            None => Arg::None,
        },
        "as_int" => Arg::Int(Int::Is(v.int()?)),
        "as_sym_int" => Arg::Int(integer(v)?),
        "as_ints" | "as_sym_ints" => Arg::Ints(each(v, integer)?),
        "as_float" => Arg::Float(v.float()?),
        "as_bool" => Arg::Bool(v.bool()?),
        "as_sym_bool" => match v.get("as_bool") {
            Some(b) => Arg::Bool(b.bool()?),
            None => Arg::BoolOf(v.want("as_name")?.text()?.into_owned()),
        },
        "as_string" => Arg::Text(v.text()?.into_owned()),
        "as_scalar_type" => Arg::DType(
            DType::of_code(v.int()?)
                .ok_or_else(|| JsonFault::new(v.at, "unknown number of an element type"))?,
        ),
        "as_device" | "as_layout" | "as_memory_format" | "as_bools" => Arg::Place,
        other => {
            return Err(JsonFault::new(j.at, format!("unsupported kind of argument `{other}`")));
        }
    })
}
