//! Schedules of any size for tests, as text, and reading of files.
#![allow(dead_code, reason = "the benchmark uses a part")]

use kbc_checker::Verdict;
use kbc_diag::FileId;
use kbc_ir::schedule::Schedule;
use kbc_ir::text::parse;

/// Returns the schedule of a text.
pub fn schedule(name: &str, text: &str) -> Schedule {
    let m = parse(FileId(0), text).unwrap_or_else(|d| panic!("{name}: {:#?}\n{text}", d.list));
    m.schedule().unwrap_or_else(|| panic!("{name} is no schedule")).clone()
}

/// Returns name and text of the files of a folder of `tests/kir`, in order.
pub fn files(dir: &str) -> Vec<(String, String)> {
    let dir = format!("{}/../ir/tests/kir/{dir}", env!("CARGO_MANIFEST_DIR"));
    let mut out: Vec<(String, String)> = std::fs::read_dir(dir)
        .expect("the folder is part of the repository")
        .map(|f| f.expect("its entries can be listed").path())
        .filter(|p| p.extension().is_some_and(|e| e == "kir"))
        .map(|p| {
            let name = p.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
            (name, std::fs::read_to_string(&p).expect("its files can be read"))
        })
        .collect();
    out.sort();
    assert!(!out.is_empty());
    out
}

/// Returns the codes of a verdict, each once.
pub fn codes(v: &Verdict) -> Vec<&'static str> {
    let mut out: Vec<_> = v.errors.list.iter().map(|d| d.code).collect();
    out.sort_unstable();
    out.dedup();
    out
}

/// Returns an all_reduce on `p` ranks of one axis: copy, then `region`.
fn all_reduce(p: u64, n: u64, memory: &str, body: &str) -> String {
    format!(
        "kir 1\nmodule @m\nmesh tp {p}\n\nschedule calls any\n\
         buffer %x : f32[{n}] hbm input 0 : f32[{n}] partial(sum@tp)\n\
         buffer %y : f32[{n}] hbm output 0 : f32[{n}]\n\
         {memory}\n\
         region @c0 local\n  role all\n    stream main\n      copy %y = %x\n\n\
         region @r over tp as (r of {p}) after @c0\n  on v = %y line {n}\n  promise all_reduce sum\n{body}"
    )
}

/// Returns a ring: reduce_scatter and all_gather in loops, one role, a slot per message, windows
/// used alternately.
pub fn ring(p: u64) -> String {
    let (m, n) = (p - 1, 8 * p);
    let memory = format!("window @w : f32[{} x 8] hbm\nsignal @in[1] arrival\n", 4 * m);
    let body = format!(
        "  role all
    stream main
      for s in 1..{p}
        put v[(r - s) % {p} of {p}] -> ((r + 1) % {p}) : @w[call % 2 * {d} + s - 1]
        fence.release
        notify ((r + 1) % {p}) : @in[0]
        wait @in[0] >= call * {d} + s
        fence.acquire
        combine sum v[(r - s - 1) % {p} of {p}], @w[call % 2 * {d} + s - 1]
      for s in 1..{p}
        put v[(r - s + 1) % {p} of {p}] -> ((r + 1) % {p}) : @w[call % 2 * {d} + {m} + s - 1]
        fence.release
        notify ((r + 1) % {p}) : @in[0]
        wait @in[0] >= call * {d} + {m} + s
        fence.acquire
        copy v[(r - s) % {p} of {p}] = @w[call % 2 * {d} + {m} + s - 1]
",
        d = 2 * m
    );
    all_reduce(p, n, &memory, &body)
}

/// Returns recursive doubling on 2^k ranks: xor partners, two slots per step used alternately.
pub fn doubling(k: u64) -> String {
    let p = 1u64 << k;
    let memory = format!("window @w : f32[{} x 16] hbm\nsignal @in[{k}] arrival\n", 2 * k);
    let body = format!(
        "  role all
    stream main
      for s in 0..{k}
        put v -> (r ^ (1 << s)) : @w[call % 2 * {k} + s]
        fence.release
        notify (r ^ (1 << s)) : @in[s]
        wait @in[s] >= call + 1
        fence.acquire
        combine sum v, @w[call % 2 * {k} + s]
"
    );
    all_reduce(p, 16, &memory, &body)
}

/// Returns halving and doubling on 2^k ranks: xor partners, blocks that shrink and grow again.
pub fn halving(k: u64) -> String {
    let p = 1u64 << k;
    let memory = format!("window @w : f32[{} x {}] hbm\nsignal @in[{}] arrival\n", 4 * k, 2 * p, 2 * k);
    let body = format!(
        "  role all
    stream main
      for s in 0..{k}
        put v[r / (1 << ({k} - 1 - s)) ^ 1 of 2 << s] -> (r ^ (1 << ({k} - 1 - s))) : @w[call % 2 * {t} + s]
        fence.release
        notify (r ^ (1 << ({k} - 1 - s))) : @in[s]
        wait @in[s] >= call + 1
        fence.acquire
        combine sum v[r / (1 << ({k} - 1 - s)) of 2 << s], @w[call % 2 * {t} + s]
      for s in 0..{k}
        put v[r / (1 << s) of {p} >> s] -> (r ^ (1 << s)) : @w[call % 2 * {t} + {k} + s]
        fence.release
        notify (r ^ (1 << s)) : @in[{k} + s]
        wait @in[{k} + s] >= call + 1
        fence.acquire
        copy v[r / (1 << s) ^ 1 of {p} >> s] = @w[call % 2 * {t} + {k} + s]
",
        t = 2 * k
    );
    all_reduce(p, 4 * p, &memory, &body)
}

/// Returns rings on two axes: along x, then y, then y, then x, on nested chunks.
pub fn torus(w: u64, h: u64) -> String {
    let p = w * h;
    let n = 2 * p;
    let total = 2 * (w - 1) + 2 * (h - 1);
    let memory = format!("window @w : f32[{} x {}] hbm\nsignal @in[4] arrival\n", 2 * total, 2 * h);
    let slot = |base: u64| format!("@w[call % 2 * {total} + {base} + s - 1]");
    let stage = |size: u64, peer: &str, sig: u64, base: u64, send: &str, take: &str, reduce: bool| {
        let verb = if reduce { format!("combine sum {take},") } else { format!("copy {take} =") };
        format!(
            "      for s in 1..{size}
        put {send} -> {peer} : {slot}
        fence.release
        notify {peer} : @in[{sig}]
        wait @in[{sig}] >= call * {m} + s
        fence.acquire
        {verb} {slot}
",
            slot = slot(base),
            m = size - 1
        )
    };
    let (px, py) = (format!("((x + 1) % {w}, y)"), format!("(x, (y + 1) % {h})"));
    let body = format!(
        "  role all\n    stream main\n{}{}{}{}",
        stage(
            w,
            &px,
            0,
            0,
            &format!("v[(x - s) % {w} of {w}]"),
            &format!("v[(x - s - 1) % {w} of {w}]"),
            true
        ),
        stage(
            h,
            &py,
            1,
            w - 1,
            &format!("v[x of {w}][(y - s) % {h} of {h}]"),
            &format!("v[x of {w}][(y - s - 1) % {h} of {h}]"),
            true
        ),
        stage(
            h,
            &py,
            2,
            w + h - 2,
            &format!("v[x of {w}][(y - s + 1) % {h} of {h}]"),
            &format!("v[x of {w}][(y - s) % {h} of {h}]"),
            false
        ),
        stage(
            w,
            &px,
            3,
            w + 2 * h - 3,
            &format!("v[(x - s + 1) % {w} of {w}]"),
            &format!("v[(x - s) % {w} of {w}]"),
            false
        ),
    );
    let flat = all_reduce(p, n, &memory, &body);
    flat.replace(&format!("mesh tp {p}"), &format!("mesh x {w}, y {h}"))
        .replace("partial(sum@tp)", "partial(sum@(x, y))")
        .replace(&format!("over tp as (r of {p})"), &format!("over x, y as (x of {w}, y of {h})"))
}

/// Returns a direct all_to_all: a slot per source, used alternately.
pub fn all_to_all(p: u64) -> String {
    let n = p * 4;
    format!(
        "kir 1\nmodule @m\nmesh tp {p}\n\nschedule calls any\n\
         buffer %x : f32[{n}] hbm input 0 : f32[{p}, {n}@tp]\n\
         buffer %y : f32[{n}] hbm output 0 : f32[{n}@tp, {p}]\n\
         window @w : f32[{slots} x 4] hbm\nsignal @in[{m}] arrival\n\n\
         region @r over tp as (r of {p})\n  on src = %x line {p} of {p} * 4\n  on dst = %y line {p} of {p} * 4\n  promise all_to_all\n  role all
    stream main
      copy dst[r of {p}] = src[r of {p}]
      for k in 1..{p}
        put src[(r + k) % {p} of {p}] -> ((r + k) % {p}) : @w[call % 2 * {m} + k - 1]
        fence.release
        notify ((r + k) % {p}) : @in[k - 1]
      for k in 1..{p}
        wait @in[k - 1] >= call + 1
        fence.acquire
        copy dst[(r - k) % {p} of {p}] = @w[call % 2 * {m} + k - 1]
",
        m = p - 1,
        slots = 2 * (p - 1)
    )
}

/// Returns a ring all_gather by pulling: each rank gets the block that its neighbour has just
/// completed.
pub fn pull(p: u64) -> String {
    format!(
        "kir 1\nmodule @m\nmesh tp {p}\n\nschedule calls any\n\
         buffer %x : f32[4] hbm input 0 : f32[{n}@tp]\n\
         buffer %y : f32[{n}] hbm output 0 : f32[{n}]\n\
         signal @ready[1] arrival\nsignal @read[1] credit\n\n\
         region @c0 local\n  role all\n    stream main\n      pack %y = %x dim 0 parts {p} at tp\n\n\
         region @r over tp as (r of {p}) after @c0\n  on v = %y line {p} of {n}\n  promise all_gather\n  role all
    stream main
      for s in 1..{p}
        fence.release
        notify ((r + 1) % {p}) : @ready[0]
        wait @ready[0] >= call * {m} + s
        fence.acquire
        get v[(r - s) % {p} of {p}] <- ((r - 1) % {p}) : v[(r - s) % {p} of {p}]
        fence.complete
        fence.release
        notify ((r - 1) % {p}) : @read[0]
      wait @read[0] >= call * {m} + {m}
",
        n = 4 * p,
        m = p - 1
    )
}
