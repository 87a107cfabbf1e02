//! Memory orders of notifies and waits, which take the place of the schedule's fences.
//!
//! A notify after `fence.release` is an atomic addition with release order, and any other notify a
//! relaxed one. A wait before `fence.acquire` is a load with acquire order. A wait after which the
//! rank next writes is one too: in the memory model a rewrite needs the knowledge that a read is
//! over, and no fence. The end of a call is such a write if peers read inputs where they are: the
//! caller may write the inputs of the next call. Any other wait is a relaxed load. There are no
//! stand-alone fences, because ThreadSanitizer does not model them, and an order that no fence asks
//! for would hide a missing fence from it.
//!
//! The orders follow from the statements on all paths, and calls follow each other. An order is the
//! stronger one where two paths differ. A loop over tiles counts as one that accesses memory:
//! without elements there is nothing to publish. A fence covers what is before it, wherever the
//! notify is, so a notify could need a fence that other accesses part from it. No schedule of the
//! passes has one; a kernel with fences in which a notify or wait has no order is not emitted
//! ([`Orders::complete`]).

use kbc_tiles::tile::{AreaId, Gm, Kernel, Object, Op, Reach, Stmt, path};
use std::collections::BTreeSet;

/// The notifies and waits of a kernel that have an order, by their address in the kernel.
#[derive(Clone, Default, Debug)]
pub struct Orders {
    release: BTreeSet<*const Op>,
    acquire: BTreeSet<*const Op>,
    /// Areas to which peers store.
    stored: BTreeSet<AreaId>,
}

/// What a rank has done since its last fence: a set, as paths may differ.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
struct Before {
    /// There was a release, and no notify yet.
    fenced: bool,
    /// There was a release and a notify after it, and no access since.
    told: bool,
}

/// What follows a place: a set, as paths may differ.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
struct After {
    /// An acquire, and no access to the window before it.
    acquire: bool,
    /// A write to the window, and no read of it before it.
    write: bool,
}

/// An access to what peers reach.
enum Access {
    Read,
    Write,
}

impl Orders {
    /// Returns the orders of a kernel.
    pub fn of(kernel: &Kernel) -> Orders {
        let mut out = Orders::default();
        for (_, op) in path::ops(kernel) {
            if let Some((Gm { object: Object::Area(a), peer: Some(_), .. }, true)) = op.place() {
                out.stored.insert(*a);
            }
        }
        let end = out.forward(kernel, &kernel.body, Before::default());
        out.forward(kernel, &kernel.body, end);
        let start = match kernel.tensors.iter().any(|t| t.reach == Reach::Peers) {
            true => After { acquire: false, write: true },
            false => out.backward(kernel, &kernel.body, After::default()),
        };
        out.backward(kernel, &kernel.body, start);
        out
    }

    /// Checks whether every notify of a kernel with a release fence, and every wait of one with an
    /// acquire fence, has an order.
    pub fn complete(&self, kernel: &Kernel) -> bool {
        let (mut fences, mut without) = ([false; 2], [false; 2]);
        for (_, op) in path::ops(kernel) {
            match op {
                Op::Release => fences[0] = true,
                Op::Acquire => fences[1] = true,
                Op::Notify { .. } => without[0] |= !self.releases(op),
                Op::Wait { .. } => without[1] |= !self.acquires(op),
                _ => {}
            }
        }
        (0..2).all(|i| !(fences[i] && without[i]))
    }

    /// Checks whether a notify publishes what was done before it.
    pub fn releases(&self, op: &Op) -> bool {
        self.release.contains(&std::ptr::from_ref(op))
    }

    /// Checks whether what follows a wait sees what the notify published.
    pub fn acquires(&self, op: &Op) -> bool {
        self.acquire.contains(&std::ptr::from_ref(op))
    }

    fn forward(&mut self, kernel: &Kernel, list: &[Stmt], mut at: Before) -> Before {
        for stmt in list {
            at = match stmt {
                Stmt::For { body, .. } => {
                    let once = join_before(at, self.forward(kernel, body, at));
                    join_before(once, self.forward(kernel, body, once))
                }
                Stmt::Tiles { body, .. } => {
                    let once = self.forward(kernel, body, at);
                    join_before(once, self.forward(kernel, body, once))
                }
                Stmt::If { then, other, .. } => {
                    join_before(self.forward(kernel, then, at), self.forward(kernel, other, at))
                }
                Stmt::Task { body, .. } | Stmt::Turn { body, .. } => self.forward(kernel, body, at),
                Stmt::Let { .. } | Stmt::Note { .. } => at,
                Stmt::Op(op) => self.forward_op(kernel, op, at),
            };
        }
        at
    }

    fn forward_op(&mut self, kernel: &Kernel, op: &Op, at: Before) -> Before {
        match op {
            Op::Release => Before { fenced: true, told: false },
            Op::Notify { .. } if at.fenced || at.told => {
                self.release.insert(std::ptr::from_ref(op));
                Before { fenced: false, told: true }
            }
            _ if self.access(kernel, op).is_some() => Before { told: false, ..at },
            _ => at,
        }
    }

    fn backward(&mut self, kernel: &Kernel, list: &[Stmt], mut at: After) -> After {
        for stmt in list.iter().rev() {
            at = match stmt {
                Stmt::For { body, .. } => {
                    let once = join_after(at, self.backward(kernel, body, at));
                    join_after(once, self.backward(kernel, body, once))
                }
                Stmt::Tiles { body, .. } => {
                    let once = self.backward(kernel, body, at);
                    join_after(once, self.backward(kernel, body, once))
                }
                Stmt::If { then, other, .. } => {
                    join_after(self.backward(kernel, then, at), self.backward(kernel, other, at))
                }
                Stmt::Task { body, .. } | Stmt::Turn { body, .. } => self.backward(kernel, body, at),
                Stmt::Let { .. } | Stmt::Note { .. } => at,
                Stmt::Op(op) => self.backward_op(kernel, op, at),
            };
        }
        at
    }

    fn backward_op(&mut self, kernel: &Kernel, op: &Op, at: After) -> After {
        match (op, self.access(kernel, op)) {
            (Op::Acquire, _) => After { acquire: true, write: false },
            (Op::Wait { .. }, _) => {
                if at.acquire || at.write {
                    self.acquire.insert(std::ptr::from_ref(op));
                }
                at
            }
            (_, Some(Access::Read)) => After::default(),
            (_, Some(Access::Write)) => After { acquire: false, write: true },
            _ => at,
        }
    }

    /// Returns how an operation accesses memory that peers reach, if that needs an order: what only
    /// this rank writes, it reads in the order of its program.
    fn access(&self, kernel: &Kernel, op: &Op) -> Option<Access> {
        let (place, writes) = op.place()?;
        let reach = match place.object {
            Object::Area(a) => kernel.area(a).reach,
            Object::Tensor(t) => kernel.tensor(t).reach,
        };
        let others = match place.object {
            Object::Area(a) => place.peer.is_some() || self.stored.contains(&a),
            Object::Tensor(_) => place.peer.is_some(),
        };
        (reach == Reach::Peers && (writes || others)).then_some(if writes {
            Access::Write
        } else {
            Access::Read
        })
    }
}

fn join_before(a: Before, b: Before) -> Before {
    Before { fenced: a.fenced || b.fenced, told: a.told || b.told }
}

fn join_after(a: After, b: After) -> After {
    After { acquire: a.acquire || b.acquire, write: a.write || b.write }
}
