//! State of a lowering: what is known at a place of the schedule, and the statements, names and
//! tiles made so far.

use super::accesses::BufferUser;
use super::address;
use super::build::Build;
use super::consumer::Consumer;
use super::lanes::{Merged, THIS, WorkDivision};
use super::panels::BlockSizes;
use super::shares::Shares;
use super::storage::{self, Storage};
use super::tiles::Parts;
use super::whole_windows::WholeWindows;
use crate::device::Device;
use crate::tile::{CALL, CORE, Core, PIECE, RANK, SignalsId, Space, Stmt, Table, Tile, TileId};
use kbc_diag::Span;
use kbc_ir::expr::{BinOp, Expr};
use kbc_ir::name::Name;
use kbc_ir::schedule::{BufferId, Schedule};
use kbc_ir::types::DType;
use kbc_ir::walk;
use std::collections::{BTreeMap, BTreeSet};

/// Looks up the place of a span, `file:line`, and its text, if it has one.
pub type Places<'a> = &'a dyn Fn(Span) -> Option<(String, String)>;

/// The state of a lowering.
pub(super) struct Lower<'a, 's> {
    pub(super) schedule: &'s Schedule,
    pub(super) program: &'a walk::Program<'s>,
    pub(super) storage: &'a Storage,
    pub(super) places: Places<'a>,
    pub(super) device: &'a dyn Device,
    pub(super) build: Build,
    pub(super) tiles: Vec<Tile>,
    /// The tile for the bits of comparisons, once it exists.
    pub(super) mask: Option<TileId>,
    /// Values of the names of the schedule, the innermost last.
    pub(super) names: Vec<(Name, Expr)>,
    /// Whether the kernel becomes a program of tasks.
    pub(super) several: bool,
    /// The kind of core of the current task.
    pub(super) task: Option<Core>,
    /// Number of matrix cores of the current task.
    pub(super) task_cores: u32,
    /// How matmuls are divided among matrix cores.
    pub(super) shares: Shares,
    /// The region that is currently lowered.
    pub(super) region: Option<usize>,
    /// Number of loops, conditions and roles around the current place.
    pub(super) nested: u32,
    /// Number of vector cores of the kernel.
    pub(super) cores: u32,
    /// For each region with several streams, these streams as one text.
    pub(super) merged: Vec<Option<Merged>>,
    /// How work has been divided since the cores last met.
    pub(super) since: WorkDivision,
    /// The arrays of counters by which the cores meet, and the number of meetings so far.
    pub(super) core_barrier_signals: [u32; 2],
    pub(super) core_barriers: i64,
    /// Windows that hold whole vectors in place of slots.
    pub(super) whole_windows: WholeWindows,
    /// Buffers whose contents are used while they are fetched.
    pub(super) fetched: BTreeSet<BufferId>,
    /// Tables that the schedule does not have.
    pub(super) tables: Vec<Table>,
    /// What is known about the operations that were parts of tile kernels.
    pub(super) parts: Option<&'a Parts>,
    /// Sizes of the tiles of matmuls.
    pub(super) block_sizes: BlockSizes,
    /// Functions of the results of regions that are computed while these results are in the core.
    pub(super) consumers: BTreeMap<usize, Consumer>,
    /// Whether local operations that follow each other are computed in one loop.
    pub(super) chains: bool,
    /// The operations that touch each buffer, if they are.
    pub(super) users_of: BTreeMap<BufferId, Vec<BufferUser>>,
    /// The name of the first element of each buffer that is a part of another one.
    pub(super) pieces: BTreeMap<BufferId, Name>,
    /// The regions that begin a task.
    pub(super) begin_tasks: BTreeSet<usize>,
    /// Whether marks state to which region a statement belongs.
    pub(super) marks: bool,
}

impl Lower<'_, '_> {
    /// Switches to a kind of core. In a program of tasks this begins another task, unless the
    /// current one is for this kind of core.
    pub(super) fn enter(&mut self, core: Core) {
        if !self.several || self.task == Some(core) {
            return;
        }
        self.leave();
        self.build.open();
        self.task = Some(core);
        self.start();
        if let Some(region) = self.region {
            self.mark(region as i64);
            self.coordinates(region);
        }
    }

    /// Ends the current task.
    pub(super) fn leave(&mut self) {
        if let Some(core) = self.task.take() {
            let body = self.build.close();
            let cores = std::mem::replace(&mut self.task_cores, 1);
            self.build.push(Stmt::Task { name: Name::from(""), core, cores, body });
            // A task begins once the task that it waits for has ended on all cores.
            self.since = WorkDivision::Nothing;
        }
    }

    /// Defines the names that have one meaning in the whole program: `call`, coordinates in the
    /// mesh, and sizes of buffers.
    pub(super) fn start(&mut self) {
        self.names.clear();
        self.names.push((CALL.into(), Expr::var(CALL)));
        self.names.push((THIS.into(), Expr::var(CORE)));
        let mesh = &self.schedule.mesh;
        let mut stride = mesh.ranks();
        for axis in &mesh.axes {
            stride /= axis.size.max(1);
            let value = self.digit(stride, axis.size);
            let value = self.build.name_it(axis.name.as_str(), &value);
            self.names.push((axis.name.clone(), value));
        }
        self.pieces.clear();
        for buffer in (0..self.schedule.buffers.len()).map(|i| BufferId(i as u32)) {
            self.dims(buffer);
            // Named where it is a number, too, so that tasks on several pieces differ in this
            // alone.
            if let Some(value) = self.first_element(buffer) {
                let hint = format!("{PIECE}_{}", self.schedule.buffer(buffer).name);
                let name = self.build.fresh(&hint);
                self.build.push(Stmt::Let { name: name.clone(), value });
                self.pieces.insert(buffer, name);
            }
        }
    }

    /// Returns the element of its memory with which a buffer begins, if it is a part of another
    /// one.
    fn first_element(&mut self, buffer: BufferId) -> Option<Expr> {
        let (whole, op) = self.storage.within(buffer)?;
        let own = op.cloned().map(|op| self.first_of_part(&op));
        match (own, self.first_element(whole)) {
            (Some(own), Some(first)) => Some(address::add(&first, &own)),
            (own, first) => own.or(first),
        }
    }

    /// Returns a digit of this rank's number.
    pub(super) fn digit(&self, stride: u64, size: u64) -> Expr {
        let rank = Expr::var(RANK);
        let q = Expr::bin(BinOp::Div, rank, Expr::Int(stride as i64));
        if stride * size == self.schedule.mesh.ranks() { q } else { q.modulo(Expr::Int(size as i64)) }
    }

    /// Returns this rank's linear index in its group, computed from the digits of the rank.
    pub(super) fn linear(&self, number: usize) -> Expr {
        self.program.regions[number].axes.iter().fold(Expr::Int(0), |sum, (size, stride, group)| {
            let digit = self.digit(*stride, *size);
            address::add(&sum, &address::mul(&digit, &Expr::Int(*group as i64)))
        })
    }

    /// Defines the names of a region's coordinates.
    pub(super) fn coordinates(&mut self, number: usize) {
        let region = &self.schedule.regions[number];
        let linear = self.linear(number);
        let mut below: i64 = region.coords.iter().map(|c| c.1 as i64).product();
        for (i, (name, size)) in region.coords.iter().enumerate() {
            below /= (*size).max(1) as i64;
            let q = Expr::bin(BinOp::Div, linear.clone(), Expr::Int(below));
            let value = if i == 0 { q } else { q.modulo(Expr::Int(*size as i64)) };
            let value = self.build.name_it(name.as_str(), &value);
            self.names.push((name.clone(), value));
        }
    }

    /// Converts an expression of the schedule to one in names of the kernel.
    pub(super) fn expr(&self, e: &Expr) -> Expr {
        let names = &self.names;
        e.subst(&|n| names.iter().rev().find(|(m, _)| m == n).map(|(_, v)| v.clone())).simplify()
    }

    /// Converts an expression in mesh coordinates to one for the given rank.
    pub(super) fn expr_on(&self, e: &Expr, rank: &Expr) -> Expr {
        storage::on_rank(self.schedule, e, rank)
    }

    /// Returns the local sizes of a buffer; those that depend on the rank are named.
    pub(super) fn dims(&mut self, buffer: BufferId) -> Vec<Expr> {
        let dims: Vec<Expr> = self.schedule.buffer(buffer).dims.iter().map(|d| self.expr(d)).collect();
        dims.iter().map(|e| self.build.name_it("part", e)).collect()
    }

    /// Adds a note for what follows: the kind of operation and, if it has a place in a text, that
    /// text.
    pub(super) fn note(&mut self, what: &str, span: Span) {
        let (place, text) = match (self.places)(span) {
            Some((place, text)) => (place, format!("{what}: {text}")),
            None => (String::new(), what.to_owned()),
        };
        self.build.push(Stmt::Note { place, text });
    }

    /// Returns the tile number `index` of an element type, and creates it if necessary.
    pub(super) fn tile(&mut self, dtype: DType, index: usize) -> TileId {
        let mask = self.mask;
        let tiles = &self.tiles;
        let data = |i: &usize| mask != Some(TileId(*i as u32)) && tiles[*i].space == Space::Vector;
        let mut of = (0..self.tiles.len()).filter(data).filter(|i| self.tiles[*i].dtype == dtype);
        if let Some(i) = of.nth(index) {
            return TileId(i as u32);
        }
        self.another(dtype);
        self.tile(dtype, index)
    }

    /// Returns the tile for the bits of comparisons. It has as many bytes as other tiles have
    /// elements, which is more than it needs.
    pub(super) fn mask_tile(&mut self) -> TileId {
        if let Some(mask) = self.mask {
            return mask;
        }
        let mask = self.another(DType::U8);
        self.mask = Some(mask);
        mask
    }

    pub(super) fn tile_name(&self) -> Name {
        match self.tiles.len() {
            n @ 0..26 => char::from(b'a' + n as u8).to_string().into(),
            n => format!("t{n}").into(),
        }
    }

    pub(super) fn another(&mut self, dtype: DType) -> TileId {
        let (name, elements) = (self.tile_name(), self.device.limits().tile);
        self.tiles.push(Tile { name, dtype, space: Space::Vector, rows: 1, elements, copies: 1, at: None });
        TileId(self.tiles.len() as u32 - 1)
    }

    pub(super) fn signals(&self, id: kbc_ir::schedule::SignalId) -> SignalsId {
        SignalsId(id.0)
    }
}
