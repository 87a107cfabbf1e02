//! Which engine executes a schedule, and how long compiling and running took.
//!
//! Owns the choice and the clock; both engines are `kbc_backend_sim`.

use crate::crash::{self, Stage};
use crate::session::Session;
use clap::ValueEnum;
use kbc_backend_sim::failure::RunFailure;
use kbc_backend_sim::interp::{self, RunOptions, RunResult};
use kbc_backend_sim::jit;
use kbc_ir::host::spelled;
use kbc_ir::schedule::Schedule;
use kbc_numerics::tensor::Tensor;
use std::time::Instant;

/// What carries out a schedule's operations.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
pub enum Engine {
    /// Machine code, made by cranelift; bit for bit what the interpreter does.
    #[default]
    Jit,
    /// The interpreter, which defines what a schedule means.
    Interp,
}

impl Engine {
    /// Name on the command line and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Engine::Jit => "jit",
            Engine::Interp => "interp",
        }
    }

    /// Executes a schedule on all ranks. With `timings`, says on standard error how long compiling and running took,
    /// and what was compiled.
    ///
    /// # Errors
    /// Of compiling and of the run; those of a run tell what each rank came to.
    pub fn attempt(
        self,
        session: &Session,
        timings: bool,
        schedule: &Schedule,
        inputs: &[Vec<Tensor>],
        options: &RunOptions,
    ) -> Result<RunResult, Box<RunFailure>> {
        let row = |begin: Instant, what: &str| {
            if timings {
                session.words(&format!("{:>10.3} ms  {what}\n", begin.elapsed().as_secs_f64() * 1e3));
            }
        };
        crash::stage(Stage::Run);
        let begin = Instant::now();
        match self {
            Engine::Interp => {
                let result = interp::attempt(schedule, inputs, options)?;
                row(begin, "execute (interp)");
                Ok(result)
            }
            Engine::Jit => {
                let spelled = spelled(schedule);
                let code = jit::compile(&spelled)?;
                let stats = code.stats();
                row(begin, &format!("jit: {} functions, {} bytes", stats.functions, stats.bytes));
                let begin = Instant::now();
                let result = code.attempt(inputs, options)?;
                row(begin, "execute (jit)");
                Ok(result)
            }
        }
    }
}
