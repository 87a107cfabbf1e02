//! The tables of a packed algorithm, which take the place of the functions of
//! `specs/lib/packed.kb`.

use super::network::MachineNetwork;
use super::phase::{OrderedPhase, PackedCollective, PackedRequest};
use kbc_diag::{FileId, Span};
use kbc_machine::topology::Topology;
use kbc_rounds::ast::{Expr, ExprKind, FnBody, FnDecl, Ident};
use kbc_synthesis::AllToAllPlan;
use std::collections::BTreeMap;
use std::rc::Rc;

/// The function whose file holds the packed algorithms: the number of ranks for which trees are
/// packed.
pub(super) const RANKS: &str = "packed_on";

/// The number of rounds.
const ROUNDS: &str = "packed_rounds";

/// A function or table of a packed algorithm.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PackedTable {
    /// A function that is the same for all arguments: its name and value.
    Number(&'static str, u64),
    /// A table of one index: its name and entries.
    List(String, Vec<u64>),
}

impl PackedTable {
    /// Returns it as a declaration of `file`. The number of parameters is that of the function that
    /// it replaces.
    pub(super) fn declaration(&self, file: FileId) -> FnDecl {
        let at = Span::new(file, 0, 0);
        let name = |n: &str| Ident::new(n.to_owned(), at);
        let int = |v: u64| Expr { kind: ExprKind::Int(v as i64), span: Span::NONE };
        let (named, params, body) = match self {
            PackedTable::Number(n, v) => (name(n), vec![name("p")], FnBody::Expr(int(*v))),
            PackedTable::List(n, list) => {
                (name(n), vec![name("i")], FnBody::List(list.iter().copied().map(int).collect()))
            }
        };
        FnDecl { name: named, params, body, span: Span::NONE, doc: String::new() }
    }
}

/// A message as its round and its row of a table.
type Row = (usize, Vec<u64>);

/// The ways of messages: different lists of relays. Way 0 has none.
struct RelayLists {
    number: BTreeMap<Vec<u32>, u64>,
    list: Vec<Vec<u32>>,
}

impl RelayLists {
    fn of(&mut self, relays: Vec<u32>) -> u64 {
        let next = self.list.len() as u64;
        let way = *self.number.entry(relays.clone()).or_insert(next);
        if way == next {
            self.list.push(relays);
        }
        way
    }

    /// Appends the tables of the ways, if messages name relays: the place of the first relay of
    /// each way, and the relays.
    fn tables(self, out: &mut Vec<PackedTable>) {
        if self.list.len() == 1 {
            return;
        }
        let (mut first, mut relays) = (vec![0], vec![]);
        for way in self.list {
            relays.extend(way.into_iter().map(u64::from));
            first.push(relays.len() as u64);
        }
        out.push(PackedTable::List("packed_way".into(), first));
        out.push(PackedTable::List("packed_hop".into(), relays));
    }
}

/// Returns the tables of an algorithm of trees that were packed for a network of a machine.
pub fn tables(
    (topology, machine): (&Topology, &MachineNetwork),
    request: &PackedRequest,
    phases: &[Rc<OrderedPhase>],
) -> Vec<PackedTable> {
    let ranks = machine.network.members().len();
    let mut ways = RelayLists { number: BTreeMap::from([(vec![], 0)]), list: vec![vec![]] };
    let mut way_of = |phase: &Rc<OrderedPhase>| -> Vec<u64> {
        let relays = |r: &Vec<usize>| if machine.via { machine.relays(topology, r) } else { vec![] };
        phase.plan.routes.iter().map(|r| ways.of(relays(r))).collect()
    };
    let ways_of: Vec<Vec<u64>> = phases.iter().map(&mut way_of).collect();
    let rounds: usize = phases.iter().map(|p| p.plan.rounds.len()).sum();
    let mut out = vec![PackedTable::Number(RANKS, ranks as u64), PackedTable::Number(ROUNDS, rounds as u64)];
    let blocks = request.collective.has_blocks();
    let columns: &[&str] = if blocks { &["peer", "block", "piece"] } else { &["peer", "piece"] };
    let with_ways = [columns, &["way"]].concat();
    for (adds, kind, pieces) in [(true, "add", "packed_add_pieces"), (false, "copy", "packed_copy_pieces")] {
        let (mut count, mut by_rank, mut before) = (None, vec![vec![]; ranks], 0);
        for (phase, ways) in phases.iter().zip(&ways_of) {
            // An all-reduce in two phases has pieces of the whole vector: those of the first rank's
            // block, then those of the second, and so on.
            let flat = request.collective == PackedCollective::AllReduce
                && phase.collective != PackedCollective::AllReduce;
            for (t, round) in phase.plan.rounds.iter().enumerate() {
                for m in round.iter().filter(|m| m.reduce == adds) {
                    let root = m.root as u64;
                    let piece = if flat { root * phase.plan.pieces + m.piece } else { m.piece };
                    let mut row = vec![m.to as u64, piece, ways[m.route]];
                    if blocks {
                        row.insert(1, root);
                    }
                    by_rank[m.from].push((before + t, row));
                    count = Some(phase.plan.pieces * if flat { ranks as u64 } else { 1 });
                }
            }
            before += phase.plan.rounds.len();
        }
        let Some(count) = count else { continue };
        out.push(PackedTable::Number(pieces, count));
        let routed = by_rank.iter().flatten().any(|(_, row)| row.last() != Some(&0));
        lists(&mut out, kind, if routed { &with_ways[..] } else { columns }, rounds, &by_rank);
    }
    ways.tables(&mut out);
    out
}

/// Returns the tables of an all-to-all.
pub fn flow_tables(plan: &AllToAllPlan, ranks: usize) -> Vec<PackedTable> {
    let rounds = plan.rounds.len();
    // The slots of each rank, in the order in which their blocks arrive.
    let mut slots: Vec<BTreeMap<(usize, usize), u64>> = vec![BTreeMap::new(); ranks];
    let mut kinds: [Vec<Vec<Row>>; 4] = std::array::from_fn(|_| vec![vec![]; ranks]);
    for (t, round) in plan.rounds.iter().enumerate() {
        for m in round {
            let block = (m.source, m.destination);
            let held = slots[m.from].get(&block).copied().unwrap_or(0);
            let slot = (m.to != m.destination).then(|| {
                let next = slots[m.to].len() as u64;
                *slots[m.to].entry(block).or_insert(next)
            });
            let (to, source, destination) = (m.to as u64, m.source as u64, m.destination as u64);
            let (kind, row) = match (m.from == m.source, slot) {
                (true, None) => (0, vec![to, m.piece]),
                (true, Some(slot)) => (1, vec![to, destination, slot, m.piece]),
                (false, Some(slot)) => (2, vec![to, held, slot, m.piece]),
                (false, None) => (3, vec![to, held, source, m.piece]),
            };
            kinds[kind][m.from].push((t, row));
        }
    }
    let most = slots.iter().map(BTreeMap::len).max().unwrap_or(0).max(1);
    let mut out = vec![
        PackedTable::Number(RANKS, ranks as u64),
        PackedTable::Number(ROUNDS, rounds as u64),
        PackedTable::Number("packed_pieces", plan.pieces),
        PackedTable::Number("packed_slots", most as u64),
    ];
    let columns: [(&str, &[&str]); 4] = [
        ("cross", &["peer", "piece"]),
        ("enter", &["peer", "block", "slot", "piece"]),
        ("relay", &["peer", "held", "slot", "piece"]),
        ("leave", &["peer", "held", "block", "piece"]),
    ];
    for ((kind, columns), by_rank) in columns.into_iter().zip(&kinds) {
        if by_rank.iter().any(|rows| !rows.is_empty()) {
            lists(&mut out, kind, columns, rounds, by_rank);
        }
    }
    out
}

/// Appends the tables of one kind of messages: the number of the first message of each rank in each
/// round, and a table for each column.
fn lists(out: &mut Vec<PackedTable>, kind: &str, columns: &[&str], rounds: usize, by_rank: &[Vec<Row>]) {
    let (mut first, mut sent) = (vec![], 0);
    for rows in by_rank {
        let mut rows = rows.iter().peekable();
        for t in 0..rounds {
            first.push(sent);
            while rows.next_if(|row| row.0 == t).is_some() {
                sent += 1;
            }
        }
    }
    first.push(sent);
    out.push(PackedTable::List(format!("packed_{kind}_first"), first));
    for (i, column) in columns.iter().enumerate() {
        let numbers = by_rank.iter().flatten().map(|row| row.1[i]).collect();
        out.push(PackedTable::List(format!("packed_{kind}_{column}"), numbers));
    }
}
