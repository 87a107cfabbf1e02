//! One stream: the text of a schedule whose matmuls have a stream of their own, as one stream.
//!
//! The order of regions is the order in which work is issued, so it is an order of one stream that
//! keeps every event. A program of tasks needs no events: its tasks wait for each other's data.
//!
//! The module also decides where tasks end although the next work is for cores of the same kind, so
//! that a collective does not wait for a matmul whose result only a later collective needs. A task
//! of vector cores that communicates ends before work that waits for a matmul. A task of matmuls
//! ends after a matmul for which a collective waits.
//!
//! The result has the regions of the schedule at their places. What a local region does may stand
//! in the region before it.

use super::lanes;
use kbc_ir::Name;
use kbc_ir::schedule::{MAIN, MATRIX, RankSet, Region, RegionId, SOp, SStmt, Schedule};
use std::collections::BTreeSet;

/// A schedule with one stream, and the regions that begin a task.
pub(super) struct OneStream {
    pub(super) schedule: Schedule,
    pub(super) begin_tasks: BTreeSet<usize>,
}

/// Returns a schedule as one stream, if its matmuls have a stream of their own.
pub(super) fn one_stream(schedule: &Schedule) -> Option<OneStream> {
    let matrix = |r: &Region| first_stream(r) == Some(MATRIX);
    if !schedule.regions.iter().any(matrix) {
        return None;
    }
    let between = events_between_regions(schedule);
    let mut out = OneStream { schedule: schedule.clone(), begin_tasks: tasks(schedule, &between) };
    let regions = std::mem::take(&mut out.schedule.regions);
    // The local region in which the next local work can stand.
    let mut open = None;
    for (i, mut region) in regions.into_iter().enumerate() {
        for stream in region.roles.iter_mut().flat_map(|r| &mut r.streams) {
            stream.body.retain(|s| event(s).is_none_or(|e| !between.contains(e)));
            if stream.name.as_str() == MATRIX {
                stream.name = MAIN.into();
            }
        }
        region.after = i.checked_sub(1).map(|before| RegionId(before as u32)).into_iter().collect();
        if out.begin_tasks.contains(&i) {
            open = None;
        }
        if !lanes::local(&region) {
            open = None;
        } else if let Some(before) = open {
            let body = std::mem::take(&mut region.roles[0].streams[0].body);
            let into: &mut Region = &mut out.schedule.regions[before];
            into.span = into.span.to(region.span);
            into.roles[0].streams[0].body.extend(body);
        } else {
            open = Some(i);
        }
        out.schedule.regions.push(region);
    }
    Some(out)
}

/// Returns the regions that begin a task although the work before them is for cores of the same
/// kind. `between`: the events between regions.
fn tasks(schedule: &Schedule, between: &BTreeSet<Name>) -> BTreeSet<usize> {
    let mut out = BTreeSet::new();
    // Whether the current task of vector cores communicates; the events that its last wait for
    // matmuls names; and the events for which collectives wait.
    let (mut communicates, mut waited) = (false, BTreeSet::new());
    let mut needed: BTreeSet<&Name> = BTreeSet::new();
    for (i, region) in schedule.regions.iter().enumerate() {
        if first_stream(region) == Some(MATRIX) {
            communicates = false;
            continue;
        }
        let awaited = events(region, between, |op| matches!(op, SOp::Await(_)));
        if !awaited.is_empty() {
            if communicates {
                out.insert(i);
                communicates = false;
            }
            waited = awaited;
        }
        if !region.over.is_empty() {
            communicates = true;
            needed.append(&mut waited);
        }
    }
    let mut ended = false;
    for (i, region) in schedule.regions.iter().enumerate() {
        if first_stream(region) == Some(MATRIX) {
            if ended {
                out.insert(i);
            }
            let recorded = events(region, between, |op| matches!(op, SOp::Record(_)));
            ended = recorded.iter().any(|e| needed.contains(e));
        } else {
            // The next matmul begins a task anyway, unless nothing comes between.
            ended &= !works(region, between);
        }
    }
    out
}

/// Checks whether a region does anything but record and await events between regions.
fn works(region: &Region, between: &BTreeSet<Name>) -> bool {
    let mut all = region.roles.iter().flat_map(|r| &r.streams).flat_map(|s| &s.body);
    !all.all(|s| event(s).is_some_and(|e| between.contains(e)))
}

fn first_stream(r: &Region) -> Option<&str> {
    match r.roles.as_slice() {
        [role] if matches!(role.ranks, RankSet::All) => role.streams.first().map(|s| s.name.as_str()),
        _ => None,
    }
}

/// Returns the event of a statement.
fn event(statement: &SStmt) -> Option<&Name> {
    match statement {
        SStmt::Op(SOp::Record(e) | SOp::Await(e), _) => Some(e),
        _ => None,
    }
}

/// Returns the events between regions that operations of one kind name in a region.
fn events<'r>(region: &'r Region, between: &BTreeSet<Name>, kind: fn(&SOp) -> bool) -> BTreeSet<&'r Name> {
    let all = region.roles.iter().flat_map(|r| &r.streams).flat_map(|s| &s.body);
    let of_kind = all.filter(|s| matches!(s, SStmt::Op(op, _) if kind(op)));
    of_kind.filter_map(event).filter(|e| between.contains(*e)).collect()
}

/// Returns the events that one region records and another one awaits.
fn events_between_regions(schedule: &Schedule) -> BTreeSet<Name> {
    let mut out = BTreeSet::new();
    for region in &schedule.regions {
        let all = || region.roles.iter().flat_map(|r| &r.streams).flat_map(|s| &s.body);
        let of = |kind: fn(&SOp) -> bool| -> BTreeSet<&Name> {
            all().filter(|s| matches!(s, SStmt::Op(op, _) if kind(op))).filter_map(event).collect()
        };
        let recorded = of(|op| matches!(op, SOp::Record(_)));
        let awaited = of(|op| matches!(op, SOp::Await(_)));
        out.extend(recorded.symmetric_difference(&awaited).map(|e| (*e).clone()));
    }
    out
}
