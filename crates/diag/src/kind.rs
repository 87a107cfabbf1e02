//! Kinds of failures: what the code of an error says about who has to change what.

use crate::diagnostic::{Diagnostics, Severity};

/// What an error says about the input, or about kbc.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum FailureKind {
    /// The input was understood, and a proof, a comparison or a check of it fails.
    Wrong,
    /// The input has no meaning: its form, its names, its types or its sizes.
    Invalid,
    /// The input may be right, and kbc cannot do this with it.
    Unsupported,
    /// A flag, a value of the command line, or a file that cannot be read or written.
    Usage,
    /// kbc contradicts itself.
    Bug,
}

/// Codes of proofs, comparisons and checks that fail.
const WRONG: [&str; 46] = [
    "E039", "E101", "E102", "E103", "E104", "E110", "E111", "E112", "E113", "E119", "E335", "E336", "E337",
    "E338", "E339", "E340", "E341", "E342", "E343", "E344", "E345", "E346", "E347", "E348", "E349", "E350",
    "E351", "E352", "E353", "E356", "E357", "E358", "E361", "E362", "E365", "E366", "E367", "E388", "E430",
    "E452", "E453", "E454", "E455", "E534", "E545", "E549",
];

/// Further codes of this kind: results of evaluations, and of tests of kbc.
const WRONG_IN_EVALUATIONS: [&str; 8] = ["E565", "E566", "E585", "E586", "E993", "E994", "E996", "E997"];

/// Codes of limits of kbc and of its targets.
const UNSUPPORTED: [&str; 43] = [
    "E040", "E215", "E227", "E228", "E233", "E235", "E290", "E316", "E317", "E331", "E332", "E354", "E355",
    "E368", "E369", "E370", "E373", "E374", "E402", "E403", "E406", "E408", "E431", "E432", "E448", "E450",
    "E451", "E457", "E458", "E470", "E471", "E472", "E521", "E522", "E538", "E548", "E550", "E562", "E564",
    "E580", "E593", "E594", "E596",
];

/// Codes of errors of kbc itself.
const BUG: [&str; 6] = ["E905", "E906", "E990", "E991", "E992", "E995"];

impl FailureKind {
    /// Returns the kind of the errors with a code.
    pub fn of(code: &str) -> FailureKind {
        // Files and folders (E41x), values on the command line (E42x), and `-p` (E902 to E904).
        let usage = code.starts_with("E41") || code.starts_with("E42") || ("E902"..="E904").contains(&code);
        match code {
            _ if usage => FailureKind::Usage,
            _ if BUG.contains(&code) => FailureKind::Bug,
            _ if WRONG.contains(&code) || WRONG_IN_EVALUATIONS.contains(&code) => FailureKind::Wrong,
            _ if UNSUPPORTED.contains(&code) => FailureKind::Unsupported,
            _ => FailureKind::Invalid,
        }
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

    /// Returns its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            FailureKind::Wrong => "wrong",
            FailureKind::Invalid => "invalid",
            FailureKind::Unsupported => "unsupported",
            FailureKind::Usage => "usage",
            FailureKind::Bug => "bug",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Diagnostic;
    use crate::codes::find;
    use std::collections::BTreeSet;

    #[test]
    fn every_code_of_a_list_exists_once() {
        let all: Vec<&str> = [&WRONG[..], &WRONG_IN_EVALUATIONS, &UNSUPPORTED, &BUG].concat();
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len());
        for code in all {
            assert!(find(code).is_some(), "{code} has no page");
            assert_ne!(FailureKind::of(code), FailureKind::Invalid, "{code}");
        }
    }

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
