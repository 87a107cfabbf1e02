//! Other sizes of a program: its symbols with other values, which may be those of data for its
//! inputs.

use super::arg::Arg;
use super::model::Written;
use super::symbols::{Expr, LARGEST};
use std::collections::BTreeMap;

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

#[cfg(test)]
mod tests {
    use super::super::dtype::DType;
    use super::super::model::{Meta, Role};
    use super::super::symbols::Size;
    use super::*;

    #[test]
    fn other_sizes_follow_from_symbols() {
        let size = |value, text: &str| Size { value, expr: Expr::parse(text).ok() };
        let meta = |sizes| Meta { dtype: DType::F32, sizes };
        let mut w = Written::default();
        w.inputs.push((Arg::Tensor("x".into()), Role::User));
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
}
