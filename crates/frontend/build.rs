//! Makes the index of the built-in library: where its declarations stand and what they are called,
//! so that a run reads those it uses.

use std::fmt::Write;
use std::path::Path;

type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;

fn main() -> Outcome {
    let out = std::env::var("OUT_DIR")?;
    std::fs::write(Path::new(&out).join("library_index.rs"), index(Path::new("../../specs/lib"))?)?;
    println!("cargo:rerun-if-changed=../../specs/lib");
    println!("cargo:rerun-if-changed=src/library.rs");
    Ok(())
}

/// Words that begin an item.
const ITEMS: [&str; 10] =
    ["fn", "collective", "algorithm", "kernel", "program", "local", "param", "topology", "mesh", "use"];

/// The items of every file, in the order of the list in `src/library.rs`.
fn index(folder: &Path) -> Outcome<String> {
    let list = std::fs::read_to_string("src/library.rs")?;
    let mut out = String::from("&[\n");
    let names = list.lines().filter_map(|l| l.trim().strip_prefix("(\"<lib>/")?.split('"').next());
    for (file, name) in names.enumerate() {
        let text = std::fs::read_to_string(folder.join(name))?;
        for line in items(&text, file).ok_or_else(|| format!("{name}: an item of the library has no name"))? {
            out += &line;
        }
    }
    out += "]\n";
    Ok(out)
}

/// A word or a sign of a text: where it begins and ends.
struct Piece<'t> {
    text: &'t str,
    at: usize,
    end: usize,
}

/// Words, and all else sign by sign, without blanks, comments and strings.
fn pieces(text: &str) -> Vec<Piece<'_>> {
    let (mut out, mut at) = (vec![], 0);
    while let Some(c) = text[at..].chars().next() {
        let rest = &text[at..];
        let word = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        let end = at
            + match c {
                '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
                '"' => rest[1..].find('"').map_or(rest.len(), |n| n + 2),
                _ if word > 0 => word,
                _ => c.len_utf8(),
            };
        if !c.is_whitespace() && !rest.starts_with("//") {
            out.push(Piece { text: &text[at..end], at, end });
        }
        at = end;
    }
    out
}

/// A line of the index for each item of a file: from the end of the item before (comments belong to
/// what follows them).
fn items(text: &str, file: usize) -> Option<Vec<String>> {
    let all = pieces(text);
    let (mut depth, mut starts) = (0, vec![]);
    for (i, p) in all.iter().enumerate() {
        match p.text {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth -= 1,
            word => {
                let first = text[..p.at].rsplit('\n').next().is_some_and(str::is_empty);
                if depth == 0 && first && ITEMS.contains(&word) {
                    starts.push(i);
                }
            }
        }
    }
    let mut out = vec![];
    for (n, &i) in starts.iter().enumerate() {
        let last = starts.get(n + 1).map_or(all.len(), |next| *next) - 1;
        let from = if i == 0 { 0 } else { all[i - 1].end };
        let name = all.get(i + 1)?;
        let (kind, of) = match all[i].text {
            "fn" => ("Function", None),
            "collective" => ("Collective", None),
            "algorithm" => {
                let colon = outside(&all[i..last], ":")?;
                ("Algorithm", Some(all.get(i + colon + 1)?))
            }
            _ => ("Other", None),
        };
        let word = |p: &Piece<'_>| format!("({:?}, {})", p.text, p.at);
        let of = of.map_or("None".to_owned(), |p| format!("Some({})", word(p)));
        let mut line = String::new();
        let (name, to) = (word(name), all[last].end);
        writeln!(
            line,
            "Entry {{ file: {file}, kind: ItemKind::{kind}, name: {name}, of: {of}, range: ({from}, {to}) }},"
        )
        .ok()?;
        out.push(line);
    }
    Some(out)
}

/// The first such sign that stands in no brackets.
fn outside(list: &[Piece<'_>], sign: &str) -> Option<usize> {
    let mut depth = 0;
    list.iter().position(|p| {
        match p.text {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth -= 1,
            _ => {}
        }
        depth == 0 && p.text == sign
    })
}
