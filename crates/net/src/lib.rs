//! Transports: receives datagrams and streams, passes their messages to a handler, and sends its replies.
//!
//! This crate holds listening sockets, the worker threads that read them, the way of queries into the batches
//! of [`transport`] and of replies to the clients (at once, late or as streams), and the limits that keep
//! slow or hostile clients from harming others. Not here: parsing, answering, access rules. The only DNS in
//! this crate is the header of twelve bytes, and the two bytes of length before each message on TCP (RFC 1035
//! §4.2.2, RFC 7766 §8).
//!
//! # From bind to stop
//!
//! ```no_run
//! use transport::{Batch, Handler, LateReplies, Outcome, WorkerContext, Transport};
//! use net::{Context, Listener, ListenerConfig};
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
//!
//!     fn late(&mut self, _: &mut LateReplies<'_>) -> bool {
//!         false // nothing is ever left pending
//!     }
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // Bind first (perhaps as root), drop privileges, then serve.
//! let bound = Listener::bind("127.0.0.1:0".parse()?, Transport::Udp, &ListenerConfig::default())?;
//! let running = bound.serve(|_: &WorkerContext| Refuse, &Context::default())?;
//! running.stop();
//! running.join();
//! # Ok(()) }
//! ```
//!
//! # Threads
//!
//! A listener is one address and one transport. It has [`ListenerConfig::workers`] threads, each with its own
//! `SO_REUSEPORT` socket and its own [`transport::Handler`], so workers share nothing on the query path. UDP
//! threads block in `recvmmsg`, answer the whole batch through the handler and send with `sendmmsg`. While
//! late answers are pending they also wait for the waker of their [`transport::WorkerContext`], and send the
//! answers that are ready in batches of their own. TCP threads each run a single-threaded tokio runtime; the
//! complete messages found in one read are a batch. So do QUIC threads, each with an endpoint of the crate
//! `quinn`; the kernel selects among their sockets by addresses and ports.
//!
//! # Passed sockets
//!
//! [`PassedSocket`] takes over a socket opened by the process that started this one, and
//! [`Listener::from_udp`], [`Listener::from_quic`] and [`Listener::from_tcp`] build listeners from such
//! sockets. The socket stays open when the listener stops, and is passed to the process started next; so
//! queries that a stopping worker has not read stay in it, and the next process answers them.
//!
//! # AF_XDP
//!
//! [`Listener::xdp`] puts a front before UDP listeners that are already bound: it takes their plain queries
//! from the receive queues of a network interface, one worker a queue, and leaves everything else to their
//! sockets. Where the kernel, the driver or the permissions do not suffice, it returns an error with the
//! reason, and the sockets serve without a front.
//!
//! # Proxies
//!
//! [`Proxies`] has the networks of proxies, whose datagrams and connections must begin with a header that
//! names the client ([`transport::ProxyHeader`]). The query has the named client; the reply goes to the
//! proxy. [`HttpProxies`] has those that pass requests on by HTTP, the only ones that listeners without TLS
//! serve, and the header of a request in which they name the client ([`transport::ForwardedHeader`]).
//!
//! # Outgoing messages
//!
//! [`Outgoing`] drives a [`transport::Core`], which decides what is sent to other servers. It has a thread
//! of its own, and datagram workers can drive the core for their own requests and wait for the replies beside
//! their sockets. A worker that answers never waits for another server, nor for another thread.
//!
//! # Reload
//!
//! A listener whose address and settings did not change keeps running: the handler reads new data from the
//! snapshot that it pins at the start of [`transport::Handler::batch`]. [`Running::stop`] ends one listener,
//! after it has answered what its sockets already held, without affecting the others.
//!
//! # Other crates
//!
//! This crate, `server`, `serving` and `zone-manager` use tokio; `async` ends where a connection calls its
//! handler. This crate reads the clock for timeouts.

mod alarm;
mod client_names;
mod config;
mod fault;
mod framing;
mod guard;
mod handshakes;
mod http3;
mod job;
mod listener;
mod oblivious;
mod outgoing;
mod passed;
mod proxies;
mod quic;
mod ready;
mod refusal;
mod running;
mod shutdown;
mod stats;
mod sys;
mod tcp;
mod udp;
mod xdp;

pub use client_names::ClientNames;
pub use config::{
    HttpCacheTime, IdentifyClient, KeepaliveCheck, ListenerConfig, Spread, TcpConfig, UdpBackend, UdpConfig,
};
pub use fault::{WorkerFault, WorkerFaultKind, WorkerId};
pub use handshakes::TlsChallenges;
pub use listener::{Bound, Listener, ServeError};
pub use oblivious::{ObliviousQuery, ObliviousRefusal, ObliviousTarget, PublishedConfigs, SealResponse};
pub use outgoing::{
    EncryptedStream, Outgoing, OutgoingConfig, OutgoingCounts, PeerStream, connect, encryption_fault,
};
pub use passed::{PassedFault, PassedSocket};
pub use proxies::{HttpProxies, Proxies};
pub use refusal::{BindError, BindFault};
pub use running::{Context, ListenerTls, Running};
pub use shutdown::Shutdown;
pub use stats::{ListenerStats, Totals};
pub use tcp::{TcpLimits, TcpTimes};
pub use xdp::{XdpAttach, XdpConfig, XdpCopy, XdpMode};
