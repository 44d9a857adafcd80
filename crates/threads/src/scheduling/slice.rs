//! Short slices of CPU time for threads that clients wait for.
//!
//! Linux gives the threads of a CPU slices of time in turn, of three milliseconds by default. A thread that
//! wakes interrupts another one only if its own slices are shorter (Linux 6.12 and later), else it can wait
//! for the end of the slice. So a thread that answers queries asks for short ones: work of other threads, of
//! this process and of others, hardly delays an answer. Its share of the CPU stays the same, and it is
//! interrupted as often as it interrupts: only while threads compete for a CPU.

use libc::{SCHED_BATCH, SCHED_OTHER, SYS_sched_getattr, SYS_sched_setattr, c_long, syscall};

/// The shortest slice that Linux has, in nanoseconds.
const SHORTEST: u64 = 100_000;

/// Linux's `struct sched_attr` in its first version, which all later kernels take.
#[repr(C)]
#[derive(Debug, Default)]
struct Attributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    /// The slice in nanoseconds, if the policy is one without real-time priorities. Earlier kernels ignore
    /// it.
    runtime: u64,
    deadline: u64,
    period: u64,
}

const SIZE: u32 = size_of::<Attributes>() as u32;

/// Returns the attributes of the calling thread; `None` if the system does not say.
fn attributes() -> Option<Attributes> {
    let mut own = Attributes::default();
    // SAFETY: the call writes at most `SIZE` bytes to `own`, which lives as long as the call; thread 0 is the
    // calling one.
    let result: c_long = unsafe { syscall(SYS_sched_getattr, 0, &raw mut own, SIZE, 0) };
    (result == 0).then_some(own)
}

/// Gives the calling thread the shortest slices, if the kernel lets threads choose them, and changes nothing
/// else. A thread with a real-time priority, which waits for no other one, keeps what it has.
pub fn shorten() {
    let Some(mut own) = attributes() else { return };
    let has_slices =
        [SCHED_OTHER, SCHED_BATCH].iter().any(|&policy| i64::from(policy) == i64::from(own.policy));
    if !has_slices {
        return;
    }
    (own.size, own.runtime) = (SIZE, SHORTEST);
    // SAFETY: the call reads `SIZE` bytes of `own`, which lives as long as the call; thread 0 is the calling
    // one. If it fails, the thread has the slices of before.
    unsafe { syscall(SYS_sched_setattr, 0, &raw const own, 0) };
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn slices_are_shorter_and_all_else_stays() {
        let changed = || {
            let before = attributes().expect("attributes");
            shorten();
            (before, attributes().expect("attributes"))
        };
        let (before, after) = thread::spawn(changed).join().expect("no panic");
        assert_eq!((after.policy, after.nice, after.flags), (before.policy, before.nice, before.flags));
        // Kernels before 6.12 have one length for all threads, and report none.
        let shortest = if before.runtime == 0 { 0 } else { SHORTEST };
        assert_eq!(after.runtime, shortest);
        assert_eq!(attributes().expect("attributes").runtime, before.runtime, "other threads keep theirs");
    }
}
