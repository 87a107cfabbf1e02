//! Work on all cores: pieces that threads take until none is left.

use std::num::NonZero;
use std::sync::{Mutex, PoisonError};
use std::thread;

/// Multiplications for which starting a thread pays: about a millisecond of work for a core, of
/// which a start takes a hundredth.
const WORTH_A_THREAD: usize = 1 << 25;

/// Runs `work` on every piece, on this thread and beside it on as many more as the `size` of all
/// pieces is worth, in multiplications. The threads have the name of this one, because their work
/// is part of its work.
pub fn shared_out<P>(size: usize, pieces: impl Iterator<Item = P> + Send, work: impl Fn(P) + Sync) {
    let worth = size / WORTH_A_THREAD;
    if worth < 2 {
        return pieces.for_each(work);
    }
    let left = Mutex::new(pieces);
    let next = || left.lock().unwrap_or_else(PoisonError::into_inner).next();
    on_threads(worth, &|| {
        while let Some(piece) = next() {
            work(piece);
        }
    });
}

/// Runs `work` on this thread and beside it on at most `worth - 1` others. It is compiled once and
/// not for every kind of work.
fn on_threads(worth: usize, work: &(dyn Fn() + Sync)) {
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    thread::scope(|s| {
        for _ in 1..worth.min(cores) {
            let name = thread::current().name().unwrap_or("piece").to_owned();
            // Where the system has no thread to spare, this one does the work.
            drop(thread::Builder::new().name(name).spawn_scoped(s, work));
        }
        work();
    });
}
