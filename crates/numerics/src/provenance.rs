//! Provenance: which contributions an element of a sum holds, and how often, found by running the
//! schedule again.
//!
//! Summation is linear: with ones at one contributor and zeros at all others, every element of a
//! sum is the number of times that it contains that contributor. The hints of [`crate::compare`]
//! look for a contribution as large as the error and may mistake one contribution for another of
//! equal value; this module cannot. The driver writes the messages.

use crate::numbers::from_i64;
use crate::shard::{Part, feed_shape};
use crate::tensor::Tensor;
use kbc_ir::types::{Mesh, TensorType};

/// The contributors that a place does not hold exactly once.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Provenance {
    /// Contributors that are missing.
    pub missing: Vec<u64>,
    /// Contributors that occur more than once, with their number of occurrences.
    pub repeated: Vec<(u64, u64)>,
}

impl Provenance {
    /// Whether every contributor occurs once. If the element is wrong nevertheless, elements are in
    /// the wrong place.
    pub fn is_complete(&self) -> bool {
        self.missing.is_empty() && self.repeated.is_empty()
    }
}

/// Returns the provenance of places, given as (rank, element of its part), of a result that is the
/// sum of one input of type `ty`. `run` executes the schedule on such an input and returns the
/// result's parts of all ranks.
///
/// Returns None if a run fails, or if an element is not a non-negative integer, because it then
/// holds something that is not a contribution.
pub fn provenance(
    ty: &TensorType,
    mesh: &Mesh,
    places: &[(u64, usize)],
    run: &mut dyn FnMut(Tensor) -> Option<Vec<Part>>,
) -> Option<Vec<Provenance>> {
    let shape = feed_shape(ty, mesh);
    let (contributors, each) = shape.split_first()?;
    let each = each.iter().product::<u64>() as usize;
    let mut out = vec![Provenance::default(); places.len()];
    for c in 0..*contributors {
        let at = |i: usize| i64::from((i / each.max(1)) as u64 == c);
        let values: Vec<i64> = (0..each * *contributors as usize).map(at).collect();
        let parts = run(Tensor::new(shape.clone(), from_i64(ty.dtype, &values))?)?;
        for (found, (rank, element)) in out.iter_mut().zip(places) {
            let times = parts.get(*rank as usize)?.tensor.data().get(*element)?.as_f64();
            match times {
                1.0 => {}
                0.0 => found.missing.push(c),
                t if t > 0.0 && t.fract() == 0.0 => found.repeated.push((c, t as u64)),
                _ => return None,
            }
        }
    }
    Some(out)
}
