//! Tests of the command line as a whole: the help of every command, old spellings, and results as
//! JSON.

use crate::common::{Ran, Scratch, kbc, root};
use crate::needs::{Need, found};
use clap::Command;
use kbc::cli::help::{EXAMPLES, screen};
use serde_json::Value;
use std::collections::BTreeSet;

/// Number of lines and columns of a screen.
const SCREEN: (usize, usize) = (40, 100);

/// Returns every command that a help shows, with its path: `dev fuzz engines`.
fn commands(command: &Command, path: &str, out: &mut Vec<(String, Command)>) {
    out.push((path.to_owned(), command.clone()));
    for c in command.get_subcommands().filter(|c| !c.is_hide_set() && c.get_name() != "help") {
        commands(c, format!("{path} {}", c.get_name()).trim_start(), out);
    }
}

fn all() -> Vec<(String, Command)> {
    let mut screen = screen().term_width(SCREEN.1);
    screen.build();
    let mut out = vec![];
    commands(&screen, "", &mut out);
    assert!(out.len() > 30, "{}", out.len());
    out
}

#[test]
fn every_help_fits_a_screen_and_has_examples() {
    let mut wrong = vec![];
    let all = all();
    for (path, command) in &all {
        let help = command.clone().render_help().to_string();
        let lines = help.trim_end().lines().count();
        let widest = help.lines().map(|l| l.chars().count()).max().unwrap_or(0);
        if lines > SCREEN.0 || widest > SCREEN.1 {
            wrong.push(format!("kbc {path} --help: {lines} lines, {widest} columns\n{help}"));
        }
        if !help.contains("\nExamples:\n  kbc ") {
            wrong.push(format!("kbc {path} --help has no example"));
        }
        // An option that the help leaves out is named.
        for arg in command.get_arguments().filter(|a| !a.is_hide_set() && !a.is_global_set()) {
            let name = arg.get_long().map(|l| format!("--{l}"));
            if name.as_ref().is_some_and(|n| !help.contains(n.as_str())) {
                wrong.push(format!("kbc {path} --help does not name {name:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let paths: BTreeSet<&str> = all.iter().map(|c| c.0.as_str()).collect();
    let lost: Vec<_> = EXAMPLES.iter().map(|e| e.0).filter(|p| !paths.contains(p)).collect();
    assert!(lost.is_empty(), "examples of no command: {lost:?}");
}

/// `-h`, `--help` and `kbc help` print the same text.
#[test]
fn there_is_one_help() {
    for (path, _) in all() {
        let words: Vec<&str> = path.split_whitespace().collect();
        let [short, long] = ["-h", "--help"].map(|flag| kbc(root(), &[&words[..], &[flag]].concat(), ""));
        let verb = kbc(root(), &[&["help"], &words[..]].concat(), "");
        assert!(short.code == 0 && short.stdout.contains("Usage: kbc"), "{path}: {}", short.stderr);
        assert_eq!(short, long, "{path}");
        assert_eq!(short, verb, "{path}");
    }
}

/// `-o` is the output, and the output is `-o`.
#[test]
fn o_is_the_output_everywhere() {
    let mut outputs = 0;
    for (path, command) in all() {
        for arg in command.get_arguments() {
            let (short, long) = (arg.get_short(), arg.get_long());
            assert_eq!(short == Some('o'), long == Some("output"), "kbc {path}: {short:?}, {long:?}");
            let old = arg.get_all_aliases().unwrap_or_default();
            // Verbs that are younger than the spelling have no other one.
            let young = ["man", "synth", "launch", "calibrate", "dev bench host"].contains(&path.as_str());
            assert_eq!(long == Some("output") && !young, old.contains(&"out"), "kbc {path} {long:?}");
            assert!(long.is_none_or(|l| !["out", "report"].contains(&l)), "kbc {path} {long:?}");
            outputs += usize::from(long == Some("output"));
        }
    }
    assert!(outputs >= 15, "{outputs}");
}

/// Returns a folder with the files that the examples name.
pub(crate) fn folder() -> Scratch {
    let s = Scratch::new();
    for (from, to) in [
        ("specs/starter/layer.kb", "layer.kb"),
        ("specs/starter/machine.yaml", "machine.yaml"),
        ("specs/starter/my_ring.kb", "my_ring.kb"),
        ("specs/topologies/kernbench.yaml", "topology.yaml"),
        ("specs/kernbench/ccl.yaml", "ccl.yaml"),
    ] {
        s.write(to, &std::fs::read(s.path().join(from)).expect("a file of the source"));
    }
    for entry in std::fs::read_dir(s.path().join("specs/torch/block_tp2")).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        s.write(&format!("exported/{name}"), &std::fs::read(&path).expect("a file"));
    }
    s.write(
        "sweep.yaml",
        b"sweep: 1\ntitle: t\nfile: specs/all_reduce.kb\ndefine: {n: '{n}'}\naxes: {n: [64, 128]}\n",
    );
    s.write("here.yaml", b"shape: full(2)\nlink: 10 GB/s, 100 ns\n");
    s.write(
        "rows.csv",
        b"collective,ranks,bytes,count,contestant,transport,algorithm,stage,best,rounds,repeat,time_ns,min_ns,\
          q1_ns,q3_ns,max_ns,ratio,ratio_min,ratio_max,algbw_gbs,busbw_gbs,compared,wrong\n\
          all_gather,2,8,2,kbc,memory,ring,measured,true,1,9,150,150,150,150,150,1,1,1,0.05,0.02,8,0\n",
    );
    s.write("figures.yaml", b"repro: 1\nfolder: made\nsweeps: [sweep.yaml]\nreferences: []\npages: []\n");
    s.write("kbc-crash.kb", b"// kbc: list passes place\n// kbc: file a.kb\n");
    for line in
        ["kbc run layer.kb --emit kir=schedule.kir", "kbc run layer.kb -p graph --emit graph=graph.kir"]
    {
        let ran = s.line(line);
        assert_eq!(ran.code, 0, "{line}: {}", ran.stderr);
    }
    s
}

/// Commands in their old and in their new spelling.
const OLD: [(&str, &str); 16] = [
    ("kbc run layer.kb --report json", "kbc run layer.kb --format json"),
    ("kbc compile layer.kb --out a --target a2a3", "kbc compile layer.kb -o a --target a2a3"),
    ("kbc run layer.kb --output y=y.npy", "kbc run layer.kb -o y=y.npy"),
    ("kbc report layer.kb --out a.html", "kbc report layer.kb -o a.html"),
    ("kbc check my_ring.kb -D p=5", "kbc check my_ring.kb --ranks 5"),
    ("kbc check my_ring.kb --using my_ring", "kbc check my_ring.kb --algorithm my_ring"),
    ("kbc list ring -D p=5", "kbc list ring --ranks 5"),
    ("kbc passes", "kbc list passes"),
    ("kbc passes place", "kbc list passes place"),
    ("kbc fuzz engines --programs 2", "kbc dev fuzz engines --programs 2"),
    ("kbc fuzz checker --schedules 2", "kbc dev fuzz checker --schedules 2"),
    ("kbc mutate my_ring.kb --ranks 3 --limit 5", "kbc dev mutate my_ring.kb --ranks 3 --limit 5"),
    ("kbc replay kbc-crash.kb", "kbc dev replay kbc-crash.kb"),
    ("kbc repro figures.yaml", "kbc dev repro figures.yaml"),
    ("kbc bench select --points 1", "kbc dev bench select --points 1"),
    ("kbc compare-reference nothing.yaml", "kbc dev compare-reference nothing.yaml"),
];

#[test]
fn old_spellings_are_equal_and_hidden() {
    let s = folder();
    for (old, new) in OLD {
        let (a, b) = (s.line(old), s.line(new));
        assert_eq!(a, b, "{old}: {new}");
    }
    let help = s.line("kbc --help").stdout;
    for verb in ["passes", "fuzz", "mutate", "replay", "repro", "bench", "compare-reference"] {
        assert!(!help.contains(&format!("\n  {verb} ")), "{verb} is in {help}");
    }
}

/// `run` and `compile --target sim` are the same.
#[test]
fn run_is_compile_for_this_computer() {
    let s = folder();
    for rest in [
        "layer.kb",
        "layer.kb --no-proof",
        "layer.kb --no-data --every-rank",
        "layer.kb --calls 2 --seed 3 --adversarial --seeds 2 --no-time",
        "layer.kb --emit kir",
        "layer.kb --emit kir -o a.kir -q",
        "layer.kb -p infer,place --emit graph",
        "schedule.kir",
        "schedule.kir --no-proof --emit dot",
        "exported",
        "layer.kb -o somewhere",
        "layer.kb --emit tile",
        "layer.kb --no-data -o y=y.npy",
        "layer.kb --no-time --emit trace=t",
    ] {
        let [a, b] =
            [format!("kbc run {rest}"), format!("kbc compile {rest} --target sim")].map(|l| s.line(&l));
        assert_eq!(a, b, "{rest}");
    }
    let proven = |ran: &Ran| ran.stdout.contains("race-free");
    assert!(proven(&s.line("kbc run layer.kb")) && !proven(&s.line("kbc run layer.kb --no-proof")));
    for flag in ["--no-proof", "--no-time"] {
        let ran = s.line(&format!("kbc compile layer.kb --target a2a3 {flag}"));
        assert!(ran.code == 2 && ran.stderr.contains(flag), "{flag}: {}", ran.stderr);
    }
}

fn json(ran: &Ran) -> Value {
    serde_json::from_str(&ran.stdout).unwrap_or_else(|e| panic!("{e}: {}{}", ran.stdout, ran.stderr))
}

#[test]
fn failures_as_json_have_a_kind() {
    let s = folder();
    s.write("syntax.kb", b"program p(\n");
    s.write(
        "lost.kb",
        std::fs::read_to_string(s.path().join("my_ring.kb"))
            .expect("a file")
            .replace("p - 1", "p - 2")
            .as_bytes(),
    );
    s.write("unformatted.kb", b"use   x\n");
    let big = "kbc compile layer.kb --target a2a3 -D tp=4096 --topology ring(4096)";
    for (line, code, kind) in [
        ("kbc run syntax.kb", 1, "invalid"),
        ("kbc check lost.kb", 1, "wrong"),
        (big, 1, "unsupported"),
        ("kbc run nothing.kb", 2, "usage"),
        ("kbc run layer.kb --nonsense", 2, "usage"),
        ("kbc explain E000", 2, "usage"),
        ("kbc fmt syntax.kb --check", 1, "invalid"),
    ] {
        let ran = s.line(&format!("{line} --format json"));
        let found = json(&ran);
        assert_eq!(ran.code, code, "{line}: {}", ran.stderr);
        assert_eq!(
            (&found["failure"]["kind"], &found["failure"]["exit"]),
            (&kind.into(), &code.into()),
            "{line}"
        );
        assert_eq!(found["ok"], false, "{line}");
        assert!(found["failure"]["messages"][0]["code"].is_string(), "{line}");
    }
}

/// Every command that gives a result gives it as one JSON object.
#[test]
fn results_are_json_everywhere() {
    let s = folder();
    let topics =
        ["select", "placement", "overlap", "memory", "window", "traffic", "bound", "path", "links", "order"];
    let explained = topics.iter().map(|t| format!("kbc explain {t} layer.kb"));
    let others = [
        "kbc explain E110",
        "kbc explain window layer.kb --target a2a3",
        "kbc check my_ring.kb",
        "kbc run layer.kb",
        "kbc report layer.kb -o layer.html",
        "kbc list",
        "kbc list passes",
        "kbc new your_ring",
        "kbc fmt layer.kb",
        "kbc opt schedule.kir -p lower-queues -o out.kir",
        "kbc import exported -o model.kb",
        "kbc plot topology ring(4) -o ring.svg",
        "kbc compare ring(4) full(4) --of layer.kb",
        "kbc synth ring(4) all_to_all",
        "kbc repair layer.kb --fail (0)->(1)",
        "kbc sweep sweep.yaml -o rows.csv",
        "kbc sweep sweep.yaml --list",
        "kbc sweep sweep.yaml --emit slurm --shards 2 -o sweep.sh",
        "kbc dev fuzz engines --programs 2",
        "kbc dev fuzz schedules --programs 2",
        "kbc dev fuzz checker --schedules 2",
        "kbc dev fuzz bounds --programs 1",
        "kbc dev fuzz readers --inputs 20",
        "kbc dev mutate my_ring.kb --ranks 3 --limit 5",
        "kbc dev repro figures.yaml",
        "kbc dev bench select --points 1",
        "kbc dev bench scale start --repeat 1",
        "kbc man -o man1",
    ];
    let built = [
        "kbc launch my_ring.kb --repeat 1",
        "kbc calibrate --sizes 4096 --at 4096 --repeat 1",
        "kbc dev bench host all_gather --sizes 8 --algorithm ring --rounds 1 --repeat 1 --no-mpi",
    ];
    let built = built.iter().filter(|_| found(Need::C).is_some()).map(|l| (*l).to_owned());
    for line in explained.chain(others.map(str::to_owned)).chain(built) {
        let ran = s.line(&format!("{line} --format json"));
        assert_eq!(ran.code, 0, "{line}: {}", ran.stderr);
        assert!(json(&ran).is_object() && ran.stdout.lines().count() == 1, "{line}: {}", ran.stdout);
        // An explanation is data: no string is a line of a table or several lines. A page is text.
        let page = line.starts_with("kbc explain E");
        let text =
            line.starts_with("kbc explain") && (ran.stdout.contains("  ") || ran.stdout.contains("\\n"));
        assert!(page || !text, "{line}: {}", ran.stdout);
    }
}
