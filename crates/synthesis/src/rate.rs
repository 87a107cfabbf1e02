//! Best rate of an all-gather or broadcast, and the cut that limits it.
//!
//! With weights of the roots, 1 / rate is the maximum over all sets S of nodes that lack some
//! member of weight(S) / (capacity that leaves S). For an all-gather every member is a root of
//! weight 1 (Zhao et al., ForestColl, arXiv 2402.06787); for a broadcast one is (Edmonds, 1973).
//! The search is that of Dinkelbach (1967): it tests the ratio of a known set, and a test that
//! fails returns a set with a larger ratio. It ends at the maximum, with the set that attains it,
//! and uses integers only.

use crate::certificate::{BestRate, TightCut};
use crate::connectivity::{Connectivity, Supplied};
use crate::error::SynthesisError;
use crate::exact::ExactRatio;
use crate::network::Network;
use fixedbitset::FixedBitSet;

/// Sets that one test may return. More of them save tests, and cost time in each.
const SETS: usize = 16;

/// A network and the weights of its roots.
pub(crate) struct Weighted<'n> {
    pub network: &'n Network,
    /// Weight of each member, in the order of the members. At least one is not 0.
    pub weights: Vec<u128>,
    pub check: Connectivity,
}

impl<'n> Weighted<'n> {
    /// Returns the network with weights, once every root is known to reach every member.
    pub fn new(network: &'n Network, weights: Vec<u128>) -> Result<Weighted<'n>, SynthesisError> {
        // If one root reaches all members and all members reach it, so does every root.
        let roots = || network.members().iter().zip(&weights).filter(|r| *r.1 > 0).map(|r| *r.0);
        let Some(first) = roots().next() else {
            return Err(SynthesisError::Inconsistent { step: "weights of the roots" });
        };
        if let Some(to) = network.unreached(first) {
            return Err(SynthesisError::Unreachable { from: first, to });
        }
        let back = (roots().count() > 1).then(|| network.reversed().unreached(first)).flatten();
        if let Some(from) = back.filter(|b| roots().any(|r| r == *b)) {
            return Err(SynthesisError::Unreachable { from, to: first });
        }
        let ends: Vec<(usize, usize)> = network.edges().iter().map(|e| (e.from, e.to)).collect();
        let check = Connectivity::new(network.nodes(), &ends, network.members());
        Ok(Weighted { network, weights, check })
    }

    /// Returns the cut whose far side, where the data arrives, is a set of nodes.
    pub fn cut(&self, far: &FixedBitSet) -> TightCut {
        let entering = |e: &&crate::network::NetworkEdge| !far.contains(e.from) && far.contains(e.to);
        let outside = |(&m, &w): (&usize, &u128)| if far.contains(m) { 0 } else { w };
        TightCut {
            nodes: (0..self.network.nodes()).filter(|&v| !far.contains(v)).collect(),
            weight: self.network.members().iter().zip(&self.weights).map(outside).sum(),
            capacity: self.network.edges().iter().filter(entering).map(|e| u128::from(e.capacity)).sum(),
        }
    }

    /// Returns the best rate and its cut.
    pub fn best(&mut self) -> Result<BestRate, SynthesisError> {
        const STEP: &str = "the search for the rate";
        let ratio = |c: &TightCut| ExactRatio::new(c.weight, c.capacity);
        let alone = |&m: &usize| {
            let mut far = FixedBitSet::with_capacity(self.network.nodes());
            far.insert(m);
            self.cut(&far)
        };
        let mut cuts: Vec<TightCut> = self.network.members().iter().map(alone).collect();
        let mut best: Option<(ExactRatio, TightCut)> = None;
        loop {
            let before = best.as_ref().map(|b| b.0);
            for cut in cuts {
                let Some(r) = ratio(&cut) else { continue };
                if best.as_ref().is_none_or(|b| r > b.0) {
                    best = Some((r, cut));
                }
            }
            let Some((inverse, cut)) = &best else { return Err(SynthesisError::Inconsistent { step: STEP }) };
            if before == Some(*inverse) {
                return Err(SynthesisError::Inconsistent { step: STEP });
            }
            let violated = self.violated(*inverse);
            if violated.is_empty() {
                let rate = inverse.inverse().ok_or(SynthesisError::Inconsistent { step: STEP })?;
                return Ok(BestRate { rate, cut: cut.clone() });
            }
            cuts = violated.iter().map(|far| self.cut(far)).collect();
        }
    }

    /// Tests the rate `1 / inverse`, scaled by the numerator of `inverse`.
    fn violated(&mut self, inverse: ExactRatio) -> Vec<FixedBitSet> {
        // Capacities sum to less than 2^64 and weights to at most 2^24, so the products fit.
        let scaled = |e: &crate::network::NetworkEdge| u128::from(e.capacity) * inverse.numerator();
        let capacities: Vec<u128> = self.network.edges().iter().map(scaled).collect();
        let supplies: Vec<u128> = self.weights.iter().map(|w| w * inverse.denominator()).collect();
        self.check.violated(&Supplied { capacities: &capacities, supplies: &supplies, growing: None }, SETS)
    }
}
