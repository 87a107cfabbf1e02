//! Trees of additions, each stored once: what an element is made of, and what fixes its bits.
//!
//! A tree has no positions of its own. Each tree has an **anchor**, its first leaf that has a
//! position, and every other leaf is placed relative to it. All elements of a run therefore share
//! one tree, and a [`crate::pieces::Piece`] states where the anchor of its first element is.
//!
//! Beside each tree the module keeps its **bits**: the same tree without the order of the two
//! operands of one addition, and with equal inputs of several ranks as one. Two trees with the same
//! bits give the same result for all inputs without NaN, because an addition of IEEE 754
//! is commutative and kbc does not tell NaNs apart.

use kbc_ir::types::{DType, ReduceOp};
use std::collections::{BTreeMap, HashMap};

/// Number of a tree.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct TreeId(pub u32);

/// Number of the bits of a tree.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct BitsId(u32);

/// Number of a source of leaves.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct SourceId(pub u32);

/// Where the elements of leaves come from.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Source {
    /// An input, by its buffer.
    Input(u32),
    /// A number, by the bits of its f64. It has no position.
    Number(u64),
    /// A computation: its definition, and the contents of its operands. Ranks that compute the same
    /// from the same contents have the same source.
    Computed {
        /// Number of the definition.
        definition: u32,
        /// Numbers of the contents.
        contents: Vec<u32>,
    },
}

/// A tree: a leaf, or an addition of two trees.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Node {
    /// An element of a source, on the rank that had it.
    Leaf { source: SourceId, rank: u32 },
    /// `dst OP src`, computed in the type. The anchor of `src` is `shift` elements after that of
    /// `dst`; 0 if one of them has no position.
    Add { op: ReduceOp, dtype: DType, dst: TreeId, src: TreeId, shift: i64 },
}

/// What fixes the bits of a tree: as [`Node`], but an input that several ranks have is one leaf,
/// and the smaller operand is the first.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum BitsNode {
    Leaf { source: SourceId, holder: u32 },
    Add { op: ReduceOp, dtype: DType, a: BitsId, b: BitsId, shift: i64 },
}

/// Facts about a tree.
#[derive(Clone, Copy, Debug)]
struct TreeFacts {
    positional: bool,
    adds: bool,
    matters: bool,
    bits: BitsId,
    /// Position of the anchor of the bits, counted from the anchor of the tree.
    offset: i64,
}

/// A run of some contents: number of elements, bits, and position of their anchor.
pub(crate) type ContentRun = (u64, BitsId, i64);

/// One contribution to an element: source, holder, and position relative to the anchor of the bits.
type Contribution = (SourceId, u32, i64);

/// All trees.
#[derive(Debug)]
pub(crate) struct Forest {
    nodes: Vec<Node>,
    facts: Vec<TreeFacts>,
    ids: HashMap<Node, TreeId>,
    bits: Vec<BitsNode>,
    bits_ids: HashMap<BitsNode, BitsId>,
    /// Sources, with the name of what was met first.
    sources: Vec<(Source, String)>,
    source_ids: HashMap<Source, SourceId>,
    contents: HashMap<Vec<ContentRun>, u32>,
    /// The first rank that has the same part of an input, for each input buffer and rank.
    holders: BTreeMap<u32, Vec<u32>>,
    limit: usize,
}

/// Checks whether the bits of a combination of three values depend on the order.
pub(crate) fn matters(op: ReduceOp, dtype: DType) -> bool {
    let rounds = match op {
        ReduceOp::Sum | ReduceOp::Prod => true,
        ReduceOp::Min | ReduceOp::Max => false,
    };
    rounds && dtype.is_float()
}

impl Forest {
    /// Creates a forest without trees. `holders` lists, for each input buffer and rank, the first
    /// rank with the same part of the input; `limit` is the number of trees that are allowed.
    pub fn new(holders: BTreeMap<u32, Vec<u32>>, limit: usize) -> Forest {
        Forest {
            nodes: vec![],
            facts: vec![],
            ids: HashMap::new(),
            bits: vec![],
            bits_ids: HashMap::new(),
            sources: vec![],
            source_ids: HashMap::new(),
            contents: HashMap::new(),
            holders,
            limit,
        }
    }

    /// Returns the number of a source. `name` names it if it is new.
    pub fn source(&mut self, source: Source, name: impl FnOnce() -> String) -> SourceId {
        if let Some(id) = self.source_ids.get(&source) {
            return *id;
        }
        let id = SourceId(self.sources.len() as u32);
        self.sources.push((source.clone(), name()));
        self.source_ids.insert(source, id);
        id
    }

    /// Returns the number of some contents.
    pub fn content(&mut self, runs: Vec<ContentRun>) -> u32 {
        let next = self.contents.len() as u32;
        *self.contents.entry(runs).or_insert(next)
    }

    /// Returns a leaf, or `None` if there are too many trees.
    pub fn leaf(&mut self, source: SourceId, rank: u64) -> Option<TreeId> {
        // The holder of an input decides its bits. A number and a computation are the same
        // everywhere.
        let (positional, holder) = match self.source_of(source) {
            Source::Input(buffer) => {
                let of_ranks = self.holders.get(buffer);
                let holder = of_ranks.and_then(|r| r.get(rank as usize)).copied();
                (true, holder.unwrap_or(rank as u32))
            }
            Source::Number(_) => (false, 0),
            Source::Computed { .. } => (true, 0),
        };
        let rank = if positional { rank as u32 } else { 0 };
        let bits = self.bits_of(BitsNode::Leaf { source, holder });
        let facts = TreeFacts { positional, adds: false, matters: false, bits, offset: 0 };
        self.tree(Node::Leaf { source, rank }, facts)
    }

    /// Returns `dst OP src`, or `None` if there are too many trees. `shift` is the position of the
    /// anchor of `src`, counted from that of `dst`.
    pub fn add(
        &mut self,
        op: ReduceOp,
        dtype: DType,
        (dst, src): (TreeId, TreeId),
        shift: i64,
    ) -> Option<TreeId> {
        let (d, s) = (self.facts(dst), self.facts(src));
        let shift = if d.positional && s.positional { shift } else { 0 };
        let node = Node::Add { op, dtype, dst, src, shift };
        if let Some(id) = self.ids.get(&node) {
            return Some(*id);
        }
        // Positions of the anchors of both bits, counted from the anchor of the new tree.
        let (a, b) = ((d.bits, d.offset, d.positional), (s.bits, s.offset + shift, s.positional));
        let (a, b) = if (b.0, b.1) < (a.0, a.1) { (b, a) } else { (a, b) };
        let both = a.2 && b.2;
        let relative = if both { b.1 - a.1 } else { 0 };
        let bits = self.bits_of(BitsNode::Add { op, dtype, a: a.0, b: b.0, shift: relative });
        let facts = TreeFacts {
            positional: a.2 || b.2,
            adds: true,
            matters: d.matters || s.matters || matters(op, dtype),
            bits,
            offset: if a.2 { a.1 } else { b.1 },
        };
        self.tree(node, facts)
    }

    fn tree(&mut self, node: Node, facts: TreeFacts) -> Option<TreeId> {
        if let Some(id) = self.ids.get(&node) {
            return Some(*id);
        }
        if self.nodes.len() >= self.limit {
            return None;
        }
        let id = TreeId(self.nodes.len() as u32);
        self.nodes.push(node);
        self.facts.push(facts);
        self.ids.insert(node, id);
        Some(id)
    }

    fn bits_of(&mut self, node: BitsNode) -> BitsId {
        let next = BitsId(self.bits.len() as u32);
        let id = *self.bits_ids.entry(node).or_insert(next);
        if id == next {
            self.bits.push(node);
        }
        id
    }

    fn facts(&self, id: TreeId) -> TreeFacts {
        self.facts[id.0 as usize]
    }

    /// Returns the root of a tree.
    pub fn node(&self, id: TreeId) -> Node {
        self.nodes[id.0 as usize]
    }

    /// Returns a source.
    pub fn source_of(&self, id: SourceId) -> &Source {
        &self.sources[id.0 as usize].0
    }

    /// Returns the name of a source.
    pub fn name_of(&self, id: SourceId) -> &str {
        &self.sources[id.0 as usize].1
    }

    /// Checks whether some leaf of a tree has a position.
    pub fn positional(&self, id: TreeId) -> bool {
        self.facts(id).positional
    }

    /// Checks whether a tree has an addition.
    pub fn adds(&self, id: TreeId) -> bool {
        self.facts(id).adds
    }

    /// Checks whether a tree has an addition whose place in the order can change bits.
    pub fn matters(&self, id: TreeId) -> bool {
        self.facts(id).matters
    }

    /// Returns the bits of a tree, and the position of their anchor if that of the tree is `base`.
    pub fn bits(&self, id: TreeId, base: i64) -> (BitsId, i64) {
        let facts = self.facts(id);
        (facts.bits, base + facts.offset)
    }

    /// Returns what is added in trees with these bits, in whatever order: each contribution with
    /// the number of times that it occurs. Positions are relative to the first contribution, whose
    /// own position is returned relative to the anchor. `None` if there are more than `limit` parts
    /// of the tree at different positions, or if a number exceeds 64 bits.
    pub fn contributions(&self, root: BitsId, limit: usize) -> Option<(Vec<(Contribution, u64)>, i64)> {
        // Operands have smaller numbers than their addition, so every tree is complete before it is
        // taken apart.
        let mut open = BTreeMap::from([((root, 0i64), 1u64)]);
        let mut leaves: BTreeMap<Contribution, u64> = BTreeMap::new();
        let mut taken = 0;
        while let Some(((id, at), times)) = open.pop_last() {
            taken += 1;
            if taken > limit {
                return None;
            }
            match self.bits[id.0 as usize] {
                BitsNode::Leaf { source, holder } => {
                    let placed = self.source_of(source).has_position();
                    let n = leaves.entry((source, holder, if placed { at } else { 0 })).or_default();
                    *n = n.checked_add(times)?;
                }
                BitsNode::Add { a, b, shift, .. } => {
                    for part in [(a, at), (b, at + shift)] {
                        let n = open.entry(part).or_default();
                        *n = n.checked_add(times)?;
                    }
                }
            }
        }
        let placed = |(c, _): &(&Contribution, &u64)| self.source_of(c.0).has_position();
        let first = leaves.iter().find(placed).map_or(0, |(c, _)| c.2);
        let relative = |((source, holder, at), n): (Contribution, u64)| {
            let at = if self.source_of(source).has_position() { at - first } else { 0 };
            ((source, holder, at), n)
        };
        Some((leaves.into_iter().map(relative).collect(), first))
    }
}

impl Source {
    /// Checks whether the elements of the source differ by position.
    pub fn has_position(&self) -> bool {
        match self {
            Source::Input(_) | Source::Computed { .. } => true,
            Source::Number(_) => false,
        }
    }
}
