//! Policies by which the cubes and PEs of a device divide tensors, and which tensor has which
//! (TOPO-6).
//!
//! This module owns the policies of the axes `cube` and `pe`, their names and the cuts that they
//! make. The shards that result on a machine are computed by [`crate::placement`].

use std::fmt;
use std::ops::Range;

use kbc_ir::types::CutRule;

/// The policy by which the cubes of a device, or the PEs of a cube, divide a tensor.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Policy {
    /// Every cube or PE holds the whole tensor.
    Replicate,
    /// The last axis is cut.
    ColumnWise,
    /// The first axis is cut.
    RowWise,
    /// The first and the last axis are cut into a grid that is as square as the number of parts
    /// allows, with at least as many rows as columns. Parts are numbered along the rows of the
    /// grid.
    TiledRowWise,
    /// The same grid as [`Policy::TiledRowWise`], with parts numbered along its columns.
    TiledColumnWise,
}

impl Policy {
    /// All policies by name. The names with `_major` are synonyms.
    pub const ALL: [(&'static str, Policy); 7] = [
        ("replicate", Policy::Replicate),
        ("column_wise", Policy::ColumnWise),
        ("row_wise", Policy::RowWise),
        ("tiled_row_wise", Policy::TiledRowWise),
        ("tiled_column_wise", Policy::TiledColumnWise),
        ("tiled_row_major", Policy::TiledRowWise),
        ("tiled_column_major", Policy::TiledColumnWise),
    ];

    /// Returns the policy of a name.
    pub fn parse(name: &str) -> Option<Policy> {
        Policy::ALL.iter().find(|p| p.0 == name).map(|p| p.1)
    }

    /// Returns the name of the policy, without `_major`.
    pub fn name(self) -> &'static str {
        Policy::ALL.iter().find(|p| p.1 == self).map_or("", |p| p.0)
    }

    /// Returns the number of rows and columns of the grid of `parts` parts of a tensor of `axes`
    /// axes.
    fn grid(self, parts: u64, axes: usize) -> (u64, u64) {
        match self {
            Policy::Replicate => (1, 1),
            Policy::ColumnWise => (1, parts),
            Policy::RowWise => (parts, 1),
            // The only axis is both the first and the last one.
            _ if axes < 2 => (1, parts),
            _ => {
                let columns = (1..=parts.isqrt()).rev().find(|c| parts.is_multiple_of(*c)).unwrap_or(1);
                (parts / columns, columns)
            }
        }
    }

    /// Returns part number `part` of the `parts` parts of a slice.
    pub(crate) fn cut(self, slice: &[Range<u64>], parts: u64, part: u64) -> Vec<Range<u64>> {
        let mut out = slice.to_vec();
        let (rows, columns) = self.grid(parts, slice.len());
        let (row, column) = match self {
            Policy::TiledColumnWise => (part % rows, part / rows % columns),
            _ => (part / columns % rows, part % columns),
        };
        let cut = |r: &Range<u64>, i: u64, of: u64| {
            let part = CutRule::Even.part(r.end - r.start, i, of);
            r.start + part.start..r.start + part.end
        };
        if let Some(first) = out.first_mut() {
            *first = cut(first, row, rows);
        }
        if let Some(last) = out.last_mut() {
            *last = cut(last, column, columns);
        }
        out
    }
}

/// The placement of a tensor over the cubes and PEs of a device.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct DevicePlacement {
    /// Policy of the cubes.
    pub cube: Policy,
    /// Policy of the PEs of each cube.
    pub pe: Policy,
    /// Number of cubes to use, from the first one. None uses all.
    pub num_cubes: Option<u64>,
    /// Number of PEs to use in each cube, from the first one. None uses all.
    pub num_pes: Option<u64>,
}

impl Default for DevicePlacement {
    /// Returns the placement of the whole tensor on the first PE of the first cube.
    fn default() -> Self {
        DevicePlacement {
            cube: Policy::Replicate,
            pe: Policy::Replicate,
            num_cubes: Some(1),
            num_pes: Some(1),
        }
    }
}

impl fmt::Display for DevicePlacement {
    /// Writes the placement as in a machine file: `cube: column_wise, pe: row_wise, num_cubes: 4`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cube: {}, pe: {}", self.cube.name(), self.pe.name())?;
        for (name, n) in [("num_cubes", self.num_cubes), ("num_pes", self.num_pes)] {
            if let Some(n) = n {
                write!(f, ", {name}: {n}")?;
            }
        }
        Ok(())
    }
}

/// The placements of tensors inside devices: one for each named tensor, and a default.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Placements {
    /// The placements of named tensors.
    pub named: Vec<(String, DevicePlacement)>,
    /// The placement of all other tensors. None places them on the device's first PE.
    pub others: Option<DevicePlacement>,
}

impl Placements {
    /// Returns the placement of a tensor: its own, else the default.
    pub fn of(&self, name: &str) -> Option<DevicePlacement> {
        self.named.iter().find(|n| n.0 == name).map(|n| n.1).or(self.others)
    }

    /// Checks whether no placement is given.
    pub fn is_empty(&self) -> bool {
        self.named.is_empty() && self.others.is_none()
    }
}
