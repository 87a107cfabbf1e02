//! Templates: what a use of an algorithm adds to an expansion, kept for further uses that differ
//! only in their ranks and places.
//!
//! Compositions repeat their parts: on every group of an `apply`, and in one composition after
//! another. What a use adds follows from its algorithm, its parameters, the shape of its group and
//! the lengths of its regions. In a template, a rank is its number in the group, and a place is
//! where it lies on the line of a region of the use. A copy has the ranks and places of its own
//! use, and equals what the interpreter makes. Where a copy would exceed a limit, the interpreter
//! runs and reports it.
//!
//! Templates belong to a library, and end when it changes.

use std::collections::HashMap;
use std::sync::Arc;

use kbc_diag::Span;
use rustc_hash::FxBuildHasher;

use crate::expand::{Expander, Step};
use crate::interp::Start;
use crate::interp::statements::run;
use crate::library::{AlgId, CollId};
use crate::region::{Line, Region};
use crate::rounds::{Lane, Limits, Mark, Transfer, Use};
use crate::scope::Value;
use crate::template_log::LoggedScratch;

/// Most transfers, and most uses, of a template.
const MOST_TRANSFERS: usize = 1 << 14;

/// Most transfers of all templates of a library. When there are more, all are dropped.
const KEPT_TRANSFERS: usize = 1 << 17;

/// A map whose keys no user chooses.
type Numbered<K, V> = HashMap<K, V, FxBuildHasher>;

/// The templates of a library.
#[derive(Default)]
struct Templates {
    by_key: Numbered<TemplateKey, Arc<Template>>,
    /// Transfers and uses of all of them.
    size: usize,
}

impl Templates {
    fn keep(&mut self, key: TemplateKey, template: Template) {
        let size = template.transfers + template.uses.len();
        if self.size + size > KEPT_TRANSFERS {
            *self = Templates::default();
        }
        self.size += size;
        self.by_key.insert(key, Arc::new(template));
    }
}

/// Everything that decides what a use adds, except its ranks and places.
#[derive(PartialEq, Eq, Hash)]
pub(crate) struct TemplateKey {
    coll: CollId,
    alg: AlgId,
    shape: Vec<i64>,
    root: Option<Vec<i64>>,
    args: Vec<(String, Value)>,
    /// Lengths of the regions, in atoms.
    lengths: Vec<u32>,
    /// Limits with which single values are compared.
    atoms: u64,
    steps: u64,
}

impl TemplateKey {
    fn of<'a>(s: &Start<'a, Expander<'a>>, limits: &Limits) -> TemplateKey {
        TemplateKey {
            coll: s.coll,
            alg: s.alg,
            shape: s.group.shape.clone(),
            root: s.root.clone(),
            args: s.args.clone(),
            lengths: s.regions.iter().map(|r| r.len).collect(),
            atoms: limits.atoms,
            steps: limits.steps,
        }
    }
}

/// What a use adds. The buffer of a region is the number of a region of the use or, above these, of
/// a scratch. Rounds, uses and marks are counted from those of the use.
pub(crate) struct Template {
    length: u32,
    transfers: usize,
    steps: u64,
    /// Executed `scratch` statements.
    ordinals: u32,
    /// Nesting of uses below it.
    depth: u32,
    /// Longest list of a comprehension.
    longest: usize,
    regions: Vec<Region>,
    rounds: Vec<Vec<TransferOfTemplate>>,
    /// Branches in the order in which they are entered. The branch around the use has number 0, and
    /// the first of these number 1.
    lanes: Vec<Lane>,
    scratch: Vec<ScratchOfTemplate>,
    uses: Vec<UseOfTemplate>,
    marks: Vec<Mark>,
}

/// A transfer whose regions are numbers of the regions of its template.
struct TransferOfTemplate {
    src: u32,
    dst: u32,
    from: u32,
    to: u32,
    reduce: bool,
    get: bool,
    direction: i8,
    via: Option<Arc<[u32]>>,
    distance: u32,
    span: Span,
    site: u32,
    lane: u32,
}

/// A use. Its fields are relative but for its regions, which are numbers of those of the template.
struct UseOfTemplate {
    relative: Use,
    regions: Vec<u32>,
}

/// A buffer of scratch.
struct ScratchOfTemplate {
    ordinal: u32,
    span: Span,
    len: u32,
    name: String,
}

/// The state of an expansion before a use.
struct Before {
    round: u32,
    /// Transfers of the rounds from there on.
    filled: Vec<usize>,
    ranks: Arc<[u32]>,
    regions: Vec<Region>,
    uses: usize,
    marks: usize,
    transfers: usize,
    steps: u64,
    ordinal: u32,
    lane: u32,
    lanes: usize,
    since: usize,
    scratch: usize,
    longest: usize,
}

impl<'a> Expander<'a> {
    /// Executes a use: by a template, if there is one, or by the interpreter. Returns the round
    /// after its last one.
    pub(crate) fn used(&mut self, s: Start<'a, Self>) -> Step<u32> {
        if !self.reuses {
            return run(self, s);
        }
        let key = TemplateKey::of(&s, &self.limits);
        if let Some(known) = self.lib.derived.with(|all: &mut Templates| all.by_key.get(&key).cloned())
            && self.admits(&known, &s)
        {
            return Ok(self.copy(&known, s));
        }
        let before = self.before(&s);
        let done = run(self, s)?;
        let made = self.template(&before, done);
        self.log.since = before.since;
        let longest = &self.evaluator.values.longest;
        longest.set(longest.get().max(before.longest));
        if let Some(template) = made {
            self.lib.derived.with(|all: &mut Templates| all.keep(key, template));
        }
        Ok(done)
    }

    /// Checks whether a copy of a template stays within all limits.
    fn admits(&self, known: &Template, s: &Start<'a, Self>) -> bool {
        let (mut depth, mut at) = (0, s.group.parent);
        while let Some(u) = at.and_then(|i| self.uses.get(i as usize)) {
            depth += 1;
            at = (at != Some(0)).then_some(u.parent);
        }
        depth + known.depth < self.limits.depth
            && self.transfers + known.transfers <= self.limits.transfers
            && self.steps + known.steps <= self.limits.steps
            && known.longest.saturating_mul(s.group.ranks.len()) <= self.limits.transfers
    }

    fn before(&mut self, s: &Start<'a, Self>) -> Before {
        let first = s.at.round as usize;
        let longest = self.evaluator.values.longest.replace(0);
        let since = std::mem::replace(&mut self.log.since, self.log.lanes.len());
        Before {
            round: s.at.round,
            filled: self.rounds.get(first..).unwrap_or_default().iter().map(Vec::len).collect(),
            ranks: s.group.ranks.clone(),
            regions: s.regions.clone(),
            uses: self.uses.len(),
            marks: self.marks.len(),
            transfers: self.transfers,
            steps: self.steps,
            ordinal: self.ordinal,
            lane: self.lane,
            lanes: self.log.since,
            since,
            scratch: self.log.scratch.len(),
            longest,
        }
    }

    /// Makes a template of what was added since a use began. None if that is too much, or if the
    /// regions of the use lie in one buffer, where a place is not of one of them alone.
    fn template(&self, before: &Before, done: u32) -> Option<Template> {
        let transfers = self.transfers - before.transfers;
        let own = &before.regions;
        let shared = own.iter().enumerate().any(|(i, r)| own[..i].iter().any(|o| o.buffer == r.buffer));
        if shared || transfers > MOST_TRANSFERS || self.uses.len() - before.uses > MOST_TRANSFERS {
            return None;
        }
        let (lanes, lane_numbers) = self.lanes_since(before)?;
        let scratch = self.scratch_since(before);
        let mut table = RegionTable::new(own, scratch.iter().map(|x| x.buffer));
        let ranks = RankNumbers::of(&before.ranks);
        let first = before.round as usize;
        let mut rounds = Vec::with_capacity((done - before.round) as usize);
        for (i, round) in self.rounds.get(first..done as usize)?.iter().enumerate() {
            let own = round.get(before.filled.get(i).copied().unwrap_or(0)..)?;
            let mut list = Vec::with_capacity(own.len());
            for x in own {
                list.push(TransferOfTemplate {
                    src: ranks.number(x.src)?,
                    dst: ranks.number(x.dst)?,
                    from: table.number(&x.from)?,
                    to: table.number(&x.to)?,
                    reduce: x.reduce,
                    get: x.get,
                    direction: x.direction,
                    via: x.via.clone(),
                    distance: x.distance,
                    span: x.span,
                    site: x.site - before.uses as u32,
                    lane: *lane_numbers.get(&x.lane)?,
                });
            }
            rounds.push(list);
        }
        let mut uses: Vec<UseOfTemplate> = vec![];
        let mut depths: Vec<u32> = vec![];
        for (i, u) in self.uses[before.uses..].iter().enumerate() {
            // Nobody reads the parent of the use itself: a copy has its own.
            let parent = if i == 0 { 0 } else { u.parent - before.uses as u32 };
            depths.push(if i == 0 { 0 } else { depths.get(parent as usize)? + 1 });
            let regions = u.regions.iter().map(|r| table.number(r)).collect::<Option<_>>()?;
            let members = ranks.numbers(&u.members)?;
            let (first, end) = (u.first - before.round, u.end - before.round);
            let relative = Use { parent, members, regions: vec![], first, end, ..u.clone() };
            uses.push(UseOfTemplate { relative, regions });
        }
        let relative = |m: &Mark| Mark {
            round: m.round - before.round,
            site: m.site - before.uses as u32,
            ends: m.ends,
        };
        let named = |x: LoggedScratch| ScratchOfTemplate {
            ordinal: x.ordinal - before.ordinal,
            span: x.span,
            len: x.len,
            name: self.buffers[x.buffer as usize].name.clone(),
        };
        Some(Template {
            length: done - before.round,
            transfers,
            steps: self.steps - before.steps,
            ordinals: self.ordinal - before.ordinal,
            depth: depths.into_iter().max().unwrap_or(0),
            longest: self.evaluator.values.longest.get(),
            regions: table.regions,
            rounds,
            lanes,
            scratch: scratch.into_iter().map(named).collect(),
            uses,
            marks: self.marks[before.marks..].iter().map(relative).collect(),
        })
    }

    /// Returns the branches that were entered since a use began, with numbers of a template, and
    /// these numbers.
    fn lanes_since(&self, before: &Before) -> Option<(Vec<Lane>, Numbered<u32, u32>)> {
        let mut numbers = Numbered::default();
        numbers.insert(before.lane, 0);
        let mut lanes = vec![];
        for &id in &self.log.lanes[before.lanes..] {
            if numbers.contains_key(&id) {
                continue;
            }
            let lane = self.lanes[id as usize];
            lanes.push(Lane { parent: *numbers.get(&lane.parent)?, ..lane });
            numbers.insert(id, lanes.len() as u32);
        }
        Some((lanes, numbers))
    }

    /// Returns the scratch since a use began, each buffer once.
    fn scratch_since(&self, before: &Before) -> Vec<LoggedScratch> {
        let mut out: Vec<LoggedScratch> = vec![];
        let mut seen: Numbered<u32, ()> = Numbered::default();
        for &x in &self.log.scratch[before.scratch..] {
            if seen.insert(x.buffer, ()).is_none() {
                out.push(x);
            }
        }
        out
    }

    /// Adds what a template has, with the ranks and places of a use.
    fn copy(&mut self, known: &Template, s: Start<'a, Self>) -> u32 {
        let (round, site, ordinal) = (s.at.round, self.uses.len() as u32, self.ordinal);
        let own = s.regions;
        let in_scratch: Vec<u32> = known
            .scratch
            .iter()
            .map(|x| self.scratch_buffer(&x.name, ordinal + x.ordinal, x.span, x.len))
            .collect();
        let mut lanes = vec![self.lane];
        for lane in &known.lanes {
            lanes.push(self.lane_of(Lane { parent: lanes[lane.parent as usize], ..*lane }));
        }
        let place = |r: &Region| match own.get(r.buffer as usize) {
            Some(base) => r.on_line(base),
            None => r.in_buffer(in_scratch[r.buffer as usize - own.len()]),
        };
        let regions: Vec<Region> = known.regions.iter().map(place).collect();
        let region = |i: &u32| regions[*i as usize].clone();
        let ranks = s.group.ranks;
        let done = round + known.length;
        self.rounds.resize(self.rounds.len().max(done as usize), vec![]);
        for (out, list) in self.rounds[round as usize..].iter_mut().zip(&known.rounds) {
            out.extend(list.iter().map(|x| Transfer {
                src: ranks[x.src as usize],
                dst: ranks[x.dst as usize],
                from: region(&x.from),
                to: region(&x.to),
                reduce: x.reduce,
                get: x.get,
                direction: x.direction,
                via: x.via.clone(),
                distance: x.distance,
                span: x.span,
                site: site + x.site,
                lane: lanes[x.lane as usize],
            }));
        }
        let whole = RankNumbers::of(&ranks).are_the_ranks();
        let (mut options, mut around) = (Some(s.options), s.group.parent);
        for u in &known.uses {
            let r = &u.relative;
            self.uses.push(Use {
                parent: around.take().unwrap_or(site + r.parent),
                span: if options.is_some() { s.span } else { r.span },
                args: r.args.clone(),
                options: options.take().unwrap_or_else(|| r.options.clone()),
                shape: r.shape.clone(),
                members: match whole {
                    true => r.members.clone(),
                    false => r.members.iter().map(|m| ranks[*m as usize]).collect(),
                },
                regions: u.regions.iter().map(region).collect(),
                first: round + r.first,
                end: round + r.end,
                ..*r
            });
        }
        let absolute = |m: &Mark| Mark { round: round + m.round, site: site + m.site, ends: m.ends };
        self.marks.extend(known.marks.iter().map(absolute));
        self.ordinal = ordinal + known.ordinals;
        self.transfers += known.transfers;
        self.steps += known.steps;
        let longest = &self.evaluator.values.longest;
        longest.set(longest.get().max(known.longest));
        done
    }
}

/// Numbers of ranks in a group.
enum RankNumbers {
    /// Every rank has its own number.
    Same(u32),
    Listed(Numbered<u32, u32>),
}

impl RankNumbers {
    fn of(ranks: &[u32]) -> RankNumbers {
        if (0u32..).zip(ranks).all(|(i, r)| i == *r) {
            return RankNumbers::Same(ranks.len() as u32);
        }
        RankNumbers::Listed(ranks.iter().copied().zip(0..).collect())
    }

    fn are_the_ranks(&self) -> bool {
        matches!(self, RankNumbers::Same(_))
    }

    fn number(&self, rank: u32) -> Option<u32> {
        match self {
            RankNumbers::Same(n) => Some(rank).filter(|r| r < n),
            RankNumbers::Listed(list) => list.get(&rank).copied(),
        }
    }

    fn numbers(&self, ranks: &Arc<[u32]>) -> Option<Arc<[u32]>> {
        match self {
            RankNumbers::Same(_) => Some(ranks.clone()),
            RankNumbers::Listed(_) => ranks.iter().map(|r| self.number(*r)).collect(),
        }
    }
}

/// The regions of a template.
struct RegionTable {
    /// For each buffer its number in the template, and the line of the region of the use in it.
    slots: Numbered<u32, (u32, Option<Line>)>,
    regions: Vec<Region>,
    /// By buffer and address of the runs, which regions share.
    numbers: Numbered<(u32, usize), u32>,
}

impl RegionTable {
    fn new(own: &[Region], scratch: impl Iterator<Item = u32>) -> RegionTable {
        let lines = own.iter().map(|r| (r.buffer, Some(Line::of(r))));
        let slots = lines.chain(scratch.map(|b| (b, None)));
        let slots = (0..).zip(slots).map(|(i, (buffer, line))| (buffer, (i, line))).collect();
        RegionTable { slots, regions: vec![], numbers: Numbered::default() }
    }

    /// Returns the number of a region, or None if it is not on the lines of the use.
    fn number(&mut self, r: &Region) -> Option<u32> {
        let key = (r.buffer, r.runs().as_ptr() as usize);
        if let Some(known) = self.numbers.get(&key) {
            return Some(*known);
        }
        let (slot, line) = self.slots.get(&r.buffer)?;
        let own = match line {
            Some(line) => line.places_of(r, *slot)?,
            None => r.in_buffer(*slot),
        };
        let next = self.regions.len() as u32;
        self.regions.push(own);
        self.numbers.insert(key, next);
        Some(next)
    }
}
