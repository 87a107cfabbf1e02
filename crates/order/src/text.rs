//! Text of a tree of additions in terms of ranks, such as `(r0 + r1) + (r2 + r3)`.
//!
//! Additions without parentheses are executed from left to right. The operands of one addition are
//! written in the order that reads best, because it has no influence on the result: the longer
//! operand first, and otherwise the one with the smaller rank. Regular runs of ranks are written as
//! their ends (`r3 + r4 + .. + r2`), and in large trees an operand may be written as the ranks that
//! it adds (`(r4 .. r7)`).

use crate::shape::{AdditionTree, TreeNode};
use kbc_ir::types::ReduceOp;
use std::fmt;

/// Number of contributions up to which a tree is written in full.
const FULL: u64 = 16;

/// Number of contributions up to which an operand in a large tree is written in full.
const OPERAND: u64 = 4;

/// Number of operands after which a chain of operands that are no single ranks is abbreviated.
const OPERANDS: usize = 6;

/// Fewest ranks of a run that is written as its ends.
const RUN: usize = 5;

/// What the text of a node needs to know of it.
#[derive(Clone, Copy)]
struct NodeFacts {
    contributions: u64,
    least: u64,
    largest: u64,
}

struct Writer<'t> {
    tree: &'t AdditionTree,
    facts: Vec<NodeFacts>,
    several: bool,
}

/// An operand of a chain: a leaf, or an addition.
#[derive(Clone, Copy)]
enum Term {
    Rank { rank: u64, source: u32 },
    Other(u32),
}

fn sign(op: ReduceOp) -> &'static str {
    match op {
        ReduceOp::Sum => "+",
        ReduceOp::Prod => "*",
        ReduceOp::Min | ReduceOp::Max => op.name(),
    }
}

impl fmt::Display for AdditionTree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_plain() {
            return f.write_str("no addition");
        }
        let mut facts: Vec<NodeFacts> = Vec::with_capacity(self.nodes.len());
        let mut several = false;
        for node in &self.nodes {
            facts.push(match node {
                TreeNode::Rank { rank, source } => {
                    several |= *source > 0;
                    NodeFacts { contributions: 1, least: *rank, largest: *rank }
                }
                TreeNode::Number(_) => NodeFacts { contributions: 1, least: 0, largest: 0 },
                TreeNode::Add { dst, src, .. } => {
                    let (a, b) = (facts[*dst as usize], facts[*src as usize]);
                    NodeFacts {
                        contributions: a.contributions.saturating_add(b.contributions),
                        least: a.least.min(b.least),
                        largest: a.largest.max(b.largest),
                    }
                }
            });
        }
        let last = self.nodes.len().saturating_sub(1) as u32;
        f.write_str(&Writer { tree: self, facts, several }.node(last))
    }
}

impl Writer<'_> {
    fn node(&self, id: u32) -> String {
        match &self.tree.nodes[id as usize] {
            TreeNode::Rank { rank, source } => self.rank(*rank, *source),
            TreeNode::Number(n) => n.to_string(),
            TreeNode::Add { op, .. } => self.chain(*op, &self.terms(id)),
        }
    }

    /// Returns the name of a contribution. Contributions of several tensors have a letter each.
    fn rank(&self, rank: u64, source: u32) -> String {
        if !self.several {
            return format!("r{rank}");
        }
        match u8::try_from(source).ok().filter(|s| *s < 26) {
            Some(s) => format!("{}.r{rank}", char::from(b'a' + s)),
            None => format!("v{source}.r{rank}"),
        }
    }

    fn term(&self, id: u32) -> Term {
        match self.tree.nodes[id as usize] {
            TreeNode::Rank { rank, source } => Term::Rank { rank, source },
            TreeNode::Number(_) | TreeNode::Add { .. } => Term::Other(id),
        }
    }

    /// Returns the operands of the chain that ends at an addition, in the order in which they are
    /// added.
    fn terms(&self, id: u32) -> Vec<Term> {
        let (mut at, mut out) = (id, vec![]);
        while let TreeNode::Add { op, dtype, dst, src } = self.tree.nodes[at as usize] {
            let [a, b] = [dst, src].map(|n| self.facts[n as usize]);
            let ahead = (a.contributions, b.least) >= (b.contributions, a.least);
            let (long, short) = if ahead { (dst, src) } else { (src, dst) };
            let goes_on = match self.tree.nodes[long as usize] {
                TreeNode::Add { op: o, dtype: d, .. } => {
                    // Numbers that have reached the limit are not known to be equal.
                    let equal = a.contributions == b.contributions && a.contributions < u64::MAX;
                    (o, d) == (op, dtype) && !equal
                }
                TreeNode::Rank { .. } | TreeNode::Number(_) => false,
            };
            out.push(self.term(short));
            if !goes_on {
                out.push(self.term(long));
                break;
            }
            at = long;
        }
        out.reverse();
        // The first two are operands of one addition: they are written so that a run goes on, if
        // possible from each rank to the next.
        if let [Term::Rank { rank: a, .. }, Term::Rank { rank: b, .. }, _, ..] = out[..] {
            let mut swapped = out.clone();
            swapped.swap(0, 1);
            if (self.run(&swapped), self.step(b, a) == 1) > (self.run(&out), self.step(a, b) == 1) {
                return swapped;
            }
        }
        out
    }

    /// Returns the distance from a rank to another, going round.
    fn step(&self, from: u64, to: u64) -> u64 {
        let p = self.tree.ranks.max(1);
        (to + p - from % p) % p
    }

    fn chain(&self, op: ReduceOp, terms: &[Term]) -> String {
        let mut parts: Vec<String> = vec![];
        let (mut i, mut others) = (0, 0);
        while i < terms.len() {
            match terms[i] {
                Term::Rank { rank, source } => {
                    let run = self.run(&terms[i..]);
                    parts.push(self.rank(rank, source));
                    if run >= RUN
                        && let [Term::Rank { rank: second, .. }, .., Term::Rank { rank: last, .. }] =
                            terms[i + 1..i + run]
                    {
                        parts.push(self.rank(second, source));
                        parts.push("..".into());
                        parts.push(self.rank(last, source));
                        i += run - 1;
                    }
                }
                Term::Other(id) => {
                    others += 1;
                    if others == OPERANDS && terms.len() - i > 2 {
                        parts.push("..".into());
                        i = terms.len() - 2;
                    } else {
                        parts.push(self.operand(id, others > 1));
                    }
                }
            }
            i += 1;
        }
        parts.join(&format!(" {} ", sign(op)))
    }

    /// Returns the number of leading ranks with equal distances.
    fn run(&self, terms: &[Term]) -> usize {
        let [Term::Rank { rank: a, source }, Term::Rank { rank: b, .. }, ..] = *terms else { return 1 };
        let (step, mut at, mut n) = (self.step(a, b), a, 1);
        for t in &terms[1..] {
            match t {
                Term::Rank { rank, source: s } if *s == source && self.step(at, *rank) == step => {
                    (at, n) = (*rank, n + 1);
                }
                Term::Rank { .. } | Term::Other(_) => break,
            }
        }
        n
    }

    fn operand(&self, id: u32, may_shorten: bool) -> String {
        let TreeNode::Add { op, .. } = self.tree.nodes[id as usize] else { return self.node(id) };
        let NodeFacts { contributions, least, largest } = self.facts[id as usize];
        let large = self.tree.contributions > FULL && contributions > OPERAND;
        let terms = self.terms(id);
        // A regular chain is short, however long it is.
        if large && may_shorten && self.run(&terms) != terms.len() {
            return if largest - least + 1 == contributions {
                format!("(r{least} .. r{largest})")
            } else {
                format!("({contributions} of r{least} .. r{largest})")
            };
        }
        format!("({})", self.chain(op, &terms))
    }
}
