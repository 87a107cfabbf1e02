//! Tests that hosts added to schedules without one change nothing, wherever they read and wait: not
//! the checker's verdict, no bit of a result, and no nanosecond.
#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use crate::common;

use common::*;
use kbc_backend_sim::adversary::{AdversaryOptions, adversarial};
use kbc_backend_sim::interp::{RunOptions, run};
use kbc_backend_sim::jit;
use kbc_checker::{CheckOptions, check};
use kbc_diag::{FileId, Span};
use kbc_ir::host::with_host_region;
use kbc_ir::schedule::{BufferId, BufferRole, Host, HostCommand, LocalOp, RegionId, SOp, SStmt, Schedule};
use kbc_ir::text::{PrintOptions, equivalent, print};
use kbc_ir::uses::writes;
use kbc_ir::verify::verify;
use kbc_ir::{Body, Module, Props};
use kbc_machine::topology::Topology;
use kbc_time::{TimeOptions, simulate};

/// Pseudo-random numbers.
struct Draw(u64);

impl Draw {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % n
    }
}

/// Returns a host that launches everything, with random reads and waits in between, and at the end
/// reads every result. A buffer is read once all its writers are launched, so that its content does
/// not depend on the progress of other regions.
fn host(s: &Schedule, draw: &mut Draw) -> Host {
    let op = |op| SStmt::Op(op, Span::NONE);
    let mut body = vec![];
    for i in 0..s.regions.len() {
        body.push(op(SOp::Host(HostCommand::Launch(RegionId(i as u32)))));
        for (b, buffer) in s.buffers.iter().enumerate() {
            let id = BufferId(b as u32);
            let last = s.regions.iter().rposition(|r| writes(r, id));
            let result = matches!(buffer.role, BufferRole::Output(_));
            if result && last.is_some_and(|l| l <= i) && draw.below(2) == 0 {
                body.push(op(SOp::HostRead(id)));
            }
        }
        match draw.below(4) {
            0 => body.push(op(SOp::Host(HostCommand::Drain))),
            1 => body.push(op(SOp::Host(HostCommand::Wait(RegionId(draw.below(i + 1) as u32))))),
            _ => {}
        }
    }
    for (b, _) in s.buffers.iter().enumerate().filter(|(_, b)| matches!(b.role, BufferRole::Output(_))) {
        body.push(op(SOp::HostRead(BufferId(b as u32))));
    }
    body.extend([op(SOp::Host(HostCommand::Drain)), op(SOp::Host(HostCommand::Drain))]);
    Host { body, span: Span::NONE }
}

fn module(s: &Schedule) -> Module {
    Module {
        name: s.name.clone(),
        machine: None,
        mesh: s.mesh.clone(),
        props: Props::default(),
        body: Body::Schedule(s.clone()),
        attributes: Default::default(),
    }
}

#[test]
fn a_host_that_waits_anywhere_changes_nothing() {
    for (n, name) in names().iter().enumerate() {
        let plain = load(name);
        let written = |h: &Host| {
            h.body.iter().any(|st| matches!(st, SStmt::Op(SOp::Host(HostCommand::Write { .. }), _)))
        };
        if plain.host.as_ref().is_some_and(written) {
            // The host of such a schedule is part of its meaning.
            continue;
        }
        let plain = Schedule { host: None, ..plain };
        let feeds = inputs(&plain, 3);
        let options = RunOptions { calls: 3, ..RunOptions::default() };
        let base = run(&plain, &feeds, &options).unwrap();
        let machine = format!("full({}) {{ link: 50 GB/s, 500 ns }}", plain.mesh.ranks());
        let machine = Topology::parse(&machine, FileId(0)).unwrap();
        let time = simulate(&plain, &machine, &TimeOptions::default()).unwrap().ns;
        for seed in 0..6 {
            let mut s = plain.clone();
            let drawn = host(&s, &mut Draw((n as u64) << 8 | seed));
            s.host = Some(drawn);
            let what = format!("{name}, host {seed}");
            assert!(verify(&module(&s)).is_empty(), "{what}: {:#?}", verify(&module(&s)).list);
            let text = print(&module(&s), &PrintOptions::default());
            let again = kbc_ir::text::parse(FileId(0), &text).unwrap();
            assert!(equivalent(&module(&s), &again), "{what}\n{text}");
            let v = check(&s, &CheckOptions::default());
            assert!(v.ok(), "{what}: {:#?}\n{text}", v.errors.list);
            let result = run(&s, &feeds, &options).unwrap();
            assert_eq!(result.outputs, base.outputs, "{what}");
            assert!(result.reads.iter().flatten().all(|r| !r.is_empty()), "{what}");
            let spelled = with_host_region(&s);
            let compiled = jit::compile(&spelled).unwrap().run_alone(&feeds, &options).unwrap();
            assert_eq!(compiled, Some(result.clone()), "{what}");
            let o = AdversaryOptions { calls: 3, runs: 12, seed: seed * 12, ..AdversaryOptions::default() };
            let failure = adversarial(&s, &feeds, Some(&result), &o).unwrap().failure;
            assert!(failure.is_none(), "{what}: {failure:#?}");
            // Waiting between regions of one stream cannot make it slower.
            if spelled.regions.iter().flat_map(|r| &r.roles).all(|r| r.streams.len() == 1) {
                let with = simulate(&s, &machine, &TimeOptions::default()).unwrap().ns;
                assert_eq!(with, time, "{what}");
            }
        }
    }
}

/// The copy waits for the pending work on its target: without the wait for readers of the buffer
/// there is a race, and without the wait for writers of the source, too.
#[test]
fn a_write_waits_for_what_uses_its_target() {
    let s = load("host_writes");
    let spelled = with_host_region(&s).into_owned();
    assert!(check(&spelled, &CheckOptions::default()).ok());
    let copies = |list: &[SStmt]| -> Vec<usize> {
        let is = |st: &SStmt| matches!(st, SStmt::Op(SOp::Local(LocalOp::Copy { .. }), _));
        list.iter().enumerate().filter(|(_, st)| is(st)).map(|(i, _)| i).collect()
    };
    let last = spelled.regions.len() - 1;
    let body = spelled.regions[last].roles[0].streams[0].body.clone();
    let (first, second) = (copies(&body)[0], copies(&body)[1]);
    // Awaits between the two copies: for the target and for the source of the second.
    let awaits = |word: &str| {
        (first..second)
            .filter(|i| matches!(&body[*i], SStmt::Op(SOp::Await(e), _) if e.contains(word)))
            .count()
    };
    assert_eq!((awaits("@look"), awaits("@sum"), awaits("@first")), (1, 1, 1), "{body:#?}");
    for word in ["@look", "@sum"] {
        let mut wrong = spelled.clone();
        let list = &mut wrong.regions[last].roles[0].streams[0].body;
        let at =
            (first..second).find(|i| matches!(&list[*i], SStmt::Op(SOp::Await(e), _) if e.contains(word)));
        list.remove(at.unwrap());
        assert!(!check(&wrong, &CheckOptions::default()).ok(), "without the wait for {word}");
    }
}
