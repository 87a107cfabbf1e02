//! Files of PyTorch programs: the programs in a folder, the rank of each, and the files beside
//! them.
//!
//! The module owns file names and reading. `kbc_import::torch` defines programs.

use super::arrays::all;
use crate::arguments::defines;
use crate::failure::{Failure, Outcome};
use crate::workspace::{Workspace, named, words};
use kbc_diag::{Diagnostic, Diagnostics};
use kbc_import::torch::archive::{self, Weights};
use kbc_import::torch::groups::{Table, World, group_of, world};
use kbc_import::torch::matching::MatchedCollective;
use kbc_import::torch::model::{Program, Written};
use kbc_import::torch::resize::{bound_by, rebind};
use kbc_import::torch::{check as proven, exported, listing, resolve, table};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Whether a path is named like a PyTorch program.
pub fn is_named(path: &str) -> bool {
    [".pt2", ".json", ".py", ".txt"].iter().any(|end| path.ends_with(end))
}

/// A file of a program, according to its name.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct File {
    /// The common part of the names of the programs of one world: `fwd` in `rank0.fwd.model.json`.
    pub tag: String,
    /// The rank, if its name has one.
    pub rank: Option<u64>,
    /// Where it is.
    pub path: PathBuf,
}

/// Endings of programs in a folder, the ones that say more first; those behind `.json` are of
/// texts.
const ENDS: [&str; 5] = [".model.json", ".json", ".pt2", ".ep.txt", ".readable.py"];

/// Endings of what else may be a text, if it is named by itself.
const TEXTS: [&str; 2] = [".txt", ".py"];

/// `rank0`, or `r0` as others write it.
fn rank_of(word: &str) -> Option<u64> {
    word.strip_prefix("rank").or_else(|| word.strip_prefix('r')).and_then(|n| n.parse().ok())
}

/// A name without its ending, and the place of that in the list.
fn stem<'n>(name: &'n str, ends: &[&str]) -> Option<(&'n str, usize)> {
    ends.iter().enumerate().find_map(|(i, end)| name.strip_suffix(end).map(|s| (s, i)))
}

impl File {
    /// By its name; none for what is no program. `named`: it was, and is not one of a folder.
    pub fn of(path: &Path, named: bool) -> Option<File> {
        let name = path.file_name()?.to_str()?;
        let found = stem(name, &ENDS).or_else(|| stem(name, &TEXTS).filter(|_| named));
        let (stem, _) = found?;
        if stem == "groups" || stem.ends_with(".groups") {
            return None;
        }
        let rank = stem.split('.').find_map(rank_of);
        let tag: Vec<&str> = stem.split('.').filter(|w| rank_of(w).is_none()).collect();
        Some(File { tag: tag.join("."), rank, path: path.to_owned() })
    }

    fn ending(&self) -> usize {
        stem(&self.path.to_string_lossy(), &ENDS).map_or(ENDS.len(), |s| s.1)
    }

    /// Names of data files that may belong to it, with `*` for the rank: that of its tag first.
    pub fn data(&self) -> Vec<String> {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let stem = stem(&name, &ENDS).or_else(|| stem(&name, &TEXTS)).map_or(&*name, |s| s.0);
        let star = |w: &str| if rank_of(w).is_some() { "rank*".to_owned() } else { w.to_owned() };
        let all: Vec<String> = stem.split('.').map(star).collect();
        let mut out = vec![format!("{}.npz", all.join("."))];
        let whole = all.iter().find(|w| *w == "rank*").or(all.first());
        out.extend(whole.map(|w| format!("{w}.npz")));
        out.dedup();
        out
    }

    /// The file of that name beside it, `*` the rank.
    pub fn beside(&self, name: &str) -> PathBuf {
        let rank = format!("rank{}", self.rank.unwrap_or(0));
        self.path.parent().unwrap_or(Path::new("")).join(name.replace("rank*", &rank))
    }
}

/// What no file says of programs.
#[derive(Clone, Debug, Default)]
pub struct TorchArguments {
    /// Members of process groups, each as `NAME=RANKS`: `7=0-3`, `7=0,2`.
    pub group: Vec<String>,
    /// A file with weights by the names of the model; `*` stands for the rank.
    pub weights: Option<String>,
    /// The unsharded model, to compare with.
    pub reference: Option<String>,
}

impl TorchArguments {
    /// Names with members.
    ///
    /// # Errors
    /// E413: what is not of that form.
    pub fn parsed(&self) -> Result<Vec<(String, Vec<u64>)>, Diagnostic> {
        let one = |text: &String| {
            let wrong = || {
                Diagnostic::error("E413", format!("--group {text} is not NAME=RANKS"))
                    .help("write --group 7=0-3, or --group 7=0,2")
            };
            let (name, list) = text.split_once('=').filter(|p| !p.0.is_empty()).ok_or_else(wrong)?;
            let mut members = vec![];
            for part in list.split(',') {
                let (from, to) = part.split_once('-').unwrap_or((part, part));
                let number =
                    |w: &str| w.trim().parse::<u64>().ok().filter(|n| *n < 1 << 16).ok_or_else(wrong);
                members.extend(number(from)?..=number(to)?);
            }
            let different: std::collections::BTreeSet<&u64> = members.iter().collect();
            if members.is_empty() || different.len() != members.len() {
                return Err(wrong());
            }
            Ok((name.to_owned(), members))
        };
        self.group.iter().map(one).collect()
    }
}

/// What is said of programs.
pub struct TorchOptions<'a> {
    /// Groups, and files of weights.
    pub groups: &'a TorchArguments,
    /// What symbols of sizes are.
    pub sizes: BTreeMap<String, i64>,
    /// Whether it is a program of one rank, whatever tables are beside it.
    pub alone: bool,
}

impl<'a> TorchOptions<'a> {
    /// With the values of `-D`.
    ///
    /// # Errors
    /// E560: one that is no size.
    pub fn new(groups: &'a TorchArguments, define: &[String]) -> Outcome<TorchOptions<'a>> {
        let mut sizes = BTreeMap::new();
        for (name, value) in defines(define)? {
            let n = value.parse().map_err(|_| {
                Diagnostic::error("E560", format!("-D {name}={value} is not a size of a PyTorch program"))
                    .help("write -D s77=16, with the name of a symbol of its sizes")
            })?;
            sizes.insert(name, n);
        }
        Ok(TorchOptions { groups, sizes, alone: false })
    }
}

/// The programs of a folder, by tag; where one is there in two formats, the one that says more.
fn folder(workspace: &Workspace, path: &str) -> Outcome<Vec<Vec<File>>> {
    let cannot = |e: std::io::Error| Diagnostic::error("E412", format!("cannot read {path}: {}", words(&e)));
    let mut found = BTreeSet::new();
    for path in workspace.environment.entries(Path::new(path)).map_err(cannot)? {
        // One that could be meant and cannot be named is not left out in silence.
        if ENDS.iter().any(|end| path.as_os_str().as_encoded_bytes().ends_with(end.as_bytes())) {
            named(&path).map_err(cannot)?;
        }
        found.extend(File::of(&path, false));
    }
    // other files may be there, too: those whose names say a rank are meant, if there are any
    if found.iter().any(|f: &File| f.rank.is_some()) {
        found.retain(|f| f.rank.is_some());
    }
    let mut by: BTreeMap<String, BTreeMap<Option<u64>, File>> = BTreeMap::new();
    for f in found {
        let ranks = by.entry(f.tag.clone()).or_default();
        if f.rank.is_none() || ranks.get(&f.rank).is_none_or(|g| f.ending() < g.ending()) {
            ranks.insert(f.rank, f);
        }
    }
    if by.is_empty() {
        return Err(Diagnostic::error("E416", format!("{path} contains no exported program"))
            .help("name the files rank0.model.json, rank0.pt2, rank0.ep.txt or rank0.readable.py, likewise for every rank (docs/reference/torch.md)")
            .into());
    }
    Ok(by.into_values().map(|ranks| ranks.into_values().collect()).collect())
}

/// The worlds that paths name: of a folder those of each tag, otherwise one.
///
/// # Errors
/// E412, E416: no programs.
pub fn sets(workspace: &Workspace, paths: &[String]) -> Outcome<Vec<Vec<File>>> {
    let Some(first) = paths.first() else { return Ok(vec![]) };
    if workspace.is_folder(Path::new(first)) {
        crate::load::refuse(&[("a second path", paths.len() > 1)], "a folder")?;
        return folder(workspace, first);
    }
    let mut set = vec![];
    for path in paths {
        let f = File::of(Path::new(path), true).ok_or_else(|| {
            let missing = !Path::new(path).exists();
            let kinds = || "give a .json, .pt2, .txt or .py file, or a folder of them".to_owned();
            let remedy = missing.then(|| workspace.environment.remedy(Path::new(path))).flatten();
            Diagnostic::error("E416", format!("{path} is not an exported program"))
                .help(remedy.unwrap_or_else(kinds))
        })?;
        set.push(f);
    }
    Ok(vec![set])
}

/// The worlds that one path names: a folder, or a program with those of other ranks beside it.
///
/// # Errors
/// As [`sets`].
pub fn with_others(workspace: &Workspace, path: &str) -> Outcome<Vec<Vec<File>>> {
    let full = Path::new(path);
    let (Some(f), false) = (File::of(full, true), workspace.is_folder(full)) else {
        return sets(workspace, &[path.to_owned()]);
    };
    let dir = full.parent().filter(|d| !d.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut all: BTreeMap<Option<u64>, File> = BTreeMap::new();
    if f.rank.is_some() {
        for path in workspace.environment.entries(dir).into_iter().flatten() {
            // the same name but for the rank
            let (Some(other), Some(name)) = (File::of(&path, true), path.file_name()) else { continue };
            if other.tag == f.tag
                && other.rank.is_some()
                && other.data() == f.data()
                && other.ending() == f.ending()
            {
                all.insert(other.rank, File { path: full.with_file_name(name), ..other });
            }
        }
    }
    all.insert(f.rank, f);
    Ok(vec![all.into_values().collect()])
}

/// A world that was read and checked.
pub struct Checked {
    /// Programs and groups.
    pub world: World,
    /// Collectives as they meet.
    pub met: Vec<MatchedCollective>,
    /// The files of the programs, in the order of the world.
    pub files: Vec<File>,
    /// What archives have for weights.
    pub weights: Option<&'static str>,
    /// Of a graph of DTensors, which is no program of one rank: its mesh.
    pub mesh: Option<Vec<(String, u64)>>,
    /// The file of weights that the command line names.
    pub from: Option<String>,
}

/// A program and what its archive says of weights.
struct Loaded {
    program: Program,
    weights: Option<&'static str>,
}

/// Gives symbolic sizes the numbers that the command line says, or the data beside the program has.
fn bound(workspace: &mut Workspace, f: &File, w: &mut Written, said: &TorchOptions<'_>) -> Outcome {
    if !w.is_symbolic() && said.sizes.is_empty() {
        return Ok(());
    }
    let name = f.path.to_string_lossy().into_owned();
    let wrong = |why: String| Diagnostic::error("E560", why).note(name.clone());
    let mut sizes = BTreeMap::new();
    let stored = f.data().into_iter().map(|n| f.beside(&n)).find(|p| workspace.is_file(p));
    if let Some(path) = stored {
        let bytes = workspace.bytes(&path)?;
        for (key, (_, size)) in all(workspace, &path.to_string_lossy(), &bytes)? {
            if let Some(input) = key.strip_prefix("in__") {
                sizes.insert(input.to_owned(), size);
            }
        }
    }
    let mut known = bound_by(w, &sizes).map_err(|why| {
        wrong(why).help("the inputs of a run must have the same size where the program has the same symbol")
    })?;
    known.extend(said.sizes.iter().map(|(n, v)| (n.clone(), *v)));
    if w.unvalued && known.is_empty() {
        // nobody said anything, and the program cannot be read so
        return Ok(());
    }
    rebind(w, &known).map_err(|list| Diagnostics { list: list.into_iter().map(wrong).collect() })?;
    Ok(())
}

fn load(workspace: &mut Workspace, f: &File, rank: u64, said: &TorchOptions<'_>) -> Outcome<Loaded> {
    let path = f.path.to_string_lossy().into_owned();
    let (name, id, text, weights) = if path.ends_with(".pt2") {
        let bytes = workspace.bytes(&f.path)?;
        let a = archive::read(&bytes).map_err(|why| Diagnostic::error("E537", format!("{path}: {why}")))?;
        let name = format!("{path}:{}", a.entry);
        let text = Arc::new(a.program);
        let id = workspace.add_text(&name, text.clone());
        (name, id, text, Some(a.weights))
    } else {
        let (id, text) = workspace.read(&path)?;
        (path.clone(), id, text, None)
    };
    let printed = TEXTS.iter().any(|end| path.ends_with(end));
    let mut written =
        if printed { kbc_import::torch::printed(id, &name, &text)? } else { exported(id, &name, &text)? };
    bound(workspace, f, &mut written, said)?;
    let weights = match weights {
        None => None,
        Some(Weights::Pickled(_)) if said.groups.weights.is_some() => Some("pickled"),
        Some(Weights::Pickled(why)) => {
            let d = Diagnostic::warning(
                "E538",
                format!("{path}: kbc cannot read the pickle of its weights: {why}"),
            );
            let how = "export again with PyTorch 2.10 or later, which writes weights as bytes, or give an .npz or .safetensors file with the names of the model: --weights FILE";
            workspace.report(&d.help(how).into());
            Some("pickled")
        }
        Some(Weights::Raw(w)) => {
            let wrong = archive::missing(&written, &w);
            if !wrong.is_empty() {
                let each = wrong.into_iter().map(|why| Diagnostic::error("E537", format!("{path}: {why}")));
                return Err(Diagnostics { list: each.collect() }.into());
            }
            Some("raw")
        }
    };
    let (text, lines) = listing(&written);
    let shown = workspace.add_text(&format!("{name} (program)"), text);
    let program = resolve(&name, rank, shown, lines, written)?;
    Ok(Loaded { program, weights })
}

/// The side-car of a program: of its rank, or one for all; and what `--group` says.
fn groups(
    workspace: &mut Workspace,
    f: &File,
    p: &Program,
    said: &TorchArguments,
    ranks: u64,
) -> Outcome<Option<(String, Table)>> {
    let rank = p.rank;
    let dir = f.path.parent().unwrap_or(Path::new(""));
    let mut found = None;
    for name in [format!("rank{rank}.groups.json"), "groups.json".into()] {
        let path = dir.join(name);
        if found.is_none() && workspace.is_file(&path) {
            let name = path.to_string_lossy().into_owned();
            let (id, text) = workspace.read(&name)?;
            let mut t = table(id, &name, &text)?;
            if name.ends_with("/groups.json") || name == "groups.json" {
                // one file for all ranks is of no rank
                t.rank = None;
            }
            found = Some((name, t));
        }
    }
    if said.group.is_empty() {
        return Ok(found);
    }
    let (name, mut t) = found.unwrap_or_else(|| {
        let all = BTreeMap::from([("0".to_owned(), (0..ranks).collect())]);
        ("--group".into(), Table { world: Some(ranks), groups: all, ..Table::default() })
    });
    // names are a rank's own: of several for the same ranks it has those that it uses
    let uses = |name: &str| (0..p.nodes.len()).any(|n| group_of(p, n) == name);
    let list: Vec<(String, Vec<u64>)> = said.parsed()?.into_iter().filter(|g| g.1.contains(&rank)).collect();
    for (i, (group, members)) in list.iter().enumerate() {
        let same = |g: &&(String, Vec<u64>)| g.1 == *members;
        let first = !list[..i].iter().any(|g| same(&g));
        if uses(group) || first && !list.iter().filter(same).any(|g| uses(&g.0)) {
            t.groups.insert(group.clone(), members.clone());
        }
    }
    Ok(Some((name, t)))
}

/// Reads and checks the programs of one world.
///
/// # Errors
/// What is wrong with them.
pub fn checked(
    workspace: &mut Workspace,
    set: &[File],
    said: &TorchOptions<'_>,
    lone: bool,
) -> Outcome<Checked> {
    let named = set.iter().filter(|f| f.rank.is_some()).count();
    if named != 0 && named != set.len() {
        let without = set.iter().find(|f| f.rank.is_none()).map_or(Path::new(""), |f| &f.path);
        return Err(Diagnostic::error("E535", format!("the rank of {} is not known", without.display()))
            .help("put the rank into the file name, such as rank0 in rank0.model.json")
            .into());
    }
    let mut found = Diagnostics::new();
    let (mut ranks, mut weights) = (vec![], None);
    let mut files: BTreeMap<u64, File> = BTreeMap::new();
    for (i, f) in set.iter().enumerate() {
        let rank = f.rank.unwrap_or(i as u64);
        match load(workspace, f, rank, said) {
            Ok(l) => {
                weights = l.weights;
                let table = match said.alone {
                    true => None,
                    false => groups(workspace, f, &l.program, said.groups, set.len() as u64)?,
                };
                ranks.push((l.program, table));
                files.insert(rank, f.clone());
            }
            Err(Failure::Program(d)) => found.extend(d),
            Err(other) => return Err(other),
        }
    }
    if found.has_errors() {
        return Err(found.into());
    }
    let files: Vec<File> = files.into_values().collect();
    let from = said.groups.weights.clone();
    if ranks.iter().any(|r| !r.0.written.placements.is_empty()) {
        let [_] = &ranks[..] else {
            return Err(Diagnostic::error("E535", "a graph of DTensors is already the program of all ranks")
                .help("give only this file")
                .into());
        };
        let (p, table) = ranks.remove(0);
        let table = table.map(|t| t.1).unwrap_or_default();
        let mesh = mesh(&p, &table)?;
        let (groups, axes, args) = (vec![BTreeMap::new()], vec![BTreeMap::new()], vec![table.args]);
        let declared = BTreeMap::new();
        let results = vec![];
        let world = World { size: 1, programs: vec![p], groups, axes, args, said: true, declared, results };
        let met = proven(&world)?;
        return Ok(Checked { world, met, files, weights, mesh: Some(mesh), from });
    }
    let world = world(ranks, lone)?;
    let met = proven(&world)?;
    Ok(Checked { world, met, files, weights, mesh: None, from })
}

/// The mesh of a graph of DTensors.
fn mesh(p: &Program, table: &Table) -> Result<Vec<(String, u64)>, Diagnostic> {
    let dims = p.written.placements.values().map(Vec::len).max().unwrap_or(0);
    match (&table.mesh[..], table.world) {
        ([], Some(world)) if dims == 1 => Ok(vec![("tp".into(), world)]),
        ([], _) => Err(Diagnostic::error("E529", format!("the sizes of the mesh of {} are not known", p.file))
            .help("write a groups.json beside it: {\"mesh\": {\"shape\": [2, 2], \"dim_names\": [\"dp\", \"tp\"]}, \"groups\": {}}")),
        (mesh, _) => Ok(mesh.to_vec()),
    }
}
