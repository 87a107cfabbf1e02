//! A number of spanning trees for an all-reduce, on any network whose links are alike both ways.
//!
//! Members are joined by routes, which may pass switches and other nodes that only forward. The
//! trees are chosen one after another. Every use of a link has a price, the growth of the sum of
//! `(uses / capacity)^p` over all links, and a tree grows from a member: the member that is nearest
//! to the tree by these prices is joined to it next. (For fixed prices this is Prim's algorithm on
//! the shortest distances between members. Here the prices follow the uses, so a tree avoids links
//! that it has used itself.) Then every tree is removed and grown anew, several times, with
//! a larger p, so that the busiest link counts more and more. The trees are taken whose busiest
//! link is used least, for its capacity.
//!
//! Trees take the route between two members that others take, unless another one is much cheaper: a
//! receiver takes the messages of a sender in their order, so those on a fast route wait for those
//! on a slow one.
//!
//! It is a heuristic, in the manner of the exponential prices of Plotkin, Shmoys and Tardos (Fast
//! Approximation Algorithms for Fractional Packing and Covering Problems, 1995). No rate is proven
//! best, except by a bound from elsewhere. Prices are computed with additions, multiplications and
//! divisions alone, so they are the same on every computer.

use crate::centre::centred;
use crate::certificate::{SpanningClass, SpanningEdge, SpanningPacking};
use crate::error::SynthesisError;
use crate::exact::ExactRatio;
use crate::network::Network;
use crate::spanning::{LinkEnds, alike_links, link_loads};
use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BinaryHeap};

/// The exponents of the prices, as numbers of squarings: p = 4, 8, 16, 16 and 32.
const SQUARINGS: [u32; 5] = [2, 3, 4, 4, 5];
/// What a step of a route costs besides its price, as a part of the mean price of a link. A small
/// part finds the best rate, and a larger one finds trees that are less deep.
const STEP_COSTS: [f64; 2] = [0.001, 0.03];
/// No price is larger. Sums of prices stay finite.
const LARGEST_PRICE: f64 = 1e280;
/// Largest number of trees.
const MOST_TREES: u64 = 1 << 22;
/// A route is much cheaper if another one costs more than this many times its price.
const MUCH_CHEAPER: f64 = 2.0;
/// Part of the golden ratio by which the members follow one another from which trees grow.
const STRIDE: f64 = 0.618_033_988_749_894_8;

/// Returns `trees` spanning trees of the members, at a rate that is as high as the search finds.
/// Each tree carries an equal part of the data.
///
/// # Errors
///
/// [`SynthesisError::ZeroTrees`]; [`SynthesisError::UnequalDirections`] if some link has unequal
/// capacities in its two directions; [`SynthesisError::Unreachable`] if the members are not
/// connected; [`SynthesisError::Overflow`] for more than 2^22 trees, and if numbers leave 128 bits.
pub fn pack_some_spanning_trees(network: &Network, trees: u64) -> Result<SpanningPacking, SynthesisError> {
    if trees == 0 {
        return Err(SynthesisError::ZeroTrees);
    }
    if trees > MOST_TREES {
        return Err(SynthesisError::Overflow { what: "the number of trees" });
    }
    let links = alike_links(network)?;
    let most = most_of(network.members(), &links);
    let mut best: Option<(Quality, Vec<GrownTree>)> = None;
    for step in STEP_COSTS {
        let mut state = GrowingTrees::new(network, &links, trees, step);
        for squarings in SQUARINGS {
            state.regrow(squarings)?;
            let found = state.quality();
            let limited = found.rate(trees) >= most;
            if best.as_ref().is_none_or(|b| found.better_than(&b.0)) {
                best = Some((found, state.trees.clone()));
            }
            // No rate is higher, and the next cost of a step finds trees that are less deep.
            if limited {
                break;
            }
        }
    }
    let (quality, grown) = best.ok_or(SynthesisError::ZeroTrees)?;
    packing(&links, &quality, &grown, trees)
}

/// Returns a rate that no spanning trees exceed: each uses a link of every member, and crosses
/// links once less often than there are members. The unit is that of the capacities of one
/// direction.
///
/// # Errors
///
/// [`SynthesisError::UnequalDirections`] and [`SynthesisError::Unreachable`], as for the trees.
pub fn most_of_spanning_trees(network: &Network) -> Result<f64, SynthesisError> {
    Ok(most_of(network.members(), &alike_links(network)?))
}

fn most_of(members: &[usize], links: &[LinkEnds]) -> f64 {
    let mut of: BTreeMap<usize, u128> = members.iter().map(|&m| (m, 0)).collect();
    for &(u, v, capacity) in links {
        for end in [u, v] {
            of.entry(end).and_modify(|sum| *sum += capacity);
        }
    }
    let narrowest = of.into_values().min().unwrap_or(0) as f64;
    let all = links.iter().map(|l| l.2).sum::<u128>() as f64;
    narrowest.min(all / (members.len() as f64 - 1.0))
}

/// How good a state is.
struct Quality {
    /// Uses of the link that is busiest for its capacity.
    uses: u128,
    /// Its capacity.
    capacity: u128,
    /// Sum of the depths of all trees.
    depth: usize,
}

impl Quality {
    fn rate(&self, trees: u64) -> f64 {
        trees as f64 * self.capacity as f64 / self.uses as f64
    }

    fn better_than(&self, other: &Quality) -> bool {
        match (self.uses * other.capacity).cmp(&(other.uses * self.capacity)) {
            Ordering::Less => true,
            Ordering::Equal => self.depth < other.depth,
            Ordering::Greater => false,
        }
    }
}

/// A tree.
#[derive(Clone, Default)]
struct GrownTree {
    /// Each edge as its nodes, from the member that was in the tree to the one that joined it.
    edges: Vec<Vec<usize>>,
    /// The links of the edges, with repetitions.
    uses: Vec<usize>,
    /// Number of edges on the longest path from the first member.
    depth: usize,
}

/// A price as a key of a heap. Prices are numbers.
#[derive(Clone, Copy, PartialEq)]
struct Price(f64);

impl Eq for Price {}

impl Ord for Price {
    fn cmp(&self, other: &Price) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl PartialOrd for Price {
    fn partial_cmp(&self, other: &Price) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// All trees, and how they use the links.
struct GrowingTrees<'a> {
    members: &'a [usize],
    member: Vec<bool>,
    /// Links of each node: number of the link, other end.
    around: Vec<Vec<(usize, usize)>>,
    capacities: Vec<u128>,
    /// Uses that are expected of a unit of capacity.
    expected: f64,
    step_cost: f64,
    uses: Vec<u64>,
    trees: Vec<GrownTree>,
    /// The routes between members.
    routes: BTreeMap<(usize, usize), Vec<SharedRoute>>,
}

/// A route between two members.
struct SharedRoute {
    nodes: Vec<usize>,
    links: Vec<usize>,
    /// How many trees take it; larger than 0.
    trees: u64,
}

impl SharedRoute {
    /// Whether these are its nodes, from one end or the other.
    fn is(&self, nodes: &[usize]) -> bool {
        self.nodes == nodes || self.nodes.iter().rev().eq(nodes)
    }
}

impl<'a> GrowingTrees<'a> {
    fn new(network: &'a Network, links: &[LinkEnds], trees: u64, step_cost: f64) -> GrowingTrees<'a> {
        let mut around = vec![vec![]; network.nodes()];
        for (i, &(u, v, _)) in links.iter().enumerate() {
            around[u].push((i, v));
            around[v].push((i, u));
        }
        let members = network.members();
        let mut member = vec![false; network.nodes()];
        members.iter().for_each(|&m| member[m] = true);
        GrowingTrees {
            members,
            member,
            around,
            capacities: links.iter().map(|l| l.2).collect(),
            expected: trees as f64 / most_of(members, links),
            step_cost,
            uses: vec![0; links.len()],
            trees: vec![GrownTree::default(); trees as usize],
            routes: BTreeMap::new(),
        }
    }

    /// Grows every tree anew, with other prices.
    fn regrow(&mut self, squarings: u32) -> Result<(), SynthesisError> {
        for t in 0..self.trees.len() {
            let old = std::mem::take(&mut self.trees[t]);
            self.forget(&old);
            let part = (t as f64 * STRIDE).fract();
            let root = self.members[(part * self.members.len() as f64) as usize];
            self.trees[t] = self.grow(root, squarings)?;
        }
        // What the busiest link had to carry is what may be expected of all.
        let quality = self.quality();
        self.expected = quality.uses as f64 / quality.capacity as f64;
        Ok(())
    }

    /// Returns the price of one more use of a link.
    fn price(&self, link: usize, squarings: u32) -> f64 {
        let limit = self.capacities[link] as f64 * self.expected;
        let power = |uses: u64| (0..squarings).fold(uses as f64 / limit, |x, _| x * x);
        let (next, now) = (power(self.uses[link] + 1), power(self.uses[link]));
        if next < LARGEST_PRICE { next - now } else { LARGEST_PRICE }
    }

    /// Grows a tree from a member, and notes what it uses.
    fn grow(&mut self, root: usize, squarings: u32) -> Result<GrownTree, SynthesisError> {
        let nodes = self.around.len();
        let mut prices: Vec<f64> = (0..self.uses.len()).map(|l| self.price(l, squarings)).collect();
        let step = self.step_cost * (prices.iter().sum::<f64>() / prices.len() as f64).min(LARGEST_PRICE);
        let mut tree = GrownTree::default();
        let mut depth: Vec<Option<usize>> = vec![None; nodes];
        depth[root] = Some(0);
        // The members of the tree from which others can be reached.
        let mut inside = vec![root];
        while tree.edges.len() + 1 < self.members.len() {
            inside.retain(|&v| self.around[v].iter().any(|&(_, next)| depth[next].is_none()));
            // The member that is nearest to the tree.
            let mut cost = vec![f64::INFINITY; nodes];
            let mut before: Vec<Option<(usize, usize)>> = vec![None; nodes];
            let mut open = BinaryHeap::new();
            for &v in &inside {
                cost[v] = step * depth[v].unwrap_or(0) as f64;
                open.push(Reverse((Price(cost[v]), v)));
            }
            let mut found = None;
            while let Some(Reverse((Price(at), u))) = open.pop() {
                if at > cost[u] {
                    continue;
                }
                if self.member[u] && depth[u].is_none() {
                    found = Some(u);
                    break;
                }
                for &(link, v) in &self.around[u] {
                    let next = at + prices[link] + step;
                    // Members do not forward for others.
                    if depth[v].is_none() && next < cost[v] {
                        cost[v] = next;
                        before[v] = Some((link, u));
                        open.push(Reverse((Price(next), v)));
                    }
                }
            }
            let Some(far) = found else {
                let to = self.members.iter().copied().find(|&m| depth[m].is_none()).unwrap_or(root);
                return Err(SynthesisError::Unreachable { from: root, to });
            };
            let (mut route, mut links, mut near) = (vec![far], vec![], far);
            while let Some((link, u)) = before[near] {
                links.push(link);
                route.push(u);
                near = u;
            }
            route.reverse();
            let (route, links) = self.shared_route(route, links, &prices);
            for &link in &links {
                self.uses[link] += 1;
                prices[link] = self.price(link, squarings);
            }
            tree.uses.extend(links);
            let deep = depth[near].unwrap_or(0) + 1;
            depth[far] = Some(deep);
            tree.depth = tree.depth.max(deep);
            tree.edges.push(route);
            inside.push(far);
        }
        Ok(tree)
    }

    /// Returns a route between the ends of a route that was found, and its links, and notes that
    /// one more tree takes it: one that other trees take, if the found one is not much cheaper.
    fn shared_route(
        &mut self,
        nodes: Vec<usize>,
        links: Vec<usize>,
        prices: &[f64],
    ) -> (Vec<usize>, Vec<usize>) {
        let near = nodes[0];
        let price = |links: &[usize]| links.iter().map(|&l| prices[l]).sum::<f64>();
        let known = self.routes.entry(ends(&nodes)).or_default();
        let cheapest = (0..known.len()).map(|i| (Price(price(&known[i].links)), i)).min_by_key(|c| c.0);
        let at = match cheapest {
            Some((Price(least), at)) if least <= MUCH_CHEAPER * price(&links) => at,
            _ => {
                let same = known.iter().position(|r| r.is(&nodes));
                same.unwrap_or_else(|| {
                    known.push(SharedRoute { nodes, links, trees: 0 });
                    known.len() - 1
                })
            }
        };
        known[at].trees += 1;
        let (mut nodes, links) = (known[at].nodes.clone(), known[at].links.clone());
        if nodes[0] != near {
            nodes.reverse();
        }
        (nodes, links)
    }

    /// Notes that a tree no longer takes its routes.
    fn forget(&mut self, tree: &GrownTree) {
        tree.uses.iter().for_each(|&link| self.uses[link] -= 1);
        for route in &tree.edges {
            let pair = ends(route);
            if let Some(known) = self.routes.get_mut(&pair) {
                known.iter_mut().filter(|r| r.is(route)).for_each(|r| r.trees -= 1);
                known.retain(|r| r.trees > 0);
            }
        }
    }

    fn quality(&self) -> Quality {
        let depth = self.trees.iter().map(|t| t.depth).sum();
        let links = self.uses.iter().map(|&n| u128::from(n)).zip(self.capacities.iter().copied());
        let busiest = links.max_by(|a, b| (a.0 * b.1).cmp(&(b.0 * a.1)));
        let (uses, capacity) = busiest.unwrap_or((0, 1));
        Quality { uses, capacity, depth }
    }
}

/// Returns the ends of a route, the smaller one first.
fn ends(route: &[usize]) -> (usize, usize) {
    let (near, far) = (route[0], route[route.len() - 1]);
    (near.min(far), near.max(far))
}

/// Returns the trees from their centres, with their rate and loads.
fn packing(
    links: &[LinkEnds],
    busiest: &Quality,
    grown: &[GrownTree],
    trees: u64,
) -> Result<SpanningPacking, SynthesisError> {
    let what = "the number of trees";
    let number = u128::from(trees);
    let carried = number.checked_mul(busiest.capacity).and_then(|all| ExactRatio::new(all, busiest.uses));
    let (rate, scale) = (carried, ExactRatio::new(busiest.uses, busiest.capacity));
    let (Some(rate), Some(scale)) = (rate, scale) else { return Err(SynthesisError::Overflow { what }) };
    // Trees of one shape are one class.
    let mut classes: BTreeMap<(usize, Vec<SpanningEdge>), u128> = BTreeMap::new();
    for tree in grown {
        let edges = tree.edges.iter().filter_map(|route| edge(route)).collect();
        *classes.entry(centred(edges)).or_insert(0) += 1;
    }
    let class = |((centre, edges), trees)| SpanningClass { centre, trees, edges };
    let classes: Vec<SpanningClass> = classes.into_iter().map(class).collect();
    let loads = link_loads(links, &classes, scale).ok_or(SynthesisError::Overflow { what })?;
    Ok(SpanningPacking { trees: number, scale, rate, proof: None, classes, loads })
}

/// Returns the edge with a route from its nearer end.
fn edge(route: &[usize]) -> Option<SpanningEdge> {
    let (&near, rest) = route.split_first()?;
    let (&far, through) = rest.split_last()?;
    Some(SpanningEdge { near, far, through: through.to_vec() })
}
