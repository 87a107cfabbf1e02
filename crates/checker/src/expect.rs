//! Contract clauses, evaluated for one rank: which places hold the rank's own contribution at the
//! start of a region, and which places must hold which contributions at the end. This module reads
//! the clauses; [`super::meaning`] compares.

use super::ranks::Ranks;
use kbc_diag::Diagnostic;
use kbc_ir::contract::{Cell, Clause, SumOver};
use kbc_ir::expr::Expr;
use kbc_ir::name::Name;
use kbc_ir::schedule::Region;
use std::collections::BTreeMap;

/// A run of atoms that must hold the contributions of a set of ranks to a run of atoms.
#[derive(Clone, Debug)]
pub(super) struct RequiredRun {
    pub operand: u32,
    pub lo: u64,
    pub n: u64,
    pub from_operand: u32,
    pub from_lo: u64,
    /// Number of the set of ranks.
    pub set: u32,
}

/// A contract, evaluated for one rank.
#[derive(Clone, Debug, Default)]
pub(super) struct EvaluatedContract {
    /// Runs of atoms (operand, first atom, number of atoms) that hold the rank's own contribution.
    pub start: Vec<(u32, u64, u64)>,
    pub end: Vec<RequiredRun>,
}

/// Sets of ranks, each stored once.
#[derive(Default)]
pub(super) struct Sets {
    pub list: Vec<Ranks>,
    index: BTreeMap<Ranks, u32>,
    /// Sets of clauses that require the same on every rank, by region and clause.
    fixed: BTreeMap<(usize, usize), u32>,
}

impl Sets {
    fn intern(&mut self, set: Ranks) -> u32 {
        if let Some(i) = self.index.get(&set) {
            return *i;
        }
        let i = self.list.len() as u32;
        self.list.push(set.clone());
        self.index.insert(set, i);
        i
    }
}

/// A run of parts of an operand. The operand is cut into as many equal parts as its group has
/// ranks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PartRun {
    /// Number of the operand.
    pub operand: u32,
    /// Number of the first part.
    pub first: u64,
    /// Number of parts.
    pub count: u64,
}

/// The required contents of a place at the end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RequiredParts {
    /// The place.
    pub at: PartRun,
    /// The parts whose initial contents are required there, ..
    pub from: PartRun,
    /// .. combined over these ranks, by index in the group.
    pub ranks: Vec<u32>,
}

/// The contract of a region for one rank of a group: which parts hold its own contribution at the
/// start, and what must be where at the end. Both lists are empty for a region without a contract.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RankContract {
    /// Parts that hold the rank's own contribution at the start.
    pub start: Vec<PartRun>,
    /// Requirements at the end.
    pub end: Vec<RequiredParts>,
}

/// Evaluates the contract of `region` for the rank with index `rank` in a group of `size`. It is
/// meant for code outside the checker that displays what the checker has proven.
///
/// # Errors
/// Returns E355 if a clause cannot be read.
pub fn rank_contract(region: &Region, size: u64, rank: u64) -> Result<RankContract, Diagnostic> {
    let atoms = vec![size; region.operands.len()];
    let mut sets = Sets::default();
    let found = evaluate_contract((0, region), &atoms, size, rank, &mut sets)?;
    let held = |(operand, first, count)| PartRun { operand, first, count };
    let due = |p: &RequiredRun| RequiredParts {
        at: held((p.operand, p.lo, p.n)),
        from: held((p.from_operand, p.from_lo, p.n)),
        ranks: sets.list[p.set as usize].iter().collect(),
    };
    Ok(RankContract {
        start: found.start.iter().copied().map(held).collect(),
        end: found.end.iter().map(due).collect(),
    })
}

struct Reader<'a> {
    region: &'a Region,
    atoms: &'a [u64],
    size: u64,
    /// Values of bound names.
    env: Vec<(Name, i64)>,
}

impl Reader<'_> {
    fn wrong(&self, text: String) -> Diagnostic {
        Diagnostic::error("E355", format!("the contract of region {} is invalid: {text}", self.region.name))
            .primary(self.region.span, "the contract of this region")
            .help("write places as `v[i]` or `v[block][i]`, where `i` is a new name")
    }

    fn value(&self, e: &Expr) -> Result<i64, Diagnostic> {
        let get = |n: &Name| self.env.iter().rev().find(|(m, _)| m == n).map(|(_, v)| *v);
        e.eval(&get).map_err(|e| self.wrong(e.to_string()))
    }

    fn holds(&self, cond: &Option<Expr>) -> Result<bool, Diagnostic> {
        match cond {
            Some(c) => Ok(self.value(c)? != 0),
            None => Ok(true),
        }
    }

    fn operand(&self, cell: &Cell) -> Result<u32, Diagnostic> {
        let at = self.region.operands.iter().position(|o| o.name == cell.buffer);
        at.map(|i| i as u32).ok_or_else(|| self.wrong(format!("operand `{}` does not exist", cell.buffer)))
    }

    /// Returns the name that ranges over all blocks, if the cell has one that is not bound.
    fn free_block(&self, cell: &Cell) -> Option<Name> {
        match &cell.index[..] {
            [Expr::Var(n), _] if !self.env.iter().any(|(m, _)| m == n) => Some(n.clone()),
            _ => None,
        }
    }

    /// Returns the inner index, which must be a name that ranges over everything.
    fn inner<'c>(&self, cell: &'c Cell) -> Result<&'c Name, Diagnostic> {
        match cell.index.last() {
            Some(Expr::Var(n)) if !self.env.iter().any(|(m, _)| m == n) => Ok(n),
            _ => {
                Err(self
                    .wrong(format!("the last index of `{}` must be a name that ranges over it", cell.buffer)))
            }
        }
    }

    /// Returns the atoms of a cell: (operand, first, number).
    fn atoms(&self, cell: &Cell) -> Result<(u32, u64, u64), Diagnostic> {
        self.inner(cell)?;
        let operand = self.operand(cell)?;
        let all = self.atoms[operand as usize];
        match &cell.index[..] {
            [_] => Ok((operand, 0, all)),
            [block, _] => {
                let b = self.value(block)?;
                if b < 0 || b as u64 >= self.size {
                    return Err(self.wrong(format!(
                        "block {b} of `{}` does not exist; there are {}",
                        cell.buffer, self.size
                    )));
                }
                let n = all / self.size;
                Ok((operand, b as u64 * n, n))
            }
            _ => Err(self.wrong(format!("`{}` has {} indices", cell.buffer, cell.index.len()))),
        }
    }

    /// Returns the ranks whose contributions are combined.
    fn ranks(&mut self, at: &Expr, sum: &Option<SumOver>) -> Result<Ranks, Diagnostic> {
        let mut list = vec![];
        let mut add = |this: &Self| {
            let q = this.value(at)?;
            match u32::try_from(q).ok().filter(|q| u64::from(*q) < this.size) {
                Some(q) => list.push(q),
                None => return Err(this.wrong(format!("rank {q} is outside a group of {}", this.size))),
            }
            Ok(())
        };
        match sum {
            None => add(self)?,
            Some(s) => {
                for q in self.value(&s.lo)?..self.value(&s.hi)? {
                    self.env.push((s.var.clone(), q));
                    if self.holds(&s.cond)? {
                        add(self)?;
                    }
                    self.env.pop();
                }
            }
        }
        Ranks::collect(self.size, list)
            .map_err(|q| self.wrong(format!("the contribution of rank {q} is required twice")))
    }
}

/// Evaluates the contract of `region`, which has number `number`, for the rank with index `rank` in
/// a group of `size`. `atoms` is the number of atoms of each operand. Returns E355 for clauses that
/// cannot be read.
pub(super) fn evaluate_contract(
    (number, region): (usize, &Region),
    atoms: &[u64],
    size: u64,
    rank: u64,
    sets: &mut Sets,
) -> Result<EvaluatedContract, Diagnostic> {
    let mut out = EvaluatedContract::default();
    let Some(contract) = &region.contract else { return Ok(out) };
    let mut r = Reader { region, atoms, size, env: vec![] };
    r.env.push((contract.rank.clone(), rank as i64));
    r.env.push((contract.size.clone(), size as i64));
    for (c, clause) in contract.clauses.iter().enumerate() {
        let (cell, cond) = match clause {
            Clause::Start { cell, cond } | Clause::End { cell, cond, from: _, at: _, sum: _ } => (cell, cond),
        };
        let free = r.free_block(cell);
        let blocks = if free.is_some() { size as i64 } else { 1 };
        // The set is recomputed for each block only if it depends on the block.
        let mut known: Option<u32> = None;
        for b in 0..blocks {
            if let Some(name) = &free {
                r.env.push((name.clone(), b));
            }
            if r.holds(cond)? {
                let (operand, lo, n) = r.atoms(cell)?;
                match clause {
                    Clause::Start { cell: _, cond: _ } => out.start.push((operand, lo, n)),
                    Clause::End { from, at, sum, cell: _, cond: _ } => {
                        if r.inner(from)? != r.inner(cell)? {
                            return Err(r.wrong("the inner indices of both sides differ".into()));
                        }
                        let (from_operand, from_lo, from_n) = r.atoms(from)?;
                        if from_n != n {
                            return Err(r.wrong(format!(
                                "`{}` and `{}` have parts of different sizes",
                                cell.buffer, from.buffer
                            )));
                        }
                        let mentions = |n: &Name| {
                            let in_sum = |s: &SumOver| {
                                s.lo.mentions(n)
                                    || s.hi.mentions(n)
                                    || s.cond.as_ref().is_some_and(|c| c.mentions(n))
                            };
                            at.mentions(n) || sum.as_ref().is_some_and(in_sum)
                        };
                        let by_block = free.as_ref().is_some_and(&mentions);
                        let fixed = !by_block && !mentions(&contract.rank);
                        let before = if fixed { sets.fixed.get(&(number, c)).copied() } else { None };
                        let set = match before.or(known.filter(|_| !by_block)) {
                            Some(s) => s,
                            None => sets.intern(r.ranks(at, sum)?),
                        };
                        if fixed {
                            sets.fixed.insert((number, c), set);
                        }
                        known = Some(set);
                        out.end.push(RequiredRun { operand, lo, n, from_operand, from_lo, set });
                    }
                }
            }
            if free.is_some() {
                r.env.pop();
            }
        }
    }
    Ok(out)
}
