//! Expansion: lowers a graph to a schedule. Every collective becomes a region whose roles move
//! chunks, and every run of local operations a region of its own.
//!
//! The algorithm's rounds become operations in program order: sends, local moves, receives. Every
//! message lands in slots of its own in a window, one slot for each contiguous piece, and its four
//! points (`reserve`, `publish`, `accept`, `free`) remain marks. `reserve` and `free` are left out
//! where the order graph (`order`) shows that the algorithm's other messages imply them; the slots
//! then serve call after call without credits. Additions of one round come in the order that the
//! language defines: the rank's own value, then the sources by (source - receiver) mod p. Data that
//! goes to several places of one peer in one round travels once.
//!
//! **Symbolic form.** Loops remain loops and ranks remain symbolic wherever possible: the schedule
//! of a ring has the same lines on 4 and on 16,384 ranks. The other end of a message is an
//! expression if the peer is a shift or an exclusive or of the rank. If the peer is a quotient by d
//! (a tree's parent), the other end tries d ranks. Otherwise it looks for its senders in a loop
//! over the group, nearest first; above 64 ranks in a loop over the distances that occur, if they
//! are few.
//!
//! **Other forms.** If an algorithm has no symbolic form, its loops are unrolled (up to 4096
//! transfers). If that does not help either, a role is written out for each rank (up to 2,000,000
//! transfers). Beyond that, E331 states why both symbolic forms failed.
//!
//! **Late receipts.** In a role that is written out, a rank does not take a message in the round in
//! which it is sent. It takes the message at the end of the last round before it touches a place of
//! the message again: before it sends from there, moves data there or from there, or takes another
//! message there. If it never does, it takes the message at the end. So a send does not wait for
//! messages that it does not need ([ADR 78](../adr/078-late-receives.md)). What a rank does with
//! one place stays in order, additions included. A message is taken before the next one of its
//! sender, which arrives later, if what goes to its places before it has been taken, too
//! ([ADR 102](../adr/102-receipts-that-wait-for-nothing.md)). On a machine with queues a rank takes
//! a message in its round, because a queue has few slots. In symbolic forms it does so on every
//! machine: an iteration of a loop is a round.
//!
//! **Options.** With `transfer: pull` the slots belong to the sender: the sender copies into them,
//! and the receiver fetches the data from there (`get`), between the same marks. With `transfer:
//! rendezvous` the mark `settle`, at the end of the sender's stream, takes the place of `reserve`.
//! With `transfer: switch` data that is added is fetched, and what a round adds from several
//! senders to one place is fetched as a sum (`get.combine`). A rank tells its peers what they can
//! fetch before it sends anything in the round. If the round before writes none of that data, the
//! rank tells them already there. With `cores: k`, core j visits the peers of an `each` starting
//! with the j-th.
//!
//! **Errors.** A chunk keeps its size when it moves, so a transfer between places of different
//! lengths is rejected (E332). Options without an implementation are rejected (E033), as are peers
//! that do not exist (E021) and transfers whose two sides have different sizes (E026).
//!
//! ```kir,before
//! kir 1
//! module @sum
//! machine ring(4) { link: 50 GB/s, 500 ns }
//! mesh tp 4
//! props typed placed selected
//!
//! graph @sum
//! input @x : f32[10] partial(sum@tp)
//! result : f32[10]
//!
//! %x = input @x : f32[10] partial(sum@tp)
//! %y = all_reduce sum %x over tp using ring : f32[10]
//! %out = output 0 %y : f32[10]
//! ```
//!
//! ```kir,after
//! kir 1
//! module @sum
//! machine ring(4) { link: 50 GB/s, 500 ns }
//! mesh tp 4
//! props expanded
//!
//! schedule calls none
//! buffer %x : f32[10] hbm input 0 : f32[10] partial(sum@tp)
//! buffer %y_v : f32[10] hbm temp
//! buffer %out : f32[10] hbm output 0 : f32[10]
//! window @all_reduce_w0 : f32[3 x 3] hbm
//! window @all_reduce_w1 : f32[3 x 3] hbm
//!
//! region @local local
//!   role all
//!     stream main
//!       copy %y_v = %x
//!
//! region @all_reduce over tp as (r of 4) after @local
//!   label "ring"
//!   on v = %y_v line 10
//!   promise all_reduce sum
//!   role all
//!     stream main
//!       for s in 1..4
//!         put v[(r - s) % 4 of 4] -> ((r + 1) % 4) : @all_reduce_w0[s - 1]
//!         publish ((r + 1) % 4) : @all_reduce_w0[s - 1]
//!         accept ((r - 1) % 4) : @all_reduce_w0[s - 1]
//!         combine sum v[(r - s - 1) % 4 of 4], @all_reduce_w0[s - 1]
//!       for s_2 in 0..3
//!         put v[(r - s_2) % 4 of 4] -> ((r + 1) % 4) : @all_reduce_w1[s_2]
//!         publish ((r + 1) % 4) : @all_reduce_w1[s_2]
//!         accept ((r - 1) % 4) : @all_reduce_w1[s_2]
//!         copy v[(r - s_2 - 1) % 4 of 4] = @all_reduce_w1[s_2]
//!
//! region @local_2 local after @all_reduce
//!   role all
//!     stream main
//!       copy %out = %y_v
//! ```
//!
//! If the graph gives collectives streams of their own, regions are cut where one stream waits for
//! another, and begin and end with the corresponding events. With the option `matrix`, matmuls get
//! a stream of their own, if anything can run beside them. In a program with host statements they
//! do not, because the section `host` names their regions. If the host does something between
//! operations, the section `host` launches the operations before it, performs it, and at the end
//! reads every result and drains.
//!
//! Not done here: deciding whether slots are used again in the next call (`allocate`), signals and
//! fences (`synchronize`), and the choice of streams and pieces (`overlap`).

mod contract_collectives;
mod counts;
mod emit;
mod host;
mod interpret;
mod local;
mod lower;
mod messages;
mod packed_use;
mod shape;
mod sizes;
mod streams;

pub use emit::{Arg, Request, collective};
pub use interpret::contract_of;
pub(crate) use interpret::refused;
pub(crate) use interpret::symbolic_number;
pub(crate) use lower::ends;
pub use sizes::joined_axis;
pub(crate) use sizes::{boundary, part_length};

use crate::pass::{Changed, OptionKind, Options, Pass, PassCx, PassInfo, PassOption, graph_of};
use kbc_diag::Diagnostics;
use kbc_ir::module::Body;
use kbc_ir::types::ReduceOp;
use kbc_ir::{Module, Props};
use kbc_rounds::library::{CollId, Library};

/// Checks whether a collective's contract makes every rank's result depend on every rank's input.
pub fn is_total(lib: &Library, coll: CollId, root: Option<u64>) -> bool {
    interpret::contract(lib, lib.collective(coll), root, ReduceOp::Sum).is_ok_and(|p| p.is_total())
}

/// The record of `expand`.
pub static INFO: PassInfo = PassInfo {
    name: "expand",
    summary: "Collectives become regions of transfers, and local operations become separate regions",
    requires: Props::TYPED.with(Props::PLACED).with(Props::SELECTED),
    gives: Props::EXPANDED,
    breaks: Props::TYPED.with(Props::PLACED).with(Props::SELECTED).with(Props::ARRANGED),
    options: &[PassOption {
        name: "matrix",
        summary: "matmuls run on a stream of their own, as on devices with cores for matrices",
        kind: OptionKind::Flag,
        default: "false",
    }],
};

/// The pass `expand`.
pub struct Expand {
    options: Options,
}

impl Expand {
    /// Returns the pass with options of [`INFO`].
    pub fn new(options: &Options) -> Self {
        Expand { options: options.clone() }
    }
}

impl Pass for Expand {
    fn info(&self) -> &'static PassInfo {
        &INFO
    }

    fn options(&self) -> Options {
        self.options.clone()
    }

    fn run(&self, module: &mut Module, cx: &PassCx<'_>) -> Result<Changed, Diagnostics> {
        let (name, mesh) = (module.name.clone(), module.mesh.clone());
        let mut schedule = match &module.body {
            Body::Local(l) => local::lower(&name, l, &mesh, cx)?,
            _ => lower::lower(&name, graph_of(module, &INFO)?, &mesh, cx)?,
        };
        let host = schedule.host.is_some();
        if self.options.flag("matrix").unwrap_or(false) && !host {
            streams::matmuls_apart(&mut schedule)?;
        }
        module.body = Body::Schedule(schedule);
        Ok(Changed::Yes)
    }
}
