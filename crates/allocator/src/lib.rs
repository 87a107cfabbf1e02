//! Allocator of kbc: mimalloc for small blocks and the allocator of the system for large ones, with
//! a count of the allocated bytes and a limit. It returns freed memory to the system where that is
//! much.
//!
//! A compiler allocates many small blocks, and the C library takes a third of the processor time of
//! some commands for them (docs/adr/110-small-blocks.md). Large blocks are data of tensors, for
//! which pages and their return to the system count.
//!
//! It is a crate because every allocation runs through it: the profiles of `Cargo.toml` optimise it
//! where kbc itself is not optimised. Every program that links this crate has it as its allocator.
//! It is the command line that does, and tests; the compiler as a library leaves the choice to its
//! user.

mod large;

use mimalloc::MiMalloc;
use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Once, OnceLock};

/// Ends a process that exceeds the limit.
static END: OnceLock<fn() -> !> = OnceLock::new();

/// Bytes that may still be allocated. Threads may have allocated bytes that they have not added
/// yet.
static LEFT: AtomicI64 = AtomicI64::new(i64::MAX);

/// The smallest value of [`LEFT`] since memory was last returned to the system.
static LEAST: AtomicI64 = AtomicI64::new(i64::MAX);

/// Freed bytes from which they are returned. Pages that are returned and used again must be cleared
/// again, so fewer bytes are kept.
const WORTH: i64 = 64 << 20;

/// A thread adds its allocations when they reach this number of bytes.
const STEP: i64 = 1 << 20;

/// The value of [`TAKEN`] before the first allocation of a thread.
const FIRST: i64 = i64::MIN;

thread_local! {
    /// Bytes that this thread has allocated and not added yet.
    static TAKEN: Cell<i64> = const { Cell::new(FIRST) };
}

/// Tells mimalloc not to ask for large pages. It would ask for its first blocks, too, and a page of
/// 2 MiB would be cleared for a command that needs less.
#[cold]
#[allow(unsafe_code, reason = "the library has no safe interface")]
fn begin() {
    use libmimalloc_sys::{_mi_option_last, mi_option_set, mi_option_t};
    /// `mi_option_allow_thp`, the last option of version 2, which the crate does not name. The test
    /// `small_blocks_are_not_in_large_pages` fails if a new version has another one there.
    const ALLOW_LARGE_PAGES: mi_option_t = _mi_option_last - 1;
    static BEGUN: Once = Once::new();
    // SAFETY: it sets a number, which is read when mimalloc asks for memory.
    BEGUN.call_once(|| unsafe { mi_option_set(ALLOW_LARGE_PAGES, 0) });
}

/// From now on, `end` is called when the process has allocated more than `bytes` bytes, or where
/// the system gives none. It must not allocate. Without a limit (None), only the latter ends the
/// process. A second call changes the limit, and not the function.
pub fn limit_to(bytes: Option<u64>, end: fn() -> !) {
    END.get_or_init(|| end);
    if let Some(most) = bytes {
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        LEFT.store(most, Ordering::Relaxed);
        LEAST.store(most, Ordering::Relaxed);
    }
}

/// Returns freed memory to the system, if much has been freed since the last time. The C library
/// keeps small blocks for itself, also where all blocks of a page are free, so the lists of one
/// stage of a compilation would stay beside those of the next.
#[cold]
fn return_freed(left: i64) {
    if left.saturating_sub(LEAST.load(Ordering::Relaxed)) >= WORTH {
        LEAST.store(left, Ordering::Relaxed);
        trim();
    }
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[allow(unsafe_code, reason = "the C library has no safe interface")]
fn trim() {
    // SAFETY: it changes free memory only, and locks it. No call of the allocator is under way on
    // this thread: bytes are counted before one or after it.
    unsafe { libc::malloc_trim(0) };
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn trim() {}

/// The allocator of programs that link this crate. The compiler makes functions for it in the crate
/// that declares it, so they are optimised with this crate.
#[global_allocator]
pub static ALLOCATOR: CountingAllocator = CountingAllocator;

/// mimalloc and the allocator of the system, with a count of the allocated bytes.
pub struct CountingAllocator;

impl CountingAllocator {
    /// Adds to the count, or subtracts from it.
    fn count(bytes: i64) {
        // A thread that is about to end has no count any more; it allocates almost nothing.
        let _ = TAKEN.try_with(|t| {
            let all = t.get().wrapping_add(bytes);
            if all.unsigned_abs() < STEP.unsigned_abs() {
                t.set(all);
                return;
            }
            if t.get() == FIRST {
                begin();
                t.set(bytes);
                return;
            }
            t.set(0);
            let before = LEFT.fetch_sub(all, Ordering::Relaxed);
            let left = before.saturating_sub(all);
            if all < 0 {
                return return_freed(left);
            }
            LEAST.fetch_min(left, Ordering::Relaxed);
            if before < all {
                over();
            }
        });
    }

    fn given(at: *mut u8) -> *mut u8 {
        if at.is_null() {
            over();
        }
        at
    }
}

/// The largest block that comes from mimalloc.
const SMALL: usize = 8 << 10;

#[allow(unsafe_code, reason = "an allocator has no safe interface")]
// SAFETY: a block of at most `SMALL` bytes comes from mimalloc and returns there, and a larger one
// comes from `large`, which returns all of its blocks to where they came from. The size, which the
// caller states with every call, tells them apart.
unsafe impl GlobalAlloc for CountingAllocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        Self::count(layout.size() as i64);
        if layout.size() <= SMALL {
            // SAFETY: of the caller.
            return Self::given(unsafe { MiMalloc.alloc(layout) });
        }
        // SAFETY: of the caller.
        Self::given(unsafe { large::alloc(layout) })
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        Self::count(layout.size() as i64);
        if layout.size() <= SMALL {
            // SAFETY: of the caller.
            return Self::given(unsafe { MiMalloc.alloc_zeroed(layout) });
        }
        // SAFETY: of the caller.
        Self::given(unsafe { large::alloc_zeroed(layout) })
    }

    #[inline]
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        Self::count(-(layout.size() as i64));
        if layout.size() <= SMALL {
            // SAFETY: of the caller. A block of this size came from there.
            return unsafe { MiMalloc.dealloc(at, layout) };
        }
        // SAFETY: as above.
        unsafe { large::dealloc(at, layout) }
    }

    #[inline]
    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if (layout.size() <= SMALL) != (size <= SMALL) {
            // SAFETY: of the caller: the size is not zero and does not overflow with the alignment,
            // and both blocks have at least the bytes that are copied.
            unsafe {
                let new = self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
                if !new.is_null() {
                    at.copy_to_nonoverlapping(new, layout.size().min(size));
                    self.dealloc(at, layout);
                }
                return new;
            }
        }
        // SAFETY: of the caller. The new block is on the same side as the old one.
        let new = unsafe {
            match size <= SMALL {
                true => MiMalloc.realloc(at, layout, size),
                false => large::realloc(at, layout, size),
            }
        };
        if new.is_null() {
            over();
        }
        Self::count(size as i64 - layout.size() as i64);
        new
    }
}

/// Ends the process, if it knows how to.
#[cold]
fn over() {
    if let Some(end) = END.get() {
        end();
    }
}
