//! The machine as a network for synthesis: devices are members, relays only forward, and
//! bandwidths are whole numbers.

use kbc_ir::expr::gcd;
use kbc_machine::topology::Topology;
use kbc_synthesis::{Network, SynthesisError};

/// Parts of the fastest link to which rates are rounded down, if they are not whole numbers of
/// bytes per second or are too large to be added.
const STEPS: f64 = 1_048_576.0;

/// A network, and what its numbers stand for.
pub struct MachineNetwork {
    /// The network. Node i is device i of the machine; relays follow.
    pub network: Network,
    /// Bytes per second of one unit of capacity.
    pub unit: f64,
    /// Whether rates are rounded down.
    pub rounded: bool,
    /// Largest latency of a link, in nanoseconds.
    pub latency_ns: f64,
}

/// Returns the network of a machine. A link of unlimited bandwidth has as much as all others
/// together.
///
/// # Errors
/// Those of [`Network::new`].
pub fn network(topology: &Topology) -> Result<MachineNetwork, SynthesisError> {
    let finite = || topology.links().map(|l| l.rate.bandwidth).filter(|b| b.is_finite());
    let total: f64 = finite().sum();
    let fastest = finite().fold(0.0, f64::max);
    // The sum of a network's capacities is less than 2^64, unlimited links included.
    let links = topology.link_count() as f64 + 1.0;
    let whole = finite().all(|b| b.fract() == 0.0);
    let (unit, rounded) = match whole.then(|| finite().fold(0, |g, b| gcd(g, b as u64))) {
        Some(unit) if unit > 0 && total / unit as f64 * links < 1e19 => (unit as f64, false),
        _ if fastest > 0.0 => (fastest / STEPS, true),
        _ => (1.0, false),
    };
    let all = (total / unit).floor().max(1.0);
    let capacity = |b: f64| if b.is_finite() { (b / unit).floor() as u64 } else { all as u64 };
    let edges = topology.links().map(|l| (l.from.0 as usize, l.to.0 as usize, capacity(l.rate.bandwidth)));
    let network = Network::new(topology.node_count(), edges, 0..topology.device_count())?;
    let latency_ns = topology.links().map(|l| l.rate.latency_ns).fold(0.0, f64::max);
    Ok(MachineNetwork { network, unit, rounded, latency_ns })
}
