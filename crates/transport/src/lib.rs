//! The types that transports and the query path exchange: queries in batches; replies at once, later, or as
//! streams.
//!
//! `net` fills a [`Batch`] and calls a [`Handler`]; `query-path` implements one. Neither depends on the
//! other. This crate holds the types of that exchange. Not here: sockets and framing (`net`), parsing of
//! queries (`query-path`).
//!
//! # The life of a query
//!
//! ```text
//!                    ┌ Reply(n)   the first n bytes of its buffer are sent with the batch
//! Batch ─▶ Handler ──┼ Drop       no reply
//!          ::batch   ├ Stream(s)  the transport pulls messages from s, as the client reads them
//!                    └ Pending    the handler keeps a ReturnAddress, and wakes the worker when it has the
//!   answer: the worker calls Handler::late, which writes answers for any number of addresses
//! ```
//!
//! Each `Pending` is settled once through [`Handler::late`], by a reply, a stream or `Drop`. Workers count
//! pending queries, and when they stop, wait for them for up to their drain time.
//!
//! Messages that this server sends to other servers on its own account do not use this path: a [`Core`]
//! decides about them.
//!
//! # Files
//!
//! | file | holds |
//! |---|---|
//! | `batch.rs` | [`Batch`]: the queries received together, and the buffers for their replies |
//! | `handler.rs` | [`Handler`], which a transport calls; [`WorkerContext`], the worker that a handler is built for |
//! | `outcome.rs`, `stream.rs` | the result for a query: [`Outcome`], and [`MessageStream`] for answers of many messages |
//! | `late.rs` | [`LateQueue`]: late answers on their way back to the worker |
//! | `outgoing.rs` | [`Core`]: a state machine that decides which messages are sent to other servers |
//! | `encryption.rs` | [`Encryption`] of connections to other servers |
//! | `certificate.rs` | [`ClientCertificate`] of a connection, and rules about it |
//! | `client.rs`, `packets.rs` | the client and the return address; batches without a transport |
//! | `proxy_header.rs` | [`ProxyHeader`]: the client that a proxy names before a message or stream |
//! | `forwarded.rs` | [`ForwardedHeader`]: the client that a proxy names in a request of HTTP |
//! | `suspect.rs` | the message that a worker panicked over: [`SuspectMessage`] |
//! | `transport.rs`, `clock.rs`, `counter.rs` | the transports, a line each; the clocks; counters |
//!
//! `resolver` has a core, and `zone-manager` one for secondaries. Files depend on each other one way only.
#![forbid(unsafe_code)]

mod batch;
mod certificate;
mod client;
mod clock;
mod counter;
mod encryption;
mod forwarded;
mod handler;
mod late;
mod outcome;
mod outgoing;
mod packets;
mod proxy_header;
mod stream;
mod suspect;
mod transport;

pub use batch::{Batch, Envelope, Queries, Query, Replies};
pub use certificate::{CertificateRule, CertificateRuleFault, ClientCertificate};
pub use client::{Client, ReplyRoute, ReturnAddress};
pub use clock::{Clock, unix_now};
pub use counter::Counter;
pub use encryption::{
    ConnectionSession, ENCRYPTION_FAULTS, EncryptedSession, Encryption, EncryptionFault, SessionState,
    StreamedEvent, StreamedSession, TargetKeyServer,
};
pub use forwarded::ForwardedHeader;
pub use handler::{Handler, HandlerFactory, WorkerContext};
pub use late::{LateLayout, LateQueue, LateReplies, wake_together};
pub use outcome::Outcome;
pub use outgoing::{Action, Core, Event, Link, NumberHasher, NumberMap};
pub use packets::{LateAnswer, Packets};
pub use proxy_header::{ProxiedEnds, ProxyHeader, ProxyHeaderFault};
pub use stream::{MessageStream, Next};
pub use suspect::{MessageGuard, SuspectMessage};
pub use transport::{TRANSPORTS, Transport};

/// The shortest message that a handler gets, in bytes: the DNS header (RFC 1035 §4.1.1).
pub const MIN_MESSAGE: usize = 12;
/// The longest message a stream can carry, in bytes (RFC 1035 §4.2.2).
pub const MAX_MESSAGE: usize = 65_535;
