//! Types with placements: the placements over each mesh dimension become cuts of the type.

use super::axes::{Axes, Axis};
use crate::torch::dtype::DType;
use crate::torch::model::Placement;

/// Prints a type with placements, one per mesh dimension: `f32[8@dp, 16] partial(sum@tp)`.
///
/// # Errors
/// Returns a sentence about a placement that kbc does not have.
pub fn placed_type(dtype: DType, sizes: &[i64], places: &[Placement], axes: &Axes) -> Result<String, String> {
    if places.len() != axes.list.len() {
        return Err(format!(
            "it has {} placements, and the mesh has {} dimensions",
            places.len(),
            axes.list.len()
        ));
    }
    let mut cuts: Vec<Vec<&Axis>> = vec![vec![]; sizes.len()];
    let mut partial: Vec<(&str, &str)> = vec![];
    for (place, axis) in places.iter().zip(&axes.list) {
        match place {
            Placement::Replicated => {}
            Placement::Split(d) => match cuts.get_mut(*d) {
                Some(c) => c.push(axis),
                None => return Err(format!("dimension {d} of {} does not exist", sizes.len())),
            },
            Placement::Partial(op) => {
                let op = match op.as_str() {
                    "sum" | "max" | "min" => op,
                    "product" => "prod",
                    other => return Err(format!("kbc does not support partial values of '{other}'")),
                };
                partial.push((op, &axis.name));
            }
        }
    }
    let mut dims = vec![];
    for (n, cut) in sizes.iter().zip(&cuts) {
        let parts: i64 = cut.iter().map(|a| a.size as i64).product();
        let even = n % parts == 0;
        dims.push(match &cut[..] {
            [] => n.to_string(),
            [one] if even => format!("{n}@{}", one.name),
            [one] => format!("{n}@{}(cut: ceil)", one.name),
            more if even => {
                let names: Vec<&str> = more.iter().map(|a| a.name.as_str()).collect();
                format!("{n}@({})", names.join(", "))
            }
            _ => return Err(format!("{n} elements cannot be split evenly over several axes")),
        });
    }
    let mut out = dtype.name().to_owned();
    if !dims.is_empty() {
        out.push_str(&format!("[{}]", dims.join(", ")));
    }
    if let Some((op, _)) = partial.first() {
        if partial.iter().any(|p| p.0 != *op) {
            return Err("it is partial for two different reductions".into());
        }
        let names: Vec<&str> = partial.iter().map(|p| p.1).collect();
        let over = if names.len() == 1 { names.concat() } else { format!("({})", names.join(", ")) };
        out.push_str(&format!(" partial({op}@{over})"));
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use Placement::*;

    #[test]
    fn placements_are_types() {
        let list =
            [("dp", 2, 2), ("tp", 2, 1)].map(|(n, size, stride)| Axis { name: n.into(), size, stride });
        let axes = Axes { list: list.to_vec() };
        let ty = |sizes: &[i64], p: [Placement; 2]| placed_type(DType::F32, sizes, &p, &axes);
        assert_eq!(
            ty(&[8, 16], [Split(0), Partial("sum".into())]),
            Ok("f32[8@dp, 16] partial(sum@tp)".into())
        );
        assert_eq!(ty(&[8], [Split(0), Split(0)]), Ok("f32[8@(dp, tp)]".into()));
        assert_eq!(ty(&[7], [Replicated, Split(0)]), Ok("f32[7@tp(cut: ceil)]".into()));
        assert_eq!(
            ty(&[], [Partial("max".into()), Partial("max".into())]),
            Ok("f32 partial(max@(dp, tp))".into())
        );
        assert!(ty(&[8], [Split(1), Replicated]).is_err());
        assert!(ty(&[7], [Split(0), Split(0)]).is_err());
        assert!(ty(&[8], [Partial("avg".into()), Replicated]).is_err());
    }
}
