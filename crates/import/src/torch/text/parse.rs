//! Parser of printed programs: `print(ep)`, `print_readable`, lines of TORCH_LOGS.
//!
//! This module owns the division into lines and the grammar of a line. [`super::written`] owns the
//! meaning of calls. The parser is tolerant: it skips log prefixes, banners, comments and
//! statements that release names, and accepts either kind of quotes.

use super::token::Token;
use crate::torch::json::JsonFault;
use logos::Logos;
use std::collections::BTreeMap;

/// An expression.
#[derive(Clone, PartialEq, Debug)]
pub enum ParsedExpr {
    /// A name such as `mm`, also dotted: `torch.float32`, `self.weight`.
    Name(String),
    /// An integer.
    Int(i64),
    /// A floating-point number, also `inf` and `nan`.
    Float(f64),
    /// `True`
    Bool(bool),
    /// `None`
    None,
    /// `'sum'`
    Text(String),
    /// A list in either kind of brackets.
    List(Vec<ParsedExpr>),
    /// A call, such as `torch.ops.aten.mm.default(a, b)` or `y.redistribute(placements = ..)`:
    /// callee, positional arguments, keyword arguments.
    Call(String, Vec<ParsedExpr>, Vec<(String, ParsedExpr)>),
    /// `split[0]`
    Item(Box<ParsedExpr>, i64),
    /// `a + b`
    Infix(String, Box<ParsedExpr>, Box<ParsedExpr>),
}

/// A statement, such as `mm: "f32[8, 16]" = ..`.
#[derive(Clone, PartialEq, Debug)]
pub struct Stmt {
    /// Assigned names; several for the flattening of arguments.
    pub names: Vec<String>,
    /// The type annotation, as written.
    pub ty: Option<String>,
    /// The assigned expression.
    pub value: ParsedExpr,
    /// First byte in the text.
    pub at: usize,
    /// Line of the user's model.
    pub source: Option<String>,
}

/// A program.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Text {
    /// Parameters with their types.
    pub params: Vec<(String, Option<String>)>,
    /// Statements, in order.
    pub stmts: Vec<Stmt>,
    /// Returned expressions.
    pub result: Vec<ParsedExpr>,
    /// Byte of the return statement.
    pub end: usize,
    /// Names of weights in the model by parameter, from a signature.
    pub weights: BTreeMap<String, String>,
    /// Least and greatest value of each symbol.
    pub ranges: BTreeMap<String, (Option<i64>, Option<i64>)>,
}

/// Greatest nesting of brackets.
const DEEPEST: usize = 64;

/// Parses a program.
///
/// # Errors
/// Returns a fault if the text is not a printed program.
pub fn parse(text: &str) -> Result<Text, JsonFault> {
    if let Some(at) = text.find("[num_users=") {
        return Err(JsonFault::new(at, GRAPH));
    }
    let mut out = Text::default();
    let (mut at, mut source, mut begun, mut ended) = (0, None, false, false);
    let mut listed: BTreeMap<String, String> = BTreeMap::new();
    for line in text.split_inclusive('\n') {
        let start = at;
        at += line.len();
        let (body, skipped) = unprefixed(line);
        let trimmed = body.trim();
        let from = start + skipped + (body.len() - body.trim_start().len());
        if ended {
            signature(trimmed, &mut out.weights);
            ranges(trimmed, &mut out.ranges);
            continue;
        }
        if let Some(comment) = trimmed.strip_prefix('#') {
            source = place(comment).or(source);
            continue;
        }
        if !begun {
            if trimmed.starts_with("def ") {
                out.params = Line::new(trimmed, from)?.head()?;
                begun = true;
            }
            continue;
        }
        if trimmed.is_empty() {
            continue;
        }
        let mut l = Line::new(trimmed, from)?;
        if l.eat_name("return") {
            out.result = l.result()?;
            out.end = from;
            ended = true;
            continue;
        }
        match l.statement()? {
            // Declared types of the names that a flattening assigns.
            Read::Types(list) => listed.extend(list),
            Read::Stmt(names, _, ParsedExpr::Call(f, ..)) if f.starts_with("fx_pytree.") => {
                out.params = names.into_iter().map(|n| (n.clone(), listed.get(&n).cloned())).collect();
            }
            Read::Stmt(names, ty, value) => {
                out.stmts.push(Stmt { names, ty, value, at: from, source: source.clone() });
            }
            Read::Nothing => {}
        }
    }
    match (begun, ended) {
        (false, _) => Err(JsonFault::new(0, "this is not a program: `def forward(self, ..):` is missing")),
        (_, false) => Err(JsonFault::new(text.len(), "the program has no `return`")),
        _ => Ok(out),
    }
}

/// The error for a graph that is printed as a list of nodes.
const GRAPH: &str = "this is the output of str(graph), which has no types and does not distinguish strings from numbers; use the output of print(ep) or model.print_readable()";

/// Returns a line without its log prefix, and the length of the prefix in bytes.
fn unprefixed(line: &str) -> (&str, usize) {
    let log = line.starts_with('[') || line.get(1..5).is_some_and(|d| d.bytes().all(|b| b.is_ascii_digit()));
    match line.find("] [__").filter(|_| log).and_then(|i| line[i + 3..].find("] ").map(|j| i + 3 + j + 2)) {
        Some(n) => (&line[n..], n),
        None => (line, 0),
    }
}

/// Returns the location in a comment such as `File: mlp.py:17 in forward, code: ..`,
/// without folders.
fn place(comment: &str) -> Option<String> {
    let rest = comment.trim().strip_prefix("File:")?.trim();
    let rest = rest.split(", code:").next().unwrap_or(rest);
    let (path, function) = rest.split_once(" in ").unwrap_or((rest, ""));
    let name = path.rsplit(['/', '\\']).next().unwrap_or(path);
    Some(if function.is_empty() { name.to_owned() } else { format!("{name} in {}", function.trim()) })
}

/// Reads weights from a line of a signature: `p_w1: PARAMETER target='w1'`, or all of them on one
/// line, as PyTorch 2.6 writes them.
fn signature(line: &str, out: &mut BTreeMap<String, String>) {
    let between = |text: &str, before: &str| {
        let (_, rest) = text.split_once(before)?;
        rest.split_once('\'').map(|r| r.0.to_owned())
    };
    for spec in line.split("InputSpec(kind=<InputKind.").skip(1) {
        let weight = ["PARAMETER", "BUFFER", "CONSTANT_TENSOR"].iter().any(|k| spec.starts_with(k));
        if let (true, Some(name), Some(target)) = (weight, between(spec, "name='"), between(spec, "target='"))
        {
            out.insert(name, target);
        }
    }
    if let Some((name, rest)) = line.split_once(": ") {
        let weight = ["PARAMETER", "BUFFER", "CONSTANT_TENSOR"].iter().any(|k| rest.starts_with(k));
        if let (true, Some(target)) = (weight, between(rest, "target='")) {
            out.insert(name.to_owned(), target);
        }
    }
}

/// Reads `Range constraints: {s77: VR[2, 64]}`; `int_oo` means no limit.
fn ranges(line: &str, out: &mut BTreeMap<String, (Option<i64>, Option<i64>)>) {
    let Some(list) = line.strip_prefix("Range constraints:") else { return };
    for one in list.trim().trim_matches(['{', '}']).split(']') {
        let Some((name, (least, most))) = one
            .trim_start_matches([',', ' '])
            .split_once(": VR[")
            .and_then(|(name, limits)| Some((name, limits.split_once(',')?)))
        else {
            continue;
        };
        out.insert(name.to_owned(), (least.trim().parse().ok(), most.trim().parse().ok()));
    }
}

enum Read {
    Stmt(Vec<String>, Option<String>, ParsedExpr),
    Types(Vec<(String, String)>),
    Nothing,
}

/// The tokens of a line.
struct Line<'s> {
    tokens: Vec<(Token<'s>, usize)>,
    next: usize,
    end: usize,
}

impl<'s> Line<'s> {
    fn new(text: &'s str, from: usize) -> Result<Self, JsonFault> {
        let mut tokens = vec![];
        for (t, span) in Token::lexer(text).spanned() {
            match t {
                Ok(Token::Comment(_)) => {}
                Ok(t) => tokens.push((t, from + span.start)),
                Err(()) => return Err(JsonFault::new(from + span.start, "unexpected character")),
            }
        }
        Ok(Line { tokens, next: 0, end: from + text.len() })
    }

    fn at(&self) -> usize {
        self.tokens.get(self.next).map_or(self.end, |t| t.1)
    }

    fn peek(&self) -> Option<&Token<'s>> {
        self.tokens.get(self.next).map(|t| &t.0)
    }

    fn wrong<T>(&self, what: &str) -> Result<T, JsonFault> {
        Err(JsonFault::new(self.at(), format!("expected {what}")))
    }

    fn eat(&mut self, mark: &str) -> bool {
        let is = matches!(self.peek(), Some(Token::Mark(m)) if *m == mark);
        self.next += usize::from(is);
        is
    }

    fn want(&mut self, mark: &str) -> Result<(), JsonFault> {
        if self.eat(mark) { Ok(()) } else { self.wrong(&format!("`{mark}`")) }
    }

    fn eat_name(&mut self, name: &str) -> bool {
        let is = matches!(self.peek(), Some(Token::Name(n)) if *n == name);
        self.next += usize::from(is);
        is
    }

    fn name(&mut self) -> Result<String, JsonFault> {
        match self.peek() {
            Some(Token::Name(n)) => {
                let n = (*n).to_owned();
                self.next += 1;
                Ok(n)
            }
            _ => self.wrong("a name"),
        }
    }

    fn text(&mut self) -> Result<String, JsonFault> {
        match self.peek() {
            Some(Token::Text(t)) => {
                let t = t.clone();
                self.next += 1;
                Ok(t)
            }
            // A type must be in quotes; anything else is an error.
            _ => self.wrong("a type in quotes"),
        }
    }

    /// Parses a function head, such as `def forward(self, x: "f32[8]", y):`.
    fn head(&mut self) -> Result<Vec<(String, Option<String>)>, JsonFault> {
        self.name()?;
        self.name()?;
        self.want("(")?;
        let mut out = vec![];
        while !self.eat(")") {
            let name = self.name()?;
            let ty = if self.eat(":") { Some(self.text()?) } else { None };
            if name != "self" {
                out.push((name, ty));
            }
            if !self.eat(",") {
                self.want(")")?;
                break;
            }
        }
        Ok(out)
    }

    fn statement(&mut self) -> Result<Read, JsonFault> {
        let mut names = vec![self.name()?];
        while self.eat(",") {
            if !matches!(self.peek(), Some(Token::Name(_))) {
                break;
            }
            names.push(self.name()?);
        }
        let ty = if self.eat(":") { Some(self.text()?) } else { None };
        if let (Some(t), true) = (&ty, self.eat(";") || self.peek().is_none()) {
            let mut list = vec![(names.remove(0), t.clone())];
            while self.peek().is_some() {
                let name = self.name()?;
                self.want(":")?;
                list.push((name, self.text()?));
                self.eat(";");
            }
            return Ok(Read::Types(list));
        }
        self.want("=")?;
        // `a = b = None` releases names.
        if let Some(Token::Name("None")) = self.peek() {
            return Ok(Read::Nothing);
        }
        let value = self.value(0)?;
        match self.peek() {
            None => Ok(Read::Stmt(names, ty, value)),
            Some(Token::Mark(";")) => Ok(Read::Stmt(names, ty, value)),
            Some(Token::Mark("=")) => Ok(Read::Nothing),
            _ => self.wrong("the end of the statement"),
        }
    }

    fn result(&mut self) -> Result<Vec<ParsedExpr>, JsonFault> {
        match self.value(0)? {
            ParsedExpr::List(l) => Ok(l),
            ParsedExpr::Call(f, args, _) if f.ends_with("tree_unflatten") => match args.into_iter().next() {
                Some(ParsedExpr::List(l)) => Ok(l),
                _ => self.wrong("a list of results"),
            },
            one => Ok(vec![one]),
        }
    }

    /// Parses an expression. All operators have the same precedence, since PyTorch prints only one
    /// per expression.
    fn value(&mut self, depth: usize) -> Result<ParsedExpr, JsonFault> {
        let mut left = self.operand(depth)?;
        while let Some(Token::Mark(op @ ("+" | "-" | "*" | "/" | "@" | "**" | "//"))) = self.peek() {
            let op = (*op).to_owned();
            self.next += 1;
            let right = self.operand(depth)?;
            left = ParsedExpr::Infix(op, Box::new(left), Box::new(right));
        }
        Ok(left)
    }

    fn operand(&mut self, depth: usize) -> Result<ParsedExpr, JsonFault> {
        if depth > DEEPEST {
            return Err(JsonFault::new(self.at(), "expressions nest too deeply"));
        }
        let Some(token) = self.peek().cloned() else { return self.wrong("a value") };
        self.next += 1;
        match token {
            Token::Int(n) => Ok(ParsedExpr::Int(n)),
            Token::Float(x) => Ok(ParsedExpr::Float(x)),
            Token::Text(t) => Ok(ParsedExpr::Text(t)),
            Token::Mark("-") => match self.operand(depth + 1)? {
                ParsedExpr::Int(n) => Ok(ParsedExpr::Int(-n)),
                ParsedExpr::Float(x) => Ok(ParsedExpr::Float(-x)),
                other => Ok(ParsedExpr::Infix("-".into(), Box::new(ParsedExpr::Int(0)), Box::new(other))),
            },
            Token::Mark("(") => {
                // A single value in parentheses is that value; with a comma it is a list.
                let (list, comma) = self.values(")", depth)?;
                let mut list = list;
                if list.len() == 1 && !comma { Ok(list.remove(0)) } else { Ok(ParsedExpr::List(list)) }
            }
            Token::Mark("[") => self.values("]", depth).map(|l| ParsedExpr::List(l.0)),
            Token::Name(n) => match n {
                "None" => Ok(ParsedExpr::None),
                "True" => Ok(ParsedExpr::Bool(true)),
                "False" => Ok(ParsedExpr::Bool(false)),
                "inf" => Ok(ParsedExpr::Float(f64::INFINITY)),
                "nan" => Ok(ParsedExpr::Float(f64::NAN)),
                _ => self.dotted(n.to_owned(), depth),
            },
            _ => {
                self.next -= 1;
                self.wrong("a value")
            }
        }
    }

    fn values(&mut self, end: &str, depth: usize) -> Result<(Vec<ParsedExpr>, bool), JsonFault> {
        let (mut out, mut comma) = (vec![], false);
        while !self.eat(end) {
            out.push(self.value(depth + 1)?);
            comma = self.eat(",");
            if !comma {
                self.want(end)?;
                break;
            }
        }
        Ok((out, comma))
    }

    fn dotted(&mut self, mut path: String, depth: usize) -> Result<ParsedExpr, JsonFault> {
        while self.eat(".") {
            path = format!("{path}.{}", self.name()?);
        }
        if self.eat("(") {
            let (mut args, mut named) = (vec![], vec![]);
            while !self.eat(")") {
                let equals = matches!(self.tokens.get(self.next + 1), Some((Token::Mark("="), _)));
                match (self.peek().cloned(), equals) {
                    (Some(Token::Name(n)), true) => {
                        self.next += 2;
                        named.push((n.to_owned(), self.value(depth + 1)?));
                    }
                    _ => args.push(self.value(depth + 1)?),
                }
                if !self.eat(",") {
                    self.want(")")?;
                    break;
                }
            }
            return Ok(ParsedExpr::Call(path, args, named));
        }
        let mut out = ParsedExpr::Name(path);
        while self.eat("[") {
            let Some(Token::Int(i)) = self.peek().cloned() else {
                return self.wrong("the number of a result");
            };
            self.next += 1;
            self.want("]")?;
            out = ParsedExpr::Item(Box::new(out), i);
        }
        Ok(out)
    }
}
