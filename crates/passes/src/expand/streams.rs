//! Events between streams of a schedule whose collectives run concurrently with local work.
//!
//! Operations come in issue order, each on its stream. An operation awaits an event of an operation
//! on another stream if it reads what that operation writes, or writes what that operation reads or
//! writes, unless earlier events imply it. Vector clocks over the streams of a rank determine what
//! is implied; local memory needs no signals. Regions begin with the events that they await and end
//! with the events that they record, so `after` is exact. A call starts and ends on `main`: the
//! first operation of each stream comes after the first one of `main`, and the last one of `main`
//! after the last one of each stream.
//!
//! `overlap` decides which collective runs on which stream, and `lanes` makes the lanes inside a
//! collective. For targets with matrix cores, [`matmuls_apart`] gives the matmuls a stream.

use kbc_diag::{Diagnostic, Span};
use kbc_ir::Name;
use kbc_ir::schedule::*;
use std::collections::BTreeMap;

/// The work at one position of a stream.
enum Work {
    /// The start or the end of a call, without operations.
    Edge,
    /// A statement of a region of local operations.
    Local(SStmt, Span),
    /// A whole region with its operands.
    Region(Box<Region>),
}

struct Unit {
    stream: usize,
    /// Its number on its stream, counted from 1.
    at: usize,
    work: Work,
    /// Units whose events it awaits.
    awaits: Vec<usize>,
    recorded: bool,
    /// For each stream, the number of its units that are known to be over at the end of this unit.
    knows: Vec<usize>,
}

/// For each stream, its last unit that reads a buffer and its last unit that writes it.
#[derive(Clone, Default)]
struct Uses {
    read: Vec<usize>,
    written: Vec<usize>,
}

/// Cuts the regions of a schedule where streams wait for each other, and inserts their events.
/// Every region has one stream for all its roles, or lanes that start and end on that stream.
pub(super) fn order(s: &mut Schedule) {
    let mut streams: Vec<Name> = vec![MAIN.into()];
    for r in &s.regions {
        let name = stream_of(r);
        if !streams.contains(name) {
            streams.push(name.clone());
        }
    }
    if streams.len() == 1 {
        return;
    }
    let mut units = units(s, &streams);
    wait(s, &mut units, streams.len());
    s.regions = regions(s, units, &streams);
}

/// Returns the stream of a region's operations.
pub(super) fn stream_of(r: &Region) -> &Name {
    static MAIN_STREAM: std::sync::LazyLock<Name> = std::sync::LazyLock::new(|| MAIN.into());
    r.roles.first().and_then(|role| role.streams.first()).map_or(&MAIN_STREAM, |s| &s.name)
}

/// Puts the matmuls of a schedule with one stream on a stream of their own, [`MATRIX`], if anything
/// can run beside them then. This is how tasks run on a device: a task for matrix cores and one for
/// vector cores wait for each other's data alone.
///
/// # Errors
/// Returns E904 if the schedule has several streams already.
pub(super) fn matmuls_apart(s: &mut Schedule) -> Result<(), Diagnostic> {
    if let Some(r) = s.regions.iter().find(|r| stream_of(r).as_str() != MAIN) {
        let title = "the option `matrix` of the pass `expand` needs a program on one stream";
        return Err(Diagnostic::error("E904", title)
            .primary(r.span, format!("this is on the stream `{}`", stream_of(r)))
            .help("run `overlap{tasks=true}` before it, which gives nothing a stream"));
    }
    let mut apart = s.clone();
    apart.regions.clear();
    for r in std::mem::take(&mut s.regions) {
        if !r.operands.is_empty() || !everyone(&r) || r.roles[0].streams.len() != 1 {
            apart.regions.push(r.clone());
            s.regions.push(r);
            continue;
        }
        for statement in &r.roles[0].streams[0].body {
            let name: Name = if is_matmul(statement) { MATRIX.into() } else { MAIN.into() };
            let last = apart.regions.last_mut().filter(|l| l.operands.is_empty() && everyone(l));
            if let Some(stream) = last.and_then(|l| l.roles[0].streams.last_mut())
                && stream.name == name
            {
                stream.body.push(statement.clone());
                continue;
            }
            let mut region = Region::local(&s.mesh, r.name.clone(), vec![statement.clone()], vec![], r.span);
            region.roles[0].streams[0].name = name;
            apart.regions.push(region);
        }
        s.regions.push(r);
    }
    order(&mut apart);
    if beside(&apart) {
        *s = apart;
    }
    Ok(())
}

fn is_matmul(statement: &SStmt) -> bool {
    matches!(statement, SStmt::Op(SOp::Local(LocalOp::Matmul { .. } | LocalOp::Grouped { .. }), _))
}

/// Checks whether a region of matmuls and another region can run at the same time: whether one of
/// them starts before all work of the other stream that was issued earlier is known to be over.
fn beside(s: &Schedule) -> bool {
    let works = |r: &Region| {
        let event = |s: &SStmt| matches!(s, SStmt::Op(SOp::Await(_) | SOp::Record(_), _));
        r.roles.iter().flat_map(|r| &r.streams).any(|s| !s.body.iter().all(event))
    };
    // For each region, how many regions of both kinds that work are known to be over at its end.
    let mut known: Vec<[usize; 2]> = Vec::with_capacity(s.regions.len());
    let mut issued = [0; 2];
    for r in &s.regions {
        let kind = usize::from(stream_of(r).as_str() == MATRIX);
        let before = r.after.iter().map(|a| known[a.0 as usize]);
        let mut over = before.fold([0; 2], |a, b| [a[0].max(b[0]), a[1].max(b[1])]);
        if works(r) {
            if over[1 - kind] < issued[1 - kind] {
                return true;
            }
            issued[kind] += 1;
            over[kind] = issued[kind];
        }
        known.push(over);
    }
    false
}

/// Returns all work in issue order, between the start and the end of the call.
fn units(s: &mut Schedule, streams: &[Name]) -> Vec<Unit> {
    let mut out: Vec<Unit> = vec![];
    let mut counts = vec![0; streams.len()];
    let mut push = |stream: usize, work: Work| {
        counts[stream] += 1;
        out.push(Unit { stream, at: counts[stream], work, awaits: vec![], recorded: false, knows: vec![] });
    };
    push(0, Work::Edge);
    for mut r in std::mem::take(&mut s.regions) {
        let stream = streams.iter().position(|n| n == stream_of(&r)).unwrap_or(0);
        if !r.operands.is_empty() || r.roles.len() != 1 {
            push(stream, Work::Region(Box::new(r)));
            continue;
        }
        let span = r.span;
        for statement in r.roles.remove(0).streams.into_iter().flat_map(|s| s.body) {
            push(stream, Work::Local(statement, span));
        }
    }
    push(0, Work::Edge);
    out
}

/// Returns the buffers that a unit reads, and those that it writes. The operands of a collective
/// are both.
fn touched(work: &Work) -> (Vec<BufferId>, Vec<BufferId>) {
    fn local(list: &[SStmt], out: &mut (Vec<BufferId>, Vec<BufferId>)) {
        for st in list {
            match st {
                SStmt::For { body, .. } => local(body, out),
                SStmt::If { then, other, .. } => {
                    local(then, out);
                    local(other, out);
                }
                SStmt::Op(SOp::Local(op), _) => {
                    out.0.extend(op.srcs());
                    out.1.push(op.dst());
                }
                SStmt::Op(..) => {}
            }
        }
    }
    let mut out = (vec![], vec![]);
    match work {
        Work::Edge => {}
        Work::Local(statement, _) => local(std::slice::from_ref(statement), &mut out),
        Work::Region(r) => {
            for stream in r.roles.iter().flat_map(|r| &r.streams) {
                local(&stream.body, &mut out);
            }
            let all: Vec<BufferId> = r.operands.iter().map(|o| o.buffer).collect();
            out.0.extend(&all);
            out.1.extend(all);
        }
    }
    out
}

/// Finds the events that each unit has to await.
fn wait(s: &Schedule, units: &mut [Unit], streams: usize) {
    let mut uses = vec![Uses { read: vec![0; streams], written: vec![0; streams] }; s.buffers.len()];
    // The units of each stream, in order, and what is known at the end of the last one.
    let mut places: Vec<Vec<usize>> = vec![vec![]; streams];
    let mut known = vec![vec![0; streams]; streams];
    let last = units.len() - 1;
    for i in 0..units.len() {
        let me = units[i].stream;
        let (reads, writes) = touched(&units[i].work);
        let mut needs = vec![0; streams];
        let mut need = |of: &[usize]| needs.iter_mut().zip(of).for_each(|(n, o)| *n = (*n).max(*o));
        reads.iter().for_each(|b| need(&uses[b.0 as usize].written));
        for b in &writes {
            need(&uses[b.0 as usize].written);
            need(&uses[b.0 as usize].read);
        }
        if units[i].at == 1 {
            needs[0] = needs[0].max(1);
        }
        if i == last {
            needs = places.iter().map(Vec::len).collect();
        }
        // The latest comes first, because it knows most.
        let mut wanted: Vec<(usize, usize)> = (0..streams)
            .filter(|t| *t != me && needs[*t] > 0)
            .map(|t| (places[t][needs[t] - 1], t))
            .collect();
        wanted.sort_unstable_by(|a, b| b.cmp(a));
        let mut knows = known[me].clone();
        for (unit, t) in wanted {
            if knows[t] < needs[t] {
                units[i].awaits.push(unit);
                units[unit].recorded = true;
                knows.iter_mut().zip(&units[unit].knows).for_each(|(k, o)| *k = (*k).max(*o));
            }
        }
        knows[me] = units[i].at;
        places[me].push(i);
        let at = units[i].at;
        reads.iter().for_each(|b| uses[b.0 as usize].read[me] = at);
        writes.iter().for_each(|b| uses[b.0 as usize].written[me] = at);
        known[me].clone_from(&knows);
        units[i].knows = knows;
    }
}

/// A region under construction, and the units whose events it awaits.
struct Growing {
    region: Region,
    stream: usize,
    awaits: Vec<usize>,
    /// The unit whose event it ends with.
    records: Option<usize>,
    local: bool,
}

/// Returns the regions, cut where events are awaited and recorded.
fn regions(s: &Schedule, units: Vec<Unit>, streams: &[Name]) -> Vec<Region> {
    let mut grown: Vec<Growing> = vec![];
    let local = |stream: usize, body: Vec<SStmt>, span: Span| {
        let mut region = Region::local(&s.mesh, "local".into(), body, vec![], span);
        region.roles[0].streams[0].name = streams[stream].clone();
        region
    };
    for (i, unit) in units.into_iter().enumerate() {
        let Unit { stream, work, awaits, recorded, .. } = unit;
        let records = recorded.then_some(i);
        match work {
            Work::Edge if awaits.is_empty() && !recorded => {}
            Work::Edge => {
                let region = local(stream, vec![], Span::NONE);
                grown.push(Growing { region, stream, awaits, records, local: true });
            }
            Work::Local(statement, span) => {
                let open = grown
                    .last_mut()
                    .filter(|g| g.local && g.stream == stream && g.records.is_none() && awaits.is_empty());
                if let Some(g) = open {
                    g.region.span = g.region.span.to(span);
                    g.region.roles[0].streams[0].body.push(statement);
                    g.records = records;
                    continue;
                }
                let region = local(stream, vec![statement], span);
                grown.push(Growing { region, stream, awaits, records, local: true });
            }
            // If not every rank takes part in the region, its events are in regions of their own
            // around it.
            Work::Region(region) if !everyone(&region) => {
                if !awaits.is_empty() {
                    let region = local(stream, vec![], Span::NONE);
                    grown.push(Growing { region, stream, awaits, records: None, local: true });
                }
                grown.push(Growing { region: *region, stream, awaits: vec![], records: None, local: false });
                if recorded {
                    let region = local(stream, vec![], Span::NONE);
                    grown.push(Growing { region, stream, awaits: vec![], records, local: true });
                }
            }
            Work::Region(region) => {
                grown.push(Growing { region: *region, stream, awaits, records, local: false });
            }
        }
    }
    named(grown, streams.len())
}

/// Checks whether every rank has the first stream of the region.
fn everyone(r: &Region) -> bool {
    matches!(&r.roles[..], [role] if role.ranks == RankSet::All)
}

/// Names regions and events, inserts the events, and sets the predecessors of each region.
fn named(grown: Vec<Growing>, streams: usize) -> Vec<Region> {
    let mut out: Vec<Region> = vec![];
    let mut locals = 0;
    let mut latest: Vec<Option<RegionId>> = vec![None; streams];
    // For each recorded unit: the region that ends with it, and the event.
    let mut events: BTreeMap<usize, (RegionId, Name)> = BTreeMap::new();
    for g in grown {
        let mut r = g.region;
        let id = RegionId(out.len() as u32);
        if g.local {
            locals += 1;
            r.name = if locals == 1 { "local".into() } else { format!("local_{locals}").into() };
        }
        let op = |o: SOp| SStmt::Op(o, Span::NONE);
        let body = &mut r.roles[0].streams[0].body;
        let mut after: Vec<RegionId> = latest[g.stream].into_iter().collect();
        let awaited: Vec<&(RegionId, Name)> = g.awaits.iter().filter_map(|u| events.get(u)).collect();
        for (region, _) in &awaited {
            if !after.contains(region) {
                after.push(*region);
            }
        }
        after.sort_unstable();
        body.splice(0..0, awaited.iter().map(|(_, e)| op(SOp::Await(e.clone()))));
        if let Some(unit) = g.records {
            let event: Name = format!("{}_over", r.name).into();
            body.push(op(SOp::Record(event.clone())));
            events.insert(unit, (id, event));
        }
        r.after = after;
        latest[g.stream] = Some(id);
        out.push(r);
    }
    out
}
