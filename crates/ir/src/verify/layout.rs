//! Rule V9 for the addresses of windows and counters, and V8 for the claim `allocated`.

use super::{Report, V8, V9, product};
use crate::module::Props;
use crate::schedule::Schedule;
use kbc_diag::{Diagnostic, Span};

/// Alignment of windows, and size of each counter, in bytes: a cache line.
pub const LINE_BYTES: u64 = 64;

struct WindowRange {
    what: String,
    start: u64,
    end: u64,
    span: Span,
}

pub(super) fn layout(s: &Schedule, props: Props, out: &mut Report) {
    let allocated = props.contains(Props::ALLOCATED);
    let mut windows = vec![];
    for w in &s.windows {
        let what = format!("window {}", w.name);
        let bytes = product([w.slots, w.capacity, w.dtype.bytes()]);
        if w.slots == 0 {
            out.fail(V9, format!("{what} has no slot"), w.span, "here");
        }
        place(what, bytes, w.offset, w.span, allocated, &mut windows, out);
    }
    let mut signals = vec![];
    let mut counters = Some(0u64);
    for g in &s.signals {
        let what = format!("signal {}", g.name);
        counters = counters.and_then(|n| n.checked_add(g.count));
        if g.count == 0 {
            out.fail(V9, format!("{what} has no counter"), g.span, "here");
        }
        place(what, product([g.count, LINE_BYTES]), g.offset, g.span, allocated, &mut signals, out);
    }
    if counters.is_none_or(|n| n > u64::from(u32::MAX)) {
        let span = s.signals.last().map_or(Span::NONE, |g| g.span);
        out.fail(V9, "there are 2^32 counters or more", span, "with this one");
    }
    let mut queues = Some(0u64);
    for q in &s.queues {
        queues = queues.and_then(|n| n.checked_add(q.count));
        if q.count == 0 || q.depth == 0 {
            let what = if q.count == 0 { "queue" } else { "slot" };
            out.fail(V9, format!("queue {} has no {what}", q.name), q.span, "here");
        }
    }
    if queues.is_none_or(|n| n > u64::from(u32::MAX)) {
        let span = s.queues.last().map_or(Span::NONE, |q| q.span);
        out.fail(V9, "there are 2^32 queues or more", span, "with this one");
    }
    overlaps(windows, out);
    overlaps(signals, out);
}

fn place(
    what: String,
    bytes: Option<u64>,
    offset: Option<u64>,
    span: Span,
    allocated: bool,
    list: &mut Vec<WindowRange>,
    out: &mut Report,
) {
    let Some(start) = offset else {
        if allocated {
            out.fail(
                V8,
                format!("the module is allocated, but {what} has no offset"),
                span,
                "`at` is missing",
            );
        }
        if bytes.is_none_or(|n| n > i64::MAX as u64) {
            out.fail(V9, format!("the size of {what} exceeds 64 bits"), span, "here");
        }
        return;
    };
    if start % LINE_BYTES != 0 {
        out.push(
            V9,
            Diagnostic::error(V9.1, format!("{what} starts at byte {start}"))
                .primary(span, "here")
                .help(format!("offsets must be multiples of {LINE_BYTES}")),
        );
    }
    match bytes.and_then(|n| start.checked_add(n)).filter(|end| *end <= i64::MAX as u64) {
        Some(end) => list.push(WindowRange { what, start, end, span }),
        None => out.fail(V9, format!("{what} ends beyond 64-bit addresses"), span, "here"),
    }
}

fn overlaps(mut list: Vec<WindowRange>, out: &mut Report) {
    list.retain(|p| p.start < p.end);
    list.sort_by_key(|p| (p.start, p.end));
    // Entry with the largest end so far.
    let mut furthest: Option<&WindowRange> = None;
    for p in &list {
        if let Some(f) = furthest
            && p.start < f.end
        {
            out.push(
                V9,
                Diagnostic::error(V9.1, format!("{} overlaps {}", p.what, f.what))
                    .primary(p.span, format!("bytes {}..{}", p.start, p.end))
                    .secondary(f.span, format!("bytes {}..{}", f.start, f.end)),
            );
        }
        if furthest.is_none_or(|f| p.end > f.end) {
            furthest = Some(p);
        }
    }
}
