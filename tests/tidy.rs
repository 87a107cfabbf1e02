//! Tests of the project's own rules: paths and pages that are named exist, forbidden names and
//! paths are not in the sources, every module begins with its purpose and stays short.

use crate::common;

use clap::CommandFactory;
use common::{kbc, root};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

fn below(dir: &Path, ext: &[&str], out: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(dir) else { return };
    for entry in entries {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("an entry has a name").to_string_lossy().into_owned();
        if path.is_dir() {
            if name != "target" && !name.starts_with('.') {
                below(&path, ext, out);
            }
        } else if ext.iter().any(|e| name.ends_with(e)) {
            out.push(path);
        }
    }
    out.sort();
}

/// Returns the files of these folders whose names end so, with their paths from the root.
pub fn files(dirs: &[&str], ext: &[&str]) -> Vec<(String, String)> {
    let mut out = vec![];
    dirs.iter().for_each(|d| below(&root().join(d), ext, &mut out));
    out.iter()
        .map(|p| {
            let name = p.strip_prefix(root()).expect("below the root").to_string_lossy().into_owned();
            (name, std::fs::read_to_string(p).expect("a text"))
        })
        .collect()
}

/// Returns the sources of the libraries and the driver, up to their unit tests.
fn sources() -> Vec<(String, String)> {
    let mut all = files(&["src", "crates"], &[".rs"]);
    all.retain(|(name, _)| name.starts_with("src/") || name.contains("/src/"));
    assert!(all.len() > 80);
    let code = |text: String| text.split("\n#[cfg(test)]\nmod ").next().unwrap_or("").to_owned();
    all.into_iter().map(|(name, text)| (name, code(text))).collect()
}

#[test]
fn paths_in_the_documents_exist() {
    let mut missing = vec![];
    let mut seen = 0;
    for name in ["ARCHITECTURE.md", "README.md"] {
        let text = std::fs::read_to_string(root().join(name)).expect(name);
        for word in text.split('`').skip(1).step_by(2) {
            let path = word.trim_end_matches('/');
            let starts = ["src/", "crates/", "docs/", "specs/", "tests/", "benches/"];
            let one = !path.contains(|c: char| c.is_whitespace() || "*<>{}".contains(c));
            if one && starts.iter().any(|s| path.starts_with(s)) {
                seen += 1;
                if !root().join(path).exists() {
                    missing.push(format!("{name}: {path}"));
                }
            }
        }
    }
    assert!(missing.is_empty(), "{missing:?}");
    assert!(seen >= 15, "{seen}");
}

#[test]
fn the_changelog_has_a_place_for_what_is_new() {
    let text = std::fs::read_to_string(root().join("CHANGELOG.md")).expect("CHANGELOG.md");
    assert!(text.lines().any(|l| l.starts_with("## ") && l.contains("Unreleased")));
}

#[test]
fn the_command_line_is_sound() {
    kbc::cli::Cli::command().debug_assert();
}

#[test]
fn every_pass_has_its_page() {
    let passes = kbc(root(), &["passes", "--format", "json"], "").stdout;
    let passes: serde_json::Value = serde_json::from_str(&passes).expect("JSON");
    let names: BTreeSet<String> = passes["passes"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|p| format!("{}.md", p["name"].as_str().expect("a name")))
        .collect();
    assert!(names.len() >= 6);
    let pages: BTreeSet<String> = files(&["docs/passes"], &[".md"])
        .iter()
        .map(|(name, _)| name.trim_start_matches("docs/passes/").to_owned())
        .collect();
    assert_eq!(pages, names);
}

/// Returns the names of the library's algorithms that are not names of collectives.
fn algorithms() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut collectives = BTreeSet::new();
    for (_, text) in files(&["specs/lib"], &[".kb"]) {
        for line in text.lines() {
            let name = |rest: &str| {
                rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or("").to_owned()
            };
            if let Some(rest) = line.strip_prefix("algorithm ") {
                names.insert(name(rest));
            } else if let Some(rest) = line.strip_prefix("collective ") {
                collectives.insert(name(rest));
            }
        }
    }
    assert!(names.len() >= 12 && collectives.len() >= 8);
    names.difference(&collectives).cloned().collect()
}

/// Machines, operations of the languages and plain words that are also names of algorithms.
const OTHERS: [(&str, &str); 4] = [
    // the option `direct: true` of a use
    ("direct", "crates/rounds/src/options.rs"),
    // the topology generator ring(n)
    ("ring", "crates/machine/src/topology/"),
    // the word `line N` of a .kir operand
    ("line", "crates/ir/src/text/"),
    // the element of an SVG, written and drawn
    ("line", "crates/figures/src/"),
];

#[test]
fn no_algorithm_is_named_in_rust() {
    let mut found = vec![];
    let algorithms = algorithms();
    for (file, text) in sources() {
        for line in text.lines().filter(|l| !l.trim_start().starts_with("//")) {
            for word in line.split('"').skip(1).step_by(2) {
                let other = OTHERS.iter().any(|(w, at)| *w == word && file.starts_with(at));
                if algorithms.contains(word) && !other {
                    found.push(format!("{file}: {}", line.trim()));
                }
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn modules_say_what_they_own_and_stay_short() {
    let mut found = vec![];
    for (file, text) in files(&["src", "crates", "tests", "benches"], &[".rs"]) {
        if !text.starts_with("//!") {
            found.push(format!("{file} does not begin with //!"));
        }
        let lines = text.lines().count();
        if lines > 700 {
            found.push(format!("{file} has {lines} lines"));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn comments_are_wrapped() {
    let mut found = vec![];
    for (file, text) in files(&["src", "crates", "tests", "benches"], &[".rs"]) {
        for (i, line) in text.lines().enumerate() {
            let comment = line.trim_start();
            // A row of a table is one line.
            let row = comment.trim_start_matches(['/', '!', ' ']).starts_with('|');
            if comment.starts_with("//") && !row && line.chars().count() > 100 {
                found.push(format!("{file}:{}: {}", i + 1, line.trim()));
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// The README is short: what does not fit is in `docs`.
#[test]
fn the_readme_stays_short() {
    let text = std::fs::read_to_string(root().join("README.md")).expect("the README");
    let lines = text.lines().count();
    assert!(lines <= 120, "README.md has {lines} lines");
}

/// Lines of documents are wrapped, but for rows of tables, code, and lists of links.
#[test]
fn documents_are_wrapped() {
    let mut found = vec![];
    let at_root = ["README.md", "ARCHITECTURE.md", "CHANGELOG.md"].map(|name| {
        let text = std::fs::read_to_string(root().join(name)).expect("a document at the root");
        (name.to_owned(), text)
    });
    for (file, text) in files(&["docs"], &[".md"]).into_iter().chain(at_root) {
        let mut code = false;
        for (i, line) in text.lines().enumerate() {
            let text = line.trim_start();
            code ^= text.starts_with("```");
            let whole = ["|", "<!--"].iter().any(|mark| text.starts_with(mark)) || line.starts_with("    ");
            // Links, and pages that are written from comments.
            let listed = file.ends_with("SUMMARY.md") || file.starts_with("docs/passes/");
            if !code && !whole && !listed && line.chars().count() > 100 {
                found.push(format!("{file}:{}: {line}", i + 1));
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn only_the_driver_prints_and_reads_files() {
    let words = [
        "println!",
        "eprintln!",
        "print!(",
        "dbg!",
        "std::fs::",
        "std::env::",
        "std::process::",
        "Instant::now",
        "SystemTime",
    ];
    let mut found = vec![];
    for (file, text) in sources() {
        for line in text.lines().filter(|l| !l.trim_start().starts_with("//")) {
            for w in words {
                let clock = file.starts_with("src/") && !w.ends_with('!') && !w.ends_with('(');
                if line.contains(w) && !clock {
                    found.push(format!("{file}: {}", line.trim()));
                }
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// Returns the crates of this workspace that a crate is built with, including itself, but without
/// those of its tests.
fn built_with(name: &str) -> BTreeSet<String> {
    let mut seen = BTreeSet::new();
    let mut open = vec![name.to_owned()];
    while let Some(name) = open.pop() {
        if !seen.insert(name.clone()) {
            continue;
        }
        let folder = name.strip_prefix("kbc-").expect("a crate of the workspace");
        let path = root().join("crates").join(folder).join("Cargo.toml");
        let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let list = text.split("[dependencies]").nth(1).expect("every crate has dependencies");
        let list = list.split("\n[").next().unwrap_or("");
        open.extend(
            list.lines()
                .filter_map(|l| l.split_once(".workspace"))
                .map(|l| l.0.to_owned())
                .filter(|n| n.starts_with("kbc-")),
        );
    }
    seen
}

/// Returns a line of a text that begins an example of documentation. rustdoc compiles code in
/// fences that name no other language, and indented code.
fn example(text: &str) -> Option<&str> {
    const RUST: [&str; 8] =
        ["", "rust", "ignore", "should_panic", "no_run", "compile_fail", "test_harness", "standalone_crate"];
    let rust = |word: &str| RUST.contains(&word) || word.starts_with("edition");
    let (mut fenced, mut blank) = (false, true);
    for line in text.lines() {
        let words = line.trim_start();
        let Some(doc) = words.strip_prefix("//!").or_else(|| words.strip_prefix("///")) else {
            (fenced, blank) = (false, true);
            continue;
        };
        if let Some(language) = doc.trim_start().strip_prefix("```") {
            if !fenced && language.trim().split([',', ' ']).all(rust) {
                return Some(line);
            }
            fenced = !fenced;
        } else if !fenced && blank && doc.starts_with("     ") {
            return Some(line);
        }
        blank = doc.trim().is_empty();
    }
    None
}

/// A manifest may say `test = false` where the sources hold no unit tests, which saves a second
/// compilation of the crate. There a unit test, or code for one, would never be compiled, unless
/// `crates/tests` has the sources as a test. It may say `doctest = false` where no documentation
/// has an example, which saves a run of rustdoc.
#[test]
fn no_unit_test_is_left_out() {
    let unit = |text: &str| {
        ["#[test]", "cfg(test", "cfg!(test"].iter().find(|w| text.contains(**w)).map(|w| (*w).to_owned())
    };
    let example = |text: &str| example(text).map(str::to_owned);
    type Found<'f> = &'f dyn Fn(&str) -> Option<String>;
    let kinds: [(&str, Found<'_>); 2] = [("test = false", &unit), ("doctest = false", &example)];
    let mut manifests = files(&["crates"], &["Cargo.toml"]);
    manifests
        .push(("Cargo.toml".into(), std::fs::read_to_string(root().join("Cargo.toml")).expect("a manifest")));
    let elsewhere = std::fs::read_to_string(root().join("crates/tests/Cargo.toml")).expect("a manifest");
    for (says, in_text) in kinds {
        let mut found = 0;
        for (name, text) in &manifests {
            let folder = name.strip_suffix("Cargo.toml").expect("the name of a manifest");
            let own = folder.strip_prefix("crates/").unwrap_or(folder);
            if says == "test = false" && elsewhere.contains(&format!("path = \"../{own}src/lib.rs\"")) {
                continue;
            }
            for section in text.split("\n[").filter(|s| s.lines().any(|l| l == says)) {
                let place = match section.lines().next() {
                    Some("lib]") => format!("{folder}src"),
                    Some("[bin]]") => format!("{folder}src/main.rs"),
                    other => panic!("{name}: `{says}` in {other:?}"),
                };
                let path = root().join(&place);
                let texts = if path.is_dir() { files(&[&place], &[".rs"]) } else { vec![] };
                let alone =
                    path.is_file().then(|| (place.clone(), std::fs::read_to_string(&path).expect("a text")));
                for (source, text) in texts.into_iter().chain(alone) {
                    assert_eq!(in_text(&text), None, "{source}: {name} says `{says}`, so this never runs");
                    found += 1;
                }
            }
        }
        assert!(found > 10, "{says}: {found}");
    }
}

/// A package with features that only tests ask for is built once more by the second command of the
/// README, with all packages that use it. `Cargo.toml` asks for them in the first one, too.
#[test]
fn tests_use_the_packages_of_the_first_command() {
    let packages = |args: &[&str]| {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = std::process::Command::new(cargo);
        command.args(["tree", "--locked", "--offline", "--no-dedupe", "--prefix", "none"]);
        let out =
            command.args(["-f", "{p} [{f}]"]).args(args).current_dir(root()).output().expect("cargo runs");
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        let text = String::from_utf8(out.stdout).expect("UTF-8");
        let line = |l: &str| l.trim_end_matches(" (*)").to_owned();
        text.lines().filter(|l| !l.is_empty() && !l.starts_with("kbc")).map(line).collect::<BTreeSet<_>>()
    };
    let built = packages(&["-p", "kbc", "-e", "normal,build"]);
    let tested = packages(&["--workspace", "-e", "normal,build,dev"]);
    let again: Vec<&String> = built.difference(&tested).collect();
    assert!(again.is_empty(), "{again:?}");
    assert!(built.len() > 100, "{}", built.len());
}

/// What `example` finds in texts.
#[test]
fn examples_of_documentation_are_found() {
    let fence = "`".repeat(3);
    for (text, found) in [
        (format!("/// It adds.\n/// {fence}\n/// add(1);\n/// {fence}\nfn add() {{}}\n"), true),
        (format!("//! {fence}no_run\n//! add(1);\n//! {fence}\n"), true),
        ("/// It adds:\n///\n///     add(1);\n".to_owned(), true),
        (format!("/// {fence}text\n///     add\n/// {fence}\n/// It adds.\n"), false),
        ("/// It adds\n///     and goes on.\nlet x = 1;\n//     no document\n".to_owned(), false),
    ] {
        assert_eq!(example(&text).is_some(), found, "{text}");
    }
}

/// The judge of the checker (`kbc dev mutate`, `kbc dev fuzz checker`) cannot import it: the
/// compiler ensures that as long as no crate that the judge is built with is built with the
/// checker.
#[test]
fn the_judge_is_built_without_the_checker() {
    let judge = built_with("kbc-judge");
    assert!(judge.contains("kbc-backend-sim") && judge.contains("kbc-ir"), "{judge:?}");
    assert!(!judge.contains("kbc-checker"), "{judge:?}");
    // The checker in turn trusts no pass.
    let checker = built_with("kbc-checker");
    assert_eq!(checker, BTreeSet::from(["kbc-checker", "kbc-diag", "kbc-ir"].map(str::to_owned)));
    assert!(built_with("kbc-time").contains("kbc-checker"), "dependencies are found");
    // The judge's oracle reads contracts with code of its own.
    let path = root().join("crates/judge/src/oracle.rs");
    let oracle = std::fs::read_to_string(path).expect("it is there");
    for line in oracle.lines().filter(|l| !l.trim_start().starts_with("//")) {
        let shared = ["contract_terms", "kbc_backend_sim::contract"];
        assert!(!shared.iter().any(|s| line.contains(s)), "the oracle: {line}");
    }
}

/// The clients of the library know no arguments and no terminal: they are built without the crates
/// for these, and without each other where that would be a circle.
#[test]
fn what_is_not_the_command_line_is_built_without_it() {
    let mut seen = 0;
    for entry in std::fs::read_dir(root().join("crates")).expect("a folder") {
        let path = entry.expect("an entry").path().join("Cargo.toml");
        let text = std::fs::read_to_string(&path).expect("a manifest");
        seen += 1;
        for name in ["clap", "clap_complete", "indicatif", "tempfile", "kbc"] {
            let names = |l: &str| l.split(['.', ' ', '=']).next() == Some(name);
            assert!(!text.lines().any(names), "{} needs {name}", path.display());
        }
    }
    assert!(seen >= 20, "{seen}");
    let (views, evaluation) = (built_with("kbc-views"), built_with("kbc-evaluation"));
    assert!(!views.contains("kbc-evaluation") && !evaluation.contains("kbc-audit"));
    assert!(!built_with("kbc-compiler").contains("kbc-views"));
}

/// What all backends share knows no target: its text names none, and no backend builds it.
#[test]
fn what_all_backends_share_names_no_target() {
    const WORDS: [&str; 20] = [
        "ascend",
        "a2a3",
        "a2a3sim",
        "a5",
        "a5sim",
        "aiv",
        "aic",
        "cube",
        "ub",
        "l1",
        "l0a",
        "l0b",
        "l0c",
        "mte1",
        "mte2",
        "mte3",
        "pto",
        "commcontext",
        "cpp",
        "kbc_backend_ascend",
    ];
    let all = files(&["crates/tiles"], &[".rs", ".toml", ".py"]);
    assert!(all.len() > 60, "{}", all.len());
    let mut found = vec![];
    for (file, text) in all {
        for (i, line) in text.lines().enumerate() {
            let words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
            if words.map(str::to_lowercase).any(|w| WORDS.contains(&w.as_str())) {
                found.push(format!("{file}:{}: {}", i + 1, line.trim()));
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
    // Outside its own crate, a backend is named in the table of backends alone.
    for backend in ["ascend", "host"] {
        let name = format!("kbc_backend_{backend}");
        let mut others = files(&["src", "crates"], &[".rs"]);
        others.retain(|(file, text)| {
            !file.starts_with(&format!("crates/backend-{backend}/")) && text.contains(&name)
        });
        let others: Vec<&str> = others.iter().map(|o| o.0.as_str()).collect();
        assert_eq!(others, ["crates/compiler/src/backends.rs"]);
    }
    let tiles = built_with("kbc-tiles");
    assert_eq!(tiles, BTreeSet::from(["kbc-tiles", "kbc-diag", "kbc-ir"].map(str::to_owned)));
}

#[test]
fn no_file_names_a_path_of_one_machine() {
    let mut found = vec![];
    let dirs = ["src", "crates", "tests", "benches", "docs", "specs", ".ci"];
    let mut all =
        files(&dirs, &[".rs", ".md", ".kb", ".kir", ".toml", ".snap", ".lalrpop", ".py", ".sh", "run"]);
    for name in ["README.md", "ARCHITECTURE.md", "CHANGELOG.md", "Cargo.toml"] {
        all.push((name.into(), std::fs::read_to_string(root().join(name)).expect(name)));
    }
    // Written in two parts, so that this file does not match.
    let homes = [
        concat!("/ho", "me/"),
        concat!("/Us", "ers/"),
        concat!("/ro", "ot/"),
        concat!("/wo", "rk/"),
        concat!("/tm", "p/"),
    ];
    for (file, text) in all {
        for (i, line) in text.lines().enumerate() {
            if homes.iter().any(|h| line.contains(h)) {
                found.push(format!("{file}:{}: {}", i + 1, line.trim()));
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// Names that leave open of what: a place, a kind or a result of what?
const EMPTY_NAMES: [&str; 12] =
    ["Place", "Kind", "Found", "Way", "Ways", "Says", "Said", "Told", "Asked", "Held", "Made", "Known"];

#[test]
fn type_names_say_what_the_type_is() {
    let mut empty = vec![];
    let mut public: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
    for (file, text) in files(&["src", "crates", "tests", "benches"], &[".rs"]) {
        for line in text.lines() {
            let item = line.trim_start();
            let (visible, item) = match item.strip_prefix("pub") {
                Some(rest) if rest.starts_with('(') => (false, rest.split_once(") ").map_or("", |r| r.1)),
                Some(rest) => (true, rest.trim_start()),
                None => (false, item),
            };
            // An indented `type` belongs to a trait, whose name says more.
            let words = ["struct ", "enum ", "trait ", "union "];
            let alias = item.strip_prefix("type ").filter(|_| !line.starts_with(' '));
            let Some(rest) = words.iter().find_map(|w| item.strip_prefix(w)).or(alias) else { continue };
            let name = rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or("").to_owned();
            if EMPTY_NAMES.contains(&name.as_str()) {
                empty.push(format!("{file}: {name}"));
            }
            let of =
                if file.starts_with("src/") { Some("src") } else { file.split_once("/src/").map(|f| f.0) };
            // A type that a macro makes has the name that the macro was given.
            if let Some(of) = of.filter(|_| visible && !name.is_empty()) {
                public.entry((of.to_owned(), name)).or_default().push(file.clone());
            }
        }
    }
    assert!(empty.is_empty(), "name what it is a place, kind or result of:\n{}", empty.join("\n"));
    assert!(public.len() > 500, "{}", public.len());
    let twice: Vec<_> = public.into_iter().filter(|(_, files)| files.len() > 1).collect();
    assert!(twice.is_empty(), "public types of one crate with one name: {twice:#?}");
}
