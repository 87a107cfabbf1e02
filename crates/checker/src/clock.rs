//! Vector clocks: for every stream, the position up to which it is known.
//!
//! A clock is a flat array if few ranks are walked, and a tree with shared parts if thousands of
//! ranks are walked. In a tree algorithm a rank knows what its parent knows plus a few entries, so
//! the memory for shared clocks grows with the differences and not with the square of the number of
//! ranks. Where [`super::chains`] keeps what streams know of all others, clocks have few entries
//! and are sparse. This module owns the three forms. [`super::order`] defines what an entry means.

use super::group::Group;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Number of separately walked streams from which on clocks share parts.
const SHARED_FROM: usize = 1 << 10;

/// Number of entries of a leaf, and of children of an inner node.
const FAN: usize = 32;

/// A vector clock.
#[derive(Clone, Debug)]
pub enum Clock {
    /// Few streams: an entry for each.
    Flat(Vec<u32>),
    /// Many streams: a tree whose parts clocks share.
    Shared(Arc<Node>),
    /// The entries that are not 0.
    Sparse(BTreeMap<u32, u32>),
}

#[derive(Debug)]
pub enum Node {
    Leaf([u32; FAN]),
    Inner(Vec<Arc<Node>>),
}

/// The result of joining two nodes: one of the two sides, or a new node.
#[derive(Clone, Debug)]
enum Joined {
    Left,
    Right,
    New(Arc<Node>),
}

/// Cache of recent joins of inner nodes. The ranks below one parent all join the same parts.
#[derive(Debug, Default)]
pub struct Recent {
    list: Vec<Option<CachedJoin>>,
}

/// Two nodes and their join.
type CachedJoin = (Arc<Node>, Arc<Node>, Joined);

impl Recent {
    /// Number of entries in the cache.
    const SIZE: usize = 1 << 10;

    /// Returns the join of two nodes, from the cache if possible. The address of a node decides
    /// only what is cached, never the result.
    fn joined(&mut self, a: &Arc<Node>, b: &Arc<Node>) -> Joined {
        if Arc::ptr_eq(a, b) {
            return Joined::Left;
        }
        if let Node::Leaf(_) = &**a {
            return joined(a, b, self);
        }
        let at = (Arc::as_ptr(a) as usize / 16).wrapping_mul(0x9e37_79b9) ^ (Arc::as_ptr(b) as usize / 16);
        let at = (at ^ at >> 15) % Self::SIZE;
        if let Some(Some((x, y, out))) = self.list.get(at)
            && Arc::ptr_eq(x, a)
            && Arc::ptr_eq(y, b)
        {
            return out.clone();
        }
        let out = joined(a, b, self);
        self.list.resize(Self::SIZE, None);
        self.list[at] = Some((a.clone(), b.clone(), out.clone()));
        out
    }
}

impl Clock {
    /// Creates a clock of zeros for `streams` streams. If `group` is not trivial, only one stream
    /// of each orbit is walked.
    pub fn new(streams: usize, group: &Group) -> Clock {
        if !group.trivial() || streams < SHARED_FROM {
            return Clock::Flat(vec![0; streams]);
        }
        let mut node = Arc::new(Node::Leaf([0; FAN]));
        let mut reach = FAN;
        while reach < streams {
            node = Arc::new(Node::Inner(vec![node; FAN]));
            reach *= FAN;
        }
        Clock::Shared(node)
    }

    /// Estimates the number of entries that a clock of so many streams holds for itself.
    pub(super) fn entries(streams: u64, group: &Group) -> u64 {
        if !group.trivial() || streams < SHARED_FROM as u64 { streams } else { 4 * FAN as u64 }
    }

    /// Returns the entry of stream `i`.
    pub fn get(&self, i: usize) -> u32 {
        match self {
            Clock::Flat(list) => list[i],
            Clock::Sparse(map) => map.get(&(i as u32)).copied().unwrap_or(0),
            Clock::Shared(root) => {
                let (mut node, mut reach) = (&**root, reach(root));
                loop {
                    match node {
                        Node::Leaf(list) => return list[i % FAN],
                        Node::Inner(children) => {
                            node = &children[i % reach / (reach / FAN)];
                            reach /= FAN;
                        }
                    }
                }
            }
        }
    }

    pub(super) fn set(&mut self, i: usize, to: u32) {
        match self {
            Clock::Flat(list) => list[i] = to,
            Clock::Sparse(map) => _ = map.insert(i as u32, to),
            Clock::Shared(root) => {
                if let Some(new) = with(root, reach(root), i, to) {
                    *root = new;
                }
            }
        }
    }

    /// Raises entry `i` to at least `to`.
    pub fn raise(&mut self, i: usize, to: u32) {
        if self.get(i) < to {
            self.set(i, to);
        }
    }

    /// Makes this clock a copy of `from`. A flat clock keeps its memory.
    pub(super) fn copy(&mut self, from: &Clock) {
        match (&mut *self, from) {
            (Clock::Flat(to), Clock::Flat(from)) => {
                to.clear();
                to.extend_from_slice(from);
            }
            _ => *self = from.clone(),
        }
    }

    /// Joins (entrywise maximum) `from`, moved by element `h`, into this clock. A rank has `width`
    /// streams.
    pub fn join(&mut self, group: &Group, h: u64, width: usize, from: &Clock, recent: &mut Recent) {
        match (self, from) {
            (Clock::Flat(to), Clock::Flat(from)) => group.join(h, width, to, from),
            (to @ Clock::Sparse(_), Clock::Sparse(from)) => {
                for (i, pos) in from {
                    let (rank, k) = (*i as usize / width, *i as usize % width);
                    to.raise(group.act(h, rank as u64) as usize * width + k, *pos);
                }
            }
            (Clock::Shared(to), Clock::Shared(from)) => match joined(to, from, recent) {
                Joined::Left => {}
                Joined::Right => *to = from.clone(),
                Joined::New(node) => *to = node,
            },
            // All clocks of a run have the same form.
            _ => unreachable!("clocks of one run have one form"),
        }
    }
}

/// Returns the number of entries below a node.
fn reach(node: &Node) -> usize {
    match node {
        Node::Leaf(_) => FAN,
        Node::Inner(children) => FAN * reach(&children[0]),
    }
}

/// Returns the node with entry `i` set to `to`, or None if the entry already has that value.
fn with(node: &Node, reach: usize, i: usize, to: u32) -> Option<Arc<Node>> {
    match node {
        Node::Leaf(list) if list[i % FAN] == to => None,
        Node::Leaf(list) => {
            let mut list = *list;
            list[i % FAN] = to;
            Some(Arc::new(Node::Leaf(list)))
        }
        Node::Inner(children) => {
            let at = i % reach / (reach / FAN);
            let child = with(&children[at], reach / FAN, i, to)?;
            let mut children = children.clone();
            children[at] = child;
            Some(Arc::new(Node::Inner(children)))
        }
    }
}

fn joined(a: &Arc<Node>, b: &Arc<Node>, recent: &mut Recent) -> Joined {
    match (&**a, &**b) {
        (Node::Leaf(x), Node::Leaf(y)) => {
            let mut most = *x;
            most.iter_mut().zip(y).for_each(|(m, y)| *m = (*m).max(*y));
            if most == *x {
                Joined::Left
            } else if most == *y {
                Joined::Right
            } else {
                Joined::New(Arc::new(Node::Leaf(most)))
            }
        }
        (Node::Inner(x), Node::Inner(y)) => {
            let (mut left, mut right) = (true, true);
            let mut out: Vec<Arc<Node>> = Vec::with_capacity(FAN);
            for (x, y) in x.iter().zip(y) {
                let same = Arc::ptr_eq(x, y);
                out.push(match recent.joined(x, y) {
                    Joined::Left => {
                        right &= same;
                        x.clone()
                    }
                    Joined::Right => {
                        left = false;
                        y.clone()
                    }
                    Joined::New(node) => {
                        (left, right) = (false, false);
                        node
                    }
                });
            }
            if left {
                Joined::Left
            } else if right {
                Joined::Right
            } else {
                Joined::New(Arc::new(Node::Inner(out)))
            }
        }
        _ => unreachable!("nodes of one depth are of one kind"),
    }
}
