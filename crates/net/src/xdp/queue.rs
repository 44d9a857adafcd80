//! One receive queue as a way of moving datagrams: frames come in from its AF_XDP socket, queries go to the handler,
//! replies are written straight into frames that go out. Answers sent later leave through the kernel's own sockets.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use super::Attachment;
use super::frame::{self, Fault, HEADROOM, Link, Rules};
use super::socket::QueueSocket;
use crate::MIN_MESSAGE;
use crate::batch::{Batch, Origin, Outcome, Queries, Replies, Slot};
use crate::config::UdpConfig;
use crate::stats::WorkerStats;
use crate::udp::{Datagrams, Endpoint, Tally, stride};

/// How long the kernel is given to take a reply, and how often in a row, before queries are left where they are.
const SEND_WAIT: Duration = Duration::from_millis(10);
const SEND_WAITS: u32 = 5;
/// The kernel's counters are read once in so many waits, and whenever nothing came.
const WAITS_PER_READING: u32 = 256;

/// What all queues of a front know.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measures {
    pub(super) rules: Rules,
    /// Octets of a frame.
    pub(super) frame: usize,
    /// Queries of a batch.
    pub(super) batch: usize,
    /// Longest reply.
    pub(super) room: usize,
}

/// Datagrams of one receive queue.
pub(crate) struct Queue {
    socket: QueueSocket,
    attachment: Arc<Attachment>,
    endpoints: Vec<Arc<Endpoint>>,
    stats: Arc<WorkerStats>,
    measures: Measures,
    max_query: usize,
    idle_wake: Duration,
    /// Queries, copied out of their frames so that those go back to the kernel at once.
    input: Box<[u8]>,
    slots: Vec<Slot>,
    /// The link layer of each slot's query.
    links: Vec<Link>,
    outcomes: Vec<Option<Outcome>>,
    /// Frames to send: number in the group, start, length.
    sends: Vec<(usize, usize, usize)>,
    ids: Ids,
    waits: u32,
}

impl Queue {
    pub(super) fn new(
        socket: QueueSocket,
        attachment: Arc<Attachment>,
        endpoints: Vec<Arc<Endpoint>>,
        stats: Arc<WorkerStats>,
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
            measures,
            max_query,
            idle_wake: config.idle_wake.max(Duration::from_millis(1)),
            input: vec![0; n * stride(max_query)].into(),
            slots: Vec::with_capacity(n),
            links: Vec::with_capacity(n),
            outcomes: std::iter::repeat_with(|| None).take(n).collect(),
            sends: Vec::with_capacity(n),
            ids: Ids::new(),
            waits: 0,
        }
    }

    /// Waits for a group of frames to answer with. False if the kernel holds on to all of them.
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
            self.stats.own.xdp_no_frame.add(1);
        }
        Ok(free)
    }

    /// Waits for something to come in.
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

    /// Copies the kernel's counters to ours.
    fn read_counters(&self) {
        self.stats.own.xdp_lost.set(self.socket.lost());
        self.stats.own.xdp_passed.set(self.attachment.passed.of(self.socket.queue()));
    }

    /// Takes frames off the ring, as many as make a batch.
    #[inline]
    fn take(&mut self) {
        let Queue { socket, stats, measures, max_query, input, slots, links, .. } = self;
        let own = &stats.own;
        let stride = stride(*max_query);
        let n = socket.receive(measures.batch, |octets| {
            let query = match frame::parse(octets, measures.rules) {
                Ok(query) => query,
                Err(Fault::Checksum) => return own.xdp_bad_checksums.add(1),
                Err(Fault::Malformed) => return own.xdp_malformed.add(1),
            };
            let len = query.payload.len();
            if len > *max_query {
                return own.too_long.add(1);
            }
            if len < MIN_MESSAGE || query.peer.port() == 0 {
                return own.runts.add(1);
            }
            let start = slots.len() * stride;
            input[start..start + len].copy_from_slice(query.payload);
            slots.push(Slot { start, len, peer: query.peer, local: query.local, raw: links.len() });
            links.push(query.link);
        });
        own.xdp_frames_in.add(n as u64);
    }
}

impl Datagrams for Queue {
    fn receive(&mut self, wait: bool) -> io::Result<usize> {
        self.slots.clear();
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
        Ok(self.slots.len())
    }

    fn batch(&mut self) -> Batch<'_> {
        let n = self.slots.len();
        let output = self.socket.frames().get_mut(HEADROOM..).unwrap_or_default();
        Batch::new(
            Queries { input: &self.input, slots: &self.slots, origin: Origin::Front(&self.endpoints) },
            Replies {
                output,
                outcomes: &mut self.outcomes[..n],
                stride: self.measures.frame,
                room: self.measures.room,
            },
        )
    }

    fn send(&mut self) {
        let Measures { frame: size, room, .. } = self.measures;
        let mut tally = Tally::default();
        let mut octets = 0;
        let frames = self.socket.frames();
        for (i, (slot, frame)) in self.slots.iter().zip(frames.chunks_exact_mut(size)).enumerate() {
            let Some(len) = tally.settle(self.outcomes[i].take(), room) else { continue };
            let ends = (slot.local, slot.peer);
            if let Some(start) = frame::build(frame, &self.links[slot.raw], ends, len, self.ids.next()) {
                self.sends.push((i, start, HEADROOM + len - start));
                octets += len as u64;
            }
        }
        tally.record(&self.stats);
        if self.sends.is_empty() {
            return;
        }
        let sent = self.socket.transmit(self.sends.drain(..));
        self.stats.own.xdp_frames_out.add(sent as u64);
        self.stats.own.replies.add(sent as u64);
        self.stats.own.bytes_out.add(octets);
    }

    /// Frames pass to the kernel's own sockets from here on.
    fn leave(&mut self) {
        self.attachment.detach();
    }

    fn finished(&mut self) -> bool {
        self.socket.kick();
        self.read_counters();
        self.socket.all_sent() && self.endpoints.iter().all(|endpoint| Arc::strong_count(endpoint) == 1)
    }
}

/// The socket that sends from `local`: the one bound to it, or else to the wildcard address.
pub(crate) fn endpoint_for(endpoints: &[Arc<Endpoint>], local: SocketAddr) -> Option<&Arc<Endpoint>> {
    let exact = |e: &&Arc<Endpoint>| e.local().ip() == local.ip() && e.local().port() == local.port();
    let wild = |e: &&Arc<Endpoint>| {
        e.wildcard() && e.local().is_ipv4() == local.is_ipv4() && e.local().port() == local.port()
    };
    endpoints.iter().find(exact).or_else(|| endpoints.iter().find(wild))
}

/// Identifications of IPv4 packets, such that nobody can guess the next one (xorshift64* from a random start).
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
