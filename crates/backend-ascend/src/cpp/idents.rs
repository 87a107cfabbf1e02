//! C++ identifiers for the names of the IR, and their scopes.
//!
//! The module makes identifiers legal and distinct. A name that is taken, or that the text itself
//! uses, gets a suffix.

use crate::profile::known;
use kbc_ir::interval::Interval;
use kbc_ir::name::Name;
use std::collections::{BTreeMap, BTreeSet};

/// The variables of an expression: their names in the text and their ranges.
pub trait Vars {
    /// Returns the name of a variable in the text.
    fn ident(&self, name: &Name) -> String;
    /// Returns the bounds of a variable.
    fn range(&self, name: &Name) -> Interval;
    /// Returns the name of a table in the text: a pointer to `int32_t`.
    fn table(&self, name: &Name) -> String;
}

/// Variables with the names of the IR; their ranges follow from the names alone.
pub struct Plain;

impl Vars for Plain {
    fn ident(&self, name: &Name) -> String {
        plain(name)
    }
    fn range(&self, name: &Name) -> Interval {
        known(name)
    }
    fn table(&self, name: &Name) -> String {
        plain(name)
    }
}

/// Keywords of C++17 and of Python, and identifiers that the printed text uses itself.
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
    "completion",
    "ctx",
    "window",
    "memory",
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

/// Turns a hint into a legal identifier, which need not be distinct from others.
pub fn plain(hint: &str) -> String {
    let mut out: String =
        hint.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' }).collect();
    // C++ reserves names with two consecutive underscores, and those that begin with an underscore
    // and a capital.
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
    // Helpers, constants and instructions begin with a capital letter, or with `k` and a capital.
    let capital = |c: Option<char>| c.is_some_and(|c| c.is_ascii_uppercase());
    if capital(first) || (first == Some('k') && capital(out.chars().nth(1))) {
        return format!("v_{out}");
    }
    out.to_string()
}

/// The visible names, the innermost last.
#[derive(Default)]
pub(super) struct Scope {
    seen: Vec<(Name, String, Interval)>,
    taken: BTreeSet<String>,
    pub tables: BTreeMap<Name, String>,
}

impl Scope {
    /// Returns a legal identifier that no visible name has.
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

    /// Declares a variable that is visible from here on, and returns its identifier.
    pub fn declare(&mut self, name: &Name, range: Interval) -> String {
        let ident = self.fresh(name);
        self.seen.push((name.clone(), ident.clone(), range));
        ident
    }

    /// Returns a mark to which [`Scope::leave`] returns.
    pub fn enter(&self) -> (usize, BTreeSet<String>) {
        (self.seen.len(), self.taken.clone())
    }

    /// Forgets what was declared since the mark.
    pub fn leave(&mut self, mark: (usize, BTreeSet<String>)) {
        self.seen.truncate(mark.0);
        self.taken = mark.1;
    }

    /// Returns the identifier of a visible variable.
    pub fn find(&self, name: &Name) -> Option<&str> {
        self.seen.iter().rev().find(|s| s.0 == *name).map(|s| s.1.as_str())
    }
}

impl Vars for Scope {
    fn ident(&self, name: &Name) -> String {
        self.find(name).map_or_else(|| plain(name), str::to_string)
    }
    fn range(&self, name: &Name) -> Interval {
        self.seen.iter().rev().find(|s| s.0 == *name).map_or_else(|| known(name), |s| s.2)
    }
    fn table(&self, name: &Name) -> String {
        self.tables.get(name).cloned().unwrap_or_else(|| plain(name))
    }
}
