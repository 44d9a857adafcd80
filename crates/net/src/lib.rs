//! Transports: datagrams and streams framed and handed to a handler; knows no DNS beyond framing.
//!
//! What lives here: listening sockets, the worker threads that read them, batches of queries, replies sent at
//! once, later ([`Responder`]) or in many messages ([`MessageStream`]), and the limits that keep slow or hostile
//! clients from harming others. What does not: parsing, answering, access rules. The only DNS this crate knows is
//! that a message has at least [`MIN_MESSAGE`] octets and that TCP puts two octets of length before it (RFC 1035
//! §4.2.2, RFC 7766 §8).
//!
//! # From bind to stop
//!
//! ```no_run
//! use net::{Batch, Config, Context, Handler, Listener, Outcome, Transport, Worker};
//!
//! struct Refuse;
//! impl Handler for Refuse {
//!     fn batch(&mut self, batch: &mut Batch<'_>) {
//!         for i in 0..batch.len() {
//!             let (query, out) = batch.parts(i);
//!             let n = query.packet.len().min(12);
//!             out[..n].copy_from_slice(&query.packet[..n]);
//!             out[2] |= 0x80; // QR
//!             out[3] = 5; // REFUSED
//!             out[4..12].fill(0);
//!             batch.set(i, Outcome::Reply(n));
//!         }
//!     }
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // Bind first (perhaps as root), drop privileges, then serve.
//! let bound = Listener::bind("127.0.0.1:0".parse()?, Transport::Udp, &Config::default())?;
//! let running = bound.serve(|_worker: Worker| Refuse, &Context::default())?;
//! running.stop();
//! running.join();
//! # Ok(()) }
//! ```
//!
//! # Threads
//!
//! A listener is one address and one transport. It has [`Config::workers`] threads, each with its own
//! `SO_REUSEPORT` socket and its own [`Handler`], so nothing is shared on the way of a query. UDP threads block in
//! `recvmmsg`, answer the whole batch through the handler and leave through `sendmmsg`. TCP threads each run a
//! single-threaded tokio runtime; every complete message found in one read makes up a batch.
//!
//! # AF_XDP
//!
//! [`Listener::xdp`] puts a front before UDP listeners that are already bound: it takes their plain queries from the
//! receive queues of a network interface, one worker a queue, and leaves everything else to their sockets. Where the
//! kernel, the driver or the rights are missing it says so, and the sockets serve as they are.
//!
//! # Reload
//!
//! A listener whose address and settings did not change is simply left running: the handler sees new data through
//! whatever snapshot it reads at the start of [`Handler::batch`]. [`Running::stop`] ends one listener without
//! touching the others, after answering what its sockets already held.

mod batch;
mod config;
mod guard;
mod handler;
mod listener;
mod responder;
mod running;
mod stats;
mod sys;
mod tcp;
mod udp;
mod xdp;

pub use batch::{Batch, Outcome, Queries, Query, Replies, Transport};
pub use config::{Config, Spread, TcpConfig, UdpBackend, UdpConfig};
pub use handler::{Handler, HandlerFactory, MessageStream, Next, Worker};
pub use listener::{BindError, BindFault, Bound, Listener, ServeError};
pub use responder::{Responder, SendError};
pub use running::{Context, Fault, FaultKind, Running, Shutdown};
pub use stats::{Stats, Totals};
pub use tcp::TcpLimits;
pub use xdp::{XdpAttach, XdpConfig, XdpCopy, XdpMode};

/// The shortest message handed to a handler, in octets: the DNS header (RFC 1035 §4.1.1). A shorter datagram is
/// dropped and counted; a shorter TCP message closes its connection.
pub const MIN_MESSAGE: usize = 12;
