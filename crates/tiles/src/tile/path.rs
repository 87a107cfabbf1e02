//! Paths to the statements of a kernel's body, and edits at them.

use super::{Kernel, Op, Stmt};

/// The position of a statement: its index in the kernel's body, then the index in the body of that
/// statement, and so on. Statements of an `else` are numbered after those of its `if`.
pub type Path = Vec<u32>;

/// Returns the block that contains a path, and the index in this block.
fn block<'k>(body: &'k mut Vec<Stmt>, path: &[u32]) -> Option<(&'k mut Vec<Stmt>, usize)> {
    let (first, rest) = path.split_first()?;
    let i = *first as usize;
    if rest.is_empty() {
        return Some((body, i));
    }
    match body.get_mut(i)? {
        Stmt::For { body, .. }
        | Stmt::Tiles { body, .. }
        | Stmt::Turn { body, .. }
        | Stmt::Task { body, .. } => block(body, rest),
        Stmt::If { then, other, .. } => {
            let n = then.len() as u32;
            if rest[0] < n {
                return block(then, rest);
            }
            let inner = [&[rest[0] - n], &rest[1..]].concat();
            block(other, &inner)
        }
        _ => None,
    }
}

/// Returns the statement at a path.
pub fn stmt<'k>(kernel: &'k Kernel, path: &[u32]) -> Option<&'k Stmt> {
    fn at<'k>(list: &'k [Stmt], path: &[u32]) -> Option<&'k Stmt> {
        let (first, rest) = path.split_first()?;
        let s = list.get(*first as usize)?;
        let Some(next) = rest.first() else { return Some(s) };
        match s {
            Stmt::For { body, .. }
            | Stmt::Tiles { body, .. }
            | Stmt::Turn { body, .. }
            | Stmt::Task { body, .. } => at(body, rest),
            Stmt::If { then, other, .. } => match (*next as usize).checked_sub(then.len()) {
                None => at(then, rest),
                Some(i) => {
                    let inner = [&[i as u32], &rest[1..]].concat();
                    at(other, &inner)
                }
            },
            _ => None,
        }
    }
    at(&kernel.body, path)
}

/// Inserts statements in front of the one at a path.
pub fn insert(kernel: &mut Kernel, path: &[u32], add: impl IntoIterator<Item = Stmt>) {
    if let Some((list, i)) = block(&mut kernel.body, path) {
        let i = i.min(list.len());
        list.splice(i..i, add);
    }
}

/// Replaces the statement at a path and returns the old one.
pub fn replace(kernel: &mut Kernel, path: &[u32], by: Stmt) -> Option<Stmt> {
    let (list, i) = block(&mut kernel.body, path)?;
    list.get_mut(i).map(|s| std::mem::replace(s, by))
}

/// Removes and returns the statement at a path.
pub fn remove(kernel: &mut Kernel, path: &[u32]) -> Option<Stmt> {
    let (list, i) = block(&mut kernel.body, path)?;
    (i < list.len()).then(|| list.remove(i))
}

/// Returns all operations with their paths, in text order.
pub fn ops(kernel: &Kernel) -> Vec<(Path, &Op)> {
    let mut out = vec![];
    gather(&kernel.body, 0, &mut vec![], &mut out);
    out
}

fn gather<'k>(list: &'k [Stmt], first: usize, path: &mut Path, out: &mut Vec<(Path, &'k Op)>) {
    for (i, s) in list.iter().enumerate() {
        path.push((first + i) as u32);
        match s {
            Stmt::Op(op) => out.push((path.clone(), op)),
            Stmt::For { body, .. }
            | Stmt::Tiles { body, .. }
            | Stmt::Turn { body, .. }
            | Stmt::Task { body, .. } => gather(body, 0, path, out),
            Stmt::If { then, other, .. } => {
                gather(then, 0, path, out);
                gather(other, then.len(), path, out);
            }
            Stmt::Let { .. } | Stmt::Note { .. } => {}
        }
        path.pop();
    }
}

/// Returns the line of a statement in the kernel's text, as the number of lines of the body before
/// it.
pub fn line(kernel: &Kernel, path: &[u32]) -> Option<usize> {
    fn lines(list: &[Stmt]) -> usize {
        list.iter()
            .map(|s| match s {
                Stmt::For { body, .. }
                | Stmt::Tiles { body, .. }
                | Stmt::Turn { body, .. }
                | Stmt::Task { body, .. } => 1 + lines(body),
                Stmt::If { then, other, .. } if other.is_empty() => 1 + lines(then),
                Stmt::If { then, other, .. } => 2 + lines(then) + lines(other),
                Stmt::Let { .. } | Stmt::Note { .. } | Stmt::Op(_) => 1,
            })
            .sum()
    }
    fn at(list: &[Stmt], path: &[u32]) -> Option<usize> {
        let (first, rest) = path.split_first()?;
        let i = *first as usize;
        let s = list.get(i)?;
        let before = lines(&list[..i]);
        let Some(next) = rest.first() else { return Some(before) };
        let inner = match s {
            Stmt::For { body, .. }
            | Stmt::Tiles { body, .. }
            | Stmt::Turn { body, .. }
            | Stmt::Task { body, .. } => at(body, rest)?,
            Stmt::If { then, other, .. } => match (*next as usize).checked_sub(then.len()) {
                None => at(then, rest)?,
                Some(i) => lines(then) + 1 + at(other, &[&[i as u32], &rest[1..]].concat())?,
            },
            _ => return None,
        };
        Some(before + 1 + inner)
    }
    at(&kernel.body, path)
}

/// Returns an empty statement, which holds the place of one that may turn out to be needed;
/// [`sweep`] removes it.
pub fn blank() -> Stmt {
    Stmt::Note { place: String::new(), text: String::new() }
}

/// Removes all blanks.
pub fn sweep(list: &mut Vec<Stmt>) {
    list.retain(|s| *s != blank());
    for s in list {
        match s {
            Stmt::For { body, .. }
            | Stmt::Tiles { body, .. }
            | Stmt::Turn { body, .. }
            | Stmt::Task { body, .. } => sweep(body),
            Stmt::If { then, other, .. } => {
                sweep(then);
                sweep(other);
            }
            _ => {}
        }
    }
}

/// Returns the path at which to insert synchronisation for `later` against `earlier`. If some loops
/// or turns contain `later` but not `earlier`, this is in front of the outermost of them; otherwise
/// it is in front of `later`.
pub fn outside(kernel: &Kernel, earlier: &[u32], later: &[u32]) -> Path {
    let common = earlier.iter().zip(later).take_while(|(a, b)| a == b).count();
    (common + 1..later.len())
        .map(|n| &later[..n])
        .find(|p| matches!(stmt(kernel, p), Some(Stmt::For { .. } | Stmt::Tiles { .. } | Stmt::Turn { .. })))
        .unwrap_or(later)
        .to_vec()
}
