//! Streams of an algorithm: an estimate, from its rounds, of the stream on which each transfer
//! runs.
//!
//! `expand` puts concurrent branches (`together`) of different form on streams of their own, and
//! branches of the same form in lockstep on one stream. It sees the statements. This module sees
//! only rounds, so it takes as the form of a branch the number of rounds in which each of its uses
//! has transfers. The estimate matters on machines where a stream is a core.

use kbc_diag::Span;
use kbc_rounds::Rounds;
use std::collections::{BTreeMap, BTreeSet};

/// Returns for each lane of the rounds the stream on which it runs, counted from 0.
pub(super) fn streams(rounds: &Rounds) -> Vec<u32> {
    let lanes = &rounds.lanes;
    // Finds the branch of the outermost `together` statement to which a lane belongs.
    let outermost = |mut lane: usize| {
        while let Some(l) = lanes.get(lane).filter(|l| l.parent != 0 && l.parent as usize != lane) {
            lane = l.parent as usize;
        }
        lane
    };
    let tops: Vec<usize> = (0..lanes.len()).map(outermost).collect();
    // For each outermost branch, its uses in order, and the rounds in which each use has transfers.
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
