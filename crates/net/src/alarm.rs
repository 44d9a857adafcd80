//! The alarm that wakes a datagram worker while it waits for its socket: an eventfd that the kernel waits for
//! together with the socket.
//!
//! Workers without pending late answers wait in `recvmmsg` alone and do not use it, so it costs them nothing.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Wake;
use std::time::Duration;

use crate::ready::Ready;

/// The alarm, links and time limit of a worker's wait, besides its socket.
pub(crate) struct Wait<'a> {
    pub(crate) alarm: &'a Alarm,
    /// Descriptors that are readable when links to other servers have something to read, at most
    /// [`Ready::MAX_DESCRIPTORS`].
    pub(crate) links: &'a [RawFd],
    /// A limit shorter than the worker's own timeout.
    pub(crate) at_most: Option<Duration>,
}

/// The events that ended a wait; none, if it timed out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Woken {
    /// The socket is readable.
    pub(crate) socket: bool,
    /// The alarm rang.
    pub(crate) alarm: bool,
    /// The links' descriptors that are readable.
    pub(crate) links: Ready,
}

impl Woken {
    /// Whether there is any event.
    pub(crate) fn is_woken(self) -> bool {
        self.socket || self.alarm || self.links.any()
    }
}

/// Rings until its worker has called [`rang`](Self::rang).
pub(crate) struct Alarm {
    event: File,
    ringing: AtomicBool,
}

impl Alarm {
    /// Returns an alarm that does not ring.
    ///
    /// # Errors
    /// The system's, if it refuses a descriptor.
    pub(crate) fn new() -> io::Result<Arc<Alarm>> {
        // SAFETY: no pointers are passed.
        let fd = unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just made this descriptor for us, and nothing else owns it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Arc::new(Alarm { event: fd.into(), ringing: AtomicBool::new(false) }))
    }

    /// Returns whether it rang since the last call. Then all data published before the ring are visible to
    /// the caller.
    #[inline]
    pub(crate) fn rang(&self) -> bool {
        self.ringing.load(Ordering::Acquire) && self.silence()
    }

    #[cold]
    fn silence(&self) -> bool {
        // The event is read first: a thread that rings between the two steps has its answer ready by the time
        // the worker looks, and need not ring again. In the other order its event would be consumed here, and
        // the flag would stay set without one.
        self.take_event();
        self.ringing.swap(false, Ordering::AcqRel)
    }

    /// Marks the alarm as ringing without an event, while the worker is awake and checks for answers before
    /// it waits. Returns whether it rang already.
    pub(crate) fn hold(&self) -> bool {
        self.ringing.swap(true, Ordering::AcqRel)
    }

    /// Ends the effect of [`hold`](Self::hold); `rang` is its result. All data published before are visible
    /// to the caller.
    pub(crate) fn release(&self, rang: bool) {
        match rang {
            true => drop(self.silence()),
            false => drop(self.ringing.swap(false, Ordering::AcqRel)),
        }
    }

    fn take_event(&self) {
        let _ = (&self.event).read(&mut [0; 8]);
    }
}

impl Wait<'_> {
    /// Waits until `socket` is readable, the alarm rings, a link is readable, or `time` is over.
    pub(crate) fn beside(&self, socket: RawFd, time: Duration) -> Woken {
        let watch = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        // `poll` ignores descriptors below 0.
        let mut all = [watch(NOTHING); 2 + Ready::MAX_DESCRIPTORS];
        (all[0], all[1]) = (watch(socket), watch(self.alarm.event.as_raw_fd()));
        for (place, fd) in all[2..].iter_mut().zip(self.links) {
            *place = watch(*fd);
        }
        let watched = all.len().min(2 + self.links.len());
        let time = self.at_most.map_or(time, |most| most.min(time)).max(Duration::from_micros(1));
        let time = libc::timespec {
            tv_sec: time.as_secs().min(3600) as libc::time_t,
            tv_nsec: time.subsec_nanos() as _,
        };
        // SAFETY: at least as many live `pollfd`s as the count says, a live time, and no signal mask. An
        // error is a wait that ended early.
        let n = unsafe { libc::ppoll(all.as_mut_ptr(), watched as libc::nfds_t, &time, std::ptr::null()) };
        let ready = |one: &libc::pollfd| n > 0 && one.revents != 0;
        let (socket, alarm) = (ready(&all[0]), ready(&all[1]));
        let mut links = Ready::default();
        all[2..].iter().enumerate().filter(|(_, one)| ready(one)).for_each(|(place, _)| links.add(place));
        if alarm && !self.alarm.ringing.load(Ordering::Acquire) {
            // The worker cleared the flag before the event was written. Left in place, the event would keep
            // the worker awake.
            self.alarm.take_event();
        }
        Woken { socket, alarm, links }
    }
}

/// A descriptor that `poll` ignores.
pub(crate) const NOTHING: RawFd = -1;

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.ringing.swap(true, Ordering::AcqRel) {
            // The write fails only if the counter is full, and then the event is there already.
            let _ = (&self.event).write(&1_u64.to_ne_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);
    const SHORT: Duration = Duration::from_millis(1);

    /// Returns whether the alarm rings within `time`.
    fn rings(alarm: &Alarm, time: Duration) -> bool {
        Wait { alarm, links: &[], at_most: None }.beside(NOTHING, time).alarm
    }

    #[test]
    fn it_rings_once_however_often_it_is_rung() -> io::Result<()> {
        let alarm = Alarm::new()?;
        assert!(!alarm.rang());
        assert!(!rings(&alarm, SHORT));
        alarm.wake_by_ref();
        alarm.wake_by_ref();
        assert!(rings(&alarm, LONG));
        assert!(alarm.rang());
        assert!(!alarm.rang());
        assert!(!rings(&alarm, SHORT), "the event is gone, too");
        Ok(())
    }

    #[test]
    fn an_event_that_comes_after_its_ring_was_noticed_does_not_keep_the_worker_awake() -> io::Result<()> {
        let alarm = Alarm::new()?;
        // The worker checks between the two steps of a thread that rings.
        assert!(!alarm.ringing.swap(true, Ordering::AcqRel));
        assert!(alarm.rang());
        (&alarm.event).write_all(&1_u64.to_ne_bytes())?;
        assert!(rings(&alarm, LONG), "once");
        assert!(!alarm.rang());
        assert!(!rings(&alarm, SHORT));
        Ok(())
    }

    #[test]
    fn while_it_is_held_nobody_writes_an_event_and_afterwards_it_rings_as_before() -> io::Result<()> {
        let alarm = Alarm::new()?;
        let rang = alarm.hold();
        assert!(!rang);
        alarm.wake_by_ref();
        alarm.release(rang);
        assert!(!rings(&alarm, SHORT));
        alarm.wake_by_ref();
        let rang = alarm.hold();
        assert!(rang, "it rang before");
        alarm.release(rang);
        assert!(!rings(&alarm, SHORT), "and its event is gone");
        alarm.wake_by_ref();
        assert!(rings(&alarm, LONG) && alarm.rang());
        Ok(())
    }

    #[test]
    fn a_wait_is_no_longer_than_it_may_be() -> io::Result<()> {
        let alarm = Alarm::new()?;
        let wait = Wait { alarm: &alarm, links: &[], at_most: Some(Duration::from_micros(100)) };
        assert!(!wait.beside(NOTHING, LONG).is_woken());
        Ok(())
    }

    #[test]
    fn a_wait_shows_which_links_have_something() -> io::Result<()> {
        let alarm = Alarm::new()?;
        let others: Vec<Arc<Alarm>> =
            (0..Ready::MAX_DESCRIPTORS).map(|_| Alarm::new()).collect::<io::Result<_>>()?;
        let links: Vec<RawFd> = others.iter().map(|other| other.event.as_raw_fd()).collect();
        others[1].wake_by_ref();
        others[Ready::MAX_DESCRIPTORS - 1].wake_by_ref();
        let wait =
            |links: &[RawFd]| Wait { alarm: &alarm, links, at_most: Some(SHORT) }.beside(NOTHING, SHORT);
        let woken = wait(&links);
        let ready: Vec<usize> = (0..Ready::MAX_DESCRIPTORS).filter(|place| woken.links.has(*place)).collect();
        assert_eq!((ready, woken.socket, woken.alarm), (vec![1, Ready::MAX_DESCRIPTORS - 1], false, false));
        assert_eq!(wait(&links[..1]), Woken::default(), "the others are not waited for");
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
        let (mut seen, mut looks) = (0, 0);
        while seen < ANSWERS {
            looks += 1;
            if looks % 3 == 0 {
                // The worker is awake and busy.
                let rang = alarm.hold();
                (0..looks % 89).for_each(|_| std::hint::spin_loop());
                alarm.release(rang);
                seen = ready.load(Ordering::Acquire);
                continue;
            }
            assert!(rings(&alarm, LONG), "an answer is ready and nothing rings");
            if alarm.rang() {
                seen = ready.load(Ordering::Acquire);
            }
        }
        assert!(ringer.join().is_ok());
        Ok(())
    }
}
