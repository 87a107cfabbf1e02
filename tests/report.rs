//! docs/report.md and real reports have the same fields, of the documented types.

mod common;

use common::{Scratch, root};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The documented fields with their types.
fn documented() -> BTreeMap<String, String> {
    let text = std::fs::read_to_string(root().join("docs/report.md")).expect("the page");
    let mut out = BTreeMap::new();
    for line in text.lines().filter(|l| l.starts_with("| `")) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        for name in cells[1].split(", ") {
            let old = out.insert(name.trim_matches('`').to_owned(), cells[2].to_owned());
            assert!(old.is_none(), "{name} is documented twice");
        }
        assert!(!cells[3].is_empty(), "{line}");
    }
    out
}

/// The fields of a value with the kinds of their values.
fn fields(v: &Value, prefix: &str, out: &mut BTreeMap<String, BTreeSet<&'static str>>) {
    match v {
        Value::Object(map) => {
            for (name, v) in map {
                let name = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
                let kind = match v {
                    Value::Null => "null",
                    Value::Bool(_) => "boolean",
                    Value::Number(_) => "number",
                    Value::String(_) => "string",
                    Value::Array(_) => "list",
                    Value::Object(_) => "object",
                };
                out.entry(name.clone()).or_default().insert(kind);
                fields(v, &name, out);
            }
        }
        Value::Array(list) => list.iter().for_each(|v| fields(v, prefix, out)),
        _ => {}
    }
}

#[test]
fn the_page_and_the_reports_agree() {
    let scratch = Scratch::new();
    let mut found = BTreeMap::new();
    // Together they have every part; the last one's stored result is another one.
    let other = "topology sys = ring(2)\nmesh m = sys[tp]\n\nprogram p(x: f32[384] = ones()) -> f32[384] { x }\n\
        expect \"specs/minilm/ffn.npz\":b2\n";
    scratch.write("other.kb", other.as_bytes());
    for (name, from) in [
        ("host.kir", "a_second_drain_is_a_no_op.kir"),
        ("fails.kir", "the_rank_to_blame_comes_before_those_aborted_because_of_it.kir"),
    ] {
        scratch.write(name, &std::fs::read(root().join("tests/exec").join(from)).expect(from));
    }
    for (command, code) in [
        ("compile specs/ffn_tp.kb", 0),
        ("compile specs/all_gather.kb", 0),
        ("compile specs/all_reduce.kb -D tp=1", 0),
        ("check specs/lib/doubling.kb", 0),
        ("check specs/all_to_all.kb", 0),
        ("run specs/reduce_scatter.kb --adversarial --seeds 1", 0),
        ("run specs/broadcast.kb --no-data", 0),
        ("run host.kir", 0),
        ("run fails.kir", 1),
        ("run specs/broadcast.kb --no-data --perturb '{stragglers: [{share: 100%, late: 1 us}]}'", 0),
        ("explain path specs/ffn_tp.kb", 0),
        ("explain links specs/all_gather.kb", 0),
        ("compile other.kb", 1),
    ] {
        let ran = scratch.line(&format!("kbc {command} --report json"));
        assert_eq!(ran.code, code, "{command}\n{}", ran.stderr);
        let report = serde_json::from_str(&ran.stdout).expect("one object");
        fields(&report, "", &mut found);
    }
    let page = documented();
    let missing: Vec<_> = found.keys().filter(|f| !page.contains_key(*f)).collect();
    let unknown: Vec<_> = page.keys().filter(|f| !found.contains_key(*f)).collect();
    assert!(
        missing.is_empty() && unknown.is_empty(),
        "not on the page: {missing:?}; in no report: {unknown:?}"
    );
    for (name, kinds) in found {
        for kind in kinds {
            assert!(
                page[&name].split(" or ").any(|k| k == kind),
                "{name} is {kind}, the page says {}",
                page[&name]
            );
        }
    }
}
