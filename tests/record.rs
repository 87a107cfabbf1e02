//! Tests of records of a timed run: the trace follows the format's rules; trace, log and report
//! agree; docs/reference/oplog.md and logs have the same fields; limits are enforced.

use crate::common;
use crate::fields;
use crate::perfetto;

use common::{Scratch, root};
use fields::{documented, fields};
use kbc_ir::schedule::Schedule;
use kbc_machine::topology::Topology;
use kbc_time::{Observer, TimeOptions, Timing, simulate_observed};
use perfetto::{Arg, Slice};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Two streams that share units, an event, gets, and a put with and without its notify, on links
/// with contention.
const MIXED: &str = "kir 1
module @m
machine \"ring(3) { link: 3 GB/s, 70.5 ns; device: 1 TFLOP/s, 2 GB/s; fence: 11 ns; vector: 7 GB/s }\"
mesh tp 3
props expanded allocated synchronized

schedule calls first
buffer %x : f32[600] hbm input 0 : f32[600]
buffer %v : f32[600] hbm temp
buffer %u : f32[600] hbm temp
buffer %t : f32[600] hbm temp
window @w : f32[4 x 600] hbm at 0
signal @s[4] arrival at 0

region @load local
  role all
    stream main
      copy %v = %x
      copy %u = %x

region @c over tp as (r of 3) after @load
  on v = %v line 600
  on u = %u line 600
  on t = %t line 600
  role all
    stream main
      copy v[0 of 4] = u[1 of 4]
      record begun
      for k in 1..3
        put v -> ((r + k) % 3) : @w[k]
        fence.release
        notify ((r + k) % 3) : @s[k]
      copy v[0 of 2] = u[1 of 2]
      for k in 1..3
        wait @s[k] >= call + 1
        fence.acquire
        combine sum v, @w[k]
      get t <- ((r + 1) % 3) : @w[1]
      fence.complete
      get t <- ((r + 2) % 3) : @w[2]
      fence.complete
    stream other
      await begun
      copy u[0 of 2] = u[1 of 2]
      notify ((r + 1) % 3) : @s[3]
      wait @s[3] >= call + 1
      combine sum u[0 of 2], u[1 of 2]
";

/// Programs that cover everything.
const RUNS: [&str; 6] = [
    "mixed.kir",
    "specs/ffn_tp.kb",
    "specs/dp_tp.kb",
    "specs/all_reduce.kb --topology torus(2,3)",
    "specs/all_to_all.kb",
    "specs/broadcast.kb",
];

struct Run {
    report: Value,
    log: Vec<Value>,
    trace: perfetto::Trace,
}

fn run(scratch: &Scratch, what: &str, more: &str) -> Run {
    scratch.write("mixed.kir", MIXED.as_bytes());
    let ran = scratch.line(&format!(
        "kbc run {what} --no-data --format json --emit trace=t.pftrace --emit log=l.jsonl {more}"
    ));
    assert_eq!(ran.code, 0, "{what}\n{}", ran.stderr);
    let files = scratch.files();
    let log = std::str::from_utf8(&files["l.jsonl"]).expect("text");
    Run {
        report: serde_json::from_str(&ran.stdout).expect("a report"),
        log: log.lines().map(|l| serde_json::from_str(l).expect("one object a line")).collect(),
        trace: perfetto::read(&files["t.pftrace"]),
    }
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * a.abs().max(b.abs()).max(1.0)
}

fn number(v: &Value) -> f64 {
    v.as_f64().unwrap_or_else(|| panic!("{v} is no number"))
}

fn list(v: &Value) -> &Vec<Value> {
    v.as_array().unwrap_or_else(|| panic!("{v} is no list"))
}

#[test]
fn the_log_is_a_run_of_every_stream_without_gaps() {
    let scratch = Scratch::new();
    let mut reasons = BTreeSet::new();
    for what in RUNS {
        let run = run(&scratch, what, "");
        let (header, lines) = run.log.split_first().expect("a header");
        assert_eq!((header["schema"].as_str(), header["version"].as_u64()), (Some("kbc-oplog"), Some(1)));
        let end = number(&run.report["time_ns"]);
        let mut streams: BTreeMap<(&str, &str), Vec<&Value>> = BTreeMap::new();
        for l in lines {
            let name = |n: &str| l[n].as_str().expect("a name");
            streams.entry((name("rank"), name("stream"))).or_default().push(l);
        }
        assert_eq!(
            streams.keys().map(|k| k.0).collect::<BTreeSet<_>>().len() as f64,
            number(&header["ranks"])
        );
        for (name, mut ops) in streams {
            // A put is logged when it has arrived: the order of a stream is that of its times.
            ops.sort_by(|a, b| {
                let key = |l: &Value| (number(&l["start_ns"]), number(&l["end_ns"]));
                key(a).partial_cmp(&key(b)).expect("times are numbers")
            });
            let mut at = 0.0;
            for l in &ops {
                assert_eq!(number(&l["start_ns"]), at, "{what} {name:?}: {l}");
                at = number(&l["end_ns"]);
                assert!(number(&l["start_ns"]) <= at && at <= end);
                let over = l["arrived_ns"].as_f64().unwrap_or(at).max(at);
                // A notify that no rank waits for may still be in flight when the run is over.
                assert!(over <= end || l["name"] == "notify", "{l}");
                for w in list(&l["waits"]) {
                    let (from, to) = (number(&w["start_ns"]), number(&w["end_ns"]));
                    assert!(number(&l["start_ns"]) <= from && from < to && to <= over, "{l}");
                    reasons.insert(w["for"].as_str().expect("a word").to_owned());
                }
                // Every wait has a reason.
                if matches!(l["name"].as_str(), Some("wait" | "await")) && number(&l["start_ns"]) < at {
                    assert_eq!(list(&l["waits"]).len(), 1, "{l}");
                    assert_eq!(number(&l["waits"][0]["end_ns"]), at, "{l}");
                }
            }
        }
        // A message has a line, unless it is a notify that travels with a put; a get has two
        // messages.
        let messages: u64 = lines
            .iter()
            .filter(|l| !l["arrived_ns"].is_null())
            .map(|l| if l["name"] == "get" { 2 } else { 1 })
            .sum();
        assert_eq!(Some(messages), run.report["messages"].as_u64(), "{what}");
    }
    let all = ["event", "get", "link", "notify", "put", "unit"];
    assert_eq!(reasons.iter().map(String::as_str).collect::<Vec<_>>(), all, "every reason occurs");
}

/// Returns exact start and end of a slice.
fn exact(s: &Slice) -> (f64, f64) {
    (s.float("start_ns").expect("a begin"), s.float("end_ns").expect("an end"))
}

#[test]
fn the_trace_says_what_log_and_report_say() {
    let scratch = Scratch::new();
    for what in RUNS {
        let Run { report, log, trace } = run(&scratch, what, "");
        let end = number(&report["time_ns"]).round() as u64;
        let notify = |s: &Slice| s.name.starts_with("notify");
        assert_eq!(trace.slices.iter().filter(|s| !notify(s)).map(|s| s.end).max(), Some(end), "{what}");
        for s in trace.slices.iter().filter(|s| !s.moment) {
            if let (Some(from), Some(to)) = (s.float("start_ns"), s.float("end_ns")) {
                assert_eq!((s.start, s.end), (from.round() as u64, to.round() as u64), "{what} {s:?}");
            }
        }
        // Links: the same messages, occupied and waited for as long.
        for l in list(&report["links"]) {
            let path = format!("links/{}", l["link"].as_str().expect("a name"));
            let on: Vec<&Slice> = trace.slices.iter().filter(|s| s.track == path).collect();
            assert_eq!(Some(on.len() as u64), l["messages"].as_u64(), "{what} {path}");
            assert!(on.iter().all(|s| s.depth == 0), "one message at a time");
            let busy: f64 = on.iter().map(|s| exact(s).1 - exact(s).0).sum();
            assert!(close(busy, number(&l["busy_ns"])), "{what} {path}: {busy} {l}");
            let queued: f64 = on.iter().map(|s| s.float("queued_ns").expect("a number")).sum();
            assert!(close(queued, number(&l["queue_ns"])), "{what} {path}: {queued} {l}");
            for pair in on.windows(2) {
                assert!(exact(pair[0]).1 <= exact(pair[1]).0, "{what} {path} overlaps");
            }
        }
        // Operations that take time, on their stream's track, as in the log.
        let key = |rank: &str, stream: &str, op: u64, from: f64, to: f64| {
            (format!("ranks/{rank}/{stream}"), op, from.to_bits(), to.to_bits())
        };
        let from_log: BTreeSet<_> = log[1..]
            .iter()
            .filter(|l| l["start_ns"] != l["end_ns"])
            .map(|l| {
                let text = |n: &str| l[n].as_str().expect("a text").to_owned();
                let op = l["op"].as_u64().expect("a number");
                key(&text("rank"), &text("stream"), op, number(&l["start_ns"]), number(&l["end_ns"]))
            })
            .collect();
        let from_trace: BTreeSet<_> = trace
            .slices
            .iter()
            .filter(|s| !s.moment && ["work", "wait", "fence"].contains(&s.category.as_str()))
            .filter(|s| !s.name.starts_with("waits for") && exact(s).0 < exact(s).1)
            .map(|s| {
                let op = s.args.iter().find_map(|(n, a)| match a {
                    Arg::Uint(v) if n == "op" => Some(*v),
                    _ => None,
                });
                (s.track.clone(), op.expect("a number"), exact(s).0.to_bits(), exact(s).1.to_bits())
            })
            .collect();
        assert_eq!(from_log, from_trace, "{what}");
        // Messages: each has its slice and its flow to its arrival, and nothing is left in flight.
        let sent = trace.slices.iter().filter(|s| s.track.ends_with("/messages sent")).count() as u64;
        let received = trace.slices.iter().filter(|s| s.track.ends_with("/messages received")).count() as u64;
        assert_eq!((Some(sent), sent), (report["messages"].as_u64(), received), "{what}");
        assert_eq!(trace.flows.0, trace.flows.1, "{what}");
        assert_eq!(trace.flows.0.len() as u64, sent);
        assert!(trace.counters.windows(2).all(|w| w[0].1 < w[1].1), "one value a moment");
        assert!(trace.counters.is_empty() || trace.counters.last().is_some_and(|c| c.2 == 0), "{what}");
        assert_eq!(trace.counters.is_empty(), sent == 0);
    }
}

#[test]
fn some_ranks_are_a_part_of_all() {
    let scratch = Scratch::new();
    let (all, some) = (run(&scratch, RUNS[1], ""), run(&scratch, RUNS[1], "--trace-ranks 0,2..3"));
    let mine = |r: &str| r.contains("tp=0") || r.contains("tp=2");
    let keep = |l: &&Value| mine(l["rank"].as_str().expect("a rank"));
    assert_eq!(
        all.log[1..].iter().filter(keep).collect::<Vec<_>>(),
        some.log[1..].iter().collect::<Vec<_>>()
    );
    assert_eq!(some.log[0]["ranks"], 2);
    let tracks = |t: &perfetto::Trace| -> BTreeSet<String> {
        t.tracks.values().map(|t| t.path.clone()).filter(|p| p.starts_with("ranks/")).collect()
    };
    let want: BTreeSet<String> = tracks(&all.trace).into_iter().filter(|p| mine(p)).collect();
    assert_eq!(tracks(&some.trace), want);
    assert_eq!(all.report, some.report);
    for (ranks, code) in [("4", 2), ("2..2", 2), ("x", 2)] {
        let ran =
            scratch.line(&format!("kbc run {} --no-data --emit trace=u --trace-ranks {ranks}", RUNS[1]));
        assert_eq!(ran.code, code, "{}", ran.stderr);
        assert!(ran.stderr.contains("E413"), "{}", ran.stderr);
        assert!(!scratch.files().contains_key("u"));
    }
}

#[test]
fn the_same_run_gives_the_same_bytes() {
    let folders = [Scratch::new(), Scratch::new()];
    for what in RUNS {
        for f in &folders {
            run(f, what, "");
        }
        assert!(folders[0].files() == folders[1].files(), "{what}");
    }
}

fn simulated(
    s: &Schedule,
    topology: &Topology,
    o: &mut dyn Observer,
) -> Result<Timing, kbc_diag::Diagnostics> {
    simulate_observed(s, topology, &TimeOptions::default(), o)
}

#[test]
fn a_record_that_is_too_large_is_refused_and_leaves_no_file() {
    use kbc::outdir::Records;
    use kbc::session::Failure;
    use kbc_compiler::timeline::scene::Scene;
    use kbc_views::record::{Wanted, simulate};
    let scratch = Scratch::new();
    let module = kbc_ir::text::parse(kbc_diag::FileId(0), MIXED).expect("a schedule");
    let machine = module.machine.clone().expect("a machine");
    let topology = Topology::parse(&machine, kbc_diag::FileId(0)).expect("a machine");
    let schedule = module.schedule().expect("a schedule");
    let scene = Scene::new(schedule, &topology, &kbc_diag::SourceMap::default());
    for (kind, events, lines) in [("trace", 20, 1000), ("log", 1000, 20)] {
        let path = scratch.path().join(kind).to_string_lossy().into_owned();
        let list = vec![(kind.to_owned(), path)];
        let wanted = |events, lines, ranks: Option<&str>| Wanted {
            list: list.clone(),
            ranks: ranks.map(str::to_owned),
            events,
            lines,
        };
        let write = |wanted: &Wanted| {
            simulate(&scene, wanted, &Records, ("f", "p"), |o| simulated(schedule, &topology, o))
        };
        let Err(Failure::Program(d)) = write(&wanted(events, lines, None)) else {
            panic!("{kind} is written")
        };
        assert_eq!(d.list[0].code, "E431");
        assert!(d.list[0].help.as_ref().is_some_and(|h| h.contains("--trace-ranks")));
        assert!(scratch.files().is_empty(), "{kind}");
        write(&wanted(1000, 1000, None)).expect("it fits");
        assert_eq!(scratch.files().keys().cloned().collect::<Vec<_>>(), [kind]);
        std::fs::remove_file(scratch.path().join(kind)).expect("it is there");
    }
}

#[test]
fn a_log_on_standard_output_stands_alone() {
    let scratch = Scratch::new();
    let file = run(&scratch, RUNS[1], "").log;
    let ran = scratch.line(&format!("kbc run {} --no-data --emit log", RUNS[1]));
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let lines: Vec<Value> = ran.stdout.lines().map(|l| serde_json::from_str(l).expect("a line")).collect();
    assert_eq!(lines, file);
    for (flags, word) in [
        ("--emit trace", "binary"),
        ("--emit trace=a --emit trace=b", "once"),
        ("--trace-ranks 0", "applies only to a trace or a log"),
        ("--emit kri", "unknown output `kri`"),
        ("--no-time --emit log", "needs the timed run"),
    ] {
        let ran = scratch.line(&format!("kbc run {} {flags}", RUNS[1]));
        assert_eq!(ran.code, 2, "{flags}\n{}", ran.stderr);
        assert!(ran.stderr.contains(word), "{flags}\n{}", ran.stderr);
    }
}

#[test]
fn the_page_and_the_log_agree() {
    let scratch = Scratch::new();
    let mut found = BTreeMap::new();
    for what in RUNS {
        let log = run(&scratch, what, "").log;
        fields(&log[0], "header", &mut found);
        log[1..].iter().for_each(|l| fields(l, "", &mut found));
    }
    let page = documented("docs/reference/oplog.md");
    assert_eq!(page.keys().collect::<Vec<_>>(), found.keys().collect::<Vec<_>>());
    for (name, kinds) in found {
        let want: BTreeSet<&str> = page[&name].split(" or ").collect();
        assert!(kinds.is_subset(&want), "{name} is {kinds:?}, the page says {want:?}");
    }
}

#[test]
fn the_page_about_traces_names_every_argument() {
    let scratch = Scratch::new();
    let page = std::fs::read_to_string(root().join("docs/reference/trace.md")).expect("the page");
    let rows: String = page.lines().filter(|l| l.starts_with("| `")).collect();
    let words: BTreeSet<&str> = rows.split('`').skip(1).step_by(2).collect();
    let mut seen = BTreeSet::new();
    for what in RUNS {
        for s in run(&scratch, what, "").trace.slices {
            seen.extend(s.args.into_iter().map(|a| a.0));
            assert!(page.contains(&format!("`{}`", s.category)), "{}", s.category);
        }
    }
    for name in &seen {
        assert!(words.contains(name.as_str()), "{name} is not on the page");
    }
    assert!(seen.len() >= 11, "{seen:?}");
}
