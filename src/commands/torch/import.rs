//! `kbc import`: writes a `.kb` file of PyTorch programs, and its data files beside it: all of them
//! or none.

use super::arrays::{all, array, constant, converted, joined, near, pack, print, tensor};
use super::files::{Checked, File, Said, checked, sets, with_others};
use crate::cli::{Compile, Import, Source};
use crate::outdir::Draft;
use crate::report::TorchReport;
use crate::session::{Outcome, Session};
use kbc_diag::{Diagnostic, Diagnostics};
use kbc_frontend::fmt::format;
use kbc_import::torch::archive;
use kbc_import::torch::dtype::DType as Theirs;
use kbc_import::torch::kb::eval::Values;
use kbc_import::torch::kb::{self, From, Given, Kb};
use kbc_import::torch::model::{Arg, Program, Role};
use kbc_numerics::tensor::Tensor;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Component, Path, PathBuf};

/// Makes the file.
///
/// # Errors
/// What is wrong with the programs, or cannot be expressed; nothing is written then.
pub fn run(session: &mut Session, args: &Import) -> Outcome {
    let reference = args.groups.reference.is_some();
    kbc_compiler::load::refuse(&[("--reference", reference)], "an import, which does not compare")?;
    let mut worlds = sets(&args.paths)?;
    if let Some(tag) = &args.tag {
        worlds.retain(|set| set[0].tag == *tag);
    }
    let set = match &worlds[..] {
        [one] => one,
        [] => {
            let tag = args.tag.as_deref().unwrap_or("");
            return Err(
                Diagnostic::error("E416", format!("there are no programs with the tag `{tag}`")).into()
            );
        }
        more => {
            let tags: Vec<&str> = more.iter().map(|s| s[0].tag.as_str()).collect();
            return Err(Diagnostic::error(
                "E416",
                format!("{} has programs with several tags", args.paths[0]),
            )
            .help(format!("choose one of them with --tag {}", tags.join(", --tag ")))
            .into());
        }
    };
    let to_stdout = args.out == "-";
    if !to_stdout && !args.out.ends_with(".kb") {
        return Err(Diagnostic::error("E416", format!("{} is not a file name of a program", args.out))
            .help("give a name that ends in .kb")
            .into());
    }
    let it = checked(session, set, &Said::new(&args.groups, &args.define)?, false)?;
    super::verdict::placements(session, &it, &args.groups)?;
    let out = Path::new(&args.out);
    let called = if to_stdout { Path::new(&args.paths[0]) } else { out };
    let name = called.file_stem().map_or_else(|| "program".into(), |s| s.to_string_lossy().into_owned());
    let beside = if to_stdout { Path::new("") } else { out.parent().unwrap_or(Path::new("")) };
    let made = make(session, &it, &name, beside, args.lift)?;
    if to_stdout {
        if !made.files.is_empty() {
            let names: Vec<&str> = made.files.iter().map(|f| f.0.as_str()).collect();
            return Err(Diagnostic::error("E416", "this program needs data files beside it")
                .note(names.join(", "))
                .help("write to a file: -o model.kb")
                .into());
        }
        session.artefact(&made.text);
        return Ok(());
    }
    // everything is there before the first file goes to its place
    let mut drafts = vec![];
    let files = made.files.iter().map(|(n, b)| (beside.join(n), &b[..]));
    for (path, bytes) in files.chain([(out.to_owned(), made.text.as_bytes())]) {
        let mut draft = Draft::new(&path)?;
        draft.write_all(bytes).map_err(|e| crate::outdir::failure(&path, "write", &e))?;
        drafts.push(draft);
    }
    drafts.into_iter().try_for_each(Draft::keep).map_err(Into::into)
}

/// `kbc compile` of programs: as if the `.kb` file were there.
///
/// # Errors
/// Of [`run`], and of compiling it.
pub fn compile(session: &mut Session, args: &Compile) -> Outcome {
    let given = &args.source.file;
    let path = Path::new(given);
    let worlds = with_others(given)?;
    let [set] = &worlds[..] else {
        let tags: Vec<String> = worlds.iter().map(|s| s[0].path.display().to_string()).collect();
        return Err(Diagnostic::error("E416", format!("{given} has programs with several tags"))
            .help(format!("choose one of them: {}", tags.join(", ")))
            .into());
    };
    let it = checked(session, set, &Said::new(&args.groups, &args.source.of.define)?, false)?;
    let name = path.file_name().map_or_else(|| "program".into(), |s| s.to_string_lossy().into_owned());
    let name = if path.is_dir() { &name[..] } else { name.split('.').next().unwrap_or(&name) };
    let dir = if path.is_dir() { path } else { path.parent().unwrap_or(Path::new("")) };
    let placements = super::verdict::placements(session, &it, &args.groups)?;
    let made = make(session, &it, name, dir, false)?;
    session.torch =
        vec![TorchReport { placements, ..super::about(&set[0].tag, &it.world, &it.met, it.weights) }];
    let file = dir.join(format!("{name}.kb")).to_string_lossy().into_owned();
    session.give(&file, &made.text);
    for (name, bytes) in made.files {
        session.give_bytes(&dir.join(name), bytes);
    }
    let mut source = Source { file, ..args.source.clone() };
    // sizes of the programs, which the text has as numbers
    source.of.define.clear();
    crate::commands::compile::program(session, &Compile { source, ..args.clone() })
}

/// A program as text and the data files that it needs, by their names.
pub struct Made {
    /// Formatted.
    pub text: String,
    /// `model.npz`, `model.rank0.npz`
    pub files: Vec<(String, Vec<u8>)>,
}

/// A world as `.kb`, for a file of that name in the folder `beside`.
///
/// # Errors
/// E550 to E553; of reading data.
pub fn make(session: &mut Session, it: &Checked, name: &str, beside: &Path, lift: bool) -> Outcome<Made> {
    let data = stored(session, it, beside)?;
    let Kb { text, constants, arrays, stem, ending } = match &it.mesh {
        Some(mesh) => {
            let (p, args) = (it.world.programs[0].clone(), it.world.args[0].clone());
            kb::global::write(p, mesh, args, name, &data.given)?
        }
        None if lift => kb::whole::write(&it.world, &it.met, name, &data.given)?,
        None => kb::write(&it.world, &it.met, name, &data.given)?,
    };
    let id = session.add_text(&format!("{name}.kb"), &text);
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
    Ok(Made { text, files })
}

/// Data files of the ranks and weights of archives.
pub(super) struct Stored {
    pub(super) given: Given,
    /// Of each program.
    paths: Vec<Option<(String, Vec<u8>)>>,
    weights: Vec<BTreeMap<String, Tensor>>,
}

impl Stored {
    /// What is wanted, of the program at that place, in the type that it is wanted in.
    fn array(&self, it: &Checked, w: &kb::Wanted, at: usize) -> Result<Tensor, Diagnostic> {
        let t = match &w.from {
            From::Array(key) => self.read(at, key, w.dtype)?,
            From::Weight(key) => self.weights[at].get(key).cloned(),
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
                Some(From::Array(key)) => Ok(self.read(at, &key, Theirs::F32)?.as_ref().map(values)),
                Some(From::Weight(key)) => Ok(self.weights[at].get(&key).map(values)),
                None => Ok(None),
            })
            .collect()
    }

    fn read(&self, program: usize, key: &str, to: Theirs) -> Result<Option<Tensor>, Diagnostic> {
        match &self.paths[program] {
            Some((name, bytes)) => near(name, bytes, key, to == Theirs::Bf16).map(Some),
            None => Ok(None),
        }
    }
}

/// What there is beside the programs.
///
/// # Errors
/// Of reading it.
pub(super) fn stored(session: &mut Session, it: &Checked, beside: &Path) -> Outcome<Stored> {
    let mut out = Stored { given: Given::default(), paths: vec![], weights: vec![] };
    let first = it.files.first().map(File::data).unwrap_or_default();
    let dir = it.files.first().and_then(|f| f.path.parent()).unwrap_or(Path::new(""));
    // of the names that may be, the first that some rank has
    let one = it.files.len() == 1;
    let name =
        first.iter().find(|n| (one || n.contains('*')) && it.files.iter().any(|f| f.beside(n).is_file()));
    if let Some(name) = name {
        out.given.path = relative(&dir.join(name), beside);
    }
    for f in &it.files {
        let path = name.map(|n| f.beside(n)).filter(|p| p.is_file());
        let mut arrays = BTreeMap::new();
        let stored = match path {
            Some(path) => {
                let shown = path.to_string_lossy().into_owned();
                let bytes = Session::read_bytes(&path)?;
                arrays = all(session, &shown, &bytes)?;
                Some((shown, bytes))
            }
            None => None,
        };
        out.given.arrays.push(arrays);
        out.paths.push(stored);
        let mut weights = BTreeMap::new();
        if f.path.extension().is_some_and(|e| e == "pt2") {
            let wrong = |why: String| Diagnostic::error("E537", format!("{}: {why}", f.path.display()));
            for (name, w) in archive::values(&Session::read_bytes(&f.path)?).map_err(wrong)? {
                if let Some(t) = tensor(&w).map_err(wrong)? {
                    weights.insert(name, t);
                }
            }
        }
        if let Some(from) = &it.from {
            named(session, it, f, from, &mut weights, out.given.arrays.last())?;
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
    session: &mut Session,
    it: &Checked,
    f: &File,
    from: &str,
    weights: &mut BTreeMap<String, Tensor>,
    beside: Option<&BTreeMap<String, kb::Array>>,
) -> Outcome {
    let shown = from.replace('*', &f.rank.unwrap_or(0).to_string());
    let bytes = Session::read_bytes(Path::new(&shown))?;
    let keys: Vec<String> = all(session, &shown, &bytes)?.into_keys().collect();
    for key in &keys {
        weights.insert(key.clone(), near(&shown, &bytes, key, false)?);
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
fn relative(path: &Path, from: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    let full = |p: &Path| {
        let p = if p.as_os_str().is_empty() { Path::new(".") } else { p };
        p.canonicalize().unwrap_or_else(|_| p.to_owned())
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
