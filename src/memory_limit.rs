//! Memory limit: how much memory a process may take, and the end of a process that takes more.
//!
//! Sizes that follow from the input are compared with the limit before the work begins
//! ([`kbc_compiler::memory_budget`]). Everything else is counted as it is allocated
//! ([`kbc_allocator::CountingAllocator`]): a process that takes more than it may, or gets nothing
//! any more, ends with E369 as any wrong input does, and not with a signal.

use crate::cli::DiagnosticFormat;
use kbc_compiler::memory_budget::VARIABLE;
use kbc_diag::Diagnostic;
use std::fs;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

/// Share of the memory that is left to other processes, in percent.
const SPARED: u64 = 10;

/// Returns the number of bytes that this process may hold, or None if no limit is known.
pub fn limit() -> Option<u64> {
    static LIMIT: OnceLock<Option<u64>> = OnceLock::new();
    *LIMIT.get_or_init(|| match std::env::var(VARIABLE).ok().and_then(|t| bytes(&t)) {
        Some(said) => Some(said),
        None => available().map(|n| n / 100 * (100 - SPARED)),
    })
}

/// Checks the value of the variable.
///
/// # Errors
/// Returns E413 if it is not a size.
pub fn check_variable() -> Result<(), Diagnostic> {
    match std::env::var(VARIABLE) {
        Ok(text) if bytes(&text).is_none() => {
            Err(Diagnostic::error("E413", format!("{VARIABLE}={text} is not a number of bytes"))
                .help(format!("write {VARIABLE}=8GiB, or unset it")))
        }
        _ => Ok(()),
    }
}

/// Parses a size: `8GiB`, `500 MB`, `1000000`.
pub fn bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let unit: u64 = match unit.trim() {
        "" | "B" => 1,
        "KB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(unit).filter(|n| *n > 0)
}

/// Returns the bytes that the system has for this process in addition to those that it holds.
fn available() -> Option<u64> {
    [in_system(), in_group(), in_addresses()].into_iter().flatten().min()
}

/// Returns what the system can give without swapping.
fn in_system() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|l| l.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// Returns the remaining memory of the control group.
fn in_group() -> Option<u64> {
    let number = |path: &str| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let left = |most: &str, used: &str| Some(number(most)?.saturating_sub(number(used)?));
    let second = left("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current");
    second.or_else(|| {
        let folder = "/sys/fs/cgroup/memory";
        left(&format!("{folder}/memory.limit_in_bytes"), &format!("{folder}/memory.usage_in_bytes"))
    })
}

/// Returns the remaining address space of the process (`ulimit -v`).
#[cfg(target_os = "linux")]
fn in_addresses() -> Option<u64> {
    let mut most = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    #[allow(unsafe_code, reason = "limits of the process have no safe entry")]
    // SAFETY: the structure exists, and nothing else is written.
    let failed = unsafe { libc::getrlimit(libc::RLIMIT_AS, &raw mut most) } != 0;
    if failed || most.rlim_cur == libc::RLIM_INFINITY {
        return None;
    }
    let pages = fs::read_to_string("/proc/self/statm").ok()?;
    let used = pages.split(' ').next()?.parse::<u64>().ok()?.checked_mul(4096)?;
    // Stacks of threads and machine code take memory that is not counted.
    Some(most.rlim_cur.saturating_sub(used) / 10 * 8)
}

#[cfg(not(target_os = "linux"))]
fn in_addresses() -> Option<u64> {
    None
}

/// Form of the message of a run that exceeds the limit.
static FORM: AtomicU8 = AtomicU8::new(0);

/// From now on, a process that exceeds the limit ends with E369.
pub fn guard(format: DiagnosticFormat) {
    let form = match format {
        DiagnosticFormat::Human => 0,
        DiagnosticFormat::Short => 1,
        DiagnosticFormat::Json => 2,
    };
    FORM.store(form, Ordering::Relaxed);
    kbc_allocator::limit_to(limit(), over);
}

/// Reports that there is no memory left, without allocating, and ends the process as for wrong
/// input.
#[cold]
fn over() -> ! {
    let text: &[u8] = match FORM.load(Ordering::Relaxed) {
        0 => {
            b"[E369] error: this needs more memory than the limit of kbc\n  help: use smaller sizes or fewer ranks, or raise the limit with KBC_MEMORY=8GiB\n"
        }
        1 => b"error[E369]: this needs more memory than the limit of kbc\n",
        _ => {
            b"{\"code\":\"E369\",\"severity\":\"error\",\"title\":\"this needs more memory than the limit of kbc\",\"labels\":[],\"notes\":[],\"help\":\"use smaller sizes or fewer ranks, or raise the limit with KBC_MEMORY=8GiB\"}\n"
        }
    };
    let _ = std::io::Write::write_all(&mut Raw, text);
    end()
}

/// Writes to standard error without the locks and buffers of the library, which the thread that ran
/// out of memory may hold.
struct Raw;

impl std::io::Write for Raw {
    #[cfg(unix)]
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        #[allow(unsafe_code, reason = "the library's standard error may be locked by this thread")]
        // SAFETY: the bytes exist and are only read.
        let n = unsafe { libc::write(2, bytes.as_ptr().cast(), bytes.len()) };
        usize::try_from(n).map_err(|_| std::io::ErrorKind::Other.into())
    }

    #[cfg(not(unix))]
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        std::io::stderr().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(unix)]
fn end() -> ! {
    #[allow(unsafe_code, reason = "handlers at the exit would allocate")]
    // SAFETY: the call does not return.
    unsafe {
        libc::_exit(1)
    }
}

#[cfg(not(unix))]
fn end() -> ! {
    std::process::abort()
}
