//! Byte ranges in files, and the table of files they point into.

use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, OnceLock};

/// Index of a file in a [`SourceMap`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct FileId(pub u32);

/// A byte range `start..end` of one file. Equality ignores nothing; [`Span::NONE`] stands for "no place".
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Span {
    /// The file.
    pub file: FileId,
    /// First byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

impl Span {
    /// The span of things that come from no text.
    pub const NONE: Span = Span { file: FileId(u32::MAX), start: 0, end: 0 };

    /// The range `start..end` of `file`.
    pub fn new(file: FileId, start: usize, end: usize) -> Span {
        Span { file, start: start as u32, end: end as u32 }
    }

    /// The smallest span that covers both; spans of different files (or none) yield `self`, or the one that exists.
    pub fn to(self, other: Span) -> Span {
        if self.is_none() {
            return other;
        }
        if other.is_none() || other.file != self.file {
            return self;
        }
        Span { file: self.file, start: self.start.min(other.start), end: self.end.max(other.end) }
    }

    /// Whether this points nowhere.
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

/// A value and where it was written.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Spanned<T> {
    /// The value.
    pub node: T,
    /// Its place.
    pub span: Span,
}

impl<T> Spanned<T> {
    /// Pairs a value with its place.
    pub fn new(node: T, span: Span) -> Self {
        Spanned { node, span }
    }
}

/// What some editors put before a text; no part of it.
pub const BYTE_ORDER_MARK: char = '\u{feff}';

/// The characters of a text; whoever else needs them shares them.
#[derive(Clone, Debug)]
pub enum Text {
    /// Part of the program.
    Built(&'static str),
    /// Read or made by this run.
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

/// One source text. `name` is what messages show (a path as the user gave it, or `<lib>/ring.kb`).
#[derive(Clone, Debug)]
pub struct SourceFile {
    /// Name shown in messages.
    pub name: Cow<'static, str>,
    /// The text.
    pub text: Text,
    /// Where its lines begin, once somebody asks for one.
    lines: OnceLock<Vec<usize>>,
}

impl SourceFile {
    /// The number of the line that a byte is in, from 0, and where it begins.
    fn line(&self, at: usize) -> (usize, usize) {
        let lines = self.lines.get_or_init(|| {
            std::iter::once(0).chain(self.text.match_indices('\n').map(|m| m.0 + 1)).collect()
        });
        let line = lines.partition_point(|l| *l <= at).saturating_sub(1);
        (line, lines[line])
    }
}

/// All texts of a run.
#[derive(Clone, Debug, Default)]
pub struct SourceMap {
    files: Vec<SourceFile>,
}

impl SourceMap {
    /// Adds a text and returns its id.
    pub fn add(&mut self, name: impl Into<String>, text: impl Into<Text>) -> FileId {
        self.push(name.into().into(), text.into())
    }

    /// Adds a text that is part of the program, without a copy.
    pub fn add_builtin(&mut self, name: &'static str, text: &'static str) -> FileId {
        self.push(name.into(), Text::Built(text))
    }

    fn push(&mut self, name: Cow<'static, str>, text: Text) -> FileId {
        self.files.push(SourceFile { name, text, lines: OnceLock::new() });
        FileId(self.files.len() as u32 - 1)
    }

    /// The file of that id, if it exists.
    pub fn get(&self, id: FileId) -> Option<&SourceFile> {
        self.files.get(id.0 as usize)
    }

    /// All files with their ids.
    pub fn files(&self) -> impl Iterator<Item = (FileId, &SourceFile)> {
        self.files.iter().enumerate().map(|(i, f)| (FileId(i as u32), f))
    }

    /// Line and column, both from 1, of the start of a span; the column counts characters (a mark of the byte order is
    /// none).
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
