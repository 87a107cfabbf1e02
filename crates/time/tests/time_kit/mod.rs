//! Schedules for the tests of time, as text: collectives on p ranks in a few lines each.
#![allow(dead_code, reason = "each test file uses its own part")]

use kbc_diag::FileId;
use kbc_ir::schedule::Schedule;
use kbc_ir::text;
use kbc_machine::topology::Topology;
use kbc_time::{Delivery, Observer, TimeOptions, Timing, Work, simulate};

/// Parses a schedule from `.kir` text.
pub fn parse(source: &str) -> Schedule {
    let module = text::parse(FileId(0), source).unwrap_or_else(|d| panic!("{d:#?}\n{source}"));
    module.schedule().expect("a schedule").clone()
}

/// Parses a machine from its text.
pub fn machine(text: &str) -> Topology {
    Topology::parse(text, FileId(0)).unwrap_or_else(|d| panic!("{text}: {d:#?}"))
}

/// Simulates one call.
pub fn time(s: &Schedule, topo: &Topology) -> Timing {
    simulate(s, topo, &TimeOptions::default()).unwrap_or_else(|d| panic!("{d:#?}"))
}

/// Returns one region on `p` ranks with coordinate `r` and a line `v` of n f32, windows of `slots`
/// slots that hold all of it, and `counters` counters. `body` is the body of the stream `main` of
/// all ranks, indented by eight.
pub fn one_region(p: u64, n: u64, slots: u64, counters: u64, body: &str) -> String {
    let streams = format!("    stream main\n{body}");
    streams_region(p, n, slots, counters, &streams)
}

/// Returns [`one_region`] with any streams, indented by four.
pub fn streams_region(p: u64, n: u64, slots: u64, counters: u64, streams: &str) -> String {
    format!(
        "kir 1\nmodule @m\nmesh tp {p}\nprops expanded allocated synchronized\n\nschedule calls first\n\
         buffer %y : f32[{n}] hbm temp\nwindow @w : f32[{} x {}] hbm at 0\nsignal @s[{}] arrival at 0\n\n\
         region @c over tp as (r of {p})\n  on v = %y line {n}\n  role all\n{streams}",
        slots.max(1),
        n.max(1),
        counters.max(1),
    )
}

const RECEIVE: &str = "          wait @s[0] >= call * TOTAL + s + 1\n          fence.acquire\n";

fn ring_part(p: u64, first: u64, shift: i64, receive: &str) -> String {
    let (first, last, shift) = (first as i64, (first + p - 1) as i64, shift - first as i64);
    let total = 2 * (p as i64 - 1);
    format!(
        "        for s in {first}..{last}
          put v[(r - s - {shift}) % {p} of {p}] -> ((r + 1) % {p}) : @w[s]
          fence.release
          notify ((r + 1) % {p}) : @s[0]
{}          {receive}
",
        RECEIVE.replace("TOTAL", &total.to_string())
    )
    .replace("- -", "+ ")
}

/// Returns a ring all_reduce of n elements.
pub fn ring(p: u64, n: u64) -> String {
    let (a, b) = (0, p as i64 - 1);
    let reduce = format!("combine sum v[(r - s - 1) % {p} of {p}], @w[s]");
    let copy = format!("copy v[(r - s + {b}) % {p} of {p}] = @w[s]");
    let body = ring_part(p, 0, a, &reduce) + &ring_part(p, p - 1, -1, &copy);
    one_region(p, n, 2 * (p - 1), 1, &body)
}

/// Returns a ring reduce_scatter (rank r ends with block r + 1) or all_gather (rank r begins with
/// block r).
pub fn half_ring(p: u64, n: u64, reduce: bool) -> String {
    let receive = if reduce { "combine sum " } else { "copy " }.to_string()
        + &format!("v[(r - s - 1) % {p} of {p}]{} @w[s]", if reduce { "," } else { " =" });
    one_region(
        p,
        n,
        p - 1,
        1,
        &ring_part(p, 0, 0, &receive).replace(&format!("call * {}", 2 * (p - 1)), "call"),
    )
}

/// Every rank sends chunk `chunk` (an expression in r and k) to every other; `receive` uses slot
/// `k - 1`.
pub fn direct(p: u64, n: u64, chunk: &str, receive: &str) -> String {
    let body = format!(
        "        for k in 1..{p}
          put v{chunk} -> ((r + k) % {p}) : @w[k - 1]
          fence.release
          notify ((r + k) % {p}) : @s[k - 1]
        for k in 1..{p}
          wait @s[k - 1] >= call + 1
          fence.acquire
          {receive}
"
    );
    one_region(p, n, p - 1, p - 1, &body)
}

/// Returns a recursive doubling all_reduce on a power of two.
pub fn doubling(p: u64, n: u64) -> String {
    let rounds = p.ilog2();
    let body = format!(
        "        for k in 0..{rounds}
          put v -> (r ^ (1 << k)) : @w[k]
          fence.release
          notify (r ^ (1 << k)) : @s[k]
          wait @s[k] >= call + 1
          fence.acquire
          combine sum v, @w[k]
"
    );
    one_region(p, n, u64::from(rounds), u64::from(rounds), &body)
}

/// Returns a broadcast from rank 0 along the order of ranks in `pieces` pieces.
pub fn chain(p: u64, n: u64, pieces: u64) -> String {
    let body = format!(
        "        for s in 0..{pieces}
          if r > 0
            wait @s[0] >= call + s + 1
            fence.acquire
            copy v[s of {pieces}] = @w[s]
          if r < {} 
            put v[s of {pieces}] -> (r + 1) : @w[s]
            fence.release
            notify (r + 1) : @s[0]
",
        p - 1
    );
    one_region(p, n, pieces, 1, &body)
}

/// An observer that keeps the delivered messages.
#[derive(Default)]
pub struct Seen {
    pub messages: Vec<Delivery>,
    pub work: Vec<Work>,
}

impl Observer for Seen {
    fn delivered(&mut self, message: &Delivery) {
        self.messages.push(*message);
    }
    fn works(&mut self, work: &Work) {
        self.work.push(*work);
    }
}
