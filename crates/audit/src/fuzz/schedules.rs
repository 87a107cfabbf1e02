//! Random schedules on both engines: given schedules and collectives of the library, with other
//! element types, and with one operation changed.
//!
//! A wrong schedule must fail in both engines or in neither. Changed schedules are compared in the
//! fixed order only: a change may cause a race, whose result depends on the order.

use super::catalogue::Catalogue;
use super::compare::{CompareOptions, compare};
use super::machine::RandomMachine;
use super::rng::Rng;
use super::{Difference, MAX_BYTES, Summary, bits, generate, library, make};
use kbc_checker::mutate::{self, Mutation};
use kbc_diag::Diagnostics;
use kbc_ir::host::with_host_region;
use kbc_ir::schedule::Schedule;
use kbc_ir::text::{self, PrintOptions};
use kbc_ir::types::DType;
use kbc_ir::walk::Program;
use kbc_ir::{Body, Module, Props, verify};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Number of changed schedules that are tried for each correct one.
const CHANGES: usize = 3;

/// Returns the schedule with another element type in place of f32.
fn retyped(s: &Schedule, to: DType) -> Schedule {
    let mut out = s.clone();
    let change = |d: &mut DType| *d = if *d == DType::F32 { to } else { *d };
    out.windows.iter_mut().for_each(|w| change(&mut w.dtype));
    out.queues.iter_mut().for_each(|q| change(&mut q.dtype));
    for b in &mut out.buffers {
        change(&mut b.dtype);
        b.global.iter_mut().for_each(|g| change(&mut g.dtype));
    }
    out
}

fn module(s: &Schedule) -> Module {
    Module {
        name: s.name.clone(),
        machine: None,
        mesh: s.mesh.clone(),
        body: Body::Schedule(s.clone()),
        props: Props::default(),
        attributes: Default::default(),
    }
}

/// Returns the text for a reproducer.
fn shown(s: &Schedule) -> String {
    text::print(&module(s), &PrintOptions::default())
}

fn well_formed(s: &Schedule) -> Result<(), Diagnostics> {
    let found = verify::verify(&module(s));
    if found.has_errors() {
        return Err(found);
    }
    Program::compile(&with_host_region(s)).map(|_| ()).map_err(Diagnostics::from)
}

/// Tries one schedule.
fn one(sum: &mut Summary, seed: u64, number: u64, s: &Schedule, how: CompareOptions) {
    sum.tried += 1;
    if let Err(found) = well_formed(s) {
        return sum.refuse(number, &found);
    }
    sum.accepted += 1;
    sum.coverage.program(None, s);
    let whole = with_host_region(s);
    let run = AssertUnwindSafe(|| compare(&whole, &bits::inputs(s, &[seed, number], how.calls), how));
    match catch_unwind(run).unwrap_or_else(|_| Err("a panic".to_owned())) {
        Ok(a) => sum.agreed(number, a),
        Err(what) => sum.differences.push(Difference { number, text: shown(s), kir: true, what }),
    }
}

/// Tries the schedules with these numbers of a seed: variations of `given` ones and of collectives.
pub fn schedules(
    given: &[Schedule],
    seed: u64,
    numbers: std::ops::Range<u64>,
    progress: &mut dyn FnMut(&Summary),
) -> Summary {
    let loaded = library();
    let catalogue = Catalogue::new(&loaded);
    let mut sum = Summary::default();
    for number in numbers {
        let rng = &mut Rng::new(&[seed, number, 2]);
        let base = if given.is_empty() || rng.chance(60) {
            let mut machine = RandomMachine::random(rng);
            machine.queues(&mut Rng::new(&[seed, number, 3]));
            match make(&generate::collectives(&catalogue, rng, machine).text()) {
                Ok(made) => made.schedule,
                Err(found) => {
                    sum.tried += 1;
                    sum.refuse(number, &found);
                    continue;
                }
            }
        } else {
            let to = *rng.pick(&[DType::F32, DType::F16, DType::BF16, DType::I32]);
            retyped(rng.pick(given), to)
        };
        let calls = 1 + rng.below(3) as u32;
        let how = CompareOptions { calls, seed: Some(rng.draw() >> 32), max_bytes: MAX_BYTES };
        one(&mut sum, seed, number, &base, how);
        let all: Vec<Mutation> = mutate::mutations(&base);
        for _ in 0..CHANGES.min(all.len()) {
            let m = rng.pick(&all);
            sum.coverage.note("change", m.word.to_owned());
            let changed = if rng.chance(50) {
                mutate::apply(&base, m)
            } else {
                mutate::apply_on(&base, m, rng.below(base.mesh.ranks() as usize) as u64)
            };
            one(&mut sum, seed, number, &changed, CompareOptions { seed: None, ..how });
        }
        progress(&sum);
    }
    sum
}
