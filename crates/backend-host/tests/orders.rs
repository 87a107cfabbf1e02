//! Tests of memory orders: they follow from fences, and a missing fence leaves no order.

use crate::kernels::{RING, complete, with};
use kbc_backend_host::orders::Orders;
use kbc_tiles::tile::{Kernel, Op, path};

/// Returns the orders of notifies and waits, in the order of the text: `release`, `acquire` or `-`.
fn orders(kernel: &Kernel) -> Vec<&'static str> {
    let found = Orders::of(kernel);
    let mut out = vec![];
    for (_, op) in path::ops(kernel) {
        match op {
            Op::Notify { .. } => out.push(if found.releases(op) { "release" } else { "-" }),
            Op::Wait { .. } => out.push(if found.acquires(op) { "acquire" } else { "-" }),
            _ => {}
        }
    }
    out
}

const PUT: &str = "store @w[0][0] at (0) = $a[8]";
const READ: &str = "load $a[8] = @w[0][0]";
const TELL: &str = "notify (0) : @s[0]";
const AWAIT: &str = "wait @s[0] >= call + 1";

#[test]
fn fences_become_orders() {
    assert_eq!(orders(&complete(RING)), ["release", "acquire", "release", "acquire"]);
    for (statements, expected) in [
        (
            &[PUT, "fence.release", TELL, TELL, AWAIT, "fence.acquire", READ][..],
            &["release", "release", "acquire"][..],
        ),
        // Nothing is published, and nothing is read.
        (&[TELL, AWAIT], &["-", "-"]),
        // Two waits before one fence.
        (&[AWAIT, AWAIT, "fence.acquire", READ], &["acquire", "acquire"]),
        // The fence covers the first message. The notify has to publish that one, whatever else.
        (&["fence.release", PUT, TELL], &["release"]),
        // A rewrite needs the knowledge that a read is over, and no fence.
        (&[AWAIT, PUT, "fence.release", TELL], &["acquire", "release"]),
        // What a rank alone reaches is no access.
        (&[AWAIT, "load $a[8] = %x[0]", "store %y[0] = $a[8]"], &["-"]),
        // Peers fetch what this rank writes in the next call, and it reads that itself in between.
        (
            &[
                "store @w[0][0] = $a[8]",
                "fence.release",
                TELL,
                AWAIT,
                "fence.acquire",
                "load $b[8] = @w[0][0] at (0)",
                "fence.release",
                TELL,
                AWAIT,
                READ,
            ],
            &["release", "acquire", "release", "acquire"],
        ),
        (&["store @w[0][0] = $a[8]", "fence.release", TELL, READ, TELL], &["release", "release"]),
        // Calls follow each other: the fence at the end is before the notify of the next call.
        (&[TELL, "fence.release"], &["release"]),
        // On one of two paths.
        (&["if rank == 0", "  fence.release", TELL], &["release"]),
        (&["for i in 0..2", &format!("  {AWAIT}"), "fence.acquire", READ], &["acquire"]),
    ] {
        assert_eq!(orders(&with(statements)), expected, "{statements:#?}");
    }
}

/// The mutants of a proven kernel: each fence that is removed takes an order away.
#[test]
fn a_missing_fence_leaves_no_order() {
    let all = [PUT, "fence.release", TELL, AWAIT, "fence.acquire", READ];
    for fence in ["fence.release", "fence.acquire"] {
        let rest: Vec<&str> = all.into_iter().filter(|s| *s != fence).collect();
        let left = if fence == "fence.release" { ["-", "acquire"] } else { ["release", "-"] };
        assert_eq!(orders(&with(&rest)), left);
    }
    // In a loop, the fence of the other loop does not stand in for the missing one.
    for fence in ["    fence.release\n", "    fence.acquire\n"] {
        for (at, _) in RING.match_indices(fence) {
            let mutant = format!("{}{}", &RING[..at], &RING[at + fence.len()..]);
            let kernel = complete(&mutant);
            assert_eq!(orders(&kernel).iter().filter(|o| **o == "-").count(), 1, "{mutant}");
            assert!(!Orders::of(&kernel).complete(&kernel));
        }
    }
}

/// A kernel with fences has an order at every notify and wait; one without fences has none.
#[test]
fn kernels_that_are_emitted_have_all_orders() {
    let complete_orders = |k: &Kernel| Orders::of(k).complete(k);
    assert!(complete_orders(&complete(RING)));
    assert!(complete_orders(&with(&[TELL, AWAIT])));
    // The second notify may need the fence.
    assert!(!complete_orders(&with(&[PUT, "fence.release", TELL, PUT, TELL])));
    assert!(!complete_orders(&with(&[PUT, AWAIT, READ, AWAIT, "fence.acquire", READ])));
}
