//! Counters: each worker writes its own, a reader sums them. No logging and no export format here.

use std::sync::Arc;

use exchange::Counter;

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
    /// Batches passed to the handler; `queries / batches` is how full they are.
    batches,
    /// Messages sent: at once, late or from streams. Over TCP: passed to the connection.
    replies,
    /// Bytes of the replies sent, TCP length prefixes not counted.
    bytes_out,
    /// Replies that left together with others, in one send.
    joined,
    /// Queries the handler decided to drop or left undecided.
    dropped,
    /// Queries the handler left to be answered later.
    pending,
    /// Queries answered by a stream of messages.
    streams,
    /// Streams offered on UDP, which cannot carry them.
    streams_refused,
    /// Replies longer than their buffer or empty, dropped.
    bad_replies,
    /// Messages shorter than a DNS header, or from port 0.
    runts,
    /// Datagrams longer than the longest query taken.
    too_long,
    /// Panics of the handler.
    panics,
    /// Errors when receiving or accepting.
    receive_errors,
    /// Sockets reopened after an error.
    rebinds,
    /// Replies lost because the send buffer stayed full.
    send_full,
    /// Replies lost because they were too long for the path or interface.
    send_too_big,
    /// Replies lost to a firewall or a policy.
    send_denied,
    /// Replies lost because no route led to the client.
    send_unreachable,
    /// Replies lost for any other reason.
    send_other,
    /// Frames an AF_XDP front took.
    xdp_frames_in,
    /// Frames an AF_XDP front sent.
    xdp_frames_out,
    /// Frames of any kind left to the kernel, on the queues of an AF_XDP front. As of some moment ago.
    xdp_passed,
    /// Frames dropped because of a wrong checksum.
    xdp_bad_checksums,
    /// Frames dropped because of lengths that do not fit or a source that cannot be.
    xdp_malformed,
    /// Frames lost because the receive ring was full. As of some moment ago.
    xdp_lost,
    /// Times that queries had to wait because the kernel held on to every frame for replies.
    xdp_no_frame,
    /// TCP connections accepted and served.
    tcp_accepted,
    /// TCP connections over, for whatever reason: current ones are `tcp_accepted - tcp_closed`.
    tcp_closed,
    /// Closed by the client, in order.
    tcp_closed_by_peer,
    /// Closed after an error of the socket, such as a reset.
    tcp_closed_error,
    /// Closed because nothing was asked for too long.
    tcp_timeout_idle,
    /// Closed because no first message came in time.
    tcp_timeout_first,
    /// Closed because a message that had begun was not completed in time.
    tcp_timeout_message,
    /// Closed because the client read too slowly.
    tcp_timeout_write,
    /// Closed because of a message shorter than a DNS header.
    tcp_bad_framing,
    /// Closed because a stream failed.
    tcp_stream_failed,
    /// Closed to make room for a new connection.
    tcp_evicted,
    /// Closed because the listener stopped.
    tcp_stopped,
    /// Connections turned away because the limit was reached and none was idle.
    tcp_refused_full,
    /// Connections turned away because their client had too many.
    tcp_refused_client,
    /// Connections turned away because the process had no file descriptor left.
    tcp_refused_descriptors,
    /// Answers that came later and were sent; among the replies.
    late_replies,
    /// Late answers that found their connection gone, or no socket that sends from the address asked.
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
