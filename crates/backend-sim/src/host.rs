//! Host of each rank between calls: fills inputs, forgets other buffers, reads results.
//!
//! The module owns the part of a run that is the same for the interpreter and the adversarial
//! executor: it checks the inputs, cuts them, and shapes results. The memories themselves belong to
//! the executors.

use crate::effect::mem_name;
use crate::store::Ranges;
use kbc_diag::{Diagnostic, Diagnostics};
use kbc_ir::schedule::{BufferId, BufferRole, Schedule};
use kbc_ir::types::{Mesh, TensorType};
use kbc_ir::walk::{Mem, Program};
use kbc_numerics::shard::{self, HeldBox, Part};
use kbc_numerics::tensor::{Data, Tensor};

/// Elements that peers, or streams ahead of the host, wrote into a buffer for a call that its rank
/// had not begun: `(start, len, call)`. They survive the beginning of that call.
#[derive(Clone, Debug, Default)]
pub struct EarlyWrites(Vec<(u64, u64, i64)>);

impl EarlyWrites {
    /// Records a write for a later call.
    pub fn note(&mut self, start: u64, len: u64, call: i64) {
        self.0.push((start, len, call));
    }

    /// Begins a call. Returns the elements that survive.
    pub fn begin(&mut self, call: i64) -> Ranges {
        self.0.retain(|e| e.2 >= call);
        let mut kept = Ranges::default();
        self.0.iter().for_each(|e| kept.add(e.0, e.1));
        self.0.retain(|e| e.2 > call);
        kept
    }
}

/// The location of one result of a rank: the buffer, its box of the global tensor, and the number
/// of elements.
pub type ResultPart = (BufferId, Vec<(u64, u64)>, u64);

/// The buffers that the host fills and reads.
pub struct Host<'p> {
    program: &'p Program<'p>,
    feeds: &'p [Vec<Tensor>],
    /// Result numbers, with the buffer of each result.
    outputs: Vec<(u32, BufferId)>,
}

fn global(s: &Schedule, b: BufferId) -> Result<&TensorType, Diagnostic> {
    let buffer = s.buffer(b);
    buffer.global.as_ref().ok_or_else(|| {
        Diagnostic::error(
            "E360",
            format!("{} is an input or output without a global type", mem_name(s, Mem::Buffer(b.0))),
        )
        .primary(buffer.span, "declared here")
        .help("write the type of the global tensor after the role: `input 0 : f32[8@tp]`")
    })
}

impl<'p> Host<'p> {
    /// Checks the inputs of every call; call c gets `feeds[c mod feeds.len()]`. Fails with E360.
    pub fn new(program: &'p Program<'p>, feeds: &'p [Vec<Tensor>]) -> Result<Self, Diagnostics> {
        let s = program.schedule;
        let mut bad = Diagnostics::new();
        let mut outputs = vec![];
        for (i, b) in s.buffers.iter().enumerate() {
            let id = BufferId(i as u32);
            match (b.role, global(s, id)) {
                (BufferRole::Temp, _) => {}
                (_, Err(d)) => bad.push(d),
                (BufferRole::Output(n), Ok(_)) => outputs.push((n, id)),
                (BufferRole::Input(n), Ok(ty)) => {
                    if feeds.is_empty() {
                        bad.push(
                            Diagnostic::error("E360", format!("input {} has no data", b.name))
                                .help("give data for every input"),
                        );
                    }
                    for (call, feed) in feeds.iter().enumerate() {
                        match feed.get(n as usize) {
                            Some(t) => {
                                let _ = shard::check_feed(&b.name, ty, &s.mesh, t).map_err(|d| bad.push(d));
                            }
                            None => bad.push(
                                Diagnostic::error(
                                    "E360",
                                    format!(
                                        "input {n} ({}) has no data in call {call}: {} given",
                                        b.name,
                                        feed.len()
                                    ),
                                )
                                .help("give data for every input"),
                            ),
                        }
                    }
                }
            }
        }
        outputs.sort_unstable();
        if bad.is_empty() { Ok(Host { program, feeds, outputs }) } else { Err(bad.finish()) }
    }

    fn mesh(&self) -> &'p Mesh {
        &self.program.schedule.mesh
    }

    /// Returns the elements of an input buffer on a rank in a call. Fails with E360.
    pub fn fill(&self, b: BufferId, input: u32, rank: u64, call: i64) -> Result<Data, Diagnostic> {
        let (feed, held) = self.source(b, input, rank, call)?;
        feed.extract(&held.range).map(Tensor::into_data).ok_or_else(|| self.no_part(b, rank))
    }

    fn no_part(&self, b: BufferId, rank: u64) -> Diagnostic {
        let s = self.program.schedule;
        match global(s, b) {
            Ok(ty) => shard::no_part(&s.buffer(b).name, ty, self.mesh(), rank),
            Err(d) => d,
        }
    }

    /// Returns the tensor of which an input buffer on a rank is a part in a call, and that part.
    /// Fails with E360.
    pub fn source(
        &self,
        b: BufferId,
        input: u32,
        rank: u64,
        call: i64,
    ) -> Result<(&'p Tensor, HeldBox), Diagnostic> {
        let ty = global(self.program.schedule, b)?;
        let feed = &self.feeds[call as usize % self.feeds.len()][input as usize];
        let held = HeldBox::of(ty, self.mesh(), rank);
        let inside = held.range.len() == feed.shape().len()
            && held.range.iter().zip(feed.shape()).all(|(b, n)| b.0 <= b.1 && b.1 <= *n);
        if !inside {
            return Err(self.no_part(b, rank));
        }
        self.fits(b, rank, held.shape().iter().product())?;
        Ok((feed, held))
    }

    /// Returns the zeros that a buffer of a rank holds at the beginning of a call. Fails with E302
    /// or E368.
    pub fn zeros(&self, b: BufferId, rank: u64, max_bytes: u64) -> Result<Data, Diagnostic> {
        let n = self.program.elements(b, rank).map_err(|f| f.diagnostic(|r| self.mesh().show(r)))?;
        let buffer = self.program.schedule.buffer(b);
        if n.saturating_mul(buffer.dtype.bytes()) > max_bytes {
            return Err(too_large(max_bytes).primary(buffer.span, "this buffer alone is too large"));
        }
        Ok(Data::zeros(buffer.dtype, n as usize))
    }

    /// Returns what a host read as a tensor of the buffer's local sizes. Fails with E360.
    pub fn read(&self, b: BufferId, dims: Vec<u64>, data: Data) -> Result<Tensor, Diagnostic> {
        let n = data.len();
        Tensor::new(dims, data).ok_or_else(|| {
            let name = &self.program.schedule.buffer(b).name;
            Diagnostic::error("E360", format!("{n} elements do not match the local sizes of {name}"))
        })
    }

    fn fits(&self, b: BufferId, rank: u64, want: u64) -> Result<(), Diagnostic> {
        let have = self.program.elements(b, rank).map_err(|f| f.diagnostic(|r| self.mesh().show(r)))?;
        if have == want {
            return Ok(());
        }
        let s = self.program.schedule;
        let (name, rank) = (mem_name(s, Mem::Buffer(b.0)), self.mesh().show(rank));
        Err(Diagnostic::error(
            "E360",
            format!("{name} has {have} elements on {rank}, and its part of the tensor has {want}"),
        )
        .primary(s.buffer(b).span, "declared here")
        .help("the local sizes of an input or output follow from its global type"))
    }

    /// Returns the buffers that are results.
    pub fn results(&self, rank: u64) -> Result<Vec<ResultPart>, Diagnostic> {
        let mut out = vec![];
        for (_, b) in &self.outputs {
            let bounds = global(self.program.schedule, *b)?.local_box(self.mesh(), &self.mesh().coords(rank));
            let n = bounds.iter().map(|b| b.1 - b.0).product();
            self.fits(*b, rank, n)?;
            out.push((*b, bounds, n));
        }
        Ok(out)
    }

    /// Returns a result as it was read.
    pub fn part(&self, b: BufferId, bounds: Vec<(u64, u64)>, data: Data) -> Result<Part, Diagnostic> {
        let shape: Vec<u64> = bounds.iter().map(|b| b.1 - b.0).collect();
        let n = data.len();
        let tensor = Tensor::new(shape, data).ok_or_else(|| {
            Diagnostic::error(
                "E360",
                format!("{n} elements do not match a part of {}", self.program.schedule.buffer(b).name),
            )
        })?;
        Ok(Part { bounds, tensor })
    }

    /// Returns the error E365 for a result whose element `at` the host found unwritten.
    pub fn unwritten(&self, b: BufferId, bounds: &[(u64, u64)], at: u64, rank: u64, call: i64) -> Diagnostic {
        let buffer = self.program.schedule.buffer(b);
        let shape: Vec<u64> = bounds.iter().map(|b| b.1 - b.0).collect();
        let index: Vec<u64> =
            kbc_numerics::tensor::multi_index(&shape, at).iter().zip(bounds).map(|(i, b)| i + b.0).collect();
        Diagnostic::error(
            "E365",
            format!(
                "{} was never written at {index:?} on {} in call {call}",
                buffer.name,
                self.mesh().show(rank)
            ),
        )
        .primary(buffer.span, "this result")
        .help("every element of a result must be written in every call")
    }
}

/// Returns the error E368 for a run that needs more memory than allowed.
pub fn too_large(max_bytes: u64) -> Diagnostic {
    Diagnostic::error("E368", format!("the ranks together need more than {max_bytes} bytes"))
        .note("a simulation with data holds every buffer of every rank at once")
        .help("use smaller sizes or fewer ranks, or simulate time without data")
}
