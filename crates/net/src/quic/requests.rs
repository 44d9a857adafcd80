//! One connection of HTTP/3, after its handshake: it takes requests as far as the limits allow, follows the
//! unidirectional streams of its client, and ends when its client, a timeout, an event or an error ends it.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use quinn::{Connection, ReadError, RecvStream, SendStream, VarInt};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinSet;
use tokio::time::{sleep_until, timeout, timeout_at};
use transport::HandlerFactory;

use super::client::QuicClient;
use super::end::{End, lost};
use super::request::{self, RequestFault, code};
use crate::http3::{self, ControlStreams, H3Code, H3Fault, UniStream};
use crate::tcp::{Close, ConnectionEvent};

/// Most bytes of a unidirectional stream that are read at once.
const CONTROL_STEP: usize = 4096;
/// Longest wait until the last frame of the control stream is on its way.
const FAREWELL: Duration = Duration::from_millis(50);
/// Difference between the numbers of two streams of one kind (RFC 9000 §2.1).
const STREAM_STEP: u64 = 4;

/// The end of a connection whose listener stops.
const STOPPED: End = (Close::Stopped, code(H3Code::NoError), "the server stops");

/// Takes streams until the connection ends.
pub(super) async fn drive<F: HandlerFactory>(
    connection: &Connection,
    quic: &Rc<QuicClient<F>>,
    events: &mut UnboundedReceiver<ConnectionEvent>,
) -> End {
    let first = Instant::now() + quic.times().first_message;
    let mut control = match timeout_at(first.into(), begin(connection)).await {
        Ok(Ok(control)) => control,
        Ok(Err(())) => return lost_end(connection),
        Err(_) => return (Close::First, code(H3Code::StreamCreation), "no stream for settings is allowed"),
    };
    // Dropped with the connection, which ends the streams.
    let mut requests: JoinSet<Result<(), RequestFault>> = JoinSet::new();
    let mut unidirectional: JoinSet<Result<(), H3Fault>> = JoinSet::new();
    let open = Rc::new(RefCell::new(ControlStreams::default()));
    // The number of the first stream that has not been taken.
    let mut next = 0;
    let mut ending: Option<Instant> = None;
    loop {
        let at = ending.unwrap_or_else(|| quic.deadline().0);
        if ending.is_some_and(|at| at <= Instant::now()) {
            return STOPPED;
        }
        let is_over = ending.is_some() && quic.is_quiet();
        tokio::select! {
            biased;
            event = events.recv() => match event {
                Some(ConnectionEvent::Late(_)) => {}
                Some(ConnectionEvent::Evict) => {
                    return (Close::Evicted, code(H3Code::ExcessiveLoad), "too many connections");
                }
                Some(ConnectionEvent::Drain) | None => if ending.is_none() {
                    ending = Some(Instant::now() + quic.config.drain);
                    let _ = timeout(FAREWELL, control.write_all(&http3::goaway(next))).await;
                },
            },
            Some(served) = requests.join_next() => if let Ok(Err(fault)) = served {
                return end_of(fault);
            },
            Some(followed) = unidirectional.join_next() => if let Ok(Err(fault)) = followed {
                return end_of(RequestFault::Protocol(fault));
            },
            stream = connection.accept_bi(), if ending.is_none() && quic.has_room() => match stream {
                Ok((to_client, from_client)) => {
                    next = VarInt::from(to_client.id()).into_inner() + STREAM_STEP;
                    // It counts from now on, not from its first poll.
                    quic.begin();
                    let quic = Rc::clone(quic);
                    requests.spawn_local(async move { request::serve(&quic, to_client, from_client).await });
                }
                Err(_) => return lost_end(connection),
            },
            stream = connection.accept_uni() => match stream {
                Ok(stream) => {
                    unidirectional.spawn_local(follow(stream, Rc::clone(&open)));
                }
                Err(_) => return lost_end(connection),
            },
            () = std::future::ready(()), if is_over => return STOPPED,
            () = quic.changed() => {}
            () = sleep_until(at.into()) => match (ending, quic.deadline()) {
                (Some(_), _) => return STOPPED,
                (None, (at, close)) if at <= Instant::now() => return (close, code(H3Code::NoError), "idle"),
                (None, _) => {}
            },
        }
    }
}

/// Opens the server's control stream, and sends the settings.
async fn begin(connection: &Connection) -> Result<SendStream, ()> {
    let mut control = connection.open_uni().await.map_err(|_| ())?;
    control.write_all(&http3::opening()).await.map_err(|_| ())?;
    Ok(control)
}

/// Returns the end of a connection that this side did not close.
fn lost_end(connection: &Connection) -> End {
    let close = connection.close_reason().map_or(Close::Error, |error| lost(&error));
    (close, code(H3Code::NoError), "")
}

/// Reads a unidirectional stream of the client until it ends.
async fn follow(mut from_client: RecvStream, open: Rc<RefCell<ControlStreams>>) -> Result<(), H3Fault> {
    let mut stream = UniStream::default();
    loop {
        match from_client.read_chunk(CONTROL_STEP, true).await {
            Ok(Some(chunk)) => {
                if !stream.read(&chunk.bytes, &mut open.borrow_mut())? {
                    let _ = from_client.stop(code(H3Code::StreamCreation));
                    return Ok(());
                }
            }
            Ok(None) | Err(ReadError::Reset(_)) => return stream.end(),
            // The connection is lost.
            Err(_) => return Ok(()),
        }
    }
}

/// Returns the end of a connection by one of its streams.
fn end_of(fault: RequestFault) -> End {
    match fault {
        RequestFault::Protocol(fault) => (Close::Protocol, code(fault.code), fault.reason),
        RequestFault::Write => (Close::Write, code(H3Code::ExcessiveLoad), "answers are not read"),
    }
}
