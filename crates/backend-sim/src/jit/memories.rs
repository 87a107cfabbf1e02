//! Memories of all ranks while compiled code runs: their storage and addresses.
//!
//! The module owns where each element is, and no more: [`super::world`] knows which elements hold
//! something.

#![allow(unsafe_code, reason = "inputs are copied to memories as pointers here")]

use crate::effect::mem_dtype;
use kbc_ir::schedule::BufferId;
use kbc_ir::types::DType;
use kbc_ir::walk::{Mem, Program};
use kbc_numerics::tensor::{Data, Tensor, for_rows, side_by_side};

/// The memories of all ranks: buffers, then windows.
pub(super) struct Memories<'p> {
    pub(super) program: &'p Program<'p>,
    /// Number of memories of a rank.
    pub(super) per_rank: usize,
    /// Element size of each memory.
    pub(super) sizes: Vec<usize>,
    pub(super) dtypes: Vec<DType>,
    /// One piece of storage per rank, and the start of each memory of each rank.
    _storage: Vec<Vec<u64>>,
    /// Address of each memory of each rank. Those of input buffers may be places of input tensors.
    pub(super) bases: Vec<*mut u8>,
}

/// Defines what depends on the element type.
macro_rules! define {
    ([$d:tt] $($name:ident $element:ident,)*) => {
        /// Returns the address of the first element.
        fn elements(data: &Data) -> *const u8 {
            match data { $(Data::$name(v) => v.as_ptr().cast()),* }
        }
    };
}
kbc_ir::element_types!(define $);

fn padded(bytes: u64) -> u64 {
    bytes.div_ceil(64) * 64
}

impl<'p> Memories<'p> {
    /// Creates the memories, or returns None if they need more than `max_bytes`. All bytes are 0.
    pub(super) fn new(program: &'p Program<'p>, max_bytes: u64) -> Option<Self> {
        let s = program.schedule;
        let ranks = program.ranks();
        let buffers = s.buffers.len();
        let per_rank = buffers + s.windows.len();
        let dtypes: Vec<DType> =
            s.buffers.iter().map(|b| b.dtype).chain(s.windows.iter().map(|w| w.dtype)).collect();
        let sizes: Vec<usize> = dtypes.iter().map(|t| t.bytes() as usize).collect();
        let windows: u64 = s
            .windows
            .iter()
            .map(|w| padded(w.slots.saturating_mul(w.capacity).saturating_mul(w.dtype.bytes())))
            .fold(0, u64::saturating_add);
        let of_rank = |r: u64| {
            let one = |b: usize| {
                program.elements(BufferId(b as u32), r).unwrap_or(0).saturating_mul(sizes[b] as u64)
            };
            (0..buffers).map(|b| padded(one(b))).fold(windows, u64::saturating_add)
        };
        if (0..ranks).map(of_rank).fold(0, u64::saturating_add) > max_bytes {
            return None;
        }
        let mut storage: Vec<Vec<u64>> = vec![];
        let mut bases = vec![];
        for r in 0..ranks {
            // Eight more words, so that the first memory can begin on a cache line.
            storage.push(vec![0u64; of_rank(r) as usize / 8 + 8]);
            let start = storage.last_mut().map_or(std::ptr::null_mut(), |v| v.as_mut_ptr().cast::<u8>());
            let mut at = start.align_offset(64);
            for (m, size) in sizes.iter().enumerate() {
                bases.push(start.wrapping_add(at));
                let elements = match m.checked_sub(buffers) {
                    None => program.elements(BufferId(m as u32), r).unwrap_or(0),
                    Some(w) => s.windows[w].slots * s.windows[w].capacity,
                };
                at += padded(elements * *size as u64) as usize;
            }
        }
        Some(Memories { program, per_rank, sizes, dtypes, _storage: storage, bases })
    }

    /// Makes an input buffer of a rank the part of a tensor, which outlives the program. If nothing
    /// writes the buffer (`read_only`) and the elements lie side by side, it becomes that place of
    /// the tensor, otherwise a copy. Returns whether the address has changed.
    pub(super) fn load(
        &mut self,
        place: usize,
        tensor: &'p Tensor,
        range: &[(u64, u64)],
        read_only: bool,
    ) -> bool {
        let size = self.sizes[place % self.per_rank];
        let from = elements(tensor.data());
        if let (true, Some(start)) = (read_only, side_by_side(tensor.shape(), range)) {
            let there = from.wrapping_add(start * size).cast_mut();
            return std::mem::replace(&mut self.bases[place], there) != there;
        }
        let mut to = self.bases[place];
        for_rows(tensor.shape(), range, |start, len| {
            // SAFETY: the rows lie inside the tensor, and together they have as many elements of
            // the same type as the buffer; the two do not overlap.
            unsafe { std::ptr::copy_nonoverlapping(from.add(start * size), to, len * size) };
            to = to.wrapping_add(len * size);
        });
        false
    }

    /// Returns the number of a memory of a rank.
    pub(super) fn place(&self, rank: i64, mem: i64) -> usize {
        rank as usize * self.per_rank + mem as usize
    }

    /// Returns the address of an element.
    pub(super) fn at(&self, place: usize, start: i64) -> *mut u8 {
        self.bases[place].wrapping_add(start as usize * self.sizes[place % self.per_rank])
    }

    /// Returns the number of bytes of `len` elements.
    pub(super) fn bytes(&self, place: usize, len: i64) -> usize {
        len as usize * self.sizes[place % self.per_rank]
    }

    /// Returns the address of a buffer of a rank.
    pub(super) fn pointer(&self, rank: u64, b: BufferId) -> i64 {
        self.bases[rank as usize * self.per_rank + b.0 as usize] as i64
    }

    /// Returns the element type of a buffer.
    pub(super) fn dtype(&self, b: BufferId) -> DType {
        mem_dtype(self.program.schedule, Mem::Buffer(b.0))
    }
}
