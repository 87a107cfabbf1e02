//! Fresh names: the number that is taken.

use kbc_passes::testing::FreshNames;

#[test]
fn the_first_free_number_is_taken() {
    let mut f = FreshNames::default();
    let mut some = |hints: &[&str]| -> Vec<String> { hints.iter().map(|h| f.name(h).to_string()).collect() };
    assert_eq!(some(&["x", "x", "x_3", "x", "x", "x_2"]), ["x", "x_2", "x_3", "x_4", "x_5", "x_2_2"]);
    f.free(&"x_4".into());
    f.free(&"x".into());
    let mut some = |hints: &[&str]| -> Vec<String> { hints.iter().map(|h| f.name(h).to_string()).collect() };
    assert_eq!(some(&["x", "x", "x", "x"]), ["x", "x_4", "x_6", "x_7"]);
}
