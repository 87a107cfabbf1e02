//! Lazily parsed declarations: the name is known, and the text is parsed on first use.
//!
//! A run uses only a few of the built-in algorithms, so parsing all of them would waste time. This
//! module decides when a declaration is parsed; the caller provides the parser.

use std::fmt;
use std::sync::{Arc, OnceLock};

use kbc_diag::FileId;

use crate::ast::{AlgorithmDecl, CollectiveDecl, FnDecl, Ident};

/// A function that parses item `number` of a file.
pub type Read<T> = fn(file: FileId, number: u32) -> T;

/// A declaration that is parsed on first use. Clones share the result.
#[derive(Clone)]
pub struct LazyDecl<T>(Arc<Inner<T>>);

struct Inner<T> {
    name: Ident,
    of: Option<Ident>,
    made: OnceLock<T>,
    source: Option<(FileId, u32, Read<T>)>,
}

impl<T> LazyDecl<T> {
    /// Makes a declaration with this name that `read` parses from item `number` of a file. For an
    /// algorithm, `of` is the name of its collective. The parsed declaration must have the same
    /// names at the same locations.
    pub fn new(name: Ident, of: Option<Ident>, file: FileId, number: u32, read: Read<T>) -> Self {
        LazyDecl(Arc::new(Inner { name, of, made: OnceLock::new(), source: Some((file, number, read)) }))
    }

    fn made(name: Ident, of: Option<Ident>, decl: T) -> Self {
        LazyDecl(Arc::new(Inner { name, of, made: OnceLock::from(decl), source: None }))
    }

    /// Returns the declared name.
    pub fn name(&self) -> &Ident {
        &self.0.name
    }

    /// Returns the whole declaration, and parses it if necessary.
    pub fn get(&self) -> &T {
        self.0.made.get_or_init(|| {
            let (file, number, read) = self.0.source.expect("what was not made has a source");
            read(file, number)
        })
    }
}

impl LazyDecl<AlgorithmDecl> {
    /// Returns the collective that the algorithm names.
    pub fn coll(&self) -> &Ident {
        self.0.of.as_ref().unwrap_or_else(|| &self.get().coll)
    }
}

impl<T> fmt::Debug for LazyDecl<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.name.node)
    }
}

impl From<FnDecl> for LazyDecl<FnDecl> {
    fn from(d: FnDecl) -> Self {
        LazyDecl::made(d.name.clone(), None, d)
    }
}

impl From<CollectiveDecl> for LazyDecl<CollectiveDecl> {
    fn from(d: CollectiveDecl) -> Self {
        LazyDecl::made(d.name.clone(), None, d)
    }
}

impl From<AlgorithmDecl> for LazyDecl<AlgorithmDecl> {
    fn from(d: AlgorithmDecl) -> Self {
        LazyDecl::made(d.name.clone(), Some(d.coll.clone()), d)
    }
}
