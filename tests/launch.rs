//! Tests of `kbc launch`: sizes, the same refusals as `kbc compile --target host`, failures of the
//! compiler and of the run, and that nothing is left behind.

use crate::common::{Ran, kbc};
use crate::needs::{MPI_VARS, Need, found};
use crate::temporaries::Temporaries;
use serde_json::Value;
use std::path::Path;

/// Writes a compiler: a script of `sh`, which may call the real one as `$REAL`.
#[cfg(unix)]
fn compiler(s: &Temporaries, name: &str, real: &std::ffi::OsStr, script: &str) -> String {
    let version = "[ \"$1\" = --version ] && exit 0";
    s.script(name, &format!("REAL='{}'\n{version}\n{script}", real.display()))
}

fn json(ran: &Ran) -> Value {
    serde_json::from_str(&ran.stdout).unwrap_or_else(|e| panic!("{e}: {}{}", ran.stdout, ran.stderr))
}

fn files(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let all = std::fs::read_dir(dir).expect("a folder").map(|e| e.expect("an entry").path());
    let mut out: Vec<(String, Vec<u8>)> = all
        .map(|p| {
            (p.file_name().expect("a name").to_string_lossy().into(), std::fs::read(&p).expect("a file"))
        })
        .collect();
    out.sort();
    out
}

/// What runs, what is proven and what is simulated have the size that `-n` and `-c` name.
#[test]
fn a_program_is_launched_at_its_size() {
    if found(Need::C).is_none() {
        return;
    }
    let s = Temporaries::new("");
    let line = "kbc launch specs/all_reduce.kb -n 2 -c 500 --calls 3 --repeat 4 -o kept --format json";
    let ran = s.run(line, &[]);
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{}", ran.stdout);
    let report = json(&ran);
    let launched = &report["launched"];
    for (field, value) in [
        ("ranks", 2),
        ("count", 500),
        ("calls", 3),
        ("compared", 4 * 2 * 500),
        ("wrong", 0),
        ("repeat", 4),
        ("bytes", 2000),
    ] {
        assert_eq!(launched[field], value, "{field}: {launched}");
    }
    assert_eq!(launched["parameter"], "n", "{launched}");
    assert_eq!(launched["blocks_ns"].as_array().map(Vec::len), Some(5), "{launched}");
    let number = |field: &str| launched[field].as_f64().expect(field);
    assert!(number("min_ns") > 0.0 && number("min_ns") <= number("time_ns"), "{launched}");
    let algbw = number("bytes") / number("time_ns");
    assert!((number("algbw") / algbw - 1.0).abs() < 1e-6, "{launched}");
    let compile = "compile specs/all_reduce.kb -D tp=2 -D n=500 --target host -o compiled --format json";
    let compiled = json(&s.run(&format!("kbc {compile}"), &[]));
    for field in ["time_ns", "bound_ns", "compare", "verified", "collectives", "mesh"] {
        assert_eq!(report[field], compiled[field], "{field}");
    }
    assert_eq!(files(&s.dir.path().join("kept")), files(&s.dir.path().join("compiled")));
    assert_eq!(report["emitted"]["out"], "kept");

    // An algorithm by itself, in two spellings; without a measurement and without a folder.
    let without = "--repeat 0 --calls 1 --format json";
    for size in ["-n 3 -D n=30", "--ranks 3 -c 30"] {
        let ran = s.run(&format!("kbc launch specs/starter/my_ring.kb {size} {without}"), &[]);
        let report = json(&ran);
        assert_eq!((ran.code, &report["launched"]["ranks"]), (0, &3.into()), "{}", ran.stderr);
        assert_eq!((&report["launched"]["count"], &report["emitted"]), (&30.into(), &Value::Null), "{size}");
        assert_eq!(report["launched"]["time_ns"], Value::Null, "{size}");
    }
}

/// A size that the program cannot have is refused before anything is built.
#[test]
fn other_sizes_are_refused() {
    let s = Temporaries::new("");
    let fixed = "topology sys = ring(4) { link: 50 GB/s, 500 ns }\nmesh m = sys[tp]\n\
        program p(x: f32[8] partial(sum@tp)) -> f32[8] { x }\n";
    s.dir.write("fixed.kb", fixed.as_bytes());
    for (line, code, words) in [
        ("fixed.kb -n 8", 2, "[E416]: -n 8: the program runs on 4 ranks"),
        ("fixed.kb -c 8", 2, "[E416]: -c 8: all sizes of this program are fixed"),
        ("specs/all_reduce.kb -n 3 --topology ring(4)", 2, "[E416]: -n 3: the program runs on 4 ranks"),
        ("specs/all_reduce.kb -n 3 -D tp=4", 2, "[E416]: -n 3: the program runs on 4 ranks"),
        ("specs/all_reduce.kb -c 3 -D n=4", 2, "[E416]: -c 3 and -D n both set the size of the data"),
        ("specs/all_reduce.kb -n 65", 1, "65 ranks"),
        ("specs/all_reduce.kb -n 0", 2, "[E416]: invalid value '0' for '-n <RANKS>'"),
        ("specs/all_reduce.kb -n 2 --ranks 2", 2, "[E416]: the argument '-n <RANKS>' cannot be used with"),
        ("specs/all_reduce.kb --force", 2, "[E416]: the following required arguments were not provided"),
        ("absent.kb -n 2 -c 2", 2, "[E412]: cannot read absent.kb: no such file"),
        ("schedule.kir -n 2", 2, "[E416]: schedule.kir is a .kir file, not a program"),
        ("specs/torch/block_tp2", 2, "[E416]: specs/torch/block_tp2 is not a .kb file"),
    ] {
        // The compiler would be refused if it were called.
        let ran = s.run(&format!("kbc launch {line} --no-data --diagnostics short"), &[("CC", "none")]);
        assert!(ran.code == code && ran.stderr.contains(words), "{line}: {} {}", ran.code, ran.stderr);
        assert_eq!(ran.stdout, "", "{line}");
    }
}

/// A program that the target refuses gets the same message as from `kbc compile --target host`.
#[test]
fn refusals_are_those_of_compile() {
    let s = Temporaries::new("");
    s.dir.write("syntax.kb", b"program p(\n");
    for file in ["syntax.kb", "specs/cores.kb", "specs/host_loop.kb"] {
        let launched = s.run(&format!("kbc launch {file} --no-data"), &[("CC", "none")]);
        let compiled = kbc(s.dir.path(), &["compile", file, "--target", "host", "--no-data"], "");
        assert_eq!((launched.code, &launched.stderr), (compiled.code, &compiled.stderr), "{file}");
        assert!(launched.code == 1 && launched.stdout.is_empty(), "{file}: {}", launched.stdout);
    }
}

/// A compiler that is missing or fails is named, with what it said.
#[cfg(unix)]
#[test]
fn a_compiler_is_missing_or_fails() {
    let s = Temporaries::new("");
    let line = "kbc launch specs/all_reduce.kb -n 2 --no-data";
    let empty = s.dir.path().join("empty");
    std::fs::create_dir(&empty).expect("can be written");
    let nothing = empty.to_string_lossy();
    let fails = compiler(&s, "fails", "".as_ref(), "echo 'no atomics here' >&2; exit 1");
    for (vars, words) in [
        (&[("PATH", &*nothing), ("CC", "")][..], "[E564] error: the compiler `cc` does not run"),
        (&[("CC", "none -m64")], "the compiler `none -m64` does not run"),
        (&[("CC", &fails)], "does not compile the C of sum_of_all"),
    ] {
        let ran = s.run(line, vars);
        assert_eq!((ran.code, ran.stdout.as_str()), (1, ""), "{vars:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(words) && ran.stderr.contains("install a C compiler"), "{}", ran.stderr);
        assert_eq!(ran.stderr.contains("no atomics here"), words.contains("compile the C"), "{}", ran.stderr);
        let failure = json(&s.run(&format!("{line} --format json"), vars))["failure"].clone();
        assert_eq!(
            (&failure["kind"], &failure["messages"][0]["code"]),
            (&"unsupported".into(), &"E564".into())
        );
    }
}

/// Wrong elements, a wait that never ends, and refused arguments reach the user.
#[cfg(unix)]
#[test]
fn a_run_that_fails_is_a_failure() {
    let Some(real) = found(Need::C) else { return };
    let s = Temporaries::new("");
    let changed = |name: &str, from: &str, to: &str| {
        let edit = format!("for f in sum_of_all.c; do sed -i.old 's/{from}/{to}/' $f; done");
        compiler(&s, name, &real, &format!("{edit}\nexec \"$REAL\" \"$@\""))
    };
    let wrong = changed("wrong", "kbc_add_f32(", "kbc_max_f32(");
    let mute = changed("mute", "kbc_notify(me, ", "if (me->rank != 1) kbc_notify(me, ");
    let line = "kbc launch specs/all_reduce.kb -n 2 --no-data --calls 2 --repeat 0";

    let ran = s.run(line, &[("CC", &wrong)]);
    assert_eq!(ran.code, 1, "{}", ran.stderr);
    assert!(
        ran.stdout.contains(" of 4000 elements differ\n") && ran.stdout.ends_with("not ok\n"),
        "{}",
        ran.stdout
    );
    for words in ["[E430]", "sum_of_all: rank 0, call 0: element ", ", expected "] {
        assert!(ran.stderr.contains(words), "{words}: {}", ran.stderr);
    }
    let found = json(&s.run(&format!("{line} --format json"), &[("CC", &wrong)]));
    assert_eq!((&found["ok"], &found["failure"]["kind"]), (&false.into(), &"wrong".into()));
    assert_ne!(found["launched"]["wrong"], 0);

    let ran = s.run(&format!("{line} --limit 1"), &[("CC", &mute)]);
    assert_eq!((ran.code, ran.stdout.as_str()), (1, ""), "{}", ran.stderr);
    for words in ["[E567]", " waited longer than 1 s: counter @", " has to be at least ", ".kb:"] {
        assert!(ran.stderr.contains(words), "{words}: {}", ran.stderr);
    }

    let ran = s.run("kbc launch specs/all_reduce.kb --no-data --calls 3000000000", &[]);
    assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{}", ran.stderr);
    assert!(
        ran.stderr.contains("[E567]") && ran.stderr.contains(" calls before a counter leaves"),
        "{}",
        ran.stderr
    );
}

/// With `--mpi` the ranks are processes of the launcher. Both programs of MPI are named where they
/// are missing, and so is what their run said.
#[cfg(unix)]
#[test]
fn over_mpi() {
    if found(Need::MpiLauncher).is_none() || found(Need::MpiCompiler).is_none() {
        return;
    }
    let s = Temporaries::new("");
    let line = "kbc launch specs/all_reduce.kb -n 2 -c 500 --mpi --no-data --calls 3";
    let ran = s.run(&format!("{line} --repeat 4 --format json"), &MPI_VARS);
    let launched = json(&ran)["launched"].clone();
    assert_eq!((ran.code, &launched["transport"]), (0, &"mpi".into()), "{}{}", ran.stdout, ran.stderr);
    for (field, value) in [("ranks", 2), ("count", 500), ("compared", 4 * 2 * 500), ("wrong", 0)] {
        assert_eq!(launched[field], value, "{field}: {launched}");
    }
    let refuses = compiler(&s, "refuses", "".as_ref(), "echo 'no slots here' >&2; exit 1");
    for (vars, words) in [
        (&[("MPICC", "none")][..], "[E564] error: the compiler `none` does not run"),
        (&[("MPIRUN", "none -x")], "[E564] error: the launcher `none -x` does not run"),
        (&[("MPIRUN", &refuses)], "no slots here"),
    ] {
        let ran = s.run(line, vars);
        assert_eq!((ran.code, ran.stdout.as_str()), (1, ""), "{vars:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(words) && ran.stderr.contains("MPIRUN"), "{}", ran.stderr);
        assert_eq!(ran.stderr.contains("[E567]"), words == "no slots here", "{}", ran.stderr);
    }
}

/// However kbc ends, its processes end, and nothing is left.
#[cfg(target_os = "linux")]
mod ends {
    use super::{Temporaries, compiler};
    use crate::needs::{Need, found};
    use std::os::unix::process::ExitStatusExt;
    use std::process::{Child, Command, Stdio};
    use std::time::Duration;

    fn start(s: &Temporaries, compiler: &str) -> Child {
        Command::new(env!("CARGO_BIN_EXE_kbc"))
            .args(["launch", "specs/all_reduce.kb", "-n", "2", "--no-data"])
            .args(["--calls", "100000000", "--repeat", "0"])
            .current_dir(s.dir.path())
            .env("TMPDIR", s.temporary())
            .env("CC", compiler)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts")
    }

    /// Waits until something is there.
    fn until<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
        for _ in 0..6000 {
            if let Some(found) = found() {
                return found;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("{what}: not within a minute")
    }

    fn children(of: u32) -> Vec<u32> {
        let text = std::fs::read_to_string(format!("/proc/{of}/task/{of}/children")).unwrap_or_default();
        text.split_whitespace().filter_map(|w| w.parse().ok()).collect()
    }

    /// Whether a process runs, and is not only waited for.
    fn runs(id: u32) -> bool {
        let text = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        let state = text.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
        state.is_some_and(|s| !['Z', 'X'].contains(&s))
    }

    fn send(signal: i32, id: u32) {
        let sent = Command::new("kill").args([format!("-{signal}"), id.to_string()]).status();
        assert!(sent.is_ok_and(|s| s.success()));
    }

    #[test]
    fn while_the_program_runs() {
        let Some(real) = found(Need::C) else { return };
        for signal in [2, 15, 9] {
            let s = Temporaries::new("");
            let mut kbc = start(&s, &real.to_string_lossy());
            let (program, ranks) = until("two ranks", || {
                let program = *children(kbc.id()).first()?;
                let ranks = children(program);
                (ranks.len() == 2 && s.left().is_empty()).then_some((program, ranks))
            });
            send(signal, kbc.id());
            assert_eq!(kbc.wait().expect("it ends").signal(), Some(signal));
            let all = [vec![program], ranks].concat();
            until("the end of all processes", || all.iter().all(|id| !runs(*id)).then_some(()));
            assert!(s.left().is_empty(), "{:?}", s.left());
        }
    }

    #[test]
    fn while_the_compiler_runs() {
        let s = Temporaries::new("");
        let slow = compiler(&s, "slow", "".as_ref(), "echo > busy; sleep 1; exit 1");
        let mut kbc = start(&s, &slow);
        let busy = |s: &Temporaries| s.left().first().is_some_and(|d| d.join("package/busy").exists());
        until("the compiler", || busy(&s).then_some(()));
        send(2, kbc.id());
        assert_eq!(kbc.wait().expect("it ends").signal(), Some(2));
        assert!(s.left().is_empty(), "{:?}", s.left());
    }
}
