//! A `.kb` text of PyTorch programs, with the data files that it needs.

use super::arrays::{all, array, constant, converted, joined, pack, print, read_converted, tensor};
use super::files::{Checked, File};
use crate::failure::Outcome;
use crate::workspace::Workspace;
use kbc_diag::{Diagnostic, Diagnostics};
use kbc_frontend::fmt::format;
use kbc_import::torch::archive;
use kbc_import::torch::arg::Arg;
use kbc_import::torch::dtype::DType as Theirs;
use kbc_import::torch::kb::eval::Values;
use kbc_import::torch::kb::{self, ArraySource, DataBeside, Kb};
use kbc_import::torch::model::{Program, Role};
use kbc_numerics::tensor::Tensor;
use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

/// A program as text and the data files that it needs, by their names.
pub struct WrittenProgram {
    /// Formatted.
    pub text: String,
    /// `model.npz`, `model.rank0.npz`
    pub files: Vec<(String, Vec<u8>)>,
}

/// A world as `.kb`, for a file of that name in the folder `beside`.
///
/// # Errors
/// E550 to E553; of reading data.
pub fn make(
    workspace: &mut Workspace,
    it: &Checked,
    name: &str,
    beside: &Path,
    lift: bool,
) -> Outcome<WrittenProgram> {
    let data = stored(workspace, it, beside)?;
    let Kb { text, constants, arrays, stem, ending } = match &it.mesh {
        Some(mesh) => {
            let (p, args) = (it.world.programs[0].clone(), it.world.args[0].clone());
            kb::global::write(p, mesh, args, name, &data.given)?
        }
        None if lift => kb::lift_global::write(&it.world, &it.met, name, &data.given)?,
        None => kb::write(&it.world, &it.met, name, &data.given)?,
    };
    let id = workspace.add_text(&format!("{name}.kb"), &text);
    let text = format(id, &text)?;
    let mut files = vec![];
    let mut list = constants
        .iter()
        .map(|(k, c)| Ok((k.clone(), constant(c)?)))
        .collect::<Result<Vec<_>, Diagnostic>>()?;
    let (together, arrays): (Vec<_>, Vec<_>) = arrays.into_iter().partition(|w| w.joined.is_some());
    for w in &together {
        let ranks = 0..it.world.programs.len();
        let parts = ranks.map(|at| data.array(it, w, at)).collect::<Result<Vec<_>, Diagnostic>>()?;
        let by = w.joined.as_ref().map_or(&[][..], |j| &j.by);
        let whole = joined(parts, by).map_err(|why| {
            Diagnostic::error("E553", format!("`{}` cannot be assembled from its parts: {why}", w.key))
        })?;
        list.push((w.key.clone(), whole));
    }
    if !list.is_empty() {
        files.push((format!("{stem}.{ending}"), pack(&list, ending)?));
    }
    let mut by: BTreeMap<usize, Vec<(String, Tensor)>> = BTreeMap::new();
    for w in arrays {
        let t = data.array(it, &w, w.program)?;
        by.entry(w.program).or_default().push((w.key, t));
    }
    for (program, list) in by {
        let rank = it.world.programs[program].rank;
        files.push((format!("{stem}.rank{rank}.{ending}"), pack(&list, ending)?));
    }
    Ok(WrittenProgram { text, files })
}

/// Data files of the ranks and weights of archives.
pub(super) struct Stored {
    pub(super) given: DataBeside,
    /// Of each program.
    paths: Vec<Option<(String, Vec<u8>)>>,
    weights: Vec<BTreeMap<String, Tensor>>,
}

impl Stored {
    /// What is wanted, of the program at that place, in the type that it is wanted in.
    fn array(&self, it: &Checked, w: &kb::ArrayToWrite, at: usize) -> Result<Tensor, Diagnostic> {
        let t = match &w.from {
            ArraySource::Array(key) => self.read(at, key, w.dtype)?,
            ArraySource::Weight(key) => self.weights[at].get(key).cloned(),
        };
        let file = &it.files[at].path;
        let t = t.ok_or_else(|| {
            Diagnostic::error(
                "E553",
                format!("there is no data for `{}` of rank {}", w.key, it.world.programs[at].rank),
            )
            .note(file.display().to_string())
        })?;
        converted(&t, w.dtype).map_err(|why| {
            Diagnostic::error("E552", format!("`{}` cannot be stored: {why}", w.key))
                .note(file.display().to_string())
        })
    }

    /// The data of each input of a program, in f64.
    pub(super) fn inputs(&self, it: &Checked, at: usize) -> Result<Vec<Option<Values>>, Diagnostic> {
        let values = |t: &Tensor| Values {
            sizes: t.shape().iter().map(|n| *n as i64).collect(),
            data: t.data().to_f64(),
        };
        kb::sources(&it.world, at, &self.given)
            .into_iter()
            .map(|from| match from {
                Some(ArraySource::Array(key)) => Ok(self.read(at, &key, Theirs::F32)?.as_ref().map(values)),
                Some(ArraySource::Weight(key)) => Ok(self.weights[at].get(&key).map(values)),
                None => Ok(None),
            })
            .collect()
    }

    fn read(&self, program: usize, key: &str, to: Theirs) -> Result<Option<Tensor>, Diagnostic> {
        match &self.paths[program] {
            Some((name, bytes)) => read_converted(name, bytes, key, to == Theirs::Bf16).map(Some),
            None => Ok(None),
        }
    }
}

/// What there is beside the programs.
///
/// # Errors
/// Of reading it.
pub(super) fn stored(workspace: &mut Workspace, it: &Checked, beside: &Path) -> Outcome<Stored> {
    let mut out = Stored { given: DataBeside::default(), paths: vec![], weights: vec![] };
    let first = it.files.first().map(File::data).unwrap_or_default();
    let dir = it.files.first().and_then(|f| f.path.parent()).unwrap_or(Path::new(""));
    // of the names that may be, the first that some rank has
    let one = it.files.len() == 1;
    let name = first
        .iter()
        .find(|n| (one || n.contains('*')) && it.files.iter().any(|f| workspace.is_file(&f.beside(n))));
    if let Some(name) = name {
        out.given.path = relative(workspace, &dir.join(name), beside);
    }
    for f in &it.files {
        let path = name.map(|n| f.beside(n)).filter(|p| workspace.is_file(p));
        let mut arrays = BTreeMap::new();
        let stored = match path {
            Some(path) => {
                let shown = path.to_string_lossy().into_owned();
                let bytes = workspace.bytes(&path)?;
                arrays = all(workspace, &shown, &bytes)?;
                Some((shown, bytes))
            }
            None => None,
        };
        out.given.arrays.push(arrays);
        out.paths.push(stored);
        let mut weights = BTreeMap::new();
        if f.path.extension().is_some_and(|e| e == "pt2") {
            let wrong = |why: String| Diagnostic::error("E537", format!("{}: {why}", f.path.display()));
            for (name, w) in archive::values(&workspace.bytes(&f.path)?).map_err(wrong)? {
                if let Some(t) = tensor(&w).map_err(wrong)? {
                    weights.insert(name, t);
                }
            }
        }
        if let Some(from) = &it.from {
            named(workspace, it, f, from, &mut weights, out.given.arrays.last())?;
        }
        let mut prints = BTreeMap::new();
        for key in out.given.arrays.last().into_iter().flat_map(BTreeMap::keys) {
            if let Some(t) = out.read(out.paths.len() - 1, key, Theirs::F32)? {
                prints.insert(key.clone(), print(&t));
            }
        }
        prints.extend(weights.iter().map(|(k, t)| (k.clone(), print(t))));
        out.given.prints.push(prints);
        out.given.weights.push(weights.iter().map(|(k, t)| (k.clone(), array(t))).collect());
        out.weights.push(weights);
    }
    Ok(out)
}

/// Reads the weights of a rank from a file that the command line names.
fn named(
    workspace: &mut Workspace,
    it: &Checked,
    f: &File,
    from: &str,
    weights: &mut BTreeMap<String, Tensor>,
    beside: Option<&BTreeMap<String, kb::Array>>,
) -> Outcome {
    let shown = from.replace('*', &f.rank.unwrap_or(0).to_string());
    let bytes = workspace.bytes(Path::new(&shown))?;
    let keys: Vec<String> = all(workspace, &shown, &bytes)?.into_keys().collect();
    for key in &keys {
        weights.insert(key.clone(), read_converted(&shown, &bytes, key, false)?);
    }
    let mut found = Diagnostics::new();
    let of = |p: &&Program| Some(p.rank) == f.rank || it.world.programs.len() == 1;
    for (arg, role) in it.world.programs.iter().find(of).map_or(&[][..], |p| &p.written.inputs) {
        let (Arg::Tensor(input), Role::Weight(w)) = (arg, role) else { continue };
        let there = kb::names(w, input).iter().any(|n| keys.contains(n));
        if !there && !beside.is_some_and(|a| a.contains_key(&format!("in__{input}"))) {
            let d = Diagnostic::error("E561", format!("{shown} has no weight `{w}`"));
            let some = keys.iter().take(12).cloned().collect::<Vec<_>>().join(", ");
            found.push(d.note(format!("the weights are {some}")));
        }
    }
    if found.has_errors() { Err(found.into()) } else { Ok(()) }
}

/// A path as a file in the folder `from` says it.
fn relative(workspace: &Workspace, path: &Path, from: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    let full = |p: &Path| {
        let p = if p.as_os_str().is_empty() { Path::new(".") } else { p };
        workspace.environment.absolute(p).unwrap_or_else(|| p.to_owned())
    };
    let (to, from) = (full(path.parent().unwrap_or(Path::new(""))), full(from));
    let (a, b): (Vec<Component>, Vec<Component>) = (to.components().collect(), from.components().collect());
    let same = a.iter().zip(&b).take_while(|(x, y)| x == y).count();
    let mut out = PathBuf::new();
    b[same..].iter().for_each(|_| out.push(".."));
    a[same..].iter().for_each(|c| out.push(c));
    out.push(name);
    out.to_string_lossy().replace('\\', "/")
}
