//! Tests of programs of the library (TP-3) and of whole layers made of them (TP-1, TP-5).
//!
//! The expected result of each program is computed here in f64 from its inputs, for several
//! placements of them. Each run also checks that every rank agrees with one device. The encoder
//! layer is compared with PyTorch's result (`expect`), at every number of devices, and its
//! collectives are counted.

use crate::common;

use common::{Scratch, kbc, root};
use kbc_numerics::formats;
use serde_json::Value;
use std::collections::BTreeMap;

/// Returns the results of a program by name, in f64, and its report.
fn results(program: &str, names: &[&str]) -> (BTreeMap<String, Vec<f64>>, Value) {
    let scratch = Scratch::new();
    scratch.write("p.kb", program.as_bytes());
    let outputs: Vec<String> = (0..names.len()).map(|i| format!("out{i}=r.npz")).collect();
    let mut args = vec!["compile", "p.kb", "--target", "sim", "--format", "json"];
    args.extend(outputs.iter().flat_map(|o| ["--output", o.as_str()]));
    let ran = kbc(scratch.path(), &args, "");
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{program}\n{}", ran.stdout);
    let report: Value = serde_json::from_str(&ran.stdout).expect("a report");
    assert_eq!(report["ok"], true, "{program}");
    let bytes = std::fs::read(scratch.path().join("r.npz")).expect("written");
    assert!(bytes == interpreted(program, names.len()), "machine code and interpreter differ\n{program}");
    let of = |i: usize| {
        let key = format!("out{i}");
        formats::read("r.npz", &bytes, Some(&key)).expect("a result").data().to_f64()
    };
    (names.iter().enumerate().map(|(i, n)| ((*n).to_owned(), of(i))).collect(), report)
}

/// Returns the bits of the same program on the interpreter, which defines the meaning of programs.
fn interpreted(program: &str, results: usize) -> Vec<u8> {
    let scratch = Scratch::new();
    scratch.write("p.kb", program.as_bytes());
    let outputs: Vec<String> = (0..results).map(|i| format!("out{i}=r.npz")).collect();
    let mut args = vec!["compile", "p.kb", "--engine", "interp", "--quiet"];
    args.extend(outputs.iter().flat_map(|o| ["--output", o.as_str()]));
    let ran = kbc(scratch.path(), &args, "");
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    std::fs::read(scratch.path().join("r.npz")).expect("written")
}

/// A loop is its iterations written one after another, and an index is a slice without its
/// dimension: the results are the same, bit for bit.
#[test]
fn a_loop_is_its_iterations_written_out() {
    let program = |body: &str| {
        format!(
            "topology sys = torus(2, 2) {{ link: 50 GB/s, 500 ns }}\nmesh m = sys[dp: 2, tp: 2]\n\
             program layer[S, D, H](x: f32[S, D], w: f32[D, H], v: f32[H, D]) -> f32[S, D] {{\n    \
                 x + matmul(relu(matmul(x, w)), v)\n}}\n\
             program p(x: f32[6@dp, 8], w: f32[3, 2, 8, 10@tp], v: f32[3, 10@tp, 8]) -> (f32[6@dp, 8], f32[6]) {{\n{body}}}\n"
        )
    };
    let looped = program(
        "    for l in 0..3 { x = layer(x, w[2 - l, l % 2], v[l]) }\n    return (x, max(x, dim: 1))\n",
    );
    let mut body = String::new();
    for l in 0..3 {
        let (x, a, b) = (if l == 0 { "x".into() } else { format!("x{l}") }, 2 - l, l % 2);
        let one = |x: &str, dim, i| format!("slice({x}, dim: {dim}, from: {i}, to: {})", i + 1);
        let w = format!("reshape({}, [8, 10])", one(&one("w", 0, a), 1, b));
        let v = format!("reshape({}, [10, 8])", one("v", 0, l));
        body += &format!("    let x{} = layer({x}, {w}, {v})\n", l + 1);
    }
    let written = program(&format!("{body}    return (x3, max(x3, dim: 1))\n"));
    assert!(interpreted(&looped, 2) == interpreted(&written, 2));
    results(&looped, &["x", "largest"]);
}

fn close(have: &[f64], want: &[f64], what: &str) {
    assert_eq!(have.len(), want.len(), "{what}");
    for (i, (h, w)) in have.iter().zip(want).enumerate() {
        assert!((h - w).abs() <= 2e-5 * (1.0 + w.abs()), "{what}: element {i} is {h}, not {w}");
    }
}

fn rows(x: &[f64], n: usize, f: impl Fn(&[f64]) -> Vec<f64>) -> Vec<f64> {
    x.chunks(n).flat_map(f).collect()
}

fn soft(row: &[f64]) -> Vec<f64> {
    let e: Vec<f64> = row.iter().map(|x| x.exp()).collect();
    let sum: f64 = e.iter().sum();
    e.iter().map(|e| e / sum).collect()
}

fn mean(row: &[f64]) -> f64 {
    row.iter().sum::<f64>() / row.len() as f64
}

fn transposed(x: &[f64], columns: usize) -> Vec<f64> {
    let n = x.len() / columns;
    (0..columns).flat_map(|c| (0..n).map(move |r| x[r * columns + c])).collect()
}

/// Returns `[m, k] x [k, n]`, plus a bias per column.
fn product(a: &[f64], b: &[f64], bias: &[f64]) -> Vec<f64> {
    let n = bias.len();
    let k = b.len() / n;
    let element = |row: &[f64], j: usize| (0..k).map(|i| row[i] * b[i * n + j]).sum::<f64>() + bias[j];
    rows(a, k, |row| (0..n).map(|j| element(row, j)).collect())
}

fn gelu(x: f64) -> f64 {
    0.5 * x * (1.0 + libm::erf(x / 2f64.sqrt()))
}

const HEAD: &str = "topology sys = torus(2, 2) { link: 50 GB/s, 500 ns }\nmesh m = sys[dp: 2, tp: 2]\n";

/// Softmax, norms, positions, attention: replicated, split along the reduced dimension, along
/// another, and partial.
#[test]
fn layers_mean_what_they_say_on_any_placement() {
    let names =
        ["x", "g", "b", "soft", "soft0", "logs", "layer", "plain", "rms", "turned", "halves", "heads"];
    for x in ["6, 8", "6, 8@tp", "6@dp, 8@tp", "6@(dp, tp), 8", "6, 8@(dp, tp)", "6, 8] partial(sum@tp"] {
        let whole = "f32[6, 8]";
        let ty = if x.contains("partial") { format!("f32[{x})") } else { format!("f32[{x}]") };
        let program = format!(
            "{HEAD}program p(x: {ty} = normal(1), g: f32[8@tp] = normal(2), b: f32[8] = normal(3), c: f32[6, 4] = normal(4)) ->
    ({whole}, f32[8], f32[8], {whole}, {whole}, {whole}, {whole}, {whole}, {whole}, {whole}, {whole}, {whole}) {{
    let t = sqrt(1 - 0.01 * c * c);
    (x, g, b, softmax(x), softmax(x, dim: 0), log_softmax(x), layer_norm(x, g, b), layer_norm(x, g, eps: 0.5), rms_norm(x, g),
     rope(x, t, 0.1 * c), rope(rope(x, t, 0.1 * c), t, -0.1 * c), merge_heads(split_heads(x, heads: 4)))
}}
"
        );
        let (r, _) = results(&program, &names);
        let (x, g, b) = (&r["x"], &r["g"], &r["b"]);
        close(&r["soft"], &rows(x, 8, soft), &ty);
        close(&transposed(&r["soft0"], 8), &rows(&transposed(x, 8), 6, soft), &ty);
        close(&r["logs"], &rows(x, 8, |r| soft(r).iter().map(|p| p.ln()).collect()), &ty);
        let norm = |eps: f64, b: Option<&Vec<f64>>| {
            rows(x, 8, |row| {
                let m = mean(row);
                let v = mean(&row.iter().map(|x| (x - m) * (x - m)).collect::<Vec<_>>());
                let bias = |i: usize| b.map_or(0.0, |b| b[i]);
                (0..8).map(|i| (row[i] - m) / (v + eps).sqrt() * g[i] + bias(i)).collect()
            })
        };
        close(&r["layer"], &norm(1e-5, Some(b)), &ty);
        close(&r["plain"], &norm(0.5, None), &ty);
        let rms = |row: &[f64]| {
            let v = mean(&row.iter().map(|x| x * x).collect::<Vec<_>>());
            (0..8).map(|i| row[i] / (v + 1e-5).sqrt() * g[i]).collect()
        };
        close(&r["rms"], &rows(x, 8, rms), &ty);
        // A rotation by an angle and back; pairs keep their length.
        close(&r["halves"], x, &ty);
        let lengths = |x: &[f64]| rows(x, 8, |r| (0..4).map(|i| r[i].hypot(r[i + 4])).collect());
        close(&lengths(&r["turned"]), &lengths(x), &ty);
        assert!(r["turned"].iter().zip(x).any(|(a, b)| (a - b).abs() > 1e-3));
        close(&r["heads"], x, &ty);
    }
}

#[test]
fn attention_means_what_it_says_on_any_placement() {
    let names = ["q", "k", "v", "m", "plain", "masked", "causal"];
    for heads in ["4, 5, 3", "4@tp, 5, 3", "4@(dp, tp), 5, 3", "4@tp, 5@dp, 3"] {
        let program = format!(
            "{HEAD}program p(q: f32[{heads}] = normal(1), k: f32[4@tp, 6, 3] = normal(2), v: f32[4, 6, 2] = normal(3), m: f32[5, 6] = normal(4))
    -> (f32[4, 5, 3], f32[4, 6, 3], f32[4, 6, 2], f32[5, 6], f32[4, 5, 2], f32[4, 5, 2], f32[4, 5, 2]) {{
    (q, k, v, m, attention(q, k, v), attention(q, k, v, m), attention(q, k, v, causal: true, position: 1))
}}
"
        );
        let (r, _) = results(&program, &names);
        for name in ["plain", "masked", "causal"] {
            let mut want = vec![];
            for h in 0..4 {
                for s in 0..5 {
                    let score = |l: usize| {
                        let dot: f64 =
                            (0..3).map(|d| r["q"][(h * 5 + s) * 3 + d] * r["k"][(h * 6 + l) * 3 + d]).sum();
                        let mask = match name {
                            "masked" => r["m"][s * 6 + l],
                            // The query is one position further than its number.
                            "causal" if l > s + 1 => f64::NEG_INFINITY,
                            _ => 0.0,
                        };
                        dot / 3f64.sqrt() + mask
                    };
                    let p = soft(&(0..6).map(score).collect::<Vec<_>>());
                    want.extend(
                        (0..2).map(|e| (0..6).map(|l| p[l] * r["v"][(h * 6 + l) * 2 + e]).sum::<f64>()),
                    );
                }
            }
            close(&r[name], &want, heads);
        }
    }
}

/// Linear layers with weights that are split already, whole, and split along another dimension.
#[test]
fn parallel_layers_mean_what_they_say_on_any_placement() {
    let names =
        ["x", "w", "b", "u", "c", "column", "gathered", "bare", "row", "rowless", "mlp", "sequence", "rows"];
    for (x, w, b, u) in [
        ("6, 8", "8, 4@tp", "4@tp", "4@tp, 8"),
        ("6@dp, 8", "8, 4", "4", "4, 8"),
        ("6@tp, 8", "8@tp, 4@dp", "4@dp", "4, 8@tp"),
        ("6@(dp, tp), 8", "8, 4@tp", "4", "4@dp, 8"),
    ] {
        let program = format!(
            "{HEAD}program p(x: f32[{x}] = normal(1), w: f32[{w}] = normal(2), b: f32[{b}] = normal(3), u: f32[{u}] = normal(4),
          c: f32[8] = normal(5)) -> (f32[6, 8], f32[8, 4], f32[4], f32[4, 8], f32[8], f32[6, 4@tp], f32[6, 4], f32[6, 4@tp],
    f32[6, 8], f32[6, 8], f32[6, 8], f32[6@tp, 8], f32[6@tp, 8]) {{
    let y = column_linear(x, w, b, over: tp)
    let z = column_linear(x, w, over: tp)
    let s = column_linear_sequence(x, w, b, over: tp);
    (x, w, b, u, c, y, column_linear(x, w, b, gather_output: true, over: tp), z, row_linear(y, u, c, over: tp),
     row_linear(y, u, over: tp), mlp(x, w, b, u, c, over: tp), mlp_sequence(x, w, b, u, c, over: tp),
     row_linear_sequence(s, u, c, over: tp))
}}
"
        );
        let (r, report) = results(&program, &names);
        let zero = vec![0.0; 8];
        let column = product(&r["x"], &r["w"], &r["b"]);
        let hidden: Vec<f64> = column.iter().map(|x| gelu(*x)).collect();
        close(&r["column"], &column, w);
        close(&r["gathered"], &column, w);
        close(&r["bare"], &product(&r["x"], &r["w"], &zero[..4]), w);
        close(&r["row"], &product(&column, &r["u"], &r["c"]), w);
        close(&r["rowless"], &product(&column, &r["u"], &zero), w);
        close(&r["rows"], &product(&column, &r["u"], &r["c"]), w);
        close(&r["mlp"], &product(&hidden, &r["u"], &r["c"]), w);
        close(&r["sequence"], &product(&hidden, &r["u"], &r["c"]), w);
        let count = |name: &str| operations(&report).iter().filter(|o| *o == name).count();
        assert!(count("reduce_scatter") >= 2 && count("all_reduce") >= 3, "{:?}", operations(&report));
    }
}

/// Returns the collectives of a report, in order.
fn operations(report: &Value) -> Vec<String> {
    let all = report["collectives"].as_array().expect("a list").iter();
    all.map(|c| c["operation"].as_str().expect("a name").to_owned()).collect()
}

/// The whole layer, at every number of devices that divides the heads, and at five, which does not:
/// PyTorch's result on every rank, and exactly the expected collectives.
#[test]
fn the_encoder_layer_has_the_collectives_of_theory() {
    let pairs = ["all_gather", "reduce_scatter", "all_gather", "reduce_scatter"];
    for (file, wanted) in
        [("specs/encoder.kb", &["all_reduce"; 2][..]), ("specs/encoder_sequence.kb", &pairs[..])]
    {
        for tp in [1, 2, 3, 4, 5, 6, 12] {
            let define = format!("tp={tp}");
            let ran = kbc(root(), &["compile", file, "-D", &define, "--format", "json"], "");
            assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{file} {define}\n{}", ran.stdout);
            let report: Value = serde_json::from_str(&ran.stdout).expect("a report");
            assert_eq!(operations(&report), wanted, "{file} {define}");
            let elements = 25 * 384 * if file.contains("sequence") { 1 } else { tp };
            for compared in [&report["compare"], &report["expect"][0]] {
                assert_eq!(
                    (&compared["mismatches"], &compared["elements"]),
                    (&0.into(), &elements.into()),
                    "{define}"
                );
                // At least half of the bound is unused; otherwise the test would show little.
                assert!(compared["max_err"].as_f64().is_some_and(|e| e < 0.5), "{define}: {compared}");
            }
        }
    }
}

/// Returns a text with names numbered in the order of their first use, and without quoted hints.
fn anonymous(kir: &str) -> String {
    let (mut out, mut names): (String, BTreeMap<String, usize>) = (String::new(), BTreeMap::new());
    let mut quoted = false;
    let mut rest = kir.chars().peekable();
    while let Some(c) = rest.next() {
        quoted ^= c == '"';
        if quoted {
            continue;
        }
        out.push(c);
        if c == '%' || c == '@' {
            let mut name = String::from(c);
            while let Some(n) = rest.next_if(|n| n.is_alphanumeric() || "_#.".contains(*n)) {
                name.push(n);
            }
            let n = names.len();
            out += &names.entry(name).or_insert(n).to_string();
        }
    }
    out
}

fn schedule(scratch: &Scratch, text: &str) -> String {
    scratch.write("specs/p.kb", text.as_bytes());
    let ran = kbc(scratch.path(), &["compile", "specs/p.kb", "--emit", "kir=p.kir", "--quiet"], "");
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    anonymous(&std::fs::read_to_string(scratch.path().join("p.kir")).expect("written"))
}

/// Returns a text with every call of a collective replaced by its operand.
fn without(text: &str, collective: &str) -> String {
    let mut out = text.to_owned();
    while let Some(at) = out.find(&format!("{collective}(")) {
        let open = at + collective.len() + 1;
        let mut depth = 0;
        let mut operand = None;
        let mut end = open;
        for (i, c) in out[open..].char_indices() {
            match c {
                '(' => depth += 1,
                ')' if depth == 0 => {
                    end = open + i;
                    break;
                }
                ')' => depth -= 1,
                ',' if depth == 0 && operand.is_none() => operand = Some(out[open..open + i].to_owned()),
                _ => {}
            }
        }
        let operand = operand.expect("an operand and a keyword");
        out.replace_range(at..=end, &operand);
    }
    out
}

/// If the file does not write its collectives, the same ones are derived at the same places; and
/// with the linear layers of the library, the program is the same again.
#[test]
fn collectives_that_are_not_written_are_the_same() {
    let scratch = Scratch::new();
    for npz in ["ffn.npz", "attention.npz"] {
        let bytes = std::fs::read(root().join("specs/minilm").join(npz)).expect("the weights");
        scratch.write(&format!("specs/minilm/{npz}"), &bytes);
    }
    for (file, collectives) in
        [("encoder.kb", &["all_reduce"][..]), ("encoder_sequence.kb", &["all_gather", "reduce_scatter"][..])]
    {
        let text = std::fs::read_to_string(root().join("specs").join(file)).expect("the spec");
        let body = text.find("    let q").expect("its body");
        let (head, body) = text.split_at(text.find("    let all").unwrap_or(body));
        let bare = collectives.iter().fold(body.to_owned(), |b, c| without(&b, c));
        assert!(bare != body && collectives.iter().all(|c| !bare.contains(&format!("{c}("))), "{bare}");
        let written = schedule(&scratch, &text);
        assert!(written == schedule(&scratch, &format!("{head}{bare}")), "{file}: another schedule");
        if file == "encoder.kb" {
            let layers = text
                .replace("all_reduce(matmul(a, wo), sum, over: tp) + bo", "row_linear(a, wo, bo)")
                .replace("all_reduce(matmul(f, w2), sum, over: tp) + b2", "row_linear(f, w2, b2)")
                .replace("gelu(matmul(h, w1) + b1)", "gelu(column_linear(h, w1, b1))");
            assert!(layers.matches("_linear(").count() == 3);
            assert!(
                written == schedule(&scratch, &layers),
                "the library's linear layers make another schedule"
            );
        }
    }
}

/// Prefix sums, and the index of the largest element, also of parts that begin in the middle.
#[test]
fn sums_and_numbers_of_elements_mean_what_they_say_on_any_placement() {
    for x in ["5, 7", "5@dp, 7", "5, 7@tp", "5, 7@(dp, tp)", "5, 7@tp(cut: ceil)"] {
        let program = format!(
            "{HEAD}program p(x: f32[{x}] = normal(1)) -> (f32[5, 7], f32[5, 7], f32[5]) {{ (x, cumsum(x), f32(argmax(x))) }}\n"
        );
        let (r, _) = results(&program, &["x", "sums", "at"]);
        let sums = rows(&r["x"], 7, |row| (1..8).map(|n| row[..n].iter().sum()).collect());
        close(&r["sums"], &sums, x);
        let largest = |row: &[f64]| (0..7).max_by(|a, b| row[*a].total_cmp(&row[*b])).expect("seven");
        close(&r["at"], &rows(&r["x"], 7, |row| vec![largest(row) as f64]), x);
    }
}

/// Experts on ranks, several per rank, of which some get nothing: every token is multiplied with
/// the two matrices of its expert.
#[test]
fn experts_mean_what_they_say() {
    let each = 2;
    for (ep, rank) in [(2, 4), (3, 1)] {
        // Tokens of source s for expert e; expert 1 and all of rank 1 get none, source 0 of three
        // has none.
        let tokens = |s: usize, e: usize| {
            if e == 1 || e / each == 1 && ep == 3 || s == 0 && ep == 3 {
                0
            } else {
                (s * 3 + e * 5) % rank + s
            }
        };
        let experts = ep * each;
        let rows_of = |s: usize, d: usize| (0..each).map(|i| tokens(s, d * each + i)).sum::<usize>();
        let list = |v: &[usize]| v.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
        let matrix = |f: &dyn Fn(usize, usize) -> usize| {
            let row = |s| format!("[{}]", list(&(0..ep).map(|d| f(s, d)).collect::<Vec<_>>()));
            format!("[{}]", (0..ep).map(row).collect::<Vec<_>>().join(", "))
        };
        let sent: Vec<usize> = (0..ep).map(|s| (0..ep).map(|d| rows_of(s, d)).sum()).collect();
        let t: usize = sent.iter().sum();
        let (mut counts, mut groups) = (vec![], vec![]);
        for d in 0..ep {
            for s in 0..ep {
                for e in d * each..(d + 1) * each {
                    counts.push(tokens(s, e));
                    groups.push(e);
                }
            }
        }
        let (there, back) = (matrix(&|s, d| rows_of(s, d)), matrix(&|s, d| rows_of(d, s)));
        let runs = format!("counts: [{}], groups: [{}]", list(&counts), list(&groups));
        let tokens_at = format!("{t}@ep(lengths: [{}])", list(&sent));
        let program = format!(
            "topology sys = full({ep})\nmesh m = sys[ep]
program p(x: f32[{tokens_at}, 3] = normal(1), w: f32[{experts}@ep, 3, 5] = normal(2), v: f32[{experts}@ep, 5, 2] = normal(3))
    -> (f32[{t}, 3], f32[{experts}, 3, 5], f32[{experts}, 5, 2], f32[{tokens_at}, 2]) {{
    let h = gelu(grouped_matmul(all_to_all(x, counts: {there}), w, {runs}));
    (x, w, v, all_to_all(grouped_matmul(h, v, {runs}), counts: {back}))
}}
"
        );
        let (r, report) = results(&program, &["x", "w", "v", "y"]);
        let exchanged = operations(&report).iter().filter(|o| *o == "all_to_all").count();
        assert_eq!(exchanged, 2, "{program}");
        let mut want = vec![];
        let mut row = 0;
        for s in 0..ep {
            for e in 0..experts {
                for _ in 0..tokens(s, e) {
                    let x = &r["x"][row * 3..(row + 1) * 3];
                    let hidden = product(x, &r["w"][e * 15..(e + 1) * 15], &[0.0; 5]);
                    let hidden: Vec<f64> = hidden.into_iter().map(gelu).collect();
                    want.extend(product(&hidden, &r["v"][e * 10..(e + 1) * 10], &[0.0; 2]));
                    row += 1;
                }
            }
        }
        assert_eq!(row, t);
        close(&r["y"], &want, &program);
    }
}
