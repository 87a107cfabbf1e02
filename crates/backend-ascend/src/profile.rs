//! Target profiles: all facts of a target that emission depends on, with the revisions against
//! which they were checked.
//!
//! The module owns names, limits, fence sequences, and the tables of what the instructions of the
//! target's cores accept. A fact is marked [`Seen::Read`] if sources or documents of those
//! revisions state it, and [`Seen::Inferred`] if it was concluded from several of them. Passes and
//! verifier read profiles. The C++ spelling of an instruction belongs to the printer.

use crate::{elementwise, narrow};
use kbc_diag::Diagnostic;
use kbc_ir::interval::Interval;
use kbc_ir::scalar::{CompareOp, ScalarFn};
use kbc_ir::types::DType;
use kbc_tiles::device::{Device, Limits, NarrowField};
use kbc_tiles::lower::chain::Chain;
use kbc_tiles::range;
use kbc_tiles::tile::{Barrier, Core, Dialect, LINE, Op, Rounding, Space, VecOp};

/// The names of `.tile` text, and the names that the C++ text of a kernel uses itself.
pub static DIALECT: Dialect = Dialect {
    vector_core: "aiv",
    matrix_core: "aic",
    matrix_word: "cube",
    spaces: ["ub", "l1", "l0a", "l0b", "l0c"],
    pipes: ["S", "V", "MTE2", "MTE3", "MTE1", "M", "FIX"],
    taken: &["ctx", "error", "args", "window", "memory", "status", "tables"],
    step_note: "comparisons read whole steps of 256 bytes",
    mask_note: "a bit an element, and 32 bytes that `select` uses",
};

/// How a fact is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Seen {
    /// Stated in the sources or documents of the given revisions.
    Read,
    /// Concluded from several places; none of them states it.
    Inferred,
}

/// A project, and the revision of it against which the facts were checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Revision {
    /// Name of the project.
    pub project: &'static str,
    /// Hash of the commit.
    pub commit: &'static str,
}

/// A runtime of the target.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Runtime {
    /// Name of the runtime.
    pub name: &'static str,
    /// Why nothing is emitted for this runtime; empty if it is supported.
    pub unsupported_because: &'static str,
}

/// One instruction of a fence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FenceInstruction {
    /// `pipe_barrier`.
    Barrier(Barrier),
    /// `dsb`.
    Dsb,
}

/// One step of a fence: an instruction, how its necessity is known, and why it is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FenceStep {
    /// The instruction.
    pub part: FenceInstruction,
    /// How it is known that the instruction is needed.
    pub seen: Seen,
    /// The reason for it.
    pub why: &'static str,
}

/// A target.
#[derive(Clone, PartialEq, Debug)]
pub struct Profile {
    /// Name on the command line.
    pub name: &'static str,
    /// Description of the target.
    pub what: &'static str,
    /// Whether the runtime's platform of this name is a simulator that executes on the host.
    pub simulator: bool,
    /// Revisions against which the facts were checked.
    pub revisions: &'static [Revision],
    /// Runtimes; the first one is used unless the user names another.
    pub runtimes: &'static [Runtime],
    /// Bytes of the unified buffer that kernels use: 184 KiB, because the last 8 of its 192 KiB are
    /// reported corrupt.
    pub ub: u32,
    /// Bytes of L1, L0A, L0B and L0C, in this order.
    pub cube: [u32; 4],
    /// Alignment in bytes at which `passes::buffers` places tiles, so that two consecutive accesses
    /// hit different banks.
    pub ub_step: u32,
    /// Whether tasks end where they would wait for peers, and the runtime waits for them.
    pub deferred: bool,
    /// Bytes of a cache line of global memory.
    pub line: u32,
    /// Numbers that bound a kernel.
    pub limits: Limits,
    /// Maximum number of dimensions of a tensor.
    pub dims: usize,
    /// Release sequence, between the last access and the notify that publishes it. Scalar stores
    /// would also need a write-back of their cache lines here; kernels have no scalar stores except
    /// to the status line.
    pub release: &'static [FenceStep],
    /// Acquire sequence, between a wait and the first access that it permits. Scalar loads would
    /// also need an invalidation of their cache lines here; kernels read by transfers alone.
    pub acquire: &'static [FenceStep],
    /// Sequence between a get and the first use of the fetched data.
    pub complete: &'static [FenceStep],
}

/// Maximum number of ranks of a domain: the tables of windows in the runtime's `CommContext` have
/// this many entries.
pub const MAX_RANKS: u32 = 64;
/// Conditions of a task: `MAX_COMPLETIONS_PER_TASK` of the runtime.
const MAX_CONDITIONS: u64 = 64;
/// Number of vector cores of a die, as documented.
pub const MAX_CORES: u32 = 48;
/// Elements of a tile before UB makes it smaller: 16 KiB of f32, within one repeat range of a
/// vector instruction.
const TILE: u32 = 4096;
/// Rows and columns of a block of a matmul's result, as in `gemm_performance` of pto-isa: its sums
/// fill L0C.
const BLOCK: [u32; 2] = [128, 256];
/// Number of vector cores per rank of the runtime's simulator: 8 clusters.
const SIMULATED_CORES: u32 = 16;
/// Number of cube cores of a die, as documented: one for two vector cores.
pub const MAX_CUBES: u32 = 24;
/// Number of cube cores per rank of the runtime's simulator: one per cluster.
const SIMULATED_CUBES: u32 = 8;

const REVISIONS: &[Revision] = &[
    Revision { project: "hw-native-sys/simpler", commit: "6ebaf77" },
    Revision { project: "hw-native-sys/pto-isa", commit: "cd4a3d3" },
];

const RUNTIMES: &[Runtime] = &[
    Runtime { name: "tensormap_and_ringbuffer", unsupported_because: "" },
    Runtime { name: "host_build_graph", unsupported_because: "" },
    Runtime {
        name: "aicpu_build_graph",
        unsupported_because: "simpler removed it in acf3900 (#701): 6ebaf77 has neither the folder \
             src/a2a3/runtime/aicpu_build_graph nor a compiler for it, and its last revision had no launches \
             of several blocks and no `allocate_domain`",
    },
];

/// The runtimes of packages with deferred waits.
const DEFERRING_RUNTIMES: &[Runtime] = &[
    RUNTIMES[0],
    Runtime {
        name: RUNTIMES[1].name,
        unsupported_because: "with deferred waits its scheduler makes no progress (simpler 6ebaf77, a2a3sim)",
    },
    RUNTIMES[2],
];

const DRAIN: FenceStep = FenceStep {
    part: FenceInstruction::Barrier(Barrier::All),
    seen: Seen::Read,
    why: "a notify is not ordered after transfers that were issued before it",
};

const RELEASE: &[FenceStep] = &[
    DRAIN,
    FenceStep {
        part: FenceInstruction::Dsb,
        seen: Seen::Inferred,
        why: "a drained pipe does not say that peers see the data; races without it are reported upstream",
    },
];

const ACQUIRE: &[FenceStep] = &[FenceStep {
    part: FenceInstruction::Barrier(Barrier::All),
    seen: Seen::Read,
    why: "a wait polls on the scalar pipe and other pipes run on",
}];

const COMPLETE: &[FenceStep] = &[FenceStep {
    part: FenceInstruction::Barrier(Barrier::All),
    seen: Seen::Inferred,
    why: "what was fetched is in memory once the pipes are drained",
}];

const fn aiv(name: &'static str, what: &'static str, simulator: bool, deferred: bool) -> Profile {
    Profile {
        name,
        what,
        simulator,
        revisions: REVISIONS,
        runtimes: if deferred { DEFERRING_RUNTIMES } else { RUNTIMES },
        ub: 188_416,
        cube: [512 << 10, 64 << 10, 64 << 10, 128 << 10],
        ub_step: 512,
        deferred,
        line: LINE as u32,
        limits: Limits {
            ranks: MAX_RANKS,
            ranks_why: "the runtime's CommContext has room for 64 windows",
            cores: if simulator { SIMULATED_CORES } else { MAX_CORES },
            matrix_cores: if simulator { SIMULATED_CUBES } else { MAX_CUBES },
            tensors: 32,
            scalars: 16,
            conditions: MAX_CONDITIONS,
            events: 8,
            align: 32,
            tile: TILE,
            block: BLOCK,
            box_side: 16,
        },
        dims: 5,
        release: RELEASE,
        acquire: ACQUIRE,
        complete: COMPLETE,
    }
}

/// All profiles. `a5sim` has the facts of `a2a3`: only what A5 has in common with A2 and A3 is
/// emitted for it.
pub const PROFILES: [Profile; 3] = all(false);

/// The profiles with deferred waits.
pub static DEFERRING: [Profile; 3] = all(true);

const fn all(deferred: bool) -> [Profile; 3] {
    let a5 = "the simulator of Ascend A5, by what A5 has in common with A2 and A3";
    [
        aiv("a2a3", "Ascend A2 and A3", false, deferred),
        aiv("a2a3sim", "the simulator of Ascend A2 and A3", true, deferred),
        aiv("a5sim", a5, true, deferred),
    ]
}

/// Returns the range of a name that every kernel has; [`Interval::ANY`] for any other name.
pub fn known(name: &str) -> Interval {
    range::known(name, MAX_RANKS, MAX_CORES)
}

/// Returns the profile with this name.
pub fn find(name: &str) -> Option<&'static Profile> {
    PROFILES.iter().find(|p| p.name == name)
}

/// Bytes of an operand that a conversion, comparison or selection instruction processes in one
/// step.
pub const REPEAT: u32 = 256;

/// Bytes after the bits of a mask that `select` uses as working space.
pub const MASK_SCRATCH: u32 = 32;

impl Profile {
    /// Checks whether a vector instruction supports an element type. `number`: its last operand is
    /// a number and not a tile. The error is the reason why it does not.
    pub fn vector(&self, op: VecOp, dtype: DType, number: bool) -> Result<Seen, &'static str> {
        use DType::*;
        match op {
            VecOp::Add | VecOp::Sub | VecOp::Mul | VecOp::Max | VecOp::Min => match dtype {
                F32 | F16 | I32 | I16 => Ok(Seen::Read),
                BF16 => Err("bf16 is computed in f32: convert before and after"),
                _ => Err("8-bit and 64-bit elements can only be moved"),
            },
            VecOp::Div if number => Err(
                "division by a number would multiply by its rounded reciprocal: fill a tile with the number",
            ),
            VecOp::Div => match dtype {
                F32 | F16 => Ok(Seen::Read),
                I32 | I16 => Err("the core cannot divide integers"),
                _ => Err("the core cannot divide this type: convert to f32"),
            },
            VecOp::Abs | VecOp::Exp | VecOp::Log | VecOp::Sqrt | VecOp::Rsqrt => match dtype {
                F32 | F16 => Ok(Seen::Read),
                _ => Err("it exists for f32 and f16"),
            },
            VecOp::Fill => match dtype {
                I64 => Err("64-bit elements can only be moved"),
                _ if dtype.scaled().is_some() => Err("8-bit floats can only be moved"),
                _ => Ok(Seen::Read),
            },
        }
    }

    /// Checks whether a comparison supports an element type. The error is the reason why it does
    /// not.
    pub fn compare(&self, cmp: CompareOp, dtype: DType) -> Result<Seen, &'static str> {
        match (dtype, cmp) {
            (DType::F32 | DType::F16, _) | (DType::I32, CompareOp::Eq | CompareOp::Ne) => Ok(Seen::Read),
            (DType::I32, _) => {
                Err("i32 supports only `==` and `!=`; any other comparison silently becomes `==`")
            }
            _ => Err("it exists for f32, f16 and i32"),
        }
    }

    /// Returns the size in bytes of the mask tile of a `select` over `elements` elements: one bit
    /// per element, rounded up to whole steps of the instruction, followed by the working space of
    /// `select`.
    pub fn mask_bytes(&self, elements: u32, dtype: DType) -> u32 {
        let step = REPEAT / dtype.bytes() as u32;
        (elements.div_ceil(step) * step / 8).div_ceil(self.limits.align) * self.limits.align + MASK_SCRATCH
    }

    /// Returns the number of elements of which the length of a `select` operand is a multiple:
    /// comparisons read whole steps.
    pub fn select_step(&self, dtype: DType) -> u32 {
        REPEAT / dtype.bytes() as u32
    }

    /// Returns the roundings of the conversion between two element types; empty if there is no such
    /// conversion.
    pub fn convert(&self, from: DType, to: DType) -> &'static [Rounding] {
        conversion(from, to)
    }

    /// Returns the size in bytes of a memory of a core.
    pub fn bytes(&self, space: Space) -> u32 {
        match space {
            Space::Vector => self.ub,
            Space::Stage => self.cube[0],
            Space::Left => self.cube[1],
            Space::Right => self.cube[2],
            Space::Sums => self.cube[3],
        }
    }

    /// Checks whether a core has this barrier. A barrier of a pipe that the core does not have
    /// hangs it.
    pub fn barrier(&self, core: Core, barrier: Barrier) -> bool {
        match barrier {
            Barrier::All => true,
            Barrier::Pipe(p) => core.pipes().contains(&p),
        }
    }

    /// Checks whether the cube unit multiplies elements of this type with f32 sums. The error is
    /// the reason why it does not.
    pub fn multiply(&self, dtype: DType) -> Result<Seen, &'static str> {
        match dtype {
            DType::F32 | DType::F16 | DType::BF16 => Ok(Seen::Read),
            DType::I8 => Err("products of i8 are accumulated in i32, which kbc does not support"),
            _ => Err("the unit multiplies only f32, f16 and bf16"),
        }
    }

    /// Checks whether the scalar unit can read a row index of this type from a tile in UB, after a
    /// flag of the pipe that wrote it. The error is the reason why it cannot.
    pub fn choose(&self, dtype: DType) -> Result<Seen, &'static str> {
        match dtype {
            DType::I32 | DType::I64 => Ok(Seen::Read),
            _ => Err("row numbers must be i32 or i64"),
        }
    }

    /// Checks whether `op` can reduce a row of this element type. The error is the reason why it
    /// cannot.
    pub fn reduce(&self, op: VecOp, dtype: DType) -> Result<Seen, &'static str> {
        match (op, dtype) {
            (VecOp::Add | VecOp::Max | VecOp::Min, DType::F32 | DType::F16) => Ok(Seen::Read),
            (VecOp::Add | VecOp::Max | VecOp::Min, _) => Err("only rows of f32 and f16 can be combined"),
            _ => Err("a row can be reduced only by sum, max or min"),
        }
    }

    /// Returns the runtime with this name.
    ///
    /// # Errors
    /// Returns E451 if the target has no such runtime or nothing is emitted for it.
    pub fn runtime(&self, name: &str) -> Result<&'static Runtime, Diagnostic> {
        let found = self.runtimes.iter().find(|r| r.name == name);
        match found {
            Some(r) if r.unsupported_because.is_empty() => Ok(r),
            Some(r) => Err(Diagnostic::error("E451", format!("the runtime {name} is not supported"))
                .note(r.unsupported_because)
                .help(format!("use {}", self.runtimes[0].name))),
            None => Err(Diagnostic::error("E451", format!("{} has no runtime {name}", self.name))
                .help(format!("use {}", self.runtimes[0].name))),
        }
    }
}

impl FenceStep {
    /// Returns the operation of the tile level for this step.
    pub fn op(&self) -> Op {
        match self.part {
            FenceInstruction::Barrier(b) => Op::Barrier(b),
            FenceInstruction::Dsb => Op::MemoryBarrier,
        }
    }
}

/// Returns the roundings of the conversion between two element types on vector cores; empty if
/// there is no such conversion.
fn conversion(from: DType, to: DType) -> &'static [Rounding] {
    use DType::*;
    match (from, to) {
        (F16 | BF16 | I16, F32) | (I8 | U8, F16) | (I32, I64) => &[Rounding::Exact],
        (F32, F16 | BF16 | I32 | I16) | (F16 | BF16, I32) => &[Rounding::Nearest, Rounding::Zero],
        (I32, F32) | (I16, F16) => &[Rounding::Nearest],
        _ => &[],
    }
}

impl Device for Profile {
    fn dialect(&self) -> &'static Dialect {
        &DIALECT
    }

    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn defers_waits(&self) -> bool {
        self.deferred
    }

    fn in_order(&self) -> bool {
        false
    }

    fn shares_inputs(&self) -> bool {
        false
    }

    fn bytes(&self, space: Space) -> u32 {
        self.bytes(space)
    }

    fn vector(&self, op: VecOp, dtype: DType, number: bool) -> Result<(), &'static str> {
        self.vector(op, dtype, number).map(drop)
    }

    fn compare(&self, cmp: CompareOp, dtype: DType) -> Result<(), &'static str> {
        self.compare(cmp, dtype).map(drop)
    }

    fn select_step(&self, dtype: DType) -> u32 {
        self.select_step(dtype)
    }

    fn mask_bytes(&self, elements: u32, dtype: DType) -> u32 {
        self.mask_bytes(elements, dtype)
    }

    fn convert(&self, from: DType, to: DType) -> &'static [Rounding] {
        self.convert(from, to)
    }

    fn reduce(&self, op: VecOp, dtype: DType) -> Result<(), &'static str> {
        self.reduce(op, dtype).map(drop)
    }

    fn expand(&self, dtype: DType) -> bool {
        matches!(dtype, DType::F32 | DType::F16 | DType::I32 | DType::I16)
    }

    fn holds_rows(&self) -> bool {
        true
    }

    fn choose(&self, dtype: DType) -> Result<(), &'static str> {
        self.choose(dtype).map(drop)
    }

    fn multiply(&self, dtype: DType) -> Result<(), &'static str> {
        self.multiply(dtype).map(drop)
    }

    fn sums(&self, dtype: DType) -> bool {
        matches!(dtype, DType::F32 | DType::F16 | DType::BF16)
    }

    fn barrier(&self, core: Core, barrier: Barrier) -> bool {
        self.barrier(core, barrier)
    }

    fn narrow_fields<'o>(&self, op: &'o Op) -> Vec<NarrowField<'o>> {
        narrow::fields(op)
    }

    fn chain(&self, func: &ScalarFn, dtype: DType) -> Result<Chain, Diagnostic> {
        elementwise::chain(func, dtype)
    }
}
