//! What the process asks of the system before it begins: memory that it has freed, files that may not grow.

/// Largest block that is kept; larger ones go back to the system at once. The C library allows no more.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const KEPT: i32 = 32 << 20;

/// Keeps freed memory for what is allocated next. By default the C library gives large blocks back to the system and gets new ones
/// page by page: a run that makes one tensor after another then spends a third of its time there.
pub fn keep() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    #[allow(unsafe_code, reason = "settings of the C library's allocator have no safe entry")]
    // SAFETY: the two numbers are valid for these settings, which change where memory comes from and nothing else; no other
    // thread has been started.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, KEPT);
        libc::mallopt(libc::M_TRIM_THRESHOLD, i32::MAX);
    }
}

/// A file that grows beyond what it may (`ulimit -f`) is a write that fails, and not the end of the process.
pub fn write_errors() {
    #[cfg(unix)]
    #[allow(unsafe_code, reason = "signals have no safe entry")]
    // SAFETY: the signal exists, and being ignored it calls nothing.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
    }
}
