//! Sizes that one emitted kernel serves: makes, proves and lowers the same program at other rank
//! counts and element counts, and compares the kernels.
//!
//! This module owns the choice of sizes. [`kbc_tiles::family`] defines how kernels may
//! differ and still be one.

use super::places;
use crate::again::{Resized, operations_with, ranks_with, rebuild_at};
use crate::build::Built;
use crate::proof::proof;
use crate::workspace::Workspace;
use kbc_diag::{Diagnostic, Diagnostics};
use kbc_ir::graph::Graph;
use kbc_ir::schedule::Schedule;
use kbc_tiles::backend::Target;
use kbc_tiles::family::{self, Instance};
use kbc_tiles::lower::{Shares, Staging};
use kbc_tiles::package::{PackagedProgram, SizeReasons, Sizes};
use kbc_tiles::tile::{Kernel, verify};
use std::collections::{BTreeMap, BTreeSet};

/// Rank counts that are tried beside the program's own: small ones, powers of two and others.
const RANKS: [u64; 10] = [2, 3, 4, 5, 6, 7, 8, 9, 12, 16];

/// Element counts at which kernels are compared. They are primes, so that no two parts of a cut are
/// alike by chance.
const COUNTS: [u64; 3] = [1009, 2003, 4001];

/// The reason where kernels of other rank counts exist and are not alike.
const DIFFERENT_RANKS: &str = "kernels for other numbers of ranks differ in more than numbers";

/// The reason where kernels at other counts exist and are not alike.
const DIFFERENT_COUNTS: &str = "kernels at other sizes differ in more than numbers";

/// The reason where no parameter can be a count.
const NO_COUNT: &str = "no parameter changes the sizes of data and nothing else";

/// A kernel and the sizes that it serves.
pub struct Family {
    /// The kernel.
    pub kernel: Kernel,
    /// Rank counts that were proven and at which the kernel agrees with the lowered one.
    pub ranks: Vec<u64>,
    /// The parameter that is the kernel's `count`, if it has one.
    pub count: Option<String>,
    /// For each of these rank counts, the program at the element count at which it was proven.
    /// Every cut divides that count.
    pub proven: Vec<ProgramAtSize>,
    /// The program at sizes that show how the sizes of its tensors depend on ranks and count. The
    /// program's own size is first.
    pub samples: Vec<ProgramAtSize>,
    /// Why it serves no other sizes.
    pub reasons: SizeReasons,
}

/// Returns the parameter of a program that is the element count of its kernel, if there is one.
///
/// # Errors
/// Returns the errors of lowering the program at its own size.
pub fn count_parameter(
    workspace: &mut Workspace,
    built: &Built,
    own: &Schedule,
    target: &'static dyn Target,
) -> Result<Option<String>, Diagnostics> {
    Ok(Makers::new(workspace, built, own, target)?.any_count(own)?.map(|c| c.0))
}

/// Returns the kernel of a program for as many sizes as possible.
///
/// # Errors
/// Returns the errors of lowering the program at its own size. A size at which the program does not
/// exist is left out.
pub fn family(
    workspace: &mut Workspace,
    built: &Built,
    own: &Schedule,
    target: &'static dyn Target,
) -> Result<Family, Diagnostics> {
    let mut makers = Makers::new(workspace, built, own, target)?;
    let ranks = own.mesh.ranks();
    let (count, first) = makers.any_count(own)?.unzip();
    let mut made = makers.all(count.as_deref(), first.unwrap_or_default());
    let reasons = makers.reasons(&made, count.is_some());
    let value = count.as_ref().and_then(|name| built.number(name)).unwrap_or(0);
    let mut own = ProgramAtSize {
        typed: built.typed.clone(),
        schedule: own.clone(),
        instance: Instance { ranks, count: value, kernel: makers.kernel.clone() },
    };
    let sizes = global_sizes(built);
    let all: BTreeSet<u64> = made.iter().map(|m| m.instance.ranks).collect();
    let mut best = fitting(&own, &made, &sizes, count.is_some(), &[])?;
    for staging in [Staging::Fused, Staging::Needed, Staging::Whole] {
        if best.as_ref().is_some_and(|b| b.ranks.len() >= all.len()) {
            break;
        }
        // The copies that can be elided may differ between rank counts. A kernel that serves more
        // rank counts is worth an additional copy.
        let other = |m: ProgramAtSize| makers.lowered(m, staging);
        let (own_other, made_other) =
            (other(own.clone()), made.iter().cloned().map(other).collect::<Option<Vec<_>>>());
        if let (Some(own_other), Some(made_other)) = (own_other, made_other)
            && let Some(more) = fitting(&own_other, &made_other, &sizes, count.is_some(), &[])?
            && best.as_ref().is_none_or(|b| b.ranks.len() < more.ranks.len())
        {
            makers.staging = staging;
            (best, own, made) = (Some(more), own_other, made_other);
        }
    }
    let mut passed = vec![];
    while let Some(Fitting { kernel, ranks: agree, general }) = best {
        let mut proven = vec![];
        for r in &agree {
            let at = count.as_deref().map(|name| (name, divisible(*r, own.instance.kernel.cores)));
            let Some(m) = makers.make(*r, at) else { continue };
            if family::same_trace(&kernel, &m.instance)?
                && family::in_range(&kernel, *r)
                && proof(&m.schedule).is_ok()
            {
                proven.push(m);
            }
        }
        if proven.iter().any(|m| m.instance.ranks == ranks) {
            let ranks: Vec<u64> = proven.iter().map(|m| m.instance.ranks).collect();
            // Sizes in the definition itself, such as those of a reshape, belong to one instance.
            if one_definition(
                std::iter::once(&own).chain(&made).filter(|m| ranks.contains(&m.instance.ranks)),
            ) {
                made.retain(|m| ranks.contains(&m.instance.ranks));
                made.insert(0, own);
                let reasons = SizeReasons { ranks: reasons.ranks.filter(|_| ranks.len() == 1), ..reasons };
                return Ok(Family { kernel, ranks, count, proven, samples: made, reasons });
            }
        }
        passed.push(general);
        best = fitting(&own, &made, &sizes, count.is_some(), &passed)?;
    }
    let kernel = family::single(&own.instance);
    let reasons = SizeReasons { sizes: reasons.sizes.or(Some(DIFFERENT_COUNTS.into())), ..reasons };
    Ok(Family { kernel, ranks: vec![ranks], count: None, proven: vec![], samples: vec![own], reasons })
}

/// A kernel that covers several sizes.
struct Fitting {
    kernel: Kernel,
    /// The rank counts at which it agrees with the lowered kernels.
    ranks: Vec<u64>,
    /// The kernel before its tables were completed for these rank counts.
    general: Kernel,
}

/// Returns a kernel that covers several of these sizes, including the program's own. Those whose
/// general form is in `tried` are passed over.
fn fitting(
    own: &ProgramAtSize,
    made: &[ProgramAtSize],
    sizes: &[u64],
    counted: bool,
    tried: &[Kernel],
) -> Result<Option<Fitting>, Diagnostics> {
    for group in groups(made, own.instance.ranks) {
        let instances: Vec<Instance> = group.iter().map(|m| m.instance.clone()).collect();
        let Some(general) = family::generalise(&instances, sizes, counted) else { continue };
        if tried.contains(&general) {
            continue;
        }
        let mut kernel = general.clone();
        let ranks: BTreeSet<u64> = made.iter().map(|m| m.instance.ranks).collect();
        family::add_constant_tables(&mut kernel, &ranks);
        if !family::same_trace(&kernel, &own.instance)? || (counted && !family::count_is_data(&kernel)) {
            continue;
        }
        // Compared at every count that was made: where a cut divides the count, different cut rules
        // cannot be distinguished.
        let mut agree: BTreeMap<u64, bool> = BTreeMap::new();
        for m in made {
            let all = agree.entry(m.instance.ranks).or_insert(true);
            let size = |i: &Instance| (i.ranks, i.count);
            let member = group.iter().any(|g| size(&g.instance) == size(&m.instance));
            *all = *all
                && match family::same_first_call(&kernel, &m.instance) {
                    // Too long to be compared, but the kernel was generalised from this instance.
                    Err(d) if member && d.list.iter().all(|d| d.code == "E431") => true,
                    same => same?,
                };
        }
        let agree: Vec<u64> = agree.into_iter().filter(|(_, all)| *all).map(|(r, _)| r).collect();
        for table in &mut kernel.tables {
            table.values.retain(|r, _| agree.contains(r));
        }
        return Ok(Some(Fitting { kernel, ranks: agree, general }));
    }
    Ok(None)
}

/// Checks whether one definition of golden values serves all these sizes.
fn one_definition<'m>(made: impl Iterator<Item = &'m ProgramAtSize>) -> bool {
    let sizes = |m: &ProgramAtSize| Sizes { nranks: m.instance.ranks, count: m.instance.count };
    let all: Vec<_> = made.map(|m| (sizes(m), &m.typed, &m.schedule.mesh)).collect();
    PackagedProgram::of("", &all).is_ok()
}

/// A program at one size: its graph, its schedule and its kernel.
#[derive(Clone)]
pub struct ProgramAtSize {
    /// The typed program.
    pub typed: Graph,
    /// The schedule.
    pub schedule: Schedule,
    /// The kernel.
    pub instance: Instance,
}

/// Makes the program at other sizes.
struct Makers<'a> {
    workspace: &'a mut Workspace,
    built: &'a Built,
    target: &'static dyn Target,
    /// The kernel at the program's own size.
    kernel: Kernel,
    /// How that kernel's matmuls are divided among matrix cores; those of other sizes are divided
    /// in the same way.
    shares: Shares,
    ranks: u64,
    /// Which copies the kernels keep.
    staging: Staging,
    /// Whether the number of ranks can change. This needs a mesh of one axis, which `--topology`
    /// replaces.
    line: bool,
    /// The number of ranks and the message of the first other program that could not be made.
    failed: Option<(u64, String)>,
}

impl<'a> Makers<'a> {
    fn new(
        workspace: &'a mut Workspace,
        built: &'a Built,
        own: &Schedule,
        target: &'static dyn Target,
    ) -> Result<Self, Diagnostics> {
        let staging = Staging::Rows;
        let mut shares = Shares::default();
        let kernel = target.lower(own, staging, &|span| places::of(&workspace.map, span), &mut shares)?;
        let line = own.mesh.axes.len() == 1;
        let ranks = own.mesh.ranks();
        Ok(Makers { workspace, built, target, kernel, shares, ranks, staging, line, failed: None })
    }

    /// Lowers the program's own size without tiles that hold rows. Returns whether this makes a
    /// difference.
    fn without_rows(&mut self, own: &Schedule) -> Result<bool, Diagnostics> {
        let kernel = self.lower(own, Staging::Fused)?;
        let differs = kernel != self.kernel;
        (self.kernel, self.staging) = (kernel, Staging::Fused);
        Ok(differs)
    }

    /// Lowers the program's own size with tiles that hold rows.
    fn with_rows(&mut self, own: &Schedule) -> Result<(), Diagnostics> {
        self.kernel = self.lower(own, Staging::Rows)?;
        self.staging = Staging::Rows;
        Ok(())
    }

    /// Says why a kernel that was made from these programs serves one number of ranks or one count,
    /// if it does.
    fn reasons(&self, made: &[ProgramAtSize], counted: bool) -> SizeReasons {
        let others = made.iter().any(|m| m.instance.ranks != self.ranks);
        let ranks = match &self.failed {
            _ if !self.line => "its mesh has several axes".into(),
            _ if others => DIFFERENT_RANKS.into(),
            Some((ranks, why)) => format!("on {ranks} ranks: {why}"),
            None => "no other number of ranks was tried".into(),
        };
        SizeReasons { ranks: Some(ranks), sizes: (!counted).then(|| NO_COUNT.into()) }
    }

    /// Returns the program at a rank count and a value of its count parameter, if it exists there.
    fn make(&mut self, ranks: u64, count: Option<(&str, u64)>) -> Option<ProgramAtSize> {
        match self.attempt(ranks, count) {
            Ok(made) => Some(made),
            Err(found) => {
                if ranks != self.ranks && self.failed.is_none() {
                    let first = found.list.first();
                    self.failed = Some((ranks, first.map_or_else(String::new, |d| d.title.clone())));
                }
                None
            }
        }
    }

    fn attempt(&mut self, ranks: u64, count: Option<(&str, u64)>) -> Result<ProgramAtSize, Diagnostics> {
        let line = (ranks != self.ranks).then(|| {
            let text = format!("full({ranks})");
            let file = self.workspace.add_text("<--topology>", &text);
            (text, file)
        });
        let defines: Vec<_> = count.map(|(n, v)| (n.to_owned(), v.to_string())).into_iter().collect();
        let Resized { typed, schedule } = rebuild_at(self.built, line, &defines)?;
        if schedule.mesh.ranks() != ranks {
            return Err(Diagnostic::error("E216", "the mesh has a size of its own").into());
        }
        let kernel = self.lower(&schedule, self.staging)?;
        let count = count.map_or(0, |c| c.1);
        verify::fit(&kernel, self.target, ranks, count)?;
        Ok(ProgramAtSize { typed, schedule, instance: Instance { ranks, count, kernel } })
    }

    /// Returns the kernel of a schedule, with its matmuls divided as at the program's own size.
    fn lower(&self, schedule: &Schedule, staging: Staging) -> Result<Kernel, Diagnostics> {
        let places = |span| places::of(&self.workspace.map, span);
        self.target.lower(schedule, staging, &places, &mut self.shares.clone())
    }

    /// Returns the same program with a kernel lowered under another copy-elision setting.
    fn lowered(&self, m: ProgramAtSize, staging: Staging) -> Option<ProgramAtSize> {
        let kernel = self.lower(&m.schedule, staging).ok()?;
        Some(ProgramAtSize { instance: Instance { kernel, ..m.instance }, ..m })
    }

    /// Returns the count parameter, with the program at the first two counts: that of the kernels
    /// whose tiles hold rows, or else of those without. Such a kernel has the length of its rows in
    /// its text, and one that serves any count is worth its additional transfers.
    fn any_count(&mut self, own: &Schedule) -> Result<Option<(String, Vec<ProgramAtSize>)>, Diagnostics> {
        let found = self.count();
        if found.is_some() || !self.without_rows(own)? {
            return Ok(found);
        }
        let found = self.count();
        if found.is_none() {
            self.with_rows(own)?;
        }
        Ok(found)
    }

    /// Returns the count parameter, with the program at the first two counts. It is the first
    /// integer parameter whose value changes the sizes of data and nothing else.
    fn count(&mut self) -> Option<(String, Vec<ProgramAtSize>)> {
        let names: Vec<(String, u64)> = self.built.integers().map(|(n, v)| (n.to_owned(), v)).collect();
        let mut own = None;
        names.into_iter().find_map(|(name, value)| {
            // A parameter that sets the size of the mesh is not a count. Checking the ranks first
            // avoids lowering and compiling a program for a thousand ranks.
            let defines = [(name.clone(), COUNTS[0].to_string())];
            if ranks_with(self.built, &defines).ok()? != self.ranks {
                return None;
            }
            // Neither is one that adds operations, such as a number of layers. The next value shows
            // it without a program of a thousand layers.
            let next = [(name.clone(), value.saturating_add(1).to_string())];
            let operations = |defines: &[(String, String)]| operations_with(self.built, defines);
            let own = *own.get_or_insert_with(|| operations(&[]));
            if operations(&next).or_else(|| operations(&defines)) != own {
                return None;
            }
            let a = self.make(self.ranks, Some((&name, COUNTS[0])))?;
            let b = self.make(self.ranks, Some((&name, COUNTS[1])))?;
            let lengths = |m: &ProgramAtSize| {
                m.instance.kernel.tensors.iter().map(|t| t.len.clone()).collect::<Vec<_>>()
            };
            let good = lengths(&a) != lengths(&b) && family::alike(&a.instance.kernel, &b.instance.kernel);
            good.then(|| (name, vec![a, b]))
        })
    }

    /// Returns the program at all sizes that are tried. `first` holds the programs at its own rank
    /// count and the first two counts.
    fn all(&mut self, count: Option<&str>, first: Vec<ProgramAtSize>) -> Vec<ProgramAtSize> {
        let mut ranks = if self.line { RANKS.to_vec() } else { vec![] };
        ranks.retain(|r| *r != self.ranks);
        let Some(name) = count else {
            ranks.insert(0, self.ranks);
            return ranks.into_iter().filter_map(|r| self.make(r, None)).collect();
        };
        // Several counts distinguish the forms that a number may have. The program's own rank count
        // gets one count more.
        let mut out = first;
        out.extend(self.make(self.ranks, Some((name, COUNTS[2]))));
        for r in ranks {
            out.extend(COUNTS[..2].iter().filter_map(|n| self.make(r, Some((name, *n)))));
        }
        out
    }
}

/// Returns a count that every cut of a collective over `ranks` ranks divides, so that all chunk
/// boundaries are distinct. The lanes of several cores begin at lines of 64 bytes, which hold at
/// most 64 elements.
fn divisible(ranks: u64, cores: u32) -> u64 {
    let lines = if cores > 1 { 4 * u64::from(cores) } else { 1 };
    16 * lines * ranks * ranks.next_power_of_two()
}

/// Groups sizes whose kernels differ in numbers alone, the largest group first. The last group
/// holds the sizes at the program's own rank count.
fn groups(made: &[ProgramAtSize], ranks: u64) -> Vec<Vec<&ProgramAtSize>> {
    let mut out: Vec<Vec<&ProgramAtSize>> = vec![];
    for m in made {
        match out.iter_mut().find(|g| family::alike(&g[0].instance.kernel, &m.instance.kernel)) {
            Some(group) => group.push(m),
            None => out.push(vec![m]),
        }
    }
    out.sort_by_key(|g| std::cmp::Reverse(g.len()));
    out.push(made.iter().filter(|m| m.instance.ranks == ranks).collect());
    out.retain(|g| !g.is_empty());
    out
}

/// Returns the sizes of the dimensions of the inputs, sorted and without duplicates or 1.
fn global_sizes(built: &Built) -> Vec<u64> {
    let inputs = built.typed.inputs.iter().flat_map(|i| i.ty.sizes());
    let mut out: Vec<u64> = inputs.filter(|n| *n > 1).collect();
    out.sort_unstable();
    out.dedup();
    out
}
