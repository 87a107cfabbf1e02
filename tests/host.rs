//! Tests of `--target host`: emitted C as processes and, under ThreadSanitizer, as threads.

use crate::common::{Ran, Scratch, c_level, cc, kbc, root};
use crate::needs::{Need, found};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Returns a program of one collective by several algorithms, with a result of each.
fn program(name: &str, p: u64, signature: &str, ty: &str, body: &str, algorithms: &[&str]) -> String {
    let lets: String =
        algorithms.iter().map(|a| format!("let by_{a}: {ty} = {};\n", body.replace("ALG", a))).collect();
    let results: Vec<String> = algorithms.iter().map(|a| format!("by_{a}")).collect();
    let types = vec![ty; algorithms.len()].join(", ");
    format!(
        "param tp = {p}\nparam n = 1000\ntopology sys = full(tp) {{ link: 50 GB/s, 500 ns }}\nmesh m = sys[tp]\n\
         program {name}{signature} -> ({types}) {{ {lets}({}) }}\n",
        results.join(", ")
    )
}

const REDUCED: &str = "(x: TY[n] partial(sum@tp))";

/// Packages of programs, in a folder of their own.
pub(crate) struct Packages {
    pub dir: Scratch,
    compiler: OsString,
    pub names: Vec<String>,
}

impl Packages {
    /// Emits programs; nothing if there is no C compiler.
    pub fn new(programs: &[(&str, String)]) -> Option<Packages> {
        Packages::by(Need::C, programs)
    }

    /// Emits programs for a compiler; nothing if there is none.
    pub fn by(compiler: Need, programs: &[(&str, String)]) -> Option<Packages> {
        let compiler = found(compiler)?;
        let dir = Scratch::new();
        for (name, text) in programs {
            dir.write(&format!("{name}.kb"), text.as_bytes());
            let file = format!("{name}.kb");
            let ran =
                kbc(dir.path(), &["compile", &file, "--target", "host", "--no-data", "-o", name, "-q"], "");
            assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{name}: {}", ran.stdout);
        }
        let names = programs.iter().map(|p| p.0.to_owned()).collect();
        Some(Packages { dir, compiler, names })
    }

    pub fn source(&self, name: &str) -> String {
        std::fs::read_to_string(self.dir.path().join(format!("{name}/{name}.c"))).expect("a package")
    }

    pub fn cc(&self, file: &Path, out: &str, flags: &[&str]) -> PathBuf {
        let out = self.dir.path().join(out);
        cc(&self.compiler, file, &out, &[&[c_level()], flags].concat());
        out
    }

    /// Compiles all packages as one program, which takes the name of a program first.
    pub fn all(&self, out: &str, flags: &[&str]) -> PathBuf {
        let mut text = "#define KBC_LIBRARY\n".to_owned();
        for n in &self.names {
            text += &format!("#include \"{n}/{n}.c\"\n");
        }
        text += "int main(int argc, char **argv) {\n    if (argc < 2) return 3;\n";
        for n in &self.names {
            text += &format!(
                "    if (strcmp(argv[1], \"{n}\") == 0) return kbc_main(&{n}_program, argc - 1, argv + 1);\n"
            );
        }
        self.dir.write("all.c", (text + "    return 3;\n}\n").as_bytes());
        self.cc(&self.dir.path().join("all.c"), out, flags)
    }

    /// Compiles a changed text of a program, with threads for ThreadSanitizer.
    pub fn changed(&self, name: &str, text: &str, out: &str) -> PathBuf {
        let file = format!("{name}/{out}.c");
        self.dir.write(&file, text.as_bytes());
        self.cc(&self.dir.path().join(file), out, &SANITIZED)
    }
}

/// Flags of the build in which ranks are threads.
const SANITIZED: [&str; 3] = ["-g", "-fsanitize=thread", "-DKBC_THREADS"];

pub(crate) fn run(program: &Path, args: &str) -> Ran {
    let out = Command::new(program).args(args.split(' ')).output().expect("it starts");
    Ran {
        stdout: String::from_utf8_lossy(&out.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&out.stderr).into_owned(),
        code: out.status.code().unwrap_or(-1),
    }
}

/// Runs a program that must find all elements equal.
fn equal(program: &Path, args: &str) {
    let ran = run(program, args);
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{args}\n{}", ran.stdout);
    assert!(ran.stdout.contains("compared bit for bit: all are equal"), "{args}\n{}", ran.stdout);
}

/// Programs of all collectives by algorithms of the library, for any number of ranks.
pub(crate) fn collectives() -> Vec<(&'static str, String)> {
    let all_reduce = "all_reduce(x, sum, over: tp, using: ALG)";
    let everywhere = ["two_phase", "ring", "bidirectional_ring"];
    let sum = |name: &'static str, dtype: &str, algorithms: &[&str]| {
        let ty = format!("{dtype}[n]");
        (name, program(name, 4, &REDUCED.replace("TY", dtype), &ty, all_reduce, algorithms))
    };
    let max = all_reduce.replace("sum", "max");
    vec![
        sum("sums", "f32", &everywhere),
        sum("whole_sums", "i32", &["ring"]),
        sum("half_sums", "f16", &["one_phase", "ring"]),
        sum("short_sums", "bf16", &["one_phase", "ring"]),
        ("maxima", program("maxima", 4, "(x: f16[n] partial(max@tp))", "f16[n]", &max, &["ring"])),
        (
            "scattered",
            program(
                "scattered",
                4,
                &REDUCED.replace("TY", "f32"),
                "f32[n@tp]",
                "reduce_scatter(x, sum, over: tp, dim: 0, using: ALG)",
                &["direct", "ring"],
            ),
        ),
        (
            "gathered",
            program(
                "gathered",
                4,
                "(x: f16[n@tp])",
                "f16[n]",
                "all_gather(x, over: tp, dim: 0, using: ALG)",
                &["direct", "ring"],
            ),
        ),
        (
            "exchanged",
            program(
                "exchanged",
                4,
                "(x: i32[n@tp, 24])",
                "i32[n, 24@tp]",
                "all_to_all(x, over: tp, from: 0, to: 1, using: ALG)",
                &["direct", "pairwise"],
            ),
        ),
        (
            "turned",
            program(
                "turned",
                4,
                "(x: f16[tp * n@tp])",
                "f16[tp * n@tp]",
                "shift(x, dim: 0, over: tp, by: 1, using: ALG)",
                &["direct", "ring"],
            ),
        ),
        (
            "sent",
            program(
                "sent",
                4,
                "(x: f32[n] only(1@tp))",
                "f32[n]",
                "broadcast(x, over: tp, root: 1, using: ALG)",
                &["direct", "binomial", "chain"],
            ),
        ),
    ]
}

/// Programs whose ranks fetch inputs from where they lie.
pub(crate) fn in_place() -> Vec<(&'static str, String)> {
    let one = |name: &'static str, signature: &str, ty: &str, body: &str| {
        let body = body.replace("BY", "with (transfer: rendezvous)");
        let text = program(name, 4, signature, "", "", &[]);
        let (head, _) = text.split_once("program ").expect("a program");
        (name, format!("{head}program {name}{signature} -> {ty} {{ {body} }}\n"))
    };
    let reduced = REDUCED.replace("TY", "f32");
    vec![
        one("all_parts", "(x: f16[n@tp])", "f16[n]", "all_gather(x, over: tp, dim: 0, using: direct BY)"),
        one("all_sums", &reduced, "f32[n]", "all_reduce(x, sum, over: tp, using: two_phase BY)"),
        one(
            "parts_of_sums",
            &reduced,
            "(f32[n@tp], f32[n])",
            "let a = reduce_scatter(x, sum, over: tp, dim: 0, using: direct BY); \
             (a, all_reduce(x, sum, over: tp, using: one_phase BY))",
        ),
        one(
            "sent_by_one",
            "(x: i32[n] only(1@tp))",
            "i32[n]",
            "broadcast(x, over: tp, root: 1, using: direct BY)",
        ),
        // The blocks of several rows are packed first, and fetched from there.
        one(
            "columns",
            "(x: i32[n@tp, 24])",
            "i32[n, 24@tp]",
            "all_to_all(x, over: tp, from: 0, to: 1, using: direct BY)",
        ),
        // What is computed first is fetched from where it is, and used again after that.
        one(
            "computed",
            "(x: f32[tp * n@tp])",
            "f32[tp * n@tp]",
            "let a = relu(x); let b = shift(a, dim: 0, over: tp, by: 1, using: direct BY); a * b",
        ),
        // Slots alternate, so fetches of a call may last into the next one.
        one(
            "in_turn",
            "(x: f32[n@tp])",
            "f32[n]",
            "all_gather(x, over: tp, dim: 0, using: direct with (transfer: pull))",
        ),
        // Its first message is a copy of the input, and the others are of what came.
        one("around", "(x: f32[n@tp])", "f32[n]", "all_gather(x, over: tp, dim: 0, using: ring BY)"),
    ]
}

/// In which kernels peers fetch inputs from where they lie, and what they still copy.
#[test]
fn inputs_are_fetched_in_place() {
    let Some(packages) = Packages::new(&in_place()) else { return };
    for (name, reached, windows) in [
        ("all_parts", 1, 0),
        ("all_sums", 1, 1),
        // The second collective begins after waits of the first one.
        ("parts_of_sums", 1, 1),
        ("sent_by_one", 1, 0),
        ("columns", 0, 0),
        ("computed", 0, 0),
        ("in_turn", 0, 1),
        ("around", 0, 1),
    ] {
        let text = packages.source(name);
        assert_eq!(text.matches("= me->inputs[").count(), reached, "{name}: {text}");
        let is_window = |line: &&str| {
            let name = line.split(" = ").next().unwrap_or_default();
            name.contains("const int64_t ") && name.trim_end_matches(char::is_numeric).ends_with("_w")
        };
        assert_eq!(text.lines().filter(is_window).count(), windows, "{name}: {text}");
    }
    let all = packages.all("all", &[]);
    for name in &packages.names {
        for (ranks, count) in [(2, 0), (2, 1), (3, 1009), (4, 5), (4, 9001), (8, 3), (8, 1009)] {
            equal(&all, &format!("{name} -n {ranks} -c {count} --calls 20 --repeat 0"));
        }
        equal(&all, &format!("{name} -n 3 -c 37 --calls 50 --repeat 0 --delays --seed 5"));
    }
}

/// Every element on every rank, bit for bit: no element, one element, odd counts, several tiles;
/// several calls in a row, with delays.
#[test]
fn collectives_give_the_values_of_the_program() {
    let Some(packages) = Packages::new(&collectives()) else { return };
    let all = packages.all("all", &[]);
    for name in &packages.names {
        for (ranks, count) in [(2, 0), (2, 1), (3, 1009), (4, 5), (4, 9001), (8, 3), (8, 1009)] {
            equal(&all, &format!("{name} -n {ranks} -c {count} --calls 5 --repeat 0"));
        }
    }
    equal(&all, "sums -n 4 -c 37 --calls 100 --repeat 0 --delays --seed 5");
    let ran = run(&all, "sums -n 2 -c 64 --repeat 10");
    assert!(ran.code == 0 && ran.stdout.contains("(median of 5 blocks of 10 calls; "), "{ran:?}");
}

/// A collective of one's own: what all ranks before a rank have, added. Rank 0 ends with zeros.
const BEFORE: &str = "collective before over (r of p) on src[n], dst[n] { start src[i] \
    end dst[i] if r > 0 = sum(src[i] at q for q in 0..r) }\n\
    algorithm direct: before over (r of p) { each q in r + 1..p { if q == r + 1 { put src[..] -> dst[..] at q } } \
    each q in r + 2..p { put src[..] -> dst[..] at q reduce } }\n";

/// Programs in which blocks change places, several of them one after another.
pub(crate) fn moves() -> Vec<(&'static str, String)> {
    let whole = |name: &str, signature: &str, results: &str, body: &str| {
        let text = program(name, 4, signature, "", "", &[]);
        let (head, _) = text.split_once("program ").expect("a program");
        format!("{BEFORE}{head}program {name}{signature} -> ({results}) {{ {body} }}\n")
    };
    let swap = "(0, 1), (1, 0)";
    vec![
        (
            "permuted",
            whole(
                "permuted",
                "(x: i32[3, tp * n@tp])",
                "i32[3, tp * n@tp], i32[3, tp * n]",
                &format!(
                    "let a = permute(x, dim: 1, pairs: [{swap}])\nlet b = shift(a, dim: 1, by: -1)\n\
                     let c: i32[3, tp * n] = b; (send_recv(a, from: 1, to: 0), c)"
                ),
            ),
        ),
        ("added", whole("added", "(x: f32[2, tp * n@tp])", "f32[2, tp * n@tp]", "before(x, sum)")),
        ("largest", whole("largest", "(x: bf16[tp * n@tp])", "bf16[tp * n]", "before(x, max)")),
        (
            "scans",
            program(
                "scans",
                4,
                "(x: f32[tp * n@tp])",
                "f32[tp * n@tp]",
                "exclusive_scan(x, sum, over: tp, using: ALG)",
                &["doubling"],
            ),
        ),
    ]
}

/// Blocks that a contract moves or combines, and rows that a matrix of counts moves.
#[test]
fn blocks_change_places() {
    let counted = "topology sys = full(3) { link: 50 GB/s, 500 ns }\nmesh m = sys[tp]\n\
        program counted(x: i16[12@tp(lengths: [3, 4, 5]), 2]) -> i16[12@tp(lengths: [6, 2, 4]), 2] {\n\
        all_to_all(x, over: tp, counts: [[1, 2, 0], [3, 0, 1], [2, 0, 3]]) }\n";
    let programs = [moves(), vec![("counted", counted.to_owned())]].concat();
    let Some(packages) = Packages::new(&programs) else { return };
    let all = packages.all("all", &[]);
    for (name, _) in &programs[..3] {
        for count in [0, 1, 5, 9001] {
            equal(&all, &format!("{name} -n 4 -c {count} --calls 5 --repeat 0"));
        }
    }
    for (ranks, count) in [(2, 0), (2, 1), (3, 1009), (4, 5), (4, 9001), (8, 3)] {
        equal(&all, &format!("scans -n {ranks} -c {count} --calls 5 --repeat 0"));
    }
    equal(&all, "counted -n 3 --calls 5 --repeat 0 --delays");
    // Each of them with a table of other blocks.
    let last = "KBC_NONE},";
    for (name, row) in [
        ("permuted", last),
        ("added", "KBC_SUM},"),
        ("largest", "KBC_MAX},"),
        ("scans", "KBC_SUM},"),
        ("counted", last),
    ] {
        let text = packages.source(name);
        let of = if name == "counted" { 3 } else { 4 };
        let (head, rest) = text.split_once(&format!("_moves_0_of_{of}[] = {{")).expect("a table");
        let (table, rest) = rest.split_once("};").expect("its end");
        let rows: Vec<&str> = table.lines().filter(|l| l.ends_with(row)).collect();
        assert!(!rows.is_empty() && rows.len() < 12, "{name}: {table}");
        // The blocks of its last row come from elsewhere, or are 0.
        let changed = table.replacen(rows[rows.len() - 1], "    {0, 0, 1, 0, 0, KBC_NONE},", 1);
        let text = format!("{head}_moves_0_of_{of}[] = {{{changed}}};{rest}");
        packages.dir.write(&format!("{name}/wrong.c"), text.as_bytes());
        let wrong =
            packages.cc(&packages.dir.path().join(name).join("wrong.c"), &format!("{name}_wrong"), &[]);
        let ran = run(&wrong, &format!("-n {of} --calls 1 --repeat 0"));
        assert!(ran.code == 1 && ran.stdout.contains(" differ\n"), "{name}: {table}\n{ran:?}");
    }
}

/// Bits of expected values are those of the rounding that the kernel does: a kernel that adds
/// something else is reported, with rank and element.
#[test]
fn a_wrong_element_is_reported() {
    let Some(packages) = Packages::new(&collectives()[3..4]) else { return };
    let text = packages.source("short_sums");
    let wrong = text.replacen("= v2 + v3;", "= v2 - v3;", 1);
    assert_ne!(wrong, text);
    let text = wrong;
    packages.dir.write("short_sums/wrong.c", text.as_bytes());
    let wrong = packages.cc(&packages.dir.path().join("short_sums/wrong.c"), "wrong", &[]);
    let ran = run(&wrong, "-n 2 -c 10 --calls 1 --repeat 0");
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(
        ran.stderr.contains("short_sums: rank 0, call 0: element ") && ran.stderr.contains(", expected "),
        "{ran:?}"
    );
    assert!(ran.stdout.contains(" differ\n"), "{ran:?}");
}

/// ThreadSanitizer finds no race in emitted programs, and finds one in every program that lacks an
/// order or a wait.
#[test]
fn a_sanitizer_finds_missing_fences() {
    let Some(packages) = Packages::new(&[collectives(), in_place()].concat()) else { return };
    let all = packages.all("all_tsan", &SANITIZED);
    for name in &packages.names {
        equal(&all, &format!("{name} -n 4 -c 101 --calls 8 --repeat 0 --delays"));
        equal(&all, &format!("{name} -n 3 -c 5000 --calls 4 --repeat 0"));
    }
    let mutants = |text: &str, from: &str, to: &str| -> Vec<String> {
        let all = text.match_indices(from).map(|(at, _)| at);
        all.map(|at| format!("{}{to}{}", &text[..at], &text[at + from.len()..])).collect()
    };
    let (mut tried, mut missed) = (0, vec![]);
    for name in ["gathered", "whole_sums", "all_parts", "sent_by_one", "computed"] {
        let text = packages.source(name);
        let (kernel, rest) = text.split_once("/* --- the program --- */").expect("a description");
        let mut made = mutants(kernel, "memory_order_release", "memory_order_relaxed");
        made.extend(mutants(kernel, "memory_order_acquire", "memory_order_relaxed"));
        // A wait for nothing.
        made.extend(mutants(kernel, "KBC_WAIT(", "if (0) KBC_WAIT("));
        assert!(made.len() >= 3, "{name}: {}", made.len());
        for mutant in &made {
            let built = packages.changed(name, &format!("{mutant}{rest}"), &format!("mutant_{tried}"));
            let ran = run(&built, "-n 3 -c 500 --calls 8 --repeat 0 --delays --limit 10");
            if !ran.stderr.contains("WARNING: ThreadSanitizer: data race") {
                missed.push(format!("{name}: mutant {tried}: {ran:?}"));
            }
            tried += 1;
        }
    }
    assert!(missed.is_empty(), "{} of {tried} missed: {missed:#?}", missed.len());
}

/// Additions, products, minima and maxima of f16 and bf16, and conversions, have the same bits in
/// the code for eight elements and in that for one, for every value of an operand.
#[test]
fn halves_have_the_same_bits_however_they_are_computed() {
    let Some(packages) = Packages::new(&collectives()[2..3]) else { return };
    let text = std::fs::read(root().join("tests/host/halves.c")).expect("a file of the tests");
    packages.dir.write("half_sums/halves.c", &text);
    let file = packages.dir.path().join("half_sums/halves.c");
    for (out, flags) in [("halves", &["-O3"][..]), ("plain", &["-O3", "-DKBC_PLAIN"])] {
        let ran = run(&packages.cc(&file, out, flags), "");
        assert!(ran.code == 0 && ran.stdout.ends_with("0 wrong\n"), "{out}: {ran:?}");
    }
}

/// Wrong arguments end with 2, and the message names what is right.
#[test]
fn wrong_arguments_are_refused() {
    let Some(packages) = Packages::new(&collectives()[2..3]) else { return };
    let all = packages.all("all", &[]);
    for (args, words) in [
        ("half_sums", "-n RANKS is missing"),
        (
            "half_sums -n 11",
            "the schedule was proven for 2, 3, 4, 5, 6, 7, 8, 9, 12, 16 ranks and not for 11",
        ),
        ("half_sums -n 2 -c 99999999999", "the largest value of n is "),
        ("half_sums -n 2 -c -1", "-c needs a whole number"),
        ("half_sums -n 2 --calls", "--calls needs a whole number"),
        ("half_sums -n 2 --call 3", "unknown argument --call"),
        ("half_sums -n 2 --calls 3000000000", "calls before a counter leaves its 32 bits"),
    ] {
        let ran = run(&all, args);
        assert!(ran.code == 2 && ran.stderr.contains(words) && ran.stdout.is_empty(), "{args}: {ran:?}");
    }
    assert!(run(&all, "half_sums --help").stdout.contains("--limit SECONDS"));
}

/// `--json` gives numbers in place of text, and null for what is not measured or has no meaning.
#[test]
fn measurements_are_json() {
    let all = collectives();
    let pair =
        "program twins(x: f32[n] partial(sum@tp), y: f32[n] partial(sum@tp)) -> (f32[n], f32[n]) { (x, y) }";
    let pair = all[0].1.lines().take(4).chain([pair]).map(|l| format!("{l}\n")).collect();
    let Some(packages) = Packages::new(&[all[2].clone(), ("twins", pair)]) else { return };
    let program = packages.all("all", &[]);
    let json = |args: &str| -> serde_json::Value {
        let ran = run(&program, &format!("{args} --json"));
        assert_eq!((ran.code, ran.stderr.as_str(), ran.stdout.lines().count()), (0, "", 1), "{ran:?}");
        serde_json::from_str(&ran.stdout).unwrap_or_else(|e| panic!("{e}: {}", ran.stdout))
    };
    let found = json("half_sums -n 3 -c 30 --calls 4 --repeat 2");
    for (field, value) in [
        ("schema", 1),
        ("ranks", 3),
        ("count", 30),
        ("calls", 4),
        ("compared", 2 * 5 * 3 * 30),
        ("wrong", 0),
        ("repeat", 2),
    ] {
        assert_eq!(found[field], value, "{field}: {found}");
    }
    assert_eq!((&found["program"], &found["parameter"]), (&"half_sums".into(), &"n".into()));
    let mut blocks: Vec<f64> = found["blocks_ns"]
        .as_array()
        .map(|all| all.iter().filter_map(serde_json::Value::as_f64).collect())
        .expect("a list");
    blocks.sort_by(f64::total_cmp);
    for (field, at) in [("min_ns", 0), ("time_ns", 2), ("max_ns", 4)] {
        assert_eq!(found[field].as_f64(), Some(blocks[at]), "{field}: {found}");
    }
    // Two results have no size of which busbw could speak.
    let found = json("twins -n 2 --repeat 1");
    assert!(found["time_ns"].is_number() && found["bytes"].is_null() && found["busbw"].is_null(), "{found}");
    let found = json("twins -n 2 --repeat 0");
    assert!(found["time_ns"].is_null() && found["blocks_ns"] == serde_json::json!([]), "{found}");
}

/// With `--until-eof` a run ends with its input, also where no rank ever waits long.
#[test]
fn a_run_ends_with_its_input() {
    let Some(packages) = Packages::new(&collectives()[2..3]) else { return };
    let all = packages.all("all", &[]);
    let args = "half_sums -n 2 -c 9 --calls 1000000000 --repeat 0 --until-eof";
    let mut command = Command::new(&all);
    command.args(args.split(' ')).stdin(Stdio::piped()).stdout(Stdio::null());
    let mut started = command.spawn().expect("it starts");
    std::thread::sleep(Duration::from_millis(100));
    assert!(matches!(started.try_wait(), Ok(None)));
    drop(started.stdin.take());
    assert_eq!(started.wait().expect("it ends").code(), Some(1));
}

/// A wait that never ends is ended, and names rank, counter, values and statement.
#[test]
fn a_wait_has_a_time_limit() {
    let Some(packages) = Packages::new(&collectives()[2..3]) else { return };
    let text = packages.source("half_sums").replace("kbc_notify(me, ", "if (me->rank != 1) kbc_notify(me, ");
    packages.dir.write("half_sums/mute.c", text.as_bytes());
    let mute = packages.cc(&packages.dir.path().join("half_sums/mute.c"), "mute", &[]);
    let ran = run(&mute, "-n 2 -c 9 --limit 1");
    assert_eq!((ran.code, ran.stdout.as_str()), (1, ""), "{ran:?}");
    let line = ran.stderr.lines().find(|l| l.contains("waited longer than 1 s")).expect("a message");
    // Rank 0 waits for a message of rank 1, which waits for a later one of rank 0. Either may reach
    // its limit first.
    let ranks = ["half_sums: rank 0 waited", "half_sums: rank 1 waited"];
    assert!(ranks.iter().any(|r| line.starts_with(r)), "{line}");
    for words in ["counter @", " is 0 and has to be at least 1, in ", ".kb:"] {
        assert!(line.contains(words), "{words}: {line}");
    }
}

/// The other ranks notice that one was killed, name it, and end; no shared memory is left.
#[cfg(target_os = "linux")]
#[test]
fn a_killed_rank_ends_the_others() {
    let Some(packages) = Packages::new(&collectives()[1..2]) else { return };
    let all = packages.all("all", &[]);
    let args = ["whole_sums", "-n", "3", "-c", "1000", "--calls", "1000000", "--repeat", "0"];
    let started = Command::new(&all).args(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let started = started.expect("it starts");
    let id = started.id();
    let children = format!("/proc/{id}/task/{id}/children");
    let mut victim = None;
    for _ in 0..500 {
        let text = std::fs::read_to_string(&children).unwrap_or_default();
        let all: Vec<&str> = text.split_whitespace().collect();
        if let [_, second, _] = all[..] {
            victim = Some(second.to_owned());
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    std::thread::sleep(Duration::from_millis(50));
    let killed = Command::new("kill").args(["-9", &victim.expect("three ranks")]).status();
    assert!(killed.is_ok_and(|s| s.success()));
    let out = started.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(1), "{said}");
    assert!(said.contains("whole_sums: rank 1 was killed by signal 9"), "{said}");
    assert!(said.contains("rank 0 stops, because rank 1 was killed by signal 9; it waited in "), "{said}");
    let left: Vec<_> = std::fs::read_dir("/dev/shm")
        .into_iter()
        .flatten()
        .filter_map(|e| e.ok()?.file_name().into_string().ok())
        .filter(|n| n.starts_with(&format!("kbc-{id}-")))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

/// What the target does not emit is refused with its code and a reason.
#[test]
fn what_is_not_emitted_is_refused() {
    let dir = Scratch::new();
    for (spec, code, words) in [
        ("cores", "E450", "the kernel uses 4 cores, and a die has 1"),
        ("host_loop", "E470", "cannot emit a host section"),
        ("local/dp_tp", "E548", "a local program cannot be emitted"),
    ] {
        let file = format!("specs/{spec}.kb");
        let ran = kbc(dir.path(), &["compile", &file, "--target", "host", "--no-data", "-o", "out"], "");
        assert_eq!(ran.code, 1, "{spec}: {}{}", ran.stdout, ran.stderr);
        assert!(
            ran.stderr.contains(&format!("[{code}]")) && ran.stderr.contains(words),
            "{spec}: {}",
            ran.stderr
        );
        assert!(!dir.path().join("out").exists(), "{spec}");
    }
}
