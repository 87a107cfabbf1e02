//! Validator of JSON values against a schema: the part of JSON Schema that `docs/kir.schema.json`
//! uses. A keyword that it does not know is an error.

use serde_json::Value;

/// Checks a value against a schema with its definitions.
pub fn validate(schema: &Value, value: &Value) -> Result<(), String> {
    check(schema, schema, value, "$")
}

fn check(root: &Value, schema: &Value, value: &Value, at: &str) -> Result<(), String> {
    let Some(keywords) = schema.as_object() else { return Err(format!("{at}: the schema is no object")) };
    for (keyword, want) in keywords {
        let good = match keyword.as_str() {
            "$schema" | "title" | "$defs" => true,
            "$ref" => {
                let name = want.as_str().and_then(|r| r.strip_prefix("#/$defs/")).unwrap_or_default();
                let Some(to) = root["$defs"].get(name) else {
                    return Err(format!("{at}: no definition {want}"));
                };
                check(root, to, value, at)?;
                true
            }
            "const" => value == want,
            "enum" => want.as_array().is_some_and(|list| list.contains(value)),
            "minimum" => value.as_f64() >= want.as_f64(),
            "type" => match want {
                Value::Array(list) => list.iter().any(|t| is(t, value)),
                one => is(one, value),
            },
            "items" => {
                for (i, v) in value.as_array().into_iter().flatten().enumerate() {
                    check(root, want, v, &format!("{at}[{i}]"))?;
                }
                true
            }
            "properties" => {
                for (key, v) in value.as_object().into_iter().flatten() {
                    if let Some(schema) = want.get(key) {
                        check(root, schema, v, &format!("{at}.{key}"))?;
                    }
                }
                true
            }
            "required" => {
                let keys = want.as_array().into_iter().flatten().filter_map(Value::as_str);
                keys.into_iter().all(|key| value.get(key).is_some())
            }
            "additionalProperties" => {
                let known = schema["properties"].as_object();
                let mut keys = value.as_object().into_iter().flatten().map(|(key, _)| key);
                *want == Value::Bool(false) && keys.all(|key| known.is_some_and(|k| k.contains_key(key)))
            }
            "oneOf" => {
                let list = want.as_array().map(Vec::as_slice).unwrap_or_default();
                let results: Vec<_> = list.iter().map(|s| check(root, s, value, at)).collect();
                if results.iter().filter(|r| r.is_ok()).count() != 1 {
                    return Err(format!("{at}: not one of {} alternatives: {results:?}", results.len()));
                }
                true
            }
            _ => return Err(format!("{at}: the validator does not know `{keyword}`")),
        };
        if !good {
            return Err(format!("{at}: {keyword} {want} does not hold for {value}"));
        }
    }
    Ok(())
}

fn is(name: &Value, value: &Value) -> bool {
    match name.as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("boolean") => value.is_boolean(),
        Some("null") => value.is_null(),
        Some("number") => value.is_number(),
        Some("integer") => value.is_i64() || value.is_u64(),
        _ => false,
    }
}
