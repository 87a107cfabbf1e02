//! Formatter: brings `.kir` text into its canonical form and keeps its comments.
//!
//! The canonical form is the output of [`print`]; this module only transfers comments and empty
//! lines. A comment at the end of a line stays with that line, and a comment on lines of its own
//! stays with the line that follows. New syntax needs no change here, because lines of the text and
//! of the printer are matched by their tokens.

use super::lex::{MARK, Token, TokenKind, tokens};
use super::{PrintOptions, equivalent, parse, print};
use kbc_diag::{Diagnostic, Diagnostics, FileId, Span};

/// File number for the text while it is printed with locations. Locations with this number were not
/// in the text, and are removed again.
const HERE: FileId = FileId(u32::MAX - 1);

/// A comment on a line of its own.
struct Comment<'t> {
    text: &'t str,
    indent: usize,
    /// Whether an empty line precedes the comment.
    blank: bool,
}

/// A line of code of the original text.
struct Source<'t> {
    toks: Vec<TokenKind>,
    indent: usize,
    /// Whether the line contains a location.
    located: bool,
    /// Whether an empty line precedes the line.
    blank: bool,
    /// Comments on the lines before it.
    above: Vec<Comment<'t>>,
    /// Comment at its end.
    trail: Option<&'t str>,
}

/// Returns the text in canonical form.
///
/// # Errors
/// Returns the errors of [`parse`], because text that does not parse has no canonical form. Returns
/// E995 if the formatted text would not be the same module, which is a bug of the formatter and not
/// of the text.
pub fn format(file: FileId, text: &str) -> Result<String, Diagnostics> {
    let module = parse(file, text)?;
    let (sources, rest) = read(text);
    let locs = sources.iter().any(|s| s.located);
    let printed = if locs {
        without_here(&print(&parse(HERE, text)?, &PrintOptions { locs }))
    } else {
        print(&module, &PrintOptions::default())
    };
    let out = merge(sources, rest, &printed);
    if parse(file, &out).is_ok_and(|m| equivalent(&m, &module)) && preserved(text) == preserved(&out) {
        return Ok(out);
    }
    Err(Diagnostic::error("E995", "formatting would change the meaning of this module")
        .primary(Span::new(file, 0, 0), "this file was not changed")
        .into())
}

/// Returns the tokens of a line without its indentation, and the comment after them. A line with an
/// error has no tokens.
fn cut(line: &str) -> (Vec<Token>, Option<&str>) {
    let line = line.trim_end();
    match tokens(FileId(0), 0, line) {
        Ok(Some((toks, span))) => {
            let rest = line[span.end as usize..].trim_start();
            (toks, (!rest.is_empty()).then_some(rest))
        }
        _ => (vec![], (!line.is_empty()).then_some(line)),
    }
}

/// Returns the lines of a text, without its byte order mark and without spaces at the ends of
/// lines.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.strip_prefix(MARK).unwrap_or(text).split('\n').map(str::trim_end)
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}

/// Returns the lines of code with what precedes them, and the comments after the last one.
fn read(text: &str) -> (Vec<Source<'_>>, Vec<Comment<'_>>) {
    let mut out: Vec<Source<'_>> = vec![];
    let mut above = vec![];
    let mut blank = false;
    for line in lines(text) {
        let (toks, comment) = cut(line.trim_start_matches(' '));
        match (toks.is_empty(), comment) {
            (true, None) => blank = true,
            (true, Some(text)) => {
                above.push(Comment { text, indent: indent(line), blank });
                blank = false;
            }
            (false, trail) => {
                let located = toks.iter().any(|t| matches!(t.tok, TokenKind::Loc(_)));
                let toks = without_loc(toks);
                let above = std::mem::take(&mut above);
                out.push(Source { toks, indent: indent(line), located, blank, above, trail });
                blank = false;
            }
        }
    }
    (out, above)
}

fn without_loc(toks: Vec<Token>) -> Vec<TokenKind> {
    toks.into_iter().map(|t| t.tok).filter(|t| !matches!(t, TokenKind::Loc(_))).collect()
}

/// Returns the printed text without the locations that point into the original text.
fn without_here(printed: &str) -> String {
    let mut out = String::new();
    for line in printed.lines() {
        let body = line.trim_start_matches(' ');
        let mut kept = body.to_owned();
        for t in cut(body).0.iter().rev() {
            if matches!(t.tok, TokenKind::Loc(l) if l.file == HERE) {
                let before = kept[..t.span.start as usize].trim_end().len();
                kept.replace_range(before..t.span.end as usize, "");
            }
        }
        out += &line[..line.len() - body.len()];
        out += &kept;
        out.push('\n');
    }
    out
}

/// Returns, for every line of code of the original text, the number of the printed line that
/// corresponds to it.
fn matched(sources: &[Source<'_>], printed: &[Vec<TokenKind>]) -> Vec<Option<usize>> {
    // Lines of the head may change their order; operations keep theirs.
    let body = |first: Option<&TokenKind>| match first {
        Some(TokenKind::Word(l, false)) => ["graph", "local", "schedule"].iter().any(|w| l.hint == *w),
        _ => false,
    };
    let here = sources.iter().position(|s| body(s.toks.first())).unwrap_or(sources.len());
    let there = printed.iter().position(|p| body(p.first())).unwrap_or(printed.len());
    let mut free = vec![true; printed.len()];
    let mut out = vec![None; sources.len()];
    for (i, s) in sources[..here].iter().enumerate() {
        let takes = |same: &dyn Fn(&[TokenKind]) -> bool| (0..there).find(|&j| free[j] && same(&printed[j]));
        let words = |t: &[TokenKind]| t.iter().take(2).cloned().collect::<Vec<_>>();
        let found = takes(&|p| p == s.toks)
            .or_else(|| takes(&|p| words(p) == words(&s.toks)))
            .or_else(|| takes(&|p| p.first() == s.toks.first()));
        if let Some(j) = found {
            free[j] = false;
            out[i] = Some(j);
        }
    }
    if sources.len() - here == printed.len() - there {
        for (i, place) in out[here..].iter_mut().enumerate() {
            *place = Some(there + i);
        }
        return out;
    }
    let mut next = there;
    for i in here..sources.len() {
        if let Some(j) = (next..printed.len()).find(|&j| printed[j] == sources[i].toks) {
            out[i] = Some(j);
            next = j + 1;
        }
    }
    out
}

/// Returns the printed text with the comments and empty lines of the original text.
fn merge(sources: Vec<Source<'_>>, rest: Vec<Comment<'_>>, printed: &str) -> String {
    /// Additions to a printed line: comments above it with their columns, an empty line, and
    /// comments at its end.
    #[derive(Default)]
    struct Extra<'t> {
        above: Vec<(bool, usize, &'t str)>,
        blank: bool,
        trail: Vec<&'t str>,
    }
    let list: Vec<(bool, &str)> = {
        let mut blank = false;
        let mut out = vec![];
        for line in printed.lines() {
            if line.is_empty() {
                blank = true;
            } else {
                out.push((std::mem::take(&mut blank), line));
            }
        }
        out
    };
    let keys: Vec<Vec<TokenKind>> =
        list.iter().map(|l| without_loc(cut(l.1.trim_start_matches(' ')).0)).collect();
    let place = matched(&sources, &keys);
    let mut extra: Vec<Extra<'_>> = list.iter().map(|_| Extra::default()).collect();
    let mut carried: Vec<(bool, usize, &str)> = vec![];
    // Indentation of the previous line, in the original text and as printed.
    let mut last = (0, 0);
    for (s, place) in sources.into_iter().zip(place) {
        let to = place.map_or(last.1, |j| indent(list[j].1));
        // A comment that is indented like the previous block stays with that block.
        let column = |c: &Comment<'_>| if c.indent >= last.0 && s.indent < last.0 { last.1 } else { to };
        carried.extend(s.above.iter().map(|c| (c.blank, column(c), c.text)));
        match place {
            Some(j) => {
                extra[j].above.append(&mut carried);
                extra[j].blank |= s.blank;
                extra[j].trail.extend(s.trail);
                last = (s.indent, to);
            }
            None => carried.extend(s.trail.map(|t| (false, last.1, t))),
        }
    }
    let mut out = String::new();
    let mut line = |blank: bool, column: usize, words: &[&str]| {
        if blank && !out.is_empty() {
            out.push('\n');
        }
        out += &" ".repeat(column);
        out += &words.join("  ");
        out.push('\n');
    };
    for ((blank, text), e) in list.iter().zip(extra) {
        // The empty line of the printer precedes the comments of the block that it separates.
        let mut set_apart = *blank;
        for (blank, column, text) in &e.above {
            let apart = std::mem::take(&mut set_apart);
            line(*blank || apart, *column, &[text]);
        }
        line(set_apart || e.blank, indent(text), &[&[text.trim_start_matches(' ')], &e.trail[..]].concat());
    }
    for (blank, column, text) in &carried {
        line(*blank, *column, &[text]);
    }
    for c in rest {
        line(c.blank, if c.indent >= last.0 { last.1 } else { 0 }, &[c.text]);
    }
    out
}

/// Returns what formatting must preserve: the comments of a text, and the locations written in it.
fn preserved(text: &str) -> Vec<String> {
    let mut out = vec![];
    for line in lines(text) {
        let (toks, comment) = cut(line.trim_start_matches(' '));
        out.extend(comment.map(str::to_owned));
        out.extend(
            toks.iter().filter(|t| matches!(t.tok, TokenKind::Loc(_))).map(|t| format!("{:?}", t.tok)),
        );
    }
    out.sort();
    out
}
