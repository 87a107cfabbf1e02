//! Cursors that keep what guards decided.

use kbc_diag::FileId;
use kbc_ir::schedule::Schedule;
use kbc_ir::text::parse;
use kbc_ir::walk::{Cursor, Program, Step, TakenGuards};

/// Returns a schedule on 5 ranks with guards in loops, one of which is `guard`.
fn schedule(guard: &str) -> Schedule {
    let text = format!(
        "kir 1\nmodule @guards\nmesh r 5\nprops expanded allocated synchronized\n\n\
         schedule calls any\nbuffer %x : f32[5] hbm input 0 : f32[5]\nbuffer %y : f32[5] hbm output 0 : f32[5]\n\n\
         region @a over r\n  on v = %x line 5 of 5\n  on w = %y line 5 of 5\n  role all\n    stream main\n      \
         for s in 0..90\n        if s % 5 == r\n          copy w[r of 5] = v[r of 5]\n        \
         else\n          if {guard}\n            copy w[s % 5 of 5] = v[s % 5 of 5]\n"
    );
    let module = parse(FileId::default(), &text).unwrap_or_else(|d| panic!("{d:#?}"));
    module.schedule().expect("it has a schedule").clone()
}

/// Returns all steps of a cursor.
fn steps<'p>(cursor: &mut Cursor<'p>) -> Vec<Step<'p>> {
    std::iter::from_fn(|| cursor.next_step().expect("every operation has a meaning")).collect()
}

/// A cursor that keeps guards takes the steps of one that evaluates them, in every call. If a guard
/// depends on the call, nothing is kept.
#[test]
fn kept_guards_decide_as_before() {
    for (guard, repeats) in [("s * r % 3 == 1", true), ("s % 3 == call % 3", false)] {
        let s = schedule(guard);
        let program = Program::compile(&s).unwrap_or_else(|d| panic!("{d:#?}"));
        assert_eq!(program.control_repeats(), repeats, "{guard}");
        let mut lengths = vec![];
        for rank in 0..5 {
            let mut guards = TakenGuards::default();
            for call in 0..4 {
                let expected = steps(&mut Cursor::new(&program, rank, 0, call));
                let mut cursor = Cursor::again(&program, rank, 0, call, guards);
                assert_eq!(steps(&mut cursor), expected, "{guard}, rank {rank}, call {call}");
                guards = cursor.into_guards();
                lengths.push(expected.len());
            }
        }
        assert!(lengths.iter().all(|n| *n < 90), "guards leave operations out: {lengths:?}");
    }
}
