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
