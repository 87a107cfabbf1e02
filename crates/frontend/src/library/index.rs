//! The index of the library: the names and positions of its items, so that an item is parsed when
//! it is first used.

use super::LIBRARY;
use crate::ast::Item;
use crate::parse;
use kbc_diag::{FileId, Span};
use kbc_rounds::ast::{AlgorithmDecl, CollectiveDecl, FnDecl, Ident};
use kbc_rounds::{LazyDecl, LazyDecls};

/// The kind of an item of the library.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ItemKind {
    /// A function.
    Function,
    /// A collective.
    Collective,
    /// An algorithm.
    Algorithm,
    /// An item of the program half.
    Other,
}

/// An item of the library.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The index in [`LIBRARY`].
    pub file: usize,
    /// Its kind.
    pub kind: ItemKind,
    /// Its name, and the first byte of the name.
    pub name: (&'static str, u32),
    /// The collective of an algorithm, and the first byte of its name there.
    pub of: Option<(&'static str, u32)>,
    /// The first byte of its text, and one past the last.
    pub range: (u32, u32),
}

/// All items in the order of [`LIBRARY`] and of its texts. `build.rs` generates the list.
pub const INDEX: &[Entry] = include!(concat!(env!("OUT_DIR"), "/library_index.rs"));

/// Returns the declarations of file number `number`, which has the id `file`.
pub fn declared(number: usize, file: FileId) -> LazyDecls {
    let ident = |(name, at): (&'static str, u32)| {
        let at = at as usize;
        Ident::new(name.to_owned(), Span::new(file, at, at + name.len()))
    };
    let mut out = LazyDecls::default();
    for (i, e) in INDEX.iter().enumerate().filter(|(_, e)| e.file == number) {
        let (name, of, i) = (ident(e.name), e.of.map(ident), i as u32);
        match e.kind {
            ItemKind::Function => out.functions.push(LazyDecl::new(name, of, file, i, function)),
            ItemKind::Collective => out.collectives.push(LazyDecl::new(name, of, file, i, collective)),
            ItemKind::Algorithm => out.algorithms.push(LazyDecl::new(name, of, file, i, algorithm)),
            ItemKind::Other => {}
        }
    }
    out
}

/// Returns whether file number `number` has items of the program half.
pub fn has_others(number: usize) -> bool {
    INDEX.iter().any(|e| e.file == number && e.kind == ItemKind::Other)
}

/// Returns whether file number `number` has an item of the program half with this name.
pub fn declares(number: usize, name: &str) -> bool {
    INDEX.iter().any(|e| e.file == number && e.kind == ItemKind::Other && e.name.0 == name)
}

const INDEXED: &str = "the index says what stands there: a test reads all of it";

fn item(file: FileId, number: u32) -> Item {
    let e = INDEX[number as usize];
    let (from, to) = (e.range.0 as usize, e.range.1 as usize);
    let (tree, _) = parse::parse_part(file, LIBRARY[e.file].1, from..to);
    tree.items.into_iter().next().expect(INDEXED)
}

fn function(file: FileId, number: u32) -> FnDecl {
    let Item::Function(f) = item(file, number) else { unreachable!("{INDEXED}") };
    f
}

fn collective(file: FileId, number: u32) -> CollectiveDecl {
    let Item::Collective(c) = item(file, number) else { unreachable!("{INDEXED}") };
    c
}

fn algorithm(file: FileId, number: u32) -> AlgorithmDecl {
    let Item::Algorithm(a) = item(file, number) else { unreachable!("{INDEXED}") };
    a
}
