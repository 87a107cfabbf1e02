//! Arguments of the command line that name algorithms and numbers of ranks: `ring`,
//! `all_reduce.ring(d: -1)`, `--ranks 8`. If a subcommand accepts several values, also ranges that
//! include both ends: `my_ring(k: 1..4)`, `--ranks 2..9,16`.
//!
//! The module owns the two forms. The front end resolves the name of an algorithm and checks its
//! arguments.

use crate::failure::{Failure, Outcome};
use crate::options::Selection;
use crate::workspace::Workspace;
use kbc_diag::{Diagnostic, FileId, Span};
use kbc_frontend::lower::RequestedAlgorithm;
use kbc_rounds::ast::{Expr, ExprKind, Ident};

/// Largest number of values of a range.
const MAX_VALUES: i64 = 100_000;

/// An algorithm with values for some of its arguments.
#[derive(Clone, Debug)]
pub struct AlgorithmRequest {
    /// `NAME` or `COLLECTIVE.NAME`.
    pub name: Ident,
    /// Arguments with their values, at least one for each.
    pub args: Vec<(Ident, Vec<Expr>)>,
    /// Options of the use, in the same form.
    pub options: Vec<(Ident, Vec<Expr>)>,
}

impl AlgorithmRequest {
    /// Returns whether it has neither arguments nor options.
    pub fn is_plain(&self) -> bool {
        self.args.is_empty() && self.options.is_empty()
    }

    /// Returns the same with one value for each argument.
    ///
    /// # Errors
    /// Returns E413 for an argument with several values.
    pub fn single(&self) -> Outcome<RequestedAlgorithm> {
        let one = |(name, values): &(Ident, Vec<Expr>)| match &values[..] {
            [one] => Ok((name.clone(), one.clone())),
            _ => Err(Failure::Usage(
                Diagnostic::error("E413", format!("`{}` has several values, and one is expected", name.node))
                    .primary(name.span, "write one value here")
                    .help("only kbc check accepts several values, and checks each")
                    .into(),
            )),
        };
        Ok(RequestedAlgorithm {
            name: self.name.clone(),
            args: self.args.iter().map(one).collect::<Outcome<_>>()?,
            options: self.options.iter().map(one).collect::<Outcome<_>>()?,
        })
    }
}

/// Returns the algorithm that `--algorithm` and `--using` name, if only one is possible.
///
/// # Errors
/// Returns E413 for another form, and E416 for two different algorithms.
pub fn algorithm(workspace: &mut Workspace, of: &Selection) -> Outcome<Option<AlgorithmRequest>> {
    let given =
        of.algorithm.iter().map(|t| ("--algorithm", t)).chain(of.using.iter().map(|t| ("--using", t)));
    let mut out: Option<(&str, &String, AlgorithmRequest)> = None;
    for (flag, text) in given {
        let next = read(workspace, flag, text)?;
        out = Some(match out {
            None => (flag, text, next),
            // A name, and then its arguments.
            Some((_, _, first)) if first.is_plain() && first.name.node == next.name.node => {
                (flag, text, next)
            }
            Some((first, said, a)) => {
                let short = |n: &Ident| n.node.rsplit('.').next().unwrap_or("").to_owned();
                if short(&a.name) == short(&next.name) && next.is_plain() {
                    (first, said, a)
                } else if short(&a.name) == short(&next.name) && a.is_plain() {
                    (flag, text, AlgorithmRequest { name: a.name, ..next })
                } else {
                    return Err(Failure::Usage(
                        Diagnostic::error(
                            "E416",
                            format!("{first} {said} and {flag} {text} name two algorithms"),
                        )
                        .help("remove one of them: only one algorithm can be chosen")
                        .into(),
                    ));
                }
            }
        });
    }
    Ok(out.map(|o| o.2))
}

/// Parses `ring` or `all_reduce.ring(d: -1, inside: direct) with (pipeline: 4)`, with ranges `1..4`
/// and lists `[1, 2, 4]` instead of numbers.
///
/// # Errors
/// Returns E413 for another form.
pub fn read(workspace: &mut Workspace, flag: &str, text: &str) -> Outcome<AlgorithmRequest> {
    let file = workspace.add_text(&format!("<{flag}>"), text);
    Reader { flag, text, file, at: 0 }.asked().map_err(|d| Failure::Usage(d.into()))
}

struct Reader<'a> {
    flag: &'a str,
    text: &'a str,
    file: FileId,
    at: usize,
}

impl Reader<'_> {
    fn asked(&mut self) -> Result<AlgorithmRequest, Diagnostic> {
        let name = self.word(true, "the name of an algorithm")?;
        let args = if self.eat("(") { self.named_values("the name of an argument")? } else { vec![] };
        let mut options = vec![];
        self.spaces();
        if self.at < self.text.len() {
            if !self.eat("with") {
                return Err(self.wrong("`with` or nothing more"));
            }
            if !self.eat("(") {
                return Err(self.wrong("`(` and options"));
            }
            options = self.named_values("the name of an option")?;
        }
        self.spaces();
        if self.at < self.text.len() {
            return Err(self.wrong("nothing more"));
        }
        Ok(AlgorithmRequest { name, args, options })
    }

    /// Reads `name: value, ..)`.
    fn named_values(&mut self, what: &str) -> Result<Vec<(Ident, Vec<Expr>)>, Diagnostic> {
        let mut out: Vec<(Ident, Vec<Expr>)> = vec![];
        if self.eat(")") {
            return Ok(out);
        }
        loop {
            let arg = self.word(false, what)?;
            if !self.eat(":") {
                return Err(self.wrong("`:` and a value"));
            }
            if let Some((first, _)) = out.iter().find(|a| a.0.node == arg.node) {
                return Err(Diagnostic::error("E413", format!("`{}` is given twice", arg.node))
                    .primary(arg.span, "again here")
                    .secondary(first.span, "first here"));
            }
            let values = self.values()?;
            out.push((arg, values));
            if self.eat(")") {
                return Ok(out);
            }
            if !self.eat(",") {
                return Err(self.wrong("`,` or `)`"));
            }
        }
    }

    /// One value, a range or a list.
    fn values(&mut self) -> Result<Vec<Expr>, Diagnostic> {
        if self.eat("[") {
            let mut out = vec![];
            loop {
                out.extend(self.values()?);
                if self.eat("]") {
                    return Ok(out);
                }
                if !self.eat(",") {
                    return Err(self.wrong("`,` or `]`"));
                }
            }
        }
        self.spaces();
        let start = self.at;
        let Some(from) = self.number() else {
            let word = self.word(false, "an integer, a range or a name")?;
            let kind = match word.node.as_str() {
                "true" => ExprKind::Bool(true),
                "false" => ExprKind::Bool(false),
                _ => ExprKind::Name(word.node),
            };
            return Ok(vec![Expr { kind, span: word.span }]);
        };
        let to = if self.eat("..") {
            Some(self.number().ok_or_else(|| self.wrong("the end of the range"))?)
        } else {
            None
        };
        let span = self.span(start);
        let of = |v| Expr { kind: ExprKind::Int(v), span };
        match to {
            None => Ok(vec![of(from)]),
            Some(to) => {
                let n = to.saturating_sub(from).saturating_add(1);
                if !(1..=MAX_VALUES).contains(&n) {
                    return Err(Diagnostic::error(
                        "E413",
                        format!("{from}..{to} has {} values (allowed: 1 to {MAX_VALUES})", n.max(0)),
                    )
                    .primary(span, "this range")
                    .help("a range includes both ends: 1..4 is 1, 2, 3, 4"));
                }
                Ok((from..=to).map(of).collect())
            }
        }
    }

    fn number(&mut self) -> Option<i64> {
        self.spaces();
        let rest = &self.text[self.at..];
        let digits = rest.strip_prefix('-').unwrap_or(rest);
        let n = digits.bytes().take_while(u8::is_ascii_digit).count();
        let n = if n == 0 { return None } else { n + (rest.len() - digits.len()) };
        let value = rest[..n].parse().ok()?;
        self.at += n;
        Some(value)
    }

    fn word(&mut self, dots: bool, what: &str) -> Result<Ident, Diagnostic> {
        self.spaces();
        let start = self.at;
        let rest = &self.text[start..];
        let inside = |c: char| c.is_alphanumeric() || c == '_' || dots && c == '.';
        let n: usize = rest.chars().take_while(|c| inside(*c)).map(char::len_utf8).sum();
        if n == 0 || rest.starts_with(|c: char| c.is_ascii_digit()) {
            return Err(self.wrong(what));
        }
        self.at += n;
        Ok(Ident::new(rest[..n].to_owned(), self.span(start)))
    }

    fn spaces(&mut self) {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
    }

    fn eat(&mut self, mark: &str) -> bool {
        self.spaces();
        let found = self.text[self.at..].starts_with(mark);
        self.at += if found { mark.len() } else { 0 };
        found
    }

    fn span(&self, start: usize) -> Span {
        Span::new(self.file, start, self.at)
    }

    fn wrong(&self, wanted: &str) -> Diagnostic {
        let end = self.text[self.at..].chars().next().map_or(self.at, |c| self.at + c.len_utf8());
        Diagnostic::error(
            "E413",
            format!("{} {} is not an algorithm with its arguments", self.flag, self.text),
        )
        .primary(Span::new(self.file, self.at, end), format!("expected {wanted}"))
        .help(format!("write {0} ring, or {0} 'ring(d: -1)'", self.flag))
    }
}

/// Parses numbers of ranks: `8`, `2..9`, `2..9,16`.
///
/// # Errors
/// Returns E413 for another form or an invalid number of ranks.
pub fn ranks(flag: &str, text: &str) -> Result<Vec<i64>, Diagnostic> {
    let wrong = || {
        Diagnostic::error("E413", format!("{flag}{text} is not a number of ranks"))
            .help("write --ranks 8, or for several numbers --ranks 2..9,16")
    };
    let number =
        |t: &str| t.trim().parse::<i64>().ok().filter(|n| (1..=1 << 31).contains(n)).ok_or_else(wrong);
    let mut out: Vec<i64> = vec![];
    for part in text.split(',') {
        match part.split_once("..") {
            None => out.push(number(part)?),
            Some((from, to)) => {
                let (from, to) = (number(from)?, number(to)?);
                if to < from || to - from > MAX_VALUES {
                    return Err(wrong());
                }
                out.extend(from..=to);
            }
        }
    }
    out.sort_unstable();
    out.dedup();
    Ok(out)
}

/// Returns the single number of ranks of `--ranks`.
///
/// # Errors
/// Returns E413 for several numbers or none.
pub fn rank_count(of: &Selection) -> Result<Option<i64>, Diagnostic> {
    of.ranks.as_deref().map(one_number).transpose()
}

/// Parses the single number of ranks of a command that does one thing.
///
/// # Errors
/// As [`rank_count`].
pub fn one_number(text: &str) -> Result<i64, Diagnostic> {
    match ranks("--ranks ", text)?[..] {
        [one] => Ok(one),
        _ => Err(Diagnostic::error(
            "E413",
            format!("--ranks {text} has several numbers, and one is expected here"),
        )
        .help("only kbc check of algorithms accepts several")),
    }
}
