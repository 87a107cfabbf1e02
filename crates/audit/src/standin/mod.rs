//! Stand-in execution of emitted kernels: they are compiled with stand-in headers and run, with
//! ranks as threads, under the memory model of these headers. A rule of the model ends a run if a
//! fence, flag, wait or notify is missing.
//!
//! A [`Compiled`] program is the result of one compilation: the kernels of one program with its
//! orchestration, or of many programs, so that headers are read and objects linked once for all. It
//! runs many [`Job`]s in one process. The caller has the compiler and the headers ([`Runner`]);
//! [`mod@unit`] makes the text to compile, and [`job`] the text of runs. Nothing here knows what a
//! kernel computes, except [`case`].

pub mod case;
pub mod job;
pub mod unit;

pub use job::{Job, KernelArg, Outputs, size};

/// Compiles emitted programs and runs them under the memory model.
pub trait Runner {
    /// Compiles programs together. They are numbered in this order ([`Job::program`]).
    ///
    /// # Errors
    /// Returns the compiler's messages, or a message if files cannot be written.
    fn compile(&self, programs: &[StandinSource<'_>]) -> Result<Box<dyn Compiled>, String>;
}

/// Programs that were compiled and linked together.
pub trait Compiled {
    /// Runs the jobs one after another in one process. Returns the outputs of each, or why the
    /// model ended its run.
    ///
    /// # Errors
    /// Returns a message if the run itself failed.
    fn run_all(&self, jobs: &[Job]) -> Result<Vec<Result<Outputs, String>>, String>;

    /// Removes the compiled files.
    fn discard(self: Box<Self>);
}

/// A kernel of a program, and the type of its core.
#[derive(Clone, Copy, Debug)]
pub struct Kernel<'a> {
    /// C++ text of the kernel.
    pub text: &'a str,
    /// Whether it is for a cube core; otherwise it is for a vector core.
    pub cube: bool,
}

/// Source of an orchestration and the names of its two functions.
#[derive(Clone, Copy, Debug)]
pub struct Orchestration<'a> {
    /// C++ text of the orchestration.
    pub text: &'a str,
    /// The function that returns the number of arguments.
    pub config: &'a str,
    /// The function that submits tasks.
    pub run: &'a str,
}

/// One program: its kernels in the order of their numbers, and its orchestration if it has one.
#[derive(Clone, Debug)]
pub struct StandinSource<'a> {
    /// The kernels; at least one.
    pub kernels: Vec<Kernel<'a>>,
    /// The orchestration. Without one, kernel 0 gets the arguments unchanged.
    pub orchestration: Option<Orchestration<'a>>,
}
