//! Renderers: the three forms of a message, which are text for people, one line for editors and one
//! JSON object for programs.
//!
//! This module owns the layout and nothing else. A span that lies outside its text, or in an
//! unknown file, is shown as far as possible and never causes a panic: a message with a wrong place
//! is better than no message.

use crate::diagnostic::{Diagnostic, Label, Severity};
use crate::escape_controls::{escape_controls, escape_name};
use crate::span::{BYTE_ORDER_MARK, FileId, SourceFile, SourceMap, Span};
use ariadne::{Cache, CharSet, Color, Config, IndexType, Report, ReportKind, Source};
use serde::Serialize;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::{self, Write};

/// Returns the lower-case word for a severity.
fn word(s: Severity) -> &'static str {
    match s {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Note => "note",
    }
}

/// Returns the byte range of a span that exists in the file: inside the text, not reversed, and on
/// character boundaries.
fn clamp(span: Span, file: &SourceFile) -> (usize, usize) {
    let text = &file.text;
    let down = |mut i: usize| {
        i = i.min(text.len());
        while !text.is_char_boundary(i) {
            i -= 1;
        }
        i
    };
    let start = down(span.start as usize);
    let mut end = (span.end as usize).min(text.len());
    while !text.is_char_boundary(end) {
        end += 1;
    }
    (start, end.max(start))
}

/// The files that a message points into, in the form that ariadne expects.
struct Files<'m> {
    map: &'m SourceMap,
    sources: BTreeMap<FileId, Source<Cow<'m, str>>>,
}

impl<'m> Cache<FileId> for Files<'m> {
    type Storage = Cow<'m, str>;

    fn fetch(&mut self, id: &FileId) -> Result<&Source<Cow<'m, str>>, impl fmt::Debug> {
        self.sources.get(id).ok_or("only files of the message are asked for")
    }

    fn display<'a>(&self, id: &'a FileId) -> Option<impl fmt::Display + 'a> {
        self.map.get(*id).map(|f| escape_name(&f.name).into_owned())
    }
}

/// A span of a file, in the form that ariadne expects.
type Range = (FileId, std::ops::Range<usize>);

/// Returns the message with all its words made safe to display.
fn shown(d: &Diagnostic) -> Diagnostic {
    let own = |text: &String| escape_controls(text).into_owned();
    Diagnostic {
        title: own(&d.title),
        labels: d.labels.iter().map(|l| Label { span: l.span, text: own(&l.text) }).collect(),
        notes: d.notes.iter().map(own).collect(),
        help: d.help.as_ref().map(own),
        edits: vec![],
        ..*d
    }
}

/// Renders a message for people: the title, the places in their source text, the notes and the
/// advice. The result has several lines and ends with a line end.
pub fn human(d: &Diagnostic, map: &SourceMap, color: bool) -> String {
    let d = &shown(d);
    let mut files = Files { map, sources: BTreeMap::new() };
    let mut labels: Vec<(Range, &str)> = vec![];
    for l in &d.labels {
        if let Some(file) = map.get(l.span.file) {
            // A byte order mark takes bytes but no column.
            let text = file.text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&file.text);
            let shown = escape_controls(text);
            let (start, end) = clamp(l.span, file);
            let mark = file.text.len() - text.len();
            // Escaped characters become longer and shift the characters after them.
            let place = |at: usize| {
                let at = at.saturating_sub(mark);
                if shown.len() == text.len() { at } else { escape_controls(&text[..at]).len() }
            };
            labels.push(((l.span.file, place(start)..place(end)), &l.text));
            files.sources.entry(l.span.file).or_insert_with(|| Source::from(shown));
        }
    }
    let Some((primary, _)) = labels.first() else { return without_place(d) };
    let (title, main) = match d.severity {
        Severity::Error => ("error", Color::Red),
        Severity::Warning => ("warning", Color::Yellow),
        Severity::Note => ("note", Color::Blue),
    };
    let mut report = Report::build(ReportKind::Custom(title, main), primary.clone())
        .with_code(d.code)
        .with_message(&d.title)
        .with_config(
            Config::new()
                .with_index_type(IndexType::Byte)
                .with_color(color)
                .with_char_set(CharSet::Unicode)
                .with_compact(false),
        );
    // The primary's file comes first. Within a file, places go from top to bottom, because ariadne
    // begins a new excerpt for a place above the previous one.
    let mut shown: Vec<usize> = (0..labels.len()).collect();
    shown.sort_by_key(|&i| (labels[i].0.0 != primary.0, labels[i].0.0, labels[i].0.1.start, i));
    for i in shown {
        let (range, text) = &labels[i];
        let label = ariadne::Label::new(range.clone()).with_color(if i == 0 { main } else { Color::Cyan });
        report = report.with_label(if text.is_empty() { label } else { label.with_message(text) });
    }
    for n in &d.notes {
        report = report.with_note(n);
    }
    if let Some(h) = &d.help {
        report = report.with_help(h);
    }
    let mut out: Vec<u8> = vec![];
    if report.finish().write(files, &mut out).is_err() {
        return without_place(d);
    }
    let text = String::from_utf8_lossy(&out);
    // ariadne colours a custom report kind even if the configuration disables colour.
    let text = if color { text.into_owned() } else { without_escapes(&text) };
    text.lines().fold(String::new(), |mut s, l| {
        s.push_str(l.trim_end());
        s.push('\n');
        s
    })
}

/// Returns the text without colour codes (escape, `[`, parameters, a letter).
fn without_escapes(text: &str) -> String {
    let mut parts = text.split("\u{1b}[");
    let mut s = parts.next().unwrap_or("").to_string();
    for p in parts {
        s.push_str(p.trim_start_matches(|c: char| !c.is_ascii_alphabetic()).get(1..).unwrap_or(""));
    }
    s
}

/// Renders a message that has no place.
fn without_place(d: &Diagnostic) -> String {
    let mut s = format!("[{}] {}: {}\n", d.code, word(d.severity), d.title);
    for l in d.labels.iter().filter(|l| !l.text.is_empty()) {
        s.push_str(&format!("  {}\n", l.text));
    }
    for n in &d.notes {
        s.push_str(&format!("  note: {n}\n"));
    }
    if let Some(h) = &d.help {
        s.push_str(&format!("  help: {h}\n"));
    }
    s
}

/// Renders a message as one line for editors and logs: `file:line:col: error[E021]: title`, without
/// a line end.
pub fn short(d: &Diagnostic, map: &SourceMap) -> String {
    let mut s = String::new();
    if let Some(at) = position(d.span(), map) {
        let _ = write!(s, "{}:{}:{}: ", escape_name(at.file), at.start.line, at.start.column);
    }
    let title = d.title.replace('\n', " ");
    let _ = write!(s, "{}[{}]: {title}", word(d.severity), d.code);
    escape_controls(&s).into_owned()
}

/// A message for programs. The field names are stable.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct JsonDiagnostic<'d> {
    /// The code, such as `E021`.
    pub code: &'d str,
    /// The severity: `error`, `warning` or `note`.
    pub severity: &'static str,
    /// What happened.
    pub title: &'d str,
    /// The labelled places. The first one is the primary place. Places in unknown files are left
    /// out.
    pub labels: Vec<JsonLabel<'d>>,
    /// Further facts.
    pub notes: &'d [String],
    /// Advice on how to solve the problem.
    pub help: Option<&'d str>,
}

/// A place with the words shown there.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct JsonLabel<'d> {
    /// Name of the file.
    pub file: &'d str,
    /// The first position.
    pub start: JsonPosition,
    /// The position after the last character.
    pub end: JsonPosition,
    /// The words shown at the place.
    pub text: &'d str,
}

/// A position. The line and the column (in characters) count from 1, the byte from 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct JsonPosition {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// Byte in the file, from 0.
    pub byte: usize,
}

/// Returns the position of a span, for the short and the JSON form.
fn position(span: Span, map: &SourceMap) -> Option<JsonLabel<'_>> {
    let file = map.get(span.file)?;
    let (start, end) = clamp(span, file);
    let at = |byte: usize| {
        let (line, column) = map.line_col(Span::new(span.file, byte, byte))?;
        Some(JsonPosition { line, column, byte })
    };
    Some(JsonLabel { file: &file.name, start: at(start)?, end: at(end)?, text: "" })
}

/// Returns the message as a value that can be put into a report.
pub fn to_json<'d>(d: &'d Diagnostic, map: &'d SourceMap) -> JsonDiagnostic<'d> {
    let labels =
        d.labels.iter().filter_map(|l| Some(JsonLabel { text: &l.text, ..position(l.span, map)? })).collect();
    JsonDiagnostic {
        code: d.code,
        severity: word(d.severity),
        title: &d.title,
        labels,
        notes: &d.notes,
        help: d.help.as_deref(),
    }
}

/// Renders a message as one JSON object on one line, without a line end.
pub fn json(d: &Diagnostic, map: &SourceMap) -> String {
    let text = serde_json::to_string(&to_json(d, map)).expect("strings and numbers always serialise");
    escape_controls(&text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map() -> (SourceMap, FileId) {
        let mut map = SourceMap::default();
        let id = map.add("a.kb", "// øæ\nlet x = 1 $ 2\nlast");
        (map, id)
    }

    fn at(start: usize, end: usize) -> Diagnostic {
        let (_, id) = map();
        Diagnostic::error("E001", "a title")
            .primary(Span::new(id, start, end), "here")
            .note("a fact")
            .help("do this")
    }

    #[test]
    fn bytes_are_counted_as_bytes() {
        let (map, _) = map();
        let d = at(18, 19);
        assert_eq!(short(&d, &map), "a.kb:2:11: error[E001]: a title");
        let h = human(&d, &map, false);
        let line = h.lines().find(|l| l.contains("let x")).expect("the line is shown");
        let mark = h.lines().skip_while(|l| !l.contains("let x")).nth(1).expect("a mark below");
        let col = |s: &str, c: char| s.chars().position(|x| x == c);
        assert_eq!(col(line, '$'), col(mark, '┬'), "{h}");
        assert!(h.contains("a.kb:2:11") && h.contains("a fact") && h.contains("do this"), "{h}");
    }

    #[test]
    fn a_mark_of_the_byte_order_is_no_column() {
        let mut map = SourceMap::default();
        let id = map.add("b.kb", "\u{feff}ö = 1\r\n\tx");
        for (start, end, place) in [(0, 0, "1:1"), (3, 5, "1:1"), (6, 7, "1:3"), (12, 13, "2:2")] {
            let d = Diagnostic::error("E001", "t").primary(Span::new(id, start, end), "x");
            assert_eq!(short(&d, &map), format!("b.kb:{place}: error[E001]: t"));
            assert!(human(&d, &map, false).contains(&format!("b.kb:{place} ")), "{}", human(&d, &map, false));
            let v: serde_json::Value = serde_json::from_str(&json(&d, &map)).expect("json");
            assert_eq!(v["labels"][0]["start"]["byte"], start);
        }
    }

    #[test]
    fn places_of_one_file_are_shown_in_its_order() {
        let (map, id) = map();
        let d = at(22, 24).secondary(Span::new(id, 11, 12), "there");
        let h = human(&d, &map, false);
        let (there, here) = (h.find("there").expect("shown"), h.find("here\n").expect("shown"));
        assert!(there < here && h.matches("a.kb").count() == 1, "{h}");
    }

    #[test]
    fn json_has_lines_columns_and_bytes() {
        let (map, _) = map();
        let text = json(&at(18, 19), &map);
        let v: serde_json::Value = serde_json::from_str(&text).expect("json");
        assert_eq!(v["labels"][0]["start"], serde_json::json!({ "line": 2, "column": 11, "byte": 18 }));
        assert_eq!(
            (v["code"].as_str(), v["severity"].as_str(), v["help"].as_str()),
            (Some("E001"), Some("error"), Some("do this"))
        );
        assert!(!text.contains('\n'));
    }

    #[test]
    fn spans_outside_the_text_are_shown_as_far_as_they_go() {
        let (map, id) = map();
        for (start, end) in [
            (0, 0),
            (4, 5),
            (5, 4),
            (4, 4),
            (22, 26),
            (26, 26),
            (27, 99),
            (9, 2),
            (u32::MAX as usize - 1, u32::MAX as usize),
        ] {
            let d = at(start, end);
            for color in [false, true] {
                assert!(human(&d, &map, color).contains("a title"), "{start}..{end}");
            }
            assert!(short(&d, &map).starts_with("a.kb:"), "{start}..{end}");
            assert!(json(&d, &map).contains("\"line\""), "{start}..{end}");
        }
        let unknown = Diagnostic::error("E001", "t")
            .primary(Span::new(FileId(9), 0, 1), "x")
            .secondary(Span::new(id, 0, 1), "y");
        assert!(human(&unknown, &map, false).contains('t'));
        let nowhere = Diagnostic::warning("E001", "t").primary(Span::NONE, "").help("h");
        assert_eq!(short(&nowhere, &map), "warning[E001]: t");
        assert_eq!(human(&nowhere, &map, false), "[E001] warning: t\n  help: h\n");
    }

    #[test]
    fn colour_only_when_asked() {
        let (map, _) = map();
        assert!(!human(&at(18, 19), &map, false).contains('\u{1b}'));
        assert!(human(&at(18, 19), &map, true).contains('\u{1b}'));
    }

    #[test]
    fn what_a_terminal_obeys_is_shown_as_text() {
        let mut map = SourceMap::default();
        let id = map.add("a\u{1b}[2J\nb.kb", "x \u{1b}[31m $ \u{9b}1m\r y");
        let d = Diagnostic::error("E001", "t\u{1b}]0;x\u{7}")
            .primary(Span::new(id, 8, 9), "l\u{202e}")
            .note("n\u{7f}")
            .help("h\u{0}");
        let h = human(&d, &map, false);
        assert!(!h.contains(|c: char| c.is_control() && c != '\n') && !h.contains('\u{202e}'), "{h}");
        assert!(h.contains("a\\u001b[2J\\u000ab.kb") && h.contains("x \\u001b[31m $ \\u009b1m"), "{h}");
        let line = h.lines().find(|l| l.contains("[31m")).expect("the line is shown");
        let mark = h.lines().skip_while(|l| !l.contains("[31m")).nth(1).expect("a mark below");
        let column = |s: &str, c: char| s.chars().position(|x| x == c);
        assert_eq!(column(line, '$'), column(mark, '┬'), "{h}");
        for text in [short(&d, &map), json(&d, &map), human(&d, &map, true).replace("\u{1b}[", "")] {
            assert!(!text.contains(|c: char| c.is_control() && c != '\n'), "{text}");
        }
        let nowhere = Diagnostic::error("E001", "t\u{1b}").note("\u{1b}");
        assert_eq!(human(&nowhere, &map, false), "[E001] error: t\\u001b\n  note: \\u001b\n");
    }

    #[test]
    fn empty_file() {
        let mut map = SourceMap::default();
        let id = map.add("e.kb", "");
        let d = Diagnostic::error("E002", "t").primary(Span::new(id, 0, 0), "x");
        assert!(human(&d, &map, false).contains('t'));
        assert_eq!(short(&d, &map), "e.kb:1:1: error[E002]: t");
    }
}
