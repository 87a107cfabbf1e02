//! Reports: one object with a documented, versioned schema (docs/report.md), and its form for people.

pub mod human;
pub mod path;
pub mod timed;
mod torch;

pub use human::human;
pub use torch::{TorchCollective, TorchCount, TorchGroup, TorchPlaced, TorchPlacements, TorchReport};

use serde::Serialize;

/// Version of the schema; it grows when a field changes meaning or goes.
pub const SCHEMA: u32 = 1;

/// What a command found out.
#[derive(Serialize, Debug, Default)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: u32,
    /// `compile`, `check` or `run`.
    pub command: &'static str,
    /// The file as given.
    pub file: String,
    /// The program, or the algorithm that was taken as one.
    pub program: String,
    /// Whether everything that was asked for holds, and was looked at.
    pub ok: bool,
    /// What was not looked at, and why; `ok` is false then.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unchecked: Vec<String>,
    /// The machine as text.
    pub machine: Option<String>,
    /// Axes and sizes of the mesh.
    pub mesh: Vec<AxisReport>,
    /// Parameters with their values.
    pub params: Vec<ParamReport>,
    /// Inputs and where their data comes from.
    pub inputs: Vec<InputReport>,
    /// What executed, if anything was executed.
    pub engine: Option<&'static str>,
    /// The collectives in order.
    pub collectives: Vec<CollectiveReport>,
    /// What was proven.
    pub verified: Option<VerifiedReport>,
    /// Comparison with the single-device result.
    pub compare: Option<CompareReport>,
    /// Comparison with stored results the program names.
    pub expect: Vec<CompareReport>,
    /// Adversarial runs.
    pub adversarial: Option<AdversarialReport>,
    /// What the host read, call by call and rank by rank, 64 at most.
    pub host_reads: Vec<HostReadReport>,
    /// Ranks that did not come to the end of a run: causes first, then those aborted because of them.
    pub failures: Vec<FailureReport>,
    /// Simulated time of one call, nanoseconds.
    pub time_ns: Option<f64>,
    /// Lower bound of one call, nanoseconds.
    pub bound_ns: Option<f64>,
    /// `100 * bound / time`; absent where the bound is 0.
    pub percent: Option<f64>,
    /// What the bound comes from.
    pub bottleneck: Option<String>,
    /// Settings of the machine that its file marks as chosen.
    pub chosen: Vec<String>,
    /// Rates that are unlimited on this machine.
    pub unlimited: Vec<String>,
    /// Of a machine whose devices share their work between PEs: how many local operations were computed PE by PE, and how.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inside: Option<String>,
    /// What the time of the critical path went into.
    pub totals: Vec<TotalReport>,
    /// Accesses to slots of queues on the critical path, two for each message received there; none where slots cost
    /// nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slot_accesses: Option<u64>,
    /// How long collectives were under way, each from its first transfer on; where they have streams of their own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub communication_ns: Option<f64>,
    /// What the critical path spends on anything but local work; with `communication_ns`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exposed_ns: Option<f64>,
    /// The chain of steps that takes the time.
    pub critical_path: Vec<StepReport>,
    /// Links in use, busiest first.
    pub links: Vec<LinkReport>,
    /// How many links are in use.
    pub links_used: Option<u64>,
    /// How many the machine has.
    pub links_total: Option<u64>,
    /// How long messages waited for links, all together, nanoseconds.
    pub queue_ns: Option<f64>,
    /// Memories whose controller something passed, busiest first; none where there are no controllers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub memories: Vec<MemoryReport>,
    /// Messages delivered in one call.
    pub messages: Option<u64>,
    /// Which ranks were simulated for the time, and why all of them if so.
    pub simulated: Option<String>,
    /// Times on perturbed machines.
    pub perturb: Option<PerturbReport>,
    /// Algorithms checked on shapes (`check` of a file without a program).
    pub algorithms: Vec<AlgorithmReport>,
    /// Programs checked by calls with small sizes (`check`).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub programs: Vec<ProgramReport>,
    /// What was emitted for a target.
    pub emitted: Option<EmitReport>,
    /// A schedule that another program wrote, and what was found out about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub imported: Option<ImportReport>,
    /// PyTorch programs, one entry a world of ranks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub torch: Vec<TorchReport>,
}

/// An imported schedule.
#[derive(Serialize, Debug)]
pub struct ImportReport {
    /// `msccl`.
    pub format: &'static str,
    /// What it is for, as the file says.
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
    /// What is wrong: `hang`, `postcondition`, `uninitialised`, `race`, `connection`, `sizes`, `leftover`, `other`.
    pub kinds: Vec<&'static str>,
    /// `none`, `at this depth` or `at any depth`.
    pub hang: &'static str,
    /// `holds`, `wrong`, `not reached` or `not checked`.
    pub postcondition: &'static str,
    /// Different reads of memory that holds nothing.
    pub uninitialised: u64,
    /// Different pairs of steps that race.
    pub races: u64,
    /// Message sizes at which it does not hang: `any size`, `up to N B`, `no size`.
    pub hang_free: String,
    /// The largest of them in bytes of the largest user buffer; absent where it is any or none.
    pub hang_free_bytes: Option<u64>,
}

/// A package that was emitted.
#[derive(Serialize, Debug)]
pub struct EmitReport {
    /// The target.
    pub target: String,
    /// The folder.
    pub out: String,
    /// The kernel.
    pub kernel: String,
    /// Files in the folder.
    pub files: Vec<String>,
    /// Rank counts that the kernel serves.
    pub ranks: Vec<u64>,
    /// The parameter that is its element count at run time, if there is one.
    pub count: Option<String>,
    /// The largest element count.
    pub largest_count: Option<u64>,
    /// Barriers of all pipes in the kernel's text.
    pub barriers: u64,
    /// Those of them within a loop over tiles.
    pub barriers_in_tiles: u64,
    /// Pairs of flags between pipes.
    pub flags: u64,
    /// Barriers of memory.
    pub dsb: u64,
}

/// An axis of the mesh.
#[derive(Serialize, Debug)]
pub struct AxisReport {
    /// Name.
    pub name: String,
    /// Ranks along it.
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
    /// A file and key, or a generator.
    pub from: String,
}

/// A collective of the schedule.
#[derive(Serialize, Debug)]
pub struct CollectiveReport {
    /// `all_reduce` and so on.
    pub operation: String,
    /// The combiner.
    pub reduce: Option<String>,
    /// The algorithm with its arguments.
    pub algorithm: String,
    /// The program named it (or `select` chose it).
    pub asked: bool,
    /// The mesh axis.
    pub axis: String,
    /// Ranks of a group.
    pub ranks: u64,
    /// Elements of the line.
    pub elements: u64,
    /// Bytes S of the conventions of busbw: of a rank, of the total output or of the total input.
    pub bytes: u64,
    /// First entry to last exit, nanoseconds.
    pub time_ns: Option<f64>,
    /// Lower bound, nanoseconds.
    pub bound_ns: Option<f64>,
    /// Whether the bound is known to be the best of its kind.
    pub bound_exact: bool,
    /// How its bandwidth row was found, in words.
    pub bound_method: Option<&'static str>,
    /// `100 * bound / time`.
    pub percent: Option<f64>,
    /// What the bound comes from.
    pub bottleneck: Option<String>,
    /// S / time, GB/s.
    pub algbw: Option<f64>,
    /// algbw times the factor of the collective, GB/s.
    pub busbw: Option<f64>,
}

/// What the checker showed.
#[derive(Serialize, Debug)]
pub struct VerifiedReport {
    /// Nothing is wrong.
    pub ok: bool,
    /// What was shown.
    pub shown: String,
    /// How meaning was shown: exact, symmetric, fingerprints.
    pub meaning: String,
    /// The calls that are safe: first, any.
    pub calls: String,
    /// Calls walked to show it.
    pub calls_walked: u64,
    /// Ranks walked.
    pub ranks_walked: u64,
    /// Operations walked.
    pub operations: u64,
    /// Calls until a counter leaves 32 bits.
    pub counter_range: Option<u64>,
}

/// A comparison of every element on every rank.
#[derive(Serialize, Debug)]
pub struct CompareReport {
    /// The result.
    pub result: String,
    /// What it was compared with.
    pub against: String,
    /// Elements compared, over all ranks.
    pub elements: u64,
    /// Those that do not pass.
    pub mismatches: u64,
    /// Those of which the comparison says nothing: no bound is known for them.
    pub unbounded: u64,
    /// Largest `|got - ref| / bound`; absent if infinite.
    pub max_err: Option<f64>,
    /// The element furthest off.
    pub worst: Option<WorstReport>,
    /// Of a stored result: largest `|got - ref|` divided by the sum of the absolute terms; absent if there is no such sum, or infinite.
    pub terms_err: Option<f64>,
    /// Elements that are further off than the outer limit, 2e-5 of that sum.
    pub beyond: u64,
    /// Whose contribution is missing or doubled.
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
    /// The reference, as text (a number may not be finite).
    pub expected: String,
    /// What the rank has.
    pub got: String,
    /// How far off it may be.
    pub bound: f64,
}

/// Runs under the adversaries.
#[derive(Serialize, Debug)]
pub struct AdversarialReport {
    /// Runs made.
    pub runs: u64,
    /// Elements compared.
    pub elements: u64,
    /// The first failure in words.
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
    /// Elements read.
    pub elements: u64,
    /// The first of them, eight at most, as text.
    pub first: Vec<String>,
    /// When it read, in the first call, nanoseconds.
    pub time_ns: Option<f64>,
}

/// A rank that did not come to its end.
#[derive(Serialize, Debug)]
pub struct FailureReport {
    /// The rank.
    pub rank: String,
    /// `root` for a cause, `aborted` for one that only waited.
    pub kind: &'static str,
    /// Code of the message that tells of it.
    pub code: Option<&'static str>,
    /// What it met, or where it waits and for what.
    pub what: String,
    /// Who was to satisfy its wait.
    pub because: Option<String>,
}

/// A share of the critical path.
#[derive(Serialize, Debug)]
pub struct TotalReport {
    /// `latency`, `bytes`, `queueing`, `work`, `fences`, `preload`, `endpoints`, `late starts`, `launch`, `acknowledgements`, `drain`,
    /// `slots` or `credits`.
    pub cause: String,
    /// Sum, nanoseconds.
    pub ns: f64,
    /// Of the whole.
    pub percent: f64,
}

/// A step of the critical path.
#[derive(Serialize, Debug)]
pub struct StepReport {
    /// Number of the part of the chain that it belongs to: a message, a local operation, a fence.
    pub part: u64,
    /// Number of the operation in the schedule.
    pub op: u32,
    /// The operation.
    pub what: String,
    /// Its rank.
    pub place: String,
    /// Its stream.
    pub stream: String,
    /// The rank where the message of the part arrives.
    pub to: Option<String>,
    /// The region.
    pub region: String,
    /// Where it is written.
    pub source: Option<String>,
    /// Begin, nanoseconds.
    pub start_ns: f64,
    /// End, nanoseconds.
    pub end_ns: f64,
    /// `queue`, `latency`, `bytes`, `unit_queue`, `work`, `preload`, `fence`, `endpoint`, `late`, `launch`, `acknowledged`, `drain`,
    /// `inlet`, `slot_write`, `slot_read`, `credit` or `poll`.
    pub kind: &'static str,
    /// What the time went into.
    pub cause: String,
    /// What the part could not begin before.
    pub after: String,
    /// What had the link or unit it waits for, where that was looked for.
    pub behind: Option<String>,
}

/// Use of a link.
#[derive(Serialize, Debug)]
pub struct LinkReport {
    /// Ends, by coordinates.
    pub link: String,
    /// Messages of one call.
    pub messages: u64,
    /// Bytes of one call.
    pub bytes: u64,
    /// How long it carried them, nanoseconds.
    pub busy_ns: f64,
    /// How long messages waited for it, all together, nanoseconds.
    pub queue_ns: f64,
    /// Busy time over total time.
    pub use_percent: f64,
}

/// Use of a memory's controller.
#[derive(Serialize, Debug)]
pub struct MemoryReport {
    /// The memory.
    pub memory: String,
    /// Messages that were read there in one call.
    pub reads: u64,
    /// Messages that were written there.
    pub writes: u64,
    /// Bytes of both.
    pub bytes: u64,
    /// How long its busiest channel was busy, nanoseconds.
    pub busy_ns: f64,
    /// How much longer messages took than alone, all together, nanoseconds.
    pub queue_ns: f64,
}

/// Times of one call on perturbed machines, one a seed, in nanoseconds. The report's own time and percent are those of
/// the machine without perturbation.
#[derive(Serialize, Debug)]
pub struct PerturbReport {
    /// Seed of the first run.
    pub seed: u64,
    /// Runs, with the seeds from there on.
    pub runs: u64,
    /// The shortest.
    pub min_ns: f64,
    /// At least half of the runs take no longer.
    pub median_ns: f64,
    /// At least 95 of 100 runs take no longer.
    pub p95_ns: f64,
    /// The longest.
    pub max_ns: f64,
    /// The seed of the longest run, the first of equal ones.
    pub worst_seed: u64,
    /// Lower bound on the machine of that run.
    pub worst_bound_ns: f64,
    /// Ranks that are perturbed in that run.
    pub ranks: u64,
    /// Links that are perturbed in that run.
    pub links: u64,
    /// What of its critical path is there because of a perturbed rank or link, most first, 8 at most.
    pub blame: Vec<BlameReport>,
}

/// A perturbed rank or link on the critical path.
#[derive(Serialize, Debug)]
pub struct BlameReport {
    /// `rank (3)` or `link (3)->(4)`.
    pub what: String,
    /// Nanoseconds of the path that it adds.
    pub ns: f64,
    /// The same of the whole time.
    pub percent: f64,
}

/// A program that nothing compiles, called with small sizes.
#[derive(Serialize, Debug)]
pub struct ProgramReport {
    /// Its name.
    pub program: String,
    /// The calls that were proven, by their sizes and arguments.
    pub with: Vec<String>,
    /// Why there is none.
    pub not_checked: Option<String>,
}

/// An algorithm checked on shapes.
#[derive(Serialize, Debug)]
pub struct AlgorithmReport {
    /// The collective.
    pub collective: String,
    /// The algorithm.
    pub algorithm: String,
    /// Shapes (with roots) on which it is right.
    pub shapes: u64,
    /// The largest number of ranks among them.
    pub largest: u64,
    /// Other arguments of its documentation with which it is right too.
    pub variants: u64,
    /// Schedules, on small shapes, that were built and proven.
    pub schedules: u64,
    /// Costs of its documentation that are those of its rounds on every shape: `rounds p - 1`.
    pub costs: Vec<String>,
    /// Arguments that were tried and that some shape admits: `k = 1, 2, 4`.
    pub tried: Vec<String>,
    /// Elements of the vectors of the schedules: `1`, `2p`, `2p + 1`.
    pub elements: Vec<String>,
}
