//! Elementwise functions as straight-line programs of vector instructions.
//!
//! The module decides which instructions a function becomes, in which order, and in how many
//! registers. `functions` does so for functions without an instruction of their own. A register
//! is a tile of the compute type, which is f32 for f32, f16 and bf16, and i32 for i32. The caller
//! loads, converts and stores.
//!
//! Values are those of `docs/reference/numbers.md`: every operation rounds to f32, in the order in
//! which it is written, and numbers are first rounded to the operands' type. A function without
//! libm functions is exact to the bit, with two reservations, because no document states what the
//! instructions do: `max` and `min` of NaN, and of zeros of different sign, are those of the core.

mod build;
mod functions;

use kbc_diag::Diagnostic;
use kbc_ir::scalar::ScalarFn;
use kbc_ir::types::DType;
use std::collections::BTreeMap;

pub use crate::lower::chain::{Arg, Bound, Chain, Reg, Step, round};
pub use functions::bound;

use build::{Build, COMPARISONS, LONGEST, Node, Operand, R};

/// Returns the instructions of a function on elements of a type. `integers`: the core divides
/// integers by numbers, and compares integers.
///
/// # Errors
/// Returns E451 for a type that cannot be computed with, an operation of i32 that the core does not
/// have, a number that is not an i32, a parameter that the function does not have, or more
/// instructions than `LONGEST`.
pub fn chain(func: &ScalarFn, dtype: DType, integers: bool) -> Result<Chain, Diagnostic> {
    make(func, dtype, integers).map_err(|d| *d)
}

fn make(func: &ScalarFn, dtype: DType, integers: bool) -> R<Chain> {
    let mut b = Build { func, dtype, integers, nodes: vec![], known: BTreeMap::new(), inexact: vec![] };
    if !dtype.reduces() {
        return Err(b.refused(format!("kbc can only move {dtype}"), "convert the operands first"));
    }
    (0..func.params.len()).for_each(|i| {
        b.node(Node::Param(i));
    });
    let value = b.expr(&func.body)?;
    let result = b.id(value)?;
    if b.nodes.len() > LONGEST {
        let why = format!("it needs {} instructions (limit: {LONGEST})", b.nodes.len());
        return Err(b.refused(why, "split it into several kernels"));
    }
    let compute = if dtype.is_float() { DType::F32 } else { dtype };
    let (steps, result, registers) = allocate(&b.nodes, func.params.len(), result);
    b.inexact.sort();
    b.inexact.dedup();
    Ok(Chain {
        compute,
        params: func.params.len(),
        mask: steps.iter().any(|s| matches!(s, Step::Select { .. })),
        steps,
        result,
        registers,
        exact: b.inexact.is_empty(),
        inexact: b.inexact,
    })
}

/// Assigns registers to values. A register is free after the last use of its value, and a result
/// may take the register of an operand.
fn allocate(nodes: &[Node], params: usize, result: usize) -> (Vec<Step>, Reg, usize) {
    let reads = |n: &Node| -> Vec<usize> {
        match n {
            Node::Param(_) => vec![],
            Node::Vector(_, args) => {
                args.iter().filter_map(|a| if let Operand::Id(i) = a { Some(*i) } else { None }).collect()
            }
            Node::Select(_, ids) => ids.to_vec(),
        }
    };
    // Values that the result depends on, each with the last node that reads it.
    let mut last: Vec<Option<usize>> = vec![None; nodes.len()];
    last[result] = Some(nodes.len());
    for i in (0..nodes.len()).rev().filter(|i| *i <= result) {
        if last[i].is_some() {
            for r in reads(&nodes[i]) {
                last[r].get_or_insert(i);
            }
        }
    }
    let mut free: Vec<Reg> = (0..params).filter(|p| last[*p].is_none()).collect();
    let mut place: Vec<Reg> = (0..nodes.len()).collect();
    let mut registers = params;
    let mut steps = vec![];
    for (i, node) in nodes.iter().enumerate().skip(params).filter(|(i, _)| last[*i].is_some()) {
        for r in reads(node) {
            if last[r] == Some(i) && !free.contains(&place[r]) {
                free.push(place[r]);
            }
        }
        free.sort_unstable_by(|a, b| b.cmp(a));
        let dst = free.pop().unwrap_or_else(|| {
            registers += 1;
            registers - 1
        });
        let arg = |a: &Operand| match a {
            Operand::Id(r) => Arg::Reg(place[*r]),
            Operand::Num(bits) => Arg::Num(f64::from_bits(*bits)),
        };
        steps.push(match node {
            Node::Param(_) => continue,
            Node::Vector(op, args) => Step::Vector { op: *op, dst, args: args.iter().map(arg).collect() },
            Node::Select(cmp, [a, b, x, y]) => Step::Select {
                cmp: COMPARISONS[usize::from(*cmp)],
                dst,
                a: place[*a],
                b: place[*b],
                x: place[*x],
                y: place[*y],
            },
        });
        place[i] = dst;
    }
    (steps, place[result], registers)
}
