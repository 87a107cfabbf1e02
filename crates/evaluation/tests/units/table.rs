//! Columns of a sweep.

use kbc_evaluation::sweep::table::plain;
use kbc_evaluation::testing::{computed, number};
use serde_json::Value;

#[test]
fn columns_compute_products_and_keep_words() {
    assert_eq!(computed("16 * 256"), Value::from(4096));
    assert_eq!(computed("6 / 4"), Value::from(1.5));
    assert_eq!(computed("ring_1d"), Value::from("ring_1d"));
    assert_eq!(computed("1 / 0"), Value::Null);
    assert_eq!(computed("nan"), Value::from("nan"));
}

#[test]
fn numbers_are_short() {
    assert_eq!(plain(&number(Some(1678.04), 3)), "1678.04");
    assert_eq!(plain(&number(Some(0.30000000000000004), 3)), "0.3");
    assert_eq!(plain(&number(Some(2.0), 3)), "2");
    assert_eq!(plain(&number(None, 3)), "");
}
