//! Time: a discrete-event engine over the verified schedule.
//!
//! Owns the machine of SEMANTICS.md 6 and the rules that a machine may state instead: links, messages, local work and
//! what a run of them reports. The model is `docs/time.md`, exactly. It reads schedules through [`kbc_ir::walk`] alone, never looks at data, and no algorithm has
//! a formula here. Bounds are [`kbc_machine::bounds`]; numbers are [`kbc_backend_sim::interp`]; drawing is the driver's.
//!
//! Memory grows with ranks, their streams and counters, and messages in flight; the record behind the critical path has
//! a fixed size.

mod agenda;
mod channels;
mod clock;
mod controllers;
mod cores;
mod engine;
mod hooks;
mod inside;
mod links;
mod local;
mod log;
mod moves;
mod observe;
mod path;
pub mod perturb;
mod queues;
mod report;
mod setup;
mod state;
mod stuck;
mod ties;
mod ways;
mod work;

pub use observe::{Begun, Held, MessageId, Next, Pass, Sent, Turn, Woken};
pub use report::{Breakdown, Cause, LinkUse, MemoryUse, RankUse, RegionSpan, Slot, Step, Timing, Walked};
pub use setup::device_each;
pub use work::{Unit, amounts};

use engine::Engine;
use kbc_checker::Orbits;
use kbc_diag::{Diagnostic, Diagnostics, Span};
use kbc_ir::host::spelled;
use kbc_ir::schedule::{BufferId, RegionId, Schedule};
use kbc_ir::walk::{Fault, Program};
use kbc_machine::topology::Topology;
use setup::Setup;
use state::State;

/// How to simulate.
#[derive(Clone, Debug)]
pub struct TimeOptions {
    /// Calls in a row; none takes no time.
    pub calls: u32,
    /// Whether to find the critical path. It costs up to 100 MB, and a run of more than two million steps is walked once
    /// more.
    pub path: bool,
    /// Simulates every rank, also where one of each orbit would do.
    pub every_rank: bool,
}

impl Default for TimeOptions {
    fn default() -> Self {
        TimeOptions { calls: 1, path: true, every_rank: false }
    }
}

/// What a message is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum MessageKind {
    /// Data of a put, with a notify where one travels with it.
    Put,
    /// A notify of its own.
    Notify,
    /// The request of a get.
    Request,
    /// Its data.
    Reply,
}

/// A message that has arrived.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Delivery {
    /// Which message.
    pub id: MessageId,
    /// What it is.
    pub kind: MessageKind,
    /// Number of the operation in the schedule, as the walk numbers them.
    pub op: u32,
    /// Its region.
    pub region: RegionId,
    /// Where it is written.
    pub span: Span,
    /// Sender.
    pub from: u64,
    /// Receiver.
    pub to: u64,
    /// Bytes on the links.
    pub bytes: u64,
    /// When it was sent, in ns.
    pub sent_ns: f64,
    /// When its last byte arrived, in ns.
    pub delivered_ns: f64,
}

/// A local operation that took time.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Work {
    /// Number of the operation in the schedule.
    pub op: u32,
    /// Its region.
    pub region: RegionId,
    /// Where it is written.
    pub span: Span,
    /// The rank.
    pub rank: u64,
    /// Number of the stream.
    pub stream: u32,
    /// The unit that took longest.
    pub unit: Unit,
    /// The units that it uses, in the order of [`Unit::ALL`].
    pub uses: [bool; 3],
    /// The unit that it waited for, if it waited.
    pub behind: Option<Unit>,
    /// When it asked for its units, in ns.
    pub asked_ns: f64,
    /// When it began, after waiting for its units, in ns.
    pub start_ns: f64,
    /// When it ended, in ns.
    pub end_ns: f64,
}

/// Is told what happens, in the order of time of [`Delivery::delivered_ns`], and of work when it begins.
pub trait Observer {
    /// A message has arrived.
    fn delivered(&mut self, _message: &Delivery) {}
    /// A local operation has its units.
    fn works(&mut self, _work: &Work) {}
    /// A host has read a buffer of its rank, at this time in ns.
    fn host_read(&mut self, _rank: u64, _buffer: BufferId, _ns: f64) {}
    /// Whether it wants to be told what follows, too; asked once.
    fn detail(&self) -> bool {
        false
    }
    /// A stream comes to an operation, to an end of a region or to the end of its call.
    fn turn(&mut self, _turn: &Turn) {}
    /// The operation that a stream has come to takes time.
    fn holds(&mut self, _held: &Held) {}
    /// A message leaves.
    fn sent(&mut self, _message: &Sent) {}
    /// A message gets a link.
    fn passes(&mut self, _pass: &Pass) {}
    /// A blocked stream goes on.
    fn woken(&mut self, _woken: &Woken) {}
}

/// Simulates a schedule on a machine. Rank i is device i.
///
/// # Errors
/// E361 deadlock; E370 a schedule that is not synchronised; E371 a machine with another number of devices than the mesh
/// has ranks; E372 a time or a record out of range; E373 too many counters; E301 to E305 from walking the schedule.
pub fn simulate(schedule: &Schedule, topo: &Topology, options: &TimeOptions) -> Result<Timing, Diagnostics> {
    go(schedule, topo, options, None)
}

/// [`simulate`], telling an observer what happens.
///
/// # Errors
/// Those of [`simulate`].
pub fn simulate_observed(
    schedule: &Schedule,
    topo: &Topology,
    options: &TimeOptions,
    observer: &mut dyn Observer,
) -> Result<Timing, Diagnostics> {
    go(schedule, topo, options, Some(observer))
}

/// Messages up to which every rank is simulated again where several critical paths are equally long, so that the one
/// that is named does not depend on how times were found.
const AGAIN: u64 = 1 << 22;

fn go(
    schedule: &Schedule,
    topo: &Topology,
    options: &TimeOptions,
    observer: Option<&mut dyn Observer>,
) -> Result<Timing, Diagnostics> {
    let spelled = spelled(schedule);
    let program = Program::compile(&spelled)?;
    let mut setup = Setup::new(&program, topo, options)?;
    let mut why = match (&observer, options.every_rank) {
        (_, true) => "as asked".to_owned(),
        (Some(_), _) => "each is observed".to_owned(),
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
    let mut engine = Engine::new(&setup, State::new(&setup), observer);
    let marks = path::run(&mut engine).map_err(|f| fault(schedule, &f))?;
    timing(&setup, engine, marks, Walked::Every(why))
}

fn fault(schedule: &Schedule, f: &Fault) -> Diagnostics {
    f.diagnostic(|r| schedule.mesh.show(r)).into()
}

/// Ranks that stand for each other on this machine, or why there are none.
fn orbits(program: &Program<'_>, setup: &Setup<'_>) -> Result<Orbits, String> {
    if setup.moves.is_some() {
        return Err("data comes from memories of their own".into());
    }
    if setup.cores.is_some() {
        return Err("streams are cores of their own".into());
    }
    if setup.unordered {
        return Err("devices have two links to the same neighbour".into());
    }
    if setup.topo.settings().dma.is_some() {
        return Err("transfers wait for channels of their device".into());
    }
    if setup.queues.is_some() {
        return Err("ranks take messages of queues in one after another".into());
    }
    let calls = u64::from(setup.calls);
    let carries = |stride, size, xor| setup.topo.carries(stride, size, xor);
    Orbits::find(program, calls, carries).and_then(|o| match o.size() {
        1 => Err("no rank stands for another".into()),
        _ => Ok(o),
    })
}

/// One rank of each orbit; or why every rank has to be simulated.
fn one_each(setup: &Setup<'_>) -> Result<Timing, String> {
    let mut engine = Engine::new(setup, State::new(setup), None);
    let marks = path::run(&mut engine);
    let state = &engine.state;
    if state.tied() {
        return Err("messages of different ranks want a link at the same time".into());
    }
    let walked = Walked::Orbits(setup.places());
    let messages = state.delivered * setup.orbits.as_ref().map_or(1, Orbits::size);
    if setup.path && state.forked() && messages <= AGAIN {
        return Err("several critical paths are equally long".into());
    }
    // What is wrong is said of every rank.
    let marks = marks.map_err(|f| f.text)?;
    timing(setup, engine, marks, walked).map_err(|_| "something is wrong".into())
}

/// What a run to the end found.
fn timing<'p>(
    setup: &Setup<'p>,
    engine: Engine<'_, 'p, '_>,
    marks: Vec<State<'p>>,
    walked: Walked,
) -> Result<Timing, Diagnostics> {
    let schedule = setup.program.schedule;
    if engine.state.live > 0 {
        return Err(stuck::explain(setup.program, i64::from(setup.calls)));
    }
    let (end, last) = engine.state.end();
    let end = end + setup.last_endpoint(&engine.state);
    if end >= clock::Time::LIMIT {
        return Err(Diagnostic::error("E372", "the simulated time leaves 2^63 ns, which is 292 years")
            .help("look at bandwidths, latencies and sizes; one of them is out of any range")
            .into());
    }
    let chain = match setup.path {
        true => path::chain(setup, marks, engine.log, last).map_err(|f| fault(schedule, &f))?,
        false => Some(vec![]),
    };
    let Some(chain) = chain else {
        return Err(Diagnostic::error("E372", "a message was under way for more than 2^32 steps of others")
            .help("simulate without the critical path")
            .into());
    };
    Ok(report::timing(setup, &engine.state, end, &chain, walked))
}
