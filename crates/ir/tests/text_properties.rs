//! Properties of the text form: any printed expression or function parses to the same one, and no
//! damaged text makes the parser or the verifier panic.

use kbc_diag::FileId;
use kbc_ir::expr::{BinOp, Expr, UnOp};
use kbc_ir::graph::{DataSource, Graph, GraphOp, Input, OpKind};
use kbc_ir::module::{Body, Module, Props};
use kbc_ir::scalar::{Compare, CompareOp, Scalar, ScalarBin, ScalarFn, ScalarUn};
use kbc_ir::text::{PrintOptions, equivalent, identical, parse, parse_expr, print, print_expr};
use kbc_ir::types::{DType, Mesh, TensorType};
use kbc_ir::verify::verify;
use proptest::prelude::*;

/// Names of all kinds: plain, dotted, keywords, names that need quotes, empty.
fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("r".to_string()),
        Just("min".to_string()),
        Just("mod".to_string()),
        Just("a.b".to_string()),
        Just("if".to_string()),
        "[a-z][a-z0-9_]{0,5}",
        ".{0,4}",
        "[`\"\\\\ \\n#@%0-9]{0,3}",
    ]
}

fn expr() -> impl Strategy<Value = Expr> {
    use BinOp::*;
    let leaf = prop_oneof![
        any::<i64>().prop_map(Expr::Int),
        (-3i64..20).prop_map(Expr::Int),
        name().prop_map(|n| Expr::Var(n.into())),
    ];
    leaf.prop_recursive(8, 60, 3, |inner| {
        let un = prop::sample::select(vec![
            UnOp::Neg,
            UnOp::Not,
            UnOp::Log2,
            UnOp::CeilLog2,
            UnOp::Popcount,
            UnOp::Abs,
            UnOp::Sign,
        ]);
        let bin = prop::sample::select(vec![
            Add, Sub, Mul, Div, Mod, Min, Max, And, Or, BitAnd, BitOr, Xor, Shl, Shr, Eq, Ne, Lt, Le, Gt, Ge,
        ]);
        prop_oneof![
            (un, inner.clone()).prop_map(|(o, a)| Expr::Un(o, a.into())),
            (bin, inner.clone(), inner.clone()).prop_map(|(o, a, b)| Expr::Bin(o, a.into(), b.into())),
            (inner.clone(), inner.clone(), inner.clone()).prop_map(|(c, a, b)| Expr::Select(
                c.into(),
                a.into(),
                b.into()
            )),
            (name(), inner).prop_map(|(n, i)| Expr::Table(n.into(), i.into())),
        ]
    })
}

fn scalar() -> impl Strategy<Value = Scalar> {
    let finite = any::<f64>().prop_filter("NaN is equal to nothing", |v| !v.is_nan());
    let leaf = prop_oneof![
        finite.prop_map(Scalar::Num),
        (-4i32..5).prop_map(|v| Scalar::Num(f64::from(v) / 2.0)),
        (0usize..4).prop_map(Scalar::Arg),
    ];
    leaf.prop_recursive(6, 40, 4, |inner| {
        let un = prop::sample::select(ScalarUn::ALL);
        let bin = prop::sample::select(ScalarBin::ALL);
        let compare = prop::sample::select(vec![
            CompareOp::Eq,
            CompareOp::Ne,
            CompareOp::Lt,
            CompareOp::Le,
            CompareOp::Gt,
            CompareOp::Ge,
        ]);
        prop_oneof![
            (un, inner.clone()).prop_map(|(o, a)| Scalar::Un(o, a.into())),
            (bin, inner.clone(), inner.clone()).prop_map(|(o, a, b)| Scalar::bin(o, a, b)),
            (inner.clone(), any::<u32>()).prop_map(|(a, n)| Scalar::Pow(a.into(), n)),
            (compare, inner.clone(), inner.clone(), inner.clone(), inner)
                .prop_map(|(op, a, b, x, y)| Scalar::If(Compare { op, a, b }.into(), x.into(), y.into())),
        ]
    })
}

/// A graph whose operations all have the same few hints, each a function of up to three earlier
/// values.
fn graph() -> impl Strategy<Value = Module> {
    let function = (name(), prop::collection::vec(name(), 0..4), scalar());
    let op = (function, name(), prop::collection::vec(any::<prop::sample::Index>(), 0..4));
    (name(), prop::collection::vec(name(), 1..4), prop::collection::vec(op, 0..8), any::<bool>()).prop_map(
        |(title, inputs, ops, located)| {
            let span = |n: usize| match located {
                true => kbc_diag::Span::new(FileId(3), n, n + 7),
                false => kbc_diag::Span::NONE,
            };
            let ty = TensorType::replicated(DType::BF16, &[3, 0, 5]);
            let mut g = Graph::default();
            g.name = Some(title.clone().into());
            let mut values = vec![];
            for (i, n) in inputs.iter().enumerate() {
                let args = vec![0.1, -0.0, f64::from(i as u32), f64::INFINITY, 1e300];
                let data = DataSource::Generator { name: n.as_str().into(), args, span: span(i) };
                let name = n.as_str().into();
                g.inputs.push(Input { name, ty: ty.clone(), data: Some(data), span: span(i) });
                let kind = OpKind::Input(i);
                let op = GraphOp {
                    kind,
                    name: n.as_str().into(),
                    ty: None,
                    want: Some(ty.clone()),
                    span: span(i),
                };
                values.push(g.push(op, &[]));
            }
            for (i, ((f, params, body), name, args)) in ops.into_iter().enumerate() {
                let params = params.into_iter().map(Into::into).collect();
                let kind = OpKind::Map(ScalarFn { name: f.into(), params, body });
                let args: Vec<_> = args.iter().map(|a| *a.get(&values)).collect();
                let op = GraphOp { kind, name: name.into(), ty: Some(ty.clone()), want: None, span: span(i) };
                values.push(g.push(op, &args));
            }
            Module {
                name: title.clone().into(),
                machine: Some(title),
                mesh: Mesh::default(),
                body: Body::Graph(g),
                props: Props::NONE,
                attributes: Default::default(),
            }
        },
    )
}

fn good_texts() -> Vec<String> {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../ir/tests/kir");
    let mut paths: Vec<_> = ["good", "graph", "forms"]
        .iter()
        .flat_map(|d| std::fs::read_dir(format!("{root}/{d}")).expect("the folder is there"))
        .map(|e| e.expect("the folder can be read").path())
        .collect();
    paths.sort();
    paths.iter().map(|p| std::fs::read_to_string(p).expect("it can be read")).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn expressions_read_back(e in expr()) {
        let text = print_expr(&e);
        let again = parse_expr(FileId(0), &text);
        prop_assert_eq!(again.map_err(|d| format!("{text}: {d:?}")), Ok(e));
    }

    #[test]
    fn graphs_and_functions_read_back(m in graph()) {
        for locs in [false, true] {
            let text = print(&m, &PrintOptions { locs });
            let again = parse(FileId(0), &text).map_err(|d| TestCaseError::fail(format!("{text}\n{d:?}")))?;
            let same = if locs { identical(&m, &again) } else { equivalent(&m, &again) };
            prop_assert!(same, "{}", text);
        }
    }

    /// A good text with one word or line dropped, doubled, or replaced by another one of the text,
    /// is parsed or rejected.
    #[test]
    fn damaged_texts_are_read_or_refused(
        pick in any::<prop::sample::Index>(),
        at in any::<prop::sample::Index>(),
        other in any::<prop::sample::Index>(),
        how in 0..6,
    ) {
        let texts = good_texts();
        let text = pick.get(&texts);
        let cut = |sign: &str| text.split_inclusive(sign).map(String::from).collect::<Vec<_>>();
        let mut parts = if how < 3 { cut(" ") } else { cut("\n") };
        let (i, j) = (at.index(parts.len()), other.index(parts.len()));
        match how % 3 {
            0 => drop(parts.remove(i)),
            1 => parts.insert(i, parts[i].clone()),
            _ => parts[i] = parts[j].clone(),
        }
        if let Ok(m) = parse(FileId(0), &parts.concat()) {
            verify(&m);
            let printed = print(&m, &PrintOptions { locs: false });
            let again = parse(FileId(0), &printed);
            prop_assert!(again.is_ok_and(|n| equivalent(&m, &n)), "{}", printed);
        }
    }

    #[test]
    fn any_text_is_read_or_refused(text in "(kir 1\n)?([a-z %@#`\"\\[\\]();:0-9.-]{0,12}\n){0,6}.{0,20}") {
        if let Ok(m) = parse(FileId(0), &text) {
            verify(&m);
        }
        let _ = parse_expr(FileId(0), &text);
    }
}

/// Texts that try to exhaust the stack are rejected.
#[test]
fn deep_texts_are_refused() {
    let deep = format!("{}1{}", "(".repeat(100_000), ")".repeat(100_000));
    let long = vec!["r"; 100_000].join(" + ");
    let minus = "-".repeat(100_000) + "r";
    for text in [deep, long, minus] {
        let codes: Vec<_> = parse_expr(FileId(0), &text).unwrap_err().list.iter().map(|d| d.code).collect();
        assert_eq!(codes, ["E316"]);
    }
    let mut nested = String::from("kir 1\nmodule @m\nmesh tp 4\nschedule calls none\nregion @r local\n");
    for i in 1..2000 {
        nested += &format!("{}if 1\n", " ".repeat(i));
    }
    assert!(parse(FileId(0), &nested).unwrap_err().list.iter().any(|d| d.title.contains("indentation")));
    let tower = format!("kir 1\nmodule @m\nmesh tp 4\nkernel @f(x) = {}x\ngraph\n", "abs(".repeat(50_000));
    assert_eq!(parse(FileId(0), &tower).unwrap_err().list[0].code, "E316");
}
