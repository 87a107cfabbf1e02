//! Names in `.kb` text: what a name may be, and names that differ from all others.

use std::collections::{BTreeMap, BTreeSet};

/// Words that cannot be names of values.
const RESERVED: [&str; 52] = [
    "algorithm",
    "apply",
    "at",
    "chunks",
    "collective",
    "dot",
    "each",
    "else",
    "end",
    "expect",
    "false",
    "fn",
    "for",
    "from",
    "get",
    "group",
    "host",
    "if",
    "in",
    "kernel",
    "let",
    "load",
    "local",
    "mesh",
    "mod",
    "of",
    "on",
    "only",
    "over",
    "param",
    "partial",
    "preload",
    "program",
    "put",
    "ranks",
    "reduce",
    "return",
    "scratch",
    "start",
    "store",
    "sum",
    "tiles",
    "to",
    "together",
    "topology",
    "true",
    "use",
    "using",
    "where",
    "zeros",
    "sys",
    "m",
];

/// Turns a word into a name: characters that a name cannot have become `_`.
pub fn word(text: &str) -> String {
    let mut out: String = text
        .trim_start_matches('_')
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' })
        .collect();
    if !out.starts_with(|c: char| c.is_ascii_alphabetic()) {
        out.insert(0, 'v');
    }
    if RESERVED.contains(&out.as_str()) || kbc_ir::types::DType::parse(&out).is_some() {
        out.push('_');
    }
    out
}

/// The names that are in use.
#[derive(Clone, Default, Debug)]
pub struct Names {
    taken: BTreeSet<String>,
    /// For names requested more than once, the first number that may be free.
    next: BTreeMap<String, usize>,
}

impl Names {
    /// Reserves a name, or a similar one if it is in use.
    pub fn take(&mut self, text: &str) -> String {
        let base = word(text);
        if self.taken.insert(base.clone()) {
            return base;
        }
        let k = self.next.entry(base.clone()).or_insert(1);
        loop {
            let out = format!("{base}_{k}");
            *k += 1;
            if self.taken.insert(out.clone()) {
                return out;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_names() {
        assert_eq!(word("layer.0.weight"), "layer_0_weight");
        assert_eq!(word("where"), "where_");
        assert_eq!(word("0"), "v0");
        let mut n = Names::default();
        assert_eq!([n.take("x"), n.take("x"), n.take("x_1")], ["x", "x_1", "x_1_1"]);
    }
}
