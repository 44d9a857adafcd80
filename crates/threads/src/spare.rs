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
use std::thread;

use rustix::process::setpriority_process;

/// The CPU share of low-priority work under contention.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CpuShare {
    /// Some hundredths of what other threads receive. For work that can take any time.
    Least,
    /// A tenth of what other threads receive. No thread waits for the work, but the memory or disk space it
    /// saves grows until it is done.
    Tenth,
}

impl CpuShare {
    /// Returns the nice value: with each step down, a thread receives a quarter more.
    fn nice(self) -> i32 {
        match self {
            CpuShare::Least => 19,
            CpuShare::Tenth => 10,
        }
    }
}

/// Runs work at low priority and returns its result. If the system refuses a thread or a priority, the work
/// runs with the caller's.
pub fn spare<T: Send>(share: CpuShare, mut work: impl FnMut() -> T + Send) -> T {
    let done = thread::scope(|scope| {
        let begin = || {
            // On Linux, threads have priorities, not processes.
            let _ = setpriority_process(None, share.nice());
            work()
        };
        let name = thread::current().name().unwrap_or("spare").to_owned();
        let thread = thread::Builder::new().name(name).spawn_scoped(scope, begin).ok()?;
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
        for (share, expected) in [(CpuShare::Least, 19), (CpuShare::Tenth, 10)] {
            // The test process may have a low priority already.
            assert_eq!(spare(share, nice), expected.max(own));
            assert_eq!(nice(), own);
        }
    }

    #[test]
    fn work_may_borrow_and_its_panics_are_those_of_the_caller() {
        let text = String::from("borrowed");
        assert_eq!(spare(CpuShare::Least, || text.len()), 8);
        let panic = catch_unwind(|| spare(CpuShare::Least, || resume_unwind(Box::new("its own")))).err();
        assert_eq!(panic.and_then(|panic| panic.downcast_ref::<&str>().copied()), Some("its own"));
    }
}
