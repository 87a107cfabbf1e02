//! Times of large networks. Run with
//! `cargo test --release -p kbc-synthesis speed -- --ignored --nocapture --test-threads=1`.

#![allow(clippy::print_stderr, reason = "the times are for a reader")]

use crate::checker::{check, check_spanning};
use crate::flow_checker::{Demands, check_flow, check_plan, of_matrix, uniform};
use crate::topologies::{
    Dice, Sketch, a100, boxes, fat_tree, full, grid, hypercube, mi250, random, random_regular, ring, star,
};
use kbc_synthesis::{
    AllToAllFlow, Network, TreeCollective, all_to_all_flow, all_to_all_rounds, all_to_all_v_flow, best_rate,
    pack_spanning_trees, pack_trees,
};
use std::time::{Duration, Instant};

fn trees(name: &str, sketch: &Sketch) {
    let network = sketch.network();
    let start = Instant::now();
    let rate = best_rate(&network, TreeCollective::AllGather).expect(name);
    let of_rate = start.elapsed();
    let packing = pack_trees(&network, TreeCollective::AllGather).expect(name);
    let all = start.elapsed() - of_rate;
    check(&network, TreeCollective::AllGather, None, &packing).expect(name);
    let depth = packing.classes.iter().map(|c| c.depth()).max().unwrap_or(0);
    let mean = packing.classes.iter().map(|c| c.depth() as f64 * c.trees as f64).sum::<f64>()
        / packing.classes.iter().map(|c| c.trees as f64).sum::<f64>();
    eprintln!(
        "{name}: rate {} in {of_rate:.2?}, k {} in {all:.2?}, {} classes, depth {depth} (mean {mean:.1})",
        rate.rate,
        packing.roots[0].1,
        packing.classes.len()
    );
}

fn spanning(name: &str, sketch: &Sketch) {
    let network = sketch.network();
    let start = Instant::now();
    let packing = pack_spanning_trees(&network).expect(name);
    let all = start.elapsed();
    check_spanning(&network, &packing).expect(name);
    let deepest = packing.classes.iter().map(|c| c.height(|_| 1.0)).fold(0.0, f64::max);
    eprintln!(
        "{name}: spanning rate {}, {} trees in {all:.2?}, {} classes, depth {deepest}",
        packing.rate,
        packing.trees,
        packing.classes.len()
    );
}

/// Demands of 1 to 1000, but none for two pairs of three.
fn uneven(p: usize) -> Vec<Vec<u64>> {
    let mut dice = Dice(11);
    let mut amount = || if dice.below(3) > 0 { 0 } else { 1 + dice.next() % 1000 };
    (0..p).map(|_| (0..p).map(|_| amount()).collect()).collect()
}

fn all_to_all(name: &str, sketch: &Sketch) {
    let network = sketch.network();
    let start = Instant::now();
    let flow = all_to_all_flow(&network).expect(name);
    flow_and_rounds(name, &network, &uniform(&network), &flow, start.elapsed());
}

fn all_to_all_v(name: &str, sketch: &Sketch) {
    let network = sketch.network();
    let rows = uneven(network.members().len());
    let start = Instant::now();
    let flow = all_to_all_v_flow(&network, &rows).expect(name);
    flow_and_rounds(name, &network, &of_matrix(&network, &rows), &flow, start.elapsed());
}

fn flow_and_rounds(name: &str, network: &Network, demands: &Demands, flow: &AllToAllFlow, of_flow: Duration) {
    check_flow(network, demands, flow).expect(name);
    let paths: usize = flow.pairs.iter().map(|p| p.paths.len()).sum();
    eprintln!(
        "{name}: flow {} of {} ({:.5}) in {of_flow:.2?}, {} shares, {:.2} paths per pair",
        flow.rate,
        flow.bound,
        flow.gap(),
        flow.shares,
        paths as f64 / flow.pairs.len() as f64
    );
    for pieces in [1, 4] {
        let start = Instant::now();
        let Ok(plan) = all_to_all_rounds(flow, pieces, 480_000) else { break };
        let of_plan = start.elapsed();
        check_plan(network, demands, pieces, &plan).expect(name);
        eprintln!(
            "    {pieces} pieces: rate {:.4} of the bound, {} messages, {} of {} rounds needed, {:.4} of the \
             bound with them, in {of_plan:.2?}",
            plan.rate.to_f64() / flow.bound.to_f64(),
            plan.messages(),
            plan.rounds.len(),
            plan.least,
            1.0 / (flow.bound.to_f64() * plan.rounds.len() as f64 * plan.round.to_f64())
        );
    }
}

#[test]
#[ignore = "prints times"]
fn speed_of_all_to_all() {
    all_to_all("ring 64", &ring(64));
    all_to_all("torus 8x8", &grid(&[8, 8], true));
    all_to_all("torus 4x16", &grid(&[4, 16], true));
    all_to_all("mesh 8x8", &grid(&[8, 8], false));
    all_to_all("torus 4x4x4", &grid(&[4, 4, 4], true));
    all_to_all("hypercube 6", &hypercube(6));
    all_to_all("full 64", &full(64));
    all_to_all("switch 64", &star(64, 1));
    all_to_all("8 boxes of 8", &boxes(8, 8, 450, 50));
    all_to_all("8 A100 boxes", &a100(8));
    all_to_all("4 MI250 boxes", &mi250(4, 16));
    all_to_all("fat tree 8x8, 4 spines", &fat_tree(8, 8, 4, 1, 1));
    all_to_all("random regular 64, 4", &random_regular(&mut Dice(7), 64, 4));
    all_to_all("random 64, switches 8", &random(&mut Dice(8), 64, 8, 100, 0));
    let mut broken = grid(&[8, 8], true);
    broken.unlink(0, 1);
    all_to_all("torus 8x8 without a link", &broken);
    all_to_all_v("torus 8x8, uneven demands", &grid(&[8, 8], true));
    all_to_all_v("8 boxes of 8, uneven demands", &boxes(8, 8, 450, 50));
    all_to_all_v("random regular 64, 4, uneven demands", &random_regular(&mut Dice(7), 64, 4));
    all_to_all_v("torus 8x16, uneven demands", &grid(&[8, 16], true));
    all_to_all("torus 8x16", &grid(&[8, 16], true));
    all_to_all("mesh 8x16", &grid(&[8, 16], false));
    all_to_all("hypercube 7", &hypercube(7));
    all_to_all("random regular 128, 4", &random_regular(&mut Dice(7), 128, 4));
    all_to_all("16 boxes of 8", &boxes(16, 8, 450, 50));
    all_to_all("mesh 8x8x8", &grid(&[8, 8, 8], false));
    all_to_all("torus 8x8x8", &grid(&[8, 8, 8], true));
}

#[test]
#[ignore = "prints times"]
fn speed_of_64() {
    trees("torus 8x8", &grid(&[8, 8], true));
    trees("mesh 8x8", &grid(&[8, 8], false));
    trees("torus 4x4x4", &grid(&[4, 4, 4], true));
    trees("hypercube 6", &hypercube(6));
    trees("full 64", &full(64));
    trees("switch 64", &star(64, 1));
    trees("8 boxes of 8", &boxes(8, 8, 450, 50));
    trees("fat tree 8x8, 4 spines", &fat_tree(8, 8, 4, 1, 2));
    trees("random regular 64, 4", &random_regular(&mut Dice(7), 64, 4));
    trees("random 64, switches 8", &random(&mut Dice(8), 64, 8, 100, 0));
    let mut broken = grid(&[8, 8], true);
    broken.unlink(0, 1);
    trees("torus 8x8 without a link", &broken);
    spanning("torus 8x8", &grid(&[8, 8], true));
    spanning("mesh 8x8", &grid(&[8, 8], false));
    spanning("hypercube 6", &hypercube(6));
    spanning("full 64", &full(64));
    spanning("random regular 64, 4", &random_regular(&mut Dice(7), 64, 4));
    spanning("random 64", &random(&mut Dice(8), 64, 0, 100, 0));
}

#[test]
#[ignore = "prints times"]
fn speed_of_512() {
    trees("torus 8x8x8", &grid(&[8, 8, 8], true));
    trees("torus 16x32", &grid(&[16, 32], true));
    trees("mesh 8x8x8", &grid(&[8, 8, 8], false));
    trees("hypercube 9", &hypercube(9));
    trees("random regular 512, 4", &random_regular(&mut Dice(3), 512, 4));
    trees("switch 512", &star(512, 1));
    trees("64 boxes of 8", &boxes(64, 8, 450, 50));
    trees("fat tree 32x16, 16 spines", &fat_tree(32, 16, 16, 1, 1));
    trees("fat tree 32x16, 4 narrow spines", &fat_tree(32, 16, 4, 4, 3));
    let mut broken = grid(&[8, 8, 8], true);
    broken.unlink(0, 1);
    broken.unlink(100, 101);
    trees("torus 8x8x8 without two links", &broken);
    spanning("torus 8x8x8", &grid(&[8, 8, 8], true));
    spanning("mesh 8x8x8", &grid(&[8, 8, 8], false));
    spanning("hypercube 9", &hypercube(9));
    spanning("random regular 512, 4", &random_regular(&mut Dice(3), 512, 4));
}
