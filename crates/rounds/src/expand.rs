//! Expansion: turns the text of an algorithm into its rounds on concrete ranks.
//!
//! This module owns the state of an expansion and its result. `interp` interprets the text,
//! `synchronous` executes a statement on all ranks, `group` runs an algorithm on every group, and
//! `meaning` checks whether the rounds satisfy a contract.
//!
//! All sizes are whole numbers of atoms, the units into which buffers are cut. If a cut would fall
//! inside an atom, the expansion stops and starts again with finer atoms. At the end it divides all
//! boundaries by their greatest common divisor, so the result has as few atoms as possible.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use kbc_diag::{Diagnostic, Diagnostics, Span};

use crate::eval::ConcreteEvaluator;
use crate::frame::Frame;
use crate::library::Library;
use crate::ratio::gcd;
use crate::region::{Cut, Region, Run};
use crate::rounds::{Axis, Buffer, Call, Lane, Limits, Mark, Rounds, Transfer, Use, coordinates, rank_text};
use crate::scope::Fault;
use crate::template_log::{LoggedScratch, TemplateLog};

/// Returns the rounds of a call.
///
/// # Errors
/// Returns the first error in the order of the text: E005 to E031 for the algorithm, or E040 if the
/// expansion exceeds `limits`.
pub fn expand(lib: &Library, call: &Call, limits: &Limits) -> Result<Rounds, Diagnostics> {
    expand_by(lib, call, limits, true)
}

/// Returns what [`expand`] does. `reuses` says whether templates may be used and made.
pub(crate) fn expand_by(
    lib: &Library,
    call: &Call,
    limits: &Limits,
    reuses: bool,
) -> Result<Rounds, Diagnostics> {
    // One evaluator for all attempts, because the results of functions do not depend on the
    // size of atoms.
    let evaluator = ConcreteEvaluator::new(lib);
    let mut finer = 1u64;
    loop {
        let mut x = Expander { reuses, ..Expander::new(lib, &evaluator, *limits, finer) };
        match x.call(call) {
            Ok(()) => return Ok(x.finish(lib, call)),
            Err(Stop::Fault(d)) => return Err(Diagnostics::from(*d)),
            Err(Stop::Finer(factor)) => finer = finer.saturating_mul(factor.max(2)),
        }
    }
}

/// Reasons to stop an expansion.
pub(crate) enum Stop {
    Fault(Fault),
    /// Start again with atoms that are finer by this factor.
    Finer(u64),
}

impl From<Fault> for Stop {
    fn from(d: Fault) -> Self {
        Stop::Fault(d)
    }
}

impl From<Diagnostic> for Stop {
    fn from(d: Diagnostic) -> Self {
        Stop::Fault(Box::new(d))
    }
}

impl From<Cut> for Stop {
    fn from(c: Cut) -> Self {
        let Cut::Finer(f) = c;
        Stop::Finer(f)
    }
}

pub(crate) type Step<T> = Result<T, Stop>;

pub(crate) struct Expander<'a> {
    pub lib: &'a Library,
    pub evaluator: &'a ConcreteEvaluator<'a>,
    pub limits: Limits,
    /// Number of atoms per block.
    pub finer: u64,
    pub buffers: Vec<Buffer>,
    pub uses: Vec<Use>,
    pub marks: Vec<Mark>,
    /// Counts scratch statements. It restarts for each of several groups side by side, so that
    /// these share scratch.
    pub ordinal: u32,
    pub rounds: Vec<Vec<Transfer>>,
    pub lanes: Vec<Lane>,
    lane_ids: BTreeMap<Lane, u32>,
    pub lane: u32,
    pub scratch: BTreeMap<(u32, Span, u32), u32>,
    pub transfers: usize,
    pub steps: u64,
    pub log: TemplateLog,
    /// Whether templates are used and made.
    pub reuses: bool,
}

impl<'a> Expander<'a> {
    fn new(lib: &'a Library, evaluator: &'a ConcreteEvaluator<'a>, limits: Limits, finer: u64) -> Self {
        let root = Lane { parent: 0, span: Span::NONE, index: 0 };
        Expander {
            lib,
            evaluator,
            limits,
            finer,
            buffers: vec![],
            uses: vec![],
            marks: vec![],
            ordinal: 0,
            rounds: vec![],
            lanes: vec![root],
            lane_ids: BTreeMap::from([(root, 0)]),
            lane: 0,
            scratch: BTreeMap::new(),
            transfers: 0,
            steps: 0,
            log: TemplateLog::default(),
            reuses: true,
        }
    }

    fn finish(self, lib: &Library, call: &Call) -> Rounds {
        let decl = lib.algorithm(call.alg);
        let shape = self.uses.first().map(|u| u.shape.clone()).unwrap_or_default();
        let axes =
            decl.axes.iter().zip(shape).map(|(a, size)| Axis { name: a.coord.node.clone(), size }).collect();
        let mut marks = self.marks;
        marks.sort_by_key(|m| m.round);
        let mut out = Rounds {
            axes,
            atoms: self.buffers.first().map_or(1, |b| b.atoms),
            buffers: self.buffers,
            rounds: self.rounds,
            uses: self.uses,
            marks,
            lanes: self.lanes,
        };
        coarsen(&mut out, lib);
        out
    }

    pub fn enter_lane(&mut self, span: Span, index: usize) -> u32 {
        let id = self.lane_of(Lane { parent: self.lane, span, index: index as u32 });
        std::mem::replace(&mut self.lane, id)
    }

    /// Returns the number of a branch that is entered.
    pub fn lane_of(&mut self, lane: Lane) -> u32 {
        let next = self.lanes.len() as u32;
        let id = *self.lane_ids.entry(lane).or_insert(next);
        if id == next {
            self.lanes.push(lane);
        }
        self.log.lane(id);
        id
    }

    /// Returns the number of the buffer of a `scratch` statement: a new one, or that of the same
    /// statement in a group side by side.
    pub fn scratch_buffer(&mut self, name: &str, ordinal: u32, span: Span, len: u32) -> u32 {
        let next = self.buffers.len() as u32;
        let id = *self.scratch.entry((ordinal, span, len)).or_insert(next);
        if id == next {
            self.buffers.push(Buffer { name: name.to_owned(), atoms: len, scratch: Some(span) });
        }
        self.log.scratch(LoggedScratch { ordinal, span, len, buffer: id });
        id
    }

    /// Adds the rank, the round and the enclosing `apply` statements to a message.
    pub fn at(&self, f: &Frame<'a>, m: usize, t: u32, mut d: Fault) -> Stop {
        d.notes.push(format!("on {}, in round {}, of `{}`", f.name_of(m), t + 1, f.decl.name.node));
        let mut at = f.site;
        while at != 0 {
            let Some(u) = self.uses.get(at as usize) else { break };
            *d = d.clone().secondary(u.span, "in this apply");
            at = u.parent;
        }
        if f.site != 0
            && let Some(top) = self.uses.first()
        {
            let names: Vec<&str> =
                self.lib.algorithm(top.alg).axes.iter().map(|a| a.coord.node.as_str()).collect();
            let whole = rank_text(&names, &coordinates(&top.shape, i64::from(f.members[m])));
            d.notes.push(format!("this is rank {whole} of the outermost call"));
        }
        Stop::Fault(d)
    }
}

/// Makes E040 for an expansion that would exceed a limit.
pub(crate) fn too_large(span: Span, what: String) -> Stop {
    Stop::from(
        Diagnostic::error("E040", format!("the algorithm is too large to expand: {what}"))
            .primary(span, "the limit is exceeded here")
            .note("the expansion of an algorithm lists every transfer of every rank and round")
            .help("use fewer ranks or larger chunks"),
    )
}

/// Divides all boundaries by their greatest common divisor, which gives the least number of atoms
/// that every region allows.
fn coarsen(r: &mut Rounds, lib: &Library) {
    let mut g = r.buffers.iter().fold(0, |g, b| gcd(g, u64::from(b.atoms)));
    for (_, t) in r.transfers() {
        if g <= 1 {
            return;
        }
        g = t.to.grain(t.from.grain(g));
    }
    for u in &r.uses {
        let blocks = crate::contract::block_shape(lib.collective(u.coll));
        for (region, blocks) in u.regions.iter().zip(blocks) {
            g = region.grain(g);
            // Contracts refer to blocks, so block boundaries count too.
            if blocks {
                g = gcd(g, u64::from(region.len) / (u.members.len() as u64).max(1));
            }
        }
    }
    let factor = u32::try_from(g).unwrap_or(1);
    if factor <= 1 {
        return;
    }
    r.atoms /= factor;
    r.buffers.iter_mut().for_each(|b| b.atoms /= factor);
    // Transfers share regions, and must still share them afterwards.
    let mut seen: HashMap<(u32, Arc<[Run]>), Region> = HashMap::new();
    let mut shrink = |x: &mut Region| {
        let key = (x.buffer, Arc::from(x.runs()));
        *x = seen.entry(key).or_insert_with(|| x.coarser(factor)).clone();
    };
    for t in r.rounds.iter_mut().flatten() {
        shrink(&mut t.from);
        shrink(&mut t.to);
    }
    r.uses.iter_mut().flat_map(|u| &mut u.regions).for_each(shrink);
}
