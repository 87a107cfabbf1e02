//! Labels of kernels: equal kernels have one label, and kernels with the same name are numbered.

use super::{expr, names};
use crate::name::Name;
use crate::scalar::ScalarFn;

/// Identities of kernels (name and text), with their labels and their printed lines.
pub(super) struct Labels {
    keys: Vec<(Name, String)>,
    labels: Vec<String>,
    /// The kernels as they are printed.
    pub lines: Vec<String>,
}

impl Labels {
    /// Assigns labels to kernels in order of first use. `show` prints a kernel with its label.
    pub fn new<'a, T>(
        list: &[&'a T],
        name: impl Fn(&'a T) -> &'a Name,
        show: impl Fn(&str, &T) -> String,
    ) -> Labels {
        let mut keys: Vec<(Name, String)> = vec![];
        let mut kept = vec![];
        for k in list {
            let key = (name(k).clone(), show("", k));
            if !keys.contains(&key) {
                keys.push(key);
                kept.push(*k);
            }
        }
        let labels = names::labels(kept.iter().map(|k| name(k)));
        let lines = kept.iter().zip(&labels).map(|(k, l)| show(l, k)).collect();
        Labels { keys, labels, lines }
    }

    /// Returns the label of a kernel; the empty text if it has none.
    pub fn find(&self, key: &(Name, String)) -> &str {
        self.keys.iter().position(|k| k == key).map_or("", |i| &self.labels[i])
    }

    /// Returns the label of an elementwise function.
    pub fn function(&self, f: &ScalarFn) -> &str {
        self.find(&(f.name.clone(), expr::show_kernel("", f)))
    }
}
