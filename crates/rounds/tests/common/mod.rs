//! Helpers for the tests of this crate: reading texts, finding algorithms, printing the places of
//! messages.
#![allow(dead_code, reason = "every test file uses a part of it")]
#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use std::path::PathBuf;
use std::sync::Arc;

use kbc_diag::{Diagnostic, Diagnostics, FileId, SourceMap, Span};
use kbc_frontend::ast::Item;
use kbc_rounds::eval::{AlgRef, Value};
use kbc_rounds::library::{AlgId, Decls, Layer, Library};
use kbc_rounds::rounds::Call;

/// Texts and their declarations.
#[derive(Clone, Default)]
pub struct World {
    pub lib: Library,
    pub sources: SourceMap,
}

/// Splits a file into the declarations of the algorithm language.
pub fn decls(items: Vec<Item>) -> Decls {
    let mut out = Decls::default();
    for item in items {
        match item {
            Item::Function(f) => out.functions.push(f),
            Item::Table(t) => {
                out.functions.extend(kbc_frontend::table::function(t, None, &mut Diagnostics::new()));
            }
            Item::Collective(c) => out.collectives.push(c),
            Item::Algorithm(a) => out.algorithms.push(a),
            _ => {}
        }
    }
    out
}

impl World {
    /// Returns the library: the 76 algorithms of the language reference and three more.
    pub fn with_library() -> World {
        let mut world = World::default();
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../specs/lib");
        let mut names: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
        names.retain(|p| p.extension().is_some_and(|e| e == "kb"));
        names.sort();
        for path in names {
            let text = std::fs::read_to_string(&path).unwrap();
            let name = format!("<lib>/{}", path.file_name().unwrap().to_string_lossy());
            let (_, found) = world.add(&name, &text, Layer::Library);
            assert!(found.is_empty(), "{}", world.show(&found));
        }
        world
    }

    pub fn add(&mut self, name: &str, text: &str, layer: Layer) -> (FileId, Diagnostics) {
        let file = self.sources.add(name, text);
        let (tree, mut found) = kbc_frontend::parse(file, text);
        found.extend(self.lib.add(file, layer, vec![], decls(tree.items)));
        (file, found)
    }

    /// Returns an algorithm by the names of its collective and its own; of several, the last
    /// declared.
    pub fn alg(&self, coll: &str, name: &str) -> AlgId {
        let named = |&a: &AlgId| {
            let d = self.lib.algorithm(a);
            d.name.node == name && d.coll.node == coll
        };
        self.lib.algorithms().filter(named).last().unwrap_or_else(|| panic!("no {name} for {coll}"))
    }

    pub fn call(&self, coll: &str, name: &str, sizes: &[i64], root: Option<&[i64]>) -> Call {
        Call {
            alg: self.alg(coll, name),
            sizes: sizes.to_vec(),
            root: root.map(<[i64]>::to_vec),
            args: vec![],
        }
    }

    pub fn is_rooted(&self, call: &Call) -> bool {
        self.lib.algorithm(call.alg).root.is_some()
    }

    pub fn at(&self, span: Span) -> String {
        let Some((line, col)) = self.sources.line_col(span) else { return "-".to_owned() };
        let file = self.sources.get(span.file).unwrap();
        let text = &file.text[span.start as usize..span.end as usize];
        let text: Vec<&str> = text.split_whitespace().collect();
        format!("{}:{line}:{col} `{}`", file.name, text.join(" "))
    }

    pub fn show_one(&self, d: &Diagnostic) -> String {
        let mut out = format!("{}: {}\n", d.code, d.title);
        for l in &d.labels {
            out += &format!("  at {}: {}\n", self.at(l.span), l.text);
        }
        for n in &d.notes {
            out += &format!("  note: {n}\n");
        }
        if let Some(h) = &d.help {
            out += &format!("  help: {h}\n");
        }
        out
    }

    pub fn show(&self, found: &Diagnostics) -> String {
        found.list.iter().map(|d| self.show_one(d)).collect()
    }
}

/// Parses an argument as a test writes it.
pub fn argument(text: &str) -> Value {
    match text.parse::<i64>() {
        Ok(i) => Value::Int(i),
        Err(_) => Value::Alg(Arc::new(AlgRef { name: text.to_owned(), file: FileId(0) })),
    }
}
