//! Tests of elementwise functions as instructions: the library's kernels and each operation are
//! compared with the interpreter's functions. Instructions are executed in f32 as the core would do
//! it, with the functions of `docs/reference/numbers.md` for `exp`, `log` and `sqrt`.

use crate::cases::all_cases;
use kbc_backend_ascend::elementwise::{Arg, Bound, Chain, Reg, Step, bound, chain, round};
use kbc_diag::{Diagnostic, FileId};
use kbc_frontend::load::{Sources, load};
use kbc_frontend::lower::{LowerOptions, lower};
use kbc_ir::graph::OpKind;
use kbc_ir::scalar::{Compare, CompareOp, Scalar, ScalarBin, ScalarFn, ScalarUn};
use kbc_ir::types::DType;
use kbc_numerics::numbers::{max_f32, min_f32, round_to};
use kbc_numerics::scalar_eval::{eval_f32, eval_i32, holds, un_f32, un_f64};
use kbc_tiles::tile::VecOp;

/// Returns the result of a chain for one element, in f32.
fn run(c: &Chain, args: &[f32]) -> f32 {
    assert_eq!(c.compute, DType::F32);
    let mut r = args.to_vec();
    r.resize(c.registers, f32::NAN);
    for s in &c.steps {
        match s {
            Step::Vector { op, dst, args } => {
                let mut v = [f32::NAN; 2];
                for (v, a) in v.iter_mut().zip(args) {
                    *v = match a {
                        Arg::Reg(i) => r[*i],
                        Arg::Num(n) => {
                            assert_eq!(f64::from(*n as f32), *n, "a number is an f32");
                            *n as f32
                        }
                    };
                }
                r[*dst] = match op {
                    VecOp::Add => v[0] + v[1],
                    VecOp::Sub => v[0] - v[1],
                    VecOp::Mul => v[0] * v[1],
                    VecOp::Div => v[0] / v[1],
                    VecOp::Max => max_f32(v[0], v[1]),
                    VecOp::Min => min_f32(v[0], v[1]),
                    VecOp::Abs => v[0].abs(),
                    VecOp::Exp => un_f32(ScalarUn::Exp, v[0]),
                    VecOp::Log => un_f32(ScalarUn::Log, v[0]),
                    VecOp::Sqrt => v[0].sqrt(),
                    VecOp::Rsqrt => panic!("an estimate on the core"),
                    VecOp::Fill => v[0],
                };
            }
            Step::Select { cmp, dst, a, b, x, y } => {
                r[*dst] = if holds(*cmp, r[*a], r[*b]) { r[*x] } else { r[*y] };
            }
        }
    }
    r[c.result]
}

fn run_i32(c: &Chain, args: &[i32]) -> i32 {
    assert_eq!(c.compute, DType::I32);
    let mut r = args.to_vec();
    r.resize(c.registers, -77);
    for s in &c.steps {
        let Step::Vector { op, dst, args } = s else { panic!("no comparison of integers") };
        let v: Vec<i32> = args
            .iter()
            .map(|a| match a {
                Arg::Reg(i) => r[*i],
                Arg::Num(n) => {
                    assert_eq!(f64::from(*n as i32), *n, "a number is an i32");
                    *n as i32
                }
            })
            .collect();
        r[*dst] = match op {
            VecOp::Add => v[0].wrapping_add(v[1]),
            VecOp::Sub => v[0].wrapping_sub(v[1]),
            VecOp::Mul => v[0].wrapping_mul(v[1]),
            VecOp::Max => v[0].max(v[1]),
            VecOp::Min => v[0].min(v[1]),
            VecOp::Fill => v[0],
            other => panic!("{other:?} of i32"),
        };
    }
    r[c.result]
}

fn func(params: usize, body: Scalar) -> ScalarFn {
    let params = (0..params).map(|i| format!("p{i}").into()).collect();
    ScalarFn { name: "f".into(), params, body }
}

fn un(op: ScalarUn, a: Scalar) -> Scalar {
    Scalar::Un(op, Box::new(a))
}

fn arg(i: usize) -> Scalar {
    Scalar::Arg(i)
}

/// Values that include both signs of zero, infinities, NaN, denormals, large and small numbers.
const VALUES: [f32; 22] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.1,
    -0.1,
    2.5,
    -2.5,
    3.0,
    1e-40,
    -1e-40,
    f32::MIN_POSITIVE,
    f32::MAX,
    f32::MIN,
    1e30,
    -7e-30,
    16777217.0,
    0.33333334,
    65504.0,
    f32::INFINITY,
    f32::NEG_INFINITY,
    f32::NAN,
];

fn same(a: f32, b: f32) -> bool {
    a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan())
}

/// Checks that a chain only names registers that it has, and that numbers are only last operands.
fn sound(c: &Chain) {
    let reg = |r: Reg| assert!(r < c.registers);
    reg(c.result);
    for s in &c.steps {
        match s {
            Step::Vector { op, dst, args } => {
                reg(*dst);
                assert_eq!(args.len(), op.arity());
                for (i, a) in args.iter().enumerate() {
                    match a {
                        Arg::Reg(r) => reg(*r),
                        Arg::Num(_) => assert_eq!(i + 1, args.len()),
                    }
                }
                let number = args.iter().any(|a| matches!(a, Arg::Num(_)));
                assert_eq!(*op == VecOp::Fill, number && args.len() == 1);
                assert!(!number || !matches!(op, VecOp::Div | VecOp::Sub), "{c}");
                let profile = kbc_backend_ascend::profile::find("a2a3").expect("a profile");
                assert_eq!(profile.vector(*op, c.compute, number).err(), None, "{c}");
            }
            Step::Select { dst, a, b, x, y, .. } => [*dst, *a, *b, *x, *y].into_iter().for_each(reg),
        }
    }
    assert_eq!(c.mask, c.steps.iter().any(|s| matches!(s, Step::Select { .. })));
    assert_eq!(c.exact, c.inexact.is_empty());
}

/// Returns functions of two operands that are exact to the bit, with numbers in every position.
fn exact_functions() -> Vec<Scalar> {
    let mut out = vec![Scalar::Num(2.5), arg(0), arg(1)];
    for op in [ScalarBin::Add, ScalarBin::Sub, ScalarBin::Mul, ScalarBin::Div, ScalarBin::Min, ScalarBin::Max]
    {
        out.push(Scalar::bin(op, arg(0), arg(1)));
        for n in [0.0, -0.0, 1.0, 2.0, 3.0, -0.1, 0.5, 1e-40, 5.9e-39, 3e38, f64::INFINITY] {
            out.push(Scalar::bin(op, arg(0), Scalar::Num(n)));
            out.push(Scalar::bin(op, Scalar::Num(n), arg(0)));
            out.push(Scalar::bin(op, Scalar::bin(op, Scalar::Num(n), Scalar::Num(0.7)), arg(1)));
        }
    }
    for op in [ScalarUn::Neg, ScalarUn::Abs, ScalarUn::Sqrt, ScalarUn::Rsqrt] {
        out.push(un(op, arg(0)));
        out.push(un(op, Scalar::Num(-2.0)));
    }
    for n in [0, 1, 2, 3, 7] {
        out.push(Scalar::Pow(Box::new(arg(0)), n));
    }
    for op in [CompareOp::Eq, CompareOp::Ne, CompareOp::Lt, CompareOp::Le, CompareOp::Gt, CompareOp::Ge] {
        for b in [arg(1), Scalar::Num(0.0)] {
            let c = Compare { op, a: arg(0), b };
            let other = Box::new(Scalar::bin(ScalarBin::Mul, arg(1), arg(1)));
            out.push(Scalar::If(Box::new(c.clone()), Box::new(arg(0)), other));
            out.push(Scalar::If(
                Box::new(c),
                Box::new(Scalar::Num(4.0)),
                Box::new(un(ScalarUn::Neg, arg(1))),
            ));
        }
        let c = Compare { op, a: Scalar::Num(1.0), b: Scalar::Num(2.0) };
        out.push(Scalar::If(Box::new(c), Box::new(arg(0)), Box::new(arg(1))));
    }
    out
}

#[test]
fn exact_functions_agree_with_the_interpreter_bit_for_bit() {
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        for body in exact_functions() {
            let f = func(2, body);
            let c = chain(&f, dtype).unwrap_or_else(|d| panic!("{:?}: {d:#?}", f.body));
            sound(&c);
            assert!(c.exact && c.compute == DType::F32);
            for a in VALUES {
                for b in VALUES {
                    // Operands are values of the type.
                    let v = [a, b].map(|v| round_to(f64::from(v), dtype) as f32);
                    let (got, want) = (run(&c, &v), eval_f32(&f.body, &v, dtype));
                    assert!(same(got, want), "{:?} of {v:?}: {got:?}, not {want:?}\n{c}", f.body);
                }
            }
        }
    }
}

#[test]
fn integers_wrap_and_what_the_core_lacks_is_refused() {
    let values = [0, 1, -1, 7, -9, i32::MAX, i32::MIN, 16_777_217, -16_777_219];
    let mut refused = 0;
    for body in exact_functions() {
        let f = func(2, body);
        match chain(&f, DType::I32) {
            Ok(c) => {
                sound(&c);
                for a in values {
                    for b in values {
                        let want =
                            eval_i32(&f.body, &[a, b]).unwrap_or_else(|e| panic!("{:?}: {e:?}", f.body));
                        assert_eq!(run_i32(&c, &[a, b]), want, "{:?} of {a}, {b}\n{c}", f.body);
                    }
                }
            }
            Err(d) => {
                assert_eq!(d.code, "E451");
                assert!(!d.notes.is_empty() && d.help.is_some());
                refused += 1;
            }
        }
    }
    assert!(refused > 60, "{refused}");
    for n in [2147483647.0, -2147483648.0, 16777217.0] {
        for op in [ScalarBin::Add, ScalarBin::Sub, ScalarBin::Mul, ScalarBin::Min] {
            for f in [
                func(1, Scalar::bin(op, arg(0), Scalar::Num(n))),
                func(1, Scalar::bin(op, Scalar::Num(n), arg(0))),
            ] {
                let c = chain(&f, DType::I32).expect("it exists");
                for a in values {
                    assert_eq!(run_i32(&c, &[a]), eval_i32(&f.body, &[a]).expect("a value"), "{c} of {a}");
                }
            }
        }
    }
    let moves = chain(&func(1, arg(0)), DType::I8).expect_err("it only moves");
    assert_eq!(moves.code, "E451");
    assert_eq!(chain(&func(1, arg(3)), DType::F32).expect_err("no such parameter").code, "E451");
    let long = Scalar::Pow(Box::new(arg(0)), u32::MAX);
    assert_eq!(chain(&func(1, long), DType::F32).expect_err("it is too long").code, "E451");
}

#[test]
fn numbers_round_as_the_interpreter_rounds_them() {
    let mut values: Vec<f64> = VALUES.iter().map(|v| f64::from(*v)).collect();
    values.extend([
        0.1,
        1.0 / 3.0,
        65519.99,
        65520.0,
        65520.01,
        2e-8,
        3.1e-8,
        6e-8,
        1e-300,
        1e300,
        3.39e38,
        3.4e38,
    ]);
    let mut bits = 0x9e37_79b9_7f4a_7c15u64;
    for _ in 0..20_000 {
        bits = bits.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let near = ((bits >> 32) as u32) as f32;
        values.extend([
            f64::from(f32::from_bits((bits >> 32) as u32)),
            f64::from_bits(bits),
            f64::from(near) / 4e9,
        ]);
    }
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        for v in &values {
            let (got, want) = (round(*v, dtype), round_to(*v, dtype));
            assert!(
                got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan(),
                "{v:?} as {dtype}: {got:?} {want:?}"
            );
        }
    }
}

/// Returns the distance between the f32 values next to a value, as f64.
fn ulp(v: f64) -> f64 {
    let e = v.abs().max(f64::from(f32::MIN_POSITIVE)).log2().floor() as i32;
    f64::powi(2.0, e - 23)
}

/// Calls `f` with arguments for a bound: every `step`-th bit pattern up to a size, with both signs.
fn each(up_to: f32, step: u32, mut f: impl FnMut(f32)) {
    (0..=up_to.to_bits()).step_by(step as usize).for_each(|b| {
        f(f32::from_bits(b));
        f(-f32::from_bits(b));
    });
}

#[test]
fn functions_are_within_their_bounds() {
    let step = if all_cases() { 4099 } else { 8209 };
    for op in ScalarUn::ALL.iter().copied().filter(|f| bound(*f).is_some()) {
        let c = chain(&func(1, un(op, arg(0))), DType::F32).expect("it exists");
        sound(&c);
        assert_eq!(c.inexact, [op]);
        let (mut worst, mut at) = (0.0, 0.0);
        let mut note = |x: f32, e: f64| {
            if e > worst {
                (worst, at) = (e, x);
            }
        };
        let limit = match bound(op).expect("it is not exact") {
            Bound::Ulps(n) => {
                each(f32::INFINITY, step, |x| {
                    let (got, want) = (f64::from(run(&c, &[x])), un_f64(op, f64::from(x)));
                    if want.is_nan() || !f64::from(want as f32).is_finite() {
                        assert!(same(got as f32, want as f32), "{op:?} of {x:?}: {got:?}, not {want:?}");
                    } else {
                        note(x, (got - want).abs() / ulp(want));
                    }
                });
                n
            }
            Bound::Absolute { error, within } => {
                each(within as f32, step, |x| {
                    note(x, (f64::from(run(&c, &[x])) - un_f64(op, f64::from(x))).abs());
                });
                error
            }
        };
        assert!(worst <= limit, "{op:?} of {at:?} is off by {worst}; the bound is {limit}");
        // A bound that is far too wide would be useless.
        assert!(worst > 0.4 * limit, "{op:?}: {worst} of {limit}");
        // The cosine of 0 is within its bound, but not 1.
        let zeros = if op == ScalarUn::Cos { [f32::NAN; 2] } else { [0.0, -0.0] };
        for x in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, zeros[0], zeros[1]] {
            let (got, want) = (run(&c, &[x]), un_f32(op, x));
            assert!(same(got, want), "{op:?} of {x:?}: {got:?}, not {want:?}");
        }
    }
    for op in [ScalarUn::Neg, ScalarUn::Abs, ScalarUn::Sqrt, ScalarUn::Rsqrt] {
        assert_eq!(bound(op), None);
    }
}

struct Nothing(u32);

impl Sources for Nothing {
    fn builtin(&mut self, _: &'static str, _: &'static str) -> FileId {
        self.0 += 1;
        FileId(self.0)
    }

    fn open(&mut self, _: FileId, path: &str) -> Result<(FileId, String), Diagnostic> {
        Err(Diagnostic::error("E412", format!("no file {path}")))
    }
}

/// Returns a kernel of the library as the front end lowers a call of it.
fn library(call: &str) -> ScalarFn {
    let text = format!("program p(x: f32[8]) -> f32[8] {{\n    {call}\n}}\n");
    let mut sources = Nothing(0);
    let (loaded, found) = load(Some((FileId(0), text)), &mut sources);
    assert!(!found.has_errors(), "{call}: {:#?}", found.list);
    let lowered =
        lower(&loaded, &LowerOptions::default()).unwrap_or_else(|d| panic!("{call}: {:#?}", d.list));
    let graph = lowered.module.graph().expect("a graph");
    let map = |id: &kbc_ir::graph::OpId| match &graph.op(*id).kind {
        OpKind::Map(f) => Some(f.clone()),
        _ => None,
    };
    let mut maps = graph.order().iter().filter_map(map);
    let f = maps.next().expect("one elementwise function");
    assert_eq!(maps.next(), None);
    f
}

#[test]
fn every_kernel_of_the_library_becomes_a_chain() {
    let text = include_str!("../../../specs/lib/kernels.kb");
    let mut out = String::new();
    let mut seen = 0;
    for line in text.lines().filter_map(|l| l.strip_prefix("kernel ")) {
        let (name, rest) = line.split_once('(').expect("a parameter list");
        let more = rest.split(')').next().unwrap_or_default().matches(',').count();
        let f = library(&format!("{name}(x{})", ", 0.2".repeat(more)));
        for dtype in [DType::F32, DType::BF16] {
            let c = chain(&f, dtype).unwrap_or_else(|d| panic!("{name}: {d:#?}"));
            sound(&c);
            // Errors of the inner functions reach the result multiplied by at most its operand.
            let (mut worst, mut at) = (0.0f64, 0.0);
            each(100.0, 9973, |x| {
                let x = round_to(f64::from(x), dtype) as f32;
                let (got, want) = (run(&c, &[x]), eval_f32(&f.body, &[x], dtype));
                if c.exact {
                    assert!(same(got, want), "{name} of {x:?}: {got:?}, not {want:?}");
                }
                let e = f64::from((got - want).abs()) / ulp(f64::from(x.abs().max(1.0)));
                if e > worst {
                    (worst, at) = (e, x);
                }
            });
            assert!(worst <= 3.0, "{name} of {at:?} as {dtype}: {worst} units");
            if dtype == DType::F32 {
                let exact = if c.exact { "exact".to_owned() } else { format!("{:?}", c.inexact) };
                out += &format!("{name}: {exact}\n{c}\n");
            }
        }
        seen += 1;
    }
    assert_eq!(seen, text.matches("\nkernel ").count());
    insta::assert_snapshot!(out);
}

#[test]
fn registers_are_used_again() {
    let c = chain(&library("gelu_tanh(x)"), DType::F32).expect("it exists");
    assert!(c.registers <= 6, "{c}");
    // One operand, in place.
    let c = chain(&func(1, un(ScalarUn::Neg, un(ScalarUn::Abs, arg(0)))), DType::F32).expect("it exists");
    assert_eq!((c.registers, c.result, c.steps.len()), (1, 0, 2));
    // The register of an operand that is no longer read can be used.
    let c = chain(&func(2, Scalar::bin(ScalarBin::Add, arg(0), un(ScalarUn::Exp, arg(0)))), DType::F32);
    assert_eq!(c.expect("it exists").registers, 2);
    let c = chain(&func(1, arg(0)), DType::F32).expect("it exists");
    assert_eq!((c.steps.len(), c.registers, c.result), (0, 1, 0));
}
