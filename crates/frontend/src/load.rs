//! Loading: reads a file and everything that it uses, with the built-in library behind it.
//!
//! This module follows `use` (each file is read once, and cycles are allowed) and machine files,
//! defines which file sees which names and by which namespaces, and performs the checks that need
//! no sizes: names declared twice, algorithms, kernels, parameters. Texts come from a [`Sources`];
//! this module does not open files. [`crate::lower`] makes a program of the result.

use crate::ast::{
    File, Item, KernelDecl, LocalDecl, MeshDecl, ParamDecl, ProgramDecl, TableDecl, TableSource,
    TileKernelDecl, TopologyDecl, TopologySource, UseDecl, UseTarget,
};
use crate::library::{self, LIBRARY};
use crate::lower;
use crate::machine::{self, MachineFile};
use crate::parse;
use crate::table;
use kbc_diag::{Diagnostic, Diagnostics, FileId, Span};
use kbc_rounds::ast::Ident;
use kbc_rounds::namespace::Space;
use kbc_rounds::scope::Parameter;
use kbc_rounds::{Decls, Layer, LazyDecls, Library, checks};
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

/// A file that has been loaded.
#[derive(Clone, Debug)]
pub struct LoadedFile {
    /// The id.
    pub id: FileId,
    /// The layer: user or library.
    pub layer: Layer,
    /// The files that it uses without a namespace, in source order.
    pub uses: Vec<FileId>,
    tree: OnceLock<File>,
    /// The index in [`LIBRARY`], for a file of the library.
    built_in: usize,
}

impl LoadedFile {
    /// Returns whether the file may have an item of the program half with this name. This does not
    /// parse files of the library.
    fn may_declare(&self, name: &str) -> bool {
        self.layer == Layer::User || library::declares(self.built_in, name)
    }

    /// Returns the syntax tree without the algorithm half, which is in [`Loaded::library`]. A file
    /// of the library is parsed on the first call.
    pub fn tree(&self) -> &File {
        self.tree.get_or_init(|| {
            let mut tree = File::default();
            if let Some((_, text)) = LIBRARY.get(self.built_in).filter(|_| library::has_others(self.built_in))
            {
                tree = parse(self.id, text).0;
                // The library has no tables.
                split(&mut tree, &BTreeMap::new(), &mut Diagnostics::new());
            }
            tree
        })
    }
}

/// Everything that a run has loaded.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The file that the user named, if any.
    pub root: Option<FileId>,
    /// The user's files in the order in which they were found, the root first, and then the files
    /// of the library.
    pub files: Vec<LoadedFile>,
    /// The functions, collectives and algorithms of all files. Parameters have no values here;
    /// [`lower::Lowered::library`] and [`lower::library`] have the values.
    pub library: Library,
    /// The machine files, each with the source position of its path.
    pub machines: Vec<(Span, MachineFile)>,
}

/// A declaration that a program can call by name, besides the built-in operations.
#[derive(Clone, Copy, Debug)]
pub enum Callable<'a> {
    /// An elementwise kernel.
    Kernel(&'a KernelDecl),
    /// A tile kernel.
    Tile(&'a TileKernelDecl),
    /// A program.
    Program(&'a ProgramDecl),
    /// A local program.
    Local(&'a LocalDecl),
}

impl Loaded {
    /// Returns the file with this id.
    pub fn file(&self, id: FileId) -> Option<&LoadedFile> {
        self.files.iter().find(|f| f.id == id)
    }

    /// Returns the files in which names are looked up from `from`, in order: the file itself, the
    /// files that it uses (each before the files that it uses in turn), and the library.
    pub fn order(&self, from: FileId) -> Vec<&LoadedFile> {
        let mut out: Vec<&LoadedFile> = vec![];
        let mut todo = vec![from];
        while let Some(id) = todo.pop() {
            let Some(file) = self.file(id) else { continue };
            if out.iter().all(|f| f.id != id) {
                out.push(file);
                todo.extend(file.uses.iter().rev());
            }
        }
        for file in self.files.iter().filter(|f| f.layer == Layer::Library) {
            if out.iter().all(|f| f.id != file.id) {
                out.push(file);
            }
        }
        out
    }

    /// Returns the machine file whose path is at this source position.
    pub fn machine(&self, path: Span) -> Option<&MachineFile> {
        self.machines.iter().find(|m| m.0 == path).map(|m| &m.1)
    }

    fn visible<'a, T>(
        &'a self,
        from: FileId,
        pick: impl Fn(&'a Item) -> Option<T> + Copy,
    ) -> impl Iterator<Item = T> {
        self.order(from).into_iter().flat_map(move |f| f.tree().items.iter().filter_map(pick))
    }

    /// Iterates over items of the user's files that a file sees. In the program half, the library
    /// has kernels and programs but no other items.
    fn users<'a, T>(
        &'a self,
        from: FileId,
        pick: impl Fn(&'a Item) -> Option<T> + Copy,
    ) -> impl Iterator<Item = T> {
        let own = self.order(from).into_iter().filter(|f| f.layer == Layer::User);
        own.flat_map(move |f| f.tree().items.iter().filter_map(pick))
    }

    /// Iterates over the parameters that a file sees, its own first.
    pub fn params(&self, from: FileId) -> impl Iterator<Item = &ParamDecl> {
        self.users(from, |i| match i {
            Item::Param(p) => Some(p),
            _ => None,
        })
    }

    /// Returns the parameter with this name that a file sees. The name may begin with a namespace.
    pub fn param(&self, from: FileId, name: &str) -> Option<&ParamDecl> {
        let Some((space, last)) = name.rsplit_once('.') else {
            return self.params(from).find(|p| p.name.node == name);
        };
        let params = self.members(from, space).into_iter().flat_map(|f| &f.tree().items);
        params
            .filter_map(|i| if let Item::Param(p) = i { Some(p) } else { None })
            .find(|p| p.name.node == last)
    }

    /// Returns the names of the parameters in the namespaces of a file.
    pub(crate) fn qualified_params(&self, from: FileId) -> Vec<String> {
        let mut out = vec![];
        for (space, _) in self.library.spaces(from) {
            let items = self.members(from, &space).into_iter().filter(|f| f.layer == Layer::User);
            for item in items.flat_map(|f| &f.tree().items) {
                if let Item::Param(p) = item {
                    out.push(format!("{space}.{}", p.name.node));
                }
            }
        }
        out
    }

    /// Returns the files of a namespace that a file can name, in the order of lookup.
    fn members(&self, from: FileId, space: &str) -> Vec<&LoadedFile> {
        let Some(space) = self.library.space(from, space) else { return vec![] };
        self.library.files_of(space).into_iter().filter_map(|id| self.file(id)).collect()
    }

    /// Iterates over the topologies that a file sees, its own first.
    pub fn topologies(&self, from: FileId) -> impl Iterator<Item = &TopologyDecl> {
        self.users(from, |i| match i {
            Item::Topology(t) => Some(t),
            _ => None,
        })
    }

    /// Iterates over the meshes that a file sees, its own first.
    pub fn meshes(&self, from: FileId) -> impl Iterator<Item = &MeshDecl> {
        self.users(from, |i| match i {
            Item::Mesh(m) => Some(m),
            _ => None,
        })
    }

    /// Returns the meshes of a file, or of the first file it uses that has any.
    pub fn nearest_meshes(&self, from: FileId) -> Vec<&MeshDecl> {
        self.nearest(from, |i| match i {
            Item::Mesh(m) => Some(m),
            _ => None,
        })
    }

    /// Returns the topologies of a file, or of the first file it uses that has any.
    pub fn nearest_topologies(&self, from: FileId) -> Vec<&TopologyDecl> {
        self.nearest(from, |i| match i {
            Item::Topology(t) => Some(t),
            _ => None,
        })
    }

    fn nearest<'a, T>(&'a self, from: FileId, pick: impl Fn(&'a Item) -> Option<T> + Copy) -> Vec<T> {
        let own = self.order(from).into_iter().filter(|f| f.layer == Layer::User);
        let lists = own.into_iter().map(|f| f.tree().items.iter().filter_map(pick).collect::<Vec<T>>());
        lists.into_iter().find(|l| !l.is_empty()).unwrap_or_default()
    }

    /// Iterates over the kernels and programs that a file sees, its own first.
    pub fn callables(&self, from: FileId) -> impl Iterator<Item = Callable<'_>> {
        self.visible(from, callable)
    }

    /// Returns the kernel or program with this name that a file sees. The name may begin with a
    /// namespace. Files of the library are parsed only if they declare the name.
    pub fn callable(&self, from: FileId, name: &str) -> Option<Callable<'_>> {
        let (order, last) = match name.rsplit_once('.') {
            None => (self.order(from), name),
            Some((space, last)) => (self.members(from, space), last),
        };
        let order = order.into_iter().filter(|f| f.may_declare(last));
        order.flat_map(|f| f.tree().items.iter().filter_map(callable)).find(|c| c.name().node == last)
    }

    /// Returns E005 for a kernel, program or collective that is not in the namespace of its name,
    /// or whose namespace is unknown. Returns None for a name without a namespace.
    pub(crate) fn unknown_in_space(&self, what: &str, name: &Ident) -> Option<Diagnostic> {
        let names = |id: FileId| -> Vec<String> {
            let items = self.file(id).map(|f| f.tree().items.iter().filter_map(callable));
            let callables = items.into_iter().flatten().map(|c| c.name().node.clone());
            let collectives = self.library.collectives_in(id);
            callables.chain(collectives.map(|c| self.library.collective_name(c).node.clone())).collect()
        };
        self.library.unknown_in_space(what, name, &names).map(|d| *d)
    }
}

impl Callable<'_> {
    /// Returns the declared name.
    pub fn name(&self) -> &Ident {
        match self {
            Callable::Kernel(k) => &k.name,
            Callable::Tile(k) => &k.name,
            Callable::Program(p) => &p.name,
            Callable::Local(p) => &p.name,
        }
    }
}

fn callable(item: &Item) -> Option<Callable<'_>> {
    Some(match item {
        Item::Kernel(k) => Callable::Kernel(k),
        Item::TileKernel(k) => Callable::Tile(k),
        Item::Program(p) => Callable::Program(p),
        Item::Local(p) => Callable::Local(p),
        _ => return None,
    })
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

/// Moves the algorithm half out of a tree. `tables` has the CSV files of its tables, by the place
/// of their path.
fn split(tree: &mut File, tables: &BTreeMap<Span, (FileId, String)>, found: &mut Diagnostics) -> Decls {
    let mut decls = Decls::default();
    let mut rest = vec![];
    for item in std::mem::take(&mut tree.items) {
        match item {
            Item::Function(f) => decls.functions.push(f),
            Item::Table(t) => {
                let text = match &t.source {
                    TableSource::File(path) => tables.get(&path.span).map(|(id, text)| (*id, text.as_str())),
                    TableSource::List(_) | TableSource::Rows(_) => None,
                };
                decls.functions.extend(table::function(t, text, found));
            }
            Item::Collective(c) => decls.collectives.push(c),
            Item::Algorithm(a) => decls.algorithms.push(a),
            other => rest.push(other),
        }
    }
    tree.items = rest;
    decls
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
