//! Tests of what an internal error of kbc leaves behind, in every stage of a run: files that replay
//! it, and a message that states so.
//!
//! The error is provoked: in builds with debug assertions, KBC_FAULT names the stage or pass that
//! panics.
#![cfg(debug_assertions)]

use crate::common;

use common::{Ran, Scratch, kbc, kbc_with};
use kbc::crash::Stage;

const LIB: &str = "// größer\nalgorithm mine: all_reduce over (r mod p) {\n    each k in 1..p { put [..] -> r + k reduce }\n}";
const PROGRAM: &str = "use \"lib/mine.kb\"\nparam tp = 3\ntopology sys = ring(tp) { link: 50 GB/s, 500 ns }\n\
    mesh m = sys[tp]\nprogram f(x: f32[10] partial(sum@tp)) -> f32[10] { all_reduce(x, sum, over: tp, using: mine) }\n";

fn scratch() -> Scratch {
    let scratch = Scratch::new();
    scratch.write("it's/a.kb", PROGRAM.as_bytes());
    scratch.write("it's/lib/mine.kb", LIB.as_bytes());
    scratch
}

fn crash(scratch: &Scratch, fault: &str, args: &[&str]) -> Ran {
    let ran = kbc_with(scratch.path(), args, "", &[("KBC_FAULT", fault)]);
    assert_eq!(ran.code, 101, "{fault}: {args:?}\n{}{}", ran.stdout, ran.stderr);
    assert!(
        ran.stderr.contains("asked for by KBC_FAULT") && ran.stderr.contains("This is a bug in kbc"),
        "{}",
        ran.stderr
    );
    ran
}

fn text(scratch: &Scratch, name: &str) -> Option<String> {
    std::fs::read_to_string(scratch.path().join(name)).ok()
}

/// A crash in any stage leaves the command and its texts. The replay does everything that the
/// command did, without the files, and crashes at the same place.
#[test]
fn every_stage_leaves_what_replays_it() {
    for stage in Stage::ALL {
        let scratch = scratch();
        let args = ["compile", "it's/a.kb", "-D", "tp=4", "--emit", "dot=x.dot", "--format", "json"];
        let ran = crash(&scratch, stage.name(), &args);
        assert!(ran.stdout.is_empty(), "{}", ran.stdout);
        let left = text(&scratch, "kbc-crash.kb").expect("the hook wrote it");
        let head = format!(
            "// kbc: compile 'it'\\''s/a.kb' -D tp=4 --emit dot=x.dot --format json\n// kbc {}: ",
            env!("CARGO_PKG_VERSION")
        );
        assert!(left.starts_with(&head), "{left}");
        assert!(left.contains(&format!("\n// stage: {}", stage.name())) && left.contains(PROGRAM), "{left}");
        // Without the fault, the replay does what the command does, even without the original
        // files.
        let whole = kbc(scratch.path(), &args, "");
        std::fs::remove_dir_all(scratch.path().join("it's")).expect("it was made above");
        if stage != Stage::Read {
            let again = kbc(scratch.path(), &["replay", "kbc-crash.kb"], "");
            assert_eq!((again.code, &again.stdout), (0, &whole.stdout), "{}: {}", stage.name(), again.stderr);
        }
        // With the fault, it crashes again, and leaves the same file.
        crash(&scratch, stage.name(), &["replay", "kbc-crash.kb"]);
        assert_eq!(text(&scratch, "kbc-crash.kb").as_ref(), Some(&left));
    }
}

/// From the passes on there is a module, which replays the stage that failed.
#[test]
fn a_module_replays_the_stage_that_failed() {
    for (fault, first) in [
        ("place", "; kbc: opt -p place,fuse,select,"),
        ("synchronize", "; kbc: opt -p synchronize\n"),
        ("check", "; kbc: check\n"),
        ("run", "; kbc: run --no-proof --no-time --seed 0\n"),
        ("time", "; kbc: run --no-proof --no-data\n"),
    ] {
        let scratch = scratch();
        let ran = crash(&scratch, fault, &["compile", "it's/a.kb"]);
        assert!(ran.stderr.contains("kbc-crash.kir: `kbc opt kbc-crash.kir` continues"), "{}", ran.stderr);
        let left = text(&scratch, "kbc-crash.kir").expect("the hook wrote it");
        assert!(left.starts_with(first), "{fault}: {left}");
        crash(&scratch, fault, &["opt", "kbc-crash.kir"]);
        crash(&scratch, fault, &["replay", "kbc-crash.kir"]);
        // `select` needs the file of `using: mine`, which a module alone does not have.
        if fault != "place" {
            let again = kbc(scratch.path(), &["opt", "kbc-crash.kir"], "");
            assert_eq!(again.code, 0, "{fault}: {}", again.stderr);
        }
        // Passes given on the command line are run instead.
        if fault == "check" {
            let ran = kbc(scratch.path(), &["opt", "kbc-crash.kir", "-p", "infer"], "");
            assert!(ran.code == 0 && ran.stdout.starts_with("kir 1\n"), "{}{}", ran.stdout, ran.stderr);
        }
    }
}

/// The other commands that read files.
#[test]
fn every_verb_leaves_its_command() {
    let scratch = scratch();
    kbc(scratch.path(), &["compile", "it's/a.kb", "--emit", "kir=s.kir"], "");
    for (fault, args) in [
        ("lower", &["check", "it's/a.kb"][..]),
        ("read", &["check", "it's/lib/mine.kb"]),
        ("run", &["run", "it's/a.kb", "--adversarial", "--seed", "3", "--seeds", "2"]),
        ("lower", &["explain", "select", "it's/a.kb"]),
        ("read", &["list", "it's/lib/mine.kb"]),
        ("read", &["opt", "s.kir", "-p", "infer"]),
        ("check", &["check", "s.kir"]),
        ("time", &["run", "s.kir"]),
        ("read", &["fmt", "it's/a.kb"]),
    ] {
        crash(&scratch, fault, args);
        let left = text(&scratch, "kbc-crash.kb").expect("the hook wrote it");
        assert!(left.starts_with(&format!("// kbc: {} ", args[0])), "{left}");
        crash(&scratch, fault, &["replay", "kbc-crash.kb"]);
    }
    let run = text(&scratch, "kbc-crash.kir").expect("of the run of s.kir");
    assert!(run.starts_with("; kbc: run --no-proof --no-data\n"), "{run}");
}

#[test]
fn a_file_that_is_none_is_refused() {
    let scratch = scratch();
    let ran = kbc(scratch.path(), &["replay", "it's/a.kb"], "");
    assert!(ran.code == 2 && ran.stderr.contains("[E413]"), "{}", ran.stderr);
    scratch.write("old.kb", b"// kbc: compiel a.kb\n// kbc: file a.kb\n");
    let ran = kbc(scratch.path(), &["replay", "old.kb"], "");
    assert!(ran.code == 2 && ran.stderr.contains("[E413]"), "{}", ran.stderr);
}

/// The author of the file could name any program.
#[test]
fn a_replay_runs_no_programs() {
    let scratch = scratch();
    let sweep =
        "sweep g.yaml\n// kbc: file g.yaml\nsweep: 1\ntitle: t\nfile: a.kb\nengine: '{e}'\naxes: {e: [host]}";
    let all = [
        "dev bench scale start --against ./own",
        "bench scale start",
        "dev fuzz emitted",
        "launch own.kb",
        "dev bench host --peer own=./own",
        "calibrate",
        sweep,
    ];
    for words in all {
        let (command, files) = words.split_once('\n').unwrap_or((words, ""));
        let text = format!("// kbc: {command}\n// kbc 0.1.0: stopped\n{files}\n");
        scratch.write("programs.kb", text.as_bytes());
        let ran = kbc(scratch.path(), &["dev", "replay", "programs.kb"], "");
        assert!(ran.code == 2 && ran.stderr.contains("which kbc dev replay does not do"), "{}", ran.stderr);
    }
}
