//! Scopes: values of names, visible functions, and the message about an unknown name.

use std::sync::Arc;

use kbc_diag::nearest::nearest;
use kbc_diag::{Diagnostic, FileId, Span};

use crate::ast::{FnDecl, Ident};

/// An error to return; boxed because it is rare and large.
pub type Fault = Box<Diagnostic>;

/// The value of an expression.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Value {
    /// A 64-bit integer.
    Int(i64),
    /// A truth value.
    Bool(bool),
    /// A rank: one coordinate per axis, two or more.
    Rank(Arc<[i64]>),
    /// An algorithm, as the value of an algorithm-valued parameter.
    Alg(Arc<AlgRef>),
}

/// The name of an algorithm, and the file in whose scope it is looked up. The collective is known
/// only where the algorithm is applied.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct AlgRef {
    /// The name as written.
    pub name: String,
    /// The file that contains it.
    pub file: FileId,
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Value::Int(i) => write!(f, "{i}"),
            Value::Bool(b) => write!(f, "{b}"),
            Value::Rank(c) => {
                let parts: Vec<String> = c.iter().map(i64::to_string).collect();
                write!(f, "({})", parts.join(", "))
            }
            Value::Alg(a) => f.write_str(&a.name),
        }
    }
}

/// The values of names, in some domain of values.
pub trait Scope<V = Value> {
    /// Returns the value of a name.
    fn lookup(&self, name: &str) -> Option<V>;
    /// Returns all names, for messages.
    fn names(&self) -> Vec<String>;
}

/// The functions that are visible from a file.
pub trait Functions {
    /// Returns the function with that name, as seen from the file of `name`.
    fn function(&self, name: &Ident) -> Option<&FnDecl>;
    /// Returns E005 for a name that no visible function has. `more` are further names that are
    /// valid at that place.
    fn unknown_function(&self, name: &Ident, more: &[String]) -> Fault;
    /// Returns the value of the parameter with this name, as seen from the file of `span`, where
    /// the name is used. Returns None if the file sees no such parameter.
    ///
    /// # Errors
    /// Returns the errors of the parameter, and E010 if its value is not an integer.
    fn parameter(&self, name: &str, span: Span) -> Option<Result<i64, Fault>>;
    /// Returns all parameters that are visible from a file, for messages.
    fn parameter_names(&self, from: FileId) -> Vec<String>;
}

/// The value of a parameter of a file (`param`) as functions and algorithms see it.
#[derive(Clone, PartialEq, Debug)]
pub enum Parameter {
    /// The file declares it. Its value is not known yet.
    Declared,
    /// An integer.
    Int(i64),
    /// Something else, in words: `the number 0.5`.
    Other(String),
}

/// Makes the error for a parameter that is used as an integer and is something else.
pub fn not_an_integer(name: &str, what: &str, span: Span) -> Fault {
    Box::new(
        Diagnostic::error("E010", format!("expected an integer; the parameter `{name}` is {what}"))
            .primary(span, "used here"),
    )
}

/// The simplest scope: a list in which the last entry of a name counts.
#[derive(Clone, Debug, Default)]
pub struct ListScope(pub Vec<(String, Value)>);

impl<V: Clone> Scope<V> for Vec<(String, V)> {
    fn lookup(&self, name: &str) -> Option<V> {
        self.iter().rev().find(|(n, _)| n == name).map(|(_, v)| v.clone())
    }
    fn names(&self) -> Vec<String> {
        self.iter().map(|(n, _)| n.clone()).collect()
    }
}

impl Scope for ListScope {
    fn lookup(&self, name: &str) -> Option<Value> {
        self.0.lookup(name)
    }
    fn names(&self) -> Vec<String> {
        self.0.names()
    }
}

impl std::hash::Hash for Value {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        match self {
            Value::Int(i) => i.hash(state),
            Value::Bool(b) => b.hash(state),
            Value::Rank(c) => c.hash(state),
            Value::Alg(a) => a.name.hash(state),
        }
    }
}

/// Makes the error for an unknown name, with the valid names and the nearest of them.
pub fn unknown(code: &'static str, what: &str, name: &str, span: Span, valid: &[String]) -> Fault {
    let mut sorted: Vec<&str> = valid.iter().map(String::as_str).collect();
    sorted.sort_unstable();
    sorted.dedup();
    let mut d = Diagnostic::error(code, format!("unknown {what} `{name}`")).primary(span, "not known here");
    d = if sorted.is_empty() {
        d.note(format!("no {what} is declared here"))
    } else {
        d.note(format!("valid: {}", sorted.join(", ")))
    };
    if let Some(n) = nearest(name, sorted.iter().copied()) {
        d = d.help(format!("did you mean `{n}`?"));
    }
    Box::new(d)
}

/// Describes a wrong number of arguments.
pub(crate) fn arguments(name: &str, wanted: usize, got: usize) -> String {
    format!("`{name}` takes {wanted} argument{}, not {got}", if wanted == 1 { "" } else { "s" })
}
