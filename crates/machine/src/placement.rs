//! Placement inside a device: which cubes and PEs hold which slice of a tensor (TOPO-6).
//!
//! This module owns the inside of devices and the shards of tensors there. A tensor is cut by the
//! policies of its placement ([`crate::policy`]), over the cubes first. Each cube's part is then
//! cut over the PEs of that cube. Which rank holds which part of a program's tensor is decided by
//! the program's types and not here. The address of a shard in its memory is assigned by
//! [`crate::memory`].

use std::ops::Range;

use kbc_diag::{Diagnostic, Span};

use crate::policy::{DevicePlacement, Policy};
use crate::topology::{DeviceId, PackageRanks, Shape, Topology};

/// A rectangular part of a tensor: a range along each axis.
pub type Block = Vec<Range<u64>>;

/// The slice of a device's tensor that one PE holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shard {
    /// Coordinates of the SIP.
    pub sip: Vec<u32>,
    /// Row and column of the cube in its SIP.
    pub cube: [u32; 2],
    /// Number of the PE in its cube.
    pub pe: u32,
    /// Byte offset of the slice's first element in the row-major tensor.
    pub offset: u64,
    /// Bytes of the slice. 0 if there are more parts than elements.
    pub bytes: u64,
    /// Range of the slice along each axis.
    pub slice: Vec<Range<u64>>,
}

/// The structure inside every device of a machine. PEs are numbered cube by cube, and cubes row by
/// row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Interior {
    /// Rows and columns of cubes.
    pub cubes: [u32; 2],
    /// PEs per cube.
    pub pes: u32,
}

impl Interior {
    /// Returns the interior of the devices of a machine: a single PE if the machine is not a
    /// package.
    pub fn of(machine: &Topology) -> Interior {
        let Shape::Package { cubes, pes, .. } = machine.shape() else {
            return Interior { cubes: [1, 1], pes: 1 };
        };
        match machine.settings().package.ranks() {
            PackageRanks::Sip => Interior { cubes: *cubes, pes: *pes },
            PackageRanks::Cube => Interior { cubes: [1, 1], pes: *pes },
            PackageRanks::Pe => Interior { cubes: [1, 1], pes: 1 },
        }
    }

    /// Returns the number of PEs of a device.
    pub fn count(self) -> u32 {
        self.cubes[0] * self.cubes[1] * self.pes
    }

    /// Returns the distance between two PEs, for choosing the nearest: first the number of hops
    /// between their cubes, then the difference of their numbers within the cubes, counted upwards
    /// from `from` and modulo the number of PEs.
    pub(crate) fn distance(self, from: u32, to: u32) -> (u32, u32) {
        let at = |pe: u32| (pe / self.pes / self.cubes[1], pe / self.pes % self.cubes[1], pe % self.pes);
        let (a, b) = (at(from), at(to));
        (a.0.abs_diff(b.0) + a.1.abs_diff(b.1), (b.2 + self.pes - a.2) % self.pes)
    }

    /// Returns the inside of a device as a machine of its own, whose devices are the PEs, joined by
    /// the links of the package. None if a device is one PE.
    ///
    /// # Errors
    /// Returns E443 if there are more nodes than a list of links may have.
    pub fn network(self, machine: &Topology) -> Result<Option<Topology>, Diagnostic> {
        if self.count() == 1 {
            return Ok(None);
        }
        let shape = Shape::Package { sips: Box::new(Shape::Ring(1)), cubes: self.cubes, pes: self.pes };
        let mut settings = *machine.settings();
        settings.package.ranks = Some(PackageRanks::Pe);
        Topology::build(shape, settings, Span::NONE).map(Some)
    }
}

impl Topology {
    /// Checks whether the PEs of a device share its local work: there are several PEs, and a
    /// placement is given.
    pub fn shares_work(&self) -> bool {
        !self.placements().is_empty() && Interior::of(self).count() > 1
    }
}

/// The coordinates of the first PE of a device.
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
    /// Returns the slice of every PE that holds one, with the PE's number in the device, in
    /// ascending order of cubes and of PEs within them. On a machine that is not a package, the
    /// device counts as a single cube with a single PE.
    ///
    /// # Errors
    /// Returns E469 if a count of cubes or PEs is 0 or more than the device has, if a policy cuts
    /// over an axis that the device does not have, or if a scalar would be cut.
    pub fn slices(&self, sizes: &[u64], machine: &Topology) -> Result<Vec<(u32, Block)>, Diagnostic> {
        let own = Interior::of(machine);
        let count = |axis: &str, policy: Policy, asked: Option<u64>, there: u64| {
            if there == 1 && policy != Policy::Replicate {
                let title = format!(
                    "a device of {} has no axis `{axis}` along which a tensor could be split",
                    machine.shape()
                );
                return Err(Diagnostic::error("E469", title).help(
                    "the program's types define how tensors are split between devices; inside a device there are cubes and PEs with `ranks: sip`, and PEs with `ranks: cube`",
                ));
            }
            let n = asked.unwrap_or(there);
            if n == 0 || n > there {
                let title = format!("`num_{axis}s: {n}` is out of range: a device has {there}");
                return Err(Diagnostic::error("E469", title)
                    .help(format!("write 1 to {there}, or remove the key to use all")));
            }
            Ok(n)
        };
        let all = u64::from(own.cubes[0]) * u64::from(own.cubes[1]);
        let cubes = count("cube", self.cube, self.num_cubes, all)?;
        let pes = count("pe", self.pe, self.num_pes, u64::from(own.pes))?;
        if sizes.is_empty() && (self.cube, self.pe) != (Policy::Replicate, Policy::Replicate) {
            return Err(Diagnostic::error("E469", "a single element cannot be split")
                .help("use `replicate` to copy it everywhere"));
        }
        let whole: Vec<Range<u64>> = sizes.iter().map(|n| 0..*n).collect();
        let mut out = vec![];
        for cube in 0..cubes {
            let part = self.cube.cut(&whole, cubes, cube);
            for pe in 0..pes {
                // Both are below the counts of the shape, whose product is below 2^32.
                let number = cube as u32 * own.pes + pe as u32;
                out.push((number, self.pe.cut(&part, pes, pe)));
            }
        }
        Ok(out)
    }

    /// Returns the shards of a tensor of these sizes on a device, in the order of
    /// [`DevicePlacement::slices`].
    ///
    /// # Errors
    /// Returns E469 of [`DevicePlacement::slices`].
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
            // Saturation is harmless: a tensor that large fits in no memory.
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
