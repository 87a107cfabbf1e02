//! Options of a use, such as `using: ring with (pipeline: 4)` (`docs/reference/algorithms.md`,
//! "Options of a use").
//!
//! This module owns their names, their values and the check of both. Options never change the
//! meaning of an algorithm, so this crate only parses and records them; the passes act on them.

use kbc_diag::{Diagnostic, Span};

use crate::ast::{Expr, ExprKind, Ident};
use crate::evaluator::{Evaluator, Values};
use crate::scope::{Fault, Scope, unknown};
use crate::write;

/// The type of an option's value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OptionKind {
    /// An integer of at least 1.
    Count,
    /// One of these words.
    Word(&'static [&'static str]),
    /// `true` or `false`.
    Flag,
}

/// Every option with its type.
pub const OPTIONS: [(&str, OptionKind); 11] = [
    ("pipeline", OptionKind::Count),
    ("instances", OptionKind::Count),
    ("overlap", OptionKind::Count),
    ("fuse", OptionKind::Count),
    ("order", OptionKind::Word(&["rank", "tree", "any"])),
    ("accumulate", OptionKind::Word(&["f32"])),
    ("transfer", OptionKind::Word(&["push", "pull", "rendezvous", "switch"])),
    ("slots", OptionKind::Count),
    ("memory", OptionKind::Word(&["hbm", "sram", "tcm"])),
    ("cores", OptionKind::Count),
    ("direct", OptionKind::Flag),
];

/// The value of an option.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum OptionValue {
    /// An integer of at least 1.
    Count(i64),
    /// One of the option's words.
    Word(String),
    /// A truth value.
    Flag(bool),
}

/// Returns the type of the option with that name.
pub fn option_kind(name: &str) -> Option<OptionKind> {
    OPTIONS.iter().find(|o| o.0 == name).map(|o| o.1)
}

/// Named values of a use, as written.
type Given<'a> = &'a [(Ident, Expr)];

/// Returns the message (E007) for options among the arguments of an algorithm, which is where they
/// stood before they had a place of their own. `span` is the whole use. Returns none if all
/// arguments belong to the algorithm or are unknown; `own` states whether it has a parameter.
pub fn among_arguments(
    alg: &Ident,
    (args, options): (Given<'_>, Given<'_>),
    span: Span,
    own: impl Fn(&str) -> bool,
) -> Option<Diagnostic> {
    let misplaced = |a: &&(Ident, Expr)| option_kind(&a.0.node).is_some() && !own(&a.0.node);
    let first = args.iter().find(misplaced)?;
    let text = |list: Vec<&(Ident, Expr)>| {
        list.iter().map(|(n, e)| format!("{}: {}", n.node, write::expr(e))).collect::<Vec<_>>().join(", ")
    };
    let left: Vec<_> = args.iter().filter(|a| !misplaced(a)).collect();
    let all: Vec<_> = args.iter().filter(misplaced).chain(options).collect();
    let left = if left.is_empty() { String::new() } else { format!("({})", text(left)) };
    let new = format!("{}{left} with ({})", alg.node, text(all));
    Some(
        Diagnostic::error("E007", format!("`{}` is an option of the use, not an argument", first.0.node))
            .primary(first.0.span, "options follow the word `with`")
            .help(format!("write `{new}`; `kbc fmt --migrate` rewrites a file"))
            .edit(span, new),
    )
}

/// Evaluates the value of an option.
///
/// # Errors
/// Returns E006 for an unknown option or an invalid value, and E005 or E010 from the
/// evaluation of a count.
pub fn option_value<V: Values>(
    name: &Ident,
    expr: &Expr,
    evaluator: &Evaluator<'_, V>,
    scope: &dyn Scope<V::Value>,
) -> Result<OptionValue, V::Stop> {
    let Some(kind) = option_kind(&name.node) else {
        let valid: Vec<String> = OPTIONS.iter().map(|o| o.0.to_owned()).collect();
        return Err(unknown("E006", "option", &name.node, name.span, &valid).into());
    };
    let values = &evaluator.values;
    match kind {
        OptionKind::Count => match values.known(&evaluator.int(expr, scope)?) {
            Some(k) if k >= 1 => Ok(OptionValue::Count(k)),
            Some(k) => Err(bad(name, expr.span, &format!("{k}"), "an integer of at least 1").into()),
            None => Err(values.undecidable("an option whose value is not constant", expr.span)),
        },
        OptionKind::Word(words) => match &expr.kind {
            ExprKind::Name(w) if words.contains(&w.as_str()) => Ok(OptionValue::Word(w.clone())),
            ExprKind::Name(w) => Err(bad(name, expr.span, w, &words.join(" | ")).into()),
            _ => Err(bad(name, expr.span, "this", &words.join(" | ")).into()),
        },
        OptionKind::Flag => match &expr.kind {
            ExprKind::Bool(on) => Ok(OptionValue::Flag(*on)),
            _ => {
                let v = evaluator.eval(expr, scope)?;
                let on = values.flag(&v).map(OptionValue::Flag);
                on.ok_or_else(|| bad(name, expr.span, &values.show(&v), "true | false").into())
            }
        },
    }
}

fn bad(name: &Ident, span: Span, got: &str, wanted: &str) -> Fault {
    Box::new(
        Diagnostic::error("E006", format!("option `{}` cannot be {got}", name.node))
            .primary(span, format!("expected {wanted}"))
            .secondary(name.span, "this option"),
    )
}
