//! The plain back end: one `recvfrom` and one `sendto` per datagram, all from the standard library. It
//! answers exactly as `mmsg` does, and tests compare the two.

use std::io;
use std::net::IpAddr;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::Duration;

use transport::{
    Batch, Client, Clock, Envelope, LateLayout, LateReplies, MIN_MESSAGE, Outcome, Queries, Replies,
    ReplyRoute, ReturnAddress, Transport,
};

use super::datagrams::{Datagrams, QueueFill};
use super::endpoint::{Endpoint, Tally, count_send_error};
use super::proxied::ProxiedDatagrams;
use crate::alarm::{Wait, Woken};
use crate::config::UdpConfig;
use crate::stats::WorkerStats;

/// Moves one datagram per system call.
pub(crate) struct Plain {
    endpoint: Endpoint,
    stats: Arc<WorkerStats>,
    proxied: ProxiedDatagrams,
    idle_wake: Duration,
    /// One byte longer than the longest query, so that a longer one can be detected.
    input: Vec<u8>,
    output: Vec<u8>,
    /// One, or none.
    envelopes: Vec<Envelope>,
    outcome: Option<Outcome>,
    late: Vec<(ReturnAddress, Outcome)>,
}

impl Plain {
    pub(crate) fn new(
        endpoint: Endpoint,
        stats: Arc<WorkerStats>,
        proxied: ProxiedDatagrams,
        config: &UdpConfig,
    ) -> Self {
        Plain {
            endpoint,
            stats,
            proxied,
            idle_wake: config.idle_wake,
            input: vec![0; config.max_query + 1],
            output: vec![0; config.max_reply],
            envelopes: Vec::with_capacity(1),
            outcome: None,
            late: Vec::new(),
        }
    }
}

impl Datagrams for Plain {
    fn receive(&mut self, wait: bool) -> io::Result<usize> {
        self.envelopes.clear();
        self.endpoint.socket().set_nonblocking(!wait)?;
        let (len, peer) = self.endpoint.socket().recv_from(&mut self.input)?;
        if len == self.input.len() {
            self.stats.too_long.add(1);
        } else if len < MIN_MESSAGE || peer.port() == 0 {
            self.stats.runts.add(1);
        } else {
            let client = Client { peer, local: self.endpoint.local(), transport: Transport::Udp };
            self.envelopes.push(Envelope { start: 0, len, client, raw: 0 });
        }
        self.proxied.take_off(&self.input, &mut self.envelopes);
        Ok(self.envelopes.len())
    }

    fn wait_beside(&mut self, wait: &Wait<'_>) -> Woken {
        wait.beside(self.endpoint.as_raw_fd(), self.idle_wake)
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

    fn batch(&mut self) -> Batch<'_> {
        let room = self.output.len();
        let (input, envelopes) = (&self.input[..], &self.envelopes[..]);
        Batch::new(
            Queries {
                input,
                envelopes,
                transport: Transport::Udp,
                connection: 0,
                routes: self.proxied.routes(),
            },
            Replies {
                output: &mut self.output,
                outcomes: std::slice::from_mut(&mut self.outcome),
                stride: room,
                room,
            },
            Clock::System,
        )
    }

    fn send(&mut self) -> u64 {
        self.proxied.restore(&mut self.envelopes);
        let Some(envelope) = self.envelopes.first() else { return 0 };
        let mut tally = Tally::default();
        if let Some(len) = tally.settle(self.outcome.take(), self.output.len()) {
            match self.endpoint.socket().send_to(&self.output[..len], envelope.client.peer) {
                Ok(_) => {
                    self.stats.replies.add(1);
                    self.stats.bytes_out.add(len as u64);
                }
                Err(e) => count_send_error(&self.stats, &e),
            }
        }
        tally.record(&self.stats)
    }

    fn late(&mut self) -> LateReplies<'_> {
        let room = self.output.len();
        let layout = LateLayout { stride: room, room, most: 1 };
        LateReplies::new(&mut self.output, layout, &mut self.late, Clock::System)
    }

    fn send_late(&mut self) -> u64 {
        let Some((to, outcome)) = self.late.pop() else { return 0 };
        let fits = matches!(outcome, Outcome::Reply(len) if (1..=self.output.len()).contains(&len));
        self.stats.late_replies.add(fits as u64);
        let ReplyRoute { to: peer, from: local } = to.reply_route();
        self.envelopes.clear();
        self.envelopes.push(Envelope {
            start: 0,
            len: 0,
            client: Client { peer, local, ..to.client },
            raw: 0,
        });
        self.outcome = Some(outcome);
        self.send();
        1
    }
}
