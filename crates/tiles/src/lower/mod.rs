//! Lowering: turns a proven schedule into a tile kernel. Memory becomes tensors and areas, and
//! transfers become loops over tiles.
//!
//! The module owns the order of operations within a kernel. Flags, fences and addresses belong to
//! the passes of the tile level. Every operation of the schedule appears in its order and with the
//! same reads and writes, with two exceptions: copies that nothing needs ([`copy_elision`]), and scratch
//! that only holds fetched data until it is used ([`fetched`]). `fence.*` operations are kept as
//! they are.
//!
//! A schedule with matmuls becomes a program of tasks: consecutive matmuls are one task for a
//! matrix core, and consecutive operations for vector cores are one task. What neither core can do is
//! rejected. [`storage`] assigns memory, and [`local`] lowers operations on whole tensors.

pub mod address;
mod arrivals;
mod build;
pub mod chain;
mod copy_elision;
mod cores;
mod counts;
mod embedding;
mod fetched;
mod fused;
mod grouped;
mod lengths;
mod lists;
mod local;
mod matmul;
mod ops;
mod prune;
mod rows;
mod storage;
mod tiles;
mod write_in_place;

use crate::device::Device;
use crate::tile::{
    CALL, CORE, Core, Kernel, Object, RANK, Signals, SignalsId, Space, Stmt, Table, Tile, TileId,
};
use build::Build;
pub use copy_elision::Staging;
use cores::Since;
pub use counts::{Counts, counts};
use kbc_diag::{Diagnostic, Diagnostics, Span};
use kbc_ir::expr::{BinOp, Expr};
use kbc_ir::name::Name;
use kbc_ir::schedule::{BufferId, Calls, LocalOp, MAIN, RankSet, Region, Role, SOp, SStmt, Schedule};
use kbc_ir::types::DType;
use kbc_ir::walk::{self, Act, Cursor, Fault, Step};
use std::collections::{BTreeMap, BTreeSet};
use storage::Storage;

/// Looks up the place of a span, `file:line`, and its text, if it has one.
pub type Places<'a> = &'a dyn Fn(Span) -> Option<(String, String)>;

/// Returns the kernel of a schedule, for its sizes alone, without layout, addresses, flags or
/// fences of the device.
///
/// # Errors
/// Returns E470 for what the cores cannot do, and E471 if there are more ranks than the device
/// allows.
pub fn lower(
    schedule: &Schedule,
    staging: Staging,
    places: Places<'_>,
    device: &dyn Device,
) -> Result<Kernel, Diagnostics> {
    let (mut kernel, _) = whole(schedule, staging, places, device, false)?;
    prune::prune(&mut kernel);
    number(&mut kernel);
    Ok(kernel)
}

/// Returns the kernel before pruning, which still has what never happens at its size, and the
/// memory that each region works on. With `marks`, a mark stands where each region begins.
fn whole(
    schedule: &Schedule,
    staging: Staging,
    places: Places<'_>,
    device: &dyn Device,
    marks: bool,
) -> Result<(Kernel, Vec<Vec<Object>>), Diagnostics> {
    let ranks = schedule.mesh.ranks();
    if ranks > u64::from(device.limits().ranks) {
        return Err(Diagnostic::error("E471", format!("{ranks} ranks are more than a domain can have"))
            .note(device.limits().ranks_why)
            .help("use fewer ranks for this target; `--target sim` has no such limit")
            .into());
    }
    if let Some(host) = &schedule.host {
        return Err(
            refuse(host.span, "a host program has no emitted form", "leave the `host` section away").into()
        );
    }
    if schedule.calls != Calls::Any {
        return Err(Diagnostic::error("E470", format!("{} is not safe call after call", schedule.name))
            .note("a domain serves many launches, at any skew between ranks")
            .help("run the pass `synchronize`, which makes it so, or write `schedule calls any` and prove it")
            .into());
    }
    let apart = tiles::apart(schedule, device.limits().block)?;
    let (schedule, parts) = apart.as_ref().map_or((schedule, None), |(s, parts)| (s, Some(parts)));
    let without = if staging == Staging::Whole { None } else { copy_elision::without_staging(schedule) };
    let schedule = without.as_ref().unwrap_or(schedule);
    let program = walk::Program::compile(schedule)?;
    let mut storage = Storage::new(schedule, &program)?;
    let mut signals = signals(schedule, &program)?;
    let cores = cores::wanted(schedule);
    let merged: Vec<Option<cores::Merged>> =
        schedule.regions.iter().map(|r| cores::merged(schedule, r)).collect::<Result<_, _>>()?;
    merged.iter().flatten().for_each(|m| m.grow(&mut storage.areas, &mut signals));
    let meeting = [signals.len() as u32, signals.len() as u32 + 1];
    if cores > 1 {
        signals.extend(cores::meeting_counters(cores, &signals));
    }
    let kernel = Kernel {
        name: schedule.name.clone(),
        dialect: device.dialect(),
        core: if products(schedule) { Core::Tasks } else { Core::Vector },
        cores,
        scalars: vec![CALL.into()],
        tensors: storage.tensors.clone(),
        tables: schedule
            .tables
            .iter()
            .map(|t| Table { name: t.name.clone(), values: BTreeMap::from([(ranks, t.values.clone())]) })
            .collect(),
        signals,
        areas: storage.areas.clone(),
        tiles: vec![],
        body: vec![],
    };
    let mut lower = Lower {
        schedule,
        program: &program,
        storage: &storage,
        places,
        device,
        build: Build::new(device.dialect()),
        tiles: vec![],
        mask: None,
        names: vec![],
        several: kernel.core == Core::Tasks,
        task: None,
        region: None,
        nested: 0,
        cores,
        merged,
        since: Since::Nothing,
        meeting,
        meetings: 0,
        fetched: fetched::fetched(schedule),
        tables: vec![],
        parts,
        consumers: BTreeMap::new(),
        marks,
    };
    if staging == Staging::Fused {
        lower.consumers = lower.consumers();
    }
    lower.all()?;
    let (body, tiles, meetings) = (lower.build.finish(), lower.tiles, lower.meetings);
    let mut kernel = Kernel { body, tiles, ..kernel };
    kernel.tables.extend(lower.tables);
    let lengths = lengths::tables(schedule, &kernel.tables, &mut kernel.body);
    kernel.tables.extend(lengths);
    if cores > 1 {
        cores::count_meetings(meetings, &mut kernel.signals, &mut kernel.body);
    }
    let operand = |r: &Region| r.operands.iter().map(|o| storage.object(o.buffer)).collect();
    let operands = schedule.regions.iter().map(operand).collect();
    Ok((kernel, operands))
}

/// Renames the remaining tasks `t0`, `t1`, and so on.
fn number(kernel: &mut Kernel) {
    let mut next = 0;
    for stmt in &mut kernel.body {
        if let Stmt::Task { name, .. } = stmt {
            *name = format!("t{next}").into();
            next += 1;
        }
    }
}

/// Shortens the tiles of vector cores until all of them fit into the memory of the device.
pub fn fit_tiles(kernel: &mut Kernel, device: &dyn Device) {
    let bytes = device.bytes(Space::Vector);
    let own = |t: &&mut Tile| t.space == Space::Vector;
    let each: u64 = kernel.tiles.iter_mut().filter(own).map(|t| t.dtype.bytes() * u64::from(t.copies)).sum();
    let mut elements = u64::from(device.limits().tile);
    while elements > 64 && each * elements > u64::from(bytes) {
        elements /= 2;
    }
    let elements = elements as u32;
    kernel.tiles.iter_mut().filter(own).for_each(|t| t.elements = elements);
    shorten(&mut kernel.body, elements);
}

fn shorten(body: &mut [Stmt], elements: u32) {
    for stmt in body {
        match stmt {
            Stmt::Tiles { step, body, .. } => {
                *step = elements;
                shorten(body, elements);
            }
            Stmt::For { body, .. } => shorten(body, elements),
            Stmt::Task { core: Core::Matrix, .. } => {}
            Stmt::Task { body, .. } => shorten(body, elements),
            Stmt::If { then, other, .. } => {
                shorten(then, elements);
                shorten(other, elements);
            }
            Stmt::Let { .. } | Stmt::Note { .. } | Stmt::Op(_) => {}
        }
    }
}

/// Checks whether a schedule has matmuls.
fn products(s: &Schedule) -> bool {
    fn any(list: &[SStmt]) -> bool {
        list.iter().any(|stmt| match stmt {
            SStmt::For { body, .. } => any(body),
            SStmt::If { then, other, .. } => any(then) || any(other),
            SStmt::Op(op, _) => product(op),
        })
    }
    let streams = s.regions.iter().flat_map(|r| &r.roles).flat_map(|r| &r.streams);
    streams.into_iter().any(|s| any(&s.body))
}

/// Checks whether an operation is for a matrix core.
fn product(op: &SOp) -> bool {
    matches!(op, SOp::Local(LocalOp::Matmul { .. } | LocalOp::Grouped { .. }))
}

/// Returns E470: the operation has no form on the target.
pub(crate) fn refuse(span: Span, what: impl Into<String>, help: impl Into<String>) -> Diagnostic {
    Diagnostic::error("E470", what.into()).primary(span, "this has no form on the target").help(help)
}

fn fault(f: &Fault) -> Diagnostic {
    f.diagnostic(|r| r.to_string())
}

/// Returns the arrays of counters, each with the most that a call adds to one of its counters.
fn signals(schedule: &Schedule, program: &walk::Program<'_>) -> Result<Vec<Signals>, Diagnostics> {
    let counters = program.counters() as usize;
    let mut adds = vec![0i64; counters * program.ranks() as usize];
    for rank in 0..program.ranks() {
        let mut cursor = Cursor::new(program, rank, 0, 0);
        while let Some(step) = cursor.next_step().map_err(|f| fault(&f))? {
            if let Step::Act(Act::Notify { peer, counter }, ..) = step {
                adds[peer as usize * counters + counter as usize] += 1;
            }
        }
    }
    let mut out: Vec<Signals> = schedule
        .signals
        .iter()
        .map(|s| Signals {
            name: s.name.clone(),
            count: Expr::Int(s.count as i64),
            per_call: Expr::Int(0),
            at: None,
        })
        .collect();
    for (i, n) in adds.iter().enumerate() {
        let (array, _) = program.counter_name((i % counters) as u32);
        let s = &mut out[array.0 as usize];
        s.per_call = Expr::Int(s.per_call.as_int().unwrap_or(0).max(*n));
    }
    Ok(out)
}

struct Lower<'a, 's> {
    schedule: &'s Schedule,
    program: &'a walk::Program<'s>,
    storage: &'a Storage,
    places: Places<'a>,
    device: &'a dyn Device,
    build: Build,
    tiles: Vec<Tile>,
    /// The tile for the bits of comparisons, once it exists.
    mask: Option<TileId>,
    /// Values of the names of the schedule, the innermost last.
    names: Vec<(Name, Expr)>,
    /// Whether the kernel becomes a program of tasks.
    several: bool,
    /// The kind of core of the current task.
    task: Option<Core>,
    /// The region that is currently lowered.
    region: Option<usize>,
    /// Number of loops, conditions and roles around the current place.
    nested: u32,
    /// Number of vector cores of the kernel.
    cores: u32,
    /// For each region with several streams, these streams as one text.
    merged: Vec<Option<cores::Merged>>,
    /// How work has been divided since the cores last met.
    since: Since,
    /// The arrays of counters by which the cores meet, and the number of meetings so far.
    meeting: [u32; 2],
    meetings: i64,
    /// Buffers whose contents are used while they are fetched.
    fetched: BTreeSet<BufferId>,
    /// Tables that the schedule does not have.
    tables: Vec<Table>,
    /// What is known about the operations that were parts of tile kernels.
    parts: Option<&'a tiles::Parts>,
    /// Functions of the results of regions that are computed while these results are in the core.
    consumers: BTreeMap<usize, fused::Consumer>,
    /// Whether marks state to which region a statement belongs.
    marks: bool,
}

impl Lower<'_, '_> {
    fn all(&mut self) -> Result<(), Diagnostics> {
        if !self.several {
            self.start();
        }
        self.enter(Core::Vector);
        self.storage_prologue();
        for (i, region) in self.schedule.regions.iter().enumerate() {
            self.region = Some(i);
            self.mark(i as i64);
            let depth = self.names.len();
            if self.task.is_some() || !self.several {
                self.coordinates(i);
            }
            self.region(i, region)?;
            self.region = None;
            self.names.truncate(depth);
        }
        self.enter(Core::Vector);
        self.mark(self.schedule.regions.len() as i64);
        self.storage_epilogue();
        self.leave();
        Ok(())
    }

    /// Switches to a kind of core. In a program of tasks this begins another task, unless the
    /// current one is for this kind of core.
    fn enter(&mut self, core: Core) {
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
    fn leave(&mut self) {
        if let Some(core) = self.task.take() {
            let body = self.build.close();
            self.build.push(Stmt::Task { name: Name::from(""), core, body });
            // A task begins once the task that it waits for has ended on all cores.
            self.since = Since::Nothing;
        }
    }

    /// Defines the names that have one meaning in the whole program: `call`, coordinates in the
    /// mesh, and sizes of buffers.
    fn start(&mut self) {
        self.names.clear();
        self.names.push((CALL.into(), Expr::var(CALL)));
        self.names.push((cores::THIS.into(), Expr::var(CORE)));
        let mesh = &self.schedule.mesh;
        let mut stride = mesh.ranks();
        for axis in &mesh.axes {
            stride /= axis.size.max(1);
            let value = self.digit(stride, axis.size);
            let value = self.build.name_it(axis.name.as_str(), &value);
            self.names.push((axis.name.clone(), value));
        }
        for i in 0..self.schedule.buffers.len() {
            self.dims(BufferId(i as u32));
        }
    }

    /// Returns a digit of this rank's number.
    fn digit(&self, stride: u64, size: u64) -> Expr {
        let rank = Expr::var(RANK);
        let q = Expr::bin(BinOp::Div, rank, Expr::Int(stride as i64));
        if stride * size == self.schedule.mesh.ranks() { q } else { q.modulo(Expr::Int(size as i64)) }
    }

    /// Returns this rank's linear index in its group, computed from the digits of the rank.
    fn linear(&self, number: usize) -> Expr {
        self.program.regions[number].axes.iter().fold(Expr::Int(0), |sum, (size, stride, group)| {
            let digit = self.digit(*stride, *size);
            address::add(&sum, &address::mul(&digit, &Expr::Int(*group as i64)))
        })
    }

    /// Defines the names of a region's coordinates.
    fn coordinates(&mut self, number: usize) {
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

    fn region(&mut self, number: usize, region: &Region) -> Result<(), Diagnostics> {
        if self.cores == 1 || cores::local(region) {
            return self.roles(number, region);
        }
        self.enter(Core::Vector);
        let Some(merged) = self.merged[number].take() else {
            // A collective on one core, or an operation of only some ranks.
            return self.divided(|this| this.roles(number, region));
        };
        let since = self.lanes_of(region, &merged);
        self.meet(since);
        self.nested += 1;
        let all = merged.cores == self.cores;
        if !all {
            self.build.open();
        }
        self.body(number, &merged.body)?;
        if !all {
            let then = self.build.close();
            let cond = Expr::bin(BinOp::Lt, Expr::var(CORE), Expr::Int(merged.cores.into()));
            self.build.push(Stmt::If { cond, then, other: vec![] });
        }
        self.nested -= 1;
        Ok(())
    }

    fn roles(&mut self, number: usize, region: &Region) -> Result<(), Diagnostics> {
        let linear = self.linear(number).simplify();
        let mut roles = vec![];
        for role in &region.roles {
            let [stream] = role.streams.as_slice() else {
                return Err(self.several_streams(region, role).into());
            };
            if stream.name.as_str() != MAIN {
                return Err(self.several_streams(region, role).into());
            }
            if !matches!(role.ranks, RankSet::All) {
                self.enter(Core::Vector);
            }
            let cond = match &role.ranks {
                RankSet::All => Expr::Int(1),
                RankSet::Where(e) => self.expr(e),
                RankSet::List(list) => list
                    .iter()
                    .map(|r| linear.clone().equals(Expr::Int(*r as i64)))
                    .reduce(|a, b| Expr::bin(BinOp::Or, a, b))
                    .unwrap_or(Expr::Int(0)),
            };
            if roles.is_empty() && cond.is_true() {
                // No rank is left for another role, and the names stay in this block.
                return self.body(number, &stream.body);
            }
            self.enter(Core::Vector);
            self.build.open();
            self.nested += 1;
            self.body(number, &stream.body)?;
            self.nested -= 1;
            roles.push((cond, self.build.close()));
        }
        let stmts =
            roles.into_iter().rev().fold(vec![], |other, (cond, then)| vec![Stmt::If { cond, then, other }]);
        self.build.extend(stmts);
        Ok(())
    }

    fn several_streams(&self, region: &Region, role: &Role) -> Diagnostic {
        refuse(
            region.span,
            format!("region @{} has {} streams in role {}", region.name, role.streams.len(), role.name),
            "a core has one stream; `cores: k` makes a stream of each core",
        )
    }

    /// Converts an expression of the schedule to one in names of the kernel.
    fn expr(&self, e: &Expr) -> Expr {
        let names = &self.names;
        e.subst(&|n| names.iter().rev().find(|(m, _)| m == n).map(|(_, v)| v.clone())).simplify()
    }

    /// Converts an expression in mesh coordinates to one for the given rank.
    fn expr_on(&self, e: &Expr, rank: &Expr) -> Expr {
        storage::on_rank(self.schedule, e, rank)
    }

    /// Returns the local sizes of a buffer; those that depend on the rank are named.
    fn dims(&mut self, buffer: BufferId) -> Vec<Expr> {
        let dims: Vec<Expr> = self.schedule.buffer(buffer).dims.iter().map(|d| self.expr(d)).collect();
        dims.iter().map(|e| self.build.name_it("part", e)).collect()
    }

    /// Adds a note for what follows: the kind of operation and, if it has a place in a text, that
    /// text.
    fn note(&mut self, what: &str, span: Span) {
        let (place, text) = match (self.places)(span) {
            Some((place, text)) => (place, format!("{what}: {text}")),
            None => (String::new(), what.to_owned()),
        };
        self.build.push(Stmt::Note { place, text });
    }

    /// Returns the tile number `index` of an element type, and creates it if necessary.
    fn tile(&mut self, dtype: DType, index: usize) -> TileId {
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
    fn mask_tile(&mut self) -> TileId {
        if let Some(mask) = self.mask {
            return mask;
        }
        let mask = self.another(DType::U8);
        self.mask = Some(mask);
        mask
    }

    fn tile_name(&self) -> Name {
        match self.tiles.len() {
            n @ 0..26 => char::from(b'a' + n as u8).to_string().into(),
            n => format!("t{n}").into(),
        }
    }

    fn another(&mut self, dtype: DType) -> TileId {
        let (name, elements) = (self.tile_name(), self.device.limits().tile);
        self.tiles.push(Tile { name, dtype, space: Space::Vector, rows: 1, elements, copies: 1, at: None });
        TileId(self.tiles.len() as u32 - 1)
    }

    fn signals(&self, id: kbc_ir::schedule::SignalId) -> SignalsId {
        SignalsId(id.0)
    }
}
