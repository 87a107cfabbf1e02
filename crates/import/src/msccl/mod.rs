//! MSCCL XML: one `<gpu>` per rank, one `<tb>` per sequential thread block, with `<step>`s that
//! send, receive, reduce and copy.
//!
//! [`read`] parses a text into an [`Algo`]. [`build`] translates that into a schedule: one role per
//! rank, one stream per thread block, queues for connections, `record` and `await` for
//! dependencies. A step means what the interpreter of microsoft/msccl does with it; fields that the
//! interpreter never reads have no meaning (`docs/reference/msccl.md`). [`fifo`] computes how many
//! operations a queue holds, and so the message size up to which a schedule is free of deadlock.

mod build;
mod coll;
pub mod definition;
pub mod fifo;
pub mod judge;
mod read;
mod steps;

pub use build::{Built, Options, build};
pub use coll::Coll;
pub use read::{MAX_CHUNKS, MAX_RANKS, read};

use kbc_diag::Span;
use std::fmt;

/// The protocol of connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "the names are the protocols")]
pub enum Proto {
    Simple,
    Ll,
    Ll128,
}

impl Proto {
    /// Returns the protocol with that name.
    pub fn parse(s: &str) -> Option<Proto> {
        [Proto::Simple, Proto::Ll, Proto::Ll128].into_iter().find(|p| p.name() == s)
    }

    /// Returns the name of the protocol.
    pub fn name(self) -> &'static str {
        match self {
            Proto::Simple => "Simple",
            Proto::Ll => "LL",
            Proto::Ll128 => "LL128",
        }
    }
}

/// A buffer of a rank.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "the names are the buffers")]
pub enum Buf {
    Input,
    Output,
    Scratch,
}

impl Buf {
    fn parse(s: &str) -> Option<Buf> {
        [Buf::Input, Buf::Output, Buf::Scratch].into_iter().find(|b| b.letter() == s)
    }

    /// Returns the letter of the buffer in the format.
    pub fn letter(self) -> &'static str {
        match self {
            Buf::Input => "i",
            Buf::Output => "o",
            Buf::Scratch => "s",
        }
    }
}

/// A run of chunks. Fields are -1 where the file has no place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChunkRun {
    /// The buffer.
    pub buf: Buf,
    /// Index of the first chunk.
    pub off: i64,
}

/// The operation of a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "the names are those of the format")]
pub enum Op {
    S,
    R,
    Cpy,
    Re,
    Rrc,
    Rcs,
    Rrs,
    Rrcs,
    Nop,
}

impl Op {
    const ALL: [(&'static str, Op); 9] = [
        ("s", Op::S),
        ("r", Op::R),
        ("cpy", Op::Cpy),
        ("re", Op::Re),
        ("rrc", Op::Rrc),
        ("rcs", Op::Rcs),
        ("rrs", Op::Rrs),
        ("rrcs", Op::Rrcs),
        ("nop", Op::Nop),
    ];

    /// Returns the name of the operation in the format.
    pub fn name(self) -> &'static str {
        Op::ALL.iter().find(|o| o.1 == self).map_or("", |o| o.0)
    }

    /// Checks whether the operation receives a message.
    pub fn receives(self) -> bool {
        matches!(self, Op::R | Op::Rrc | Op::Rcs | Op::Rrs | Op::Rrcs)
    }

    /// Checks whether the operation sends a message.
    pub fn sends(self) -> bool {
        matches!(self, Op::S | Op::Rcs | Op::Rrs | Op::Rrcs)
    }

    /// Checks whether the operation reads its `src` in local memory.
    pub fn reads(self) -> bool {
        matches!(self, Op::S | Op::Cpy | Op::Re | Op::Rrc | Op::Rrs | Op::Rrcs)
    }

    /// Checks whether the operation writes its `dst` in local memory.
    pub fn writes(self) -> bool {
        matches!(self, Op::R | Op::Cpy | Op::Re | Op::Rrc | Op::Rcs | Op::Rrcs)
    }
}

/// A dependency: the step waits until a thread block of the same rank has finished a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dep {
    /// Index of the thread block.
    pub tb: i64,
    /// Index of the step in that thread block.
    pub step: i64,
    /// Location in the file.
    pub span: Span,
}

/// A step.
#[derive(Clone, Debug)]
pub struct Step {
    /// Its operation.
    pub op: Op,
    /// `srcbuf`, `srcoff`; without meaning unless the operation reads.
    pub src: ChunkRun,
    /// `dstbuf`, `dstoff`; without meaning unless the operation writes.
    pub dst: ChunkRun,
    /// Number of chunks.
    pub cnt: u64,
    /// `depid`, `deps` as written.
    pub dep: Option<Dep>,
    /// Whether the step publishes its completion.
    pub hasdep: bool,
    /// Dependencies after the loader's rearrangement: those of the step, those of the nops before
    /// it, and those that earlier merged steps passed on.
    pub waits: Vec<Dep>,
    /// Location of the element.
    pub span: Span,
}

/// A thread block.
#[derive(Clone, Debug)]
pub struct Tb {
    /// Rank that it sends to.
    pub send: Option<u64>,
    /// Rank that it receives from.
    pub recv: Option<u64>,
    /// Number of the channel.
    pub chan: u64,
    /// Its steps, in order.
    pub steps: Vec<Step>,
    /// Location of the start tag.
    pub span: Span,
}

/// A rank.
#[derive(Clone, Debug)]
pub struct Gpu {
    /// `i_chunks`, `o_chunks`, `s_chunks`.
    pub chunks: [u64; 3],
    /// Thread blocks, by id.
    pub tbs: Vec<Tb>,
    /// Location of the start tag.
    pub span: Span,
}

/// The contents of a file.
#[derive(Clone, Debug)]
pub struct Algo {
    /// `name`
    pub name: String,
    /// `proto`
    pub proto: Proto,
    /// Number of chunks of the largest user buffer, called K.
    pub chunks: u64,
    /// Number of channels: one more than the largest channel number in use.
    pub channels: u64,
    /// `coll`
    pub coll: Coll,
    /// `inplace`
    pub inplace: bool,
    /// Whether input and output are one buffer. This holds for in-place calls, except for a
    /// collective without a known postcondition that names both buffers; whether these overlap is
    /// up to the author.
    pub aliased: bool,
    /// `minBytes` and `maxBytes`, if the file declares a range of message sizes.
    pub window: Option<(u64, u64)>,
    /// Ranks, by id.
    pub gpus: Vec<Gpu>,
    /// Location of the start tag of `<algo>`.
    pub span: Span,
}

/// The numbers that identify a step.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct StepName {
    /// The rank.
    pub gpu: usize,
    /// The thread block.
    pub tb: usize,
    /// The step.
    pub step: usize,
}

impl fmt::Display for StepName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "gpu {} tb {} step {}", self.gpu, self.tb, self.step)
    }
}

impl Algo {
    /// Returns the number of ranks.
    pub fn ranks(&self) -> u64 {
        self.gpus.len() as u64
    }

    /// Returns all steps with their numbers.
    pub fn steps(&self) -> impl Iterator<Item = (StepName, &Step)> {
        self.gpus.iter().enumerate().flat_map(|(gpu, g)| {
            g.tbs.iter().enumerate().flat_map(move |(tb, t)| {
                t.steps.iter().enumerate().map(move |(step, s)| (StepName { gpu, tb, step }, s))
            })
        })
    }

    /// Returns the step at a location of the file.
    pub fn step_at(&self, span: Span) -> Option<(StepName, &Step)> {
        self.steps().find(|(_, s)| s.span == span)
    }
}
