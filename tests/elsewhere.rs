//! Tests of the binary in an empty folder outside of the source, as after `cargo install`: every
//! verb works there, or says how to get the files that it needs.

use crate::common::{Ran, kbc_with, root};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Commands, in an order in which later ones read what earlier ones wrote: exit code, words of the
/// output, command line. All run without the source.
const COMMANDS: [(i32, &str, &str); 51] = [
    (0, "kbc new my_ring", ""),
    (0, "next:", "new my_ring"),
    (0, "ok\n", "check my_ring/my_ring.kb"),
    (0, "on ring(4)", "compile my_ring/layer.kb"),
    (0, "on ring(8)", "compile my_ring/layer.kb --topology my_ring/machine.yaml"),
    (0, "ok\n", "compile my_ring/layer.kb --emit graph=g.kir"),
    (0, "emitted layer for a2a3", "compile my_ring/layer.kb --target a2a3 -o package"),
    (0, "layer on ring(4)", "run my_ring/layer.kb --seeds 2 --adversarial"),
    (0, "page.html", "report my_ring/layer.kb -o page.html"),
    (0, "props typed", "opt g.kir -p infer"),
    (0, "", "fmt my_ring --check"),
    (0, "# E110", "explain E110"),
    (0, "my_ring", "explain select my_ring/layer.kb"),
    (0, "synchronize", "list passes"),
    (0, "bidirectional_ring", "list"),
    (0, "all_reduce", "list algorithms"),
    (0, "ring.svg", "plot topology ring(4) -o ring.svg"),
    (0, "next: kbc run packed.kb", "synth ring(4) all_gather -o packed.kb"),
    (0, "out: all", "run packed.kb -D n=100"),
    (0, "1 link failed: (0)->(1)", "repair packed.kb --fail (0)->(1)"),
    (0, "_kbc()", "completions bash"),
    (0, "kbc-run", "man run"),
    (0, "points", "dev bench select --points 1"),
    (0, "peak MB", "dev bench scale start irregular --sizes 4 --repeat 1"),
    (0, "faster", "compare ring(4) full(4) --of my_ring/layer.kb"),
    (0, "mutants", "dev mutate my_ring/my_ring.kb --ranks 2..3 --limit 20"),
    (0, "accepted", "dev fuzz engines --programs 1 --seed 1"),
    (0, "accepted", "dev fuzz schedules --programs 1 --seed 1"),
    (0, "", "dev fuzz checker --schedules 1 --seed 1"),
    (0, "accepted", "dev fuzz bounds --programs 1 --seed 1"),
    (0, "files", "dev fuzz readers --inputs 20 --seed 1"),
    (0, "Usage", "help compile"),
    // Files of the user that do not exist.
    (2, "cannot read mine.kb: no such file\n", "compile mine.kb"),
    (2, "cannot read mine.kir: no such file\n", "opt mine.kir"),
    (2, "cannot read mine.kb: no such file\n", "launch mine.kb"),
    (2, "--at", "calibrate --at nothing"),
    (2, "cannot read mine.kb: no such file\n", "dev replay mine.kb"),
    (2, "cannot read mine.yaml: no such file\n", "sweep mine.yaml"),
    (2, "mine is not an exported program\n", "import mine -o m.kb"),
    // Files of the source.
    (2, GET, "compile specs/ffn_tp.kb --target sim"),
    (2, GET, "check specs/my_ring.kb"),
    (2, GET, "run specs/all_reduce.kb"),
    (2, GET, "report specs/ffn_tp.kb"),
    (2, GET, "fmt specs/ffn_tp.kb"),
    (2, GET, "explain path specs/ffn_tp.kb"),
    (2, GET, "sweep specs/sweeps/latency.yaml -o latency"),
    (2, GET, "import specs/torch/block_tp2 -o block.kb"),
    (2, GET, "dev compare-reference"),
    (2, GET, "dev repro --check"),
    (2, GET, "dev bench ccl --topology specs/kernbench/topology.yaml --ccl specs/kernbench/ccl.yaml"),
    (1, "run in a checkout", "dev fuzz emitted --programs 1 --seed 1"),
];

/// Words of the message about a file of the source.
const GET: &str = "comes with kbc's source and not with the binary: get the source";

/// A folder that is not inside the source, and is removed when the test ends.
struct Outside(PathBuf);

impl Outside {
    fn new(name: &str) -> Outside {
        let dir = std::env::temp_dir().join(format!("kbc-elsewhere-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("the folder for temporary files can be written");
        assert!(!dir.starts_with(root()), "{} is inside the source", dir.display());
        Outside(dir)
    }

    fn kbc(&self, line: &str, source: &str) -> Ran {
        let words: Vec<&str> = line.split_whitespace().collect();
        kbc_with(&self.0, &words, "", &[("KBC_SOURCE", source)])
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn every_verb_works_or_says_what_it_needs() {
    let outside = Outside::new("verbs");
    let (mut wrong, mut tried) = (vec![], BTreeSet::new());
    for (code, words, line) in COMMANDS {
        let of = if line.starts_with("dev ") { 2 } else { 1 };
        tried.insert(line.split_whitespace().take(of).collect::<Vec<_>>().join(" "));
        // A folder that is no checkout, as where there is none.
        let ran = outside.kbc(line, "nowhere");
        let said = format!("{}{}", ran.stdout, ran.stderr);
        if ran.code != code || !said.contains(words) {
            wrong.push(format!("kbc {line}: exit {}, not {code} with {words:?}\n{said}", ran.code));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let mut verbs = BTreeSet::new();
    for of in ["", "dev "] {
        let help = outside.kbc(&format!("{of}--help"), "nowhere").stdout;
        let (_, list) = help.split_once("\nCommands:\n").expect("a list of verbs");
        let (list, _) = list.split_once("\n\n").expect("its end");
        // Verbs are indented by two; lines that continue a description by more.
        let list = list.lines().filter_map(|l| l.strip_prefix("  ")).filter(|l| !l.starts_with(' '));
        verbs.extend(list.filter_map(|l| Some(format!("{of}{}", l.split(' ').next()?))));
    }
    verbs.retain(|v| !["dev", "dev help"].contains(&v.as_str()));
    let missing: Vec<_> = verbs.difference(&tried).collect();
    assert!(verbs.len() >= 23 && missing.is_empty(), "not tried: {missing:?} of {verbs:?}");
}

/// Where the binary finds the source in which it was built, a message names the file there.
#[test]
fn files_of_the_source_are_named() {
    let outside = Outside::new("names");
    let at = |path: &str| format!("kbc's source has this file: {}", root().join(path).display());
    for (line, path) in [
        ("compile specs/ffn_tp.kb --target sim", "specs/ffn_tp.kb"),
        ("compile ffn_tp.kb", "specs/ffn_tp.kb"),
        ("run here/ffn_tp.kb", "specs/ffn_tp.kb"),
        ("sweep latency.yaml", "specs/sweeps/latency.yaml"),
        ("import specs/torch/block_tp2 -o block.kb", "specs/torch/block_tp2"),
    ] {
        let ran = outside.kbc(line, "");
        assert!(ran.code == 2 && ran.stderr.contains(&at(path)), "kbc {line}: {}", ran.stderr);
    }
    assert!(!outside.kbc("compile mine.kb", "").stderr.contains("source"));
    // A checkout that is named, and verbs that find their files in it.
    let source = root().to_string_lossy();
    let ran = outside.kbc("compile ffn_tp.kb", &source);
    assert!(ran.stderr.contains(&at("specs/ffn_tp.kb")), "{}", ran.stderr);
    let reference =
        std::fs::read_dir(root().join("specs/reference")).expect("a folder of the source").count();
    let json = outside.kbc("dev compare-reference --format json", &source).stdout;
    let files: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(files.as_array().map(Vec::len), Some(reference));
    assert!(Path::new(&*source).join("specs/lib").is_dir());
}
