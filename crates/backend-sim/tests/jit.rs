//! Tests of machine code against the interpreter, bit for bit, on the hand-written schedules.

use crate::common;

use common::*;
use kbc_backend_sim::interp::{self, RunOptions};
use kbc_backend_sim::jit;
use kbc_ir::schedule::Schedule;

fn options(calls: u32, seed: Option<u64>) -> RunOptions {
    RunOptions { calls, seed, ..RunOptions::default() }
}

#[test]
fn good_schedules_give_the_interpreters_bits_in_every_interleaving() {
    for name in &names() {
        let s = load(name);
        let feeds = inputs(&s, 3);
        let base = interp::run(&s, &feeds, &options(4, None)).unwrap();
        let spelled = kbc_ir::host::with_host_region(&s);
        let mut code = jit::compile(&spelled).unwrap_or_else(|d| panic!("{name}: {d:#?}"));
        assert!(code.stats().functions > 0 && code.stats().bytes > 0, "{name}: {:?}", code.stats());
        for bytes in [usize::MAX, 1] {
            code.put_off_from(bytes);
            for seed in (0..20).map(Some).chain([None]) {
                let other = code.run_alone(&feeds, &options(4, seed)).unwrap();
                assert_eq!(Some(&base), other.as_ref(), "{name}, seed {seed:?}, put off from {bytes}");
            }
        }
        assert_right(name, &s, &feeds, &base);
    }
}

/// Machine code reads an input where the caller has it, unless the schedule writes the buffer: the
/// caller's data stays what it is, and every call begins with it.
#[test]
fn an_input_that_is_written_is_a_copy() {
    let s = parse(
        "kir 1
module @in_place
mesh tp 2
props expanded allocated synchronized
schedule calls any
buffer %x : i32[9] hbm input 0 : i32[9] partial(sum@tp)
buffer %y : i32[9] hbm output 0 : i32[9]
window @w : i32[2 x 9] hbm at 0
signal @arrived[1] arrival at 0

region @g over tp as (r of 2)
  on v = %x line 9
  promise all_reduce sum
  role all
    stream main
      put v -> (1 - r) : @w[call % 2]
      fence.release
      notify (1 - r) : @arrived[0]
      wait @arrived[0] >= call + 1
      fence.acquire
      combine sum v, @w[call % 2]

region @out local after @g
  role all
    stream main
      copy %y = %x
",
    );
    let feeds = inputs(&s, 2);
    let given = feeds.clone();
    let code = jit::compile(&s).unwrap();
    let result = code.run_alone(&feeds, &options(4, None)).unwrap();
    assert_eq!(feeds, given);
    assert_eq!(result, Some(interp::run(&s, &given, &options(4, None)).unwrap()));
}

/// An all-reduce of `n` elements on two ranks by one exchange; then `more`, which may wait for the
/// counter `@done`.
fn exchange(n: u64, more: &str) -> Schedule {
    parse(&format!(
        "kir 1
module @exchange
mesh tp 2
props expanded allocated synchronized
schedule calls any
buffer %x : i32[{n}] hbm input 0 : i32[{n}] partial(sum@tp)
buffer %t : i32[{n}] hbm temp
buffer %y : i32[{n}] hbm output 0 : i32[{n}]
window @w : i32[2 x {n}] hbm at 0
signal @arrived[1] arrival at 0
signal @done[1] arrival at 64

region @copied local
  role all
    stream main
      copy %t = %x

region @g over tp as (r of 2) after @copied
  on v = %t line {n}
  promise all_reduce sum
  role all
    stream main
      put v -> (1 - r) : @w[call % 2]
      fence.release
      notify (1 - r) : @arrived[0]
      wait @arrived[0] >= call + 1
      fence.acquire
      combine sum v, @w[call % 2]
{more}
region @out local after @g
  role all
    stream main
      copy %y = %t
"
    ))
}

/// A slot that is read twice, and in between what was put there is overwritten at its source: by
/// the rank's own copy, by a sum, and at the beginning of the next call.
#[test]
fn a_slot_that_is_read_again_holds_what_was_put_there() {
    let done = "      notify (1 - r) : @done[0]\n      wait @done[0] >= call + 1\n";
    for again in ["combine max v, @w[call % 2]", "copy v = @w[call % 2]", "copy v = v"] {
        let s = exchange(9, &format!("{done}      {again}\n"));
        let feeds = inputs(&s, 2);
        let want = interp::run(&s, &feeds, &options(4, None)).unwrap();
        let mut code = jit::compile(&s).unwrap();
        for bytes in [1, 40, usize::MAX] {
            code.put_off_from(bytes);
            for seed in (0..9).map(Some).chain([None]) {
                let got = code.run_alone(&feeds, &options(4, seed)).unwrap();
                assert_eq!(got.as_ref(), Some(&want), "{again}, seed {seed:?}, put off from {bytes}");
            }
        }
    }
}

/// Memories that are not written take none: windows whose slots are read where they come from,
/// inputs, and results that are copies.
#[test]
fn memory_is_counted_when_it_is_written() {
    let code_bytes = |bytes: usize, most: u64| {
        let s = exchange(100, "");
        let feeds = inputs(&s, 1);
        let mut code = jit::compile(&s).unwrap();
        code.put_off_from(bytes);
        let options = RunOptions { max_bytes: most, ..options(1, None) };
        let got = code.run_alone(&feeds, &options);
        got.map_err(|d| d.list[0].code).map(|got| got == interp::run(&s, &feeds, &RunOptions::default()).ok())
    };
    assert_eq!(code_bytes(1, 2 * 400), Ok(true));
    assert_eq!(code_bytes(1, 2 * 400 - 1), Err("E368"));
    assert_eq!(code_bytes(usize::MAX, 2 * 1600), Ok(true));
    assert_eq!(code_bytes(usize::MAX, 2 * 1600 - 1), Err("E368"));
}
