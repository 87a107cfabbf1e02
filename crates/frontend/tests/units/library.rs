//! The index of the library.

use kbc_diag::FileId;
use kbc_frontend::ast::Item;
use kbc_frontend::library::LIBRARY;
use kbc_frontend::parse;
use kbc_frontend::testing::{INDEX, ItemKind, declared, has_others};
use kbc_rounds::ast::Ident;

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
