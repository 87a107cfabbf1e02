//! Sizes of tensors as expressions in the number of ranks and the count.

use kbc_tiles::package::{Sizes, fit_sizes};

fn shown(value: impl Fn(u64, u64) -> u64) -> String {
    let at: Vec<(Sizes, Vec<u64>)> = [(2, 10), (2, 11), (3, 10), (4, 24)]
        .map(|(nranks, count)| (Sizes { nranks, count }, vec![value(nranks, count)]))
        .to_vec();
    fit_sizes(&at).map_or_else(|| "none".into(), |e| e[0].to_string())
}

#[test]
fn forms_of_programs_are_found_and_others_are_not() {
    assert_eq!(shown(|_, _| 7), "7");
    assert_eq!(shown(|_, n| n), "count");
    assert_eq!(shown(|_, n| 3 * n + 2), "count * 3 + 2");
    assert_eq!(shown(|p, _| p), "nranks");
    assert_eq!(shown(|p, n| p * n), "nranks * count");
    assert_eq!(shown(|p, n| n / p), "none");
    assert_eq!(fit_sizes(&[]), None);
}
