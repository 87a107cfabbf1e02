//! Calibration: a machine file from measurements of this computer.
//!
//! `kbc calibrate` builds and runs the program in `calibrate.c`, which does what emitted kernels
//! do. This module reads what it prints, and writes the machine file, with the uncertainty of every
//! figure in comments.

use crate::samples::Samples;
use kbc_compiler::report::amounts::{bytes, time};
use serde::{Deserialize, Serialize};

/// The program that measures. It belongs in the folder of an emitted program, for its headers.
pub const PROGRAM: &str = include_str!("calibrate.c");

/// Round trips of a call of `calibrate notify`.
pub const TRIPS: f64 = 32.0;

/// Bytes of a tile of `core_put` and `core_get`: a line of a cache. A message then takes time in
/// proportion to its bytes.
const LINE: f64 = 64.0;

/// What a rank prints: the time of a call in ns by phase, for each block.
#[derive(Deserialize, Clone, PartialEq, Default, Debug)]
pub struct PhaseTimes {
    /// The rank.
    pub rank: u64,
    /// A put of all bytes into the window of a peer.
    pub put: Vec<f64>,
    /// An addition of f32 with what a peer has just put.
    pub combine: Vec<f64>,
    /// A copy within the own memory.
    pub copy: Vec<f64>,
    /// A get of what a peer has just written.
    pub get: Vec<f64>,
    /// An addition of f32 with what has been read before.
    pub f32: Vec<f64>,
    /// The same of f16.
    pub f16: Vec<f64>,
    /// The same of bf16.
    pub bf16: Vec<f64>,
    /// The same of i32.
    pub i32: Vec<f64>,
}

/// A measured time in ns: the median of the blocks, and the smallest and the largest.
#[derive(Serialize, Clone, Copy, PartialEq, Debug)]
pub struct MeasuredTime {
    /// The median.
    pub ns: f64,
    /// The smallest.
    pub min_ns: f64,
    /// The largest.
    pub max_ns: f64,
}

impl MeasuredTime {
    /// Summarises the times of blocks.
    pub fn of(blocks: &[f64]) -> MeasuredTime {
        let all = Samples(blocks.to_vec());
        MeasuredTime { ns: all.median(), min_ns: all.quantile(0.0), max_ns: all.quantile(1.0) }
    }

    /// The same, divided.
    #[must_use]
    pub fn over(self, by: f64) -> MeasuredTime {
        MeasuredTime { ns: self.ns / by, min_ns: self.min_ns / by, max_ns: self.max_ns / by }
    }

    /// Half of the difference of largest and smallest, in percent of the median.
    pub fn uncertainty(&self) -> f64 {
        if self.ns > 0.0 { 50.0 * (self.max_ns - self.min_ns) / self.ns } else { 0.0 }
    }
}

/// Times of all phases on the slowest rank.
#[derive(Serialize, Clone, PartialEq, Debug)]
pub struct PhaseFigures {
    /// As in [`PhaseTimes`].
    pub put: MeasuredTime,
    /// As in [`PhaseTimes`].
    pub combine: MeasuredTime,
    /// As in [`PhaseTimes`].
    pub copy: MeasuredTime,
    /// As in [`PhaseTimes`].
    pub get: MeasuredTime,
    /// As in [`PhaseTimes`].
    pub f32: MeasuredTime,
    /// As in [`PhaseTimes`].
    pub f16: MeasuredTime,
    /// As in [`PhaseTimes`].
    pub bf16: MeasuredTime,
    /// As in [`PhaseTimes`].
    pub i32: MeasuredTime,
}

impl PhaseFigures {
    /// Takes the slowest rank of every block. None if a rank has not printed its times.
    pub fn of(ranks: &[PhaseTimes], expected: u64) -> Option<PhaseFigures> {
        if ranks.len() as u64 != expected {
            return None;
        }
        let slowest = |of: &dyn Fn(&PhaseTimes) -> &Vec<f64>| {
            let blocks = ranks.iter().map(|r| of(r).len()).max().unwrap_or(0);
            let most = |b: usize| ranks.iter().filter_map(|r| of(r).get(b).copied()).fold(0.0, f64::max);
            MeasuredTime::of(&(0..blocks).map(most).collect::<Vec<_>>())
        };
        let out = PhaseFigures {
            put: slowest(&|r| &r.put),
            combine: slowest(&|r| &r.combine),
            copy: slowest(&|r| &r.copy),
            get: slowest(&|r| &r.get),
            f32: slowest(&|r| &r.f32),
            f16: slowest(&|r| &r.f16),
            bf16: slowest(&|r| &r.bf16),
            i32: slowest(&|r| &r.i32),
        };
        let all = [out.put, out.combine, out.copy, out.get, out.f32, out.f16, out.bf16, out.i32];
        all.iter().all(|t| t.ns > 0.0).then_some(out)
    }
}

/// The phases at a size.
#[derive(Serialize, Clone, PartialEq, Debug)]
pub struct SizeFigures {
    /// Bytes of each phase.
    pub bytes: u64,
    /// All ranks at once.
    pub all: PhaseFigures,
    /// One rank at a time.
    pub one: PhaseFigures,
}

/// What was measured; it serialises to the JSON of `kbc calibrate`.
#[derive(Serialize, Clone, PartialEq, Debug)]
pub struct Calibration {
    /// The version of the form, 1.
    pub schema: u32,
    /// The command.
    pub command: &'static str,
    /// Always true: a measurement that fails has no report.
    pub ok: bool,
    /// The file that was written, if there is one.
    pub output: Option<String>,
    /// Number of ranks.
    pub ranks: u64,
    /// Processors of this computer, if their number is known.
    pub processors: Option<u64>,
    /// Time from a notify to the end of the wait for it.
    pub notify: MeasuredTime,
    /// The size whose rates are those of the machine.
    pub at: u64,
    /// All sizes, in ascending order.
    pub sizes: Vec<SizeFigures>,
}

/// Bytes over ns: GB/s.
fn rate(bytes: u64, t: MeasuredTime) -> f64 {
    bytes as f64 / t.ns
}

impl Calibration {
    /// The figures whose rates are those of the machine.
    fn figures(&self) -> Option<&SizeFigures> {
        self.sizes.iter().find(|s| s.bytes == self.at)
    }

    /// Returns the machine file (docs/reference/machine.md), with all that was measured in
    /// comments. None if the size of the rates was not measured.
    pub fn machine(&self) -> Option<String> {
        let SizeFigures { bytes: at, all, .. } = self.figures()?;
        let line = |t: MeasuredTime| LINE * t.ns / *at as f64;
        let within = |t: MeasuredTime| format!("+- {:.0} %", t.uncertainty());
        let processors = self.processors.map_or(String::new(), |n| format!(" on {n} processors"));
        let mut out = format!(
            "# Measured by kbc calibrate: {} ranks{processors}, shared memory of one computer.\n\
             # Rates are those of {at} bytes, with all ranks at work at once. What follows +- is half of\n\
             # the range of 5 blocks. Other sizes are below.\n\
             kbc: 1\n\
             shape: full({})\n\
             link: {:.3} GB/s, 0 ns  # as fast as a rank puts; the link itself is memory\n\
             core_put: 64 B, {:.3} ns  # {}\n\
             core_get: 64 B, {:.3} ns  # {}\n\
             core_memory: {:.3} GB/s  # a copy reads and writes every byte, {}\n\
             vector: {:.3} GB/s  # an addition of f32 with what a peer has put, {}\n\
             notify: {:.1} ns  # until the end of the wait, {}\n",
            self.ranks,
            self.ranks,
            rate(*at, all.put),
            line(all.put),
            within(all.put),
            line(all.get),
            within(all.get),
            2.0 * rate(*at, all.copy),
            within(all.copy),
            rate(*at, all.combine),
            within(all.combine),
            self.notify.ns,
            within(self.notify),
        );
        out += "\n# GB/s by size, all ranks at once / one rank at a time. The last four columns are additions\n\
                # with what has been read before, by element type, in bytes of one operand.\n";
        for row in self.table() {
            out += &format!("# {}\n", row.trim_end());
        }
        Some(out)
    }

    /// The rates by size, as rows with a head.
    fn table(&self) -> Vec<String> {
        let names = ["put", "get", "copy", "combine", "f32", "f16", "bf16", "i32"];
        let mut out = vec![format!("{:>9}", "bytes") + &names.map(|n| format!(" {n:>13}")).concat()];
        for s in &self.sizes {
            let of = |f: &PhaseFigures| [f.put, f.get, f.copy, f.combine, f.f32, f.f16, f.bf16, f.i32];
            let cells = of(&s.all).into_iter().zip(of(&s.one));
            let cell = |(all, one)| {
                format!(" {:>13}", format!("{:.2} / {:.2}", rate(s.bytes, all), rate(s.bytes, one)))
            };
            out.push(format!("{:>9}", s.bytes) + &cells.map(cell).collect::<String>());
        }
        out
    }

    /// Formats what was measured for people.
    pub fn human(&self) -> String {
        let processors = self.processors.map_or(String::new(), |n| format!(" on {n} processors"));
        let mut out = format!("{} ranks{processors}\n", self.ranks);
        out += &format!(
            "notify: {} ({} to {})\n",
            time(self.notify.ns),
            time(self.notify.min_ns),
            time(self.notify.max_ns)
        );
        out += "GB/s, all ranks at once / one rank at a time\n";
        for row in self.table() {
            out += &format!("{}\n", row.trim_end());
        }
        if let Some(file) = &self.output {
            out += &format!(
                "written: {file}, with the rates of {}\nnext: kbc run FILE.kb --topology {file}\n",
                bytes(self.at)
            );
        }
        out
    }
}
