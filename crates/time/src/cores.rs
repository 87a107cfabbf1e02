//! Cores in time: how fast one stream of a rank moves data to and from its peers, and when a notify
//! through memory takes effect (docs/explanation/time.md, "Cores").
//!
//! A stream that moves its data itself, tile by tile, does nothing else meanwhile. With
//! `engine: sdma` the stream continues, and the transfers of its queue are performed one after
//! another. Each transfer takes as long as [`Mover::ns`] returns. The data uses the links during
//! that time, with its tail as far behind its head as the core makes it, so several cores can share
//! a link until it is saturated. This module owns the limits that a simulation takes from
//! [`kbc_machine::topology::cores`]. Their effect is in `engine/cores.rs`, except for the share of
//! the memory, which is in [`super::work`].

use kbc_machine::topology::cores::Mover;
use kbc_machine::topology::{Forward, Settings};

/// The limits of a machine's cores.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cores {
    pub(super) get: Option<Mover>,
    pub(super) put: Option<Mover>,
    /// Nanoseconds of a notify through memory. None if notifies are messages over links.
    pub(super) notify: Option<f64>,
    /// Messages continue with their last byte (store-and-forward).
    pub(super) stored: bool,
}

impl Cores {
    /// Returns the limits of a machine. None if it sets none.
    pub(super) fn of(settings: &Settings) -> Option<Cores> {
        let c = &settings.cores;
        let (get, put, notify) = (c.get_limit(), c.put_limit(), c.notify);
        let stored = settings.forward() == Forward::StoreAndForward;
        (get.is_some() || put.is_some() || notify.is_some()).then_some(Cores { get, put, notify, stored })
    }
}
