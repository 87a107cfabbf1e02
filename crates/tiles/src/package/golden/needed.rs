//! Selection of the definitions of a Python library that a text needs.

/// Returns those definitions of a Python library that a text needs, directly or indirectly. The
/// definitions of the library are separated by two empty lines.
pub(super) fn needed(library: &str, text: &str) -> String {
    let blocks: Vec<&str> = library.split("\n\n\n").map(str::trim_end).collect();
    let mut keep = vec![false; blocks.len()];
    loop {
        let known: String = blocks.iter().zip(&keep).filter(|b| *b.1).map(|b| *b.0).collect();
        let fresh: Vec<usize> = (0..blocks.len())
            .filter(|i| !keep[*i] && defined(blocks[*i]).any(|n| uses(text, n) || uses(&known, n)))
            .collect();
        if fresh.is_empty() {
            break;
        }
        fresh.into_iter().for_each(|i| keep[i] = true);
    }
    let kept: Vec<&str> = blocks.iter().zip(&keep).filter(|b| *b.1).map(|b| *b.0).collect();
    kept.join("\n\n\n") + "\n"
}

/// Returns the names that a block of Python defines at its top level.
pub(super) fn defined(block: &str) -> impl Iterator<Item = &str> {
    block.lines().filter_map(|line| {
        let named = line.strip_prefix("def ").or_else(|| line.strip_prefix("class "));
        let rest = named.or_else(|| line.contains(" = ").then_some(line))?;
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_')?;
        (end > 0).then_some(&rest[..end])
    })
}

/// Checks whether a Python text calls a function or reads a constant. A name after a dot belongs to
/// torch and does not count.
fn uses(text: &str, name: &str) -> bool {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let constant = name.starts_with(|c: char| c.is_ascii_uppercase());
    text.match_indices(name).any(|(at, _)| {
        let rest = &text[at + name.len()..];
        let ends = if constant { !rest.starts_with(word) } else { rest.starts_with('(') };
        ends && !text[..at].ends_with(|c: char| word(c) || c == '.')
    })
}
