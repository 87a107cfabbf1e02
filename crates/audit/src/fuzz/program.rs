//! A random program: its values, their dependences, and its text.
//!
//! This module owns the form. [`super::generate`] chooses the content.

use super::machine::RandomMachine;
use super::scalar::UserKernel;
use kbc_ir::types::{CutRule, TensorType};
use std::collections::BTreeSet;
use std::fmt::Write;

/// One input or `let`.
#[derive(Clone, Debug)]
pub struct Value {
    /// Its name.
    pub name: String,
    /// Its type. Its placement is known if it is an input, annotated, or the result of a
    /// collective.
    pub ty: TensorType,
    /// Whether the placement in `ty` is that of the value.
    pub placed: bool,
    /// The right-hand side; `None` for an input.
    pub text: Option<String>,
    /// Whether the type is written beside it.
    pub annotated: bool,
    /// The values that its text uses.
    pub uses: BTreeSet<usize>,
}

/// A program for one machine.
#[derive(Clone, Debug)]
pub struct RandomProgram {
    /// The machine.
    pub machine: RandomMachine,
    /// The size that the text has as parameter `n`.
    pub count: Option<u64>,
    /// Whether arguments of `sin` and `cos` are limited to the range for which the target documents
    /// an error.
    pub bounded: bool,
    /// Kernels; called kernels come before their callers.
    pub kernels: Vec<UserKernel>,
    /// Tile kernels: name and declaration.
    pub tiles: Vec<(String, String)>,
    /// Inputs and lets, in order.
    pub values: Vec<Value>,
    /// The values that are results, with their types.
    pub results: Vec<(usize, TensorType)>,
}

/// Returns the text with every argument of a function (such as `sin(`) limited to -1000 to 1000.
fn bounded(text: &str, function: &str) -> String {
    let Some(at) = text.find(function) else { return text.to_owned() };
    let (before, after) = text.split_at(at + function.len());
    let mut depth = 1;
    let end = after.find(|c| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        depth == 0
    });
    let (inside, rest) = after.split_at(end.unwrap_or(after.len()));
    format!("{before}min(max({}, -1000.0), 1000.0){}", bounded(inside, function), bounded(rest, function))
}

/// Returns the text with every separate occurrence of a number replaced by a name.
fn with_name(text: &str, number: &str, name: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    let part = |c: char| c.is_ascii_alphanumeric() || "._".contains(c);
    while let Some(at) = rest.find(number) {
        let (before, after) = (&rest[..at], &rest[at + number.len()..]);
        out += before;
        let alone = !out.ends_with(part) && !after.starts_with(part);
        out += if alone { name } else { number };
        rest = after;
    }
    out + rest
}

impl RandomProgram {
    /// Returns the values on which results depend.
    fn live(&self) -> BTreeSet<usize> {
        let mut live: BTreeSet<usize> = self.results.iter().map(|r| r.0).collect();
        for (i, v) in self.values.iter().enumerate().rev() {
            if live.contains(&i) {
                live.extend(&v.uses);
            }
        }
        live
    }

    /// Returns the program as `.kb` text without the values on which no result depends.
    pub fn text(&self) -> String {
        let live = self.live();
        let values = || self.values.iter().enumerate().filter(|(i, _)| live.contains(i)).map(|v| v.1);
        let mut body = String::new();
        for v in values() {
            let Some(text) = &v.text else { continue };
            let ty = if v.annotated { format!(": {}", written(&v.ty)) } else { String::new() };
            let _ = writeln!(body, "    let {}{ty} = {text};", v.name);
        }
        let names: Vec<&str> = self.results.iter().map(|r| self.values[r.0].name.as_str()).collect();
        let types: Vec<String> = self.results.iter().map(|r| written(&r.1)).collect();
        let (names, types) = match &types[..] {
            [one] => (names.concat(), one.clone()),
            many => (format!("({})", names.join(", ")), format!("({})", many.join(", "))),
        };
        let inputs: Vec<String> = values()
            .filter(|v| v.text.is_none())
            .map(|v| format!("{}: {}", v.name, written(&v.ty)))
            .collect();
        // Kernels that are called, and those that these call.
        let mut kernels: Vec<&str> = vec![];
        for k in self.kernels.iter().rev() {
            let call = format!("{}(", k.name);
            if body.contains(&call) || kernels.iter().any(|t| t.contains(&call)) {
                kernels.push(&k.text);
            }
        }
        let limits =
            |text: &str| if self.bounded { bounded(&bounded(text, "sin("), "cos(") } else { text.to_owned() };
        let body = limits(&body);
        let mut out = self.count.map_or(String::new(), |n| format!("param n = {n}\n"));
        let _ = write!(out, "topology sys = {}\nmesh m = {}\n", self.machine.text(), self.machine.view);
        for k in kernels.iter().rev() {
            let _ = writeln!(out, "{}", limits(k));
        }
        for (name, text) in &self.tiles {
            if body.contains(&format!(" {name}(")) {
                let _ = writeln!(out, "{text}");
            }
        }
        let program = format!("program fuzz({}) -> {types} {{\n{body}    {names}\n}}\n", inputs.join(", "));
        out + &match self.count {
            Some(n) => with_name(&program, &n.to_string(), "n"),
            None => program,
        }
    }

    /// Returns smaller programs that may show the same difference, smallest first: with a single
    /// result, or with another value as the result.
    pub fn smaller(&self) -> Vec<RandomProgram> {
        let only = |results: Vec<(usize, TensorType)>| RandomProgram { results, ..self.clone() };
        let live = self.live();
        let mut out = vec![];
        for (i, v) in self.values.iter().enumerate() {
            if live.contains(&i) && v.text.is_some() {
                out.push(only(vec![(i, v.ty.erased())]));
                if v.placed {
                    out.push(only(vec![(i, v.ty.clone())]));
                }
            }
        }
        if self.results.len() > 1 {
            out.extend(self.results.iter().map(|r| only(vec![r.clone()])));
        }
        let lines = |p: &RandomProgram| p.text().len();
        let whole = lines(self);
        out.retain(|p| lines(p) < whole);
        out.sort_by_key(lines);
        out
    }
}

/// Returns a type as `.kb` writes it. In the IR the rule of a split has no name.
fn written(ty: &TensorType) -> String {
    let mut out = ty.to_string();
    for cut in ty.dims.iter().filter_map(|d| d.cut.as_ref()) {
        let old = format!("@{cut}");
        let new = match &cut.rule {
            CutRule::Ceil => old.replace("(ceil)", "(cut: ceil)"),
            CutRule::Lengths(parts) => old.replace(&format!("({parts})"), &format!("(lengths: [{parts}])")),
            CutRule::Even | CutRule::Lines(_) => continue,
        };
        out = out.replacen(&old, &new, 1);
    }
    out
}
