//! Kinds of failures: what the code of an error says about who has to change what.

pub use crate::codes::FailureKind;
use crate::codes::find;
use crate::diagnostic::{Diagnostics, Severity};

impl FailureKind {
    /// Returns the kind of the errors with a code, which the table of codes states.
    pub fn of(code: &str) -> FailureKind {
        find(code).map_or(FailureKind::Invalid, |c| c.kind)
    }

    /// Returns the kind of the first error of several messages. Where they have several kinds, a
    /// failed proof or comparison is not reported as such: the input has another fault before it.
    pub fn of_all(found: &Diagnostics) -> FailureKind {
        let errors =
            || found.list.iter().filter(|d| d.severity == Severity::Error).map(|d| FailureKind::of(d.code));
        let first = errors().next().unwrap_or(FailureKind::Invalid);
        if first == FailureKind::Wrong {
            errors().find(|k| *k != FailureKind::Wrong).unwrap_or(first)
        } else {
            first
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Diagnostic;

    #[test]
    fn kinds_of_several_messages() {
        let of = |codes: &[&'static str]| {
            let list = codes.iter().map(|c| Diagnostic::error(c, "")).collect();
            FailureKind::of_all(&Diagnostics { list })
        };
        assert_eq!(of(&["E341", "E340"]), FailureKind::Wrong);
        assert_eq!(of(&["E341", "E005"]), FailureKind::Invalid);
        assert_eq!(of(&["E470"]), FailureKind::Unsupported);
        assert_eq!(of(&["E416"]), FailureKind::Usage);
        assert_eq!(of(&["E991"]), FailureKind::Bug);
        assert_eq!(of(&[]), FailureKind::Invalid);
    }
}
