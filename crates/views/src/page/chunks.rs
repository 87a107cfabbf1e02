//! Chunks of a collective as a page shows them: rows of ranks and columns of chunks.
//!
//! The columns are the parts into which the operations of the schedule cut an operand. This module
//! owns the cutting and the contents that the contract requires at the end. [`super::flow`] owns
//! the contents during the run.

use super::flow::{Flow, FollowedCollective, Piece, reduced};
use super::page_events::{Carried, ps};
use kbc_checker::rank_contract;
use kbc_diag::Diagnostic;
use kbc_ir::schedule::{OperandId, Region, RegionId};
use kbc_ir::walk::Program;
use serde::Serialize;
use std::collections::BTreeMap;

/// Largest number of columns of an operand.
const MAX_COLUMNS: usize = 1024;

/// Largest number of places in a matrix of ranks and chunks.
const MAX_CELLS: usize = 400_000;

/// A collective, step by step.
#[derive(Serialize, Default)]
pub struct CollectiveSteps {
    /// Number of its region.
    pub region: u32,
    /// The reason if the collective is not shown; the lists are empty then.
    pub left_out: Option<String>,
    /// The group of each rank and the rank's index in it.
    pub group: Vec<[u64; 2]>,
    /// Number of ranks of a group.
    pub size: u64,
    /// The combiner, such as `sum`, if contributions are combined.
    pub red: Option<String>,
    /// Its buffers.
    pub operands: Vec<OperandChunks>,
    /// Sets of ranks, such as `0-3,6`; `5*2` is a rank that occurs twice.
    pub sets: Vec<String>,
    /// Contents at the start.
    pub start: Cells,
    /// Contents that the contract requires at the end.
    pub due: Cells,
    /// All changes.
    pub changes: Changes,
    /// All messages.
    pub moves: ChunkMoves,
}

/// A buffer of a collective.
#[derive(Serialize)]
pub struct OperandChunks {
    /// Its name in the schedule.
    pub name: String,
    /// Whether it is scratch, which the contract does not cover.
    pub scratch: bool,
    /// Boundaries of the chunks as fractions `num/den` of the whole, including the end of the last
    /// chunk.
    pub cuts: Vec<String>,
    /// Number of elements of each chunk on the first rank; other ranks may have fewer or more.
    pub elements: Vec<u64>,
}

/// Contents of places, as columns.
#[derive(Serialize, Default)]
pub struct Cells {
    /// Rank of each place.
    pub rank: Vec<u64>,
    /// Number of the operand.
    pub operand: Vec<u32>,
    /// Number of the chunk.
    pub column: Vec<usize>,
    /// Operand of the contributions.
    pub of: Vec<u32>,
    /// Chunk of the contributions.
    pub chunk: Vec<usize>,
    /// Number of the set of contributing ranks.
    pub set: Vec<u32>,
}

/// Changes of contents, as columns.
#[derive(Serialize, Default)]
pub struct Changes {
    /// Time in ps.
    pub at: Vec<i64>,
    /// Number of successive messages that led to the change.
    pub step: Vec<u32>,
    /// The places with their new contents.
    pub cells: Cells,
}

/// Messages that carry chunks, as columns.
#[derive(Serialize, Default)]
pub struct ChunkMoves {
    /// Sender.
    pub from: Vec<u64>,
    /// Receiver.
    pub to: Vec<u64>,
    /// Number of the operation.
    pub op: Vec<u32>,
    /// Number of bytes.
    pub bytes: Vec<u64>,
    /// Time of sending, in ps.
    pub sent: Vec<i64>,
    /// Arrival of the last byte, in ps.
    pub arrived: Vec<i64>,
    /// Position of the message in the sequence of messages along the route of its chunk, from 1.
    pub step: Vec<u32>,
    /// Operand of the contributions that it carries.
    pub of: Vec<u32>,
    /// First chunk that it carries.
    pub chunk: Vec<usize>,
    /// Last chunk that it carries.
    pub last: Vec<usize>,
    /// Number of the set of contributing ranks of the first piece.
    pub set: Vec<u32>,
}

impl Cells {
    fn add(&mut self, rank: u64, operand: u32, column: usize, of: (u32, usize), set: u32) {
        self.rank.push(rank);
        self.operand.push(operand);
        self.column.push(column);
        self.of.push(of.0);
        self.chunk.push(of.1);
        self.set.push(set);
    }
}

/// The columns of all operands of a region, on every rank.
struct Grid {
    cuts: Vec<Vec<(u64, u64)>>,
    /// First element of each column, by operand and rank.
    starts: Vec<Vec<Vec<u64>>>,
}

impl Grid {
    fn new(program: &Program<'_>, id: RegionId, found: &FollowedCollective) -> Result<Grid, Diagnostic> {
        let mesh = &program.schedule.mesh;
        let mut grid = Grid { cuts: vec![], starts: vec![] };
        for (o, cuts) in found.cuts.iter().enumerate() {
            let mut cuts: Vec<(u64, u64)> = cuts.iter().copied().collect();
            cuts.sort_by_key(|a| (u128::from(a.0) << 64) / u128::from(a.1.max(1)));
            let at = |rank: u64| -> Result<Vec<u64>, Diagnostic> {
                let edge = |c: &(u64, u64)| {
                    let at = program.chunk_start(id, OperandId(o as u32), rank, c.0 as i64, c.1 as i64);
                    at.map_err(|f| f.diagnostic(|r| mesh.show(r)))
                };
                cuts.iter().map(edge).collect()
            };
            grid.starts.push((0..mesh.ranks()).map(at).collect::<Result<_, _>>()?);
            grid.cuts.push(cuts);
        }
        Ok(grid)
    }

    /// Returns the column of an element.
    fn column(&self, operand: u32, rank: u64, element: u64) -> usize {
        let starts = &self.starts[operand as usize][rank as usize];
        // Empty columns begin where the next one does and contain no element.
        starts.partition_point(|s| *s <= element).saturating_sub(1).min(starts.len().saturating_sub(2))
    }

    /// Returns the columns that begin inside a piece, with their first elements.
    fn columns(&self, operand: u32, rank: u64, piece: &Piece) -> impl Iterator<Item = (usize, u64)> {
        let starts = &self.starts[operand as usize][rank as usize];
        let first = starts.partition_point(|s| *s < piece.start);
        let end = piece.start + piece.len;
        let inside = starts[first..].windows(2).take_while(move |w| w[0] < end);
        inside.enumerate().filter(|(_, w)| w[0] < w[1]).map(move |(i, w)| (first + i, w[0]))
    }
}

/// Formats a sorted list of ranks as runs: `0-2,5*2` for 0, 1, 2, 5 and 5.
pub fn runs(set: &[u32]) -> String {
    let mut out: Vec<String> = vec![];
    let mut once: Vec<(u32, usize)> = vec![];
    for r in set {
        match once.last_mut() {
            Some(last) if last.0 == *r => last.1 += 1,
            _ => once.push((*r, 1)),
        }
    }
    for run in once.chunk_by(|a, b| a.1 == 1 && b.1 == 1 && a.0 + 1 == b.0) {
        out.push(match run {
            [(r, 1)] => r.to_string(),
            [(r, n)] => format!("{r}*{n}"),
            [first, .., last] => format!("{}-{}", first.0, last.0),
            [] => continue,
        });
    }
    out.join(",")
}

/// Numbers of the sets of ranks that a region uses.
struct Sets<'f> {
    all: &'f [Vec<u32>],
    numbers: BTreeMap<String, u32>,
    list: Vec<String>,
}

impl Sets<'_> {
    fn text(&mut self, text: String) -> u32 {
        if let Some(n) = self.numbers.get(&text) {
            return *n;
        }
        let n = self.list.len() as u32;
        self.list.push(text.clone());
        self.numbers.insert(text, n);
        n
    }

    fn of(&mut self, set: u32) -> u32 {
        let text = runs(&self.all[set as usize]);
        self.text(text)
    }
}

/// Returns a collective that is not shown, with the reason.
fn left_out(region: u32, why: String) -> CollectiveSteps {
    CollectiveSteps { region, left_out: Some(why), ..CollectiveSteps::default() }
}

/// Returns all collectives of a run in the form that pages show.
///
/// # Errors
/// Returns the same errors as [`Flow::new`].
pub fn all(flow: &Flow<'_>, carried: &[Carried]) -> Result<Vec<CollectiveSteps>, Diagnostic> {
    let mut out = vec![];
    for (i, found) in flow.regions.iter().enumerate() {
        let Some(found) = found else { continue };
        let id = RegionId(i as u32);
        out.push(match &flow.given_up {
            Some(why) => left_out(id.0, why.clone()),
            None => one(flow, id, found, carried)?,
        });
    }
    Ok(out)
}

fn one(
    flow: &Flow<'_>,
    id: RegionId,
    found: &FollowedCollective,
    carried: &[Carried],
) -> Result<CollectiveSteps, Diagnostic> {
    let program = flow.program();
    let schedule = program.schedule;
    let region: &Region = &schedule.regions[id.0 as usize];
    let ranks = schedule.mesh.ranks();
    if let Some(most) = found.cuts.iter().map(|c| c.len() - 1).find(|n| *n > MAX_COLUMNS) {
        return Ok(left_out(id.0, format!("its buffer has {most} chunks (limit: {MAX_COLUMNS})")));
    }
    let cells = found.cuts.iter().map(|c| c.len() - 1).sum::<usize>() * ranks as usize;
    if cells > MAX_CELLS {
        return Ok(left_out(id.0, format!("ranks times chunks are {cells} places (limit: {MAX_CELLS})")));
    }
    let grid = Grid::new(program, id, found)?;
    let mut sets = Sets { all: flow.sets(), numbers: BTreeMap::new(), list: vec![] };
    let mut out =
        CollectiveSteps { region: id.0, size: schedule.group_size(region), ..CollectiveSteps::default() };
    out.red = region.contract.as_ref().and_then(|p| p.red).map(|r| r.name().to_owned());
    // Groups are identified by their smallest rank.
    out.group = (0..ranks).map(|r| [program.group_rank(id, r, 0), program.group_index(id, r)]).collect();
    for (o, operand) in region.operands.iter().enumerate() {
        let starts = &grid.starts[o][0];
        out.operands.push(OperandChunks {
            name: operand.name.to_string(),
            scratch: operand.scratch,
            cuts: grid.cuts[o].iter().map(|(a, b)| format!("{a}/{b}")).collect(),
            elements: starts.windows(2).map(|w| w[1] - w[0]).collect(),
        });
    }
    // Contributions are located on the first rank that made them: all contributions of a sum begin
    // in the same chunk.
    let from = |p: &Piece, more: u64| {
        let rank = flow.sets()[p.set as usize].first().copied().unwrap_or(0);
        (p.origin.0, grid.column(p.origin.0, rank.into(), p.origin.1 + more))
    };
    for (rank, operand, piece) in &found.start {
        for (column, at) in grid.columns(*operand, *rank, piece) {
            out.start.add(*rank, *operand, column, from(piece, at - piece.start), sets.of(piece.set));
        }
    }
    for c in &found.changes {
        for (column, at) in grid.columns(c.operand, c.rank, &c.piece) {
            out.changes.at.push(ps(c.at_ns));
            out.changes.step.push(c.piece.depth);
            let of = from(&c.piece, at - c.piece.start);
            out.changes.cells.add(c.rank, c.operand, column, of, sets.of(c.piece.set));
        }
    }
    for m in carried.iter().filter(|m| m.region == id) {
        let (Some(first), Some(last)) = (m.pieces.first(), m.pieces.last()) else { continue };
        let of = from(first, 0);
        let end = from(last, last.len - 1);
        let to = &mut out.moves;
        to.from.push(m.from);
        to.to.push(m.to);
        to.op.push(m.op);
        to.bytes.push(m.bytes);
        to.sent.push(ps(m.sent_ns));
        to.arrived.push(ps(m.arrived_ns));
        to.step.push(m.pieces.iter().map(|p| p.depth).max().unwrap_or(1));
        to.of.push(of.0);
        to.chunk.push(of.1);
        to.last.push(if end.0 == of.0 { end.1 } else { of.1 });
        to.set.push(sets.of(first.set));
    }
    required_contents(program, id, region, &grid, &mut sets, &mut out.due)?;
    out.sets = sets.list;
    Ok(out)
}

/// Adds the contents that the contract requires at the end, for every column with elements.
fn required_contents(
    program: &Program<'_>,
    id: RegionId,
    region: &Region,
    grid: &Grid,
    sets: &mut Sets<'_>,
    out: &mut Cells,
) -> Result<(), Diagnostic> {
    let size = program.schedule.group_size(region);
    for rank in 0..program.schedule.mesh.ranks() {
        for d in rank_contract(region, size, program.group_index(id, rank))?.end {
            let mut members: Vec<u32> =
                d.ranks.iter().map(|i| program.group_rank(id, rank, (*i).into()) as u32).collect();
            members.sort_unstable();
            let set = sets.text(runs(&members));
            let of = members.first().copied().unwrap_or(0);
            let at = |operand: u32, rank: u64, part: u64| {
                let (num, den) = reduced(part, size);
                let edge = program.chunk_start(id, OperandId(operand), rank, num as i64, den as i64);
                edge.map_err(|f| f.diagnostic(|r| program.schedule.mesh.show(r)))
            };
            let (lo, hi) =
                (at(d.at.operand, rank, d.at.first)?, at(d.at.operand, rank, d.at.first + d.at.count)?);
            let from = at(d.from.operand, of.into(), d.from.first)?;
            let piece = Piece { start: lo, len: hi - lo, origin: (d.from.operand, from), set: 0, depth: 0 };
            for (column, first) in grid.columns(d.at.operand, rank, &piece) {
                let chunk = grid.column(d.from.operand, of.into(), from + (first - lo));
                out.add(rank, d.at.operand, column, (d.from.operand, chunk), set);
            }
        }
    }
    Ok(())
}
