//! An independent check of results. It shares no code with the crate: from the network and the
//! plain data of a result it derives that the trees exist, and that no rate is higher.

use kbc_synthesis::{
    EdgeLoad, ExactRatio, Network, RateProof, SpanningPacking, TightCut, TreeCollective, TreeDirection,
    TreePacking,
};
use std::collections::{BTreeMap, BTreeSet};

macro_rules! require {
    ($holds:expr, $($text:tt)+) => {
        if !$holds {
            return Err(format!($($text)+));
        }
    };
}

fn capacities(network: &Network) -> BTreeMap<(usize, usize), u128> {
    network.edges().iter().map(|e| ((e.from, e.to), u128::from(e.capacity))).collect()
}

fn product(a: u128, b: u128) -> u128 {
    a.checked_mul(b).expect("tests use small numbers")
}

/// `a / b == r`.
fn equals(a: u128, b: u128, r: ExactRatio) -> bool {
    b > 0 && product(a, r.denominator()) == product(b, r.numerator())
}

/// Checks trees of a collective; `fixed` is the number of trees per root, if it was given.
pub fn check(
    network: &Network,
    collective: TreeCollective,
    fixed: Option<u64>,
    packing: &TreePacking,
) -> Result<(), String> {
    let members: BTreeSet<usize> = network.members().iter().copied().collect();
    let (roots, outward): (BTreeSet<usize>, bool) = match collective {
        TreeCollective::AllGather => (members.clone(), true),
        TreeCollective::ReduceScatter => (members.clone(), false),
        TreeCollective::Broadcast { root } => (BTreeSet::from([root]), true),
        TreeCollective::Reduce { root } => (BTreeSet::from([root]), false),
    };
    require!(outward == (packing.direction == TreeDirection::FromRoot), "direction");
    let listed: BTreeSet<usize> = packing.roots.iter().map(|r| r.0).collect();
    require!(listed == roots && packing.roots.len() == roots.len(), "roots {listed:?}");
    let per_root = packing.roots[0].1;
    require!(per_root > 0 && packing.roots.iter().all(|r| r.1 == per_root), "unequal roots");
    require!(fixed.is_none_or(|k| u128::from(k) == per_root), "{per_root} trees per root");
    trees(network, packing, &roots, &members, outward, per_root)?;
    // The rate: trees of a root, in units of capacity.
    let (scale, rate) = (packing.scale, packing.rate);
    let achieved = product(per_root, scale.denominator());
    require!(equals(achieved, scale.numerator(), rate), "rate {rate} at scale {scale}");
    proof(network, packing, &roots, &members, outward, per_root)
}

fn trees(
    network: &Network,
    packing: &TreePacking,
    roots: &BTreeSet<usize>,
    members: &BTreeSet<usize>,
    outward: bool,
    per_root: u128,
) -> Result<(), String> {
    let known = capacities(network);
    let mut load: BTreeMap<(usize, usize), u128> = known.keys().map(|&e| (e, 0)).collect();
    let mut of_root: BTreeMap<usize, u128> = BTreeMap::new();
    for class in &packing.classes {
        require!(roots.contains(&class.root) && class.trees > 0, "class of {}", class.root);
        *of_root.entry(class.root).or_insert(0) += class.trees;
        let mut inside = BTreeSet::from([class.root]);
        for edge in &class.edges {
            let (near, far) = if outward { (edge.from, edge.to) } else { (edge.to, edge.from) };
            require!(inside.contains(&near), "edge {}->{} before its parent", edge.from, edge.to);
            require!(members.contains(&far) && inside.insert(far), "node {far} twice or no member");
            let mut sum = 0;
            for route in &edge.routes {
                let (first, last) = (route.nodes.first(), route.nodes.last());
                require!(first == Some(&edge.from) && last == Some(&edge.to), "ends of a route");
                require!(route.nodes.len() >= 2 && route.trees > 0, "empty route");
                let between = &route.nodes[1..route.nodes.len() - 1];
                require!(between.iter().all(|v| !members.contains(v)), "route through a member");
                let different: BTreeSet<usize> = route.nodes.iter().copied().collect();
                require!(different.len() == route.nodes.len(), "route {:?} has a loop", route.nodes);
                for pair in route.nodes.windows(2) {
                    let Some(sum) = load.get_mut(&(pair[0], pair[1])) else {
                        return Err(format!("no edge {}->{}", pair[0], pair[1]));
                    };
                    *sum += route.trees;
                }
                sum += route.trees;
            }
            require!(sum == class.trees, "routes carry {sum} of {} trees", class.trees);
        }
        require!(inside == *members, "tree of {} does not span", class.root);
    }
    require!(of_root.values().all(|&k| k == per_root), "trees per root");
    require!(of_root.len() == roots.len(), "a root without trees");
    require!(packing.loads.len() == load.len(), "loads are missing");
    for (l, (&e, &sum)) in packing.loads.iter().zip(&load) {
        require!((l.from, l.to) == e && l.trees == sum, "load of {e:?}: {} is {sum}", l.trees);
        require!(l.trees <= l.limit, "edge {e:?} carries {} of {}", l.trees, l.limit);
        let whole = product(known[&e], packing.scale.numerator()) / packing.scale.denominator();
        require!(l.limit == whole, "limit of {e:?}: {} is {whole}", l.limit);
    }
    Ok(())
}

/// Checks that the cut is one, and returns the capacities of the edges over which data must cross.
fn crossing(
    network: &Network,
    cut: &TightCut,
    roots: &BTreeSet<usize>,
    members: &BTreeSet<usize>,
    outward: bool,
) -> Result<Vec<u128>, String> {
    let inside: BTreeSet<usize> = cut.nodes.iter().copied().collect();
    require!(inside.len() == cut.nodes.len(), "a node of the cut twice");
    require!(inside.iter().all(|&v| v < network.nodes()), "a node of the cut does not exist");
    require!(!members.is_subset(&inside), "no member is outside the cut");
    let weight = roots.intersection(&inside).count() as u128;
    require!(weight > 0 && cut.weight == weight, "weight {} is {weight}", cut.weight);
    let over = |e: &(usize, usize)| {
        let (near, far) = if outward { *e } else { (e.1, e.0) };
        inside.contains(&near) && !inside.contains(&far)
    };
    Ok(capacities(network).into_iter().filter(|(e, _)| over(e)).map(|e| e.1).collect())
}

fn proof(
    network: &Network,
    packing: &TreePacking,
    roots: &BTreeSet<usize>,
    members: &BTreeSet<usize>,
    outward: bool,
    per_root: u128,
) -> Result<(), String> {
    match &packing.proof {
        RateProof::Cut(cut) => {
            let sum: u128 = crossing(network, cut, roots, members, outward)?.iter().sum();
            require!(sum == cut.capacity, "capacity {} is {sum}", cut.capacity);
            require!(equals(sum, cut.weight, packing.rate), "the cut gives another rate");
        }
        RateProof::WholeTrees { cut, below } => {
            let over = crossing(network, cut, roots, members, outward)?;
            let whole = |c: &u128| product(*c, below.numerator()) / below.denominator();
            let sum: u128 = over.iter().map(whole).sum();
            require!(sum == cut.capacity, "{} whole trees are {sum}", cut.capacity);
            require!(sum < product(per_root, cut.weight), "the cut carries all trees");
            // Between `below` and the scale no edge changes, so no scale between them suffices.
            require!(*below < packing.scale, "scales");
            for c in capacities(network).values() {
                // The largest whole number of trees that needs a scale below that of the packing.
                let product_at = product(*c, packing.scale.numerator());
                let last = (product_at - 1) / packing.scale.denominator();
                let whole_below = product(*c, below.numerator()) / below.denominator();
                require!(last == whole_below, "an edge changes between {below} and the scale");
            }
        }
    }
    Ok(())
}

/// Checks spanning trees of an all-reduce, and that no rate is higher if they have a proof.
pub fn check_spanning(network: &Network, packing: &SpanningPacking) -> Result<(), String> {
    let (n, members) = (network.nodes(), network.members());
    let known = capacities(network);
    let mut load: BTreeMap<(usize, usize), u128> =
        known.keys().filter(|e| e.0 < e.1).map(|&e| (e, 0)).collect();
    let mut sum = 0;
    for class in &packing.classes {
        require!(class.trees > 0, "no trees");
        sum += class.trees;
        let mut inside = BTreeSet::from([class.centre]);
        for edge in &class.edges {
            let (u, v) = (edge.near, edge.far);
            require!(inside.contains(&u) && inside.insert(v), "edge {u}-{v} does not grow the tree");
            let mut at = u;
            for &next in edge.through.iter().chain([&v]) {
                require!(next == v || !members.contains(&next), "member {next} forwards");
                let Some(l) = load.get_mut(&(at.min(next), at.max(next))) else {
                    return Err(format!("no link {at}-{next}"));
                };
                *l += class.trees;
                at = next;
            }
        }
        require!(inside.iter().eq(members), "a tree does not span");
    }
    require!(sum == packing.trees, "{sum} trees of {}", packing.trees);
    require!(packing.loads.len() == load.len(), "loads are missing");
    for (l, (&e, &sum)) in packing.loads.iter().zip(&load) {
        require!((l.from, l.to) == e && l.trees == sum && sum <= l.limit, "load of {e:?}");
        let whole = product(known[&e], packing.scale.numerator()) / packing.scale.denominator();
        require!(l.limit == whole, "limit of {e:?}");
    }
    let achieved = product(packing.trees, packing.scale.denominator());
    require!(equals(achieved, packing.scale.numerator(), packing.rate), "rate");
    let Some(proof) = &packing.proof else {
        // The scale is not larger than the busiest link needs.
        let full = |l: &EdgeLoad| {
            let capacity = known[&(l.from, l.to)];
            product(l.trees, packing.scale.denominator()) == product(capacity, packing.scale.numerator())
        };
        require!(packing.loads.iter().any(full), "no link is full");
        return Ok(());
    };
    let mut part = BTreeMap::new();
    for (i, nodes) in proof.parts.iter().enumerate() {
        require!(!nodes.is_empty(), "an empty part");
        for &v in nodes {
            require!(v < n && part.insert(v, i).is_none(), "node {v} in two parts");
        }
    }
    require!(part.len() == n && proof.parts.len() >= 2, "no partition");
    let between: u128 =
        known.iter().filter(|(e, _)| e.0 < e.1 && part[&e.0] != part[&e.1]).map(|e| e.1).sum();
    require!(between == proof.crossing, "crossing {} is {between}", proof.crossing);
    require!(
        equals(between, proof.parts.len() as u128 - 1, packing.rate),
        "the partition gives another rate"
    );
    Ok(())
}
