//! Time: a discrete-event engine that simulates a verified schedule on a machine.
//!
//! This crate owns the time model of docs/explanation/time.md, including the rules that a machine
//! may set instead of the defaults: links, messages, local work, and the report of a run. It reads
//! schedules only through [`kbc_ir::walk`] and never looks at data, and no algorithm has a formula
//! here. Bounds are in [`kbc_machine::bounds`], data is computed in [`kbc_backend_sim::interp`],
//! and charts are drawn by the caller.
//!
//! Two simulators give the same result. The engine processes events, one after another. Where
//! streams share nothing, `dataflow` simulates each stream as a whole. `dataflow` tries first and
//! gives up at the first conflict.
//!
//! Memory grows with the number of ranks, their streams and counters, and the messages in flight.
//! The record behind the critical path has a fixed size.

mod agenda;
mod channels;
mod clock;
mod controllers;
mod cores;
mod dataflow;
mod deadlock;
mod engine;
mod inside;
mod links;
mod local;
mod log;
mod moves;
mod network;
mod notify_order;
mod observe;
mod path;
pub mod perturb;
mod queues;
mod report;
mod room;
mod setup;
mod state;
mod ties;
mod work;

pub use observe::{Begun, MessageId, Next, OpHeld, Pass, Sent, StepReached, Woken};
pub use report::{Breakdown, Cause, LinkUse, MemoryUse, RankUse, RegionSpan, Slot, Step, Timing, Walked};
pub use setup::device_each;
pub use work::{Unit, amounts};

use clock::Time;
use engine::Engine;
use kbc_checker::Orbits;
use kbc_diag::{Diagnostic, Diagnostics, Span};
use kbc_ir::host::with_host_region;
use kbc_ir::schedule::{BufferId, RegionId, Schedule};
use kbc_ir::walk::{Fault, Program};
use kbc_machine::topology::Topology;
use setup::Setup;
use state::State;

/// Options of a simulation.
#[derive(Clone, Debug)]
pub struct TimeOptions {
    /// Number of calls in a row. 0 calls take no time.
    pub calls: u32,
    /// Whether to find the critical path. A record of each step takes 20 to 68 bytes, up to 1.1 GiB
    /// and an eighth of `memory`. A run with more records is simulated once more.
    pub path: bool,
    /// Whether to simulate every rank even if one rank of each orbit is enough.
    pub every_rank: bool,
    /// Memory in bytes that a simulation of every rank may take; `None` if there is no limit.
    pub memory: Option<u64>,
}

impl Default for TimeOptions {
    fn default() -> Self {
        TimeOptions { calls: 1, path: true, every_rank: false, memory: None }
    }
}

/// The kind of a message.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum MessageKind {
    /// Data of a put, with a notify if one travels with it.
    Put,
    /// A notify that travels alone.
    Notify,
    /// The request of a get.
    Request,
    /// The data of a get.
    Reply,
}

/// A message that has arrived.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Delivery {
    /// The message.
    pub id: MessageId,
    /// Its kind.
    pub kind: MessageKind,
    /// Number of the operation in the schedule, as the walk numbers them.
    pub op: u32,
    /// Region of the operation.
    pub region: RegionId,
    /// Source position of the operation.
    pub span: Span,
    /// Sending rank.
    pub from: u64,
    /// Receiving rank.
    pub to: u64,
    /// Bytes on the links.
    pub bytes: u64,
    /// Time at which it was sent, in ns.
    pub sent_ns: f64,
    /// Time at which its last byte arrived, in ns.
    pub delivered_ns: f64,
}

/// A local operation that took time.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Work {
    /// Number of the operation in the schedule.
    pub op: u32,
    /// Region of the operation.
    pub region: RegionId,
    /// Source position of the operation.
    pub span: Span,
    /// The rank.
    pub rank: u64,
    /// Number of the stream.
    pub stream: u32,
    /// The unit that took longest.
    pub unit: Unit,
    /// Whether it uses each unit, in the order of [`Unit::ALL`].
    pub uses: [bool; 3],
    /// The unit that it waited for, if it waited.
    pub behind: Option<Unit>,
    /// Time at which it requested its units, in ns.
    pub asked_ns: f64,
    /// Time at which it began, after waiting for its units, in ns.
    pub start_ns: f64,
    /// Time at which it ended, in ns.
    pub end_ns: f64,
}

/// A receiver of the events of a simulation. Messages are reported in the order of
/// [`Delivery::delivered_ns`], and local operations when they get their units.
pub trait Observer {
    /// A message has arrived.
    fn delivered(&mut self, _message: &Delivery) {}
    /// A local operation has its units.
    fn works(&mut self, _work: &Work) {}
    /// The host has read a buffer of its rank, at this time in ns.
    fn host_read(&mut self, _rank: u64, _buffer: BufferId, _ns: f64) {}
    /// Returns whether the observer wants the events below, too. Called once.
    fn detail(&self) -> bool {
        false
    }
    /// A stream has reached an operation, the begin or end of a region, or the end of its call.
    fn turn(&mut self, _turn: &StepReached) {}
    /// The operation that a stream has reached takes time.
    fn holds(&mut self, _held: &OpHeld) {}
    /// A message is sent.
    fn sent(&mut self, _message: &Sent) {}
    /// A message gets a link.
    fn passes(&mut self, _pass: &Pass) {}
    /// A blocked stream continues.
    fn woken(&mut self, _woken: &Woken) {}
}

/// Simulates a schedule on a machine. Rank i runs on device i.
///
/// # Errors
/// * E361: deadlock.
/// * E369: every rank has to be simulated, and their messages do not fit in the memory of the
///   options.
/// * E370: the schedule is not synchronised.
/// * E371: the number of devices differs from the number of ranks of the mesh.
/// * E372: a time or a record is out of range.
/// * E373: there are too many counters.
/// * E301 to E305: the schedule cannot be walked.
pub fn simulate(schedule: &Schedule, topo: &Topology, options: &TimeOptions) -> Result<Timing, Diagnostics> {
    go(schedule, topo, options, None)
}

/// Simulates as [`simulate`] does, and reports events to an observer.
///
/// # Errors
/// Returns the errors of [`simulate`].
pub fn simulate_observed(
    schedule: &Schedule,
    topo: &Topology,
    options: &TimeOptions,
    observer: &mut dyn Observer,
) -> Result<Timing, Diagnostics> {
    go(schedule, topo, options, Some(observer))
}

/// Number of messages up to which every rank is simulated again if several critical paths are
/// equally long. The path that is named then does not depend on whether one rank of each orbit was
/// simulated.
const AGAIN: u64 = 1 << 22;

fn go(
    schedule: &Schedule,
    topo: &Topology,
    options: &TimeOptions,
    observer: Option<&mut dyn Observer>,
) -> Result<Timing, Diagnostics> {
    let spelled = with_host_region(schedule);
    let program = Program::compile(&spelled)?;
    let mut setup = Setup::new(&program, topo, options)?;
    let mut why = match (&observer, options.every_rank) {
        (_, true) => "as requested".to_owned(),
        (Some(_), _) => "every rank is observed".to_owned(),
        _ => match orbits(&program, &setup) {
            Ok(orbits) => {
                setup.orbits = Some(orbits);
                String::new()
            }
            Err(reason) => reason,
        },
    };
    if setup.orbits.is_some() {
        match one_each(&setup) {
            Ok(timing) => return Ok(timing),
            Err(reason) => why = reason,
        }
        setup.orbits = None;
    }
    room::fits(options.memory, &program, topo)?;
    if observer.is_none()
        && let Some(dataflow::Finished { state, chain }) = dataflow::run(&setup)
    {
        let chain: Vec<_> = chain.into_iter().map(|record| (record, 0)).collect();
        let end = end(&setup, &state)?;
        return Ok(report::timing(&setup, &state, end, path::steps(&setup, &chain, end), Walked::Every(why)));
    }
    let mut engine = Engine::new(&setup, State::new(&setup), observer);
    let marks = path::run(&mut engine).map_err(|f| fault(schedule, &f))?;
    timing(&setup, engine, marks, Walked::Every(why))
}

fn fault(schedule: &Schedule, f: &Fault) -> Diagnostics {
    f.diagnostic(|r| schedule.mesh.show(r)).into()
}

/// Returns the ranks that stand for each other on this machine, or the reason why there are none.
fn orbits(program: &Program<'_>, setup: &Setup<'_>) -> Result<Orbits, String> {
    if setup.moves.is_some() {
        return Err("transfers go through separate memories".into());
    }
    if setup.cores.is_some() {
        return Err("streams run on separate cores".into());
    }
    if setup.routed {
        return Err("messages name the relays that they pass".into());
    }
    if setup.topo.is_adaptive() {
        return Err("messages choose between equal links".into());
    }
    if setup.unordered {
        return Err("devices have two links to the same neighbour".into());
    }
    if !setup.topo.settings().switching().only_forwards() {
        return Err("switches combine or copy messages".into());
    }
    if setup.topo.settings().dma.is_some() {
        return Err("transfers wait for channels of their device".into());
    }
    if setup.queues.is_some() {
        return Err("ranks receive messages of queues one after another".into());
    }
    let calls = u64::from(setup.calls);
    let carries = |stride, size, xor| setup.topo.carries(stride, size, xor);
    Orbits::find(program, calls, carries).and_then(|o| match o.size() {
        1 => Err("no rank can stand for another".into()),
        _ => Ok(o),
    })
}

/// Simulates one rank of each orbit. Returns the reason if every rank has to be simulated.
fn one_each(setup: &Setup<'_>) -> Result<Timing, String> {
    let mut engine = Engine::new(setup, State::new(setup), None);
    let marks = path::run(&mut engine);
    let state = &engine.state;
    if state.tied() {
        return Err("messages of different ranks need a link at the same time".into());
    }
    let walked = Walked::Orbits(setup.places());
    let messages = state.delivered * setup.orbits.as_ref().map_or(1, Orbits::size);
    if setup.path && state.forked() && messages <= AGAIN {
        return Err("several critical paths are equally long".into());
    }
    // Errors are reported by the simulation of every rank.
    let marks = marks.map_err(|f| f.text)?;
    timing(setup, engine, marks, walked).map_err(|_| "the simulation failed".into())
}

/// Returns the time at which the last rank has finished.
fn end(setup: &Setup<'_>, state: &State<'_>) -> Result<Time, Diagnostics> {
    let end = state.end().0 + state.last_endpoint(setup);
    if end >= Time::LIMIT {
        return Err(Diagnostic::error("E372", "the simulated time exceeds 2^63 ns (292 years)")
            .help("check the bandwidths, latencies and sizes; one of them is unrealistic")
            .into());
    }
    Ok(end)
}

/// Returns the report of a completed run.
fn timing<'p>(
    setup: &Setup<'p>,
    engine: Engine<'_, 'p, '_>,
    marks: Vec<State<'p>>,
    walked: Walked,
) -> Result<Timing, Diagnostics> {
    let schedule = setup.program.schedule;
    if engine.state.live > 0 {
        return Err(deadlock::explain(setup.program, i64::from(setup.calls)));
    }
    let last = engine.state.end().1;
    let end = end(setup, &engine.state)?;
    let chain = match setup.path {
        true => path::chain(setup, marks, engine.log, last).map_err(|f| fault(schedule, &f))?,
        false => Some(vec![]),
    };
    let Some(chain) = chain else {
        return Err(Diagnostic::error(
            "E372",
            "a message was in flight during more than 2^32 steps of other messages",
        )
        .help("simulate without the critical path")
        .into());
    };
    let steps = path::steps(setup, &chain, end);
    Ok(report::timing(setup, &engine.state, end, steps, walked))
}
