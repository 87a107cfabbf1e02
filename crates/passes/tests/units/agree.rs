//! Agreement of the two domains: the symbolic value of an expression, at a rank, is its concrete
//! value on that rank.

use kbc_diag::Span;
use kbc_ir::Name;
use kbc_passes::testing::symbolic_number;
use kbc_rounds::ast::{BinaryOp, Expr, ExprKind, FoldOp, Gens, Ident, Range, UnaryOp};
use kbc_rounds::eval::{self, ListScope, Value};
use kbc_rounds::library::Library;

/// A sequence of pseudo-random numbers.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % n
    }
}

fn of(kind: ExprKind) -> Expr {
    Expr { kind, span: Span::NONE }
}

/// Returns a random number over the rank `r`.
fn number(x: &mut Numbers, depth: usize) -> Expr {
    if depth == 0 || x.below(5) == 0 {
        return of(match x.below(2) {
            0 => ExprKind::Name("r".into()),
            _ => ExprKind::Int(x.below(9) as i64),
        });
    }
    let a = number(x, depth - 1);
    let call = |name: &str, args| ExprKind::Call(Ident::new(name.to_owned(), Span::NONE), args);
    let ops = [
        BinaryOp::Add,
        BinaryOp::Sub,
        BinaryOp::Mul,
        BinaryOp::Div,
        BinaryOp::Rem,
        BinaryOp::BitAnd,
        BinaryOp::BitOr,
        BinaryOp::BitXor,
    ];
    of(match x.below(11) {
        // A sum over a constant range, whose terms and condition may depend on the rank.
        10 => {
            let range = Range { lo: of(ExprKind::Int(0)), hi: of(ExprKind::Int(x.below(4) as i64)) };
            let i = Ident::new("i".to_owned(), Span::NONE);
            let times = ExprKind::Binary(
                BinaryOp::Mul,
                Box::new(of(ExprKind::Name("i".into()))),
                Box::new(number(x, depth - 1)),
            );
            let cond = (x.below(2) == 0).then(|| truth(x, depth - 1));
            let op = FoldOp::ALL[x.below(3)];
            ExprKind::Fold(op, Box::new(of(times)), Box::new(Gens { vars: vec![(i, range)], cond }))
        }
        9 => {
            let name = Ident::new("a".to_owned(), Span::NONE);
            let twice = ExprKind::Binary(
                ops[x.below(3)],
                Box::new(of(ExprKind::Name("a".into()))),
                Box::new(of(ExprKind::Name("a".into()))),
            );
            ExprKind::Let(vec![(name, a)], Box::new(of(twice)))
        }
        // The IR has no value for shifts by 64 or more; the language has.
        8 => {
            let op = [BinaryOp::Shl, BinaryOp::Shr][x.below(2)];
            let by = ExprKind::Int(x.below(9) as i64);
            ExprKind::Binary(op, Box::new(a), Box::new(of(by)))
        }
        0 => ExprKind::Unary(UnaryOp::Neg, Box::new(a)),
        1 => call(["log2", "ceil_log2", "abs", "sign", "popcount"][x.below(5)], vec![a]),
        2 => call(["min", "max", "ceil_div", "pow"][x.below(4)], vec![a, number(x, depth - 1)]),
        3 => {
            let c = truth(x, depth - 1);
            ExprKind::If(Box::new(c), Box::new(a), Box::new(number(x, depth - 1)))
        }
        _ => ExprKind::Binary(ops[x.below(ops.len())], Box::new(a), Box::new(number(x, depth - 1))),
    })
}

/// Returns a random truth value over the rank `r`.
fn truth(x: &mut Numbers, depth: usize) -> Expr {
    let a = number(x, depth);
    let ops = [BinaryOp::Eq, BinaryOp::Ne, BinaryOp::Lt, BinaryOp::Le, BinaryOp::Gt, BinaryOp::Ge];
    let compared = of(ExprKind::Binary(ops[x.below(6)], Box::new(a), Box::new(number(x, depth))));
    match x.below(3) {
        0 if depth > 0 => {
            let op = [BinaryOp::And, BinaryOp::Or][x.below(2)];
            of(ExprKind::Binary(op, Box::new(compared), Box::new(truth(x, depth - 1))))
        }
        1 => of(ExprKind::Unary(UnaryOp::Not, Box::new(compared))),
        _ => compared,
    }
}

#[test]
fn symbolic_values_are_the_concrete_ones_on_every_rank() {
    let lib = Library::new();
    let r = Name::from("r");
    let mut x = Numbers(1);
    let (mut compared, mut faults) = (0, 0);
    for _ in 0..4000 {
        let e = number(&mut x, 3);
        let concrete: Vec<Option<i64>> = (0..5)
            .map(|rank| {
                let scope = ListScope(vec![("r".to_owned(), Value::Int(rank))]);
                match eval::eval(&e, &scope, &lib) {
                    Ok(Value::Int(v)) => Some(v),
                    Ok(other) => panic!("{other} is no number"),
                    Err(_) => None,
                }
            })
            .collect();
        let value = match symbolic_number(&lib, &e, &r) {
            Ok(Some(value)) => value,
            // What has no symbolic form is left to the concrete one. An error must be one.
            Ok(None) => continue,
            Err(d) => {
                assert!(concrete.iter().any(Option::is_none), "{}: {e:?}", d.title);
                faults += 1;
                continue;
            }
        };
        for (rank, wanted) in (0..).zip(concrete) {
            if let Some(wanted) = wanted {
                let found = value.eval(&|n: &Name| (*n == r).then_some(rank));
                assert_eq!(found, Ok(wanted), "on rank {rank}: {value} for {e:?}");
                compared += 1;
            }
        }
    }
    assert!(compared > 5000 && faults > 10, "{compared} values, {faults} faults");
}
