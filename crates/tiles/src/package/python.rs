//! Python printer for expressions, names and constants.
//!
//! Division and `mod` round down in both languages. Comparisons chain in Python and not in the IR,
//! and Python's `and` and `or` yield one of their operands. Both are written so that the value is
//! that of the IR.

use kbc_ir::expr::{BinOp, Expr, UnOp};
use kbc_ir::types::DType;
use std::fmt::Write;

/// Keywords of Python, and names that the templates use.
const RESERVED: [&str; 40] = [
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue", "def",
    "del", "elif", "else", "except", "finally", "for", "from", "global", "if", "import", "in", "is",
    "lambda", "nonlocal", "not", "or", "pass", "raise", "return", "try", "while", "with", "yield", "torch",
    "stored", "number", "integer", "combined",
];

/// Checks whether a name is an identifier of C++ and of Python, and not reserved in generated
/// Python.
pub fn identifier(name: &str) -> bool {
    let mut chars = name.chars();
    let start = chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
    start && chars.all(|c| c.is_ascii_alphanumeric() || c == '_') && !reserved(name)
}

/// Checks whether a name has another meaning in generated Python.
pub fn reserved(name: &str) -> bool {
    RESERVED.contains(&name)
}

/// Prints the entries of a dictionary of element types, such as `"f32": torch.float32, ..`.
pub fn dictionary(types: impl Iterator<Item = DType>, of: fn(DType) -> String) -> String {
    let entries: Vec<String> = types.map(|d| format!("\"{d}\": {}", of(d))).collect();
    entries.join(", ")
}

/// Prints the PyTorch type of an element type.
pub fn torch(dtype: DType) -> String {
    format!("torch.{}", dtype.row().torch)
}

/// Prints a string literal.
pub fn quoted(text: &str) -> String {
    let mut out = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out += "\\n",
            c if c.is_control() => {
                // Writing to a string cannot fail.
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out + "\""
}

/// Prints a tuple; one with a single element keeps its comma.
pub fn tuple<T: ToString>(items: impl IntoIterator<Item = T>) -> String {
    let items: Vec<String> = items.into_iter().map(|i| i.to_string()).collect();
    match &items[..] {
        [one] => format!("({one},)"),
        many => format!("({})", many.join(", ")),
    }
}

/// Prints an expression with the same value in Python. A table is a sequence with the table's name.
pub fn expr(e: &Expr) -> String {
    write(e, 0)
}

fn write(e: &Expr, outer: u8) -> String {
    let paren = |strength: u8, text: String| if strength < outer { format!("({text})") } else { text };
    match e {
        Expr::Int(v) if *v < 0 => paren(0, v.to_string()),
        Expr::Int(v) => v.to_string(),
        Expr::Var(n) => n.to_string(),
        Expr::Un(op, a) => match op {
            UnOp::Neg => paren(10, format!("-{}", write(a, 11))),
            UnOp::Not => format!("int({} == 0)", write(a, 4)),
            UnOp::Log2 => paren(8, format!("({}).bit_length() - 1", write(a, 0))),
            UnOp::CeilLog2 => format!("({} - 1).bit_length()", write(a, 8)),
            UnOp::Popcount => format!("bin({} & 0xFFFFFFFFFFFFFFFF).count(\"1\")", write(a, 6)),
            UnOp::Abs => format!("abs({})", write(a, 0)),
            UnOp::Sign => paren(8, format!("({0} > 0) - ({0} < 0)", write(a, 4))),
        },
        Expr::Bin(op, a, b) => binary(*op, a, b, outer),
        Expr::Select(c, a, b) => format!("({} if {} else {})", write(a, 1), write(c, 1), write(b, 1)),
        Expr::Table(n, i) => format!("{n}[{}]", write(i, 0)),
    }
}

fn binary(op: BinOp, a: &Expr, b: &Expr, outer: u8) -> String {
    let s = op.strength();
    // Both sides of a comparison are parenthesised if they are comparisons, because `a < b < c`
    // chains.
    let (left, symbol) = match op {
        BinOp::Min | BinOp::Max => return format!("{}({}, {})", op.symbol(), write(a, 0), write(b, 0)),
        BinOp::And => return format!("int({} != 0 and {} != 0)", write(a, 4), write(b, 4)),
        BinOp::Or => return format!("int({} != 0 or {} != 0)", write(a, 4), write(b, 4)),
        BinOp::Div => (s, "//"),
        BinOp::Mod => (s, "%"),
        BinOp::Xor => (s, "^"),
        BinOp::Eq | BinOp::Ne | BinOp::Lt | BinOp::Le | BinOp::Gt | BinOp::Ge => (s + 1, op.symbol()),
        _ => (s, op.symbol()),
    };
    let text = format!("{} {symbol} {}", write(a, left), write(b, s + 1));
    if s < outer { format!("({text})") } else { text }
}

/// Replaces every `@KEY@` of a template.
pub fn fill(template: &str, values: &[(&str, &str)]) -> String {
    values.iter().fold(template.to_owned(), |text, (key, value)| text.replace(&format!("@{key}@"), value))
}

/// Prints a number in Python.
pub fn float(v: f64) -> String {
    if v.is_nan() {
        "float(\"nan\")".into()
    } else if v.is_infinite() {
        if v > 0.0 { "float(\"inf\")".into() } else { "float(\"-inf\")".into() }
    } else {
        format!("{v:?}")
    }
}
