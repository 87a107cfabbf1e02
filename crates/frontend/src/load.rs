//! Loading: reads a file and everything that it uses, with the built-in library behind it.
//!
//! This module follows `use` (each file is read once, and cycles are allowed) and machine files,
//! defines which file sees which names and by which namespaces, and performs the checks that need
//! no sizes: names declared twice, algorithms, kernels, parameters. Texts come from a [`Sources`];
//! this module does not open files. [`crate::lower`] makes a program of the result.

use crate::ast::{Item, TableDecl, TableSource, TopologyDecl, TopologySource, UseDecl, UseTarget};
use crate::library::{self, LIBRARY};
use crate::loaded::{Loaded, LoadedFile, split};
use crate::lower;
use crate::machine;
use crate::parse;
use kbc_diag::{Diagnostic, Diagnostics, FileId, Span};
use kbc_rounds::ast::Ident;
use kbc_rounds::namespace::Space;
use kbc_rounds::scope::Parameter;
use kbc_rounds::{Layer, LazyDecls, Library, checks};
use std::collections::BTreeMap;
use std::sync::OnceLock;

/// A provider of source texts: the driver, or a test.
pub trait Sources {
    /// Registers a built-in text and returns its id.
    fn builtin(&mut self, name: &'static str, text: &'static str) -> FileId;

    /// Returns the file that `path` names, relative to the file `from`. A file always has the same
    /// id, whatever path names it; this includes the file that was given to [`load`].
    ///
    /// # Errors
    /// Returns an error if the file cannot be read. The caller adds the place of the `use`.
    fn open(&mut self, from: FileId, path: &str) -> Result<(FileId, String), Diagnostic>;
}

/// Loads the library, the root file if there is one, and everything that it uses. The messages are
/// sorted by place. If they contain an error, the returned value is incomplete.
pub fn load(root: Option<(FileId, String)>, sources: &mut dyn Sources) -> (Loaded, Diagnostics) {
    let mut found = Diagnostics::new();
    let mut loaded =
        Loaded { root: root.as_ref().map(|r| r.0), files: vec![], library: Library::new(), machines: vec![] };
    let mut decls: Vec<LazyDecls> = vec![];
    let mut uses: Vec<Vec<Used>> = vec![];
    let mut todo: Vec<(FileId, String)> = root.into_iter().collect();
    while let Some((id, text)) = todo.pop() {
        let (mut tree, messages) = parse(id, &text);
        found.extend(messages);
        let mut used: Vec<Used> = vec![];
        let mut tables: BTreeMap<Span, (FileId, String)> = BTreeMap::new();
        for item in &tree.items {
            if let Item::Table(TableDecl { source: TableSource::File(path), .. }) = item {
                match sources.open(id, &path.node) {
                    Ok(file) => {
                        tables.insert(path.span, file);
                    }
                    Err(d) => found.push(d.primary(path.span, "named here")),
                }
            }
            if let Item::Topology(TopologyDecl { source: TopologySource::File(path, _), .. }) = item {
                let file =
                    sources.open(id, &path.node).map_err(|d| d.primary(path.span, "named here").into());
                match file.and_then(|(file, text)| machine::read(&text, file)) {
                    Ok(m) => {
                        found.extend(m.warnings.clone());
                        loaded.machines.push((path.span, m));
                    }
                    Err(d) => found.extend(d),
                }
            }
            let Item::Use(u) = item else { continue };
            let UseTarget::File(path) = &u.what else {
                used.push((u.clone(), None));
                continue;
            };
            match sources.open(id, &path.node) {
                Ok((file, text)) => {
                    used.push((u.clone(), Some(file)));
                    let known = loaded.files.iter().any(|f| f.id == file) || todo.iter().any(|t| t.0 == file);
                    if file != id && !known {
                        todo.push((file, text));
                    }
                }
                Err(d) => found.push(d.primary(path.span, "used here")),
            }
        }
        uses.push(used);
        decls.push(split(&mut tree, &tables, &mut found).into());
        let (layer, tree) = (Layer::User, OnceLock::from(tree));
        loaded.files.push(LoadedFile { id, layer, uses: vec![], tree, built_in: usize::MAX });
    }
    for (number, (name, text)) in LIBRARY.iter().enumerate() {
        let id = sources.builtin(name, text);
        decls.push(library::declared(number, id));
        let (layer, tree) = (Layer::Library, OnceLock::new());
        loaded.files.push(LoadedFile { id, layer, uses: vec![], tree, built_in: number });
    }
    for (file, decls) in loaded.files.iter().zip(decls) {
        found.extend(loaded.library.add_lazy(file.id, file.layer, vec![], decls));
        if let Some(name) = library::module(file.built_in) {
            loaded.library.add_module(name, file.id);
        }
    }
    link(&mut loaded, uses, &mut found);
    let users: Vec<FileId> = loaded.files.iter().filter(|f| f.layer == Layer::User).map(|f| f.id).collect();
    for id in users {
        let declared = loaded.params(id).map(|p| (p.name.node.clone(), Parameter::Declared)).collect();
        loaded.library.set_parameters(id, declared);
    }
    // These checks run only without errors: an item that could not be parsed is missing, and
    // references to it would be reported wrongly.
    if !found.has_errors() {
        let seen: Vec<FileId> = loaded.root.iter().flat_map(|r| loaded.order(*r)).map(|f| f.id).collect();
        for file in loaded.files.iter().filter(|f| f.layer == Layer::User) {
            found.extend(loaded.library.check_spaces(file.id));
            found.extend(loaded.library.twice_qualified(file.id));
            found.extend(checks::check_file(&loaded.library, file.id));
            twice(file, &mut found);
            // A file that is used by a namespace hides nothing of the files that are compiled.
            if seen.contains(&file.id) {
                found.extend(loaded.library.hidden_by(file.id));
                hides(&loaded, file, &mut found);
            }
        }
        lower::check(&loaded, &mut found);
    }
    (loaded, found.finish())
}

/// A `use`, and the file if it names one.
type Used = (UseDecl, Option<FileId>);

/// Defines which files and namespaces each of the user's files sees. `uses` are those of the user's
/// files in their order.
fn link(loaded: &mut Loaded, uses: Vec<Vec<Used>>, found: &mut Diagnostics) {
    let library = &mut loaded.library;
    for (u, file) in uses.iter().flatten() {
        if let (Some(name), Some(file)) = (&u.name, file) {
            library.add_space(name.clone(), Space::File(*file));
        }
    }
    for (file, used) in loaded.files.iter_mut().zip(uses) {
        for (u, of) in used {
            let space = match (&u.what, of) {
                (_, Some(of)) => Space::File(of),
                (UseTarget::Module(name), None) => match library.find_space(file.id, name) {
                    Ok(space) => space,
                    Err(d) => {
                        found.push(*d);
                        continue;
                    }
                },
                (UseTarget::File(_), None) => continue,
            };
            match (u.name, of, space) {
                (Some(_), Some(_), _) => {}
                (Some(name), None, _) => library.add_space(name, space),
                (None, _, Space::File(of)) => file.uses.push(of),
                (None, _, Space::Library) => file.uses.extend(library.files_of(space)),
            }
        }
        found.extend(library.add_lazy(file.id, file.layer, file.uses.clone(), LazyDecls::default()));
    }
    let Some(root) = loaded.root else { return };
    let seen: Vec<FileId> = loaded.order(root).iter().map(|f| f.id).collect();
    for file in loaded.files.iter().filter(|f| !seen.contains(&f.id)) {
        loaded.library.set_apart(file.id);
    }
}

/// Returns the name space of the program half in which an item declares its name.
fn kind(item: &Item) -> Option<&'static str> {
    Some(match item {
        Item::Param(_) => "parameter",
        Item::Topology(_) => "topology",
        Item::Mesh(_) => "mesh",
        Item::Kernel(_) | Item::TileKernel(_) | Item::Program(_) | Item::Local(_) => "kernel or program",
        _ => return None,
    })
}

/// Reports E004 for two declarations of one name in a file, and for the name of a built-in
/// operation.
fn twice(file: &LoadedFile, found: &mut Diagnostics) {
    let named = |i: &Item| Some((kind(i)?, i.name()?.clone()));
    let names: Vec<(&'static str, Ident)> = file.tree().items.iter().filter_map(named).collect();
    let mut first: BTreeMap<(&str, &str), Span> = BTreeMap::new();
    for (kind, name) in &names {
        let before = first.get(&(*kind, name.node.as_str())).copied();
        first.entry((*kind, name.node.as_str())).or_insert(name.span);
        if *kind == "kernel or program" && lower::is_built_in(&name.node) {
            found.push(
                Diagnostic::error("E004", format!("`{}` is the name of a built-in operation", name.node))
                    .primary(name.span, "declared again here")
                    .help("choose another name"),
            );
        } else if let Some(first) = before {
            found.push(
                Diagnostic::error("E004", format!("{kind} `{}` is declared twice", name.node))
                    .primary(name.span, "declared again here")
                    .secondary(first, "first declared here")
                    .help("rename or remove one of them"),
            );
        }
    }
}

/// Adds notes about kernels, programs, parameters and topologies of a file that hide others in the
/// files behind it.
fn hides(loaded: &Loaded, file: &LoadedFile, found: &mut Diagnostics) {
    let behind = loaded.order(file.id);
    let items = &file.tree().items;
    // Nothing calls the program that is compiled, so its name hides nothing.
    let compiled = items.iter().rfind(|i| matches!(i, Item::Program(_) | Item::Local(_)));
    for item in items {
        let (Some(of), Some(name)) = (kind(item), item.name()) else { continue };
        if compiled.is_some_and(|c| std::ptr::eq(c, item)) {
            continue;
        }
        let hidden =
            |other: &&Item| kind(other) == Some(of) && other.name().is_some_and(|n| n.node == name.node);
        let files = behind.iter().skip(1).filter(|f| f.may_declare(&name.node));
        let old = files.into_iter().find_map(|f| f.tree().items.iter().find(hidden));
        if let Some(old) = old {
            found.push(loaded.library.hides(of, name, old.name().map_or(Span::NONE, |n| n.span)));
        }
    }
}
