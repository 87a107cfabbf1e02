//! Tests of hostile environments: damaged caches, full disks, files of other users, a lack of
//! memory, and small inputs that need large resources. Each ends with an error that states the
//! cause.

use crate::cases::all_cases;
use crate::common;

use common::{Ran, Scratch, kbc, kbc_with};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const RING: &str = "param n = 16\ntopology sys = ring(4) { link: 50 GB/s, 500 ns }\nmesh m = sys[tp]\nprogram p(x: f32[n] \
                    partial(sum@tp)) -> f32[n] { all_reduce(x, sum, over: tp) }\n";

/// Runs a shell command in a folder; `$KBC` is the binary.
#[cfg(unix)]
fn shell(dir: &Path, line: &str) -> Ran {
    let out = Command::new("sh")
        .args(["-c", line])
        .current_dir(dir)
        .env("KBC", env!("CARGO_BIN_EXE_kbc"))
        .env("KBC_CACHE", dir.join("known"))
        .stdin(Stdio::null())
        .output()
        .expect("there is a shell");
    Ran {
        stdout: String::from_utf8_lossy(&out.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&out.stderr).into_owned(),
        code: out.status.code().unwrap_or(-1),
    }
}

fn names(s: &Scratch) -> Vec<String> {
    s.files().into_keys().collect()
}

#[test]
fn a_replay_writes_to_a_new_folder_alone() {
    let s = Scratch::new();
    s.write("mine/notes.txt", b"mine");
    s.write("old.kir", b"old");
    let before = s.files();
    let compile = "compile a.kb --emit kir=old.kir --emit graph=../../up.kir --dump-dir mine --force";
    let bundle = format!("// kbc: {compile}\n// kbc: file a.kb\n{RING}");
    s.write("kbc-crash.kb", bundle.as_bytes());
    for folder in ["kbc-replay", "kbc-replay-2"] {
        let ran = kbc(s.path(), &["replay", "kbc-crash.kb"], "");
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        assert!(ran.stderr.contains(&format!("the written files are in {folder}\n")), "{}", ran.stderr);
        for name in ["old.kir", "up.kir", "mine/00-input.kir"] {
            assert!(s.path().join(folder).join(name).is_file(), "{name}: {:?}", names(&s));
        }
    }
    for (name, text) in &before {
        assert_eq!(s.files().get(name), Some(text), "{name}");
    }
    assert!(!s.path().join("../up.kir").exists());
    // The same through the first line of a schedule, which `kbc opt` reads, too.
    let kir = std::fs::read_to_string(s.path().join("kbc-replay/old.kir")).expect("it was written");
    s.write("a.kir", format!("; kbc: run --emit log=old.kir\n{kir}").as_bytes());
    for (verb, folder) in [("replay", "kbc-replay-3"), ("opt", "kbc-replay-4")] {
        let ran = kbc(s.path(), &[verb, "a.kir"], "");
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        assert!(s.path().join(folder).join("old.kir").is_file(), "{:?}", names(&s));
    }
    assert_eq!(s.files().get("old.kir"), before.get("old.kir"));
    // Formatting in place, an import, a cache.
    s.write("b.kb", b"// kbc: fmt a.kb\n// kbc: file a.kb\nprogram   p() {}\n");
    s.write("a.kb", RING.as_bytes());
    let _ = kbc(s.path(), &["replay", "b.kb"], "");
    assert_eq!(s.files().get("a.kb").map(Vec::as_slice), Some(RING.as_bytes()));
    s.write("c.kb", b"// kbc: sweep s.yaml --cache known\n// kbc: file s.yaml\nsweep: 1\ntitle: t\nfile: a.kb\naxes: {n: [1]}\n");
    let _ = kbc(s.path(), &["replay", "c.kb"], "");
    assert!(!s.path().join("known").exists());
}

#[test]
fn a_replay_of_a_replay_is_refused() {
    let s = Scratch::new();
    for (name, text) in [
        ("a.kb", "// kbc: replay a.kb\n"),
        ("b.kb", "// kbc: replay c.kir\n// kbc: file c.kir\n; kbc: opt -p infer\n"),
        ("d.kb", "// kbc: fuzz emitted --standin evil --build mine\n"),
        ("e.kir", "; kbc: replay\n"),
    ] {
        s.write(name, text.as_bytes());
        let ran = kbc(s.path(), &["replay", name], "");
        assert!(ran.code == 2 && ran.stderr.contains("[E413]"), "{name}: {} {}", ran.code, ran.stderr);
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_result_that_is_not_written_is_an_error() {
    let s = Scratch::new();
    s.write("a.kb", RING.as_bytes());
    for line in [
        "--version",
        "--help",
        "check a.kb",
        "compile a.kb",
        "run a.kb --format json",
        "run a.kb --emit log",
        "compile a.kb --emit kir",
        "list algorithms",
        "completions bash",
        "explain E410",
        "compare ring one_phase --of a.kb",
    ] {
        let ran = shell(s.path(), &format!("$KBC {line} > /dev/full"));
        let said = ran.stderr.contains("[E410]") && ran.stderr.contains("standard output");
        assert!(ran.code == 2 && said, "{line}: {} {}", ran.code, ran.stderr);
        let ran = shell(s.path(), &format!("$KBC {line} | true"));
        assert!(ran.stderr.is_empty(), "{line}: {}", ran.stderr);
    }
}

#[test]
fn what_is_damaged_in_a_cache_is_not_believed() {
    let s = Scratch::new();
    s.write("a.kb", RING.as_bytes());
    s.write("g.yaml", b"sweep: 1\ntitle: t\nfile: a.kb\ndefine: {n: '{n}'}\naxes: {n: [1, 7, 64]}\n");
    let sweep = || {
        let ran = kbc(s.path(), &["sweep", "g.yaml", "-o", "g.csv", "--cache", "known"], "");
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        (std::fs::read_to_string(s.path().join("g.csv")).expect("rows"), ran.stderr)
    };
    let (first, _) = sweep();
    assert!(sweep().1.contains("3 of them from the cache"));
    let entries = || -> Vec<_> {
        s.files().into_iter().filter(|f| f.0.starts_with("known/") && !f.0.ends_with('/')).collect()
    };
    // A digit anywhere in an entry, an entry in place of another one, half an entry.
    let whole = entries();
    let mut rng = 1u64;
    for round in 0..12 {
        for (i, (name, bytes)) in whole.iter().enumerate() {
            rng = rng.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(round);
            let mut bytes = bytes.clone();
            match (i + round as usize) % 3 {
                0 => {
                    let digits: Vec<usize> =
                        (0..bytes.len()).filter(|k| bytes[*k].is_ascii_digit()).collect();
                    let at = digits[(rng >> 33) as usize % digits.len()];
                    bytes[at] = b'0' + (bytes[at] - b'0' + 1) % 10;
                }
                1 => bytes.clone_from(&whole[(i + 2) % whole.len()].1),
                _ => bytes.truncate(bytes.len() / 2),
            }
            s.write(name, &bytes);
        }
        let (rows, said) = sweep();
        assert_eq!(rows, first);
        assert!(said.contains("[E592]") && said.contains("damaged in the cache known"), "{said}");
        let (rows, said) = sweep();
        assert_eq!(rows, first);
        assert!(said.contains("3 of them from the cache") && !said.contains("E592"), "{said}");
    }
}

#[test]
#[cfg(unix)]
fn a_full_disk_leaves_nothing_beside() {
    let s = Scratch::new();
    s.write("a.kb", RING.as_bytes());
    s.write("m.kb", format!("//{}\n  {RING}", " many words".repeat(4000)).as_bytes());
    let before = names(&s);
    for line in [
        "compile a.kb --emit kir=a.kir",
        "compile a.kb --emit trace=a.trace",
        "compile a.kb --dump-dir dump",
        "report a.kb -o page.html",
        "fmt m.kb",
    ] {
        let ran = shell(s.path(), &format!("ulimit -f 1; $KBC {line} > /dev/null"));
        assert!(ran.code == 2 && ran.stderr.contains("[E410]"), "{line}: {} {}", ran.code, ran.stderr);
        assert_eq!(names(&s), before, "{line}");
    }
}

/// A folder that the user names for the cache is not ignored where nothing can be kept in it.
#[test]
fn a_cache_that_cannot_be_written_is_refused() {
    let s = Scratch::new();
    s.write("a.kb", RING.as_bytes());
    for (args, code) in [(["--cache", "a.kb"], 2), (["--cache", "new/kept"], 0)] {
        let ran = kbc(s.path(), &[&["check", "a.kb"], &args[..]].concat(), "");
        assert_eq!(ran.code, code, "{args:?}: {}", ran.stderr);
        assert_eq!(ran.stderr.contains("[E410] error: cannot write to a.kb"), code == 2, "{}", ran.stderr);
    }
    assert!(names(&s).iter().any(|f| f.starts_with("new/kept/")), "{:?}", names(&s));
}

#[test]
fn what_a_terminal_obeys_comes_out_as_text() {
    let s = Scratch::new();
    let evil = "\u{1b}]0;x\u{7}\u{9b}2J";
    s.write("a.kb", format!("program p() {{ \"{evil}\" }} // {evil}\n").as_bytes());
    s.write("b.kir", format!("kir 1\nmodule @{evil}\n").as_bytes());
    s.write("c.yaml", format!("shape: \"{evil}\"\n").as_bytes());
    s.write("d.kb", format!("param n = 4 // {evil}\n{RING}").as_bytes());
    for args in [
        &["check", "a.kb"][..],
        &["check", evil],
        &["check", "b.kir"],
        &["check", "a.kb", "-D", evil],
        &["compile", "d.kb", "--topology", "c.yaml"],
        &["compile", "d.kb", "--topology", evil],
        &["compile", "d.kb", "--emit", evil],
        &["compile", "a.kb", "--target", evil],
        &["fmt", "--check", "--diff", "a.kb"],
        &["replay", evil],
        &["list", evil],
        &["explain", evil],
        &[evil],
        &["check", &format!("--{evil}")],
    ] {
        for form in ["human", "short", "json"] {
            let ran = kbc(s.path(), &[args, &["--diagnostics", form]].concat(), "");
            let all = ran.stdout + &ran.stderr;
            let bad = all.chars().find(|c| c.is_control() && !"\n\t".contains(*c));
            assert_eq!(bad, None, "{args:?} {form}: {}", all.escape_debug());
            assert_ne!(ran.code, 0, "{args:?}");
        }
    }
}

#[test]
#[cfg(target_os = "linux")]
fn too_little_memory_is_an_error() {
    let s = Scratch::new();
    s.write("a.kb", RING.as_bytes());
    assert_eq!(kbc(s.path(), &["compile", "a.kb", "--emit", "kir=a.kir"], "").code, 0);
    let limited = |args: &[&str], most: &str| kbc_with(s.path(), args, "", &[("KBC_MEMORY", most)]);
    // Memory that follows from the sizes is checked in advance.
    for file in ["a.kb", "a.kir"] {
        let begin = Instant::now();
        let ran = kbc(s.path(), &["run", file, "--calls", "2147483648"], "");
        assert!(ran.code == 1 && ran.stderr.contains("[E369]"), "{}", ran.stderr);
        assert!(ran.stderr.contains("2147483648 calls of"), "{}", ran.stderr);
        assert!(begin.elapsed() < Duration::from_secs(20));
    }
    let ran = limited(&["run", "a.kb", "-D", "n=4000000"], "100 MB");
    assert!(
        ran.code == 1 && ran.stderr.contains("[E369]") && ran.stderr.contains("1 call of"),
        "{}",
        ran.stderr
    );
    // Other memory is counted.
    for form in ["human", "short", "json"] {
        let ran = limited(&["check", "--diagnostics", form], "2 MiB");
        assert!(ran.code == 1 && ran.stderr.contains("E369"), "{form}: {} {}", ran.code, ran.stderr);
        assert!(!ran.stderr.contains("panicked"), "{}", ran.stderr);
    }
    let ran = shell(s.path(), "ulimit -v 400000; $KBC fuzz engines --programs 40");
    assert!(ran.code == 0 || ran.stderr.contains("E369"), "{} {}", ran.code, ran.stderr);
    let ran = limited(&["list", "algorithms"], "much");
    assert!(ran.code == 2 && ran.stderr.contains("[E413]"), "{}", ran.stderr);
}

/// Seconds of processor time for a command that must end soon.
#[cfg(target_os = "linux")]
const SOON: u32 = 20;

/// Runs a command that must end within so many seconds of processor time.
#[cfg(target_os = "linux")]
fn soon(s: &Scratch, seconds: u32, line: &str) -> Ran {
    // The system ends it: processor time is larger in a build without optimisation, but does not
    // depend on other load.
    let ran = shell(s.path(), &format!("ulimit -t {seconds}; ulimit -v 6000000; exec $KBC {line}"));
    assert!(
        ran.code == 0 || ran.code == 1,
        "{line}: {} {}",
        ran.code,
        &ran.stderr[..ran.stderr.len().min(2000)]
    );
    ran
}

fn code(ran: &Ran, code: &str) {
    assert!(
        ran.stderr.contains(&format!("[{code}]")),
        "{code}: {}",
        &ran.stderr[..ran.stderr.len().min(2000)]
    );
}

const MACHINE: &str = "topology sys = ring(4) { link: 50 GB/s, 500 ns }\nmesh m = sys[tp]\n";

#[test]
#[cfg(target_os = "linux")]
fn functions_that_branch_are_not_unfolded_without_end() {
    let s = Scratch::new();
    let gather = |functions: &str, peer: &str| {
        format!(
            "{functions}\nalgorithm a: all_gather over (r mod p) {{ each k in 1..p {{ put [r] -> {peer} }} }}\n{MACHINE}\
             program p(x: f32[8@tp]) -> f32[8] {{ all_gather(x, dim: 0, over: tp, using: a) }}\n"
        )
    };
    // Both branches of a condition on the rank, and two calls in each: 2^64 of them, if expanded.
    s.write(
        "a.kb",
        gather(
            "fn f(n, r) = if n == 0 { 1 } else { if r > n { f(n - 1, r) } else { f(n - 1, r + 1) } }",
            "r + k * f(40, r)",
        )
        .as_bytes(),
    );
    // An expression that doubles with each call.
    s.write(
        "b.kb",
        gather("fn g(n, r) = if n == 0 { r } else { g(n - 1, r + r) }", "r + k + 0 * g(60, r)").as_bytes(),
    );
    // A branch without a value that no rank takes.
    s.write(
        "c.kb",
        gather(
            "fn h(r, n) = if r < 0 { 1 / n } else { 1 }\nfn l(r) = if r >= 0 { 0 } else { log2(0 - 5) }",
            "r + k * h(r, 0) + l(r)",
        )
        .as_bytes(),
    );
    for file in ["a.kb", "c.kb"] {
        let ran = soon(&s, SOON, &format!("compile {file}"));
        assert_eq!(ran.code, 0, "{file}: {}", ran.stderr);
    }
    soon(&s, SOON, "compile b.kb");
    // A branch without a value that some rank takes is an error of that rank.
    s.write("d.kb", gather("fn h(r, n) = if r > 2 { 1 / n } else { 1 }", "r + k * h(r, 0)").as_bytes());
    let ran = soon(&s, SOON, "compile d.kb");
    code(&ran, "E010");
}

#[test]
#[cfg(target_os = "linux")]
fn small_inputs_do_not_take_long() {
    let s = Scratch::new();
    let many = |n: usize, one: &dyn Fn(usize) -> String| (0..n).map(one).collect::<String>();
    let program =
        |head: &str, body: &str| format!("{head}{MACHINE}program p(x: f32[8]) -> f32[8] {{\n{body}x }}\n");
    let depth = 10_000;
    // What takes longest is smaller in a sample, and so is the limit.
    let (levels, keys, seconds) = if all_cases() { (1500, 40_000, SOON) } else { (700, 10_000, 8) };
    let nested = |open: &str, close: &str| format!("{}{}", open.repeat(depth), close.repeat(depth));
    let algorithm = |body: &str| format!("algorithm a: all_gather over (r mod p) {{ {body} }}\n");
    for (name, text, want) in [
        ("if.kb", algorithm(&nested("if 1 { ", "}")), Some("E002")),
        ("if_true.kb", algorithm(&nested("if r == r { ", "}")), Some("E002")),
        ("brackets.kb", program(&format!("param n = {}\n", nested("(", ")")), ""), Some("E002")),
        ("open.kb", "[".repeat(1 << 20), Some("E002")),
        ("minus.kb", format!("param n = {}1\n", "-".repeat(1 << 18)), Some("E002")),
        (
            "let.kb",
            program(
                "",
                &many(depth, &|i| {
                    format!("let y{i} = {} + x\n", if i == 0 { "x".into() } else { format!("y{}", i - 1) })
                }),
            ),
            None,
        ),
        ("params.kb", program(&many(20_000, &|i| format!("param n{i} = {i}\n")), ""), None),
        (
            "chained.kb",
            program(
                &many(20_000, &|i| {
                    if i == 0 { "param n0 = 1\n".into() } else { format!("param n{i} = n{} + 1\n", i - 1) }
                }),
                "",
            ),
            None,
        ),
        ("functions.kb", program(&many(20_000, &|i| format!("fn f{i}(a) = a + {i}\n")), ""), None),
        (
            "lets.kb",
            algorithm(&format!("{} put [r] -> r + 1", many(depth, &|i| format!("let y{i} = r + {i}\n")))),
            None,
        ),
        ("graph.kb", program("", "").replace("ring(4)", "graph(1000000, 0)"), Some("E443")),
        (
            "if.kir",
            format!(
                "kir 1\nmodule @m\nmesh tp 2\nschedule calls none\nregion @r local\n  role all\n    stream main\n{}",
                many(levels, &|i| format!("{}if 1\n", "  ".repeat(3 + i)))
            ),
            None,
        ),
        (
            "if.tile",
            format!("tile 1\nkernel k\nbody\n{}", many(levels, &|i| format!("{}if 1\n", "  ".repeat(1 + i)))),
            None,
        ),
        (
            "kernel.kb",
            format!("kernel g[M](a: f16[M]) -> c: f16[M] {{ {} }}\n", nested("if 1 {", "}")),
            Some("E002"),
        ),
        ("list.yaml", "[".repeat(1 << 20), Some("E460")),
        ("map.yaml", "{a: ".repeat(1 << 18), Some("E460")),
        ("dashes.yaml", "- ".repeat(1 << 18), Some("E460")),
        ("keys.yaml", many(keys, &|i| format!("k{i}: 1\n")), Some("E461")),
        (
            "links.yaml",
            format!(
                "devices: 8000\nlinks:\n{}",
                many(8000, &|i| format!("  ({i})->({}): 1 GB/s, 1 us\n", (i + 1) % 8000))
            ),
            None,
        ),
        ("open.xml", "<a>".repeat(1 << 17), None),
        ("open.json", "[".repeat(1 << 20), None),
    ] {
        s.write(name, text.as_bytes());
        let line = match name.rsplit_once('.') {
            Some((_, "yaml")) => format!("check ring.kb --topology {name}"),
            _ => format!("check {name}"),
        };
        s.write("ring.kb", RING.as_bytes());
        let line = if line.contains("--topology") {
            line.replace("check ring.kb", "run ring.kb --no-data")
        } else {
            line
        };
        let begin = Instant::now();
        let ran = soon(&s, seconds, &line);
        eprintln!("{name}: {:?}, exit {}", begin.elapsed(), ran.code);
        if let Some(want) = want {
            code(&ran, want);
        }
    }
    for line in ["run ring.kb --topology 'tree(2, 13) { link: 1 GB/s, 1 us }' --no-data", "list algorithms"] {
        let begin = Instant::now();
        let ran = soon(&s, seconds, line);
        eprintln!("{line}: {:?}, exit {}", begin.elapsed(), ran.code);
    }
    s.write("tree.kb", RING.replace("ring(4)", "tree(2, 13)").as_bytes());
    let begin = Instant::now();
    let ran = soon(&s, seconds, "run tree.kb --no-data");
    eprintln!("tree.kb: {:?}, exit {}", begin.elapsed(), ran.code);
}

#[test]
#[cfg(unix)]
fn names_that_are_no_text_are_refused_by_name() {
    use std::os::unix::ffi::OsStrExt;
    let s = Scratch::new();
    let odd = std::ffi::OsStr::from_bytes(b"a\xff.kb");
    std::fs::create_dir(s.path().join("d")).expect("a folder");
    if std::fs::write(s.path().join("d").join(odd), "param n = 1\n").is_err() {
        return;
    }
    for line in
        ["check d/a\u{1}.kb", "compile ring.kb -o a\u{1}", "fmt d/a\u{1}.kb", "list algorithms a\u{1}.kb"]
    {
        let line = line.replace('\u{1}', "$(printf '\\377')");
        let ran = shell(s.path(), &format!("$KBC {line}"));
        assert!(ran.code == 2 && ran.stderr.contains("a\\xFF"), "{line}: {} {}", ran.code, ran.stderr);
    }
    let ran = shell(s.path(), "$KBC fmt d");
    assert!(
        ran.code == 2 && ran.stderr.contains("a\\xFF.kb") && ran.stderr.contains("UTF-8"),
        "{}",
        ran.stderr
    );
}

/// No damaged file of any kind makes a reader panic, take long, or reject it without a code, a
/// message and a place. `kbc dev fuzz readers specs tests crates --inputs 1000000` tries more.
#[test]
fn every_reader_takes_damaged_files() {
    use kbc::commands::fuzz_readers::{WITH, below};
    use kbc_audit::fuzz::readers::{examples, run};
    let mut all = examples::built_in();
    for folder in [
        "specs",
        "tests/bad",
        "tests/msccl",
        "crates/ir/tests/kir",
        "crates/import/tests/torch",
        "crates/backend-ascend/tests/tile",
    ] {
        below(&common::root().join(folder), &mut all).expect("the repository can be read");
    }
    let sum = run(WITH, &all, 1, 0..2600, &mut |_| {});
    assert_eq!(sum.tried.len(), 13);
    let list: Vec<String> = sum
        .failures
        .iter()
        .map(|f| format!("{} of {}: {}\n{}", f.number, f.example, f.what, String::from_utf8_lossy(&f.bytes)))
        .collect();
    assert!(list.is_empty(), "{}", list.join("\n\n"));
}
