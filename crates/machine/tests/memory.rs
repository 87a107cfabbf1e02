//! Tests of placement inside devices and memories (TOPO-6, TOPO-8). Slices partition or replicate a
//! tensor exactly for every policy, count and size; no two live tensors share a byte, at sizes from
//! one byte to a page; and a schedule fits, or the first tensor that does not fit is named.

use kbc_diag::FileId;
use kbc_ir::types::MemKind;
use kbc_ir::walk::{Access, Mem, Program};
use kbc_machine::memory::{ALIGN, Addresses, Memory, lay_out};
use kbc_machine::placement::Shard;
use kbc_machine::policy::{DevicePlacement, Placements, Policy};
use kbc_machine::topology::{DeviceId, Topology};
use std::collections::BTreeMap;

fn machine(text: &str) -> Topology {
    Topology::parse(text, FileId(0)).unwrap_or_else(|d| panic!("{text}: {d:?}"))
}

/// Returns how many shards hold each element, and checks that offsets and bytes are those of the
/// slices.
fn covered(shards: &[Shard], sizes: &[u64], element: u64) -> BTreeMap<u64, u64> {
    let mut out = BTreeMap::new();
    for s in shards {
        let mut points: Vec<u64> = vec![0];
        for (range, size) in s.slice.iter().zip(sizes) {
            assert!(range.start <= range.end && range.end <= *size, "{s:?}");
            points = points.iter().flat_map(|p| range.clone().map(move |i| p * size + i)).collect();
        }
        assert_eq!(s.bytes, points.len() as u64 * element, "{s:?}");
        if let Some(first) = points.first() {
            assert_eq!(s.offset, first * element, "{s:?}");
        }
        for p in points {
            *out.entry(p).or_insert(0) += 1;
        }
    }
    out
}

#[test]
fn slices_partition_or_replicate_exactly() {
    let policies = [
        Policy::Replicate,
        Policy::ColumnWise,
        Policy::RowWise,
        Policy::TiledRowWise,
        Policy::TiledColumnWise,
    ];
    let t = machine("package(torus(2, 3), mesh(2, 3), 4) { ranks: sip }");
    let mut shared = 0;
    for cube in policies {
        for pe in policies {
            for (num_cubes, num_pes) in
                [(None, None), (Some(1), Some(1)), (Some(5), Some(3)), (Some(4), None), (None, Some(2))]
            {
                for sizes in [
                    vec![1],
                    vec![7],
                    vec![24],
                    vec![5, 3],
                    vec![12, 8],
                    vec![1, 1],
                    vec![3, 4, 5],
                    vec![0, 4],
                    vec![6, 1],
                ] {
                    let placement = DevicePlacement { cube, pe, num_cubes, num_pes };
                    let shards = placement
                        .shards(&sizes, 2, &t, DeviceId(4))
                        .unwrap_or_else(|d| panic!("{placement}: {d:?}"));
                    let (cubes, pes) = (num_cubes.unwrap_or(6), num_pes.unwrap_or(4));
                    assert_eq!(shards.len() as u64, cubes * pes);
                    let copies = if cube == Policy::Replicate { cubes } else { 1 }
                        * if pe == Policy::Replicate { pes } else { 1 };
                    let held = covered(&shards, &sizes, 2);
                    assert_eq!(held.len() as u64, sizes.iter().product::<u64>(), "{placement} {sizes:?}");
                    assert!(held.values().all(|n| *n == copies), "{placement} {sizes:?}: {held:?}");
                    assert!(shards.iter().all(|s| s.sip == [1, 1]), "{shards:?}");
                    shared += usize::from(copies == 1);
                }
            }
        }
    }
    assert!(shared > 500);
}

#[test]
fn the_cube_splits_first() {
    let t = machine("package(ring(2), mesh(1, 2), 2) { ranks: sip }");
    let of = |cube, pe, sizes: &[u64]| -> Vec<String> {
        let placement = DevicePlacement { cube, pe, num_cubes: None, num_pes: None };
        let shards = placement.shards(sizes, 4, &t, DeviceId(1)).expect("it fits");
        shards
            .iter()
            .map(|s| format!("{:?}{:?}{} {:?}+{} {}", s.sip, s.cube, s.pe, s.slice, s.offset, s.bytes))
            .collect()
    };
    assert_eq!(
        of(Policy::RowWise, Policy::ColumnWise, &[4, 6]),
        [
            "[1][0, 0]0 [0..2, 0..3]+0 24",
            "[1][0, 0]1 [0..2, 3..6]+12 24",
            "[1][0, 1]0 [2..4, 0..3]+48 24",
            "[1][0, 1]1 [2..4, 3..6]+60 24",
        ]
    );
    // On one axis, both policies are the same.
    assert_eq!(of(Policy::RowWise, Policy::Replicate, &[4]), of(Policy::ColumnWise, Policy::Replicate, &[4]));
    // A grid of four: along rows, and along columns.
    let four = machine("package(ring(1), mesh(2, 2), 1) { ranks: sip }");
    let grid = |policy| -> Vec<Vec<std::ops::Range<u64>>> {
        let placement =
            DevicePlacement { cube: policy, pe: Policy::Replicate, num_cubes: None, num_pes: None };
        placement
            .shards(&[2, 2], 1, &four, DeviceId(0))
            .expect("it fits")
            .into_iter()
            .map(|s| s.slice)
            .collect()
    };
    assert_eq!(grid(Policy::TiledRowWise), [[0..1, 0..1], [0..1, 1..2], [1..2, 0..1], [1..2, 1..2]]);
    assert_eq!(grid(Policy::TiledColumnWise), [[0..1, 0..1], [1..2, 0..1], [0..1, 1..2], [1..2, 1..2]]);
    assert_eq!(Policy::parse("tiled_row_major"), Policy::parse("tiled_row_wise"));
}

#[test]
fn placements_that_cannot_be() {
    let all = |cube, pe, num_cubes, num_pes| DevicePlacement { cube, pe, num_cubes, num_pes };
    let sip = "package(ring(2), mesh(1, 2), 2) { ranks: sip }";
    for (machine_text, placement, sizes, words) in [
        (
            sip,
            all(Policy::RowWise, Policy::Replicate, Some(3), None),
            vec![4],
            "`num_cubes: 3` is out of range: a device has 2",
        ),
        (sip, all(Policy::RowWise, Policy::Replicate, Some(0), None), vec![4], "`num_cubes: 0`"),
        (sip, all(Policy::Replicate, Policy::RowWise, None, Some(9)), vec![4], "`num_pes: 9`"),
        (sip, all(Policy::RowWise, Policy::Replicate, None, None), vec![], "single element"),
        (
            "package(ring(2), mesh(1, 2), 2) { ranks: cube }",
            all(Policy::RowWise, Policy::Replicate, None, None),
            vec![4],
            "no axis `cube`",
        ),
        (
            "package(ring(2), mesh(1, 2), 2)",
            all(Policy::Replicate, Policy::RowWise, None, None),
            vec![4],
            "no axis `pe`",
        ),
        ("ring(4)", all(Policy::ColumnWise, Policy::Replicate, None, None), vec![4], "no axis `cube`"),
    ] {
        let d = placement.shards(&sizes, 4, &machine(machine_text), DeviceId(0)).expect_err(words);
        assert!(d.code == "E469" && d.title.contains(words) && d.help.is_some(), "{d:?}");
    }
    // With cubes as ranks, the PEs are those of the rank's own cube, also if it is not the first.
    let t = machine("package(ring(2), mesh(2, 2), 2) { ranks: cube }");
    let placement = all(Policy::Replicate, Policy::RowWise, None, None);
    let shards = placement.shards(&[4], 4, &t, DeviceId(6)).expect("it fits");
    assert_eq!(
        shards.iter().map(|s| (s.sip[0], s.cube, s.pe, s.bytes)).collect::<Vec<_>>(),
        [(1, [1, 0], 0, 8), (1, [1, 0], 1, 8)]
    );
}

fn draw(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

/// Checks that every byte of a memory has at most one live owner, for any order of allocation and
/// release.
fn sound(memory: &Memory, expected: &BTreeMap<u64, u64>) {
    let mut end = 0;
    let live: Vec<(u64, u64)> = memory.live().map(|l| (l.0, l.1)).collect();
    for (at, bytes) in &live {
        assert!(*at >= end && at % ALIGN == 0 && at + bytes <= memory.capacity(), "{live:?}");
        end = at + bytes;
    }
    assert_eq!(live, expected.iter().map(|(a, b)| (*a, *b)).collect::<Vec<_>>());
}

#[test]
fn no_two_live_tensors_overlap() {
    let mut refused = 0;
    for seed in 0..40u64 {
        let mut s = seed;
        let capacity = 1 + draw(&mut s) % 65_536;
        let mut memory = Memory::new(capacity);
        let mut live: BTreeMap<u64, u64> = BTreeMap::new();
        for step in 0..400 {
            if draw(&mut s).is_multiple_of(3) && !live.is_empty() {
                let at = *live.keys().nth(draw(&mut s) as usize % live.len()).expect("not empty");
                assert!(memory.free(at) && !memory.free(at + 1));
                live.remove(&at);
            } else {
                // One byte to a page: all sizes in turn, and random ones.
                let bytes =
                    if step % 2 == 0 { 1 + (step + seed * 400) % 4096 } else { 1 + draw(&mut s) % 4096 };
                match memory.allocate("t", bytes) {
                    Ok(at) => assert!(live.insert(at, bytes).is_none(), "taken"),
                    Err(full) => {
                        refused += 1;
                        assert!(full.largest < bytes && full.largest <= full.free && full.free <= capacity);
                    }
                }
            }
            sound(&memory, &live);
        }
        live.keys().for_each(|at| assert!(memory.free(*at)));
        assert_eq!(memory.allocate("all", capacity), Ok(0), "what is given back is whole again");
    }
    assert!(refused > 100);
    // Every size, twice, in a memory that holds exactly that.
    for bytes in 1..=4096u64 {
        let mut memory = Memory::new(bytes.next_multiple_of(ALIGN) + bytes);
        let (a, b) = (memory.allocate("a", bytes).expect("room"), memory.allocate("b", bytes).expect("room"));
        assert!(a + bytes <= b && memory.allocate("c", ALIGN).is_err());
    }
    assert_eq!(Memory::new(0).allocate("nothing", 0), Ok(0));
}

const SCHEDULE: &str = "kir 1
module @m
mesh tp 4
props expanded allocated
schedule calls none
buffer %x : f32[100] hbm input 0 : f32[100] partial(sum@tp)
buffer %y : f32[25 * (1 + tp)] hbm temp
window @w : f32[2 x 50] tcm
";

fn schedule() -> kbc_ir::schedule::Schedule {
    let module = kbc_ir::text::parse(FileId(0), SCHEDULE).unwrap_or_else(|d| panic!("{d:#?}"));
    module.schedule().expect("a schedule").clone()
}

#[test]
fn a_schedule_fits_or_says_what_does_not() {
    let s = schedule();
    let none = Placements::default();
    let try_on = |text: &str| lay_out(&s, &machine(text), &none);
    // 400 B and, on the last rank, another 400 B.
    let ok = try_on("ring(4) { hbm_size: 848 B; tcm_size: 400 B }").expect("it fits");
    assert_eq!(ok.list.len(), 8);
    for memory in ok.list.values() {
        let live: BTreeMap<u64, u64> = memory.live().map(|l| (l.0, l.1)).collect();
        sound(memory, &live);
    }
    assert!(try_on("ring(4)").expect("nothing is limited").list.is_empty());
    for (text, words, note) in [
        (
            "ring(4) { hbm_size: 840 B }",
            "buffer `y` does not fit in hbm of (3): it has 400 B, and 392 of 840 B are free",
            "already in this memory: x 400 B",
        ),
        ("ring(4) { hbm_size: 100 B }", "buffer `x` does not fit in hbm of (0)", ""),
        ("ring(4) { tcm_size: 399 B }", "window `w` does not fit in tcm of (0): it has 400 B", ""),
    ] {
        let d = try_on(text).expect_err(text);
        let d = &d.list[0];
        assert!(d.code == "E468" && d.title.contains(words), "{text}: {d:?}");
        assert!(d.notes.iter().any(|n| n.contains(note)) || note.is_empty(), "{d:?}");
    }
    // Tensors of a SIP that its PEs share: the slice of a PE is then enough.
    let split =
        DevicePlacement { cube: Policy::RowWise, pe: Policy::RowWise, num_cubes: None, num_pes: None };
    let sips = machine("package(ring(4), mesh(1, 2), 2) { ranks: sip; hbm_size: 256 B }");
    assert_eq!(lay_out(&s, &sips, &none).expect_err("too much for one PE").list[0].code, "E468");
    let placed = Placements { others: Some(split), ..none.clone() };
    assert_eq!(lay_out(&s, &sips, &placed).expect("shared").list.len(), 16);
    // SRAM belongs to the cube: two PEs of one cube share it.
    let text = SCHEDULE.replace("hbm", "sram");
    let module = kbc_ir::text::parse(FileId(0), &text).unwrap_or_else(|d| panic!("{d:#?}"));
    let pes = machine("package(ring(1), mesh(1, 2), 2) { sram_size: 1616 B }");
    let all = lay_out(module.schedule().expect("a schedule"), &pes, &none).expect("it fits");
    assert_eq!(all.list.len(), 2);
    assert!(all.list.values().all(|m| m.live().count() == 4));
    let wrong = Placements { named: vec![("z".into(), split)], others: None };
    let d = lay_out(&s, &sips, &wrong).expect_err("no such tensor");
    assert!(d.list[0].code == "E469" && d.list[0].title.contains("`z`"), "{d:?}");
}

/// Slots of queues are rings: one for every peer from which a rank receives, for every index of the
/// array.
#[test]
fn rings_of_queues_have_their_place() {
    let text = "kir 1
module @m
mesh tp 4

schedule calls first
buffer %x : f32[4] hbm input 0 : f32[4] partial(sum@tp)
queue @q[2] : f32[3 x 4] tcm

region @r over tp as (r of 4)
  on v = %x line 4
  role a where r == 0
    stream main
      recv v <- (1) : @q[0]
      recv v <- (1) : @q[1]
      recv v <- (2) : @q[0]
      recv v <- (1) : @q[0]
  role b where r == 1
    stream main
      send v -> (0) : @q[0]
      send v -> (0) : @q[1]
      send v -> (0) : @q[0]
  role c where r == 2
    stream main
      send v -> (0) : @q[0]
";
    let module = kbc_ir::text::parse(FileId(0), text).unwrap_or_else(|d| panic!("{d:#?}"));
    let s = module.schedule().expect("a schedule");
    let none = Placements::default();
    // Three rings of three slots of 16 bytes, on the first rank alone.
    let all = lay_out(s, &machine("ring(4) { tcm_size: 144 B }"), &none).expect("it fits");
    let held: Vec<u64> = all.list.values().flat_map(|m| m.live().map(|l| l.1)).collect();
    assert_eq!(held, [144]);
    let d = lay_out(s, &machine("ring(4) { tcm_size: 143 B }"), &none).expect_err("one byte less");
    assert!(d.list[0].title.contains("queue `q` does not fit in tcm of (0): it has 144 B"), "{d:?}");
}

/// A size that no memory can hold is reported as too large, and nothing overflows.
#[test]
fn sizes_beyond_any_memory() {
    let m = machine("ring(2)");
    let huge = [1u64 << 40, 1 << 40];
    let shards = DevicePlacement::default().shards(&huge, 4, &m, DeviceId(0)).unwrap();
    assert_eq!(shards[0].bytes, u64::MAX);
    let mut memory = Memory::new(u64::MAX - 1);
    assert!(memory.allocate("huge", shards[0].bytes).is_err());
    assert_eq!(memory.allocate("all but a page", u64::MAX - 4096), Ok(0));
    assert_eq!(memory.allocate("the rest", 4000), Ok(u64::MAX - 4095));
}

#[test]
fn addresses_are_the_places_of_the_layout() {
    let text = "kir 1
module @m
mesh tp 3
schedule calls any
buffer %a : f32[2 * tp + 1] hbm temp
buffer %b : f32[100] tcm temp
buffer %c : f16[33] hbm temp
window @w : f32[3 x 5] hbm
window @v : f16[2 x 7] hbm
region @x over tp as (r of 3)
  on c = %c line 33
  role all
    stream main
      copy c = c
";
    let module = kbc_ir::text::parse(FileId(0), text).unwrap_or_else(|d| panic!("{d:#?}"));
    let s = module.schedule().expect("a schedule");
    let program = Program::compile(s).expect("a program");
    let found = Addresses::new(&program, MemKind::Hbm).expect("sizes");
    let layout =
        lay_out(s, &machine("ring(3) { hbm_size: 1 MiB }"), &Placements::default()).expect("it fits");
    let access = |mem, start| Access { mem, start, len: 1, num: 0, cnt: 1, den: 1, operand: 0 };
    for rank in 0..3u64 {
        let held: Vec<(u64, &str)> =
            layout.list[&(MemKind::Hbm, vec![rank as u32])].live().map(|l| (l.0, l.2)).collect();
        let at = |mem| found.of(s, rank, &access(mem, 0));
        let ours = [
            (at(Mem::Buffer(0)), "a"),
            (at(Mem::Buffer(2)), "c"),
            (at(Mem::Slot(0, 0)), "w"),
            (at(Mem::Slot(1, 0)), "v"),
        ];
        assert_eq!(held, ours, "{rank}");
        // Elements and slots: 2 and 4 bytes, slots of 5 elements.
        assert_eq!(found.of(s, rank, &access(Mem::Buffer(2), 30)), ours[1].0 + 60);
        assert_eq!(found.of(s, rank, &access(Mem::Slot(0, 2), 1)), ours[2].0 + 4 * 11);
        assert_eq!(at(Mem::Buffer(1)), 0);
    }
}
