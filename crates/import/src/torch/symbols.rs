//! Symbolic sizes: an expression, as sympy's `srepr` writes it, and the value that the example
//! inputs gave it.
//!
//! This module owns the syntax and arithmetic of the expressions. The recorded values bind the
//! symbols. [`bind`] verifies that every other expression has the value that follows from these
//! bindings, and that symbols lie within their ranges.

use super::exported::LARGEST;
use super::model::{Arg, Written};
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
    fn value(&self, bound: &BTreeMap<&str, i64>) -> Option<i64> {
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

/// Recomputes every size of a program for new values of some symbols. All other symbols keep the
/// values of the example inputs.
///
/// # Errors
/// Returns one sentence for each name that is not a symbol of the program, and for each size that
/// cannot be computed.
pub fn rebind(w: &mut Written, said: &BTreeMap<String, i64>) -> Result<(), Vec<String>> {
    let all = || w.tensors.iter().flat_map(|t| &t.1.sizes).chain(w.ints.values());
    let mut bound: BTreeMap<String, i64> = all()
        .filter_map(|s| match &s.expr {
            Some(Expr::Symbol(name)) => Some((name.clone(), s.value)),
            _ => None,
        })
        .collect();
    if w.unvalued {
        if let Some(lost) = bound.keys().find(|name| !said.contains_key(*name)) {
            return Err(vec![format!("{lost} has no value: the printed text does not contain it")]);
        }
        w.unvalued = false;
    }
    let mut wrong = vec![];
    for (name, n) in said {
        match bound.get_mut(name) {
            Some(value) => *value = *n,
            None => wrong.push(match &bound.keys().map(String::as_str).collect::<Vec<_>>()[..] {
                [] => format!("{name} is not a symbol of its sizes: there are none"),
                list => format!("{name} is not a symbol of its sizes; the symbols are {}", list.join(", ")),
            }),
        }
    }
    let bound: BTreeMap<&str, i64> = bound.iter().map(|(n, v)| (n.as_str(), *v)).collect();
    let tensors = w.tensors.iter_mut().flat_map(|(n, m)| m.sizes.iter_mut().map(move |s| (n, s)));
    for (of, size) in tensors.chain(w.ints.iter_mut()) {
        let Some(e) = &size.expr else { continue };
        match e.value(&bound).filter(|n| (-LARGEST..=LARGEST).contains(n)) {
            Some(n) => size.value = n,
            None => wrong.push(format!("{e}, a size of `{of}`, cannot be computed")),
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong) }
}

/// Derives the values of symbols from the shapes of data for the inputs.
///
/// # Errors
/// Returns a sentence if two inputs give one symbol different values.
pub fn bound_by(w: &Written, data: &BTreeMap<String, Vec<i64>>) -> Result<BTreeMap<String, i64>, String> {
    let mut out: BTreeMap<String, (i64, &str)> = BTreeMap::new();
    for (arg, _) in &w.inputs {
        let Arg::Tensor(input) = arg else { continue };
        let (Some(m), Some(sizes)) = (w.tensors.get(input), data.get(input)) else { continue };
        if m.sizes.len() != sizes.len() {
            continue;
        }
        for (size, n) in m.sizes.iter().zip(sizes) {
            let Some(Expr::Symbol(s)) = &size.expr else { continue };
            match out.get(s) {
                Some((first, by)) if first != n => {
                    return Err(format!(
                        "{s} is {first} in the data of `{by}` and {n} in the data of `{input}`"
                    ));
                }
                _ => {
                    out.insert(s.clone(), (*n, input));
                }
            }
        }
    }
    Ok(out.into_iter().map(|(s, (n, _))| (s, n)).collect())
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
    fn other_sizes_follow_from_symbols() {
        let size = |value, text: &str| Size { value, expr: Expr::parse(text).ok() };
        let meta = |sizes| super::super::model::Meta { dtype: super::super::dtype::DType::F32, sizes };
        let mut w = Written::default();
        w.inputs.push((Arg::Tensor("x".into()), super::super::model::Role::User));
        w.tensors.insert("x".into(), meta(vec![size(4, "Symbol('s0')"), Size::of(3)]));
        w.tensors.insert("y".into(), meta(vec![size(8, "Mul(Integer(2), Symbol('s0'))")]));
        let data = BTreeMap::from([("x".to_owned(), vec![5, 3])]);
        let bound = bound_by(&w, &data).expect("one value");
        assert_eq!(bound, BTreeMap::from([("s0".to_owned(), 5)]));
        assert_eq!(rebind(&mut w, &bound), Ok(()));
        assert_eq!((w.tensors["x"].shape(), w.tensors["y"].shape()), (vec![5, 3], vec![10]));
        let none = rebind(&mut w, &BTreeMap::from([("s1".to_owned(), 5)]));
        assert_eq!(none, Err(vec!["s1 is not a symbol of its sizes; the symbols are s0".to_owned()]));
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
