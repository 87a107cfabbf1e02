//! Spans: byte ranges in files, and the table of the files that they point into.

use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, OnceLock};

/// The index of a file in a [`SourceMap`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct FileId(pub u32);

/// A byte range `start..end` of one file. Equality compares all fields. [`Span::NONE`] stands for
/// "no place".
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Span {
    /// The file.
    pub file: FileId,
    /// The first byte.
    pub start: u32,
    /// The byte after the last one.
    pub end: u32,
}

impl Span {
    /// The span of items that come from no text.
    pub const NONE: Span = Span { file: FileId(u32::MAX), start: 0, end: 0 };

    /// Returns the range `start..end` of `file`.
    pub fn new(file: FileId, start: usize, end: usize) -> Span {
        Span { file, start: start as u32, end: end as u32 }
    }

    /// Returns the smallest span that covers both. If the spans are in different files, the result
    /// is `self`. If one of them is [`Span::NONE`], the result is the other one.
    pub fn to(self, other: Span) -> Span {
        if self.is_none() {
            return other;
        }
        if other.is_none() || other.file != self.file {
            return self;
        }
        Span { file: self.file, start: self.start.min(other.start), end: self.end.max(other.end) }
    }

    /// Returns whether this span points nowhere.
    pub fn is_none(self) -> bool {
        self.file.0 == u32::MAX
    }
}

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_none() {
            f.write_str("-")
        } else {
            write!(f, "{}:{}..{}", self.file.0, self.start, self.end)
        }
    }
}

/// A value with its source position.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Spanned<T> {
    /// The value.
    pub node: T,
    /// The position.
    pub span: Span,
}

impl<T> Spanned<T> {
    /// Pairs a value with its position.
    pub fn new(node: T, span: Span) -> Self {
        Spanned { node, span }
    }
}

/// The mark that some editors put at the beginning of a file. It is not part of the text.
pub const BYTE_ORDER_MARK: char = '\u{feff}';

/// A shared, immutable text. Clones share the same memory.
#[derive(Clone, Debug)]
pub enum Text {
    /// A text that is built into the program.
    Built(&'static str),
    /// A text that this run read or generated.
    Read(Arc<String>),
}

impl std::ops::Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Text::Built(text) => text,
            Text::Read(text) => text,
        }
    }
}

impl From<Arc<String>> for Text {
    fn from(text: Arc<String>) -> Text {
        Text::Read(text)
    }
}

impl From<String> for Text {
    fn from(text: String) -> Text {
        Text::Read(Arc::new(text))
    }
}

impl From<&String> for Text {
    fn from(text: &String) -> Text {
        text.clone().into()
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Text {
        text.to_owned().into()
    }
}

/// One source text.
#[derive(Clone, Debug)]
pub struct SourceFile {
    /// The name shown in messages: a path as the user gave it, or a name such as `<lib>/ring.kb`.
    pub name: Cow<'static, str>,
    /// The text.
    pub text: Text,
    /// The byte offsets at which lines begin, computed on first use.
    lines: OnceLock<Vec<usize>>,
}

impl SourceFile {
    /// Returns the number of the line that contains a byte, from 0, and the byte at which that line
    /// begins.
    fn line(&self, at: usize) -> (usize, usize) {
        let lines = self.lines.get_or_init(|| {
            std::iter::once(0).chain(self.text.match_indices('\n').map(|m| m.0 + 1)).collect()
        });
        let line = lines.partition_point(|l| *l <= at).saturating_sub(1);
        (line, lines[line])
    }
}

/// All source texts of a run.
#[derive(Clone, Debug, Default)]
pub struct SourceMap {
    files: Vec<SourceFile>,
}

impl SourceMap {
    /// Adds a text and returns its id.
    pub fn add(&mut self, name: impl Into<String>, text: impl Into<Text>) -> FileId {
        self.push(name.into().into(), text.into())
    }

    /// Adds a text that is built into the program, without a copy.
    pub fn add_builtin(&mut self, name: &'static str, text: &'static str) -> FileId {
        self.push(name.into(), Text::Built(text))
    }

    fn push(&mut self, name: Cow<'static, str>, text: Text) -> FileId {
        self.files.push(SourceFile { name, text, lines: OnceLock::new() });
        FileId(self.files.len() as u32 - 1)
    }

    /// Returns the file with this id, if it exists.
    pub fn get(&self, id: FileId) -> Option<&SourceFile> {
        self.files.get(id.0 as usize)
    }

    /// Iterates over all files with their ids.
    pub fn files(&self) -> impl Iterator<Item = (FileId, &SourceFile)> {
        self.files.iter().enumerate().map(|(i, f)| (FileId(i as u32), f))
    }

    /// Returns the line and the column of the start of a span, both from 1. The column counts
    /// characters; a byte order mark does not count.
    pub fn line_col(&self, span: Span) -> Option<(usize, usize)> {
        let file = self.get(span.file)?;
        let at = (span.start as usize).min(file.text.len());
        let (line, start) = file.line(at);
        let before = file.text.get(start..at)?;
        let before = if line == 0 { before.strip_prefix(BYTE_ORDER_MARK).unwrap_or(before) } else { before };
        let (line, col) = (line + 1, before.chars().count() + 1);
        Some((line, col))
    }
}
