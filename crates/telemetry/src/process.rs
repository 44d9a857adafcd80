//! The process itself: its start time and its resource usage.

use std::time::{Duration, Instant, SystemTime};

use nix::sys::resource::{Resource, UsageWho, getrlimit, getrusage};

/// The start time of the process.
#[derive(Debug, Clone, Copy)]
pub struct Process {
    /// As wall clock time.
    pub started: SystemTime,
    /// As an instant, for durations.
    pub since: Instant,
}

impl Process {
    /// Returns the current time as the start time.
    pub fn start() -> Self {
        Process { started: SystemTime::now(), since: Instant::now() }
    }
}

/// The user and group that the process changes to, or that own what it makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UserIds {
    /// User number.
    pub uid: u32,
    /// Group number; the only group kept.
    pub gid: u32,
}

/// Returns whether the process runs as root.
pub fn is_root() -> bool {
    nix::unistd::Uid::effective().is_root()
}

/// Returns the resident memory of the process in bytes, as the kernel reports it.
pub fn resident_memory() -> Option<u64> {
    memory("VmRSS:")
}

/// Returns the address space of the process in bytes, as the kernel reports it.
pub fn virtual_memory() -> Option<u64> {
    memory("VmSize:")
}

/// Returns a field of `/proc/self/status` in bytes; the file has units of 1024 bytes.
fn memory(field: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix(field))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib * 1024)
}

/// Returns the CPU time of all threads of the process, in user space and in the kernel.
pub fn cpu_time() -> Option<Duration> {
    let usage = getrusage(UsageWho::RUSAGE_SELF).ok()?;
    let time = usage.user_time() + usage.system_time();
    let (seconds, micros) = (u64::try_from(time.tv_sec()).ok()?, u32::try_from(time.tv_usec()).ok()?);
    Some(Duration::new(seconds, micros * 1000))
}

/// Returns the number of open file descriptors.
pub fn open_descriptors() -> Option<u64> {
    let open = std::fs::read_dir("/proc/self/fd").ok()?.count();
    // The folder itself is open while it is read.
    Some(open.saturating_sub(1) as u64)
}

/// Returns the limit of open file descriptors.
pub fn max_descriptors() -> Option<u64> {
    getrlimit(Resource::RLIMIT_NOFILE).ok().map(|(soft, _)| soft)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_reports_what_the_process_takes() {
        assert!(resident_memory().is_some_and(|bytes| bytes > 100_000));
        assert!(virtual_memory() >= resident_memory());
        assert!(cpu_time().is_some());
        let files: Vec<std::fs::File> =
            (0..50).map(|_| std::fs::File::open("/dev/null").expect("opened")).collect();
        // Other tests open and close files at the same time.
        assert!(open_descriptors().is_some_and(|open| open >= files.len() as u64));
        assert!(max_descriptors() >= open_descriptors());
    }
}
