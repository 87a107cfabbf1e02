//! Fields of JSON compared with the page that documents them: the documented fields, and those of a
//! value.

use crate::common::root;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Returns the documented fields of a page with their types.
pub fn documented(page: &str) -> BTreeMap<String, String> {
    let text = std::fs::read_to_string(root().join(page)).expect("the page");
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

/// Collects the fields of a value with the kinds of their values.
pub fn fields(v: &Value, prefix: &str, out: &mut BTreeMap<String, BTreeSet<&'static str>>) {
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
