//! Tests of the verifier and of parse errors: files in `kir/bad` with the errors marked on their
//! lines, and modules that no text can express.

use kbc_diag::{Diagnostics, FileId, SourceMap};
use kbc_ir::graph::{CollKind, Collective, Graph, GraphOp, OpKind};
use kbc_ir::module::{Body, Module, Props};
use kbc_ir::schedule::*;
use kbc_ir::text::{PrintOptions, parse, print};
use kbc_ir::types::{Axis, DType, Mesh, TensorType};
use kbc_ir::verify::verify;
use kbc_ir::{Expr, Name};

/// Returns the errors of a text: the parser's, or else the verifier's.
fn errors(text: &str) -> Diagnostics {
    match parse(FileId(0), text) {
        Ok(m) => verify(&m),
        Err(d) => d,
    }
}

/// Returns the expected errors of a text from its marks `;~ CODE "text"`, as (line, code, text);
/// line 0 means no place.
fn marks(text: &str) -> Vec<(usize, String, String)> {
    let mut out = vec![];
    for (i, line) in text.lines().enumerate() {
        for mark in line.split(";~").skip(1) {
            let (code, rest) = mark.trim().split_once(' ').expect("a mark is ;~ CODE \"text\"");
            let words = rest.trim().trim_matches('"');
            let whole = line.trim_start().starts_with(";~");
            out.push((if whole { 0 } else { i + 1 }, code.to_string(), words.to_string()));
        }
    }
    out
}

#[test]
fn bad_files_fail_where_they_say() {
    let mut wrong: Vec<String> = vec![];
    let mut files: Vec<_> = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../ir/tests/kir/bad"))
        .unwrap()
        .map(|e| e.unwrap().path())
        .collect();
    files.sort();
    assert!(!files.is_empty());
    for path in files {
        let name = path.file_name().unwrap().display().to_string();
        let text = std::fs::read_to_string(&path).unwrap();
        let mut map = SourceMap::default();
        map.add(&name, &text);
        let mut want = marks(&text);
        if want.is_empty() {
            wrong.push(format!("{name} expects nothing"));
        }
        for d in &errors(&text).list {
            let line = map.line_col(d.span()).map_or(0, |l| l.0);
            let at =
                want.iter().position(|(l, c, t)| *l == line && c == d.code && d.title.contains(t.as_str()));
            match at {
                Some(i) => drop(want.remove(i)),
                None => {
                    wrong.push(format!("{name}:{line}: not expected: {} {} {:?}", d.code, d.title, d.help))
                }
            }
        }
        wrong.extend(want.iter().map(|(l, c, t)| format!("{name}:{l}: not found: {c} {t}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn good_files_are_well_formed() {
    insta::glob!("kir/{good,graph,forms}/*.kir", |path| {
        let text = std::fs::read_to_string(path).unwrap();
        let found = errors(&text);
        assert!(found.is_empty(), "{}: {:#?}", path.display(), found.list);
    });
}

fn mesh(size: u64) -> Mesh {
    Mesh { axes: vec![Axis { name: "tp".into(), size, parts: vec![] }] }
}

fn module(body: Body, props: Props) -> Module {
    let mesh = match &body {
        Body::Schedule(s) => s.mesh.clone(),
        Body::Graph(_) | Body::Local(_) => mesh(4),
    };
    Module { name: "m".into(), machine: None, mesh, body, props, attributes: Default::default() }
}

fn codes(m: &Module) -> Vec<&'static str> {
    verify(m).list.iter().map(|d| d.code).collect()
}

/// Ids that refer to nothing cannot be written as text, because the parser rejects them. Printing
/// them does not fail either.
#[test]
fn ids_of_nothing_are_refused() {
    let chunk = || Ref::Chunk { operand: OperandId(7), path: vec![] };
    let slot = Ref::Slot { window: WindowId(3), slot: Expr::Int(0) };
    let span = kbc_diag::Span::NONE;
    let body = vec![
        SStmt::Op(SOp::Copy { dst: chunk(), src: slot }, span),
        SStmt::Op(
            SOp::Wait { counter: Counter { signal: SignalId(2), index: Expr::Int(0) }, value: Expr::Int(1) },
            span,
        ),
        SStmt::Op(SOp::Local(LocalOp::Copy { dst: BufferId(5), src: BufferId(6) }), span),
    ];
    let mut s = Schedule::new("m", mesh(4));
    let all = |body| Role {
        name: "all".into(),
        ranks: RankSet::All,
        streams: vec![Stream { name: MAIN.into(), body }],
    };
    s.regions.push(Region {
        name: "r".into(),
        over: vec!["tp".into()],
        coords: vec![("r".into(), 4)],
        operands: vec![],
        contract: None,
        label: None,
        after: vec![RegionId(9)],
        roles: vec![all(body)],
        span,
    });
    let m = module(Body::Schedule(s), Props::NONE);
    assert_eq!(codes(&m), ["E321"; 5]);
    assert!(parse(FileId(0), &print(&m, &PrintOptions::default())).is_err());
}

#[test]
fn another_mesh_than_the_modules_is_refused() {
    let mut m = module(Body::Schedule(Schedule::new("m", mesh(4))), Props::NONE);
    assert_eq!(codes(&m), [""; 0]);
    m.mesh = mesh(5);
    assert_eq!(codes(&m), ["E321"]);
}

/// A removed operation leaves its users without an operand.
#[test]
fn operands_that_were_removed_are_missed() {
    let mut g = Graph::default();
    let op = |kind, name: &str| GraphOp {
        kind,
        name: name.into(),
        ty: Some(TensorType::replicated(DType::F32, &[8])),
        want: None,
        span: kbc_diag::Span::NONE,
    };
    let a = g.push(op(OpKind::Demand, "a"), &[]);
    let c = Collective {
        kind: CollKind::AllReduce,
        own: None,
        red: None,
        axis: Name::from("tp"),
        joined: vec![],
        dim: Some(0),
        from_dim: None,
        root: Some(0),
        counts: None,
        using: None,
        stream: None,
        explicit: true,
        fixed_order: false,
    };
    let b = g.push(op(OpKind::Collective(c), "b"), &[a]);
    g.push(op(OpKind::Output(0), "c"), &[b]);
    g.remove(a);
    assert_eq!(codes(&module(Body::Graph(g), Props::NONE)), ["E322"]);
}

/// Messages name the nearest existing name, or list the existing ones.
#[test]
fn help_names_what_was_meant() {
    let text = |line: &str| {
        format!(
            "kir 1\nmodule @m\nmesh tp 4\nschedule calls none\nbuffer %line : f32[4] hbm temp\n\
             buffer %out : f32[4] hbm temp\nregion @a local\n  role all\n    stream main\n      {line}\n"
        )
    };
    for (line, help) in [
        ("copy %out = %lien", "did you mean `%line`?"),
        ("copy %out = %zz", "one of: %line, %out"),
        ("unpak %out = %line dim 0 parts 2", "did you mean `unpack`?"),
        ("keep_part %out = %line dim 0 part pt of 4", "did you mean `tp`?"),
    ] {
        let found = errors(&text(line)).list;
        assert_eq!(found.len(), 1, "{line}: {found:?}");
        assert_eq!(found[0].help.as_deref(), Some(help), "{line}");
    }
}
