//! Layout of the window: assigns a byte offset in the window to every counter and area, as an
//! expression.
//!
//! Signals come first, with a line of 64 bytes per counter. Areas that peers reach come next, then
//! the rank's own areas; a backend may keep these in another memory, from the first of them on.
//! Areas of one arena start at the same offset. Every size is a multiple of a
//! line by its form, so no offset is rounded. [`crate::package::window`] makes the table of the
//! window from these offsets.

use crate::tile::{Area, Kernel, Reach};
use kbc_ir::expr::{BinOp, Expr};
use std::collections::BTreeMap;

/// Bytes of a line.
const LINE: i64 = crate::tile::LINE as i64;

/// Returns the size of an area in bytes, a multiple of 64.
pub fn area_bytes(area: &Area) -> Expr {
    let lines = area.capacity.clone().ceil_div(LINE / area.dtype.bytes() as i64);
    (area.slots.clone() * lines * Expr::Int(LINE)).simplify()
}

/// Returns the larger of two sizes.
fn larger(a: Expr, b: Expr) -> Expr {
    if a == b { a } else { Expr::bin(BinOp::Max, a, b) }
}

/// Returns the areas of each arena by index. The arenas are in memory order: first those with an
/// area that peers reach, then the others.
fn arenas(kernel: &Kernel) -> Vec<Vec<usize>> {
    let mut order: Vec<Vec<usize>> = vec![];
    let mut places: BTreeMap<u32, usize> = BTreeMap::new();
    for reach in [Reach::Peers, Reach::Own] {
        for area in kernel.areas.iter().filter(|a| a.reach == reach) {
            places.entry(area.arena).or_insert_with(|| {
                order.push(vec![]);
                order.len() - 1
            });
        }
    }
    for (i, area) in kernel.areas.iter().enumerate() {
        order[places[&area.arena]].push(i);
    }
    order
}

/// Returns the offsets of signals and of areas, and the total size in bytes.
fn place(kernel: &Kernel) -> (Vec<Expr>, Vec<Expr>, Expr) {
    let mut at = Expr::Int(0);
    let mut signals = vec![];
    for s in &kernel.signals {
        signals.push(at.clone());
        at = (at + s.count.clone() * Expr::Int(LINE)).simplify();
    }
    let mut areas = vec![Expr::Int(0); kernel.areas.len()];
    for arena in arenas(kernel) {
        let mut size = Expr::Int(0);
        for i in arena {
            let area = &kernel.areas[i];
            areas[i] = at.clone();
            size = if size == Expr::Int(0) { area_bytes(area) } else { larger(size, area_bytes(area)) };
        }
        at = (at + size).simplify();
    }
    (signals, areas, at)
}

/// Assigns an offset to every array of signals and every area.
pub fn run(kernel: &mut Kernel) {
    let (signals, areas, _) = place(kernel);
    kernel.signals.iter_mut().zip(signals).for_each(|(s, at)| s.at = Some(at));
    kernel.areas.iter_mut().zip(areas).for_each(|(a, at)| a.at = Some(at));
}

/// Returns the size of a rank's window in bytes, a multiple of 64.
pub fn bytes(kernel: &Kernel) -> Expr {
    place(kernel).2
}

/// Returns the number of bytes from the start of the window to the end of what peers reach; the
/// rank's own areas follow.
pub fn shared_bytes(kernel: &Kernel) -> Expr {
    let mut peers = kernel.declarations();
    peers.areas.retain(|a| a.reach == Reach::Peers);
    place(&peers).2
}

/// Returns the number of bytes of the rank's own areas.
pub fn own_bytes(kernel: &Kernel) -> Expr {
    (bytes(kernel) - shared_bytes(kernel)).simplify()
}

/// Returns the offset of an area of the rank's own from the first of them; 0 if it has none yet.
pub fn own_offset(kernel: &Kernel, area: &Area) -> Expr {
    let at = area.at.clone().unwrap_or(Expr::Int(0));
    (at - shared_bytes(kernel)).simplify()
}

/// Returns the number of launches that one domain serves. After them a 32-bit counter may overflow,
/// and a new domain must be allocated.
pub fn calls(kernel: &Kernel) -> Expr {
    let most = kernel.signals.iter().fold(Expr::Int(1), |most, s| match &s.per_call {
        e if *e == most => most,
        e => larger(most, e.clone()),
    });
    (Expr::Int(i64::from(i32::MAX)) / most).simplify()
}
