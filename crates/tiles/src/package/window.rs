//! Window and memory of a rank as the kernel has them: rows, sizes, and the number of launches that
//! a domain serves.
//!
//! The layout is read from a kernel that the passes have laid out; nothing is decided here.
//! Harness, manifest and `kbc explain window` use it.

use super::description::refused;
use crate::layout;
use crate::tile::{Kernel, Reach};
use kbc_diag::Diagnostic;
use kbc_ir::expr::{EvalError, Expr};
use kbc_ir::name::Name;
use std::fmt::Write;

/// Bytes of a line; every counter and every slot starts on one.
const LINE: i64 = crate::tile::LINE as i64;

/// The content of a row of the window.
#[derive(Clone, PartialEq, Debug)]
pub enum RowKind {
    /// An array of counters.
    Signals {
        /// Number of counters.
        count: Expr,
        /// Most that a launch adds to one of them.
        per_call: Expr,
    },
    /// Slots of data.
    Slots {
        /// Number of slots.
        slots: Expr,
        /// Elements per slot.
        capacity: Expr,
        /// Element type.
        dtype: kbc_ir::types::DType,
        /// Which ranks access them.
        reach: Reach,
    },
}

/// A part of the window, or of the rank's own memory.
#[derive(Clone, PartialEq, Debug)]
pub struct WindowRow {
    /// Name.
    pub name: Name,
    /// Offset of the first byte, in the window or in the rank's own memory.
    pub at: Expr,
    /// Size in bytes.
    pub bytes: Expr,
    /// The content.
    pub kind: RowKind,
}

impl WindowRow {
    /// Checks whether the row is in the window, and not in the rank's own memory.
    pub fn in_window(&self) -> bool {
        !matches!(self.kind, RowKind::Slots { reach: Reach::Own, .. })
    }
}

/// The window of every rank, and its own memory.
#[derive(Clone, PartialEq, Debug)]
pub struct Layout {
    /// Rows. Those of areas that are never in use at the same time may overlap.
    pub rows: Vec<WindowRow>,
    /// Size of the window in bytes: a multiple of 64, and 0 for a kernel that does not communicate.
    pub bytes: Expr,
    /// Size of the rank's own memory in bytes: a multiple of 64.
    pub memory: Expr,
    /// Number of launches that a domain serves before a counter may leave its 32 bits.
    pub launches: Expr,
}

impl Layout {
    /// Returns the layout of a kernel.
    ///
    /// # Errors
    /// Returns E457 if an area or an array of counters has no offset.
    pub fn of(kernel: &Kernel) -> Result<Layout, Diagnostic> {
        let at = |name: &Name, at: &Option<Expr>| {
            at.clone().ok_or_else(|| refused(format!("`{name}` has no place in the window")))
        };
        let mut rows = vec![];
        for s in &kernel.signals {
            let bytes = (s.count.clone() * Expr::Int(LINE)).simplify();
            let kind = RowKind::Signals { count: s.count.clone(), per_call: s.per_call.clone() };
            rows.push(WindowRow { name: s.name.clone(), at: at(&s.name, &s.at)?, bytes, kind });
        }
        for a in &kernel.areas {
            let bytes = layout::area_bytes(a);
            let kind = RowKind::Slots {
                slots: a.slots.clone(),
                capacity: a.capacity.clone(),
                dtype: a.dtype,
                reach: a.reach,
            };
            let there = at(&a.name, &a.at)?;
            let at = if a.reach == Reach::Own { layout::own_offset(kernel, a) } else { there };
            rows.push(WindowRow { name: a.name.clone(), at, bytes, kind });
        }
        let (bytes, memory) = (layout::shared_bytes(kernel), layout::own_bytes(kernel));
        Ok(Layout { rows, bytes, memory, launches: layout::calls(kernel) })
    }
}

/// The window of every rank at given sizes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SizedWindow {
    /// Name of the kernel.
    pub kernel: Name,
    /// Size of the window in bytes.
    pub bytes: i64,
    /// Size of the rank's own memory in bytes.
    pub memory: i64,
    /// Rows, as in [`Layout`].
    pub rows: Vec<SizedRow>,
    /// The most that a launch adds to a counter; 0 if no counter is used.
    pub most_added: i64,
    /// Number of launches that a domain serves; None for any number, because no counter is used.
    pub launches: Option<i64>,
}

/// A row of a [`SizedWindow`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SizedRow {
    /// Name.
    pub name: Name,
    /// Offset of the first byte, in the window or in the rank's own memory.
    pub at: i64,
    /// Size in bytes.
    pub bytes: i64,
    /// The content.
    pub kind: SizedKind,
}

impl SizedRow {
    /// Checks whether the row is in the window, and not in the rank's own memory.
    pub fn in_window(&self) -> bool {
        !matches!(self.kind, SizedKind::Slots { reach: Reach::Own, .. })
    }

    /// Returns the row as a line of a memory map.
    fn line(&self) -> String {
        let what = match self.kind {
            SizedKind::Signals { count, per_call } => {
                let each = if count == 1 { "counter, one line" } else { "counters, one line each" };
                format!("{count} {each}; at most {per_call} added in a launch")
            }
            SizedKind::Slots { slots, capacity, dtype, .. } => {
                let word = if slots == 1 { "slot" } else { "slots" };
                format!("{slots} {word} of {capacity} {dtype}")
            }
        };
        let range = format!("{}..{}", self.at, self.at + self.bytes);
        format!("  {:<28} {range:<20} {what}\n", self.name.as_str())
    }
}

/// The content of a [`SizedRow`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SizedKind {
    /// Counters, each on a line of its own.
    Signals {
        /// Number of counters.
        count: i64,
        /// Most that a launch adds to one of them.
        per_call: i64,
    },
    /// Slots of data.
    Slots {
        /// Number of slots.
        slots: i64,
        /// Elements per slot.
        capacity: i64,
        /// Element type.
        dtype: kbc_ir::types::DType,
        /// Which ranks access them.
        reach: Reach,
    },
}

impl SizedWindow {
    /// Returns the window of a kernel that the passes have laid out.
    ///
    /// # Errors
    /// Returns E457 if the layout has no value at these sizes.
    pub fn of(kernel: &Kernel, nranks: u64, count: u64) -> Result<SizedWindow, Diagnostic> {
        let layout = Layout::of(kernel)?;
        let value = |e: &Expr| {
            let var = |n: &Name| match n.as_str() {
                crate::tile::NRANKS => i64::try_from(nranks).ok(),
                crate::tile::COUNT => i64::try_from(count).ok(),
                _ => None,
            };
            let fail = |why: EvalError| {
                refused(format!("the window has no size at {nranks} ranks, {count} elements: {why}"))
            };
            e.eval(&Sized { var, kernel, nranks }).map_err(fail)
        };
        let mut rows = vec![];
        for row in &layout.rows {
            let kind = match &row.kind {
                RowKind::Signals { count, per_call } => {
                    SizedKind::Signals { count: value(count)?, per_call: value(per_call)? }
                }
                RowKind::Slots { slots, capacity, dtype, reach } => SizedKind::Slots {
                    slots: value(slots)?,
                    capacity: value(capacity)?,
                    dtype: *dtype,
                    reach: *reach,
                },
            };
            rows.push(SizedRow {
                name: row.name.clone(),
                at: value(&row.at)?,
                bytes: value(&row.bytes)?,
                kind,
            });
        }
        let added = rows.iter().map(|r| match r.kind {
            SizedKind::Signals { per_call, .. } => per_call,
            SizedKind::Slots { .. } => 0,
        });
        let most_added = added.max().unwrap_or(0);
        let launches = if most_added == 0 { None } else { Some(value(&layout.launches)?) };
        Ok(SizedWindow {
            kernel: kernel.name.clone(),
            bytes: value(&layout.bytes)?,
            memory: value(&layout.memory)?,
            rows,
            most_added,
            launches,
        })
    }

    /// Returns the memory map as text: byte ranges, their content, and the number of launches that
    /// a domain serves before a counter leaves its 32 bits.
    pub fn text(&self) -> String {
        let mut out = format!("window of {} ({} bytes of every rank)\n", self.kernel, self.bytes);
        let lines = |own: bool| self.rows.iter().filter(move |r| r.in_window() != own).map(SizedRow::line);
        out.extend(lines(false));
        if self.memory > 0 {
            // Writing to a string cannot fail.
            let _ = writeln!(out, "intermediate values ({} bytes of every rank)", self.memory);
            out.extend(lines(true));
        }
        let most = self.most_added;
        match self.launches {
            None => out += "a domain serves any number of launches, because no counter is used\n",
            Some(launches) => {
                let _ = writeln!(
                    out,
                    "a domain serves {launches} launches\n  counters begin at 0 and are only added to; a launch adds at most {most} to one, and \
                     {most} * launches is at most 2^31 - 1"
                );
            }
        }
        out
    }
}

/// Environment of scalars and tables at given sizes.
struct Sized<'a, F> {
    var: F,
    kernel: &'a Kernel,
    nranks: u64,
}

impl<F: Fn(&Name) -> Option<i64>> kbc_ir::expr::Env for Sized<'_, F> {
    fn var(&self, name: &Name) -> Option<i64> {
        (self.var)(name)
    }

    fn table(&self, name: &Name, index: i64) -> Option<i64> {
        let table = self.kernel.tables.iter().find(|t| t.name == *name)?;
        table.values.get(&self.nranks)?.get(usize::try_from(index).ok()?).copied()
    }
}
