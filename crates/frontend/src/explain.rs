//! Syntax error messages: state what was expected, what was found, and the likely mistake.
//!
//! The parser reports terminals. This module translates them into the concepts of the user:
//! statements, expressions and names.

use crate::newcomers;
use crate::token::{NumberLiteral, Token, is_soft, reserved_words};
use kbc_diag::nearest::nearest;
use kbc_diag::{Diagnostic, FileId, Span};

/// The information available to an explanation.
pub struct Context<'s> {
    /// The file.
    pub file: FileId,
    /// Its text.
    pub text: &'s str,
    /// Its tokens, each with its start and end.
    pub tokens: &'s [(usize, Token<'s>, usize)],
}

impl Context<'_> {
    fn token(&self, index: usize) -> Option<Token<'_>> {
        self.tokens.get(index).map(|t| t.1)
    }

    /// Returns the span of a token. For an index past the last token, returns the empty span after
    /// the last token.
    fn span(&self, index: usize) -> Span {
        match (self.tokens.get(index), self.tokens.last()) {
            (Some(t), _) => Span::new(self.file, t.0, t.2),
            (None, Some(last)) => Span::new(self.file, last.2, last.2),
            (None, None) => Span::new(self.file, self.text.len(), self.text.len()),
        }
    }

    /// Returns whether a token directly follows the previous one.
    fn touch(&self, index: usize) -> bool {
        index > 0
            && matches!((self.tokens.get(index - 1), self.tokens.get(index)), (Some(a), Some(b)) if a.2 == b.0)
    }

    /// Returns the indices of the brackets that are open just before a token, outermost first.
    fn open(&self, index: usize) -> Vec<usize> {
        let mut open: Vec<usize> = vec![];
        for (i, t) in self.tokens.iter().enumerate().take(index) {
            match t.1 {
                Token::OpenParen | Token::OpenBracket | Token::OpenBrace => open.push(i),
                Token::CloseParen | Token::CloseBracket | Token::CloseBrace => {
                    open.pop();
                }
                _ => {}
            }
        }
        open
    }

    /// Returns whether a token begins an item or a statement on a new line. In that case the error
    /// lies before it.
    pub fn begins_something(&self, index: usize) -> bool {
        let Some(token) = self.token(index) else { return false };
        let keyword = item_keyword(token) || statement_keyword(token);
        keyword && index > 0 && self.text[self.tokens[index - 1].2..self.tokens[index].0].contains('\n')
    }

    /// Returns the byte at which the innermost `( )` or `[ ]` around a token ends, or 0 if there is
    /// none.
    pub fn end_of_brackets(&self, index: usize) -> usize {
        let Some(&start) = self.open(index).last() else { return 0 };
        if self.token(start) == Some(Token::OpenBrace) {
            return 0;
        }
        let mut depth = 0;
        for t in &self.tokens[start..] {
            match t.1 {
                Token::OpenParen | Token::OpenBracket => depth += 1,
                Token::CloseParen | Token::CloseBracket => depth -= 1,
                // An unclosed bracket must not extend over the following blocks.
                Token::OpenBrace | Token::CloseBrace => return 0,
                _ => {}
            }
            if depth == 0 {
                return t.2;
            }
        }
        0
    }
}

/// Returns the message for an unexpected token. `index` is the number of tokens if the file ends
/// unexpectedly.
pub fn explain(cx: &Context<'_>, index: usize, expected: &[String]) -> Diagnostic {
    let mut expected: Vec<&str> = expected.iter().map(|e| e.trim_matches('"')).collect();
    // Where a name can stand, the words of clauses are names.
    if expected.contains(&"NAME") {
        expected.retain(|e| !is_soft(e) && *e != "PATH");
    }
    let found = cx.token(index).map_or("the end of the file".to_string(), |t| t.words());
    let code = if expected == ["tiles"] { "E003" } else { "E002" };
    let title = match describe(&expected) {
        None => format!("unexpected {found}"),
        Some(words) => format!("expected {words}, found {found}"),
    };
    let mut d = Diagnostic::error(code, title).primary(
        cx.span(index),
        if index < cx.tokens.len() { "not expected here" } else { "the file ends here" },
    );
    if let Some(open) = unclosed(cx, index) {
        let text = cx.token(open).map_or(String::new(), |t| t.words());
        d = d.secondary(cx.span(open), format!("this {text} is not closed"));
    }
    match slip(cx, index, &expected) {
        Some(help) => d.help(help),
        None => d,
    }
}

/// Returns a phrase for the terminals that were expected, the general ones first, or `None` if
/// there is no helpful phrase.
fn describe(expected: &[&str]) -> Option<String> {
    const OPERATORS: &[&str] =
        &["||", "&&", "==", "!=", "<", "<=", ">", ">=", "|", "^", "&", "<<", ">>", "+", "-", "*", "/", "%"];
    const STATEMENTS: &[&str] =
        &["let", "scratch", "put", "get", "for", "each", "if", "apply", "together", "{", ";"];
    const TILE_STATEMENTS: &[&str] = &["for", "let", "preload", "store", "NAME", ";"];
    const NAMES: &[&str] = &[
        "NAME", "from", "to", "over", "using", "on", "at", "of", "reduce", "sum", "mesh", "topology",
        "param", "use", "kernel", "program", "local", "partial", "only", "expect", "tiles", "preload",
        "load", "store", "dot", "zeros", "host",
    ];
    const EXPRESSIONS: &[&str] = &["NAME", "INT", "FLOAT", "true", "false", "(", "-", "!", "if", "{"];
    let mut left: Vec<&str> = expected.to_vec();
    let mut words: Vec<String> = vec![];
    let has = |left: &[&str], all: &[&str]| all.iter().all(|x| left.contains(x));
    let mut group = |left: &mut Vec<&str>, when: bool, names: &[&[&str]], word: &str| {
        if when {
            left.retain(|x| !names.iter().any(|n| n.contains(x)));
            words.push(word.to_string());
        }
    };
    let when = has(&left, &["algorithm", "fn", "collective"]);
    group(&mut left, when, &[ITEMS], "an item (`algorithm`, `program`, `param`, ..)");
    let operators = has(&left, &["+", "*"]);
    let when = has(&left, &["put", "apply"]);
    group(&mut left, when, &[STATEMENTS], "a statement");
    let when = has(&left, &["for", "store", "let"]) && !left.contains(&"zeros");
    group(&mut left, when, &[TILE_STATEMENTS], "a statement");
    let when = has(&left, &["NAME", "INT", "sum"]);
    group(&mut left, when, &[EXPRESSIONS, NAMES], "an expression");
    let when = has(&left, &["NAME", "INT", "("]) && !operators;
    group(&mut left, when, &[EXPRESSIONS, &["mesh", "load", "dot", "zeros"]], "an expression");
    let when = has(&left, &["NAME", "sum", "zeros"]);
    group(&mut left, when, &[NAMES], "a name");
    group(&mut left, operators, &[OPERATORS, &["("]], "an operator");
    words.extend(left.iter().map(|t| match *t {
        "NAME" | "PATH" => "a name".to_string(),
        "INT" => "a number".to_string(),
        "FLOAT" => "a number with a fraction".to_string(),
        "QUANTITY" => "a quantity such as `50 GB/s`".to_string(),
        "STRING" => "a string".to_string(),
        t => format!("`{t}`"),
    }));
    if words.len() > 7 {
        words.truncate(6);
        words.push("..".to_string());
        return Some(words.join(", "));
    }
    let last = words.pop()?;
    Some(if words.is_empty() { last } else { format!("{} or {last}", words.join(", ")) })
}

/// Returns the bracket whose missing end explains the error: an item begins, the file ends or a
/// different bracket closes inside it.
fn unclosed(cx: &Context<'_>, index: usize) -> Option<usize> {
    let open = *cx.open(index).last()?;
    let missing = match cx.token(index) {
        None => true,
        Some(t) if item_keyword(t) => true,
        Some(t @ (Token::CloseParen | Token::CloseBracket | Token::CloseBrace)) => {
            closer(cx.token(open)?) != Some(t)
        }
        // A statement cannot begin inside round or square brackets.
        Some(t) if statement_keyword(t) => cx.token(open) != Some(Token::OpenBrace),
        _ => false,
    };
    missing.then_some(open)
}

/// Returns whether a token is a keyword that begins an item and nothing else in the algorithm half.
fn item_keyword(t: Token<'_>) -> bool {
    matches!(
        t,
        Token::Fn
            | Token::Algorithm
            | Token::Collective
            | Token::Program
            | Token::Kernel
            | Token::Topology
            | Token::Param
            | Token::Local
            | Token::Mesh
    )
}

/// Returns whether a token is a keyword that begins a statement and nothing else.
fn statement_keyword(t: Token<'_>) -> bool {
    matches!(
        t,
        Token::Let | Token::Put | Token::Get | Token::Apply | Token::Each | Token::Scratch | Token::Store
    )
}

fn closer(open: Token<'_>) -> Option<Token<'static>> {
    match open {
        Token::OpenParen => Some(Token::CloseParen),
        Token::OpenBracket => Some(Token::CloseBracket),
        Token::OpenBrace => Some(Token::CloseBrace),
        _ => None,
    }
}

/// Returns whether a bracket names devices in a statement about one link or device, as machine
/// files have them: after `link`, `failed:` or `route:`.
fn of_one_place(cx: &Context<'_>, index: usize) -> bool {
    let back = |steps: usize| index.checked_sub(steps).and_then(|i| cx.token(i));
    // A mesh may be a topology's shape, too.
    let item = cx.tokens[..index].iter().rev().map(|t| t.1);
    let item = item.filter(|t| *t != Token::Mesh).find(|t| item_keyword(*t));
    match back(1) {
        _ if item != Some(Token::Topology) => false,
        Some(Token::Name("link")) => true,
        Some(Token::Colon) => matches!(back(2), Some(Token::Name("failed" | "route"))),
        _ => false,
    }
}

/// Returns advice for the mistake that likely caused the error.
fn slip(cx: &Context<'_>, index: usize, expected: &[&str]) -> Option<String> {
    let wants = |t: &str| expected.contains(&t);
    if let Some(open) = unclosed(cx, index) {
        let close = cx.token(open).and_then(closer)?.words();
        return Some(format!("put the missing {close} before this"));
    }
    let found = cx.token(index)?;
    let before = index.checked_sub(1).and_then(|i| cx.token(i));
    let after = cx.token(index + 1);
    let operand = matches!(
        before,
        Some(
            Token::Name(_)
                | Token::Path(_)
                | Token::Number(_)
                | Token::CloseParen
                | Token::CloseBracket
                | Token::CloseBrace
        )
    );
    let advice = match found {
        Token::LeftArrow if wants("->") => "`put` sends with `->`; `get` fetches with `<-`",
        Token::LeftArrow if operand => "`<-` is one token; for \"less than minus\" write `< -` with a space",
        Token::RightArrow if wants("<-") => "`get` fetches with `<-`; `put` sends with `->`",
        Token::RightArrow if wants("[") && operand => "`put` sends a slice: `[..]`, `[i]` or `buffer[i]`",
        Token::Less if wants("<-") && after == Some(Token::Minus) => "write `<-` without a space",
        Token::Minus if wants("->") && after == Some(Token::Greater) => "write `->` without a space",
        Token::Assign if before == Some(Token::DotDot) => {
            "a range excludes its upper bound: to include b, write `a..b + 1`"
        }
        Token::Assign if wants(":") => "write an argument as `name: value`",
        Token::Assign if wants("in") => "write `in`, as in `for i in a..b`",
        Token::Assign if wants("+=") => "to add, write `+=`; to name a value, write `let`",
        Token::Plus if wants("+=") && after == Some(Token::Assign) => "write `+=` without a space",
        Token::Assign if operand && expected.len() > 1 => {
            "`=` gives a name to a value; to compare, write `==`"
        }
        Token::EqEq if wants("=") => "`==` compares; to give a name to a value, write `=`",
        Token::Colon if wants("=") => "write a default or a value as `name = value`",
        Token::CloseParen | Token::Comma if expected == ["="] => {
            "write a parameter of an algorithm with its default: `name = value`"
        }
        Token::Or if before == Some(Token::Or) => "logical or is `||`, without a space",
        Token::And if before == Some(Token::And) => "logical and is `&&`, without a space",
        Token::Star if before == Some(Token::Star) => "write a power as `pow(a, b)`",
        Token::Mod if wants("of") => {
            "write the ranks of a collective as `(r of p)`; `mod` belongs to an algorithm, whose arithmetic on ranks wraps around"
        }
        Token::Mod if operand => "`mod` belongs to an axis; the remainder operator is `%`",
        Token::OpenBrace if wants("..") && ranged(cx, index) => {
            "write a range as `a..b`; it excludes its end: `for s in 0..p - 1`"
        }
        Token::At if wants("@") => "in a type, write `@` before an axis, as in `4@tp`",
        Token::At if operand => {
            "`at` follows a slice: `[i] at rank`; a rank alone means the same chunks on that rank"
        }
        Token::AtSign if wants("at") => "write `at` before a rank, as in `[i] at r + 1`",
        Token::Of | Token::For | Token::Semicolon if before == Some(Token::DotDot) && wants("]") => {
            "`[..]` selects everything, `[i of n]` part i of n"
        }
        Token::DotDot if wants("]") && wants("of") => {
            "for k chunks from chunk i write `[i; k]`; for a list write `[c for c in a..b]`"
        }
        Token::Comma if wants("]") && wants("of") => {
            "for a run of chunks write `[i; k]`, for a list `[e for i in a..b]`, for part b of chunk a `[a][b of n]`"
        }
        Token::CloseBracket if wants("..") && before == Some(Token::OpenBracket) => {
            "to select everything, write `[..]`"
        }
        Token::For if wants("]") && operand => "`of` comes last: `[i for i in a..b of n]`",
        Token::OpenBracket if wants("return") => {
            "only a name can be indexed, once: name the value with `let`, and write several indices as `w[i, j]`"
        }
        Token::OpenBracket if operand && wants("*") => {
            "only a tensor with a name can be indexed, in an expression of tensors: `w[i]`"
        }
        Token::DotDot if wants("]") && indexed(cx, index) => {
            "an index is one number; for a part of a dimension, write `slice(x, dim: d, from: a, to: b)`"
        }
        Token::OpenParen if of_one_place(cx, index) => {
            "the rate of a single link, a failed device and a route cannot be stated here: write them in a machine file, and name it, as in `topology sys = \"machine.yaml\"`, or use `--topology`"
        }
        Token::OpenParen if wants("return") => "write `return` before a result that begins with `(`",
        Token::Return if wants("NAME") && wants("INT") => {
            "`return` precedes the result of a program; a function and a kernel are the value of their expression"
        }
        Token::Return if wants("store") && wants("let") => {
            "a tile kernel returns nothing: `store` writes its result"
        }
        Token::Return if wants("let") && !wants("put") => {
            "`return` precedes the result of a program, which follows all loops"
        }
        Token::CloseBrace if wants("return") => return Some(no_result(cx, index)),
        Token::OpenBrace if expected == ["->"] => {
            "write the type of the result before the body, as in `-> f32[4]`"
        }
        Token::CloseBrace | Token::CloseParen | Token::CloseBracket if cx.open(index).is_empty() => {
            "no bracket is open here: remove this one, or look for a bracket that was closed too early"
        }
        Token::Number(NumberLiteral::Quantity(_)) => {
            "a number followed by a unit is one quantity; if a name was meant, write an operator between them"
        }
        _ => "",
    };
    let advice = match expected {
        ["else"] => "an `if` expression needs an `else`",
        ["tiles"] => "in a tile kernel, `for` iterates over tiles: `for i in tiles(N, 32)`",
        _ => advice,
    };
    if !advice.is_empty() {
        return Some(advice.to_string());
    }
    if let Some(word) = found
        .reserved()
        .filter(|_| wants("NAME"))
        .filter(|w| !wants("INT") || !STRUCTURE.contains(w) && !ITEMS.contains(w))
    {
        return Some(format!("`{word}` is a reserved word; choose another name"));
    }
    if let Some(Token::Name(name)) = before {
        match name {
            "not" => return Some("logical not is `!`".into()),
            "while" | "loop" => return newcomers::operation(name).map(str::to_owned),
            _ => {}
        }
    }
    if let Token::Path(name) = found {
        let last = name.rsplit('.').next().unwrap_or(name);
        return wants("NAME").then(|| format!("a name is declared without a namespace: `{last}`"));
    }
    let name = match found {
        Token::Name(name) => name,
        Token::Return => "return",
        _ => return None,
    };
    match name {
        "and" if operand => return Some("logical and is `&&`".into()),
        "or" if operand => return Some("logical or is `||`".into()),
        "xor" if operand => return Some("exclusive or is `^`".into()),
        "def" | "func" | "function" if wants("fn") => return Some("declare a function with `fn`".into()),
        _ => {}
    }
    if let (true, Some(help)) = (wants("put"), newcomers::statement(name)) {
        return Some(help.into());
    }
    if let (Some(Token::Number(n)), false) = (before, wants("*")) {
        let value = match n {
            NumberLiteral::Int(i) => Some(i as f64),
            NumberLiteral::Float(x) => Some(x),
            NumberLiteral::Quantity(_) => None,
        };
        if let Some(help) = value.and_then(|v| kbc_machine::topology::rate_in_bits(v, name)) {
            return Some(help);
        }
    }
    if let (true, Some(help)) = (wants("let") && wants("INT"), newcomers::operation(name)) {
        return Some(help.into());
    }
    if let Some(word) = nearest(name, reserved_words().filter(|w| wants(w))) {
        return Some(format!("did you mean `{word}`?"));
    }
    match before {
        Some(Token::Number(_)) if wants("*") && cx.touch(index) => Some("write `*` between the factors of a product".into()),
        Some(Token::Number(_)) if wants(";") && !wants("*") => Some(
            "the units are B, KB, KiB, MB, MiB, GB, GiB and TB, each also with `/s`; ns, us and ms; GFLOP/s and TFLOP/s".into(),
        ),
        _ => None,
    }
}

/// Returns whether the innermost open bracket holds the indices of a name.
fn indexed(cx: &Context<'_>, index: usize) -> bool {
    let Some(&open) = cx.open(index).last() else { return false };
    let before = |n: usize| open.checked_sub(n).and_then(|i| cx.token(i));
    cx.token(open) == Some(Token::OpenBracket)
        && cx.touch(open)
        && matches!(before(1), Some(Token::Name(_)))
        // A type, or an operand of a tile kernel.
        && !matches!(before(2), Some(Token::Colon | Token::RightArrow | Token::Load | Token::Store))
}

/// Returns advice for a body that ends without a result. The result may be the end of the last
/// `let`, because a `(` or `-` continues the value before it.
fn no_result(cx: &Context<'_>, index: usize) -> String {
    let open = cx.open(index).last().copied().unwrap_or(0);
    let mut depth = 0;
    for i in (open + 1..index).rev() {
        match cx.tokens[i].1 {
            Token::CloseParen | Token::CloseBracket | Token::CloseBrace => depth += 1,
            Token::OpenParen | Token::OpenBracket | Token::OpenBrace => depth -= 1,
            Token::Let | Token::Semicolon if depth == 0 => break,
            _ => {}
        }
        let first = cx.text[cx.tokens[i - 1].2..cx.tokens[i].0].contains('\n');
        if depth == 0 && first && matches!(cx.tokens[i].1, Token::OpenParen | Token::Minus) {
            let sign = cx.tokens[i].1.words();
            return format!(
                "the line that begins with {sign} continues the `let` before it: write `return` before the {sign}"
            );
        }
    }
    "the body of a program must end with its result; before a result that begins with `(` or `-`, write `return`".into()
}

/// Returns whether a `for` before a token runs over `range(..)`.
fn ranged(cx: &Context<'_>, index: usize) -> bool {
    let from = cx.tokens[..index].iter().rposition(|t| t.1 == Token::In);
    from.is_some_and(|i| cx.token(i + 1) == Some(Token::Name("range")))
}

/// Words that begin an item.
const ITEMS: &[&str] = &[
    "use",
    "param",
    "topology",
    "mesh",
    "kernel",
    "program",
    "local",
    "fn",
    "collective",
    "algorithm",
    "table",
];

/// Further reserved words that, where an expression is missing, more likely belong to the
/// surrounding construct than being used as a name.
const STRUCTURE: &[&str] = &[
    "mod", "of", "on", "from", "to", "over", "using", "chunks", "where", "at", "in", "let", "return",
    "scratch", "put", "get", "for", "each", "if", "else", "apply", "together", "reduce",
];
