//! Symbolic sizes: an expression, as sympy's `srepr` writes it, and the value that the example
//! inputs gave it.
//!
//! This module owns the syntax and arithmetic of the expressions. The recorded values bind the
//! symbols. [`bind`] verifies that every other expression has the value that follows from these
//! bindings, and that symbols lie within their ranges.

use std::collections::BTreeMap;
use std::fmt;

/// A size.
#[derive(Clone, PartialEq, Debug)]
pub struct Size {
    /// Its value.
    pub value: i64,
    /// The symbolic expression; none for a plain number.
    pub expr: Option<Expr>,
}

impl Size {
    /// Makes a plain number.
    pub fn of(value: i64) -> Size {
        Size { value, expr: None }
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.expr {
            Some(e) => write!(f, "{e}"),
            None => write!(f, "{}", self.value),
        }
    }
}

/// A symbolic expression.
#[derive(Clone, PartialEq, Debug)]
pub enum Expr {
    /// `Integer(2)`
    Number(i64),
    /// `Symbol('s77', positive=True, integer=True)`
    Symbol(String),
    /// `Add(a, b, ..)` and other functions, by name.
    Call(String, Vec<Expr>),
}

/// The largest size of a dimension. Its product with any factor below 2^23 fits into 64 bits.
pub const LARGEST: i64 = 1 << 40;

/// Greatest nesting of expressions.
const DEEPEST: usize = 64;

impl Expr {
    /// Parses an expression.
    ///
    /// # Errors
    /// Returns a sentence about what cannot be read.
    pub fn parse(text: &str) -> Result<Expr, String> {
        let mut rest = text.trim();
        let e = expr(&mut rest, 0)?;
        if rest.trim().is_empty() { Ok(e) } else { Err(format!("`{text}` is more than one expression")) }
    }

    /// Returns the value; none if a symbol is unbound, the value is not an integer, or kbc does not
    /// know the function.
    pub fn value(&self, bound: &BTreeMap<&str, i64>) -> Option<i64> {
        let (name, list) = match self {
            Expr::Number(n) => return Some(*n),
            Expr::Symbol(s) => return bound.get(s.as_str()).copied(),
            Expr::Call(name, list) => (name, list),
        };
        let v: Vec<i64> = list.iter().map(|e| e.value(bound)).collect::<Option<_>>()?;
        match (name.as_str(), &v[..]) {
            ("Add", _) => v.iter().try_fold(0i64, |a, b| a.checked_add(*b)),
            ("Mul", _) => v.iter().try_fold(1i64, |a, b| a.checked_mul(*b)),
            ("Max", _) => v.iter().max().copied(),
            ("Min", _) => v.iter().min().copied(),
            ("Pow", [a, b]) => a.checked_pow(u32::try_from(*b).ok()?),
            ("FloorDiv", [a, b]) if *b != 0 => a.checked_div_euclid(*b).filter(|_| *b > 0),
            ("Mod" | "PythonMod", [a, b]) if *b > 0 => a.checked_rem_euclid(*b),
            ("CleanDiv" | "IntTrueDiv", [a, b]) if *b > 0 && a % b == 0 => Some(a / b),
            ("CeilDiv", [a, b]) if *b > 0 => a.checked_add(b - 1).map(|s| s.div_euclid(*b)),
            _ => None,
        }
    }
}

fn expr(rest: &mut &str, depth: usize) -> Result<Expr, String> {
    let cannot =
        |rest: &str| format!("`{}` is not an expression of sizes", rest.chars().take(40).collect::<String>());
    if depth > DEEPEST {
        return Err("an expression of sizes nests too deeply".into());
    }
    *rest = rest.trim_start();
    let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == '-')).unwrap_or(rest.len());
    let (name, mut tail) = rest.split_at(end);
    if let Ok(n) = name.parse() {
        *rest = tail;
        return Ok(Expr::Number(n));
    }
    if name.is_empty() {
        return Err(cannot(rest));
    }
    let Some(inner) = tail.strip_prefix('(') else {
        // A plain name, as in printed programs.
        *rest = tail;
        return Ok(Expr::Symbol(name.to_owned()));
    };
    if name == "Symbol" {
        let (args, after) = inner.split_once(')').ok_or_else(|| cannot(rest))?;
        let symbol = args.split('\'').nth(1).ok_or_else(|| cannot(rest))?.to_owned();
        *rest = after;
        return Ok(Expr::Symbol(symbol));
    }
    tail = inner;
    let mut list = vec![];
    loop {
        list.push(expr(&mut tail, depth + 1)?);
        tail = tail.trim_start();
        if let Some(after) = tail.strip_prefix(',') {
            tail = after;
        } else if let Some(after) = tail.strip_prefix(')') {
            *rest = after;
            return Ok(match (name, &list[..]) {
                ("Integer", [Expr::Number(n)]) => Expr::Number(*n),
                _ => Expr::Call(name.to_owned(), list),
            });
        } else {
            return Err(cannot(rest));
        }
    }
}

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Expr::Number(n) => write!(f, "{n}"),
            Expr::Symbol(s) => f.write_str(s),
            Expr::Call(name, list) => {
                let words: Vec<String> = list
                    .iter()
                    .map(|e| match (name.as_str(), e) {
                        ("Mul", Expr::Call(inner, _)) if inner == "Add" => format!("({e})"),
                        _ => e.to_string(),
                    })
                    .collect();
                match name.as_str() {
                    "Add" => f.write_str(&words.join(" + ")),
                    "Mul" => f.write_str(&words.join("*")),
                    _ => write!(f, "{name}({})", words.join(", ")),
                }
            }
        }
    }
}

/// Binds the symbols of the given sizes and verifies the remaining sizes. Returns one sentence for
/// each contradiction.
pub fn bind<'a>(
    sizes: impl Iterator<Item = (&'a str, &'a Size)> + Clone,
    ranges: &BTreeMap<String, (Option<i64>, Option<i64>)>,
) -> Vec<String> {
    let mut bound: BTreeMap<&str, i64> = BTreeMap::new();
    let mut wrong = vec![];
    for (of, size) in sizes.clone() {
        if let Some(Expr::Symbol(s)) = &size.expr {
            let first = *bound.entry(s).or_insert(size.value);
            if first != size.value {
                wrong.push(format!("{s} is {first}, and {of} has {}", size.value));
            }
        }
    }
    for (of, size) in sizes {
        if let Some(e @ Expr::Call(..)) = &size.expr
            && let Some(v) = e.value(&bound)
            && v != size.value
        {
            wrong.push(format!("{e} is {v}, and {of} has {}", size.value));
        }
    }
    for (name, (least, most)) in ranges {
        let Some(v) = bound.get(name.as_str()) else { continue };
        if least.is_some_and(|l| *v < l) {
            wrong.push(format!("{name} is {v}, and at least {} is allowed", least.unwrap_or_default()));
        }
        if most.is_some_and(|m| *v > m) {
            wrong.push(format!("{name} is {v}, and at most {} is allowed", most.unwrap_or_default()));
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_read_and_have_values() {
        let e = Expr::parse("Add(Mul(Integer(2), Symbol('s77', positive=True, integer=True)), Integer(-1))")
            .expect("an expression");
        assert_eq!(e.to_string(), "2*s77 + -1");
        assert_eq!(e.value(&BTreeMap::from([("s77", 5)])), Some(9));
        assert_eq!(e.value(&BTreeMap::new()), None);
        assert!(Expr::parse("Add(").is_err());
        assert!(Expr::parse("Integer(2) Integer(3)").is_err());
    }

    #[test]
    fn numbers_that_cannot_be_together() {
        let size = |value, text: &str| Size { value, expr: Expr::parse(text).ok() };
        let list = [("x", size(4, "Symbol('s0')")), ("y", size(9, "Mul(Integer(2), Symbol('s0'))"))];
        let ranges = BTreeMap::from([("s0".to_owned(), (Some(2), Some(3)))]);
        let found = bind(list.iter().map(|(n, s)| (*n, s)), &ranges);
        assert_eq!(found, ["2*s0 is 8, and y has 9", "s0 is 4, and at most 3 is allowed"]);
    }
}
