//! Alignment: lines up tokens of neighbouring lines in columns.
//!
//! Two or more blanks before a token request a column. The lines above and below that have the same
//! token (the same sign or word, at the same bracket depth, with the same ordinal on its line) join
//! the column, and all of them get as many blanks as they need. A column is dropped if it would
//! make a line too long, or if it conflicts with a column further to the left. Comments at the ends
//! of neighbouring lines are always aligned.

use super::WIDTH;
use super::layout::{Layout, Line};
use super::space::{gap, wants_semicolon};
use crate::token::Token;
use std::collections::BTreeMap;
use std::ops::Range;

/// The key by which tokens of two lines match: the bracket depth, the text (for names, numbers and
/// strings it states the kind of the token before) and the ordinal on the line.
type Key<'s> = (usize, &'s str, usize);

/// Pieces of neighbouring lines that may be aligned, with the index of their first line.
struct Column {
    first: usize,
    pieces: Vec<usize>,
}

/// Aligns the requested columns. Takes the lines without alignment and returns the lines with it.
pub fn tokens(it: &mut Layout<'_>, lines: Vec<Line>) -> Vec<Line> {
    let mut columns = requested_columns(it, &lines);
    if columns.is_empty() {
        return lines;
    }
    // Each round drops one column, or is the last round.
    loop {
        it.pads.fill(0);
        for c in &columns {
            set(it, &lines, c);
        }
        // A line inside a bracket that moved may move with it, so the lines are computed again.
        let lines = it.lines(false);
        let long = lines.iter().position(|l| {
            it.columns(l.from, l.to, l.indent) > WIDTH && (l.from..l.to).any(|i| it.pads[i] > 0)
        });
        let bad = columns.iter().rposition(|c| match long {
            Some(at) => (at + 1).checked_sub(c.first).is_some_and(|d| d > 0 && d <= c.pieces.len()),
            None => !straight(it, &lines, c),
        });
        let Some(bad) = bad else { return lines };
        columns.remove(bad);
    }
}

/// Returns the requested columns, ordered from left to right within the lines in which they begin.
fn requested_columns(it: &Layout<'_>, lines: &[Line]) -> Vec<Column> {
    let asks = |&i: &usize| it.all[i].newlines == 0 && it.all[i].blanks > 1;
    let mut out = vec![];
    let mut from = 0;
    while from < lines.len() {
        let to = (from + 1..lines.len()).find(|n| starts_new_group(it, lines, *n)).unwrap_or(lines.len());
        // If no line of a group requests a column, the group has none.
        if (lines[from].from..lines[to - 1].to).any(|i| asks(&i)) {
            together(it, lines, from..to, asks, &mut out);
        }
        from = to;
    }
    out
}

/// Collects the columns of a group of neighbouring lines.
fn together(
    it: &Layout<'_>,
    lines: &[Line],
    range: Range<usize>,
    asks: impl Fn(&usize) -> bool,
    out: &mut Vec<Column>,
) {
    let keys: Vec<BTreeMap<Key<'_>, usize>> = lines[range.clone()].iter().map(|l| keys(it, l)).collect();
    for first in 0..keys.len() {
        let mut here: Vec<(&Key<'_>, &usize)> = keys[first].iter().collect();
        here.sort_by_key(|k| k.1);
        for (key, _) in here {
            if first > 0 && keys[first - 1].contains_key(key) {
                continue;
            }
            let pieces: Vec<usize> =
                keys[first..].iter().map_while(|below| below.get(key).copied()).collect();
            if pieces.len() > 1 && pieces.iter().any(&asks) {
                out.push(Column { first: range.start + first, pieces });
            }
        }
    }
}

/// Returns whether line `n` does not belong to the group of the line before, because an empty line,
/// or a brace that opens or closes a block, separates them.
fn starts_new_group(it: &Layout<'_>, lines: &[Line], n: usize) -> bool {
    let edge = |before: &Line| {
        let last = (before.from..before.to).rev().map(|i| &it.all[i]).find(|p| !p.is_comment());
        last.is_some_and(|p| p.token == Token::OpenBrace)
            || it.all[lines[n].from].closes()
            || it.all[before.from].closes()
    };
    lines[n].blank || n.checked_sub(1).is_some_and(|b| edge(&lines[b]))
}

/// Returns the tokens of a line that can be aligned.
fn keys<'a>(it: &'a Layout<'_>, line: &Line) -> BTreeMap<Key<'a>, usize> {
    let mut count: BTreeMap<(usize, &str), usize> = BTreeMap::new();
    let mut out = BTreeMap::new();
    for i in line.from..line.to {
        let piece = &it.all[i];
        let text = match piece.token {
            Token::Comment(_) => continue,
            Token::Name(_) | Token::Path(_) | Token::Number(_) | Token::String(_) if i > 0 => {
                match it.all[i - 1].token {
                    Token::Colon => "a name after :",
                    Token::Assign => "a name after =",
                    Token::Comma => "a name after ,",
                    Token::Semicolon => "a name after ;",
                    _ if wants_semicolon(&it.all, i) => "a name after ;",
                    _ => "a name",
                }
            }
            _ => &piece.text,
        };
        let n = count.entry((piece.depth, text)).or_default();
        *n += 1;
        if i > line.from && gap(&it.all, i) == 1 {
            out.insert((piece.depth, text, *n), i);
        }
    }
    out
}

/// Returns the column in which piece `i` of a line begins.
fn column(it: &Layout<'_>, line: &Line, i: usize) -> usize {
    it.columns(line.from, i, line.indent) + it.step(i)
}

fn set(it: &mut Layout<'_>, lines: &[Line], c: &Column) {
    let lines = &lines[c.first..c.first + c.pieces.len()];
    let at: Vec<usize> = lines.iter().zip(&c.pieces).map(|(l, &i)| column(it, l, i)).collect();
    let most = at.iter().copied().max().unwrap_or(0);
    for (&i, col) in c.pieces.iter().zip(at) {
        it.pads[i] += most - col;
    }
}

fn straight(it: &Layout<'_>, lines: &[Line], c: &Column) -> bool {
    let lines = &lines[c.first..c.first + c.pieces.len()];
    let mut at = lines.iter().zip(&c.pieces).map(|(l, &i)| column(it, l, i));
    let first = at.next();
    at.all(|col| Some(col) == first)
}

/// Aligns the comments at the ends of neighbouring lines, unless that makes a line too long.
pub fn comments(it: &mut Layout<'_>, lines: &[Line]) {
    let ends = |l: &Line| l.to > l.from + 1 && it.all[l.to - 1].is_comment();
    let mut groups: Vec<Vec<&Line>> = vec![];
    let mut open = false;
    for (n, l) in lines.iter().enumerate() {
        match groups.last_mut().filter(|_| open && !starts_new_group(it, lines, n)) {
            Some(g) if ends(l) => g.push(l),
            _ if ends(l) => groups.push(vec![l]),
            _ => {}
        }
        open = ends(l);
    }
    for group in groups {
        let at: Vec<usize> = group.iter().map(|l| it.columns(l.from, l.to, l.indent)).collect();
        let most = at.iter().copied().max().unwrap_or(0);
        let fits = |l: &&Line| most + 2 + it.all[l.to - 1].width <= WIDTH;
        if group.iter().all(fits) {
            for (l, col) in group.iter().zip(at) {
                it.pads[l.to - 1] = most - col;
            }
        }
    }
}
