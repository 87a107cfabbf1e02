//! Location of the data of puts and gets on a package, and the controllers of its memories.
//!
//! This module owns the settings `data` and `hbm_channels`, the mapping of bytes to channels of a
//! controller, and the machine for which bounds are computed if data is not at its device
//! (docs/adr/027-memories.md). The event engine computes the time of a controller, and
//! [`crate::memory`] assigns addresses.

use std::fmt;
use std::sync::Arc;

use kbc_diag::{Diagnostic, Spanned};

use super::quantity::{Dimension, Quantity};
use super::value::{SettingValue, amounts};
use super::{DeviceId, LinkRate, Topology};
use kbc_ir::types::MemKind;

/// The location of the data of puts and gets.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Data {
    /// At its device, whichever memory a buffer or window names.
    Pe,
    /// In the memory that its buffer or window names.
    Named,
}

impl Data {
    /// Both locations, by name.
    pub const ALL: [(&'static str, Data); 2] = [("pe", Data::Pe), ("named", Data::Named)];
}

/// The channels of a memory's controller, each a FIFO of its own. Consecutive bursts of addresses
/// belong to consecutive channels: with 8 channels and bursts of 256 bytes, address bits 10 to 8
/// select the channel.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Controller {
    /// Number of channels, 1 to [`MAX_CHANNELS`].
    pub channels: u32,
    /// Bytes per second of each channel.
    pub bandwidth: f64,
    /// Bytes of a burst, at least 1.
    pub burst: u64,
}

/// Limit on the channels of a controller.
pub const MAX_CHANNELS: u32 = 64;
/// Limit on the bytes of a burst. One burst of each channel then fits into 64 bits with a margin.
const MAX_BURST: f64 = (1u64 << 30) as f64;

impl Controller {
    /// Counts the bursts of a channel in `address .. address + bytes`. Partial bursts count.
    pub fn bursts(&self, channel: u32, address: u64, bytes: u64) -> u64 {
        let (burst, of) = (u128::from(self.burst), u128::from(self.channels));
        let end = (u128::from(address) + u128::from(bytes)).div_ceil(burst);
        // Number of this channel's bursts among the first `n` bursts of the memory.
        let before = |n: u128| n / of + u128::from(n % of > u128::from(channel));
        let from = u128::from(address) / burst;
        // The difference is at most `bytes`.
        if bytes == 0 { 0 } else { (before(end) - before(from)) as u64 }
    }

    /// Parses `hbm_channels: 8, 32 GB/s, 256 B`
    pub(super) fn read(
        name: &Spanned<String>,
        values: &[Spanned<SettingValue>],
    ) -> Result<Controller, Diagnostic> {
        let fault = |title: &str| {
            let span = values.first().map_or(name.span, |v| v.span);
            let help = format!(
                "write the channels of a controller (1 to {MAX_CHANNELS}), the bandwidth of a channel and the bytes of a burst: `{}: 8, 32 GB/s, 256 B`",
                name.node
            );
            Err(Diagnostic::error("E445", format!("`{}` {title}", name.node))
                .primary(span, "here")
                .help(help))
        };
        let [count, rest @ ..] = values else { return fault("needs three values") };
        if rest.len() != 2 {
            return fault("needs three values");
        }
        let channels = match count.node {
            SettingValue::Number(n) if n.fract() == 0.0 && (1.0..=f64::from(MAX_CHANNELS)).contains(&n) => {
                n as u32
            }
            _ => return fault("has an invalid number of channels"),
        };
        let wanted = [("bandwidth", Dimension::BytesPerSecond, true), ("burst", Dimension::Bytes, true)];
        let v = amounts(name, rest, wanted)?;
        if v[1].fract() != 0.0 || v[1] > MAX_BURST {
            return fault("has an invalid burst");
        }
        Ok(Controller { channels, bandwidth: v[0], burst: v[1] as u64 })
    }
}

impl fmt::Display for Controller {
    /// Writes `8, 32 GB/s, 256 B`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |amount, dimension| Quantity { amount, dimension };
        let each = text(self.bandwidth, Dimension::BytesPerSecond);
        write!(f, "{}, {each}, {}", self.channels, text(self.burst as f64, Dimension::Bytes))
    }
}

impl Topology {
    /// Returns the node that holds the data of a put or get that names this memory: the memory's
    /// port on a machine with `data: named`, otherwise the device.
    pub fn data_port(&self, device: DeviceId, kind: MemKind) -> DeviceId {
        match self.settings().package.data() {
            Data::Named if self.is_package() => self.memory_port(device, kind),
            _ => device,
        }
    }

    /// Returns the controller of a device's memory. None if it has no channels that messages wait
    /// for.
    pub fn controller(&self, kind: MemKind) -> Option<Controller> {
        let package = &self.settings().package;
        let named = self.is_package() && package.data() == Data::Named;
        package.channels().filter(|_| named && kind == MemKind::Hbm)
    }

    /// Returns the machine for which bounds are computed. If data is in the memories of a package,
    /// every device gets links that are as fast as those of all memories that may hold its data
    /// together, and as short as the shortest of them. No schedule is faster on the original
    /// machine, because all data that leaves or enters a rank's memories passes those links. It
    /// states no routes: a bound holds whatever the routes of messages are, because ranks may relay
    /// data over any link. None if data is at its device and no route is stated.
    pub(crate) fn for_bounds(&self) -> Arc<Option<Topology>> {
        self.memoised("machine for bounds", vec![], || self.machine_for_bounds())
    }

    fn machine_for_bounds(&self) -> Option<Topology> {
        if !self.is_package() || self.settings().package.data() == Data::Pe {
            return self.has_stated_routes().then(|| self.without_stated_routes());
        }
        let mut out = self.without_stated_routes();
        for device in self.devices() {
            let Some(router) = self.links_from(device).first().map(|l| l.to) else { continue };
            for leaving in [true, false] {
                let links = |kind| {
                    let port = self.memory_port(device, kind);
                    let (from, to) = if leaving { (port, router) } else { (router, port) };
                    self.links_between(from, to)
                };
                let mut all = LinkRate { bandwidth: 0.0, latency_ns: f64::INFINITY };
                for kind in [MemKind::Tcm, MemKind::Hbm, MemKind::Sram] {
                    let channels = self.controller(kind);
                    let most = channels.map_or(f64::INFINITY, |c| c.bandwidth * f64::from(c.channels));
                    for link in links(kind) {
                        all.bandwidth += link.rate.bandwidth.min(most);
                        all.latency_ns = all.latency_ns.min(link.rate.latency_ns);
                    }
                }
                for link in links(MemKind::Tcm) {
                    let set = out.set_rate(link.id, all);
                    debug_assert!(set.is_ok(), "a rate made of rates, for {}", self.link_name(link.id));
                }
            }
        }
        Some(out)
    }
}
