//! Words of C: the names of a kernel, which of them are in scope, types, comments and strings.

use super::expr::Named;
use kbc_ir::name::Name;
use kbc_ir::types::DType;

/// Words that a name of a kernel may not be in C: keywords, and names of the printed text and of
/// the headers that it includes.
const TAKEN: &[&str] = &[
    "auto",
    "break",
    "case",
    "char",
    "const",
    "continue",
    "default",
    "do",
    "double",
    "else",
    "enum",
    "extern",
    "float",
    "for",
    "goto",
    "if",
    "inline",
    "int",
    "long",
    "register",
    "restrict",
    "return",
    "short",
    "signed",
    "sizeof",
    "static",
    "struct",
    "switch",
    "typedef",
    "union",
    "unsigned",
    "void",
    "volatile",
    "while",
    "bool",
    "true",
    "false",
    "main",
    "me",
    "tensors",
    "unix",
    "linux",
    "errno",
    "stdin",
    "stdout",
    "stderr",
    "alignas",
    "alignof",
    "nullptr",
    "constexpr",
    "typeof",
    "asm",
    "exp",
    "log",
    "index",
];

/// Returns a name with every character that C does not allow in identifiers replaced by `_`.
pub fn plain(name: &str) -> String {
    let mut out: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' }).collect();
    if out.is_empty() || out.starts_with(|c: char| c.is_ascii_digit()) {
        out.insert(0, '_');
    }
    out
}

/// Returns the C type of an element. Types without arithmetic in C are their bits.
pub fn ctype(dtype: DType) -> &'static str {
    match dtype {
        DType::F32 => "float",
        DType::F16 | DType::BF16 => "uint16_t",
        DType::I64 => "int64_t",
        DType::I32 => "int32_t",
        DType::I16 => "int16_t",
        DType::I8 => "int8_t",
        DType::U8 | DType::F8E4M3FN | DType::F8E5M2 => "uint8_t",
    }
}

/// Adds a comment. The end of a comment cannot be in it.
pub(super) fn comment(out: &mut String, text: &str) {
    let plain: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    *out += &format!("/* {} */\n", plain.replace("*/", "* /").replace("/*", "/ *"));
}

/// Prints a string literal of C.
pub fn literal(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            // A question mark could begin a trigraph.
            '?' => out += "\\?",
            c if c.is_ascii_graphic() || c == ' ' => out.push(c),
            c if c.is_control() => out.push(' '),
            c => c.encode_utf8(&mut [0; 4]).bytes().for_each(|b| out += &format!("\\{b:03o}")),
        }
    }
    out + "\""
}

/// Checks whether a text has an identifier as a word.
pub(super) fn mentions(text: &str, ident: &str) -> bool {
    let inner = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.match_indices(ident)
        .any(|(at, _)| !text[..at].ends_with(inner) && !text[at + ident.len()..].starts_with(inner))
}

/// Names in scope, each with its identifier. No two of them share one. Identifiers of loops and
/// declarations without a name of their own are in scope too.
#[derive(Default)]
pub struct Scope {
    visible: Vec<(Option<Name>, String)>,
    tables: Vec<(Name, String)>,
}

impl Scope {
    /// Returns an identifier that nothing else in scope has, and brings it into scope.
    pub fn fresh(&mut self, hint: &str) -> String {
        self.take(None, hint)
    }

    /// Brings a name into scope.
    pub fn declare(&mut self, name: &Name) -> String {
        self.take(Some(name.clone()), name)
    }

    /// Brings a table into scope, which may have the name of a variable.
    pub fn declare_table(&mut self, name: &Name) -> String {
        let ident = self.take(None, name);
        self.tables.push((name.clone(), ident.clone()));
        ident
    }

    fn take(&mut self, name: Option<Name>, hint: &str) -> String {
        let hint = plain(hint);
        // Identifiers of the headers begin with `kbc_` or are in capitals.
        let reserved = |n: &str| {
            let capitals = n.chars().all(|c| !c.is_ascii_lowercase());
            TAKEN.contains(&n) || n.starts_with("kbc_") || n.starts_with('_') || capitals || n.ends_with("_t")
        };
        let mut ident = hint.clone();
        let mut i = 2;
        while reserved(&ident) || self.visible.iter().any(|(_, other)| *other == ident) {
            ident = if reserved(&hint) { format!("v_{hint}_{i}") } else { format!("{hint}_{i}") };
            i += 1;
        }
        self.visible.push((name, ident.clone()));
        ident
    }

    /// Returns the identifier of a name.
    pub fn ident(&self, name: Named<'_>) -> String {
        let (found, name) = match name {
            Named::Variable(n) => {
                (self.visible.iter().rev().find(|(v, _)| v.as_ref() == Some(n)).map(|v| &v.1), n)
            }
            Named::Table(n) => (self.tables.iter().find(|(t, _)| t == n).map(|t| &t.1), n),
        };
        found.cloned().unwrap_or_else(|| plain(name))
    }

    /// Returns a mark for [`Scope::leave`].
    pub fn enter(&self) -> usize {
        self.visible.len()
    }

    /// Ends the scope of every name that was declared after the mark.
    pub fn leave(&mut self, mark: usize) {
        self.visible.truncate(mark);
    }
}
