//! One AF_XDP socket with its memory: frames that the kernel fills with received packets, and frames for
//! sending. A frame belongs either to the kernel or to this process; the rings of `ring` pass ownership, and
//! this file keeps to that rule. It does not interpret the contents of frames.
//!
//! Frames for sending form groups, one group for each batch of replies. A group is ours again when the kernel
//! has finished with every frame of it, so its frames can be borrowed as one slice.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

use super::ring::{Consumer, Mapping, Producer, RingPlan};
use crate::sys::{self, set_number};

/// Most sends per system call; set on kernels with this option.
const XDP_MAX_TX_SKB_BUDGET: libc::c_int = 9;
/// Kernel memory for replies in transit, in bytes.
const SEND_BUFFER: libc::c_int = 8 << 20;
/// Most consecutive calls that make the kernel continue sending when it reports that there is more.
const MAX_KICKS: u32 = 64;

/// Layout of a socket's memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct FrameLayout {
    /// Bytes of a frame: 2048 or 4096.
    pub(super) frame: usize,
    /// Number of frames for receiving, a power of two.
    pub(super) receive: usize,
    /// Number of frames in a group.
    pub(super) group: usize,
    /// Number of groups for sending.
    pub(super) groups: usize,
}

impl FrameLayout {
    /// Returns the number of frames for sending.
    fn send(&self) -> usize {
        self.group * self.groups
    }
}

/// A socket bound to one receive queue of an interface.
pub(super) struct QueueSocket {
    // Dropped first, so closed before the memory is unmapped.
    socket: OwnedFd,
    fill: Producer<u64>,
    received: Consumer<libc::xdp_desc>,
    outgoing: Producer<libc::xdp_desc>,
    completed: Consumer<u64>,
    memory: Mapping,
    layout: FrameLayout,
    /// Number of frames of each group that the kernel still holds.
    held: Box<[usize]>,
    /// The group for the next replies, all of whose frames are ours.
    current: Option<usize>,
    queue: u32,
    zero_copy: bool,
    /// The error that ended it; the system reports it once.
    failed: Option<i32>,
}

/// The parameters of `open`.
#[derive(Clone, Copy, Debug)]
pub(super) struct QueueChoice {
    pub(super) interface: u32,
    pub(super) queue: u32,
    pub(super) zero_copy: bool,
}

/// The failed step of opening, in words that follow "cannot", and the system's error.
pub(super) type StepError = (&'static str, io::Error);

impl QueueSocket {
    /// Opens a socket, registers its memory and binds it.
    ///
    /// # Errors
    /// The step that failed.
    pub(super) fn open(target: QueueChoice, layout: FrameLayout) -> Result<Self, StepError> {
        let step = |what: &'static str| move |e| (what, e);
        let socket = new_socket().map_err(step("make an AF_XDP socket"))?;
        let frames = layout.receive + layout.send();
        let memory = Mapping::anonymous(frames * layout.frame).map_err(step("get memory for frames"))?;
        register(&socket, &memory, layout, frames).map_err(step("register memory for frames"))?;
        let ring = |n: usize| u32::try_from(n.next_power_of_two()).unwrap_or(u32::MAX);
        let (incoming, outgoing) = (ring(layout.receive), ring(layout.send()));
        let sizes = [
            (libc::XDP_UMEM_FILL_RING, incoming),
            (libc::XDP_RX_RING, incoming),
            (libc::XDP_UMEM_COMPLETION_RING, outgoing),
            (libc::XDP_TX_RING, outgoing),
        ];
        for (name, entries) in sizes {
            set_number(&socket, libc::SOL_XDP, name, entries as libc::c_int)
                .map_err(step("size the rings of an AF_XDP socket"))?;
        }
        let offsets = offsets(&socket).map_err(step("learn the layout of the rings"))?;
        let descriptor = socket.as_raw_fd();
        let place = |offset, parts, entries| RingPlan { socket: descriptor, offset, parts, entries };
        let mapped = step("map the rings of an AF_XDP socket");
        let fill = place(libc::XDP_UMEM_PGOFF_FILL_RING as libc::off_t, offsets.fr, incoming);
        let received = place(libc::XDP_PGOFF_RX_RING, offsets.rx, incoming);
        let completed = place(libc::XDP_UMEM_PGOFF_COMPLETION_RING as libc::off_t, offsets.cr, outgoing);
        let outgoing = place(libc::XDP_PGOFF_TX_RING, offsets.tx, outgoing);
        let mut fill = Producer::map(&fill).map_err(mapped)?;
        // From now on, the first frames are the kernel's to fill.
        for number in 0..layout.receive {
            fill.push((number * layout.frame) as u64);
        }
        fill.publish();
        let socket = QueueSocket {
            fill,
            received: Consumer::map(&received).map_err(mapped)?,
            outgoing: Producer::map(&outgoing).map_err(mapped)?,
            completed: Consumer::map(&completed).map_err(mapped)?,
            socket,
            memory,
            layout,
            held: vec![0; layout.groups].into(),
            current: None,
            queue: target.queue,
            zero_copy: target.zero_copy,
            failed: None,
        };
        // Both are optional.
        let _ = set_number(&socket, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, SEND_BUFFER);
        let _ = set_number(&socket, libc::SOL_XDP, XDP_MAX_TX_SKB_BUDGET, layout.group as libc::c_int);
        bind(&socket.socket, target).map_err(step("bind an AF_XDP socket to the receive queue"))?;
        Ok(socket)
    }

    pub(super) fn queue(&self) -> u32 {
        self.queue
    }

    pub(super) fn zero_copy(&self) -> bool {
        self.zero_copy
    }

    /// Calls `each` with up to `most` received frames, one after another, and returns them to the kernel.
    /// Returns their number.
    #[inline]
    pub(super) fn receive(&mut self, most: usize, mut each: impl FnMut(&[u8])) -> usize {
        let mut n = 0;
        while n < most
            && let Some(descriptor) = self.received.pop()
        {
            n += 1;
            let at = descriptor.addr as usize;
            let frame = at / self.layout.frame;
            let end = at.saturating_add(descriptor.len as usize);
            if frame >= self.layout.receive || end > (frame + 1) * self.layout.frame {
                // The kernel returns only frames it was given; if this is not one, it is not ours to give
                // back.
                continue;
            }
            // SAFETY: `at..end` lies in a frame for receiving, so within the mapping. The kernel has passed
            // it to us through the ring and gets it back below, after the borrow has ended; nothing else
            // points into it.
            let bytes = unsafe {
                std::slice::from_raw_parts(self.memory.start().add(at).as_ptr(), descriptor.len as usize)
            };
            each(bytes);
            // The push succeeds: the ring has as many entries as there are such frames.
            self.fill.push((frame * self.layout.frame) as u64);
        }
        if n > 0 {
            self.received.release();
            self.fill.publish();
            if self.fill.needs_wakeup() {
                self.wake_receiver();
            }
        }
        n
    }

    /// Makes a group current, if the kernel has finished with one. Returns whether there is one.
    #[inline]
    pub(super) fn reserve(&mut self) -> bool {
        if self.current.is_some() {
            return true;
        }
        self.reap();
        self.current = self.held.iter().position(|&held| held == 0);
        self.current.is_some()
    }

    /// Counts the frames that the kernel has finished with.
    #[inline]
    fn reap(&mut self) {
        let mut any = false;
        while let Some(address) = self.completed.pop() {
            any = true;
            let frame = (address as usize / self.layout.frame).wrapping_sub(self.layout.receive);
            if let Some(held) = self.held.get_mut(frame / self.layout.group) {
                *held = held.saturating_sub(1);
            }
        }
        if any {
            self.completed.release();
        }
    }

    /// Returns the frames of the group that [`QueueSocket::reserve`] made current; empty without one.
    #[inline]
    pub(super) fn frames(&mut self) -> &mut [u8] {
        let Some(group) = self.current else { return &mut [] };
        let len = self.layout.group * self.layout.frame;
        let at = self.layout.receive * self.layout.frame + group * len;
        // SAFETY: the group lies behind the frames for receiving, within the mapping. None of its frames is
        // held by the kernel: `reserve` chose it for that, and `transmit`, which gives frames away, unsets
        // `current`. The exclusive borrow of `self` keeps every other access away.
        unsafe { std::slice::from_raw_parts_mut(self.memory.start().add(at).as_ptr(), len) }
    }

    /// Sends frames of the current group: the index of each in the group, the start of its contents and their
    /// length. Returns how many were passed to the kernel; those that do not lie in their frame are skipped.
    #[inline]
    pub(super) fn transmit(&mut self, frames: impl Iterator<Item = (usize, usize, usize)>) -> usize {
        let Some(group) = self.current.take() else { return 0 };
        let first = self.layout.receive + group * self.layout.group;
        let mut n = 0;
        for (number, start, len) in frames {
            if number >= self.layout.group || start.saturating_add(len) > self.layout.frame {
                continue;
            }
            let addr = ((first + number) * self.layout.frame + start) as u64;
            if self.outgoing.push(libc::xdp_desc { addr, len: len as u32, options: 0 }) {
                n += 1;
            }
        }
        if n == 0 {
            self.current = Some(group);
            return 0;
        }
        self.held[group] += n;
        self.outgoing.publish();
        self.kick();
        n
    }

    /// Makes the kernel send the frames that it has not taken yet.
    pub(super) fn kick(&mut self) {
        for _ in 0..MAX_KICKS {
            if !self.outgoing.needs_wakeup() || !self.outgoing.waiting() {
                return;
            }
            // SAFETY: no data and no address are passed.
            let rc = unsafe {
                libc::sendto(
                    self.socket.as_raw_fd(),
                    std::ptr::null(),
                    0,
                    libc::MSG_DONTWAIT,
                    std::ptr::null(),
                    0,
                )
            };
            if rc >= 0 {
                continue;
            }
            match io::Error::last_os_error().raw_os_error() {
                // It sends a limited number at a time, or waits for room; some may have been sent.
                Some(libc::EAGAIN | libc::EBUSY | libc::ENOBUFS | libc::EINTR) => self.reap(),
                _ => return,
            }
        }
    }

    /// Whether the kernel has finished with every reply.
    pub(super) fn all_sent(&mut self) -> bool {
        self.reap();
        self.held.iter().all(|&held| held == 0)
    }

    /// Whether the kernel has not taken all replies yet.
    pub(super) fn unsent(&self) -> bool {
        self.outgoing.waiting()
    }

    /// Whether a frame was received.
    #[inline]
    pub(super) fn readable(&mut self) -> bool {
        !self.received.is_empty()
    }

    #[cold]
    fn wake_receiver(&self) {
        // SAFETY: no room for data is passed. It only makes the driver check the fill ring again.
        unsafe {
            libc::recvfrom(
                self.socket.as_raw_fd(),
                std::ptr::null_mut(),
                0,
                libc::MSG_DONTWAIT,
                std::ptr::null_mut(),
                std::ptr::null_mut(),
            )
        };
    }

    /// Waits until a frame is received, or, if `send`, until replies can be sent. Returns false on timeout.
    ///
    /// # Errors
    /// The socket's own error, such as that its interface is gone.
    pub(super) fn wait(&mut self, time: Duration, send: bool) -> io::Result<bool> {
        let events = if send { libc::POLLOUT } else { libc::POLLIN };
        let mut poll = libc::pollfd { fd: self.socket.as_raw_fd(), events, revents: 0 };
        let time = libc::c_int::try_from(time.as_millis().max(1)).unwrap_or(libc::c_int::MAX);
        // SAFETY: one live `pollfd`, and the count says one.
        let rc = unsafe { libc::poll(&mut poll, 1, time) };
        if rc < 0 {
            return Err(io::Error::last_os_error());
        }
        // The kernel reports that an interface is gone only in SO_ERROR.
        if poll.revents & events == 0
            && let Ok(code) = sys::get_option::<libc::c_int>(&self.socket, libc::SOL_SOCKET, libc::SO_ERROR)
            && code != 0
        {
            self.failed = Some(code);
        }
        match self.failed {
            Some(code) => Err(io::Error::from_raw_os_error(code)),
            None => Ok(poll.revents & events != 0),
        }
    }

    /// Returns the number of frames that the kernel lost for lack of space: the receive ring was full, or no
    /// frame was free.
    pub(super) fn lost(&self) -> u64 {
        match sys::get_option::<Statistics>(&self.socket, libc::SOL_XDP, libc::XDP_STATISTICS) {
            Ok(Statistics([_, _, _, ring_full, no_frame, _])) => ring_full.wrapping_add(no_frame),
            Err(_) => 0,
        }
    }
}

impl AsRawFd for QueueSocket {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

/// `struct xdp_statistics`.
#[derive(Clone, Copy, Default)]
#[repr(transparent)]
struct Statistics([u64; 6]);

// SAFETY: numbers.
unsafe impl sys::Plain for Statistics {}

/// `struct xdp_mmap_offsets`: four rings of four offsets.
#[derive(Clone, Copy, Default)]
#[repr(transparent)]
struct Offsets([[u64; 4]; 4]);

// SAFETY: numbers.
unsafe impl sys::Plain for Offsets {}

fn new_socket() -> io::Result<OwnedFd> {
    // SAFETY: no pointers.
    let descriptor = unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new, so nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

fn register(socket: &OwnedFd, memory: &Mapping, layout: FrameLayout, frames: usize) -> io::Result<()> {
    debug_assert!(frames * layout.frame <= memory.len());
    let description = libc::xdp_umem_reg {
        addr: memory.start().as_ptr().expose_provenance() as u64,
        len: (frames * layout.frame) as u64,
        chunk_size: layout.frame as u32,
        headroom: 0,
        flags: 0,
        tx_metadata_len: 0,
    };
    // From here on the kernel may write to frames it is given through the fill ring, and to no others.
    sys::set_option(socket, libc::SOL_XDP, libc::XDP_UMEM_REG, &description)
}

fn offsets(socket: &OwnedFd) -> io::Result<libc::xdp_mmap_offsets> {
    let Offsets(rings) = sys::get_option(socket, libc::SOL_XDP, libc::XDP_MMAP_OFFSETS)?;
    let [rx, tx, fr, cr] = rings.map(|[producer, consumer, desc, flags]| libc::xdp_ring_offset {
        producer,
        consumer,
        desc,
        flags,
    });
    Ok(libc::xdp_mmap_offsets { rx, tx, fr, cr })
}

fn bind(socket: &OwnedFd, target: QueueChoice) -> io::Result<()> {
    let mode = if target.zero_copy { libc::XDP_ZEROCOPY } else { libc::XDP_COPY };
    let address = libc::sockaddr_xdp {
        sxdp_family: libc::AF_XDP as u16,
        sxdp_flags: mode | libc::XDP_USE_NEED_WAKEUP,
        sxdp_ifindex: target.interface,
        sxdp_queue_id: target.queue,
        sxdp_shared_umem_fd: 0,
    };
    // SAFETY: a live address of the length given.
    let rc = unsafe {
        libc::bind(
            socket.as_raw_fd(),
            (&raw const address).cast(),
            size_of::<libc::sockaddr_xdp>() as libc::socklen_t,
        )
    };
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
