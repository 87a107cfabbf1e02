//! Benchmark: compiling and proving at 64, 1,024 and 16,384 ranks, each in a process of its own. It
//! reports processor seconds and peak memory beside the figures of compilers of collectives for the
//! same algorithm and number of ranks. Targets: 20 ms, 300 ms, 10 s; memory that does not grow with
//! the square of the ranks; a hundredth of the processor time and a quarter of the memory of every
//! figure of the others.
//!
//! The benchmark starts itself once per case (on Linux, the peak is `VmHWM` of /proc/self/status).
//! `-- --library 1024` runs the whole library on this number of ranks instead, with one line per
//! algorithm.
#![allow(clippy::print_stdout, reason = "a benchmark prints what it measured")]

#[path = "../tests/real/driver.rs"]
mod driver;

use kbc_compiler::analyse;
use kbc_frontend::ast::Item;
use kbc_frontend::library::LIBRARY;
use rustix::time::{ClockId, clock_gettime};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// File of the library and name of the algorithm, `collective.algorithm`.
type Which<'a> = (&'a str, &'a str);

const RING: Which<'static> = ("ring", "all_reduce.ring");
const GATHER: Which<'static> = ("ring", "all_gather.ring");
const HALVING: Which<'static> = ("doubling", "all_reduce.halving_doubling");
const ALL_PAIRS: Which<'static> = ("direct", "all_reduce.two_phase");
const NODES: Which<'static> = ("levels", "all_reduce.hierarchical");

/// The compiled algorithms with the number of axes of their machine.
const OURS: [(Which<'static>, u32); 8] = [
    (RING, 1),
    (("grids", "all_reduce.torus2"), 2),
    (("trees", "all_reduce.up_down"), 1),
    (HALVING, 1),
    (("direct", "all_to_all.pairwise"), 1),
    (("swing", "all_reduce.swing"), 1),
    (("levels", "all_reduce.hierarchical_flat"), 1),
    (("trees", "all_reduce.double_tree"), 1),
];

/// Compiler and algorithm, the equivalent of kbc, ranks, processor seconds, MB. The compilers are
/// MSCCLang (trace to MSCCL XML) and the MSCCL++ DSL, on the same kind of machine.
const THEIRS: [(&str, Which<'static>, u64, f64, Option<f64>); 20] = [
    ("MSCCLang ring all-reduce", RING, 16, 0.16, Some(37.0)),
    ("MSCCLang ring all-reduce", RING, 64, 3.0, Some(88.0)),
    ("MSCCLang ring all-reduce", RING, 128, 37.0, Some(258.0)),
    ("MSCCLang ring all-reduce", RING, 256, 800.0, Some(916.0)),
    ("MSCCL++ all-reduce", RING, 64, 23.0, Some(182.0)),
    ("MSCCL++ all-reduce", RING, 128, 68.0, Some(712.0)),
    ("MSCCLang all-pairs", ALL_PAIRS, 16, 7.1, Some(86.0)),
    ("MSCCLang all-pairs v2", ALL_PAIRS, 16, 0.2, None),
    ("MSCCLang all-pairs v2", ALL_PAIRS, 64, 2.1, Some(143.0)),
    ("MSCCLang all-pairs v2", ALL_PAIRS, 128, 19.4, Some(483.0)),
    ("MSCCLang hierarchical 8 x k", NODES, 16, 0.2, None),
    ("MSCCLang hierarchical 8 x k", NODES, 64, 1.5, Some(93.0)),
    ("MSCCLang hierarchical 8 x k", NODES, 128, 11.8, Some(278.0)),
    ("MSCCLang halving-doubling", HALVING, 16, 0.4, None),
    ("MSCCLang halving-doubling", HALVING, 64, 14.6, Some(48.0)),
    ("MSCCLang halving-doubling", HALVING, 128, 225.0, Some(83.0)),
    ("MSCCLang ring all-gather", GATHER, 16, 0.1, None),
    ("MSCCLang ring all-gather", GATHER, 64, 0.3, None),
    ("MSCCLang ring all-gather", GATHER, 128, 0.86, Some(144.0)),
    ("MSCCLang ring all-gather", GATHER, 256, 4.3, Some(482.0)),
];

/// The argument before a case, which marks a process as a measured one.
const CASE: &str = "--case";

/// Longest time of a case of `--library`.
const PATIENCE: Duration = Duration::from_secs(120);

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let Some(at) = words.iter().position(|w| w == CASE) {
        return case(&words[at + 1..]);
    }
    if let Some(at) = words.iter().position(|w| w == "--library") {
        let ranks = words.get(at + 1).and_then(|w| w.parse().ok()).unwrap_or(1024);
        return library(ranks);
    }
    println!(
        "compiled and proven, a process each (one that does nothing: {}; that reads the library: {})",
        figures(measured(Start::Nothing, 9).as_ref()),
        figures(measured(Start::Library, 9).as_ref())
    );
    println!("{:28} {:>20} {:>20} {:>20}", "", "64 ranks", "1,024", "16,384");
    for (which, axes) in OURS {
        let row = [64, 1024, 16_384].map(|p| {
            let found = measured(Start::Case(which, &machine(axes, p), p), if p > 1024 { 1 } else { 9 });
            format!("{:>20}", figures(found.as_ref()))
        });
        println!("{:28} {}", which.1, row.join(" "));
    }
    println!();
    println!(
        "{:28} {:>5} {:>18} {:>18} {:>14} {:>18} {:>12}",
        "", "ranks", "theirs", "kbc", "times below", "kbc, no start", "times below"
    );
    for (who, which, p, seconds, memory) in THEIRS {
        let machine = if which == NODES { format!("torus(8,{})", p / 8) } else { machine(1, p) };
        let ours = measured(Start::Case(which, &machine, p), 9);
        let theirs = (seconds, memory.unwrap_or(f64::NAN));
        let times = ours.as_ref().ok().map_or(String::new(), |o| {
            let of = memory.map_or("-".into(), |m| format!("{:.1}", m / o.1));
            format!("{:.0}, {of}", seconds / o.0)
        });
        let again = measured(Start::Again(which, &machine, p), 3);
        let below = again.as_ref().map_or(String::new(), |a| format!("{:.0}", seconds / a.0));
        println!(
            "{who:28} {p:>5} {:>18} {:>18} {times:>14} {:>18} {below:>12}",
            figures(Ok(&theirs)),
            figures(ours.as_ref()),
            figures(again.as_ref())
        );
    }
}

/// Returns a machine of `p` ranks that is as nearly square as possible.
fn machine(axes: u32, p: u64) -> String {
    let side = |bits: u32| 1u64 << bits;
    let bits = p.ilog2();
    match axes {
        1 => format!("ring({p})"),
        2 => format!("torus({},{})", side(bits - bits / 2), side(bits / 2)),
        _ => format!("torus({},{},{})", side(bits - 2 * (bits / 3)), side(bits / 3), side(bits / 3)),
    }
}

fn figures(found: Result<&(f64, f64), &String>) -> String {
    match found {
        Ok((s, mb)) if mb.is_nan() => format!("{s:.2} s"),
        Ok((s, mb)) if *s < 0.1 => format!("{:.1} ms {mb:.0} MB", s * 1e3),
        Ok((s, mb)) => format!("{s:.2} s {mb:.0} MB"),
        Err(why) => why.clone(),
    }
}

/// The work of a process.
#[derive(Clone, Copy)]
enum Start<'a> {
    /// Only the work that every process does before `main`.
    Nothing,
    /// Loading the library.
    Library,
    /// An algorithm on a machine, with a number of elements.
    Case(Which<'a>, &'a str, u64),
    /// The same in a process that has done it before: text to proof, without the cost of starting a
    /// process.
    Again(Which<'a>, &'a str, u64),
}

/// The argument for [`Start::Again`].
const AGAIN: &str = "again";

/// Number of measured repetitions of [`Start::Again`], after one that is not measured.
const REPEATED: usize = 15;

/// The argument for [`Start::Nothing`].
const NOTHING: &str = "nothing";

/// Returns the smallest processor seconds and MB of several processes, or a description of the
/// failure.
fn measured(what: Start<'_>, times: usize) -> Result<(f64, f64), String> {
    let mut best: Option<(f64, f64)> = None;
    for _ in 0..times {
        let found = once(what)?;
        best = Some(best.map_or(found, |b| (b.0.min(found.0), b.1.min(found.1))));
    }
    best.ok_or_else(|| "not measured".into())
}

/// Returns the processor seconds and MB of one process.
fn once(what: Start<'_>) -> Result<(f64, f64), String> {
    let mut words = vec![CASE.to_owned()];
    match what {
        Start::Nothing => words.push(NOTHING.into()),
        Start::Library => {}
        Start::Case((file, algorithm), machine, p) | Start::Again((file, algorithm), machine, p) => {
            if matches!(what, Start::Again(..)) {
                words.push(AGAIN.into());
            }
            words.extend([format!("specs/lib/{file}.kb"), "--algorithm".into(), algorithm.into()]);
            words.extend(["--topology".into(), machine.into(), "-D".into(), format!("n={p}")]);
        }
    }
    let this = std::env::current_exe().map_err(|e| e.to_string())?;
    let mut child = Command::new(this)
        .args(words)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|e| e.to_string())?;
    let begin = Instant::now();
    while child.try_wait().map_err(|e| e.to_string())?.is_none() {
        if begin.elapsed() > PATIENCE {
            child.kill().map_err(|e| e.to_string())?;
            child.wait().map_err(|e| e.to_string())?;
            return Err(format!("> {} s", PATIENCE.as_secs()));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    let out = child.wait_with_output().map_err(|e| e.to_string())?;
    let text = String::from_utf8_lossy(&out.stdout).trim().to_owned();
    let mut numbers = text.split(' ').map(|w| w.parse::<f64>());
    match (numbers.next(), numbers.next()) {
        (Some(Ok(s)), Some(Ok(mb))) => Ok((s, mb)),
        _ => Err(if text.is_empty() { "failed".into() } else { text }),
    }
}

/// Returns the processor seconds that this process has used.
fn spent() -> f64 {
    let cpu = clock_gettime(ClockId::ProcessCPUTime);
    cpu.tv_sec as f64 + cpu.tv_nsec as f64 / 1e9
}

/// Runs one case, in a process of its own: prints processor seconds and MB, or the failure.
fn case(words: &[String]) {
    let (again, words) = match words {
        [first, rest @ ..] if first == AGAIN => (true, rest),
        all => (false, all),
    };
    let mut seconds = None;
    if words.is_empty() {
        std::hint::black_box(driver::library());
    } else if words != [NOTHING] {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        if let Err(why) = proven(&words) {
            return println!("{why}");
        }
        if again {
            let mut taken: Vec<f64> = (0..REPEATED)
                .map(|_| {
                    let begin = spent();
                    proven(&words).expect("it was right before");
                    spent() - begin
                })
                .collect();
            taken.sort_by(f64::total_cmp);
            seconds = Some(taken[REPEATED / 2]);
        }
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak =
        status.lines().find_map(|l| l.strip_prefix("VmHWM:")?.split_whitespace().next()?.parse::<f64>().ok());
    println!("{} {}", seconds.unwrap_or_else(spent), peak.unwrap_or(f64::NAN) / 1024.0);
}

/// Compiles and proves a case; the error is a description of the failure.
fn proven(words: &[&str]) -> Result<(), String> {
    let job = driver::try_build(words).map_err(|e| first(&format!("{e:?}")))?;
    let proof = analyse::prove(&job.session, &job.built, job.schedule());
    proof.map(drop).map_err(|d| d.list.first().map_or("wrong".into(), |d| format!("{} {}", d.code, d.title)))
}

/// Returns code and title of the first message in the debug output of an error.
fn first(text: &str) -> String {
    let after =
        |word: &str| text.split(word).nth(1).and_then(|t| t.split('"').nth(1)).unwrap_or("").to_owned();
    format!("{} {}", after("code: "), after("title: "))
}

/// Measures every algorithm of the library on this number of ranks.
fn library(ranks: u64) {
    for (name, text) in LIBRARY {
        let file = name.trim_start_matches("<lib>/").trim_end_matches(".kb");
        let (tree, _) = kbc_frontend::parse(kbc_diag::FileId(0), text);
        for item in tree.items {
            let Item::Algorithm(a) = item else { continue };
            let full = format!("{}.{}", a.coll.node, a.name.node);
            // The largest power of three up to the number of ranks.
            let threes = std::iter::successors(Some(1u64), |n| Some(n * 3))
                .take_while(|n| *n <= ranks)
                .last()
                .unwrap_or(1);
            let shapes = [machine(a.axes.len() as u32, ranks), machine(1, threes)];
            let mut last = String::new();
            for (machine, p) in shapes.iter().zip([ranks, threes]) {
                let found = measured(Start::Case((file, &full), machine, p), 1);
                last = format!("{full:38} {machine:16} {}", figures(found.as_ref()));
                // The algorithm does not support this number of ranks; try the next.
                if !last.contains("E024") {
                    break;
                }
            }
            println!("{last}");
        }
    }
}
