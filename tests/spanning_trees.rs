//! Spanning trees of an all_reduce whose edges may pass switches.

use crate::common;
use crate::synth::{made, program, run};

use common::{Scratch, kbc};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Writes a machine of ranks around switches, with links of these rates in GB/s, and returns the
/// name of its file. The ranks have a link to every switch.
fn star(s: &Scratch, file: &str, switches: &[&[u64]]) -> String {
    let mut text = format!("devices: {}\nrelays: {}\nlinks:\n", switches[0].len(), switches.len());
    for (switch, rates) in switches.iter().enumerate() {
        for (rank, rate) in rates.iter().enumerate() {
            text += &format!("  '({rank})<->#{switch}': {rate} GB/s, 500 ns\n");
        }
    }
    s.write(file, text.as_bytes());
    file.to_owned()
}

/// The text of a program with an all_reduce over a machine of a file.
fn program_on(file: &str, using: &str) -> String {
    program(&format!("\"{file}\""), "tp", "all_reduce").replace(", USING", using)
}

/// Spanning trees are proven and right on machines of all kinds, as text and named in a program.
#[test]
fn spanning_trees_are_proven_and_right() {
    let s = Scratch::new();
    let slow = star(&s, "slow.yaml", &[&[80, 40, 20, 10, 10]]);
    let two = star(&s, "two.yaml", &[&[40; 4], &[10; 4]]);
    for machine in
        ["ring(5)", "mesh(2, 3)", "switch(4)", "tree(2, 2)", "hierarchy(full(2), switch(3))", &slow]
    {
        for more in [&[][..], &["--trees", "3", "--pieces", "2"]] {
            let made = made(&s, machine, "all_reduce", &[&["--method", "spanning"], more].concat());
            assert!(made["phases"][0]["proof"].is_null(), "{machine}: {made}");
            let report = run(&s, &["-D", "n=1009"]);
            assert_eq!(report["verified"]["ok"], true, "{machine}: {report}");
            assert_eq!(report["verified"]["calls"], "any", "{machine}");
            assert_eq!(report["compare"]["mismatches"], 0, "{machine}");
        }
    }
    for (machine, using) in [(&two, "packed(spanning: 5, via: 1)"), (&slow, "packed(spanning: 2)")] {
        s.write("made.kb", program_on(machine, &format!(", using: {using}")).as_bytes());
        let report = run(&s, &["-D", "n=1009"]);
        assert_eq!(report["verified"]["ok"], true, "{machine}: {report}");
        assert_eq!(report["compare"]["mismatches"], 0, "{machine}");
        let name = report["collectives"][0]["algorithm"].as_str().expect("a name");
        assert!(name.contains("spanning: "), "{name}");
    }
}

/// Where links are not alike, slow ranks are leaves. No other algorithm comes near the bound there.
#[test]
fn select_takes_spanning_trees_where_links_are_not_alike() {
    let s = Scratch::new();
    let timed = |machine: &str, using: &str| -> (String, f64) {
        s.write("made.kb", program_on(machine, using).as_bytes());
        let report = run(&s, &["-D", "n=67108864", "--no-data", "--no-proof"]);
        let name = report["collectives"][0]["algorithm"].as_str().expect("a name");
        (name.to_owned(), report["percent"].as_f64().expect("a bound"))
    };
    let rates = |ranks: usize| (0..ranks).map(|i| 25 << (2 - i % 3)).collect::<Vec<u64>>();
    for (ranks, others) in [(9, 82.0), (17, 60.0)] {
        let machine = star(&s, "rates.yaml", &[&rates(ranks)]);
        let (name, percent) = timed(&machine, "");
        assert!(name.contains("spanning: ") && percent >= 90.0, "{ranks} ranks: {name}: {percent}");
        for using in ["two_phase", "bidirectional_ring", "packed(trees: 1)", "packed(greedy: 8)"] {
            let (_, percent) = timed(&machine, &format!(", using: {using}"));
            assert!(percent < others, "{ranks} ranks: {using}: {percent}");
        }
    }
}

/// The rate and the loads, evaluated on the links of a machine without kbc's model of machines.
#[test]
fn the_trees_carry_what_they_say() {
    let s = Scratch::new();
    let rates = [80u128, 40, 20, 10, 10, 10];
    let machine = star(&s, "slow.yaml", &[&rates.map(|r| r as u64)]);
    let found = made(&s, &machine, "all_reduce", &["--method", "spanning", "--trees", "6"]);
    let phase = &found["phases"][0];
    let whole = |v: &Value| v.as_str().expect("a number").parse::<u128>().expect("a whole number");
    let (ranks, switch) = (rates.len() as u64, rates.len() as u64);
    let mut uses: BTreeMap<u64, u128> = BTreeMap::new();
    let mut number = 0;
    for tree in phase["trees"].as_array().expect("trees") {
        let alike = whole(&tree["trees"]);
        number += alike;
        let mut reached = BTreeSet::from([tree["centre"].as_u64().expect("a node")]);
        for edge in tree["edges"].as_array().expect("edges") {
            let nodes: Vec<u64> =
                edge.as_array().expect("nodes").iter().map(|n| n.as_u64().expect("a node")).collect();
            let [near, middle, far] = nodes[..] else { panic!("not over the switch: {nodes:?}") };
            assert!(middle == switch && reached.contains(&near) && reached.insert(far), "{nodes:?}");
            for end in [near, far] {
                *uses.entry(end).or_insert(0) += alike;
            }
        }
        assert!(reached.into_iter().eq(0..ranks), "every tree spans all ranks");
    }
    assert_eq!(number, 6);
    // Data of rate / 6 goes along each tree. Capacities are in units of the slowest link.
    let rate = [whole(&phase["rate"][0]), whole(&phase["rate"][1])];
    let full = |r: usize| {
        let (carried, limit) = (uses[&(r as u64)] * rate[0], rates[r] / 10 * number * rate[1]);
        assert!(carried <= limit, "rank {r} carries {carried} of {limit}");
        carried == limit
    };
    assert!((0..rates.len()).filter(|&r| full(r)).count() > 0, "no link is full");
    // A slow rank is a leaf of every tree, so the rate is that of its link.
    assert_eq!(rate, [1, 1]);
}

#[test]
fn what_spanning_trees_cannot_do_is_refused() {
    let s = Scratch::new();
    let synth = |machine: &str, collective: &str, more: &[&str]| {
        let ran = kbc(s.path(), &[&["synth", machine, collective], more].concat(), "");
        assert_ne!(ran.code, 0, "{machine} {collective}");
        ran.stderr
    };
    let other = synth("mesh(2, 3)", "broadcast", &["--method", "spanning"]);
    assert!(other.contains("E595") && other.contains("spanning trees carry an all_reduce alone"), "{other}");
    let unlike = "devices: 3\nlinks:\n  (0)<->(1): 5 GB/s, 1 us\n  (1)<->(2): 5 GB/s, 1 us\n  \
         (2)->(0): 5 GB/s, 1 us\n";
    s.write("unlike.yaml", unlike.as_bytes());
    let unlike = synth("unlike.yaml", "all_reduce", &["--method", "spanning"]);
    assert!(unlike.contains("E595") && unlike.contains("unequal capacities"), "{unlike}");
    let text =
        program("ring(8)", "tp", "all_reduce").replace("USING", "using: packed(greedy: 1, spanning: 1)");
    s.write("made.kb", text.as_bytes());
    let both = kbc(s.path(), &["run", "made.kb"], "").stderr;
    assert!(both.contains("E595") && both.contains("`greedy` and `spanning`"), "{both}");
    // The reason is that of the trees that could be taken, and the first plan is kept.
    let ring = synth("ring(700)", "all_gather", &[]);
    assert!(ring.contains("E595") && !ring.contains("spanning"), "{ring}");
    let pieces = ["synth", "ring(8)", "all_reduce", "--method", "spanning", "--pieces", "10000"];
    let kept = kbc(s.path(), &pieces, "");
    assert!(kept.code == 0 && kept.stdout.contains("trees: 2 spanning"), "{}{}", kept.stdout, kept.stderr);
    let many = synth("ring(8)", "all_reduce", &["--method", "spanning", "--trees", "99999999999"]);
    assert!(many.contains("E595") && many.contains("fewer trees need fewer"), "{many}");
    let text = program("ring(8)", "tp", "all_gather").replace("USING", "using: packed(spanning: 1)");
    s.write("made.kb", text.as_bytes());
    let unknown = kbc(s.path(), &["run", "made.kb"], "").stderr;
    assert!(unknown.contains("E006"), "{unknown}");
}
