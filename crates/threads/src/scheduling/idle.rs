//! Linux's scheduling policy for threads that run only while no other thread is ready to run (SCHED_IDLE).
//!
//! A thread with a high nice value gets few slices of time, but each of them as long as any other: a thread
//! that wakes waits up to three milliseconds for the end of it. A thread with this policy is interrupted by
//! any other. If the CPUs are never idle, it gets three thousandths of the time of another thread; so the
//! thread that waits for it takes the policy back after two seconds. Linux allows that if the limit
//! RLIMIT_NICE includes the thread's nice value, or with CAP_SYS_NICE, and without either no thread gets the
//! policy here.

use libc::{SCHED_IDLE, SCHED_OTHER, SYS_gettid, SYS_sched_setscheduler, c_int, c_long, pid_t, syscall};
use rustix::process::{Resource, Rlimit, getrlimit, setpriority_process, setrlimit};

/// A thread that has the policy, or had it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IdleThread(pid_t);

/// Returns the limit that includes a nice value.
fn limit_of(nice: i32) -> u64 {
    (20 - nice).unsigned_abs().into()
}

/// Whether the policy can be taken back from the calling thread, which has this nice value: its limit
/// includes the value, or the thread may set any value (CAP_SYS_NICE).
pub(crate) fn is_revocable(nice: i32) -> bool {
    let is_included = |limit: Option<u64>| limit.is_none_or(|limit| limit >= limit_of(nice));
    let may_set_any = || {
        let is_set = setpriority_process(None, nice - 1).is_ok();
        let _ = setpriority_process(None, nice);
        is_set
    };
    is_included(getrlimit(Resource::Nice).current) || may_set_any()
}

/// Raises the limit to include a nice value, if the process may.
pub(crate) fn allow(nice: i32) {
    let Rlimit { current, maximum } = getrlimit(Resource::Nice);
    let raised = |limit: Option<u64>| limit.map(|limit| limit.max(limit_of(nice)));
    let _ = setrlimit(Resource::Nice, Rlimit { current: raised(current), maximum: raised(maximum) });
}

/// Sets the policy of a thread; 0: of the calling one. Returns whether the system did.
fn set_policy(thread: pid_t, policy: c_int) -> bool {
    // The C library of static builds has no function for it. Both policies need the priority 0.
    let priority: c_int = 0;
    // SAFETY: `sched_param` consists of the priority, and lives as long as the call, which only reads it.
    let result: c_long = unsafe { syscall(SYS_sched_setscheduler, thread, policy, &raw const priority) };
    result == 0
}

impl IdleThread {
    /// Gives the policy to the calling thread, which has this nice value; `None` if it is not to have it.
    pub(crate) fn begin(nice: i32) -> Option<Self> {
        // SAFETY: the call has no arguments and always succeeds.
        let thread = unsafe { syscall(SYS_gettid) };
        let thread = pid_t::try_from(thread).ok()?;
        let has_it = is_revocable(nice) && set_policy(0, SCHED_IDLE);
        if has_it {
            // For threads that wait for this CPU already the policy counts only at the next tick, up to 4 ms
            // later, unless the thread gives up the CPU.
            std::thread::yield_now();
        }
        has_it.then_some(IdleThread(thread))
    }

    /// Takes the policy back: its nice value decides what the thread gets.
    pub(crate) fn end(self) {
        // If it fails, the thread has ended.
        set_policy(self.0, SCHED_OTHER);
    }
}
