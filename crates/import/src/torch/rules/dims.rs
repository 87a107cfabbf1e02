//! Shape arithmetic: broadcasting, views, slices, matmuls.
//!
//! This module works on lists of sizes only. The rules decide which operation uses which function.

/// Returns the index of a dimension among `rank`; a negative number counts from the end.
///
/// # Errors
/// Returns a sentence if there is no such dimension.
pub fn dim(d: i64, rank: usize) -> Result<usize, String> {
    let n = rank.max(1) as i64;
    let at = if d < 0 { d + n } else { d };
    usize::try_from(at)
        .ok()
        .filter(|_| at < n)
        .ok_or_else(|| format!("dimension {d} does not exist; there are {rank}"))
}

/// Broadcasts two shapes.
///
/// # Errors
/// Returns a sentence if they do not fit.
pub fn broadcast(a: &[i64], b: &[i64]) -> Result<Vec<i64>, String> {
    let n = a.len().max(b.len());
    let at = |s: &[i64], i: usize| (i + s.len()).checked_sub(n).map_or(1, |i| s[i]);
    (0..n)
        .map(|i| match (at(a, i), at(b, i)) {
            (x, y) if x == y || y == 1 => Ok(x),
            (1, y) => Ok(y),
            _ => Err(format!("{a:?} and {b:?} cannot be broadcast together")),
        })
        .collect()
}

/// Returns the number of elements of a shape.
///
/// # Errors
/// Returns a sentence if the number does not fit into 64 bits.
pub fn elements(s: &[i64]) -> Result<i64, String> {
    s.iter().try_fold(1i64, |a, b| a.checked_mul(*b)).ok_or_else(|| format!("{s:?} has too many elements"))
}

/// Returns the sum of the lengths of parts.
///
/// # Errors
/// Returns a sentence if a part is negative or the sum does not fit into 64 bits.
pub fn total(parts: &[i64]) -> Result<i64, String> {
    let add = |a: i64, n: &i64| if *n < 0 { None } else { a.checked_add(*n) };
    parts.iter().try_fold(0, add).ok_or_else(|| format!("{parts:?} are not valid sizes of parts"))
}

/// Returns the shape of a view. A -1 stands for the remaining factor.
///
/// # Errors
/// Returns a sentence if the number of elements differs.
pub fn viewed(from: &[i64], to: &[i64]) -> Result<Vec<i64>, String> {
    let cannot = || format!("{from:?} cannot be viewed as {to:?}");
    let n = elements(from)?;
    let mut out = to.to_vec();
    if let Some(open) = out.iter().position(|d| *d == -1) {
        out[open] = 1;
        let rest = elements(&out)?;
        if rest == 0 || n % rest != 0 {
            return Err(cannot());
        }
        out[open] = n / rest;
    }
    if out.iter().any(|d| *d < 0) || elements(&out)? != n { Err(cannot()) } else { Ok(out) }
}

/// Returns a shape without some dimensions, or with 1 in their place if `keep` is set.
///
/// # Errors
/// Returns a sentence if there is no such dimension.
pub fn drop(s: &[i64], dims: &[i64], keep: bool) -> Result<Vec<i64>, String> {
    let gone = dims.iter().map(|d| dim(*d, s.len())).collect::<Result<Vec<_>, _>>()?;
    Ok((0..s.len())
        .filter(|d| keep || !gone.contains(d))
        .map(|d| if gone.contains(&d) { 1 } else { s[d] })
        .collect())
}

/// Returns the number of elements of a slice of a dimension of length `n`. Negative `start` and
/// `end` count from the end; both are clamped to the dimension.
///
/// # Errors
/// Returns a sentence if the step is not positive.
pub fn slice(n: i64, start: i64, end: i64, step: i64) -> Result<i64, String> {
    if step < 1 {
        return Err(format!("a step of {step} is not allowed"));
    }
    let clamp = |x: i64| if x < 0 { x.saturating_add(n).max(0) } else { x.min(n) };
    let len = (clamp(end) - clamp(start)).max(0);
    Ok(len / step + i64::from(len % step != 0))
}

/// Returns the lengths of parts of `each` elements. The last part has the remainder; a dimension of
/// length 0 has one empty part.
///
/// # Errors
/// Returns a sentence if `each` is not positive or there are too many parts.
pub fn chunked(n: i64, each: i64) -> Result<Vec<i64>, String> {
    match each {
        _ if n == 0 => Ok(vec![0]),
        e if e < 1 => Err(format!("parts cannot have {e} elements")),
        e if n / e > 1 << 20 => Err(format!("{} parts", n / e)),
        e => Ok((0..n / e + i64::from(n % e != 0)).map(|i| e.min(n - i * e)).collect()),
    }
}

/// Returns a padded shape. `by` has two numbers per dimension, starting with the last dimension.
///
/// # Errors
/// Returns a sentence if `by` does not have that form, or removes more elements than there are.
pub fn pad(s: &[i64], by: &[i64]) -> Result<Vec<i64>, String> {
    let mut out = s.to_vec();
    if !by.len().is_multiple_of(2) || by.len() / 2 > s.len() {
        return Err(format!("{by:?} is not a padding of {} dimensions", s.len()));
    }
    for (d, two) in out.iter_mut().rev().zip(by.chunks(2)) {
        *d = d.checked_add(two[0]).and_then(|d| d.checked_add(two[1])).unwrap_or(-1);
    }
    if out.iter().any(|d| *d < 0) { Err(format!("{by:?} is not a padding of {s:?}")) } else { Ok(out) }
}

/// Returns the shape of a matmul, with broadcasting of the dimensions before the last two.
///
/// # Errors
/// Returns a sentence if the operands do not fit.
pub fn matmul(x: &[i64], y: &[i64]) -> Result<Vec<i64>, String> {
    let wrong = || format!("{x:?} and {y:?} cannot be multiplied");
    let (Some(k), Some(l)) = (x.last(), y.len().checked_sub(2).map_or(y.first(), |at| y.get(at))) else {
        return Err(wrong());
    };
    if k != l {
        return Err(wrong());
    }
    let outer = |s: &'_ [i64]| s[..s.len().saturating_sub(2)].to_vec();
    let mut out = broadcast(&outer(x), &outer(y)).map_err(|_| wrong())?;
    if x.len() > 1 {
        out.push(x[x.len() - 2]);
    }
    if y.len() > 1 {
        out.push(y[y.len() - 1]);
    }
    Ok(out)
}

/// Returns the shape of the result of an einsum equation without dots, such as `bij,bjk->bik`.
///
/// # Errors
/// Returns a sentence if the equation cannot be read or does not fit the shapes of the operands.
pub fn einsum(equation: &str, shapes: &[&[i64]]) -> Result<Vec<i64>, String> {
    let text: String = equation.chars().filter(|c| !c.is_whitespace()).collect();
    let cannot = || format!("kbc does not support the equation `{equation}` with {} operands", shapes.len());
    let (left, right) = text.split_once("->").ok_or_else(cannot)?;
    let terms: Vec<&str> = left.split(',').collect();
    if terms.len() != shapes.len() {
        return Err(cannot());
    }
    let mut sizes = std::collections::BTreeMap::new();
    for (term, shape) in terms.iter().zip(shapes) {
        if term.chars().count() != shape.len() || !term.chars().all(char::is_alphabetic) {
            return Err(cannot());
        }
        for (c, n) in term.chars().zip(*shape) {
            let known = sizes.entry(c).or_insert(*n);
            if *known == 1 {
                *known = *n;
            }
            if *known != *n && *n != 1 {
                return Err(format!("`{c}` of `{equation}` is {known} and {n}"));
            }
        }
    }
    right.chars().map(|c| sizes.get(&c).copied().ok_or_else(cannot)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_follow() {
        assert_eq!(broadcast(&[8, 1, 4], &[3, 1]), Ok(vec![8, 3, 4]));
        assert!(broadcast(&[8], &[3]).is_err());
        assert_eq!(viewed(&[2, 3, 4], &[6, -1]), Ok(vec![6, 4]));
        assert!(viewed(&[2, 3], &[4, -1]).is_err());
        assert_eq!(drop(&[2, 3, 4], &[-1], true), Ok(vec![2, 3, 1]));
        assert_eq!(slice(10, -3, i64::MAX, 2), Ok(2));
        assert_eq!(chunked(7, 3), Ok(vec![3, 3, 1]));
        assert_eq!(pad(&[2, 3], &[0, 1, 2, 0]), Ok(vec![4, 4]));
        assert_eq!(matmul(&[5, 2, 3], &[3, 4]), Ok(vec![5, 2, 4]));
        assert_eq!(matmul(&[3], &[3, 4]), Ok(vec![4]));
        assert_eq!(matmul(&[2, 3], &[3]), Ok(vec![2]));
        assert_eq!(einsum("bij,bjk->bik", &[&[2, 3, 4], &[2, 4, 5]]), Ok(vec![2, 3, 5]));
        assert!(einsum("ij,jk->ik", &[&[2, 3], &[4, 5]]).is_err());
        assert_eq!(dim(-1, 3), Ok(2));
        assert!(dim(3, 3).is_err());
    }
}
