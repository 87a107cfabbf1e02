//! Matching of collectives: orders those that the members of groups issue one after another.
//!
//! The module answers three questions about such sequences, for programs of any kind: where the
//! members of one group first differ, in which order all groups can meet, and which members wait
//! for each other if they cannot. The caller turns the answers into diagnostics.

/// First difference between the sequences of a group's members. Numbers start at 0.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SequenceDifference<T> {
    /// Member `most` issues its collective number `step`, and `other` never does.
    Never {
        /// Member with the most collectives.
        most: usize,
        /// Number of the collective.
        step: usize,
        /// Member that lacks it.
        other: usize,
    },
    /// Both members issue a collective number `step`, but not the same one.
    Another {
        /// Member with the most collectives.
        most: usize,
        /// Number of the collective.
        step: usize,
        /// Member that issues a different one.
        other: usize,
    },
    /// Result of the caller's check, at a step at which all members issue the same collective.
    At(T),
}

/// Returns the first difference between sequences, one per member. `agrees` is called for every
/// step at which all members issue the same collective, and may return a difference of its own.
pub fn first_difference<S: PartialEq, T>(
    all: &[Vec<S>],
    mut agrees: impl FnMut(usize) -> Option<T>,
) -> Option<SequenceDifference<T>> {
    // The longest sequence is the reference: a missing collective is a likelier mistake than a
    // superfluous one.
    let most = (0..all.len()).max_by_key(|k| (all[*k].len(), usize::MAX - k))?;
    for step in 0..all[most].len() {
        for (other, list) in all.iter().enumerate() {
            let (want, got) = (all[most].get(step), list.get(step));
            let next = got.is_some() && all[most].get(step + 1) == got && list.len() < all[most].len();
            if got.is_none() || (got != want && next) {
                return Some(SequenceDifference::Never { most, step, other });
            }
            if got != want {
                return Some(SequenceDifference::Another { most, step, other });
            }
        }
        if let Some(found) = agrees(step) {
            return Some(SequenceDifference::At(found));
        }
    }
    None
}

/// A circular wait, because of which not all collectives can meet: each program waits for the next,
/// and the last for the first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CircularWait {
    /// Programs of the circle, in that order.
    pub programs: Vec<usize>,
    /// For each program, the number of the collective that it has reached.
    pub next: Vec<usize>,
}

/// Returns the groups in an order in which they can meet, each as often as its members issue its
/// collectives. `members[g]` are the programs of group g, sorted. `issues[i]` are the groups whose
/// collectives program i issues, in order. The members of a group must issue its collectives
/// equally often.
///
/// # Errors
/// Returns a circular wait if not all collectives can meet.
pub fn match_collectives(members: &[Vec<usize>], issues: &[Vec<usize>]) -> Result<Vec<usize>, CircularWait> {
    let mut next = vec![0; issues.len()];
    let mut arrived = vec![0; members.len()];
    let mut ready = vec![];
    let mut out = vec![];
    let mut come = |i: usize, next: &[usize], ready: &mut Vec<usize>| {
        if let Some(&g) = issues[i].get(next[i]) {
            arrived[g] += 1;
            if arrived[g] == members[g].len() {
                arrived[g] = 0;
                ready.push(g);
            }
        }
    };
    for i in 0..issues.len() {
        come(i, &next, &mut ready);
    }
    while let Some(g) = ready.pop() {
        out.push(g);
        for i in &members[g] {
            next[*i] += 1;
        }
        for i in &members[g] {
            come(*i, &next, &mut ready);
        }
    }
    let Some(start) = (0..issues.len()).find(|i| next[*i] < issues[*i].len()) else { return Ok(out) };
    // Every blocked program waits for a member whose next collective belongs to another group, so
    // following these members ends in a circle.
    let mut path = vec![start];
    loop {
        let i = path[path.len() - 1];
        let g = issues[i][next[i]];
        let Some(j) = members[g].iter().copied().find(|j| issues[*j].get(next[*j]) != Some(&g)) else {
            break;
        };
        if let Some(k) = path.iter().position(|x| *x == j) {
            path.drain(..k);
            break;
        }
        if next[j] == issues[j].len() {
            break;
        }
        path.push(j);
    }
    Err(CircularWait { programs: path, next })
}
