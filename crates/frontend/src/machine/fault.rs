//! Faults of YAML texts in the words of the file: which key is unknown or missing, what a value is
//! and what it must be. The reader of YAML says this in words of its own and of Rust.

use kbc_diag::Diagnostic;
use kbc_diag::nearest::nearest;

/// What is wrong with a text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    /// What is wrong, in one line.
    pub title: String,
    /// The keys that are valid, if one is unknown.
    pub note: Option<String>,
    /// The key that was probably meant.
    pub help: Option<String>,
}

impl Fault {
    /// Returns a fault without further words.
    pub fn new(title: impl Into<String>) -> Fault {
        Fault { title: title.into(), note: None, help: None }
    }

    /// Returns the fault as a message, with the code and the place of `message`. Its help is kept,
    /// unless the fault has one.
    pub fn message(self, message: Diagnostic) -> Diagnostic {
        let message = Diagnostic { title: self.title, ..message };
        let message = self.note.into_iter().fold(message, Diagnostic::note);
        self.help.into_iter().fold(message, Diagnostic::help)
    }
}

/// Messages of the reader about the form of a text, and what they mean. The first one whose words
/// occur in a message applies.
const FORM: [(&str, &str); 14] = [
    ("quoted scalar", "a quote is not closed"),
    ("EOF while parsing", "the text is empty"),
    ("more than one document", "there are several documents in the text, and one is expected"),
    ("recursion limit", "the text nests too deeply"),
    ("repetition limit", "the text repeats a part too often"),
    ("unknown anchor", "an alias `*name` refers to nothing"),
    ("mapping values are not allowed", "`: ` is not expected here; a text that contains it needs quotes"),
    ("found character that cannot start any token", "a value cannot begin with this character; use quotes"),
    ("tabs", "indentation must be spaces and not tabs"),
    ("did not find expected ',' or ']'", "`,` or `]` is missing after an entry of the list"),
    ("did not find expected ',' or '}'", "`,` or `}` is missing after an entry of the mapping"),
    ("did not find expected '-' indicator", "an entry of a list must begin with `- `"),
    ("expected key", "a line is not `key: value`, or its indentation differs from that of its neighbours"),
    ("could not find expected ':'", "`:` and a value are missing after a key"),
];

/// Returns a value as the reader names it, in the words of the file.
fn given(words: &str) -> String {
    let quoted = |kind: &str| {
        let rest = words.strip_prefix(kind)?.trim();
        Some(rest.trim_matches(['"', '`']).to_owned())
    };
    if let Some(text) = quoted("string ") {
        return format!("`{text}`");
    }
    if let Some(number) = ["integer ", "floating point ", "boolean "].into_iter().find_map(quoted) {
        return number;
    }
    match words {
        "sequence" => "a list".into(),
        "map" => "a mapping".into(),
        "unit value" | "null" | "Option value" => "nothing".into(),
        _ => "another kind of value".into(),
    }
}

/// Returns what the reader expects, in the words of the file.
fn wanted(words: &str) -> &'static str {
    let number = ["u8", "u16", "u32", "u64", "usize", "i32", "i64", "f32", "f64"];
    match words {
        "a string" | "string" => "a text",
        "a boolean" | "bool" => "`true` or `false`",
        "a sequence" => "a list",
        "a map" => "a mapping",
        _ if number.contains(&words) || words.contains("integer") => "a number",
        _ if words.starts_with("struct ") => "a mapping",
        _ if words.contains("array") || words.contains("tuple") => "a list of that length",
        _ => "another kind of value",
    }
}

/// Returns the words between the next two backquotes, and what follows.
fn name(text: &str) -> Option<(&str, &str)> {
    text.split_once('`')?.1.split_once('`')
}

/// Returns all words between backquotes.
fn names(mut text: &str) -> Vec<&str> {
    let mut out = vec![];
    while let Some((one, rest)) = name(text) {
        out.push(one);
        text = rest;
    }
    out
}

/// Returns the fault that an error of the reader means. `old` are keys that are accepted and not
/// shown.
pub fn fault(error: &serde_yaml::Error, old: &[&str]) -> Fault {
    // What the reader was doing follows the place.
    let whole = error.to_string();
    let all = whole.split(" at line ").next().unwrap_or("");
    let starts = [
        "unknown field",
        "unknown variant",
        "missing field",
        "duplicate ",
        "invalid type: ",
        "invalid value: ",
        "invalid length ",
        "data did not match",
    ];
    let Some(at) = starts.iter().filter_map(|s| all.find(s)).min() else {
        let form = FORM.iter().find(|f| whole.contains(f.0));
        return Fault::new(form.map_or("the text does not have the form of YAML here", |f| f.1));
    };
    // A path to the value precedes: `axes.n[0]: `.
    let path = all[..at].trim_end_matches([':', ' ']).trim();
    let words = &all[at..];
    let here = if path.is_empty() || path == "." { String::new() } else { format!(" in `{path}`") };
    let it = if here.is_empty() { "the value".to_owned() } else { format!("`{path}`") };
    let list = || names(words.split_once("expected").map_or("", |w| w.1));
    let one = name(words).map_or("", |n| n.0);
    if words.starts_with("unknown field") || words.starts_with("unknown variant") {
        let valid: Vec<&str> = list().into_iter().filter(|k| !old.contains(k)).collect();
        let (title, what) = match words.starts_with("unknown field") {
            true => (format!("unknown key `{one}`{here}"), "the keys are"),
            false => (format!("`{one}` is not a value of {it}"), "the values are"),
        };
        return Fault {
            title,
            note: (!valid.is_empty()).then(|| format!("{what} {}", valid.join(", "))),
            help: nearest(one, valid.iter().copied()).map(|near| format!("did you mean `{near}`?")),
        };
    }
    if words.starts_with("missing field") {
        return Fault::new(format!("the key `{one}` is missing{here}"));
    }
    if let Some(rest) = words.strip_prefix("duplicate ") {
        let key = name(rest).map_or_else(|| rest.rsplit(' ').next().unwrap_or("").trim_matches('"'), |n| n.0);
        return Fault::new(format!("the key `{key}` is given twice{here}"));
    }
    if words.starts_with("data did not match") {
        return Fault::new(format!("{it} does not have one of the forms that are allowed here"));
    }
    let words = words.split_once(": ").map_or(words, |w| w.1);
    let (is, must) = words.rsplit_once(", expected ").unwrap_or((words, ""));
    Fault::new(format!("{it} must be {}, and this is {}", wanted(must), given(is)))
}
