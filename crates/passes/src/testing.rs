//! What the unit tests in `tests/units` need of the inner parts of this crate. It is no interface:
//! no other crate uses it.

use crate::late::{Receipt, Run, bring_forward};
use kbc_diag::Diagnostic;
use kbc_ir::{Expr, Name};
use kbc_rounds::{Library, Rounds, ast};

pub use crate::enqueue::direction::Direction;
pub use crate::fresh::FreshNames;

/// Returns what `permute` calls to find the part of rank `r`: `list[r]` as an expression.
pub fn part_of(list: &[u64]) -> ast::Expr {
    crate::part_of::source(list)
}

/// Extrapolates three values at growing numbers of ranks to `p` ranks.
pub fn growth(values: [f64; 3], ranks: [u64; 3], p: u64) -> f64 {
    crate::cost::growth(values, ranks, p)
}

/// Returns a side of a machine halved this many times.
pub fn halved(side: u64, halvings: u32) -> u64 {
    crate::cost::halved(side, halvings)
}

/// Returns the value that `expand` finds for a number over the rank coordinate `rank`, or None if
/// the number has no symbolic form.
pub fn symbolic_number(
    lib: &Library,
    number: &ast::Expr,
    rank: &Name,
) -> Result<Option<Expr>, Box<Diagnostic>> {
    crate::expand::symbolic_number(lib, number, rank)
}

/// Returns for each transfer of each round the round at whose end its receiver takes it.
pub fn taken_in(rounds: &Rounds) -> Vec<Vec<u32>> {
    crate::late::taken_in(rounds)
}

/// Returns the rounds in which a rank takes messages, given the sender, the deadline and the place
/// of each, in the order of rounds and additions.
pub fn brought_forward(messages: &[(u32, u32, u32)]) -> Vec<u32> {
    let receipt = |&(sender, taken, _): &(u32, u32, u32)| Receipt { sender, taken };
    let mut receipts: Vec<Receipt> = messages.iter().map(receipt).collect();
    let place = |at: usize| std::iter::once(Run { buffer: 0, start: messages[at].2, len: 1 });
    bring_forward(&mut receipts, place);
    receipts.into_iter().map(|r| r.taken).collect()
}
