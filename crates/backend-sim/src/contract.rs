//! Contract evaluation: computes what a schedule should compute, with every region with a contract
//! evaluated from its clauses instead of its operations.
//!
//! Regions run one after another, in the order of the text, each on all ranks. A region with a
//! contract moves nothing: the final contents of its operands follow from the `end` clauses and the
//! initial contents. Places of operands that no clause names hold arbitrary data afterwards. Other
//! regions may compute on their ranks; one that moves data between ranks without a contract has no
//! meaning here.
//!
//! Each element carries a bound on the error of an execution. It is zero where every sum is exact,
//! which the generated inputs ensure. Local work on elements with a nonzero bound is followed only
//! if it merely moves them.
//!
//! The module owns that walk. [`kbc_numerics::compare`] compares with what was executed. The
//! checker, which needs no data, shares nothing with this module.

use crate::effect::{Effect, Run, mem_dtype};
use crate::host::Host;
use crate::interp::{MAX_BYTES, zeros};
use crate::store::{Cells, Ranges};
use kbc_ir::contract::Contract;
use kbc_ir::contract_terms::{Term, terms};
use kbc_ir::host::with_host_region;
use kbc_ir::schedule::{BufferId, BufferRole, LocalKind, OperandId, RegionId, Schedule};
use kbc_ir::types::{DType, ReduceOp};
use kbc_ir::walk::{Act, Cursor, Mem, Program, Step};
use kbc_numerics::numbers;
use kbc_numerics::shard::Part;
use kbc_numerics::tensor::{Data, Tensor};
use kbc_reference::{Item, Precision, combined};
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Results according to the contracts, by call, rank and result.
#[derive(Clone, Debug, Default)]
pub struct ContractResults {
    /// The elements.
    pub outputs: Vec<Vec<Vec<Part>>>,
    /// Error bound of each element; infinite if nothing is known of it.
    pub off: Vec<Vec<Vec<Vec<f64>>>>,
}

/// Maximum number of contributions that a contract may name to be evaluated, which is the square of
/// the number of ranks of a group.
const MAX_TERMS: u64 = 1 << 26;

/// Returns the results that the contracts of a schedule require for inputs as for
/// [`crate::interp::run`].
///
/// # Errors
/// Returns the reason, in words, if there are none.
pub fn contract_results(
    schedule: &Schedule,
    inputs: &[Vec<Tensor>],
    calls: u32,
) -> Result<ContractResults, String> {
    if schedule.host.is_some() {
        return Err("it has a host section".into());
    }
    let spelled = with_host_region(schedule);
    let program = Program::compile(&spelled).map_err(|d| d.title)?;
    let first = |d: kbc_diag::Diagnostics| d.list.into_iter().next().map_or(String::new(), |d| d.title);
    let host = Host::new(&program, inputs).map_err(first)?;
    let ranks = program.ranks();
    let mut walk = Walk {
        program: &program,
        host,
        ranks: (0..ranks).map(|_| BTreeMap::new()).collect(),
        cursors: vec![],
        at: vec![],
        recorded: BTreeSet::new(),
    };
    let mut out = ContractResults::default();
    for call in 0..i64::from(calls) {
        walk.begin(call)?;
        for region in 0..program.schedule.regions.len() {
            let id = RegionId(region as u32);
            match &program.schedule.regions[region].contract {
                Some(contract) => walk.contract(id, contract)?,
                None => walk.local(id)?,
            }
        }
        let (mut parts, mut off) = (vec![], vec![]);
        for rank in 0..ranks {
            let (p, o) = walk.results(rank)?;
            parts.push(p);
            off.push(o);
        }
        out.outputs.push(parts);
        out.off.push(off);
    }
    Ok(out)
}

/// A memory of a rank with the error bounds of its elements. Elements beyond the end of the list
/// have the bound 0.
struct BoundedMemory {
    cells: Cells,
    off: Vec<f64>,
}

/// Elements with their error bounds.
#[derive(Clone)]
struct BoundedElements {
    data: Data,
    off: Vec<f64>,
}

impl BoundedElements {
    fn exact(data: Data) -> BoundedElements {
        BoundedElements { off: vec![0.0; data.len()], data }
    }

    fn is_exact(&self) -> bool {
        self.off.iter().all(|o| *o == 0.0)
    }
}

struct Walk<'p> {
    program: &'p Program<'p>,
    host: Host<'p>,
    ranks: Vec<BTreeMap<Mem, BoundedMemory>>,
    /// One for each stream of each rank, in the current call.
    cursors: Vec<Cursor<'p>>,
    /// The region that each of them has entered but not begun.
    at: Vec<Option<RegionId>>,
    /// Recorded events by rank, in the current call.
    recorded: BTreeSet<(u64, u32)>,
}

impl<'p> Walk<'p> {
    fn schedule(&self) -> &'p Schedule {
        self.program.schedule
    }

    /// Begins a call: the host fills inputs, and other buffers hold nothing.
    fn begin(&mut self, call: i64) -> Result<(), String> {
        let streams = self.program.streams.len() as u32;
        let ranks = self.program.ranks();
        let all = (0..ranks).flat_map(|r| (0..streams).map(move |s| (r, s)));
        self.cursors = all.map(|(r, s)| Cursor::new(self.program, r, s, call)).collect();
        self.at = vec![None; self.cursors.len()];
        self.recorded.clear();
        for rank in 0..ranks {
            for (i, b) in self.schedule().buffers.iter().enumerate() {
                let (id, mem) = (BufferId(i as u32), Mem::Buffer(i as u32));
                let data = match b.role {
                    BufferRole::Input(n) => Some(self.host.fill(id, n, rank, call)),
                    BufferRole::Output(_) | BufferRole::Temp if b.zero => {
                        Some(self.host.zeros(id, rank, MAX_BYTES))
                    }
                    BufferRole::Output(_) | BufferRole::Temp => None,
                };
                match data {
                    Some(data) => {
                        self.write(rank, mem, 0, &BoundedElements::exact(data.map_err(|d| d.title)?))
                    }
                    None => {
                        if let Some(held) = self.ranks[rank as usize].get_mut(&mem) {
                            held.cells.keep_only(Ranges::default());
                        }
                    }
                }
            }
        }
        Ok(())
    }

    fn read(&self, rank: u64, run: Run) -> Result<BoundedElements, String> {
        let n = run.len as usize;
        let Some(held) = self.ranks[rank as usize].get(&run.mem) else {
            if n == 0 || zeros(self.schedule(), run.mem).is_some() {
                return Ok(BoundedElements::exact(Data::zeros(mem_dtype(self.schedule(), run.mem), n)));
            }
            return Err(self.nothing(rank, run.mem));
        };
        let data = held.cells.read(run.start, run.len).map_err(|_| self.nothing(rank, run.mem))?;
        let from = run.start as usize;
        let off = (from..from + n).map(|i| held.off.get(i).copied().unwrap_or(0.0)).collect();
        Ok(BoundedElements { data, off })
    }

    fn nothing(&self, rank: u64, mem: Mem) -> String {
        let name = crate::effect::mem_name(self.schedule(), mem);
        format!("{name} is read on {}, where it is empty", self.schedule().mesh.show(rank))
    }

    fn write(&mut self, rank: u64, mem: Mem, start: u64, values: &BoundedElements) {
        if values.data.is_empty() {
            return;
        }
        let (dtype, zeros) = (mem_dtype(self.schedule(), mem), zeros(self.schedule(), mem));
        let held = self.ranks[rank as usize]
            .entry(mem)
            .or_insert_with(|| BoundedMemory { cells: Cells::blank(dtype, zeros), off: vec![] });
        let written = held.cells.write(start, &values.data);
        debug_assert!(written, "types were compared before");
        let (from, to) = (start as usize, start as usize + values.off.len());
        if held.off.len() < to && !values.is_exact() {
            held.off.resize(to, 0.0);
        }
        let end = to.min(held.off.len());
        if from < end {
            held.off[from..end].copy_from_slice(&values.off[..end - from]);
        }
    }

    /// Returns the region that a stream enters next.
    fn enters(&mut self, stream: usize) -> Result<Option<RegionId>, String> {
        if self.at[stream].is_none()
            && let Some(Step::Enter(r)) = self.cursors[stream].next_step().map_err(|f| f.text)?
        {
            self.at[stream] = Some(r);
        }
        Ok(self.at[stream])
    }

    /// Returns the streams of all ranks that have a body in a region, which they begin now.
    fn inside(&mut self, region: RegionId) -> Result<Vec<usize>, String> {
        let mut out = vec![];
        for stream in 0..self.cursors.len() {
            if self.enters(stream)? == Some(region) {
                self.at[stream] = None;
                out.push(stream);
            }
        }
        Ok(out)
    }

    /// Executes a region without a contract, on each rank alone.
    fn local(&mut self, region: RegionId) -> Result<(), String> {
        let mut open: Vec<(usize, Option<u32>)> =
            self.inside(region)?.into_iter().map(|s| (s, None)).collect();
        let streams = self.program.streams.len();
        while !open.is_empty() {
            let before = (open.len(), self.recorded.len());
            let mut rest = vec![];
            for (stream, waits) in open {
                let rank = (stream / streams) as u64;
                if waits.is_some_and(|e| !self.recorded.contains(&(rank, e))) {
                    rest.push((stream, waits));
                    continue;
                }
                if let Some(event) = self.run(region, stream, rank)? {
                    rest.push((stream, Some(event)));
                }
            }
            open = rest;
            if before == (open.len(), self.recorded.len()) {
                let name = &self.schedule().regions[region.0 as usize].name;
                return Err(format!("a stream of region {name} waits for a later region"));
            }
        }
        Ok(())
    }

    /// Runs a stream to the end of the region, or up to an event that is not recorded.
    fn run(&mut self, region: RegionId, stream: usize, rank: u64) -> Result<Option<u32>, String> {
        loop {
            let (act, span) = match self.cursors[stream].next_step().map_err(|f| f.text)? {
                Some(Step::Act(act, span, _)) => (act, span),
                Some(Step::Enter(_)) => continue,
                Some(Step::Leave(_)) | None => return Ok(None),
            };
            match &act {
                Act::Copy { .. } | Act::Reduce { .. } | Act::Local(_) => {
                    let effect = Effect::of(self.program, rank, &act, span).map_err(|d| d.title)?;
                    if let Some(effect) = effect {
                        let read = effect.reads.iter().map(|r| self.read(rank, *r));
                        let read = read.collect::<Result<Vec<_>, _>>()?;
                        let out = computed(&effect, &act, read)?;
                        self.write(rank, effect.write.mem, effect.write.start, &out);
                    }
                }
                Act::Record(event) => {
                    self.recorded.insert((rank, *event));
                }
                Act::Await(event) if !self.recorded.contains(&(rank, *event)) => return Ok(Some(*event)),
                act if act.transfers() => {
                    let name = &self.schedule().regions[region.0 as usize].name;
                    return Err(format!("region {name} moves data between ranks and has no contract"));
                }
                // Operations that only order others do not affect what is computed.
                _ => {}
            }
        }
    }

    /// Evaluates a region with a contract: its clauses replace its operations.
    fn contract(&mut self, region: RegionId, contract: &Contract) -> Result<(), String> {
        let streams = self.program.streams.len();
        let mut awaited = vec![];
        for stream in self.inside(region)? {
            let rank = (stream / streams) as u64;
            loop {
                match self.cursors[stream].next_step().map_err(|f| f.text)? {
                    Some(Step::Leave(_)) | None => break,
                    Some(Step::Act(Act::Record(event), ..)) => {
                        self.recorded.insert((rank, event));
                    }
                    Some(Step::Act(Act::Await(event), ..)) => awaited.push((rank, event)),
                    Some(Step::Enter(_) | Step::Act(..)) => {}
                }
            }
        }
        let r = &self.schedule().regions[region.0 as usize];
        if awaited.iter().any(|e| !self.recorded.contains(e)) {
            return Err(format!("a stream of region {} waits for a later region", r.name));
        }
        let size = self.schedule().group_size(r);
        if size.saturating_mul(size) > MAX_TERMS {
            return Err(format!(
                "the groups of region {} have {size} ranks, which is too many to evaluate",
                r.name
            ));
        }
        let mut operands = vec![];
        for b in &contract.buffers {
            let at = r.operands.iter().position(|o| o.name == b.name);
            operands.push(at.ok_or_else(|| format!("region {} has no operand {}", r.name, b.name))?);
        }
        let each = (0..size).map(|rank| terms(contract, size, rank)).collect::<Result<Vec<_>, _>>()?;
        for first in 0..self.program.ranks() {
            if self.program.group_index(region, first) == 0 {
                let members: Vec<u64> =
                    (0..size).map(|i| self.program.group_rank(region, first, i)).collect();
                self.group(region, contract, (&operands, &members), &each)?;
            }
        }
        Ok(())
    }

    /// Evaluates the contract on one group. `operands` are by position of the contract's buffers.
    fn group(
        &mut self,
        region: RegionId,
        contract: &Contract,
        (operands, members): (&[usize], &[u64]),
        each: &[Vec<Term>],
    ) -> Result<(), String> {
        let mut known: HashMap<Sources<'_>, BoundedElements> = HashMap::new();
        let mut writes = vec![];
        for (rank, list) in members.iter().zip(each) {
            for t in list {
                let key = (t.source, t.reduces, &t.from[..]);
                if let Entry::Vacant(new) = known.entry(key) {
                    let mut sources = vec![];
                    for (q, block) in &t.from {
                        let run =
                            self.block(region, contract, (operands, t.source), members[*q as usize], {
                                (*block, members.len() as u64)
                            })?;
                        sources.push(self.read(members[*q as usize], run)?);
                    }
                    new.insert(together(contract, t.reduces, sources)?);
                }
                writes.push((*rank, t, key));
            }
        }
        // Elements that no clause names may hold anything afterwards.
        let r = &self.schedule().regions[region.0 as usize];
        for rank in members {
            for o in &r.operands {
                self.anything(*rank, o.buffer)?;
            }
        }
        for (rank, t, key) in writes {
            let run =
                self.block(region, contract, (operands, t.to), rank, (t.block, members.len() as u64))?;
            let Some(values) = known.get(&key) else { continue };
            if values.data.len() as u64 != run.len {
                return Err(format!("the contract of region {} equates blocks of different lengths", r.name));
            }
            self.write(rank, run.mem, run.start, values);
        }
        Ok(())
    }

    /// Returns the elements of a block of one of the contract's buffers.
    fn block(
        &self,
        region: RegionId,
        contract: &Contract,
        (operands, buffer): (&[usize], usize),
        rank: u64,
        (block, of): (u64, u64),
    ) -> Result<Run, String> {
        let (num, den) = if contract.buffers[buffer].blocks { (block as i64, of as i64) } else { (0, 1) };
        let operand = OperandId(operands[buffer] as u32);
        let edge = |n| self.program.chunk_start(region, operand, rank, n, den).map_err(|f| f.text);
        let (start, end) = (edge(num)?, edge(num + 1)?);
        let id = self.schedule().regions[region.0 as usize].operands[operands[buffer]].buffer;
        Ok(Run { mem: Mem::Buffer(id.0), start, len: end.saturating_sub(start) })
    }

    /// Marks all elements of a buffer as written with unknown values.
    fn anything(&mut self, rank: u64, buffer: BufferId) -> Result<(), String> {
        let n = self.program.elements(buffer, rank).map_err(|f| f.text)? as usize;
        let dtype = self.schedule().buffer(buffer).dtype;
        let values = BoundedElements { data: Data::zeros(dtype, n), off: vec![f64::INFINITY; n] };
        self.write(rank, Mem::Buffer(buffer.0), 0, &values);
        Ok(())
    }

    fn results(&self, rank: u64) -> Result<(Vec<Part>, Vec<Vec<f64>>), String> {
        let (mut parts, mut off) = (vec![], vec![]);
        for (b, bounds, n) in self.host.results(rank).map_err(|d| d.title)? {
            let values = self.read(rank, Run { mem: Mem::Buffer(b.0), start: 0, len: n })?;
            parts.push(self.host.part(b, bounds, values.data).map_err(|d| d.title)?);
            off.push(values.off);
        }
        Ok((parts, off))
    }
}

/// Returns the result of a local operation on elements that may have errors.
fn computed(
    effect: &Effect<'_>,
    act: &Act<'_>,
    read: Vec<BoundedElements>,
) -> Result<BoundedElements, String> {
    let exact = read.iter().all(BoundedElements::is_exact);
    let moves = moves(act);
    let (data, off): (Vec<Data>, Vec<Vec<f64>>) = read.into_iter().map(|v| (v.data, v.off)).unzip();
    let float = data.iter().all(|d| d.dtype() == DType::F32);
    let out = effect.compute(data).map_err(|d| d.title)?;
    let n = out.len();
    if exact {
        return Ok(BoundedElements::exact(out));
    }
    let unknown = vec![f64::INFINITY; n];
    if !moves || !float {
        return Ok(BoundedElements { data: out, off: unknown });
    }
    // The bounds are moved like the elements; as f32 they must not become smaller.
    let up = |o: &f64| if *o == 0.0 { 0.0 } else { (*o as f32).next_up() };
    let off = off.iter().map(|list| Data::F32(list.iter().map(up).collect())).collect();
    let off = effect.compute(off).map_err(|d| d.title)?.to_f64();
    Ok(BoundedElements { data: out, off })
}

/// Whether an operation only moves elements.
fn moves(act: &Act<'_>) -> bool {
    match act {
        Act::Copy { .. } => true,
        Act::Local(op) => op.kind() == LocalKind::Moves,
        Act::Reduce { .. }
        | Act::Put { .. }
        | Act::Get { .. }
        | Act::GetCombine { .. }
        | Act::Send { .. }
        | Act::Recv { .. }
        | Act::Room { .. }
        | Act::Notify { .. }
        | Act::Wait { .. }
        | Act::FenceRelease
        | Act::FenceAcquire
        | Act::FenceComplete
        | Act::Record(_)
        | Act::Await(_)
        | Act::Mark(_)
        | Act::HostRead(_)
        | Act::Host(_) => false,
    }
}

/// The operands of an `end` clause: the buffer, whether it is summed, and (rank, block) of each
/// source.
type Sources<'a> = (usize, bool, &'a [(u64, u64)]);

/// Combines elements as a contract states.
fn together(
    contract: &Contract,
    reduces: bool,
    sources: Vec<BoundedElements>,
) -> Result<BoundedElements, String> {
    if !reduces {
        return sources
            .into_iter()
            .next_back()
            .ok_or_else(|| "a contract has a clause without a source".into());
    }
    let red = contract.red.ok_or("a contract has a sum but no reduction")?;
    let Some((first, rest)) = sources.split_first() else {
        return Err("a contract has an empty sum".into());
    };
    if rest.iter().any(|s| s.data.len() != first.data.len()) {
        return Err("a contract equates blocks of different lengths".into());
    }
    let mut data = first.data.clone();
    for s in rest {
        numbers::combine(red, &mut data, &s.data).map_err(|r| r.text)?;
    }
    let off = match Precision::of(data.dtype()) {
        Some(stored) => bounds(&stored, red, &sources),
        None => (0..data.len())
            .map(|i| if sources.iter().all(|s| s.off[i] == 0.0) { 0.0 } else { f64::INFINITY })
            .collect(),
    };
    Ok(BoundedElements { data, off })
}

/// Returns bounds on the distance between two sums of the same elements in any two orders.
fn bounds(stored: &Precision, red: ReduceOp, sources: &[BoundedElements]) -> Vec<f64> {
    let values: Vec<Vec<f64>> = sources.iter().map(|s| s.data.to_f64()).collect();
    let n = values.first().map_or(0, Vec::len);
    let mut items: Vec<Item> = vec![];
    (0..n)
        .map(|i| {
            items.clear();
            items.extend(values.iter().zip(sources).map(|(v, s)| (v[i], s.off[i], v[i].abs())));
            // The executed sum and the reference sum may each be off by this bound.
            2.0 * combined(stored, red, &items).1
        })
        .collect()
}
