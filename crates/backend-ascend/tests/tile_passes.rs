//! Tests of the passes of the tile level: layout, addresses, fences and flags.

use crate::kernels;

use kbc_backend_ascend::passes::{PASSES, buffers, complete};
use kbc_backend_ascend::profile::{PROFILES, Profile, find};
use kbc_diag::FileId;
use kbc_ir::expr::Expr;
use kbc_ir::name::Name;
use kbc_ir::types::DType;
use kbc_tiles::layout;
use kbc_tiles::tile::order::{Fault, analyse};
use kbc_tiles::tile::sync::counts;
use kbc_tiles::tile::*;
use kernels::*;

fn profile() -> &'static Profile {
    find("a2a3sim").expect("a profile")
}

fn done(mut k: Kernel) -> Kernel {
    complete(&mut k, profile()).expect("a kernel that can be completed");
    k
}

fn at(e: &Expr, count: i64, nranks: i64) -> i64 {
    let env = |n: &Name| match n.as_str() {
        "count" => Some(count),
        "nranks" => Some(nranks),
        _ => None,
    };
    e.eval(&env).expect("a size")
}

#[test]
fn direct_has_the_flags_that_a_person_would_write() {
    let k = done(direct());
    let text = "set MTE3>MTE2 0
set MTE3>MTE2 4
; copy out = x
tiles i
  wait MTE3>MTE2 0
  load a
  set MTE2>MTE3 0
  wait MTE2>MTE3 0
  store a
  set MTE3>MTE2 0
set MTE3>MTE2 1
wait MTE3>MTE2 1
for k
  let peer
  tiles i
    wait MTE3>MTE2 0
    load a
    set MTE2>MTE3 0
    wait MTE2>MTE3 0
    store a
    set MTE3>MTE2 0
  barrier ALL
  dsb
  notify
for k
  wait
  barrier ALL
  tiles i
    wait MTE3>MTE2 0
    load a
    load b
    set MTE2>V 0
    wait MTE2>V 0
    add a
    set V>MTE3 0
    wait V>MTE3 0
    store a
    set MTE3>MTE2 0
wait MTE3>MTE2 0
wait MTE3>MTE2 4
";
    assert_eq!(short(&k), text);
    let c = counts(&k);
    assert_eq!((c.all, c.all_in_tiles, c.flags, c.dsb, c.pipe), (2, 0, 10, 1, 0));
}

#[test]
fn completed_kernels_are_ordered_and_pass_by_pass_is_the_same() {
    for (name, k) in all() {
        assert_ne!(analyse(&k), [], "{name} has nothing to be done");
        let whole = done(k.clone());
        assert_eq!(analyse(&whole), [], "{name}\n{}", short(&whole));
        let mut steps = k;
        PASSES.iter().for_each(|p| (p.run)(&mut steps, profile()).expect(p.name));
        assert_eq!(steps, whole);
        assert_eq!(done(whole.clone()), whole, "completing twice changes nothing: {name}");
        assert_eq!(counts(&whole).all_in_tiles, 0, "{name}");
    }
}

#[test]
fn a_release_after_a_release_needs_nothing() {
    let notify = |i| Stmt::Op(Op::Notify { peer: int(0), signals: SignalsId(0), index: int(i) });
    let mut k = direct();
    k.body.truncate(2);
    k.body.extend([Stmt::Op(Op::Release), notify(0), Stmt::Op(Op::Release), notify(1)]);
    let c = counts(&done(k));
    assert_eq!((c.all, c.dsb), (1, 1));
}

#[test]
fn a_wait_without_an_acquire_gets_its_barrier_outside_loops() {
    let mut k = direct();
    let wait = Stmt::Op(Op::Wait { signals: SignalsId(0), index: v("k"), value: int(1) });
    let (lo, hi) = (int(0), v("nranks"));
    k.body.drain(2..);
    k.body.insert(0, Stmt::For { var: "k".into(), lo, hi, body: vec![wait] });
    let k = done(k);
    assert!(short(&k).contains("\nfor k\n  wait\n; copy out = x\nbarrier ALL\ntiles i\n"), "{}", short(&k));
    assert_eq!(analyse(&k), []);
}

#[test]
fn events_differ_where_the_last_wait_may_not_be_over() {
    // MTE2 does not know that V has finished its wait for the first load.
    let one = |t| load(t, gm(X, int(0), int(0)));
    let mut body = vec![];
    for i in 0..10 {
        body.push(one(TileId(i)));
        let args = vec![VArg::Tile(TileId(i)), VArg::Num(1.0)];
        body.push(Stmt::Op(Op::Vector { op: VecOp::Add, dst: TileId(i), args, len: v("m") }));
    }
    let mut k = frame(vec![Stmt::If { cond: v("count"), then: body, other: vec![] }]);
    k.tiles = (0..10).map(|i| tile(&format!("t{i}"), DType::F32, 64)).collect();
    let k = done(k);
    assert_eq!(analyse(&k), []);
    assert!(short(&k).contains("set MTE2>V 7"), "{}", short(&k));
    // After eight events, none is left: then all pipes wait, once.
    assert_eq!(counts(&k).all, 1, "{}", short(&k));
    assert_eq!(counts(&k).flags, 9, "{}", short(&k));
}

#[test]
fn rows_of_one_tile_loop_do_not_meet() {
    // In place: each tile is read and written at the same addresses, so only the reuse of the tile
    // needs order.
    let body = vec![load(A, gm(OUT, int(0), v("i"))), store(gm(OUT, int(0), v("i")), A)];
    let flags = |mut k: Kernel| {
        k.body.iter_mut().for_each(|s| {
            if let Stmt::Tiles { body, .. } = s {
                body.insert(0, Stmt::Op(Op::SetFlag { from: Pipe::Load, to: Pipe::Store, event: 7 }));
                body.insert(1, Stmt::Op(Op::WaitFlag { from: Pipe::Load, to: Pipe::Store, event: 7 }));
            }
        });
        let unordered = |f: &order::Finding| matches!(f.fault, Fault::Unordered { access: 1, .. });
        analyse(&k).iter().filter(|f| unordered(f)).count()
    };
    // The store after the load of the same elements is the only conflict in memory outside UB.
    assert_eq!(flags(frame(vec![tiles(v("count"), body.clone())])), 1);
    // One element further, the store also conflicts with the load of the next iteration.
    let body = vec![load(A, gm(OUT, int(0), v("i") + int(1))), body[1].clone()];
    assert!(flags(frame(vec![tiles(v("count"), body)])) > 1);
}

/// Stores of a loop that go to blocks apart need no order among each other; where it is not certain
/// that they are apart, a barrier stands in front of the loop over tiles, once in each iteration.
#[test]
fn stores_of_blocks_that_are_apart_are_not_ordered() {
    let barriers = |place: &str, chunk: &str, size: &str, bounds: &str| -> Vec<String> {
        let text = format!(
            "tile 1\nkernel @k aiv\nscalar nranks\nscalar count\nscalar call\ntensor %x : f32[count] in 0\n\
             tensor %out : f32[count] out 0\nwindow @w : f32[nranks x count] arena 0\ntile $a : f32[4096]\n\nbody\n  \
             for k in {bounds}\n    let chunk = {chunk}\n    let first = (count * chunk + nranks - 1) / nranks\n    \
             let size = {size}\n    tiles i, m in size by 4096\n      load $a[m] = %x[first + i]\n      \
             store {place}[i + first] = $a[m]\n"
        );
        let k = parse(&text, FileId(0)).unwrap_or_else(|e| panic!("{e:?}\n{text}"));
        let printed = kbc_tiles::tile::text::print(&done(k));
        printed.lines().filter(|l| l.contains("barrier MTE3")).map(str::to_owned).collect()
    };
    let cut = "(count * (chunk + 1) + nranks - 1) / nranks - first";
    let (out, ring, most) = ("%out", "(rank - k) % nranks", "1..nranks");
    for (place, chunk, size, bounds) in [
        (out, ring, cut, most),
        (out, "(rank + k) % nranks", cut, "0..nranks"),
        (out, "k", cut, "0..7"),
        ("@w[k]", "0", cut, most),
        ("@w[2 * k + call % 2]", "0", cut, most),
    ] {
        assert_eq!(barriers(place, chunk, size, bounds), [""; 0], "{place} {chunk} {size} {bounds}");
    }
    for (place, chunk, size, bounds) in [
        // Two iterations have one chunk.
        (out, ring, cut, "0..nranks + 1"),
        (out, "(rank - 2 * k) % nranks", cut, most),
        (out, "k / 2", cut, most),
        (out, "(rank - k) % nranks + k", cut, most),
        // Chunks that do not end where the next one begins.
        (out, ring, "(count * (chunk + 1) + nranks - 1) / nranks - first + 1", most),
        (out, ring, "count", most),
        // A cut that does not rise.
        (out, "rank * k", cut, most),
        ("@w[k / 2]", "0", cut, most),
        ("@w[k % 2]", "0", cut, most),
    ] {
        let found = barriers(place, chunk, size, bounds);
        assert_eq!(found, ["    barrier MTE3"], "{place} {chunk} {size} {bounds}");
    }
}

#[test]
fn the_window_is_laid_out_in_lines() {
    let mut k = direct();
    k.areas.push(area("own", int(1), Reach::Own, 1));
    k.areas.push(area("late", int(3), Reach::Peers, 2));
    k.areas.push(Area { dtype: DType::U8, ..area("shared", v("nranks"), Reach::Own, 2) });
    let k = done(k);
    for (count, nranks) in [(1, 2), (1000, 5), (0, 3), (65, 64)] {
        let slot = (count * 4 + 63) / 64 * 64;
        let w0 = (nranks - 1) * 64;
        let late = w0 + 2 * (nranks - 1) * slot;
        let own = late + (3 * slot).max(nranks * ((count + 63) / 64 * 64));
        assert_eq!(at(k.signals[0].at.as_ref().expect("an offset"), count, nranks), 0);
        assert_eq!(at(&layout::bytes(&k), count, nranks), own + slot);
        let area = |i: usize| at(k.areas[i].at.as_ref().expect("an offset"), count, nranks);
        assert_eq!((area(0), area(1), area(2), area(3)), (w0, own, late, late));
    }
    assert_eq!(at(&layout::calls(&k), 1, 4), i64::from(i32::MAX));
    let mut twice = k;
    twice.signals[0].per_call = v("nranks");
    assert_eq!(at(&layout::calls(&twice), 1, 4), i64::from(i32::MAX) / 4);
}

#[test]
fn tiles_fill_the_buffer_and_no_more() {
    let mut k = frame(vec![]);
    k.tiles = vec![tile("a", DType::BF16, 3), tile("b", DType::F32, 46_000)];
    buffers::run(&mut k, profile()).expect("they fit");
    assert_eq!([k.tiles[0].at, k.tiles[1].at], [Some(0), Some(512)]);
    k.tiles.push(tile("c", DType::F32, 1000));
    let e = buffers::run(&mut k, profile()).expect_err("they do not");
    assert_eq!(e.list[0].code, "E450");
    assert!(e.list[0].title.contains("188928 bytes"), "{}", e.list[0].title);
}

#[test]
fn profiles_say_what_they_know() {
    for p in &PROFILES {
        assert_eq!(p.simulator, p.name.ends_with("sim"));
        assert!(p.runtime("tensormap_and_ringbuffer").is_ok() && p.runtime("host_build_graph").is_ok());
        assert_eq!(p.runtime("aicpu_build_graph").expect_err("refused").code, "E451");
        assert!(p.runtime("x").is_err());
        // An exact conversion is offered as exact.
        assert_eq!(p.convert(DType::BF16, DType::F32), [Rounding::Exact]);
        assert!(p.convert(DType::F32, DType::BF16).contains(&Rounding::Nearest));
        assert!(p.convert(DType::F16, DType::BF16).is_empty());
        assert!(p.vector(VecOp::Add, DType::BF16, false).is_err());
        assert!(p.vector(VecOp::Div, DType::F32, true).is_err());
        assert_eq!(p.mask_bytes(4096, DType::F32), 512 + 32);
        assert_eq!(p.mask_bytes(1, DType::F32), 32 + 32);
    }
    assert!(find("a3").is_none());
}
