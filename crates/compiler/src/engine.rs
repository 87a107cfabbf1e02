//! Engine: executes a schedule as machine code or with the interpreter.

use crate::watch::Watch;
use crate::workspace::{Stage, Workspace};
use kbc_backend_sim::failure::RunFailure;
use kbc_backend_sim::interp::{self, RunOptions, RunResult};
use kbc_backend_sim::jit;
use kbc_ir::Expr;
use kbc_ir::host::with_host_region;
use kbc_ir::schedule::{RankSet, SStmt, Schedule};
use kbc_numerics::tensor::Tensor;

/// What carries out a schedule's operations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Engine {
    /// Machine code, made by cranelift; bit for bit what the interpreter does.
    Jit,
    /// The interpreter, which defines what a schedule means.
    Interp,
}

/// Largest number of operations outside loops, of single ranks, that are compiled. Each is executed
/// once per call, and compiling one takes far longer than the interpreter takes to execute it
/// (docs/adr/069-sizes.md).
const COMPILED: usize = 2_000;

/// Nanoseconds that it takes to compile such an operation (docs/adr/082-proofs-at-scale.md).
const COMPILING: u64 = 100_000;

/// Nanoseconds by which the interpreter is slower for each element of a buffer, which a schedule
/// reads and writes a few times.
const INTERPRETING: u64 = 10;

impl Engine {
    /// Returns the engine that was asked for. Without a wish it is machine code, or the interpreter
    /// if the schedule is written out for every rank and is long or has little data.
    pub fn chosen(asked: Option<Engine>, schedule: &Schedule) -> Engine {
        asked.unwrap_or_else(|| {
            let roles = schedule.regions.iter().flat_map(|r| &r.roles);
            let single = roles.filter(|r| matches!(&r.ranks, RankSet::List(l) if l.len() == 1));
            let operations: usize = single.flat_map(|r| &r.streams).map(|s| outside_loops(&s.body)).sum();
            let compiling = (operations as u64).saturating_mul(COMPILING);
            let little = elements(schedule).saturating_mul(INTERPRETING) < compiling;
            if operations > COMPILED || little { Engine::Interp } else { Engine::Jit }
        })
    }

    /// Name on the command line and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Engine::Jit => "jit",
            Engine::Interp => "interp",
        }
    }

    /// Executes a schedule on all ranks. The watch is told about compiling and running.
    ///
    /// # Errors
    /// Returns the errors of compiling and of the run; those of a run contain the state of each
    /// rank.
    pub fn attempt(
        self,
        workspace: &Workspace,
        watch: &mut dyn Watch,
        schedule: &Schedule,
        inputs: &[Vec<Tensor>],
        options: &RunOptions,
    ) -> Result<RunResult, Box<RunFailure>> {
        workspace.stage(Stage::Run);
        watch.begins();
        match self {
            Engine::Interp => {
                let result = interp::attempt(schedule, inputs, options)?;
                watch.ends("execute (interp)");
                Ok(result)
            }
            Engine::Jit => {
                let spelled = with_host_region(schedule);
                let code = jit::compile(&spelled)?;
                let stats = code.stats();
                watch.ends(&format!("jit: {} functions, {} bytes", stats.functions, stats.bytes));
                watch.begins();
                let result = code.attempt(inputs, options)?;
                watch.ends("execute (jit)");
                Ok(result)
            }
        }
    }
}

/// Returns the number of elements of all buffers on all ranks. A buffer whose size differs between
/// ranks counts as large.
fn elements(schedule: &Schedule) -> u64 {
    let size = |dims: &[Expr]| {
        let sizes = dims.iter().map(|d| d.as_int().and_then(|d| u64::try_from(d).ok()));
        sizes.fold(1u64, |n, d| n.saturating_mul(d.unwrap_or(u64::MAX)))
    };
    let of_rank = schedule.buffers.iter().fold(0u64, |n, b| n.saturating_add(size(&b.dims)));
    of_rank.saturating_mul(schedule.mesh.ranks())
}

/// Returns the number of operations that no loop repeats.
fn outside_loops(list: &[SStmt]) -> usize {
    let each = |s: &SStmt| match s {
        SStmt::For { .. } => 0,
        SStmt::If { then, other, .. } => outside_loops(then) + outside_loops(other),
        SStmt::Op(..) => 1,
    };
    list.iter().map(each).sum()
}
