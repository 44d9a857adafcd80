//! The fast back end: `recvmmsg` and `sendmmsg` over header arrays that are built once. Every header points
//! into slices owned here; only lengths change from batch to batch.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::time::Duration;

use libc::{c_int, c_uint, iovec, mmsghdr};
use transport::{
    Batch, Client, Clock, Envelope, LateLayout, LateReplies, MIN_MESSAGE, Outcome, Queries, Replies,
    ReplyRoute, ReturnAddress, Transport,
};

use super::control::{CONTROL_LEN, ControlBytes, NAME_LEN, SocketName};
use super::datagrams::{Datagrams, QueueFill, stride};
use super::endpoint::{self, Endpoint};
use super::proxied::ProxiedDatagrams;
use super::raw::RawSlice;
use super::segment::{Plan, QueuedReply};
use crate::alarm::{Wait, Woken};
use crate::config::UdpConfig;
use crate::stats::WorkerStats;

/// Timeout for a full send buffer, and the most waits per batch before replies are dropped.
const SEND_WAIT_MS: c_int = 10;
const SEND_WAITS: u32 = 5;

/// Moves many datagrams per system call.
pub(crate) struct Mmsg {
    endpoint: Endpoint,
    stats: Arc<WorkerStats>,
    proxied: ProxiedDatagrams,
    /// How long an idle worker waits.
    idle_wake: Duration,
    /// Number of datagrams received by the last call: the lengths of later headers are unchanged.
    received: usize,
    /// The datagrams among these that the handler gets.
    envelopes: Vec<Envelope>,
    outcomes: Vec<Option<Outcome>>,
    late: Vec<(ReturnAddress, Outcome)>,
    input: RawSlice<u8>,
    input_stride: usize,
    output: RawSlice<u8>,
    output_stride: usize,
    names: RawSlice<SocketName>,
    controls: RawSlice<ControlBytes>,
    headers_in: RawSlice<mmsghdr>,
    /// Pointed to by `headers_in`; this process never reads them.
    _vectors_in: RawSlice<iovec>,
    headers_out: RawSlice<mmsghdr>,
    vectors_out: RawSlice<iovec>,
    controls_out: RawSlice<ControlBytes>,
    replies: Vec<QueuedReply>,
    plan: Plan,
    /// Whether equally long replies to one destination are sent together.
    segments: bool,
}

impl Mmsg {
    pub(crate) fn new(
        endpoint: Endpoint,
        stats: Arc<WorkerStats>,
        proxied: ProxiedDatagrams,
        config: &UdpConfig,
    ) -> Self {
        let n = config.batch.clamp(1, 1024);
        let (input_stride, output_stride) = (stride(config.max_query), stride(config.max_reply));
        let input = RawSlice::<u8>::zeroed(n * input_stride);
        let output = RawSlice::<u8>::zeroed(n * output_stride);
        let names = RawSlice::<SocketName>::zeroed(n);
        let controls = RawSlice::<ControlBytes>::zeroed(n);
        let mut headers_in = RawSlice::<mmsghdr>::zeroed(n);
        let mut vectors_in = RawSlice::<iovec>::zeroed(n);
        let headers_out = RawSlice::<mmsghdr>::zeroed(n);
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
        }
        Mmsg {
            endpoint,
            stats,
            proxied,
            idle_wake: config.idle_wake,
            // The lengths of all headers still have to be set.
            received: n,
            envelopes: Vec::with_capacity(n),
            outcomes: std::iter::repeat_with(|| None).take(n).collect(),
            late: Vec::with_capacity(n),
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
            controls_out: RawSlice::<ControlBytes>::zeroed(n),
            replies: Vec::with_capacity(n),
            plan: Plan::default(),
            segments: config.segments,
        }
    }

    fn fd(&self) -> RawFd {
        self.endpoint.as_raw_fd()
    }

    /// Adds datagram `raw` to the batch, unless it is too long, too short or from port 0.
    #[inline]
    fn admit(&mut self, raw: usize) {
        let header = &self.headers_in.slice()[raw];
        let (len, flags) = (header.msg_len as usize, header.msg_hdr.msg_flags);
        if flags & libc::MSG_TRUNC != 0 {
            self.stats.too_long.add(1);
            return;
        }
        let peer = match self.names.slice()[raw].decode() {
            Some(peer) if len >= MIN_MESSAGE && peer.port() != 0 => peer,
            _ => {
                self.stats.runts.add(1);
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
        let client = Client { peer, local, transport: Transport::Udp };
        self.envelopes.push(Envelope { start: raw * self.input_stride, len, client, raw });
    }

    /// Fills the outgoing headers from the outcomes. Returns the number of headers and of pending queries.
    #[inline]
    fn gather(&mut self) -> (usize, u64) {
        let mut tally = endpoint::Tally::default();
        self.replies.clear();
        for (i, envelope) in self.envelopes.iter().enumerate() {
            if let Some(len) = tally.settle(self.outcomes[i].take(), self.endpoint.max_reply()) {
                let Client { peer, local, .. } = envelope.client;
                self.replies.push(QueuedReply { buffer: i, len, peer, local });
            }
        }
        let due = tally.record(&self.stats);
        if self.segments {
            self.plan.make(&self.replies);
        } else {
            self.plan.singly(self.replies.len());
        }
        (self.address(0), due)
    }

    /// Fills the headers of the planned groups from `at` on: header `i` sends group `i`. Returns the number
    /// of headers.
    #[inline]
    fn address(&mut self, at: usize) -> usize {
        let mut n = at;
        for group in &self.plan.groups[at..] {
            for k in group.start..group.start + group.count {
                let reply = &self.replies[self.plan.order[k]];
                self.vectors_out.slice_mut()[k] = iovec {
                    iov_base: self.output.ptr(reply.buffer * self.output_stride).cast(),
                    iov_len: reply.len,
                };
            }
            let reply = &self.replies[self.plan.order[group.start]];
            let raw = self.envelopes[reply.buffer].raw;
            let received = &self.headers_in.slice()[raw].msg_hdr;
            let header = &mut self.headers_out.slice_mut()[n].msg_hdr;
            header.msg_name = received.msg_name;
            header.msg_namelen = received.msg_namelen;
            header.msg_control = received.msg_control;
            header.msg_controllen = received.msg_controllen;
            header.msg_iov = self.vectors_out.ptr(group.start);
            header.msg_iovlen = group.count as _;
            if group.count > 1 {
                let (control, used) =
                    self.controls.slice()[raw].segmented(received.msg_controllen, reply.len as u16);
                self.controls_out.slice_mut()[n] = control;
                header.msg_control = self.controls_out.ptr(n).cast();
                header.msg_controllen = used as _;
            }
            n += 1;
        }
        n
    }

    /// Counts the replies of outgoing messages `from..to`.
    #[inline]
    fn count_sent(&self, from: usize, to: usize) {
        let (mut replies, mut joined) = (0, 0);
        for group in &self.plan.groups[from..to] {
            replies += group.count;
            joined += if group.count > 1 { group.count } else { 0 };
        }
        let bytes = self.headers_out.slice()[from..to].iter().map(|h| u64::from(h.msg_len)).sum();
        self.stats.replies.add(replies as u64);
        self.stats.bytes_out.add(bytes);
        if joined > 0 {
            self.stats.joined.add(joined as u64);
        }
    }

    /// Splits the groups from `at` on into single replies, after the kernel refused that group; disables
    /// groups if the kernel does not support them. Returns the number of headers.
    #[cold]
    fn part(&mut self, at: usize, error: &io::Error) -> usize {
        if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EIO | libc::EOPNOTSUPP)) {
            self.segments = false;
        }
        self.plan.part(at);
        self.address(at)
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
        self.envelopes.clear();
        let flags = if wait { libc::MSG_WAITFORONE } else { libc::MSG_DONTWAIT };
        // SAFETY: `headers_in` has `outcomes.len()` headers. Each names one `SocketName`, one `iovec` over
        // `max_query` bytes inside `input` and either no control data or one `ControlBytes`, with those
        // lengths, all owned by `self` and not borrowed elsewhere during the call. No timeout is passed.
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
        self.proxied.take_off(self.input.slice(), &mut self.envelopes);
        Ok(self.envelopes.len())
    }

    fn keep(&mut self, passes: &mut dyn FnMut(IpAddr) -> bool) -> usize {
        self.proxied.retain(&mut self.envelopes, passes);
        self.envelopes.len()
    }

    fn queue(&self) -> Option<QueueFill> {
        self.endpoint.queue()
    }

    fn leave(&mut self) {
        self.endpoint.leave();
    }

    fn finished(&mut self) -> bool {
        true
    }

    fn wait_beside(&mut self, wait: &Wait<'_>) -> Woken {
        wait.beside(self.fd(), self.idle_wake)
    }

    fn batch(&mut self) -> Batch<'_> {
        let n = self.envelopes.len();
        let (input, envelopes) = (self.input.slice(), &self.envelopes[..]);
        Batch::new(
            Queries {
                input,
                envelopes,
                transport: Transport::Udp,
                connection: 0,
                routes: self.proxied.routes(),
            },
            Replies {
                output: self.output.slice_mut(),
                outcomes: &mut self.outcomes[..n],
                stride: self.output_stride,
                room: self.endpoint.max_reply(),
            },
            Clock::System,
        )
    }

    fn late(&mut self) -> LateReplies<'_> {
        let layout = LateLayout {
            stride: self.output_stride,
            room: self.endpoint.max_reply(),
            most: self.outcomes.len(),
        };
        LateReplies::new(self.output.slice_mut(), layout, &mut self.late, Clock::System)
    }

    /// Late answers are sent as the replies of a batch whose headers are filled with their clients'
    /// addresses.
    fn send_late(&mut self) -> u64 {
        self.envelopes.clear();
        self.received = self.received.max(self.late.len());
        for (raw, (to, outcome)) in self.late.drain(..).enumerate() {
            let ReplyRoute { to: peer, from: local } = to.reply_route();
            let header = &mut self.headers_in.slice_mut()[raw].msg_hdr;
            let (name, used) = SocketName::encode(peer);
            self.names.slice_mut()[raw] = name;
            header.msg_namelen = used as libc::socklen_t;
            header.msg_controllen = 0;
            if self.endpoint.wildcard() && !local.ip().is_unspecified() {
                let (control, used) = ControlBytes::source(local);
                self.controls.slice_mut()[raw] = control;
                header.msg_controllen = used as _;
            }
            let fits =
                matches!(outcome, Outcome::Reply(len) if (1..=self.endpoint.max_reply()).contains(&len));
            self.stats.late_replies.add(fits as u64);
            self.outcomes[raw] = Some(outcome);
            self.envelopes.push(Envelope {
                start: 0,
                len: 0,
                client: Client { peer, local, ..to.client },
                raw,
            });
        }
        let settled = self.envelopes.len() as u64;
        self.send();
        settled
    }

    fn send(&mut self) -> u64 {
        self.proxied.restore(&mut self.envelopes);
        let (mut n, due) = self.gather();
        let (mut at, mut waits) = (0, 0);
        while at < n {
            // SAFETY: headers `at..n` were filled by `address`: a name and control data that the kernel wrote
            // in the last `receive`, with lengths no greater than it gave, or that `send_late` put in their
            // place, with the lengths `encode` and `source` gave; or a `ControlBytes` of ours as long as
            // `segmented` says; and as many `iovec`s as the group has replies, each over at most `max_reply`
            // bytes inside `output`. All are owned by `self` and not borrowed elsewhere during the call.
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
                self.count_sent(at, next);
                at = next;
                continue;
            }
            // The error is that of the first message left; the others are still tried.
            let error = io::Error::last_os_error();
            match error.kind() {
                io::ErrorKind::Interrupted => {}
                io::ErrorKind::WouldBlock if waits < SEND_WAITS => {
                    waits += 1;
                    wait_writable(self.fd());
                }
                io::ErrorKind::WouldBlock => {
                    let left: usize = self.plan.groups[at..].iter().map(|group| group.count).sum();
                    self.stats.send_full.add(left as u64);
                    return due;
                }
                _ if self.plan.groups[at].count > 1 => n = self.part(at, &error),
                _ => {
                    endpoint::count_send_error(&self.stats, &error);
                    at += 1;
                }
            }
        }
        due
    }
}

/// Waits a short time for space in the send buffer.
#[cold]
fn wait_writable(fd: RawFd) {
    let mut poll = libc::pollfd { fd, events: libc::POLLOUT, revents: 0 };
    // SAFETY: one live `pollfd`, and the count says one. Whatever the outcome, the caller tries to send
    // again.
    unsafe { libc::poll(&mut poll, 1, SEND_WAIT_MS) };
}
