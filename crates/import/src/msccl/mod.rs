//! MSCCL XML: one `<gpu>` a rank, one `<tb>` a sequential process, `<step>`s that send, receive, reduce and copy.
//!
//! [`read`] makes an [`Algo`] of a text, [`build`] a schedule of that: a role a rank, a stream a thread block, queues for
//! connections, `record` and `await` for dependencies. What a step means is what the interpreter of microsoft/msccl
//! does with it, and not what a compiler wrote into fields that it never reads (`docs/msccl.md`). How much a queue
//! holds, and so up to which message size a schedule is free of deadlock, is [`fifo`]'s.

mod build;
mod coll;
pub mod definition;
pub mod fifo;
pub mod judge;
mod read;
mod steps;

pub use build::{Built, Options, build};
pub use coll::Coll;
pub use read::{MOST_CHUNKS, MOST_RANKS, read};

use kbc_diag::Span;
use std::fmt;

/// How a connection moves data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "the names are the protocols")]
pub enum Proto {
    Simple,
    Ll,
    Ll128,
}

impl Proto {
    /// The protocol of that name.
    pub fn parse(s: &str) -> Option<Proto> {
        [Proto::Simple, Proto::Ll, Proto::Ll128].into_iter().find(|p| p.name() == s)
    }

    /// Its name.
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

    /// As it is written.
    pub fn letter(self) -> &'static str {
        match self {
            Buf::Input => "i",
            Buf::Output => "o",
            Buf::Scratch => "s",
        }
    }
}

/// A run of chunks; -1 where there is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// The buffer.
    pub buf: Buf,
    /// First chunk.
    pub off: i64,
}

/// What a step does.
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

    /// As it is written.
    pub fn name(self) -> &'static str {
        Op::ALL.iter().find(|o| o.1 == self).map_or("", |o| o.0)
    }

    /// Whether it takes a message.
    pub fn receives(self) -> bool {
        matches!(self, Op::R | Op::Rrc | Op::Rcs | Op::Rrs | Op::Rrcs)
    }

    /// Whether it gives one.
    pub fn sends(self) -> bool {
        matches!(self, Op::S | Op::Rcs | Op::Rrs | Op::Rrcs)
    }

    /// Whether it reads its `src` in local memory.
    pub fn reads(self) -> bool {
        matches!(self, Op::S | Op::Cpy | Op::Re | Op::Rrc | Op::Rrs | Op::Rrcs)
    }

    /// Whether it writes its `dst` in local memory.
    pub fn writes(self) -> bool {
        matches!(self, Op::R | Op::Cpy | Op::Re | Op::Rrc | Op::Rcs | Op::Rrcs)
    }
}

/// A dependency: until that thread block of the rank has finished that step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dep {
    /// The thread block.
    pub tb: i64,
    /// Its step.
    pub step: i64,
    /// Where it is written.
    pub span: Span,
}

/// A step.
#[derive(Clone, Debug)]
pub struct Step {
    /// Its operation.
    pub op: Op,
    /// `srcbuf`, `srcoff`; meaningless unless the operation reads.
    pub src: Place,
    /// `dstbuf`, `dstoff`; meaningless unless the operation writes.
    pub dst: Place,
    /// Chunks.
    pub cnt: u64,
    /// `depid`, `deps` as written.
    pub dep: Option<Dep>,
    /// Whether it publishes that it is done.
    pub hasdep: bool,
    /// What it waits for as the loader arranges it: its own dependency, those of the nops before it, and what slid here.
    pub waits: Vec<Dep>,
    /// The element.
    pub span: Span,
}

/// A thread block.
#[derive(Clone, Debug)]
pub struct Tb {
    /// The rank it sends to.
    pub send: Option<u64>,
    /// The rank it receives from.
    pub recv: Option<u64>,
    /// The channel.
    pub chan: u64,
    /// Its steps.
    pub steps: Vec<Step>,
    /// The start tag.
    pub span: Span,
}

/// A rank.
#[derive(Clone, Debug)]
pub struct Gpu {
    /// `i_chunks`, `o_chunks`, `s_chunks`.
    pub chunks: [u64; 3],
    /// Its thread blocks, by id.
    pub tbs: Vec<Tb>,
    /// The start tag.
    pub span: Span,
}

/// A file.
#[derive(Clone, Debug)]
pub struct Algo {
    /// `name`
    pub name: String,
    /// `proto`
    pub proto: Proto,
    /// Chunks of the largest user buffer, K.
    pub chunks: u64,
    /// Channels: one more than the largest that is used.
    pub channels: u64,
    /// `coll`
    pub coll: Coll,
    /// `inplace`
    pub inplace: bool,
    /// Input and output are seen as one buffer: in place, but for a collective that nothing is known of and that names
    /// both. What overlaps there is its author's to say.
    pub aliased: bool,
    /// `minBytes` and `maxBytes`, if the file states a window.
    pub window: Option<(u64, u64)>,
    /// Ranks, by id.
    pub gpus: Vec<Gpu>,
    /// The start tag of `<algo>`.
    pub span: Span,
}

/// A step by its numbers.
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
    /// Ranks.
    pub fn ranks(&self) -> u64 {
        self.gpus.len() as u64
    }

    /// All steps with their names.
    pub fn steps(&self) -> impl Iterator<Item = (StepName, &Step)> {
        self.gpus.iter().enumerate().flat_map(|(gpu, g)| {
            g.tbs.iter().enumerate().flat_map(move |(tb, t)| {
                t.steps.iter().enumerate().map(move |(step, s)| (StepName { gpu, tb, step }, s))
            })
        })
    }

    /// The step that is written at a place.
    pub fn step_at(&self, span: Span) -> Option<(StepName, &Step)> {
        self.steps().find(|(_, s)| s.span == span)
    }
}
