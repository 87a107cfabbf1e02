//! Generator of random schedules that are right by construction: collectives made of rounds, one
//! after another, with local operations between them.
//!
//! This module owns the text of each collective and the means that make it right: slots by call,
//! credits, queues, gets, two streams. A schedule is written as `.kir` text, so that it is read
//! like any other. [`super::checker`] changes it.

use super::rng::Rng;
use std::fmt::Write;

/// A schedule under construction.
struct Gen<'r> {
    rng: &'r mut Rng,
    p: u64,
    n: u64,
    dtype: &'static str,
    decls: String,
    tables: String,
    regions: String,
    count: u32,
    last: String,
    /// The buffer that holds the value.
    value: String,
    /// The event that the next local region awaits on `main`.
    back: Option<String>,
    /// The event after which a region may begin on `lane`.
    ready: Option<String>,
}

/// Returns a number of ranks, which is mostly small.
fn ranks(rng: &mut Rng) -> u64 {
    match rng.below(5000) {
        0 => 5000,
        1..20 => 80,
        20..100 => 20 + rng.below(51) as u64,
        100..400 => 10 + rng.below(10) as u64,
        400..1100 => 7 + rng.below(3) as u64,
        _ => 3 + rng.below(4) as u64,
    }
}

/// Returns the text of a random schedule.
pub fn text(rng: &mut Rng) -> String {
    let p = ranks(rng);
    let short = p > 100;
    let m = if p > 9 { 1 } else { 1 + rng.below(2) as u64 };
    let uneven = p < 10 && rng.chance(25);
    let n = if short { 4 } else { p * m + u64::from(uneven) * (1 + rng.below(p as usize - 1) as u64) };
    let dtype = if rng.chance(70) { "f32" } else { "i32" };
    let mut g = Gen {
        rng,
        p,
        n,
        dtype,
        decls: String::new(),
        tables: String::new(),
        regions: String::new(),
        count: 0,
        last: String::new(),
        value: "x".into(),
        back: None,
        ready: None,
    };
    g.local("copy");
    let steps = if p > 20 { 1 } else { 1 + g.rng.below(3) };
    for _ in 0..steps {
        g.collective(short);
        if g.rng.chance(45) {
            let what = *g.rng.pick(&["relu", "neg", "add", "copy", "fill", "reduce", "twice"]);
            g.local(what);
        }
    }
    g.finish()
}

impl Gen<'_> {
    fn fresh(&mut self, what: &str) -> String {
        self.count += 1;
        format!("{what}{}", self.count)
    }

    fn temp(&mut self) -> String {
        let (name, n) = (self.fresh("t"), self.n);
        let _ = writeln!(self.decls, "buffer %{name} : {}[{n}] hbm temp", self.dtype);
        name
    }

    fn window(&mut self, slots: u64, capacity: u64) -> String {
        let name = self.fresh("w");
        let _ = writeln!(self.decls, "window @{name} : {}[{slots} x {capacity}] hbm", self.dtype);
        name
    }

    fn signal(&mut self, count: u64, of: &str) -> String {
        let name = self.fresh("s");
        let _ = writeln!(self.decls, "signal @{name}[{count}] {of}");
        name
    }

    fn queue(&mut self, depth: u64, capacity: u64) -> String {
        let name = self.fresh("q");
        let _ = writeln!(self.decls, "queue @{name}[1] : {}[{depth} x {capacity}] tcm", self.dtype);
        name
    }

    /// Returns the line that awaits the region before on the other stream, if there is one.
    fn awaited(&mut self) -> String {
        self.back.take().map_or(String::new(), |e| format!("      await {e}\n"))
    }

    fn after(&self) -> String {
        if self.last.is_empty() { String::new() } else { format!(" after @{}", self.last) }
    }

    /// Adds a local region that makes the next value.
    fn local(&mut self, what: &str) {
        // An event recorded earlier does not cover what this region writes.
        self.ready = None;
        let name = self.fresh("l");
        let from = self.value.clone();
        let to = self.temp();
        let mut operands = String::new();
        let mut body = self.awaited();
        match what {
            "relu" => body += &format!("      map %{to} = relu(%{from})\n"),
            "neg" => body += &format!("      map %{to} = neg(%{from})\n"),
            "add" => body += &format!("      map %{to} = add(%{from}, %x)\n"),
            "twice" => body += &format!("      map %{to} = add(%{from}, %{from})\n"),
            "fill" => {
                let filled = self.temp();
                body += &format!(
                    "      fill %{filled} = index dim 0 from 3\n      map %{to} = add(%{from}, %{filled})\n"
                );
            }
            "reduce" => {
                let n = self.n;
                operands = format!("  on a = %{to} line {n}\n  on b = %x line {n}\n");
                body += &format!("      copy %{to} = %{from}\n      combine max a, b\n");
            }
            _ => body += &format!("      copy %{to} = %{from}\n"),
        }
        if self.rng.chance(25) && self.p <= 9 {
            let e = self.fresh("e");
            body += &format!("      record {e}\n");
            self.ready = Some(e);
        }
        let after = self.after();
        let _ = write!(
            self.regions,
            "region @{name} local{after}\n{operands}  role all\n    stream main\n{body}\n"
        );
        self.last = name;
        self.value = to;
    }

    /// Adds a region over all ranks. `lines` are the lines of its body.
    fn region(&mut self, operands: &str, contract: &str, lines: &str) {
        let p = self.p;
        let name = self.fresh("r");
        let after = self.after();
        let indent: String = lines.lines().map(|l| format!("      {l}\n")).collect();
        let (mut begin, mut end) = (String::new(), String::new());
        let stream = match self.ready.take() {
            Some(e) if self.rng.chance(80) => {
                let over = self.fresh("e");
                begin = format!("      await {e}\n");
                end = format!("      record {over}\n");
                self.back = Some(over);
                "lane"
            }
            // The event is recorded but never awaited.
            Some(_) => "main",
            None => "main",
        };
        let body = |role: &str| format!("  role {role}\n    stream {stream}\n{begin}{indent}{end}");
        let bodies = match self.rng.below(6) {
            0 => {
                let k = 1 + self.rng.below(p as usize - 1) as u64;
                body(&format!("low where r < {k}")) + &body(&format!("high where r >= {k}"))
            }
            1 if p < 10 => {
                let (even, odd): (Vec<u64>, Vec<u64>) = (0..p).partition(|r| r.is_multiple_of(2));
                body(&format!("even in {even:?}")) + &body(&format!("odd in {odd:?}"))
            }
            _ => body("all"),
        };
        let _ = write!(
            self.regions,
            "region @{name} over tp as (r of {p}){after}\n{operands}  promise {contract}\n{bodies}\n"
        );
        self.last = name;
        // The next region is on `main`.
        if self.back.is_some() {
            self.local("copy");
        }
    }

    fn op(&mut self) -> &'static str {
        self.rng.weighted(&[(6, "sum"), (2, "max"), (2, "min")])
    }

    fn collective(&mut self, short: bool) {
        let power = self.p.is_power_of_two() && self.p > 1;
        let even = self.n.is_multiple_of(self.p);
        let mut list: Vec<(usize, u32)> = vec![(3, 0), (2, 1), (3, 12)];
        if !short {
            list.extend([(3, 2), (2, 4), (2, 5), (2, 7), (2, 8), (2, 9), (2, 10), (2, 11)]);
            if power {
                list.push((3, 3));
            }
            if even {
                list.push((2, 6));
            }
        }
        match self.rng.weighted(&list) {
            0 => self.shift(),
            1 => self.shift_by_queue(),
            2 => self.ring_all_reduce(),
            3 => self.doubling(),
            4 => self.direct_all_reduce(),
            5 => self.ring_all_gather(),
            6 => self.all_to_all(),
            7 => self.broadcast(),
            8 => self.pull(),
            9 => self.two_streams(),
            10 => self.scatter_gather(),
            12 => self.barriered(),
            _ => self.queue_all_gather(),
        }
    }

    /// Every rank passes its value on to the rank `k` places ahead. A slot is free once its reader
    /// reports that.
    fn shift(&mut self) {
        let (p, n) = (self.p, self.n);
        let k = 1 + self.rng.below(p.min(20) as usize - 1) as u64;
        let slots = 1 + self.rng.below(3) as u64;
        let (w, arrived, free) = (self.window(slots, n), self.signal(1, "arrival"), self.signal(1, "credit"));
        let from = self.value.clone();
        let to = self.temp();
        let wait = format!("wait @{free}[0] >= call - {}\n", slots - 1);
        let peer = format!("((r + {k}) % {p})");
        let (put, copy) = match self.rng.below(4) {
            // The slot is chosen by a branch, by a table, or by an expression.
            0 if slots == 2 => (
                format!("if call % 2 == 0\n  put v -> {peer} : @{w}[0]\nelse\n  put v -> {peer} : @{w}[1]\n"),
                format!("if call % 2 == 0\n  copy u = @{w}[0]\nelse\n  copy u = @{w}[1]\n"),
            ),
            1 if slots > 1 => {
                let table = self.fresh("a");
                let list: Vec<u64> = (0..slots).rev().collect();
                self.tables += &format!("table @{table} = {list:?}\n");
                let slot = format!("@{w}[@{table}[call % {slots}]]");
                (format!("put v -> {peer} : {slot}\n"), format!("copy u = {slot}\n"))
            }
            _ => {
                let slot = format!("@{w}[call % {slots}]");
                (format!("put v -> {peer} : {slot}\n"), format!("copy u = {slot}\n"))
            }
        };
        let lines = format!(
            "{wait}{put}fence.release\nnotify {peer} : @{arrived}[0]\nwait @{arrived}[0] >= call + 1\nfence.acquire\n{copy}fence.release\nnotify ((r - {k}) % {p}) : @{free}[0]\n"
        );
        self.shifted(k, &from, to, &lines);
    }

    /// Uses one slot in every call, with a barrier in one of three forms before it is used again.
    fn barriered(&mut self) {
        let (p, n) = (self.p, self.n);
        let k = 1 + self.rng.below(p.min(20) as usize - 1) as u64;
        let rounds = u64::from((p - 1).ilog2()) + 1;
        let (w, arrived) = (self.window(1, n), self.signal(1, "arrival"));
        let (counter, wait) = match self.rng.below(3) {
            0 => {
                let d = self.signal(rounds, "barrier");
                (format!("@{d}[j]"), format!("@{d}[j] >= call + 1"))
            }
            1 => {
                let d = self.signal(rounds, "barrier clearing fresh");
                (format!("@{d}[j]"), format!("@{d}[j] -= 1"))
            }
            _ => {
                let d = self.signal(2 * rounds, "barrier sense fresh");
                let at = format!("@{d}[j * 2 + call % 2]");
                (at.clone(), format!("{at} & 1 == 1 - call % 4 / 2"))
            }
        };
        let from = self.value.clone();
        let to = self.temp();
        let lines = format!(
            "put v -> ((r + {k}) % {p}) : @{w}[0]
fence.release
notify ((r + {k}) % {p}) : @{arrived}[0]
wait @{arrived}[0] >= call + 1
fence.acquire
copy u = @{w}[0]
fence.release
for j in 0..{rounds}
  notify ((r + (1 << j)) % {p}) : {counter}
  wait {wait}
"
        );
        self.shifted(k, &from, to, &lines);
    }

    /// Adds the region of a shift by `k` ranks, from one buffer to another.
    fn shifted(&mut self, k: u64, from: &str, to: String, lines: &str) {
        let n = self.n;
        let operands = format!("  on v = %{from} line {n}\n  on u = %{to} line {n}\n");
        let contract = format!(
            "shift over (q of p) on v[n], u[n]\n    start v[i]\n    end u[i] = v[i] at (q - {k}) % p"
        );
        self.region(&operands, &contract, lines);
        self.result(from, to);
    }

    /// Makes the result `to` of the last region the value, which was in `from` before it.
    fn result(&mut self, from: &str, to: String) {
        if self.value == from {
            self.value = to;
        } else {
            self.moved(&to);
        }
    }

    /// After a region on another stream, the value was copied; makes that copy read the result
    /// `to`.
    fn moved(&mut self, to: &str) {
        let old = self.regions.rfind("copy %").map(|i| i + 6);
        if let Some(i) = old
            && let Some(eq) = self.regions[i..].find(" = %")
        {
            let start = i + eq + 4;
            let end = start + self.regions[start..].find('\n').unwrap_or(0);
            self.regions.replace_range(start..end, to);
        }
    }

    fn shift_by_queue(&mut self) {
        let (p, n) = (self.p, self.n);
        let k = 1 + self.rng.below(p.min(20) as usize - 1) as u64;
        let depth = 1 + self.rng.below(2) as u64;
        let q = self.queue(depth, n);
        let from = self.value.clone();
        let to = self.temp();
        let lines = format!("send v -> ((r + {k}) % {p}) : @{q}[0]\nrecv u <- ((r - {k}) % {p}) : @{q}[0]\n");
        self.shifted(k, &from, to, &lines);
    }

    fn ring_all_reduce(&mut self) {
        let (p, n, op) = (self.p, self.n, self.op());
        let d = 2 * (p - 1);
        let m = p - 1;
        let at = (self.window(2 * d, n.div_ceil(p)), self.signal(1, "arrival"));
        let lines = self.reduced_around(&at, d, op) + &self.gathered_around(&at, d, &format!("{m} + "));
        let operands = format!("  on v = %{} line {n}\n", self.value);
        self.region(&operands, &format!("all_reduce {op}"), &lines);
    }

    fn doubling(&mut self) {
        let (p, n, op) = (self.p, self.n, self.op());
        let k = u64::from(p.ilog2());
        let (w, s) = (self.window(2 * k, n), self.signal(k, "arrival"));
        let lines = format!(
            "for s in 0..{k}
  put v -> (r ^ (1 << s)) : @{w}[call % 2 * {k} + s]
  fence.release
  notify (r ^ (1 << s)) : @{s}[s]
  wait @{s}[s] >= call + 1
  fence.acquire
  combine {op} v, @{w}[call % 2 * {k} + s]
"
        );
        let operands = format!("  on v = %{} line {n}\n", self.value);
        self.region(&operands, &format!("all_reduce {op}"), &lines);
    }

    fn direct_all_reduce(&mut self) {
        let (p, n, op) = (self.p, self.n, self.op());
        let m = p - 1;
        let turns = 2 + self.rng.below(2);
        let (w, s) = (self.window(turns as u64 * m, n), self.signal(m, "arrival"));
        let slot = format!("@{w}[call % {turns} * {m} + k - 1]");
        let lines = format!(
            "for k in 1..{p}
  put v -> ((r + k) % {p}) : {slot}
  fence.release
  notify ((r + k) % {p}) : @{s}[k - 1]
for k in 1..{p}
  wait @{s}[k - 1] >= call + 1
  fence.acquire
  combine {op} v, {slot}
"
        );
        let operands = format!("  on v = %{} line {n}\n", self.value);
        self.region(&operands, &format!("all_reduce {op}"), &lines);
    }

    /// Returns the rule by which blocks are cut, and the length of the longest block.
    fn rule(&mut self) -> (String, u64) {
        let (p, n) = (self.p, self.n);
        match self.rng.below(4) {
            0 => (" ceil".into(), n.div_ceil(p)),
            1 if p < 10 => {
                let mut left = n;
                let mut list = vec![];
                for i in 0..p {
                    let take =
                        if i + 1 == p { left } else { self.rng.below(left.min(3) as usize + 1) as u64 };
                    left -= take;
                    list.push(take);
                }
                let most = list.iter().copied().max().unwrap_or(1).max(1);
                (format!(" lengths {list:?}"), most)
            }
            _ => (String::new(), n.div_ceil(p)),
        }
    }

    fn gather_lines(&mut self, capacity: u64) -> String {
        let m = self.p - 1;
        let at = (self.window(2 * m, capacity), self.signal(1, "arrival"));
        self.gathered_around(&at, m, "")
    }

    /// Returns the lines of a step of a ring for every other rank: a block goes to the next rank,
    /// and one of the rank before is taken. `at` are a window and a signal, which have `d` steps in
    /// a call; these steps begin at `base`.
    fn around(
        &self,
        (w, s): &(String, String),
        (d, base): (u64, &str),
        sent: &str,
        take: impl Fn(&str) -> String,
    ) -> String {
        let p = self.p;
        let slot = format!("@{w}[call % 2 * {d} + {base}s - 1]");
        let take = take(&slot);
        format!(
            "for s in 1..{p}
  put v[({sent}) % {p} of {p}] -> ((r + 1) % {p}) : {slot}
  fence.release
  notify ((r + 1) % {p}) : @{s}[0]
  wait @{s}[0] >= call * {d} + {base}s
  fence.acquire
  {take}
"
        )
    }

    /// Returns the lines after which every rank has the combination of its own block.
    fn reduced_around(&self, at: &(String, String), d: u64, op: &str) -> String {
        let p = self.p;
        let take = |slot: &str| format!("combine {op} v[(r - s - 1) % {p} of {p}], {slot}");
        self.around(at, (d, ""), "r - s", take)
    }

    /// Returns the lines after which every rank has all blocks.
    fn gathered_around(&self, at: &(String, String), d: u64, base: &str) -> String {
        let p = self.p;
        let take = |slot: &str| format!("copy v[(r - s) % {p} of {p}] = {slot}");
        self.around(at, (d, base), "r - s + 1", take)
    }

    /// Makes a buffer that holds only this rank's block of the value.
    fn own_block(&mut self) {
        let (p, n) = (self.p, self.n);
        let part = self.fresh("t");
        let _ = writeln!(self.decls, "buffer %{part} : {}[{}] hbm temp", self.dtype, n / p);
        let (from, to, name, after) = (self.value.clone(), self.temp(), self.fresh("l"), self.after());
        let begin = self.awaited();
        self.ready = None;
        let _ = write!(
            self.regions,
            "region @{name} local{after}\n  role all\n    stream main\n{begin}      keep_part %{part} = %{from} dim 0 part tp of {p}\n      pack %{to} = %{part} dim 0 parts {p} at tp\n\n"
        );
        self.last = name;
        self.value = to;
    }

    fn ring_all_gather(&mut self) {
        let (p, n) = (self.p, self.n);
        let block = n.is_multiple_of(p) && self.rng.chance(40);
        if block {
            self.own_block();
        }
        let (rule, capacity) = if block { (String::new(), n / p) } else { self.rule() };
        let lines = self.gather_lines(capacity);
        let operands = format!("  on v = %{} line {p} of {n}{rule}\n", self.value);
        self.region(&operands, "all_gather", &lines);
    }

    fn queue_all_gather(&mut self) {
        let (p, n) = (self.p, self.n);
        let (rule, capacity) = self.rule();
        let depth = 1 + self.rng.below(2) as u64;
        let q = self.queue(depth, capacity);
        let lines = format!(
            "for s in 1..{p}
  send v[(r - s + 1) % {p} of {p}] -> ((r + 1) % {p}) : @{q}[0]
  recv v[(r - s) % {p} of {p}] <- ((r - 1) % {p}) : @{q}[0]
"
        );
        let operands = format!("  on v = %{} line {p} of {n}{rule}\n", self.value);
        self.region(&operands, "all_gather", &lines);
    }

    fn scatter_gather(&mut self) {
        let (p, n, op) = (self.p, self.n, self.op());
        let m = p - 1;
        let capacity = n.div_ceil(p);
        let at = (self.window(2 * m, capacity), self.signal(1, "arrival"));
        let lines = self.reduced_around(&at, m, op);
        let operands = format!("  on v = %{} line {p} of {n}\n", self.value);
        self.ready = None;
        self.region_main(&operands, &format!("reduce_scatter {op}"), &lines);
        let lines = self.gather_lines(capacity);
        self.region_main(&operands, "all_gather", &lines);
    }

    /// Adds a region on `main`, if no event is ready.
    fn region_main(&mut self, operands: &str, contract: &str, lines: &str) {
        if self.ready.is_none() {
            self.region(operands, contract, lines);
        }
    }

    fn all_to_all(&mut self) {
        let (p, n) = (self.p, self.n);
        let m = p - 1;
        let (w, s) = (self.window(2 * m, n / p), self.signal(m, "arrival"));
        let from = self.value.clone();
        let to = self.temp();
        let slot = format!("@{w}[call % 2 * {m} + k - 1]");
        let lines = format!(
            "copy dst[r of {p}] = src[r of {p}]
for k in 1..{p}
  put src[(r + k) % {p} of {p}] -> ((r + k) % {p}) : {slot}
  fence.release
  notify ((r + k) % {p}) : @{s}[k - 1]
for k in 1..{p}
  wait @{s}[k - 1] >= call + 1
  fence.acquire
  copy dst[(r - k) % {p} of {p}] = {slot}
"
        );
        let operands = format!("  on src = %{from} line {p} of {n}\n  on dst = %{to} line {p} of {n}\n");
        self.region(&operands, "all_to_all", &lines);
        self.result(&from, to);
    }

    /// A chain from a root, in pieces through slots with credits.
    fn broadcast(&mut self) {
        let (p, n) = (self.p, self.n);
        let root = self.rng.below(p as usize) as u64;
        let pieces = 1 + self.rng.below(3) as u64;
        let slots = 1 + self.rng.below(3) as u64;
        self.ready = None;
        let (w, arrived, free) =
            (self.window(slots, n.div_ceil(pieces)), self.signal(1, "arrival"), self.signal(1, "credit"));
        let (first, last) = (root, (root + p - 1) % p);
        let slot = format!("@{w}[(call * {pieces} + s) % {slots}]");
        let send = format!(
            "        wait @{free}[0] >= call * {pieces} + s - {slots}
        put v[s - 1 of {pieces}] -> ((r + 1) % {p}) : {slot}
        fence.release
        notify ((r + 1) % {p}) : @{arrived}[0]
"
        );
        let take = format!(
            "        wait @{arrived}[0] >= call * {pieces} + s
        fence.acquire
        copy v[s - 1 of {pieces}] = {slot}
        fence.release
        notify ((r - 1) % {p}) : @{free}[0]
"
        );
        let turns = format!("      for s in 1..{}\n", pieces + 1);
        let name = self.fresh("r");
        let after = self.after();
        let value = self.value.clone();
        let stream = "    stream main\n";
        let _ = write!(
            self.regions,
            "region @{name} over tp as (r of {p}){after}\n  on v = %{value} line {n}\n  promise broadcast root {root}\n  role first where r == {first}\n{stream}{turns}{send}  role middle where r != {first} && r != {last}\n{stream}{turns}{take}{send}  role last where r == {last}\n{stream}{turns}{take}\n"
        );
        self.last = name;
    }

    /// A ring all_gather by pulling. Every block is present before the neighbour gets it, and no
    /// rank continues before all blocks were taken.
    fn pull(&mut self) {
        let (p, n) = (self.p, self.n);
        let m = p - 1;
        let (ready, read) = (self.signal(1, "arrival"), self.signal(1, "credit"));
        let from = self.value.clone();
        let to = self.temp();
        let lines = format!(
            "copy v[r of {p}] = u[r of {p}]
for s in 1..{p}
  fence.release
  notify ((r + 1) % {p}) : @{ready}[0]
  wait @{ready}[0] >= call * {m} + s
  fence.acquire
  get v[(r - s) % {p} of {p}] <- ((r - 1) % {p}) : v[(r - s) % {p} of {p}]
  fence.complete
  fence.release
  notify ((r - 1) % {p}) : @{read}[0]
wait @{read}[0] >= call * {m} + {m}
"
        );
        let operands = format!("  on u = %{from} line {p} of {n}\n  on v = %{to} line {p} of {n}\n");
        let contract =
            "gather_to over (q of p) on u[p][n], v[p][n]\n    start u[q][i]\n    end v[b][i] = u[b][i] at b";
        self.ready = None;
        self.region_main(&operands, contract, &lines);
        self.value = to;
    }

    /// Halves of the vector on two streams, each with its own direct exchange.
    fn two_streams(&mut self) {
        let (p, n, op) = (self.p, self.n, self.op());
        let m = p - 1;
        let (go, done) = (self.fresh("e"), self.fresh("e"));
        self.ready = None;
        let half = |g: &mut Self, h: u64| {
            let (w, s) = (g.window(2 * m, n.div_ceil(2)), g.signal(m, "arrival"));
            let slot = format!("@{w}[call % 2 * {m} + k - 1]");
            format!(
                "      for k in 1..{p}
        put v[{h} of 2] -> ((r + k) % {p}) : {slot}
      fence.release
      for k in 1..{p}
        notify ((r + k) % {p}) : @{s}[k - 1]
      for k in 1..{p}
        wait @{s}[k - 1] >= call + 1
        fence.acquire
        combine {op} v[{h} of 2], {slot}
"
            )
        };
        let (a, b) = (half(self, 0), half(self, 1));
        let name = self.fresh("r");
        let after = self.after();
        let value = self.value.clone();
        let begin = self.awaited();
        let _ = write!(
            self.regions,
            "region @{name} over tp as (r of {p}){after}\n  on v = %{value} line {n}\n  promise all_reduce {op}\n  role all\n    stream main\n{begin}      record {go}\n{a}      await {done}\n    stream lane\n      await {go}\n{b}      record {done}\n\n"
        );
        self.last = name;
    }

    fn finish(mut self) -> String {
        let (n, value, last) = (self.n, self.value.clone(), self.after());
        let wait = self.awaited();
        let (p, dtype) = (self.p, self.dtype);
        let regions = std::mem::take(&mut self.regions);
        let kernels =
            [("relu", "relu(x) = max(x, 0.0)"), ("neg", "neg(x) = neg(x)"), ("add", "add(a, b) = (a + b)")];
        let used = kernels.iter().filter(|k| regions.contains(&format!(" = {}(", k.0)));
        let kernels: String = used.map(|k| format!("kernel @{}\n", k.1)).collect();
        let (tables, decls) = (&self.tables, &self.decls);
        let out =
            format!("region @out local{last}\n  role all\n    stream main\n{wait}      copy %y = %{value}\n");
        let mut host = String::new();
        if self.rng.chance(12) {
            let names = regions.lines().chain(["region @out "]).filter_map(|l| l.strip_prefix("region @"));
            let launches = names.filter_map(|l| l.split(' ').next()).map(|r| format!("  host.launch @{r}\n"));
            host = format!("\nhost\n{}  host.read %y\n  host.drain\n", launches.collect::<String>());
        }
        format!(
            "kir 1\nmodule @random\nmesh tp {p}\n{kernels}\nschedule calls any\n{tables}buffer %x : {dtype}[{n}] hbm input 0 : {dtype}[{n}] partial(sum@tp)\nbuffer %y : {dtype}[{n}] hbm output 0 : {dtype}[{n}]\n{decls}{host}\n{regions}{out}"
        )
    }
}
