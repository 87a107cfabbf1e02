//! Random runs: one run in an order drawn from a seed by the policy of an adversary.

use super::machine::{Enabled, Machine, Wrong};
use super::plan::Plan;
use kbc_numerics::rng::Rng;

/// The policy by which an adversary chooses among possible events.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Policy {
    /// Any event; streams advance more often than transfers.
    Uniform,
    /// One rank, or what it sends, or what is sent to it, advances only when nothing else can.
    Crawl,
    /// The event that became possible last comes first, so old transfers stay in transit for long.
    LastInFirstOut,
}

struct Chooser {
    policy: Policy,
    victim: u32,
    /// Bits for the parts of the victim that are slow: 1 its streams, 2 what it sends, 4 what is
    /// sent to it.
    slow: usize,
    /// Factor by which transfers advance less often than with equal chances.
    lazy: usize,
}

impl Chooser {
    fn new(plan: &Plan<'_>, seed: u64, rng: &mut Rng) -> Chooser {
        let policy = match seed % 3 {
            0 => Policy::LastInFirstOut,
            1 => Policy::Crawl,
            _ => Policy::Uniform,
        };
        Chooser {
            policy,
            victim: rng.below(plan.ranks as usize) as u32,
            slow: 1 + rng.below(7),
            lazy: [0, 1, 3, 15][rng.below(4)],
        }
    }

    fn slowed(&self, plan: &Plan<'_>, x: &Enabled) -> bool {
        let ev = &plan.events[x.event as usize];
        if ev.of_thread() {
            return self.slow & 1 != 0 && ev.rank == self.victim;
        }
        (self.slow & 2 != 0 && ev.rank == self.victim) || (self.slow & 4 != 0 && ev.on(plan) == self.victim)
    }

    fn choose(&self, plan: &Plan<'_>, all: &[Enabled], rng: &mut Rng) -> u32 {
        let among = |rng: &mut Rng, keep: &dyn Fn(&Enabled) -> bool| -> Option<usize> {
            let n = all.iter().filter(|x| keep(x)).count();
            let k = rng.below(n);
            (0..all.len()).filter(|i| keep(&all[*i])).nth(k)
        };
        let at = match self.policy {
            Policy::Uniform if !rng.one_in(self.lazy + 1) => {
                among(rng, &|x| plan.events[x.event as usize].of_thread())
            }
            Policy::Crawl if !rng.one_in(64) => among(rng, &|x| !self.slowed(plan, x)),
            Policy::LastInFirstOut if !rng.one_in(16) => {
                (0..all.len()).max_by_key(|i| (all[*i].born, all[*i].event))
            }
            _ => None,
        };
        all[at.unwrap_or_else(|| rng.below(all.len()))].event
    }
}

/// Runs to the end. Returns the number of events.
pub(super) fn run(plan: &Plan<'_>, seed: u64) -> Result<u64, Wrong> {
    let mut rng = Rng::new(seed);
    let chooser = Chooser::new(plan, seed, &mut rng);
    let mut m = Machine::new(plan);
    while !m.enabled.is_empty() {
        let e = chooser.choose(plan, &m.enabled, &mut rng);
        m.step(e, &mut |n| rng.below(n))?;
    }
    if m.over() { Ok(u64::from(m.happened)) } else { Err(m.stuck()) }
}
