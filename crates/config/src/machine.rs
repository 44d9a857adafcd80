//! The memory available to the process, from which the defaults of other limits follow.

use std::fs;
use std::path::{Path, PathBuf};

/// Largest default of the memory of one transfer in bytes, however large the machine is.
const MAX_TRANSFER_BYTES: u64 = 16 << 30;
/// The memory in bytes that is assumed if the system does not report it.
const ASSUMED_MEMORY_BYTES: u64 = 4 << 30;

/// Returns the default of the memory in bytes that all incoming transfers may take together, with the zones
/// built from them: half of the memory available to the process.
pub fn usual_memory() -> u64 {
    machine_memory(Path::new("/")).unwrap_or(ASSUMED_MEMORY_BYTES) / 2
}

/// Returns the default of the largest size of one transfer, in bytes.
pub fn usual_size() -> u64 {
    (usual_memory() / 2).min(MAX_TRANSFER_BYTES)
}

/// Returns the memory available to the process in bytes: the machine's, or the limit of its control group.
fn machine_memory(root: &Path) -> Option<u64> {
    let meminfo = fs::read_to_string(root.join("proc/meminfo")).ok()?;
    let total = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let total = total.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)?;
    Some(group_memory(root).map_or(total, |limit| limit.min(total)))
}

/// Returns the smallest `memory.max` of the process's control group and its ancestors.
fn group_memory(root: &Path) -> Option<u64> {
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
    let group = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let mut folder: PathBuf = root.join("sys/fs/cgroup").join(group);
    let mut least = None;
    while folder.starts_with(root.join("sys/fs/cgroup")) {
        let limit = fs::read_to_string(folder.join("memory.max")).ok();
        let limit = limit.and_then(|text| text.trim().parse::<u64>().ok());
        least = [least, limit].into_iter().flatten().min();
        folder.pop();
    }
    least
}

/// Returns the name of the host, of at most so many characters.
pub fn host_name(most: usize) -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name: String = name.trim().chars().take(most).collect();
    if name.is_empty() { "nomen".into() } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_is_what_a_control_group_leaves_of_the_machine() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().expect("a parent")).expect("made");
            fs::write(path, text).expect("written");
        };
        assert_eq!(machine_memory(folder.path()), None);
        write("proc/meminfo", "MemTotal:       2048 kB\nMemFree: 1 kB\n");
        assert_eq!(machine_memory(folder.path()), Some(2 << 20));
        write("proc/self/cgroup", "0::/a/b\n");
        write("sys/fs/cgroup/a/b/memory.max", "max\n");
        assert_eq!(machine_memory(folder.path()), Some(2 << 20));
        write("sys/fs/cgroup/a/memory.max", "1048576\n");
        assert_eq!(machine_memory(folder.path()), Some(1 << 20));
    }
}
