//! Columns: tokens of neighbouring lines that stand below each other.
//!
//! Two or more blanks before a token ask for a column. The lines above and below that have the same token (the same
//! sign or word, at the same depth of brackets, for the same time on its line) join, and all of them get as many blanks
//! as they need. A column that would make a line too long, or that contradicts one further left, is given up.
//! Comments at the ends of neighbouring lines always stand below each other.

use super::WIDTH;
use super::layout::{Layout, Line};
use super::space::{gap, wants_semicolon};
use crate::token::Token;
use std::collections::BTreeMap;
use std::ops::Range;

/// What makes tokens of two lines the same: depth, the token (for names and numbers: the token before), which one.
type Key<'s> = (usize, &'s str, usize);

/// Pieces of neighbouring lines that may stand below each other, with the number of their first line.
struct Column {
    first: usize,
    pieces: Vec<usize>,
}

/// Aligns what asks for it. Takes the lines as they are without that, and gives them as they are then.
pub fn tokens(it: &mut Layout<'_>, lines: Vec<Line>) -> Vec<Line> {
    let mut columns = wanted(it, &lines);
    if columns.is_empty() {
        return lines;
    }
    // Each round gives up one column, or is the last.
    loop {
        it.pads.fill(0);
        for c in &columns {
            set(it, &lines, c);
        }
        // A line whose brackets moved may move with them.
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

/// The columns that are asked for, from the left to the right of the lines they begin in.
fn wanted(it: &Layout<'_>, lines: &[Line]) -> Vec<Column> {
    let asks = |&i: &usize| it.all[i].newlines == 0 && it.all[i].blanks > 1;
    let mut out = vec![];
    let mut from = 0;
    while from < lines.len() {
        let to = (from + 1..lines.len()).find(|n| apart(it, lines, *n)).unwrap_or(lines.len());
        // neighbours of which none asks have no column
        if (lines[from].from..lines[to - 1].to).any(|i| asks(&i)) {
            together(it, lines, from..to, asks, &mut out);
        }
        from = to;
    }
    out
}

/// The columns of lines that are neighbours.
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

/// Whether line `n` is no neighbour of the line before: an empty line, or a brace that opens or closes a block, is
/// between them.
fn apart(it: &Layout<'_>, lines: &[Line], n: usize) -> bool {
    let edge = |before: &Line| {
        let last = (before.from..before.to).rev().map(|i| &it.all[i]).find(|p| !p.is_comment());
        last.is_some_and(|p| p.token == Token::OpenBrace)
            || it.all[lines[n].from].closes()
            || it.all[before.from].closes()
    };
    lines[n].blank || n.checked_sub(1).is_some_and(|b| edge(&lines[b]))
}

/// The tokens of a line that can stand below others.
fn keys<'a>(it: &'a Layout<'_>, line: &Line) -> BTreeMap<Key<'a>, usize> {
    let mut count: BTreeMap<(usize, &str), usize> = BTreeMap::new();
    let mut out = BTreeMap::new();
    for i in line.from..line.to {
        let piece = &it.all[i];
        let text = match piece.token {
            Token::Comment(_) => continue,
            Token::Name(_) | Token::Number(_) | Token::String(_) if i > 0 => match it.all[i - 1].token {
                Token::Colon => "a name after :",
                Token::Assign => "a name after =",
                Token::Comma => "a name after ,",
                Token::Semicolon => "a name after ;",
                _ if wants_semicolon(&it.all, i) => "a name after ;",
                _ => "a name",
            },
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

/// The column piece `i` of a line begins in.
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

/// Comments at the ends of neighbouring lines stand below each other, unless that makes a line too long.
pub fn comments(it: &mut Layout<'_>, lines: &[Line]) {
    let ends = |l: &Line| l.to > l.from + 1 && it.all[l.to - 1].is_comment();
    let mut groups: Vec<Vec<&Line>> = vec![];
    let mut open = false;
    for (n, l) in lines.iter().enumerate() {
        match groups.last_mut().filter(|_| open && !apart(it, lines, n)) {
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
