//! What was made for a network so far. A search asks for trees of several kinds, and some kinds
//! have parts in common.

use super::phase::{OrderedPhase, PackedCollective, PackedRequest};
use kbc_synthesis::{MatchedMoves, MatchedRoots, Matching, SpanningPacking, SynthesisError, TreePacking};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// Results by what they depend on.
pub(super) struct KnownResults<K, V>(RefCell<BTreeMap<K, V>>);

impl<K, V> Default for KnownResults<K, V> {
    fn default() -> Self {
        KnownResults(RefCell::default())
    }
}

impl<K: Ord, V: Clone> KnownResults<K, V> {
    /// Returns the result for a key. It is made when it is asked for the first time.
    pub fn get(&self, key: K, make: impl FnOnce() -> V) -> V {
        if let Some(known) = self.find(&key) {
            return known;
        }
        let made = make();
        self.0.borrow_mut().insert(key, made.clone());
        made
    }

    /// Returns the result for a key, and keeps it if `keeps` is true.
    pub fn get_if(&self, keeps: bool, key: K, make: impl FnOnce() -> V) -> V {
        if keeps { self.get(key, make) } else { make() }
    }

    /// Returns the result for a key, if it was made.
    pub fn find(&self, key: &K) -> Option<V> {
        self.0.borrow().get(key).cloned()
    }

    fn clear(&self) {
        self.0.borrow_mut().clear();
    }
}

/// A result that may be an error.
pub(super) type SynthesisResult<T> = Result<T, SynthesisError>;

/// A collective and its root.
type Rooted = (PackedCollective, u64);

/// What was made for a network.
#[derive(Default)]
pub(super) struct NetworkMemo {
    /// The best rate of trees.
    pub rates: KnownResults<Rooted, SynthesisResult<f64>>,
    /// Packed trees: a number of them for each root, or None for those of the best rate.
    pub packings: KnownResults<(Rooted, Option<u64>), SynthesisResult<Rc<TreePacking>>>,
    /// Spanning trees.
    pub spanning: KnownResults<(), SynthesisResult<Rc<SpanningPacking>>>,
    /// Numbers of spanning trees.
    pub some_spanning: KnownResults<u64, SynthesisResult<Rc<SpanningPacking>>>,
    /// Phases of packed trees.
    pub packed: KnownResults<PackedRequest, SynthesisResult<Vec<Rc<OrderedPhase>>>>,
    /// Moves of matched trees, by their number.
    pub moves: KnownResults<(Rooted, u64), SynthesisResult<Rc<MatchedMoves>>>,
    /// Matched trees, by their number and their roots.
    pub matchings: KnownResults<(Rooted, u64, MatchedRoots), SynthesisResult<Rc<Matching>>>,
    /// Phases of matched trees with these roots.
    pub matched: KnownResults<(PackedRequest, MatchedRoots), SynthesisResult<Rc<OrderedPhase>>>,
    /// The number of bytes for which plans and matched trees were made.
    bytes: Cell<u64>,
}

/// Most messages of one tree for each member with which plans are kept. Larger ones are asked for
/// once, by name, and take much memory.
const KEPT: usize = 1 << 14;

impl NetworkMemo {
    /// Returns whether plans of a number of members are kept.
    pub fn keeps(members: usize) -> bool {
        members * members.saturating_sub(1) <= KEPT
    }

    /// Forgets what was made for another number of bytes, which is not asked for again.
    pub fn for_bytes(&self, bytes: u64) {
        if self.bytes.replace(bytes) != bytes {
            self.forget_plans();
        }
    }

    /// Forgets all plans and matched trees. Packed trees, which depend on no size, stay.
    pub fn forget_plans(&self) {
        self.packed.clear();
        self.moves.clear();
        self.matchings.clear();
        self.matched.clear();
    }
}
