//! Tests of PyTorch programs as local programs and as global ones (`kbc import --lift`): the same
//! numbers, bit for bit; and weights from a file in place of an archive's.

use kbc_numerics::formats;
use kbc_numerics::tensor::{Data, Tensor};
use std::path::{Path, PathBuf};
use std::process::Command;

fn kbc(args: &[&str]) -> String {
    let out = Command::new(env!("CARGO_BIN_EXE_kbc"))
        .args(args)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("kbc runs");
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(out.status.success(), "{args:?}: {text}{}", String::from_utf8_lossy(&out.stderr));
    text
}

fn folder(name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("torch_{name}"));
    std::fs::create_dir_all(&dir).expect("a folder");
    dir
}

/// Returns the result of a program, as sizes and bits of f32 in row-major order.
fn result(program: &str, dir: &Path) -> (Vec<u64>, Vec<u32>) {
    let file = dir.join("out.safetensors");
    let file = file.to_str().expect("a name");
    kbc(&["compile", program, "--output", &format!("out={file}:out")]);
    let t: Tensor =
        formats::read(file, &std::fs::read(file).expect("a file"), Some("out")).expect("a tensor");
    let bits = t.data().to_f64().iter().map(|x| (*x as f32).to_bits()).collect();
    (t.shape().to_vec(), bits)
}

/// Returns the results of all parts of a local program, or the one of a program.
fn results(program: &str, dir: &Path) -> (Vec<u64>, Vec<u32>) {
    let names = ["out", "out_r0", "out_r1"].map(|n| {
        let file = dir.join(format!("{n}.safetensors"));
        let _ = std::fs::remove_file(&file);
        (n, file)
    });
    let run = |names: &[(&str, PathBuf)]| {
        let outputs = names.iter().flat_map(|(n, f)| ["--output".into(), format!("{n}={}:{n}", f.display())]);
        let mut command = Command::new(env!("CARGO_BIN_EXE_kbc"));
        command.args(["compile", program]).args(outputs.collect::<Vec<String>>());
        command.current_dir(env!("CARGO_MANIFEST_DIR")).output().expect("kbc runs").status.success()
    };
    let read = |(n, file): &(&str, PathBuf)| {
        let shown = file.to_str().expect("a name");
        formats::read(shown, &std::fs::read(file).expect("a result"), Some(n)).expect("a tensor")
    };
    let parts: Vec<Tensor> = match run(&names[..1]) {
        true => vec![read(&names[0])],
        false if run(&names[1..]) => names[1..].iter().map(read).collect(),
        false => panic!("{program}"),
    };
    let bits = parts.iter().flat_map(|t| t.data().to_f64()).map(|x| (x as f32).to_bits()).collect();
    match &parts[..] {
        [one] => (one.shape().to_vec(), bits),
        // A result of one rank may have an additional dimension for that.
        [a, ..] => {
            let own = a.shape().strip_prefix(&[1]).unwrap_or(a.shape());
            ([&[2], own].concat(), bits)
        }
        [] => (vec![], bits),
    }
}

/// Runs both forms of the programs in a folder of `specs/torch`; the local one has a row per rank.
fn both(name: &str) -> [(Vec<u64>, Vec<u32>); 2] {
    let dir = folder(name);
    let source = format!("specs/torch/{name}");
    ["local", "whole"].map(|form| {
        let file = dir.join(format!("{form}.kb"));
        let file = file.to_str().expect("a name");
        let mut args = vec!["import", &source, "-o", file];
        if form == "whole" {
            args.push("--lift");
        }
        kbc(&args);
        result(file, &dir)
    })
}

#[test]
fn lifted_programs_have_the_same_numbers() {
    for name in ["block_tp2", "dynamic_tp2", "bf16_tp2"] {
        let [(local, rows), (whole, all)] = both(name);
        assert_eq!(local[1..], whole, "{name}");
        assert!(!all.is_empty());
        for row in rows.chunks(all.len()) {
            assert_eq!(row, all, "{name}");
        }
    }
}

#[test]
fn lifted_over_one_axis_of_two() {
    // Rows over dp, whole over tp.
    let [(local, rows), (whole, all)] = both("mlp_dp2xtp2");
    assert_eq!((local[0], local[1] * 2, local[2]), (4, whole[0], whole[1]));
    let part = all.len() / 2;
    for (rank, row) in rows.chunks(part).enumerate() {
        assert_eq!(row, &all[rank / 2 * part..(rank / 2 + 1) * part], "rank {rank}");
    }
}

/// Returns an array of these sizes, cut along a dimension into two parts if `split` names one.
fn parts(sizes: &[u64], list: &[f32], split: Option<usize>) -> Vec<(Vec<u64>, Vec<f32>)> {
    let Some(d) = split else { return vec![(sizes.to_vec(), list.to_vec()); 2] };
    let mut own = sizes.to_vec();
    own[d] /= 2;
    let run = (own[d..].iter().product::<u64>()) as usize;
    let of = |rank: usize| list.chunks(run).skip(rank).step_by(2).flatten().copied().collect();
    vec![(own.clone(), of(0)), (own, of(1))]
}

/// Rows, constants, slices and shares of a rank's own: the global program has the numbers of the
/// local one, on data that contains numbers of both ranks' rows.
#[test]
fn what_ranks_have_of_their_own_is_lifted_with_its_numbers() {
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/import/tests/torch/lifted");
    let mut count = 0;
    for case in std::fs::read_dir(cases).expect("cases").map(|e| e.expect("an entry").path()) {
        let name = case.file_name().expect("a name").to_string_lossy().into_owned();
        let dir = folder(&format!("own_{name}"));
        let mut ranks: [Vec<(String, Tensor)>; 2] = [vec![], vec![]];
        for line in std::fs::read_to_string(case.join("INPUTS")).expect("INPUTS").lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let sizes: Vec<u64> = words[2].split(',').map(|n| n.parse().expect("a size")).collect();
            let split =
                words[3].strip_prefix("S(").map(|d| d.trim_end_matches(')').parse().expect("a number"));
            let below: Option<u64> = words.get(4).map(|n| n.parse().expect("a number"));
            let number =
                |k: u64| (k + sizes[0] + words[0].len() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
            let value = |k: u64| match below {
                Some(n) => (number(k) % n) as f32,
                None => (number(k) % 1000) as f32 / 500.0 - 1.0,
            };
            let list: Vec<f32> = (0..sizes.iter().product()).map(value).collect();
            for (rank, (own, list)) in parts(&sizes, &list, split).into_iter().enumerate() {
                let data = match below {
                    Some(_) => Data::I64(list.iter().map(|x| *x as i64).collect()),
                    None => Data::F32(list),
                };
                ranks[rank]
                    .push((format!("in__{}", words[0]), Tensor::new(own, data).expect("of that size")));
            }
        }
        for (rank, arrays) in ranks.iter().enumerate() {
            let file = format!("rank{rank}.readable.py");
            std::fs::copy(case.join(&file), dir.join(&file)).expect("a program");
            let bytes = formats::write_npz(arrays).expect("an archive");
            std::fs::write(dir.join(format!("rank{rank}.npz")), bytes).expect("a file");
        }
        let source = dir.to_str().expect("a name").to_owned();
        let [(local, rows), (whole, all)] = ["local", "whole"].map(|form| {
            let file = dir.join(format!("{form}.kb"));
            let file = file.to_str().expect("a name");
            let mut args = vec!["import", &source, "-o", file];
            if form == "whole" {
                args.push("--lift");
            }
            kbc(&args);
            results(file, &dir)
        });
        let split = (0..whole.len()).find(|d| local[d + 1] != whole[*d]);
        let all: Vec<f32> = all.iter().map(|b| f32::from_bits(*b)).collect();
        let rows: Vec<f32> = rows.iter().map(|b| f32::from_bits(*b)).collect();
        for ((_, want), got) in parts(&whole, &all, split).iter().zip(rows.chunks(rows.len() / 2)) {
            assert_eq!(want.len(), got.len(), "{name}");
            for (a, b) in want.iter().zip(got) {
                assert!((a - b).abs() <= 1e-5 * (1.0 + a.abs()), "{name}: {a} and {b}");
            }
        }
        let text = kbc(&["check", &source]);
        let shown = text.ends_with("ok\n") || name == "average";
        assert!(shown && !all.is_empty(), "{name}: {text}");
        count += 1;
    }
    assert!(count >= 9);
}

#[test]
fn weights_come_from_a_file() {
    let dir = folder("weights");
    let local = dir.join("m.kb");
    kbc(&["import", "specs/torch/dynamic_tp2", "-o", local.to_str().expect("a name")]);
    let weights = dir.join("m.rank*.npz");
    let text = kbc(&["compile", "specs/torch/dynamic_tp2", "--weights", weights.to_str().expect("a name")]);
    assert!(text.contains("agree with rank*.npz:out__0"), "{text}");
    // Other weights give other results.
    for r in 0..2 {
        let file = dir.join(format!("m.rank{r}.npz"));
        let shown = file.to_str().expect("a name");
        let bytes = std::fs::read(&file).expect("a file");
        let keys = formats::keys(shown, &bytes).expect("keys");
        let read = |k: &String| formats::read(shown, &bytes, Some(k)).expect("an array");
        let mut list: Vec<(String, Tensor)> = keys.iter().map(|k| (k.clone(), read(k))).collect();
        let b2 = list.iter().position(|l| l.0 == "b2").expect("a bias");
        let zeros = Data::F32(vec![0.0; list[b2].1.elements()]);
        list[b2].1 = Tensor::new(list[b2].1.shape().to_vec(), zeros).expect("zeros");
        let out = dir.join(format!("other{r}.npz"));
        std::fs::write(out, formats::write_npz(&list).expect("an archive")).expect("written");
    }
    let out = Command::new(env!("CARGO_BIN_EXE_kbc"))
        .args(["compile", "specs/torch/dynamic_tp2", "--weights"])
        .arg(dir.join("other*.npz"))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("kbc runs");
    let text = String::from_utf8_lossy(&out.stdout);
    assert!(!out.status.success() && text.contains("differ from rank*.npz:out__0"), "{text}");
}

#[test]
fn functions_are_what_pytorch_computes() {
    let text = kbc(&["compile", "specs/torch/functions_tp2"]);
    assert_eq!(text.matches("on all ranks agree with ").count(), 39, "{text}");
    assert!(!text.contains("nothing is said"), "{text}");
}

/// A stored result may be within twice the bound of a long matmul and still be wrong, so there is a
/// limit that does not depend on the bound.
#[test]
fn a_stored_result_is_within_a_small_part_of_what_is_added() {
    let k = 4096usize;
    let dir = folder("limit");
    let x: Vec<f32> = (0..2 * k).map(|i| (i % 97) as f32 / 97.0 - 0.25).collect();
    let w: Vec<f32> = (0..2 * k).map(|i| (i % 89) as f32 / 89.0).collect();
    let of = |f: &dyn Fn(f64) -> f64| -> Vec<f64> {
        let place =
            |i: usize, j: usize| (0..k).map(|l| f(f64::from(x[i * k + l]) * f64::from(w[2 * l + j]))).sum();
        (0..4).map(|at| place(at / 2, at % 2)).collect()
    };
    let (exact, terms) = (of(&|t| t), of(&f64::abs));
    let text = "topology sys = ring(1)\nmesh m = sys[tp]\n\n\
        program p(x: f32[2, 4096] = \"limit.npz\":x, w: f32[4096, 2] = \"limit.npz\":w) -> f32[2, 2] { matmul(x, w) }\n\
        expect \"limit.npz\":y\n";
    std::fs::write(dir.join("limit.kb"), text).expect("a file");
    for (off, passes) in [(1e-5, true), (4e-5, false)] {
        let tensor =
            |shape: &[u64], list: Vec<f32>| Tensor::new(shape, Data::F32(list)).expect("of that size");
        let y = exact.iter().zip(&terms).map(|(v, s)| (v + off * s) as f32).collect();
        let arrays = [
            ("x", tensor(&[2, 4096], x.clone())),
            ("w", tensor(&[4096, 2], w.clone())),
            ("y", tensor(&[2, 2], y)),
        ];
        let bytes = formats::write_npz(&arrays.map(|(n, t)| (n.to_owned(), t))).expect("floats");
        std::fs::write(dir.join("limit.npz"), bytes).expect("a file");
        let ran = Command::new(env!("CARGO_BIN_EXE_kbc"))
            .args(["run", "limit.kb", "--no-time", "--format", "json"])
            .current_dir(&dir)
            .output()
            .expect("kbc runs");
        let report: serde_json::Value = serde_json::from_slice(&ran.stdout).expect("a report");
        let expect = &report["expect"][0];
        // The bound allows both.
        assert_eq!(expect["mismatches"], 0, "{expect}");
        assert_eq!((ran.status.success(), report["ok"].as_bool()), (passes, Some(passes)), "{expect}");
        assert_eq!(expect["beyond"], if passes { 0 } else { 4 }, "{expect}");
        let found = expect["terms_err"].as_f64().expect("a number");
        assert!((found - off).abs() < 0.02 * off, "{found} and {off}");
    }
}

/// `index` by lists of several dimensions, adjacent or not, by known numbers and by negative ones.
#[test]
fn elements_are_picked_by_lists_of_numbers() {
    let dir = folder("index");
    let text = r#"class Picked(torch.nn.Module):
    def forward(self, x: "f32[3, 4, 5]", a: "i64[2, 1]", b: "i64[3]"):
        index: "f32[2, 3, 5]" = torch.ops.aten.index.Tensor(x, [a, b])
        index_1: "f32[3, 3, 5]" = torch.ops.aten.index.Tensor(x, [None, b])
        index_2: "f32[2, 3, 4]" = torch.ops.aten.index.Tensor(x, [a, None, b])
        index_3: "f32[3, 2, 3]" = torch.ops.aten.index.Tensor(x, [None, a, b])
        arange: "i64[3]" = torch.ops.aten.arange.default(3)
        index_4: "f32[3, 5]" = torch.ops.aten.index.Tensor(x, [arange, b])
        full: "i64[]" = torch.ops.aten.full.default([], -1, dtype = torch.int64)
        index_5: "f32[2, 1]" = torch.ops.aten.index.Tensor(x, [a, full, full])
        return (index, index_1, index_2, index_3, index_4, index_5)
"#;
    std::fs::write(dir.join("rank0.readable.py"), text).expect("a file");
    let (a, b): ([usize; 2], [usize; 3]) = ([2, 0], [3, 1, 0]);
    let x = |i: usize, j: usize, k: usize| (100 * i + 10 * j + k) as f32;
    let all = |sizes: [usize; 3], f: &dyn Fn(usize, usize, usize) -> f32| -> Vec<f32> {
        let [l, m, n] = sizes;
        (0..l * m * n).map(|i| f(i / (m * n), i / n % m, i % n)).collect()
    };
    let floats = |sizes: &[u64], list: Vec<f32>| Tensor::new(sizes, Data::F32(list)).expect("of that size");
    let whole = |sizes: &[u64], list: &[usize]| {
        Tensor::new(sizes, Data::I64(list.iter().map(|i| *i as i64).collect())).expect("of that size")
    };
    let arrays = [
        ("in__x", floats(&[3, 4, 5], all([3, 4, 5], &x))),
        ("in__a", whole(&[2, 1], &a)),
        ("in__b", whole(&[3], &b)),
        ("out__0", floats(&[2, 3, 5], all([2, 3, 5], &|i, j, k| x(a[i], b[j], k)))),
        ("out__1", floats(&[3, 3, 5], all([3, 3, 5], &|i, j, k| x(i, b[j], k)))),
        ("out__2", floats(&[2, 3, 4], all([2, 3, 4], &|i, j, k| x(a[i], k, b[j])))),
        ("out__3", floats(&[3, 2, 3], all([3, 2, 3], &|i, j, k| x(i, a[j], b[k])))),
        ("out__4", floats(&[3, 5], all([3, 1, 5], &|i, _, k| x(i, b[i], k)))),
        ("out__5", floats(&[2, 1], all([2, 1, 1], &|i, _, _| x(a[i], 3, 4)))),
    ];
    let bytes = formats::write_npz(&arrays.map(|(n, t)| (n.to_owned(), t))).expect("an archive");
    std::fs::write(dir.join("rank0.npz"), bytes).expect("a file");
    let report = kbc(&["compile", dir.to_str().expect("a name"), "--format", "json"]);
    let report: serde_json::Value = serde_json::from_str(&report).expect("a report");
    let expect = report["expect"].as_array().expect("a list");
    assert_eq!(expect.len(), 6, "{expect:?}");
    assert!(expect.iter().all(|e| e["mismatches"] == 0 && e["max_err"] == 0.0), "{expect:?}");
}

/// Text does not state the values of symbolic sizes: data beside it does, or the command line.
#[test]
fn symbols_in_text_are_bound_by_data() {
    let dir = folder("symbols");
    let text = r#"class View(torch.nn.Module):
    def forward(self, x: "f32[s77, 4]"):
        sym_size_int: "Sym(s77)" = torch.ops.aten.sym_size.int(x, 0)
        mul: "Sym(2*s77)" = sym_size_int * 2
        view: "f32[2*s77, 2]" = torch.ops.aten.view.default(x, [mul, 2])
        neg: "f32[2*s77, 2]" = torch.ops.aten.neg.default(view)
        return (neg,)

Range constraints: {s77: VR[2, 5]}
"#;
    let file = dir.join("rank0.readable.py");
    std::fs::write(&file, text).expect("a file");
    // An earlier run may have left its data.
    let _ = std::fs::remove_file(dir.join("rank0.npz"));
    let file = file.to_str().expect("a name");
    let run = |args: &[&str]| {
        let out = Command::new(env!("CARGO_BIN_EXE_kbc")).args(args).output().expect("kbc runs");
        (out.status.code(), String::from_utf8_lossy(&out.stderr).into_owned())
    };
    let (code, message) = run(&["check", file]);
    assert!(code == Some(1) && message.contains("[E554]") && message.contains("-D s77=16"), "{message}");
    assert!(kbc(&["check", file, "-D", "s77=4"]).ends_with("ok\n"));
    let (code, message) = run(&["check", file, "-D", "s77=6"]);
    assert!(code == Some(1) && message.contains("s77 is 6, and at most 5 is allowed"), "{message}");
    let list: Vec<f32> = (0..12).map(|i| i as f32 + 0.5).collect();
    let tensor = |sizes: &[u64], list: Vec<f32>| Tensor::new(sizes, Data::F32(list)).expect("of that size");
    let arrays = [
        ("in__x", tensor(&[3, 4], list.clone())),
        ("out__0", tensor(&[6, 2], list.iter().map(|x| -x).collect())),
    ];
    let bytes = formats::write_npz(&arrays.map(|(n, t)| (n.to_owned(), t))).expect("an archive");
    std::fs::write(dir.join("rank0.npz"), bytes).expect("a file");
    let report: serde_json::Value =
        serde_json::from_str(&kbc(&["compile", file, "--format", "json"])).expect("a report");
    assert_eq!(
        (&report["expect"][0]["elements"], &report["expect"][0]["mismatches"]),
        (&12.into(), &0.into())
    );
}

/// A bias of which each rank has a share is right, though no placement distinguishes it from one
/// that every rank adds; numbers do.
#[test]
fn numbers_tell_what_no_placement_explains() {
    let program = |k: u64, reduced: bool| {
        let mut text = format!(
            "class Linear(torch.nn.Module):\n    def forward(self, x: \"f32[4, {k}]\", w: \"f32[{k}, 5]\", b: \"f32[5]\"):\n        \
             addmm: \"f32[4, 5]\" = torch.ops.aten.addmm.default(b, x, w)\n"
        );
        let mut out = "addmm";
        if reduced {
            text += "        all_reduce: \"f32[4, 5]\" = torch.ops._c10d_functional.all_reduce.default(addmm, 'sum', '0')\n";
            text += "        wait_tensor: \"f32[4, 5]\" = torch.ops._c10d_functional.wait_tensor.default(all_reduce)\n";
            out = "wait_tensor";
        }
        format!("{text}        return ({out},)\n")
    };
    let tensor = |sizes: &[u64], at: usize| {
        let list = (0..sizes.iter().product::<u64>() as usize).map(|i| ((i + at) * 7 % 11) as f32 - 4.5);
        Tensor::new(sizes, Data::F32(list.collect())).expect("of that size")
    };
    for (name, part) in [("share", 2.0), ("every", 1.0), ("alone", 1.0)] {
        let dir = folder(&format!("bias_{name}"));
        let model = dir.join("model");
        std::fs::create_dir_all(&model).expect("a folder");
        let bias = |part: f32| {
            let list = (0..5).map(|i| (i as f32 - 1.75) / part).collect();
            Tensor::new([5], Data::F32(list)).expect("of that size")
        };
        let columns = |half: usize| -> Tensor {
            let whole = tensor(&[4, 6], 0).data().to_f64();
            let list = (0..12).map(|i| whole[i / 3 * 6 + half * 3 + i % 3] as f32).collect();
            Tensor::new([4, 3], Data::F32(list)).expect("of that size")
        };
        let put = |dir: &Path, rank: usize, text: &str, arrays: [Tensor; 3]| {
            std::fs::write(dir.join(format!("rank{rank}.readable.py")), text).expect("a file");
            let arrays: Vec<(String, Tensor)> =
                ["in__x", "in__w", "in__b"].map(str::to_owned).into_iter().zip(arrays).collect();
            let bytes = formats::write_npz(&arrays).expect("floats");
            std::fs::write(dir.join(format!("rank{rank}.npz")), bytes).expect("a file");
        };
        for rank in 0..2 {
            let none = Tensor::new([5], Data::F32(vec![0.0; 5])).expect("of that size");
            let b = if name == "alone" && rank == 1 { none } else { bias(part) };
            let arrays = [columns(rank), tensor(&[3, 5], rank * 15), b];
            put(&dir, rank, &program(3, true), arrays);
        }
        put(&model, 0, &program(6, false), [tensor(&[4, 6], 0), tensor(&[6, 5], 0), bias(1.0)]);
        let run = |args: &[&str]| {
            let out = Command::new(env!("CARGO_BIN_EXE_kbc"))
                .args(args)
                .current_dir(&dir)
                .output()
                .expect("kbc runs");
            (out.status.code(), String::from_utf8_lossy(&[out.stdout, out.stderr].concat()).into_owned())
        };
        let programs = ["check", "rank0.readable.py", "rank1.readable.py"];
        if name == "alone" {
            let (code, text) = run(&[&programs[..], &["--reference", "model"]].concat());
            assert!(code == Some(0) && text.contains("all 20 elements of 1 result agree"), "{text}");
            let lift = ["import", "rank0.readable.py", "rank1.readable.py", "--lift", "-o", "wrong.kb"];
            let (code, text) = run(&lift);
            assert!(code == Some(1) && text.contains("part of a sum for `b`"), "{text}");
            // Another bias in the model: the message has a place.
            let other = [tensor(&[4, 6], 0), tensor(&[6, 5], 0), bias(3.0)];
            put(&model, 0, &program(6, false), other);
            let (code, text) = run(&[&programs[..], &["--reference", "model"]].concat());
            assert!(code == Some(1) && text.contains("the input `b`, assembled"), "{text}");
            assert!(text.contains("rank0.readable.py"), "{text}");
            continue;
        }
        let (code, text) = run(&programs);
        assert!(code == Some(1) && text.contains("E565") && text.contains("P(sum)"), "{text}");
        let (code, text) = run(&[&programs[..], &["--reference", "model"]].concat());
        match name {
            "share" => {
                assert!(code == Some(0) && text.contains("all 20 elements of 1 result agree"), "{text}");
                assert!(text.contains("no placement explains the programs"), "{text}");
                assert!(text.contains("on the inputs beside the programs:"), "{text}");
            }
            _ => assert!(code == Some(1) && text.contains("E565"), "{text}"),
        }
        // A wrong program is not imported.
        for lift in [&[][..], &["--lift"]] {
            let import = ["import", "rank0.readable.py", "rank1.readable.py", "-o", "wrong.kb"];
            let (code, text) = run(&[&import[..], lift].concat());
            assert!(code == Some(1) && text.contains("E565"), "{text}");
            assert!(!dir.join("wrong.kb").exists());
        }
        // A share that is declared as one.
        let said = r#"{"world_size": 2, "groups": {"0": {"ranks": [0, 1]}}, "placements": {"b": "P(sum)"}}"#;
        std::fs::write(dir.join("groups.json"), said).expect("a file");
        let (code, text) = run(&[&programs[..], &["--reference", "model"]].concat());
        let ok = if name == "share" { Some(0) } else { Some(1) };
        assert_eq!(code, ok, "{text}");
        std::fs::remove_file(dir.join("groups.json")).expect("a file");
    }
}
