//! Tests of `kbc report`: every part is there, nothing is loaded from outside, every event of the
//! run is in the page, and chunks end where the contract of the collective requires. Pages also
//! check themselves in a browser, if there is one.

use crate::common;
use crate::needs::{Need, found};

use common::{Scratch, root};
use kbc_diag::FileId;
use kbc_machine::topology::Topology;
use kbc_time::*;
use serde_json::Value;
use std::collections::BTreeMap;
use std::process::Command;

/// Programs that cover everything: one collective and several, several streams, parts of different
/// lengths, chunks that are combined and chunks that are not, trees, rings and direct exchanges,
/// groups, scratch, queues.
const PAGES: [&str; 20] = [
    "specs/all_reduce.kb",
    "specs/all_reduce.kb -D tp=8 -D n=100000",
    "specs/all_reduce.kb --topology torus(2,3) -D n=60000",
    "specs/all_reduce.kb --topology full(5) -D n=3",
    "specs/all_gather.kb",
    "specs/all_to_all.kb",
    "specs/all_to_all.kb -D tp=6",
    "specs/reduce_scatter.kb",
    "specs/broadcast.kb",
    "specs/ffn_tp.kb",
    "specs/dp_tp.kb",
    "specs/experts.kb",
    "specs/cores.kb",
    "specs/halves.kb",
    "specs/in_network.kb -D n=640",
    "specs/overlap.kb",
    "specs/bench/two_phase_all_reduce.kb",
    "specs/all_reduce.kb --topology mesh(3,3) -D n=6000 --using packed",
    "specs/all_gather.kb --topology 'hierarchy(full(3), switch(2)) { failed: (1,1) }' -D n=600 --using packed(pieces:1)",
    "specs/all_reduce.kb --set 'queue: hbm, 2' --set 'slots: 8, 65536 B'",
];

fn make(scratch: &Scratch, what: &str) -> String {
    let ran = scratch.line(&format!("kbc report {what} -o page.html"));
    assert_eq!(ran.code, 0, "{what}\n{}", ran.stderr);
    String::from_utf8(std::fs::read(scratch.path().join("page.html")).expect("a page")).expect("UTF-8")
}

const OPEN: &str = "<script id=\"data\" type=\"application/json\">";

/// Returns the page without its data, and the data.
fn parts(page: &str) -> (String, Value) {
    let (before, rest) = page.split_once(OPEN).expect("data");
    let (data, after) = rest.split_once("</script>").expect("an end");
    (format!("{before}{after}"), serde_json::from_str(data).expect("JSON"))
}

fn numbers(v: &Value) -> Vec<i64> {
    v.as_array().expect("a list").iter().map(|n| n.as_i64().expect("a whole number")).collect()
}

fn strings(v: &Value) -> Vec<&str> {
    v.as_array().expect("a list").iter().map(|n| n.as_str().expect("a text")).collect()
}

/// Contents by rank, operand and column: operand, chunk and set.
type State = BTreeMap<[i64; 3], (i64, i64, String)>;

fn put(state: &mut State, cells: &Value, sets: &[&str], only: impl Fn(usize) -> bool) {
    let column = |name: &str| numbers(&cells[name]);
    let (rank, operand, at) = (column("rank"), column("operand"), column("column"));
    let (of, chunk, set) = (column("of"), column("chunk"), column("set"));
    for i in (0..rank.len()).filter(|i| only(*i)) {
        let what = (of[i], chunk[i], sets[set[i] as usize].to_owned());
        state.insert([rank[i], operand[i], at[i]], what);
    }
}

#[test]
fn every_section_is_there_and_nothing_comes_from_outside() {
    let scratch = Scratch::new();
    let first = make(&scratch, PAGES[0]);
    let (shell, data) = parts(&first);
    for id in [
        "summary", "steps", "timeline", "path", "links", "trees", "tables", "program", "schedule", "evidence",
    ] {
        assert!(shell.contains(&format!("<section id=\"{id}\" aria-labelledby=\"h-{id}\">")), "{id}");
        assert!(shell.contains(&format!("<h2 id=\"h-{id}\">")), "{id}");
        assert!(shell.contains(&format!("<a href=\"#{id}\">")), "{id}");
    }
    for word in [
        "http:",
        "https:",
        "//cdn",
        "import",
        "fetch",
        "XMLHttpRequest",
        "WebSocket",
        "EventSource",
        "sendBeacon",
        "src=",
        "url(",
        "<link",
        "eval(",
        "innerHTML",
    ] {
        assert!(
            !shell.contains(word),
            "{word}: {:?}",
            shell.split_once(word).map(|p| p.1.chars().take(80).collect::<String>())
        );
    }
    assert!(
        shell.contains("default-src 'none'")
            && shell.contains("class=\"skip\"")
            && shell.contains("prefers-reduced-motion")
            && shell.contains("prefers-color-scheme: dark")
    );
    assert!(shell.lines().all(|l| !l.contains("{{")), "a placeholder is left");
    assert_eq!((data["schema"].as_u64(), data["kbc"].as_str()), (Some(1), Some(env!("CARGO_PKG_VERSION"))));
    assert_eq!(data["command"], "kbc report specs/all_reduce.kb -o report.html");
    for (name, field) in [("verified", "ok"), ("compare", "elements")] {
        assert!(!data["report"][name][field].is_null(), "{name}");
    }
    let values = data["values"].as_array().expect("a list");
    assert!(values.iter().any(|v| v["type"] == "f32[1000] partial(sum@tp)"
        && v["source"].as_str().is_some_and(|s| s.starts_with("specs/all_reduce.kb:"))));
    // A second run, and a pipe from standard output, give the same bytes.
    assert!(make(&scratch, PAGES[0]) == first, "not the same bytes twice");
    let piped = scratch.line(&format!("kbc report {} -o -", PAGES[0]));
    assert!(piped.code == 0 && piped.stdout.trim_end() == first.trim_end());
}

#[test]
fn chunks_end_where_the_collective_promises() {
    let scratch = Scratch::new();
    let (mut moved, mut summed) = (0, 0);
    for what in PAGES {
        let (_, data) = parts(&make(&scratch, what));
        let flows = data["flows"].as_array().expect("a list");
        assert!(!flows.is_empty(), "{what}");
        for flow in flows {
            assert!(flow["left_out"].is_null(), "{what}: {}", flow["left_out"]);
            let sets = strings(&flow["sets"]);
            let (mut state, mut due) = (State::new(), State::new());
            put(&mut due, &flow["due"], &sets, |_| true);
            put(&mut state, &flow["start"], &sets, |_| true);
            let holds = |state: &State| due.iter().filter(|(k, v)| state.get(*k) == Some(*v)).count();
            let steps = numbers(&flow["changes"]["step"]);
            if !steps.is_empty() {
                assert!(holds(&state) < due.len(), "{what}: it is all there before it begins");
            }
            // Once step by step, and once in order of time.
            let mut by_time = state.clone();
            put(&mut by_time, &flow["changes"]["cells"], &sets, |_| true);
            let last = steps.iter().copied().max().unwrap_or(0);
            put(&mut state, &flow["changes"]["cells"], &sets, |i| steps[i] <= last);
            for (how, state) in [("steps", &state), ("time", &by_time)] {
                for (place, want) in &due {
                    assert_eq!(state.get(place), Some(want), "{what}: {place:?} by {how}");
                }
            }
            assert!(!due.is_empty(), "{what}");
            let at = numbers(&flow["changes"]["at"]);
            assert!(at.is_sorted(), "{what}");
            // A message is one step after what it carries, and goes to another rank of the group.
            let moves = &flow["moves"];
            let (from, to) = (numbers(&moves["from"]), numbers(&moves["to"]));
            let groups = flow["group"].as_array().expect("a list");
            for i in 0..from.len() {
                assert_ne!(from[i], to[i], "{what}");
                assert_eq!(groups[from[i] as usize][0], groups[to[i] as usize][0], "{what}: groups");
            }
            let steps = numbers(&moves["step"]);
            let all: Vec<i64> = (1..=steps.iter().copied().max().unwrap_or(0)).collect();
            let mut seen = steps.clone();
            seen.sort_unstable();
            seen.dedup();
            assert_eq!(seen, all, "{what}: steps without messages");
            moved += from.len();
            summed += usize::from(!flow["red"].is_null());
        }
    }
    assert!(moved > 300 && summed > 8, "{moved} {summed}");
}

/// Steps of well-known algorithms equal the rounds of their documented costs.
#[test]
fn steps_are_the_rounds_of_what_is_known() {
    let scratch = Scratch::new();
    let program = |using: &str| {
        format!(
            "topology sys = ring(8) {{ link: 50 GB/s, 500 ns }}\nmesh m = sys[tp]\nprogram f(x: f32[800] partial(sum@tp)) -> f32[800] {{\n    all_reduce(x, sum, over: tp, using: {using})\n}}\n"
        )
    };
    for (using, steps) in [("ring", 14), ("recursive_doubling", 3), ("one_phase", 1), ("two_phase", 2)] {
        scratch.write("f.kb", program(using).as_bytes());
        let (_, data) = parts(&make(&scratch, "f.kb"));
        let found = numbers(&data["flows"][0]["moves"]["step"]).into_iter().max();
        assert_eq!(found, Some(steps), "{using}");
    }
}

/// An observer that records the messages of a run.
#[derive(Default)]
struct Count {
    sent: Vec<(u32, u64, u64, i64)>,
    arrived: Vec<(u32, u64, u64, i64)>,
    passes: Vec<(u32, u32, i64, i64)>,
    held: usize,
    left: usize,
}

fn ps(ns: f64) -> i64 {
    (ns * 1000.0).round() as i64
}

impl Observer for Count {
    fn detail(&self) -> bool {
        true
    }
    fn sent(&mut self, m: &Sent) {
        self.sent.push((m.op, m.from, m.to, ps(m.at_ns)));
    }
    fn delivered(&mut self, m: &Delivery) {
        self.arrived.push((m.op, m.from, m.to, ps(m.delivered_ns)));
    }
    fn passes(&mut self, p: &Pass) {
        self.passes.push((p.op, p.link.0, ps(p.start_ns), ps(p.free_ns)));
    }
    fn holds(&mut self, _: &OpHeld) {
        self.held += 1;
    }
    fn turn(&mut self, t: &StepReached) {
        self.left += usize::from(matches!(t.next, Next::Leave(_)));
    }
}

#[test]
fn every_event_of_the_run_stands_in_the_page() {
    let scratch = Scratch::new();
    let mut queued = 0;
    for what in [
        "specs/ffn_tp.kb",
        "specs/all_reduce.kb --topology torus(2,3)",
        "specs/all_to_all.kb --topology ring(6)",
        "specs/overlap.kb",
    ] {
        let (_, data) = parts(&make(&scratch, what));
        let kir = scratch.line(&format!("kbc compile {what} --emit kir=s.kir"));
        assert_eq!(kir.code, 0, "{}", kir.stderr);
        let text = std::fs::read_to_string(scratch.path().join("s.kir")).expect("a schedule");
        let module = kbc_ir::text::parse(FileId(0), &text).expect("a schedule");
        let topology =
            Topology::parse(module.machine.as_deref().expect("a machine"), FileId(0)).expect("a machine");
        let mut count = Count::default();
        let options = TimeOptions { path: false, ..TimeOptions::default() };
        simulate_observed(module.schedule().expect("a schedule"), &topology, &options, &mut count)
            .expect("it runs");
        let events = &data["events"];
        let column = |list: &str, name: &str| numbers(&events[list][name]);
        let messages = |time: &str| {
            let (op, from, to, at) = (
                column("messages", "op"),
                column("messages", "from"),
                column("messages", "to"),
                column("messages", time),
            );
            let mut all: Vec<_> =
                (0..op.len()).map(|i| (op[i] as u32, from[i] as u64, to[i] as u64, at[i])).collect();
            all.sort_unstable();
            all
        };
        count.sent.sort_unstable();
        count.arrived.sort_unstable();
        assert!(!count.sent.is_empty(), "{what}");
        assert_eq!(messages("sent"), count.sent, "{what}");
        assert_eq!(messages("arrived"), count.arrived, "{what}");
        let (message, link, start, end) = (
            column("passes", "message"),
            column("passes", "link"),
            column("passes", "start"),
            column("passes", "end"),
        );
        let op = column("messages", "op");
        let passes: Vec<_> = (0..link.len())
            .map(|i| (op[message[i] as usize] as u32, link[i] as u32, start[i], end[i]))
            .collect();
        assert_eq!(passes, count.passes, "{what}");
        let asked = column("passes", "asked");
        queued += (0..asked.len()).filter(|i| start[*i] > asked[*i]).count();
        assert_eq!(column("slices", "op").len(), count.held, "{what}");
        assert_eq!(column("stays", "region").len(), count.left, "{what}");
        // The text of the schedule is what is executed, and every operation has its line.
        assert_eq!(data["kir"], text, "{what}");
        let lines: Vec<&str> = text.lines().collect();
        for o in data["ops"].as_array().expect("a list") {
            assert_eq!(lines[o["line"].as_u64().expect("a line") as usize].trim(), o["text"], "{what}");
        }
        assert_eq!(
            data["path"].as_array().map(Vec::len),
            data["report"]["critical_path"].as_array().map(Vec::len)
        );
        let folds: i64 =
            data["folds"].as_array().expect("a list").iter().map(|f| numbers(f)[1] * numbers(f)[2]).sum();
        let parts = data["report"]["critical_path"]
            .as_array()
            .and_then(|l| l.last())
            .map_or(0, |s| s["part"].as_i64().expect("a number") + 1);
        assert_eq!(folds, parts, "{what}");
    }
    assert!(queued > 0, "no message waits for a link anywhere");
}

#[test]
fn some_ranks_are_said_to_be_some() {
    let scratch = Scratch::new();
    let what = "specs/all_reduce.kb --topology ring(6)";
    let (_, all) = parts(&make(&scratch, what));
    let (_, some) = parts(&make(&scratch, &format!("{what} --trace-ranks 0..2")));
    assert_eq!((all["shown"].as_str(), some["shown"].as_str()), (None, Some("0..2")));
    assert!(some["command"].as_str().is_some_and(|c| c.contains("--trace-ranks 0..2")));
    assert!(numbers(&some["events"]["slices"]["rank"]).iter().all(|r| *r < 2));
    let shown = |list: &str, field: &str| some["events"][list][field].as_array().map_or(0, Vec::len);
    assert!(shown("slices", "op") > 0 && shown("messages", "op") > 0 && shown("passes", "link") > 0);
    assert!(shown("passes", "link") < all["events"]["passes"]["link"].as_array().map_or(0, Vec::len));
    // Data about all ranks does not change.
    assert_eq!(
        (&all["flows"], &all["report"]["links"], &all["path"]),
        (&some["flows"], &some["report"]["links"], &some["path"])
    );
    assert_eq!(scratch.line(&format!("kbc report {what} --trace-ranks 7")).code, 2);
}

#[test]
fn a_schedule_has_a_page_and_what_has_none_says_why() {
    let scratch = Scratch::new();
    assert_eq!(scratch.line("kbc compile specs/all_reduce.kb --emit kir=s.kir").code, 0);
    let (_, data) = parts(&make(&scratch, "s.kir"));
    assert!(data["report"]["compare"].is_null() && data["report"]["verified"]["ok"] == true);
    assert_eq!(data["values"].as_array().map(Vec::len), Some(0));
    assert_eq!(data["files"][0]["name"], "s.kir");
    assert!(!data["flows"][0]["moves"]["from"].as_array().expect("a list").is_empty());
    let text = std::fs::read_to_string(scratch.path().join("s.kir")).expect("a schedule");
    let bare: String =
        text.lines().filter(|l| !l.starts_with("machine ")).map(|l| format!("{l}\n")).collect();
    scratch.write("bare.kir", bare.as_bytes());
    let refused = scratch.line("kbc report bare.kir");
    assert!(refused.code == 1 && refused.stderr.contains("E594"), "{}", refused.stderr);
    make(&scratch, "bare.kir --topology ring(4)");
    let (_, data) = parts(&make(&scratch, "specs/all_reduce.kb --no-data"));
    let report = &data["report"];
    assert!(report["engine"].is_null() && report["compare"].is_null() && report["verified"]["ok"] == true);
    assert!(
        report["time_ns"].is_number() && data["command"].as_str().is_some_and(|c| c.ends_with("--no-data"))
    );
    assert!(scratch.line("kbc report x.tile").stderr.contains("E594"));
}

#[test]
fn a_text_cannot_leave_its_element_and_no_folder_is_told() {
    let scratch = Scratch::new();
    let text = std::fs::read_to_string(root().join("specs/all_reduce.kb")).expect("a program");
    scratch.write(
        "odd.kb",
        format!("// </script><script>document.title = 'odd'</script> <!-- {{{{data}}}}\n{text}").as_bytes(),
    );
    let there = make(&scratch, "odd.kb");
    let (shell, data) = parts(&there);
    assert!(data["files"][0]["text"].as_str().is_some_and(|t| t.starts_with("// </script><script>")));
    assert_eq!(there.matches("</script>").count(), 2);
    assert!(!shell.contains("odd'"));
    let whole = scratch.path().join("odd.kb");
    let page = make(&scratch, &whole.to_string_lossy());
    let folder = scratch.path().to_string_lossy();
    assert!(page.contains("odd.kb") && !page.contains(&*folder));
    assert!(page == there, "a page depends on where its file lies");
}

#[test]
fn sizes_are_bounded() {
    let scratch = Scratch::new();
    assert!(make(&scratch, PAGES[0]).len() < 250_000);
    let large = make(&scratch, "specs/all_to_all.kb -D tp=64 -D rows=640 -D columns=640");
    assert!(large.len() < 2_500_000, "{}", large.len());
    let (_, data) = parts(&large);
    assert_eq!(numbers(&data["flows"][0]["moves"]["from"]).len(), 64 * 63);
}

#[test]
fn a_browser_runs_its_own_checks() {
    let Some(browser) = found(Need::Chromium) else { return };
    let scratch = Scratch::new();
    let pages = [
        PAGES[1],
        PAGES[2],
        "specs/ffn_tp.kb",
        "specs/experts.kb",
        "specs/overlap.kb",
        "specs/all_to_all.kb -D tp=24",
        "specs/all_reduce.kb --trace-ranks 0..2",
        "specs/moves.kb --no-data",
        "specs/all_reduce.kb --topology switch(6)",
    ];
    // One page shows all of them in frames, because a browser takes a second to start. When they
    // are loaded, its script replaces the frames by what the pages found, a `<pre>` for each.
    let mut all = "<!doctype html>\n".to_owned();
    for (i, what) in pages.iter().enumerate() {
        make(&scratch, what);
        let (from, to) = (scratch.path().join("page.html"), scratch.path().join(format!("page{i}.html")));
        std::fs::rename(from, to).expect("a page");
        all += &format!("<iframe src=\"page{i}.html#selftest\" width=1200 height=900></iframe>\n");
    }
    all += "<script>onload = () => {\n\
            \x20 const text = f => f.contentDocument?.getElementById('selftest')?.textContent ?? '';\n\
            \x20 const found = [...document.querySelectorAll('iframe')].map(text);\n\
            \x20 document.body.innerHTML = '';\n\
            \x20 for (const text of found) {\n\
            \x20   const at = document.createElement('pre');\n\
            \x20   at.textContent = text;\n\
            \x20   document.body.append(at);\n\
            \x20 }\n\
            };</script>\n";
    scratch.write("all.html", all.as_bytes());
    let out = Command::new(&browser)
        .args([
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
            "--allow-file-access-from-files",
            "--virtual-time-budget=60000",
            "--window-size=1200,900",
            "--dump-dom",
        ])
        .arg(format!("--user-data-dir={}", scratch.path().join("profile").display()))
        .arg(format!("file://{}", scratch.path().join("all.html").display()))
        .output()
        .expect("it started before");
    let dom = String::from_utf8_lossy(&out.stdout);
    let texts: Vec<&str> =
        dom.split("<pre>").skip(1).map(|t| t.split_once("</pre>").expect("an end").0).collect();
    assert_eq!(texts.len(), pages.len(), "{dom}\n{}", String::from_utf8_lossy(&out.stderr));
    for (what, found) in pages.iter().zip(texts) {
        let failed: Vec<&str> = found.lines().filter(|l| l.contains("FAIL ")).collect();
        assert!(failed.is_empty(), "{what}: {failed:#?}");
        let passed = found
            .lines()
            .last()
            .and_then(|l| l.strip_prefix("selftest: "))
            .and_then(|l| l.strip_suffix(" passed, 0 failed"));
        let passed: u32 = passed.and_then(|n| n.parse().ok()).unwrap_or_else(|| {
            panic!("{what}: no checks: {found}\n{}", String::from_utf8_lossy(&out.stderr))
        });
        assert!(passed >= 25, "{what}: {passed} checks");
        println!("{what}: {passed} checks in the browser");
    }
}
