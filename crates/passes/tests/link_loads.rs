//! Tests of the loads of links: a table of exact fractions, and lanes of unequal length (ADR 16).
//!
//! If both directions of a message are equally long, the table sends half each way. The machines of
//! kbc send it in the plus direction, which gives the second figure of a row where it differs.
#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use crate::stack;

use kbc_diag::FileId;
use kbc_machine::topology::Topology;
use kbc_rounds::{Limits, Ratio, expand};
use kbc_time::{TimeOptions, simulate};
use stack::{Layout, World};
use std::collections::{BTreeMap, BTreeSet};

/// Parts of an atom: halves on three axes.
const PARTS: u64 = 8;

/// A grid: sides, and whether they wrap.
#[derive(Clone, Copy)]
struct Grid<'a> {
    sides: &'a [u64],
    wraps: bool,
    /// Whether equally long directions carry half each.
    halves: bool,
    /// Whether a wrap of two is two links per direction rather than one.
    twice: bool,
}

impl Grid<'_> {
    fn coordinates(&self, mut rank: u64) -> Vec<u64> {
        let mut at: Vec<u64> = self
            .sides
            .iter()
            .rev()
            .map(|s| {
                let c = rank % s;
                rank /= s;
                c
            })
            .collect();
        at.reverse();
        at
    }

    /// Adds the loads of a message: axis by axis, in the shorter direction, on links named by node,
    /// axis and direction.
    fn send(&self, from: u64, to: u64, way: i8, load: u64, on: &mut BTreeMap<(Vec<u64>, usize, bool), u64>) {
        self.axis(0, self.coordinates(from), &self.coordinates(to), way, load, on);
    }

    fn axis(
        &self,
        axis: usize,
        at: Vec<u64>,
        to: &[u64],
        way: i8,
        load: u64,
        on: &mut BTreeMap<(Vec<u64>, usize, bool), u64>,
    ) {
        let Some(&side) = self.sides.get(axis) else { return };
        let plus = (to[axis] + side - at[axis]) % side;
        let minus = (side - plus) % side;
        let ways: Vec<bool> = match self.wraps {
            _ if plus == 0 => return self.axis(axis + 1, at, to, way, load, on),
            false => vec![to[axis] > at[axis]],
            // Two links to one neighbour: the way in which the peer is written selects one.
            true if side == 2 && self.twice => vec![way >= 0],
            true if side == 2 => vec![at[axis] == 0],
            true if plus == minus && self.halves => vec![true, false],
            true => vec![plus <= minus],
        };
        for forward in &ways {
            let (mut here, load) = (at.clone(), load / ways.len() as u64);
            while here[axis] != to[axis] {
                *on.entry((here.clone(), axis, *forward)).or_default() += load;
                here[axis] = (here[axis] + if *forward { 1 } else { side - 1 }) % side;
            }
            self.axis(axis + 1, here, to, way, load, on);
        }
    }
}

/// Returns the busiest link of each round, summed, in units of the vector; and the load of the
/// busiest link over all rounds.
fn loads(world: &World, algorithm: &str, sizes: &[u64], grid: Grid<'_>) -> (Ratio, Ratio) {
    let r = expand(&world.lib, &world.call(&world.case(algorithm, sizes, None)), &Limits::default()).unwrap();
    let (mut lockstep, mut total) = (0, BTreeMap::<_, u64>::new());
    for round in &r.rounds {
        // Chunks that go to several places of a peer travel once.
        let mut messages: BTreeMap<(u32, u32, i8), BTreeSet<(u32, u32)>> = BTreeMap::new();
        for x in round.iter().filter(|x| x.is_remote()) {
            let places = x.from.runs().iter().flat_map(|run| run.start..run.start + run.len);
            let message = messages.entry((x.src, x.dst, x.direction.signum())).or_default();
            message.extend(places.map(|a| (x.from.buffer, a)));
        }
        let mut on = BTreeMap::new();
        for ((src, dst, way), atoms) in messages {
            grid.send(src.into(), dst.into(), way, atoms.len() as u64 * PARTS, &mut on);
        }
        lockstep += on.values().copied().max().unwrap_or(0);
        on.into_iter().for_each(|(link, load)| *total.entry(link).or_default() += load);
    }
    let of = |load: u64| Ratio::new(load, u64::from(r.atoms) * PARTS);
    (of(lockstep), of(total.values().copied().max().unwrap_or(0)))
}

/// An algorithm, and its load on the busiest link as a fraction.
type Load = (&'static str, (u64, u64));

/// Machine, shape of the call, then algorithms of all_reduce with the load of the busiest link,
/// summed over rounds.
const TABLE: &[(&str, &[u64], &[Load])] = &[
    (
        "ring",
        &[8],
        &[
            ("bidirectional_ring", (7, 8)),
            ("ring", (7, 4)),
            ("two_phase", (2, 1)),
            ("swing", (2, 1)),
            ("nhr", (5, 2)),
            ("halving_doubling", (13, 4)),
            ("double_tree", (4, 1)),
            ("recursive_doubling", (5, 1)),
        ],
    ),
    (
        "ring",
        &[16],
        &[
            ("bidirectional_ring", (15, 16)),
            ("ring", (15, 8)),
            ("swing", (19, 8)),
            ("nhr", (7, 2)),
            ("two_phase", (4, 1)),
            ("halving_doubling", (53, 8)),
            ("recursive_doubling", (11, 1)),
            ("one_phase", (32, 1)),
        ],
    ),
    ("torus", &[3, 3], &[("torus2_all_links", (4, 9)), ("hierarchical", (10, 9)), ("torus2", (16, 9))]),
    ("torus", &[4, 4], &[("torus2_all_links", (15, 32)), ("hierarchical", (11, 8)), ("torus2", (15, 8))]),
    ("torus", &[3, 3, 3], &[("torus3_all_links", (26, 81)), ("torus3", (52, 27))]),
    ("torus", &[3, 2], &[("torus2_all_links", (11, 12))]),
    ("mesh", &[3, 3], &[("mesh2_all_links", (8, 9)), ("torus2_all_links", (8, 9)), ("mesh2", (4, 1))]),
    (
        "mesh",
        &[4, 4],
        &[
            ("mesh2_all_links", (15, 16)),
            ("torus2_all_links", (15, 16)),
            ("snake", (15, 8)),
            ("mesh2", (6, 1)),
        ],
    ),
    (
        "mesh",
        &[8],
        &[("ring", (7, 4)), ("bidirectional_ring", (7, 4)), ("line_rs_ag", (7, 4)), ("line", (7, 1))],
    ),
];

#[test]
fn loads_are_those_of_the_table() {
    let world = World::shipped();
    let (mut wrong, mut rows) = (vec![], vec![]);
    for (machine, sides, algorithms) in TABLE {
        for (name, (num, den)) in *algorithms {
            let grid = Grid { sides, wraps: *machine != "mesh", halves: true, twice: false };
            let (got, _) = loads(world, &format!("all_reduce {name}"), sides, grid);
            let (routed, busiest) =
                loads(world, &format!("all_reduce {name}"), sides, Grid { halves: false, ..grid });
            if got != Ratio::new(*num, *den) {
                wrong.push(format!("{name} on {machine} {sides:?}: {got}, not {num}/{den}"));
            }
            let case = world.case(&format!("all_reduce {name}"), sides, None);
            rows.push(format!(
                "{machine}{sides:?} {name}: {got}, by the routes of kbc {routed}, in all {busiest}"
            ));
            // The event engine routes the schedule of the same call and counts the same bytes on
            // the busiest link.
            let shape: Vec<String> = sides.iter().map(u64::to_string).collect();
            let machine = Topology::parse(&format!("{machine}({})", shape.join(", ")), FileId(0));
            let Ok(machine) = machine else { continue };
            let n = 2 * 2 * 3 * 3 * sides.iter().product::<u64>() * 4;
            let m = stack::synchronized(world, &case, &Layout::ints(n)).unwrap();
            let timing = simulate(m.schedule().unwrap(), &machine, &TimeOptions::default()).unwrap();
            let most = timing.links.iter().map(|l| l.bytes).max().unwrap();
            let want = busiest.num() * n * 4 / busiest.den();
            if most != want {
                wrong.push(format!(
                    "{name} on {machine}: {most} bytes on the busiest link, rounds say {want}"
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    insta::assert_snapshot!(rows.join("\n"));
}

/// ADR 16: lanes of unequal length do not wait for each other in a schedule. On the torus 3 x 2,
/// the time of `torus2_all_links` is that of the load of its busiest link, less than the rounds
/// would take in lockstep.
#[test]
fn lanes_of_unequal_length_do_not_wait() {
    let world = World::shipped();
    let grid = Grid { sides: &[3, 2], wraps: true, halves: false, twice: false };
    let (lockstep, busiest) = loads(world, "all_reduce torus2_all_links", grid.sides, grid);
    let machine = Topology::parse("torus(3, 2) { link: 1 GB/s, 0 ns }", FileId(0)).unwrap();
    let n = 1_440_000;
    let case = world.case("all_reduce torus2_all_links", grid.sides, None);
    let m = stack::synchronized(world, &case, &Layout::ints(n)).unwrap();
    let ns = simulate(m.schedule().unwrap(), &machine, &TimeOptions::default()).unwrap().ns;
    let of = |r: Ratio| r.num() as f64 / r.den() as f64 * n as f64 * 4.0;
    assert!(ns >= of(busiest), "{ns} ns, the busiest link alone takes {}", of(busiest));
    assert!(ns < of(lockstep), "{ns} ns, lockstep takes {}", of(lockstep));
    insta::assert_snapshot!(format!(
        "busiest link {busiest}, lockstep {lockstep}, time {:.4} of the vector over a link",
        ns / (n as f64 * 4.0)
    ));
}
