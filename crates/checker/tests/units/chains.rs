//! Chains of notifies, compared with vector clocks.

use kbc_checker::testing::{Chains, Clock, Digit, Group, Link, Recent};

/// A notify: what the chains and the clocks say that it transfers.
struct IssuedNotify {
    link: Link,
    clock: Clock,
}

/// Streams of one kind each, with chains and with clocks.
struct Pair {
    group: Group,
    chains: Chains,
    clocks: Vec<Clock>,
    pos: Vec<u32>,
    recent: Recent,
}

impl Pair {
    fn new(ranks: u64, digits: Vec<Digit>) -> Pair {
        let group = Group::new(ranks, digits);
        let walked = group.reps.len();
        let clocks = vec![Clock::new(ranks as usize, &group); walked];
        Pair { chains: Chains::new(walked), clocks, pos: vec![0; walked], group, recent: Recent::default() }
    }

    fn notify(&mut self, stream: usize) -> IssuedNotify {
        self.pos[stream] += 1;
        let mut clock = self.clocks[stream].clone();
        clock.raise(self.group.reps[stream] as usize, self.pos[stream]);
        IssuedNotify { link: self.chains.link(stream, self.pos[stream]), clock }
    }

    fn wait(&mut self, stream: usize, told: &IssuedNotify, moved: u64) {
        self.pos[stream] += 1;
        self.chains.heard(stream, told.link, moved);
        self.clocks[stream].join(&self.group, moved, 1, &told.clock, &mut self.recent);
    }

    /// Returns how many entries of the clock of a stream that are not 0 the chains find. Panics if
    /// the chains claim more than the clocks.
    fn found(&self, stream: usize) -> (u64, u64) {
        let (mut found, mut all) = (0, 0);
        let known = |rank, upto| self.chains.known(&self.group, stream, rank, upto);
        for rank in (0..self.group.ranks).filter(|r| *r != self.group.reps[stream]) {
            let most = self.clocks[stream].get(rank as usize);
            assert!(!known(rank, most + 1), "rank {rank} is known up to {most} only");
            if most > 0 {
                all += 1;
                found += u64::from(known(rank, most));
            }
        }
        (found, all)
    }
}

fn shift(stride: u64, size: u64) -> Digit {
    Digit { stride, size, xor: false }
}

fn xor(stride: u64, size: u64) -> Digit {
    Digit { stride, size, xor: true }
}

/// In every round the rank notifies, and waits for the peer that `moved` names. Chains find all
/// that clocks know.
fn all_is_found(ranks: u64, digits: Vec<Digit>, moved: &[u64]) {
    let mut pair = Pair::new(ranks, digits);
    for h in moved {
        let told = pair.notify(0);
        pair.wait(0, &told, *h);
        let (found, all) = pair.found(0);
        assert_eq!(found, all, "after {} waits", pair.pos[0] / 2);
    }
}

#[test]
fn rings_grids_and_cubes_are_found() {
    all_is_found(13, vec![shift(1, 13)], &[12; 40]);
    all_is_found(12, vec![shift(1, 12)], &[5; 40]);
    // Rows of a grid, then columns, several rounds each.
    let rounds = [[1u64; 4].as_slice(), &[5; 8]].concat();
    all_is_found(15, vec![shift(5, 3), shift(1, 5)], &rounds);
    all_is_found(16, vec![xor(1, 16)], &[1, 2, 4, 8, 1, 2, 4, 8]);
}

/// Every peer notifies once, in order: only the notify itself and the one before it tell of a rank.
#[test]
fn what_comes_directly_is_found() {
    let mut pair = Pair::new(31, vec![shift(1, 31)]);
    for h in 1..31 {
        let told = pair.notify(0);
        pair.wait(0, &told, h);
        let pos = told.clock.get(0);
        assert!(pair.chains.known(&pair.group, 0, h, pos), "{h}");
        pair.found(0);
    }
}

/// Chains never claim more than clocks, whatever the order of notifies and waits, on groups of one
/// and of several orbits, and where every rank is walked.
#[test]
fn chains_claim_no_more_than_clocks() {
    let mut x = 7u64;
    let mut draw = |n: usize| {
        x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (x >> 33) as usize % n
    };
    let (mut found, mut all) = (0, 0);
    for (ranks, digits) in [
        (9, vec![]),
        (12, vec![shift(1, 12)]),
        (12, vec![shift(3, 4)]),
        (16, vec![xor(1, 16)]),
        (16, vec![xor(4, 4)]),
        (24, vec![shift(12, 2), shift(1, 6)]),
        (30, vec![shift(5, 6), shift(1, 5)]),
    ] {
        for _ in 0..20 {
            let mut pair = Pair::new(ranks, digits.clone());
            let walked = pair.group.reps.len();
            let elements: Vec<u64> = (0..ranks).map(|q| pair.group.split(q).1).collect();
            let some = 1 + draw(4);
            let elements: Vec<u64> = (0..some).map(|_| elements[draw(elements.len())]).collect();
            let mut sent: Vec<IssuedNotify> = vec![];
            for _ in 0..60 {
                match draw(3) {
                    0 => sent.push(pair.notify(draw(walked))),
                    _ if !sent.is_empty() => {
                        let told = sent.swap_remove(draw(sent.len()));
                        pair.wait(draw(walked), &told, elements[draw(some)]);
                    }
                    _ => {}
                }
            }
            for stream in 0..walked {
                let (f, a) = pair.found(stream);
                found += f;
                all += a;
            }
        }
    }
    // The search is limited, but it does find most of what there is.
    assert!(found * 10 > all * 6, "{found} of {all}");
}
