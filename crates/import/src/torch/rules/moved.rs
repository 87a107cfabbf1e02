//! Rules of operations that only move elements: views, slices, splits, concatenation.

use super::dims::{chunked, dim, pad, slice, total, viewed};
use super::{Args, Rule, RuleResult, Shape, T, one};

/// Returns the results of operations without arithmetic on elements, such as views and copies.
pub(super) fn moved(a: &Args, rule: Rule) -> RuleResult<Vec<Shape>> {
    if let Rule::Cat | Rule::Stack = rule {
        return joined(a, rule);
    }
    let t = a.tensor("self")?;
    let rank = t.sizes.len();
    let mut s = t.sizes.clone();
    match rule {
        Rule::View => {
            let to = a.ints(if a.node.op.params[1].name == "shape" { "shape" } else { "size" })?;
            s = viewed(&t.sizes, &to)?;
        }
        Rule::Permute => {
            let order = a.ints("dims")?.iter().map(|d| dim(*d, rank)).collect::<RuleResult<Vec<_>>>()?;
            if order.len() != rank || (0..rank).any(|d| !order.contains(&d)) {
                return Err(format!("{order:?} is not an order of {rank} dimensions"));
            }
            s = order.iter().map(|d| t.sizes[*d]).collect();
        }
        Rule::Transpose if a.has("dim0") => s.swap(dim(a.int("dim0")?, rank)?, dim(a.int("dim1")?, rank)?),
        Rule::Transpose if rank > 2 => return Err(format!("`t` is not defined for {rank} dimensions")),
        Rule::Transpose => s.reverse(),
        Rule::Unsqueeze => s.insert(dim(a.int("dim")?, rank + 1)?, 1),
        Rule::Squeeze => {
            let gone = a.ints("dim")?.iter().map(|d| dim(*d, rank)).collect::<RuleResult<Vec<_>>>()?;
            s = (0..rank).filter(|d| !(gone.contains(d) && t.sizes[*d] == 1)).map(|d| t.sizes[d]).collect();
        }
        Rule::Expand => {
            let to = a.ints("size")?;
            let Some(new) = to.len().checked_sub(rank) else {
                return Err(format!("{:?} has more dimensions than {to:?}", t.sizes));
            };
            s = to;
            for (d, n) in t.sizes.iter().enumerate() {
                let want = &mut s[new + d];
                if *want == -1 {
                    *want = *n;
                }
                if *want != *n && *n != 1 {
                    return Err(format!("{:?} cannot be expanded to {s:?}", t.sizes));
                }
            }
        }
        Rule::Repeat => {
            let times = a.ints("repeats")?;
            let Some(new) = times.len().checked_sub(rank) else {
                return Err(format!("{times:?} are fewer than the dimensions of {:?}", t.sizes));
            };
            s = vec![1; new];
            s.extend(&t.sizes);
            for (n, by) in s.iter_mut().zip(&times) {
                *n = n.checked_mul(*by).filter(|n| *n >= 0).ok_or("a size exceeds 64 bits")?;
            }
        }
        Rule::Slice => s = sliced(a, &t)?,
        Rule::Select => {
            let d = dim(a.int("dim")?, rank)?;
            let (i, n) = (a.int("index")?, s.remove(d));
            if i < -n || i >= n {
                return Err(format!("element {i} is out of range; there are {n}"));
            }
        }
        Rule::Split => {
            let d = dim(a.int("dim")?, rank)?;
            let parts = match (a.has("split_size"), a.has("chunks")) {
                (true, _) => chunked(s[d], a.int("split_size")?)?,
                (_, true) => {
                    let n = a.int("chunks")?;
                    if n < 1 {
                        return Err(format!("{n} chunks"));
                    }
                    chunked(s[d], s[d] / n + i64::from(s[d] % n != 0))?
                }
                _ => a.ints("split_sizes")?,
            };
            if total(&parts)? != s[d] {
                return Err(format!("the parts {parts:?} do not add up to the {} of dimension {d}", s[d]));
            }
            return Ok(parts
                .iter()
                .map(|n| {
                    let mut sizes = s.clone();
                    sizes[d] = *n;
                    Shape { dtypes: vec![t.dtype], sizes }
                })
                .collect());
        }
        Rule::Pad => s = pad(&t.sizes, &a.ints("pad")?)?,
        _ => return Err("kbc does not support this operation".into()),
    }
    Ok(one(t.dtype, s))
}

fn joined(a: &Args, rule: Rule) -> RuleResult<Vec<Shape>> {
    let list = a.list("tensors")?;
    // PyTorch ignores an empty vector here.
    let mut rest = list.iter().filter(|t| rule == Rule::Stack || t.sizes != [0]);
    let Some(first) = rest.next() else { return Err("there are no tensors".into()) };
    let rank = first.sizes.len();
    let d = dim(a.int("dim")?, rank + usize::from(rule == Rule::Stack))?;
    let (mut sizes, mut dtype, mut count) = (first.sizes.clone(), first.dtype, 1);
    for t in rest {
        let other = |x: usize| rule == Rule::Cat && x == d;
        let fits = t.sizes.len() == rank && (0..rank).all(|x| other(x) || t.sizes[x] == sizes[x]);
        if !fits {
            return Err(format!("{:?} and {:?} differ in more than dimension {d}", first.sizes, t.sizes));
        }
        if rule == Rule::Cat {
            sizes[d] = total(&[sizes[d], t.sizes[d]])?;
        }
        count += 1;
        dtype = dtype.with(t.dtype).ok_or_else(|| format!("{} and {}", dtype.name(), t.dtype.name()))?;
    }
    if rule == Rule::Stack {
        sizes.insert(d, count);
    }
    Ok(one(dtype, sizes))
}

/// Returns the shape of a slice.
pub(super) fn sliced(a: &Args, t: &T) -> RuleResult<Vec<i64>> {
    let d = dim(a.int("dim")?, t.sizes.len())?;
    let bound = |name: &str, or: i64| if a.has(name) { a.int(name) } else { Ok(or) };
    let mut s = t.sizes.clone();
    s[d] = slice(s[d], bound("start", 0)?, bound("end", i64::MAX)?, a.int("step")?)?;
    Ok(s)
}
