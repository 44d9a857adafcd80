//! Runs work on big zones on several threads.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::arena::CHUNK;

/// The most threads that finish one zone.
const MAX_THREADS: usize = 8;

/// Returns the number of threads that finish a zone of this many bytes: one for each chunk of the arena, at
/// most the number of CPUs and [`MAX_THREADS`].
pub(super) fn threads_for(bytes: usize) -> usize {
    match bytes.div_ceil(CHUNK) {
        0 | 1 => 1,
        chunks => std::thread::available_parallelism().map_or(1, usize::from).min(chunks).min(MAX_THREADS),
    }
}

/// Runs `work` for the numbers below `jobs` on up to `threads` threads, until one fails.
pub(crate) fn in_parallel<E: Send>(
    threads: usize,
    jobs: usize,
    work: impl Fn(usize) -> Result<(), E> + Sync,
) -> Result<(), E> {
    let next = AtomicUsize::new(0);
    let failed = Mutex::new(None);
    on_threads(threads.min(jobs), || {
        while let Some(job) = Some(next.fetch_add(1, Relaxed)).filter(|&job| job < jobs) {
            if let Err(error) = work(job) {
                next.store(jobs, Relaxed);
                lock(&failed).get_or_insert(error);
            }
        }
    });
    failed.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
}

/// Calls `work` with each of `items` on up to `threads` threads. Returns the results in any order.
pub(super) fn each<I: Send, O: Send>(threads: usize, items: Vec<I>, work: impl Fn(I) -> O + Sync) -> Vec<O> {
    let threads = threads.min(items.len());
    let items = Mutex::new(items.into_iter());
    let done = Mutex::new(Vec::new());
    let next = || lock(&items).next();
    on_threads(threads, || {
        while let Some(item) = next() {
            let made = work(item);
            lock(&done).push(made);
        }
    });
    done.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Calls `run` on up to `threads` threads at once, including this one; on this one alone if no other can be
/// started.
fn on_threads(threads: usize, run: impl Fn() + Sync) {
    if threads <= 1 {
        return run();
    }
    std::thread::scope(|scope| {
        for _ in 1..threads {
            let _ = std::thread::Builder::new().name("zone-part".into()).spawn_scoped(scope, &run);
        }
        run();
    });
}

/// Data that a panicked thread has left behind are never read: the scope panics, too.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_job_is_done_once_and_the_first_failure_is_returned() {
        for threads in [1, 2, 7] {
            let sum = AtomicUsize::new(0);
            let done = in_parallel(threads, 100, |i| {
                sum.fetch_add(i, Relaxed);
                Ok::<(), ()>(())
            });
            assert_eq!((done, sum.into_inner()), (Ok(()), 4950));
            assert_eq!(in_parallel(threads, 9, |i| if i == 5 { Err(i) } else { Ok(()) }), Err(5));
        }
    }

    #[test]
    fn each_item_is_worked_on_once() {
        for threads in [0, 1, 3, 200] {
            let mut made = each(threads, (0..100).collect(), |i: u32| i * 2);
            made.sort_unstable();
            assert_eq!(made, (0..100).map(|i| i * 2).collect::<Vec<_>>());
        }
    }
}
