//! Forms of a counter: what a wait asks for, and what it leaves behind.
//!
//! Owns the arithmetic of counters, for whoever proves or executes a schedule; what a form is good for and when it is right
//! is `docs/adr/019-barrier-forms.md`.

use std::fmt;

/// What a wait for a counter asks for. A notify adds 1 in every form.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Form {
    /// `wait s >= n`: n notifies since the allocation, where the counter was zero.
    Epoch,
    /// `wait s & 1 == e`: the lowest bit is e.
    Sense {
        /// Zero when the domain is allocated.
        fresh: bool,
    },
    /// `wait s -= n`: at least n, which are then subtracted in the same step.
    Clearing {
        /// Zero when the domain is allocated.
        fresh: bool,
    },
}

impl Form {
    /// The word of its declaration; an epoch has none.
    pub fn name(self) -> &'static str {
        match self {
            Form::Epoch => "epoch",
            Form::Sense { .. } => "sense",
            Form::Clearing { .. } => "clearing",
        }
    }

    /// The same with an article.
    pub fn article(self) -> &'static str {
        match self {
            Form::Epoch => "an epoch",
            Form::Sense { .. } => "a sense",
            Form::Clearing { .. } => "a clearing",
        }
    }

    /// Whether the counter is known to be zero when the domain is allocated.
    pub fn fresh(self) -> bool {
        match self {
            Form::Epoch => true,
            Form::Sense { fresh } | Form::Clearing { fresh } => fresh,
        }
    }

    /// Whether a wait may ask for that: a sense is 0 or 1, and nothing below zero is taken.
    pub fn allows(self, value: i64) -> bool {
        match self {
            Form::Epoch => true,
            Form::Sense { .. } => (0..=1).contains(&value),
            Form::Clearing { .. } => value >= 0,
        }
    }

    /// How many notifies in all a wait for `value` is about, where the waits before it were about `spent`.
    pub fn target(self, spent: u64, value: i64) -> u64 {
        let value = u64::try_from(value).unwrap_or(0);
        match self {
            Form::Epoch => value,
            Form::Sense { .. } => spent + u64::from(spent & 1 != value),
            Form::Clearing { .. } => spent.saturating_add(value),
        }
    }

    /// Whether a wait passes when so many notifies have landed in all.
    pub fn passes(self, landed: u64, spent: u64, value: i64) -> bool {
        match self {
            Form::Sense { .. } => (landed & 1) as i64 == value,
            Form::Epoch | Form::Clearing { .. } => landed >= self.target(spent, value),
        }
    }

    /// What is spent once a wait has passed when so many notifies have landed: those it has heard of.
    pub fn spends(self, landed: u64, spent: u64, value: i64) -> u64 {
        match self {
            Form::Sense { .. } => landed,
            Form::Epoch | Form::Clearing { .. } => self.target(spent, value),
        }
    }

    /// What follows the counter in a wait, up to the value.
    pub fn asks(self) -> &'static str {
        match self {
            Form::Epoch => ">=",
            Form::Sense { .. } => "& 1 ==",
            Form::Clearing { .. } => "-=",
        }
    }
}

impl fmt::Display for Form {
    /// As in a declaration, with a blank before; nothing for an epoch.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Form::Epoch => Ok(()),
            Form::Sense { fresh } | Form::Clearing { fresh } => {
                write!(f, " {}{}", self.name(), if *fresh { " fresh" } else { "" })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is spent and what is asked for next, in each form.
    #[test]
    fn forms_count_as_they_say() {
        let (sense, clearing) = (Form::Sense { fresh: true }, Form::Clearing { fresh: true });
        assert_eq!((Form::Epoch.target(7, 3), Form::Epoch.target(0, -2)), (3, 0));
        assert_eq!(
            (sense.target(0, 0), sense.target(0, 1), sense.target(1, 1), sense.target(1, 0)),
            (0, 1, 1, 2)
        );
        assert_eq!((clearing.target(0, 3), clearing.target(3, 3), clearing.target(3, 0)), (3, 6, 3));
        assert!(sense.passes(3, 0, 1) && !sense.passes(2, 0, 1), "the bit alone");
        assert!(clearing.passes(7, 3, 3) && !clearing.passes(5, 3, 3));
        assert_eq!((sense.spends(3, 0, 1), clearing.spends(7, 3, 3)), (3, 6));
        assert_eq!(
            format!("{}{sense}{}", Form::Epoch, Form::Clearing { fresh: false }),
            " sense fresh clearing"
        );
    }
}
