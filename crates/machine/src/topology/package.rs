//! Packages, `package(SIPS, CUBES, PES)`: SIPs of cubes of processing elements, as links between
//! devices and relays.
//!
//! This module owns the settings that only packages have (overheads of components, wires,
//! bandwidths, which PEs are ranks) and the list of links that they describe. The reasons are in
//! docs/adr/022-graphs-and-packages.md. Rates of devices and rules of links are common to all
//! machines ([`super::settings`]). Routes are computed in [`super::graph`].
//!
//! A cube has one router. It is linked with the cube's PEs, with a slice of HBM for each PE, with
//! the cube's SRAM, and with a chiplet port for each neighbouring cube. The ports of neighbours are
//! joined by several connections; a message takes the connection with the number of its
//! destination. Every router leads to the sending IO node of its SIP and is reached from the
//! receiving one. A sending IO node is linked with the receiving ones of neighbouring SIPs, and a
//! receiving one with the sending one of its SIP. So no route between two cubes of one SIP passes
//! an IO node.
//!
//! The latency of a link is that of its wire plus the overhead of the node that it enters. A link
//! that leaves a PE also has the overhead of that PE.

use kbc_diag::{Diagnostic, Spanned};

use super::data::{Controller, Data};
use super::graph::{Edge, Graph, NONE, Parallel, Relay};
use super::quantity::{Dimension, Quantity};
use super::shape::Shape;
use super::value::{SettingValue, amounts, word};
use super::{Direction, LinkRate};

/// The PEs that are devices.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum PackageRanks {
    /// All PEs.
    Pe,
    /// The first PE of every cube.
    Cube,
    /// The first PE of the first cube of every SIP.
    Sip,
}

impl PackageRanks {
    /// All choices, by name.
    pub const ALL: [(&'static str, PackageRanks); 3] =
        [("pe", PackageRanks::Pe), ("cube", PackageRanks::Cube), ("sip", PackageRanks::Sip)];
}

/// The unit of a plain setting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Unit {
    /// Nanoseconds per millimetre.
    PerMillimetre,
    /// Millimetres.
    Millimetres,
    Nanoseconds,
    BytesPerSecond,
}

/// Plain settings with their defaults: overheads of nodes, lengths of wires, bandwidths.
const PLAIN: [(&str, Unit, f64); 19] = [
    ("ns_per_mm", Unit::PerMillimetre, 0.01),
    ("pe_node", Unit::Nanoseconds, 0.0),
    ("pe_link", Unit::BytesPerSecond, f64::INFINITY),
    ("router_node", Unit::Nanoseconds, 0.0),
    ("hbm_node", Unit::Nanoseconds, 0.0),
    ("hbm_wire", Unit::Millimetres, 0.0),
    ("hbm_link", Unit::BytesPerSecond, f64::INFINITY),
    ("hbm_switch", Unit::Nanoseconds, 0.0),
    ("sram_node", Unit::Nanoseconds, 0.0),
    ("sram_wire", Unit::Millimetres, 0.0),
    ("sram_link", Unit::BytesPerSecond, f64::INFINITY),
    ("port_node", Unit::Nanoseconds, 0.0),
    ("port_wire", Unit::Millimetres, 0.0),
    ("cube_wire", Unit::Millimetres, 0.0),
    ("io_node", Unit::Nanoseconds, 0.0),
    ("io_wire", Unit::Millimetres, 0.0),
    ("io_link", Unit::BytesPerSecond, f64::INFINITY),
    ("sip_wire", Unit::Millimetres, 0.0),
    ("sip_link", Unit::BytesPerSecond, f64::INFINITY),
];

/// Names of the settings that only packages have, in the order in which they are printed.
pub const PACKAGE_SETTING_NAMES: [&str; SPECIAL.len() + PLAIN.len()] = {
    let mut names = [""; SPECIAL.len() + PLAIN.len()];
    let mut i = 0;
    while i < names.len() {
        names[i] = if i < SPECIAL.len() { SPECIAL[i] } else { PLAIN[i - SPECIAL.len()].0 };
        i += 1;
    }
    names
};

/// Settings with values of other forms.
const SPECIAL: [&str; 5] = ["ranks", "pe_wire", "cube_link", "data", "hbm_channels"];

/// Limit on the lengths of PE wires: one per corner of the cube.
const CORNERS: usize = 4;
/// Limit on the connections between two ports.
const LANES: u32 = 64;

/// The given settings. [`PackageSettings::get`] fills in the defaults.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct PackageSettings {
    /// The PEs that are devices.
    pub ranks: Option<PackageRanks>,
    /// If given, only this many PEs are devices, the first ones of the first SIP.
    first: Option<u32>,
    /// Lengths of the wires between PEs and router in mm, and how many are given. Each is for an
    /// equal part of the PEs, in order.
    pe_wire: Option<([f64; CORNERS], usize)>,
    /// Bandwidth of a connection between ports, and number of connections.
    cube_link: Option<(f64, u32)>,
    /// Location of the data of puts and gets.
    data: Option<Data>,
    /// Channels of the controller of an HBM slice.
    channels: Option<Controller>,
    plain: [Option<f64>; PLAIN.len()],
}

fn place(name: &str) -> Option<usize> {
    PLAIN.iter().position(|p| p.0 == name)
}

impl PackageSettings {
    /// Checks whether no setting is given.
    pub fn is_empty(&self) -> bool {
        *self == PackageSettings::default()
    }

    /// Merges the settings: these, and for absent ones those of `base`.
    pub(super) fn over(&self, base: &PackageSettings) -> PackageSettings {
        PackageSettings {
            ranks: self.ranks.or(base.ranks),
            first: if self.ranks.is_some() { self.first } else { base.first },
            pe_wire: self.pe_wire.or(base.pe_wire),
            cube_link: self.cube_link.or(base.cube_link),
            data: self.data.or(base.data),
            channels: self.channels.or(base.channels),
            plain: std::array::from_fn(|i| self.plain[i].or(base.plain[i])),
        }
    }

    /// Returns which PEs are devices. All if not given.
    pub fn ranks(&self) -> PackageRanks {
        self.ranks.unwrap_or(PackageRanks::Pe)
    }

    /// Returns the number of devices if only the first PEs of the first SIP are devices.
    pub fn first(&self) -> Option<u32> {
        self.first
    }

    /// Returns a plain setting or its default, in ns, mm or bytes per second. 0 for an unknown
    /// name.
    pub fn get(&self, name: &str) -> f64 {
        place(name).map_or(0.0, |i| self.plain[i].unwrap_or(PLAIN[i].2))
    }

    /// Returns the bytes per second of a connection between ports, and the number of connections.
    /// One without limit if not given.
    pub fn connections(&self) -> (f64, u32) {
        self.cube_link.unwrap_or((f64::INFINITY, 1))
    }

    /// Returns the location of the data of puts and gets. At its device if not given.
    pub fn data(&self) -> Data {
        self.data.unwrap_or(Data::Pe)
    }

    /// Returns the channels of an HBM slice. None if not given; then only its link limits it.
    pub fn channels(&self) -> Option<Controller> {
        self.channels
    }

    /// Returns the length of the wire between a PE and its router, in mm.
    pub fn pe_wire(&self, pe: u32, pes: u32) -> f64 {
        let Some((wires, count)) = self.pe_wire else { return 0.0 };
        // The index is below `count`, because `pe` is below `pes`.
        wires[(u64::from(pe) * count as u64 / u64::from(pes.max(1))) as usize % CORNERS]
    }

    /// Parses one `name: value, ..` of [`PACKAGE_SETTING_NAMES`]. Returns whether it had been given
    /// already.
    pub(super) fn set(
        &mut self,
        name: &Spanned<String>,
        values: &[Spanned<SettingValue>],
    ) -> Result<bool, Diagnostic> {
        let fault = |title: &str, help: &str| {
            let span = values.first().map_or(name.span, |v| v.span);
            Err(Diagnostic::error("E445", title.to_owned()).primary(span, "here").help(help.to_owned()))
        };
        let plain = |v: &Spanned<SettingValue>| match v.node {
            SettingValue::Number(x) if x.is_finite() && x >= 0.0 => Some(x),
            _ => None,
        };
        Ok(match name.node.as_str() {
            "ranks" => {
                let known = values.first().and_then(|v| match &v.node {
                    SettingValue::Name(word) => PackageRanks::ALL.iter().find(|r| r.0 == word),
                    _ => None,
                });
                let most = f64::from(super::MAX_NODES);
                let first = match (known, values) {
                    (Some(_), [_]) => Some(None),
                    (Some((_, PackageRanks::Pe)), [_, count]) => plain(count)
                        .filter(|n| n.fract() == 0.0 && (1.0..=most).contains(n))
                        .map(|n| Some(n as u32)),
                    _ => None,
                };
                let Some(((_, ranks), first)) = known.zip(first) else {
                    return fault(
                        "`ranks` must be pe, cube or sip",
                        "with `ranks: pe` every PE is a device, with `cube` the first PE of every cube, with `sip` the first PE of every SIP, with `ranks: pe, 7` the first seven PEs of the first SIP",
                    );
                };
                self.first = first;
                self.ranks.replace(*ranks).is_some()
            }
            "data" => {
                let help = "with `data: named` puts and gets read and write the memory that a buffer or window names, with `data: pe` the memory of its device";
                self.data.replace(word(name, values, &Data::ALL, help)?).is_some()
            }
            "hbm_channels" => self.channels.replace(Controller::read(name, values)?).is_some(),
            "pe_wire" => {
                let list: Option<Vec<f64>> = values.iter().map(plain).collect();
                let Some(list) = list.filter(|l| (1..=CORNERS).contains(&l.len())) else {
                    return fault(
                        "`pe_wire` needs one to four lengths",
                        "write the lengths in mm of the wires between PEs and their router, one per corner: `pe_wire: 2, 2, 3.5, 3.5`",
                    );
                };
                let mut wires = [0.0; CORNERS];
                wires[..list.len()].copy_from_slice(&list);
                self.pe_wire.replace((wires, list.len())).is_some()
            }
            "cube_link" => {
                let (rate, count) = match values {
                    [rate] => (rate, Some(1)),
                    [rate, count] => {
                        let n =
                            plain(count).filter(|n| n.fract() == 0.0 && (1.0..=f64::from(LANES)).contains(n));
                        (rate, n.map(|n| n as u32))
                    }
                    _ => {
                        return fault(
                            "`cube_link` needs one or two values",
                            "write `cube_link: 128 GB/s, 4`",
                        );
                    }
                };
                let v = amounts(
                    name,
                    std::slice::from_ref(rate),
                    [("bandwidth", Dimension::BytesPerSecond, true)],
                )?;
                let Some(count) = count else {
                    return fault(
                        "the number of connections of `cube_link` is out of range",
                        "write the bandwidth of a connection and 1 to 64 connections: `cube_link: 128 GB/s, 4`",
                    );
                };
                self.cube_link.replace((v[0], count)).is_some()
            }
            other => {
                let Some(i) = place(other) else { return Ok(false) };
                let value = match PLAIN[i].1 {
                    Unit::Nanoseconds => amounts(name, values, [("time", Dimension::Nanoseconds, false)])?[0],
                    Unit::BytesPerSecond => {
                        amounts(name, values, [("bandwidth", Dimension::BytesPerSecond, true)])?[0]
                    }
                    unit => match values {
                        [v] if plain(v).is_some() => plain(v).unwrap_or_default(),
                        _ => {
                            let what = if unit == Unit::Millimetres { "mm" } else { "ns per mm" };
                            return fault(
                                &format!("`{other}` is not a plain number"),
                                &format!("write a number of {what} of at least 0: `{other}: 2.5`"),
                            );
                        }
                    },
                };
                self.plain[i].replace(value).is_some()
            }
        })
    }

    /// Returns the given settings, each as `name: value`.
    pub(super) fn parts(&self) -> Vec<String> {
        let mut out = vec![];
        if let Some((name, _)) = PackageRanks::ALL.iter().find(|r| Some(r.1) == self.ranks) {
            out.push(match self.first {
                Some(n) => format!("ranks: {name}, {n}"),
                None => format!("ranks: {name}"),
            });
        }
        if let Some((wires, count)) = self.pe_wire {
            let list: Vec<String> = wires[..count].iter().map(f64::to_string).collect();
            out.push(format!("pe_wire: {}", list.join(", ")));
        }
        if let Some((rate, count)) = self.cube_link {
            let rate = Quantity { amount: rate, dimension: Dimension::BytesPerSecond };
            out.push(format!("cube_link: {rate}, {count}"));
        }
        if let Some((name, _)) = Data::ALL.iter().find(|d| Some(d.1) == self.data) {
            out.push(format!("data: {name}"));
        }
        out.extend(self.channels.map(|c| format!("hbm_channels: {c}")));
        for ((name, unit, _), value) in PLAIN.iter().zip(self.plain) {
            let Some(value) = value else { continue };
            let text = |dimension| Quantity { amount: value, dimension }.to_string();
            out.push(match unit {
                Unit::Nanoseconds => format!("{name}: {}", text(Dimension::Nanoseconds)),
                Unit::BytesPerSecond => format!("{name}: {}", text(Dimension::BytesPerSecond)),
                _ => format!("{name}: {value}"),
            });
        }
        out
    }
}

/// Returns names and sizes of the axes of a package, slowest first.
pub(super) fn axes(
    sips: &[u32],
    cubes: [u32; 2],
    pes: u32,
    settings: &PackageSettings,
) -> Vec<(&'static str, u32)> {
    let ranks = settings.ranks();
    if let Some(n) = settings.first {
        return vec![("pe", n)];
    }
    let mut out = match sips {
        [rows, columns] => vec![("sip_y", *rows), ("sip_x", *columns)],
        some => vec![("sip", some.iter().product())],
    };
    if ranks != PackageRanks::Sip {
        out.extend([("cube_y", cubes[0]), ("cube_x", cubes[1])]);
    }
    if ranks == PackageRanks::Pe {
        out.push(("pe", pes));
    }
    out
}

/// Returns the sizes of the arrangement of SIPs, and whether it wraps, as rings and tori do.
pub(super) fn sides(sips: &Shape) -> (Vec<u32>, bool) {
    match sips {
        Shape::Ring(n) => (vec![*n], true),
        Shape::Torus(s) => (s.clone(), true),
        other => (other.sizes().to_vec(), false),
    }
}

/// Returns the number of devices of a package. None if it does not fit into 64 bits.
pub(super) fn devices(sips: &Shape, cubes: [u32; 2], pes: u32, settings: &PackageSettings) -> Option<u64> {
    let cubes = u64::from(cubes[0]).checked_mul(cubes[1].into())?;
    match (settings.first, settings.ranks()) {
        (Some(n), _) => Some(n.into()),
        (None, PackageRanks::Sip) => sips.devices(),
        (None, PackageRanks::Cube) => sips.devices()?.checked_mul(cubes),
        (None, PackageRanks::Pe) => sips.devices()?.checked_mul(cubes)?.checked_mul(pes.into()),
    }
}

/// Returns the number of nodes of a package, saturated at [`u64::MAX`].
pub(super) fn nodes(sips: &Shape, cubes: [u32; 2], pes: u32, settings: &PackageSettings) -> u64 {
    let [h, w] = cubes.map(u64::from);
    let count = if settings.first.is_some() { 1 } else { sips.devices().unwrap_or(u64::MAX) };
    // There are two ports for each pair of neighbouring cubes.
    let all = h.saturating_mul(w);
    let ports = all.saturating_mul(4).saturating_sub(h.saturating_add(w).saturating_mul(2));
    let relays = count.saturating_mul(all.saturating_mul(2).saturating_add(ports).saturating_add(2));
    devices(sips, cubes, pes, settings).map_or(u64::MAX, |d| d.saturating_mul(2)).saturating_add(relays)
}

/// Builder of the list of links.
struct Maker<'s> {
    graph: Graph,
    settings: &'s PackageSettings,
}

impl Maker<'_> {
    /// Adds a relay and returns its node number.
    fn relay(&mut self, list: &mut Vec<Relay>, part: &'static str, at: Vec<u32>, devices: u32) -> u32 {
        list.push(Relay { part, at });
        devices + list.len() as u32 - 1
    }

    /// Returns the rate of a wire of `mm` millimetres into a node whose overhead is the setting
    /// `node`.
    fn rate(&self, mm: f64, node: &str, bandwidth: f64) -> LinkRate {
        LinkRate { bandwidth, latency_ns: mm * self.settings.get("ns_per_mm") + self.settings.get(node) }
    }
}

/// Builds the links of a package, whose numbers of nodes must be within the limits.
pub(super) fn build(sips: &Shape, cubes: [u32; 2], pes: u32, settings: &PackageSettings, wrap2: u8) -> Graph {
    let (mut sizes, wraps) = sides(sips);
    let ranks = settings.ranks();
    if settings.first.is_some() {
        // No other SIP is used.
        sizes.fill(1);
    }
    let [rows, columns] = cubes;
    let sip_count: u32 = sizes.iter().product();
    let per_sip = match ranks {
        // If only some PEs are devices, the PEs of a SIP may be too many to count.
        PackageRanks::Pe => (rows * columns).saturating_mul(pes),
        PackageRanks::Cube => rows * columns,
        PackageRanks::Sip => 1,
    };
    let devices = settings.first.unwrap_or_else(|| sip_count * per_sip);
    let coordinates = |sip: u32| match sizes[..] {
        [_, w] => vec![sip / w, sip % w],
        _ => vec![sip],
    };
    let mut places = vec![];
    let mut m = Maker { graph: Graph::new(0, vec![]), settings };
    let mut list = vec![];
    let (mut regions, mut lanes) = (vec![NONE; devices as usize], vec![0; devices as usize]);
    // Nodes come first: routers, memory and ports of each cube, then the IO nodes of the SIP.
    struct Cube {
        router: u32,
        /// Device, its slice of HBM, and its number among the PEs of the cube.
        pes: Vec<(u32, u32, u32)>,
        sram: u32,
        /// Ports to the east, west, south and north.
        ports: [Option<u32>; 4],
    }
    let mut all: Vec<Vec<Cube>> = vec![];
    let mut io = vec![];
    for sip in 0..sip_count {
        let mut here = vec![];
        for cube in 0..rows * columns {
            let (y, x) = (cube / columns, cube % columns);
            let mut at = coordinates(sip);
            at.extend([y, x]);
            let router = m.relay(&mut list, "router", at.clone(), devices);
            let first = match ranks {
                PackageRanks::Pe => Some(((sip * per_sip).saturating_add(cube.saturating_mul(pes)), pes)),
                PackageRanks::Cube => Some((sip * per_sip + cube, 1)),
                PackageRanks::Sip => (cube == 0).then_some((sip, 1)),
            };
            let (first, count) = first.unwrap_or((0, 0));
            let count = count.min(devices.saturating_sub(first));
            let mut own = vec![];
            for pe in 0..count {
                let mut place = match ranks {
                    PackageRanks::Sip => coordinates(sip),
                    _ => at.clone(),
                };
                place.extend((ranks == PackageRanks::Pe).then_some(pe));
                places.push(place.clone());
                own.push((first + pe, m.relay(&mut list, "hbm", place, devices), pe));
            }
            let sram = m.relay(&mut list, "sram", at.clone(), devices);
            let wanted = [x + 1 < columns, x > 0, y + 1 < rows, y > 0];
            let mut ports = [None; 4];
            for ((port, wanted), part) in ports.iter_mut().zip(wanted).zip(["east", "west", "south", "north"])
            {
                *port = wanted.then(|| m.relay(&mut list, part, at.clone(), devices));
            }
            for (device, _, pe) in &own {
                regions[*device as usize] = sip;
                lanes[*device as usize] = *pe;
            }
            regions.resize((devices as usize) + list.len(), sip);
            lanes.resize(regions.len(), 0);
            for (_, slice, pe) in &own {
                lanes[*slice as usize] = *pe;
            }
            here.push(Cube { router, pes: own, sram, ports });
        }
        all.push(here);
        let ends = ["io_out", "io_in"].map(|part| m.relay(&mut list, part, coordinates(sip), devices));
        io.push(ends);
        regions.extend([NONE; 2]);
        lanes.extend([0; 2]);
    }
    m.graph = Graph::new(devices, list);
    m.graph.regions = regions;
    m.graph.lanes = lanes;
    if settings.first.is_some() {
        m.graph.places = places;
    }
    let unlimited = f64::INFINITY;
    let get = |name: &str| settings.get(name);
    for (sip, cubes) in all.iter().enumerate() {
        for cube in cubes {
            for &(device, slice, pe) in &cube.pes {
                // A PE does not forward, so its overhead is paid on the way out as well.
                let wire = settings.pe_wire(pe, pes);
                let into = m.rate(wire, "pe_node", get("pe_link"));
                let mut out = m.rate(wire, "router_node", get("pe_link"));
                out.latency_ns += get("pe_node");
                m.graph.join(device, cube.router, out, into);
                let to = m.rate(get("hbm_wire"), "hbm_node", get("hbm_link"));
                let back = m.rate(get("hbm_wire"), "router_node", get("hbm_link"));
                m.graph.join(cube.router, slice, to, back);
            }
            let to = m.rate(get("sram_wire"), "sram_node", get("sram_link"));
            let back = m.rate(get("sram_wire"), "router_node", get("sram_link"));
            m.graph.join(cube.router, cube.sram, to, back);
            // East and west come before south and north, so that of equally long routes the one
            // along x first is taken.
            for port in cube.ports.into_iter().flatten() {
                let to = m.rate(get("port_wire"), "port_node", unlimited);
                let back = m.rate(get("port_wire"), "router_node", unlimited);
                m.graph.join(cube.router, port, to, back);
            }
            let [out, into] = io[sip];
            let only = Parallel::Only;
            let to = m.rate(get("io_wire"), "io_node", get("io_link"));
            m.graph.add(Edge { from: cube.router, to: out, rate: to, parallel: only });
            let back = m.rate(get("io_wire"), "router_node", get("io_link"));
            m.graph.add(Edge { from: into, to: cube.router, rate: back, parallel: only });
        }
        // A message that passes through a SIP has paid for its IO node when it entered.
        let rate = LinkRate { bandwidth: unlimited, latency_ns: 0.0 };
        let [out, into] = io[sip];
        m.graph.add(Edge { from: into, to: out, rate, parallel: Parallel::Only });
        let (bandwidth, of) = settings.connections();
        let across = m.rate(get("cube_wire"), "port_node", bandwidth);
        for (i, cube) in cubes.iter().enumerate() {
            let beside = [(0, 1, 1), (2, 3, columns as usize)];
            for (mine, theirs, step) in beside {
                let Some(a) = cube.ports[mine] else { continue };
                let Some(b) = cubes.get(i + step).and_then(|c| c.ports[theirs]) else { continue };
                for (from, to) in [(a, b), (b, a)] {
                    for number in 0..of {
                        let parallel = if of == 1 { Parallel::Only } else { Parallel::Lane { number, of } };
                        m.graph.add(Edge { from, to, rate: across, parallel });
                    }
                }
            }
        }
    }
    // Links between SIPs, the lowest axis first as on all machines.
    let wire = m.rate(get("sip_wire"), "io_node", get("sip_link"));
    let sip = |at: &[u32]| io[at.iter().zip(&sizes).fold(0, |n, (c, s)| n * s + c) as usize];
    for axis in 0..sizes.len() {
        let pairs = (0..sip_count).filter_map(|number| {
            let at = coordinates(number);
            let mut next = at.clone();
            next[axis] = (next[axis] + 1) % sizes[axis];
            let last = at[axis] + 1 == sizes[axis];
            (!last || wraps && sizes[axis] > 2).then(|| (sip(&at), sip(&next)))
        });
        let pairs: Vec<([u32; 2], [u32; 2])> = pairs.collect();
        // The positive direction comes first, so that of two equally long routes around a ring it
        // is taken.
        let both = pairs.iter().copied().chain(pairs.iter().map(|(a, b)| (*b, *a)));
        for ([from, _], [_, to]) in both {
            if wraps && sizes[axis] == 2 && wrap2 == 2 {
                for direction in [Direction::Plus, Direction::Minus] {
                    m.graph.add(Edge { from, to, rate: wire, parallel: Parallel::Doubled(direction) });
                }
            } else {
                m.graph.add(Edge { from, to, rate: wire, parallel: Parallel::Only });
            }
        }
    }
    m.graph
}
