//! Test that docs/reference/report.md and real reports have the same fields, of the documented
//! types.

use crate::common;
use crate::fields;
use crate::needs::{self, Need};

use common::{Scratch, root};
use fields::{documented, fields};
use std::collections::BTreeMap;

#[test]
fn the_page_and_the_reports_agree() {
    let scratch = Scratch::new();
    let mut found = BTreeMap::new();
    // Together they have every part; the last one has another stored result.
    let other = "topology sys = ring(2)\nmesh m = sys[tp]\n\nprogram p(x: f32[384] = ones()) -> f32[384] { x }\n\
        expect \"specs/minilm/ffn.npz\":b2\n";
    scratch.write("other.kb", other.as_bytes());
    for (name, from) in [
        ("host.kir", "a_second_drain_is_a_no_op.kir"),
        ("fails.kir", "the_rank_to_blame_comes_before_those_aborted_because_of_it.kir"),
    ] {
        scratch.write(name, &std::fs::read(root().join("tests/exec").join(from)).expect(from));
    }
    for (name, from) in
        [("gather.xml", "allgather_ring_8_2_1.xml"), ("hangs.xml", "send_first_simple_3_chunks.xml")]
    {
        scratch.write(name, &std::fs::read(root().join("tests/msccl/right").join(from)).expect(from));
    }
    let launch = needs::found(Need::C).map(|_| ("launch specs/all_reduce.kb -n 2 --repeat 1", 0));
    let commands = [
        ("compile specs/ffn_tp.kb", 0),
        ("compile specs/all_gather.kb", 0),
        ("run specs/gradients.kb --no-data", 0),
        ("compile specs/all_reduce.kb -D tp=1", 0),
        ("check specs/lib/doubling.kb", 0),
        ("check specs/lib/layers.kb", 0),
        ("check specs/all_to_all.kb", 0),
        ("run specs/reduce_scatter.kb --adversarial --seeds 1", 0),
        ("run specs/broadcast.kb --no-data", 0),
        ("run specs/all_reduce.kb --no-data --topology 'ring(4) { queue: tcm, 1 }'", 0),
        ("run specs/kernbench/transfers_pe_to_pe.kb --no-data", 0),
        (
            "run specs/all_reduce.kb --topology '{shape: \"package(ring(4), mesh(1, 2), 2)\", ranks: sip, placement: {default: {cube: column_wise}}}'",
            0,
        ),
        ("run specs/all_reduce.kb --order fixed", 0),
        ("run host.kir", 0),
        ("run fails.kir --no-proof", 1),
        ("run specs/broadcast.kb --no-data --perturb '{stragglers: [{share: 100%, late: 1 us}]}'", 0),
        ("explain path specs/ffn_tp.kb", 0),
        ("explain links specs/all_gather.kb", 0),
        ("compile specs/broadcast.kb --target a2a3", 0),
        ("compile specs/all_reduce.kb --target a2a3 --deferred-waits --no-data", 0),
        ("compile other.kb", 1),
        ("compile gather.xml", 0),
        ("check hangs.xml -D bytes=48M", 1),
        ("check specs/torch/mlp_tp2", 0),
    ];
    for (command, code) in commands.into_iter().chain(launch) {
        let ran = scratch.line(&format!("kbc {command} --format json"));
        assert_eq!(ran.code, code, "{command}\n{}", ran.stderr);
        let report = serde_json::from_str(&ran.stdout).expect("one object");
        fields(&report, "", &mut found);
    }
    let mut page = documented("docs/reference/report.md");
    if launch.is_none() {
        page.retain(|field, _| !field.starts_with("launched"));
    }
    let missing: Vec<_> = found.keys().filter(|f| !page.contains_key(*f)).collect();
    let unknown: Vec<_> = page.keys().filter(|f| !found.contains_key(*f)).collect();
    assert!(
        missing.is_empty() && unknown.is_empty(),
        "not on the page: {missing:?}; in no report: {unknown:?}"
    );
    for (name, kinds) in found {
        for kind in kinds {
            assert!(
                page[&name].split(" or ").any(|k| k == kind),
                "{name} is {kind}, the page says {}",
                page[&name]
            );
        }
    }
}
