//! Tests of modules as JSON: the schema in the documents is the one of the code, every module
//! follows it, and everything that the text says is in it.

use crate::validate::validate;
use kbc_diag::FileId;
use kbc_ir::optable::{Level, names};
use kbc_ir::text::{json, json_schema, parse};
use serde_json::Value;
use std::collections::BTreeSet;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/kir.schema.json");

fn schema() -> Value {
    serde_json::from_str(&json_schema()).expect("the schema is JSON")
}

/// The schema in the documents is that of the code. With `KBC_BLESS` set, it is written.
#[test]
fn the_schema_is_up_to_date() {
    if std::env::var_os("KBC_BLESS").is_some() {
        std::fs::write(PAGE, json_schema()).unwrap();
    }
    let page = std::fs::read_to_string(PAGE).unwrap_or_default();
    assert!(page == json_schema(), "docs/kir.schema.json is old; run this test with KBC_BLESS=1");
}

/// Collects the values of a key, at any depth.
fn each<'a>(key: &str, v: &'a Value, f: &mut impl FnMut(&'a Value)) {
    match v {
        Value::Object(map) => map.iter().for_each(|(k, v)| {
            if k == key {
                f(v);
            }
            each(key, v, f);
        }),
        Value::Array(list) => list.iter().for_each(|v| each(key, v, f)),
        _ => {}
    }
}

/// The operations of the schema are those of the tables. A copy of whole buffers has a name of its
/// own, because its sides are buffers, and a collective is a kind.
#[test]
fn the_schema_has_all_operations() {
    let schema = schema();
    for (level, definitions) in
        [(Level::Graph, vec!["graph_operation"]), (Level::Schedule, vec!["operation", "control"])]
    {
        let mut have: BTreeSet<String> = BTreeSet::new();
        for d in definitions {
            each("op", &schema["$defs"][d], &mut |v| have.extend(v["const"].as_str().map(str::to_owned)));
        }
        let mut want: BTreeSet<String> = names(level).map(str::to_owned).collect();
        if level == Level::Graph {
            for kind in schema["$defs"]["collective"]["enum"].as_array().unwrap() {
                assert!(want.remove(kind.as_str().unwrap()), "{kind} is no operation");
            }
            want.insert("collective".into());
        } else {
            want.insert("copy_buffer".into());
        }
        assert_eq!(have, want);
    }
}

#[test]
fn modules_follow_the_schema() {
    let schema = schema();
    let mut ops = BTreeSet::new();
    insta::glob!("kir/{good,graph,forms,check,queues}/*.kir", |path| {
        let text = std::fs::read_to_string(path).unwrap();
        let Ok(m) = parse(FileId(0), &text) else { return };
        let line = json(&m);
        assert_eq!(line.lines().count(), 1);
        let value: Value = serde_json::from_str(&line).unwrap_or_else(|e| panic!("{path:?}: {e}"));
        validate(&schema, &value).unwrap_or_else(|e| panic!("{path:?}: {e}"));
        each("op", &value, &mut |v| {
            ops.insert(v.as_str().unwrap_or_default().to_owned());
        });
        // A value that does not follow the schema is rejected.
        let mut other = value.clone();
        other["body"]["more"] = Value::Null;
        assert!(validate(&schema, &other).is_err());
    });
    assert!(ops.len() > 50, "{ops:?}");
}

#[test]
fn modules_as_json() {
    insta::glob!("kir/{graph/ffn_selected,good/shared_window}.kir", |path| {
        let text = std::fs::read_to_string(path).unwrap();
        let value: Value = serde_json::from_str(&json(&parse(FileId(0), &text).unwrap())).unwrap();
        insta::assert_snapshot!(serde_json::to_string_pretty(&value).unwrap());
    });
}
