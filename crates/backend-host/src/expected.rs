//! Expected values: the value of every element of a result in C, from the *definition* of the
//! program, never from schedule or layout.
//!
//! An element of a result is an element of an input, combined over the ranks that contribute to it.
//! Where a collective moves blocks (one that a contract defines, and an exchange of rows by a
//! matrix of counts), a table for each number of ranks says which blocks of the operand a block of
//! the result holds. The tables have rows of equal steps, so that a rotation has two rows on any
//! number of ranks. Programs that compute have a definition instead ([`crate::definition`]).

use kbc_diag::Diagnostic;
use kbc_ir::collective::CollKind;
use kbc_ir::graph::{GraphOp, OpId, OpKind};
use kbc_ir::types::ReduceOp;
use kbc_tiles::package::golden::exchanged;
use kbc_tiles::package::{MovedBlock, MovedBlocks, PackagedProgram, refused};
use std::collections::BTreeMap;
use std::fmt::Write;

/// The values of the results, at any size.
pub struct Expected {
    moves: Vec<Moves>,
    /// The value of each result.
    results: BTreeMap<usize, Value>,
}

/// A value of the program.
#[derive(Clone, Copy)]
enum Value {
    Input(usize),
    /// What a collective that moves blocks makes of its operand, by number.
    Moved(usize),
}

impl Value {
    /// Its number in C (`kbc_value`).
    fn number(self) -> i64 {
        let int = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
        match self {
            Value::Input(at) => int(at),
            Value::Moved(at) => -1 - int(at),
        }
    }
}

/// A collective that moves blocks.
pub struct Moves {
    operand: Value,
    dim: usize,
    source: MoveSource,
}

impl Moves {
    /// Returns the collective that the contract number `at` of a program defines, along `dim`.
    pub fn of_contract(dim: usize, at: usize) -> Moves {
        Moves { operand: Value::Input(0), dim, source: MoveSource::Contract(at) }
    }
}

/// Where the blocks that a collective moves are stated.
enum MoveSource {
    /// In the description of the program, for each number of ranks: which of the collectives by
    /// contract it is.
    Contract(usize),
    /// Here, for the only number of ranks.
    Rows(MovedBlocks),
}

impl Expected {
    /// Finds the values of a program.
    ///
    /// # Errors
    /// Returns E457 for an operation that computes.
    pub fn of(program: &PackagedProgram) -> Result<Expected, Diagnostic> {
        let graph = &program.graph;
        let mut values: BTreeMap<OpId, Value> = BTreeMap::new();
        let mut out = Expected { moves: vec![], results: BTreeMap::new() };
        let mut contracts = 0;
        for &id in graph.order() {
            let op = graph.op(id);
            let operand = || {
                let first = graph.operands(id).first().and_then(|o| values.get(o)).copied();
                first.ok_or_else(|| no_value(op, "it has no operand"))
            };
            let value = match &op.kind {
                OpKind::Input(at) => Value::Input(*at),
                OpKind::Collective(c) if c.counts.is_some() => {
                    let rows = rows(&exchanged(c.counts.as_ref()));
                    out.moved(Moves { operand: operand()?, dim: 0, source: MoveSource::Rows(rows) })
                }
                OpKind::Collective(c) if c.kind == CollKind::ByContract => {
                    let dim = c.dim.ok_or_else(|| no_value(op, "its dimension is not known"))?;
                    contracts += 1;
                    let source = MoveSource::Contract(contracts - 1);
                    out.moved(Moves { operand: operand()?, dim, source })
                }
                OpKind::Collective(_) | OpKind::Demand | OpKind::PartialDemand(_) | OpKind::Wait => {
                    operand()?
                }
                OpKind::Output(at) => {
                    out.results.insert(*at, operand()?);
                    continue;
                }
                OpKind::Matmul { .. }
                | OpKind::Map(_)
                | OpKind::ReduceDim { .. }
                | OpKind::Cast(_)
                | OpKind::Embedding
                | OpKind::Grouped(_)
                | OpKind::Tiles(_)
                | OpKind::Fill(_)
                | OpKind::Shape(_)
                | OpKind::Host(_) => return Err(no_value(op, "it computes")),
            };
            values.insert(id, value);
        }
        Ok(out)
    }

    fn moved(&mut self, moves: Moves) -> Value {
        self.moves.push(moves);
        Value::Moved(self.moves.len() - 1)
    }

    /// Returns the collectives that move blocks, in order.
    pub fn moved_by(&self) -> &[Moves] {
        &self.moves
    }

    /// Prints the function that returns an element of a result.
    pub fn function(&self, name: &str) -> String {
        let mut out = format!(
            "static double {name}_expected(const struct kbc_run *run, int result, const int64_t *at) {{\n    \
             switch (result) {{\n"
        );
        for (result, value) in &self.results {
            let _ = writeln!(out, "    case {result}: return kbc_value(run, {}, at);", value.number());
        }
        out + "    default: return NAN;\n    }\n}\n"
    }
}

/// Prints the tables of what moves, and the statements that choose them by `nranks`.
///
/// # Errors
/// Returns E457 if a number of ranks has no table.
pub fn tables(
    moves: &[Moves],
    program: &PackagedProgram,
    name: &str,
    ranks: &[u64],
) -> Result<(String, String), Diagnostic> {
    let (mut tables, mut chosen) = (String::new(), String::new());
    if moves.is_empty() {
        return Ok((tables, chosen));
    }
    for r in ranks {
        let mut all = String::new();
        for (i, m) in moves.iter().enumerate() {
            let blocks = match &m.source {
                MoveSource::Rows(rows) => Some(rows),
                MoveSource::Contract(at) => program.moved.get(r).and_then(|all| all.get(*at)),
            };
            let blocks =
                blocks.ok_or_else(|| refused(format!("it is not known what moves between {r} ranks")))?;
            let found = steps(&blocks.named);
            let (rows, table) = (found.len(), format!("{name}_moves_{i}_of_{r}"));
            if rows > 0 {
                let _ = writeln!(tables, "static const struct kbc_move {table}[] = {{");
                found.iter().for_each(|s| tables += &format!("    {},\n", s.print()));
                tables += "};\n";
            }
            let table = if rows > 0 { &table } else { "0" };
            let MovedBlocks { before, after, .. } = blocks;
            let (operand, dim) = (m.operand.number(), m.dim);
            let _ = writeln!(all, "    {{{operand}, {dim}, {before}, {after}, {rows}, {table}}},");
        }
        let _ = write!(tables, "static const struct kbc_moved {name}_moved_{r}[] = {{\n{all}}};\n");
        let _ = writeln!(chosen, "    if (nranks == {r}) out->moved = {name}_moved_{r};");
    }
    Ok((tables, chosen))
}

/// Returns the name of what combines values (`enum kbc_combiner`).
pub fn combiner(op: Option<ReduceOp>) -> &'static str {
    match op {
        None => "KBC_NONE",
        Some(ReduceOp::Sum) => "KBC_SUM",
        Some(ReduceOp::Prod) => "KBC_PROD",
        Some(ReduceOp::Min) => "KBC_MIN",
        Some(ReduceOp::Max) => "KBC_MAX",
    }
}

fn no_value(op: &GraphOp, why: &str) -> Diagnostic {
    refused(format!("`{}` has no expected value: {why}", op.name))
        .primary(op.span, "this operation")
        .help("use --target sim")
}

/// Returns the blocks of an exchange of rows: row `i` of the result is row `order[i]` of the
/// operand.
pub fn rows(order: &[u64]) -> MovedBlocks {
    let n = order.len() as u64;
    let named = (0..n).zip(order).map(|(at, from)| MovedBlock { at, from: vec![*from], combiner: None });
    MovedBlocks { before: n, after: n, named: named.collect() }
}

/// Blocks that a table names in one row: block `at + i * at_step` of the result holds block
/// `from + i * from_step` of the operand, for every `i` below `n`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Steps {
    /// Number of blocks.
    pub n: u64,
    /// First block of the result, and the step to the next one, which is not 0.
    pub at: [i64; 2],
    /// First block of the operand, and the step to the next one.
    pub from: [i64; 2],
    /// What combines the blocks of several rows; None for a copy.
    pub combiner: Option<ReduceOp>,
}

impl Steps {
    /// Takes a block into the row, if it is the next one of equal steps.
    fn takes(&mut self, at: i64, from: i64, combiner: Option<ReduceOp>) -> bool {
        let n = i64::try_from(self.n).unwrap_or(i64::MAX);
        let last = |of: [i64; 2]| of[0] + (n - 1) * of[1];
        let step = [at - last(self.at), from - last(self.from)];
        let next = self.combiner == combiner && step[0] != 0;
        if next && self.n == 1 {
            (self.at[1], self.from[1]) = (step[0], step[1]);
        }
        let next = next && step == [self.at[1], self.from[1]];
        self.n += u64::from(next);
        next
    }

    fn print(self) -> String {
        let combiner = combiner(self.combiner);
        let ([at, at_step], [from, from_step]) = (self.at, self.from);
        format!("{{{}, {at}, {at_step}, {from}, {from_step}, {combiner}}}", self.n)
    }
}

/// Returns the rows of a table. Blocks that are combined have one row for each source.
pub fn steps(named: &[MovedBlock]) -> Vec<Steps> {
    let int = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    // A copy of several blocks is that of the last one.
    let sources = |b: &MovedBlock| match (b.combiner, b.from.last()) {
        (None, Some(last)) => vec![*last],
        _ => b.from.clone(),
    };
    let all: Vec<(u64, Vec<u64>, Option<ReduceOp>)> =
        named.iter().map(|b| (b.at, sources(b), b.combiner)).collect();
    let most = all.iter().map(|b| b.1.len()).max().unwrap_or(0);
    let mut out: Vec<Steps> = vec![];
    for nth in 0..most {
        let mut open = false;
        for (at, from, combiner) in all.iter().filter_map(|(a, f, c)| Some((*a, *f.get(nth)?, *c))) {
            let (at, from) = (int(at), int(from));
            open = open && out.last_mut().is_some_and(|s| s.takes(at, from, combiner));
            if !open {
                out.push(Steps { n: 1, at: [at, 1], from: [from, 0], combiner });
                open = true;
            }
        }
    }
    out
}
