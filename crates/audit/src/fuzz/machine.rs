//! Random machines, meshes, and placements on them.

use super::rng::Rng;
use kbc_ir::types::{Axis, Cut, CutRule, DType, Mesh, ReduceOp, TensorType};
use kbc_ir::{Name, Parts};

/// A machine and the mesh over it, as text and as axes.
#[derive(Clone, Debug)]
pub struct RandomMachine {
    /// Shape, such as `torus(2, 3)`.
    pub shape: String,
    /// Settings for sending through queues instead of windows, such as `queue: sram, 1; slots: 64,
    /// 64 B`; otherwise empty.
    pub settings: String,
    /// View of the mesh, such as `sys[tp]`.
    pub view: String,
    /// The axes of the mesh.
    pub mesh: Mesh,
}

const MAX_RANKS: usize = 9;

/// Returns side lengths with at most nine devices in total. No side is 1 unless it is the only one.
fn sides(rng: &mut Rng, dims: usize) -> Vec<u64> {
    let mut room = MAX_RANKS;
    (0..dims)
        .map(|i| {
            let later = 1 << (dims - 1 - i);
            let most = (room / later).max(1);
            let n = 2 + rng.below(most.saturating_sub(1).max(1));
            let n = n.min(most);
            room /= n;
            n as u64
        })
        .collect()
}

fn axis(name: &str, size: u64, parts: Vec<(Name, u64)>) -> Axis {
    Axis { name: Name::from(name), size, parts }
}

impl RandomMachine {
    /// Returns a random machine with at most nine devices.
    pub fn random(rng: &mut Rng) -> RandomMachine {
        let kind = rng.weighted(&[(30, "ring("), (30, "torus("), (25, "mesh("), (15, "full(")]);
        let dims = match kind {
            "torus(" | "mesh(" => rng.weighted(&[(25, 1), (65, 2), (10, 3)]),
            _ => 1,
        };
        let sizes = if dims == 1 && rng.chance(4) { vec![1] } else { sides(rng, dims) };
        let list: Vec<String> = sizes.iter().map(u64::to_string).collect();
        let shape = format!("{kind}{})", list.join(", "));
        let p: u64 = sizes.iter().product();
        let own: Vec<(Name, u64)> =
            ["x", "y", "z"].iter().zip(&sizes).map(|(n, s)| (Name::from(*n), *s)).collect();
        let cuts: Vec<u64> = (2..p).filter(|d| p.is_multiple_of(*d)).collect();
        let (view, axes) = match rng.below(10) {
            0..4 if dims > 1 => {
                let names: Vec<&str> = own.iter().map(|o| o.0.as_str()).collect();
                let axes = own.iter().map(|(n, s)| axis(n.as_str(), *s, vec![(n.clone(), *s)])).collect();
                (names.join(", "), axes)
            }
            4..7 if !cuts.is_empty() => {
                let a = *rng.pick(&cuts);
                (format!("a: {a}, b: {}", p / a), vec![axis("a", a, vec![]), axis("b", p / a, vec![])])
            }
            _ => ("tp".to_owned(), vec![axis("tp", p, own)]),
        };
        RandomMachine { shape, settings: String::new(), view: format!("sys[{view}]"), mesh: Mesh { axes } }
    }

    /// Gives one machine in five queues. The queues have many slots, since too few cause a
    /// deadlock, and slots are small or large.
    pub fn queues(&mut self, rng: &mut Rng) {
        if rng.chance(20) {
            let memory = rng.pick(&["tcm", "sram", "hbm"]);
            let bytes = rng.pick(&[16, 256, 4096]);
            self.settings = format!("queue: {memory}, {}; slots: 256, {bytes} B", rng.below(3));
        }
    }

    /// Returns the machine as a program names it.
    pub fn text(&self) -> String {
        match self.settings.is_empty() {
            true => self.shape.clone(),
            false => format!("{} {{ {} }}", self.shape, self.settings),
        }
    }

    /// Returns a random placement of a tensor; every axis of the mesh has one use or none. `split`
    /// restricts it to placements that any value can be brought to.
    pub fn place(&self, rng: &mut Rng, dtype: DType, sizes: &[u64], split: bool) -> TensorType {
        let mut ty = TensorType::replicated(dtype, sizes);
        for a in &self.mesh.axes {
            match rng.below(10) {
                0..5 if !sizes.is_empty() => self.cut(rng, &mut ty, &a.name),
                5..7 if !split && dtype.reduces() => {
                    let op = *rng.pick(&OPS);
                    let list = ty.partial.get_or_insert((op, vec![]));
                    list.1.push(a.name.clone());
                }
                7 if !split && ty.only.is_none() && !sizes.is_empty() => {
                    ty.only = Some((rng.below(a.size as usize) as u64, a.name.clone()));
                }
                _ => {}
            }
        }
        ty
    }

    /// Cuts a random dimension by an axis.
    pub fn cut(&self, rng: &mut Rng, ty: &mut TensorType, axis: &Name) {
        let Some(last) = ty.dims.len().checked_sub(1) else { return };
        let dim = &mut ty.dims[rng.below(last + 1)];
        match &mut dim.cut {
            Some(cut) => {
                cut.axes.push(axis.clone());
                // The language has no other rule for a cut by several axes.
                cut.rule = CutRule::Even;
            }
            None => {
                let k = self.mesh.axis(axis).map_or(1, |a| a.size);
                let rule = match rng.below(20) {
                    0..3 => CutRule::Ceil,
                    3..5 => given(rng, dim.size, k),
                    _ => CutRule::Even,
                };
                dim.cut = Some(Cut { axes: vec![axis.clone()], rule });
            }
        }
    }
}

/// Returns lengths of k parts of n elements, many of them 0.
pub fn given(rng: &mut Rng, n: u64, k: u64) -> CutRule {
    let mut cuts: Vec<u64> = (1..k)
        .map(|_| match rng.below(4) {
            0 => 0,
            1 => n,
            _ => rng.below(n as usize + 1) as u64,
        })
        .collect();
    cuts.sort_unstable();
    cuts.push(n);
    let lengths = cuts.iter().scan(0, |at, c| Some(c - std::mem::replace(at, *c)));
    Parts::row(&lengths.collect::<Vec<u64>>()).map_or(CutRule::Even, CutRule::Lengths)
}

/// The combiners.
pub const OPS: [ReduceOp; 4] = [ReduceOp::Sum, ReduceOp::Prod, ReduceOp::Min, ReduceOp::Max];
