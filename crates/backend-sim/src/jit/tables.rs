//! Tables of numbers that differ from rank to rank, evaluated once by the walk and looked up by
//! compiled code.
//!
//! The module owns the tables and their numbering. An entry without a value is -1, which every user
//! rejects.

use kbc_ir::interval::Interval;
use kbc_ir::resolved::Resolved;
use kbc_ir::schedule::BufferId;
use kbc_ir::types::CutRule;
use kbc_ir::walk::Program;
use kbc_ir::walk::code::CLine;
use std::collections::BTreeMap;

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Constant(u32),
    Elements(u32),
    Extent(usize, u32),
    Unit(usize, u32),
    Bounds(usize, u32),
}

/// The tables of a compiled schedule.
#[derive(Default)]
pub(super) struct Tables {
    numbers: BTreeMap<Key, usize>,
    values: Vec<Vec<i64>>,
}

/// A table and the interval of its entries.
#[derive(Clone, Copy)]
pub(super) struct Entry {
    pub(super) table: usize,
    pub(super) range: Interval,
}

impl Tables {
    fn get(&mut self, key: Key, make: impl FnOnce() -> Vec<i64>) -> Entry {
        let table = *self.numbers.entry(key).or_insert_with(|| {
            self.values.push(make());
            self.values.len() - 1
        });
        let range = Interval::hull(&self.values[table]).unwrap_or(Interval::only(-1));
        Entry { table, range }
    }

    /// Returns the table with number `number` of the schedule.
    pub(super) fn constant(&mut self, number: u32, program: &Program<'_>) -> usize {
        self.get(Key::Constant(number), || program.schedule.tables[number as usize].values.clone()).table
    }

    /// Returns the number of elements of a buffer on each rank.
    pub(super) fn elements(&mut self, buffer: u32, program: &Program<'_>) -> Entry {
        self.get(Key::Elements(buffer), || {
            let of = |r| program.elements(BufferId(buffer), r).ok().and_then(|n| i64::try_from(n).ok());
            (0..program.ranks()).map(|r| of(r).unwrap_or(-1)).collect()
        })
    }

    fn per_rank(&mut self, key: Key, e: &Resolved, program: &Program<'_>) -> Entry {
        self.get(key, || match e {
            Resolved::Int(v) => vec![*v; program.ranks() as usize],
            e => (0..program.ranks()).map(|r| program.eval(e, &program.mesh_env(r)).unwrap_or(-1)).collect(),
        })
    }

    /// Returns the extent of an operand's line on each rank.
    pub(super) fn extent(&mut self, region: usize, operand: u32, line: &CLine, p: &Program<'_>) -> Entry {
        self.per_rank(Key::Extent(region, operand), &line.extent, p)
    }

    /// Returns the unit of an operand's line on each rank.
    pub(super) fn unit(&mut self, region: usize, operand: u32, line: &CLine, p: &Program<'_>) -> Entry {
        self.per_rank(Key::Unit(region, operand), &line.unit, p)
    }

    /// Returns all boundaries of the blocks of an operand's line, rank after rank, if the rule
    /// lists lengths.
    pub(super) fn bounds(&mut self, region: usize, operand: u32, line: &CLine, p: &Program<'_>) -> Entry {
        self.get(Key::Bounds(region, operand), || {
            let value = |e: &Resolved, r| p.eval(e, &p.mesh_env(r)).ok().and_then(|v| u64::try_from(v).ok());
            let bound = |r, i| {
                let row = value(&line.row, r)?;
                if matches!(&line.rule, CutRule::Lengths(l) if row >= l.rows()) {
                    return None;
                }
                let at = line.rule.boundary_in(row, value(&line.extent, r)?, i, line.parts);
                i64::try_from(at).ok()
            };
            let every = (0..p.ranks()).flat_map(|r| (0..=line.parts).map(move |i| (r, i)));
            every.map(|(r, i)| bound(r, i).unwrap_or(-1)).collect()
        })
    }

    /// Returns the start addresses of the tables for compiled code.
    pub(super) fn pointers(&self) -> Vec<*const i64> {
        self.values.iter().map(|v| v.as_ptr()).collect()
    }
}
