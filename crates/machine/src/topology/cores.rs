//! Settings of cores: what one core of a device can do, where a core is a stream of a rank.
//!
//! This module owns these settings and their text: how fast a core reads a peer's data and writes
//! data to a peer, by itself or through a queue that copies on its own; the time of a notify
//! through memory; a core's share of the memory bandwidth; and what each transfer and each flag of
//! an emitted kernel costs. The effect on time is defined in docs/explanation/time.md, "Cores", and
//! implemented in the event engine; the cost model uses them for choices. The costs of transfers
//! and flags are prices of kernels alone (`kbc explain traffic`). There are no default values:
//! without a setting there is no such limit.

use kbc_diag::{Diagnostic, Spanned};

use super::quantity::{Dimension, Quantity};
use super::value::{SettingValue, amounts, word};

/// Names of the settings, in the order in which they are printed.
pub(super) const NAMES: [&str; 8] =
    ["core_get", "core_put", "core_memory", "core_transfer", "core_flag", "sdma", "engine", "notify"];

/// The unit that moves the data of puts and gets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MovedBy {
    /// The core that issues the transfer, tile by tile.
    Core,
    /// A queue of the stream that copies on its own.
    Sdma,
}

impl MovedBy {
    /// Both units, by name.
    pub const ALL: [(&'static str, MovedBy); 2] = [("core", MovedBy::Core), ("sdma", MovedBy::Sdma)];
}

/// The time for which a core or copying queue is occupied by one transfer.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Mover {
    /// One tile after another. A partial last tile takes as long as a full one.
    Tiles {
        /// Bytes of a tile: an integer above zero.
        bytes: u64,
        /// Nanoseconds per tile, including the round trip. Above zero.
        ns: f64,
    },
    /// A fixed time plus bytes over bandwidth: `ns + bytes / bandwidth`.
    Queue {
        /// Bytes per second.
        bandwidth: f64,
        /// Fixed nanoseconds per transfer.
        ns: f64,
    },
}

impl Mover {
    /// Returns the nanoseconds of a transfer of `moved` bytes. `route_ns` is the least time of a
    /// tile, or the least fixed time of a queue: the latencies of the route there and back for a
    /// get, 0 for a put. A transfer of no bytes takes 0 ns.
    pub fn ns(&self, moved: u64, route_ns: f64) -> f64 {
        match *self {
            _ if moved == 0 => 0.0,
            Mover::Tiles { bytes, ns } => moved.div_ceil(bytes) as f64 * ns.max(route_ns),
            Mover::Queue { bandwidth, ns } => ns.max(route_ns) + moved as f64 / bandwidth * 1e9,
        }
    }
}

/// The given settings of cores.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct CoreSettings {
    /// `core_get: bytes, ns` of a tile that a core reads from a peer.
    pub get: Option<Mover>,
    /// `core_put: bytes, ns` of a tile that a core writes to a peer.
    pub put: Option<Mover>,
    /// `core_memory`: bytes per second that a core reads and writes of its own device's memory.
    pub memory: Option<f64>,
    /// `core_transfer`: nanoseconds for which each load or store of an emitted kernel in its own
    /// device's memory occupies a core, whatever its size. Times of schedules have no transfers.
    pub transfer: Option<f64>,
    /// `core_flag`: nanoseconds for which each wait for a flag of an emitted kernel occupies the
    /// pipe that waits. Times of schedules have no flags.
    pub flag: Option<f64>,
    /// `sdma: bandwidth, ns` of a copying queue.
    pub sdma: Option<Mover>,
    /// `engine: core | sdma`.
    pub engine: Option<MovedBy>,
    /// `notify: ns` of a notify through memory.
    pub notify: Option<f64>,
}

impl CoreSettings {
    /// Returns the limit on gets. None if only links limit them.
    pub fn get_limit(&self) -> Option<Mover> {
        if self.engine == Some(MovedBy::Sdma) { self.sdma } else { self.get }
    }

    /// Returns the limit on puts. None if only links limit them.
    pub fn put_limit(&self) -> Option<Mover> {
        if self.engine == Some(MovedBy::Sdma) { self.sdma } else { self.put }
    }

    /// Returns the bytes of memory traffic per second of one core. Infinite if not given.
    pub fn memory(&self) -> f64 {
        self.memory.unwrap_or(f64::INFINITY)
    }

    /// Merges the settings: these, and for absent ones those of `base`.
    pub(super) fn over(&self, base: &CoreSettings) -> CoreSettings {
        CoreSettings {
            get: self.get.or(base.get),
            put: self.put.or(base.put),
            memory: self.memory.or(base.memory),
            transfer: self.transfer.or(base.transfer),
            flag: self.flag.or(base.flag),
            sdma: self.sdma.or(base.sdma),
            engine: self.engine.or(base.engine),
            notify: self.notify.or(base.notify),
        }
    }

    /// Returns the diagnostic for settings that contradict each other: `engine: sdma` without
    /// `sdma`.
    pub(super) fn fault(&self) -> Option<Diagnostic> {
        (self.engine == Some(MovedBy::Sdma) && self.sdma.is_none()).then(|| {
            Diagnostic::error("E445", "`engine: sdma` needs the setting `sdma`")
                .help("write its bandwidth and the fixed time of a transfer, such as `sdma: 21 GB/s, 2.5 us`")
        })
    }

    /// Parses one of the settings in [`NAMES`]. Returns whether it had been given already.
    pub(super) fn set(
        &mut self,
        name: &Spanned<String>,
        values: &[Spanned<SettingValue>],
    ) -> Result<bool, Diagnostic> {
        const BANDWIDTH: (&str, Dimension, bool) = ("bandwidth", Dimension::BytesPerSecond, true);
        const TIME: (&str, Dimension, bool) = ("time", Dimension::Nanoseconds, false);
        Ok(match name.node.as_str() {
            "core_get" => self.get.replace(tiles(name, values)?).is_some(),
            "core_put" => self.put.replace(tiles(name, values)?).is_some(),
            "core_memory" => self.memory.replace(amounts(name, values, [BANDWIDTH])?[0]).is_some(),
            "sdma" => {
                let v = amounts(name, values, [BANDWIDTH, TIME])?;
                self.sdma.replace(Mover::Queue { bandwidth: v[0], ns: v[1] }).is_some()
            }
            "engine" => {
                let help =
                    "`engine: core` moves data tile by tile, `engine: sdma` through a queue of the stream";
                self.engine.replace(word(name, values, &MovedBy::ALL, help)?).is_some()
            }
            "core_transfer" => self.transfer.replace(amounts(name, values, [TIME])?[0]).is_some(),
            "core_flag" => self.flag.replace(amounts(name, values, [TIME])?[0]).is_some(),
            _ => self.notify.replace(amounts(name, values, [TIME])?[0]).is_some(),
        })
    }

    /// Appends the given settings, each as `name: value`.
    pub(super) fn parts(&self, parts: &mut Vec<String>) {
        let text = |amount, dimension| Quantity { amount, dimension }.to_string();
        let time = |ns| text(ns, Dimension::Nanoseconds);
        let mover = |m: &Mover| match *m {
            Mover::Tiles { bytes, ns } => format!("{}, {}", text(bytes as f64, Dimension::Bytes), time(ns)),
            Mover::Queue { bandwidth, ns } => {
                format!("{}, {}", text(bandwidth, Dimension::BytesPerSecond), time(ns))
            }
        };
        parts.extend(self.get.iter().map(|m| format!("core_get: {}", mover(m))));
        parts.extend(self.put.iter().map(|m| format!("core_put: {}", mover(m))));
        parts.extend(
            self.memory.iter().map(|v| format!("core_memory: {}", text(*v, Dimension::BytesPerSecond))),
        );
        parts.extend(self.transfer.iter().map(|v| format!("core_transfer: {}", time(*v))));
        parts.extend(self.flag.iter().map(|v| format!("core_flag: {}", time(*v))));
        parts.extend(self.sdma.iter().map(|m| format!("sdma: {}", mover(m))));
        let engine = MovedBy::ALL.iter().find(|m| Some(m.1) == self.engine);
        parts.extend(engine.iter().map(|m| format!("engine: {}", m.0)));
        parts.extend(self.notify.iter().map(|v| format!("notify: {}", time(*v))));
    }
}

/// Parses the values of `core_get` or `core_put`: `4 KiB, 730 ns`
fn tiles(name: &Spanned<String>, values: &[Spanned<SettingValue>]) -> Result<Mover, Diagnostic> {
    const MAX_BYTES: f64 = (1u64 << 40) as f64;
    let v =
        amounts(name, values, [("size", Dimension::Bytes, true), ("time", Dimension::Nanoseconds, true)])?;
    if v[0].fract() != 0.0 || v[0] > MAX_BYTES {
        let span = values.first().map_or(name.span, |v| v.span);
        return Err(Diagnostic::error("E445", format!("a tile cannot have {} bytes", v[0]))
            .primary(span, "here")
            .help(format!(
                "`{}` needs a whole number of bytes up to 1 TiB, then the time of a tile",
                name.node
            )));
    }
    Ok(Mover::Tiles { bytes: v[0] as u64, ns: v[1] })
}
