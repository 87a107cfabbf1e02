//! Partial demands: a demand of a called program on some dimensions becomes one on all of them.

use kbc_ir::Name;
use kbc_ir::types::{Cut, TensorType};

/// Returns the wanted type, with its open dimensions cut as in `value`. An axis that the wanted
/// type uses has no other use in it: a cut by several axes ends before such an axis, and a
/// reduction over it is performed.
pub(super) fn closed(value: &TensorType, want: &TensorType, open: &[usize]) -> TensorType {
    let cuts = want.dims.iter().filter_map(|d| d.cut.as_ref());
    let mut taken: Vec<&Name> = cuts.flat_map(|c| &c.axes).collect();
    taken.extend(want.partial.iter().flat_map(|p| &p.1));
    taken.extend(want.only.iter().map(|o| &o.1));
    let mut out = want.clone();
    for &d in open {
        let (Some(dim), Some(have)) = (out.dims.get_mut(d), value.dims.get(d)) else { continue };
        dim.cut = have.cut.as_ref().and_then(|c| {
            let axes: Vec<Name> = c.axes.iter().take_while(|a| !taken.contains(a)).cloned().collect();
            (!axes.is_empty()).then(|| Cut { axes, rule: c.rule.clone() })
        });
    }
    if let Some((op, axes)) = &value.partial {
        out.partial = match &want.partial {
            // Reductions over other axes stay pending, in addition to the one that is asked for.
            Some((wanted, some)) if wanted == op && some.iter().all(|a| axes.contains(a)) => {
                Some((*op, axes.clone()))
            }
            Some(_) => want.partial.clone(),
            None => {
                let left: Vec<Name> = axes.iter().filter(|a| !taken.contains(a)).cloned().collect();
                (!left.is_empty()).then_some((*op, left))
            }
        };
    }
    if want.only.is_none() {
        out.only = value.only.clone().filter(|o| !taken.contains(&&o.1));
    }
    out
}
