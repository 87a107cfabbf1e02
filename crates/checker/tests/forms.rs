//! Test of the rule for sense and clearing counters (E358, SYNC-2; `docs/adr/019-barrier-forms.md`)
//! against every interleaving. On random schedules of three ranks, the checker rejects exactly
//! those in which some wait may pass without a notify that is meant for it, or miss one.

use crate::common;

use common::schedule;
use kbc_checker::{CheckOptions, check};
use std::collections::BTreeSet;
use std::fmt::Write;

const RANKS: usize = 3;
/// Counters of a rank: waits subtract from counter 0; counter 1 + w is a sense that rank w changes.
const COUNTERS: usize = 1 + RANKS;

#[derive(Clone, Copy, Debug)]
enum Op {
    /// Peer and counter.
    Notify(usize, usize),
    /// A wait that subtracts this number from counter 0.
    Take(u64),
    /// A wait for the sense that rank w changes.
    Look(usize, u64),
}

/// The notifies that a wait needs: how many of each rank for it and those before it; for a sense,
/// the total number.
#[derive(Clone, Debug)]
struct Meant {
    of: [u64; RANKS],
}

struct Draw(u64);

impl Draw {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % n
    }
}

/// Returns streams of operations that finish in at least one order, and the meaning of waits in
/// that order.
fn program(draw: &mut Draw) -> ([Vec<Op>; RANKS], [Vec<Option<Meant>>; RANKS]) {
    let (mut ops, mut meant): ([Vec<Op>; RANKS], [Vec<Option<Meant>>; RANKS]) = Default::default();
    // Notifies of counter 0 of each rank that no wait has taken: the writer, and what it had done
    // and knew to be done. Notifies of senses are listed by writer.
    let mut told: [Vec<(usize, [usize; RANKS])>; RANKS] = Default::default();
    let mut senses: [[Vec<[usize; RANKS]>; RANKS]; RANKS] = Default::default();
    let (mut seen, mut known) = ([[0usize; RANKS]; RANKS], [[0usize; RANKS]; RANKS]);
    let mut takes = [[0u64; RANKS]; RANKS];
    let join =
        |a: &mut [usize; RANKS], b: &[usize; RANKS]| a.iter_mut().zip(b).for_each(|(a, b)| *a = (*a).max(*b));
    for _ in 0..7 + draw.below(6) {
        let r = draw.below(RANKS);
        if ops[r].len() >= 6 {
            continue;
        }
        known[r][r] = ops[r].len() + 1;
        let open = told[r].len();
        let (op, means) = match draw.below(5) {
            0 | 1 if open > 0 => {
                let k = 1 + draw.below(open.min(2));
                let mut heard = vec![];
                for _ in 0..k {
                    // A wait first takes notifies known to have arrived, then others in order of
                    // arrival.
                    let there = |t: &(usize, [usize; RANKS])| known[r][t.0] >= t.1[t.0];
                    let at = told[r].iter().position(there).unwrap_or(0);
                    heard.push(told[r].remove(at));
                }
                for (w, clock) in &heard {
                    takes[r][*w] += 1;
                    join(&mut known[r], clock);
                }
                (Op::Take(k as u64), Some(Meant { of: takes[r] }))
            }
            2 => {
                let w = (r + 1 + draw.below(2)) % RANKS;
                let sense = senses[r][w].len() & 1;
                // A wait that misses a notify that is already there is the error sought.
                if seen[r][w] & 1 != sense {
                    let clock = senses[r][w][seen[r][w]];
                    join(&mut known[r], &clock);
                    seen[r][w] += 1;
                }
                let mut of = [0; RANKS];
                of[w] = seen[r][w] as u64;
                (Op::Look(w, sense as u64), Some(Meant { of }))
            }
            3 => {
                let q = (r + 1 + draw.below(2)) % RANKS;
                senses[q][r].push(known[r]);
                (Op::Notify(q, 1 + r), None)
            }
            _ => {
                let q = (r + 1 + draw.below(2)) % RANKS;
                told[q].push((r, known[r]));
                (Op::Notify(q, 0), None)
            }
        };
        ops[r].push(op);
        meant[r].push(means);
    }
    (ops, meant)
}

/// The position of every rank, and how many notifies of each rank have arrived in each counter of
/// each rank.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
struct State {
    at: [usize; RANKS],
    landed: [[[u64; RANKS]; COUNTERS]; RANKS],
    taken: [u64; RANKS],
}

/// Checks whether in some order a wait passes before all notifies meant for it were issued, or
/// finds a sense that is not meant for it.
fn goes_wrong(ops: &[Vec<Op>; RANKS], meant: &[Vec<Option<Meant>>; RANKS]) -> bool {
    let issued = |s: &State, w: usize, q: usize, c: usize| {
        ops[w][..s.at[w]].iter().filter(|o| matches!(o, Op::Notify(p, d) if (*p, *d) == (q, c))).count()
            as u64
    };
    let mut seen = BTreeSet::from([State::default()]);
    let mut open = vec![State::default()];
    while let Some(s) = open.pop() {
        let mut next = vec![];
        for r in 0..RANKS {
            for (q, c) in (0..RANKS).flat_map(|q| (0..COUNTERS).map(move |c| (q, c))) {
                if s.landed[q][c][r] < issued(&s, r, q, c) {
                    let mut t = s.clone();
                    t.landed[q][c][r] += 1;
                    next.push(t);
                }
            }
            let Some(op) = ops[r].get(s.at[r]) else { continue };
            let mut t = s.clone();
            t.at[r] += 1;
            match *op {
                Op::Notify(..) => next.push(t),
                Op::Take(k) => {
                    let landed: u64 = s.landed[r][0].iter().sum();
                    if landed < s.taken[r] + k {
                        continue;
                    }
                    let m = meant[r][s.at[r]].as_ref().expect("a wait");
                    if (0..RANKS).any(|w| issued(&s, w, r, 0) < m.of[w]) {
                        return true;
                    }
                    t.taken[r] += k;
                    next.push(t);
                }
                Op::Look(w, sense) => {
                    let landed = s.landed[r][1 + w][w];
                    let m = meant[r][s.at[r]].as_ref().expect("a wait");
                    if landed > m.of[w] {
                        return true;
                    }
                    if landed & 1 == sense {
                        next.push(t);
                    }
                }
            }
        }
        for t in next {
            if seen.insert(t.clone()) {
                open.push(t);
            }
        }
        assert!(seen.len() < 2_000_000, "too many states");
    }
    false
}

fn text(ops: &[Vec<Op>; RANKS]) -> Option<String> {
    let all = || ops.iter().flatten();
    let takes = all().any(|o| matches!(o, Op::Take(_)));
    let looks = all().any(|o| matches!(o, Op::Look(..)));
    // A signal that is only notified or only waited for is not well-formed.
    let sides = |c: bool| all().any(|o| matches!(o, Op::Notify(_, d) if (*d > 0) == c));
    if takes != sides(false) || looks != sides(true) {
        return None;
    }
    let mut out =
        "kir 1\nmodule @m\nmesh tp 3\n\nschedule calls first\nbuffer %x : f32[4] hbm input 0 : f32[4]\n"
            .to_string();
    if takes {
        out += "signal @c[1] credit clearing fresh\n";
    }
    if looks {
        out += "signal @s[3] barrier sense fresh\n";
    }
    out += "\nregion @r over tp as (r of 3)\n";
    for (r, list) in ops.iter().enumerate().filter(|x| !x.1.is_empty()) {
        writeln!(out, "  role r{r} where r == {r}\n    stream main").ok()?;
        for op in list {
            match op {
                Op::Notify(q, 0) => writeln!(out, "      notify ({q}) : @c[0]").ok()?,
                Op::Notify(q, c) => writeln!(out, "      notify ({q}) : @s[{}]", c - 1).ok()?,
                Op::Take(k) => writeln!(out, "      wait @c[0] -= {k}").ok()?,
                Op::Look(w, e) => writeln!(out, "      wait @s[{w}] & 1 == {e}").ok()?,
            }
        }
    }
    Some(out)
}

#[test]
fn the_rule_is_what_every_interleaving_says() {
    let mut draw = Draw(2026);
    let (mut right, mut wrong, mut only_rule) = (0, 0, 0);
    for _ in 0..6000 {
        let (ops, meant) = program(&mut draw);
        let Some(text) = text(&ops) else { continue };
        let v = check(&schedule("random", &text), &CheckOptions::default());
        let bad = goes_wrong(&ops, &meant);
        assert_eq!(!v.ok(), bad, "{text}\n{:#?}", v.errors.list);
        *(if bad { &mut wrong } else { &mut right }) += 1;
        only_rule += u32::from(!v.ok() && v.errors.list.iter().all(|d| d.code == "E358"));
    }
    assert!(
        right > 500 && wrong > 500 && only_rule > 400,
        "{right} right, {wrong} wrong, {only_rule} by the rule alone"
    );
}
