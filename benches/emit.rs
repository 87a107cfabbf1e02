//! Benchmark: making a package from a proven schedule, in memory. It includes making and proving
//! the program at its other sizes, comparing kernels, passes, verifier, C++ and all files. Target:
//! 50 ms. The parts are also measured separately.

#[path = "../tests/real/driver.rs"]
mod driver;

use divan::Bencher;
use kbc::session::Session;
use kbc_compiler::emit::{self, Prepared, sizes};
use kbc_compiler::proof;
use kbc_compiler::report::Report;
use kbc_compiler::watch::Unwatched;
use kbc_tiles::backend::Target;
use kbc_tiles::lower;
use kbc_tiles::tile::{Kernel, verify};

/// The emitted algorithms of `all_reduce`.
const ALGORITHMS: [&str; 2] = ["ring", "two_phase"];

fn main() {
    divan::main();
}

/// A proven schedule with its report.
struct Proven {
    session: Session,
    built: kbc_compiler::build::Built,
    report: Report,
}

fn proven(algorithm: &str) -> Proven {
    let driver::Job { session, args, built } =
        driver::built(&[&format!("specs/bench/{algorithm}_all_reduce.kb"), "--target", "a2a3"]);
    let schedule = built.module.schedule().expect("the default pipeline ends with a schedule");
    let mut report = kbc_compiler::about::begin("compile", &args.source.file, &built, schedule);
    report.verified = Some(proof::proof(schedule).expect("the library is right"));
    Proven { session, built, report }
}

fn target() -> &'static dyn Target {
    kbc_compiler::backends::find("a2a3").expect("a target")
}

impl Proven {
    fn family(&mut self) -> sizes::Family {
        let schedule = self.built.module.schedule().expect("checked when it was made");
        sizes::family(&mut self.session, &self.built, schedule, target()).expect("the library is emitted")
    }

    fn prepared(&mut self) -> Prepared {
        let schedule = self.built.module.schedule().expect("checked when it was made");
        emit::prepare(&mut self.session, &self.built, schedule, target(), &mut Unwatched)
            .unwrap_or_else(|e| panic!("{e:?}"))
    }

    /// Returns the kernel before the passes.
    fn lowered(&mut self) -> Kernel {
        let mut kernel = self.family().kernel;
        lower::fit_tiles(&mut kernel, target());
        kernel
    }
}

/// Measures all steps.
#[divan::bench(args = ALGORITHMS)]
fn package(bencher: Bencher, algorithm: &str) {
    let mut job = proven(algorithm);
    bencher.bench_local(|| {
        let prepared = job.prepared();
        emit::contents(&prepared, &job.report, emit::OwnData::default()).expect("the library is packaged")
    });
}

/// Measures the program at other sizes: made, proven, lowered, compared.
#[divan::bench(args = ALGORITHMS)]
fn part_sizes(bencher: Bencher, algorithm: &str) {
    let mut job = proven(algorithm);
    bencher.bench_local(|| job.family().ranks);
}

/// Measures layout, addresses, fences and flags.
#[divan::bench(args = ALGORITHMS)]
fn part_passes(bencher: Bencher, algorithm: &str) {
    let kernel = proven(algorithm).lowered();
    bencher.with_inputs(|| kernel.clone()).bench_local_values(|mut kernel| {
        for pass in target().backend().passes() {
            target().run(pass.name, &mut kernel).expect("the library is emitted");
        }
        kernel
    });
}

/// Measures the verifier of the tile level.
#[divan::bench(args = ALGORITHMS)]
fn part_verify(bencher: Bencher, algorithm: &str) {
    let kernel = proven(algorithm).prepared().emitted.kernel;
    bencher.bench(|| verify::verify(divan::black_box(&kernel), target()).expect("it is sound"));
}

/// Measures C++, golden values, harness, test, README and manifest.
#[divan::bench(args = ALGORITHMS)]
fn part_files(bencher: Bencher, algorithm: &str) {
    let mut job = proven(algorithm);
    let prepared = job.prepared();
    bencher.bench_local(|| {
        emit::contents(&prepared, &job.report, emit::OwnData::default())
            .expect("the library is packaged")
            .files
    });
}
