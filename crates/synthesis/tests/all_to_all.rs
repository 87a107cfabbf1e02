//! All-to-all and all-to-all(v): closed forms, many networks, plans, refusals.

use crate::flow_checker::{Demands, check_flow, check_plan, of_matrix, uniform};
use crate::topologies::{Dice, Sketch, a100, boxes, fat_tree, full, grid, hypercube, mi250, random};
use crate::topologies::{random_regular, ring, star};
use kbc_synthesis::{
    AllToAllFlow, AllToAllPlan, ExactRatio, Network, RoundCost, SynthesisError, all_to_all_flow,
    all_to_all_rounds, all_to_all_v_flow, fastest_all_to_all_rounds,
};

fn ratio(a: u128, b: u128) -> ExactRatio {
    ExactRatio::new(a, b).expect("not 0")
}

fn checked(name: &str, network: &Network) -> AllToAllFlow {
    let flow = all_to_all_flow(network).expect(name);
    check_flow(network, &uniform(network), &flow).unwrap_or_else(|e| panic!("{name}: {e}"));
    flow
}

/// Where all edges are alike and shortest paths can load them alike, the rate is the number of
/// edges divided by the sum of all distances.
#[test]
fn closed_forms() {
    let mut rows: Vec<(String, Sketch, ExactRatio)> = vec![];
    for p in 3..=16u128 {
        // A member of a ring sends over distances that add up to floor(p^2 / 4), and has 2 edges.
        rows.push((format!("ring {p}"), ring(p as usize), ratio(2, p * p / 4)));
        rows.push((format!("full {p}"), full(p as usize), ratio(1, 1)));
        rows.push((format!("star {p}"), star(p as usize, 3), ratio(3, p - 1)));
    }
    for d in 2..=6u32 {
        // The distances from a corner add up to d 2^(d-1).
        rows.push((format!("hypercube {d}"), hypercube(d as usize), ratio(1, 1 << (d - 1))));
    }
    for (a, b) in [(3, 3), (3, 4), (4, 4), (4, 6), (5, 5), (5, 7), (8, 8)] {
        // All data crosses an edge of the longer axis as often as on a ring of its size, b times a
        // row's own.
        let rate = ratio(2, a * (b * b / 4));
        rows.push((format!("torus {a}x{b}"), grid(&[a as usize, b as usize], true), rate));
    }
    for n in [2, 3, 4, 5] {
        // Half of a mesh n x n sends to the other half, over n edges.
        let (low, high) = (n / 2, n - n / 2);
        let rate = ratio(n, (n * low) * (n * high));
        rows.push((format!("mesh {n}x{n}"), grid(&[n as usize, n as usize], false), rate));
    }
    let mut exact = 0;
    for (name, sketch, best) in rows {
        let flow = checked(&name, &sketch.network());
        assert_eq!(flow.bound, best, "{name}");
        // One share of 5040 on an edge of the smallest of these is 1 / 40,320.
        assert!(flow.gap() > 0.9999, "{name}: {} of {}", flow.rate, flow.bound);
        exact += usize::from(flow.rate == best);
    }
    assert!(exact >= 50, "{exact} are exact");
}

#[test]
fn machines_with_switches() {
    let rows = [
        // 56 blocks of each device leave its box over one card.
        ("8 boxes of 8", boxes(8, 8, 450, 50), ratio(50, 56)),
        ("5 boxes of 7", boxes(5, 7, 100, 30), ratio(30, 28)),
        ("A100 4x8", a100(4), ratio(25, 24)),
        ("MI250 2x16", mi250(2, 16), ratio(1, 1)),
        // 8 x 56 blocks leave a leaf over 4 edges.
        ("fat tree", fat_tree(8, 8, 4, 1, 1), ratio(4, 8 * 56)),
        ("fat tree that is full", fat_tree(8, 8, 4, 1, 2), ratio(1, 63)),
    ];
    for (name, sketch, best) in rows {
        let flow = checked(name, &sketch.network());
        assert_eq!((flow.rate, flow.bound), (best, best), "{name}");
    }
}

/// A network, with demands of one of several kinds.
fn varied(dice: &mut Dice) -> (Sketch, Option<Vec<Vec<u64>>>) {
    let most = [1, 2, 10, 1000][dice.below(4)];
    let mut s = match dice.below(4) {
        0 => {
            let (down, up) = (1 + dice.next() % 4, 1 + dice.next() % 4);
            fat_tree(2 + dice.below(4), 1 + dice.below(5), 1 + dice.below(4), down, up)
        }
        1 => {
            let members = 6 + dice.below(20);
            random_regular(dice, members, 4)
        }
        2 => grid(&[2 + dice.below(4), 2 + dice.below(4)], dice.below(2) == 0),
        _ => {
            let (members, switches, one_way) = (2 + dice.below(20), dice.below(8), dice.below(4));
            random(dice, members, switches, most, one_way)
        }
    };
    if dice.below(4) == 0 {
        s.members.retain(|m| m % 4 <= 2);
    }
    if dice.below(3) == 0 {
        let (u, v, _) = s.edges[dice.below(s.edges.len())];
        s.unlink(u, v);
    }
    let p = s.members.len();
    let range = [2, 10, 1_000_000][dice.below(3)];
    let kind = dice.below(3);
    let amount = |dice: &mut Dice| if kind == 1 && dice.below(3) > 0 { 0 } else { dice.next() % range };
    let rows = (kind < 2).then(|| (0..p).map(|_| (0..p).map(|_| amount(dice)).collect()).collect());
    (s, rows)
}

#[test]
fn varied_networks() {
    let mut dice = Dice(19);
    let (mut flows, mut worst, mut sum) = (0, 1.0f64, 0.0);
    for i in 0..200 {
        let (sketch, rows) = varied(&mut dice);
        let Ok(network) = sketch.build() else { continue };
        let (flow, demands) = match &rows {
            None => (all_to_all_flow(&network), uniform(&network)),
            Some(rows) => (all_to_all_v_flow(&network, rows), of_matrix(&network, rows)),
        };
        let flow = match flow {
            Ok(flow) => flow,
            Err(SynthesisError::Unreachable { .. } | SynthesisError::NoDemand) => continue,
            Err(error) => panic!("network {i}: {error}"),
        };
        check_flow(&network, &demands, &flow).unwrap_or_else(|e| panic!("network {i}: {e}"));
        flows += 1;
        worst = worst.min(flow.gap());
        sum += flow.gap();
        assert!(flow.gap() > 0.99, "network {i}: {} of {}", flow.rate, flow.bound);
        let pieces = [1, 2, 3, 6, 8][dice.below(5)];
        let plan = all_to_all_rounds(&flow, pieces, 1 << 20).expect("rounds");
        check_plan(&network, &demands, pieces, &plan).unwrap_or_else(|e| panic!("network {i}: {e}"));
        assert!(plan.rate <= flow.bound, "network {i}");
    }
    assert!(flows > 170 && sum / f64::from(flows) > 0.999, "{flows} flows, {worst}, {sum}");
}

/// Rounds of regular machines are few: the busiest edge is idle in few of them.
#[test]
fn rounds_fill_the_edges() {
    for (name, sketch, pieces, share) in [
        ("ring 8", ring(8), 1, 1.0),
        ("full 8", full(8), 1, 1.0),
        ("star 8", star(8, 1), 1, 1.0),
        ("boxes", boxes(4, 4, 450, 50), 1, 0.95),
        ("mesh 4x4", grid(&[4, 4], false), 2, 0.95),
        ("torus 4x4", grid(&[4, 4], true), 8, 0.95),
        ("hypercube 4", hypercube(4), 8, 0.95),
        ("MI250 2x16", mi250(2, 16), 4, 0.9),
    ] {
        let network = sketch.network();
        let flow = checked(name, &network);
        let plan = all_to_all_rounds(&flow, pieces, 1 << 20).expect(name);
        check_plan(&network, &uniform(&network), pieces, &plan).unwrap_or_else(|e| panic!("{name}: {e}"));
        // The time at the best rate, and that of the rounds.
        let reached = 1.0 / flow.bound.to_f64() / (plan.rounds.len() as f64 * plan.round.to_f64());
        assert!(reached >= share, "{name}: {reached}");
    }
}

/// Blocks of unequal size have pieces of similar size.
#[test]
fn unequal_blocks() {
    let network = star(3, 1).network();
    let rows = vec![vec![9, 8, 2], vec![1, 0, 4], vec![0, 3, 0]];
    let flow = all_to_all_v_flow(&network, &rows).expect("a flow");
    let demands = of_matrix(&network, &rows);
    check_flow(&network, &demands, &flow).expect("sound");
    // Member 1 receives 8 + 3 over one edge.
    assert_eq!((flow.rate, flow.bound), (ratio(1, 11), ratio(1, 11)));
    let plan = all_to_all_rounds(&flow, 4, 100).expect("rounds");
    check_plan(&network, &demands, 4, &plan).expect("sound");
    let counts: Vec<(u64, u64)> = plan.blocks.iter().map(|b| (b.demand, b.pieces)).collect();
    assert_eq!(counts, [(8, 4), (2, 1), (1, 1), (4, 2), (3, 2)]);
}

/// A member in the middle of a path receives the data and sends it on; a switch does not.
#[test]
fn members_on_the_way_store_and_forward() {
    let mut s = Sketch::of_members(3);
    let w = s.switch();
    s.link(0, w, 1);
    s.link(w, 1, 1);
    s.link(1, 2, 1);
    let network = s.network();
    let flow = checked("a line", &network);
    let pair = flow.pairs.iter().find(|p| (p.source, p.destination) == (0, 2)).expect("a pair");
    assert_eq!(pair.paths[0].hops, [vec![0, w, 1], vec![1, 2]]);
    let plan = all_to_all_rounds(&flow, 1, 8).expect("rounds");
    check_plan(&network, &uniform(&network), 1, &plan).expect("sound");
    assert_eq!(plan.messages(), 8);
    let refused = SynthesisError::Overflow { what: "the number of messages" };
    assert_eq!(all_to_all_rounds(&flow, 1, 7), Err(refused));
}

#[test]
fn the_number_of_pieces_depends_on_the_cost() {
    let network = grid(&[4, 4], true).network();
    let flow = checked("torus", &network);
    let pieces = |latency, amount| {
        let plan = fastest_all_to_all_rounds(&flow, RoundCost { latency, amount }, 40_000).expect("a plan");
        check_plan(&network, &uniform(&network), plan.pieces, &plan).expect("sound");
        plan.pieces
    };
    assert_eq!(pieces(500.0, 1.0), 1);
    let (middle, many) = (pieces(500.0, 100_000.0), pieces(0.0, 1.0));
    assert!(middle > 1 && many >= middle, "{middle}, {many}");
    let refused = SynthesisError::Overflow { what: "the number of messages" };
    let cost = RoundCost { latency: 1.0, amount: 1.0 };
    assert_eq!(fastest_all_to_all_rounds(&flow, cost, 100), Err(refused));
}

#[test]
fn refusals() {
    let network = ring(4).network();
    let flow = all_to_all_flow(&network).expect("a flow");
    assert_eq!(all_to_all_rounds(&flow, 0, 100), Err(SynthesisError::ZeroPieces));
    let refused = SynthesisError::Overflow { what: "the number of messages" };
    for pieces in [10, 1 << 40, u64::MAX] {
        assert_eq!(all_to_all_rounds(&flow, pieces, 100), Err(refused));
        assert_eq!(all_to_all_rounds(&flow, pieces.max(1 << 30), u64::MAX), Err(refused));
    }
    let demand = |rows: &[Vec<u64>]| all_to_all_v_flow(&network, rows).expect_err("refused");
    assert_eq!(demand(&vec![vec![1; 4]; 3]), SynthesisError::DemandShape { len: 3, members: 4 });
    let mut rows = vec![vec![1; 4]; 4];
    rows[2].push(1);
    assert_eq!(demand(&rows), SynthesisError::DemandShape { len: 5, members: 4 });
    let own: Vec<Vec<u64>> = (0..4).map(|i| (0..4).map(|j| u64::from(i == j)).collect()).collect();
    assert_eq!(demand(&own), SynthesisError::NoDemand);
    let sum = SynthesisError::Overflow { what: "the sum of the demands" };
    assert_eq!(demand(&vec![vec![u64::MAX; 4]; 4]), sum);
    // One way only: nothing is sent back.
    let network = Network::new(2, [(0, 1, 5)], [0, 1]).expect("sound");
    assert_eq!(all_to_all_flow(&network), Err(SynthesisError::Unreachable { from: 1, to: 0 }));
    let flow = all_to_all_v_flow(&network, &[vec![0, 2], vec![0, 0]]).expect("one way is enough");
    check_flow(&network, &Demands::from([((0, 1), 2)]), &flow).expect("sound");
    assert_eq!((flow.rate, flow.bound), (ratio(5, 2), ratio(5, 2)));
}

/// A flow is plain data, which anybody can make. One that does not fit together is an error.
#[test]
fn parts_that_do_not_fit_are_refused() {
    let flow = all_to_all_flow(&ring(4).network()).expect("a flow");
    let refused = Err(SynthesisError::Inconsistent { step: "the rounds" });
    let broken = |breaks: fn(&mut AllToAllFlow)| {
        let mut flow = flow.clone();
        breaks(&mut flow);
        all_to_all_rounds(&flow, 2, 1000)
    };
    assert_eq!(broken(|f| f.shares = 0), refused);
    assert_eq!(broken(|f| f.edges[0].capacity = 0), refused);
    assert_eq!(broken(|f| f.pairs[0].demand = 0), refused);
    assert_eq!(broken(|f| f.pairs[0].destination = 9), refused);
    assert_eq!(broken(|f| f.members = vec![0, 1]), refused);
    assert_eq!(broken(|f| f.pairs[0].paths[0].hops[0][1] = 77), refused);
    assert_eq!(broken(|f| f.edges.reverse()), refused);
    assert_eq!(broken(|f| f.pairs[0].paths[0].hops = vec![vec![2, 3]]), refused);
    assert!(broken(|f| f.pairs[0].paths[0].shares = u64::MAX).is_ok(), "shares only guide the rounding");
    assert!(broken(|f| f.pairs[0].paths.clear()).is_ok(), "a pair without paths gets its shortest one");
}

/// Whatever the numbers, the answer is a result or an error.
#[test]
fn large_numbers() {
    let mut dice = Dice(5);
    for i in 0..10 {
        let network = random(&mut dice, 6, 2, u64::MAX >> 8, 2).network();
        let rows: Vec<Vec<u64>> = (0..6).map(|_| (0..6).map(|_| dice.next() >> 6).collect()).collect();
        let flow = all_to_all_v_flow(&network, &rows).expect("a flow");
        assert!(flow.gap() > 0.98 && flow.rate <= flow.bound, "network {i}: {}", flow.gap());
        let plan = all_to_all_rounds(&flow, 3, 10_000);
        let known = |e: &SynthesisError| matches!(e, SynthesisError::Overflow { .. });
        assert!(plan.as_ref().err().is_none_or(known), "{plan:?}");
    }
}

/// The check of these tests notices when a flow or a plan is changed.
#[test]
fn changes_are_noticed() {
    let network = boxes(2, 3, 9, 2).network();
    let demands = uniform(&network);
    let flow = checked("boxes", &network);
    let changes: [fn(&mut AllToAllFlow); 8] = [
        |f| f.rate = ExactRatio::new(f.rate.numerator() * 2, f.rate.denominator()).expect("not 0"),
        |f| f.bound = ExactRatio::new(f.bound.numerator(), f.bound.denominator() * 2).expect("not 0"),
        |f| f.edges[0].length += 1,
        |f| f.edges[0].load += 1,
        |f| f.demand_length += 1,
        |f| f.pairs[3].paths[0].shares += 1,
        |f| f.pairs[3].paths[0].hops[0].swap(0, 1),
        |f| drop(f.pairs.pop()),
    ];
    for (i, change) in changes.into_iter().enumerate() {
        let mut changed = flow.clone();
        change(&mut changed);
        assert!(check_flow(&network, &demands, &changed).is_err(), "change {i} of a flow");
    }
    let plan = all_to_all_rounds(&flow, 2, 1000).expect("rounds");
    let changes: [fn(&mut AllToAllPlan); 6] = [
        |p| drop(p.rounds.pop()),
        |p| p.rounds[1] = p.rounds[0].clone(),
        |p| p.rounds[0][0].to = p.rounds[0][0].from,
        |p| p.blocks[0].paths[0].pieces += 1,
        |p| p.least -= 1,
        |p| {
            let second = p.rounds.remove(1);
            p.rounds[0].extend(second);
            p.rounds[0].sort_unstable();
        },
    ];
    for (i, change) in changes.into_iter().enumerate() {
        let mut changed = plan.clone();
        change(&mut changed);
        assert!(check_plan(&network, &demands, 2, &changed).is_err(), "change {i} of a plan");
    }
}

#[test]
fn results_are_the_same_each_time() {
    let network = random(&mut Dice(3), 20, 4, 9, 2).network();
    let (a, b) = (all_to_all_flow(&network).expect("a flow"), all_to_all_flow(&network).expect("a flow"));
    assert_eq!(a, b);
    assert_eq!(all_to_all_rounds(&a, 3, 100_000), all_to_all_rounds(&b, 3, 100_000));
}
