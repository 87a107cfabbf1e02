//! Orbits of ranks.

use kbc_checker::Orbits;
use kbc_diag::FileId;
use kbc_ir::text;
use kbc_ir::walk::Program;

fn orbits(peer: &str, chunk: &str, n: u64, xor: bool) -> Result<Orbits, String> {
    let source = format!(
        "kir 1\nmodule @m\nmesh tp 8\nprops expanded allocated synchronized\n\nschedule calls first\n\
         buffer %y : f32[{n}] hbm temp\nwindow @w : f32[8 x {n}] hbm at 0\nsignal @s[1] arrival at 0\n\n\
         region @c over tp as (r of 8)\n  on v = %y line {n}\n  role all\n    stream main\n\
         \x20     put v[{chunk} of 8] -> ({peer}) : @w[0]\n      fence.release\n      notify ({peer}) : @s[0]\n\
         \x20     wait @s[0] >= 1\n"
    );
    let module = text::parse(FileId(0), &source).expect("a schedule");
    let program = Program::compile(module.schedule().expect("a schedule")).expect("names have values");
    Orbits::find(&program, 1, |stride, size, x| (stride, size, x) == (1, 8, xor))
}

#[test]
fn shifts_and_xors_are_found() {
    let ring = orbits("(r + 1) % 8", "r", 800, false).expect("a ring");
    assert_eq!((ring.first(), ring.size()), (&[0][..], 8));
    let (orbit, h) = ring.split(5);
    assert_eq!((orbit, ring.act(h, 0), ring.act(ring.inverse(h), 5)), (0, 5, 0));
    assert!(!ring.ordered(1, 2) && ring.ordered(3, 3));
    let cube = orbits("r ^ 2", "r", 800, true).expect("a cube");
    assert_eq!((cube.size(), cube.act(3, 5)), (8, 6));
}

#[test]
fn what_does_not_move_is_not() {
    assert!(orbits("(r + 1) % 8", "r", 800, true).is_err(), "the machine allows ^ only");
    assert!(orbits("7 - r", "r", 800, false).is_err(), "a reflection");
    assert!(orbits("(r + 1) % 8", "r", 801, false).is_err(), "chunks of 100 and of 101 elements");
    // The contents of the chunks do not matter.
    assert!(orbits("(r + 1) % 8", "0", 800, false).is_ok());
}
