//! Rules T1 and T9: addresses of tiles, and the layout of the window.
//!
//! Offsets are expressions, and whether two of them overlap at any size is not decided in general:
//! they are evaluated on a grid of sizes. A size is skipped if an expression has no value there (a
//! table without entries for it), or if a number of slots, counters or elements is negative
//! (`nranks / 2 - 1` with one rank): such a size is not one of the kernel's. A kernel without any
//! size is reported.

use super::sink::Sink;
use crate::layout::area_bytes;
use crate::tile::{CALL, COUNT, Kernel, NRANKS, Space, lifetimes};
use kbc_diag::Diagnostic;
use kbc_ir::expr::{Env, Expr};
use kbc_ir::name::Name;

/// Rank counts and element counts at which the layout is evaluated.
const RANKS: [i64; 6] = [1, 2, 3, 5, 16, 64];
const COUNTS: [i64; 7] = [0, 1, 15, 64, 1000, 4097, 65_536];

/// Checks T1, and T9 except for fences.
pub(super) fn check(sink: &mut Sink<'_>) {
    tiles(sink);
    let missing: Vec<String> = {
        let k = sink.kernel;
        let signals = k.signals.iter().filter(|s| s.at.is_none()).map(|s| s.name.to_string());
        signals.chain(k.areas.iter().filter(|a| a.at.is_none()).map(|a| a.name.to_string())).collect()
    };
    if missing.is_empty() {
        window(sink);
    }
    for name in missing {
        let d = Diagnostic::error("E449", format!("{name} has no offset in the window"));
        sink.at(&[], d.help("run pass `layout`"));
    }
}

fn tiles(sink: &mut Sink<'_>) {
    let (kernel, device) = (sink.kernel, sink.device);
    let align = device.limits().align;
    let mut placed: Vec<(Space, u64, u64, &Name)> = vec![];
    for t in &kernel.tiles {
        let bytes = t.bytes();
        let bad = |text: String| Diagnostic::error("E450", text);
        if bytes == 0 || bytes % u64::from(align) != 0 {
            let text = format!("tile {} has {bytes} bytes, which is not a multiple of {}", t.name, align);
            sink.at(&[], bad(text));
        }
        if !(1..=2).contains(&t.copies) {
            sink.at(
                &[],
                bad(format!(
                    "tile {} has {} copies; one or two (double buffering) are possible",
                    t.name, t.copies
                )),
            );
        }
        let bytes = t.all_bytes();
        let Some(at) = t.at.map(u64::from) else {
            sink.at(&[], bad(format!("tile {} has no address", t.name)).help("run pass `buffers`"));
            continue;
        };
        if at % u64::from(align) != 0 {
            sink.at(&[], bad(format!("tile {} is at {at}, which is not a multiple of {}", t.name, align)));
        }
        let end = device.bytes(t.space);
        if at + bytes > u64::from(end) {
            let space = kernel.dialect.space_title(t.space);
            let text = format!("tile {} ends at {}; {space} ends at {end}", t.name, at + bytes);
            sink.at(&[], bad(text).help("make the tiles smaller, or use fewer of them"));
        }
        placed.push((t.space, at, at + bytes, &t.name));
    }
    placed.sort();
    for pair in placed.windows(2) {
        if pair[1].0 == pair[0].0 && pair[1].1 < pair[0].2 {
            let text = format!("tiles {} and {} overlap at {}", pair[0].3, pair[1].3, pair[1].1);
            sink.at(&[], Diagnostic::error("E450", text));
        }
    }
}

struct Sizes<'k> {
    kernel: &'k Kernel,
    ranks: i64,
    count: i64,
}

impl Env for Sizes<'_> {
    fn var(&self, name: &Name) -> Option<i64> {
        match name.as_str() {
            NRANKS => Some(self.ranks),
            COUNT => Some(self.count),
            CALL => Some(0),
            _ => self.kernel.scalars.contains(name).then_some(self.count),
        }
    }

    fn table(&self, name: &Name, index: i64) -> Option<i64> {
        let table = self.kernel.tables.iter().find(|t| t.name == *name)?;
        let values = match table.values.get(&(self.ranks as u64)) {
            None if table.values.len() == 1 => table.values.values().next(),
            found => found,
        };
        values?.get(usize::try_from(index).ok()?).copied()
    }
}

/// A part of the window: first byte, one past the last byte, arena (`None` for signals), name.
type Part<'k> = (i64, i64, Option<u32>, &'k Name);

/// A part of the window as expressions: number of slots or counters, first byte, size in bytes,
/// arena, name.
type Row<'k> = (&'k Expr, &'k Expr, Expr, Option<u32>, &'k Name);

fn window(sink: &mut Sink<'_>) {
    let k = sink.kernel;
    if let Some((a, b)) = lifetimes::conflict(k) {
        let [a, b] = [a, b].map(|id| &k.areas[id.0 as usize].name);
        let d =
            Diagnostic::error("E459", format!("{a} and {b} share memory, and are in use at the same time"));
        sink.at(&[], d.help("give each an arena of its own"));
    }
    let signals = k
        .signals
        .iter()
        .filter_map(|s| Some((&s.count, s.at.as_ref()?, s.count.clone() * Expr::Int(64), None, &s.name)));
    let areas = k
        .areas
        .iter()
        .filter_map(|a| Some((&a.slots, a.at.as_ref()?, area_bytes(a), Some(a.arena), &a.name)));
    let rows: Vec<Row<'_>> = signals.chain(areas).collect();
    let mut any = rows.is_empty();
    for ranks in RANKS {
        for count in COUNTS {
            let env = Sizes { kernel: k, ranks, count };
            let value = |e: &Expr| e.eval(&env).ok();
            let parts: Option<Vec<Part<'_>>> = rows
                .iter()
                .map(|(slots, at, size, arena, name)| {
                    value(slots).filter(|n| *n >= 0)?;
                    let at = value(at)?;
                    let size = value(size).filter(|n| *n >= 0)?;
                    Some((at, at.checked_add(size)?, *arena, *name))
                })
                .collect();
            let Some(parts) = parts else { continue };
            any = true;
            if let Some(text) = overlap(&parts) {
                let d = Diagnostic::error("E459", text)
                    .note(format!("with {NRANKS} = {ranks} and {COUNT} = {count}"));
                sink.at(&[], d.help("run pass `layout`"));
                return;
            }
        }
    }
    if !any {
        let d = Diagnostic::error("E459", "the window has no layout at any of the sizes that were tried");
        sink.at(&[], d.note(format!("rank counts {RANKS:?}, element counts {COUNTS:?}")));
    }
}

/// Returns what is wrong with the layout of these parts, if anything.
fn overlap(parts: &[Part<'_>]) -> Option<String> {
    for (i, (from, to, arena, name)) in parts.iter().enumerate() {
        if *from < 0 || from % 64 != 0 {
            return Some(format!("{name} is at {from}, which is not a multiple of 64 bytes"));
        }
        for (from2, to2, arena2, name2) in &parts[..i] {
            let shared = arena.is_some() && arena == arena2;
            if shared && from != from2 {
                return Some(format!("{name2} and {name} share an arena and start at {from2} and {from}"));
            }
            if !shared && from < to2 && from2 < to {
                return Some(format!("{name2} and {name} overlap in the window"));
            }
        }
    }
    None
}
