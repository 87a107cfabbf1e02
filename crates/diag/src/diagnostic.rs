//! Messages: a code, words, places, and what to do.

use crate::span::Span;

/// How bad it is. Errors end the run with exit code 1, warnings do not.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Severity {
    /// The input is wrong.
    Error,
    /// The input may not mean what its writer thinks.
    Warning,
    /// Something worth knowing.
    Note,
}

/// A place and what is to be said about it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Label {
    /// The place.
    pub span: Span,
    /// The words at it.
    pub text: String,
}

/// One message. Build with [`Diagnostic::error`] and the chained methods.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Diagnostic {
    /// `E021` and so on; `kbc explain` has a page for each.
    pub code: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// What happened, in the user's words.
    pub title: String,
    /// The places; the first one is the primary.
    pub labels: Vec<Label>,
    /// Further facts.
    pub notes: Vec<String>,
    /// What to do about it.
    pub help: Option<String>,
}

impl Diagnostic {
    /// An error with a code and a title.
    pub fn error(code: &'static str, title: impl Into<String>) -> Self {
        Diagnostic {
            code,
            severity: Severity::Error,
            title: title.into(),
            labels: vec![],
            notes: vec![],
            help: None,
        }
    }

    /// A warning with a code and a title.
    pub fn warning(code: &'static str, title: impl Into<String>) -> Self {
        Diagnostic { severity: Severity::Warning, ..Self::error(code, title) }
    }

    /// Sets the primary place (put first even if others were added before).
    pub fn primary(mut self, span: Span, text: impl Into<String>) -> Self {
        self.labels.insert(0, Label { span, text: text.into() });
        self
    }

    /// Adds a further place.
    pub fn secondary(mut self, span: Span, text: impl Into<String>) -> Self {
        if !span.is_none() {
            self.labels.push(Label { span, text: text.into() });
        }
        self
    }

    /// Adds a fact.
    pub fn note(mut self, text: impl Into<String>) -> Self {
        self.notes.push(text.into());
        self
    }

    /// Says what to do.
    pub fn help(mut self, text: impl Into<String>) -> Self {
        self.help = Some(text.into());
        self
    }

    /// The primary place, or none.
    pub fn span(&self) -> Span {
        self.labels.first().map_or(Span::NONE, |l| l.span)
    }
}

/// Messages of a run, in the order found. [`Diagnostics::finish`] sorts and folds them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Diagnostics {
    /// The messages.
    pub list: Vec<Diagnostic>,
}

impl Diagnostics {
    /// No message.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds one.
    pub fn push(&mut self, d: Diagnostic) {
        self.list.push(d);
    }

    /// Adds all of another list.
    pub fn extend(&mut self, other: Diagnostics) {
        self.list.extend(other.list);
    }

    /// Whether there is an error among them.
    pub fn has_errors(&self) -> bool {
        self.list.iter().any(|d| d.severity == Severity::Error)
    }

    /// Whether there is nothing at all.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Sorted by place, duplicates folded.
    pub fn finish(mut self) -> Self {
        self.list.sort_by(|a, b| {
            (a.span(), a.severity, a.code, &a.title).cmp(&(b.span(), b.severity, b.code, &b.title))
        });
        self.list.dedup();
        self
    }
}

impl From<Diagnostic> for Diagnostics {
    fn from(d: Diagnostic) -> Self {
        Diagnostics { list: vec![d] }
    }
}

impl From<Box<Diagnostic>> for Diagnostics {
    fn from(d: Box<Diagnostic>) -> Self {
        Diagnostics::from(*d)
    }
}

impl IntoIterator for Diagnostics {
    type Item = Diagnostic;
    type IntoIter = std::vec::IntoIter<Diagnostic>;
    fn into_iter(self) -> Self::IntoIter {
        self.list.into_iter()
    }
}
