//! Tests of machine code against the interpreter, bit for bit, on the hand-written schedules.

use crate::common;

use common::*;
use kbc_backend_sim::interp::{self, RunOptions};
use kbc_backend_sim::jit;

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
        let code = jit::compile(&spelled).unwrap_or_else(|d| panic!("{name}: {d:#?}"));
        assert!(code.stats().functions > 0 && code.stats().bytes > 0, "{name}: {:?}", code.stats());
        for seed in (0..20).map(Some).chain([None]) {
            let other = code.run_alone(&feeds, &options(4, seed)).unwrap();
            assert_eq!(Some(&base), other.as_ref(), "{name}, seed {seed:?}");
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
