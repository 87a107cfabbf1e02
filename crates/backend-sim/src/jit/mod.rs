//! JIT compiler: executes schedules as machine code, bit for bit like the interpreter.
//!
//! Each stream of each role of a region becomes one resumable function (`role`). It has control
//! flow, peers, chunk addresses and slots in machine code (`number`, `address`), including
//! every check of the walk. Elementwise work consists of kernels: reductions into chunks and fused
//! chains (`kernel`, `element`), whole-tensor operations (`local`). Halves go through f32 a
//! block at a time; functions like `exp` and the matmul are the interpreter's own routines
//! (`calls`). An operation that cannot be compiled is an error (E374) and is never interpreted.
//!
//! The module owns [`compile`] and [`Compiled::run`]. If a run meets a fault, the interpreter
//! explains it, because it defines what is wrong. If it disagrees, the JIT has a bug, which is
//! reported as E992.

mod abi;
mod address;
pub(crate) mod calls;
pub(crate) mod deferred;
mod element;
mod kernel;
mod local;
mod loops;
mod memories;
mod module;
mod number;
mod plan;
mod queues;
mod recipe;
mod role;
mod run;
mod tables;
mod tiles;
mod words;
mod world;

use crate::failure::RunFailure;
use crate::host::{Host, too_large};
use crate::interp::{self, RunOptions, RunResult};
use crate::lifetimes::Lifetimes;
use kbc_diag::{Diagnostic, Diagnostics};
use kbc_ir::schedule::Schedule;
use kbc_ir::walk::Program;
use kbc_ir::walk::code::CStmt;
use kbc_numerics::tensor::Tensor;
use memories::{Memories, PUT_OFF};
use module::Code;
use recipe::{Chain, Recipe, Uses};
use run::{Entries, Entry};
use std::collections::BTreeMap;
use tables::Tables;
use world::{Stop, World};

/// Statistics of a compilation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    /// Number of functions: one per stream of a role of a region, and one per kernel.
    pub functions: u64,
    /// Bytes of machine code.
    pub bytes: u64,
}

/// A schedule as machine code.
pub struct Compiled<'s> {
    schedule: &'s Schedule,
    program: Program<'s>,
    tables: Tables,
    recipes: BTreeMap<u32, Recipe>,
    entries: Entries,
    lifetimes: Lifetimes,
    room: usize,
    put_off: usize,
    stats: Stats,
    // Keeps the code alive; freed when this value is dropped.
    module: Option<cranelift::jit::JITModule>,
}

fn refused(why: String) -> Diagnostic {
    Diagnostic::error("E374", "this schedule cannot be compiled to machine code")
        .note(why)
        .help("run it with `--engine interp`")
}

/// Compiles a schedule. The host's program, if there is one, must be expanded first
/// ([`kbc_ir::host::with_host_region`]). Errors: E301 (names without a value), E374 (an operation
/// that cannot be compiled).
pub fn compile(schedule: &Schedule) -> Result<Compiled<'_>, Diagnostics> {
    let program = Program::compile(schedule)?;
    let mut tables = Tables::default();
    let mut code = Code::new(program.ops).map_err(refused)?;
    let uses = Uses::of(&program);
    for list in program.regions.iter().flat_map(|r| &r.roles).flat_map(|r| &r.streams) {
        chains(&mut code, &program, &uses, &list.1);
    }
    let mut bodies = vec![];
    for (i, r) in program.regions.iter().enumerate() {
        let mut roles = vec![];
        for (j, role) in r.roles.iter().enumerate() {
            let mut streams = vec![];
            for (stream, list) in &role.streams {
                let name = format!("region{i}.role{j}.stream{stream}");
                let body = role::body(&mut code, &program, &mut tables, i, &name, list).map_err(refused)?;
                streams.push((*stream, body));
            }
            roles.push(streams);
        }
        bodies.push(roles);
    }
    code.compile().map_err(refused)?;
    code.module.finalize_definitions().map_err(|e| refused(e.to_string()))?;
    let entries = bodies
        .into_iter()
        .map(|roles| {
            roles
                .into_iter()
                .map(|streams| {
                    streams.into_iter().map(|(s, b)| (s, entry(&code, b.function, b.frame))).collect()
                })
                .collect()
        })
        .collect();
    let stats = Stats { functions: code.functions, bytes: code.bytes };
    let Code { module, recipes, room, .. } = code;
    let lifetimes = Lifetimes::of(&program);
    Ok(Compiled {
        schedule,
        program,
        tables,
        recipes,
        entries,
        lifetimes,
        room,
        put_off: PUT_OFF,
        stats,
        module: Some(module),
    })
}

fn entry(code: &Code, id: cranelift::module::FuncId, frame: usize) -> Entry {
    let pointer = code.module.get_finalized_function(id);
    #[allow(unsafe_code, reason = "a pointer to finished code becomes a function")]
    // SAFETY: the function was defined with this signature, and the module outlives every entry
    // (`Compiled` owns both).
    let function = unsafe { std::mem::transmute::<*const u8, abi::RoleFn>(pointer) };
    Entry { function, frame }
}

/// Finds chains of elementwise operations in a body.
fn chains(code: &mut Code, program: &Program<'_>, uses: &Uses, list: &[CStmt<'_>]) {
    let mut at = 0;
    while at < list.len() {
        match &list[at] {
            CStmt::For { body, .. } => chains(code, program, uses, body),
            CStmt::If { then, other, .. } => {
                chains(code, program, uses, then);
                chains(code, program, uses, other);
            }
            CStmt::Written(_) => {}
            CStmt::Op(..) => {
                if let Some((chain, numbers)) = Chain::first(program, uses, &list[at..]) {
                    code.chains.insert(numbers[0], numbers.len());
                    code.recipes.insert(numbers[0], Recipe::Chain(chain));
                    at += numbers.len();
                    continue;
                }
            }
        }
        at += 1;
    }
}

impl Compiled<'_> {
    /// Returns the statistics of the compilation.
    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// Puts off copies of at least so many bytes until their elements are needed elsewhere. Results
    /// do not depend on it.
    pub fn put_off_from(&mut self, bytes: usize) {
        self.put_off = bytes;
    }

    /// Runs the schedule on all ranks, with the same inputs, options, results and errors as
    /// [`interp::run`]. With a seed, the stream that runs and the length of its turn are drawn;
    /// results do not depend on it.
    pub fn run(&self, inputs: &[Vec<Tensor>], options: &RunOptions) -> Result<RunResult, Diagnostics> {
        self.attempt(inputs, options).map_err(|f| f.diagnostics)
    }

    /// Does the same as [`Compiled::run`], and reports for each rank that did not reach its end the
    /// reason.
    ///
    /// # Errors
    /// Returns those of [`interp::attempt`].
    pub fn attempt(
        &self,
        inputs: &[Vec<Tensor>],
        options: &RunOptions,
    ) -> Result<RunResult, Box<RunFailure>> {
        match self.run_alone(inputs, options)? {
            Some(result) => Ok(result),
            None => match interp::attempt(self.schedule, inputs, options) {
                Err(why) => Err(why),
                Ok(_) => Err(Diagnostic::error("E992", "compiled code fails where the interpreter succeeds")
                    .note("addresses beyond 63 bits are such a case")
                    .help("run it with `--engine interp`, and report this")
                    .into()),
            },
        }
    }

    /// Does the same without the interpreter. Returns None if a run met a fault or came to a
    /// standstill.
    pub fn run_alone(
        &self,
        inputs: &[Vec<Tensor>],
        options: &RunOptions,
    ) -> Result<Option<RunResult>, Diagnostics> {
        let frame = run::frame(&self.program, &self.entries);
        let tables = self.tables.pointers();
        let attempt = |keeps: bool| -> Result<_, Diagnostics> {
            let host = Host::new(&self.program, inputs)?;
            let memories = Memories::new(&self.program, options.max_bytes, keeps, self.put_off);
            let compiled = (&self.recipes, &self.lifetimes, frame);
            let world = World::new(&self.program, compiled, host, options.calls, memories);
            Ok(world.and_then(|w| run::run(w, &self.entries, &tables, self.room, options.seed)))
        };
        let mut done = attempt(false)?;
        if let Err(Stop::Lost) = done {
            done = attempt(true)?;
        }
        match done {
            Ok(result) => Ok(Some(result)),
            Err(Stop::Fault | Stop::Lost) => Ok(None),
            Err(Stop::TooLarge) => Err(too_large(options.max_bytes).into()),
            Err(Stop::Host(d)) => Err(d.into()),
        }
    }
}

impl Drop for Compiled<'_> {
    fn drop(&mut self) {
        if let Some(module) = self.module.take() {
            #[allow(unsafe_code, reason = "code is freed by hand")]
            // SAFETY: the entries are dropped with this value, and nothing else has pointers into
            // the code.
            unsafe {
                module.free_memory();
            }
        }
    }
}
