//! The stand-in headers of `tests/ascend/standin` with a C++ compiler: the runner of
//! [`kbc_audit::standin`].
//!
//! Compiled programs stay in the build folder, under a name that is a hash of everything they were
//! made from.

use crate::native::NativeTool;
use kbc_audit::standin::{Compiled, Job, Outputs, Runner, StandinSource, job, unit};
use kbc_diag::Diagnostic;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// Compiler flags with which the emitted text must compile.
const FLAGS: [&str; 7] =
    ["-std=c++17", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off", "-O1", "-pthread"];
/// Sources of the model that do not depend on the kernel.
const COMMON: [&str; 2] = ["model", "runner"];
/// Folder of the headers in a source checkout.
const PLACE: &str = "tests/ascend/standin";
/// A file that identifies the folder of the headers.
const MODEL: &str = "standin/model.cpp";

/// Headers, a compiler for them, and a build folder.
#[derive(Clone, Debug)]
pub struct Standin {
    headers: PathBuf,
    build: PathBuf,
    compiler: NativeTool,
    /// Hash of the compiler, its flags and all headers.
    key: u64,
}

/// Programs that were compiled and linked together.
#[derive(Clone, Debug)]
pub struct Program {
    folder: PathBuf,
}

fn failed(what: &Path) -> impl Fn(std::io::Error) -> String {
    move |e| format!("{}: {e}", what.display())
}

fn files(dir: &Path, out: &mut Vec<PathBuf>) -> Result<(), String> {
    for entry in std::fs::read_dir(dir).map_err(failed(dir))? {
        let path = entry.map_err(failed(dir))?.path();
        if path.is_dir() { files(&path, out)? } else { out.push(path) }
    }
    out.sort();
    Ok(())
}

impl Standin {
    /// Creates a stand-in with the headers of a folder. The compiler is `CXX` or `g++`. The folder
    /// `build` is created by the first compilation.
    ///
    /// # Errors
    /// Returns E563 if the folder has no such headers, and E564 if the compiler does not run.
    pub fn new(headers: &Path, build: &Path) -> Result<Standin, Diagnostic> {
        let absent = |why: String| {
            Diagnostic::error("E563", format!("no stand-in headers in {}", headers.display())).note(why).help(
                format!(
                    "the headers are `{PLACE}` in the source of kbc: run in a checkout, or give the folder with --standin"
                ),
            )
        };
        if !headers.join(MODEL).is_file() {
            return Err(absent(format!("there is no {MODEL}")));
        }
        let help = "emitted kernels are compiled as C++17: install g++, or set CXX";
        let compiler = NativeTool::find("compiler", "CXX", "g++", help)?;
        let mut hash = DefaultHasher::new();
        (&compiler, FLAGS).hash(&mut hash);
        let mut all = vec![];
        files(headers, &mut all).map_err(absent)?;
        for file in all {
            let bytes = std::fs::read(&file).map_err(|e| absent(failed(&file)(e)))?;
            (file.strip_prefix(headers).unwrap_or(&file), bytes).hash(&mut hash);
        }
        let headers = std::path::absolute(headers).unwrap_or_else(|_| headers.to_owned());
        Ok(Standin { headers, build: build.to_owned(), compiler, key: hash.finish() })
    }

    /// Compiles programs together. They are numbered in this order ([`Job::program`]).
    ///
    /// # Errors
    /// Returns the compiler's messages, or a message if files cannot be written.
    pub fn compile(&self, programs: &[StandinSource<'_>]) -> Result<Program, String> {
        let objects = self.folder("model", "", |dir| {
            COMMON.iter().try_for_each(|name| {
                let source = self.headers.join(format!("standin/{name}.cpp"));
                let object = format!("{name}.o");
                self.compile_one(dir, &["-c", &source.display().to_string(), "-o", &object])
            })
        });
        let objects = objects.map_err(|e| format!("the stand-in model does not compile:\n{e}"))?;
        let unit::Unit { headers, files } = unit::unit(programs);
        let precompiled = self.folder("headers", &headers, |dir| {
            std::fs::write(dir.join(unit::HEADERS), &headers).map_err(failed(dir))?;
            // g++ takes this file in place of the header. Other compilers may not.
            let object = format!("{}.gch", unit::HEADERS);
            self.compile_one(dir, &["-x", "c++-header", unit::HEADERS, "-o", &object])
        })?;
        let here = format!("-I{}", precompiled.display());
        let all: Vec<&str> = files.iter().flat_map(|f| [f.0.as_str(), f.1.as_str()]).collect();
        let all = [headers.as_str(), &all.join("\n")].concat();
        let folder = self.folder("program", &all, |dir| {
            for (name, text) in &files {
                std::fs::write(dir.join(name), text).map_err(failed(dir))?;
            }
            self.compile_one(dir, &[&here, "-c", unit::MAIN, "-o", "unit.o"])?;
            let mut args =
                vec!["-pthread".to_owned(), "-o".to_owned(), "program".to_owned(), "unit.o".to_owned()];
            args.extend(COMMON.map(|name| objects.join(format!("{name}.o")).display().to_string()));
            let args: Vec<&str> = args.iter().map(String::as_str).collect();
            self.compiler.call(&args, dir)
        })?;
        Ok(Program { folder })
    }

    /// Returns a folder inside the build folder. If it does not exist yet, `build` fills it.
    fn folder(
        &self,
        what: &str,
        content: &str,
        build: impl FnOnce(&Path) -> Result<(), String>,
    ) -> Result<PathBuf, String> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let mut hash = DefaultHasher::new();
        (self.key, content).hash(&mut hash);
        let name = format!("{what}-{:016x}", hash.finish());
        let root = std::path::absolute(&self.build).map_err(failed(&self.build))?;
        let done = root.join(&name);
        if done.is_dir() {
            return Ok(done);
        }
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let making = root.join(format!("{name}.{}-{n}", std::process::id()));
        std::fs::create_dir_all(&making).map_err(failed(&making))?;
        let built = build(&making);
        // Another process may have made the same folder at the same time.
        if built.is_err() || std::fs::rename(&making, &done).is_err() {
            std::fs::remove_dir_all(&making).map_err(failed(&making))?;
        }
        built.map(|()| done)
    }

    fn compile_one(&self, dir: &Path, what: &[&str]) -> Result<(), String> {
        let include = format!("-I{}", self.headers.display());
        self.compiler.call(&[&FLAGS[..], &[&include], what].concat(), dir)
    }
}

impl Program {
    /// Runs the jobs one after another in one process. Returns the outputs of each, or why the
    /// model ended its run.
    ///
    /// # Errors
    /// Returns a message if the run itself failed: the process did not exit normally, or files
    /// cannot be written.
    pub fn run_all(&self, jobs: &[Job]) -> Result<Vec<Result<Outputs, String>>, String> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let file = |what: &str| self.folder.join(format!("{what}.{}-{n}", std::process::id()));
        let paths = [file("jobs"), file("input"), file("output")];
        let (text, input) = job::files(jobs);
        std::fs::write(&paths[0], text).map_err(failed(&paths[0]))?;
        std::fs::write(&paths[1], input).map_err(failed(&paths[1]))?;
        let ran =
            Command::new(self.folder.join("program")).args(&paths).output().map_err(failed(&self.folder))?;
        let data = std::fs::read(&paths[2]).unwrap_or_default();
        for path in paths {
            // A file that cannot be removed stays in the build folder.
            let _ = std::fs::remove_file(path);
        }
        if !ran.status.success() {
            let words = String::from_utf8_lossy(&ran.stderr);
            return Err(format!("the run itself failed ({}): {words}", ran.status));
        }
        job::outputs(jobs, &String::from_utf8_lossy(&ran.stdout), &data)
    }

    /// Removes the compiled files.
    pub fn discard(self) {
        // A folder that cannot be removed stays in the build folder.
        let _ = std::fs::remove_dir_all(self.folder);
    }
}

impl Runner for Standin {
    fn compile(&self, programs: &[StandinSource<'_>]) -> Result<Box<dyn Compiled>, String> {
        Ok(Box::new(Standin::compile(self, programs)?))
    }
}

impl Compiled for Program {
    fn run_all(&self, jobs: &[Job]) -> Result<Vec<Result<Outputs, String>>, String> {
        Program::run_all(self, jobs)
    }

    fn discard(self: Box<Self>) {
        Program::discard(*self);
    }
}
