//! Waits that are repeated from call to call.

use kbc_checker::testing::{Wait, Waits};

/// Waits are those that were appended, in their order, however many of them repeat others.
#[test]
fn waits_are_those_that_were_appended() {
    let mut seed = 5u64;
    let mut roll = |n: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % n
    };
    for _ in 0..2000 {
        let (mut waits, mut plain) = (Waits::default(), vec![]);
        for call in 0..6 {
            for _ in 0..roll(3) {
                let (stream, op) = (roll(2) as u32, roll(2) as u32);
                let value = match roll(12) {
                    0 => i64::MIN,
                    1 => i64::MAX,
                    n => i64::from(call) * 2 + i64::from(n == 2),
                };
                let wait = Wait { call, stream, op, value };
                waits.push(wait);
                plain.push(wait);
            }
        }
        assert!(waits.iter().eq(plain.iter().copied()), "{plain:?}");
        for call in 0..7 {
            let of = plain.iter().copied().filter(|w| w.call as usize == call);
            assert!(waits.of(call).eq(of), "call {call} of {plain:?}");
        }
    }
}
