//! Settings of a machine: rates of links and devices, costs of fences and signals, rules of links.
//!
//! This module owns the table of settings, their defaults and their text. Given values and defaults
//! are kept apart, so that a report can list the defaults that it used and `--topology` can keep
//! the values of the program.

use std::fmt;

use kbc_diag::{Diagnostic, Span, Spanned};

use super::cores::{self, CoreSettings};
use super::package::{PACKAGE_SETTING_NAMES, PackageSettings};
use super::quantity::{Dimension, Quantity};
use super::queue::{self, QueueSettings, Queues};
use super::shape::Shape;
use super::switching::Switching;
use super::value::{SettingValue, amounts, word};
use kbc_ir::types::MemKind;

/// The text of an infinite bandwidth.
const UNLIMITED: &str = "unlimited";

/// Rate of one directed link.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LinkRate {
    /// Bytes per second. Positive, and infinite only for links of `graph` and `package`.
    pub bandwidth: f64,
    /// Nanoseconds per hop. Not negative.
    pub latency_ns: f64,
}

/// Rates of one device.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct DeviceRate {
    /// Floating-point operations per second.
    pub flops: f64,
    /// Bytes of memory traffic per second.
    pub memory: f64,
}

/// Rate of links if the machine gives none: 50 GB/s in each direction and 500 ns per hop. Reports
/// name it as a default.
pub const DEFAULT_LINK: LinkRate = LinkRate { bandwidth: 50e9, latency_ns: 500.0 };

/// Names of the settings that no other module owns.
const OWN_NAMES: [&str; 18] = [
    "link",
    "device",
    "vector",
    "fence",
    "signal",
    "wrap2",
    "forward",
    "routing",
    "switch",
    "round",
    "endpoint",
    "launch",
    "compute",
    "dma",
    "hbm_size",
    "sram_size",
    "tcm_size",
    "ub_size",
];

/// Number of all settings.
const SETTINGS: usize = OWN_NAMES.len() + cores::NAMES.len() + queue::NAMES.len();

/// Names of the settings, in the order in which they are printed: those of this module, of
/// [`super::cores`] and of [`super::queue`].
pub const SETTING_NAMES: [&str; SETTINGS] = {
    let (first, second) = (OWN_NAMES.len(), OWN_NAMES.len() + cores::NAMES.len());
    let mut all = [""; SETTINGS];
    let mut at = 0;
    while at < SETTINGS {
        all[at] = match at {
            at if at < first => OWN_NAMES[at],
            at if at < second => cores::NAMES[at - first],
            at => queue::NAMES[at - second],
        };
        at += 1;
    }
    all
};

/// The rule by which a message continues at the end of a link.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Forward {
    /// At once with its first byte: latencies add up, and the bytes are paid once.
    CutThrough,
    /// With its last byte: every link costs latency and bytes.
    StoreAndForward,
    /// At once, and at the end of the route the whole message drains over the slowest link of the
    /// route. If the head waits on the route, the tail does not catch up.
    Drain,
}

impl Forward {
    /// All rules, by name.
    pub const ALL: [(&'static str, Forward); 3] = [
        ("cut_through", Forward::CutThrough),
        ("store_and_forward", Forward::StoreAndForward),
        ("drain", Forward::Drain),
    ];

    /// Returns the name in a machine's text.
    pub fn name(self) -> &'static str {
        Forward::ALL.iter().find(|f| f.1 == self).map_or("", |f| f.0)
    }
}

/// The rule by which a list of links chooses between routes of equal latency and equally many hops.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Routing {
    /// At every node the link with the lowest number.
    Single,
    /// At every node with k such links the one with number d mod k, where d is the number of the
    /// destination. So routes to different destinations spread over equal links, as in InfiniBand
    /// fat trees (D-mod-k: Zahavi, "Fat-tree routing and node ordering providing contention free
    /// traffic for MPI global collectives", JPDC 2012).
    Ecmp,
    /// Each message for itself: at every node, when its head is there, the link over which its last
    /// byte leaves first, given what the links still have to carry. So a pair has several routes,
    /// as in networks whose switches choose the least loaded of equal ports (W. J. Dally, B.
    /// Towles, "Principles and Practices of Interconnection Networks", 2004, chapter 10: minimal
    /// adaptive routing). A message is not divided.
    Adaptive,
}

impl Routing {
    /// All rules, by name.
    pub const ALL: [(&'static str, Routing); 3] =
        [("single", Routing::Single), ("ecmp", Routing::Ecmp), ("adaptive", Routing::Adaptive)];
}

/// Whether arithmetic and vector work of a device share one unit.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Compute {
    /// Each has a unit of its own.
    Separate,
    /// Both share one slot, and wait for each other.
    Shared,
}

impl Compute {
    /// Both choices, by name.
    pub const ALL: [(&'static str, Compute); 2] =
        [("separate", Compute::Separate), ("shared", Compute::Shared)];
}

/// The given settings. The methods fill in the defaults.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Settings {
    /// `link: bandwidth, latency`.
    pub link: Option<LinkRate>,
    /// `device: FLOP/s, memory bytes/s`.
    pub device: Option<DeviceRate>,
    /// `vector: bytes/s` that a device reduces.
    pub vector: Option<f64>,
    /// `vector: bytes/s, bytes`: bytes of a step of the vector unit. A partial step takes as long
    /// as a full one.
    pub vector_step: Option<f64>,
    /// `fence: ns`.
    pub fence: Option<f64>,
    /// `signal: bytes` of a notify that travels alone.
    pub signal: Option<f64>,
    /// `wrap2: 1 | 2`: links in each direction of a wrap of size two.
    pub wrap2: Option<u8>,
    /// `forward: cut_through | store_and_forward | drain`.
    pub forward: Option<Forward>,
    /// `routing: single | ecmp | adaptive`, for lists of links.
    pub routing: Option<Routing>,
    /// `switch: forward | reduce, multicast`: what switches do with messages.
    pub switch: Option<Switching>,
    /// `round: ns`: times of links are rounded down to multiples of it.
    pub round: Option<f64>,
    /// `endpoint: ns` of a rank before each of its messages and once at its end.
    pub endpoint: Option<f64>,
    /// `launch: ns` from the common start of all ranks to their first operation.
    pub launch: Option<f64>,
    /// `compute: separate | shared`.
    pub compute: Option<Compute>,
    /// `dma: n`: number of transfers of a device in each direction at a time. A put holds its
    /// channel until its acknowledgement has returned, a get until its data has arrived.
    pub dma: Option<u32>,
    /// `hbm_size: bytes` and so on: sizes of a device's memories, in the order of [`MemKind::ALL`].
    pub sizes: [Option<f64>; 4],
    /// Settings of cores.
    pub cores: CoreSettings,
    /// Settings of `package(..)`.
    pub package: PackageSettings,
    /// Settings of queues.
    pub queue: QueueSettings,
}

impl Settings {
    /// Returns the rate of links without one of their own. [`DEFAULT_LINK`] if not given.
    pub fn link(&self) -> LinkRate {
        self.link.unwrap_or(DEFAULT_LINK)
    }

    /// Returns the floating-point operations per second. Infinite if not given.
    pub fn flops(&self) -> f64 {
        self.device.map_or(f64::INFINITY, |d| d.flops)
    }

    /// Returns the bytes of memory traffic per second. Infinite if not given.
    pub fn memory(&self) -> f64 {
        self.device.map_or(f64::INFINITY, |d| d.memory)
    }

    /// Returns the bytes that a device reduces per second. Infinite if not given.
    pub fn vector(&self) -> f64 {
        self.vector.unwrap_or(f64::INFINITY)
    }

    /// Rounds a number of bytes up to whole steps of the vector unit.
    pub fn vector_bytes(&self, bytes: f64) -> f64 {
        self.vector_step.map_or(bytes, |step| (bytes / step).ceil() * step)
    }

    /// Returns the nanoseconds of a fence. 0 if not given.
    pub fn fence_ns(&self) -> f64 {
        self.fence.unwrap_or(0.0)
    }

    /// Returns the bytes of a notify or credit that travels alone. 0 if not given.
    pub fn signal_bytes(&self) -> f64 {
        self.signal.unwrap_or(0.0)
    }

    /// Returns the number of links in each direction of a wrap of size two. 1 if not given.
    pub fn wrap2(&self) -> u8 {
        self.wrap2.unwrap_or(1)
    }

    /// Returns the rule by which messages continue at the end of a link. Cut-through if not given.
    pub fn forward(&self) -> Forward {
        self.forward.unwrap_or(Forward::CutThrough)
    }

    /// Returns what switches do with messages. They only forward them if not given.
    pub fn switching(&self) -> Switching {
        self.switch.unwrap_or_default()
    }

    /// Returns the quantum, in ns, to which times of links are rounded down. None if they are
    /// exact.
    pub fn round_ns(&self) -> Option<f64> {
        self.round
    }

    /// Returns the nanoseconds of a rank before each of its messages and once at its end. 0 if not
    /// given.
    pub fn endpoint_ns(&self) -> f64 {
        self.endpoint.unwrap_or(0.0)
    }

    /// Returns the nanoseconds from the common start to the first operation of every rank. 0 if not
    /// given.
    pub fn launch_ns(&self) -> f64 {
        self.launch.unwrap_or(0.0)
    }

    /// Checks whether arithmetic and vector work share one slot of a device. False if not given.
    pub fn shares_compute(&self) -> bool {
        self.compute == Some(Compute::Shared)
    }

    /// Returns the machine's queues. None without the setting `queue`.
    pub fn queues(&self) -> Option<Queues> {
        self.queue.queues()
    }

    /// Rounds a time of a link as this machine does.
    pub fn rounded(&self, ns: f64) -> f64 {
        self.round.map_or(ns, |q| (ns / q).floor() * q)
    }

    /// Returns a lower limit on a rounded time of a link that holds despite the rounding of `f64`:
    /// 2,000 times 0.01 ns may be slightly more than 20 ns, and 20 ns are then only 1,999 of them.
    pub fn rounded_at_least(&self, ns: f64) -> f64 {
        self.round.map_or(ns, |q| {
            let exact = q.fract() == 0.0 && ns.fract() == 0.0;
            (ns / q * if exact { 1.0 } else { 1.0 - 1e-12 }).floor() * q
        })
    }

    /// Returns the defaults that apply because the rates were not given, as text for reports.
    pub fn defaulted(&self) -> Vec<&'static str> {
        let mut out = vec![];
        let mut say = |given: bool, words| {
            if !given {
                out.push(words);
            }
        };
        say(self.link.is_some(), "link: 50 GB/s, 500 ns");
        say(self.device.is_some(), "device: unlimited");
        say(self.vector.is_some(), "vector: unlimited");
        say(self.fence.is_some(), "fence: 0 ns");
        say(self.signal.is_some(), "signal: 0 B");
        say(self.wrap2.is_some(), "wrap2: 1");
        out
    }

    /// Merges the settings: these, and for absent ones those of `base`.
    pub fn over(&self, base: &Settings) -> Settings {
        Settings {
            link: self.link.or(base.link),
            device: self.device.or(base.device),
            vector: self.vector.or(base.vector),
            // A step belongs to its rate.
            vector_step: if self.vector.is_some() { self.vector_step } else { base.vector_step },
            fence: self.fence.or(base.fence),
            signal: self.signal.or(base.signal),
            wrap2: self.wrap2.or(base.wrap2),
            forward: self.forward.or(base.forward),
            routing: self.routing.or(base.routing),
            switch: self.switch.or(base.switch),
            round: self.round.or(base.round),
            endpoint: self.endpoint.or(base.endpoint),
            launch: self.launch.or(base.launch),
            compute: self.compute.or(base.compute),
            dma: self.dma.or(base.dma),
            sizes: std::array::from_fn(|i| self.sizes[i].or(base.sizes[i])),
            cores: self.cores.over(&base.cores),
            package: self.package.over(&base.package),
            queue: self.queue.over(&base.queue),
        }
    }

    /// Returns the bytes of a device's memory of a kind; for SRAM of `package(..)`, those of a
    /// cube. None if not given: unlimited.
    pub fn size(&self, kind: MemKind) -> Option<f64> {
        MemKind::ALL.iter().position(|k| *k == kind).and_then(|i| self.sizes[i])
    }

    /// Returns those of these settings that also hold on `machine`, each as `name: value`.
    pub fn holding(&self, machine: &Settings) -> Vec<String> {
        let all = machine.parts();
        self.parts().into_iter().filter(|p| all.contains(p)).collect()
    }

    /// Returns the names of all settings, those of `package(..)` last.
    pub fn names() -> Vec<&'static str> {
        SETTING_NAMES.into_iter().chain(PACKAGE_SETTING_NAMES).collect()
    }

    /// Returns the settings without those that have no meaning for a shape. Used if the shape
    /// replaces the one that these settings were given for.
    pub fn fitting(&self, shape: &Shape) -> Settings {
        let listed = shape.has_own_links();
        let package = matches!(shape, Shape::Package { .. });
        Settings {
            link: self.link.filter(|_| !listed),
            wrap2: self.wrap2.filter(|_| !listed || package),
            routing: self.routing.filter(|_| listed && !package),
            switch: self.switch.filter(|_| shape.has_switches()),
            package: if package { self.package } else { PackageSettings::default() },
            ..*self
        }
    }

    /// Returns E445 for a setting that has no meaning for the shape, or that needs another setting.
    pub(super) fn fit(&self, shape: &Shape, at: Span) -> Result<(), Diagnostic> {
        if let Some(d) = self.cores.fault().or_else(|| self.fault_of_switching()) {
            return Err(if at.is_none() { d } else { d.primary(at, "this machine") });
        }
        let (mine, fitting) = (self.parts(), self.fitting(shape).parts());
        let Some(extra) = mine.iter().find(|p| !fitting.contains(p)) else { return Ok(()) };
        let name = extra.split(':').next().unwrap_or_default();
        let d = Diagnostic::error("E445", format!("setting `{name}` does not apply to `{}`", shape.name()));
        let d = match name {
            "switch" => {
                d.help("this setting is for machines with switches, or with relays in a list of links")
            }
            "routing" => d.help("this setting is for lists of links; other machines have one route per pair"),
            _ if PACKAGE_SETTING_NAMES.contains(&name) => {
                d.help("this setting is for machines of the form `package(sips, cubes, pes)`")
            }
            _ => d.help("remove the setting: every link of this machine states its own rate"),
        };
        Err(if at.is_none() { d } else { d.primary(at, "this machine") })
    }

    /// Returns E445 if a setting makes it impossible that switches combine or copy messages.
    fn fault_of_switching(&self) -> Option<Diagnostic> {
        if self.switching().only_forwards() {
            return None;
        }
        let (title, help) = if self.routing == Some(Routing::Adaptive) {
            (
                "switches that add or copy need known routes, and `routing: adaptive` has none",
                "use `routing: single` or `routing: ecmp`",
            )
        } else if self.dma.is_some() {
            (
                "switches that add or copy do not go with `dma`: the parts of a sum that have reached a switch would keep the channels that the missing parts need",
                "remove `dma`, or use `switch: forward`",
            )
        } else {
            return None;
        };
        Some(Diagnostic::error("E445", title).help(help))
    }

    /// Checks whether no setting is given.
    pub fn is_empty(&self) -> bool {
        *self == Settings::default()
    }

    /// Parses one setting `name: value, ..`.
    ///
    /// # Errors
    /// Returns E444 for an unknown name. Returns E445 for a wrong number of values, a wrong unit, a
    /// value out of range, or a name that is given twice.
    pub fn set(
        &mut self,
        name: &Spanned<String>,
        values: &[Spanned<SettingValue>],
    ) -> Result<(), Diagnostic> {
        const BANDWIDTH: (&str, Dimension, bool) = ("bandwidth", Dimension::BytesPerSecond, true);
        let twice = match name.node.as_str() {
            "link" => {
                let v = amounts(name, values, [BANDWIDTH, ("latency", Dimension::Nanoseconds, false)])?;
                self.link.replace(LinkRate { bandwidth: v[0], latency_ns: v[1] }).is_some()
            }
            "device" => {
                let wanted = [
                    ("arithmetic", Dimension::FlopPerSecond, true),
                    ("memory", Dimension::BytesPerSecond, true),
                ];
                let v = amounts(name, values, wanted)?;
                self.device.replace(DeviceRate { flops: v[0], memory: v[1] }).is_some()
            }
            "vector" => {
                let (rate, step) = match values {
                    [_, at] => {
                        let [rate, step] =
                            amounts(name, values, [BANDWIDTH, ("step", Dimension::Bytes, true)])?;
                        if step.fract() != 0.0 {
                            let title = format!("a step of `vector` cannot have {step} bytes");
                            let d = Diagnostic::error("E445", title).primary(at.span, "here");
                            return Err(d.help(
                                "with `vector: 512 GB/s, 512 B` the unit works in whole steps of 512 bytes",
                            ));
                        }
                        (rate, Some(step))
                    }
                    _ => (amounts(name, values, [BANDWIDTH])?[0], None),
                };
                self.vector_step = step;
                self.vector.replace(rate).is_some()
            }
            "fence" => {
                let v = amounts(name, values, [("time", Dimension::Nanoseconds, false)])?;
                self.fence.replace(v[0]).is_some()
            }
            "signal" => {
                let v = amounts(name, values, [("size", Dimension::Bytes, false)])?;
                self.signal.replace(v[0]).is_some()
            }
            "wrap2" => self.wrap2.replace(links(name, values)?).is_some(),
            "forward" => {
                let help = "`forward: cut_through` forwards the first byte at once, `forward: store_and_forward` waits for the last byte, `forward: drain` counts the time of the bytes only at the end";
                self.forward.replace(word(name, values, &Forward::ALL, help)?).is_some()
            }
            "routing" => {
                let help = "with `routing: single` all pairs take the first of equal links, with `routing: ecmp` destinations spread over them, with `routing: adaptive` each message takes the least loaded";
                self.routing.replace(word(name, values, &Routing::ALL, help)?).is_some()
            }
            "switch" => self.switch.replace(Switching::parse(name, values)?).is_some(),
            "round" => {
                let v = amounts(name, values, [("time", Dimension::Nanoseconds, true)])?;
                self.round.replace(v[0]).is_some()
            }
            "endpoint" => {
                let v = amounts(name, values, [("time", Dimension::Nanoseconds, false)])?;
                self.endpoint.replace(v[0]).is_some()
            }
            "launch" => {
                let v = amounts(name, values, [("time", Dimension::Nanoseconds, false)])?;
                self.launch.replace(v[0]).is_some()
            }
            "compute" => {
                let help = "with `compute: shared` the arithmetic and vector work of a device take turns on one unit";
                self.compute.replace(word(name, values, &Compute::ALL, help)?).is_some()
            }
            "dma" => self.dma.replace(transfers(name, values)?).is_some(),
            other if memory(other).is_some() => {
                let v = amounts(name, values, [("size", Dimension::Bytes, true)])?;
                memory(other).and_then(|i| self.sizes[i].replace(v[0])).is_some()
            }
            other if PACKAGE_SETTING_NAMES.contains(&other) => self.package.set(name, values)?,
            other if queue::NAMES.contains(&other) => self.queue.set(name, values)?,
            other if cores::NAMES.contains(&other) => self.cores.set(name, values)?,
            other => {
                return Err(super::unknown("E444", "setting", other, &Settings::names(), name.span));
            }
        };
        if twice {
            let title = format!("setting `{}` is given twice", name.node);
            return Err(Diagnostic::error("E445", title).primary(name.span, "given again here"));
        }
        Ok(())
    }
}

/// Returns the kind of memory whose size a setting is, by its index in [`MemKind::ALL`].
fn memory(name: &str) -> Option<usize> {
    let kind = MemKind::parse(name.strip_suffix("_size")?)?;
    MemKind::ALL.iter().position(|k| *k == kind)
}

/// Parses the rate of a single link, `bandwidth, latency`. The bandwidth may be `unlimited`, for
/// links of a list. `at` is the position of the setting.
///
/// # Errors
/// Returns E445 of [`Settings::set`].
pub fn link_rate(at: Span, values: &[Spanned<SettingValue>]) -> Result<LinkRate, Diagnostic> {
    let name = Spanned::new("link".to_owned(), at);
    if let [Spanned { node: SettingValue::Name(word), .. }, latency] = values
        && word == UNLIMITED
    {
        let wanted = [("latency", Dimension::Nanoseconds, false)];
        let v = amounts(&name, std::slice::from_ref(latency), wanted)?;
        return Ok(LinkRate { bandwidth: f64::INFINITY, latency_ns: v[0] });
    }
    if let Some((first, rest)) = values.split_first()
        && matches!(first.node, SettingValue::Quantity(q) if q.amount == 0.0 && q.dimension == Dimension::BytesPerSecond)
    {
        // A failed link. Its latency is of no use.
        let latency_ns = match rest {
            [] => 0.0,
            _ => amounts(&name, rest, [("latency", Dimension::Nanoseconds, false)])?[0],
        };
        return Ok(LinkRate { bandwidth: 0.0, latency_ns });
    }
    let mut settings = Settings::default();
    settings.set(&name, values)?;
    Ok(settings.link())
}

/// Parses the number of simultaneous transfers.
fn transfers(name: &Spanned<String>, values: &[Spanned<SettingValue>]) -> Result<u32, Diagnostic> {
    match values {
        [Spanned { node: SettingValue::Number(n), .. }]
            if n.fract() == 0.0 && (1.0..=65_536.0).contains(n) =>
        {
            Ok(*n as u32)
        }
        _ => {
            let span = values.first().map_or(name.span, |v| v.span);
            Err(Diagnostic::error("E445", "`dma` must be an integer from 1 to 65,536")
                .primary(span, "here")
                .help("with `dma: 1` a device has one transfer per direction in flight, until it is acknowledged"))
        }
    }
}

fn links(name: &Spanned<String>, values: &[Spanned<SettingValue>]) -> Result<u8, Diagnostic> {
    match values {
        [Spanned { node: SettingValue::Number(1.0), .. }] => Ok(1),
        [Spanned { node: SettingValue::Number(2.0), .. }] => Ok(2),
        _ => {
            let span = values.first().map_or(name.span, |v| v.span);
            Err(Diagnostic::error("E445", "`wrap2` must be 1 or 2")
                .primary(span, "here")
                .help("with `wrap2: 1` the two nodes of a ring of size 2 have one link per direction, with `wrap2: 2` two"))
        }
    }
}

impl LinkRate {
    /// Whether the link carries nothing.
    pub fn is_failed(&self) -> bool {
        self.bandwidth == 0.0
    }
}

impl fmt::Display for LinkRate {
    /// Writes `50 GB/s, 500 ns`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bandwidth = Quantity { amount: self.bandwidth, dimension: Dimension::BytesPerSecond };
        let latency = Quantity { amount: self.latency_ns, dimension: Dimension::Nanoseconds };
        if self.bandwidth == f64::INFINITY {
            return write!(f, "{UNLIMITED}, {latency}");
        }
        write!(f, "{bandwidth}, {latency}")
    }
}

impl Settings {
    /// Returns the given settings, each as `name: value`.
    pub fn parts(&self) -> Vec<String> {
        let mut parts: Vec<String> = vec![];
        let text = |amount, dimension| Quantity { amount, dimension }.to_string();
        if let Some(l) = self.link {
            parts.push(format!("link: {l}"));
        }
        if let Some(d) = self.device {
            let flops = text(d.flops, Dimension::FlopPerSecond);
            parts.push(format!("device: {flops}, {}", text(d.memory, Dimension::BytesPerSecond)));
        }
        if let Some(v) = self.vector {
            let step = self.vector_step.map_or(String::new(), |s| format!(", {}", text(s, Dimension::Bytes)));
            parts.push(format!("vector: {}{step}", text(v, Dimension::BytesPerSecond)));
        }
        if let Some(v) = self.fence {
            parts.push(format!("fence: {}", text(v, Dimension::Nanoseconds)));
        }
        if let Some(v) = self.signal {
            parts.push(format!("signal: {}", text(v, Dimension::Bytes)));
        }
        if let Some(v) = self.wrap2 {
            parts.push(format!("wrap2: {v}"));
        }
        if let Some(v) = self.forward {
            parts.push(format!("forward: {}", v.name()));
        }
        if let Some((name, _)) = Routing::ALL.iter().find(|r| Some(r.1) == self.routing) {
            parts.push(format!("routing: {name}"));
        }
        if let Some(v) = self.switch {
            parts.push(format!("switch: {v}"));
        }
        if let Some(v) = self.round {
            parts.push(format!("round: {}", text(v, Dimension::Nanoseconds)));
        }
        if let Some(v) = self.endpoint {
            parts.push(format!("endpoint: {}", text(v, Dimension::Nanoseconds)));
        }
        if let Some(v) = self.launch {
            parts.push(format!("launch: {}", text(v, Dimension::Nanoseconds)));
        }
        if let Some((name, _)) = Compute::ALL.iter().find(|c| Some(c.1) == self.compute) {
            parts.push(format!("compute: {name}"));
        }
        if let Some(v) = self.dma {
            parts.push(format!("dma: {v}"));
        }
        for (kind, size) in MemKind::ALL.iter().zip(self.sizes) {
            if let Some(v) = size {
                parts.push(format!("{kind}_size: {}", text(v, Dimension::Bytes)));
            }
        }
        self.cores.parts(&mut parts);
        parts.extend(self.package.parts());
        self.queue.parts(&mut parts);
        parts
    }
}

impl fmt::Display for Settings {
    /// Writes the given settings as ` { link: 50 GB/s, 500 ns; fence: 20 ns }`, or nothing if there
    /// are none.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = self.parts();
        if parts.is_empty() { Ok(()) } else { write!(f, " {{ {} }}", parts.join("; ")) }
    }
}
