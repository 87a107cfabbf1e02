//! Tests of the stand-in headers: a correct kernel runs correctly at every size, and each damage is
//! reported with the words that name it.
//!
//! Kernels are files of `tests/ascend/model`. `cases.cpp` contains its expectations: a further case
//! is a few lines.

use crate::standin;

use half::{bf16, f16};
use standin::{Job, KernelArg, Program, Run, compile, compiled, deletable, flag_pairs, guarded, redundant};
use std::path::Path;

fn model(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ascend/model").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

/// Returns small whole numbers, whose sums are exact in any order.
fn value(call: usize, rank: usize, i: usize) -> f32 {
    ((call * 7 + rank * 3 + i) % 17) as f32 - 8.0
}

/// Returns a job of `all_reduce.cpp`.
fn all_reduce(ranks: usize, count: usize, calls: usize) -> Job {
    let of = |call, rank| bytes(&(0..count).map(|i| value(call, rank, i)).collect::<Vec<_>>());
    let x = (0..calls).map(|c| (0..ranks).map(|r| of(c, r)).collect()).collect();
    let slot = (count * 4).div_ceil(64) * 64;
    let scalar = |n: usize| KernelArg::Scalar(vec![n as i64]);
    Job {
        ranks,
        calls,
        window: (ranks - 1) * 64 + 2 * (ranks - 1) * slot,
        args: vec![
            KernelArg::In("f32", x),
            KernelArg::Out("f32", vec![count]),
            KernelArg::Window,
            KernelArg::Out("i32", vec![16]),
            scalar(ranks),
            scalar(count),
            KernelArg::Call(0),
            KernelArg::Context,
        ],
        ..Job::default()
    }
}

fn check_all_reduce(job: &Job, count: usize, got: Result<standin::Outputs, String>) {
    let what = format!("{} ranks, {count} elements, order {}", job.ranks, job.order);
    let got = got.unwrap_or_else(|e| panic!("{what}: {e}"));
    for (call, ranks) in got.iter().enumerate() {
        let sum = |i| (0..job.ranks).map(|r| value(call, r, i)).sum::<f32>();
        let expected = bytes(&(0..count).map(sum).collect::<Vec<_>>());
        for out in ranks {
            assert!(out[0] == expected, "{what}, call {call}: values");
            assert_eq!(out[1][..4], (call as i32 + 1).to_le_bytes(), "{what}, call {call}: status");
        }
    }
}

/// Returns the kernel with conditions around its ordering lines; condition 1000 decides whether
/// calls alternate slots. Nothing if there is no C++ compiler.
fn switchable() -> Option<(String, Program)> {
    let text = model("all_reduce.cpp");
    assert_eq!(text.matches("call % 2").count(), 2);
    let program =
        compiled(&guarded(&text).replace("call % 2", "(standin::keep(1000) ? call % 2 : 0)"), None)?;
    Some((text, program))
}

#[test]
fn a_right_kernel_is_right_at_every_size_in_any_order() {
    let Some((_, program)) = switchable() else { return };
    let mut jobs = vec![];
    for ranks in [1, 2, 3, 4] {
        for count in [0, 1, 5, 4096, 8193] {
            jobs.extend([0, 1, 2, 3].map(|order| (count, Job { order, ..all_reduce(ranks, count, 3) })));
        }
    }
    jobs.push((8193, all_reduce(8, 8193, 3)));
    jobs.push((5, Job { join: true, ..all_reduce(3, 5, 3) }));
    let results = program.run(&jobs.iter().map(|(_, job)| job.clone()).collect::<Vec<_>>());
    for ((count, job), got) in jobs.iter().zip(results) {
        check_all_reduce(job, *count, got);
    }
}

/// Every line that orders something is needed: without it the run fails, and also without both
/// lines of a flag.
#[test]
fn no_ordering_line_can_go() {
    let Some((text, program)) = switchable() else { return };
    assert!(deletable(&text).len() >= 20 && flag_pairs(&text).len() >= 6);
    let without = redundant(&program, &text, &[all_reduce(3, 8193, 3)]);
    assert!(without.is_empty(), "the run is right without lines {without:?}");
    // A test of the test: of two equal fences, either can be removed.
    let twice = text.replacen("    dsb(DSB_DDR);\n", "    dsb(DSB_DDR);\n    dsb(DSB_DDR);\n", 1);
    let line = twice.lines().position(|l| l.trim() == "dsb(DSB_DDR);").expect("it is there") + 1;
    let program = compiled(&guarded(&twice), None).expect("there is a compiler");
    let without = redundant(&program, &twice, &[all_reduce(2, 5, 2), all_reduce(3, 8193, 2)]);
    assert_eq!(without, [[line], [line + 1]]);
}

/// Two alternating windows make a credit unnecessary; one does not: the next call's put conflicts
/// with the last call's read.
#[test]
fn one_slot_for_all_calls_is_a_race_of_the_next_call() {
    let Some((_, program)) = switchable() else { return };
    let jobs = [0, 9].map(|order| Job { order, drop: vec![1000], ..all_reduce(3, 5, 3) });
    for got in program.run(&jobs) {
        let failure = got.expect_err("a race");
        let words = ["race: ", "window of rank", "(call 1)", "(call 0)", "notify, wait and acquire"];
        assert!(words.iter().all(|w| failure.contains(w)), "{failure}");
    }
    // The host's wait between two calls orders them, whatever the kernel does.
    check_all_reduce(&jobs[0], 5, program.run_one(&Job { join: true, ..jobs[0].clone() }));
}

/// Returns the cases of `cases.cpp`: number, number of calls, and words of the expected outcome.
fn cases(text: &str) -> Vec<(i64, usize, String)> {
    let mut cases = vec![];
    for (i, line) in text.lines().enumerate() {
        let Some((case, rest)) = line.split_once("// expect") else { continue };
        let Some(case) = case.trim().strip_prefix("case ") else { continue };
        let (calls, words) = rest.split_once(": ").expect("words");
        let words = (1..9)
            .fold(words.trim().to_owned(), |w, n| w.replace(&format!("@+{n}"), &(i + 1 + n).to_string()));
        let number = case.split(':').next().expect("a number").parse().expect("a number");
        cases.push((number, if calls == ", 2 calls" { 2 } else { 1 }, words));
    }
    cases
}

#[test]
fn damage_is_named() {
    let text = model("cases.cpp");
    let cases = cases(&text);
    assert!(cases.len() >= 60 && cases.iter().enumerate().all(|(i, c)| c.0 == i as i64));
    let x = bytes(&(0..64).map(|i| i as f32).collect::<Vec<_>>());
    let jobs = |order: u64| {
        let job = |(case, calls, _): &(i64, usize, String)| Job {
            ranks: 2,
            calls: *calls,
            window: 1024,
            order,
            args: vec![
                KernelArg::In("f32", vec![vec![x.clone(); 2]; *calls]),
                KernelArg::Out("f32", vec![64]),
                KernelArg::Window,
                KernelArg::Out("i32", vec![16]),
                KernelArg::Scalar(vec![*case]),
                KernelArg::Context,
                KernelArg::Call(0),
            ],
            ..Job::default()
        };
        cases.iter().map(job).collect::<Vec<_>>()
    };
    let Some(program) = compiled(&text, None) else { return };
    let mut wrong = vec![];
    for ((case, _, words), got) in cases.iter().zip(program.run(&jobs(0))) {
        let said = got.map_or_else(|e| e, |_| "ok".to_owned());
        if !said.contains(words) || (words == "ok") != (said == "ok") {
            wrong.push(format!("case {case}: {said}\n  expected: {words}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // Whether a run fails does not depend on the order of ranks; the message may name the other
    // access.
    for order in 1..6 {
        for ((case, _, words), got) in cases.iter().zip(program.run(&jobs(order))) {
            assert_eq!(words == "ok", got.is_ok(), "case {case}, order {order}: {got:?}");
        }
    }
}

fn f32s(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().expect("four"))).collect()
}

/// Returns values at which rounding shows, and ordinary ones.
fn samples(n: usize, salt: u64) -> Vec<f32> {
    let mut s = 0x9E37_79B9_7F4A_7C15u64.wrapping_add(salt);
    let mut next = || {
        s ^= s << 13;
        s ^= s >> 7;
        s ^= s << 17;
        s
    };
    let fixed =
        [0.0, -0.0, 1.0, -1.0, 65504.0, 65519.9, 65520.0, 6e-8, 3e-8, 1e-40, 0.5, 1.5, 2.5, -2.5, 1e6, -3.5];
    (0..n)
        .map(|i| match (fixed.get(i), next() % 3) {
            (Some(f), _) => *f,
            (None, 0) => ((next() % 4001) as f32 - 2000.0) / 64.0,
            (None, 1) => f32::from_bits((next() as u32 & 0x8FFF_FFFF) | 0x3800_0000),
            (None, _) => (next() % 100_000) as f32 * 0.37 - 18_000.0,
        })
        .collect()
}

/// Returns all finite values of a 16-bit float, in ascending order.
fn grid(of: fn(u16) -> f32) -> Vec<f32> {
    let mut all: Vec<f32> = (0..=u16::MAX).map(of).filter(|v| v.is_finite()).collect();
    all.sort_by(f32::total_cmp);
    all
}

/// Rounds `x` to a grid by a rounding mode of the instruction set, by search.
fn rounded(grid: &[f32], x: f32, mode: i64, even: impl Fn(f32) -> bool) -> f32 {
    let i = grid.partition_point(|g| *g < x);
    let high = grid.get(i).copied().unwrap_or(f32::INFINITY);
    if high == x {
        return x;
    }
    let low = if i == 0 { f32::NEG_INFINITY } else { grid[i - 1] };
    // Beyond the largest value, the next one that the format would have decides.
    let wide = |v: f32, side: f64| if v.is_finite() { f64::from(v) } else { side };
    let gap = |v: f32| {
        f64::from(v) + (f64::from(v) - f64::from(grid[grid.iter().position(|g| *g == v).expect("on it") - 1]))
    };
    let top = gap(*grid.last().expect("not empty"));
    let (a, b) = (f64::from(x) - wide(low, -top), wide(high, top) - f64::from(x));
    let nearest = |tie: f32| {
        if a < b {
            low
        } else if b < a {
            high
        } else {
            tie
        }
    };
    match mode {
        3 => low,
        4 => high,
        5 => {
            if x < 0.0 {
                high
            } else {
                low
            }
        }
        2 => nearest(if x < 0.0 { low } else { high }),
        _ => nearest(if even(low) { low } else { high }),
    }
}

fn same(got: f32, want: f32, ulps: u32) -> bool {
    (got.is_nan() && want.is_nan()) || got.to_bits().abs_diff(want.to_bits()) <= ulps
}

/// Values are those of IEEE, rounded once, in single and in half precision.
#[test]
fn arithmetic_is_exact() {
    type Real = fn(f32, f32) -> f32;
    type Whole = fn(i32, i32) -> i32;
    let max: Real = |x, y| {
        if x == y && x.is_sign_negative() {
            y
        } else if x >= y {
            x
        } else {
            y
        }
    };
    let min: Real = |x, y| {
        if x == y && x.is_sign_positive() {
            y
        } else if x <= y {
            x
        } else {
            y
        }
    };
    let ops: [(i64, u32, Real, Option<Whole>); 21] = [
        (0, 0, |x, y| x + y, Some(|x, y| x.wrapping_add(y))),
        (1, 0, |x, y| x - y, Some(|x, y| x.wrapping_sub(y))),
        (2, 0, |x, y| x * y, Some(|x, y| x.wrapping_mul(y))),
        (3, 0, |x, y| x / y, None),
        (4, 0, max, Some(i32::max)),
        (5, 0, min, Some(i32::min)),
        (6, 0, |x, _| x + 1.5, Some(|x, _| x.wrapping_add(3))),
        (7, 0, |x, _| x - 1.5, Some(|x, _| x.wrapping_sub(3))),
        (8, 0, |x, _| x * 1.5, Some(|x, _| x.wrapping_mul(3))),
        (9, 0, |x, _| x.max(1.5), Some(|x, _| x.max(3))),
        (10, 0, |x, _| x.min(1.5), Some(|x, _| x.min(3))),
        (11, 0, |x, _| x / 1.5, None),
        (12, 0, |x, _| 1.5 / x, None),
        (13, 0, |x, _| 1.0 / x, None),
        (14, 0, |x, _| -x, Some(|x, _| x.wrapping_neg())),
        (15, 0, |x, _| x.abs(), None),
        (16, 0, |x, _| x.sqrt(), None),
        (17, 0, |x, _| 1.0 / x.sqrt(), None),
        (18, 2, |x, _| x.exp(), None),
        (19, 2, |x, _| x.ln(), None),
        (20, 0, |x, _| x, Some(|x, _| x)),
    ];
    const N: usize = 301;
    let (a, b) = (samples(N, 1), samples(N, 2).into_iter().map(|v| v + 0.25).collect::<Vec<_>>());
    let c: Vec<i32> = a.iter().map(|v| v.to_bits() as i32).collect();
    let d: Vec<i32> = b.iter().map(|v| (v.to_bits() as i32) >> 16).collect();
    let ints = |v: &[i32]| v.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
    let job = |op: i64, mode: i64| Job {
        ranks: 1,
        calls: 1,
        args: vec![
            KernelArg::In("f32", vec![vec![bytes(&a)]]),
            KernelArg::In("f32", vec![vec![bytes(&b)]]),
            KernelArg::In("i32", vec![vec![ints(&c)]]),
            KernelArg::In("i32", vec![vec![ints(&d)]]),
            KernelArg::Out("f32", vec![N]),
            KernelArg::Out("i32", vec![N]),
            KernelArg::Out("u16", vec![N]),
            KernelArg::Scalar(vec![op]),
            KernelArg::Scalar(vec![N as i64]),
            KernelArg::Scalar(vec![mode]),
        ],
        ..Job::default()
    };
    let Some(program) = compiled(&model("ops.cpp"), None) else { return };
    let run = |op: i64, mode: i64| {
        let mut out = program.run_one(&job(op, mode)).unwrap_or_else(|e| panic!("op {op}: {e}"));
        let out = out.remove(0).remove(0);
        let halves = out[2].chunks_exact(2).map(|b| f16::from_le_bytes([b[0], b[1]])).collect::<Vec<_>>();
        let ints = out[1]
            .chunks_exact(4)
            .map(|b| i32::from_le_bytes(b.try_into().expect("four")))
            .collect::<Vec<_>>();
        (f32s(&out[0]), ints, halves)
    };
    for (op, ulps, real, whole) in ops {
        let (floats, ints, halves) = run(op, 0);
        for i in 0..N {
            assert!(same(floats[i], real(a[i], b[i]), ulps), "op {op}, {} {}: {}", a[i], b[i], floats[i]);
            let (x, y) = (f16::from_f32(a[i]), f16::from_f32(b[i]));
            let want = f16::from_f32(real(x.to_f32(), y.to_f32()));
            let near = halves[i].to_bits().abs_diff(want.to_bits()) <= ulps.min(1) as u16;
            assert!(near || (want.is_nan() && halves[i].is_nan()), "op {op}, half {x} {y}: {}", halves[i]);
            if let Some(whole) = whole {
                assert_eq!(ints[i], whole(c[i], d[i]), "op {op}, {} {}", c[i], d[i]);
            }
        }
    }
    let (half, wide) = (grid(|u| f16::from_bits(u).to_f32()), grid(|u| bf16::from_bits(u).to_f32()));
    for mode in [0, 1, 2, 3, 4, 5] {
        let (back, _, halves) = run(21, mode);
        let (through, ..) = run(22, mode);
        let (floats, ints, _) = run(23, mode);
        for i in 0..N {
            let even = |v: f32| f16::from_f32(v).to_bits() & 1 == 0;
            let want = rounded(&half, a[i], mode, even);
            assert_eq!(halves[i].to_f32(), want, "mode {mode}: {} in half", a[i]);
            assert_eq!(back[i], f16::from_f32(a[i]).to_f32());
            let want = rounded(&wide, a[i], mode, |v| v.to_bits() >> 16 & 1 == 0);
            assert_eq!(through[i], want, "mode {mode}: {} in bf16", a[i]);
            assert_eq!(floats[i], c[i] as f32);
            let want = match mode {
                1 => b[i].round_ties_even(),
                2 => b[i].round(),
                3 => b[i].floor(),
                4 => b[i].ceil(),
                _ => b[i].trunc(),
            };
            assert_eq!(ints[i], want as i32, "mode {mode}: {}", b[i]);
        }
    }
    let (less, ..) = run(24, 0);
    let (.., at_least) = run(25, 0);
    let (squares, ..) = run(26, 0);
    for i in 0..N {
        assert_eq!(less[i].to_bits(), if a[i] < b[i] { a[i] } else { b[i] }.to_bits());
        let x = f16::from_f32(a[i]);
        assert_eq!(at_least[i], if x.to_f32() >= 1.0 { x } else { f16::from_f32(-1.0) });
        assert_eq!(squares[i], f32::from((d[i] as i16).wrapping_mul(d[i] as i16)));
    }
    let (rows, ..) = run(100, 0);
    for i in 0..3 * 40 {
        let (row, col) = (i / 40, i % 40);
        assert_eq!(rows[row * 45 + col], a[row * 50 + col]);
    }
}

/// Types that a2a3 lacks do not compile, and the compiler lists the possible ones.
#[test]
fn illegal_types_do_not_compile() {
    let text = model("all_reduce.cpp").replace("float", "bfloat16_t");
    let Some(compiled) = compile(&text, None) else { return };
    let said = compiled.expect_err("TADD on bf16");
    assert!(said.contains("TADD: element type must be int32_t, int16_t, half or float"), "{said}");
}

#[test]
fn an_orchestration_submits_the_kernel() {
    let text = model("orchestration.cpp");
    let of = |text: &str| {
        let o = standin::Orchestration { text, config: "reduce_config", run: "reduce_submit" };
        compiled(&model("all_reduce.cpp"), Some(o))
    };
    let Some(program) = of(&text) else { return };
    check_all_reduce(&all_reduce(3, 100, 2), 100, program.run_one(&all_reduce(3, 100, 2)));
    // A result that is submitted as an input, and an argument too many from the host.
    let other = of(&text.replacen("add_output", "add_input", 1)).expect("there is a compiler");
    let failure = other.run_one(&all_reduce(2, 100, 1));
    assert!(failure.is_err_and(|e| e.contains("writes tensor 1 of rank 0, which is an input")));
    let mut job = all_reduce(2, 100, 1);
    job.args.push(KernelArg::Context);
    let failure = program.run_one(&job).expect_err("nine arguments");
    assert!(failure.contains("the orchestration expects 8 arguments, the host gives 9"), "{failure}");
}

#[test]
fn ordering_lines_are_found_and_guarded() {
    let text = "a();\n    dsb(DSB_DDR);  // now\nvoid Notify(int x) {\n\tset_flag(P, Q, E);\n  wait_flag(P, Q, E);\nTWAIT(s,\n    1);\n";
    assert_eq!(deletable(text), [2, 4, 5, 6]);
    assert_eq!(flag_pairs(text), [[4, 5]]);
    let guarded = guarded(text);
    assert!(guarded.contains("\n    if (standin::keep(2)) dsb(DSB_DDR);  // now\n"), "{guarded}");
    assert_eq!(guarded.lines().count(), text.lines().count());
}
