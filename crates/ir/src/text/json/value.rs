//! JSON values and schemas: the tree, its text, and the two macros that make both from one list of
//! fields.

use super::Names;
use std::collections::BTreeMap;
use std::fmt;

/// A JSON value. Keys keep their order.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Json {
    Null,
    Bool(bool),
    Int(i128),
    Float(f64),
    Text(String),
    List(Vec<Json>),
    Object(Vec<(&'static str, Json)>),
}

impl Json {
    pub(super) fn text(s: impl Into<String>) -> Json {
        Json::Text(s.into())
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Json::Null => f.write_str("null"),
            Json::Bool(v) => write!(f, "{v}"),
            Json::Int(v) => write!(f, "{v}"),
            Json::Float(v) => write!(f, "{v:?}"),
            Json::Text(s) => quoted(s, f),
            Json::List(list) => {
                f.write_str("[")?;
                for (i, v) in list.iter().enumerate() {
                    write!(f, "{}{v}", if i > 0 { ", " } else { "" })?;
                }
                f.write_str("]")
            }
            Json::Object(list) => {
                f.write_str("{")?;
                for (i, (key, v)) in list.iter().enumerate() {
                    f.write_str(if i > 0 { ", " } else { "" })?;
                    quoted(key, f)?;
                    write!(f, ": {v}")?;
                }
                f.write_str("}")
            }
        }
    }
}

fn quoted(s: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str("\"")?;
    for c in s.chars() {
        match c {
            '"' => f.write_str("\\\"")?,
            '\\' => f.write_str("\\\\")?,
            '\n' => f.write_str("\\n")?,
            c if (c as u32) < 0x20 => write!(f, "\\u{:04x}", c as u32)?,
            c => write!(f, "{c}")?,
        }
    }
    f.write_str("\"")
}

/// Definitions of a schema, by name.
#[derive(Default)]
pub(super) struct Definitions {
    pub(super) list: BTreeMap<&'static str, Json>,
}

impl Definitions {
    /// Returns a reference to a definition, which is made on the first use of its name.
    pub(super) fn define(&mut self, name: &'static str, make: impl FnOnce(&mut Definitions) -> Json) -> Json {
        if !self.list.contains_key(name) {
            // The definition may refer to itself.
            self.list.insert(name, Json::Null);
            let schema = make(self);
            self.list.insert(name, schema);
        }
        Json::Object(vec![("$ref", Json::text(format!("#/$defs/{name}")))])
    }
}

/// Something of a module that is written as JSON.
pub(super) trait Wire {
    /// Returns the value.
    fn json(&self, n: &Names) -> Json;
    /// Returns the schema of all values.
    fn schema(d: &mut Definitions) -> Json;
}

/// Returns the schema of an object with exactly these keys. The first key may be a word that says
/// which alternative the object is.
pub(super) fn object_schema(tag: Option<(&'static str, &str)>, fields: Vec<(&'static str, Json)>) -> Json {
    let word = |(key, word): (&'static str, &str)| (key, Json::Object(vec![("const", Json::text(word))]));
    let properties: Vec<(&'static str, Json)> = tag.map(word).into_iter().chain(fields).collect();
    let required = properties.iter().map(|(key, _)| Json::text(*key)).collect();
    Json::Object(vec![
        ("type", Json::text("object")),
        ("properties", Json::Object(properties)),
        ("required", Json::List(required)),
        ("additionalProperties", Json::Bool(false)),
    ])
}

/// Returns the schema of one of several alternatives.
pub(super) fn one_of(list: Vec<Json>) -> Json {
    Json::Object(vec![("oneOf", Json::List(list))])
}

pub(super) fn typed(name: &'static str) -> Json {
    Json::Object(vec![("type", Json::text(name))])
}

/// Returns the schema of one of several words.
pub(super) fn words(list: impl IntoIterator<Item = &'static str>) -> Json {
    Json::Object(vec![("enum", Json::List(list.into_iter().map(Json::text).collect()))])
}

/// Writes a struct as an object. The pattern has all fields, so a new field must be dealt with.
macro_rules! object {
    ($ty:ty, $title:literal, $n:ident, $pat:pat => { $($key:literal: $t:ty = $e:expr),* $(,)? }) => {
        impl Wire for $ty {
            fn json(&self, $n: &Names) -> Json {
                let $pat = self;
                Json::Object(vec![$(($key, <$t as Wire>::json($e, $n))),*])
            }
            fn schema(d: &mut Definitions) -> Json {
                d.define($title, |d| object_schema(None, vec![$(($key, <$t as Wire>::schema(d))),*]))
            }
        }
    };
}

/// Writes an enum as an object whose first key says which variant it is. The match has all
/// variants, and the patterns all fields.
macro_rules! choice {
    ($ty:ty, $title:literal, $n:ident, $tag:literal {
        $($word:literal => $pat:pat => { $($key:literal: $t:ty = $e:expr),* $(,)? }),* $(,)?
    }) => {
        impl Wire for $ty {
            fn json(&self, $n: &Names) -> Json {
                match self {
                    $($pat => Json::Object(vec![
                        ($tag, Json::text($word)),
                        $(($key, <$t as Wire>::json($e, $n))),*
                    ])),*
                }
            }
            fn schema(d: &mut Definitions) -> Json {
                d.define($title, |d| one_of(vec![
                    $(object_schema(Some(($tag, $word)), vec![$(($key, <$t as Wire>::schema(d))),*])),*
                ]))
            }
        }
    };
}

pub(super) use {choice, object};

macro_rules! integers {
    ($($ty:ty: $least:expr),*) => {
        $(impl Wire for $ty {
            fn json(&self, _: &Names) -> Json {
                Json::Int(*self as i128)
            }
            fn schema(_: &mut Definitions) -> Json {
                let least: Option<i128> = $least;
                let least = least.map(|v| ("minimum", Json::Int(v)));
                Json::Object([("type", Json::text("integer"))].into_iter().chain(least).collect())
            }
        })*
    };
}
integers!(u32: Some(0), u64: Some(0), usize: Some(0), i64: None);

impl Wire for f64 {
    fn json(&self, _: &Names) -> Json {
        // JSON has no such numbers.
        match self.is_finite() {
            true => Json::Float(*self),
            false if self.is_nan() => Json::text("NaN"),
            false => Json::text(if *self > 0.0 { "inf" } else { "-inf" }),
        }
    }
    fn schema(d: &mut Definitions) -> Json {
        d.define("number", |_| one_of(vec![typed("number"), words(["inf", "-inf", "NaN"])]))
    }
}

impl Wire for bool {
    fn json(&self, _: &Names) -> Json {
        Json::Bool(*self)
    }
    fn schema(_: &mut Definitions) -> Json {
        typed("boolean")
    }
}

impl Wire for String {
    fn json(&self, _: &Names) -> Json {
        Json::text(self)
    }
    fn schema(_: &mut Definitions) -> Json {
        typed("string")
    }
}

impl Wire for crate::name::Name {
    fn json(&self, _: &Names) -> Json {
        Json::text(self.as_str())
    }
    fn schema(_: &mut Definitions) -> Json {
        typed("string")
    }
}

impl<T: Wire> Wire for Option<T> {
    fn json(&self, n: &Names) -> Json {
        self.as_ref().map_or(Json::Null, |v| v.json(n))
    }
    fn schema(d: &mut Definitions) -> Json {
        one_of(vec![T::schema(d), typed("null")])
    }
}

impl<T: Wire> Wire for Box<T> {
    fn json(&self, n: &Names) -> Json {
        (**self).json(n)
    }
    fn schema(d: &mut Definitions) -> Json {
        T::schema(d)
    }
}

impl<T: Wire> Wire for std::sync::Arc<T> {
    fn json(&self, n: &Names) -> Json {
        (**self).json(n)
    }
    fn schema(d: &mut Definitions) -> Json {
        T::schema(d)
    }
}

impl<T: Wire> Wire for Vec<T> {
    fn json(&self, n: &Names) -> Json {
        Json::List(self.iter().map(|v| v.json(n)).collect())
    }
    fn schema(d: &mut Definitions) -> Json {
        Json::Object(vec![("type", Json::text("array")), ("items", T::schema(d))])
    }
}

impl Wire for (u64, u64) {
    fn json(&self, n: &Names) -> Json {
        vec![self.0, self.1].json(n)
    }
    fn schema(d: &mut Definitions) -> Json {
        <Vec<u64>>::schema(d)
    }
}
