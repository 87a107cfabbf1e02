//! Tests of traces: the events of ranks, their results, shortened loops, and kernels that are
//! rejected.

use crate::kernels::parse;
use kbc_diag::{Diagnostic, FileId};
use kbc_ir::name::Name;
use kbc_tiles::tile::trace::{Launch, Loops, MemoryPlace, TraceEvent, TraceProgram, trace};
use kbc_tiles::tile::{Kernel, Object, VArg, VecOp};
use std::collections::BTreeMap;

fn read(name: &str) -> Kernel {
    let path = format!("{}/tests/tile/good/{name}.tile", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).expect("it can be read");
    parse(&text, FileId(0)).expect("it is a kernel")
}

fn launch(nranks: i64, rank: i64, call: i64, count: i64) -> Launch {
    Launch { nranks, rank, core: 0, call, scalars: BTreeMap::from([(Name::from("count"), count)]) }
}

/// A trace is the kernel's text with numbers filled in.
#[test]
fn one_rank() {
    let k = read("onephase");
    let events = trace(&k, &launch(3, 1, 5, 5000), Loops::Unrolled, 1000).expect("a trace");
    let lines: Vec<String> = events.iter().map(|e| e.print(&k)).collect();
    let plain: Vec<&str> = lines.iter().map(String::as_str).filter(|l| !l.starts_with("flag.")).collect();
    assert_eq!(
        plain[..11],
        [
            "load $a[4096] = %x[0]",
            "store %out[0] = $a[4096]",
            "load $a[904] = %x[4096]",
            "store %out[4096] = $a[904]",
            "load $a[4096] = %out[0]",
            "store @w0[2][0] at (2) = $a[4096]",
            "load $a[904] = %out[4096]",
            "store @w0[2][4096] at (2) = $a[904]",
            "barrier all",
            "dsb",
            "notify (2) : @w0_arrived[0]",
        ]
    );
    assert_eq!(plain.iter().filter(|l| l.starts_with("wait")).count(), 2);
}

/// Memory of all ranks. A written element has a number, any other has nothing.
struct World<'k> {
    k: &'k Kernel,
    memory: BTreeMap<(usize, Object, i64), Vec<Option<i64>>>,
    tiles: Vec<Vec<Vec<Option<i64>>>>,
    counters: BTreeMap<(usize, u32, i64), i64>,
}

impl World<'_> {
    fn run(&mut self, object: &MemoryPlace, rank: usize) -> &mut Vec<Option<i64>> {
        let owner = object.peer.map_or(rank, |p| p as usize);
        self.memory.entry((owner, object.object, object.slot)).or_insert_with(|| vec![None; 20_000])
    }

    /// Performs one event; returns false if it has to wait.
    fn step(&mut self, rank: usize, e: &TraceEvent) -> bool {
        match e {
            TraceEvent::Load { tile, len, from } => {
                let (at, n) = (from.offset as usize, *len as usize);
                let run = self.run(from, rank)[at..at + n].to_vec();
                self.tiles[rank][tile.0 as usize][..n].copy_from_slice(&run);
            }
            TraceEvent::Store { to, tile, len } => {
                let (at, n) = (to.offset as usize, *len as usize);
                let run = self.tiles[rank][tile.0 as usize][..n].to_vec();
                self.run(to, rank)[at..at + n].copy_from_slice(&run);
            }
            TraceEvent::Vector { op: VecOp::Add, dst, args, len } => {
                let [VArg::Tile(a), VArg::Tile(b)] = args[..] else { panic!("{e:?}") };
                for i in 0..*len as usize {
                    let t = &mut self.tiles[rank];
                    let sum = t[a.0 as usize][i].zip(t[b.0 as usize][i]).map(|(x, y)| x + y);
                    t[dst.0 as usize][i] = sum;
                }
            }
            TraceEvent::Notify { peer, signals, index } => {
                *self.counters.entry((*peer as usize, signals.0, *index)).or_insert(0) += 1;
            }
            TraceEvent::Wait { signals, index, value, deferred: _ } => {
                return self.counters.get(&(rank, signals.0, *index)).copied().unwrap_or(0) >= *value;
            }
            TraceEvent::Order(_) => {}
            other => panic!("{}", other.print(self.k)),
        }
        true
    }
}

/// Runs two launches on all ranks, taking one event of each rank in turn, and returns the results
/// of the last.
fn results(k: &Kernel, nranks: i64, count: i64) -> Vec<Vec<Option<i64>>> {
    let n = nranks as usize;
    let tiles = vec![k.tiles.iter().map(|t| vec![None; t.elements as usize]).collect(); n];
    let mut w = World { k, memory: BTreeMap::new(), tiles, counters: BTreeMap::new() };
    let at = |object| MemoryPlace { object, slot: 0, offset: 0, peer: None };
    let (x, y) = (Object::Tensor(kbc_tiles::tile::TensorId(0)), Object::Tensor(kbc_tiles::tile::TensorId(1)));
    let program = TraceProgram::new(k).expect("names");
    for call in 0..2 {
        let mut queues: Vec<Vec<TraceEvent>> = vec![];
        for r in 0..n {
            for (i, e) in w.run(&at(x), r).iter_mut().enumerate() {
                *e = Some(1000 * (r as i64 + 1) + i as i64 + 7 * call);
            }
            w.run(&at(y), r).fill(None);
            let l = launch(nranks, r as i64, call, count);
            queues.push(program.trace(&l, Loops::Unrolled, 100_000).expect("a trace"));
        }
        let mut done = vec![0; n];
        loop {
            let mut moved = false;
            for r in 0..n {
                if done[r] < queues[r].len() && w.step(r, &queues[r][done[r]]) {
                    done[r] += 1;
                    moved = true;
                }
            }
            if !moved {
                break;
            }
        }
        assert!((0..n).all(|r| done[r] == queues[r].len()), "{nranks} ranks, count {count}: a deadlock");
    }
    (0..n).map(|r| w.run(&at(y), r).clone()).collect()
}

#[test]
fn what_ranks_do_adds_up() {
    for (name, ranks) in [("onephase", vec![2, 3, 5]), ("ring", vec![2, 3, 4, 7])] {
        let k = read(name);
        for nranks in ranks {
            for count in [1, 5, 8, 97, 9000] {
                for (r, y) in results(&k, nranks, count).iter().enumerate() {
                    for (i, v) in y.iter().take(count as usize).enumerate() {
                        let sum = (1..=nranks).map(|q| 1000 * q + i as i64 + 7).sum();
                        assert_eq!(*v, Some(sum), "{name}: rank {r} of {nranks}, element {i} of {count}");
                    }
                }
            }
        }
    }
    let k = read("tables");
    for nranks in [4, 6] {
        for y in results(&k, nranks, 0) {
            assert!(y.iter().take(1000).enumerate().all(|(i, v)| *v == Some(1007 + i as i64)));
        }
    }
}

fn traced(kernel: &Kernel, count: i64, loops: Loops) -> Result<Vec<TraceEvent<'_>>, Diagnostic> {
    trace(kernel, &launch(1, 0, 0, count), loops, 100_000)
}

/// A comparison of beginnings, at any number of events, finds what a comparison of lists finds.
#[track_caller]
fn compared_by_parts(a: &Kernel, b: &Kernel, count: i64, loops: Loops) {
    let (theirs, ours) = (TraceProgram::new(a).expect("names"), TraceProgram::new(b).expect("names"));
    let (Ok(want), Ok(have)) = (traced(a, count, loops), traced(b, count, loops)) else { return };
    let at = launch(1, 0, 0, count);
    let mut events = vec![];
    for most in [0, 1, 2, want.len().saturating_sub(1), want.len(), want.len() + 1] {
        let all = theirs.beginning(&at, loops, 100_000, most, &mut events).expect("traced above");
        assert_eq!((all, events.len()), (most >= want.len(), most.min(want.len())));
        let same = ours.begins_with(&at, loops, 100_000, &events, all).expect("traced above");
        let expected = if all { have == want } else { have.len() > most && have[..most] == want[..most] };
        assert_eq!(same, expected, "{most} of {} events, count {count}", want.len());
    }
}

/// Shortened traces stay short, and distinguish the same kernels as unrolled ones.
#[test]
fn ends_of_loops() {
    let k = read("ring");
    let big = launch(4, 2, 0, 1 << 40);
    let short = trace(&k, &big, Loops::Ends, 10_000).expect("a trace");
    assert!(short.len() < 300, "{}", short.len());
    assert_eq!(short[0], TraceEvent::Tiles { total: 1 << 40, step: 8192 });
    assert_eq!(trace(&k, &big, Loops::Unrolled, 10_000).expect_err("too long").code, "E431");
    let body = |offset: &str, total: &str| {
        let text = format!(
            "tile 1\nkernel @k aiv\nscalar call\nscalar count\ntensor %x : f32[3 * count] in 0\ntile $a : f32[8]\n\n\
             body\n  tiles i, m in {total} by 8\n    let j = {offset}\n    load $a[m] = %x[j]\n"
        );
        parse(&text, FileId(0)).expect("a kernel")
    };
    let forms = [
        "i",
        "2 * i",
        "0",
        "i / 16 * 8",
        "if i < 16 { i } else { i }",
        "min(i, 16)",
        "i + m",
        "count - i",
        "8",
    ]
    .map(|form| (form, body(form, "count")));
    for count in [8, 20, 40, 100] {
        for (a, first) in &forms {
            for (b, second) in &forms {
                let [x, y] = [first, second].map(|k| traced(k, count, Loops::Ends).ok());
                let [u, v] = [first, second].map(|k| traced(k, count, Loops::Unrolled).ok());
                assert_eq!(x.is_some(), u.is_some(), "{a} at {count}");
                // Equal short traces imply equal full traces.
                assert!(x != y || u == v, "{a} and {b} at {count}");
                assert!(a != b || x == y);
                compared_by_parts(first, second, count, Loops::Ends);
                compared_by_parts(first, second, count, Loops::Unrolled);
            }
        }
    }
    // Out of range only in the middle.
    let middle = body("if i == 24 { 3000 } else { i }", "count");
    let middle = traced(&middle, 100, Loops::Ends).expect_err("it leaves %x");
    assert!(middle.title.contains("8 elements from 3000 on exceed the capacity of 300"), "{}", middle.title);
    assert_eq!(traced(&body("i", "0"), 8, Loops::Ends), Ok(vec![]));
    assert_eq!(traced(&body("i", "count - 9"), 8, Loops::Unrolled), Ok(vec![]));
}

#[test]
fn refused() {
    let head = "tile 1\nkernel @k aiv\nscalar nranks\nscalar call\nscalar count\ntensor %x : f32[count] in 0\n\
                table @t nranks 2 = [5, 6]\nsignals @s[2] per call 1\nwindow @w : f32[2 x 16] arena 0\n\
                scratch @v : f32[1 x 16] arena 1\ntile $a : f32[16]\ntile $b : f32[8]\n\nbody\n";
    for (line, why) in [
        ("load $a[9] = %x[0]", "`load $a[9] = %x[0]`: 9 elements from 0 on exceed the capacity of 8"),
        ("load $a[2] = %x[-1]", "2 elements from -1 on"),
        ("load $b[9] = @w[0][0]", "9 elements exceed a tile of 8"),
        ("load $b[-1] = @w[0][0]", "-1 elements exceed a tile of 8"),
        ("store @w[2][0] = $a[1]", "slot 2 does not exist; there are 2"),
        ("store @w[0][1] = $a[16]", "16 elements from 1 on exceed the capacity of 16"),
        ("store @w[0][0] at (nranks) = $a[1]", "peer 2 is not a rank"),
        ("store @v[0][0] at (0) = $a[1]", "peers cannot access this memory"),
        ("load $a[1] = %x[0] at (0)", "peers cannot access this memory"),
        ("add $a[9] = $a, $b", "9 elements exceed a tile of 8"),
        ("notify (-1) : @s[0]", "peer -1 is not a rank"),
        ("notify (0) : @s[2]", "counter 2 does not exist; there are 2"),
        ("wait @s[-1] >= 1", "counter -1 does not exist"),
        ("wait @s[0] >= 1 << 31", "the value 2147483648 does not fit in 32 bits"),
        ("let k = @t[2]", "table @t has no entry 2"),
        ("let k = count / call", "8 / 0"),
        ("let k = other", "`other` has no value here"),
        ("let k = @u[0]", "table @u does not exist"),
        ("tiles i, m in 8 by 0", "step 0"),
        ("for k in 0..1 << 60", "the trace: "),
    ] {
        let k = parse(&format!("{head}  {line}\n"), FileId(0)).expect(line);
        let d = trace(&k, &launch(2, 1, 0, 8), Loops::Unrolled, 100).expect_err(line);
        let names = ["other", "@u"].iter().any(|n| line.contains(n));
        let code = if names {
            "E456"
        } else if line.starts_with("for") {
            "E431"
        } else {
            "E459"
        };
        assert_eq!(d.code, code, "{line}");
        assert!(d.title.contains(why), "{line}: {}", d.title);
    }
    let k = parse(&format!("{head}  let k = @t[0]\n"), FileId(0)).expect("a kernel");
    let three = trace(&k, &launch(3, 1, 0, 8), Loops::Unrolled, 100).expect_err("no table for 3");
    assert!(three.title.contains("table @t has no entry 0"), "{}", three.title);
    let none = Launch { scalars: BTreeMap::new(), ..launch(2, 1, 0, 8) };
    let none = trace(&k, &none, Loops::Unrolled, 100).expect_err("no count");
    assert!(none.title.contains("has no value for scalar count"), "{}", none.title);
}

/// Which copies take turns is in a trace. Equal short traces imply equal turns at all tiles.
#[test]
fn turns_are_in_traces() {
    let body = |by: &str| {
        let text = format!(
            "tile 1\nkernel @k aiv\nscalar call\nscalar count\ntensor %x : f32[count] in 0\n\
             tile $a : f32[8] copies 2\n\nbody\n  tiles j, n in 24 by 8\n    tiles i, m in count by 8\n      \
             turn $a by {by}\n        load $a[m] = %x[i]\n"
        );
        parse(&text, FileId(0)).expect("a kernel")
    };
    let of = |k, count, loops| traced(k, count, loops).expect("a trace");
    let forms = [
        "0",
        "1",
        "i / 8",
        "i / 8 * 3",
        "i / 8 + j / 8",
        "j / 8 * ((count + 7) / 8) + i / 8",
        "j / 8 + 1 - i / 8",
        "i / 16",
        "i / 4",
        "i",
        "m",
        "count",
        "if i < 24 { i / 8 } else { 1 }",
    ]
    .map(|form| (form, body(form)));
    let mut different = 0;
    for count in [8, 20, 40, 100, 200] {
        for (a, first) in &forms {
            for (b, second) in &forms {
                let [x, y] = [first, second].map(|k| of(k, count, Loops::Ends));
                let [u, v] = [first, second].map(|k| of(k, count, Loops::Unrolled));
                assert!(x != y || u == v, "{a} and {b} at {count}");
                assert!(a != b || x == y);
                different += usize::from(u != v);
            }
        }
    }
    assert!(different > 400, "{different}");
    // The turns of panels are affine, so their traces are short.
    let panels = body("j / 8 * ((count + 7) / 8) + i / 8");
    let short = of(&panels, 1 << 40, Loops::Ends);
    assert!(short.len() < 50, "{}", short.len());
    assert_eq!(short[2].print(&panels), "turn by 0");
}

/// Places are counted from the root, so a domain without that rank has none.
#[test]
fn a_root_beyond_the_ranks_is_no_root() {
    let kernel = read("rooted");
    let ends = |kernel: &Kernel| {
        let events = trace(kernel, &launch(4, 0, 0, 8), Loops::Unrolled, 1000);
        events.map(drop).map_err(|d| (d.code, d.title))
    };
    assert_eq!(ends(&kernel), Ok(()));
    let beyond = Kernel { root: Some(4), ..kernel };
    assert_eq!(ends(&beyond), Err(("E459", "the kernel: has root 4 of 4 ranks".to_owned())));
}
