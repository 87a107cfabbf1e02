//! Which transfers of an algorithm are on which stream of a rank, as far as rounds tell.
//!
//! Statements side by side (`together`) of different form run on streams of their own, those of the same form in lockstep on
//! one (`expand`, which sees the statements). Here the form of a branch is how many rounds each of its uses has
//! transfers in. Owns this guess; it counts where a stream is a core.

use kbc_diag::Span;
use kbc_rounds::Rounds;
use std::collections::{BTreeMap, BTreeSet};

/// Of each lane of the rounds the stream it is on, from 0.
pub(super) fn streams(rounds: &Rounds) -> Vec<u32> {
    let lanes = &rounds.lanes;
    // The branch of the outermost statement that a lane belongs to.
    let outermost = |mut lane: usize| {
        while let Some(l) = lanes.get(lane).filter(|l| l.parent != 0 && l.parent as usize != lane) {
            lane = l.parent as usize;
        }
        lane
    };
    let tops: Vec<usize> = (0..lanes.len()).map(outermost).collect();
    // Of each outermost branch its uses in order, with in how many rounds each has transfers.
    let mut forms: BTreeMap<usize, Vec<(u32, BTreeSet<u32>)>> = BTreeMap::new();
    for (round, x) in rounds.transfers() {
        let top = tops.get(x.lane as usize).copied().unwrap_or(0);
        let form = forms.entry(top).or_default();
        match form.iter_mut().find(|u| u.0 == x.site) {
            Some(known) => {
                known.1.insert(round);
            }
            None => form.push((x.site, BTreeSet::from([round]))),
        }
    }
    let lengths = |top: &usize| forms.get(top).map(|f| f.iter().map(|u| u.1.len()).collect::<Vec<_>>());
    let mut groups: BTreeMap<Span, Vec<usize>> = BTreeMap::new();
    for &top in tops.iter().filter(|t| **t != 0) {
        let group = groups.entry(lanes[top].span).or_default();
        if !group.contains(&top) {
            group.push(top);
        }
    }
    let mut stream: BTreeMap<usize, u32> = BTreeMap::new();
    for group in groups.values() {
        if group.iter().any(|t| lengths(t) != lengths(&group[0])) {
            stream.extend(group.iter().copied().zip(0..));
        }
    }
    tops.iter().map(|t| stream.get(t).copied().unwrap_or(0)).collect()
}
