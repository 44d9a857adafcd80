//! The plain way of moving datagrams: one `recvfrom` and one `sendto` each, all from the standard library. It answers
//! exactly as `mmsg` does and is what that one is tested against.

use std::io;
use std::sync::Arc;

use super::Endpoint;
use super::endpoint::{Tally, count_send_error};
use super::worker::Datagrams;
use crate::MIN_MESSAGE;
use crate::batch::{Batch, Origin, Outcome, Queries, Replies, Slot};
use crate::config::UdpConfig;
use crate::stats::WorkerStats;

/// Datagrams moved one at a time.
pub(crate) struct Plain {
    endpoint: Arc<Endpoint>,
    stats: Arc<WorkerStats>,
    /// One octet longer than the longest query, so that a longer one shows.
    input: Vec<u8>,
    output: Vec<u8>,
    slot: Option<Slot>,
    outcome: Option<Outcome>,
}

impl Plain {
    pub(crate) fn new(endpoint: Arc<Endpoint>, stats: Arc<WorkerStats>, config: &UdpConfig) -> Self {
        let (input, output) = (vec![0; config.max_query + 1], vec![0; config.max_reply]);
        Plain { endpoint, stats, input, output, slot: None, outcome: None }
    }
}

impl Datagrams for Plain {
    fn receive(&mut self, wait: bool) -> io::Result<usize> {
        self.slot = None;
        self.endpoint.socket().set_nonblocking(!wait)?;
        let (len, peer) = self.endpoint.socket().recv_from(&mut self.input)?;
        if len == self.input.len() {
            self.stats.own.too_long.add(1);
        } else if len < MIN_MESSAGE || peer.port() == 0 {
            self.stats.own.runts.add(1);
        } else {
            self.slot = Some(Slot { start: 0, len, peer, local: self.endpoint.local(), raw: 0 });
        }
        Ok(usize::from(self.slot.is_some()))
    }

    fn leave(&mut self) {
        self.endpoint.leave();
    }

    fn finished(&mut self) -> bool {
        // Later answers each hold on to the endpoint.
        Arc::strong_count(&self.endpoint) == 1
    }

    fn batch(&mut self) -> Batch<'_> {
        let room = self.output.len();
        Batch::new(
            Queries { input: &self.input, slots: self.slot.as_slice(), origin: Origin::Udp(&self.endpoint) },
            Replies {
                output: &mut self.output,
                outcomes: std::slice::from_mut(&mut self.outcome),
                stride: room,
                room,
            },
        )
    }

    fn send(&mut self) {
        let Some(slot) = self.slot else { return };
        let mut tally = Tally::default();
        if let Some(len) = tally.settle(self.outcome.take(), self.output.len()) {
            match self.endpoint.socket().send_to(&self.output[..len], slot.peer) {
                Ok(_) => {
                    self.stats.own.replies.add(1);
                    self.stats.own.bytes_out.add(len as u64);
                }
                Err(e) => count_send_error(&self.stats, &e),
            }
        }
        tally.record(&self.stats);
    }
}
