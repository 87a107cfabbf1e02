//! Translation of PyTorch programs into `.kb` text (`docs/adr/032-torch-as-kb.md`).
//!
//! `lift` translates a rank's program into a graph, using the `table` of meanings. [`print`]
//! produces its text. Ranks with the same text share a part. The driver reads and writes files: it
//! passes the arrays that exist, and writes those that are requested.

mod axes;
mod batches;
pub mod compare;
pub mod consts;
mod declared;
mod effects;
pub mod eval;
mod evidence;
mod fills;
mod formulas;
pub mod global;
mod graph;
mod lift;
pub mod lift_global;
mod more;
mod moved;
mod names;
mod picked;
mod placed_type;
mod placements;
mod print;
mod rank_differences;
mod step;
mod table;
mod values;
pub mod verdict;
mod vocabulary;

use super::dtype::DType;
use super::groups::World;
use super::matching::MatchedCollective;
use super::model::{Program, Role};
use axes::Axes;
use consts::Const;
use graph::{NodeId, NodeOp};
use kbc_diag::{Diagnostic, Diagnostics};
use lift::{Lifted, counts};
pub use lift_global::Joined;
use names::{Names, word};
pub use placements::AxisPlacement;
use print::{Body, type_of};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Element type and sizes of an array of a data file.
pub type Array = (DType, Vec<i64>);

/// The data that exists beside the programs.
#[derive(Clone, Default, Debug)]
pub struct DataBeside {
    /// Path of the ranks' data files as written in the text, with `*` for the rank.
    pub path: String,
    /// Arrays in these files, by program.
    pub arrays: Vec<BTreeMap<String, Array>>,
    /// Weights that can be written, by program and their names in the model.
    pub weights: Vec<BTreeMap<String, Array>>,
    /// Fingerprints of arrays and weights, by program and key.
    pub prints: Vec<BTreeMap<String, Fingerprint>>,
}

impl DataBeside {
    /// Returns the array for an input in its rank's data file, or the weight that the input is. The
    /// flag is `true` for a weight.
    fn stored(
        &self,
        at: usize,
        p: &Program,
        input: &lift::Input,
        stored: &[String],
    ) -> Option<(String, &Array, bool)> {
        let mut keys = vec![format!("in__{}", input.name)];
        keys.extend(called(input, stored).map(|n| format!("in__{n}")));
        // A graph of DTensors calls an input `x` `L_x_`.
        keys.extend(aliases(&input.name).into_iter().map(|n| format!("in__{n}")));
        if let Role::Weight(w) = &input.role {
            keys.push(w.clone());
        }
        p.meta(input.value)?;
        let arrays = self.arrays.get(at);
        let found = keys.into_iter().find_map(|k| arrays?.get(&k).map(|a| (k, a, false)));
        let weight = match &input.role {
            Role::Weight(w) => self.weights.get(at).and_then(|l| {
                names(w, &input.name).into_iter().find_map(|n| l.get(&n).map(|a| (n, a, true)))
            }),
            Role::User => None,
        };
        found.or(weight)
    }
}

/// Fingerprint of an array.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Fingerprint {
    /// Hash; equal for arrays that are equal bit for bit.
    pub hash: u64,
    /// The value of all elements, if there are any and they are equal.
    pub uniform: Option<f64>,
}

/// Source of an array that has to be written.
#[derive(Clone, PartialEq, Debug)]
pub enum ArraySource {
    /// The array with that name in the rank's data file.
    Array(String),
    /// The weight with that name.
    Weight(String),
}

/// An array that the text needs and that has to be written.
#[derive(Clone, PartialEq, Debug)]
pub struct ArrayToWrite {
    /// Index of its program.
    pub program: usize,
    /// Its name.
    pub key: String,
    /// Its source.
    pub from: ArraySource,
    /// Its element type.
    pub dtype: DType,
    /// For a global program: how the arrays of all ranks are assembled into one.
    pub joined: Option<Joined>,
}

/// A translated world: its text, and the data files that it needs.
#[derive(Clone, Debug)]
pub struct Kb {
    /// The text, before formatting.
    pub text: String,
    /// Constants for `NAME.npz`.
    pub constants: Vec<(String, Const)>,
    /// Arrays for `NAME.rank*.npz`.
    pub arrays: Vec<ArrayToWrite>,
    /// Prefix of the names of these files: the name of the program, unless a file of the user
    /// has that name.
    pub stem: String,
    /// Extension of these files: `npz`, or `safetensors` if there is bf16 or f8, for which
    /// numpy has no type.
    pub ending: &'static str,
}

/// Translates programs that have been checked into text; `name` is the name of the program and of
/// its data files.
///
/// # Errors
/// Returns E550 to E553 for what cannot be expressed, and E535 for ranks without a program.
pub fn write(
    world: &World,
    met: &[MatchedCollective],
    name: &str,
    given: &DataBeside,
) -> Result<Kb, Diagnostics> {
    if !world.is_whole() {
        return Err(Diagnostic::error("E535", "the programs of all ranks are needed")
            .help("give all of them, or their folder")
            .into());
    }
    let axes = axes::axes(world, met)?;
    let counts = counts(world, met);
    let mut out = Out::new(name, given, &axes, &world.programs);
    let mut parts: Vec<(String, Vec<u64>)> = vec![];
    let mut lost: Vec<(Diagnostic, Vec<u64>)> = vec![];
    for (at, p) in world.programs.iter().enumerate() {
        match lift::translate(world, at, &axes, &counts, lift::Mode::default()) {
            Ok(it) => {
                let text = out.part(at, p, world.args.get(at).map_or(&[][..], Vec::as_slice), it);
                match parts.iter_mut().find(|x| x.0 == text) {
                    Some(x) => x.1.push(p.rank),
                    None => parts.push((text, vec![p.rank])),
                }
            }
            // An error that several ranks have in common is reported once.
            Err(d) => {
                for d in d.list {
                    match lost.iter_mut().find(|l| l.0.title == d.title && l.1.last() != Some(&p.rank)) {
                        Some(l) => l.1.push(p.rank),
                        None => lost.push((d, vec![p.rank])),
                    }
                }
            }
        }
    }
    for (d, ranks) in lost {
        out.found.push(match &ranks[1..] {
            [] => d,
            more => d.note(format!("the same error on rank {}", super::groups::words(more))),
        });
    }
    if out.found.has_errors() {
        return Err(out.found);
    }
    Ok(out.kb(file_text(world, name, &axes, &parts)))
}

/// Returns the declarations of topology and mesh.
fn machine(axes: &Axes) -> String {
    let list: Vec<String> = match &axes.list[..] {
        [one] => vec![one.name.clone()],
        more => more.iter().map(|a| format!("{}: {}", a.name, a.size)).collect(),
    };
    let devices: u64 = axes.list.iter().map(|a| a.size).product();
    // The program names no machine, so the text contains a comment about the assumed one.
    let assumed = "// assumed; no `device`: computing takes no time";
    format!(
        "topology sys = full({devices}) {{ link: 50 GB/s, 500 ns }}  {assumed}\nmesh m = sys[{}]\n",
        list.join(", ")
    )
}

/// Returns the file around the parts.
fn file_text(world: &World, name: &str, axes: &Axes, parts: &[(String, Vec<u64>)]) -> String {
    let version = &world.programs[0].written.torch;
    let by = if version.is_empty() { "PyTorch".into() } else { format!("PyTorch {version}") };
    let mut letters = Names::default();
    axes.list.iter().for_each(|a| {
        letters.take(&a.name);
    });
    let over: Vec<String> = axes
        .list
        .iter()
        .map(|a| {
            let first = if axes.list.len() == 1 { "r" } else { &a.name[..1] };
            format!("{} of {}", letters.take(first), a.name)
        })
        .collect();
    let mut out = String::new();
    let _ = writeln!(
        out,
        "// Made by kbc import from the programs of {} that {by} exported.\n",
        ranks(world.size)
    );
    let _ = writeln!(out, "{}", machine(axes));
    let _ = writeln!(out, "local program {} over ({}) {{", word(name), over.join(", "));
    for (text, of) in parts {
        let _ = writeln!(out, "    ranks {} {text}", ranges(of));
    }
    out.push_str("}\n");
    out
}

fn ranks(n: u64) -> String {
    if n == 1 { "one rank".into() } else { format!("{n} ranks") }
}

/// Prints rank numbers as ranges: `0..2, 3..4`.
fn ranges(of: &[u64]) -> String {
    let mut list: Vec<(u64, u64)> = vec![];
    for r in of {
        match list.last_mut() {
            Some((_, end)) if *end == *r => *end += 1,
            _ => list.push((*r, *r + 1)),
        }
    }
    list.iter().map(|(a, b)| format!("{a}..{b}")).collect::<Vec<_>>().join(", ")
}

/// Returns the source of the data of each input of a program, if there is any.
pub fn sources(world: &World, at: usize, given: &DataBeside) -> Vec<Option<ArraySource>> {
    let p = &world.programs[at];
    let stored = world.args.get(at).map_or(&[][..], Vec::as_slice);
    let one = |input: &lift::Input| {
        let (key, _, weight) = given.stored(at, p, input, stored)?;
        Some(if weight { ArraySource::Weight(key) } else { ArraySource::Array(key) })
    };
    lift::inputs(p).iter().map(one).collect()
}

/// State while parts are written.
struct Out<'a> {
    /// Prefix of the names of data files.
    stem: String,
    given: &'a DataBeside,
    axes: &'a Axes,
    constants: Vec<(String, Const)>,
    arrays: Vec<ArrayToWrite>,
    /// Extension of data files.
    ending: &'static str,
    /// For a global program: how the ranks' arrays are assembled into those of its nodes.
    joined: Option<BTreeMap<NodeId, Joined>>,
    found: Diagnostics,
}

impl<'a> Out<'a> {
    fn new(name: &str, given: &'a DataBeside, axes: &'a Axes, programs: &[Program]) -> Out<'a> {
        let strange = |d: DType| d.ours().is_some_and(|d| d.row().numpy.is_none());
        let held = |p: &Program| (0..p.values.len()).any(|v| p.meta(v).is_some_and(|m| strange(m.dtype)));
        let ending = if programs.iter().any(held) { "safetensors" } else { "npz" };
        let found = Diagnostics::new();
        // A file of constants must not overwrite the ranks' own data files.
        let (before, after) = given.path.rsplit('/').next().unwrap_or("").split_once('*').unwrap_or(("", ""));
        let file = format!("{name}.{ending}");
        let theirs = match before {
            "" => given.path.rsplit('/').next() == Some(&file),
            _ => file.starts_with(before) && file.ends_with(after),
        };
        let stem = if theirs { format!("{name}.model") } else { name.to_owned() };
        Out { stem, given, axes, constants: vec![], arrays: vec![], ending, joined: None, found }
    }

    fn kb(self, text: String) -> Kb {
        Kb { text, constants: self.constants, arrays: self.arrays, stem: self.stem, ending: self.ending }
    }

    /// Writes the part of a rank.
    fn part(&mut self, at: usize, p: &Program, stored: &[String], it: Lifted) -> String {
        let live = lift::live(&it);
        let mut taken = Names::default();
        for a in &self.axes.list {
            taken.take(&a.name);
            taken.take(&a.name[..1]);
        }
        taken.take("r");
        let mut names: BTreeMap<NodeId, String> = BTreeMap::new();
        let mut args = vec![];
        for (n, node) in it.graph.nodes.iter().enumerate().filter(|(n, _)| live[*n]) {
            let NodeOp::Input(i) = node.op else { continue };
            let input = &it.inputs[i];
            let called = match (&input.role, called(input, stored)) {
                (Role::Weight(w), _) => w.clone(),
                (_, Some(name)) => name.to_owned(),
                _ => aliases(&input.name).pop().unwrap_or_else(|| input.name.clone()),
            };
            let name = taken.take(&called);
            let data =
                self.data(at, p, (n, input), &name, stored).map_or_else(String::new, |d| format!(" = {d}"));
            args.push(format!("        {name}: {}{data}", typed(&it, n)));
            names.insert(n, name);
        }
        for (n, node) in it.graph.nodes.iter().enumerate().filter(|(n, _)| live[*n]) {
            let NodeOp::Constant(k) = node.op else { continue };
            let (hint, c) = &it.graph.constants[k];
            let key = self.constant(hint, c);
            let name = taken.take(&key);
            let data = format!("\"{}.{}\":{}", self.stem, self.ending, quoted(&key));
            args.push(format!("        {name}: {} = {data}", type_of(node.dtype, &node.sizes)));
            names.insert(n, name);
        }
        let types: Vec<String> = it.outputs.iter().map(|(n, _)| typed(&it, *n)).collect();
        let types = if types.len() == 1 { types.concat() } else { format!("({})", types.join(", ")) };
        let expect = self.expect(at, p, &it).map_or_else(String::new, |e| format!(" expect {e}"));
        let body = Body::new(&it, p, self.axes, names, taken).write();
        format!("(\n{}\n    ) -> {types} {{\n{body}    }}{expect}", args.join(",\n"))
    }

    /// Returns the name of a constant in its file; an existing equal constant is reused.
    fn constant(&mut self, hint: &str, c: &Const) -> String {
        if let Some((key, _)) = self.constants.iter().find(|k| k.1 == *c) {
            return key.clone();
        }
        let binary =
            matches!(&c.held, consts::ConstData::Each(l) if l.iter().all(|x| *x == 0.0 || *x == 1.0));
        let hint = match hint {
            "" if binary => "mask",
            "" if c.uniform() == Some(1.0) => "ones",
            "" => "constant",
            h => h,
        };
        let mut names = Names::default();
        for (key, _) in &self.constants {
            names.take(key);
        }
        let key = names.take(hint);
        self.constants.push((key.clone(), c.clone()));
        key
    }

    /// Returns the location of the data of an input; the input may have none.
    fn data(
        &mut self,
        at: usize,
        p: &Program,
        (node, input): (NodeId, &lift::Input),
        name: &str,
        stored: &[String],
    ) -> Option<String> {
        let m = p.meta(input.value)?;
        let keep = values::stored_dtype(m.dtype).ok()?;
        let (key, (dtype, sizes), weight) = self.given.stored(at, p, input, stored)?;
        if *sizes != m.shape() || !suits(*dtype, m.dtype) {
            let is = type_of(m.dtype, &m.shape());
            let what = format!("`{}` is {is}, and its data is {}", input.name, type_of(*dtype, sizes));
            self.found.push(Diagnostic::error("E553", what).note(format!("{}: the array `{key}`", p.file)));
            return None;
        }
        let joined = self.joined.as_ref().and_then(|j| j.get(&node)).cloned();
        if joined.is_some() {
            let from = if weight { ArraySource::Weight(key) } else { ArraySource::Array(key) };
            self.arrays.push(ArrayToWrite { program: at, key: name.to_owned(), from, dtype: keep, joined });
            return Some(format!("\"{}.{}\":{}", self.stem, self.ending, quoted(name)));
        }
        if !weight && *dtype == keep {
            return Some(format!("\"{}\":{}", self.given.path, quoted(&key)));
        }
        let from = if weight { ArraySource::Weight(key) } else { ArraySource::Array(key) };
        self.arrays.push(ArrayToWrite { program: at, key: name.to_owned(), from, dtype: keep, joined: None });
        Some(format!("\"{}.rank*.{}\":{}", self.stem, self.ending, quoted(name)))
    }

    /// Returns the `expect` clause for the stored results, if all of them exist.
    fn expect(&mut self, at: usize, p: &Program, it: &Lifted) -> Option<String> {
        let none = BTreeMap::new();
        let arrays = self.given.arrays.get(at).unwrap_or(&none);
        let mut all = vec![];
        let mut more = vec![];
        for (n, place) in &it.outputs {
            let key = format!("out__{place}");
            let (dtype, sizes) = arrays.get(&key)?;
            let node = &it.graph.nodes[*n];
            if let Some(joined) = &self.joined {
                let joined = joined.get(n).cloned();
                let from = ArraySource::Array(key.clone());
                more.push(ArrayToWrite { program: at, key: key.clone(), from, dtype: node.dtype, joined });
                all.push(format!("\"{}.{}\":{key}", self.stem, self.ending));
                continue;
            }
            if *sizes != node.sizes || !suits(*dtype, node.dtype) {
                let what = format!(
                    "result {place} is {}, and its data is {}",
                    type_of(node.dtype, &node.sizes),
                    type_of(*dtype, sizes)
                );
                self.found
                    .push(Diagnostic::error("E553", what).note(format!("{}: the array `{key}`", p.file)));
                return None;
            }
            if *dtype == node.dtype {
                all.push(format!("\"{}\":{key}", self.given.path));
            } else {
                more.push(ArrayToWrite {
                    program: at,
                    key: key.clone(),
                    from: ArraySource::Array(key.clone()),
                    dtype: node.dtype,
                    joined: None,
                });
                all.push(format!("\"{}.rank*.{}\":{key}", self.stem, self.ending));
            }
        }
        self.arrays.extend(more);
        Some(all.join(", "))
    }
}

/// Returns the possible names of a weight in weight files: its name in the model, and
/// those of its input.
pub fn names(weight: &str, input: &str) -> Vec<String> {
    vec![weight.to_owned(), input.to_owned(), format!("in__{input}")]
}

/// Checks whether stored data of one type may be used for a value of another type. Floating-point
/// data is rounded, integers have to fit, and 16-bit integers may be the bits of bf16.
fn suits(data: DType, value: DType) -> bool {
    match (data, value) {
        (DType::I16 | DType::U16, DType::Bf16) => true,
        _ => (data.class() == 2) == (value.class() == 2),
    }
}

/// Prints the type of a node, with its placement if it has one.
fn typed(it: &Lifted, n: NodeId) -> String {
    let node = &it.graph.nodes[n];
    it.placed.get(&n).cloned().unwrap_or_else(|| type_of(node.dtype, &node.sizes))
}

/// Returns the name of an input in a table: by its own name if the table has the name of any input,
/// and otherwise by position.
fn called<'n>(input: &lift::Input, stored: &'n [String]) -> Option<&'n str> {
    let own = aliases(&input.name);
    if own.is_empty() {
        // The graph has lost its names.
        return stored.get(input.number).map(String::as_str);
    }
    stored.iter().find(|n| own.contains(n)).map(String::as_str)
}

/// Returns other names of an input of a traced graph, shortest last: `x` for `L_x_`; `fc1.weight`
/// and `fc1_weight` for `L_self_modules_fc1_parameters_weight_`.
fn aliases(name: &str) -> Vec<String> {
    let Some(bare) = name.strip_prefix("L_").and_then(|n| n.strip_suffix('_')).filter(|n| !n.is_empty())
    else {
        return vec![];
    };
    let mut out = vec![bare.to_owned()];
    if let Some(own) = bare.strip_prefix("self_") {
        let mut path = vec![];
        let mut rest = own;
        while let Some(at) = rest.strip_prefix("modules_") {
            let end = ["_modules_", "_parameters_", "_buffers_"].iter().filter_map(|w| at.find(w)).min();
            let Some(end) = end else { break };
            path.push(at[..end].trim_matches('_').to_owned());
            rest = &at[end + 1..];
        }
        for kind in ["parameters_", "buffers_"] {
            rest = rest.strip_prefix(kind).unwrap_or(rest);
        }
        path.push(rest.trim_matches('_').to_owned());
        out.extend([path.join("."), path.join("_")]);
    }
    out
}

/// Prints a key as the language reads it: as a name, or in quotes.
fn quoted(key: &str) -> String {
    if word(key) == key { key.to_owned() } else { format!("\"{key}\"") }
}
