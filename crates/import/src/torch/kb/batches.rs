//! Reshape sinking: separates dimensions that an export merged for an operation of two or
//! three dimensions.
//!
//! An export turns the matmul of `[B, H, S, D]` into one of `[B * H, S, D]`, and that of
//! `[B, S, D]` with a matrix into one of `[B * S, D]`. If a dimension in the middle is split over
//! ranks, only the unmerged form has a placement. This pass moves reshapes behind operations that
//! work on other dimensions, where they cancel with the reshapes that undo them.

use super::graph::{Graph, NodeId, NodeOp, Operand};
use super::lift::Lifted;
use std::collections::BTreeMap;

/// Returns the same program with reshapes as late as possible.
pub fn delay_reshapes(it: Lifted) -> Lifted {
    let mut g = Graph { constants: it.graph.constants, ..Graph::default() };
    let mut now: Vec<NodeId> = vec![];
    for node in it.graph.nodes {
        let args: Vec<Operand> = node
            .args
            .iter()
            .map(|a| if let Operand::Node(n) = a { Operand::Node(now[*n]) } else { *a })
            .collect();
        g.at = node.of;
        let made = match (&node.op, &args[..]) {
            (NodeOp::Reshape, [Operand::Node(x)]) => Some(g.reshape(*x, &node.sizes)),
            (NodeOp::Transpose(order), [Operand::Node(x)]) => g.transposed(*x, order),
            (NodeOp::Matmul, [Operand::Node(a), Operand::Node(b)]) => g.product(*a, *b, &node.sizes),
            (NodeOp::Infix(_) | NodeOp::Call(_) | NodeOp::Select(_) | NodeOp::Cast, _)
                if !matches!(node.op, NodeOp::Call("embedding" | "argmax" | "cumsum")) =>
            {
                g.each(&node.op, &args, node.dtype, &node.sizes)
            }
            _ => None,
        };
        now.push(made.unwrap_or_else(|| g.push(node.op, args, node.dtype, node.sizes)));
    }
    let mut names = BTreeMap::new();
    for (n, name) in it.names {
        names.entry(now[n]).or_insert(name);
    }
    let outputs = it.outputs.iter().map(|(n, place)| (now[*n], *place)).collect();
    Lifted { graph: g, inputs: it.inputs, outputs, names, placed: it.placed }
}

/// Returns, for each dimension of `to`, the dimensions of `from` that it merges; none if the
/// reshape does anything else than merge neighbours.
fn merged(from: &[i64], to: &[i64]) -> Option<Vec<Vec<usize>>> {
    let mut out = vec![];
    let mut next = 0;
    for n in to {
        let (mut of, mut size) = (vec![], 1);
        while next < from.len() && (of.is_empty() || size < *n) {
            size *= from[next];
            of.push(next);
            next += 1;
        }
        if size != *n {
            return None;
        }
        out.push(of);
    }
    (next == from.len()).then_some(out)
}

impl Graph {
    /// Returns the operand of a reshape; none for another node.
    fn before(&self, x: NodeId) -> Option<NodeId> {
        match (&self.nodes[x].op, self.nodes[x].args.first()) {
            (NodeOp::Reshape, Some(Operand::Node(y))) => Some(*y),
            _ => None,
        }
    }

    fn transposed(&mut self, x: NodeId, order: &[usize]) -> Option<NodeId> {
        let y = self.before(x)?;
        let groups = merged(&self.nodes[y].sizes, &self.nodes[x].sizes)?;
        let sizes: Vec<i64> = order.iter().map(|d| self.nodes[x].sizes[*d]).collect();
        let all: Vec<usize> = order.iter().flat_map(|d| groups[*d].clone()).collect();
        let t = self.transpose(y, &all);
        Some(self.reshape(t, &sizes))
    }

    fn product(&mut self, a: NodeId, b: NodeId, sizes: &[i64]) -> Option<NodeId> {
        let size = |g: &Graph, n: NodeId| g.nodes[n].sizes.clone();
        let (x, y) = (self.before(a)?, self.before(b));
        let (sa, sx) = (size(self, a), size(self, x));
        let (ra, rx) = (sa.len(), sx.len());
        if rx <= ra || sa[ra - 1] != sx[rx - 1] {
            return None;
        }
        let (sb, sy) = (size(self, b), y.map(|y| size(self, y)));
        let (x, by) = match (sb.len(), y, sy) {
            // One matrix for the whole batch.
            (2, ..) if ra == 2 => (x, b),
            (rb, y, sy) if ra > 2 && rb == ra && sa[..ra - 2] == sb[..rb - 2] && sa[ra - 2] == sx[rx - 2] => {
                let same =
                    |s: &[i64]| s.len() == rx && s[..rx - 2] == sx[..rx - 2] && s[rx - 2..] == sb[rb - 2..];
                match (y, &sy) {
                    (Some(y), Some(s)) if same(s) => (x, y),
                    // The form with fewer dimensions serves for both.
                    (Some(_), Some(s))
                        if s.len() < rx && s.len() > rb && s[s.len() - 2..] == sb[rb - 2..] =>
                    {
                        let form = [&s[..s.len() - 2], &sa[ra - 2..]].concat();
                        (self.reshape(a, &form), y.unwrap_or(b))
                    }
                    _ => {
                        let form = [&sx[..rx - 2], &sb[rb - 2..]].concat();
                        let other = self.reshape(b, &form);
                        (x, other)
                    }
                }
            }
            _ => return None,
        };
        let m = self.matmul(x, by);
        Some(self.reshape(m, sizes))
    }

    /// Moves reshapes behind an elementwise operation. All operands must have been reshaped alike,
    /// or not reach the reshaped dimensions.
    fn each(
        &mut self,
        op: &NodeOp,
        args: &[Operand],
        dtype: crate::torch::dtype::DType,
        sizes: &[i64],
    ) -> Option<NodeId> {
        let of = |o: &Operand| if let Operand::Node(n) = o { Some(*n) } else { None };
        let first = args.iter().filter_map(of).find_map(|n| Some((n, self.before(n)?)))?;
        let (from, to) = (self.nodes[first.1].sizes.clone(), self.nodes[first.0].sizes.clone());
        // The number of trailing dimensions that the reshape leaves unchanged.
        let same = from.iter().rev().zip(to.iter().rev()).take_while(|(a, b)| a == b).count();
        let mut moved = vec![];
        for a in args {
            moved.push(match of(a) {
                Some(n) => match self.before(n) {
                    Some(y) if self.nodes[y].sizes == from && self.nodes[n].sizes == to => Operand::Node(y),
                    _ if self.nodes[n].sizes.len() <= same => *a,
                    _ => return None,
                },
                None => *a,
            });
        }
        if to != sizes {
            return None;
        }
        let n = self.push(op.clone(), moved, dtype, from);
        Some(self.reshape(n, sizes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_that_were_put_together() {
        assert_eq!(merged(&[2, 3, 4], &[6, 4]), Some(vec![vec![0, 1], vec![2]]));
        assert_eq!(merged(&[2, 1, 4], &[2, 4]), Some(vec![vec![0], vec![1, 2]]));
        assert_eq!(merged(&[2, 3], &[3, 2]), None);
    }
}
