//! Loaded files: what a run has read, and which file sees which items.
//!
//! [`crate::load`] makes the values of this module. They find items by name; [`crate::lower`] gives
//! the items their meaning.

use crate::ast::{
    File, Item, KernelDecl, LocalDecl, MeshDecl, ParamDecl, ProgramDecl, TableSource, TileKernelDecl,
    TopologyDecl,
};
use crate::library::{self, LIBRARY};
use crate::machine::MachineFile;
use crate::parse;
use crate::table;
use kbc_diag::{Diagnostic, Diagnostics, FileId, Span};
use kbc_rounds::ast::Ident;
use kbc_rounds::{Decls, Layer, Library};
use std::collections::BTreeMap;
use std::sync::OnceLock;

/// A file that has been loaded.
#[derive(Clone, Debug)]
pub struct LoadedFile {
    /// The id.
    pub id: FileId,
    /// The layer: user or library.
    pub layer: Layer,
    /// The files that it uses without a namespace, in source order.
    pub uses: Vec<FileId>,
    pub(crate) tree: OnceLock<File>,
    /// The index in [`LIBRARY`], for a file of the library.
    pub(crate) built_in: usize,
}

impl LoadedFile {
    /// Returns whether the file may have an item of the program half with this name. This does not
    /// parse files of the library.
    pub(crate) fn may_declare(&self, name: &str) -> bool {
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
    /// [`crate::lower::Lowered::library`] and [`crate::lower::library`] have the values.
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

/// Moves the algorithm half out of a tree. `tables` has the CSV files of its tables, by the place
/// of their path.
pub(crate) fn split(
    tree: &mut File,
    tables: &BTreeMap<Span, (FileId, String)>,
    found: &mut Diagnostics,
) -> Decls {
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
