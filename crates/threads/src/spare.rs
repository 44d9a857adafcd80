//! Work that no client waits for: it runs when no other work needs the CPUs, or with a small share of them.
//!
//! The work runs on its own thread, at low priority; the calling thread waits, and keeps its priority. So
//! only the work itself is slow while other threads need the CPUs, and not what precedes and follows it: the
//! calling thread takes locks, and sends and receives messages. Work that takes a contended lock does not
//! belong here, since the other threads would wait for as long as it runs.
//!
//! So a low-priority thread holds nothing that others wait for. The order of the nodes of a zone, which two
//! threads may need at the same time, is computed by both of them.

use std::panic::resume_unwind;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use rustix::process::setpriority_process;

use crate::scheduling::idle::{self, IdleThread};

/// How long work with [`CpuShare::Rest`] gets only what other threads leave.
const PATIENCE: Duration = Duration::from_secs(2);

/// The CPU share of low-priority work under contention.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CpuShare {
    /// Some hundredths of what other threads receive. For work that can take any time.
    Least,
    /// A tenth of what other threads receive. No thread waits for the work, but the memory or disk space it
    /// saves grows until it is done.
    Tenth,
    /// What other threads leave, and they never wait for the end of a slice of time that the work has; after
    /// two seconds, a tenth of what other threads receive. For work that is to end soon, beside which queries
    /// are answered. A tenth at once if the process may not [take back](allow_rest) such a priority.
    Rest,
}

/// Lets the process use [`CpuShare::Rest`], if it may raise its limit of nice values (RLIMIT_NICE) to 10.
/// To be called before root is given up.
pub fn allow_rest() {
    idle::allow(CpuShare::Rest.nice());
}

impl CpuShare {
    /// Returns the nice value: with each step down, a thread receives a quarter more.
    fn nice(self) -> i32 {
        match self {
            CpuShare::Least => 19,
            CpuShare::Tenth | CpuShare::Rest => 10,
        }
    }
}

/// Runs work at low priority and returns its result. If the system refuses a thread or a priority, the work
/// runs with the caller's.
pub fn spare<T: Send>(share: CpuShare, work: impl FnMut() -> T + Send) -> T {
    spare_for(share, PATIENCE, work)
}

fn spare_for<T: Send>(share: CpuShare, patience: Duration, mut work: impl FnMut() -> T + Send) -> T {
    let done = thread::scope(|scope| {
        let (begun, idle) = channel();
        let work = &mut work;
        let begin = move || {
            // On Linux, threads have priorities, not processes.
            let _ = setpriority_process(None, share.nice());
            // Its drop at the end of the work ends the caller's patience.
            let _begun: Option<Sender<IdleThread>> = match share {
                CpuShare::Rest => IdleThread::begin(share.nice()).and_then(|thread| {
                    begun.send(thread).ok()?;
                    Some(begun)
                }),
                CpuShare::Least | CpuShare::Tenth => None,
            };
            work()
        };
        let name = thread::current().name().unwrap_or("spare").to_owned();
        let thread = thread::Builder::new().name(name).spawn_scoped(scope, begin).ok()?;
        if let Ok(slow) = idle.recv()
            && idle.recv_timeout(patience).err() == Some(RecvTimeoutError::Timeout)
        {
            slow.end();
        }
        Some(thread.join().unwrap_or_else(|panic| resume_unwind(panic)))
    });
    done.unwrap_or_else(work)
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use rustix::process::getpriority_process;

    use super::*;

    /// The nice value of the calling thread.
    fn nice() -> i32 {
        getpriority_process(None).expect("a priority")
    }

    #[test]
    fn work_has_a_lower_priority_than_the_thread_that_waits_for_it() {
        let own = nice();
        for (share, expected) in [(CpuShare::Least, 19), (CpuShare::Tenth, 10), (CpuShare::Rest, 10)] {
            // The test process may have a low priority already.
            assert_eq!(spare(share, nice), expected.max(own));
            assert_eq!(nice(), own);
        }
    }

    /// The scheduling policy of the calling thread.
    fn policy() -> i32 {
        let stat = std::fs::read_to_string("/proc/thread-self/stat").expect("a thread");
        // The name, which may have spaces, is in brackets; the fields after it count from 3 on.
        let fields = stat.rsplit_once(')').expect("a name").1;
        fields.split_whitespace().nth(41 - 3).and_then(|policy| policy.parse().ok()).expect("a policy")
    }

    #[test]
    fn work_gets_what_other_threads_leave_and_a_tenth_if_that_takes_too_long() {
        const IDLE: i32 = 5;
        let long = Duration::from_secs(600);
        // Without the right to take it back, it would have to stay as it is.
        allow_rest();
        let may = spare_for(CpuShare::Tenth, long, || idle::is_revocable(CpuShare::Tenth.nice()));
        let wanted = if may { IDLE } else { 0 };
        assert_eq!(spare_for(CpuShare::Rest, long, policy), wanted);
        assert_eq!(spare_for(CpuShare::Tenth, long, policy), 0);
        assert_eq!(policy(), 0, "the caller's");
        let until_raised = || {
            while policy() == IDLE {
                thread::yield_now();
            }
            nice()
        };
        assert_eq!(spare_for(CpuShare::Rest, Duration::ZERO, until_raised), 10.max(nice()));
    }

    #[test]
    fn work_may_borrow_and_its_panics_are_those_of_the_caller() {
        let text = String::from("borrowed");
        assert_eq!(spare(CpuShare::Least, || text.len()), 8);
        assert_eq!(spare(CpuShare::Rest, || text.len()), 8);
        for share in [CpuShare::Least, CpuShare::Rest] {
            let panic = catch_unwind(|| spare(share, || resume_unwind(Box::new("its own")))).err();
            assert_eq!(panic.and_then(|panic| panic.downcast_ref::<&str>().copied()), Some("its own"));
        }
    }
}
