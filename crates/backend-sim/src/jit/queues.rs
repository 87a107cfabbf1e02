//! Queues between ranks while compiled code runs: the messages that were sent and not yet received.
//!
//! The module owns their bytes. As in the interpreter, a slot is free again when its message is
//! received. [`super::world`] decides which stream waits for a slot or a message; that both ends
//! move the same type is checked at compile time.

use crate::flow::Queue;
use std::collections::{BTreeMap, VecDeque};

/// All queues of all ranks.
#[derive(Default)]
pub(super) struct Queues {
    held: BTreeMap<Queue, VecDeque<Vec<u8>>>,
    /// Storage of received messages, for reuse.
    spare: Vec<Vec<u8>>,
}

impl Queues {
    /// Returns the number of messages in a queue.
    pub(super) fn len(&self, queue: Queue) -> usize {
        self.held.get(&queue).map_or(0, VecDeque::len)
    }

    /// Appends a message.
    pub(super) fn push(&mut self, queue: Queue, message: &[u8]) {
        let mut room = self.spare.pop().unwrap_or_default();
        room.extend_from_slice(message);
        self.held.entry(queue).or_default().push_back(room);
    }

    /// Takes the oldest message.
    pub(super) fn pop(&mut self, queue: Queue) -> Option<Vec<u8>> {
        self.held.get_mut(&queue)?.pop_front()
    }

    /// Keeps the storage of a received message for reuse.
    pub(super) fn done_with(&mut self, mut message: Vec<u8>) {
        message.clear();
        self.spare.push(message);
    }
}
