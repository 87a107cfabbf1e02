//! Table of all operations: name, text, effects and meaning of each.
//!
//! The parsers take the names of operations from this table for their diagnostics, and the tables
//! of `docs/reference/ir.md` are generated from it. The exact meaning of an operation is documented
//! at its definition ([`crate::graph`], [`crate::schedule`]).

/// Level of the IR.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Level {
    /// Operations on global tensors.
    Graph,
    /// Operations of one rank.
    Schedule,
}

/// An operation of the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OpRow {
    /// First word of its line (in a graph, the first word after `%name =`).
    pub name: &'static str,
    /// Level at which it occurs.
    pub level: Level,
    /// Group: `data`, `place`, `windows`, `queues`, `order`, `host`, `messages`, `local` or
    /// `control`.
    pub group: &'static str,
    /// Form of its operands in the text.
    pub operands: &'static str,
    /// Effects: what it reads, writes and waits for.
    pub effects: &'static str,
    /// Meaning, in one line.
    pub meaning: &'static str,
}

const fn row(
    level: Level,
    group: &'static str,
    name: &'static str,
    operands: &'static str,
    effects: &'static str,
    meaning: &'static str,
) -> OpRow {
    OpRow { name, level, group, operands, effects, meaning }
}

use Level::{Graph, Schedule};

/// All operations, by level and group.
pub const OPERATIONS: [OpRow; 73] = [
    row(Graph, "data", "input", "`@x`", "none", "an input of the program"),
    row(
        Graph,
        "data",
        "matmul",
        "`%a, %b [accumulate f32]`",
        "none",
        "`[.., M, K] x [.., K, N]`, accumulated in f32 (i32), rounded once",
    ),
    row(
        Graph,
        "data",
        "map",
        "`kernel(%a, ..)`",
        "none",
        "an elementwise function, operands broadcast from the right",
    ),
    row(
        Graph,
        "data",
        "reduce_dim",
        "`sum %a dim D [mean] [keep]`",
        "none",
        "one dimension reduced; a mean divides once at the end",
    ),
    row(
        Graph,
        "data",
        "embedding",
        "`%table, %ids`",
        "none",
        "rows of a table by their numbers (i32, i64); where the rows are split, the result is partial(sum)",
    ),
    row(
        Graph,
        "data",
        "grouped",
        "`%x, %w runs [[0, 3], [1, 2]]`",
        "none",
        "rows `[T, D]`, each with its matrix of `[G, D, F]`: 3 rows with matrix 0, then 2 with matrix 1",
    ),
    row(
        Graph,
        "data",
        "tiles",
        "`kernel(%a, ..)`",
        "none",
        "a loop nest over tiles of the operands: `tiles @kernel` among the kernels of the module",
    ),
    row(
        Graph,
        "data",
        "fill",
        "`i32[4, 6] index dim D`, `f32[4] number 0.5`",
        "none",
        "elements that depend only on their position: the index along D, or one number; in any placement without communication",
    ),
    row(
        Graph,
        "data",
        "cast",
        "`f16 %a`",
        "none",
        "conversion to another element type, rounded to nearest even",
    ),
    row(
        Graph,
        "data",
        "transpose",
        "`%a perm [1, 0]`",
        "none",
        "dimension i of the result is the dimension of the operand that the list names at position i",
    ),
    row(Graph, "data", "reshape", "`%a to [6, 4]`", "none", "the same elements, row-major, in another shape"),
    row(Graph, "data", "slice", "`%a dim D from I to J`", "none", "elements I..J of a dimension"),
    row(
        Graph,
        "data",
        "entry",
        "`%a at I`",
        "none",
        "entry I of the first dimension, which the result does not have; the dimension must be whole",
    ),
    row(
        Graph,
        "data",
        "pad",
        "`%a dim D before N after M number 0.5`",
        "none",
        "the operand with N elements before it and M after it along a dimension, all equal to the number",
    ),
    row(
        Graph,
        "data",
        "concat",
        "`%a, %b, .. dim D`",
        "none",
        "the operands one after another along a dimension",
    ),
    row(Graph, "data", "output", "`N %a`", "none", "result number N of the program"),
    row(
        Graph,
        "place",
        "demand",
        "`%a want TYPE`",
        "none",
        "the same value in the placement that the program demands; `place` resolves it",
    ),
    row(
        Graph,
        "place",
        "ask",
        "`%a open [D, ..] want TYPE`",
        "none",
        "a demand of a called program on all dimensions except these; `infer` replaces it by a `demand`",
    ),
    row(Graph, "place", "all_reduce", "`sum %a over AXIS`", "communicates", "partial to replicated"),
    row(Graph, "place", "reduce_scatter", "`sum %a over AXIS dim D`", "communicates", "partial to split"),
    row(Graph, "place", "all_gather", "`%a over AXIS dim D`", "communicates", "split to replicated"),
    row(
        Graph,
        "place",
        "all_to_all",
        "`%a over AXIS dim D from E`",
        "communicates",
        "split along E to split along D",
    ),
    row(Graph, "place", "broadcast", "`%a over AXIS root C`", "communicates", "held by one to replicated"),
    row(Graph, "place", "reduce", "`sum %a over AXIS root C`", "communicates", "partial to held by one"),
    row(Graph, "place", "gather", "`%a over AXIS dim D root C`", "communicates", "split to held by one"),
    row(Graph, "place", "scatter", "`%a over AXIS dim D root C`", "communicates", "held by one to split"),
    row(
        Graph,
        "place",
        "keep_part",
        "`%a over AXIS dim D`",
        "none",
        "replicated to split: every rank keeps its part",
    ),
    row(
        Graph,
        "place",
        "barrier",
        "`%a over AXIS`",
        "communicates",
        "no rank proceeds before all ranks have %a",
    ),
    row(
        Graph,
        "place",
        "wait.result",
        "`%a`",
        "none",
        "in a local program: the result of a collective, as soon as it is complete",
    ),
    row(
        Graph,
        "place",
        "own",
        "`NAME [sum] %a over AXIS dim D [root C]`",
        "communicates",
        "parts of D to parts of D as the contract below states; `NAME [1, 0, ..]` lists whose part each rank receives",
    ),
    row(
        Graph,
        "host",
        "host.read",
        "`%a`",
        "the host waits for the region that computes %a, and reads %a",
        "the value itself",
    ),
    row(
        Graph,
        "host",
        "host.wait",
        "`%a`",
        "the host waits for the region that computes %a",
        "the value itself",
    ),
    row(
        Graph,
        "host",
        "host.write",
        "`%old, %a`",
        "the host waits for the regions that use %old or compute %a, and copies",
        "%a, in the buffer of %old",
    ),
    row(Graph, "host", "host.drain", "`%a`", "the host waits for everything before it", "the value itself"),
    row(
        Schedule,
        "control",
        "for",
        "`STEP in FROM..END`",
        "none",
        "executes the nested lines for each step; the bounds are the same on every rank",
    ),
    row(
        Schedule,
        "control",
        "if",
        "`COND`, and `else`",
        "none",
        "executes the nested lines where COND is not 0",
    ),
    row(
        Schedule,
        "data",
        "copy",
        "`DST = SRC`",
        "reads SRC, writes DST",
        "chunks and slots of this rank, or whole buffers (`%dst = %src`)",
    ),
    row(
        Schedule,
        "data",
        "combine",
        "`sum DST, SRC`",
        "reads SRC and DST, writes DST",
        "`DST[i] = DST[i] + SRC[i]`, own value first",
    ),
    row(
        Schedule,
        "windows",
        "put",
        "`SRC -> (PEER) : DST`",
        "reads SRC, writes DST at the peer, both until `fence.release`",
        "asynchronous, one-sided",
    ),
    row(
        Schedule,
        "windows",
        "get",
        "`DST <- (PEER) : SRC`",
        "reads SRC at the peer, writes DST, both until `fence.complete`",
        "asynchronous, one-sided",
    ),
    row(
        Schedule,
        "windows",
        "get.combine",
        "`sum DST <- (PEER) : SRC`",
        "completes this stream's gets so far; reads SRC at the peer, reads and writes DST, until `fence.complete` or the next `get.combine`",
        "`DST[i] = DST[i] + SRC[i]`; switches that reduce may add several into one message",
    ),
    row(
        Schedule,
        "queues",
        "send",
        "`SRC -> (PEER) : @queue[INDEX]`",
        "blocks on a full queue, reads SRC",
        "the next message of the queue to PEER",
    ),
    row(
        Schedule,
        "queues",
        "recv",
        "`DST <- (PEER) : @queue[INDEX]`",
        "blocks on an empty queue, writes DST",
        "the oldest message of the queue from PEER, whose slot becomes free",
    ),
    row(
        Schedule,
        "queues",
        "room",
        "`(PEER) : @queue[INDEX]`",
        "blocks on a full queue",
        "waits until the queue to PEER has a free slot, which the next `send` to PEER uses",
    ),
    row(
        Schedule,
        "order",
        "notify",
        "`(PEER) : @signal[INDEX]`",
        "adds to a counter of the peer",
        "publishes what this stream completed before its last `fence.release`",
    ),
    row(
        Schedule,
        "order",
        "wait",
        "`@signal[INDEX] >= VALUE`; `& 1 ==`, `-=` for other forms",
        "blocks on a counter of this rank",
        "waits until the counter reaches VALUE, counted from allocation; or until its lowest bit is VALUE; or until it reaches VALUE, which is then subtracted",
    ),
    row(
        Schedule,
        "order",
        "fence.release",
        "",
        "completes this stream's puts and reads",
        "what a later `notify` publishes",
    ),
    row(
        Schedule,
        "order",
        "fence.acquire",
        "",
        "makes awaited data visible to this stream",
        "after the `wait` on the writer's own notify",
    ),
    row(
        Schedule,
        "order",
        "fence.complete",
        "",
        "completes this stream's gets",
        "before their results are read",
    ),
    row(Schedule, "order", "record", "`EVENT`", "none", "an event of this rank, once per call"),
    row(
        Schedule,
        "order",
        "await",
        "`EVENT`",
        "blocks on another stream of this rank",
        "waits for this call's `record`; local memory needs no fence",
    ),
    row(
        Schedule,
        "host",
        "host.launch",
        "`@region`",
        "lets this rank's streams enter the region, once per call",
        "asynchronous; the region's name is the handle",
    ),
    row(
        Schedule,
        "host",
        "host.wait",
        "`@region`",
        "blocks the host on this rank's streams",
        "waits until they have left the region",
    ),
    row(
        Schedule,
        "host",
        "host.read",
        "`%buffer`",
        "blocks the host on this rank's streams, reads %buffer",
        "waits until the regions launched before that write %buffer have ended on this rank, and reads its elements; waits for nothing else",
    ),
    row(
        Schedule,
        "host",
        "host.write",
        "`%dst = %src`",
        "blocks the host on this rank's streams, reads %src, writes %dst",
        "waits until the regions launched before that read or write %dst or write %src have ended on this rank, and copies %src to %dst",
    ),
    row(
        Schedule,
        "host",
        "host.drain",
        "",
        "blocks the host on this rank's streams",
        "`host.wait` for every launched region",
    ),
    row(
        Schedule,
        "messages",
        "reserve",
        "`(RECEIVER) : @window[NUMBER]`",
        "a mark at the sender",
        "the slot may be written; `synchronize` replaces it by a credit, or by nothing",
    ),
    row(
        Schedule,
        "messages",
        "publish",
        "`(RECEIVER) : @window[NUMBER]`",
        "a mark at the sender",
        "the data may be read; `synchronize` replaces it by a release and a notify",
    ),
    row(
        Schedule,
        "messages",
        "accept",
        "`(SENDER) : @window[NUMBER]`",
        "a mark at the receiver",
        "the data has arrived; `synchronize` replaces it by a wait and an acquire",
    ),
    row(
        Schedule,
        "messages",
        "free",
        "`(SENDER) : @window[NUMBER]`",
        "a mark at the receiver",
        "the slot may be written again; `synchronize` replaces it by a credit, or by nothing",
    ),
    row(
        Schedule,
        "messages",
        "settle",
        "`(RECEIVER) : @window[NUMBER]`",
        "a mark at the sender",
        "the receiver has freed the slot in this call; `synchronize` replaces it by a wait for that credit",
    ),
    row(
        Schedule,
        "local",
        "map",
        "`%dst = kernel(%a, ..)`",
        "reads %a, .., writes %dst",
        "an elementwise function, operands broadcast from the right",
    ),
    row(
        Schedule,
        "local",
        "matmul",
        "`%dst = %a, %b`",
        "reads %a and %b, writes %dst",
        "accumulated in f32 (i32), rounded once to the type of %dst",
    ),
    row(
        Schedule,
        "local",
        "reduce_dim",
        "`%dst = sum %src dim D [mean N]`",
        "reads %src, writes %dst",
        "one dimension in index order, divided by N at the end",
    ),
    row(
        Schedule,
        "local",
        "cast",
        "`%dst = %src`",
        "reads %src, writes %dst",
        "conversion to another element type, rounded to nearest even",
    ),
    row(
        Schedule,
        "local",
        "pack",
        "`%dst = %src dim D parts K [ceil, lengths [..]] [at E]`",
        "reads %src, writes %dst (or block E of it)",
        "tensor to line: the parts along D one after another",
    ),
    row(
        Schedule,
        "local",
        "unpack",
        "`%dst = %src dim D parts K [ceil, lengths [..]] [at E]`",
        "reads %src (or block E of it), writes %dst",
        "line to tensor, the inverse of `pack`",
    ),
    row(
        Schedule,
        "local",
        "transpose",
        "`%dst = %src perm [1, 0]`",
        "reads %src, writes %dst",
        "dimension i of %dst is %src's dimension number i of the list",
    ),
    row(
        Schedule,
        "local",
        "embedding",
        "`%dst = %table, %ids from E`",
        "reads %table and %ids, writes %dst",
        "row `id - E` of %table for each id; zeros where that row does not exist",
    ),
    row(
        Schedule,
        "local",
        "grouped",
        "`%dst = %x, %w runs [[0, 3], [1, 2]] places [[0, 0], [3, 1]] at E`",
        "reads %x and %w, writes %dst",
        "rows times their matrices; %x begins at the row of place E, %w at its matrix",
    ),
    row(
        Schedule,
        "local",
        "tiles",
        "`%dst = kernel(%a, ..)`",
        "reads %a, .., writes %dst",
        "a loop nest over tiles of the rank's parts of the operands",
    ),
    row(
        Schedule,
        "local",
        "fill",
        "`%dst = index dim D from E`, `%dst = number 0.5`",
        "writes %dst",
        "the index along D, which is E for the first element on this rank; or one number",
    ),
    row(
        Schedule,
        "local",
        "keep_part",
        "`%dst = %src dim D part E of K [ceil, lengths [..]]`",
        "reads %src, writes %dst",
        "part E of K along D; %dst may lack dimension D if the part has one element",
    ),
];

/// Returns the name of an operation from its row. In a `const` block, a missing row is an error of
/// compilation.
///
/// # Panics
/// Panics if the level has no such row.
pub const fn word(level: Level, name: &str) -> &'static str {
    let mut i = 0;
    while i < OPERATIONS.len() {
        let row = OPERATIONS[i];
        if row.level as u8 == level as u8 && same(row.name.as_bytes(), name.as_bytes()) {
            return row.name;
        }
        i += 1;
    }
    panic!("the table of operations has no row of that name")
}

const fn same(a: &[u8], b: &[u8]) -> bool {
    let mut i = 0;
    while i < a.len() && i < b.len() && a[i] == b[i] {
        i += 1;
    }
    i == a.len() && i == b.len()
}

/// Returns the names of the operations of a level.
pub fn names(level: Level) -> impl Iterator<Item = &'static str> {
    OPERATIONS.into_iter().filter(move |r| r.level == level).map(|r| r.name)
}

/// Returns the operations of a level as a Markdown table.
pub fn markdown(level: Level) -> String {
    let mut out =
        String::from("| group | operation | operands | effects | meaning |\n|---|---|---|---|---|\n");
    let mut group = "";
    for r in OPERATIONS.iter().filter(|r| r.level == level) {
        let first = if r.group == group { "" } else { r.group };
        group = r.group;
        out += &format!("| {first} | `{}` | {} | {} | {} |\n", r.name, r.operands, r.effects, r.meaning);
    }
    out
}
