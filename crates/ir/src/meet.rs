//! Members of groups that meet in the order in which each issues its collectives.
//!
//! Owns three questions about such sequences, whatever the programs are: where the members of one group first differ, in what
//! order all groups can meet, and who waits for whom where they cannot. What is said about the answers is the caller's.

/// The first difference between the sequences of a group's members.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Difference<T> {
    /// Member `most` issues its number `step`, and `other` never does.
    Never {
        /// The member with most collectives.
        most: usize,
        /// Which of them.
        step: usize,
        /// The member that lacks it.
        other: usize,
    },
    /// At number `step` both issue one, and not the same.
    Another {
        /// The member with most collectives.
        most: usize,
        /// Which of them.
        step: usize,
        /// The member that issues another.
        other: usize,
    },
    /// What the caller found about a number at which all issue the same.
    At(T),
}

/// The first difference between sequences, one a member. `agrees` is asked about every number at which all are equal.
pub fn first_difference<S: PartialEq, T>(
    all: &[Vec<S>],
    mut agrees: impl FnMut(usize) -> Option<T>,
) -> Option<Difference<T>> {
    // The member with most is the measure: a missing one is the likelier mistake than one too many.
    let most = (0..all.len()).max_by_key(|k| (all[*k].len(), usize::MAX - k))?;
    for step in 0..all[most].len() {
        for (other, list) in all.iter().enumerate() {
            let (want, got) = (all[most].get(step), list.get(step));
            let next = got.is_some() && all[most].get(step + 1) == got && list.len() < all[most].len();
            if got.is_none() || (got != want && next) {
                return Some(Difference::Never { most, step, other });
            }
            if got != want {
                return Some(Difference::Another { most, step, other });
            }
        }
        if let Some(found) = agrees(step) {
            return Some(Difference::At(found));
        }
    }
    None
}

/// Why not all collectives meet: each of these waits for the next, the last for the first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Circle {
    /// Programs in that order.
    pub programs: Vec<usize>,
    /// For each program the number of the collective it has come to.
    pub next: Vec<usize>,
}

/// The groups in an order in which they can meet: `members[g]` are the programs of group g, sorted; `issues[i]` the groups
/// whose collectives program i issues, in order. Sequences of one group have equal length.
///
/// # Errors
/// A circle.
pub fn meet(members: &[Vec<usize>], issues: &[Vec<usize>]) -> Result<Vec<usize>, Circle> {
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
    // Every stuck program waits for a member whose next collective is of another group: going on leads into a circle.
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
    Err(Circle { programs: path, next })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(all: &[&[u32]]) -> Option<Difference<()>> {
        let all: Vec<Vec<u32>> = all.iter().map(|l| l.to_vec()).collect();
        first_difference(&all, |_| None)
    }

    #[test]
    fn a_missing_one_is_told_from_another_one() {
        assert_eq!(first(&[&[1, 2], &[1, 2]]), None);
        assert_eq!(first(&[&[1, 2], &[1]]), Some(Difference::Never { most: 0, step: 1, other: 1 }));
        // The second lacks the first's 1: what it issues is the first's next one.
        assert_eq!(first(&[&[1, 2], &[2]]), Some(Difference::Never { most: 0, step: 0, other: 1 }));
        assert_eq!(first(&[&[1, 2], &[3, 2]]), Some(Difference::Another { most: 0, step: 0, other: 1 }));
    }

    #[test]
    fn groups_meet_or_wait_in_a_circle() {
        let members = [vec![0, 1], vec![1, 2]];
        assert_eq!(meet(&members, &[vec![0], vec![0, 1], vec![1]]), Ok(vec![0, 1]));
        // Program 0 waits in group 0 for 1, which waits in group 1 for 0.
        let members = [vec![0, 1], vec![0, 1]];
        let circle = meet(&members, &[vec![0, 1], vec![1, 0]]).unwrap_err();
        assert_eq!(circle, Circle { programs: vec![0, 1], next: vec![0, 0] });
    }
}
