//! Tests of `--target host` on programs that compute: every program of `specs`, all functions and
//! element types, and what is found where a kernel computes or orders something else.

use crate::cases::all_cases;
use crate::common::{Scratch, c_level, cc, free_sizes, kbc, npy, root};
use crate::host::{Packages, run};
use crate::needs::{MPI_VARS, Need, found};
use std::path::Path;
use std::process::Command;

const HEAD: &str =
    "param tp = 2\nparam n = 13\ntopology sys = full(tp) { link: 50 GB/s, 500 ns }\nmesh m = sys[tp]\n";

/// Returns the arguments for a count, where a program has one.
fn count(packages: &Packages, name: &str, count: u32) -> String {
    match packages.source(name).contains(".parameter = 0,") {
        true => String::new(),
        false => format!(" -c {count}"),
    }
}

/// Returns at most two numbers of ranks up to 4 for which a program was proven.
fn ranks(text: &str) -> Vec<String> {
    let (_, list) = text.split_once("_ranks[] = {").expect("numbers of ranks");
    let list = list.split('}').next().unwrap_or("").split(", ");
    let all: Vec<String> = list.map(str::to_owned).collect();
    let few = all.iter().filter(|r| r.len() == 1 && r.as_str() <= "4").take(2).cloned().collect::<Vec<_>>();
    if few.is_empty() { all[..1].to_vec() } else { few }
}

/// Runs a program whose elements must all be right.
fn right(program: &Path, args: &str) {
    let ran = run(program, args);
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{args}\n{}", ran.stdout);
    assert!(ran.stdout.contains(": all are "), "{args}\n{}", ran.stdout);
    assert!(!ran.stdout.contains("no known bound"), "{args}\n{}", ran.stdout);
}

/// Every program of `specs` that the target accepts: every element on every rank. The two that it
/// does not accept are refused in `host.rs`.
#[test]
fn programs_of_specs_give_their_values() {
    let Some(compiler) = found(Need::C) else { return };
    let dir = Scratch::new();
    let mut text = "#define KBC_LIBRARY\n".to_owned();
    let (mut calls, mut names, mut refused) = (String::new(), vec![], vec![]);
    let folder = std::fs::read_dir(dir.path().join("specs")).expect("the programs");
    let mut files: Vec<String> = folder
        .filter_map(|e| e.ok()?.file_name().into_string().ok())
        .filter(|n| n.ends_with(".kb"))
        .collect();
    files.sort();
    for file in &files {
        let (path, stem) = (format!("specs/{file}"), file.trim_end_matches(".kb"));
        let source = std::fs::read_to_string(dir.path().join(&path)).expect("a program");
        let mut args = vec!["compile", &path, "--target", "host", "--no-data", "-o", stem, "-q"];
        args.extend(free_sizes(&path, &source));
        let ran = kbc(dir.path(), &args, "");
        if ran.code != 0 {
            refused.push(stem);
            continue;
        }
        let made = std::fs::read_dir(dir.path().join(stem)).expect("a package");
        let c = made.filter_map(|e| e.ok()?.file_name().into_string().ok()).find(|n| n.ends_with(".c"));
        let c = c.expect("a program");
        let code = std::fs::read_to_string(dir.path().join(stem).join(&c)).expect("C");
        // Several programs have one name.
        let own = format!("{}_", c.trim_end_matches(".c"));
        let code = code.replace(&own, &format!("of_{stem}_"));
        names.push((stem.to_owned(), ranks(&code)));
        dir.write(&format!("{stem}/renamed.c"), code.as_bytes());
        text += &format!("#include \"{stem}/renamed.c\"\n");
        calls += &format!(
            "    if (strcmp(argv[1], \"{stem}\") == 0) return kbc_main(&of_{stem}_program, argc - 1, argv + 1);\n"
        );
    }
    assert_eq!(refused, ["cores", "host_loop", "in_network"]);
    text += &format!(
        "int main(int argc, char **argv) {{\n    if (argc < 2) return 3;\n{calls}    return 3;\n}}\n"
    );
    dir.write("all.c", text.as_bytes());
    let program = dir.path().join("all");
    let all = all_cases();
    cc(&compiler, &dir.path().join("all.c"), &program, &[if all { "-O3" } else { "-O0" }]);
    for (i, (name, ranks)) in names.iter().enumerate() {
        // In a sample, half of the programs run once.
        let calls = if all || i % 2 == 0 { 2 } else { 1 };
        right(&program, &format!("{name} -n {} --calls {calls} --repeat 0", ranks[0]));
    }
}

/// Programs with all functions, element types, reductions and forms of products.
fn computed() -> Vec<(&'static str, String)> {
    let functions = "kernel scale(a, b) = a * b + 1\n\
        program norm_like(z: f16[n@tp, 7]) -> f16[n@tp, 7] {\n\
        let w = f32(z)\nlet c = w - mean(w, dim: 1, keep: true)\n\
        let v = mean(c * c, dim: 1, keep: true);\nf16(scale(c, rsqrt(v + 0.001))) }\n\
        program functions(x: f32[n@tp, 7], y: bf16[n@tp, 7], z: f16[n@tp, 7], r: f32[7]) -> \
        (f32[n@tp, 7], f32[n@tp, 7], f32[n@tp, 7], f32[n@tp, 7], bf16[n@tp, 7], f16[n@tp, 7], f16[n@tp, 7]) {\n\
        let a = exp(-abs(x)) + tanh(x) * erf(x) - r\n\
        let b = sin(x) - cos(x) / (1 + sqrt(abs(x)))\n\
        let c = log(1 + abs(x)) + log1p(abs(x)) - rsqrt(1 + pow_int(x, 2))\n\
        let d = select(x < r, min(x, 0.25), max(-x, r)) / 3\n\
        let e = softmax(y, dim: 1) - y / 2\n\
        let f = z * z + tanh(z);\n\
        (a, b, c, d, e, f, norm_like(z)) }\n";
    let integers = "program integers(i: i32[n@tp, 5], t: i16[n@tp, 5]) -> (i32[n@tp, 5], i32[n@tp], i32[5], \
        i64[n@tp, 5], f32[n@tp, 5], bf16[n@tp, 5], i32[n@tp, 5], i8[n@tp, 5], f32[n@tp, 5]) {\n\
        let a = select(i > 2, i * 3 - 7, abs(i - 9)) / 2\n\
        let b = max(i - 4, dim: 1) + sum(i, dim: 1) - min(i, dim: 1)\n\
        let c = sum(i, dim: 0)\n\
        let d: i32[5] = c;\n\
        (a, b, d, i64(i), f32(i) / 3, bf16(i), i32(f32(i) * 0.5 - 3), i8(i), f32(t)) }\n";
    let reduced = "program reduced(x: f32[n, 5000@tp], y: bf16[n, 9@tp], z: f16[6, n]) -> (f32[n], f32[n], f32[5000@tp], \
        bf16[n], bf16[9@tp], f32[n], f16[6]) {\n\
        let s: f32[n] = sum(x, dim: 1)\nlet m: f32[n] = max(x, dim: 1)\nlet q: bf16[n] = max(y, dim: 1)\n\
        let p = f32(z);\n\
        (s, m, mean(x, dim: 0), q, min(y, dim: 0), max(p, dim: 0), mean(z, dim: 1)) }\n";
    let product = |name: &str, dtype: &str| {
        format!(
            "program {name}(x: {dtype}[n, 33], u: {dtype}[33, 70@tp], v: {dtype}[70@tp, 300], \
             a: {dtype}[4@tp, 5, n], b: {dtype}[4@tp, n, 3]) -> ({dtype}[n, 300], {dtype}[4@tp, 5, 3]) {{\n\
             let h = max(matmul(x, u), 0);\n(matmul(h, v), matmul(a, b)) }}\n"
        )
    };
    let deep = "program deep(x: bf16[n, 400], w: bf16[400, 40@tp], v: f16[40@tp, 300]) -> (f32[n, 300]) {\n\
        let h = matmul(x, w, accumulate: f32);\nmatmul(f16(gelu(h)), v, accumulate: f32) }\n";
    let moved = "program moved(x: f32[4, n, 6@tp], ids: i32[n, 2], table: f16[9@tp, 20]) -> \
        (f32[n, 6@tp, 4], f32[n, 4, 3], f16[n, 2, 20], i32[3, 4], f32[5, 7]) {\n\
        let t = transpose(x, [1, 2, 0])\nlet w: f32[4, n, 6] = x\n\
        let s = slice(transpose(w, [1, 0, 2]), dim: 2, from: 1, to: 4)\n\
        let e: f16[n, 2, 20] = embedding(table, ids);\n\
        (t, s, e, iota([3, 4], dim: 1) * 2, pad(full([3, 7], 0.5), dim: 0, before: 1, after: 1, value: -1)) }\n";
    let mut out: Vec<(&'static str, String)> = vec![
        ("functions", functions.into()),
        ("integers", integers.into()),
        ("reduced", reduced.into()),
        ("deep", deep.into()),
        ("moved", moved.into()),
    ];
    for (name, dtype) in [("singles", "f32"), ("halves", "f16"), ("brains", "bf16"), ("wholes", "i32")] {
        out.push((name, product(name, dtype)));
    }
    out.iter_mut().for_each(|(_, text)| *text = format!("{HEAD}{text}"));
    out
}

/// All functions, comparisons, conversions, reductions and products, in all types, with no row, one
/// row, odd numbers and several tiles.
#[test]
fn functions_and_products_give_their_values() {
    let Some(packages) = Packages::new(&computed()) else { return };
    // Steps of the definition that take at least that many ns are shared: some of these, not all.
    let all = packages.all("all", &["-DKBC_SHARED_FROM=20000"]);
    for name in &packages.names {
        let ranks = ranks(&packages.source(name));
        for (i, of) in [1, 13, 211].into_iter().enumerate() {
            let (r, count) = (&ranks[i % ranks.len()], count(&packages, name, of));
            right(&all, &format!("{name} -n {r}{count} --calls 2 --repeat 0 --seed {of}"));
        }
    }
}

/// The functions that kernels call, in the code for wide registers and in the plain one.
#[test]
fn operations_compute_what_their_rules_say() {
    let Some(packages) = Packages::new(&computed()[3..4]) else { return };
    let text = std::fs::read(root().join("tests/host/compute.c")).expect("a file of the tests");
    packages.dir.write("deep/compute.c", &text);
    let file = packages.dir.path().join("deep/compute.c");
    for (out, flags) in [("wide", &["-O3"][..]), ("plain", &["-DKBC_PLAIN"])] {
        let ran = run(&packages.cc(&file, out, flags), "");
        assert!(ran.code == 0 && ran.stdout.ends_with("0 wrong\n"), "{out}: {ran:?}");
    }
}

/// Integers stay exact at counts above those for which their sizes were found: they are smaller
/// there.
#[test]
fn integers_stay_exact_at_larger_counts() {
    let text = "param tp = 4\nparam n = 37\ntopology sys = full(tp) { link: 50 GB/s, 500 ns }\nmesh m = sys[tp]\n\
        program totals(x: f32[n@tp, 3]) -> (f32[1, 3]) {\n\
        let g: f32[n, 3] = relu(x); sum(g, dim: 0, keep: true) }\n";
    let Some(packages) = Packages::new(&[("totals", text.to_owned())]) else { return };
    let all = packages.all("all", &[]);
    for count in [1, 37, 1009, 100_003] {
        right(&all, &format!("totals -n 4 -c {count} --calls 5 --repeat 0"));
    }
    // Without smaller integers, sums are rounded.
    let text = packages.source("totals");
    assert!(text.contains("out->growth = 1;"), "{text}");
    packages.dir.write("totals/fixed.c", text.replace("out->growth = 1;", "").as_bytes());
    let fixed = packages.cc(&packages.dir.path().join("totals/fixed.c"), "totals_fixed", &[]);
    let ran = run(&fixed, "-n 4 -c 100003 --calls 1 --repeat 0");
    assert!(ran.code == 1 && ran.stderr.contains("expected"), "{ran:?}");
    let ran = run(&all, "totals -n 4 -c 16777217 --calls 1 --repeat 0");
    assert!(ran.code == 2 && ran.stderr.contains("no integers stay exact"), "{ran:?}");
}

/// An element that the kernel computes in another way is named with the value that is expected and
/// how far it may be off. So is a sum with one term less.
#[test]
fn a_wrong_element_has_a_bound() {
    let programs: Vec<_> = computed().into_iter().filter(|p| ["functions", "deep"].contains(&p.0)).collect();
    let Some(packages) = Packages::new(&programs) else { return };
    for (i, (name, from, to)) in [
        ("functions", " = kbc_exp(", " = fabsf("),
        // A coefficient of tanh, in its third digit.
        ("functions", "0.13331443071365356f", "0.1334f"),
        ("deep", ", t, 0);", ", t - 1, 0);"),
    ]
    .into_iter()
    .enumerate()
    {
        let text = packages.source(name);
        let changed = text.replace(from, to);
        assert!(text.contains(from), "{name}: {from}");
        let file = format!("{name}/wrong_{i}.c");
        packages.dir.write(&file, changed.as_bytes());
        let wrong = packages.cc(&packages.dir.path().join(file), &format!("wrong_{i}"), &[]);
        let ran = run(&wrong, &format!("-n 2{} --calls 1 --repeat 0", count(&packages, name, 210)));
        assert_eq!(ran.code, 1, "{name}: {from}: {ran:?}");
        for words in [": rank ", ", call 0: element ", " is ", ", expected ", ", bound "] {
            assert!(ran.stderr.contains(words), "{words}: {ran:?}");
        }
        let said = "within the bounds of their errors: ";
        assert!(ran.stdout.contains(said) && ran.stdout.contains(" differ\n"), "{ran:?}");
    }
}

/// ThreadSanitizer finds no race in a program that computes and communicates, and one in each that
/// lacks an order.
#[test]
fn a_sanitizer_judges_programs_that_compute() {
    let programs: Vec<_> = computed().into_iter().filter(|p| p.0 == "singles").collect();
    let Some(packages) = Packages::new(&programs) else { return };
    let text = packages.source("singles");
    // The ranks evaluate every step of the definition together.
    let shared = format!("#define KBC_SHARED_FROM 0\n{text}");
    let built = packages.changed("singles", &shared, "clean");
    right(&built, "-n 2 --calls 4 --repeat 0 --delays");
    let (kernel, rest) = text.split_once("/* --- the program --- */").expect("a description");
    for order in ["memory_order_release", "memory_order_acquire"] {
        let mutant = format!("{}{rest}", kernel.replacen(order, "memory_order_relaxed", 1));
        assert_ne!(mutant.len(), text.len(), "{order}");
        let built = packages.changed("singles", &mutant, order);
        let ran = run(&built, "-n 2 --calls 8 --repeat 0 --delays --limit 10");
        assert!(ran.stderr.contains("WARNING: ThreadSanitizer: data race"), "{order}: {ran:?}");
    }
}

/// Inputs of files are in the folder, with a hash: the kernel and the definition have their values.
/// A folder that was emitted without executing anything has none.
#[test]
fn inputs_of_files_are_in_the_folder() {
    let Some(compiler) = found(Need::C) else { return };
    let dir = Scratch::new();
    let bytes = |of: &[f32]| of.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
    dir.write("x.npy", &npy("<f4", &[5], &bytes(&[0.25, -1.5, 3.0e8, 7.0, -0.0])));
    dir.write("ids.npy", &npy("<i4", &[3], &[2u8, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0]));
    let text = "program given(x: f32[5] = \"x.npy\", ids: i32[3] = \"ids.npy\", y: f32[5, 2@tp]) -> (f32[5], f32[3, 2]) {\n\
                let rows = embedding(y, ids)\nlet all: f32[3, 2] = rows;\n(x + 1, all) }\n";
    dir.write("given.kb", format!("{HEAD}{text}").as_bytes());
    let ran = kbc(dir.path(), &["compile", "given.kb", "--target", "host", "-o", "given", "-q"], "");
    assert_eq!(ran.code, 0, "{ran:?}");
    let data = std::fs::read(dir.path().join("given/data.bin")).expect("the inputs");
    assert_eq!(data.len(), 5 * 4 + 3 * 4);
    let source = std::fs::read_to_string(dir.path().join("given/given.c")).expect("C");
    let build = |text: &str, out: &str| {
        dir.write("given/changed.c", text.as_bytes());
        let program = dir.path().join("given").join(out);
        cc(&compiler, &dir.path().join("given/changed.c"), &program, &[c_level()]);
        program
    };
    let program = build(&source, "right");
    right(&program, "-n 2 --calls 2 --repeat 0");
    assert!(run(&program, "-n 2 --repeat 0").stdout.contains("inputs of files are those of data.bin"));
    // The values are those of the file: 0.25 + 1.
    let wrong = build(&source.replace("= v0 + 1.0f;", "= v0 + 2.0f;"), "wrong");
    let ran = run(&wrong, "-n 2 --calls 1 --repeat 0");
    assert!(ran.code == 1 && ran.stderr.contains("element 0 of out0 is 2.25, expected 1.25"), "{ran:?}");
    // Others, if asked.
    let ran = run(&wrong, "-n 2 --calls 1 --repeat 0 --generated");
    assert!(ran.code == 1 && !ran.stderr.contains("expected 1.25"), "{ran:?}");
    dir.write("given/other.bin", &data[1..]);
    let other = dir.path().join("given/other.bin");
    let ran = run(&program, &format!("-n 2 --data {}", other.display()));
    assert!(
        ran.code == 2 && ran.stderr.contains("other.bin does not hold the inputs of this program"),
        "{ran:?}"
    );
    let ran = run(&program, "-n 2 --data none.bin");
    assert!(ran.code == 2 && ran.stderr.contains("the inputs cannot be read: none.bin: "), "{ran:?}");
    // `kbc launch` reads them, too.
    let ran = kbc(dir.path(), &["launch", "given.kb", "--calls", "2", "--repeat", "0"], "");
    assert_eq!(ran.code, 0, "{ran:?}");
    let args = ["compile", "given.kb", "--target", "host", "--no-data", "-o", "without", "-q"];
    assert_eq!(kbc(dir.path(), &args, "").code, 0);
    assert!(!dir.path().join("without/data.bin").exists());
}

/// A program that computes runs over MPI, too.
#[test]
fn programs_that_compute_run_over_mpi() {
    let programs: Vec<_> = computed().into_iter().filter(|p| p.0 == "brains").collect();
    let Some(packages) = Packages::by(Need::MpiCompiler, &programs) else { return };
    let Some(launcher) = found(Need::MpiLauncher) else { return };
    let program = packages.cc(&packages.dir.path().join("brains/brains.c"), "brains_mpi", &["-DKBC_MPI"]);
    let out = Command::new(launcher)
        .args(["-n", "2"])
        .arg(&program)
        .args(["--calls", "2", "--repeat", "0"])
        .envs(MPI_VARS)
        .output()
        .expect("it starts");
    let said = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success(), "{said}{}", String::from_utf8_lossy(&out.stderr));
    assert!(said.contains("within the bounds of their errors: all are right"), "{said}");
}
