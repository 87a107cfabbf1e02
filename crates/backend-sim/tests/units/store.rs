//! Ranges of written elements.

use kbc_backend_sim::store::Ranges;

/// Ranges agree with a plain set of flags, over all short sequences of additions.
#[test]
fn ranges_agree_with_flags() {
    let spans: Vec<(u64, u64)> = (0..6).flat_map(|s| (0..=6 - s).map(move |l| (s, l))).collect();
    for a in &spans {
        for b in &spans {
            for c in &spans {
                let (mut ranges, mut flags) = (Ranges::default(), [false; 8]);
                for (s, l) in [a, b, c] {
                    ranges.add(*s, *l);
                    flags[*s as usize..(*s + *l) as usize].fill(true);
                }
                for (s, l) in &spans {
                    let gap = (*s..*s + *l).find(|i| !flags[*i as usize]);
                    assert_eq!(ranges.first_gap(*s, *l), gap, "{a:?} {b:?} {c:?} {s} {l}");
                    let window = ranges.window(*s, *l);
                    for i in 0..*l {
                        assert_eq!(window.contains(i), flags[(*s + i) as usize]);
                    }
                }
            }
        }
    }
}
