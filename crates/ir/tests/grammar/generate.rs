//! Random sentences of the grammar, and random changes of texts. Both follow from a number alone.

use super::ebnf::{Class, Grammar, Node};
use kbc_diag::{Diagnostics, FileId};
use kbc_ir::text::reader::{LineNode, tree};

/// A sequence of numbers that look random.
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Rng {
        Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % n.max(1)
    }

    fn pick<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.below(list.len())]
    }
}

const WORDS: [&str; 16] = [
    "a",
    "b",
    "tp",
    "r",
    "x",
    "n1",
    "a.b",
    "_",
    "`two words`",
    "`if`",
    "sum",
    "of",
    "at",
    "where",
    "over",
    "mod",
];

/// Words that a number may follow.
fn label(rng: &mut Rng) -> String {
    let word = *rng.pick(&WORDS);
    if rng.below(5) == 0 { format!("{word}#{}", rng.below(3)) } else { word.to_owned() }
}

/// Returns a token of a class as text.
pub fn token(class: Class, rng: &mut Rng) -> String {
    match class {
        Class::Word => (*rng.pick(&WORDS)).to_owned(),
        Class::Label => label(rng),
        Class::Percent => format!("%{}", label(rng)),
        Class::At => format!("@{}", label(rng)),
        Class::AtWord => format!("@{}", rng.pick(&WORDS)),
        Class::Dollar => format!("${}", rng.below(3)),
        Class::Int => (*rng.pick(&["0", "1", "2", "8", "4096", "18446744073709551615"])).to_owned(),
        Class::Float => (*rng.pick(&["0.5", "1e-3", "2.0e+10"])).to_owned(),
        Class::Str => (*rng.pick(&["\"\"", "\"a; b\"", "\"\\n\\u{e9}\""])).to_owned(),
        Class::Loc => (*rng.pick(&["@-", "@0:1..20"])).to_owned(),
        Class::Attribute => (*rng.pick(&["x-a", "x-long-name", "x-b_1"])).to_owned(),
        Class::Machine => {
            (*rng.pick(&["\"ring(4)\"", "ring(4) { link: 50 GB/s; a }", "torus(2, 2)"])).to_owned()
        }
        Class::Newline | Class::Indent | Class::Dedent => String::new(),
    }
}

/// Writes lines.
#[derive(Default)]
struct Layout {
    text: String,
    line: Vec<String>,
    depth: usize,
}

impl Layout {
    fn token(&mut self, class: Option<Class>, text: String) {
        match class {
            Some(Class::Newline) => {
                self.text += &"  ".repeat(self.depth);
                self.text += &self.line.join(" ");
                self.text.push('\n');
                self.line.clear();
            }
            Some(Class::Indent) => self.depth += 1,
            Some(Class::Dedent) => self.depth -= 1,
            _ => self.line.push(text),
        }
    }
}

/// Makes sentences of a grammar.
pub struct Generator<'a> {
    grammar: &'a Grammar,
    /// Least number of nested rules of each rule.
    least: Vec<usize>,
}

impl<'a> Generator<'a> {
    pub fn new(grammar: &'a Grammar) -> Generator<'a> {
        let mut least = vec![usize::MAX; grammar.rules.len()];
        loop {
            let before = least.clone();
            for (i, rule) in grammar.rules.iter().enumerate() {
                least[i] = least[i].min(height(rule, &before).saturating_add(1));
            }
            if least == before {
                break;
            }
        }
        for (name, n) in grammar.names.iter().zip(&least) {
            assert!(*n < usize::MAX, "no sentence of {name} ends");
        }
        Generator { grammar, least }
    }

    /// Makes a sentence; `depth` bounds how deep rules nest.
    pub fn sentence(&self, rng: &mut Rng, depth: usize) -> String {
        let mut out = Layout::default();
        self.write(&self.grammar.rules[0], depth, rng, &mut out);
        // Another version is not judged.
        out.text
            .lines()
            .map(|l| if l.starts_with("kir ") { "kir 1\n".to_owned() } else { format!("{l}\n") })
            .collect()
    }

    fn write(&self, node: &Node, left: usize, rng: &mut Rng, out: &mut Layout) {
        match node {
            Node::Literal(word) => out.token(None, word.clone()),
            Node::Token(class) => {
                let text = token(*class, rng);
                out.token(Some(*class), text);
            }
            Node::Except(class, words) => {
                let mut text = token(*class, rng);
                while words.contains(&text) {
                    text = token(*class, rng);
                }
                out.token(Some(*class), text);
            }
            Node::Rule(r) => self.write(&self.grammar.rules[*r], left.saturating_sub(1), rng, out),
            Node::Seq(list) => list.iter().for_each(|n| self.write(n, left, rng, out)),
            Node::Alt(list) => {
                let fits: Vec<&Node> = list.iter().filter(|n| height(n, &self.least) <= left).collect();
                let least =
                    || list.iter().min_by_key(|n| height(n, &self.least)).expect("a choice has parts");
                let node = if fits.is_empty() { least() } else { *rng.pick(&fits) };
                self.write(node, left, rng, out);
            }
            Node::Opt(inner) => {
                if height(inner, &self.least) <= left && rng.below(2) == 0 {
                    self.write(inner, left, rng, out);
                }
            }
            Node::Rep(inner) => {
                while height(inner, &self.least) <= left && rng.below(5) < 3 {
                    self.write(inner, left, rng, out);
                }
            }
        }
    }
}

/// Returns the least number of nested rules of a part.
fn height(node: &Node, least: &[usize]) -> usize {
    match node {
        Node::Literal(_) | Node::Token(_) | Node::Except(..) | Node::Opt(_) | Node::Rep(_) => 0,
        Node::Rule(r) => least[*r],
        Node::Seq(list) => list.iter().map(|n| height(n, least)).max().unwrap_or(0),
        Node::Alt(list) => list.iter().map(|n| height(n, least)).min().unwrap_or(0),
    }
}

/// A line with its indentation and its tokens as text.
#[derive(Clone)]
struct Line {
    indent: usize,
    tokens: Vec<String>,
    /// Whether the line is text as a whole, as that of a machine.
    whole: bool,
}

fn flatten(text: &str, nodes: &[LineNode], out: &mut Vec<Line>) {
    for n in nodes {
        let start = n.span.start as usize;
        let indent = start - text[..start].rfind('\n').map_or(0, |i| i + 1);
        let cut = |span: kbc_diag::Span| text[span.start as usize..span.end as usize].to_owned();
        let whole = text[start..].starts_with("machine ");
        let tokens = if whole { vec![cut(n.span)] } else { n.toks.iter().map(|t| cut(t.span)).collect() };
        out.push(Line { indent, tokens, whole });
        flatten(text, &n.kids, out);
    }
}

/// Texts that differ from a text in one token or line.
pub struct Mutator {
    lines: Vec<Line>,
    tokens: Vec<String>,
}

impl Mutator {
    pub fn new(grammar: &Grammar, text: &str) -> Mutator {
        let nodes = tree(FileId(0), text, &mut Diagnostics::new());
        let mut lines = vec![];
        flatten(text, &nodes, &mut lines);
        let mut tokens: Vec<String> = grammar.literals.clone();
        tokens.extend(lines.iter().filter(|l| !l.whole).flat_map(|l| l.tokens.iter().cloned()));
        Mutator { lines, tokens }
    }

    pub fn mutant(&self, rng: &mut Rng) -> String {
        let mut lines = self.lines.clone();
        let i = rng.below(lines.len());
        let j = rng.below(lines.len());
        match rng.below(12) {
            0 => drop(lines.remove(i)),
            1 => lines.insert(j, lines[i].clone()),
            2 => lines.swap(i, j),
            3 => lines[i].indent = lines[j].indent,
            _ if lines[i].whole => {}
            how => {
                let at = rng.below(lines[i].tokens.len());
                let other = match rng.below(3) {
                    0 => {
                        let classes = [
                            Class::Word,
                            Class::Label,
                            Class::Percent,
                            Class::At,
                            Class::Dollar,
                            Class::Int,
                            Class::Float,
                            Class::Str,
                            Class::Loc,
                            Class::Attribute,
                        ];
                        let class = *rng.pick(&classes);
                        token(class, rng)
                    }
                    _ => rng.pick(&self.tokens).clone(),
                };
                let tokens = &mut lines[i].tokens;
                match how {
                    4 | 5 => drop(tokens.remove(at)),
                    6 => tokens.insert(at, tokens[at].clone()),
                    7 | 8 => {
                        let with = rng.below(tokens.len());
                        tokens.swap(at, with);
                    }
                    9 => tokens.insert(at, other),
                    _ => tokens[at] = other,
                }
            }
        }
        lines.iter().map(|l| format!("{}{}\n", " ".repeat(l.indent), l.tokens.join(" "))).collect()
    }
}
