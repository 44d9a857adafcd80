//! The back end for one receive queue: frames are received from its AF_XDP socket, the handler gets the
//! queries, and replies are written directly into outgoing frames. Late answers are sent through the kernel's
//! own sockets.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::Duration;

use transport::{
    Batch, Client, Clock, Envelope, LateLayout, LateReplies, MIN_MESSAGE, Outcome, Queries, Replies,
    ReplyRoute, ReturnAddress, Transport,
};

use super::attachment::Attachment;
use super::frame::{self, FrameFault, HEADROOM, LinkLayer, ReplyAddresses, Rules};
use super::socket::QueueSocket;
use crate::alarm::{Wait, Woken};
use crate::config::UdpConfig;
use crate::stats::WorkerStats;
use crate::udp::{Datagrams, Endpoint, ProxiedDatagrams, QueueFill, Tally, count_send_error, stride};

/// Timeout of a wait for frames of sent replies, and the most consecutive waits, before queries are left in
/// the queue.
const SEND_WAIT: Duration = Duration::from_millis(10);
const SEND_WAITS: u32 = 5;
/// Most late answers written together.
const MAX_LATE_BATCH: usize = 16;
/// Waits per reading of the kernel's counters, which are also read whenever nothing was received.
const WAITS_PER_READING: u32 = 256;

/// Parameters that all queues of a front share.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measures {
    pub(super) rules: Rules,
    /// Size of a frame in bytes.
    pub(super) frame: usize,
    /// Most queries in a batch.
    pub(super) batch: usize,
    /// Longest reply in bytes.
    pub(super) room: usize,
}

/// Datagrams of one receive queue.
pub(crate) struct Queue {
    socket: QueueSocket,
    attachment: Arc<Attachment>,
    /// The sockets behind the front.
    endpoints: Vec<Endpoint>,
    stats: Arc<WorkerStats>,
    proxied: ProxiedDatagrams,
    measures: Measures,
    max_query: usize,
    idle_wake: Duration,
    /// Queries, copied from their frames so that the frames go back to the kernel at once.
    input: Box<[u8]>,
    envelopes: Vec<Envelope>,
    /// The link layer of each query.
    links: Vec<LinkLayer>,
    outcomes: Vec<Option<Outcome>>,
    /// The buffers of late answers, once there are any, and their return addresses.
    late_output: Vec<u8>,
    late: Vec<(ReturnAddress, Outcome)>,
    /// Frames to send: index in the group, start, length.
    sends: Vec<(usize, usize, usize)>,
    ids: Ids,
    waits: u32,
}

impl Queue {
    pub(super) fn new(
        socket: QueueSocket,
        attachment: Arc<Attachment>,
        endpoints: Vec<Endpoint>,
        stats: Arc<WorkerStats>,
        proxied: ProxiedDatagrams,
        measures: Measures,
        config: &UdpConfig,
    ) -> Self {
        let n = measures.batch;
        // No frame holds a longer query.
        let max_query = config.max_query.min(measures.frame);
        Queue {
            socket,
            attachment,
            endpoints,
            stats,
            proxied,
            measures,
            max_query,
            idle_wake: config.idle_wake.max(Duration::from_millis(1)),
            input: vec![0; n * stride(max_query)].into(),
            envelopes: Vec::with_capacity(n),
            links: Vec::with_capacity(n),
            outcomes: std::iter::repeat_with(|| None).take(n).collect(),
            late_output: Vec::new(),
            late: Vec::new(),
            sends: Vec::with_capacity(n),
            ids: Ids::new(),
            waits: 0,
        }
    }

    /// Waits for a group of frames for replies. Returns false if the kernel still holds frames of all groups.
    #[cold]
    fn wait_for_frames(&mut self) -> io::Result<bool> {
        for _ in 0..SEND_WAITS {
            self.socket.kick();
            if self.socket.reserve() {
                return Ok(true);
            }
            self.socket.wait(SEND_WAIT, true)?;
        }
        let free = self.socket.reserve();
        if !free {
            self.stats.xdp_no_frame.add(1);
        }
        Ok(free)
    }

    /// Waits until a frame is received.
    fn wait_for_queries(&mut self) -> io::Result<()> {
        // Replies that the kernel has not taken yet must not wait for the next query.
        let unsent = self.socket.unsent();
        let time = if unsent { SEND_WAIT.min(self.idle_wake) } else { self.idle_wake };
        if unsent {
            self.socket.kick();
        }
        let came = self.socket.wait(time, false)?;
        self.waits = self.waits.wrapping_add(1);
        if !came || self.waits.is_multiple_of(WAITS_PER_READING) {
            self.read_counters();
        }
        if came || unsent { Ok(()) } else { Err(io::ErrorKind::WouldBlock.into()) }
    }

    /// Copies the kernel's counters to the worker's.
    fn read_counters(&self) {
        self.stats.xdp_lost.set(self.socket.lost());
        self.stats.xdp_passed.set(self.attachment.passed.of(self.socket.queue()));
    }

    /// Takes frames off the ring, up to the size of a batch.
    #[inline]
    fn take(&mut self) {
        let Queue { socket, stats, measures, max_query, input, envelopes, links, .. } = self;
        let stride = stride(*max_query);
        let n = socket.receive(measures.batch, |bytes| {
            let query = match frame::parse(bytes, measures.rules) {
                Ok(query) => query,
                Err(FrameFault::Checksum) => return stats.xdp_bad_checksums.add(1),
                Err(FrameFault::Malformed) => return stats.xdp_malformed.add(1),
            };
            let len = query.payload.len();
            if len > *max_query {
                return stats.too_long.add(1);
            }
            if len < MIN_MESSAGE || query.peer.port() == 0 {
                return stats.runts.add(1);
            }
            let start = envelopes.len() * stride;
            input[start..start + len].copy_from_slice(query.payload);
            let client = Client { peer: query.peer, local: query.local, transport: Transport::Udp };
            envelopes.push(Envelope { start, len, client, raw: links.len() });
            links.push(query.link);
        });
        stats.xdp_frames_in.add(n as u64);
    }
}

impl Datagrams for Queue {
    fn receive(&mut self, wait: bool) -> io::Result<usize> {
        self.envelopes.clear();
        self.links.clear();
        if !self.socket.readable() {
            if !wait {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            self.wait_for_queries()?;
        }
        if !self.socket.reserve() && !self.wait_for_frames()? {
            return Ok(0);
        }
        self.take();
        self.proxied.take_off(&self.input, &mut self.envelopes);
        Ok(self.envelopes.len())
    }

    fn keep(&mut self, _: &mut dyn FnMut(IpAddr) -> bool) -> usize {
        self.envelopes.len()
    }

    /// What waits in the rings is not known here: shares are not applied.
    fn queue(&self) -> Option<QueueFill> {
        None
    }

    fn batch(&mut self) -> Batch<'_> {
        let n = self.envelopes.len();
        let output = self.socket.frames().get_mut(HEADROOM..).unwrap_or_default();
        Batch::new(
            Queries {
                input: &self.input,
                envelopes: &self.envelopes,
                transport: Transport::Udp,
                connection: 0,
                routes: self.proxied.routes(),
            },
            Replies {
                output,
                outcomes: &mut self.outcomes[..n],
                stride: self.measures.frame,
                room: self.measures.room,
            },
            Clock::System,
        )
    }

    fn wait_beside(&mut self, wait: &Wait<'_>) -> Woken {
        let unsent = self.socket.unsent();
        let time = if unsent { SEND_WAIT.min(self.idle_wake) } else { self.idle_wake };
        if unsent {
            self.socket.kick();
        }
        let woken = wait.beside(self.socket.as_raw_fd(), time);
        Woken { socket: woken.socket || unsent, ..woken }
    }

    fn late(&mut self) -> LateReplies<'_> {
        let room = self.endpoints.iter().map(Endpoint::max_reply).min().unwrap_or(0);
        self.late_output.resize(MAX_LATE_BATCH * room, 0);
        let layout = LateLayout { stride: room, room, most: MAX_LATE_BATCH };
        LateReplies::new(&mut self.late_output, layout, &mut self.late, Clock::System)
    }

    fn send_late(&mut self) -> u64 {
        let room = self.late_output.len() / MAX_LATE_BATCH;
        let settled = self.late.len() as u64;
        let mut tally = Tally::default();
        for ((to, outcome), buffer) in self.late.drain(..).zip(self.late_output.chunks_exact(room.max(1))) {
            let Some(len) = tally.settle(Some(outcome), room) else { continue };
            self.stats.late_replies.add(1);
            let ReplyRoute { to: peer, from: local } = to.reply_route();
            match endpoint_for(&self.endpoints, local).map(|e| e.send_one(&buffer[..len], peer, local)) {
                Some(Ok(())) => {
                    self.stats.replies.add(1);
                    self.stats.bytes_out.add(len as u64);
                }
                Some(Err(e)) => count_send_error(&self.stats, &e),
                None => self.stats.late_lost.add(1),
            }
        }
        tally.record(&self.stats);
        settled
    }

    fn send(&mut self) -> u64 {
        let Measures { frame: size, room, .. } = self.measures;
        self.proxied.restore(&mut self.envelopes);
        let mut tally = Tally::default();
        let mut bytes = 0;
        let frames = self.socket.frames();
        for (i, (envelope, frame)) in self.envelopes.iter().zip(frames.chunks_exact_mut(size)).enumerate() {
            let Some(len) = tally.settle(self.outcomes[i].take(), room) else { continue };
            let ends = ReplyAddresses { from: envelope.client.local, to: envelope.client.peer };
            if let Some(start) = frame::build(frame, &self.links[envelope.raw], ends, len, self.ids.next()) {
                self.sends.push((i, start, HEADROOM + len - start));
                bytes += len as u64;
            }
        }
        let due = tally.record(&self.stats);
        if self.sends.is_empty() {
            return due;
        }
        let sent = self.socket.transmit(self.sends.drain(..));
        self.stats.xdp_frames_out.add(sent as u64);
        self.stats.replies.add(sent as u64);
        self.stats.bytes_out.add(bytes);
        due
    }

    /// From here on frames pass to the kernel's own sockets.
    fn leave(&mut self) {
        self.attachment.detach();
    }

    fn finished(&mut self) -> bool {
        self.socket.kick();
        self.read_counters();
        self.socket.all_sent()
    }
}

/// Returns the socket that sends from `local`: the one bound to it, or else to the wildcard address.
fn endpoint_for(endpoints: &[Endpoint], local: SocketAddr) -> Option<&Endpoint> {
    let exact = |e: &&Endpoint| e.local().ip() == local.ip() && e.local().port() == local.port();
    let wild = |e: &&Endpoint| {
        e.wildcard() && e.local().is_ipv4() == local.is_ipv4() && e.local().port() == local.port()
    };
    endpoints.iter().find(exact).or_else(|| endpoints.iter().find(wild))
}

/// Generates identifications of IPv4 packets that cannot be guessed (xorshift64* from a random start).
struct Ids(u64);

impl Ids {
    fn new() -> Self {
        Ids(RandomState::new().hash_one(0) | 1)
    }

    #[inline]
    fn next(&mut self) -> u16 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 48) as u16
    }
}
