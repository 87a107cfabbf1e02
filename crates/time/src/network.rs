//! Messages that switches combine or copy (`switch: reduce, multicast`): which of them belong
//! together, and what they share of their routes.
//!
//! Puts of one stream that send the same elements at the same moment are the *copies* of one
//! message. Two of them pass the links that their routes have in common once, up to the last switch
//! on these links.
//!
//! Gets that one stream issues at the same moment, and that are combined into the same elements,
//! are *contributions* to one message. Contributions that arrive at one switch and have the same
//! links ahead of them wait there for each other, and go on as one message.
//!
//! [`super::engine`] asks this module at each link that such a message requests.

use super::clock::Time;
use super::links::Passage;
use kbc_ir::types::ReduceOp;
use kbc_ir::walk::Access;
use kbc_machine::topology::{DeviceId, LinkId, Switching, Topology, WayOfMessage};
use std::collections::BTreeMap;

/// Which messages of a machine share links, and those that are under way.
#[derive(Clone, Debug)]
pub(super) struct Network {
    switching: Switching,
    /// For each thread: the groups that its next put may belong to.
    puts: Vec<Vec<Open>>,
    /// For each thread: the group that its next get may belong to.
    gets: Vec<Option<Open>>,
    /// Groups of messages under way, by number.
    groups: BTreeMap<u32, Group>,
    next: u32,
    /// For each message that belongs to a group: the group and its number there.
    members: BTreeMap<u32, (u32, u32)>,
    /// The same for requests, whose answers belong to a group.
    asked: BTreeMap<u32, (u32, u32)>,
    /// For each message: those that have gone on as part of it.
    parts: BTreeMap<u32, Vec<u32>>,
}

/// A group that the next operation of a thread may belong to.
#[derive(Clone, Copy, Debug)]
struct Open {
    /// The elements that puts send, or that gets write.
    elements: Access,
    at: Time,
    group: u32,
    /// The combiner of gets, once one of them combines.
    combiner: Option<ReduceOp>,
}

/// Messages that belong together.
#[derive(Clone, Debug)]
struct Group {
    /// Number of messages that are not delivered yet.
    left: u32,
    kind: GroupKind,
}

#[derive(Clone, Debug)]
enum GroupKind {
    Copies(Vec<Copied>),
    Contributions {
        routes: Vec<Vec<LinkId>>,
        /// Filled in when the first of them leaves.
        meetings: Option<Meetings>,
        /// Whether the first message that arrives is combined into what is there.
        combines: bool,
    },
}

/// A copy of a message.
#[derive(Clone, Debug)]
struct Copied {
    links: Vec<LinkId>,
    /// The copy with which it shares links, and how many of them.
    shares: (u32, usize),
    /// For each link that it has passed: when it requested the link, and its passage.
    passed: Vec<(Time, Passage)>,
}

/// The places at which contributions meet.
#[derive(Clone, Debug)]
struct Meetings {
    /// For each contribution and each link of its route: the meeting before that link.
    at: Vec<Vec<Option<u32>>>,
    /// For each contribution the number of links that it has passed.
    passed: Vec<usize>,
    list: Vec<Meeting>,
}

/// A switch at which several contributions wait for each other.
#[derive(Clone, Default, Debug)]
struct Meeting {
    /// Number of contributions that have not come yet.
    missing: u32,
    /// When the last byte of all that have come is there.
    tail: Time,
    /// The messages that have come.
    here: Vec<u32>,
}

/// What happens to a message that requests a link.
pub(super) enum Request {
    /// It passes the link with its tail so far behind its head.
    Passes(Time),
    /// A copy of it has passed the link, which is the first one of its route or a later one.
    HasPassed { passage: Passage, first: bool },
    /// It waits in the switch for the messages with which it is combined.
    Waits,
}

impl Network {
    /// Returns the shared messages of a machine. None if its switches only forward.
    pub(super) fn new(topo: &Topology, threads: usize) -> Option<Network> {
        let switching = topo.settings().switching();
        (!switching.only_forwards()).then(|| Network {
            switching,
            puts: vec![vec![]; threads],
            gets: vec![None; threads],
            groups: BTreeMap::new(),
            next: 0,
            members: BTreeMap::new(),
            asked: BTreeMap::new(),
            parts: BTreeMap::new(),
        })
    }

    /// Notes that a thread may write its memory, so that its next put begins a new group.
    pub(super) fn writes(&mut self, thread: u32) {
        self.puts[thread as usize].clear();
    }

    /// Notes that a thread does something after which its gets begin new groups.
    pub(super) fn closes(&mut self, thread: u32) {
        self.gets[thread as usize] = None;
    }

    /// Returns the group that a get of a thread with a combiner belongs to now, if there is one. No
    /// answer may have left, because what meets where is known from then on.
    fn joined(&self, thread: u32, elements: &Access, now: Time, combiner: ReduceOp) -> Option<u32> {
        let open = self.gets[thread as usize].filter(|o| o.at == now && o.elements == *elements)?;
        let waits =
            matches!(self.groups.get(&open.group)?.kind, GroupKind::Contributions { meetings: None, .. });
        (waits && open.combiner.is_none_or(|c| c == combiner)).then_some(open.group)
    }

    fn opens(&mut self, kind: GroupKind) -> u32 {
        let group = self.next;
        self.next += 1;
        self.groups.insert(group, Group { left: 0, kind });
        group
    }

    fn adds(&mut self, group: u32, message: u32, number: usize) {
        if let Some(g) = self.groups.get_mut(&group) {
            g.left += 1;
            self.members.insert(message, (group, number as u32));
        }
    }

    /// Adds a put that a thread has issued, which goes by `links`.
    pub(super) fn put(
        &mut self,
        topo: &Topology,
        thread: u32,
        (elements, now): (Access, Time),
        message: u32,
        links: Vec<LinkId>,
    ) {
        if !self.switching.multicast || links.is_empty() {
            return;
        }
        let open = &mut self.puts[thread as usize];
        open.retain(|o| o.at == now);
        let found = open.iter().find(|o| o.elements == elements).map(|o| o.group);
        let group = match found.filter(|g| self.groups.contains_key(g)) {
            Some(group) => group,
            None => {
                let group = self.opens(GroupKind::Copies(vec![]));
                let open = &mut self.puts[thread as usize];
                open.retain(|o| o.elements != elements);
                open.push(Open { elements, at: now, group, combiner: None });
                group
            }
        };
        let Some(Group { kind: GroupKind::Copies(list), .. }) = self.groups.get_mut(&group) else { return };
        let mut shares = (0, 0);
        for (i, other) in list.iter().enumerate() {
            let common = links.iter().zip(&other.links).take_while(|(a, b)| a == b).count();
            let copied = links[..common].iter().rposition(|l| topo.ends_at_switch(*l)).map_or(0, |at| at + 1);
            if copied > shares.1 {
                shares = (i as u32, copied);
            }
        }
        let number = list.len();
        list.push(Copied { links, shares, passed: vec![] });
        self.adds(group, message, number);
    }

    /// Checks whether a get that combines into `elements` may leave beside the `under_way` gets of
    /// its thread that are under way, as a contribution to the same message.
    pub(super) fn contributes(
        &self,
        thread: u32,
        (elements, now): (&Access, Time),
        combiner: ReduceOp,
        under_way: u32,
    ) -> bool {
        let group = self.joined(thread, elements, now, combiner).and_then(|g| self.groups.get(&g));
        group.is_some_and(|g| g.left == under_way)
    }

    /// Adds a get that a thread has issued, whose data comes by `links`. `combiner` is that of a
    /// get that is combined into what is there.
    pub(super) fn get(
        &mut self,
        thread: u32,
        (elements, now): (Access, Time),
        (message, combiner): (u32, Option<ReduceOp>),
        links: Vec<LinkId>,
    ) {
        if !self.switching.reduce {
            return;
        }
        let found = combiner.and_then(|c| self.joined(thread, &elements, now, c));
        let group = found.unwrap_or_else(|| {
            let combines = combiner.is_some();
            self.opens(GroupKind::Contributions { routes: vec![], meetings: None, combines })
        });
        self.gets[thread as usize] = Some(Open { elements, at: now, group, combiner });
        let Some(Group { kind: GroupKind::Contributions { routes, .. }, .. }) = self.groups.get_mut(&group)
        else {
            return;
        };
        let number = routes.len() as u32;
        routes.push(links);
        if let Some(g) = self.groups.get_mut(&group) {
            g.left += 1;
            self.asked.insert(message, (group, number));
        }
    }

    /// Notes that a message is the answer to the request of a member.
    pub(super) fn answers(&mut self, topo: &Topology, message: u32, member: (u32, u32)) {
        self.members.insert(message, member);
        let Some(Group { kind: GroupKind::Contributions { routes, meetings, .. }, .. }) =
            self.groups.get_mut(&member.0)
        else {
            return;
        };
        meetings.get_or_insert_with(|| Meetings::of(topo, routes));
    }

    /// Notes that a request is delivered. Returns the group and the number there of its answer.
    pub(super) fn asks(&mut self, request: u32) -> Option<(u32, u32)> {
        self.asked.remove(&request)
    }

    /// Returns what happens to a message that requests a link at `now` with its tail `lag` behind
    /// its head.
    pub(super) fn requests(&mut self, message: u32, now: Time, lag: Time) -> Request {
        let Some((group, number)) = self.members.get(&message).copied() else { return Request::Passes(lag) };
        match self.groups.get_mut(&group).map(|g| &mut g.kind) {
            Some(GroupKind::Copies(list)) => {
                let own = &list[number as usize];
                let (hop, (other, shared)) = (own.passed.len(), own.shares);
                let before = list[other as usize].passed.get(hop).filter(|_| hop < shared);
                match before.filter(|(at, _)| *at == now) {
                    Some((_, passage)) => {
                        let passage = *passage;
                        list[number as usize].passed.push((now, passage));
                        Request::HasPassed { passage, first: hop == 0 }
                    }
                    None => Request::Passes(lag),
                }
            }
            Some(GroupKind::Contributions { meetings: Some(meetings), .. }) => {
                let hop = &mut meetings.passed[number as usize];
                let meeting = meetings.at[number as usize].get(*hop).copied().flatten();
                *hop += 1;
                let Some(meeting) = meeting.map(|m| &mut meetings.list[m as usize]) else {
                    return Request::Passes(lag);
                };
                meeting.missing -= 1;
                meeting.tail = meeting.tail.max(now + lag);
                if meeting.missing > 0 {
                    meeting.here.push(message);
                    return Request::Waits;
                }
                let lag = meeting.tail.since(now);
                let here = std::mem::take(&mut meeting.here);
                self.parts.entry(message).or_default().extend(here);
                Request::Passes(lag)
            }
            Some(GroupKind::Contributions { meetings: None, .. }) | None => Request::Passes(lag),
        }
    }

    /// Notes the passage of a message over a link that it requested at `at`.
    pub(super) fn passes(&mut self, message: u32, at: Time, passage: Passage) {
        let Some((group, number)) = self.members.get(&message) else { return };
        if let Some(Group { kind: GroupKind::Copies(list), .. }) = self.groups.get_mut(group) {
            list[*number as usize].passed.push((at, passage));
        }
    }

    /// Notes that a message is delivered. Returns the messages that were part of it, and whether
    /// it has to be combined with what is there. None if it belongs to no group.
    pub(super) fn delivers(&mut self, message: u32) -> Option<(Vec<u32>, bool)> {
        let (group, _) = self.members.remove(&message)?;
        let mut parts = vec![];
        let mut more = self.parts.remove(&message).unwrap_or_default();
        while let Some(part) = more.pop() {
            self.members.remove(&part);
            more.extend(self.parts.remove(&part).unwrap_or_default());
            parts.push(part);
        }
        parts.sort_unstable();
        let g = self.groups.get_mut(&group)?;
        g.left -= 1 + parts.len() as u32;
        let adds = match &mut g.kind {
            GroupKind::Contributions { combines, .. } => std::mem::replace(combines, true),
            GroupKind::Copies(_) => false,
        };
        if g.left == 0 {
            self.groups.remove(&group);
        }
        Some((parts, adds))
    }
}

impl Meetings {
    /// Finds out where routes to one destination meet: before the links that start at a switch, and
    /// from which on they are the same.
    fn of(topo: &Topology, routes: &[Vec<LinkId>]) -> Meetings {
        let mut ways: BTreeMap<&[LinkId], Vec<(usize, usize)>> = BTreeMap::new();
        for (i, route) in routes.iter().enumerate() {
            for hop in (0..route.len()).filter(|h| *h > 0 && topo.ends_at_switch(route[h - 1])) {
                ways.entry(&route[hop..]).or_default().push((i, hop));
            }
        }
        let mut at: Vec<Vec<Option<u32>>> = routes.iter().map(|r| vec![None; r.len()]).collect();
        let mut list = vec![];
        // Those that meet farther from the destination come first.
        let mut ways: Vec<_> = ways.into_iter().collect();
        ways.sort_by_key(|(rest, _)| std::cmp::Reverse(rest.len()));
        for (_, who) in ways {
            // Contributions that have met before come as one message.
            let before = |&(i, hop): &(usize, usize)| (1..hop).rev().find_map(|h| at[i][h]);
            let mut comes: Vec<Option<u32>> = who.iter().map(before).collect();
            comes.sort_unstable();
            let alone = comes.iter().filter(|c| c.is_none()).count();
            comes.retain(Option::is_some);
            comes.dedup();
            let missing = (alone + comes.len()) as u32;
            if missing > 1 {
                who.iter().for_each(|&(i, hop)| at[i][hop] = Some(list.len() as u32));
                list.push(Meeting { missing, ..Meeting::default() });
            }
        }
        Meetings { at, passed: vec![0; routes.len()], list }
    }
}

/// Returns the links between two devices.
pub(super) fn links(topo: &Topology, from: DeviceId, to: DeviceId, way: WayOfMessage<'_>) -> Vec<LinkId> {
    topo.route(from, to, way).collect()
}
