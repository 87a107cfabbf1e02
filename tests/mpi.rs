//! Tests of emitted C over MPI: the same elements, and what ends a run.

use crate::common::Ran;
use crate::host::{Packages, collectives, in_place, moves};
use crate::needs::{MPI_VARS, Need, found};
use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

/// A `main` that makes several runs, one after another: `NAME ARGUMENTS + NAME ARGUMENTS ..`. Its
/// exit code is the largest of theirs.
fn several(names: &[&str]) -> String {
    let mut text = "#define KBC_LIBRARY\n#define KBC_MPI\n".to_owned();
    for n in names {
        text += &format!("#include \"{n}.c\"\n");
    }
    text += "int main(int argc, char **argv) {\n    int worst = 0;\n    MPI_Init(&argc, &argv);\n\
        \u{20}   for (int i = 1, end; i < argc; i = end + 1) {\n        int code = 3;\n\
        \u{20}       for (end = i; end < argc && strcmp(argv[end], \"+\") != 0; ++end) {}\n";
    for n in names {
        let name = n.rsplit('/').next().unwrap_or(n);
        text += &format!(
            "        if (strcmp(argv[i], \"{name}\") == 0) code = kbc_main(&{name}_program, end - i, argv + i);\n"
        );
    }
    text + "        worst = code > worst ? code : worst;\n    }\n    MPI_Finalize();\n    return worst;\n}\n"
}

/// A program whose ranks read from each other.
fn pulled() -> Vec<(&'static str, String)> {
    let text = "param tp = 4\nparam n = 1000\ntopology sys = full(tp) { link: 50 GB/s, 500 ns }\nmesh m = sys[tp]\n\
        algorithm every: all_gather over (r mod p) { for k in 1..p { get [r + k] <- r + k } }\n\
        program pulled(x: f16[n@tp]) -> f16[n] {\n\
        all_gather(x, over: tp, dim: 0, using: every with (transfer: pull)) }\n";
    vec![("pulled", text.to_owned())]
}

fn run(launcher: &OsString, program: &Path, ranks: u32, args: &str) -> Ran {
    let program = program.to_string_lossy();
    let mut words: Vec<&str> = vec![];
    for one in args.split(" : ") {
        words.extend(if words.is_empty() { None } else { Some(":") });
        words.extend(["-n", "RANKS", &program].into_iter().chain(one.split(' ')));
    }
    let each = (ranks / args.split(" : ").count() as u32).to_string();
    let words = words.into_iter().map(|w| if w == "RANKS" { &each } else { w });
    let out = Command::new(launcher).args(words).envs(MPI_VARS).output().expect("it starts");
    Ran {
        stdout: String::from_utf8_lossy(&out.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&out.stderr).into_owned(),
        code: out.status.code().unwrap_or(-1),
    }
}

/// Every element on every rank, bit for bit, by puts, gets and sums; no element, one element,
/// several tiles, and more than is staged at once.
#[test]
fn elements_over_mpi_are_those_of_the_program() {
    let chosen = ["sums", "half_sums", "exchanged", "sent", "scans", "pulled", "all_parts", "parts_of_sums"];
    let all = [collectives(), moves(), pulled(), in_place()].concat();
    let programs: Vec<_> = all.into_iter().filter(|(name, _)| chosen.contains(name)).collect();
    assert_eq!(programs.len(), chosen.len());
    let Some(packages) = Packages::by(Need::MpiCompiler, &programs) else { return };
    let Some(launcher) = found(Need::MpiLauncher) else { return };
    let names = chosen.map(|n| format!("{n}/{n}"));
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    packages.dir.write("all.c", several(&names).as_bytes());
    let program = packages.cc(&packages.dir.path().join("all.c"), "all", &[]);
    for (ranks, counts) in [(2, &[0, 1, 9001, 700_000][..]), (3, &[1009]), (4, &[7])] {
        let mut runs = vec![];
        for name in chosen {
            let largest = if name == "sums" { 700_000 } else { 9001 };
            let fitting = counts.iter().filter(|c| **c <= largest);
            runs.extend(fitting.map(|c| format!("{name} -c {c} --calls 2 --repeat 0 --seed {c}")));
        }
        let ran = run(&launcher, &program, ranks, &runs.join(" + "));
        assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
        let equal = ran.stdout.matches("compared bit for bit: all are equal").count();
        assert_eq!(equal, runs.len(), "{ranks} ranks: {}{}", ran.stdout, ran.stderr);
    }
    // A measurement, by the name of the transport.
    let ran = run(&launcher, &program, 2, "sums -c 64 --repeat 10 --json");
    let line = ran.stdout.lines().find(|l| l.starts_with('{')).unwrap_or_else(|| panic!("{ran:?}"));
    let found: serde_json::Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
    assert_eq!((&found["transport"], &found["wrong"]), (&"mpi".into(), &0.into()), "{found}");
    assert!(found["blocks_ns"].as_array().is_some_and(|b| b.len() == 5), "{found}");
}

/// Under an MPI that does only what the standard promises ([`mpi.h`](mpi/mpi.h)), the elements are
/// right, and they are wrong without any one of the flushes, copies and syncs of `kbc_mpi.h`.
#[test]
fn no_flush_or_sync_is_missing() {
    let chosen = ["half_sums", "pulled"];
    let all = [collectives(), pulled()].concat();
    let programs: Vec<_> = all.into_iter().filter(|(name, _)| chosen.contains(name)).collect();
    let Some(packages) = Packages::by(Need::C, &programs) else { return };
    let names = chosen.map(|n| format!("all/{n}"));
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let read = |name: &str| {
        let path = packages.dir.path().join(format!("pulled/{name}"));
        std::fs::read_to_string(path).expect("a file of a package")
    };
    let right = read("kbc_mpi.h");
    let include = format!("-I{}", crate::common::root().join("tests/mpi").display());
    let sync = "MPI_Win_sync(k->windows);";
    let (first, last) = (right.find(sync).expect("a release"), right.rfind(sync).expect("an acquire"));
    let without = |at: usize| format!("{}{}", &right[..at], &right[at + sync.len()..]);
    let replaced = |from: &str, to: &str| {
        assert!(right.contains(from), "{from}");
        right.replace(from, to)
    };
    for (what, text) in [
        ("nothing", right.clone()),
        (
            "flush before a notify",
            replaced(
                "kbc_flush(k, k->put);\n        k->filled = 0;\n        /* Orders",
                "k->put = 0;\n        k->filled = 0;\n        /* Orders",
            ),
        ),
        ("sync before a notify", without(first)),
        ("sync after a wait", without(last).replace("if (order == memory_order_acquire)", "(void)order;")),
        ("flush of notifies", replaced("kbc_flush(k, k->told);", ";")),
        (
            "flush before copies are reused",
            replaced("kbc_flush(k, k->put);\n        k->filled = 0;\n    }", "k->filled = 0;\n    }")
                .replace("1 << 20", "1 << 14"),
        ),
        ("copy of a tile", replaced("= k->staged + k->filled;", "= (void *)(uintptr_t)from;")),
        ("flush of a get", replaced("MPI_Win_flush((int)peer, k->windows);", "")),
    ] {
        // All in one folder, so that the first headers found are the changed ones.
        for (name, from) in ["kbc_host.h", "kbc_halves.h", "kbc_data.h", "kbc_main.h", "kbc_mpi_ranks.h"]
            .map(|h| (h.to_owned(), read(h)))
            .into_iter()
            .chain(chosen.map(|n| (format!("{n}.c"), packages.source(n))))
        {
            packages.dir.write(&format!("all/{name}"), from.as_bytes());
        }
        packages.dir.write("all/kbc_mpi.h", text.as_bytes());
        packages.dir.write("all.c", several(&names).as_bytes());
        let program =
            packages.cc(&packages.dir.path().join("all.c"), "all_standin", &["-O0", "-Wno-error", &include]);
        // A wait that does not end is expected of some; others may take long on a busy computer.
        let limit = if what == "nothing" { 60 } else { 2 };
        let args: Vec<String> =
            chosen.iter().map(|n| format!("{n} -c 20011 --calls 3 --repeat 0 --limit {limit}")).collect();
        let out = Command::new(&program).args(args.join(" + ").split(' ')).env("KBC_RANKS", "4").output();
        let out = out.expect("it starts");
        let said = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.success(), what == "nothing", "without {what}: {:?} {said}", out.status);
        let why = ["element ", " waited longer "].iter().any(|w| said.contains(w));
        assert_eq!(why, what != "nothing", "without {what}: {said}");
    }
}

/// Wrong elements, waits past their limit, other numbers of ranks, and ranks that do not fit
/// together.
#[test]
fn what_is_wrong_ends_all_ranks() {
    let Some(packages) = Packages::by(Need::MpiCompiler, &collectives()[2..3]) else { return };
    let Some(launcher) = found(Need::MpiLauncher) else { return };
    let right = packages.source("half_sums");
    let changed = |name: &str, from: &str, to: &str| {
        let text = right.replace(from, to).replace("half_sums", name);
        assert_ne!(text, right.replace("half_sums", name));
        packages.dir.write(&format!("half_sums/{name}.c"), text.as_bytes());
    };
    changed("wrong", "kbc_add_f16(", "kbc_max_f16(");
    changed("mute", "kbc_notify(me, ", "if (me->rank != 1) kbc_notify(me, ");
    packages.dir.write("half_sums/all.c", several(&["half_sums", "wrong", "mute"]).as_bytes());
    let program = packages.cc(&packages.dir.path().join("half_sums/all.c"), "all", &[]);
    // Launchers take long to end where an exit code is not 0, so a run has several programs.
    let same = "wrong -c 10 --calls 1 --repeat 0 + half_sums --calls 3000000000";
    let other = format!("{same} + half_sums -c 5 + half_sums : {same} + half_sums -c 6 + mute");
    let numbers = "the schedule was proven for 2, 3, 4, 5, 6, 7, 8, 9, 12, 16 ranks and not for 1";
    let unlike = "half_sums: rank 1 was started with another program or with other arguments than rank 0";
    let limit = " waited longer than 1 s: counter @";
    for (ranks, args, code, said) in [
        (
            1,
            "half_sums -n 3 + half_sums",
            2,
            &[("-n asks for 3 ranks, and 1 were started", 1), (numbers, 1)][..],
        ),
        (
            2,
            &other,
            2,
            &[
                ("wrong: rank 0, call 0: element ", 1),
                ("calls before a counter leaves its 32 bits", 1),
                (unlike, 2),
            ],
        ),
        (2, "mute -c 9 --limit 1", 1, &[(limit, 1), (" is 0 and has to be at least 1, in ", 1), (".kb:", 1)]),
    ] {
        let ran = run(&launcher, &program, ranks, args);
        // The code of `MPI_Abort` is the launcher's to hand on.
        assert!(ran.code == code || args.starts_with("mute") && ran.code != 0, "{args}: {ran:?}");
        for (words, times) in said {
            // Of two ranks that wait for each other, either or both say it.
            let found = ran.stderr.matches(words).count();
            let fits = found == *times || args.starts_with("mute") && found > 0;
            assert!(fits, "{args}: {words}: {found} of {times}: {ran:?}");
        }
        assert!(!ran.stdout.contains("all are equal"), "{args}: {ran:?}");
    }
}
