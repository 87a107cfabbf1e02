//! Tests of the syntax tree: precedence, spans, documentation, and forms that are rewritten during
//! construction.

use kbc_diag::{FileId, Span};
use kbc_frontend::ast::{File, Item, OptionValue, Tensor, TensorKind, Use, UseTarget};
use kbc_frontend::parse;
use kbc_rounds::ast::{
    BinaryOp, Block, Expr, ExprKind, FnBody, FnDecl, RemoteSide, SelectorKind, StmtKind, UnaryOp, ViewKind,
};

fn clean(text: &str) -> File {
    let (file, d) = parse(FileId(0), text);
    assert!(d.is_empty(), "{text}\n{d:#?}");
    file
}

fn sign(op: BinaryOp) -> &'static str {
    use BinaryOp::*;
    match op {
        Or => "||",
        And => "&&",
        Eq => "==",
        Ne => "!=",
        Lt => "<",
        Le => "<=",
        Gt => ">",
        Ge => ">=",
        BitOr => "|",
        BitXor => "^",
        BitAnd => "&",
        Shl => "<<",
        Shr => ">>",
        Add => "+",
        Sub => "-",
        Mul => "*",
        Div => "/",
        Rem => "%",
    }
}

/// Prints an expression with all its parentheses.
fn show(e: &Expr) -> String {
    let list = |v: &[Expr]| v.iter().map(show).collect::<Vec<_>>().join(", ");
    match &e.kind {
        ExprKind::Int(n) => n.to_string(),
        ExprKind::Float(x) => format!("{x:?}"),
        ExprKind::Bool(b) => b.to_string(),
        ExprKind::Name(n) => n.clone(),
        ExprKind::Call(f, args) => format!("{}({})", f.node, list(args)),
        ExprKind::Tuple(v) => format!("<{}>", list(v)),
        ExprKind::Unary(UnaryOp::Neg, a) => format!("(-{})", show(a)),
        ExprKind::Unary(UnaryOp::Not, a) => format!("(!{})", show(a)),
        ExprKind::Binary(op, a, b) => format!("({} {} {})", show(a), sign(*op), show(b)),
        ExprKind::If(c, a, b) => format!("if {} [{}] [{}]", show(c), show(a), show(b)),
        ExprKind::Let(lets, e) => {
            let lets: String = lets.iter().map(|(n, v)| format!("{} = {}; ", n.node, show(v))).collect();
            format!("[{lets}{}]", show(e))
        }
        ExprKind::Fold(op, e, gens) => {
            let vars =
                gens.vars.iter().map(|(n, r)| format!("{} in {}..{}", n.node, show(&r.lo), show(&r.hi)));
            let vars: Vec<String> = vars.collect();
            let cond = gens.cond.as_ref().map_or(String::new(), |c| format!(" if {}", show(c)));
            format!("{}({} for {}{cond})", op.word(), show(e), vars.join(", "))
        }
        ExprKind::Error => "error".into(),
    }
}

fn tensor(t: &Tensor) -> String {
    match &t.kind {
        TensorKind::Name(n) => n.clone(),
        TensorKind::Int(n) => n.to_string(),
        TensorKind::Float(x) => format!("{x:?}"),
        TensorKind::Tuple(v) => format!("<{}>", v.iter().map(tensor).collect::<Vec<_>>().join(", ")),
        TensorKind::List(v) => format!("[{}]", v.iter().map(show).collect::<Vec<_>>().join(", ")),
        TensorKind::Neg(a) => format!("(-{})", tensor(a)),
        TensorKind::Binary(op, a, b) => format!("({} {} {})", tensor(a), sign(*op), tensor(b)),
        TensorKind::Call(c) => {
            let named = c.named.iter().map(|n| match &n.value {
                OptionValue::Expr(e) => format!("{}: {}", n.name.node, show(e)),
                OptionValue::Use(Use { alg: f, args, options, .. }) => {
                    let args = args
                        .iter()
                        .map(|(k, e)| format!("{}={}", k.node, show(e)))
                        .collect::<Vec<_>>()
                        .join(", ");
                    let with = options
                        .iter()
                        .map(|(k, e)| format!(" with {}={}", k.node, show(e)))
                        .collect::<String>();
                    format!("{}: {}{{{args}}}{with}", n.name.node, f.node)
                }
                OptionValue::Rows(rows) => {
                    let row = |r: &Vec<_>| r.iter().map(show).collect::<Vec<_>>().join(", ");
                    let rows: Vec<String> = rows.iter().map(|r| format!("[{}]", row(&r.node))).collect();
                    format!("{}: [{}]", n.name.node, rows.join(", "))
                }
                OptionValue::List(v) => {
                    format!("{}: [{}]", n.name.node, v.iter().map(show).collect::<Vec<_>>().join(", "))
                }
            });
            format!(
                "{}({})",
                c.name.node,
                c.args.iter().map(tensor).chain(named).collect::<Vec<_>>().join(", ")
            )
        }
        TensorKind::Index(n, index) => {
            format!("{}@[{}]", n.node, index.iter().map(show).collect::<Vec<_>>().join(", "))
        }
        TensorKind::If(c, a, b) => format!("if {} [{}] [{}]", show(c), tensor(a), tensor(b)),
        TensorKind::Block(lets, t) => {
            let lets = lets.iter().map(|l| format!("{} = {}; ", l.names[0].node, tensor(&l.value)));
            format!("[{}{}]", lets.collect::<String>(), tensor(t))
        }
        TensorKind::Error => "error".into(),
    }
}

#[test]
fn expressions() {
    for (text, expected) in [
        ("a - b - c", "((a - b) - c)"),
        ("a + b * c % d / e", "(a + (((b * c) % d) / e))"),
        ("j >> k & 1 == 1", "(((j >> k) & 1) == 1)"),
        ("v - lowbit(v) | 2*lowbit(v)", "((v - lowbit(v)) | (2 * lowbit(v)))"),
        ("a | b ^ c & d << 1 + 2", "(a | (b ^ (c & (d << (1 + 2)))))"),
        ("a || b && c == d || e", "((a || (b && (c == d))) || e)"),
        ("-a * !b - -1", "(((-a) * (!b)) - (-1))"),
        ("((a))", "a"),
        ("(x + 1, y)", "<(x + 1), y>"),
        ("if a < 1 { 2 } else { if b { 3 } else { 4 } } + 1", "(if (a < 1) [2] [if b [3] [4]] + 1)"),
        ("f() + g(1, (2, 3)) * mesh(2)", "(f() + (g(1, <2, 3>) * mesh(2)))"),
        ("true && 1.5 < 2", "(true && (1.5 < 2))"),
        ("u & -u", "(u & (-u))"),
        ("{ let b = 1; let c = b + a; b * c }", "[b = 1; c = (b + a); (b * c)]"),
        ("if a { let b = 1; b } else { 2 }", "if a [[b = 1; b]] [2]"),
        ("sum(i * a for i in 0..4, j in 0..i if i > j)", "sum((i * a) for i in 0..4, j in 0..i if (i > j))"),
        ("max(1, 2) + max(i for i in 0..2)", "(max(1, 2) + max(i for i in 0..2))"),
        ("lib.f(lib.sub.x - 1) + lib.n", "(lib.f((lib.sub.x - 1)) + lib.n)"),
    ] {
        let file = clean(&format!("fn f(a) = {text}"));
        let Some(Item::Function(FnDecl { body: FnBody::Expr(body), .. })) = file.items.first() else {
            panic!("{file:?}")
        };
        assert_eq!(show(body), expected, "{text}");
        assert_eq!(body.span, Span::new(FileId(0), 10, 10 + text.len()), "{text}");
    }
}

#[test]
fn uses() {
    for (text, expected) in [
        ("use \"a.kb\"", "file a.kb"),
        ("use \"a.kb\" as a", "file a.kb as a"),
        ("use \"a.kb\" as as", "file a.kb as as"),
        ("use collectives", "module collectives"),
        ("use collectives.ring", "module collectives.ring"),
        ("use collectives.ring as r fn f(x) = x", "module collectives.ring as r"),
    ] {
        let file = clean(text);
        let Some(Item::Use(u)) = file.items.first() else { panic!("{file:?}") };
        let what = match &u.what {
            UseTarget::File(path) => format!("file {}", path.node),
            UseTarget::Module(name) => format!("module {}", name.node),
        };
        let name = u.name.as_ref().map_or(String::new(), |n| format!(" as {}", n.node));
        assert_eq!(format!("{what}{name}"), expected);
    }
}

#[test]
fn tensors() {
    for (text, expected) in [
        ("a + b * c - d", "((a + (b * c)) - d)"),
        ("-(a + b) * c < d", "(((-(a + b)) * c) < d)"),
        ("(a, (b), (c, d))", "<a, b, <c, d>>"),
        ("f16(x)", "f16(x)"),
        ("sum(x, dim: 0)", "sum(x, dim: 0)"),
        (
            "all_reduce(y, sum, over: tp, using: ring(d: -1) with (pipeline: 4))",
            "all_reduce(y, sum, over: tp, using: ring{d=(-1)} with pipeline=4)",
        ),
        ("all_reduce(y, over: (x, y), using: ring)", "all_reduce(y, over: <x, y>, using: ring)"),
        ("permute(x, pairs: [(0, 1)], from: d, to: e)", "permute(x, pairs: [<0, 1>], from: d, to: e)"),
        ("reshape(x, [S, 12, D / 12])", "reshape(x, [S, 12, (D / 12)])"),
        ("load + store * zeros(dot)", "(load + (store * zeros(dot)))"),
        ("f(w[l]) + v[2 * l - 1, e] * sum[0]", "(f(w@[l]) + (v@[((2 * l) - 1), e] * sum@[0]))"),
        ("lib.relu(x, lib.n) * lib.m", "(lib.relu(x, lib.n) * lib.m)"),
        (
            "all_reduce(y, sum, using: collectives.ring(inside: lib.chain) with (pipeline: 4))",
            "all_reduce(y, sum, using: collectives.ring{inside=lib.chain} with pipeline=4)",
        ),
    ] {
        let file = clean(&format!("program f(x: f32) -> f32 {{ {text} }}"));
        let Some(Item::Program(p)) = file.items.first() else { panic!("{file:?}") };
        assert_eq!(tensor(&p.body.result), expected, "{text}");
        assert_eq!(p.body.result.span, Span::new(FileId(0), 27, 27 + text.len()), "{text}");
    }
}

#[test]
fn a_let_ends_where_the_result_begins() {
    for (text, lets, result) in [
        ("let a = x b", 1, "b"),
        ("let a = x; (b)", 1, "b"),
        ("let a = x; -b", 1, "(-b)"),
        ("let a = f(x) g(a) - 1;", 1, "(g(a) - 1)"),
        ("let a = x let (b, c): f32[4] = a b * c", 2, "(b * c)"),
        ("x", 0, "x"),
        ("-x", 0, "(-x)"),
        ("let a = x return (b)", 1, "b"),
        ("let a = x return -b;", 1, "(-b)"),
        ("let a = x; return (a, b)", 1, "<a, b>"),
        ("return x", 0, "x"),
        ("for i in 0..2 { let a = x y = f(a) y = a; } return y", 1, "y"),
        ("let a = x for i in 0..2 { a = f(a) b = a[i] } a", 1, "a"),
        (
            "let a = { let b = x; let c = b; c } if 1 < 2 { let d = a; -d } else { a }",
            4,
            "if (1 < 2) [[d = a; (-d)]] [a]",
        ),
    ] {
        let file = clean(&format!("program f(x: f32) -> f32 {{ {text} }}"));
        let Some(Item::Program(p)) = file.items.first() else { panic!("{file:?}") };
        assert_eq!((p.body.lets().len(), tensor(&p.body.result).as_str()), (lets, result), "{text}");
    }
    // Without `;` these are one expression, and then there is no result.
    for text in ["let a = x (b)", "let a = x -b", "for i in 0..2 { return x } x", "return x; return x"] {
        let (_, d) = parse(FileId(0), &format!("program f(x: f32) -> f32 {{ {text} }}"));
        assert!(d.has_errors(), "{text}");
    }
}

fn body(text: &str) -> Block {
    let file = clean(&format!("algorithm a: all_gather over (r mod p) {{ {text} }}"));
    match file.items.into_iter().next() {
        Some(Item::Algorithm(a)) => a.body,
        other => panic!("{other:?}"),
    }
}

#[test]
fn places() {
    for (text, expected) in [
        ("put [r] -> r + 1", "rank (r + 1)"),
        ("put [r] -> [r]", "slice 1 -"),
        ("put [r] -> t[..][0 of 2] at r + 1 reduce", "slice 2 (r + 1)"),
        ("get t[r] <- t", "rank t"),
        ("put [r] -> (x, y)", "rank <x, y>"),
    ] {
        let b = body(text);
        let StmtKind::Move { there, get, reduce, .. } = &b.stmts[0].kind else { panic!("{b:?}") };
        let shown = match there {
            RemoteSide::Rank(e) => format!("rank {}", show(e)),
            RemoteSide::Slice(s, at) => {
                format!("slice {} {}", s.selectors.len(), at.as_ref().map_or("-".into(), show))
            }
        };
        assert_eq!(shown, expected, "{text}");
        assert_eq!((*get, *reduce), (text.starts_with("get"), text.ends_with("reduce")), "{text}");
    }
}

#[test]
fn selectors_and_views() {
    let b = body("put [r; 2 for i in 0..p, j in 0..i if i != j of 2*p][..] -> r");
    let StmtKind::Move { here, .. } = &b.stmts[0].kind else { panic!("{b:?}") };
    let SelectorKind::Part { index, len: Some(len), gens: Some(g), of: Some(of) } = &here.selectors[0].kind
    else {
        panic!("{here:?}")
    };
    assert_eq!(
        (show(index), show(len), g.vars.len(), g.cond.as_ref().map(show), show(&of.n)),
        ("r".into(), "2".into(), 2, Some("(i != j)".into()), "(2 * p)".into())
    );
    assert_eq!(here.selectors[1].kind, SelectorKind::All);
    for (view, axes, mapped) in [
        ("x", 1, false),
        ("(x, y)", 2, false),
        ("(v of m -> 2*v)", 1, true),
        ("(l of g, n of p / g -> n*g + l)", 2, true),
    ] {
        let b = body(&format!("apply reduce to c over {view} using t(d: -1, tree: b) on src[..] -> dst[..]"));
        let StmtKind::Apply(a) = &b.stmts[0].kind else { panic!("{b:?}") };
        let found = match &a.view.kind {
            ViewKind::Axes(n) => (n.len(), false),
            ViewKind::Map(n, _) => (n.len(), true),
        };
        assert_eq!(found, (axes, mapped), "{view}");
        assert_eq!((a.coll.node.as_str(), a.args.len(), a.to.is_some()), ("reduce", 2, true));
    }
}

#[test]
fn else_if_is_a_block_with_one_statement() {
    let b = body("if a { } else if b { put [r] -> r } else together { }");
    let StmtKind::If(_, _, Some(e)) = &b.stmts[0].kind else { panic!("{b:?}") };
    let StmtKind::If(_, then, Some(last)) = &e.stmts[0].kind else { panic!("{b:?}") };
    assert_eq!((e.stmts.len(), then.stmts.len(), last.together), (1, 1, true));
}

#[test]
fn documentation_and_heads() {
    let text = "/// First.\n/// Second.\nalgorithm a(d = 1, t = ring): reduce to (u, v) over (x of w, y mod h) chunks 4 where w > 1 together { }\n\
                /// A program.\nprogram f(x: f32) -> f32 { x }\n/// A kernel.\nkernel k(x) = x\n\
                fn g() = 1\n/// A promise.\ncollective c from r over (q of p) on v[p][n] { }";
    let file = clean(text);
    let docs: Vec<_> = file
        .items
        .iter()
        .map(|i| match i {
            Item::Algorithm(a) => a.doc.as_str(),
            Item::Program(p) => p.doc.as_str(),
            Item::Kernel(k) => k.doc.as_str(),
            Item::Function(f) => f.doc.as_str(),
            Item::Collective(c) => c.doc.as_str(),
            _ => "?",
        })
        .collect();
    assert_eq!(docs, ["First.\nSecond.", "A program.", "A kernel.", "", "A promise."]);
    let Item::Algorithm(a) = &file.items[0] else { panic!() };
    let cut = |s: Span| &text[s.start as usize..s.end as usize];
    assert!(cut(a.head).starts_with("algorithm a(") && cut(a.head).ends_with("where w > 1"));
    assert!(cut(a.span).ends_with("together { }"));
    assert_eq!(a.axes.iter().map(|x| x.wraps).collect::<Vec<_>>(), [false, true]);
    assert_eq!(a.root.as_ref().map(|(from, names)| (*from, names.len())), Some((false, 2)));
}
