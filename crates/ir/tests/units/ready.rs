//! Ready expressions against trees.

use kbc_ir::expr::{BinOp, EvalError, Tree, UnOp};
use kbc_ir::ready::ReadyExpression;
use kbc_ir::resolved::Resolved;
use std::sync::Arc;

const TABLE: [i64; 5] = [3, 0, -7, 1, 2];

fn entry(table: u32, index: i64) -> Result<i64, EvalError> {
    let found = usize::try_from(index).ok().and_then(|i| TABLE.get(i).copied());
    found.filter(|_| table == 0).ok_or_else(|| EvalError::Table("t".into(), index))
}

fn roll(seed: &mut u64, n: u64) -> u64 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*seed >> 33) % n
}

/// Returns a random expression. Parts repeat, because they are taken from `parts`.
fn expression(seed: &mut u64, depth: u64, parts: &mut Vec<Resolved>) -> Resolved {
    let boxed = |seed: &mut u64, parts: &mut Vec<Resolved>| Arc::new(expression(seed, depth - 1, parts));
    let e = match roll(seed, 12) {
        _ if depth == 0 => match roll(seed, 2) {
            0 => Tree::Int(roll(seed, 9) as i64 - 3),
            _ => Tree::Var(roll(seed, 3) as u32),
        },
        0..=2 if !parts.is_empty() => parts[roll(seed, parts.len() as u64) as usize].clone(),
        3 => Tree::Un(UnOp::ALL[roll(seed, 7) as usize], boxed(seed, parts)),
        4 => Tree::Table(0, boxed(seed, parts)),
        5 => Tree::Select(boxed(seed, parts), boxed(seed, parts), boxed(seed, parts)),
        6 => Tree::Bin(BinOp::And, boxed(seed, parts), boxed(seed, parts)),
        7 => Tree::Bin(BinOp::Or, boxed(seed, parts), boxed(seed, parts)),
        _ => Tree::Bin(BinOp::ALL[roll(seed, 20) as usize], boxed(seed, parts), boxed(seed, parts)),
    };
    parts.push(e.clone());
    e
}

/// The code of an expression has its value, and reports what the tree reports.
#[test]
fn code_agrees_with_the_tree() {
    let mut seed = 5;
    let (mut values, mut errors) = (0, 0);
    for _ in 0..20_000 {
        let tree = expression(&mut seed, 5, &mut vec![]);
        let ready = ReadyExpression::from(tree.clone());
        for _ in 0..4 {
            let slots = [0, 1, 2].map(|_| roll(&mut seed, 11) as i64 - 3);
            let slot = |s: &u32| Ok(slots[*s as usize]);
            let expected = tree.evaluate(&slot, &|t, i| entry(*t, i));
            assert_eq!(ready.value(&slots, &entry), expected, "{tree:?} at {slots:?}");
            match expected {
                Ok(_) => values += 1,
                Err(_) => errors += 1,
            }
        }
    }
    assert!(values > 10_000 && errors > 10_000, "{values} values, {errors} errors");
}

/// An operand that the tree skips has no effect, even if another part computes the same value.
#[test]
fn skipped_operands_stay_skipped() {
    let var = |s| Arc::new(Resolved::Var(s));
    let int = |v| Arc::new(Resolved::Int(v));
    // `a / b` has no value where b is 0.
    let ratio = || Arc::new(Tree::Bin(BinOp::Div, var(0), var(1)));
    let safe = Tree::Bin(BinOp::And, Arc::new(Tree::Bin(BinOp::Ne, var(1), int(0))), ratio());
    let chosen = Tree::Select(Arc::new(safe.clone()), ratio(), int(5));
    let sum = ReadyExpression::from(Tree::Bin(BinOp::Add, Arc::new(chosen), Arc::new(safe)));
    assert_eq!(sum.value(&[6, 2], &entry), Ok(4));
    assert_eq!(sum.value(&[6, 0], &entry), Ok(5));
    let after = ReadyExpression::from(Tree::Bin(BinOp::Or, int(1), ratio()));
    assert_eq!(after.value(&[6, 0], &entry), Ok(1));
}

/// Expressions with more parts than the code has room for are evaluated as trees.
#[test]
fn long_expressions_have_values() {
    let mut e = Resolved::Var(0);
    for i in 1..400 {
        e = Tree::Bin(
            BinOp::Add,
            Arc::new(e),
            Arc::new(Tree::Bin(BinOp::Mul, Arc::new(Tree::Var(1)), Arc::new(Tree::Int(i)))),
        );
    }
    assert_eq!(ReadyExpression::from(e).value(&[1, 2], &entry), Ok(1 + 2 * 399 * 400 / 2));
}
