//! Memories of all ranks while compiled code runs: their storage and addresses.
//!
//! The module owns where each element is, and no more: [`super::world`] knows which elements hold
//! something. Large copies are put off ([`super::deferred`]).

#![allow(unsafe_code, reason = "elements are copied as pointers here")]

use super::deferred::{Deferred, Piece};
use crate::effect::mem_dtype;
use kbc_ir::schedule::{BufferId, BufferRole};
use kbc_ir::types::DType;
use kbc_ir::walk::{Mem, Program};
use kbc_numerics::tensor::{Data, Tensor, for_rows, side_by_side};
use std::collections::BTreeMap;

/// The memories of all ranks: buffers, then windows. A memory gets storage when an element of its
/// own is written.
pub(super) struct Memories<'p> {
    pub(super) program: &'p Program<'p>,
    /// Number of memories of a rank.
    pub(super) per_rank: usize,
    /// Element size of each memory.
    pub(super) sizes: Vec<usize>,
    pub(super) dtypes: Vec<DType>,
    /// The storage of each memory of each rank, if it has any.
    storage: Vec<Option<Data>>,
    /// Address of each memory of each rank, or null. Those of input buffers may be places of input
    /// tensors.
    bases: Vec<*mut u8>,
    /// Storage that no memory has any more.
    spare: Vec<Data>,
    /// Copies that have not been made.
    deferred: Deferred,
    /// Results that were not read yet although their rank has ended, or that were read because they
    /// were about to be overwritten.
    results: BTreeMap<usize, Option<Data>>,
    /// Whether a slot keeps its elements after it has been read.
    keeps: bool,
    /// Smallest number of bytes of a copy that is put off.
    pub(super) put_off: usize,
    held: u64,
    max_bytes: u64,
    /// Why something could not be read or written.
    pub(super) refused: Option<Refused>,
}

/// Why an element could not be read or written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Refused {
    /// It needs more memory than is permitted.
    TooLarge,
    /// It was read before, and no longer exists.
    Lost,
}

/// Defines what depends on the element type.
macro_rules! define {
    ([$d:tt] $($name:ident $element:ident,)*) => {
        /// Returns the address of the first element.
        fn elements(data: &Data) -> *const u8 {
            match data { $(Data::$name(v) => v.as_ptr().cast()),* }
        }

        /// Returns the address of the first element, to write to it.
        fn address(data: &mut Data) -> *mut u8 {
            match data { $(Data::$name(v) => v.as_mut_ptr().cast()),* }
        }
    };
}
kbc_ir::element_types!(define $);

/// Smallest number of bytes of a copy that is put off. The record of a smaller one costs more than
/// the copy.
pub(super) const PUT_OFF: usize = 1 << 16;

impl<'p> Memories<'p> {
    /// Creates the memories, which may hold `max_bytes`. All bytes are 0. A slot keeps its elements
    /// after it has been read only if `keeps`. Copies of `put_off` bytes and more are put off.
    pub(super) fn new(program: &'p Program<'p>, max_bytes: u64, keeps: bool, put_off: usize) -> Self {
        let s = program.schedule;
        let per_rank = s.buffers.len() + s.windows.len();
        let dtypes: Vec<DType> =
            s.buffers.iter().map(|b| b.dtype).chain(s.windows.iter().map(|w| w.dtype)).collect();
        let sizes = dtypes.iter().map(|t| t.bytes() as usize).collect();
        let all = per_rank * program.ranks() as usize;
        Memories {
            program,
            per_rank,
            sizes,
            dtypes,
            storage: std::iter::repeat_with(|| None).take(all).collect(),
            bases: vec![std::ptr::null_mut(); all],
            spare: vec![],
            deferred: Deferred::default(),
            results: BTreeMap::new(),
            keeps,
            put_off,
            held: 0,
            max_bytes,
            refused: None,
        }
    }

    /// Returns the number of elements of a memory of a rank.
    fn capacity(&self, place: usize) -> u64 {
        let s = self.program.schedule;
        let (rank, mem) = (place / self.per_rank, place % self.per_rank);
        match mem.checked_sub(s.buffers.len()) {
            None => self.program.elements(BufferId(mem as u32), rank as u64).unwrap_or(0),
            Some(w) => s.windows[w].slots.saturating_mul(s.windows[w].capacity),
        }
    }

    /// Returns the address of a memory, which gets storage if it has none.
    fn base(&mut self, place: usize) -> Option<*mut u8> {
        if self.bases[place].is_null() {
            let mem = place % self.per_rank;
            let data = self.new_storage(self.dtypes[mem], self.capacity(place), mem)?;
            self.bases[place] = address(self.storage[place].insert(data));
        }
        Some(self.bases[place])
    }

    /// Returns storage for so many elements. That of a window is 0.
    fn new_storage(&mut self, dtype: DType, n: u64, mem: usize) -> Option<Data> {
        let bytes = |n: u64| n.saturating_mul(dtype.bytes());
        let fits = |d: &Data| d.dtype() == dtype && d.len() as u64 == n;
        if mem < self.program.schedule.buffers.len()
            && let Some(i) = self.spare.iter().position(fits)
        {
            return Some(self.spare.swap_remove(i));
        }
        if self.held.saturating_add(bytes(n)) > self.max_bytes {
            let spare: u64 = self.spare.drain(..).map(|d| d.len() as u64 * d.dtype().bytes()).sum();
            self.held -= spare;
        }
        let held = self.held.saturating_add(bytes(n));
        if held > self.max_bytes {
            self.refused = Some(Refused::TooLarge);
            return None;
        }
        self.held = held;
        Some(Data::zeros(dtype, n as usize))
    }

    /// Gives the storage of a large memory that is needed no more to others. Returns whether it
    /// did, or None if what others still need of it cannot be copied.
    pub(super) fn ended(&mut self, place: usize) -> Option<bool> {
        let all = Piece { place, start: 0, len: self.capacity(place) };
        if self.bytes(place, all.len as i64) < self.put_off || self.storage[place].is_none() {
            return Some(false);
        }
        self.release(all)?;
        self.deferred.forget(all);
        self.spare.extend(self.storage[place].take());
        self.bases[place] = std::ptr::null_mut();
        Some(true)
    }

    /// Whether a memory has storage.
    pub(super) fn exists(&self, place: usize) -> bool {
        !self.bases[place].is_null()
    }

    /// Returns the address of an element of a memory's own storage.
    fn at(&mut self, place: usize, start: u64) -> Option<*mut u8> {
        let size = self.sizes[place % self.per_rank];
        Some(self.base(place)?.wrapping_add(start as usize * size))
    }

    /// Makes an input buffer of a rank the part of a tensor, which outlives the program. If nothing
    /// writes the buffer (`read_only`) and the elements lie side by side, it becomes that place of
    /// the tensor, otherwise a copy. Returns whether the address has changed, or None if the memory
    /// cannot be written.
    pub(super) fn load(
        &mut self,
        place: usize,
        tensor: &'p Tensor,
        range: &[(u64, u64)],
        read_only: bool,
    ) -> Option<bool> {
        let size = self.sizes[place % self.per_rank];
        let from = elements(tensor.data());
        let all = Piece { place, start: 0, len: self.capacity(place) };
        if let (true, Some(start)) = (read_only, side_by_side(tensor.shape(), range)) {
            let there = from.wrapping_add(start * size).cast_mut();
            if self.bases[place] == there {
                return Some(false);
            }
            self.release(all)?;
            self.bases[place] = there;
            return Some(true);
        }
        if self.storage[place].is_none() {
            self.bases[place] = std::ptr::null_mut();
        }
        let mut to = self.replaced(all)?;
        for_rows(tensor.shape(), range, |start, len| {
            moved(from.wrapping_add(start * size), to, len * size);
            to = to.wrapping_add(len * size);
        });
        Some(false)
    }

    /// Returns the address of elements, wherever they are.
    pub(super) fn read(&mut self, piece: Piece) -> Option<*const u8> {
        let at = if self.deferred.is_empty() { piece } else { self.deferred.followed(piece) };
        self.settle(at)?;
        Some(self.at(at.place, at.start)?.cast_const())
    }

    /// Puts elements of a memory where they belong.
    pub(super) fn settle(&mut self, piece: Piece) -> Option<()> {
        if !self.deferred.concerns(piece) {
            return Some(());
        }
        let Some(pieces) = self.deferred.pieces(piece) else {
            self.refused = Some(Refused::Lost);
            return None;
        };
        let size = self.sizes[piece.place % self.per_rank];
        let mut to = self.at(piece.place, piece.start)?;
        for p in pieces {
            let (from, bytes) = (self.at(p.place, p.start)?, p.len as usize * size);
            if from != to {
                moved(from, to, bytes);
            }
            to = to.wrapping_add(bytes);
        }
        self.deferred.forget(piece);
        Some(())
    }

    /// Gives elements that are about to be overwritten to those who refer to them.
    fn release(&mut self, piece: Piece) -> Option<()> {
        if let Some(None) = self.results.get(&piece.place) {
            let all = Piece { start: 0, len: self.capacity(piece.place), ..piece };
            let data = self.fetch(all)?;
            self.results.insert(piece.place, Some(data));
        }
        if self.deferred.is_empty() {
            return Some(());
        }
        for reader in self.deferred.readers(piece) {
            if reader.taken {
                self.deferred.lose(reader.piece);
            } else {
                self.settle(reader.piece)?;
            }
        }
        Some(())
    }

    /// Returns the address of elements that are about to be overwritten.
    pub(super) fn replaced(&mut self, piece: Piece) -> Option<*mut u8> {
        self.release(piece)?;
        self.deferred.forget(piece);
        self.at(piece.place, piece.start)
    }

    /// Forgets what a memory holds.
    pub(super) fn cleared(&mut self, place: usize) -> Option<()> {
        if self.deferred.is_empty() {
            return Some(());
        }
        let all = Piece { place, start: 0, len: self.capacity(place) };
        if self.deferred.concerns(all) {
            // Others may refer to elements that are elsewhere by way of this memory.
            self.release(all)?;
            self.deferred.forget(all);
        }
        Some(())
    }

    /// Overwrites elements by those of another memory, or of another range of the same one.
    pub(super) fn copy(&mut self, from: Piece, to: Piece) -> Option<()> {
        if from == to {
            return Some(());
        }
        self.release(to)?;
        let bytes = self.bytes(from.place, from.len as i64);
        let source = if self.deferred.is_empty() { from } else { self.deferred.followed(from) };
        if source == to {
            // They are where they should be.
        } else if bytes >= self.put_off && source.place != to.place && from.place != to.place {
            self.deferred.refer(to, (source.place, source.start));
        } else {
            let src = self.read(from)?;
            self.deferred.forget(to);
            moved(src, self.at(to.place, to.start)?, bytes);
        }
        self.taken(from);
        Some(())
    }

    /// Returns the addresses for `to = old + from`: of the elements that are overwritten, of those
    /// that they hold, and of those that are added.
    pub(super) fn operands(&mut self, to: Piece, from: Piece) -> Option<(*mut u8, *const u8, *const u8)> {
        self.release(to)?;
        let (old, other) = (self.read(to)?, self.read(from)?);
        self.deferred.forget(to);
        self.taken(from);
        Some((self.at(to.place, to.start)?, old, other))
    }

    /// Notes that elements were read. Those of a slot are probably read no more.
    fn taken(&mut self, piece: Piece) {
        if !self.keeps && piece.place % self.per_rank >= self.program.schedule.buffers.len() {
            self.deferred.take(piece);
        }
    }

    /// Returns a copy of elements.
    pub(super) fn fetch(&mut self, piece: Piece) -> Option<Data> {
        let Some(pieces) = self.deferred.pieces(piece) else {
            self.refused = Some(Refused::Lost);
            return None;
        };
        let mem = piece.place % self.per_rank;
        let mut data = Data::zeros(self.dtypes[mem], piece.len as usize);
        let mut to = address(&mut data);
        for p in pieces {
            let bytes = p.len as usize * self.sizes[mem];
            moved(self.at(p.place, p.start)?, to, bytes);
            to = to.wrapping_add(bytes);
        }
        Some(data)
    }

    /// Notes that a memory is a result of a rank that has ended.
    pub(super) fn ends_as_result(&mut self, place: usize) {
        self.results.insert(place, None);
    }

    /// Returns the results that were noted, without copies where nothing else has the elements.
    /// Nothing may be executed afterwards.
    pub(super) fn into_results(mut self) -> Result<BTreeMap<usize, Data>, Refused> {
        let mut out = BTreeMap::new();
        let mut keepers: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (place, read) in std::mem::take(&mut self.results) {
            if let Some(data) = read {
                out.insert(place, data);
                continue;
            }
            let all = Piece { place, start: 0, len: self.capacity(place) };
            let at = self.deferred.followed(all).place;
            let role = self.program.schedule.buffers.get(at % self.per_rank).map(|b| b.role);
            let whole = role == Some(BufferRole::Temp) && self.capacity(at) == all.len;
            keepers.entry(if whole { at } else { place }).or_default().push(place);
        }
        for keeper in keepers.keys() {
            let all = Piece { place: *keeper, start: 0, len: self.capacity(*keeper) };
            let settled = self.settle(all).and_then(|()| self.base(*keeper));
            settled.ok_or(self.refused.unwrap_or(Refused::TooLarge))?;
        }
        for (keeper, mut places) in keepers {
            let Some(data) = self.storage[keeper].take() else { continue };
            let last = places.pop();
            out.extend(places.into_iter().map(|place| (place, data.clone())));
            out.extend(last.map(|place| (place, data)));
        }
        Ok(out)
    }

    /// Returns the number of a memory of a rank.
    pub(super) fn place(&self, rank: i64, mem: i64) -> usize {
        rank as usize * self.per_rank + mem as usize
    }

    /// Returns the number of bytes of `len` elements.
    pub(super) fn bytes(&self, place: usize, len: i64) -> usize {
        len as usize * self.sizes[place % self.per_rank]
    }

    /// Returns the address of a buffer of a rank, which stays where it is until the next call.
    pub(super) fn pointer(&mut self, rank: u64, b: BufferId) -> Option<i64> {
        Some(self.base(rank as usize * self.per_rank + b.0 as usize)? as i64)
    }

    /// Returns the element type of a buffer.
    pub(super) fn dtype(&self, b: BufferId) -> DType {
        mem_dtype(self.program.schedule, Mem::Buffer(b.0))
    }
}

/// Copies elements; the two places may overlap.
fn moved(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: callers name elements of memories and tensors that exist: compiled code and the host
    // have checked ranges against buffers and slots.
    unsafe { std::ptr::copy(from, to, bytes) };
}
