//! Names of keys in `topology.yaml`: components, the quantity that a key gives, and keys at fixed
//! places.
//!
//! This module owns the tables and the analysis of key names. [`super`] reads the values.

/// The top-level sections of such a file.
pub(super) const SECTIONS: [&str; 3] = ["system", "sip", "cube"];

/// The keys at fixed places.
pub(super) const FIXED: [&str; 11] = [
    "system.sips.count",
    "system.sips.topology",
    "system.sips.w",
    "system.sips.h",
    "system.ns_per_mm",
    "sip.cube_mesh.w",
    "sip.cube_mesh.h",
    "cube.pe_layout.corners",
    "cube.pe_layout.pe_per_corner",
    "cube.memory_map.hbm_total_gb_per_cube",
    "cube.memory_map.hbm_slices_per_cube",
];

/// The component that contains a key or that its name begins with.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Component {
    Pe,
    /// The DMA of a PE. Messages pass it, too.
    Dma,
    Router,
    Hbm,
    Sram,
    Port,
    Io,
    /// A link between SIPs.
    Sip,
    /// A pseudo-channel of the HBM.
    Channel,
    /// A unit inside a PE that messages do not pass.
    Inside,
}

/// The names of components. A unit of a PE that is none of these is [`Component::Inside`].
pub(super) const PARTS: [(&str, Component); 35] = [
    ("pe", Component::Pe),
    ("pes", Component::Pe),
    ("pe_layout", Component::Pe),
    ("pe_dma", Component::Dma),
    ("dma", Component::Dma),
    ("router", Component::Router),
    ("routers", Component::Router),
    ("noc", Component::Router),
    ("noc_router", Component::Router),
    ("cube_router", Component::Router),
    ("hbm", Component::Hbm),
    ("hbm_ctrl", Component::Hbm),
    ("hbm_controller", Component::Hbm),
    ("hbm_slice", Component::Hbm),
    ("sram", Component::Sram),
    ("sram_ctrl", Component::Sram),
    ("cube_sram", Component::Sram),
    ("ucie", Component::Port),
    ("ucie_port", Component::Port),
    ("ucie_ports", Component::Port),
    ("ucie_n", Component::Port),
    ("ucie_e", Component::Port),
    ("ucie_s", Component::Port),
    ("ucie_w", Component::Port),
    ("connection", Component::Port),
    ("per_connection", Component::Port),
    ("io_cpu", Component::Io),
    ("io", Component::Io),
    ("io_chiplet", Component::Io),
    ("sip_link", Component::Sip),
    ("inter_sip", Component::Sip),
    ("sip_to_sip", Component::Sip),
    ("pc", Component::Channel),
    ("per_channel", Component::Channel),
    ("pseudo_channel", Component::Channel),
];

pub(super) fn part(name: &str) -> Option<Component> {
    let known = PARTS.iter().find(|p| p.0 == name).map(|p| p.1);
    known.or_else(|| name.starts_with("pe_").then_some(Component::Inside))
}

/// The quantity that a key of a component gives.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum KeyQuantity {
    Bandwidth,
    Overhead,
    Position,
    Length,
    Connections,
    Channels,
    Burst,
    Penalty,
}

/// The keys of components: the whole name, or the end of the name.
pub(super) const LEAVES: [(&str, KeyQuantity); 15] = [
    ("bw_gbs", KeyQuantity::Bandwidth),
    ("bandwidth_gbs", KeyQuantity::Bandwidth),
    ("overhead_ns", KeyQuantity::Overhead),
    ("pos_mm", KeyQuantity::Position),
    ("distance_mm", KeyQuantity::Length),
    ("length_mm", KeyQuantity::Length),
    ("connections", KeyQuantity::Connections),
    ("n_connections", KeyQuantity::Connections),
    ("connections_per_side", KeyQuantity::Connections),
    ("pseudo_channels", KeyQuantity::Channels),
    ("num_pseudo_channels", KeyQuantity::Channels),
    ("num_pcs", KeyQuantity::Channels),
    ("burst_bytes", KeyQuantity::Burst),
    ("burst_size_bytes", KeyQuantity::Burst),
    ("switch_penalty_ns", KeyQuantity::Penalty),
];

/// Words before the end of a component's key that carry no information.
const GENERIC: [&str; 3] = ["link", "wire", "node"];

/// Keys that only group others, or that name an implementation.
pub(super) const PLAIN: [&str; 9] =
    ["components", "attrs", "links", "nodes", "bandwidth", "impl", "sips", "pe_layout", "memory_map"];

/// Returns the quantity that a key gives and its component. The component is named at the beginning
/// of the key, or is the innermost one that contains the key.
pub(super) fn leaf(name: &str, path: &[String]) -> Option<(KeyQuantity, Component)> {
    let above = || path[..path.len() - 1].iter().rev().find_map(|p| part(p));
    let whole = LEAVES.iter().find(|l| l.0 == name).map(|l| ("", l.1));
    let (before, quantity) = whole.or_else(|| {
        LEAVES
            .iter()
            .find_map(|(end, quantity)| Some((name.strip_suffix(end)?.strip_suffix('_')?, *quantity)))
    })?;
    let found = match before.split_once("_to_") {
        _ if before.is_empty() || GENERIC.contains(&before) => above(),
        _ if part(before).is_some() => part(before),
        // For a link between a router and another component, the other component counts.
        Some((a, b)) => match (part(a)?, part(b)?) {
            (Component::Router, other) | (other, Component::Router) => Some(other),
            (a, _) => Some(a),
        },
        None => return None,
    };
    let found = match quantity {
        KeyQuantity::Connections => Some(Component::Port),
        KeyQuantity::Channels | KeyQuantity::Burst | KeyQuantity::Penalty => Some(Component::Hbm),
        _ => found,
    };
    found.map(|part| (quantity, part))
}
