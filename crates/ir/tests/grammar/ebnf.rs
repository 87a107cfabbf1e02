//! Reader of the grammar: rules in the notation of ISO 14977, as `docs/kir.ebnf` uses it.

use std::collections::BTreeMap;

/// A token of the lexer that the grammar names in capitals.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Class {
    Word,
    Label,
    Percent,
    At,
    AtWord,
    Dollar,
    Int,
    Float,
    Str,
    Loc,
    Attribute,
    Machine,
    Newline,
    Indent,
    Dedent,
}

impl Class {
    fn named(name: &str) -> Class {
        match name {
            "WORD" => Class::Word,
            "LABEL" => Class::Label,
            "PERCENT" => Class::Percent,
            "AT" => Class::At,
            "ATWORD" => Class::AtWord,
            "DOLLAR" => Class::Dollar,
            "INT" => Class::Int,
            "FLOAT" => Class::Float,
            "STRING" => Class::Str,
            "LOC" => Class::Loc,
            "ATTRIBUTE" => Class::Attribute,
            "MACHINE" => Class::Machine,
            "NEWLINE" => Class::Newline,
            "INDENT" => Class::Indent,
            "DEDENT" => Class::Dedent,
            _ => panic!("the test knows no token {name}"),
        }
    }
}

/// A part of a rule.
#[derive(Clone, Debug)]
pub enum Node {
    Seq(Vec<Node>),
    Alt(Vec<Node>),
    Opt(Box<Node>),
    Rep(Box<Node>),
    /// A word or symbol as it stands in the text.
    Literal(String),
    Token(Class),
    /// A word that is none of these.
    Except(Class, Vec<String>),
    Rule(usize),
}

/// A grammar, whose first rule is the module.
pub struct Grammar {
    pub names: Vec<String>,
    pub rules: Vec<Node>,
    /// All words and symbols.
    pub literals: Vec<String>,
}

#[derive(Clone, PartialEq, Debug)]
enum Lexeme {
    Name(String),
    Text(String),
    Special,
    Sign(char),
}

fn lex(text: &str) -> Vec<Lexeme> {
    let mut out = vec![];
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix("(*") {
            rest = after.split_once("*)").expect("a comment ends").1;
        } else if c.is_whitespace() {
            rest = &rest[c.len_utf8()..];
        } else if c == '"' {
            let (inner, after) = rest[1..].split_once('"').expect("a word ends");
            out.push(Lexeme::Text(inner.into()));
            rest = after;
        } else if c == '?' {
            rest = rest[1..].split_once(" ?").expect("a description ends").1;
            out.push(Lexeme::Special);
        } else if c.is_alphabetic() {
            let n = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
            out.push(Lexeme::Name(rest[..n].into()));
            rest = &rest[n..];
        } else {
            out.push(Lexeme::Sign(c));
            rest = &rest[c.len_utf8()..];
        }
    }
    out
}

struct Reader {
    lexemes: Vec<Lexeme>,
    at: usize,
    known: BTreeMap<String, usize>,
}

impl Reader {
    fn eat(&mut self, c: char) -> bool {
        let yes = self.lexemes.get(self.at) == Some(&Lexeme::Sign(c));
        self.at += usize::from(yes);
        yes
    }

    fn choice(&mut self) -> Node {
        let mut list = vec![self.sequence()];
        while self.eat('|') {
            list.push(self.sequence());
        }
        if list.len() == 1 { list.remove(0) } else { Node::Alt(list) }
    }

    fn sequence(&mut self) -> Node {
        let mut list = vec![];
        while let Some(node) = self.part() {
            list.push(node);
        }
        if list.len() == 1 { list.remove(0) } else { Node::Seq(list) }
    }

    fn part(&mut self) -> Option<Node> {
        let node = match self.lexemes.get(self.at)?.clone() {
            Lexeme::Text(word) => {
                self.at += 1;
                Node::Literal(word)
            }
            Lexeme::Name(name) => {
                self.at += 1;
                match self.known.get(&name) {
                    Some(rule) => Node::Rule(*rule),
                    None => Node::Token(Class::named(&name)),
                }
            }
            Lexeme::Sign(open @ ('(' | '[' | '{')) => {
                self.at += 1;
                let inner = self.choice();
                let (close, node) = match open {
                    '(' => (')', inner),
                    '[' => (']', Node::Opt(Box::new(inner))),
                    _ => ('}', Node::Rep(Box::new(inner))),
                };
                assert!(self.eat(close), "{close} is missing");
                node
            }
            _ => return None,
        };
        if !self.eat('-') {
            return Some(node);
        }
        let Node::Token(class) = node else { panic!("only tokens have exceptions") };
        let words = match self.part() {
            Some(Node::Literal(word)) => vec![word],
            Some(Node::Alt(list)) => list
                .into_iter()
                .map(|n| if let Node::Literal(word) = n { word } else { panic!("exceptions are words") })
                .collect(),
            other => panic!("{other:?} is no exception"),
        };
        Some(Node::Except(class, words))
    }
}

/// Reads a grammar. Every rule must be defined once, and used.
pub fn read(text: &str) -> Grammar {
    let lexemes = lex(text);
    // Rules whose definition is a description are tokens.
    let mut known = BTreeMap::new();
    let mut names = vec![];
    for w in lexemes.windows(3) {
        if let [Lexeme::Name(name), Lexeme::Sign('='), after] = w
            && *after != Lexeme::Special
        {
            assert!(known.insert(name.clone(), names.len()).is_none(), "{name} is defined twice");
            names.push(name.clone());
        }
    }
    let mut reader = Reader { lexemes, at: 0, known };
    let mut rules = vec![];
    while reader.at < reader.lexemes.len() {
        let Lexeme::Name(_) = reader.lexemes[reader.at] else { panic!("a rule begins with its name") };
        reader.at += 1;
        assert!(reader.eat('='), "= is missing after {:?}", reader.lexemes[reader.at - 1]);
        if reader.lexemes[reader.at] == Lexeme::Special {
            reader.at += 1;
        } else {
            rules.push(reader.choice());
        }
        assert!(reader.eat(';'), "; is missing before {:?}", reader.lexemes.get(reader.at));
    }
    let mut literals = vec![];
    let mut used = vec![false; rules.len()];
    used[0] = true;
    for rule in &rules {
        each(rule, &mut |n| match n {
            Node::Literal(word) if !literals.contains(word) => literals.push(word.clone()),
            Node::Rule(r) => used[*r] = true,
            _ => {}
        });
    }
    for (name, used) in names.iter().zip(used) {
        assert!(used, "no rule uses {name}");
    }
    Grammar { names, rules, literals }
}

/// Calls `f` with every part of a rule.
pub fn each(n: &Node, f: &mut impl FnMut(&Node)) {
    f(n);
    match n {
        Node::Seq(list) | Node::Alt(list) => list.iter().for_each(|n| each(n, f)),
        Node::Opt(inner) | Node::Rep(inner) => each(inner, f),
        Node::Literal(_) | Node::Token(_) | Node::Except(..) | Node::Rule(_) => {}
    }
}
