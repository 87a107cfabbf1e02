//! Paths to the statements of a kernel's body, and edits at them.

use super::{Kernel, Op, Stmt};

/// The position of a statement: its index in the kernel's body, then the index in the body of that
/// statement, and so on. Statements of an `else` are numbered after those of its `if`.
pub type Path = Vec<u32>;

/// Returns the block that contains a path, and the index in this block.
fn block<'k>(body: &'k mut Vec<Stmt>, path: &[u32]) -> Option<(&'k mut Vec<Stmt>, usize)> {
    let (first, rest) = path.split_first()?;
    let i = *first as usize;
    let Some((next, rest)) = rest.split_first() else { return Some((body, i)) };
    let s = body.get_mut(i)?;
    let (number, at) = within(s, *next)?;
    block(s.blocks_mut().nth(number)?, &[&[at], rest].concat())
}

/// Returns the block of a statement to which an index belongs, and the index in this block. An
/// index behind the last statement belongs to the last block.
fn within(s: &Stmt, index: u32) -> Option<(usize, u32)> {
    let (mut found, mut first) = (None, 0);
    for (number, block) in s.blocks().enumerate() {
        if index >= first {
            found = Some((number, index - first));
        }
        first += block.len() as u32;
    }
    found
}

/// Returns the statement at a path.
pub fn stmt<'k>(kernel: &'k Kernel, path: &[u32]) -> Option<&'k Stmt> {
    let (first, rest) = path.split_first()?;
    let first = kernel.body.get(*first as usize)?;
    rest.iter().try_fold(first, |s, next| {
        let (number, at) = within(s, *next)?;
        s.blocks().nth(number)?.get(at as usize)
    })
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
        if let Stmt::Op(op) = s {
            out.push((path.clone(), op));
        }
        let mut before = 0;
        for block in s.blocks() {
            gather(block, before, path, out);
            before += block.len();
        }
        path.pop();
    }
}

/// Returns the line of a statement in the kernel's text, as the number of lines of the body before
/// it.
pub fn line(kernel: &Kernel, path: &[u32]) -> Option<usize> {
    // An `else` without statements has no line.
    fn lines(list: &[Stmt]) -> usize {
        let of = |(number, block): (usize, &Vec<Stmt>)| {
            usize::from(number > 0 && !block.is_empty()) + lines(block)
        };
        list.iter().map(|s| 1 + s.blocks().enumerate().map(of).sum::<usize>()).sum()
    }
    fn at(list: &[Stmt], path: &[u32]) -> Option<usize> {
        let (first, rest) = path.split_first()?;
        let i = *first as usize;
        let s = list.get(i)?;
        let before = lines(&list[..i]);
        let Some((next, rest)) = rest.split_first() else { return Some(before) };
        let (number, index) = within(s, *next)?;
        let earlier: usize = s.blocks().take(number).map(|block| lines(block) + 1).sum();
        let inner = at(s.blocks().nth(number)?, &[&[index], rest].concat())?;
        Some(before + 1 + earlier + inner)
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
    list.iter_mut().flat_map(Stmt::blocks_mut).for_each(sweep);
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
