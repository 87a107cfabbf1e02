//! Built-in library: the `.kb` files that are compiled into kbc.
//!
//! This module owns the only list of these files, with the names that messages show and the texts.
//! It parses single declarations on demand, with an index that is generated when kbc is built. The
//! files go through the same front end as the user's files.

use crate::ast::Item;
use crate::parse;
use kbc_diag::{FileId, Span};
use kbc_rounds::ast::{AlgorithmDecl, CollectiveDecl, FnDecl, Ident};
use kbc_rounds::{LazyDecl, LazyDecls};

/// The name and text of every file of `specs/lib`, in the order in which they are added.
pub const LIBRARY: &[(&str, &str)] = &[
    ("<lib>/bruck.kb", include_str!("../../../specs/lib/bruck.kb")),
    ("<lib>/collectives.kb", include_str!("../../../specs/lib/collectives.kb")),
    ("<lib>/direct.kb", include_str!("../../../specs/lib/direct.kb")),
    ("<lib>/doubling.kb", include_str!("../../../specs/lib/doubling.kb")),
    ("<lib>/grids.kb", include_str!("../../../specs/lib/grids.kb")),
    ("<lib>/kernels.kb", include_str!("../../../specs/lib/kernels.kb")),
    ("<lib>/layers.kb", include_str!("../../../specs/lib/layers.kb")),
    ("<lib>/levels.kb", include_str!("../../../specs/lib/levels.kb")),
    ("<lib>/own.kb", include_str!("../../../specs/lib/own.kb")),
    ("<lib>/moves.kb", include_str!("../../../specs/lib/moves.kb")),
    ("<lib>/parallel.kb", include_str!("../../../specs/lib/parallel.kb")),
    ("<lib>/ring.kb", include_str!("../../../specs/lib/ring.kb")),
    ("<lib>/swing.kb", include_str!("../../../specs/lib/swing.kb")),
    ("<lib>/trees.kb", include_str!("../../../specs/lib/trees.kb")),
];

/// The kind of an item of the library.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ItemKind {
    Function,
    Collective,
    Algorithm,
    /// An item of the program half.
    Other,
}

/// An item of the library: its names with their byte positions, and the byte range of its text.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// The index in [`LIBRARY`].
    file: usize,
    kind: ItemKind,
    name: (&'static str, u32),
    /// The collective of an algorithm.
    of: Option<(&'static str, u32)>,
    range: (u32, u32),
}

/// All items in the order of [`LIBRARY`] and of its texts. `build.rs` generates the list.
const INDEX: &[Entry] = include!(concat!(env!("OUT_DIR"), "/library_index.rs"));

/// Returns the declarations of file number `number`, which has the id `file`.
pub(crate) fn declared(number: usize, file: FileId) -> LazyDecls {
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

/// Returns the name of file number `number` as a module: `ring` for `specs/lib/ring.kb`.
pub(crate) fn module(number: usize) -> Option<&'static str> {
    LIBRARY.get(number)?.0.strip_prefix("<lib>/")?.strip_suffix(".kb")
}

/// Returns whether file number `number` has items of the program half.
pub(crate) fn has_others(number: usize) -> bool {
    INDEX.iter().any(|e| e.file == number && e.kind == ItemKind::Other)
}

/// Returns whether file number `number` has an item of the program half with this name.
pub(crate) fn declares(number: usize, name: &str) -> bool {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The index names every declaration at its position, and parsing it alone yields the same as
    /// parsing the whole file.
    #[test]
    fn the_index_is_right() {
        for (number, (name, text)) in LIBRARY.iter().enumerate() {
            let file = FileId(number as u32);
            let (tree, found) = parse::parse(file, text);
            assert!(found.is_empty(), "{name}");
            let entries: Vec<_> = INDEX.iter().enumerate().filter(|(_, e)| e.file == number).collect();
            assert_eq!(entries.len(), tree.items.len(), "{name}");
            for ((i, e), whole) in entries.into_iter().zip(&tree.items) {
                let (from, to) = (e.range.0 as usize, e.range.1 as usize);
                let (part, found) = parse::parse_part(file, text, from..to);
                assert!(found.is_empty() && part.items.len() == 1, "{name}: {e:?}");
                assert_eq!(format!("{:?}", part.items[0]), format!("{whole:?}"));
                let late = declared(number, file);
                let at = |n: &Ident| (n.node.clone(), n.span);
                match whole {
                    Item::Function(f) => {
                        let l = late.functions.iter().find(|l| l.name() == &f.name).expect("in the index");
                        assert_eq!((l.name(), l.get()), (&f.name, f));
                    }
                    Item::Collective(c) => {
                        let l = late.collectives.iter().find(|l| l.name() == &c.name).expect("in the index");
                        assert_eq!((at(l.name()), l.get()), (at(&c.name), c));
                    }
                    Item::Algorithm(a) => {
                        let l = late.algorithms.iter().find(|l| l.name() == &a.name).expect("in the index");
                        assert_eq!((at(l.name()), at(l.coll()), l.get()), (at(&a.name), at(&a.coll), a));
                    }
                    _ => assert!(e.kind == ItemKind::Other && has_others(number), "{name}: item {i}"),
                }
            }
        }
    }

    /// In the library, names of the program half are looked up only for kernels and programs.
    #[test]
    fn the_library_has_kernels_and_programs() {
        for (name, text) in LIBRARY {
            for item in parse::parse(FileId(0), text).0.items {
                let algorithms = matches!(item, Item::Function(_) | Item::Collective(_) | Item::Algorithm(_));
                assert!(algorithms || matches!(item, Item::Kernel(_) | Item::Program(_)), "{name}");
            }
        }
    }
}
