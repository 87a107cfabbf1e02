//! Grid of the arguments with which an algorithm is checked.
//!
//! By default, the grid contains the default arguments and those of its clauses `check`; if it has
//! none, small values of every numeric parameter. If the command line
//! gives values, it contains all their combinations.

use crate::algorithm_request::AlgorithmRequest;
use kbc_diag::{Diagnostic, Diagnostics};
use kbc_passes::expand::Arg;
use kbc_rounds::ast::{AlgorithmDecl, Expr, ExprKind, Ident};
use kbc_rounds::claim::variants;
use kbc_rounds::eval::{AlgRef, ConcreteEvaluator, ListScope, Value};
use kbc_rounds::head::{algorithm_valued, unknown_parameter};
use kbc_rounds::options::{among_arguments, option_value};
use kbc_rounds::{AlgId, Library};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Values of a parameter that are tried by default.
const VALUES: [i64; 4] = [1, 2, 3, 4];

/// Largest number of combinations of values.
const MAX_COMBINATIONS: usize = 10_000;

/// Arguments of one call.
#[derive(Clone, Default, Debug)]
pub struct Setting {
    /// Arguments of the algorithm; the others have their defaults.
    pub args: Vec<(String, Value)>,
    /// Options of the use, which change the schedule and not the rounds.
    pub options: Vec<(String, Arg)>,
    /// Whether a clause `check` lists it.
    pub documented: bool,
    /// Whether it comes from the grid and not from the command line.
    pub tried: bool,
    /// The defaults that appear in messages about the grid.
    defaults: Vec<(String, i64)>,
}

impl Setting {
    /// Adds the arguments to messages.
    pub fn named(&self, mut d: Diagnostics) -> Diagnostics {
        let list: Vec<String> = self.args.iter().map(|(n, v)| format!("{n} = {}", shown(v))).collect();
        if !list.is_empty() {
            d.list.iter_mut().for_each(|e| e.notes.push(format!("with {}", list.join(", "))));
        }
        if self.tried {
            let note =
                "to exclude such arguments, write a `where`, or list the intended ones: `check name: value`";
            d.list.iter_mut().for_each(|e| e.notes.push(note.to_owned()));
        }
        d
    }

    /// Returns arguments and options in the form in which schedules are built. Returns None if an
    /// argument is an algorithm, because those are resolved in the file that declares them.
    pub fn schedule_args(&self) -> Option<(Given, Given)> {
        let of = |(n, v): &(String, Value)| match v {
            Value::Int(i) => Some((n.clone(), Arg::Int(*i))),
            _ => None,
        };
        let args: Option<Vec<_>> = self.args.iter().map(of).collect();
        Some((args?, self.options.clone()))
    }
}

/// Arguments or options, by name.
pub type Given = Vec<(String, Arg)>;

fn shown(v: &Value) -> String {
    match v {
        Value::Alg(a) => a.name.clone(),
        other => other.to_string(),
    }
}

/// Returns the default grid: first the defaults, then the arguments of its clauses `check`;
/// if it has none, one parameter after another.
///
/// # Errors
/// Returns E006 if a clause `check` has an unknown argument.
pub fn usual(library: &Library, decl: &AlgorithmDecl) -> Result<Vec<Setting>, Diagnostics> {
    let is_alg = algorithm_valued(decl, library);
    let numbers: Vec<(String, Option<i64>)> = decl
        .params
        .iter()
        .zip(is_alg)
        .filter(|p| !p.1)
        .map(|((name, default), _)| (name.node.clone(), constant(&default.kind)))
        .collect();
    let known = numbers.iter().filter_map(|(n, v)| Some((n.clone(), (*v)?)));
    let mut out = vec![Setting { defaults: known.collect(), ..Setting::default() }];
    for args in variants(decl).map_err(|d| *d)? {
        out.push(Setting { args, documented: true, ..Setting::default() });
    }
    if out.len() > 1 {
        return Ok(out);
    }
    for (name, default) in &numbers {
        for v in VALUES.into_iter().filter(|v| Some(*v) != *default) {
            let args = vec![(name.clone(), Value::Int(v))];
            if !out.iter().any(|s| s.args == args) {
                out.push(Setting { args, tried: true, ..Setting::default() });
            }
        }
    }
    Ok(out)
}

fn constant(e: &ExprKind) -> Option<i64> {
    match e {
        ExprKind::Int(v) => Some(*v),
        ExprKind::Unary(kbc_rounds::ast::UnaryOp::Neg, a) => constant(&a.kind).map(|v| -v),
        _ => None,
    }
}

/// Returns all combinations of the requested values.
///
/// # Errors
/// Returns E005 and E006 for an unknown argument or option, and E413 for too many values.
pub fn requested(
    library: &Library,
    id: AlgId,
    asked: &AlgorithmRequest,
) -> Result<Vec<Setting>, Diagnostics> {
    let decl = library.algorithm(id);
    if asked.args.is_empty() && asked.options.is_empty() {
        return usual(library, decl);
    }
    let is_alg = algorithm_valued(decl, library);
    let own = |n: &str| decl.params.iter().any(|p| p.0.node == n);
    let first = |list: &[(Ident, Vec<Expr>)]| -> Vec<(Ident, Expr)> {
        list.iter().filter_map(|(n, v)| Some((n.clone(), v.first()?.clone()))).collect()
    };
    let (args, options) = (first(&asked.args), first(&asked.options));
    if let Some(d) = among_arguments(&asked.name, (&args, &options), asked.name.span, own) {
        return Err(d.into());
    }
    let mut out = vec![Setting::default()];
    for (name, values) in &asked.args {
        let Some(at) = decl.params.iter().position(|p| p.0.node == name.node) else {
            return Err(unknown_parameter(decl, name).into());
        };
        out = combined(out, (name, values), |s, value| {
            s.args.push((name.node.clone(), parameter(library, decl, (name, is_alg[at]), value)?));
            Ok(())
        })?;
    }
    for (name, values) in &asked.options {
        out = combined(out, (name, values), |s, value| {
            s.options.push((name.node.clone(), option(library, name, value)?));
            Ok(())
        })?;
    }
    Ok(out)
}

/// Returns every setting with every value.
///
/// # Errors
/// Returns E413 for too many combinations, and the errors of `add`.
fn combined(
    settings: Vec<Setting>,
    (name, values): (&Ident, &[Expr]),
    add: impl Fn(&mut Setting, &Expr) -> Result<(), Diagnostics>,
) -> Result<Vec<Setting>, Diagnostics> {
    let mut next = vec![];
    for value in values {
        for s in &settings {
            let mut s = s.clone();
            add(&mut s, value)?;
            next.push(s);
        }
        if next.len() > MAX_COMBINATIONS {
            return Err(Diagnostic::error(
                "E413",
                format!("there are more than {MAX_COMBINATIONS} combinations of arguments"),
            )
            .primary(name.span, "the limit is exceeded here")
            .help("request fewer at a time")
            .into());
        }
    }
    Ok(next)
}

fn parameter(
    library: &Library,
    decl: &AlgorithmDecl,
    (name, is_alg): (&Ident, bool),
    value: &Expr,
) -> Result<Value, Diagnostics> {
    let file = decl.span.file;
    match (&value.kind, is_alg) {
        (ExprKind::Int(v), false) => Ok(Value::Int(*v)),
        (ExprKind::Name(n), true) if library.is_algorithm_name(file, n) => {
            Ok(Value::Alg(Arc::new(AlgRef { name: n.clone(), file })))
        }
        (ExprKind::Name(n), true) => {
            Err((*library.no_algorithm("algorithm", file, (n, value.span), &[])).into())
        }
        (_, is_alg) => {
            let kind = if is_alg { "an algorithm" } else { "a number" };
            Err(Diagnostic::error("E006", format!("parameter `{}` must be {kind}", name.node))
                .primary(value.span, "this value is of another kind")
                .into())
        }
    }
}

fn option(library: &Library, name: &Ident, value: &Expr) -> Result<Arg, Diagnostics> {
    option_value(name, value, &ConcreteEvaluator::new(library), &ListScope::default()).map_err(|d| *d)?;
    Ok(match &value.kind {
        ExprKind::Int(v) => Arg::Int(*v),
        ExprKind::Bool(b) => Arg::Word(b.to_string()),
        ExprKind::Name(n) => Arg::Word(n.clone()),
        _ => {
            return Err(Diagnostic::error("E006", "invalid value of an option")
                .primary(value.span, "here")
                .into());
        }
    })
}

/// Returns the values with which an algorithm is correct, by parameter: `k = 1, 2, 4`. `legal`
/// states which settings any shape admits.
pub fn tried(settings: &[Setting], legal: &[bool]) -> Vec<String> {
    let mut names: Vec<&str> = vec![];
    for (name, _) in settings.iter().flat_map(|s| &s.args) {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    let mut out = vec![];
    for name in names {
        let mut numbers = BTreeSet::new();
        let mut words = BTreeSet::new();
        for s in settings.iter().zip(legal).filter(|s| *s.1).map(|s| s.0) {
            numbers.extend(s.defaults.iter().filter(|d| d.0 == name).map(|d| d.1));
            for (_, v) in s.args.iter().filter(|a| a.0 == name) {
                match v {
                    Value::Int(i) => numbers.insert(*i),
                    other => words.insert(shown(other)),
                };
            }
        }
        let list: Vec<String> = numbers.iter().map(i64::to_string).chain(words).collect();
        if !list.is_empty() {
            out.push(format!("{name} = {}", list.join(", ")));
        }
    }
    out
}
