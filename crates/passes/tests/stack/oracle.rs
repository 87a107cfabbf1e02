//! Oracle for floating-point sums: the results of an algorithm's rounds in f32, added in the order
//! that the language fixes. They are executed here, round by round, from the concrete rounds and
//! without code of the lowering.

use super::{Case, Layout, World};
use kbc_backend_sim::interp::{RunOptions, run};
use kbc_ir::types::DType;
use kbc_numerics::generate::mix32;
use kbc_numerics::tensor::{Data, Tensor};

/// Elements of one atom.
const ATOM: usize = 2;

/// Returns numbers of very different sizes, so that every order of additions shows.
fn number(k: u32) -> f32 {
    let bits = mix32(k, 3, 1);
    (bits as f32 / 4e9 - 0.3) * (1 << (bits % 13)) as f32
}

/// Compares every element of the contract with the rounds, bit by bit; returns the number of
/// elements.
pub fn compare(world: &World, case: &Case) -> usize {
    let rounds = kbc_rounds::expand(&world.lib, &world.call(case), &kbc_rounds::Limits::default()).unwrap();
    let coll = world.lib.collective(world.lib.collective_of(case.alg).unwrap());
    let (p, atoms) = (case.ranks() as usize, rounds.atoms as usize);
    let both = coll.buffers.len() == 2 && coll.buffers[0].sizes.len() == 2;
    // With two operands in blocks: p rows of ATOM * atoms / p columns per rank.
    let layout = if both {
        Layout { n: p as u64, unit: (ATOM * atoms - p) as u64, dtype: DType::F32, ..Layout::ints(0) }
    } else {
        Layout { dtype: DType::F32, ..Layout::ints((ATOM * atoms) as u64) }
    };
    if both && atoms % p != 0 {
        return 0;
    }
    let total = ATOM * atoms;
    let own = coll.buffers.len();
    let feed =
        |i: usize| -> Vec<f32> { (0..p * total).map(|k| number((i * p * total + k) as u32)).collect() };
    let m = super::synchronized(world, case, &layout)
        .unwrap_or_else(|d| panic!("{}: {}", world.show(case), world.words(&d)));
    let s = m.schedule().unwrap();
    let types = super::types(world, case, &layout);
    let inputs: Vec<Tensor> =
        types.iter().enumerate().map(|(i, t)| Tensor::new(t.sizes(), Data::F32(feed(i))).unwrap()).collect();
    let result = run(s, &[inputs], &RunOptions::default())
        .unwrap_or_else(|d| panic!("{}: {}", world.show(case), world.words(&d)));

    // state[rank][buffer][element]; scratch holds nothing at first.
    let mut state: Vec<Vec<Vec<Option<f32>>>> = (0..p)
        .map(|r| {
            let filled = |i: usize| feed(i)[r * total..(r + 1) * total].iter().map(|v| Some(*v)).collect();
            let of = |(i, b): (usize, &kbc_rounds::rounds::Buffer)| {
                if i < own { filled(i) } else { vec![None; b.atoms as usize * ATOM] }
            };
            rounds.buffers.iter().enumerate().map(of).collect()
        })
        .collect();
    for round in &rounds.rounds {
        let before = state.clone();
        let mut order: Vec<usize> = (0..round.len()).collect();
        order.sort_by_key(|&i| (round[i].distance, i));
        for reduce in [false, true] {
            for x in order.iter().map(|&i| &round[i]).filter(|x| x.reduce == reduce) {
                for (from, to) in x.from.places().zip(x.to.places()) {
                    for e in 0..ATOM {
                        let v = before[x.src as usize][x.from.buffer as usize][from as usize * ATOM + e];
                        let at = &mut state[x.dst as usize][x.to.buffer as usize][to as usize * ATOM + e];
                        *at = if reduce { Some(at.unwrap() + v.unwrap()) } else { v };
                    }
                }
            }
        }
    }
    let ints = Layout { dtype: DType::I32, ..layout };
    let mask = super::promised(world, case, &ints, &super::feed(world, case, &ints, 0), super::region(&m));
    let mut compared = 0;
    for (r, parts) in result.outputs[0].iter().enumerate() {
        for (i, part) in parts.iter().enumerate() {
            let Data::F32(got) = part.tensor.data() else { panic!("not f32") };
            for (e, g) in got.iter().enumerate() {
                if mask[i][r][e].is_some() {
                    let want = state[r][i][e].unwrap();
                    assert_eq!(
                        g.to_bits(),
                        want.to_bits(),
                        "{} rank {r} element {e}: {g} {want}",
                        world.show(case)
                    );
                    compared += 1;
                }
            }
        }
    }
    compared
}
