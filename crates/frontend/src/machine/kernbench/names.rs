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
pub(super) enum Part {
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

/// The names of components. A unit of a PE that is none of these is [`Part::Inside`].
pub(super) const PARTS: [(&str, Part); 35] = [
    ("pe", Part::Pe),
    ("pes", Part::Pe),
    ("pe_layout", Part::Pe),
    ("pe_dma", Part::Dma),
    ("dma", Part::Dma),
    ("router", Part::Router),
    ("routers", Part::Router),
    ("noc", Part::Router),
    ("noc_router", Part::Router),
    ("cube_router", Part::Router),
    ("hbm", Part::Hbm),
    ("hbm_ctrl", Part::Hbm),
    ("hbm_controller", Part::Hbm),
    ("hbm_slice", Part::Hbm),
    ("sram", Part::Sram),
    ("sram_ctrl", Part::Sram),
    ("cube_sram", Part::Sram),
    ("ucie", Part::Port),
    ("ucie_port", Part::Port),
    ("ucie_ports", Part::Port),
    ("ucie_n", Part::Port),
    ("ucie_e", Part::Port),
    ("ucie_s", Part::Port),
    ("ucie_w", Part::Port),
    ("connection", Part::Port),
    ("per_connection", Part::Port),
    ("io_cpu", Part::Io),
    ("io", Part::Io),
    ("io_chiplet", Part::Io),
    ("sip_link", Part::Sip),
    ("inter_sip", Part::Sip),
    ("sip_to_sip", Part::Sip),
    ("pc", Part::Channel),
    ("per_channel", Part::Channel),
    ("pseudo_channel", Part::Channel),
];

pub(super) fn part(name: &str) -> Option<Part> {
    let known = PARTS.iter().find(|p| p.0 == name).map(|p| p.1);
    known.or_else(|| name.starts_with("pe_").then_some(Part::Inside))
}

/// The quantity that a key of a component gives.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Says {
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
pub(super) const LEAVES: [(&str, Says); 15] = [
    ("bw_gbs", Says::Bandwidth),
    ("bandwidth_gbs", Says::Bandwidth),
    ("overhead_ns", Says::Overhead),
    ("pos_mm", Says::Position),
    ("distance_mm", Says::Length),
    ("length_mm", Says::Length),
    ("connections", Says::Connections),
    ("n_connections", Says::Connections),
    ("connections_per_side", Says::Connections),
    ("pseudo_channels", Says::Channels),
    ("num_pseudo_channels", Says::Channels),
    ("num_pcs", Says::Channels),
    ("burst_bytes", Says::Burst),
    ("burst_size_bytes", Says::Burst),
    ("switch_penalty_ns", Says::Penalty),
];

/// Words before the end of a component's key that carry no information.
const GENERIC: [&str; 3] = ["link", "wire", "node"];

/// Keys that only group others, or that name an implementation.
pub(super) const PLAIN: [&str; 9] =
    ["components", "attrs", "links", "nodes", "bandwidth", "impl", "sips", "pe_layout", "memory_map"];

/// Returns the quantity that a key gives and its component. The component is named at the beginning
/// of the key, or is the innermost one that contains the key.
pub(super) fn leaf(name: &str, path: &[String]) -> Option<(Says, Part)> {
    let above = || path[..path.len() - 1].iter().rev().find_map(|p| part(p));
    let whole = LEAVES.iter().find(|l| l.0 == name).map(|l| ("", l.1));
    let (before, says) = whole.or_else(|| {
        LEAVES.iter().find_map(|(end, says)| Some((name.strip_suffix(end)?.strip_suffix('_')?, *says)))
    })?;
    let found = match before.split_once("_to_") {
        _ if before.is_empty() || GENERIC.contains(&before) => above(),
        _ if part(before).is_some() => part(before),
        // For a link between a router and another component, the other component counts.
        Some((a, b)) => match (part(a)?, part(b)?) {
            (Part::Router, other) | (other, Part::Router) => Some(other),
            (a, _) => Some(a),
        },
        None => return None,
    };
    let found = match says {
        Says::Connections => Some(Part::Port),
        Says::Channels | Says::Burst | Says::Penalty => Some(Part::Hbm),
        _ => found,
    };
    found.map(|part| (says, part))
}
