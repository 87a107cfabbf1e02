//! Tests of the packed trees that `select` finds: more effort finds faster ones, and numbers of
//! trees are priced and kept.

use crate::common;
use crate::synth::{COLLECTIVES, program};

use common::{Scratch, kbc, root};
use serde_json::Value;

/// `--effort` is the option of the pass, and a key of sweeps.
#[test]
fn more_effort_finds_faster_trees() {
    let s = Scratch::new();
    s.write("made.kb", program("mesh(4, 4)", "tp", "all_reduce").replace(", USING", "").as_bytes());
    let report = |more: &[&str]| -> Value {
        let size = ["run", "made.kb", "-D", "n=67108864", "--no-data", "--no-proof", "--format", "json"];
        let ran = kbc(s.path(), &[&size[..], more].concat(), "");
        assert_eq!(ran.code, 0, "{more:?}: {}", ran.stderr);
        serde_json::from_str(&ran.stdout).expect("JSON")
    };
    let (none, some, more) = (report(&["--effort", "0"]), report(&[]), report(&["--effort", "4"]));
    let algorithm = |r: &Value| r["collectives"][0]["algorithm"].as_str().expect("a name").to_owned();
    assert!(!algorithm(&none).starts_with("packed"), "{}", algorithm(&none));
    let time = |r: &Value| r["time_ns"].as_f64().expect("a time");
    assert!(time(&more) < time(&some) && time(&some) < time(&none), "{more:#}");
    assert!(more["messages"].as_u64() > some["messages"].as_u64());
    let by_pass = ["--passes", "infer,place,select{effort=4},overlap,expand,allocate,synchronize"];
    assert_eq!((time(&report(&by_pass)), time(&report(&["--effort", "1"]))), (time(&more), time(&some)));

    s.write(
        "grid.yaml",
        b"sweep: 1\ntitle: Effort\nfile: made.kb\ndefine: {n: 1048576}\naxes: {effort: [0, 4]}\neffort: '{effort}'\n",
    );
    let swept = kbc(s.path(), &["sweep", "grid.yaml", "-o", "grid.csv"], "");
    assert_eq!(swept.code, 0, "{}", swept.stderr);
    let rows = String::from_utf8(s.files().remove("grid.csv").expect("a table")).expect("text");
    let taken: Vec<bool> = rows.lines().skip(1).map(|row| row.contains("packed(")).collect();
    assert_eq!(taken, [false, true], "{rows}");

    for wrong in ["17", "-1", "much"] {
        let ran = kbc(s.path(), &["run", "made.kb", &format!("--effort={wrong}")], "");
        assert!(ran.code == 2 && ran.stderr.contains("--effort <K>"), "{}", ran.stderr);
        let grid =
            format!("sweep: 1\ntitle: Effort\nfile: made.kb\naxes: {{k: ['{wrong}']}}\neffort: '{{k}}'\n");
        s.write("grid.yaml", grid.as_bytes());
        let ran = kbc(s.path(), &["sweep", "grid.yaml", "-o", "grid.csv"], "");
        assert!(ran.code != 0 && ran.stderr.contains("an integer from 0 to 16"), "{}", ran.stderr);
    }
}

/// A number of trees that the program names is one of the arguments that later passes see, for
/// every collective.
#[test]
fn a_number_of_trees_is_kept() {
    let s = Scratch::new();
    let made = |collective: &str, using: &str| {
        let text = program("mesh(2, 3)", "tp", collective).replace("USING", &format!("using: {using}"));
        s.write("made.kb", text.as_bytes());
        let ran = kbc(s.path(), &["compile", "made.kb", "--emit", "kir=made.kir", "--no-data"], "");
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        String::from_utf8(s.files().remove("made.kir").expect("was written")).expect("text")
    };
    for collective in COLLECTIVES.into_iter().filter(|c| *c != "all_to_all") {
        let kir = made(collective, "packed(trees: 3)");
        assert!(kir.contains("trees: 3"), "{collective}: {kir}");
        // Others would have other messages.
        assert_ne!(kir.matches("put ").count(), 0);
        assert_ne!(kir, made(collective, "packed(trees: 1)"), "{collective}");
    }
}

/// Numbers of spanning trees are tried: here they are faster than packed and matched trees.
#[test]
fn select_prices_numbers_of_trees() {
    let s = Scratch::new();
    let machine = root().join("specs/corpus/mi250_8_8.yaml").display().to_string();
    let timed = |using: &str| -> Value {
        s.write("made.kb", program("ring(4)", "tp", "all_reduce").replace(", USING", using).as_bytes());
        let words = ["run", "made.kb", "-D", "n=4194304", "--topology", &machine, "--no-data", "--no-proof"];
        let ran = kbc(s.path(), &[&words[..], &["--format", "json"]].concat(), "");
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        serde_json::from_str(&ran.stdout).expect("JSON")
    };
    let (chosen, trees, greedy) =
        (timed(""), timed(", using: packed(pieces: 1, via: 1)"), timed(", using: packed(greedy: 8)"));
    let name = chosen["collectives"][0]["algorithm"].as_str().expect("a name");
    assert!(name.contains("spanning: "), "{name}");
    let time = |r: &Value| r["time_ns"].as_f64().expect("a time");
    assert!(time(&chosen) < 0.9 * time(&trees).min(time(&greedy)), "{chosen:#}");
}

/// Runs a library program of a collective on a machine without data, and returns its report.
fn timed_on(s: &Scratch, collective: &str, machine: &str, n: u64) -> Value {
    let file = root().join(format!("specs/{collective}.kb")).display().to_string();
    let define = format!("n={n}");
    let words = ["run", &file, "-D", &define, "--topology", machine, "--no-data", "--no-proof"];
    let ran = kbc(s.path(), &[&words[..], &["--format", "json"]].concat(), "");
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    serde_json::from_str(&ran.stdout).expect("JSON")
}

/// Returns the algorithm that is chosen on a machine of the corpus, and its percent of the bound.
fn chosen_on(s: &Scratch, collective: &str, machine: &str, n: u64) -> (String, f64) {
    let chosen = timed_on(s, collective, &machine_file(machine), n);
    let name = chosen["collectives"][0]["algorithm"].as_str().expect("a name");
    (name.to_owned(), chosen["percent"].as_f64().expect("a bound"))
}

fn machine_file(name: &str) -> String {
    root().join(format!("specs/corpus/{name}.yaml")).display().to_string()
}

/// Packed trees are taken for a small gain where only they come near the bound, and not where a
/// library algorithm with an option does.
#[test]
fn trees_of_small_gain_are_taken_only_where_nothing_else_is_near_the_bound() {
    let s = Scratch::new();
    let taken = |report: &Value| {
        let name = report["collectives"][0]["algorithm"].as_str().expect("a name").to_owned();
        (name, report["percent"].as_f64().expect("a bound"))
    };
    let (name, percent) = taken(&timed_on(&s, "all_gather", &machine_file("fat_tree_8x4_4to1"), 1 << 21));
    assert!(name.starts_with("packed(") && percent >= 95.0, "{name}: {percent}");
    for machine in ["ring(3) { link: 50 GB/s, 500 ns }", "full(4) { link: 50 GB/s, 500 ns }"] {
        let (name, percent) = taken(&timed_on(&s, "all_reduce", machine, 1 << 18));
        assert!(name.ends_with("with (instances: 2)") && percent >= 95.0, "{machine}: {name}: {percent}");
    }
}

/// What `kbc explain select` says of the first collective of a library program.
fn explained(s: &Scratch, collective: &str, machine: &str, n: u64) -> Value {
    let file = root().join(format!("specs/{collective}.kb")).display().to_string();
    let define = format!("n={n}");
    let words = ["explain", "select", &file, "-D", &define, "--topology", machine, "--format", "json"];
    let ran = kbc(s.path(), &words, "");
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let all: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    all["collectives"][0].clone()
}

/// The share of the best certified rate is that of the bound where trees attain it, more where the
/// best known trees do not, and unknown where something else than links takes time.
#[test]
fn shares_of_the_certified_rate_are_those_of_known_trees() {
    let s = Scratch::new();
    let shares = |collective: &str, machine: &str, n: u64| {
        let found = explained(&s, collective, machine, n);
        (found["percent"].as_f64().expect("a bound"), found["certified_percent"].as_f64())
    };
    for collective in ["all_reduce", "all_gather", "broadcast"] {
        let (of_bound, certified) = shares(collective, "mesh(2, 4) { link: 50 GB/s, 500 ns }", 1 << 22);
        let certified = certified.expect("trees are known");
        assert!((certified - of_bound).abs() < 1e-6, "{collective}: {certified}, {of_bound}");
    }
    // Links that differ both ways: an all_reduce is a reduce_scatter and an all_gather.
    let one_way = "devices: 3\nlinks:\n  (0)->(1): 50 GB/s, 500 ns\n  (1)->(2): 50 GB/s, 500 ns\n  \
         (2)->(0): 50 GB/s, 500 ns\n  (0)->(2): 5 GB/s, 500 ns\n";
    s.write("one_way.yaml", one_way.as_bytes());
    let (of_bound, certified) = shares("all_reduce", "one_way.yaml", 1 << 22);
    let certified = certified.expect("trees are known");
    assert!(certified > of_bound + 2.0 && (90.0..=100.0).contains(&certified), "{certified}, {of_bound}");
    let slow = "mesh(2, 3) { link: 50 GB/s, 500 ns; vector: 100 GB/s }";
    assert_eq!(shares("all_reduce", slow, 1 << 16).1, None);
}

/// The cost model gives links to messages in the order of the simulation, and lets ranks see the
/// messages of several routes in order.
#[test]
fn prices_are_near_the_times_of_schedules() {
    let s = Scratch::new();
    let cases = [
        ("all_reduce", machine_file("random_rates_16_4"), 1 << 22, "packed", 0.03),
        ("all_reduce", "torus(2, 3) { link: 50 GB/s, 500 ns }".to_owned(), 1_000_000, "two_phase", 1e-6),
    ];
    for (collective, machine, n, algorithm, within) in cases {
        let found = explained(&s, collective, &machine, n);
        let all = found["candidates"].as_array().expect("candidates");
        let named = |c: &&Value| c["algorithm"].as_str().is_some_and(|a| a.starts_with(algorithm));
        let candidate = all.iter().find(named).expect("was tried");
        let ns = |of: &str| candidate[of].as_f64().expect("a time");
        let (model, simulated) = (ns("model_ns"), ns("simulated_ns"));
        assert!((model / simulated - 1.0).abs() < within, "{algorithm} on {machine}: {model}, {simulated}");
    }
}

/// Where messages name relays and the plan is far from its busiest link, numbers of trees are
/// priced although the estimate of the plan holds.
#[test]
fn numbers_of_trees_are_priced_where_trees_wait_for_each_other() {
    let s = Scratch::new();
    let (name, percent) = chosen_on(&s, "all_gather", "mi250_8_8", 1 << 18);
    assert!(name.contains("trees: 2") && percent > 58.0, "{name}: {percent} %");
}

/// Two matched trees that gain nothing do not end the search for more of them.
#[test]
fn a_broadcast_has_as_many_matched_trees_as_are_fastest() {
    let s = Scratch::new();
    let (name, percent) = chosen_on(&s, "broadcast", "h100_4x8", 1 << 14);
    assert!(name.contains("greedy: 32") && percent > 37.0, "{name}: {percent} %");
}

/// Orders of three axes are tried where they differ, and not on a cube of equal links.
#[test]
fn orders_of_three_axes_are_tried_where_they_differ() {
    let s = Scratch::new();
    let orders = |report: &Value| report["search"]["orders"].as_u64().expect("a number");
    let names = |report: &Value| -> Vec<String> {
        let list = report["candidates"].as_array().expect("a list");
        list.iter().map(|c| c["algorithm"].as_str().expect("a name").to_owned()).collect()
    };
    let even = explained(&s, "all_reduce", "torus(3, 3, 3) { link: 50 GB/s, 500 ns }", 1 << 20);
    assert_eq!((orders(&even), names(&even).iter().any(|n| n.contains("order: "))), (0, false));
    // The links of the first axis are slow, so little of the vector should go along it.
    let slow = "kbc: 1\nshape: torus(3, 3, 2)\nlink: 50 GB/s, 500 ns\nlinks:\n  x: 10 GB/s, 500 ns\n";
    s.write("slow.yaml", slow.as_bytes());
    let uneven = explained(&s, "all_reduce", "slow.yaml", 1 << 20);
    // Five orders of `torus3`, and the arguments of `centre_root`.
    assert_eq!(orders(&uneven), 6);
    assert!(names(&uneven).iter().any(|n| n.starts_with("torus3(") && n.contains("order: ")), "{uneven:#}");
}

/// A fence for every message is not in the prices of small messages: the lowest price is simulated,
/// and what is faster is taken.
#[test]
fn small_messages_that_pay_fences_are_not_taken() {
    let s = Scratch::new();
    for (collective, machine, rate, n, most) in
        [("broadcast", "mesh(2, 2, 3)", 50, 6327, 6300.0), ("reduce_scatter", "torus(2, 6)", 5, 8606, 7000.0)]
    {
        let machine = format!("{machine} {{ link: {rate} GB/s, 500 ns; fence: 300 ns }}");
        let report = timed_on(&s, collective, &machine, n);
        assert!(report["time_ns"].as_f64().expect("a time") < most, "{collective}: {report:#}");
    }
}
