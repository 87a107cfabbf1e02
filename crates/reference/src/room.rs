//! Memory for large lists of numbers, used again within an evaluation: new memory costs more than
//! what is computed in it, because the system clears every page.
//!
//! Each thread keeps its own lists, because disturbed evaluations run beside each other. They get
//! those of the evaluation before ([`take`], [`keep`]).

use super::Value;
use std::cell::RefCell;
use std::sync::Arc;

/// Smallest number of elements of a list that is kept, 512 KiB. The C library keeps smaller ones.
pub(super) const LARGE: usize = 1 << 16;

/// How much longer a list may be than what it is used for.
const WASTE: usize = 4;

thread_local! {
    static KEPT: RefCell<Vec<Vec<f64>>> = const { RefCell::new(vec![]) };
}

/// Returns an empty list with room for `n` numbers.
pub(super) fn for_numbers(n: usize) -> Vec<f64> {
    if n < LARGE {
        return Vec::with_capacity(n);
    }
    let mut list = filled(n);
    list.clear();
    list
}

/// Returns `n` numbers of any value.
pub(super) fn filled(n: usize) -> Vec<f64> {
    let kept = (n >= LARGE).then(|| {
        KEPT.with_borrow_mut(|all| {
            // The smallest that fits.
            let fits = |(_, list): &(usize, &Vec<f64>)| (n..=WASTE * n).contains(&list.capacity());
            let found = all.iter().enumerate().filter(fits).min_by_key(|(_, list)| list.capacity());
            let found = found.map(|(i, _)| i);
            if found.is_none() {
                // Larger lists are probably needed no more.
                all.retain(|list| list.capacity() <= n);
            }
            found.map(|i| all.swap_remove(i))
        })
    });
    let Some(mut list) = kept.flatten() else { return vec![0.0; n] };
    list.resize(n, 0.0);
    list
}

/// Takes a list that is needed no more.
pub(super) fn give_back(list: Vec<f64>) {
    if list.capacity() >= LARGE {
        KEPT.with_borrow_mut(|all| all.push(list));
    }
}

/// Takes the lists of a value that is needed no more, if nothing else has it.
pub(super) fn give_back_value(value: Value) {
    if let Some(t) = Arc::into_inner(value.t) {
        give_back(t.value);
        give_back(t.bound);
    }
    if let Some(pending) = value.pending.and_then(Arc::into_inner) {
        give_back(pending.size);
    }
}

/// Returns the lists that this thread keeps, the longest first.
pub(super) fn take() -> Vec<Vec<f64>> {
    let mut all = KEPT.take();
    all.sort_by_key(|list| std::cmp::Reverse(list.capacity()));
    all
}

/// Keeps lists that another thread has kept.
pub(super) fn keep(lists: Vec<Vec<f64>>) {
    KEPT.with_borrow_mut(|all| all.extend(lists));
}

/// Returns everything to the system.
pub(super) fn clear() {
    KEPT.with_borrow_mut(Vec::clear);
}
