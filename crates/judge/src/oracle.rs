//! Oracle: the results that a schedule must give according to its own text, with local operations
//! as they stand and regions replaced by their contracts.
//!
//! The module owns the evaluation of contracts on elements. It is the judge's oracle for schedules
//! whose results are not known beforehand, and shares nothing with the checker: contents are
//! numbers, not sets of ranks. Every memory is kept twice, with two different poisons, so an
//! element is determined exactly where both copies agree. A buffer holds poison before it is
//! written in a call, and so do elements that a region wrote and its contract does not name.
//!
//! Regions are evaluated one after another in the order of the text, on all ranks. A region without
//! a contract whose ranks exchange data has no meaning of its own and gives [`Undetermined::Open`].

use kbc_backend_sim::effect::{Effect, Run};
use kbc_backend_sim::host::Host;
use kbc_backend_sim::interp::{HostRead, MAX_BYTES, RunResult};
use kbc_diag::{Diagnostic, Diagnostics};
use kbc_ir::Name;
use kbc_ir::contract::{Cell, Clause, Contract};
use kbc_ir::expr::Expr;
use kbc_ir::host::with_host_region;
use kbc_ir::op::OpPart;
use kbc_ir::schedule::{BufferId, BufferRole, LocalOp, OperandId, RegionId, Schedule};
use kbc_ir::types::{DType, ReduceOp};
use kbc_ir::walk::{Access, Act, Cursor, Mem, Program, Step};
use kbc_numerics::numbers::{combine, from_i64};
use kbc_numerics::tensor::{Data, Tensor};
use std::collections::BTreeSet;

/// The reason why the text does not determine the results of a schedule.
#[derive(Clone, PartialEq, Debug)]
pub enum Undetermined {
    /// Ranks exchange data in a region without a contract.
    Open,
    /// The text contradicts itself or leaves a result open, as described. No run can be right.
    Wrong(String),
}

impl From<Diagnostic> for Undetermined {
    fn from(d: Diagnostic) -> Self {
        Undetermined::Wrong(d.title)
    }
}

impl From<Diagnostics> for Undetermined {
    fn from(d: Diagnostics) -> Self {
        Undetermined::Wrong(d.list.into_iter().next().map_or(String::new(), |d| d.title))
    }
}

/// The two poisons.
const POISON: [i64; 2] = [-117, 113];

fn poison(dtype: DType, n: usize, copy: usize) -> Data {
    let far = match dtype.bytes() {
        1 => 1,
        2 => 8,
        _ => 70_001,
    };
    from_i64(dtype, &vec![POISON[copy] * far; n])
}

/// Both copies of the buffers of all ranks.
struct Worlds<'p> {
    program: &'p Program<'p>,
    /// Contents by copy, rank and buffer.
    cells: [Vec<Vec<Data>>; 2],
}

/// Returns the results that a schedule must give in so many calls. `inputs` are as for
/// [`kbc_backend_sim::interp::run`].
///
/// # Errors
/// Fails if the text does not determine the results, or cannot be right.
pub fn required_results(s: &Schedule, inputs: &[Vec<Tensor>], calls: u32) -> Result<RunResult, Undetermined> {
    let spelled = with_host_region(s);
    let program = Program::compile(&spelled)?;
    let host = Host::new(&program, inputs)?;
    let ranks = program.ranks();
    let show = |r| program.schedule.mesh.show(r);
    let mut sizes = vec![];
    let mut all = 0u64;
    for rank in 0..ranks {
        let mut list = vec![];
        for b in 0..program.schedule.buffers.len() as u32 {
            let n = program.elements(BufferId(b), rank).map_err(|f| f.diagnostic(show))?;
            all = all.saturating_add(n.saturating_mul(16));
            if all > MAX_BYTES >> 2 {
                return Err(Undetermined::Wrong("its buffers are too large".into()));
            }
            list.push(n as usize);
        }
        sizes.push(list);
    }
    let fresh = |copy: usize| -> Vec<Vec<Data>> {
        let of = |list: &Vec<usize>| {
            let one = |(n, b): (&usize, &kbc_ir::schedule::Buffer)| poison(b.dtype, *n, copy);
            list.iter().zip(&program.schedule.buffers).map(one).collect()
        };
        sizes.iter().map(of).collect()
    };
    let mut result = RunResult::empty(calls, ranks as usize);
    for call in 0..i64::from(calls) {
        let mut w = Worlds { program: &program, cells: [fresh(0), fresh(1)] };
        for rank in 0..ranks {
            for (i, b) in program.schedule.buffers.iter().enumerate() {
                let data = match b.role {
                    BufferRole::Input(n) => host.fill(BufferId(i as u32), n, rank, call)?,
                    _ if b.zero => host.zeros(BufferId(i as u32), rank, MAX_BYTES)?,
                    BufferRole::Output(_) | BufferRole::Temp => continue,
                };
                for copy in &mut w.cells {
                    copy[rank as usize][i] = data.clone();
                }
            }
        }
        let mut recorded = BTreeSet::new();
        for region in 0..program.schedule.regions.len() as u32 {
            w.region(RegionId(region), call, &mut recorded)?;
        }
        for rank in 0..ranks {
            if let Ok(stream) = usize::try_from(program.host)
                && s.host.is_some()
                && stream < program.streams.len()
            {
                let mut cursor = Cursor::new(&program, rank, program.host, call);
                while let Some(step) = cursor.next_step().map_err(|f| f.diagnostic(show))? {
                    if let Step::Act(Act::HostRead(b), ..) = step {
                        let data = w.determined_contents(rank, b, None)?;
                        let dims = program.dims(b, rank).map_err(|f| f.diagnostic(show))?;
                        let tensor = host.read(b, dims, data)?;
                        result.reads[call as usize][rank as usize].push(HostRead { buffer: b, tensor });
                    }
                }
            }
            let mut parts = vec![];
            for (b, bounds, n) in host.results(rank)? {
                parts.push(host.part(b, bounds, w.determined_contents(rank, b, Some(n as usize))?)?);
            }
            result.outputs[call as usize][rank as usize] = parts;
        }
    }
    Ok(result)
}

impl<'p> Worlds<'p> {
    /// Returns the contents of a buffer, if the text determines them.
    fn determined_contents(&self, rank: u64, b: BufferId, n: Option<usize>) -> Result<Data, Undetermined> {
        let [x, y] = [0, 1].map(|copy| {
            let data = &self.cells[copy][rank as usize][b.0 as usize];
            n.map_or_else(|| data.clone(), |n| data.slice(0, n.min(data.len())))
        });
        match x.first_difference(&y) {
            None => Ok(x),
            Some(i) => {
                let name = &self.program.schedule.buffer(b).name;
                Err(Undetermined::Wrong(format!(
                    "the value of element {i} of {name} on rank {rank} is not defined"
                )))
            }
        }
    }

    fn region(
        &mut self,
        id: RegionId,
        call: i64,
        recorded: &mut BTreeSet<(u64, u32)>,
    ) -> Result<(), Undetermined> {
        let s = self.program.schedule;
        let region = &s.regions[id.0 as usize];
        let operands: BTreeSet<BufferId> = match region.contract {
            Some(_) => region.operands.iter().map(|o| o.buffer).collect(),
            None => BTreeSet::new(),
        };
        // A contract refers to the contents before any operation of the region.
        let due = match &region.contract {
            Some(p) => self.required_contents(id, p)?,
            None => vec![],
        };
        let mut written: Vec<(u64, Run)> = vec![];
        for rank in 0..self.program.ranks() {
            self.bodies(id, rank, call, &operands, recorded, &mut written)?;
        }
        for (rank, run) in written {
            let Mem::Buffer(b) = run.mem else { continue };
            for (copy, world) in self.cells.iter_mut().enumerate() {
                let data = &mut world[rank as usize][b as usize];
                let dtype = data.dtype();
                let (start, len) = (run.start as usize, run.len as usize);
                if start + len > data.len() {
                    return Err(Undetermined::Wrong(format!(
                        "rank {rank} writes beyond the end of a buffer"
                    )));
                }
                let same = data.copy_from(start, &poison(dtype, len, copy), 0, len);
                debug_assert!(same, "the poison has the type of its place");
            }
        }
        for d in due {
            for (copy, value) in d.values.iter().enumerate() {
                let data = &mut self.cells[copy][d.rank as usize][d.buffer.0 as usize];
                let same = data.copy_from(d.start, value, 0, value.len());
                debug_assert!(same, "types were compared before");
            }
        }
        Ok(())
    }

    /// Executes what the streams of a rank compute by themselves in a region, and records
    /// everything else that is written.
    fn bodies(
        &mut self,
        id: RegionId,
        rank: u64,
        call: i64,
        operands: &BTreeSet<BufferId>,
        recorded: &mut BTreeSet<(u64, u32)>,
        written: &mut Vec<(u64, Run)>,
    ) -> Result<(), Undetermined> {
        let program = self.program;
        let show = |r| program.schedule.mesh.show(r);
        let contract = program.schedule.regions[id.0 as usize].contract.is_some();
        // The steps of each stream in this region.
        let mut lists = vec![];
        for stream in 0..program.streams.len() as u32 {
            let mut cursor = Cursor::new(program, rank, stream, call);
            let mut list = vec![];
            while let Some(step) = cursor.next_step().map_err(|f| f.diagnostic(show))? {
                match step {
                    Step::Act(act, span, _) if cursor.region() == Some(id) => list.push((act, span)),
                    Step::Enter(r) if r > id => break,
                    Step::Act(..) | Step::Enter(_) | Step::Leave(_) => {}
                }
            }
            if !list.is_empty() {
                lists.push((list, 0usize));
            }
        }
        // Streams alternate where they await each other. A stream that waits for a later region
        // continues in the end.
        let mut forced = false;
        loop {
            let mut moved = false;
            for (list, at) in &mut lists {
                while let Some((act, span)) = list.get(*at) {
                    match act {
                        Act::Await(e) if !forced && !recorded.contains(&(rank, *e)) => break,
                        Act::Record(e) => {
                            recorded.insert((rank, *e));
                        }
                        act => {
                            if !self.act(act, *span, rank, contract, operands, written)? {
                                return Err(Undetermined::Open);
                            }
                        }
                    }
                    *at += 1;
                    moved = true;
                    forced = false;
                }
            }
            if lists.iter().all(|(list, at)| *at == list.len()) {
                return Ok(());
            }
            forced = !moved;
        }
    }

    /// Executes one operation. Returns whether the text alone determines its effect.
    fn act(
        &mut self,
        act: &Act<'p>,
        span: kbc_diag::Span,
        rank: u64,
        contract: bool,
        operands: &BTreeSet<BufferId>,
        written: &mut Vec<(u64, Run)>,
    ) -> Result<bool, Undetermined> {
        let slot = |a: &Access| matches!(a.mem, Mem::Slot(..));
        match act {
            Act::Copy { dst, src } | Act::Reduce { op: _, dst, src }
                if !(contract || slot(dst) || slot(src)) =>
            {
                self.compute(act, span, rank)?;
                return Ok(true);
            }
            Act::Local(op) => {
                if contract && touches(op, operands) {
                    if let Some(effect) = Effect::of(self.program, rank, act, span)? {
                        written.push((rank, effect.write));
                    }
                    return Ok(true);
                }
                self.compute(act, span, rank)?;
                return Ok(true);
            }
            // The parts of all others say what they do.
            _ => {}
        }
        let (mut moves, mut there) = (false, rank);
        act.parts(&mut |part| match part {
            OpPart::Near(side, a) => {
                moves = true;
                if side.writes() {
                    written.push((rank, Run::of(a)));
                }
            }
            OpPart::Peer(peer) => there = *peer,
            OpPart::Far(side, a) => {
                if side.writes() {
                    written.push((there, Run::of(a)));
                }
            }
            OpPart::Combiner(_)
            | OpPart::Counter(_)
            | OpPart::Value(_)
            | OpPart::Queue(_)
            | OpPart::Event(_)
            | OpPart::Local(_)
            | OpPart::Mark(())
            | OpPart::Buffer(..) => {}
            OpPart::Host(host) => match *host {},
        });
        Ok(contract || !moves)
    }

    fn compute(&mut self, act: &Act<'p>, span: kbc_diag::Span, rank: u64) -> Result<(), Undetermined> {
        let Some(effect) = Effect::of(self.program, rank, act, span)? else { return Ok(()) };
        for world in &mut self.cells {
            let cells = &mut world[rank as usize];
            let mut data = vec![];
            for r in &effect.reads {
                let Mem::Buffer(b) = r.mem else { return Err(Undetermined::Open) };
                let from = &cells[b as usize];
                if (r.start + r.len) as usize > from.len() {
                    return Err(Undetermined::Wrong("an operation reads beyond the end of a buffer".into()));
                }
                data.push(from.slice(r.start as usize, r.len as usize));
            }
            let out = effect.compute(data)?;
            let Mem::Buffer(b) = effect.write.mem else { return Err(Undetermined::Open) };
            let to = &mut cells[b as usize];
            if !to.copy_from(effect.write.start as usize, &out, 0, out.len()) {
                return Err(Undetermined::Wrong("an operation writes another type".into()));
            }
        }
        Ok(())
    }

    /// Returns the contents that a contract requires when its region is over.
    fn required_contents(
        &self,
        id: RegionId,
        contract: &Contract,
    ) -> Result<Vec<RequiredContents>, Undetermined> {
        let program = self.program;
        let region = &program.schedule.regions[id.0 as usize];
        let size = program.schedule.group_size(region);
        let mut out = vec![];
        for rank in 0..program.ranks() {
            let own = program.group_index(id, rank);
            for clause in &contract.clauses {
                let Clause::End { cell, cond, from, at, sum } = clause else { continue };
                let mut env =
                    Env(vec![(contract.rank.clone(), own as i64), (contract.size.clone(), size as i64)]);
                let free = match &cell.index[..] {
                    [Expr::Var(n), _] if !env.knows(n) => Some(n.clone()),
                    _ => None,
                };
                for b in 0..if free.is_some() { size as i64 } else { 1 } {
                    let bound = env.0.len();
                    env.0.extend(free.iter().map(|n| (n.clone(), b)));
                    if env.holds(cond)? {
                        let place = self.place(id, cell, &env, rank, size)?;
                        let mut sources = vec![];
                        match sum {
                            None => {
                                sources.push((env.value(at)?, self.source(id, from, &env, at, rank, size)?))
                            }
                            Some(over) => {
                                for q in env.value(&over.lo)?..env.value(&over.hi)? {
                                    env.0.push((over.var.clone(), q));
                                    if env.holds(&over.cond)? {
                                        sources.push((
                                            env.value(at)?,
                                            self.source(id, from, &env, at, rank, size)?,
                                        ));
                                    }
                                    env.0.pop();
                                }
                            }
                        }
                        let ranks: BTreeSet<i64> = sources.iter().map(|s| s.0).collect();
                        if ranks.len() != sources.len() {
                            return Err(Undetermined::Wrong(
                                "a contract requires one contribution twice".into(),
                            ));
                        }
                        let op = contract.red.unwrap_or(ReduceOp::Sum);
                        out.extend(self.combined(rank, place, sources, op)?);
                    }
                    env.0.truncate(bound);
                }
            }
        }
        Ok(out)
    }

    fn combined(
        &self,
        rank: u64,
        (buffer, start, len): (BufferId, usize, usize),
        sources: Vec<(i64, (u64, BufferId, usize, usize))>,
        op: ReduceOp,
    ) -> Result<Option<RequiredContents>, Undetermined> {
        if len == 0 {
            return Ok(None);
        }
        let mut values = vec![];
        for copy in 0..2 {
            let mut total: Option<Data> = None;
            for (_, (from, b, lo, n)) in &sources {
                if *n != len {
                    return Err(Undetermined::Wrong("a contract equates blocks of different lengths".into()));
                }
                let data = self.cells[copy][*from as usize][b.0 as usize].slice(*lo, *n);
                match &mut total {
                    None => total = Some(data),
                    Some(t) => combine(op, t, &data).map_err(|r| Undetermined::Wrong(r.text))?,
                }
            }
            values.push(total.ok_or_else(|| Undetermined::Wrong("a contract has an empty sum".into()))?);
        }
        let dtype = self.cells[0][rank as usize][buffer.0 as usize].dtype();
        match (values.pop(), values.pop()) {
            (Some(y), Some(x)) if x.dtype() == dtype => match x.first_difference(&y) {
                None => Ok(Some(RequiredContents { rank, buffer, start, values: [x, y] })),
                Some(_) => Err(Undetermined::Wrong("a contract names an empty place".into())),
            },
            _ => Err(Undetermined::Wrong("a contract equates different element types".into())),
        }
    }

    fn source(
        &self,
        id: RegionId,
        cell: &Cell,
        env: &Env,
        at: &Expr,
        rank: u64,
        size: u64,
    ) -> Result<(u64, BufferId, usize, usize), Undetermined> {
        let q = env.value(at)?;
        let q = u64::try_from(q).ok().filter(|q| *q < size);
        let q = q.ok_or_else(|| Undetermined::Wrong("a contract names a rank that does not exist".into()))?;
        let from = self.program.group_rank(id, rank, q);
        let (b, lo, n) = self.place(id, cell, env, from, size)?;
        Ok((from, b, lo, n))
    }

    /// Returns the elements of a cell on a rank.
    fn place(
        &self,
        id: RegionId,
        cell: &Cell,
        env: &Env,
        rank: u64,
        size: u64,
    ) -> Result<(BufferId, usize, usize), Undetermined> {
        let program = self.program;
        let show = |r| program.schedule.mesh.show(r);
        let region = &program.schedule.regions[id.0 as usize];
        let at = region.operands.iter().position(|o| o.name == cell.buffer);
        let at = at.ok_or_else(|| Undetermined::Wrong(format!("operand {} does not exist", cell.buffer)))?;
        let (num, den) = match &cell.index[..] {
            [_] => (0, 1),
            [block, _] => (env.value(block)?, size as i64),
            _ => return Err(Undetermined::Wrong("a cell has three indices".into())),
        };
        if num < 0 || num >= den {
            return Err(Undetermined::Wrong("a contract names a block that does not exist".into()));
        }
        let operand = OperandId(at as u32);
        let edge = |k| program.chunk_start(id, operand, rank, k, den).map_err(|f| f.diagnostic(show));
        let (lo, hi) = (edge(num)?, edge(num + 1)?);
        let buffer = region.operands[at].buffer;
        let have = self.cells[0][rank as usize][buffer.0 as usize].len() as u64;
        if lo > hi || hi > have {
            return Err(Undetermined::Wrong("a contract names elements beyond its buffer".into()));
        }
        Ok((buffer, lo as usize, (hi - lo) as usize))
    }
}

/// Required contents of some elements, in both copies.
struct RequiredContents {
    rank: u64,
    buffer: BufferId,
    start: usize,
    values: [Data; 2],
}

/// Whether a local operation reads or writes an operand.
fn touches(op: &LocalOp, operands: &BTreeSet<BufferId>) -> bool {
    operands.contains(&op.dst()) || op.srcs().iter().any(|b| operands.contains(b))
}

/// Values of the names of a contract.
struct Env(Vec<(Name, i64)>);

impl Env {
    fn knows(&self, n: &Name) -> bool {
        self.0.iter().any(|(m, _)| m == n)
    }

    fn value(&self, e: &Expr) -> Result<i64, Undetermined> {
        let get = |n: &Name| self.0.iter().rev().find(|(m, _)| m == n).map(|(_, v)| *v);
        e.eval(&get).map_err(|e| Undetermined::Wrong(e.to_string()))
    }

    fn holds(&self, cond: &Option<Expr>) -> Result<bool, Undetermined> {
        cond.as_ref().map_or(Ok(true), |c| Ok(self.value(c)? != 0))
    }
}
