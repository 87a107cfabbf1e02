//! Diagnostics: messages with a code, a title, labelled places and advice.

use crate::span::Span;

/// The severity of a message. Errors end the run with exit code 1, warnings do not.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Severity {
    /// The input is wrong.
    Error,
    /// The input may not mean what its author intended.
    Warning,
    /// A fact worth knowing.
    Note,
}

/// A place in a source text, with the words that a message shows there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Label {
    /// The place.
    pub span: Span,
    /// The words shown at the place.
    pub text: String,
}

/// A change of a source text: the range `span` is replaced by `text`. The range is empty for an
/// insertion.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Edit {
    /// The range that is replaced.
    pub span: Span,
    /// The text that takes its place.
    pub text: String,
}

/// A message. It is built with [`Diagnostic::error`] and the chained methods.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Diagnostic {
    /// The code, such as `E021`. `kbc explain` has a page for each code.
    pub code: &'static str,
    /// The severity.
    pub severity: Severity,
    /// What happened, in the user's terms.
    pub title: String,
    /// The labelled places. The first one is the primary place.
    pub labels: Vec<Label>,
    /// Further facts.
    pub notes: Vec<String>,
    /// Advice on how to solve the problem.
    pub help: Option<String>,
    /// The changes that `kbc fmt --migrate` makes, if the message is about an old form of the
    /// language. They belong together.
    pub edits: Vec<Edit>,
}

impl Diagnostic {
    /// Returns an error with this code and title.
    pub fn error(code: &'static str, title: impl Into<String>) -> Self {
        Diagnostic {
            code,
            severity: Severity::Error,
            title: title.into(),
            labels: vec![],
            notes: vec![],
            help: None,
            edits: vec![],
        }
    }

    /// Returns a warning with this code and title.
    pub fn warning(code: &'static str, title: impl Into<String>) -> Self {
        Diagnostic { severity: Severity::Warning, ..Self::error(code, title) }
    }

    /// Adds the primary place. It is put first even if other places were added before.
    pub fn primary(mut self, span: Span, text: impl Into<String>) -> Self {
        self.labels.insert(0, Label { span, text: text.into() });
        self
    }

    /// Adds a further place. [`Span::NONE`] is ignored.
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

    /// Sets the advice.
    pub fn help(mut self, text: impl Into<String>) -> Self {
        self.help = Some(text.into());
        self
    }

    /// Adds a change that rewrites an old form.
    pub fn edit(mut self, span: Span, text: impl Into<String>) -> Self {
        self.edits.push(Edit { span, text: text.into() });
        self
    }

    /// Returns the primary place, or [`Span::NONE`].
    pub fn span(&self) -> Span {
        self.labels.first().map_or(Span::NONE, |l| l.span)
    }
}

/// The messages of a run, in the order in which they were found. [`Diagnostics::finish`] sorts them
/// and removes duplicates.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Diagnostics {
    /// The messages.
    pub list: Vec<Diagnostic>,
}

impl Diagnostics {
    /// Returns an empty list.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a message.
    pub fn push(&mut self, d: Diagnostic) {
        self.list.push(d);
    }

    /// Adds all messages of another list.
    pub fn extend(&mut self, other: Diagnostics) {
        self.list.extend(other.list);
    }

    /// Returns whether the list contains an error.
    pub fn has_errors(&self) -> bool {
        self.list.iter().any(|d| d.severity == Severity::Error)
    }

    /// Returns whether the list contains no messages.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Returns the messages sorted by place, without duplicates.
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
