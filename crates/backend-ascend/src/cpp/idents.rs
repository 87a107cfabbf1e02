//! Names of C++: what hints of the IR are called in the text, and which are visible where.
//!
//! Owns legal and distinct names. A name that is taken, or that the text uses itself, gets a number behind it.

use super::expr::Vars;
use crate::range::{Range, known};
use kbc_ir::name::Name;
use std::collections::{BTreeMap, BTreeSet};

/// Keywords of C++17 and of Python, and what the printed text uses itself.
const TAKEN: &[&str] = &[
    "alignas",
    "alignof",
    "and",
    "and_eq",
    "as",
    "asm",
    "assert",
    "async",
    "auto",
    "await",
    "bitand",
    "bitor",
    "bool",
    "break",
    "case",
    "catch",
    "char",
    "class",
    "compl",
    "concept",
    "const",
    "constexpr",
    "continue",
    "co_await",
    "co_return",
    "co_yield",
    "decltype",
    "def",
    "default",
    "del",
    "delete",
    "do",
    "double",
    "elif",
    "else",
    "enum",
    "except",
    "explicit",
    "export",
    "extern",
    "false",
    "finally",
    "float",
    "for",
    "friend",
    "from",
    "global",
    "goto",
    "half",
    "if",
    "import",
    "in",
    "inline",
    "int",
    "is",
    "lambda",
    "long",
    "mutable",
    "namespace",
    "new",
    "noexcept",
    "nonlocal",
    "not",
    "not_eq",
    "nullptr",
    "operator",
    "or",
    "or_eq",
    "pass",
    "private",
    "protected",
    "public",
    "raise",
    "register",
    "requires",
    "return",
    "short",
    "signed",
    "sizeof",
    "static",
    "struct",
    "switch",
    "template",
    "this",
    "throw",
    "true",
    "try",
    "typedef",
    "typeid",
    "typename",
    "union",
    "unsigned",
    "using",
    "virtual",
    "void",
    "volatile",
    "wchar_t",
    "while",
    "with",
    "xor",
    "xor_eq",
    "yield",
    "None",
    "True",
    "False",
    "args",
    "ctx",
    "window",
    "status",
    "tables",
    "error",
    "detail",
    "window_bytes",
    "room",
    "pto",
    "dcci",
    "dsb",
    "set_flag",
    "wait_flag",
    "pipe_barrier",
    "kernel_entry",
    "bfloat16_t",
    "Tensor",
    "abs",
    "min",
    "max",
    "bin",
    "len",
];

/// A hint as a legal name, not yet told apart from others.
pub fn plain(hint: &str) -> String {
    let mut out: String =
        hint.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' }).collect();
    // Names with two underscores, and with one before a capital, are the compiler's.
    while out.contains("__") {
        out = out.replace("__", "_");
    }
    let out = out.trim_start_matches('_');
    let first = out.chars().next();
    if first.is_none_or(|c| c.is_ascii_digit()) {
        return format!("v{out}");
    }
    if TAKEN.contains(&out) {
        return format!("{out}_");
    }
    // Helpers, constants and instructions begin with a capital or a `k` and a capital.
    let capital = |c: Option<char>| c.is_some_and(|c| c.is_ascii_uppercase());
    if capital(first) || (first == Some('k') && capital(out.chars().nth(1))) {
        return format!("v_{out}");
    }
    out.to_string()
}

/// The names that are visible, innermost last.
#[derive(Default)]
pub(super) struct Scope {
    seen: Vec<(Name, String, Range)>,
    taken: BTreeSet<String>,
    pub tables: BTreeMap<Name, String>,
}

impl Scope {
    /// A legal name that nothing visible has.
    pub fn fresh(&mut self, hint: &str) -> String {
        let base = plain(hint);
        let mut out = base.clone();
        let mut n = 2;
        while !self.taken.insert(out.clone()) {
            out = format!("{}_{n}", base.trim_end_matches('_'));
            n += 1;
        }
        out
    }

    /// A variable from here on.
    pub fn declare(&mut self, name: &Name, range: Range) -> String {
        let ident = self.fresh(name);
        self.seen.push((name.clone(), ident.clone(), range));
        ident
    }

    /// What [`Scope::leave`] goes back to.
    pub fn enter(&self) -> (usize, BTreeSet<String>) {
        (self.seen.len(), self.taken.clone())
    }

    /// Forgets what was declared since.
    pub fn leave(&mut self, mark: (usize, BTreeSet<String>)) {
        self.seen.truncate(mark.0);
        self.taken = mark.1;
    }

    /// A variable that is visible.
    pub fn find(&self, name: &Name) -> Option<&str> {
        self.seen.iter().rev().find(|s| s.0 == *name).map(|s| s.1.as_str())
    }
}

impl Vars for Scope {
    fn ident(&self, name: &Name) -> String {
        self.find(name).map_or_else(|| plain(name), str::to_string)
    }
    fn range(&self, name: &Name) -> Range {
        self.seen.iter().rev().find(|s| s.0 == *name).map_or_else(|| known(name), |s| s.2)
    }
    fn table(&self, name: &Name) -> String {
        self.tables.get(name).cloned().unwrap_or_else(|| plain(name))
    }
}
