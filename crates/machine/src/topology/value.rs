//! Values of settings as written, and the checks of their number, kinds and ranges.

use kbc_diag::{Diagnostic, Spanned};

use super::quantity::{Dimension, Quantity};

/// A value of a setting as written.
#[derive(Clone, PartialEq, Debug)]
pub enum SettingValue {
    /// A plain number.
    Number(f64),
    /// A number with a unit.
    Quantity(Quantity),
    /// A word.
    Name(String),
}

/// Checks number, units and ranges of the values of a setting. A wanted value is a description, a
/// unit, and whether it must be positive.
pub(super) fn amounts<const N: usize>(
    name: &Spanned<String>,
    values: &[Spanned<SettingValue>],
    wanted: [(&str, Dimension, bool); N],
) -> Result<[f64; N], Diagnostic> {
    let form = || {
        let list: Vec<&str> = wanted.iter().map(|w| w.1.example()).collect();
        format!("`{}` takes {}", name.node, list.join(", then "))
    };
    if values.len() != N {
        let title = format!("setting `{}` has {} values (allowed: {N})", name.node, values.len());
        return Err(Diagnostic::error("E445", title).primary(name.span, "here").help(form()));
    }
    let mut out = [0.0; N];
    for ((value, (what, dimension, positive)), out) in values.iter().zip(wanted).zip(&mut out) {
        let fault = match value.node {
            SettingValue::Quantity(q) if q.dimension == dimension => {
                if !q.amount.is_finite() || q.amount < 0.0 || (positive && q.amount == 0.0) {
                    Some(format!("{what} of `{}` is out of range", name.node))
                } else {
                    *out = q.amount;
                    None
                }
            }
            _ => Some(format!("{what} of `{}` has the wrong kind of value", name.node)),
        };
        if let Some(title) = fault {
            let label =
                format!("expected {}{}", dimension.example(), if positive { ", above zero" } else { "" });
            return Err(Diagnostic::error("E445", title).primary(value.span, label).help(form()));
        }
    }
    Ok(out)
}

/// Parses one of several words.
pub(super) fn word<T: Copy>(
    name: &Spanned<String>,
    values: &[Spanned<SettingValue>],
    words: &[(&str, T)],
    help: &str,
) -> Result<T, Diagnostic> {
    if let [Spanned { node: SettingValue::Name(word), .. }] = values
        && let Some((_, found)) = words.iter().find(|w| w.0 == word)
    {
        return Ok(*found);
    }
    let span = values.first().map_or(name.span, |v| v.span);
    let list: Vec<&str> = words.iter().map(|w| w.0).collect();
    let title = format!("`{}` must be one of {}", name.node, list.join(", "));
    Err(Diagnostic::error("E445", title).primary(span, "here").help(help))
}
