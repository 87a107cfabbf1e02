//! Arithmetic on lists of sizes: broadcasting, views, slices, products.
//!
//! Owns nothing but numbers; which operation uses what is the rules'.

/// A dimension of `rank`, counted from the end if negative.
///
/// # Errors
/// There is none of that number.
pub fn dim(d: i64, rank: usize) -> Result<usize, String> {
    let n = rank.max(1) as i64;
    let at = if d < 0 { d + n } else { d };
    usize::try_from(at).ok().filter(|_| at < n).ok_or_else(|| format!("there is no dimension {d} of {rank}"))
}

/// Two shapes together.
///
/// # Errors
/// They do not fit.
pub fn broadcast(a: &[i64], b: &[i64]) -> Result<Vec<i64>, String> {
    let n = a.len().max(b.len());
    let at = |s: &[i64], i: usize| (i + s.len()).checked_sub(n).map_or(1, |i| s[i]);
    (0..n)
        .map(|i| match (at(a, i), at(b, i)) {
            (x, y) if x == y || y == 1 => Ok(x),
            (1, y) => Ok(y),
            _ => Err(format!("{a:?} and {b:?} do not fit together")),
        })
        .collect()
}

/// Number of elements.
///
/// # Errors
/// More than 64 bits hold.
pub fn elements(s: &[i64]) -> Result<i64, String> {
    s.iter().try_fold(1i64, |a, b| a.checked_mul(*b)).ok_or_else(|| format!("{s:?} has too many elements"))
}

/// The sum of parts.
///
/// # Errors
/// A part is negative, or the sum beyond 64 bits.
pub fn total(parts: &[i64]) -> Result<i64, String> {
    let add = |a: i64, n: &i64| if *n < 0 { None } else { a.checked_add(*n) };
    parts.iter().try_fold(0, add).ok_or_else(|| format!("{parts:?} are no parts"))
}

/// The same elements in another shape; -1 stands for what is left.
///
/// # Errors
/// There are not as many.
pub fn viewed(from: &[i64], to: &[i64]) -> Result<Vec<i64>, String> {
    let cannot = || format!("{from:?} cannot be seen as {to:?}");
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

/// A shape without some dimensions, or with 1 in their place.
///
/// # Errors
/// There is no such dimension.
pub fn drop(s: &[i64], dims: &[i64], keep: bool) -> Result<Vec<i64>, String> {
    let gone = dims.iter().map(|d| dim(*d, s.len())).collect::<Result<Vec<_>, _>>()?;
    Ok((0..s.len())
        .filter(|d| keep || !gone.contains(d))
        .map(|d| if gone.contains(&d) { 1 } else { s[d] })
        .collect())
}

/// How many of `n` lie from start to end; both count from the end if negative, and end where the elements do.
///
/// # Errors
/// The step is not positive.
pub fn slice(n: i64, start: i64, end: i64, step: i64) -> Result<i64, String> {
    if step < 1 {
        return Err(format!("a step of {step}"));
    }
    let clamp = |x: i64| if x < 0 { x.saturating_add(n).max(0) } else { x.min(n) };
    let len = (clamp(end) - clamp(start)).max(0);
    Ok(len / step + i64::from(len % step != 0))
}

/// Parts of `each` elements, the last one with what is left; one empty part of nothing.
///
/// # Errors
/// Parts without elements, or too many.
pub fn chunked(n: i64, each: i64) -> Result<Vec<i64>, String> {
    match each {
        _ if n == 0 => Ok(vec![0]),
        e if e < 1 => Err(format!("parts of {e} elements")),
        e if n / e > 1 << 20 => Err(format!("{} parts", n / e)),
        e => Ok((0..n / e + i64::from(n % e != 0)).map(|i| e.min(n - i * e)).collect()),
    }
}

/// Padding, two numbers a dimension from the last one on.
///
/// # Errors
/// It is not of that form, or takes away more than there is.
pub fn pad(s: &[i64], by: &[i64]) -> Result<Vec<i64>, String> {
    let mut out = s.to_vec();
    if !by.len().is_multiple_of(2) || by.len() / 2 > s.len() {
        return Err(format!("{by:?} is no padding of {} dimensions", s.len()));
    }
    for (d, two) in out.iter_mut().rev().zip(by.chunks(2)) {
        *d = d.checked_add(two[0]).and_then(|d| d.checked_add(two[1])).unwrap_or(-1);
    }
    if out.iter().any(|d| *d < 0) { Err(format!("{by:?} is no padding of {s:?}")) } else { Ok(out) }
}

/// The product of two shapes, with broadcasting of what stands before the last two dimensions.
///
/// # Errors
/// They do not fit.
pub fn matmul(x: &[i64], y: &[i64]) -> Result<Vec<i64>, String> {
    let wrong = || format!("{x:?} times {y:?} do not fit");
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

/// The result of an equation without dots: `bij,bjk->bik`.
///
/// # Errors
/// It is no such equation, or the operands have other shapes.
pub fn einsum(equation: &str, shapes: &[&[i64]]) -> Result<Vec<i64>, String> {
    let text: String = equation.chars().filter(|c| !c.is_whitespace()).collect();
    let cannot = || format!("`{equation}` is no equation that kbc reads for {} operands", shapes.len());
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
