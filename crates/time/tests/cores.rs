//! Tests of the cores of a machine (docs/explanation/time.md, "Cores"): what one stream moves,
//! several streams together, queues that copy on their own, notifies through memory, and a core's
//! share of the memory.

use crate::time_kit;

use kbc_machine::topology::{DeviceId, Pace};
use kbc_time::*;
use time_kit::*;

fn contiguous(t: &Timing) {
    assert_eq!(t.path.first().map(|s| s.start_ns), Some(0.0));
    assert_eq!(t.path.last().map(|s| s.end_ns), Some(t.ns));
    assert!(t.path.windows(2).all(|w| w[0].end_ns == w[1].start_ns), "{:?}", t.path);
}

const TILE: &str = "core_get: 4 KiB, 730 ns; core_put: 4 KiB, 600 ns";
/// Number of f32 in a tile.
const ELEMENTS: u64 = 1024;

/// Rank 0 of two reads n tiles; each of `streams` cores reads an equal part, in `pieces`
/// operations.
fn reads(tiles: u64, streams: u64, pieces: u64) -> kbc_ir::schedule::Schedule {
    let parts = streams * pieces;
    let one = |i: u64| {
        format!(
            "    stream core{i}\n        if r == 0\n          for k in 0..{pieces}\n            get v[{i} * {pieces} + k of {parts}] <- (1) : @w[0]\n          \
             fence.complete\n"
        )
    };
    let streams: String = (0..streams).map(one).collect();
    parse(&streams_region(2, tiles * ELEMENTS, 1, 1, &streams))
}

fn two(more: &str) -> kbc_machine::topology::Topology {
    machine(&format!("full(2) {{ link: 28 GB/s, 100 ns; {more} }}"))
}

#[test]
fn a_core_reads_a_tile_in_its_time_way_included() {
    for tiles in [1, 2, 3, 256] {
        let t = time(&reads(tiles, 1, 1), &two(TILE));
        assert_eq!(t.ns, 730.0 * tiles as f64, "{tiles}");
        contiguous(&t);
        assert_eq!(t.breakdown().core_ns, t.ns - 200.0, "{:?}", t.path);
    }
    // If the latency exceeds a tile's time, every tile waits for the latency; without bytes there
    // is no tile.
    let far = machine(&format!("full(2) {{ link: 28 GB/s, 1 us; {TILE} }}"));
    assert_eq!(time(&reads(3, 1, 1), &far).ns, 6000.0);
    assert_eq!(time(&reads(0, 1, 1), &two(TILE)).ns, 200.0);
    // A link that is slower than the core is the limit.
    let slow = machine(&format!("full(2) {{ link: 1 GB/s, 100 ns; {TILE} }}"));
    assert_eq!(time(&reads(2, 1, 1), &slow).ns, 200.0 + 8192.0);
}

/// The closed form equals tiles that are separate operations: exactly for one core, within a tile
/// for several.
#[test]
fn tiles_in_one_operation_are_tiles_one_by_one() {
    for cores in [1, 2, 4, 5, 6, 8, 16] {
        let tiles = 16 * cores;
        let whole = time(&reads(tiles, cores, 1), &two(TILE));
        let each = time(&reads(tiles, cores, 16), &two(TILE));
        contiguous(&whole);
        contiguous(&each);
        assert!(
            (whole.ns - each.ns).abs() <= if cores == 1 { 0.0 } else { 730.0 },
            "{cores}: {} {}",
            whole.ns,
            each.ns
        );
        // As fast as the cores together, until the link is full.
        let (by_cores, by_link) = (16.0f64 * 730.0, (tiles * 4096) as f64 / 28.0);
        let least = by_cores.max(by_link + 200.0);
        assert!(
            whole.ns >= least * (1.0 - 1e-12) && whole.ns <= least + 730.0,
            "{cores}: {} {least}",
            whole.ns
        );
    }
}

/// Rank 0 puts two chunks of eight tiles to rank 1, with one notify.
fn puts(streams: &str) -> kbc_ir::schedule::Schedule {
    parse(&streams_region(2, 16 * ELEMENTS, 1, 1, streams))
}

const ONE_STREAM: &str = "    stream main\n        if r == 0\n          put v[0 of 2] -> (1) : @w[0]\n          put v[1 of 2] -> (1) : @w[0]\n          \
                          fence.release\n          notify (1) : @s[0]\n        if r == 1\n          wait @s[0] >= call + 1\n          fence.acquire\n";

#[test]
fn a_core_writes_one_transfer_after_another_and_the_notify_comes_behind() {
    let s = puts(ONE_STREAM);
    let t = time(&s, &two(TILE));
    assert_eq!(t.ns, 16.0 * 600.0);
    contiguous(&t);
    assert_eq!((t.breakdown().core_queue_ns, t.breakdown().core_ns), (0.0, 9600.0), "the stream is held");
    // Through memory, the notify takes its time once the data is there.
    let t = time(&s, &two(&format!("{TILE}; notify: 1 us")));
    assert_eq!(t.ns, 16.0 * 600.0 + 1000.0);
    contiguous(&t);
    assert_eq!(t.breakdown().notify_ns, 1000.0);
    // No less than the latency of its route.
    assert_eq!(time(&s, &two(&format!("{TILE}; notify: 10 ns"))).ns, 16.0 * 600.0 + 100.0);
    // Without cores: links and the notify.
    let t = time(&s, &two("notify: 1 us"));
    assert!((t.ns - (100.0 + 65536.0 / 28.0 + 1000.0)).abs() < 1e-6, "{}", t.ns);
}

#[test]
fn a_notify_waits_for_puts_of_all_cores_of_its_rank() {
    // The second core has three of the four parts. The first one notifies for both, once the second
    // has issued its own.
    let streams = "    stream core0\n        if r == 0\n          put v[0 of 4] -> (1) : @w[0]\n          await e\n          fence.release\n          notify (1) : @s[0]\n        \
                   if r == 1\n          wait @s[0] >= call + 1\n          fence.acquire\n    stream core1\n        if r == 0\n          \
                   for k in 1..4\n            put v[k of 4] -> (1) : @w[0]\n          record e\n";
    let text = streams_region(2, 16 * ELEMENTS, 1, 1, streams);
    let s = parse(&text);
    for (more, after) in [("", 0.0), ("; notify: 1 us", 1000.0)] {
        // The notify is issued when both cores are done, and then uses its own route or memory.
        let t = time(&s, &two(&format!("{TILE}{more}")));
        assert_eq!(t.ns, 12.0 * 600.0 + if after > 0.0 { after } else { 100.0 }, "{more}");
        contiguous(&t);
        // If the link is slower than the cores, the data arrives later, and the notify after it.
        let slow = machine(&format!("full(2) {{ link: 1 GB/s, 100 ns; {TILE}{more} }}"));
        let t = time(&s, &slow);
        assert_eq!(t.ns, 65_536.0 + 100.0 + after, "{more}");
        contiguous(&t);
    }
}

#[test]
fn a_notify_alone_takes_its_time_and_no_link() {
    let body = "        notify ((r + 1) % 4) : @s[0]\n        wait @s[0] >= call + 1\n";
    let s = parse(&one_region(4, 1, 1, 1, body));
    let topo = machine("full(4) { link: 28 GB/s, 100 ns; signal: 4 KB; notify: 1 us }");
    let t = time(&s, &topo);
    assert_eq!((t.ns, t.breakdown().notify_ns, t.links.len(), t.messages), (1000.0, 1000.0, 0, 4));
    contiguous(&t);
    // Two rounds follow each other.
    let body = body.to_owned() + "        notify ((r + 1) % 4) : @s[1]\n        wait @s[1] >= call + 1\n";
    assert_eq!(time(&parse(&one_region(4, 1, 1, 2, &body)), &topo).ns, 2000.0);
    // A notify to the rank itself costs nothing.
    let own = "        notify (r) : @s[0]\n        wait @s[0] >= call + 1\n";
    assert_eq!(time(&parse(&one_region(4, 1, 1, 1, own)), &topo).ns, 0.0);
}

#[test]
fn a_queue_takes_its_time_and_its_bytes() {
    for (tiles, streams) in [(1u64, 1u64), (64, 1), (64, 2), (64, 16)] {
        let s = reads(tiles.max(streams), streams, 1);
        let t = time(&s, &two("sdma: 21 GB/s, 2.5 us; engine: sdma"));
        let (one, link) = (tiles as f64 / streams as f64 * 4096.0 / 21.0, tiles as f64 * 4096.0 / 28.0);
        let want = (2500.0 + one).max(200.0 + link);
        assert!((t.ns - want).abs() < 1e-6, "{tiles} {streams}: {} {want}", t.ns);
        contiguous(&t);
    }
    // One after another in one queue, while the stream continues.
    let t = time(&puts(ONE_STREAM), &two("sdma: 21 GB/s, 2.5 us; engine: sdma"));
    let one = 2500.0 + 32_768.0 / 21.0;
    assert!((t.ns - 2.0 * one).abs() < 1e-6, "{}", t.ns);
    assert!((t.breakdown().core_queue_ns - one).abs() < 1e-6, "{:?}", t.path);
    contiguous(&t);
    // A queue that is given but not chosen has no effect.
    let s = reads(4, 1, 1);
    assert_eq!(time(&s, &two(&format!("{TILE}; sdma: 21 GB/s, 2.5 us"))).ns, 4.0 * 730.0);
    let by_core = two(&format!("{TILE}; sdma: 21 GB/s, 2.5 us; engine: core"));
    assert_eq!(time(&s, &by_core).ns, 4.0 * 730.0);
}

#[test]
fn what_is_stored_whole_leaves_its_core_whole() {
    let t = time(&puts(ONE_STREAM), &two(&format!("{TILE}; forward: store_and_forward")));
    // The core's time includes the latency of the route, but not the bytes on the link.
    assert!((t.ns - (16.0 * 600.0 + 8.0 * 4096.0 / 28.0)).abs() < 1e-6, "{}", t.ns);
    contiguous(&t);
}

#[test]
fn several_hops_and_endpoints() {
    let body = "        if r == 0\n          put v -> (2) : @w[0]\n          fence.release\n          notify (2) : @s[0]\n        if r == 2\n          \
                wait @s[0] >= call + 1\n          fence.acquire\n";
    let s = parse(&one_region(3, 8 * ELEMENTS, 1, 1, body));
    let t = time(&s, &machine(&format!("mesh(3) {{ link: 28 GB/s, 100 ns; {TILE} }}")));
    assert_eq!(t.ns, 8.0 * 600.0);
    contiguous(&t);
    let t = time(&s, &machine(&format!("mesh(3) {{ link: 28 GB/s, 100 ns; endpoint: 7 ns; {TILE} }}")));
    assert_eq!((t.ns, t.breakdown().endpoint_ns), (8.0 * 600.0 + 14.0, 14.0));
    contiguous(&t);
}

#[test]
fn cores_copy_and_reduce_as_fast_as_they_can_until_the_memory_is_full() {
    // Each core adds a quarter of 40,000 bytes: 30,000 read and written.
    let streams = |k: u64| {
        let one = |i| format!("    stream core{i}\n        combine sum v[{i} of {k}], @w[0]\n");
        parse(&streams_region(1, 10_000, 1, 1, &(0..k).map(one).collect::<String>()))
    };
    let at = |k, more: &str| time(&streams(k), &machine(&format!("ring(1) {{ {more} }}")));
    let one = |ns: f64, want: f64| assert!((ns - want).abs() < 1e-6, "{ns} {want}");
    one(at(1, "core_memory: 10 GB/s").ns, 12_000.0);
    one(at(4, "core_memory: 10 GB/s").ns, 3000.0);
    let t = at(4, "core_memory: 10 GB/s; device: 1 TFLOP/s, 20 GB/s");
    // Each one occupies the memory for 1500 ns; the last begins at 4500 and takes 3000.
    one(t.ns, 7500.0);
    contiguous(&t);
    one(t.ranks[0].work_ns, 6000.0);
    one(at(4, "core_memory: 10 GB/s; device: 1 TFLOP/s, 1000 GB/s").ns, 3000.0 + 3.0 * 30.0);
    // A device with slow memory has slow cores.
    let mut slow = machine("ring(1) { core_memory: 10 GB/s }");
    slow.set_pace(DeviceId(0), Pace { slower: [1.0, 2.0, 1.0], ..Pace::NORMAL }).unwrap();
    one(time(&streams(4), &slow).ns, 6000.0);
}
