//! Parser of types: `f32[8, 16]`, also followed by strides and a device, `Sym(s77)`,
//! `DTensor(f32[8, 16], S(0)R)`.

use super::sizes;
use crate::torch::dtype::DType;
use crate::torch::model::{Meta, Placement};
use crate::torch::symbols::Size;

/// A type.
#[derive(Clone, PartialEq, Debug)]
pub struct Type {
    /// Element type and sizes; the global sizes for a DTensor.
    pub meta: Meta,
    /// One placement per mesh dimension; empty for a local tensor.
    pub placements: Vec<Placement>,
}

/// Reads a type.
///
/// # Errors
/// Returns a sentence that describes the text if it is not a tensor type.
pub fn read(text: &str) -> Result<Type, String> {
    let text = text.trim();
    if let Some(inner) = text.strip_prefix("DTensor(").and_then(|t| t.strip_suffix(')')) {
        let cannot = || format!("`{text}` is not a type with placements");
        let (ty, places) = inner.rsplit_once("], ").ok_or_else(cannot)?;
        let meta = read(&format!("{ty}]"))?.meta;
        return Ok(Type { meta, placements: placements(places.trim())? });
    }
    let cannot = || format!("`{text}` is not a type of a tensor");
    let (name, rest) = text.split_once('[').ok_or_else(cannot)?;
    let dtype = DType::of_name(name).ok_or_else(|| format!("unknown element type `{name}`"))?;
    // Strides and device after the sizes are not needed.
    let (dims, _) = rest.split_once(']').ok_or_else(cannot)?;
    let sizes = sizes::read_all(dims)?;
    Ok(Type { meta: Meta { dtype, sizes }, placements: vec![] })
}

/// Returns the size in `Sym(s77)`; none for another type.
///
/// # Errors
/// Returns a sentence if the parentheses do not contain a size.
pub fn symbol(text: &str) -> Option<Result<Size, String>> {
    text.trim().strip_prefix("Sym(").and_then(|t| t.strip_suffix(')')).map(sizes::read)
}

/// Reads placements such as `S(0)RP(sum)`.
///
/// # Errors
/// Returns a sentence if the text is not a list of placements.
pub fn placements(text: &str) -> Result<Vec<Placement>, String> {
    let cannot = || format!("unknown placement `{text}`");
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
        // A number in brackets gives the order of several axes on one dimension. It is the mesh's
        // order if it counts up.
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
