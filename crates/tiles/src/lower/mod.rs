//! Lowering: turns a proven schedule into a tile kernel. Memory becomes tensors and areas, and
//! transfers become loops over tiles.
//!
//! The module owns the order of operations within a kernel. Flags, fences and addresses belong to
//! the passes of the tile level. Every operation of the schedule appears in its order and with the
//! same reads and writes, with three exceptions: copies that nothing needs (`copy_elision`),
//! scratch that only holds fetched data until it is used (`fetched`), and the order of transfers,
//! waits and notifies within a round (`batches`), which decides how many `fence.*` operations there
//! are.
//!
//! A schedule with matmuls becomes a program of tasks: consecutive matmuls are one task for a
//! matrix core, and consecutive operations for vector cores are one task. What neither core can do
//! is rejected. `storage` assigns memory, and `local` lowers operations on whole tensors.

mod accesses;
pub mod address;
mod arrivals;
mod batches;
mod build;
pub mod chain;
mod consumer;
mod copy_elision;
mod cores;
mod counts;
mod deferred;
mod elision;
mod embedding;
mod errors;
mod fetched;
mod fused;
mod grouped;
mod lanes;
mod lengths;
mod lists;
mod local;
mod matmul;
mod matrix_cores;
mod one_stream;
mod ops;
mod own_block;
mod panels;
mod part_memory;
mod places;
mod prune;
mod regions;
mod row_chain;
mod row_loop;
mod rows;
mod shares;
mod staging;
mod state;
mod storage;
mod strided;
mod tiles;
mod turns;
mod whole_windows;
mod write_in_place;

use crate::device::Device;
use crate::tile::{CALL, Core, Kernel, Object, Signals, Space, Stmt, Table, Tile, lifetimes};
use build::Build;
pub use copy_elision::Staging;
pub use counts::CountedKernel;
use errors::{fault, refuse};
use kbc_diag::{Diagnostic, Diagnostics, Span};
use kbc_ir::expr::Expr;
use kbc_ir::schedule::{Calls, Region, SOp, Schedule, each_op};
use kbc_ir::visit::{Field, each_field};
use kbc_ir::walk::{self, Act, Cursor, Step};
use lanes::WorkDivision;
use lists::has_matmuls;
use panels::BlockSizes;
pub use panels::fit_blocks;
pub use prune::settle;
pub use shares::Shares;
use state::Lower;
pub use state::Places;
use std::collections::BTreeMap;
use storage::Storage;
use whole_windows::whole_windows;

/// Returns the kernel of a schedule, for its sizes alone, without layout, addresses, flags or
/// fences of the device. `shares`: how the matmuls of the program are divided among matrix cores;
/// what it does not state is chosen by the sizes of this schedule and added.
///
/// # Errors
/// Returns E470 for what the cores cannot do, and E471 if there are more ranks than the device
/// allows.
pub fn lower(
    schedule: &Schedule,
    staging: Staging,
    places: Places<'_>,
    device: &dyn Device,
    shares: &mut Shares,
) -> Result<Kernel, Diagnostics> {
    let (mut kernel, _) = fitting(schedule, staging, (places, false), device, shares)?;
    prune::prune(&mut kernel);
    number(&mut kernel);
    lifetimes::share(&mut kernel);
    Ok(kernel)
}

/// Returns the location of the first message that names the relays that it passes.
fn routed(schedule: &Schedule) -> Option<Span> {
    let mut found = None;
    each_field(schedule, &mut |at, field| {
        if let Field::Via(via) = field
            && !via.relays().is_empty()
        {
            found.get_or_insert(at.span);
        }
    });
    found
}

/// Returns the location of the first get whose data is combined into its destination.
fn combining(schedule: &Schedule) -> Option<Span> {
    let mut found = None;
    for stream in schedule.regions.iter().flat_map(|r| &r.roles).flat_map(|r| &r.streams) {
        each_op(&stream.body, &mut |op, span| {
            if let SOp::GetCombine { .. } = op {
                found.get_or_insert(span);
            }
        });
    }
    found
}

/// Returns the kernel before pruning. Where rows do not fit into the tiles of a core beside each
/// other, they are not kept there.
fn fitting(
    schedule: &Schedule,
    staging: Staging,
    (places, marks): (Places<'_>, bool),
    device: &dyn Device,
    shares: &mut Shares,
) -> Result<(Kernel, Vec<Vec<Object>>), Diagnostics> {
    let mut own = shares.clone();
    let (kernel, operands) = unpruned(schedule, staging, (places, marks), device, &mut own)?;
    if staging != Staging::Rows || rows_fit(&kernel, device) {
        *shares = own;
        return Ok((kernel, operands));
    }
    unpruned(schedule, Staging::Fused, (places, marks), device, shares)
}

/// Checks whether every tile that holds rows has room for one of them, with two copies of each
/// tile.
fn rows_fit(kernel: &Kernel, device: &dyn Device) -> bool {
    fn widest(list: &[Stmt]) -> u32 {
        let own = |s: &Stmt| match s {
            Stmt::Tiles { rows: Some(r), .. } => r.pitch(),
            _ => 0,
        };
        list.iter().map(|s| s.blocks().map(|b| widest(b)).max().unwrap_or(0).max(own(s))).max().unwrap_or(0)
    }
    let mut twice = kernel.clone();
    twice.tiles.iter_mut().filter(|t| t.space == Space::Vector).for_each(|t| t.copies = 2);
    fit_tiles(&mut twice, device);
    let room = twice.tiles.iter().find(|t| t.space == Space::Vector).map_or(0, |t| t.elements);
    widest(&kernel.body) <= room
}

/// Returns the kernel before pruning, which still has what never happens at its size, and the
/// memory that each region works on. With `marks`, a mark stands where each region begins.
fn unpruned(
    schedule: &Schedule,
    staging: Staging,
    (places, marks): (Places<'_>, bool),
    device: &dyn Device,
    shares: &mut Shares,
) -> Result<(Kernel, Vec<Vec<Object>>), Diagnostics> {
    let ranks = schedule.mesh.ranks();
    if ranks > u64::from(device.limits().ranks) {
        return Err(Diagnostic::error(
            "E471",
            format!("{ranks} ranks exceed the largest domain of the target"),
        )
        .note(device.limits().ranks_why)
        .help("use fewer ranks for this target; `--target sim` has no such limit")
        .into());
    }
    if let Some(host) = &schedule.host {
        return Err(refuse(host.span, "a host section", "remove the `host` section").into());
    }
    if schedule.calls != Calls::Any {
        return Err(Diagnostic::error("E470", format!("{} is not safe for repeated calls", schedule.name))
            .note("a domain is used by many launches, with any skew between ranks")
            .help("run the pass `synchronize`, or write `schedule calls any` and prove it with `kbc check`")
            .into());
    }
    if let Some(span) = routed(schedule) {
        let help =
            "remove `via`: routes belong to the network of the machine, and a kernel cannot choose them";
        return Err(refuse(span, "a message that names relays", help).into());
    }
    if let Some(span) = combining(schedule) {
        let help = "use `transfer: push` or `transfer: pull`: the target cannot let switches add";
        return Err(refuse(span, "a get that combines", help).into());
    }
    let one_stream = one_stream::one_stream(schedule);
    let schedule = one_stream.as_ref().map_or(schedule, |one| &one.schedule);
    let apart = tiles::split_tile_kernels(schedule)?;
    let (schedule, parts) = apart.as_ref().map_or((schedule, None), |(s, parts)| (s, Some(parts)));
    let without = if staging == Staging::Whole { None } else { copy_elision::without_staging(schedule) };
    let schedule = without.as_ref().unwrap_or(schedule);
    // Where peers read inputs, nothing is copied to slots.
    let whole = (staging != Staging::Whole && !device.shares_inputs()).then(|| whole_windows(schedule));
    let (with_whole, whole_windows) = whole.flatten().unzip();
    let schedule = &batches::batched(with_whole.as_ref().unwrap_or(schedule));
    let program = walk::Program::compile(schedule)?;
    let mut storage = Storage::new(schedule, &program)?;
    let mut signals = signals(schedule, &program)?;
    let cores = lanes::requested_cores(schedule);
    let merged: Vec<Option<lanes::Merged>> =
        schedule.regions.iter().map(|r| lanes::merged(schedule, r)).collect::<Result<_, _>>()?;
    merged.iter().flatten().for_each(|m| m.grow(&mut storage.areas, &mut signals));
    let core_barrier_signals = [signals.len() as u32, signals.len() as u32 + 1];
    if cores > 1 {
        signals.extend(lanes::core_barrier_counters(cores, &signals));
    }
    let kernel = Kernel {
        name: schedule.name.clone(),
        dialect: device.dialect(),
        core: if has_matmuls(schedule) { Core::Tasks } else { Core::Vector },
        cores,
        scalars: vec![CALL.into()],
        root: None,
        tensors: storage.tensors.clone().into(),
        tables: schedule
            .tables
            .iter()
            .map(|t| Table { name: t.name.clone(), values: BTreeMap::from([(ranks, t.values.clone())]) })
            .collect(),
        signals: signals.into(),
        areas: storage.areas.clone().into(),
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
        task_cores: 1,
        shares: std::mem::take(shares),
        region: None,
        nested: 0,
        cores,
        merged,
        since: WorkDivision::Nothing,
        core_barrier_signals,
        core_barriers: 0,
        fetched: fetched::fetched(schedule),
        whole_windows: whole_windows.unwrap_or_default(),
        tables: vec![],
        parts,
        block_sizes: BlockSizes::of(schedule, device),
        consumers: BTreeMap::new(),
        chains: staging == Staging::Rows && device.holds_rows() && cores == 1,
        users_of: BTreeMap::new(),
        pieces: BTreeMap::new(),
        begin_tasks: one_stream.as_ref().map(|one| one.begin_tasks.clone()).unwrap_or_default(),
        marks,
    };
    if matches!(staging, Staging::Rows | Staging::Fused) {
        lower.consumers = lower.consumers();
    }
    if lower.chains {
        lower.users_of = lower.all_users();
    }
    lower.all()?;
    *shares = std::mem::take(&mut lower.shares);
    let (body, tiles, core_barriers) = (lower.build.finish(), lower.tiles, lower.core_barriers);
    let mut kernel = Kernel { body, tiles, ..kernel };
    kernel.tables.extend(lower.tables);
    let lengths = lengths::tables(schedule, &kernel.tables, &mut kernel.body);
    kernel.tables.extend(lengths);
    if cores > 1 {
        lanes::count_core_barriers(core_barriers, &mut kernel.signals, &mut kernel.body);
    }
    if device.defers_waits() {
        deferred::defer_waits(&mut kernel, device.limits().conditions, core_barrier_signals);
    }
    let operand = |r: &Region| r.operands.iter().map(|o| storage.object(o.buffer)).collect();
    let operands = schedule.regions.iter().map(operand).collect();
    Ok((kernel, operands))
}

/// Returns the kernel of a schedule for counting.
///
/// # Errors
/// Returns the errors of [`lower`].
pub fn counts(schedule: &Schedule, device: &dyn Device) -> Result<CountedKernel, Diagnostics> {
    let places: Places<'_> = &|_| None;
    let mut shares = Shares::default();
    let (kernel, operands) = fitting(schedule, Staging::Rows, (places, true), device, &mut shares)?;
    Ok(CountedKernel { kernel, operands, ranks: schedule.mesh.ranks() })
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
    if kernel.core != Core::Matrix {
        shorten(&mut kernel.body, elements);
    }
}

fn shorten(body: &mut [Stmt], elements: u32) {
    for stmt in body {
        match stmt {
            Stmt::Tiles { step, rows, body, .. } => {
                *step = rows.as_ref().map_or(elements, |r| r.of(elements) * r.elements);
                shorten(body, elements);
            }
            Stmt::Task { core: Core::Matrix, .. } => {}
            other => other.blocks_mut().for_each(|block| shorten(block, elements)),
        }
    }
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
