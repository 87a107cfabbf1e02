//! Test of the library on every backend (ASC-1): every algorithm of the five collectives is
//! emitted, or rejected with the reason; a new algorithm is executed, timed and emitted without a
//! line of Rust.
//!
//! Packages are written and not compiled here: `tests/emitted.rs` compiles a sample.

use crate::common;

use common::{Scratch, kbc, root};
use kbc_frontend::ast::Item;
use kbc_frontend::library::LIBRARY;

const FIVE: [&str; 5] = ["all_reduce", "reduce_scatter", "all_gather", "all_to_all", "broadcast"];

/// Returns file and `collective.algorithm` of each algorithm of the five collectives, with its
/// number of axes.
fn algorithms() -> Vec<(String, String, usize)> {
    let mut out = vec![];
    for (name, text) in LIBRARY {
        let (tree, _) = kbc_frontend::parse(kbc_diag::FileId(0), text);
        for item in tree.items {
            if let Item::Algorithm(a) = item
                && FIVE.contains(&a.coll.node.as_str())
            {
                let file = format!("specs/lib/{}", name.trim_start_matches("<lib>/"));
                out.push((file, format!("{}.{}", a.coll.node, a.name.node), a.axes.len()));
            }
        }
    }
    out
}

/// Returns machines to try; the first one that an algorithm supports is used.
fn machines(axes: usize) -> &'static [&'static str] {
    match axes {
        1 => &["ring(4)", "ring(2)", "ring(3)"],
        2 => &["torus(2,2)", "torus(2,3)"],
        _ => &["torus(2,2,2)"],
    }
}

#[test]
fn every_algorithm_is_emitted_or_refused_with_the_reason() {
    let dir = Scratch::new();
    let (mut emitted, mut refused) = (0, vec![]);
    for (file, name, axes) in algorithms() {
        let out = dir.path().join(&name);
        let mut last = String::new();
        for machine in machines(axes) {
            let ran = kbc(
                root(),
                &[
                    "compile",
                    &file,
                    "--algorithm",
                    &name,
                    "--topology",
                    machine,
                    "-D",
                    "n=24",
                    "--target",
                    "a2a3",
                    "-o",
                    &out.to_string_lossy(),
                    "-q",
                    "--diagnostics",
                    "short",
                ],
                "",
            );
            if ran.code == 0 {
                assert!(
                    out.join("manifest.json").exists() || out.read_dir().expect("a package").count() > 4,
                    "{name}"
                );
                emitted += 1;
                last.clear();
                break;
            }
            last = format!("{name} on {machine}: {}", ran.stderr.lines().next().unwrap_or(""));
            // This shape is not supported: try the next.
            if !last.contains("E024") {
                break;
            }
        }
        if !last.is_empty() {
            assert!(last.contains("E470"), "{last}");
            refused.push(last);
        }
    }
    assert!(emitted >= 55 && refused.is_empty(), "{emitted} emitted, refused: {refused:#?}");
    // Lanes of unequal length are separate streams, each on a core.
    let oblong = [
        "compile",
        "specs/lib/grids.kb",
        "--algorithm",
        "all_reduce.torus2_all_links",
        "--topology",
        "torus(2,4)",
    ];
    let out = dir.path().join("oblong");
    let ran = kbc(
        root(),
        &[&oblong[..], &["-D", "n=24", "--target", "a2a3", "-o", &out.to_string_lossy(), "-q"]].concat(),
        "",
    );
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let layout = std::fs::read_to_string(out.join("layout.py")).expect("a package");
    assert!(layout.contains("\"aiv\", 2, ("), "{layout}");
}

/// A completely new algorithm: one file, no line of Rust.
#[test]
fn a_new_algorithm_comes_through_every_backend() {
    let dir = Scratch::new();
    let text = "/// Everybody's vector goes round by twos, then by one.\nalgorithm relay: all_reduce over (r mod p)\n\
                cost rounds p - 1, sent p - 1, pair p - 1\n{\n    scratch t[1]\n    put [..] -> t[..]\n    \
                for s in 1..p { put t[..] -> t[..] at r + 1; put t[..] -> [..] reduce }\n}\n\
                topology sys = ring(4)\nmesh m = sys[tp]\n\
                program sum_of_all(x: i32[10] partial(sum@tp)) -> i32[10] { all_reduce(x, sum, over: tp, using: relay) }\n";
    std::fs::write(dir.path().join("relay.kb"), text).expect("a scratch folder");
    let sim = kbc(dir.path(), &["compile", "relay.kb", "--format", "json"], "");
    assert_eq!(sim.code, 0, "{}", sim.stderr);
    let r: serde_json::Value = serde_json::from_str(&sim.stdout).expect("a report");
    assert!(r["ok"] == true && r["time_ns"].as_f64() > Some(0.0) && r["compare"]["mismatches"] == 0, "{r:#}");
    let attacked = kbc(dir.path(), &["run", "relay.kb", "--adversarial", "--seeds", "10"], "");
    assert_eq!(attacked.code, 0, "{}", attacked.stderr);
    let packed = kbc(dir.path(), &["compile", "relay.kb", "--target", "a2a3", "-o", "out"], "");
    assert_eq!(packed.code, 0, "{}", packed.stderr);
    assert!(dir.path().join("out").read_dir().expect("a package").count() > 4);
}
