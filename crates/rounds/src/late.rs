//! Declarations whose name is known and whose text is read when somebody asks for it.
//!
//! A run uses a few of the built-in algorithms and would wait for all of them. Owns the moment of reading; how it is done
//! is the caller's.

use std::fmt;
use std::sync::{Arc, OnceLock};

use kbc_diag::FileId;

use crate::ast::{AlgorithmDecl, CollectiveDecl, FnDecl, Ident};

/// Reads item `number` of a file.
pub type Read<T> = fn(file: FileId, number: u32) -> T;

/// A declaration, read or not. Clones share what was read.
#[derive(Clone)]
pub struct Late<T>(Arc<Inner<T>>);

struct Inner<T> {
    name: Ident,
    of: Option<Ident>,
    made: OnceLock<T>,
    source: Option<(FileId, u32, Read<T>)>,
}

impl<T> Late<T> {
    /// A declaration of this name, of an algorithm with the name of its collective, that `read` makes of item `number` of
    /// a file. What it makes has these names in the same places.
    pub fn new(name: Ident, of: Option<Ident>, file: FileId, number: u32, read: Read<T>) -> Self {
        Late(Arc::new(Inner { name, of, made: OnceLock::new(), source: Some((file, number, read)) }))
    }

    fn made(name: Ident, of: Option<Ident>, decl: T) -> Self {
        Late(Arc::new(Inner { name, of, made: OnceLock::from(decl), source: None }))
    }

    /// The name it declares.
    pub fn name(&self) -> &Ident {
        &self.0.name
    }

    /// All of it.
    pub fn get(&self) -> &T {
        self.0.made.get_or_init(|| {
            let (file, number, read) = self.0.source.expect("what was not made has a source");
            read(file, number)
        })
    }
}

impl Late<AlgorithmDecl> {
    /// The collective that the algorithm names.
    pub fn coll(&self) -> &Ident {
        self.0.of.as_ref().unwrap_or_else(|| &self.get().coll)
    }
}

impl<T> fmt::Debug for Late<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.name.node)
    }
}

impl From<FnDecl> for Late<FnDecl> {
    fn from(d: FnDecl) -> Self {
        Late::made(d.name.clone(), None, d)
    }
}

impl From<CollectiveDecl> for Late<CollectiveDecl> {
    fn from(d: CollectiveDecl) -> Self {
        Late::made(d.name.clone(), None, d)
    }
}

impl From<AlgorithmDecl> for Late<AlgorithmDecl> {
    fn from(d: AlgorithmDecl) -> Self {
        Late::made(d.name.clone(), Some(d.coll.clone()), d)
    }
}
