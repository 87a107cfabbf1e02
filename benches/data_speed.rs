//! Benchmark: speed at which machine code moves and combines data, compared with the machine itself
//! and numpy in the same run.
//!
//! * f32 reduction (`dst[i] = dst[i] + src[i]`) against a STREAM triad (`a[i] = b[i] + s * c[i]`):
//!   both read two arrays and write one. Target: 80 %.
//! * f16 and bf16 ring all-reduce on 8 ranks with 256 Ki elements (which fit the caches) and 4 Mi
//!   (which do not), against numpy with the same schedule (`benches/numpy_ring.py`; `python3`, or
//!   `PYTHON=path`). Target: ten times as fast.
//! * Matmul against the machine's f32 peak, measured by independent fused multiply-adds in
//!   registers. Target: 50 %.
//! * Compilation, in microseconds per function. Target: a millisecond per kernel.
//!
//! Rounds alternate between the two sides and are measured in processor time. The results are
//! medians of ratios, so that other load slows both sides.

#![allow(clippy::print_stdout, reason = "a benchmark prints what it measured")]

#[path = "../tests/real/driver.rs"]
mod driver;

use kbc_backend_sim::interp::RunOptions;
use kbc_backend_sim::jit::{self, Compiled};
use kbc_diag::FileId;
use kbc_ir::text;
use kbc_numerics::gemm;
use kbc_numerics::tensor::{Data, Tensor};
use std::hint::black_box;
use std::process::Command;

/// Number of rounds of every comparison.
const ROUNDS: usize = 9;

/// Returns the processor time of this thread in seconds.
fn now() -> f64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    t.tv_sec as f64 + t.tv_nsec as f64 * 1e-9
}

fn seconds<T>(f: impl FnOnce() -> T) -> f64 {
    let begin = now();
    black_box(f());
    now() - begin
}

fn median(mut v: Vec<f64>) -> f64 {
    v.sort_by(f64::total_cmp);
    v[v.len() / 2]
}

fn compared(what: &str, rounds: &[(f64, f64)], unit: &str) -> f64 {
    let ours = median(rounds.iter().map(|r| r.0).collect());
    let theirs = median(rounds.iter().map(|r| r.1).collect());
    let ratio = median(rounds.iter().map(|r| r.0 / r.1).collect());
    println!("{what}: {ours:.2} against {theirs:.2} {unit}, ratio {ratio:.2}");
    ratio
}

/// Returns a program for one rank that reduces one buffer into another `times` times.
fn reduction(dtype: &str, n: usize, times: usize) -> String {
    format!(
        "kir 1\nmodule @m\nmesh tp 1\nprops expanded allocated synchronized\n\nschedule calls any\n\
         buffer %a : {dtype}[{n}] hbm input 0 : {dtype}[{n}]\nbuffer %b : {dtype}[{n}] hbm input 1 : {dtype}[{n}]\n\n\
         region @c over tp as (r of 1)\n  on a = %a line {n}\n  on b = %b line {n}\n  role all\n    stream main\n\
         \x20     for s in 0..{times}\n        combine sum a, b\n"
    )
}

/// Returns the seconds of one repetition: the additional time of `more` repetitions, so that the
/// time for feeding cancels.
fn one_of(pair: &[Compiled<'_>; 2], inputs: &[Vec<Tensor>], more: usize) -> f64 {
    let run = |c: &Compiled<'_>| seconds(|| c.run(inputs, &RunOptions::default()).expect("it runs"));
    (run(&pair[1]) - run(&pair[0])) / more as f64
}

fn constant(dtype: &str, n: usize, zero: bool) -> Data {
    let v = if zero { 0.0 } else { 1.0 };
    match dtype {
        "f16" => Data::F16(vec![half::f16::from_f32(v); n]),
        "bf16" => Data::BF16(vec![half::bf16::from_f32(v); n]),
        "i32" => Data::I32(vec![v as i32; n]),
        _ => Data::F32(vec![v; n]),
    }
}

fn stream() {
    let (n, more) = (1 << 24, 8);
    let (mut a, b, c) = (vec![0f32; n], vec![1f32; n], vec![2f32; n]);
    for dtype in ["f32", "i32", "f16", "bf16"] {
        let texts = [reduction(dtype, n, 1), reduction(dtype, n, 1 + more)];
        let modules = texts.map(|t| text::parse(FileId(0), &t).unwrap_or_else(|d| panic!("{d:#?}")));
        let pair = [0, 1].map(|i| {
            jit::compile(modules[i].schedule().expect("a schedule")).unwrap_or_else(|d| panic!("{d:#?}"))
        });
        let inputs =
            vec![vec![Tensor::line(constant(dtype, n, false)), Tensor::line(constant(dtype, n, false))]];
        let size = match dtype {
            "f32" | "i32" => 4,
            _ => 2,
        };
        let rounds: Vec<(f64, f64)> = (0..ROUNDS)
            .map(|_| {
                let ours = (3 * size * n) as f64 / one_of(&pair, &inputs, more) / 1e9;
                let theirs = seconds(|| {
                    for _ in 0..more {
                        let scale = black_box(3.0f32);
                        a.iter_mut().zip(&b).zip(&c).for_each(|((a, b), c)| *a = *b + scale * *c);
                        black_box(&mut a);
                    }
                });
                (ours, (12 * n * more) as f64 / theirs / 1e9)
            })
            .collect();
        compared(
            &format!("reduction of {dtype}, {} MiB, against a triad of f32", (size * n) >> 20),
            &rounds,
            "GB/s",
        );
    }
}

fn numpy(kind: &str, p: usize, n: usize) -> Option<f64> {
    let python = std::env::var("PYTHON").unwrap_or_else(|_| "python3".into());
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/numpy_ring.py");
    let args = [script, kind, &p.to_string(), &n.to_string(), "5"];
    let out = Command::new(python).args(args).output().ok().filter(|o| o.status.success())?;
    let all = String::from_utf8(out.stdout).ok()?;
    Some(median(all.lines().map(|l| l.parse().ok()).collect::<Option<Vec<f64>>>()?))
}

/// Returns a ring all-reduce that runs `times` times in one call, with the schedule of
/// specs/lib/ring.kb.
fn ring(dtype: &str, p: usize, n: usize, times: usize) -> String {
    let total = 2 * (p - 1);
    let part = |first: usize, shift: usize, receive: &str| {
        format!(
            "          for s in {first}..{}
            put v[(r - s + {shift}) % {p} of {p}] -> ((r + 1) % {p}) : @w[s]
            fence.release
            notify ((r + 1) % {p}) : @s[0]
            wait @s[0] >= rep * {total} + s + 1
            fence.acquire
            {receive}
",
            first + p - 1
        )
    };
    let reduce = part(0, 0, &format!("combine sum v[(r - s - 1) % {p} of {p}], @w[s]"));
    let copy = part(p - 1, p, &format!("copy v[(r - s + {}) % {p} of {p}] = @w[s]", p - 1));
    format!(
        "kir 1\nmodule @m\nmesh tp {p}\nprops expanded allocated synchronized\n\nschedule calls first\n\
         buffer %y : {dtype}[{n}] hbm input 0 : {dtype}[{n}] partial(sum@tp)\n\
         window @w : {dtype}[{total} x {}] hbm at 0\nsignal @s[1] arrival at 0\n\n\
         region @c over tp as (r of {p})\n  on v = %y line {n}\n  role all\n    stream main\n\
         \x20       for rep in 0..{times}\n{reduce}{copy}",
        n.div_ceil(p)
    )
}

fn halves() {
    let (p, more) = (8, 8);
    for (kind, n) in [("f16", 1 << 18), ("f16", 1 << 22), ("bf16", 1 << 18), ("bf16", 1 << 22)] {
        let texts = [ring(kind, p, n, 1), ring(kind, p, n, 1 + more)];
        let modules = texts.map(|t| text::parse(FileId(0), &t).unwrap_or_else(|d| panic!("{d:#?}\n{t}")));
        let pair = [0, 1].map(|i| {
            jit::compile(modules[i].schedule().expect("a schedule")).unwrap_or_else(|d| panic!("{d:#?}"))
        });
        let feed = Tensor::new([p as u64, n as u64], constant(kind, p * n, true)).expect("sizes agree");
        let inputs = vec![vec![feed]];
        let mut rounds = vec![];
        for _ in 0..ROUNDS {
            let Some(theirs) = numpy(kind, p, n) else { break };
            rounds.push((1.0 / one_of(&pair, &inputs, more), 1.0 / theirs));
        }
        if rounds.is_empty() {
            println!("{kind} all-reduce: python3 with numpy is needed to compare");
            continue;
        }
        compared(
            &format!("{kind} ring all-reduce, {p} ranks, {n} elements, against numpy"),
            &rounds,
            "a second",
        );
    }
}

/// Returns the f32 operations per second of independent multiply-adds in registers.
fn peak() -> f64 {
    const TURNS: u64 = 2_000_000;
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx512f")]
        fn wide(turns: u64) -> f32 {
            lanes::<16>(turns)
        }
        #[target_feature(enable = "avx2,fma")]
        fn narrow(turns: u64) -> f32 {
            lanes::<8>(turns)
        }
        let mut best: f64 = 0.0;
        for (has, width, f) in [
            (std::is_x86_feature_detected!("avx512f"), 16.0, wide as unsafe fn(u64) -> f32),
            (std::is_x86_feature_detected!("fma"), 8.0, narrow as unsafe fn(u64) -> f32),
        ] {
            if has {
                #[allow(
                    unsafe_code,
                    reason = "a function for instructions that this processor was asked for"
                )]
                // SAFETY: `has` shows that the processor has the instructions.
                let t = seconds(|| unsafe { f(TURNS) });
                best = best.max(TURNS as f64 * 12.0 * width * 2.0 / t);
            }
        }
        if best > 0.0 {
            return best;
        }
    }
    let t = seconds(|| lanes::<4>(TURNS / 10));
    (TURNS / 10) as f64 * 12.0 * 4.0 * 2.0 / t
}

#[inline(always)]
fn lanes<const W: usize>(turns: u64) -> f32 {
    let (x, y) = (black_box(0.999_999f32), black_box(1e-7f32));
    let mut acc = [[1f32; W]; 12];
    for _ in 0..turns {
        for a in &mut acc {
            for v in a.iter_mut() {
                *v = v.mul_add(x, y);
            }
        }
    }
    acc.iter().flatten().sum()
}

fn products() {
    for size in [256, 512, 1024] {
        let (a, b) = (vec![0.5f32; size * size], vec![0.25f32; size * size]);
        let mut c = vec![0f32; size * size];
        let rounds: Vec<(f64, f64)> = (0..ROUNDS)
            .map(|_| {
                let times = (1usize << 30) / (size * size * size);
                let t = seconds(|| {
                    for _ in 0..times {
                        gemm::f32(size, size, size, black_box(&a), black_box(&b), &mut c)
                            .expect("sizes agree");
                    }
                });
                (2.0 * (times * size * size * size) as f64 / t / 1e9, peak() / 1e9)
            })
            .collect();
        compared(&format!("matmul {size} x {size} x {size}, against the peak of f32"), &rounds, "GFLOP/s");
    }
}

fn compiling() {
    for file in ["specs/ffn_tp.kb", "specs/mlp_sequence.kb", "specs/all_reduce.kb"] {
        let job = driver::built(&[file]);
        let mut stats = jit::Stats::default();
        let times: Vec<f64> = (0..ROUNDS)
            .map(|_| {
                seconds(|| stats = jit::compile(job.schedule()).unwrap_or_else(|d| panic!("{d:#?}")).stats())
            })
            .collect();
        let each = median(times) * 1e6 / stats.functions as f64;
        println!(
            "compiling {file}: {} functions, {} bytes, {each:.0} us a function",
            stats.functions, stats.bytes
        );
    }
}

fn main() {
    compiling();
    stream();
    halves();
    products();
}
