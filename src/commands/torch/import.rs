//! `kbc import`: a `.kb` file of PyTorch programs, with its data files beside it; all of them or none.

use super::files::{Checked, File, checked, sets, with_others};
use crate::cli::{Compile, Import, Source};
use crate::outdir::Draft;
use crate::session::{Outcome, Session};
use kbc_backend_sim::formats;
use kbc_backend_sim::tensor::{Data, Tensor};
use kbc_diag::Diagnostic;
use kbc_frontend::fmt::format;
use kbc_import::torch::archive;
use kbc_import::torch::dtype::DType as Theirs;
use kbc_import::torch::kb::{self, From, Given, Kb, consts::Const};
use kbc_ir::types::DType;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Component, Path, PathBuf};

/// Makes the file.
///
/// # Errors
/// What is wrong with the programs, or cannot be expressed; nothing is written then.
pub fn run(session: &mut Session, args: &Import) -> Outcome {
    let mut worlds = sets(&args.paths)?;
    if let Some(tag) = &args.tag {
        worlds.retain(|set| set[0].tag == *tag);
    }
    let set = match &worlds[..] {
        [one] => one,
        [] => {
            let tag = args.tag.as_deref().unwrap_or("");
            return Err(Diagnostic::error("E416", format!("there are no programs of the tag `{tag}`")).into());
        }
        more => {
            let tags: Vec<&str> = more.iter().map(|s| s[0].tag.as_str()).collect();
            return Err(Diagnostic::error("E416", format!("{} has programs of several tags", args.paths[0]))
                .help(format!("one file is made of one of them: --tag {}", tags.join(", --tag ")))
                .into());
        }
    };
    let to_stdout = args.out == "-";
    if !to_stdout && !args.out.ends_with(".kb") {
        return Err(Diagnostic::error("E416", format!("{} is no name of a program", args.out))
            .help("programs end in .kb")
            .into());
    }
    let it = checked(session, set, &args.groups, false)?;
    let out = Path::new(&args.out);
    let called = if to_stdout { Path::new(&args.paths[0]) } else { out };
    let name = called.file_stem().map_or_else(|| "program".into(), |s| s.to_string_lossy().into_owned());
    let beside = if to_stdout { Path::new("") } else { out.parent().unwrap_or(Path::new("")) };
    let made = make(session, &it, &name, beside)?;
    if to_stdout {
        if !made.files.is_empty() {
            let names: Vec<&str> = made.files.iter().map(|f| f.0.as_str()).collect();
            return Err(Diagnostic::error("E416", "this program needs data files beside it")
                .note(names.join(", "))
                .help("name a file: -o model.kb")
                .into());
        }
        session.result(&made.text);
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
        return Err(Diagnostic::error("E416", format!("{given} has programs of several tags"))
            .help(format!("one of them is compiled: {}", tags.join(", ")))
            .into());
    };
    let it = checked(session, set, &args.groups, false)?;
    let name = path.file_name().map_or_else(|| "program".into(), |s| s.to_string_lossy().into_owned());
    let name = if path.is_dir() { &name[..] } else { name.split('.').next().unwrap_or(&name) };
    let dir = if path.is_dir() { path } else { path.parent().unwrap_or(Path::new("")) };
    let made = make(session, &it, name, dir)?;
    let file = dir.join(format!("{name}.kb")).to_string_lossy().into_owned();
    session.give(&file, &made.text);
    for (name, bytes) in made.files {
        session.give_bytes(&dir.join(name), bytes);
    }
    let source = Source { file, ..args.source.clone() };
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
pub fn make(session: &mut Session, it: &Checked, name: &str, beside: &Path) -> Outcome<Made> {
    let data = stored(session, it, beside)?;
    let Kb { text, constants, arrays } = match &it.mesh {
        Some(mesh) => {
            let (p, args) = (it.world.programs[0].clone(), it.world.args[0].clone());
            kb::global::write(p, mesh, args, name, &data.given)?
        }
        None => kb::write(&it.world, &it.met, name, &data.given)?,
    };
    let id = session.add_text(&format!("{name}.kb"), &text);
    let text = format(id, &text)?;
    let mut files = vec![];
    if !constants.is_empty() {
        let list = constants
            .iter()
            .map(|(k, c)| Ok((k.clone(), constant(c)?)))
            .collect::<Result<Vec<_>, Diagnostic>>()?;
        files.push((format!("{name}.npz"), formats::write_npz(&list)?));
    }
    let mut by: BTreeMap<usize, Vec<(String, Tensor)>> = BTreeMap::new();
    for w in arrays {
        let t = match &w.from {
            From::Array(key) => data.read(w.program, key)?,
            From::Weight(key) => data.weights[w.program].get(key).cloned(),
        };
        let t = t.ok_or_else(|| Diagnostic::error("E991", format!("the array {} is gone", w.key)))?;
        let file = &it.files[w.program].path;
        let t = converted(&t, w.dtype).map_err(|why| {
            Diagnostic::error("E552", format!("`{}` cannot be kept: {why}", w.key))
                .note(file.display().to_string())
        })?;
        by.entry(w.program).or_default().push((w.key, t));
    }
    for (program, list) in by {
        let rank = it.world.programs[program].rank;
        files.push((format!("{name}.rank{rank}.npz"), formats::write_npz(&list)?));
    }
    Ok(Made { text, files })
}

/// Data files of the ranks and weights of archives.
struct Stored {
    given: Given,
    /// Of each program.
    paths: Vec<Option<(String, Vec<u8>)>>,
    weights: Vec<BTreeMap<String, Tensor>>,
}

impl Stored {
    fn read(&self, program: usize, key: &str) -> Result<Option<Tensor>, Diagnostic> {
        match &self.paths[program] {
            Some((name, bytes)) => formats::read(name, bytes, Some(key)).map(Some),
            None => Ok(None),
        }
    }
}

fn theirs(d: DType) -> Theirs {
    match d {
        DType::F32 => Theirs::F32,
        DType::F16 => Theirs::F16,
        DType::BF16 => Theirs::Bf16,
        DType::I32 => Theirs::I32,
        DType::I8 => Theirs::I8,
        DType::U8 => Theirs::U8,
        DType::I16 => Theirs::I16,
        DType::I64 => Theirs::I64,
    }
}

fn array(t: &Tensor) -> kb::Array {
    (theirs(t.dtype()), t.shape().iter().map(|n| *n as i64).collect())
}

/// What there is beside the programs.
fn stored(session: &mut Session, it: &Checked, beside: &Path) -> Outcome<Stored> {
    let mut out = Stored { given: Given::default(), paths: vec![], weights: vec![] };
    let first = it.files.first().map(File::data).unwrap_or_default();
    let dir = it.files.first().and_then(|f| f.path.parent()).unwrap_or(Path::new(""));
    // of the names that may be, the first that some rank has
    let place = |f: &File, name: &str| {
        let rank = f.rank.unwrap_or(0);
        f.path.parent().unwrap_or(Path::new("")).join(name.replace("rank*", &format!("rank{rank}")))
    };
    let one = it.files.len() == 1;
    let name =
        first.iter().find(|n| (one || n.contains('*')) && it.files.iter().any(|f| place(f, n).is_file()));
    if let Some(name) = name {
        out.given.path = relative(&dir.join(name), beside);
    }
    for f in &it.files {
        let path = name.map(|n| place(f, n)).filter(|p| p.is_file());
        let mut arrays = BTreeMap::new();
        let stored = match path {
            Some(path) => {
                let shown = path.to_string_lossy().into_owned();
                let bytes = Session::read_bytes(&path)?;
                for key in formats::keys(&shown, &bytes)? {
                    match formats::read(&shown, &bytes, Some(&key)) {
                        Ok(t) => {
                            arrays.insert(key, array(&t));
                        }
                        Err(d) if d.code == "E403" => {
                            let mut d = d;
                            d.severity = kbc_diag::Severity::Warning;
                            session.tell(&d.note(format!("the array `{key}` is left out")).into());
                        }
                        Err(d) => return Err(d.into()),
                    }
                }
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
        out.given.weights.push(weights.iter().map(|(k, t)| (k.clone(), array(t))).collect());
        out.weights.push(weights);
    }
    Ok(out)
}

/// A weight of an archive; none of a type that kbc does not have.
fn tensor(w: &archive::Values) -> Result<Option<Tensor>, String> {
    macro_rules! all {
        ($variant:ident, $t:ty, $n:literal) => {{
            let (elements, _) = w.bytes.as_chunks::<$n>();
            Data::$variant(elements.iter().map(|b| <$t>::from_le_bytes(*b)).collect())
        }};
    }
    let data = match w.dtype {
        Theirs::F32 => all!(F32, f32, 4),
        Theirs::F16 => all!(F16, half::f16, 2),
        Theirs::Bf16 => all!(BF16, half::bf16, 2),
        Theirs::I32 => all!(I32, i32, 4),
        Theirs::I64 => all!(I64, i64, 8),
        Theirs::Bool | Theirs::U8 => all!(U8, u8, 1),
        _ => return Ok(None),
    };
    let shape: Vec<u64> = w.sizes.iter().map(|n| *n as u64).collect();
    Tensor::new(shape, data).map(Some).ok_or_else(|| "a weight of another size".into())
}

fn constant(c: &Const) -> Result<Tensor, Diagnostic> {
    let wrong = || Diagnostic::error("E991", "a constant that has no elements");
    let list = c.elements().map_err(|_| wrong())?;
    let data = match c.dtype {
        Theirs::F32 => Data::F32(list.iter().map(|x| *x as f32).collect()),
        Theirs::F16 => Data::F16(list.iter().map(|x| half::f16::from_f64(*x)).collect()),
        Theirs::Bf16 => Data::BF16(list.iter().map(|x| half::bf16::from_f64(*x)).collect()),
        _ => Data::I32(list.iter().map(|x| *x as i32).collect()),
    };
    let shape: Vec<u64> = c.sizes.iter().map(|n| *n as u64).collect();
    Tensor::new(shape, data).ok_or_else(wrong)
}

/// Whole numbers as i32.
fn converted(t: &Tensor, to: Theirs) -> Result<Tensor, String> {
    if theirs(t.dtype()) == to {
        return Ok(t.clone());
    }
    let (Some(list), Theirs::I32) = (t.data().to_i64(), to) else {
        return Err(format!("{} does not become {}", t.dtype(), to.name()));
    };
    let one = |x: &i64| i32::try_from(*x).map_err(|_| format!("{x} is out of the range of i32"));
    let data = Data::I32(list.iter().map(one).collect::<Result<_, _>>()?);
    Tensor::new(t.shape().to_vec(), data).ok_or_else(|| "another size".into())
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
