//! Tests of collectives of a graph, on a mesh of two axes and with every cut rule: from the graph's
//! text to numbers.
#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use crate::stack;

use kbc_backend_sim::interp::{RunOptions, run};
use kbc_checker::{CheckOptions, check};
use kbc_diag::FileId;
use kbc_ir::schedule::BufferRole;
use kbc_ir::text;
use kbc_ir::types::TensorType;
use kbc_numerics::compare::{Expected, ReferenceValues, compare};
use kbc_numerics::generate::{exact, exact_range};
use kbc_passes::instrument::{Instrument, RoundTrip, VerifyEach};
use kbc_passes::{PassCx, Pipeline};
use stack::World;

/// Type before, collective with its attributes, type after. Each runs with every algorithm that is
/// legal there.
const CASES: &[(&str, &str, &str)] = &[
    ("i32[7@dp, 10@tp]", "all_gather % over tp dim 1", "i32[7@dp, 10]"),
    ("i32[7@dp, 10@tp]", "all_gather % over dp dim 0", "i32[7, 10@tp]"),
    ("i32[7@dp, 10@tp(ceil)]", "all_gather % over tp dim 1", "i32[7@dp, 10]"),
    ("i32[7@dp, 10] partial(sum@tp)", "all_reduce sum % over tp", "i32[7@dp, 10]"),
    ("i32[7, 2] partial(sum@dp)", "all_reduce sum % over dp", "i32[7, 2]"),
    ("i32[0, 2] partial(sum@tp)", "all_reduce sum % over tp", "i32[0, 2]"),
    ("i32[7@dp, 10] partial(sum@tp)", "reduce_scatter sum % over tp dim 1", "i32[7@dp, 10@tp]"),
    ("i32[2, 10] partial(sum@tp)", "reduce_scatter sum % over tp dim 0", "i32[2@tp, 10]"),
    ("i32[7, 10] partial(sum@tp)", "reduce_scatter sum % over tp dim 0", "i32[7@tp(ceil), 10]"),
    ("i32[7@tp, 10]", "all_to_all % over tp dim 1 from 0", "i32[7, 10@tp]"),
    ("i32[7@tp, 10, 3@dp]", "all_to_all % over tp dim 1 from 0", "i32[7, 10@tp(ceil), 3@dp]"),
    ("i32[1@tp, 2]", "all_to_all % over tp dim 1 from 0", "i32[1, 2@tp]"),
    ("i32[7@dp, 5] only(1@tp)", "broadcast % over tp root 1", "i32[7@dp, 5]"),
    ("i32[7@dp, 5] partial(sum@tp)", "reduce sum % over tp root 2", "i32[7@dp, 5] only(2@tp)"),
    ("i32[7@tp, 5@dp]", "gather % over tp dim 0 root 2", "i32[7, 5@dp] only(2@tp)"),
    ("i32[7, 5@dp] only(2@tp)", "scatter % over tp dim 0 root 2", "i32[7@tp, 5@dp]"),
];

fn types(s: &kbc_ir::schedule::Schedule, role: BufferRole) -> TensorType {
    s.buffers.iter().find(|b| b.role == role).unwrap().global.clone().unwrap()
}

#[test]
fn groups_and_cuts() {
    let world = World::shipped();
    let mut runs = 0;
    for (from, what, to) in CASES {
        let coll = what.split(' ').next().unwrap();
        for alg in world.lib.algorithms() {
            let decl = world.lib.algorithm(alg);
            if decl.coll.node != coll || decl.axes.len() != 1 || decl.cond.is_some() {
                continue;
            }
            let line = what.replace('%', "%x");
            let kir = format!(
                "kir 1\nmodule @t\nmesh dp 2, tp 3\nprops typed placed selected\n\ngraph @t\ninput @x : {from}\n\
                 result : {to}\n\n%x = input @x : {from}\n%y = {line} using {} : {to}\n%out = output 0 %y : {to}\n",
                decl.name.node
            );
            let name = format!("{from} {what} {}", decl.name.node);
            let mut m = text::parse(FileId(9), &kir).unwrap_or_else(|d| panic!("{name}: {d:?}"));
            let cx = PassCx::new(&world.lib, None);
            let mut checks: (VerifyEach, RoundTrip) = (VerifyEach, RoundTrip::default());
            let watch: &mut [&mut dyn Instrument] = &mut [&mut checks.0, &mut checks.1];
            let lower = Pipeline::named("lower").unwrap();
            match lower.run(&mut m, &cx, watch) {
                Ok(()) => {}
                // Blocks of different lengths in each other's places; the sizes here are
                // deliberately uneven.
                Err(d) if coll == "all_to_all" && d.list.iter().all(|d| d.code == "E332") => continue,
                Err(d) => panic!("{name}: {}", world.words(&d)),
            }
            let s = m.schedule().unwrap();
            let v = check(s, &CheckOptions::default());
            assert!(v.ok(), "{name}: {}", world.words(&v.errors));
            let (ty, out) = (types(s, BufferRole::Input(0)), types(s, BufferRole::Output(0)));
            let range = exact_range(ty.dtype, 3, 1, true);
            let feeds: Vec<_> = (0..3).map(|c| vec![exact(&ty, &s.mesh, range, 0, c).unwrap()]).collect();
            let result = run(s, &feeds, &RunOptions { calls: 3, ..RunOptions::default() });
            let result = result.unwrap_or_else(|d| panic!("{name}: {}", world.words(&d)));
            for (call, ranks) in result.outputs.iter().enumerate() {
                // A collective changes the placement of a value, never the value.
                let all = feeds[call][0].data().to_i64().unwrap();
                let n = ty.elements() as usize;
                let values: Vec<i64> = (0..n).map(|i| all.iter().skip(i).step_by(n).sum()).collect();
                let want =
                    Expected { shape: &out.sizes(), values: ReferenceValues::Int(&values), bound: &[] };
                let parts: Vec<_> = ranks.iter().map(|r| &r[0]).collect();
                let c = compare(&out, &s.mesh, &parts, &want, None);
                assert!(c.ok(), "{name}, call {call}: {c:?}");
                assert!(c.elements > 0 || n == 0, "{name}: nothing compared");
            }
            runs += 1;
        }
    }
    assert!(runs > 40, "{runs}");
}
