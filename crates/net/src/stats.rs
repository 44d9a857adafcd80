//! Counters: each worker writes its own, a reader sums them. No logging and no export format here.

use std::sync::Arc;

use transport::Counter;

macro_rules! counters {
    ($($(#[doc = $doc:literal])* $name:ident,)*) => {
        /// The counters of one worker, written only by its thread, on cache lines of their own.
        #[derive(Default)]
        #[repr(align(128))]
        pub(crate) struct WorkerStats { $(pub(crate) $name: Counter,)* }

        /// Sums of counters since the listener started.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Totals {
            $($(#[doc = $doc])* pub $name: u64,)*
        }

        impl Totals {
            /// The name and description of every counter, in the order of [`iter`](Self::iter).
            pub const DESCRIBED: &'static [(&'static str, &'static str)] =
                &[$((stringify!($name), concat!($($doc,)*)),)*];

            fn of(worker: &WorkerStats) -> Self {
                Totals { $($name: worker.$name.get(),)* }
            }

            fn add(&mut self, others: &Self) {
                $(self.$name = self.$name.wrapping_add(others.$name);)*
            }

            /// Returns every counter with its name, in a fixed order, for metrics.
            pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name),)*].into_iter()
            }
        }
    };
}

counters! {
    /// Queries passed to the handler.
    queries,
    /// Bytes of the queries passed to the handler.
    bytes_in,
    /// Queries dropped because the socket was overloaded and their networks had used their shares
    /// (`udp-fair-shares`).
    shed,
    /// Batches passed to the handler; `queries / batches` is their average size.
    batches,
    /// Messages sent: at once, late or from streams; over TCP, passed to the connection.
    replies,
    /// Bytes of the replies sent, TCP length prefixes not counted.
    bytes_out,
    /// Replies sent together with others in one system call.
    joined,
    /// Queries dropped by the handler, or left without a decision.
    dropped,
    /// Queries that the handler answers later.
    pending,
    /// Queries answered by a stream of messages.
    streams,
    /// Streams offered on UDP, which cannot carry them.
    streams_refused,
    /// Replies dropped because they were empty or longer than their buffer.
    bad_replies,
    /// Messages shorter than a DNS header, or from port 0.
    runts,
    /// Datagrams longer than the longest query that is accepted.
    too_long,
    /// Datagrams and connections of proxies dropped because they did not begin with a PROXY header, and
    /// requests over HTTP without the header that names the client.
    proxy_missing,
    /// Datagrams, connections and requests of proxies dropped because their header was malformed.
    proxy_malformed,
    /// Datagrams, connections and requests of proxies dropped because their header was too long.
    proxy_too_long,
    /// Datagrams, connections and requests of proxies dropped because their header named no IP address.
    proxy_no_address,
    /// Panics of the handler.
    panics,
    /// Errors on receiving messages or accepting connections.
    receive_errors,
    /// Sockets reopened after an error.
    rebinds,
    /// Replies lost because the send buffer stayed full.
    send_full,
    /// Replies lost because they were too long for the path or interface.
    send_too_big,
    /// Replies lost because a firewall or policy refused them.
    send_denied,
    /// Replies lost because there was no route to the client.
    send_unreachable,
    /// Replies lost for any other reason.
    send_other,
    /// Frames received by AF_XDP.
    xdp_frames_in,
    /// Frames sent by AF_XDP.
    xdp_frames_out,
    /// Frames of any kind passed to the kernel, on queues with AF_XDP. May lag behind.
    xdp_passed,
    /// Frames dropped because of a wrong checksum.
    xdp_bad_checksums,
    /// Frames dropped because of inconsistent lengths or an impossible source address.
    xdp_malformed,
    /// Frames lost because the receive ring was full. May lag behind.
    xdp_lost,
    /// Times that queries had to wait because the kernel still held every frame for replies.
    xdp_no_frame,
    /// TCP connections accepted and served.
    tcp_accepted,
    /// TCP connections closed, for any reason; open ones are `tcp_accepted - tcp_closed`.
    tcp_closed,
    /// TCP connections closed by the client in an orderly way.
    tcp_closed_by_peer,
    /// TCP connections closed after an error of the socket, such as a reset.
    tcp_closed_error,
    /// TCP connections closed because of `tcp-idle-timeout`.
    tcp_timeout_idle,
    /// TCP connections closed because of `tcp-first-timeout`.
    tcp_timeout_first,
    /// TCP connections closed because of `tcp-message-timeout`.
    tcp_timeout_message,
    /// TCP connections closed because of `tcp-write-timeout`.
    tcp_timeout_write,
    /// TCP connections closed because of a message shorter than a DNS header.
    tcp_bad_framing,
    /// TCP connections closed because a stream of messages failed.
    tcp_stream_failed,
    /// TCP connections that were idle, or whose clients read nothing, closed to make room for new ones.
    tcp_evicted,
    /// TCP connections closed because the listener stopped.
    tcp_stopped,
    /// TLS handshakes that were completed, resumed sessions included.
    tls_handshakes,
    /// TLS handshakes that resumed an earlier session.
    tls_resumed,
    /// Connections closed because their first bytes were not TLS, or a message of it was malformed.
    tls_malformed,
    /// Connections closed because the client and this server have no TLS version, cipher suite or application
    /// protocol in common.
    tls_incompatible,
    /// Connections that the client ended during the handshake with an alert; clients that do not accept the
    /// certificate do so.
    tls_refused,
    /// Connections that ended during the handshake for any other reason, such as a reset.
    tls_broken,
    /// HTTP requests without a usable DNS message, which get an HTTP status other than 200.
    https_bad_requests,
    /// Queries of Oblivious DoH that were decrypted; included in the queries.
    odoh_queries,
    /// Queries of Oblivious DoH that are encrypted to a key that this server does not have, or not any more;
    /// included in the bad HTTP requests.
    odoh_unknown_key,
    /// Queries of Oblivious DoH that cannot be read or decrypted; included in the bad HTTP requests.
    odoh_malformed,
    /// Queries of Oblivious DoH that were not decrypted because their client had sent too many malformed ones
    /// (`malformed-per-second`); included in the bad HTTP requests.
    odoh_limited,
    /// Connections to HTTP without TLS closed at once because their address is in no list of proxies.
    http_unlisted,
    /// QUIC connections closed because the client broke the rules of DNS over QUIC (RFC 9250 §4.3.3) or
    /// HTTP/3 (RFC 9114 §8).
    quic_protocol_errors,
    /// Queries over QUIC that the client cancelled; their answers are dropped.
    quic_cancelled,
    /// QUIC clients that had to show first that their address is their own (Retry), because many handshakes
    /// were pending.
    quic_retries,
    /// TCP connections refused because the limit was reached and no other could be closed for them.
    tcp_refused_full,
    /// TCP connections refused because their client had too many.
    tcp_refused_client,
    /// TCP connections refused because their network had too many.
    tcp_refused_network,
    /// TCP connections refused because the process had no file descriptor left.
    tcp_refused_descriptors,
    /// Late answers that were sent; included in the replies.
    late_replies,
    /// Late answers lost because their connection was closed, or no socket sends from the queried address.
    late_lost,
}

/// The counters of a listener. Reading them does not disturb the workers.
#[derive(Clone)]
pub struct ListenerStats {
    pub(crate) workers: Vec<Arc<WorkerStats>>,
}

impl ListenerStats {
    pub(crate) fn new(workers: usize) -> Self {
        ListenerStats { workers: (0..workers).map(|_| Arc::default()).collect() }
    }

    /// Returns the sums over all workers.
    pub fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        self.per_worker().for_each(|worker| totals.add(&worker));
        totals
    }

    /// Returns the counters of each worker.
    pub fn per_worker(&self) -> impl Iterator<Item = Totals> {
        self.workers.iter().map(|worker| Totals::of(worker))
    }
}
