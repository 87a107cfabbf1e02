//! Which definitions of a library in Python a text needs.

/// Definitions of a text of Python that another text needs, directly or not; they are two empty lines apart.
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

/// Names that a block of Python defines at its top level.
pub(super) fn defined(block: &str) -> impl Iterator<Item = &str> {
    block.lines().filter_map(|line| {
        let named = line.strip_prefix("def ").or_else(|| line.strip_prefix("class "));
        let rest = named.or_else(|| line.contains(" = ").then_some(line))?;
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_')?;
        (end > 0).then_some(&rest[..end])
    })
}

/// Whether a text of Python calls a function, or reads a constant; what is behind a dot is torch's.
fn uses(text: &str, name: &str) -> bool {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let constant = name.starts_with(|c: char| c.is_ascii_uppercase());
    text.match_indices(name).any(|(at, _)| {
        let rest = &text[at + name.len()..];
        let ends = if constant { !rest.starts_with(word) } else { rest.starts_with('(') };
        ends && !text[..at].ends_with(|c: char| word(c) || c == '.')
    })
}
