//! Orders: the messages of trees as jobs that need one another, cut in pieces.
//!
//! All pieces of a tree have the same jobs, so a tree is stored once, as a template.

use crate::error::SynthesisError;
use crate::moves::{EdgeTiming, PieceMove};
use std::collections::BTreeMap;

/// A job of a tree: one message for each piece of the tree.
#[derive(Clone)]
pub(crate) struct TreeJob {
    /// The message; its piece is the number of the tree among those of its root.
    pub moved: PieceMove,
    /// Number of the route.
    pub route: usize,
    /// Jobs of the tree that it needs.
    pub needs: Vec<usize>,
    /// Jobs of the tree that need it.
    pub next: Vec<usize>,
}

/// The jobs of a tree in the making. A job needs what has come to its sender.
pub(crate) struct TreeJobs {
    /// Each message, its route and the jobs before it that it needs.
    pub list: Vec<(PieceMove, usize, Vec<usize>)>,
    /// The jobs that have come to each member.
    came: Vec<Vec<usize>>,
}

impl TreeJobs {
    /// Returns no jobs of a tree over nodes `0..nodes`.
    pub fn new(nodes: usize) -> TreeJobs {
        TreeJobs { list: vec![], came: vec![vec![]; nodes] }
    }

    /// Adds a message and its route.
    pub fn push(&mut self, moved: PieceMove, route: usize) {
        let needs = self.came.get(moved.from).cloned().unwrap_or_default();
        if self.came.len() <= moved.to {
            self.came.resize(moved.to + 1, vec![]);
        }
        self.came[moved.to].push(self.list.len());
        self.list.push((moved, route, needs));
    }

    /// Forgets what came to members other than the root: what follows comes from the root again.
    pub fn meet(&mut self, root: usize) {
        self.came.iter_mut().enumerate().filter(|c| c.0 != root).for_each(|c| c.1.clear());
    }
}

/// Trees with their jobs, and the edges that carry them.
#[derive(Clone)]
pub(crate) struct Orders {
    /// Times of the edges.
    pub edges: Vec<EdgeTiming>,
    /// Edges of each route.
    pub routes: Vec<Vec<usize>>,
    /// Jobs of each tree. A job comes after those that it needs.
    pub trees: Vec<Vec<TreeJob>>,
    /// Pieces of each tree.
    pub cuts: usize,
    /// Number of the first job of each tree; the last entry is the number of all jobs.
    first: Vec<usize>,
    /// Bytes of a piece.
    bytes: f64,
    number: BTreeMap<(usize, usize), usize>,
    known: BTreeMap<Vec<usize>, usize>,
    /// The route that is each edge alone.
    direct: Vec<Option<usize>>,
}

/// A job of one piece, as its place in a tree.
#[derive(Clone, Copy)]
pub(crate) struct JobPlace {
    pub tree: usize,
    pub cut: usize,
    pub job: usize,
}

impl Orders {
    /// Returns orders without trees.
    pub fn new(edges: &[EdgeTiming]) -> Orders {
        let number = edges.iter().enumerate().map(|(i, e)| ((e.from, e.to), i)).collect();
        Orders {
            edges: edges.to_vec(),
            routes: vec![],
            trees: vec![],
            cuts: 1,
            first: vec![0],
            bytes: 0.0,
            number,
            known: BTreeMap::new(),
            direct: vec![None; edges.len()],
        }
    }

    /// Returns the number of a route of the network, from sender to receiver.
    pub fn route(&mut self, nodes: &[usize]) -> Result<usize, SynthesisError> {
        let missing = SynthesisError::Inconsistent { step: "the rounds" };
        let hop = |w: &[usize]| self.number.get(&(w[0], w[1])).copied();
        let hops: Vec<usize> = nodes.windows(2).map(hop).collect::<Option<_>>().ok_or(missing)?;
        if hops.is_empty() {
            return Err(missing);
        }
        let next = self.routes.len();
        let at = *self.known.entry(hops.clone()).or_insert(next);
        if let [edge] = hops[..] {
            self.direct[edge] = Some(at);
        }
        if at == next {
            self.routes.push(hops);
        }
        Ok(at)
    }

    /// Returns the nodes of every route, from sender to receiver.
    pub fn nodes(&self) -> Vec<Vec<usize>> {
        let nodes = |route: &Vec<usize>| {
            let first = route.first().map(|&e| self.edges[e].from);
            first.into_iter().chain(route.iter().map(|&e| self.edges[e].to)).collect()
        };
        self.routes.iter().map(nodes).collect()
    }

    /// Returns the number of the route that is one edge.
    pub fn edge(&mut self, from: usize, to: usize) -> Result<usize, SynthesisError> {
        match self.number.get(&(from, to)).and_then(|&e| self.direct[e]) {
            Some(route) => Ok(route),
            None => self.route(&[from, to]),
        }
    }

    /// Adds a tree. Each job is a message, its route and the jobs before it that it needs.
    pub fn add(&mut self, jobs: Vec<(PieceMove, usize, Vec<usize>)>) {
        let mut tree: Vec<TreeJob> = Vec::with_capacity(jobs.len());
        for (moved, route, needs) in jobs {
            for &n in &needs {
                let at = tree.len();
                tree[n].next.push(at);
            }
            tree.push(TreeJob { moved: PieceMove { route, ..moved }, route, needs, next: vec![] });
        }
        self.trees.push(tree);
    }

    /// Returns the orders for which time runs backwards: a job needs those that need it here, and
    /// routes lead back. Jobs of a tree are numbered from the last to the first.
    pub fn mirrored(&self) -> Orders {
        let mirror = |tree: &Vec<TreeJob>| {
            let back = |jobs: &[usize]| jobs.iter().map(|j| tree.len() - 1 - j).collect();
            let job = |j: &TreeJob| TreeJob { needs: back(&j.next), next: back(&j.needs), ..j.clone() };
            tree.iter().rev().map(job).collect()
        };
        Orders {
            routes: self.routes.iter().map(|r| r.iter().rev().copied().collect()).collect(),
            trees: self.trees.iter().map(mirror).collect(),
            ..self.clone()
        }
    }

    /// Returns the number here of a job of the mirrored orders.
    pub fn mirror_of(&self, p: JobPlace) -> usize {
        self.at(p, self.trees[p.tree].len() - 1 - p.job)
    }

    /// Cuts every tree in pieces of the given length.
    pub fn cut(&mut self, cuts: usize, bytes: f64) {
        (self.cuts, self.bytes) = (cuts, bytes);
        self.first = vec![0];
        let mut sum = 0;
        for tree in &self.trees {
            sum += tree.len() * cuts;
            self.first.push(sum);
        }
    }

    /// Returns a number that is larger than that of every member that sends or receives.
    pub fn members(&self) -> usize {
        self.trees.iter().flatten().map(|j| j.moved.from.max(j.moved.to) + 1).max().unwrap_or(0)
    }

    /// Returns the number of jobs.
    pub fn jobs(&self) -> usize {
        self.first.last().copied().unwrap_or(0)
    }

    /// Returns the place of every job.
    pub fn places(&self) -> Vec<JobPlace> {
        let mut places = Vec::with_capacity(self.jobs());
        for (tree, jobs) in self.trees.iter().enumerate() {
            for cut in 0..self.cuts {
                places.extend((0..jobs.len()).map(|job| JobPlace { tree, cut, job }));
            }
        }
        places
    }

    /// Returns the number of another job of the same piece.
    pub fn at(&self, p: JobPlace, job: usize) -> usize {
        self.first[p.tree] + p.cut * self.trees[p.tree].len() + job
    }

    /// Returns the job at a place.
    pub fn job(&self, p: JobPlace) -> &TreeJob {
        &self.trees[p.tree][p.job]
    }

    /// Returns the message of a job.
    pub fn message(&self, p: JobPlace) -> PieceMove {
        let moved = self.job(p).moved;
        PieceMove { piece: moved.piece * self.cuts as u64 + p.cut as u64, ..moved }
    }

    /// Returns for how long a piece occupies an edge.
    pub fn occupied(&self, edge: usize) -> f64 {
        self.bytes * self.edges[edge].ns_per_byte
    }

    /// Returns the time of the busiest edge. No order is faster.
    pub fn busiest(&self) -> f64 {
        let mut pieces = vec![0usize; self.edges.len()];
        for job in self.trees.iter().flatten() {
            self.routes[job.route].iter().for_each(|&e| pieces[e] += self.cuts);
        }
        pieces.iter().enumerate().map(|(e, &n)| n as f64 * self.occupied(e)).fold(0.0, f64::max)
    }
}
