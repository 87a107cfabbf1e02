//! Tests that lowering, families, text and verifier work for a device that no backend has: nothing
//! in them rests on the facts of a target.

use crate::device::{DIALECT, Plain};
use kbc_diag::FileId;
use kbc_ir::schedule::Schedule;
use kbc_ir::types::DType;
use kbc_tiles::device::{Device, conversions};
use kbc_tiles::family::{Instance, generalise, same_trace};
use kbc_tiles::lower::{Shares, Staging, fit_tiles, lower};
use kbc_tiles::tile::verify::problems;
use kbc_tiles::tile::{Kernel, Op, path, text};
use kbc_tiles::{layout, tile};

/// Returns a reduction between pairs of four ranks, of `n` elements of a type.
fn schedule(n: u64, dtype: &str) -> Schedule {
    let text = format!(
        "kir 1
module @pairs
mesh tp 4

schedule calls any
buffer %x : {dtype}[{n}] hbm input 0 : {dtype}[{n}] partial(sum@tp)
buffer %y : {dtype}[{n}] hbm output 0 : {dtype}[{n}]
window @w : {dtype}[2 x {n}] hbm
signal @in[1] arrival

region @load local
  role all
    stream main
      copy %y = %x

region @r over tp as (r of 4)
  on v = %y line {n}
  role all
    stream main
      put v -> (r ^ 1) : @w[call % 2]
      fence.release
      notify (r ^ 1) : @in[0]
      wait @in[0] >= call + 1
      fence.acquire
      combine sum v, @w[call % 2]
"
    );
    let module = kbc_ir::text::parse(FileId::default(), &text).expect("it parses");
    module.schedule().expect("a schedule").clone()
}

fn kernel(n: u64, device: &Plain) -> Kernel {
    lower(&schedule(n, "f32"), Staging::Fused, &|_| None, device, &mut Shares::default())
        .expect("it has a kernel")
}

/// Returns the kernel with offsets and addresses.
fn complete(mut kernel: Kernel, device: &Plain) -> Kernel {
    fit_tiles(&mut kernel, device);
    layout::run(&mut kernel);
    let mut at = 0;
    for t in &mut kernel.tiles {
        t.at = Some(at);
        at += t.all_bytes() as u32;
    }
    kernel
}

#[test]
fn a_kernel_is_sound_with_the_fences_of_its_schedule() {
    let device = Plain::new(64, 1 << 16);
    let kernel = complete(kernel(100, &device), &device);
    let found = problems(&kernel, &device);
    assert!(found.is_empty(), "{found:?}");
    assert!(path::ops(&kernel).iter().any(|(_, op)| matches!(op, Op::Release)));
    assert!(kernel.tiles.iter().all(|t| t.elements == device.limits().tile), "{:?}", kernel.tiles);
}

#[test]
fn text_has_the_names_of_the_device_and_survives_a_round_trip() {
    let device = Plain::new(64, 1 << 16);
    let kernel = complete(kernel(100, &device), &device);
    let printed = text::print(&kernel);
    assert!(printed.contains("kernel @pairs worker\n"), "{printed}");
    let again = tile::parse::parse(&printed, FileId::default(), &DIALECT).expect("it parses");
    assert_eq!(again, kernel);
    let other = printed.replace(" worker", " other");
    let found = tile::parse::parse(&other, FileId::default(), &DIALECT).expect_err("no such core");
    assert_eq!(found.list[0].code, "E315");
}

#[test]
fn tiles_become_shorter_where_the_memory_is_small() {
    let device = Plain::new(64, 2048);
    let kernel = complete(kernel(5000, &device), &device);
    let bytes: u64 = kernel.tiles.iter().map(|t| t.all_bytes()).sum();
    assert!(bytes <= 2048 && kernel.tiles.iter().all(|t| t.elements >= 64), "{bytes}");
    assert!(problems(&kernel, &device).is_empty());
}

#[test]
fn one_kernel_serves_many_sizes() {
    let device = Plain::new(64, 1 << 16);
    let sizes = [1009, 2003, 4001];
    let instances: Vec<Instance> =
        sizes.iter().map(|n| Instance { ranks: 4, count: *n, kernel: kernel(*n, &device) }).collect();
    let one = generalise(&instances, &[], true).expect("they differ in the count alone");
    for n in [0, 1, 1009, 1024, 1025, 30_000] {
        let there = Instance { ranks: 4, count: n, kernel: kernel(n.max(1), &device) };
        let same = same_trace(&one, &there).expect("a trace");
        assert_eq!(same, n != 0, "{n}: at 0 the kernel is compared with that of one element");
    }
}

#[test]
fn a_device_refuses_what_it_cannot_do_with_its_own_reason() {
    let few = Plain::new(2, 1 << 16);
    let found = lower(&schedule(100, "f32"), Staging::Fused, &|_| None, &few, &mut Shares::default())
        .expect_err("four ranks");
    assert_eq!((found.list[0].code, &found.list[0].notes[..]), ("E471", &["a test says so".to_owned()][..]));
    let device = Plain::new(64, 1 << 16);
    let kernel = lower(&schedule(100, "i32"), Staging::Fused, &|_| None, &device, &mut Shares::default())
        .expect("a kernel");
    let found = problems(&complete(kernel, &device), &device);
    let why = |p: &tile::verify::Problem| p.diagnostic.notes.iter().any(|n| n.contains("computes f32 alone"));
    assert!(found.iter().any(|p| p.diagnostic.code == "E451" && why(p)), "{found:?}");
}

#[test]
fn conversions_are_those_of_the_device() {
    let device = Plain::new(64, 1 << 16);
    assert_eq!(conversions(&device, DType::F16, DType::F32), Some(vec![DType::F32]));
    assert_eq!(conversions(&device, DType::F32, DType::I32), None);
}
