//! The declarations that exist and who sees which (PROGRAMS "Scopes").
//!
//! Owns files of declarations, lookups by name, and the errors about names declared twice. A file's own
//! declarations come before those of the files it uses, those before the library's. Algorithms are named by
//! (collective, name), and the collective is the declaration, not the word: a user's own `all_reduce` has no
//! library algorithm.

use std::collections::BTreeMap;

use kbc_diag::{Diagnostic, Diagnostics, FileId, Severity, Span};

use crate::ast::{AlgorithmDecl, CollectiveDecl, FnDecl, Ident};
use crate::eval::{BUILTINS, Fault, Functions, unknown};

/// A collective of a [`Library`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CollId(pub u32);

/// An algorithm of a [`Library`].
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

/// Whose file it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Layer {
    /// The user's.
    User,
    /// Built in: seen from everywhere, behind everything else.
    Library,
}

#[derive(Clone, Debug)]
struct Unit {
    file: FileId,
    layer: Layer,
    uses: Vec<FileId>,
    functions: BTreeMap<String, usize>,
    collectives: BTreeMap<String, CollId>,
    /// By (name of the collective, name).
    algorithms: BTreeMap<(String, String), AlgId>,
}

/// All declarations of a run.
#[derive(Clone, Debug, Default)]
pub struct Library {
    units: Vec<Unit>,
    functions: Vec<FnDecl>,
    collectives: Vec<CollectiveDecl>,
    algorithms: Vec<AlgorithmDecl>,
}

impl Library {
    /// A library without declarations.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the declarations of a file that uses the files `uses` (in the order written).
    ///
    /// # Errors
    /// The messages, E004: declared twice in this file (or, for library files, in another one of the library);
    /// a function with the name of a built-in one. The first declaration stands.
    pub fn add(&mut self, file: FileId, layer: Layer, uses: Vec<FileId>, decls: Decls) -> Diagnostics {
        let mut found = Diagnostics::new();
        let at = match self.units.iter().position(|u| u.file == file) {
            Some(i) => i,
            None => {
                self.units.push(Unit {
                    file,
                    layer,
                    uses: vec![],
                    functions: BTreeMap::new(),
                    collectives: BTreeMap::new(),
                    algorithms: BTreeMap::new(),
                });
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
            if BUILTINS.iter().any(|b| b.0 == f.name.node) {
                found.push(
                    Diagnostic::error("E004", format!("function `{}` is built in", f.name.node))
                        .primary(f.name.span, "declared again here")
                        .help("choose another name"),
                );
                continue;
            }
            if let Some(&old) = peers.iter().find_map(|&u| self.units[u].functions.get(&f.name.node)) {
                found.push(twice("function", &f.name, self.functions[old].name.span));
                continue;
            }
            self.units[at].functions.insert(f.name.node.clone(), self.functions.len());
            self.functions.push(f);
        }
        for c in decls.collectives {
            if let Some(&old) = peers.iter().find_map(|&u| self.units[u].collectives.get(&c.name.node)) {
                found.push(twice("collective", &c.name, self.collective(old).name.span));
                continue;
            }
            let id = CollId(self.collectives.len() as u32);
            self.units[at].collectives.insert(c.name.node.clone(), id);
            self.collectives.push(c);
        }
        for a in decls.algorithms {
            let key = (a.coll.node.clone(), a.name.node.clone());
            if let Some(&old) = peers.iter().find_map(|&u| self.units[u].algorithms.get(&key)) {
                let what = format!("algorithm of {}", a.coll.node);
                found.push(twice(&what, &a.name, self.algorithm(old).name.span));
                continue;
            }
            let id = AlgId(self.algorithms.len() as u32);
            self.units[at].algorithms.insert(key, id);
            self.algorithms.push(a);
        }
        found
    }

    /// The same declarations, but with another function in the place of those of its name in its file.
    pub fn with_function(&self, decl: FnDecl) -> Library {
        let mut out = self.clone();
        let same = |f: &FnDecl| f.name.node == decl.name.node && f.name.span.file == decl.name.span.file;
        for f in out.functions.iter_mut().filter(|f| same(f)) {
            *f = decl.clone();
        }
        out
    }

    /// Puts another text in the place of an algorithm, for the same collective and under the same name.
    pub fn replace_algorithm(&mut self, id: AlgId, decl: AlgorithmDecl) {
        if let Some(a) = self.algorithms.get_mut(id.0 as usize) {
            *a = decl;
        }
    }

    /// Whether a file is built in.
    pub fn is_builtin(&self, file: FileId) -> bool {
        self.units.iter().any(|u| u.file == file && u.layer == Layer::Library)
    }

    /// A declaration by its id (ids come from this library).
    pub fn collective(&self, id: CollId) -> &CollectiveDecl {
        &self.collectives[id.0 as usize]
    }

    /// A declaration by its id (ids come from this library).
    pub fn algorithm(&self, id: AlgId) -> &AlgorithmDecl {
        &self.algorithms[id.0 as usize]
    }

    /// All algorithms in the order added.
    pub fn algorithms(&self) -> impl Iterator<Item = AlgId> + use<> {
        (0..self.algorithms.len() as u32).map(AlgId)
    }

    /// All collectives in the order added.
    pub fn collectives(&self) -> impl Iterator<Item = CollId> + use<> {
        (0..self.collectives.len() as u32).map(CollId)
    }

    /// All functions in the order added.
    pub fn functions(&self) -> &[FnDecl] {
        &self.functions
    }

    /// The algorithms declared in one file, in the order of the text.
    pub fn algorithms_in(&self, file: FileId) -> Vec<AlgId> {
        let unit = self.units.iter().find(|u| u.file == file);
        let mut ids: Vec<AlgId> = unit.map(|u| u.algorithms.values().copied().collect()).unwrap_or_default();
        ids.sort_unstable();
        ids
    }

    /// The collective an algorithm is for, if it exists.
    pub fn collective_of(&self, id: AlgId) -> Option<CollId> {
        let coll = &self.algorithm(id).coll;
        self.lookup(coll.span.file, |u| u.collectives.get(&coll.node).copied())
    }

    /// The collective of that name as seen from a file.
    ///
    /// # Errors
    /// E005 with the valid names.
    pub fn find_collective(&self, from: FileId, name: &str, span: Span) -> Result<CollId, Fault> {
        self.lookup(from, |u| u.collectives.get(name).copied()).ok_or_else(|| {
            let mut valid = vec![];
            self.visit(from, |u| valid.extend(u.collectives.keys().cloned()));
            unknown("E005", "collective", name, span, &valid)
        })
    }

    /// The algorithm of that name for that collective as seen from a file.
    ///
    /// # Errors
    /// E005 with the names of the collective's algorithms, and a note where other collectives have one so named.
    pub fn find_algorithm(&self, from: FileId, coll: CollId, name: &str, span: Span) -> Result<AlgId, Fault> {
        let key = (self.collective(coll).name.node.clone(), name.to_owned());
        let hit = self.lookup(from, |u| {
            u.algorithms.get(&key).copied().filter(|&a| self.collective_of(a) == Some(coll))
        });
        hit.ok_or_else(|| {
            let valid: Vec<String> =
                self.algorithms_of(from, coll).iter().map(|&a| self.algorithm(a).name.node.clone()).collect();
            let mut d = *unknown("E005", &format!("algorithm of {}", key.0), name, span, &valid);
            let mut others: Vec<String> = vec![];
            self.visit(from, |u| {
                others
                    .extend(u.algorithms.keys().filter(|k| k.1 == name && k.0 != key.0).map(|k| k.0.clone()));
            });
            others.sort_unstable();
            others.dedup();
            if !others.is_empty() {
                d = d.note(format!(
                    "algorithms belong to a collective: there is `{name}` for {}",
                    others.join(", ")
                ));
            }
            Box::new(d)
        })
    }

    /// Whether any collective has an algorithm of that name, as seen from a file.
    pub fn is_algorithm_name(&self, from: FileId, name: &str) -> bool {
        self.lookup(from, |u| u.algorithms.keys().any(|k| k.1 == name).then_some(())).is_some()
    }

    /// Names of all algorithms seen from a file.
    pub fn algorithm_names(&self, from: FileId) -> Vec<String> {
        let mut names = vec![];
        self.visit(from, |u| names.extend(u.algorithms.keys().map(|k| k.1.clone())));
        names.sort_unstable();
        names.dedup();
        names
    }

    /// The algorithms of a collective as seen from a file: own ones first, hidden ones left out.
    pub fn algorithms_of(&self, from: FileId, coll: CollId) -> Vec<AlgId> {
        let mut out: Vec<AlgId> = vec![];
        self.visit(from, |u| {
            for &a in u.algorithms.values() {
                let name = &self.algorithm(a).name.node;
                let hidden = out.iter().any(|&b| &self.algorithm(b).name.node == name);
                if !hidden && self.collective_of(a) == Some(coll) {
                    out.push(a);
                }
            }
        });
        out
    }

    /// Notes on what the declarations of a file hide in the files behind it.
    pub fn hidden_by(&self, file: FileId) -> Diagnostics {
        let mut found = Diagnostics::new();
        let order = self.order(file);
        let Some((&own, behind)) = order.split_first() else { return found };
        let own = &self.units[own];
        if own.file != file {
            return found;
        }
        let mut note = |what: &str, name: &Ident, old: Span| {
            let mut d = Diagnostic::error("E004", format!("this {what} `{}` hides another one", name.node));
            d.severity = Severity::Note;
            found.push(d.primary(name.span, "declared here").secondary(old, "hidden in this file's scope"));
        };
        let rest: Vec<&Unit> = behind.iter().map(|&i| &self.units[i]).collect();
        for (name, &new) in &own.functions {
            if let Some(&old) = rest.iter().find_map(|u| u.functions.get(name)) {
                note("function", &self.functions[new].name, self.functions[old].name.span);
            }
        }
        for (name, &new) in &own.collectives {
            if let Some(&old) = rest.iter().find_map(|u| u.collectives.get(name)) {
                note("collective", &self.collective(new).name, self.collective(old).name.span);
            }
        }
        for (key, &new) in &own.algorithms {
            let coll = self.collective_of(new);
            let old =
                rest.iter().filter_map(|u| u.algorithms.get(key)).find(|&&o| self.collective_of(o) == coll);
            if let Some(&old) = old {
                note("algorithm", &self.algorithm(new).name, self.algorithm(old).name.span);
            }
        }
        found
    }

    /// Units in the order of lookup: the file, what it uses (each before what that uses in turn), the library.
    fn order(&self, from: FileId) -> Vec<usize> {
        let mut out = vec![];
        self.walk(from, &mut |i| out.push(i));
        out
    }

    fn walk(&self, from: FileId, push: &mut dyn FnMut(usize)) {
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
        // Text from no file (built by a test or a pass) sees everything.
        let nowhere = seen.is_empty();
        for i in 0..self.units.len() {
            if !seen.contains(&i) && (nowhere || self.units[i].layer == Layer::Library) {
                push(i);
            }
        }
    }

    fn lookup<T>(&self, from: FileId, get: impl Fn(&Unit) -> Option<T>) -> Option<T> {
        // The common case first: it saves making the order.
        if let Some(own) = self.units.iter().find(|u| u.file == from)
            && let Some(v) = get(own)
        {
            return Some(v);
        }
        self.order(from).into_iter().find_map(|i| get(&self.units[i]))
    }

    fn visit(&self, from: FileId, mut f: impl FnMut(&Unit)) {
        for i in self.order(from) {
            f(&self.units[i]);
        }
    }
}

impl Functions for Library {
    fn function(&self, name: &Ident) -> Option<&FnDecl> {
        self.lookup(name.span.file, |u| u.functions.get(&name.node).copied()).map(|i| &self.functions[i])
    }
    fn function_names(&self, from: FileId) -> Vec<String> {
        let mut names = vec![];
        self.visit(from, |u| names.extend(u.functions.keys().cloned()));
        names
    }
}

fn twice(what: &str, name: &Ident, first: Span) -> Diagnostic {
    Diagnostic::error("E004", format!("{what} `{}` is declared twice", name.node))
        .primary(name.span, "declared again here")
        .secondary(first, "first declared here")
        .help("rename or remove one of them")
}
