//! Target profiles: every fact of a target that emission rests on, in one place, with the revision it was checked against.
//!
//! Owns names, limits, fence sequences and the tables of what the instructions of its cores accept. A part is marked
//! [`Seen::Read`] where sources or documents of those revisions say so and [`Seen::Inferred`] where several of them were
//! put together. Passes and verifier read profiles; how an instruction is spelt in C++ is the printer's.

use crate::tile::{Barrier, Core, Op, Rounding, Space, VecOp};
use kbc_diag::Diagnostic;
use kbc_ir::scalar::CompareOp;
use kbc_ir::types::DType;

/// How a fact is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Seen {
    /// Read in the sources or documents of the stated revisions.
    Read,
    /// Put together from several places; nothing states it.
    Inferred,
}

/// A project and the revision that the facts were checked against.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Revision {
    /// The project.
    pub project: &'static str,
    /// The commit.
    pub commit: &'static str,
}

/// A runtime of the target.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Runtime {
    /// Name.
    pub name: &'static str,
    /// Why nothing is emitted for it; empty where it is served.
    pub refused: &'static str,
}

/// One part of a fence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// `pipe_barrier`
    Barrier(Barrier),
    /// `dsb`
    Dsb,
}

/// One part of a fence, and how it is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step {
    /// What is issued.
    pub part: Part,
    /// How it is known to be needed.
    pub seen: Seen,
    /// What for.
    pub why: &'static str,
}

/// A target.
#[derive(Clone, PartialEq, Debug)]
pub struct Profile {
    /// Name on the command line.
    pub name: &'static str,
    /// What it is.
    pub what: &'static str,
    /// The runtime's platform of that name executes on the host.
    pub simulator: bool,
    /// What the facts were checked against.
    pub revisions: &'static [Revision],
    /// Runtimes, the served one first.
    pub runtimes: &'static [Runtime],
    /// Bytes of the unified buffer that kernels use: 184 KiB, for the last 8 of 192 are reported corrupt.
    pub ub: u32,
    /// Bytes of L1, L0A, L0B and L0C.
    pub cube: [u32; 4],
    /// Bytes that a tile's address is a multiple of.
    pub ub_align: u32,
    /// Bytes that `passes::buffers` starts a tile on: two accesses in a row meet different banks.
    pub ub_step: u32,
    /// Bytes of a cache line of global memory.
    pub line: u32,
    /// Events of a pair of pipes.
    pub events: u8,
    /// Ranks of a domain at most.
    pub ranks: u32,
    /// Vector cores that a task may have.
    pub cores: u32,
    /// Tensors of a core task at most.
    pub tensors: usize,
    /// Scalars of a core task at most.
    pub scalars: usize,
    /// Dimensions of a tensor at most.
    pub dims: usize,
    /// Between the last access and the notify that tells of it. Scalar stores would need their lines written back
    /// between the two; kernels have none outside the status line.
    pub release: &'static [Step],
    /// Between a wait and the first access that it permits. Scalar loads would need their lines invalidated; kernels
    /// read by transfer alone.
    pub acquire: &'static [Step],
    /// Between a get and the first use of what it fetched.
    pub complete: &'static [Step],
}

/// Ranks of a domain at most: the tables of windows in the runtime's `CommContext` have as many entries.
pub const MAX_RANKS: u32 = 64;
/// Vector cores of a die: documented.
pub const MAX_CORES: u32 = 48;
/// Vector cores of a rank of the runtime's simulator: 8 clusters.
const SIMULATED_CORES: u32 = 16;

const REVISIONS: &[Revision] = &[
    Revision { project: "hw-native-sys/simpler", commit: "6ebaf77" },
    Revision { project: "hw-native-sys/pto-isa", commit: "cd4a3d3" },
];

const RUNTIMES: &[Runtime] = &[
    Runtime { name: "tensormap_and_ringbuffer", refused: "" },
    Runtime {
        name: "host_build_graph",
        refused: "it is the runtime's debug form, and no collective of the runtime itself uses it",
    },
];

const DRAIN: Step = Step {
    part: Part::Barrier(Barrier::All),
    seen: Seen::Read,
    why: "a notify is not ordered after transfers that were issued before it",
};

const RELEASE: &[Step] = &[
    DRAIN,
    Step {
        part: Part::Dsb,
        seen: Seen::Inferred,
        why: "a drained pipe does not say that peers see the data; races without it are reported upstream",
    },
];

const ACQUIRE: &[Step] = &[Step {
    part: Part::Barrier(Barrier::All),
    seen: Seen::Read,
    why: "a wait polls on the scalar pipe and other pipes run on",
}];

const COMPLETE: &[Step] = &[Step {
    part: Part::Barrier(Barrier::All),
    seen: Seen::Inferred,
    why: "what was fetched is in memory once the pipes are drained",
}];

const fn aiv(name: &'static str, what: &'static str, simulator: bool) -> Profile {
    Profile {
        name,
        what,
        simulator,
        revisions: REVISIONS,
        runtimes: RUNTIMES,
        ub: 188_416,
        cube: [512 << 10, 64 << 10, 64 << 10, 128 << 10],
        ub_align: 32,
        ub_step: 512,
        line: 64,
        events: 8,
        ranks: MAX_RANKS,
        cores: if simulator { SIMULATED_CORES } else { MAX_CORES },
        tensors: 32,
        scalars: 16,
        dims: 5,
        release: RELEASE,
        acquire: ACQUIRE,
        complete: COMPLETE,
    }
}

/// All profiles. `a5sim` has the facts of `a2a3`: what the two have in common is what is emitted for it.
pub const PROFILES: [Profile; 3] = [
    aiv("a2a3", "Ascend A2 and A3", false),
    aiv("a2a3sim", "the simulator of Ascend A2 and A3", true),
    aiv("a5sim", "the simulator of Ascend A5, by what A5 has in common with A2 and A3", true),
];

/// The profile of that name.
pub fn find(name: &str) -> Option<&'static Profile> {
    PROFILES.iter().find(|p| p.name == name)
}

/// Bits that the conversion, comparison and selection instructions take at once, in bytes of the operand.
const REPEAT: u32 = 256;

/// Bytes behind the bits of a mask that `select` uses for itself.
pub const MASK_SCRATCH: u32 = 32;

impl Profile {
    /// Whether a vector instruction has that element type, with a number as its last operand or with tiles alone;
    /// otherwise why not.
    pub fn vector(&self, op: VecOp, dtype: DType, number: bool) -> Result<Seen, &'static str> {
        use DType::*;
        match op {
            VecOp::Add | VecOp::Sub | VecOp::Mul | VecOp::Max | VecOp::Min => match dtype {
                F32 | F16 | I32 | I16 => Ok(Seen::Read),
                BF16 => Err("bf16 is computed in f32: convert before and after"),
                _ => Err("8-bit and 64-bit elements only move"),
            },
            VecOp::Div if number => {
                Err("division by a number multiplies by its rounded reciprocal in place: fill a tile with it")
            }
            VecOp::Div => match dtype {
                F32 | F16 => Ok(Seen::Read),
                I32 | I16 => Err("there is no division of integers"),
                _ => Err("this type is not divided: convert to f32"),
            },
            VecOp::Abs | VecOp::Exp | VecOp::Log | VecOp::Sqrt | VecOp::Rsqrt => match dtype {
                F32 | F16 => Ok(Seen::Read),
                _ => Err("it exists for f32 and f16"),
            },
            VecOp::Fill => match dtype {
                I64 => Err("64-bit elements only move"),
                _ => Ok(Seen::Read),
            },
        }
    }

    /// Whether a comparison has that element type; otherwise why not.
    pub fn compare(&self, cmp: CompareOp, dtype: DType) -> Result<Seen, &'static str> {
        match (dtype, cmp) {
            (DType::F32 | DType::F16, _) | (DType::I32, CompareOp::Eq | CompareOp::Ne) => Ok(Seen::Read),
            (DType::I32, _) => Err("of i32 only `==` and `!=` are compared; any other silently becomes `==`"),
            _ => Err("it exists for f32, f16 and i32"),
        }
    }

    /// Bytes of the mask tile of a `select` over `elements` elements: a bit each, in whole steps of the instruction,
    /// and behind them what the selection uses for itself.
    pub fn mask_bytes(&self, elements: u32, dtype: DType) -> u32 {
        let step = REPEAT / dtype.bytes() as u32;
        (elements.div_ceil(step) * step / 8).div_ceil(self.ub_align) * self.ub_align + MASK_SCRATCH
    }

    /// Elements that operands of a `select` are a multiple of: comparisons read whole steps.
    pub fn select_step(&self, dtype: DType) -> u32 {
        REPEAT / dtype.bytes() as u32
    }

    /// Roundings of the conversion between two element types; empty where there is none.
    pub fn convert(&self, from: DType, to: DType) -> &'static [Rounding] {
        conversion(from, to)
    }

    /// Bytes of a memory of a core.
    pub fn bytes(&self, space: Space) -> u32 {
        match space {
            Space::Ub => self.ub,
            Space::L1 => self.cube[0],
            Space::L0a => self.cube[1],
            Space::L0b => self.cube[2],
            Space::L0c => self.cube[3],
        }
    }

    /// Whether a core has that barrier: one of a pipe that it does not have hangs it.
    pub fn barrier(&self, core: Core, barrier: Barrier) -> bool {
        match barrier {
            Barrier::All => true,
            Barrier::Pipe(p) => core.pipes().contains(&p),
        }
    }

    /// Whether the cube unit multiplies elements of a type, adding up in f32; otherwise why not.
    pub fn multiply(&self, dtype: DType) -> Result<Seen, &'static str> {
        match dtype {
            DType::F32 | DType::F16 | DType::BF16 => Ok(Seen::Read),
            DType::I8 => Err("products of i8 add up in i32, which no program asks for"),
            _ => Err("it multiplies f32, f16 and bf16"),
        }
    }

    /// Whether the scalar unit reads an element of that type from a tile in UB, behind a flag of what wrote it; otherwise why not.
    pub fn choose(&self, dtype: DType) -> Result<Seen, &'static str> {
        match dtype {
            DType::I32 | DType::I64 => Ok(Seen::Read),
            _ => Err("rows are numbered by i32 and i64"),
        }
    }

    /// Whether a row is combined in that element type; otherwise why not.
    pub fn reduce(&self, op: VecOp, dtype: DType) -> Result<Seen, &'static str> {
        match (op, dtype) {
            (VecOp::Add | VecOp::Max | VecOp::Min, DType::F32 | DType::F16) => Ok(Seen::Read),
            (VecOp::Add | VecOp::Max | VecOp::Min, _) => Err("rows of f32 and f16 are combined"),
            _ => Err("a row is added up, or its largest or smallest element is found"),
        }
    }

    /// The runtime of that name, if kernels are emitted for it; otherwise the reason.
    pub fn runtime(&self, name: &str) -> Result<&'static Runtime, Diagnostic> {
        let found = self.runtimes.iter().find(|r| r.name == name);
        match found {
            Some(r) if r.refused.is_empty() => Ok(r),
            Some(r) => Err(Diagnostic::error("E451", format!("the runtime {name} is not served"))
                .note(r.refused)
                .help(format!("use {}", self.runtimes[0].name))),
            None => Err(Diagnostic::error("E451", format!("{} has no runtime {name}", self.name))
                .help(format!("use {}", self.runtimes[0].name))),
        }
    }
}

impl Step {
    /// The operation of the tile level.
    pub fn op(&self) -> Op {
        match self.part {
            Part::Barrier(b) => Op::Barrier(b),
            Part::Dsb => Op::Dsb,
        }
    }
}

/// Roundings of a conversion that vector cores have; empty where there is none.
fn conversion(from: DType, to: DType) -> &'static [Rounding] {
    use DType::*;
    match (from, to) {
        (F16 | BF16 | I16, F32) | (I8 | U8, F16) | (I32, I64) => &[Rounding::Exact],
        (F32, F16 | BF16 | I32 | I16) | (F16 | BF16, I32) => &[Rounding::Nearest, Rounding::Zero],
        (I32, F32) | (I16, F16) => &[Rounding::Nearest],
        _ => &[],
    }
}

/// The types that an element goes through to another type, the last one included: all conversions but the last are exact, so that it
/// is rounded once. None where no conversions do that.
pub fn conversions(from: DType, to: DType) -> Option<Vec<DType>> {
    let exact = |a, b| conversion(a, b).contains(&Rounding::Exact);
    let mut way = vec![];
    let mut at = from;
    while conversion(at, to).is_empty() {
        at = [DType::F16, DType::F32].into_iter().find(|t| exact(at, *t) && !way.contains(t))?;
        way.push(at);
    }
    way.push(to);
    Some(way)
}
