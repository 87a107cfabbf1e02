//! Blocks that are not small: those of the C library on Linux, of the system elsewhere. On Linux,
//! large ones lie in large pages.

#[cfg(target_os = "linux")]
pub use linux::{alloc, alloc_zeroed, dealloc, realloc};
#[cfg(not(target_os = "linux"))]
pub use others::{alloc, alloc_zeroed, dealloc, realloc};

#[cfg(target_os = "linux")]
#[allow(unsafe_code, reason = "the C library has no safe interface")]
mod linux {
    use std::alloc::Layout;
    use std::ptr;

    /// A large page of x86-64. New blocks of at least this size begin at a multiple of it, so that
    /// they contain a whole one. Zeroed blocks and those that grow begin where the C library has
    /// room.
    const LARGE: usize = 2 << 20;

    /// The alignment of every block of `malloc`.
    const ANY: usize = align_of::<libc::max_align_t>();

    /// Asks for large pages for memory of which most has not been touched. The system handles the
    /// first access to every page, and with small pages that takes longer than to write their
    /// content (docs/adr/069-sizes.md).
    fn in_large_pages(at: *mut u8, bytes: usize) -> *mut u8 {
        if bytes >= LARGE && !at.is_null() {
            const PAGE: usize = 4096;
            let first = at.align_offset(PAGE);
            let whole = (bytes - first) & !(PAGE - 1);
            // SAFETY: these pages are inside the allocation, and the advice changes no contents. It
            // is refused where the pages are larger than 4 KiB and the address is not a multiple of
            // them.
            unsafe { libc::madvise(at.wrapping_add(first).cast(), whole, libc::MADV_HUGEPAGE) };
        }
        at
    }

    pub unsafe fn alloc(layout: Layout) -> *mut u8 {
        let align = if layout.size() >= LARGE { LARGE.max(layout.align()) } else { layout.align() };
        if align <= ANY {
            // SAFETY: a call without conditions.
            return unsafe { libc::malloc(layout.size()) }.cast();
        }
        let mut at = ptr::null_mut();
        // SAFETY: the alignment is a power of two and a multiple of the size of a pointer.
        let failed = unsafe { libc::posix_memalign(&raw mut at, align, layout.size()) } != 0;
        if failed { ptr::null_mut() } else { in_large_pages(at.cast(), layout.size()) }
    }

    pub unsafe fn alloc_zeroed(layout: Layout) -> *mut u8 {
        if layout.align() <= ANY {
            // Memory that is new from the system is zero already, so it is not aligned and written.
            // SAFETY: a call without conditions.
            return in_large_pages(unsafe { libc::calloc(layout.size(), 1) }.cast(), layout.size());
        }
        // SAFETY: of the caller; the block has at least these bytes.
        unsafe {
            let at = alloc(layout);
            if !at.is_null() {
                at.write_bytes(0, layout.size());
            }
            at
        }
    }

    pub unsafe fn dealloc(at: *mut u8, _layout: Layout) {
        // SAFETY: of the caller: it is a block of the C library, whatever its alignment.
        unsafe { libc::free(at.cast()) };
    }

    pub unsafe fn realloc(at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if layout.align() > ANY || (layout.size() < LARGE && size >= LARGE) {
            // SAFETY: of the caller: the size is not zero and does not overflow with the alignment,
            // and both blocks have at least the bytes that are copied.
            unsafe {
                let new = alloc(Layout::from_size_align_unchecked(size, layout.align()));
                if !new.is_null() {
                    at.copy_to_nonoverlapping(new, layout.size().min(size));
                    dealloc(at, layout);
                }
                return new;
            }
        }
        // SAFETY: of the caller.
        let new: *mut u8 = unsafe { libc::realloc(at.cast(), size) }.cast();
        if size > layout.size() { in_large_pages(new, size) } else { new }
    }
}

#[cfg(not(target_os = "linux"))]
#[allow(unsafe_code, reason = "an allocator has no safe interface")]
mod others {
    use std::alloc::{GlobalAlloc, Layout, System};

    pub unsafe fn alloc(layout: Layout) -> *mut u8 {
        // SAFETY: of the caller, here and below.
        unsafe { System.alloc(layout) }
    }

    pub unsafe fn alloc_zeroed(layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    pub unsafe fn dealloc(at: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(at, layout) }
    }

    pub unsafe fn realloc(at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as above.
        unsafe { System.realloc(at, layout, size) }
    }
}
