//! Tests of the files of a hand-made package, and of kernels that cannot be packaged. They compare
//! texts; no Python runs here.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use crate::handmade;

use handmade::{count, kernel, package, ranks};
use kbc_backend_ascend::package::{files, platforms, runtimes, support};
use kbc_backend_ascend::profile::PROFILES;
use kbc_diag::{Diagnostic, Span};
use kbc_ir::expr::Expr;
use kbc_ir::graph::{Graph, GraphOp, Input, OpId, OpKind};
use kbc_ir::name::Name;
use kbc_ir::scalar::{Compare, CompareOp, Scalar, ScalarBin, ScalarFn, ScalarUn};
use kbc_ir::types::{Axis, Cut, CutRule, DType, Dim, Mesh, ReduceOp, TensorType};
use kbc_tiles::package::{Package, PackagedProgram, SizedWindow, Sizes};
use kbc_tiles::tile::{Kernel, Table};
use std::sync::Arc;

fn text(package: &Package<'_>, name: &str) -> String {
    let all = files(package, &PROFILES[1]).unwrap();
    String::from_utf8(all.into_iter().find(|f| f.0 == name).unwrap().1).unwrap()
}

#[test]
fn every_file_of_an_all_reduce() {
    let kernel = kernel();
    let all = files(&package(&kernel, "// the kernel\n"), &PROFILES[1]).unwrap();
    let names: Vec<&str> = all.iter().map(|f| f.0.as_str()).collect();
    insta::assert_debug_snapshot!("names", names);
    for (name, bytes) in &all {
        let text = std::str::from_utf8(bytes).unwrap();
        assert!(text.ends_with('\n'), "{name} has no end of line");
        assert!(text.lines().all(|l| l.trim_end() == l), "{name} has blanks at the end of a line");
        let left: Vec<&str> = text.split('@').skip(1).step_by(2).collect();
        let key = |w: &&&str| !w.is_empty() && w.chars().all(|c| c.is_ascii_uppercase() || c == '_');
        assert_eq!(left.iter().find(key), None, "{name}: a key that was not filled in");
        // The harness is the same text for every kernel except for its name.
        if name.ends_with(".cpp") || name != "harness.py" {
            insta::assert_snapshot!(name.replace(['/', '.'], "_"), text);
        }
    }
}

/// No part of the harness depends on the kernel, so several packages share it.
#[test]
fn harness_is_the_same_for_every_kernel() {
    let one = kernel();
    let other = Kernel { name: "another".into(), ..kernel() };
    let a = text(&package(&one, ""), "harness.py");
    let b = text(&package(&other, ""), "harness.py");
    assert!(!a.contains("sum_of_all"));
    assert_eq!(a, b);
}

#[test]
fn tables_are_one_argument_and_one_list() {
    let mut kernel = kernel();
    let values = |base: i64| [2, 3, 4].map(|p| (p, (0..p as i64).map(|i| base + i).collect())).into();
    kernel.tables.push(Table { name: "order".into(), values: values(0) });
    kernel.tables.push(Table { name: "peers".into(), values: values(10) });
    let layout = text(&package(&kernel, ""), "layout.py");
    // The offset of each table, then both tables.
    assert!(layout.contains("    3: (2, 5, 0, 1, 2, 10, 11, 12),\n"), "{layout}");
    assert!(layout.contains(r#"Tensor("tables", "i32", "IN", "tables", None),"#), "{layout}");
    let shim = text(&package(&kernel, ""), "kernels/orchestration/sum_of_all_orch.cpp");
    assert!(shim.contains(".expected_arg_count = 5 + 4,"), "{shim}");
    kernel.tables[0].values.remove(&3);
    let found = files(&package(&kernel, ""), &PROFILES[1]).unwrap_err();
    assert_eq!(found.list[0].code, "E449");
}

#[test]
fn what_has_no_place_in_a_package_is_refused() {
    type Edit = fn(&mut Kernel, &mut Package<'_>);
    let cases: [(Edit, &str); 11] = [
        (
            |k, _| k.name = "lambda".into(),
            "the name of the kernel, `lambda`, is not an identifier in C++ and Python",
        ),
        (
            |k, _| k.tensors[0].len = Expr::Table("t".into(), Arc::new(Expr::Int(0))),
            "the size or place of `x` is read from a table",
        ),
        (|k, _| k.areas[0].at = None, "`w0` has no place in the window"),
        (|k, _| k.areas[0].at = Some(Expr::var("rank")), "the place of `w0` in the window depends on `rank`"),
        (|k, _| k.scalars.push("other".into()), "the harness has no value for the scalar `other`"),
        (|k, _| k.tensors[1].index = 1, "tensor `out` is input or result 1, and there are only 1"),
        (|_, p| p.claim.ranks = vec![], "the claimed rank counts are not an ascending list"),
        (|_, p| p.claim.ranks = vec![2, 65], "more ranks are claimed than a domain can have (64)"),
        (|_, p| _ = p.moduli.remove(&3), "there are no exact inputs for 3 ranks"),
        (
            |_, p| p.program.inputs.clear(),
            "the inputs or results of the description differ from those of the program",
        ),
        (
            |_, p| p.program.results[0].ty.partial = Some((ReduceOp::Sum, vec!["tp".into()])),
            "result result is partial, and golden values exist only for complete results",
        ),
    ];
    for (edit, why) in cases {
        let plain = kernel();
        let mut changed = kernel();
        let mut p = package(&plain, "");
        edit(&mut changed, &mut p);
        let found = files(&Package { kernel: &changed, ..p }, &PROFILES[1]).unwrap_err();
        let titles: Vec<&str> = found.list.iter().map(|d| d.title.as_str()).collect();
        assert!(titles.contains(&format!("the package cannot be generated: {why}").as_str()), "{titles:?}");
        assert!(found.list.iter().all(|d| d.code == "E457"));
    }
}

/// Returns the window of a kernel at these sizes, as text.
fn window(kernel: &Kernel, ranks: u64, count: u64) -> Result<String, Diagnostic> {
    SizedWindow::of(kernel, ranks, count).map(|w| w.text())
}

#[test]
fn windows_are_explained_with_the_layout_of_the_kernel() {
    insta::assert_snapshot!("window", window(&kernel(), 4, 1000).unwrap());
    let mut kernel = kernel();
    kernel.signals[0].per_call = ranks() * Expr::Int(3);
    assert!(window(&kernel, 4, 0).unwrap().contains("a domain serves 178956970 launches\n  counters begin at 0 and are only added to; a launch adds at most 12 to one,"));
    kernel.areas[0].at = Some(Expr::var("rank"));
    assert_eq!(window(&kernel, 4, 0).unwrap_err().code, "E457");
}

#[test]
fn platforms_and_runtimes_are_refused_with_a_reason() {
    let all = runtimes("a2a3");
    assert_eq!(all.iter().filter(|r| r.unsupported_because.is_none()).count(), 2);
    for p in platforms() {
        for r in &all {
            let verdict = support(p.name, r.name);
            assert_eq!(verdict.is_ok(), p.unsupported_because.is_none() && r.unsupported_because.is_none());
            if let Err(d) = verdict {
                let why = p.unsupported_because.or(r.unsupported_because).unwrap();
                assert!(d.code == "E458" && d.title.contains(why), "{d:?}");
            }
        }
    }
    let d = support("a2a3sin", all[0].name).unwrap_err();
    assert_eq!(d.help.as_deref(), Some("did you mean `a2a3sim`?"));
}

/// Returns a graph with one operation of every kind that has a golden value.
fn every_operation() -> Graph {
    let mut g = Graph::default();
    let whole = |dtype, sizes: &[u64]| TensorType::replicated(dtype, sizes);
    let cut = |size, rule, axes: &[&str]| Dim {
        size,
        cut: Some(Cut { axes: axes.iter().map(|a| Name::from(*a)).collect(), rule }),
    };
    let mut x = whole(DType::F32, &[6, 8]);
    x.dims[0] = cut(6, CutRule::Even, &["dp", "tp"]);
    let mut w = whole(DType::F32, &[8, 4]);
    w.dims[1] = cut(4, CutRule::Ceil, &["tp"]);
    let mut k = whole(DType::I32, &[4]);
    k.partial = Some((ReduceOp::Max, vec!["dp".into(), "tp".into()]));
    let mut s = whole(DType::BF16, &[4]);
    s.only = Some((1, "tp".into()));
    for (name, ty) in [("x", &x), ("w#1", &w), ("k", &k), ("lambda", &s)] {
        g.inputs.push(Input { name: name.into(), ty: ty.clone(), data: None, span: Span::NONE });
    }
    let push = |g: &mut Graph, name: &str, kind, ty: &TensorType, from: &[OpId]| {
        let op = GraphOp { kind, name: name.into(), ty: Some(ty.clone()), want: None, span: Span::NONE };
        g.push(op, from)
    };
    let inputs: Vec<OpId> = (0..4)
        .map(|i| {
            let (name, ty) = (g.inputs[i].name.to_string(), g.inputs[i].ty.clone());
            push(&mut g, &name, OpKind::Input(i), &ty, &[])
        })
        .collect();
    let f32s = whole(DType::F32, &[6, 4]);
    let y = push(&mut g, "y", OpKind::Matmul { accumulate_f32: false }, &f32s, &inputs[..2]);
    let (a, b) = (|| Scalar::Arg(0), || Scalar::Arg(1));
    let relu = Scalar::If(
        Box::new(Compare { op: CompareOp::Gt, a: a(), b: Scalar::Num(0.0) }),
        Box::new(Scalar::bin(ScalarBin::Mul, a(), Scalar::Num(0.1))),
        Box::new(Scalar::Un(ScalarUn::Exp, Box::new(Scalar::Pow(Box::new(a()), 3)))),
    );
    let map = |body, params: &[&str]| {
        let params = params.iter().map(|p| Name::from(*p)).collect();
        OpKind::Map(ScalarFn { name: "f".into(), params, body })
    };
    let h = push(&mut g, "y", map(relu, &["a"]), &f32s, &[y]);
    let casted = push(&mut g, "cast", OpKind::Cast(DType::I32), &whole(DType::I32, &[6, 4]), &[h]);
    let ints = Scalar::bin(
        ScalarBin::Div,
        Scalar::Un(ScalarUn::Neg, Box::new(Scalar::bin(ScalarBin::Add, a(), Scalar::Pow(Box::new(b()), 2)))),
        Scalar::bin(ScalarBin::Max, b(), Scalar::Num(1.0)),
    );
    let i = push(&mut g, "i", map(ints, &["a", "b"]), &whole(DType::I32, &[6, 4]), &[casted, inputs[2]]);
    let sum = OpKind::ReduceDim { op: ReduceOp::Sum, mean: false, dim: 0, keep: false };
    let total = push(&mut g, "total", sum, &whole(DType::I32, &[4]), &[i]);
    let mean = OpKind::ReduceDim { op: ReduceOp::Sum, mean: true, dim: 1, keep: true };
    let m = push(&mut g, "m", mean, &whole(DType::F32, &[6, 1]), &[h]);
    let wide = push(&mut g, "wide", OpKind::Cast(DType::F32), &whole(DType::F32, &[4]), &inputs[3..]);
    let first = map(Scalar::Un(ScalarUn::Abs, Box::new(a())), &["a", "b"]);
    let out = push(&mut g, "out", first, &f32s, &[m, wide]);
    push(&mut g, "result", OpKind::Output(0), &f32s, &[out]);
    push(&mut g, "total", OpKind::Output(1), &whole(DType::I32, &[4]), &[total]);
    g.results = vec![f32s, whole(DType::I32, &[4])];
    g
}

#[test]
fn a_definition_with_every_operation() {
    let kernel = kernel();
    let mut p = of_graph(&kernel, every_operation());
    p.program.axes = vec![("dp".into(), Expr::Int(2)), ("tp".into(), ranks() / Expr::Int(2))];
    p.moduli = [2, 3, 4].map(|n| (n, Some(vec![2, 2, 7, n as u32]))).into();
    let golden = text(&p, "golden.py");
    let (head, _) = golden.split_once("# --- numbers ---").unwrap();
    insta::assert_snapshot!("every_operation", head.split_once("import torch\n").unwrap().1);
}

/// Returns a graph whose integers do not stay exact. Slices of an f16 sum are scaled, and one of
/// them has fewer dimensions; the sum is used in functions and comparisons and is converted.
fn inexact() -> Graph {
    let mut g = Graph::default();
    let whole = |dtype, sizes: &[u64]| TensorType::replicated(dtype, sizes);
    let parts = |sizes: &[u64]| TensorType {
        partial: Some((ReduceOp::Sum, vec!["tp".into()])),
        ..whole(DType::F16, sizes)
    };
    for (name, ty) in [("exp", parts(&[6, 4])), ("b", parts(&[4]))] {
        g.inputs.push(Input { name: name.into(), ty, data: None, span: Span::NONE });
    }
    let mut push = |name: &str, kind, ty: TensorType, from: &[OpId]| {
        let op = GraphOp { kind, name: name.into(), ty: Some(ty), want: None, span: Span::NONE };
        g.push(op, from)
    };
    let map = |body, params: &[&str]| {
        let params = params.iter().map(|p| Name::from(*p)).collect();
        OpKind::Map(ScalarFn { name: "f".into(), params, body })
    };
    let (a, b) = (|| Scalar::Arg(0), || Scalar::Arg(1));
    let num = Scalar::Num;
    let x = push("exp", OpKind::Input(0), parts(&[6, 4]), &[]);
    let y = push("b", OpKind::Input(1), parts(&[4]), &[]);
    let scaled = Scalar::bin(ScalarBin::Add, Scalar::bin(ScalarBin::Mul, a(), num(0.1)), b());
    let scaled = push("scaled", map(scaled, &["a", "b"]), parts(&[6, 4]), &[x, y]);
    let sum = push("sum", OpKind::Demand, whole(DType::F16, &[6, 4]), &[scaled]);
    let jump = Scalar::If(
        Box::new(Compare { op: CompareOp::Gt, a: a(), b: num(0.5) }),
        Box::new(Scalar::bin(ScalarBin::Div, a(), Scalar::bin(ScalarBin::Max, num(2.0), a()))),
        Box::new(Scalar::Un(ScalarUn::Sin, Box::new(Scalar::Pow(Box::new(a()), 3)))),
    );
    let jump = push("jump", map(jump, &["a"]), whole(DType::F16, &[6, 4]), &[sum]);
    let wide = push("wide", OpKind::Cast(DType::F32), whole(DType::F32, &[6, 4]), &[jump]);
    let int = push("int", OpKind::Cast(DType::I32), whole(DType::I32, &[6, 4]), &[sum]);
    let half = Scalar::bin(ScalarBin::Div, a(), num(2.0));
    let half = push("half", map(half, &["a"]), whole(DType::I32, &[6, 4]), &[int]);
    push("wide", OpKind::Output(0), whole(DType::F32, &[6, 4]), &[wide]);
    push("half", OpKind::Output(1), whole(DType::I32, &[6, 4]), &[half]);
    g.results = vec![whole(DType::F32, &[6, 4]), whole(DType::I32, &[6, 4])];
    g
}

/// Returns a package of a graph with its sizes unchanged.
fn of_graph<'a>(kernel: &'a Kernel, graph: Graph) -> Package<'a> {
    let mut p = package(kernel, "");
    let global = |name: &Name, ty: &TensorType| kbc_tiles::package::Global {
        name: name.clone(),
        ty: ty.clone(),
        sizes: ty.sizes().iter().map(|n| Expr::Int(*n as i64)).collect(),
    };
    p.program.inputs = graph.inputs.iter().map(|i| global(&i.name, &i.ty)).collect();
    p.program.results = graph.results.iter().map(|t| global(&"result".into(), t)).collect();
    p.program.graph = graph;
    p
}

/// If integers do not stay exact, values have bounds, and the file has exactly the helpers that
/// they need.
#[test]
fn a_definition_with_bounds() {
    let kernel = kernel();
    let mut p = of_graph(&kernel, inexact());
    p.moduli = [(2, None), (3, Some(vec![2, 2])), (4, None)].into();
    let golden = text(&p, "golden.py");
    let (_, program) = golden.split_once("def program").unwrap();
    let (program, _) = program.split_once("# Inputs are").unwrap();
    let helpers: Vec<&str> =
        golden.lines().filter(|l| l.starts_with("def ") || l.starts_with("ERRORS")).collect();
    insta::assert_snapshot!("bounds", format!("def program{program}{}\n", helpers.join("\n")));
    let readme = text(&p, "README.md");
    assert!(readme.contains("as near to its golden value as a bound"), "{readme}");
    assert!(text(&p, "manifest.json").contains("\"compared\": \"within bounds\""));

    // Matmuls and sums of rows have rules of their own.
    let mut p = of_graph(&kernel, every_operation());
    p.moduli = [2, 3, 4].map(|n| (n, None)).into();
    let golden = text(&p, "golden.py");
    assert!(["def matmul(", "def along(", "def tightened("].iter().all(|f| golden.contains(f)), "{golden}");
}

/// Only a single collective has a closed form; a computation after it has none.
#[test]
fn a_computation_has_no_closed_form() {
    let kernel = kernel();
    let mut p = package(&kernel, "");
    assert!(text(&p, "golden.py").contains("FORM = \"inputs i"));
    let mut g = Graph::default();
    g.inputs = p.program.graph.inputs.clone();
    let whole = TensorType::replicated(DType::F32, &[1000]);
    let mut push = |kind, ty: &TensorType, from: &[OpId]| {
        let op = GraphOp { kind, name: "x".into(), ty: Some(ty.clone()), want: None, span: Span::NONE };
        g.push(op, from)
    };
    let x = push(OpKind::Input(0), &p.program.graph.inputs[0].ty, &[]);
    let double = Scalar::bin(ScalarBin::Add, Scalar::Arg(0), Scalar::Arg(0));
    let f = ScalarFn { name: "f".into(), params: vec!["a".into()], body: double };
    let y = push(OpKind::Map(f), &whole, &[x]);
    push(OpKind::Output(0), &whole, &[y]);
    g.results = vec![whole];
    p.program.graph = g;
    assert!(text(&p, "golden.py").contains("FORM = None"));
}

/// Closed forms of collectives depend on the types of their input and result.
#[test]
fn one_collective_has_a_closed_form() {
    let cut = |dim: usize, rank: usize| -> TensorType {
        let mut t = TensorType::replicated(DType::I32, &vec![4; rank]);
        t.dims[dim].cut = Some(Cut { axes: vec!["tp".into()], rule: CutRule::Even });
        t
    };
    let plain = |rank: usize| TensorType::replicated(DType::I32, &vec![4; rank]);
    let sum = |op| TensorType { partial: Some((op, vec!["tp".into()])), ..plain(1) };
    let only = TensorType { only: Some((1, "tp".into())), ..plain(1) };
    let half = |t: TensorType| TensorType { dtype: DType::F16, ..t };
    let cases = [
        (sum(ReduceOp::Sum), plain(1), "inputs i + 100 * rank + launch"),
        (sum(ReduceOp::Sum), cut(0, 1), "inputs i + 100 * rank + launch"),
        (cut(0, 1), plain(1), "inputs 100 * rank + i + launch"),
        (cut(0, 2), cut(1, 2), "inputs 1000 * source + 100 * rank + j + launch"),
        (only.clone(), plain(1), "inputs 100 * root + i + launch"),
        (sum(ReduceOp::Max), plain(1), ""),
        (sum(ReduceOp::Sum), only, ""),
        (half(sum(ReduceOp::Sum)), half(plain(1)), ""),
        (cut(0, 1), cut(0, 1), ""),
    ];
    let kernel = kernel();
    for (x, y, form) in cases {
        let mut p = package(&kernel, "");
        let sizes = x.dims.iter().map(|_| count()).collect::<Vec<_>>();
        for (global, ty) in p.program.inputs.iter_mut().chain(&mut p.program.results).zip([&x, &y]) {
            (global.ty, global.sizes) = (ty.clone(), sizes.clone());
        }
        let line = if form.is_empty() { "FORM = None\n".into() } else { format!("FORM = \"{form}\"\n") };
        assert!(text(&p, "golden.py").contains(&line), "{x} -> {y}");
    }
}

#[test]
fn a_program_is_made_of_its_instances() {
    let at = |nranks, count| Sizes { nranks, count };
    let mesh = |size| Mesh { axes: vec![Axis { name: "tp".into(), size, parts: vec![] }] };
    let (two, four) = (mesh(2), mesh(4));
    let graphs: Vec<Graph> = [10, 11, 10].iter().map(|n| handmade::graph(*n)).collect();
    let all = [(at(2, 10), &graphs[0], &two), (at(2, 11), &graphs[1], &two), (at(4, 10), &graphs[2], &four)];
    let program = PackagedProgram::of("all_reduce.kb", &all).unwrap();
    assert_eq!(program.axes, [("tp".into(), ranks())]);
    assert_eq!(
        (&program.inputs[0].sizes[..], &program.results[0].sizes[..]),
        (&[count()][..], &[count()][..])
    );
    let kernel = kernel();
    let given = package(&kernel, "");
    let made = Package { program, ..package(&kernel, "") };
    assert_eq!(
        text(&made, "golden.py").replace("\"x\", \"f32\", (None,))", "\"result\", \"f32\", (None,))"),
        text(&given, "golden.py")
    );

    let scaled = every_operation();
    let why = |all: &[(Sizes, &Graph, &Mesh)]| PackagedProgram::of("f.kb", all).unwrap_err().title;
    assert!(why(&[all[0], (at(4, 10), &scaled, &four)]).contains("at 4 ranks and 10 elements differs"));
    let odd = handmade::graph(77);
    assert!(
        why(&[all[0], all[1], (at(4, 12), &odd, &four)]).contains("the sizes of `x` are not polynomials")
    );
    assert!(why(&[]).contains("no instance"));
}
