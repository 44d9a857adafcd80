//! Work that no client waits for: it gets the CPUs when no other work wants them, or a small share of them.
//!
//! The work is done on a thread of its own, of low priority; the one that wants it done waits, and has its
//! priority. So only the work itself is slow while others want the CPUs, and not what goes before and after
//! it: locks are taken, and messages sent and received, by the thread that waits. Work that takes a lock for
//! which others wait does not belong here, since they would wait as long as it does.
//!
//! So a thread of low priority holds nothing that others wait for. The order of the nodes of a zone, which
//! two threads may need at the same time, both of them compute.

use std::panic::resume_unwind;
use std::thread;

use rustix::process::setpriority_process;

/// What work gets of the CPUs that others want as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Share {
    /// Next to nothing: some hundredths of what others get. It can wait for as long as it takes.
    Least,
    /// A tenth of what others get. Others do not wait for it, but what it saves grows until it is done:
    /// memory, or room on the disk.
    Tenth,
}

impl Share {
    /// The nice value: from each to the next one, threads get a quarter more.
    fn nice(self) -> i32 {
        match self {
            Share::Least => 19,
            Share::Tenth => 10,
        }
    }
}

/// Does some work, and returns what it comes to. Where the system does not let it have a thread or a priority
/// of its own, it is done with those of the caller.
pub fn spare<T: Send>(share: Share, mut work: impl FnMut() -> T + Send) -> T {
    let done = thread::scope(|scope| {
        let begin = || {
            // Of Linux, threads have priorities, not processes.
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

    /// Of the thread that asks.
    fn nice() -> i32 {
        getpriority_process(None).expect("a priority")
    }

    #[test]
    fn work_has_a_lower_priority_than_the_thread_that_waits_for_it() {
        let own = nice();
        for (share, expected) in [(Share::Least, 19), (Share::Tenth, 10)] {
            // The process of the tests may have a low priority already.
            assert_eq!(spare(share, nice), expected.max(own));
            assert_eq!(nice(), own);
        }
    }

    #[test]
    fn work_may_borrow_and_its_panics_are_those_of_the_caller() {
        let text = String::from("borrowed");
        assert_eq!(spare(Share::Least, || text.len()), 8);
        let panic = catch_unwind(|| spare(Share::Least, || resume_unwind(Box::new("its own")))).err();
        assert_eq!(panic.and_then(|panic| panic.downcast_ref::<&str>().copied()), Some("its own"));
    }
}
