//! Tests of `kbc plot`: every machine is drawn with all its nodes and links, and a picture shows
//! the same utilisation as the report.

use crate::common;

use common::{Scratch, kbc, root};

/// Returns the SVG of a command, whose picture goes to a fresh folder.
fn svg(args: &[&str]) -> (String, String) {
    let scratch = Scratch::new();
    let out = scratch.path().join("a.svg");
    let path = out.to_string_lossy().into_owned();
    let ran = kbc(root(), &[args, &["-o", &path]].concat(), "");
    assert_eq!(ran.code, 0, "{args:?}: {}", ran.stderr);
    let said = ran.stdout.split_once(": ").expect("a name and what it shows").1.trim().to_owned();
    (std::fs::read_to_string(out).expect("a picture"), said)
}

fn count(text: &str, what: &str) -> usize {
    text.matches(what).count()
}

#[test]
fn every_form_of_machine_has_its_nodes() {
    // Shape, devices, switches, links.
    for (shape, devices, switches, links) in [
        ("ring(8)", 8, 0, 16),
        ("full(5)", 5, 0, 20),
        ("torus(3,4)", 12, 0, 48),
        ("torus(3,3,3)", 27, 0, 162),
        ("mesh(2,3)", 6, 0, 14),
        ("mesh(20)", 20, 0, 38),
        ("hypercube(3)", 8, 0, 24),
        ("hypercube(5)", 32, 0, 160),
        ("switch(6)", 6, 1, 12),
        ("tree(2,3)", 8, 7, 28),
        ("tree(4,3)", 64, 21, 168),
        ("hierarchy(full(4),ring(3))", 12, 0, 60),
        ("hierarchy(full(2),switch(8))", 16, 2, 48),
    ] {
        let (text, said) = svg(&["plot", "topology", shape]);
        assert_eq!(said, format!("{} nodes and {links} directed links", devices + switches), "{shape}");
        assert_eq!(count(&text, "<circle"), devices, "{shape}");
        assert!(text.contains("square: switch") == (switches > 0), "{shape}");
    }
}

/// A link around a torus is drawn as two stubs, so each adds a line.
#[test]
fn links_around_are_stubs() {
    let (torus, _) = svg(&["plot", "topology", "torus(4,5)"]);
    let (mesh, _) = svg(&["plot", "topology", "mesh(4,5)"]);
    assert!(torus.contains("stubs at the edge") && !mesh.contains("stubs at the edge"));
    assert_eq!(count(&torus, "<line") - count(&mesh, "<line"), 2 * 2 * (4 + 5));
}

#[test]
fn every_machine_of_the_repository_is_drawn() {
    let mut seen = 0;
    for entry in std::fs::read_dir(root().join("specs/topologies")).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.to_string_lossy().into_owned();
        let shape = std::fs::read_to_string(&path).expect("a file");
        // Settings alone have no shape to draw.
        if !["shape:", "links:", "sips:"].iter().any(|w| shape.contains(w)) {
            continue;
        }
        seen += 1;
        svg(&["plot", "topology", &name]);
    }
    assert!(seen >= 8, "{seen}");
}

#[test]
fn use_is_that_of_the_report() {
    let of = ["specs/all_reduce.kb", "-D", "tp=8", "-D", "n=65536", "--topology", "torus(2,4)"];
    let (text, said) = svg(&[&["plot", "links"], &of[..]].concat());
    let report = kbc(root(), &[&["explain", "links"], &of[..], &["--format", "json"]].concat(), "").stdout;
    let report: serde_json::Value = serde_json::from_str(&report).expect("JSON");
    let links = report["links"].as_array().expect("links");
    let most = links.iter().filter_map(|l| l["use_percent"].as_f64()).fold(0.0, f64::max);
    assert!(said.contains(&format!("{most:.1} % of the time")), "{said}: {most}");
    assert!(text.contains(&said["8 nodes and 24 directed links; ".len()..].replace("->", "-&gt;")), "{said}");
    let (again, _) = svg(&[&["plot", "links"], &of[..]].concat());
    assert_eq!(text, again);
}

/// A package is drawn by cubes: 96 and six IO nodes, and the busiest links are between SIPs.
#[test]
fn packages_are_drawn_by_cubes() {
    let (text, said) = svg(&["plot", "links", "specs/kernbench/centre_root.kb"]);
    assert!(said.starts_with("102 nodes and 498 directed links; busiest: io(0,0)->io(0,1)"), "{said}");
    assert_eq!(count(&text, "<circle"), 96);
    assert_eq!(count(&text, ">io</text>"), 6);
}

#[test]
fn a_png_is_one_and_a_failure_leaves_nothing() {
    let scratch = Scratch::new();
    let ran = kbc(scratch.path(), &["plot", "topology", "ring(4)", "-o", "a.png", "--theme", "dark"], "");
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let bytes = std::fs::read(scratch.path().join("a.png")).expect("a picture");
    assert!(bytes.starts_with(b"\x89PNG\r\n\x1a\n"));
    assert_eq!(u32::from_be_bytes(bytes[16..20].try_into().expect("four bytes")), 1600);
    for (shape, out) in [("ring(4)", "b.gif"), ("torus(64,64)", "b.svg"), ("full(65536)", "b.svg")] {
        assert_ne!(kbc(scratch.path(), &["plot", "topology", shape, "-o", out], "").code, 0);
    }
    let names = std::fs::read_dir(scratch.path()).expect("a folder");
    let names: Vec<String> =
        names.map(|e| e.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
    // The folder has a link to specs, and no partially written file.
    assert!(names.iter().all(|n| n == "a.png" || n == "specs"), "{names:?}");
}

/// A tree of a machine without switches has one link less than nodes, whatever its number.
#[test]
fn trees_reach_every_node_once() {
    for (collective, machine, nodes, trees) in [
        ("broadcast", "mesh(3,3)", 9, 1),
        ("all_gather", "torus(2,3)", 6, 6),
        ("all_reduce", "full(4)", 4, 4),
    ] {
        let file = format!("specs/{collective}.kb");
        for tree in 1..=trees {
            let number = tree.to_string();
            let (text, said) =
                svg(&["plot", "tree", &file, "--topology", machine, "--using", "packed", "--tree", &number]);
            let end = format!("; a tree of {} links and ", nodes - 1);
            assert!(said.contains(&end), "{machine}, tree {tree}: {said}");
            assert!(text.contains(&format!("tree {tree} of ")), "{machine}, tree {tree}");
            assert_eq!(count(&text, "stroke-width=\"3.6\""), 1, "{machine}, tree {tree}: one root");
        }
    }
}
