//! Walks: guards that are kept, and operations that are resolved when a stream comes to them.

use kbc_diag::FileId;
use kbc_ir::schedule::Schedule;
use kbc_ir::text::parse;
use kbc_ir::walk::{Brief, Cursor, Outline, Program, Step, TakenGuards, Walks};

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

/// Returns a schedule on 5 ranks in which rank 1 has a role, which `set` names with its ranks, and
/// uses the slot `slot`.
fn one_role(set: &str, slot: &str) -> Schedule {
    let text = format!(
        "kir 1\nmodule @written\nmesh r 5\nprops expanded allocated synchronized\n\n\
         schedule calls any\nbuffer %x : f32[5] hbm input 0 : f32[5]\nbuffer %y : f32[5] hbm output 0 : f32[5]\n\
         window @w : f32[4 x 1] hbm at 0\nsignal @s[2] arrival at 64\n\n\
         region @a over r\n  on v = %x line 5 of 5\n  on w = %y line 5 of 5\n  role {set}\n    stream main\n      \
         record begun\n      copy w[r of 5] = v[r of 5]\n      \
         put v[1 of 5] -> ((r + 1) % 5) : @w[{slot}]\n      fence.release\n      \
         notify ((r + 1) % 5) : @s[call % 2]\n      await begun\n      \
         if r == 1\n        wait @s[call % 2] >= call + 1\n        fence.acquire\n      \
         else\n        fence.release\n      \
         for k in 0..2\n        copy w[k of 5] = @w[k]\n        fence.acquire\n      \
         combine sum w[3 of 5], @w[{slot}]\n      get w[4 of 5] <- (r + 2) : v[4 of 5]\n      \
         fence.complete\n"
    );
    let module = parse(FileId::default(), &text).unwrap_or_else(|d| panic!("{d:#?}"));
    module.schedule().expect("it has a schedule").clone()
}

/// What rank 1 does in a call, as steps and as brief steps, up to the end or a fault.
fn of_rank_1(program: &Program<'_>, call: i64) -> (Vec<String>, Vec<String>) {
    let (mut cursor, mut whole) = (Cursor::new(program, 1, 0, call), vec![]);
    while let Some(step) = cursor.next_step().transpose() {
        whole.push(format!("{step:?}"));
        if step.is_err() {
            break;
        }
    }
    let outline = Outline::new(program, 4);
    let mut walks = Walks::new(&outline, [(1, 0)].into_iter());
    walks.restart(&outline, 0, call);
    let (mut out, mut brief) = ((Brief::Over, 0), vec![]);
    loop {
        let fault = walks.next(&outline, 0, &mut out).err();
        brief.push(format!("{:?}", fault.as_ref().map_or(Ok(out), Err)));
        if fault.is_some() || out.0 == Brief::Over {
            return (whole, brief);
        }
    }
}

/// The operations of a role for listed ranks, which are resolved when a stream comes to them, are
/// those of a role with a condition, which are resolved before, and so are their faults.
#[test]
fn written_operations_are_those_that_are_resolved_before() {
    for (slot, length) in [("call % 2 * 2 + 1", 17), ("call * 3", 17), ("5 / (call - 1)", 0)] {
        let (listed, chosen) = (one_role("role_of_1 in [1]", slot), one_role("one where r == 1", slot));
        let listed = Program::compile(&listed).unwrap_or_else(|d| panic!("{d:#?}"));
        let chosen = Program::compile(&chosen).unwrap_or_else(|d| panic!("{d:#?}"));
        assert_eq!(listed.ops, chosen.ops);
        for call in 0..4 {
            let (steps, brief) = of_rank_1(&listed, call);
            assert_eq!((&steps, &brief), (&of_rank_1(&chosen, call).0, &of_rank_1(&chosen, call).1));
            if call == 0 && length > 0 {
                assert_eq!((steps.len(), brief.len()), (length, length + 1), "{steps:#?}");
            }
        }
        let last = of_rank_1(&listed, 3).0;
        assert_eq!(last.iter().any(|s| s.starts_with("Err")), slot == "call * 3", "{last:#?}");
    }
}

/// A name without a value is an error before any stream comes to it.
#[test]
fn names_in_written_operations_must_exist() {
    let s = one_role("role_of_1 in [1]", "call % 2 + nowhere");
    let d = Program::compile(&s).expect_err("`nowhere` has no value");
    assert_eq!((d.code, &d.title[..]), ("E301", "`nowhere` has no value in region a"));
}
