//! Parts of a zone on several threads at once.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// Calls `work` for the numbers below `jobs` on up to `threads` threads, including this one. Returns the
/// results in order.
///
/// # Errors
/// One of those of `work`, which ends the work.
pub fn parts<T: Send, E: Send>(
    threads: usize,
    jobs: usize,
    work: impl Fn(usize) -> Result<T, E> + Sync,
) -> Result<Vec<T>, E> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::with_capacity(jobs));
    let run = || {
        while let Some(job) = Some(next.fetch_add(1, Relaxed)).filter(|&job| job < jobs) {
            let made = work(job);
            if made.is_err() {
                next.store(jobs, Relaxed);
            }
            done.lock().unwrap_or_else(PoisonError::into_inner).push((job, made));
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.min(jobs) {
            // If the system refuses a thread, the others do its work.
            let _ = std::thread::Builder::new().name("sign-part".into()).spawn_scoped(scope, run);
        }
        run();
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_unstable_by_key(|(job, _)| *job);
    done.into_iter().map(|(_, made)| made).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_order_and_a_failure_ends_the_work() {
        for threads in [0, 1, 2, 7] {
            let squares = parts(threads, 100, |i| Ok::<usize, ()>(i * i));
            assert_eq!(squares, Ok((0..100).map(|i| i * i).collect()));
            assert_eq!(parts(threads, 9, |i| if i == 5 { Err(i) } else { Ok(i) }), Err(5));
        }
    }
}
