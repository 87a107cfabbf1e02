//! Tests that collectives of one axis run beside each other: which get streams of their own, that
//! each event is needed, and that no two of them share a window or a signal.
#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use crate::common;

use kbc_checker::{CheckOptions, check};
use kbc_diag::{Diagnostics, FileId};
use kbc_ir::rewrite::replace_ops;
use kbc_ir::schedule::{MAIN, Region, SOp, SStmt, Schedule, SignalId, WindowId};
use kbc_ir::{Body, Module};
use kbc_machine::topology::Topology;
use kbc_passes::{Findings, PassCx, Pipeline, TimeModel};
use kbc_time::{TimeOptions, simulate};
use std::collections::BTreeSet;
use std::fmt::Write;

const PASSES: &str = "infer,place,select,overlap,expand,allocate,synchronize";

/// The times of the event engine.
struct Engine<'a>(&'a Topology);

impl TimeModel for Engine<'_> {
    fn nanoseconds(&self, module: &Module) -> Result<f64, Diagnostics> {
        Ok(simulate(module.schedule().unwrap(), self.0, &TimeOptions::default())?.ns)
    }
}

/// A time model by which a schedule with more streams is faster.
struct ManyStreams;

impl TimeModel for ManyStreams {
    fn nanoseconds(&self, module: &Module) -> Result<f64, Diagnostics> {
        Ok(1e6 / streams(module).len() as f64)
    }
}

fn run(kir: &str, passes: &str, time: &dyn Fn(&Topology) -> Box<dyn TimeModel + '_>) -> (Module, Findings) {
    let mut module = common::parse(kir);
    let topology = Topology::parse(module.machine.as_ref().unwrap(), FileId(1)).unwrap();
    let time = time(&topology);
    let cx = PassCx::new(common::library(), Some(&topology)).with_time(&*time);
    let pipeline = Pipeline::parse(passes, FileId(2)).unwrap();
    pipeline.run(&mut module, &cx, &mut []).unwrap_or_else(|d| panic!("{}\n{kir}", common::words(&d, kir)));
    let findings = cx.findings.borrow().clone();
    (module, findings)
}

fn timed(kir: &str) -> (Module, Findings) {
    run(kir, PASSES, &|topology| Box::new(Engine(topology)))
}

fn widened(kir: &str) -> Module {
    run(kir, PASSES, &|_| Box::new(ManyStreams)).0
}

/// Returns all streams other than `main`.
fn streams(m: &Module) -> BTreeSet<String> {
    let all = m.schedule().unwrap().regions.iter().flat_map(|r| &r.roles).flat_map(|r| &r.streams);
    all.map(|s| s.name.to_string()).filter(|name| name != MAIN).collect()
}

fn sound(m: &Module) -> bool {
    check(m.schedule().unwrap(), &CheckOptions::default()).ok()
}

fn text(m: &Module) -> String {
    kbc_ir::text::print(m, &kbc_ir::text::PrintOptions::default())
}

/// Returns a program with one sum for each size, all over the same axis.
fn sums(machine: &str, ranks: u64, sizes: &[u64], using: &str) -> String {
    let mut kir = format!("kir 1\nmodule @t\nmachine \"{machine}\"\nmesh tp {ranks}\n\ngraph @t\n");
    for (i, n) in sizes.iter().enumerate() {
        writeln!(kir, "input @x{i} : f32[{n}] partial(sum@tp)").unwrap();
    }
    sizes.iter().for_each(|n| writeln!(kir, "result : f32[{n}]").unwrap());
    kir.push('\n');
    (0..sizes.len()).for_each(|i| writeln!(kir, "%x{i} = input @x{i}").unwrap());
    (0..sizes.len()).for_each(|i| writeln!(kir, "%y{i} = all_reduce sum %x{i} over tp{using}").unwrap());
    (0..sizes.len()).for_each(|i| writeln!(kir, "%out{i} = output {i} %y{i}").unwrap());
    kir
}

const RING: &str = "ring(4) { link: 50 GB/s, 500 ns }";

#[test]
fn small_collectives_take_about_the_time_of_one() {
    let time = |kir: &str| {
        let (m, found) = timed(kir);
        assert!(sound(&m), "{kir}");
        (found.overlap.simulated, streams(&m))
    };
    let (times, names) = time(&sums(RING, 4, &[64, 64], " using ring"));
    assert_eq!(names, ["comm_tp", "comm_tp_2"].map(String::from).into());
    let (serial, beside) = times.unwrap();
    assert!(beside < 0.52 * serial, "{beside} of {serial}");
    let (times, names) = time(&sums(RING, 4, &[64; 8], " using ring"));
    let (serial, beside) = times.unwrap();
    assert!(beside < 0.15 * serial && names.len() == 8, "{beside} of {serial}: {names:?}");
}

#[test]
fn idle_links_are_used_and_full_ones_change_nothing() {
    // A ring in one direction leaves half of the links of a ring idle; two of them fill the same
    // half. Opposite ones fill both.
    let same = sums(RING, 4, &[1 << 22, 1 << 22], " using ring");
    let (m, found) = timed(&same);
    let (serial, beside) = found.overlap.simulated.unwrap();
    assert!(streams(&m).is_empty() && beside >= 0.99 * serial, "{beside} of {serial}");
    assert_eq!(text(&m), text(&common::run(&same, &PASSES.replace("overlap,", "")).unwrap().0));
    let opposite = same.replace("%x1 over tp using ring", "%x1 over tp using ring(d: -1)");
    let (m, found) = timed(&opposite);
    let (serial, beside) = found.overlap.simulated.unwrap();
    assert!(sound(&m) && streams(&m).len() == 2 && beside < 0.51 * serial, "{beside} of {serial}");
}

#[test]
fn what_depends_or_may_not_change_stays_on_one_stream() {
    let kir = sums(RING, 4, &[64, 64], " using ring");
    // Without a measurement, nothing says that links are idle.
    let (m, _) = common::run(&kir, PASSES).unwrap();
    assert!(streams(&m).is_empty());
    let one = PASSES.replace("overlap", "overlap{streams=1}");
    let (m, found) = run(&kir, &one, &|topology| Box::new(Engine(topology)));
    assert!(streams(&m).is_empty() && found.overlap.tried.is_empty());
    let tasks = PASSES.replace("overlap", "overlap{tasks=true}");
    assert!(streams(&run(&kir, &tasks, &|topology| Box::new(Engine(topology))).0).is_empty());
    // A stream is a core there, and nobody says how many cores there are.
    let cores =
        sums("ring(4) { link: 50 GB/s, 500 ns; core_put: 4 KiB, 730 ns }", 4, &[64, 64], " using ring");
    assert!(streams(&timed(&cores).0).is_empty());
    // The second sum needs the first one.
    let chain = "kir 1\nmodule @t\nmachine \"ring(4) { link: 50 GB/s, 500 ns }\"\nmesh tp 4\n\n\
         graph @t\ninput @x : f32[8, 8] partial(sum@tp)\ninput @w : f32[8, 8@tp]\ninput @v : f32[8@tp, 8]\nresult : f32[8, 8]\n\n\
         %x = input @x\n%w = input @w\n%v = input @v\n%a = all_reduce sum %x over tp using ring\n%m = matmul %a, %w\n\
         %n = matmul %m, %v\n%b = all_reduce sum %n over tp using ring\n%out = output 0 %b\n";
    assert!(streams(&widened(chain)).is_empty());
}

/// A program that fits into memory with the windows of one collective keeps one stream where those
/// of two do not fit.
#[test]
fn what_does_not_fit_is_not_taken() {
    let fits = |size: &str| {
        let machine = format!("ring(4) {{ link: 50 GB/s, 500 ns; hbm_size: {size} }}");
        let (m, found) = timed(&sums(&machine, 4, &[64, 64], " using ring"));
        (streams(&m).len(), found.overlap.tried)
    };
    assert_eq!(fits("1 MB").0, 2);
    let (names, tried) = fits("2 KB");
    assert_eq!((names, tried[0].simulated), (0, None));
}

/// Two groups whose names could be taken for numbered streams of each other keep their own.
#[test]
fn names_of_streams_are_unique() {
    let kir = "kir 1\nmodule @t\nmachine \"torus(2, 2) { link: 50 GB/s, 500 ns }\"\nmesh tp 2, tp_2 2\n\n\
         graph @t\ninput @x : f32[8] partial(sum@tp)\ninput @y : f32[8] partial(sum@tp)\ninput @z : f32[8] partial(sum@tp_2)\n\
         result : f32[8]\nresult : f32[8]\nresult : f32[8]\n\n%x = input @x\n%y = input @y\n%z = input @z\n\
         %a = all_reduce sum %x over tp using ring\n%b = all_reduce sum %y over tp using ring\n\
         %c = all_reduce sum %z over tp_2 using ring\n%p = output 0 %a\n%q = output 1 %b\n%r = output 2 %c\n";
    let m = widened(kir);
    assert_eq!(streams(&m), ["comm_tp", "comm_tp_2", "comm_tp_2_"].map(String::from).into());
    assert!(sound(&m));
}

/// Returns the regions of collectives.
fn collectives(s: &Schedule) -> Vec<usize> {
    (0..s.regions.len()).filter(|i| !s.regions[*i].over.is_empty()).collect()
}

fn windows(r: &Region) -> Vec<WindowId> {
    let mut out = vec![];
    each(r, &mut |op| {
        op.windows().into_iter().for_each(|w| {
            if !out.contains(&w) {
                out.push(w)
            }
        })
    });
    out
}

fn signals(r: &Region) -> Vec<SignalId> {
    let mut out = vec![];
    each(r, &mut |op| {
        if let SOp::Notify { counter, .. } | SOp::Wait { counter, .. } = op
            && !out.contains(&counter.signal)
        {
            out.push(counter.signal);
        }
    });
    out
}

fn each(r: &Region, f: &mut dyn FnMut(&SOp)) {
    for stream in r.roles.iter().flat_map(|r| &r.streams) {
        kbc_ir::schedule::each_op(&stream.body, &mut |op, _| f(op));
    }
}

fn rewritten(m: &Module, region: usize, f: &dyn Fn(SOp) -> SOp) -> Module {
    let mut m = m.clone();
    let Body::Schedule(s) = &mut m.body else { unreachable!() };
    for stream in s.regions[region].roles.iter_mut().flat_map(|r| &mut r.streams) {
        replace_ops(&mut stream.body, &mut |op, out| out.push(f(op)));
    }
    m
}

/// Regions that run beside each other have windows and signals of their own. With a window or a
/// signal of the other one, the checker refuses the schedule.
#[test]
fn a_shared_window_or_signal_is_refused() {
    for alg in ["ring", "one_phase", "two_phase", "up_down", "ring with (slots: 2)"] {
        for p in [3, 4] {
            let kir = sums(&RING.replace("(4)", &format!("({p})")), p, &[24, 24], &format!(" using {alg}"));
            let m = widened(&kir);
            assert!(sound(&m), "{kir}");
            let s = m.schedule().unwrap();
            let [a, b] = collectives(s)[..] else { panic!("two regions\n{kir}") };
            let (mine, other) = (windows(&s.regions[a]), windows(&s.regions[b]));
            assert!(!mine.is_empty() && mine.iter().all(|w| !other.contains(w)), "{kir}");
            for (from, to) in other.iter().zip(&mine) {
                let shared = rewritten(&m, b, &|op| op.map_windows(&|w| if w == *from { *to } else { w }));
                assert!(!sound(&shared), "{alg} on {p}: {from:?} as {to:?}");
            }
            let (mine, other) = (signals(&s.regions[a]), signals(&s.regions[b]));
            assert!(!mine.is_empty() && mine.iter().all(|w| !other.contains(w)), "{kir}");
            for (from, to) in other.iter().zip(&mine) {
                let shared = rewritten(&m, b, &|mut op| {
                    if let SOp::Notify { counter, .. } | SOp::Wait { counter, .. } = &mut op
                        && counter.signal == *from
                    {
                        counter.signal = *to;
                    }
                    op
                });
                assert!(!sound(&shared), "{alg} on {p}: {from:?} as {to:?}");
            }
        }
    }
}

/// Without any one event, the checker finds a race, a deadlock, or an event that is never recorded.
#[test]
fn every_event_is_needed() {
    let m = widened(&sums(RING, 4, &[24, 5, 24], " using ring"));
    assert!(sound(&m) && streams(&m).len() == 3);
    let event = |s: &SStmt| matches!(s, SStmt::Op(SOp::Record(_) | SOp::Await(_), _));
    let mut events = 0;
    for (r, region) in m.schedule().unwrap().regions.iter().enumerate() {
        for (i, _) in region.roles[0].streams[0].body.iter().enumerate().filter(|(_, s)| event(s)) {
            let mut changed = m.clone();
            let Body::Schedule(s) = &mut changed.body else { unreachable!() };
            s.regions[r].roles[0].streams[0].body.remove(i);
            assert!(!sound(&changed), "without event {i} of region {r}");
            events += 1;
        }
    }
    assert!(events >= 8, "{events}");
}

/// Random collectives of random sizes, some of which use the results of others, are proven on up to
/// eight streams.
#[test]
fn random_programs_are_proven() {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = |n: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % n
    };
    let mut most = 0;
    for _ in 0..40 {
        let (p, k) = (2 + random(3), 2 + random(6));
        let machine = RING.replace("(4)", &format!("({p})"));
        let mut kir = format!("kir 1\nmodule @t\nmachine \"{machine}\"\nmesh tp {p}\n\ngraph @t\n");
        let (mut results, mut ops) = (String::new(), String::new());
        for i in 0..k {
            let n = p * random(4) + random(3);
            let (whole, part) = (format!("f32[{n}]"), format!("f32[{n}@tp]"));
            let both = ["ring", "direct"][random(2) as usize];
            let (operand, result, steps) = match random(4) {
                0 => (
                    format!("{whole} partial(sum@tp)"),
                    whole,
                    format!("all_reduce sum %x{i} over tp using one_phase"),
                ),
                1 => (
                    format!("{whole} partial(sum@tp)"),
                    part,
                    format!("reduce_scatter sum %x{i} over tp dim 0 using {both}"),
                ),
                2 => (part, whole, format!("all_gather %x{i} over tp dim 0 using {both}")),
                _ => {
                    let scattered = format!("reduce_scatter sum %x{i} over tp dim 0 using {both}");
                    let gathered = format!("all_gather %z{i} over tp dim 0 using {both}");
                    (format!("{whole} partial(sum@tp)"), whole, format!("{scattered}\n%y{i} = {gathered}"))
                }
            };
            writeln!(kir, "input @x{i} : {operand}").unwrap();
            writeln!(results, "result : {result}").unwrap();
            let first = if steps.contains('\n') { "z" } else { "y" };
            writeln!(ops, "%x{i} = input @x{i}\n%{first}{i} = {steps}\n%out{i} = output {i} %y{i}").unwrap();
        }
        let m = widened(&format!("{kir}{results}\n{ops}"));
        assert!(sound(&m), "{kir}{results}\n{ops}");
        most = most.max(streams(&m).len());
    }
    assert!(most >= 7, "{most}");
}
