//! Ranks that are chosen.

use kbc_views::record::ranks::Ranks;

#[test]
fn ranges_and_single_ranks() {
    let r = Ranks::parse("0..2, 5", 6).expect("sound");
    let have: Vec<u64> = (0..7).filter(|i| r.has(*i)).collect();
    assert_eq!(have, [0, 1, 5]);
    assert!(Ranks::ALL.has(u64::MAX));
    for text in ["", "a", "1..", "2..2", "3..1", "0..7", "6", "0,,1", "18446744073709551615"] {
        assert_eq!(Ranks::parse(text, 6).expect_err(text).code, "E413", "{text}");
    }
}
