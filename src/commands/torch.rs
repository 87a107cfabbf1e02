//! `.json` and `.pt2` files, and folders of them: PyTorch programs, one a rank (docs/torch.md).

use super::compile::finish;
use crate::cli::Check;
use crate::report::{Report, SCHEMA, TorchCollective, TorchCount, TorchGroup, TorchReport};
use crate::session::{Outcome, Session, words};
use kbc_diag::{Diagnostic, Diagnostics};
use kbc_import::torch::archive::{self, Weights};
use kbc_import::torch::groups::{Table, World, world};
use kbc_import::torch::matching::Met;
use kbc_import::torch::model::{Program, Role};
use kbc_import::torch::{check as proven, exported, listing, resolve, summary, table};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Whether a path is a PyTorch program, or a folder (of them).
pub fn is_one(path: &str) -> bool {
    path.ends_with(".pt2") || path.ends_with(".json") || Path::new(path).is_dir()
}

/// A file of a program, as its name tells.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct File {
    /// What the programs of one world have in common in their names: `fwd` of `rank0.fwd.model.json`.
    tag: String,
    rank: Option<u64>,
    path: PathBuf,
}

fn file(path: &Path) -> Option<File> {
    let name = path.file_name()?.to_str()?;
    let stem = [".model.json", ".json", ".pt2"].iter().find_map(|end| name.strip_suffix(end))?;
    if stem == "groups" || stem.ends_with(".groups") {
        return None;
    }
    let rank_of = |w: &str| w.strip_prefix("rank").and_then(|n| n.parse().ok());
    let rank = stem.split('.').find_map(rank_of);
    let tag: Vec<&str> = stem.split('.').filter(|w| rank_of(w).is_none()).collect();
    Some(File { tag: tag.join("."), rank, path: path.to_owned() })
}

/// The programs of a folder, by tag; where one is there in two formats, the JSON.
fn folder(path: &str) -> Outcome<Vec<Vec<File>>> {
    let cannot = |e: std::io::Error| Diagnostic::error("E412", format!("cannot read {path}: {}", words(&e)));
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir(path).map_err(cannot)? {
        found.extend(file(&entry.map_err(cannot)?.path()));
    }
    // other files may be there, too: those whose names say a rank are meant, if there are any
    if found.iter().any(|f: &File| f.rank.is_some()) {
        found.retain(|f| f.rank.is_some());
    }
    let mut by: BTreeMap<String, BTreeMap<Option<u64>, File>> = BTreeMap::new();
    for f in found {
        let json = f.path.extension().is_some_and(|e| e == "json");
        let ranks = by.entry(f.tag.clone()).or_default();
        if json || !ranks.contains_key(&f.rank) || f.rank.is_none() {
            ranks.insert(f.rank, f);
        }
    }
    if by.is_empty() {
        return Err(Diagnostic::error("E416", format!("{path} has no exported program"))
            .note("text forms (print(ep), print_readable, DTensor graphs) are not read")
            .help("rank0.model.json or rank0.pt2, and so for every rank (docs/torch.md)")
            .into());
    }
    Ok(by.into_values().map(|ranks| ranks.into_values().collect()).collect())
}

/// A program and what its archive says of weights.
struct Loaded {
    program: Program,
    weights: Option<&'static str>,
}

fn load(session: &mut Session, f: &File, rank: u64) -> Outcome<Loaded> {
    let path = f.path.to_string_lossy().into_owned();
    let (name, id, text, weights) = if path.ends_with(".pt2") {
        let bytes = Session::read_bytes(&f.path)?;
        let a = archive::read(&bytes).map_err(|why| Diagnostic::error("E537", format!("{path}: {why}")))?;
        let name = format!("{path}:{}", a.entry);
        let id = session.add_text(&name, &a.program);
        (name, id, a.program, Some(a.weights))
    } else {
        let (id, text) = session.read(&path)?;
        (path.clone(), id, text, None)
    };
    let written = exported(id, &name, &text)?;
    let weights = match weights {
        None => None,
        Some(Weights::Pickled) => {
            let d = Diagnostic::warning(
                "E538",
                format!("{path}: its weights are a pickle, which kbc does not read"),
            );
            session.tell(&d.help("PyTorch 2.10 and later write them as bytes: export again with one").into());
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
    let shown = session.add_text(&format!("{name} (program)"), &text);
    let program = resolve(&name, rank, shown, lines, written)?;
    Ok(Loaded { program, weights })
}

/// The side-car of a program: of its rank, or one for all.
fn groups(session: &mut Session, f: &File, rank: u64) -> Outcome<Option<(String, Table)>> {
    let dir = f.path.parent().unwrap_or(Path::new(""));
    for name in [format!("rank{rank}.groups.json"), "groups.json".into()] {
        let path = dir.join(name);
        if path.is_file() {
            let name = path.to_string_lossy().into_owned();
            let (id, text) = session.read(&name)?;
            let mut t = table(id, &name, &text)?;
            if name.ends_with("/groups.json") || name == "groups.json" {
                // one file for all ranks is of no rank
                t.rank = None;
            }
            return Ok(Some((name, t)));
        }
    }
    Ok(None)
}

/// `kbc check` of programs.
///
/// # Errors
/// What is wrong with them.
pub fn check(session: &mut Session, args: &Check) -> Outcome {
    let source = args.source();
    let first = &source.file;
    super::import::no_post(&source)?;
    super::refuse(&source.of.given(), "PyTorch programs")?;
    super::tile::no_target(args.target.as_ref(), first)?;
    let sets = if Path::new(first).is_dir() {
        super::refuse(&[("a second path", !args.more.is_empty())], "a folder")?;
        folder(first)?
    } else {
        let mut set = vec![];
        for path in std::iter::once(first).chain(&args.more) {
            let f = file(Path::new(path)).ok_or_else(|| {
                Diagnostic::error("E416", format!("{path} is no exported program"))
                    .help("a .json or .pt2 file, or a folder of them")
            })?;
            set.push(f);
        }
        vec![set]
    };
    let lone = !Path::new(first).is_dir() && args.more.is_empty();
    let mut report =
        Report { schema: SCHEMA, command: "check", file: first.clone(), ok: true, ..Report::default() };
    let mut found = Diagnostics::new();
    for set in sets {
        match one(session, &set, lone) {
            Ok(r) => report.torch.push(r),
            Err(crate::session::Failure::Program(d)) => found.extend(d),
            Err(other) => return Err(other),
        }
    }
    if found.has_errors() {
        return Err(found.into());
    }
    finish(session, &report, args.report, true)
}

/// The programs of one world.
fn one(session: &mut Session, set: &[File], lone: bool) -> Outcome<TorchReport> {
    let named = set.iter().filter(|f| f.rank.is_some()).count();
    if named != 0 && named != set.len() {
        let without = set.iter().find(|f| f.rank.is_none()).map_or(Path::new(""), |f| &f.path);
        return Err(Diagnostic::error("E535", format!("of which rank is {}?", without.display()))
            .help("a part of its name says it, rank0 in rank0.model.json")
            .into());
    }
    let mut found = Diagnostics::new();
    let (mut ranks, mut weights) = (vec![], None);
    for (i, f) in set.iter().enumerate() {
        let rank = f.rank.unwrap_or(i as u64);
        match load(session, f, rank) {
            Ok(l) => {
                weights = l.weights;
                ranks.push((l.program, groups(session, f, rank)?));
            }
            Err(crate::session::Failure::Program(d)) => found.extend(d),
            Err(other) => return Err(other),
        }
    }
    if found.has_errors() {
        return Err(found.into());
    }
    let world = world(ranks, lone)?;
    let met = proven(&world)?;
    Ok(about(&set[0].tag, &world, &met, weights))
}

fn about(tag: &str, world: &World, met: &[Met], weights: Option<&'static str>) -> TorchReport {
    let p = &world.programs[0];
    let operations = summary::operations(p);
    let collectives = summary::collectives(world, met);
    let mut groups: Vec<TorchGroup> = vec![];
    for c in &collectives {
        let g = TorchGroup { name: c.group.clone(), ranks: c.members.clone() };
        if !groups.contains(&g) {
            groups.push(g);
        }
    }
    groups.sort_by(|a, b| (a.name.len(), &a.name).cmp(&(b.name.len(), &b.name)));
    let role = |weight: bool| {
        p.written.inputs.iter().filter(|i| matches!(i.1, Role::Weight(_)) == weight).count() as u64
    };
    TorchReport {
        tag: tag.to_owned(),
        version: p.written.torch.clone(),
        world: world.size,
        ranks: world.programs.iter().map(|p| p.rank).collect(),
        groups_from: if world.said { "file" } else { "assumed" },
        parameters: role(true),
        inputs: role(false),
        weights,
        alike: world.programs.iter().all(|q| summary::operations(q) == operations),
        groups,
        operations: operations
            .into_iter()
            .map(|(operation, count)| TorchCount { operation: operation.to_owned(), count })
            .collect(),
        collectives: collectives
            .into_iter()
            .map(|c| TorchCollective {
                operation: c.operation,
                reduce: c.reduce,
                group: c.group,
                ranks: c.members.len() as u64,
                operand: c.operand,
                bytes: c.bytes,
                count: c.count,
            })
            .collect(),
    }
}
