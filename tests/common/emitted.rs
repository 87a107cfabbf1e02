//! [`kbc_audit::standin::case::Case`] for tests: made from texts and files; every failure is a
//! panic.

use crate::standin::{self, Job, Outputs, Run, StandinSource};
use clap::Parser;
use kbc::cli::{Cli, Command};
use kbc::session::{Failure, Session};
use kbc_audit::standin::case::{self, Sized, words};
use kbc_compiler::build;
use kbc_compiler::watch::Unwatched;
use kbc_tiles::backend::Target;
use std::ops::{Deref, DerefMut};
use std::path::Path;

/// A program's kernel.
pub struct Case(case::Case);

impl Deref for Case {
    type Target = case::Case;

    fn deref(&self) -> &case::Case {
        &self.0
    }
}

impl DerefMut for Case {
    fn deref_mut(&mut self) -> &mut case::Case {
        &mut self.0
    }
}

fn failed(f: Failure) -> String {
    words(&f.into_parts().0)
}

impl Case {
    /// Emits a program; the error is kbc's message.
    pub fn new(source: &str, defines: &[&str]) -> Result<Case, String> {
        let mut line = vec!["kbc", "compile", "case.kb", "--quiet"];
        defines.iter().for_each(|d| line.extend(["-D", d]));
        Self::of_command(&Cli::parse_from(line), vec![("case.kb".into(), source.into())])
    }

    /// Emits the program of a file.
    pub fn of_file(path: &Path) -> Result<Case, String> {
        Self::of_file_with(path, &[])
    }

    /// Emits the program of a file with parameters set, such as `tp=2`.
    pub fn of_file_with(path: &Path, defines: &[&str]) -> Result<Case, String> {
        let path = path.to_string_lossy();
        let mut line = vec!["kbc", "compile", &path, "--quiet"];
        defines.iter().for_each(|d| line.extend(["-D", d]));
        Self::of_command(&Cli::parse_from(line), vec![])
    }

    /// Emits the program of a file with any flags.
    pub fn of_file_as(path: &Path, flags: &[&str]) -> Result<Case, String> {
        let path = path.to_string_lossy();
        let line = ["kbc", "compile", &path, "--quiet"].into_iter().chain(flags.iter().copied());
        Self::of_command(&Cli::parse_from(line), vec![])
    }

    /// Emits a program for a target that differs from the usual one in the numbers of its cores.
    pub fn for_target(source: &str, target: &'static dyn Target) -> Result<Case, String> {
        let cli = Cli::parse_from(["kbc", "compile", "case.kb", "--quiet"]);
        Self::of_command_for(&cli, vec![("case.kb".into(), source.into())], Some(target))
    }

    fn of_command(cli: &Cli, texts: Vec<(String, String)>) -> Result<Case, String> {
        Self::of_command_for(cli, texts, None)
    }

    fn of_command_for(
        cli: &Cli,
        texts: Vec<(String, String)>,
        target: Option<&'static dyn Target>,
    ) -> Result<Case, String> {
        let Command::Compile(args) = &cli.command else { unreachable!("the line says compile") };
        let mut session = Session::new(cli).fresh(texts);
        let built =
            build::build(&mut session, &args.source.plain(), "tasks", &mut Unwatched).map_err(failed)?;
        let deferring = || kbc_compiler::backends::default_target().with_deferred_waits();
        let case = match target.or_else(|| args.deferred_waits.then(deferring).flatten()) {
            Some(target) => case::Case::emit_for(session.into(), built, target),
            None => case::Case::emit(session.into(), built),
        };
        case.map(Case).map_err(failed)
    }

    /// Emits a schedule written in the IR's text.
    pub fn of_schedule(name: &str, source: &str) -> Result<Case, String> {
        let cli = Cli::parse_from(["kbc", "check", name, "--quiet"]);
        let mut session = Session::new(&cli).fresh(vec![(name.into(), source.into())]);
        let (_, module) = kbc_compiler::load::load_kir(&mut session, name).map_err(failed)?;
        let schedule = module.schedule().ok_or("no schedule")?.clone();
        case::Case::of_schedule(session.into(), &schedule).map(Case).map_err(failed)
    }

    /// Returns a size with its job.
    pub fn at(&mut self, ranks: u64, count: u64, calls: usize) -> Sized {
        self.0.at(ranks, count, calls).unwrap_or_else(|e| panic!("{e}"))
    }

    /// Returns a size with its job for these inputs.
    pub fn at_with(&mut self, size: (u64, u64), calls: u32, feed: case::Feed<'_>) -> Sized {
        self.0.at_with(size, calls, feed).unwrap_or_else(|e| panic!("{e}"))
    }

    /// Compiles the kernel, with its orchestration if it is a program of tasks; nothing if there is
    /// no C++ compiler.
    pub fn program(&self) -> Option<standin::Program> {
        self.program_of(&self.source())
    }

    /// Compiles another source; nothing if there is no C++ compiler.
    pub fn program_of(&self, source: &StandinSource<'_>) -> Option<standin::Program> {
        let program = standin::standin()?.compile(std::slice::from_ref(source));
        Some(program.unwrap_or_else(|e| panic!("{e}\n{:?}\n{}", source.orchestration, self.text)))
    }

    /// Checks that outputs are right, and that the evaluator has a bound for every element.
    pub fn same(&self, sized: &Sized, got: &Outputs) -> Result<(), String> {
        match self.0.same(sized, got)? {
            c if c.unbounded > 0 => Err(format!("{} elements have no bound", c.unbounded)),
            _ => Ok(()),
        }
    }

    /// Runs the kernel at one size; returns the expected and the actual outputs, or nothing if
    /// there is no C++ compiler.
    pub fn outputs(&mut self, ranks: u64, count: u64, calls: usize) -> Option<(Sized, Outputs)> {
        let program = self.program()?;
        let sized = self.at(ranks, count, calls);
        let got = program.run_one(&sized.job).unwrap_or_else(|e| panic!("{e}\n{}", self.text));
        Some((sized, got))
    }

    /// Compiles the kernel and runs it at the size of its program, if there is a C++ compiler.
    pub fn check_own(&mut self, calls: usize) {
        self.check(&[self.own()], calls);
    }

    /// Compiles the kernel once and runs it at all sizes, if there is a C++ compiler.
    pub fn check(&mut self, sizes: &[(u64, u64)], calls: usize) {
        let Some(program) = self.program() else { return };
        let sized: Vec<Sized> = sizes.iter().map(|(p, n)| self.at(*p, *n, calls)).collect();
        let jobs: Vec<Job> = sized.iter().map(|s| s.job.clone()).collect();
        for (s, got) in sized.iter().zip(program.run(&jobs)) {
            let at = format!("{} ranks, count {}", s.ranks, s.count);
            match got {
                Ok(got) => self.same(s, &got).unwrap_or_else(|e| panic!("{at}: {e}\n{}", self.text)),
                Err(e) => panic!("{at}: {e}\n{}", self.text),
            }
        }
    }
}
