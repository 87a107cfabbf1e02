//! What a crash leaves behind: a file that `kbc opt` replays from the pass that crashed, and words that say so.
//!
//! The crash is made: an observer panics as a pass begins. (One test: it changes the folder of its process.)

mod common;

use clap::Parser;
use common::{Scratch, kbc};
use kbc::cli::{Cli, Watch};
use kbc::pipeline;
use kbc::session::Session;
use kbc_diag::FileId;
use kbc_ir::Module;
use kbc_passes::PassCx;
use kbc_passes::instrument::Instrument;
use kbc_passes::pipeline::Step;
use kbc_rounds::Library;

const PROGRAM: &str = "kir 1\nmodule @m\nmachine ring(2) { link: 50 GB/s, 500 ns }\nmesh tp 2\n\ngraph\n\
    input @x : f32[4] partial(sum@tp)\nresult : f32[4]\n\n%x = input @x\n%o = output 0 %x\n";

/// Panics before `place`.
struct Crash;

impl Instrument for Crash {
    fn before(&mut self, step: Step<'_>, _: &Module) {
        assert!(step.info.name != "place", "made by the test");
    }
}

#[test]
fn a_crash_leaves_a_file_that_is_replayed() {
    let scratch = Scratch::new();
    std::env::set_current_dir(scratch.path()).expect("it was made");
    pipeline::install_panic_hook();
    let crashed = std::panic::catch_unwind(|| {
        let mut session = Session::new(&Cli::parse_from(["kbc", "passes"]));
        let mut module = kbc_ir::text::parse(FileId(0), PROGRAM).expect("it is right");
        let library = Library::new();
        let cx = PassCx::new(&library, None);
        pipeline::run(&mut session, &mut module, "infer,place,select", &cx, &Watch::default(), &mut Crash)
            .is_ok()
    });
    assert!(crashed.is_err());
    let left = std::fs::read_to_string(scratch.path().join("kbc-crash.kir")).expect("the hook wrote it");
    assert!(left.starts_with("; kbc: opt -p 'place,select'\nkir 1\nmodule @m\n"), "{left}");
    assert!(left.contains("props typed") && left.contains("demand"), "after infer, before place: {left}");
    let replayed = kbc(scratch.path(), &["opt", "kbc-crash.kir"], "");
    scratch.write("whole.kir", PROGRAM.as_bytes());
    let whole = kbc(scratch.path(), &["opt", "whole.kir", "-p", "infer,place,select"], "");
    assert_eq!((replayed.code, whole.code), (0, 0), "{}{}", replayed.stderr, whole.stderr);
    assert_eq!(replayed.stdout, whole.stdout);
    // Said on the command line, other passes are run instead.
    let placed = kbc(scratch.path(), &["opt", "kbc-crash.kir", "-p", "place"], "");
    assert!(!placed.stdout.contains("using") && placed.stdout.contains("all_reduce"), "{}", placed.stdout);
}
