//! Tests that the files of a crate do not import each other in a circle.
//!
//! A file imports another one if a path in it leads to an item of the other, in a `use` or where
//! the item is used. Declarations of modules do not count. Some crates have no circle at all. In
//! the others a module and the modules inside it may import each other.

use crate::common::root;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Folders of sources whose files are ordered by their imports.
const ORDERED: [&str; 7] = [
    "src",
    "crates/backend-ascend/src",
    "crates/backend-host/src",
    "crates/diag/src",
    "crates/rounds/src",
    "crates/synthesis/src",
    "crates/tiles/src",
];

/// Path of a module in its crate; empty for the root.
type ModulePath = Vec<String>;

/// Reads the modules of a folder with their texts.
fn modules(dir: &Path, at: &[String], out: &mut BTreeMap<ModulePath, String>) {
    for entry in std::fs::read_dir(dir).expect("a folder") {
        let path = entry.expect("an entry").path();
        let stem = path.file_stem().expect("a name").to_string_lossy().into_owned();
        let inner = [at, std::slice::from_ref(&stem)].concat();
        if path.is_dir() {
            modules(&path, &inner, out);
        } else if path.extension().is_some_and(|e| e == "rs") && !(at.is_empty() && stem == "main") {
            let module = if matches!(&*stem, "mod" | "lib") { at.to_vec() } else { inner };
            out.insert(module, std::fs::read_to_string(&path).expect("a text"));
        }
    }
}

/// Returns the words of a source up to its unit tests: names, `::`, and single characters. Comments
/// and strings are left out.
fn words(text: &str) -> Vec<&str> {
    let text = text.split("\n#[cfg(test)]\nmod ").next().unwrap_or("");
    let mut out = vec![];
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let name = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        let string = rest.strip_prefix('"').map(|s| {
            let mut escaped = false;
            let end = s.find(|c| {
                let end = c == '"' && !escaped;
                escaped = c == '\\' && !escaped;
                end
            });
            end.map_or(rest.len(), |e| e + 2)
        });
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if let Some(length) = string {
            length
        } else if name > 0 {
            out.push(&rest[..name]);
            name
        } else if rest.starts_with("::") {
            out.push("::");
            2
        } else if let Some(quoted) = ["'\"'", "'\\\"'"].into_iter().find(|q| rest.starts_with(q)) {
            quoted.len()
        } else {
            out.push(&rest[..first.len_utf8()]);
            first.len_utf8()
        };
        rest = rest[length..].trim_start();
    }
    out
}

/// Returns the paths that begin at `words[*at]`, which is behind `before`: one path, or those of a
/// tree of a `use`. Afterwards `at` is behind them.
fn paths<'a>(words: &[&'a str], at: &mut usize, before: &[&'a str], out: &mut Vec<Vec<&'a str>>) {
    let mut path = before.to_vec();
    while let Some(word) = words.get(*at) {
        *at += 1;
        if *word == "{" {
            while words.get(*at).is_some_and(|w| *w != "}") {
                paths(words, at, &path, out);
                *at += usize::from(words.get(*at) == Some(&","));
            }
            *at += 1;
            return;
        }
        path.push(word);
        if words.get(*at) != Some(&"::") {
            break;
        }
        *at += 1;
    }
    if words.get(*at) == Some(&"as") {
        *at += 2;
    }
    out.push(path);
}

/// Returns the module to whose items a path leads, if it is of this crate.
fn leads_to(all: &BTreeMap<ModulePath, String>, from: &ModulePath, path: &[&str]) -> Option<ModulePath> {
    let (first, mut rest) = path.split_first()?;
    let mut to = match *first {
        "crate" => vec![],
        "self" => from.clone(),
        "super" => from[..from.len().checked_sub(1)?].to_vec(),
        child => [&from[..], &[child.to_owned()]].concat(),
    };
    while let Some((&"super", after)) = rest.split_first() {
        to.pop()?;
        rest = after;
    }
    if !all.contains_key(&to) {
        return None;
    }
    for name in rest {
        to.push((*name).to_owned());
        if !all.contains_key(&to) {
            to.pop();
            break;
        }
    }
    (to != *from).then_some(to)
}

fn imports(all: &BTreeMap<ModulePath, String>) -> BTreeMap<ModulePath, BTreeSet<ModulePath>> {
    let of = |module: &ModulePath, text: &str| {
        let words = words(text);
        let (mut found, mut at) = (vec![], 0);
        while at < words.len() {
            let is_use = words[at] == "use";
            let is_path = words.get(at + 1) == Some(&"::") && (at == 0 || words[at - 1] != "::");
            if is_use || is_path {
                at += usize::from(is_use);
                paths(&words, &mut at, &[], &mut found);
            } else {
                at += 1;
            }
        }
        found.iter().filter_map(|path| leads_to(all, module, path)).collect()
    };
    all.iter().map(|(module, text)| (module.clone(), of(module, text))).collect()
}

/// Returns the modules of a circle, if there is one.
fn circle(all: &BTreeMap<ModulePath, String>) -> Option<Vec<String>> {
    fn visit(
        module: &ModulePath,
        imports: &BTreeMap<ModulePath, BTreeSet<ModulePath>>,
        way: &mut Vec<ModulePath>,
        done: &mut BTreeSet<ModulePath>,
    ) -> Option<Vec<String>> {
        if let Some(begin) = way.iter().position(|m| m == module) {
            return Some(way[begin..].iter().map(|m| m.join("::")).collect());
        }
        if !done.insert(module.clone()) {
            return None;
        }
        way.push(module.clone());
        let found = imports.get(module)?.iter().find_map(|to| visit(to, imports, way, done));
        way.pop();
        found
    }
    let (imports, mut done) = (imports(all), BTreeSet::new());
    imports.keys().find_map(|module| visit(module, &imports, &mut vec![], &mut done))
}

#[test]
fn no_files_import_each_other_in_a_circle() {
    for folder in ORDERED {
        let mut all = BTreeMap::new();
        modules(&root().join(folder), &[], &mut all);
        let found: usize = imports(&all).values().map(BTreeSet::len).sum();
        assert!(found >= all.len() / 2, "{folder}: {found} imports in {} files", all.len());
        assert_eq!(circle(&all), None, "{folder}");
    }
}

/// Returns the groups of files that import each other in circles, without the imports between a
/// module and the modules inside it.
fn groups(all: &BTreeMap<ModulePath, String>) -> Vec<Vec<String>> {
    let mut imports = imports(all);
    for (module, to) in &mut imports {
        to.retain(|t| !t.starts_with(module) && !module.starts_with(t));
    }
    let reached = |from: &ModulePath| {
        let (mut seen, mut todo) = (BTreeSet::new(), vec![from.clone()]);
        while let Some(module) = todo.pop() {
            todo.extend(imports[&module].iter().filter(|t| seen.insert((*t).clone())).cloned());
        }
        seen
    };
    let all: BTreeMap<&ModulePath, BTreeSet<ModulePath>> = imports.keys().map(|m| (m, reached(m))).collect();
    let group = |m: &ModulePath| -> Vec<String> {
        all[m].iter().filter(|o| all[o].contains(m)).map(|o| o.join("::")).collect()
    };
    let found: BTreeSet<Vec<String>> = imports.keys().map(group).filter(|g| !g.is_empty()).collect();
    found.into_iter().collect()
}

#[test]
fn other_crates_have_no_circle_beside_parents() {
    let mut crates: Vec<_> = std::fs::read_dir(root().join("crates"))
        .expect("the crates")
        .map(|e| e.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    crates.sort();
    for name in crates.iter().filter(|n| !ORDERED.contains(&&*format!("crates/{n}/src"))) {
        let mut all = BTreeMap::new();
        modules(&root().join("crates").join(name).join("src"), &[], &mut all);
        assert_eq!(groups(&all), Vec::<Vec<String>>::new(), "crates/{name}");
    }
}

/// The tests above would find a circle, whatever the form of the imports.
#[test]
fn circles_are_found() {
    let found = |texts: &[(&str, &str)]| {
        let path = |name: &str| name.split('/').filter(|n| !n.is_empty()).map(str::to_owned).collect();
        circle(&texts.iter().map(|(name, text)| (path(name), (*text).to_owned())).collect())
    };
    let ordered = [("", "mod a; pub mod b;"), ("a", "use crate::b::{self, B};"), ("b", "pub struct B;")];
    assert_eq!(found(&ordered), None);
    for back in [
        "use super::a::A;",
        "use std::fmt; pub use crate::{c::C, a::{d, A as Other}};",
        "fn f() { crate::a::g(\"\") }",
        "const QUOTE: char = '\"'; use super::a; const OTHER: char = '\"';",
    ] {
        let circle = found(&[ordered[0], ordered[1], ("b", back)]);
        assert_eq!(circle, Some(vec!["a".to_owned(), "b".to_owned()]), "{back}");
    }
    const TESTS: &str = "fn f() {}\n#[cfg(test)]\nmod tests { use super::super::a; }";
    for only in ["// use super::a;", "const TEXT: &str = \"use super::a;\";", TESTS] {
        assert_eq!(found(&[ordered[0], ordered[1], ("b", only)]), None, "{only}");
    }
    // The root and a module in it, as a subcommand that runs another one.
    let dispatch = [("", "mod replay; fn dispatch() { replay::run() }"), ("replay", "use super::dispatch;")];
    assert_eq!(found(&dispatch), Some(vec![String::new(), "replay".to_owned()]));
}
