//! Recogniser: whether a text is a sentence of the grammar. It follows all derivations at once.

use super::ebnf::{Class, Grammar, Node};
use kbc_diag::{Diagnostics, FileId};
use kbc_ir::text::reader::{LineNode, TokenKind, tree};
use std::collections::HashMap;
use std::rc::Rc;

/// A token of the grammar.
#[derive(Clone, Debug)]
enum Input {
    Token(TokenKind),
    Newline,
    Indent,
    Dedent,
}

fn flatten(nodes: Vec<LineNode>, out: &mut Vec<Input>) {
    for n in nodes {
        out.extend(n.toks.into_iter().map(|t| Input::Token(t.tok)));
        out.push(Input::Newline);
        if !n.kids.is_empty() {
            out.push(Input::Indent);
            flatten(n.kids, out);
            out.push(Input::Dedent);
        }
    }
}

struct Recogniser<'a> {
    grammar: &'a Grammar,
    input: Vec<Input>,
    /// Ends of each rule from each position.
    known: HashMap<(usize, usize), Rc<[usize]>>,
    /// The last position that was looked at.
    furthest: usize,
}

/// Checks whether a text is a sentence. Otherwise returns the number of the token up to which it
/// could be one.
pub fn recognise(grammar: &Grammar, text: &str) -> Result<(), usize> {
    let mut found = Diagnostics::new();
    let nodes = tree(FileId(0), text, &mut found);
    if found.has_errors() {
        return Err(0);
    }
    let mut input = vec![];
    flatten(nodes, &mut input);
    let mut r = Recogniser { grammar, input, known: HashMap::new(), furthest: 0 };
    let ends = r.rule(0, 0);
    if ends.contains(&r.input.len()) { Ok(()) } else { Err(r.furthest) }
}

impl Recogniser<'_> {
    fn rule(&mut self, rule: usize, at: usize) -> Rc<[usize]> {
        if let Some(ends) = self.known.get(&(rule, at)) {
            return ends.clone();
        }
        let grammar = self.grammar;
        let ends: Rc<[usize]> = self.ends(&grammar.rules[rule], at).into();
        self.known.insert((rule, at), ends.clone());
        ends
    }

    fn ends(&mut self, node: &Node, at: usize) -> Vec<usize> {
        match node {
            Node::Literal(_) | Node::Token(_) | Node::Except(..) => {
                let yes = self.input.get(at).is_some_and(|i| matches(node, i));
                self.furthest = self.furthest.max(at + usize::from(yes));
                if yes { vec![at + 1] } else { vec![] }
            }
            Node::Rule(r) => self.rule(*r, at).to_vec(),
            Node::Alt(list) => {
                let mut out = vec![];
                for n in list {
                    out.extend(self.ends(n, at));
                }
                distinct(out)
            }
            Node::Seq(list) => {
                let mut now = vec![at];
                for n in list {
                    let mut next = vec![];
                    for at in now {
                        next.extend(self.ends(n, at));
                    }
                    now = distinct(next);
                }
                now
            }
            Node::Opt(inner) => {
                let mut out = self.ends(inner, at);
                out.push(at);
                distinct(out)
            }
            Node::Rep(inner) => {
                let mut all = vec![at];
                let mut fresh = vec![at];
                while let Some(at) = fresh.pop() {
                    for end in self.ends(inner, at) {
                        if !all.contains(&end) {
                            all.push(end);
                            fresh.push(end);
                        }
                    }
                }
                distinct(all)
            }
        }
    }
}

fn distinct(mut list: Vec<usize>) -> Vec<usize> {
    list.sort_unstable();
    list.dedup();
    list
}

fn matches(node: &Node, input: &Input) -> bool {
    let token = match input {
        Input::Newline => return matches!(node, Node::Token(Class::Newline)),
        Input::Indent => return matches!(node, Node::Token(Class::Indent)),
        Input::Dedent => return matches!(node, Node::Token(Class::Dedent)),
        Input::Token(token) => token,
    };
    match node {
        Node::Literal(word) => match token {
            TokenKind::Word(l, false) => l.nth == 0 && l.hint == *word,
            TokenKind::Sym(s) => s == word,
            TokenKind::Int(v) => v.to_string() == *word,
            _ => false,
        },
        Node::Token(class) => is(*class, token),
        Node::Except(class, words) => {
            let quoted = matches!(token, TokenKind::Word(_, true));
            let word = |w: &String| matches!(token, TokenKind::Word(l, _) if l.hint == *w);
            is(*class, token) && (quoted || !words.iter().any(word))
        }
        _ => false,
    }
}

fn is(class: Class, token: &TokenKind) -> bool {
    match token {
        TokenKind::Word(l, _) => class == Class::Label || (class == Class::Word && l.nth == 0),
        TokenKind::Percent(_) => class == Class::Percent,
        TokenKind::At(l) => class == Class::At || (class == Class::AtWord && l.nth == 0),
        TokenKind::Dollar(_) => class == Class::Dollar,
        TokenKind::Int(_) => class == Class::Int,
        TokenKind::Float(_) => class == Class::Float,
        TokenKind::Str(_) => class == Class::Str || class == Class::Machine,
        TokenKind::Attribute(_) => class == Class::Attribute,
        TokenKind::Loc(_) => class == Class::Loc,
        TokenKind::DollarName(_) | TokenKind::Sym(_) => false,
    }
}
