//! Concrete expansion, the last form that is tried: one role per rank, made from concrete rounds.
//!
//! It serves algorithms that have no symbolic form in rank and step. The schedule grows with ranks
//! and steps, so there is a limit. Beyond it, the error states why the shorter forms failed.
//!
//! Receipts are late ([`crate::late`]): a rank takes a message at the end of the last round before
//! it touches one of its places again. With queues it takes a message in its round, because a queue
//! has few slots.

use super::emitter::Marks;
use super::request::{Request, call, capacity, label, window};
use crate::expand::interpret::{Mover, Options, Stop, contract, refused};
use crate::expand::messages::legal;
use crate::groups::groups;
use crate::late::{self, Deadlines, Run};
use kbc_diag::{Diagnostic, Diagnostics, Span};
use kbc_ir::Name;
use kbc_ir::cut::Chunks;
use kbc_ir::expr::{Expr, gcd};
use kbc_ir::schedule::*;
use kbc_ir::types::Mesh;
use kbc_rounds::rounds::{Limits, Rounds, Transfer, coordinates};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::rc::Rc;

/// Largest number of transfers (pieces of messages) of a schedule with one role per rank.
pub(in crate::expand) const MAX_TRANSFERS: usize = 2_000_000;

/// A piece of a message: its places at both ends, as runs.
struct Piece {
    round: usize,
    lane: u32,
    src: u32,
    dst: u32,
    from: Run,
    /// Destinations at the receiver, in program order: (place, whether the piece is added,
    /// location).
    to: Vec<(Run, bool, Span)>,
    distance: u32,
    order: usize,
    via: Via,
    span: Span,
}

impl Piece {
    /// Checks whether a fetched piece is used from scratch, because it is added or goes to several
    /// places.
    fn staged(&self) -> bool {
        !matches!(&self.to[..], [(_, false, _)])
    }
}

/// Limits of the rounds of a schedule with one role per rank.
fn limits() -> Limits {
    Limits { transfers: MAX_TRANSFERS, ..Limits::default() }
}

/// Returns the rounds of a use without its lanes.
fn rounds(r: &Request<'_>, options: &Options) -> Result<Rc<Rounds>, Diagnostics> {
    let rounds = match r.trees {
        Some(trees) => trees.rounds(r.lib, &call(r), &limits()),
        None => kbc_rounds::expand(r.lib, &call(r), &limits()).map(Rc::new),
    };
    let rounds = rounds.map_err(|mut d| {
        for e in &mut d.list {
            if e.code == "E040" {
                e.code = "E331";
                e.notes.insert(0, e.title.clone());
                e.title = format!(
                    "this algorithm needs separate code for every rank (limit: {MAX_TRANSFERS} transfers)"
                );
                e.help = Some("use fewer ranks, or replace the part without a symbolic form".into());
            }
        }
        d
    })?;
    for u in &rounds.uses {
        let mut inside = Options::default();
        for (name, value) in &u.options {
            inside.set(name, value, true, u.span)?;
        }
        inside.unmoved(u.span)?;
    }
    if options.slots.is_some() {
        let why = "kbc generates separate code for every rank of this algorithm, and then every message has its own slot";
        return Err(refused("slots", r.span, why).into());
    }
    if options.cores > 1 {
        let why =
            "kbc generates separate code for every rank of this algorithm, and that code runs on one core";
        return Err(refused("cores", r.span, why).into());
    }
    Ok(rounds)
}

/// Returns rounds in the lanes of a use.
fn in_lanes(mut rounds: Rc<Rounds>, options: &Options) -> Result<Rc<Rounds>, Diagnostics> {
    for (lanes, delay) in [(options.pipeline, 1), (options.instances, 0)] {
        if lanes > 1 {
            let more = rounds.in_lanes(lanes as u32, delay, &limits());
            rounds = Rc::new(more.map_err(|d| Diagnostics::from(*d))?);
        }
    }
    Ok(rounds)
}

/// Returns places of a buffer as a reference to the operand.
fn chunk(rounds: &Rounds, Run { buffer, start, len }: Run) -> Ref {
    chunk_of(OperandId(buffer), (start, len), rounds.buffers[buffer as usize].atoms)
}

fn chunk_of(operand: OperandId, (start, len): (u32, u32), of: u32) -> Ref {
    let g = gcd(gcd(start.into(), len.into()), of.into()).max(1) as i64;
    let grains = |n: u32| Expr::Int(i64::from(n) / g);
    let part = Part { index: grains(start), len: grains(len), of: grains(of) };
    let path = if part.of == part.len { vec![] } else { vec![part] };
    Ref::Chunk { operand, path }
}

/// Returns matching runs of source and destination: (source start, destination start, length).
fn runs(t: &Transfer) -> Vec<(u32, u32, u32)> {
    let (mut a, mut b) = (t.from.runs().iter(), t.to.runs().iter());
    let (mut x, mut y) = (a.next().copied(), b.next().copied());
    let mut out = vec![];
    while let (Some(p), Some(q)) = (&mut x, &mut y) {
        let n = p.len.min(q.len);
        out.push((p.start, q.start, n));
        (p.start, p.len, q.start, q.len) = (p.start + n, p.len - n, q.start + n, q.len - n);
        if p.len == 0 {
            x = a.next().copied();
        }
        if q.len == 0 {
            y = b.next().copied();
        }
    }
    out
}

/// Appends the region with one role per rank.
pub(in crate::expand) fn collective(
    r: &Request<'_>,
    options: &Options,
    out: &mut Schedule,
) -> Result<(), Diagnostics> {
    let rounds = rounds(r, options)?;
    let marks = Marks::of(r, options, false, Some(&rounds));
    let pull = match marks.transfer {
        Mover::Push => false,
        Mover::Pull | Mover::Rendezvous => true,
        Mover::Switch => {
            let why = "kbc generates separate code for every rank of this algorithm, which cannot ask switches for sums";
            return Err(refused("transfer", r.span, why).into());
        }
    };
    let rounds = in_lanes(rounds, options)?;
    let own = r.operands.len();
    let coll = r.lib.collective(r.coll);
    let mut operands: Vec<Operand> = coll
        .buffers
        .iter()
        .zip(&r.operands)
        .map(|(d, (buffer, line))| Operand {
            name: Name::from(&d.name.node),
            buffer: *buffer,
            line: line.clone(),
            scratch: false,
        })
        .collect();
    for (i, b) in rounds.buffers.iter().enumerate().skip(own) {
        let operand = scratch(r, &rounds, (i, b), &b.name, out)?;
        operands.push(operand);
    }
    fits(r, &rounds, &operands, &out.mesh)?;
    // Lanes share no place, so each is a stream. A queue delivers in order, so streams cannot share
    // it.
    let lanes = if r.queues { 1 } else { options.instances.max(1) as u32 };
    let (pieces, locals) = pieces(&rounds, lanes);
    let ranks = rounds.ranks() as usize;
    // One slot for each piece that a rank receives (with pull: sends), in the order in which they
    // come.
    let mut next = vec![0i64; ranks];
    let mut slot = vec![0i64; pieces.len()];
    for (i, p) in pieces.iter().enumerate() {
        let at = if pull { p.src } else { p.dst };
        slot[i] = next[at as usize];
        next[at as usize] += 1;
    }
    let slots = next.iter().copied().max().unwrap_or(0);
    // One number for each message: the pieces of one round and lane from one sender.
    let mut received = vec![0i64; ranks];
    let mut message = vec![0i64; pieces.len()];
    for i in 0..pieces.len() {
        let p = &pieces[i];
        let same = |q: &Piece| (q.round, q.lane, q.src, q.dst) == (p.round, p.lane, p.src, p.dst);
        message[i] = match i.checked_sub(1).filter(|&before| same(&pieces[before])) {
            Some(before) => message[before],
            None => {
                received[p.dst as usize] += 1;
                received[p.dst as usize] - 1
            }
        };
    }
    let mut most = 0;
    for x in rounds.rounds.iter().flatten().filter(|x| x.is_remote()) {
        let from = x.from.buffer as usize;
        let of = rounds.buffers[from].atoms;
        let largest = match r.largest.get(from) {
            Some(size) => *size,
            None => {
                let (extent, unit, _) = legal::extents(&operands[from].line, &[]);
                (extent, unit)
            }
        };
        // Scratch like the first buffer is as large as that buffer on the rank with most.
        let largest = if from >= own && of == rounds.atoms { r.largest[0] } else { largest };
        for (_, _, n) in runs(x) {
            most = most.max(capacity(&operands[from].line, largest, (i64::from(n), i64::from(of))));
        }
    }
    let id = WindowId(out.windows.len() as u32);
    let dtype = out.buffer(r.operands[0].0).dtype;
    if slots > 0 {
        out.windows.push(window(r, 0, dtype, slots as u64, most, options.memory, r.span));
    }
    let mut fetched = vec![];
    if pull {
        for (i, b) in rounds.buffers.iter().enumerate() {
            let waits = pieces.iter().any(|p| p.staged() && p.to[0].0.buffer == i as u32);
            let own = if waits { Some(scratch(r, &rounds, (i, b), "fetched", out)?) } else { None };
            fetched.push(own.map(|o| {
                operands.push(o);
                OperandId(operands.len() as u32 - 1)
            }));
        }
    }
    let sizes: Vec<i64> = r.sizes.iter().map(|s| *s as i64).collect();
    let place =
        |rank: u32| -> Peer { coordinates(&sizes, i64::from(rank)).into_iter().map(Expr::Int).collect() };
    let cx = Roles {
        rounds: &rounds,
        pieces: &pieces,
        locals: &locals,
        slot: &slot,
        message: &message,
        marks,
        pull,
        window: id,
        late: !r.queues,
        fetched: &fetched,
        red: r.red,
        place: &place,
    };
    let own = Own::of_ranks(ranks, lanes, &pieces, &locals);
    let roles = (0..)
        .zip(own.chunks(lanes as usize))
        .map(|(rank, own)| Role {
            name: format!("rank{rank}").into(),
            ranks: RankSet::List(vec![rank]),
            streams: side_by_side(&r.name, own.iter().map(|o| cx.body(o)).collect(), r.span),
        })
        .collect();
    let contract = contract(r.lib, coll, r.root, r.red).map_err(|s| match s {
        Stop::Error(d) => Diagnostics::from(*d),
        Stop::NotSymbolic(why, span) => Diagnostic::error("E331", why).primary(span, "here").into(),
    })?;
    let decl = r.lib.algorithm(r.alg);
    let coords = r
        .sizes
        .iter()
        .enumerate()
        .map(|(i, s)| {
            (decl.axes.get(i).map_or_else(|| format!("c{i}").into(), |a| Name::from(&a.coord.node)), *s)
        })
        .collect();
    let after = out.regions.len().checked_sub(1).map(|i| RegionId(i as u32)).into_iter().collect();
    out.regions.push(Region {
        name: r.name.clone(),
        over: r.over.clone(),
        coords,
        operands,
        contract: Some(contract),
        label: Some(label(r)),
        after,
        roles,
        span: r.span,
    });
    Ok(())
}

/// Returns lanes as streams. The first is the main stream. The others start with it, and it ends
/// when they have ended.
fn side_by_side(region: &Name, lanes: Vec<Vec<SStmt>>, span: Span) -> Vec<Stream> {
    let mut lanes = lanes.into_iter();
    let mut main = lanes.next().unwrap_or_default();
    let mut others = vec![];
    for (i, mut body) in (1..).zip(lanes.filter(|b| !b.is_empty())) {
        let (go, done): (Name, Name) = (format!("{region}_go").into(), format!("{region}_done{i}").into());
        if others.is_empty() {
            main.insert(0, SStmt::Op(SOp::Record(go.clone()), span));
        }
        body.insert(0, SStmt::Op(SOp::Await(go), span));
        body.push(SStmt::Op(SOp::Record(done.clone()), span));
        main.push(SStmt::Op(SOp::Await(done), span));
        others.push(Stream { name: format!("lane{i}").into(), body });
    }
    [Stream { name: MAIN.into(), body: main }].into_iter().chain(others).collect()
}

/// Adds a scratch buffer. It has the line of operand `i`, or that of the first operand if it has as
/// many atoms. Otherwise it is a plain vector, for which all atoms must be equal.
fn scratch(
    r: &Request<'_>,
    rounds: &Rounds,
    (i, b): (usize, &kbc_rounds::rounds::Buffer),
    name: &str,
    out: &mut Schedule,
) -> Result<Operand, Diagnostics> {
    let (first, like) = r.operands.get(i).unwrap_or(&r.operands[0]);
    let own = i < r.operands.len() || b.atoms == rounds.atoms;
    let line = match legal::equal_chunks(like, i64::from(rounds.atoms)) {
        _ if own => like.clone(),
        Some(atom) => {
            let size = atom * u64::from(b.atoms);
            Line::vector(Expr::Int(size as i64))
        }
        None => {
            return Err(Diagnostic::error(
                "E332",
                "scratch for chunks of unequal length is not supported yet",
            )
            .primary(
                b.scratch.unwrap_or(r.span),
                "the length of this scratch differs from that of the buffer",
            )
            .note(format!("the buffer cannot be divided into {} equal parts", rounds.atoms))
            .help("choose sizes that are divisible by the number of chunks")
            .into());
        }
    };
    let dims =
        if own { out.buffer(*first).dims.clone() } else { vec![line.extent.clone() * line.unit.clone()] };
    out.buffers.push(Buffer {
        name: format!("{}_{name}{i}", r.name).into(),
        dims,
        role: BufferRole::Temp,
        global: None,
        ..out.buffer(*first).clone()
    });
    let buffer = BufferId(out.buffers.len() as u32 - 1);
    Ok(Operand { name: format!("{name}{i}").into(), buffer, line, scratch: true })
}

/// Checks that every atom has the same size at both places of every transfer, in every group of
/// ranks.
fn fits(r: &Request<'_>, rounds: &Rounds, operands: &[Operand], mesh: &Mesh) -> Result<(), Diagnostics> {
    let atoms = |x: &kbc_rounds::region::Region| rounds.buffers[x.buffer as usize].atoms;
    let equal: Vec<Option<u64>> = operands
        .iter()
        .zip(&rounds.buffers)
        .map(|(o, b)| legal::equal_chunks(&o.line, i64::from(b.atoms)))
        .collect();
    for group in groups(mesh, &r.over) {
        let vars: Vec<_> = group.iter().map(|rank| legal::mesh_vars(mesh, *rank)).collect();
        for x in rounds.rounds.iter().flatten() {
            let (a, b) = (x.from.buffer as usize, x.to.buffer as usize);
            if equal[a].is_some() && equal[a] == equal[b] {
                continue;
            }
            let sizes = |which: usize, rank: u32, run| {
                let line = &operands[which].line;
                legal::sizes(line, legal::extents(line, &vars[rank as usize]), run)
            };
            let chunks = |num: u32, cnt: u32, den: u32| Chunks { num, cnt, den }.map(u64::from);
            for (from, to, n) in runs(x) {
                let have = sizes(a, x.src, chunks(from, n, atoms(&x.from)));
                let room = sizes(b, x.dst, chunks(to, n, atoms(&x.to)));
                if let Some(s) = legal::misfit(&have, &room) {
                    return Err(legal::unequal(s, x.span).into());
                }
            }
        }
    }
    Ok(())
}

/// What travels once in a round: sender, receiver, and buffer, first atom and length at the sender;
/// and the relays.
type SentRun<'x> = ((u32, u32, u32, u32, u32), &'x [u32]);

/// A local move with its round and lane.
type Move<'x> = (usize, u32, &'x Transfer);

/// Returns the remote pieces, sorted by round, receiver, lane, order of additions and program
/// order; and the local moves. Every transfer stands once for each lane, in their order
/// ([`Rounds::in_lanes`]).
fn pieces(rounds: &Rounds, lanes: u32) -> (Vec<Piece>, Vec<Move<'_>>) {
    let mut pieces: Vec<Piece> = vec![];
    let mut locals = vec![];
    let mut sent: HashMap<SentRun<'_>, usize> = HashMap::new();
    for (t, list) in rounds.rounds.iter().enumerate() {
        let begin = pieces.len();
        sent.clear();
        for (order, x) in list.iter().enumerate() {
            let lane = order as u32 % lanes;
            if !x.is_remote() {
                locals.push((t, lane, x));
                continue;
            }
            for (start, to, len) in runs(x) {
                let to = (Run { buffer: x.to.buffer, start: to, len }, x.reduce, x.span);
                // Data that goes to several places of one peer in one round travels once.
                let relays = x.via.as_deref().unwrap_or(&[]);
                match sent.entry(((x.src, x.dst, x.from.buffer, start, len), relays)) {
                    Entry::Occupied(same) => pieces[*same.get()].to.push(to),
                    Entry::Vacant(new) => {
                        new.insert(pieces.len());
                        pieces.push(Piece {
                            round: t,
                            lane,
                            src: x.src,
                            dst: x.dst,
                            from: Run { buffer: x.from.buffer, start, len },
                            to: vec![to],
                            distance: x.distance,
                            order,
                            via: x.via.clone().into(),
                            span: x.span,
                        });
                    }
                }
            }
        }
        pieces[begin..].sort_by_key(|p| (p.dst, p.lane, p.distance, p.src, p.order));
    }
    (pieces, locals)
}

/// What one lane of a rank does: indices of the pieces that it sends, of local moves, and of the
/// pieces that it receives, each in order of rounds.
#[derive(Clone, Default)]
struct Own {
    sends: Vec<usize>,
    moves: Vec<usize>,
    receives: Vec<usize>,
}

/// A piece that a rank receives, and the round at whose end it takes the piece.
type Receipt = (usize, usize);

impl Own {
    /// Returns what every rank does, lane by lane.
    fn of_ranks(ranks: usize, lanes: u32, pieces: &[Piece], locals: &[Move<'_>]) -> Vec<Own> {
        let lanes = lanes as usize;
        let mut all = vec![Own::default(); ranks * lanes];
        for (i, p) in pieces.iter().enumerate() {
            all[p.src as usize * lanes + p.lane as usize].sends.push(i);
            all[p.dst as usize * lanes + p.lane as usize].receives.push(i);
        }
        for (i, (_, lane, x)) in locals.iter().enumerate() {
            all[x.src as usize * lanes + *lane as usize].moves.push(i);
        }
        all
    }
}

/// Splits off the leading entries that satisfy a condition.
fn leading<'s, T>(list: &mut &'s [T], condition: impl Fn(&T) -> bool) -> &'s [T] {
    let (first, rest) = list.split_at(list.iter().position(|i| !condition(i)).unwrap_or(list.len()));
    *list = rest;
    first
}

struct Roles<'x> {
    rounds: &'x Rounds,
    pieces: &'x [Piece],
    locals: &'x [Move<'x>],
    slot: &'x [i64],
    message: &'x [i64],
    marks: Marks,
    /// Whether receivers fetch messages.
    pull: bool,
    window: WindowId,
    /// Whether a rank takes messages when their places are touched again, instead of in their
    /// rounds.
    late: bool,
    /// For each operand, the scratch that holds data fetched for it.
    fetched: &'x [Option<OperandId>],
    red: kbc_ir::types::ReduceOp,
    place: &'x dyn Fn(u32) -> Peer,
}

impl Roles<'_> {
    /// Emits everything that one rank does, round by round.
    fn body(&self, own: &Own) -> Vec<SStmt> {
        let mut out = vec![];
        let receipts = self.receipts(own);
        let (mut sends, mut moves, mut receipts) = (&own.sends[..], &own.moves[..], &receipts[..]);
        while let Some(t) = self.next_round(sends, moves, receipts) {
            self.ends(leading(&mut sends, |i| self.pieces[*i].round == t), true, &mut out);
            self.moves(leading(&mut moves, |i| self.locals[*i].0 == t), &mut out);
            let taken: Vec<usize> = leading(&mut receipts, |r| r.1 == t).iter().map(|r| r.0).collect();
            self.ends(&taken, false, &mut out);
        }
        if self.marks.reuse && self.marks.transfer == Mover::Rendezvous {
            out.extend(own.sends.chunk_by(|&a, &b| self.is_one_send(a, b)).map(|message| {
                let (peer, first) = (self.pieces[message[0]].dst, message[0]);
                SStmt::Op(self.mark(Point::Settle, peer, first), self.pieces[first].span)
            }));
        }
        out.shrink_to_fit();
        out
    }

    /// Returns the first round in which something is left to do.
    fn next_round(&self, sends: &[usize], moves: &[usize], receipts: &[Receipt]) -> Option<usize> {
        let sent = sends.first().map(|i| self.pieces[*i].round);
        let moved = moves.first().map(|i| self.locals[*i].0);
        [sent, moved, receipts.first().map(|r| r.1)].into_iter().flatten().min()
    }

    /// Returns the pieces that a rank receives in the order in which it takes them: by the rounds
    /// in which it does so, and then in the order of rounds and additions.
    fn receipts(&self, own: &Own) -> Vec<Receipt> {
        if !self.late {
            return own.receives.iter().map(|&i| (i, self.pieces[i].round)).collect();
        }
        let sent = own.sends.iter().map(|&i| (self.pieces[i].round, self.pieces[i].from));
        let moved = own.moves.iter().flat_map(|&i| {
            let (t, _, x) = self.locals[i];
            Run::of(&x.from).chain(Run::of(&x.to)).map(move |run| (t, run))
        });
        let mut touched: Vec<(usize, Run)> = sent.chain(moved).collect();
        touched.sort_by_key(|t| t.0);
        let mut deadlines = Deadlines::new(self.rounds.rounds.len());
        let messages: Vec<&[usize]> = own.receives.chunk_by(|&a, &b| self.is_one_message(a, b)).collect();
        let places = |i: usize| {
            let message: &[usize] = messages[i];
            message.iter().flat_map(|&i| self.pieces[i].to.iter().map(|to| to.0))
        };
        let mut taken = vec![];
        for (i, message) in messages.iter().enumerate().rev() {
            let Piece { round, src, .. } = self.pieces[message[0]];
            while let Some((t, run)) = touched.pop_if(|(t, _)| *t > round) {
                deadlines.touched(run, t as u32);
            }
            taken.push(late::Receipt { sender: src, taken: deadlines.taken(places(i)) });
        }
        taken.reverse();
        late::bring_forward(&mut taken, places);
        let rounds = taken.iter().map(|r| r.taken as usize);
        let mut out: Vec<Receipt> =
            messages.iter().zip(rounds).flat_map(|(m, t)| m.iter().map(move |&i| (i, t))).collect();
        out.sort_by_key(|r| r.1);
        out
    }

    /// Checks whether two pieces that one rank receives are of one message.
    fn is_one_message(&self, a: usize, b: usize) -> bool {
        (self.pieces[a].src, self.message[a]) == (self.pieces[b].src, self.message[b])
    }

    /// Checks the same for two pieces that one rank sends.
    fn is_one_send(&self, a: usize, b: usize) -> bool {
        (self.pieces[a].dst, self.message[a]) == (self.pieces[b].dst, self.message[b])
    }

    /// Returns a mark of the message of a piece.
    fn mark(&self, point: Point, peer: u32, piece: usize) -> SOp {
        SOp::Mark(Mark {
            point,
            peer: (self.place)(peer),
            window: self.window,
            slot: Expr::Int(self.message[piece]),
        })
    }

    /// Emits the sends or receives of a round: the pieces of one peer together, between their two
    /// marks.
    fn ends(&self, list: &[usize], send: bool, out: &mut Vec<SStmt>) {
        let peer_of = |i: usize| if send { self.pieces[i].dst } else { self.pieces[i].src };
        let mut at = 0;
        while at < list.len() {
            let peer = peer_of(list[at]);
            // Pieces to one peer may be several messages: groups of different order have different
            // distances, and other sources lie between them at the receiver.
            let first = (peer, self.message[list[at]]);
            let other = |&i: &usize| (peer_of(i), self.message[i]) != first;
            let end = list[at..].iter().position(other).map_or(list.len(), |n| at + n);
            let slot = |i: usize| Expr::Int(self.slot[i]);
            let mark = |point| self.mark(point, peer, list[at]);
            let span = self.pieces[list[at]].span;
            let (before, after) =
                if send { (Point::Reserve, Point::Publish) } else { (Point::Expect, Point::Free) };
            let settled = self.marks.transfer == Mover::Rendezvous;
            let marked = |p| match p {
                Point::Reserve => self.marks.reuse && !settled,
                Point::Free | Point::Settle => self.marks.reuse,
                Point::Publish | Point::Expect => true,
            };
            out.extend(marked(before).then(|| SStmt::Op(mark(before), span)));
            for &i in &list[at..end] {
                let p = &self.pieces[i];
                let land = Ref::Slot { window: self.window, slot: slot(i) };
                if self.pull {
                    self.fetch(p, land, send, out);
                    continue;
                }
                if send {
                    let src = chunk(self.rounds, p.from);
                    let put = SOp::Put { src, peer: self.routed(peer, p), dst: land };
                    out.push(SStmt::Op(put, p.span));
                    continue;
                }
                for (to, reduce, span) in &p.to {
                    let (dst, src) = (chunk(self.rounds, *to), land.clone());
                    let op =
                        if *reduce { SOp::Reduce { op: self.red, dst, src } } else { SOp::Copy { dst, src } };
                    out.push(SStmt::Op(op, *span));
                }
            }
            if self.pull && !send && list[at..end].iter().any(|&i| !self.pieces[i].staged()) {
                out.push(SStmt::Op(SOp::FenceComplete, span));
            }
            out.extend(marked(after).then(|| SStmt::Op(mark(after), span)));
            at = end;
        }
    }

    /// Returns the peer with which a rank exchanges a piece, and the relays of the piece.
    fn routed(&self, peer: u32, p: &Piece) -> Peer {
        Peer { via: p.via.clone(), ..(self.place)(peer) }
    }

    /// Emits a piece that its receiver fetches: the copy to the sender's slot, or the get from
    /// there and its use.
    fn fetch(&self, p: &Piece, slot: Ref, send: bool, out: &mut Vec<SStmt>) {
        let mut push = |op, span| out.push(SStmt::Op(op, span));
        if send {
            return push(SOp::Copy { dst: slot, src: chunk(self.rounds, p.from) }, p.span);
        }
        let get = |dst: Ref| SOp::Get { dst, peer: self.routed(p.src, p), src: slot.clone() };
        let first = p.to[0].0;
        let waits = match self.fetched[first.buffer as usize] {
            Some(operand) if p.staged() => {
                let of = self.rounds.buffers[first.buffer as usize].atoms;
                chunk_of(operand, (first.start, first.len), of)
            }
            _ => return push(get(chunk(self.rounds, first)), p.span),
        };
        push(get(waits.clone()), p.span);
        push(SOp::FenceComplete, p.span);
        for (to, reduce, span) in &p.to {
            let (dst, src) = (chunk(self.rounds, *to), waits.clone());
            let op = if *reduce { SOp::Reduce { op: self.red, dst, src } } else { SOp::Copy { dst, src } };
            push(op, *span);
        }
    }

    /// Emits the local moves of a round.
    fn moves(&self, list: &[usize], out: &mut Vec<SStmt>) {
        for i in list {
            let (.., x) = self.locals[*i];
            for (from, to, len) in runs(x) {
                let place = |buffer, start| chunk(self.rounds, Run { buffer, start, len });
                let (dst, src) = (place(x.to.buffer, to), place(x.from.buffer, from));
                let op =
                    if x.reduce { SOp::Reduce { op: self.red, dst, src } } else { SOp::Copy { dst, src } };
                out.push(SStmt::Op(op, x.span));
            }
        }
    }
}
