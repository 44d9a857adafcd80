//! What wakes a datagram worker that waits for its socket: an event the kernel can wait for beside the socket.
//!
//! Workers with no late answer due wait in `recvmmsg` alone and never look here, so it costs them nothing.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Wake;
use std::time::Duration;

use libc::c_int;

/// Rings until its worker has noticed.
pub(crate) struct Alarm {
    event: File,
    ringing: AtomicBool,
}

impl Alarm {
    /// An alarm that does not ring.
    ///
    /// # Errors
    /// If no descriptor is left.
    pub(crate) fn new() -> io::Result<Arc<Alarm>> {
        // SAFETY: no pointers are passed.
        let fd = unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just made this descriptor for us, and nobody else has it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Arc::new(Alarm { event: fd.into(), ringing: AtomicBool::new(false) }))
    }

    /// Whether it rang since the last call. What was made ready before it was rung can be seen from here on.
    #[inline]
    pub(crate) fn rang(&self) -> bool {
        self.ringing.load(Ordering::Acquire) && self.silence()
    }

    #[cold]
    fn silence(&self) -> bool {
        // The event first: whoever rings after that, but before the flag is down, has made its answer ready by the
        // time the worker looks, and need not ring again. The other way round its event would be taken here, and the
        // flag left up without one.
        let _ = (&self.event).read(&mut [0; 8]);
        self.ringing.swap(false, Ordering::AcqRel)
    }

    /// Waits until `socket` can be read from, the alarm rings or `time` is over. Returns whether one of the first two
    /// happened.
    pub(crate) fn wait_beside(&self, socket: RawFd, time: Duration) -> bool {
        let watch = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        let mut both = [watch(socket), watch(self.event.as_raw_fd())];
        let milliseconds = c_int::try_from(time.as_millis()).unwrap_or(c_int::MAX).max(1);
        // SAFETY: two live `pollfd`s, and the count says two. An error is a wait that ended early.
        unsafe { libc::poll(both.as_mut_ptr(), 2, milliseconds) > 0 }
    }
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.ringing.swap(true, Ordering::AcqRel) {
            // Only a full counter refuses, and then the event is there already.
            let _ = (&self.event).write(&1_u64.to_ne_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_rings_once_however_often_it_is_rung() -> io::Result<()> {
        let alarm = Alarm::new()?;
        assert!(!alarm.rang());
        assert!(!alarm.wait_beside(-1, Duration::from_millis(1)));
        alarm.wake_by_ref();
        alarm.wake_by_ref();
        assert!(alarm.wait_beside(-1, Duration::from_secs(60)));
        assert!(alarm.rang());
        assert!(!alarm.rang());
        assert!(!alarm.wait_beside(-1, Duration::from_millis(1)), "the event is gone, too");
        Ok(())
    }

    #[test]
    fn no_answer_is_left_behind_however_the_threads_meet() -> io::Result<()> {
        use std::sync::atomic::AtomicU64;
        const ANSWERS: u64 = 20_000;
        let (alarm, ready) = (Alarm::new()?, Arc::new(AtomicU64::new(0)));
        let (bell, made) = (Arc::clone(&alarm), Arc::clone(&ready));
        let ringer = std::thread::spawn(move || {
            for _ in 0..ANSWERS {
                made.fetch_add(1, Ordering::Release);
                bell.wake_by_ref();
            }
        });
        let mut seen = 0;
        while seen < ANSWERS {
            assert!(alarm.wait_beside(-1, Duration::from_secs(60)), "an answer is ready and nothing rings");
            if alarm.rang() {
                seen = ready.load(Ordering::Acquire);
            }
        }
        assert!(ringer.join().is_ok());
        Ok(())
    }
}
