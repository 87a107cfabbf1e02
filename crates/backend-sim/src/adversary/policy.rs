//! Policies: how the three adversaries choose which stream or transfer advances next.

use kbc_numerics::rng::Rng;

/// The policy by which an adversary chooses among possible moves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Policy {
    /// Any move, with equal chances.
    Uniform,
    /// One rank, or what it sends, or what is sent to it, advances only when nothing else can.
    Crawl,
    /// The move that became possible last comes first, so old transfers stay in transit for long.
    LastInFirstOut,
}

impl Policy {
    /// All policies, in the order in which seeds use them.
    pub const ALL: [Policy; 3] = [Policy::Uniform, Policy::Crawl, Policy::LastInFirstOut];

    /// Returns the name for reports.
    pub fn name(self) -> &'static str {
        match self {
            Policy::Uniform => "uniform",
            Policy::Crawl => "crawl",
            Policy::LastInFirstOut => "last-in-first-out",
        }
    }
}

/// A possible move.
#[derive(Clone, Copy, Debug)]
pub(super) enum Move {
    /// A stream advances.
    Thread(usize),
    /// A transfer reads its source or lands.
    Flight(usize),
    /// A notify lands.
    Note(usize),
    /// The oldest postponed local operation of a stream is executed.
    Postponed(usize),
}

/// A possible move with the facts that a policy uses.
pub(super) struct Candidate {
    pub(super) what: Move,
    /// When it became possible.
    pub(super) born: u64,
    /// The rank that acts, and the rank that is written to.
    pub(super) from: u64,
    pub(super) to: u64,
}

/// A policy with its random choices for one run.
pub(super) struct Chooser {
    policy: Policy,
    victim: u64,
    /// Bits for the parts of the victim that are slow: 1 its streams, 2 what it sends, 4 what is
    /// sent to it.
    slow: usize,
    /// Factor by which transfers advance less often than with equal chances.
    lazy: usize,
}

impl Chooser {
    pub(super) fn new(policy: Policy, ranks: u64, rng: &mut Rng) -> Chooser {
        Chooser {
            policy,
            victim: rng.below(ranks as usize) as u64,
            slow: 1 + rng.below(7),
            lazy: [0, 1, 3, 15][rng.below(4)],
        }
    }

    fn slowed(&self, c: &Candidate) -> bool {
        match c.what {
            Move::Thread(_) | Move::Postponed(_) => self.slow & 1 != 0 && c.from == self.victim,
            Move::Flight(_) | Move::Note(_) => {
                (self.slow & 2 != 0 && c.from == self.victim) || (self.slow & 4 != 0 && c.to == self.victim)
            }
        }
    }

    /// Returns the index of one of the candidates, of which there is at least one.
    pub(super) fn choose(&self, all: &[Candidate], rng: &mut Rng) -> usize {
        let among = |rng: &mut Rng, keep: &dyn Fn(&Candidate) -> bool| -> Option<usize> {
            let n = all.iter().filter(|c| keep(c)).count();
            let k = rng.below(n);
            all.iter().enumerate().filter(|(_, c)| keep(c)).nth(k).map(|(i, _)| i)
        };
        let threads = |c: &Candidate| matches!(c.what, Move::Thread(_));
        let chosen = match self.policy {
            Policy::Uniform if !rng.one_in(self.lazy + 1) => among(rng, &threads),
            Policy::Uniform => None,
            Policy::Crawl if rng.one_in(64) => None,
            Policy::Crawl => among(rng, &|c| !self.slowed(c)),
            Policy::LastInFirstOut if rng.one_in(16) => None,
            Policy::LastInFirstOut => all.iter().enumerate().max_by_key(|(_, c)| c.born).map(|(i, _)| i),
        };
        chosen.unwrap_or_else(|| rng.below(all.len()))
    }
}
