//! Process settings made at the start: reuse of freed memory, and files that must not grow.

/// Size of the largest block that is kept. Larger blocks return to the system at once. The C
/// library allows no larger value.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const KEPT: i32 = 32 << 20;

/// Keeps freed memory for later allocations. By default the C library returns large blocks to the
/// system and gets new ones page by page; a run that makes one tensor after another then spends a
/// third of its time on that.
pub fn keep_freed_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    #[allow(unsafe_code, reason = "settings of the C library's allocator have no safe entry")]
    // SAFETY: the two numbers are valid for these settings, which change where memory comes from
    // and nothing else; no other thread has been started.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, KEPT);
        libc::mallopt(libc::M_TRIM_THRESHOLD, i32::MAX);
    }
}

/// Turns a file that exceeds its size limit (`ulimit -f`) into a failed write instead of the end of
/// the process.
pub fn write_errors() {
    #[cfg(unix)]
    #[allow(unsafe_code, reason = "signals have no safe entry")]
    // SAFETY: the signal exists, and being ignored it calls nothing.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
    }
}
