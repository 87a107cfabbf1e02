//! Where the parts of a tensor are inside a device: which cubes and PEs hold which slice (TOPO-6).
//!
//! Owns the policies of the axes `cube` and `pe`, their cuts and the shards they make. The cube splits first, the PE splits
//! the cube's part. Which rank holds which part of a program's tensor is the program's types, not this; where a shard is in
//! a memory is [`crate::memory`]'s.

use std::ops::Range;

use kbc_diag::{Diagnostic, Span};

use crate::topology::{DeviceId, Ranks, Shape, Topology};
use kbc_ir::types::CutRule;

/// A rectangular part of a tensor: a range along each axis.
pub type Block = Vec<Range<u64>>;

/// How one axis of a device shares a tensor.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Policy {
    /// Everybody holds all of it.
    Replicate,
    /// The last axis is cut.
    ColumnWise,
    /// The first axis is cut.
    RowWise,
    /// First and last axis are cut into a grid, as square as the number allows, with at least as many rows as columns;
    /// parts are numbered along its rows.
    TiledRowWise,
    /// The same grid, numbered along its columns.
    TiledColumnWise,
}

impl Policy {
    /// All, by name; `_major` is another word for the same of a grid.
    pub const ALL: [(&'static str, Policy); 7] = [
        ("replicate", Policy::Replicate),
        ("column_wise", Policy::ColumnWise),
        ("row_wise", Policy::RowWise),
        ("tiled_row_wise", Policy::TiledRowWise),
        ("tiled_column_wise", Policy::TiledColumnWise),
        ("tiled_row_major", Policy::TiledRowWise),
        ("tiled_column_major", Policy::TiledColumnWise),
    ];

    /// The policy of that name.
    pub fn parse(name: &str) -> Option<Policy> {
        Policy::ALL.iter().find(|p| p.0 == name).map(|p| p.1)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        Policy::ALL.iter().find(|p| p.1 == self).map_or("", |p| p.0)
    }

    /// Rows and columns of the grid of so many parts.
    fn grid(self, parts: u64, axes: usize) -> (u64, u64) {
        match self {
            Policy::Replicate => (1, 1),
            Policy::ColumnWise => (1, parts),
            Policy::RowWise => (parts, 1),
            // One axis is first and last at once.
            _ if axes < 2 => (1, parts),
            _ => {
                let columns = (1..=parts.isqrt()).rev().find(|c| parts.is_multiple_of(*c)).unwrap_or(1);
                (parts / columns, columns)
            }
        }
    }

    /// Part number `part` of `parts` of a slice.
    fn cut(self, slice: &[Range<u64>], parts: u64, part: u64) -> Vec<Range<u64>> {
        let mut out = slice.to_vec();
        let (rows, columns) = self.grid(parts, slice.len());
        let (row, column) = match self {
            Policy::TiledColumnWise => (part % rows, part / rows % columns),
            _ => (part / columns % rows, part % columns),
        };
        let cut = |r: &Range<u64>, i: u64, of: u64| {
            let at = |i| r.start + CutRule::Even.boundary(r.end - r.start, i, of);
            at(i)..at(i + 1)
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

/// How a device's cubes and PEs share its tensors.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct DevicePlacement {
    /// Between cubes.
    pub cube: Policy,
    /// Between the PEs of a cube.
    pub pe: Policy,
    /// Only the first so many cubes.
    pub num_cubes: Option<u64>,
    /// Only the first so many PEs of each.
    pub num_pes: Option<u64>,
}

impl Default for DevicePlacement {
    /// All of it at the first PE of the first cube.
    fn default() -> Self {
        DevicePlacement {
            cube: Policy::Replicate,
            pe: Policy::Replicate,
            num_cubes: Some(1),
            num_pes: Some(1),
        }
    }
}

/// A slice of a device's tensor and who holds it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shard {
    /// Coordinates of the SIP.
    pub sip: Vec<u32>,
    /// Row and column of the cube in it.
    pub cube: [u32; 2],
    /// The PE in the cube.
    pub pe: u32,
    /// Byte of the tensor, row-major, at which the slice begins.
    pub offset: u64,
    /// Bytes of the slice; none where there are more parts than elements.
    pub bytes: u64,
    /// The slice along each axis.
    pub slice: Vec<Range<u64>>,
}

/// What every device of a machine has inside. Its PEs are numbered cube by cube, cubes row by row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Interior {
    /// Rows and columns of its cubes.
    pub cubes: [u32; 2],
    /// PEs of each.
    pub pes: u32,
}

impl Interior {
    /// That of the devices of a machine; one PE where the machine is no package.
    pub fn of(machine: &Topology) -> Interior {
        let Shape::Package { cubes, pes, .. } = machine.shape() else {
            return Interior { cubes: [1, 1], pes: 1 };
        };
        match machine.settings().package.ranks() {
            Ranks::Sip => Interior { cubes: *cubes, pes: *pes },
            Ranks::Cube => Interior { cubes: [1, 1], pes: *pes },
            Ranks::Pe => Interior { cubes: [1, 1], pes: 1 },
        }
    }

    /// All PEs of a device.
    pub fn count(self) -> u32 {
        self.cubes[0] * self.cubes[1] * self.pes
    }

    /// How far two PEs are from each other: cubes between them, then how far their numbers in their cubes are apart,
    /// around the end.
    pub(crate) fn distance(self, from: u32, to: u32) -> (u32, u32) {
        let at = |pe: u32| (pe / self.pes / self.cubes[1], pe / self.pes % self.cubes[1], pe % self.pes);
        let (a, b) = (at(from), at(to));
        (a.0.abs_diff(b.0) + a.1.abs_diff(b.1), (b.2 + self.pes - a.2) % self.pes)
    }

    /// The inside of a device as a machine of its own: its PEs are the devices, joined by the links of the package. None
    /// where a device is one PE.
    ///
    /// # Errors
    /// E443 for more nodes than a list of links may have.
    pub fn network(self, machine: &Topology) -> Result<Option<Topology>, Diagnostic> {
        if self.count() == 1 {
            return Ok(None);
        }
        let shape = Shape::Package { sips: Box::new(Shape::Ring(1)), cubes: self.cubes, pes: self.pes };
        let mut settings = *machine.settings();
        settings.package.ranks = Some(Ranks::Pe);
        Topology::build(shape, settings, Span::NONE).map(Some)
    }
}

/// Where a device begins: SIP, first cube, first PE.
struct First {
    sip: Vec<u32>,
    cube: [u32; 2],
    pe: u32,
}

fn first(machine: &Topology, device: DeviceId) -> Option<First> {
    let Shape::Package { sips, .. } = machine.shape() else { return None };
    let at = machine.place(device);
    let axes = if sips.axes() == 2 { 2 } else { 1 };
    let (sip, rest) = at.split_at(axes.min(at.len()));
    let cube = [rest.first().copied().unwrap_or(0), rest.get(1).copied().unwrap_or(0)];
    Some(First { sip: sip.to_vec(), cube, pe: rest.get(2).copied().unwrap_or(0) })
}

impl DevicePlacement {
    /// The slice of every PE of a device that holds one, by the PE's number in the device, in the order of cubes and then
    /// PEs. Of a machine that is no package the device is the only cube and PE there is.
    ///
    /// # Errors
    /// E469 for more cubes or PEs than the device has, none, an axis that it does not have, or a scalar that is to be cut.
    pub fn slices(&self, sizes: &[u64], machine: &Topology) -> Result<Vec<(u32, Block)>, Diagnostic> {
        let own = Interior::of(machine);
        let count = |axis: &str, policy: Policy, asked: Option<u64>, there: u64| {
            if there == 1 && policy != Policy::Replicate {
                let title =
                    format!("a device of {} has no axis `{axis}` to cut a tensor along", machine.shape());
                return Err(Diagnostic::error("E469", title).help(
                    "what is split between devices is in the program's types; with `ranks: sip` a device has cubes and PEs, \
                     with `ranks: cube` PEs",
                ));
            }
            let n = asked.unwrap_or(there);
            if n == 0 || n > there {
                let title = format!("`num_{axis}s: {n}` on a device with {there}");
                return Err(
                    Diagnostic::error("E469", title).help(format!("1 to {there}, or leave it out for all"))
                );
            }
            Ok(n)
        };
        let all = u64::from(own.cubes[0]) * u64::from(own.cubes[1]);
        let cubes = count("cube", self.cube, self.num_cubes, all)?;
        let pes = count("pe", self.pe, self.num_pes, u64::from(own.pes))?;
        if sizes.is_empty() && (self.cube, self.pe) != (Policy::Replicate, Policy::Replicate) {
            return Err(Diagnostic::error("E469", "a single element cannot be cut")
                .help("`replicate` puts it everywhere"));
        }
        let whole: Vec<Range<u64>> = sizes.iter().map(|n| 0..*n).collect();
        let mut out = vec![];
        for cube in 0..cubes {
            let part = self.cube.cut(&whole, cubes, cube);
            for pe in 0..pes {
                // Both below the counts of the shape, whose product is below 2^32.
                let number = cube as u32 * own.pes + pe as u32;
                out.push((number, self.pe.cut(&part, pes, pe)));
            }
        }
        Ok(out)
    }

    /// The shards of a tensor of these sizes on a device, in the order of [`DevicePlacement::slices`].
    ///
    /// # Errors
    /// E469, as there.
    pub fn shards(
        &self,
        sizes: &[u64],
        element_bytes: u64,
        machine: &Topology,
        device: DeviceId,
    ) -> Result<Vec<Shard>, Diagnostic> {
        let Interior { cubes: [_, columns], pes } = Interior::of(machine);
        let alone = || First { sip: machine.place(device), cube: [0, 0], pe: 0 };
        let own = first(machine, device).unwrap_or_else(alone);
        let shard = |(number, slice): (u32, Vec<Range<u64>>)| {
            // What is larger than any memory has no place in one: it need not be exact.
            let elements = slice.iter().fold(1, |n: u64, r| n.saturating_mul(r.end - r.start));
            let offset = slice
                .iter()
                .zip(sizes)
                .fold(0, |at: u64, (r, n)| at.saturating_mul(*n).saturating_add(r.start));
            let cube = number / pes;
            Shard {
                sip: own.sip.clone(),
                cube: [own.cube[0] + cube / columns, own.cube[1] + cube % columns],
                pe: own.pe + number % pes,
                offset: offset.saturating_mul(element_bytes),
                bytes: elements.saturating_mul(element_bytes),
                slice,
            }
        };
        Ok(self.slices(sizes, machine)?.into_iter().map(shard).collect())
    }
}

impl std::fmt::Display for DevicePlacement {
    /// `cube: column_wise, pe: row_wise, num_cubes: 4`
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "cube: {}, pe: {}", self.cube.name(), self.pe.name())?;
        for (name, n) in [("num_cubes", self.num_cubes), ("num_pes", self.num_pes)] {
            if let Some(n) = n {
                write!(f, ", {name}: {n}")?;
            }
        }
        Ok(())
    }
}
