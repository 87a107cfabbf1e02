//! Work of a tile kernel: the amounts per unit, and how the units wait for each other.
//!
//! The module computes amounts; the machine determines how long they take. A preloaded operand is
//! brought in whole before the loops, and loads of it are then free. Every other load and the store
//! cause traffic each time they run. The loops form a pipeline: while one tile is loaded,
//! multiplied, computed on or stored, other tiles occupy the other units.

use super::{Index, Part, Stmt, Tile, TileKernel, extent};
use crate::tiles::facts::NodeFacts;

/// Amounts per unit: two operations per multiplication of a `dot`; bytes loaded and stored; bytes
/// of the results of functions, casts and additions.
pub type Amounts = [u64; 3];

/// Work of a kernel.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Work {
    /// Bytes of preloaded operands, each counted once.
    pub preloaded: u64,
    /// Amounts of the loops.
    pub all: Amounts,
    /// For each unit, the work of the other units on the first tiles before it starts.
    pub before: [Amounts; 3],
    /// For each unit, the work of the other units on the last tiles after it has finished.
    pub after: [Amounts; 3],
}

impl Work {
    /// Returns the amounts of the kernel, with preloading counted as memory traffic.
    pub fn total(&self) -> Amounts {
        let [flops, bytes, vector] = self.all;
        [flops, bytes.saturating_add(self.preloaded), vector]
    }
}

impl TileKernel {
    /// Returns the work for operands of these sizes, or `None` if the sizes do not fit or
    /// [`TileKernel::facts`] rejects the kernel.
    pub fn work(&self, operands: &[&[u64]]) -> Option<Work> {
        let extents = &self.extents(operands, None).ok()?[..];
        let facts = self.facts().ok()?;
        let mut work = Work::default();
        for p in self.preloaded() {
            let (side, sizes) = (self.params.get(p as usize)?, operands.get(p as usize)?);
            let bytes = sizes.iter().copied().fold(side.dtype.bytes(), u64::saturating_mul);
            work.preloaded = work.preloaded.saturating_add(bytes);
        }
        let steps = self.steps(&facts.nodes)?;
        let runs = |s: &Step| s.open.iter().all(|v| extents[*v as usize] > 0);
        let tile = |v: &u32| self.vars[*v as usize].tile;
        // Over all turns, the tiles of a variable add up to its extent. Loops over other variables
        // repeat them.
        let whole = |s: &Step| {
            let again = s.open.iter().filter(|v| !s.index.contains(&Index::Var(**v)));
            let again = again.map(|v| extents[*v as usize].div_ceil(tile(v)));
            s.index.iter().map(|i| extent(*i, extents)).chain(again).fold(s.each, u64::saturating_mul)
        };
        let one = |s: &Step, of: &dyn Fn(u64, u64) -> u64| {
            let size = |i: &Index| match i {
                Index::Var(v) => of(extents[*v as usize], tile(v)),
                Index::At(_) => 1,
            };
            s.index.iter().map(size).fold(s.each, u64::saturating_mul)
        };
        let first = |n: u64, tile: u64| n.min(tile);
        let last = |n: u64, tile: u64| if n.is_multiple_of(tile) { tile } else { n % tile };
        let steps: Vec<Step> = steps.into_iter().filter(|s| runs(s)).collect();
        for s in &steps {
            work.all[s.unit] = work.all[s.unit].saturating_add(whole(s));
        }
        for unit in 0..3 {
            let chain = |list: &mut dyn Iterator<Item = &Step>, of: &dyn Fn(u64, u64) -> u64| {
                let mut sum = Amounts::default();
                for s in list.take_while(|s| s.unit != unit) {
                    sum[s.unit] = sum[s.unit].saturating_add(one(s, of));
                }
                sum
            };
            if steps.iter().any(|s| s.unit == unit) {
                work.before[unit] = chain(&mut steps.iter(), &first);
                work.after[unit] = chain(&mut steps.iter().rev(), &last);
            }
        }
        Some(work)
    }

    /// Returns the numbers of the preloaded operands.
    pub fn preloaded(&self) -> Vec<u32> {
        let lists = self.body.iter().filter_map(|s| match s {
            Stmt::Preload { params } => Some(params),
            _ => None,
        });
        lists.flatten().copied().collect()
    }

    /// Returns the steps that cost something, in order of execution.
    fn steps(&self, nodes: &[NodeFacts]) -> Option<Vec<Step>> {
        let preloaded = self.preloaded();
        let mut nodes = nodes.iter();
        let (mut out, mut whole): (Vec<Step>, bool) = (vec![], true);
        // Within a statement, the operands of an expression come after it in the walk, but before
        // it in time.
        let mut statement: Vec<Step> = vec![];
        self.walk(&mut |part, open| {
            let Some(node) = nodes.next() else {
                whole = false;
                return;
            };
            if let Part::Stmt(_) = part {
                out.extend(statement.drain(..).rev());
            }
            let (unit, each) = match part {
                Part::Tile(Tile::Load { param, .. }) if preloaded.contains(param) => return,
                Part::Stmt(Stmt::Store { .. }) | Part::Tile(Tile::Load { .. }) => (1, node.dtype.bytes()),
                Part::Stmt(Stmt::Add { is: Tile::Dot(..), .. }) => return,
                Part::Stmt(Stmt::Add { .. }) | Part::Tile(Tile::Map(..) | Tile::Cast(..)) => {
                    (2, node.dtype.bytes())
                }
                Part::Tile(Tile::Dot(..)) => (0, 2),
                Part::Stmt(_) | Part::Tile(Tile::Value(_)) => return,
            };
            let mut index = node.index.clone();
            index.extend(node.contracted.filter(|_| unit == 0));
            statement.push(Step { unit, each, index, open: open.to_vec() });
        });
        out.extend(statement.into_iter().rev());
        whole.then_some(out)
    }
}

/// A load, a matmul, an elementwise computation or the store.
struct Step {
    /// Unit, as an index into [`Amounts`].
    unit: usize,
    /// Amount per element.
    each: u64,
    /// Dimensions of its elements.
    index: Vec<Index>,
    /// Variables of the enclosing loops.
    open: Vec<u32>,
}
