//! Types in text: `f32[8, 16]`, with strides and a device behind it, `Sym(s77)`, `DTensor(f32[8, 16], S(0)R)`.

use super::sizes;
use crate::torch::dtype::DType;
use crate::torch::model::{Meta, Placement};
use crate::torch::symbols::Size;

/// A type.
#[derive(Clone, PartialEq, Debug)]
pub struct Type {
    /// Element type and sizes; global ones for a value that is placed.
    pub meta: Meta,
    /// One a dimension of the mesh; none for a local tensor.
    pub placements: Vec<Placement>,
}

/// Reads one.
///
/// # Errors
/// What it is instead, as a sentence.
pub fn read(text: &str) -> Result<Type, String> {
    let text = text.trim();
    if let Some(inner) = text.strip_prefix("DTensor(").and_then(|t| t.strip_suffix(')')) {
        let cannot = || format!("`{text}` is no type with placements");
        let (ty, places) = inner.rsplit_once("], ").ok_or_else(cannot)?;
        let meta = read(&format!("{ty}]"))?.meta;
        return Ok(Type { meta, placements: placements(places.trim())? });
    }
    let cannot = || format!("`{text}` is no type of a tensor");
    let (name, rest) = text.split_once('[').ok_or_else(cannot)?;
    let dtype = DType::of_name(name).ok_or_else(|| format!("kbc has no element type `{name}`"))?;
    // strides and device behind it say nothing that is needed
    let (dims, _) = rest.split_once(']').ok_or_else(cannot)?;
    let sizes = sizes::read_all(dims)?;
    Ok(Type { meta: Meta { dtype, sizes }, placements: vec![] })
}

/// The size that `Sym(s77)` is of; none for another type.
///
/// # Errors
/// It is none.
pub fn symbol(text: &str) -> Option<Result<Size, String>> {
    text.trim().strip_prefix("Sym(").and_then(|t| t.strip_suffix(')')).map(sizes::read)
}

/// `S(0)RP(sum)`
///
/// # Errors
/// It is none, in words.
pub fn placements(text: &str) -> Result<Vec<Placement>, String> {
    let cannot = || format!("kbc has no placement `{text}`");
    let mut out = vec![];
    let mut rest = text;
    while !rest.is_empty() {
        if let Some(r) = rest.strip_prefix('R') {
            out.push(Placement::Replicated);
            rest = r;
            continue;
        }
        let (head, tail) = rest.split_once(')').ok_or_else(cannot)?;
        if let Some(d) = head.strip_prefix("S(") {
            out.push(Placement::Split(d.trim().parse().map_err(|_| cannot())?));
        } else if let Some(op) = head.strip_prefix("P(") {
            out.push(Placement::Partial(op.trim().to_owned()));
        } else {
            return Err(cannot());
        }
        // the order of several axes on one dimension: theirs is the mesh's if it is counted up
        rest = match tail.strip_prefix('[').and_then(|t| t.split_once(']')) {
            Some((n, after)) => {
                let same = out[..out.len() - 1].iter().filter(|p| Some(*p) == out.last()).count();
                if n.trim().parse() != Ok(same) {
                    return Err(cannot());
                }
                after
            }
            None => tail,
        };
    }
    if out.is_empty() { Err(cannot()) } else { Ok(out) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Placement::*;

    #[test]
    fn types_are_read() {
        let t = read("f32[8, 16][16, 1]cuda:0").expect("a type");
        assert_eq!((t.meta.to_string(), t.placements), ("f32[8, 16]".into(), vec![]));
        assert_eq!(read("b8[]").expect("a type").meta.sizes.len(), 0);
        let t = read("DTensor(f32[8, 16], S(0)P(sum))").expect("a type");
        assert_eq!(t.placements, vec![Split(0), Partial("sum".into())]);
        assert_eq!(read("DTensor(f32[8], S(0)[0]S(0)[1])").expect("a type").placements.len(), 2);
        for wrong in [
            "f32[s77 +]",
            "Sym(s0)",
            "f31[2]",
            "f32",
            "DTensor(f32[8], Q)",
            "DTensor(f32[8], S(0)[1]S(0)[0])",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
