//! Few values: one, or a list. Most selections are of one chunk, which needs no list.

use std::ops::Deref;

/// One value without an allocation, or several.
pub(crate) enum Few<T> {
    /// One.
    One(T),
    /// Any number.
    Many(Vec<T>),
}

impl<T> Deref for Few<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match self {
            Few::One(one) => std::slice::from_ref(one),
            Few::Many(list) => list,
        }
    }
}
