//! Vector clocks: for every stream, how far it is known to be.
//!
//! A flat array where the walked ranks are few; a tree with shared parts where thousands of ranks are walked, because what
//! a rank of a tree knows is what its parent told it, and a few entries more: memory then grows with what is different
//! and not with the square of the ranks. Owns the two forms; what an entry means is [`super::order`]'s.

use super::group::Group;
use std::sync::Arc;

/// So many streams walked each on its own have clocks that share parts.
const SHARED_FROM: usize = 1 << 10;

/// Entries of a leaf, and children of an inner node.
const FAN: usize = 32;

/// A clock.
#[derive(Clone, Debug)]
pub(super) enum Clock {
    Flat(Vec<u32>),
    Shared(Arc<Node>),
}

#[derive(Debug)]
pub(super) enum Node {
    Leaf([u32; FAN]),
    Inner(Vec<Arc<Node>>),
}

/// Which side a join of two nodes is.
#[derive(Clone, Debug)]
enum Joined {
    Left,
    Right,
    New(Arc<Node>),
}

/// Joins of inner nodes that were made lately: the ranks below one parent all join the same parts.
#[derive(Debug, Default)]
pub(super) struct Recent {
    list: Vec<Option<Made>>,
}

/// Two nodes and what their join is.
type Made = (Arc<Node>, Arc<Node>, Joined);

impl Recent {
    /// Places for joins to be remembered in.
    const SIZE: usize = 1 << 10;

    /// The join of two nodes, remembered. (Where a node lies decides only what is remembered, never what comes out.)
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
    /// Zeros, for so many streams of which each is walked or one of each orbit.
    pub(super) fn new(streams: usize, group: &Group) -> Clock {
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

    /// Entries that a clock of so many streams is reckoned to hold for itself.
    pub(super) fn entries(streams: u64, group: &Group) -> u64 {
        if !group.trivial() || streams < SHARED_FROM as u64 { streams } else { 4 * FAN as u64 }
    }

    pub(super) fn get(&self, i: usize) -> u32 {
        match self {
            Clock::Flat(list) => list[i],
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
            Clock::Shared(root) => {
                if let Some(new) = with(root, reach(root), i, to) {
                    *root = new;
                }
            }
        }
    }

    /// At least so far.
    pub(super) fn raise(&mut self, i: usize, to: u32) {
        if self.get(i) < to {
            self.set(i, to);
        }
    }

    /// Becomes a copy; a flat one keeps its memory.
    pub(super) fn copy(&mut self, from: &Clock) {
        match (&mut *self, from) {
            (Clock::Flat(to), Clock::Flat(from)) => {
                to.clear();
                to.extend_from_slice(from);
            }
            _ => *self = from.clone(),
        }
    }

    /// Entrywise maximum with a clock moved by element `h`, of `width` streams a rank.
    pub(super) fn join(&mut self, group: &Group, h: u64, width: usize, from: &Clock, recent: &mut Recent) {
        match (self, from) {
            (Clock::Flat(to), Clock::Flat(from)) => group.join(h, width, to, from),
            (Clock::Shared(to), Clock::Shared(from)) => match joined(to, from, recent) {
                Joined::Left => {}
                Joined::Right => *to = from.clone(),
                Joined::New(node) => *to = node,
            },
            // All clocks of a run have one form.
            _ => unreachable!("clocks of one run have one form"),
        }
    }
}

/// Entries below a node.
fn reach(node: &Node) -> usize {
    match node {
        Node::Leaf(_) => FAN,
        Node::Inner(children) => FAN * reach(&children[0]),
    }
}

/// The node with another entry; none if it is that already.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A shared clock is the flat one, entry by entry, through sets and joins; joins of what is alike share.
    #[test]
    fn shared_clocks_are_flat_ones() {
        let streams = 3000;
        let group = Group::new(streams as u64, vec![]);
        let mut shared = vec![Clock::new(streams, &group); 4];
        assert!(matches!(shared[0], Clock::Shared(_)));
        let mut flat = vec![Clock::Flat(vec![0; streams]); 4];
        let mut x = 1u64;
        let mut recent = Recent::default();
        let mut draw = |n: usize| {
            x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (x >> 33) as usize % n
        };
        for _ in 0..2000 {
            let (a, b) = (draw(4), draw(4));
            if draw(3) == 0 && a != b {
                let from = (shared[b].clone(), flat[b].clone());
                shared[a].join(&group, 0, 1, &from.0, &mut recent);
                flat[a].join(&group, 0, 1, &from.1, &mut recent);
            } else {
                let (i, to) = (draw(streams), draw(1000) as u32);
                shared[a].raise(i, to);
                flat[a].raise(i, to);
            }
        }
        for (s, f) in shared.iter().zip(&flat) {
            assert!((0..streams).all(|i| s.get(i) == f.get(i)));
        }
        let whole = shared[0].clone();
        shared[0].join(&group, 0, 1, &whole, &mut recent);
        let (Clock::Shared(a), Clock::Shared(b)) = (&shared[0], &whole) else { panic!("shared") };
        assert!(Arc::ptr_eq(a, b));
    }
}
