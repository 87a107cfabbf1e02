//! Library: all declarations, and their visibility (`docs/reference/language.md`, "Files and
//! scopes").
//!
//! This module owns files of declarations, lookups by name, and the errors about names declared
//! twice. A file's own declarations take precedence over those of the files that it uses, and
//! these over the built-in library. An algorithm is identified by its collective and its name.
//! The collective is a declaration and not a word: an `all_reduce` that a user declares has no
//! library algorithms. [`crate::namespace`] looks up names with dots.

use std::collections::BTreeMap;

use kbc_diag::{Diagnostic, Diagnostics, FileId, Severity, Span};

use crate::ast::{AlgorithmDecl, CollectiveDecl, FnDecl, Ident};
use crate::derived::DerivedResults;
use crate::evaluator::BUILTINS;
use crate::lazy::LazyDecl;
use crate::scope::{Fault, Functions, Parameter, not_an_integer};

/// Id of a collective in a [`Library`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CollId(pub u32);

/// Id of an algorithm in a [`Library`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct AlgId(pub u32);

/// The declarations of one file.
#[derive(Clone, Debug, Default)]
pub struct Decls {
    /// `fn`
    pub functions: Vec<FnDecl>,
    /// `collective`
    pub collectives: Vec<CollectiveDecl>,
    /// `algorithm`
    pub algorithms: Vec<AlgorithmDecl>,
}

/// The declarations of a file that are parsed on first use.
#[derive(Clone, Debug, Default)]
pub struct LazyDecls {
    /// `fn`
    pub functions: Vec<LazyDecl<FnDecl>>,
    /// `collective`
    pub collectives: Vec<LazyDecl<CollectiveDecl>>,
    /// `algorithm`
    pub algorithms: Vec<LazyDecl<AlgorithmDecl>>,
}

impl From<Decls> for LazyDecls {
    fn from(d: Decls) -> Self {
        LazyDecls {
            functions: d.functions.into_iter().map(LazyDecl::from).collect(),
            collectives: d.collectives.into_iter().map(LazyDecl::from).collect(),
            algorithms: d.algorithms.into_iter().map(LazyDecl::from).collect(),
        }
    }
}

/// Origin of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Layer {
    /// A file of the user.
    User,
    /// A built-in file: visible from everywhere, with the lowest precedence.
    Library,
}

/// The namespace of the built-in library, which every file knows.
pub const LIBRARY: &str = "collectives";

/// What a namespace contains.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Space {
    /// The built-in library.
    Library,
    /// A file with the files that it uses.
    File(FileId),
}

/// Returns the name by which every file can use a declaration of the built-in library.
pub fn in_library(name: &str) -> String {
    format!("{LIBRARY}.{name}")
}

/// A file with its declarations.
#[derive(Clone, Debug)]
pub(crate) struct Unit {
    pub(crate) file: FileId,
    pub(crate) layer: Layer,
    uses: Vec<FileId>,
    /// The namespaces that the file names, in source order.
    pub(crate) spaces: Vec<(Ident, Space)>,
    /// Whether the file is seen only by a namespace.
    pub(crate) apart: bool,
    functions: BTreeMap<String, usize>,
    pub(crate) collectives: BTreeMap<String, CollId>,
    /// By name of the collective as written and name of the algorithm.
    algorithms: BTreeMap<(String, String), AlgId>,
    /// Whether any of them writes its collective with a namespace.
    qualifies: bool,
    /// The parameters that the file sees, with their values.
    parameters: BTreeMap<String, Parameter>,
}

impl Unit {
    fn new(file: FileId, layer: Layer) -> Unit {
        Unit {
            file,
            layer,
            uses: vec![],
            spaces: vec![],
            apart: false,
            functions: BTreeMap::new(),
            collectives: BTreeMap::new(),
            algorithms: BTreeMap::new(),
            qualifies: false,
            parameters: BTreeMap::new(),
        }
    }

    /// Iterates over the algorithms with this name for collectives with that one, whose heads may
    /// write the collective with its namespace.
    fn named<'a>(&'a self, coll: &'a str, name: &'a str) -> impl Iterator<Item = AlgId> + 'a {
        let qualified = move |k: &(String, String)| {
            k.1 == name && k.0.rsplit_once('.').is_some_and(|(_, last)| last == coll)
        };
        let plain = self.algorithms.get(&(coll.to_owned(), name.to_owned()));
        let all = self.qualifies.then_some(&self.algorithms).into_iter().flatten();
        plain.into_iter().chain(all.filter(move |a| qualified(a.0)).map(|a| a.1)).copied()
    }
}

/// All declarations of a run.
#[derive(Clone, Debug, Default)]
pub struct Library {
    pub(crate) units: Vec<Unit>,
    /// The files of the library by the names of their modules.
    pub(crate) modules: BTreeMap<String, FileId>,
    functions: Vec<LazyDecl<FnDecl>>,
    collectives: Vec<LazyDecl<CollectiveDecl>>,
    algorithms: Vec<LazyDecl<AlgorithmDecl>>,
    /// What other modules found out about it.
    pub(crate) derived: DerivedResults,
}

impl Library {
    /// Makes a library without declarations.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the declarations of a file that uses the files `uses` (in the order written).
    ///
    /// # Errors
    /// Returns E004 for each name that is declared twice in this file (or, for library files, in
    /// another file of the library), and for a function with the name of a built-in one. The first
    /// declaration is kept.
    pub fn add(&mut self, file: FileId, layer: Layer, uses: Vec<FileId>, decls: Decls) -> Diagnostics {
        self.add_lazy(file, layer, uses, decls.into())
    }

    /// Adds declarations as [`Library::add`] does, without parsing them.
    ///
    /// # Errors
    /// Returns the errors of [`Library::add`].
    pub fn add_lazy(
        &mut self,
        file: FileId,
        layer: Layer,
        uses: Vec<FileId>,
        decls: LazyDecls,
    ) -> Diagnostics {
        self.derived.clear();
        let mut found = Diagnostics::new();
        let at = match self.units.iter().position(|u| u.file == file) {
            Some(i) => i,
            None => {
                self.units.push(Unit::new(file, layer));
                self.units.len() - 1
            }
        };
        self.units[at].uses.extend(uses);
        let peers: Vec<usize> = match layer {
            Layer::User => vec![at],
            Layer::Library => {
                (0..self.units.len()).filter(|&i| self.units[i].layer == Layer::Library).collect()
            }
        };
        for f in decls.functions {
            let name = f.name();
            if BUILTINS.iter().any(|b| b.0 == name.node) {
                found.push(
                    Diagnostic::error("E004", format!("`{}` is the name of a built-in function", name.node))
                        .primary(name.span, "declared again here")
                        .help("choose another name"),
                );
                continue;
            }
            if let Some(&old) = peers.iter().find_map(|&u| self.units[u].functions.get(&name.node)) {
                found.push(twice("function", name, self.functions[old].name().span));
                continue;
            }
            self.units[at].functions.insert(name.node.clone(), self.functions.len());
            self.functions.push(f);
        }
        for c in decls.collectives {
            let name = c.name();
            if let Some(&old) = peers.iter().find_map(|&u| self.units[u].collectives.get(&name.node)) {
                found.push(twice("collective", name, self.collective_name(old).span));
                continue;
            }
            let id = CollId(self.collectives.len() as u32);
            self.units[at].collectives.insert(name.node.clone(), id);
            self.collectives.push(c);
        }
        for a in decls.algorithms {
            let key = (a.coll().node.clone(), a.name().node.clone());
            if let Some(&old) = peers.iter().find_map(|&u| self.units[u].algorithms.get(&key)) {
                let what = format!("algorithm of {}", key.0);
                found.push(twice(&what, a.name(), self.algorithm_name(old).span));
                continue;
            }
            let id = AlgId(self.algorithms.len() as u32);
            self.units[at].qualifies |= key.0.contains('.');
            self.units[at].algorithms.insert(key, id);
            self.algorithms.push(a);
        }
        found
    }

    /// Sets the parameters that the functions and algorithms of a file see. The file must have been
    /// added. A parameter that is only [`Parameter::Declared`] is known by name, and an evaluation
    /// that needs it fails.
    pub fn set_parameters(&mut self, file: FileId, parameters: BTreeMap<String, Parameter>) {
        self.derived.clear();
        if let Some(u) = self.units.iter_mut().find(|u| u.file == file) {
            u.parameters = parameters;
        }
    }

    /// Returns a copy of the library in which each of these functions replaces the one with its
    /// name in its file.
    pub fn with_functions(&self, decls: Vec<FnDecl>) -> Library {
        let mut out = self.clone();
        for decl in decls {
            let unit = out.units.iter().find(|u| u.file == decl.name.span.file);
            if let Some(&at) = unit.and_then(|u| u.functions.get(&decl.name.node)) {
                out.functions[at] = decl.into();
            }
        }
        out
    }

    /// Returns the declarations of the user's files and what they see, as a text that differs for
    /// libraries with other ones. It is empty if these files declare nothing.
    pub fn user_declarations(&self) -> String {
        let users = || self.units.iter().filter(|u| u.layer == Layer::User);
        let declares =
            |u: &Unit| !(u.functions.is_empty() && u.collectives.is_empty() && u.algorithms.is_empty());
        if !users().any(declares) {
            return String::new();
        }
        let mut out = String::new();
        for unit in users() {
            let functions = unit.functions.values().map(|&at| format!("{:?}", self.functions[at].get()));
            let collectives = unit.collectives.values().map(|id| format!("{:?}", self.collective(*id)));
            let algorithms = unit.algorithms.values().map(|id| format!("{:?}", self.algorithm(*id)));
            out += &format!("{unit:?}\n");
            for declaration in functions.chain(collectives).chain(algorithms) {
                out += &declaration;
                out.push('\n');
            }
        }
        out
    }

    /// Checks whether a file declares a function of its own.
    pub fn declares_function(&self, file: FileId, name: &str) -> bool {
        self.units.iter().any(|u| u.file == file && u.functions.contains_key(name))
    }

    /// Replaces the declaration of an algorithm, under the same collective and name.
    pub fn replace_algorithm(&mut self, id: AlgId, decl: AlgorithmDecl) {
        self.derived.clear();
        if let Some(a) = self.algorithms.get_mut(id.0 as usize) {
            *a = decl.into();
        }
    }

    /// Checks whether a file is built in.
    pub fn is_builtin(&self, file: FileId) -> bool {
        self.units.iter().any(|u| u.file == file && u.layer == Layer::Library)
    }

    /// Returns a collective by its id, which must come from this library.
    pub fn collective(&self, id: CollId) -> &CollectiveDecl {
        self.collectives[id.0 as usize].get()
    }

    /// Returns the name of a collective without parsing the declaration.
    pub fn collective_name(&self, id: CollId) -> &Ident {
        self.collectives[id.0 as usize].name()
    }

    /// Returns an algorithm by its id, which must come from this library.
    pub fn algorithm(&self, id: AlgId) -> &AlgorithmDecl {
        self.algorithms[id.0 as usize].get()
    }

    /// Returns the name of an algorithm without parsing the declaration.
    pub fn algorithm_name(&self, id: AlgId) -> &Ident {
        self.algorithms[id.0 as usize].name()
    }

    /// Returns all algorithms in the order in which they were added.
    pub fn algorithms(&self) -> impl Iterator<Item = AlgId> + use<> {
        (0..self.algorithms.len() as u32).map(AlgId)
    }

    /// Returns all collectives in the order in which they were added.
    pub fn collectives(&self) -> impl Iterator<Item = CollId> + use<> {
        (0..self.collectives.len() as u32).map(CollId)
    }

    /// Returns all functions in the order in which they were added.
    pub fn functions(&self) -> impl Iterator<Item = &FnDecl> {
        self.functions.iter().map(LazyDecl::get)
    }

    /// Returns the functions declared in one file, in the order of the text.
    pub fn functions_in(&self, file: FileId) -> impl Iterator<Item = &FnDecl> {
        self.functions.iter().filter(move |f| f.name().span.file == file).map(LazyDecl::get)
    }

    /// Returns the collectives declared in one file, in the order of the text.
    pub fn collectives_in(&self, file: FileId) -> impl Iterator<Item = CollId> {
        self.collectives().filter(move |c| self.collective_name(*c).span.file == file)
    }

    /// Returns the algorithms declared in one file, in the order of the text.
    pub fn algorithms_in(&self, file: FileId) -> Vec<AlgId> {
        let unit = self.units.iter().find(|u| u.file == file);
        let mut ids: Vec<AlgId> = unit.map(|u| u.algorithms.values().copied().collect()).unwrap_or_default();
        ids.sort_unstable();
        ids
    }

    /// Returns the collective of an algorithm, if it exists.
    pub fn collective_of(&self, id: AlgId) -> Option<CollId> {
        let coll = self.algorithms[id.0 as usize].coll();
        self.named(coll.span.file, &coll.node, |u, name| u.collectives.get(name).copied())
    }

    /// Returns the collective with that name, as seen from a file.
    ///
    /// # Errors
    /// Returns E005 with the valid names.
    pub fn find_collective(&self, from: FileId, name: &str, span: Span) -> Result<CollId, Fault> {
        self.named(from, name, |u, name| u.collectives.get(name).copied()).ok_or_else(|| {
            self.unknown_name("collective", (from, name, span), |u| u.collectives.keys().cloned().collect())
        })
    }

    /// Returns the algorithm with that name for a collective, as seen from a file. The name may
    /// have a namespace, the collective, or both before it.
    ///
    /// # Errors
    /// Returns E005 with the names of the collective's algorithms, and a note if other collectives
    /// have an algorithm with that name.
    pub fn find_algorithm(&self, from: FileId, coll: CollId, name: &str, span: Span) -> Result<AlgId, Fault> {
        let of = &self.collective_name(coll).node;
        let hit = self.named_algorithm(from, name, |u, stated, name| {
            stated.is_none_or(|s| s == of).then_some(())?;
            u.named(of, name).find(|&a| self.collective_of(a) == Some(coll))
        });
        hit.ok_or_else(|| {
            let of_unit = |u: &Unit| -> Vec<String> {
                let own = u.algorithms.iter().filter(|a| self.collective_of(*a.1) == Some(coll));
                own.map(|a| a.0.1.clone()).collect()
            };
            let d = *self.unknown_name(&format!("algorithm of {of}"), (from, name, span), of_unit);
            let mut others: Vec<String> = vec![];
            self.visit(from, |u| {
                others.extend(u.algorithms.keys().filter(|k| k.1 == name && k.0 != *of).map(|k| k.0.clone()));
            });
            others.sort_unstable();
            others.dedup();
            Box::new(match others.is_empty() {
                true => d,
                false => d.note(format!(
                    "an algorithm belongs to one collective; there is a `{name}` for {}",
                    others.join(", ")
                )),
            })
        })
    }

    /// Returns the algorithms that a name stands for, of all collectives, as seen from a file. The
    /// name may have a namespace, the collective, or both before it.
    pub fn algorithms_named(&self, from: FileId, name: &str) -> Vec<AlgId> {
        let mut out: Vec<AlgId> = vec![];
        let all: Option<()> = self.named_algorithm(from, name, |u, stated, name| {
            for (key, &a) in &u.algorithms {
                let coll = self.collective_of(a);
                let fits = |c: CollId| stated.is_none_or(|s| s == self.collective_name(c).node);
                let hidden = out.iter().any(|&b| self.collective_of(b) == coll);
                if key.1 == name && coll.is_some_and(fits) && !hidden {
                    out.push(a);
                }
            }
            None
        });
        debug_assert!(all.is_none(), "every file is looked at");
        out
    }

    /// Checks whether any collective has an algorithm with that name, as seen from a file.
    pub fn is_algorithm_name(&self, from: FileId, name: &str) -> bool {
        let found = self.named_algorithm(from, name, |u, stated, name| {
            let same = |k: &&(String, String)| k.1 == name && stated.is_none_or(|s| k.0 == s);
            u.algorithms.keys().find(same).map(|_| ())
        });
        found.is_some()
    }

    /// Returns the error for a name that no algorithm has, as seen from a file. `more` are further
    /// names that are valid at that place.
    pub fn no_algorithm(
        &self,
        what: &str,
        from: FileId,
        (name, span): (&str, Span),
        more: &[String],
    ) -> Fault {
        self.unknown_name(what, (from, name, span), |u| {
            let own = u.algorithms.keys().map(|k| k.1.clone());
            own.chain(more.iter().filter(|_| !name.contains('.')).cloned()).collect()
        })
    }

    /// Returns the names of all algorithms that are visible from a file.
    pub fn algorithm_names(&self, from: FileId) -> Vec<String> {
        let mut names = vec![];
        self.visit(from, |u| names.extend(u.algorithms.keys().map(|k| k.1.clone())));
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Returns the algorithms of a collective as seen from a file: its own ones first,
    /// without hidden ones.
    pub fn algorithms_of(&self, from: FileId, coll: CollId) -> Vec<AlgId> {
        let mut out: Vec<AlgId> = vec![];
        self.visit(from, |u| {
            for &a in u.algorithms.values() {
                let name = &self.algorithm_name(a).node;
                let hidden = out.iter().any(|&b| &self.algorithm_name(b).node == name);
                if !hidden && self.collective_of(a) == Some(coll) {
                    out.push(a);
                }
            }
        });
        out
    }

    /// Returns notes about declarations that the declarations of a file hide.
    pub fn hidden_by(&self, file: FileId) -> Diagnostics {
        let mut found = Diagnostics::new();
        let order = self.order(file);
        let Some((&own, behind)) = order.split_first() else { return found };
        let own = &self.units[own];
        if own.file != file {
            return found;
        }
        let mut note = |what: &str, name: &Ident, old: Span| found.push(self.hides(what, name, old));
        let rest: Vec<&Unit> = behind.iter().map(|&i| &self.units[i]).collect();
        for (name, &new) in &own.functions {
            if let Some(&old) = rest.iter().find_map(|u| u.functions.get(name)) {
                note("function", self.functions[new].name(), self.functions[old].name().span);
            }
        }
        for (name, &new) in &own.collectives {
            if let Some(&old) = rest.iter().find_map(|u| u.collectives.get(name)) {
                note("collective", self.collective_name(new), self.collective_name(old).span);
            }
        }
        for (key, &new) in &own.algorithms {
            let coll = self.collective_of(new);
            let old =
                rest.iter().filter_map(|u| u.algorithms.get(key)).find(|&&o| self.collective_of(o) == coll);
            if let Some(&old) = old {
                note("algorithm", self.algorithm_name(new), self.algorithm_name(old).span);
            }
        }
        found
    }

    /// Returns the note that a declaration hides the one at `old`, which is of another file.
    pub fn hides(&self, what: &str, name: &Ident, old: Span) -> Diagnostic {
        let title = format!("this {what} `{}` hides another declaration", name.node);
        let still = match self.is_builtin(old.file) {
            true => format!("in that file this one is `{}`", in_library(&name.node)),
            false => "this declaration cannot be used in that file".to_owned(),
        };
        let mut d =
            Diagnostic::error("E004", title).primary(name.span, "declared here").secondary(old, still);
        d.severity = Severity::Note;
        d
    }

    /// Returns E004 for each two algorithms of a file that have one name and one collective, which
    /// they write differently.
    pub fn twice_qualified(&self, file: FileId) -> Diagnostics {
        let mut found = Diagnostics::new();
        let all = self.algorithms_in(file);
        for (i, &new) in all.iter().enumerate() {
            let (name, coll) = (self.algorithm_name(new), self.collective_of(new));
            let same =
                |o: &&AlgId| self.algorithm_name(**o).node == name.node && self.collective_of(**o) == coll;
            if let (Some(&old), Some(coll)) = (all[..i].iter().find(same), coll) {
                let what = format!("algorithm of {}", self.collective_name(coll).node);
                found.push(twice(&what, name, self.algorithm_name(old).span));
            }
        }
        found
    }

    /// Returns units in the order of lookup: the file, the files that it uses (each before those
    /// that it uses in turn), the library.
    pub(crate) fn order(&self, from: FileId) -> Vec<usize> {
        let mut out = vec![];
        self.walk(from, &mut |i| out.push(i));
        out
    }

    /// Visits a file and the files that it uses, each before those that it uses in turn.
    pub(crate) fn used(&self, from: FileId, push: &mut dyn FnMut(usize)) -> Vec<usize> {
        let mut seen: Vec<usize> = vec![];
        let mut todo = vec![from];
        while let Some(file) = todo.pop() {
            let Some(i) = self.units.iter().position(|u| u.file == file) else { continue };
            if !seen.contains(&i) {
                seen.push(i);
                push(i);
                todo.extend(self.units[i].uses.iter().rev());
            }
        }
        seen
    }

    fn walk(&self, from: FileId, push: &mut dyn FnMut(usize)) {
        let seen = self.used(from, push);
        // Text without a file (built by a test or a pass) sees everything that needs no namespace.
        let nowhere = seen.is_empty();
        for (i, unit) in self.units.iter().enumerate() {
            if !seen.contains(&i) && (nowhere && !unit.apart || unit.layer == Layer::Library) {
                push(i);
            }
        }
    }

    pub(crate) fn lookup<T>(&self, from: FileId, mut get: impl FnMut(&Unit) -> Option<T>) -> Option<T> {
        // Fast path for the common case, which avoids computing the order.
        if let Some(own) = self.units.iter().find(|u| u.file == from)
            && let Some(v) = get(own)
        {
            return Some(v);
        }
        self.order(from).into_iter().find_map(|i| get(&self.units[i]))
    }

    pub(crate) fn visit(&self, from: FileId, mut f: impl FnMut(&Unit)) {
        for i in self.order(from) {
            f(&self.units[i]);
        }
    }
}

impl Functions for Library {
    fn function(&self, name: &Ident) -> Option<&FnDecl> {
        let found = self.named(name.span.file, &name.node, |u, name| u.functions.get(name).copied());
        found.map(|i| self.functions[i].get())
    }
    fn unknown_function(&self, name: &Ident, more: &[String]) -> Fault {
        self.unknown_name("function", (name.span.file, &name.node, name.span), |u| {
            let more = more.iter().filter(|_| !name.node.contains('.'));
            u.functions.keys().chain(more).cloned().collect()
        })
    }
    fn parameter(&self, name: &str, span: Span) -> Option<Result<i64, Fault>> {
        let of = |file: FileId, name: &str| {
            self.units.iter().find(|u| u.file == file).and_then(|u| u.parameters.get(name))
        };
        let found = match name.rsplit_once('.') {
            None => of(span.file, name),
            Some((space, last)) => {
                self.files_of(self.space(span.file, space)?).into_iter().find_map(|f| of(f, last))
            }
        };
        Some(match found? {
            Parameter::Int(i) => Ok(*i),
            Parameter::Other(what) => Err(not_an_integer(name, what, span)),
            Parameter::Declared => Err(Box::new(
                Diagnostic::error("E991", format!("the parameter `{name}` has no value here"))
                    .primary(span, "used here")
                    .help("this is a fault of kbc: please report it"),
            )),
        })
    }
    fn parameter_names(&self, from: FileId) -> Vec<String> {
        let unit = self.units.iter().find(|u| u.file == from);
        unit.map_or(vec![], |u| u.parameters.keys().cloned().collect())
    }
}

fn twice(what: &str, name: &Ident, first: Span) -> Diagnostic {
    Diagnostic::error("E004", format!("{what} `{}` is declared twice", name.node))
        .primary(name.span, "declared again here")
        .secondary(first, "first declared here")
        .help("rename or remove one of them")
}
