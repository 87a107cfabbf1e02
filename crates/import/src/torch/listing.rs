//! A program as lines for people: one a node, in the words of `print(ep)`.
//!
//! Messages point into it: files of exported programs are one line of a megabyte.

use super::model::{Arg, Int, Written};

/// The text, and the bytes of the line of each node and, last, of the result.
pub fn listing(w: &Written) -> (String, Vec<(usize, usize)>) {
    let mut text = String::from("def forward(self");
    for (arg, _) in &w.inputs {
        text.push_str(&format!(", {}", typed(w, arg)));
    }
    text.push_str("):\n");
    let mut lines = vec![];
    let mut add = |line: String| {
        text.push_str("    ");
        let start = text.len();
        text.push_str(&line);
        lines.push((start, text.len()));
        text.push('\n');
    };
    for n in &w.nodes {
        let left: Vec<String> = n.outputs.iter().map(|o| typed(w, o)).collect();
        let args: Vec<String> = n.args.iter().map(|(name, a)| format!("{name} = {}", word(a))).collect();
        let equals = if left.is_empty() { "" } else { " = " };
        add(format!("{}{equals}{}({})", left.join(", "), n.target, args.join(", ")));
    }
    let out: Vec<String> = w.outputs.iter().map(word).collect();
    add(format!("return ({})", out.join(", ")));
    (text, lines)
}

fn typed(w: &Written, arg: &Arg<String>) -> String {
    let one = |name: &String| match (w.tensors.get(name), w.ints.get(name)) {
        (Some(m), _) => format!("{name}: {m}"),
        (_, Some(s)) => format!("{name}: int {s}"),
        _ => name.clone(),
    };
    match arg {
        Arg::Tensor(n) => one(n),
        Arg::Tensors(l) => format!("[{}]", l.iter().map(one).collect::<Vec<_>>().join(", ")),
        Arg::Int(Int::Of(n)) | Arg::BoolOf(n) => one(n),
        other => word(other),
    }
}

fn word(arg: &Arg<String>) -> String {
    let list = |l: Vec<String>| format!("[{}]", l.join(", "));
    let int = |i: &Int<String>| match i {
        Int::Is(n) => n.to_string(),
        Int::Of(v) => v.clone(),
    };
    match arg {
        Arg::None => "None".into(),
        Arg::Tensor(n) | Arg::BoolOf(n) => n.clone(),
        Arg::Tensors(l) => list(l.clone()),
        Arg::Optionals(l) => list(l.iter().map(|o| o.clone().unwrap_or("None".into())).collect()),
        Arg::Int(i) => int(i),
        Arg::Ints(l) => list(l.iter().map(int).collect()),
        Arg::Float(x) => format!("{x:?}"),
        Arg::Bool(true) => "True".into(),
        Arg::Bool(false) => "False".into(),
        Arg::Text(s) => format!("{s:?}"),
        Arg::DType(d) => d.name().into(),
        Arg::Place => "..".into(),
    }
}
