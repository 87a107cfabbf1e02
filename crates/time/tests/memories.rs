//! Tests of data in memories of packages, and of their controllers (SIM-3): exact times, conflicts
//! of channels by address bits, contention, the route of the data, and no time below the bound.

use crate::time_kit;

use kbc_ir::schedule::Schedule;
use kbc_ir::types::MemKind;
use kbc_machine::bounds::{CollKind, Problem, bound};
use kbc_machine::topology::Topology;
use kbc_time::{Cause, MessageKind, TimeOptions, Timing, simulate_observed};
use time_kit::*;

/// Four PEs of one cube: 1 ns between a PE and the router, 2 ns to its slice of HBM, 5 ns to the
/// SRAM.
const CUBE: &str = "pe_wire: 100; hbm_wire: 200; sram_wire: 500; hbm_link: 256 GB/s; sram_link: 128 GB/s; \
                    hbm_channels: 8, 32 GB/s, 256 B";

fn cube(more: &str) -> Topology {
    machine(&format!("package(ring(1), mesh(1, 1), 4) {{ {CUBE}{more} }}"))
}

/// Returns a schedule of four ranks with a line `v` of n f32 in `from`, a line `t` in `to`, two
/// slots of a window in `to` and four counters.
fn kir(n: u64, from: &str, to: &str, body: &str) -> Schedule {
    parse(&format!(
        "kir 1
module @m
mesh pe 4
schedule calls first
buffer %v : f32[{n}] {from} temp
buffer %t : f32[{n}] {to} temp
window @w : f32[2 x {n}] {to} at 0
signal @s[4] arrival at 0
region @c over pe as (r of 4)
  on v = %v line {n}
  scratch t = %t line {n}
  role all
    stream main
{body}"
    ))
}

fn contiguous(t: &Timing) {
    assert_eq!(t.path.first().map(|s| s.start_ns), Some(0.0));
    assert_eq!(t.path.last().map(|s| s.end_ns), Some(t.ns));
    assert!(t.path.windows(2).all(|w| w[0].end_ns == w[1].start_ns), "{:#?}", t.path);
    let b = t.breakdown();
    let sum = b.latency_ns + b.service_ns + b.queue_ns + b.memory_ns + b.memory_queue_ns + b.acknowledged_ns;
    assert!((sum - t.ns).abs() < 1e-6, "{b:?}");
}

/// 16 KiB of the slice of rank 0, read by the first `readers` ranks.
fn read(readers: u64) -> Schedule {
    let body = format!("        if r < {readers}\n          get t <- (0) : v\n          fence.complete\n");
    kir(4096, "hbm", "tcm", &body)
}

#[test]
fn readers_of_one_slice_wait_for_its_channels() {
    let topo = cube("; data: named");
    let hbm = topo.memory_port(kbc_machine::topology::DeviceId(0), MemKind::Hbm);
    for k in 1..=4u64 {
        let t = time(&read(k), &topo);
        // The request takes 1 + 2, a first burst of 256 B takes 8, the way back 2 + 1, and 16384 B
        // take 64 at 256 GB/s; all other readers come first.
        assert_eq!(t.ns, 3.0 + 8.0 + 3.0 + 64.0 + 64.0 * (k - 1) as f64, "{k}");
        contiguous(&t);
        let b = t.breakdown();
        assert_eq!((b.memory_queue_ns, b.memory_ns, b.queue_ns), (64.0 * (k - 1) as f64, 8.0, 0.0));
        let [m] = t.memories[..] else { panic!("{:?}", t.memories) };
        let waits: f64 = (0..k).map(|i| 64.0 * i as f64).sum();
        assert_eq!((m.node, m.reads, m.writes, m.bytes), (hbm, k, 0, 16384 * k));
        assert_eq!((m.busy_ns, m.queue_ns), (64.0 * k as f64, waits));
        if k > 1 {
            assert!(t.path.iter().any(|s| s.cause == Cause::MemoryQueue(hbm)));
        }
    }
    // With data at the devices, which is the default, no message waits for a memory.
    let t = time(&read(4), &cube(""));
    assert_eq!((t.ns, t.memories.len()), (2.0 * (1.0 + 1.0), 0));
    // No channels: the link alone.
    let plain = machine("package(ring(1), mesh(1, 1), 4) { data: named; hbm_link: 256 GB/s }");
    let t = time(&read(3), &plain);
    assert_eq!((t.ns, t.breakdown().queue_ns, t.memories.len()), (192.0, 128.0, 0));
}

#[test]
fn channels_are_address_bits() {
    // Ranks 1 and 2 read 256 B each, the second `chunk` bursts further.
    let pair = |chunk: u64| {
        let body = format!(
            "        if r == 1\n          get t[0 of 32] <- (0) : v[0 of 32]\n          fence.complete\n        \
             if r == 2\n          get t[0 of 32] <- (0) : v[{chunk} of 32]\n          fence.complete\n"
        );
        let t = time(&kir(2048, "hbm", "tcm", &body), &cube("; data: named"));
        contiguous(&t);
        (t.ns, t.breakdown().memory_queue_ns)
    };
    for chunk in 1..32 {
        // The second of two waits for the link, until the first one's nanosecond is over, or for
        // the channel.
        let want = if chunk % 8 == 0 {
            (3.0 + 8.0 + 8.0 + 3.0 + 1.0, 8.0)
        } else {
            (3.0 + 8.0 + 1.0 + 3.0 + 1.0, 0.0)
        };
        assert_eq!(pair(chunk), want, "{chunk}");
    }
    // Windows are placed after the buffers: 8192 B of %v, and 8192 B of %t, which is in HBM here;
    // slot 1 begins at 24576.
    let body = "        if r == 1\n          put t[0 of 32] -> (0) : @w[1]\n        if r == 2\n          put t[1 of 32] -> (0) : @w[0]\n";
    let t = time(&kir(2048, "tcm", "hbm", body), &cube("; data: named"));
    let m = t.memories.iter().find(|m| m.writes == 2).copied();
    assert_eq!(m.map(|m| (m.bytes, m.busy_ns, m.queue_ns)), Some((512, 16.0, 7.0)));
}

#[test]
fn puts_go_from_memory_to_memory() {
    let put = |from, to, target: u64, bytes: u64| {
        let body = format!(
            "        if r == 0\n          put v -> ({target}) : @w[0]\n          fence.release\n          notify \
             ({target}) : @s[0]\n        if r == {target}\n          wait @s[0] >= call + 1\n          fence.acquire\n"
        );
        let t = time(&kir(bytes / 4, from, to, &body), &cube("; data: named"));
        if t.ns > 0.0 {
            contiguous(&t);
        }
        t.ns
    };
    // A burst is read, crosses the router, and is written once it has arrived.
    assert_eq!(put("hbm", "hbm", 1, 256), 8.0 + 4.0 + 1.0 + 8.0);
    // Half a burst counts as one.
    assert_eq!(put("hbm", "hbm", 1, 128), 8.0 + 4.0 + 0.5 + 8.0);
    assert_eq!(put("hbm", "hbm", 1, 16384), 8.0 + 4.0 + 64.0 + 8.0);
    assert_eq!(put("tcm", "hbm", 1, 256), 3.0 + 1.0 + 8.0);
    assert_eq!(put("hbm", "tcm", 1, 256), 8.0 + 3.0 + 1.0);
    assert_eq!(put("hbm", "sram", 1, 256), 8.0 + 7.0 + 2.0);
    assert_eq!(put("tcm", "tcm", 1, 256), 2.0);
    // Out of the cube's SRAM and back into it, because all PEs share it.
    assert_eq!(put("sram", "sram", 1, 256), 10.0 + 2.0);
    // To its own rank: between its memories, and in its slice.
    assert_eq!(put("hbm", "tcm", 0, 256), 8.0 + 3.0 + 1.0);
    assert_eq!(put("tcm", "hbm", 0, 16384), 3.0 + 64.0 + 8.0);
    assert_eq!(put("tcm", "tcm", 0, 256), 0.0);
    // Reading the source occupies the channel until 8, and the head is back at 12; the slot is on
    // another channel.
    assert_eq!(put("hbm", "hbm", 0, 256), 8.0 + 4.0 + 1.0 + 8.0);
}

#[test]
fn a_channel_that_changes_between_reading_and_writing_loses_time() {
    let body = "        if r == 1\n          put v -> (0) : @w[0]\n        if r == 2\n          get t <- (0) : v\n          \
                fence.complete\n";
    let ns = |more: &str| time(&kir(1024, "hbm", "hbm", body), &cube(&format!("; data: named{more}"))).ns;
    // Rank 2's read begins at 3. The head of what rank 1 writes arrives at 12, when the channels
    // are still reading, and its tail 16 later. Rank 2 reads 4096 B in 8 + 4 + 16, and they are
    // written to its slice.
    let free = ns("");
    assert_eq!(free, 3.0 + 8.0 + 4.0 + 16.0 + 8.0);
    let t = time(&kir(1024, "hbm", "hbm", body), &cube("; data: named; hbm_switch: 5 ns"));
    let m = t.memories.iter().find(|m| m.reads == 1 && m.writes == 1).copied();
    // 16 ns each and one change; the write waits from 12 until 19, and for the change.
    assert_eq!(m.map(|m| (m.busy_ns, m.queue_ns)), Some((37.0, 12.0)));
    // Now it is the last one, as slow as its channels.
    assert_eq!(t.ns, 12.0 + 12.0 + 16.0);
}

#[test]
fn a_notify_waits_for_data_that_takes_longer() {
    // With only fences between them, a put and its notify travel together. The other put travels
    // alone, from device to device, which is shorter.
    let body = "        if r == 0\n          put v -> (1) : @w[0]\n          put v[0 of 32] -> (2) : @w[0]\n          \
                fence.release\n          notify (1) : @s[0]\n        if r == 1\n          wait @s[0] >= call + 1\n          \
                fence.acquire\n";
    let s = kir(4096, "hbm", "hbm", body);
    let mut seen = Seen::default();
    let t =
        simulate_observed(&s, &cube("; data: named"), &TimeOptions::default(), &mut seen).expect("a time");
    let at =
        |kind, to| seen.messages.iter().find(|m| m.kind == kind && m.to == to).expect("one").delivered_ns;
    assert_eq!(at(MessageKind::Notify, 1), 2.0);
    let data = at(MessageKind::Put, 1);
    assert_eq!(data, 8.0 + 4.0 + 64.0 + 8.0);
    assert_eq!(t.ranks[1].finish_ns, data);
}

#[test]
fn a_transfer_has_its_channel_until_its_memory_answers() {
    let body = "        if r == 0\n          put v -> (1) : @w[0]\n          put v -> (1) : @w[1]\n          fence.release\n          \
                notify (1) : @s[0]\n        if r == 1\n          wait @s[0] >= call + 1\n          fence.acquire\n";
    let t = time(&kir(64, "hbm", "hbm", body), &cube("; data: named; dma: 1"));
    contiguous(&t);
    // The acknowledgement comes from the slice: 2 + 1.
    assert_eq!(t.ns, 21.0 + 3.0 + 21.0);
    assert_eq!(t.breakdown().acknowledged_ns, 3.0);
    // A transfer to the own rank that passes links has one, too; between a device and itself there
    // is nothing to wait for.
    let own = "        if r == 0\n          put v -> (0) : @w[0]\n          put v -> (0) : @w[1]\n";
    assert_eq!(time(&kir(64, "tcm", "hbm", own), &cube("; data: named; dma: 1")).ns, 12.0 + 3.0 + 12.0);
    assert_eq!(time(&kir(64, "tcm", "tcm", own), &cube("; data: named; dma: 1")).ns, 0.0);
}

#[test]
fn rules_of_links_hold_for_controllers() {
    let s = kir(4096, "hbm", "hbm", "        if r == 0\n          put v -> (1) : @w[0]\n");
    let at = |rule: &str| {
        let t = time(&s, &cube(&format!("; data: named; {rule}")));
        contiguous(&t);
        t.ns
    };
    assert_eq!(at("forward: drain"), 84.0);
    // Read, sent twice, written, each as a whole.
    assert_eq!(at("forward: store_and_forward"), 64.0 + 2.0 + 64.0 + 2.0 + 64.0 + 64.0);
    // Two messages that compete: with draining, the tail of the second one catches nothing up.
    let two = "        if r < 2\n          put v -> (2) : @w[r]\n";
    let two = kir(4096, "tcm", "hbm", two);
    let ns = |rule: &str| time(&two, &cube(&format!("; data: named; {rule}"))).ns;
    assert_eq!(ns("forward: cut_through"), 3.0 + 64.0 + 64.0 + 8.0);
    assert_eq!(ns("forward: drain"), 3.0 + 64.0 + 64.0 + 8.0);
}

#[test]
fn no_time_is_below_the_bound() {
    let machines = [
        "package(ring(1), mesh(1, 1), 4) { hbm_link: 256 GB/s; pe_link: 20 GB/s",
        "package(ring(1), mesh(1, 2), 2) { hbm_link: 64 GB/s; cube_link: 50 GB/s, 2; pe_wire: 700; router_node: 3 ns",
        "package(ring(2), mesh(1, 1), 2) { hbm_link: 64 GB/s; sip_link: 30 GB/s; io_node: 9 ns; hbm_wire: 50; sram_link: 10 GB/s",
        "package(torus(2, 2), mesh(1, 1), 1) { sram_link: 5 GB/s; pe_link: 1 GB/s; sip_link: 30 GB/s; wrap2: 2",
    ];
    let more = [
        "",
        "; hbm_channels: 4, 3 GB/s, 256 B; hbm_switch: 2 ns",
        "; hbm_channels: 1, 7 GB/s, 64 B; forward: drain; dma: 1",
    ];
    for (m, more) in machines.iter().flat_map(|m| more.map(|x| (m, x))) {
        let topo = machine(&format!("{m}{more}; data: named }}"));
        let p = topo.device_count() as u64;
        for (n, memory) in [(1u64, "hbm"), (4096, "hbm"), (4096, "tcm"), (4096, "sram"), (1 << 20, "hbm")] {
            for (name, kind, text) in [
                ("ring", CollKind::AllReduce, ring(p, p * n)),
                ("direct", CollKind::AllReduce, direct(p, p * n, "", "combine sum v, @w[k - 1]")),
            ] {
                let s = parse(&text.replace(" hbm temp", &format!(" {memory} temp")));
                let t = time(&s, &topo);
                let problem = Problem::new(kind, 4 * n * p, topo.devices());
                let b = bound(&topo, &problem).expect("a bound");
                assert!(!b.contradicts(t.ns), "{name} of {n} in {memory} on {topo}: {} below {b:?}", t.ns);
            }
        }
    }
}

#[test]
fn bounds_look_at_memories_where_data_is_there() {
    let ns = |data: &str| {
        let topo = machine(&format!(
            "package(ring(1), mesh(1, 1), 4) {{ pe_link: 1 GB/s; hbm_link: 256 GB/s; sram_link: 3 GB/s{data} }}"
        ));
        let problem = Problem::new(CollKind::AllReduce, 4096, topo.devices());
        bound(&topo, &problem).expect("a bound").bandwidth_ns
    };
    // 2 (p - 1) n over what all devices send: p links of 1 GB/s, or of 260 GB/s. Slower channels
    // count.
    assert_eq!(ns(""), 6.0 * 4096.0 / 4.0);
    assert!((ns("; data: named") - 6.0 * 4096.0 / (4.0 * 260.0)).abs() < 1e-9);
    assert!((ns("; data: named; hbm_channels: 2, 3 GB/s, 64 B") - 6.0 * 4096.0 / (4.0 * 10.0)).abs() < 1e-9);
}
