//! Data of a program: sources of its inputs, references for its results, and files for its results.

use crate::failure::Outcome;
use crate::options::Data as Feeds;
use crate::workspace::Workspace;
use kbc_diag::nearest::nearest;
use kbc_diag::{Diagnostic, Diagnostics, Span};
use kbc_frontend::lower::Unsized;
use kbc_ir::graph::{DataSource, Graph};
use kbc_ir::local::Local;
use kbc_ir::schedule::{BufferRole, Schedule};
use kbc_ir::types::{Mesh, TensorType};
use kbc_numerics::formats::{self, ArrayType, Conversion};
use kbc_numerics::generate::{self, ExactRange};
use kbc_numerics::shard::{Part, assemble, check_described, check_feed};
use kbc_numerics::tensor::{Data, Tensor};
use kbc_reference::{exact_modulus, exact_modulus_local};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// The inputs of a program for several calls.
pub struct Inputs {
    /// `calls[c][i]`: global input i in call c.
    pub calls: Vec<Vec<Tensor>>,
    /// Where each input comes from, for the report.
    pub origin: Vec<(String, String)>,
}

/// What is fed and compared: the inputs and results of a graph, of a local program those of its
/// stacks.
pub struct ProgramInterface<'a> {
    /// The graph.
    pub graph: &'a Graph,
    /// Its mesh.
    pub mesh: &'a Mesh,
    /// The local program whose stacks the graph has.
    pub local: Option<&'a Local>,
    /// The files of the data.
    pub files: Files,
}

/// Data files, each read once while this lives: an archive has many arrays.
#[derive(Default)]
pub struct Files(RefCell<BTreeMap<PathBuf, Rc<Vec<u8>>>>);

/// A file that a text names, its bytes, and a function that adds the position of its name to a
/// message.
type FoundFile<P> = (PathBuf, Rc<Vec<u8>>, P);

impl Files {
    fn bytes(&self, workspace: &Workspace, path: &Path) -> Result<Rc<Vec<u8>>, Diagnostic> {
        if let Some(bytes) = self.0.borrow().get(path) {
            return Ok(Rc::clone(bytes));
        }
        let bytes = Rc::new(workspace.bytes(path)?);
        self.0.borrow_mut().insert(path.to_owned(), Rc::clone(&bytes));
        Ok(bytes)
    }

    /// A tensor of a file that a text names at `span`, beside that text; without a place beside the
    /// working directory. `fits` looks at element type and sizes before anything is unpacked.
    fn load(
        &self,
        workspace: &Workspace,
        (path, key, span): (&str, Option<&str>, Span),
        fits: &dyn Fn(&ArrayType) -> Result<(), Diagnostic>,
    ) -> Result<Tensor, Diagnostic> {
        let (full, bytes, place) = self.found(workspace, (path, span))?;
        let full = full.to_string_lossy();
        let described = formats::describe(&full, &bytes, key, Conversion::No).map_err(place)?;
        fits(&described)?;
        workspace
            .memory_budget()
            .fits(u128::from(described.bytes()) * 2, &format!("the array of {full}"))
            .map_err(place)?;
        formats::read(&full, &bytes, key).map_err(place)
    }

    /// Element type and sizes of such a tensor.
    fn describe(
        &self,
        workspace: &Workspace,
        (path, key, span): (&str, Option<&str>, Span),
    ) -> Result<ArrayType, Diagnostic> {
        let (full, bytes, place) = self.found(workspace, (path, span))?;
        formats::describe(&full.to_string_lossy(), &bytes, key, Conversion::No).map_err(place)
    }

    /// Returns the file, its bytes, and a function that adds the position that names it to a
    /// message.
    fn found(
        &self,
        workspace: &Workspace,
        (path, span): (&str, Span),
    ) -> Result<FoundFile<impl Fn(Diagnostic) -> Diagnostic + Copy + use<>>, Diagnostic> {
        let full = if span.is_none() { PathBuf::from(path) } else { workspace.beside(span.file, path) };
        let place = move |mut d: Diagnostic| {
            if !span.is_none() {
                d = d.primary(span, "named here");
            }
            d
        };
        let bytes = self.bytes(workspace, &full).map_err(place)?;
        Ok((full, bytes, place))
    }
}

impl ProgramInterface<'_> {
    fn moduli(&self, fixed: &[Option<&Tensor>]) -> Option<Vec<u32>> {
        match self.local {
            Some(l) => exact_modulus_local(l, self.mesh, fixed),
            None => exact_modulus(self.graph, self.mesh, fixed),
        }
    }

    /// Returns the tensor of a file. If a local program names it with `*`, there is one file per
    /// rank, and the result is the stack of them. Without `*`, the file contains a stack, or the
    /// value that every rank has.
    fn load(
        &self,
        workspace: &Workspace,
        (path, key, span): (&str, Option<&str>, Span),
        ty: &TensorType,
        fits: &dyn Fn(&ArrayType) -> Result<(), Diagnostic>,
    ) -> Result<Tensor, Diagnostic> {
        if self.local.is_none() {
            return self.files.load(workspace, (path, key, span), fits);
        }
        if !path.contains('*') {
            // A stack, or what every rank has.
            let row = |d: &ArrayType| d.dtype == ty.dtype && ty.sizes()[1..] == *d.shape;
            let either = |d: &ArrayType| if row(d) { Ok(()) } else { fits(d) };
            let one = self.files.load(workspace, (path, key, span), &either)?;
            // what has no leading dimension of ranks is what each of them has
            let rows = ty.sizes().first().copied().unwrap_or(0) as usize;
            if one.dtype() != ty.dtype || ty.sizes()[1..] != *one.shape() {
                return Ok(one);
            }
            let each = one.elements();
            let mut all = Data::zeros(ty.dtype, each.saturating_mul(rows));
            let fits = (0..rows).all(|i| all.copy_from(i * each, one.data(), 0, each));
            return Ok(fits.then_some(all).and_then(|all| Tensor::new(ty.sizes(), all)).unwrap_or(one));
        }
        let rows = (0..self.mesh.ranks()).filter(|r| {
            let first = ty.local_box(self.mesh, &self.mesh.coords(*r)).first().copied();
            first.is_some_and(|(a, b)| a < b)
        });
        let want = ty.sizes()[1..].to_vec();
        let mut all = vec![];
        for rank in rows {
            let file = path.replace('*', &rank.to_string());
            let of_rank = |d: &ArrayType| {
                if d.dtype == ty.dtype && d.shape == want {
                    return Ok(());
                }
                let title = format!(
                    "{file} has {}{:?}, and rank {rank} expects {}{want:?}",
                    d.dtype, d.shape, ty.dtype
                );
                let d = Diagnostic::error("E360", title);
                Err(if span.is_none() { d } else { d.primary(span, "named here") })
            };
            all.push(self.files.load(workspace, (&file, key, span), &of_rank)?);
        }
        let each = all.first().map_or(0, Tensor::elements);
        let mut data = Data::zeros(ty.dtype, each * all.len());
        let fits = all.iter().enumerate().all(|(i, t)| data.copy_from(i * each, t.data(), 0, each));
        let stack = fits.then_some(data).and_then(|data| Tensor::new(ty.sizes(), data));
        stack.ok_or_else(|| Diagnostic::error("E360", format!("{path} does not match {ty}")))
    }
}

/// `NAME=FILE[:KEY]`
fn assignment(text: &str, flag: &str) -> Result<(String, String, Option<String>), Diagnostic> {
    let wrong = || {
        Diagnostic::error("E413", format!("--{flag} {text} is not NAME=FILE[:KEY]"))
            .help(format!("write --{flag} x=data.npz:x"))
    };
    let (name, rest) = text.split_once('=').ok_or_else(wrong)?;
    if name.is_empty() || rest.is_empty() {
        return Err(wrong());
    }
    // A key follows the last colon, and only after a file name.
    match rest.rsplit_once(':') {
        Some((file, key)) if !key.is_empty() && !key.contains(['/', '\\']) && !file.is_empty() => {
            Ok((name.into(), file.into(), Some(key.into())))
        }
        _ => Ok((name.into(), rest.into(), None)),
    }
}

fn unknown(what: &str, name: &str, valid: &[&str]) -> Diagnostic {
    let mut d = Diagnostic::error("E413", format!("the program has no {what} `{name}`"))
        .note(format!("the {what}s are {}", valid.join(", ")));
    if let Some(near) = nearest(name, valid.iter().copied()) {
        d = d.help(format!("did you mean `{near}`?"));
    }
    d
}

/// Returns the shapes of the data of inputs whose types name sizes that are not defined otherwise.
///
/// # Errors
/// Returns E412 and E40x for a file that cannot be read.
pub fn shapes(workspace: &Workspace, inputs: &[Unsized]) -> Outcome<Vec<(String, Vec<u64>)>> {
    let files = Files::default();
    let mut out = vec![];
    for input in inputs {
        let given = workspace.inputs.iter().filter_map(|t| assignment(t, "input").ok());
        let found = match (given.into_iter().find(|g| g.0 == input.name), &input.file) {
            (Some((_, file, key)), _) => files.describe(workspace, (&file, key.as_deref(), Span::NONE))?,
            (None, Some((path, key, span))) => files.describe(workspace, (path, key.as_deref(), *span))?,
            (None, None) => continue,
        };
        out.push((input.name.clone(), found.shape));
    }
    Ok(out)
}

/// Reads or generates the inputs of a graph for `calls` calls; `seed` varies generated inputs only.
///
/// # Errors
/// Returns E412 and E40x for a file that cannot be read, E413 for an unknown input, and E360 for a
/// wrong shape or type. Returns all that are found.
pub fn inputs(
    workspace: &Workspace,
    fed: &ProgramInterface<'_>,
    data: &Feeds,
    calls: u32,
    seed: u64,
) -> Outcome<Inputs> {
    let (graph, mesh) = (fed.graph, fed.mesh);
    let mut found = Diagnostics::new();
    let names: Vec<&str> = graph.inputs.iter().map(|i| i.name.as_str()).collect();
    let mut given: Vec<Option<(Tensor, String)>> = vec![None; graph.inputs.len()];
    let load = |i: usize, from: (&str, Option<&str>, Span)| {
        let input = &graph.inputs[i];
        let fits = |d: &ArrayType| {
            check_described(&input.name, &input.ty, mesh, (d.dtype, &d.shape))
                .map_err(|d| d.primary(input.span, format!("declared as {} here", input.ty)))
        };
        fed.load(workspace, from, &input.ty, &fits)
    };
    for text in &data.input {
        match assignment(text, "input") {
            Ok((name, file, key)) => match names.iter().position(|n| *n == name) {
                Some(i) => match load(i, (&file, key.as_deref(), Span::NONE)) {
                    Ok(t) => {
                        given[i] = Some((t, text.split_once('=').map_or(text.as_str(), |p| p.1).to_owned()))
                    }
                    Err(d) => found.push(d),
                },
                None => found.push(unknown("input", &name, &names)),
            },
            Err(d) => found.push(d),
        }
    }
    for (i, input) in graph.inputs.iter().enumerate() {
        if given[i].is_some() {
            continue;
        }
        if let Some(DataSource::File { path, key, span }) = &input.data {
            match load(i, (path, key.as_deref(), *span)) {
                Ok(t) => {
                    let from = key.as_ref().map_or_else(|| path.clone(), |k| format!("{path}:{k}"));
                    given[i] = Some((t, from));
                }
                Err(d) => found.push(d),
            }
        }
    }
    for (i, input) in graph.inputs.iter().enumerate() {
        if let Some((t, _)) = &given[i]
            && let Err(d) = check_feed(&input.name, &input.ty, mesh, t)
        {
            found.push(d.primary(input.span, format!("declared as {} here", input.ty)));
        }
    }
    if found.has_errors() {
        return Err(found.into());
    }
    let fixed: Vec<Option<&Tensor>> = given.iter().map(|g| g.as_ref().map(|g| &g.0)).collect();
    // Nobody asks for them where nothing is made.
    let moduli = if fixed.contains(&None) { fed.moduli(&fixed) } else { None };
    let calls = calls.max(1) as usize;
    let mut out = Inputs { calls: vec![vec![]; calls], origin: vec![] };
    for (i, (input, given)) in graph.inputs.iter().zip(given).enumerate() {
        let origin = match given {
            Some((t, from)) => {
                out.calls.iter_mut().zip(std::iter::repeat_n(t, calls)).for_each(|(call, t)| call.push(t));
                from
            }
            None => {
                let mut origin = String::new();
                let rows = graph.rows_numbered(i).map(|n| u32::try_from(n).unwrap_or(u32::MAX));
                for (c, call) in out.calls.iter_mut().enumerate() {
                    let tensor;
                    (tensor, origin) =
                        make((i, input), mesh, [moduli.as_ref().map(|m| m[i]), rows], seed, c as u32)?;
                    call.push(tensor);
                }
                origin
            }
        };
        out.origin.push((input.name.to_string(), origin));
    }
    Ok(out)
}

/// Data by the input's generator, or by the default one: exact integers where the program keeps
/// them exact, otherwise normal numbers.
fn make(
    (index, input): (usize, &kbc_ir::graph::Input),
    mesh: &Mesh,
    [modulus, rows]: [Option<u32>; 2],
    seed: u64,
    call: u32,
) -> Result<(Tensor, String), Diagnostic> {
    let exact = |m: u32| {
        let range = ExactRange { modulus: m, centred: false, exact: true };
        let t = generate::exact(&input.ty, mesh, range, index as u32, call.wrapping_add(seed as u32))?;
        Ok((t, format!("generated: exact(), integers below {m}")))
    };
    let normal = |s: u64, why: &str| {
        let t = generate::normal(&input.ty, mesh, s, call)?;
        Ok((t, format!("generated: normal({s}){why}")))
    };
    match &input.data {
        None | Some(DataSource::File { .. }) => match modulus {
            Some(m) if m >= 2 => exact(m),
            _ if input.ty.dtype.is_float() => {
                normal(seed, ", because integers do not stay exact in this program")
            }
            // Numbers of rows are exact whatever is done with the rows.
            _ => exact(rows.unwrap_or(2).max(1)),
        },
        Some(DataSource::Generator { name, args, span }) => match (name.as_str(), &args[..]) {
            ("exact", []) => match modulus {
                Some(m) if m >= 2 => exact(m),
                _ => Err(Diagnostic::error(
                    "E414",
                    format!(
                        "exact() is not possible for {}: integers do not stay exact in this program",
                        input.name
                    ),
                )
                .primary(*span, "requested here")
                .help("use normal(SEED)")),
            },
            ("ones", []) => Ok((generate::ones(&input.ty, mesh)?, "generated: ones()".into())),
            ("normal", [s]) if *s >= 0.0 && s.fract() == 0.0 => normal(*s as u64, ""),
            (other, _) => {
                let valid = ["exact", "ones", "normal"];
                let mut d = Diagnostic::error(
                    "E414",
                    format!("there is no generator `{other}` with {} arguments", args.len()),
                )
                .primary(*span, "requested here")
                .note("the generators are exact(), ones() and normal(SEED)");
                if let Some(near) = nearest(other, valid.iter().copied()) {
                    d = d.help(format!("did you mean `{near}`?"));
                }
                Err(d)
            }
        },
    }
}

/// Stored results the program names, one a result.
///
/// # Errors
/// As [`inputs`].
pub fn stored_results(workspace: &Workspace, fed: &ProgramInterface<'_>) -> Outcome<Vec<(Tensor, String)>> {
    let (graph, mesh) = (fed.graph, fed.mesh);
    let Some(expect) = &graph.expect else { return Ok(vec![]) };
    let mut out = vec![];
    for (data, ty) in expect.data.iter().zip(&graph.results) {
        let DataSource::File { path, key, span } = data else {
            let DataSource::Generator { span, .. } = data else { continue };
            return Err(Diagnostic::error("E414", "`expect` needs a stored result, not a generator")
                .primary(*span, "here")
                .into());
        };
        let fits = |d: &ArrayType| {
            check_described("of expect", &ty.erased(), mesh, (d.dtype, &d.shape)).map_err(|mut d| {
                d.title = d.title.replacen("input of expect", "the stored result", 1);
                d.primary(*span, "named here")
            })
        };
        let tensor = fed.load(workspace, (path, key.as_deref(), *span), ty, &fits)?;
        out.push((tensor, key.as_ref().map_or_else(|| path.clone(), |k| format!("{path}:{k}"))));
    }
    Ok(out)
}

/// Checks `--output` before anything is executed.
///
/// # Errors
/// Returns E413 for an unknown result and E402 for an unknown format. Returns all that are found.
pub fn check_outputs(data: &Feeds, names: &[String]) -> Outcome {
    let mut found = Diagnostics::new();
    let valid: Vec<&str> = names.iter().map(String::as_str).collect();
    for text in &data.output {
        match assignment(text, "output") {
            Ok((name, ..)) if !names.contains(&name) => found.push(unknown("result", &name, &valid)),
            Ok((_, file, _)) => {
                found.extend(formats::Format::of(&file).err().map_or_else(Diagnostics::new, Into::into))
            }
            Err(d) => found.push(d),
        }
    }
    if found.has_errors() { Err(found.into()) } else { Ok(()) }
}

/// Returns the files, each with its path and content, that store results as [`Feeds::output`] asks:
/// the global value, put together from the parts of the ranks.
///
/// # Errors
/// E413 a name that is no result; E415 a result that is not one tensor; E40x a format that cannot
/// hold it.
pub fn outputs(
    data: &Feeds,
    names: &[String],
    types: &[TensorType],
    parts: &[Vec<Part>],
) -> Outcome<Vec<(String, Vec<u8>)>> {
    let mut files: Vec<(String, Vec<(String, Tensor)>)> = vec![];
    let valid: Vec<&str> = names.iter().map(String::as_str).collect();
    for text in &data.output {
        let (name, file, key) = assignment(text, "output")?;
        let i = names.iter().position(|n| *n == name).ok_or_else(|| unknown("result", &name, &valid))?;
        let of: Vec<Part> = parts.iter().map(|rank| rank[i].clone()).collect();
        let whole = assemble(&types[i], &of).filter(|w| w.1).ok_or_else(|| {
            Diagnostic::error(
                "E415",
                format!("result {name} of type {} cannot be stored as one tensor", types[i]),
            )
            .help("choose a result that is replicated or split")
        })?;
        let key = key.unwrap_or(name);
        match files.iter_mut().find(|f| f.0 == file) {
            Some(f) => f.1.push((key, whole.0)),
            None => files.push((file, vec![(key, whole.0)])),
        }
    }
    // All of them are made before the first is written.
    let mut made = vec![];
    for (file, tensors) in files {
        let bytes = match formats::Format::of(&file)? {
            formats::Format::Npz => formats::write_npz(&tensors)?,
            formats::Format::Safetensors => formats::write_safetensors(&tensors)?,
            formats::Format::Npy => match &tensors[..] {
                [(_, t)] => formats::write_npy(t)?,
                _ => {
                    return Err(Diagnostic::error("E413", format!("{file} can hold only one result"))
                        .help("use an .npz or .safetensors file for several results")
                        .into());
                }
            },
        };
        made.push((file, bytes));
    }
    Ok(made)
}

/// Generates exact integers for every input of a schedule that comes without a program: by call,
/// then input.
///
/// # Errors
/// Of an input too large to be generated.
pub fn generated(schedule: &Schedule, calls: u32, seed: u64) -> Result<Vec<Vec<Tensor>>, Diagnostic> {
    let mut types: Vec<(u32, &TensorType)> = schedule
        .buffers
        .iter()
        .filter_map(|b| match (b.role, &b.global) {
            (BufferRole::Input(i), Some(t)) => Some((i, t)),
            _ => None,
        })
        .collect();
    types.sort_by_key(|t| t.0);
    (0..calls)
        .map(|c| {
            types
                .iter()
                .map(|(i, t)| {
                    let range: ExactRange = generate::exact_range(t.dtype, schedule.mesh.ranks(), 1, false);
                    generate::exact(t, &schedule.mesh, range, *i, c.wrapping_add(seed as u32))
                })
                .collect()
        })
        .collect()
}
