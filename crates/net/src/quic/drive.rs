//! One connection after its handshake, of either protocol: it takes streams as far as the limits allow, and
//! ends when its client, a timeout, an event or an error of a stream ends it.

use std::rc::Rc;
use std::time::Instant;

use quinn::{Connection, RecvStream, SendStream, VarInt};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinSet;
use tokio::time::sleep_until;
use transport::HandlerFactory;

use super::client::QuicClient;
use super::end::{End, lost};
use crate::tcp::{Close, ConnectionEvent};

/// Difference between the numbers of two streams of one kind (RFC 9000 §2.1).
const STREAM_STEP: u64 = 4;

/// What a protocol does with the streams of a connection.
pub(super) trait StreamService: Clone + 'static {
    /// The code of a connection that is not needed any more.
    const NO_ERROR: VarInt;
    /// The code of a client that takes more than there is room for.
    const EXCESSIVE_LOAD: VarInt;
    /// Whether streams are taken while the connection is being ended: a client of a protocol that cannot
    /// announce the end does not know that it must not begin any.
    const TAKES_LATE_STREAMS: bool;

    /// Serves a stream of the client.
    ///
    /// # Errors
    /// The end of the connection.
    async fn serve<F: HandlerFactory>(
        self,
        quic: Rc<QuicClient<F>>,
        to_client: SendStream,
        from_client: RecvStream,
    ) -> Result<(), End>;

    /// Reads a unidirectional stream of the client.
    ///
    /// # Errors
    /// The end of the connection.
    async fn follow(self, from_client: RecvStream) -> Result<(), End>;

    /// Announces that the connection ends, and that streams from number `next` on are not served.
    async fn announce_end(&self, next: u64);
}

/// Takes streams until the connection ends.
pub(super) async fn drive<F: HandlerFactory, S: StreamService>(
    connection: &Connection,
    quic: &Rc<QuicClient<F>>,
    events: &mut UnboundedReceiver<ConnectionEvent>,
    service: S,
) -> End {
    let stopped = (Close::Stopped, S::NO_ERROR, "the server stops");
    // Dropped with the connection, which ends the streams.
    let mut streams: JoinSet<Result<(), End>> = JoinSet::new();
    // The number of the first stream that has not been taken.
    let mut next = 0;
    let mut ending: Option<Instant> = None;
    loop {
        let at = ending.unwrap_or_else(|| quic.deadline().0);
        // Streams that are always ready must not keep the connection from its end.
        if ending.is_some_and(|at| at <= Instant::now()) {
            return stopped;
        }
        let is_over = ending.is_some() && quic.is_quiet();
        let takes_streams = quic.has_room() && (S::TAKES_LATE_STREAMS || ending.is_none());
        tokio::select! {
            biased;
            event = events.recv() => match event {
                Some(ConnectionEvent::Late(_)) => {}
                Some(ConnectionEvent::Evict) => {
                    return (Close::Evicted, S::EXCESSIVE_LOAD, "too many connections");
                }
                Some(ConnectionEvent::Drain) | None => if ending.is_none() {
                    ending = Some(Instant::now() + quic.config.drain);
                    service.announce_end(next).await;
                },
            },
            Some(served) = streams.join_next() => if let Ok(Err(end)) = served {
                return end;
            },
            stream = connection.accept_bi(), if takes_streams => match stream {
                Ok((to_client, from_client)) => {
                    next = VarInt::from(to_client.id()).into_inner() + STREAM_STEP;
                    // It counts from now on, not from its first poll.
                    quic.begin();
                    streams.spawn_local(service.clone().serve(Rc::clone(quic), to_client, from_client));
                }
                Err(error) => return (lost(&error), S::NO_ERROR, ""),
            },
            stream = connection.accept_uni() => match stream {
                Ok(from_client) => {
                    streams.spawn_local(service.clone().follow(from_client));
                }
                Err(error) => return (lost(&error), S::NO_ERROR, ""),
            },
            () = std::future::ready(()), if is_over => return stopped,
            () = quic.changed() => {}
            () = sleep_until(at.into()) => match (ending, quic.deadline()) {
                (Some(_), _) => return stopped,
                (None, (at, close)) if at <= Instant::now() => return (close, S::NO_ERROR, "idle"),
                (None, _) => {}
            },
        }
    }
}
