//! The fast way of moving datagrams: `recvmmsg` and `sendmmsg` over header arrays that are built once. Every header
//! points into slices owned here; only lengths change from batch to batch.

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;

use libc::{c_int, c_uint, iovec, mmsghdr};

use super::control::{CONTROL_LEN, Control, NAME_LEN, Name};
use super::raw::RawSlice;
use super::worker::{Datagrams, stride};
use super::{Endpoint, endpoint};
use crate::MIN_MESSAGE;
use crate::batch::{Batch, Origin, Outcome, Queries, Replies, Slot};
use crate::config::UdpConfig;
use crate::stats::WorkerStats;

/// How long a full send buffer is waited for, and how often per batch, before replies are given up.
const SEND_WAIT_MS: c_int = 10;
const SEND_WAITS: u32 = 5;

/// Datagrams moved many at a time.
pub(crate) struct Mmsg {
    endpoint: Arc<Endpoint>,
    stats: Arc<WorkerStats>,
    /// Datagrams received by the last call: headers from here on are as good as new.
    received: usize,
    /// Of those, the ones fit for the handler.
    slots: Vec<Slot>,
    outcomes: Vec<Option<Outcome>>,
    input: RawSlice<u8>,
    input_stride: usize,
    output: RawSlice<u8>,
    output_stride: usize,
    names: RawSlice<Name>,
    controls: RawSlice<Control>,
    headers_in: RawSlice<mmsghdr>,
    /// Pointed to by `headers_in`, and never read by us.
    _vectors_in: RawSlice<iovec>,
    headers_out: RawSlice<mmsghdr>,
    vectors_out: RawSlice<iovec>,
}

impl Mmsg {
    pub(crate) fn new(endpoint: Arc<Endpoint>, stats: Arc<WorkerStats>, config: &UdpConfig) -> Self {
        let n = config.batch.clamp(1, 1024);
        let (input_stride, output_stride) = (stride(config.max_query), stride(config.max_reply));
        let input = RawSlice::<u8>::zeroed(n * input_stride);
        let output = RawSlice::<u8>::zeroed(n * output_stride);
        let names = RawSlice::<Name>::zeroed(n);
        let controls = RawSlice::<Control>::zeroed(n);
        let mut headers_in = RawSlice::<mmsghdr>::zeroed(n);
        let mut vectors_in = RawSlice::<iovec>::zeroed(n);
        let mut headers_out = RawSlice::<mmsghdr>::zeroed(n);
        let vectors_out = RawSlice::<iovec>::zeroed(n);
        for i in 0..n {
            vectors_in.slice_mut()[i] =
                iovec { iov_base: input.ptr(i * input_stride).cast(), iov_len: config.max_query };
            let header = &mut headers_in.slice_mut()[i].msg_hdr;
            header.msg_name = names.ptr(i).cast();
            header.msg_iov = vectors_in.ptr(i);
            header.msg_iovlen = 1;
            if endpoint.wildcard() {
                header.msg_control = controls.ptr(i).cast();
            }
            let header = &mut headers_out.slice_mut()[i].msg_hdr;
            header.msg_iov = vectors_out.ptr(i);
            header.msg_iovlen = 1;
        }
        Mmsg {
            endpoint,
            stats,
            // Every header still has to get its lengths.
            received: n,
            slots: Vec::with_capacity(n),
            outcomes: std::iter::repeat_with(|| None).take(n).collect(),
            input,
            input_stride,
            output,
            output_stride,
            names,
            controls,
            headers_in,
            _vectors_in: vectors_in,
            headers_out,
            vectors_out,
        }
    }

    fn fd(&self) -> RawFd {
        self.endpoint.as_raw_fd()
    }

    /// Notes where datagram `raw` lies, unless it is not worth a handler's time.
    #[inline]
    fn admit(&mut self, raw: usize) {
        let header = &self.headers_in.slice()[raw];
        let (len, flags) = (header.msg_len as usize, header.msg_hdr.msg_flags);
        if flags & libc::MSG_TRUNC != 0 {
            self.stats.own.too_long.add(1);
            return;
        }
        let peer = match self.names.slice()[raw].decode() {
            Some(peer) if len >= MIN_MESSAGE && peer.port() != 0 => peer,
            _ => {
                self.stats.own.runts.add(1);
                return;
            }
        };
        let mut local = self.endpoint.local();
        if self.endpoint.wildcard() {
            let control_len = header.msg_hdr.msg_controllen;
            let control = &mut self.controls.slice_mut()[raw];
            let (to, used) = control.take_local(control_len, local.port()).unwrap_or((local, 0));
            local = to;
            self.headers_in.slice_mut()[raw].msg_hdr.msg_controllen = used as _;
        }
        self.slots.push(Slot { start: raw * self.input_stride, len, peer, local, raw });
    }

    /// Fills the outgoing headers from the outcomes; returns how many there are.
    #[inline]
    fn gather(&mut self) -> usize {
        let mut tally = endpoint::Tally::default();
        let mut n = 0;
        for (i, slot) in self.slots.iter().enumerate() {
            let Some(len) = tally.settle(self.outcomes[i].take(), self.endpoint.max_reply()) else {
                continue;
            };
            self.vectors_out.slice_mut()[n] =
                iovec { iov_base: self.output.ptr(i * self.output_stride).cast(), iov_len: len };
            let received = &self.headers_in.slice()[slot.raw].msg_hdr;
            let header = &mut self.headers_out.slice_mut()[n].msg_hdr;
            header.msg_name = received.msg_name;
            header.msg_namelen = received.msg_namelen;
            header.msg_control = received.msg_control;
            header.msg_controllen = received.msg_controllen;
            n += 1;
        }
        tally.record(&self.stats);
        n
    }

    /// Octets of outgoing messages `from..to`.
    fn octets(&self, from: usize, to: usize) -> u64 {
        self.vectors_out.slice()[from..to].iter().map(|v| v.iov_len as u64).sum()
    }
}

impl Datagrams for Mmsg {
    fn receive(&mut self, wait: bool) -> io::Result<usize> {
        let control_len = if self.endpoint.wildcard() { CONTROL_LEN } else { 0 };
        for header in &mut self.headers_in.slice_mut()[..self.received] {
            header.msg_hdr.msg_namelen = NAME_LEN as libc::socklen_t;
            header.msg_hdr.msg_controllen = control_len as _;
        }
        // A failed call may still have touched the first header.
        self.received = 1;
        self.slots.clear();
        let flags = if wait { libc::MSG_WAITFORONE } else { libc::MSG_DONTWAIT };
        // SAFETY: `headers_in` has `outcomes.len()` headers. Each names one `Name`, one `iovec` over `max_query`
        // octets inside `input` and either no control data or one `Control`, with those lengths, all owned by
        // `self` and borrowed by nobody during the call. No timeout is passed.
        let rc = unsafe {
            libc::recvmmsg(
                self.fd(),
                self.headers_in.ptr(0),
                self.outcomes.len() as c_uint,
                flags as _,
                std::ptr::null_mut(),
            )
        };
        let Ok(n) = usize::try_from(rc) else { return Err(io::Error::last_os_error()) };
        self.received = n;
        for raw in 0..n {
            self.admit(raw);
        }
        Ok(self.slots.len())
    }

    fn leave(&mut self) {
        self.endpoint.leave();
    }

    fn finished(&mut self) -> bool {
        // Later answers each hold on to the endpoint.
        Arc::strong_count(&self.endpoint) == 1
    }

    fn batch(&mut self) -> Batch<'_> {
        let n = self.slots.len();
        Batch::new(
            Queries { input: self.input.slice(), slots: &self.slots, origin: Origin::Udp(&self.endpoint) },
            Replies {
                output: self.output.slice_mut(),
                outcomes: &mut self.outcomes[..n],
                stride: self.output_stride,
                room: self.endpoint.max_reply(),
            },
        )
    }

    fn send(&mut self) {
        let n = self.gather();
        let (mut at, mut waits) = (0, 0);
        while at < n {
            // SAFETY: headers `at..n` were just filled by `gather`: a name and control data the kernel wrote in
            // the last `receive`, with lengths no greater than it gave, and one `iovec` over at most `max_reply` octets inside
            // `output`. All are owned by `self` and borrowed by nobody during the call.
            let rc = unsafe {
                libc::sendmmsg(
                    self.fd(),
                    self.headers_out.ptr(at),
                    (n - at) as c_uint,
                    libc::MSG_DONTWAIT as _,
                )
            };
            if rc > 0 {
                let next = at + rc as usize;
                self.stats.own.replies.add(rc as u64);
                self.stats.own.bytes_out.add(self.octets(at, next));
                at = next;
                continue;
            }
            // The error is that of the first message left; the others still deserve their chance.
            let error = io::Error::last_os_error();
            match error.kind() {
                io::ErrorKind::Interrupted => {}
                io::ErrorKind::WouldBlock if waits < SEND_WAITS => {
                    waits += 1;
                    wait_writable(self.fd());
                }
                io::ErrorKind::WouldBlock => {
                    self.stats.own.send_full.add((n - at) as u64);
                    return;
                }
                _ => {
                    endpoint::count_send_error(&self.stats, &error);
                    at += 1;
                }
            }
        }
    }
}

/// Waits a moment for room in the send buffer.
#[cold]
fn wait_writable(fd: RawFd) {
    let mut poll = libc::pollfd { fd, events: libc::POLLOUT, revents: 0 };
    // SAFETY: one live `pollfd`, and the count says one. Whatever the outcome, the caller tries to send again.
    unsafe { libc::poll(&mut poll, 1, SEND_WAIT_MS) };
}
