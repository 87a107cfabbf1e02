//! Reports: one object with a documented, versioned schema (docs/reference/report.md), and its
//! human-readable form.

pub mod amounts;
pub mod human;
pub mod launch;
pub mod order;
pub mod path;
pub mod timed;
mod torch;

pub use human::human;
pub use launch::LaunchReport;
pub use order::{OrderOfAdditions, OrdersOfValue};
pub use torch::{TorchCollective, TorchCount, TorchGroup, TorchPlaced, TorchPlacements, TorchReport};

use kbc_machine::bounds::Problem;
use serde::Serialize;

/// Version of the schema. It increases when a field changes its meaning or is removed.
pub const SCHEMA: u32 = 1;

/// The results of a command.
#[derive(Serialize, Debug, Default)]
pub struct Report {
    /// The version [`SCHEMA`].
    pub schema: u32,
    /// `compile`, `check`, `run` or `launch`.
    pub command: &'static str,
    /// The file as given.
    pub file: String,
    /// The program, or the algorithm that was run as one.
    pub program: String,
    /// Whether everything that was requested was checked and holds.
    pub ok: bool,
    /// What was not checked, and why; `ok` is false then.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unchecked: Vec<String>,
    /// The machine as text.
    pub machine: Option<String>,
    /// Axes and sizes of the mesh.
    pub mesh: Vec<AxisReport>,
    /// Parameters with their values.
    pub params: Vec<ParamReport>,
    /// Inputs and the origin of their data.
    pub inputs: Vec<InputReport>,
    /// The engine that executed the program, if it was executed.
    pub engine: Option<&'static str>,
    /// The collectives in order.
    pub collectives: Vec<CollectiveReport>,
    /// The proof.
    pub verified: Option<VerifiedReport>,
    /// Comparison with the single-device result.
    pub compare: Option<CompareReport>,
    /// Comparisons with stored results that the program names.
    pub expect: Vec<CompareReport>,
    /// In which order contributions are added; present in pages, and where the order had to be
    /// fixed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order: Option<OrderOfAdditions>,
    /// Adversarial runs.
    pub adversarial: Option<AdversarialReport>,
    /// Values that the host read, call by call and rank by rank; at most 64.
    pub host_reads: Vec<HostReadReport>,
    /// Ranks that did not reach the end of a run: causes first, then those aborted because of them.
    pub failures: Vec<FailureReport>,
    /// Simulated time of one call, in nanoseconds.
    pub time_ns: Option<f64>,
    /// Lower bound of one call, in nanoseconds.
    pub bound_ns: Option<f64>,
    /// `100 * bound / time`; absent if the bound is 0.
    pub percent: Option<f64>,
    /// The row that gives the bound.
    pub bottleneck: Option<String>,
    /// Settings of the machine that its file marks as chosen rather than published.
    pub chosen: Vec<String>,
    /// Rates that are assumed infinitely fast on this machine.
    pub unlimited: Vec<String>,
    /// For a machine whose devices share their work between PEs: how many local operations were
    /// computed PE by PE, and how.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inside: Option<String>,
    /// Time of the critical path by cause.
    pub totals: Vec<TotalReport>,
    /// Accesses to slots of queues on the critical path, two for each message received there;
    /// absent if slots cost nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slot_accesses: Option<u64>,
    /// Time during which collectives were in progress, each from its first transfer on; absent
    /// unless collectives have streams of their own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub communication_ns: Option<f64>,
    /// Time that the critical path spends on anything but local work; present with
    /// `communication_ns`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exposed_ns: Option<f64>,
    /// Steps of the critical path.
    pub critical_path: Vec<StepReport>,
    /// Links in use, busiest first.
    pub links: Vec<LinkReport>,
    /// Number of links in use.
    pub links_used: Option<u64>,
    /// Number of links of the machine.
    pub links_total: Option<u64>,
    /// Total time that messages waited for links, in nanoseconds.
    pub queue_ns: Option<f64>,
    /// Memories whose controllers transferred data, busiest first; empty if there are no
    /// controllers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub memories: Vec<MemoryReport>,
    /// Messages delivered in one call.
    pub messages: Option<u64>,
    /// The ranks that were simulated for the time, and the reason if all of them were.
    pub simulated: Option<String>,
    /// Times on perturbed machines.
    pub perturb: Option<PerturbReport>,
    /// Algorithms checked on shapes (`check` of a file without a program).
    pub algorithms: Vec<AlgorithmReport>,
    /// Programs checked by calls with small sizes (`check`).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub programs: Vec<ProgramReport>,
    /// The package that was emitted for a target.
    pub emitted: Option<EmitReport>,
    /// The run of the emitted program on this computer (`launch`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub launched: Option<LaunchReport>,
    /// A schedule that another program wrote, and its verdict.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub imported: Option<ImportReport>,
    /// PyTorch programs, one entry per world of ranks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub torch: Vec<TorchReport>,
}

/// An imported schedule.
#[derive(Serialize, Debug)]
pub struct ImportReport {
    /// Always `msccl`.
    pub format: &'static str,
    /// The collective, as the file names it.
    pub collective: String,
    /// The protocol of its connections.
    pub protocol: &'static str,
    /// Whether input and output are one buffer.
    pub inplace: bool,
    /// Chunks of the largest user buffer.
    pub chunks: u64,
    /// Channels in use.
    pub channels: u64,
    /// Thread blocks of all ranks.
    pub thread_blocks: u64,
    /// Steps of all ranks.
    pub steps: u64,
    /// Operations in flight on a connection.
    pub depth: u64,
    /// `accepted` or `rejected`.
    pub verdict: &'static str,
    /// The kinds of errors: `hang`, `postcondition`, `uninitialised`, `race`, `connection`,
    /// `sizes`, `leftover`, `other`.
    pub kinds: Vec<&'static str>,
    /// `none`, `at this depth` or `at any depth`.
    pub hang: &'static str,
    /// `holds`, `wrong`, `not reached` or `not checked`.
    pub postcondition: &'static str,
    /// Number of different reads of uninitialised memory.
    pub uninitialised: u64,
    /// Number of different pairs of steps that race.
    pub races: u64,
    /// Message sizes at which it does not hang: `any size`, `up to N B`, `no size`.
    pub hang_free: String,
    /// The largest of these sizes, in bytes of the largest user buffer; absent if it is any size or
    /// none.
    pub hang_free_bytes: Option<u64>,
}

/// A package that was emitted.
#[derive(Serialize, Debug)]
pub struct EmitReport {
    /// The target.
    pub target: String,
    /// The folder.
    pub out: String,
    /// Name of the kernel.
    pub kernel: String,
    /// Files in the folder.
    pub files: Vec<String>,
    /// Rank counts that the kernel serves.
    pub ranks: Vec<u64>,
    /// The parameter that is its element count at run time, if there is one.
    pub count: Option<String>,
    /// The largest element count.
    pub largest_count: Option<u64>,
    /// Why the kernel serves one rank count only; absent if it serves several.
    pub one_rank_count_because: Option<String>,
    /// Why all sizes are fixed; absent if the kernel has a count.
    pub fixed_sizes_because: Option<String>,
    /// Number of barriers of all pipes in the kernel's text.
    pub barriers: u64,
    /// Number of these barriers inside loops over tiles.
    pub barriers_in_tiles: u64,
    /// Number of pairs of flags between pipes.
    pub flags: u64,
    /// Number of memory barriers (`dsb`).
    pub dsb: u64,
    /// With deferred waits, the number of statements that leave a wait to the runtime, and of those
    /// that wait themselves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deferred_waits: Option<[u64; 2]>,
}

/// An axis of the mesh.
#[derive(Serialize, Debug)]
pub struct AxisReport {
    /// Name.
    pub name: String,
    /// Number of ranks along it.
    pub size: u64,
}

/// A parameter.
#[derive(Serialize, Debug)]
pub struct ParamReport {
    /// Name.
    pub name: String,
    /// Value.
    pub value: String,
}

/// An input.
#[derive(Serialize, Debug)]
pub struct InputReport {
    /// Name.
    pub name: String,
    /// Type with placement.
    pub r#type: String,
    /// Origin of the data: a file and key, or a generator.
    pub from: String,
}

/// A collective of the schedule.
#[derive(Serialize, Debug)]
pub struct CollectiveReport {
    /// The collective: `all_reduce` and so on.
    pub operation: String,
    /// The combiner.
    pub reduce: Option<String>,
    /// The algorithm with its arguments.
    pub algorithm: String,
    /// Whether the program named the algorithm; otherwise `select` chose it.
    pub asked: bool,
    /// The mesh axis.
    pub axis: String,
    /// Number of ranks of a group.
    pub ranks: u64,
    /// Number of elements of the line.
    pub elements: u64,
    /// S of the conventions of busbw, in bytes: per rank, of the total output or of the total
    /// input.
    pub bytes: u64,
    /// Time from the first entry to the last exit, in nanoseconds.
    pub time_ns: Option<f64>,
    /// Lower bound, in nanoseconds.
    pub bound_ns: Option<f64>,
    /// Whether the bound is known to be the largest of its kind.
    pub bound_exact: bool,
    /// How its bandwidth row was found.
    pub bound_method: Option<&'static str>,
    /// `100 * bound / time`.
    pub percent: Option<f64>,
    /// The row that gives the bound.
    pub bottleneck: Option<String>,
    /// What it asks of the machine, if it has a bound.
    #[serde(skip)]
    pub problem: Option<Problem>,
    /// S / time, in GB/s.
    pub algbw: Option<f64>,
    /// algbw times the factor of the collective, in GB/s.
    pub busbw: Option<f64>,
}

/// The proof of a schedule.
#[derive(Serialize, Debug)]
pub struct VerifiedReport {
    /// Whether nothing is wrong.
    pub ok: bool,
    /// What was proven.
    pub shown: String,
    /// How the meaning was proven: exact, symmetric or by fingerprints.
    pub meaning: String,
    /// The calls that are safe: `first` or `any`.
    pub calls: String,
    /// Number of calls walked for the proof.
    pub calls_walked: u64,
    /// Number of ranks walked.
    pub ranks_walked: u64,
    /// Number of operations walked.
    pub operations: u64,
    /// Number of calls until a counter exceeds 32 bits.
    pub counter_range: Option<u64>,
}

/// A comparison of every element on every rank.
#[derive(Serialize, Debug)]
pub struct CompareReport {
    /// Name of the result.
    pub result: String,
    /// What it was compared with.
    pub against: String,
    /// Number of elements compared, over all ranks.
    pub elements: u64,
    /// Number of elements that do not pass.
    pub mismatches: u64,
    /// Number of elements for which no error bound is known, so that the comparison decides
    /// nothing.
    pub unbounded: u64,
    /// Largest `|got - ref| / bound`; absent if infinite.
    pub max_err: Option<f64>,
    /// The element with the largest error.
    pub worst: Option<WorstReport>,
    /// For a stored result: the largest `|got - ref|` divided by the sum of the absolute terms;
    /// absent if there is no such sum, or if it is infinite.
    pub terms_err: Option<f64>,
    /// Number of elements whose error exceeds the outer limit, 2e-5 of that sum.
    pub beyond: u64,
    /// Ranks whose contribution is missing or doubled.
    pub hints: Vec<String>,
    /// Why nothing could be compared.
    pub unfit: Option<String>,
}

/// One element.
#[derive(Serialize, Debug)]
pub struct WorstReport {
    /// Rank by its coordinates.
    pub rank: String,
    /// Index in the global tensor.
    pub index: Vec<u64>,
    /// The reference, as text because a number may not be finite.
    pub expected: String,
    /// The value on the rank.
    pub got: String,
    /// The error bound.
    pub bound: f64,
}

/// Runs under the adversaries.
#[derive(Serialize, Debug)]
pub struct AdversarialReport {
    /// Number of runs.
    pub runs: u64,
    /// Number of elements compared.
    pub elements: u64,
    /// Description of the first failure.
    pub failure: Option<String>,
}

/// A `host.read`.
#[derive(Serialize, Debug)]
pub struct HostReadReport {
    /// The call.
    pub call: u64,
    /// The rank.
    pub rank: String,
    /// The buffer.
    pub buffer: String,
    /// Number of elements read.
    pub elements: u64,
    /// The first elements, at most eight, as text.
    pub first: Vec<String>,
    /// Time of the read in the first call, in nanoseconds.
    pub time_ns: Option<f64>,
}

/// A rank that did not reach its end.
#[derive(Serialize, Debug)]
pub struct FailureReport {
    /// The rank.
    pub rank: String,
    /// `root` for a cause, `aborted` for a rank that only waited.
    pub kind: &'static str,
    /// Code of the diagnostic for it.
    pub code: Option<&'static str>,
    /// The error, or where the rank waits and for what.
    pub what: String,
    /// The rank that was to satisfy its wait.
    pub because: Option<String>,
}

/// The share of a cause in the critical path.
#[derive(Serialize, Debug)]
pub struct TotalReport {
    /// `latency`, `bytes`, `queueing`, `work`, `fences`, `preload`, `endpoints`, `late starts`,
    /// `launch`, `acknowledgements`, `drain`, `slots`, `credits`, `notifies` or `fetches`.
    pub cause: String,
    /// Total time in nanoseconds.
    pub ns: f64,
    /// Percentage of the whole time.
    pub percent: f64,
}

/// A step of the critical path.
#[derive(Serialize, Debug)]
pub struct StepReport {
    /// Number of the part of the path to which it belongs: a message, a local operation, a fence.
    pub part: u64,
    /// Number of the operation in the schedule.
    pub op: u32,
    /// The operation.
    pub what: String,
    /// Its rank.
    pub place: String,
    /// Its stream.
    pub stream: String,
    /// The rank at which the message of the part arrives.
    pub to: Option<String>,
    /// The region.
    pub region: String,
    /// Source position.
    pub source: Option<String>,
    /// Start in nanoseconds.
    pub start_ns: f64,
    /// End in nanoseconds.
    pub end_ns: f64,
    /// `queue`, `latency`, `bytes`, `memory_queue`, `memory`, `unit_queue`, `work`, `preload`,
    /// `fetch`, `fence`, `endpoint`, `late`, `launch`, `acknowledged`, `drain`, `inlet`,
    /// `slot_write`, `slot_read`, `credit`, `poll`, `core_queue`, `core` or `notify`.
    pub kind: &'static str,
    /// Description of the cause of the time.
    pub cause: String,
    /// Description of what the part had to wait for.
    pub after: String,
    /// What held the link or unit that it waits for, if that was determined.
    pub behind: Option<String>,
}

/// Use of a link.
#[derive(Serialize, Debug)]
pub struct LinkReport {
    /// Ends of the link, by coordinates.
    pub link: String,
    /// Number of messages in one call.
    pub messages: u64,
    /// Bytes in one call.
    pub bytes: u64,
    /// Time during which it carried them, in nanoseconds.
    pub busy_ns: f64,
    /// Total time that messages waited for it, in nanoseconds.
    pub queue_ns: f64,
    /// Busy time as a percentage of the total time.
    pub use_percent: f64,
}

/// Use of a memory's controller.
#[derive(Serialize, Debug)]
pub struct MemoryReport {
    /// The memory.
    pub memory: String,
    /// Number of messages read there in one call.
    pub reads: u64,
    /// Number of messages written there in one call.
    pub writes: u64,
    /// Bytes of both.
    pub bytes: u64,
    /// Busy time of its busiest channel, in nanoseconds.
    pub busy_ns: f64,
    /// Total additional time that messages took because of other messages, in nanoseconds.
    pub queue_ns: f64,
}

/// Times of one call on perturbed machines, one per seed, in nanoseconds. The report's own time and
/// percentage are those of the undisturbed run.
#[derive(Serialize, Debug)]
pub struct PerturbReport {
    /// Seed of the first run.
    pub seed: u64,
    /// Number of runs, with consecutive seeds.
    pub runs: u64,
    /// The shortest time.
    pub min_ns: f64,
    /// Median: at least half of the runs take no longer.
    pub median_ns: f64,
    /// 95th percentile: at least 95 of 100 runs take no longer.
    pub p95_ns: f64,
    /// The longest time.
    pub max_ns: f64,
    /// The seed of the longest run; of several, the first.
    pub worst_seed: u64,
    /// Lower bound on the machine of that run.
    pub worst_bound_ns: f64,
    /// Number of ranks that are perturbed in that run.
    pub ranks: u64,
    /// Number of links that are perturbed in that run.
    pub links: u64,
    /// Contributions of perturbed ranks and links to its critical path, largest first, at most 8.
    pub blame: Vec<BlameReport>,
}

/// A perturbed rank or link on the critical path.
#[derive(Serialize, Debug)]
pub struct BlameReport {
    /// `rank (3)` or `link (3)->(4)`.
    pub what: String,
    /// Nanoseconds that it adds to the path.
    pub ns: f64,
    /// The same as a percentage of the whole time.
    pub percent: f64,
}

/// A program that no other compiles, checked by calling it with small sizes.
#[derive(Serialize, Debug)]
pub struct ProgramReport {
    /// Its name.
    pub program: String,
    /// The calls that were proven, by their sizes and arguments.
    pub with: Vec<String>,
    /// Why there is no such call.
    pub not_checked: Option<String>,
}

/// An algorithm checked on shapes.
#[derive(Serialize, Debug)]
pub struct AlgorithmReport {
    /// The collective.
    pub collective: String,
    /// The algorithm.
    pub algorithm: String,
    /// Number of shapes (with roots) on which it is right.
    pub shapes: u64,
    /// The largest number of ranks among them.
    pub largest: u64,
    /// Number of other argument lists from its documentation with which it is right, too.
    pub variants: u64,
    /// Number of schedules, on small shapes, that were built and proven.
    pub schedules: u64,
    /// Costs in its documentation that agree with its rounds on every shape, such as `rounds p -
    /// 1`.
    pub costs: Vec<String>,
    /// Arguments that were tried and that some shape admits, such as `k = 1, 2, 4`.
    pub tried: Vec<String>,
    /// Sizes of the schedules' vectors in elements: `1`, `2p`, `2p + 1`.
    pub elements: Vec<String>,
}
