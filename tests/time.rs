//! Tests of time, over every algorithm of the library on several machines: the walk for time gives
//! the same acts, in summary, as the cursor, and one rank of each orbit gives the same times as all
//! ranks.

use crate::cases::all_cases;
use crate::driver;

use driver::{library, try_build};
use kbc_ir::schedule::Schedule;
use kbc_ir::walk::{Brief, Cursor, Outline, Program, Step, Walks};
use kbc_machine::topology::Topology;
use kbc_time::{TimeOptions, Timing, Walked, simulate};

/// Machines and sizes: chunks of equal and of unequal length, powers of two and others, one axis
/// and two.
const CASES: [(&str, u64); 10] = [
    ("ring(8)", 4096),
    ("ring(7)", 1000),
    ("full(6)", 999),
    ("torus(4,4)", 1024),
    ("torus(2,3)", 1001),
    ("mesh(4,2)", 3),
    ("ring(1)", 5),
    ("ring(2)", 64),
    ("ring(9)", 90),
    ("torus(2,2,3)", 24),
];

/// Compares both walks of every stream, to the end or to the first fault. Returns the number of
/// acts.
fn same(what: &str, schedule: &Schedule, calls: i64) -> usize {
    let spelled = kbc_ir::host::with_host_region(schedule);
    let program = Program::compile(&spelled).expect("the schedule has its names");
    let outline = Outline::new(&program, calls);
    let streams = program.streams.len() as u32;
    let who = (0..program.ranks()).flat_map(|r| (0..streams).map(move |s| (r, s)));
    let mut walks = Walks::new(&outline, who.clone());
    let mut acts = 0;
    for (i, (rank, stream)) in who.enumerate() {
        for call in 0..calls {
            walks.restart(&outline, i, call);
            let mut cursor = Cursor::new(&program, rank, stream, call);
            loop {
                let old = cursor.next_step().map(|s| match s {
                    None => (Brief::Over, 0),
                    Some(Step::Enter(r)) => (Brief::Enter(r), 0),
                    Some(Step::Leave(r)) => (Brief::Leave(r), 0),
                    Some(Step::Act(act, _, number)) => (Brief::of(&program, &act), number),
                });
                let mut new = (Brief::Over, 0);
                let new = walks.next(&outline, i, &mut new).map(|()| new).map_err(|f| *f);
                assert_eq!(new, old, "{what}, rank {rank}, stream {stream}, call {call}");
                acts += 1;
                if matches!(old, Err(_) | Ok((Brief::Over, _))) {
                    break;
                }
            }
        }
    }
    acts
}

/// Returns files of the library with the names of their algorithms for `--algorithm`.
fn algorithms() -> Vec<(String, String)> {
    let library = library();
    let names = kbc_frontend::library::LIBRARY.iter().map(|(name, _)| *name);
    let files: Vec<(String, String)> = names
        .map(|f| format!("specs/lib/{}", f.trim_start_matches("<lib>/")))
        .map(|f| (std::fs::read_to_string(&f).expect("a file of the library"), f))
        .collect();
    // The library's own collectives are checked and not run.
    let ours = library.algorithms().filter(|id| {
        let coll = &library.algorithm(*id).coll.node;
        kbc_frontend::lower::operations().contains(&coll.as_str())
    });
    let named = ours.map(|id| {
        let a = library.algorithm(id);
        let (name, coll) = (&a.name.node, &a.coll.node);
        let file = files.iter().find(|(text, _)| {
            // A head may have several lines.
            let text = format!("\n{text}");
            let mut heads = text.split("\nalgorithm ").skip(1).filter_map(|t| t.split('{').next());
            heads.any(|head| {
                head.starts_with(name.as_str())
                    && !head[name.len()..].starts_with(|c: char| c.is_alphanumeric() || c == '_')
                    && head.contains(&format!(": {coll} "))
            })
        });
        (file.unwrap_or_else(|| panic!("{coll}.{name} is in no file")).1.clone(), format!("{coll}.{name}"))
    });
    named.collect()
}

#[test]
fn the_library() {
    let (mut schedules, mut acts) = (0, 0);
    let mut seen = std::collections::BTreeSet::new();
    for (file, name) in algorithms() {
        for (machine, n) in CASES {
            let define = format!("n={n}");
            // Some need a power of two, or two axes.
            let Ok(job) = try_build(&[&file, "--algorithm", &name, "--topology", machine, "-D", &define])
            else {
                continue;
            };
            schedules += 1;
            seen.insert(name.clone());
            acts += same(&format!("{name} on {machine}, n = {n}"), job.schedule(), 3);
        }
    }
    assert_eq!(seen.len(), algorithms().len(), "{seen:?}");
    assert!(schedules > 150 && acts > 100_000, "{schedules} {acts}");
}

#[test]
fn schedules_by_hand() {
    let mut seen = 0;
    for dir in ["good", "bad", "check"] {
        for entry in std::fs::read_dir(format!("crates/ir/tests/kir/{dir}")).expect("the folder is there") {
            let path = entry.expect("an entry").path();
            let text = std::fs::read_to_string(&path).expect("a file");
            let Ok(module) = kbc_ir::text::parse(kbc_diag::FileId(0), &text) else { continue };
            let Some(schedule) = module.schedule() else { continue };
            if !kbc_ir::verify::verify(&module).has_errors() {
                same(&path.display().to_string(), schedule, 3);
                seen += 1;
            }
        }
    }
    assert!(seen > 20, "{seen}");
}

/// Returns everything that is reported except how it was computed, and that separately.
fn timing(schedule: &Schedule, machine: &Topology, options: &TimeOptions) -> (Timing, Walked) {
    let mut t = simulate(schedule, machine, options).unwrap_or_else(|d| panic!("{d:#?}"));
    let walked = std::mem::replace(&mut t.walked, Walked::Orbits(0));
    (t, walked)
}

#[test]
fn one_rank_of_each_orbit_gives_the_times_of_all() {
    let rates = "fence: 11 ns; vector: 7 GB/s; device: 1 TFLOP/s, 9 GB/s";
    let machines = [
        ("ring(8)", "link: 50 GB/s, 500 ns"),
        ("ring(8)", "link: 3 GB/s, 70 ns"),
        ("ring(7)", "link: 50 GB/s, 500 ns"),
        ("ring(2)", "link: 50 GB/s, 500 ns"),
        ("full(8)", "link: 50 GB/s, 500 ns"),
        ("full(6)", "link: 3 GB/s, 70 ns"),
        ("switch(8)", "link: 50 GB/s, 500 ns"),
        ("switch(5)", "link: 3 GB/s, 70 ns"),
        ("hierarchy(full(4), ring(2))", "link: 50 GB/s, 500 ns; link x: 10 GB/s, 2 us"),
        ("hierarchy(switch(2), switch(3))", "link: 3 GB/s, 70 ns"),
        ("tree(2, 3)", "link: 50 GB/s, 500 ns"),
        ("torus(4,4)", "link: 50 GB/s, 500 ns"),
        ("torus(2,3)", "link: 3 GB/s, 70 ns"),
        ("mesh(2,4)", "link: 3 GB/s, 70 ns"),
        ("torus(2,2,3)", "link: 3 GB/s, 0 ns"),
    ];
    let (mut by_orbits, mut named, mut why) = (0, std::collections::BTreeSet::new(), vec![]);
    for (i, (file, name)) in algorithms().into_iter().enumerate() {
        for (j, (shape, link)) in machines.into_iter().enumerate() {
            for (k, (n, own)) in [(0, ""), (840, ""), (1001, ""), (840, rates)].into_iter().enumerate() {
                // Every algorithm on every machine with one of the sizes, or a third of those.
                if (i + j + k) % 4 != 0 || !(all_cases() || (i + 2 * j) % 3 == 0) {
                    continue;
                }
                let define = format!("n={n}");
                let words = [&file, "--algorithm", &name, "--topology", shape, "-D", &define];
                let Ok(job) = try_build(&words) else { continue };
                let text = format!("{shape} {{ {link}; {own} }}");
                let machine = Topology::parse(&text, kbc_diag::FileId(0)).expect("a machine");
                for (calls, path) in [(1, true), (1, false), (3, true)] {
                    let options = TimeOptions { calls, path, ..TimeOptions::default() };
                    let every = TimeOptions { every_rank: true, ..options.clone() };
                    let (some, walked) = timing(job.schedule(), &machine, &options);
                    let (all, forced) = timing(job.schedule(), &machine, &every);
                    assert_eq!(forced, Walked::Every("as requested".into()));
                    assert_eq!(
                        some, all,
                        "{name} on {text}, n = {n}, {calls} calls, path {path}: {walked:?}"
                    );
                    match walked {
                        Walked::Orbits(_) => {
                            by_orbits += 1;
                            named.insert(name.clone());
                        }
                        Walked::Every(reason) => why.push(reason),
                    }
                }
            }
        }
    }
    why.sort();
    why.dedup();
    let least = if all_cases() { 500 } else { 150 };
    assert!(by_orbits > least && named.len() >= 12, "{by_orbits} of {named:?}, the others: {why:#?}");
    // The fallbacks must occur, or they would not be tested.
    for reason in ["critical paths are equally long", "differ in length"] {
        assert!(why.iter().any(|w| w.contains(reason)), "{reason}: {why:#?}");
    }
}
