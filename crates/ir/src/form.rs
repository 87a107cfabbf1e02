//! Forms of a counter: what a wait asks for, and what it leaves behind.
//!
//! The module owns the arithmetic of counters, for all code that proves or executes a schedule.
//! `docs/adr/019-barrier-forms.md` states what each form is for and when its use is correct.
//!
//! The functions below count the notifies of one counter since its allocation. `landed` is the
//! number of notifies that have reached the counter, and `spent` the number that earlier waits have
//! used up.

use std::fmt;

/// Form of a counter, which determines the condition of a wait. A notify adds 1 in every form.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Form {
    /// `wait s >= n`: passes after n notifies since the allocation, when the counter was zero.
    Epoch,
    /// `wait s & 1 == e`: passes when the lowest bit is e.
    Sense {
        /// Whether the counter is zero when the domain is allocated.
        fresh: bool,
    },
    /// `wait s -= n`: passes when the counter is at least n, and subtracts n in the same step.
    Clearing {
        /// Whether the counter is zero when the domain is allocated.
        fresh: bool,
    },
}

impl Form {
    /// Returns the name of the form. In a declaration, epoch is the default and has no word.
    pub fn name(self) -> &'static str {
        match self {
            Form::Epoch => "epoch",
            Form::Sense { .. } => "sense",
            Form::Clearing { .. } => "clearing",
        }
    }

    /// Returns the name of the form with its article.
    pub fn article(self) -> &'static str {
        match self {
            Form::Epoch => "an epoch",
            Form::Sense { .. } => "a sense",
            Form::Clearing { .. } => "a clearing",
        }
    }

    /// Checks whether the counter is known to be zero when the domain is allocated.
    pub fn fresh(self) -> bool {
        match self {
            Form::Epoch => true,
            Form::Sense { fresh } | Form::Clearing { fresh } => fresh,
        }
    }

    /// Checks whether a wait may ask for `value`: a sense is 0 or 1, and the amount to subtract is
    /// not negative.
    pub fn allows(self, value: i64) -> bool {
        match self {
            Form::Epoch => true,
            Form::Sense { .. } => (0..=1).contains(&value),
            Form::Clearing { .. } => value >= 0,
        }
    }

    /// Returns the total number of notifies that a wait for `value` requires, if earlier waits used
    /// up `spent`.
    pub fn target(self, spent: u64, value: i64) -> u64 {
        let value = u64::try_from(value).unwrap_or(0);
        match self {
            Form::Epoch => value,
            Form::Sense { .. } => spent + u64::from(spent & 1 != value),
            Form::Clearing { .. } => spent.saturating_add(value),
        }
    }

    /// Checks whether a wait for `value` passes when `landed` notifies have reached the counter.
    pub fn passes(self, landed: u64, spent: u64, value: i64) -> bool {
        match self {
            Form::Sense { .. } => (landed & 1) as i64 == value,
            Form::Epoch | Form::Clearing { .. } => landed >= self.target(spent, value),
        }
    }

    /// Returns how many notifies are used up after a wait for `value` has passed. For a sense these
    /// are all that have landed.
    pub fn spends(self, landed: u64, spent: u64, value: i64) -> u64 {
        match self {
            Form::Sense { .. } => landed,
            Form::Epoch | Form::Clearing { .. } => self.target(spent, value),
        }
    }

    /// Returns the text between the counter and the value in a wait.
    pub fn asks(self) -> &'static str {
        match self {
            Form::Epoch => ">=",
            Form::Sense { .. } => "& 1 ==",
            Form::Clearing { .. } => "-=",
        }
    }
}

impl fmt::Display for Form {
    /// Writes the form as in a declaration, with a leading space; nothing for an epoch.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Form::Epoch => Ok(()),
            Form::Sense { fresh } | Form::Clearing { fresh } => {
                write!(f, " {}{}", self.name(), if *fresh { " fresh" } else { "" })
            }
        }
    }
}
