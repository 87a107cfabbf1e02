//! Extents of what a tile kernel computes, value by value.

use super::{Extent, expression, holds, product};
use kbc_ir::tiles::{Facts, Stmt, Tile, TileKernel, extent};
use kbc_ir::types::DType;
use std::collections::BTreeMap;

/// Returns the extent of a kernel's results, if everything that it computes is exact. `operands`
/// are the extents of its operands.
pub(super) fn exact_extent(
    kernel: &TileKernel,
    operands: &[(Extent, DType)],
    sizes: &[Vec<u64>],
) -> Option<(Extent, DType)> {
    let facts = kernel.facts().ok()?;
    let views: Vec<&[u64]> = sizes.iter().map(|s| &s[..]).collect();
    let extents = kernel.extents(&views, None).ok()?;
    let mut e =
        Exact { operands, facts: &facts, extents: &extents, next: 0, values: BTreeMap::new(), result: None };
    e.body(&kernel.body)?;
    e.result.map(|x| (x, kernel.result.dtype))
}

struct Exact<'a> {
    operands: &'a [(Extent, DType)],
    facts: &'a Facts,
    extents: &'a [u64],
    next: usize,
    values: BTreeMap<u32, Extent>,
    result: Option<Extent>,
}

impl Exact<'_> {
    fn body(&mut self, list: &[Stmt]) -> Option<()> {
        for s in list {
            let dtype = self.facts.nodes[self.next].dtype;
            self.next += 1;
            match s {
                Stmt::Preload { .. } => {}
                Stmt::For { body, .. } => self.body(body)?,
                Stmt::Zeros { value, .. } => {
                    let none = Extent { size: 0.0, grain: f64::INFINITY };
                    self.values.insert(*value, none);
                }
                Stmt::Let { value, is } => {
                    let x = self.tile(is)?;
                    self.values.insert(*value, x);
                }
                Stmt::Add { value, is } => {
                    let (x, acc) = (self.tile(is)?, *self.values.get(value)?);
                    let sum = Extent { size: x.size + acc.size, grain: x.grain.min(acc.grain) };
                    self.values.insert(*value, holds(dtype, sum)?);
                }
                Stmt::Store { is, .. } => self.result = Some(self.tile(is)?),
            }
        }
        Some(())
    }

    fn tile(&mut self, t: &Tile) -> Option<Extent> {
        let node = &self.facts.nodes[self.next];
        self.next += 1;
        let operands: Vec<Extent> = t.operands().into_iter().map(|o| self.tile(o)).collect::<Option<_>>()?;
        let x = match (t, &operands[..]) {
            (Tile::Load { param, .. }, _) => self.operands.get(*param as usize)?.0,
            (Tile::Value(v), _) => *self.values.get(v)?,
            (Tile::Dot(..), [a, b]) => {
                let k = extent(node.contracted?, self.extents) as f64;
                let x = product(*a, *b);
                Extent { size: x.size * k, ..x }
            }
            (Tile::Map(f, _), _) => expression(&f.body, &operands, node.dtype)?,
            (Tile::Cast(..), [x]) => *x,
            _ => return None,
        };
        holds(node.dtype, x)
    }
}
