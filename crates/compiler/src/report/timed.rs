//! The parts of a report that come from a timed run: critical path, totals, links.

use super::{LinkReport, MemoryReport, Report, StepReport, TotalReport};
use crate::timeline::path::{After, parts, totals};
use crate::timeline::scene::Scene;
use crate::timeline::waits::Reason;
use crate::timeline::words;
use kbc_ir::schedule::{MAIN, Region};
use kbc_time::{Cause, LinkUse, MemoryUse, Slot, Timing};

/// Fills these parts in. `holders` gives, for each step, what held the resource that it waits for;
/// it is empty if that was not determined. At most `most` links are listed.
pub fn fill(
    report: &mut Report,
    scene: &Scene<'_>,
    timing: &Timing,
    holders: &[Option<Reason>],
    most: Option<usize>,
) {
    report.messages = Some(timing.messages);
    report.unlimited = timing.unlimited.iter().map(|s| (*s).to_owned()).collect();
    report.totals = totals(timing)
        .into_iter()
        .map(|(cause, ns)| TotalReport {
            cause: cause.into(),
            ns,
            percent: if timing.ns > 0.0 { 100.0 * ns / timing.ns } else { 0.0 },
        })
        .collect();
    fill_overlap(report, scene, timing);
    report.slot_accesses = Some(timing.slot_accesses()).filter(|n| *n > 0);
    report.critical_path = steps(scene, timing, holders);
    report.links_total = Some(scene.topology.link_count());
    report.links_used = Some(timing.links.len() as u64);
    report.queue_ns = Some(timing.links.iter().map(|l| l.queue_ns).sum());
    report.links = links(scene, timing, most);
    report.memories = memories(scene, timing);
}

/// Fills in how much of the communication is hidden behind local work, if collectives have streams
/// of their own.
fn fill_overlap(report: &mut Report, scene: &Scene<'_>, timing: &Timing) {
    let regions = &scene.schedule.regions;
    let apart = |r: &Region| {
        !r.over.is_empty() && r.roles.iter().flat_map(|r| r.streams.first()).any(|s| s.name.as_str() != MAIN)
    };
    if !regions.iter().any(apart) {
        return;
    }
    let mut spans: Vec<(f64, f64)> = timing
        .regions
        .iter()
        .filter(|s| s.call == 0 && !regions[s.region.0 as usize].over.is_empty())
        .map(|s| (s.start_ns, s.end_ns))
        .collect();
    spans.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (mut sum, mut until) = (0.0, 0.0f64);
    for (start, end) in spans {
        sum += (end - start.max(until)).max(0.0);
        until = until.max(end);
    }
    let b = timing.breakdown();
    report.communication_ns = Some(sum);
    report.exposed_ns =
        Some(timing.ns - b.work_ns - b.preload_ns - b.fetch_ns - b.unit_queue_ns - b.late_ns - b.launch_ns);
}

/// Returns the links, busiest first.
fn links(scene: &Scene<'_>, timing: &Timing, most: Option<usize>) -> Vec<LinkReport> {
    let mut all: Vec<&LinkUse> = timing.links.iter().collect();
    all.sort_by(|a, b| b.busy_ns.total_cmp(&a.busy_ns).then(a.link.cmp(&b.link)));
    all.iter()
        .take(most.unwrap_or(usize::MAX))
        .map(|l| LinkReport {
            link: scene.link(l.link),
            messages: l.messages,
            bytes: l.bytes,
            busy_ns: l.busy_ns,
            queue_ns: l.queue_ns,
            use_percent: 100.0 * timing.utilisation(l),
        })
        .collect()
}

/// Returns the memories with a controller, busiest first.
fn memories(scene: &Scene<'_>, timing: &Timing) -> Vec<MemoryReport> {
    let mut all: Vec<&MemoryUse> = timing.memories.iter().collect();
    all.sort_by(|a, b| b.busy_ns.total_cmp(&a.busy_ns).then(a.node.cmp(&b.node)));
    let each = all.iter().map(|m| MemoryReport {
        memory: scene.topology.name(m.node),
        reads: m.reads,
        writes: m.writes,
        bytes: m.bytes,
        busy_ns: m.busy_ns,
        queue_ns: m.queue_ns,
    });
    each.collect()
}

/// Returns the steps of the critical path with descriptions.
fn steps(scene: &Scene<'_>, timing: &Timing, holders: &[Option<Reason>]) -> Vec<StepReport> {
    let path = &timing.path;
    let mut out = Vec::with_capacity(path.len());
    let mut before: Option<&str> = None;
    for (number, part) in parts(path, scene.topology).iter().enumerate() {
        let first = &path[part.steps.start];
        let what = before.unwrap_or("");
        let after = match part.after {
            After::Start => "the start".to_owned(),
            After::Stream => format!("{what} on its stream"),
            After::OtherStream(s) => format!("{what} on stream {}", scene.stream(s)),
            After::Message(rank) => format!("the {what} of {} has arrived", scene.rank(rank)),
        };
        before = Some(first.name);
        for i in part.steps.clone() {
            let s = &path[i];
            let (kind, cause) = match s.cause {
                Cause::Late => ("late", "starts late".into()),
                Cause::Launch => ("launch", "launch".into()),
                Cause::Endpoint => ("endpoint", "endpoint of a message".into()),
                Cause::Queue(l) => ("queue", format!("waits for link {}", scene.link(l))),
                Cause::Latency(l) => ("latency", format!("latency of link {}", scene.link(l))),
                Cause::Service(l) => ("bytes", format!("bytes over link {}", scene.link(l))),
                Cause::MemoryQueue(n) => {
                    ("memory_queue", format!("waits for memory {}", scene.topology.name(n)))
                }
                Cause::Memory(n) => ("memory", format!("bytes of memory {}", scene.topology.name(n))),
                Cause::UnitQueue(u) => ("unit_queue", format!("waits for {}", u.name())),
                Cause::Work(u) => ("work", u.name().into()),
                Cause::Preload => ("preload", "operands are loaded".into()),
                Cause::Fetch => ("fetch", "elements from other PEs of the device".into()),
                Cause::Fence => ("fence", "fence".into()),
                Cause::Inlet => ("inlet", "waits until its receiver has received other messages".into()),
                Cause::Drain => ("drain", "bytes drain into the receiver".into()),
                Cause::Slot(Slot::Write) => ("slot_write", "write to a slot".into()),
                Cause::Slot(Slot::Read) => ("slot_read", "read of a slot".into()),
                Cause::Credit => ("credit", "credit for a full queue".into()),
                Cause::Poll => ("poll", "has not polled the credit yet".into()),
                Cause::CoreQueue => ("core_queue", "waits for its queue".into()),
                Cause::Core => ("core", "the core moves the bytes".into()),
                Cause::Notify => ("notify", "notify through memory".into()),
                Cause::Acknowledged => ("acknowledged", "acknowledgement of a transfer".into()),
            };
            let place = scene.ops.get(s.op as usize);
            out.push(StepReport {
                part: number as u64,
                op: s.op,
                what: s.name.into(),
                place: scene.rank(s.rank),
                stream: scene.stream(s.stream).to_owned(),
                to: part.to.map(|r| scene.rank(r)),
                region: scene.region(s.region).to_owned(),
                source: place.map(|p| p.source.to_string()).filter(|s| !s.is_empty()),
                start_ns: s.start_ns,
                end_ns: s.end_ns,
                kind,
                cause,
                after: after.clone(),
                behind: holders.get(i).copied().flatten().map(|r| words(scene, &r)),
            });
        }
    }
    out
}
