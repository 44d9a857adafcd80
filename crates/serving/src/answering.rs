//! What threads have in common that clients wait for.

use sandbox::kinds::{ThreadKind, confine};
use threads::scheduling::slice;

/// Prepares the calling thread: it hardly waits for other threads of its CPU, and opens no files, since what
/// is read from disk for an answer is read by other threads.
pub(crate) fn begin() {
    slice::shorten();
    confine(ThreadKind::Network);
}
